"""Side files: scores and labels of the rows of a corpus that others publish in files of their own.

What: `read.scores` names a folder. A corpus file `a/b.jsonl.zst` has there `a/b.npy`, `.parquet` or
JSON lines, or one in each of several subfolders, as dolma's taggers write them. In a side file with
the field of ids (`read.id_field`), or with `id`, a row is found by its id. Any other has a row for
each row of the corpus file, and columns that both have must agree.
Why: a row gets its values where its record becomes a document (`from_mapping`), so all formats with
named fields have them, and what reads a field need not know of it. Each worker opens the side files
of the source it reads: npy is mapped, Parquet is read by row group, JSON lines once, as columns.
Trade-off: a side file that is in another order than the corpus file is held whole by each worker
that reads a part of it.
Reference: https://github.com/allenai/dolma/blob/main/docs/data-format.md,
https://github.com/CodeCreator/WebOrganizer
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import posixpath
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import Any, cast

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from corpusfit.core.artifacts import folder_path
from corpusfit.core.errors import InputError, bad_setting, near_name
from corpusfit.core.plan import ReadPlan
from corpusfit.core.types import Beside, Reject, Shard, Source, in_file
from corpusfit.core.where import number_of
from corpusfit.text.contract import load
from corpusfit.text.fields import Row, field_of, json_value, missing, of_first_names, values
from corpusfit.text.files import Stream, is_data, is_url, open_stored, unpacked_name
from corpusfit.text.rejects import EMPTY_LINE

_ID = "id"
_SETTING = "`read.scores`"
_LINES = (".jsonl", ".ndjson", ".jsonlines", ".json")
_UNREADABLE = (pa.ArrowException, ValueError, TypeError, OverflowError, RecursionError)
_ARCHIVE = re.compile(r".*\.(?:tar|zip)/", re.IGNORECASE | re.DOTALL)
_IN_FOLDER = "Name the corpus by the folder that its side files follow"
_IN_ARCHIVE = "Name the side files by the paths of the files in the archive"
_CHECK = "Take the side files that were made from this corpus."


def with_scores(
    sources: Sequence[Source], place: str, id_field: str, has_field: Callable[[Source, str], bool]
) -> list[Source]:
    """The sources, each with its side files; `has_field` reads whether one has a field.

    Raises:
        UsageError: there is no such folder, or sources are no files of rows with named fields.
        InputError: a source has no side file, or has two in one folder.
    """
    folder = folder_path(place, _SETTING)
    if not folder.is_dir():
        cure = f"There is no folder {folder}{near_name(folder)}."
        raise bad_setting(_SETTING, "a folder with a side file for each corpus file", place, cure)
    for source in sources:
        form = load(source.format)
        if not form.named_fields or form.gathers or form.parallel or not form.files(source):
            allowed = "left out unless the corpus is of files whose rows have named fields"
            raise bad_setting(_SETTING, allowed, f"{place} for {source.name}")
    corpus = {source.url for source in sources}
    found = defaultdict[str, list[str]](list)  # by path in the folder, without suffixes
    for path in sorted(folder.rglob("*")):
        below = path.relative_to(folder)
        stem, suffix = _parted(path.name)
        if suffix and str(path) not in corpus and all(map(is_data, below.parts)):
            found[(below.parent / stem).as_posix()].append(str(path))
    # WebOrganizer's annotations add to the name: `x__choice.npy`
    loose = defaultdict[str, list[str]](list)
    for stem, paths in found.items():
        loose[stem.rpartition("__")[0]] += paths
    inner = sorted({f"{stem.partition('/')[0]}/" for stem in found if "/" in stem})
    # those of an archive also by the paths within it, and as of a folder
    names = [source.name for source in sources]
    within = [_ARCHIVE.sub("", name) for name in names]
    packed = within != names
    top = posixpath.commonpath([posixpath.dirname(n) for n in within]) if packed else ""
    inside = [posixpath.relpath(name, top or ".") for name in within] if packed else []
    for form_names in (names, within, inside) if packed else (names,):
        stems = [_parted(name, any_suffix=True)[0] for name in form_names]
        direct = any(stem in found or stem in loose for stem in stems)
        sets = [""] if direct else [s for s in inner if any(s + t in found | loose for t in stems)]
        if sets:
            break
    described = []
    for source, stem in zip(sources, stems, strict=True):
        sides = []
        for each in sets or [""]:
            paths = found.get(each + stem) or loose.get(each + stem, [])
            if len(paths) != 1:
                has = f"both {paths[0]} and {paths[1]}" if paths else "none"
                raise InputError(
                    f"{_SETTING} must have one side file {each}{stem} (.npy, .parquet, .jsonl, also"
                    f" compressed) for the corpus file {source.name}; {folder} has {has}. "
                    f"{_IN_ARCHIVE if packed else _IN_FOLDER}, and one set of side files."
                )
            fields = _names(paths[0])
            key = _ID if _ID in fields else ""
            # where both have `id`, they share that
            own = id_field in fields or (key and not (id_field == key or has_field(source, key)))
            if id_field != key and own and has_field(source, id_field):
                key = id_field
            name = each.rstrip("/") or folder.absolute().name
            shared = id_field.removeprefix(f"{name}.")
            nested = not key and shared.partition(".")[0] in fields and shared not in fields
            if (nested or id_field != shared in fields) and has_field(source, shared):
                cure = f"Set `read.id_field={shared}`."
                cure = f"Write it to a column {_ID!r} of the side file as well." if nested else cure
                allowed = f"a field of rows or of side files, not of both {source.name} and {name}"
                raise bad_setting("`read.id_field`", allowed, id_field, cure)
            sides.append((name, paths[0], key))
        described.append(replace(source, scores=tuple(sides)))
    if len({path for source in described for _, path, _ in source.scores}) < len(sources):
        first = ", ".join(names[:3])
        raise InputError(
            f"{_SETTING} must have a side file for each corpus file; {first} share one."
        )
    return described


def joined_by(sources: Sequence[Source], place: str) -> str:
    """The sentence that says how side files are joined."""
    by = dict.fromkeys((name, key or "row number") for s in sources for name, _, key in s.scores)
    hows = {how for _, how in by}
    each = hows if len(hows) == 1 else [f"{how} ({name})" for name, how in by]
    name = folder_path(place, _SETTING).absolute().name
    return f"Side files of {name}/ are joined by {', '.join(each)}."


def _names(path: str) -> list[str]:
    """The fields of a side file, or of its first row; none of an array, or if it is unreadable."""
    suffix = _parted(path)[1]
    with contextlib.suppress(*_UNREADABLE):
        if suffix == ".parquet":
            with open_stored(path) as file:
                return list(pq.read_schema(file).names)
        if suffix in _LINES:
            return [*next(_records(path), {})]
    return []


def _parted(name: str, *, any_suffix: bool = False) -> tuple[str, str]:
    """A file's name without its suffixes, and the one that says its format; empty for no side."""
    inner = unpacked_name(name)[0]
    stem, dot, last = inner.rpartition(".")
    suffix = dot + last.lower()
    packed = inner != name
    known = suffix in _LINES or (suffix in (".npy", ".parquet") and not packed)
    return (stem, suffix) if known or any_suffix else (name, "")


