r"""Learner ``text_svm``: a support vector machine on texts, with string or tree kernels.

The input is one column of text. The kernel counts the subsequences of letters or words that two texts share, where
subsequences with gaps count less (the string subsequence kernel [1]_). If the texts are bracketed trees such as
``(S (NP John) (VP sleeps))``, it counts shared tree fragments [2]_. No features are extracted: the machine uses only
inner products in a space with one dimension for each subsequence or fragment. The kernels are in
:mod:`bayeslab.learners.toolbox.string_kernel` and :mod:`bayeslab.learners.toolbox.tree_kernel`; the machine is that of
the learner ``svm``.

References
----------
.. [1] Lodhi, Saunders, Shawe-Taylor, Cristianini, Watkins (2002). Text classification using string kernels. JMLR 2,
   419-444.
.. [2] Collins, Duffy (2001). Convolution kernels for natural language. NIPS 14.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from sklearn.base import BaseEstimator
from sklearn.compose import TransformedTargetRegressor
from sklearn.preprocessing import StandardScaler

from bayeslab.errors import OptionError
from bayeslab.learners import svm
from bayeslab.learners.toolbox.estimator import Applies, LearnerOptions
from bayeslab.learners.toolbox.string_kernel import SubsequenceKernel
from bayeslab.learners.toolbox.tree_kernel import TreeKernel

__all__ = ["CATEGORIES", "MISSING", "SCALE", "TASKS", "Options", "TextKernel", "build", "examples", "reported"]

Array = NDArray[np.float64]

TASKS = ("classification", "regression")
CATEGORIES: Literal["texts"] = "texts"
SCALE = False
MISSING = False


class Options(LearnerOptions):
    """Options of the support vector machine on texts."""

    applies: ClassVar[Applies] = {
        "unit": {"kernel": ("subsequence",)},
        "length": {"kernel": ("subsequence",)},
        "epsilon": {"task": ("regression",)},
        "class_weight": {"task": ("classification",)},
    }
    kernel: Literal["subsequence", "tree"] = Field(
        "subsequence", description="Kernel: shared subsequences, or shared fragments of bracketed trees."
    )
    unit: Literal["letters", "words"] = Field("letters", description="Symbols of the subsequences.")
    length: int = Field(3, ge=1, le=1000, description="Number of symbols in a subsequence.")
    decay: float = Field(
        0.5, gt=0, le=1, description="Factor per position that a subsequence spans, or per node of a fragment."
    )
    C: float = Field(10.0, gt=0, description="Cost of margin violations; large values give a hard margin.")
    epsilon: float = Field(0.1, ge=0, description="Regression: errors up to this are free, in standard deviations.")
    class_weight: Literal["balanced"] | None = Field(
        None,
        description="balanced: errors in rare classes cost more; probabilities assume equal class frequencies.",
    )


@dataclass(frozen=True)
class TextKernel:
    """A text kernel for a column of texts: an array of shape (rows, 1), or a list.

    Attributes
    ----------
    kernel : SubsequenceKernel or TreeKernel
    words : bool
        Whether texts are split into words first.
    """

    kernel: SubsequenceKernel | TreeKernel
    words: bool = False

    def __call__(self, X: Any, Z: Any) -> Array:
        """Kernel values, shape (rows of X, rows of Z)."""
        first = self._texts(X)
        try:
            return np.asarray(self.kernel(first, None if Z is X else self._texts(Z)))
        except OptionError as error:
            raise ValueError(str(error)) from None

    def _texts(self, X: Any) -> list[Any]:
        column = np.asarray(X, dtype=object)
        if column.ndim == 2 and column.shape[1] != 1:
            raise ValueError(f"X must be one column of text, not {column.shape[1]}")
        texts = [str(text) for text in column.ravel()]
        return [text.split() for text in texts] if self.words else texts


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """Return the support vector machine with the requested kernel."""
    tree = options.kernel == "tree"
    kernel = TextKernel(
        TreeKernel(options.decay) if tree else SubsequenceKernel(options.length, options.decay),
        not tree and options.unit == "words",
    )
    if task == "classification":
        return svm.SVMClassifier(options.C, kernel, class_weight=options.class_weight)
    return TransformedTargetRegressor(
        svm.SVMRegressor(options.C, options.epsilon, kernel), transformer=StandardScaler()
    )


def reported(estimator: Any) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Return the same quantities as the learner svm."""
    out = svm.reported(estimator)
    out.pop("gamma")
    return out


def examples() -> list[BaseEstimator]:
    """Estimators for scikit-learn's checks: none, the machine is that of the learner svm."""
    return []
