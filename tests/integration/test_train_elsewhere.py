"""A selection in other trainers: packed rows, weights, and transformers' own Trainer and losses."""

import pickle
import runpy
import sys
from functools import partial
from pathlib import Path

import pytest
from journeys import prose

import corpusfit
from corpusfit.core.errors import InputError, UsageError

torch = pytest.importorskip("torch", reason="the extra models is not installed")
transformers = pytest.importorskip("transformers", reason="the extra models is not installed")
pytest.importorskip("accelerate", reason="the extra train is not installed")

EXAMPLE = Path(__file__).parents[2] / "examples" / "trainer.py"
LENGTH = 64


@pytest.fixture(scope="module")
def tokenizer(tiny_gpt):
    return transformers.AutoTokenizer.from_pretrained(tiny_gpt)


@pytest.fixture(scope="module")
def selection(tmp_path_factory, inline):
    """All of a small corpus, in parts, with weights from 0.1 to 0.9."""
    folder = tmp_path_factory.mktemp("selection")
    texts = [*prose("task", 30, seed=2, most=12), *prose("market", 30, seed=3, most=40)]
    return corpusfit.select(
        target=prose("task", 20),
        corpus=texts,
        out=folder / "out",
        method="dsir",
        policy="continuous",
        settings=["choose.c=3"],
        machine=inline,
    )


@pytest.fixture
def packed(selection, tokenizer, inline):
    return partial(corpusfit.PackedDataset, selection, tokenizer, LENGTH, machine=inline)


@pytest.fixture(scope="module")
def llama(tokenizer):
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        initializer_range=0.5,
        max_position_embeddings=LENGTH,
    )
    torch.manual_seed(0)
    return transformers.LlamaForCausalLM(config).eval()


def pieces(row):
    """The token ids of each text of a row, with its weight; padding has no label at all."""
    begins = (row["position_ids"] == 0).nonzero().flatten().tolist()
    for begin, end in zip(begins, [*begins[1:], len(row["labels"])], strict=True):
        weights = row["weights"][begin:end]
        assert (weights == weights[0]).all()
        if weights[0] > 0:
            assert row["labels"][begin] == -100
            assert torch.equal(row["labels"][begin + 1 : end], row["input_ids"][begin + 1 : end])
            yield row["input_ids"][begin:end], float(weights[0])
        else:
            assert (row["labels"][begin:end] == -100).all()


def ids(rows):
    return sorted(tuple(row["input_ids"].tolist()) for row in rows)


def same(rows, others):
    return len(rows) == len(others) and all(
        torch.equal(row[name], other[name])
        for row, other in zip(rows, others, strict=True)
        for name in row
    )


def test_every_token_of_the_selection_is_there_once_with_its_weight(packed, selection, tokenizer):
    found = {}
    for row in packed():
        for text, weight in pieces(row):
            found.setdefault(round(weight, 4), []).append(text.tolist())
    end = tokenizer.eos_token_id
    tokens = [tokenizer(s["text"])["input_ids"] + [end] for s in selection]
    weights = [s["weight"] for s in selection]
    total = sum(map(len, tokens))
    # TADPOLE, equation 1: lambda over its mean, here that over tokens as in `adapt`
    mean = sum(w * len(t) for w, t in zip(weights, tokens, strict=True)) / total
    expected = {}
    for weight, text in zip(weights, tokens, strict=True):
        cut = [text[at : at + LENGTH] for at in range(0, len(text), LENGTH)]
        expected.setdefault(round(weight / mean, 4), []).extend(cut)
    assert max(expected) > 1.5 * min(expected)
    assert {w: sorted(t) for w, t in found.items()} == {w: sorted(t) for w, t in expected.items()}
    assert any(len(list(pieces(row))) > 2 for row in packed())


@pytest.mark.parametrize("kind", ["llama", "gpt2"])
def test_the_loss_of_a_batch_is_the_mean_of_the_losses_of_its_texts(packed, kind, tiny_gpt, llama):
    model = llama
    if kind == "gpt2":
        model = transformers.AutoModelForCausalLM.from_pretrained(tiny_gpt).eval()
        with torch.no_grad():  # its loss of 40 has steps of 4e-6 in fp32, above the bound below
            for parameter in model.parameters():
                parameter.div_(8)
    rows = list(packed())[:6]
    total, weighted, count = 0.0, 0.0, 0
    with torch.no_grad():
        for text, weight in (piece for row in rows for piece in pieces(row)):
            if len(text) > 1:
                loss = (len(text) - 1) * float(model(text[None], labels=text[None]).loss)
                total, weighted, count = (
                    total + loss,
                    weighted + weight * loss,
                    count + len(text) - 1,
                )
        batch = corpusfit.PackedDataset.collate(rows)
        weights = batch.pop("weights")
        outputs = model(**batch, use_cache=False)
    assert float(outputs.loss) == pytest.approx(total / count, abs=1e-5)
    labels = batch["labels"]
    plain = corpusfit.PackedDataset.weighted_loss(outputs, labels)
    assert float(plain) == pytest.approx(float(outputs.loss), abs=1e-6)
    found = corpusfit.PackedDataset.weighted_loss(outputs, labels, weights=weights)
    assert float(found) == pytest.approx(weighted / count, abs=1e-5)
    assert abs(weighted - total) / count > 1e-3
    halves = corpusfit.PackedDataset.weighted_loss(
        outputs, labels, torch.tensor(2 * count), weights=weights
    )
    assert float(halves) == pytest.approx(float(found) / 2)


