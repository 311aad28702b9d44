"""Texts in memory go in, and a sequence of segments, a table or a data set comes out."""

import sys

import pandas as pd
import pyarrow as pa
import pytest

import corpusfit
from corpusfit.core.errors import EmptyInputError, InputError, MissingDependencyError

TARGET = [f"The protein binds receptor {n} in the cells of mice." for n in range(30)]
CORPUS = [
    f"{'The enzyme binds the kinase' if n % 3 else 'The match ended with a goal'} number {n}."
    for n in range(120)
]
SETTINGS = {"method": "moore_lewis", "segments": 12}


@pytest.fixture(scope="module")
def machine(tmp_path_factory):
    return corpusfit.Machine("inline", cache=tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="module")
def run(tmp_path_factory, machine):
    rows = [{"text": text, "id": n if n % 2 else f"t{n}"} for n, text in enumerate(CORPUS)]
    out = tmp_path_factory.mktemp("runs") / "out"
    return corpusfit.select(target=TARGET, corpus=rows, out=out, machine=machine, **SETTINGS)


def test_texts_in_memory_are_scored_as_texts_in_a_file(run, tmp_path, machine):
    (tmp_path / "corpus.jsonl").write_text(
        pd.DataFrame({"text": CORPUS}).to_json(orient="records", lines=True)
    )
    (tmp_path / "target.jsonl").write_text(
        pd.DataFrame({"text": TARGET}).to_json(orient="records", lines=True)
    )

    other = corpusfit.select(
        target=tmp_path / "target.jsonl",
        corpus=tmp_path / "corpus.jsonl",
        out=tmp_path / "out",
        machine=machine,
        **SETTINGS,
    )

    assert [(s["text"], s["score"]) for s in other] == [(s["text"], s["score"]) for s in run]

    cards = [(each.path / "README.md").read_text("utf-8") for each in (run, other)]
    assert [card.count("`target.jsonl`, `corpus.jsonl`") for card in cards] == [1, 0]


def test_the_same_data_resumes_the_same_run(run, machine):
    rows = ({"text": text, "id": n if n % 2 else f"t{n}"} for n, text in enumerate(CORPUS))
    again = corpusfit.select(pa.array(TARGET), rows, out=run, machine=machine, **SETTINGS)
    assert list(again) == list(run)


def test_a_mapping_counts_its_sources_by_name(tmp_path, machine):
    sources = {"bio": CORPUS[1::3], "sport": CORPUS[::3]}
    words = {**SETTINGS, "segments": 8}
    run = corpusfit.select(
        target=pd.Series(TARGET), corpus=sources, out=tmp_path, machine=machine, **words
    )
    found = run.manifest["selected"]["by_source"]
    assert [found[name]["selected"] for name in ("bio.jsonl", "sport.jsonl")] == [8, 0]


def test_a_selection_is_a_sequence(run):
    rows = list(run)
    assert len(run) == len(rows) == 12
    assert run[0] == rows[0]
    assert run[-1] == rows[-1]
    assert run[2:8:3] == rows[2:8:3]
    assert run[::-5] == rows[::-5]
    scores = sorted((row["score"] for row in rows), reverse=True)
    assert [row["score"] for row in run.best(4)] == scores[:4]
    assert len(run.best(10**6)) == len(rows)
    with pytest.raises(IndexError):
        run[12]


def test_a_selection_is_a_table_and_a_data_frame(run):
    rows = [{**row, "id": str(row["id"])} for row in run]  # numbers and strings: all are strings

    assert run.to_arrow().to_pylist() == rows
    assert run.to_pandas().to_dict("records") == rows


@pytest.mark.slow
def test_a_row_of_the_data_frame_is_explained(run):
    row = run.to_pandas().iloc[1]
    assert corpusfit.explain(run, row=row) == corpusfit.explain(run, row=run[1])


@pytest.mark.parametrize(("role", "option"), [("target", "target_field"), ("corpus", "text_field")])
def test_a_frame_without_the_text_field_is_refused_before_anything_is_read(
    tmp_path, machine, monkeypatch, role, option
):
    monkeypatch.setattr("corpusfit.selection.commands.select", None)
    given = {"target": TARGET, "corpus": CORPUS} | {role: pd.DataFrame({"sentence": TARGET})}
    with pytest.raises(EmptyInputError, match=f"{role}.*fields are sentence.*{option}`"):
        corpusfit.select(**given, out=tmp_path, machine=machine, **SETTINGS)


def test_without_pandas_a_message_names_it(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingDependencyError, match=r"corpusfit\[hub\].*pip install pandas"):
        run.to_pandas()


def test_ids_of_64_bits_without_sign_are_kept_as_text(tmp_path, machine):
    rows = [{"text": text, "id": 2**64 - 1 - n} for n, text in enumerate(CORPUS)]
    run = corpusfit.select(target=TARGET, corpus=rows, out=tmp_path, machine=machine, **SETTINGS)
    assert [int(i) for i in run.to_arrow()["id"].to_pylist()] == [row["id"] for row in run]


def test_an_empty_selection_has_the_same_columns(run, tmp_path, machine):
    nothing = corpusfit.select(
        target=TARGET,
        corpus=CORPUS,
        out=tmp_path,
        machine=machine,
        method="moore_lewis",
        threshold=1e9,
    )
    assert (len(nothing), list(nothing)) == (0, [])
    assert nothing.to_arrow().column_names == run.to_arrow().column_names


def test_a_folder_opens_as_what_its_command_returned(run):
    opened = corpusfit.open(run.path)
    assert isinstance(opened, corpusfit.Selection)
    assert opened == run


def test_only_a_finished_run_opens(tmp_path):
    with pytest.raises(InputError):
        corpusfit.open(tmp_path)


@pytest.mark.slow
def test_datasets_loads_the_folder(run, tmp_path):
    datasets = pytest.importorskip("datasets")
    loaded = datasets.load_dataset(str(run.path), split="train", cache_dir=str(tmp_path))
    assert [row["text"] for row in loaded] == [row["text"] for row in run]


def chat(text):
    question, answer = text.split(" ", 1)
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_chats_come_out_with_their_messages(tmp_path, machine, kind):
    rows = pd.DataFrame({"chat": [chat(text) for text in CORPUS], "other": 1})
    path = tmp_path / f"chats.{kind}"
    if kind == "parquet":
        rows.to_parquet(path)
    else:
        rows.to_json(path, orient="records", lines=True)
    run = corpusfit.select(
        target=[{"chat": chat(text)} for text in TARGET],
        corpus=path,
        out=tmp_path / "out",
        text_field="chat",
        machine=machine,
        **SETTINGS,
    )
    assert len(run) == 12
    for segment in run:
        assert segment["chat"] == chat(CORPUS[segment["row"]])
        assert "other" not in segment
    assert run.to_arrow()["chat"].to_pylist() == [segment["chat"] for segment in run]


def test_the_fields_of_a_template_come_out_beside_the_text(tmp_path, machine):
    """A field with the name of a column gets `row_` before it."""
    rows = [{"text": t, "title": f"N{n}" if n % 2 else None} for n, t in enumerate(CORPUS)]
    run = corpusfit.select(
        target=[{"text": text, "title": ""} for text in TARGET],
        corpus=rows,
        out=tmp_path / "out",
        text_field="{title}: {text}",
        machine=machine,
        **SETTINGS,
    )
    for segment in run:
        row = rows[segment["row"]]
        assert (segment["row_text"], segment["title"]) == (row["text"], row["title"])
        assert segment["text"] == f"{row['title'] or ''}: {row['text']}"
