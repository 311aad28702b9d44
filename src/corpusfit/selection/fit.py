"""Jobs on target and background: prepare an encoder, fit a method, rank methods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
from numpy.typing import NDArray

from corpusfit.core.artifacts import read_arrays, read_bytes, restore, store, write_bytes
from corpusfit.core.engine import Engine, PlainJob
from corpusfit.core.errors import InputError, MissingDependencyError, UsageError
from corpusfit.core.plan import EmbedPlan, MethodPlan
from corpusfit.core.types import Paired, WithNumbers, buffers, take_units, text_array
from corpusfit.embed import commit, is_of_hub, prepare, reads_whole
from corpusfit.kernels import characters
from corpusfit.kernels.kneser_ney import number_words
from corpusfit.scoring import registry
from corpusfit.scoring.rank import Trial, trial


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
        repeats: NDArray[np.int64] | None = None,
        documents: NDArray[np.int64] | None = None,
        numbers: Mapping[str, list[float]] | None = None,
    ) -> None:
        """Write n texts, how often each counts and its document, both int64 [n]."""
        # By default each counts once and is a document of its own. `numbers` are those of its row
        # by field, [n] each.
        plain = {"repeats": repeats, "documents": documents}
        stored: dict[str, Any] = {k: None if v is None else v.tolist() for k, v in plain.items()}
        if numbers:
            stored["numbers"] = numbers
        write_bytes(self.texts, orjson.dumps({"texts": texts, **stored}))

    def read_texts(self) -> list[str]:
        """The texts, each once."""
        texts: list[str] = orjson.loads(read_bytes(self.texts))["texts"]
        return texts

    def repeats(self) -> NDArray[np.int64]:
        """How often each text counts, int64 [n]."""
        stored = orjson.loads(read_bytes(self.texts))
        return np.array(stored["repeats"] or [1] * len(stored["texts"]), np.int64)

    def documents(self) -> NDArray[np.int64] | None:
        """The document of each text, int64 [n]; None if each is one, or if it was not stored."""
        stored = orjson.loads(read_bytes(self.texts)).get("documents")
        return None if stored is None else np.array(stored, np.int64)

    def batch(self, reads: str, fields: Sequence[str] = ()) -> Any:
        """The sample as a method reads it: Arrow texts, float32 [n, d], both, or with numbers."""
        if fields:
            numbers = orjson.loads(read_bytes(self.texts))["numbers"]
            each = {field: np.array(numbers[field], np.float64) for field in fields}
            return WithNumbers(self.batch(reads), each)
        if reads in ("text", "numbers"):
            return text_array(self.read_texts())
        vectors = read_arrays(self.vectors)[0]["vectors"]
        return vectors if reads == "embedding" else Paired(text_array(self.read_texts()), vectors)

    def repeated(self, reads: str) -> Any:
        """The batch, with texts repeated by their counts."""
        batch, repeats = self.batch(reads), orjson.loads(read_bytes(self.texts))["repeats"]
        if repeats is None:
            return batch
        return take_units(batch, np.repeat(np.arange(len(repeats)), repeats))


@dataclass(frozen=True)
class PrepareEncoder(PlainJob[EmbedPlan, str]):
    """Download, verify or distil an encoder; returns its fingerprint."""

    cache: Path

    encodes = True  # the fingerprint depends on the hardware that encodes

    def _work(self, plan: EmbedPlan) -> str:
        return prepare(plan, self.cache)


@dataclass(frozen=True)
class EncoderCommit(PlainJob[str, str]):
    """The commit of a prepared encoder of the hub, by its name."""

    def _work(self, embedder: str) -> str:
        return commit(embedder)


def commits_of(engine: Engine, embedders: Iterable[str]) -> dict[str, str]:
    """The commits of prepared encoders, by name; those that are not of the hub are left out."""
    of_hub = list(filter(is_of_hub, dict.fromkeys(embedders)))
    commits = [commit for name in of_hub for commit in engine.map(EncoderCommit(), [name])]
    return {name: commit for name, commit in zip(of_hub, commits, strict=True) if commit}


@dataclass(frozen=True)
class ReadsWhole(PlainJob[EmbedPlan, bool]):
    """Whether an encoder is a static one whose tokenizer reads every text whole."""

    cache: Path

    def _work(self, plan: EmbedPlan) -> bool:
        return reads_whole(plan, self.cache)


@dataclass(frozen=True)
class Fit(PlainJob[MethodPlan, str]):
    """Fit a method and store its scorer; returns the scorer's remark.

    A stored scorer is reused, because shards may have been scored with it and training a network
    on a GPU again does not give the same bits.
    """

    target: Sample
    background: Sample
    scorer: Path
    seed: int
    network: bool = False

    @property
    def encodes(self) -> bool:
        return self.network

    def _work(self, plan: MethodPlan) -> str:
        if self.scorer.exists():
            return restore(self.scorer, registry.scorer_class).remark()
        method = registry.unit_method(plan.name, plan.options)
        target = self.target.repeated(method.fits_on)
        background = self.background.batch(method.fits_on, method.fields)
        scorer = method.fit(target, background, seed=self.seed)
        store(self.scorer, plan.name, scorer)
        return scorer.remark()


@dataclass(frozen=True)
class CommonWords(PlainJob[Sample, tuple[int, int]]):
    """Numbers of a sample's different words, and of those that another sample has too."""

    other: Sample
    signs: bool = False  # whether runs of punctuation count as words

    def _work(self, sample: Sample) -> tuple[int, int]:
        # without the first three: the unknown word, begin and end
        target, others = (
            number_words(*buffers(s.batch("text")), characters.table(), self.signs)[1][3:]
            for s in (sample, self.other)
        )
        return len(target), len(np.intersect1d(target, others))


@dataclass(frozen=True)
class Unfit:
    """A method that could not be fitted on these texts, and why."""

    method: str
    why: str


@dataclass(frozen=True)
class Rank(PlainJob[tuple[MethodPlan, int], Trial | Unfit]):
    """One trial of one method with one random seed."""

    target: Sample  # target, background: samples of the trial
    background: Sample
    named: bool  # whether the user named the methods; then a method that cannot be used is an error

    def _work(self, piece: tuple[MethodPlan, int]) -> Trial | Unfit:
        plan, seed = piece
        try:
            method = registry.unit_method(plan.name, plan.options)
            target, background = (s.batch(method.fits_on) for s in (self.target, self.background))
            return trial(plan.name, method, target, background, seed=seed)
        except InputError as e:
            return Unfit(plan.name, str(e))
        except (UsageError, MissingDependencyError) as e:
            if self.named:
                raise
            return Unfit(plan.name, str(e))
