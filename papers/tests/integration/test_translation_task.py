"""`evaluate` on a translation task: each model decodes once, and seeds are models."""

import json
import shutil

import numpy as np
import pytest

import corpusfit
from corpusfit.core.errors import ModelError, UsageError
from translating import taught, write_pairs

pytest.importorskip("torch", reason="the extra train is not installed")
sacrebleu = pytest.importorskip("sacrebleu", reason="the extra train is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A task, and models `good-0`, `good-1` and `poor-0`; `poor-1` is a copy of the last."""
    place = tmp_path_factory.mktemp("translation")
    write_pairs(place / "task", dev=6, test=24)
    for name, steps, seed in (("good-0", 90, 0), ("good-1", 70, 1), ("poor-0", 25, 0)):
        taught(place / name, steps, seed)
    shutil.copytree(place / "poor-0", place / "poor-1")
    return place


def evaluated(folder, out, machine, **options):
    settings = ["finetune.device=cpu", "task.direction=de-en", "task.max_new_tokens=32"]
    given = {"task": folder / "task", "kind": "translation", "settings": settings}
    return corpusfit.evaluate(**{**given, **options}, out=out, machine=machine)


def generated(folder, texts):
    """The translations of transformers' own pipeline of a tokenizer, `generate` and a tokenizer."""
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder)
    found = []
    for text in texts:
        ids = tokenizer(text, return_tensors="pt").input_ids
        made = model.generate(ids, num_beams=5, max_new_tokens=32, do_sample=False)
        found += tokenizer.batch_decode(made, skip_special_tokens=True)
    return found


def lines(path):
    return path.read_text().splitlines()


@pytest.mark.slow
def test_a_model_is_compared_with_its_base(folder, tmp_path, inline):
    run = evaluated(
        folder, tmp_path / "out", inline, model=folder / "good-0", base=str(folder / "poor-0")
    )
    assert (run.manifest["metric"], run.manifest["seeds"]) == ("bleu", 1)
    outcome, base = (run.outcomes(role)[0] for role in ("model", "base"))
    texts, wanted = (lines(folder / "task" / f"test.{side}") for side in ("de", "en"))
    assert len(outcome.predicted["test"]) == len(texts)
    bleu = sacrebleu.corpus_bleu(outcome.predicted["test"], [wanted])
    chrf = sacrebleu.corpus_chrf(outcome.predicted["test"], [wanted])
    found = run.manifest["results"][0]
    assert 100 * found["test"]["bleu"]["mean"] == pytest.approx(bleu.score)
    assert 100 * found["test"]["chrf"]["mean"] == pytest.approx(chrf.score)
    assert outcome.scores["test"]["bleu"] > base.scores["test"]["bleu"]
    assert outcome.predicted["test"] == generated(folder / "good-0", texts)
    (comparison,) = run.manifest["comparisons"]
    assert comparison["difference"] > 0
    assert comparison["low"] <= comparison["difference"] <= comparison["high"]
    assert run.manifest["signatures"]["bleu"].startswith("nrefs:1|case:mixed|eff:no|tok:13a")


def test_a_seed_is_a_model_and_each_decodes_once(folder, tmp_path, inline):
    out = tmp_path / "out"
    names = {"model": str(folder / "good-{seed}"), "base": str(folder / "poor-{seed}")}
    first = evaluated(folder, out, inline, **names, seeds=1)
    written = {p: p.stat().st_mtime_ns for p in (out / "outcomes").iterdir()}
    run = evaluated(folder, out, inline, **names, seeds=2)
    assert len(written) == 2
    assert {p: p.stat().st_mtime_ns for p in written} == written
    assert len(list((out / "outcomes").iterdir())) == 3  # poor-1 is poor-0
    assert run.outcomes()[0] == first.outcomes()[0]
    assert run.outcomes()[0].predicted != run.outcomes()[1].predicted
    assert [len(run.outcomes(role)) for role in ("model", "base")] == [2, 2]
    (comparison,) = run.manifest["comparisons"]
    assert comparison["seeds"] == 2


def test_the_stored_sums_are_those_of_the_translations(folder, tmp_path, inline):
    run = evaluated(folder, tmp_path / "out", inline, model=folder / "good-0")
    from corpusfit.evaluation.plan import TaskPlan
    from corpusfit.evaluation.reading import read_task
    from corpusfit.evaluation.tasks import load

    task = read_task(
        str(folder / "task"), TaskPlan("translation", options={"direction": "de-en"}), seed=0
    )
    (outcome,) = run.outcomes()
    answers = np.array(outcome.predicted["test"], object)
    again = load("translation").tally(task.labels, task.test, answers)
    assert (load("translation").sums_of(task, outcome) == again).all()


def test_the_command_line_shows_signatures(folder, tmp_path, cli):
    words = ["evaluate", "--task", folder / "task", "--kind", "translation"]
    words += ["--model", folder / "poor-0", "--out", tmp_path / "out"]
    words = [*map(str, words)]
    for setting in ("finetune.device=cpu", "task.direction=en-de", "task.num_beams=2"):
        words += ["--set", setting]
    assert "nc:6|nw:0" in cli(*words).err
    assert json.loads(cli(*words, "--json").out)["task"]["labels"] == ["en", "de"]
    assert cli(*words, "--dry-run").code == 0


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"train_sizes": [5]}, "train_sizes"),
        ({"adapter": "lora"}, "model.adapter"),
    ],
)
def test_settings_of_a_training_are_refused(folder, tmp_path, inline, options, named):
    with pytest.raises(UsageError, match=rf"^`{named}.*translation"):
        evaluated(folder, tmp_path / "out", inline, model=folder / "good-0", **options)


def test_a_model_that_does_not_translate_is_refused(folder, tmp_path, inline, tiny_lm):
    """An encoder, and a decoder without an encoder."""
    import transformers

    config = transformers.GPT2Config(vocab_size=30, n_embd=8, n_layer=1, n_head=1)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "decoder")
    for model in (tiny_lm, tmp_path / "decoder"):
        with pytest.raises(ModelError, match=r"model\.name"):
            evaluated(folder, tmp_path / "out", inline, model=model)
