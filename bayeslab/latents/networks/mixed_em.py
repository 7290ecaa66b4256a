"""EM for conditional linear-Gaussian nets with missing cells and hidden variables.

The E-step is in `mixed_statistics`; the M-step is maximum likelihood from expected statistics. A normal mixture is the
net C -> X with C never observed. A normal that collapses on a single row would have an infinite likelihood; therefore
no sd may fall below a small share of its column's sd. The M-step is the maximum under this bound, so the likelihood
never falls.

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm.
   JRSS B 39, 1-38.
.. [2] Lauritzen (1995). The EM algorithm for graphical association models with missing data.
   Computational Statistics & Data Analysis 19, 191-201.
.. [3] Hathaway (1985). A constrained formulation of maximum-likelihood estimation for normal mixture
   distributions. Annals of Statistics 13, 795-800 (why a bound).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.latents.networks.mixed_learning import check_data, maximum_likelihood
from bayeslab.latents.networks.mixed_network import LinearGaussian, MixedNetwork
from bayeslab.latents.networks.mixed_statistics import Plan, Statistics

__all__ = ["EMFit", "MixedProblem", "Options", "em", "random_start", "restarts"]

# Directions with eigenvalues of E[x x'] below this share of the largest are undetermined.
_RANK = 1e-12
# Probabilities are raised to at least this before logarithms.
_TINY = 1e-300


@dataclass(frozen=True)
class Options:
    """Options of EM, and the prior of a posterior mode.

    Attributes
    ----------
    table_count : float
        Added to each expected count: gives the mode under Dirichlet(1 + table_count) priors of rows.
    noise_count, noise_share : float
        Number of added rows, and their variance as a share of the column's: gives the mode under an inverse-gamma
        prior of σ² (in units of the column's variance) with shape noise_count / 2 - 1 and scale noise_count *
        noise_share / 2.
    floor : float
        Smallest sd, as a share of the sd of the column (1 for a column that is never observed).
    max_iterations : int
    tolerance : float
        Stop when the gain of the log posterior per row is less.
    """

    table_count: float = 0.0
    noise_count: float = 0.0
    noise_share: float = 0.1
    floor: float = 1e-3
    max_iterations: int = 1000
    tolerance: float = 1e-9

    def __post_init__(self) -> None:
        for name in ("table_count", "noise_count", "noise_share", "tolerance"):
            if not getattr(self, name) >= 0:
                raise OptionError(f"{name} must not be negative, not {getattr(self, name)}", code="out-of-range")
        if not self.floor > 0:
            raise OptionError(
                f"floor must be positive, not {self.floor}: without it a normal can collapse on one row",
                code="out-of-range",
            )
        if self.max_iterations < 1:
            raise OptionError(f"max_iterations must be at least 1, not {self.max_iterations}", code="out-of-range")


@dataclass(frozen=True, eq=False)
class EMFit:
    """The result of EM.

    Attributes
    ----------
    network : MixedNetwork
    log_likelihood : ndarray
        Log likelihood of the data at the start and after each iteration.
    log_posterior : ndarray
        The same plus the log prior, up to a constant, which never falls.
    converged : bool
    """

    network: MixedNetwork
    log_likelihood: np.ndarray
    log_posterior: np.ndarray
    converged: bool

    @property
    def n_iterations(self) -> int:
        return len(self.log_likelihood) - 1


def em(network: MixedNetwork, codes: np.ndarray, values: np.ndarray, options: Options = Options()) -> EMFit:
    """A local maximum of the likelihood or posterior density, starting from the parameters of ``network``.

    Parameters
    ----------
    network : MixedNetwork
        Structure and start. States of a hidden variable that start equal stay equal: see `random_start`.
    codes, values : ndarray
        Rows; -1 and NaN are missing cells.
    options : Options

    Raises
    ------
    DataError, EngineRefusal
        As `mixed_statistics.expected_statistics`.
    """
    codes, values = check_data(network, codes, values)
    shift, scale = _units(values)
    # Checked before the bound is applied, so that an sd of zero is refused.
    plan = Plan.of(network, codes, (values - shift) / scale)
    now = _bounded(_rescaled(network, shift, scale), options.floor)
    jacobian = float(((~np.isnan(values)).sum(axis=0) * np.log(scale)).sum())
    likelihood, posterior, converged = [], [], False
    for iteration in range(options.max_iterations + 1):
        statistics = plan.expect(now)
        likelihood.append(float(statistics.log_density.sum()) - jacobian)
        posterior.append(likelihood[-1] + _log_prior(now, options))
        converged = iteration > 0 and posterior[-1] - posterior[-2] <= options.tolerance * len(codes)
        if converged or iteration == options.max_iterations:
            break
        now = _maximise(now, statistics, options)
    fitted = _rescaled(now, -shift / scale, 1 / scale)
    return EMFit(fitted, np.array(likelihood), np.array(posterior), converged)


def restarts(
    network: MixedNetwork,
    codes: np.ndarray,
    values: np.ndarray,
    rng: np.random.Generator,
    n: int,
    options: Options = Options(),
) -> EMFit:
    """The best result of n runs from random starts."""
    fits = [em(random_start(network, codes, values, rng), codes, values, options) for _ in range(n)]
    return max(fits, key=lambda fit: fit.log_posterior[-1])


def random_start(
    network: MixedNetwork, codes: np.ndarray, values: np.ndarray, rng: np.random.Generator
) -> MixedNetwork:
    """A random start with different parameters for the states of hidden variables.

    Missing cells are filled at random, and the net is fitted to the complete data. Then tables that involve missing
    cells are mixed with random rows, and intercepts that depend on them are moved by about the sd of their column.
    """
    codes, values = check_data(network, codes, values)
    missing = {v: bool(np.any(codes[:, k] < 0)) for k, v in enumerate(network.states)}
    filled, known = codes.copy(), values.copy()
    shift, scale = _units(values)
    for k, labels in enumerate(network.states.values()):
        gaps = codes[:, k] < 0
        filled[gaps, k] = rng.integers(len(labels), size=gaps.sum())
    for k in range(values.shape[1]):
        gaps = np.isnan(values[:, k])
        known[gaps, k] = shift[k] + scale[k] * rng.standard_normal(gaps.sum())
    start = maximum_likelihood(network, filled, known)
    tables, continuous = dict(start.tables), dict(start.continuous)
    for v, table in start.tables.items():
        if any(missing[u] for u in (*network.parents[v], v)):
            tables[v] = 0.5 * table + 0.5 * rng.dirichlet(np.ones(table.shape[-1]), size=table.shape[:-1])
        else:
            tables[v] = 0.99 * table + 0.01 / table.shape[-1]
    for k, (v, node) in enumerate(start.continuous.items()):
        hidden = any(missing[u] for u in network.discrete_parents(v))
        moved = node.intercept + hidden * scale[k] * rng.standard_normal(node.intercept.shape)
        continuous[v] = replace(node, intercept=moved, sd=np.maximum(node.sd, 0.1 * scale[k]))
    return replace(start, tables=tables, continuous=continuous)


# ------------------------------------------------------------------------------------------- units


def _units(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and sd of each column's observed cells; 0 and 1 for columns without any, or without spread."""
    observed = ~np.isnan(values)
    n = np.maximum(observed.sum(axis=0), 1)
    shift = np.where(observed, values, 0.0).sum(axis=0) / n
    scale = np.sqrt((np.where(observed, values - shift, 0.0) ** 2).sum(axis=0) / n)
    return shift, np.where(scale > 0, scale, 1.0)


def _rescaled(network: MixedNetwork, shift: np.ndarray, scale: np.ndarray) -> MixedNetwork:
    """The same net for (x - shift) / scale."""
    place = {v: k for k, v in enumerate(network.continuous)}
    out = {}
    for v, node in network.continuous.items():
        column, above = place[v], [place[p] for p in network.continuous_parents(v)]
        intercept = (node.intercept + node.slopes @ shift[above] - shift[column]) / scale[column]
        out[v] = LinearGaussian(
            node.parents, intercept, node.slopes * scale[above] / scale[column], node.sd / scale[column]
        )
    return replace(network, continuous=out)


def _bounded(network: MixedNetwork, floor: float) -> MixedNetwork:
    nodes = {v: replace(node, sd=np.maximum(node.sd, floor)) for v, node in network.continuous.items()}
    return replace(network, continuous=nodes)


# ------------------------------------------------------------------------------------------ M-step


def _log_prior(network: MixedNetwork, options: Options) -> float:
    out = 0.0
    if options.table_count > 0:
        with np.errstate(divide="ignore"):
            out += options.table_count * sum(float(np.log(t).sum()) for t in network.tables.values())
    for node in network.continuous.values():
        variance = node.sd**2
        out -= 0.5 * options.noise_count * float((np.log(variance) + options.noise_share / variance).sum())
    return out


def _maximise(network: MixedNetwork, statistics: Statistics, options: Options) -> MixedNetwork:
    tables = {}
    for v, expected in statistics.counts.items():
        counts = expected + options.table_count
        total = counts.sum(axis=-1, keepdims=True)
        tables[v] = np.where(total > 0, counts / np.where(total > 0, total, 1.0), 1 / counts.shape[-1])
    continuous = {}
    for v, node in network.continuous.items():
        moments = statistics.moments[v].copy()
        # A configuration without rows gets the estimate from all rows.
        unseen = moments[..., 0, 0] <= 0
        moments[unseen] = moments.sum(axis=tuple(range(moments.ndim - 2)))
        n = moments[..., 0, 0]
        if np.all(n <= 0):
            continuous[v] = node
            continue
        coefficients = _solve(moments[..., :-1, :-1], moments[..., :-1, -1])
        contrast = np.concatenate([-coefficients, np.ones((*n.shape, 1))], axis=-1)
        squares = np.einsum("...i,...ij,...j->...", contrast, moments, contrast)
        if options.noise_count > 0:
            # Without rows, the prior determines the variance.
            squares, n = np.where(unseen, 0.0, squares), np.where(unseen, 0.0, n)
        variance = (squares + options.noise_count * options.noise_share) / (n + options.noise_count)
        sd = np.sqrt(np.maximum(variance, options.floor**2))
        continuous[v] = LinearGaussian(node.parents, coefficients[..., 0], coefficients[..., 1:], sd)
    return replace(network, tables=tables, continuous=continuous)


def _solve(gram: np.ndarray, cross: np.ndarray) -> np.ndarray:
    """Least squares; the solution of smallest norm if rows do not determine it."""
    values, vectors = np.linalg.eigh(gram)
    kept = values > _RANK * values[..., -1:]
    inverse = np.where(kept, 1 / np.where(kept, values, 1.0), 0.0)
    return np.einsum("...ij,...j,...kj,...k->...i", vectors, inverse, vectors, cross)


# ------------------------------------------------------------------------------- as a problem for EM


@dataclass(frozen=True, eq=False)
class MixedProblem:
    """The net as a :class:`~bayeslab.latents.expectation_maximisation.Problem`; make it with :meth:`of`.

    Parameters are arrays by name: the table of each discrete variable under its name; for a continuous variable its
    name and ``intercept``, ``slopes`` or ``sd``, joined by a bar, in units of the columns' standard deviations.
    """

    network: MixedNetwork
    learned: frozenset[str]
    options: Options
    plan: Plan
    shift: np.ndarray
    scale: np.ndarray
    jacobian: float

    @classmethod
    def of(
        cls, network: MixedNetwork, codes: np.ndarray, values: np.ndarray, learned: Iterable[str], options: Options
    ) -> MixedProblem:
        """The problem for a net and its data; variables that are not ``learned`` keep their distributions."""
        codes, values = check_data(network, codes, values)
        shift, scale = _units(values)
        rescaled = _rescaled(network, shift, scale)
        plan = Plan.of(_bounded(rescaled, options.floor), codes, (values - shift) / scale)
        jacobian = float(((~np.isnan(values)).sum(axis=0) * np.log(scale)).sum())
        return cls(rescaled, frozenset(learned), options, plan, shift, scale, jacobian)

    def network_at(self, theta: Mapping[str, np.ndarray]) -> MixedNetwork:
        """The net with these parameters, in the units of the data."""
        return _rescaled(self._at(theta), -self.shift / self.scale, 1 / self.scale)

    def parameters_of(self, network: MixedNetwork) -> dict[str, np.ndarray]:
        """The inverse of :meth:`network_at`."""
        return self._parameters(_bounded(_rescaled(network, self.shift, self.scale), self.options.floor))

    def start(self, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """A random start with different parameters for the states of hidden variables."""
        codes, values = self.plan.codes, self.plan.values
        return self._parameters(_bounded(random_start(self.network, codes, values, rng), self.options.floor))

    def expect(self, theta: Mapping[str, np.ndarray]) -> tuple[float, dict[str, np.ndarray]]:
        statistics = self.plan.expect(self._at(theta))
        moments = {f"{v}|moments": m for v, m in statistics.moments.items()}
        return float(statistics.log_density.sum()) - self.jacobian, {**statistics.counts, **moments}

    def update(self, statistics: Mapping[str, np.ndarray], theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        counts = {v: statistics[v] for v in self.network.states}
        moments = {v: statistics[f"{v}|moments"] for v in self.network.continuous}
        expected = Statistics(counts, moments, np.empty(0))
        return self._parameters(_maximise(self._at(theta), expected, self.options))

    def log_prior(self, theta: Mapping[str, np.ndarray]) -> float:
        return _log_prior(self._at(theta), self.options)

    def flatten(self, theta: Mapping[str, np.ndarray]) -> np.ndarray:
        """Unconstrained coordinates: log probabilities, intercepts, slopes and log sds."""
        return np.concatenate([self._free(name, value).ravel() for name, value in theta.items()])

    def _free(self, name: str, value: np.ndarray) -> np.ndarray:
        if name in self.network.states:
            return np.asarray(np.log(np.maximum(value, _TINY)))
        return np.asarray(np.log(value)) if name.endswith("|sd") else value

    def unflatten(self, x: np.ndarray) -> dict[str, np.ndarray]:
        """The inverse of :meth:`flatten`."""
        out, at = {}, 0
        for name, like in self._parameters(self.network).items():
            part = x[at : at + like.size].reshape(like.shape)
            at += like.size
            if name in self.network.states:
                odds = np.exp(part - part.max(axis=-1, keepdims=True))
                part = odds / odds.sum(axis=-1, keepdims=True)
            elif name.endswith("|sd"):
                part = np.maximum(np.exp(part), self.options.floor)
            out[name] = part
        return out

    def _parameters(self, network: MixedNetwork) -> dict[str, np.ndarray]:
        out = {v: table for v, table in network.tables.items() if v in self.learned}
        for v, node in network.continuous.items():
            if v in self.learned:
                out |= {f"{v}|{k}": getattr(node, k) for k in ("intercept", "slopes", "sd")}
        return out

    def _at(self, theta: Mapping[str, np.ndarray]) -> MixedNetwork:
        tables = {v: theta.get(v, table) for v, table in self.network.tables.items()}
        nodes = {}
        for v, node in self.network.continuous.items():
            parts = (theta[f"{v}|{k}"] for k in ("intercept", "slopes", "sd")) if v in self.learned else None
            nodes[v] = node if parts is None else LinearGaussian(node.parents, *parts)
        return replace(self.network, tables=tables, continuous=nodes)
