"""Discrete nodes without data, summed out exactly by variable elimination over the cells of the graph.

The graph shows which cells occur together in a density (:mod:`bayeslab.families.graph.dependence`): a label shared by
several rows, a chain, a pedigree. Each density is evaluated once for every joint value of the few cells that occur in
one of its elements; cells that never occur together are varied simultaneously, by a graph colouring. A numba kernel
sums the product of the resulting tables, in an elimination order found beforehand.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.censored import CensoredRV
from pymc.distributions.truncated import TruncatedRV
from pymc.logprob.utils import CheckParameterValue
from pytensor.graph.basic import Constant
from pytensor.graph.replace import clone_replace, graph_replace
from pytensor.graph.traversal import ancestors, io_toposort
from pytensor.scalar.basic import EQ, Log, Log1p, Neg, Switch
from pytensor.scalar.math import Sigmoid
from pytensor.tensor.basic import Join, MakeVector, ScalarFromTensor, TensorFromScalar
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.math import All
from pytensor.tensor.special import Softmax

from bayeslab.errors import ModelError
from bayeslab.evidence import log_evidence
from bayeslab.families.graph.dependence import scopes_of
from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.discrete_tables import density_table
from bayeslab.latents.networks import elimination_kernels as kernels
from bayeslab.latents.networks.elimination import Elimination, Factor, planned

if TYPE_CHECKING:
    import pymc


__all__ = [
    "Density",
    "SummedOut",
    "by_element",
    "flat_at_zero",
    "observed_density",
    "standing",
    "states_of",
    "summed_out",
]

KERNEL = "bayeslab.latents.networks.elimination_kernels:log_sum"
# Distributions without values below zero.
_COUNTS = {"PoissonRV", "NegBinomialRV", "GeometricRV", "BinomialRV", "BetaBinomialRV", "DiscreteWeibullRV"}
#: Largest number of values of one discrete cell.
MOST_STATES = 10_000


@dataclass(frozen=True, eq=False)
class Density:
    """Log densities of a node's elements, given the discrete nodes.

    Attributes
    ----------
    name : str
    value : TensorVariable
    dims : tuple of str
    observed : bool
        Whether the node has data.
    normal : (TensorVariable, TensorVariable, ndarray) or None
        Mean, standard deviation and data (NaN where missing) of a normal node with data.
    categories : (TensorVariable, ndarray) or None
        Log probabilities, categories last, and data (-1 where missing) of a categorical node with data.
    """

    name: str
    value: Any
    dims: tuple[str, ...]
    observed: bool
    normal: tuple[Any, Any, np.ndarray] | None = None
    categories: tuple[Any, np.ndarray] | None = None


def observed_density(name: str, drawn: Any, value: Any, observed: Any, dims: tuple[str, ...]) -> Density:
    """The log densities of an observed random variable, and the inputs of kernels that replace them."""
    op, gone, cells = drawn.owner.op, np.ma.getmaskarray(observed), np.ma.getdata(observed)
    word, normal, categories = type(op).__name__, None, None
    if word == "NormalRV":
        mean, deviation = op.dist_params(drawn.owner)
        normal = (mean, deviation, np.where(gone, np.nan, cells))
    elif word in ("CategoricalRV", "_LogCategoricalRV"):
        (row,) = op.dist_params(drawn.owner)
        categories = (pt.log(row) if word == "CategoricalRV" else row, np.where(gone, -1, cells).astype(np.int64))
    return Density(name, value, dims[: len(dims) - op.ndim_supp], True, normal, categories)


@dataclass(frozen=True, eq=False)
class SummedOut:
    """The sum over all values of the discrete nodes.

    Attributes
    ----------
    log_sum : TensorVariable
        Its logarithm.
    tables : TensorVariable
        Flat vector of the tables that are summed.
    plan : Elimination
    factors : tuple of Factor
        The cells that occur in each part of the flat vector.
    latents : tuple of Latent
    observed : dict of str to (dims, scopes, places)
        For each observed node whose density depends on discrete cells: its dims, the cells in each of its elements, and
        the start of each element's table; an element without cells has its value there.
    """

    log_sum: Any
    tables: Any
    plan: Elimination
    factors: tuple[Factor, ...]
    latents: tuple[Latent, ...]
    observed: dict[str, tuple[tuple[str, ...], list[np.ndarray], np.ndarray]]

    def values(self, states: np.ndarray) -> dict[str, np.ndarray]:
        """Convert states (draws, cells) to values of the nodes."""
        out, at = {}, 0
        for latent in self.latents:
            size = math.prod(latent.shape)
            out[latent.name] = latent.first + states[:, at : at + size].reshape(len(states), *latent.shape)
            at += size
        return out

    def drawn(self, tables: np.ndarray, rng: np.random.Generator, n: int | None = None) -> dict[str, np.ndarray]:
        """Joint draws of the nodes, one for each row of the tables (draws, length), or ``n`` for a single row."""
        n = len(tables) if n is None else n
        states = kernels.draw(tables, rng.random((n, self.plan.part.size)), *self.plan.arrays)
        return {name: np.asarray(value) for name, value in self.values(states).items()}

    def probabilities(self, table: np.ndarray) -> dict[str, np.ndarray]:
        """Posterior probability of each value of each cell, by node: the node's shape, then its values.

        By Fisher's identity they are the derivatives of the log sum by the entries of a table.
        """
        slopes = kernels.log_sum(table, *self.plan.arrays)[1]
        numbers = [latent.states for latent in self.latents for _ in range(math.prod(latent.shape))]
        of_cell: list[np.ndarray | None] = [None] * len(numbers)
        for factor in self.factors:
            states = [numbers[cell] for cell in factor.scope]
            if all(of_cell[cell] is not None for cell in factor.scope):
                continue
            digits = np.indices(states).reshape(len(states), -1)
            joint = slopes[factor.offset + np.array(factor.strides) @ digits].reshape(states)
            for axis, cell in enumerate(factor.scope):
                of_cell[cell] = joint.sum(axis=tuple(k for k in range(len(states)) if k != axis))
        out, at = {}, 0
        for latent in self.latents:
            size = math.prod(latent.shape)
            rows = [row for row in of_cell[at : at + size] if row is not None]
            out[latent.name] = np.array(rows).reshape(*latent.shape, latent.states)
            at += size
        return out

    def log_evidence(self, tables: np.ndarray) -> np.ndarray:
        """The log sum (draws,) for each row of the tables."""
        return np.array([kernels.log_sum(table, *self.plan.arrays)[0] for table in tables])

    def check_terms(self) -> None:
        """Refuse pointwise log likelihoods if observations share a part of the sum.

        Raises
        ------
        ModelError
        """
        rows = np.zeros(len(self.plan.roots), int)
        for part in self._parts.values():
            np.add.at(rows, part[part >= 0], 1)
        for name, part in self._parts.items():
            if np.any(rows[part[part >= 0]] > 1):
                raise ModelError(
                    f"observations of '{name}' share a discrete node that is summed out, so a single observation has no"
                    f" log likelihood; compare such models by their predictions for new data",
                    code="not-applicable",
                )

    def terms(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Log likelihoods (draws, elements) of the observed nodes, with discrete nodes summed out."""
        each = kernels.parts(tables, *self.plan.arrays)[:, self.plan.roots]
        out = {}
        for name, part in self._parts.items():
            alone = tables[:, self.observed[name][2]]
            out[name] = np.where(part >= 0, each[:, part], alone)
        return out

    @property
    def _parts(self) -> dict[str, np.ndarray]:
        """The part of the sum that contains each element of each observed node; -1 without discrete cells."""
        part = self.plan.part
        return {
            name: np.array([part[scope[0]] if len(scope) else -1 for scope in scopes], int)
            for name, (_, scopes, _) in self.observed.items()
        }


