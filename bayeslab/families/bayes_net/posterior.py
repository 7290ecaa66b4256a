"""Posterior of a Bayes net given its data: the interface for engines and results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.dataset import Column
from bayeslab.errors import DataError, OptionError, listed
from bayeslab.families.bayes_net import density, pymc_graph, unknown_structure
from bayeslab.families.bayes_net.local_distributions.contract import Rows
from bayeslab.families.bayes_net.net import Net, Resolved, parameter_values, resolved
from bayeslab.families.bayes_net.spec import BayesNet
from bayeslab.families.bayes_net.structure_spec import sampled, unknown
from bayeslab.families.bayes_net.target import open_draws, target_draws
from bayeslab.language.indexing import is_counted, numbers_of
from bayeslab.latents.labels.clusters import relabel_by_probabilities
from bayeslab.latents.networks import strong_junction_tree
from bayeslab.latents.networks.incomplete_rows import IncompleteRows
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.mixed_network import MixedNetwork, log_density
from bayeslab.latents.networks.mixed_network import draws as mixed_draws
from bayeslab.latents.networks.mixed_statistics import expected_statistics
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.sampling import forward_sample
from bayeslab.posterior.answer import EMPlan, Plan
from bayeslab.posterior.contract import DataFinding, Draws, Named, Posterior, Purpose
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.model import MachineModel

if TYPE_CHECKING:
    import pymc

__all__ = ["BayesNetPosterior"]

# This many different rows of the data suffice to identify the states.
_TELLING = 60
# Fewest draws averaged for predictions: their Monte Carlo error is a twentieth of the posterior's sd.
_DRAWS = 400


class BayesNetPosterior(Posterior):
    """Posterior of a Bayes net given its data."""

    on_arrays = True
    view = "network"

    def may_be_relabelled(self) -> bool:
        """Whether the states of hidden variables may be exchangeable."""
        return True

    def outcomes_used(self) -> Literal["no", "row", "sequence"]:
        """``row``: rows are independent, and a prediction uses the other cells of its row."""
        return "row"

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """``probabilities``: of the states of the target, or of every variable that a row leaves open."""
        spec = self.spec
        if spec.structure is not None and not isinstance(spec.structure, str):
            return "mean" if spec.structure.score in ("bge", "gaussian_bic") else "probabilities"
        asked = spec.variables if spec.target is None else [spec.target]
        return "probabilities" if all(spec.variables[v].states for v in asked) else "mean"

    @property
    def spec(self) -> BayesNet:
        assert isinstance(self.model.model, BayesNet)
        return self.model.model

    @cached_property
    def resolved(self) -> Resolved:
        """The net and its data."""
        return resolved(self.model, self.data, None if self.origin is None else self.origin.resolved)

    @cached_property
    def structure_plan(self) -> unknown_structure.Plan:
        """The unknown structure resolved on the data."""
        return unknown_structure.plan(self.model, self.data)

    def observed(self) -> tuple[str, ...]:
        """Variables with at least one observed cell."""
        spec = self.spec
        named = spec.variables or self.data.names()
        return tuple(v for v in named if self.data.has(v) and v not in spec.hidden and self.data.present(v))

    def priors(self) -> dict[str, str]:
        """The prior of each unknown."""
        if unknown(self.spec):
            return {}
        net = self.resolved.net
        out = dict(net.parameters) | net.unknown
        for one in net.locals.values():
            if one.rows is not None:
                rows = np.unique(one.rows.concentration, axis=0)
                shown = ", ".join(f"{a:g}" for a in rows[0])
                out[one.rows.name] = f"Dirichlet([{shown}]) in every row" if len(rows) == 1 else "Dirichlet, row by row"
        return out

    def data_findings(self) -> list[DataFinding]:
        """Report variables without a column, and hidden variables with exchangeable states."""
        spec = self.spec
        if unknown(spec):
            return [("data", "", None, text, "") for text in self.structure_plan.remarks]
        net, codes, *_ = self.resolved
        never = [v for k, v in enumerate(net.states) if len(codes) and not np.any(codes[:, k] >= 0)]
        out: list[DataFinding] = []
        silent = [v for v in never if v not in spec.hidden]
        if silent:
            out.append(
                (
                    "hidden",
                    "",
                    float(len(silent)),
                    f"the data have no column {listed(silent)}: summed out as hidden",
                    "list them in `hidden` if that is meant",
                )
            )
        loose = _exchangeable(net, codes) if net.linears else []
        if loose:
            out.append(
                (
                    "labels",
                    "",
                    None,
                    f"the states of {listed(loose)} can be exchanged without changing the model: their names are"
                    " arbitrary",
                    "read them by what they predict; priors that tell them apart fix the names",
                )
            )
        return out

    def relabelled(self, draws: Draws) -> tuple[dict[str, np.ndarray], str] | None:
        """Relabel the exchangeable states of hidden variables consistently across draws.

        Parameters
        ----------
        draws
            By name, shape (draws, ...).
        """

        if unknown(self.spec):
            return None
        net, codes, *_ = self.resolved
        loose = _exchangeable(net, codes) if not net.linears else []
        if not loose:
            return None
        rows, at = np.unique(codes, axis=0, return_inverse=True)
        counts = np.bincount(at.ravel(), self.data.dataset.counts)
        rows = rows[np.sort(np.argsort(-counts, kind="stable")[:_TELLING])]
        out, tree = dict(draws), None
        for v in loose:
            chances = []
            for i in range(_n_draws(draws)):
                tree = _tree(net, out, i, tree)
                chances.append(tree.query_many(rows, [v]).marginals[v])
            moves = relabel_by_probabilities(np.stack(chances))
            for w in (v, *net.graph.successors(v)):
                rows_of = net.locals[w].rows
                assert rows_of is not None
                axis = 1 + net.dims(w).index(v)
                shape = [1] * out[rows_of.name].ndim
                shape[0], shape[axis] = moves.shape
                out[rows_of.name] = np.take_along_axis(out[rows_of.name], moves.reshape(shape), axis=axis)
        touched = {net.locals[w].rows.name for v in loose for w in (v, *net.graph.successors(v))}  # type: ignore[union-attr]
        return {name: out[name] for name in touched}, ", ".join(loose)

    def bound_data(self) -> Data:
        """The data with truth values and numbers replaced by the states that they mean."""
        spec = self.spec
        if unknown(spec):
            return unknown_structure.bound(self.structure_plan, self.data)
        net, codes, *_ = self.resolved
        columns = dict(self.data.dataset.columns)
        named = [v for v in net.states if v in columns and v not in spec.hidden]
        for v in named:
            states = codes[:, list(net.states).index(v)]
            words = np.array(net.states[v])[np.maximum(states, 0)]
            columns[v] = Column(words, columns[v].dims, states < 0)
        dataset = replace(self.data.dataset, columns=columns)
        out = Data(dataset, self.data.labels, self.data.derive, self.data.factors | set(named), self.data.frozen)
        out.origin, out.part = self.data.origin, self.data.part
        return out

    @cached_property
    def exact_plan(self) -> Plan | str:
        """Closed-form Dirichlet posteriors, if every relevant family is observed."""
        if unknown(self.spec):
            return unknown_structure.exact(self.structure_plan)
        from bayeslab.families.bayes_net import exact_inference

        return exact_inference.exact(self.resolved)

    def preferred_engine(self) -> tuple[str, str] | None:
        """For an unknown structure: exact for few variables, sampling for more."""
        if not unknown(self.spec):
            return None
        return unknown_structure.preferred(self.structure_plan)

    def forecast(self) -> dict[str, str]:
        """The unknown parts of the structure and the cost of inferring them; empty for a known structure."""
        return unknown_structure.forecast(self.structure_plan) if unknown(self.spec) else {}

    @cached_property
    def em_plan(self) -> EMPlan | str:
        """Plan of the posterior mode or the maximum likelihood by expectation maximisation."""
        from bayeslab.families.bayes_net import expectation_maximisation

        if unknown(self.spec):
            return "its structure is unknown (method structure samples structures)"
        plan = expectation_maximisation.em(self.resolved)
        if isinstance(plan, str):
            return plan
        net, codes, *_ = self.resolved
        return replace(plan, exchangeable=", ".join(_exchangeable(net, codes)))

    def network(self) -> nx.DiGraph:
        """The graph of the net; an influence diagram has its decisions and utilities in it."""
        spec = self.spec
        if unknown(spec):
            return unknown_structure.network(self.model, self.structure_plan if self.data.names() else None)
        if spec.decisions:
            return _diagram_network(spec)
        net, codes, *_ = self.resolved
        rows = (self.model.data.rows,) if len(codes) else ()
        out = nx.DiGraph(dims={self.model.data.rows: len(codes)} if len(codes) else {})
        for k, (v, states) in enumerate(net.states.items()):
            observed = len(codes) > 0 and bool(np.any(codes[:, k] >= 0))
            out.add_node(v, kind="observed" if observed else "discrete", text=", ".join(states), dims=rows)
        for v, one in spec.variables.items():
            if not one.states:
                out.add_node(v, kind="observed" if self.data.has(v) else "random", text="Normal", dims=rows)
        out.add_edges_from(net.graph.edges)
        return out

    def plain(self, values: Draws) -> DiscreteNetwork | MixedNetwork:
        """The net as plain data, with unknowns at the given values (no draws) by name."""
        net = self.resolved.net
        return net.plain(parameter_values(net, {name: v[None] for name, v in values.items()}, 0))

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """The net as a PyMC model.

        For fitting: its parameters, one node ``evidence`` that sums out hidden variables and missing cells, and a node
        for each continuous variable. Without data, or for simulation: a node for every variable, with the net's edges.
        """
        if unknown(self.spec):
            raise sampled("a graph")
        if purpose == "fit" and len(self.resolved.codes):
            return pymc_graph.with_evidence(self.model, self.resolved)
        return pymc_graph.written_out(self.model, self.resolved, self.data)

    def machine_model(self, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
        if weights:
            raise NotLowered(next(iter(weights)), "weights of the rows of a net")
        if unknown(self.spec):
            raise sampled("a graph")
        if not len(self.resolved.codes):
            raise NotLowered("the net", "no data")
        return density.machine_model(self.model, self.resolved)

    def log_likelihoods(self, draws: Draws) -> Named:
        """Log probability of the observed cells of each row at each draw, with the others summed out."""

        if unknown(self.spec):
            raise sampled("a likelihood of rows")
        net, codes, values, _ = self.resolved
        out = np.empty((_n_draws(draws), len(codes)))
        # A variable must not have the name of a dimension.
        name = "evidence" if self.model.data.rows != "evidence" else "log_evidence"
        if net.linears:
            complete = not (np.any(codes < 0) or np.any(np.isnan(values)))
            for i in range(len(out)):
                one = net.plain(parameter_values(net, draws, i))
                assert isinstance(one, MixedNetwork)
                out[i] = (
                    log_density(one, codes, values) if complete else expected_statistics(one, codes, values).log_density
                )
            return {name: ((self.model.data.rows,), out)}
        rows = IncompleteRows.of(net.states, net.parents, codes)
        for i in range(len(out)):
            tables = net.tables(parameter_values(net, draws, i), np)
            out[i] = rows.log_evidence([np.asarray(tables[v]) for v in net.states])
        return {name: ((self.model.data.rows,), out)}

    def outcome_levels(self) -> dict[str, np.ndarray]:
        """The states of the discrete variables, unless they are the numbers of their positions."""
        if unknown(self.spec):
            return {}
        out = {}
        for variable, one in self.spec.variables.items():
            numbers = numbers_of(one.states) if one.states else None
            if one.states and (numbers is None or not is_counted(numbers)):
                out[variable] = np.array(one.states) if numbers is None else numbers
        return out

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Posterior predictive draws: of the target given the rest of its row, or of whole rows.

        Without a target, rows of new data are completed: their missing cells are drawn given the observed ones.
        """
        if unknown(self.spec):
            raise sampled("a replication of the data")
        spec, (net, codes, values, _) = self.spec, self.resolved
        n = _n_draws(draws)
        if spec.target is not None:
            new = self.data.origin is not None
            target = target_draws(net, spec.target, codes, values, draws, n, rng, new=new)
            return {spec.target: ((self.model.data.rows,), target)}
        names = self.model.outcomes(self.data.names() | set(spec.variables))
        place = {v: k for k, v in enumerate(net.states)}
        column = {v: k for k, v in enumerate(net.linears)}
        if self.data.origin is not None:
            return self.completed(draws, rng)
        out = {v: np.empty((n, len(codes)), dtype=np.int64 if v in place else float) for v in names}
        for i in range(n):
            one = net.plain(parameter_values(net, draws, i))
            if isinstance(one, MixedNetwork):
                drawn, more = mixed_draws(one, rng, len(codes))
            else:
                drawn, more = forward_sample(one, len(codes), rng), np.empty((len(codes), 0))
            for v in names:
                out[v][i] = drawn[:, place[v]] if v in place else more[:, column[v]]
        return {v: ((self.model.data.rows,), array) for v, array in out.items()}

    def completed(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Draws of the missing cells of rows given the rest of the row; for a target, of all its cells."""
        if self.spec.target is not None:
            return self.predictive(draws, rng)
        if unknown(self.spec):
            raise sampled("a prediction")
        net, codes, values, _ = self.resolved
        wanted = _open(net, codes, values)
        states, numbers = open_draws(net, codes, values, draws, _n_draws(draws), rng, new=self.data.origin is not None)
        names = (*net.states, *net.linears)
        every = dict(zip(names, (*np.moveaxis(states, 2, 0), *np.moveaxis(numbers, 2, 0)), strict=True))
        return {v: ((self.model.data.rows,), every[v]) for v in wanted}

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray] | None:
        """P(state | observed cells of the row, data), of the target or of every variable with a missing cell.

        The target's column in the new data is not used. The observed cells of a new row also carry information about
        the parameters: P(x | y, data) = E[P(x, y | θ)] / E[P(y | θ)] over the posterior, so that each draw is weighted
        by the probability that it gives to them. Rows of the fit have informed them already: their draws have equal
        weights, unless a target is predicted as in a new row. If the posterior has a closed form, the tables are
        independent and each enters once: the expectation of their product is the product of their means.
        """

        if unknown(self.spec):
            raise sampled("a prediction")
        spec, (net, codes, values, _) = self.spec, self.resolved
        if not net.linears and isinstance(self.fitted.exact_plan, Plan):
            draws = {name: values.mean(axis=0, keepdims=True) for name, values in draws.items()}
        place = {v: k for k, v in enumerate(net.states)}
        if spec.target is not None and spec.target not in place:
            raise OptionError(
                f"the target '{spec.target}' is continuous; probabilities are for states (use kind='mean')",
                code="not-applicable",
            )
        if spec.target is not None:
            codes = codes.copy()
            codes[:, place[spec.target]] = -1
            wanted = [spec.target]
        else:
            wanted = [v for v in _open(net, codes, values) if v in place]
            if not wanted:
                raise OptionError(
                    "the new rows leave only numbers open; probabilities are for states (use kind='mean')",
                    code="not-applicable",
                )
        both = np.column_stack([codes, values])
        distinct, inverse = np.unique(both, axis=0, return_inverse=True, equal_nan=True)
        rows, numbers = distinct[:, : codes.shape[1]].astype(np.int64), distinct[:, codes.shape[1] :]
        total = {v: np.zeros((len(distinct), len(net.states[v]))) for v in wanted}
        weight, scale = np.zeros((len(distinct), 1)), np.full((len(distinct), 1), -np.inf)
        most = max(_DRAWS, min(2_000, 40_000 // both.size))
        n, counted_already = _n_draws(draws), self.fitted is self and spec.target is None
        tree = None
        for i in np.unique(np.linspace(0, n - 1, min(n, most)).astype(int)):
            if net.linears:
                answer = _mixed(net, draws, int(i), rows, numbers, wanted)
            else:
                tree = _tree(net, draws, int(i), tree)
                batch = tree.query_many(rows, wanted)
                answer = batch.log_evidence, batch.marginals
            log_evidence = np.asarray(answer[0])[:, None]
            if counted_already:
                log_evidence = np.where(np.isfinite(log_evidence), 0.0, log_evidence)
            higher = np.maximum(scale, log_evidence)
            possible, begun = np.isfinite(log_evidence), np.isfinite(scale)
            factor = np.exp(log_evidence - higher, where=possible, out=np.zeros_like(scale))
            kept = np.exp(scale - higher, where=begun, out=np.zeros_like(scale))
            scale, weight = higher, weight * kept + factor
            for v in wanted:
                total[v] = total[v] * kept + np.where(possible, factor * answer[1][v], 0.0)
        back = inverse.ravel()
        if np.any(weight == 0):
            row = int(np.flatnonzero(weight[back, 0] == 0)[0])
            raise DataError(
                f"row {row + 1} of the new data has probability zero under the model", code="probability-zero"
            )
        labels = self.data.labels.get(self.model.data.rows, np.arange(len(codes)))
        return {self.model.data.rows: labels} | {
            f"P({v}={state})": (total[v] / weight)[back, s] for v in wanted for s, state in enumerate(net.states[v])
        }


def _exchangeable(net: Net, codes: np.ndarray) -> list[str]:
    """Hidden variables with exchangeable states: all their tables are learned, under symmetric priors."""
    out = []
    for k, v in enumerate(net.states):
        if not len(codes) or np.any(codes[:, k] >= 0):
            continue
        touching = [net.locals.get(w) for w in (v, *net.graph.successors(v))]
        if all(one is not None and one.rows is not None and one.rows.whole and _even(one.rows) for one in touching):
            out.append(v)
    return out


def _even(rows: Rows) -> bool:
    return bool(np.all(rows.concentration == rows.concentration[0]) and np.ptp(rows.concentration[0]) == 0)


def _diagram_network(spec: BayesNet) -> nx.DiGraph:
    out = nx.DiGraph(dims={})
    for v, one in spec.variables.items():
        out.add_node(v, kind="discrete", text=", ".join(one.states), dims=())
    for d, choice in spec.decisions.items():
        out.add_node(d, kind="data", text=", ".join(choice.options), dims=())
    for u in spec.utilities:
        out.add_node(u, kind="potential", text="", dims=())
    nodes: dict[str, list[str]] = {v: one.parents for v, one in spec.variables.items()}
    nodes |= {d: choice.knows for d, choice in spec.decisions.items()}
    nodes |= {u: worth.parents for u, worth in spec.utilities.items()}
    out.add_edges_from((parent, node) for node, parents in nodes.items() for parent in parents)
    return out


def _tree(net: Net, draws: Mapping[str, np.ndarray], draw: int, tree: JunctionTree | None) -> JunctionTree:
    """The junction tree at one draw; its structure is compiled once."""

    value = parameter_values(net, draws, draw)
    if tree is None:
        return JunctionTree.of(net.network(value))
    tables = net.tables(value, np)
    return tree.with_tables([tables[v] for v in net.states])


def _open(net: Net, codes: np.ndarray, values: np.ndarray) -> list[str]:
    """The variables with missing cells in some rows.

    Raises
    ------
    DataError
        No variable has a missing cell.
    """
    lacking = np.concatenate([codes < 0, np.isnan(values)], axis=1).any(axis=0)
    names = [v for v, open_ in zip((*net.states, *net.linears), lacking, strict=True) if open_]
    if not names:
        raise DataError(
            "the new rows have a value for every variable: nothing is left to predict (leave cells empty, or name a"
            " target in the model)",
            code="nothing-to-predict",
        )
    return names


def _mixed(
    net: Net, draws: Mapping[str, np.ndarray], draw: int, codes: np.ndarray, values: np.ndarray, wanted: list[str]
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Log densities of rows, and marginals, at one draw of a net with continuous variables."""

    one = net.plain(parameter_values(net, draws, draw))
    assert isinstance(one, MixedNetwork)
    answers = []
    for code, value in zip(codes, values, strict=True):
        given: dict[str, Any] = {v: s[c] for (v, s), c in zip(net.states.items(), code, strict=True) if c >= 0}
        given |= {v: float(x) for v, x in zip(net.linears, value, strict=True) if not np.isnan(x)}
        answers.append(strong_junction_tree.query(one, given, wanted))
    marginals = {v: np.stack([a.discrete[v] for a in answers]) for v in wanted}
    return np.array([a.log_evidence for a in answers]), marginals


def _n_draws(draws: Mapping[str, np.ndarray]) -> int:
    return len(next(iter(draws.values()))) if draws else 1
