"""`audit`: a selection and its scores against known domains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from os import PathLike
from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

import corpusfit
from corpusfit.contracts import MachineOptions, bad_setting, machine_of, with_keywords
from corpusfit_papers.figures import Figures, figures

SOURCE = "source"
_SHOWN = 8  # most names of domains in a message


@dataclass(frozen=True)
class DomainCount:
    """How much of one domain is in the corpus and in the selection.

    Attributes:
        segments: number of segments in the corpus.
        tokens: estimated word pieces of `segments`.
        selected: number of selected segments.
        selected_tokens: estimated word pieces of `selected`.
        taken: share of the domain's segments that are selected.
        of_selection: share of all selected segments that are of this domain; None if none is.
        sought: whether a glob of `domain` matches this domain; None without globs.
    """

    segments: int
    tokens: int
    selected: int
    selected_tokens: int
    taken: float
    of_selection: float | None
    sought: bool | None


@dataclass(frozen=True)
class Finding:
    """How well the selection and the scores find a domain.

    Attributes:
        domain: globs that define the domain.
        segments: number of segments in the domain.
        chance: their share of the corpus, which is the precision of a random selection.
        selected: number of selected segments, in the domain or not.
        precision: share of the selected segments that are in the domain; None if none is selected.
        recall: share of the domain's segments that are selected.
        f1: harmonic mean of precision and recall.
        scores: metrics of the scores of all segments, independent of the selection.
    """

    domain: list[str]
    segments: int
    chance: float
    selected: int
    precision: float | None
    recall: float
    f1: float
    scores: Figures


@dataclass(frozen=True)
class Audit:
    """A run compared with known domains.

    Attributes:
        method: the run's method.
        truth: where a row's domain comes from: `source`, or the name of a field.
        segments: number of scored segments.
        domains: counts by domain, the domain with the most selected segments first.
        finding: how well the domain of `domain` is found; None without globs.
    """

    method: str
    truth: str
    segments: int
    domains: dict[str, DomainCount]
    finding: Finding | None


@with_keywords()
def audit(
    out: str | PathLike[str],
    *,
    truth: str = SOURCE,
    domain: str | Sequence[str] = (),
    machine: corpusfit.Machine | None = None,
    **options: Unpack[MachineOptions],
) -> Audit:
    """Compare a run with known domains.

    Memory grows with the number of domains; with `domain` also with the corpus: 5 bytes per segment
    while the scores are read, about 25 at the end.

    Reference: TADPOLE, Figure 5 (DANA, Table 2); Aharoni and Goldberg (2020), section 4.4, Table 7.

    Args:
        out: the folder of a `select`.
        truth: domain of a row: `source` (the name of its source) or the name of a field, for which
            the corpus is read again.
        domain: globs such as `bio_*` on the names of the domains that should be found.
        machine: where the corpus is read.

    Returns:
        Counts of the corpus and the selection by domain; with `domain` also precision and recall.
    """
    run = corpusfit.open(out)
    if not isinstance(run, corpusfit.Selection):
        raise bad_setting("DIR", "the folder of a corpusfit select", str(out))
    sought = [domain] if isinstance(domain, str) else list(domain)
    by_source = truth == SOURCE
    machine = machine_of(machine, options)
    tables = run.scores() if by_source else run.labeled_scores(truth, machine=machine)

    counts: dict[str, NDArray[np.int64]] = defaultdict(lambda: np.zeros(4, np.int64))
    scores: list[NDArray[np.float32]] = []
    inside: list[NDArray[np.bool_]] = []
    for table in tables:
        labels, places = _labels(table.column("source" if by_source else "label"))
        _count(counts, table, labels, places)
        if sought:
            scores.append(table.column("score").to_numpy())
            inside.append(np.array([_matches(n, sought) for n in labels], np.bool_)[places])
    counts = {label: n for label, n in counts.items() if n[0]}
    _require_matches(sought, counts)

    total, _, chosen, _ = np.sum([*counts.values()], axis=0).tolist()
    domains = {}
    for name, of_source in sorted(counts.items(), key=lambda c: (-c[1][2], -c[1][0], c[0])):
        segments, word_pieces, taken, taken_pieces = of_source.tolist()
        domains[name] = DomainCount(
            segments,
            word_pieces,
            taken,
            taken_pieces,
            taken / segments,
            taken / chosen if chosen else None,
            _matches(name, sought) if sought else None,
        )
    finding = None
    if sought:
        told_apart = figures(np.concatenate(scores), np.concatenate(inside))
        finding = _finding(sought, [*domains.values()], told_apart)
    return Audit(run.manifest["method"]["name"], truth, total, domains, finding)


def _count(
    counts: dict[str, NDArray[np.int64]], table: Any, labels: list[str], places: NDArray[np.int64]
) -> None:
    """Add a table's segments, their word pieces, selected segments, their word pieces by label."""
    tokens, selected = (table.column(c).to_numpy() for c in ("tokens", "selected"))
    for column, values in enumerate((None, tokens, selected, tokens * selected)):
        sums = np.bincount(places, values, minlength=len(labels))
        for label, more in zip(labels, sums.astype(np.int64), strict=True):
            counts[label][column] += more


def _require_matches(sought: Sequence[str], labels: Iterable[str]) -> None:
    """Raise `UsageError` for a glob that matches no label."""
    names = sorted(labels)
    for glob in sought:
        if not any(_matches(label, [glob]) for label in names):
            few = get_close_matches(glob, names, n=_SHOWN, cutoff=0.0)
            shown = ", ".join(repr(label[:40]) for label in few)
            raise bad_setting(
                "`domain`",
                "a glob that matches a domain of the corpus",
                glob,
                f"Domains of the corpus: {shown}{', …' if len(names) > len(few) else ''}.",
            )


def _finding(sought: list[str], domains: Sequence[DomainCount], scores: Figures) -> Finding:
    """How well the domains that are sought are found."""
    of_domain = [n for n in domains if n.sought]
    segments = sum(n.segments for n in of_domain)
    hits = sum(n.selected for n in of_domain)
    chosen = sum(n.selected for n in domains)
    return Finding(
        sought,
        segments,
        segments / sum(n.segments for n in domains),
        chosen,
        hits / chosen if chosen else None,
        hits / segments,
        2 * hits / (chosen + segments),
        scores,
    )


def _labels(column: Any) -> tuple[list[str], NDArray[np.int64]]:
    """The different values of an Arrow column of strings, and each row's place among them."""
    joined = column.unify_dictionaries().combine_chunks()
    return joined.dictionary.to_pylist(), joined.indices.to_numpy().astype(np.int64)


def _matches(label: str, globs: Iterable[str]) -> bool:
    """Whether a label matches one of the globs; case counts."""
    return any(fnmatchcase(label, glob) for glob in globs)
