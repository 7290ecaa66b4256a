"""Keys of the ``hmm`` family in a model file."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import BeforeValidator, Field, model_validator

from bayeslab.errors import Flaw, hint
from bayeslab.families.hmm.given_parameters import columns_of
from bayeslab.families.hmm.words import (
    INFINITE,
    MOST_OF_ONE_CHAIN,
    MOST_STATES,
    SEVERAL,
    Durations,
    as_chains,
    as_durations,
)
from bayeslab.language.column_distributions import is_distribution
from bayeslab.language.spec import ColumnName, Family, Identifier, columns_once
from bayeslab.latents.chains.chain import SECOND_ORDER
from bayeslab.latents.chains.driven import LOG_ODDS
from bayeslab.latents.chains.durations import OF_DURATIONS
from bayeslab.posterior.observed.prior import ORDERS

__all__ = ["HMM", "chain_parameters", "emission_parameters", "layout_of"]


def _as_states(value: Any) -> Any:
    if value is None or value in ("continuous", "infinite"):
        return value
    if isinstance(value, str):
        raise Flaw(
            f"unknown states '{value}'{hint(value, ('continuous', 'infinite'))}; or a number, or a list of names",
            code="unknown-word",
        )
    if isinstance(value, Mapping):
        return _as_counts(value)
    if isinstance(value, bool) or not isinstance(value, int | list):
        raise Flaw(f"states is a number of states or a list of their names, not {value!r}", code="wrong-type")
    if isinstance(value, int):
        if value < 1:
            raise Flaw(f"{value} states; at least 1 is needed", code="out-of-range")
        if value > MOST_OF_ONE_CHAIN:
            raise Flaw(f"{value} states; at most {MOST_OF_ONE_CHAIN:,}", code="out-of-range")
        return value
    odd = [v for v in value if not isinstance(v, str | int | float)]
    if odd:
        raise Flaw(f"a state is called by a text or a number, not {odd[0]!r:.60}", code="wrong-type")
    # Integers stay numbers, as they do in a data column.
    numbered = all(isinstance(v, int) and not isinstance(v, bool) for v in value)
    names = value if numbered else [("true" if v else "false") if isinstance(v, bool) else str(v) for v in value]
    if not names or len(set(names)) < len(names):
        raise Flaw("names of states: at least one, each once", code="duplicate")
    return names


def _as_counts(value: Mapping[Any, Any]) -> dict[str, int]:
    """Read a range of numbers of states ``{from, to}``, or a number of states for each class."""
    if value and value.keys() <= {"from", "to"}:
        low: Any = value.get("from", 1)
        high: Any = value.get("to")
        if any(isinstance(n, bool) or not isinstance(n, int) for n in (low, high)):
            raise Flaw(f"a range is {{from: 1, to: 6}}, whole numbers, not {dict(value)!r}", code="wrong-type")
        if low < 1 or high <= low or high > 100:
            raise Flaw(
                f"a range of states goes from at least 1 to more, at most 100, not {low} to {high}", code="out-of-range"
            )
        return {"from": low, "to": high}
    for name, n in value.items():
        if isinstance(n, bool) or not isinstance(n, int) or n < 1:
            raise Flaw(f"'{name}' has {n!r} states; a number of states, at least 1", code="out-of-range")
    return {str(name): n for name, n in value.items()}


def _one_of(key: str, *words: str, more: str = "") -> BeforeValidator:
    """Refuse other words; what is no word is left to the type."""

    def read(value: Any) -> Any:
        if isinstance(value, str) and value not in words:
            raise Flaw(f"unknown {key} '{value}'{hint(value, words)}{more}", code="unknown-word")
        return value

    return BeforeValidator(read)


_TOPOLOGY = _one_of("topology", "ergodic", "left_right", "banded")
_INITIAL = _one_of("initial", "free", "stationary", "uniform", more="; or a list of probabilities")
_SHARES = _one_of("class_probability", "free", "uniform", more="; or a list of probabilities")


class HMM(Family):
    """A hidden Markov model."""

    family: Literal["hmm"] = "hmm"
    columns: list[ColumnName] = Field(min_length=1, description="Observed columns.")
    states: Annotated[
        int | list[int] | list[str] | dict[str, int] | Literal["continuous", "infinite"] | None,
        BeforeValidator(_as_states),
    ] = Field(
        default=None,
        description="Hidden states: a number; a list of names; a range {from: 1, to: 6} from which `choose`"
        " selects; a number for each class (with `classes`; a single number then holds for every class);"
        " `continuous`, a level that follows a random walk (Kalman filter); or `infinite`, as many as"
        " the data support.",
    )
    most: int = Field(
        default=30,
        ge=1,
        le=100,
        description="Largest number of states when `states: infinite` (the weak-limit truncation).",
    )
    chains: Annotated[dict[Identifier, int | list[str]] | None, BeforeValidator(as_chains)] = Field(
        default=None,
        description="Several hidden chains, instead of `states`: each name with a number of states or a list of"
        " their names.",
    )
    coupling: Literal["factorial", "coupled", "switching"] = Field(
        default="factorial",
        description="How several chains are coupled. factorial: each chain evolves on its own; coupled: each chain"
        " depends on the previous states of all chains; switching: the first chain selects which of the"
        " others is observed.",
    )
    effects: Literal["additive", "joint"] | None = Field(
        default=None,
        description="For factorial chains. additive: the mean of a gaussian column is the sum of one effect for"
        " each chain (default for gaussian columns); joint: every combination of states has its own"
        " parameters (default for other columns).",
    )
    emits: dict[Identifier, list[ColumnName]] | None = Field(
        default=None, description="For coupled chains: the columns that each chain emits."
    )
    choose: Literal["bic", "aic", "held_out", "loo", "forward"] = Field(
        default="bic", description="Criterion that selects the number of states from a range."
    )
    classes: ColumnName | None = Field(
        default=None,
        description="Column with the class of each sequence, empty where unknown; each class has its own chain.",
    )
    class_probability: Annotated[str | list[float | int] | None, _SHARES] = Field(
        default=None,
        description="Prior probabilities of the classes: free (learned; the default), uniform, or a list of"
        " probabilities.",
    )
    training: Literal["generative", "discriminative"] = Field(
        default="generative",
        description="Likelihood. generative: the joint one of sequences and classes; discriminative:"
        " that of classes given sequences.",
    )
    dimension: int | None = Field(
        default=None,
        ge=1,
        le=50,
        description="Dimension of the continuous state vector that drives all columns; if left out, each column has"
        " a level of its own.",
    )
    emission: Annotated[str | dict[ColumnName, str], BeforeValidator(columns_once)] = Field(
        default="gaussian",
        description="Emission distribution of the states: gaussian, gaussian_mixture, student_t, categorical,"
        " bernoulli, binomial, poisson, exponential; a univariate distribution such as Gamma, or"
        " Pareto(m=1) with its known parameters; or a mapping with one for each column. scores: columns"
        " hold P(state) from a classifier; urn: draws without replacement; observed: the column holds"
        " the states themselves.",
    )
    covariance: Literal["diagonal", "spherical", "full", "tied"] = Field(
        default="diagonal",
        description="Covariance of gaussian columns. diagonal: a variance for each column and state; spherical: one"
        " variance for all columns in each state; full: a matrix for each state; tied: one matrix for"
        " all states.",
    )
    mixtures: int | None = Field(
        default=None, ge=2, le=100, description="Number of normal components in each state of gaussian_mixture columns."
    )
    trials: int | None = Field(default=None, ge=1, description="Number of trials of binomial columns.")
    dof: float | int | None = Field(
        default=None, gt=0, description="Degrees of freedom of student_t columns; learned if left out."
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict,
        description="Known parameters (one number for each state) or priors (distributions), by name: `mean`, `sd`,"
        " `probability`, ...; where columns have different emissions, by `column_mean`.",
    )
    inputs: list[ColumnName] = Field(
        default_factory=list,
        description="Columns that the emission of the one observed column depends on: each state has its own"
        " regression.",
    )
    window: int = Field(
        default=0, ge=0, le=50, description="Number of preceding values used as further inputs (autoregression)."
    )
    sequence: ColumnName | None = Field(default=None, description="Column that identifies the sequences.")
    time: ColumnName | None = Field(
        default=None, description="Column of times (increasing integers); gaps become missing rows."
    )
    parent: ColumnName | None = Field(
        default=None,
        description="Makes rows the nodes of trees: the column with the label of each row's parent, empty for roots.",
    )
    topology: Annotated[str | list[list[int]], _TOPOLOGY] = Field(
        default="ergodic",
        description="Which transitions are possible: ergodic, left_right, banded, or a matrix of 0 and 1 as a list"
        " of rows.",
    )
    reach: int = Field(default=1, ge=1, description="Largest step, in states, of a left_right or banded chain.")
    initial: Annotated[str | list[float | int] | None, _INITIAL] = Field(
        default=None,
        description="Distribution of the first state: free (learned; the default), stationary, uniform, or a list"
        " of probabilities; a left_right chain starts in its first state.",
    )
    transition: list[list[float | int]] | None = Field(default=None, description="Transition matrix, if known.")
    transitions_on: list[ColumnName] = Field(
        default_factory=list,
        description="Columns that transitions depend on, through a multinomial logit for each state.",
    )
    order: Literal[1, 2] = Field(
        default=1, description="Order of the chain: the next state depends on the last state, or on the last two."
    )
    durations: Annotated[int | Durations | None, BeforeValidator(as_durations)] = Field(
        default=None,
        description="Longest duration of a state (semi-Markov chain with a table of durations for each state), or"
        " `{longest, law}`.",
    )
    pseudocount: float | int = Field(
        default=1,
        gt=0,
        description="Concentration of each cell in the Dirichlet priors of the initial distribution and the"
        " transition rows.",
    )
    stickiness: float | int | None = Field(
        default=None,
        ge=0,
        description="Added to the pseudocount of self-transitions; if left out 0, or learned where states are"
        " infinite.",
    )

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            family: Literal["hmm"] = ...,
            columns: list[str],
            states: int
            | list[int]
            | list[str]
            | list[bool]
            | Mapping[str, int]
            | Literal["continuous", "infinite"]
            | None = ...,
            most: int = ...,
            chains: Mapping[str, int | list[str]] | None = ...,
            coupling: Literal["factorial", "coupled", "switching"] = ...,
            effects: Literal["additive", "joint"] | None = ...,
            emits: Mapping[str, list[str]] | None = ...,
            choose: Literal["bic", "aic", "held_out", "loo", "forward"] = ...,
            classes: str | None = ...,
            class_probability: str | list[float] | None = ...,
            training: Literal["generative", "discriminative"] = ...,
            dimension: int | None = ...,
            emission: str | Mapping[str, str] = ...,
            covariance: Literal["diagonal", "spherical", "full", "tied"] = ...,
            mixtures: int | None = ...,
            trials: int | None = ...,
            dof: float | None = ...,
            parameters: Mapping[str, Any] = ...,
            inputs: list[str] = ...,
            window: int = ...,
            sequence: str | None = ...,
            time: str | None = ...,
            parent: str | None = ...,
            topology: str | list[list[int]] = ...,
            reach: int = ...,
            initial: str | list[float] | None = ...,
            transition: list[list[float]] | None = ...,
            transitions_on: list[str] = ...,
            order: Literal[1, 2] = ...,
            durations: int | Durations | Mapping[str, Any] | None = ...,
            pseudocount: float = ...,
            stickiness: float | None = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _columns(self) -> HMM:
        if len(set(self.columns)) < len(self.columns):
            raise Flaw("a column is given twice", code="duplicate")
        if self.dimension is not None and self.states != "continuous":
            raise Flaw("dimension needs states: continuous", code="conflict")
        if self.states == "continuous":
            allowed = {"family", "columns", "states", "dimension", "sequence", "time"}
            odd = sorted(self.model_fields_set - allowed)
            if odd:
                raise Flaw(f"{odd[0]} needs discrete states; continuous ones are normal", code="conflict")
        if self.states == "infinite":
            odd = sorted(key for key in self.model_fields_set - INFINITE if getattr(self, key) != _default(key))
            if odd or self.emission == "observed":
                raise Flaw(
                    f"{odd[0] if odd else 'emission: observed'} cannot be combined with states: infinite",
                    code="unsupported",
                )
            words = self.emission.values() if isinstance(self.emission, dict) else (self.emission,)
            if any(is_distribution(word) for word in words):
                raise Flaw(
                    f"emission: {next(filter(is_distribution, words))} has no Gibbs steps, which states: infinite"
                    " needs; give a range of numbers of states such as {from: 1, to: 6}",
                    code="unsupported",
                )
        elif "most" in self.model_fields_set:
            raise Flaw("most needs states: infinite", code="conflict")
        if self.emission == "observed" and (len(self.columns) > 1 or emission_parameters(self)):
            raise Flaw(
                "emission: observed takes one column, which holds the states, and no parameters of it",
                code="unsupported",
            )
        for other in (self.sequence, self.time, self.classes, self.parent):
            if other is not None and other in self.columns:
                raise Flaw(f"'{other}' tells where rows belong and cannot be emitted too", code="conflict")
        for key in ("sequence", "time", "window", "order", "durations", "transitions_on", "chains", "classes"):
            if self.parent is not None and key in self.model_fields_set:
                raise Flaw(f"{key} goes along sequences, and with `parent` rows are trees", code="conflict")
        if self.parent is not None and self.emission == "observed":
            raise Flaw("the states of trees are hidden: no emission: observed", code="unsupported")
        return self

    @model_validator(mode="after")
    def _scored(self) -> HMM:
        if isinstance(self.emission, dict) and "scores" in self.emission.values():
            raise Flaw("emission: scores is for all columns: one for each state", code="unsupported")
        if self.emission != "scores":
            return self
        if not isinstance(self.states, int | list) or self.classes or self.inputs or self.window:
            raise Flaw("emission: scores needs one chain of states, without inputs or classes", code="unsupported")
        n = self.states if isinstance(self.states, int) else len(self.states)
        if len(self.columns) != n:
            raise Flaw(
                f"scores: {len(self.columns)} columns for {n} states; one for each, in their order", code="wrong-length"
            )
        if self.covariance != "diagonal":
            raise Flaw("scores have no covariance", code="conflict")
        return self

    @model_validator(mode="after")
    def _mixed(self) -> HMM:
        words = list(self.emission.values()) if isinstance(self.emission, dict) else [self.emission]
        if "gaussian_mixture" not in words:
            if self.mixtures is not None:
                raise Flaw("mixtures is the number of parts of emission: gaussian_mixture", code="conflict")
            return self
        if self.mixtures is None:
            raise Flaw(
                "emission: gaussian_mixture needs `mixtures`, the number of parts a state has", code="incomplete"
            )
        if self.chains is not None or self.inputs or self.window:
            raise Flaw("gaussian_mixture needs one chain of states, without inputs", code="unsupported")
        if self.covariance != "diagonal":
            raise Flaw(
                "the parts of a gaussian_mixture have independent columns: covariance: diagonal", code="unsupported"
            )
        return self

    @model_validator(mode="after")
    def _without_replacement(self) -> HMM:
        words = self.emission.values() if isinstance(self.emission, dict) else [self.emission]
        if "urn" not in words:
            return self
        if self.emission != "urn" or len(self.columns) > 1:
            raise Flaw("emission: urn takes one column, the colours of the balls drawn", code="unsupported")
        if not isinstance(self.states, int | list):
            raise Flaw("emission: urn takes a number of urns, or their names, in states", code="incomplete")
        for key in ("inputs", "window", "chains", "classes", "transitions_on", "order", "durations", "parent"):
            if key in self.model_fields_set:
                raise Flaw(
                    f"{key} cannot be combined with emission: urn, whose states are urns of a plain chain",
                    code="conflict",
                )
        return self

    @model_validator(mode="after")
    def _several(self) -> HMM:
        if (self.states is None) == (self.chains is None):
            raise Flaw(
                "give states, or several chains, not both" if self.chains else "states is missing: how many there are",
                code="conflict" if self.chains else "incomplete",
            )
        _check_words(self)
        return self

    @model_validator(mode="after")
    def _effective(self) -> HMM:
        """Refuse keys that would have no effect."""
        words = set(self.emission.values()) if isinstance(self.emission, dict) else {self.emission}
        regressed = bool(self.inputs or self.window)
        idle = {
            "reach": (self.topology not in ("left_right", "banded"), "needs topology: left_right or banded"),
            "trials": ("binomial" not in words, "is the number of trials of binomial columns, and there is none"),
            "dof": ("student_t" not in words, "is of student_t columns, and there is none"),
            "covariance": ("gaussian" not in words or regressed, "is of gaussian columns without inputs or a window"),
            "stickiness": (
                self.transition is not None or bool(self.transitions_on),
                "is of the Dirichlet prior of transitions, which are given here or depend on inputs",
            ),
            "inputs": (self.emission == "observed", "needs hidden states, and emission: observed shows them"),
            "window": (self.emission == "observed", "needs hidden states, and emission: observed shows them"),
        }
        for key, (silent, why) in idle.items():
            if silent and getattr(self, key) != _default(key):
                raise Flaw(f"{key} {why}; leave it out", code="conflict")
        for name, value in self.parameters.items():
            texts = value if isinstance(value, list) else [value]
            ordered = any(isinstance(text, str) and text.strip().startswith(_ORDERS) for text in texts)
            if ordered and (self.chains or self.classes or self.states == "infinite"):
                raise Flaw(
                    f"{name}: an order needs one chain of a number of states, without classes", code="unsupported"
                )
        return self

    def factors(self, dims: Collection[str]) -> set[str]:
        """Declared dimensions, the class column and the categorical columns."""
        if self.states == "continuous" or self.emission == "observed":
            return set(dims)
        classes = {self.classes} if self.classes is not None else set()
        return (
            set(dims) | classes | {columns[0] for _, word, columns in layout_of(self) if word in ("categorical", "urn")}
        )

    def named_inputs(self) -> list[str]:
        """The inputs."""
        return list(self.inputs)

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The observed columns."""
        return tuple(self.columns)

    def categories(self, data: Any) -> dict[str, str | None]:
        """Categorical columns, or columns of urn colours, each with levels of its own."""
        words = self.emission if isinstance(self.emission, dict) else dict.fromkeys(self.columns, self.emission)
        return dict.fromkeys(c for c in self.columns if words.get(c) in ("categorical", "urn", "observed"))

    @property
    def ranged(self) -> tuple[int, ...]:
        """The smallest and the largest number of states to choose from; empty if the number is not chosen."""
        limits = self.states if isinstance(self.states, dict) else {}
        return (limits["from"], limits["to"]) if limits.keys() == {"from", "to"} else ()

    @model_validator(mode="after")
    def _choosing(self) -> HMM:
        if not self.ranged:
            if "choose" in self.model_fields_set and isinstance(self.states, int | list | dict):
                raise Flaw("choose needs a range of states, such as {from: 1, to: 6}", code="conflict")
            return self
        if self.emission == "observed":
            raise Flaw("the states of a column of states are known; list their names", code="incomplete")
        each = {"transition": self.transition, "topology": self.topology, "initial": self.initial}
        listed = [key for key, value in each.items() if isinstance(value, list)]
        listed += [key for key, value in self.parameters.items() if isinstance(value, list)]
        if listed:
            raise Flaw(f"{listed[0]} is given state by state, which needs one number of states", code="conflict")
        return self

    @model_validator(mode="after")
    def _classed(self) -> HMM:
        if self.classes is None:
            for key in ("class_probability", "training"):
                if key in self.model_fields_set:
                    raise Flaw(f"{key} needs `classes`, the column of what kind each sequence is", code="conflict")
            if isinstance(self.states, dict) and not self.ranged:
                raise Flaw("a number of states for each class needs `classes`, the column of classes", code="conflict")
            return self
        if self.sequence is None:
            raise Flaw(
                "classes are of sequences: name the column that tells them apart in `sequence`", code="incomplete"
            )
        if self.classes == self.sequence:
            raise Flaw("`classes` and `sequence` are two columns", code="name-clash")
        if self.emission == "observed" or self.initial == "stationary":
            raise Flaw(
                "each class has a plain chain: no emission: observed, no initial: stationary", code="unsupported"
            )
        for key in sorted(self.model_fields_set - _WITH_CLASSES):
            if getattr(self, key) != type(self).model_fields[key].get_default(call_default_factory=True):
                raise Flaw(f"each class has a plain chain: {key} cannot be combined with `classes`", code="conflict")
        return self


