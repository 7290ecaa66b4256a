"""Checks of parameters against their domains, and of observations against supports, before a graph is built.

Parameters that are numbers or data columns are compared with their domains, and observed values with the support of
their distribution, as far as numbers and data determine it. Everything that depends on parameters of the model is left
to the density. Domains are those of PyMC's densities; a test compares the table with them.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from pydantic import BaseModel

from bayeslab.data.bound import MOST_MAGNITUDE, Data
from bayeslab.data.node_values import Environment, NotExact
from bayeslab.distributions import DISTRIBUTIONS, MODIFIERS, Domain, Interval
from bayeslab.errors import BayeslabError, DataError, ModelError, listed
from bayeslab.families.graph.levels import stand_in, takes_levels
from bayeslab.language.algebra import Term
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import Node, atoms_of, bound_arguments, call_name

__all__ = ["OF_TRIALS", "Domains", "check_written", "levels_refused"]

_INF = float("inf")
# Tolerance of the sum of a vector of probabilities (that of ``numpy.isclose``).
_SUM = 1e-5
# Larger arrays are not computed before a forecast of their memory.
_MOST_CELLS = 10**7


# Parameters that are probabilities of categories, and distributions of the categories.
_PROBABILITIES = {("Categorical", "p"), ("Multinomial", "p"), ("NormalMixture", "w")}
_CATEGORIES = {"Categorical": 0, "OrderedLogistic": 1, "OrderedProbit": 1}
# Parameters whose infinite values are probabilities of 0 and 1.
_INFINITE = frozenset({"logit_p"})
# Distributions with an integer number of trials.
OF_TRIALS = frozenset({
    "BetaBinomial", "Binomial", "DirichletMultinomial", "Multinomial", "OrderedMultinomial", "ZeroInflatedBinomial",
})  # fmt: skip
# Distributions whose draws have a fixed sum: a number, or a parameter.
_TOTALS: dict[str, float | str] = {
    "Dirichlet": 1.0,
    "StickBreaking": 1.0,
    "StickBreakingWeights": 1.0,
    "Multinomial": "n",
    "DirichletMultinomial": "n",
    "OrderedMultinomial": "n",
}


@dataclass(frozen=True, slots=True)
class _Support:
    """The support, element by element: ends over the node's axes, NaN where unknown."""

    interval: Interval
    low: np.ndarray | float
    high: np.ndarray | float

    def outside(self, values: np.ndarray) -> np.ndarray:
        return self.interval.outside(values, self.low, self.high)

    def words(self, at: tuple[int, ...], shape: tuple[int, ...]) -> str:
        return self.interval.words(*(float(np.broadcast_to(end, shape)[at]) for end in (self.low, self.high)))


