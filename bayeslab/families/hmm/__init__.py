"""Family ``hmm``: sequences driven by a hidden state that moves as a Markov chain.

The states are summed out exactly by forward-backward (:mod:`bayeslab.exact.forward_backward`), whatever the
engine: its expected counts are what EM needs and, by Fisher's identity, the gradient that NUTS needs.

References
----------
.. [1] Rabiner (1989). A tutorial on hidden Markov models and selected applications in speech recognition.
   Proceedings of the IEEE 77, 257-286.
.. [2] Scott (2002). Bayesian methods for hidden Markov models. JASA 97, 337-351.
.. [3] Stephens (2000). Dealing with label switching in mixture models. JRSS B 62, 795-809.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal

import networkx as nx
import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from bayeslab.dataset import Data
from bayeslab.errors import DataError, ModelError, NothingToFit, OptionError, hint
from bayeslab.exact.answer import EMPlan, GibbsPlan, Plan
from bayeslab.families import _emission_graph as emitted
from bayeslab.families.hmm import classes as hmm_classes
from bayeslab.families.hmm import decoding, exact_inference, expectation_maximisation, linear, pymc_graph
from bayeslab.families.hmm.decoding import posterior_mean
from bayeslab.families.hmm.durations import Durations, as_durations
from bayeslab.families.hmm.hidden import (
    Hidden,
    chain_of,
    draws_of,
    emission_parameters,
    hidden_of,
    labels_of,
    layout_of,
)
from bayeslab.families.hmm.product import as_chains, check_words
from bayeslab.families.hmm.product_parts import additive, check_parameters
from bayeslab.families.hmm.regression import known_regression
from bayeslab.families.hmm.truncation import REFUSED, WORDS, limit_of, shown, truncated
from bayeslab.families.hmm.urns import balls_of
from bayeslab.spec import ColumnName, Family, Identifier, Model

if TYPE_CHECKING:
    import pymc

__all__ = [
    "HMM",
    "Spec",
    "bound",
    "check",
    "em",
    "exact",
    "factors",
    "graph",
    "network",
    "outcomes",
    "posterior_mean",
    "summed_out",
]


# A table of transitions between so many has 200 MB.
_MOST_STATES = 5_000


def _as_states(value: Any) -> Any:
    if value is None or value in ("continuous", "infinite"):
        return value
    if isinstance(value, str):
        raise ValueError(
            f"unknown states '{value}'{hint(value, ('continuous', 'infinite'))}; or a number, or a list of names"
        )
    if isinstance(value, Mapping):
        return _as_counts(value)
    if isinstance(value, bool) or not isinstance(value, int | list):
        raise ValueError(f"states is a number of states or a list of their names, not {value!r}")
    if isinstance(value, int):
        if value < 1:
            raise ValueError(f"{value} states; at least 1 is needed")
        if value > _MOST_STATES:
            raise ValueError(f"{value} states; at most {_MOST_STATES:,}")
        return value
    # Whole numbers stay numbers, as those of a column do.
    numbered = all(isinstance(v, int) and not isinstance(v, bool) for v in value)
    names = value if numbered else [("true" if v else "false") if isinstance(v, bool) else str(v) for v in value]
    if not names or len(set(names)) < len(names):
        raise ValueError("names of states: at least one, each once")
    return names


def _as_chains(value: Any) -> Any:
    return value if value is None else as_chains(value)


def _as_counts(value: Mapping[Any, Any]) -> dict[str, int]:
    """A range to choose from; or so many states for each class."""
    if value and value.keys() <= {"from", "to"}:
        low: Any = value.get("from", 1)
        high: Any = value.get("to")
        if any(isinstance(n, bool) or not isinstance(n, int) for n in (low, high)):
            raise ValueError(f"a range is {{from: 1, to: 6}}, whole numbers, not {dict(value)!r}")
        if low < 1 or high <= low or high > 100:
            raise ValueError(f"a range of states goes from at least 1 to more, at most 100, not {low} to {high}")
        return {"from": low, "to": high}
    for name, n in value.items():
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise ValueError(f"'{name}' has {n!r} states; a number of states, at least 1")
    return {str(name): n for name, n in value.items()}


def _as_topology(value: Any) -> Any:
    words = ("ergodic", "left_right", "banded")
    if isinstance(value, str) and value not in words:
        raise ValueError(f"unknown topology '{value}'{hint(value, words)}")
    return value


def _as_shares(value: Any) -> Any:
    words = ("free", "uniform")
    if isinstance(value, str) and value not in words:
        raise ValueError(f"unknown class_probability '{value}'{hint(value, words)}; or a list of probabilities")
    return value


def _as_initial(value: Any) -> Any:
    words = ("free", "stationary", "uniform")
    if isinstance(value, str) and value not in words:
        raise ValueError(f"unknown initial '{value}'{hint(value, words)}; or a list of probabilities")
    return value


class HMM(Family):
    """A hidden Markov model."""

    family: Literal["hmm"] = "hmm"
    columns: list[ColumnName] = Field(min_length=1, description="The observed columns.")
    states: Annotated[
        int | list[int] | list[str] | dict[str, int] | Literal["continuous", "infinite"] | None,
        BeforeValidator(_as_states),
    ] = Field(
        default=None,
        description="Number of hidden states, or a list of their names (with classes: of each class; or a number"
        " for each); or a range {from: 1, to: 6} from which `choose` picks; or continuous: a level that wanders"
        " (Kalman); or infinite: as many as the data ask for.",
    )
    most: int = Field(default=30, ge=1, le=100, description="Of infinite states: at most so many (the weak limit).")
    chains: Annotated[dict[Identifier, int | list[str]] | None, BeforeValidator(_as_chains)] = Field(
        default=None,
        description="Several hidden chains, not `states`: names with numbers of states, or with lists of their names.",
    )
    coupling: Literal["factorial", "coupled", "switching"] = Field(
        default="factorial",
        description="Of chains: each goes its own way; or each depends on the last states of all; or the first says"
        " which of the others is seen.",
    )
    effects: Literal["additive", "joint"] | None = Field(
        default=None,
        description="Of factorial chains: means of gaussian columns are sums of an effect of each chain (their"
        " default); or every combination of states has parameters of its own (that of others).",
    )
    emits: dict[Identifier, list[ColumnName]] | None = Field(
        default=None, description="Of coupled chains: the columns that each emits."
    )
    choose: Literal["bic", "aic", "held_out", "loo", "forward"] = Field(
        default="bic", description="How one of several numbers of states is chosen."
    )
    classes: ColumnName | None = Field(
        default=None,
        description="The column of what kind each sequence is; empty cells where it is not known. One chain a class.",
    )
    class_probability: Annotated[str | list[float | int] | None, BeforeValidator(_as_shares)] = Field(
        default=None, description="How frequent classes are: free (learned; the default), uniform, or probabilities."
    )
    training: Literal["generative", "discriminative"] = Field(
        default="generative",
        description="The likelihood is that of sequences and classes, or of classes given sequences.",
    )
    dimension: int | None = Field(
        default=None,
        ge=1,
        le=50,
        description="Of continuous states that drive all columns; left out: a level for each column.",
    )
    emission: str | dict[str, str] = Field(
        default="gaussian",
        description="What states emit: gaussian, gaussian_mixture, student_t, categorical, bernoulli, binomial,"
        " poisson, exponential; or one of these for each column; scores: columns with P(state) by a classifier; urn:"
        " balls that are not put back; observed: the column holds the states themselves.",
    )
    covariance: Literal["diagonal", "spherical", "full", "tied"] = Field(
        default="diagonal",
        description="Gaussian columns: each its own spread in every state; one for all columns; a matrix for every"
        " state; or one matrix for all states.",
    )
    mixtures: int | None = Field(
        default=None, ge=2, le=100, description="Of gaussian_mixture columns: how many normal parts a state has."
    )
    trials: int | None = Field(default=None, ge=1, description="Number of trials of binomial columns.")
    dof: float | int | None = Field(
        default=None, gt=0, description="Degrees of freedom of student_t columns; left out: learned."
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        description="Parameters that are known (numbers, one for each state) or have a prior of their own"
        " (distributions): `mean`, `sd`, `probability`, ...; with a word for each column `column_mean`.",
    )
    inputs: list[ColumnName] = Field(
        default_factory=list, description="Columns that the emission of one column depends on: a regression a state."
    )
    window: int = Field(
        default=0, ge=0, le=50, description="So many values before a row are inputs too: an autoregression."
    )
    sequence: ColumnName | None = Field(default=None, description="The column that tells sequences apart.")
    time: ColumnName | None = Field(
        default=None, description="The column of times (whole numbers, rising); gaps become missing rows."
    )
    parent: ColumnName | None = Field(
        default=None, description="Rows are trees: the column with the label of each one's parent, empty for roots."
    )
    topology: Annotated[str | list[list[int]], BeforeValidator(_as_topology)] = Field(
        default="ergodic",
        description="ergodic, left_right, banded, or rows of 0 and 1: which transitions there can be.",
    )
    reach: int = Field(default=1, ge=1, description="How far a step of left_right or banded goes at most.")
    initial: Annotated[str | list[float | int] | None, BeforeValidator(_as_initial)] = Field(
        default=None,
        description="First state: free (learned; the default), stationary, uniform, or probabilities; a left_right"
        " chain begins in its first state.",
    )
    transition: list[list[float | int]] | None = Field(
        default=None, description="Transition probabilities, if they are known."
    )
    transitions_on: list[ColumnName] = Field(
        default_factory=list, description="Columns that transitions depend on: a multinomial logit from each state."
    )
    order: Literal[1, 2] = Field(default=1, description="The next state depends on the last one, or the last two.")
    durations: Annotated[int | Durations | None, BeforeValidator(as_durations)] = Field(
        default=None,
        description="How long states last, at most: a table of durations for each state; or `{longest, law}`.",
    )
    pseudocount: float | int = Field(
        default=1, gt=0, description="Of the Dirichlet priors of initial and transition rows."
    )
    stickiness: float | int | None = Field(
        default=None,
        ge=0,
        description="Added to the pseudocount of staying; left out: nothing, but learned where states are infinite.",
    )

    @model_validator(mode="after")
    def _columns(self) -> HMM:
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("each column once")
        if self.dimension is not None and self.states != "continuous":
            raise ValueError("dimension goes with states: continuous")
        if self.states == "continuous":
            own = {"family", "columns", "states", "dimension", "sequence", "time"}
            odd = sorted(self.model_fields_set - own)
            if odd:
                raise ValueError(f"{odd[0]} goes with discrete states; continuous ones are normal")
        if self.states == "infinite":
            odd = sorted(key for key in self.model_fields_set - WORDS if getattr(self, key) != _default(key))
            if odd or self.emission == "observed":
                raise ValueError(f"{odd[0] if odd else 'emission: observed'} does not go with states: infinite")
        elif "most" in self.model_fields_set:
            raise ValueError("most goes with states: infinite")
        if self.emission == "observed" and (len(self.columns) > 1 or emission_parameters(self)):
            raise ValueError("emission: observed takes one column, which holds the states, and no parameters of it")
        for other in (self.sequence, self.time, self.classes, self.parent):
            if other is not None and other in self.columns:
                raise ValueError(f"'{other}' tells where rows belong and cannot be emitted too")
        for key in ("sequence", "time", "window", "order", "durations", "transitions_on", "chains", "classes"):
            if self.parent is not None and key in self.model_fields_set:
                raise ValueError(f"{key} goes along sequences, and with `parent` rows are trees")
        if self.parent is not None and self.emission == "observed":
            raise ValueError("the states of trees are hidden: no emission: observed")
        return self

    @model_validator(mode="after")
    def _scored(self) -> HMM:
        if isinstance(self.emission, dict) and "scores" in self.emission.values():
            raise ValueError("emission: scores is for all columns: one for each state")
        if self.emission != "scores":
            return self
        if not isinstance(self.states, int | list) or self.classes or self.inputs or self.window:
            raise ValueError("emission: scores goes with one chain of states, without inputs or classes")
        n = self.states if isinstance(self.states, int) else len(self.states)
        if len(self.columns) != n:
            raise ValueError(f"scores: {len(self.columns)} columns for {n} states; one for each, in their order")
        if self.covariance != "diagonal":
            raise ValueError("scores have no covariance")
        return self

    @model_validator(mode="after")
    def _mixed(self) -> HMM:
        words = list(self.emission.values()) if isinstance(self.emission, dict) else [self.emission]
        if "gaussian_mixture" not in words:
            if self.mixtures is not None:
                raise ValueError("mixtures is the number of parts of emission: gaussian_mixture")
            return self
        if self.mixtures is None:
            raise ValueError("emission: gaussian_mixture needs `mixtures`, the number of parts a state has")
        if self.chains is not None or self.inputs or self.window:
            raise ValueError("gaussian_mixture goes with one chain of states, without inputs")
        if self.covariance != "diagonal":
            raise ValueError("the parts of a gaussian_mixture have independent columns: covariance: diagonal")
        return self

    @model_validator(mode="after")
    def _without_replacement(self) -> HMM:
        words = self.emission.values() if isinstance(self.emission, dict) else [self.emission]
        if "urn" not in words:
            return self
        if self.emission != "urn" or len(self.columns) > 1:
            raise ValueError("emission: urn takes one column, the colours of the balls drawn")
        if not isinstance(self.states, int | list):
            raise ValueError("emission: urn takes a number of urns, or their names, in states")
        for key in ("inputs", "window", "chains", "classes", "transitions_on", "order", "durations", "parent"):
            if key in self.model_fields_set:
                raise ValueError(f"{key} does not go with emission: urn, whose states are urns of a plain chain")
        return self

    @model_validator(mode="after")
    def _several(self) -> HMM:
        if (self.states is None) == (self.chains is None):
            raise ValueError(
                "give states, or several chains, not both" if self.chains else "states is missing: how many there are"
            )
        check_words(self)
        return self

    @model_validator(mode="after")
    def _effective(self) -> HMM:
        """Refuse keys that would say nothing."""
        words = set(self.emission.values()) if isinstance(self.emission, dict) else {self.emission}
        regressed = bool(self.inputs or self.window)
        idle = {
            "reach": (self.topology not in ("left_right", "banded"), "goes with topology: left_right or banded"),
            "trials": ("binomial" not in words, "is the number of trials of binomial columns, and there is none"),
            "dof": ("student_t" not in words, "is of student_t columns, and there is none"),
            "covariance": ("gaussian" not in words or regressed, "is of gaussian columns without inputs or a window"),
            "stickiness": (
                self.transition is not None or bool(self.transitions_on),
                "is of the Dirichlet prior of transitions, which are given here or depend on inputs",
            ),
            "inputs": (self.emission == "observed", "goes with hidden states, and emission: observed shows them"),
            "window": (self.emission == "observed", "goes with hidden states, and emission: observed shows them"),
        }
        for key, (silent, why) in idle.items():
            if silent and getattr(self, key) != _default(key):
                raise ValueError(f"{key} {why}; leave it out")
        for name, value in self.parameters.items():
            texts = value if isinstance(value, list) else [value]
            ordered = any(isinstance(text, str) and text.strip().startswith(_ORDERS) for text in texts)
            if ordered and (self.chains or self.classes or self.states == "infinite"):
                raise ValueError(f"{name}: an order goes with one chain of a number of states, without classes")
        return self

    @property
    def ranged(self) -> tuple[int, ...]:
        """The least and the largest number of states, if it is to be chosen."""
        own = self.states if isinstance(self.states, dict) else {}
        return (own["from"], own["to"]) if own.keys() == {"from", "to"} else ()

    @model_validator(mode="after")
    def _choosing(self) -> HMM:
        if not self.ranged:
            if "choose" in self.model_fields_set and isinstance(self.states, int | list | dict):
                raise ValueError("choose goes with a range of states, such as {from: 1, to: 6}")
            return self
        if self.emission == "observed":
            raise ValueError("the states of a column of states are known; list their names")
        each = {"transition": self.transition, "topology": self.topology, "initial": self.initial}
        listed = [key for key, value in each.items() if isinstance(value, list)]
        listed += [key for key, value in self.parameters.items() if isinstance(value, list)]
        if listed:
            raise ValueError(f"{listed[0]} is given state by state, which goes with one number of states")
        return self

    @model_validator(mode="after")
    def _classed(self) -> HMM:
        if self.classes is None:
            for key in ("class_probability", "training"):
                if key in self.model_fields_set:
                    raise ValueError(f"{key} goes with `classes`, the column of what kind each sequence is")
            if isinstance(self.states, dict) and not self.ranged:
                raise ValueError("a number of states for each class goes with `classes`, the column of classes")
            return self
        if self.sequence is None:
            raise ValueError("classes are of sequences: name the column that tells them apart in `sequence`")
        if self.classes == self.sequence:
            raise ValueError("`classes` and `sequence` are two columns")
        if self.emission == "observed" or self.initial == "stationary":
            raise ValueError("each class has a plain chain: no emission: observed, no initial: stationary")
        for key in sorted(self.model_fields_set - _WITH_CLASSES):
            if getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=True):
                raise ValueError(f"each class has a plain chain: {key} does not go with `classes`")
        return self


Spec = HMM

# How priors that put states in order begin.
_ORDERS = tuple(f"{word}(" for word in emitted.ORDERS)

# What goes with classes.
_WITH_CLASSES = {
    "family", "columns", "states", "classes", "class_probability", "training", "emission", "covariance", "mixtures",
    "trials", "dof", "parameters", "inputs", "window", "sequence", "time", "topology", "reach", "initial", "transition",
    "pseudocount", "stickiness", "choose",
}  # fmt: skip


def _default(key: str) -> Any:
    return HMM.model_fields[key].get_default(call_default_factory=True)


# Labels are made to agree on so many times at the beginning, and so many of these.
_PREFIX, _TELLING = 1_000, 60


def _spec(model: Model) -> HMM:
    assert isinstance(model.model, HMM)
    return model.model


def _continuous(model: Model) -> bool:
    return _spec(model).states == "continuous"


def _infinite(model: Model) -> bool:
    return _spec(model).states == "infinite"


# --------------------------------------------------------------------------------- the contract


def check(model: Model, columns: set[str] | None) -> None:
    """The words can be read; the data have the columns."""
    if _infinite(model):
        limit_of(_spec(model))
    spec = truncated(_spec(model))
    if spec.ranged:
        spec = spec.model_copy(update={"states": spec.ranged[1]})
    if not _continuous(model) and spec.classes is None:
        chain_of(spec)
    if spec.chains is not None:
        check_parameters(spec, chain_of(spec), layout_of(spec))
    elif spec.emission == "urn":
        balls_of(spec, chain_of(spec).n_states)
    elif (spec.inputs or spec.window) and spec.classes is None:
        known_regression(spec, chain_of(spec).n_states, emission_parameters(spec))
    elif not _continuous(model) and spec.emission != "observed" and spec.classes is None:
        emitted.given_of(emission_parameters(spec), layout_of(spec), chain_of(spec).n_states)
    for key in ("inputs", "transitions_on"):
        for name in getattr(spec, key):
            if columns and name not in columns:
                raise ModelError(f"the data have no column '{name}'{hint(name, columns)}", path=("model", key))
    if not columns:
        return
    for key in ("sequence", "time", "parent"):
        name = getattr(spec, key)
        if name is not None and name not in columns and name != model.data.rows:
            raise ModelError(f"the data have no column '{name}'{hint(name, columns)}", path=("model", key))
    if not any(column in columns for column in spec.columns):
        raise ModelError(
            f"the data have no column '{spec.columns[0]}'{hint(spec.columns[0], columns)}", path=("model", "columns", 0)
        )


def bound(model: Model, data: Data) -> Data:
    """The data, once the model has been put on them: what a fit would refuse is refused here."""
    spec = _spec(model)
    if data.origin is not None or not any(data.has(column) for column in spec.columns):
        return data
    if "bound" not in data.memo:
        data.memo["bound"] = True
        if _continuous(model):
            linear.linear_of(model, data)
            return data
        if _infinite(model):
            limit_of(spec)
        for hidden in _candidates(model, data):
            if hidden.learned:
                # An infinite number of states is cut off far beyond those that are needed.
                _refuse_silent(hidden) if _infinite(model) else _refuse_too_little(hidden, data)
            hidden.check_possible(hidden.guess(None) if hidden.learned else {})
    return data


def _candidates(model: Model, data: Data) -> tuple[Hidden, ...]:
    """The model on its data; of a number of states that is to be chosen the smallest and the largest."""
    spec = _spec(model)
    if not spec.ranged:
        return (hidden_of(model, data),)
    from bayeslab.families.hmm import choice

    return tuple(choice.candidate(model, data, n) for n in spec.ranged)


def factors(model: Model) -> set[str]:
    """Declared dimensions, and columns of categories."""
    spec = _spec(model)
    if _continuous(model) or spec.emission == "observed":
        return set(model.dims)
    classes = {spec.classes} if spec.classes is not None else set()
    return set(model.dims) | classes | {own[0] for _, word, own in layout_of(spec) if word in ("categorical", "urn")}


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The observed columns."""
    return tuple(_spec(model).columns)


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing that would have to be recovered: `decode` finds the states."""
    return ()


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing is computed from the states in a draw."""
    return ()


