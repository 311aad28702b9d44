"""Our beam search finds the sentences of `transformers.generate`, in batches of any kind."""

import pytest

from corpusfit.training.decoding import beam_search
from corpusfit.training.plan import DecodePlan

pytestmark = pytest.mark.slow

pytest.importorskip("torch")

PAD, END, WORDS = 0, 1, 30
LONGEST = 18


def source(generator):
    """A source sentence: 2 to 10 words, and the end token."""
    import torch

    n = int(torch.randint(2, 11, (1,), generator=generator))
    return [*torch.randint(4, WORDS, (n,), generator=generator).tolist(), END]


def target(row):
    """Its translation: another word for each, some of them twice."""
    return [4 + t * 7 % (WORDS - 4) for t in row[:-1] for _ in range(1 + (t % 5 == 0))] + [END]


def padded(rows, fill=PAD):
    import torch

    tensors = [torch.tensor(row) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=fill)


def fitted(kind, steps):
    """A tiny model that has seen some translations: unsure enough for beams to differ."""
    import torch
    import transformers

    torch.manual_seed(0)
    same = {"vocab_size": WORDS, "pad_token_id": PAD, "eos_token_id": END}
    same |= {"decoder_start_token_id": PAD, "d_model": 32}
    if kind == "t5":
        config = transformers.T5Config(
            **same, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0.0
        )
        model = transformers.T5ForConditionalGeneration(config)
    else:
        sides = {"layers": 2, "attention_heads": 4, "ffn_dim": 64}
        same |= {f"{s}_{k}": v for s in ("encoder", "decoder") for k, v in sides.items()}
        same |= {"max_position_embeddings": 64, "dropout": 0.0, "bos_token_id": 2}
        same |= {"scale_embedding": True, "init_std": 0.1}
        names = {"marian": ("MarianConfig", "MarianMTModel")}
        names["bart"] = ("BartConfig", "BartForConditionalGeneration")
        config, model = (getattr(transformers, name) for name in names[kind])
        model = model(config(**same, forced_eos_token_id=END))
    chance = torch.Generator().manual_seed(1)
    steps_of = torch.optim.Adam(model.parameters(), 4e-3)
    for _ in range(steps):
        rows = [source(chance) for _ in range(24)]
        ids = padded(rows)
        labels = padded([target(row) for row in rows], -100)
        loss = model(input_ids=ids, attention_mask=(ids != PAD).long(), labels=labels).loss
        steps_of.zero_grad()
        loss.backward()
        steps_of.step()
    return model.eval()


@pytest.fixture(scope="module")
def models():
    return {
        kind: fitted(kind, steps) for kind, steps in (("marian", 150), ("bart", 80), ("t5", 80))
    }


@pytest.fixture(scope="module")
def rows():
    import torch

    chance = torch.Generator().manual_seed(2)
    return [source(chance) for _ in range(40)]


def generated(model, rows):
    """The peer, in one padded batch."""
    import torch

    ids = padded(rows)
    with torch.inference_mode():
        found = model.generate(
            input_ids=ids,
            attention_mask=(ids != PAD).long(),
            num_beams=5,
            max_new_tokens=LONGEST,
            do_sample=False,
        )
    shown = (row[1:] for row in found.tolist())
    return [row[: row.index(END) + 1] if END in row else row for row in shown]


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("marian", {}),
        ("marian", {"bad_words_ids": [[7], [8, 9]], "renormalize_logits": True}),
        ("marian", {"length_penalty": 0.4, "suppress_tokens": [11, 12]}),
        ("marian", {"early_stopping": True}),
        ("marian", {"early_stopping": "never", "length_penalty": 2.0}),
        ("marian", {"repetition_penalty": 1.3, "begin_suppress_tokens": [20, 21, 22]}),
        ("bart", {"forced_bos_token_id": 2, "no_repeat_ngram_size": 3, "min_length": 6}),
        ("t5", {}),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_the_sentences_are_those_of_generate(models, rows, monkeypatch, kind, settings):
    model = models[kind]
    for name, value in settings.items():
        monkeypatch.setattr(model.generation_config, name, value, raising=False)
    found = beam_search(model, rows, DecodePlan(5, LONGEST))
    assert found == generated(model, rows)
    assert len({tuple(row) for row in found}) > 15


def test_batches_of_any_size_and_order_give_the_same(models, rows):
    model = models["marian"]
    found = beam_search(model, rows, DecodePlan(5, LONGEST))
    for budget in (1, 40, 10_000):
        assert beam_search(model, rows, DecodePlan(5, LONGEST), budget=budget) == found
    assert beam_search(model, rows[::-1], DecodePlan(5, LONGEST)) == found[::-1]


def test_one_beam_takes_the_likeliest_token(models, rows):
    import torch

    model = models["marian"]
    greedy = beam_search(model, rows[:5], DecodePlan(1, LONGEST))
    for row, found in zip(rows[:5], greedy, strict=True):
        tokens = [PAD]
        while len(tokens) <= LONGEST - 1 and tokens[-1] != END:
            with torch.inference_mode():
                logits = model(
                    input_ids=torch.tensor([row]), decoder_input_ids=torch.tensor([tokens])
                ).logits
            tokens.append(int(logits[0, -1].argmax()))
        assert found == (tokens[1:] if tokens[-1] == END else [*tokens[1:], END])


def test_a_length_that_a_model_states_is_not_warned_of(models, rows, monkeypatch):
    """Models of Marian state a `max_length`, of which transformers warns in every batch."""
    from transformers.generation import utils

    said = []
    monkeypatch.setattr(utils.logger, "warning", lambda text, *_: said.append(text))
    monkeypatch.setattr(models["marian"].generation_config, "max_length", 512)
    assert len(beam_search(models["marian"], rows[:2], DecodePlan(longest=LONGEST))) == 2
    assert not said
