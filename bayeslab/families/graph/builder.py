"""Builder of the PyMC graph of nodes, in topological order."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError, ModelError, listed
from bayeslab.families.graph.discrete_layout import Latent
from bayeslab.families.graph.gaps import below, is_vector
from bayeslab.families.graph.hidden_paths import hidden_path
from bayeslab.families.graph.ordered_nodes import correlations, ordered
from bayeslab.families.graph.recursion import deterministic_recursion, random_recursion, rows_together
from bayeslab.families.graph.scope import Purpose
from bayeslab.families.graph.state_components import StateNode, component_of
from bayeslab.families.graph.states import cells_of, check_state_node, series_of
from bayeslab.families.graph.walk import Walk, node_errors
from bayeslab.language.algebra import Term
from bayeslab.language.nodes import (
    Node,
    byproducts,
)
from bayeslab.language.spec import Model

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.graph.function_layout import FunctionNode
    from bayeslab.families.graph.joint_sums import GraphSum, JointSum
    from bayeslab.families.graph.path_laws import HiddenPath
    from bayeslab.families.graph.path_sums import Sums


__all__ = ["Builder"]


class Builder(Walk):
    """Builds one PyMC model.

    Parameters
    ----------
    model, data, purpose, targets
        As in :class:`~bayeslab.families.graph.scope.Scope`.
    integrals
        States and functions to integrate out; see :func:`bayeslab.families.graph.integrals.integrals_of`.
    """

    def __init__(
        self,
        model: Model,
        data: Data,
        purpose: Purpose,
        targets: Collection[str],
        integrals: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__(model, data, purpose, targets)
        self.densities: list[Any] = []
        self.elimination: Sums | GraphSum | JointSum | None = None
        # States and functions to sum out, with the observed normal nodes that they enter.
        self.integrals = integrals
        self.states: list[StateNode] = []
        self.functions: list[FunctionNode] = []
        self.slopes: set[Any] = set()
        self.normal_rows: list[Any] = []

    @property
    def integrated(self) -> list[StateNode | FunctionNode]:
        """Nodes that are integrated out."""
        return [*self.states, *self.functions]

    def build(self) -> pymc.Model:
        """The PyMC model."""
        with self.model:
            self.walk()
            if self.own_sums:
                self._sum_out()
            if self.integrals:
                self._integrate()
        return self.model

    def computed(self, node: Node, value: Any, dims: tuple[str, ...]) -> None:
        if node.parents & self.summed:
            self.summed.add(node.name)
        else:
            self.pm.Deterministic(node.name, value, dims=dims or None)

    def potential(self, node: Node, value: Any) -> None:
        if self._meets_latents(value):
            self.densities.append(self._density(node.name, value, (), observed=False))
            return
        self.pm.Potential(node.name, value)

    def ordered(self, node: Node, word: str, tree: ast.Call, observed: Any) -> None:
        made = ordered(self, node, word, tree, observed)
        if made is not None:
            drawn, extra = made
            self.register(node, drawn, node.dims, None, **extra)

    def correlations(self, node: Node, word: str, tree: ast.Call) -> None:
        correlations(self, node, word, tree)

    def latent(self, node: Node, observed: Any) -> None:
        if node.hidden_path:
            self._hidden_path(node, observed)
        elif node.process:
            self._process(node, observed)
        elif node.states:
            self._states_of(node, observed)
        else:
            self._discrete(node)

    def recursion(self, node: Node) -> Term:
        return deterministic_recursion(self, node)

    def random_recursion(self, node: Node) -> Term:
        return random_recursion(self, node)

    def _sum_out(self) -> None:
        from bayeslab.families.graph.path_sums import summed_out as sums

        first = self.nodes[next(iter(self.latents)).removesuffix("_unobserved")]
        with node_errors(first):
            elimination = sums(list(self.latents.values()), self.densities, self.model)
        # The name marks it as the likelihood of rows with hidden parts.
        self.pm.Potential(f"{next(iter(elimination.observed), first.name)}_rows", elimination.log_sum)
        self.elimination = elimination

    def _integrate(self) -> None:
        """Integrate states and functions out of the nodes that they enter."""
        from pytensor.graph.traversal import ancestors

        from bayeslab.families.graph.function_sums import summed_functions
        from bayeslab.families.graph.joint_sums import JointSum
        from bayeslab.families.graph.linear_rows import NotLinear
        from bayeslab.families.graph.state_sums import summed_states

        model, drawn = self.model, set(self.model.basic_RVs)
        symbols = {node.symbol for node in self.integrated}
        others = [*model.basic_RVs, *model.potentials, *model.deterministics]
        if not (symbols | self.slopes).isdisjoint(ancestors(others)):
            raise NotLinear
        if self.functions and not model.free_RVs:
            raise NotLinear  # nothing would be left to sample
        left = set(symbols)
        sums: list[GraphSum] = []
        for rows in self.normal_rows:
            inside = set(ancestors([rows.mean, rows.sigma]))
            entering = inside & symbols
            if not entering <= left or not self.slopes.isdisjoint(inside):
                raise NotLinear
            left -= entering
            states = [node for node in self.states if node.symbol in entering]
            functions = [node for node in self.functions if node.symbol in entering]
            if states and functions:
                raise NotLinear
            sums.append(summed_functions(functions, rows, drawn) if functions else summed_states(states, rows, drawn))
        if left:
            raise NotLinear
        for each in sums:
            self.pm.Potential(f"{each.rows.name}_rows", each.log_sum)
        self.elimination = sums[0] if len(sums) == 1 else JointSum(tuple(sums))

    @staticmethod
    def _density(name: str, value: Any, dims: tuple[str, ...], *, observed: bool) -> Any:
        from bayeslab.families.graph.discrete_nodes import Density

        return Density(name, value, dims, observed)

    def _meets_latents(self, variable: Any) -> bool:
        from pytensor.graph.traversal import ancestors

        symbols = {latent.symbol for latent in self.latents.values()}
        return bool(symbols) and not symbols.isdisjoint(ancestors([variable]))

    def row_by_row(self, group: list[Node]) -> None:
        """Mutually recursive nodes: drawn or, if all are deterministic, computed."""
        for node in group:
            self.lengths(node.dims)
        tied = any(node.parents & self.summed for node in group)
        for name, value in rows_together(self, group).items():
            if tied:
                self.summed.add(name)
            else:
                self.pm.Deterministic(name, value, dims=self.nodes[name].dims)
            self.terms[name] = Term(value, self.nodes[name].dims)

    def _discrete(self, node: Node) -> None:
        """A discrete node without data: a symbol for its values, and their log probabilities."""
        import pytensor.tensor as pt

        from bayeslab.families.graph.discrete_nodes import states_of

        tree = node.expression.tree
        assert isinstance(tree, ast.Call)
        shape = self.lengths(node.dims)
        symbol = pt.tensor(node.name, dtype="int64", shape=shape)
        term = Term(symbol, node.dims)
        drawn, undefined = self._with_own_past(node, lambda: self.distribution(tree, node.dims), term)
        if undefined:
            raise ModelError(
                f"'{node.name}' has no data, so lag() and previous() in it need start=...", code="bad-start"
            )
        if drawn.owner.op.ndim_supp:
            raise ModelError(
                f"'{node.name}' draws vectors of counts and has no data; it cannot be summed out",
                code="discrete",
            )
        states = states_of(node.name, drawn, list(self.latents.values()), self.model)
        self.latents[node.name] = Latent(node.name, symbol, shape, *states)
        self.densities.append(
            self._density(node.name, self.pm.logp(drawn, symbol, warn_rvs=False), node.dims, observed=False)
        )
        self.terms[node.name] = term

    def _hidden_path(self, node: Node, observed: Any) -> None:
        """A path of hidden states: a symbol if they are summed out, otherwise a random variable."""
        import pytensor.tensor as pt

        path, shape = hidden_path(self, node), self.lengths(node.dims)
        if observed is not None and np.ma.is_masked(observed):
            row = int(np.nonzero(np.atleast_1d(np.ma.getmaskarray(observed)))[0][0])
            raise DataError(
                f"column '{node.name}', row {row + 1} is missing; a path is observed in all cells or in none: give it"
                f" another name, and add a node with the column's name whose probabilities are 1 at the state",
                path=node.path,
                code="missing",
            )
        if node.name not in self.summed:
            from bayeslab.families.graph.path_draws import path_variable

            self.register(node, path_variable(path.law, path.logs, shape), node.dims, observed)
            self.terms[node.name] = self._states(path, self.terms[node.name].value, node.dims)
            return
        symbol = pt.tensor(node.name, dtype="int64", shape=shape)
        self.latents[node.name] = Latent(node.name, symbol, shape, 0, path.law.n_states, path)
        self.terms[node.name] = self._states(path, symbol, node.dims)

    def _process(self, node: Node, observed: Any) -> None:
        """A function: a symbol if it is integrated out, otherwise values computed from standard normals."""
        from bayeslab.families.graph.process_values import function_node, process_values

        if observed is not None:
            raise ModelError(
                f"'{node.name}' is a column of the data and a function without noise: give the function another name, f"
                f", and the observations a node: {node.name}[{', '.join(node.dims)}]: Normal(f, sigma)",
                path=node.path,
                code="misplaced",
            )
        if node.name not in self.integrals:
            value = self.pm.Deterministic(node.name, process_values(self, node), dims=node.dims)
            self.terms[node.name] = Term(value, node.dims)
            return
        function, normal_dims = function_node(self, node)
        # They come back after sampling, with their dims.
        self.model.named_vars_to_dims |= {function.normals: normal_dims, node.name: node.dims}
        self.summed.add(node.name)
        self.functions.append(function)
        self.terms[node.name] = Term(function.symbol, node.dims)

    def _states_of(self, node: Node, observed: Any) -> None:
        """Linear-Gaussian states: a symbol if they are summed out, otherwise values computed from standard normals."""
        from bayeslab.families.graph.state_values import normals_of, state_values

        if observed is not None or node.name in self.columns:
            raise ModelError(
                f"'{node.name}' is a column of the data and a series of states: give the states another name, level,"
                f" and the observations a node: {node.name}[{', '.join(node.dims)}]: Normal(level, sigma)",
                path=node.path,
                code="misplaced",
            )
        if series_of(self.data) is self.data:
            check_state_node(node, self.nodes, self.data)
        names = (node.name, *(name for name, maker in byproducts(self.nodes).items() if maker == node.name))
        if node.name not in self.integrals:
            for name, value in zip(names, state_values(self, node), strict=True):
                self.terms[name] = Term(self.pm.Deterministic(name, value, dims=node.dims), node.dims)
            return
        import pytensor.tensor as pt

        component, cells = component_of(self, node), cells_of(node, self.data)
        normals, dim = normals_of(self, node, int(cells.normals(component.d, component.q)[-1]))
        # They come back after sampling, with their dims.
        self.model.named_vars_to_dims |= {normals: (dim,)}
        for name in names:
            symbol = pt.tensor(name, dtype="float64", shape=self.lengths(node.dims))
            self.model.named_vars_to_dims |= {name: node.dims}
            self.summed.add(name)
            self.terms[name] = Term(symbol, node.dims)
            if name == node.name:
                self.states.append(StateNode(name, normals, symbol, node.dims, component, cells))
            else:
                self.slopes.add(symbol)

    def _enter_rows(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any) -> bool:
        """Whether an observed node depends on integrated variables; if so, it is stored for the integral."""
        from pytensor.graph.traversal import ancestors

        from bayeslab.families.graph.linear_rows import NotLinear, Rows

        if {each.symbol for each in self.integrated}.isdisjoint(ancestors([drawn])):
            return False
        gaps = observed is not None and np.ma.is_masked(observed) and below(self.nodes, node.name)
        if observed is None or node.recursive or gaps or type(drawn.owner.op).__name__ != "NormalRV":
            raise NotLinear
        mean, sigma = drawn.owner.op.dist_params(drawn.owner)
        rows = np.ma.filled(np.ma.asarray(observed, dtype=float), np.nan)
        self.normal_rows.append(Rows(node.name, dims, mean, sigma, rows))
        self.terms[node.name] = self.observed_term(node, np.ma.getdata(observed), dims)
        return True

    def _rows_of_factors(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any) -> bool:
        """Whether the node's rows have a factor-analytic covariance; if so, their density becomes a potential."""
        from bayeslab.families.graph.factor_rows import factor_evidence

        if len(self.observed) > 1 or node.recursive or np.ma.is_masked(observed) or self.latents or self.integrals:
            return False
        log_density = factor_evidence(drawn, np.ma.getdata(observed).astype(np.float64))
        if log_density is None:
            return False
        self.pm.Potential(f"{node.name}_rows", log_density)
        self.terms[node.name] = self.observed_term(node, np.ma.getdata(observed), dims)
        return True

    @staticmethod
    def _states(path: HiddenPath, value: Any, dims: tuple[str, ...]) -> Term:
        """The path for use in expressions: numbers from 0, with levels if the states have names."""
        return Term(value, dims, codes=None if path.state is None else value, factor=path.state)

    def register(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any, **extra: Any) -> None:
        """Register a random variable in the graph, or store its density if hidden parts are summed out."""
        import pytensor.tensor as pt

        if self.integrals and self._enter_rows(node, drawn, dims, observed):
            return
        if self.purpose == "fit" and observed is not None and self._rows_of_factors(node, drawn, dims, observed):
            return
        whole = None
        if node.name in self.imputed and np.ma.is_masked(observed):
            whole = self._missing_cells(node, drawn, dims, observed)
        if observed is None and self.purpose == "fit" and self._meets_latents(drawn):
            raise ModelError(
                f"'{node.name}' has no data and depends on a hidden path, which can be summed out only if the nodes"
                f" that depend on it are observed; write it as a computed node, such as mu[z] + sd * noise",
                path=node.path,
                code="discrete",
            )
        if observed is not None and self._meets_latents(drawn):
            from bayeslab.families.graph.discrete_nodes import observed_density

            if np.ma.is_masked(observed) and not node.discrete and (below(self.nodes, node.name) or is_vector(node)):
                row = int(np.nonzero(np.atleast_1d(np.ma.getmaskarray(observed)))[0][0])
                raise DataError(
                    f"column '{node.name}', row {row + 1} is missing, and"
                    f" {listed(below(self.nodes, node.name)) or 'cells of its vector'} can depend on it,"
                    f" which depends on a hidden path: drop these rows",
                    path=node.path,
                    code="missing",
                )
            value = self.pm.logp(drawn, np.ma.getdata(observed), warn_rvs=False)
            if np.ma.is_masked(observed):
                # Nothing depends on the missing cells, so that they are a factor of 1.
                value = pt.switch(np.ma.getmaskarray(observed), 0.0, value)
            self.densities.append(observed_density(node.name, drawn, value, observed, dims))
            self.terms[node.name] = self.observed_term(node, np.asarray(observed) if whole is None else whole, dims)
            return
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*will be automatically imputed.*")
            warnings.filterwarnings("ignore", category=self.pm.exceptions.ImputationWarning)
            summed = (node.discrete or node.atoms) and self.purpose == "fit"
            if summed and observed is not None and np.ma.is_masked(observed):
                self._register_present(node, drawn, dims, observed)
                if whole is not None:
                    self.terms[node.name] = self.observed_term(node, whole, dims)
                return
            if self.purpose != "fit":
                # A transform is needed only for sampling by density; here the node is only drawn from.
                warnings.filterwarnings("ignore", message="No safe default transform found")
            # PyMC converts integers to 32 bits, and floats to the variable's type.
            observed_values = None if observed is None else observed.astype(np.float64)
            rv = self.model.register_rv(drawn, node.name, observed=observed_values, dims=dims or None, **extra)
        if np.ma.is_masked(observed) and len(dims) == 1:
            # The imputed cells are a separate parameter; its dimension identifies their rows.
            missing = f"{node.name}_missing"
            self.model.add_coord(missing, self.labels[dims[0]][np.ma.getmaskarray(observed)].tolist())
            self.model.named_vars_to_dims[f"{node.name}_unobserved"] = (missing,)
        self.terms[node.name] = Term(rv, dims) if observed is None else self.observed_term(node, rv, dims)

    def _missing_cells(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any) -> Any:
        """The node with a symbol for its missing cells, which are summed out like a discrete node."""
        import pytensor.tensor as pt

        from bayeslab.families.graph.discrete_nodes import states_of

        gone, name = np.ma.getmaskarray(observed), f"{node.name}_unobserved"
        try:
            states = states_of(node.name, drawn, list(self.latents.values()), self.model)
        except ModelError:
            row = int(np.nonzero(gone)[0][0])
            raise DataError(
                f"column '{node.name}', row {row + 1} is missing,"
                f" {listed(below(self.nodes, node.name))} can depend on it, and {node.distribution}"
                f" has no known largest value to sum up to: drop these rows, or write"
                f" Truncated({node.distribution}(...), upper=...)",
                path=node.path,
                code="missing",
            ) from None
        symbol = pt.tensor(name, dtype="int64", shape=(int(gone.sum()),))
        # Source of each cell: the data, or the symbol appended to them.
        place = np.arange(gone.size)
        place[gone.ravel()] = gone.size + np.arange(int(gone.sum()))
        given = pt.constant(np.ma.getdata(observed).ravel().astype(np.int64))
        whole = pt.concatenate([given, symbol])[pt.constant(place)].reshape(gone.shape)
        self.latents[name] = Latent(name, symbol, (int(gone.sum()),), *states)
        value = self.pm.logp(drawn, whole, warn_rvs=False).ravel()[pt.constant(np.flatnonzero(gone))]
        self.densities.append(self._density(name, value, (), observed=False))
        if len(dims) == 1:
            missing = f"{node.name}_missing"
            self.model.add_coord(missing, self.labels[dims[0]][gone].tolist())
            self.model.named_vars_to_dims[name] = (missing,)
        return whole

    def _register_present(self, node: Node, drawn: Any, dims: tuple[str, ...], observed: Any) -> None:
        """The observed cells only: a missing cell on which no node depends sums out to a factor of 1."""
        from bayeslab.families.graph.present import present

        drawn.name = node.name
        values = observed.compressed().astype(np.float64)
        self.model.register_rv(present(drawn, observed), f"{node.name}_observed", observed=values)
        self.model.named_vars_to_dims[node.name] = dims
