"""The steps of `select`, `score`, `choose` and `rank`, in order."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from corpusfit import text as corpus
from corpusfit.core.artifacts import no_collection
from corpusfit.core.engine import PlainJob
from corpusfit.core.engine.worker import noticed_by
from corpusfit.core.errors import CorpusfitError, bad_setting
from corpusfit.core.manifest import (
    locked,
    source_as_dict,
    source_identity,
    undamaged,
    versions,
    warn_if_disk_is_small,
)
from corpusfit.core.plan import AUTO, ChoosePlan, CutPlan, MethodPlan, Plan
from corpusfit.core.types import Documents, Source, text_array
from corpusfit.kernels.characters import VERSION as TOKENS
from corpusfit.scoring import registry
from corpusfit.scoring.contract import SOURCE, LabelMethod, Method
from corpusfit.selection.auto import check_fraction, contenders, decide_fraction, ranking_of
from corpusfit.selection.balance import prepare_balance
from corpusfit.selection.cascade import cascade_of, prepare_stages, score_cascade
from corpusfit.selection.copies import check_dedup, copies_of
from corpusfit.selection.embedder_by_size import by_size
from corpusfit.selection.embedding import add_vectors
from corpusfit.selection.fit import PrepareEncoder, Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.language_check import choose_side, warn_language_mismatch
from corpusfit.selection.publishing import write_selection_card
from corpusfit.selection.ranking import SEEDS, Ranked, candidates, rank_methods
from corpusfit.selection.result import Selection
from corpusfit.selection.samples import background_texts, check_shares, target_texts
from corpusfit.selection.scoring import prepare_encoder, require_strict, score_corpus
from corpusfit.selection.stages import resolve_stages, stages_of
from corpusfit.selection.writing import (
    choose_segments,
    count_rows,
    reaching,
    write_aligned,
    write_selected,
)
from corpusfit.text.context import HERE, Machine, Run, RunContext, absolute, command_words
from corpusfit.text.pairs import check_sources
from corpusfit.text.reading import cut_units


def select(
    plan: Plan,
    target: Sequence[str],
    corpus_inputs: Sequence[str],
    out: Path,
    *,
    machine: Machine = HERE,
    overwrite: bool = False,
) -> Selection:
    """Select the part of the corpus that is similar to the target."""
    # Reference: TADPOLE, Algorithm 1.
    return _run(plan, target, corpus_inputs, out, machine, overwrite, selecting=True)


def score(
    plan: Plan,
    target: Sequence[str],
    corpus_inputs: Sequence[str],
    out: Path,
    *,
    machine: Machine = HERE,
    overwrite: bool = False,
) -> Selection:
    """Score the corpus as `select` does, without selecting; `choose` can select afterwards."""
    return _run(plan, target, corpus_inputs, out, machine, overwrite, selecting=False)


def choose(
    scored: Path, amount: ChoosePlan, out: Path | None = None, *, machine: Machine = HERE
) -> Selection:
    """Select again from stored scores, with another amount or policy."""
    folder = SelectionFolder(scored)
    with locked(folder.work, "choose", shared=out is not None):
        if out is None:
            return _choose(folder, amount, machine)
        other = folder.scores_copied(out)
        with locked(other.work, "choose"):
            return _choose(other, amount, machine)


def _choose(folder: SelectionFolder, amount: ChoosePlan, machine: Machine) -> Selection:
    manifest = folder.require_scored()
    with undamaged(folder.path), machine.running(folder.work) as context:
        plan = dataclasses.replace(Plan.from_dict(manifest["plan"]), choose=amount).check()
        target, sources = ([Source(**s) for s in manifest[k]] for k in ("target", "corpus"))
        run = Run.of(context, plan, target, context.find_again(sources, plan.read, folder.path))
        run.encoder = manifest["encoder"]
        run.files = manifest["files"]
        run.encoders = manifest["encoders"]
        run.engine.require_shared(folder.work, "DIR")
        check_dedup(run)
        prepare_balance(run)
        folder.amend(_identity(run))
        return _finish(run, folder, manifest, selecting=True)


def rank(
    plan: Plan,
    target: Sequence[str],
    corpus_inputs: Sequence[str],
    *,
    methods: Sequence[str] = (),
    seeds: int = SEEDS,
    machine: Machine = HERE,
) -> list[Ranked]:
    """Rank methods on the user's own data."""
    if seeds < 1:
        raise bad_setting("`seeds`", "1 or more", seeds)
    names = list(methods) or candidates()
    labels = [n for n in names if issubclass(registry.load(n), LabelMethod)]
    if labels:
        raise bad_setting("`method`", "a method that scores texts, not labels", ", ".join(labels))
    return rank_by_bits(
        plan, target, corpus_inputs, names, named=bool(methods), machine=machine, seeds=seeds
    )


