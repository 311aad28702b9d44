"""`corpusfit select`, `choose`, `rank` and `explain`: scores, and the selection by them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpusfit.cli.options import EVERYWHERE, command
from corpusfit.cli.show import percent, say, say_result, table, with_flags
from corpusfit.core.plan import AMOUNTS, ChoosePlan, Plan

if TYPE_CHECKING:
    from corpusfit.ranking.ranking import Ranking
    from corpusfit.selection.explaining import Explanation
    from corpusfit.selection.result import Selection


def show_estimate(estimate: Mapping[str, Any]) -> None:
    """Print the dry run."""
    say(
        f"{_number(estimate['sources'], 'file')}, {_size(estimate['stored_mb'])} on disk, about "
        f"{_size(estimate['text_mb'])} of text in about {_number(estimate['units'], 'unit')}."
    )
    gpus = f" and {_number(estimate['devices'], 'GPU')}" if estimate["devices"] else ""
    say(
        f"Expected: {estimate['seconds']:,.0f} s with {_number(estimate['workers'], 'worker')}"
        f"{gpus}, "
        f"{_size(estimate['memory_mb'])} of memory, {_size(estimate['disk_mb'])} of disk "
        "(measured on a sample; nothing was written)."
    )


def _number(n: int, noun: str) -> str:
    """A number of things, such as `1 file`."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _size(mb: float) -> str:
    """A size in MB, or in kB below 1 MB."""
    return f"{mb:,.0f} MB" if mb >= 1 else f"{1000 * mb:,.0f} kB"


@command(machine=EVERYWHERE, dry_run=show_estimate, report=True)
def select(run: Selection) -> None:
    """Find the part of a corpus that is like your task.

    Example:
      corpusfit select --target task.jsonl --corpus corpus/ --out out/
      corpusfit select --target task.jsonl --corpus corpus/ --out out/ --keep url,license

    Scores by the method cynical, and selects a fifth of the words of the corpus (--fraction 0.2),
    unless you name another method or amount.

    Writes out/selected (the text), out/scores (the score of every segment), out/manifest.json and
    out/report.html. To resume a stopped run, run the same command again.
    """
    show_run(run.path, run.manifest)


@command(machine=EVERYWHERE, report=True)
def choose(run: Selection) -> None:
    """Select again from the scores of an earlier run.

    Example:
      corpusfit choose out/ --fraction 0.05 --out smaller/
      corpusfit choose out/ --keep url,license

    Computes no new scores. What is not named is as the run has it: its quotas, copies and columns;
    an amount takes the place of another. Without --out, replaces DIR/selected and the report.

    Options:
        DIR: {RUN_FOLDER}
        --out FOLDER: New or empty folder for the selection, with its own report; the earlier
            selection stays (default: DIR, whose selection is replaced)
    """
    show_run(run.path, run.manifest, again=True)


def _ranking(ranking: Ranking, request: Mapping[str, Any]) -> dict[str, Any]:
    values = dataclasses.asdict(ranking)
    methods = values.pop("methods")
    return {**values, "findings": ranking.findings(), "ranking": methods}


@command(machine=EVERYWHERE, facts=_ranking)
def rank(ranking: Ranking) -> None:
    """Rank the scoring methods on your target and corpus.

    Each method selects from a sample of the corpus, cut as `select` cuts it for methods on words.
    An n-gram model
    trained on this selection then predicts target texts that neither the fit nor the selection
    used. Prints the bits per word (lower is better) for 0.1, 1, 10 and 30 % of the words and for
    --fraction, by which the methods are ordered, with the difference from the best method and its
    95 % interval, over target texts and samples of the corpus. Of methods that are not shown worse
    than the best, cynical comes first. Begins with what the corpus has of your target. Also prints
    the seconds to fit and score the sample, on one thread. Always includes the method `random`.
    Writes nothing.

    Without --method, ranks every method that scores texts, with two exceptions: those that are
    named behind a colon (field:NAME, model:MODEL, fasttext:FILE), and those that train a network
    for minutes.

    With --task, a labeled task of one class per text, also shows a score: word vectors are learned
    from the selected words alone, equally many of each method, a linear classifier on them learns
    the task's training texts, and answers its test texts. It is a score of word vectors, not of
    your model. The sample is then of 50,000 units, and without --method cynical, moore_lewis and
    dsir are ranked.

    Example:
      corpusfit rank --target task.jsonl --corpus corpus/ --fraction 0.05
      corpusfit rank --task task/ --corpus corpus/ --metric accuracy

    Options:
        --target INPUT: Texts of your task: {INPUTS} (default: the training texts of --task)
        --corpus INPUT: Texts to choose from: {INPUTS} (default: none; required)
        --task TASK: Labeled task with train and test: a folder, a file or hub:NAME; its text field
            is --target-field (default: none)
        --method NAME: Method to rank; repeatable (default: all methods that score texts; with
            --task cynical, moore_lewis and dsir)
    """
    for finding in ranking.findings():
        say_result(with_flags(finding))
    methods = [dataclasses.asdict(each) for each in ranking]
    show_ranking(methods, ranking.fraction)
    if ranking.metric:
        show_scores(methods, ranking.metric)


