"""Run selections on a store of objects that fails, then on a sound one, and compare their files.

Needs s3fs and moto[server].
"""

from __future__ import annotations

import contextlib
import http.client
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

from commands import COMMANDS, digests
from ledger import Outcome
from running import broken, drawn, end, start, whole

WORLDS = 3
"""Inputs that are drawn; each command's whole run on one of them is made once."""
FAULTS = 3
KINDS = {
    "server errors": 0.1,
    "closed connections": 0.1,
    "no answers": 0.03,
    "half objects": 0.2,
    "short objects": 0.2,
    "slow": 0.1,
    "late listings": 1.0,
    "gone": 1.0,
}
"""Kinds of faults, with the share of requests that each hits from its first on."""
_COMMANDS = sorted(n for n, command in COMMANDS.items() if command.words.startswith("select"))
_SLOW, _NEVER = 3.0, 300.0  # seconds
_NOT_PASSED = ("content-length", "transfer-encoding", "connection", "x-amz-checksum")
"""Headers that the proxy leaves out, so that no checksum tells of half an object."""


def store(seed: int, root: Path, only: str | None) -> Outcome:
    """A case: one selection whose corpus, or whose run, is in a store, with `FAULTS` faults.

    Args:
        seed: draws command, world, workers and faults.
        root: folder with `base/model`, where whole runs are kept.
        only: name of the command or of a kind of fault, instead of a drawn one.
    """
    if not (find_spec("s3fs") and find_spec("moto")):
        return Outcome(Counter({"not installed": 1}), "s3fs, moto")
    chance = random.Random(f"store {seed}")
    kinds = [only] if only in KINDS else list(KINDS)
    name = _COMMANDS[seed % len(_COMMANDS)] if only is None or only in KINDS else only
    name, world = drawn(seed, chance, root, name, WORLDS)
    kept, _ = whole(world, name)
    outcome, here = Outcome(Counter(), name), root / "stored"
    for folder in (here, root / "stored-cache"):
        shutil.rmtree(folder, ignore_errors=True)
    with _moto() as sound, _proxy(sound, chance) as (server, variables):
        bucket = _Bucket(sound)
        bucket.put(world)
        run = partial(
            start,
            COMMANDS[name],
            "s3://bucket/world",
            also={**variables, "CORPUSFIT_CACHE": str(root / "stored-cache")},
        )
        out: Path | str = here / "out" if chance.random() < 0.5 else "s3://bucket/out"
        for number in range(FAULTS):
            server.kind, server.at = chance.choice(kinds), chance.randrange(12)
            server.asked = server.hit = 0
            process = run(out, chance.choice((1, 2)))
            code, said, left = end(process)
            outcome.counts[f"fault: {server.kind}" if server.hit else "not reached"] += 1
            about = f"{server.kind} from request {server.at} on, to {out}"
            outcome.broken += [f"{about}: {words}" for words in broken(code, said, left)]
            if code and "s3" not in said and "bucket" not in said:
                outcome.broken.append(f"{about}: the store has no name in {said[-300:]}")
            if code == 0:
                if bucket.found(out, here, name) != kept:
                    outcome.broken.append(f"{about}: survived with other files")
                out = f"s3://bucket/out{number}" if isinstance(out, str) else here / f"out{number}"
        server.kind = ""
        code, said, _ = end(run(out, 2))
        outcome.counts["resumed"] += 1
        if code != 0:
            outcome.broken.append(f"it does not go on: code {code}, {said[-600:]}")
        elif bucket.found(out, here, name) != kept:
            outcome.broken.append("its files are not those of a whole run")
    return outcome


_Answer = tuple[int, list[tuple[str, str]], bytes, int]
"""Status, headers, body and its stated size."""


class _Bucket:
    """The store, without the proxy."""

    def __init__(self, url: str) -> None:
        import s3fs

        self._fs = s3fs.S3FileSystem(
            endpoint_url=url, key="test", secret="test", use_listings_cache=False
        )
        self._fs.mkdir("bucket")

    def put(self, world: Path) -> None:
        for file in [world / "target.jsonl", *sorted((world / "corpus").iterdir())]:
            self._fs.put_file(str(file), f"bucket/world/{file.relative_to(world)}")

    def found(self, out: Path | str, here: Path, name: str) -> dict[str, str]:
        """The files of a run that are kept."""
        if isinstance(out, Path):
            return digests(out, COMMANDS[name].kept)
        shutil.rmtree(here, ignore_errors=True)
        self._fs.get(out.removeprefix("s3://"), str(here), recursive=True)
        return digests(here, COMMANDS[name].kept)


class _Server(ThreadingHTTPServer):
    """A proxy that does to some requests what its kind of fault says."""

    daemon_threads = True
    kind = ""
    at = asked = hit = 0
    sound = ("", 0)
    chance = random.Random(0)
    listings: dict[str, _Answer]

    def fault(self) -> str:
        """The fault of the next request, or none."""
        self.asked += 1
        hit = self.kind and self.asked > self.at and self.chance.random() < KINDS[self.kind]
        return self.kind if hit else ""

    def handle_error(self, *_: object) -> None:
        """A client that gave up is no error."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        """Answer any request, or do what the fault says."""
        data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        fault = self._fault()
        self.server.hit += bool(fault)
        if fault in ("closed connections", "no answers"):
            time.sleep(_NEVER if fault == "no answers" else 0)
            with contextlib.suppress(OSError):  # the client may be gone
                self.connection.shutdown(socket.SHUT_RDWR)
        elif fault in ("server errors", "gone"):
            self._answer(self.server.chance.choice((500, 503)), [], b"", 0)
        elif fault == "late listings":
            self._answer(*self.server.listings[self.path])
        else:
            time.sleep(_SLOW if fault == "slow" else 0)
            status, headers, body, size = self._passed(data)
            if fault in ("half objects", "short objects"):
                body = body[: size // 2]
            self._answer(status, headers, body, len(body) if fault == "short objects" else size)

    def _fault(self) -> str:
        """The fault of this request, if its kind fits."""
        fault, listing = self.server.fault(), "list-type" in self.path
        if fault in ("half objects", "short objects") and (self.command != "GET" or listing):
            return ""
        return "" if fault == "late listings" and self.path not in self.server.listings else fault

    def _answer(self, status: int, headers: list[tuple[str, str]], body: bytes, size: int) -> None:
        self.send_response(status)
        for name, value in headers:
            if not name.lower().startswith(_NOT_PASSED):
                self.send_header(name, value)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = len(body) < size

    def _passed(self, data: bytes) -> _Answer:
        """What the sound store answers."""
        connection = http.client.HTTPConnection(*self.server.sound)
        connection.request(self.command, self.path, data, dict(self.headers))
        answer = connection.getresponse()
        body = answer.read()
        size = int(answer.getheader("Content-Length") or len(body))  # of HEAD, without a body
        found = answer.status, answer.getheaders(), body, size
        if "list-type" in self.path:
            self.server.listings.setdefault(self.path, found)
        connection.close()
        return found

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET  # noqa: N815


@contextlib.contextmanager
def _moto() -> Iterator[str]:
    """A store on this machine; its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while server.poll() is None:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}"):
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


@contextlib.contextmanager
def _proxy(sound: str, chance: random.Random) -> Iterator[tuple[_Server, dict[str, str]]]:
    """The server that fails, and the environment of its clients."""
    server = _Server(("127.0.0.1", 0), _Handler)
    host, _, port = sound.removeprefix("http://").partition(":")
    server.sound, server.chance, server.listings = (host, int(port)), chance, {}
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield (
        server,
        {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        },
    )
    server.shutdown()
    server.server_close()
