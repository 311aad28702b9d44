"""Domain Clusters, Table 5: the classifier of a domain without and with pre-ranking.

Three quarters of a domain's dev sentences are learned from. The others are held out, with as many
of the corpus, drawn as the negatives of the training are: from all of it, or from the two thirds
that Domain-Cosine ranks lowest. What the paper held out it does not say; all its recalls are
multiples of 1/500, a quarter of its dev sentences. Sentences of the domain that are drawn count as
errors, as in the paper.

Run: python papers/recipes/domain_clusters_table5.py PAIRS DOMAIN … [--embedder MODEL]
with PAIRS/train/DOMAIN.en and PAIRS/DOMAIN/dev.en.
Reference: Aharoni and Goldberg (2020), sections 4.1 and A.4.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from corpusfit import Scorer
from corpusfit.contracts import EmbedPlan, open_encoder, unit_method


def lines(path: Path) -> list[str]:
    """The lines of a file that are not blank."""
    return [line for line in path.read_text("utf-8").split("\n") if line.strip()]


parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
parser.add_argument("pairs", type=Path, help="Folder of the domains")
parser.add_argument("domains", nargs="+", help="Names of the domains")
parser.add_argument("--embedder", default="distilbert-base-uncased", help="Model to fine-tune")
parser.add_argument("--sample", type=int, default=10_000, help="Sentences of the corpus, at most")
parser.add_argument("--seed", type=int, default=0, help="Random seed")
asked = parser.parse_args()
random = np.random.default_rng(asked.seed)
encoder = open_encoder(EmbedPlan(embedder=asked.embedder, pooling="mean", unit_length=False))
domain_cosine = unit_method("domain_cosine", {"centered": False})
corpus = [text for d in asked.domains for text in lines(asked.pairs / "train" / f"{d}.en")]
drawn = random.permutation(len(corpus))[: 2 * asked.sample]
background, unseen = ([corpus[i] for i in half] for half in np.array_split(drawn, 2))

print("| domain | without: p | r | F1 | with: p | r | F1 |", "| --- " * 7 + "|", sep="\n")
for domain in asked.domains:
    dev = random.permutation(lines(asked.pairs / domain / "dev.en")).tolist()
    learned, held = dev[: 3 * len(dev) // 4], dev[3 * len(dev) // 4 :]
    # the paper's Domain-Cosine: not centered, over vectors of any length
    inside, outside = (encoder.encode(texts) for texts in (learned, unseen))
    cosine = domain_cosine.fit(inside, outside, seed=asked.seed).score(outside)
    ranked = np.argsort(cosine, kind="stable")
    figures = []
    for preranked in (False, True):
        allowed = ranked[: 2 * len(ranked) // 3] if preranked else ranked
        others = [unseen[i] for i in random.permutation(allowed)[: len(held)]]
        tuned = Scorer(
            "domain_finetune", embedder=asked.embedder, preranked=preranked, seed=asked.seed
        ).fit(learned, background)
        positive = tuned.score_samples([*held, *others]) > 0
        hits, found = positive[: len(held)].sum(), positive.sum()
        f1 = 2 * hits / (found + len(held))
        figures += [hits / max(found, 1), hits / len(held), f1]
    print(f"| {domain} | {' | '.join(f'{figure:.3f}' for figure in figures)} |", flush=True)
