"""Languages: their codes, and which one a text is in.

What: ISO 639 codes in one form, and identification by byte n-grams.
Why: sources name languages in many ways, and rows of mixed piles not at all.
Trade-off: only a text's beginning is looked at, which is enough for a document; of a few words
little can be said. Bokmål counts as Norwegian, and Mandarin as Chinese.
Reference: ISO 639-1 and 639-3; Lui and Baldwin (2012), langid.py; RFC 5646 for the shortest code.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from corpusfit.errors import MissingDependencyError, UsageError, bad_setting

EXTRA = "languages"
"""What has to be installed for this."""

_LOOKED_AT = 1000  # characters
_SHAPE = re.compile(r"[A-Za-z]{2,3}")
_SAME = {"nb": "no"}


@cache
def code_of(given: str, setting: str = "language") -> str:
    """The shortest ISO 639 code of a language.

    Args:
        given: an ISO 639-1 or 639-3 code, in any case: `de`, `deu`.
        setting: what named it, for the error.

    Raises:
        MissingDependencyError: the extra `languages` is not installed.
        UsageError: there is no such language.
    """
    try:
        import langcodes
    except ImportError as e:
        raise MissingDependencyError("A language code", EXTRA) from e
    if not _SHAPE.fullmatch(given) or not langcodes.tag_is_valid(given):
        raise _unknown(given, setting)
    code = str(langcodes.standardize_tag(given, macro=True)).partition("-")[0]
    return _SAME.get(code, code)


def _unknown(given: str, setting: str) -> UsageError:
    cure = "For instance de or deu for German, en or eng for English, ja or jpn for Japanese."
    return bad_setting(setting, "an ISO 639-1 or ISO 639-3 code of a language", given, cure)


def identifier() -> Callable[[str], str]:
    """A function from a text to the code of its language, or `""` where it has none.

    The answer depends on the first 1,000 characters alone. It knows some 140 languages.

    Raises:
        MissingDependencyError: the extra `languages` is not installed.
    """
    known = _opened()

    def identify(text: str) -> str:
        beginning = text[:_LOOKED_AT]
        if not any(map(str.isalpha, beginning)):
            return ""
        label = known.classify(beginning)[0]
        return code_of(label) if _SHAPE.fullmatch(label) and label != "zxx" else ""

    return identify


@cache
def _opened() -> Any:
    """The model, opened once a process."""
    try:
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    except ImportError as e:
        raise MissingDependencyError("Telling languages apart", EXTRA) from e
    return LanguageIdentifier.from_model_file(MODEL_FILE)
