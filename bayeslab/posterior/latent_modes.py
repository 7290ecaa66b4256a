"""Starts of Gibbs chains in every mode with substantial posterior mass.

Gibbs steps leave a mode only slowly. Chains that all start in the highest mode agree, whatever other modes exist, and
R-hat detects modes only if chains start in them [1]_. A lower but broader mode may have more mass. So EM searches from
different points look for modes. If they end in several, a short chain from each estimates the mode's mass from the
height and the width of its draws.

References
----------
.. [1] Gelman, Rubin (1992). Inference from iterative simulation using multiple sequences. Statistical Science 7(4),
   457-472: section 2.1, on overdispersed starts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from bayeslab.constants import LOG_2PI
from bayeslab.errors import BayeslabError
from bayeslab.posterior.answer import Note
from bayeslab.posterior.bijectors import BIJECTORS
from bayeslab.posterior.latent_gibbs import LatentSampler
from bayeslab.posterior.latent_problem import LatentProblem
from bayeslab.streams import place_among_spawned

__all__ = ["FULL", "ModeStarts", "log_mass", "unconstrained"]

type Values = Mapping[str, Any]

# The number of searches, within bounds, follows from this count of rows times states processed per step.
_NUMBERS, _LEAST, _MOST = 400_000, 4, 12
# Maximum number of short chains, their sweeps, and the sweeps that are used.
_PILOTS, _SWEEPS, _KEPT = 6, 150, 100
# Ends closer than this in log posterior are the same; ends farther below the best have negligible mass.
_SAME, _NEGLIGIBLE = 0.1, 20.0
# Relative tolerance for ends of equal height to be the same; distance in sds for draws of two modes to be separate.
_NEAR, _APART = 0.05, 3.0
# A mode counts if its mass is at least this share of the largest.
_SHARE = 0.03
# A mode is under-represented if the draws have less than this part of its share; from this share on it is a failure.
_SELDOM, _FAIL = 0.1, 0.1
# Minimum number of draws per coordinate for a covariance.
FULL = 5
_TINY = 1e-300


@dataclass(frozen=True, eq=False)
class _Mode:
    """The end of a search, with a short chain's estimate of the mode."""

    values: Values
    log_mass: float = 0.0
    mean: np.ndarray = field(default_factory=lambda: np.zeros(0))
    sd: np.ndarray = field(default_factory=lambda: np.zeros(0))

    def apart(self, other: _Mode) -> bool:
        """Whether the draws of two modes are separate along some coordinate."""
        if self.mean.size != other.mean.size:
            return True
        gap = np.abs(self.mean - other.mean) / np.hypot(self.sd, other.sd)
        return bool(gap.max(initial=0.0) > _APART)

    def distance(self, x: np.ndarray) -> np.ndarray:
        """Minus the log density of a normal around the mode at points (n, d), up to a constant."""
        return np.asarray(0.5 * (((x - self.mean) / self.sd) ** 2).sum(axis=1) + np.log(self.sd).sum())


