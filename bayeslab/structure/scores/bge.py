r"""BGe: the log marginal likelihood of Gaussian networks under a normal-Wishart prior.

Equivalent structures score equally. For a set Y of l of the n variables and N rows

.. math:: p(d^Y) = \Big(\frac{\alpha_\mu}{N + \alpha_\mu}\Big)^{l/2}
   \frac{\Gamma_l((N + \alpha_w - n + l) / 2)}{\pi^{lN/2}\, \Gamma_l((\alpha_w - n + l) / 2)}
   \frac{|T_{YY}|^{(\alpha_w - n + l) / 2}}{|R_{YY}|^{(N + \alpha_w - n + l) / 2}},
   \quad R = T + S_N + \frac{N \alpha_\mu}{N + \alpha_\mu} (\nu - \bar x)(\nu - \bar x)^\top

and the local score is log p(d of the family) - log p(d of the parents). T = t I with
t = alpha_mu (alpha_w - n - 1) / (alpha_mu + 1). This is the expression of [2]_, which corrects that of [1]_.

The prior is in the units of the columns: where these differ, standardise the columns first.

References
----------
.. [1] Geiger, Heckerman (2002). Parameter priors for directed acyclic graphical models. Annals of Statistics 30,
   1412-1440.
.. [2] Kuipers, Moffa, Heckerman (2014). Addendum on the scoring of Gaussian directed acyclic graphical models.
   Annals of Statistics 42, 1689-1691.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.structure.scores._gaussian import GaussianScore, numbers, scatter

__all__ = ["score"]


def score(
    data: Any, *, alpha_mu: float = 1.0, alpha_w: float | None = None, nu: Sequence[float] | None = None
) -> GaussianScore:
    """BGe of a table of numbers.

    Parameters
    ----------
    data
        A table (:meth:`bayeslab.structure.data.Observations.of`).
    alpha_mu
        Imagined rows behind the prior mean.
    alpha_w
        Degrees of freedom of the Wishart distribution, more than n + 1; n + alpha_mu + 1 if left out.
    nu
        Prior mean of each column; the columns' means if left out.
    """
    from scipy.special import gammaln

    found = numbers(data, "bge")
    n = found.n
    if not alpha_mu > 0:
        raise OptionError(f"alpha_mu is a number above 0; given {alpha_mu}")
    df = n + alpha_mu + 1 if alpha_w is None else float(alpha_w)
    if not df > n + 1:
        raise OptionError(f"alpha_w is above the number of variables plus one, {n + 1}; given {alpha_w}")
    n_rows, mean, spread = scatter(found)
    prior_mean = mean if nu is None else np.asarray(nu, dtype=float)
    if prior_mean.shape != (n,):
        raise OptionError(f"nu is one number a column; given {prior_mean.size} for {n}")
    t = alpha_mu * (df - n - 1) / (alpha_mu + 1)
    away = prior_mean - mean
    matrix = t * np.eye(n) + spread + n_rows * alpha_mu / (n_rows + alpha_mu) * np.outer(away, away)
    constant, slope = np.zeros(n + 1), np.zeros(n + 1)
    for size in range(1, n + 1):
        before, after = df - n + size, n_rows + df - n + size
        i = np.arange(1, size + 1)
        gammas = gammaln((after + 1 - i) / 2) - gammaln((before + 1 - i) / 2)
        shrink = size / 2 * math.log(alpha_mu / (n_rows + alpha_mu))
        constant[size] = shrink - size * n_rows / 2 * math.log(math.pi) + gammas.sum() + before / 2 * size * math.log(t)
        slope[size] = -after / 2
    return GaussianScore("bge", found, matrix, constant, slope)
