"""Install the lowest versions that pyproject.toml allows, or the newest, and use them.

Run: python .ci/versions.py [--newest] [--pin NAME==VERSION …]; part of `make versions`, before a
release. It makes a new environment in build/, installs the package with its extras there, and
exits with 1 if they do not resolve, are yanked, or a command fails. The interpreter is the one that
runs it: the lowest versions are for the oldest Python that is supported.
"""

from __future__ import annotations

import argparse
import json
import random
import shlex
import shutil
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
EXTRAS = ("models", "train", "hub", "report", "html", "languages")
USED = "accelerate,datasets,langcodes,lxml,peft,py3langid,sentencex"
TOPICS = {"medicine": "cell protein gene enzyme receptor dose", "law": "court judge appeal clause"}
SHORT = "--set train.length=32 --set train.batch=4 --max-steps 2"
CORE = (
    "-m corpusfit select --target task.jsonl --corpus corpus.jsonl --method dsir --fraction 0.2 "
    "--out run",
    "-m corpusfit select --target task.jsonl --corpus corpus.jsonl --method domain_classifier "
    "--embedder static --fraction 0.2 --out encoded",
    "-m corpusfit choose run --tokens 1000 --out chosen",
)
MORE = (
    f"-c 'import {USED}'",
    "-m corpusfit report run --out page.html --figures figures",
    f"-m corpusfit adapt --init tiny --set model.vocabulary=300 --data corpus.jsonl {SHORT} "
    "--out base",
    f"-m corpusfit adapt --model base --adapter lora --data run/selected {SHORT} --out adapted",
    "-m corpusfit evaluate --model base --task split --seeds 2 --epochs 1 --length 32 "
    "--out evaluated",
)


def main() -> int:
    """Install and use one set of versions, the core and then the extras; the exit status."""
    words = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    words.add_argument("--newest", action="store_true", help="the newest versions, not the lowest")
    words.add_argument("--pin", action="append", default=[], help="this version, as torch==2.13.0")
    given = words.parse_args()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    for extras, commands in ((), CORE), (EXTRAS, CORE + MORE):
        pins = {} if given.newest else lowest(project, extras)
        pins |= {Requirement(pin).name: pin for pin in given.pin}
        if not works(pins, extras, commands):
            return 1
    return 0


def works(pins: dict[str, str], extras: tuple[str, ...], commands: tuple[str, ...]) -> bool:
    """Whether pinned versions install in a new environment, and the commands end well there."""
    folder = ROOT / "build/versions"
    shutil.rmtree(folder, ignore_errors=True)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv/bin/python"
    constraints = folder / "constraints.txt"
    constraints.write_text("".join(f"{pin}\n" for pin in pins.values()), "utf-8")
    what = f"{ROOT}[{','.join(extras)}]" if extras else str(ROOT)
    install = ["install", "--progress-bar", "off", "-c", str(constraints), "--editable", what]
    done = subprocess.run(
        [python, "-m", "pip", *install], capture_output=True, text=True, check=False
    )
    yanked = [line for line in done.stderr.splitlines() if "yanked" in line]
    if done.returncode or yanked:
        print(*done.stdout.splitlines()[-20:], *(yanked or [done.stderr]), sep="\n")
        return False
    make_inputs(folder)
    for command in ("-m pip check", *commands):
        print("$ python", command, flush=True)
        if subprocess.run([python, *shlex.split(command)], cwd=folder, check=False).returncode:
            return False
    shutil.rmtree(folder)
    return True


def lowest(project: dict, extras: tuple[str, ...]) -> dict[str, str]:
    """The lowest version of every dependency of the core and extras, as NAME==VERSION by name."""
    found: dict[str, Version] = {}
    texts = list(project["dependencies"])
    texts += [text for extra in extras for text in project["optional-dependencies"][extra]]
    for requirement in map(Requirement, texts):
        if requirement.marker and not requirement.marker.evaluate():
            continue
        for bound in requirement.specifier:
            if bound.operator == ">=":
                version = Version(bound.version)
                found[requirement.name] = max(version, found.get(requirement.name, version))
    return {name: f"{name}=={version}" for name, version in found.items()}


def make_inputs(folder: Path) -> None:
    """Write a task, a corpus with some of it, and labeled texts."""
    chance = random.Random(0)
    rows = {
        topic: [
            {"text": " ".join(chance.choices(words.split(), k=30)), "label": topic}
            for _ in range(300)
        ]
        for topic, words in TOPICS.items()
    }
    labeled = [row for pair in zip(*rows.values(), strict=True) for row in pair]
    files = {"task": rows["medicine"][:50], "corpus": labeled[100:]}
    for nth, part in enumerate(("train", "dev", "test")):
        files[f"split/{part}"] = labeled[nth:100:3]
    (folder / "split").mkdir()
    for name, texts in files.items():
        lines = "".join(f"{json.dumps(row)}\n" for row in texts)
        (folder / f"{name}.jsonl").write_text(lines, "utf-8")


if __name__ == "__main__":
    sys.exit(main())
