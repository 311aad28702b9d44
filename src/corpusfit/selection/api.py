"""The functions `select`, `choose` and `explain`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from corpusfit.core.artifacts import folder_path
from corpusfit.core.errors import InputError, bad_setting
from corpusfit.core.keywords import Inputs, Keywords, dry_run, with_keywords
from corpusfit.core.plan import AMOUNTS, Plan
from corpusfit.scoring.names import require

if TYPE_CHECKING:
    from corpusfit.core.typed_options import (
        ChooseOptions,
        MachineOptions,
        SelectOptions,
    )
    from corpusfit.selection.explaining import Explanation
    from corpusfit.selection.result import Selection
    from corpusfit.text.context import Machine

CHOOSE = Keywords(Plan, ("choose",), example="choose.alpha=-1")
SELECT = Keywords(
    Plan,
    ("method", "embed", "choose", "cut", "read", "fit.target_field", "seed"),
    example="cut.gamma=5",
)


def build_plan(
    keywords: Keywords[Plan],
    plan: Plan | Path | str | None,
    settings: Sequence[str],
    options: Mapping[str, object],
) -> Plan:
    """The plan of a selection, checked, with a method that exists."""
    built = keywords.build(plan, settings, options).check()
    require(built.method.name)
    return built


def with_names(
    built: Plan,
    target: Inputs,
    corpus: Inputs,
    machine: Machine | None,
    options: Mapping[str, object],
) -> tuple[Machine, tuple[Plan, list[str], list[str]]]:
    """The machine of a call, and its plan with the names of its inputs.

    Data in memory is written to the cache, a task is named by the files with its texts, and the
    path of clusters is valid in any working folder.
    """
    from corpusfit.labeled.heldout import as_target
    from corpusfit.text.context import absolute, machine_of
    from corpusfit.text.in_memory import inputs

    machine = machine_of(machine, options)
    built = built.with_value("choose.clusters", absolute([built.choose.clusters])[0])
    built = built.with_value("read.scores", absolute([built.read.scores])[0])
    field = built.target_read.text_field
    target_names = as_target(inputs(target, "target", machine, field), field, machine)
    return machine, (built, target_names, inputs(corpus, "corpus", machine, built.read.text_field))


@with_keywords(SELECT)
def select(
    target: Inputs,
    corpus: Inputs,
    *,
    out: Path | str,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **options: Unpack[SelectOptions],
) -> Selection:
    """Find the part of a corpus that is like a task.

    Args:
        target: files, folders, globs, URLs or `hub:NAME` datasets with texts of the task.
        corpus: texts to choose from, in the same forms; a parallel corpus such as `pair:a.de,a.en`,
            which is selected by the first text and written with both; or what an earlier run
            selected: `run:OUT`, its folder, or its `Selection`.
        out: folder or URL that is new, empty, or of the same run, which resumes.

    Returns:
        The finished run; iterate over it for the selected segments.
    """
    built = build_plan(SELECT, plan, settings, options)
    from corpusfit.selection import commands

    machine, request = with_names(built, target, corpus, machine, options)
    return commands.select(
        *request, folder_path(out, "`out`"), machine=machine, overwrite=overwrite
    )


@dry_run(select, without=("out", "overwrite"))
def estimate(
    target: Inputs,
    corpus: Inputs,
    *,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Unpack[SelectOptions],
) -> dict[str, Any]:
    """Dry run of `select`, measured on a sample; takes `select`'s arguments.

    Returns:
        sources, stored_mb, text_mb, units, seconds, workers, memory_mb, disk_mb.
    """
    built = build_plan(SELECT, plan, settings, options)
    from corpusfit.selection import dry_run as measured

    machine, request = with_names(built, target, corpus, machine, options)
    return measured.estimate(*request, machine=machine)


@with_keywords(CHOOSE)
def choose(
    folder: Path | str,
    *,
    out: Path | str | None = None,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **options: Unpack[ChooseOptions],
) -> Selection:
    """Select again from stored scores; what is not named is as the run has it.

    Args:
        folder: of a `select`.
        out: new or empty folder for the selection (default: `folder`, whose selection is replaced).
        plan: a plan or a TOML file with settings of `choose`.

    Returns:
        The run with its new selection.
    """
    built = CHOOSE.build(plan, settings, options)
    others = [o for o in built.overrides() if not o.startswith("choose.")]
    if others:
        raise bad_setting(
            "A setting of choose",
            f"{', '.join(CHOOSE.settings)}, or another of choose",
            ", ".join(others),
            "To change other settings, score again with another `out`.",
        )
    from corpusfit.selection import commands
    from corpusfit.text.context import absolute, machine_of

    machine = machine_of(machine, options)
    into = None if out is None else folder_path(out, "`out`")
    scored = folder_path(folder, "DIR")
    try:
        before = commands.chosen_before(scored)
    except InputError:
        built.check()  # a wrong setting is named before a wrong folder
        raise
    named = any(getattr(built.choose, name) is not None for name in AMOUNTS)
    weighs_all = built.choose.policy == "continuous" != before.policy
    if named or weighs_all:
        # an amount takes the place of any other, and weights are of all segments unless it is named
        none: dict[str, Any] = dict.fromkeys(AMOUNTS)
        before = dataclasses.replace(before, **none)
    begin: Plan = Plan(choose=before)
    if isinstance(plan, Plan):
        begin = begin.with_overrides(plan.overrides())
        plan = None
    amount = CHOOSE.build(plan, settings, options, begin).choose
    by_clusters = amount.balance == "cluster" or built.choose.clusters
    clusters = absolute([amount.clusters])[0] if by_clusters else ""
    amount = dataclasses.replace(amount, clusters=clusters)
    return commands.choose(scored, amount, into, machine=machine)


@with_keywords()
def explain(
    out: Path | str,
    *,
    row: str | Mapping[str, Any] | None = None,
    text: str | None = None,
    top: int = 10,
    machine: Machine | None = None,
    **options: Unpack[MachineOptions],
) -> Explanation:
    """Explain one score of a run.

    Args:
        out: the folder of a `select`.
        row: `SOURCE:ROW` or `SOURCE:ROW:SEGMENT` as in `scores/`; without SEGMENT, the segment of
            the row with the highest score; the id of a selected text; or a row of a `Selection`,
            such as `run[0]` or `run.to_pandas().iloc[0]`.
        text: any text to explain, in place of a row.
        top: highest number of n-grams per direction, and of target texts.

    Returns:
        The score, the words that raised and lowered the score, and the nearest target texts.
    """
    from corpusfit.selection import explaining
    from corpusfit.text.context import machine_of

    machine = machine_of(machine, options, workers=1)
    if row is not None and not isinstance(row, str):
        try:
            row = f"{row['source']}:{row['row']}:{row['segment']}"
        except (TypeError, KeyError, IndexError):
            allowed = "SOURCE:ROW, an id, or a row of a `Selection`, such as run[0]"
            raise bad_setting("`row`", allowed, row) from None
    return explaining.explain(folder_path(out, "DIR"), row=row, text=text, top=top, machine=machine)
