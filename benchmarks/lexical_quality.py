"""Average precision of methods on word statistics for the true source of a document.

For each task, every method that reads text or a whole corpus scores documents of a corpus whose
files are named by their true domain, with default and some other settings; two methods on static
embeddings for comparison. One fixed sample (every 20th document, first 300 words) without units,
so it runs in minutes. File names are approximate domains, so the results compare methods and are
no absolute quality.

Run: .venv/bin/python benchmarks/lexical_quality.py TASKS PILE
TASKS has TASK/train.jsonl.zst, PILE has DOMAIN_*.jsonl (the pairs are in DOMAINS below).
"""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import zstandard
from sklearn.metrics import average_precision_score

from corpusfit import text as corpus
from corpusfit.core.plan import EmbedPlan
from corpusfit.core.types import text_array
from corpusfit.embed import load, prepare
from corpusfit.scoring import registry
from corpusfit.scoring.contract import CorpusMethod
from corpusfit.scoring.names import names as method_names
from corpusfit.text.context import default_cache
from harness import RESULTS, machine

DOMAINS = {
    "chemprot": "bio_",
    "acl_arc": "cs_",
    "scierc": "cs_",
    "sst2": "reviews_",
    "ag_news": "news_",
    "financial_phrasebank": "finance_",
}
OTHERS: dict[str, list[dict[str, Any]]] = {
    "tfidf": [
        {"idf": "ratio"},
        {"compare": "nearest"},
        {"compare": "nearest", "k": 1},
        {"compare": "nearest", "idf": "ratio"},
    ],
    "ngram_coverage": [
        {"order": 1},
        {"order": 2},
        {"top": 100},
        {"top": 1_000},
        {"top": 10**9},
        {"adaptive": False},
    ],
}
EMBEDDED = ("domain_cosine", "isolation_forest")
EVERY, WORDS, TARGET_TEXTS = 20, 300, 2_000


def main(tasks: Path, pile: Path) -> None:
    """Measure, print the table, write the result."""
    texts, domains = documents(pile)
    targets = {task: target(tasks / task / "train.jsonl.zst") for task in DOMAINS}
    truth = {task: np.char.startswith(domains, prefix) for task, prefix in DOMAINS.items()}
    known = [n for n in method_names() if n not in ("oracle", "pyod", "conditional_loss")]
    names = [n for n in known if registry.load(n).reads != "embedding"]
    variants = [(n, s) for n in names for s in [{}, *OTHERS.get(n, [])]]
    rows = [measure(n, s, targets, text_array(texts), truth) for n, s in variants]
    encoder = static_encoder()
    background = encoder.encode(texts)
    vectors = {task: encoder.encode(t.to_pylist()) for task, t in targets.items()}
    rows += [measure(n, {}, vectors, background, truth) for n in EMBEDDED]
    chance = {task: float(t.mean()) for task, t in truth.items()}
    sizes = {"documents": len(texts), **{task: len(t) for task, t in targets.items()}}
    result = {"name": "lexical_quality", "sizes": sizes, "chance": chance, "rows": rows}
    path = RESULTS / "lexical_quality.json"
    path.write_text(json.dumps({**result, "machine": machine()}, indent=1) + "\n")


def documents(pile: Path) -> tuple[list[str], np.ndarray]:
    """The beginnings of some documents, and the file of each."""
    texts, files = [], []
    for path in sorted(pile.glob("*.jsonl")):
        with path.open("rb") as f:
            for i, line in enumerate(f):
                if i % EVERY == 0:
                    texts.append(" ".join(orjson.loads(line)["text"].split()[:WORDS]))
                    files.append(path.name)
    return texts, np.array(files)


def target(path: Path, most: int = TARGET_TEXTS) -> Any:
    """A seeded draw of a task's different texts, normalized as a run does."""
    with path.open("rb") as f:
        lines = io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(f)).readlines()
    texts = list(dict.fromkeys(orjson.loads(line)["text"] for line in lines))
    drawn = np.sort(np.random.default_rng(0).permutation(len(texts))[:most])
    return text_array([corpus.normalize(texts[i]) or texts[i] for i in drawn])


def static_encoder() -> Any:
    """The encoder that `--embedder static` names."""
    plan = EmbedPlan(embedder="static")
    prepare(plan, default_cache())
    return load(plan, default_cache())


def scored(method: Any, x: Any, background: Any) -> np.ndarray:
    """A score for every document."""
    if isinstance(method, CorpusMethod):
        return next(method.score_corpus([(0, background)], x, background, seed=0))[1]
    return method.fit(x, background, seed=0).score(background)


def measure(
    name: str,
    settings: dict[str, Any],
    targets: dict[str, Any],
    background: Any,
    truth: dict[str, np.ndarray],
) -> dict[str, Any]:
    """Average precision by task, mean, and total seconds; prints the row of the table."""
    method = registry.build(name, settings)
    started = time.perf_counter()
    scores = {task: scored(method, x, background) for task, x in targets.items()}
    seconds = time.perf_counter() - started
    ap = {t: float(average_precision_score(truth[t], s)) for t, s in scores.items()}
    mean = float(np.mean(list(ap.values())))
    shown = " ".join([name, *(f"{k}={v}" for k, v in settings.items())])
    print(
        f"{shown:36s}", *(f"{x:.3f}" for x in [*ap.values(), mean]), f"{seconds:6.1f} s", flush=True
    )
    return {"method": name, "settings": settings, "ap": ap, "mean": mean, "seconds": seconds}


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
