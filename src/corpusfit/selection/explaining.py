"""The command `explain`: which words raised or lowered a score."""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit import text as corpus
from corpusfit.core.artifacts import restore
from corpusfit.core.errors import ChangedInputError, InputError, ModelError, UsageError, bad_setting
from corpusfit.core.escaping import one_line
from corpusfit.core.manifest import locked, undamaged
from corpusfit.core.plan import EmbedPlan, Plan
from corpusfit.core.types import (
    FILE_BITS,
    Documents,
    Paired,
    Source,
    Texts,
    Units,
    file_of,
    in_file,
    read_as,
    take_texts,
    text_array,
)
from corpusfit.embed import load
from corpusfit.scoring import registry, table
from corpusfit.scoring.contract import Effect, Member, sum_by_part
from corpusfit.selection.copies import repeats_kind, stored_copies
from corpusfit.selection.fit import Sample, prepare_encoder
from corpusfit.selection.folder import SelectionFolder, tallies
from corpusfit.selection.resolved import Resolved
from corpusfit.selection.result import Selection
from corpusfit.text.context import Machine, Run
from corpusfit.text.reading import cut_units, read_units, with_numbers

_CHARACTERS = 300  # shown of a text
_SOURCES = 10  # named in a message


@dataclass(frozen=True)
class Neighbor:
    """A text and the cosine of its embedding with that of the explained text."""

    text: str
    cosine: float


@dataclass(frozen=True)
class Explanation:
    """Why a segment of a run, or any other text, has its score.

    Attributes:
        method: the run's method.
        source: the segment's source; this and the next four are None for a text not of the run.
        row: row of the document in the source.
        segment: number of the segment in the document.
        segments: number of segments of the row, of which this has the highest score; None if the
            segment was named.
        selected: whether the segment is selected; None also before a selection.
        copy: whether the segment was left out, as its row is a copy of another or as a repeat.
        repeat: whether it was left out as the words of other segments, of which three stay.
        short: whether it was left out as having so few word pieces that it comes after all others.
        score: the stored score, or that of the text.
        threshold: the lowest selected score; None if nothing is selected.
        text: the full text.
        raised: n-grams that raised the score, strongest first.
        lowered: n-grams that lowered the score, strongest first.
        nearest: target texts nearest to the text, of a method that reads embeddings.
        meaning: what the score and the effects are, if that needs words.
        members: of a method that blends others, each with its own score and rank.
    """

    method: str
    source: str | None
    row: int | None
    segment: int | None
    segments: int | None
    selected: bool | None
    copy: bool
    repeat: bool
    short: bool
    score: float
    threshold: float | None
    text: str
    raised: list[Effect]
    lowered: list[Effect]
    nearest: list[Neighbor]
    meaning: str
    members: list[Member]

    @property
    def headline(self) -> str:
        """The score, and whether the text is selected, in a sentence."""
        where = "The text"
        if self.source is not None:
            where = f"{self.source}, row {self.row}, segment {self.segment}"
            if self.segments is not None and self.segments > 1:
                where += f", the highest score of {self.segments:,}"
        selected = {True: ", selected", False: ", not selected", None: ""}[self.selected]
        if self.copy:
            why = "a repeat of other segments" if self.repeat else "a copy of another row"
            selected += f", as {why}"
        if self.short:
            selected += ", as so short a text comes after all others"
        notes = f"higher: {registry.higher(self.method)}"
        if self.threshold is not None:
            notes += f"; lowest selected score: {self.threshold:.4g}"
        return f"{where}: {self.method} score {self.score:.4g}{selected} ({notes})."

    def __str__(self) -> str:
        """The score, the text, the words that moved the score, and the nearest target texts."""
        text = one_line(self.text[:_CHARACTERS])
        lines = [one_line(self.headline), f"  {text}", one_line(self.meaning)]
        for member in self.members:
            lines.append(
                f"  {one_line(member.name)}: score {member.score:.4g}, rank {member.rank:.3f}, "
                f"weight {member.weight:.2g}"
            )
        for how, effects in {"raised": self.raised, "lowered": self.lowered}.items():
            listed = ", ".join(f"{member.part} ({member.effect:+.3g})" for member in effects)
            lines += [f"Words that {how} the score: {one_line(listed)}."] if listed else []
        if self.nearest:
            lines.append("Target texts nearest to it by embedding, with their cosine:")
        for near in self.nearest:
            lines.append(f"  {near.cosine:.3f}  {one_line(near.text[:_CHARACTERS])}")
        return "\n".join(filter(None, lines))


