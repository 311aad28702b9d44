"""Where hostile texts and files can stand: in rows, names, recipes, models and finished runs."""

from __future__ import annotations

import dataclasses
import fcntl
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import zstandard

if TYPE_CHECKING:
    from foes_box import Box

_WORDS = "kinase receptor binds protein inhibitor enzyme affinity ligand cell assay".split()
_TRAINING = "--data data.jsonl --set train.length=16 --set train.batch=2 --max-steps".split()
_ALL = ("terminal", "web", "sheet", "typeset", "path")


def rows(n: int, **more: str) -> list[dict[str, str]]:
    texts = (" ".join([*_WORDS[i % 7 : i % 7 + 4], f"{i}."]) for i in range(n))
    return [{"text": text, "id": f"row-{i}", **more} for i, text in enumerate(texts)]


def write(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def _as_name(text: str) -> str:
    """A text as the name of a file."""
    clean = text.replace("/", "\u2215").replace("\0", "").replace("\ud800", "\udcff")
    return os.fsdecode(os.fsencode(clean)[:200]) if clean not in ("", "..") else "_.."


def inputs(box: Box) -> None:
    """A target and a corpus."""
    write(box.given / "target.jsonl", rows(25))
    write(box.given / "corpus/a.jsonl", rows(60))


def adapt(box: Box, model: Path, out: Path, *more: object, steps: int = 1) -> int:
    """Adapt a model on a few texts, or on those that the case has written."""
    if not (box.given / "data.jsonl").exists():
        write(box.given / "data.jsonl", rows(60))
    return box.corpusfit("adapt", "--model", model, *_TRAINING, steps, "--out", out, *more)


def evaluate(box: Box, model: Path, label: str = "a") -> None:
    """Fine-tune a model on a task of few examples."""
    for name in ("train", "dev", "test"):
        write(box.given / "task" / f"{name}.jsonl", labeled(24, label, "b"))
    own = "--task task --seeds 1 --epochs 1 --length 16 --out".split()
    box.corpusfit("evaluate", "--model", model, *own, box.out / "eval")


def _select(box: Box, *more: object, out: str = "run") -> int:
    own = "--engine inline --fraction 0.5 --dedup none --method dsir --out".split()
    given = ("--target", "target.jsonl", "--corpus", "corpus")
    return box.corpusfit("select", *own, box.out / out, *given, *more)


def _look(box: Box, row: str = "a.jsonl:0", *figures: object) -> None:
    """All that shows a selection."""
    box.corpusfit("explain", box.out / "run", "--row", row)
    box.corpusfit("audit", box.out / "run", "--engine", "inline")
    box.corpusfit("report", box.out / "run", *figures)


def _file_name(box: Box, text: str) -> None:
    inputs(box)
    name = f"{_as_name(text)}.jsonl"
    write(box.given / "corpus" / name, rows(30))
    shutil.move(box.given / "target.jsonl", box.given / name)
    _select(box, "--target", name)
    figures = ["--figures", box.out / "figures"] if "<" in text else []
    _look(box, f"{name}:0", *figures)
    from corpusfit.selection.publishing import write_selection_card

    if (box.out / "run/manifest.json").exists():
        write_selection_card(
            box.out / "run", json.loads((box.out / "run/manifest.json").read_bytes())
        )


def _row_text(box: Box, text: str) -> None:
    """Texts are data: what is selected has them as they are."""
    inputs(box)
    given = {row["text"] for row in rows(60)}
    for i, whole in enumerate((text, f"{text} kinase binds", f"kinase {text}"), 60):
        given.add(whole)
        with (box.given / "corpus/a.jsonl").open("a") as f:
            f.write(json.dumps({"text": whole, "id": text, text: i}) + "\n")
        with (box.given / "target.jsonl").open("a") as f:
            f.write(json.dumps({"text": whole}) + "\n")
    _select(box, "--fraction", "1")
    files = sorted((box.out / "run/selected").glob("*.zst"))
    lines = b"".join(map(zstd_whole, files)).splitlines()
    kept = {orjson.loads(line)["text"] for line in lines}
    box.faults += [f"it changes a text: {k[:40]!a}" for k in sorted(kept - given)]
    _look(box, "a.jsonl:60")
    box.corpusfit("explain", box.out / "run", "--text", text)


def zstd_whole(path: Path) -> bytes:
    """The content of a file of zstd."""
    return zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes())


