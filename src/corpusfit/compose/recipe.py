"""What a composition is made of: its sources, its budget, and how languages share it.

What: plain values, and a reader of TOML that words every error.
Why: a corpus that anyone can compose again is a file, not a shell's history.
Trade-off: a source has one kind and one way to be read; a pile of both kinds is two sources.
Reference: mDAPT, section 3.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corpusfit.compose.languages import code_of
from corpusfit.corpus import located
from corpusfit.errors import bad_setting
from corpusfit.plan import ReadPlan
from corpusfit.settings import one_of, recipe_values, seed_below, typed, unknown, whole_number

E_D, MD_ED, MD_MWIKI = COMPOSITIONS = ("E_D", "M_D+E_D", "M_D+M_WIKI")
"""The paper's: English specific; multilingual specific, then English specific; multilingual
specific, up-sampled by general text."""

SPECIFIC, GENERAL = KINDS = ("specific", "general")
SENTENCES, TOKENS = UNITS = ("sentences", "tokens")
SMOOTHED, UNIMAX = SAMPLINGS = ("smoothed", "unimax")
ENGLISH = "en"
RANDOM = "random"

_MOST = {"budget": 10**15, "repeats": 10**6, "longest": 10**6}
"""What may be asked for at most; sums and products of it stay whole numbers of 64 bits."""

_LONGEST = 128
"""Word pieces of a sentence at most: the length the paper trains with (section 3.3)."""


@dataclass(frozen=True)
class TextSource:
    """One source of text.

    Attributes:
        name: what the tables call it.
        path: files, folders, globs, URLs or `hub:NAME` datasets.
        kind: `specific` or `general`.
        language: of all its rows; where it is empty, a row says, or it is identified.
        language_field: the field with a row's language.
        text_field: the field with the text.
        txt: documents of `.txt` files: `blocks` between blank lines, or `lines`.
        page: a field that has the same value for the same page in other languages.
        transliterated: its Russian is in Latin letters.
        choose: `random`, or a method's name: of its text what is most like the target is taken.
        target: texts of the task, for a method.
        embedder: for a method that reads embeddings; the method's default if empty.
    """

    name: str
    path: tuple[str, ...]
    kind: str = GENERAL
    language: str = ""
    language_field: str = ""
    text_field: str = "text"
    txt: str = "blocks"
    page: str = ""
    transliterated: bool = False
    choose: str = RANDOM
    target: tuple[str, ...] = ()
    embedder: str = ""

    @property
    def read(self) -> ReadPlan:
        """How its rows become texts; the page, or else the language, is read as the id."""
        field = self.page or self.language_field
        return ReadPlan(text_field=self.text_field, id_field=field, txt=self.txt)

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if not self.name or "/" in self.name:
            raise bad_setting("sources.name", "a name without /", self.name)
        where = f"source {self.name!r}:"
        if not self.path or not all(self.path):
            raise bad_setting(f"{where} path", "a list of files or folders", list(self.path))
        one_of(f"{where} kind", self.kind, KINDS)
        one_of(f"{where} txt", self.txt, ("blocks", "lines"))
        if self.language and self.language_field:
            came = f"{self.language} and {self.language_field}"
            raise bad_setting(f"{where} language", "given once", came, "Keep one of them.")
        if self.choose != RANDOM and self.kind != GENERAL:
            cure = "Specific text is taken whole; leave choose out."
            raise bad_setting(f"{where} choose", "random for specific text", self.choose, cure)
        if not all(self.target):
            raise bad_setting(f"{where} target", "a list of files or folders", list(self.target))
        if (self.choose != RANDOM) != bool(self.target):
            came = f"choose {self.choose!r} with {len(self.target)} targets"
            cure = 'Name both, or neither: choose = "dsir" and target = ["task.jsonl"].'
            raise bad_setting(f"{where} target", "given with a method, and only then", came, cure)


@dataclass(frozen=True)
class Recipe:
    """A composition.

    Attributes:
        composition: one of `COMPOSITIONS`.
        budget: how much is composed, in the unit.
        unit: `sentences`, or `tokens` (estimated word pieces).
        sources: of text, with different names.
        languages: codes of those that take part.
        sampling: `smoothed` or `unimax`; of `M_D+M_WIKI` alone.
        alpha: smooths the languages' shares: 1 keeps them, 0 makes them equal.
        repeats: a document is taken so many times at most; the cap of UniMax.
        limits: by language, how much of its specific text counts as its own at most; what is over
            comes before general text where the language is up-sampled.
        longest: estimated word pieces of a sentence at most.
        seed: the only source of chance.
    """

    composition: str
    budget: int
    sources: tuple[TextSource, ...]
    languages: tuple[str, ...]
    unit: str = SENTENCES
    sampling: str = SMOOTHED
    alpha: float = 0.3
    repeats: int = 1
    limits: Mapping[str, int] = field(default_factory=dict)
    longest: int = _LONGEST
    seed: int = 0

    def check(self) -> Recipe:
        """The recipe itself, if every value is allowed.

        Raises:
            UsageError: names the setting, what is allowed, what came, and the cure.
        """
        one_of("composition", self.composition, COMPOSITIONS)
        one_of("unit", self.unit, UNITS)
        one_of("sampling", self.sampling, SAMPLINGS)
        for name, most in _MOST.items():
            whole_number(name, getattr(self, name), most)
        if not 0 <= self.alpha <= 1:
            cure = "1 keeps the languages' shares, 0 makes them equal; the paper has 0.3."
            raise bad_setting("alpha", "from 0 to 1", self.alpha, cure)
        seed_below("seed", self.seed)
        if not self.sources:
            raise bad_setting("sources", "one table [[sources]] at least", "none")
        for source in self.sources:
            source.check()
        twice = [n for n, k in Counter(s.name for s in self.sources).items() if k > 1]
        if twice:
            raise bad_setting("sources.name", "another for each source", twice[0])
        return self._check_languages()

    def _check_languages(self) -> Recipe:
        """Hold the languages, the limits and the composition against each other."""
        if not self.languages:
            cure = 'For instance languages = ["de", "en"]: only these take part.'
            raise bad_setting(
                "languages", "given where a source does not say its own", "none", cure
            )
        for code, amount in self.limits.items():
            if code not in self.languages:
                raise bad_setting("limits", f"for one of {', '.join(self.languages)}", code)
            whole_number(f"limits.{code}", amount, _MOST["budget"])
        if self.composition != MD_MWIKI and ENGLISH not in self.languages:
            cure = f"Name an English source, or take {MD_MWIKI}."
            allowed = f"with en in {self.composition}"
            raise bad_setting("languages", allowed, ", ".join(self.languages), cure)
        return self

    def with_codes(self) -> Recipe:
        """The recipe with codes in one form, and its sources' languages where it names none.

        Raises:
            MissingDependencyError: the extra `languages` is not installed.
            UsageError: there is no such language.
        """
        sources = tuple(
            dataclasses.replace(s, language=code_of(s.language, f"source {s.name!r}: language"))
            if s.language
            else s
            for s in self.sources
        )
        codes = [code_of(code, "languages") for code in self.languages]
        if not codes and all(s.language for s in sources):
            codes = sorted({s.language for s in sources})
        limits = {code_of(code, "limits"): most for code, most in self.limits.items()}
        codes = list(dict.fromkeys(codes))
        return dataclasses.replace(self, sources=sources, languages=tuple(codes), limits=limits)


_PLAIN = {
    "composition": "str",
    "budget": "int",
    "unit": "str",
    "sampling": "str",
    "alpha": "float",
    "repeats": "int",
    "longest": "int",
    "seed": "int",
}
_SOURCE = {
    "name": "str",
    "kind": "str",
    "language": "str",
    "language_field": "str",
    "text_field": "str",
    "txt": "str",
    "page": "str",
    "transliterated": "bool",
    "choose": "str",
    "embedder": "str",
}
_SOURCE_LISTS = ("path", "target")
_KNOWN = (*_PLAIN, "languages", "limits", "sources")


def read_recipe(path: Path) -> Recipe:
    """Read a recipe.

    Args:
        path: a TOML file; paths in it count from its folder, `${NAME}` is the environment's.

    Raises:
        MissingDependencyError: the extra `languages` is not installed.
        UsageError: the file cannot be read or is not TOML; a setting does not exist, has a value
            that is not allowed, or names a variable that is not set.
    """
    values = recipe_values(path, _KNOWN)
    for key in ("composition", "budget"):
        if key not in values:
            allowed = f"one of {', '.join(COMPOSITIONS)}" if key == "composition" else "a number"
            raise bad_setting(key, allowed, "nothing", "See corpusfit compose --help.")
    given: dict[str, Any] = {k: typed(k, _PLAIN[k], v) for k, v in values.items() if k in _PLAIN}
    limits = values.get("limits", {})
    if not isinstance(limits, Mapping):
        raise bad_setting("limits", "a table [limits] of languages", limits)
    return (
        Recipe(
            **given,
            sources=_sources(values.get("sources", []), path.absolute().parent),
            languages=_texts("languages", values.get("languages", [])),
            limits={code: typed(f"limits.{code}", "int", most) for code, most in limits.items()},
        )
        .with_codes()
        .check()
    )


def _sources(tables: Any, home: Path) -> tuple[TextSource, ...]:
    """The tables of `[[sources]]`."""
    if not isinstance(tables, list) or not all(isinstance(t, dict) for t in tables):
        raise bad_setting("sources", "tables [[sources]] with name, path and kind", tables)
    found = []
    for table in tables:
        names = [f"sources.{k}" for k in (*_SOURCE, *_SOURCE_LISTS)]
        for key in table.keys() - {*_SOURCE, *_SOURCE_LISTS}:
            raise unknown(f"sources.{key}", names)
        given = {k: typed(f"sources.{k}", _SOURCE[k], v) for k, v in table.items() if k in _SOURCE}
        for key in _SOURCE_LISTS:
            paths = _texts(f"sources.{key}", table.get(key, []))
            given[key] = tuple(located(p, home) if p else "" for p in paths)
        for key in ("name", "kind"):
            if key not in given:
                allowed = " or ".join(KINDS) if key == "kind" else "given"
                raise bad_setting(f"sources.{key}", allowed, "nothing")
        found.append(TextSource(**given))
    return tuple(found)


def _texts(setting: str, value: Any) -> tuple[str, ...]:
    """A list of texts; one alone is a list of one."""
    listed = [value] if isinstance(value, str) else value
    if not isinstance(listed, list):
        raise bad_setting(setting, "a list", value, "Put it into [ ].")
    return tuple(typed(setting, "str", v) for v in listed)