# How the text of a prior that orders the states begins.
_ORDERS = tuple(f"{word}(" for word in ORDERS)


# Keys that `classes` allows.
_WITH_CLASSES = {
    "family", "columns", "states", "classes", "class_probability", "training", "emission", "covariance", "mixtures",
    "trials", "dof", "parameters", "inputs", "window", "sequence", "time", "topology", "reach", "initial", "transition",
    "pseudocount", "stickiness", "choose",
}  # fmt: skip


def _default(key: str) -> Any:
    return HMM.model_fields[key].get_default(call_default_factory=True)


def chain_parameters(spec: HMM) -> tuple[str, ...]:
    """Names in ``parameters`` of the chain itself: second-order transitions, log odds on inputs, or durations."""
    if spec.durations is not None:
        law = spec.durations.law if isinstance(spec.durations, Durations) else "table"
        return OF_DURATIONS[law]
    return SECOND_ORDER if spec.order == 2 else LOG_ODDS if spec.transitions_on else ()


def emission_parameters(spec: HMM) -> dict[str, Any]:
    """The known parameters and priors of the emissions."""
    return {name: value for name, value in spec.parameters.items() if name not in chain_parameters(spec)}


def _check_words(spec: HMM) -> None:
    """Check the keys of several chains for contradictions.

    Raises
    ------
    ValueError
    """
    if spec.chains is None:
        for word in ("coupling", "effects", "emits"):
            if word in spec.model_fields_set:
                raise Flaw(f"{word} needs several chains; there is one", code="conflict")
        return
    odd = sorted(spec.model_fields_set - SEVERAL)
    if odd:
        raise Flaw(f"{odd[0]} needs one chain; chains are ergodic, of order 1, and have no inputs", code="unsupported")
    if spec.emission == "observed":
        raise Flaw("emission: observed needs one chain; of several, states are hidden", code="unsupported")
    _check_names(spec)
    if spec.coupling != "factorial" and spec.effects is not None:
        raise Flaw(
            f"effects needs coupling: factorial; {spec.coupling} chains have outputs of their own", code="conflict"
        )
    if spec.coupling != "coupled" and spec.emits is not None:
        raise Flaw("emits needs coupling: coupled; else every column is of all chains", code="conflict")
    if spec.coupling == "coupled":
        _check_emits(spec)
    if spec.coupling == "switching":
        _check_switch(spec)
    sizes = [states if isinstance(states, int) else len(states) for states in spec.chains.values()]
    total = int(np.prod(sizes, dtype=object))
    if total > MOST_STATES:
        raise Flaw(
            f"{' × '.join(map(str, sizes))} = {total:,} states of all chains together; at most {MOST_STATES}, for every"
            " row costs their square: take fewer or smaller chains",
            code="too-costly",
        )
    if spec.initial is not None and spec.initial not in ("free", "uniform"):
        what = "stationary" if spec.initial == "stationary" else "a list of probabilities"
        raise Flaw(
            f"initial: {what} needs one chain; of several: free, uniform, or `initial_<chain>` in parameters",
            code="unsupported",
        )


