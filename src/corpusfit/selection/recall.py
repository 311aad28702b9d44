"""Estimates how much of what a cascade's last stage alone would select comes through."""

from __future__ import annotations

import bisect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays
from corpusfit.core.plan import ChoosePlan
from corpusfit.selection.folder import SelectionFolder


def cascade_of(folder: SelectionFolder, amount: ChoosePlan, selected: int) -> dict[str, Any]:
    """Counts and times of the stages, and the estimated recall of a selection, as JSON values."""
    report: dict[str, Any] = json.loads((folder.fit / "cascade.json").read_bytes())
    if amount.balance:  # each cluster has its own threshold; the recall is for a common one
        return {**report, "recall": None}
    arrays, header = read_arrays(folder.fit / "lost.safetensors")
    dropped = DroppedSample(arrays["scores"], arrays["ahead"], **header["counts"])
    if amount.threshold is not None:
        selected = min(selected, dropped.through)
    return {**report, "recall": estimate_recall(dropped, selected, amount.threshold)}


@dataclass(frozen=True)
class DroppedSample:
    """The sampled segments that earlier stages dropped, and segment counts for comparison."""

    # [k], descending: scores that the last stage gives the dropped segments
    scores: NDArray[np.float32]
    # [k], number of segments that reached the last stage and have at least this score
    ahead: NDArray[np.int64]
    through: int  # segments that reached the last stage
    sample: int  # segments in the sample
    corpus: int  # segments in the corpus


def estimate_recall(
    dropped: DroppedSample, selected: int, threshold: float | None = None
) -> dict[str, Any] | None:
    """Estimate the recall: of what the last stage alone would select, the share that reaches it."""
    # `selected` is the number of selected segments. Only dropped segments that the last stage would
    # select are informative, so a small selection needs a large sample.
    if not selected or not dropped.sample:
        return None

    def missing(k: int) -> float:
        """Segments dropped from the corpus, if k were dropped from the sample."""
        return k / dropped.sample * dropped.corpus

    if threshold is not None:
        k = int((dropped.scores >= threshold).sum())
        estimate = selected / (selected + missing(k))
    else:
        # The threshold of that selection is unknown. As it falls, more segments that reached the
        # last stage pass it, and more that were dropped, until they add up to the selection. (The
        # quantile of the sample has a much larger error where scores are sparse.)
        # above[k]: segments that reached the last stage and rank above dropped segment k, if any
        above = np.append(dropped.ahead, dropped.through)
        ks = range(len(dropped.ahead))
        k = bisect.bisect_left(ks, True, key=lambda k: bool(above[k] + missing(k) >= selected))
        lower = int(dropped.ahead[k - 1]) if k else 0
        upper = min(above[k], selected)
        estimate = float(np.clip(selected - missing(k), lower, upper)) / selected
    return {"estimate": estimate, "lost": k, "sample": dropped.sample}


def recall_in_words(cascade: Mapping[str, Any]) -> str:
    """The recall in a cascade's manifest, as a sentence."""
    last = cascade["stages"][-1]["stage"]
    recall = cascade["recall"]
    if recall is None:
        return f"Recall of the selection of {last} alone: unknown (no sample)."
    return (
        f"Recall of the selection of {last} alone: about {100 * recall['estimate']:.1f} % (earlier "
        f"stages dropped {recall['lost']:,} of its segments in a sample of {recall['sample']:,})."
    )
