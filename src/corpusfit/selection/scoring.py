"""Scores a corpus: embed, fit, score; each step does only what is missing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit import text as corpus
from corpusfit.core.artifacts import names_in, remove, restore, write_bytes
from corpusfit.core.engine import Call, Job
from corpusfit.core.errors import InputError, bad_setting
from corpusfit.core.plan import CutPlan, ReadPlan
from corpusfit.core.types import Paired, Reads, Shard, Source, Units, file_of, read_as
from corpusfit.embed.store import VectorStore
from corpusfit.kernels.chance import bottom_k
from corpusfit.scoring import registry, table
from corpusfit.scoring.contract import SOURCE, CorpusMethod, LabelMethod
from corpusfit.scoring.likeness import Likeness
from corpusfit.scoring.rounds import RoundMethod
from corpusfit.selection.copies import write_keys
from corpusfit.selection.embedding import add_vectors, embed_corpus
from corpusfit.selection.fit import Sample, alike, common_words, fit
from corpusfit.selection.folder import SelectionFolder, mark_path, tallies
from corpusfit.selection.input_checks import languages_matter, warn_of_languages
from corpusfit.selection.labels import labels_of, shown
from corpusfit.selection.resolved import Resolved
from corpusfit.selection.rounds import score_in_rounds
from corpusfit.selection.samples import (
    background_texts,
    read_background,
    sample_vectors,
    some_texts,
    target_texts,
)
from corpusfit.text.context import Run
from corpusfit.text.input import Input
from corpusfit.text.reading import (
    Reasons,
    Tally,
    join_units,
    joined_scores,
    read_units,
    require_none_rejected,
    with_numbers,
)


@dataclass(frozen=True)
class Scored:
    """How a corpus was scored."""

    remark: str = ""  # remark of the fitted method for the user
    rounds: dict[str, Any] | None = None  # whether rounds were on all texts, or on what sample
    likeness: Likeness | None = None  # what a sample of the corpus has of the target


def score_corpus(run: Run, resolved: Resolved, folder: SelectionFolder) -> Scored:
    """Write `scores/` for the whole corpus."""
    if isinstance(resolved.method, LabelMethod):
        return _score_labels(run, resolved, folder, resolved.method)
    fitted, store = fit_method(run, resolved, folder)
    method = resolved.method
    # methods by rounds have scored the corpus while they were fitted
    if isinstance(method, RoundMethod):
        return fitted
    texts = resolved.corpus
    cut = resolved.plan.cut
    common = (cut.gamma, method.log_weights, texts.names, folder.scores, folder.scored)
    if isinstance(method, CorpusMethod):
        samples = Sample(folder.fit, "target"), Sample(folder.fit, "background")
        stream = _Stream(tuple(texts.sources), texts.read, cut, texts.names, store, method.reads)
        job = partial(_score_whole, Scoring(*common), stream, *samples, resolved.plan.seed)
        with run.stage("score"):
            run.one(job, method)
        return fitted
    done = names_in(folder.scored)
    # hash texts for the later search for copies, as their text is at hand
    hashed = resolved.plan.choose.dedup != "none" and not corpus.is_parallel(texts.sources)
    score = ScoreTexts(
        *common,
        folder.scorer,
        texts.read,
        cut,
        None if method.reads in ("text", "numbers") else store,
        reads=method.reads,
        fields=method.fields,
        network=not method.exact,
        keys=folder.keys if hashed else None,
    )
    for tally in run.over_shards(
        "score", texts, score, lambda i: mark_path(folder.scored, i).name in done
    ):
        run.progress.advance(0, tally.units)
    return fitted


def fit_method(run: Run, resolved: Resolved, folder: SelectionFolder) -> tuple[Scored, Path | None]:
    """Draw target and background, and fit the method; also the vector store."""
    # A method that takes the corpus in rounds scores it on the way; one that reads it as a whole is
    # not fitted.
    target = Sample(folder.fit, "target")
    background = Sample(folder.fit, "background")
    plan = resolved.plan
    texts = resolved.corpus
    target_texts(run, resolved, target)
    method = resolved.method
    remark = ""
    languages = languages_matter(resolved)
    if resolved.encoder is None:
        if not background.texts.exists():  # otherwise an interrupted run has drawn it already
            background_texts(run, plan, texts, background)
        if languages:
            warn_of_languages(run, resolved, target.read_texts(), background.read_texts())
        if method.compares_words:
            require_words(run, resolved, target, background)
    store = None
    if method.encodes:
        if languages:  # before the work, so from a sample of its own
            some = some_texts(run, plan, texts)
            warn_of_languages(run, resolved, target.read_texts(), some)
        store, counts = embed_corpus(run, texts, plan.cut, resolved.embed, resolved.encoder)
        add_vectors(run, target, resolved.embed)
        places = bottom_k(enumerate(counts), plan.fit.background, plan.seed)
        with run.stage("sample"):
            run.one(partial(sample_vectors, store, background.vectors), places)
        # Where the fit reads vectors alone, the texts are for `adapt` and `forecast`, which measure
        # the loss on text of the corpus.
        if not background.texts.exists():  # otherwise an interrupted run has read them already
            read_background(run, resolved, background, places)
    likeness = measured_likeness(run, resolved, target, background)
    rounds = None
    if isinstance(method, RoundMethod):
        share = score_in_rounds(run, resolved, method, target, background, folder)
        rounds = {"of": "sample" if share < 1.0 else "all", "share": share}
        if share < 1.0:
            remark = (
                f"As the corpus has more than {method.rounds_gb:g} GB of text "
                f"(`method.rounds_gb`), its order is by rounds on a sample of {100 * share:.3g} % "
                f"of the text; the rounds up to {50 * share:.3g} % were on all of it."
            )
    elif not isinstance(method, CorpusMethod):
        with run.stage("fit"):
            job = partial(fit, target, background, folder.scorer, plan.seed)
            remark = run.one(Call(job, not method.exact), plan.method)
    return Scored(remark, rounds, likeness), store


def measured_likeness(
    run: Run, resolved: Resolved, target: Sample, background: Sample
) -> Likeness | None:
    """What the corpus has of the target; warns if that is little."""
    if resolved.corpus.role != "corpus":  # texts to fit a `corpusfit.Scorer` on
        return None
    likeness = run.one(partial(alike, background, resolved.plan.seed), target)
    if likeness is not None and likeness.foreign:
        run.warn(likeness.warning())
    return likeness


def require_strict(texts: Input, folder: SelectionFolder) -> None:
    """Under `--strict`, check also the rows that an earlier command read without it."""
    if texts.read.strict:
        for _, tally in tallies(folder):
            require_none_rejected(tally, texts.names)


def require_words(run: Run, resolved: Resolved, target: Sample, background: Sample) -> None:
    """Check that the target has words, and warn if the corpus has none of them."""
    signs = getattr(resolved.method, "signs", False)
    target_words, common = run.one(partial(common_words, background, signs), target)
    if not target_words:
        raise InputError(
            "`target` must have texts with words for the method "
            f"{resolved.plan.method.name}; none of its {len(target.read_texts()):,} texts has a "
            "letter or a digit. Use other texts."
        )
    if not common:
        run.warn(
            "The target shares no word with a sample of the corpus, so a method that compares "
            "words cannot rank the corpus. Check `read.text_field` and the languages of both."
        )


@dataclass(frozen=True)
class Scoring:
    """The common arguments of scoring jobs: how units make a segment's score, and the folders."""

    gamma: int
    summed: bool
    names: tuple[str, ...]
    scores: Path
    marks: Path

    def finish(self, shard: int, units: Units, unit_scores: Any, tally: Tally) -> Tally:
        """Write a shard's scores, then its mark."""
        segments = join_units(units, self.gamma)
        tally.segments = len(segments)
        scores = joined_scores(unit_scores, segments.units, summed=self.summed)
        table.write(self.scores, shard, tally.sources(self.names), segments, scores)
        write_bytes(mark_path(self.marks, shard), json.dumps(tally.as_dict()).encode())
        return tally


