"""What a run looks like on a terminal: counts, composition by source, the ranking.

Why: the user's first question is what was taken, the second why by that method.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from corpusfit.cli.show import as_json, percent, say, table


def show_run(out: Path, manifest: Mapping[str, Any]) -> None:
    """The summary of a finished run."""
    from corpusfit.pipeline.budget import Decision

    counts, method = manifest["counts"], manifest["method"]["name"]
    say(
        f"{counts['rows']:,} rows read: {counts['documents']:,} scored, "
        f"{counts['rejected']:,} rejected; {counts['units']:,} units, "
        f"{counts['segments']:,} segments."
    )
    for why, n in counts["reasons"].items():
        say(f"  {n:,} rows rejected: {why} (see {out / 'rejects.jsonl'})")
    if manifest["budget"]:
        say(Decision(**manifest["budget"]).sentence())
    if manifest["ranking"]:
        reason = "the cheapest way, or the best by agreement, of what fits the budget."
        if not manifest["budget"]:
            reason = _MOST_AGREEMENT
        say(f"Method: {method}, {_REASONS.get(method, reason)}")
        show_ranking(manifest["ranking"])
    else:
        say(f"Method: {method}.")
    if manifest.get("remark"):
        say(manifest["remark"])
    if manifest["cascade"]:
        show_cascade(manifest["cascade"])
    selected = manifest["selected"]
    if selected is None:
        say(f"Scores are in {out / 'scores'}. Choose from them: corpusfit choose {out}")
        return
    show_composition(selected)
    say(f"Selected text: {out / 'selected'}. All scores: {out / 'scores'}.")
    if selected.get("aligned"):
        first, second = (out / name for name in selected["aligned"])
        say(f"The selected pairs, aligned by lines: {first}, {second}.")


def show_cascade(cascade: Mapping[str, Any]) -> None:
    """What each stage had, passed on and took, and what the earlier ones lost."""
    from corpusfit.select.recall import recall_in_words

    stages = cascade["stages"]
    total = stages[0]["segments"]
    rows = [
        [
            s["stage"],
            f"{s['segments']:,}",
            *(("–", "–") if s["passed"] is None else (f"{s['passed']:,}", percent(s["share"], 1))),
            f"{s['units']:,}",
            f"{s['seconds']:,.1f}",
            f"{s['units_per_second']:,.0f}",
        ]
        for s in stages
    ]
    columns = ["stage", "segments", "passed on", "of corpus", "units", "worker s", "units/s"]
    by = ", shares set from a sample" if cascade["shares_from_sample"] else ""
    table(f"Cascade over {total:,} segments{by}", columns, rows)
    say(recall_in_words(cascade))


def show_composition(selected: Mapping[str, Any]) -> None:
    """Where the selected segments come from."""
    sources = sorted(selected["by_source"].items(), key=lambda item: -item[1]["selected"])
    corpus = sum(n["segments"] for _, n in sources)
    shown = [
        [
            name,
            f"{n['segments']:,}",
            percent(n["segments"], corpus),
            f"{n['selected']:,}",
            percent(n["selected"], selected["segments"]),
            f"{n['tokens']:,}",
        ]
        for name, n in sources[:_ROWS]
    ]
    rest = len(sources) - _ROWS
    title = f"Selected: {selected['segments']:,} segments, about {selected['tokens']:,} word pieces"
    columns = ["source", "segments", "of corpus", "selected", "of selected", "word pieces"]
    table(title, columns, shown)
    if rest > 0:
        say(f"… and {rest} more sources; all are in manifest.json.")
    if selected.get("by_cluster"):
        _show_clusters(selected)


def _show_clusters(selected: Mapping[str, Any]) -> None:
    """What each cluster gave, where the selection was balanced."""
    rows = [
        [
            str(number),
            f"{n['segments']:,}",
            percent(quota, 1),
            f"{n['selected']:,}",
            percent(n["selected"], selected["segments"]),
            f"{n['tokens']:,}",
        ]
        for number, (n, quota) in enumerate(
            zip(selected["by_cluster"], selected["quota"], strict=True), 1
        )
    ]
    columns = ["cluster", "segments", "quota", "selected", "of selected", "word pieces"]
    table("By cluster", columns, rows)


_ROWS = 30
_MOST_AGREEMENT = (
    "chosen by agreement: the best by it are the best by most other kinds of methods too."
)
_REASONS = {
    "domain_moore_lewis": (
        "which finds the domain by what methods of different kinds agree on, as the table shows, "
        "and takes first what is most like your texts in words."
    )
}


def show_ranking(ranking: Sequence[Mapping[str, Any]]) -> None:
    """Both verdicts on every method, and what a GB of text takes."""
    from corpusfit.pipeline.budget import format_duration

    rows = [
        [
            v["method"],
            v["family"],
            *(_spread(v[name]) for name in ("agreement", "f1", "auroc", "ap")),
            f"{v['fit_s'][0]:.2f}",
            f"{v['rate'][0]:,.0f}",
            format_duration(v["cost"]),
        ]
        for v in ranking
    ]
    columns = ["method", "family", "agreement", "F1", "AUROC", "AP", "fit s", "units/s", "a GB"]
    title = "Ranking of methods (mean ± standard deviation over seeds)"
    table(title, columns, rows, words=["family"])


def _spread(value: Sequence[float]) -> str:
    return f"{value[0]:.2f} ± {value[1]:.2f}"


def show_estimate(estimate: Mapping[str, Any], json: bool) -> None:
    """What a run would take."""
    from corpusfit.pipeline.budget import Decision

    if json:
        as_json(estimate)
        return
    say(
        f"{estimate['sources']} files, {estimate['stored_mb']:,.0f} MB stored, about "
        f"{estimate['text_mb']:,.0f} MB of text in about {estimate['units']:,} units."
    )
    say(
        f"About {estimate['seconds']:,.0f} s with {estimate['workers']} workers, "
        f"{estimate['memory_mb']:,.0f} MB of memory, {estimate['disk_mb']:,.0f} MB of disk "
        "(measured on a sample; nothing was written)."
    )
    if "budget" in estimate:
        say(Decision(**estimate["budget"]).sentence())
    if "shares" in estimate:
        passed = ", ".join(percent(share, 1) for share in estimate["shares"])
        unsure = ": an assumption, as the run sets the shares from a sample" * estimate["assumed"]
        say(f"The stages before the last pass on {passed} of the corpus{unsure}.")
