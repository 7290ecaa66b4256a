"""Distributions of vectors and of series, and others without a fused density, with the formulas of PyMC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab.constants import HALF_LOG_2PI, LOG_PI
from bayeslab.distributions import maths
from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.functions import (
    cholesky,
    cumprod,
    cumsum,
    diagonal,
    inv,
    logsumexp,
    solve_triangular,
)
from bayeslab.posterior.machine.laws import (
    Categories,
    Counts,
    Dirichlet,
    Law,
    Mixed,
    MultivariateNormal,
    Scalar,
    ZeroSumNormal,
    multinomial,
    ordered_categories,
)
from bayeslab.posterior.machine.program import Builder
from bayeslab.posterior.machine.transforms import SIMPLEX, Transform, interval

__all__ = ["factor_of", "law_of", "vector_law"]

_LEAST = float(np.finfo(float).tiny)


def factor_of(word: str, given: Mapping[str, Any]) -> Var:
    """The lower Cholesky factor of a covariance, or of a scale matrix."""
    if "chol" in given:
        factor: Var = given["chol"]
        return factor
    for name in ("cov", "scale"):
        if name in given:
            return cholesky(given[name])
    if "tau" in given:
        return cholesky(inv(given["tau"]))
    raise NotLowered(word, "without a covariance")


def law_of(builder: Builder, word: str, given: Mapping[str, Any], shape: tuple[int, ...]) -> Law:
    """A distribution by name; parameters as in :func:`vector_law`.

    Raises
    ------
    NotLowered
        The machine does not know the distribution.
    """
    match word:
        case "Categorical":
            return Categories(builder, shape, _log_probabilities(builder, given))
        case "OrderedLogistic" | "OrderedProbit":
            if not {"eta", "cutpoints"} <= given.keys():
                raise NotLowered(word, "without eta or cutpoints")
            return ordered_categories(builder, word, given["eta"], given["cutpoints"], given.get("sigma", 1.0), shape)
        case "Multinomial":
            return Counts(builder, shape, given["n"], given["p"])
        case "Dirichlet":
            return Dirichlet(builder, shape, given["a"])
        case "ZeroSumNormal":
            axes = int(builder.as_var(given.get("n_zerosum_axes", 1)).value)
            sigma = builder.as_var(given.get("sigma", 1.0))
            if sigma.ndim:
                raise NotLowered(word, "a scale for each of several vectors")
            return ZeroSumNormal(builder, shape, sigma, axes)
    if maths(word) is None:
        return vector_law(builder, word, given, shape)
    return Scalar.of(builder, word, given, shape)


def _log_probabilities(builder: Builder, given: Mapping[str, Any]) -> Var:
    """Log probabilities of categories, which come last."""
    if given.keys() == {"p"}:
        return builder.elementwise("log", given["p"])
    if given.keys() != {"logit_p"}:
        raise NotLowered("Categorical", "p and logit_p")
    logits: Var = given["logit_p"]
    return logits - logsumexp(logits, -1)[..., None]


def vector_law(builder: Builder, word: str, given: Mapping[str, Any], shape: tuple[int, ...]) -> Law:
    """A distribution of vectors or series by name.

    Parameters
    ----------
    given
        Parameters by PyMC's names; those that are distributions are laws.
    shape
        Of the node.

    Raises
    ------
    NotLowered
        The machine does not know the distribution.
    """
    match word:
        case "MvNormal":
            return MultivariateNormal(builder, shape, given["mu"], factor_of(word, given))
        case "MvStudentT":
            return MultivariateStudent(builder, shape, given["nu"], given["mu"], factor_of(word, given))
        case "DirichletMultinomial":
            return DirichletCounts(builder, shape, given["n"], given["a"])
        case "OrderedMultinomial":
            categories = ordered_categories(
                builder, "OrderedLogistic", given["eta"], given["cutpoints"], 1.0, shape[:-1]
            )
            return OrderedCounts(builder, shape, given["n"], categories)
        case "NormalMixture":
            return _normal_mixture(builder, given, shape)
        case "CAR":
            return ConditionalAutoregression(builder, shape, given["mu"], given["W"], given["alpha"], given["tau"])
        case "ICAR":
            deviation = given.get("zero_sum_stdev", builder.constant(0.001))
            return Intrinsic(builder, shape, given["W"], given.get("sigma", builder.constant(1.0)), deviation)
        case "GaussianRandomWalk":
            numbers = {"mu": given.get("mu", builder.constant(0.0)), "sigma": given.get("sigma", builder.constant(1.0))}
            steps = Scalar.of(builder, "Normal", numbers, shape[:-1])
            return Walk(builder, shape, given["init_dist"], _along(steps, shape[-1] - 1))
        case "RandomWalk":
            steps = given["innovation_dist"]
            if not isinstance(steps, Scalar):
                raise NotLowered(word, "innovations that are not of single numbers")
            return Walk(builder, shape, given["init_dist"], _along(steps, shape[-1] - 1))
        case "MvGaussianRandomWalk" | "MvStudentTRandomWalk":
            return _vector_walk(builder, word, given, shape)
        case "AR":
            return _autoregression(builder, given, shape)
        case "GARCH11":
            return Garch(builder, shape, *(given[name] for name in ("omega", "alpha_1", "beta_1", "initial_vol")))
        case "StickBreakingWeights":
            alpha = given["alpha"]
            return StickBreaking(builder, shape, builder.constant(1.0), alpha, 0.0)
        case "StickBreaking":
            discount = given.get("discount", builder.constant(0.0))
            return StickBreaking(builder, shape, 1.0 - discount, given["alpha"], discount)
        case "Interpolated":
            return Interpolated(builder, shape, *(np.asarray(_data(given[n])) for n in ("x_points", "pdf_points")))
        case "DiracDelta":
            return Point(builder, shape, given["c"])
    raise NotLowered(word, "a distribution that the machine does not know")


def _data(value: Any) -> np.ndarray:
    return value.value if isinstance(value, Var) else np.asarray(value)


def _map(op: str, *values: Any) -> Any:
    return next(value for value in values if isinstance(value, Var)).builder.elementwise(op, *values)


def _last(value: Var) -> Var:
    """A parameter of each series, for all its elements."""
    return value[..., None] if value.ndim else value


def _along(law: Scalar, length: int) -> Scalar:
    """The distribution of one number of each series, for every element of them."""
    return replace(law, shape=(*law.shape, length), parameters=tuple(_last(p) for p in law.parameters))


def _normal_mixture(builder: Builder, given: Mapping[str, Any], shape: tuple[int, ...]) -> Law:
    components = given["w"].shape[-1]
    rest = {name: value for name, value in given.items() if name != "w"}
    normal = Scalar.of(builder, "Normal", rest, (*shape, components))
    return Mixed(builder, shape, given["w"], (normal,))


def _vector_walk(builder: Builder, word: str, given: Mapping[str, Any], shape: tuple[int, ...]) -> Law:
    mu = given["mu"]
    mu = mu[..., None, :] if mu.ndim > 1 else mu
    steps = (*shape[:-2], shape[-2] - 1, shape[-1])
    factor = factor_of(word, given)
    if word == "MvGaussianRandomWalk":
        return Walk(builder, shape, given["init_dist"], MultivariateNormal(builder, steps, mu, factor))
    nu = _last(given["nu"])
    return Walk(builder, shape, given["init_dist"], MultivariateStudent(builder, steps, nu, mu, factor))


def _autoregression(builder: Builder, given: Mapping[str, Any], shape: tuple[int, ...]) -> Law:
    numbers = {name: _last(given[name]) for name in ("sigma", "tau") if name in given}
    constant = bool(given.get("constant", False))
    order = given["rho"].shape[-1] - int(constant)
    noise = Scalar.of(builder, "Normal", numbers, (*shape[:-1], shape[-1] - order))
    return Autoregression(builder, shape, given["rho"], constant, given["init_dist"], noise)


def _squared_distance(builder: Builder, difference: Var, factor: Var) -> Var:
    """Squared length of L⁻¹ d, for vectors d in the last axis."""
    if factor.ndim != 2:
        raise NotLowered("Cholesky factor", "one for each of several vectors")
    rows = difference.reshape(-1, difference.shape[-1])
    return (solve_triangular(factor, rows.T) ** 2).sum(0).reshape(difference.shape[:-1])


@dataclass(frozen=True, eq=False)
class MultivariateStudent(Law):
    """The multivariate Student's t distribution, by the Cholesky factor of its scale matrix."""

    nu: Var
    mu: Var
    factor: Var
    support = 1

    def log_density(self, x: Var) -> Var:
        n, nu = self.shape[-1], self.nu
        distance = _squared_distance(self.builder, (x - self.mu).broadcast_to(self.shape), self.factor)
        norm = _map("gammaln", (nu + n) / 2.0) - _map("gammaln", nu / 2.0)
        norm = norm - 0.5 * n * (_map("log", nu) + LOG_PI) - _map("log", diagonal(self.factor)).sum()
        out = norm - (nu + n) / 2.0 * _map("log1p", distance / nu)
        return _map("where", _map("greater", nu, 0.0), out, -np.inf)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.nu, self.mu, self.factor)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        nu, mu, factor = inputs
        scale = np.sqrt(nu / rng.chisquare(nu, self.shape[:-1]))
        return np.asarray(mu + scale[..., None] * (rng.standard_normal(self.shape) @ np.asarray(factor).T))

    def start(self) -> Var:
        return self.mu.broadcast_to(self.shape)