@dataclass(frozen=True)
class ScoreTexts(Scoring, Job[Shard, Tally]):
    """Read, cut and score a shard of text, with its stored vectors if there is a store.

    With a folder `keys` the keys of the documents and segments are written too.
    """

    scorer: Path
    read: ReadPlan
    cut: CutPlan
    store: Path | None = None
    reads: Reads = "text"
    fields: tuple[str, ...] = ()
    network: bool = False
    keys: Path | None = None

    @property
    def encodes(self) -> bool:
        return self.network

    def start(self) -> Callable[[Shard], Tally]:
        scorer = restore(self.scorer, registry.scorer_class)
        store = VectorStore(self.store) if self.store is not None else None

        def work(shard: Shard) -> Tally:
            units, texts, tally = read_units(shard, self.read, self.cut, self.names)
            batch: Any = texts
            if store is not None:
                batch = read_as(Paired(texts, store.read(shard.index)[1]), self.reads)
            batch = with_numbers(batch, units, self.read, self.fields)
            if self.keys is not None:
                write_keys(self.keys, shard.index, units, texts, self.cut)
            return self.finish(shard.index, units, scorer.score(batch), tally)

        return work


@dataclass(frozen=True)
class _Stream:
    """The corpus, shard by shard; every iteration reads it again."""

    sources: tuple[Source, ...]
    read: ReadPlan
    cut: CutPlan
    names: tuple[str, ...]
    store: Path | None
    reads: Reads

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        return ((index, batch) for index, _, batch, _ in self.read_all())

    def read_all(self) -> Iterator[tuple[int, Units, Any, Tally]]:
        """Number, units, batch and tally of every shard."""
        store = VectorStore(self.store) if self.store is not None else None
        if self.reads == "embedding" and store is not None:
            for index in sorted(store.finished()):
                units, vectors, tally = store.read(index)
                yield index, units, vectors, Tally.stored(tally)
            return
        for shard in corpus.packed(self.sources, self.read):
            units, texts, counted = read_units(shard, self.read, self.cut, self.names)
            if self.reads == "both" and store is not None:
                yield shard.index, units, Paired(texts, store.read(shard.index)[1]), counted
            else:
                yield shard.index, units, texts, counted


