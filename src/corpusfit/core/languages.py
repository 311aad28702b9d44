"""Languages: identify them, count words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any
from zipfile import BadZipFile

from corpusfit.core.errors import StorageError, importing, machine_cure

EXTRA = "languages"
"""The extra that identifies languages."""

_CHARACTERS = 1000
_NO_LANGUAGE = "zxx"

_CODES = """
aa ab ae af ak am an ar as av ay az ba be bg bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia
id ie ig ii ik io is it iu ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo
lt lu lv mg mh mi mk ml mn mr ms mt my na nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps
pt qu rm rn ro ru rw sa sc sd se sg si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tn
to tr ts tt ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
LANGUAGES = frozenset(_CODES.split())
"""The codes of ISO 639-1."""


def can_identify() -> bool:
    """Whether the library that `identifier` needs is installed."""
    return find_spec("py3langid") is not None


def identifier() -> Callable[[str], str]:
    """A function from a text to the ISO 639 code of its language, or `""` for a text without one.

    It uses only the first 1,000 characters, and knows about 140 languages. A few words are too
    short for a reliable answer.

    Reference: Lui and Baldwin (2012), langid.py.
    """
    model = _model()

    def identify(text: str) -> str:
        beginning = text[:_CHARACTERS]
        if not any(map(str.isalpha, beginning)):
            return ""
        code: str = model.classify(beginning)[0]
        return "" if code == _NO_LANGUAGE else code

    return identify


@cache
def _model() -> Any:
    """The model, opened once per process."""
    with importing("Language identification", EXTRA):
        from py3langid.langid import MODEL_FILE, LanguageIdentifier
    try:
        return LanguageIdentifier.from_model_file(MODEL_FILE)
    except (OSError, BadZipFile) as e:
        # zipfile raises BadZipFile for a file that it cannot read, too
        again = "Check the disk, or install it again: pip install --force-reinstall py3langid"
        reason = getattr(e, "strerror", None) or e
        raise StorageError(f"Cannot read {MODEL_FILE}: {reason}. {machine_cure(e) or again}") from e


_WORD = re.compile(r"[^\W_]\S*")
# finds, in one fast pass, every letter of a script without spaces, and others
_RARE = re.compile("[^\0-\u0dff\u1d00-\u2e7f]")


@cache
def word_pattern(joined: str = "") -> re.Pattern[str]:
    """A word of a text in its `word_form`: letters and digits with the marks on them.

    Args:
        joined: characters that join words to one, as in a class of a pattern.
    """
    marks = (c for c in map(chr, range(0x300, 0x1E950)) if unicodedata.category(c) in ("Mn", "Mc"))
    # \w has no marks, so it cuts words of Hindi, Tamil, pointed Arabic and decomposed accents
    word = rf"[^\W_]+(?:[{''.join(marks)}]+[^\W_]*)*"
    return re.compile(rf"{word}(?:[{joined}]{word})*" if joined else word)


@cache
def _letters() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of the letters of `IDEOGRAPHIC` and of `UNSPACED` scripts; marks are not letters."""
    from corpusfit.kernels.characters import IDEOGRAPHIC, LAST, UNSPACED  # numpy is slow to import

    letters = [c for c in map(chr, range(0x80, LAST)) if unicodedata.category(c)[0] == "L"]
    ideographic, unspaced = (
        "".join(c for c in letters if unicodedata.name(c, "").startswith(names))
        for names in (IDEOGRAPHIC, UNSPACED)
    )
    return re.compile(f"[{ideographic}{chr(LAST)}-{chr(0x3FFFF)}]"), re.compile(f"[{unspaced}]")


def count_words(text: str) -> int:
    """The number of a text's words, by one measure for scripts with and without spaces.

    Words stand between white space. In scripts without spaces two characters of Chinese or
    Japanese count as a word, and three letters of Thai, Lao, Khmer, Burmese and the like, rounded
    up: about as many words as a translation has.
    """
    if not _RARE.search(text):
        return len(text.split())
    ideographic, unspaced = _letters()
    rest, ideographs = ideographic.subn(" ", text)
    rest, letters = unspaced.subn(" ", rest)
    if not ideographs + letters:
        return len(text.split())
    return len(_WORD.findall(rest)) - (-ideographs // 2) - (-letters // 3)
