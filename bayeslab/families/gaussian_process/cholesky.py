"""The Cholesky factor of a Gaussian process's covariance as a PyTensor node, for forward sampling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from bayeslab.latents.gaussian_process.covariance import Kernel
from bayeslab.latents.gaussian_process.gaussian_process import factor

__all__ = ["CovarianceFactor"]


class CovarianceFactor(Op):
    """Lower Cholesky factor of K(x, x) given the hyperparameters, without a gradient."""

    def __init__(self, kernel: Kernel, x: np.ndarray, nugget: float) -> None:
        self.kernel, self.x, self.nugget = kernel, x, nugget

    def make_node(self, theta: Any) -> Apply:
        n = len(self.x)
        return Apply(self, [pt.as_tensor_variable(theta, dtype="float64")], [pt.dmatrix(shape=(n, n))])

    def perform(self, node: Apply, inputs: Sequence[Any], outputs: Any) -> None:
        lower, _ = factor(self.kernel, inputs[0], self.x, np.zeros(len(self.x)), nugget=self.nugget)
        outputs[0][0] = lower