def priors(model: Model, data: Data) -> dict[str, str]:
    """The prior of each unknown."""
    if _continuous(model):
        return linear.priors(linear.linear_of(model, data))
    if _infinite(model):
        from bayeslab.families.hmm import infinite

        return infinite.priors(model, data)
    hidden = hidden_of(model, data)
    out = {name: hidden.chain.prior_text(name) for name in hidden.chain.learned}
    return out | {name: part.default_prior(name) for part in hidden.parts for name in part.learned}


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """The model as a PyMC model: with the states summed out; to simulate, with a path drawn."""
    if _continuous(model):
        return linear.graph(model, linear.linear_of(model, data), data, purpose)
    if _infinite(model):
        raise ModelError(REFUSED, path=("model", "states"))
    hidden = hidden_of(model, data)
    if purpose == "fit":
        if not hidden.learned:
            raise NothingToFit("every parameter is given: there is nothing to fit; `bayeslab decode` finds the states")
        _refuse_too_little(hidden, data)
        return pymc_graph.with_evidence(hidden)
    return pymc_graph.written_out(model, hidden, data)


def em(model: Model, data: Data) -> EMPlan | str:
    """Baum-Welch; for continuous states Shumway and Stoffer's algorithm."""
    if _continuous(model):
        return linear.plan(linear.linear_of(model, data))
    if _infinite(model):
        return REFUSED
    hidden = hidden_of(model, data)
    _refuse_too_little(hidden, data)
    return expectation_maximisation.plan(hidden)


