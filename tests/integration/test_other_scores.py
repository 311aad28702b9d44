"""Scores and labels that a corpus has itself: as a method, and as a filter on its rows."""

import csv
import json
import re
import shutil
from collections import Counter
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import corpusfit
from corpusfit.core.errors import (
    ChangedInputError,
    EmptyInputError,
    ModelError,
    UsageError,
)

TOPICS = "the of a in protein cell market stock court law river music film train data"
WORDS = TOPICS.split()
N = 60
LABELS = {"0": "bad", "1": "good"}
NUMBERS = {5: None, 6: "high", 7: float("inf"), 8: True}  # no numbers, by row


def row(i):
    text = " ".join(WORDS[(i * k + k * k) % len(WORDS)] for k in range(1, 30)) + f" {i}."
    score = NUMBERS.get(i, (i * 37 % N) / 10)
    return {"text": text, "id": i, "edu": score, "topic": ("Health", "Law", "News")[i % 3]}


def write(path, rows):
    if path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(r).replace("Infinity", '"inf"') + "\n" for r in rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        plain = [{**r, "edu": r["edu"] if type(r["edu"]) is float else None} for r in rows]
        table = pa.Table.from_pylist(plain)
        if path.suffix == ".parquet":
            pq.write_table(table, path)
        else:
            with pa.ipc.new_file(path, table.schema) as out:
                out.write_table(table)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scores")
    for name in ("c.jsonl", "c.csv", "c.parquet", "c.arrow"):
        write(folder / name, [row(i) for i in range(N)])
    nested = [{"text": r["text"], "meta": {"edu": r["edu"]}} for r in map(row, range(N))]
    write(folder / "nested.jsonl", nested)
    write(folder / "t.jsonl", [{"text": row(i)["text"] + " And more."} for i in range(100, 130)])
    return folder


def select(files, out, corpus="c.jsonl", **options):
    options = {"segments": 7, "engine": "inline", "cache": files / "cache", **options}
    target = options.pop("target", str(files / "t.jsonl"))
    return corpusfit.select(target=target, corpus=str(files / corpus), out=out, **options)


def best(rows, n=7, sign=1):
    ranked = sorted(
        (r for r in rows if type(row(r)["edu"]) is float and row(r)["edu"] < 1e9),
        key=lambda r: -sign * row(r)["edu"],
    )
    return sorted(ranked[:n])


@pytest.mark.parametrize("name", ["c.jsonl", "c.csv", "c.parquet", "nested.jsonl"])
def test_a_field_is_the_score_and_rows_without_a_number_are_rejected(files, tmp_path, name):
    method = "field:meta.edu" if name == "nested.jsonl" else "field:edu"
    run = select(files, tmp_path / "out", name, method=method)
    counts = run.manifest["counts"]
    assert [r["row"] for r in run] == best(range(N))
    assert [r["score"] for r in run] == pytest.approx([row(r)["edu"] for r in best(range(N))])
    assert (counts["documents"], counts["rejected"]) == (N - len(NUMBERS), len(NUMBERS))
    assert all(why.startswith("no number in") for why in counts["reasons"])


def test_the_lowest_is_the_best_with_a_minus(files, tmp_path):
    run = select(files, tmp_path / "out", method="field:-edu")
    assert [r["row"] for r in run] == best(range(N), sign=-1)
    why = corpusfit.explain(run, row=run[0])
    assert "field edu, negated" in why.meaning
    with pytest.raises(UsageError, match=r"^`text` must .*field:-edu"):
        corpusfit.explain(run, text="A text.")


@pytest.mark.parametrize("name", ["c.jsonl", "c.csv", "c.parquet"])
def test_a_filter_leaves_rows_out_and_counts_them(files, tmp_path, name):
    where = "edu > 2 and topic in ['Law', 'News']"
    run = select(files, tmp_path / "out", name, method="field:edu", where=where)
    counts = run.manifest["counts"]
    kept = [i for i in range(N) if i % 3 and i not in NUMBERS and row(i)["edu"] > 2]
    assert [r["row"] for r in run] == best(kept)
    assert counts["documents"] == len(kept)
    assert counts["rows"] == N == sum(counts[k] for k in ("documents", "rejected", "left_out"))
    assert "not used" not in str(run.manifest["warnings"])  # the target is not filtered
    if name != "c.parquet":  # where there are only numbers
        assert any(why.startswith("values that `read.where`") for why in counts["reasons"])