def joining(shard: Shard, plan: ReadPlan) -> ReadPlan:
    """The plan by which the rows of a shard have the values of their side files."""
    if shard.beside is None:
        return plan
    asked = (*plan.other_fields(), *plan.kept_fields(), plan.id_field)
    keys = {_ID, *(key for *_, key in shard.beside.sides)}
    wanted = tuple(dict.fromkeys(name for name in asked if name not in keys))
    # by the fingerprint, files that replaced others are opened again
    beside = shard.beside._replace(
        last=False, sides=tuple((name, path, key) for name, path, key in shard.beside.sides)
    )
    return plan.joining(_join(beside, wanted, plan.number_fields()))


def to_end(rows: Iterable[Row], plan: ReadPlan) -> Iterator[Row]:
    """The last rows of a source; behind them, its side files must end, too."""
    last = -1
    for row in rows:
        # a file may end in empty lines
        if not (isinstance(row, Reject) and row.reason == EMPTY_LINE):
            last = row.row
        yield row
    cast("Join", plan.joined).require_rows(in_file(last) + 1)


def fields_beside(sources: Sequence[Source]) -> list[str]:
    """The fields that the first source's side files have."""
    sides = sources[0].scores if sources else ()
    return [name for side in sides for name in _side(*side, (), sources[0].fingerprint).fields]


