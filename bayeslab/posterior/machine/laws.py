"""Distributions of nodes in programs of the machine: log densities, transforms, and starting points as in PyMC."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.distributions import DISTRIBUTIONS, maths
from bayeslab.posterior.machine.arrays import Instruction, NotLowered, Var
from bayeslab.posterior.machine.functions import diagonal, logsumexp, solve_triangular, stack
from bayeslab.posterior.machine.program import Builder
from bayeslab.posterior.machine.transforms import (
    CIRCULAR,
    LOG,
    LOG_ODDS,
    SIMPLEX,
    CholeskyPacked,
    Transform,
    ZeroSum,
    interval,
)

__all__ = [
    "Categories",
    "CholeskyFactor",
    "Counts",
    "Dirichlet",
    "Law",
    "Mixed",
    "MultivariateNormal",
    "Scalar",
    "ZeroSumNormal",
    "beside",
    "chosen",
    "multinomial",
    "ordered_categories",
]


@dataclass(frozen=True, eq=False)
class Law(ABC):
    """The distribution of a node.

    Attributes
    ----------
    builder : Builder
    shape : tuple of int
        Of the node.
    """

    builder: Builder
    shape: tuple[int, ...]

    #: Number of last axes of one draw.
    support = 0

    @abstractmethod
    def log_density(self, x: Var) -> Var:
        """Log densities of draws: an array over the axes before the support."""

    def add(self, x: Var, where: np.ndarray | None = None, weight: np.ndarray | None = None) -> None:
        """Add the log density of a node to the total, without the cells where ``where`` is false."""
        if where is None and weight is None:
            self.builder.add(self.log_density(x))
            return
        factor = np.ones(self.shape) if weight is None else np.asarray(weight, dtype=float)
        factor = factor if where is None else np.where(where, factor, 0.0)
        rows = np.flatnonzero(factor)
        each = self.log_density(x).broadcast_to(self.shape).reshape(-1)[rows]
        self.builder.add(each * factor.reshape(-1)[rows])

    def transform(self) -> Transform | None:
        """PyMC's default transform; None for none."""
        return None

    def start(self) -> Var:
        """PyMC's support point."""
        raise NotLowered(type(self).__name__, "its starting point is not known")

    @property
    def inputs(self) -> tuple[Var, ...]:
        """The parameters that draws need."""
        return ()

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        """A draw, given the values of the parameters.

        Raises
        ------
        NotImplementedError
            There are no draws, as of an improper prior.
        """
        raise NotImplementedError

    def draws(self, rng: np.random.Generator, inputs: Sequence[np.ndarray], n: int) -> np.ndarray:
        """Draws (n, ...), one at each of n values of the parameters (n, ...)."""
        return np.stack([self.draw(rng, [value[i] for value in inputs]) for i in range(n)])

    @property
    def improper(self) -> bool:
        """Whether the density has no integral."""
        return False

    @property
    def drawable(self) -> bool:
        """Whether the distribution can be drawn from."""
        return not self.improper

    @property
    def centred(self) -> bool:
        """Whether it is a location-scale distribution whose scale depends on other parameters."""
        return False

    @property
    def exchangeable(self) -> bool:
        """Whether the numbers along the last axis are known to be independent with one distribution."""
        return False

    def rows(self, where: np.ndarray) -> Law:
        """The distribution of the cells where a mask is true, as a vector."""
        raise NotLowered(type(self).__name__, "missing cells of it")


def beside(value: np.ndarray, axes: int) -> np.ndarray:
    """An array with its first axis, then axes of length one, then its others, ``axes`` in total after the first."""
    return value.reshape(len(value), *[1] * (axes - value.ndim + 1), *value.shape[1:])


