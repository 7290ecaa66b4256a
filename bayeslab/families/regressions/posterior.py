"""Posterior of regressions of several responses given their data: the graph of all of them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data, Memory
from bayeslab.data.dataset import Dataset
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import DataError, hint
from bayeslab.families.graph.posterior import GraphPosterior
from bayeslab.families.regression.lowered import Remark
from bayeslab.families.regression.posterior import RegressionPosterior
from bayeslab.families.regressions.checks import of_nodes
from bayeslab.families.regressions.common_rows import complete, given_columns, with_computed, without_computed
from bayeslab.families.regressions.expand import Whole, whole_of
from bayeslab.families.regressions.prefixes import prefixed
from bayeslab.families.regressions.spec import Regressions
from bayeslab.families.regressions.written_formulas import imputed, plain
from bayeslab.language.expansion import Expansion
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import call_name
from bayeslab.language.spec import Model
from bayeslab.posterior.contract import Draws, OfOutcome, Posterior, Purpose

if TYPE_CHECKING:
    import networkx as nx
    import pymc

    from bayeslab.posterior.answer import Plan
    from bayeslab.posterior.generative import Generative
    from bayeslab.posterior.machine.model import MachineModel

__all__ = ["RegressionsPosterior"]


class RegressionsPosterior(Posterior):
    """Posterior of regressions of several responses given their data."""

    @property
    def spec(self) -> Regressions:
        assert isinstance(self.model.model, Regressions)
        return self.model.model

    @cached_property
    def whole(self) -> Whole:
        """The model of all responses on the data of the fit, as a model of the language."""
        return whole_of(self.model, self.data) if self.origin is None else self.origin.whole

    @cached_property
    def as_graph(self) -> GraphPosterior:
        """The posterior of the graph that the regressions stand for."""
        return self._graph(self.whole.merged.expansion(), self._dataset)

    @property
    def _dataset(self) -> Dataset:
        if self.origin is None:
            return self.whole.dataset
        dataset = with_computed(self.spec, self.data)
        return dataset.take(complete(self.spec, self.data)[0]) if self.data.part else dataset

    def _graph(self, expansion: Expansion, dataset: Dataset) -> GraphPosterior:
        source = without_computed(self.model.data, dataset)
        model = Model(**expansion.content(self.model.model_copy(update={"data": source})))
        if self.origin is None:
            return GraphPosterior(model, bind(model, dataset, model.factors()))
        first = self.origin.as_graph
        data = bind(model, dataset, model.factors(), first.data.memory())
        data.origin, data.part, data.replicate = first.data, self.data.part, self.data.replicate
        return GraphPosterior(model, data, first)

    @cached_property
    def _predicting(self) -> GraphPosterior:
        """The graph for predictions: without weights and censoring, and with predictors that are responses as given."""
        self._check_predictors()
        dataset, given = self._dataset, dict[str, str]()
        for name in sorted(self.outcomes_as_predictors() & dataset.columns.keys()):
            column, called = dataset.columns[name], f"{name}_given"
            absent = column.absent()
            if column.dims != (dataset.rows,) or absent.all():
                continue
            dataset = replace(dataset, columns={**dataset.columns, called: column})
            given[name] = f"where(isnan({called}), {name}, {called})" if absent.any() else called
        expansion = self.whole.merged.expansion(given)
        # New responses are predicted without censoring, and weights are of rows of the fit.
        nodes = {key: text for key, text in expansion.nodes.items() if call_name(parse(text).tree) != "Potential"}
        if not self.data.fitted:
            nodes = {key: _uncensored(text) for key, text in nodes.items()}
        return self._graph(replace(expansion, nodes=nodes), dataset)

    def of_outcome(self, name: str) -> OfOutcome:
        """The regression of one response, given the responses that are its predictors.

        It has the intercept of uncentred predictors, since its rows may be others: those without imputed cells.
        """
        given, part = self.spec.responses[name], self.whole.parts[name]
        missing = {each: text for each, text in plain(given).missing.items() if each not in imputed(given)}
        regression = plain(given).model_copy(update={"missing": missing})
        model = self.model.model_copy(update={"model": regression})
        levels = {dim: each.tolist() for dim, each in self.data.labels.items() if dim != self.data.dataset.rows}
        data = bind(model, self.data.dataset, model.factors(), Memory(levels))
        parameters = {key.split("[")[0] for key in part.nodes} - {
            name,
            *(each.names.centred for each in part.predictors),
        }
        names = {prefixed(each, name): each for each in parameters}
        if name in self.spec.residuals:
            names["nu_residuals"] = "nu"
        return RegressionPosterior(model, data), names, {prefixed(dim, name): dim for dim in part.model.dims}

    def outcomes_as_predictors(self) -> frozenset[str]:
        """Responses that are predictors of others."""
        used = {name for each in self.spec.regressions().values() for name in each.formulas.predictor_columns()}
        return frozenset(used & self.spec.responses.keys())

    def main_parameters(self) -> tuple[str, ...]:
        """The slopes of every response, in the order of the declaration."""
        slopes = {
            name: [each.names.of("b") for each in part.predictors if each.design.names]
            for name, part in self.whole.parts.items()
        }
        return tuple(prefixed(b, name) for name in self.spec.responses for b in slopes[name])

    def row_weights(self) -> dict[str, np.ndarray]:
        """Weights of the rows' log likelihoods, of the responses that have them."""
        weights = {name: part.weights for name, part in self.whole.parts.items()}
        return {name: each for name, each in weights.items() if each is not None and self.data.fitted}

    def _check_predictors(self) -> None:
        """Check that rows have all predictors that are no responses."""
        for name in sorted({*given_columns(self.spec)} - self.spec.responses.keys()):
            if not self.data.has(name):
                raise DataError(
                    f"the data have no column '{name}', a predictor{hint(name, self.data.names())}",
                    code="unknown-column",
                )
            if self.data.fitted:
                continue
            term = self.data.term(name, missing=True)
            gone = term.codes < 0 if term.codes is not None else np.isnan(np.asarray(term.value, float))
            if np.any(gone):
                row = int(np.flatnonzero(gone)[0]) + 1
                raise DataError(f"column '{name}' of the new data has a missing cell (row {row})", code="missing")

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        chosen = self._predicting if purpose == "predict" else self.as_graph
        with of_nodes(self.spec):
            return chosen.graph(purpose=purpose, targets=targets)

    def network(self) -> nx.DiGraph:
        return self.as_graph.network()

    def generative(self, purpose: Purpose, targets: Collection[str] = ()) -> Generative:
        chosen = self._predicting if purpose == "predict" else self.as_graph
        with of_nodes(self.spec):
            return chosen.generative(purpose, targets)

    def machine_model(self, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
        with of_nodes(self.spec):
            return self.as_graph.machine_model(weights)

    def bound_data(self) -> Data:
        """The data of the graph: complete rows."""
        with of_nodes(self.spec):
            return self.as_graph.bound_data()

    def data_columns(self) -> Collection[str]:
        """The columns that the formulas use, and the responses."""
        used = {name for each in self.spec.regressions().values() for name in each.formulas.predictor_columns()}
        return used | self.spec.responses.keys()

    def draw_size(self) -> int:
        return self.as_graph.draw_size()

    def data_findings(self) -> tuple[Remark, ...]:
        """Remarks on the data of each response, and on dropped rows."""
        whole = self.whole
        if not whole.dropped:
            return whole.remarks
        share = 1 - len(whole.rows) / len(self.data.labels[self.data.dataset.rows])
        advice = "give predictors with missing cells regressions, and write mi(x), to keep the rows"
        return (("missing", "rows", share, whole.dropped, advice), *whole.remarks)

    def priors(self) -> dict[str, str]:
        """The prior of each parameter; default priors with their numbers from the data."""
        out: dict[str, str] = {}
        for key, text in self.whole.merged.expansion().nodes.items():
            name = key.split("[")[0]
            if name.startswith("_chol_"):
                out[f"corr_{name.removeprefix('_chol_')}"] = f"LKJ({text.partition('eta=')[2].partition(',')[0]})"
            elif call_name(parse(text).tree) in {*DISTRIBUTIONS, "Ordered"} and not name.startswith("_"):
                out[key] = text
        observed = {*self.spec.responses, *self.data_columns()}
        return {key: text for key, text in out.items() if key.split("[")[0] not in observed}

    def event_kinds(self) -> dict[str, np.ndarray]:
        return self.as_graph.event_kinds()

    def posterior_findings(self, draws: Draws) -> tuple[Remark, ...]:
        return self.as_graph.posterior_findings(draws)

    def outcome_levels(self) -> dict[str, np.ndarray]:
        return self.as_graph.outcome_levels()

    def summed_out(self) -> tuple[str, ...]:
        return self.as_graph.summed_out()

    def imputed(self) -> tuple[str, ...]:
        return self.as_graph.imputed()

    @cached_property
    def exact_plan(self) -> Plan | str:
        """The closed form of the graph, or why there is none."""
        return self.as_graph.exact_plan


def _uncensored(text: str) -> str:
    """A distribution without the bounds on what is observed of it."""
    tree = parse(text).tree
    return ast.unparse(tree.args[0]) if isinstance(tree, ast.Call) and call_name(tree) == "Censored" else text
