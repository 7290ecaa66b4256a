"""Mixtures fitted: EM, MAP-EM, hard EM (k-means), starts, restarts, and repair of bad components.

A row comes from component k with probability w_k, and then from the k-th set of an emission's
parameters. EM fills the unseen component in by its responsibilities and takes the best parameters
for them; no step lowers the likelihood [1]_. :class:`MixtureProblem` is the problem that
`expectation_maximisation.maximise` climbs, so every variant there works for mixtures.

Three things go wrong in practice, and are handled here:

- *Local maxima*: several starts, each from k-means++ seeds [2]_.
- *A component collapses* on one point, where the likelihood of a Gaussian has no bound. The search stops as
  soon as a component has no spread, and the component is planted anew among the rows that the others
  explain worst. With a prior (``method: map``) it cannot happen.
- *Two components merge*: they say the same about every row they hold. One of them is planted anew, and the
  result kept if it is better.

The weights may depend on inputs through a multinomial logit gate: with regressions as components a
mixture of experts [3]_. Some labels may be known (semi-supervised): a row's components are then only the
``allowed`` ones. Labels reported with errors are one more categorical column, in a `Product`: its table is
the confusion matrix.

References
----------
.. [1] Dempster, Laird, Rubin (1977). Maximum likelihood from incomplete data via the EM algorithm. JRSS B 39, 1-38.
.. [2] Arthur, Vassilvitskii (2007). k-means++: the advantages of careful seeding. SODA, 1027-1035.
.. [3] Jordan, Jacobs (1994). Hierarchical mixtures of experts and the EM algorithm. Neural Computation 6, 181-214.
.. [4] Celeux, Govaert (1992). A classification EM algorithm for clustering and two stochastic versions.
   Computational Statistics & Data Analysis 14, 315-332 (hard EM).
.. [5] Alpaydın (2010). Introduction to Machine Learning, 2nd ed., section 12.2 (leader clusters, vigilance).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
from scipy.special import logsumexp

from bayeslab.errors import DataError, OptionError, hint
from bayeslab.exact.components import normalise
from bayeslab.exact.emissions import Parameters, Statistics, column_variances, dof_from_real, dof_to_real
from bayeslab.exact.expectation_maximisation import EMResult, maximise
from bayeslab.exact.multinomial_logit import fit_gate

__all__ = [
    "AllCollapsed",
    "Clusters",
    "Collapse",
    "MixtureFit",
    "MixtureOptions",
    "MixtureProblem",
    "Search",
    "fit_mixture",
    "k_means",
    "leader_clusters",
    "merging",
    "search",
    "seeds",
    "start_from_labels",
    "starting_labels",
]

Start = Literal["k_means", "k_means++", "random"]
Method = Literal["em", "map", "hard"]
type Progress = Callable[[int, int, Mapping[str, Any], float], None]


class Collapse(Exception):
    """Components lost their rows or their spread in an M-step."""

    def __init__(self, components: np.ndarray, theta: Parameters) -> None:
        super().__init__(f"components {components.tolist()} collapsed")
        self.components, self.theta = components, theta


class AllCollapsed(DataError):
    """Every search lost a component."""


@dataclass(frozen=True, eq=False)
class MixtureProblem:
    """A mixture and its data, as EM sees them.

    Parameters ("theta") are ``weights`` (K,), or with inputs ``gate`` (K, q) whose first row is zero, and the
    emission's.

    Attributes
    ----------
    emission : Emission
    rows : ndarray (N, D)
        NaN marks a missing cell.
    n_components : int
    concentration : float or ndarray (K,)
        Of the Dirichlet prior of the weights; 1 is uniform.
    fixed_weights : ndarray (K,), optional
    row_weights : ndarray (N,), optional
        How often each row counts.
    allowed : ndarray (N, K) of bool, optional
        The components a row can come from; for a known label one.
    inputs : ndarray (N, q), optional
        What the gate sees, with a column of ones.
    gate_precision : float
        Of the normal prior of the gate's coefficients.
    """

    emission: Any
    rows: np.ndarray
    n_components: int
    concentration: float | np.ndarray = 1.0
    fixed_weights: np.ndarray | None = None
    row_weights: np.ndarray | None = None
    allowed: np.ndarray | None = None
    inputs: np.ndarray | None = None
    gate_precision: float = 1e-6

    def check(self) -> None:
        """Refuse what cannot be fitted.

        Raises
        ------
        OptionError, DataError
        """
        n_rows, k = len(self.rows), self.n_components
        if k < 1:
            raise OptionError(f"a mixture has at least 1 component, not {k}", code="out-of-range")
        if n_rows == 0:
            raise DataError("there are no rows; give at least as many as components", code="no-rows")
        if n_rows < k:
            raise DataError(
                f"{n_rows} rows cannot support {k} components; use at most {n_rows} components", code="too-few"
            )
        if self.rows.ndim == 2 and self.rows.shape[1] and (lost := np.isnan(self.rows).all(axis=1)).any():
            raise DataError(f"row {int(np.argmax(lost))} is missing in every column; remove it", code="missing")
        self.emission.check(self.rows)
        for name in ("row_weights", "allowed", "inputs"):
            value = getattr(self, name)
            if value is not None and len(value) != n_rows:
                raise DataError(
                    f"{name} has {len(value)} entries for {n_rows} rows; give one per row", code="wrong-length"
                )
        if self.row_weights is not None and not (np.all(self.row_weights >= 0) and np.isfinite(self.row_weights).all()):
            raise DataError(
                "row weights are finite and not negative; remove or correct the others", code="out-of-range"
            )
        if not self.n_effective > 0:
            raise DataError("all row weights are zero; give some rows a positive weight", code="nothing-observed")
        if self.fixed_weights is not None and not _is_distribution(self.fixed_weights, k):
            raise OptionError(
                f"fixed weights are {k} probabilities that add up to 1, one for each component",
                code="not-probabilities",
            )
        if self.allowed is not None and not self.allowed.any(axis=1).all():
            raise DataError(
                f"row {int(np.argmin(self.allowed.any(axis=1)))} is allowed no component; allow at least one",
                code="not-allowed",
            )
        if self.inputs is not None and not np.isfinite(self.inputs).all():
            raise DataError(
                "the gate's inputs have missing or infinite cells; fill or remove those rows", code="missing"
            )

    # ------------------------------------------------------------------ facts about the data

    @cached_property
    def variances(self) -> np.ndarray:
        return column_variances(self.rows)

    @cached_property
    def _one_pass(self) -> bool:
        plain = self.allowed is None and self.inputs is None and self.emission.has_one_pass
        return plain and not np.isnan(self.rows).any()

    @cached_property
    def _contiguous(self) -> tuple[np.ndarray, np.ndarray]:
        weights = np.empty(0) if self.row_weights is None else np.ascontiguousarray(self.row_weights, float)
        return np.ascontiguousarray(self.rows, float), weights

    @property
    def n_effective(self) -> float:
        """Rows, counted with their weights."""
        return float(len(self.rows) if self.row_weights is None else self.row_weights.sum())

    @property
    def n_free(self) -> int:
        """Free parameters."""
        if self.inputs is not None:
            mixing = (self.n_components - 1) * self.inputs.shape[1]
        else:
            mixing = 0 if self.fixed_weights is not None else self.n_components - 1
        return mixing + self.emission.n_free(self.n_components)

    # ------------------------------------------------------------------ E-step

    def log_weights(self, theta: Parameters) -> np.ndarray:
        """(K,), or (N, K) where rows differ."""
        if self.inputs is not None:
            eta = self.inputs @ theta["gate"].T
            log_weights = eta - logsumexp(eta, axis=1, keepdims=True)
        else:
            with np.errstate(divide="ignore"):
                log_weights = np.log(theta["weights"])
        return log_weights if self.allowed is None else np.where(self.allowed, log_weights, -np.inf)

    def responsibilities(self, theta: Parameters) -> tuple[np.ndarray, np.ndarray]:
        """Log evidence of each row (N,) and posterior of its component (N, K)."""
        return normalise(self.log_weights(theta), self.emission.log_density(_own(theta), self.rows))

    def expect(self, theta: Parameters) -> tuple[float, Statistics]:
        try:
            if self._one_pass:
                rows, weights = self._contiguous
                value, statistics = self.emission.one_pass(self.log_weights(theta), _own(theta), rows, weights)
                return value, statistics | {"component": _counts(statistics)}
            evidence, responsibilities = self.responsibilities(theta)
        except np.linalg.LinAlgError:
            # A guess of an accelerated search may lie outside.
            return -np.inf, {}
        if self.row_weights is None:
            return float(evidence.sum()), self.statistics(responsibilities, theta)
        counted = self.row_weights > 0
        value = float(self.row_weights[counted] @ evidence[counted])
        return value, self.statistics(responsibilities, theta)

    def statistics(self, responsibilities: np.ndarray, theta: Parameters | None = None) -> Statistics:
        """What the M-step needs, from responsibilities (N, K)."""
        if self.row_weights is not None:
            responsibilities = responsibilities * self.row_weights[:, None]
        own = None if theta is None else _own(theta)
        out = self.emission.statistics(self.rows, responsibilities, own)
        out = out | {"component": responsibilities.sum(axis=0)}
        return out | {"gate": responsibilities} if self.inputs is not None else out

    # ------------------------------------------------------------------ M-step

    def update(self, statistics: Mapping[str, Any], theta: Parameters | None = None) -> Parameters:
        """The best parameters for these totals.

        Raises
        ------
        Collapse
            If a component has lost its rows or its spread.
        """
        if "responsibilities" in statistics:
            statistics = self.statistics(statistics["responsibilities"], theta)
        counts = statistics["component"]
        own = None if theta is None else _own(theta)
        parameters = self.emission.maximise(statistics, own)
        flags = self.emission.degenerate(parameters, self.variances)
        theta_new = {**self._mixing(counts, statistics, theta), **parameters}
        if self.emission.prior is None:
            flags = flags | (counts < 1e-10 * self.n_effective)
        if flags.any():
            raise Collapse(np.flatnonzero(flags), theta_new)
        return theta_new

    def _mixing(self, counts: np.ndarray, statistics: Mapping[str, Any], theta: Parameters | None) -> Parameters:
        if self.inputs is not None:
            start = np.zeros((self.n_components, self.inputs.shape[1])) if theta is None else theta["gate"]
            return {"gate": fit_gate(self.inputs, statistics["gate"], start, self.gate_precision)}
        if self.fixed_weights is not None:
            return {"weights": np.asarray(self.fixed_weights, float)}
        counts = np.maximum(counts + self.concentration - 1, 0.0)
        return {"weights": counts / counts.sum()}

    def log_prior(self, theta: Parameters) -> float:
        """Log density of the prior, up to a constant; 0 where it is uniform."""
        value = self.emission.log_prior(_own(theta))
        if self.inputs is not None:
            return value - 0.5 * self.gate_precision * float(np.sum(theta["gate"] ** 2))
        exponent = np.broadcast_to(np.asarray(self.concentration, float) - 1, (self.n_components,))
        used = exponent != 0
        if not used.any() or self.fixed_weights is not None:
            return value
        with np.errstate(divide="ignore"):
            return value + float(exponent[used] @ np.log(theta["weights"][used]))

    # ------------------------------------------------------------------ variants of EM

    def flatten(self, theta: Parameters) -> np.ndarray:
        """Unconstrained coordinates of what is free, for variants of EM that extrapolate or use slopes."""
        return np.concatenate([_to_real(name, theta[name], self._intervals.get(name)).ravel() for name in self._free])

    def unflatten(self, x: np.ndarray) -> Parameters:
        """The inverse of :meth:`flatten`."""
        theta, at = dict(self._example), 0
        for name in self._free:
            shape = theta[name].shape
            size = int(np.prod(shape))
            theta[name] = _from_real(name, x[at : at + size].reshape(shape), self._intervals.get(name))
            if name == "gate":  # against the first component, as its prior is
                theta[name] = theta[name] - theta[name][0]
            at += size
        return theta

    @cached_property
    def _example(self) -> dict[str, np.ndarray]:
        """Some parameters: their names, shapes, and the values of those that are fixed."""
        guess = np.random.default_rng(0).dirichlet(np.full(self.n_components, 5.0), len(self.rows))
        return dict(self.update(self.statistics(guess)))

    @property
    def _intervals(self) -> Mapping[str, tuple[float, float]]:
        """Of parameters of whose values the emission knows the ends."""
        return self.emission.intervals

    @cached_property
    def _free(self) -> tuple[str, ...]:
        fixed = set(self.emission.fixed_parameters)
        if self.fixed_weights is not None:
            fixed.add("weights")
        return tuple(name for name in self._example if name not in fixed)

    def gradient(self, theta: Parameters, statistics: Mapping[str, Any]) -> np.ndarray:
        """Slope of log likelihood plus log prior in the coordinates of :meth:`flatten`.

        By Fisher's identity it is that of the expected complete log likelihood, which needs the totals only: central
        differences of it cost no pass over the data.
        """
        x = self.flatten(theta)
        step = 1e-5 * np.maximum(1.0, np.abs(x))
        out = np.empty(len(x))
        for i in range(len(x)):
            sides = []
            for sign in (1, -1):
                moved = x.copy()
                moved[i] += sign * step[i]
                sides.append(self._expected(self.unflatten(moved), statistics))
            out[i] = (sides[0] - sides[1]) / (2 * step[i])
        return out

    def _expected(self, theta: Parameters, statistics: Mapping[str, Any]) -> float:
        value = self.emission.expected_log_likelihood(statistics, _own(theta)) + self.log_prior(theta)
        if self.inputs is None:
            return value + float(statistics["component"] @ np.log(np.maximum(theta["weights"], 1e-300)))
        eta = self.inputs @ theta["gate"].T
        return value + float(np.sum(statistics["gate"] * (eta - logsumexp(eta, axis=1, keepdims=True))))

    def chain(self, theta: Parameters, rng: np.random.Generator) -> Callable[[Parameters], Statistics]:
        """Draws of the components, for stochastic EM; totals are averaged as responsibilities."""

        def draw(at: Parameters) -> Statistics:
            cumulated = np.cumsum(self.responsibilities(at)[1], axis=1)
            labels = (rng.random((len(self.rows), 1)) * cumulated[:, -1:] >= cumulated).sum(axis=1)
            return {"responsibilities": np.eye(self.n_components)[labels]}

        return draw


def _is_distribution(weights: np.ndarray, size: int) -> bool:
    return np.shape(weights) == (size,) and bool(np.all(weights >= 0)) and abs(float(np.sum(weights)) - 1) < 1e-9


def _own(theta: Mapping[str, np.ndarray]) -> Parameters:
    """The emission's part."""
    return {name: value for name, value in theta.items() if name not in ("weights", "gate")}


