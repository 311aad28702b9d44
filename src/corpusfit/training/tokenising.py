"""Turns texts, or pairs, into token ids once per tokenizer, kept in the cache by content."""

from __future__ import annotations

import dataclasses
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from corpusfit import text as corpus
from corpusfit.core.artifacts import remove, write_bytes
from corpusfit.core.errors import changed_input
from corpusfit.core.manifest import digest, source_identity
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Source
from corpusfit.embed.contract import file_digest
from corpusfit.text.context import RunContext
from corpusfit.text.reading import Reasons
from corpusfit.text.same_text import FORM
from corpusfit.training.pair_data import describe_pairs
from corpusfit.training.tokenise_job import TokeniseSelected, TokeniseShard
from corpusfit.training.tokenise_pairs_job import TokenisePairs, TokeniseSelectedPairs
from corpusfit.training.tokens import PairTokens, Tokens, finished, read_tally
from corpusfit.training.translators import domain_tag


@dataclass(frozen=True)
class Tokenising:
    """Turns texts into token ids; those of the same texts and tokenizer are reused.

    Token ids take 2 bytes each on this machine's disk.

    Attributes:
        tokenizer: file of the tokenizer; for pairs, folder of a transformers tokenizer.
        place: folder for all token ids, by content.
        end: id that ends a text, if any.
        pairs: of aligned pairs, most tokens of a side; 0 for texts.
        tagged: whether the source text of a pair begins with its domain's tag.
    """

    read: ReadPlan
    tokenizer: Path
    place: Path
    end: int | None
    context: RunContext
    pairs: int = 0
    tagged: bool = False

    def corpus(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a corpus."""
        out = self._folder("corpus", sources)
        names = tuple(s.name for s in sources)
        job: Any = TokeniseShard(self.read, names, self.tokenizer, out, self.end)
        if self.pairs:
            job = TokenisePairs(self.read, names, self.tokenizer, out, self.tagged)
        done = finished(out)
        shards = self.context.shards_of(sources, self.read)
        pieces = (s for s in shards if s.index not in done)
        return self._tokens(kind, sources, out, job, pieces, sum(s.size for s in sources))

    def selected(self, kind: str, sources: list[Source]) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of a selection, with its scores."""
        out = self._folder("selected", sources)
        job: Any = TokeniseSelected(self.read.text_field, self.tokenizer, out, self.end)
        if self.pairs:
            job = TokeniseSelectedPairs(self.tokenizer, out, self.tagged)
        done = finished(out)
        pieces = [(i, Path(s.url)) for i, s in enumerate(sources) if i not in done]
        return self._tokens(kind, sources, out, job, pieces, len(pieces))

    def texts(self, kind: str, texts: list[str], spool: Path) -> tuple[Tokens, dict[str, Any]]:
        """Token ids of texts in memory, which are written to a file first."""
        write_bytes(spool, b"".join(orjson.dumps({"text": t}) + b"\n" for t in texts))
        sources = corpus.find([str(spool)], ReadPlan(), spool=spool.parent, role=kind)
        return dataclasses.replace(self, read=ReadPlan()).corpus(kind, sources)

    def _folder(self, how: str, sources: list[Source]) -> Path:
        identity: dict[str, Any] = {
            "how": f"{how} 2",  # 2: with keys
            "keys": [FORM, unicodedata.unidata_version],
            "sources": source_identity(sources),
            "read": self.read.stated(),
            "end": self.end,
        }
        if not self.pairs:
            return self.place / digest({**identity, "tokenizer": file_digest(self.tokenizer)})
        identity |= {"pairs": 1, "tokenizer": folder_digests(self.tokenizer)}
        if self.tagged:
            identity["tags"] = [domain_tag(s.name) for s in sources]
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
        mark, progress = out / "counts.json", self.context.progress
        counts = json.loads(mark.read_text("utf-8")) if mark.exists() else {}
        if counts.get("parts") != len(finished(out)):
            mark.unlink(missing_ok=True)
            with progress.showing(f"tokenise {kind}", total, "tokens"):
                for _, tally in self.context.map(job, pieces):
                    progress.advance(0, tally.tokens)
            _require_unchanged(sources, out)
            counts = _total_counts(out)
            write_bytes(mark, json.dumps(counts).encode())
        if not self.pairs:
            return Tokens.open(out), counts
        tokens = PairTokens.open(out)
        return tokens, counts | describe_pairs(kind, tokens, counts, self.pairs, progress)


_COUNTED = (
    *("empty", "characters", "tokens"),
    *("source_tokens", "unknown_source", "unknown_target"),  # of pairs
)


def folder_digests(folder: Path) -> dict[str, str]:
    """The digests of the files of a folder, by name."""
    return {path.name: file_digest(path) for path in sorted(folder.iterdir())}


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
            **{name: tally[name] for name in _COUNTED if name in tally},
        )
    return {**total, "reasons": dict(reasons.counts.most_common())}


def _require_unchanged(sources: list[Source], out: Path) -> None:
    """Make sure that no source changed since its fingerprint; otherwise delete the token ids."""
    for source in sources:
        if corpus.content(source) != source.fingerprint:
            remove(out)
            raise changed_input(source.name)