def gibbs(model: Model, data: Data) -> GibbsPlan | str:
    """Paths and parameters in turns."""
    from bayeslab.families.hmm import gibbs_sampling

    if _continuous(model):
        return "continuous states are integrated out exactly; use nuts or em"
    if _infinite(model):
        from bayeslab.families.hmm import infinite

        return infinite.infinite(model, data)
    hidden = hidden_of(model, data)
    _refuse_too_little(hidden, data)
    return gibbs_sampling.by_gibbs(hidden)


def _refuse_too_little(hidden: Hidden, data: Data) -> None:
    """To learn what several states emit there are as many rows, and they differ; data to predict may be anything."""
    if data.origin is not None:
        return
    _refuse_silent(hidden)
    if hasattr(hidden.chain, "named") or not any(part.learned for part in hidden.parts):
        return
    seen = hidden.rows[(~np.isnan(hidden.rows)).any(axis=1)]
    if not len(hidden.rows) or hidden.n_states == 1:
        return
    if len(seen) < hidden.n_states:
        raise DataError(f"{len(seen)} rows cannot support {hidden.n_states} states; use at most {max(len(seen), 1)}")
    if not np.any(np.nanmax(seen, axis=0, initial=-np.inf) > np.nanmin(seen, axis=0, initial=np.inf)):
        column = hidden.parts[0].columns[0]
        raise DataError(f"column '{column}' is constant: it cannot tell states apart; take one state")


