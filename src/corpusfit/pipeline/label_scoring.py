"""From the corpus to scores by what is known of its rows: no fit, no text looked at.

What: runs `ScoreLabels` over the shards that are not done, and makes sure that some row is wanted.
Why: a yardstick that took nothing because of a slip in a name would look like a bad method.
Trade-off: whether any row is wanted shows at the end only; then nothing is kept, so that another
name may be given.
Reference: Aharoni and Goldberg (2020), section 4.2 (the oracle).
"""

from __future__ import annotations

from pathlib import Path

from corpusfit.artifacts import listed, remove
from corpusfit.errors import bad_setting
from corpusfit.jobs.labels import ScoreLabels, shown
from corpusfit.jobs.reading import Reasons
from corpusfit.jobs.score import mark_path
from corpusfit.manifest import RunFolder
from corpusfit.pipeline.run import Run
from corpusfit.plan import MethodPlan
from corpusfit.score import registry, table
from corpusfit.score.contract import LabelMethod


def uses_labels(plan: MethodPlan) -> bool:
    """Whether a method goes by a row's label and not by its text."""
    return plan.name != "auto" and issubclass(registry.load(plan.name), LabelMethod)


def score_labels(
    run: Run, folder: RunFolder, scoring: tuple[int, bool, tuple[str, ...], Path, Path]
) -> None:
    """Score the corpus by its rows' labels.

    Args:
        run: its method goes by labels.
        folder: where the scores go.
        scoring: what every job that scores begins with, see `Scoring`.

    Raises:
        EmptyInputError: the corpus has no usable row.
        UsageError: no row's label is wanted.
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
    for made in (folder.scored, folder.scores):
        remove(made)
    if not segments:
        raise run.nothing_read(rejected)
    raise bad_setting(
        f"The settings of {plan.method.name}",
        "such that the label of a row of the corpus fits",
        dict(plan.method.options),
        f"Labels there are: {shown(seen)}.",
    )
