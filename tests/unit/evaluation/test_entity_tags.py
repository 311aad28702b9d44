"""Conversion of tag schemes to BIO, against seqeval's entities."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import sequence_labeling as seqeval

from corpusfit.evaluation.tasks.tagging import as_bio, scheme, strays

TAGS = st.lists(st.sampled_from(["O", *(f"{p}-{t}" for p in "BIES" for t in ("X", "Y-Z"))]))
SPANS = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 4), st.sampled_from("XY")))


def entities(tags):
    return seqeval.get_entities(list(tags))


def written(spans, scheme):
    """Tags of (gap, length, type) triples in a scheme."""
    tags = []
    for gap, length, type_ in spans:
        tags += ["O"] * gap
        one = {"bio": "B", "iob1": "I", "bioes": "S"}[scheme]
        first = {"bio": "B", "iob1": "I", "bioes": "B"}[scheme]
        last = "E" if scheme == "bioes" else "I"
        if scheme == "iob1" and tags and tags[-1][1:] == f"-{type_}":
            one = first = "B"
        marks = one if length == 1 else first + "I" * (length - 2) + last
        tags += [f"{mark}-{type_}" for mark in marks]
    return tags


@given(TAGS)
def test_any_tags_keep_their_entities(tags):
    found = as_bio(tags)
    assert entities(found) == entities(tags)
    assert {tag[0] for tag in found} <= set("BIO")
    assert strays(found) == 0
    assert as_bio(found) == found


@given(st.lists(SPANS), st.sampled_from(["bio", "iob1", "bioes"]))
def test_every_scheme_gives_the_same_bio(sentences, kind):
    tags = [written(spans, kind) for spans in sentences]
    expected = [written(spans, "bio") for spans in sentences]
    assert list(map(as_bio, tags)) == expected
    assert scheme(tags) == (kind if any(sentences) else "bio")


@given(TAGS)
def test_strays_are_the_entities_that_do_not_begin_with_b(tags):
    plain = [tag for tag in tags if tag[0] in "BIO"]
    assert strays(plain) == sum(plain[begin][0] == "I" for _, begin, _ in entities(plain))


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        (["O", "B-X", "I-X", "O"], "bio"),
        (["I-X", "I-X", "B-X", "I-Y"], "iob1"),
        (["I-X", "O", "I-Y"], "iob1"),
        (["B-X", "O", "I-X"], "bio"),
        (["B-X", "E-X", "O"], "bioes"),
        (["B-X", "L-X", "U-Y"], "bioes"),
        (["O"], "bio"),
    ],
)
def test_the_scheme_is_found(tags, expected):
    assert scheme([[], tags]) == expected
    assert scheme([["B-Z"], tags]) == (expected if expected != "iob1" else "bio")


def test_bilou():
    assert as_bio(["B-X", "I-X", "L-X", "U-X", "O"]) == ["B-X", "I-X", "I-X", "B-X", "O"]
