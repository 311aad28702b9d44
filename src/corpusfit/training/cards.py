"""Cards of selections and adapted models: README.md in their folders, which the hub shows."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.escaping import harmless
from corpusfit.evaluation.tables import in_markdown
from corpusfit.selection.copies import copies_in_words
from corpusfit.training.plan import EMBEDDINGS, loss_unit

_BEGINS = "---\ntags: [corpusfit]"
_MOST_SOURCES = 50
_IN_MEMORY = re.compile(r"/data/[0-9a-f]{32}/[^/]+\.jsonl$")
"""Where `api.inputs` keeps data in memory: in the cache, under a digest."""
_SETTING = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)=\"?(.*?)\"?")

SELECTED = ("target", "method", "reason", "selected", "counts")
"""The facts of a selection that are in the card of a model trained on it."""

Manifest = Mapping[str, Any]


class Compared(Protocol):
    """What `contamination` finds in a selection."""

    @property
    def task(self) -> Sequence[str]:
        """Names of the held-out texts."""

    @property
    def texts(self) -> int:
        """Number of selected texts."""

    @property
    def holders(self) -> int:
        """Number of those that contain a held-out text."""

    @property
    def splits(self) -> Mapping[str, Any]:
        """By split, the number of held-out `texts` and of those that are `found`."""


def write_selection_card(
    folder: Path, manifest: Manifest, compared: Compared | None = None
) -> None:
    """Write the card of a selection: the file pattern for `datasets.load_dataset`, the facts."""
    _write(folder, _selection(manifest, compared))


def write_model_card(
    folder: Path, manifest: Manifest, evaluations: Sequence[Manifest] = ()
) -> None:
    """Write the card of an adapted model, with the verdicts of its evaluations."""
    _write(folder, _model(manifest, evaluations))


def _write(folder: Path, lines: Iterator[str]) -> None:
    """Write README.md, unless there is one of the user's own."""
    path = folder / "README.md"
    if not path.exists() or path.read_bytes().startswith(_BEGINS.encode()):
        write_bytes(path, "\n".join([_BEGINS, *lines]).encode(errors="replace"))


def _selection(manifest: Manifest, compared: Compared | None) -> Iterator[str]:
    selected = manifest["selected"]
    chosen = selected and selected["segments"]
    files = "selected/*.jsonl.zst" if chosen else "scores/*.parquet"
    yield f"configs:\n- config_name: default\n  data_files: {files}\n---\n"
    yield "# Text selected by corpusfit\n" if selected else "# Text scored by corpusfit\n"
    yield from _what_from_what(manifest)
    if chosen and compared:
        yield from _found_in(compared)
    elif chosen:
        yield (
            "These texts were not compared with held-out texts of a task; "
            "`corpusfit contamination --task TASK --data out/` does that.\n"
        )
    yield from _repeat(manifest)


def _found_in(compared: Compared) -> Iterator[str]:
    """How many held-out texts the selected ones contain."""
    counts = [f"{s.found:,} of {s.texts:,} of {name}" for name, s in compared.splits.items()]
    yield (
        f"Held-out texts of {', '.join(_code(_public(name)) for name in compared.task)} in these "
        f"texts: {in_markdown(', '.join(counts))}. {compared.holders:,} of {compared.texts:,} "
        "texts contain one.\n"
    )


def _what_from_what(manifest: Manifest) -> Iterator[str]:
    """How much was selected, by which method, from which sources, for which target."""
    selected, counts = manifest["selected"], manifest["counts"]
    if selected:
        yield (
            f"{selected['segments']:,} of {counts['segments']:,} segments, about "
            f"{selected['tokens']:,} word pieces, from {counts['documents']:,} documents.\n"
        )
    copies = copies_in_words(selected.get("copies")) if selected else ""
    if copies:
        yield f"{copies}.\n"
    reason = in_markdown(manifest.get("reason") or "")
    yield f"Method: {in_markdown(manifest['method']['name'])}. {reason}".strip() + "\n"
    if selected:
        yield from _by_source(selected["by_source"])
    yield f"Target: {_names(manifest['target'])}.\n"


