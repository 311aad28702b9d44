"""Cards of selections and adapted models (README.md in their folders), and `corpusfit push`."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import is_local, write_bytes
from corpusfit.core.credentials import public_name
from corpusfit.core.errors import StorageError, bad_setting, importing
from corpusfit.core.escaping import harmless, in_markdown
from corpusfit.core.hub import HubName
from corpusfit.core.manifest import Finished
from corpusfit.embed.folders import POOLING, hub_is_reachable
from corpusfit.selection.copies import copies_in_words
from corpusfit.text.files import first_line

SELECTED = ("target", "method", "selected", "counts")
"""The facts of a selection that are in the card of a model trained on it."""

_BEGINS = "---\ntags: [corpusfit]"
_MOST_SOURCES = 50
_IN_MEMORY = re.compile(r"/data/[0-9a-f]{32}/[^/]+\.jsonl$")
"""Where the Python API keeps data in memory: in the cache, under a digest."""
_SETTING = re.compile(r"([a-z_]+(?:\.[a-z_]+)+)=\"?(.*?)\"?")
_FILES = {
    "dataset": ["README.md", "selected/*"],
    "model": ["README.md", "*.safetensors", "*.json", "*.txt", "*.model"],
}

Manifest = Mapping[str, Any]


def require_pushable(run: Finished, name: str, evaluations: Sequence[Finished] = ()) -> str:
    """Check that a run can be pushed, before its text is compared with anything."""
    kind = {"select": "dataset", "adapt": "model"}.get(run.manifest["command"])
    if kind is None or (kind == "dataset" and not run.manifest["selected"]["segments"]):
        raise bad_setting("DIR", "a selection with text, or an adapted model", run.path)
    if not is_local(run.path):
        raise bad_setting("DIR", "a folder of this machine", run.path)
    for evaluation in evaluations:
        command, model = evaluation.manifest["repeat"], "another command"
        if evaluation.manifest["command"] == "evaluate":
            model = command[command.index("--model") + 1]
        if Path(model).resolve() != run.path.resolve():
            named = shlex.quote(str(run.path))
            cure = f"Evaluate {run.path} with `corpusfit evaluate --model {named}`."
            raise bad_setting("`evaluations`", f"an evaluation of {run.path}", f"of {model}", cure)
    if not hub_is_reachable():
        raise StorageError(
            f"{name} cannot be written: the hub does not answer. Check the network, then run the "
            "same command again."
        )
    return kind


def push_to_hub(
    run: Finished,
    name: str,
    *,
    public: bool = False,
    evaluations: Sequence[Finished] = (),
    compared: Any = None,
) -> str:
    """Write a run's card, and upload its selected text or its model.

    `compared` is what `corpusfit.contamination` returns for a selection.
    """
    with importing("Publishing", "hub"):
        from huggingface_hub import HfApi, get_token
    kind = require_pushable(run, name, evaluations)
    if kind == "dataset":
        write_selection_card(run.path, run.manifest, compared)
    else:
        write_model_card(run.path, run.manifest, [e.manifest for e in evaluations])
    # skip our own files, which hold local paths; the only subfolder of a model is its pooling
    folders = [each.name for each in run.path.iterdir() if each.is_dir() and each.name != POOLING]
    private = ["manifest.json", *(f"{name}/*" for name in folders)]
    try:
        hub = HfApi(library_name="corpusfit")
        repository = hub.create_repo(name, repo_type=kind, private=not public, exist_ok=True)
        hub.upload_folder(
            repo_id=repository.repo_id,
            repo_type=kind,
            folder_path=run.path,
            allow_patterns=_FILES[kind],
            ignore_patterns=private if kind == "model" else [],
            delete_patterns="selected/*" if kind == "dataset" else None,
            commit_message=f"Upload of corpusfit {run.manifest['command']}",
        )
    except Exception as e:
        cause = first_line(e) if get_token() else "nobody is logged in to it"
        raise StorageError(
            f"{name} cannot be written on the hub: {cause}. Check the name and the network, and "
            "log in with `hf auth login`."
        ) from e
    return str(repository)


def write_selection_card(folder: Path, manifest: Manifest, compared: Any = None) -> None:
    """Write the card of a selection: the file pattern for `datasets.load_dataset`, the facts."""
    selected = manifest["selected"]
    chosen = selected and selected["segments"]
    files = "selected/*.jsonl.zst" if chosen else "scores/*.parquet"
    lines = [
        f"configs:\n- config_name: default\n  data_files: {files}\n---\n",
        "# Text selected by corpusfit\n" if selected else "# Text scored by corpusfit\n",
        *_facts_of_selection(manifest),
    ]
    if chosen and compared:
        counts = [f"{s.found:,} of {s.texts:,} of {name}" for name, s in compared.splits.items()]
        lines.append(
            f"Held-out texts of {', '.join(_code(_public(name)) for name in compared.task)} in "
            f"these texts: {in_markdown(', '.join(counts))}. {compared.holders:,} of "
            f"{compared.texts:,} texts contain one.\n"
        )
    elif chosen:
        lines.append(
            "These texts were not compared with held-out texts of a task; "
            "`corpusfit contamination --task TASK --data out/` does that.\n"
        )
    _write(folder, [*lines, *_repeat(manifest)])


def write_model_card(
    folder: Path, manifest: Manifest, evaluations: Sequence[Manifest] = ()
) -> None:
    """Write the card of an adapted model, with the verdicts of its evaluations."""
    base, plan = harmless(_public(manifest["base"]["name"])), manifest["plan"]
    hub_name = HubName.parsed(base)
    repository = hub_name.repository if hub_name else base  # the hub knows no revision here
    objective = plan["objective"]["name"]
    lines = []
    if objective == "tsdae":
        lines.append("library_name: sentence-transformers\npipeline_tag: sentence-similarity")
    if evaluations:
        lines.append(f"model-index: {json.dumps(_index(base, evaluations))}")
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
    before, after = manifest["losses"]["before"], manifest["losses"]["after"]
    lines.append("| held-out loss, nats per token | before | after |\n|---|---|---|")
    lines += [
        f"| {in_markdown(name)} | {before[name]:.3f} | {after[name]:.3f} |"
        for name in before
        if name in after
    ]
    lines += ["", _contamination(manifest["counts"].get("guard"))]
    for evaluation in evaluations:
        lines += _verdicts(evaluation)
    if not evaluations:
        lines.append("It was not evaluated on a task.\n")
    if plan["seed"]:
        lines.append(f"Random seed: {plan['seed']}.\n")
    _write(folder, [*lines, *_repeat(manifest)])


def _write(folder: Path, lines: Sequence[str]) -> None:
    """Write README.md, unless the user has written one."""
    path = folder / "README.md"
    if not path.exists() or path.read_bytes().startswith(_BEGINS.encode()):
        write_bytes(path, "\n".join([_BEGINS, *lines]).encode(errors="replace"))


def _facts_of_selection(manifest: Manifest) -> Iterator[str]:
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
    yield f"Method: {in_markdown(manifest['method']['name'])}.\n"
    if selected:
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


def _index(base: str, evaluations: Sequence[Manifest]) -> list[dict[str, Any]]:
    """The hub's `model-index`: every test score of the model."""
    results = []
    for run in evaluations:
        task, metric = harmless(run["task"]["name"]), run["metric"]
        for row in (r for r in run["results"] if r["model"] == "model"):
            size = f" ({row['size']:,} training examples)" if row["size"] else ""
            results.append(
                {
                    "task": {"type": run["task"].get("kind", "other")},
                    "dataset": {"name": task + size, "type": task},
                    "metrics": [{"type": metric, "value": row["test"][metric]["mean"]}],
                }
            )
    return [{"name": f"{base}, adapted", "results": results}]