def _counts(statistics: Statistics) -> np.ndarray:
    weight = statistics["weight"]
    return weight if weight.ndim == 1 else weight[:, 0]


def _kind(name: str, interval: tuple[float, float] | None) -> str:
    """What values a parameter has: by its ends, or by its name."""
    if interval is None:
        return name.rpartition(".")[2]
    return {(0.0, np.inf): "rate", (0.0, 1.0): "probability"}.get(interval, "")


def _to_real(name: str, value: np.ndarray, interval: tuple[float, float] | None = None) -> np.ndarray:
    kind = _kind(name, interval)
    if kind == "dof":
        return dof_to_real(value)
    if kind in ("variance", "rate", "weights") or (kind == "probability" and value.ndim == 3):
        return np.log(np.maximum(value, 1e-300))
    if kind == "probability":
        return np.log(np.maximum(value, 1e-300)) - np.log(np.maximum(1 - value, 1e-300))
    if kind in ("covariance", "scale"):
        lower = np.linalg.cholesky(value)
        d = value.shape[-1]
        lower[..., range(d), range(d)] = np.log(lower[..., range(d), range(d)])
        return lower
    return value


def _from_real(name: str, x: np.ndarray, interval: tuple[float, float] | None = None) -> np.ndarray:
    kind = _kind(name, interval)
    if kind == "weights" or (kind == "probability" and x.ndim == 3):
        return np.exp(x - logsumexp(x, axis=-1, keepdims=True))
    if kind == "dof":
        return dof_from_real(x)
    if kind in ("variance", "rate"):
        return np.exp(x)
    if kind == "probability":
        return 1 / (1 + np.exp(-x))
    if kind in ("covariance", "scale"):
        lower = np.tril(x)
        d = x.shape[-1]
        lower[..., range(d), range(d)] = np.exp(lower[..., range(d), range(d)])
        return lower @ np.swapaxes(lower, -1, -2)
    return x


