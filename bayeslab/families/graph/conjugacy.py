"""Closed forms in ``graph`` models: recognising conjugate nodes, and their posterior.

The model splits into components without common parameters; each must have a closed form, and the posterior is their
product. A component is a conjugate pair (a beta, Dirichlet or gamma node and its data) or Gaussian given at most two
scales (:mod:`bayeslab.families.graph.gaussian`).
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from bayeslab import special
from bayeslab.data.bound import Data
from bayeslab.data.node_values import POINTS, Environment, NotExact
from bayeslab.distributions import DISTRIBUTIONS, Interval, conjugate
from bayeslab.errors import BayeslabError, ModelError, listed
from bayeslab.exact.conjugate import BetaBinomial, DirichletMultinomial, GammaPoisson
from bayeslab.exact.gaussian import empirical_bayes
from bayeslab.families.graph.discrete_only import DiscretePiece
from bayeslab.families.graph.gaussian import GaussianPiece, gaussian_piece
from bayeslab.families.graph.linear_forms import factors_of
from bayeslab.families.graph.normal_nodes import ancestors
from bayeslab.language.algebra import Term
from bayeslab.language.nodes import Node, bound_arguments, look_back_at_each_other, sorted_nodes
from bayeslab.posterior.answer import Answer, Plan

__all__ = ["closed_form"]

# Priors with a known conjugate posterior.
_PRIORS = ("Beta", "Dirichlet", "Gamma")


def closed_form(nodes: Mapping[str, Node], data: Data, discrete: DiscretePiece | None = None) -> Plan | str:
    """Plan of the exact solution, or a one-line reason why there is none.

    Parameters
    ----------
    nodes, data
        The model's nodes by name and the data bound to it.
    discrete
        Plan for the case that all unknowns are discrete.
    """
    if discrete is not None:
        try:
            _ = discrete.built
        except BayeslabError as error:
            return error.message
        return Plan(discrete.how, lambda: _Answer([discrete.solve()], nodes, data))
    try:
        if look_back_at_each_other(nodes, data.names()):
            raise NotExact("nodes depend on each other's past")
        if states := [name for name, node in nodes.items() if node.states]:
            raise NotExact(f"the states of {listed(states)} are normal only given their standard deviations")
        order = sorted_nodes(nodes, data.names())
        pieces = [_piece(names, nodes, data, order) for names in _pieces(nodes, data)]
        _check_computed(nodes, data)
    except NotExact as reason:
        return str(reason)
    except BayeslabError as error:
        # Building the graph reports it with its place.
        return error.message
    except RecursionError:
        return "its nodes depend on each other in a chain too long to be followed"
    except (ValueError, TypeError, IndexError, KeyError, np.linalg.LinAlgError) as error:
        message = (str(error) or type(error).__name__).splitlines()[0]
        return f"the model's matrices cannot be built ({message})"
    how = "; ".join(piece.how for piece in pieces)
    scaled = [piece for piece in pieces if isinstance(piece, GaussianPiece) and piece.model.scales]

    def empirical() -> Answer:
        return _Answer([p.solve(empirical_bayes) if p in scaled else p.solve() for p in pieces], nodes, data)

    def probe() -> None:
        for piece in pieces:
            if isinstance(piece, GaussianPiece):
                piece.model.probe()

    def solve() -> Answer:
        return _Answer([piece.solve() for piece in pieces], nodes, data)

    return Plan(how, solve, empirical if scaled else None, probe=probe)


def _check_computed(nodes: Mapping[str, Node], data: Data) -> None:
    """Evaluate the deterministic nodes once, to check names and levels, also where no data depend on them.

    Raises
    ------
    BayeslabError, NotExact
        As their evaluation at the draws would raise.
    """
    columns = data.names()
    random = [node for node in nodes.values() if node.kind == "random" and node.name not in columns]
    lengths = {dim: len(levels) for dim, levels in data.labels.items()}
    ones = {node.name: Term(np.ones([lengths.get(dim, 1) for dim in node.dims]), node.dims) for node in random}
    environment = Environment(nodes, data, ones)
    for node in nodes.values():
        if node.kind == "deterministic" and ancestors(node.name, nodes, columns):
            try:
                with np.errstate(all="ignore"):
                    environment.lookup(node.name)
            except (ValueError, TypeError, np.linalg.LinAlgError):
                continue  # an error at ones; the draws are other numbers


class _Solved(Protocol):
    @property
    def log_evidence(self) -> float: ...
    def mean(self) -> dict[str, np.ndarray]: ...
    def sd(self) -> dict[str, np.ndarray]: ...
    def quantile(self, probability: float) -> dict[str, np.ndarray]: ...
    def draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]: ...


class _Piece(Protocol):
    @property
    def how(self) -> str: ...
    def solve(self) -> _Solved: ...


def _pieces(nodes: Mapping[str, Node], data: Data) -> list[set[str]]:
    """Groups of random nodes that are connected through parameters; observed nodes do not connect."""
    columns = data.names()
    groups: list[set[str]] = []
    latent = False
    for node in nodes.values():
        if node.kind == "potential":
            raise NotExact(f"'{node.name}' is a Potential")
        if node.kind != "random":
            if node.name in columns:
                raise NotExact(f"'{node.name}' is a column of the data and a deterministic node")
            continue
        has_data = node.name in columns
        latent = latent or not has_data
        if node.discrete and not has_data:
            raise NotExact(f"'{node.name}' is discrete and has no data")
        if not has_data and (node.recursive or any(nodes[p].recursive for p in node.parents & nodes.keys())):
            raise NotExact(f"'{node.name}' depends on its own past")
        group = {node.name} | _ancestors_of(node, nodes, columns)
        linked = [other for other in groups if other & group]
        groups = [other for other in groups if not other & group] + [group.union(*linked)]
    if not latent:
        raise NotExact("the model has no parameters")
    return groups


def _ancestors_of(node: Node, nodes: Mapping[str, Node], columns: set[str]) -> set[str]:
    out: set[str] = set()
    for parent in node.parents & nodes.keys():
        if parent not in columns:
            out |= {parent} if nodes[parent].kind == "random" else ancestors(parent, nodes, columns)
    return out - {node.name}


def _piece(names: set[str], nodes: Mapping[str, Node], data: Data, order: Sequence[Node]) -> _Piece:
    columns = data.names()
    latent = [nodes[name] for name in names if name not in columns]
    observed = [nodes[name] for name in nodes if name in names and name in columns]
    prior = latent[0].distribution if len(latent) == 1 else None
    if prior in _PRIORS and all(_conjugate_prior(node) == prior for node in observed):
        return _Pair(latent[0], observed, nodes, data).checked()
    return gaussian_piece(names, nodes, data, order)


def _conjugate_prior(node: Node) -> str | None:
    """The conjugate prior of a distribution, if there is one."""
    word = node.distribution
    pair = conjugate(word) if word is not None and word in DISTRIBUTIONS else None
    return None if pair is None else pair.prior


# --------------------------------------------------------------------------------- pairs


@dataclass(frozen=True, eq=False)
class _Pair:
    """One beta, Dirichlet or gamma node (a number or an array) and its data."""

    node: Node
    observed: Sequence[Node]
    nodes: Mapping[str, Node]
    data: Data

    def checked(self) -> _Pair:
        """Read the data, so that errors in them appear before this plan is chosen."""
        _ = self.posterior
        return self

    @property
    def how(self) -> str:
        about = " and ".join(node.name for node in self.observed)
        return f"{self.node.name} is {self.node.distribution} and conjugate" + (f" to {about}" if about else "")

    @cached_property
    def plain(self) -> Environment:
        return Environment(self.nodes, self.data, {})

    @property
    def prior(self) -> Any:
        node, tree = self.node, self.node.expression.tree
        assert isinstance(tree, ast.Call)
        given = bound_arguments(tree, str(node.distribution))
        if node.distribution == "Dirichlet":
            if not node.dims:
                raise NotExact(f"'{node.name}' is a Dirichlet without a dimension")
            term = self.plain.eval(given["a"])
            if term.dims == (None,):  # the axis of a list is the outcomes
                term = replace(term, dims=node.dims[-1:])
            return DirichletMultinomial.of(self._positive(term, "a"))
        if not {"alpha", "beta"} <= given.keys():
            return self._from_moments(given)
        numbers = [self._positive(self.plain.eval(given[word]), word) for word in ("alpha", "beta")]
        return {"Beta": BetaBinomial, "Gamma": GammaPoisson}[str(node.distribution)](*numbers)

    def _from_moments(self, given: Mapping[str, ast.expr]) -> Any:
        """Other parameters than alpha and beta."""
        value = {word: self._positive(self.plain.eval(tree), word) for word, tree in given.items()}
        if self.node.distribution == "Gamma" and value.keys() == {"mu", "sigma"}:
            return GammaPoisson((value["mu"] / value["sigma"]) ** 2, value["mu"] / value["sigma"] ** 2)
        if self.node.distribution == "Beta" and "mu" in value and len(value) == 2:
            mu = value["mu"]
            size = value["nu"] if "nu" in value else mu * (1 - mu) / value["sigma"] ** 2 - 1
            return BetaBinomial(mu * size, (1 - mu) * size)
        raise NotExact(f"the parameters of '{self.node.name}' are incomplete")

    def _positive(self, term: Term, word: str) -> np.ndarray:
        value = np.array(self.plain.over(term, self.node.dims), float)
        if not (np.all(np.isfinite(value)) and np.all(value > 0)):
            raise NotExact(f"'{word}' of '{self.node.name}' is not positive everywhere")
        return value

    @cached_property
    def posterior(self) -> tuple[Any, float]:
        """Posterior and log evidence."""
        now, evidence = self.prior, 0.0
        for node in self.observed:
            see = {"Categorical": self._see_categories, "Multinomial": self._see_counts}
            now, gained = see.get(str(node.distribution), self._see_numbers)(node, now)
            evidence += gained
        return now, evidence

    def solve(self) -> _SolvedPair:
        return _SolvedPair(self.node.name, *self.posterior)

    # -- data

    def _counts(self, node: Node, *, whole: bool = True) -> np.ndarray:
        term = self.data.term(node.name, missing=True)
        if set(term.dims) != set(node.dims):
            raise NotExact(f"'{node.name}' has other dimensions in the data")
        value = term.value if term.value is not None else term.codes
        value = np.asarray(value, float).transpose([term.dims.index(d) for d in node.dims])
        if np.any(np.isnan(value)) or (term.value is None and np.any(value < 0)):
            raise NotExact(f"'{node.name}' has missing cells")
        if np.any(value < 0) or np.any(np.isinf(value)) or (whole and np.any(value != np.floor(value))):
            raise NotExact(f"'{node.name}' has values outside the support of {node.distribution}")
        return value

    def _about(self, tree: ast.expr, dims: tuple[str, ...]) -> np.ndarray:
        """Flat index of the parameter's element for each cell of an observed node."""
        if not self._selects(tree):
            raise NotExact(f"'{ast.unparse(tree)}' does more than select elements of '{self.node.name}'")
        shape = self.plain.shape(self.node.dims)
        places = Term(np.arange(int(np.prod(shape))).reshape(shape), self.node.dims)
        environment = Environment(self.nodes, self.data, {self.node.name: places})
        return np.array(environment.on(tree, dims)[0]).astype(np.int64)

    def _selects(self, tree: ast.expr) -> bool:
        """Whether an expression is the parameter, possibly indexed by data, or an alias of it."""
        match tree:
            case ast.Name(id=name):
                node = self.nodes.get(name)
                if name == self.node.name:
                    return True
                return node is not None and node.kind == "deterministic" and self._selects(node.expression.tree)
            case ast.Subscript():
                names = {part.id for part in ast.walk(tree.slice) if isinstance(part, ast.Name)}
                return self._selects(tree.value) and not any(self._is_parameter(name) for name in names)
            case ast.Call(func=ast.Name(id="where")):
                names = {part.id for part in ast.walk(tree.args[0]) if isinstance(part, ast.Name)}
                return all(map(self._selects, tree.args[1:])) and not any(map(self._is_parameter, names))
        return False

    def _is_parameter(self, name: str) -> bool:
        if name == self.node.name:
            return True
        return bool(ancestors(name, self.nodes, self.data.names()))

    def _given(self, node: Node, *words: str) -> list[ast.expr | None]:
        assert isinstance(node.expression.tree, ast.Call)
        given = bound_arguments(node.expression.tree, str(node.distribution))
        if given.keys() - set(words) or words[0] not in given:
            raise NotExact(f"'{node.name}' is not parametrised by {' and '.join(words)}")
        return [given.get(word) for word in words]

    def _rate(self, tree: ast.expr, dims: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
        """A rate as an element of the parameter times data."""
        parts = factors_of(tree)
        carrying = [i for i, (part, up) in enumerate(parts) if up and self._selects(part)]
        if len(carrying) != 1:
            raise NotExact(f"'{ast.unparse(tree)}' is not '{self.node.name}' times data")
        factor = np.ones(self.plain.shape(dims))
        for i, (part, up) in enumerate(parts):
            if i != carrying[0]:
                value = self.plain.on(part, dims)[0]
                factor = factor * value if up else factor / value
        if not (np.all(np.isfinite(factor)) and np.all(factor > 0)):
            raise NotExact(f"'{ast.unparse(tree)}': the factor is not positive everywhere")
        return self._about(parts[carrying[0]][0], dims), factor

    def _see_numbers(self, node: Node, now: Any) -> tuple[Any, float]:
        """Contribution of the data to a beta or gamma prior's parameters."""
        pair, tree = conjugate(str(node.distribution)), node.expression.tree
        assert pair is not None
        assert pair.counts is not None
        assert pair.rest is not None
        assert isinstance(tree, ast.Call)
        given = bound_arguments(tree, str(node.distribution))
        others = given.keys() - {pair.parameter}
        if pair.parameter not in given or others - pair.others:
            raise NotExact(f"'{node.name}' is not parametrised by {pair.parameter}")
        known = {word: self.plain.on(given[word], node.dims)[0] for word in sorted(others)}
        value = self._counts(node, whole=DISTRIBUTIONS[str(node.distribution)].discrete)
        self._check_range(node, value, known)
        factor: Any = 1.0
        if pair.prior == "Beta":
            at = self._about(given[pair.parameter], node.dims)
        else:
            at, factor = self._rate(given[pair.parameter], node.dims)
        with np.errstate(all="ignore"):
            try:
                (a, b), constant = pair.counts(value, **known), pair.rest(value, **known)
            except (TypeError, ModelError):
                raise NotExact(f"the parameters of '{node.name}' are incomplete") from None
            constant = constant + special.xlogy(a, factor)
        if not np.all(np.isfinite(constant)):
            raise NotExact(f"'{node.name}' has values at the boundary of the support of {node.distribution}")
        after = now.add(np.broadcast_to(a, value.shape), b * factor, at)
        return after, now.gained(after) + float(np.sum(constant))

    def _check_range(self, node: Node, value: np.ndarray, known: Mapping[str, np.ndarray]) -> None:
        """Refuse values outside the support, and other parameters outside their domains."""
        entry = DISTRIBUTIONS[str(node.distribution)]
        for word, number in known.items():
            interval = entry.domain.parameters.get(word, Interval())
            whole = entry.discrete and word in (entry.domain.values.low, entry.domain.values.high)
            low, high = (np.nan if isinstance(end, str) else end for end in (interval.low, interval.high))
            bad = interval.outside(number, low, high) | ~np.isfinite(number)
            if np.any(bad) or (whole and np.any(number != np.floor(number))):
                raise NotExact(f"'{word}' of '{node.name}' is out of range")
        values = entry.domain.values
        ends = (known.get(end, np.nan) if isinstance(end, str) else end for end in (values.low, values.high))
        if np.any(values.outside(value, *ends)):
            raise NotExact(f"'{node.name}' has values outside the support of {node.distribution}")

    def _see_categories(self, node: Node, now: DirichletMultinomial) -> tuple[DirichletMultinomial, float]:
        (p,) = self._given(node, "p")
        value = self._counts(node).astype(np.int64)
        assert p is not None
        at = self._rows(p, node.dims)
        size = now.a.shape[-1]
        if np.any(value >= size):
            raise NotExact(f"'{node.name}' has values beyond the {size} of '{self.node.name}'")
        counts = np.zeros((now.a.size // size, size))
        np.add.at(counts, (at.ravel(), value.ravel()), 1)
        return now.update(counts.reshape(now.a.shape)), now.log_evidence(counts.reshape(now.a.shape))

    def _rows(self, tree: ast.expr, dims: tuple[str, ...]) -> np.ndarray:
        """Index of the Dirichlet vector of each cell."""
        last, size = self.node.dims[-1], self.plain.shape(self.node.dims[-1:])[0]
        places = self._about(tree, (*dims, last))
        if np.any(places % size != np.arange(size)):
            raise NotExact(f"'{ast.unparse(tree)}' rearranges the elements of '{self.node.name}'")
        return places[..., 0] // size

    def _see_counts(self, node: Node, now: DirichletMultinomial) -> tuple[DirichletMultinomial, float]:

        p, n = self._given(node, "p", "n")
        value = self._counts(node)
        assert p is not None
        assert n is not None
        if not node.dims or node.dims[-1] != self.node.dims[-1]:
            raise NotExact(f"'{node.name}' and '{self.node.name}' have different last dimensions")
        if np.any(self.plain.on(n, node.dims[:-1])[0] != value.sum(axis=-1)):
            raise NotExact(f"'{node.name}' does not add up to 'n'")
        at = self._rows(p, node.dims[:-1])
        size = now.a.shape[-1]
        counts = np.zeros((now.a.size // size, size))
        np.add.at(counts, at.ravel(), value.reshape(-1, size))
        orders = np.sum(special.gammaln(value.sum(axis=-1) + 1)) - np.sum(special.gammaln(value + 1))
        counts = counts.reshape(now.a.shape)
        return now.update(counts), now.log_evidence(counts) + float(orders)


@dataclass(frozen=True, eq=False)
class _SolvedPair:
    name: str
    posterior: Any
    log_evidence: float

    def mean(self) -> dict[str, np.ndarray]:
        return {self.name: self.posterior.mean()}

    def sd(self) -> dict[str, np.ndarray]:
        return {self.name: self.posterior.sd()}

    def quantile(self, probability: float) -> dict[str, np.ndarray]:
        return {self.name: self.posterior.quantile(probability)}

    def draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        return {self.name: self.posterior.draws(rng, n)}


# --------------------------------------------------------------------------------- the whole model


@dataclass(frozen=True, eq=False)
class _Answer:
    """The product of the components' posteriors; see :class:`bayeslab.posterior.answer.Answer`.

    Deterministic nodes without exact statistics (nonlinear, or of several components) are in the draws only.
    """

    pieces: Sequence[_Solved]
    nodes: Mapping[str, Node]
    data: Data

    @cached_property
    def dims(self) -> dict[str, tuple[str, ...]]:
        return {name: self.nodes[name].dims for name in self._reported}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        return {}

    @cached_property
    def _reported(self) -> list[str]:
        """Parameters, and deterministic functions of them, in the file's order."""
        columns = self.data.names()
        return [
            node.name
            for node in self.nodes.values()
            if node.name not in columns
            and node.kind != "potential"
            and (node.kind == "random" or ancestors(node.name, self.nodes, columns))
        ]

    @property
    def log_evidence(self) -> float:
        return float(sum(piece.log_evidence for piece in self.pieces))

    def mean(self) -> dict[str, np.ndarray]:
        return self._ordered([piece.mean() for piece in self.pieces])

    def sd(self) -> dict[str, np.ndarray]:
        return self._ordered([piece.sd() for piece in self.pieces])

    def quantile(self, probability: float) -> dict[str, np.ndarray]:
        return self._ordered([piece.quantile(probability) for piece in self.pieces])

    def draws(self, rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        drawn: dict[str, np.ndarray] = {}
        for piece in self.pieces:
            drawn |= piece.draws(rng, n)
        columns = self.data.names()
        many = {name: Term(a, (POINTS, *self.nodes[name].dims)) for name, a in drawn.items()}
        environment = Environment(self.nodes, self.data, many)
        for node in sorted_nodes(self.nodes, columns):
            if node.name in self.dims and node.name not in drawn:
                drawn[node.name] = self._computed(node, environment, drawn, n)
        return {name: drawn[name] for name in self._reported}

    def _computed(self, node: Node, environment: Environment, drawn: Mapping[str, np.ndarray], n: int) -> np.ndarray:
        """A deterministic node at every draw: vectorised if its functions allow, otherwise draw by draw."""
        shape = (n, *environment.shape(node.dims))
        try:
            with np.errstate(all="ignore"):
                return np.array(np.broadcast_to(np.asarray(environment.lookup(node.name).value, float), shape))
        except (BayeslabError, NotExact, ValueError, TypeError, IndexError):
            random = [name for name in drawn if self.nodes[name].kind == "random"]
            out = np.empty(shape)
            for i in range(n):
                one = {name: Term(drawn[name][i], self.nodes[name].dims) for name in random}
                out[i] = Environment(self.nodes, self.data, one).lookup(node.name).value
            return out

    def _ordered(self, parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        joined = {name: value for part in parts for name, value in part.items()}
        return {name: joined[name] for name in self._reported if name in joined}
