"""The commands `select`, `score`, `choose` and `rank` as functions."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit import text as corpus
from corpusfit.core.artifacts import no_collection
from corpusfit.core.errors import bad_setting
from corpusfit.core.lock import locked
from corpusfit.core.manifest import digest, source_as_dict, source_identity, undamaged, versions
from corpusfit.core.plan import AUTO, ChoosePlan, MethodPlan, Plan
from corpusfit.core.room import warn_without_room
from corpusfit.core.types import Source
from corpusfit.kernels.characters import VERSION as TOKENS
from corpusfit.kernels.compiling import noticed_by
from corpusfit.scoring import registry
from corpusfit.scoring.contract import SOURCE, LabelMethod
from corpusfit.selection.amount import check_fraction, decide_fraction
from corpusfit.selection.auto import contenders, ranking_of
from corpusfit.selection.balance import prepare_balance
from corpusfit.selection.budget import Decision, apply_decision, read_decision, write_decision
from corpusfit.selection.cascade import cascade_of, prepare_stages, score_cascade
from corpusfit.selection.cascade_stages import resolve_stages, stages_of
from corpusfit.selection.compile_job import CompileKernels
from corpusfit.selection.copies import check_dedup, copies_of
from corpusfit.selection.corpus_embedding import add_vectors
from corpusfit.selection.cost_model import decide_by_budget
from corpusfit.selection.embedder_by_size import by_size
from corpusfit.selection.fit import PrepareEncoder, Sample
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.language_check import choose_side, warn_language_mismatch
from corpusfit.selection.parallel_files import whole_lines, write_aligned
from corpusfit.selection.ranking import SEEDS, Ranked, candidates, rank_methods
from corpusfit.selection.result import Selection
from corpusfit.selection.samples import background_texts, check_shares, target_texts
from corpusfit.selection.scoring import prepare_encoder, require_strict, score_corpus
from corpusfit.selection.stages_ahead import selecting_stages, stages_ahead
from corpusfit.selection.writing import choose_segments, count_rows, reaching, write_selected
from corpusfit.text.context import HERE, Machine, Run, RunContext
from corpusfit.text.pair_languages import check_sources
from corpusfit.text.reproduce import absolute, command_words
from corpusfit.training.cards import write_selection_card


def select(
    plan: Plan,
    target: Sequence[str],
    corpus_inputs: Sequence[str],
    out: Path,
    *,
    machine: Machine = HERE,
    overwrite: bool = False,
) -> Selection:
    """Select the part of the corpus that is similar to the target.

    Reference: TADPOLE, Algorithm 1.
    """
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
        if manifest["budget"]:
            run.plan = apply_decision(plan, Decision(**manifest["budget"]))
        run.engine.require_shared(folder.work, "DIR")
        check_dedup(run)
        run.progress.expect(selecting_stages(plan))
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
    """Rank methods on a sample of the corpus; takes what `rank` takes.

    By held-out bits alone without `seeds`, as `auto` does. With `named`, a method that cannot be
    used here is an error; else it is left out.
    """
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
    settings = run.asked.as_dict() | {
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
    files = _files(_resolved(plan))
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
        asked = _decide(run, folder)
        run.progress.expect(stages_ahead(run.plan, selecting=selecting))
        prepare_encoder(run)
        prepare_stages(run)
        prepare_balance(run)
        folder.begin(_identity(run), overwrite=overwrite)
        if run.decision is not None:
            write_decision(folder, run.decision, asked)
        run.engine.require_shared(folder.work, "`out`")
        require_strict(run, folder)
        done = folder.finished()
        if done is not None and (not selecting or done["selected"]):
            return Selection(out, done)
        manifest = folder.scored_so_far()
        if manifest is None:
            check_sources(run.sources, run.plan.read, "`corpus`", run.warn)
            warn_language_mismatch(run)
            warn_without_room(folder, _written_bytes(run), run.progress)
            scoring = score_cascade if plan.cascade.stages else score_corpus
            with noticed_by(functools.cache(lambda: _compile_aside(run))):
                used = scoring(run, folder)
            require_strict(run, folder)
            run.require_unchanged()
            manifest = _manifest(run, folder, used)
            manifest["given"] = {"target": absolute(target), "corpus": absolute(corpus_inputs)}
            folder.keep_scored(manifest)
        return _finish(run, folder, manifest, selecting=selecting)


def _written_bytes(run: Run) -> float:
    """An upper estimate of what a run writes in its folder.

    The selected text is compressed, but so may be the corpus; stored embeddings, 16 bits a number,
    are about as large as the text.
    """
    method = run.plan.method
    encodes = method.name != "auto" and registry.build(method.name, method.options).encodes
    return run.size * (run.plan.choose.share + encodes)


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


def _overrides(plan: Plan) -> list[str]:
    """The settings that differ from their defaults, clusters by their absolute path."""
    clusters = absolute([plan.choose.clusters])[0]
    return dataclasses.replace(
        plan, choose=dataclasses.replace(plan.choose, clusters=clusters)
    ).overrides()


def _files(plan: Plan) -> list[str]:
    """Files named by the settings of any stage's method, which must be usable here."""
    used = [s.method for s in stages_of(plan)] if plan.cascade.stages else [plan.method]
    methods = [registry.usable(m.name, m.options) for m in used if m and m.name != "auto"]
    return sorted({file for method in methods for file in method.files})


def _decide(run: Run, folder: SelectionFolder) -> str:
    """Change the plan to fit its budget; returns a digest of what the decision is for, if any."""
    if not run.plan.auto.budget:
        return ""
    asked = digest({k: v for k, v in _identity(run).items() if k not in ("choose", "encoder")})
    run.decision = read_decision(folder, asked) or decide_by_budget(run)
    run.plan = apply_decision(run.plan, run.decision)
    return asked


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
        "budget": run.decision and dataclasses.asdict(run.decision),
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


def _more(amount: ChoosePlan) -> str:
    """The option of an amount, and the direction in which it selects more."""
    if amount.threshold is not None:
        return "lower `choose.threshold`"
    used = (name for name in ("segments", "tokens") if getattr(amount, name) is not None)
    return f"higher `choose.{next(used, 'fraction')}`"


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
            run.warn(
                "Nothing was selected: no segment fits the amount. Run `corpusfit choose` with a "
                f"{_more(run.plan.choose)}."
            )
    whole = {
        **manifest,
        "command": command,
        "repeat": command_words(command, inputs, {}, _overrides(run.asked)),
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
