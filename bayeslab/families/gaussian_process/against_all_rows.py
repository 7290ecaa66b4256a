"""Checks of an approximation against the exact process, with the covariance of all rows, if these are few enough.

Too few inducing points or basis functions change a fit in two ways. First, at the fitted hyperparameters the means and
standard deviations of the function and the log evidence differ from those of the exact process; the gap between the log
evidence and Titsias's bound is the divergence of the approximate from the true posterior of the function [1]_. Second,
the fitted hyperparameters may be wrong: an approximation that is too coarse explains the signal as noise, and there it
agrees with the exact process. The exact process then has a higher evidence elsewhere, which a search from the priors
finds.

References
----------
.. [1] Titsias (2009). Variational learning of inducing variables in sparse Gaussian processes. AISTATS 5, 567-574.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayeslab.families.gaussian_process import posterior_mode, predictions
from bayeslab.families.gaussian_process.approximations import INDUCING
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.latents.gaussian_process.gaussian_process import NotPositiveDefinite

__all__ = ["differences"]

type Draws = Mapping[str, np.ndarray]
type Remark = tuple[str, str, float | None, str, str]

# Largest numbers of rows for comparing draws, and for searching better hyperparameters.
_ROWS, _SEARCHED = 2_000, 500
# Number of draws compared (fewer with many rows), and number of rows at which each is compared.
_DRAWS, _FEW_DRAWS, _PLACES = 20, 4, 300
# Tolerances: nats of log evidence, error of the mean in standard deviations, ratio of standard deviations.
_NATS, _OFF, _FACTOR = 1.0, 0.25, 1.15
# Nats by which other hyperparameters must have more log evidence, and the number of searches for them.
_ELSEWHERE, _SEARCHES = 5.0, 2
# Lower bound of the function's standard deviation, as a share of the outcome's.
_LEAST = 0.01


@dataclass(frozen=True)
class _Comparison:
    """Comparison at one draw: log evidence of the exact process, the approximation's deficit, errors of the
    moments.
    """

    log_evidence: float
    gap: float
    shift: float
    factor: float


def differences(resolved: Resolved, draws: Draws) -> list[Remark]:
    """Report an approximation of normal outcomes that differs visibly from the exact process on all rows.

    Parameters
    ----------
    resolved
        The data, with an approximation by inducing points or sines.
    draws
        Posterior draws by name, shape (draws, ...).
    """
    if resolved.y is None or not resolved.gaussian or not resolved.dims or resolved.n > _ROWS:
        return []
    hidden = ("approximation", "inducing", "functions", "domain")
    whole = replace(resolved, spec=resolved.spec.model_copy(update=dict.fromkeys(hidden)))
    n_draws = len(draws[next(iter(resolved.dims))])
    most = _DRAWS if resolved.n <= 1_000 else _FEW_DRAWS
    some = np.unique(np.linspace(0, n_draws - 1, min(n_draws, most)).astype(int))
    try:
        comparisons = [_compared(resolved, whole, predictions.values_at(resolved, draws, int(i))) for i in some]
    except NotPositiveDefinite:  # the exact process needs noise or jitter
        return []
    gap, shift = float(np.mean([one.gap for one in comparisons])), float(np.mean([one.shift for one in comparisons]))
    factor = math.exp(float(np.mean([math.log(one.factor) for one in comparisons])))
    advice = _advice(resolved)
    if abs(gap) > _NATS or shift > _OFF or abs(math.log(factor)) > math.log(_FACTOR):
        text = (
            f"beside the covariance of all {resolved.n:,} rows, log evidence {-gap:+.2f}, means of the function off by"
            f" {shift:.2f} standard deviations, which are {factor:.2f} times those"
        )
        return [("approximation", str(resolved.spec.approximation), gap, text, advice)]
    best = _elsewhere(whole) if resolved.n <= _SEARCHED else None
    higher = -math.inf if best is None else best - max(one.log_evidence for one in comparisons)
    if higher > _ELSEWHERE:
        text = (
            f"the covariance of all {resolved.n:,} rows has hyperparameters with a log evidence {higher:.1f} higher"
            " than at any draw: the approximation cannot follow the data there"
        )
        return [("approximation", str(resolved.spec.approximation), higher, text, advice)]
    return []


def _compared(resolved: Resolved, whole: Resolved, values: dict[str, np.ndarray]) -> _Comparison:
    approximate, exact = predictions.function_at(resolved, values), predictions.function_at(whole, values)
    places = resolved.x[np.linspace(0, resolved.n - 1, min(resolved.n, _PLACES)).astype(int)]
    (mean, variance), (wanted, around) = approximate.predict(places), exact.predict(places)
    least = (_LEAST * float(np.std(resolved.y))) ** 2 or 1e-300  # type: ignore[arg-type]
    return _Comparison(
        exact.log_evidence,
        exact.log_evidence - approximate.log_evidence,
        math.sqrt(np.mean((mean - wanted) ** 2 / (around + least))),
        math.exp(0.5 * float(np.mean(np.log((variance + least) / (around + least))))),
    )


def _elsewhere(whole: Resolved) -> float | None:
    """The log evidence at the mode of the hyperparameters; None if the search fails."""
    mode = posterior_mode.optimum(whole, True, _SEARCHES, np.random.default_rng(0))
    try:
        return None if mode is None else float(predictions.function_at(whole, mode.values).log_evidence)
    except NotPositiveDefinite:
        return None


def _advice(resolved: Resolved) -> str:
    if resolved.spec.approximation == "hsgp":
        more = (
            f"fit with `functions: {2 * resolved.spec.functions}` or more"
            if resolved.spec.functions
            else "give `functions`"
        )
    else:
        more = f"fit with `inducing: {2 * (resolved.spec.inducing or INDUCING)}` or more"
    return f"{more}, or without approximation"
