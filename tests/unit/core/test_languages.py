"""Words in scripts without spaces, identification of languages."""

import errno
from zipfile import BadZipFile

import pytest

from corpusfit.core import languages
from corpusfit.core.errors import StorageError
from corpusfit.core.languages import count_words, identifier, word_pattern


@pytest.mark.parametrize(
    ("text", "words"),
    [("", 0), ("The dog sleeps - today.", 5), ("Der Hund schläft – heute.", 5),
     ("犬は公園で眠る。", 4), ("我们使用 BERT 模型。", 4), ("รถไฟ ถึง แล้ว", 3), ("រថភ្លើងមកដល់ហើយ", 4),
     ("개가 공원에서 잔다.", 3), ("𠀀𠀁𠀂𠀃", 2), ("。。。", 1)],
)  # fmt: skip
def test_words_in_scripts_without_spaces_are_counted_by_their_characters(text, words):
    assert count_words(text) == words


def test_no_letter_without_spaces_is_passed_over():
    letters = "".join(map(chr, range(0xD800))) + "".join(map(chr, range(0xE000, 0x40000)))
    for pattern in languages._letters():
        assert all(map(languages._RARE.match, pattern.findall(letters)))


def test_identification_by_hand():
    pytest.importorskip("py3langid")
    identify = identifier()
    assert identify("Der Hund schläft heute den ganzen Tag im Garten hinter dem Haus.") == "de"
    assert identify("The dog sleeps all day in the garden behind the house.") == "en"
    assert identify("今日は良い天気ですから、公園へ散歩に行きましょう。") == "ja"
    assert identify("") == ""
    assert identify("1, 2, 3 …") == ""


@pytest.mark.parametrize("error", [BadZipFile("File is not a zip file"), OSError(5, "I/O error")])
def test_a_model_that_cannot_be_read_is_a_fault_of_the_machine(monkeypatch, error):
    langid = pytest.importorskip("py3langid.langid")

    def broken(*_):
        raise error

    monkeypatch.setattr(langid.LanguageIdentifier, "from_model_file", broken)
    languages._model.cache_clear()
    with pytest.raises(StorageError, match=r"Cannot read .*Check the disk"):
        identifier()


def test_a_full_temporary_folder_is_named_when_the_model_is_unpacked(monkeypatch, tmp_path):
    pytest.importorskip("py3langid")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    languages._model.cache_clear()
    with pytest.raises(StorageError, match="TMPDIR") as caught:
        identifier()
    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["हिन्दी भाषा में किताब", "السَّلَامُ عليكم", "தமிழ் மொழி", "cafe\u0301 noir", "don't stop"],
)
def test_signs_and_accents_do_not_cut_words(text):
    assert word_pattern("'").findall(text) == text.split()
