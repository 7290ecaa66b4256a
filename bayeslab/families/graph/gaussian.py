"""Graph models that are Gaussian given at most two scale parameters: recognition and exact solution.

Every random node has a role. *Scale parameters* determine standard deviations; *coefficients* are normal (or flat)
nodes. A model qualifies if the means are linear in the coefficients, with data as factors, and the standard deviations
are functions of at most two scale parameters, times data. This is checked on the expressions, not by trying numbers.

In ``theta: mu + tau * z`` the coefficient z is multiplied by a scale parameter. Then ``tau * z`` is taken as the
coefficient, which is also normal given tau. Coefficients are centred at their prior means, so that a very tight prior
loses no precision.

The matrices come from evaluating the expressions at zero and at the unit vectors, all at once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.node_values import POINTS, Environment, NotExact
from bayeslab.distributions import SCALARS, log_density
from bayeslab.errors import ModelError
from bayeslab.exact.coordinates import Observations
from bayeslab.exact.gaussian import GaussianModel, Posterior, Scale, integrate
from bayeslab.language.algebra import Term
from bayeslab.language.functions import DIM_ARGUMENTS
from bayeslab.language.nodes import Node, bound_arguments, call_name

__all__ = ["GaussianPiece", "gaussian_piece"]

MAX_COEFFICIENTS = 2_000
MAX_ENTRIES = 50_000_000  # of the linear system: 400 MB
MAX_WORK = 3e10  # multiplications for the integral over the scales: half a minute
MAX_CLASSES = 64
# With at most as many rows as coefficients the noise may vanish, and residuals near it are lost in rounding. The error
# of the log density is at most half a unit for each row: harmless for a few rows.
MIN_ROWS = 20
MAX_STATISTICS = 500  # elements of a deterministic node for which exact statistics are given
_COEFFICIENTS = ("Normal", "Flat", "MvNormal")
_SMOOTH = frozenset(("sqrt", "exp", "log", "log1p", "expm1"))
_SUMS = frozenset(("sum", "mean", "cumsum", "rename", "transpose", "concat", "stack"))
_ONE = ast.Constant(1)
# Step by which coefficients are moved to find their effect: a power of two so large that anything added to them is
# rounded away.
_FAR = 2.0**80


# --------------------------------------------------------------------------------- expressions


@dataclass(frozen=True, slots=True)
class _Form:
    """Kind of an expression: data, a function of scale parameters, or linear in coefficients."""

    kind: str
    tree: ast.expr
    names: frozenset[str] = frozenset()  # coefficients in it
    homogeneous: bool = False  # no constant term


@dataclass(eq=False)
class _Reader:
    """Reads expressions, and records which function of the scales multiplies which coefficient."""

    nodes: Mapping[str, Node]
    columns: set[str]
    scales: frozenset[str]
    coefficients: frozenset[str]
    carriers: dict[str, ast.expr] = field(default_factory=dict)
    trees: dict[str, ast.expr] = field(default_factory=dict)
    _forms: dict[str, _Form] = field(default_factory=dict)

    def use(self, tree: ast.expr) -> _Form:
        """The form of an expression that the model needs; this fixes the coefficients in it."""
        form = self._read(tree)
        self._settle(form)
        return form

    def _settle(self, form: _Form) -> None:
        for name in form.names:
            self._carry(name, _ONE)

    def _carry(self, name: str, by: ast.expr) -> None:
        known = self.carriers.setdefault(name, by)
        if ast.dump(known) != ast.dump(by):
            raise NotExact(
                f"'{name}' is multiplied by '{ast.unparse(by)}' in one place and by '{ast.unparse(known)}' in another"
            )

    def _named(self, name: str) -> _Form:
        node, tree = self.nodes.get(name), ast.Name(name, ast.Load())
        if node is None or name in self.columns:
            return _Form("data", tree)
        if name in self.scales and node.kind == "random":
            return _Form("scale", tree)
        if name in self.coefficients:
            return _Form("linear", tree, frozenset((name,)), True)
        if node.kind != "deterministic" or node.recursive:
            raise NotExact(f"'{name}' is neither normal nor a scale")
        if name not in self._forms:
            self._forms[name] = self._read(node.expression.tree)
            self.trees[name] = self._forms[name].tree
        return replace(self._forms[name], tree=tree)

    def _read(self, tree: ast.expr) -> _Form:
        match tree:
            case ast.Constant():
                return _Form("data", tree)
            case ast.Name(id=name):
                return self._named(name)
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                inner = self._read(tree.operand)
                return replace(inner, tree=ast.UnaryOp(tree.op, inner.tree))
            case ast.BinOp():
                return self._binary(tree, self._read(tree.left), self._read(tree.right))
            case ast.List() | ast.Tuple():
                return self._together(tree, [self._read(item) for item in tree.elts])
            case ast.Subscript():
                return self._indexed(tree)
            case ast.Call():
                return self._call(tree)
            case ast.UnaryOp() | ast.BoolOp() | ast.Compare():
                return self._data_only(tree)
        raise NotExact(f"'{ast.unparse(tree)}' is not linear")

    def _data_only(self, tree: ast.expr) -> _Form:
        for part in ast.iter_child_nodes(tree):
            if isinstance(part, ast.expr) and self._read(part).kind != "data":
                raise NotExact(f"'{ast.unparse(tree)}' depends on parameters and is not linear in them")
        return _Form("data", tree)

    def _together(self, tree: ast.expr, parts: Sequence[_Form]) -> _Form:
        """Sums or concatenations of parts."""
        kinds = {part.kind for part in parts}
        names = frozenset().union(*(part.names for part in parts))
        if kinds == {"data"}:
            return _Form("data", tree)
        if "linear" not in kinds:
            return _Form("scale", tree)
        if "scale" in kinds:
            raise NotExact(f"'{ast.unparse(tree)}' adds a parameter that is not Gaussian")
        rebuilt = _with_children(tree, [part.tree for part in parts])
        return _Form("linear", rebuilt, names, all(part.homogeneous for part in parts))

    def _binary(self, tree: ast.BinOp, left: _Form, right: _Form) -> _Form:
        kinds = (left.kind, right.kind)
        if isinstance(tree.op, ast.Add | ast.Sub):
            return self._together(tree, [left, right])
        if "linear" not in kinds:
            smooth = isinstance(tree.op, ast.Mult | ast.Div | ast.Pow)
            if "scale" in kinds and not smooth:
                raise NotExact(f"'{ast.unparse(tree)}' is not a smooth function of the scale parameters")
            return _Form("scale" if "scale" in kinds else "data", tree)
        product = isinstance(tree.op, ast.Mult | ast.MatMult)
        if kinds.count("linear") == 2 or not (product or (isinstance(tree.op, ast.Div) and left.kind == "linear")):
            raise NotExact(f"'{ast.unparse(tree)}' is not linear in {_listed(left.names | right.names)}")
        inner, other = (left, right) if left.kind == "linear" else (right, left)
        if other.kind == "data":
            return replace(inner, tree=ast.BinOp(left.tree, tree.op, right.tree))
        if isinstance(tree.op, ast.MatMult) or not inner.homogeneous:
            raise NotExact(f"'{ast.unparse(tree)}': a scale parameter multiplies more than normal nodes about zero")
        by = other.tree if product else ast.BinOp(_ONE, ast.Div(), other.tree)
        for name in inner.names:
            self._carry(name, by)
        # From here on the product is the coefficient.
        return replace(inner, names=frozenset())

    def _indexed(self, tree: ast.Subscript) -> _Form:
        index = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
        for item in index:
            if self._read(item).kind != "data":
                raise NotExact(f"the index in '{ast.unparse(tree)}' is a parameter")
        base = self._read(tree.value)
        return replace(base, tree=ast.Subscript(base.tree, tree.slice, tree.ctx))

    def _call(self, tree: ast.Call) -> _Form:
        word = str(call_name(tree))
        if word in ("lag", "previous"):
            used = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}
            if word == "lag" and all(self._read(ast.Name(n, ast.Load())).kind == "data" for n in used):
                return _Form("data", tree)
            raise NotExact(f"'{ast.unparse(tree)}' looks back at what has no data")
        skipped = DIM_ARGUMENTS.get(word, ())
        if word == "rename" and len(tree.args) == 2:
            skipped = (1,)
        parts = {i: self._read(a) for i, a in enumerate(tree.args) if i not in skipped}
        kinds = {part.kind for part in parts.values()}
        if kinds <= {"data"}:
            return _Form("data", tree)
        if word == "where" and parts[0].kind == "data":
            rest = self._together(ast.Tuple([tree.args[1], tree.args[2]], ast.Load()), [parts[1], parts[2]])
            return replace(rest, tree=_with_arguments(tree, parts))
        if "linear" not in kinds:
            if word not in _SMOOTH:
                raise NotExact(f"'{ast.unparse(tree)}' is not a function of the scale parameters that is known here")
            return _Form("scale", tree)
        if word in _SUMS:
            (only,) = parts.values()
            return replace(only, tree=_with_arguments(tree, parts))
        if word in ("dot", "outer") and sorted(p.kind for p in parts.values()) == ["data", "linear"]:
            inner = next(p for p in parts.values() if p.kind == "linear")
            return replace(inner, tree=_with_arguments(tree, parts))
        names = frozenset().union(*(p.names for p in parts.values()))
        raise NotExact(f"'{ast.unparse(tree)}' is not linear in {_listed(names)}")


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names)) or "what is in it"


def _with_children(tree: ast.expr, parts: list[ast.expr]) -> ast.expr:
    if isinstance(tree, ast.BinOp):
        return ast.BinOp(parts[0], tree.op, parts[1])
    return ast.List(parts, ast.Load()) if isinstance(tree, ast.List) else ast.Tuple(parts, ast.Load())


def _with_arguments(tree: ast.Call, parts: Mapping[int, _Form]) -> ast.Call:
    arguments = [parts[i].tree if i in parts else a for i, a in enumerate(tree.args)]
    return ast.Call(tree.func, arguments, tree.keywords)


def _factors(tree: ast.expr, up: bool = True) -> list[tuple[ast.expr, bool]]:
    """A product's factors, and whether each is in the numerator."""
    if isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.Mult | ast.Div):
        below = isinstance(tree.op, ast.Div)
        return _factors(tree.left, up) + _factors(tree.right, up != below)
    return [(tree, up)]


