"""The target and the background: the two small sets that methods learn from.

What: reads the target whole, draws a bounded sample of the corpus, gives both texts and vectors.
Why: fitting and ranking look at nothing else.
Trade-off: repeated target texts count once, because a task often shows one sentence several times
with other marks, and a copy in the held-out part would flatter every method.
"""

from __future__ import annotations

import itertools

import numpy as np

from corpusfit import corpus
from corpusfit.artifacts import write_arrays
from corpusfit.errors import EmptyInputError
from corpusfit.jobs.embed import EmbedTexts
from corpusfit.jobs.fit import Sample
from corpusfit.jobs.reading import Reasons, read_shard
from corpusfit.jobs.sample import ALL, Drawn, SampleTexts, merge
from corpusfit.pipeline.run import Run
from corpusfit.segments import cut_units
from corpusfit.types import Documents, text_array

__all__ = ["FEW", "add_vectors", "background_texts", "target_texts"]

FEW = 20
_BATCH = 128


def target_texts(run: Run, sample: Sample) -> int:
    """Read, normalise and cut the target; keep its units' texts; returns how many.

    Raises:
        EmptyInputError: the target has no usable text.
    """
    names = tuple(s.name for s in run.target)
    texts: list[str] = []
    rejected = Reasons()
    for shard in corpus.shards(run.target, run.plan.read):
        found, tally = read_shard(shard, run.plan.read, names)
        texts += found.texts.to_pylist()
        rejected.add(tally.rejects)
    if not texts:
        raise EmptyInputError(
            f"--target has no usable text ({rejected}). Give a file with texts of "
            "your task; --text-field names the field they are in."
        )
    if rejected.counts:
        run.warn(f"{rejected.counts.total()} rows of the target were not used: {rejected}.")
    if run.plan.fit.normalise:
        texts = [t for t in map(corpus.normalise, texts) if t] or texts
    different = list(dict.fromkeys(texts))
    numbered = Documents(np.arange(len(different)), text_array(different))
    units = cut_units(numbered, run.plan.cut)[1].to_pylist()
    if len(units) > run.plan.fit.max_target:
        drawn = np.random.default_rng(run.plan.seed).permutation(len(units))
        units = [units[i] for i in np.sort(drawn[: run.plan.fit.max_target])]
    if len(different) < FEW:
        run.warn(
            f"The target has only {len(different)} different texts: the ranking of methods and the "
            f"detectors' scores are unreliable below {FEW}. Add texts if you can."
        )
    sample.write_texts(units)
    return len(units)


def background_texts(run: Run, sample: Sample, k: int) -> Reasons:
    """Draw k units of the corpus, by one pass over its text; returns why rows were rejected.

    Raises:
        EmptyInputError: the corpus has no usable row.
    """
    job = SampleTexts(run.plan.read, run.plan.cut, run.names, k, run.plan.seed)
    drawn: list[Drawn] = []
    rejected, held, bound = Reasons(), 0, ALL
    with run.stage("sample", run.size):
        for part, tally in run.engine.map(job, ((shard, bound) for shard in run.shards())):
            rejected.add(tally.rejects)
            drawn.append(part)
            held += len(part.texts)
            if held > 2 * k:
                drawn = merge(drawn, k)
                held = sum(len(d.texts) for d in drawn)
                bound = int(max(d.keys.max() for d in drawn))
    if not held:
        raise run.nothing_read(rejected)
    sample.write_texts(list(itertools.chain(*(d.texts for d in merge(drawn, k)))))
    return rejected


def add_vectors(run: Run, sample: Sample) -> None:
    """Encode a sample's texts beside them."""
    texts = sample.read_texts()
    pieces = [(i, texts[i : i + _BATCH]) for i in range(0, len(texts), _BATCH)]
    job = EmbedTexts(run.plan.embed, run.cache)
    found = dict(run.over(f"embed {sample.name}", job, pieces))
    vectors = np.concatenate([found[i] for i, _ in pieces])
    write_arrays(sample.vectors, {"vectors": vectors}, {})