def states_of(name: str, rv: Any, latents: Sequence[Latent], model: pymc.Model) -> tuple[int, int]:
    """Lowest value and number of values of a discrete random variable, given those before it.

    Raises
    ------
    ModelError
        The number of values is infinite, or unknown before sampling.
    """
    word = type(rv.owner.op).__name__.strip("_")
    given = {latent.symbol: pt.constant(np.zeros(latent.shape, np.int64)) for latent in latents}
    limits = _range(rv, standing(model) | given)
    if limits is None:
        raise ModelError(
            f"'{name}' is discrete, has no data and no largest value ({word.removesuffix('RV')}), so it cannot be"
            f" summed out; nodes that can are Bernoulli, Categorical, DiscreteUniform, OrderedLogistic, OrderedProbit,"
            f" Binomial and BetaBinomial with a known n, and Truncated(..., upper=...) of any, with known bounds",
            code="discrete",
        )
    first, last = limits
    if not 1 <= last - first + 1 <= MOST_STATES:
        raise ModelError(
            f"'{name}' has {last - first + 1:,} possible values; at most {MOST_STATES:,} are summed over",
            code="too-costly",
        )
    return first, last - first + 1


def _range(rv: Any, given: Mapping[Any, Any]) -> tuple[int, int] | None:
    op = rv.owner.op
    word = type(op).__name__
    if isinstance(op, TruncatedRV):
        lower, upper = (_known(v) for v in rv.owner.inputs[-2:])
        if upper is None or not np.all(np.isfinite(upper)):
            return None
        open_below = lower is None or not np.all(np.isfinite(lower))
        if open_below and type(op.base_rv_op).__name__ not in _COUNTS:
            return None
        return 0 if open_below else math.ceil(float(np.min(lower))), int(np.max(upper))
    if isinstance(op, CensoredRV):
        return None
    if word == "BernoulliRV":
        return 0, 1
    parameters = list(op.dist_params(rv.owner))
    if word in ("CategoricalRV", "_LogCategoricalRV"):
        length = parameters[0].type.shape[-1]
        if length is None:
            shape = clone_replace([parameters[0].shape[-1]], given, rebuild_strict=False)
            length = pytensor.function([], shape, mode=pytensor.compile.mode.Mode("py", None))()[0]
        return 0, int(length) - 1
    if word == "DiscreteUniformRV":
        lower, upper = (_known(v) for v in parameters)
        return None if lower is None or upper is None else (int(np.min(lower)), int(np.max(upper)))
    if word in ("BinomialRV", "BetaBinomialRV"):
        most = _known(parameters[0])
        return None if most is None else (0, int(np.max(most)))
    return None