def rank_by_bits(
    plan: Plan,
    target: Sequence[str],
    corpus_inputs: Sequence[str],
    names: Sequence[str],
    *,
    named: bool,
    machine: Machine,
    seeds: int = 0,
) -> list[Ranked]:
    """Rank methods on a sample of the corpus; takes what `rank` takes."""
    # By held-out bits alone without `seeds`, as `auto` does. With `named`, a method that cannot be
    # used here is an error; else it is left out.
    with machine.running() as context:
        run = _open(whole_lines(plan, corpus_inputs), target, corpus_inputs, context)
        options = plan.method.options if len(names) == 1 else {}
        encodes = any(registry.build(n, options).encodes for n in names)
        if encodes:
            decided = by_size(run.plan, run.sources, workers=run.engine.workers, cascade=False)
            run.choose_embedder(*decided[:2], "")  # what other methods take is what it measures
        choose_side(run)
        samples = Sample(run.work, "target"), Sample(run.work, "background")
        target_texts(run, samples[0])
        background_texts(run, samples[1], plan.fit.background)
        if encodes:
            with run.stage("prepare encoder"):
                run.one(PrepareEncoder(run.cache), run.plan.embed)
            for sample in samples:
                add_vectors(run, sample)
        return rank_methods(run, names, *samples, seeds, named=named)


def _identity(run: Run) -> dict[str, Any]:
    """What must be the same for a run to be resumed; `strict` can change."""
    settings = run.asked.identity() | {
        "read": run.asked.read.identity(),
        "fit": run.asked.fit.identity(),
        "choose": run.asked.choose.identity(),
    }
    settings["choose"]["clusters"] = run.clusters  # their fingerprint, not their path
    return {
        **settings,
        "target": source_identity(run.target),
        "corpus": source_identity(run.sources),
        **corpus.layout(run.sources, run.plan.read),
        "encoder": run.encoder,
        "encoders": run.encoders,
        "files": run.files,
        "versions": {"corpusfit": versions()["corpusfit"], "tokens": TOKENS},
    }