def _product(factors: Sequence[tuple[ast.expr, bool]]) -> ast.expr:
    out: ast.expr | None = None
    for tree, up in factors:
        if out is None:
            out = tree if up else ast.BinOp(_ONE, ast.Div(), tree)
        else:
            out = ast.BinOp(out, ast.Mult() if up else ast.Div(), tree)
    return out or _ONE


# --------------------------------------------------------------------------------- roles


@dataclass(frozen=True, eq=False)
class _Normal:
    """A normal node: its mean and standard deviation, or covariance of its last dimension."""

    node: Node
    mean: ast.expr
    sd: ast.expr | None
    root: np.ndarray | None = None  # rows @ root has independent columns (of a multivariate normal)


def _normal(node: Node, environment: Environment) -> _Normal:
    assert isinstance(node.expression.tree, ast.Call)
    word = str(node.distribution)
    given = bound_arguments(node.expression.tree, word)
    mean = given.get("mu", ast.Constant(0))
    if word != "MvNormal":
        if "sigma" in given and "tau" in given:
            raise NotExact(f"'{node.name}' has both sigma and tau")
        sd = given.get("sigma", _ONE)
        if "tau" in given:
            sd = ast.BinOp(given["tau"], ast.Pow(), ast.Constant(-0.5))
        return _Normal(node, mean, sd)
    (kind,) = given.keys() & {"cov", "tau", "chol"} or {""}
    if not kind or not node.dims:
        raise NotExact(f"'{node.name}' is multivariate without a covariance")
    names = {part.id for part in ast.walk(given[kind]) if isinstance(part, ast.Name)}
    if any(name in environment.nodes and name not in environment.columns for name in names):
        unknown = {n for n in names if n in environment.nodes and environment.nodes[n].kind == "random"}
        if unknown or any(_ancestors(n, environment.nodes, environment.columns) for n in names):
            raise NotExact(f"the covariance of '{node.name}' is not known")
    matrix = np.asarray(environment.eval(given[kind]).value, float)
    size = environment.shape(node.dims)[-1]
    if matrix.shape != (size, size):
        raise NotExact(f"the covariance of '{node.name}' is not one {size} × {size} matrix")
    if kind == "tau":
        root = np.linalg.cholesky(matrix)
    else:
        chol = np.tril(matrix) if kind == "chol" else np.linalg.cholesky(matrix)
        root = np.linalg.inv(chol).T
    return _Normal(node, mean, None, root)