@lru_cache(maxsize=4)
def _join(beside: Beside, asked: tuple[str, ...], numbers: tuple[str, ...]) -> Join:
    return Join(beside, asked, numbers)


class Join:
    """The values that the side files of one source have for its rows.

    Args:
        beside: the source and its side files.
        asked: the fields to take from them, where they have them.
        numbers: those of them that must be numbers.
    """

    def __init__(self, beside: Beside, asked: tuple[str, ...], numbers: tuple[str, ...]) -> None:
        self._beside = beside
        self._asked = asked
        self._numbers = numbers

    @cached_property
    def compared(self) -> tuple[str, ...]:
        """The fields of the corpus by which it is joined, and those that may have to agree."""
        sides = self._beside.sides
        return tuple(n for _, path, key in sides for n in ([key] if key else _names(path)))

    @cached_property
    def _sides(self) -> list[_Side]:
        of = self._beside
        return [_side(*side, self._asked, of.fingerprint) for side in of.sides]

    @cached_property
    def _places(self) -> dict[_Side, list[tuple[str, str]]]:
        """The asked fields of each side file, with their names in it."""
        places = defaultdict[_Side, list[tuple[str, str]]](list)
        for name in self._asked:
            having = [side for side in self._sides if side.name_of(name)]
            if len(having) > 1:
                raise InputError(
                    f"{having[0].path} and {having[1].path} both have the field {name!r}. Name it "
                    f"{having[0].set}.{name} or {having[1].set}.{name}."
                )
            for side in having:
                places[side].append((name, side.name_of(name)))
        return dict(places)

    def __call__(self, row: int, record: Mapping[Any, Any]) -> dict[str, Any]:
        """The values of a row; raises `InputError` if it cannot be joined."""
        found = dict[str, Any]()
        for side in self._sides:
            side.require_alike(int(in_file(row)), record, self._beside.source)
        for side, names in self._places.items() if self._asked else ():
            at = side.place(int(in_file(row)), record, self._beside.source)
            for name, inner in names:
                value = found[name] = side.value(inner, at)
                if field_of(record, name) is not None:
                    raise InputError(
                        f"The field {name!r} is in {self._beside.source} and in {side.path}. Name "
                        f"that of the side file {side.set}.{name}; for that of the corpus, leave "
                        "the column out of the side file."
                    )
                if name in self._numbers and value is not None and number_of(value) is None:
                    raise InputError(
                        f"{side.path} must have numbers in {name!r}; row {at:,} has "
                        f"{str(value)[:40]!r}. Name another field."
                    )
        return found

    def require_rows(self, n: int) -> None:
        """Check that each side file without ids has as many rows as the corpus file."""
        for side in self._sides:
            if side.rows != n and side.keyed:
                side.sort()  # as rows were found by their ids, none may be there twice
            elif side.rows != n:
                raise InputError(
                    f"{side.path} must have as many rows as {self._beside.source}, {n:,}; got "
                    f"{side.rows:,}. {_CHECK}"
                )


