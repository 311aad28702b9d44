"""Aligned pairs: line n with line n, whatever the file; held to `zip` over the decoded lines."""

import bz2
import gzip
import lzma
import random

import pytest
import zstandard

from corpusfit.core.errors import InputError, UsageError
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Document, Reject
from corpusfit.text import current_sources, find, rows, shards, sides
from corpusfit.text.formats.pairs import Moses
from corpusfit.text.pairs import carried_text
from corpusfit.text.rejects import stored

PACKED = {
    "": bytes,
    ".gz": gzip.compress,
    ".zst": zstandard.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
}


@pytest.fixture
def moses(write):
    """Write two line-aligned files; returns the input that names them."""

    def moses(name, first, second, suffix=""):
        sides = zip(("de", "en"), (first, second), strict=True)
        paths = [write(f"{name}.{side}{suffix}", PACKED[suffix](data)) for side, data in sides]
        return f"pair:{paths[0]},{paths[1]}"

    return moses


def lines(seed, n=400):
    """Lines with what might be taken for line ends or columns; none of them blank."""
    chance = random.Random(seed)
    signs = ["wort", "Zahl 7", "ü", "\u2028", "\x0b", "\t", '"', "語", " ", "\x85", "{", "a,b"]
    return ["x" + "".join(chance.choices(signs, k=chance.randint(1, 30))) for _ in range(n)]


def joined(lines, end="\n"):
    return "".join(line + end for line in lines).encode()


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("shard_mb", [4.0, 0.001])
def test_line_n_goes_with_line_n(read, moses, suffix, shard_mb):
    first, second = lines(1), lines(2)
    found = read(moses("a", joined(first), joined(second), suffix), shard_mb=shard_mb)
    assert [(row.text, carried_text(row)) for row in found] == list(zip(first, second, strict=True))
    assert [row.row for row in found] == list(range(400))
    whole = joined(first)
    for row in found:
        assert whole[row.byte :].startswith(row.text.encode() + b"\n")


def test_shards_are_cut_by_content_and_travel_by_themselves(moses):
    plan = ReadPlan(shard_mb=0.001)
    given = moses("a", joined(lines(1)), joined(lines(2)))
    sources = find([given], plan, role="corpus")
    cut = list(shards(sources, plan))
    assert len(cut) > 10
    assert [s.index for s in cut] == list(range(len(cut)))
    parts = [list(rows(shard, plan)) for shard in reversed(cut)]
    assert [row.row for part in reversed(parts) for row in part] == list(range(400))


def test_carriage_returns_marks_and_a_last_line_without_its_end(read, moses):
    given = moses("a", b"\xef\xbb\xbfeins\r\nzwei", b"\xef\xbb\xbfone\r\ntwo\n")
    assert [(r.byte, r.text, carried_text(r)) for r in read(given)] == [
        (0, "eins", "one"),
        (9, "zwei", "two"),
    ]


def test_a_side_that_cannot_be_used_rejects_the_pair_and_no_other(read, moses):
    first = [b"null", b"", b"zwei", b"  ", b"vier", b"f\xfcnf", b"sechs", b"sieben\0", b"acht"]
    second = [b"0", b"one", b"", b"", b"four", b"five", b"s\xedx", b"seven", b"e\0ght"]
    found = read(moses("a", b"\n".join(first) + b"\n", b"\n".join(second) + b"\n"))
    assert [(r.row, str(r.reason)) for r in found if isinstance(r, Reject)] == [
        (1, "text is empty"),
        (2, "translation is empty"),
        (3, "empty line"),
        (5, "invalid UTF-8"),
        (6, "invalid UTF-8 (translation)"),
        (7, "text contains NUL"),
        (8, "translation contains NUL"),
    ]
    kept = [(r.row, r.text, carried_text(r)) for r in found if isinstance(r, Document)]
    assert kept == [(0, "null", "0"), (4, "vier", "four")]


