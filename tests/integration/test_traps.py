"""A folder of data sets traps for every command; none goes off.

The current folder holds modules with the names of Python's library and of what corpusfit imports,
settings of tools, a link out of the folder, and a corpus with a row of marks; another part of the
corpus has a password and a signature in its URL. Nothing of the folder runs, nothing but input is
opened, nothing but the output folder and the cache changes, and no output tells a secret.
"""

import base64
import ctypes
import gzip
import http.server
import importlib.metadata
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pyarrow.parquet as pq
import pytest
import zstandard
from journeys import prose, write_rows

from corpusfit.cli.app import JOURNEY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="inotify says what is opened"),
]

PASSWORD, SIGNATURE = "s3cret-pass/word", "c2lnbmF0dXJl+of/the=owner"
SECRETS = [PASSWORD, "s3cret-pass%2Fword", SIGNATURE, "c2lnbmF0dXJl%2Bof%2Fthe%3Downer"]
HIDDEN = "the owner alone reads this sentence"
# what Python itself imports for `-m` before it finds corpusfit; SECURITY.md names it
BEFORE_US = {"collections", "contextlib", "functools", "importlib", "keyword", "operator"}
BEFORE_US |= {"reprlib", "types", "warnings"}

SHORT = "--set train.length=32 --set train.batch=4"
LINES = {
    "select": "--target target.jsonl --corpus corpus --corpus {url} --method dsir --fraction 0.2 "
    "--dedup near --out {out}/select",
    "choose": "{out}/scored --fraction 0.1 --out {out}/choose",
    "rank": "--target target.jsonl --corpus corpus --method dsir --method random",
    "explain": "{out}/select --text 'the kinase binds'",
    "clusters": "--corpus corpus --k 2 --embedder static --out {out}/clusters",
    "split": "--data labeled.jsonl --dev 20 --test 20 --near --out {out}/split",
    "contamination": "--task split --data {out}/select",
    "adapt": f"--model model --data {{out}}/select --max-steps 2 {SHORT} --out {{out}}/adapt",
    "evaluate": "--model model --task split --seeds 1 --epochs 1 --length 32 --out {out}/evaluate",
    "report": "{out}/select --out {out}/page.html --figures {out}/figures",
    "methods": "dsir",
    "cache": "list",
    "fit": "--task split --corpus corpus --model model --time 10min --dry-run --out {out}/fit",
    "demo": "--out {out}/demo",
}
WITHOUT_WORKERS = {"explain", "report", "methods", "cache"}
INPUT = re.compile(r".*\.(jsonl|toml|de|en)")
SOME = {"select", "choose", "adapt", "methods"}
"""Commands that run in CI: of those that read with a secret, read a run, open a model, or have no
work, one each. `make long` runs all."""


@pytest.fixture(scope="module")
def store():
    """A server that gives one corpus to whoever knows the password and the signature."""
    rows = [json.dumps({"text": text}) for text in prose("market", 100, seed=5)]
    content = gzip.compress("\n".join(rows).encode())
    wanted = "Basic " + base64.b64encode(f"owner:{PASSWORD}".encode()).decode()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            signed = parse_qs(urlsplit(self.path).query).get("X-Amz-Signature") == [SIGNATURE]
            known = self.headers["Authorization"] == wanted and signed
            data = content if known else b""
            self.send_response(200 if known else 403)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data)

        do_HEAD = do_GET

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"127.0.0.1:{server.server_port}/a.jsonl.gz?X-Amz-Signature={SECRETS[3]}&part=1"
    yield f"http://owner:{SECRETS[1]}@{address}"
    server.shutdown()
    server.server_close()


