"""`fasttext:FILE`: the probability of a label by a fastText classifier of others.

What: the probability that a supervised fastText model, `.bin` or quantized as `.ftz`, gives a label
of it; a text is read as one line.
Why: filters of web corpora are such models, as DCLM's; they score megabytes per second.
Trade-off: it knows nothing of the target. Each unit is scored, and a segment's score is their mean;
a filter that was made for whole documents is best used with `cut.unit=document`. The scorer holds
the path of the file, which every worker reads, not its content of often gigabytes.
Reference: Joulin et al. (2017), Bag of Tricks for Efficient Text Classification; Li et al. (2024),
DataComp-LM, section 4.4.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.core.artifacts import user_path
from corpusfit.core.errors import ModelError, bad_setting, importing
from corpusfit.core.types import Reads, Texts, as_texts
from corpusfit.scoring.contract import Family, Method, Scorer
from corpusfit.scoring.external import Classifier, digest_of, require_same

_PREFIX = "__label__"


@dataclass(frozen=True)
class FasttextScorer(Scorer[Texts]):
    """The path of a model, and the label whose probability is the score."""

    path: str
    label: str  # with the prefix of the file
    lower: bool  # whether lower probabilities are better
    digest: str  # of the file

    @cached_property
    def _model(self) -> Any:
        require_same([Path(self.path)], self.digest, self.path)
        return opened(Path(self.path))

    def meaning(self) -> str:
        """What a score is."""
        label = self.label.removeprefix(_PREFIX)
        return Classifier(self.path, label, self.lower).meaning(f"the probability of {label}")

    def score(self, batch: Texts) -> NDArray[np.float32]:
        """Score n texts: float32 [n] in [0, 1], or [-1, 0] where lower is better."""
        out = np.empty(len(batch), np.float32)
        for number, text in enumerate(as_texts(batch).to_pylist()):
            line = " ".join(text.split("\n")) + "\n"
            # as `predict` of every package of this name does, without an array for each text
            found = self._model.predict(line, -1, 0.0, "strict")
            out[number] = next((p for p, label in found if label == self.label), 0.0)
        out = np.minimum(out, np.float32(1.0))
        return -out if self.lower else out


def opened(path: Path) -> Any:
    """A supervised model of fastText."""
    with importing("A fastText model", "fasttext"):
        import fasttext
    try:
        model = fasttext.load_model(str(path)).f
        model.predict("a\n", 1, 0.0, "strict")
    except (ValueError, RuntimeError, MemoryError) as e:
        raise ModelError(
            f"`method.file` must be a supervised model of fastText, .bin or .ftz; {path}: {e}. "
            "Name the file that `fasttext supervised` wrote."
        ) from e
    return model


@dataclass(frozen=True)
class Fasttext(Method[Texts]):
    """Probability of a label by a fastText classifier of yours, as fasttext:FILE.

    Attributes:
        file: Supervised model, .bin or .ftz; with `-` before it a low probability is the best, and
            `#LABEL` behind it names the label, with or without `__label__`, unless it has only one
            (required).
    """

    reads: ClassVar[Reads] = "text"
    family: ClassVar[Family] = "external"
    higher: ClassVar[str] = "more like the classifier's label"
    ignores_target: ClassVar[bool] = True
    scorer: ClassVar[type] = FasttextScorer
    cost: ClassVar[str] = "25,000/s"
    needs: ClassVar[str] = "fasttext"
    argument: ClassVar[str] = "file"

    file: str = ""

    def __post_init__(self) -> None:
        if not self._path.is_file():
            cure = "For example fasttext:quality.bin#hq."
            raise bad_setting("`method.file`", "a file with a model", self.file, cure)

    @property
    def _named(self) -> Classifier:
        named = Classifier.of(self.file)
        return named._replace(label=named.label.removeprefix(_PREFIX))

    @property
    def _path(self) -> Path:
        return user_path(self._named.model).absolute()

    @property
    def files(self) -> tuple[str, ...]:
        """The model."""
        return (str(self._path),)

    def _label(self) -> str:
        """The label, as the model spells it."""
        labels = opened(self._path).getLabels("strict")[0]
        plain = [label.removeprefix(_PREFIX) for label in labels]
        return str(labels[self._named.place_in(plain, "fasttext")])

    def require(self) -> None:
        """Check that the model opens and has the label."""
        self._label()

    def fit(self, target: Texts, background: Texts, *, seed: int) -> FasttextScorer:
        """Find the label; target and background are not used."""
        digest = digest_of([self._path])
        return FasttextScorer(str(self._path), self._label(), self._named.lower, digest)