@lru_cache(maxsize=32)
def _side(name: str, path: str, key: str, asked: tuple[str, ...], fingerprint: str) -> _Side:
    del fingerprint
    suffix = _parted(path)[1]
    kind = {".npy": _Array, ".parquet": _Table}.get(suffix, _Lines)
    try:
        return kind(name, path, key, asked)
    except _UNREADABLE as e:
        why = str(e).partition("\n")[0][:200].rstrip(".")
        cure = "Fetch or compute it again."
        raise InputError(f"The side file {path} cannot be read: {why}. {cure}") from e


class _Side:
    """A side file: its `rows`, its `fields`, and their values by row."""

    rows: int
    fields: list[str]

    def __init__(self, name: str, path: str, key: str, asked: tuple[str, ...]) -> None:
        self.set = name
        self.path = path
        self.keyed = False
        self.of_corpus = key or _ID  # the field there by which it is joined
        self.key = _ID  # that here
        bare = [each.removeprefix(f"{name}.") for each in asked]
        self.wanted = {n for each in (*asked, *bare) for n in (each, each.partition(".")[0])}
        self._begin = 0
        self._held: Any = None  # rows from `_begin` on, as an Arrow table
        self._order: Any = None  # of all rows by id, if they are not in that of the corpus
        self.open()

    def open(self) -> None:
        """Read what says which rows and fields there are."""
        raise NotImplementedError

    def hold(self, row: int) -> None:
        """Hold a part of the file that has a row; all of it for -1."""

    def name_key(self, names: Iterable[str]) -> None:
        """Set its fields, and that of the ids among them."""
        self.key = self.of_corpus if self.of_corpus in names else _ID
        self.keyed = self.key in names
        self.fields = [name for name in names if name != self.key]

    def require_alike(self, row: int, record: Mapping[Any, Any], source: str) -> None:
        """Check that a row joined by its number agrees in the columns that both files have."""
        if self.keyed or row >= self.rows:
            return
        shared = [name for name in self.fields if name in record and name not in self.wanted]
        unlike = [name for name in shared if _hash(record[name]) != self.hash_of(name, row)]
        if not unlike:
            return
        unique = [
            name
            for name in unlike
            if _as_id(record[name]) is not None
            and len({self.hash_of(name, each) for each in range(self.rows)}) == self.rows
        ]
        # texts are unique, too, but no ids
        name = min(unique or unlike, key=lambda each: len(str(record[each])))
        by_id = f"If its values are ids, set `read.id_field={name}`; otherwise leave"
        raise InputError(
            f"{self.path} and {source} both have the field {name!r}, which must be the same in "
            f"each row if they are joined by row number; row {row:,} differs. "
            f"{by_id if unique else 'Leave'} the column out of the side file."
        )

    def hash_of(self, name: str, row: int) -> int:
        """The hash of a value, of a field that is not wanted."""
        return _hash(self.value(name, row))

    def name_of(self, name: str) -> str:
        """The name of a field within this file; empty if it has none of that name."""
        for form in (name, name.removeprefix(f"{self.set}.")):
            if {form, form.partition(".")[0]} & {*self.fields}:
                return form
        return ""

    def place(self, row: int, record: Mapping[Any, Any], source: str) -> int:
        """The row of this file for a row of the corpus file."""
        if not self.keyed:
            if row >= self.rows:
                raise InputError(
                    f"{self.path} has {self.rows:,} rows, fewer than {source}, and no {_ID!r} to "
                    f"join them by. {_CHECK}"
                )
            return row
        id = _as_id(field_of(record, self.of_corpus))
        if id is None:
            raise InputError(
                f"Row {row:,} of {source} must have an {self.of_corpus!r}, by which {self.path} is "
                "joined; it has none. Leave such rows out of the corpus, or the ids out of the "
                "side file."
            )
        if self._order is None:
            if row < self.rows and self._id(row) == id:
                return row
            self.sort()
        at = bisect_left(range(self.rows), id, key=lambda n: self._id(self._order[n].as_py()))
        place = self._order[at].as_py() if at < self.rows else -1
        if place < 0 or self._id(place) != id:
            raise InputError(
                f"{self.path} has no {self.key} {id!r}, of row {row:,} of {source}. {_CHECK}"
            )
        return int(place)

    def sort(self) -> None:
        """Order all rows by id; raises `InputError` if two have one id."""
        self.hold(-1)
        ids = self._held.column(self.key).combine_chunks()
        order = pc.sort_indices(ids)
        ordered = ids.take(order)
        twice = pc.index(pc.equal(ordered[1:], ordered[:-1]), value=True).as_py()
        if twice >= 0:
            raise InputError(
                f"{self.path} has the {self.key} {ordered[twice].as_py()!r} twice, and its rows "
                "are not those of the corpus in their order. Leave one of them out."
            )
        self._order = order

    def _id(self, row: int) -> str:
        return cast("str", self._at(self.key, row).as_py())

    def _at(self, column: str, row: int) -> Any:
        """The value of a column as an Arrow scalar."""
        if self._held is None or not self._begin <= row < self._begin + len(self._held):
            self.hold(row)
        return self._held.column(column)[row - self._begin]

    def value(self, name: str, row: int) -> Any:
        """The value of a field in a row, as one of JSON."""
        column = name if name in self.fields else name.partition(".")[0]
        scalar = self._at(column, row)
        found = field_of({column: values(pa.array([scalar.as_py()], scalar.type))[0]}, name)
        return found if isinstance(found, str | int | float | list | dict) else json_value(found)

    def keep(self, table: Any) -> None:
        """Hold a table, whose ids become text; of columns with one name the first."""
        table = of_first_names(table)
        if self.keyed:
            ids = [_as_id(value) for value in values(table.column(self.key))]
            if None in ids:
                raise InputError(
                    f"{self.path} must have an {self.key} in each row; row "
                    f"{self._begin + ids.index(None):,} has none. Fill it, or leave out the column."
                )
            column = pa.chunked_array([pa.array(ids, pa.large_string())])
            table = table.set_column(table.column_names.index(self.key), self.key, column)
        self._held = table.combine_chunks()