class Domains:
    """Checks the nodes of a model against the domains and supports of their distributions.

    Parameters
    ----------
    nodes, data
        The model's nodes by name and the data bound to it.
    """

    def __init__(self, nodes: Mapping[str, Node], data: Data) -> None:
        self.nodes, self.data = nodes, data
        self.columns = data.names()
        self._known = Environment(nodes, data, {})
        self._fixed: dict[str, bool] = {}

    def check(self, node: Node) -> None:
        """Refuse parameters outside their domain, and observed values outside their support.

        Raises
        ------
        ModelError, DataError
            With the node's path, the value, where it stands, and what is allowed.
        """
        self.check_parameters(node)
        if node.kind == "random" and node.name in self.columns:
            self._values(node)

    def check_parameters(self, node: Node) -> None:
        """Refuse parameters outside their domain, the only check for nodes that are to be drawn.

        Raises
        ------
        ModelError, DataError
            With the node's path, the value, where it stands, and what is allowed.
        """
        if node.process:
            return  # covariance functions are checked where they are read
        tree = node.expression.tree
        self._arithmetic(node, tree)
        if node.kind == "random":
            for call, dims in _distributions(tree, node.dims):
                self._parameters(node, call, dims)
                self._matrix(node, call)
        elif node.kind == "potential":
            for part in tree.args if isinstance(tree, ast.Call) else [tree]:
                self._finite(node, part)

    def _matrix(self, node: Node, call: ast.Call) -> None:
        """Refuse a known covariance or precision matrix that no vector can have."""
        if call_name(call) not in ("MvNormal", "MvStudentT"):
            return
        given = bound_arguments(call, str(call_name(call)))
        for word in ("cov", "tau", "scale"):
            term = self._value(given[word], node) if word in given else None
            matrix = None if term is None else np.asarray(term.value, float)
            if matrix is None or matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
                continue
            if not np.allclose(matrix, matrix.T) or not (np.linalg.eigvalsh(matrix) > 0).all():
                raise ModelError(
                    f"{call_name(call)} needs a symmetric, positive definite {word}, and"
                    f" '{ast.unparse(given[word])}' is none",
                    path=node.path,
                    code="out-of-range",
                )

    # -- what is known before sampling

    def _is_known(self, tree: ast.expr, of: Node) -> bool:
        """Whether an expression depends only on numbers and data."""
        if any(isinstance(part, ast.Call) and call_name(part) == "previous" for part in ast.walk(tree)):
            return False
        return all(self._named(part.id, of) for part in ast.walk(tree) if isinstance(part, ast.Name))

    def _named(self, name: str, of: Node) -> bool:
        if name not in self.nodes:
            return True  # a column, a dimension or a function; evaluation reports anything else
        if name == of.name:
            return False
        if name not in self._fixed:
            node = self.nodes[name]
            self._fixed[name] = False
            if node.kind == "deterministic" and not node.recursive and name not in self.columns:
                self._fixed[name] = all(self._named(parent, node) for parent in node.parents)
            elif node.kind == "random" and name in self.columns:
                self._fixed[name] = not np.any(self._gone(name))
        return self._fixed[name]

    def _gone(self, name: str) -> np.ndarray:
        term = self.data.term(name, missing=True)
        return np.asarray(term.codes < 0 if term.value is None else np.isnan(np.asarray(term.value, dtype=float)))

    def _value(self, tree: ast.expr, of: Node) -> Term | None:
        """The value of an expression, or None if it is unknown before sampling."""
        if not self._is_known(tree, of) or self._cells(tree) > _MOST_CELLS:
            return None
        try:
            with np.errstate(all="ignore"):
                term = self._known.eval(tree)
        except NotExact:
            return None
        return term if term.value is not None and not term.undefined else None

    def _cells(self, tree: ast.expr) -> int:
        """Number of cells of an expression that is broadcast over all dimensions of its parts."""
        dims: set[str | None] = set()
        for part in ast.walk(tree):
            if isinstance(part, ast.Name):
                column = self.data.dataset.columns.get(part.id)
                node = self.nodes.get(part.id)
                dims |= {part.id} | set((column and column.dims) or ()) | set(node.dims if node else ())
        return math.prod(len(self.data.labels[dim]) for dim in dims if dim in self.data.labels)

    def _over(self, tree: ast.expr, dims: tuple[str, ...], of: Node) -> np.ndarray | None:
        """The value over the dims, or None if it is unknown or has another layout."""
        term = self._value(tree, of)
        if term is None:
            return None
        if not term.dims:
            return np.asarray(term.value, float)
        try:
            return self._known.over(term, dims)
        except (NotExact, ModelError):
            return None

    def _length(self, tree: ast.expr, batch: Sequence[str], of: Node) -> int | None:
        """The length of the only dimension of an expression that is not in ``batch``."""
        term = stand_in(tree, self.nodes, self.data)
        if term is None:
            return None
        axes = [at for at, dim in enumerate(term.dims) if dim is None or dim not in batch]
        return int(np.shape(term.value)[axes[0]]) if term.value is not None and len(axes) == 1 else None

    # -- arithmetic

    def _arithmetic(self, node: Node, tree: ast.expr) -> None:
        """Refuse divisions by zero data, and expressions of data that are not numbers or overflow."""
        if isinstance(tree, ast.Call) and call_name(tree) in ("where", "isnan", "previous", "lag"):
            return
        if isinstance(tree, ast.BinOp | ast.Call) and call_name(tree) not in (*DISTRIBUTIONS, *MODIFIERS):
            term = self._value(tree, node)
            if term is not None:
                value = np.asarray(term.value, float)
                wrong = np.isnan(value) | (value == np.inf)
                if np.any(wrong):
                    raise DataError(
                        f"'{ast.unparse(tree)}' is {value[wrong].flat[0]:g}{_place(term.dims, wrong)};"
                        f" it has to be a number: {_remedy(tree, term.dims)}",
                        path=node.path,
                        code="not-finite",
                    )
                _check_magnitude(node, tree, value, term.dims)
                return
        if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float):
            _check_magnitude(node, tree, np.asarray(tree.value, float), ())
        if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Div):
            term = self._value(tree.right, node)
            if term is not None and np.any(zero := np.asarray(term.value) == 0):
                raise DataError(
                    f"'{ast.unparse(tree)}' divides by 0{_place(term.dims, zero)}: {_remedy(tree, term.dims)}",
                    path=node.path,
                    code="not-finite",
                )
        for child in ast.iter_child_nodes(tree):
            part = child.value if isinstance(child, ast.keyword) else child
            if isinstance(part, ast.expr):
                self._arithmetic(node, part)

    # -- parameters

    def _parameters(self, node: Node, call: ast.Call, dims: tuple[str, ...]) -> None:
        word = str(call_name(call))
        if word in ("Truncated", "Censored"):
            self._bounds(node, call, dims)
        if word in MODIFIERS or DISTRIBUTIONS[word].path:
            return  # probabilities of paths are checked when their dimensions are read
        entry, domain = DISTRIBUTIONS[word], DISTRIBUTIONS[word].domain
        given = bound_arguments(call, word)
        batch = dims[: len(dims) - entry.support]
        single: dict[str, np.ndarray] = {}
        for name, tree in given.items():
            if name in entry.distributions or (isinstance(tree, ast.Constant) and tree.value is None):
                continue
            term = self._value(tree, node)
            if term is None:
                if name not in _INFINITE:
                    self._finite(node, tree)
                continue
            value = np.asarray(term.value, float)
            if name in domain.parameters:
                interval = domain.parameters[name]
                ends = float(interval.low), float(interval.high)
                wrong = interval.outside(value, *ends)
                if np.any(wrong):
                    raise _refused(
                        node, tree, f"{word} needs {name} {interval.words(*ends)}", value[wrong].flat[0], term, wrong
                    )
            if name not in _INFINITE:
                self._finite(node, tree)
            if name == "n" and word in OF_TRIALS and np.any(wrong := ~(value == np.floor(value)) | np.isinf(value)):
                needed, code = f"{word} needs n that is a whole number", "not-whole"
                raise _refused(node, tree, needed, value[wrong].flat[0], term, wrong, code)
            if (
                dims
                and (word, name) == ("Wishart", "nu")
                and np.any(wrong := value <= (least := len(self.data.labels.get(dims[-1], ())) - 1))
            ):
                needed = f"Wishart of {least + 1} rows needs nu above {least}"
                raise _refused(node, tree, needed, value[wrong].flat[0], term, wrong)
            if (word, name) in _PROBABILITIES and value.ndim:
                total = value.sum(axis=-1)
                wrong = np.abs(total - 1.0) > _SUM
                if np.any(wrong):
                    needed = f"{word} needs {name} that adds up to 1"
                    raise _refused(node, tree, needed, np.asarray(total[wrong]).flat[0], term, wrong)
            core = entry.core.get(name, 0)
            if core == 1 and entry.support and dims and name not in entry.apart and term.dims == (None,):
                length = len(self.data.labels.get(dims[-1], ()))
                if length and len(value) not in (1, length):
                    raise ModelError(
                        f"{word}: '{name}' has {len(value)} values, and '{dims[-1]}' has {length} levels",
                        path=node.path,
                        offset=tree.col_offset,
                        code="wrong-length",
                    )
            if core == 0 and (laid := self._over(tree, batch, node)) is not None:
                single[name] = laid
        self._relations(node, word, domain, single)

    def _bounds(self, node: Node, call: ast.Call, dims: tuple[str, ...]) -> None:
        """Refuse bounds that leave no value."""
        word, inner = str(call_name(call)), bound_arguments(call, str(call_name(call)))["dist"]
        many = DISTRIBUTIONS[str(call_name(inner))].discrete if call_name(inner) in DISTRIBUTIONS else False
        supports = self._supports(node, call, dims)
        empty = [one.low > one.high if many or word == "Censored" else one.low >= one.high for one in supports]
        if supports and all(np.any(wrong) for wrong in empty):
            one, wrong = supports[0], np.asarray(empty[0])
            low, high = (np.broadcast_to(end, wrong.shape)[wrong].flat[0] for end in (one.low, one.high))
            raise ModelError(
                f"'{ast.unparse(call)}' leaves no value: they would be from {low:g} to {high:g}; lower is to be below"
                f" upper, both where {call_name(inner)} has values",
                path=node.path,
                offset=call.col_offset,
                code="out-of-range",
            )

    def _finite(self, node: Node, tree: ast.expr, of: Node | None = None) -> None:
        """Refuse expressions that are infinite for all parameters: log(0), also as a term or factor.

        Inside functions such as exp and logsumexp it is allowed, as a probability of zero.
        """
        of = of or node
        if isinstance(tree, ast.Name) and tree.id in self.nodes and tree.id not in self.columns:
            other = self.nodes[tree.id]
            if other.kind == "deterministic" and not other.recursive and other.name != of.name:
                self._finite(node, other.expression.tree, other)
            return
        try:
            term = self._value(tree, of)
        except BayeslabError:
            return  # expressions without a value are refused when the graph is built, with their place
        if term is not None:
            value = np.asarray(term.value, float)
            if np.any(wrong := np.isinf(value)):
                raise DataError(
                    f"'{ast.unparse(tree)}' is {value[wrong].flat[0]:g}{_place(term.dims, wrong)}; it has to be a"
                    f" finite number: {_remedy(tree, term.dims)}",
                    path=of.path,
                    code="not-finite",
                )
            return
        match tree:
            case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult()):
                parts = [tree.left, tree.right]
            case ast.BinOp(op=ast.Div()):
                parts = [tree.left]
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                parts = [tree.operand]
            case ast.List() | ast.Tuple():
                parts = tree.elts
            case _:
                return
        for part in parts:
            self._finite(node, part, of)

    @staticmethod
    def _relations(node: Node, word: str, domain: Domain, single: Mapping[str, np.ndarray]) -> None:
        """Check constraints that involve several parameters."""
        single = {name: np.asarray(value) for name, value in domain.defaults.items()} | dict(single)
        names = [name for name in domain.increasing if name in single]
        for first, second in pairwise(names):
            low, high = np.broadcast_arrays(single[first], single[second])
            wrong = (low >= high) if domain.strictly else (low > high)
            if np.any(wrong):
                values = f"{low[wrong].flat[0]:g} and {high[wrong].flat[0]:g}"
                relation = "below" if domain.strictly else "at most"
                raise ModelError(
                    f"{word} needs {first} {relation} {second}; given: {values}", path=node.path, code="out-of-range"
                )
        if word == "Beta" and {"mu", "sigma"} <= single.keys():
            mu, sigma = np.broadcast_arrays(single["mu"], single["sigma"])
            wrong = sigma**2 >= mu * (1 - mu)
            if np.any(wrong):
                most = float(np.sqrt(mu[wrong].flat[0] * (1 - mu[wrong].flat[0])))
                raise ModelError(
                    f"Beta needs sigma below sqrt(mu * (1 - mu)), {most:.4g}; given: {sigma[wrong].flat[0]:g}",
                    path=node.path,
                    code="out-of-range",
                )

    # -- observed values

    def _values(self, node: Node) -> None:
        term = self.data.term(node.name, missing=True)
        if term.value is None:
            self._check_levels(node)
        if set(term.dims) != set(node.dims):
            return  # reported when the observations are laid out
        order = [term.dims.index(dim) for dim in node.dims]
        gone = self._gone(node.name).transpose(order)
        raw = term.codes if term.value is None else term.value
        values = np.where(gone, np.nan, np.asarray(raw, float).transpose(order))
        tree = node.expression.tree
        supports = self._supports(node, tree, node.dims)
        if supports:
            wrong = np.logical_and.reduce([np.broadcast_to(s.outside(values), values.shape) for s in supports])
            if np.any(wrong):
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                allowed = " or ".join(dict.fromkeys(s.words(at, values.shape) for s in supports))
                shown = f"{values[at]:g}" if term.value is not None else f"'{self._level(term, int(values[at]))}'"
                code = f" (level number {values[at]:g}, counted from 0)" if term.value is None else ""
                raise DataError(
                    f"column '{node.name}'{_row(node.dims, at)}: {shown}{code} cannot come from"
                    f" {node.expression.text}, whose values are {allowed}; correct the cell, or take another"
                    " distribution",
                    path=node.path,
                    code="impossible-value",
                )
        self._totals(node, values)

    def _check_levels(self, node: Node) -> None:
        """Refuse a column of levels if values are not levels, or if the levels cannot be matched."""
        word = str(node.distribution)
        if not takes_levels(node.expression.tree):
            raise levels_refused(node)
        words = self.data.labels[node.name].tolist()
        if "Bernoulli" in self._parts_of(node) and len(words) != 2:
            raise DataError(
                f"'{node.name}' holds levels, {listed(words)}, and Bernoulli has two, the second of which is 1: declare"
                f" them in dims, {node.name}: [no, yes], or take Categorical",
                path=node.path,
                code="wrong-length",
            )
        if word.startswith("Ordered"):
            self.data.check_order(node.name, word)
        elif "Categorical" in self._parts_of(node) and node.name not in self.data.dimension_of:
            self.data.check_order(node.name, f"{word} of probabilities without a named dimension")

    @staticmethod
    def _parts_of(node: Node) -> set[str | None]:
        return {call_name(part) for part in ast.walk(node.expression.tree) if isinstance(part, ast.expr)}

    def _level(self, term: Term, code: int) -> object:
        return self.data.labels[str(term.factor)][code]

    def _totals(self, node: Node, values: np.ndarray) -> None:
        tree, word = node.expression.tree, str(node.distribution)
        if word not in _TOTALS or not isinstance(tree, ast.Call):
            return
        wanted = _TOTALS[word]
        if isinstance(wanted, str):
            given = bound_arguments(tree, word)
            n = self._over(given[wanted], node.dims[:-1], node) if wanted in given else None
            if n is None:
                return
        else:
            n = np.asarray(wanted)
        total = values.sum(axis=-1)
        wrong = np.abs(total - n) > _SUM
        if np.any(wrong):
            at = tuple(int(i) for i in np.argwhere(np.atleast_1d(wrong))[0])
            one = np.broadcast_to(n, np.shape(total))
            raise DataError(
                f"column '{node.name}'{_row(node.dims[:-1], at if node.dims[:-1] else ())}: the values add up to"
                f" {np.atleast_1d(total)[at]:g}; those of {word} add up to {np.atleast_1d(one)[at]:g}",
                path=node.path,
                code="impossible-value",
            )

    def _supports(self, node: Node, tree: ast.expr, dims: tuple[str, ...]) -> list[_Support]:
        """The possible supports of a value; empty if the support is unknown."""
        if not isinstance(tree, ast.Call):
            return []
        word = str(call_name(tree))
        if word in ("Truncated", "Censored"):
            given = bound_arguments(tree, word)
            ends = [self._bound(given.get(name), dims, node, e) for name, e in (("lower", -_INF), ("upper", _INF))]
            bounds = _Support(Interval(), *ends)
            if word == "Censored":
                return [bounds]
            inner = self._supports(node, given["dist"], dims) or [bounds]
            return [_meeting(bounds, one) for one in inner]
        if word == "Mixture":
            parts = bound_arguments(tree, "Mixture")["comp_dists"]
            items = parts.elts if isinstance(parts, ast.List | ast.Tuple) else []
            supports = [self._supports(node, item, dims) for item in items]
            return [one for part in supports for one in part] if supports and all(supports) else []
        if word not in DISTRIBUTIONS:
            return []
        given = bound_arguments(tree, word)
        if word in _CATEGORIES:
            name = next((n for n in ("p", "logit_p", "cutpoints") if n in given), None)
            k = self._length(given[name], dims, node) if name is not None else None
            return [] if k is None else [_Support(Interval(), 0.0, float(k - 1 + _CATEGORIES[word]))]
        domain = DISTRIBUTIONS[word].domain if word in DISTRIBUTIONS else Domain()
        interval = domain.values
        if interval == Interval(open_low=True, open_high=True):
            return []
        batch = dims[: len(dims) - DISTRIBUTIONS[word].support]
        low, high = (
            self._end(end, given, domain, batch, node, least=least)
            for end, least in ((interval.low, True), (interval.high, False))
        )
        if DISTRIBUTIONS[word].support:
            low, high = (np.asarray(side)[..., None] if np.ndim(side) else side for side in (low, high))
        for end, (deciding, value) in domain.bounded_by.items():
            # With an unknown parameter the density there is zero or infinite for any value.
            known = self._over(given[deciding], batch, node) if deciding in given else None
            if known is None or not np.all(known == value):
                interval = Interval(
                    interval.low, interval.high, interval.open_low or end == "low", interval.open_high or end == "high"
                )
        return [_Support(interval, low, high)]

    def _bound(self, tree: ast.expr | None, dims: tuple[str, ...], node: Node, missing: float) -> np.ndarray | float:
        """A truncation bound; an unknown one excludes nothing."""
        if tree is None or (isinstance(tree, ast.Constant) and tree.value is None):
            return missing
        known = self._over(tree, dims, node)
        return missing if known is None else known

    def _end(
        self,
        end: float | str,
        given: Mapping[str, ast.expr],
        domain: Domain,
        batch: tuple[str, ...],
        node: Node,
        *,
        least: bool,
    ) -> np.ndarray | float:
        unknown = -_INF if least else _INF
        if not isinstance(end, str):
            return end
        if end not in given:
            return domain.defaults.get(end, unknown)
        if end == "x_points":
            term = self._value(given[end], node)
            values = np.asarray(term.value, float) if term is not None else np.array([unknown])
            return float(values.min() if least else values.max())
        known = self._bound(given[end], batch, node, unknown)
        if np.ndim(known) == 0 and known == unknown and least and end in domain.parameters:
            return float(domain.parameters[end].low)  # the lower end of the parameter's domain
        return known


