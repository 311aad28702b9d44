"""The warning for a corpus in other languages than the target's: when it comes, and its words."""

import pytest

pytest.importorskip("py3langid")

import corpusfit
from corpusfit.plan import Plan

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
    """What `score` warns of."""

    def warnings(target, pile, **words):
        found = corpusfit.score(
            target=jsonl("task.jsonl", target),
            corpus=jsonl("pile.jsonl", pile),
            out=tmp_path / "out",
            machine=inline,
            **words,
        )
        return [w for w in found.manifest["warnings"] if "other languages" in w]

    return warnings


def test_a_method_on_words_across_languages(warnings):
    assert warnings(ENGLISH, GERMAN + ENGLISH[:20], method="dsir") == [
        "75 % of a sample of the corpus is in other languages (de) than the target (en), and dsir "
        "goes by words: its scores across languages say little. Take a multilingual encoder with "
        "--embedder PATH and a method that reads embeddings alone, for instance --method "
        "centroid_distance."
    ]


def test_an_encoder_of_english_alone(warnings, tiny_static):
    """Of an encoder's folder nobody knows the languages; `static` is made of MiniLM."""
    settings = {"method": "centroid_distance"}
    assert not warnings(ENGLISH, GERMAN, embedder=str(tiny_static), **settings)


@pytest.mark.parametrize(
    ("target", "pile", "method"),
    [
        (GERMAN[:25], GERMAN, "dsir"),  # the same language
        (ENGLISH, GERMAN[:20] + ENGLISH, "dsir"),  # most of the corpus is in the target's
        (ENGLISH, GERMAN, "random"),  # no words are looked at
        (ENGLISH + GERMAN[:10], GERMAN, "dsir"),  # the target has both
    ],
)
def test_nothing_to_warn_of(warnings, target, pile, method):
    assert not warnings(target, pile, method=method)


@pytest.mark.parametrize(
    ("method", "embedder", "words", "english"),
    [
        ("auto", "minilm", True, True),
        ("auto", "some/folder", True, False),
        ("dsir", "minilm", True, False),
        ("centroid_distance", "minilm", False, True),
        ("centroid_distance", "static", False, True),
        ("centroid_distance", "some/folder", False, False),
        ("domain_finetune", "some/folder", False, False),
        ("domain_moore_lewis", "some/folder", True, False),
        ("textgram", "minilm", False, True),
    ],
)
def test_what_a_method_goes_by(method, embedder, words, english):
    from corpusfit.pipeline.language_check import is_english_only, reads_words

    plan = Plan.from_dict({"method": {"name": method}, "embed": {"embedder": embedder}})
    assert (reads_words(plan), is_english_only(plan)) == (words, english)
