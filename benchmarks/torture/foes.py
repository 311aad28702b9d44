"""Give commands hostile names, texts, folders and files, and check what they may not do.

Promises: nothing of an input is executed; nothing is written but to `--out`, the cache and the
temporary folder, and nothing read that no input names; no text controls the terminal, a page, a
spreadsheet, Markdown or LaTeX; a command ends well, or with an error in words.
"""

from __future__ import annotations

import contextlib
import functools
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from foes_box import Box
from foes_places import PLACES, finish_runs
from foes_texts import TEXTS
from foes_tricks import TRICKS
from ledger import Outcome
from promises import broken_in, broken_on_terminal

if TYPE_CHECKING:
    from corpusfit.text.context import Machine

_OF_PLACES = [
    (nth, place, name)
    for place, (_, kinds) in PLACES.items()
    for nth, name in enumerate(name for kind in kinds for name in TEXTS[kind])
]
CASES = [
    *((trick, "") for trick in TRICKS),
    *((place, name) for _, place, name in sorted(_OF_PLACES)),
]
"""Every trick with files, then every place with each hostile text that it can hold, in turn."""
_EVERY = {name: text for kind in TEXTS.values() for name, text in kind.items()}
_LONGEST = 120  # seconds


def foe(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: one hostile input, given to the commands that read it, in a process of its own.

    The first seeds are `CASES` in their order; later ones put several texts into one place.

    Args:
        seed: number of the case.
        root: folder with `base/model`.
        only: name of the place or trick, instead of that of the seed.
    """
    chance = random.Random(f"foe {seed}")
    cases = [case for case in CASES if case[0] == only] if only else CASES
    place, name = cases[seed] if seed < len(cases) else chance.choice(cases)
    text = _EVERY.get(name, "")
    if seed >= len(cases) and place in PLACES:
        names = [n for kind in PLACES[place][1] for n in TEXTS[kind]]
        several = chance.sample(names, min(3, len(names)))
        name = "+".join(several)
        text = " ".join(map(_EVERY.get, several))
    outcome = Outcome(Counter(inputs=1), place)
    code, faults = _forked(place, text, root)
    outcome.counts[f"exit {code}"] += 1
    outcome.broken += [f"{name}: {fault}" for fault in dict.fromkeys(faults)]
    return outcome


def _forked(place: str, text: str, root: Path) -> tuple[int | str, list[str]]:
    """Run a case in a child of this process, with its own home; its last code, and its faults."""
    _warm(root)
    folder = Path(tempfile.mkdtemp(prefix="foe-", dir=root))
    end = folder / "faults"
    pid = os.fork()
    if not pid:
        with contextlib.suppress(BaseException):
            _child(place, text, folder / "box", root / "base/model", end)
        os._exit(0)
    until = time.monotonic() + _LONGEST
    while (ended := os.waitpid(pid, os.WNOHANG)) == (0, 0):
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)
    died = ["-", f"it dies or hangs: status {ended[1]}"]
    lines = end.read_text("utf-8").split("\0") if end.exists() else died
    faults = [fault for fault in lines[1:] if fault]
    said = folder / "box/said"
    if said.exists():
        faults += broken_on_terminal(said.read_bytes())
    if not faults:
        shutil.rmtree(folder)
    return lines[0], faults


def _child(place: str, text: str, folder: Path, model: Path, end: Path) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (16 << 30, resource.RLIM_INFINITY))
    box = Box(folder, model)
    said = os.open(folder / "said", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for handle in (1, 2):
        os.dup2(said, handle)
    os.environ |= {
        "HOME": str(box.home), "TMPDIR": str(box.tmp), "XDG_CACHE_HOME": str(box.cache),
        "CORPUSFIT_CACHE": str(box.cache), "HF_HOME": str(box.cache / "hf"), "NO_COLOR": "1",
        "HF_HUB_OFFLINE": "1", "OWN_TOKEN": "my-token", "COLUMNS": "100", "FOE_RAN": str(box.ran),
    }  # fmt: skip
    tempfile.tempdir = str(box.tmp)
    os.chdir(box.given)
    _alone(box.cache / "hf")
    try:
        if place in PLACES:
            PLACES[place][0](box, text)
        else:
            TRICKS[place](box)
        box.faults += broken_in(box.out)
    except BaseException as e:
        traceback.print_exc()
        box.faults.append(f"the case itself fails: {type(e).__name__}: {e!a}")
    sys.stdout.flush()
    if box.ran.exists():
        box.faults.append("code of the input ran")
    code = box.codes[-1] if box.codes else "none"
    end.write_text("\0".join([str(code), *box.faults]), "utf-8", "backslashreplace")


@functools.cache
def _warm(root: Path) -> None:
    """Once for a root: import what every child needs, make the finished runs that cases copy."""
    os.environ["OMP_NUM_THREADS"] = "1"  # a child has no threads of its parent
    import datasets  # noqa: F401
    import huggingface_hub  # noqa: F401
    import peft  # noqa: F401
    import torch
    import transformers  # noqa: F401

    torch.set_num_threads(1)
    shutil.rmtree(root / "foe-runs", ignore_errors=True)
    finish_runs(root / "foe-runs", root / "base/model", _inline()(cache=root / "foe-cache"))


def _alone(hub: Path) -> None:
    """Give this process no hub and no workers, whatever it has imported."""
    import datasets.config
    import huggingface_hub.constants

    import corpusfit.text.context

    huggingface_hub.constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = True
    huggingface_hub.constants.HF_HUB_CACHE = str(hub)
    corpusfit.text.context.Machine = _inline()


def _inline() -> type[Machine]:
    """A machine whose jobs run in the process of the case."""
    from corpusfit.core.engine import InlineEngine
    from corpusfit.text.context import Machine

    class Inline(Machine):
        def start(self) -> InlineEngine:
            super().start()
            return InlineEngine()

    return Inline
