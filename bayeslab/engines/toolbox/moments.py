"""Checks by importance weights whether means and sds of an approximation's draws are those of the posterior.

The weights move a mean by D posterior sds and an sd by a factor exp(L). Both are estimated from the same draws, so that
errors largely cancel: if the weights are equal, D and L are zero. Their standard errors are those of averages of
influence functions [1]_, with standardised draws z and weights w of mean one:

    D: z_q − w z_p,    L: ½ (z_q² − 1) − ½ w (z_p² − 1),

where z_q is standardised by the moments of the draws and z_p by the weighted moments. An approximation is rejected if
|D| or |L| exceeds the tolerance by more than a normal quantile times the standard error. For an approximation exactly
at the tolerance, this happens in one of a thousand fits, whatever the number of quantities (Bonferroni), and less often
for better ones.

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
from bayeslab.labelled import Group
from bayeslab.results.convergence import blocks
from bayeslab.results.verdict import Finding

__all__ = ["Moments", "moments", "moments_finding"]

# Tolerances: error of a mean in posterior sds, and of an sd as a factor.
_OFF, _FACTOR = 0.2, 1.1
# Share of fits reported for an approximation at the tolerance.
_FALSE_ALARMS = 1e-3
# Number of elements of a variable processed at a time.
_COLUMNS = 1000


@dataclass(frozen=True, eq=False)
class Moments:
    """Means and sds of quantities, unweighted and importance-weighted.

    Attributes
    ----------
    mean, sd, weighted_mean, weighted_sd : ndarray of shape (quantities,)
    excess : ndarray of shape (quantities,)
        The larger error of the mean and the sd, minus its Monte Carlo error, relative to the tolerance; above 1 the
        approximation is rejected.
    """

    mean: Array
    sd: Array
    weighted_mean: Array
    weighted_sd: Array
    excess: Array


def moments(draws: Array, weights: Array, n_quantities: int | None = None) -> Moments:
    """Moments of draws compared with importance-weighted moments.

    Parameters
    ----------
    draws
        Shape (draws, quantities).
    weights
        Shape (draws,), summing to one.
    n_quantities
        Total number of quantities that are checked; default: those of ``draws``.
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


def moments_finding(posterior: Group, weights: Array, otherwise: str = "compare with method nuts") -> list[Finding]:
    """The finding about the mean or sd that importance weights change most; none if all changes are tolerated.

    Parameters
    ----------
    posterior
        Draws of the approximation.
    weights
        Shape (draws,) over all chains, summing to one.
    otherwise
        Advice, to which "before relying on them" is added.
    """
    shown = [block for block in blocks(posterior) if not block.name.startswith("_") and block.values.dtype.kind == "f"]
    n_quantities = sum(block.size for block in shown)
    worst = Finding("pass", "moments", "", 1.0, "")
    for block in shown:
        values = block.values.reshape(len(weights), -1)
        for first in range(0, block.size, _COLUMNS):
            shifts = moments(values[:, first : first + _COLUMNS], weights, n_quantities)
            k = int(shifts.excess.argmax())
            if worst.value is not None and shifts.excess[k] > worst.value:
                text = (
                    f"mean {shifts.mean[k]:.3g} and sd {shifts.sd[k]:.3g}; by importance weights"
                    f" {shifts.weighted_mean[k]:.3g} and {shifts.weighted_sd[k]:.3g}"
                )
                advice = f"{otherwise} before relying on them"
                worst = Finding("warn", "moments", block.label(first + k), float(shifts.excess[k]), text, advice)
    return [worst] if worst.status == "warn" else []
