"""Posterior of a mixture given its data: the interface for engines and results."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import DataError, ModelError, OptionError, Reason, unknown_column
from bayeslab.families.mixture import density, pymc_graph
from bayeslab.families.mixture.columns import check_drawn
from bayeslab.families.mixture.model import Candidates, candidates, resolved
from bayeslab.families.mixture.prior_numbers import written_priors
from bayeslab.families.mixture.spec import Mixture
from bayeslab.language.spec import Model
from bayeslab.latents.labels.clusters import ordered as by_location
from bayeslab.latents.labels.clusters import permute, permute_labels
from bayeslab.latents.latent import Law
from bayeslab.posterior.answer import EMPlan, GibbsPlan, Note, Plan, VariationalPlan
from bayeslab.posterior.contract import Draws, Named, Posterior, Purpose
from bayeslab.posterior.draws import each_draw, evenly
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.mixtures import (
    completion,
    component_shapes,
    expectation_maximisation,
    gibbs,
    known_labels,
    process,
    variational_plans,
)
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.open_cells import row_by_row
from bayeslab.posterior.relabelling import agreeing

if TYPE_CHECKING:
    import pymc

    from bayeslab.posterior.mixtures.component_shapes import Shapes

__all__ = ["MixturePosterior"]

# This many rows suffice to identify the components.
_TELLING = 100
# Number of draws averaged: their Monte Carlo error is a twentieth of the posterior's sd; and of those for clusters.
_DRAWS, _CLUSTERED = 400, 500


class MixturePosterior(Posterior):
    """Posterior of a mixture given its data."""

    view = "clusters"
    on_arrays = True

    def may_be_relabelled(self) -> bool:
        """Whether components may be exchangeable: always True."""
        return True

    def outcomes_used(self) -> Literal["no", "row", "sequence"]:
        """``row``: rows are independent, and a prediction uses the other cells of its row."""
        return "row"

    @cached_property
    def resolved(self) -> BoundMixture:
        """The model on its data."""
        if self.origin is not None:
            return resolved(self.model, self.data, self.origin.resolved)
        return resolved(self.model, self.data, tried=self._candidates)

    @cached_property
    def _candidates(self) -> Candidates:
        return candidates(self.model, self.data)

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """``probabilities`` of components if all columns hold text, which has no mean."""
        return "probabilities" if self.spec.component == "categorical" else "mean"

    @property
    def spec(self) -> Mixture:
        assert isinstance(self.model.model, Mixture)
        return self.model.model

    def _process(self) -> bool:
        return self.spec.components == "dirichlet_process"

    def bound_data(self) -> Data:
        """The data, after resolving the model on them, so that errors of a fit are raised here."""
        if self.data.origin is None and any(self.data.has(name) for name in self.spec.modelled):
            self._there()
            _ = self._candidates
        return self.data

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """The mixture as a PyMC model.

        For fitting: its parameters, and one node ``evidence`` with the components summed out. For simulation: a node
        ``label`` for the component of every row, and one for every column.
        """
        resolved = self._counted()
        if purpose == "fit" and self.data.dataset.columns:
            self._there()
            return pymc_graph.with_evidence(self.model, resolved)
        return pymc_graph.written_out(self.model, resolved, self.data)

    def graph_without_start(self) -> pymc.Model:
        """The graph for fitting, without the search for a mode as a start, for checks."""
        resolved = self._counted()
        self._there()
        return pymc_graph.with_evidence(self.model, resolved, search=False)

    def machine_model(self, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
        if weights:
            raise NotLowered(next(iter(weights)), "weights of rows whose components are summed out")
        resolved = self._counted()
        self._there()
        return density.machine_model(self.model, resolved)

    def machine_without_start(self) -> MachineModel:
        """The program without the search for a mode as a start, for checks."""
        resolved = self._counted()
        self._there()
        return density.machine_model(self.model, resolved, search=False)

    @property
    def _folded(self) -> Reason | None:
        """Why a method does not apply, if the rows of a table were folded to rows with counts."""
        if self.data.dataset.counts is None:
            return None
        return Reason("the rows of the table were folded to rows with counts; method em takes them", code="unsupported")

    def _counted(self) -> BoundMixture:
        if (folded := self._folded) is not None:
            raise ModelError(folded, path=("data", "streamed"), code=folded.code)
        if self.spec.components == "sampled":
            raise ModelError(
                "a sampled number of components has no graph of fixed size; use method gibbs, or give a number",
                path=("model", "components"),
                code="no-graph",
            )
        return self.resolved

    def _there(self) -> None:
        """Check that the data have all columns, not only those needed for simulation."""
        for i, name in enumerate(self.spec.modelled):
            if not self.data.has(name):
                raise unknown_column(name, self.data.names(), ("model", "columns", i))

    @cached_property
    def exact_plan(self) -> Plan | str:
        """The closed form, only if every label is known."""
        if (folded := self._folded) is not None:
            return folded
        self._there()
        resolved = self.resolved
        if resolved.choice is not None:
            return f"components are summed out, {resolved.choice.described('component')}"
        if resolved.design is not None or resolved.problem.latent.inputs is not None:
            return "components are summed out"
        return known_labels.exact(resolved)

    @cached_property
    def em_plan(self) -> EMPlan | str:
        """The mode of the posterior, or of the likelihood, by expectation maximisation."""
        if self._process():
            return "EM needs a number of components; a process has none: use gibbs, variational or nuts"
        if self.spec.components == "sampled":
            return Reason(
                "EM needs a number of components, or a list to choose from; method gibbs samples the number",
                code="no-graph",
            )
        self._there()
        return expectation_maximisation.em(self.resolved)

    def maximum_likelihood(self) -> tuple[float, int]:
        """The highest log likelihood (NaN if unbounded), and the number of free parameters."""
        if self._process():
            return float("nan"), 0
        return expectation_maximisation.maximum_likelihood(self._with_parameters())

    def priors(self) -> dict[str, str]:
        """The prior of each parameter; default priors are on the scale of the data."""
        resolved = self.resolved
        out: dict[str, str] = {}
        if resolved.process is not None:
            out |= process.prior_words(resolved.process)
        elif resolved.problem.latent.inputs is not None or resolved.n_components > 1:
            out |= {name: resolved.problem.latent.prior_text(name) for name in resolved.problem.latent.learned}
        for part in resolved.parts.values():
            out |= part.prior_words()
        return out

    @cached_property
    def gibbs_plan(self) -> GibbsPlan | str:
        """Gibbs sampling of labels and parameters, or of partitions if the number of components is sampled."""
        if (folded := self._folded) is not None:
            return folded
        self._there()
        resolved = self.resolved
        if resolved.process is not None:
            return process.by_partitions(resolved, self.model.data.rows)
        if resolved.number is not None:
            return process.number_sampled(resolved, self.model.data.rows)
        return gibbs.by_gibbs(resolved)

    @cached_property
    def variational_plan(self) -> VariationalPlan | str:
        """Mean-field variational Bayes: factors of the rows' components and conjugate factors of the parameters."""
        if (folded := self._folded) is not None:
            return folded
        if self.spec.components == "sampled":
            return Reason(
                "it needs a number of components, or a list to choose from; method gibbs samples the number",
                code="no-graph",
            )
        self._there()
        if self._process():
            return variational_plans.sticks(self.resolved)
        return variational_plans.variational(self.resolved)

    def preferred_engine(self) -> tuple[str, str] | None:
        """Gibbs if the number of components is sampled; EM of folded rows."""
        if self._folded is not None:
            return "em", "expectation maximisation: the rows of the table were folded to rows with counts"
        if self.spec.components == "sampled":
            return "gibbs", "Gibbs steps over partitions: the number of components is sampled"
        if self._process() and self.data.has(self.spec.modelled[0]) and not isinstance(self.gibbs_plan, str):
            what = "Pitman-Yor" if self.spec.discount else "Dirichlet"
            resolved = self.resolved
            if process.keeps_parameters(resolved):
                return "gibbs", (
                    f"Gibbs steps with auxiliary components: a {what} process without conjugate priors, nothing"
                    " truncated"
                )
            return "gibbs", (
                f"Gibbs and split-merge steps over partitions: a {what} process with its shares and the parameters of"
                " clusters integrated out, nothing truncated"
            )
        return None

    def clusters(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Components of the rows and co-clustering of rows: by name, dimensions and values."""
        if "_labels" in draws:
            return process.summaries(draws["_labels"], self.model.data.rows)
        resolved = self._with_parameters()
        each = (r for _, r in _responsibilities(resolved, draws, _CLUSTERED))
        return gibbs.cluster_summaries(resolved, each, self.model.data.rows, rng)

    def component_shapes(self, draws: Draws, columns: Sequence[str] | None) -> Shapes:
        """Shapes of the components over one column, or over two normal ones."""
        return component_shapes.shapes(self._with_parameters(), draws, columns)

    def partition_shapes(self, partition: np.ndarray, columns: Sequence[str] | None) -> Shapes:
        """Shapes of the clusters of one partition, with their parameters at the mode."""
        components, draws = process.as_components(self.resolved, partition)
        return component_shapes.shapes(components, draws, columns)

    def cluster_number_prior(self) -> np.ndarray | None:
        """Prior probabilities of 0, 1, 2, ... clusters under a process, for few enough rows."""
        resolved = self.resolved
        return None if resolved.process is None else process.number_prior(resolved.process, len(resolved.rows))

    def network(self) -> nx.DiGraph:
        """The graph of parameters, label and columns."""
        spec = self.spec
        rows = self.model.data.rows
        resolved = self.resolved if any(self.data.has(c) for c in spec.modelled) else None
        sizes = {dim: len(labels) for dim, labels in resolved.labels.items()} if resolved is not None else {}
        if rows in self.data.labels:
            sizes[rows] = len(self.data.labels[rows])
        along = (rows,) if rows in sizes else ()
        out = nx.DiGraph(dims=sizes)
        shown = str(spec.components) if isinstance(spec.components, int | str) else "chosen"
        top = "gate" if spec.gating else "weights"
        out.add_node(
            top, kind="random", text="logit" if spec.gating else "Dirichlet", dims=("component",) if resolved else ()
        )
        out.add_node("label", kind="discrete", inner=True, text=f"of {shown}", dims=along)
        out.add_edge(top, "label")
        for name in spec.gating:
            out.add_node(name, kind="data", dims=along)
            out.add_edge(name, "label")
        parts = resolved.parts.values() if resolved is not None else ()
        for part in parts:
            for name in part.results:
                kept = tuple(d for d in part.dims(name) if d in sizes)
                out.add_node(name, kind="random", text="", dims=kept)
        for part in parts:
            for column in part.columns:
                out.add_node(
                    column, kind="observed" if self.data.has(column) else "random", text=spec.word(column), dims=along
                )
                out.add_edge("label", column)
                for name in part.results:
                    if not name.startswith("p_") or name == f"p_{column}":
                        out.add_edge(name, column)
        return out

    def ordered(self, draws: Draws) -> dict[str, np.ndarray]:
        """Draws with components numbered by the model's ``order``, if it has one."""
        spec = self.spec
        if spec.order is None:
            return dict(draws)

        resolved = self.resolved
        return _renamed(resolved, draws, by_location(resolved.location(draws, spec.order)))

    def _with_parameters(self) -> BoundMixture:
        resolved = self.resolved
        if resolved.number is not None:
            raise OptionError(
                "a sampled number of components leaves no draws of parameters; fit again with the number you settle on",
                code="not-kept",
            )
        return resolved

    def exchangeable(self) -> bool:
        """Whether components are exchangeable under the model."""
        spec, resolved = self.spec, self.resolved
        even = np.ptp(resolved.problem.latent.dirichlet) == 0 and resolved.process is None
        return resolved.n_components > 1 and even and not spec.labels and resolved.number is None

    def label_invariant(
        self, draws: Draws, rng: np.random.Generator
    ) -> tuple[set[str], dict[str, np.ndarray], tuple[Note, ...]] | None:
        """For a truncated process: replace all values by component with label-invariant ones, such as counts of
        clusters.
        """
        if not self._process() or "weights" not in draws:
            return None

        resolved = self.resolved
        names = {name for name, dims in resolved.dims.items() if dims[:1] == ("component",)}
        names |= {name for name in draws if name.startswith("_")}
        counts = process.counted(_responsibilities(resolved, draws), rng)
        return names, counts, process.truncated(resolved, draws)

    def with_fitted_priors(self) -> Model:
        """The model with the fit's priors written out, so that further rows do not change them."""
        spec = self.spec
        priors = written_priors(spec, self.resolved)
        return self.model.model_copy(update={"model": spec.model_copy(update={"priors": priors})})

    def joined(
        self, labels: np.ndarray, alphas: np.ndarray, seed: int, options: Any
    ) -> dict[int, Mapping[str, np.ndarray]]:
        """States of chains in which the rows after the labelled ones are assigned to clusters."""
        return process.joined(self.resolved, labels, alphas, seed, options)

    def numbering_rule(self) -> str | None:
        """The rule in the file that numbers the components in every draw."""
        order = self.spec.order
        return None if order is None else f"components are numbered by where they lie in '{order}'"

    def relabelled(self, draws: Draws) -> tuple[dict[str, np.ndarray], str] | None:
        """Draws relabelled consistently: by the ``order``, or by best agreement of responsibilities."""
        if not self.exchangeable():
            return None

        resolved = self.resolved
        kept = {name for name, dims in resolved.dims.items() if dims[:1] == ("component",)} | _inner(resolved, draws)
        if resolved.problem.latent.inputs is not None and "_gate" in draws:
            kept.add("_gate")
        if self.spec.order is not None:
            return {n: v for n, v in self.ordered(draws).items() if n in kept}, "the component"
        rows = evenly(len(resolved.rows), _TELLING)
        moves = agreeing(_laws(resolved, draws, rows), np.arange(len(rows)))
        if resolved.by is not None:
            # Labels agree now; a column fixes their order, the same in every run.
            centres = permute(resolved.location(draws, resolved.by), moves).mean(axis=0)
            moves = moves[:, np.argsort(centres, kind="stable")]
        return {n: v for n, v in _renamed(resolved, draws, moves).items() if n in kept}, "the component"

    def log_likelihoods(self, draws: Draws) -> Named:
        """Log density of each row at each draw with its component summed out; for partitions, given all other rows."""
        self._there()
        if "_labels" in draws:
            return {"row": ((self.model.data.rows,), process.log_densities(self.resolved, draws))}
        resolved = self._with_parameters()
        return {"row": ((self.model.data.rows,), np.stack([e for e, _ in _responsibilities(resolved, draws)]))}

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Posterior predictive draws of the rows, at each draw."""
        check_drawn(self.spec, self.data, self.resolved.columns, self.resolved.rows)
        if "_labels" in draws:
            return process.replications(self.resolved, draws, self.model.data.rows, rng)
        resolved = self._with_parameters()
        latent = replace(resolved.problem.latent, allowed=None)  # without information from the rows
        made = []
        for values in each_draw(draws, resolved.dims):
            theta = resolved.theta(values)
            labels = latent.simulate(theta, rng.random(len(resolved.rows)))
            made.append(resolved.sample(rng, theta, labels))
        return self._named(resolved, np.stack(made))

    def _named(self, resolved: BoundMixture, rows: np.ndarray) -> Named:
        """Drawn rows (draws, rows, columns) by column."""
        return {column: ((self.model.data.rows,), v) for column, v in resolved.as_columns(rows).items()}

    def completed(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Draws of missing cells given the rest of the row; posterior predictive draws of complete rows."""
        if self.spec.regression is not None:
            return self.predictive(draws, rng)
        resolved = self._with_parameters()
        check_drawn(self.spec, self.data, resolved.columns, resolved.rows)
        lacking = {
            column: np.isnan(resolved.rows[:, at])
            for part in resolved.parts.values()
            for column, at in zip(part.columns, part.columns_at, strict=True)
        }
        return row_by_row(lacking, lambda: self._filled(resolved, draws, rng), lambda: self.predictive(draws, rng))

    def _filled(self, resolved: BoundMixture, draws: Draws, rng: np.random.Generator) -> Named:
        """All rows, with missing cells drawn."""
        fill = process.completed if "_labels" in draws else completion.completed
        return self._named(resolved, fill(resolved, draws, rng))

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray] | None:
        """P(component | row) for new rows, averaged over the posterior draws."""
        if self.spec.regression is None:
            # An absent column is more likely misspelt than unknown; unknown cells can be left empty.
            self._there()
        if "_labels" in draws:
            labels = self.data.labels.get(self.model.data.rows, np.arange(len(self.resolved.rows)))
            return {self.model.data.rows: labels} | process.membership(self.fitted.resolved, self.resolved, draws)
        on = self._with_parameters()
        total = np.zeros((len(on.rows), on.n_components))
        for _, r in _responsibilities(on, draws, _DRAWS):
            total += r
        if (lost := total.sum(axis=1) == 0).any():
            raise DataError(
                f"row {int(np.argmax(lost)) + 1} of the new data is impossible in every component",
                code="probability-zero",
            )
        total /= total.sum(axis=1, keepdims=True)
        labels = self.data.labels.get(self.model.data.rows, np.arange(len(total)))
        return {self.model.data.rows: labels} | {f"P({name})": total[:, k] for k, name in enumerate(on.names)}