def test_a_filter_is_part_of_the_run(files, tmp_path):
    run = select(files, tmp_path / "out", method="random", where="topic == 'Law'")
    assert len(select(files, tmp_path / "out", method="random", where="topic == 'Law'")) == len(run)
    with pytest.raises(ChangedInputError, match=r"read\.where was"):
        select(files, tmp_path / "out", method="random", where="topic == 'News'")
    with pytest.raises(ChangedInputError, match=r"read\.where was"):
        select(files, tmp_path / "out", method="random")
    again = corpusfit.choose(run, segments=3, engine="inline")
    assert {row(r["row"])["topic"] for r in again} == {"Law"}
    with pytest.raises(UsageError, match=r"`read\.where` leaves some out"):
        corpusfit.explain(run, row="c.jsonl:59")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"where": "topics == 'Law'"}, r"`read\.where` must .*text, id, edu, topic.*'topics'"),
        ({"method": "field:score"}, r"`method\.name` must .*text, id, edu, topic.*'score'"),
        ({"method": "field:"}, r"`method\.name` must be field:NAME"),
        ({"method": "field"}, r"`method\.name` must be field:NAME"),
        ({"method": "dsir:edu"}, r"`method\.name` must be dsir, without a colon .*field:FIELD"),
        ({"where": "topic == 'None'", "method": "dsir"}, r"has no row that `read\.where` keeps"),
    ],
)
def test_what_cannot_be_is_said_first(files, tmp_path, options, message):
    with pytest.raises((UsageError, EmptyInputError), match=message):
        select(files, tmp_path / "out", **options)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (lambda i: 1_700_000_000 + i, True),  # Unix times
        (lambda i: 20240101000000 + 100 * i, True),
        (lambda i: 0.9999998 + i / 1e9, True),
        (lambda i: i % 3, True),  # really equal
        (lambda i: i / N, False),
        (lambda i: 2**24 - i, False),
    ],
)
def test_a_draw_among_equal_scores_is_told(files, tmp_path, number, told):
    path = tmp_path / "n.jsonl"
    write(path, [{**row(i), "number": number(i)} for i in range(N)])
    run = select(files, tmp_path / "out", path, method="field:number")
    selected, warned = run.manifest["selected"], run.manifest["warnings"]
    assert any("selected at random" in warning for warning in warned) is told
    scores = [np.float32(number(i)) for i in range(N)]
    equal = scores.count(np.float32(selected["threshold"]))
    drawn = [text for text in run if text["score"] == pytest.approx(selected["threshold"])]
    assert selected["tied"] == (equal if told else 0)
    assert not told or 0 < selected["drawn"] <= len(drawn)


def test_each_part_of_a_blend_is_explained(files, tmp_path):
    settings = ("method.methods=field:edu,moore_lewis", "method.weights=3,1")
    blended = select(files, tmp_path / "blend", method="blend", settings=settings)
    for text in blended.best(3):
        why = corpusfit.explain(blended, row=text)
        assert [(m.name, m.weight) for m in why.members] == [
            ("field:edu", 0.75),
            ("moore_lewis", 0.25),
        ]
        assert why.members[0].score == pytest.approx(row(text["row"])["edu"])
        assert sum(m.weight * m.rank for m in why.members) == pytest.approx(why.score)
        assert all(f"  {m.name}: score {m.score:.4g}, rank" in str(why) for m in why.members)
    assert corpusfit.explain(select(files, tmp_path / "m", method="random"), text="A").members == []


def test_a_text_is_explained_by_its_id(files, tmp_path):
    run = select(files, tmp_path / "out", method="dsir")
    for text in run:
        assert corpusfit.explain(run, row=str(text["id"])).row == text["row"]
    with pytest.raises(UsageError, match=r"`row` must be SOURCE:ROW .*id of a selected text"):
        corpusfit.explain(run, row="no such id")