def show_run(out: Path, manifest: Mapping[str, Any], *, again: bool = False) -> None:
    """Print the summary of a finished run, or of a new selection (`again`) from its scores."""
    counts = manifest["counts"]
    method = manifest["method"]["name"]
    if again:
        say(f"{counts['segments']:,} segments scored by the earlier run.")
        if chosen := Plan(choose=ChoosePlan(**manifest["plan"]["choose"])).overrides():
            say(f"Chosen with {', '.join(chosen)}.")
    else:
        left_out = ""
        if "left_out" in counts:
            left_out = f", {counts['left_out']:,} left out by `read.where`"
        say(
            f"{counts['rows']:,} rows read: {counts['documents']:,} scored, "
            f"{counts['rejected']:,} rejected{left_out}; {counts['units']:,} units, "
            f"{counts['segments']:,} segments."
        )
        for why, n in counts["reasons"].items():
            rows = "row" if n == 1 else "rows"
            say(f"  {n:,} {rows} rejected: {why} (see {out / 'rejects.jsonl'})")
    say(f"Method: {method}.{_default_amount(manifest)}")
    if manifest.get("remark"):
        say(manifest["remark"])
    selected = manifest["selected"]
    show_composition(selected)
    say(f"Selected text, in the corpus's order: {out / 'selected'}. All scores: {out / 'scores'}.")
    if selected.get("aligned"):
        first, second = (out / name for name in selected["aligned"])
        say(f"Selected pairs, as line-aligned files: {first}, {second}.")


def _default_amount(manifest: Mapping[str, Any]) -> str:
    """How much was selected where no amount was given, a sentence; else nothing."""
    amount = ChoosePlan(**manifest["plan"]["choose"])
    has_amount = any(getattr(amount, name) is not None for name in AMOUNTS)
    if has_amount:
        return ""
    share = percent(amount.share, 1)
    return f" No amount (`choose.fraction`) was given: {share} of the words without copies."


def show_composition(selected: Mapping[str, Any]) -> None:
    """Print the selected segments by source, and by cluster for a balanced selection."""
    from corpusfit.selection.copies import copies_in_words

    sources = sorted(selected["by_source"].items(), key=lambda item: -item[1]["tokens"])
    corpus = sum(n["of_tokens"] for _, n in sources)
    chosen = [(name, n) for name, n in sources if n["selected"]]
    shown = [(name, n, percent(n["of_tokens"], corpus)) for name, n in chosen[:_ROWS]]
    rows = selected["rows"]
    text = f"in {rows:,} texts, " * (rows < selected["segments"])
    text += f"about {selected['tokens']:,} word pieces"
    text += f", {percent(selected['tokens'], selected['of_tokens'])} of the text"
    text += " without copies" * bool(copies_in_words(selected.get("copies")))
    title = f"Selected: {selected['segments']:,} segments, {text}"
    _show_groups(title, "source", "words of corpus", shown, selected["tokens"])
    if len(chosen) > _ROWS:
        say(f"{len(chosen) - _ROWS:,} more sources are listed in manifest.json.")
    if len(chosen) < len(sources):
        others = _number(len(sources) - len(chosen), "other source" if chosen else "source")
        empty = sum(n.get("segments") == 0 for _, n in sources)
        without = f" ({empty:,} without a usable row)" if empty else ""
        say(f"Nothing is selected from {others}{without}.")
    if selected.get("short"):
        shorter = _number(selected["short"], "text")
        say(f"{shorter} of fewer than {selected['least']} word pieces come after all others.")
    copies = copies_in_words(selected.get("copies"))
    if copies:
        say(f"{copies}; --dedup none keeps them.")
    if selected.get("by_cluster"):
        counted = zip(selected["by_cluster"], selected["quota"], strict=True)
        groups = selected.get("groups")
        names = groups or [str(i) for i in range(1, len(selected["quota"]) + 1)]
        clusters = [
            (name, n, percent(quota, 1)) for name, (n, quota) in zip(names, counted, strict=True)
        ]
        group = "group" if groups else "cluster"
        _show_groups(f"By {group}", group, "quota", clusters, selected["tokens"])


