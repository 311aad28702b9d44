"""Scores a corpus by its rows' labels, without a fit and without reading the text."""

from __future__ import annotations

from pathlib import Path

from corpusfit.core.artifacts import listed, remove
from corpusfit.core.errors import bad_setting
from corpusfit.core.plan import MethodPlan
from corpusfit.scoring import registry, table
from corpusfit.scoring.contract import LabelMethod
from corpusfit.selection.folder import SelectionFolder
from corpusfit.selection.labels_job import ScoreLabels, shown
from corpusfit.selection.score_job import mark_path
from corpusfit.text.context import Run
from corpusfit.text.reading import Reasons


def uses_labels(plan: MethodPlan) -> bool:
    """Whether a method scores a row by its label, not by its text."""
    return plan.name != "auto" and issubclass(registry.load(plan.name), LabelMethod)


def score_labels(
    run: Run, folder: SelectionFolder, scoring: tuple[int, bool, tuple[str, ...], Path, Path]
) -> None:
    """Score the corpus by its rows' labels.

    Without a single matching row, the scores are removed again, so that the user can name another
    label in the same folder.

    Reference: Aharoni and Goldberg (2020), section 4.2 (the oracle).
    """
    plan, done = run.plan, listed(folder.scored)
    job = ScoreLabels(*scoring, plan.method, plan.read, plan.cut)
    seen, rejected = set[str](), Reasons()
    for tally, labels in run.over_shards(
        "score", job, lambda i: mark_path(folder.scored, i).name in done
    ):
        seen.update(labels)
        rejected.add(tally.rejects)
        run.machine.progress.advance(0, tally.units)
    segments = 0
    for _, path in table.parts(folder.scores) if folder.scores.is_dir() else ():
        (scores,) = table.read_columns(path, "score")
        if scores.any():
            return
        segments += len(scores)
    remove(folder.scored, folder.scores)
    if not segments:
        raise run.nothing_read(rejected)
    raise bad_setting(
        f"The settings of {plan.method.name}",
        "such that a row of the corpus has a matching label",
        dict(plan.method.options),
        f"Labels of the corpus: {shown(seen)}.",
    )
