"""Reads the target and draws the background: the two samples that methods are fitted on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from corpusfit import text as corpus
from corpusfit.core.errors import EmptyInputError, bad_setting
from corpusfit.core.plan import Plan, ReadPlan
from corpusfit.core.types import Documents, Source, taken, text_array
from corpusfit.selection.fit import Sample
from corpusfit.selection.sample_job import ALL, Drawn, SampleTexts, TextsAt, first_bound, merge
from corpusfit.text import cures
from corpusfit.text.context import Run
from corpusfit.text.reading import Reasons, read_shard
from corpusfit.text.units import cut_units

FEW = 20
_PARAGRAPHS = 100
"""Most paragraphs per file, on average, of files that may be a document each."""
_DIVIDED = {
    "blocks": "divided by blank lines (`read.txt=lines`: one per line)",
    "lines": "one per line (`read.txt=blocks`: divided by blank lines)",
    "file": "one per file",
}


def target_texts(run: Run, sample: Sample) -> int:
    """Read, normalise and cut the target; write its units' texts; returns their number.

    Repeated texts count once: a copy in a held-out part would flatter every method.
    """
    names = tuple(s.name for s in run.target)
    source_of: dict[str, int] = {}  # by text, the first source that has it
    rejected = Reasons()
    losses = cures.Losses()
    read = run.plan.target_read
    for shard in corpus.shards(run.target, read):
        found, tally = read_shard(shard, read, names)
        for text in found.texts.to_pylist():
            source_of.setdefault(text, shard.source)
        rejected.add(tally.rejects)
        losses.add(names[shard.source], tally.documents, tally.reasons())
    if not source_of:
        otherwise = (
            "Name its text field with `fit.target_field`, or give a file with texts of your task."
        )
        cure = cures.of_content(run.target, read, rejected.counts, otherwise)
        raise EmptyInputError(f"`target` has no usable text ({rejected}). {cure}")
    if rejected.counts:
        cure = losses.cure(run.target, read)
        unused = f"{rejected.counts.total():,} rows of the target were not used: {rejected}."
        run.warn(f"{unused} {cure}".rstrip())
    if run.plan.fit.normalise:
        plain: dict[str, int] = {}
        for text, source in source_of.items():
            plain.setdefault(corpus.normalise(text), source)
        plain.pop("", None)
        source_of = plain or source_of
    different = list(source_of)
    numbered = Documents(np.arange(len(different)), text_array(different))
    cut, texts = cut_units(numbered, run.plan.cut)
    sources, documents = np.array(list(source_of.values()))[cut.row], cut.row
    if 0 < run.plan.fit.max_target < len(texts):
        drawn = np.random.default_rng(run.plan.seed).permutation(len(texts))
        places = np.sort(drawn[: run.plan.fit.max_target])
        texts, sources = taken(texts, places), sources[places]
        documents = documents[places]
    known = {s.fingerprint for s in run.sources}
    inside = [s.name for s in run.target if s.fingerprint in known]
    if inside:
        run.warn(
            f"{inside[0]} of the target is in the corpus too, where its own texts score highest. "
            "Leave it out of `corpus`."
        )
    _say_how_many(run, len(different))
    repeats = repeats_by_share(sources, names, run.plan)
    sample.write_texts(texts.to_pylist(), repeats, documents)
    return len(texts)


def _say_how_many(run: Run, different: int) -> None:
    """Warn of a small target, and say how its plain text was divided."""
    mode = run.plan.target_read.txt if any(s.format == "txt" for s in run.target) else ""
    if different < FEW:
        cure = "Add texts to the target."
        if mode in ("blocks", "file"):
            cure = "Add texts, or pass `read.txt=lines` if each line of its files is one."
        run.warn(
            f"The target has only {different} different text{'s' * (different > 1)}. With fewer "
            f"than {FEW}, scores and comparisons of methods are unreliable. {cure}"
        )
    elif mode:
        divided = _DIVIDED[mode]
        if may_be_whole(run.target, run.plan.target_read, different):
            divided = f"{divided[:-1]}, `read.txt=file`: one per file)"
        run.machine.progress.note(f"The target has {different:,} different texts, {divided}.")


def may_be_whole(sources: Sequence[Source], read: ReadPlan, texts: int) -> bool:
    """Whether plain text is divided within many files that are small enough for a document."""
    files = sum(source.format == "txt" for source in sources)
    small = files < texts < _PARAGRAPHS * files
    return read.txt == "blocks" and small and FEW <= files == len(sources)


def check_shares(names: tuple[str, ...], plan: Plan) -> None:
    """Check that the shares are for the target's names."""
    shares = plan.fit.share_of()
    if shares and set(shares) != set(names):
        raise bad_setting("`fit.shares`", f"one for each of {', '.join(names)}", plan.fit.shares)


