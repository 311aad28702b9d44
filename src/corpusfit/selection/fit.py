"""Jobs on target and background: prepare an encoder, fit a method, measure likeness."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, read_bytes, restore, store, write_bytes
from corpusfit.core.engine import Call, Engine
from corpusfit.core.plan import EmbedPlan, MethodPlan
from corpusfit.core.types import Paired, WithNumbers, text_array
from corpusfit.embed import commit, is_of_hub, prepare
from corpusfit.kernels import characters
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.scoring import registry
from corpusfit.scoring.likeness import Likeness, likeness
from corpusfit.scoring.tokens import word_buffers
from corpusfit.text.context import Run


@dataclass(frozen=True)
class Sample:
    """The target or the background, as texts and as vectors, in a folder."""

    folder: Path
    name: str

    @property
    def vectors(self) -> Path:
        """The file with the vectors [n, d]."""
        return self.folder / f"{self.name}.safetensors"

    @property
    def texts(self) -> Path:
        """The file with the n texts."""
        return self.folder / f"{self.name}.json"

    def write_texts(
        self,
        texts: list[str],
        documents: NDArray[np.int64] | None = None,
        numbers: Mapping[str, list[float]] | None = None,
    ) -> None:
        """Write n texts and the document of each, int64 [n]."""
        # By default each is a document of its own. `numbers` are those of its row by field, [n]
        # each.
        stored: dict[str, Any] = {"documents": None if documents is None else documents.tolist()}
        if numbers:
            stored["numbers"] = numbers
        write_bytes(self.texts, orjson.dumps({"texts": texts, **stored}))

    def read_texts(self) -> list[str]:
        """The texts, each once."""
        texts: list[str] = orjson.loads(read_bytes(self.texts))["texts"]
        return texts

    def keep(self, places: NDArray[np.int64]) -> None:
        """Leave out all but some texts, int64 [k]; before the sample has vectors."""
        stored = orjson.loads(read_bytes(self.texts))
        documents = self.documents()
        self.write_texts(
            [stored["texts"][i] for i in places.tolist()],
            None if documents is None else documents[places],
            {
                field: [values[i] for i in places.tolist()]
                for field, values in stored.get("numbers", {}).items()
            },
        )

    def documents(self) -> NDArray[np.int64] | None:
        """The document of each text, int64 [n]; None if each is one, or if it was not stored."""
        stored = orjson.loads(read_bytes(self.texts)).get("documents")
        return None if stored is None else np.array(stored, np.int64)

    def batch(self, reads: str, fields: Sequence[str] = ()) -> Any:
        """The sample as a method reads it: Arrow texts, float32 [n, d], both, or with numbers."""
        if fields:
            numbers = orjson.loads(read_bytes(self.texts))["numbers"]
            by_field = {field: np.array(numbers[field], np.float64) for field in fields}
            return WithNumbers(self.batch(reads), by_field)
        if reads in ("text", "numbers"):
            return text_array(self.read_texts())
        vectors = read_arrays(self.vectors)[0]["vectors"]
        return vectors if reads == "embedding" else Paired(text_array(self.read_texts()), vectors)


def prepare_encoder(run: Run, plan: EmbedPlan) -> str:
    """Download or verify an encoder in a worker; returns its fingerprint."""
    # the fingerprint depends on the hardware that encodes
    (fingerprint,) = run.engine.map(Call(prepare, encodes=True), [plan])
    return fingerprint


def pin_encoder(run: Run, plan: EmbedPlan) -> tuple[str, dict[str, str]]:
    """Prepare an encoder; returns its fingerprint, and its commit by its name if it has one."""
    with run.stage("prepare encoder"):
        fingerprint = prepare_encoder(run, plan)
        return fingerprint, commits_of(run.engine, [plan.embedder])


def commits_of(engine: Engine, embedders: Iterable[str]) -> dict[str, str]:
    """The commits of prepared encoders, by name; those that are not of the hub are left out."""
    of_hub = list(filter(is_of_hub, dict.fromkeys(embedders)))
    commits = [found for name in of_hub for found in engine.map(commit, [name])]
    return {name: found for name, found in zip(of_hub, commits, strict=True) if found}


def fit(target: Sample, background: Sample, scorer: Path, seed: int, plan: MethodPlan) -> str:
    """Fit a method and store its scorer; returns the scorer's remark.

    A stored scorer is reused, because shards may have been scored with it and training a network
    on a GPU again does not give the same bits.
    """
    if scorer.exists():
        return restore(scorer, registry.scorer_class).remark()
    method = registry.unit_method(plan.name, plan.options)
    learned = background.batch(method.fits_on, method.fields)
    fitted = method.fit(target.batch(method.fits_on), learned, seed=seed)
    store(scorer, plan.name, fitted)
    return fitted.remark()


def common_words(
    other: Sample,
    signs: bool,  # whether runs of punctuation count as words
    sample: Sample,
) -> tuple[int, int]:
    """Numbers of a sample's different words, and of those that another sample has too."""
    # without the first three: the unknown word, begin and end
    target, others = (
        number_words(*word_buffers(s.batch("text")), characters.table(), signs)[1][3:]
        for s in (sample, other)
    )
    return len(target), len(np.intersect1d(target, others))


def alike(background: Sample, seed: int, target: Sample) -> Likeness | None:
    """What a sample of the corpus has of the target; None for a tiny target."""
    return likeness(target.batch("text"), background.batch("text"), target.documents(), seed=seed)
