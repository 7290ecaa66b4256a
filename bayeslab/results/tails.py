r"""What draws say of the tails: whether they were reached, and whether a mean of them settles.

**Reach.** A leapfrog step of length ε is stable only where the density's curvature is below 4/ε² [1]_, and ε is tuned
to the bulk. Where the density gets narrower towards a tail (a funnel's neck; the slope of a covariate that is measured
with error), steps are accepted less and less the farther a chain goes, and beyond some point not at all: the draws end
where steps become too long, not where the posterior does. Chains that all end there agree with each other, so that
R-hat has nothing to say. What shows it are the transitions that *begin* in the outermost draws: they are refused far
more often than others, and chains that get there stay. How many times as often is a matter of the tail's width beside
the bulk's more than of ε, since refusals fall with ε everywhere: the symptom does not go away with shorter steps before
the tail is reached and left freely. Either alone is harmless: a tail in which many steps are refused but which is left
and entered freely is sampled well, and slow chains are the business of R-hat and ESS.

Measured: 111 runs of 48 models (21 of posteriordb, 7 of BUGS, 4 of brms, whose answers agree with the references, and
shipped models that pass all other checks) had no such finding. The thresholds were chosen with most of these runs in
view, so the share of false alarms, below 3 % at 95 %, is an optimistic one. The nearest is a covariance of slopes whose
conditional sd is near zero: nine times as many refusals, visits of 2.4 draws, right to the lowest hundredth. All 20
runs of ``air`` (BUGS) have it, with target_accept 0.8, 0.95 and 0.99 (visits of 3.4 draws and more), and all of the
centred eight schools and of Neal's funnel with 0.8.

**Divergences** are the extreme of that. Spread like all draws they are trajectories that ended early, which keeps the
posterior invariant; concentrated in one tail they mark its end as the sampler's [2]_.

**Heavy tails.** The tail of a quantity is about a generalised Pareto distribution, whose shape k says how many moments
there are: all below 1/k. From k = 1/2 on the variance is infinite and the error of a mean falls more slowly than 1/√n;
above 0.7 it falls so slowly that no practical number of draws gives the mean [3]_. Quantiles have no such need.

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

from bayeslab.results import psis
from bayeslab.results.convergence import Array, Block, ess, in_batches, is_constant, quantile, split

__all__ = ["Edge", "concentrated", "heavy", "least_accepted", "tail_shapes"]

# The outermost draws whose transitions are looked at: one in a hundred, and so many at least.
_OUTER, _FEWEST = 0.01, 20
# Refusals there, as a multiple of those of all transitions, above which the tail is narrower than the rest (ours).
_REFUSED = 2.5
# Chains do not leave and enter the outermost twentieth freely where visits last so many draws on average, or where its
# draws are worth less than this share of all (both ours: visits last up to 2.5 draws in runs without other findings,
# 3.4 and more in wrong ones).
_VISIT, _WORTH = 3.0, 0.1
# Fewer draws have no tail to speak of, nor have fewer different values in it.
_MIN_DRAWS, _VALUES = 400, 20
# Outer parts of a tail that are looked at alone, of so many draws at least.
_PARTS, _FEWEST = (2, 4), 24
# Divergent draws concentrate where more than half of them begin in a tail that holds a twentieth of the others, which
# chance would give once in a thousand fits.
_TAIL, _HALF, _CHANCE = 0.05, 0.5, 1e-3


@dataclass(frozen=True)
class Edge:
    """A tail of one quantity.

    Attributes
    ----------
    number : int
        Of the quantity, in the order of the blocks.
    upper : bool
        Whether it is the upper tail.
    share : float
        Of steps accepted that begin there, or of divergent trajectories that do.
    everywhere : float
        The same share of all draws.
    worth : float
        How many independent draws those of the tail are worth, as a share of all draws.
    visit : float
        How many draws in a row a chain is in the tail, on average.
    """

    number: int
    upper: bool
    share: float
    everywhere: float
    worth: float
    visit: float

    @property
    def free(self) -> bool:
        """Whether chains leave and enter the tail freely."""
        return self.worth >= _WORTH and self.visit < _VISIT


def least_accepted(variables: Sequence[Block], acceptance: Array) -> Edge | None:
    """The tail in which steps are too long for the chains to go on, the worst if there are several.

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
    # Where hardly any steps are accepted refusals cannot be so many times as many.
    least = max(1 - _REFUSED * (1 - mean), mean / 2)
    accepted, worth, visit = np.hsplit(in_batches(variables, lambda x: _accepted(x, acceptance, outer, least)), 3)
    with np.errstate(invalid="ignore"):
        bad = (accepted < least) & ((worth < _WORTH) | (visit >= _VISIT))
    if not bad.any():
        return None
    where = np.unravel_index(int(np.argmin(np.where(bad, accepted, np.inf))), bad.shape)
    return Edge(int(where[0]), bool(where[1]), float(accepted[where]), mean, float(worth[where]), float(visit[where]))


