"""The dataset card of a selection's folder, which `datasets.load_dataset` and the hub read."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from corpusfit.artifacts import write_bytes
from corpusfit.manifest import OutFolder

_MOST_SOURCES = 50


def write_card(folder: OutFolder, manifest: Mapping[str, Any]) -> None:
    """Write README.md: which files hold the rows, what was selected from what, and how."""
    write_bytes(folder.path / "README.md", "\n".join(_lines(manifest)).encode())


def _lines(manifest: Mapping[str, Any]) -> Iterator[str]:
    selected, counts = manifest["selected"], manifest["counts"]
    chosen = selected and selected["segments"]
    yield "---"
    yield "tags: [corpusfit]"
    files = "selected/*.jsonl.zst" if chosen else "scores/*.parquet"
    yield f"configs:\n- config_name: default\n  data_files: {files}\n---\n"
    yield "# Text selected by corpusfit\n" if selected else "# Text scored by corpusfit\n"
    if selected:
        yield (
            f"{selected['segments']:,} of {counts['segments']:,} segments, {selected['tokens']:,} "
            f"word pieces, from {counts['documents']:,} documents.\n"
        )
    yield f"Method: {manifest['method']['name']}. {manifest.get('reason') or ''}".strip() + "\n"
    if selected:
        yield from _by_source(selected["by_source"])
    targets = ", ".join(_code(source["name"]) for source in manifest["target"][:_MOST_SOURCES])
    yield f"Target: {targets}. To repeat it with corpusfit {manifest['corpusfit']}:\n"
    yield f"```bash\n{shlex.join(manifest['repeat'])} --out out/\n```\n"


def _by_source(by_source: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """A table of the sources with most selected word pieces."""
    most = sorted(by_source, key=lambda name: (-by_source[name]["tokens"], name))
    yield "| source | segments | selected | word pieces |\n|---|---|---|---|"
    for name in most[:_MOST_SOURCES]:
        own = by_source[name]
        yield f"| {_code(name)} | {own['segments']:,} | {own['selected']:,} | {own['tokens']:,} |"
    left = len(most) - _MOST_SOURCES
    yield f"\nand {left:,} more sources.\n" if left > 0 else ""


def _code(name: str) -> str:
    """A name as code that cannot end its cell or its quotes."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return f"`{plain.replace('`', chr(39)).replace('|', '¦')}`"