# --------------------------------------------------------------------------------- starts


def seeds(points: np.ndarray, n_clusters: int, rng: np.random.Generator) -> np.ndarray:
    """Row numbers of k-means++ seeds [2]_: each far from those before it, with probability ∝ squared distance."""
    chosen = [int(rng.integers(len(points)))]
    nearest = np.sum((points - points[chosen[0]]) ** 2, axis=1)
    for _ in range(n_clusters - 1):
        total = nearest.sum()
        # All rows may coincide with a seed: then any row will do.
        p = nearest / total if total > 0 else None
        chosen.append(int(rng.choice(len(points), p=p)))
        nearest = np.minimum(nearest, np.sum((points - points[chosen[-1]]) ** 2, axis=1))
    return np.array(chosen)


@dataclass(frozen=True, eq=False)
class Clusters:
    """A hard clustering.

    Attributes
    ----------
    labels : ndarray (N,) of int
    centres : ndarray (K, D)
    trace : ndarray
        Reconstruction error (sum of squared distances to the centres) after each assignment.
    """

    labels: np.ndarray
    centres: np.ndarray
    trace: np.ndarray

    @property
    def error(self) -> float:
        return float(self.trace[-1])


def _distances(points: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """Squared, (N, K)."""
    middle = points.mean(axis=0)
    a, b = points - middle, centres - middle
    return np.maximum(np.sum(a**2, axis=1)[:, None] - 2 * a @ b.T + np.sum(b**2, axis=1), 0.0)


def k_means(
    points: np.ndarray,
    n_clusters: int,
    rng: np.random.Generator,
    *,
    centres: np.ndarray | None = None,
    max_iterations: int = 300,
) -> Clusters:
    """Lloyd's algorithm: hard EM with equal weights and one small variance for all; a vector quantiser.

    Starts from ``centres``, or from k-means++ seeds. A cluster left without rows gets the row that is
    farthest from its centre, so the reconstruction error never rises.
    """
    points = np.asarray(points, float)
    if not 1 <= n_clusters <= len(points):
        raise OptionError(
            f"{len(points)} rows can be put into 1 to {len(points)} clusters, not {n_clusters}", code="out-of-range"
        )
    if np.isnan(points).any():
        raise DataError(
            "k-means needs complete rows; fill the missing cells or fit a mixture with method: em", code="missing"
        )
    centres = points[seeds(points, n_clusters, rng)] if centres is None else np.asarray(centres, float)
    labels, trace = np.full(len(points), -1), []
    for _ in range(max_iterations):
        distance = _distances(points, centres)
        new = distance.argmin(axis=1)
        nearest = distance[np.arange(len(points)), new]
        trace.append(float(nearest.sum()))
        for k in np.setdiff1d(np.arange(n_clusters), new):
            far = int(nearest.argmax())
            new[far], nearest[far] = k, 0.0
        if np.array_equal(new, labels):
            break
        labels = new
        size = np.bincount(labels, minlength=n_clusters)
        sums = np.stack([np.bincount(labels, column, n_clusters) for column in points.T], axis=1)
        centres = np.where(size[:, None] > 0, sums / np.maximum(size, 1)[:, None], centres)
    return Clusters(labels, centres, np.array(trace))


def leader_clusters(points: np.ndarray, vigilance: float, *, rate: float | None = None) -> Clusters:
    """One pass in the rows' order: a row farther than ``vigilance`` from every centre founds a cluster [5]_.

    Otherwise the nearest centre moves towards it, by ``rate``, or so that it stays its rows' mean.
    """
    if not vigilance > 0:
        raise OptionError(f"vigilance is a positive distance, not {vigilance:g}", code="out-of-range")
    points = np.asarray(points, float)
    centres, sizes = [points[0].copy()], [1]
    labels, error, trace = np.zeros(len(points), int), 0.0, [0.0]
    for n, point in enumerate(points[1:], 1):
        distance = np.linalg.norm(np.array(centres) - point, axis=1)
        k = int(distance.argmin())
        if distance[k] > vigilance:
            k = len(centres)
            centres.append(point.copy())
            sizes.append(1)
        else:
            error += distance[k] ** 2
            sizes[k] += 1
            centres[k] += (point - centres[k]) * (1 / sizes[k] if rate is None else rate)
        labels[n] = k
        trace.append(error)
    return Clusters(labels, np.array(centres), np.array(trace))


def starting_labels(problem: MixtureProblem, kind: Start, rng: np.random.Generator) -> np.ndarray:
    """A first guess of the rows' components, (N, K): see :class:`MixtureOptions`."""
    k, n_rows = problem.n_components, len(problem.rows)
    if kind == "random":
        return _permitted(problem, rng.dirichlet(np.ones(k), n_rows))
    points = problem.emission.features(problem.rows)
    centres = points[seeds(points, k, rng)]
    if problem.allowed is not None:
        # Known labels say which component is which.
        known = problem.allowed.sum(axis=1) == 1
        for j in np.flatnonzero(problem.allowed[known].any(axis=0)):
            centres[j] = points[known & problem.allowed[:, j]].mean(axis=0)
    if kind == "k_means":
        labels = k_means(points, k, rng, centres=centres, max_iterations=20).labels
    else:
        labels = _distances(points, centres).argmin(axis=1)
    return _permitted(problem, 0.9 * np.eye(k)[labels] + 0.1 / k)


def _permitted(problem: MixtureProblem, guess: np.ndarray) -> np.ndarray:
    """The guess among the components that are allowed; where it has none of them, all alike."""
    if problem.allowed is None:
        return guess
    guess = np.where(problem.allowed, guess + 1e-12, 0.0)
    return guess / guess.sum(axis=1, keepdims=True)


def _start(problem: MixtureProblem, kind: Start, rng: np.random.Generator) -> Parameters:
    return problem.update(problem.statistics(starting_labels(problem, kind, rng)))


def start_from_labels(problem: MixtureProblem, labels: np.ndarray) -> Parameters:
    """Parameters from a guess of the rows' components: codes (N,), or probabilities (N, K).

    The guess is believed by nine tenths, so that no component starts without spread.
    """
    k = problem.n_components
    sure = np.eye(k)[labels] if labels.ndim == 1 else labels
    return problem.update(problem.statistics(_permitted(problem, 0.9 * sure + 0.1 / k)))


# --------------------------------------------------------------------------------- repair


def merging(problem: MixtureProblem, theta: Parameters, *, within: float = 0.05) -> list[tuple[int, int]]:
    """Pairs of components that say the same: over the rows they hold, |log p_j - log p_k| is ``within`` on average."""
    log_density = problem.emission.log_density(_own(theta), problem.rows)
    _, r = problem.responsibilities(theta)
    if problem.row_weights is not None:
        r = r * problem.row_weights[:, None]
    pairs = []
    for j in range(problem.n_components):
        for k in range(j + 1, problem.n_components):
            weight = r[:, j] + r[:, k]
            held = weight > 1e-12
            apart = np.abs(log_density[held, j] - log_density[held, k])
            if weight.sum() > 0 and weight[held] @ apart <= within * weight.sum():
                pairs.append((j, k))
    return pairs


def _replanted(
    problem: MixtureProblem, theta: Parameters, components: np.ndarray, rng: np.random.Generator
) -> Parameters:
    """The parameters with some components moved to where the others explain the rows worst."""
    others = np.setdiff1d(np.arange(problem.n_components), components)
    points = problem.emission.features(problem.rows)
    if len(others) == 0:
        return _start(problem, "k_means++", rng)
    try:
        # Collapsed components have no density; only the others count below.
        with np.errstate(divide="ignore", invalid="ignore"):
            log_density = problem.emission.log_density(_own(theta), problem.rows)
    except np.linalg.LinAlgError:
        return _start(problem, "k_means++", rng)
    log_weights = np.broadcast_to(problem.log_weights(theta), log_density.shape)[:, others]
    evidence, among = normalise(log_weights, np.nan_to_num(log_density[:, others], nan=-np.inf))
    r = np.zeros(log_density.shape)
    r[:, others] = among
    size = max(problem.rows.shape[1] + 2, len(points) // (2 * problem.n_components))
    for k in components:
        # A row that the others explain badly, with its neighbours: alone it would collapse again.
        surprise = evidence.max() - np.maximum(evidence, evidence.max() - 1e3)
        centre = points[rng.choice(len(points), p=surprise / surprise.sum() if surprise.sum() > 0 else None)]
        near = np.argsort(np.sum((points - centre) ** 2, axis=1), kind="stable")[:size]
        r[near] = 0.0
        r[near, k] = 1.0
    return start_from_labels(problem, np.where(r.sum(axis=1, keepdims=True) > 0, r, 1 / problem.n_components))


# --------------------------------------------------------------------------------- fitting


@dataclass(frozen=True)
class MixtureOptions:
    """How to search.

    Attributes
    ----------
    method
        ``em`` (maximum likelihood), ``map`` (with priors), ``hard`` (each row wholly in its best component).
    variant
        Of EM: see `expectation_maximisation`.
    restarts : int
        Starting points; the best end is kept.
    start
        Where they come from: ``k_means`` (seeds, then Lloyd's algorithm), ``k_means++`` (seeds), or ``random``
        responsibilities.
    repairs : int
        How often a search may plant collapsed or merged components anew.
    unlike : bool
        Whether the later half of the searches, and any that would begin where one before it did, go on from the best
        of many short searches from unlike starts.
    """

    method: Method = "em"
    variant: Literal["em", "accelerated", "newton", "stochastic"] = "em"
    restarts: int = 10
    start: Start = "k_means"
    tolerance: float = 1e-6
    max_iterations: int = 1000
    repairs: int = 5
    unlike: bool = False


@dataclass(frozen=True, eq=False)
class MixtureFit:
    """A fitted mixture.

    Attributes
    ----------
    problem : MixtureProblem
        With the prior that was used.
    parameters : dict
        ``weights`` or ``gate``, and the emission's.
    log_likelihood, log_posterior : float
        For hard EM of the rows with their labels.
    trace : ndarray
        Log likelihood at the start and after each iteration of the best search.
    ends : ndarray
        Log posteriors that the searches ended in, -inf where one failed.
    iterations : int
    converged : bool
    repaired : tuple of str
        What was repaired on the way to the best end.
    warnings : tuple of str
        What is still wrong with it.
    """

    problem: MixtureProblem
    parameters: Parameters
    log_likelihood: float
    log_posterior: float
    trace: np.ndarray
    ends: np.ndarray
    iterations: int
    converged: bool
    repaired: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    @cached_property
    def responsibilities(self) -> np.ndarray:
        """(N, K)."""
        return self.problem.responsibilities(self.parameters)[1]

    @property
    def labels(self) -> np.ndarray:
        """The most probable component of each row."""
        return self.responsibilities.argmax(axis=1)

    def log_evidence(self, rows: np.ndarray, inputs: np.ndarray | None = None) -> np.ndarray:
        """Log density of further rows, (N,)."""
        other = replace(self.problem, rows=rows, inputs=inputs, allowed=None, row_weights=None)
        return other.responsibilities(self.parameters)[0]


@dataclass
class Search:
    """One start and what became of it.

    Attributes
    ----------
    result : EMResult or None
        None if every attempt collapsed.
    repaired : list of str
        What was repaired on the way.
    interrupted : bool
    """

    result: EMResult | None = None
    repaired: list[str] = field(default_factory=list)
    interrupted: bool = False


def fit_mixture(
    problem: MixtureProblem,
    options: MixtureOptions | None = None,
    *,
    rng: np.random.Generator,
    start: Parameters | None = None,
    progress: Progress | None = None,
) -> MixtureFit:
    """The best of several searches.

    Parameters
    ----------
    start : dict, optional
        Parameters to start the first search from; with ``restarts=1`` the only one.
    progress : callable, optional
        Called with the number of the search, the iteration, the parameters and the log posterior. A KeyboardInterrupt
        ends the searches with what they have.

    Raises
    ------
    OptionError, DataError
        Wrong options or data; or every search collapsed.
    """
    options = options or MixtureOptions()
    problem, searches = search(problem, options, rng=rng, start=start, progress=progress)
    ends = np.array([-np.inf if s.result is None else s.result.log_posterior for s in searches])
    best = searches[int(ends.argmax())]
    if best.result is None:
        raise AllCollapsed(
            f"in each of {options.restarts} searches a component collapsed on a few equal rows; use method: map, or"
            " fewer components",
            code="degenerate",
        )
    end = best.result
    pairs = merging(problem, end.parameters) if problem.n_components > 1 else []
    warnings = tuple(f"components {j} and {k} say the same: fewer components would do" for j, k in pairs)
    if searches[-1].interrupted:
        warnings += (f"interrupted in search {len(searches)} of {options.restarts}",)
    return MixtureFit(
        problem,
        dict(end.parameters),
        end.log_likelihood,
        end.log_posterior,
        end.trace,
        ends,
        end.iterations,
        end.converged,
        tuple(best.repaired),
        warnings,
    )


def search(
    problem: MixtureProblem,
    options: MixtureOptions,
    *,
    rng: np.random.Generator,
    start: Parameters | Callable[[np.random.Generator], Parameters] | None = None,
    progress: Progress | None = None,
) -> tuple[MixtureProblem, list[Search]]:
    """The problem with the prior that is used, and every search; as :func:`fit_mixture`.

    ``start`` is where the first search begins, or a callable that says where each does, from its generator.
    """
    for name, allowed in (("method", ("em", "map", "hard")), ("start", ("k_means", "k_means++", "random"))):
        if getattr(options, name) not in allowed:
            raise OptionError(
                f"unknown {name} '{getattr(options, name)}'{hint(getattr(options, name), allowed)}", code="unknown-word"
            )
    if options.restarts < 1:
        raise OptionError(f"restarts is at least 1, not {options.restarts}", code="out-of-range")
    if options.method == "map" and problem.emission.prior is None:
        problem = replace(problem, emission=problem.emission.with_prior(problem.rows, max(problem.n_components, 1)))
    problem.check()
    sources = rng.spawn(options.restarts)
    given_all: list[Parameters | None]
    if callable(start):
        given_all = [start(own) for own in sources]
    else:
        given_all = [start, *[None] * (options.restarts - 1)]
        if options.unlike and options.restarts > 1:
            given_all = _unlike(problem, options, sources, start, rng.spawn(1)[0])
    searches = []
    for number, (own, given) in enumerate(zip(sources, given_all, strict=True)):
        step = None if progress is None else partial(progress, number)
        searches.append(_search(problem, options, own, given, step))
        if searches[-1].interrupted:
            break
    return problem, searches


def _unlike(
    problem: MixtureProblem,
    options: MixtureOptions,
    sources: list[np.random.Generator],
    first: Parameters | None,
    rng: np.random.Generator,
) -> list[Parameters | None]:
    """Where searches begin: half of them as always, if no two are the same, the others where short ones ended."""
    out: list[Parameters | None] = []
    heights: list[float] = []
    for number, own in enumerate(sources):
        given = first if number == 0 else None
        theta = given if given is not None else _begun(problem, options.start, own)
        height = -np.inf if theta is None else _height(problem, theta)
        if number and (
            number >= (len(sources) + 1) // 2 or any(abs(height - h) <= 1e-9 * max(1.0, abs(h)) for h in heights)
        ):
            continue
        out.append(theta)
        heights.append(height)
    further = _short(problem, options, len(sources) - len(out), rng)
    out += further
    return [*out, *[None] * (len(sources) - len(out))]


def _begun(problem: MixtureProblem, kind: Start, rng: np.random.Generator) -> Parameters | None:
    try:
        return _start(problem, kind, rng)
    except Collapse:
        return None


def _height(problem: MixtureProblem, theta: Parameters) -> float:
    """Log posterior."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(problem.expect(theta)[0] + problem.log_prior(theta))


# Responsibilities (of rows, components and columns) that all short searches may fill at each step; short searches at
# most; their steps; and the smallest share of the rows' variance that a component of a start has.
_CHEAP, _MANY, _STEPS, _NARROWEST = 2_000_000, 40, 10, 1e-4


def _short(
    problem: MixtureProblem, options: MixtureOptions, wanted: int, rng: np.random.Generator
) -> list[Parameters | None]:
    """Where the best of many short searches from unlike starts ended, the highest first.

    References
    ----------
    Biernacki, Celeux, Govaert (2003). Choosing starting values for the EM algorithm for getting the highest likelihood
    in multivariate Gaussian mixture models. Computational Statistics & Data Analysis 41, 561-575.
    """
    climbed = _Hard(problem) if options.method == "hard" else problem
    each = problem.n_components * max(problem.rows.size, 1)
    kinds: list[Callable[[MixtureProblem, np.random.Generator], np.ndarray]] = [_by_rows, _by_chance, _by_seeds]
    if options.method == "map":
        # Without a prior a small component has no bound: it would be looked for where rows happen to coincide.
        kinds = [_by_clump, *kinds]
    found: list[tuple[float, Parameters]] = []
    for k in range(int(np.clip(_CHEAP // each, wanted, _MANY))):
        try:
            guess = _permitted(problem, kinds[k % len(kinds)](problem, rng))
            theta = problem.update(problem.statistics(guess))
            end = maximise(climbed, theta, tolerance=options.tolerance, max_iterations=_STEPS)
        except (Collapse, OptionError, np.linalg.LinAlgError):
            continue
        if end.reason == "interrupted":
            raise KeyboardInterrupt
        if np.isfinite(end.log_posterior):
            found.append((end.log_posterior, dict(end.parameters)))
    found.sort(key=lambda pair: -pair[0])
    return [theta for _, theta in found[:wanted]]


def _by_seeds(problem: MixtureProblem, rng: np.random.Generator) -> np.ndarray:
    return starting_labels(problem, "k_means++", rng)


def _by_chance(problem: MixtureProblem, rng: np.random.Generator) -> np.ndarray:
    return starting_labels(problem, "random", rng)


def _by_rows(problem: MixtureProblem, rng: np.random.Generator) -> np.ndarray:
    """Around random rows, each component as wide as it happens to be."""
    points = problem.emission.features(problem.rows)
    n, k = len(points), problem.n_components
    distance = _distances(points, points[rng.choice(n, k, replace=n < k)])
    whole = max(float(np.var(points, axis=0).mean()), 1e-300)
    width = whole * np.exp(rng.uniform(np.log(_NARROWEST), 0.0, k))
    log_density = -0.5 * distance / width - 0.5 * points.shape[1] * np.log(width)
    shares = np.exp(log_density - logsumexp(log_density, axis=1, keepdims=True))
    return np.asarray(0.99 * shares + 0.01 / k)


def _by_clump(problem: MixtureProblem, rng: np.random.Generator) -> np.ndarray:
    """One component the nearest neighbours of a row, where rows lie close, and the others by seeds in the rest."""
    points = problem.emission.features(problem.rows)
    n, k = len(points), problem.n_components
    size = min(n, int(np.exp(rng.uniform(np.log(points.shape[1] + 2), np.log(max(n / 4, points.shape[1] + 3))))))
    around = points[rng.choice(n, min(n, 10), replace=False)]
    distance = _distances(around, points)
    reach = np.partition(distance, size - 1, axis=1)[:, size - 1]
    clump = np.argsort(distance[int(reach.argmin())], kind="stable")[:size]
    labels = np.zeros(n, dtype=int)
    rest = np.setdiff1d(np.arange(n), clump)
    if k > 1 and len(rest) >= k - 1:
        centres = points[rest][seeds(points[rest], k - 1, rng)]
        labels[rest] = 1 + _distances(points[rest], centres).argmin(axis=1)
    # Hardly a doubt: a tenth of all other rows would widen a clump to the whole.
    return np.asarray(0.999 * np.eye(k)[labels] + 0.001 / k)


def _search(
    problem: MixtureProblem,
    options: MixtureOptions,
    rng: np.random.Generator,
    given: Parameters | None,
    progress: Callable[[int, Mapping[str, Any], float], None] | None,
) -> Search:
    search, theta, fixes = Search(), given, []
    climbed = _Hard(problem) if options.method == "hard" else problem
    for attempt in range(options.repairs + 1):
        try:
            if theta is None:
                theta = _start(problem, options.start, rng)
            end = maximise(
                climbed,
                theta,
                variant=options.variant,
                tolerance=options.tolerance,
                max_iterations=options.max_iterations,
                rng=rng,
                progress=progress,
            )
        except Collapse as collapse:
            fixes.append(f"components {collapse.components.tolist()} collapsed and were planted anew")
            theta = _planted(problem, collapse.theta, collapse.components, rng)
            continue
        if search.result is None or end.log_posterior > search.result.log_posterior:
            search.result, search.repaired = end, list(fixes)
        search.interrupted = end.reason == "interrupted"
        pairs = merging(problem, search.result.parameters) if problem.n_components > 1 else []
        if not pairs or attempt == options.repairs or search.interrupted:
            break
        j, k = pairs[0]
        fixes.append(f"components {j} and {k} had merged; {k} was planted anew")
        theta = _planted(problem, search.result.parameters, np.array([k]), rng)
    return search


def _planted(
    problem: MixtureProblem, theta: Parameters, components: np.ndarray, rng: np.random.Generator
) -> Parameters | None:
    """As `_replanted`; None (a fresh start) if even that has no spread."""
    try:
        return _replanted(problem, theta, components, rng)
    except Collapse:
        return None


@dataclass(frozen=True, eq=False)
class _Hard:
    """Classification EM [4]_: each row wholly in its best component.

    The joint log likelihood of rows and labels takes the place of the log likelihood, and never falls.
    """

    problem: MixtureProblem

    def expect(self, theta: Parameters) -> tuple[float, Statistics]:
        joint = self.problem.log_weights(theta) + self.problem.emission.log_density(_own(theta), self.problem.rows)
        labels = joint.argmax(axis=1)
        best = joint[np.arange(len(labels)), labels]
        weights = np.ones(len(labels)) if self.problem.row_weights is None else self.problem.row_weights
        counted = weights > 0
        value = float(weights[counted] @ best[counted])
        return value, self.problem.statistics(np.eye(self.problem.n_components)[labels], theta)

    def update(self, statistics: Mapping[str, Any], theta: Parameters) -> Parameters:
        return self.problem.update(statistics, theta)

    def log_prior(self, theta: Parameters) -> float:
        return self.problem.log_prior(theta)
