"""Posterior of a Markov random field given its evidence: the interface for engines and results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import networkx as nx
import numpy as np

from bayeslab.errors import EngineRefusal, OptionError, Reason
from bayeslab.families.markov_random_field.field import Field, field_of
from bayeslab.families.markov_random_field.spec import MarkovRandomField
from bayeslab.latents.networks import belief_propagation, triangulation
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.sampling import FieldSampler
from bayeslab.latents.sampler import Arrays, recorded, stacked
from bayeslab.posterior.answer import BeliefPlan, GibbsDraws, GibbsPlan, Plan
from bayeslab.posterior.contract import Draws, Posterior, Purpose, View

if TYPE_CHECKING:
    import pymc

__all__ = ["FieldPosterior"]

# Seconds up to which exact inference is chosen.
_PATIENCE = 30.0

type Groups = dict[str, dict[str, tuple[tuple[str, ...], np.ndarray]]]


class FieldPosterior(Posterior):
    """Posterior of a Markov random field given its evidence.

    The draws are indicators of the states of each variable, so that their means are the marginal probabilities.
    """

    view: ClassVar[View] = "field"

    @property
    def spec(self) -> MarkovRandomField:
        assert isinstance(self.model.model, MarkovRandomField)
        return self.model.model

    @cached_property
    def field(self) -> Field:
        """The factor graph with its evidence."""
        return field_of(self.spec, self.data, self.model.name)

    def plain(self) -> FactorGraph:
        """The factor graph with the evidence as further factors, for queries."""
        return self.field.with_evidence()

    def observed(self) -> tuple[str, ...]:
        """The columns with evidence; a field of written potentials needs none."""
        return super().observed() or tuple(self.spec.variables)

    def draw_size(self) -> int:
        """Count of states of all variables."""
        return sum(b.places.size * len(b.states) for b in self.field.blocks.values())

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """``probabilities``: of the states of every variable."""
        return "probabilities"

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """Refused: the variables are discrete, and there is no order in which to draw them.

        Raises
        ------
        EngineRefusal
        """
        raise EngineRefusal(
            "a Markov random field has no PyMC graph, since its variables are discrete and have no parameters: take"
            " method exact, loopy or gibbs; bl.network(model).sample draws from it",
            code="other-family",
        )

    def network(self) -> nx.DiGraph:
        """The variables and the potentials that join them; of an image, its labels and its pixels."""
        grid, out = self.spec.grid, nx.DiGraph(dims={d: len(v) for d, v in self.data.labels.items()})
        if grid is not None:
            dims = next(iter(self.field.blocks.values())).dims if self.data.names() else ()
            out.add_node(grid.label, kind="discrete", text=", ".join(grid.states), dims=dims)
            out.add_node(grid.observed, kind="observed", text="noise" if grid.emission is None else "emission", dims=())
            out.add_node("coupling", kind="potential", text="", dims=())
            out.add_edges_from([(grid.label, grid.observed), (grid.label, "coupling")])
            return out
        for v, states in self.spec.variables.items():
            kind = "discrete" if v in self.field.blocks else "observed"
            out.add_node(v, kind=kind, text=", ".join(states), dims=())
        for potential in self.spec.potentials:
            name = " ".join(potential.variables)
            out.add_node(f"({name})", kind="potential", text="", dims=())
            out.add_edges_from((v, f"({name})") for v in potential.variables)
        return out

    def forecast(self) -> dict[str, str]:
        """The cost of exact inference."""
        if self.spec.grid is not None and not self.data.names():
            return {}
        return {"exact": str(triangulation.forecast(self.field.factors))}

    def preferred_engine(self) -> tuple[str, str] | None:
        """Exact where the junction tree is small enough, else Gibbs sampling."""
        plan = self.exact_plan
        if isinstance(plan, str):
            return "gibbs", f"Gibbs sampling; not exact: {plan}"
        seconds = triangulation.forecast(self.field.factors).seconds
        return ("gibbs", f"Gibbs sampling; exact would take about {seconds:.2g} s") if seconds > _PATIENCE else None

    @cached_property
    def exact_plan(self) -> Plan | str:
        """Marginals, draws and the most probable states by the junction tree."""
        field = self.field
        if not field.blocks:
            return Reason("the evidence decides every variable", code="nothing-to-fit")
        cost = triangulation.forecast(field.factors)
        try:
            cost.refuse_beyond(triangulation.available_bytes())
        except EngineRefusal as error:
            return Reason(error.message, code=error.code)
        how = f"junction tree of {len(field.factors.states)} variables, its largest clique of {len(cost.largest)}"
        return Plan(how, lambda: _solved(field), dims=field.dims, labels=field.labels)

    @cached_property
    def belief_plan(self) -> BeliefPlan | str:
        """Sum-product and max-product messages between variables and potentials."""
        field = self.field

        def solve(**options: Any) -> tuple[Any, Groups, dict[str, np.ndarray]]:
            answer = belief_propagation.loopy(field.factors, field.given, **options)
            best = belief_propagation.loopy_max_product(field.factors, field.given, **options)
            return answer, {"most_probable": field.words(best.assignment)}, field.probabilities(answer.marginals)

        how = f"messages between {len(field.factors.states)} variables and {len(field.factors.scopes)} potentials"
        return BeliefPlan(how, solve, field.dims, field.labels, field.log_scale)

    @cached_property
    def gibbs_plan(self) -> GibbsPlan | str:
        """Each variable in turn given the others."""
        field = self.field
        if not field.blocks:
            return Reason("the evidence decides every variable", code="nothing-to-fit")

        def finish(kept: Mapping[int, Arrays], n_draws: int) -> GibbsDraws:
            codes, log_density = (stacked(kept, name, n_draws) for name in ("codes", "log_density"))
            best = codes[np.unravel_index(log_density.argmax(), log_density.shape)]
            words = {v: s[c] for (v, s), c in zip(field.factors.states.items(), best, strict=True)}
            groups = {"most_probable": field.words(words)}
            return GibbsDraws(field.indicators(codes), {"lp": log_density + field.log_scale}, groups)

        sampler = FieldSampler.of(field.factors, field.given)
        how = f"{len(field.factors.states)} variables, each given the others"
        return GibbsPlan(how, recorded(sampler, finish), field.dims, field.labels)

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray] | None:
        """Marginal probabilities of the states; for new evidence, by the junction tree.

        Raises
        ------
        OptionError
            The evidence is new, and exact inference does not apply.
        """
        field, plan = self.field, self.exact_plan
        if isinstance(plan, Plan):
            means: Mapping[str, np.ndarray] = plan.solve().mean()
        elif self.data.origin is None:
            means = {name: np.mean(draws[name], axis=0) for name in field.blocks}
        else:
            raise OptionError(f"new evidence needs a fit to it: {plan}", code="not-applicable")
        columns: dict[str, np.ndarray] = {}
        for name, block in field.blocks.items():
            axes = np.meshgrid(*(field.labels[dim] for dim in block.dims), indexing="ij")
            columns |= {dim: axis.ravel() for dim, axis in zip(block.dims, axes, strict=True)}
            flat = means[name].reshape(-1, len(block.states))
            columns |= {f"P({name}={state})": flat[:, k] for k, state in enumerate(block.states)}
        return columns


def _solved(field: Field) -> _Answer:
    tree = JunctionTree.of(field.factors)
    answer = tree.query(field.given)
    return _Answer(field, tree, field.probabilities(answer.marginals), answer.log_evidence, tree.query().log_evidence)


@dataclass(frozen=True, eq=False)
class _Answer:
    """Marginals given the evidence, and the log partition function with the evidence and without."""

    field: Field
    tree: JunctionTree
    marginals: Mapping[str, np.ndarray]
    log_given: float
    log_partition: float

    @property
    def dims(self) -> Mapping[str, tuple[str, ...]]:
        return self.field.dims

    @property
    def labels(self) -> Mapping[str, np.ndarray]:
        return self.field.labels

    @property
    def log_evidence(self) -> float:
        """Log probability (or density) of the evidence; NaN if there is none."""
        if not self.field.given:
            return float("nan")
        return self.log_given + self.field.log_scale - self.log_partition

    def mean(self) -> Mapping[str, np.ndarray]:
        return self.marginals

    def sd(self) -> Mapping[str, np.ndarray]:
        return {name: np.sqrt(p * (1 - p)) for name, p in self.marginals.items()}

    def quantile(self, probability: float) -> Mapping[str, np.ndarray]:
        return {name: (p > 1 - probability).astype(float) for name, p in self.marginals.items()}

    def draws(self, rng: np.random.Generator, n: int) -> Mapping[str, np.ndarray]:
        return self.field.indicators(self.tree.sample(n, rng, self.field.given))

    def groups(self) -> Groups:
        """The most probable states, and the partition function."""
        best = self.tree.most_probable(self.field.given)[0]
        log_best = {"log_probability": ((), np.array(best.log_probability))}
        sums = {"log_partition": self.log_partition, "log_partition_given": self.log_given + self.field.log_scale}
        return {
            "most_probable": self.field.words(best.assignment) | log_best,
            "partition": {name: ((), np.array(value)) for name, value in sums.items()},
        }
