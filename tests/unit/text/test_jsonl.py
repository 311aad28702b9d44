"""JSON lines: every kind of bad row, and where rows stand."""

import pytest

from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject
from corpusfit.text.formats import jsonl
from corpusfit.text.rejects import stored


def test_rows_carry_line_byte_and_id(read, write):
    lines = ['{"text": "one", "id": "a"}', '{"text": "zwölf", "id": 7}', '{"text": "three"}']
    assert read(write("a.jsonl", "\n".join(lines) + "\n")) == [
        Document(0, 0, "one", "a"),
        Document(1, 27, "zwölf", 7),
        Document(2, 27 + len(lines[1].encode()) + 1, "three", None),
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b'{"text": "x"', "malformed JSON"),
        (b"nonsense", "malformed JSON"),
        (b"[" * 5000, "malformed JSON"),
        (b'{"text": "\\ud800"}', "malformed JSON: half of a character in the text"),
        (b'{"text": "\xff"}', "invalid UTF-8"),
        (b'["text"]', "row is not an object"),
        (b"3", "row is not an object"),
        (b'{"body": "x", "n": 1}', "missing field 'text': fields are body, n"),
        (
            b'{"meta": {"text": "x"}, "n": 1}',
            "missing field 'text': fields are meta.text, n; try meta.text",
        ),
        (b"{}", "missing field 'text'"),
        (b'{"text": null}', "text is null"),
        (b'{"text": 5}', "text is not a string: int"),
        (b'{"text": [5]}', "text is not a string: int in a list"),
        (b'{"text": {"a": 1}}', "text is not a string: object with the fields text.a"),
        (b'{"text": ""}', "text is empty"),
        (b'{"text": " \\n\\u00a0"}', "text is empty"),
        (b'{"text": "a\\u0000b"}', "text contains NUL"),
        (b'{"text": "a\0b"}', "malformed JSON"),
        (b"", "empty line"),
        (b" \t", "empty line"),
    ],
)
def test_a_bad_line_costs_one_row(read, write, line, reason):
    path = write("a.jsonl", b'{"text": "before"}\n' + line + b'\n{"text": "after"}')
    before, bad, after = read(path)
    assert (bad.row, bad.byte, str(bad.reason)) == (1, 19, reason)
    assert (before.text, after.text) == ("before", "after")
    assert after.byte == 19 + len(line) + 1


@pytest.mark.parametrize("number", ["NaN", "-NaN", "Infinity", "-Infinity"])
def test_numbers_that_are_none_are_null(read, write, number):
    """As Python's json and pandas write them; -NaN is none of these."""
    line = f'{{"text": "a NaN of 1\u00e9", "id": 3, "of": [{number}], "n": {number}}}'
    (row,) = read(write("a.jsonl", line))
    if number == "-NaN":
        assert str(row.reason) == "malformed JSON"
        return
    assert row == Document(0, 0, "a NaN of 1é", 3)
    assert read(write("b.jsonl", line), where="n == null and of != null") == [row]
    (without,) = read(write("c.jsonl", line), numbers="n")
    assert str(without.reason) == "no number in 'n'"


@pytest.mark.parametrize(
    "other",
    [
        r'"cut \ud83d"',
        r'["\udc00 \ud83d\ude00", {"\ud800": 1}]',
        "1e400",
        "-1e999",
        '[1.5, 1e400, "1e400"]',
        "12345678901234567890123",
    ],
)
def test_what_is_wrong_in_another_field_costs_no_text(read, write, other):
    path = write("a.jsonl", f'{{"text": "a fine text", "id": 7, "of": {other}}}\n')
    assert read(path) == [Document(0, 0, "a fine text", 7)]
    assert read(path, where="of != 3") == read(path)


def test_bytes_that_are_no_utf8_in_another_field_cost_no_text(read, write):
    lines = [b'{"text": "fine", "title": "caf\xe9", "id": 1}', b'{"text": "caf\xe9"}', b'{"\xe9"']
    path = write("a.jsonl", b"\n".join(lines))
    assert read(path) == [
        Document(0, 0, "fine", 1),
        Reject(1, 43, stored("invalid UTF-8")),
        Reject(2, 60, stored("invalid UTF-8")),
    ]
    (first, *_) = read(path, id_field="title", where="title != 3")
    assert first == Document(0, 0, "fine", "caf\ufffd")


