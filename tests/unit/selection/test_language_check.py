"""The warning for a corpus in other languages than the target's."""

import json
import re

import pytest

pytest.importorskip("py3langid")

import corpusfit
from corpusfit.core.plan import Plan

ENGLISH = [
    f"The receptor number {i} is bound by the inhibitor, and the cells do not grow any longer."
    for i in range(25)
]
GERMAN = [
    f"Der Rezeptor mit der Nummer {i} wird vom Hemmstoff gebunden, und die Zellen wachsen nicht."
    for i in range(60)
]


@pytest.fixture
def warnings(jsonl, tmp_path, inline):
    """What `select` warns of."""

    def warnings(target, pile, **words):
        found = corpusfit.select(
            target=jsonl("task.jsonl", target),
            corpus=jsonl("pile.jsonl", pile),
            out=tmp_path / "out",
            machine=inline,
            **words,
        )
        return [w for w in found.manifest["warnings"] if "other languages" in w]

    return warnings


def test_a_method_on_words_across_languages(warnings):
    (warning,) = warnings(ENGLISH, GERMAN + ENGLISH[:20], method="dsir")
    for part in (
        "75 %",
        "(de)",
        "(en)",
        "dsir",
        "embed.embedder=PATH",
        "method.name=domain_cosine",
    ):
        assert part in warning


@pytest.mark.parametrize(("pile", "warned"), [([" ".join(ENGLISH)], False), (GERMAN, True)])
def test_languages_count_by_the_length_of_their_texts(warnings, pile, warned):
    words = ["kinase", "ligand", "assay", "dose", "tumor", "plasma", "receptor", "vivo"] * 7
    assert bool(warnings(ENGLISH, pile + words, method="dsir")) == warned


@pytest.mark.parametrize("method", ["dsir", "domain_cosine"])
@pytest.mark.parametrize("order", ["german first", "english first", "mixed"])
def test_the_sample_is_drawn_from_the_whole_corpus(warnings, jsonl, tiny_static, order, method):
    """A corpus of 30 % German, in shards of a few texts, in any order of its rows."""
    german, english = GERMAN * 10, [f"{text} {i}" for i in range(56) for text in ENGLISH]
    pile = german + english if order == "german first" else english + german
    if order == "mixed":
        pile = pile[::3] + pile[1::3] + pile[2::3]
    words = {"method": method, "settings": ["read.shard_mb=0.01"]}
    if method == "domain_cosine":
        words["embedder"] = "static"
    assert not warnings(ENGLISH, pile, **words)
    (warning,) = warnings(GERMAN[:25], pile, overwrite=True, **words)
    assert 50 < int(warning.partition(" %")[0]) < 90


@pytest.mark.parametrize("field", ["language", "lang"])
def test_the_filter_that_is_named_works(tmp_path, jsonl, inline, field):
    rows = [{"text": t, field: "en"} for t in ENGLISH] + [{"text": t, field: "de"} for t in GERMAN]
    (tmp_path / "pile.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    words = {"target": jsonl("t.jsonl", ENGLISH), "corpus": tmp_path / "pile.jsonl"}
    words |= {"method": "dsir", "machine": inline}
    first = corpusfit.select(**words, out=tmp_path / "first")
    (warning,) = (w for w in first.manifest["warnings"] if "other languages" in w)
    where = re.search(r"`read\.where=(.*?)`", warning)[1]
    assert where == f'{field} == "en"'
    second = corpusfit.select(**words, where=where, out=tmp_path / "second")
    assert not [w for w in second.manifest["warnings"] if "other languages" in w]
    assert second.manifest["counts"]["documents"] == len(ENGLISH)


def test_an_encoder_of_unknown_languages(warnings, tiny_static):
    """The languages of an encoder's folder are unknown, so there is no warning."""
    settings = {"method": "domain_cosine"}
    assert not warnings(ENGLISH, GERMAN, embedder=str(tiny_static), **settings)


@pytest.mark.parametrize(
    ("target", "pile", "method"),
    [
        (GERMAN[:25], GERMAN, "dsir"),  # the same language
        (ENGLISH, GERMAN[:20] + ENGLISH, "dsir"),  # most of the corpus is in the target's
        (ENGLISH, GERMAN, "random"),  # the method reads no words
        (ENGLISH + GERMAN[:10], GERMAN, "dsir"),  # the target has both
    ],
)
def test_nothing_to_warn_of(warnings, target, pile, method):
    assert not warnings(target, pile, method=method)


@pytest.mark.parametrize(
    ("method", "embedder", "words", "english"),
    [
        ("cynical", "minilm", True, False),
        ("dsir", "minilm", True, False),
        ("domain_cosine", "minilm", False, True),
        ("domain_cosine", "static", False, True),
        ("domain_cosine", "some/folder", False, False),
        ("blend", "some/folder", True, False),
        ("domain_cosine", "distilbert/distilbert-base-cased", False, True),
        ("domain_cosine", "distilbert-base-multilingual-cased", False, False),
        ("domain_cosine", "bert-base-german-cased", False, False),
    ],
)
def test_what_a_method_goes_by(method, embedder, words, english):
    from corpusfit.selection.resolved import Resolved
    from corpusfit.text.input import Input
    from corpusfit.text.pairs import is_english_only

    plan = Plan.from_dict({"method": {"name": method}, "embed": {"embedder": embedder}})
    nothing = Input([], plan.read)
    resolved = Resolved(plan, nothing, nothing)
    assert resolved.method.compares_words == words
    assert is_english_only(resolved.embedder) == english