def test_a_line_over_the_limit_on_either_side(read, moses):
    long = b"x" * 3000
    found = read(moses("a", b"a\n%b\nc\nd\n" % long, b"A\nB\n%b\nD\n" % long), max_row_mb=0.002)
    assert [(r.row, r.byte) for r in found] == [(0, 0), (1, 2), (2, 3003), (3, 3005)]
    assert [str(r.reason) for r in found[1:3]] == [
        "row longer than 0.002 MiB",
        "row longer than 0.002 MiB (translation)",
    ]
    assert [(r.text, carried_text(r)) for r in (found[0], found[3])] == [("a", "A"), ("d", "D")]


@pytest.mark.parametrize(("first", "second", "short"), [(5, 3, "en"), (3, 5, "de")])
def test_files_of_unequal_length_are_an_error_that_names_the_line(
    read, moses, first, second, short
):
    given = moses("a", joined(lines(1, first)), joined(lines(2, second)))
    long = "de" if short == "en" else "en"
    with pytest.raises(InputError, match=rf"a\.{short} .*\b3\b.*a\.{long} .*\b4\b"):
        read(given)


def test_files_that_become_unequal_while_they_are_read(moses):
    plan = ReadPlan()
    sources = find([moses("a", b"1\n2\n", b"1\n2\n")], plan, role="corpus")
    moses("a", b"1\n2\n3\n", b"1\n2\n")
    with pytest.raises(InputError, match=r"a\.en .*\b2\b"):
        [list(rows(shard, plan)) for shard in shards(sources, plan)]


def test_a_truncated_archive_ends_the_pairs_with_a_reject(read, moses, write):
    given = moses("a", joined(lines(1, 3000)), joined(lines(2, 3000)), ".gz")
    whole = write("a.en.gz", PACKED[".gz"](joined(lines(2, 3000))))
    whole.write_bytes(whole.read_bytes()[:-2000])
    *used, last = read(given)
    assert str(last.reason) == "truncated .gz archive (translation)"
    assert 0 < len(used) < 3000
    expected = zip(lines(1, 3000), lines(2, 3000), strict=True)
    for row, pair in zip(used, expected, strict=False):
        assert (row.text, carried_text(row)) == pair


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_tsv_without_a_header_is_two_columns(read, write, suffix):
    data = PACKED[suffix](b'eins\tone\nzwei "z"\ttwo\tmore\ndrei\n\tfour\n\n"f\tfive\n')
    found = read(f"pair:{write(f'p.tsv{suffix}', data)}")
    assert [r for r in found if isinstance(r, Reject)] == [
        Reject(2, 27, stored("translation is empty")),
        Reject(3, 32, stored("text is empty")),
        Reject(4, 38, stored("empty line")),
    ]
    kept = [(r.row, r.byte, r.text, carried_text(r)) for r in found if isinstance(r, Document)]
    assert kept == [(0, 0, "eins", "one"), (1, 9, 'zwei "z"', "two"), (5, 39, '"f', "five")]


@pytest.mark.parametrize("shard_mb", [4.0, 0.001])
def test_a_tsv_with_a_header_by_the_names_of_its_columns(read, write, shard_mb):
    first, second = ([line.replace("\t", " ") for line in lines(seed)] for seed in (1, 2))
    both = zip(second, first, strict=True)
    path = write("p.tsv", "\ufeffen\tscore\tde\n" + "".join(f"{e}\t1\t{d}\n" for e, d in both))
    found = read(f"pair:{path}:de,en", shard_mb=shard_mb)
    assert [(r.text, carried_text(r)) for r in found] == list(zip(first, second, strict=True))
    assert [r.row for r in found] == list(range(400))
    for row in found:
        assert path.read_bytes()[row.byte :].startswith(carried_text(row).encode() + b"\t1\t")


@pytest.mark.parametrize("shard_mb", [4.0, 1e-5])
def test_pairs_of_files_that_were_joined(read, write, shard_mb):
    mark = "\ufeff"
    write("a.de", f"{mark}eins\n{mark}zwei\n")
    write("a.en", f"one\n{mark}two\n")
    place = write("a.tsv", f"{mark}de\ten\neins\tone\n{mark}de\ten\t\r\n{mark}zwei\ttwo\t\n").parent
    by_line = read(f"pair:{place}/a.de,{place}/a.en", shard_mb=shard_mb)
    first, header, second = read(f"pair:{place}/a.tsv:de,en", shard_mb=shard_mb)
    assert str(header.reason) == "repeated header"
    for found in (by_line, [first, second]):
        texts = [(row.text, carried_text(row)) for row in found]
        assert texts == [("eins", "one"), ("zwei", "two")]


