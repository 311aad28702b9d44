"""Codes of languages, as datasets and people write them."""

from __future__ import annotations

import re
from functools import cache

from corpusfit.contracts import bad_setting

_NO_LANGUAGE = ("", "mis", "mul", "und", "x", "zxx")
_AROUND = re.compile(r"(?:--|>>|<2)?([^.@]*?)(?:[.@].*|--|<<|>)?")
"""A tag among the marks of translation models, or before an encoding or a variant of POSIX."""
# tags of Wikipedia whose first part is a family or another language
_WHOLE = {"zh-min-nan": "nan", "zh-classical": "lzh", "roa-rup": "rup", "bat-smg": "sgs",
          "fiu-vro": "vro", "map-bms": "jv", "be-x-old": "be"}  # fmt: skip


@cache
def code_of(tag: str, setting: str = "language") -> str:
    """The shortest ISO 639 code of a language.

    Bokmål counts as Norwegian, and Mandarin as Chinese. Script, region and variants are left out;
    an extended language, as in zh-yue, is the language.

    Reference: ISO 639-1, 639-2 and 639-3; RFC 5646 for the shortest code and the parts of a tag;
    CLDR for macrolanguages.
    """
    import langcodes

    match = _AROUND.fullmatch(tag.strip().replace("_", "-").lower())
    plain = match[1] if match else ""
    code = _WHOLE.get(plain, "")
    if not code and langcodes.tag_is_valid(plain):
        tag_of = langcodes.Language.get(plain, normalize=False)
        named = (tag_of.extlangs or [tag_of.language or "und"])[0]
        code = langcodes.standardize_tag(named, macro=True).partition("-")[0]
    if code in _NO_LANGUAGE:
        cure = "For instance de or deu for German, en or en-GB for English, zh-Hans for Chinese."
        raise bad_setting(setting, "an ISO 639-1 or ISO 639-3 code of a language", tag, cure)
    return "no" if code == "nb" else code