def test_half_a_character_in_the_text_is_a_reject(read, write):
    (row,) = read(write("a.jsonl", r'{"text": "cut \ud83d", "id": 1}'))
    assert row == Reject(0, 0, stored("malformed JSON: half of a character in the text"))
    (row,) = read(write("b.jsonl", r'{"text": "fine", "id": "\ud83d"}'))
    assert row == Document(0, 0, "fine", "\ufffd")


def test_a_row_with_many_fields_names_the_first_eight(read, write):
    fields = ", ".join(f'"f{i}": 1' for i in range(20))
    (row,) = read(write("a.jsonl", "{" + fields + "}"))
    assert str(row.reason) == "missing field 'text': fields are f0, f1, f2, f3, f4, f5, f6, f7, …"


def test_a_dotted_name_is_a_field_inside_a_field_unless_a_field_has_it(read, write):
    """For the text, the id (by which labels and groups are read) and the numbers alike."""
    lines = '{"a": {"b": "in", "n": 1}}\n{"a": {"b": "in", "n": 1}, "a.b": "out", "a.n": 2}'
    rows = read(write("a.jsonl", lines), text_field="a.b", id_field="a.b", numbers="a.n")
    assert [(r.text, r.id, r.numbers) for r in rows] == [
        ("in", "in", (1.0,)),
        ("out", "out", (2.0,)),
    ]
    of_row = jsonl.as_line({"text": "x", "a": {"b": 1}, "c": 2}, ReadPlan(id_field="a.b"))
    assert of_row == b'{"text":"x","a":{"b":1}}\n'


@pytest.mark.parametrize("given", ["1.5", "null", '["x"]'])
def test_an_id_of_another_kind_is_dropped(read, write, given):
    (row,) = read(write("a.jsonl", f'{{"text": "x", "id": {given}}}'))
    assert row == Document(0, 0, "x", None)


def test_a_boolean_id_is_kept_for_it_may_be_a_label(read, write):
    (row,) = read(write("a.jsonl", '{"text": "x", "id": true}'))
    assert row.id is True


def test_other_field_names(read, write):
    path = write("a.jsonl", '{"body": "x", "key": 3}')
    assert read(path, text_field="body", id_field="key") == [Document(0, 0, "x", 3)]


def test_byte_order_mark_and_windows_line_ends(read, write):
    path = write("a.jsonl", b'\xef\xbb\xbf{"text": "a"}\r\n\r\n{"text": "b"}\r\n')
    assert read(path) == [
        Document(0, 0, "a", None),
        Reject(1, 18, stored("empty line")),
        Document(2, 20, "b", None),
    ]


def test_marks_of_files_that_were_joined_are_ignored(read, write):
    mark = "\ufeff"
    path = write("a.jsonl", f'{mark}{{"text": "a"}}\n{mark}{{"text": "b{mark}"}}\n{mark}\n')
    assert [getattr(row, "text", row) for row in read(path)] == [
        "a",
        f"b{mark}",
        Reject(2, 37, stored("empty line")),
    ]


def test_a_mark_before_a_bad_line_does_not_hide_it(read, write):
    (row,) = read(write("a.jsonl", b"\xef\xbb\xbf{"))
    assert str(row.reason) == "malformed JSON"


def test_only_the_last_line_end_begins_no_row(read, write):
    rows = read(write("a.jsonl", b'{"text": "a"}\n\n'))
    assert [type(row).__name__ for row in rows] == ["Document", "Reject"]


def test_unicode_line_separators_are_text(read, write):
    text = "a\u2028b\u0085c"
    (row,) = read(write("a.jsonl", f'{{"text": "{text}"}}\n'))
    assert row.text == text


def test_empty_file_has_no_rows(read, write):
    assert read(write("a.jsonl", b"")) == []


def test_whole_numbers_keep_their_digits_and_are_ids(read, write):
    """pandas makes integers floats where one is missing; more than 64 bits are text."""
    numbers = ["36893488147419103233", "1.0", "1.5", "7"]
    lines = "".join(f'{{"text": "x", "id": {number}}}\n' for number in numbers)
    path = write("a.jsonl", lines)
    assert [row.id for row in read(path)] == [numbers[0], 1, None, 7]
    kept = read(path, where=f"id == {numbers[0]}")
    assert [isinstance(row, Document) for row in kept] == [True, False, False, False]