def test_plain_text_has_no_fields(files, tmp_path):
    (tmp_path / "a.txt").write_text("A text.\n\nAnother one.\n")
    with pytest.raises(UsageError, match=r"`read\.where` must be left out .*a\.txt"):
        select(files, tmp_path / "out", tmp_path / "a.txt", where="score > 3", method="random")


def test_fields_in_a_blend_and_a_ranking(files, tmp_path):
    """A blend of one field has its order."""
    settings = ("method.methods=field:edu,field:edu",)
    blended = select(files, tmp_path / "blend", method="blend", settings=settings)
    assert [r["row"] for r in blended] == best(range(N))
    both = ("method.methods=field:edu,moore_lewis", "method.weights=1,0")
    mixed = select(files, tmp_path / "mixed", method="blend", settings=both)
    assert [r["row"] for r in mixed] == best(range(N))
    ranked = corpusfit.rank(
        target=str(files / "t.jsonl"),
        corpus=str(files / "c.jsonl"),
        methods=["field:edu", "dsir"],
        where="topic != 'News'",
        engine="inline",
    )
    assert {each.method: each.bits > 0 for each in ranked} == {
        "field:edu": True,
        "dsir": True,
        "random": True,
    }


@pytest.fixture(scope="module")
def classifiers(tmp_path_factory, tiny_classifier):
    """Random BERTs with two named labels, and with one output."""
    transformers = pytest.importorskip("transformers")
    made = {name: tmp_path_factory.mktemp("models") / name for name in ("two", "one")}
    for folder in made.values():
        shutil.copytree(tiny_classifier, folder)
    config = json.loads((made["two"] / "config.json").read_text())
    (made["two"] / "config.json").write_text(json.dumps({**config, "id2label": LABELS}))
    one = transformers.AutoConfig.from_pretrained(tiny_classifier, num_labels=1)
    transformers.BertForSequenceClassification(one).save_pretrained(made["one"])
    return made


def answers(folder, texts):
    """The logits by transformers alone, a text at a time."""
    import torch
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        each = [model(**tokenizer(t, truncation=True, return_tensors="pt")).logits for t in texts]
    return torch.cat(each).numpy()


@pytest.mark.slow
def test_a_classifier_of_transformers(files, tmp_path, classifiers):
    run = select(files, tmp_path / "a", method=f"model:{classifiers['two']}#good", segments=N)
    logits = answers(classifiers["two"], [r["text"] for r in run])
    expected = logits[:, 1] - logits[:, 0]  # the log odds of two labels
    assert [r["score"] for r in run] == pytest.approx(expected.tolist(), abs=1e-4)
    assert "log odds of good" in corpusfit.explain(run, row=run[0]).meaning
    alone = corpusfit.explain(run, text=run[0]["text"])
    assert alone.score == pytest.approx(run[0]["score"], abs=1e-4)

    bad = f"model:-{classifiers['two']}#bad"
    raw = select(files, tmp_path / "b", method=bad, settings=("method.raw=true",))
    by_text = dict(zip([r["text"] for r in run], logits[:, 0].tolist(), strict=True))
    assert [r["score"] for r in raw] == pytest.approx([-by_text[r["text"]] for r in raw], abs=1e-4)

    one = str(classifiers["one"])
    settings = (f"method.methods=model:{one},field:edu", "method.weights=1,0")
    blended = select(files, tmp_path / "c", method="blend", settings=settings)
    single = select(files, tmp_path / "d", method=f"model:{one}", where="edu >= 0 or edu == null")
    assert single.manifest["counts"]["documents"] > len(single)
    assert blended.manifest["files"].keys() == single.manifest["files"].keys()
    logits = answers(one, [r["text"] for r in single])[:, 0]
    assert [r["score"] for r in single] == pytest.approx(logits.tolist(), abs=1e-4)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        (
            "model:{two}",
            r"label of a classifier must be one of .*: bad, good; got 'nothing",
        ),
        ("model:{two}#fine", r"label .* must be .*bad, good; got 'fine'.*model:.*#bad"),
        ("model:{encoder}", r"`method\.model` .*another head"),
        ("model:", r"`method\.model` must be .*fineweb-edu-classifier"),
        ("model:{folder}/none", r"`method\.model` must be .*none"),
        ("fasttext:none.bin", r"`method\.file` must be a file .*none\.bin"),
    ],
)
def test_what_is_no_classifier_is_said_first(
    files, tmp_path, classifiers, tiny_encoder, method, message
):
    named = method.format(two=classifiers["two"], encoder=tiny_encoder, folder=tmp_path)
    if named.startswith("fasttext"):
        pytest.importorskip("fasttext")
    with pytest.raises((UsageError, ModelError), match=message):
        select(files, tmp_path / "out", method=named, target="none.jsonl")


