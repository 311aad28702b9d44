"""`one_class_svm`: inside a smooth boundary around the target.

What: the decision function of a one-class support vector machine with a Gaussian kernel.
Why: one of TADPOLE's six detectors (section 3.1, Table 1; Schölkopf et al., 2000).
Trade-off: the slowest detector to score with: one distance and one exponential per support vector,
and at nu = 0.5 half of the target are support vectors. All distant texts get the same lowest score.
Reference: Schölkopf, Williamson, Smola, Shawe-Taylor and Platt (2000); as in LIBSVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from corpusfit.contracts import (
    Method,
    Scorer,
    blockwise,
    plain_rows,
    products,
    setting,
    squared_distances,
)


@dataclass(frozen=True)
class OneClassSvmScorer(Scorer[NDArray[np.float32]]):
    """The support vectors."""

    support: NDArray[np.float32]  # [m, d]
    weight: NDArray[np.float32]  # [1, m], the dual coefficients
    gamma: float  # parameter of the kernel exp(-gamma |x - y|²)
    offset: float  # added to the weighted sum

    def score(self, batch: NDArray[np.float32]) -> NDArray[np.float32]:
        """Score float32 [n, d]: the decision function, float32 [n]; above 0 is inside."""

        def block(x: NDArray[np.float32]) -> NDArray[np.float64]:
            kernel = np.exp(np.float32(-self.gamma) * squared_distances(x, self.support))
            total = products(kernel, self.weight)[:, 0]
            return np.asarray(total.astype(np.float64) + self.offset)

        return blockwise(batch, self.support.shape[1], block)


@dataclass(frozen=True)
class OneClassSvm(Method[NDArray[np.float32]]):
    """Decision function of a one-class SVM around the target.

    Attributes:
        nu: Largest share of the target outside the boundary and smallest share of support vectors,
            in (0, 1] (default: 0.5).
    """

    reads = "embedding"
    family = "detector"
    scorer: ClassVar[type] = OneClassSvmScorer
    cost: ClassVar[str] = "38,000/s"

    nu: float = setting(0.5, above=0, maximum=1)

    def fit(
        self, target: NDArray[np.float32], background: NDArray[np.float32], *, seed: int
    ) -> OneClassSvmScorer:
        """Fit the boundary on the target; background and seed are not used.

        gamma is 1 / (d var), scikit-learn's "scale", or 1 for a target without variance.
        """
        from sklearn.svm import OneClassSVM

        x = plain_rows(target).astype(np.float64)
        variance = float(x.var())
        gamma = 1.0 / (x.shape[1] * variance) if variance > 0.0 else 1.0
        svm = OneClassSVM(kernel="rbf", gamma=gamma, nu=self.nu).fit(x)
        return OneClassSvmScorer(
            plain_rows(svm.support_vectors_),
            plain_rows(svm.dual_coef_),
            gamma,
            float(svm.intercept_[0]),
        )
