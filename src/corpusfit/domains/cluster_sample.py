"""Draws the units that `clusters` looks at: different ones, by source or from all of the corpus."""

from __future__ import annotations

import dataclasses
import json

import numpy as np

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.errors import EmptyInputError
from corpusfit.domains.clusters_job import DrawKnown, Known
from corpusfit.domains.folder import ClustersFolder
from corpusfit.domains.plan import ClustersPlan
from corpusfit.selection.fit import Sample
from corpusfit.selection.sample_job import ALL, Drawn, first_bound, merge
from corpusfit.text.context import Run
from corpusfit.text.reading import Reasons

_SPARE = 2
"""Units drawn per unit wanted, so that copies can be left out."""


def draw_units(plan: ClustersPlan, run: Run, folder: ClustersFolder, sample: Sample) -> list[Known]:
    """The sampled units in the order of their shards, stored for a resumed command."""
    path = folder.drawn / "known.json"
    if path.exists():
        return [Known(*fields) for fields in json.loads(path.read_bytes())]
    wanted = plan.draw.per_source or plan.draw.sample
    by_source = plan.draw.per_source is not None
    spare = _SPARE * wanted
    job = DrawKnown(
        plan.read, plan.cut, run.names, spare, plan.seed, plan.draw.words, plan.draw.truth
    )
    sizes = {i: s.size if by_source else run.size for i, s in enumerate(run.sources)}
    bounds = {i: first_bound(size, spare, plan.cut) for i, size in sizes.items()}
    found, rejected = _below(run, job, bounds, by_source=by_source)
    groups = {i: found.get(i if by_source else 0, []) for i in bounds}
    short = {i for i, group in groups.items() if len(_different(group, wanted)) < wanted}
    if any(bounds[i] < ALL for i in short):  # fewer than could be expected
        found, rejected = _below(
            run, job, {i: ALL if i in short else b for i, b in bounds.items()}, by_source=by_source
        )
    units = [unit for group in sorted(found) for unit in _different(found[group], wanted)]
    if not units:
        raise EmptyInputError(
            f"`corpus` has no unit of {plan.draw.words} words or more ({rejected}). Name the text "
            "field with `read.text_field`, or give other files to `corpus`."
        )
    sample.write_texts([unit.text for unit in units])
    write_bytes(path, json.dumps([dataclasses.astuple(unit) for unit in units]).encode())
    return units


def _below(
    run: Run, job: DrawKnown, bounds: dict[int, int], *, by_source: bool
) -> tuple[dict[int, list[Drawn[Known]]], Reasons]:
    """The units with the smallest keys: of each source, or of all (as source 0)."""
    found: dict[int, list[Drawn[Known]]] = {}
    rejected = Reasons()
    with run.stage("draw", run.size):
        shards = run.shards_of(run.sources, run.plan.read) if by_source else run.shards()
        pieces = ((shard, bounds[shard.source]) for shard in shards)
        for part, tally in run.map(job, pieces):
            rejected.add(tally.rejects)
            group = found.setdefault(tally.source if by_source else 0, [])
            group.append(part)
            if sum(len(drawn.texts) for drawn in group) > 2 * job.k:
                group[:] = merge(group, job.k)
    return {group: merge(parts, job.k) for group, parts in found.items()}, rejected


def _different(parts: list[Drawn[Known]], wanted: int) -> list[Known]:
    """The units with the smallest keys, one per text, in the order of their shards."""
    units = [unit for part in parts for unit in part.texts]
    keys = np.concatenate([part.keys for part in parts]) if parts else np.empty(0, np.uint64)
    first: dict[str, int] = {}
    for place in np.argsort(keys, kind="stable").tolist():
        first.setdefault(units[place].text, place)
    return [units[place] for place in sorted(list(first.values())[:wanted])]
