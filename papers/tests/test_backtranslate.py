"""Back-translation with tiny random models."""

import json
import re
import shutil

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra train is not installed")

import torch
import transformers
from safetensors.torch import load_file, save_file

from corpusfit.core.engine import Progress
from corpusfit.core.errors import ModelError, UsageError
from corpusfit.evaluation.augment import BackTranslator, TokenSampler, augment_examples
from corpusfit.evaluation.task import Examples
from corpusfit.kernels.chance import place_keys
from translating import built

TEXTS = [
    "the kinase inhibitor binds the receptor. a small model reads small words.",
    "investors sold shares",
    "",
    "the binding of aspirin to cyclooxygenase is irreversible. it is.  the market, of a model.",
    "[[ ]] !",
    "unknown words " * 40,
]


@pytest.fixture(scope="module", params=["marian", "t5"])
def models(request, tmp_path_factory, word_pieces):
    """Folders of two models: for translating and for translating back."""
    folder = tmp_path_factory.mktemp("translators")
    return [str(built(folder / f"{n}", word_pieces, request.param, n)) for n in (1, 2)]


def translated(models, texts=TEXTS, *, copies=1, seed=0, first=0, **settings):
    both = BackTranslator.load(*models, device="cpu", **settings)
    return both.translate(texts, copies=copies, seed=seed, first=first, progress=Progress())


@pytest.mark.slow
def test_greedy_translations_do_not_depend_on_the_batch(models):
    one = translated(models, temperature=0, budget=1)
    assert translated(models, temperature=0, budget=100_000) == one
    assert translated(models, TEXTS[3:4], temperature=0) == one[3:4]
    assert one[0] != TEXTS[0]


@pytest.mark.slow
def test_samples_depend_on_the_seed_the_text_and_the_copy_alone(models):
    one = translated(models, copies=3)
    assert translated(models, copies=3, budget=1) == one
    assert translated(models, copies=3, budget=300) == one
    assert translated(models, copies=3, seed=1) != one
    assert len({*one[:3]}) == 3


def test_texts_without_letters_stay(models):
    found = translated(models, copies=2)
    assert len(found) == 12
    assert found[4:6] == ["", ""]
    assert found[8:10] == ["[[ ]] !"] * 2


def test_white_space_between_sentences_stays(models):
    found = translated(models, [" investors  \n\n"])[0]
    assert found.startswith(" ")
    assert found.endswith("  \n\n")


def test_augmented_examples_have_the_labels_of_their_text(models):
    examples = Examples([[t] for t in TEXTS], [[i] for i in range(len(TEXTS))])
    texts = translated(models, copies=2)
    found = augment_examples(examples, texts, 2)
    assert [pieces[0] for pieces in found.pieces] == texts
    assert found.labels == [[i] for i in range(6) for _ in range(2)]


def test_a_sampled_token_follows_the_models_distribution():
    """Against softmax(scores / T), by its mean over 40,000 rows; -inf is never sampled."""
    scores = torch.tensor([[1.0, -torch.inf, 0.0, 2.0]]).repeat(40_000, 1)
    sampled = TokenSampler(place_keys(0, 0, 40_000), 0.9)(torch.zeros(40_000, 3), scores)
    share = torch.bincount(sampled.argmax(-1), minlength=4) / 40_000
    expected = torch.softmax(scores[0] / 0.9, -1)
    np.testing.assert_allclose(share, expected, atol=0.01)
    assert share[1] == 0
    other = TokenSampler(place_keys(0, 0, 40_000), 0.9)(torch.zeros(40_000, 4), scores)
    assert not torch.equal(sampled, other)  # at another position


def test_a_prefix_of_the_model_goes_before_each_sentence(models, tmp_path, monkeypatch):
    folder = tmp_path / "with"
    shutil.copytree(models[0], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "prefix": "small words: "}))
    pair = [str(folder), models[1]]
    assert translated(pair, temperature=0) != translated(models, temperature=0)


def test_a_name_that_is_no_model_names_its_setting(models, tmp_path, tiny_lm):
    with pytest.raises(UsageError, match=r"^`augment\.mt` .*no such/folder/here"):
        translated(["no such/folder/here", models[1]])
    with pytest.raises(ModelError, match=r"^`augment\.mt_back\b.*config\.json"):
        translated([models[0], str(tmp_path)])
    with pytest.raises(ModelError, match=rf"^`augment\.mt_back`: {re.escape(str(tiny_lm))}"):
        translated([models[0], str(tiny_lm)])


def test_weights_that_are_missing_and_pickles_are_refused(models, tmp_path):
    folder = tmp_path / "less"
    shutil.copytree(models[0], folder)
    path = folder / "model.safetensors"
    weights = load_file(path)
    gone = next(name for name in sorted(weights) if "fc1.weight" in name or "wi.weight" in name)
    del weights[gone]
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(ModelError, match=rf"^`augment\.mt`: .*{re.escape(gone)}"):
        translated([str(folder), models[1]])
    path.rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"^`augment\.mt` .*safetensors"):
        translated([str(folder), models[1]])


def test_a_multilingual_model_needs_a_target_language(models, monkeypatch):
    kind = transformers.PreTrainedTokenizerFast
    monkeypatch.setattr(kind, "src_lang", "en", raising=False)
    with pytest.raises(ModelError, match=r"^`augment\.mt`: .* forced_bos_token_id"):
        translated(models)


def test_a_tokenizer_without_its_library_is_an_error_with_a_cure(models, monkeypatch):
    def missing(*_, **__):
        raise ImportError("\nMarianTokenizer requires the SentencePiece library but …")

    monkeypatch.setattr("transformers.AutoTokenizer.from_pretrained", missing)
    with pytest.raises(ModelError, match=r"^`augment\.mt`: .*: pip install sentencepiece"):
        translated(models)
