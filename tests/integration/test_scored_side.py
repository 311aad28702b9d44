"""The side of aligned pairs that is scored, whichever way they are translated."""

import json

import pyarrow.parquet as pq
import pytest
from journeys import digests, prose, scores

import corpusfit
from corpusfit.contracts import random_texts
from corpusfit.core.errors import UsageError
from corpusfit.core.plan import ReadPlan
from corpusfit.text.pairs import is_english_only

NOUNS = ["house", "river", "teacher", "garden", "letter", "market", "bridge", "window"]
GERMAN_WORDS = ["Haus", "Fluss", "Lehrer", "Garten", "Brief", "Markt", "Brücke", "Fenster"]
LANGUAGES = {
    "en": [f"We saw the old {a} near the {b} and it was very quiet there." for a in NOUNS
           for b in NOUNS],
    "de": [f"Wir haben das alte Wort {a} neben {b} gesehen, und es war dort sehr ruhig."
           for a in GERMAN_WORDS for b in GERMAN_WORDS],
}  # fmt: skip
GREEK = str.maketrans("abcdefghijklmnopqrstuvwxyz", "αβκδεφγηιικλμνοπκρστυβωξυζ")


def write(folder, name, **sides):
    for side, texts in sides.items():
        (folder / f"{name}.{side}").write_text("".join(f"{text}\n" for text in texts))
    return f"pair:{','.join(str(folder / f'{name}.{side}') for side in sides)}"


@pytest.fixture
def pairs(tmp_path):
    """Pairs whose second side is of the task in odd rows; the first is in other letters."""
    topics = [prose(topic, 60, seed=3) for topic in ("task", "market")]
    odd, even = ([own[i % 2][i] for i in range(60)] for own in (topics, topics[::-1]))
    return write(tmp_path, "all", de=[text.translate(GREEK) for text in odd], en=even)


@pytest.fixture
def run(task, pairs, tmp_path, inline):
    """`select` by words over the pairs, in this process."""

    def run(out="out", **words):
        given = {"target": task, "corpus": pairs, "method": "moore_lewis", "segments": 20, **words}
        return corpusfit.select(out=tmp_path / out, machine=inline, **given)

    return run


@pytest.mark.parametrize("side", ["second", "en"])
def test_the_second_side_scores_as_where_it_is_the_first(run, tmp_path, side):
    second = run(side=side)
    turned = run("turned", corpus=f"pair:{tmp_path}/all.en,{tmp_path}/all.de", side="first")
    assert [row["score"] for row in scores(second)] == [row["score"] for row in scores(turned)]
    assert second.manifest["plan"]["read"]["side"] == "second"
    assert 'read.side="second"' in second.manifest["repeat"]
    assert all(row["row"] % 2 for row in second)  # there the second side is of the task
    # what is written keeps the order of the files
    for row, other in zip(second, turned, strict=True):
        assert (row["text"], row["translation"]) == (other["translation"], other["text"])
    assert (second.path / "selected.en").read_text() == (turned.path / "selected.en").read_text()
    assert (second.path / "selected.de").read_text().splitlines() == [r["text"] for r in second]


def test_what_is_shown_is_what_was_scored(run, inline):
    found = run(side="en")
    written = (found.path.parent / "all.en").read_text().splitlines()
    shown = pq.read_table(found.path / "examples.parquet").to_pylist()
    shown = [row for row in shown if row["kind"] == "corpus"]
    assert {row["text"] for row in shown} == {written[row["row"]] for row in shown}
    assert corpusfit.explain(found, row="all.de:3", machine=inline).text == written[3]
    chosen = corpusfit.choose(found, segments=5, machine=inline)
    assert all(row["translation"] == written[row["row"]] for row in chosen)


def test_columns_of_a_table_have_sides(run, tmp_path):
    sides = [(tmp_path / f"all.{side}").read_text().splitlines() for side in ("de", "en")]
    lines = [f"{first}\t{second}\n" for first, second in zip(*sides, strict=True)]
    (tmp_path / "all.tsv").write_text("".join(["de\ten\n", *lines]))
    (tmp_path / "bare.tsv").write_text("".join(lines))
    files = [row["score"] for row in scores(run(side="en"))]
    for name, given, side in (
        ("named", "all.tsv:de,en", "en"),
        ("turned", "all.tsv:en,de", "first"),
        ("bare", "bare.tsv", "second"),
    ):
        found = run(name, corpus=f"pair:{tmp_path}/{given}", side=side)
        assert [row["score"] for row in scores(found)] == files


def test_a_run_of_the_first_side_by_its_name_is_the_same(run):
    first = run(side="first")
    before = digests(first.path)
    assert run(side="de").manifest == first.manifest  # it resumes, and finds nothing to do
    assert digests(first.path) == before
    assert ReadPlan().identity() == ReadPlan(side="first").identity()
    assert ReadPlan().identity() != ReadPlan(side="second").identity()


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ({"side": "fr"}, "de, en"),
        ({"corpus": "task", "side": "en"}, "without aligned pairs"),
        ({"target": "turned"}, "direction"),
        ({"corpus": ("turned", "pairs")}, "direction"),
    ],
)
def test_a_side_that_is_none_is_refused(run, task, pairs, tmp_path, words, named):
    place = {"task": task, "pairs": pairs, "turned": f"pair:{tmp_path}/z.en,{tmp_path}/z.de"}
    write(tmp_path, "z", en=["one line"], de=["eine Zeile"])
    for role in {"target", "corpus"} & words.keys():
        asked = words[role]
        named_inputs = [asked] if isinstance(asked, str) else asked
        words = {**words, role: [place[name] for name in named_inputs]}
    with pytest.raises(UsageError, match=named):
        run(**words)
    assert not (tmp_path / "out/scores").exists()