def _field_name(box: Box, text: str) -> None:
    inputs(box)
    for name, n in (("target.jsonl", 25), ("corpus/a.jsonl", 60)):
        write(box.given / name, [{text: row["text"], "id": row["id"]} for row in rows(n)])
    _select(box, f"--text-field={text}")
    _select(box, f"--text-field=other {text}", out="none")


def _domain(box: Box, text: str) -> None:
    inputs(box)
    write(box.given / "corpus/a.jsonl", rows(40, kind=text) + rows(20, kind="plain"))
    _select(box)
    own = ("--truth", "kind", "--engine", "inline")
    box.corpusfit("audit", box.out / "run", *own)
    box.corpusfit("audit", box.out / "run", *own, "--domain", text)


def _cluster_domain(box: Box, text: str) -> None:
    write(box.given / "corpus/a.jsonl", rows(60, kind=text) + rows(40, kind="plain"))
    own = "--corpus corpus --k 2 --embedder static --truth kind --engine inline --out".split()
    box.corpusfit("clusters", *own, box.out / "clusters")


def _label(box: Box, text: str) -> None:
    evaluate(box, box.model, text)


def _model_name(box: Box, text: str) -> None:
    folder = box.given / _as_name(text)
    shutil.copytree(box.model, folder)
    adapt(box, folder, box.out / "model", steps=2)
    manifest = box.out / "model/manifest.json"
    if manifest.exists():
        from corpusfit.selection.publishing import write_model_card

        write_model_card(box.out / "model", json.loads(manifest.read_bytes()))


def _toml(text: str) -> str:
    return json.dumps(text.replace("\ud800", "?"))


def _recipe(box: Box, text: str) -> None:
    """A grid of one method: its names are the stranger's."""
    inputs(box)
    for name, n in (("train", 30), ("dev", 8), ("test", 8)):
        write(box.given / "task" / f"{name}.jsonl", labeled(n, "a", "b"))
    word = _toml(text)
    (box.given / "recipe.toml").write_text(
        f'name = {word}\nmodel = {json.dumps(str(box.model))}\ncorpus = ["corpus"]\nseeds = 1\n'
        f"compare = {word}\nadapt.train.max_steps = 1\n"
        f'fractions = [0.25]\nselectors = [{word}]\n[selector.{word}.method]\nname = "dsir"\n'
        f'[[tasks]]\nname = {word}\npath = "task"\n',
        "utf-8",
    )
    box.corpusfit("run", "recipe.toml", "--engine", "inline", "--dry-run", "--out", box.out / "run")
    box.corpusfit("run", "recipe.toml", "--engine", "inline", "--out", box.out / "run")


def _recipe_values(box: Box, text: str) -> None:
    """Every value of a recipe that names something, and a setting that does not exist."""
    inputs(box)
    word = _toml(text)
    for n, line in enumerate(
        (f"corpus = [{word}]", f"model = {word}", f"selectors = [{word}]", f"{word} = 1")
    ):
        path = box.given / f"recipe-{n}.toml"
        rest = 'name = "a"\nseeds = 1\nselectors = ["base"]\n'
        kept = [k for k in rest.splitlines() if k.split()[0] != line.split()[0]]
        tasks = f'[[tasks]]\nname = "t"\npath = {word}\n'
        path.write_text("\n".join([line, *kept, tasks]), "utf-8")
        box.corpusfit("run", path, "--engine", "inline", "--dry-run", "--out", box.out / "run")


def _composition(box: Box, text: str) -> None:
    inputs(box)
    compose(box, _toml(text), '"corpus"')


def _composition_path(box: Box, text: str) -> None:
    compose(box, '"own"', _toml(text))


def compose(box: Box, name: str, path: str) -> None:
    """A composition of one source, whose name and path are TOML."""
    (box.given / "mix.toml").write_text(
        'composition = "E_D"\nbudget = 40\n[[sources]]\nkind = "specific"\nlanguage = "en"\n'
        f"name = {name}\npath = {path}\n",
        "utf-8",
    )
    box.corpusfit("compose", "mix.toml", "--engine", "inline", "--out", box.out / "mix")