def chosen(rng: np.random.Generator, logs: np.ndarray) -> np.ndarray:
    """Categories drawn with probabilities whose logarithms, up to a constant, are along the last axis.

    Raises
    ------
    ValueError
        A probability is not a number.
    """
    weights = np.exp(logs - logs.max(axis=-1, keepdims=True))
    if np.isnan(weights).any():
        raise ValueError("p contains NaNs")
    ends = weights.cumsum(axis=-1)
    return np.asarray((rng.random((*logs.shape[:-1], 1)) * ends[..., -1:] >= ends[..., :-1]).sum(axis=-1))


def _map(op: str, *values: Any) -> Any:
    for value in values:
        if isinstance(value, Var):
            return value.builder.elementwise(op, *values)
    raise TypeError("no argument belongs to a program")


def _triangle(lower: Var, upper: Var, c: Var) -> Var:
    return (lower + upper + c) / 3.0


def _truncated_normal(mu: Var, sigma: Var, lower: Var, upper: Var) -> Var:
    ends = [end.constant and bool(np.all(np.isinf(end.value))) for end in (lower, upper)]
    if ends == [True, True]:
        return mu
    if ends[0]:
        return upper - 1.0
    return lower + 1.0 if ends[1] else (lower + upper) / 2.0


_STARTS: Mapping[str, Callable[..., Any]] = {
    "AsymmetricLaplace": lambda kappa, mu, b: mu - (kappa - 1.0 / kappa) / b,
    "Beta": lambda alpha, beta: alpha / (alpha + beta),
    "Cauchy": lambda alpha, beta: alpha,
    "ChiSquared": lambda nu: nu,
    "ExGaussian": lambda mu, sigma, nu: mu + nu,
    "Exponential": lambda lam: 1.0 / lam,
    "Flat": lambda: 0.0,
    "Gamma": lambda alpha, beta: alpha / beta,
    "Gumbel": lambda mu, beta: mu + beta * np.euler_gamma,
    "HalfCauchy": lambda beta: beta,
    "HalfFlat": lambda: 1.0,
    "HalfNormal": lambda sigma: sigma,
    "HalfStudentT": lambda nu, sigma: sigma,
    "InverseGamma": lambda alpha, beta: _map("where", alpha > 1.0, beta / (alpha - 1.0), beta / (alpha + 1.0)),
    "Laplace": lambda mu, b: mu,
    "LogNormal": lambda mu, sigma: _map("exp", mu + 0.5 * sigma**2),
    "Logistic": lambda mu, s: mu,
    "Moyal": lambda mu, sigma: mu + sigma * (np.euler_gamma + math.log(2.0)),
    "Normal": lambda mu, sigma: mu,
    "Pareto": lambda alpha, m: m * _map("exp", math.log(2.0) / alpha),
    "SkewNormal": lambda alpha, mu, sigma: mu + sigma * math.sqrt(2.0 / math.pi) * alpha / _map("sqrt", 1.0 + alpha**2),
    "StudentT": lambda nu, mu, sigma: mu,
    "Triangular": _triangle,
    "TruncatedNormal": _truncated_normal,
    "Uniform": lambda lower, upper: (lower + upper) / 2.0,
    "VonMises": lambda mu, kappa: mu,
    "Wald": lambda mu, lam, alpha: mu + alpha,
    "Weibull": lambda alpha, beta: beta * _map("exp", _map("gammaln", 1.0 + 1.0 / alpha)),
}
_POSITIVE = frozenset(
    (
        *("ChiSquared", "Exponential", "Gamma", "HalfCauchy", "HalfFlat", "HalfNormal", "HalfStudentT"),
        *("InverseGamma", "LogNormal", "Wald", "Weibull"),
    )
)
_BETWEEN: Mapping[str, Callable[..., tuple[Var, Var]]] = {
    "Uniform": lambda lower, upper: (lower, upper),
    "Triangular": lambda lower, upper, c: (lower, upper),
    "TruncatedNormal": lambda mu, sigma, lower, upper: (lower, upper),
}


