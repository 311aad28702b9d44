"""What the package does where names of POSIX systems are missing, as on Windows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from journeys import prose

pytest.importorskip("accelerate", reason="the extra train is not installed")

# Python runs this at its start, in workers too. The names are missing for this package alone,
# because the libraries for this system need them.
WITHOUT_POSIX = r"""
import builtins, os, re, signal, sys, types

modules = ("fcntl", "grp", "posix", "pwd", "resource", "termios")
names = {
    os: "fork getuid geteuid getgid getpgid setsid killpg nice uname sysconf statvfs mkfifo pread "
        "pwrite lockf fchmod chown posix_fadvise getloadavg sched_getaffinity wait4 WNOHANG "
        "O_DIRECTORY O_CLOEXEC O_NOFOLLOW O_SYNC",
    signal: "pthread_sigmask pthread_kill sigwait pause alarm setitimer SIG_BLOCK SIG_SETMASK "
            "SIGKILL SIGSTOP SIGUSR1 SIGUSR2 SIGHUP SIGALRM SIGCHLD SIGPIPE",
}
lacking = {}
for module, missing in names.items():
    lacking[module.__name__] = types.ModuleType(module.__name__)
    left = {k: v for k, v in vars(module).items() if k not in missing.split()}
    vars(lacking[module.__name__]).update(left)

plain = builtins.__import__

def imported(name, globals=None, *args, **words):
    if globals and str(globals.get("__name__")).partition(".")[0] == "corpusfit":
        if name in modules:
            raise ImportError(name)
        if name in lacking:
            return lacking[name]
    return plain(name, globals, *args, **words)

builtins.__import__ = imported

# names of files that Windows refuses
refused = re.compile(r'[<>:"|?*\\]|[. ]$|^(con|prn|aux|nul|com\d|lpt\d)(\.|$)', re.I)

def check(event, args):
    made = event == "open" and isinstance(args[1], str) and not set(args[1]).isdisjoint("wax")
    if event in ("os.mkdir", "os.rename") or made:
        for path in map(str, args[: 1 + (event == "os.rename")]):
            if any(refused.search(part) for part in path.split("/") if part.strip(".")):
                raise ValueError(f"Windows refuses the name {path}")

sys.addaudithook(check)
"""

JOURNEY = """
import warnings
import corpusfit
from corpusfit.core.engine import contract
from corpusfit.text.context import peak
assert not hasattr(contract.os, "sched_getaffinity")
warnings.simplefilter("ignore", corpusfit.CorpusfitWarning)
machine = corpusfit.Machine(workers=2)
corpusfit.select(
    target="task.txt", corpus="corpus.txt", out="scored", method="dsir", machine=machine
)
chosen = corpusfit.choose("scored", fraction=0.2, out="chosen", machine=machine)
trained = corpusfit.adapt(
    data=chosen.path, model=MODEL, out="adapted", max_steps=2, batch=2, length=32,
    settings=["train.device=cpu", "train.precision=fp32"], machine=machine,
)
print(len(chosen), len(trained.history()), peak())
"""


@pytest.mark.slow
def test_a_journey_needs_nothing_that_windows_lacks(tmp_path, tiny_lm):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_POSIX)
    (tmp_path / "task.txt").write_text("\n\n".join(prose("task", 20)))
    corpus = [text for topic in ("task", "market") for text in prose(topic, 40, seed=1)]
    (tmp_path / "corpus.txt").write_text("\n\n".join(corpus))
    source = str(Path(__file__).parents[2] / "src")
    done = subprocess.run(
        [sys.executable, "-c", JOURNEY.replace("MODEL", repr(str(tiny_lm)))],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), source])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    chosen, measured, peak = map(float, done.stdout.split())
    assert chosen > 0
    assert measured > 0
    assert peak == 0  # this system does not say it
