"""Turns texts into token ids once per tokenizer, kept in the cache by content."""

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
from corpusfit.errors import changed_input
from corpusfit.jobs.reading import Reasons
from corpusfit.jobs.tokenise import TokeniseSelected, TokeniseShard
from corpusfit.manifest import digest, source_identity
from corpusfit.plan import ReadPlan
from corpusfit.types import Source
from corpusfit.workflows.context import RunContext


@dataclass(frozen=True)
class Tokenising:
    """Turns texts into token ids; those of the same texts and tokenizer are reused.

    Token ids take 2 bytes each on this machine's disk.

    Attributes:
        tokenizer: file of the tokenizer.
        place: folder for all token ids, by content.
        end: id that ends a text, if any.
    """

    read: ReadPlan
    tokenizer: Path
    place: Path
    end: int | None
    context: RunContext

    def corpus(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a corpus."""
        out = self._folder("corpus", sources)
        names = tuple(s.name for s in sources)
        job = TokeniseShard(self.read, names, self.tokenizer, out, self.end)
        done = finished(out)
        shards = self.context.shards_of(sources, self.read)
        pieces = (s for s in shards if s.index not in done)
        return self._tokens(kind, sources, out, job, pieces, sum(s.size for s in sources))

    def selected(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a selection, with its scores."""
        out = self._folder("selected", sources)
        job = TokeniseSelected(self.tokenizer, out, self.end)
        done = finished(out)
        pieces = [(i, Path(s.url)) for i, s in enumerate(sources) if i not in done]
        return self._tokens(kind, sources, out, job, pieces, len(pieces))

    def texts(self, kind: str, texts: list[str], spool: Path) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of texts in memory, which are written to a file first."""
        write_bytes(spool, b"".join(orjson.dumps({"text": t}) + b"\n" for t in texts))
        sources = corpus.find([str(spool)], ReadPlan(), spool=spool.parent, role=kind)
        return dataclasses.replace(self, read=ReadPlan()).corpus(kind, sources)

    def _folder(self, how: str, sources: list[Source]) -> Path:
        identity = {
            "how": f"{how} 2",  # 2: with keys
            "sources": source_identity(sources),
            "read": dataclasses.asdict(self.read),
            "tokenizer": file_digest(self.tokenizer),
            "end": self.end,
        }
        return self.place / digest(identity)

    def _tokens(
        self,
        kind: str,
        sources: list[Source],
        out: Path,
        job: Any,
        pieces: Iterable[Any],
        total: int,
    ) -> tuple[Tokens, dict[str, Any]]:
        """The tokens in a folder; a file with the counts marks it as complete."""
        mark = out / "counts.json"
        counts = json.loads(mark.read_text("utf-8")) if mark.exists() else {}
        if counts.get("parts") != len(finished(out)):
            mark.unlink(missing_ok=True)
            progress = self.context.progress
            with progress.showing(f"tokenise {kind}", total, "tokens"):
                for _, tally in self.context.map(job, pieces):
                    progress.advance(0, tally.tokens)
            _require_unchanged(sources, out)
            counts = _total_counts(out)
            write_bytes(mark, json.dumps(counts).encode())
        return Tokens.open(out), counts


def _total_counts(out: Path) -> dict[str, Any]:
    """Counts over all parts of a kind; rows = texts + rejected."""
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
    """Make sure that no source changed since its fingerprint; otherwise delete the token ids."""
    for source in sources:
        if corpus.content(source) != source.fingerprint:
            remove(out)
            raise changed_input(source.name)