def _plan(box: Box, text: str) -> None:
    """Settings of a plan, by name and by value."""
    inputs(box)
    word = _toml(text)
    for n, lines in enumerate(
        (f"[embed]\nembedder = {word}", f"[method]\nname = {word}", f"[{word}]\nx = 1",
         f"[read]\ntext_field = {word}\nquery = {word}", f"seed = {word}")
    ):  # fmt: skip
        (box.given / f"plan-{n}.toml").write_text(lines + "\n", "utf-8")
        box.corpusfit(
            "select", "--target", "target.jsonl", "--corpus", "corpus", "--engine", "inline",
            "--plan", f"plan-{n}.toml", "--out", box.out / str(n), "--no-report",
        )  # fmt: skip


def _command_line(box: Box, text: str) -> None:
    """What a shell's glob or a program may put on a command line."""
    inputs(box)
    text = text.replace("\0", "").replace("\ud800", "\udcff")
    given = ("--target", "target.jsonl", "--corpus", "corpus", "--engine", "inline")
    for words in (
        ("select", text), ("select", f"--{text}"), (text,), ("report", text), ("explain", text),
        ("select", *given, "--out", box.out / "a", "--method", text),
        ("select", *given, "--out", box.out / "a", "--set", text),
        ("select", *given, "--out", box.out / "a", "--policy", text),
        ("select", *given[2:], "--target", f"./no {text}", "--out", box.out / "b"),
        ("select", *given[2:], "--target", f"hub:x{text}", "--out", box.out / "b"),
        ("select", *given[2:], "--target", f"x{text}://y", "--out", box.out / "b"),
        ("adapt", "--model", text, "--data", "corpus", "--max-steps", "1", "--out", box.out / "c"),
        ("methods", text), ("compose", text, "--out", box.out / "d"),
    ):  # fmt: skip
        box.corpusfit(*words)


def finish_runs(folder: Path, model: Path, machine: Any) -> None:
    """Make a finished run of some commands, which the cases copy."""
    import corpusfit

    write(folder / "target.jsonl", rows(25))
    write(folder / "corpus/a.jsonl", rows(60))
    for name in ("train", "dev", "test"):
        write(folder / "task" / f"{name}.jsonl", labeled(24, "a", "b"))
    given = {"target": folder / "target.jsonl", "corpus": folder / "corpus"}
    corpusfit.select(**given, out=folder / "select", method="dsir", machine=machine)
    sizes = ["train.length=16", "train.batch=2"]
    corpusfit.adapt(
        model=model, data=folder / "corpus", max_steps=2, settings=sizes, out=folder / "adapt",
        machine=machine,
    )  # fmt: skip
    corpusfit.evaluate(
        model=model, task=folder / "task", seeds=1, epochs=1, length=16, out=folder / "evaluate",
        machine=machine,
    )  # fmt: skip


def labeled(n: int, *labels: str) -> list[dict[str, str]]:
    """Rows of a task, with the labels in turn."""
    return [
        {"text": row["text"], "label": labels[i % len(labels)]} for i, row in enumerate(rows(n))
    ]


def finished(box: Box, kind: str) -> Path:
    """A copy of a finished run in `out`."""
    return Path(shutil.copytree(box.folder.parents[1] / "foe-runs" / kind, box.out / "run"))


def _poisoned(value: Any, text: str, *, keys: bool = False) -> Any:
    """A JSON value with a text in place of every string that is free, and in keys of maps."""
    if isinstance(value, dict):
        return {k: _poisoned(v, text) for k, v in value.items()} | ({text: 1} if keys else {})
    if isinstance(value, list):
        return [_poisoned(v, text) for v in value]
    return text if isinstance(value, str) else value


_KEPT = ("command", "versions", "plan", "corpusfit", "kind", "metric", "unit")


def _manifest(box: Box, text: str) -> None:
    """A finished run of a stranger, whose manifest says what they like."""
    for kind in ("select", "adapt", "evaluate"):
        shutil.rmtree(box.out / "run", ignore_errors=True)
        path = finished(box, kind) / "manifest.json"
        found = json.loads(path.read_bytes())
        free = sorted(found.keys() - {*_KEPT})
        for key in free[len(text) % 4 :: 4]:  # a quarter of them each time
            path.write_text(json.dumps({**found, key: _poisoned(found[key], text)}), "utf-8")
            box.corpusfit("report", box.out / "run")
            _cards(box, {**found, key: _poisoned(found[key], text)})


