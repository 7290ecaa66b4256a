"""Are the means and sds of draws from an approximation those of the posterior? As importance weights have it.

The weights move a mean by D posterior sds and an sd by a factor exp(L). Both are estimated from the same draws, so that
errors largely cancel: where the weights are equal, D and L are zero. Their standard errors are those of averages of
influence functions [1]_, with z the standardised draws, and w weights of mean one:

    D: z_q − w z_p,    L: ½ (z_q² − 1) − ½ w (z_p² − 1),

z_q by the moments of the draws and z_p by the weighted ones. An approximation is off where |D| or |L| is beyond what is
tolerated by more than a normal quantile of errors. Of an approximation at that tolerance a thousandth of fits are
reported, however many quantities there are (Bonferroni), and of better ones fewer.

References
----------
.. [1] Owen (2013). Monte Carlo theory, methods and examples, section 9.2 (self-normalised importance sampling).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from bayeslab.engines.toolbox.target import Array

__all__ = ["Moments", "moments"]

# What is tolerated: a mean off by so many posterior sds, an sd off by such a factor.
_OFF, _FACTOR = 0.2, 1.1
# So many fits of an approximation just tolerated are reported.
_FALSE_ALARMS = 1e-3


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and sds of quantities, as the draws have them and by importance weights.

    Attributes
    ----------
    mean, sd, weighted_mean, weighted_sd : ndarray of shape (quantities,)
    excess : ndarray of shape (quantities,)
        How far off a mean or an sd is, whichever is worse, less its Monte Carlo error, over what is tolerated: above 1
        the approximation is off.
    """

    mean: Array
    sd: Array
    weighted_mean: Array
    weighted_sd: Array
    excess: Array


def moments(draws: Array, weights: Array, n_quantities: int | None = None) -> Moments:
    """Moments of draws, and whether importance weights say otherwise.

    Parameters
    ----------
    draws
        Shape (draws, quantities).
    weights
        Shape (draws,), adding up to one.
    n_quantities
        How many quantities are looked at in all; those of ``draws`` if left out.
    """
    n, q = draws.shape
    mean, sd, weighted_mean = draws.mean(axis=0), draws.std(axis=0), weights @ draws
    weighted_sd = np.sqrt(weights @ (draws - weighted_mean) ** 2)
    errors = -float(ndtri(_FALSE_ALARMS / (2 * (n_quantities or q))))
    w = n * weights[:, None]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        of_draws, of_weights = (draws - mean) / sd, (draws - weighted_mean) / weighted_sd
        shift, stretch = (mean - weighted_mean) / weighted_sd, np.log(sd / weighted_sd)
        shift_error = np.sqrt(np.mean((of_draws * sd / weighted_sd - w * of_weights) ** 2, axis=0) / n)
        stretch_error = 0.5 * np.sqrt(np.mean((of_draws**2 - 1 - w * (of_weights**2 - 1)) ** 2, axis=0) / n)
        excess = np.maximum(
            (np.abs(shift) - errors * shift_error) / _OFF,
            (np.abs(stretch) - errors * stretch_error) / math.log(_FACTOR),
        )
    return Moments(mean, sd, weighted_mean, weighted_sd, np.nan_to_num(excess, nan=0.0, posinf=0.0, neginf=0.0))
