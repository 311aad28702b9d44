"""A training by a program of others: its command line, its text, its process and its model."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit.core.artifacts import remove, writing
from corpusfit.core.engine import Progress
from corpusfit.core.engine.pace import format_duration
from corpusfit.core.errors import ModelError, OutputFolderError, TrainingError, bad_setting
from corpusfit.core.escaping import harmless, one_line
from corpusfit.core.languages import count_words
from corpusfit.core.manifest import OutFolder
from corpusfit.core.types import text_array
from corpusfit.decontamination.finder import ContaminationFinder, HeldoutIndex
from corpusfit.embed.folders import ModelSetting, transformer_folder

TRAIN_WITH = "`train_with`"
_EXAMPLE = "python train.py {model} {data} {out}"
_PLACES = ("model", "data", "out", "seed")
_PLACE = re.compile(r"\{(\w+)\}")
_NEEDED = ("data", "out")
_SHOWN = 40
"""Most characters of a command in the line of its progress."""
_AGAIN = "Finished trainings are kept: run the command again"
_TICK = 1.0
_GRACE = 10.0
"""Seconds that a program has to end in order, before it is killed."""
_TAIL_BYTES = 8192
_TAIL_LINES = 10
"""What is read of the end of a program's output, and what is shown of it."""
_TOKENIZERS = ("tokenizer*", "vocab*", "merges*", "*.model")
"""Files of a tokenizer, any of which is enough to read it."""
_ROWS = 1000
_NAMED = 5


@dataclass(frozen=True)
class Program:
    """A command line with places for the model, the data and the folder of the new model."""

    text: str  # as it was given
    words: tuple[str, ...]  # its arguments

    @classmethod
    def parsed(cls, text: str) -> Program:
        """Divide a command into arguments, as a shell does, and check its places."""
        try:
            words = tuple(shlex.split(text))
        except ValueError as e:
            raise _unfit(text, str(e)) from e
        places = _PLACE.findall(text)
        for name in places:
            if name not in _PLACES:
                known = ", ".join(f"{{{place}}}" for place in _PLACES)
                raise _unfit(text, f"{{{name}}} is none of {known}")
        missing = [f"{{{name}}}" for name in _NEEDED if name not in places]
        if missing:
            raise _unfit(text, f"{' and '.join(missing)} is missing")
        if shutil.which(words[0]) is None:
            found = "Name it by its path, or install it; a script also has to be executable."
            raise bad_setting(TRAIN_WITH, "a command whose program is found", words[0], found)
        return cls(text, words)

    @property
    def shown(self) -> str:
        """The command on one line, shortened."""
        line = one_line(self.text)
        return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}…"

    def arguments(self, **places: str | Path | int) -> list[str]:
        """The arguments with a value at each place."""
        return [_PLACE.sub(lambda place: str(places[place[1]]), word) for word in self.words]


def _unfit(text: str, why: str) -> Exception:
    return bad_setting(
        TRAIN_WITH,
        f"a command with {{data}} and {{out}}, such as '{_EXAMPLE}'",
        text,
        f"In it {why}.",
    )


