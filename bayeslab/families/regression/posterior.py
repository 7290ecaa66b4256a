"""Posterior of a regression given its data: the interface for engines and results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.sines import Sines
from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import DataError
from bayeslab.families.graph.posterior import GraphPosterior
from bayeslab.families.regression import arrays
from bayeslab.families.regression.arrays import replications
from bayeslab.families.regression.exact_inference import plan
from bayeslab.families.regression.expectation import ExpectedResponse
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regression.lowered import Lowered, Remark
from bayeslab.families.regression.lowering import lower, written_places
from bayeslab.families.regression.machine import machine_model
from bayeslab.families.regression.pymc_graph import with_rows_summed, with_weights
from bayeslab.families.regression.rows import without_response
from bayeslab.families.regression.spec import Regression
from bayeslab.language.expressions import parse
from bayeslab.language.indexing import is_counted, numbers_of
from bayeslab.language.nodes import call_name
from bayeslab.posterior.contract import Draws, Named, Posterior, Purpose
from bayeslab.posterior.event_kinds import DENSITY, LEFT, PROBABILITY, RIGHT

if TYPE_CHECKING:
    import pymc

    from bayeslab.posterior.answer import Plan
    from bayeslab.posterior.generative import Generative
    from bayeslab.posterior.machine.model import MachineModel

__all__ = ["RegressionPosterior"]


class RegressionPosterior(Posterior):
    """Posterior of a regression given its data."""

    on_arrays = True

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """``probabilities`` for a response of levels without numbers, otherwise ``mean``."""
        column = self.data.dataset.columns.get(self.spec.formulas.mean.response)
        words = column is not None and column.values.dtype.kind not in "biuf"
        chosen = likelihood(self.spec.likelihood)
        return "probabilities" if chosen.levels == "categorical" or (chosen.coded and words) else "mean"

    def outcome_levels(self) -> dict[str, np.ndarray]:
        """The levels of a categorical or ordered response, unless they are the numbers of their positions."""
        lowered = self.lowered
        if lowered.likelihood.levels is None or not lowered.levels:
            return {}
        numbers = numbers_of(lowered.levels)
        if numbers is not None and is_counted(numbers):
            return {}
        return {lowered.formula.outcome: np.array(lowered.levels) if numbers is None else numbers}

    @property
    def spec(self) -> Regression:
        assert isinstance(self.model.model, Regression)
        return self.model.model

    @cached_property
    def lowered(self) -> Lowered:
        """The regression as nodes of a graph on its data."""
        return lower(self.model, self.data, None if self.origin is None else self.origin.lowered)

    def network(self) -> nx.DiGraph:
        """The nodes of the graph the regression stands for."""
        lowered = self.lowered
        return GraphPosterior(lowered.model, lowered.data).network()

    def bound_data(self) -> Data:
        """The data of the graph: complete rows, the response, the design matrix."""
        return self.lowered.data

    def data_columns(self) -> Collection[str]:
        """The columns that the formulas use."""
        return self.lowered.data.dataset.columns.keys()

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """The regression as a PyMC graph.

        For fitting a Gaussian regression, the rows enter through their sufficient statistics, in the potential
        ``<response>_rows``, so that the cost of a draw does not depend on their number.
        """
        lowered = self.lowered
        if purpose == "fit" and lowered.y is None:
            raise DataError(
                without_response(lowered.formula, self.data), path=("model", "formula"), code="unknown-column"
            )
        with written_places(lowered.spec, lowered.nodes):
            if purpose == "fit" and lowered.summable:
                return with_rows_summed(lowered)
            built = GraphPosterior(lowered.model, lowered.data).graph(purpose=purpose, targets=targets)
        return with_weights(lowered, built) if purpose == "fit" and lowered.weights is not None else built

    def generative(self, purpose: Purpose, targets: Collection[str] = ()) -> Generative:
        lowered = self.lowered
        with written_places(lowered.spec, lowered.nodes):
            return GraphPosterior(lowered.model, lowered.data).generative(purpose, targets)

    def machine_model(self, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
        return machine_model(self.lowered, weights)

    @cached_property
    def exact_plan(self) -> Plan | str:
        """The closed form of Gaussian regressions whose coefficients are normal given at most two scales."""
        return plan(self.lowered)

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Named | None:
        """Posterior predictive draws of the response, on arrays; None if only the graph can give them."""
        return replications(self.lowered, draws, rng)

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray] | None:
        """Probability of each level for every new row, averaged over the posterior."""
        return arrays.probabilities(self.lowered, draws)

    def expectation(self) -> ExpectedResponse:
        """The expected response as a function of the predictors."""
        return ExpectedResponse(self.lowered)

    def log_likelihoods(self, draws: Draws) -> Named | None:
        """Log likelihood of each row at each draw, on arrays; None if only the graph can give it."""
        return arrays.log_likelihoods(self.lowered, draws)

    def event_kinds(self) -> dict[str, np.ndarray]:
        """Kind of likelihood of each response: a density, a probability, or a tail probability if censored."""
        lowered = self.lowered
        if lowered.y is None:
            return {}
        out = np.full(len(lowered.y), PROBABILITY if lowered.likelihood.discrete else DENSITY)
        for atom in lowered.likelihood.declaration.atoms:
            out[lowered.y == float(atom)] = PROBABILITY
        if lowered.limits is not None:
            out[np.isfinite(lowered.limits[0])], out[np.isfinite(lowered.limits[1])] = LEFT, RIGHT
        return {lowered.formula.outcome: out}

    def row_weights(self) -> dict[str, np.ndarray]:
        """Weights of the rows' log likelihoods, if the model has them."""
        lowered = self.lowered
        return {} if lowered.weights is None else {lowered.formula.outcome: lowered.weights}

    def with_standardized(self, draws: Draws) -> Draws:
        """Draws with effects of groups and coefficients of smooths over their standard deviations.

        An exact posterior is drawn in terms of the effects themselves.
        """
        out = dict(draws)
        design = self.lowered.design
        for name in (*(group.name for group in design.groups), *(curve.name for curve in design.curves)):
            effects, spread = draws.get(f"u_{name}"), draws.get(f"sd_{name}")
            if f"_raw_{name}" not in draws and effects is not None and spread is not None and spread.ndim == 1:
                out[f"_raw_{name}"] = effects / spread[:, None]
        return out

    def data_findings(self) -> tuple[Remark, ...]:
        """Remarks on the data: dropped rows, redundant columns, separation."""
        lowered = self.lowered
        if lowered.y is None:
            message = without_response(lowered.formula, self.data)
            return (
                ("response", lowered.formula.outcome, None, message, "only simulation does without"),
                *lowered.remarks,
            )
        return lowered.remarks

    def priors(self) -> dict[str, str]:
        """The prior of each parameter; default priors with their numbers from the data."""
        lowered = self.lowered
        out: dict[str, str] = {}
        for node, text in lowered.nodes.items():
            name = node.split("[")[0]
            if name.startswith("_chol_"):
                group = name.removeprefix("_chol_")
                known = f"sd_{group}" in lowered.nodes or any(key.startswith(f"_sd_{group}[") for key in lowered.nodes)
                out[f"corr_{group}" if known else f"sd_{group}, corr_{group}"] = (
                    f"LKJ({text.partition('eta=')[2].partition(',')[0]})" if known else text
                )
            elif call_name(parse(text).tree) in {*DISTRIBUTIONS, "Ordered"} and not name.startswith("_"):
                out[node] = text
        slopes = {
            f"{predictor.names.of('b')}[{name}]": text
            for predictor in lowered.predictors
            for name, text in zip(predictor.design.names, predictor.slopes, strict=True)
        }
        joint = {
            "horseshoe": "horseshoe of scale tau, slab InverseGamma(2, 8)",
            "r2d2": "R2-D2 of scale tau, shares Dirichlet(0.5)",
        }.get(lowered.spec.shrinkage or "")
        if joint is not None:
            slopes = {name: text for name, text in slopes.items() if not name.startswith("b[")}
            slopes = {"b": joint, **slopes}
        measured = [each.predictor for predictor in lowered.predictors for each in predictor.design.measured]
        omitted = {lowered.formula.outcome, *measured}
        omitted |= {predictor.names.of("b") for predictor in lowered.predictors if predictor.design.names}
        out = {node: text for node, text in out.items() if node.split("[")[0] not in omitted}
        for predictor in lowered.predictors:
            for area in predictor.design.areas:
                count, parts = len(area.neighbours.ends), int(area.neighbours.parts.max()) + 1
                apart = f", in {parts} parts without a border between them" if parts > 1 else ""
                whose = f" of {predictor.names.parameter}" if predictor.names.parameter else ""
                out[f"{area.title}{whose}"] = f"{len(area.labels)} areas, {count} pairs of neighbours{apart}"
            for curve in predictor.design.curves:
                if isinstance(curve.basis, Sines):
                    least, largest = curve.basis.served
                    whose = f" of {predictor.names.parameter}" if predictor.names.parameter else ""
                    out[f"{curve.title}{whose}"] = (
                        f"Gaussian process in {len(curve.basis.frequencies)} sines, for lengths from {least:.3g} to"
                        f" {largest:.3g}"
                    )
        first = {node: text for node, text in out.items() if node.startswith(("Intercept", "cutpoints"))}
        return first | slopes | out

    def posterior_findings(self, draws: Draws) -> tuple[Remark, ...]:
        """Lengths of Gaussian processes outside the range that their sines serve."""
        out: list[Remark] = []
        for predictor in self.lowered.predictors:
            for curve in predictor.design.curves:
                name = f"length_{predictor.names.group(curve.name)}"
                if isinstance(curve.basis, Sines) and name in draws:
                    out += _unserved(name, curve.title, curve.basis, draws[name], curve.labels)
        return tuple(out)

    def main_parameters(self) -> tuple[str, ...]:
        """The slopes of every formula, those of the predicted quantity first."""
        return tuple(each.names.of("b") for each in self.lowered.predictors if each.design.names)

    def draw_size(self) -> int:
        """Number of values in one draw."""
        lowered = self.lowered
        return GraphPosterior(lowered.model, lowered.data).draw_size()


def _unserved(name: str, title: str, basis: Sines, values: np.ndarray, labels: np.ndarray) -> list[Remark]:
    """Findings about lengths that are too short or too long for the sines, for each level."""
    out: list[Remark] = []
    least, largest = basis.served
    each = values.reshape(len(values), -1)
    for k, column in enumerate(each.T):
        one = f"{name}[{labels[k]}]" if len(labels) else name
        low, high = (float(q) for q in np.quantile(column, [0.05, 0.95]))
        if low < least:
            message = f"5% of the posterior is below {low:.3g}, and the sines serve lengths from {least:.3g}"
            needed = int(np.ceil(1.75 * basis.reach / low))
            out.append(("functions", one, low, message, f"fit with k={needed} in {title} or more"))
        if high > 2 * largest:
            message = f"5% of the posterior is above {high:.3g}, and the sines serve lengths to {largest:.3g}"
            margin = 1.6 * high / basis.range
            out.append(("box", one, high, message, f"fit with c={margin:.2g} in {title} or more, and k in proportion"))
    return out