def _ancestors(name: str, nodes: Mapping[str, Node], columns: set[str]) -> set[str]:
    """Unobserved random nodes that a node depends on, through deterministic ones."""
    out: set[str] = set()
    node = nodes.get(name)
    if node is None or name in columns:
        return out
    for parent in node.parents:
        below = nodes.get(parent)
        if below is None or parent in columns:
            continue
        out |= {parent} if below.kind == "random" else _ancestors(parent, nodes, columns)
    return out


def _deterministic(node: Node, nodes: Mapping[str, Node], columns: set[str]) -> set[str]:
    """Deterministic nodes that a node depends on."""
    out: set[str] = set()
    for parent in node.parents & nodes.keys():
        if parent not in columns and nodes[parent].kind == "deterministic":
            out |= {parent} | _deterministic(nodes[parent], nodes, columns)
    return out


def _names_under(tree: ast.expr, nodes: Mapping[str, Node], columns: set[str]) -> set[str]:
    """Unobserved random nodes in an expression."""
    out: set[str] = set()
    for name in {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)}:
        if name in nodes and name not in columns:
            out |= {name} if nodes[name].kind == "random" else _ancestors(name, nodes, columns)
    return out


# --------------------------------------------------------------------------------- building


@dataclass(frozen=True, slots=True)
class _Spread:
    """A standard deviation of a node's rows: a function of the scales times known factors."""

    key: str
    tree: ast.expr
    rows: np.ndarray  # flat positions in the node
    known: np.ndarray  # their factors
    at: int | None  # the row at which the function is evaluated, if it varies by row


@dataclass(frozen=True, eq=False)
class _Class:
    """Rows with a common scale."""

    node: Node
    tree: ast.expr
    at: int | None
    rows: tuple[Observations, ...]


