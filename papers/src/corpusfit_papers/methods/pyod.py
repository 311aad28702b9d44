"""`pyod:NAME`: any detector of PyOD, by the name of its class.

What: the anomaly score of a PyOD detector fitted on the target, negated.
Why: PyOD has some fifty detectors; a comparison with one of them needs only its name.
Trade-off: PyOD's objects are opaque and never pickled here, so the scorer stores the target and
fits again once per process. Some detectors (ECOD, COPOD) rank the texts of a batch against each
other, and others round differently in another batch. `fit` tests for this; such a detector then
scores one text at a time, which keeps scores independent of the batch and takes 10 to 1,000 times
as long: ECOD with 3,000 target texts of 768 dimensions scores 6 texts per second, KNN in blocks
9,000. Such detectors suit only small corpora.
Reference: Zhao, Nasrullah and Li (2019), PyOD; Li et al. (2022), ECOD.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import inspect
import io
import json
import re
import warnings
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    InputError,
    Method,
    Scorer,
    UsageError,
    bad_setting,
    blockwise,
    plain_rows,
)

_BLOCK = 64


def _detectors() -> dict[str, str]:
    """Detector classes and their modules, read from PyOD's files without importing them."""
    spec = find_spec("pyod")
    if spec is None or spec.origin is None:
        raise UsageError("The method pyod needs PyOD: pip install 'corpusfit-papers[pyod]'")
    detectors: dict[str, str] = {}
    for path in sorted((Path(spec.origin).parent / "models").glob("*.py")):
        if not path.stem.startswith(("_", "base", "pyg_", "ts_")):  # not for embeddings
            for name in re.findall(r"(?m)^class (\w+)\(Base\w*Detector\)", path.read_text("utf-8")):
                detectors.setdefault(name, path.stem)
    return detectors


def _lacking(name: str, error: ImportError) -> UsageError:
    """The error for a detector that needs a library beyond PyOD's own dependencies."""
    library = (error.name or name.lower()).partition(".")[0]
    return UsageError(
        f"pyod:{name} needs the library {library}, which PyOD does not bring: "
        f"pip install {library}, or name another detector."
    )


def _train(name: str, parameters: str, target: NDArray[np.float32], seed: int) -> Any:
    """Fit a detector, without PyOD's warnings about its internals."""
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # PyOD prints missing dependencies
            module = importlib.import_module(f"pyod.models.{_detectors()[name]}")
    except ImportError as e:
        raise _lacking(name, e) from e
    cls = getattr(module, name)
    known = inspect.signature(cls).parameters
    settings = json.loads(parameters)
    if "n_neighbors" in known:
        neighbors = settings.get("n_neighbors", known["n_neighbors"].default)
        settings["n_neighbors"] = max(1, min(int(neighbors), len(target) - 1))
    if "random_state" in known:
        settings.setdefault("random_state", seed % 2**32)
    x = target if len(target) > 1 else np.repeat(target, 2, axis=0)
    before = np.random.get_state()  # noqa: NPY002  (PyOD draws from the global generator)
    np.random.seed(seed % 2**32)  # noqa: NPY002
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return cls(**settings).fit(x)
    except ImportError as e:
        raise _lacking(name, e) from e
    except TypeError as e:
        allowed = ", ".join(k for k in known if k != "self")
        raise UsageError(f"`method.parameters` must suit {name}: {e}. Allowed: {allowed}.") from e
    except (ValueError, ArithmeticError, IndexError, np.linalg.LinAlgError) as e:
        raise InputError(
            f"PyOD's {name} cannot be fitted on {len(target)} target texts: {e}. "
            "Use more target texts or another method."
        ) from e
    finally:
        np.random.set_state(before)  # noqa: NPY002


@dataclass(frozen=True)
class PyodScorer(Scorer[NDArray[np.float32]]):
    """The inputs for fitting the detector again."""

    target: NDArray[np.float32]  # [m, d]
    detector: str
    parameters: str
    seed: int
    alone: bool  # score one text at a time
    lowest: float  # score of a text for which the detector returns no finite number

    @cached_property
    def _fitted(self) -> Any:
        return _train(self.detector, self.parameters, self.target, self.seed)

    def score(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score float32 [n, d]: PyOD's decision function, negated, float32 [n]."""
        rows = 1 if self.alone else _BLOCK
        return blockwise(batch, self.target.shape[1], self._block, rows)

    def _block(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        size = 1 if self.alone else _BLOCK
        padded = np.concatenate([x, np.repeat(x[:1], size - len(x), axis=0)])
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            raw = -np.asarray(self._fitted.decision_function(padded), np.float64)[: len(x)]
        return np.where(np.isfinite(raw), raw, self.lowest)


def _same_in_any_block(scorer: PyodScorer, sample: NDArray[np.float32]) -> bool:
    """Whether texts get the same bits in a block, in reverse order, and among their copies."""
    x = sample[np.arange(_BLOCK) % len(sample)]
    together = scorer._block(x)
    turned = scorer._block(x[::-1])[::-1]
    by_itself = np.array([scorer._block(x[i : i + 1])[0] for i in range(min(16, _BLOCK))])
    return bool((together == turned).all() and (together[: len(by_itself)] == by_itself).all())


@dataclass(frozen=True)
class Pyod(Method[NDArray[np.float32]]):
    """Anomaly score of a PyOD detector fitted on the target, negated.

    Attributes:
        detector: Name of the detector's class in PyOD, as in `pyod:ECOD` (default: ECOD).
        parameters: Settings of the detector as a JSON object (default: {}).
    """

    reads = "embedding"
    family = "detector"
    scorer: ClassVar[type] = PyodScorer
    cost: ClassVar[str] = "by detector"
    argument: ClassVar[str] = "detector"

    detector: str = "ECOD"
    parameters: str = "{}"

    def __post_init__(self) -> None:
        names = sorted(_detectors())
        if self.detector not in names:
            by_lower = {n.lower(): n for n in names}
            near = difflib.get_close_matches(self.detector.lower(), by_lower, n=1, cutoff=0.0)[0]
            cure = f"Did you mean {by_lower[near]!r}?"
            raise bad_setting("pyod:NAME", f"one of {', '.join(names)}", self.detector, cure)
        try:
            settings = json.loads(self.parameters)
        except ValueError:
            settings = None
        if not isinstance(settings, dict):
            raise bad_setting("`method.parameters`", "a JSON object", self.parameters)

    def fit(
        self, target: NDArray[np.float32], background: NDArray[np.float32], *, seed: int
    ) -> PyodScorer:
        """Fit on the target, and test on up to 64 texts whether scores depend on the batch."""
        x = plain_rows(target)
        probe = PyodScorer(x, self.detector, self.parameters, seed, alone=False, lowest=-np.inf)
        known = -np.asarray(probe._fitted.decision_scores_, np.float64)
        known = known[np.isfinite(known)]
        lowest = float(known.min()) if len(known) else 0.0
        sample = np.concatenate([x[: _BLOCK // 2], plain_rows(background)[: _BLOCK // 2]])
        together = _with(probe, lowest=lowest)
        return _with(together, alone=not _same_in_any_block(together, sample))


def _with(scorer: PyodScorer, **changes: Any) -> PyodScorer:
    """A changed copy that keeps the fitted detector."""
    copy = replace(scorer, **changes)
    copy.__dict__["_fitted"] = scorer._fitted
    return copy