@dataclass(frozen=True, eq=False)
class DirichletCounts(Law):
    """The Dirichlet-multinomial distribution."""

    n: Var
    a: Var
    support = 1

    def log_density(self, x: Var) -> Var:
        values, n = _counts("DirichletMultinomial", x, self.n, self.shape)
        constant = _log_factorial(n) - _log_factorial(values).sum(axis=-1)
        builder, a = self.builder, self.a.broadcast_to(self.shape)
        rising = builder.log_density("rising", builder.constant(values), 1.0, a).sum(-1)
        return rising - builder.log_density("rising", builder.constant(n), 1.0, a.sum(-1)) + constant

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.n, self.a)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        n, a = inputs
        return multinomial(rng, n, rng.standard_gamma(np.broadcast_to(a, self.shape)))


@dataclass(frozen=True, eq=False)
class OrderedCounts(Law):
    """Multinomial counts of ordered categories."""

    n: Var
    categories: Categories
    support = 1

    def log_density(self, x: Var) -> Var:
        values, n = _counts("OrderedMultinomial", x, self.n, self.shape)
        constant = _log_factorial(n) - _log_factorial(values).sum(axis=-1)
        return (self.categories.logs.broadcast_to(self.shape) * values).sum(-1) + constant

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.n, self.categories.logs)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        n, logs = inputs
        return multinomial(rng, n, np.exp(np.broadcast_to(logs, self.shape)))


