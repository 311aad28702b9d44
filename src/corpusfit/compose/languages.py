"""Language codes, and identification of a text's language."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any
from zipfile import BadZipFile

from corpusfit.errors import StorageError, bad_setting, importing, raise_machine_fault

EXTRA = "languages"
"""The extra that this module needs."""

_CHARACTERS = 1000
_SHAPE = re.compile(r"[A-Za-z]{2,3}")
_ALIASES = {"nb": "no"}


@cache
def code_of(code: str, setting: str = "language") -> str:
    """The shortest ISO 639 code of a language.

    Bokmål counts as Norwegian, and Mandarin as Chinese.

    Reference: ISO 639-1 and 639-3; RFC 5646 for the shortest code.

    Args:
        code: an ISO 639-1 or 639-3 code in any case, such as `de` or `deu`.
        setting: name of the setting, for the error.

    Raises:
        MissingDependencyError: the extra `languages` is not installed.
        UsageError: the code does not exist.
    """
    with importing("A language code", EXTRA):
        import langcodes
    if not _SHAPE.fullmatch(code) or not langcodes.tag_is_valid(code):
        cure = "For instance de or deu for German, en or eng for English, ja or jpn for Japanese."
        raise bad_setting(setting, "an ISO 639-1 or ISO 639-3 code of a language", code, cure)
    shortest = str(langcodes.standardize_tag(code, macro=True)).partition("-")[0]
    return _ALIASES.get(shortest, shortest)


def can_identify() -> bool:
    """Whether the libraries that `identifier` needs are installed."""
    return all(map(find_spec, ("py3langid", "langcodes")))


def identifier() -> Callable[[str], str]:
    """A function from a text to the code of its language, or `""` for a text without one.

    It uses only the first 1,000 characters, and knows about 140 languages. A few words are too
    short for a reliable answer.

    Reference: Lui and Baldwin (2012), langid.py.

    Raises:
        MissingDependencyError: the extra `languages` is not installed.
    """
    model = _model()

    def identify(text: str) -> str:
        beginning = text[:_CHARACTERS]
        if not any(map(str.isalpha, beginning)):
            return ""
        label = model.classify(beginning)[0]
        return code_of(label) if _SHAPE.fullmatch(label) and label != "zxx" else ""

    return identify


@cache
def _model() -> Any:
    """The model, opened once per process."""
    with importing("Language identification", EXTRA):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    try:
        return LanguageIdentifier.from_model_file(MODEL_FILE)
    except (OSError, BadZipFile) as e:  # zipfile calls a file that cannot be read no zip file
        raise_machine_fault(e, f"Cannot read {MODEL_FILE}")
        raise StorageError(
            f"Cannot read {MODEL_FILE}: {e}. Check the disk, or install it again: "
            "pip install --force-reinstall py3langid"
        ) from e
