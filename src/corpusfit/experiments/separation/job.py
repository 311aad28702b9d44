"""Measures one method of a recipe with `[separation]`: a job for a worker."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import write_bytes
from corpusfit.core.engine import PlainJob
from corpusfit.core.types import Paired, Vectors, read_as, text_array
from corpusfit.embed import transformer
from corpusfit.embed.finetune import Tuning, finetune, opened
from corpusfit.experiments.separation.cells import SeparationNode
from corpusfit.experiments.separation.samples import Inputs
from corpusfit.experiments.workers import Report, run_step
from corpusfit.scoring import registry
from corpusfit.scoring.rank import Split, figures, separate
from corpusfit.selection.fit import Sample


@dataclass(frozen=True)
class SeparationJob(PlainJob[SeparationNode, Report]):
    """Fit a method on a part of a target, score what it was not fitted on, and store the figures.

    Attributes:
        inputs: samples, labels and sources.
        held_out: share of the target that is held out.
        tuning: epochs, rate and batch size of fine-tuned encoders, by target.
        costs: folder of records.
    """

    inputs: Inputs
    held_out: float
    tuning: dict[str, dict[str, Any]]
    costs: Path

    encodes = True  # it may train a network

    def _work(self, node: SeparationNode) -> Report:
        def step() -> dict[str, Any]:
            write_bytes(node.out, json.dumps(self.measured(node)).encode())
            return {}

        return run_step(node.out.stem, step, self.costs)

    def measured(self, node: SeparationNode) -> dict[str, Any]:
        """F1, AUROC, average precision, histogram, and the sources of the highest scores."""
        target, corpus = self.inputs.samples(node)
        texts, units = target.read_texts(), corpus.read_texts()
        split = Split.drawn(len(texts), len(units), seed=node.seed, held_out=self.held_out)
        more: dict[str, Any] = {}
        if node.finetuned:
            labels = np.array(self.inputs.labels[node.target])
            read, more = self._finetuned(node, texts, units, labels, split)
        else:
            read = {name: _paired(of) for name, of in (("target", target), ("corpus", corpus))}
        method = registry.unit_method(node.method.name, node.method.options)
        learned, background = (read_as(read[name], method.fits_on) for name in ("target", "corpus"))
        found = separate(method, learned, background, split, seed=node.seed)
        scores = np.concatenate([found.inliers, found.outliers])
        histogram = figures(scores, np.arange(len(scores)) < len(found.inliers)).histogram
        sources = self.inputs.sources[node.corpus, node.seed]
        scored = [sources[i] for i in split.vote]
        return {
            "f1": found.f1,
            "auroc": found.auroc,
            "ap": found.ap,
            "texts": {name: len(getattr(split, name)) for name in ("train", "test", "fit", "vote")},
            "histogram": vars(histogram),
            "scored": dict(sorted(Counter(scored).items())),
            "kept": {
                str(share): dict(sorted(Counter(scored[i] for i in found.top(share)).items()))
                for share in node.fractions
            },
            **more,
        }

    def _finetuned(
        self,
        node: SeparationNode,
        texts: list[str],
        units: list[str],
        labels: NDArray[np.int64],
        split: Split,
    ) -> tuple[dict[str, Paired], dict[str, Any]]:
        """Texts with vectors of the fine-tuned encoder, and its accuracy on the held-out texts."""
        good, bad = ([texts[i] for i in split.train if labels[i] == label] for label in (1, 0))
        tuning = Tuning(**self.tuning[node.target], seed=node.seed)
        tuned = finetune(transformer(node.embed.embedder), good, bad, 1.0, tuning)
        encoder = opened(tuned)
        vectors = {"target": encoder.encode(texts), "corpus": encoder.encode(units)}
        said = vectors["target"][split.test] @ tuned.head[:-1] + tuned.head[-1] > 0
        accuracy = float(np.mean(said == (labels[split.test] == 1)))
        scaled = {k: _unit(v) if node.embed.unit_length else v for k, v in vectors.items()}
        of = {"target": texts, "corpus": units}
        paired = {name: Paired(text_array(of[name]), v) for name, v in scaled.items()}
        return paired, {"accuracy": accuracy}


def _unit(vectors: Vectors) -> Vectors:
    found: Vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return found


def _paired(sample: Sample) -> Paired:
    """A sample's texts with their vectors, which are empty where no method reads any."""
    if sample.vectors.exists():
        paired: Paired = sample.batch("both")
        return paired
    texts = sample.read_texts()
    return Paired(text_array(texts), np.empty((len(texts), 0), np.float32))