@pytest.fixture(scope="module")
def filters(tmp_path_factory):
    """fastText's own classifiers of texts by topic: plain, quantized, and one without labels."""
    fasttext = pytest.importorskip("fasttext")
    folder = tmp_path_factory.mktemp("filters")
    train = folder / "train.txt"
    halves = WORDS[:7], WORDS[7:]
    lines = [
        f"__label__{('hq', 'cc')[half]} " + " ".join(halves[half][(i * k) % 7] for k in range(9))
        for i in range(200)
        for half in (0, 1)
    ]
    train.write_text("\n".join(lines) + "\n")
    options = {"dim": 8, "bucket": 300, "thread": 1, "verbose": 0}
    model = fasttext.train_supervised(str(train), wordNgrams=2, epoch=3, **options)
    model.save_model(str(folder / "q.bin"))
    model.quantize(input=str(train), retrain=False)
    model.save_model(str(folder / "q.ftz"))
    fasttext.train_unsupervised(str(train), minCount=1, **options).save_model(str(folder / "u.bin"))
    return folder


@pytest.mark.slow
def test_the_page_trains_a_classifier(files, tmp_path, monkeypatch):
    """The code of docs/own-scores.md, on files of the names that it has, for a small classifier."""
    fasttext = pytest.importorskip("fasttext")
    small = {"dim": 8, "bucket": 300, "thread": 1, "verbose": 0}  # by default 800 MB are written
    train = partial(fasttext.train_supervised, **small)
    monkeypatch.setattr(fasttext, "train_supervised", train)
    page = (Path(__file__).parents[2] / "docs/own-scores.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    shutil.copy(files / "t.jsonl", "task.jsonl")
    Path("web").mkdir()
    shutil.copy(files / "c.jsonl", "web")
    exec(compile(code, "own-scores.md", "exec"), {})
    lines = Path("train.txt").read_text().splitlines()
    labels = Counter(line.partition(" ")[0] for line in lines)
    assert labels == {"__label__task": 30, "__label__other": N}
    assert len(corpusfit.open("out")) > 0


@pytest.mark.parametrize("name", ["q.bin", pytest.param("q.ftz", marks=pytest.mark.slow)])
def test_a_fasttext_filter_scores_as_fasttext_does(files, tmp_path, filters, name):
    import fasttext

    run = select(files, tmp_path / "out", method=f"fasttext:{filters / name}#hq", segments=N)
    model = fasttext.load_model(str(filters / name))
    for row in run:
        labels, probabilities = model.predict(row["text"].replace("\n", " "), k=-1)
        expected = dict(zip(labels, probabilities, strict=True))["__label__hq"]
        assert row["score"] == pytest.approx(min(expected, 1.0), abs=1e-6)
    assert len({r["score"] for r in run}) > N // 2
    low = select(files, tmp_path / "low", method=f"fasttext:-{filters / name}#__label__hq")
    lowest = sorted(r["score"] for r in run)[:7]
    assert sorted(-r["score"] for r in low) == pytest.approx(lowest)
    assert "probability of hq" in corpusfit.explain(low, row=low[0]).meaning


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("q.bin", r"label of a classifier must be one of .*(hq, cc|cc, hq)"),
        ("u.bin#hq", r"`method\.file` must be a supervised model .*u\.bin"),
        ("train.txt#hq", r"`method\.file` must be a supervised model .*train\.txt"),
    ],
)
def test_what_is_no_fasttext_filter_is_said_first(files, tmp_path, filters, method, message):
    with pytest.raises((UsageError, ModelError), match=message):
        select(files, tmp_path / "out", method=f"fasttext:{filters / method}", target="none.jsonl")


