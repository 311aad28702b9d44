"""What an earlier selection selected, as a corpus.

What: `run:OUT` names the text in `selected/` of a finished run. A row is one of that run's corpus,
with its source's name, its number and its id; its texts are those that were selected of it, with a
`BORDER` between them, which no unit crosses.
Why: a cheap method can choose what an expensive one reads, and the rows stay those of the corpus.
Trade-off: each line names its source, so every worker reads the names of all of them.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, NamedTuple

import orjson

from corpusfit.core.artifacts import folder_path, names_in, user_path
from corpusfit.core.errors import EmptyInputError, InputError, bad_setting, near_name
from corpusfit.core.manifest import OutFolder, digest, read_object, undamaged
from corpusfit.core.plan import OF_A_TEXT, ReadPlan
from corpusfit.core.types import BORDER, FILE_BITS, Document, Documents, Reject, Shard, Source
from corpusfit.text.contract import Named
from corpusfit.text.cutting import Block, Lines, cut, lines_of
from corpusfit.text.fields import Pick, Row, from_mapping
from corpusfit.text.files import Stream, is_url

_PREFIX = "run:"
_LARGER = 4  # times the largest row, as a line holds a text and the fields that it is made of


def as_run(input_name: str) -> str:
    """`run:OUT` for OUT where that is the folder of a selection; other inputs are as they were."""
    scored = os.path.join(user_path(input_name), ".corpusfit", "scored.json")  # noqa: PTH118
    return _PREFIX + input_name if os.path.isfile(scored) else input_name  # noqa: PTH113 (never raises)


class Run(Named):
    """Selected texts of finished runs."""

    name = "run"
    prefix = _PREFIX
    gathers = True

    def blocks(self, source: Source, plan: ReadPlan) -> Iterator[Block]:
        larger = ReadPlan(shard_mb=plan.shard_mb, max_row_mb=_LARGER * plan.max_row_mb)
        return cut(_Rows(source, plan), Lines(), larger)

    def parse(self, shard: Shard, plan: ReadPlan) -> Iterator[Row]:
        byte = shard.first_byte
        for line in lines_of(shard.data):
            row, record, texts, fields = orjson.loads(line)
            read = from_mapping(row, byte, {**fields, **record}, plan)
            if isinstance(read, Document):
                # what the earlier run carried is carried on
                fields |= read.fields or {}
                read = replace(read, text=BORDER.join(texts), fields=fields or None)
            yield read
            byte += len(line) + 1

    def columns(
        self, shard: Shard, plan: ReadPlan, pick: Pick | None = None
    ) -> tuple[Documents, list[Reject]]:
        usable, rejected = super().columns(shard, plan, pick)
        return replace(usable, bordered=True), rejected

    def find(self, input_name: str, setting: str) -> list[Source]:
        """The files of the run's selected text; names, sizes and fingerprints are given later."""
        place = input_name.removeprefix(_PREFIX)
        path = folder_path(place, setting)
        if not path.is_dir():
            raise InputError(
                f"{setting} must name the folder of a finished selection; there is no folder "
                f"{path}{near_name(path)}. If the run was moved, name its new place."
            )
        folder = OutFolder(path)
        manifest = folder.finished()
        if manifest is None or manifest.get("command") != "select":
            raise InputError(
                f"{setting} must name the folder of a finished selection; {path} holds none. "
                "Repeat the `corpusfit select` that writes it, or for a scored corpus run "
                f"`corpusfit choose {path}`."
            )
        identity = folder.identity()  # refuses a run of another version
        with undamaged(path / "manifest.json"):
            if manifest["selected"].get("aligned"):
                sides = ",".join(str(path / name) for name in manifest["selected"]["aligned"])
                cure = f"Read its two files: pair:{sides}"
                raise bad_setting(setting, "a run on texts, not on aligned pairs", input_name, cure)
        # a run of the same identity has written the same, unless `choose` has selected again
        decided = digest([identity, manifest["selected"]])
        home = str(path) if is_url(place) else str(path.absolute())
        with undamaged(folder.work / "parts.json"):
            parts = len(orjson.loads((folder.work / "parts.json").read_bytes()))
        if not parts:
            raise EmptyInputError(f"{setting} must hold text; {path} selected none of its corpus.")
        names = [f"part-{number:05d}.jsonl.zst" for number in range(parts)]
        if lost := sorted(set(names) - names_in(path / "selected")):
            raise InputError(
                f"{path / 'selected'} lacks {lost[0]}, which was written. Repeat the run's "
                "command, with another `out`."
            )
        return [
            Source("", f"{home}/selected/{name}", self.name, "zst", 0, "", translation=decided)
            for name in names
        ]

    def located(self, input_name: str, home: Any) -> str:
        """The same input with an absolute path."""
        place = input_name.removeprefix(_PREFIX)
        return (
            input_name
            if is_url(place)
            else f"{_PREFIX}{(home / folder_path(place, '')).absolute()}"
        )

    def fingerprint(self, source: Source, digests: Sequence[str]) -> str:
        """What decided the run, and the content of the file, combined."""
        return digest([source.translation, *digests])

    def names(self, source: Source) -> tuple[str, ...]:
        """The names of the sources of the run's corpus."""
        return _facts(source).names


