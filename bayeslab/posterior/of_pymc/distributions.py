"""PyMC's random variables as laws of the machine.

Distributions that the machine has are matched by the class of their operation, so that their densities are fused. The
log densities of others are read from PyMC's graphs, operation by operation.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.scalar as ps
from pymc.distributions.distribution import DiracDelta
from pymc.distributions.mixture import _HurdleRV as HurdleRV
from pymc.distributions.multivariate import _lkj_normalizing_constant as lkj_constant
from pymc.distributions.multivariate import _LKJCholeskyCovRV as LKJCholeskyCovRV
from pymc.distributions.truncated import TruncatedRV
from pymc.logprob.abstract import _logprob_helper as logprob_of
from pytensor.graph.basic import Variable
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import Dot
from pytensor.tensor.random.op import RandomVariable

from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.functions import cholesky
from bayeslab.posterior.machine.laws import (
    Categories,
    CholeskyFactor,
    Counts,
    Dirichlet,
    Law,
    Mixed,
    MultivariateNormal,
    Scalar,
)
from bayeslab.posterior.machine.vector_laws import Interpolated, Point
from bayeslab.posterior.machine.wrapped import Censored, Truncated
from bayeslab.posterior.of_pymc.reader import Reader

__all__ = ["GraphLaw", "law_of"]


def law_of(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    """The distribution of a random variable, given its parents.

    Parameters
    ----------
    rv
        A random variable whose operation is one of PyMC's distributions.
    shape
        Of its value.
    """
    kind = type(rv.owner.op)
    try:
        if kind in _SCALARS:
            return _scalar(reader, rv, shape, *_SCALARS[kind])
        if kind in _OTHERS:
            return _OTHERS[kind](reader, rv, shape)
    except NotLowered:
        pass  # The machine has no such law: its density may still be known by its parts.
    return GraphLaw(reader.builder, shape, reader, rv)


@dataclass(frozen=True, eq=False)
class GraphLaw(Law):
    """A distribution whose log density is read from PyMC's graph.

    Attributes
    ----------
    reader : Reader
    rv : Variable
    """

    reader: Reader
    rv: Any

    @property
    def support(self) -> int:  # type: ignore[override]
        return int(self.rv.owner.op.ndim_supp or 0)

    def log_density(self, x: Var) -> Var:
        value = self.rv.type()
        self.reader.known[value] = x
        try:
            with warnings.catch_warnings():
                # About parents that PyMC has copied: they are then unknown here, and the density is derived otherwise.
                warnings.filterwarnings("ignore", message="RandomVariables .* were found in the derived graph")
                graph = logprob_of(self.rv, value)
        except NotImplementedError:
            raise NotLowered(type(self.rv.owner.op).__name__, "a distribution without a log density") from None
        return self.reader.var(graph)

    @property
    def inputs(self) -> tuple[Var, ...]:
        if not isinstance(self.rv.owner.op, RandomVariable):
            return ()
        return tuple(self.reader.var(v) for v in self.rv.owner.op.dist_params(self.rv.owner))

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        op = self.rv.owner.op
        if not isinstance(op, RandomVariable):
            raise NotImplementedError
        size = self.shape[: len(self.shape) - self.support]
        return np.asarray(op.rng_fn(rng, *inputs, size), dtype=np.float64)


# ------------------------------------------------------------------------- distributions of numbers


def _inverse(reader: Reader, variable: Variable) -> Var:
    """1 / x: of a variable that is itself 1 / y it is y."""
    if _is(variable, ps.Reciprocal):
        return reader.var(variable.owner.inputs[0])
    return 1.0 / reader.var(variable)


def _is(variable: Variable, kind: type) -> bool:
    """Whether a function of numbers made a variable."""
    owner = variable.owner
    return owner is not None and isinstance(owner.op, Elemwise) and isinstance(owner.op.scalar_op, kind)


def _plain(variable: Variable) -> Variable:
    """The variable without axes of length one before its own."""
    owner = variable.owner
    while owner is not None and isinstance(owner.op, DimShuffle) and owner.op.is_left_expand_dims:
        variable = owner.inputs[0]
        owner = variable.owner
    return variable


def _counts_mean(reader: Reader, n: Variable, p: Variable) -> Var:
    """The mean of the negative binomial: of p = sigmoid(log n - log mu) it is mu."""
    if _is(p, Sigmoid):
        inner = p.owner.inputs[0]
        if _is(inner, ps.Sub):
            first, second = (_plain(v) for v in inner.owner.inputs)
            if _is(first, ps.Log) and _is(second, ps.Log) and _plain(first.owner.inputs[0]) is _plain(n):
                return reader.var(second.owner.inputs[0])
    share = reader.var(p)
    return reader.var(n) * (1.0 - share) / share


type _Parameters = Callable[[Reader, Sequence[Variable]], Sequence[Var]]


def _in_order(*order: int) -> _Parameters:
    return lambda reader, given: [reader.var(given[k]) for k in order]


def _half_normal(reader: Reader, given: Sequence[Variable]) -> Sequence[Var]:
    place = reader.numbers(given[0])
    if place is None or np.any(place != 0.0):
        raise NotLowered("HalfNormal", "a location that is not 0")
    return [reader.var(given[1])]


def _rice(reader: Reader, given: Sequence[Variable]) -> Sequence[Var]:
    b, sigma = map(reader.var, given)
    return [b * sigma, sigma]


#: By class of an operation: the distribution's name, and its parameters from those of the operation.
_SCALARS: Mapping[type, tuple[str, _Parameters]] = {
    pm.AsymmetricLaplace.rv_type: ("AsymmetricLaplace", _in_order(1, 2, 0)),
    pm.Bernoulli.rv_type: ("Bernoulli", _in_order(0)),
    pm.BetaBinomial.rv_type: ("BetaBinomial", _in_order(1, 2, 0)),
    pm.Beta.rv_type: ("Beta", _in_order(0, 1)),
    pm.Binomial.rv_type: ("Binomial", _in_order(0, 1)),
    pm.Cauchy.rv_type: ("Cauchy", _in_order(0, 1)),
    pm.DiscreteUniform.rv_type: ("DiscreteUniform", _in_order(0, 1)),
    pm.DiscreteWeibull.rv_type: ("DiscreteWeibull", _in_order(0, 1)),
    pm.ExGaussian.rv_type: ("ExGaussian", _in_order(0, 1, 2)),
    pm.Exponential.rv_type: ("Exponential", lambda reader, given: [_inverse(reader, given[0])]),
    pm.Flat.rv_type: ("Flat", _in_order()),
    pm.Gamma.rv_type: ("Gamma", lambda reader, given: [reader.var(given[0]), _inverse(reader, given[1])]),
    pm.Geometric.rv_type: ("Geometric", _in_order(0)),
    pm.Gumbel.rv_type: ("Gumbel", _in_order(0, 1)),
    pm.HalfCauchy.rv_type: ("HalfCauchy", _in_order(0)),
    pm.HalfFlat.rv_type: ("HalfFlat", _in_order()),
    pm.HalfNormal.rv_type: ("HalfNormal", _half_normal),
    pm.HalfStudentT.rv_type: ("HalfStudentT", _in_order(0, 1)),
    pm.InverseGamma.rv_type: ("InverseGamma", _in_order(0, 1)),
    pm.Kumaraswamy.rv_type: ("Kumaraswamy", _in_order(0, 1)),
    pm.Laplace.rv_type: ("Laplace", _in_order(0, 1)),
    pm.LogNormal.rv_type: ("LogNormal", _in_order(0, 1)),
    pm.Logistic.rv_type: ("Logistic", _in_order(0, 1)),
    pm.Moyal.rv_type: ("Moyal", _in_order(0, 1)),
    pm.NegativeBinomial.rv_type: (
        "NegativeBinomial",
        lambda reader, given: [_counts_mean(reader, *given), reader.var(given[0])],
    ),
    pm.Normal.rv_type: ("Normal", _in_order(0, 1)),
    pm.Pareto.rv_type: ("Pareto", _in_order(0, 1)),
    pm.Poisson.rv_type: ("Poisson", _in_order(0)),
    pm.Rice.rv_type: (
        "Rice",
        lambda reader, given: [reader.var(given[0]) * reader.var(given[1]), reader.var(given[1])],
    ),
    pm.SkewNormal.rv_type: ("SkewNormal", _in_order(2, 0, 1)),
    pm.SkewStudentT.rv_type: ("SkewStudentT", _in_order(0, 1, 2, 3)),
    pm.StudentT.rv_type: ("StudentT", _in_order(0, 1, 2)),
    pm.Triangular.rv_type: ("Triangular", _in_order(0, 2, 1)),
    pm.TruncatedNormal.rv_type: ("TruncatedNormal", _in_order(0, 1, 2, 3)),
    pm.Uniform.rv_type: ("Uniform", _in_order(0, 1)),
    pm.VonMises.rv_type: ("VonMises", _in_order(0, 1)),
    pm.Wald.rv_type: ("Wald", _in_order(0, 1, 2)),
    pm.Weibull.rv_type: ("Weibull", _in_order(0, 1)),
}


def _scalar(reader: Reader, rv: Variable, shape: tuple[int, ...], word: str, parameters: _Parameters) -> Law:
    given = rv.owner.op.dist_params(rv.owner)
    return Scalar(reader.builder, shape, word, tuple(parameters(reader, given)))


# -------------------------------------------------------------------------------- other distributions


@dataclass(frozen=True, eq=False)
class _Within(Law):
    """A distribution whose density is zero unless its parameters are valid.

    Attributes
    ----------
    base : Law
    valid : Var
        Condition for each draw, or for all.
    """

    base: Law
    valid: Var

    @property
    def support(self) -> int:  # type: ignore[override]
        return self.base.support

    def log_density(self, x: Var) -> Var:
        return _only(self.valid, self.base.log_density(x))

    def add(self, x: Var, where: np.ndarray | None = None, weight: np.ndarray | None = None) -> None:
        self.base.add(x, where, weight)
        self.builder.add(_only(self.valid, self.builder.constant(0.0)))

    @property
    def inputs(self) -> tuple[Var, ...]:
        return self.base.inputs

    def draw(self, rng: np.random.Generator, inputs: Sequence[np.ndarray]) -> np.ndarray:
        return self.base.draw(rng, inputs)


def _only(valid: Var, value: Var) -> Var:
    shape = np.broadcast_shapes(valid.shape, value.shape)
    return valid.builder.elementwise("where", valid.broadcast_to(shape), value.broadcast_to(shape), -np.inf)


def _with_shares(law: Law, p: Var) -> Law:
    """The law, where probabilities along the last axis of an array are between 0 and 1 and sum to 1."""
    if p.made is not None and p.made.op == "softmax":
        return law
    each, total = p.builder.elementwise, p.sum(-1)
    close = each("less_equal", each("abs", total - 1.0), 1e-5 + 1e-8)  # as numpy.isclose
    inside = each("logical_and", each("greater_equal", p, 0.0), each("less_equal", p, 1.0))
    valid = each("logical_and", close, p.builder.reduce("min", inside, -1))
    if valid.constant and np.all(valid.value):
        return law
    return _Within(law.builder, law.shape, law, valid)


def _categorical(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    (p,) = map(reader.var, rv.owner.op.dist_params(rv.owner))
    return _with_shares(Categories(reader.builder, shape, reader.builder.elementwise("log", p)), p)


def _multinomial(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    n, p = map(reader.var, rv.owner.op.dist_params(rv.owner))
    if not n.constant:
        raise NotLowered("Multinomial", "numbers of trials that depend on parameters")
    return _with_shares(Counts(reader.builder, shape, n, p), p)


def _dirichlet(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    (a,) = map(reader.var, rv.owner.op.dist_params(rv.owner))
    return Dirichlet(reader.builder, shape, a)


def _factor(variable: Variable) -> Variable | None:
    """``L`` of a covariance that PyMC made as ``L @ L.T`` from a Cholesky factor."""
    owner = variable.owner
    if owner is None or not isinstance(getattr(owner.op, "core_op", owner.op), Dot):
        return None
    left, right = owner.inputs
    turned = right.owner
    if turned is None or not isinstance(turned.op, DimShuffle) or not turned.op.is_matrix_transpose:
        return None
    return left if turned.inputs[0] is left and getattr(left.tag, "lower_triangular", False) else None


def _normal_vector(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    mu, covariance = rv.owner.op.dist_params(rv.owner)
    known = _factor(covariance)
    matrix = reader.var(covariance if known is None else known)
    if matrix.size != shape[-1] ** 2:
        raise NotLowered("MvNormal", "a covariance for each row")
    matrix = matrix.reshape(shape[-1], shape[-1])
    return MultivariateNormal(reader.builder, shape, reader.var(mu), matrix if known is not None else cholesky(matrix))


def _cholesky_factor(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    n, eta, deviations = rv.owner.op.dist_params(rv.owner)
    size, power = reader.numbers(n), reader.numbers(eta)
    if size is None or power is None or len(shape) != 1:
        raise NotLowered("LKJCholeskyCov", "an eta that depends on parameters, or several matrices")
    inner = law_of(reader, deviations, (int(size),))
    if inner.support:
        raise NotLowered("LKJCholeskyCov", "standard deviations that are not of single numbers")
    constant = reader.numbers(lkj_constant(float(power), int(size)))
    assert constant is not None
    return CholeskyFactor(reader.builder, shape, float(power), int(size), inner, float(constant))


def _truncated(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    *given, lower, upper = rv.owner.inputs
    base = rv.owner.op.base_rv_op.make_node(*given).default_output()
    return Truncated.of(law_of(reader, base, shape), reader.var(lower), reader.var(upper))


def _censored(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    base, lower, upper = rv.owner.inputs
    return Censored.of(law_of(reader, base, shape), reader.var(lower), reader.var(upper))


def _point(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    return Point(reader.builder, shape, reader.var(rv.owner.inputs[-1]))


def _interpolated(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    points, heights = (reader.numbers(v) for v in rv.owner.op.dist_params(rv.owner)[:2])
    if points is None or heights is None or points.ndim != 1:
        raise NotLowered("Interpolated", "points that depend on parameters")
    return Interpolated(reader.builder, shape, points, heights)


def _mixture(reader: Reader, rv: Variable, shape: tuple[int, ...]) -> Law:
    _, weights, *components = rv.owner.inputs
    if rv.owner.op.ndim_supp:
        raise NotLowered("Mixture", "components that are vectors")
    w = reader.var(weights)
    if len(components) == 1:
        laws: tuple[Law, ...] = (law_of(reader, components[0], (*shape, w.shape[-1])),)
    else:
        laws = tuple(law_of(reader, component, shape) for component in components)
    inflated = _inflated(laws, w, shape)
    return _with_shares(Mixed(reader.builder, shape, w, laws) if inflated is None else inflated, w)


#: Zero-inflated distributions, by the one beside the zeros.
_INFLATED = {
    "Binomial": "ZeroInflatedBinomial",
    "NegativeBinomial": "ZeroInflatedNegativeBinomial",
    "Poisson": "ZeroInflatedPoisson",
}


def _inflated(laws: Sequence[Law], weights: Var, shape: tuple[int, ...]) -> Law | None:
    """The fused law of a mixture of zero and counts; None if it is no such mixture."""
    if len(laws) != 2:
        return None
    zero, counts = laws
    if not isinstance(zero, Point) or not isinstance(counts, Scalar):
        return None
    if not (zero.c.constant and not np.any(zero.c.value)) or counts.word not in _INFLATED:
        return None
    return Scalar(counts.builder, shape, _INFLATED[counts.word], (weights[..., 1], *counts.parameters))


_OTHERS: Mapping[type, Callable[[Reader, Any, tuple[int, ...]], Law]] = {
    DiracDelta.rv_type: _point,
    HurdleRV: _mixture,
    LKJCholeskyCovRV: _cholesky_factor,
    TruncatedRV: _truncated,
    pm.Categorical.rv_type: _categorical,
    pm.Censored.rv_type: _censored,
    pm.Interpolated.rv_type: _interpolated,
    pm.Dirichlet.rv_type: _dirichlet,
    pm.Mixture.rv_type: _mixture,
    pm.Multinomial.rv_type: _multinomial,
    pm.MvNormal.rv_type: _normal_vector,
}
