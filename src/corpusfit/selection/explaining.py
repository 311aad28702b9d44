"""The command `explain`: why a text has its score."""

from __future__ import annotations

import dataclasses
import difflib
import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.artifacts import restore
from corpusfit.core.errors import ChangedInputError, InputError, ModelError, UsageError, bad_setting
from corpusfit.core.escaping import harmless
from corpusfit.core.manifest import locked, undamaged
from corpusfit.core.plan import EmbedPlan, MethodPlan
from corpusfit.core.types import (
    FILE_BITS,
    Documents,
    Paired,
    Source,
    file_of,
    in_file,
    read_as,
    take_texts,
    text_array,
)
from corpusfit.embed import load
from corpusfit.scoring import registry, table
from corpusfit.scoring.contract import Effect, Scorer, sum_by_part
from corpusfit.scoring.tokens import word_cosines
from corpusfit.selection.copies import repeats_kind, stored_copies
from corpusfit.selection.fit import Sample, prepare_encoder
from corpusfit.selection.folder import SelectionFolder, tallies
from corpusfit.selection.resolving import Resolved
from corpusfit.text.context import Machine, Run
from corpusfit.text.reading import cut_units, read_units


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
        copy: whether the segment was left out, as its row is a copy of another or as a repeat.
        repeat: whether it was left out as the words of other segments, of which three stay.
        score: the stored score, or that of the text.
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
    repeat: bool | None
    score: float
    threshold: float | None
    text: str
    raised: list[Effect]
    lowered: list[Effect]
    nearest: list[Neighbor]
    nearest_by: str
    learned_from: list[Neighbor]
    meaning: str

    @property
    def headline(self) -> str:
        """The score, and whether the text is selected, in a sentence."""
        where = "The text"
        if self.source is not None:
            where = f"{self.source}, row {self.row}, segment {self.segment} of {self.segments}"
        selected = {True: ", selected", False: ", not selected", None: ""}[self.selected]
        if self.repeat:
            selected += ", as a repeat of other segments"
        elif self.copy:
            selected += ", as a copy of another row"
        notes = f"higher: {registry.higher(self.method)}"
        if self.threshold is not None:
            notes += f"; lowest selected score: {self.threshold:.4g}"
        return f"{where}: {self.method} score {self.score:.4g}{selected} ({notes})."

    @property
    def similarity(self) -> str:
        """The similarity behind `nearest`, in words."""
        return "words in common (TF-IDF)" if self.nearest_by == "words" else "embedding"

    def __str__(self) -> str:
        """The score, the text, the words that moved the score, and the nearest target texts."""
        lines = [self.headline, self.text, self.meaning]
        effects = {"raised": self.raised, "lowered": self.lowered}
        for how, parts in effects.items():
            listed = ", ".join(f"{each.part} ({each.effect:+.3g})" for each in parts)
            lines.append(listed and f"Words that {how} the score: {listed}.")
        texts = [f"  {each.cosine:.3f}  {each.text}" for each in self.nearest]
        lines += (
            [f"Target texts nearest to it by {self.similarity}, with their cosine:", *texts]
            if texts
            else []
        )
        return harmless("\n".join(filter(None, lines)))


def explain(
    out: Path, *, row: str | None = None, text: str | None = None, top: int = 10, machine: Machine
) -> Explanation:
    """Explain one score of a run."""
    folder = SelectionFolder(out)
    with locked(folder.work, "explain", shared=True), undamaged(out):
        manifest = folder.require_scored()
        resolved = Resolved.stored(manifest)
        plan = resolved.plan
        used = plan.method
        _check(row, text, top, used)
        with machine.running(folder.work) as context:
            context.engine.require_shared(folder.work, "DIR")
            sources = [Source(**s) for s in manifest["corpus"]]
            run = Run.of(context, plan, [], sources, commits=manifest.get("commits", {}))
            if text is not None:
                document = Documents(np.zeros(1, np.int64), text_array([text]))
                units: list[str] = cut_units(document, plan.cut)[1].to_pylist()
                facts: dict[str, Any] = dict.fromkeys(_OF_SEGMENT)
            else:
                units, facts = _segment(run, folder, str(row))
            fingerprint = manifest["encoder"]
            context.engine.needs_gpu = plan.embed.needs_gpu
            embed = run.pinned(plan.embed)
            if fingerprint and prepare_encoder(run, embed) != fingerprint:
                raise ModelError(
                    f"The model {plan.embed.embedder} changed since the corpus was scored with it. "
                    "Restore the model, or score again with another `out`."
                )
            scorer, target = folder.scorer, Sample(folder.fit, "target")
            summed = registry.build(used.name, used.options).log_weights
            job = Explain(used, summed, scorer, target, embed, run.cache, top)
            explained = run.one(job, units)
        selected = (folder.finished() or {}).get("selected")
        threshold = selected and selected["threshold"]
    if selected is None:
        facts["selected"] = None
    effects = explained.effects
    return Explanation(
        method=used.name,
        threshold=threshold,
        text="".join(units) if text is None else text,
        raised=[e for e in effects if e.effect > 0][:top],
        lowered=[e for e in reversed(effects) if e.effect < 0][:top],
        nearest=explained.nearest,
        nearest_by=explained.nearest_by,
        learned_from=explained.learned_from,
        meaning=explained.meaning,
        **{"score": explained.score, **facts},
    )