def _run(
    plan: Plan,
    target: Sequence[str],
    corpus_inputs: Sequence[str],
    out: Path,
    machine: Machine,
    overwrite: bool,
    *,
    selecting: bool,
) -> Selection:
    plan = whole_lines(plan.check(), corpus_inputs)
    used = _resolved(plan).method
    method = None if used.name == "auto" else registry.build(used.name, used.options)
    if isinstance(method, LabelMethod) and method.truth != SOURCE:  # a label is read as the id
        plan = dataclasses.replace(plan, read=dataclasses.replace(plan.read, id_field=method.truth))
    check_fraction(plan.choose, used)
    stages = stages_of(_resolved(plan)) if plan.cascade.stages else []
    named = [m for m in [s.method for s in stages] or [used] if m and m.name != AUTO]
    files = sorted({f for m in named for f in registry.usable(m.name, m.options).files})
    folder = SelectionFolder(out)
    folder.claim()
    with contextlib.ExitStack() as stack, machine.running(folder.work) as context:
        run = _open(plan, target, corpus_inputs, context)
        stack.enter_context(locked(folder.work, "select" if selecting else "score", make=True))
        decided = by_size(plan, run.sources, workers=run.engine.workers, cascade=selecting)
        run.choose_embedder(*decided)
        run.plan = run.asked = _resolved(run.plan)
        choose_side(run)
        plan = run.plan
        run.files = {file: corpus.fingerprint(file)[0] for file in files}
        check_dedup(run)
        prepare_encoder(run)
        prepare_stages(run)
        prepare_balance(run)
        folder.begin(_identity(run), overwrite=overwrite)
        run.engine.require_shared(folder.work, "`out`")
        require_strict(run, folder)
        done = folder.finished()
        if done is not None and (not selecting or done["selected"]):
            return Selection(out, done)
        manifest = folder.scored_so_far()
        if manifest is None:
            check_sources(run.sources, run.plan.read, "`corpus`", run.warn)
            warn_language_mismatch(run)
            # The selected text is compressed, but so may be the corpus; stored embeddings, 16 bits
            # a number, are about as large as the text.
            encodes = method is not None and method.encodes
            warn_if_disk_is_small(folder, run.size * (plan.choose.share + encodes), run.progress)
            scoring = score_cascade if plan.cascade.stages else score_corpus
            with noticed_by(functools.cache(lambda: _compile_aside(run))):
                used = scoring(run, folder)
            require_strict(run, folder)
            run.require_unchanged()
            manifest = _manifest(run, folder, used)
            manifest["given"] = {"target": absolute(target), "corpus": absolute(corpus_inputs)}
            folder.keep_scored(manifest)
        return _finish(run, folder, manifest, selecting=selecting)


def whole_lines(plan: Plan, corpus_inputs: Sequence[str]) -> Plan:
    """The plan with one unit, and so one segment, per line if the corpus is of aligned pairs."""
    if not any(corpus.is_pair(each) for each in corpus_inputs) or plan.cut.unit == "document":
        return plan
    if plan.cut.unit != "window":  # the default
        cure = "Only a whole line of a pair has a translation, so each line is one segment."
        raise bad_setting(
            "`cut.unit`", "document or left out with aligned pairs", plan.cut.unit, cure
        )
    return dataclasses.replace(plan, cut=dataclasses.replace(plan.cut, unit="document"))


def _compile_aside(run: Run) -> None:
    """Compile the method's kernels in a worker, while this process compiles those of reading."""
    names = contenders(alone=True) if run.plan.method.name == "auto" else [run.plan.method.name]
    options = run.plan.method.options
    for name in names:
        run.engine.run_aside(CompileKernels(), MethodPlan(name, options))


def _resolved(plan: Plan) -> Plan:
    """The plan with its stages and its method's embedder written out."""
    plan = resolve_stages(plan)
    used = registry.with_embedder(plan.method, plan.embed.embedder)
    return dataclasses.replace(plan, method=used)


def _open(
    plan: Plan, target: Sequence[str], corpus_inputs: Sequence[str], context: RunContext
) -> Run:
    started = time.perf_counter()
    run = Run.of(
        context,
        plan,
        context.find(target, plan.target_read, "target"),
        context.find(corpus_inputs, plan.read, "corpus"),
    )
    check_shares(tuple(s.name for s in run.target), plan)
    run.seconds["find inputs"] = round(time.perf_counter() - started, 3)
    return run