def _known(variable: Any) -> Any:
    """The value of a variable that depends on nothing random; otherwise None."""
    if isinstance(variable, Constant):
        return np.asarray(variable.data)
    mode = pytensor.compile.mode.Mode("py", None)
    above = list(ancestors([variable]))
    if any(v.owner is not None and hasattr(v.owner.op, "dist_params") for v in above) or any(
        v.owner is None and not isinstance(v, Constant) and not hasattr(v, "get_value") for v in above
    ):
        return None
    return pytensor.function([], variable, mode=mode)()


def summed_out(latents: Sequence[Latent], densities: Sequence[Density], model: pymc.Model) -> SummedOut:
    """Plan the sum and build it as one term.

    Raises
    ------
    ModelError
        A table is too large; the message has the size.
    """
    cells, at = {}, 0
    for latent in latents:
        size = math.prod(latent.shape)
        cells[latent.symbol] = (at + np.arange(size)).reshape(latent.shape)
        at += size
    sizes = np.repeat([latent.states for latent in latents], [math.prod(latent.shape) for latent in latents])
    known = standing(model)
    factors, tables, observed, length = list[Factor](), list[Any](), dict[str, Any](), 0
    for density in densities:
        value = by_element(density.value, cells, known)
        scopes = scopes_of(value, cells, at, known)
        table, layout = density_table(density.name, value, scopes, latents, cells, at, length)
        if density.observed:
            observed[density.name] = (density.dims, scopes, np.array([factor.offset for factor in layout[0]], int))
        factors += layout[0]
        tables.append(table)
        length += layout[1]
    plan = planned(sizes.tolist(), factors, length)
    flat = pt.concatenate(tables) if len(tables) > 1 else tables[0]
    # A copied parameter would be drawn again at each evaluation.
    drawn = {v for v in ancestors([flat]) if v.owner is not None and hasattr(v.owner.op, "dist_params")}
    assert all(v in model.basic_RVs for v in drawn if v.dtype.startswith(("float", "int")))
    return SummedOut(log_evidence(KERNEL, flat, *plan.arrays), flat, plan, tuple(factors), tuple(latents), observed)


def by_element(value: Any, cells: Mapping[Any, np.ndarray], known: Mapping[Any, Any]) -> Any:
    """A density whose elements are zero each by itself, where its parameters are not allowed or its value cannot be.

    Parameters
    ----------
    cells
        The discrete variables, each with the numbers of its cells.
    known
        Placeholder values of the other random variables (:func:`standing`).
    """
    given = dict(known) | {symbol: pt.constant(np.zeros(at.shape, np.int64)) for symbol, at in cells.items()}
    return flat_at_zero(_checked_by_element(value, given), list(cells))


def standing(model: pymc.Model) -> dict[Any, Any]:
    """Placeholder values of random variables, for uses where only shapes matter."""
    out = {}
    for rv in model.basic_RVs:
        shape = rv.type.shape
        if None in shape:
            dims = model.named_vars_to_dims.get(rv.name) or (None,) * len(shape)
            shape = tuple(
                n if n is not None else len(model.coords[dim] or ()) if dim is not None else int(rv.shape[axis].eval())
                for axis, (n, dim) in enumerate(zip(shape, dims, strict=True))
            )
        out[rv] = pt.constant(np.full(shape, 0.5 if rv.dtype.startswith("float") else 1, dtype=rv.dtype))
    return out