# Keys of families that hold distributions as text.
_WRITTEN = ("priors", "parameters", "table", "noisy_or", "noisy_max", "logit")


def check_written(family: BaseModel, data: Data) -> None:
    """Check the priors in a family's keys against the domains of their distributions, like nodes of a graph.

    Raises
    ------
    ModelError
        A prior is invalid; carries the path of the prior.
    """
    for path, text in _texts(family, ("model",)):
        word = text.split("(")[0].strip()
        if not set(_WRITTEN) & set(path) or word not in DISTRIBUTIONS.keys() | set(MODIFIERS):
            continue
        try:
            expression = parse(text)
        except ModelError:
            continue  # the reader of the key reports its form
        if path[1:2] != ("nodes",) and (atoms := atoms_of(expression.tree)):
            raise ModelError(
                f"{word} gives {listed(atoms)} a probability above zero, which the density of a parameter leaves out:"
                f" a prior is a continuous distribution",
                path=path,
                code="bad-prior",
            )
        if word in MODIFIERS:
            continue
        unknown = {name: Node(name, (), expression, "random", name) for name in expression.names}
        try:
            Domains(unknown, data).check(Node("", (), expression, "random", ""))
        except BayeslabError as error:
            raise ModelError(error.message, path=path, offset=error.offset, code=error.code) from None