@dataclass(frozen=True, eq=False)
class Scalar(Law):
    """A univariate distribution.

    Attributes
    ----------
    word : str
        Its name in the language.
    parameters : tuple of Var
        Those of its ``canonical``, which broadcast to the shape of the node.
    """

    word: str
    parameters: tuple[Var, ...]

    @classmethod
    def of(cls, builder: Builder, word: str, given: Mapping[str, Any], shape: tuple[int, ...]) -> Scalar:
        """The distribution with parameters by PyMC's names."""
        functions = maths(word)
        if functions is None:
            raise NotLowered(word, "a distribution that the machine does not know")
        given = {name: builder.as_var(value) for name, value in given.items()}
        logits = given.pop("logit_p", None)
        if logits is not None:
            given["p"] = builder.elementwise("sigmoid", logits)
        if word == "AsymmetricLaplace" and "q" in given:
            q = given.pop("q")
            given["kappa"] = _map("sqrt", q / (1.0 - q))
        parameters = functions.canonical(**given)
        return cls(builder, shape, word, tuple(builder.as_var(value) for value in parameters))

    @property
    def name(self) -> str:
        """The module of the distribution."""
        return DISTRIBUTIONS.file(self.word)

    def log_density(self, x: Var) -> Var:
        return self.builder.log_density(self.name, x.broadcast_to(self.shape), *self.parameters)

    def add(self, x: Var, where: np.ndarray | None = None, weight: np.ndarray | None = None) -> None:
        self.builder.density(self.name, x.broadcast_to(self.shape), *self.parameters, where=where, weight=weight)

    def transform(self) -> Transform | None:
        if self.word in _POSITIVE:
            return LOG
        if self.word == "Beta":
            return LOG_ODDS
        if self.word == "VonMises":
            return CIRCULAR
        if self.word in _BETWEEN:
            return interval(*_BETWEEN[self.word](*self.parameters))
        if self.word == "Pareto":
            return interval(self.parameters[1], self.builder.constant(np.inf))
        return None

    def start(self) -> Var:
        if self.word not in _STARTS:
            raise NotLowered(self.word, "a parameter with this distribution: its starting point is not known")
        return self.builder.as_var(_STARTS[self.word](*self.parameters)).broadcast_to(self.shape)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return self.parameters

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        functions = maths(self.word)
        if functions is None or self.improper:
            raise NotImplementedError
        return np.asarray(functions.draw(rng, self.shape, *inputs), dtype=np.float64)

    def draws(self, rng: np.random.Generator, inputs: Sequence[np.ndarray], n: int) -> np.ndarray:
        functions = maths(self.word)
        if functions is None or self.improper:
            raise NotImplementedError
        parameters = [beside(value, len(self.shape)) for value in inputs]
        return np.asarray(functions.draw(rng, (n, *self.shape), *parameters), dtype=np.float64)

    @property
    def improper(self) -> bool:
        return self.word in ("Flat", "HalfFlat")

    @property
    def centred(self) -> bool:
        return self.word in ("Normal", "Laplace", "Logistic", "StudentT") and not self.parameters[-1].constant

    @property
    def exchangeable(self) -> bool:
        def alike(p: Var) -> bool:
            repeated = p.ndim == 0 or p.shape[-1] == 1 or p.strides[-1] == 0
            return repeated or (p.constant and not np.any(np.diff(p.value, axis=-1)))

        return all(map(alike, self.parameters))

    def rows(self, where: np.ndarray) -> Scalar:
        at = np.nonzero(where)
        parameters = tuple(p if p.ndim == 0 else p.broadcast_to(self.shape)[at] for p in self.parameters)
        return replace(self, shape=(len(at[0]),), parameters=parameters)


