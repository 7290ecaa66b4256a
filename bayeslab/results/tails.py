r"""Diagnostics of the tails: whether the draws reached them, and whether the mean of a quantity can be estimated.

**Reach.** A leapfrog step of length ε is stable only where the density's curvature is below 4/ε² [1]_, and ε is tuned
to the bulk. Where the density becomes narrower towards a tail (a funnel's neck; the slope of a covariate with
measurement error), the acceptance rate falls the farther a chain goes, and beyond some point it is zero: the draws end
where steps become too long, not where the posterior ends. All chains end there, so they agree and R-hat detects
nothing. The symptom is in the transitions that *begin* at the outermost draws: they are rejected far more often than
others, and chains that arrive there stay. The ratio of rejection rates depends more on the width of the tail relative
to the bulk than on ε, since rejections fall with ε everywhere. So the symptom persists with shorter steps until chains
enter and leave the tail freely. Each sign alone is harmless: a tail with many rejections that is entered and left
freely is sampled well, and slow chains are detected by R-hat and ESS.

Validation: 111 runs of 48 models (21 of posteriordb, 7 of BUGS, 4 of brms, whose answers agree with the references, and
shipped models that pass all other checks) had no such finding. The thresholds were chosen with most of these runs
known, so the upper 95 % bound of 3 % on the rate of false alarms is optimistic. The closest case is a covariance of
slopes whose conditional sd is near zero: nine times as many rejections, visits of 2.4 draws, and draws that are correct
down to the lowest hundredth. All 20 runs of ``air`` (BUGS) have the finding, with target_accept 0.8, 0.95 and 0.99
(visits of 3.4 draws and more), as have all runs of the centred eight schools and of Neal's funnel with 0.8.

**Divergences** are the extreme case. If they are spread like all draws, they are trajectories that ended early, which
leaves the posterior invariant; if they are concentrated in one tail, the sampler does not go beyond that point [2]_.

**Heavy tails.** The tail of a quantity is approximately a generalised Pareto distribution with shape k, whose moments
of order below 1/k are finite. From k = 1/2 on the variance is infinite and the error of a mean falls more slowly than
1/√n; above 0.7 no practical number of draws gives a usable mean [3]_. Quantiles are not affected.

References
----------
.. [1] Leimkuhler, Reich (2004). Simulating Hamiltonian Dynamics. Cambridge University Press, section 2.6.
.. [2] Betancourt (2017). A conceptual introduction to Hamiltonian Monte Carlo. arXiv:1701.02434, section 5.4.
.. [3] Vehtari, Simpson, Gelman, Yao, Gabry (2024). Pareto smoothed importance sampling. Journal of Machine Learning
   Research 25(72), section 3.2.4. arXiv:1507.02646
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayeslab import special
from bayeslab.results import psis
from bayeslab.results.convergence import Array, Block, ess, in_batches, is_constant, quantile, split

__all__ = ["Edge", "concentrated", "heavy", "least_accepted", "rejecting", "stays", "tail_shapes"]

# Share of outermost draws whose transitions are examined, and their minimum number.
_OUTER, _FEWEST = 0.01, 20
# A tail is narrower than the rest if its rejection rate exceeds this multiple of the overall rate (ours).
_REFUSED = 2.5
# From this multiple on it is examined further.
_RATHER = 1.5
# Chains do not enter and leave the outermost twentieth freely if visits last this many draws on average, or if the
# effective sample size of its draws is below this share of all draws (both ours: visits last up to 2.5 draws in runs
# without other findings, 3.4 and more in wrong ones).
_VISIT, _WORTH = 3.0, 0.1
# Minimum number of draws for a tail, and of distinct values in it.
_MIN_DRAWS, _VALUES = 400, 20
# Outer parts of a tail that are examined separately, and their minimum number of draws.
_PARTS, _FEWEST = (2, 4), 24
# Divergences are concentrated if more than half of them begin in a tail with a twentieth of the other draws, which
# happens by chance once in a thousand fits.
_TAIL, _HALF, _CHANCE = 0.05, 0.5, 1e-3


@dataclass(frozen=True)
class Edge:
    """A tail of one quantity.

    Attributes
    ----------
    number : int
        Index of the quantity, in the order of the blocks.
    upper : bool
        Whether it is the upper tail.
    share : float
        Acceptance rate of steps that begin in the tail, or share of the divergent trajectories that do.
    everywhere : float
        The same quantity for all draws.
    worth : float
        Effective sample size of the tail's draws, as a share of all draws.
    visit : float
        Average number of consecutive draws that a chain stays in the tail.
    """

    number: int
    upper: bool
    share: float
    everywhere: float
    worth: float
    visit: float

    @property
    def free(self) -> bool:
        """Whether chains enter and leave the tail freely."""
        return self.worth >= _WORTH and self.visit < _VISIT


def least_accepted(variables: Sequence[Block], acceptance: Array) -> Edge | None:
    """The tail in which steps are too long for the chains to move, the worst if there are several.

    Parameters
    ----------
    variables
        Free parameters, on any scale.
    acceptance
        Mean acceptance of the transition that ended at each draw, shape (chain, draw).
    """
    n = acceptance.size
    if n < _MIN_DRAWS or not variables or not np.isfinite(acceptance).all():
        return None
    outer = max(_OUTER, _FEWEST / n)
    mean = float(acceptance.mean())
    # If hardly any steps are accepted anywhere, rejections cannot be many times as frequent in a tail.
    least = max(1 - _REFUSED * (1 - mean), mean / 2)
    accepted, worth, visit = np.hsplit(in_batches(variables, lambda x: _accepted(x, acceptance, outer, least)), 3)
    with np.errstate(invalid="ignore"):
        bad = (accepted < least) & ((worth < _WORTH) | (visit >= _VISIT))
    if not bad.any():
        return None
    where = np.unravel_index(int(np.argmin(np.where(bad, accepted, np.inf))), bad.shape)
    return Edge(int(where[0]), bool(where[1]), float(accepted[where]), mean, float(worth[where]), float(visit[where]))


def rejecting(draws: Array, acceptance: Array, most: int) -> list[tuple[int, bool]]:
    """Tails in which steps are rejected more often than elsewhere: number of the quantity, and whether it is the upper.

    Parameters
    ----------
    draws
        Shape (quantity, chain, draw).
    acceptance
        Mean acceptance of the transition that ended at each draw, shape (chain, draw).
    most
        Maximum number of tails; those with the most rejections come first.
    """
    n, mean = acceptance.size, float(acceptance.mean())
    if n < _MIN_DRAWS or not 0 < mean < 1:
        return []
    accepted = _accepted(draws, acceptance, max(_OUTER, _FEWEST / n), -np.inf)[:, :2]
    often = np.nan_to_num((1 - accepted) / (1 - mean)).ravel()
    order = np.argsort(-often, kind="stable")[:most]
    return [(int(k) // 2, bool(k % 2)) for k in order if often[k] >= _RATHER]


def _accepted(draws: Array, acceptance: Array, outer: float, low: float) -> Array:
    """Acceptance of transitions from the lower and upper tails; where it is low, also the worth of their draws and the
    mean length of visits (two columns each)."""
    out = np.full((len(draws), 6), np.nan)
    finite = np.isfinite(draws).all(axis=(1, 2)) & ~is_constant(draws)
    # The draws of a tail are those at or below the quantile; for the upper tail, of the negated draws.
    limits = _outermost(draws[finite].reshape(int(finite.sum()), -1), outer)
    for upper in (0, 1):
        turned = -draws[finite] if upper else draws[finite]
        inside = turned[:, :, :-1] <= limits[upper][:, None, None]
        accepted = (inside * acceptance[:, 1:]).sum(axis=(1, 2)) / np.maximum(inside.sum(axis=(1, 2)), 1)
        stay = np.full((len(turned), 2), np.nan)
        rows = np.flatnonzero(accepted < low)
        if rows.size:
            stay[rows] = stays(turned[rows])
        out[finite, upper::2] = np.column_stack((accepted, stay))
    return out


def _outermost(rows: Array, p: float) -> tuple[Array, Array]:
    """The p-quantiles of each row and of its negated values, as :func:`quantile` has them, without a full sort."""
    n = rows.shape[1]
    place = p * (n - 1)
    low = int(place)
    high = min(low + 1, n - 1)
    some = np.partition(rows, sorted({low, high, n - 1 - high, n - 1 - low}), axis=1)
    lower = some[:, low] + (some[:, high] - some[:, low]) * (place - low)
    below, above = -some[:, n - 1 - low], -some[:, n - 1 - high]
    return lower, below + (above - below) * (place - low)


def concentrated(variables: Sequence[Block], diverging: NDArray[np.bool_]) -> Edge | None:
    """The tail in which divergent trajectories begin, if most of them begin in one.

    Parameters
    ----------
    variables
        Free parameters, on any scale.
    diverging
        Whether the transition that ended at each draw diverged, shape (chain, draw).
    """
    bad = diverging[:, 1:]
    n = int(bad.sum())
    # If all transitions diverge, there are no others to compare them with.
    if n < 3 or not variables or diverging.size < _MIN_DRAWS or n == bad.size:
        return None
    shares = in_batches(variables, lambda draws: _divergent(draws, bad))
    number, upper = np.unravel_index(int(np.nanargmax(shares)), shares.shape)
    share = float(shares[number, upper])
    chance = shares.size * float(special.bdtrc(round(share * n) - 1, n, _TAIL))
    if share < _HALF or chance >= _CHANCE:
        return None
    one = _one(variables, int(number))
    worth, visit = stays(-one if upper else one)[0]
    return Edge(int(number), bool(upper), share, n / bad.size, float(worth), float(visit))


def _one(variables: Sequence[Block], number: int) -> Array:
    """Draws of one quantity, shape (1, chain, draw)."""
    for block in variables:
        if number < block.size:
            return np.asarray(block.values.reshape(*block.values.shape[:2], -1)[None, :, :, number], dtype=np.float64)
        number -= block.size
    raise IndexError(number)


def stays(draws: Array) -> Array:
    """For the lower twentieth of each quantity, the worth of its draws and the mean length of a visit."""
    ordered = np.sort(draws.reshape(len(draws), -1), axis=1)
    limit = quantile(ordered, _TAIL)[:, None, None]
    inside = draws <= limit
    visits = inside[:, :, 0].sum(axis=1) + (inside[:, :, 1:] & ~inside[:, :, :-1]).sum(axis=(1, 2))
    worth = ess(split(draws) <= limit) / draws[0].size
    return np.column_stack((worth, inside.sum(axis=(1, 2)) / np.maximum(visits, 1)))


def _divergent(draws: Array, bad: NDArray[np.bool_]) -> Array:
    """Shares of divergent trajectories that begin in the lower and the upper twentieth of the other draws."""
    begin = draws[:, :, :-1]
    ordered = np.sort(begin[:, ~bad], axis=1)
    low, high = quantile(ordered, _TAIL), quantile(ordered, 1 - _TAIL)
    ends = begin[:, bad]
    varies = ordered[:, -1] > ordered[:, 0]
    both = np.column_stack([(ends < low[:, None]).mean(axis=1), (ends > high[:, None]).mean(axis=1)])
    return np.where(varies[:, None], both, 0.0)


def heavy(draws: Array) -> Array:
    """Shapes k of tails that are too heavy for a mean, NaN for other quantities.

    Parameters
    ----------
    draws
        Shape (quantity, chain, draw).

    Returns
    -------
    ndarray
        The shape k of the heavier tail of each quantity where it is above :func:`psis.good_k`.
    """
    sides = _side_shapes(draws)
    limit = psis.good_k(draws.shape[1] * draws.shape[2])
    with np.errstate(invalid="ignore"):
        steep = sides > limit
        rows = np.flatnonzero(steep.any(axis=0))
        # A rare distant mode looks like a heavy tail, unless its outer part is examined alone: there the mode
        # ends, and a heavy tail does not.
        for part in _PARTS if rows.size else ():
            steep[:, rows] &= ~(_side_shapes(draws[rows], part) < limit / 2)
        return np.where(steep.any(axis=0), np.fmax(*np.where(steep, sides, np.nan)), np.nan)


def tail_shapes(draws: Array) -> Array:
    """Shape k of the heavier tail of each quantity; NaN if there is no tail to fit, as with few distinct values.

    As for importance weights, autocorrelated draws have longer tails: 3 √(n / r) draws, for n draws with an effective
    sample size of r n.
    """
    return np.fmax(*_side_shapes(draws))


def _side_shapes(draws: Array, part: int = 1) -> Array:
    """Shapes of the upper and the lower tail, (2, quantity), from the outermost 1/``part`` of each tail's draws."""
    flat = np.sort(draws.reshape(len(draws), -1), axis=1)
    n = flat.shape[1]
    out = np.full((2, len(draws)), np.nan)
    ready = np.flatnonzero(np.isfinite(flat).all(axis=1) & ~is_constant(draws))
    if n < _MIN_DRAWS or not ready.size:
        return out
    halves = split(draws[ready])
    with np.errstate(invalid="ignore"):  # with few distinct values, such as states, all may lie on one side
        inside = np.fmin(*(ess(halves <= quantile(flat[ready], p)[:, None, None]) for p in (_TAIL, 1 - _TAIL)))
    inside = np.clip(np.nan_to_num(inside, nan=n), 1, n)
    lengths = np.minimum(n // 5, np.ceil(3 * np.sqrt(n * n / inside))).astype(int)
    lengths = np.maximum(lengths // part, min(_FEWEST, n // 5))
    for length in np.unique(lengths):
        rows = ready[lengths == length]
        for side, ordered in enumerate((flat[rows], -flat[rows, ::-1])):
            excess = ordered[:, n - length :] - ordered[:, n - length - 1 : n - length]
            # Each tail is scaled by its size, so nothing overflows and the result is scale-invariant.
            size = excess[:, -1:]
            with np.errstate(all="ignore"):
                shape = psis.pareto_fit(np.where(size > 0, excess / size, 0.0))[0]
            # A few distinct values, however frequent, are not a tail: their moments are finite.
            shape[(np.diff(excess, axis=1) > 0).sum(axis=1) < _VALUES] = np.nan
            out[side, rows] = shape
    return out