def _refuse_silent(hidden: Hidden) -> None:
    """A sequence without a single cell is a mistake more often than not."""
    own = hidden.sequences
    seen = (~np.isnan(hidden.rows)).any(axis=1)
    silent = np.flatnonzero(np.bincount(own.sequence, seen, minlength=own.n_sequences) == 0)
    if len(silent):
        which = f"sequence '{own.names[silent[0]]}'" if own.n_sequences > 1 else "the sequence"
        raise DataError(f"{which} has no observed cell and says nothing; leave it out")


def preferred(model: Model, data: Data) -> tuple[str, str] | None:
    """Gibbs steps where the number of states is sampled; EM where only the likelihood settles what states mean."""
    if _infinite(model):
        return "gibbs", "Gibbs steps: the number of states is sampled"
    if _spec(model).dimension is not None:
        return "em", "EM: continuous states of a given dimension can be turned without changing the model"
    return None


def maximum_likelihood(model: Model, data: Data) -> tuple[float, int]:
    """The highest log likelihood of several searches, NaN where it has no bound, and the number of free parameters."""
    from bayeslab.exact.expectation_maximisation import restarted

    if _infinite(model):
        raise OptionError("an infinite number of states has no likelihood to maximise; give numbers of states")
    own = resolved(model, data)
    plan = em(model, data)
    if isinstance(plan, str):
        return float("nan"), own.n_free
    search = restarted(plan.problem(False), plan.start, restarts=8, rng=np.random.default_rng(0), tolerance=1e-6)
    found = search.best.parameters
    shrunk = isinstance(own, Hidden) and expectation_maximisation.collapsed(own, found)
    return (float("nan") if shrunk else search.best.log_likelihood), own.n_free


