"""The filter on rows: what it keeps, what it refuses, and that nothing of it is run."""

import pytest

from corpusfit.core.errors import UsageError
from corpusfit.core.where import NotComparableError, parsed

ROW = {
    "score": 0.9,
    "text_score": " 0.9 ",  # as every value of a CSV file is text
    "topic": "Health",
    "big": 2**60 + 1,
    "spelled_big": str(2**60 + 1),
    "flag": True,
    "spelled": "False",
    "none": None,
    "empty": "",
    "date": "2024-05-01",
    "metadata.score": -1,
    "quality score": 3,
    "tags": ["a"],
}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("score > 0.8", True),
        ("0.8 < score <= 0.9", True),
        ("0.95 < score", False),
        ("text_score >= 0.9", True),
        ("text_score == 0.9", True),
        ("score == '0.9'", True),
        ("score != '0.9'", False),
        ("score not in ['0.9', '1']", False),
        ("score > '0.10'", True),
        ("text_score < '0.10'", False),
        ("topic == 'Health' and not score < 0.5", True),
        ("topic == 5", False),
        ("topic != 5", True),
        ("topic in ['Law', \"Health\"] or score > 1", True),
        ("topic not in ('Law',)", True),
        ("score in [1, 0.9]", True),
        (f"big == {2**60 + 1}", True),
        (f"spelled_big == {2**60}", False),
        ("flag == true", True),
        ("flag != True", False),
        ("spelled == false", True),
        ("tags == true", False),
        ("none == null", True),
        ("none is null and missing is null", True),
        ("topic is not null", True),
        ("empty is null", True),
        ("empty != null or empty not in [null]", False),
        ("missing == null", True),
        ("topic != null", True),
        ("missing > 3 or missing <= 3", False),
        ("empty < 3", False),
        ("empty == ''", True),
        ("date >= '2024' and date < '2024-06'", True),
        ("metadata.score < 0", True),
        ("field('quality score') == +3", True),
        ("(score > 1 or\n topic == 'Health') and score > -1e3", True),
        ("tags == 'a'", False),
    ],
)
def test_what_is_kept(text, kept):
    assert parsed(text).keeps(ROW.get) is kept


SECOND_OF_JANUARY = [
    "2024-01-02",
    "2024-1-2",
    "2024/01/02",
    " 2024-01-02 ",
    "2024-01-02T00:00:00",
    "2024-01-02 00:00",
    "2024-01-02T00:00:00.000000000",
    "2024-01-02T00:00:00Z",
    "2024-01-02 00:00:00 UTC",
    "2024-01-02 02:00:00+02",
    "2024-01-02T05:30:00+0530",
    "2024-01-01T19:00:00.000-05:00",
]


@pytest.mark.parametrize("written", SECOND_OF_JANUARY)
@pytest.mark.parametrize("asked", SECOND_OF_JANUARY)
def test_a_time_is_the_same_however_it_is_written(written, asked):
    def keeps(comparison, value):
        return parsed(f"date {comparison}").keeps({"date": value}.get)

    for comparison in ("== '{}'", "in ['{}']", "<= '{}'", ">= '{}'"):
        assert keeps(comparison.format(asked), written)
    for comparison in ("!= '{}'", "< '{}'", "> '{}'"):
        assert not keeps(comparison.format(asked), written)
    assert keeps(f"> '{asked}'", "2024-01-02T00:00:00.000000001")
    assert keeps(f"< '{asked}'", "2024-01-02T00:30:00+02:00")
    assert not keeps(f"<= '{asked}'", "2024-01-02T12:00:00")
    assert not keeps(f"== '{asked}'", "the second of January")
    assert not keeps(f"< '{asked}'", None)
    assert not keeps(f"< '{asked}'", " ")


@pytest.mark.parametrize("value", ["yesterday", "02/01/2024", "2024-02-30", 1704153600, "20240102"])
def test_what_is_no_time_has_no_order_with_one(value):
    with pytest.raises(NotComparableError, match="date"):
        parsed("date < '2024-01-02'").keeps({"date": value}.get)


@pytest.mark.parametrize("asked", ["20240201", "Feb 1, 2024", "1 Feb 2024", "2024-02-01T00:00 EST"])
def test_a_time_has_no_order_with_what_is_no_time(asked):
    with pytest.raises(NotComparableError, match="write a date as"):
        parsed(f"date < '{asked}'").keeps({"date": "2024-01-31T12:00:00"}.get)


def test_a_year_and_a_month_are_their_beginnings():
    for value in ("2024-06-01T00:00:00", "2024-06", "2024-06-01 02:00+02:00"):
        assert parsed("date >= '2024-06' and date <= '2024-06'").keeps({"date": value}.get)
    assert not parsed("date >= '2024'").keeps({"date": "2024-01-01T00:30:00+02:00"}.get)


@pytest.mark.parametrize("text", ["date < '31/12/2024'", "'1.2.24' > date", "date >= '2024-02-30'"])
def test_a_date_that_may_be_read_in_two_ways_is_refused(text):
    with pytest.raises(UsageError, match="write a date as 2024-12-31"):
        parsed(text)


@pytest.mark.parametrize("text", ["topic > 3", "score < 'a'", "tags >= 0", "flag > 0"])
def test_values_without_an_order_are_no_answer(text):
    with pytest.raises(NotComparableError, match=r"topic|score|tags|flag"):
        parsed(text).keeps(ROW.get)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "score",
        "score = 3",
        "score > 3 AND topic == 'a'",
        "score > other",
        "3 > 2",
        "score > null",
        "score > true",
        "score + 1 > 3",
        "score is 3",
        "'a' in tags",
        "score in [other]",
        "score > 3 if flag else 4",
        "__import__('os').system('false') == 0",
        "field(topic) == 1",
        "field('a', 'b') == 1",
        "(lambda: 1)() == score",
        "f'{score}' == topic",
        "b'a' == topic",
        "(x := score) > 3",
        "score == ...",
        "score > 3\0",
        "not " * 2_000 + "score > 3",
        "(" * 300 + "score > 3" + ")" * 300,
        " or ".join(["score > 3"] * 2_000),
    ],
)
def test_what_is_no_filter_is_refused(text):
    with pytest.raises(UsageError, match=r"^`read\.where` must be .*read\.where=score"):
        parsed(text)


@pytest.mark.parametrize("text", ["score > 3 & flag == true", "(score > 3) | flag == true"])
def test_the_word_for_a_sign_is_named(text):
    with pytest.raises(UsageError, match="write `and` for `&` and `or` for `\\|`"):
        parsed(text)


def test_the_fields_that_it_reads():
    assert parsed("a.b > 1 and (c == 'x' or not a.b in [2])").fields == ("a.b", "c")