def _by_source(by_source: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """A table of the sources with most selected word pieces."""
    most = sorted(by_source, key=lambda name: (-by_source[name]["tokens"], name))
    yield "| source | segments | selected | word pieces |\n|---|---|---|---|"
    for name in most[:_MOST_SOURCES]:
        own = by_source[name]
        yield f"| {_code(name)} | {own['segments']:,} | {own['selected']:,} | {own['tokens']:,} |"
    left = len(most) - _MOST_SOURCES
    yield f"\nand {left:,} more sources.\n" if left > 0 else ""


def _model(manifest: Manifest, evaluations: Sequence[Manifest]) -> Iterator[str]:
    base, plan = harmless(_public(manifest["base"]["name"])), manifest["plan"]
    if plan["objective"]["name"] in EMBEDDINGS:
        yield "library_name: sentence-transformers\npipeline_tag: sentence-similarity"
    yield f"base_model: {json.dumps(base, ensure_ascii=False)}\n---\n"  # YAML can hold JSON
    yield f"# {in_markdown(base)}, adapted by corpusfit\n"
    yield in_markdown(f"{manifest['words'][:1].upper()}{manifest['words'][1:]}") + "\n"
    selection = manifest.get("selection")  # not in a model of an earlier version
    if selection:
        yield "Trained on text that was selected from a corpus:\n"
        yield from _what_from_what(selection)
    else:
        yield f"Trained on {_names(manifest['data']) or 'the texts of the task'}.\n"
    before, after = manifest["losses"]["before"], manifest["losses"]["after"]
    unit = loss_unit(plan["objective"]["name"])
    yield f"| held-out loss, nats per {unit} | before | after |\n|---|---|---|"
    for name in filter(after.__contains__, before):
        yield f"| {in_markdown(name)} | {before[name]:.3f} | {after[name]:.3f} |"
    yield ""
    yield _contamination(manifest["counts"].get("guard"))
    for evaluation in evaluations:
        yield from _verdicts(evaluation)
    if not evaluations:
        yield "It was not evaluated on a task.\n"
    if plan["seed"]:
        yield f"Random seed: {plan['seed']}.\n"
    yield from _repeat(manifest)


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


def _verdicts(evaluation: Manifest) -> Iterator[str]:
    """The comparisons with the base, or without one the scores, on a task's test split."""
    task, metric = evaluation["task"], evaluation["metric"]
    yield (
        f"## {_code(task['name'])}\n\nTest: {task['test']:,} examples, {in_markdown(metric)}, "
        f"{evaluation['seeds']} seeds. The intervals hold for seeds and examples (95 %).\n"
    )
    yield "| training examples | score | base | difference | |\n|---|---|---|---|---|"
    scores = {(r["model"], r["size"]): r["test"][metric]["mean"] for r in evaluation["results"]}
    compared = {c["size"]: c for c in evaluation["comparisons"]}
    for (model, size), ours in scores.items():
        if model == "model":
            base, found = scores.get(("base", size)), compared.get(size)
            cells = (size or "all", _points(ours), _points(base), *_difference(found))
            yield f"| {' | '.join(map(str, cells))} |"
    yield ""


def _points(score: float | None) -> str:
    return "–" if score is None else f"{100 * score:.1f}"


def _difference(found: Mapping[str, Any] | None) -> tuple[str, str]:
    """The difference with its interval, and the verdict."""
    if found is None:
        return "–", ""
    low, high = (found[end] for end in ("low", "high"))
    interval = "" if low is None else f" ({100 * low:+.1f} to {100 * high:+.1f})"
    return f"{100 * found['difference']:+.1f}{interval}", in_markdown(found["verdict"])


def _names(sources: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(_code(source["name"]) for source in sources[:_MOST_SOURCES])


def _repeat(manifest: Manifest) -> Iterator[str]:
    command = harmless(shlex.join(_public(word) for word in manifest["repeat"]))
    fence = "`" * (1 + max([2, *map(len, re.findall("`+", command))]))
    yield f"To repeat it with corpusfit {in_markdown(manifest['corpusfit'])}:\n"
    yield f"{fence}bash\n{command} --out out/\n{fence}\n"
    kept = filter(_IN_MEMORY.search, manifest["repeat"])
    names = ", ".join(_code(_public(word)) for word in dict.fromkeys(kept))
    yield f"Data that was in memory, to be written to files first: {names}.\n" if names else ""


def _public(word: str) -> str:
    """A word of a command without folders of this machine, passwords and queries of URLs."""
    setting = _SETTING.fullmatch(word)
    if setting:
        return f"{setting[1]}={_public(setting[2])}"
    if word.startswith("pair:"):
        return "pair:" + ",".join(map(_public, word.removeprefix("pair:").split(",")))
    url = urlsplit(word)
    if url.scheme and url.netloc:
        return f"{url.scheme}://{url.netloc.rpartition('@')[2]}{url.path}"
    local = word.removeprefix("file://").removeprefix("hub:")
    return Path(local).name if Path(local).is_absolute() else word


def _code(name: str) -> str:
    """A name as code that cannot end its cell or its quotes."""
    plain = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    return f"`{plain.replace('`', chr(39)).replace('|', '¦')}`"
