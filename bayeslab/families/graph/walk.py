"""The walk over the nodes of a graph, in topological order, that is the same for every backend."""

from __future__ import annotations

import ast
import re
from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.errors import BayeslabError, DataError, ModelError, listed
from bayeslab.families.graph.distribution_reader import DistributionReader
from bayeslab.families.graph.observations import observations, probable, written_apart
from bayeslab.language.algebra import Term
from bayeslab.language.nodes import Node, bound_arguments, call_name, together, units

__all__ = ["Walk", "node_errors"]


class Walk(DistributionReader):
    """Evaluates the nodes one after another; a subclass does with each what its backend needs."""

    def walk(self) -> None:
        """Evaluate every node."""
        groups = together(self.nodes) if self.purpose == "simulate" else []
        complete = {name for name in self.data_nodes if self.complete(name)}
        for unit in units(self.nodes, complete, groups):
            node = unit[0]
            with self.errors(node):
                if len(unit) > 1:
                    self.row_by_row(unit)
                    continue
                self.lengths(node.dims)
                if node.kind == "random":
                    self._random(node)
                elif node.kind == "potential":
                    self._potential(node)
                else:
                    self._deterministic(node)

    def errors(self, node: Node) -> AbstractContextManager[None]:
        """The context in which a node is evaluated."""
        return node_errors(node)

    # --------------------------------------------------------------- what a backend does with nodes

    @abstractmethod
    def computed(self, node: Node, value: Any, dims: tuple[str, ...]) -> None:
        """Record the value of a deterministic node."""

    @abstractmethod
    def potential(self, node: Node, value: Any) -> None:
        """Add a potential to the log density."""

    @abstractmethod
    def register(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any) -> None:
        """Add a random node, with or without data, and bind its name to a term."""

    @abstractmethod
    def ordered(self, node: Node, word: str, tree: ast.Call, observed: Any) -> None:
        """Add an ordered vector."""

    @abstractmethod
    def correlations(self, node: Node, word: str, tree: ast.Call) -> None:
        """Add a correlation matrix, or the Cholesky factor of a covariance matrix."""

    @abstractmethod
    def latent(self, node: Node, observed: Any) -> None:
        """Add hidden states, a path, or a function."""

    @abstractmethod
    def recursion(self, node: Node) -> Term:
        """The value of a deterministic node that depends on its own past."""

    @abstractmethod
    def random_recursion(self, node: Node) -> Term:
        """The value of a random node without data that depends on its own past."""

    @abstractmethod
    def row_by_row(self, group: list[Node]) -> None:
        """Add nodes that look back at each other."""

    # -------------------------------------------------------------------------------------- nodes

    def _potential(self, node: Node) -> None:
        if self.purpose == "simulate":
            raise ModelError(
                "a Potential has no random draws, so the prior cannot be simulated; write it as distributions, or leave"
                " it out for the simulation",
                path=node.path,
                code="unsupported",
            )
        assert isinstance(node.expression.tree, ast.Call)
        (value,) = bound_arguments(node.expression.tree, "Potential").values()
        term = self._defined(self.evaluator.eval(value))
        self.potential(node, self.evaluator.symbolic(term))

    def _defined(self, term: Term) -> Term:
        """The rows of a term that are defined in spite of ``lag``."""
        value = term.value
        for dim, rows in term.undefined.items():
            value = value[(slice(None),) * term.dims.index(dim) + (slice(rows, None),)]
        return replace(term, value=value, undefined={}, column=None) if term.undefined else term

    def _deterministic(self, node: Node) -> None:
        if node.recursive:
            term = self.recursion(node)
        else:
            term = self.evaluator.term(node.expression)
        if term.value is None:
            # A factor under another name.
            self.terms[node.name] = replace(term, column=None)
            return
        named = set(term.dims) - {None}
        if None in term.dims and len(term.dims) == len(node.dims) and named <= set(node.dims):
            # A list of vectors or lists: its axes are the remaining dimensions of the node, in order.
            lacking = iter(dim for dim in node.dims if dim not in named)
            term = replace(term, dims=tuple(dim or next(lacking) for dim in term.dims))
            self._fits(replace(node, dims=tuple(str(dim) for dim in term.dims)), term)
        (value,), _, symbolic = self.evaluator.align([term], onto=node.dims)
        shape = self.lengths(node.dims)
        if not symbolic:
            value = np.array(np.broadcast_to(value, shape))
            if value.dtype.kind == "f" and not np.all(np.isfinite(value)) and not term.undefined:
                raise DataError(
                    f"'{node.name}' is not a finite number for these data", path=node.path, code="not-finite"
                )
            self.terms[node.name] = Term(
                value if node.dims else value[()], node.dims, undefined=term.undefined, column=node.name
            )
            if node.dims and not term.undefined:
                self.symbols[node.name] = self.given(node.name, value, node.dims)
                self.terms[node.name] = Term(value, node.dims, column=node.name)
            return
        value = self.evaluator.backend.broadcast_to(value, shape) if node.dims else value
        self.computed(node, value, node.dims)
        self.terms[node.name] = Term(value, node.dims, undefined=term.undefined)

    def _fits(self, node: Node, term: Term) -> None:
        shape, wanted = self.evaluator.shape(term), self.lengths(node.dims)
        if tuple(shape) != wanted:
            raise ModelError(
                f"{' × '.join(map(str, shape))} values for {node.key} of size {' × '.join(map(str, wanted))}",
                code="wrong-shape",
            )

    def _random(self, node: Node) -> None:
        observed = observations(self, node) if node.name in self.observed else None
        if observed is None and node.atoms and self.purpose == "fit":
            raise ModelError(
                f"'{node.name}' has no data, and {probable(node)}, which its density leaves out: {written_apart(node)}",
                path=node.path,
                code="discrete",
            )
        if node.hidden_path or node.process or node.states:
            self.latent(node, observed)
            return
        if self.own_sums and node.name in self.summed and observed is None:
            self.latent(node, observed)
            return
        if observed is None and node.recursive and self._needs_past(node):
            self.terms[node.name] = self.random_recursion(node)
            return
        word = str(node.distribution)
        tree = node.expression.tree
        assert isinstance(tree, ast.Call)
        if word in ("LKJCholeskyCov", "LKJCorr"):
            self.correlations(node, word, tree)
            return
        if word in ("Ordered", "PositiveOrdered"):
            self.ordered(node, word, tree, observed)
            return
        drawn, undefined = self._with_own_past(node, lambda: self.distribution(tree, node.dims))
        rows = undefined.get(node.dims[-1], 0) if node.dims else 0
        if set(undefined) - set(node.dims[-1:]):
            raise ModelError(
                f"lag() along {listed(undefined)}, which is not the last dimension of '{node.key}'",
                code="bad-dimensions",
            )
        if rows and observed is None and node.name not in self.columns:
            raise ModelError(
                f"the first {rows} rows of '{node.name}' have no distribution, because lag() reaches back before them:"
                f" give lag(..., start=...)",
                code="bad-start",
            )
        if not rows:
            self.register(node, drawn, node.dims, observed)
            return
        self._conditioned(node, tree, observed, rows)

    def _with_own_past(
        self, node: Node, build: Callable[[], Any], history: Term | None = None
    ) -> tuple[Any, dict[str, int]]:
        """Build with the node's name bound to its data (or ``history``), and record undefined rows."""
        self.undefined = {}
        if node.recursive and history is None:
            history = self.data_of(node.name, missing=True)
            if history.value is None:
                raise DataError(
                    f"'{node.name}' depends on its past and holds levels: give whole numbers from 0, and the dimension"
                    " of its probabilities a length or names",
                    path=node.path,
                    code="not-numbers",
                )
            gone = np.isnan(np.asarray(history.value, dtype=float))
            if np.any(gone):
                raise DataError(
                    f"'{node.name}' depends on its past and has {int(gone.sum())} missing cells; a series with gaps"
                    f" needs a latent node: h[...]: ... previous(h, 1, start=...), and '{node.name}' around h",
                    code="missing",
                )
            history = replace(history, column=None)
        if node.recursive and history is not None:
            past = history
            self.evaluator.special = {"previous": lambda call: self._lag_of(past, call)}
            self.terms[node.name] = past
        try:
            return build(), dict(self.undefined)
        finally:
            self.evaluator.special = {}
            self.terms.pop(node.name, None)

    def _lag_of(self, history: Term, call: ast.Call) -> Term:
        (start,) = (self.evaluator.eval(k.value) for k in call.keywords if k.arg == "start")
        return self.evaluator.lagged(history, call.args[1].value, start)  # type: ignore[attr-defined]

    def observed_term(self, node: Node, value: Any, dims: tuple[str, ...]) -> Term:
        """The observed node for use in expressions: a factor if its cells are levels."""
        term = self.data.term(node.name, missing=True)
        if term.value is None:
            return Term(None, dims, codes=value, factor=term.factor, column=node.name)
        return Term(value, dims, given=node.name not in self.summed)

    def _needs_past(self, node: Node) -> bool:
        """Whether the node must be generated step by step because its past is not data."""
        return self.purpose == "simulate" or node.name not in self.columns

    def _conditioned(self, node: Node, tree: ast.Call, observed: Any, rows: int) -> None:
        """A node whose first rows are conditioned on: they have no density and are not predicted."""
        dim = node.dims[-1]
        late = f"{dim}_from_{rows}"
        self.labels[late] = self.labels[dim][rows:]
        self.coordinate(late, self.labels[late].tolist())
        dims = (*node.dims[:-1], late)
        self.late = (dim, late, rows)
        try:
            drawn, _ = self._with_own_past(node, lambda: self.distribution(tree, dims))
        finally:
            self.late = None
        self.register(node, drawn, dims, observed[..., rows:] if observed is not None else None)
        given = self.data_of(node.name, missing=True).value
        if given is not None and not np.any(np.isnan(given[..., :rows])):
            late_rows, backend = self.terms[node.name].value, self.evaluator.backend
            first = backend.constant(given[..., :rows].astype(late_rows.dtype))
            whole = backend.concatenate([first, late_rows], axis=-1)
            self.terms[node.name] = Term(whole, node.dims)


def as_written(message: str, node: Node) -> str:
    """A message without the names that a recursion gives to the parts of an expression."""
    calls = [part for part in ast.walk(node.expression.tree) if isinstance(part, ast.Call)]
    looks = [ast.unparse(call) for call in calls if call_name(call) in ("previous", "lag")]
    back = looks[0] if len(set(looks)) == 1 else "previous(...)"
    message = re.sub(r"__now_(\w+)", r"\1", message)
    return re.sub(r"__part_\d+", "...", re.sub(r"__back_\d+", lambda _: back, message))


@contextmanager
def node_errors(node: Node) -> Iterator[None]:
    """Context in which errors, PyMC's too, point to the node being built."""
    try:
        yield
    except BayeslabError as error:
        if error.path or isinstance(error, DataError):
            raise
        message = as_written(error.message, node)
        raise type(error)(message, path=node.path, offset=error.offset, code=error.code) from error.__cause__
    except (ValueError, TypeError, NotImplementedError, IndexError, AssertionError, KeyError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        message = lines[0] if lines else type(error).__name__
        message = as_written(message, node)
        raise ModelError(f"PyMC cannot build '{node.name}': {message}", path=node.path, code="failed") from error