def test_any_sampler_and_workers_read_the_rows(packed):
    data = packed()
    every = ids(data)
    assert len(data) == len(every) > 20
    loader = torch.utils.data.DataLoader(data, batch_size=None, shuffle=True, num_workers=2)
    assert ids(loader) == every
    # spawned workers get a pickle, also of a dataset that was read
    assert same(list(pickle.loads(pickle.dumps(data))), list(data))


def test_the_seed_decides_the_rows(packed):
    assert same(list(packed(seed=1)), list(packed(seed=1)))
    assert ids(packed(seed=2)) != ids(packed(seed=1))


class Killed(Exception):
    pass


class KillAt(transformers.TrainerCallback):
    def __init__(self, step):
        self.step = step

    def on_step_end(self, args, state, control, **others):
        if state.global_step == self.step:
            raise Killed


def trained(model, data, out, *callbacks, resume=False, weighted=True, **arguments):
    """The Trainer, after so many steps of the example's class or of its own."""
    kind, loss = transformers.Trainer, None
    if weighted:
        kind = runpy.run_path(str(EXAMPLE))["WeightedTrainer"]
        loss = corpusfit.PackedDataset.weighted_loss
    torch.manual_seed(0)
    network = transformers.LlamaForCausalLM(model.config)
    settings = {
        "per_device_train_batch_size": 16,
        "num_train_epochs": 2,
        "save_strategy": "no",
        "logging_steps": 1,
        "remove_unused_columns": not weighted,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
    }
    arguments = transformers.TrainingArguments(str(out), **{**settings, **arguments})
    trainer = kind(
        network,
        arguments,
        data_collator=corpusfit.PackedDataset.collate,
        train_dataset=data,
        compute_loss_func=loss,
        callbacks=list(callbacks),
    )
    try:
        trainer.train(resume_from_checkpoint=resume)
    except Killed:
        return None
    return trainer


@pytest.mark.slow
def test_a_killed_training_with_the_trainer_resumes_with_the_rows_of_its_epoch(
    packed, llama, tmp_path
):
    whole = trained(llama, packed(), tmp_path)
    epoch = -(-len(packed()) // 16)
    assert whole.state.max_steps == 2 * epoch
    saves = {"save_strategy": "steps", "save_steps": epoch + 2}
    assert trained(llama, packed(), tmp_path, KillAt(epoch + 4), **saves) is None
    rest = trained(llama, packed(), tmp_path, resume=True)
    losses = [log["loss"] for log in whole.state.log_history if "loss" in log]
    assert [log["loss"] for log in rest.state.log_history if "loss" in log] == losses
    for one, other in zip(whole.model.parameters(), rest.model.parameters(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.slow
def test_the_trainers_loss_is_weighted_only_in_the_example(packed, llama, tmp_path):
    """Over two accumulated batches: the first step's loss is of the untrained model."""
    rows = torch.utils.data.Subset(packed(), range(4))  # one step, in any order
    batch = corpusfit.PackedDataset.collate(list(rows))
    weights = batch.pop("weights")
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(llama.config)
    with torch.no_grad():
        outputs = model(**batch)
    settings = {
        "max_steps": 1,
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
    }
    found = [
        trained(llama, rows, tmp_path, weighted=w, **settings).state.log_history[0]["loss"]
        for w in (False, True)
    ]
    expected = corpusfit.PackedDataset.weighted_loss(outputs, batch["labels"], weights=weights)
    assert found == pytest.approx([float(outputs.loss), float(expected)], abs=1e-4)
    assert abs(found[0] - found[1]) > 1e-3


@pytest.mark.filterwarnings("ignore:.*pin_memory")  # the Trainer's default, without a GPU
def test_the_example_trains(selection, tiny_gpt, tmp_path, monkeypatch, inline_cli):
    script = [str(EXAMPLE), str(tiny_gpt), str(selection.path), str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", script)
    runpy.run_path(str(EXAMPLE), run_name="__main__")


def test_a_tokenizer_of_masked_models_is_warned_of(selection, tokenizer, inline):
    """A masked model would learn to copy these rows."""
    masked = pickle.loads(pickle.dumps(tokenizer))  # the fixture's stays as it is
    masked.mask_token = "[MASK]"
    with pytest.warns(corpusfit.CorpusfitWarning, match="DataCollatorForLanguageModeling"):
        corpusfit.PackedDataset(selection, masked, LENGTH, machine=inline)


def test_what_cannot_be_packed(packed, selection, tokenizer, tmp_path, inline):
    with pytest.raises(UsageError, match=r"`length` must be 2 or more; got 1"):
        corpusfit.PackedDataset(selection, tokenizer, 1, machine=inline)
    with pytest.raises(UsageError, match=r"`tokenizer` must be a fast tokenizer .* got 'str'"):
        corpusfit.PackedDataset(selection, "gpt2", machine=inline)
    with pytest.raises(InputError, match=r"`selection=.*` holds a selection that is not finished"):
        corpusfit.PackedDataset(tmp_path / "none", tokenizer, machine=inline)


def test_axolotl_and_llama_factory_read_the_selected_text(selection, offline):
    """As axolotl's `load_dataset_with_config` and LLaMA-Factory's `_load_single_dataset` do."""
    datasets = pytest.importorskip("datasets", reason="the extra hub is not installed")
    path, texts = str(selection.path / "selected"), [segment["text"] for segment in selection]
    for words in ({"name": None}, {"data_files": None}):
        assert datasets.load_dataset(path=path, split="train", **words)["text"] == texts
