"""The command `audit`: compares a selection and its scores with known domains."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import locked, undamaged
from corpusfit.core.plan import Plan, ReadPlan
from corpusfit.core.types import Reject, Shard, Source
from corpusfit.scoring import table
from corpusfit.scoring.contract import SOURCE
from corpusfit.scoring.figures import Figures, figures
from corpusfit.selection.folder import SelectionFolder, tallies
from corpusfit.selection.labels import NONE, different_shards, labels_of, matches, shown
from corpusfit.text.context import Machine, Run
from corpusfit.text.reading import Tally


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
        manifest = folder.require_scored()
        selected = (folder.finished() or {}).get("selected") is not None
        plan = Plan.from_dict(manifest["plan"])
        # the label is read in place of the id
        if truth != SOURCE:
            plan = dataclasses.replace(plan, read=dataclasses.replace(plan.read, id_field=truth))
        sources = [Source(**s) for s in manifest["corpus"]]
        names = corpus.numbering(sources)[1]
        job = partial(_count_labels, folder.scores, plan.read, tuple(domain), names)
        with machine.running(folder.work) as context:
            context.engine.require_shared(folder.work, "DIR")
            # only labels need the corpus; the names of sources are stored with the scores
            if truth != SOURCE:
                sources = context.find_again(sources, plan.read, folder.path)
            run = Run.of(context, plan, [], sources)
            counts, parts = _counted(run, folder, job, by_source=truth == SOURCE)
            _check(run, truth, domain, list(counts))
    whole = np.sum([*counts.values()], axis=0).tolist()
    domains = {}
    for name, each in sorted(counts.items(), key=lambda c: (-c[1][2], -c[1][0], c[0])):
        segments, tokens, taken, taken_tokens = each.tolist()
        domains[name] = DomainCount(
            segments,
            tokens,
            taken if selected else None,
            taken_tokens if selected else None,
            taken / segments if selected else None,
            taken / whole[2] if selected and whole[2] else None,
            matches(name, domain) if domain else None,
        )
    finding = None
    if domain:
        inside = [n for label, n in counts.items() if matches(label, domain)]
        segments, _, hits, _ = np.sum(inside, axis=0).tolist()
        # release parts while concatenating: they are as large as the result
        in_order = [parts.pop(part) for part in sorted(parts)]
        scores = np.concatenate([scores for scores, _ in in_order])
        in_domain = np.concatenate([inside for _, inside in in_order])
        del in_order
        finding = Finding(
            list(domain),
            segments,
            segments / whole[0],
            whole[2] if selected else None,
            hits / whole[2] if selected and whole[2] else None,
            hits / segments if selected else None,
            2 * hits / (whole[2] + segments) if selected else None,
            figures(scores, in_domain),
        )
    return Audit(manifest["method"]["name"], truth, whole[0], domains, finding)


def _counted(
    run: Run,
    folder: SelectionFolder,
    job: Callable[[tuple[int, Shard | None]], Counted],
    *,
    by_source: bool,
) -> tuple[dict[str, NDArray[np.int64]], dict[int, tuple[NDArray[np.float32], NDArray[np.bool_]]]]:
    """The counts by label over all parts; scores of each part, and what is in the domain."""
    scored = {shard for shard, _ in tallies(folder)}
    counts: dict[str, NDArray[np.int64]] = {}
    parts = {}

    def add(part: Counted) -> None:
        for label, more in zip(part.labels, part.counts, strict=True):
            if more[0]:  # labels without segments are left out
                counts[label] = counts[label] + more if label in counts else more
        parts[part.part] = part.scores, part.inside

    def scored_shards() -> Iterator[tuple[int, Shard]]:
        for shard in run.shards():
            if shard.index not in scored:
                raise different_shards(run.plan.read.id_field)
            yield shard.index, shard

    if by_source:
        pieces: list[tuple[int, Shard | None]] = [(shard, None) for shard in sorted(scored)]
        for part in run.over("audit", job, pieces):
            add(part)
        return counts, parts
    with run.stage("audit", run.size):
        for part in run.map(job, scored_shards()):
            add(part)
    if run.shard_count != len(scored):
        raise different_shards(run.plan.read.id_field)
    return counts, parts


@dataclass(frozen=True)
class Counted:
    """Counts of one part's m scored segments by label, k different labels."""

    part: int
    labels: list[str]
    # [k, 4]: segments, their word pieces, selected segments, their word pieces
    counts: NDArray[np.int64]
    scores: NDArray[np.float32]  # [m]; empty without a domain
    # bool [m], whether each segment is in the domain; empty without a domain
    inside: NDArray[np.bool_]


def _count_labels(
    scores: Path,
    read: ReadPlan,  # how the corpus is read; its `id_field` is the label's field
    domain: tuple[str, ...],
    names: tuple[str, ...],
    piece: tuple[int, Shard | None],
) -> Counted:
    """Count a part's segments by label: their source, or the label of their row in a shard.

    Reference: Aharoni and Goldberg (2020), section 4.4; TADPOLE, Figure 5.
    """
    part, shard = piece
    path = table.part_path(scores, part)
    tokens, selected = (
        np.asarray(c, np.int64) for c in table.read_columns(path, "tokens", "selected")
    )
    if shard is None:
        labels, places = table.read_sources(path)
    else:
        wanted = table.read_rows(path, Tally.of(shard).sources(names))
        labels, places = labels_of(shard, read, wanted)
    counts = np.zeros((len(labels), 4), np.int64)
    each = (np.ones_like(tokens), tokens, selected, tokens * selected)
    for column, values in enumerate(each):
        np.add.at(counts[:, column], places, values)
    if not domain:
        return Counted(part, labels, counts, np.empty(0, np.float32), np.empty(0, np.bool_))
    matching = np.array([matches(label, domain) for label in labels], np.bool_)
    (score,) = table.read_columns(path, "score")
    return Counted(part, labels, counts, np.asarray(score, np.float32), matching[places])


def _check(run: Run, truth: str, domain: Sequence[str], labels: list[str]) -> None:
    if truth != SOURCE and labels == [NONE]:
        # reading the field as the text names the fields of a row
        read = dataclasses.replace(run.plan.read, text_field=truth)
        refused = (r.reason for r in corpus.rows(next(run.shards()), read) if isinstance(r, Reject))
        fields = next((f for r in refused if (f := r.partition("fields are ")[2])), "")
        raise bad_setting(
            "`truth`",
            f"{SOURCE}, or a field that holds a string, a number or a boolean",
            truth,
            f"The first row without this field has the fields {fields}." if fields else "",
        )
    for glob in domain:
        if not any(matches(label, [glob]) for label in labels):
            raise bad_setting(
                "`domain`",
                "a glob that matches a domain of the corpus",
                glob,
                f"Domains of the corpus: {shown(labels, glob)}.",
            )