def _log_factorial(x: np.ndarray) -> np.ndarray:
    from scipy.special import gammaln

    return np.asarray(gammaln(x + 1.0))


def _counts(word: str, x: Var, n: Var, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Counts and their numbers of trials, which are data."""
    if not (x.constant and n.constant):
        raise NotLowered(word, "counts that depend on parameters")
    values = np.broadcast_to(x.value, shape).astype(np.float64)
    trials = np.broadcast_to(n.value, shape[:-1]).astype(np.float64)
    if np.any(values < 0) or np.any(values.sum(axis=-1) != trials):
        raise NotLowered(word, "counts that do not sum to their number")
    return values, trials


@dataclass(frozen=True, eq=False)
class ConditionalAutoregression(Law):
    """Values of areas, each normal around alpha times the mean of its neighbours; as PyMC, without its constant."""

    mu: Var
    adjacency: Var
    alpha: Var
    tau: Var
    support = 1

    def log_density(self, x: Var) -> Var:
        if not self.adjacency.constant or self.alpha.ndim or self.tau.ndim:
            raise NotLowered("CAR", "neighbours, or parameters of each of several vectors, that are not numbers")
        w = np.asarray(self.adjacency.value, dtype=float)
        if w.ndim != 2 or not np.allclose(w, w.T):
            raise NotLowered("CAR", "an adjacency matrix that is not symmetric")
        neighbours, n = w.sum(axis=0), self.shape[-1]
        roots = np.linalg.eigvalsh(w / np.sqrt(neighbours)[:, None] / np.sqrt(neighbours)[None, :])
        alpha, tau = self.alpha, self.tau
        difference = (x - self.mu).broadcast_to(self.shape)
        rows = difference.reshape(-1, n)
        pulled = (rows * neighbours - alpha * (rows @ w)).reshape(self.shape)
        log_det = n * _map("log", tau) + _map("log", 1.0 - alpha * roots).sum()
        out = 0.5 * (log_det - tau * (difference * pulled).sum(-1))
        inside = _map("logical_and", _map("less", _map("abs", alpha), 1.0), _map("greater", tau, 0.0))
        return _map("where", inside, out, -np.inf)

    def start(self) -> Var:
        return self.mu.broadcast_to(self.shape)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.mu, self.adjacency, self.alpha, self.tau)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        mu, w, alpha, tau = inputs
        factor = np.linalg.cholesky(tau * (np.diag(w.sum(axis=0)) - alpha * w))
        z = rng.standard_normal(self.shape)
        return np.asarray(mu + np.linalg.solve(factor.T, z.reshape(-1, z.shape[-1]).T).T.reshape(self.shape))


@dataclass(frozen=True, eq=False)
class Intrinsic(Law):
    """Values of areas that differ little from their neighbours' and sum to about 0; as PyMC, without its constant."""

    adjacency: Any
    sigma: Var
    deviation: Var
    support = 1

    def log_density(self, x: Var) -> Var:
        w = self.adjacency.value if isinstance(self.adjacency, Var) else np.asarray(self.adjacency)
        first, second = np.nonzero(np.tril(w))
        n, sigma = self.shape[-1], self.sigma
        apart = ((x[..., first] - x[..., second]) ** 2).sum(-1)
        total = x.sum(-1) / (self.deviation * n)
        out = -0.5 * apart / sigma**2 - 0.5 * total**2 - HALF_LOG_2PI - _map("log", self.deviation * n)
        return _map("where", _map("greater", sigma, 0.0), out, -np.inf)

    def start(self) -> Var:
        return self.builder.constant(np.zeros(self.shape))

    @property
    def drawable(self) -> bool:
        return False


@dataclass(frozen=True, eq=False)
class Walk(Law):
    """A series whose first element and whose steps are independent.

    Attributes
    ----------
    initial, steps : Law
        Of numbers, or of vectors.
    """

    initial: Law
    steps: Law

    @property
    def support(self) -> int:  # type: ignore[override]
        return 1 + self.initial.support

    def log_density(self, x: Var) -> Var:
        x = x.broadcast_to(self.shape)
        after, before, first = self._split(x)
        return self.initial.log_density(first) + self.steps.log_density(after - before).sum(-1)

    def _split(self, x: Var) -> tuple[Var, Var, Var]:
        if self.initial.support:
            return x[..., 1:, :], x[..., :-1, :], x[..., 0, :]
        return x[..., 1:], x[..., :-1], x[..., 0]

    def start(self) -> Var:
        first, steps = self.initial.start(), self.steps.start()
        if self.initial.support:
            series = self.builder.concatenate([first[..., None, :], steps], -2)
            series = series.transpose(*range(series.ndim - 2), series.ndim - 1, series.ndim - 2)
            return cumsum(series, -1).transpose(*range(series.ndim - 2), series.ndim - 1, series.ndim - 2)
        return cumsum(self.builder.concatenate([first[..., None], steps], -1), -1)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (*self.initial.inputs, *self.steps.inputs)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        axis, count = -1 - self.initial.support, len(self.initial.inputs)
        first = np.expand_dims(self.initial.draw(rng, inputs[:count]), axis)
        return np.cumsum(np.concatenate([first, self.steps.draw(rng, inputs[count:])], axis=axis), axis=axis)


@dataclass(frozen=True, eq=False)
class Autoregression(Law):
    """A series in which each number is normal around a linear function of the preceding ones."""

    rho: Var
    constant: bool
    initial: Law
    noise: Scalar
    support = 1

    def log_density(self, x: Var) -> Var:
        x, rho = x.broadcast_to(self.shape), self.rho
        order, skip = rho.shape[-1] - int(self.constant), int(self.constant)
        expected = rho[..., 0, None] if self.constant else 0.0
        for lag in range(1, order + 1):
            expected = expected + rho[..., skip + lag - 1, None] * x[..., order - lag : -lag]
        first = self.initial.log_density(x[..., :order])
        first = first if self.initial.support else first.sum(-1)
        return first + self.noise.log_density(x[..., order:] - expected).sum(-1)

    def start(self) -> Var:
        return self.initial.start()[..., -1:].broadcast_to(self.shape)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.rho, *self.initial.inputs, *self.noise.inputs)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        rho, rest, count, skip = inputs[0], inputs[1:], len(self.initial.inputs), int(self.constant)
        order = rho.shape[-1] - skip
        out = np.concatenate([self.initial.draw(rng, rest[:count]), self.noise.draw(rng, rest[count:])], axis=-1)
        for t in range(order, self.shape[-1]):
            for lag in range(1, order + 1):
                out[..., t] += rho[..., skip + lag - 1] * out[..., t - lag]
            if self.constant:
                out[..., t] += rho[..., 0]
        return out