@dataclass(frozen=True, eq=False)
class Categories(Law):
    """One of several categories.

    Attributes
    ----------
    logs : Var
        Log probabilities, categories last.
    """

    logs: Var

    def log_density(self, x: Var) -> Var:
        if x.summed:
            table = self.logs.broadcast_to((*self.shape, self.logs.shape[-1]))
            return table[(*np.indices(self.shape), x.broadcast_to(self.shape))]
        if not x.constant:
            raise NotLowered("Categorical", "categories that depend on parameters")
        values = np.broadcast_to(x.value, self.shape)
        most = self.logs.shape[-1] - 1
        if np.any((values < 0) | (values > most)):
            raise NotLowered("Categorical", "categories outside of those with a probability")
        table = self.logs.broadcast_to((*self.shape, most + 1))
        at: Any = np.indices(self.shape) if self.shape else []
        return table[(*at, values.astype(np.int64))]

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.logs,)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        return self.draws(rng, [inputs[0][None]], 1)[0]

    def draws(self, rng: np.random.Generator, inputs: Sequence[np.ndarray], n: int) -> np.ndarray:
        logs = beside(inputs[0], len(self.shape) + 1)
        return chosen(rng, np.broadcast_to(logs, (n, *self.shape, logs.shape[-1])))

    def rows(self, where: np.ndarray) -> Categories:
        logs = self.logs.broadcast_to((*self.shape, self.logs.shape[-1]))[np.nonzero(where)]
        return replace(self, shape=(int(np.sum(where)),), logs=logs)


def ordered_categories(
    builder: Builder, word: str, eta: Any, cutpoints: Any, sigma: Any, shape: tuple[int, ...]
) -> Categories:
    """The categories of an ordered logistic or probit model, as :func:`bayeslab.families.graph.tails.ordered`."""
    gaps = _gaps(builder, builder.as_var(cutpoints))
    at = builder.as_var(cutpoints) - builder.as_var(eta)[..., None]
    if word == "OrderedProbit":
        at = at / builder.as_var(sigma)[..., None]
    a, b = at[..., :-1], at[..., 1:]
    if word == "OrderedProbit":
        first, last = _map("log_normal_cdf", at[..., :1]), _map("log_normal_cdf", -at[..., -1:])
        left = a + b < 0.0
        u, v = _map("where", left, -b, a), _map("where", left, -a, b)
        big = _map("log_normal_cdf", -u)
        between = big + _map("log1mexp", _map("log_normal_cdf", -v) - big)
    else:
        first, last = -_map("softplus", -at[..., :1]), -_map("softplus", at[..., -1:])
        between = _map("log1mexp", -gaps) - _map("softplus", a) - _map("softplus", -b)
    return Categories(builder, shape, builder.concatenate([first, between, last], -1))


def _gaps(builder: Builder, cutpoints: Var) -> Var:
    """Distances between cutpoints: the terms of their cumulative sum, or less accurate differences."""
    after, buffer = cutpoints[..., 1:], cutpoints.buffer
    for item in builder.instructions:
        if isinstance(item, Instruction) and item.op == "cumsum" and item.output is not None:
            (terms,), n = item.inputs, item.output.shape[-1]
            whole = cutpoints.shape[-1:] == (n,) and cutpoints.strides[-1:] == (1,) and not cutpoints.offset % n
            if item.output.buffer is buffer and whole and terms.strides == item.output.strides:
                return Var(builder, terms.buffer, after.shape, after.strides, after.offset + terms.offset)
    return after - cutpoints[..., :-1]


@dataclass(frozen=True, eq=False)
class Counts(Law):
    """The multinomial distribution."""

    n: Var
    p: Var
    support = 1

    def log_density(self, x: Var) -> Var:
        if not (x.constant and self.n.constant):
            raise NotLowered("Multinomial", "counts that depend on parameters")
        from scipy.special import gammaln

        values, n = np.broadcast_to(x.value, self.shape), np.broadcast_to(self.n.value, self.shape[:-1])
        if np.any(values < 0) or np.any(values.sum(axis=-1) != n):
            raise NotLowered("Multinomial", "counts that do not sum to their number")
        constant = gammaln(n + 1.0) - gammaln(values + 1.0).sum(axis=-1)
        logs = _map("log", self.p).broadcast_to(self.shape)
        # A count of 0 of an impossible category is possible.
        terms = logs * values if np.all(values) else _map("where", values > 0, logs * values, 0.0)
        return terms.sum(-1) + constant

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.n, self.p)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        n, p = inputs
        return multinomial(rng, n, np.broadcast_to(p, self.shape))