def explain(
    out: Path, *, row: str | None = None, text: str | None = None, top: int = 10, machine: Machine
) -> Explanation:
    """Explain one score of a run."""
    if (row is None) == (text is None):
        raise UsageError("`row` or `text` must be given, and not both. Pass one of them.")
    if text is not None and not text.strip():
        raise bad_setting("`text`", "a text that is not empty", text)
    if top < 1:
        raise bad_setting("`top`", "1 or more", top)
    folder = SelectionFolder(out)
    with locked(folder.work, "explain", shared=True), undamaged(out):
        manifest = folder.require_scored()
        resolved = Resolved.stored(manifest)
        plan = resolved.plan
        name = plan.method.name
        if text is not None and not resolved.method.scores_texts:
            allowed = f"left out for {name}, which cannot score a single text"
            raise bad_setting("`text`", allowed, text, "Name a row of the corpus with `row`.")
        with machine.running(folder.work) as run:
            run.engine.require_shared(folder.work, "DIR")
            facts: dict[str, Any] = dict.fromkeys(
                ("source", "row", "segment", "segments", "selected")
            )
            facts |= {"copy": False, "repeat": False, "short": False}
            if text is None:
                units, texts, facts = _segment(run, resolved, folder, str(row))
            else:
                document = Documents(np.zeros(1, np.int64), text_array([text]))
                units, texts = cut_units(document, plan.cut)
            run.engine.needs_gpu = plan.embed.needs_gpu
            if resolved.encoder and prepare_encoder(run, resolved.embed) != resolved.encoder:
                raise ModelError(
                    f"The model {plan.embed.embedder} changed since the corpus was scored with it. "
                    "Restore the model, or score again with another `out`."
                )
            target = Sample(folder.fit, "target")
            job = partial(_why, plan, folder.scorer, target, resolved.embed, top)
            why = run.one(job, (units, texts))
        selected = (folder.finished() or {}).get("selected")
        threshold = selected and selected["threshold"]
    if selected is None:
        facts["selected"] = None
    effects = why.pop("effects")
    return Explanation(
        **{**why, **facts},
        method=name,
        threshold=threshold,
        text="".join(texts.to_pylist()) if text is None else text,
        raised=[e for e in effects if e.effect > 0][:top],
        lowered=[e for e in reversed(effects) if e.effect < 0][:top],
    )


def _segment(
    run: Run, resolved: Resolved, folder: SelectionFolder, reference: str
) -> tuple[Units, Texts, dict[str, Any]]:
    """A segment's units, their texts, and stored facts."""
    scored = resolved.corpus
    number, row, segment = _parsed(_of_id(folder, reference), scored.names)
    name = scored.names[number]
    nth = 0
    last = -1
    for shard, tally in tallies(folder):
        file = number - tally.source
        if not 0 <= file < tally.files:
            continue
        numbered = (file << FILE_BITS) + row
        for rejected, _, reason in tally.rejects:
            if rejected == numbered:
                raise InputError(
                    f"Row {row} of {name} has no score, because it was rejected ({reason}). "
                    "Name another row, or correct this one and score again."
                )
        path = table.part_path(folder.scores, shard)
        rows = table.read_rows(path, tally.sources(scored.names))
        columns = ("start", "end", "score", "selected", "copy", "tokens", "segment")
        values = table.read_columns(path, *columns)
        of_row = np.flatnonzero(rows == numbered)
        places = of_row
        if segment is not None:
            places = of_row[values[-1][of_row] == segment]
        if len(places):
            break
        nth = nth + 1
        last = int(in_file(rows[file_of(rows) == file]).max(initial=last))
    else:
        has = f"{name} has rows 0 to {last}" if last >= 0 else f"{name} has no scored row"
        if scored.read.where:
            has += ", of which `read.where` leaves some out"
        raise UsageError(f"`row` must name a scored row and segment; {has}; got {reference}.")
    at = int(places[np.argmax(values[2][places])])
    start, end, score, selected, copy, tokens, found = (column[at].item() for column in values)
    manifest = folder.finished() or folder.require_scored()
    choose = manifest["plan"]["choose"]
    chosen = manifest.get("selected") or {}
    repeats = stored_copies(folder, repeats_kind(choose.get("dedup", ""))) if copy else None
    numbers = corpus.numbering(scored.sources)[0]
    first = max(n for n in numbers if n <= number)  # of the source, or of the run that has it
    sources = [s for s, n in zip(scored.sources, numbers, strict=True) if n == first]
    in_shard = row + ((number - first) << FILE_BITS)
    units, texts = _units(run, resolved, sources, nth, in_shard, (start, end))
    return (
        units,
        texts,
        {
            "source": name,
            "row": row,
            "segment": found,
            "segments": len(of_row) if segment is None else None,
            "selected": selected,
            "copy": copy,
            "repeat": repeats is not None and bool(repeats.documents(shard, len(rows))[at]),
            "short": not (selected or copy)
            and tokens < chosen.get("least", 0)
            and len(of_row) == 1,
            "score": score,
        },
    )