_OF_SEGMENT = ("source", "row", "segment", "segments", "selected", "copy", "repeat")
"""What is stored of a segment and not of another text."""


def _check(row: str | None, text: str | None, top: int, used: MethodPlan) -> None:
    if (row is None) == (text is None):
        if row is None:
            raise UsageError("`row` or `text` must be given; nothing was given.")
        raise UsageError("`row` and `text` exclude each other. Pass one.")
    if text is not None and not text.strip():
        raise bad_setting("`text`", "a text that is not empty", text)
    method = registry.build(used.name, used.options)
    if text is not None and not method.scores_texts:
        raise bad_setting(
            "`text`",
            f"left out for {used.name}, which cannot score a single text",
            text,
            "Name a row of the corpus with `row`.",
        )
    if top < 1:
        raise bad_setting("`top`", "1 or more", top)


def _segment(run: Run, folder: SelectionFolder, reference: str) -> tuple[list[str], dict[str, Any]]:
    """A segment's units and stored facts."""
    number, row, segment = _parsed(reference, run.names)
    shard, nth, places = _shard_of(run, folder, number, row)
    columns = ("start", "end", "score", "selected", "copy", "segment")
    *values, segments = table.read_columns(table.part_path(folder.scores, shard), *columns)
    places_of = dict(zip(segments[places].tolist(), places.tolist(), strict=True))
    if segment not in places_of:
        raise bad_setting(
            "`row`",
            f"SOURCE:ROW:SEGMENT with a segment from 0 to {max(places_of)} for row {row}",
            reference,
        )
    at = places_of[segment]
    start, end, score, selected, copy = (column[at] for column in values)
    facts: dict[str, Any] = {
        "source": run.names[number],
        "row": row,
        "segment": segment,
        "segments": max(places_of) + 1,
        "selected": bool(selected),
        "copy": bool(copy),
        "repeat": bool(copy) and _is_repeat(folder, shard, at, len(values[0])),
        "score": float(score),
    }
    numbers = corpus.numbering(run.sources)[0]
    first = max(n for n in numbers if n <= number)  # of the source, or of the run that has it
    sources = [s for s, n in zip(run.sources, numbers, strict=True) if n == first]
    row += (number - first) << FILE_BITS
    return _units(run, sources, nth, row, (int(start), int(end))), facts


def _is_repeat(folder: SelectionFolder, shard: int, place: int, n: int) -> bool:
    """Whether the segment at a place among n of a shard was left out as a repeat."""
    choose = (folder.finished() or folder.require_scored())["plan"]["choose"]
    repeats = stored_copies(folder, repeats_kind(choose.get("dedup", "")))
    return repeats is not None and bool(repeats.documents(shard, n)[place])


def _parsed(reference: str, names: Sequence[str]) -> tuple[int, int, int]:
    """Source number, row and segment; the name of a source can contain colons."""
    for pattern in (r"(.*):(\d+)", r"(.*):(\d+):(\d+)"):
        match = re.fullmatch(pattern, reference, re.DOTALL)
        if match and match[1] in names:
            return names.index(match[1]), int(match[2]), int(match[3]) if match.re.groups > 2 else 0
    shown = ", ".join(names[:_SOURCES]) + ", …" * (len(names) > _SOURCES)
    closest = difflib.get_close_matches(reference.partition(":")[0], names, n=1)
    guess = f" Did you mean {closest[0]}:{reference.partition(':')[2] or 0}?" if closest else ""
    raise bad_setting(
        "`row`",
        "SOURCE:ROW or SOURCE:ROW:SEGMENT",
        reference,
        f"Sources of this run: {shown}.{guess}",
    )


_SOURCES = 10
"""Highest number of sources in a message."""