def flat_at_zero(value: Any, symbols: Sequence[Any]) -> Any:
    """The density with logarithms of zero replaced by -inf with derivative 0.

    In a state that the data exclude (an unoccupied site with a detection) the derivative of the logarithm is infinite
    and its weight zero, and their product is NaN. Sigmoids are unchanged: they are never zero, and PyTensor has stable
    forms of their logarithms.
    """
    while True:
        moving = set(symbols)
        logarithm = None
        for node in io_toposort([], [value]):
            if not any(i in moving for i in node.inputs):
                continue
            moving.update(node.outputs)
            if (
                isinstance(node.op, Elemwise)
                and isinstance(node.op.scalar_op, Log | Log1p)
                and not _safe(node.inputs[0])
            ):
                logarithm = node
                break
        if logarithm is None:
            return value
        (inner,) = logarithm.inputs
        at = 0.0 if isinstance(logarithm.op.scalar_op, Log) else -1.0
        gone = pt.eq(inner, at)
        made = pt.switch(gone, -np.inf, logarithm.op(pt.switch(gone, np.asarray(at + 1.0), inner)))
        value = (
            made
            if value is logarithm.outputs[0]
            else graph_replace([value], {logarithm.outputs[0]: made}, strict=False)[0]
        )


def _safe(inner: Any) -> bool:
    """Whether a logarithm's argument is a sigmoid, or is already protected from zero."""
    node = inner.owner
    if node is None:
        return False
    if isinstance(node.op, Softmax):
        return True
    if not isinstance(node.op, Elemwise):
        return isinstance(node.op, DimShuffle) and _safe(node.inputs[0])
    if isinstance(node.op.scalar_op, Neg):
        return _safe(node.inputs[0])
    kept = isinstance(node.op.scalar_op, Switch) and isinstance(getattr(node.inputs[0].owner, "op", None), Elemwise)
    return isinstance(node.op.scalar_op, Sigmoid) or (kept and isinstance(node.inputs[0].owner.op.scalar_op, EQ))


# ----------------------------------------------------------------------------- checks by element


def _checked_by_element(value: Any, given: Mapping[Any, Any]) -> Any:
    """PyMC's checks of parameters, which make a whole density zero, applied to each element.

    A value of a discrete node may be invalid in one row and valid in another.
    """
    while True:
        checks = [
            v
            for v in ancestors([value])
            if v.owner is not None
            and isinstance(v.owner.op, CheckParameterValue)
            and v.owner.op.can_be_replaced_by_ninf
        ]
        if not checks:
            return value
        changes = {}
        inside = {v for v in checks if not set(ancestors(v.owner.inputs)) & set(checks)}
        for variable in inside:
            expression, *conditions = variable.owner.inputs
            allowed = [c for condition in conditions for c in _conditions(condition, expression, given)]
            made = expression
            if allowed:
                together = allowed[0]
                for condition in allowed[1:]:
                    together = pt.and_(together, condition)
                made = pt.switch(together, expression, -np.inf)
            changes[variable] = made
        # Parameters must remain the model's variables: nothing above the checks is copied.
        value = changes[value] if value in changes else graph_replace([value], changes, strict=False)[0]


def _shape(variable: Any, given: Mapping[Any, Any]) -> tuple[int, ...]:
    """The shape of a variable, computed if it is not static (data may change)."""
    if None not in variable.type.shape:
        return tuple(variable.type.shape)
    shape = clone_replace([variable.shape], given, rebuild_strict=False)
    return tuple(int(n) for n in pytensor.function([], shape, mode=pytensor.compile.mode.Mode("py", None))()[0])


def _conditions(condition: Any, expression: Any, given: Mapping[Any, Any]) -> list[Any]:
    """Split a condition into conditions on each element of an expression."""
    node = condition.owner
    if node is not None and isinstance(node.op, ScalarFromTensor | TensorFromScalar):
        return _conditions(node.inputs[0], expression, given)
    if node is not None and isinstance(node.op, All):
        (inner,) = node.inputs
        if inner.owner is not None and isinstance(inner.owner.op, MakeVector):
            return [c for part in inner.owner.inputs for c in _conditions(part, expression, given)]
        if inner.owner is not None and isinstance(inner.owner.op, Join):
            parts = [
                p.owner.inputs[0] if isinstance(getattr(p.owner, "op", None), DimShuffle) else p
                for p in inner.owner.inputs
            ]
            return [c for part in parts for c in _conditions(part, expression, given)]
        if inner.ndim > expression.ndim:
            inner = pt.all(inner, axis=tuple(range(expression.ndim, inner.ndim)))
        shapes = zip(reversed(_shape(inner, given)), reversed(_shape(expression, given)), strict=False)
        return [inner] if all(a == b or a == 1 for a, b in shapes) else [pt.all(inner)]
    if node is not None and isinstance(node.op, Elemwise) and len(node.inputs) == 1 and condition.ndim == 0:
        return _conditions(node.inputs[0], expression, given)  # a cast
    return [pt.as_tensor_variable(condition)]
