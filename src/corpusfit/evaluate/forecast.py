"""Whether adapting will pay, before it is paid for: what counting words can say.

What: how much nearer to the task the selected text is than the corpus, as the fall of the KL
divergence between hashed n-grams; how many of the task's n-grams it holds; and both in words,
beside what the base model loses on the task's text.
Why: DSIR found that fall to go with the score after training (r = 0.82 over selections), TADPOLE
the loss on the task's text; both take seconds, an adaptation takes hours.
Trade-off: it sees words, not what they mean, and one model before any training. It ranks the
selections of one task; how far a KL must fall for a gain is not known, so that no figure is called
enough. Only a fall that is within the sample's own noise is called none.
Reference: Xie et al. (2023), Data Selection for Language Models via Importance Resampling
(arXiv 2302.03169), sections 3 and 4 (KL reduction); TADPOLE, section 3 and Figure 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from corpusfit.kernels import characters, grams, hashed
from corpusfit.score.methods.dsir import Dsir
from corpusfit.types import Texts, buffers

__all__ = [
    "FEATURES",
    "PARTS",
    "Counts",
    "Known",
    "Prospect",
    "Reduction",
    "count",
    "divergence",
    "reduction",
    "words",
]

FEATURES = Dsir()
"""The n-grams are those that `dsir` goes by."""

PARTS = 16
"""Of the sample of the corpus; what leaving one out changes tells its noise."""

_SURE = 2.0  # standard errors


def count(texts: Texts, weights: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
    """How often each bucket of n-grams is hit.

    Args:
        texts: n of them.
        weights: float64 [n], how often each counts; once if left out.

    Returns:
        float64 [buckets].
    """
    data, offsets = buffers(texts)
    found: NDArray[np.float64] = hashed.count(
        data,
        offsets,
        characters.table(),
        FEATURES.signs,
        FEATURES.order,
        np.ones(len(texts)) if weights is None else weights,
        FEATURES.buckets,
    )
    return found


def divergence(target: NDArray[np.float64], text: NDArray[np.float64]) -> float:
    """KL(target || text), in nats, of two bags of n-grams (Xie et al. 2023, section 4).

    To each bucket's share of the text `dsir`'s smoothing is added, so that what it lacks by chance
    costs much but not everything, and as much in a short text as in a long one; the target is
    taken as it is.

    Args:
        target: float64 [buckets], counts.
        text: float64 [buckets], counts.

    Returns:
        0 or more; 0 for a target without n-grams.
    """
    total = target.sum()
    if not total:
        return 0.0
    q = text / max(1.0, text.sum()) + FEATURES.smoothing
    p, q = target / total, q / q.sum()
    there = p > 0
    return float(np.sum(p[there] * np.log(p[there] / q[there])))


@dataclass(frozen=True, eq=False)
class Known:
    """The different n-grams of the task's texts, and how often each occurs.

    Attributes:
        times: int64 [n].
        keys, places: the table that finds one, as `kernels/grams.py` makes it.
    """

    times: NDArray[np.int64]
    keys: NDArray[np.uint64]
    places: NDArray[np.int32]

    @classmethod
    def of(cls, texts: Texts) -> Known:
        """Those of some texts."""
        found = np.concatenate(list(_each(texts)))
        different, times = np.unique(found, return_counts=True)
        return cls(times, *grams.table_of(different))

    def seen_in(self, texts: Texts) -> NDArray[np.bool_]:
        """Which of them some texts hold, bool [n]."""
        seen = np.zeros(len(self.times), np.bool_)
        for found in _each(texts):
            places = grams.find_each(self.keys, self.places, found)
            seen[places[places >= 0]] = True
        return seen

    def share(self, seen: NDArray[np.bool_]) -> float:
        """Of all occurrences of the task's n-grams, those of the n-grams that were seen."""
        return float(self.times[seen].sum() / max(1, self.times.sum()))


def _each(texts: Texts) -> list[NDArray[np.uint64]]:
    """uint64 [m] identities of the n-grams of each length."""
    data, offsets = buffers(texts)
    orders = range(1, FEATURES.order + 1)
    return [grams.grams_of(data, offsets, characters.table(), order)[0] for order in orders]


@dataclass(frozen=True, eq=False)
class Counts:
    """What was counted in selected text.

    Attributes:
        texts: how many.
        counts: float64 [buckets], as `count` gives them.
        seen: bool [n], as `Known.seen_in` gives it.
    """

    texts: int
    counts: NDArray[np.float64]
    seen: NDArray[np.bool_]

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(self.texts + other.texts, self.counts + other.counts, self.seen | other.seen)


@dataclass(frozen=True)
class Reduction:
    """How much nearer to the task the selected text is.

    Attributes:
        raw: KL(task || corpus), in nats.
        selected: KL(task || selected text).
        falls: the first less the second, DSIR's KL reduction.
        noise: standard error of `raw` by the sample of the corpus (jackknife over its parts).
        covered: share of the task's n-grams, counted as often as they occur, that are in the
            selected text; it grows with the text.
    """

    raw: float
    selected: float
    falls: float
    noise: float
    covered: float

    @property
    def sure(self) -> bool:
        """Whether it falls by more than the noise of two such samples."""
        return self.falls > _SURE * 2**0.5 * self.noise