def _shard_of(
    run: Run, folder: SelectionFolder, number: int, row: int
) -> tuple[int, int, NDArray[np.int64]]:
    """The shard that holds a row of a source: its number in the corpus, and in the source."""
    # Also the places of the row's segments in the shard.
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
        positions = np.flatnonzero(rows == (file << FILE_BITS) + row)
        if len(positions):
            return shard, nth, positions
        nth, last = nth + 1, int(in_file(rows[file_of(rows) == file]).max(initial=last))
    has = f"{name} has rows 0 to {last}" if last >= 0 else f"{name} has no scored row"
    if run.plan.read.where:
        has += ", of which `read.where` leaves some out"
    raise UsageError(f"`row` must name a scored row; {has}; got {row}.")


def _units(
    run: Run, sources: Sequence[Source], nth: int, row: int, between: tuple[int, int]
) -> list[str]:
    """Read the n-th shard of some sources again; a row's units between two characters."""
    current, changed = corpus.current_sources(sources, run.plan.read, run.engine, run.surveys)
    if changed:
        raise ChangedInputError(
            f"{changed[0]} changed since it was scored. Restore the file, or score again with "
            "another `out`."
        )
    read = dataclasses.replace(run.plan.read, strict=False)
    with run.stage("find the row"):
        shard = next(itertools.islice(corpus.shards(current, read), nth, None))
    units, texts, _ = read_units(shard, read, run.plan.cut, run.names)
    inside = (units.row == row) & (units.start >= between[0]) & (units.end <= between[1])
    unit_texts: list[str] = take_texts(texts, np.flatnonzero(inside)).to_pylist()
    return unit_texts


@dataclass(frozen=True)
class Neighbor:
    """A text and its cosine similarity with the explained text."""

    text: str
    cosine: float


@dataclass(frozen=True)
class Explained:
    """The explanation of a segment's score."""

    # mean or sum of the units' scores; None for a method that cannot score a single text
    score: float | None
    # effects of the n-grams on the score, in descending order; empty for a method that does not
    # read words
    effects: list[Effect]
    nearest: list[Neighbor]  # most similar target texts; none if the units have no word
    nearest_by: str  # similarity behind `nearest`: `words` (TF-IDF) or `embedding`
    # most similar corpus texts that the method learned from, if it learned any
    learned_from: list[Neighbor]
    meaning: str = ""  # what the score and the effects are, if that needs words


@dataclass(frozen=True)
class Explain:
    """Explain the score of a segment, given as its units' texts.

    Similarity is the cosine of TF-IDF vectors, or of `domain_cosine` on the run's embeddings.
    """

    method: MethodPlan
    summed: bool  # whether a segment's score is the sum of its units' scores, not the mean
    scorer: Path
    target: Sample  # the target's texts and, for a method on embeddings, its vectors
    embed: EmbedPlan
    cache: Path
    top: int  # most target texts to return

    def __call__(self, units: list[str]) -> Explained:
        method = registry.build(self.method.name, self.method.options)
        texts = text_array(units)
        if method.encodes:
            encoded = Paired(texts, load(self.embed, self.cache).encode(texts))
            by, nearest = "embedding", self._nearest(encoded.vectors, "embedding")
            batch = read_as(encoded, method.reads)
        else:
            by, nearest, batch = "words", self._nearest(texts, "words"), texts
        if method.scorer is None:
            return Explained(None, [], nearest, by, [])
        scorer = restore(self.scorer, registry.scorer_class)
        if method.fields:  # the numbers are in the row, not in its text
            return Explained(None, [], nearest, by, [], scorer.meaning())
        if method.whole_segments:
            units = ["".join(units)]
            batch = text_array(units)
        share = 1.0 if self.summed else 1 / len(units)
        score = float(scorer.score(batch).sum(dtype=np.float64)) * share
        learned = scorer.nearest(encoded.vectors)[: self.top] if method.encodes else []
        examples = [Neighbor(*neighbor) for neighbor in learned]
        effects = effects_of(scorer, units, share)
        return Explained(score, effects, nearest, by, examples, scorer.meaning())

    def _nearest(self, batch: Any, by: str) -> list[Neighbor]:
        if by == "embedding":
            target = self.target.batch("embedding")
            similarity = registry.unit_method("domain_cosine", {"centered": False})
            cosines: NDArray[Any] = similarity.fit(batch, target, seed=0).score(target)
        else:
            cosines = word_cosines(batch, self.target.batch("text"))
        texts = self.target.read_texts()
        best = np.argsort(-cosines, kind="stable")[: self.top]
        return [Neighbor(texts[i], float(cosines[i])) for i in best if cosines[i] > 0.0]


def effects_of(scorer: Scorer[Any], units: list[str], share: float) -> list[Effect]:
    """Effects of n-grams on a segment's score; each unit counts by `share`."""
    sums: defaultdict[str, float] = defaultdict(float)
    for unit in units:
        for effect in scorer.explain(unit):
            sums[effect.part] += effect.effect
    return sum_by_part(sums.keys(), (float(total * share) for total in sums.values()))
