"""Untrained translation models: their sizes, their tokenizer, and dropout."""

import pytest

torch = pytest.importorskip("torch")

from corpusfit.core.errors import EmptyInputError  # noqa: E402
from corpusfit.training.models import new_model  # noqa: E402
from corpusfit.training.objectives import load  # noqa: E402
from corpusfit_papers.translation.objective import joint_tokenizer  # noqa: E402

TEXTS = ["Der Hund läuft schnell durch den Wald.", "The dog runs fast through the forest."] * 20


def weights(layers, width, vocabulary):
    """Weights of a Transformer with one embedding matrix and feed-forward layers of 4 x width."""
    attention, norm = 4 * (width**2 + width), 2 * width
    forward = 8 * width**2 + 5 * width
    encoder = attention + forward + 2 * norm
    return vocabulary * width + layers * (encoder + encoder + attention + norm)


def made(**words):
    given = {"vocabulary": 300, "attention": "sdpa", "seed": 0} | words
    return new_model(given.pop("init", "tiny"), "translation", TEXTS, **given)


def test_number_of_weights_is_that_of_the_transformer():
    """Closed form; Vaswani et al. (2017), Table 3, count 65 million of base with 37,000 tokens."""
    opened = made()
    trained = [p for p in opened.model.parameters() if p.requires_grad]
    assert sum(p.numel() for p in trained) == weights(2, 128, 300)
    assert weights(6, 512, 37_000) == pytest.approx(65e6, rel=0.05)
    assert weights(*load("translation").sizes["base"]) == pytest.approx(
        60.8e6, rel=0.003
    )  # the paper's, with 32k merges


def test_embeddings_of_both_sides_and_the_head_are_one():
    model = made().model
    shared = model.get_input_embeddings().weight
    assert model.get_output_embeddings().weight is shared
    assert model.model.encoder.embed_tokens.weight is shared
    assert model.model.decoder.embed_tokens.weight is shared


def test_dropout_is_set_everywhere():
    config = made(dropout=0.3).model.config
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (0.3,) * 3
    config = made().model.config
    assert (config.dropout, config.attention_dropout, config.activation_dropout) == (0.1, 0, 0)


@pytest.mark.parametrize(
    "text", ["Der Hund.", " a  b ", "日本語 и русский", "naïve “quotes” — €3,50"]
)
def test_a_text_comes_back_from_its_tokens(text):
    """But for blanks at its ends; nothing is unknown."""
    tokenizer = joint_tokenizer(TEXTS, 300)
    ids = tokenizer(text)["input_ids"]
    assert ids[-1] == tokenizer.eos_token_id
    assert tokenizer.unk_token_id not in ids
    assert tokenizer.decode(ids, skip_special_tokens=True).strip() == text.strip()


def test_seed_decides_the_weights():
    first, again, other = (made(seed=s).model.get_input_embeddings().weight for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_without_text_there_is_no_model():
    with pytest.raises(EmptyInputError):
        new_model("tiny", "translation", ["  "], vocabulary=0, attention="sdpa", seed=0)