def _cards(box: Box, manifest: dict[str, Any]) -> None:
    from corpusfit.selection import publishing as cards

    (box.out / "run/README.md").unlink(missing_ok=True)
    if manifest["command"] == "select":
        cards.write_selection_card(box.out / "run", manifest)
    if manifest["command"] == "adapt":
        cards.write_model_card(box.out / "run", manifest)


def _table(box: Box, text: str) -> None:
    """The tables of a recipe."""
    from corpusfit_papers.experiments.rendering import Score, Table
    from corpusfit_papers.experiments.tables import write_tables

    lines = ((text, Score(0.5, 0.1, "*", best=True), text), ("b", Score(-0.5), None))
    table = Table(text, ("task", text, f"a {text}"), lines, (text, f"a {text}"))
    write_tables(box.out, [table], dataclasses.replace(table, title="cells"), {"text": text})
    from corpusfit_papers.cli.run import show_table

    show_table(table)


def _sheet(box: Box, text: str) -> None:
    """The page and the sheets of a report."""
    from corpusfit.reporting.part import Part, Sheet
    from corpusfit.reporting.writing import page

    sheet = Sheet(text, [text, "n"], [[text, 1], [f" {text}", 2]], [text])
    (box.out / "a.csv").write_text(sheet.as_csv(), "utf-8", "replace", newline="")
    manifest = {"repeat": ["corpusfit", text], "plan": {text: text}}
    part = Part("verdict", text, [text], manifest, {}, {"measures": sheet})
    (box.out / "a.html").write_text(page(text, [part]), "utf-8", "replace")


def _warning(box: Box, text: str) -> None:
    """What commands say, with a text in it."""
    from corpusfit.cli.bar import Bar
    from corpusfit.cli.show import as_json, say, table

    bar = Bar()
    for tell in (say, bar.warn, bar.note):
        tell(f"The file {text} was read.")
    table(text, ["name", text], [[text, "1"], ["b", text]], words=[text])
    as_json({text: text})
    bar.begin(text, 1.0)
    bar.end()


def _lock(box: Box, text: str) -> None:
    """A folder in use by a command that calls itself something."""
    run = finished(box, "select")
    with (run / ".corpusfit/lock").open("a+", encoding="utf-8", errors="replace") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        f.truncate(0)
        f.write(text)
        f.flush()
        box.corpusfit("choose", run, "--fraction", "0.3", "--no-report")


def _model_files(box: Box, text: str) -> None:
    """Entries of a model's JSON files."""
    for n, (name, key) in enumerate(
        (
            *(("config.json", key) for key in ("model_type", "architectures", "vocab_size")),
            *(("tokenizer_config.json", key) for key in ("tokenizer_class", "mask_token")),
        )
    ):
        folder = box.given / f"model-{n}"
        shutil.copytree(box.model, folder)
        found = json.loads((folder / name).read_bytes())
        (folder / name).write_text(json.dumps({**found, key: text}), "utf-8")
        adapt(box, folder, box.out / str(n))


PLACES: dict[str, tuple[Callable[[Box, str], None], tuple[str, ...]]] = {
    "file name": (_file_name, ("terminal", "web", "typeset")),
    "text of a row": (_row_text, ("terminal", "web")),
    "name of a field": (_field_name, ("terminal", "web", "path")),
    "domain": (_domain, ("terminal", "sheet")),
    "domain of clusters": (_cluster_domain, ("terminal", "web")),
    "label": (_label, ("web", "sheet")),
    "model's name": (_model_name, ("typeset", "terminal", "path")),
    "names in a recipe": (_recipe, ("terminal", "typeset", "path")),
    "values of a recipe": (_recipe_values, ("path", "terminal")),
    "composition's source": (_composition, ("path", "terminal")),
    "composition's path": (_composition_path, ("path",)),
    "plan": (_plan, ("path", "terminal")),
    "command line": (_command_line, ("terminal", "path")),
    "manifest": (_manifest, ("terminal", "web", "typeset")),
    "tables": (_table, _ALL),
    "sheets": (_sheet, _ALL),
    "messages": (_warning, ("terminal", "web", "sheet")),
    "lock": (_lock, ("terminal",)),
    "model's files": (_model_files, ("terminal", "path")),
}
"""Places for a hostile text: what puts it there and runs commands, and the families it can hold."""