def _renamed(resolved: BoundMixture, draws: Mapping[str, np.ndarray], moves: np.ndarray) -> dict[str, np.ndarray]:
    out = dict(draws)
    named = {name for name, dims in resolved.dims.items() if dims[:1] == ("component",) and name in draws}
    for name in named | _inner(resolved, draws):
        out[name] = permute(np.asarray(draws[name]), moves)
    if "gate" in out:
        out["gate"] = out["gate"] - out["gate"][:, :1]
        if "_gate" in draws:
            out["_gate"] = out["gate"][:, 1:]
    if "label" in draws:
        out["label"] = permute_labels(np.asarray(draws["label"]), moves)
    return out


def _inner(resolved: BoundMixture, draws: Mapping[str, np.ndarray]) -> set[str]:
    """Auxiliary parameters of the graph, one set for each component."""
    return {n for n, v in draws.items() if n.startswith("_") and np.ndim(v) > 1 and v.shape[1] == resolved.n_components}


def _laws(
    resolved: BoundMixture, draws: Mapping[str, np.ndarray], rows: np.ndarray | None = None, most: int | None = None
) -> Iterator[Law]:
    """The components of all rows, or of some, at each draw, or at ``most`` of them."""
    problem = resolved.problem if rows is None else resolved.problem.at(rows)
    return (problem.law(resolved.theta(values)) for values in each_draw(draws, resolved.dims, most))


def _responsibilities(
    resolved: BoundMixture, draws: Mapping[str, np.ndarray], most: int | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Log evidence (N,) and responsibilities (N, K) at each draw, or at ``most`` of them."""
    laws = _laws(resolved, draws, most=most)
    return ((law.log_likelihoods(True), law.filter("filter")) for law in laws)
