"""Cards of selections and adapted models: README.md in their folders."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.credentials import public_name
from corpusfit.core.escaping import harmless, in_markdown
from corpusfit.core.hub import HubName
from corpusfit.selection.copies import copies_in_words

SELECTED = ("target", "method", "selected", "counts")
"""The facts of a selection that are in the card of a model trained on it."""

_BEGINS = "---\ntags: [corpusfit]"
_MOST_SOURCES = 50
_IN_MEMORY = re.compile(r"/data/[0-9a-f]{32}/[^/]+\.jsonl$")
"""Where the Python API keeps data in memory: in the cache, under a digest."""
_SETTING = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)=\"?(.*?)\"?")

Manifest = Mapping[str, Any]


def write_selection_card(folder: Path, manifest: Manifest) -> None:
    """Write the card of a selection: the file pattern for `datasets.load_dataset`, the facts."""
    selected = manifest["selected"]
    chosen = selected["segments"]
    files = "selected/*.jsonl.zst" if chosen else "scores/*.parquet"
    lines = [
        f"configs:\n- config_name: default\n  data_files: {files}\n---\n",
        "# Text selected by corpusfit\n",
        *_facts_of_selection(manifest),
    ]
    if chosen:
        lines.append(
            "These texts were not compared with held-out texts of a task; "
            "`corpusfit contamination --task TASK --data out/` does that.\n"
        )
    _write(folder, [*lines, *_repeat(manifest)])


def write_model_card(folder: Path, manifest: Manifest) -> None:
    """Write the card of an adapted model."""
    base = harmless(_public(manifest["base"]["name"]))
    seed = manifest["plan"]["seed"]
    hub_name = HubName.parsed(base)
    repository = hub_name.repository if hub_name else base  # the hub knows no revision here
    lines = []
    if (folder / "modules.json").exists():  # a sentence encoder's
        lines.append("library_name: sentence-transformers\npipeline_tag: sentence-similarity")
    lines += [
        f"base_model: {json.dumps(repository, ensure_ascii=False)}\n---\n",  # YAML can hold JSON
        f"# {in_markdown(base)}, adapted by corpusfit\n",
        in_markdown(f"{manifest['words'][:1].upper()}{manifest['words'][1:]}") + "\n",
    ]
    selection = manifest.get("selection")
    if selection:
        lines += ["Trained on text that was selected from a corpus:\n"]
        lines += _facts_of_selection(selection)
    else:
        lines.append(f"Trained on {_names(manifest['data']) or 'the texts of the task'}.\n")
    before = manifest["losses"]["before"]
    after = manifest["losses"]["after"]
    lines.append("| held-out loss, nats per token | before | after |\n|---|---|---|")
    lines += [
        f"| {in_markdown(name)} | {before[name]:.3f} | {after[name]:.3f} |"
        for name in before
        if name in after
    ]
    lines += ["", _contamination(manifest["counts"].get("guard"))]
    lines.append("It was not evaluated on a task.\n")
    if seed:
        lines.append(f"Random seed: {seed}.\n")
    _write(folder, [*lines, *_repeat(manifest)])


def _write(folder: Path, lines: Sequence[str]) -> None:
    """Write README.md, unless the user has written one."""
    path = folder / "README.md"
    if not path.exists() or path.read_bytes().startswith(_BEGINS.encode()):
        write_bytes(path, "\n".join([_BEGINS, *lines]).encode(errors="replace"))


def _facts_of_selection(manifest: Manifest) -> Iterator[str]:
    """How much was selected, by which method, from which sources, for which target."""
    selected = manifest["selected"]
    counts = manifest["counts"]
    yield (
        f"{selected['segments']:,} of {counts['segments']:,} segments, about "
        f"{selected['tokens']:,} word pieces, from {counts['documents']:,} documents.\n"
    )
    copies = copies_in_words(selected.get("copies"))
    if copies:
        yield f"{copies}.\n"
    yield f"Method: {in_markdown(manifest['method']['name'])}.\n"
    sources = selected["by_source"]
    largest = sorted(sources, key=lambda name: (-sources[name]["tokens"], name))
    yield "| source | segments | selected | word pieces |\n|---|---|---|---|"
    for name in largest[:_MOST_SOURCES]:
        n = sources[name]
        yield f"| {_code(name)} | {n['segments']:,} | {n['selected']:,} | {n['tokens']:,} |"
    left = len(largest) - _MOST_SOURCES
    yield f"\nand {left:,} more sources.\n" if left > 0 else ""
    yield f"Target: {_names(manifest['target'])}.\n"


def _contamination(guard: Mapping[str, Any] | None) -> str:
    if guard is None:
        return "The training texts were not compared with held-out texts.\n"
    read = [guard[role] for role in ("data", "replay", "task") if role in guard]
    left_out, texts = (sum(counts[key] for counts in read) for key in ("holders", "texts"))
    if not left_out:
        return (
            f"None of {texts:,} training texts contains one of {guard['texts']:,} held-out texts.\n"
        )
    return (
        f"{left_out:,} training texts that contain one of {guard['texts']:,} held-out texts were "
        "left out.\n"
    )


def _names(sources: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(_code(source["name"]) for source in sources[:_MOST_SOURCES])


def _repeat(manifest: Manifest) -> Iterator[str]:
    command = harmless(shlex.join(_public(word) for word in manifest["repeat"]))
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", command))]))
    yield f"To repeat it with corpusfit {in_markdown(manifest['corpusfit'])}:\n"
    yield f"{fence}bash\n{command} --out out/\n{fence}\n"
    in_memory = filter(_IN_MEMORY.search, manifest["repeat"])
    names = ", ".join(_code(_public(word)) for word in dict.fromkeys(in_memory))
    yield f"Data that was in memory, to be written to files first: {names}.\n" if names else ""


def _public(word: str) -> str:
    """A word of a command without folders of this machine, passwords and queries of URLs."""
    setting = _SETTING.fullmatch(word)
    if setting:
        return f"{setting[1]}={_public(setting[2])}"
    if word.startswith("run:"):
        return f"run:{_public(word.removeprefix('run:'))}"
    if word.startswith("pair:"):
        return "pair:" + ",".join(map(_public, word.removeprefix("pair:").split(",")))
    if "://" in word and not word.startswith("file://"):
        return public_name(word)
    local = word.removeprefix("file://").removeprefix("hub:")
    return Path(local).name if Path(local).is_absolute() else word


def _code(name: str) -> str:
    """A name as code that cannot end its cell or its quotes."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return f"`{plain.replace('`', chr(39)).replace('|', '¦')}`"
