"""Do cheap measures of a selection name the one that a dearer measure prefers?

On selections of benchmarks/score_study.py at 2 % of the corpus, from cheap to dear:
- `bits`: bits per word of the task's test texts under a trigram model (modified Kneser-Ney) of the
  selected text, as `corpusfit rank` computes them. Every model spreads what discounts take over a
  vocabulary of the same size, so that bits are comparable. 41 tasks, four arms, all draws.
- `vectors`: the score of the study itself, on all training rows.
- `loss`: a small BERT continues on 300,000 words of the selection in random order; masked-LM loss
  on test texts. Twelve tasks.
- `probe`: the linear classifier of the study on that model's frozen states, on all training rows.
Stated before any cell was computed (2026-11-29):
1. Tasks of `loss` and `probe`: of the 38 in English with at most 10,000 training rows (not
   `ag_news`, `imdb`, `sst2`, for their cost), by the alphabet, every third from the third on. Order
   of computing: draw 0, then draw 1, each with `random` and `default` for all tasks; then
   `moore_lewis`. What is finished when the time is over counts.
2. Decision accuracy: of all pairs of selections of a task (arms x draws), the share for which the
   cheaper measure prefers the one that the dearer prefers. Only pairs count that the dearer can
   tell apart: their answers to the test rows differ by McNemar's exact test, p < .05, uncorrected.
   The others are counted and left out. A tie of the cheaper measure counts as half. Lower bits and
   loss are better. Compared are bits -> vectors, bits -> probe, loss -> probe, vectors -> probe.
3. The interval takes the task as the unit: 95 % percentiles of a bootstrap over tasks of the
   pooled share. Each is given over all pairs and over pairs without `random`, since a measure that
   only knows that any selection is better than random text has most of the former right.
No test is made and no threshold is claimed. Beside it stands what was found for whole corpora: a
ranking at one small scale is right for about 80 % of comparisons (Magnusson et al. 2025,
DataDecide: How to Predict Best Pretraining Data with Small Experiments, arXiv:2504.11393).

Run: nice -n 19 python benchmarks/score_rungs.py DATA MODEL WORK [--rungs bits,loss] [--draws 0,1]
[--arms random,default] [--cells FOLDER]. WORK is that of the study, MODEL the small BERT. What the
study has not selected yet is left out. Each cell is stored when it is finished; the command goes on
from those.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression

import corpusfit
from benefit_cells import store
from corpusfit.core.types import text_array
from corpusfit.evaluation.task import Examples
from corpusfit.evaluation.vector_score import STRENGTH, Words
from corpusfit.kernels.backoff import log_probabilities
from corpusfit.kernels.characters import table as characters
from corpusfit.kernels.kneser_ney import estimate, number_words
from corpusfit.scoring.heldout_bits import ORDER
from corpusfit.scoring.tokens import word_buffers
from corpusfit.text.context import Machine
from harness import machine
from score_cells import Cells, Record, digest, features, masked_loss
from score_study import APART, STATED, STATED_AMOUNT, Study, packed, unpacked

HERE = Path(__file__).parent
LARGE = ("ag_news", "imdb", "sst2")
VOCABULARY = 2**20
"""More words than a selection and the test texts of a task have."""
WORDS = 300_000
STEPS = 200
TRAINING = {
    "objective": "mlm",
    "max_steps": STEPS,
    "learning_rate": 3e-4,
    "batch": 16,
    "length": 128,
}
MOST_TEXTS = 500
"""Test texts for the loss."""
ROUNDS = 10_000
COMPARED = (("bits", "0"), ("bits", "probe"), ("loss", "probe"), ("0", "probe"))
"""The cheaper and the dearer measure, as rungs of cells; 0 is the score of vectors."""
MEASURES = {"bits": ("bits", -1), "0": ("accuracy", 1), "loss": ("loss", -1)}
"""The result by which a cheaper measure prefers, and its direction."""


def trained(tasks: Sequence[str]) -> list[str]:
    """The tasks on which models are trained, of all tasks."""
    return sorted({*tasks} - {*APART, *LARGE})[2::3]


def selection_of(study: Study, task: str, draw: int, arm: str) -> Path:
    """Where the study keeps what it selected."""
    return study.folder / "selections" / f"{task}-{draw}-{arm}.npz"


def texts_of(study: Study, task: str, draw: int, arm: str) -> list[str]:
    """The texts of a selection by falling score, up to the one with which 2 % are reached."""
    places = np.load(selection_of(study, task, draw, arm))["places"]
    total, documents = study.documents(draw)
    names = sorted(documents)
    texts = [documents[names[of]][row][a:b] for of, row, a, b in places.tolist()]
    return first(texts, round(STATED_AMOUNT * total))


def first(texts: list[str], words: int) -> list[str]:
    """The first texts, up to the one with which they have so many words."""
    numbers = Words.of(texts).numbers
    reached = np.cumsum(numbers > 2)[np.flatnonzero(numbers == 2)]
    return texts[: int(np.searchsorted(reached, words)) + 1]


def bits(texts: list[str], test: list[str]) -> Record:
    """Bits per word of test texts, their ends counted, under a trigram model of texts."""
    words, identities = number_words(*word_buffers(text_array(texts)), characters(), False)
    model = estimate(words, identities, ORDER, VOCABULARY)
    data = word_buffers(text_array(test))
    log10, tokens = log_probabilities(model, ORDER, *data, characters(), False)
    return {"bits": round(float(-log10.sum() / tokens.sum() * np.log2(10.0)), 6)}


def adapted(model: Path, texts: list[str], draw: int, folder: Path) -> Path:
    """The folder of the model that continued on some of the texts."""
    order = np.random.default_rng(draw).permutation(len(texts))
    data = folder / "texts.jsonl"
    out = folder / "model"
    store(data, first([texts[i] for i in order], WORDS))
    corpusfit.adapt(
        data=data,
        out=out,
        model=str(model),
        seed=draw,
        settings=("train.evaluations=1", "mix.heldout=32"),
        machine=Machine(workers=1, cache=folder / "tokens"),
        **TRAINING,
    )
    return out


def probe(folder: Path, study: Study, task: str) -> Record:
    """The accuracy of a linear classifier on a frozen model's states, and what is right."""
    train, test = (study.split(task, part) for part in ("train", "test"))
    labels, gold = ([str(row["label"]) for row in rows] for rows in (train, test))
    x, z = (
        features(
            folder, Examples([[row["text"]] for row in rows], [[0]] * len(rows)), "classification"
        ).astype(np.float64)
        for rows in (train, test)
    )
    spread = x.std(axis=0)
    spread[spread == 0] = 1.0
    classifier = LogisticRegression(C=STRENGTH, max_iter=1_000)
    classifier.fit((x - x.mean(axis=0)) / spread, labels)
    right = classifier.predict((z - x.mean(axis=0)) / spread) == np.array(gold)
    return {"accuracy": round(float(right.mean()), 6), "right": packed(right)}