def multinomial(rng: np.random.Generator, n: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Counts with probabilities along the last axis."""
    return np.asarray(rng.multinomial(np.asarray(n, dtype=np.int64), p / p.sum(axis=-1, keepdims=True)))


@dataclass(frozen=True, eq=False)
class Dirichlet(Law):
    """Shares that sum to one along the last axis."""

    a: Var
    support = 1

    def log_density(self, x: Var) -> Var:
        a = self.a
        constant = _map("gammaln", a.broadcast_to((*a.shape[:-1], self.shape[-1])).sum(-1)) - _map("gammaln", a).sum(-1)
        power = (a - 1.0).broadcast_to(self.shape)
        if power.constant and not np.any(power.value):
            return constant.broadcast_to(self.shape[:-1])
        return (power * _map("log", x)).sum(-1) + constant

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.a,)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        sizes = rng.standard_gamma(np.broadcast_to(inputs[0], self.shape))
        return np.asarray(sizes / sizes.sum(axis=-1, keepdims=True))

    def transform(self) -> Transform:
        return SIMPLEX

    def start(self) -> Var:
        a = self.a.broadcast_to((*self.a.shape[:-1], self.shape[-1]))
        return (a / a.sum(-1)[..., None]).broadcast_to(self.shape)


@dataclass(frozen=True, eq=False)
class ZeroSumNormal(Law):
    """Normal numbers that sum to zero along the last axes."""

    sigma: Var
    axes: int

    @property
    def support(self) -> int:  # type: ignore[override]
        return self.axes

    def log_density(self, x: Var) -> Var:
        within = self.shape[len(self.shape) - self.axes :]
        share = math.prod(n - 1 for n in within) / math.prod(within)
        each = -0.5 * (x / self.sigma) ** 2 - share * (_map("log", self.sigma) + HALF_LOG_2PI)
        return each.sum(tuple(range(-self.axes, 0)))

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.sigma,)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        z = rng.standard_normal(self.shape)
        for axis in range(-self.axes, 0):
            z = z - z.mean(axis=axis, keepdims=True)
        return z * inputs[0]

    def transform(self) -> Transform:
        return ZeroSum(self.axes)

    def start(self) -> Var:
        return self.builder.constant(np.zeros(self.shape))


@dataclass(frozen=True, eq=False)
class MultivariateNormal(Law):
    """The multivariate normal distribution, by the Cholesky factor of its covariance."""

    mu: Var
    factor: Var
    support = 1

    def log_density(self, x: Var) -> Var:
        n = self.shape[-1]
        if self.factor.ndim != 2:
            raise NotLowered("MvNormal", "a covariance for each row")
        difference = (x - self.mu).broadcast_to(self.shape)
        rows = difference.reshape(-1, n)
        z = solve_triangular(self.factor, rows.T)
        constant = n * HALF_LOG_2PI + _map("log", diagonal(self.factor)).sum()
        return (-0.5 * (z**2).sum(0) - constant).reshape(self.shape[:-1])

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.mu, self.factor)

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        mu, factor = inputs
        return np.asarray(mu + rng.standard_normal(self.shape) @ np.asarray(factor).T)

    def start(self) -> Var:
        return self.mu.broadcast_to(self.shape)


@dataclass(frozen=True, eq=False)
class CholeskyFactor(Law):
    """The packed Cholesky factor of a covariance matrix with LKJ correlations.

    Attributes
    ----------
    eta : float
    n : int
    deviations : Law
        Of the standard deviations.
    log_constant : float
        Of the density of the correlations.
    """

    eta: float
    n: int
    deviations: Law
    log_constant: float
    support = 1

    def log_density(self, x: Var) -> Var:
        n, at = self.n, CholeskyPacked(self.n).diagonal
        squares = x**2
        first = [0, *(at[:-1] + 1)]
        variances = stack([squares[a : b + 1].sum() for a, b in zip(first, at, strict=True)])
        deviations = _map("sqrt", variances)
        diagonal_ = x[at] / deviations
        power = 2.0 * self.eta - 3.0 + n - np.arange(n) + 1.0
        lkj = (power * _map("log", diagonal_)).sum() - (np.arange(n) * _map("log", deviations)).sum()
        return lkj + self.deviations.log_density(deviations).sum() + self.log_constant

    @property
    def inputs(self) -> tuple[Var, ...]:
        return self.deviations.inputs

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        # Partial correlations are independent Betas on (-1, 1): see `log_constant`.
        n = self.n
        rows, columns = np.tril_indices(n, -1)
        alpha = self.eta + (n - 2 - columns) / 2.0
        partial = np.zeros((n, n))
        partial[rows, columns] = 2.0 * rng.beta(alpha, alpha) - 1.0
        rest = np.cumprod(1.0 - partial**2, axis=1)
        unexplained = np.concatenate([np.ones((n, 1)), rest[:, :-1]], axis=1)
        factor = (partial + np.eye(n)) * np.sqrt(unexplained)
        chol = self.deviations.draw(rng, inputs)[:, None] * factor
        return np.asarray(chol[np.tril_indices(n)])

    def transform(self) -> Transform:
        return CholeskyPacked(self.n)

    def start(self) -> Var:
        out = np.zeros(self.shape)
        out[CholeskyPacked(self.n).diagonal] = 1.0
        return self.builder.constant(out)


@dataclass(frozen=True, eq=False)
class Mixed(Law):
    """A mixture of distributions of single numbers, components along an axis that is last.

    Attributes
    ----------
    weights : Var
        Components last.
    components : tuple of Law
        One for all components, whose shape ends with them, or one for each.
    """

    weights: Var
    components: tuple[Law, ...]

    @property
    def support(self) -> int:  # type: ignore[override]
        return self.components[0].support

    def log_density(self, x: Var) -> Var:
        if any(component.support != self.support for component in self.components) or self.support > 1:
            raise NotLowered("Mixture", "components that are matrices")
        x = x.broadcast_to(self.shape)
        if len(self.components) == 1:
            each = self.components[0].log_density(x[..., None, :] if self.support else x[..., None])
        else:
            each = stack([component.log_density(x) for component in self.components], -1)
        batch = self.shape[: len(self.shape) - self.support]
        return logsumexp(_map("log", self.weights) + each, -1).broadcast_to(batch)

    @property
    def inputs(self) -> tuple[Var, ...]:
        return (self.weights, *(var for component in self.components for var in component.inputs))

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        return self.draws(rng, [value[None] for value in inputs], 1)[0]

    def draws(self, rng: np.random.Generator, inputs: Sequence[np.ndarray], n: int) -> np.ndarray:
        weights, *rest = inputs
        batch = self.shape[: len(self.shape) - self.support]
        with np.errstate(divide="ignore"):
            logs = np.log(beside(weights, len(batch) + 1))
        which = chosen(rng, np.broadcast_to(logs, (n, *batch, logs.shape[-1])))
        if len(self.components) == 1:
            each = self.components[0].draws(rng, rest, n)
        else:
            parts, at = [], 0
            for component in self.components:
                count = len(component.inputs)
                parts.append(component.draws(rng, rest[at : at + count], n))
                at += count
            each = np.stack(parts, axis=1 + len(batch))
        index = which.reshape(*which.shape, 1, *[1] * self.support)
        return np.take_along_axis(each, index, axis=1 + len(batch)).squeeze(1 + len(batch))
