"""The function `rank`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from corpusfit.core.errors import bad_setting
from corpusfit.core.keywords import Inputs, Keywords, with_keywords
from corpusfit.core.plan import DEFAULT_FRACTION, Plan
from corpusfit.ranking.plan import RankPlan
from corpusfit.scoring.names import require
from corpusfit.selection.api import with_names

if TYPE_CHECKING:
    from corpusfit.core.typed_options import RankOptions
    from corpusfit.ranking.ranking import Ranking
    from corpusfit.text.context import Machine

RANK = Keywords(
    RankPlan,
    (
        "choose.fraction",
        "embed",
        "cut",
        "read.text_field",
        "read.where",
        "read.scores",
        "fit.target_field",
        "task.metric",
        "task.label_field",
        "seed",
    ),
    differs={
        "fraction": {
            "help": "Share of the text that will be selected",
            "default": str(DEFAULT_FRACTION),
        },
        "metric": {
            "help": "Metric of `task`, such as `accuracy`",
            "default": "macro_f1",
            "more": "",
        },
    },
    example="fit.background=50000",
)

_BACKGROUND = 50_000
"""Units of the corpus sample with a task, by default: word vectors need more words than bits."""


@with_keywords(RANK)
def rank(
    target: Inputs | None = None,
    corpus: Inputs | None = None,
    *,
    task: Inputs | None = None,
    methods: Sequence[str] = (),
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Unpack[RankOptions],
) -> Ranking:
    """Rank methods on this target and corpus.

    Args:
        target: as in `select` (default: the training texts of `task`).
        corpus: as in `select`.
        task: a task of one class per text, as for `evaluate`, on whose test texts word vectors of
            each method's selection are scored (default: none). Its text field is the target's.
        methods: names of methods (default: all that score a unit by itself, except PyOD's and
            those that train a network; with `task` cynical, moore_lewis and dsir).

    Returns:
        The bits of each method and its seconds on the sample, in order: the default first if it is
        not shown worse than the best, then by bits; with `task` also the scores. `findings()` says
        what they show.
    """
    start = RankPlan()
    if task is not None:
        start = start.with_value("fit.background", _BACKGROUND)
    if isinstance(plan, Plan):
        start = start.with_overrides(plan.overrides())
        plan = None
    built = RANK.build(plan, settings, options, start)
    if len(methods) == 1:  # its own settings are known
        built = built.with_value("method.name", methods[0])
    require(built.check().method.name)
    if corpus is None:
        raise bad_setting("`corpus`", "texts to choose from", "nothing")
    of_task = [override for override in built.overrides() if override.startswith("task.")]
    if of_task and task is None:
        raise bad_setting("A setting of `task`", "left out without a task", ", ".join(of_task))
    from corpusfit.ranking import ranking, vectors
    from corpusfit.text.context import machine_of

    machine = machine_of(machine, options)
    scored = None if task is None else vectors.read(task, built, machine)
    if target is None:
        if scored is None:
            cure = "Or name a labeled task as `task`, whose training texts are then the target."
            raise bad_setting("`target`", "texts of your task", "nothing", cure)
        # as it was read, so that a test split that is drawn from its file is not in it
        target = [{"text": text} for text in scored.task.train.texts()]
        built = built.with_value("fit.target_field", "text")
    request = with_names(built, target, corpus, machine, {})[1]
    names = list(methods) or list(vectors.METHODS if scored else ranking.candidates())
    return ranking.rank(*request, names, named=bool(methods), task=scored, machine=machine)
