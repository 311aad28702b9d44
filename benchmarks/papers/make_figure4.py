"""TADPOLE, Figure 4 (DANA, Figure 3): anomaly scores before and after fine-tuning on the task.

An isolation forest is fitted on vectors of SST-2's texts, by a pre-trained encoder and by the
same encoder after it learned their sentiment; both score held-out texts and Wikipedia. MiniLM
learns from 2,000 texts; the papers use BERT-base and all of SST-2.
Reference: TADPOLE, section 3.1 and Figure 4; DANA, Figure 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

import data
from corpusfit.embed.finetune import Tuned, Tuning, finetune, opened
from corpusfit.embed.load import transformer
from corpusfit.score import registry
from corpusfit.score.metrics import figures
from corpusfit.types import Vectors
from data import Setting
from report import Report, cell, of_seeds, spread, table

ENCODER, TASK, CORPUS = "minilm", "sst2", "wiki_"
WORDS = 20
"""First words of a document to use: the length of SST-2's sentences."""
EPOCHS, RATE, BATCH = 2, 3e-5, 32
KINDS = ("pretrained", "fine-tuned")


def pieces(s: Setting) -> list[int]:
    """The seeds; none if task or corpus is missing."""
    at_hand = (s.tasks / TASK / "train.jsonl.zst").exists() and _sources(s)
    return list(range(s.seeds)) if at_hand else []


def _sources(s: Setting) -> list[str]:
    return [source for source in data.source_files(s) if source.startswith(CORPUS)]


def measure(s: Setting, seed: int) -> dict[str, Any]:
    """AUROC and histogram of both encoders; the fine-tuned one's accuracy."""
    labels = data.task_rows(s, TASK)
    texts = list(labels)
    train = [texts[i] for i in data.drawn(len(texts), 4 * s.target, seed)]
    unseen = _held_out(s, set(texts))
    outside = [t for source in _sources(s) for t in data.source_texts(s, source, WORDS)]
    tuned = _tuned(train, labels, seed)
    encoder = opened(tuned)
    learned = [encoder.encode(t) for t in (train, list(unseen), outside)]
    plain = [data.vectors(t, ENCODER) for t in (train, list(unseen), outside)]
    said = learned[1] @ tuned.head[:-1] + tuned.head[-1] > 0
    truth = np.array([label == 1 for label in unseen.values()])
    return {
        "accuracy": float(np.mean(said == truth)),
        "texts": {"train": len(train), "in_task": len(unseen), "out_of_task": len(outside)},
        "pretrained": _separated(plain, seed),
        "fine-tuned": _separated([_unit(x) for x in learned], seed),
    }


def _held_out(s: Setting, known: set[str]) -> dict[str, Any]:
    """The task's texts that no encoder learned from, with their labels."""
    rows = {**data.task_rows(s, TASK, part="test"), **data.task_rows(s, TASK, part="dev")}
    return {text: label for text, label in rows.items() if text not in known}


def _tuned(train: list[str], labels: dict[str, Any], seed: int) -> Tuned:
    """MiniLM fine-tuned to classify positive and negative texts."""
    good, bad = ([t for t in train if labels[t] == label] for label in (1, 0))
    tuning = Tuning(EPOCHS, RATE, BATCH, seed)
    return finetune(transformer(ENCODER), good, bad, 1.0, tuning)


def _unit(vectors: Vectors) -> Vectors:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def _separated(vectors: list[Vectors], seed: int) -> dict[str, Any]:
    """AUROC and histogram of in-task against out-of-task scores; of an isolation forest."""
    train, inside, outside = vectors
    forest = registry.unit_method("isolation_forest", {})
    scorer = forest.fit(train, outside, seed=seed)
    scores: NDArray[np.float32] = scorer.score(np.concatenate([inside, outside]))
    truth = np.arange(len(scores)) < len(inside)
    histogram = figures(scores, truth).histogram
    return {
        "auroc": float(roc_auc_score(truth, scores)),
        "edges": [round(e, 6) for e in histogram.edges],
        "in_task": histogram.inside,
        "out_of_task": histogram.outside,
    }


def report(s: Setting, found: dict[int, dict[str, Any]]) -> Report:
    """AUROC, and the histogram of the first seed's scores."""
    results = list(found.values())
    first = results[0]
    rows = [[kind, cell([r[kind]["auroc"] for r in results], 3)] for kind in KINDS]
    parts = [_text(s, results), table(["encoder", "AUROC"], rows)]
    for kind in KINDS:
        parts += [f"## Scores, {kind} (seed 0)", _bars(first[kind])]
    content = {
        "auroc": {kind: spread([r[kind]["auroc"] for r in results]) for kind in KINDS},
        "accuracy": spread([r["accuracy"] for r in results]),
        "texts": first["texts"],
        "histograms": {str(seed): {k: r[k] for k in KINDS} for seed, r in found.items()},
    }
    return Report(content, "\n\n".join(parts))


def _bars(of: dict[str, Any]) -> str:
    """Shares of texts by score, in tenths of the range; the outer ones include all beyond."""
    rows = []
    shares = {k: _tenths(of[k]) for k in ("in_task", "out_of_task")}
    for i in range(10):
        low, high = of["edges"][4 * i], of["edges"][4 * i + 4]
        cells = [f"{100 * share[i]:.1f}" for share in shares.values()]
        rows.append([f"{low:.3f} to {high:.3f}", *cells])
    return table(["score (higher: more like the task)", "% of in-task", "% of out-of-task"], rows)


def _tenths(counts: list[int]) -> NDArray[np.float64]:
    n = np.array(counts, np.float64)
    bins = n[1:-1].copy()
    bins[0] += n[0]
    bins[-1] += n[-1]
    return bins.reshape(10, -1).sum(axis=1) / n.sum()


def _text(s: Setting, results: list[dict[str, Any]]) -> str:
    texts = results[0]["texts"]
    accuracy = cell([100 * r["accuracy"] for r in results], 1)
    return (
        f"Scores of an isolation forest fitted on {texts['train']:,} texts of SST-2. *In-task*: "
        f"{texts['in_task']:,} texts of its development and test sets; *out-of-task*: the first "
        f"{WORDS} words of {texts['out_of_task']:,} Wikipedia articles (`{CORPUS}*`). *Pretrained* "
        f"is {ENCODER}; *fine-tuned* is the same after {EPOCHS} epochs of learning the sentiment "
        f"of those {texts['train']:,} texts (Adam, {RATE:g}, {BATCH} texts per step), which gets "
        f"{accuracy} % of the held-out ones right. Vectors are brought to length 1 in both. "
        f"{of_seeds(s.seeds)}, which draw texts and are those of training and forest.\n\n"
        "The papers show histograms without figures, for BERT-base, and say that the two kinds "
        "lie apart with the pretrained encoder, and that the fine-tuned one discriminates worse."
    )
