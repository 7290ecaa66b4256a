r"""BGe: the log marginal likelihood of Gaussian networks under a normal-Wishart prior.

Equivalent structures have equal scores. For a set Y of l of the n variables and N rows

.. math:: p(d^Y) = \Big(\frac{\alpha_\mu}{N + \alpha_\mu}\Big)^{l/2}
   \frac{\Gamma_l((N + \alpha_w - n + l) / 2)}{\pi^{lN/2}\, \Gamma_l((\alpha_w - n + l) / 2)}
   \frac{|T_{YY}|^{(\alpha_w - n + l) / 2}}{|R_{YY}|^{(N + \alpha_w - n + l) / 2}},
   \quad R = T + S_N + \frac{N \alpha_\mu}{N + \alpha_\mu} (\nu - \bar x)(\nu - \bar x)^\top

and the local score is log p(d of the family) - log p(d of the parents). This is the expression of [2]_, which corrects
that of [1]_. The prior scale matrix is

.. math:: T = t \, \mathrm{diag}(s_1^2, \dots, s_n^2), \quad t = \frac{\alpha_\mu (\alpha_w - n - 1)}{\alpha_\mu + 1}

where s are the sample standard deviations of the columns (as if the columns were standardised), so that posteriors of
structures do not depend on the units of the columns; or s is given, and s = 1 is the prior of [2]_.

References
----------
.. [1] Geiger, Heckerman (2002). Parameter priors for directed acyclic graphical models. Annals of Statistics 30,
   1412-1440.
.. [2] Kuipers, Moffa, Heckerman (2014). Addendum on the scoring of Gaussian directed acyclic graphical models.
   Annals of Statistics 42, 1689-1691.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.constants import LOG_PI
from bayeslab.errors import OptionError
from bayeslab.structure.data import Observations
from bayeslab.structure.scores.toolbox.gaussian import GaussianScore, Moments, numbers

__all__ = ["Wishart", "posterior", "score"]


def score(
    data: Any,
    *,
    alpha_mu: float = 1.0,
    alpha_w: float | None = None,
    nu: Sequence[float] | None = None,
    scale: Sequence[float] | float | None = None,
) -> GaussianScore:
    """Return the BGe score of a table of numbers.

    Parameters
    ----------
    data
        A table (:meth:`bayeslab.structure.data.Observations.of`).
    alpha_mu
        Number of imaginary rows behind the prior mean.
    alpha_w
        Degrees of freedom of the Wishart distribution, more than n + 1; default: n + alpha_mu + 1.
    nu
        Prior mean of each column; default: the column means.
    scale
        Prior scale of each column, or of all, in the units of the column; default: the sample standard deviations of
        the columns.
    """
    return _posterior(numbers(data, "bge"), alpha_mu, alpha_w, nu, scale)[0]


@dataclass(frozen=True, eq=False)
class Wishart:
    """The normal-Wishart posterior behind a score.

    Attributes
    ----------
    matrix : ndarray, shape (n, n)
        The matrix R for columns divided by their scales.
    scale, centre : ndarray, shape (n,)
        The scales, and the posterior means of the columns.
    rows, df : float
        Rows behind the means, and degrees of freedom, for prior and data together.
    """

    matrix: NDArray[np.float64]
    scale: NDArray[np.float64]
    centre: NDArray[np.float64]
    rows: float
    df: float


def posterior(data: Any, options: Mapping[str, Any]) -> Wishart:
    """Return the posterior of means and precisions under the options of the score."""
    given = {name: options.get(name) for name in ("alpha_w", "nu", "scale")}
    return _posterior(numbers(data, "bge"), options.get("alpha_mu", 1.0), **given)[1]


def _posterior(
    observations: Observations,
    alpha_mu: float,
    alpha_w: float | None,
    nu: Sequence[float] | None,
    scale: Sequence[float] | float | None,
) -> tuple[GaussianScore, Wishart]:
    from scipy.special import gammaln

    n = observations.n
    if not alpha_mu > 0:
        raise OptionError(f"alpha_mu is a number above 0; given {alpha_mu}", code="out-of-range")
    df = n + alpha_mu + 1 if alpha_w is None else float(alpha_w)
    if not df > n + 1:
        raise OptionError(
            f"alpha_w is above the number of variables plus one, {n + 1}; given {alpha_w}", code="out-of-range"
        )
    moments = Moments.of(observations, None if scale is None else _scales(scale, n))
    n_rows = moments.n_rows
    prior_mean = moments.mean if nu is None else np.asarray(nu, dtype=float)
    if prior_mean.shape != (n,):
        raise OptionError(f"nu is one number a column; given {prior_mean.size} for {n}", code="wrong-length")
    t = alpha_mu * (df - n - 1) / (alpha_mu + 1)
    away = (prior_mean - moments.mean) / moments.scale
    matrix = t * np.eye(n) + moments.spread + n_rows * alpha_mu / (n_rows + alpha_mu) * np.outer(away, away)
    constant, slope = np.zeros(n + 1), np.zeros(n + 1)
    for size in range(1, n + 1):
        before, after = df - n + size, n_rows + df - n + size
        i = np.arange(1, size + 1)
        gammas = gammaln((after + 1 - i) / 2) - gammaln((before + 1 - i) / 2)
        shrink = size / 2 * math.log(alpha_mu / (n_rows + alpha_mu))
        constant[size] = shrink - size * n_rows / 2 * LOG_PI + gammas.sum() + before / 2 * size * math.log(t)
        slope[size] = -after / 2
    # Change of variables: the density of a scaled column is divided by the scale in each row.
    local = GaussianScore("bge", observations, matrix, constant, slope, -n_rows * np.log(moments.scale))
    centre = moments.mean + alpha_mu / (alpha_mu + n_rows) * (prior_mean - moments.mean)
    return local, Wishart(matrix, moments.scale, centre, alpha_mu + n_rows, df + n_rows)


def _scales(given: Sequence[float] | float, n: int) -> NDArray[np.float64]:
    scales = np.asarray(given, dtype=float)
    if scales.ndim and scales.shape != (n,):
        raise OptionError(f"scale is one number, or one a column; given {scales.size} for {n}", code="wrong-length")
    if not np.all((scales > 0) & np.isfinite(scales)):
        raise OptionError(f"scale is above 0 and finite; given {given}", code="out-of-range")
    return np.broadcast_to(scales, n).copy()
