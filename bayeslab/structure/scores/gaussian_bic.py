r"""BIC of Gaussian networks: each variable is a linear regression on its parents, fitted by maximum likelihood.

.. math:: -\frac{N}{2} (\log 2 \pi \hat\sigma^2 + 1) - \frac{1}{2} \log N \cdot (k + 2)

with k parents: the parameters are k slopes, the intercept and the variance. Equivalent structures have equal scores.

References
----------
.. [1] Schwarz (1978). Estimating the dimension of a model. Annals of Statistics 6, 461-464.
.. [2] Koller, Friedman (2009). Probabilistic Graphical Models, sections 17.2.4 and 18.3.5.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.errors import DataError
from bayeslab.structure.scores.toolbox.gaussian import GaussianScore, Moments, numbers

__all__ = ["score"]


def score(data: Any) -> GaussianScore:
    """Return the Gaussian BIC score of a table of numbers."""
    observations = numbers(data, "gaussian_bic")
    moments = Moments.of(observations)
    n_rows, covariance = moments.n_rows, moments.spread / moments.n_rows
    if n_rows > observations.n:
        _check_independent(observations.names, covariance)
    size = np.arange(observations.n + 1)
    # Parameters of parents and child minus those of the parents: k + 2.
    parameters = size * (size + 3) / 2
    constant = -n_rows / 2 * size * (LOG_2PI + 1) - 0.5 * math.log(n_rows) * parameters
    slope = np.where(size > 0, -n_rows / 2, 0.0)
    return GaussianScore("gaussian_bic", observations, covariance, constant, slope, -n_rows * np.log(moments.scale))


def _check_independent(names: tuple[str, ...], covariance: np.ndarray) -> None:
    """Raise a DataError that names a column determined by the columns before it."""
    sd = np.sqrt(np.diag(covariance))
    correlation = covariance / np.outer(sd, sd)
    for k in range(1, len(names)):
        before = correlation[:k, :k]
        explained = correlation[k, :k] @ np.linalg.lstsq(before, correlation[:k, k], rcond=None)[0]
        if 1 - explained < 1e-12:
            raise DataError(
                f"column '{names[k]}' is a linear function of the columns before it: its likelihood has no bound; leave"
                f" it out, or take 'bge'",
                code="dependent-columns",
            )