def _texts(value: object, path: tuple[str | int, ...]) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every text inside a value, with its path."""
    if isinstance(value, str):
        yield path, value
        return
    items: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, BaseModel):
        items = ((name, getattr(value, name)) for name in type(value).model_fields)
    elif isinstance(value, Mapping):
        items = value.items()
    elif isinstance(value, list | tuple):
        items = enumerate(value)
    for key, item in items:
        yield from _texts(item, (*path, key))


def levels_refused(node: Node) -> DataError:
    """The error for an observed node of levels whose distribution draws numbers."""
    return DataError(
        f"'{node.name}' is text in the data; {node.distribution} needs numbers (levels are values of Categorical,"
        " Bernoulli, OrderedLogistic and OrderedProbit)",
        path=node.path,
        code="not-numbers",
    )


def _meeting(outer: _Support, inner: _Support) -> _Support:
    """The intersection of two supports."""
    low, high = np.maximum(outer.low, inner.low), np.minimum(outer.high, inner.high)
    opened = [
        is_open and bool(np.all(mine == its))
        for is_open, mine, its in (
            (inner.interval.open_low, low, inner.low),
            (inner.interval.open_high, high, inner.high),
        )
    ]
    return _Support(Interval(open_low=opened[0], open_high=opened[1]), low, high)


def _distributions(tree: ast.expr, dims: tuple[str, ...]) -> Iterator[tuple[ast.Call, tuple[str, ...]]]:
    """The calls of distributions in an expression, outermost first, with the dims of their draws."""
    word = call_name(tree)
    if isinstance(tree, ast.Call) and (word in DISTRIBUTIONS or word in MODIFIERS):
        yield tree, dims
        for part in [*tree.args, *(keyword.value for keyword in tree.keywords)]:
            for item in part.elts if isinstance(part, ast.List | ast.Tuple) else [part]:
                yield from _distributions(item, dims)


def _refused(
    node: Node, tree: ast.expr, needed: str, value: float, term: Term, wrong: np.ndarray, code: str = "out-of-range"
) -> BayeslabError:
    """The error for a parameter outside its domain: a data error if it comes from data."""
    if not isinstance(tree, ast.Constant | ast.UnaryOp) and term.dims and term.dims != (None,):
        return DataError(
            f"{needed}; '{ast.unparse(tree)}' is {value:g}{_place(term.dims, wrong)}",
            path=node.path,
            code=code,
        )
    return ModelError(f"{needed}; given: {value:g}", path=node.path, offset=tree.col_offset, code=code)


def _check_magnitude(node: Node, tree: ast.expr, value: np.ndarray, dims: Sequence[str | None]) -> None:
    """Refuse numbers whose squares overflow or underflow, as for columns."""
    large = np.isfinite(value) & (np.abs(value) > MOST_MAGNITUDE)
    if np.any(large):
        number = f"{value[large].flat[0]:g}"
        which = number if isinstance(tree, ast.Constant) else f"'{ast.unparse(tree)}' is {number}{_place(dims, large)},"
        raise ModelError(
            f"{which} {'is ' if isinstance(tree, ast.Constant) else ''}too large to compute with (at most"
            f" {MOST_MAGNITUDE:g}): write a smaller number, or take other units",
            path=node.path,
            code="out-of-range",
        )


def _remedy(tree: ast.expr, dims: Sequence[str | None]) -> str:
    """Advice for an expression of numbers and data that is not a number."""
    functions = {id(part.func) for part in ast.walk(tree) if isinstance(part, ast.Call)}
    if not any(isinstance(part, ast.Name) for part in ast.walk(tree) if id(part) not in functions):
        return "write other numbers"
    return f"{'leave the row out, or ' if dims else ''}say what holds there with where(...)"


def _place(dims: Sequence[str | None], wrong: np.ndarray) -> str:
    """The first invalid position, as the end of a clause."""
    if not np.ndim(wrong):
        return ""
    at = [int(i) + 1 for i in np.argwhere(wrong)[0]]
    return f" in row {at[0]}" if len(at) == 1 and None not in dims else f" in element {', '.join(map(str, at))}"


def _row(dims: Sequence[str], at: tuple[int, ...]) -> str:
    if not at:
        return ""
    numbers = ", ".join(str(i + 1) for i in at)
    return f", row {numbers}" if len(at) == 1 else f", element {numbers}"
