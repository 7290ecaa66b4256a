r"""Learner ``text_svm``: a support vector machine of texts, by what two texts have in common.

The input is one column of text. Two texts are alike as far as they share subsequences of letters or words, those with
gaps counting less (the string subsequence kernel [1]_), or, where the texts are trees in brackets such as ``(S (NP
John) (VP sleeps))``, fragments of trees [2]_. Nothing is cut out of the texts beforehand: the machine sees inner
products only, in a space with a dimension for each subsequence or fragment. The kernels are in
:mod:`bayeslab.learners.toolbox.string_kernel` and :mod:`bayeslab.learners.toolbox.tree_kernel`, the machine is that of
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
    """Options of the machine of texts."""

    applies: ClassVar[Applies] = {
        "unit": {"kernel": ("subsequence",)},
        "length": {"kernel": ("subsequence",)},
        "epsilon": {"task": ("regression",)},
        "class_weight": {"task": ("classification",)},
    }
    kernel: Literal["subsequence", "tree"] = Field(
        "subsequence", description="What texts may share: subsequences, or fragments of trees in brackets."
    )
    unit: Literal["letters", "words"] = Field("letters", description="Of subsequence: what they consist of.")
    length: int = Field(3, ge=1, le=1000, description="Of subsequence: letters or words of one.")
    decay: float = Field(
        0.5, gt=0, le=1, description="Weight of each place that a subsequence spans, or of each node of a fragment."
    )
    C: float = Field(10.0, gt=0, description="Price of a row in the street; large: a hard margin.")
    epsilon: float = Field(0.1, ge=0, description="Of a regression: errors that cost nothing, in standard deviations.")
    class_weight: Literal["balanced"] | None = Field(
        None,
        description="balanced: errors in rare classes cost more; probabilities are as of equally frequent ones.",
    )


@dataclass(frozen=True)
class TextKernel:
    """A kernel of texts for columns of them: of arrays of the shape (rows, 1), or of lists.

    Attributes
    ----------
    kernel : SubsequenceKernel or TreeKernel
    words : bool
        Whether texts are cut into words first.
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
            raise ValueError(f"one column of text is wanted, not {column.shape[1]}")
        texts = [str(text) for text in column.ravel()]
        return [text.split() for text in texts] if self.words else texts


def build(options: Options, task: str, categorical: tuple[int, ...] = ()) -> BaseEstimator:
    """The machine with the kernel asked for."""
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
    """As of the learner svm."""
    out = svm.reported(estimator)
    out.pop("gamma")
    return out


def examples() -> list[BaseEstimator]:
    """For scikit-learn's checks: none, the machine is that of the learner svm."""
    return []
