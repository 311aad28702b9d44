"""The command `audit`: compares a selection and its scores with known domains."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.errors import UsageError, bad_setting
from corpusfit.core.lock import locked
from corpusfit.core.manifest import undamaged
from corpusfit.core.plan import Plan
from corpusfit.core.types import Reject, Shard, Source
from corpusfit.scoring.contract import SOURCE
from corpusfit.scoring.metrics import Figures, figures
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.labels_job import (
    NONE,
    Counted,
    CountLabels,
    different_shards,
    matches,
    shown,
)
from corpusfit.selection.scoring import tallies
from corpusfit.text.context import Machine, Run


@dataclass(frozen=True)
class DomainCount:
    """How much of one domain is in the corpus and in the selection.

    Attributes:
        segments: number of segments in the corpus.
        tokens: estimated word pieces of `segments`.
        selected: number of selected segments; this and the next three are None before a selection.
        selected_tokens: estimated word pieces of `selected`.
        taken: share of the domain's segments that are selected.
        of_selection: share of all selected segments that are of this domain.
        sought: whether a glob of `--domain` matches this domain; None without globs.
    """

    segments: int
    tokens: int
    selected: int | None
    selected_tokens: int | None
    taken: float | None
    of_selection: float | None
    sought: bool | None


@dataclass(frozen=True)
class Finding:
    """How well the selection and the scores find a domain.

    Attributes:
        domain: globs that define the domain.
        segments: number of segments in the domain.
        chance: their share of the corpus, which is the precision of a random selection.
        selected: number of selected segments, in the domain or not; this and the next three are
            None before a selection.
        precision: share of the selected segments that are in the domain; None if none is selected.
        recall: share of the domain's segments that are selected.
        f1: harmonic mean of precision and recall.
        scores: metrics of the scores of all segments, independent of the selection.
    """

    domain: list[str]
    segments: int
    chance: float
    selected: int | None
    precision: float | None
    recall: float | None
    f1: float | None
    scores: Figures


@dataclass(frozen=True)
class Audit:
    """A run compared with known domains.

    Attributes:
        method: the run's method.
        truth: where a row's domain comes from: `source`, or the name of a field.
        segments: number of scored segments.
        domains: counts by domain, the domain with the most selected segments first.
        finding: how well the domain of `--domain` is found; None without globs.
    """

    method: str
    truth: str
    segments: int
    domains: dict[str, DomainCount]
    finding: Finding | None


def audit(out: Path, *, truth: str = SOURCE, domain: Sequence[str] = (), machine: Machine) -> Audit:
    """Compare a run with known domains.

    Memory grows with the number of domains; with `domain` also with the corpus: 5 bytes per segment
    while the parts are read, about 25 at the end.

    Reference: TADPOLE, Figure 5 (DANA, Table 2); Aharoni and Goldberg (2020), section 4.4, Table 7.
    """
    folder = SelectionFolder(out)
    with locked(folder.work, "audit", shared=True), undamaged(out):
        return _audited(folder, truth, domain, machine)


def _audited(folder: SelectionFolder, truth: str, domain: Sequence[str], machine: Machine) -> Audit:
    manifest = folder.require_scored()
    chosen = (folder.finished() or {}).get("selected") is not None
    plan = Plan.from_dict(manifest["plan"])
    if truth != SOURCE:
        plan = dataclasses.replace(plan, read=dataclasses.replace(plan.read, id_field=truth))
    sources = [Source(**s) for s in manifest["corpus"]]
    names = tuple(s.name for s in sources)
    job = CountLabels(folder.scores, plan.read, tuple(domain), names)
    with machine.running(folder.work) as context:
        context.engine.require_shared(folder.work, "DIR")
        if truth != SOURCE:
            sources = context.find_again(sources, plan.read, folder.path)
        run = Run.of(context, plan, [], sources)
        total = _Total()
        for counted in (
            _by_source(run, folder, job) if truth == SOURCE else _by_field(run, folder, job)
        ):
            total.add(counted)
        _check(run, truth, domain, list(total.counts))
    whole = np.sum([*total.counts.values()], axis=0)
    counts = sorted(total.counts.items(), key=lambda c: (-c[1][2], -c[1][0], c[0]))
    domains = {}
    for name, own in counts:
        segments, tokens, selected, selected_tokens = own.tolist()
        domains[name] = DomainCount(
            segments,
            tokens,
            selected if chosen else None,
            selected_tokens if chosen else None,
            selected / segments if chosen else None,
            selected / int(whole[2]) if chosen and whole[2] else None,
            matches(name, domain) if domain else None,
        )
    finding = _finding(total, whole, domain, chosen=chosen) if domain else None
    return Audit(manifest["method"]["name"], truth, int(whole[0]), domains, finding)


class _Total:
    """The sum over all parts; their order does not matter."""

    def __init__(self) -> None:
        self.counts: dict[str, NDArray[np.int64]] = {}
        self._parts: dict[int, tuple[NDArray[np.float32], NDArray[np.bool_]]] = {}

    def add(self, part: Counted) -> None:
        """Add a part; labels without segments are left out."""
        for label, counts in zip(part.labels, part.counts, strict=True):
            if counts[0]:
                before = self.counts.get(label)
                self.counts[label] = counts if before is None else before + counts
        self._parts[part.part] = part.scores, part.inside

    def figures(self) -> Figures:
        """Metrics of the scores, in the corpus's order."""
        parts = [self._parts.pop(part) for part in sorted(self._parts)]
        scores = np.concatenate([scores for scores, _ in parts])
        inside = np.concatenate([inside for _, inside in parts])
        del parts
        return figures(scores, inside)


