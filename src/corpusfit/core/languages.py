"""Languages: normalize codes, count words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any
from zipfile import BadZipFile

from corpusfit.core.errors import (
    StorageError,
    UsageError,
    bad_setting,
    importing,
    machine_cure,
)

EXTRA = "languages"
"""The extra that identifies languages."""

_CHARACTERS = 1000
_TAG = re.compile(r"(?:__|>>|<2)?([A-Za-z]{2,3})(?:[-_.@][A-Za-z0-9-]{1,8})*(?:__|<<|>)?")
# tags of Wikipedia whose first part is a family or another language
_WHOLE = {"zh-min-nan": "nan", "zh-classical": "lzh", "roa-rup": "rup", "bat-smg": "sgs",
          "fiu-vro": "vro", "map-bms": "jv", "be-x-old": "be"}  # fmt: skip
_EXTENDED = re.compile(r"(?:zh|ar|ms|sgn)[-_]([a-z]{3})(?![A-Za-z0-9])")
_NO_LANGUAGE = frozenset(("und", "mis", "mul", "zxx"))
_TWO_LETTERS = {"in": "id", "iw": "he", "ji": "yi", "jw": "jv", "mo": "ro", "nb": "no", "sh": "sr",
                "tl": "fil", "tw": "ak", "tgl": "fil", "bih": "bho", "bh": "bho"}  # fmt: skip
_THREE_LETTERS = """
aaraa abkab adpdz afraf akaak albsq alssq amham araar arbar argan armhy asmas avaav aveae
aymay ayray azeaz azjaz bakba bambm baqeu belbe benbn bisbi bodbo bosbs brebr bulbg burmy
catca cescs chach chece chizh chucu chvcv cmnzh cnrsr corkw cosco crecr cwdcr cymcy czecs
danda deude divdv drhmn drwfa dutnl dzodz ekket ellel engen epoeo eskik estet euseu eweee
faofo fasfa fatak fijfj finfi frafr frefr fryfy fucff fulff gazom geoka gerde glagd glega
glggl glvgv greel grngn guggn gujgu hatht hauha hbssr hebhe herhz hinhi hmoho hrvhr hunhu
hyehy iboig iceis idoio iiiii ikeiu ikuiu ileie inaia indid ipkik islis itait javjv jpnja
kalkl kankn kasks katka kaukr kazkk khkmn khmkm kikki kinrw kirky kmrku knckr kngkg komkv
konkg korko kpvkv kuakj kurku laolo latla lavlv limli linln litlt ltzlb lublu luglg lvslv
macmk mahmh malml maomi marmr mayms mkdmk mlgmg mltmt molro monmn mrimi msams myamy nauna
navnv nblnr ndend ndong nepne nldnl nnonn nobno norno npine nyany ocioc ojgoj ojioj orior
ormom oryor ossos panpa pbups perfa pesfa plipi pltmg polpl porpt prsfa pusps quequ quzqu
rohrm ronro rumro runrn rusru sagsg sansa sccsr scrhr sinsi slksk slosk slvsl smese smosm
snasn sndsd somso sotst spaes sqisq srcsc srdsc srpsr sswss sunsu swasw swcsw swesv swhsw
tahty tamta tattt telte tgktg thath tibbo tirti tnffa tonto tsntn tsots tuktk turtr twiak
uigug ukruk urdur uzbuz uznuz venve vievi volvo welcy wlnwa wolwo xhoxh yddyi yidyi yoryo
zhaza zhozh zsmms zulzu zybza
"""
# other codes of a language: those with three letters, former ones, a macrolanguage's usual one
_SHORTEST = {pair[:3]: pair[3:] for pair in _THREE_LETTERS.split()} | _TWO_LETTERS

_KNOWN = frozenset(_SHORTEST.values())
LANGUAGES = frozenset(code for code in _KNOWN if len(code) == 2)
"""The codes of ISO 639-1."""


@cache
def code_of(tag: str, setting: str = "language") -> str:
    """The shortest ISO 639 code of a language.

    Bokmål counts as Norwegian, and Mandarin as Chinese. Script, region and variants are left out;
    an extended language, as in zh-yue, is the language.

    Reference: ISO 639-1, 639-2 and 639-3; RFC 5646 for the shortest code and the parts of a tag;
    CLDR for macrolanguages.
    """
    match = _TAG.fullmatch(tag.strip())
    code = match[1].lower() if match else ""
    if extended := _EXTENDED.match(tag.strip()):
        code = extended[1]  # as zh-yue
    code = _WHOLE.get(tag.strip().lower().replace("_", "-"), code)
    code = _SHORTEST.get(code, code)
    exists = code in _KNOWN or (len(code) == 3 and code not in _NO_LANGUAGE)
    if exists and code not in _KNOWN and find_spec("langcodes"):
        import langcodes

        exists = langcodes.tag_is_valid(code)
    if not exists:
        cure = "For instance de or deu for German, en or en-GB for English, zh-Hans for Chinese."
        raise bad_setting(setting, "an ISO 639-1 or ISO 639-3 code of a language", tag, cure)
    return code


def can_identify() -> bool:
    """Whether the library that `identifier` needs is installed."""
    return find_spec("py3langid") is not None


def identifier() -> Callable[[str], str]:
    """A function from a text to the code of its language, or `""` for a text without one.

    It uses only the first 1,000 characters, and knows about 140 languages. A few words are too
    short for a reliable answer.

    Reference: Lui and Baldwin (2012), langid.py.
    """
    model = _model()

    def identify(text: str) -> str:
        beginning = text[:_CHARACTERS]
        if not any(map(str.isalpha, beginning)):
            return ""
        try:
            return code_of(model.classify(beginning)[0])
        except UsageError:  # zxx: no language
            return ""

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
    """A word: letters and digits with the signs, points and accents on them.

    Args:
        joined: characters that join words to one, as in a class of a pattern.
    """
    marks = (c for c in map(chr, range(0x300, 0x1E950)) if unicodedata.category(c) in ("Mn", "Mc"))
    # \w has no marks, so it cuts words of Hindi, Tamil, pointed Arabic and decomposed accents
    word = rf"[^\W_]+(?:[{''.join(marks)}\u200c\u200d]+[^\W_]*)*"
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
