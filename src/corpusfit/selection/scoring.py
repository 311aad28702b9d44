"""Scores a corpus: embed, fit, score; each step does only what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from corpusfit import text as corpus
from corpusfit.core.artifacts import listed, read_many
from corpusfit.core.errors import InputError
from corpusfit.core.manifest import undamaged
from corpusfit.core.plan import MethodPlan
from corpusfit.embed.store import VectorStore
from corpusfit.kernels.chance import bottom_k
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod
from corpusfit.scoring.rounds import RoundMethod
from corpusfit.selection.auto import pick
from corpusfit.selection.corpus_embedding import add_vectors, embed_corpus, require_vectors
from corpusfit.selection.fit import CommonWords, Fit, PrepareEncoder, ReadsWhole, Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.label_scoring import score_labels, uses_labels
from corpusfit.selection.language_check import reads_words
from corpusfit.selection.rounds import score_in_rounds
from corpusfit.selection.sample_job import SampleVectors
from corpusfit.selection.samples import background_texts, read_background, target_texts
from corpusfit.selection.score_job import ScoreTexts, ScoreVectors, mark_path
from corpusfit.selection.whole_job import ScoreWhole
from corpusfit.text.context import Run
from corpusfit.text.reading import Tally, require_none_rejected


def score_corpus(run: Run, folder: SelectionFolder) -> MethodPlan:
    """Write `scores/` for the whole corpus; returns the method in use."""
    if uses_labels(run.plan.method):
        target_texts(run, Sample(folder.fit, "target"))
        score_labels(run, folder, _scoring(run, folder, run.plan.method))
        return run.plan.method
    used, store = fit_method(run, folder)
    method = registry.build(used.name, used.options)
    if isinstance(method, RoundMethod):
        return used
    if isinstance(method, CorpusMethod):
        samples = Sample(folder.fit, "target"), Sample(folder.fit, "background")
        plan, common = run.plan, _scoring(run, folder, used)
        read = (tuple(run.sources), plan.read, plan.cut, store)
        with run.stage("score"):
            run.one(ScoreWhole(*common, *read, *samples, plan.seed), used)
        return used
    if method.reads == "embedding" and store is not None:
        _score_vectors(run, folder, used, store)
    else:
        vectors = store if method.reads == "both" else None
        _score_texts(run, folder, used, vectors, network=not method.exact)
    return used


def fit_method(run: Run, folder: SelectionFolder) -> tuple[MethodPlan, Path | None]:
    """Draw target and background, let `auto` decide, and fit the method.

    A method that takes the corpus in rounds scores it on the way; one that reads it as a whole is
    not fitted.
    """
    target, background = Sample(folder.fit, "target"), Sample(folder.fit, "background")
    target_texts(run, target)
    used = run.plan.method
    if used.name == "auto" or run.encoder is None:
        if not background.texts.exists():  # else a killed run has drawn it
            background_texts(run, background, run.plan.fit.background)
        if reads_words(run.plan):
            named = None if used.name == "auto" else registry.build(used.name, used.options)
            require_words(run, target, background, signs=getattr(named, "signs", False))
    if used.name == "auto":
        picked = pick(run, folder, target, background)
        used, run.reason = picked.method, picked.reason
    method = registry.build(used.name, used.options)
    store = None
    if method.encodes:
        store, counts = embed_corpus(run, run.plan.embed, run.encoder)
        if run.plan.method.name == "auto":
            require_vectors(run, target, background)
        else:
            add_vectors(run, target)
            _background(run, store, counts, background)
    if isinstance(method, RoundMethod):
        score_in_rounds(run, folder, used.name, method, target)
    elif not isinstance(method, CorpusMethod):
        with run.stage("fit"):
            scorer = folder.fit / "scorer.safetensors"
            job = Fit(target, background, scorer, run.plan.seed, network=not method.exact)
            run.remark = run.one(job, used)
    return used, store


def prepare_encoder(run: Run) -> None:
    """Load the encoder if the method needs one, and note its fingerprint.

    The fingerprint is part of the run's identity: a model can change under its name, and `auto`
    can choose another precision on another machine.
    """
    name = run.plan.method.name
    if name == "auto" or registry.build(name, run.plan.method.options).encodes:
        run.engine.require_shared(run.cache, "`cache`")
        with run.stage("prepare encoder"):
            run.encoder = run.one(PrepareEncoder(run.cache), run.plan.embed)
            own = run.plan.embed.embedder not in ("minilm", "static")
            if own and run.one(ReadsWhole(run.cache), run.plan.embed):
                run.warn(
                    f"The tokenizer of {run.plan.embed.embedder} does not cut texts at words as "
                    "BERT's does, so it reads every text whole: embedding takes up to ten times as "
                    "long as with other static models."
                )


def tallies(folder: SelectionFolder) -> Iterator[tuple[int, Tally]]:
    """(shard, tally) of every scored shard, in order."""
    marks = sorted(folder.scored.glob("part-*.json"), key=lambda p: int(p.stem[5:]))
    for mark, data in zip(marks, read_many(marks), strict=True):
        with undamaged(mark):
            tally = Tally(**json.loads(data))
        yield int(mark.stem[5:]), tally


def require_strict(run: Run, folder: SelectionFolder) -> None:
    """Under `--strict`, check also the rows that an earlier command read without it."""
    if run.plan.read.strict:
        for _, tally in tallies(folder):
            require_none_rejected(tally, run.names)


def require_words(run: Run, target: Sample, background: Sample, *, signs: bool = False) -> None:
    """Check that the target has words, and warn if the corpus has none of them."""
    own, common = run.one(CommonWords(background, signs), target)
    if not own:
        raise InputError(
            f"`target` must have texts with words for the method {run.plan.method.name}; none of "
            f"its {len(target.read_texts()):,} texts has a letter or a digit. Use other texts."
        )
    if not common:
        run.warn(
            "The target shares no word with a sample of the corpus, so a method that compares "
            "words cannot rank the corpus. Check `read.text_field` and the languages of both."
        )


def _background(run: Run, store: Path, counts: list[int], background: Sample) -> None:
    """Draw the background from the store: its vectors, and its texts.

    Where the fit reads vectors alone, the texts are for `adapt` and `forecast`, which measure the
    loss on text of the corpus.
    """
    places = bottom_k(enumerate(counts), run.plan.fit.background, run.plan.seed)
    with run.stage("sample"):
        run.one(SampleVectors(store, background.vectors), places)
    if not background.texts.exists():  # else a killed run has read them
        read_background(run, background, places)


def _scoring(
    run: Run, folder: SelectionFolder, used: MethodPlan
) -> tuple[int, bool, tuple[str, ...], Path, Path]:
    """The common arguments of scoring jobs, see `Scoring`."""
    summed = registry.build(used.name, used.options).log_weights
    return run.plan.cut.gamma, summed, run.names, folder.scores, folder.scored


def _score_vectors(run: Run, folder: SelectionFolder, used: MethodPlan, store: Path) -> None:
    scorer = folder.fit / "scorer.safetensors"
    job = ScoreVectors(*_scoring(run, folder, used), scorer, store)
    done = listed(folder.scored)
    stored = sorted(VectorStore(store).finished())
    missing = [i for i in stored if mark_path(folder.scored, i).name not in done]
    for tally in run.over("score", job, missing):
        run.machine.progress.advance(0, tally.units)


def _score_texts(
    run: Run, folder: SelectionFolder, used: MethodPlan, store: Path | None, *, network: bool
) -> None:
    scorer = folder.fit / "scorer.safetensors"
    plan = run.plan
    hashed = plan.choose.dedup != "none" and not corpus.is_parallel(run.sources)
    keys = folder.keys if hashed else None
    read = (plan.read, plan.cut, store, network, keys)
    job = ScoreTexts(*_scoring(run, folder, used), scorer, *read)
    done = listed(folder.scored)
    for tally in run.over_shards("score", job, lambda i: mark_path(folder.scored, i).name in done):
        run.machine.progress.advance(0, tally.units)
