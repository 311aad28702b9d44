"""Language codes, and language identification."""

from pathlib import Path
from zipfile import BadZipFile

import pytest

pytest.importorskip("py3langid")

from py3langid.langid import LanguageIdentifier

from corpusfit.compose import languages
from corpusfit.compose.languages import code_of, identifier
from corpusfit.errors import StorageError, UsageError

TATOEBA = Path(__file__).parents[4] / "shared" / "data" / "parallel" / "tatoeba"


@pytest.mark.parametrize(
    ("given", "code"),
    [("de", "de"), ("deu", "de"), ("ger", "de"), ("EN", "en"), ("jpn", "ja"), ("zho", "zh"),
     ("cmn", "zh"), ("nob", "no"), ("no", "no"), ("ron", "ro"), ("yue", "yue"), ("haw", "haw")],
)  # fmt: skip
def test_codes(given, code):
    """ISO 639-1 where there is one, else ISO 639-3."""
    assert code_of(given) == code


@pytest.mark.parametrize("given", ["", "x", "xx", "german", "de-AT", "d!"])
def test_codes_that_do_not_exist(given):
    with pytest.raises(UsageError, match=f"language.*ISO 639.*got '{given}'"):
        code_of(given)


def test_identification_by_hand():
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
    lines = (TATOEBA / f"tatoeba.{language}-eng.{language}").read_text("utf-8").splitlines()
    identify = identifier()
    texts = ["\n".join(lines[i : i + 10]) for i in range(0, 200, 10)]
    assert sum(identify(text) == code_of(language) for text in texts) >= 19


@pytest.mark.parametrize("error", [BadZipFile("File is not a zip file"), OSError(5, "I/O error")])
def test_a_model_that_cannot_be_read_is_a_fault_of_the_machine(monkeypatch, error):
    def broken(*_):
        raise error

    monkeypatch.setattr(LanguageIdentifier, "from_model_file", broken)
    languages._model.cache_clear()
    with pytest.raises(StorageError, match=r"Cannot read .*Check the disk"):
        identifier()
