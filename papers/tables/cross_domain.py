"""Domain Clusters, Table 4 and Figure 4: is the domain's own model best, and does distance say so?

The distance of two domains is the cosine of the mean vectors of their English development texts: at
the scale `paper` of BERT's vectors, of any length, and at `cpu` of MiniLM's. Pearson's r has the
interval of Fisher's transformation, over pairs of domains; pairs share domains, so they are not
independent.

Reference: Aharoni and Goldberg (2020), section 3.2, Table 4 and Figure 4.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

from corpusfit.core.plan import EmbedPlan
from data import vectors

GENERAL, BASE = "general", "base"
ENCODERS = {
    "cpu": EmbedPlan(embedder="minilm"),
    "paper": EmbedPlan(embedder="bert-base-uncased", pooling="mean", unit_length=False),
}
"""By the scale of a recipe; the paper does not say whether its BERT is cased."""
FLOOR = 0.05
"""BLEU below which few sentences have a 4-gram of their reference."""
PAPER = (
    "In the paper every domain's own model is ahead of those of other domains, the model of all "
    "domains is ahead of it on Koran and subtitles, and Pearson's r of cosine and BLEU is 0.81"
)


def cross_domain(table: dict[str, Any], scale: str) -> str:
    """The conclusion of a finished Table 4 of a scale, with Figure 4's correlation."""
    of = {(r["cell"]["task"], r["cell"]["selector"]): r["metrics"] for r in table["results"]}
    domains = sorted({model for _, model in of} - {GENERAL, BASE})
    tasks = {task["name"]: Path(task["path"]) for task in table["recipe"]["tasks"]}
    said = []
    for metric in ("bleu", "chrf"):
        own = [domain for domain in domains if _first(of, domain, domains, metric) == domain]
        ahead = [d for d in own if of[d, d][metric] > of[d, GENERAL][metric]]
        said.append(
            f"By {metric} the domain's own model is ahead of those of other domains on {len(own)} "
            f"of {len(domains)} tests, and of these on {len(ahead)} ahead of the model of all "
            f"domains too ({', '.join(ahead) or 'none'})"
        )
    low = [t for t in tasks if max(m["bleu"] for (own, _), m in of.items() if own == t) < FLOOR]
    if low:
        said.append(
            f"No model reaches {100 * FLOOR:.0f} BLEU on {', '.join(low)}, so there chrf says more"
        )
    other = [task for task in tasks if task not in domains]
    best = [f"`{_first(of, task, domains, 'chrf')}` on {task}" for task in other]
    if best:
        said.append(f"On texts of other sources the best models by chrf are {', '.join(best)}")
    return f"{'. '.join(said)}. {_correlations(of, domains, tasks, ENCODERS[scale])}. {PAPER}."


def _first(of: dict[tuple[str, str], Any], task: str, models: list[str], metric: str) -> str:
    """The model with the highest score on a test."""
    return max(models, key=lambda model: of[task, model][metric])


def _correlations(
    of: dict[tuple[str, str], Any], domains: list[str], tasks: Any, encoder: EmbedPlan
) -> str:
    """Pearson's r of the cosine of two domains and the score of one's model on the other's test."""
    texts = {d: (tasks[d] / "dev.en").read_text("utf-8").splitlines() for d in domains}
    center = {d: vectors(texts[d], encoder).mean(0) for d in domains}
    unit = {d: c / np.linalg.norm(c) for d, c in center.items()}
    pairs = [(model, task) for model in domains for task in domains]
    crossed = [(model, task) for model, task in pairs if model != task]
    found = []
    for some, words in ((pairs, "pairs of domains"), (crossed, "pairs of different domains")):
        for metric in ("bleu", "chrf"):
            cosines = [float(unit[model] @ unit[task]) for model, task in some]
            r = stats.pearsonr(cosines, [of[task, model][metric] for model, task in some])
            low, high = r.confidence_interval()
            found.append(
                f"{r.statistic:.2f} ({low:.2f} to {high:.2f}) by {metric} of {len(some)} {words}"
            )
    return f"Pearson's r of the cosine of the centroids and the score is {', '.join(found)}"