def _score_whole(
    scoring: Scoring,
    stream: _Stream,
    target: Sample,
    background: Sample,
    seed: int,
    method: CorpusMethod,
) -> int:
    """Score the whole corpus with a method that reads it all; returns the number of units.

    Runs in one worker and reads the corpus at least twice; a killed run starts again.
    """
    learned = method.fits_on
    samples = (target.batch(learned), background.batch(learned))
    scored = method.score_corpus(stream, *samples, seed=seed)
    total = 0
    for (shard, units, _, tally), (index, scores) in zip(stream.read_all(), scored, strict=True):
        assert index == shard  # noqa: S101
        scoring.finish(index, units, scores, tally)
        total += len(units)
    return total


def _score_by_label(
    scoring: Scoring, method: LabelMethod, read: ReadPlan, cut: CutPlan, shard: Shard
) -> tuple[Tally, list[str]]:
    """Score a shard by its rows' labels; returns the tally and the different labels."""
    names = scoring.names
    units, _, tally = read_units(shard, read, cut, names)
    if method.truth == SOURCE:
        used, places = np.unique(file_of(units.row), return_inverse=True)
        labels = [names[shard.source + i] for i in used.tolist()] or [names[shard.source]]
    else:
        labels, places = labels_of(shard, read, units.row)
    scores = np.array([method.score_label(label) for label in labels], np.float32)
    return scoring.finish(shard.index, units, scores[places], tally), labels


def _score_labels(
    run: Run, resolved: Resolved, folder: SelectionFolder, method: LabelMethod
) -> Scored:
    """Score the corpus by its rows' labels."""
    # Reference: Aharoni and Goldberg (2020), section 4.2 (the oracle).
    target_texts(run, resolved, Sample(folder.fit, "target"))
    done = names_in(folder.scored)
    labels_seen = set[str]()
    rejected = Reasons()
    texts = resolved.corpus
    cut = resolved.plan.cut
    scoring = Scoring(cut.gamma, method.log_weights, texts.names, folder.scores, folder.scored)
    job = partial(_score_by_label, scoring, method, texts.read, cut)
    for tally, labels in run.over_shards(
        "score", texts, job, lambda i: mark_path(folder.scored, i).name in done
    ):
        labels_seen.update(labels)
        rejected.add(tally.rejects.counts())
        run.progress.advance(0, tally.units)
    segments = 0
    for _, path in table.parts(folder.scores) if folder.scores.is_dir() else ():
        (scores,) = table.read_columns(path, "score")
        if scores.any():
            return Scored()
        segments += len(scores)
    # No row matches, so nothing is worth keeping: allow another label in the same folder.
    remove(folder.scored, folder.scores)
    if not segments:
        raise texts.nothing_read(rejected)
    raise bad_setting(
        f"The settings of {resolved.plan.method.name}",
        "such that a row of the corpus has a matching label",
        dict(resolved.plan.method.options),
        f"Labels of the corpus: {shown(labels_seen)}.",
    )
