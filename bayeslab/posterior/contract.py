"""The contract of every family: a model on its data, as engines and results see it.

A family compiles a declaration and its data to its subclass of :class:`Posterior`. Engines, results, the command line
and plots use only its methods. Methods that every family must have are abstract; optional methods have a default, whose
docstring says what the default means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, Self

import numpy as np

from bayeslab import registry
from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, OptionError, Reason
from bayeslab.language.spec import Family, Model
from bayeslab.posterior.expectation import Expectation
from bayeslab.posterior.generative import Generative, GraphGenerative
from bayeslab.posterior.machine.arrays import NotLowered

if TYPE_CHECKING:
    import networkx as nx
    import pymc

    from bayeslab.posterior.answer import BeliefPlan, EMPlan, GibbsPlan, Note, Plan, PointEstimate, VariationalPlan
    from bayeslab.posterior.machine.model import MachineModel

__all__ = [
    "Choice",
    "ComponentShapes",
    "DataFinding",
    "Draws",
    "Eliminated",
    "LabelInvariant",
    "Named",
    "OfOutcome",
    "Posterior",
    "Purpose",
    "View",
    "posterior_of",
]

# Draws by name, shape (draws, ...).
type Draws = Mapping[str, np.ndarray]
# Arrays by name, each with the names of its dimensions after that of the draws.
type Named = dict[str, tuple[tuple[str, ...], np.ndarray]]
# The content of a warning in the verdict: check, place, number or None, message, and advice.
type DataFinding = tuple[str, str, float | None, str, str]
# A choice made before the fit: a line for the verdict, scores by name with their dimensions, labels of the dimensions.
type Choice = tuple[str, Mapping[str, tuple[tuple[str, ...], np.ndarray]], Mapping[str, np.ndarray]]
# Names of quantities without convergence checks, quantities with checks instead, and notes for the verdict.
type LabelInvariant = tuple[set[str], dict[str, np.ndarray], tuple[Note, ...]]
type Purpose = Literal["fit", "predict", "simulate"]
# The posterior of one outcome, names of its draws by their names here, and names of its dimensions by those here.
type OfOutcome = tuple[Posterior, Mapping[str, str], Mapping[str, str]]
# The view that results have of latent variables: clusters of rows, states over time, a function, ...; "" for none.
type View = Literal["", "clusters", "states", "function", "features", "topics", "learner", "field", "network"]


class Eliminated(Protocol):
    """Recovery of the variables that are summed out of a graph, from tables at each draw of the parameters."""

    @property
    def tables(self) -> Any:
        """The tables as one symbolic vector of the graph."""
        ...

    @property
    def observed(self) -> dict[str, tuple[str, ...]]:
        """Observed nodes whose likelihood is part of the sum, each with its dimensions."""
        ...

    def check_terms(self) -> None:
        """Raise an error if observations have no separate likelihood terms."""
        ...

    def drawn(self, tables: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Joint draws of the variables that are summed out, by name."""
        ...

    def terms(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Log likelihood of each observation, by node."""
        ...

    def expected(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Means of the standard normal variables behind linear states and functions, by name."""
        ...


class ComponentShapes(Protocol):
    """Shapes of components for plots: densities over one column, ellipses over two normal columns."""

    @property
    def columns(self) -> Sequence[str]: ...
    @property
    def points(self) -> np.ndarray: ...
    @property
    def discrete(self) -> bool: ...
    @property
    def densities(self) -> Any: ...
    @property
    def ellipses(self) -> Any: ...


class Posterior(ABC):
    """A model on its data.

    Construction is cheap. Quantities that a family computes from the data are cached properties of its subclass, so
    that they are computed once and belong to this model and these data.

    Parameters
    ----------
    model : Model
    data : Data
        The data bound to the model.
    origin : Posterior or None
        The posterior for the data of the fit, if ``data`` are other rows; None: it is created when needed.
    """

    # The view that results have of the latent variables.
    view: ClassVar[View] = ""
    # Whether ``predictive`` and ``log_likelihoods`` work on arrays, at least for some models of the family.
    on_arrays: ClassVar[bool] = False

    def __init__(self, model: Model, data: Data, origin: Self | None = None) -> None:
        self.model, self.data = model, data
        self._origin = origin

    def __getstate__(self) -> dict[str, Any]:
        """The state without cached properties, which are computed again."""
        return {"model": self.model, "data": self.data, "_origin": self._origin}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model.name}>"

    @property
    def spec(self) -> Family:
        """The family's section of the model file."""
        return self.model.model

    @property
    def family(self) -> str:
        """The family's name, for messages."""
        return self.model.model.family

    @property
    def origin(self) -> Self | None:
        """The posterior for the data that set scales, levels and priors; None: these data are the data of the fit."""
        if self.data.origin is None:
            return None
        if self._origin is None or self._origin.data is not self.data.origin:
            self._origin = type(self)(self.model, self.data.origin)
        return self._origin

    @property
    def fitted(self) -> Self:
        """The posterior for the data of the fit: this one, unless its data are rows to predict."""
        return self if self.data.fitted or self.origin is None else self.origin

    def on(self, data: Data) -> Self:
        """The posterior of the same model for other data; this one if the data are the same."""
        if data is self.data:
            return self
        if self._origin is not None and data is self._origin.data:
            return self._origin
        return type(self)(self.model, data, self if data.origin is self.data else self._origin)

    # ------------------------------------------------------------------------------ the model and its data

    @abstractmethod
    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """The model as a PyMC graph.

        Parameters
        ----------
        purpose
            ``fit``: observed nodes hold their data, and latent discrete variables are summed out. ``predict``: the
            ``targets`` are random, given everything else. ``simulate``: every random node is random, observed or not.
        """

    @abstractmethod
    def network(self) -> nx.DiGraph:
        """The model's nodes and edges, for plots.

        Nodes have the attributes ``kind``, ``text``, ``dims``, and ``inner`` if they are summed out and not recovered.
        The graph has the attribute ``dims``, the lengths of dimensions, and optionally ``unordered``, the nodes whose
        states have no order.
        """

    def graph_without_start(self) -> pymc.Model:
        """The graph to fit, without nodes that only serve the start of chains; default: there are none."""
        return self.graph()

    def outcomes(self) -> tuple[str, ...]:
        """Names of the observed nodes whose values the model predicts."""
        return self.model.outcomes(self.data.names())

    def data_columns(self) -> Collection[str]:
        """Names of the columns that nodes of the same name are, besides outcomes; default: none.

        A table may have other columns, called as parameters are.
        """
        return ()

    def observed(self) -> tuple[str, ...]:
        """Names of the columns or nodes through which data enter the density.

        Default: the outcomes with at least one observed cell. An outcome that is not a column, such as the logarithm of
        one, counts too.
        """
        columns = self.data.names()
        if not columns:
            return ()
        return tuple(n for n in self.outcomes() if n not in columns or self.data.present(n))

    def computed_in_order(self) -> list[str]:
        """Computed columns of the model that depend on the order of the rows, such as ``lag(x, 1, start=0)``."""
        return self.data.of_order([str(self.spec.model_dump())])

    def in_order(self) -> str | None:
        """What else depends on the order of the rows, so that some of them are another series; default None."""
        return None

    def beginnings(self, *, named: bool, known: bool) -> list[tuple[str, str | None]]:
        """What begins anew in new rows, with the column of its sequences if it has one; default: computed columns.

        Parameters
        ----------
        named
            Whether the rows have names.
        known
            Whether these are names of rows of the fit.
        """
        return [(f"the computed column '{name}'", None) for name in self.computed_in_order()]

    def bound_data(self) -> Data:
        """The data as the graph has them, checked against the model; default: the data unchanged and unchecked."""
        return self.data

    def main_parameters(self) -> tuple[str, ...]:
        """Names of the parameters that a short account of the fit gives first, such as slopes; default: none."""
        return ()

    def draw_size(self) -> int | None:
        """Count of numbers in one draw, without building the graph; default None: only the graph or engine knows.

        Raises
        ------
        ModelError
            A single draw does not fit into memory.
        """
        return None

    def priors(self) -> dict[str, str]:
        """The prior of each parameter in the model language; default: none, because the model file states them."""
        return {}

    def data_findings(self) -> Sequence[DataFinding]:
        """Findings about the data, as warnings of the verdict; default: none."""
        return ()

    def forecast(self) -> dict[str, str]:
        """The unknowns of the model and the cost of inferring them, for ``bayeslab check``; default: none."""
        return {}

    def model_choice(self) -> Choice | None:
        """The choice made before the fit, such as a number of states; default None: no choice."""
        return None

    # ------------------------------------------------------------------------------ variables that are summed out

    def summed_out(self) -> tuple[str, ...]:
        """Discrete nodes without data that are summed out and recovered.

        Default: none, for models without discrete nodes, and for families that sum them out without recovering them
        for each draw.
        """
        return ()

    def imputed(self) -> tuple[str, ...]:
        """Missing cells of discrete nodes that are summed out and recovered (``x_unobserved``); default: none."""
        return ()

    def integrated(self) -> dict[str, str]:
        """Linear states and functions that are integrated out, each with the standard normal variables behind it.

        Default: none.
        """
        return {}

    def summing(self) -> MachineModel | None:
        """The program that sums discrete nodes out, or integrates states and functions.

        Default None: there are none, or only the graph does.
        """
        return None

    @cached_property
    def latent(self) -> tuple[str, ...]:
        """Everything that is summed out and recovered: nodes, missing cells, states."""
        return (*self.summed_out(), *self.imputed(), *self.integrated())

    def derived_nodes(self) -> tuple[str, ...]:
        """Deterministic nodes that depend on summed-out variables and are recovered with them; default: none."""
        return ()

    def functions(self) -> tuple[str, ...]:
        """Names of the nodes that are functions whose values are in the posterior; default: none."""
        return ()

    def hidden_paths(self) -> tuple[str, ...]:
        """Summed-out nodes that can be decoded at given parameters; default: none."""
        return ()

    def elimination(self) -> tuple[pymc.Model, Eliminated] | None:
        """The graph to fit, and the recovery of its summed-out variables; default None: none, or left to pymc-extras.

        A posterior with ``integrated`` or ``hidden_paths`` must have one.
        """
        return None

    def generative(self, purpose: Purpose, targets: Collection[str] = ()) -> Generative:
        """The nodes on their natural scale, for draws and for densities of data.

        Parameters
        ----------
        purpose, targets
            As in :meth:`graph`. Default: the nodes of the graph.
        """
        return GraphGenerative(self.graph(purpose=purpose, targets=targets))

    def machine_model(self, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
        """The posterior as a program of the density machine, with the parameters of the graph.

        Parameters
        ----------
        weights
            Factors of the log likelihood of each observation of a node, by node.

        Raises
        ------
        NotLowered
            The machine does not know a part of the model. Default: it does not know the family.
        """
        raise NotLowered(self.family, "a family that the density machine does not know")

    def machine_without_start(self) -> MachineModel:
        """The program without what only serves the start of chains; default: there is nothing."""
        return self.machine_model()

    # ------------------------------------------------------------------------------ engines

    def preferred_engine(self) -> tuple[str, str] | None:
        """The engine that ``auto`` chooses, and the reason.

        Default None: exact if there is a closed form, else NUTS on the graph.
        """
        return None

    @cached_property
    def exact_plan(self) -> Plan | str:
        """The plan for a posterior in closed form, or why there is none; default: none is known for the family."""
        return Reason(f"no closed form is known for the family {self.family}", code="other-family")

    @cached_property
    def em_plan(self) -> EMPlan | str:
        """The plan for expectation maximisation, or why there is none; default: none is known for the family."""
        return Reason(f"expectation maximisation is not known for the family {self.family}", code="other-family")

    @cached_property
    def gibbs_plan(self) -> GibbsPlan | str:
        """The plan for Gibbs sampling, or why there is none; default: none is known for the family."""
        return Reason(f"Gibbs steps are not known for the family {self.family}", code="other-family")

    @cached_property
    def variational_plan(self) -> VariationalPlan | str:
        """The plan for mean-field coordinate ascent, or why there is none; default: none is known for the family."""
        text = f"coordinate ascent is not known for the family {self.family}; take advi, pathfinder or laplace"
        return Reason(text, code="other-family")

    @cached_property
    def belief_plan(self) -> BeliefPlan | str:
        """The plan for loopy belief propagation, or why there is none; default: no factor graph is known."""
        text = f"loopy belief propagation is for the family markov_random_field, not {self.family}; for a Bayes net,"
        return Reason(f"{text} `bayeslab query --approximate loopy`", code="other-family")

    def optimum(self, with_priors: bool, restarts: int, rng: np.random.Generator) -> PointEstimate | None:
        """The posterior mode, or the maximum of the likelihood, without a graph; default None: use the graph."""
        return None

    def no_mode(self) -> str | None:
        """Why the mode of the graph's parameters would be a wrong answer; default None: it is a valid answer."""
        return None

    def starts_at_mode(self) -> bool:
        """Whether NUTS starts at the mode, with the curvature there as metric.

        Default False. True suits models with few parameters, expensive evaluations, and a posterior that is
        approximately normal on the unconstrained scale.
        """
        return False

    def maximum_likelihood(self) -> tuple[float, int] | None:
        """The maximum of the log likelihood (NaN if there is none) and the number of parameters.

        Default None: the maximum is searched for on the graph.
        """
        return None

    def advice(self) -> str | None:
        """Advice for a bad fit, in addition to the engine's; default None: none."""
        return None

    # ------------------------------------------------------------------------------ labels of hidden states

    def may_be_relabelled(self) -> bool:
        """Whether :meth:`relabelled` or :meth:`label_invariant` may return something; default False."""
        return False

    def relabelled(self, draws: Draws) -> tuple[dict[str, np.ndarray], str] | None:
        """Draws with labels of exchangeable states matched across draws [1]_, and the name of the variable with these.

        Default None: no states are exchangeable.

        References
        ----------
        .. [1] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809.
        """
        return None

    def label_invariant(self, draws: Draws, rng: np.random.Generator) -> LabelInvariant | None:
        """Label-invariant quantities, which replace label-dependent ones in the convergence checks.

        Returns the names of the label-dependent quantities, which are moved to the group ``components`` and not
        checked; the label-invariant quantities by name; and notes for the verdict. Default None: all quantities are
        checked.
        """
        return None

    def numbering_rule(self) -> str | None:
        """The rule by which states are numbered, for the verdict; default None: labels are matched across draws."""
        return None

    def ordered(self, draws: Draws) -> dict[str, np.ndarray]:
        """Draws (of the posterior or the prior) with states numbered by the model's rule; default: unchanged."""
        return dict(draws)

    def posterior_findings(self, draws: Draws) -> Sequence[DataFinding]:
        """Findings about the draws, as warnings of the verdict; default: none."""
        return ()

    # ------------------------------------------------------------------------------ predictions

    def outcomes_used(self) -> Literal["no", "row", "sequence"]:
        """Which observed outcomes a prediction uses: none (``no``), those of its row, or those of its sequence.

        Default ``no``.
        """
        return "no"

    def of_outcome(self, name: str) -> OfOutcome | None:
        """The model of one of several outcomes by itself, and how to rename draws and dimensions for it.

        Default None: outcomes have no models of their own.
        """
        return None

    def outcomes_as_predictors(self) -> Collection[str]:
        """Outcomes that are predictors of others, in rows of a prediction that have their values; default: none."""
        return ()

    def classifies(self) -> bool | None:
        """Whether the outcome is a class; default None: decided by the outcome's cells and the graph."""
        return None

    def outcome_levels(self) -> dict[str, np.ndarray]:
        """Levels of the outcomes whose draws are positions of levels, in the order of the positions."""
        dims = self.model.model.categories(self.data)
        levels = {name: self.data.labels.get(dim if dim is not None else name) for name, dim in dims.items()}
        return {name: labels for name, labels in levels.items() if labels is not None}

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """The default kind of prediction: ``mean``, or ``probabilities`` for outcomes without a mean."""
        return "mean"

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Named | None:
        """Replications of the outcomes at each draw, as arrays; default None: only the graph can draw them."""
        return None

    def completed(self, draws: Draws, rng: np.random.Generator) -> Named | None:
        """Predictions of missing cells given the rest of their row; complete rows are replicated.

        Default: replications of all rows. See :mod:`bayeslab.posterior.open_cells`.
        """
        return self.predictive(draws, rng)

    def exact_predictions(
        self, draws: Draws, kind: Literal["mean", "components"], ci_prob: float
    ) -> dict[str, dict[str, np.ndarray]] | None:
        """Predictions without Monte Carlo error: for each part ("" is the outcome) the columns of a table.

        Default None: predictions come from draws.
        """
        return None

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray] | None:
        """Probabilities of the outcome's values for every row, by column; default None: shares of replications."""
        return None

    def expectation(self) -> Expectation | None:
        """The expected outcome as a function of the columns of a table, for effects of these columns.

        Default None: predictions are not such a function, or the family does not give it.
        """
        return None

    def log_likelihoods(self, draws: Draws) -> Named | None:
        """Log likelihoods of the rows or other observations, as arrays; default None: they come from the graph."""
        return None

    def rows_of_term(self, node: str, position: int) -> np.ndarray | None:
        """The rows of one term of :meth:`log_likelihoods`, if the model can be refitted without them.

        Default None: a term belongs to one row, or rows cannot be left out.
        """
        return None

    def event_kinds(self) -> dict[str, np.ndarray]:
        """The kind of the likelihood term of each value, by outcome: see :mod:`.event_kinds`; default: unknown."""
        return {}

    def row_weights(self) -> dict[str, np.ndarray]:
        """The weights of the log likelihood of each value, by outcome; default: no weights."""
        return {}

    def with_standardized(self, draws: Draws) -> Draws:
        """Draws with those of hidden standard normal parameters that other draws determine; default: as they are."""
        return draws

    # ------------------------------------------------------------------------------ views of latent variables

    def decoded(
        self, draws: Draws, method: str, best: int, sequence: str | None, most: int
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The decoded hidden states at each time, as columns of a table, and attributes of the table.

        See :func:`bayeslab.results.decode.decode`. Default: refused, because there are no states over time.
        """
        raise ModelError(
            f"the family {self.family} has no states over time to decode; hmm has, and graph with hidden paths",
            code="other-family",
        )

    def clusters(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Component probabilities of each row, and co-clustering of rows; default: refused."""
        raise OptionError(f"the family {self.family} has no components, and so no clusters", code="other-family")

    def component_shapes(self, draws: Draws, columns: Sequence[str] | None) -> ComponentShapes:
        """Shapes of the components, for plots; default: refused."""
        raise OptionError(f"the family {self.family} has no components of rows; mixture has", code="other-family")

    def partition_shapes(self, partition: np.ndarray, columns: Sequence[str] | None) -> ComponentShapes:
        """Shapes of the clusters of one partition, for plots; default: refused."""
        raise OptionError(f"the family {self.family} has no components of rows; mixture has", code="other-family")

    def cluster_number_prior(self) -> np.ndarray | None:
        """Prior probabilities of 0, 1, 2, ... clusters; default None: their number is fixed."""
        return None

    def with_fitted_priors(self) -> Model:
        """The model with the priors of a fit written out, so that additional rows do not change them.

        Default: refused, because rows can only be added to fits of a process.
        """
        raise OptionError(
            "rows are added to fits by method gibbs of mixtures with components: dirichlet_process; fit again",
            code="not-applicable",
        )

    def joined(
        self, labels: np.ndarray, alphas: np.ndarray, seed: int, options: Any
    ) -> dict[int, Mapping[str, np.ndarray]]:
        """States of chains after new rows were assigned to clusters of the labelled rows; default: refused."""
        raise OptionError(f"the family {self.family} has no partitions of rows", code="other-family")

    def features(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Latent features of each row, their loadings, and reconstructed rows; default: refused."""
        raise OptionError(f"the family {self.family} has no latent features", code="other-family")


def posterior_of(model: Model, data: Data) -> Posterior:
    """The posterior of a model on data bound to it."""
    made: Posterior = registry.load("families", model.model.family).compile(model, data)
    return made