def test_a_column_that_is_not_there(read, write):
    path = write("p.tsv", "en\tde\nx\ty\n")
    with pytest.raises(InputError, match=r"'fr'.* en, de"):
        read(f"pair:{path}:de,fr")


@pytest.mark.parametrize("given", ["pair:", "pair:a.de", "pair:a,b,c", "pair:a,", "pair:p.tsv:de"])
def test_what_names_no_pair(read, given):
    with pytest.raises(UsageError, match=r"^`corpus\b.*pair:TEXTS,TRANSLATIONS"):
        read(given)


def test_pairs_are_given_alone(read, moses, write):
    with pytest.raises(UsageError, match=r"^`corpus\b"):
        read(moses("a", b"x\n", b"y\n"), write("b.txt", "z"))


def test_a_file_that_is_not_there(read, write):
    with pytest.raises(InputError, match=r"no\.en"):
        read(f"pair:{write('a.de', 'x')},{write('a.de', 'x').with_name('no.en')}")


def test_commas_in_the_names_of_files(read, moses, write):
    assert len(read(moses("a, b,c", b"x\n", b"y\n"))) == 1
    assert len(read(f"pair:{write('p,q.tsv', 'x,y')}")) == 1


def test_names_and_fingerprints(moses, write):
    plan = ReadPlan()

    def found(*given):
        return find(list(given), plan, role="corpus")

    law, koran = moses("law/dev", b"x\n", b"y\n"), moses("koran/dev", b"v\n", b"w\n")
    sources = found(law, koran, law)
    assert [s.name for s in sources] == ["koran/dev.de", "law/dev.de"]
    assert sides(sources) == ("de", "en")
    assert current_sources(sources, plan) == (sources, [])
    turned = "pair:" + ",".join(law.removeprefix("pair:").split(",")[::-1])
    assert found(turned)[0].fingerprint != found(law)[0].fingerprint
    assert sides(found(law, turned)) == ("text", "translation")
    moses("law/dev", b"x\n", b"z\n")  # the other side alone
    assert current_sources(sources, plan)[1] == ["law/dev.de"]
    tsv = write("p.tsv", "de\ten\nx\ty\n")
    by_names = found(f"pair:{tsv}:de,en"), found(f"pair:{tsv}:en,de"), found(f"pair:{tsv}")
    assert len({s.fingerprint for (s,) in by_names}) == 3
    assert [sides(s) for s in by_names] == [("de", "en"), ("en", "de"), ("text", "translation")]


def test_both_texts_of_archives_are_read_in_one_pass(moses, monkeypatch):
    plan = ReadPlan(shard_mb=0.001)
    given = moses("a", joined(lines(1, 3000)), joined(lines(2, 3000)), ".gz")
    sources = find([given], plan, role="corpus")
    opened = []
    cut = Moses.blocks
    monkeypatch.setattr(Moses, "blocks", lambda *of: opened.append(1) or cut(*of))
    both = plan.sides()
    shards_of = list(shards(sources, both[0]))
    assert len(shards_of) > 5
    assert not opened
    texts = [[row.text for each in both for row in rows(s, each)] for s in shards_of]
    assert opened == [1]
    assert sum(map(len, texts)) == 6000


def test_a_header_that_fills_a_shard(write):
    plan = ReadPlan(shard_mb=0.0001)
    text = "".join(f"{i}\ttext {i}\tTexte {i}\n" for i in range(200))
    path = write("a.tsv", f"{'n' * 200}\ten\tfr\n{text}")
    sources = find([f"pair:{path}:en,fr"], plan, role="corpus")
    found = [list(rows(s, plan)) for s in list(shards(sources, plan))[::-1]]
    assert [r.text for part in reversed(found) for r in part] == [f"text {i}" for i in range(200)]