def compute(study: Study, model: Path, cells: Cells, asked: argparse.Namespace) -> None:
    """Compute the cells that are missing, and store each; one that fails is told and left out."""
    made = {key: machine()[key] for key in ("commit", "cpu")}
    for task, draw, arm, rungs in order_of(study.tasks, asked):
        keys = {r: {"task": task, "draw": draw, "arm": arm, "measure": r} for r in rungs}
        missing = {r: key for r, key in keys.items() if digest(key) not in cells.records}
        if not missing or not selection_of(study, task, draw, arm).exists():
            continue
        busy = time.process_time()
        try:
            texts = texts_of(study, task, draw, arm)
            test = [row["text"] for row in study.split(task, "test")]
            found = {}
            if "bits" in missing:
                found["bits"] = bits(texts, test)
            else:
                with tempfile.TemporaryDirectory() as folder:
                    adapted_model = adapted(model, texts, draw, Path(folder))
                    drawn = np.random.default_rng(0).permutation(len(test))[:MOST_TEXTS]
                    loss = masked_loss(adapted_model, [test[i] for i in np.sort(drawn)])
                    found["loss"] = {"loss": loss["nats"], "error": loss["error"]}
                    found["probe"] = probe(adapted_model, study, task)
            spent = round((time.process_time() - busy) / len(found), 1)
            for rung, result in found.items():
                record = {"digest": digest(keys[rung]), "task": task, "column": arm}
                record |= {"setting": str(STATED_AMOUNT), "seed": draw, "rung": rung}
                cells.add(record | {"result": result | {"cpu_s": spent}, "made": made})
        except Exception:
            traceback.print_exc()
            continue
        print(time.strftime("%H:%M:%S"), *found, task, draw, arm, spent, flush=True)