def test_a_filter_that_changes_is_noticed(files, tmp_path, filters):
    copy = tmp_path / "q.bin"
    copy.write_bytes((filters / "q.bin").read_bytes())
    run = select(files, tmp_path / "out", method=f"fasttext:{copy}#hq")
    copy.write_bytes((filters / "q.ftz").read_bytes())
    with pytest.raises(ModelError, match=r"q\.bin changed"):
        corpusfit.explain(run, text="A text.")
    with pytest.raises(ChangedInputError, match=r"q\.bin has changed"):
        select(files, tmp_path / "out", method=f"fasttext:{copy}#hq")


def test_quotas_by_a_field_and_by_source(files, tmp_path):
    """Of each group the best, as many as its share of the corpus, or equally many."""
    options = {"method": "field:edu", "segments": 12}
    run = select(files, tmp_path / "a", balance="field:topic", **options)
    for first, topic in enumerate(("Health", "Law", "News")):
        expected = best(range(first, N, 3), 4)
        assert [r["row"] for r in run if row(r["row"])["topic"] == topic] == expected
    assert run.manifest["selected"]["groups"] == ["Health", "Law", "News"]
    assert sum(run.manifest["selected"]["quota"]) == pytest.approx(1, abs=1e-5)

    even = ("choose.quota=even",)
    where = "topic != 'News' or edu > 3"
    run = select(
        files, tmp_path / "b", balance="field:topic", settings=even, where=where, **options
    )
    assert [n["selected"] for n in run.manifest["selected"]["by_cluster"]] == [4, 4, 4]

    two = {"a": [row(i) for i in range(40)], "b": [row(i) for i in range(40, N)]}
    run = corpusfit.select(
        target=str(files / "t.jsonl"),
        corpus=two,
        out=tmp_path / "c",
        balance="source",
        engine="inline",
        cache=files / "cache",
        method="random",
        segments=12,
    )
    assert [n["selected"] for n in run.manifest["selected"]["by_cluster"]] == [8, 4]
    again = corpusfit.choose(run, balance="field:topic", segments=9, engine="inline")
    assert [n["selected"] for n in again.manifest["selected"]["by_cluster"]] == [3, 3, 3]
    words = corpusfit.choose(run, balance="source", fraction=0.3, engine="inline")
    shares = [
        n["tokens"] / words.manifest["selected"]["tokens"]
        for n in words.manifest["selected"]["by_cluster"]
    ]
    assert shares == pytest.approx(words.manifest["selected"]["quota"], abs=0.1)


def test_quotas_by_shares_of_named_groups(files, tmp_path):
    """The others divide the rest as in the corpus; `choose` goes on with the same shares."""
    options = {"method": "field:edu", "balance": "field:topic", "fraction_of": "segments"}
    run = select(files, tmp_path / "a", quota="Law=50%, News=0.2", segments=20, **options)
    assert [n["selected"] for n in run.manifest["selected"]["by_cluster"]] == [6, 10, 4]
    fewer = corpusfit.choose(run, segments=10, engine="inline")
    assert [n["selected"] for n in fewer.manifest["selected"]["by_cluster"]] == [3, 5, 2]
    alone = corpusfit.choose(run, segments=10, quota="Law=100%", engine="inline")
    assert [n["selected"] for n in alone.manifest["selected"]["by_cluster"]] == [0, 10, 0]

    law = run.manifest["selected"]["by_cluster"][1]["segments"]
    more = corpusfit.choose(run, segments=2 * law, quota="Law=90%", engine="inline")
    taken = [n["selected"] for n in more.manifest["selected"]["by_cluster"]]
    assert taken[1] == law
    assert sum(taken) == 2 * law
    nothing = corpusfit.choose(run, tokens=10_000, quota="Law=0%", engine="inline")
    taken = nothing.manifest["selected"]["by_cluster"]
    assert [each["selected"] for each in taken] == [taken[0]["segments"], 0, taken[2]["segments"]]
    assert any("0 %" in warning for warning in nothing.manifest["warnings"])
    assert any("50.0 %" in warning and "90 %" in warning for warning in more.manifest["warnings"])
    with pytest.raises(UsageError, match=r"choose\.quota=target"):
        corpusfit.choose(run, balance="", engine="inline")
    assert corpusfit.choose(run, balance="", quota="target", engine="inline")


