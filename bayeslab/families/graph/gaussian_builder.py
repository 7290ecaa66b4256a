"""A component of a graph that is Gaussian given at most two scale parameters, as matrices.

In ``theta: mu + tau * z`` the coefficient z is multiplied by a scale parameter. Then ``tau * z`` is taken as the
coefficient, which is also normal given tau. Coefficients are centred at their prior means, so that a very tight prior
loses no precision.

The matrices come from evaluating the expressions at zero and at the unit vectors, all at once.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.node_values import POINTS, Environment, NotExact
from bayeslab.distributions import SCALARS, log_density
from bayeslab.errors import ModelError
from bayeslab.exact.coordinates import Observations
from bayeslab.exact.gaussian import GaussianModel, Scale
from bayeslab.families.graph.linear_forms import ONE, SMOOTH, LinearReader, factors_of, product_of
from bayeslab.families.graph.normal_nodes import (
    NormalNode,
    ancestors,
    deterministic_ancestors,
    names_under,
    normal_node,
)
from bayeslab.language.algebra import Term
from bayeslab.language.nodes import Node, bound_arguments, call_name

__all__ = ["GaussianBuilder"]

MAX_COEFFICIENTS = 2_000
MAX_ENTRIES = 50_000_000  # of the linear system: 400 MB
MAX_WORK = 3e10  # multiplications for the integral over the scales: half a minute
MAX_CLASSES = 64
# With at most as many rows as coefficients the noise may vanish, and residuals near it are lost in rounding. The error
# of the log density is at most half a unit for each row: harmless for a few rows.
MIN_ROWS = 20
MAX_STATISTICS = 500  # elements of a deterministic node for which exact statistics are given
_COEFFICIENTS = ("Normal", "Flat", "MvNormal")
# Step by which coefficients are moved to find their effect: a power of two so large that anything added to them is
# rounded away.
_FAR = 2.0**80


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


class GaussianBuilder:
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
        self.reader = LinearReader(
            nodes, self.columns, frozenset(n.name for n in self.scales), frozenset(n.name for n in self.normal)
        )
        self.parameters = [(node, i) for node in self.scales for i in range(self.size(node))]
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
                out |= names_under(given[word], self.nodes, self.columns)
        below = {name for node in random for name in deterministic_ancestors(node, self.nodes, self.columns)}
        for node in [*random, *(self.nodes[name] for name in below)]:
            for part in ast.walk(node.expression.tree):
                power = isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow)
                if isinstance(part, ast.expr) and (power or call_name(part) in SMOOTH):
                    out |= names_under(part, self.nodes, self.columns)
        return out

    def size(self, node: Node) -> int:
        return int(np.prod(self.plain.shape(node.dims)))

    def _prepare(self) -> None:
        """Means, standard deviations and the multipliers of coefficients, as expressions."""
        self.specs: dict[str, NormalNode] = {}
        self.means: dict[str, ast.expr] = {}
        self.sds: dict[str, ast.expr] = {}
        for node in [*self.normal, *self.observed]:
            if node.recursive and "previous" in node.expression.calls:
                raise NotExact(f"'{node.name}' depends on its own past")
            if node.distribution == "Flat":
                continue
            spec = self.specs[node.name] = normal_node(node, self.plain)
            mean = self.reader.use(spec.mean)
            if mean.kind == "scale":
                used = names_under(spec.mean, self.nodes, self.columns)
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
            if names_under(tree, self.nodes, self.columns):
                raise NotExact(f"the prior of '{node.name}' has parameters of its own")
        arrays = {
            key: self.plain.on(tree, node.dims)[0].ravel()
            for key, tree in given.items()
            if not (isinstance(tree, ast.Constant) and tree.value is None)
        }
        out = []
        for i in range(self.size(node)):
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
            size, shape = self.size(node), self.plain.shape(node.dims)
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
        parts = [(part, up, self.reader.read(part).kind) for part, up in factors_of(tree)]
        data = product_of([(p, up) for p, up, kind in parts if kind == "data"])
        known = np.asarray(self.plain.on(data, node.dims)[0])
        rest = product_of([(p, up) for p, up, kind in parts if kind == "scale"])
        if power is not None:
            known = known**power
            rest = rest if rest is ONE else ast.BinOp(rest, ast.Pow(), ast.Constant(power))
        known = np.array(known, float).ravel()
        if not (np.all(np.isfinite(known)) and np.all(known > 0)):
            raise NotExact(f"the standard deviation of '{node.name}' is not positive everywhere")
        everywhere = np.arange(len(known))
        if rest is ONE or not self.dims_of(rest):
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

    def build(self) -> tuple[GaussianModel, dict[str, slice]]:
        """The model, and the positions of each node's outputs."""
        sizes = {node.name: self.size(node) for node in self.normal}
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
            self._add(ast.dump(ONE), ONE, None, self.observed[0], only)
        return self._model(environment)

    def _check_size(self, total: int) -> None:
        if total > MAX_COEFFICIENTS:
            raise NotExact(f"{total:,} coefficients; at most {MAX_COEFFICIENTS:,}")
        largest = max((self.size(node) for node in self.observed), default=0)
        if largest * total > MAX_ENTRIES:
            raise NotExact(f"a linear system of {largest:,} × {total:,}")

    def _coefficient(self, node: Node, at: np.ndarray, environment: Environment) -> Term:
        """A coefficient's value at zero and at the unit vectors; its prior becomes rows."""
        shape, dims = self.plain.shape(node.dims), (POINTS, *node.dims)
        unit = np.zeros((self.total + 1, len(at)))
        unit[1 + at, np.arange(len(at))] = _FAR
        unit = unit.reshape(-1, *shape)
        carrier = self.reader.carriers.get(node.name, ONE)
        if node.distribution == "Flat":
            if carrier is not ONE:
                raise NotExact(f"'{node.name}' is flat and multiplied by a scale parameter")
            return Term(unit, dims)
        mean, undefined = environment.on(self.means[node.name], node.dims)
        if undefined:
            raise NotExact(f"the mean of '{node.name}' has a lag beyond the first row")
        if carrier is not ONE:
            if np.any(mean != 0):
                raise NotExact(f"'{node.name}' is multiplied by a scale parameter and its prior mean is not zero")
            carrier_dims = self.dims_of(carrier)
            if not set(carrier_dims) <= set(node.dims):
                raise NotExact(f"'{node.name}' is multiplied by a scale parameter that varies within it")
        root = self.specs[node.name].root
        if root is not None:
            if carrier is not ONE:
                raise NotExact(f"'{node.name}' is multivariate and multiplied by a scale parameter")
            self._correlated(node, at, root)
        else:
            tree = self.sds[node.name] if carrier is ONE else ast.BinOp(carrier, ast.Mult(), self.sds[node.name])
            for spread in self.spreads(node, tree):
                rows = Observations.normal(at[spread.rows], np.zeros(len(spread.rows)), spread.known, self.total)
                self._add(spread.key, spread.tree, spread.at, node, rows)
        return Term(unit if carrier is not ONE else mean + unit, dims)

    def _correlated(self, node: Node, at: np.ndarray, root: np.ndarray) -> None:
        from scipy.sparse import csr_array

        size = len(root)
        entries = np.broadcast_to(root.T, (len(at) // size, size, size)).ravel()
        columns = np.repeat(at.reshape(-1, size), size, axis=0).ravel()
        design = csr_array((entries, (np.repeat(np.arange(len(at)), size), columns)), shape=(len(at), self.total))
        logs = -np.linalg.slogdet(root)[1] * len(at) / size
        rows = Observations(design, np.zeros(len(at)), None, float(len(at)), float(logs), True)
        self._add(ast.dump(ONE), ONE, None, node, rows)

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
            raise NotExact(f"'{node.name}' is multivariate and has a lag beyond its first row")
        size = len(root)
        if design is None:
            design = np.zeros((len(apart), self.total))
        white = np.einsum("nip,ij->njp", design.reshape(-1, size, self.total), root).reshape(-1, self.total)
        rows = Observations.of(white, (apart.reshape(-1, size) @ root).ravel())
        logs = -np.linalg.slogdet(root)[1] * len(apart) / size
        self._add(ast.dump(ONE), ONE, None, node, replace(rows, log_factors=float(logs)))

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
            if part.tree is ONE:
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

    def _model(self, environment: Environment) -> tuple[GaussianModel, dict[str, slice]]:
        outputs, origins, at = [], [], 0
        places: dict[str, slice] = {}
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
        return model, places

    def _reported(self, node: Node) -> bool:
        """Deterministic nodes that are linear in the coefficients, in the same coordinates."""
        if node.kind != "deterministic" or node.name in self.columns or node.recursive:
            return False
        if not ancestors(node.name, self.nodes, self.columns) or self.size(node) > MAX_STATISTICS:
            return False
        reader = self.reader
        before = [(known, dict(known)) for known in (reader.carriers, reader.trees, reader.forms)]
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
        spread = [np.std(self._target(node)) for node in self.observed if self.size(node) > 1]
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
        coefficients = sum(self.size(node) for node in self.normal)
        for node in self.observed:
            rows = self.size(node)
            free = node.name in self.sds and self.reader.read(self.sds[node.name]).kind == "scale"
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
