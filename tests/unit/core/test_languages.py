"""Language codes, words in scripts without spaces, tokenizers of BLEU, identification."""

import errno
from pathlib import Path
from string import ascii_lowercase
from zipfile import BadZipFile

import pytest

from corpusfit.core import languages
from corpusfit.core.errors import StorageError, UsageError
from corpusfit.core.languages import code_of, count_words, identifier, word_pattern

TATOEBA = Path(__file__).parents[4] / "shared" / "data" / "parallel" / "tatoeba"


@pytest.mark.parametrize(
    ("given", "code"),
    [("de", "de"), ("deu", "de"), ("ger", "de"), ("EN", "en"), ("jpn", "ja"), ("zho", "zh"),
     ("cmn", "zh"), ("nob", "no"), ("no", "no"), ("ron", "ro"), ("yue", "yue"), ("haw", "haw"),
     ("zh-yue", "yue"), ("zh-min-nan", "nan"), ("zh-cmn-Hans", "zh"), ("roa-rup", "rup"),
     ("sgn-ase", "ase"), ("ar-EG", "ar"), ("zh-TW", "zh")],
)  # fmt: skip
def test_codes(given, code):
    """ISO 639-1 where there is one, else ISO 639-3."""
    assert code_of(given) == code


@pytest.mark.parametrize(
    ("tag", "code"),
    [("sr-Latn", "sr"), ("sr_Cyrl", "sr"), ("pt-BR", "pt"), ("pt_br", "pt"), ("zh-Hans-CN", "zh"),
     ("ZH_TW", "zh"), ("zho_Hant", "zh"), ("eng_Latn", "en"), ("nb-NO", "no"), ("nob_Latn", "no"),
     ("nno_Latn", "nn"), ("en_XX", "en"), ("__de__", "de"), (">>deu<<", "de"), ("<2fr>", "fr"),
     ("de_DE.UTF-8", "de"), ("de-AT", "de"), (" fr ", "fr"), ("iw", "he"), ("arb_Arab", "ar"),
     ("swh_Latn", "sw"), ("zsm_Latn", "ms"), ("tgl_Latn", "fil"), ("yue_Hant", "yue")],
)  # fmt: skip
def test_script_region_and_the_names_of_models_are_left_out(tag, code):
    assert code_of(tag) == code


@pytest.mark.parametrize(
    "given", ["", "x", "xx", "german", "d!", "und", "mul", "zxx", "en,de", "English", "-en", "12"]
)
def test_codes_that_do_not_exist(given):
    with pytest.raises(UsageError, match=f"language.*ISO 639.*got '{given}'"):
        code_of(given)


def test_codes_are_read_the_same_without_langcodes(monkeypatch):
    langcodes = pytest.importorskip("langcodes")
    codes = [a + b for a in ascii_lowercase for b in ascii_lowercase]
    codes += [code + c for code in ("zh", "no", "ar", "fa", "de", "cm", "lv") for c in "aeinosrub"]
    valid = [c for c in codes if c not in {"mul", "und"} and langcodes.tag_is_valid(c)]
    with_langcodes = [code_of(c) for c in valid]
    monkeypatch.setattr(languages, "find_spec", lambda name: None)
    code_of.cache_clear()

    assert [code_of(c) for c in valid] == with_langcodes
    assert len(valid) > 200
    code_of.cache_clear()


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


@pytest.mark.skipif(not TATOEBA.is_dir(), reason="needs ../shared")
@pytest.mark.parametrize("language", ["deu", "fra", "spa", "jpn", "rus", "ron", "tur"])
def test_identification_against_tatoeba(language):
    """Ten sentences together, whose language is known from the file's name."""
    pytest.importorskip("py3langid")
    lines = (TATOEBA / f"tatoeba.{language}-eng.{language}").read_text("utf-8").splitlines()
    identify = identifier()
    texts = ["\n".join(lines[i : i + 10]) for i in range(0, 200, 10)]
    assert sum(identify(text) == code_of(language) for text in texts) >= 19


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