@dataclass(frozen=True, eq=False)
class Garch(Law):
    """A series whose variance depends on its last value and on the last squared number."""

    omega: Var
    alpha: Var
    beta: Var
    initial: Var
    support = 1

    def log_density(self, x: Var) -> Var:
        x, builder, batch = x.broadcast_to(self.shape), self.builder, self.shape[:-1]
        in_time = x.transpose(x.ndim - 1, *range(x.ndim - 1))
        omega, alpha, beta = (value.broadcast_to(batch) for value in (self.omega, self.alpha, self.beta))
        first = (self.initial**2).broadcast_to((1, *batch))
        (later,) = builder.loop(
            self.shape[-1] - 1,
            lambda past, rows: [omega + alpha * rows[0] + beta * past[0][0]],
            [first],
            [in_time[:-1] ** 2],
        )
        deviation = _map("sqrt", builder.concatenate([first, later], 0))
        return builder.log_density("normal", in_time, 0.0, deviation).sum(0)

    def start(self) -> Var:
        return self.builder.constant(np.zeros(self.shape))

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.omega, self.alpha, self.beta, self.initial)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        omega, alpha, beta, first = inputs
        out, variance = rng.standard_normal(self.shape), np.broadcast_to(first**2, self.shape[:-1])
        for t in range(self.shape[-1]):
            if t:
                variance = omega + alpha * out[..., t - 1] ** 2 + beta * variance
            out[..., t] *= np.sqrt(variance)
        return out