class _Builder:
    """Converts one connected component of a model to a :class:`GaussianModel`."""

    def __init__(self, names: set[str], nodes: Mapping[str, Node], data: Data, order: Sequence[Node]) -> None:
        self.nodes, self.data, self.columns = nodes, data, data.names()
        self.plain = Environment(nodes, data, {})
        random = [node for node in order if node.name in names and node.kind == "random"]
        latent = [node for node in random if node.name not in self.columns]
        for node in random:
            if node.name in self.columns and node.distribution not in ("Normal", "MvNormal", "LogNormal", "Lognormal"):
                raise NotExact(
                    f"'{node.name}' is {_article(node.distribution)} and the prior of its parameters is not conjugate"
                )
        curved = self._curved(random)
        self.scales = [n for n in latent if n.name in curved or n.distribution not in _COEFFICIENTS]
        self.normal = [n for n in latent if n not in self.scales]
        self.observed = [node for node in random if node.name in self.columns]
        self.reader = _Reader(
            nodes, self.columns, frozenset(n.name for n in self.scales), frozenset(n.name for n in self.normal)
        )
        self.parameters = [(node, i) for node in self.scales for i in range(self._size(node))]
        if len(self.parameters) > 2:
            raise NotExact(f"{len(self.parameters)} parameters are not Gaussian ({_short(self.scales)}); at most two")
        self.priors = {node.name: self._priors(node) for node in self.scales}
        self._prepare()

    def _curved(self, random: Sequence[Node]) -> set[str]:
        """Nodes in standard deviations or inside a function, which cannot be coefficients."""
        out: set[str] = set()
        for node in random:
            assert isinstance(node.expression.tree, ast.Call)
            given = (
                bound_arguments(node.expression.tree, str(node.distribution)) if node.distribution in SCALARS else {}
            )
            for word in given.keys() & {"sigma", "tau"}:
                out |= _names_under(given[word], self.nodes, self.columns)
        below = {name for node in random for name in _deterministic(node, self.nodes, self.columns)}
        for node in [*random, *(self.nodes[name] for name in below)]:
            for part in ast.walk(node.expression.tree):
                power = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow)
                if isinstance(part, ast.expr) and (power or call_name(part) in _SMOOTH):
                    out |= _names_under(part, self.nodes, self.columns)
        return out

    def _size(self, node: Node) -> int:
        return int(np.prod(self.plain.shape(node.dims)))

    def _prepare(self) -> None:
        """Means, standard deviations and the multipliers of coefficients, as expressions."""
        self.specs: dict[str, _Normal] = {}
        self.means: dict[str, ast.expr] = {}
        self.sds: dict[str, ast.expr] = {}
        for node in [*self.normal, *self.observed]:
            if node.recursive and "previous" in node.expression.calls:
                raise NotExact(f"'{node.name}' depends on its own past")
            if node.distribution == "Flat":
                continue
            spec = self.specs[node.name] = _normal(node, self.plain)
            mean = self.reader.use(spec.mean)
            if mean.kind == "scale":
                used = _names_under(spec.mean, self.nodes, self.columns)
                odd = next(n for n in self.scales if n.name in used)
                raise NotExact(
                    f"the mean of '{node.name}' depends on '{odd.name}', and '{odd.name}' is"
                    f" {_article(odd.distribution)}: not Gaussian"
                )
            self.means[node.name] = mean.tree
            if spec.sd is not None:
                sd = self.reader.use(spec.sd)
                if sd.kind == "linear":
                    raise NotExact(f"the standard deviation of '{node.name}' depends on a normal node")
                self.sds[node.name] = sd.tree

    def _priors(self, node: Node) -> list[Scale]:
        """One :class:`Scale` for each element of a scale node."""
        word = str(node.distribution)
        if word not in SCALARS:
            raise NotExact(f"the prior of '{node.name}' is {_article(node.distribution)}, which is not known here")
        assert isinstance(node.expression.tree, ast.Call)
        given = bound_arguments(node.expression.tree, word)
        for tree in given.values():
            if _names_under(tree, self.nodes, self.columns):
                raise NotExact(f"the prior of '{node.name}' has parameters of its own")
        arrays = {
            key: self.plain.on(tree, node.dims)[0].ravel()
            for key, tree in given.items()
            if not (isinstance(tree, ast.Constant) and tree.value is None)
        }
        out = []
        for i in range(self._size(node)):
            function, low, high, proper = log_density(word, {key: float(a[i]) for key, a in arrays.items()})
            if np.isinf(low) and np.isfinite(high):
                raise NotExact(f"'{node.name}' is bounded above only")
            out.append(Scale(node.name, function, low, high, proper))
        return out

    # -- scales

    def scale_terms(self, values: Sequence[np.ndarray]) -> dict[str, Term]:
        """Values (K,) of each scale parameter as terms of their nodes."""
        out, at = {}, 0
        for node in self.scales:
            size, shape = self._size(node), self.plain.shape(node.dims)
            stacked = np.stack(list(values[at : at + size]), axis=-1).reshape(len(values[at]), *shape)
            out[node.name] = Term(stacked, (POINTS, *node.dims))
            at += size
        return out

    def evaluate(
        self, tree: ast.expr, dims: tuple[str, ...], values: Sequence[np.ndarray], only: Mapping[str, int] | None = None
    ) -> np.ndarray:
        """A function of the scales at K values of them: shape (K, ...); ``only`` at one position of some dims."""
        environment = Environment(self.nodes, self.data, self.scale_terms(values), only=only)
        with np.errstate(all="ignore"):
            out = environment.on(tree, dims)[0]
        points = len(values[0]) if values else 1
        return out if out.ndim > len(dims) else np.broadcast_to(out, (points, *out.shape))

    def dims_of(self, tree: ast.expr) -> tuple[str, ...]:
        """The dimensions of an expression of the scales."""
        environment = Environment(self.nodes, self.data, self.scale_terms(self._probes()))
        return tuple(str(d) for d in environment.eval(tree).dims if d != POINTS)

    def _probes(self) -> list[np.ndarray]:
        """Values of the scales at which functions of them are compared; a few suffice for smooth functions."""
        rng = np.random.default_rng(0)
        scales = [scale for node in self.scales for scale in self.priors[node.name]]
        return [scale.value(rng.uniform(-1, 1, 5)) for scale in scales]

    def spreads(self, node: Node, tree: ast.expr) -> list[_Spread]:
        """The rows of a node, grouped by the function of the scales that is their standard deviation."""
        power: float | None = None
        match tree:
            case ast.BinOp(
                left=ast.expr() as base, op=ast.Pow(), right=ast.Constant(value=int() | float() as exponent)
            ):
                tree, power = base, float(exponent)
        parts = [(part, up, self.reader._read(part).kind) for part, up in _factors(tree)]
        known = np.asarray(self.plain.on(_product([(p, up) for p, up, kind in parts if kind == "data"]), node.dims)[0])
        rest = _product([(p, up) for p, up, kind in parts if kind == "scale"])
        if power is not None:
            known = known**power
            rest = rest if rest is _ONE else ast.BinOp(rest, ast.Pow(), ast.Constant(power))
        known = np.array(known, float).ravel()
        if not (np.all(np.isfinite(known)) and np.all(known > 0)):
            raise NotExact(f"the standard deviation of '{node.name}' is not positive everywhere")
        everywhere = np.arange(len(known))
        if rest is _ONE or not self.dims_of(rest):
            return [_Spread(ast.dump(rest), rest, everywhere, known, None)]
        profile = self.evaluate(rest, node.dims, self._probes()).reshape(5, -1)
        with np.errstate(all="ignore"):
            relative = profile / profile[:1]
        _, first, which = np.unique(np.round(relative, 10).T, axis=0, return_index=True, return_inverse=True)
        which = which.ravel()
        if len(first) > MAX_CLASSES:
            raise NotExact(f"the standard deviation of '{node.name}' takes {len(first)} different forms")
        factor = profile[0] / profile[0, first[which]]
        return [
            _Spread(f"{node.name} {at}", rest, rows, (known * factor)[rows], int(at))
            for c, at in enumerate(first)
            if len(rows := np.flatnonzero(which == c))
        ]

    # -- the linear system

    def build(self) -> GaussianPiece:
        sizes = {node.name: self._size(node) for node in self.normal}
        total = max(sum(sizes.values()), 1)
        self._check_size(total)
        self._check_rows()
        starts = dict(zip(sizes, np.cumsum([0, *sizes.values()])[:-1], strict=True))
        self.classes: dict[str, _Class] = {}
        self.total = total
        values: dict[str, Term] = {}
        environment = Environment(self.nodes, self.data, values, self.reader.trees)
        for node in self.normal:
            at = starts[node.name] + np.arange(sizes[node.name])
            environment.values[node.name] = self._coefficient(node, at, environment)
        self.log_jacobian = 0.0
        for node in self.observed:
            self._observe(node, environment)
        if not self.normal:
            # A coefficient without effect, so that there is at least one.
            only = Observations.normal(np.zeros(1, int), np.zeros(1), np.ones(1), total)
            self._add(ast.dump(_ONE), _ONE, None, self.observed[0], only)
        return self._piece(environment, starts, sizes)

    def _check_size(self, total: int) -> None:
        if total > MAX_COEFFICIENTS:
            raise NotExact(f"{total:,} coefficients; at most {MAX_COEFFICIENTS:,}")
        largest = max((self._size(node) for node in self.observed), default=0)
        if largest * total > MAX_ENTRIES:
            raise NotExact(f"a linear system of {largest:,} × {total:,}")

    def _coefficient(self, node: Node, at: np.ndarray, environment: Environment) -> Term:
        """A coefficient's value at zero and at the unit vectors; its prior becomes rows."""
        shape, dims = self.plain.shape(node.dims), (POINTS, *node.dims)
        unit = np.zeros((self.total + 1, len(at)))
        unit[1 + at, np.arange(len(at))] = _FAR
        unit = unit.reshape(-1, *shape)
        carrier = self.reader.carriers.get(node.name, _ONE)
        if node.distribution == "Flat":
            if carrier is not _ONE:
                raise NotExact(f"'{node.name}' is flat and multiplied by a scale parameter")
            return Term(unit, dims)
        mean, undefined = environment.on(self.means[node.name], node.dims)
        if undefined:
            raise NotExact(f"the mean of '{node.name}' looks back past the first row")
        if carrier is not _ONE:
            if np.any(mean != 0):
                raise NotExact(f"'{node.name}' is multiplied by a scale parameter and its prior mean is not zero")
            carrier_dims = self.dims_of(carrier)
            if not set(carrier_dims) <= set(node.dims):
                raise NotExact(f"'{node.name}' is multiplied by a scale parameter that varies within it")
        root = self.specs[node.name].root
        if root is not None:
            if carrier is not _ONE:
                raise NotExact(f"'{node.name}' is multivariate and multiplied by a scale parameter")
            self._correlated(node, at, root)
        else:
            tree = self.sds[node.name] if carrier is _ONE else ast.BinOp(carrier, ast.Mult(), self.sds[node.name])
            for spread in self.spreads(node, tree):
                rows = Observations.normal(at[spread.rows], np.zeros(len(spread.rows)), spread.known, self.total)
                self._add(spread.key, spread.tree, spread.at, node, rows)
        return Term(unit if carrier is not _ONE else mean + unit, dims)

    def _correlated(self, node: Node, at: np.ndarray, root: np.ndarray) -> None:
        from scipy.sparse import csr_array

        size = len(root)
        entries = np.broadcast_to(root.T, (len(at) // size, size, size)).ravel()
        columns = np.repeat(at.reshape(-1, size), size, axis=0).ravel()
        design = csr_array((entries, (np.repeat(np.arange(len(at)), size), columns)), shape=(len(at), self.total))
        logs = -np.linalg.slogdet(root)[1] * len(at) / size
        rows = Observations(design, np.zeros(len(at)), None, float(len(at)), float(logs), True)
        self._add(ast.dump(_ONE), _ONE, None, node, rows)

    def _observe(self, node: Node, environment: Environment) -> None:
        mean, undefined = environment.on(self.means[node.name], node.dims)
        target = self._target(node)
        design = self._slopes(mean).T if mean.ndim > len(node.dims) else None
        offset = (mean[0] if design is not None else mean).ravel()
        kept = np.ones(target.shape, bool)
        for dim, rows in undefined.items():
            kept[(slice(None),) * node.dims.index(dim) + (slice(None, rows),)] = False
        root = self.specs[node.name].root
        if root is not None:
            self._observe_vectors(node, root, design, target.ravel() - offset, bool(np.all(kept)))
            return
        apart, here = target.ravel() - offset, kept.ravel()
        if design is None:
            design = np.zeros((len(apart), self.total))
        for spread in self.spreads(node, self.sds[node.name]):
            rows = here[spread.rows]
            chosen = spread.rows[rows]
            everything = len(chosen) == len(apart)
            part = _reduced(
                design if everything else design[chosen], apart if everything else apart[chosen], spread.known[rows]
            )
            self._add(spread.key, spread.tree, spread.at, node, part)
        if node.distribution in ("LogNormal", "Lognormal"):
            self.log_jacobian -= float(target.ravel()[here].sum())

    def _slopes(self, value: np.ndarray) -> np.ndarray:
        """Effect of each coefficient, (P, ...), from values at zero and with each coefficient moved far away."""
        return ((value[1:] - value[:1]) / _FAR).reshape(self.total, -1)

    def _observe_vectors(
        self, node: Node, root: np.ndarray, design: np.ndarray | None, apart: np.ndarray, complete: bool
    ) -> None:
        if not complete:
            raise NotExact(f"'{node.name}' is multivariate and looks back past its first row")
        size = len(root)
        if design is None:
            design = np.zeros((len(apart), self.total))
        white = np.einsum("nip,ij->njp", design.reshape(-1, size, self.total), root).reshape(-1, self.total)
        rows = Observations.of(white, (apart.reshape(-1, size) @ root).ravel())
        logs = -np.linalg.slogdet(root)[1] * len(apart) / size
        self._add(ast.dump(_ONE), _ONE, None, node, replace(rows, log_factors=float(logs)))

    def _target(self, node: Node) -> np.ndarray:
        term = self.data.term(node.name, missing=True)
        if term.value is None or set(term.dims) != set(node.dims):
            raise NotExact(f"'{node.name}' is not a column of numbers with the node's dimensions")
        value = np.asarray(term.value, float).transpose([term.dims.index(d) for d in node.dims])
        if np.any(np.isnan(value)):
            raise NotExact(f"'{node.name}' has {int(np.isnan(value).sum())} missing cells, which are imputed")
        if node.distribution in ("LogNormal", "Lognormal"):
            if np.any(value <= 0):
                raise NotExact(f"'{node.name}' is not positive everywhere")
            value = np.log(value)
        if np.any(np.isinf(value)):
            raise NotExact(f"'{node.name}' has infinite cells")
        return value

    def _add(self, key: str, tree: ast.expr, at: int | None, node: Node, rows: Observations) -> None:
        known = self.classes.get(key)
        if known is None:
            self.classes[key] = _Class(node, tree, at, (rows,))
        else:
            self.classes[key] = replace(known, rows=(*known.rows, rows))
        if len(self.classes) * self.total**2 > MAX_ENTRIES:
            raise NotExact(f"{len(self.classes)} different scales of {self.total:,} coefficients")

    # -- the result

    def factors(self, values: list[np.ndarray]) -> np.ndarray:
        """The scale of each class at K values of the parameters: (K, classes)."""
        columns = []
        for part in self.classes.values():
            if part.tree is _ONE:
                columns.append(np.ones(len(values[0])))
                continue
            if part.at is None:
                f = self.evaluate(part.tree, (), values)
            else:
                dims = part.node.dims
                place = np.unravel_index(part.at, self.plain.shape(dims))
                f = self.evaluate(part.tree, (), values, dict(zip(dims, map(int, place), strict=True)))
            columns.append(f)
        f = np.stack(columns, axis=1)
        # A scale of zero or below has no density.
        with np.errstate(invalid="ignore"):
            return np.where((f > 0) & (f < np.inf), f, np.nan)

    def _piece(self, environment: Environment, starts: Mapping[str, int], sizes: Mapping[str, int]) -> GaussianPiece:
        outputs, origins, places, at = [], [], {}, 0
        linear = [node for node in self.nodes.values() if self._reported(node)]
        for node in [*self.normal, *linear]:
            try:
                value = environment.lookup(node.name)
            except (NotExact, ModelError):
                continue
            array = np.asarray(value.value).reshape(self.total + 1, -1)
            outputs.append(self._slopes(array).T)
            origins.append(array[0])
            places[node.name] = slice(at, at + array.shape[1])
            at += array.shape[1]
        if not outputs:
            outputs, origins = [np.zeros((0, self.total))], [np.zeros(0)]
        scales = [scale for node in self.scales for scale in self.priors[node.name]]
        model = GaussianModel.of(
            [part.rows for part in self.classes.values()],
            self.factors,
            scales,
            self._guesses(scales),
            np.concatenate(outputs),
            np.concatenate(origins),
        )
        self._check_work(model)
        return GaussianPiece(self, model, places)

    def _reported(self, node: Node) -> bool:
        """Deterministic nodes that are linear in the coefficients, in the same coordinates."""
        if node.kind != "deterministic" or node.name in self.columns or node.recursive:
            return False
        if not _ancestors(node.name, self.nodes, self.columns) or self._size(node) > MAX_STATISTICS:
            return False
        reader = self.reader
        before = [(known, dict(known)) for known in (reader.carriers, reader.trees, reader._forms)]
        try:
            form = reader.use(ast.Name(node.name, ast.Load()))
            if form.kind == "linear" and reader.carriers.keys() == before[0][1].keys():
                return True
        except NotExact:
            pass
        for known, was in before:
            known.clear()
            known.update(was)  # type: ignore[arg-type]
        return False

    def _guesses(self, scales: Sequence[Scale]) -> list[float]:
        """A value of each scale that makes some standard deviation as large as the spread of the data."""
        spread = [np.std(self._target(node)) for node in self.observed if self._size(node) > 1]
        typical = float(max(spread, default=1.0)) or 1.0
        return [self._guess(scales, i, typical) for i in range(len(scales))]

    def _guess(self, scales: Sequence[Scale], i: int, typical: float) -> float:
        """A value of one scale that makes some standard deviation typical, if need be far from 1."""
        guess = typical
        for far in (40.0, 700.0):
            u = np.linspace(-far, far, int(8 * far) + 1)
            wide = scales[i].value(u if np.isfinite(scales[i].lower) else u / 8)
            values = [wide if j == i else np.full(len(u), s.value(np.zeros(1))[0]) for j, s in enumerate(scales)]
            f = self.factors(values)
            varies = f[:, [np.nanmax(c) > np.nanmin(c) if np.any(np.isfinite(c)) else False for c in f.T]]
            if not varies.size:
                return typical
            with np.errstate(divide="ignore"):
                apart = np.abs(np.log(varies) - np.log(typical))
            nearest = np.nanmin(np.where(np.isnan(apart), np.inf, apart), axis=1)
            guess = float(wide[np.argmin(nearest)])
            if nearest.min() < 1:
                break
        return guess

    def _check_rows(self) -> None:
        coefficients = sum(self._size(node) for node in self.normal)
        for node in self.observed:
            rows = self._size(node)
            free = node.name in self.sds and self.reader._read(self.sds[node.name]).kind == "scale"
            if free and MIN_ROWS < rows <= coefficients:
                raise NotExact(f"'{node.name}' has {rows} rows for {coefficients} coefficients and an unknown noise")

    def _check_work(self, model: GaussianModel) -> None:
        dense, diagonal = model.shape
        points = (1, 1_000, 40_000)[len(model.scales)]
        work = points * (dense**3 / 3 + diagonal * dense**2 + len(model.rows) * dense**2)
        if work > MAX_WORK:
            raise NotExact(
                f"{dense:,} coefficients that all depend on each other, at each point of an integral over"
                f" {len(model.scales)} scales"
            )


def _reduced(design: np.ndarray, target: np.ndarray, factors: np.ndarray) -> Observations:
    """Rows of data; most of their entries are zero where effects belong to groups."""
    if design.size < 100_000 or np.count_nonzero(design) > 0.1 * design.size:
        return Observations.of(design, target, factors)
    from scipy.sparse import csr_array

    return Observations.of(csr_array(design), target, factors)


def _article(word: str | None) -> str:
    return f"{'an' if str(word)[:1] in 'AEIOU' else 'a'} {word}"


def _short(nodes: Sequence[Node]) -> str:
    return ", ".join(node.key for node in nodes)


# --------------------------------------------------------------------------------- the answer


@dataclass(frozen=True, eq=False)
class GaussianPiece:
    """A recognised component of a model; :meth:`solve` computes the integral.

    Attributes
    ----------
    model : GaussianModel
    places : mapping of str to slice
        Positions of each node's outputs.
    """

    builder: _Builder
    model: GaussianModel
    places: Mapping[str, slice]

    @property
    def how(self) -> str:
        """One-line description of the method and its parameters."""
        scales = [node.name for node in self.builder.scales]
        normal = [node.name for node in self.builder.normal]
        words = f"{_few(normal)} Gaussian" if normal else "the data Gaussian"
        if not scales:
            return words
        return f"{words} given {' and '.join(scales)}, integrated by quadrature"

    def solve(self, method: Callable[[GaussianModel], Posterior] = integrate) -> GaussianAnswer:
        posterior = method(self.model)
        grid = [a.ravel() for a in np.meshgrid(*posterior.axes, indexing="ij")]
        values = [s.value(u) for s, u in zip(self.model.scales, grid, strict=True)]
        # A coefficient multiplied by a scale parameter was solved for as their product.
        means, variances, origin = posterior.means.copy(), posterior.variances.copy(), posterior.origin.copy()
        for name, carrier in self._carriers().items():
            by = self.builder.evaluate(carrier, self.builder.nodes[name].dims, values).reshape(len(means), -1)
            place = self.places[name]
            means[:, place] = (means[:, place] + origin[place]) / by
            variances[:, place] /= by**2
            origin[place] = 0.0
        return GaussianAnswer(self, replace(posterior, means=means, variances=variances, origin=origin), values)

    def _carriers(self) -> dict[str, ast.expr]:
        normal = {node.name for node in self.builder.normal}
        return {
            name: tree for name, tree in self.builder.reader.carriers.items() if tree is not _ONE and name in normal
        }


def _few(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:3])} and {len(names) - 3} more"