def _by_source(run: Run, folder: SelectionFolder, job: CountLabels) -> Iterator[Counted]:
    pieces: list[tuple[int, Shard | None]] = [(shard, None) for shard, _ in tallies(folder)]
    return run.over("audit", job, pieces)


def _by_field(run: Run, folder: SelectionFolder, job: CountLabels) -> Iterator[Counted]:
    parts = {shard for shard, _ in tallies(folder)}

    def pieces() -> Iterator[tuple[int, Shard]]:
        for shard in run.shards():
            if shard.index not in parts:
                raise different_shards(job.read.id_field)
            yield shard.index, shard

    with run.stage("audit", run.size):
        yield from run.map(job, pieces())
    if run.shard_count != len(parts):
        raise different_shards(job.read.id_field)


def _check(run: Run, truth: str, domain: Sequence[str], known: list[str]) -> None:
    if truth != SOURCE and known == [NONE]:
        raise _no_field(run, truth)
    for glob in domain:
        if not any(matches(label, [glob]) for label in known):
            raise bad_setting(
                "`domain`",
                "a glob that matches a domain of the corpus",
                glob,
                f"Domains of the corpus: {shown(known, glob)}.",
            )


def _no_field(run: Run, truth: str) -> UsageError:
    """The error for a field that no row has; reading it as the text field names the fields."""
    read = dataclasses.replace(run.plan.read, text_field=truth)
    refused = (r.reason for r in corpus.rows(next(run.shards()), read) if isinstance(r, Reject))
    fields = next((f for r in refused if (f := r.partition("fields are ")[2])), "")
    return bad_setting(
        "`truth`",
        f"{SOURCE}, or a field that holds a string, a whole number or a boolean",
        truth,
        f"The first row without this field has the fields {fields}." if fields else "",
    )


def _finding(
    total: _Total, whole: NDArray[np.int64], domain: Sequence[str], *, chosen: bool
) -> Finding:
    inside = [n for label, n in total.counts.items() if matches(label, domain)]
    segments, _, hits, _ = np.sum(inside, axis=0).tolist()
    selected = int(whole[2])
    by_selection: dict[str, Any] = dict.fromkeys(("selected", "precision", "recall", "f1"))
    if chosen:
        by_selection = {
            "selected": selected,
            "precision": hits / selected if selected else None,
            "recall": hits / segments,
            "f1": 2 * hits / (selected + segments),
        }
    return Finding(
        domain=list(domain),
        segments=segments,
        chance=segments / int(whole[0]),
        scores=total.figures(),
        **by_selection,
    )