@dataclass(eq=False)
class ModeStarts:
    """The starting point of each chain; called with the chain's generator, from which its number is known.

    The modes depend only on the problem, not on the seed of a run.

    Attributes
    ----------
    problem : LatentProblem
        The problem, with priors.
    search : callable
        Maps k and a generator to the end of the k-th search; it may fail.
    exchangeable : bool
        Whether states are exchangeable: modes of equal height are then relabellings of one mode.
    """

    problem: LatentProblem
    search: Callable[[int, np.random.Generator], Values]
    exchangeable: bool = False
    _lock: Any = field(default_factory=threading.Lock)

    def __call__(self, rng: np.random.Generator) -> Values:
        with self._lock:  # chains start in parallel
            modes = self.modes
        return modes[place_among_spawned(rng) % len(modes)].values

    @cached_property
    def modes(self) -> list[_Mode]:
        """Modes with substantial posterior mass, largest first."""
        ends: list[tuple[float, Values]] = []
        size = max(self.problem.rows.size * self.problem.latent.n_states, 1)
        failed: BayeslabError | None = None
        rng = np.random.default_rng(0)
        for k, source in enumerate(rng.spawn(int(np.clip(_NUMBERS // size, _LEAST, _MOST)))):
            try:
                values = self.search(k, source)
            except BayeslabError as error:
                failed = error
                continue
            height = self.problem.expect(values)[0] + self.problem.log_prior(values)
            if not any(abs(height - other) < _SAME and self._same(values, known) for other, known in ends):
                ends.append((height, values))
        if not ends:
            assert failed is not None
            raise failed
        ends.sort(key=lambda end: -end[0])
        near = [values for height, values in ends if not height < ends[0][0] - _NEGLIGIBLE][:_PILOTS]
        if len(near) < 2:
            return [_Mode(near[0])]
        explored = [self._explored(*each) for each in zip(near, rng.spawn(len(near)), strict=True)]
        explored.sort(key=lambda mode: -mode.log_mass)
        apart: list[_Mode] = []
        for mode in explored:
            if mode.log_mass > explored[0].log_mass + np.log(_SHARE) and all(mode.apart(other) for other in apart):
                apart.append(mode)
        return apart

    def _same(self, one: Values, other: Values) -> bool:
        """Whether two ends of equal height are the same mode."""
        if self.exchangeable:
            return True
        names = self.problem.kinds()
        return all(np.allclose(one[name], other[name], rtol=_NEAR, atol=_NEAR * np.ptp(one[name])) for name in names)

    def _explored(self, start: Values, rng: np.random.Generator) -> _Mode:
        """A mode with its posterior mass, estimated by a short chain."""
        sampler = LatentSampler(self.problem, lambda _: start)
        state: Values = start
        points: list[Values] = []
        heights: list[float] = []
        for _ in range(_SWEEPS):
            points.append(state)
            following, kept = sampler.step(rng, dict(state))
            heights.append(float(kept["log_likelihood"]) + self.problem.log_prior(state))
            state = following
        stacked = {name: np.stack([point[name] for point in points[-_KEPT:]]) for name in self.problem.kinds()}
        x, log_jacobian = unconstrained(stacked, self.problem.kinds())
        mass = log_mass(x, np.array(heights[-_KEPT:]) + log_jacobian)
        return _Mode(start, mass, x.mean(axis=0), np.maximum(x.std(axis=0), 1e-6))

    def unseen(self, draws: Mapping[str, np.ndarray]) -> tuple[Note, ...]:
        """Notes about modes that the chains hardly visited.

        Parameters
        ----------
        draws
            Parameters of all chains by name, (n, ...).
        """
        if len(self.modes) < 2:
            return ()
        x = unconstrained({name: draws[name] for name in self.problem.kinds()}, self.problem.kinds())[0]
        if any(mode.mean.size != x.shape[1] for mode in self.modes):  # the modes have other structural zeros
            return ()
        nearest = np.argmin([mode.distance(x) for mode in self.modes], axis=0)
        masses = np.exp([mode.log_mass - self.modes[0].log_mass for mode in self.modes])
        shares, visited = masses / masses.sum(), np.bincount(nearest, minlength=len(self.modes)) / len(x)
        k = int(np.argmax(shares * (visited < _SELDOM * shares)))
        if visited[k] >= _SELDOM * shares[k]:
            return ()
        text = (
            f"a mode with about {shares[k]:.0%} of the posterior has {visited[k]:.1%} of the draws: the steps do not"
            " pass between modes often enough"
        )
        advice = "run many more draws and chains, take method nuts or exact, or say in the priors which mode is meant"
        return (Note("fail" if shares[k] > _FAIL else "warn", "modes", text, advice),)


def log_mass(points: np.ndarray, heights: np.ndarray, *, full: bool | None = None) -> float:
    """Log of the mass of a mode from draws (n, d) in it, up to a constant, by a normal approximation.

    Parameters
    ----------
    heights
        Log densities of the draws, (n,).
    full
        Whether to use the full covariance, which needs enough draws; None: if there are enough.
    """
    n, d = points.shape
    mean = points.mean(axis=0)
    sd = np.maximum(points.std(axis=0), 1e-12 * (1.0 + np.abs(mean)))
    volume = float(np.log(sd).sum())
    if d and (n >= FULL * d if full is None else full):
        volume += 0.5 * float(np.linalg.slogdet(np.cov(points.T / sd[:, None]).reshape(d, d))[1])
    return float(heights.mean()) + 0.5 * d * (1.0 + LOG_2PI) + volume


def unconstrained(draws: Mapping[str, np.ndarray], kinds: Mapping[str, str]) -> tuple[np.ndarray, np.ndarray]:
    """Draws in unconstrained coordinates (n, d), and the log Jacobian of the inverse map at each draw (n,).

    Parameters
    ----------
    draws
        Parameters by name, (n, ...).
    kinds
        The support of each parameter: see :mod:`bayeslab.posterior.bijectors`.
    """
    n = len(next(iter(draws.values())))
    parts: list[np.ndarray] = []
    log_jacobian = np.zeros(n)
    for name, kind in kinds.items():
        values = np.asarray(draws[name], float)
        x, more = (_simplex if kind == "simplex" else _matrix if kind == "matrix" else _each)(values, kind)
        parts.append(x.reshape(n, -1))
        log_jacobian = log_jacobian + more.reshape(n, -1).sum(axis=1)
    return np.concatenate(parts, axis=1), log_jacobian


def _each(values: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Elementwise coordinates."""
    to_real, from_real = BIJECTORS[kind]
    x = to_real(values)
    if kind == "real":
        return x, np.zeros_like(x)
    if kind == "positive":
        return x, x
    step = 1e-5 * np.maximum(1.0, np.abs(x))
    return x, np.log(np.maximum(np.abs(from_real(x + step) - from_real(x - step)) / (2 * step), _TINY))


def _simplex(values: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """Log ratios to the last probability of each row that is not structurally zero."""
    logs = BIJECTORS[kind].to_real(values).reshape(len(values), -1, values.shape[-1])
    there = (values.reshape(logs.shape) > 0).any(axis=0)
    rows = [logs[:, r, there[r]] for r in range(logs.shape[1])]
    return np.concatenate([row[:, :-1] - row[:, -1:] for row in rows], axis=1), np.concatenate(
        [row for row in rows if row.shape[1] > 1] or [np.zeros((len(values), 1))], axis=1
    )


def _matrix(values: np.ndarray, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """The lower triangle of Cholesky factors, with logarithms along the diagonal."""
    d = values.shape[-1]
    lower = BIJECTORS[kind].to_real(values)
    logs = np.diagonal(lower, axis1=-2, axis2=-1)
    return lower[..., *np.tril_indices(d)], logs * (d + 1 - np.arange(d)) + np.log(2.0)