class _Array(_Side):
    """An array of numpy, [n] or [n, k]."""

    def open(self) -> None:
        if is_url(self.path):
            with open_stored(self.path) as file:
                array = np.lib.format.read_array(file, allow_pickle=False)
        else:
            array = np.lib.format.open_memmap(self.path, mode="r")
        if array.ndim not in (1, 2) or array.dtype.kind not in "biuf":
            raise ValueError(f"it must have numbers [n] or [n, k], not {array.dtype} {array.shape}")
        self._columns = array if array.ndim == 2 else array[:, None]
        self.rows = len(array)
        numbered = [f"{self.set}_{n}" for n in range(self._columns.shape[1])]
        self.fields = numbered if array.ndim == 2 else [self.set]
        self.wanted |= {*self.fields}  # a name of a folder is no column that a corpus shares

    def value(self, name: str, row: int) -> Any:
        number = self._columns[row, self.fields.index(name)]
        # shortest digits, as of the floats of Parquet
        return float(str(number)) if number.dtype.kind == "f" else number.item()


class _Table(_Side):
    """A Parquet file."""

    def open(self) -> None:
        with open_stored(self.path) as file:
            self._metadata = pq.read_metadata(file)
        names = self._metadata.schema.to_arrow_schema().names
        self.name_key(names)
        self.rows = self._metadata.num_rows
        groups = map(self._metadata.row_group, range(self._metadata.num_row_groups))
        self._ends = np.cumsum([group.num_rows for group in groups])
        self._names = [name for name in names if name in {*self.wanted, self.key}]

    def hash_of(self, name: str, row: int) -> int:
        if name not in self._names:
            self._names.append(name)
            self._held = None
        return super().hash_of(name, row)

    def hold(self, row: int) -> None:
        group = int(np.searchsorted(self._ends, row, side="right"))
        self._begin = 0 if row < 0 or not group else int(self._ends[group - 1])
        groups = range(len(self._ends)) if row < 0 else [group]
        with open_stored(self.path) as file:
            parquet = pq.ParquetFile(file, metadata=self._metadata)
            self.keep(parquet.read_row_groups(groups, columns=self._names))