def order_of(
    tasks: Sequence[str], asked: argparse.Namespace
) -> Iterator[tuple[str, int, str, tuple[str, ...]]]:
    """Task, draw, arm and the rungs that one computation gives, in the order of computing."""
    if "bits" in asked.rungs:
        inside = [task for task in tasks if task not in APART]
        for draw, task, arm in itertools.product(asked.draws, inside, STATED):
            yield task, draw, arm, ("bits",)
    if "loss" in asked.rungs:
        for draw, task, arm in itertools.product(asked.draws, trained(tasks), asked.arms):
            yield task, draw, arm, ("loss", "probe")


def decisions(cells: Cells, cheap: str, dear: str, without_random: bool) -> dict[str, np.ndarray]:
    """By task float64 [3]: what is decided right, pairs that are told apart, all pairs."""
    of: dict[str, dict[tuple[str, int], dict[str, Record]]] = {}
    for r in cells.records.values():
        arms = STATED[1:] if without_random else STATED
        if r["setting"] == str(STATED_AMOUNT) and r["column"] in arms and r["task"] not in APART:
            selection = of.setdefault(r["task"], {}).setdefault((r["column"], r["seed"]), {})
            selection[r["rung"]] = r["result"]
    what, sign = MEASURES[cheap]
    found = {}
    for task, selections in sorted(of.items()):
        both = [s for _, s in sorted(selections.items()) if cheap in s and dear in s]
        counts = np.zeros(3)
        for one, other in itertools.combinations(both, 2):
            a, b = (unpacked(s[dear]["right"]) for s in (one, other))
            more = int((a > b).sum())
            less = int((a < b).sum())
            counts[2] += 1
            if more + less and binomtest(more, more + less).pvalue < 0.05:
                preferred = np.sign(sign * (one[cheap][what] - other[cheap][what]))
                counts[1] += 1
                counts[0] += 0.5 + 0.5 * preferred * np.sign(more - less)
        if counts[2]:
            found[task] = counts
    return found


def share(counts: np.ndarray) -> tuple[float, float, float]:
    """The pooled share of right decisions, with a 95 % interval over tasks.

    Args:
        counts: float64 [t, 3], as from `decisions`.
    """
    drawn = np.random.default_rng(0).integers(0, len(counts), (ROUNDS, len(counts)))
    sums = counts[drawn, :2].sum(1)
    shares = sums[:, 0] / np.maximum(sums[:, 1], 1)
    low, high = np.quantile(shares[sums[:, 1] > 0], [0.025, 0.975])
    return float(counts[:, 0].sum() / counts[:, 1].sum()), float(low), float(high)


def main() -> None:
    """Compute what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    for name in ("data", "model", "work"):
        parser.add_argument(name, type=lambda given: Path(given).resolve())
    parser.add_argument("--cells", type=Path, default=HERE / "results" / "score_study")
    listed = {"type": lambda given: given.split(",")}
    parser.add_argument("--rungs", **listed, default=["bits", "loss"])
    parser.add_argument("--arms", **listed, default=["random", "default"])
    parser.add_argument("--draws", type=lambda given: [*map(int, given.split(","))], default=[0, 1])
    asked = parser.parse_args()
    compute(Study(asked.data, asked.work, None), asked.model, Cells(asked.cells), asked)


if __name__ == "__main__":
    main()
