"""`contamination` and `adapt --guard` from end to end: what is found, and not trained on."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from journeys import prose

import corpusfit
from corpusfit import training
from corpusfit.core.errors import EmptyInputError, InputError
from corpusfit.core.plan import ReadPlan
from corpusfit.text import find
from corpusfit.training.inputs import TrainingInputs, sample_texts

SETTINGS = ["train.device=cpu", "train.precision=fp32"]


@pytest.fixture
def labeled(jsonl):
    """A task's folder; its dev texts are of 12 words and more, two of them twice."""
    topics = {"train": 0, "dev": 1, "test": 2}
    for split, seed in topics.items():
        texts = [
            f"{t} {' '.join(t.split()[::-1])} {split}" for t in prose("kitchen", 20, seed=seed)
        ]
        texts += texts[:2]
        rows = [{"text": t, "label": i % 2} for i, t in enumerate(texts)]
        folder = jsonl(f"imdb/{split}.jsonl", rows).parent
    return folder


def texts_of(folder, split):
    lines = (folder / f"{split}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line)["text"] for line in lines]


@pytest.fixture
def pile(jsonl, labeled):
    """Two sources: three dev texts inside others, a train text, and one test text in capitals."""
    dev, test = texts_of(labeled, "dev"), texts_of(labeled, "test")
    market = prose("market", 40)
    market[5:8] = [f"{market[i]} {dev[i]} {market[i + 9]}" for i in (5, 6, 7)]
    jsonl("pile/market.jsonl", market)
    other = prose("task", 30)
    other[3], other[20] = test[0].upper(), texts_of(labeled, "train")[4]
    return jsonl("pile/task.jsonl", other).parent


def test_the_report_says_what_was_found_where(labeled, pile, inline):
    found = corpusfit.contamination(task=labeled, data=pile, machine=inline)
    dev, test = found.splits["dev"], found.splits["test"]
    assert (dev.texts, dev.found, dev.holders, dev.sources) == (22, 3, 3, {"market.jsonl": 3})
    assert (test.texts, test.found, test.holders) == (22, 2, 1)  # the text is there twice
    assert (found.texts, found.holders) == (70, 4)
    assert found.rows == {"market.jsonl": [5, 6, 7], "task.jsonl": [3]}
    example = next(e for e in found.examples if e.split == "test")
    assert (example.source, example.row, example.containment) == ("task.jsonl", 3, 1.0)
    assert example.excerpt.isupper()
    assert example.text.lower()[:50] in example.excerpt.lower()


@pytest.mark.slow
def test_it_does_not_depend_on_workers(labeled, pile, inline):
    machine = corpusfit.Machine(workers=2)
    found, alone = (
        corpusfit.contamination(task=labeled, data=pile, machine=m) for m in (machine, inline)
    )
    assert found.splits == alone.splits
    assert found.examples == alone.examples
    assert found.rows == alone.rows


def test_of_a_selection_it_names_rows_of_the_corpus(labeled, pile, tmp_path, inline):
    run = corpusfit.select(
        target=pile,
        corpus=pile,
        out=tmp_path / "out",
        method="random",
        segments=60,
        settings=["cut.pieces=256"],
        machine=inline,
    )
    whole = corpusfit.contamination(task=labeled, data=pile, machine=inline)
    found = corpusfit.contamination(task=labeled, data=run, machine=inline)
    chosen = {(segment["source"], segment["row"]) for segment in run}
    expected = {(n, row) for n, rows in whole.rows.items() for row in rows} & chosen
    assert {(n, row) for n, rows in found.rows.items() for row in rows} == expected
    assert {(e.source, e.row) for e in found.examples} <= expected


def test_the_command_prints_a_table_and_json(labeled, pile, cli):
    arguments = ("contamination", "--task", labeled, "--data", pile)
    done = cli(*arguments)
    assert done.code == 0
    assert "market.jsonl (3)" in done.out
    assert re.search(r"\b4\b.*\b70\b", done.err)
    assert "--guard" in done.err
    printed = json.loads(cli(*arguments, "--json").out)
    assert printed["splits"]["test"]["found"] == 2
    assert printed["rows"]["task.jsonl"] == [3]


def test_files_are_watched_whole_and_clean_data_is_clean(labeled, jsonl, cli):
    clean = jsonl("clean.jsonl", prose("market", 30))
    done = cli("contamination", "--task", labeled / "train.jsonl", "--data", clean, "--json")
    found = json.loads(done.out)
    assert found["splits"] == {
        "train.jsonl": {"texts": 22, "found": 0, "holders": 0, "sources": {}}
    }
    assert (found["holders"], found["examples"], found["rows"]) == (0, [], {})


def test_data_and_tasks_without_text_are_errors(labeled, jsonl, inline, tmp_path):
    named = jsonl("named.jsonl", [{"body": "some words"}])
    with pytest.raises(EmptyInputError, match="data"):
        corpusfit.contamination(task=labeled, data=named, machine=inline)
    with pytest.raises(EmptyInputError, match="task"):
        corpusfit.contamination(task=named, data=labeled, machine=inline)
    with pytest.raises(InputError, match="nowhere"):
        corpusfit.contamination(task=tmp_path / "nowhere", data=labeled, machine=inline)


@pytest.fixture
def adapt(tmp_path, inline, tiny_lm):
    """`adapt` in this process: two steps."""
    pytest.importorskip("accelerate", reason="the extra train is not installed")

    def adapt(out="out", **words):
        given = {"model": str(tiny_lm), "max_steps": 2, "batch": 2, "length": 32, "machine": inline}
        return corpusfit.adapt(out=tmp_path / out, settings=SETTINGS, **(given | words))

    return adapt


def test_what_the_guard_finds_is_not_trained_on(adapt, labeled, pile, jsonl):
    """The same chunks, tokens and counts as with a pile that never held it."""
    lines = {p.name: p.read_text("utf-8").splitlines() for p in pile.iterdir()}
    dropped = {"market.jsonl": {5, 6, 7}, "task.jsonl": {3}}
    kept = {
        name: [json.loads(line)["text"] for i, line in enumerate(rows) if i not in dropped[name]]
        for name, rows in lines.items()
    }
    for name, texts in kept.items():
        clean = jsonl(f"clean/{name}", texts).parent
    guarded = adapt("guarded", data=pile, guard=labeled).manifest
    without, unguarded = adapt("without", data=clean).manifest, adapt("plain", data=pile).manifest
    figures = ("chunks", "tokens", "heldout", "losses")
    assert {f: guarded[f] for f in figures} == {f: without[f] for f in figures}
    assert guarded["tokens"] < unguarded["tokens"]
    assert guarded["counts"]["guard"] == {
        "texts": 40,
        "data": {"texts": 70, "holders": 4, "held": 4},
    }
    assert "guard" not in unguarded["counts"]


def test_the_guard_holds_for_the_task_s_own_text_replay_and_weights(
    adapt, labeled, pile, tmp_path, inline
):
    test = texts_of(labeled, "test")
    own = labeled / "train.jsonl"
    rows = [*own.read_text("utf-8").splitlines(), json.dumps({"text": test[3], "label": 0})]
    own.write_text("\n".join(rows) + "\n", "utf-8")
    found = adapt("own", data="task", task=own, guard=labeled, replay=pile)
    counts = found.manifest["counts"]["guard"]
    assert counts["data"] == {"texts": 23, "holders": 1, "held": 1}
    assert counts["replay"] == {"texts": 70, "holders": 4, "held": 4}
    run = corpusfit.select(
        target=pile / "task.jsonl",
        corpus=pile,
        out=tmp_path / "run",
        method="dsir",
        policy="continuous",
        settings=["cut.pieces=256"],
        machine=inline,
    )
    weighted = adapt("weighted", data=run.path, guard=labeled, weights="lambda").manifest
    assert weighted["counts"]["guard"]["data"]["holders"] == 4


def test_another_guard_is_another_training_and_one_of_everything_is_refused(adapt, labeled, pile):
    adapt(data=pile, guard=labeled)
    with pytest.raises(corpusfit.CorpusfitError, match="guard"):
        adapt(data=pile)
    with pytest.raises(EmptyInputError, match="guard"):
        adapt("empty", data=labeled / "dev.jsonl", guard=labeled)


def test_a_task_may_have_a_text_field_of_its_own(labeled, pile, jsonl, inline, cli):
    for split in ("train", "dev", "test"):
        rows = [{"sentence": t, "category": 1} for t in texts_of(labeled, split)]
        other = jsonl(f"other/{split}.jsonl", rows).parent
    found = corpusfit.contamination(task=other, data=pile, task_field="sentence", machine=inline)
    assert found.splits == corpusfit.contamination(task=labeled, data=pile, machine=inline).splits
    done = cli("contamination", "--task", other, "--data", pile, "--json", "--task-field=sentence")
    assert json.loads(done.out)["splits"]["dev"]["found"] == 3


def test_the_guard_may_have_a_text_field_of_its_own(adapt, labeled, pile, jsonl):
    rows = [{"sentence": t} for t in texts_of(labeled, "test")]
    held = jsonl("held.jsonl", rows)
    counts = adapt(data=pile, guard=held, guard_field="sentence").manifest["counts"]["guard"]
    assert counts["data"]["holders"] == 1


def test_a_dry_run_reckons_with_the_guard(labeled, pile, inline, tiny_lm):
    pytest.importorskip("accelerate", reason="the extra train is not installed")
    words = {"data": pile, "model": str(tiny_lm), "length": 32, "batch": 2, "epochs": 1}
    words |= {"settings": SETTINGS, "machine": inline}
    plain = training.estimate_adaptation(**words)
    guarded = training.estimate_adaptation(guard=pile / "market.jsonl", **words)
    assert guarded["max_steps"] < plain["max_steps"]
    with pytest.raises(InputError, match="nowhere"):
        training.estimate_adaptation(guard=pile / "nowhere", **words)


def test_no_tokenizer_is_made_of_guarded_text(pile, labeled):
    source = find([str(pile)], ReadPlan(), role="data")
    texts = TrainingInputs(source, [], [])
    everything = list(sample_texts(texts, 0, (), 0))
    held = texts_of(labeled, "dev") + texts_of(labeled, "test")
    left = list(sample_texts(texts, 0, held, 0))
    assert len(everything) == 70
    dropped = [*everything[5:8], everything[43]]
    assert left == [t for t in everything if t not in dropped]


def test_a_tokenizer_is_made_of_all_parts_of_the_data(jsonl):
    names = [str(jsonl(f"{n}.jsonl", [{"text": f"{n} {i:04}"} for i in range(900)])) for n in "abc"]
    source = find(names, ReadPlan(), role="data")
    sample = list(sample_texts(TrainingInputs(source, [], []), 0, (), 3_600))  # 600 of 2,700 texts
    parts = Counter(text[0] for text in sample)

    assert len(sample) == 600
    assert sample == sorted(sample)
    assert all(150 < n < 250 for n in parts.values())  # 200 each, and 11 is the deviation
    assert 400 < np.mean([int(text[2:]) for text in sample]) < 500


def test_of_pairs_both_sides_are_looked_at(labeled, inline, tmp_path):
    """A dev text among the translations, a test text among the texts, one on both sides."""
    dev, test = texts_of(labeled, "dev"), texts_of(labeled, "test")
    sides = prose("market", 30), prose("task", 30)
    sides[1][4], sides[0][9] = dev[3], test[5]
    sides[0][12] = sides[1][12] = dev[7]
    for name, lines in zip(("de", "en"), sides, strict=True):
        (tmp_path / f"all.{name}").write_text("".join(f"{line}\n" for line in lines))
    data = f"pair:{tmp_path}/all.de,{tmp_path}/all.en"
    found = corpusfit.contamination(task=labeled, data=data, machine=inline)
    counts = {name: (split.found, split.holders) for name, split in found.splits.items()}
    assert counts == {"dev": (2, 2), "test": (1, 1)}
    assert (found.texts, found.holders, found.rows) == (30, 3, {"all.de": [4, 9, 12]})
    assert any(dev[3].startswith(example.excerpt) for example in found.examples)


def test_of_several_fields_all_are_looked_at(labeled, inline, jsonl):
    """The rows of the test above, as two fields; without the second, only the first is searched."""
    dev, test = texts_of(labeled, "dev"), texts_of(labeled, "test")
    first, second = prose("market", 30), prose("task", 30)
    second[4], first[9] = dev[3], test[5]
    first[12] = second[12] = dev[7]
    data = jsonl("all.jsonl", [{"de": a, "en": b} for a, b in zip(first, second, strict=True)])
    given = {"task": labeled, "data": data, "task_field": "text", "machine": inline}
    found = corpusfit.contamination(text_field="de,en", **given)
    counts = {name: (split.found, split.holders) for name, split in found.splits.items()}
    assert counts == {"dev": (2, 2), "test": (1, 1)}
    assert (found.texts, found.holders, found.rows) == (30, 3, {"all.jsonl": [4, 9, 12]})
    assert corpusfit.contamination(text_field="de", **given).rows == {"all.jsonl": [9, 12]}
    turned = corpusfit.contamination(
        task=data, data=labeled / "dev.jsonl", task_field="de, en", machine=inline
    )
    assert turned.splits["all.jsonl"].texts == 60
    assert turned.splits["all.jsonl"].holders == 2
