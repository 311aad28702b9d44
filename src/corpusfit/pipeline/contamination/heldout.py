"""The texts that may not be trained on: a task's dev and test texts, read without labels.

What: `held_out`, of a task's folder or dataset the dev and test splits, of anything else every
text. A `.tsv` or `.txt` is CoNLL columns if each of its lines ends in a tag.
Why: what is watched must be what a model is judged on, whatever the labels are called or worth.
Trade-off: which examples `evaluate` sets aside where a split is missing hangs on its plan and seed,
and neither is known here: then all of train is watched too, and that is said.
Reference: Aharoni and Goldberg (2020), Table 8, for overlaps within a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corpusfit import corpus
from corpusfit.corpus import hub
from corpusfit.corpus.formats import format_of
from corpusfit.corpus.rejects import EMPTY_LINE
from corpusfit.engine import Progress
from corpusfit.errors import EmptyInputError, InputError
from corpusfit.evaluate.formats.brat import read_brat
from corpusfit.evaluate.formats.conll import read_conll
from corpusfit.evaluate.splits import TaskFiles, find_splits, form_of_name
from corpusfit.jobs.reading import Reasons
from corpusfit.plan import ReadPlan


@dataclass(frozen=True)
class _Part:
    """What is watched under one name.

    Attributes:
        name: for reports; empty where every source has its own.
        form: a key of `splits.FORMS`.
        places: files, or inputs as `--corpus` takes them.
    """

    name: str
    form: str
    places: list[str]


def held_out(
    inputs: Sequence[str], read: ReadPlan, spool: Path, progress: Progress, *, setting: str
) -> dict[str, list[str]]:
    """The texts that may not be trained on, by split.

    Words of CoNLL columns and of brat are joined by spaces. All of train is watched too where dev
    or test is missing, and all there is where there is one split: `hub:NAME@SPLIT`, a folder of
    brat pairs, a file.

    Args:
        inputs: folders of tasks or `hub:NAME`, of which dev and test are meant; or files, globs,
            URLs or `hub:NAME@SPLIT`, all of whose texts are. None at all gives nothing.
        read: names the field with the text, of rows; labels are not looked at.
        spool: folder for a copy of standard input.
        progress: told of what is watched beyond dev and test, and of rows without a text.
        setting: what they were given as, for errors.

    Raises:
        CorpusfitError: an input cannot be found or read, or has no text.
    """
    splits: dict[str, list[str]] = {}
    reasons = Reasons()
    for part in _parts(inputs, progress, setting):
        for name, texts in _texts(part, read, spool, setting, reasons).items():
            splits.setdefault(name, []).extend(texts)
    if inputs and not any(splits.values()):
        raise EmptyInputError(
            f"--{setting} has no usable row ({reasons}). Name the field with its text with "
            f"--{setting}-field, or give other files."
        )
    del reasons.counts[corpus.kind(EMPTY_LINE)]
    if reasons.counts:
        progress.warn(
            f"{reasons.counts.total():,} rows of --{setting} have no usable text and are not "
            f"watched: {reasons}."
        )
    return splits


def _parts(inputs: Sequence[str], progress: Progress, setting: str) -> Iterator[_Part]:
    """What the inputs name; those that are read like a corpus come together, and last."""
    plain: list[str] = []
    for place in inputs:
        path = Path(place).expanduser()
        alone = path.is_file()
        if not ((alone and _of_words(path.name)) or _has_splits(place, path)):
            plain.append(place)
            continue
        found = find_splits(place, "auto", f"--{setting}")
        if len(found.places) == 1:
            (places,) = found.places.values()
            yield _Part(path.name if alone else found.name, found.form, places)
            continue
        ahead = f"{found.name} " if len(inputs) > 1 else ""
        for split in _watched(found, progress, setting):
            yield _Part(ahead + split, found.form, found.places[split])
    if plain:
        yield _Part("", "rows", plain)


def _has_splits(place: str, path: Path) -> bool:
    """Whether a place may have several splits."""
    if place.startswith(hub.PREFIX):
        return "@" not in place.rpartition("/")[2]
    return path.is_dir()


def _of_words(name: str) -> bool:
    """Whether a file of this name may hold words, not rows."""
    return form_of_name(name, "tagging") in ("conll", "brat")


def _watched(found: TaskFiles, progress: Progress, setting: str) -> list[str]:
    """Of a task's two or three splits, those that are watched."""
    held: list[str] = [split for split in ("dev", "test") if split in found.places]
    if len(held) == 2:
        return held
    lacking = "test" if held == ["dev"] else "dev"
    progress.note(
        f"--{setting} {found.name} has no {lacking} split, so it is drawn from train by whoever "
        f"judges on it: all of train is watched too. To watch {held[0]} alone, name its file, or "
        f"hub:NAME@SPLIT."
    )
    return ["train", *held]


def _texts(
    part: _Part, read: ReadPlan, spool: Path, setting: str, reasons: Reasons
) -> dict[str, list[str]]:
    """The texts of a part by name; what is wrong with rows is counted in `reasons`."""
    if part.form == "brat":
        return {part.name: list(map(" ".join, read_brat(part.places, part.name).pieces))}
    words = _words(part) if part.name else None
    if words is not None:
        return {part.name: words}
    found = _rows(part.places, read, spool, setting, reasons)
    if not part.name:
        return found
    return {part.name: [text for texts in found.values() for text in texts]}


def _words(part: _Part) -> list[str] | None:
    """The sentences of CoNLL columns; None if the files hold something else."""
    if not all(map(_of_words, part.places)):
        return None
    try:
        return list(map(" ".join, read_conll(part.places, part.name).pieces))
    except InputError:
        if all(map(format_of, part.places)):
            return None  # plain text, or rows
        raise


def _rows(
    places: Sequence[str], read: ReadPlan, spool: Path, setting: str, reasons: Reasons
) -> dict[str, list[str]]:
    """The texts of rows, or of plain text, by source."""
    sources = corpus.find(places, read, spool=spool, role=setting)
    found: dict[str, list[str]] = {}
    for shard in corpus.shards(sources, read):
        documents, rejected = corpus.documents(shard, read)
        reasons.add((r.row, r.byte, r.reason) for r in rejected)
        found.setdefault(sources[shard.source].name, []).extend(documents.texts.to_pylist())
    return found