def run(
    program: Program,
    arguments: Sequence[str],
    out: Path,
    log: Path,
    progress: Progress,
    *,
    expected: float,
    limit: float,
) -> None:
    """Run a program to its end, in an empty folder for its model, its output in a file.

    Args:
        program: what the arguments were made of.
        arguments: the arguments.
        out: folder that it gets anew.
        log: file of its output.
        progress: shows the time.
        expected: seconds that it will take; 0 if not known.
        limit: seconds after which it is stopped.

    Raises:
        TrainingError: it cannot start, fails, or takes too long.
    """
    if limit <= 0:
        raise TrainingError(f"`time` is over. {_AGAIN} with more `time`, or without it.")
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        _require_free(output, log)
        output.truncate(0)
        remove(out)
        out.mkdir(parents=True)
        try:
            # a session of its own, so that all its processes can be stopped together
            process = subprocess.Popen(  # noqa: S603 (what the user typed, without a shell)
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except (OSError, ValueError) as e:
            raise TrainingError(f"{TRAIN_WITH}: {arguments[0]} cannot be started: {e}.") from e
        began = seen = time.monotonic()
        with progress.showing(f"train by {program.shown}", expected):
            try:
                while (code := _ended(process)) is None:
                    now = time.monotonic()
                    progress.advance(now - seen)
                    seen = now
                    if now - began > limit:
                        raise TrainingError(
                            f"`time` is over, and the program of {TRAIN_WITH} has not ended: it "
                            f"was stopped after {format_duration(now - began)}. {_AGAIN} with more "
                            f"`time`, or without it.{_told(log)}"
                        )
            finally:
                _stop(process)
    if code:
        how = f"exit code {code}"
        if code < 0:
            how = f"signal {signal.Signals(-code).name}"
        raise TrainingError(
            f"The program of {TRAIN_WITH} failed ({how}). {_AGAIN} when the cause is mended."
            f"{_told(log)}"
        )


def _ended(process: subprocess.Popen[bytes]) -> int | None:
    """The exit code of a program, if it ends within a moment."""
    try:
        return process.wait(_TICK)
    except subprocess.TimeoutExpired:
        return None


def _require_free(output: IO[bytes], log: Path) -> None:
    """Refuse a file that a program of an earlier command, which was killed, still writes to.

    All processes that inherited the output hold the lock on it, and the system frees it when the
    last one ends; Windows has none.
    """
    try:
        import fcntl

        fcntl.flock(output, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as e:
        raise OutputFolderError(
            f"A program that an earlier command started still runs, and writes to {log}. Stop it, "
            "or wait until it ends; then run the command again."
        ) from e
    except (ImportError, OSError):  # a drive without locks
        return


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it has started: all of its process group that still runs."""
    if not hasattr(os, "killpg"):  # Windows
        process.kill()
        process.wait()
        return
    try:
        os.killpg(process.pid, signal.SIGTERM)
        deadline = time.monotonic() + _GRACE
        while time.monotonic() < deadline:
            process.poll()
            os.killpg(process.pid, 0)
            time.sleep(0.05)
    except (ProcessLookupError, PermissionError):  # none is left
        return
    finally:
        # also after a second Ctrl-C
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _told(log: Path) -> str:
    """Where the output is, and its last lines."""
    with log.open("rb") as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
        lines = file.read().decode("utf-8", "replace").splitlines()
    last = [harmless(line.rstrip()) for line in lines if line.strip()][-_TAIL_LINES:]
    ends = ", ends:\n" + "\n".join(f"  {line}" for line in last) if last else ", is empty."
    return f" Its output, {log}{ends}"


def require_model(out: Path, base: Path, log: Path) -> None:
    """Refuse what is not a whole model in safetensors; a missing tokenizer is the base's."""
    OutFolder(out).refuse_links()
    names = sorted(path.name for path in out.iterdir())
    whole = "config.json" in names and any(name.endswith(".safetensors") for name in names)
    if not whole:
        contents = ", ".join(one_line(name) for name in names[:_NAMED]) or "nothing"
        if "adapter_config.json" in names:
            contents += ", an adapter alone: merge it with its base at the end of the program"
        raise ModelError(
            f"The program of {TRAIN_WITH} ended without an error, but {out} holds no model: there "
            "must be a config.json and the weights as *.safetensors, as save_pretrained writes "
            f"them, and there is {contents}.{_told(log)}"
        )
    setting = ModelSetting(TRAIN_WITH, "a program that writes a model", "", "train")
    transformer_folder(out, setting)
    if not any(path for pattern in _TOKENIZERS for path in out.glob(pattern)):
        from corpusfit.embed.transformer import load_tokenizer, save_tokenizer

        save_tokenizer(load_tokenizer(base, TRAIN_WITH), out)


@dataclass(frozen=True)
class Text:
    """The rows of a selection that a program trains on, without those with a held-out text."""

    rows: Callable[[], Iterator[Mapping[str, Any]]]
    words: NDArray[np.int64]  # of each row; 0 for one that is left out

    @classmethod
    def of(cls, rows: Callable[[], Iterator[Mapping[str, Any]]], heldout: Sequence[str]) -> Text:
        """Count the words of rows, and leave out those that contain a held-out text."""
        finder = ContaminationFinder(HeldoutIndex.of_texts(heldout))
        counted = []
        reading = rows()
        while some := list(islice(reading, _ROWS)):
            texts = [str(row["text"]) for row in some]
            words = np.array([count_words(text) for text in texts], np.int64)
            words[finder.find(text_array(texts)).text] = 0
            counted.append(words)
        return cls(rows, np.concatenate([np.empty(0, np.int64), *counted]))

    def write(self, path: Path, fields: Sequence[str], most: int, seed: int) -> int:
        """Write rows with at most so many words, sampled with the seed; returns the words.

        Args:
            path: a file of JSON lines.
            fields: fields of the corpus to write, as for conversations; without any, the text.
            most: most words.
            seed: seed of the sample, where not all fit.
        """
        room = most
        words = self.words.tolist()
        chosen = [False] * len(words)
        for at in np.random.default_rng(seed).permutation(len(words)).tolist():
            if 0 < words[at] <= room:
                chosen[at] = True
                room -= words[at]
        with writing(path) as file:
            for row, wanted in zip(self.rows(), chosen, strict=True):
                if wanted:
                    # a selection stores a field by another name if it has that name itself
                    own = {name: row.get(f"row_{name}", row.get(name)) for name in fields}
                    file.write(orjson.dumps(own or {"text": row["text"]}) + b"\n")
        return most - room
