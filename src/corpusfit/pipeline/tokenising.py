"""Texts made into token ids, once for each tokenizer.

What: token ids of a corpus, of a selection or of a few texts, kept in the cache by content.
Why: the next model with the same tokenizer, or the same one with other settings, trains at once.
Trade-off: 2 bytes a token on this machine's disk, until the cache is deleted; and the texts'
fingerprints are taken again after reading, so that nothing stale is kept under them.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from corpusfit import corpus
from corpusfit.adapt.tokens import Tokens, finished, read_tally
from corpusfit.artifacts import remove, write_bytes
from corpusfit.embed.contract import file_digest
from corpusfit.engine import Engine
from corpusfit.errors import ChangedInputError
from corpusfit.jobs.reading import Reasons
from corpusfit.jobs.tokenise import TokeniseSelected, TokeniseShard
from corpusfit.manifest import digest, source_identity
from corpusfit.pipeline.run import Machine
from corpusfit.plan import ReadPlan
from corpusfit.types import Source


@dataclass(frozen=True)
class Tokenising:
    """Makes token ids of texts; what was made for the same texts and tokenizer is found again.

    Attributes:
        read: how rows become texts.
        tokenizer: its file.
        place: the folder for all that is made, by content.
        end: the id that closes a text, if any.
    """

    read: ReadPlan
    tokenizer: Path
    place: Path
    end: int | None
    engine: Engine
    machine: Machine

    def corpus(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a corpus."""
        out = self._out("corpus", sources)
        names = tuple(s.name for s in sources)
        job = TokeniseShard(self.read, names, self.tokenizer, out, self.end)
        done = finished(out)
        pieces = (s for s in corpus.shards(sources, self.read) if s.index not in done)
        return self._made(kind, sources, out, job, pieces)

    def selected(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a selection, with its scores."""
        out = self._out("selected", sources)
        job = TokeniseSelected(self.tokenizer, out, self.end)
        done = finished(out)
        pieces = [(i, Path(s.url)) for i, s in enumerate(sources) if i not in done]
        return self._made(kind, sources, out, job, pieces)

    def texts(self, kind: str, texts: list[str], spool: Path) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of texts in memory, by way of a file."""
        write_bytes(spool, b"".join(orjson.dumps({"text": t}) + b"\n" for t in texts))
        sources = corpus.find([str(spool)], ReadPlan(), spool=spool.parent, role=kind)
        return dataclasses.replace(self, read=ReadPlan()).corpus(kind, sources)

    def _out(self, how: str, sources: list[Source]) -> Path:
        """The folder of what is made of some sources."""
        identity = {
            "how": f"{how} 2",  # 2: with keys
            "sources": source_identity(sources),
            "read": dataclasses.asdict(self.read),
            "tokenizer": file_digest(self.tokenizer),
            "end": self.end,
        }
        return self.place / digest(identity)

    def _made(
        self, kind: str, sources: list[Source], out: Path, job: Any, pieces: Iterable[Any]
    ) -> tuple[Tokens, dict[str, Any]]:
        """The tokens in a folder; a mark with the counts says that all of them are there."""
        mark = out / "counts.json"
        counts = json.loads(mark.read_text("utf-8")) if mark.exists() else {}
        if counts.get("parts") != len(finished(out)):
            mark.unlink(missing_ok=True)
            progress = self.machine.progress
            progress.begin(f"tokenise {kind}", 0, "tokens")
            for _, tally in self.engine.map(job, pieces):
                progress.advance(1, tally.tokens)
            progress.end()
            _require_unchanged(sources, out)
            counts = _counted(out)
            write_bytes(mark, json.dumps(counts).encode())
        return Tokens.open(out), counts


def _counted(out: Path) -> dict[str, Any]:
    """What all parts of a kind hold together; rows = texts + rejected."""
    total = Counter(parts=0, rows=0, texts=0, rejected=0, empty=0, characters=0, tokens=0)
    reasons = Reasons()
    for number in sorted(finished(out)):
        tally = read_tally(out, number)
        reasons.add(tally["rejects"])
        total.update(
            parts=1,
            rows=tally["documents"] + len(tally["rejects"]),
            texts=tally["documents"],
            rejected=len(tally["rejects"]),
            **{name: tally[name] for name in ("empty", "characters", "tokens")},
        )
    return {**total, "reasons": dict(reasons.counts.most_common())}


def _require_unchanged(sources: list[Source], out: Path) -> None:
    """Make sure that what was read is what was fingerprinted; else nothing of it is kept."""
    for source in sources:
        stored = source.format != "hub"
        if stored and corpus.content(source) != source.fingerprint:
            remove(out)
            raise ChangedInputError(
                f"{source.name} changed while it was read. Run the same command again when nobody "
                "writes to it."
            )