def exact(model: Model, data: Data) -> Plan | str:
    """Counts, where the states are observed."""
    if _continuous(model):
        return "the standard deviations of a linear dynamical system have no closed form"
    if _infinite(model):
        return REFUSED
    return exact_inference.plan(hidden_of(model, data))


def remarks(model: Model, data: Data) -> list[tuple[str, str, float | None, str, str]]:
    """Columns without data."""
    if _continuous(model):
        return []
    out: list[tuple[str, str, float | None, str, str]] = []
    silent = [c for c in _spec(model).columns if not data.has(c)]
    if silent:
        out.append(("missing", silent[0], None, f"the data have no column '{silent[0]}'", "it says nothing here"))
    return out


def relabelled(model: Model, data: Data, draws: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str] | None:
    """Draws whose states have names that agree, numbered by the family's rule [3]_."""
    from bayeslab.exact.clusters import relabel_by_probabilities

    if _continuous(model) or _infinite(model):
        return None
    hidden = hidden_of(model, data)
    chain: Any = hidden.chain
    if hasattr(chain, "relabelled"):
        return chain.relabelled(hidden, draws)
    if not all(name in draws for name in hidden.learned):
        return None
    own = {name: draws[name] for name in hidden.learned}
    if not hidden.blocks:
        settled = hidden.settled(own, 1)
        return (settled | hidden.internal(settled, draws), "the mixture inside each state") if hidden.layered else None
    if _spec(model).classes is not None:
        moves = hmm_classes.relabelling(hidden, lambda some: (values for _, values in draws_of(some, own)))
        return _ruled(hidden, own, moves, draws), "each class"
    first = hidden.prefix(_PREFIX)
    telling = np.unique(np.linspace(0, first.sequences.n_times - 1, _TELLING).astype(int))
    chances = [_posterior(first, values)[telling] for _, values in draws_of(first, own)]
    return _ruled(hidden, own, relabel_by_probabilities(np.stack(chances)), draws), "the chain"


