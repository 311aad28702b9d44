"""Settings of a composition: sources, budget, languages; read from a TOML file."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from corpusfit.contracts import MissingDependencyError, bad_setting
from corpusfit.core.languages import EXTRA
from corpusfit.core.options import typed
from corpusfit.core.plan import TXT, ReadPlan
from corpusfit.core.settings import one_of, unknown
from corpusfit.text import located
from corpusfit_papers.experiments.values import recipe_values
from corpusfit_papers.mixing.languages import code_of

# Compositions of mDAPT, section 3: English specific text; multilingual specific text, then English
# specific text; multilingual specific text, up-sampled with general text.
E_D = "E_D"
MD_ED = "M_D+E_D"
MD_MWIKI = "M_D+M_WIKI"
COMPOSITIONS = (E_D, MD_ED, MD_MWIKI)
SPECIFIC = "specific"
GENERAL = "general"
KINDS = (SPECIFIC, GENERAL)
SENTENCES = "sentences"
TOKENS = "tokens"
UNITS = (SENTENCES, TOKENS)
SMOOTHED = "smoothed"
UNIMAX = "unimax"
SAMPLINGS = (SMOOTHED, UNIMAX)
ENGLISH = "en"
RANDOM = "random"
# Maximum values, so that sums and products fit in 64 bits.
_MAXIMA = {"budget": 10**15, "repeats": 10**6, "longest": 10**6}
_MAX_PIECES = 128  # Maximum word pieces of a sentence: the training length of mDAPT (section 3.3)


@dataclass(frozen=True)
class TextSource:
    """One source of text, of one kind; a pile of both kinds is two sources.

    Attributes:
        name: name in the tables.
        path: files, folders, globs, URLs or `hub:NAME` datasets; of aligned pairs the first text is
            read.
        kind: `specific` or `general`.
        language: language of all rows (default: that of `language_field`, or identified).
        language_field: field with a row's language.
        text_field: field with the text.
        txt: documents of `.txt` files: `blocks` between blank lines, or `lines`.
        page: field that identifies a page across languages: its translations have the same value.
        transliterated: whether its Russian is written in Latin letters.
        choose: order of its documents: `random`, or a method that ranks by likeness to the target.
        target: texts of the task, for a method.
        embedder: embedder of a method that reads embeddings (default: the method's).
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
        return ReadPlan(self.text_field, field, self.txt)

    def check(self) -> None:
        """Raise `UsageError` for a value that is not allowed."""
        if not self.name or "/" in self.name:
            raise bad_setting("sources.name", "a name without /", self.name)
        where = f"source {self.name!r}:"
        if not self.path or not all(self.path):
            raise bad_setting(f"{where} path", "a list of files or folders", list(self.path))
        one_of(f"{where} kind", self.kind, KINDS)
        one_of(f"{where} txt", self.txt, TXT)
        if self.language and self.language_field:
            got = f"{self.language} and {self.language_field}"
            allowed = "set by either language or language_field"
            raise bad_setting(f"{where} language", allowed, got, "Keep one of them.")
        if self.choose != RANDOM and self.kind != GENERAL:
            cure = "Leave choose out, as specific text is used whole."
            raise bad_setting(f"{where} choose", "random for specific text", self.choose, cure)
        if not all(self.target):
            raise bad_setting(f"{where} target", "a list of files or folders", list(self.target))
        if (self.choose != RANDOM) != bool(self.target):
            got = f"choose {self.choose!r} with {len(self.target)} targets"
            cure = 'Set both or neither, such as choose = "dsir" and target = ["task.jsonl"].'
            raise bad_setting(f"{where} target", "set with a method, and only then", got, cure)


@dataclass(frozen=True)
class CompositionPlan:
    """Settings of a composition.

    Attributes:
        composition: one of `COMPOSITIONS`.
        budget: size of the composition, in the unit.
        unit: `sentences`, or `tokens` (estimated word pieces).
        sources: sources of text, with different names.
        languages: language codes of the composition.
        sampling: `smoothed` or `unimax`; for `M_D+M_WIKI` only.
        alpha: exponent that smooths the languages' shares: 1 keeps them, 0 makes them equal.
        repeats: maximum number of times that a document is used; the cap of UniMax.
        limits: by language, the maximum of specific text that counts as its own; further specific
            text up-samples the language before general text.
        longest: maximum estimated word pieces of a sentence.
        seed: random seed.
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
    longest: int = _MAX_PIECES
    seed: int = 0

    def check(self) -> CompositionPlan:
        """Raise `UsageError` for a value that is not allowed; returns the recipe."""
        one_of("composition", self.composition, COMPOSITIONS)
        one_of("unit", self.unit, UNITS)
        one_of("sampling", self.sampling, SAMPLINGS)
        for name, maximum in _MAXIMA.items():
            _whole_number(name, getattr(self, name), maximum)
        if not 0 <= self.alpha <= 1:
            cure = "1 keeps the languages' shares, 0 makes them equal; mDAPT uses 0.3."
            raise bad_setting("alpha", "from 0 to 1", self.alpha, cure)
        _seed_below("seed", self.seed)
        if not self.sources:
            raise bad_setting("sources", "at least one table [[sources]]", "none")
        for source in self.sources:
            source.check()
        repeated = [n for n, k in Counter(s.name for s in self.sources).items() if k > 1]
        if repeated:
            raise bad_setting("sources.name", "different for each source", repeated[0])
        if not self.languages:
            cure = 'For instance languages = ["de", "en"]; other languages are left out.'
            raise bad_setting("languages", "set if a source has no language", "none", cure)
        for code, amount in self.limits.items():
            if code not in self.languages:
                raise bad_setting("limits", f"a table of {', '.join(self.languages)}", code)
            _whole_number(f"limits.{code}", amount, _MAXIMA["budget"])
        if self.composition != MD_MWIKI and ENGLISH not in self.languages:
            cure = f"Add an English source, or set composition to {MD_MWIKI}."
            allowed = f"a list with en for {self.composition}"
            raise bad_setting("languages", allowed, ", ".join(self.languages), cure)
        return self

    def with_codes(self) -> CompositionPlan:
        """The recipe with normalized codes, and by default the languages of its sources."""
        if not all(map(find_spec, ("langcodes", "py3langid", "sentencex"))):
            raise MissingDependencyError("A composition", EXTRA)
        sources = tuple(
            dataclasses.replace(s, language=code_of(s.language, f"source {s.name!r}: language"))
            if s.language
            else s
            for s in self.sources
        )
        codes = [code_of(code, "languages") for code in self.languages]
        if not codes and all(s.language for s in sources):
            codes = sorted({s.language for s in sources})
        limits = {code_of(code, "limits"): maximum for code, maximum in self.limits.items()}
        codes = list(dict.fromkeys(codes))
        return dataclasses.replace(self, sources=sources, languages=tuple(codes), limits=limits)


def read_recipe(path: Path) -> CompositionPlan:
    """Read a recipe."""
    values = recipe_values(path, [entry.name for entry in dataclasses.fields(CompositionPlan)])
    for key in ("composition", "budget"):
        if key not in values:
            allowed = f"one of {', '.join(COMPOSITIONS)}" if key == "composition" else "a number"
            raise bad_setting(key, allowed, "nothing", "See corpusfit compose --help.")
    limits = values.pop("limits", {})
    tables = values.pop("sources", [])
    settings = {"languages": (), **_decoded(CompositionPlan, values)}
    if not isinstance(limits, Mapping):
        raise bad_setting("limits", "a table [limits] by language", limits)
    if not isinstance(tables, list) or not all(isinstance(table, dict) for table in tables):
        raise bad_setting("sources", "tables [[sources]] with name, path and kind", tables)
    home = path.absolute().parent
    sources = []
    for table in tables:
        source = {"path": (), **_decoded(TextSource, table, "sources.")}
        for key in ("path", "target"):
            source[key] = tuple(located(p, home) if p else "" for p in source.get(key, ()))
        for key, allowed in (("name", "set for every source"), ("kind", " or ".join(KINDS))):
            if key not in source:
                raise bad_setting(f"sources.{key}", allowed, "nothing")
        sources.append(TextSource(**source))
    limits = {code: typed(f"limits.{code}", "int", maximum) for code, maximum in limits.items()}
    plan = CompositionPlan(**settings, sources=tuple(sources), limits=limits)
    return plan.with_codes().check()


def _decoded(cls: type, table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a table as the annotated types of a class; a single text is a list of one."""
    types = {entry.name: str(entry.type) for entry in dataclasses.fields(cls)}
    values: dict[str, Any] = {}
    for key, value in table.items():
        setting = f"{prefix}{key}"
        if key not in types:
            raise unknown(setting, [f"{prefix}{name}" for name in types])
        if types[key] != "tuple[str, ...]":
            values[key] = typed(setting, types[key], value)
            continue
        listed = [value] if isinstance(value, str) else value
        if not isinstance(listed, list):
            raise bad_setting(setting, "a list", value, "Put the value in [ ].")
        values[key] = tuple(typed(setting, "str", text) for text in listed)
    return values


def _whole_number(setting: str, value: int, maximum: int) -> None:
    """Raise `UsageError` unless a number is from 1 to `maximum`."""
    if not 1 <= value <= maximum:
        raise bad_setting(setting, f"from 1 to {maximum:,}", value)


def _seed_below(setting: str, value: int, power: int = 63) -> None:
    """Raise `UsageError` unless a seed is from 0 to below a power of 2."""
    if not 0 <= value < 2**power:
        raise bad_setting(setting, f"0 or more, and below 2^{power}", value)
