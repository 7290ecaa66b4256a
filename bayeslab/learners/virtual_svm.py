r"""Learner ``virtual_svm``: a support vector machine for images that is trained on transformed support vectors.

A first machine is trained. Its support vectors, which alone determine the decision, are shifted by a pixel (and
optionally rotated and scaled) with their classes unchanged, and a second machine is trained on them and their copies
[1]_. This gives invariance to the transformations at the cost of copies of the support vectors, not of all rows.

The local kernel uses products of nearby pixels,
:math:`K(x, z) = \bigl(\sum_{|a - b| \le r} c_{a-b}\, x_a x_b z_a z_b\bigr)^d`, with pyramid-shaped weights c and pixels
from -1 to 1 [2]_. Other kernels ignore which pixels are neighbours: their decisions do not change if all pixels are
permuted.

References
----------
.. [1] DeCoste, Schölkopf (2002). Training invariant support vector machines. Machine Learning 46, 161-190.
.. [2] Schölkopf, Simard, Smola, Vapnik (1998). Prior knowledge in support vector kernels. NIPS 10.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.svm import SVC
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from bayeslab.learners.toolbox.estimator import Applies, Count, Estimator, LearnerOptions, Positive
from bayeslab.learners.toolbox.gram import SOLVER_STEPS
from bayeslab.learners.toolbox.images import copies, image_shape

__all__ = [
    "CATEGORIES",
    "MISSING",
    "SCALE",
    "TASKS",
    "Options",
    "VirtualSVM",
    "build",
    "examples",
    "local_products",
    "reported",
]

Array = NDArray[np.float64]

TASKS = ("classification",)
CATEGORIES: Literal["codes", "indicators"] = "indicators"
SCALE = False
MISSING = False


class Options(LearnerOptions):
    """Options of virtual support vector machines."""

    applies: ClassVar[Applies] = {
        "gamma": {"kernel": ("poly", "rbf")},
        "degree": {"kernel": ("poly", "local")},
        "coef0": {"kernel": ("poly", "local")},
        "reach": {"kernel": ("local",)},
    }
    image_shape: list[Count] | None = Field(
        None,
        min_length=2,
        max_length=2,
        description="Height and width; the columns are the pixels, line by line. Default: square.",
    )
    shift: int = Field(1, ge=0, le=100, description="Largest shift of the support vectors, in pixels.")
    rotation: float = Field(
        0.0, ge=0, lt=90, description="Rotation of the support vectors both ways, in degrees; 0: none."
    )
    scale: float = Field(1.0, ge=1, description="Factor by which support vectors are enlarged and reduced; 1: none.")
    kernel: Literal["linear", "poly", "rbf", "local"] = Field(
        "rbf", description="The kernel; local: products of nearby pixels."
    )
    C: float = Field(10.0, gt=0, description="Cost of margin violations; large values give a hard margin.")
    gamma: Positive | Literal["scale", "auto"] = Field("scale", description="Scale of poly and rbf, as in svm.")
    degree: int = Field(2, ge=1, le=100, description="Degree of poly and local.")
    coef0: float = Field(1.0, ge=0, description="Constant term of poly and local.")
    reach: int = Field(
        2, ge=0, le=100, description="Kernel local: largest distance between pixels that are multiplied."
    )


def local_products(X: Any, shape: tuple[int, int], reach: int) -> Array:
    """Features of the local kernel: weighted products of pixels at most ``reach`` apart along each axis.

    Parameters
    ----------
    X
        Images, one per row.
    shape
        Their height and width.
    reach
        0: squares of pixels only. The weight of a pair decreases along each axis to zero at a distance of reach + 1.
    """
    images = np.asarray(X, float).reshape(-1, *shape)
    n, (height, width) = len(images), shape
    parts = []
    for i in range(min(reach, height - 1) + 1):
        for j in range(-reach if i else 0, reach + 1):
            if abs(j) >= width:
                continue
            weight = (1 - i / (reach + 1)) * (1 - abs(j) / (reach + 1))
            # Each pair is listed once; pairs of different pixels count twice in the sum.
            factor = np.sqrt(weight * (1 if i == j == 0 else 2))
            one = images[:, : height - i, max(-j, 0) : width - max(j, 0)]
            other = images[:, i:, max(j, 0) : width - max(-j, 0)]
            parts.append(factor * (one * other).reshape(n, -1))
    return np.hstack(parts)


class VirtualSVM(ClassifierMixin, Estimator, options=Options):
    """A support vector machine, trained again on its support vectors and transformed copies of them.

    Parameters
    ----------
    C : float
    kernel : {"linear", "poly", "rbf", "local"}
    gamma : float or {"scale", "auto"}
        Scale of ``poly`` and ``rbf``; for ``local`` applied to its features.
    degree, coef0 : number
        Parameters of ``poly`` and ``local``, (gamma x·z + coef0)^degree; for ``local`` applied to its features.
    image_shape : (int, int) or None
        Height and width; None: square, or one line of pixels.
    shift : int
        Largest shift of the support vectors along both axes, in pixels.
    rotation : float
        Degrees; 0: none.
    scale : float
        A factor; 1: none.
    reach : int
        Kernel ``local``: largest distance between pixels that are multiplied.
    rounds : int
        Number of times the support vectors are transformed and the machine is trained again.
    cache_size : float
        Megabytes for libsvm's kernel values.

    Attributes
    ----------
    low_, high_ : float
        Darkest and brightest pixel.
    first_ : SVC
        The machine trained on the rows themselves.
    solver_ : SVC
        The final machine.
    n_virtual_ : int
        Number of rows that it was trained on: support vectors and copies.
    """

    def __init__(
        self,
        C: float = 10.0,
        kernel: str = "rbf",
        gamma: Any = "scale",
        degree: int = 2,
        coef0: float = 1.0,
        image_shape: tuple[int, int] | None = None,
        shift: int = 1,
        rotation: float = 0.0,
        scale: float = 1.0,
        reach: int = 2,
        rounds: Annotated[int, Field(ge=0, le=1000)] = 1,
        cache_size: Positive = 500,
    ) -> None:
        self.C, self.kernel, self.gamma, self.degree, self.coef0 = C, kernel, gamma, degree, coef0
        self.image_shape, self.shift, self.rotation, self.scale = image_shape, shift, rotation, scale
        self.reach, self.rounds, self.cache_size = reach, rounds, cache_size

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # Products of unordered columns lose their signs.
        tags.classifier_tags.poor_score = self.kernel == "local"
        return tags

    def _solver(self) -> Any:
        kernel = "poly" if self.kernel == "local" else self.kernel
        return SVC(
            C=self.C,
            kernel=kernel,
            gamma=self.gamma,
            degree=self.degree,
            coef0=self.coef0,
            cache_size=self.cache_size,
            break_ties=True,
            max_iter=SOLVER_STEPS,
        )

    def _features(self, X: Array) -> Array:
        if self.kernel != "local":
            return X
        # From -1 (dark) to 1, so that two dark pixels are as similar as two bright ones.
        middle, half = (self.high_ + self.low_) / 2, (self.high_ - self.low_) / 2
        return local_products((X - middle) / (half if half > 0 else 1.0), self.image_shape_, self.reach)

    def fit(self, X: Any, y: Any) -> Self:
        """Train, transform the support vectors, train again."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(y)
        self.image_shape_ = image_shape(X.shape[1], self.image_shape)
        self.low_, self.high_ = float(X.min()), float(X.max())
        self.first_ = self.solver_ = self._solver().fit(self._features(X), y)
        self.classes_ = self.first_.classes_
        rows, classes = X, y
        for _ in range(self.rounds):
            support = self.solver_.support_
            rows, classes = self._transformed(rows[support], classes[support])
            self.solver_ = self._solver().fit(self._features(rows), classes)
        self.n_virtual_ = len(rows)
        return self

    def _transformed(self, X: Array, y: Any) -> tuple[Array, Any]:
        """Rows and their transformed copies, without duplicates."""
        images = X.reshape(-1, *self.image_shape_)
        parts = [X, *(c.reshape(len(X), -1) for c in copies(images, self.shift, self.rotation, self.scale))]
        rows, classes = np.vstack(parts), np.tile(y, len(parts))
        _, first = np.unique(
            np.column_stack([rows, np.searchsorted(self.classes_, classes)]), axis=0, return_index=True
        )
        first.sort()
        return rows[first], classes[first]

    def _solver_input(self, X: Any) -> Array:
        check_is_fitted(self)
        return self._features(validate_data(self, X, reset=False, dtype=np.float64))

    def decision_function(self, X: Any) -> Array:
        """Scores: for two classes positive for the second, else one column per class, from the votes of the pairs."""
        solver_input = self._solver_input(X)
        return np.asarray(self.solver_.decision_function(solver_input))

    def predict(self, X: Any) -> np.ndarray:
        """The class of each image."""
        solver_input = self._solver_input(X)
        return np.asarray(self.solver_.predict(solver_input))


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the virtual support vector machine."""
    return VirtualSVM(**options.model_dump())


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the numbers of support vectors before and after, and of rows of the second machine."""
    return {
        "n_support_first": ((), np.array(float(len(estimator.first_.support_)))),
        "n_virtual": ((), np.array(float(estimator.n_virtual_))),
        "n_support": ((), np.array(float(len(estimator.solver_.support_)))),
    }


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks; unordered columns are one line of pixels there, without shifts."""
    return [VirtualSVM(kernel="rbf", shift=0), VirtualSVM(kernel="local", shift=0, rotation=5.0)]