def set_traps(folder, ran):
    """Modules that leave a mark when they are imported, and files that tools take orders from."""
    needed = set(sys.stdlib_module_names) | {"sitecustomize", "usercustomize", "conftest"}
    for name, packages in importlib.metadata.packages_distributions().items():
        needed |= {name} if name.isidentifier() and packages else set()
    order = f"import os\nos.close(os.open({str(ran)!r}, os.O_CREAT | os.O_WRONLY))\n"
    for name in needed - {"os", "posix", "sys", "corpusfit"} - BEFORE_US:
        (folder / f"{name}.py").write_text(f"{order}raise SystemExit('trap {name}')\n")
    for name in ("git", "cc", "gcc", "python3"):
        (folder / name).write_text(f"#!/bin/sh\necho > {ran}\n")
        (folder / name).chmod(0o755)


@pytest.fixture(scope="module")
def world():
    """Folders: `data` is the current one, and only `out`, `cache` and `tmp` may change."""
    root = Path(tempfile.mkdtemp(prefix="traps-"))  # a short path, for the sockets of Ray
    data, outside = root / "data", root / "outside"
    for name in ("data", "outside", "home", "out", "cache", "tmp"):
        (root / name).mkdir()
    (outside / "victim.html").write_text("mine", "utf-8")
    write_rows(outside / "hidden.jsonl", [f"{HIDDEN} {i}" for i in range(30)])
    for topic in ("task", "market"):
        write_rows(data / "corpus" / f"{topic}.jsonl", prose(topic, 100, seed=1))
    marks = "\u0f72\u0f71" * 500_000  # by insertion sort over ten minutes
    write_rows(data / "corpus/marks.jsonl", [f"the kinase {marks} binds"])
    write_rows(data / "target.jsonl", prose("task", 40))
    labeled = [
        {"text": t, "label": topic} for topic in ("task", "market") for t in prose(topic, 60)
    ]
    write_rows(data / "labeled.jsonl", labeled)
    for nth, name in enumerate(("train", "dev", "test")):
        write_rows(data / "split" / f"{name}.jsonl", labeled[nth::3])
    for side in ("de", "en"):
        (data / f"pairs.{side}").write_text("\n".join(prose("task", 30)), "utf-8")
    done = run(
        root, "adapt", f"--init tiny --data target.jsonl --max-steps 1 {SHORT} --out {{out}}/m"
    )
    assert done.returncode == 0, done.stdout
    (root / "out/m").rename(data / "model")
    set_traps(data, root / "ran")
    set_traps(data / "corpus", root / "ran")
    (data / "corpus/hidden.jsonl").symlink_to(outside / "hidden.jsonl")
    yield root
    shutil.rmtree(root)


def run(root, name, line, url="", workers=1):
    """Run a command in the folder of data, with folders of its own."""
    line = line.format(out=root / "out", url=f"'{url}'")
    more = "" if name in WITHOUT_WORKERS else f" --workers {workers}"
    return shell(root, f"{sys.executable} -m corpusfit {name} {line}{more}")


def shell(root, line):
    """Run a line of a shell in the folder of data."""
    return subprocess.run(
        line,
        shell=True,
        check=False,
        timeout=600,  # a stall ends the test
        cwd=root / "data",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={
            **{name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ},
            "HOME": str(root / "home"),
            "TMPDIR": str(root / "tmp"),
            "CORPUSFIT_CACHE": str(root / "cache"),
            "HF_HUB_OFFLINE": "1",
            "RAY_ADDRESS": "local",  # not the cluster of a test beside this one, which ends
        },
    )


class Opened:
    """The names of files that any process opens in a folder, by inotify."""

    def __init__(self, *folders):
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.handle = self.libc.inotify_init1(os.O_NONBLOCK)
        for folder in folders:
            assert self.libc.inotify_add_watch(self.handle, os.fsencode(folder), 0x20) > 0

    def names(self):
        found, data = set(), b""
        try:
            while chunk := os.read(self.handle, 1 << 20):
                data += chunk
        except BlockingIOError:
            pass
        at = 0
        while at < len(data):
            _, mask, _, length = struct.unpack_from("iIII", data, at)
            if not mask & 0x40000000:  # not a folder
                found.add(data[at + 16 : at + 16 + length].rstrip(b"\0").decode())
            at += 16 + length
        return found