def _ruled(
    hidden: Hidden, own: Mapping[str, np.ndarray], moves: np.ndarray, draws: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Draws whose names agree after these moves, numbered by the rule."""
    moved = hidden.permuted(own, moves, lead=1)
    middle = {name: value.mean(axis=0) for name, value in moved.items()}
    rule = np.broadcast_to(hidden.rule(middle), moves.shape)
    out = hidden.settled(hidden.permuted(moved, rule, lead=1), 1)
    return out | hidden.internal(out, draws)


def _posterior(hidden: Hidden, values: Mapping[str, np.ndarray]) -> np.ndarray:
    """Smoothed probabilities of the states."""
    return hidden.law(values).expected().posterior


def _number(spec: HMM) -> str:
    return f"{spec.ranged[0]} to {spec.ranged[1]} states" if spec.ranged else f"{len(labels_of(spec))} states"


def chosen(model: Model, data: Data) -> tuple[str, dict[str, Any], dict[str, np.ndarray]] | None:
    """How many states were chosen: in a line, and as a table with its labels."""
    from bayeslab.families.hmm import choice

    found = choice.chosen(model, data)
    if found is None:
        return None
    along = ("n_states",)
    table = {"score": (along, found.scores), "standard_error": (along, found.standard_errors)}
    return found.said, table, {"n_states": np.array(found.numbers)}


def network(model: Model, data: Data) -> nx.DiGraph:
    """Two steps of the chain and what they emit."""
    spec = _spec(model)
    rows = model.data.rows
    n = len(data.labels.get(rows, ()))
    out = nx.DiGraph(dims={rows: n} if n else {})
    if _continuous(model):
        out.add_node("state", kind="random", text="linear, normal", dims=(rows,))
        for column in spec.columns:
            out.add_node(column, kind="observed" if data.has(column) else "random", text="Normal", dims=(rows,))
            out.add_edge("state", column)
        return out
    if spec.chains is not None:
        return _several_drawn(spec, data, rows, out)
    shown = f"one a {spec.classes}" if spec.classes is not None else _number(spec)
    out.add_node("initial", kind="random", text="Dirichlet", dims=("state",))
    out.add_node("transition", kind="random", text="Dirichlet", dims=("state", "next_state"))
    # Called as in simulations, where it is computed from the rest.
    out.add_node("path", kind="deterministic", text=f"Markov chain, {shown}", dims=(rows,))
    out.add_edges_from([("initial", "path"), ("transition", "path")])
    if spec.durations is not None:
        out.add_node("duration", kind="random", text="of a state", dims=("state",))
        out.add_edge("duration", "path")
    for name, word, own in layout_of(spec):
        for column in own:
            out.add_node(column, kind="observed" if data.has(column) else "random", text=word, dims=(rows,))
            out.add_edge("path", column)
        label = f"{name}_parameters" if name else "parameters"
        out.add_node(label, kind="random", text=word, dims=("state",))
        out.add_edges_from((label, column) for column in own)
    return out


def _several_drawn(spec: HMM, data: Data, rows: str, out: nx.DiGraph) -> nx.DiGraph:
    """Chains, and what they emit."""
    chain = chain_of(spec)
    # Called as in simulations: the number of the combination of states.
    out.add_node("path", kind="deterministic", text=f"{spec.coupling} chains, {chain.n_states} states", dims=(rows,))
    for name in chain.every:
        out.add_node(name, kind="random", text="Dirichlet", dims=chain.dims(name))
        out.add_edge(name, "path")
    words = {column: word for _, word, own in layout_of(spec) for column in own}
    made = "additive effects" if additive(spec) else "of all chains" if spec.coupling == "factorial" else "of a chain"
    out.add_node("parameters", kind="random", text=made, dims=())
    for column, word in words.items():
        out.add_node(column, kind="observed" if data.has(column) else "random", text=word, dims=(rows,))
        out.add_edges_from([("path", column), ("parameters", column)])
    return out


# --------------------------------------------------------------------------------- predictions


def log_likelihoods(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Log likelihood of each sequence; of a single one, of each row given the rows before it."""
    if _continuous(model):
        return linear.log_likelihoods(model, linear.linear_of(model, data), draws)
    hidden = hidden_of(model, data)
    several = hidden.sequences.n_sequences > 1
    if _spec(model).training == "discriminative":
        each = [hmm_classes.conditional(hidden, values) for _, values in draws_of(hidden, draws)]
        return {"sequence": (("sequence_number",), np.stack(each))}
    out = []
    for _, values in draws_of(hidden, draws):
        found = hidden.law(values).terms(several)
        out.append(found if several else found[hidden.sequences.at])
    dims = ("sequence_number",) if several else (model.data.rows,)
    return {"sequence" if several else "row": (dims, np.stack(out))}


def rows_of(model: Model, data: Data, node: str, position: int) -> np.ndarray | None:
    """The rows of a sequence; those of a single one cannot be taken out."""
    if node != "sequence":
        return None
    hidden = resolved(model, data)
    of, known = hidden.sequences.sequence[hidden.sequences.at], np.arange(hidden.sequences.n_sequences)
    if _spec(model).training == "discriminative":
        known = np.flatnonzero(hidden.chain.known >= 0)
    return np.flatnonzero(of == known[position])


def predictive(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Replications of the rows, each in a state drawn given all that was observed; missing cells are predictions."""
    if _continuous(model):
        return linear.predictive(model, linear.linear_of(model, data), draws, rng)
    hidden = hidden_of(model, data)
    made: dict[str, list[np.ndarray]] = {c: [] for c in _spec(model).columns}
    at = hidden.sequences.at
    for _, values in draws_of(hidden, draws):
        states = hidden.law(values).sampled(rng)[at]
        for column, cells in _replicated(rng, hidden, values, states).items():
            made[column].append(cells)
    real = ("gaussian", "gaussian_mixture", "scores", "student_t", "exponential")
    whole = {c for _, word, own in layout_of(_spec(model)) if word not in real for c in own}
    return {
        c: ((model.data.rows,), np.stack(values).astype(np.int64) if c in whole else np.stack(values))
        for c, values in made.items()
    }


def _replicated(
    rng: np.random.Generator, hidden: Hidden, values: Mapping[str, np.ndarray], states: np.ndarray
) -> dict[str, np.ndarray]:
    """The columns (n_rows,) given the rows' states."""
    out: dict[str, np.ndarray] = {}
    parts: tuple[Any, ...] = hidden.parts
    for part in parts:
        rows = _sampled(rng, hidden, part, values, states)
        for j, column in enumerate(part.columns):
            # Behind a switch a column has a part of each chain.
            out[column] = np.where(part.emits(states), rows[:, j], out[column]) if column in out else rows[:, j]
    return out


def _sampled(
    rng: np.random.Generator, hidden: Hidden, part: Any, values: Mapping[str, np.ndarray], states: np.ndarray
) -> np.ndarray:
    """Rows of a part, (n_rows, n_columns), given the rows' states."""
    if hasattr(part, "sample"):
        return np.asarray(part.sample(rng, values, states, hidden.rows[hidden.sequences.at][:, 1:]))
    return np.asarray(part.emission.sample(rng, part.to_exact(values), states))


def resolved(model: Model, data: Data) -> Any:
    """The model on its data: sequences, rows, and for discrete states chain and parts."""
    return linear.linear_of(model, data) if _continuous(model) else hidden_of(model, data)


def position(own: Any, column: str) -> int:
    """Where a column is in the rows of what :func:`resolved` gives."""
    if isinstance(own, Hidden):
        return next(part.at[-1] if hasattr(part, "inputs") else part.at[part.columns.index(column)]
                    for part in own.parts if column in part.columns)  # fmt: skip
    return int(own.columns.index(column))


def decoded(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], method: str, best: int, sequence: str | None
) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The states time by time: see :func:`bayeslab.results.decode.decode`."""
    spec = _spec(model)
    own = resolved(model, data)
    times = {spec.time: own.sequences.times} if spec.time else {model.data.rows: data.labels[model.data.rows]}
    times = times if spec.parent is None else {model.data.rows: own.sequences.times}
    if _continuous(model):
        return linear.decoded(own, draws, method, times, sequence, spec.sequence)
    own.check_possible(posterior_mean(own, draws))
    out, about = decoding.decoded(own, draws, method, best, sequence=sequence, times=times, called=spec.sequence)
    if _infinite(model):
        out = shown(out)
    return (out if spec.classes is None else hmm_classes.with_class(own, out, spec.classes)), about


def probabilities(model: Model, seen: Data, new: Data, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """P(state | all rows) of every row, or P(class) of every sequence, averaged over the posterior draws."""
    if _continuous(model):
        raise OptionError("continuous states have no probabilities; use kind='mean'")
    hidden, spec = hidden_of(model, new), _spec(model)
    if spec.classes is not None and spec.sequence is not None:
        some = decoding.DRAWS
        found = hmm_classes.masses(hidden, lambda free: (values for _, values in draws_of(free, draws, some)))
        own: Any = hidden.chain
        out = {f"P({spec.classes}={c})": found[:, k] for k, c in enumerate(own.classes)}
        return {spec.sequence: hidden.sequences.names} | out
    mean = decoding.averaged(hidden, draws, "smooth")[hidden.sequences.at]
    labels = new.labels.get(model.data.rows, np.arange(len(mean)))
    return {model.data.rows: labels} | decoding.chances_of(hidden, mean)
