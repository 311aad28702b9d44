"""Predictors of the gain from adapting on a selection, and their description in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corpusfit.evaluation.forecast import Reduction


@dataclass(frozen=True)
class GainPredictors:
    """Predictors of the gain from adapting on one selection, known before training.

    Attributes:
        data: folder of the selection.
        method: selection method.
        task: fingerprint of the target's texts.
        texts: number of selected segments.
        kl: KL reduction of the selected text.
        losses: the base model's mean loss per predicted token, in nats, on text of the `task` and
            on `general` text, a sample of the corpus; without `task` if its texts no longer exist.
    """

    data: str
    method: str
    task: str
    texts: int
    kl: Reduction
    losses: dict[str, float]

    @property
    def gap(self) -> float | None:
        """The model's loss on the task's text minus that on general text, in nats per token."""
        if "task" not in self.losses:
            return None
        return self.losses["task"] - self.losses["general"]


def describe(prospects: Sequence[GainPredictors], model: str) -> list[str]:
    """Describe the predictors of some selections, in sentences.

    No value of a predictor is known to imply a gain, so none is called high enough; only a KL
    reduction within the sample's noise is called none.

    Reference: Xie et al. (2023), Data Selection for Language Models via Importance Resampling
    (arXiv 2302.03169), section 4; TADPOLE, section 3 and Figure 3.
    """
    found = [_reduction(p) for p in prospects]
    tasks: dict[str, list[GainPredictors]] = {}
    for p in prospects:
        tasks.setdefault(p.task, []).append(p)
    if len(tasks) > 1:
        found.append("Selections for different tasks are not compared with each other.")
    for of_one in tasks.values():
        measured = {tuple(p.losses.values()): p for p in reversed(of_one)}  # once per corpus
        found += [_loss(p, model) for p in reversed(measured.values())]
        order = sorted(of_one, key=lambda p: -p.kl.falls)
        found += [_comparison(p, order[0]) for p in order[1:]]
    found.append(
        "These predictors do not show that adapting helps: they are word counts and losses before "
        "training. Over selections, KL reduction correlated with the score in DSIR (r = 0.82), and "
        "the loss on the task's text in TADPOLE (Figure 3). Check their correlation on your tasks "
        "with a recipe (corpusfit run), and the gain of one selection with fine-tuning (corpusfit "
        "evaluate)."
    )
    return found


def _reduction(p: GainPredictors) -> str:
    kl = p.kl
    by = f"(± {kl.noise:.3f} from sampling the corpus; {kl.size:,} n-grams compared)"
    if not kl.sure:
        return (
            f"{p.data} ({p.method}): no KL reduction beyond noise: {kl.falls:+.3f} of "
            f"{kl.raw:.3f} nats between the n-grams of task and corpus {by}."
        )
    return (
        f"{p.data} ({p.method}): KL reduction of {kl.falls:.3f} of {kl.raw:.3f} nats between the "
        f"n-grams of task and corpus, {kl.falls / kl.raw:.0%} (higher is nearer to the task) {by}."
    )


def _loss(p: GainPredictors, model: str) -> str:
    if p.gap is None:
        return f"The task's texts no longer exist, so the loss of {model} on them is unknown."
    more = "above" if p.gap > 0 else "below"
    return (
        f"Loss of {model} per token: {p.losses['task']:.2f} nats on the task's text, "
        f"{abs(p.gap):.2f} nats {more} the corpus ({p.losses['general']:.2f} nats)."
    )


def _comparison(p: GainPredictors, best: GainPredictors) -> str:
    if not best.kl.sure:
        return f"{p.data} and {best.data}: no difference; neither reduces the KL beyond noise."
    if best.kl.falls - p.kl.falls <= best.kl.apart:
        return f"{p.data} and {best.data}: no difference beyond noise in KL reduction."
    if not p.kl.sure:
        return f"{p.data} ranks below {best.data}: it does not reduce the KL beyond noise."
    share = p.kl.falls / best.kl.falls
    return f"{p.data} ranks below {best.data}: {share:.0%} of its KL reduction."
