"""The function `rank`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from corpusfit.core.keywords import Inputs, Keywords, with_keywords
from corpusfit.core.plan import DEFAULT_FRACTION, Plan
from corpusfit.selection.api import build_plan, with_names

if TYPE_CHECKING:
    from corpusfit.core.typed_options import RankOptions
    from corpusfit.ranking.ranking import Ranking
    from corpusfit.text.context import Machine

RANK = Keywords(
    Plan,
    (
        "choose.fraction",
        "embed",
        "cut",
        "read.text_field",
        "read.where",
        "fit.target_field",
        "seed",
    ),
    differs={
        "fraction": {
            "help": "Share of the text that will be selected",
            "default": str(DEFAULT_FRACTION),
        }
    },
    example="fit.background=50000",
)


@with_keywords(RANK)
def rank(
    target: Inputs,
    corpus: Inputs,
    *,
    methods: Sequence[str] = (),
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Unpack[RankOptions],
) -> Ranking:
    """Rank methods on this target and corpus.

    Args:
        target: as in `select`.
        corpus: as in `select`.
        methods: names of methods (default: all that score a unit by itself, except PyOD's and
            those that train a network).

    Returns:
        The bits of each method and its seconds on the sample, in order: the default first if it is
        not shown worse than the best, then by bits; `findings()` says what they show.
    """
    built = RANK.build(plan, settings, options)
    if len(methods) == 1:  # its own settings are known
        built = built.with_value("method.name", methods[0])
    built = build_plan(RANK, built, (), {})
    from corpusfit.ranking import ranking

    machine, request = with_names(built, target, corpus, machine, options)
    names = list(methods) or ranking.candidates()
    return ranking.rank(*request, names, named=bool(methods), machine=machine)