def reduction(
    target: NDArray[np.float64],
    sample: Sequence[NDArray[np.float64]],
    selected: NDArray[np.float64],
    covered: float,
) -> Reduction:
    """The KL reduction of a selection.

    Args:
        target: float64 [buckets], counts of the task's texts.
        sample: the same for parts of a sample of the corpus, of about equal size.
        selected: the same for the selected text.
        covered: see `Reduction`.
    """
    n, whole = len(sample), np.sum(sample, axis=0)
    raw, chosen = divergence(target, whole), divergence(target, selected)
    without = [divergence(target, whole - part) for part in sample]
    noise = float(np.std(without) * (n - 1) ** 0.5)  # the jackknife
    return Reduction(raw, chosen, raw - chosen, noise, covered)


@dataclass(frozen=True)
class Prospect:
    """What is known of adapting on one selection before it is done.

    Attributes:
        data: the selection's folder.
        method: that it was selected by.
        task: fingerprint of its target's texts.
        texts: selected segments.
        kl: how much nearer to the task the selected text is.
        losses: the base model's mean loss, in nats, of a predicted token of the `task` and of
            `general` text, a sample of the corpus; `task` is left out if its texts are gone.
    """

    data: str
    method: str
    task: str
    texts: int
    kl: Reduction
    losses: dict[str, float]

    @property
    def gap(self) -> float | None:
        """By how much the task's text costs the model more than general text, in nats."""
        if "task" not in self.losses:
            return None
        return self.losses["task"] - self.losses["general"]


def words(prospects: Sequence[Prospect], model: str) -> list[str]:
    """What it comes to, in sentences.

    Args:
        prospects: one or more.
        model: the base model's name.
    """
    said = [_fall(p) for p in prospects]
    tasks: dict[str, list[Prospect]] = {}
    for p in prospects:
        tasks.setdefault(p.task, []).append(p)
    if len(tasks) > 1:
        said.append("Selections for different tasks are not held against each other.")
    for of_one in tasks.values():
        measured = {tuple(p.losses.values()): p for p in reversed(of_one)}  # once a corpus
        said += [_loss(p, model) for p in reversed(measured.values())]
        order = sorted(of_one, key=lambda p: -p.kl.falls)
        said.append(_verdict(order[0]))
        said += [_beside(p, order[0]) for p in order[1:]]
    said.append(
        "This rests on counts of words and on a model that was not trained yet. Over selections, "
        "the fall of the KL goes with the score (DSIR: r = 0.82), and the loss on the task's text "
        "does (TADPOLE, Figure 3); how much is enough is not known. Only fine-tuning shows it: "
        "corpusfit evaluate."
    )
    return said


def _fall(p: Prospect) -> str:
    kl = p.kl
    begin = f"{p.data}: from the corpus to what was selected ({p.method}), "
    if not kl.sure:
        return (
            f"{begin}the KL of the task's n-grams does not fall by more than chance: "
            f"{kl.falls:+.3f} of {kl.raw:.3f} nats (± {kl.noise:.3f} by the sample)."
        )
    return (
        f"{begin}the KL of the task's n-grams falls by {kl.falls:.3f} of {kl.raw:.3f} nats, "
        f"{kl.falls / kl.raw:.0%} (± {kl.noise:.3f} by the sample)."
    )


def _loss(p: Prospect, model: str) -> str:
    if p.gap is None:
        return f"The task's texts are gone, so what they cost {model} is not known."
    more, why = "more", "it is foreign to the model, so that there is something to learn"
    if p.gap <= 0:
        more, why = "less", "it is no more foreign to the model than the corpus"
    return (
        f"A token of the task's text costs {model} {p.losses['task']:.2f} nats, one of the corpus "
        f"{p.losses['general']:.2f}, {abs(p.gap):.2f} {more}: {why}."
    )


def _verdict(p: Prospect) -> str:
    """Which signs speak for adapting on the selection that is nearest to its task."""
    if not p.kl.sure:
        return (
            f"Adapting on {p.data} is not likely to pay more than on any text: it is no nearer to "
            "the task than the corpus is."
        )
    if p.gap is not None and p.gap > 0:
        return (
            f"Both signs speak for adapting on {p.data}: it is nearer to the task than the corpus "
            "is, and the task is foreign to the model. It is likely to pay."
        )
    but = "what the task costs the model is not known" if p.gap is None else "the task is not new"
    return f"One sign of two speaks for adapting on {p.data}: it is nearer to the task; {but}."


def _beside(p: Prospect, best: Prospect) -> str:
    """Another selection for the same task."""
    if not (p.kl.sure and best.kl.sure):
        return f"{p.data} comes behind {best.data}: it is no nearer to the task than the corpus is."
    return (
        f"{p.data} comes behind {best.data}: its KL falls by {p.kl.falls / best.kl.falls:.0%} of "
        "that, so expect less of it."
    )