def _check_names(spec: HMM) -> None:
    assert spec.chains is not None
    taken = {*spec.columns, *(f"{c}_state" for c in spec.columns), "state", "next_state", "feature", "path"}
    taken |= {spec.sequence or "", spec.time or ""} | {f"next_{name}" for name in spec.chains}
    for name in spec.chains:
        if name in taken:
            raise Flaw(f"a chain cannot be called '{name}': the name is taken; choose another", code="reserved-name")


def _check_emits(spec: HMM) -> None:
    assert spec.chains is not None
    if spec.emits is None:
        raise Flaw(
            "coupled chains need emits: which columns each chain emits, such as {season: [a]}", code="incomplete"
        )
    for name in spec.emits:
        if name not in spec.chains:
            raise Flaw(f"emits: there is no chain '{name}'{hint(name, spec.chains)}", code="unknown-name")
    given = [column for columns in spec.emits.values() for column in columns]
    for column in given:
        if column not in spec.columns:
            raise Flaw(f"emits: '{column}' is not among the columns{hint(column, spec.columns)}", code="unknown-column")
        if given.count(column) > 1:
            raise Flaw(f"emits: '{column}' occurs twice; each column is of one chain", code="duplicate")
    lost = [column for column in spec.columns if column not in given]
    if lost:
        raise Flaw(f"emits: no chain emits '{lost[0]}'; every column is of one chain", code="incomplete")


def _check_switch(spec: HMM) -> None:
    assert spec.chains is not None
    (switch, switch_states), *others = spec.chains.items()
    names = [name for name, _ in others]
    if switch_states not in (len(names), names):
        raise Flaw(
            f"the first chain, '{switch}', says which of the others is seen: it has the states [{', '.join(names)}]",
            code="contradiction",
        )


def layout_of(spec: HMM) -> list[tuple[str, str, tuple[str, ...]]]:
    """The parts of the emission: (name, distribution, columns) of each."""
    if spec.emission == "observed":
        return [("", "categorical", (spec.columns[0],))]
    if spec.emission == "urn":
        return [("", "urn", (spec.columns[0],))]
    return columns_of(spec.columns, spec.emission)