@dataclass(frozen=True, eq=False)
class StickBreaking(Law):
    """Weights broken off a stick: break k takes a Beta(first, alpha + k discount) fraction of what is left.

    Attributes
    ----------
    first, alpha : Var
        Numbers, or one for each vector of weights.
    discount : Var or float
    """

    first: Var
    alpha: Var
    discount: Any
    support = 1

    @property
    def _betas(self) -> tuple[Var, Var]:
        """Both parameters of the beta distribution of each break."""
        discount = _last(self.discount) if isinstance(self.discount, Var) else self.discount
        second = _last(self.alpha) + discount * np.arange(1.0, self.shape[-1])
        shape = np.broadcast_shapes(_last(self.first).shape, second.shape, (self.shape[-1] - 1,))
        return _last(self.first).broadcast_to(shape), second.broadcast_to(shape)

    def log_density(self, x: Var) -> Var:
        x = x.broadcast_to(self.shape)
        a, b = self._betas
        # What is left of the stick before each break.
        left = cumsum(x[..., ::-1], -1)[..., ::-1]
        logs = _map("log", _map("maximum", left, _LEAST))
        before, after, shares = logs[..., :-1], logs[..., 1:], _map("log", _map("maximum", x[..., :-1], _LEAST))
        constant = _map("gammaln", a) + _map("gammaln", b) - _map("gammaln", a + b)
        terms = (a - 1.0) * shares - a * before + (b - 1.0) * (after - before) - constant
        return terms.sum(-1)

    def transform(self) -> Transform:
        return SIMPLEX

    def start(self) -> Var:
        a, b = self._betas
        share = (a / (a + b)).broadcast_to((*self.shape[:-1], self.shape[-1] - 1))
        left = cumprod(1.0 - share, -1)
        before = self.builder.concatenate([np.ones((*self.shape[:-1], 1)), left], -1)
        return self.builder.concatenate([before[..., :-1] * share, left[..., -1:]], -1)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return self._betas

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        first, second = inputs
        share = rng.beta(first, second, (*self.shape[:-1], self.shape[-1] - 1))
        left = np.cumprod(1.0 - share, axis=-1)
        before = np.concatenate([np.ones((*self.shape[:-1], 1)), left], axis=-1)
        return np.concatenate([before[..., :-1] * share, left[..., -1:]], axis=-1)


