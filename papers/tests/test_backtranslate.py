"""Back-translation with tiny random models."""

import json
import re
import shutil

import pytest

pytest.importorskip("torch", reason="the extra train is not installed")

from safetensors.torch import load_file, save_file

from corpusfit.contracts import ModelError, UsageError
from corpusfit_papers.augmenting import Augmentation, paraphrases
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


def translated(models, texts=TEXTS, *, copies=1, seed=0):
    plan = Augmentation("backtranslate", copies, mt=models[0], mt_back=models[1])
    return [text for (text,) in paraphrases(texts, plan, seed=seed, device="cpu")]


@pytest.mark.slow
def test_paraphrases_depend_on_the_seed_and_the_copies_differ(models):
    one = translated(models, copies=3)
    assert translated(models, copies=3) == one
    assert translated(models, copies=3, seed=1) != one
    assert len({*one[:3]}) == 3
    assert TEXTS[0] not in one


def test_texts_without_letters_stay(models):
    found = translated(models, copies=2)
    assert len(found) == 12
    assert found[4:6] == ["", ""]
    assert found[8:10] == ["[[ ]] !"] * 2


def test_white_space_between_sentences_stays(models):
    found = translated(models, [" investors  \n\n"])[0]
    assert found.startswith(" ")
    assert found.endswith("  \n\n")


def test_a_prefix_of_the_model_goes_before_each_sentence(models, tmp_path):
    folder = tmp_path / "with"
    shutil.copytree(models[0], folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "prefix": "small words: "}))
    pair = [str(folder), models[1]]
    assert translated(pair) != translated(models)


def test_a_name_that_is_no_model_names_its_setting(models, tmp_path, tiny_lm):
    with pytest.raises(UsageError, match=r"^`mt` .*no such/folder/here"):
        translated(["no such/folder/here", models[1]])
    with pytest.raises(ModelError, match=r"^`mt_back\b.*config\.json"):
        translated([models[0], str(tmp_path)])
    with pytest.raises(ModelError, match=rf"^`mt_back`: {re.escape(str(tiny_lm))}"):
        translated([models[0], str(tiny_lm)])


def test_weights_that_are_missing_and_pickles_are_refused(models, tmp_path):
    folder = tmp_path / "less"
    shutil.copytree(models[0], folder)
    path = folder / "model.safetensors"
    weights = load_file(path)
    gone = next(name for name in sorted(weights) if "fc1.weight" in name or "wi.weight" in name)
    del weights[gone]
    save_file(weights, path, {"format": "pt"})
    with pytest.raises(ModelError, match=rf"^`mt`: .*{re.escape(gone)}"):
        translated([str(folder), models[1]])
    path.rename(folder / "pytorch_model.bin")
    with pytest.raises(ModelError, match=r"^`mt` .*safetensors"):
        translated([str(folder), models[1]])