def repeats_by_share(
    sources: NDArray[np.int64], names: tuple[str, ...], plan: Plan
) -> NDArray[np.int64] | None:
    """How often each unit of the target counts, so that its sources have the plan's shares."""
    shares = plan.fit.share_of()
    if not shares:
        return None
    counts = np.bincount(sources, minlength=len(names))
    wanted = np.array([shares[n] for n in names]) * (counts > 0)
    each = wanted / np.maximum(counts, 1)
    most = plan.fit.max_target or math.inf
    total = min(most, wanted.sum() / each[each > 0].min())  # each at least once
    repeats = np.zeros(len(sources), np.int64)
    counted = np.maximum(1, np.round(wanted / wanted.sum() * total)).astype(np.int64)
    for source, n in enumerate(counted):  # each source at least once
        at = np.flatnonzero(sources == source)
        repeats[at] = np.diff(np.arange(len(at) + 1) * n // max(1, len(at)))
    return repeats


def background_texts(run: Run, sample: Sample, k: int) -> Reasons:
    """Draw k units of the corpus in one pass over its text; returns why rows were rejected."""
    job = SampleTexts(run.plan.read, run.plan.cut, run.names, k, run.plan.seed)
    bound = first_bound(run.size, k, run.plan.cut)
    drawn, rejected = _drawn(run, job, bound)
    if bound < ALL and sum(len(d.texts) for d in drawn) < k:  # fewer than could be expected
        drawn, rejected = _drawn(run, job, ALL)
    if not drawn:
        raise run.nothing_read(rejected)
    texts = list(itertools.chain(*(d.texts for d in drawn)))
    different = len(set(texts))
    if 2 * different < len(texts):
        run.warn(
            f"Only {different:,} of {len(texts):,} texts in a sample of the corpus are different. "
            "Methods are fitted on all of them; remove the copies from the corpus."
        )
    sample.write_texts(texts)
    return rejected


def read_background(run: Run, sample: Sample, places: list[tuple[int, NDArray[np.int64]]]) -> None:
    """Read the texts of units that were drawn by shard, and write them."""
    wanted = dict(places)
    with run.stage("sample texts", run.size):
        job = TextsAt(run.plan.read, run.plan.cut, run.names)
        pieces = ((s, wanted[s.index]) for s in run.shards() if s.index in wanted)
        found = dict(run.map(job, pieces))
    sample.write_texts([text for shard, _ in places for text in found[shard]])


def _drawn(run: Run, job: SampleTexts, bound: int) -> tuple[list[Drawn[str]], Reasons]:
    """The units with keys below a bound, and why rows were rejected."""
    drawn: list[Drawn[str]] = []
    rejected, held, k = Reasons(), 0, job.k
    with run.stage("sample", run.size):
        for part, tally in run.map(job, ((shard, bound) for shard in run.shards())):
            rejected.add(tally.rejects)
            drawn.append(part)
            held += len(part.texts)
            if held > 2 * k:
                drawn = merge(drawn, k)
                held = sum(len(d.texts) for d in drawn)
                bound = int(max(d.keys.max() for d in drawn))
    return merge(drawn, k), rejected