class _Facts(NamedTuple):
    """What the lines of a run need of it."""

    names: tuple[str, ...]  # of its sources
    number: Mapping[str, int]  # of each of these
    text_field: str
    id_field: str


def _facts(source: Source) -> _Facts:
    return _facts_of(source.url.rpartition("/selected/")[0], source.translation)


@lru_cache(maxsize=8)
def _facts_of(home: str, decided: str) -> _Facts:
    """The facts of a run in its folder; `decided` tells it from an earlier one in that place."""
    del decided
    path = folder_path(home, "`corpus`") / "manifest.json"
    manifest = read_object(path)
    with undamaged(path):
        names = tuple(manifest.get("names") or (source["name"] for source in manifest["corpus"]))
        read = manifest["plan"]["read"]
        number = {name: i for i, name in enumerate(names)}
        return _Facts(names, number, read["text_field"], read["id_field"])


class _Rows:
    """The rows of a file of selected text, as JSON lines."""

    problem = None

    def __init__(self, source: Source, plan: ReadPlan) -> None:
        self._source = source
        self._stream = Stream(source, plan)
        self._facts = _facts(source)
        self._texts: list[dict[str, Any]] = []  # of the last row

    @property
    def position(self) -> int:
        """Stored bytes consumed so far."""
        return self._stream.position

    def __iter__(self) -> Iterator[bytes]:
        with undamaged(folder_path(self._source.url, "`corpus`")):
            rest = b""
            for chunk in self._stream:
                *lines, rest = (rest + chunk).split(b"\n")
                yield b"".join(map(self._add, map(orjson.loads, lines)))
            if self._stream.problem or rest:
                raise ValueError(self._stream.problem or "its last line is cut off")
            yield self._row()

    def _add(self, text: dict[str, Any]) -> bytes:
        """Take a text; the row before it, if the text is of another one."""
        before = self._texts[-1] if self._texts else text
        done = b""
        if (text["source"], text["row"]) != (before["source"], before["row"]):
            done = self._row()
        self._texts.append(text)
        return done

    def _row(self) -> bytes:
        """The row of the texts that were taken."""
        if not self._texts:
            return b""
        first = self._texts[0]
        texts = [first["text"]]
        for before, text in itertools.pairwise(self._texts):
            if before["segment"] + before["segments"] == text["segment"]:
                texts[-1] += text["text"]
            else:
                texts.append(text["text"])
        record = {"source": first["source"], "row": first["row"]}
        record |= {self._facts.text_field: texts[0], self._facts.id_field: first["id"]}
        fields = {
            name.removeprefix("row_") if name.removeprefix("row_") in OF_A_TEXT else name: value
            for name, value in first.items()
            if name not in OF_A_TEXT
        }
        number = (self._facts.number[first["source"]] << FILE_BITS) + first["row"]
        self._texts = []
        return orjson.dumps([number, record, texts, fields]) + b"\n"
