"""Of aligned pairs the first text is read and the second carried, in whatever order they are."""

import json

import pyarrow.parquet as pq
import pytest
from journeys import prose, scores

import corpusfit
from corpusfit.contracts import random_texts
from corpusfit.core.errors import UsageError
from corpusfit.core.plan import ReadPlan
from corpusfit.text.pairs import is_english_only
from corpusfit.training.inputs import find_training_inputs

NOUNS = ["house", "river", "teacher", "garden", "letter", "market", "bridge", "window"]
GERMAN_WORDS = ["Haus", "Fluss", "Lehrer", "Garten", "Brief", "Markt", "Brücke", "Fenster"]
LANGUAGES = {
    "en": [f"We saw the old {a} near the {b} and it was very quiet there." for a in NOUNS
           for b in NOUNS],
    "de": [f"Wir haben das alte Wort {a} neben {b} gesehen, und es war dort sehr ruhig."
           for a in GERMAN_WORDS for b in GERMAN_WORDS],
}  # fmt: skip
GREEK = str.maketrans("abcdefghijklmnopqrstuvwxyz", "αβκδεφγηιικλμνοπκρστυβωξυζ")


def write(folder, name, **texts):
    for ending, lines in texts.items():
        (folder / f"{name}.{ending}").write_text("".join(f"{line}\n" for line in lines))
    return f"pair:{','.join(str(folder / f'{name}.{ending}') for ending in texts)}"


@pytest.fixture
def pairs(tmp_path):
    """Pairs whose English texts are of the task in odd rows; the German are in other letters."""
    topics = [prose(topic, 60, seed=3) for topic in ("task", "market")]
    odd, even = ([own[i % 2][i] for i in range(60)] for own in (topics, topics[::-1]))
    return write(tmp_path, "all", en=even, de=[text.translate(GREEK) for text in odd])


@pytest.fixture
def run(task, pairs, tmp_path, inline):
    """`select` by words over the pairs, in this process."""

    def run(out="out", **words):
        given = {"target": task, "corpus": pairs, "method": "moore_lewis", "segments": 20, **words}
        return corpusfit.select(out=tmp_path / out, machine=inline, **given)

    return run


def test_the_first_text_is_scored_shown_and_written_first(run, tmp_path, inline):
    found = run()
    written = (tmp_path / "all.en").read_text().splitlines()
    assert all(row["row"] % 2 for row in found)  # there the English text is of the task
    assert [row["text"] for row in found] == [written[row["row"]] for row in found]
    others = (tmp_path / "all.de").read_text().splitlines()
    assert [row["translation"] for row in found] == [others[row["row"]] for row in found]
    assert found.manifest["selected"]["aligned"] == ["selected.en", "selected.de"]
    shown = pq.read_table(found.path / "examples.parquet").to_pylist()
    assert {row["text"] for row in shown} == {written[row["row"]] for row in shown}
    assert corpusfit.explain(found, row="all.en:3", machine=inline).text == written[3]
    turned = run("turned", corpus=f"pair:{tmp_path}/all.de,{tmp_path}/all.en")
    assert [row["row"] for row in turned] != [row["row"] for row in found]


def test_columns_of_a_table_are_in_the_order_of_their_names(run, tmp_path):
    texts = [(tmp_path / f"all.{name}").read_text().splitlines() for name in ("en", "de")]
    rows = "".join(f"{first}\t{second}\n" for first, second in zip(*texts, strict=True))
    (tmp_path / "bare.tsv").write_text(rows)
    turned = "".join(f"{second}\t{first}\n" for first, second in zip(*texts, strict=True))
    (tmp_path / "all.tsv").write_text(f"de\ten\n{turned}")
    files = [row["score"] for row in scores(run())]
    for name, given in (("named", "all.tsv:en,de"), ("bare", "bare.tsv")):
        found = run(name, corpus=f"pair:{tmp_path}/{given}")
        assert [row["score"] for row in scores(found)] == files


def test_a_selection_does_not_read_the_carried_text(run, tmp_path):
    with pytest.raises(UsageError, match=r"read\.text_field.*first text.*other order"):
        run(text_field="translation")
    assert not (tmp_path / "out/scores").exists()


def test_clusters_are_of_the_first_texts(tmp_path, inline):
    given = write(tmp_path, "both", **{name: LANGUAGES[name] for name in ("en", "de")})
    found = corpusfit.clusters(
        corpus=given, k=2, components=2, embedder="static", out=tmp_path / "out", machine=inline
    )
    texts = pq.read_table(found.path / "sample.parquet")["text"].to_pylist()
    assert set(texts) == set(LANGUAGES["en"])


def test_a_training_reads_either_text_of_a_selection(run, tmp_path, inline):
    """Held-out texts are found in both."""
    found = run()
    with inline.running() as context:
        for field in ("text", "translation"):
            read = ReadPlan(text_field=field)
            inputs = find_training_inputs([str(found.path)], (), (), read, context)
            assert inputs.read.text_field == field
            assert inputs.read.sides()[0] == inputs.read
    held = tmp_path / "held.jsonl"
    for field in ("text", "translation"):
        longest = max((row[field] for row in found), key=len)
        held.write_text(json.dumps({"text": longest}) + "\n")
        assert corpusfit.contamination(task=held, data=found, machine=inline).holders == 1


def test_a_random_sample_of_texts_is_of_the_first(pairs, tmp_path, inline):
    """Units of its lines."""
    lines = (tmp_path / "all.en").read_text().splitlines()
    drawn = random_texts(pairs, corpusfit.Plan(), role="corpus", machine=inline)
    assert drawn
    assert all(any(text in line for line in lines) for text in drawn)


@pytest.mark.slow
def test_a_language_model_reads_either_text(run, pairs, tmp_path, inline):
    pytest.importorskip("accelerate", reason="the extra train is not installed")
    selection = run()
    written = {name: sum(len(row[name]) for row in selection) for name in ("text", "translation")}
    settings = ["train.device=cpu", "train.precision=fp32", "model.vocabulary=400"]
    sizes = ["train.length=32"]
    given = {"init": "tiny", "max_steps": 2, "settings": [*settings, *sizes], "machine": inline}

    def characters(name, objective, **words):
        found = corpusfit.adapt(out=tmp_path / name, objective=objective, **given, **words)
        return found.manifest["counts"]["data"]["characters"]

    assert characters("first", "mlm", data=selection.path) == written["text"]
    other = {"text_field": "translation"}
    assert characters("other", "mlm", data=selection.path, **other) == written["translation"]
    file = (tmp_path / "all.de").read_text()
    assert characters("plain", "mlm", data=pairs, **other) == len(file.replace("\n", ""))


def test_which_encoders_know_only_english():
    known = ["static", "minilm", "distilbert-base-uncased", "google-bert/bert-base-cased"]
    unknown = [
        "./static",
        "bert-base-multilingual-cased",
        "",
        "bert-base-german-cased",
    ]
    assert all(map(is_english_only, known))
    assert not any(map(is_english_only, unknown))
