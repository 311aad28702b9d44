"""The steps of `select` and `choose`, in order."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit.core.artifacts import no_collection
from corpusfit.core.manifest import (
    locked,
    source_as_dict,
    undamaged,
    versions,
    warn_if_disk_is_small,
)
from corpusfit.core.plan import ChoosePlan, Plan
from corpusfit.kernels.characters import VERSION as TOKENS
from corpusfit.selection.copies import copies_of
from corpusfit.selection.counting import count_rows
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.publishing import write_selection_card
from corpusfit.selection.resolved import Resolved
from corpusfit.selection.resolving import resolve, resolve_again
from corpusfit.selection.result import Selection
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
    folder = SelectionFolder(out)
    folder.claim()
    with contextlib.ExitStack() as stack, machine.running(folder.work) as run:
        resolved = resolve(run, plan, target, corpus_inputs)
        stack.enter_context(locked(folder.work, "select", make=True))
        folder.begin(resolved.identity(), overwrite=overwrite)
        run.warnings_file = folder.warnings
        run.engine.require_shared(folder.work, "`out`")
        require_strict(resolved.corpus, folder)

        # A finished run is returned, a scored one goes on with the selection; else the scoring
        # resumes.
        done = folder.finished()
        if done is not None and done["selected"]:
            return Selection(out, done)
        manifest = folder.scored_so_far()
        if manifest is None:
            # The selected text is compressed, but so may be the corpus; stored embeddings, 16 bits
            # a number, are about as large as the text.
            size = resolved.corpus.size * (resolved.plan.choose.share + resolved.method.encodes)
            warn_if_disk_is_small(folder, size, run.progress)
            scored = score_corpus(run, resolved, folder)
            require_strict(resolved.corpus, folder)
            if not selecting:  # else once, when the selected text is written
                resolved.target.require_unchanged()
                resolved.corpus.require_unchanged()
            manifest = _manifest(run, resolved, folder, scored)
            manifest["given"] = {"target": absolute(target), "corpus": absolute(corpus_inputs)}
            folder.keep_scored(manifest)
        if not selecting:
            return Selection(out, manifest)
        return _finish(run, resolved, folder, manifest)


def chosen_before(scored: Path) -> ChoosePlan:
    """What a run chose last, or was about to choose when it was stopped."""
    folder = SelectionFolder(scored)
    manifest = folder.require_scored()
    return Plan.from_dict((folder.finished() or manifest)["plan"]).choose


def choose(
    scored: Path, amount: ChoosePlan, out: Path | None = None, *, machine: Machine = HERE
) -> Selection:
    """Select again from stored scores, with another amount or policy."""
    folder = SelectionFolder(scored)
    with contextlib.ExitStack() as stack:
        stack.enter_context(locked(folder.work, "choose", shared=out is not None))
        manifest = folder.require_scored()
        stack.enter_context(undamaged(folder.path))
        run = stack.enter_context(machine.running(folder.work))
        run.engine.require_shared(folder.work, "DIR")
        resolved = resolve_again(run, folder.path, manifest, amount)
        if out is not None:
            folder = folder.scores_copied(out)
            stack.enter_context(locked(folder.work, "choose"))
            run.engine.require_shared(folder.work, "`out`")
        else:  # what is stopped in another folder begins again with this one's choice
            manifest = {**manifest, "plan": resolved.plan.as_dict()}
            folder.keep_scored(manifest)
        folder.amend(resolved.identity())
        run.warnings_file = folder.warnings
        return _finish(run, resolved, folder, manifest)


@no_collection()
def _manifest(
    run: Run, resolved: Resolved, folder: SelectionFolder, scored: Scored
) -> dict[str, Any]:
    target = resolved.target
    texts = resolved.corpus
    counts = count_rows(run, texts, folder)
    of_files = tuple(source.name for source in texts.sources)
    return {
        "corpusfit": versions()["corpusfit"],
        "versions": versions(),
        "tokens": TOKENS,
        "plan": resolved.plan.as_dict(),
        "method": dataclasses.asdict(resolved.plan.method),
        "encoder": resolved.encoder,
        **({"precision": resolved.precision} if resolved.precision else {}),
        **({"commits": resolved.commits} if resolved.commits else {}),
        "embedder_reason": resolved.embedder_reason,
        "cut_reason": resolved.cut_reason,
        "files": resolved.files,
        "remark": scored.remark,
        "rounds": scored.rounds,
        "likeness": None if scored.likeness is None else dataclasses.asdict(scored.likeness),
        "target": [source_as_dict(s) for s in target.sources],
        "corpus": [source_as_dict(s) for s in texts.sources],
        **({} if texts.names == of_files else {"names": texts.names}),
        "counts": counts,
        "warnings": run.all_warnings(),
        "seconds": run.seconds,
    }


def _finish(
    run: Run, resolved: Resolved, folder: SelectionFolder, manifest: dict[str, Any]
) -> Selection:
    """Select and write; the manifest comes last and marks the run as finished."""
    plan = resolved.plan
    copies = copies_of(run, resolved, folder)
    chosen = choose_segments(run, resolved, folder, copies)
    write_selected(run, resolved, folder, chosen)
    resolved.target.require_unchanged()
    resolved.corpus.require_unchanged()
    aligned = write_aligned(run, resolved.corpus.sources, folder)
    selected = {k: v for k, v in vars(chosen).items() if k != "parts"}
    if chosen.groups is None:
        del selected["groups"]
    selected |= {"aligned": aligned} if aligned else {}
    warn_of_amount(run, plan.choose, chosen, manifest["counts"]["segments"])
    # `auto` has become an embedder also where a method embeds nothing
    settings = [
        setting
        for setting in plan.overrides()
        if resolved.embedder or not setting.startswith("embed.embedder=")
    ]
    finished = {
        **manifest,
        "command": "select",
        "repeat": command_words("select", manifest["given"], {}, settings),
        "plan": plan.as_dict(),
        "selected": selected,
        "warnings": list(dict.fromkeys([*manifest["warnings"], *run.all_warnings()])),
        "seconds": {**manifest["seconds"], **run.seconds},
        "workers": run.engine.workers,
    }
    write_selection_card(folder.path, finished)
    folder.finish(finished)
    return Selection(folder.path, finished)
