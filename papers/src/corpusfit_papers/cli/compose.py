"""`corpusfit compose`: a corpus of several languages from specific and general text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from corpusfit.contracts import command, say, table

if TYPE_CHECKING:
    from corpusfit_papers.mixing.composing import Composition

_MAX_SOURCES = 4


def show_projected(projected: Mapping[str, Any]) -> None:
    """Print the dry run."""
    show_languages(projected["languages"], projected["unit"])
    say(
        f"Expected: {projected['taken']:,} {projected['unit']} of {projected['documents']:,} "
        f"documents, {projected['seconds']:,.0f} s and {projected['disk_mb']:,.0f} MB of disk, "
        "without the time for relevance scores (all texts were read; nothing was written)."
    )


@command(machine=("engine", "workers", "cache", "verify"), dry_run=show_projected)
def compose(done: Composition) -> None:
    """Compose a multilingual corpus from a recipe.

    Example:
      corpusfit compose recipe.toml --out mixed/

    A recipe is a TOML file that lists sources, a budget and how the languages share it. Each source
    has a language and a kind, specific or general. Writes the text to out/composed, for `corpusfit
    adapt --data`. To resume a stopped run, run the same command again.

    Options:
        RECIPE: TOML file; the repository has one in papers/examples
        --dry-run: Read all texts and only print what would be selected
    """
    manifest = done.manifest
    show_languages(manifest["languages"], manifest["budget"]["unit"])
    _show_kinds(manifest["kinds"])
    copies = manifest["copies"]
    budget = manifest["budget"]
    say(
        f"Selected {budget['taken']:,} of {budget['asked']:,} {budget['unit']}. Dropped as copies: "
        f"{copies['same_language']:,} documents within a language, "
        f"{copies['other_language']:,} across languages."
    )
    text = str(done.path / "composed")
    say(f"Text: {text}. To train on it: corpusfit adapt --data {shlex.quote(text)} …")


def show_languages(languages: Sequence[Mapping[str, Any]], unit: str) -> None:
    """Print the amounts selected per language, as in mDAPT, Tables 8 and 9."""
    sources = list(dict.fromkeys(name for row in languages for name in row["sources"]))
    shown = sources if len(sources) <= _MAX_SOURCES else []
    figures = ("own", "further", "upsampled", "again", "total")
    everything = sum(row["total"] for row in languages)
    written = any(row["sentences"] for row in languages)
    rows = []
    for row in languages:
        of_sources = [row["sources"].get(name, {}).get("sentences", 0) for name in shown]
        counted = [row["sentences"], row["tokens"]] if written else []
        amounts = [*of_sources, *(row[name] for name in figures)]
        rows.append([*amounts, _share(row["total"], everything), *counted])
    totals = [sum(r[i] for r in rows) if not isinstance(r0, str) else _share(1, 1)
              for i, r0 in enumerate(rows[0])]  # fmt: skip
    names = [*(row["language"] for row in languages), "total"]
    cells = [
        [name, *(v if isinstance(v, str) else f"{v:,}" for v in row)]
        for name, row in zip(names, [*rows, totals], strict=True)
    ]
    columns = ["language", *shown, "specific", "further", "general", "repeated", "total", "share"]
    table(f"Composition ({unit})", [*columns, *(("sentences", "tokens") if written else ())], cells)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "–"


def _show_kinds(kinds: Sequence[Mapping[str, Any]]) -> None:
    """Print languages, sentences and tokens, as in mDAPT, Table 1."""
    rows = [
        [row["kind"], *(f"{row[name]:,}" for name in ("languages", "sentences", "tokens"))]
        for row in kinds
    ]
    table("Composed text", ["kind", "languages", "sentences", "tokens"], rows)
