"""The contract of every family: a model on its data, as engines and results see it.

A family compiles a declaration and its data to a :class:`Posterior` of its own. Engines, results, the command line and
pictures call its methods and ask for nothing else: what every family has is abstract, what only some have has a default
that says what its absence means.
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

if TYPE_CHECKING:
    import networkx as nx
    import pymc

    from bayeslab.posterior.answer import EMPlan, GibbsPlan, Note, Plan, PointEstimate, VariationalPlan

__all__ = [
    "Choice",
    "ComponentShapes",
    "DataFinding",
    "Draws",
    "Eliminated",
    "LabelInvariant",
    "Named",
    "Posterior",
    "Purpose",
    "View",
    "posterior_of",
]

# Draws by name, shape (draws, ...).
type Draws = Mapping[str, np.ndarray]
# Arrays by name, each with the names of its dimensions after that of the draws.
type Named = dict[str, tuple[tuple[str, ...], np.ndarray]]
# What a warning of the verdict says: the check, where, a number or None, the message, and advice.
type DataFinding = tuple[str, str, float | None, str, str]
# A choice made before the fit: a line for the verdict, scores by name with their dimensions, labels of the dimensions.
type Choice = tuple[str, Mapping[str, tuple[tuple[str, ...], np.ndarray]], Mapping[str, np.ndarray]]
# Names of quantities that are not judged, others that are, and notes for the verdict.
type LabelInvariant = tuple[set[str], dict[str, np.ndarray], tuple[Note, ...]]
type Purpose = Literal["fit", "predict", "simulate"]
# What results have a view of: clusters of rows, states over time, a function, and so on; "" for none.
type View = Literal["", "clusters", "states", "function", "features", "topics", "learner"]


class Eliminated(Protocol):
    """How what is summed out of a graph comes back, from the tables at each draw of the parameters."""

    @property
    def tables(self) -> Any:
        """The tables as one symbolic vector of the graph."""
        ...

    @property
    def observed(self) -> dict[str, tuple[str, ...]]:
        """Observed nodes whose likelihood the sum holds, each with its dimensions."""
        ...

    def check_terms(self) -> None:
        """Raise an error where observations have no terms of their own."""
        ...

    def drawn(self, tables: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
        """Joint draws of what is summed out, by name."""
        ...

    def terms(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Log likelihood of each observation, by node."""
        ...

    def expected(self, tables: np.ndarray) -> dict[str, np.ndarray]:
        """Means of the standard normals that linear states and functions are made of, by name."""
        ...