def test_a_share_of_a_source_that_is_not_there_is_refused_before_scoring(files, tmp_path):
    with pytest.raises(UsageError, match=r"choose\.balance=field:NAME"):
        select(files, tmp_path / "a", method="random", balance="source", quota="Law=50%")
    assert not (tmp_path / "a" / "scores").exists()


@pytest.mark.parametrize(
    ("quota", "balance", "named"),
    [
        ("Law=80%,News=30%", "field:topic", "110%"),
        ("Law=80%,Law=10%", "field:topic", "once"),
        ("Law=-1", "field:topic", "from 0"),
        ("Law=much", "field:topic", "from 0"),
        ("Sport=10%", "field:topic", "Health, Law, News"),
        ("Law=10%,News=10%,Health=10%", "field:topic", "100%"),
        ("Law=10%", "", "balance"),
        ("most", "field:topic", "even"),
    ],
)
def test_shares_that_cannot_be_are_refused(files, tmp_path, quota, balance, named):
    with pytest.raises(UsageError, match=named):
        select(files, tmp_path / "a", method="field:edu", balance=balance, quota=quota, segments=9)


@pytest.mark.parametrize(("tokens", "warned"), [(1_500, True), (5_000, False)])
def test_a_budget_that_the_next_text_does_not_fit_is_said(tmp_path, tokens, warned):
    rows = [{"text": f"text {i} " + "word " * n, "q": 9 - i} for i, n in enumerate((40, 3_000, 40))]
    run = corpusfit.select(
        target=["a word"],
        corpus=rows,
        out=tmp_path / "out",
        method="field:q",
        tokens=tokens,
        unit="document",
        engine="inline",
        cache=tmp_path / "cache",
    )
    assert any("does not fit" in warning for warning in run.manifest["warnings"]) is warned


def test_many_files_of_one_folder_are_no_groups(files, tmp_path, monkeypatch):
    """They would be one group, and the selection not balanced."""
    few = {name: [row(i) for i in range(first, first + 9)] for first, name in ((0, "a"), (9, "b"))}
    options = {"method": "random", "segments": 4, "balance": "source", "cache": files / "cache"}
    words = {"target": str(files / "t.jsonl"), "corpus": few, "engine": "inline", **options}
    assert corpusfit.select(out=tmp_path / "few", **words).manifest["selected"]["groups"]
    monkeypatch.setattr("corpusfit.scoring.table.MAX_SOURCES", 1)
    with pytest.raises(UsageError, match=r"`choose\.balance` must be a field of the rows"):
        corpusfit.select(out=tmp_path / "many", **words)


@pytest.mark.parametrize("name", ["c.csv", "c.parquet", "c.arrow"])
def test_quotas_by_a_field_of_any_format(files, tmp_path, name):
    options = {"segments": 12, "method": "field:edu", "settings": ["read.shard_mb=0.002"]}
    run = select(files, tmp_path / "a", name, balance="field:topic", **options)
    assert len(list((run.path / "scores").glob("part-*"))) > 2
    for first, topic in enumerate(("Health", "Law", "News")):
        rows = [r["row"] for r in run if row(r["row"])["topic"] == topic]
        assert sorted(rows) == best(range(first, N, 3), 4)


@pytest.mark.parametrize("balance", ["topic", "field:", "field:none", "field:edu", "clusters"])
def test_what_is_no_group_is_said_first(files, tmp_path, balance):
    with pytest.raises(UsageError, match=r"`choose\.balance` must be "):
        select(files, tmp_path / "out", method="field:edu", balance=balance)
