"""Accuracy of `auto`, and the effect of normalizing the target, on targets with known domains.

For each task, every method scores a sample of a corpus whose files are named by their true
domain. Reports the average precision for the domain of the method that each rule chooses, with
raw and with normalized target text. The name of a file is an approximate domain (Wikipedia has
biomedical sentences), so the results compare methods and are no absolute quality.

Run: .venv/bin/python benchmarks/auto.py TASKS PILE EMBEDDER [SAMPLE]
TASKS has TASK/train.jsonl.zst, PILE has DOMAIN_*.jsonl.zst (the pairs are in DOMAINS below).
"""

from __future__ import annotations

import json
import sys
import tempfile
from functools import partial
from pathlib import Path

import numpy as np
from sklearn.metrics import average_precision_score

from corpusfit import text as corpus
from corpusfit.core.plan import Plan
from corpusfit.core.types import Documents, text_array
from corpusfit.embed import load, prepare
from corpusfit.scoring import registry
from corpusfit.scoring.names import names as method_names
from corpusfit.scoring.rank import trial, verdicts
from corpusfit.selection.samples import ALL, merge, sample_texts
from corpusfit.text.context import default_cache
from corpusfit.text.reading import cut_units, read_shard
from harness import RESULTS, machine

DOMAINS = {
    "chemprot": "bio_",
    "acl_arc": "cs_",
    "scierc": "cs_",
    "sst2": "reviews_",
    "imdb": "reviews_",
    "ag_news": "news_",
    "financial_phrasebank": "finance_",
    "hyperpartisan": "news_",
}
SEEDS, TARGET_TEXTS = 3, 500


def main(tasks: Path, pile: Path, embedder: str, size: int) -> None:
    """Measure every task and write the result."""
    plan = Plan().with_value("embed.embedder", embedder)
    prepare(plan.embed, default_cache())
    encoder = load(plan.embed, default_cache())
    texts, sources = sample(pile, plan, size)
    background = encoder.encode(texts)
    rows = {}
    for task, prefix in DOMAINS.items():
        truth = np.char.startswith(sources, prefix)
        raw = target(tasks / task / "train.jsonl.zst", plan)
        rows[task] = {
            form: measure(encoder.encode(units(forms, plan)), background, truth)
            for form, forms in (("raw", raw), ("normalized", [corpus.normalize(t) for t in raw]))
        }
        print(task, {form: r["picked"] for form, r in rows[task].items()}, flush=True)
    mean = {
        form: {
            pick: float(np.mean([r[form]["picked"][pick][1] for r in rows.values()]))
            for pick in rows["sst2"][form]["picked"]
        }
        for form in ("raw", "normalized")
    }
    print("mean", mean)
    result = {"name": "auto", "embedder": embedder, "sample": size, "tasks": rows, "mean": mean}
    path = RESULTS / f"auto_{embedder}.json"
    path.write_text(json.dumps({**result, "machine": machine()}, indent=1) + "\n")


def sample(pile: Path, plan: Plan, size: int) -> tuple[list[str], np.ndarray]:
    """A uniform sample of the corpus's units, and the file of each."""
    with tempfile.TemporaryDirectory() as spool:
        found = corpus.find([str(pile)], plan.read, spool=Path(spool), role="corpus")
    names = tuple(s.name for s in found)
    work = partial(sample_texts, plan.read, plan.cut, names, size, plan.seed)
    drawn, source = [], {}
    for shard in corpus.shards(found, plan.read):
        drawn.append(work((shard, ALL))[0])
        source[shard.index] = names[shard.source]
    kept = merge(drawn, size)
    return [t for d in kept for t in d.texts], np.array(
        [source[d.shard] for d in kept for _ in d.texts]
    )


def target(path: Path, plan: Plan) -> list[str]:
    """A seeded draw of a task's different texts."""
    found = corpus.find([str(path)], plan.read, spool=path.parent, role="target")
    texts = [
        text
        for shard in corpus.shards(found, plan.read)
        for text in read_shard(shard, plan.read, (path.name,))[0].texts.to_pylist()
    ]
    texts = list(dict.fromkeys(texts))
    drawn = np.random.default_rng(0).permutation(len(texts))[:TARGET_TEXTS]
    return [texts[i] for i in np.sort(drawn)]


def units(texts: list[str], plan: Plan) -> list[str]:
    """The units of different texts."""
    different = text_array(list(dict.fromkeys(texts)))
    return cut_units(Documents(np.arange(len(different)), different), plan.cut)[1].to_pylist()


def measure(vectors: np.ndarray, background: np.ndarray, truth: np.ndarray) -> dict[str, object]:
    """Average precision of each method for the true domain, and of the choice of each rule."""
    names = [n for n in method_names() if n != "pyod" and registry.load(n).reads == "embedding"]
    methods = {n: registry.build(n, {}) for n in names}
    ap = {
        n: float(
            average_precision_score(truth, m.fit(vectors, background, seed=0).score(background))
        )
        for n, m in methods.items()
    }
    trials = [
        trial(n, m, vectors, background, seed=s) for n, m in methods.items() for s in range(SEEDS)
    ]
    ranked = verdicts(trials)
    picks = {
        "best": max(ap, key=ap.__getitem__),
        "agreement": ranked[0].method,
        "f1": max(ranked, key=lambda v: v.f1).method,
        **{f"always {n}": n for n in ("isolation_forest", "domain_cosine", "centroid_distance")},
    }
    return {
        "ap": ap,
        "chance": float(truth.mean()),
        "picked": {k: (n, ap[n]) for k, n in picks.items()},
    }


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], int((sys.argv[4:] or ["6000"])[0]))