class ComponentShapes(Protocol):
    """What components look like: over one column as densities, over two normal ones as ellipses."""

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

    Making one is cheap. What a family works out about the data is a cached property of its subclass, so that it is
    worked out once and belongs to this model and these data.

    Parameters
    ----------
    model : Model
    data : Data
        The data bound to the model.
    origin : Posterior or None
        The posterior of the data of the fit, where ``data`` are other rows; None: it is made where it is needed.
    """

    # What results show of what is hidden.
    view: ClassVar[View] = ""
    # Whether ``predictive`` and ``log_likelihoods`` work on arrays, at least for some models of the family.
    on_arrays: ClassVar[bool] = False

    def __init__(self, model: Model, data: Data, origin: Self | None = None) -> None:
        self.model, self.data = model, data
        self._origin = origin

    def __getstate__(self) -> dict[str, Any]:
        """Without what was worked out: it is worked out again."""
        return {"model": self.model, "data": self.data, "_origin": self._origin}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model.name}>"

    @property
    def spec(self) -> Family:
        """What the model file says of the family."""
        return self.model.model

    @property
    def family(self) -> str:
        """The family's word, for messages."""
        return self.model.model.family

    @property
    def origin(self) -> Self | None:
        """The posterior of the data that scales, levels and priors come from; None: these data are that themselves."""
        if self.data.origin is None:
            return None
        if self._origin is None or self._origin.data is not self.data.origin:
            self._origin = type(self)(self.model, self.data.origin)
        return self._origin

    @property
    def fitted(self) -> Self:
        """The posterior of the data of the fit: this one, unless its data are rows to predict."""
        return self if self.data.fitted or self.origin is None else self.origin

    def on(self, data: Data) -> Self:
        """The posterior of other data under the same model; this one if they are the same."""
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
            ``fit``: observed nodes hold their data, and what is discrete and hidden is summed out. ``predict``: the
            ``targets`` are random, given everything else. ``simulate``: every random node is random.
        """

    @abstractmethod
    def network(self) -> nx.DiGraph:
        """The model's nodes and edges, for drawing.

        Nodes have the attributes ``kind``, ``text``, ``dims``, and ``inner`` if they are summed out and not recovered.
        The graph has the lengths of dimensions, ``dims``, and maybe ``unordered``, the nodes that have no order.
        """

    def graph_without_start(self) -> pymc.Model:
        """The graph to fit without what is computed for the start of chains alone; by default there is nothing such."""
        return self.graph()

    def outcomes(self) -> tuple[str, ...]:
        """Names of the observed nodes whose values the model predicts."""
        return self.model.outcomes(self.data.names())

    def observed(self) -> tuple[str, ...]:
        """Names of the columns or nodes through which data enter the density.

        Default: the outcomes that have a cell that is not missing. An outcome that is no column, such as the logarithm
        of one, counts too.
        """
        columns = self.data.names()
        if not columns:
            return ()
        return tuple(n for n in self.outcomes() if n not in columns or self.data.present(n))

    def bound_data(self) -> Data:
        """The data as the graph has them, checked against the model; default: as they are, without a check."""
        return self.data

    def draw_size(self) -> int | None:
        """Numbers in one draw, found without the graph; default None: only the graph or the engine knows.

        Raises
        ------
        ModelError
            Not even one draw fits into memory.
        """
        return None

    def priors(self) -> dict[str, str]:
        """The prior of each parameter in the model language; default: none is shown, since the file writes them."""
        return {}

    def data_findings(self) -> Sequence[DataFinding]:
        """What the user should know about the data: warnings of the verdict; default: nothing."""
        return ()

    def forecast(self) -> dict[str, str]:
        """What is to be found out and what that costs, for ``bayeslab check``; default: nothing is said."""
        return {}

    def model_choice(self) -> Choice | None:
        """What was chosen before the fit, such as a number of states; default None: nothing is chosen."""
        return None

    # ------------------------------------------------------------------------------ what is summed out

    def summed_out(self) -> tuple[str, ...]:
        """Discrete nodes without data that are summed out and recovered.

        Default: none. That is right where nothing is discrete, and where the family sums it out and does not recover it
        draw by draw.
        """
        return ()

    def imputed(self) -> tuple[str, ...]:
        """Missing cells of discrete nodes that are summed out and recovered (``x_unobserved``); default: none."""
        return ()

    def integrated(self) -> dict[str, str]:
        """Linear states and functions that are integrated out, each with the standard normals it is made of.

        Default: none.
        """
        return {}

    @cached_property
    def latent(self) -> tuple[str, ...]:
        """Everything that is summed out and recovered: nodes, missing cells, states."""
        return (*self.summed_out(), *self.imputed(), *self.integrated())

    def derived_nodes(self) -> tuple[str, ...]:
        """Deterministic nodes that depend on what is summed out, which come back with it; default: none."""
        return ()

    def functions(self) -> tuple[str, ...]:
        """Names of the nodes that are functions with values in the posterior; default: none."""
        return ()

    def hidden_paths(self) -> tuple[str, ...]:
        """Those nodes that are summed out that can be decoded at given parameters; default: none."""
        return ()

    def elimination(self) -> tuple[pymc.Model, Eliminated] | None:
        """The graph to fit and how what is summed out of it comes back; default None: nothing is, or PyMC-extras does.

        A posterior with ``integrated`` or ``hidden_paths`` has one.
        """
        return None

    # ------------------------------------------------------------------------------ engines

    def preferred_engine(self) -> tuple[str, str] | None:
        """The engine that ``auto`` takes, and why.

        Default None: exact where there is a closed form, else NUTS on the graph.
        """
        return None

    @cached_property
    def exact_plan(self) -> Plan | str:
        """How the posterior is had in closed form, or why not; default: no closed form is known for the family."""
        return Reason(f"no closed form is known for the family {self.family}", code="other-family")

    @cached_property
    def em_plan(self) -> EMPlan | str:
        """How expectation maximisation finds the parameters, or why not; default: not known for the family."""
        return Reason(f"expectation maximisation is not known for the family {self.family}", code="other-family")

    @cached_property
    def gibbs_plan(self) -> GibbsPlan | str:
        """How Gibbs steps draw from the posterior, or why not; default: not known for the family."""
        return Reason(f"Gibbs steps are not known for the family {self.family}", code="other-family")

    @cached_property
    def variational_plan(self) -> VariationalPlan | str:
        """How coordinate ascent finds a product of factors, or why not; default: not known for the family."""
        text = f"coordinate ascent is not known for the family {self.family}; take advi, pathfinder or laplace"
        return Reason(text, code="other-family")

    def optimum(self, with_priors: bool, restarts: int, rng: np.random.Generator) -> PointEstimate | None:
        """The mode of the posterior, or the maximum of the likelihood, without a graph; default None: by the graph."""
        return None

    def no_mode(self) -> str | None:
        """Why the mode of the graph's parameters would be a wrong answer; default None: it is none."""
        return None

    def starts_at_mode(self) -> bool:
        """Whether NUTS starts at the mode, with the curvature there for a metric.

        Default False. True is right where parameters are few, each evaluation is dear, and the posterior is about
        normal on the unconstrained scale.
        """
        return False

    def maximum_likelihood(self) -> tuple[float, int] | None:
        """The highest log likelihood (NaN where there is none) and the number of parameters.

        Default None: it is searched for on the graph.
        """
        return None

    def advice(self) -> str | None:
        """What to do, besides what the engine advises, where a fit is bad; default None: nothing more."""
        return None

    # ------------------------------------------------------------------------------ labels of hidden states

    def may_be_relabelled(self) -> bool:
        """Whether :meth:`relabelled` or :meth:`label_invariant` may return something; default False."""
        return False

    def relabelled(self, draws: Draws) -> tuple[dict[str, np.ndarray], str] | None:
        """Draws in which exchangeable states have names that agree [1]_, and whose states these are.

        Default None: nothing is exchangeable.

        References
        ----------
        .. [1] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809.
        """
        return None

    def label_invariant(self, draws: Draws, rng: np.random.Generator) -> LabelInvariant | None:
        """Quantities that need no names of components, in the place of those that do.

        Names of the latter, which go to the group ``components`` and are not judged; the former by name; notes for the
        verdict. Default None: all quantities are judged.
        """
        return None

    def numbering_rule(self) -> str | None:
        """The rule by which states are numbered, for the verdict; default None: they are renamed to agree."""
        return None

    def ordered(self, draws: Draws) -> dict[str, np.ndarray]:
        """Draws, also of the prior, in which states are numbered by the model's rule; default: as they are."""
        return dict(draws)

    def posterior_findings(self, draws: Draws) -> Sequence[DataFinding]:
        """What the user should know about draws that were made: warnings of the verdict; default: nothing."""
        return ()

    # ------------------------------------------------------------------------------ predictions

    def outcomes_used(self) -> Literal["no", "row", "sequence"]:
        """Whose outcomes a prediction uses, where they are given: nobody's, those of its row, those of its sequence.

        Default ``no``.
        """
        return "no"

    def classifies(self) -> bool | None:
        """Whether classes are predicted, not numbers; default None: the outcome's cells and the graph tell."""
        return None

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """The kind of prediction that suits the outcome; default ``mean``, states and words have none."""
        return "mean"

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Named | None:
        """Replications of the outcomes at each draw, on arrays; default None: only the graph can."""
        return None

    def completed(self, draws: Draws, rng: np.random.Generator) -> Named | None:
        """Predictions of the cells that rows leave open, given the rest of their row; complete rows are replicated.

        Default: replications of all rows. See :mod:`bayeslab.posterior.open_cells`.
        """
        return self.predictive(draws, rng)

    def exact_predictions(
        self, draws: Draws, kind: Literal["mean", "components"], ci_prob: float
    ) -> dict[str, dict[str, np.ndarray]] | None:
        """Predictions without sampling error: by the name of a part ("" for the outcome) the columns of a table.

        Default None: only draws can tell.
        """
        return None

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray] | None:
        """Probabilities of the outcome's values for every row, by column; default None: replications are counted."""
        return None

    def log_likelihoods(self, draws: Draws) -> Named | None:
        """Log likelihoods of the rows, or other observations, on arrays; default None: only the graph can."""
        return None

    def rows_of_term(self, node: str, position: int) -> np.ndarray | None:
        """The rows that one term of :meth:`log_likelihoods` is of, where a fit without them is one of the same model.

        Default None: a term is of one row, or rows cannot be left out.
        """
        return None

    def event_kinds(self) -> dict[str, np.ndarray]:
        """By outcome, what the likelihood of each value is: see :mod:`bayeslab.families`; default: it is not said."""
        return {}

    def row_weights(self) -> dict[str, np.ndarray]:
        """By outcome, what the log likelihood of each of its values is multiplied by; default: by nothing."""
        return {}

    # ------------------------------------------------------------------------------ views of what is hidden

    def decoded(
        self, draws: Draws, method: str, best: int, sequence: str | None, most: int
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The hidden states time by time, as columns of a table, and attributes of the table.

        See :func:`bayeslab.results.decode.decode`. Default: refused, since there are no states over time.
        """
        raise ModelError(
            f"the family {self.family} has no states over time to decode; hmm has, and graph with hidden paths",
            code="other-family",
        )

    def clusters(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Which component each row comes from, and which rows belong together; default: refused."""
        raise OptionError(f"the family {self.family} has no components, and so no clusters", code="other-family")

    def component_shapes(self, draws: Draws, columns: Sequence[str] | None) -> ComponentShapes:
        """What components look like, for drawing; default: refused."""
        raise OptionError(f"the family {self.family} has no components of rows; mixture has", code="other-family")

    def partition_shapes(self, partition: np.ndarray, columns: Sequence[str] | None) -> ComponentShapes:
        """What the clusters of one partition look like, for drawing; default: refused."""
        raise OptionError(f"the family {self.family} has no components of rows; mixture has", code="other-family")

    def cluster_number_prior(self) -> np.ndarray | None:
        """Probabilities of 0, 1, 2, ... clusters before the data; default None: their number is given."""
        return None

    def with_fitted_priors(self) -> Model:
        """The model with the priors that a fit had written out, so that more rows do not change them.

        Default: refused, since rows can be added to fits of a process only.
        """
        raise OptionError(
            "rows are added to fits by method gibbs of mixtures with components: dirichlet_process; fit again",
            code="not-applicable",
        )

    def joined(
        self, labels: np.ndarray, alphas: np.ndarray, seed: int, options: Any
    ) -> dict[int, Mapping[str, np.ndarray]]:
        """States of chains in which rows that follow the labelled ones have joined their clusters; default: refused."""
        raise OptionError(f"the family {self.family} has no partitions of rows", code="other-family")

    def features(self, draws: Draws, rng: np.random.Generator) -> Named:
        """What each row has of latent features, what they are, and rows put together from them; default: refused."""
        raise OptionError(f"the family {self.family} has no latent features", code="other-family")


def posterior_of(model: Model, data: Data) -> Posterior:
    """The posterior of a model on data bound to it."""
    made: Posterior = registry.load("families", model.model.family).compile(model, data)
    return made