def state(root):
    """Everything that may not change: names, links, sizes, times."""
    kept = [path for name in ("data", "outside", "home") for path in root.joinpath(name).rglob("*")]
    return {
        str(path): (path.readlink() if path.is_symlink() else path.lstat().st_mtime_ns)
        for path in kept
    }


def told(path):
    """The content of a file as a reader of it sees it."""
    data = path.read_bytes()
    if path.suffix == ".zst":
        data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
    elif path.suffix == ".parquet":
        data += json.dumps(pq.read_table(path).to_pylist(), default=str).encode()
    return data


def secrets_in(data):
    """What may not be told, in a text as it is or as JSON writes it."""
    spoken = [*SECRETS, HIDDEN]
    return [s for s in {*spoken, *(json.dumps(s)[1:-1] for s in spoken)} if s.encode() in data]


def test_every_command_is_tried():
    assert LINES.keys() == {name for names in JOURNEY.values() for name in names}


@pytest.mark.parametrize(
    ("workers", "names"),
    [(2, SOME), *(pytest.param(n, {*LINES}, marks=pytest.mark.long) for n in (1, 2))],
)
def test_no_trap_goes_off(world, store, workers, names):
    shutil.rmtree(world / "out")
    (world / "out").mkdir()
    # links by the names that temporary files had until a process of any number could plant them
    for number in range(os.getpid(), os.getpid() + 20_000):
        (world / f"out/page.html.{number}.part").symlink_to(world / "outside/victim.html")
    before = state(world)
    # a note on files of a corpus that are passed over looks at the first, so not in that folder
    opened = Opened(world / "data", world / "outside")
    faults = {}
    # what `choose` reads again, without the corpus that needs a password
    scored = "--target target.jsonl --corpus corpus --method moore_lewis --out {out}/scored"
    run(world, "select", scored, store, workers)
    for name, line in LINES.items():
        if name not in names:
            continue
        done = run(world, name, line, store, workers)
        found = secrets_in(done.stdout) + [done.stdout.decode()] * (done.returncode != 0)
        found += [f"{p.relative_to(world)} is left" for p in (world / "tmp").iterdir()]
        found += ["a trap was executed"] if (world / "ran").exists() else []
        found += [f"{n} is opened" for n in opened.names() if n and not INPUT.fullmatch(n)]
        if found:
            faults[name] = found
    faults["changed"] = sorted(before.items() ^ state(world).items())
    for path in [*(world / "out").rglob("*"), *(world / "cache").rglob("*")]:
        if path.is_file() and not path.is_symlink() and (found := secrets_in(told(path))):
            faults[str(path.relative_to(world))] = found
    assert {what: found for what, found in faults.items() if found} == {}


BIN = Path(sys.executable).parent
FIRST = "--target target.jsonl --corpus corpus --method dsir --fraction 0.2 --workers 2"


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f"{BIN}/corpusfit select {FIRST} --out {{out}}/script", id="script"),
        pytest.param(
            f"{BIN}/corpusfit select {FIRST} --engine ray --out {{out}}/ray",
            id="ray",
            marks=pytest.mark.long,
        ),
        pytest.param(
            f"{BIN}/accelerate launch --cpu --num_processes 2 -m corpusfit adapt --model model "
            f"--data target.jsonl --max-steps 2 {SHORT} --out {{out}}/launched",
            id="accelerate",
            marks=pytest.mark.long,
        ),
    ],
)
def test_no_way_in_imports_a_trap(world, line):
    opened = Opened(world / "data")
    done = shell(world, line.format(out=world / "out"))
    assert done.returncode == 0, done.stdout.decode()
    assert not (world / "ran").exists()
    assert [name for name in opened.names() if name.endswith(".py")] == []
