"""Select, and look at what was selected: the commands with the command line's words."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from corpusfit import pipeline
from corpusfit.api.plans import Inputs, build_plan, listed
from corpusfit.artifacts import place
from corpusfit.errors import bad_setting
from corpusfit.pipeline import (
    Audit,
    Explanation,
    Machine,
    Selection,
)
from corpusfit.pipeline.ranking import Ranked
from corpusfit.plan import Plan
from corpusfit.score.contract import SOURCE


def select(
    *,
    target: Inputs,
    corpus: Inputs,
    out: Path | str,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **words: Any,
) -> Selection:
    """Find the part of a corpus that is like a task.

    Args:
        target: files, folders, globs, URLs or `hub:NAME` datasets with texts of the task.
        corpus: the same for the pile to choose from; or aligned pairs, as `pair:a.de,a.en`, which
            are chosen by their first side and come out with the other.
        out: a new or empty folder or URL, or one of the same run to resume.
        plan: a plan or a TOML file to start from.
        settings: further settings as `"cut.gamma=5"`.
        overwrite: replace another run in `out`.
        machine: where it runs, with how many workers, and what is told of it.
        **words: method, fraction, segments, tokens, threshold, weights, balance, clusters,
            embedder, budget, cascade, recall, unit, text_field, strict, seed: as the options of
            the same name.

    Returns:
        The finished run: iterate over it for the selected segments.

    Raises:
        CorpusfitError: see `corpusfit.errors`.
    """
    return pipeline.select(
        build_plan(plan, settings, **words),
        listed(target),
        listed(corpus),
        place(out, "--out"),
        machine=machine or Machine(),
        overwrite=overwrite,
    )


def score(
    *,
    target: Inputs,
    corpus: Inputs,
    out: Path | str,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    overwrite: bool = False,
    machine: Machine | None = None,
    **words: Any,
) -> Selection:
    """As `select`, but scores only."""
    return pipeline.score(
        build_plan(plan, settings, **words),
        listed(target),
        listed(corpus),
        place(out, "--out"),
        machine=machine or Machine(),
        overwrite=overwrite,
    )


def estimate(
    *,
    target: Inputs,
    corpus: Inputs,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> dict[str, Any]:
    """What `select` would read and take, measured on a sample; takes `select`'s arguments.

    Returns:
        sources, stored_mb, text_mb, units, seconds, workers, memory_mb, disk_mb; with a budget also
        `budget`, what it came to; for a cascade also shares, and whether these are assumed.
    """
    return pipeline.estimate(
        build_plan(plan, settings, **words),
        listed(target),
        listed(corpus),
        machine=machine or Machine(),
    )


def choose(
    out: Path | str,
    *,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> Selection:
    """Choose again from stored scores.

    Args:
        out: the folder of a `select` or `score`.
        settings: further settings as `"choose.alpha=-1"`.
        machine: as in `select`.
        **words: fraction, segments, tokens, threshold, weights, balance, clusters.

    Returns:
        The run with its new selection.
    """
    plan = build_plan(None, settings, **words)
    given = [*words, *(item.partition("=")[0].strip() for item in settings)]
    if plan != dataclasses.replace(Plan(), choose=plan.choose):
        raise bad_setting(
            "A setting of choose",
            "fraction, segments, tokens, threshold, weights, balance, clusters, or one of choose",
            ", ".join(given),
            "What was scored is settled: score again with another --out to change the rest.",
        )
    return pipeline.choose(place(out, "DIR"), plan.choose, machine=machine or Machine())


def explain(
    out: Path | str,
    *,
    row: str | None = None,
    text: str | None = None,
    top: int = 10,
    machine: Machine | None = None,
) -> Explanation:
    """Explain one score of a run.

    Args:
        out: the folder of a `select` or `score`.
        row: `SOURCE:ROW` or `SOURCE:ROW:SEGMENT` as in `scores/`; without a segment the first.
        text: or any text.
        top: at most so many n-grams to each side, and so many target texts.
        machine: as in `select`.

    Returns:
        The score, what raised and lowered it, and the target texts nearest to the text.
    """
    machine = machine or Machine(workers=1)
    return pipeline.explain(place(out, "DIR"), row=row, text=text, top=top, machine=machine)


def audit(
    out: Path | str,
    *,
    truth: str = SOURCE,
    domain: str | Sequence[str] = (),
    machine: Machine | None = None,
) -> Audit:
    """Hold a run against known domains.

    Args:
        out: the folder of a `select` or `score`.
        truth: a row's domain: `source` for the name of its source, or the field that holds it.
        domain: globs such as `bio_*`; a domain that matches one is what was sought.
        machine: as in `select`.

    Returns:
        What is in the corpus and in the selection by domain; with `domain` also how well it was
        found.
    """
    return pipeline.audit(
        place(out, "DIR"),
        truth=truth,
        domain=[domain] if isinstance(domain, str) else list(domain),
        machine=machine or Machine(),
    )


def rank(
    *,
    target: Inputs,
    corpus: Inputs,
    methods: Sequence[str] = (),
    seeds: int = 3,
    plan: Plan | Path | str | None = None,
    settings: Sequence[str] = (),
    machine: Machine | None = None,
    **words: Any,
) -> list[Ranked]:
    """Rank methods on this target and corpus.

    Args:
        target: as in `select`.
        corpus: as in `select`.
        methods: names; none means all that score a unit by itself, but PyOD's and those that train
            a network.
        seeds: how many splits of the target.
        plan: as in `select`.
        settings: as in `select`.
        machine: as in `select`.
        **words: embedder, unit, text_field, seed.

    Returns:
        One verdict a method, with its cost in seconds a GB of text, most agreement first.
    """
    return pipeline.rank(
        build_plan(plan, settings, method=methods[0] if len(methods) == 1 else None, **words),
        listed(target),
        listed(corpus),
        methods=methods,
        seeds=seeds,
        machine=machine or Machine(),
    )