def _show_groups(
    title: str,
    group: str,
    share: str,
    counts: Sequence[tuple[str, Mapping[str, int], str]],
    whole: int,
) -> None:
    """Print one row per group: its counts and share.

    Args:
        title: of the table.
        group: heading of the groups' names.
        share: heading of the groups' shares.
        counts: name, counts and formatted share of each group.
        whole: word pieces of the selection.
    """
    rows = [
        [
            name,
            f"{n['segments']:,}",
            formatted_share,
            f"{n['selected']:,}",
            f"{n['tokens']:,}",
            percent(n["tokens"], whole),
        ]
        for name, n, formatted_share in counts
    ]
    columns = [group, "segments", share, "selected", "word pieces", "words of selection"]
    table(title, columns, rows)


_ROWS = 30


def show_ranking(ranking: Sequence[Mapping[str, Any]], fraction: float) -> None:
    """Print the bits of every method, and its seconds on the sample."""
    shares = [share for share, _ in ranking[0]["curve"]]
    columns = ["method", *map(_share, shares), "more than best", "95 % interval", "seconds"]
    rows = [
        [
            v["method"],
            *("–" if bits is None else f"{bits:.2f}" for _, bits in v["curve"]),
            *_difference(*v["behind"]),
            f"{v['seconds']:.2f}",
        ]
        for v in ranking
    ]
    title = (
        "Bits per word of held-out target text (lower is better), by the share of the corpus that "
        f"is selected; ordered and compared at {_share(fraction)}; seconds to fit and to score the "
        "sample"
    )
    table(title, columns, rows)
    say_result(
        "A method is equal to the best if its interval includes 0. –: too few words in the sample "
        "(a larger one: --set fit.background=100000)."
    )


def show_scores(ranking: Sequence[Mapping[str, Any]], metric: str) -> None:
    """Print the score of word vectors of every method's selection."""
    from corpusfit.evaluation.points import points

    rows = [
        [v["method"], points(v["score"]), *_difference(*(100 * d for d in v["score_than_random"]))]
        for v in ranking
    ]
    columns = ["method", metric, "more than random", "95 % interval"]
    title = "Score of word vectors of each selection on the task's test texts (higher is better)"
    table(title, columns, rows)


def _share(share: float) -> str:
    return f"{100 * share:g} %"


def _difference(difference: float, low: float, high: float) -> list[str]:
    """A difference in bits and its interval; the best one has none."""
    figures = [f"{round(figure, 2) + 0.0:.2f}" for figure in (difference, low, high)]
    return [figures[0], f"{figures[1]} to {figures[2]}" if low or high else "–"]


@command(machine=("cache", "verify"))
def explain(explanation: Explanation) -> None:
    """Explain the score of one text.

    Example:
      corpusfit explain out/ --row news.jsonl:17
      corpusfit explain out/ --text "The enzyme binds its substrate."

    Prints the words that raised and lowered the score and, of a method on embeddings, the nearest
    target texts. Writes nothing.

    Options:
        DIR: {RUN_FOLDER}
        --row SOURCE:ROW[:SEGMENT]: Row to explain, named as in DIR/scores; without SEGMENT, its
            highest-scored one; or the id of a text in DIR/selected (default: none; --row or --text
            is required)
        --text TEXT: Text to explain instead of a row (default: none)
        --top N: Most n-grams to print in each direction, and most target texts (default: 10)
    """
    say_result(str(explanation))