@no_collection()
def _manifest(run: Run, folder: SelectionFolder, used: MethodPlan) -> dict[str, Any]:
    counts = count_rows(run, folder)
    return {
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "tokens": TOKENS,
        "plan": run.asked.as_dict(),
        "method": dataclasses.asdict(used),
        "encoder": run.encoder,
        "encoders": run.encoders,
        "embedder_reason": run.embedder_reason,
        "files": run.files,
        "ranking": ranking_of(folder),
        "reason": run.reason,
        "remark": run.remark,
        "target": [source_as_dict(s) for s in run.target],
        "corpus": [source_as_dict(s) for s in run.sources],
        "counts": counts,
        "warnings": run.warnings,
        "seconds": run.seconds,
    }


def _finish(
    run: Run, folder: SelectionFolder, manifest: dict[str, Any], *, selecting: bool
) -> Selection:
    """Select and write; the manifest comes last and marks the run as finished."""
    selected: dict[str, Any] | None = None
    reached: int | None = None
    amount: dict[str, Any] | None = None
    command = "select" if selecting else "score"
    urls = {role: [s["url"] for s in manifest[role]] for role in ("target", "corpus")}
    inputs = manifest.get("given", urls)  # older versions did not store it
    if selecting:
        used = manifest["method"]
        if run.plan.choose.fraction == AUTO:
            amount = decide_fraction(run, folder, MethodPlan(**used))
            run.plan = run.plan.with_value("choose.fraction", amount["fraction"])
        copies = copies_of(run, folder)
        chosen = choose_segments(run, folder, registry.build(used["name"], used["options"]), copies)
        write_selected(run, folder, chosen, copies, MethodPlan(**used))
        run.require_unchanged()
        aligned = write_aligned(folder, run.sources)
        selected = {k: v for k, v in vars(chosen).items() if k != "parts"}
        selected |= {"aligned": aligned} if aligned else {}
        reached = reaching(folder, chosen) if run.plan.cascade.stages else None
        asked, all_of_them = run.plan.choose, manifest["counts"]["segments"]
        all_of_them -= (chosen.copies or {"segments": 0})["segments"]
        if chosen.segments == all_of_them and (
            (asked.segments or 0) > all_of_them or (asked.tokens or 0) > chosen.tokens
        ):
            run.warn(f"The amount is larger than the corpus: all {all_of_them:,} segments.")
        if not chosen.segments:
            more = "lower `choose.threshold`"
            if asked.threshold is None:
                given = (n for n in ("segments", "tokens") if getattr(asked, n) is not None)
                more = f"higher `choose.{next(given, 'fraction')}`"
            run.warn(
                "Nothing was selected: no segment fits the amount. Run `corpusfit choose` with a "
                f"{more}."
            )
    clusters = absolute([run.asked.choose.clusters])[0]
    overrides = dataclasses.replace(
        run.asked, choose=dataclasses.replace(run.asked.choose, clusters=clusters)
    ).overrides()
    whole = {
        **manifest,
        "command": command,
        "repeat": command_words(command, inputs, {}, overrides),
        "plan": run.asked.as_dict(),
        "cascade": cascade_of(folder, run.plan.choose, reached),
        "selected": selected,
        "amount": amount,
        "warnings": list(dict.fromkeys([*manifest["warnings"], *run.warnings])),
        "seconds": {**manifest["seconds"], **run.seconds},
        "workers": run.engine.workers,
    }
    write_selection_card(folder.path, whole)
    folder.finish(whole)
    return Selection(folder.path, whole)


_TEXTS = ("A few words of a text.", "Other words, and a number: 42.", "The third one has words.")


@dataclass(frozen=True)
class CompileKernels(PlainJob[MethodPlan, None]):
    """Cut texts, fit a method on them and score them, so that numba compiles what it calls."""

    def _work(self, plan: MethodPlan) -> None:
        cut_units(Documents(np.arange(len(_TEXTS)), text_array(_TEXTS)), CutPlan())
        method = registry.build(plan.name, plan.options)
        if isinstance(method, Method) and not method.encodes:
            texts = text_array(_TEXTS)
            with contextlib.suppress(CorpusfitError):  # too few texts for it
                method.fit(texts, texts, seed=0).score(texts)
