"""Sentence pairs from aligned files and two columns: what is read, skipped and refused."""

import dataclasses
import gzip

import pytest

from corpusfit.core.errors import EmptyInputError, InputError, UsageError
from corpusfit_papers.retrieving import read_bitext


def read_pairs(value):
    """A test set with its sentences as lists."""
    found = read_bitext(value)
    return dataclasses.replace(found, sides=tuple(side.texts for side in found.sides))


@pytest.fixture
def write(tmp_path):
    """Write a file; returns the folder with a slash."""

    def write(name, text):
        data = text.encode()
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return f"{tmp_path}/"

    return write


def test_files_of_one_name_in_the_order_of_the_name(write):
    """Moses: NAME.X and NAME.Y; the last line may lack its line end."""
    write("tatoeba.spa-eng.eng", "Good day\nThe night\n")
    folder = write("tatoeba.spa-eng.spa", "\ufeffBuenos días\r\nLa noche")
    found = read_pairs(f"{folder}tatoeba.spa-eng")
    assert (found.name, found.languages) == ("tatoeba.spa-eng", ("spa", "eng"))
    assert found.sides == (["Buenos días", "La noche"], ["Good day", "The night"])
    assert found.blank == 0


def test_compressed_files_and_two_named_files(write):
    write("a.de.gz", "eins\nzwei\n")
    folder = write("b.en", "one\ntwo\n")
    found = read_pairs(f"{folder}a.de.gz,{folder}b.en")
    assert (found.name, found.languages) == ("a-b", ("de", "en"))
    write("a.en", "one\ntwo\n")
    assert read_pairs(f"{folder}a").sides == found.sides
    write("c.de.gz", "drei\nvier\n")
    same = read_pairs(f"{folder}a.de.gz,{folder}c.de.gz")
    assert (same.name, same.languages) == ("a-c", ("text", "translation"))


def test_two_columns(write):
    folder = write("pairs.tsv", "eins\tone\r\nzwei\ttwo\n\n")
    found = read_pairs(f"{folder}pairs.tsv")
    assert found.sides == (["eins", "zwei"], ["one", "two"])
    assert (found.languages, found.blank) == (("text", "translation"), 1)


def test_pairs_with_an_empty_side_are_skipped_and_counted(write):
    write("a.de", "eins\n\ndrei\n \u00a0\nfünf\n")
    folder = write("a.en", "one\ntwo\n\t\nfour\nfive\n")
    found = read_pairs(f"{folder}a")
    assert found.sides == (["eins", "fünf"], ["one", "five"])
    assert found.blank == 3


@pytest.mark.parametrize("longer", ["de", "en"])
def test_unequal_sides_are_an_error_that_names_the_line(write, longer):
    for side in ("de", "en"):
        folder = write(f"a.{side}", "x\n" * (1_003 if side == longer else 1_001))
    with pytest.raises(InputError, match=rf"1,001.*a\.{longer}.*1,002"):
        read_pairs(f"{folder}a")


def test_the_name_orders_languages_with_scripts(write):
    folder = write("flores.zho_Hans-eng_Latn.eng_Latn", "one\n")
    write("flores.zho_Hans-eng_Latn.zho_Hans", "一\n")
    found = read_pairs(f"{folder}flores.zho_Hans-eng_Latn")
    assert (found.languages, found.sides) == (("zho_Hans", "eng_Latn"), (["一"], ["one"]))


def test_columns_of_a_header_as_a_corpus_has_them(write):
    """An extra column is ignored; a row with a missing column lacks its translation."""
    folder = write("a.tsv", "id\tde\ten\n1\teins\tone\n2\tzwei\n3\tdrei\tthree\tx\n")
    found = read_pairs(f"pair:{folder}a.tsv:en,de")
    assert (found.name, found.languages, found.blank) == ("a", ("en", "de"), 1)
    assert found.sides == (["one", "three"], ["eins", "drei"])
    write("a.de", "eins\n")
    write("a.en", "one\n")
    assert read_pairs(f"pair:{folder}a.de,{folder}a.en") == read_pairs(f"{folder}a.de,{folder}a.en")


def test_a_line_that_cannot_be_read_is_named(write, tmp_path):
    folder = write("a.de", "eins\nzwei\n")
    (tmp_path / "a.en").write_bytes(b"one\n\xff\n")
    with pytest.raises(InputError, match=r"^`pairs\b.*a\.en.*row 1: .*UTF-8"):
        read_pairs(f"{folder}a.de,{folder}a.en")


def test_invalid_values(write):
    write("a.de", "eins\n")
    folder = write("b.txt", "eins\n")
    with pytest.raises(UsageError, match=r"^`pairs\b.* a\.de\."):
        read_pairs(f"{folder}a")
    with pytest.raises(UsageError, match=r"^`pairs\b.*b\.txt"):
        read_pairs(f"{folder}b.txt")
    with pytest.raises(UsageError, match=r"^`pairs\b.*nowhere/c"):
        read_pairs(f"{folder}nowhere/c")
    for side in ("en", "fr"):
        write(f"a.{side}", "x\n")
    with pytest.raises(UsageError, match=r"^`pairs\b.* a\.de, a\.en, a\.fr\b"):
        read_pairs(f"{folder}a")
    write("d.de", "\n")
    write("d.en", "x\n")
    with pytest.raises(EmptyInputError, match=r"^`pairs=.*d\.en` has no pair"):
        read_pairs(f"{folder}d")