def _verdicts(evaluation: Manifest) -> Iterator[str]:
    """The comparisons with the base, or without one the scores, on a task's test split."""
    task, metric = evaluation["task"], evaluation["metric"]
    yield (
        f"## {_code(task['name'])}\n\nTest: {task['test']:,} examples, {in_markdown(metric)}, "
        f"{evaluation['seeds']} seeds. The intervals hold for seeds and examples (95 %).\n"
    )
    yield "| training examples | score | base | difference | |\n|---|---|---|---|---|"
    scores = {(r["model"], r["size"]): r["test"][metric]["mean"] for r in evaluation["results"]}
    # a score is a share that is shown in points, or a negated error in its unit
    points = evaluation["unit"] == "points"
    sign, scale, digits = (1, 100, 1) if points else (-1, 1, 4)
    compared = {c["size"]: c for c in evaluation["comparisons"]}
    for (model, size), score in scores.items():
        if model != "model":
            continue
        base = scores.get(("base", size))
        own = f"{sign * scale * score:.{digits}f}"
        shown = "–" if base is None else f"{sign * scale * base:.{digits}f}"
        difference, verdict = "–", ""
        if comparison := compared.get(size):
            difference = f"{scale * comparison['difference']:+.{digits}f}"
            low, high = comparison["low"], comparison["high"]
            if low is not None:
                ends = " to ".join(f"{scale * end:+.{digits}f}" for end in (low, high))
                difference += f" ({ends})"
            verdict = in_markdown(comparison["verdict"])
        yield f"| {size or 'all'} | {own} | {shown} | {difference} | {verdict} |"
    yield ""


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