@dataclass(frozen=True, eq=False)
class GaussianAnswer:
    """The posterior of one component, by node."""

    piece: GaussianPiece
    posterior: Posterior
    values: Sequence[np.ndarray]

    @property
    def log_evidence(self) -> float:
        if any(node.distribution == "Flat" for node in self.piece.builder.normal):
            return float("nan")
        return self.posterior.log_evidence + self.piece.builder.log_jacobian

    @cached_property
    def functions(self) -> dict[str, tuple[Node, np.ndarray, int]]:
        """Monotone deterministic functions of a single scale: values on the grid."""
        builder, out = self.piece.builder, {}
        index = {node.name: i for i, (node, _) in enumerate(builder.parameters) if not node.dims}
        for node in builder.nodes.values():
            above = _ancestors(node.name, builder.nodes, builder.columns) if node.kind == "deterministic" else set()
            if node.dims or len(above) != 1 or not above <= index.keys() or node.recursive:
                continue
            d = index[next(iter(above))]
            try:
                along = self._function(node, d, self.piece.model.scales[d].value(self.posterior.axes[d]))
                everywhere = builder.evaluate(node.expression.tree, (), self.values)
            except (NotExact, ModelError):
                continue
            steps = np.sign(np.diff(along))
            if np.all(np.isfinite(along)) and (np.all(steps > 0) or np.all(steps < 0)):
                out[node.name] = (node, everywhere, d)
        return out

    def _function(self, node: Node, d: int, value: np.ndarray) -> np.ndarray:
        values = [np.full(len(value), np.median(v)) for v in self.values]
        values[d] = value
        return self.piece.builder.evaluate(node.expression.tree, (), values)

    def mean(self) -> dict[str, np.ndarray]:
        return self._named(self.posterior.mean(), self.posterior.scale_moments()[0]) | self._of_functions(0)

    def sd(self) -> dict[str, np.ndarray]:
        return self._named(np.sqrt(self.posterior.variance()), self.posterior.scale_moments()[1]) | self._of_functions(
            1
        )

    def _of_functions(self, moment: int) -> dict[str, np.ndarray]:
        """Means (0) or standard deviations (1) of functions of one scale."""
        return {n: self.posterior.moments(f.reshape(-1, 1))[moment][0] for n, (_, f, _) in self.functions.items()}

    def quantile(self, probability: float) -> dict[str, np.ndarray]:
        scales = [self.posterior.scale_quantile(d, probability) for d in range(len(self.values_of))]
        out = self._named(self.posterior.quantile(probability), np.array(scales))
        for name, (node, _, d) in self.functions.items():
            ends = self._function(node, d, self.piece.model.scales[d].value(self.posterior.axes[d])[[0, -1]])
            share = probability if ends[1] > ends[0] else 1 - probability
            out[name] = self._function(node, d, np.array([self.posterior.scale_quantile(d, share)]))[0]
        return out

    @property
    def values_of(self) -> Sequence[Scale]:
        return self.piece.model.scales

    def draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        """Draws of the random nodes of the component."""
        builder = self.piece.builder
        outputs, scales = self.posterior.draws(rng, n)
        normal = {node.name for node in builder.normal}
        out = {
            name: outputs[:, place].reshape(n, *builder.plain.shape(builder.nodes[name].dims))
            for name, place in self.piece.places.items()
            if name in normal
        }
        for name, carrier in self.piece._carriers().items():
            out[name] = out[name] / builder.evaluate(carrier, builder.nodes[name].dims, scales)
        terms = builder.scale_terms(scales) if scales else {}
        return out | {name: np.asarray(term.value) for name, term in terms.items()}

    def _named(self, outputs: np.ndarray, scales: np.ndarray) -> dict[str, np.ndarray]:
        builder, out, at = self.piece.builder, {}, 0
        for name, place in self.piece.places.items():
            out[name] = outputs[place].reshape(builder.plain.shape(builder.nodes[name].dims))
        for node in builder.scales:
            size = builder._size(node)
            out[node.name] = np.asarray(scales[at : at + size]).reshape(builder.plain.shape(node.dims))
            at += size
        return out


def gaussian_piece(names: set[str], nodes: Mapping[str, Node], data: Data, order: Sequence[Node]) -> GaussianPiece:
    """Read a connected component of a model as a Gaussian model.

    Parameters
    ----------
    order
        All nodes, parents before children.

    Raises
    ------
    NotExact
        The component is not of this form; the message has the node and the reason.
    """
    return _Builder(names, nodes, data, order).build()
