"""What is known of adapting on a selection before it is paid for, in figures and in words.

What: how much nearer to the task each selection is than the corpus, what the base model loses on
the task's text and on general text, and which selection of one task comes first.
Why: these take seconds, an adaptation takes hours; and figures side by side are easily read for
more than they say.
Trade-off: nothing here shows that adapting pays. The fall of the KL ranks the selections of one
task; no fall and no loss is known from which on a gain follows, so that none is called enough. Only
a fall that is within the sample's own noise is called none.
Reference: Xie et al. (2023), Data Selection for Language Models via Importance Resampling
(arXiv 2302.03169), section 4; TADPOLE, section 3 and Figure 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from corpusfit.evaluate.forecast import Reduction


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
        said += [_behind(p, order[0]) for p in order[1:]]
    said.append(
        "Nothing here shows that adapting pays: these are counts of words, and a model before "
        "training. Over selections, the fall of the KL went with the score in DSIR (r = 0.82), and "
        "the loss on the task's text did in TADPOLE (Figure 3). Whether they do for your tasks is "
        "what the correlations of a recipe show (corpusfit run); what one selection is worth, "
        "fine-tuning (corpusfit evaluate)."
    )
    return said


def _fall(p: Prospect) -> str:
    kl = p.kl
    by = f"(± {kl.noise:.3f} by the sample; {kl.size:,} n-grams of each)"
    if not kl.sure:
        return (
            f"{p.data} ({p.method}) is no nearer to the task than the corpus by more than chance: "
            f"the KL of the task's n-grams falls by {kl.falls:+.3f} of {kl.raw:.3f} nats {by}."
        )
    return (
        f"{p.data} ({p.method}) is nearer to the task than the corpus by {kl.falls:.3f} of "
        f"{kl.raw:.3f} nats, {kl.falls / kl.raw:.0%} {by}."
    )


def _loss(p: Prospect, model: str) -> str:
    if p.gap is None:
        return f"The task's texts are gone, so what they cost {model} is not known."
    more = "more" if p.gap > 0 else "less"
    return (
        f"A token of the task's text costs {model} {abs(p.gap):.2f} nats {more} than one of the "
        f"corpus ({p.losses['task']:.2f} and {p.losses['general']:.2f})."
    )


def _behind(p: Prospect, best: Prospect) -> str:
    """Another selection for the same task than the one that is nearest to it."""
    if not best.kl.sure:
        return f"{p.data} and {best.data} are not told apart: neither is nearer than the corpus."
    if best.kl.falls - p.kl.falls <= best.kl.apart:
        return f"{p.data} and {best.data} are not told apart: they are about equally near."
    if not p.kl.sure:
        return f"{p.data} comes behind {best.data}: it is no nearer to the task than the corpus is."
    share = p.kl.falls / best.kl.falls
    return f"{p.data} comes behind {best.data}: its KL falls by {share:.0%} of that."