def _of_id(folder: SelectionFolder, reference: str) -> str:
    """The place of the first selected text that has this id; the reference itself without one."""
    done = folder.finished()
    for row in Selection(folder.path, done) if done else ():
        if str(row["id"]) == reference:
            return f"{row['source']}:{row['row']}:{row['segment']}"
    return reference


def _parsed(reference: str, names: Sequence[str]) -> tuple[int, int, int | None]:
    """Source number, row and segment, if any; the name of a source can contain colons."""
    for pattern in (r"(.*):(\d+)()", r"(.*):(\d+):(\d+)"):
        match = re.fullmatch(pattern, reference, re.DOTALL)
        if match and match[1] in names:
            return names.index(match[1]), int(match[2]), int(match[3]) if match[3] else None
    shown = ", ".join(names[:_SOURCES]) + ", …" * (len(names) > _SOURCES)
    allowed = "SOURCE:ROW or SOURCE:ROW:SEGMENT, or the id of a selected text"
    raise bad_setting("`row`", allowed, reference, f"Sources of this run: {shown}.")


def _units(
    run: Run,
    resolved: Resolved,
    sources: Sequence[Source],
    nth: int,
    row: int,
    between: tuple[int, int],
) -> tuple[Units, Texts]:
    """Read the n-th shard of some sources again; a row's units between two characters."""
    current, changed = corpus.current_sources(sources, resolved.plan.read, run.engine, run.surveys)
    if changed:
        raise ChangedInputError(
            f"{changed[0]} changed since it was scored. Restore the file, or score again with "
            "another `out`."
        )
    read = replace(resolved.plan.read, strict=False)
    with run.stage("find the row"):
        shard = next(itertools.islice(corpus.shards(current, read), nth, None))
    units, texts, _ = read_units(shard, read, resolved.plan.cut, resolved.corpus.names)
    inside = (units.row == row) & (units.start >= between[0]) & (units.end <= between[1])
    places = np.flatnonzero(inside)
    return units.take(places), take_texts(texts, places)


def _why(
    plan: Plan,
    scorer_path: Path,
    target: Sample,  # the target's texts and, for a method on embeddings, its vectors
    embed: EmbedPlan,
    top: int,
    segment: tuple[Units, Texts],
) -> dict[str, Any]:
    """The score of some units, the effects of their n-grams on it, and the nearest texts."""
    method = registry.build(plan.method.name, plan.method.options)
    units, texts = segment
    batch: Any = texts
    nearest: list[Neighbor] = []
    if method.encodes:
        encoded = Paired(batch, load(embed).encode(batch))
        similarity = registry.unit_method("domain_cosine", {"centered": False})
        known = target.batch("embedding")
        cosines = similarity.fit(encoded.vectors, known, seed=0).score(known)
        others = target.read_texts()
        best = np.argsort(-cosines, kind="stable")[:top]
        nearest = [Neighbor(others[i], float(cosines[i])) for i in best if cosines[i] > 0.0]
        batch = read_as(encoded, method.reads)
    found: dict[str, Any] = {"effects": [], "nearest": nearest, "meaning": "", "members": []}
    if method.scorer is None:
        return found
    scorer = restore(scorer_path, registry.scorer_class)
    found["meaning"] = scorer.meaning()
    if method.whole_segments:
        batch = texts = text_array(["".join(texts.to_pylist())])
    batch = with_numbers(batch, units, plan.read, method.fields)
    found["members"] = scorer.explain_members(batch)
    # a segment's score is the sum of its units' log weights, the mean of other scores
    share = 1.0 if method.log_weights else 1 / len(texts)
    sums: defaultdict[str, float] = defaultdict(float)
    for unit in texts.to_pylist():
        for effect in scorer.explain(unit):
            sums[effect.part] += effect.effect
    found["effects"] = sum_by_part(sums.keys(), (float(n * share) for n in sums.values()))
    return found | {"score": float(scorer.score(batch).sum(dtype=np.float64)) * share}
