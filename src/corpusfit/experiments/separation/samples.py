"""Draws the units of a recipe with `[separation]`, and encodes those that its cells read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import write_arrays
from corpusfit.core.errors import EmptyInputError
from corpusfit.core.manifest import digest
from corpusfit.core.plan import EmbedPlan, Plan
from corpusfit.core.types import Source
from corpusfit.embed import has_network
from corpusfit.experiments.config import Recipe
from corpusfit.experiments.separation.cells import SeparationNode, corpora_of, sources_of
from corpusfit.experiments.separation.settings import Separation
from corpusfit.experiments.separation.targets import Target
from corpusfit.scoring import registry
from corpusfit.selection.embedding import EmbedTexts
from corpusfit.selection.fit import Sample
from corpusfit.selection.samples import ALL, Drawn, SampleTexts, first_bound, merge
from corpusfit.text.context import RunContext

_BATCH = 128


@dataclass(frozen=True)
class Inputs:
    """What the measurements read.

    Attributes:
        folder: of the samples, one folder for each encoder.
        labels: by target, the label of each unit; empty where it has none.
        sources: by corpus and seed, the name of each unit's source; in a corpus with shares, the
            glob that it matches.
    """

    folder: Path
    labels: Mapping[str, tuple[int, ...]]
    sources: Mapping[tuple[str, int], tuple[str, ...]]

    def samples(self, node: SeparationNode) -> tuple[Sample, Sample]:
        """The target and the corpus's units of a measurement, with vectors if it needs any."""
        folder = self.folder / digest([vars(node.embed)])
        return Sample(folder, target_name(node.target)), Sample(folder, corpus_name(node))


def target_name(name: str) -> str:
    """The name of a target's sample."""
    return f"target-{digest(name)[:16]}"


def corpus_name(node: SeparationNode) -> str:
    """The name of the sample of a corpus's units."""
    return f"corpus-{digest([node.corpus, node.seed])[:16]}"


def prepare_inputs(
    context: RunContext,
    recipe: Recipe,
    sources: Sequence[Source],
    targets: Mapping[str, Target],
    nodes: Sequence[SeparationNode],
) -> Inputs:
    """Draw and encode what some measurements read; vectors of networks are kept in the cache."""
    separation, plan = recipe.separation or Separation(), recipe.selectors[0].select
    pool, drawn = _pool(context, recipe, sources, targets, nodes)
    texts = {name: drawn.get(name) or list(targets[name].texts) for name in targets}
    names = [source.name for source in sources]
    origin = [source for source, units in pool.items() for _ in units]
    units = [text for of in pool.values() for text in of]
    places: dict[tuple[str, int], NDArray[np.int64]] = {}
    labels: dict[tuple[str, int], tuple[str, ...]] = {}
    for node in nodes:
        globs = corpora_of(separation)[node.corpus]
        own = sources_of(globs, names)
        at = {g: np.flatnonzero(np.isin(origin, of)) for g, of in own.items()}
        places[node.corpus, node.seed] = _background(at, globs, plan.fit.background, node.seed)
        shown = {n: g for g, of in own.items() for n in of} if any(globs.values()) else {}
        labels[node.corpus, node.seed] = tuple(
            shown.get(origin[i], origin[i]) for i in places[node.corpus, node.seed]
        )
    found = Inputs(
        context.work / "separation",
        {name: target.labels for name, target in targets.items()},
        labels,
    )
    for embed in dict.fromkeys(node.embed for node in nodes):
        _write(context, found, [n for n in nodes if n.embed == embed], texts, units, places)
    return found


