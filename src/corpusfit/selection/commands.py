"""The steps of `select`, `choose` and `rank`, in order."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit import text as corpus
from corpusfit.core.artifacts import no_collection
from corpusfit.core.errors import bad_setting
from corpusfit.core.manifest import (
    locked,
    source_as_dict,
    source_identity,
    undamaged,
    versions,
    warn_if_disk_is_small,
)
from corpusfit.core.plan import ChoosePlan, CutPlan, MethodPlan, Plan
from corpusfit.core.types import Source
from corpusfit.kernels.characters import VERSION as TOKENS
from corpusfit.scoring import registry
from corpusfit.scoring.contract import LabelMethod
from corpusfit.selection.balance import clusters_fingerprint
from corpusfit.selection.copies import copies_of
from corpusfit.selection.counting import count_rows
from corpusfit.selection.embedding import add_vectors
from corpusfit.selection.fit import Sample, commits_of, prepare_encoder
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.input_checks import require_kept, require_texts_for_near
from corpusfit.selection.publishing import write_selection_card
from corpusfit.selection.ranking import Ranking, rank_methods
from corpusfit.selection.resolving import (
    Resolved,
    by_size,
    checked,
    open_run,
    prepared,
    resolve,
    whole_lines,
    with_cut,
    with_numbers,
)
from corpusfit.selection.result import Selection
from corpusfit.selection.samples import background_texts, target_texts
from corpusfit.selection.scoring import Scored, require_strict, score_corpus
from corpusfit.selection.writing import (
    choose_segments,
    warn_of_amount,
    write_aligned,
    write_selected,
)
from corpusfit.text.context import HERE, Machine, Run, absolute, command_words


def select(
    plan: Plan,
    target: Sequence[str],
    corpus_inputs: Sequence[str],
    out: Path,
    *,
    machine: Machine = HERE,
    overwrite: bool = False,
    selecting: bool = True,
) -> Selection:
    """Score the corpus by its similarity to the target, and select a part of it.

    Without `selecting`, the folder has scores that `choose` can select from, and is not finished.
    """
    # Reference: TADPOLE, Algorithm 1.
    plan = checked(plan, corpus_inputs)
    folder = SelectionFolder(out)
    folder.claim()
    with contextlib.ExitStack() as stack, machine.running(folder.work) as context:
        run = open_run(plan, target, corpus_inputs, context)
        stack.enter_context(locked(folder.work, "select", make=True))
        resolved = resolve(run)
        run = prepared(run, resolved)
        folder.begin(_identity(run), overwrite=overwrite)
        run = dataclasses.replace(run, warnings_file=folder.warnings)
        run.engine.require_shared(folder.work, "`out`")
        require_strict(run, folder)

        # A finished run is returned, a scored one goes on with the selection; else the scoring
        # resumes.
        done = folder.finished()
        if done is not None and done["selected"]:
            return Selection(out, done)
        manifest = folder.scored_so_far()
        if manifest is None:
            # The selected text is compressed, but so may be the corpus; stored embeddings, 16 bits
            # a number, are about as large as the text.
            size = run.size * (run.plan.choose.share + resolved.method.encodes)
            warn_if_disk_is_small(folder, size, run.progress)
            scored = score_corpus(run, folder, resolved)
            require_strict(run, folder)
            if not selecting:  # else once, when the selected text is written
                run.require_unchanged()
            manifest = _manifest(run, folder, resolved, scored)
            manifest["given"] = {"target": absolute(target), "corpus": absolute(corpus_inputs)}
            folder.keep_scored(manifest)
        if not selecting:
            return Selection(out, manifest)
        return _finish(run, folder, resolved, manifest)


def chosen_before(scored: Path) -> ChoosePlan:
    """What a run chose last, or was about to choose when it was stopped."""
    folder = SelectionFolder(scored)
    manifest = folder.require_scored()
    return Resolved.stored(folder.finished() or manifest).plan.choose


def choose(
    scored: Path, amount: ChoosePlan, out: Path | None = None, *, machine: Machine = HERE
) -> Selection:
    """Select again from stored scores, with another amount or policy."""
    folder = SelectionFolder(scored)
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(folder.work, "choose", shared=out is not None))
        if out is not None:
            folder = folder.scores_copied(out)
            stack.enter_context(locked(folder.work, "choose"))
        manifest = folder.require_scored()
        stack.enter_context(undamaged(folder.path))
        context = stack.enter_context(machine.running(folder.work))
        resolved = Resolved.stored(manifest)
        plan = dataclasses.replace(resolved.plan, choose=amount).check()
        target, sources = ([Source(**s) for s in manifest[k]] for k in ("target", "corpus"))
        sources = context.find_again(sources, plan.read, folder.path)
        fingerprints = {name: manifest[name] for name in ("encoder", "files")}
        run = Run.of(context, plan, target, sources, **fingerprints)
        run.engine.require_shared(folder.work, "DIR")
        require_texts_for_near(plan, sources)
        require_kept(sources, plan)
        run = dataclasses.replace(run, clusters=clusters_fingerprint(run, amount))
        if out is None:  # else what is stopped begins again with the other folder's choice
            manifest = {**manifest, "plan": plan.as_dict()}
            folder.keep_scored(manifest)
        folder.amend(_identity(run))
        run = dataclasses.replace(run, warnings_file=folder.warnings)
        return _finish(run, folder, resolved, manifest)


def rank(
    plan: Plan,
    target: Sequence[str],
    corpus_inputs: Sequence[str],
    names: Sequence[str],
    *,
    named: bool,
    machine: Machine = HERE,
) -> Ranking:
    """Rank methods on a sample of the user's corpus.

    If the user named them, one that cannot be used here is an error; else it is left out.
    """
    labels = [n for n in names if issubclass(registry.load(n), LabelMethod)]
    if labels:
        raise bad_setting("`method`", "a method that scores texts, not labels", ", ".join(labels))
    options = plan.method.options if len(names) == 1 else {}
    plan = with_numbers(plan, [registry.build(name, options) for name in names])
    with machine.running() as context:
        run = open_run(whole_lines(plan, corpus_inputs), target, corpus_inputs, context)
        plan = run.plan
        encoding = [name for name in names if registry.build(name, options).encodes]
        if encoding:  # all of them read the embedder of the first
            plan = dataclasses.replace(plan, method=MethodPlan(encoding[0], options))
            plan, _ = by_size(plan, run.sources)
        # one cut for all that is compared: that of methods on words, as of the default
        methods = [registry.build(name, options) for name in names]
        words = [method for method in methods if method.compares_words] or methods
        plan, reason = with_cut(run, plan, words)
        if reason and encoding:
            reason += f" A selection by embeddings takes {CutPlan().most}."
        if reason:
            run.progress.note(reason)
        run = dataclasses.replace(run, plan=plan)
        if plan.cut.gamma > 1:
            run.warn(
                f"Methods are compared by single units, not by the segments of {plan.cut.gamma} "
                "units (`cut.gamma`) that `select` takes."
            )
        require_texts_for_near(run.plan, run.sources)
        target_sample = Sample(run.work, "target")
        background = Sample(run.work, "background")
        target_texts(run, target_sample)
        background_texts(run, background, run.plan.fit.background)
        if encoding:
            with run.stage("prepare encoder"):
                prepare_encoder(run, run.plan.embed)
                commits = commits_of(run.engine, [run.plan.embed.embedder])
            run = dataclasses.replace(run, commits=commits)
            for sample in (target_sample, background):
                add_vectors(run, sample)
        return rank_methods(run, names, target_sample, background, named=named)


def _identity(run: Run) -> dict[str, Any]:
    """What must be equal to resume a run; `strict` can change."""
    settings = run.plan.identity() | {
        "read": run.plan.read.identity(),
    }
    settings["choose"]["clusters"] = run.clusters  # their fingerprint, not their path
    return {
        **settings,
        "target": source_identity(run.target),
        "corpus": source_identity(run.sources),
        **corpus.layout(run.sources, run.plan.read),
        "encoder": run.encoder,
        "encoders": {},  # as in older runs
        "files": run.files,
        "versions": {"corpusfit": versions()["corpusfit"], "tokens": TOKENS},
    }


@no_collection()
def _manifest(
    run: Run, folder: SelectionFolder, resolved: Resolved, scored: Scored
) -> dict[str, Any]:
    counts = count_rows(run, folder)
    of_files = tuple(source.name for source in run.sources)
    return {
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "tokens": TOKENS,
        "plan": run.plan.as_dict(),
        "method": dataclasses.asdict(run.plan.method),
        "encoder": run.encoder,
        **({"precision": run.precision} if run.precision else {}),
        **({"commits": run.commits} if run.commits else {}),
        "embedder_reason": resolved.embedder_reason,
        "cut_reason": resolved.cut_reason,
        "files": run.files,
        "remark": scored.remark,
        "rounds": scored.rounds,
        "likeness": None if scored.likeness is None else dataclasses.asdict(scored.likeness),
        "target": [source_as_dict(s) for s in run.target],
        "corpus": [source_as_dict(s) for s in run.sources],
        **({} if run.names == of_files else {"names": run.names}),
        "counts": counts,
        "warnings": run.all_warnings(),
        "seconds": run.seconds,
    }


def _finish(
    run: Run, folder: SelectionFolder, resolved: Resolved, manifest: dict[str, Any]
) -> Selection:
    """Select and write; the manifest comes last and marks the run as finished."""
    plan = run.plan
    copies = copies_of(run, folder)
    chosen = choose_segments(run, folder, resolved.method, copies)
    write_selected(run, folder, chosen)
    run.require_unchanged()
    aligned = write_aligned(run, folder)
    selected = {k: v for k, v in vars(chosen).items() if k != "parts"}
    if chosen.groups is None:
        del selected["groups"]
    selected |= {"aligned": aligned} if aligned else {}
    warn_of_amount(run, chosen, manifest["counts"]["segments"])
    plan = plan.with_value("choose.clusters", absolute([plan.choose.clusters])[0])
    finished = {
        **manifest,
        "command": "select",
        "repeat": command_words("select", manifest["given"], {}, plan.overrides()),
        "plan": plan.as_dict(),
        "selected": selected,
        "warnings": list(dict.fromkeys([*manifest["warnings"], *run.all_warnings()])),
        "seconds": {**manifest["seconds"], **run.seconds},
        "workers": run.engine.workers,
    }
    write_selection_card(folder.path, finished)
    folder.finish(finished)
    return Selection(folder.path, finished)