@dataclass(frozen=True, eq=False)
class Interpolated(Law):
    """A density that is linear between points; numbers are along all axes of the node."""

    points: np.ndarray
    heights: np.ndarray

    @property
    def _density(self) -> tuple[np.ndarray, np.ndarray]:
        """The density at the points, and its slope after them."""
        heights = self.heights / np.trapezoid(self.heights, self.points)
        return heights, np.diff(heights) / np.diff(self.points)

    def log_density(self, x: Var) -> Var:
        x = x.broadcast_to(self.shape)
        (heights, slopes), points = self._density, self.points
        each = heights[:-1] + slopes * (x[..., None] - points[:-1])
        last = np.append(points[1:-1], np.inf)
        here = _map("logical_and", _map("greater_equal", x[..., None], points[:-1]), _map("less", x[..., None], last))
        inside = _map("less_equal", x, points[-1])
        height = _map("where", here, each, 0.0).sum(-1)
        return _map("log", _map("where", inside, height, 0.0))

    def transform(self) -> Transform:
        return interval(self.builder.constant(self.points[0]), self.builder.constant(self.points[-1]))

    def start(self) -> Var:
        moment = self.points * self._density[0]
        mean = float(np.sum(np.diff(self.points) * (moment[1:] + moment[:-1])) / 2.0)
        return self.builder.constant(np.full(self.shape, mean))

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        heights, slopes = self._density
        masses = np.diff(self.points) * (heights[1:] + heights[:-1]) / 2.0
        total = np.append(0.0, np.cumsum(masses))
        u = rng.random(self.shape) * total[-1]
        k = np.clip(np.searchsorted(total, u, side="right") - 1, 0, len(masses) - 1)
        rest, height, slope = u - total[k], heights[k], slopes[k]
        # The root of height t + slope t² / 2 = rest that does not cancel.
        return self.points[k] + 2.0 * rest / (height + np.sqrt(np.maximum(height**2 + 2.0 * slope * rest, 0.0)))


@dataclass(frozen=True, eq=False)
class Point(Law):
    """One value, with certainty."""

    c: Var

    def log_density(self, x: Var) -> Var:
        return _map("where", _map("equal", x.broadcast_to(self.shape), self.c), self.builder.constant(0.0), -np.inf)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.c,)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        return np.broadcast_to(inputs[0], self.shape).copy()
