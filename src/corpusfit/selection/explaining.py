"""The command `explain`: why a text has its score."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.errors import ChangedInputError, InputError, ModelError, UsageError, bad_setting
from corpusfit.core.escaping import harmless
from corpusfit.core.lock import locked
from corpusfit.core.manifest import undamaged
from corpusfit.core.plan import MethodPlan, Plan
from corpusfit.core.types import FILE_BITS, Documents, Source, file_of, in_file, taken, text_array
from corpusfit.scoring import registry, table
from corpusfit.scoring.contract import Effect
from corpusfit.selection.budget import Decision, apply_decision
from corpusfit.selection.cascade import stage_folder
from corpusfit.selection.cascade_stages import stages_of
from corpusfit.selection.explain_job import Explain, Neighbour
from corpusfit.selection.fit import PrepareEncoder, Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.scoring import tallies
from corpusfit.selection.stage_job import StageParts
from corpusfit.text.context import Machine, Run
from corpusfit.text.reading import read_units
from corpusfit.text.units import cut_units


@dataclass(frozen=True)
class Explanation:
    """Why a segment of the run, or any other text, has its score.

    Attributes:
        method: the run's method.
        source: the segment's source; this and the next four are None for a text not of the run.
        row: row of the document in the source.
        segment: number of the segment in the document.
        segments: number of segments in the document.
        selected: whether the segment is selected; None also before a selection.
        copy: whether the segment's row was left out as a copy of another.
        dropped: the stage of a cascade that dropped the segment; None if none did.
        score: the stored score, or that of the text; of a dropped segment, the score of `dropped`.
        threshold: the lowest selected score; None if nothing is selected.
        text: the full text.
        raised: n-grams that raised the score, strongest first.
        lowered: n-grams that lowered the score, strongest first.
        nearest: target texts most similar to the text.
        nearest_by: similarity behind `nearest`: `words` (TF-IDF) or `embedding`.
        learned_from: most similar corpus texts that the method learned from, if it learned any.
        meaning: what the score and the effects are, if that needs words.
    """

    method: str
    source: str | None
    row: int | None
    segment: int | None
    segments: int | None
    selected: bool | None
    copy: bool | None
    dropped: str | None
    score: float
    threshold: float | None
    text: str
    raised: list[Effect]
    lowered: list[Effect]
    nearest: list[Neighbour]
    nearest_by: str
    learned_from: list[Neighbour]
    meaning: str

    @property
    def headline(self) -> str:
        """The score, and whether the text is selected, in a sentence."""
        where = "The text"
        if self.source is not None:
            where = f"{self.source}, row {self.row}, segment {self.segment} of {self.segments}"
        selected = {True: ", selected", False: ", not selected", None: ""}[self.selected]
        selected += ", as a copy of another row" * bool(self.copy)
        if self.dropped is not None:
            return (
                f"{where}: dropped out of the cascade at the stage {self.dropped}, with the score "
                f"{self.score:.4g}{selected}."
            )
        notes = "higher: more like the target"
        if self.threshold is not None:
            notes += f"; lowest selected score: {self.threshold:.4g}"
        return f"{where}: {self.method} score {self.score:.4g}{selected} ({notes})."

    @property
    def similarity(self) -> str:
        """What the nearest target texts are near by, in words."""
        return "words in common (TF-IDF)" if self.nearest_by == "words" else "embedding"

    def __str__(self) -> str:
        """The score, the text, the words that moved the score, and the nearest target texts."""
        lines = [self.headline, self.text, self.meaning]
        effects = {"raised": self.raised, "lowered": self.lowered}
        for how, found in effects.items():
            listed = ", ".join(f"{each.part} ({each.effect:+.3g})" for each in found)
            lines.append(listed and f"Words that {how} the score: {listed}.")
        texts = [f"  {each.cosine:.3f}  {each.text}" for each in self.nearest]
        lines += (
            [f"Target texts nearest to it by {self.similarity}, with their cosine:", *texts]
            if texts
            else []
        )
        return harmless("\n".join(filter(None, lines)))


@dataclass(frozen=True)
class _Found:
    """A text to explain: its units and what is known of it."""

    text: str
    units: list[str]
    known: dict[str, Any]


def explain(
    out: Path, *, row: str | None = None, text: str | None = None, top: int = 10, machine: Machine
) -> Explanation:
    """Explain one score of a run.

    The segment's text is read from the corpus again; only its file is checked for changes.
    """
    folder = SelectionFolder(out)
    with locked(folder.work, "explain", shared=True), undamaged(out):
        return _explained(folder, row, text, top, machine)


def _explained(
    folder: SelectionFolder, row: str | None, text: str | None, top: int, machine: Machine
) -> Explanation:
    manifest = folder.require_scored()
    plan, method = Plan.from_dict(manifest["plan"]), manifest["method"]["name"]
    if manifest["budget"]:
        plan = apply_decision(plan, Decision(**manifest["budget"]))
    _check(row, text, top, method)
    with machine.running(folder.work) as context:
        context.engine.require_shared(folder.work, "DIR")
        run = Run.of(context, plan, [], [Source(**s) for s in manifest["corpus"]])
        found = _any_text(run, text) if text is not None else _segment(run, folder, str(row))
        _require_encoder(run, manifest["encoder"])
        scorer, target = folder.fit / "scorer.safetensors", Sample(folder.fit, "target")
        used = MethodPlan(**manifest["method"])
        summed = registry.build(used.name, used.options).log_weights
        job = Explain(used, summed, scorer, target, plan.embed, run.cache, top)
        explained = run.one(job, found.units)
    # a dropped segment has a score of another stage, which these effects do not explain
    effects = explained.effects if found.known["dropped"] is None else []
    chosen = (folder.finished() or {}).get("selected")
    if chosen is None:
        found.known["selected"] = None
    return Explanation(
        method=method,
        threshold=chosen and chosen["threshold"],
        text=found.text,
        raised=[e for e in effects if e.effect > 0][:top],
        lowered=[e for e in reversed(effects) if e.effect < 0][:top],
        nearest=explained.nearest,
        nearest_by=explained.nearest_by,
        learned_from=explained.learned_from,
        meaning=explained.meaning if found.known["dropped"] is None else "",
        **{"score": explained.score, **found.known},
    )


def _check(row: str | None, text: str | None, top: int, method: str) -> None:
    if (row is None) == (text is None):
        if row is None:
            raise UsageError("`row` or `text` must be given; nothing was given.")
        raise UsageError("`row` and `text` exclude each other. Pass one.")
    if text is not None and not text.strip():
        raise bad_setting("`text`", "a text that is not empty", text)
    if text is not None and registry.load(method).scorer is None:
        raise bad_setting(
            "`text`",
            f"left out for {method}, which cannot score a single text",
            text,
            "Name a row of the corpus with `row`.",
        )
    if top < 1:
        raise bad_setting("`top`", "1 or more", top)


def _require_encoder(run: Run, fingerprint: str | None) -> None:
    if fingerprint is None:
        return
    now = run.one(PrepareEncoder(run.cache), run.plan.embed)
    if now != fingerprint:
        raise ModelError(
            f"The model {run.plan.embed.embedder} changed since the corpus was scored with it. "
            "Restore the model, or score again with another `out`."
        )


def _any_text(run: Run, text: str) -> _Found:
    document = Documents(np.zeros(1, np.int64), text_array([text]))
    units = cut_units(document, run.plan.cut)[1].to_pylist()
    unknown = ("source", "row", "segment", "segments", "selected", "copy", "dropped")
    return _Found(text, units, dict.fromkeys(unknown))


def _segment(run: Run, folder: SelectionFolder, place: str) -> _Found:
    number, row, segment = _parsed(place, run.names)
    shard, nth, here = _shard_of(run, folder, number, row)
    columns = ("segment", "start", "end", "score", "stage", "selected", "copy")
    found = table.read_columns(table.part_path(folder.scores, shard), *columns)
    of_row = {name: column[here] for name, column in zip(columns, found, strict=True)}
    count = len(here)
    if segment >= count:
        raise bad_setting(
            "`row`",
            f"SOURCE:ROW:SEGMENT with a segment from 0 to {count - 1} for row {row}",
            place,
        )
    start, end = int(of_row["start"][segment]), int(of_row["end"][segment])
    texts = _units(run, run.sources[number], nth, row, (start, end))
    where = int(here[segment])
    known = {
        "source": run.names[number],
        "row": row,
        "segment": segment,
        "segments": count,
        "selected": bool(of_row["selected"][segment]),
        "copy": bool(of_row["copy"][segment]),
        "score": float(of_row["score"][segment]),
        **_dropped(run, folder, shard, where, int(of_row["stage"][segment])),
    }
    return _Found("".join(texts), texts, known)


def _dropped(
    run: Run, folder: SelectionFolder, shard: int, place: int, reached: int
) -> dict[str, Any]:
    """The stage of a cascade that dropped the segment at a place, and its score there."""
    stages = stages_of(run.plan) if run.plan.cascade.stages else []
    if reached >= len(stages):
        return {"dropped": None}
    stage = stages[reached - 1]
    places, scores = StageParts(stage_folder(folder, stage)).read(shard)
    return {"dropped": stage.name, "score": float(scores[places == place][0])}


def _parsed(place: str, names: Sequence[str]) -> tuple[int, int, int]:
    """Source number, row and segment; the name of a source can contain colons."""
    for pattern in (r"(.*):(\d+)", r"(.*):(\d+):(\d+)"):
        found = re.fullmatch(pattern, place, re.DOTALL)
        if found and found[1] in names:
            return names.index(found[1]), int(found[2]), int(found[3]) if found.re.groups > 2 else 0
    shown = ", ".join(names[:_SOURCES]) + ", …" * (len(names) > _SOURCES)
    closest = difflib.get_close_matches(place.partition(":")[0], names, n=1)
    guess = f" Did you mean {closest[0]}:{place.partition(':')[2] or 0}?" if closest else ""
    raise bad_setting(
        "`row`", "SOURCE:ROW or SOURCE:ROW:SEGMENT", place, f"Sources of this run: {shown}.{guess}"
    )


_SOURCES = 10
"""Highest number of sources in a message."""


def _shard_of(
    run: Run, folder: SelectionFolder, number: int, row: int
) -> tuple[int, int, NDArray[np.int64]]:
    """The shard that holds a row of a source: its number in the corpus, and in the source.

    Also the places of the row's segments in the shard.
    """
    names, nth, last = run.names, 0, -1
    name = names[number]
    for shard, tally in tallies(folder):
        file = number - tally.source
        if not 0 <= file < tally.files:
            continue
        for rejected, _, reason in tally.rejects:
            if rejected == (file << FILE_BITS) + row:
                raise InputError(
                    f"Row {row} of {name} has no score, because it was rejected ({reason}). "
                    "Name another row, or correct this one and score again."
                )
        rows = table.read_rows(table.part_path(folder.scores, shard), tally.sources(names))
        here = np.flatnonzero(rows == (file << FILE_BITS) + row)
        if len(here):
            return shard, nth, here
        nth, last = nth + 1, int(in_file(rows[file_of(rows) == file]).max(initial=last))
    has = f"{name} has rows 0 to {last}" if last >= 0 else f"{name} has no scored row"
    raise UsageError(f"`row` must name a scored row; {has}; got {row}.")


def _units(run: Run, source: Source, nth: int, row: int, between: tuple[int, int]) -> list[str]:
    """Read a source's n-th shard again; the texts of a row's units between two characters."""
    found_again, changed = corpus.found_again([source], run.plan.read)
    if changed:
        raise ChangedInputError(
            f"{source.name} changed since it was scored. Restore the file, or score again with "
            "another `out`."
        )
    read = dataclasses.replace(run.plan.read, strict=False)
    with run.stage("find the row"):
        shard = next(itertools.islice(corpus.shards(found_again, read), nth, None))
    units, texts, _ = read_units(shard, read, run.plan.cut, (source.name,))
    inside = (units.row == row) & (units.start >= between[0]) & (units.end <= between[1])
    found: list[str] = taken(texts, np.flatnonzero(inside)).to_pylist()
    return found