def _accepted(draws: Array, acceptance: Array, outer: float, low: float) -> Array:
    """Acceptance of transitions from the lower and upper tails; where that is low, what their draws are worth and how
    long visits are (two columns each)."""
    out = np.full((len(draws), 6), np.nan)
    finite = np.isfinite(draws).all(axis=(1, 2)) & ~is_constant(draws)
    for upper in (0, 1):
        # The tail's draws are those at or below the quantile, of the draws turned round for the upper one.
        turned = -draws[finite] if upper else draws[finite]
        ordered = np.sort(turned.reshape(len(turned), -1), axis=1)
        inside = turned[:, :, :-1] <= quantile(ordered, outer)[:, None, None]
        accepted = (inside * acceptance[:, 1:]).sum(axis=(1, 2)) / np.maximum(inside.sum(axis=(1, 2)), 1)
        stay = np.full((len(turned), 2), np.nan)
        rows = np.flatnonzero(accepted < low)
        if rows.size:
            stay[rows] = stays(turned[rows])
        out[finite, upper::2] = np.column_stack((accepted, stay))
    return out


def concentrated(variables: Sequence[Block], diverging: NDArray[np.bool_]) -> Edge | None:
    """The tail in which divergent trajectories begin, if most of them begin in one.

    Parameters
    ----------
    variables
        Free parameters, on any scale.
    diverging
        Whether the transition that ended at each draw diverged, shape (chain, draw).
    """
    from scipy.stats import binom

    bad = diverging[:, 1:]
    n = int(bad.sum())
    # Where all diverge there is no rest to compare them with.
    if n < 3 or not variables or diverging.size < _MIN_DRAWS or n == bad.size:
        return None
    shares = in_batches(variables, lambda draws: _divergent(draws, bad))
    number, upper = np.unravel_index(int(np.nanargmax(shares)), shares.shape)
    share = float(shares[number, upper])
    chance = shares.size * float(binom.sf(round(share * n) - 1, n, _TAIL))
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
    """Of the lower twentieth of each quantity: the worth of its draws, and the mean length of a visit."""
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
    """Shapes of the tails that are too heavy for a mean, NaN where they are not.

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
        # A rare mode far out looks like a heavy tail until its outer part is looked at alone: there the mode
        # ends, and a heavy tail does not.
        for part in _PARTS if rows.size else ():
            steep[:, rows] &= ~(_side_shapes(draws[rows], part) < limit / 2)
        return np.where(steep.any(axis=0), np.fmax(*np.where(steep, sides, np.nan)), np.nan)


def tail_shapes(draws: Array) -> Array:
    """Shape k of the heavier tail of each quantity; NaN where there is none to fit, as of few values.

    Autocorrelated draws have longer tails fitted, as importance weights have: 3 √(n / r) of n draws that are worth r n.
    """
    return np.fmax(*_side_shapes(draws))


def _side_shapes(draws: Array, part: int = 1) -> Array:
    """Shapes of the upper and the lower tail, (2, quantity); of the outermost draws of each tail, one in ``part``."""
    flat = np.sort(draws.reshape(len(draws), -1), axis=1)
    n = flat.shape[1]
    out = np.full((2, len(draws)), np.nan)
    ready = np.flatnonzero(np.isfinite(flat).all(axis=1) & ~is_constant(draws))
    if n < _MIN_DRAWS or not ready.size:
        return out
    halves = split(draws[ready])
    with np.errstate(invalid="ignore"):  # of few different values, such as states, all may lie on one side
        inside = np.fmin(*(ess(halves <= quantile(flat[ready], p)[:, None, None]) for p in (_TAIL, 1 - _TAIL)))
    inside = np.clip(np.nan_to_num(inside, nan=n), 1, n)
    lengths = np.minimum(n // 5, np.ceil(3 * np.sqrt(n * n / inside))).astype(int)
    lengths = np.maximum(lengths // part, min(_FEWEST, n // 5))
    for length in np.unique(lengths):
        rows = ready[lengths == length]
        for side, ordered in enumerate((flat[rows], -flat[rows, ::-1])):
            excess = ordered[:, n - length :] - ordered[:, n - length - 1 : n - length]
            # The unit of a tail is its own: nothing overflows, and a scale changes nothing.
            size = excess[:, -1:]
            with np.errstate(all="ignore"):
                shape = psis.pareto_fit(np.where(size > 0, excess / size, 0.0))[0]
            # A few values, however often each, are no tail: their moments are finite.
            shape[(np.diff(excess, axis=1) > 0).sum(axis=1) < _VALUES] = np.nan
            out[side, rows] = shape
    return out