def _pool(
    context: RunContext,
    recipe: Recipe,
    sources: Sequence[Source],
    targets: Mapping[str, Target],
    nodes: Sequence[SeparationNode],
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """By source the units of the corpus, and by target the units drawn from sources besides."""
    separation, plan = recipe.separation or Separation(), recipe.selectors[0].select
    names = [source.name for source in sources]
    globs = [corpora_of(separation)[corpus] for corpus in {node.corpus for node in nodes}]
    used = {name for shares in globs for of in sources_of(shares, names).values() for name in of}
    wanted = {node.target for node in nodes}
    sought = {name: t.sources for name, t in targets.items() if name in wanted and t.sources}
    every = used.union(*sought.values())
    pool, drawn = {}, {name: list[str]() for name in sought}
    own = [source for source in sources if source.name in every]
    with context.progress.showing("sample", sum(source.size for source in own)):
        for source in own:
            more = separation.texts if any(source.name in of for of in sought.values()) else 0
            units = _units(context, source, plan, separation.documents + more, recipe.seed)
            pool[source.name] = units[: separation.documents]
            for name, of in sought.items():
                if source.name in of:
                    drawn[name] += units[separation.documents :]
    for name, units in drawn.items():
        if not units:
            raise EmptyInputError(
                f"The sources of the target {name} have no more units than the corpus takes. "
                "Lower documents in [separation]."
            )
        order = np.random.default_rng(recipe.seed).permutation(len(units))
        drawn[name] = [units[i] for i in np.sort(order[: separation.texts])]
    return pool, drawn


def _units(context: RunContext, source: Source, plan: Plan, k: int, seed: int) -> list[str]:
    """At most k units of a source, in random order."""
    job = SampleTexts(plan.read, plan.cut, (source.name,), k, seed)
    drawn: list[Drawn[str]] = []
    for bound in dict.fromkeys([first_bound(source.size, k, plan.cut), ALL]):
        pieces = ((shard, bound) for shard in context.shards_of([source], plan.read))
        drawn = merge([part for part, _ in context.map(job, pieces)], k)
        if sum(len(part.texts) for part in drawn) >= k:
            break
    pairs = [pair for part in drawn for pair in zip(part.keys.tolist(), part.texts, strict=True)]
    if not pairs:
        raise EmptyInputError(f"{source.name} has no usable text.")
    return [text.strip() for _, text in sorted(pairs)[:k]]


def _background(
    at: Mapping[str, NDArray[np.int64]], shares: Mapping[str, float], most: int, seed: int
) -> NDArray[np.int64]:
    """Places of a corpus's units, drawn with a seed: at most so many, with the shares if given."""
    rng = np.random.default_rng(seed)
    if not any(shares.values()):
        every = np.concatenate(list(at.values()))
        return np.sort(every[rng.permutation(len(every))[:most]])
    n = min(most / sum(shares.values()), *(len(of) / shares[glob] for glob, of in at.items()))
    parts = [of[rng.permutation(len(of))[: round(n * shares[g])]] for g, of in at.items()]
    return np.sort(np.concatenate(parts))


def _write(
    context: RunContext,
    found: Inputs,
    nodes: Sequence[SeparationNode],
    texts: Mapping[str, list[str]],
    units: Sequence[str],
    places: Mapping[tuple[str, int], NDArray[np.int64]],
) -> None:
    """Write the samples of one encoder, with vectors where a method reads them."""
    plain = [n for n in nodes if not n.finetuned and _encodes(n)]
    keys = dict.fromkeys((n.corpus, n.seed) for n in plain)
    needed = np.unique(np.concatenate([places[key] for key in keys])) if keys else np.empty(0, int)
    embed = nodes[0].embed
    vectors = _encoded(context, embed, [units[i] for i in needed])
    for name in dict.fromkeys(n.target for n in nodes):
        node = next(n for n in nodes if n.target == name)
        sample = found.samples(node)[0]
        sample.write_texts(texts[name])
        if any(n.target == name for n in plain):
            write_arrays(sample.vectors, {"vectors": _encoded(context, embed, texts[name])}, {})
    for key in dict.fromkeys((n.corpus, n.seed) for n in nodes):
        node = next(n for n in nodes if (n.corpus, n.seed) == key)
        sample = found.samples(node)[1]
        sample.write_texts([units[i] for i in places[key]])
        if key in keys:
            own = vectors[np.searchsorted(needed, places[key])]
            write_arrays(sample.vectors, {"vectors": own}, {})


def _encodes(node: SeparationNode) -> bool:
    return registry.build(node.method.name, node.method.options).encodes


def _encoded(context: RunContext, embed: EmbedPlan, texts: Sequence[str]) -> NDArray[np.float32]:
    """The vectors of n texts, float32 [n, d]; empty without texts."""
    pieces = [(i, list(texts[i : i + _BATCH])) for i in range(0, len(texts), _BATCH)]
    if not pieces:
        return np.empty((0, 0), np.float32)
    job = EmbedTexts(embed, context.cache, kept=has_network(embed.embedder))
    with context.progress.showing("embed", len(pieces)):
        found = dict(context.map(job, pieces))
    return np.concatenate([found[i] for i, _ in pieces])