@pytest.fixture
def tongues(tmp_path):
    pytest.importorskip("py3langid")
    return write(tmp_path, "both", **{side: LANGUAGES[side] for side in ("de", "en")})


@pytest.mark.parametrize(
    ("method", "target", "side"),
    [
        ("domain_cosine", "pairs", "second"),  # the encoder's
        ("moore_lewis", "pairs", "first"),  # no language decides
        ("moore_lewis", "en", "second"),
        ("moore_lewis", "de", "first"),
        ("domain_cosine", "de", "first"),  # no encoder can compare it with the other side
    ],
)
def test_auto_is_the_side_in_the_known_language(run, tongues, tmp_path, method, target, side):
    corpus = write(tmp_path, "more", de=LANGUAGES["de"], en=LANGUAGES["en"])
    texts = tmp_path / "target.txt"
    texts.write_text("\n".join(LANGUAGES.get(target, ())[:30]))
    found = run(
        target=tongues if target == "pairs" else texts,
        corpus=corpus,
        method=method,
        embedder="static",
        settings=["read.txt=lines"],
    )
    assert found.manifest["plan"]["read"]["side"] == side
    unknown = any("other languages than English" in text for text in found.manifest["warnings"])
    assert unknown == (method == "domain_cosine" and side == "first")


def test_pairs_in_the_other_order_are_found_by_their_languages(run, tongues, tmp_path):
    rows = zip(LANGUAGES["en"], LANGUAGES["de"], strict=True)
    (tmp_path / "turned.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in rows))
    with pytest.raises(UsageError, match="de-en and en-de"):
        run(target=f"pair:{tmp_path}/turned.tsv", corpus=tongues)


def test_clusters_are_of_the_side(tongues, tmp_path, inline):
    def cluster(name, corpus, **words):
        found = corpusfit.clusters(
            corpus=corpus, k=2, components=2, embedder="static", out=tmp_path / name,
            machine=inline, **words,
        )  # fmt: skip
        return found, pq.read_table(found.path / "sample.parquet")["text"].to_pylist()

    auto, texts = cluster("auto", tongues)
    assert set(texts) == set(LANGUAGES["en"])
    assert auto.manifest["plan"]["read"]["side"] == "second"
    assert not auto.manifest["warnings"]
    first, texts = cluster("first", tongues, side="first")
    assert set(texts) == set(LANGUAGES["de"])
    assert len(first.manifest["warnings"]) == 1


def test_a_selection_is_read_by_its_side(run, tmp_path, inline):
    """As plain text it is what was scored; held-out texts are found on both sides."""
    from corpusfit.text.context import Machine
    from corpusfit.training.inputs import find_training_inputs

    found = run(side="en")
    with Machine(engine="inline").running() as context:
        inputs = find_training_inputs([str(found.path)], (), (), ReadPlan(), context)
    assert inputs.read.text_field == "translation"
    held = tmp_path / "held.jsonl"
    for side in ("text", "translation"):
        longest = max((row[side] for row in found), key=len)
        held.write_text(json.dumps({"text": longest}) + "\n")
        assert corpusfit.contamination(task=held, data=found, machine=inline).holders == 1


def test_a_random_sample_of_texts_is_of_a_side(pairs, tmp_path, inline):
    """Units of the lines of one of the two files."""
    for side in ("en", "de"):
        plan = corpusfit.Plan().with_value("read.side", side)
        lines = (tmp_path / f"all.{side}").read_text().splitlines()
        drawn = random_texts(pairs, plan, role="corpus", machine=inline)
        assert drawn
        assert all(any(text in line for line in lines) for text in drawn)


def test_a_split_is_of_both_sides(pairs, tmp_path, inline):
    with pytest.raises(UsageError, match="both sides"):
        corpusfit.split(
            data=pairs, dev=2, test=2, settings=["read.side=en"], out=tmp_path, machine=inline
        )


@pytest.mark.slow
@pytest.mark.parametrize("side", ["first", "en"])
def test_a_language_model_reads_a_side(run, pairs, tmp_path, inline, side):
    pytest.importorskip("accelerate", reason="the extra train is not installed")
    selection = run(side=side)
    written = {name: sum(len(row[name]) for row in selection) for name in ("text", "translation")}
    of_side = "translation" if side == "en" else "text"
    file = (tmp_path / ("all.en" if side == "en" else "all.de")).read_text()
    settings = ["train.device=cpu", "train.precision=fp32", "model.vocabulary=400"]
    sizes = ["train.length=32"]
    given = {"init": "tiny", "max_steps": 2, "settings": [*settings, *sizes], "machine": inline}

    def characters(name, objective, **words):
        found = corpusfit.adapt(out=tmp_path / name, objective=objective, **given, **words)
        return found.manifest["counts"]["data"]["characters"]

    assert characters("mlm", "mlm", data=selection.path) == written[of_side]
    assert characters("plain", "mlm", data=pairs, side=side) == len(file.replace("\n", ""))


def test_which_encoders_know_only_english():
    known = ["static", "static:minilm", "distilbert-base-uncased", "google-bert/bert-base-cased"]
    unknown = [
        "./static",
        "bert-base-multilingual-cased",
        "static:e5",
        "",
        "bert-base-german-cased",
    ]
    assert all(map(is_english_only, known))
    assert not any(map(is_english_only, unknown))
