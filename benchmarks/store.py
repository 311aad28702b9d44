"""Requests to a store of objects: `select` and `choose` with corpus, `out` and cache in one.

An S3 server on this machine (moto) counts the requests of the process that began a command and
those of its two workers. The corpus is many files of about 1 kB, each a shard of its own
(`read.shard_mb`), or 8 files of 4 MB.

Needs s3fs and moto[server]. Run: python benchmarks/store.py [FILES]
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import corpusfit

_COUNTS = "/-/counts"
_WORDS = [f"word{i}" for i in range(5_000)]


def serve(port: int) -> None:
    """Serve S3, and its counts of requests since the last answer."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    s3 = DomainDispatcherApplication(create_backend_app)
    counts, lock = Counter[str](), threading.Lock()

    def counting(environ: dict[str, Any], start: Any) -> Any:
        path, query = environ["PATH_INFO"], environ["QUERY_STRING"]
        with lock:
            if path == _COUNTS:
                answer = json.dumps(counts).encode()
                counts.clear()
                start("200 OK", [("Content-Length", str(len(answer)))])
                return [answer]
            kind = environ["REQUEST_METHOD"]
            if "uploads" in query or "uploadId" in query:
                kind = "MULTIPART"
            elif "list-type" in query:
                kind = "LIST"
            who = "driver" if "corpusfit-driver" in environ["HTTP_USER_AGENT"] else "workers"
            counts[" ".join((who, kind, _area(path, query)))] += 1
        return s3(environ, start)

    run_simple("127.0.0.1", port, counting, threaded=True)


def _area(path: str, query: str) -> str:
    """The folder of a key, or of a listing, without the bucket."""
    if "list-type" in query:
        return urllib.parse.parse_qs(query).get("prefix", [""])[0].strip("/")
    return path.strip("/").partition("/")[2].rpartition("/")[0]


@contextlib.contextmanager
def server() -> Iterator[str]:
    """A server on this machine; its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [sys.executable, __file__, "serve", str(port)]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def mark_driver() -> None:
    """Let this process, but not its workers, name itself in its requests."""
    from aiobotocore.session import AioSession

    make = AioSession.create_client

    def marked(self: Any, *args: Any, config: Any = None, **more: Any) -> Any:
        from aiobotocore.config import AioConfig

        name = AioConfig(user_agent_extra="corpusfit-driver")
        return make(self, *args, config=config.merge(name) if config else name, **more)

    AioSession.create_client = marked  # type: ignore[method-assign]


def upload(fs: Any, files: int, texts: int, folder: str) -> None:
    """Write so many files of texts, and a target."""
    chosen = random.Random(0)

    def lines(n: int) -> bytes:
        words = (" ".join(chosen.choices(_WORDS, k=40)) for _ in range(n))
        return b"".join(json.dumps({"text": text}).encode() + b"\n" for text in words)

    fs.pipe({f"{folder}/{i:06d}.jsonl": lines(texts) for i in range(files)})


def main(files: int = 1_000) -> None:
    """Count the requests of all commands."""
    import s3fs

    mark_driver()
    with server() as url:
        os.environ |= {
            "AWS_ENDPOINT_URL": url,
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        fs = s3fs.S3FileSystem()
        fs.mkdir("bucket")
        upload(fs, 1, 50, "bucket/target")
        upload(fs, files, 4, "bucket/small")
        upload(fs, 8, 14_000, "bucket/large")

        for corpus, shards, settings in (
            ("small", files, ["read.shard_mb=0.0015"]),
            ("large", 8, []),
        ):
            for method in ("random", "moore_lewis"):
                out = f"s3://bucket/{corpus}-{method}"
                machine = corpusfit.Machine(workers=2, cache="s3://bucket/cache")
                select = partial(
                    corpusfit.select,
                    target="s3://bucket/target",
                    corpus=f"s3://bucket/{corpus}",
                    out=out,
                    method=method,
                    fraction=0.02,
                    settings=settings,
                    machine=machine,
                )
                count(url, f"select {method} {corpus}", shards, select)
                choose = partial(corpusfit.choose, out, fraction=0.01, machine=machine)
                count(url, f"choose {method} {corpus}", shards, choose)


def count(url: str, what: str, shards: int, command: Callable[[], object]) -> None:
    """Run a command and show its requests."""
    import s3fs

    s3fs.S3FileSystem.clear_instance_cache()  # as in a process of its own
    urllib.request.urlopen(url + _COUNTS).read()
    began = time.perf_counter()
    command()
    seconds = time.perf_counter() - began
    counts = json.loads(urllib.request.urlopen(url + _COUNTS).read())
    print(f"\n{what}: {shards:,} shards, {seconds:.1f} s")
    for who in ("driver", "workers"):
        own = {key: n for key, n in counts.items() if key.startswith(who)}
        kinds = Counter[str]()
        for key, n in own.items():
            kinds[key.split()[1]] += n
        total = sum(own.values())
        print(f"  {who}: {total:,}, {total / shards:.2f} a shard", dict(kinds))
        for key, n in sorted(own.items(), key=lambda each: -each[1]):
            if n > shards / 20:
                print(f"    {n:8,} {key}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["serve"]:
        serve(int(sys.argv[2]))
    else:
        main(*map(int, sys.argv[1:]))