class _Lines(_Side):
    """JSON lines, also dolma's, whose fields are in `attributes`."""

    def open(self) -> None:
        names = dict[str, None]()
        kept = list[dict[str, Any]]()
        keys = {self.of_corpus, _ID}
        for record in _records(self.path, self.of_corpus):
            names |= dict.fromkeys(record)
            kept.append({name: record[name] for name in self.wanted & record.keys()})
            # of one type, whatever the others are
            kept[-1] |= {key: _as_id(record[key]) for key in keys & record.keys()}
            if not keys & record.keys():
                kept[-1] |= {n: _hash(record[n]) for n in record.keys() - self.wanted}
        self.name_key(names)
        self.rows = len(kept)
        columns = {}
        for name in dict.fromkeys(itertools.chain.from_iterable(kept)):
            try:
                columns[name] = pa.array([row.get(name) for row in kept])
            except pa.ArrowException as e:
                raise ValueError(f"{name!r} must have values of one type: {e}") from e
        self.keep(pa.table(columns))

    def hash_of(self, name: str, row: int) -> int:
        found = self.value(name, row)
        return _hash(None) if found is None else cast("int", found)


def _records(path: str, key: str = "") -> Iterator[dict[str, Any]]:
    """The objects of JSON lines; of dolma's the attributes, `id` and the key."""
    for row, line in enumerate(_lines(path)):
        try:
            record = orjson.loads(line)
        except orjson.JSONDecodeError:  # a byte order mark; NaN and Infinity are null
            try:
                record = json.loads(line, parse_constant=lambda _: None)
            except ValueError as e:
                raise ValueError(f"row {row:,} is no JSON: {e}") from e
        if not isinstance(record, dict):
            raise ValueError(f"row {row:,} is no object")
        attributes = record.get("attributes")
        if isinstance(attributes, dict):
            of_spans = {name: _mean(value) for name, value in attributes.items()}
            record = {name: record[name] for name in {_ID, key} & record.keys()} | of_spans
        yield record


def _lines(path: str) -> Iterator[bytes]:
    stream = Stream(Source(path, path, "jsonl", unpacked_name(path)[1], 0, ""), ReadPlan())
    rest = b""
    for chunk in itertools.chain(stream, [b"\n"]):
        *lines, rest = (rest + chunk).split(b"\n")
        yield from (line for line in lines if line.strip())
    if stream.problem:
        raise ValueError(str(stream.problem))


def _hash(value: Any) -> int:
    """A hash that is equal for 7 and "7", and for a number in float32 and float64."""
    number = number_of(json_value(value) if isinstance(value, bytes) else value)
    if number is not None and math.isfinite(number):
        value = str(int(number) if number == int(number) else np.float32(number))
    plain = None if missing(value) or value == "" else value
    stored = json.dumps(plain, default=json_value, sort_keys=True).encode()
    return xxhash.xxh3_64_intdigest(stored) >> 1  # as a signed integer of Arrow


def _as_id(value: Any) -> str | None:
    """An id as text, so that 7 is "7", and 7.0 as pandas has it; None for what is no id."""
    value = json_value(value) if isinstance(value, bytes) else value
    whole = int(value) if isinstance(value, float) and value.is_integer() else value
    plain = isinstance(whole, str | int) and not isinstance(whole, bool) and whole != ""
    return str(whole) if plain else None


def _mean(value: Any) -> Any:
    """The mean of spans [start, end, value], weighted by their lengths; other values unchanged."""
    if not isinstance(value, list) or any(not isinstance(s, list) or len(s) != 3 for s in value):
        return value
    lengths = [end - start for start, end, _ in value]
    if not value:
        return None
    if not sum(lengths):  # of an empty text
        return sum(number for *_, number in value) / len(value)
    return sum(n * number for n, (*_, number) in zip(lengths, value, strict=True)) / sum(lengths)
