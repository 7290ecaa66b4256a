"""Keys of the ``bayes_net`` family: variables, tables, priors, decisions and utilities."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import networkx as nx
import numpy as np
from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from bayeslab.errors import (
    Flaw,
    ModelError,
    Reason,
    hint,
)
from bayeslab.families.bayes_net.folding import chain_of_counts
from bayeslab.families.bayes_net.structure_spec import Structure, as_structure, unknown
from bayeslab.formats.network_files import declared_variables
from bayeslab.language.spec import Family, Folding, Identifier
from bayeslab.language.spec import Spec as Frozen

__all__ = ["BayesNet", "Decision", "GivenPrior", "Normal", "Prior", "States", "Utility", "Variable", "Word"]


def _as_states(value: Any) -> Any:
    """Convert states to text; YAML reads 1, yes and true as other types."""
    if not isinstance(value, Sequence) or isinstance(value, str):
        return value
    for v in value:
        if not isinstance(v, str | bool | int | float) or not str(v).strip():
            raise Flaw(f"a state is a word or a number, not {v!r}", code="wrong-type")
    return [("true" if v else "false") if isinstance(v, bool) else str(v) for v in value]


def _as_variable(value: Any) -> Any:
    """Read ``smoke: [yes, no]`` as a variable with these states and no other key."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        return {"states": value}
    return _known_keys(value, Variable)


def _as_prior(value: Any) -> Any:
    """Read a number as a pseudocount."""
    plain = isinstance(value, int | float) and not isinstance(value, bool)
    return {"pseudocount": value} if plain else _known_keys(value, Prior)


def _known_keys(value: Any, spec: type[Frozen]) -> Any:
    for key in value if isinstance(value, Mapping) else ():
        if key not in spec.model_fields:
            raise Flaw(f"unknown key '{key}'{hint(key, spec.model_fields)}", code="unknown-key")
    return value


def _as_list_or_all(value: Any) -> Any:
    if isinstance(value, str) and value != "all":
        raise Flaw(f"a list of variables, or the word 'all', not '{value}'", code="wrong-type")
    return value


Word = str | bool | int | float


States = Annotated[list[str], BeforeValidator(_as_states, json_schema_input_type=list[Word])]


class Prior(Frozen):
    """Dirichlet prior of every row of the tables to be learned; exactly one key is given."""

    pseudocount: float | int | None = Field(
        default=None, gt=0, description="Concentration of each cell; 1 is uniform over the simplex."
    )
    equivalent_sample_size: float | int | None = Field(
        default=None, gt=0, description="Total concentration of each table, spread evenly over its cells (BDeu)."
    )
    m_estimate: float | int | None = Field(
        default=None, gt=0, description="Total concentration of each row of a table, spread evenly over its cells."
    )

    @model_validator(mode="after")
    def _one(self) -> Prior:
        given = [k for k in type(self).model_fields if getattr(self, k) is not None]
        if len(given) != 1:
            raise Flaw("one of pseudocount, equivalent_sample_size and m_estimate", code="conflict")
        return self

    def concentration(self, n_rows: int, n_states: int) -> np.ndarray:
        """Dirichlet concentrations of a table, shape (n_rows, n_states): a read-only view of one number."""
        each = (
            float(self.pseudocount)
            if self.pseudocount is not None
            else float(self.equivalent_sample_size) / (n_rows * n_states)
            if self.equivalent_sample_size is not None
            else float(self.m_estimate or 0) / n_states
        )
        return np.broadcast_to(each, (n_rows, n_states))


GivenPrior = Annotated[Prior, BeforeValidator(_as_prior, json_schema_input_type=Prior | float)]


class Normal(Frozen):
    """A normal distribution given the parents: linear in the continuous ones, with coefficients for each
    combination of states of the discrete ones.
    """

    intercept: Any = Field(
        default=None, description="A number, or one for each combination of states of the discrete parents."
    )
    slopes: dict[str, Any] = Field(
        default_factory=dict,
        description="Slope of each continuous parent: a number, or one for each combination of states of the"
        " discrete parents.",
    )
    sd: Any = Field(
        default=None,
        description="Standard deviation: a number, or one for each combination of states of the discrete parents.",
    )


class Variable(Frozen):
    """One variable. At most one key for its distribution given the parents may be used."""

    states: States = Field(
        default_factory=list, description="Names of the states, in order; none for a continuous variable."
    )
    parents: list[str] = Field(default_factory=list, description="Parents, in the order in which they index the table.")
    table: Any = Field(
        default=None,
        description="Rows of probabilities: nested lists by parent, or a mapping from the parents' states. A row"
        " may be Dirichlet([..]), Beta(..), or expressions of `parameters`. Learned if left out.",
    )
    noisy_or: dict[str, Any] | None = Field(
        default=None,
        description="Strength of each parent, and `leak`. The strength of a parent left out is learned; without"
        " `leak` there is no leak.",
    )
    noisy_max: dict[str, Any] | None = Field(
        default=None, description="For each parent and each of its states the distribution of the effect, and `leak`."
    )
    logit: dict[str, Any] | None = Field(
        default=None,
        description="Coefficients of the parents on the log-odds scale, and `intercept`; those left out are learned.",
    )
    function: Any = Field(
        default=None,
        description="Deterministic variable: or, and, xor, nor, nand; a state for each row of the parents; or an"
        " expression of the parents.",
    )
    linear_gaussian: Normal | None = Field(
        default=None, description="Normal distribution with a mean that is linear in the parents."
    )
    absent: dict[str, Annotated[str, BeforeValidator(lambda v: _as_states([v])[0])]] = Field(
        default_factory=dict, description="For noisy_or, noisy_max, logit: the state of a variable that means 'absent'."
    )
    prior: GivenPrior | None = Field(
        default=None,
        description="Prior of a table to be learned: the pseudocount of each cell, or a mapping as in the net's"
        " `prior`.",
    )

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            states: Sequence[Word] = ...,
            parents: list[str] = ...,
            table: Any = ...,
            noisy_or: Mapping[str, Any] | None = ...,
            noisy_max: Mapping[str, Any] | None = ...,
            logit: Mapping[str, Any] | None = ...,
            function: Any = ...,
            linear_gaussian: Normal | Mapping[str, Any] | None = ...,
            absent: Mapping[str, Word] = ...,
            prior: Prior | Mapping[str, float] | float | None = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _one_kind(self) -> Variable:
        kinds = [
            k
            for k in ("table", "noisy_or", "noisy_max", "logit", "function", "linear_gaussian")
            if getattr(self, k) is not None
        ]
        if len(kinds) > 1:
            raise Flaw(f"a variable has one of {' and '.join(kinds)}, not several", code="conflict")
        if not self.states and kinds not in (["linear_gaussian"], []):
            raise Flaw(f"a variable with a {kinds[0]} needs states", code="incomplete")
        if self.states and self.linear_gaussian is not None:
            raise Flaw("a normal variable has no states", code="conflict")
        if self.prior is not None and self.linear_gaussian is not None:
            raise Flaw("prior is for tables, which a normal variable does not have; leave it out", code="conflict")
        if not self.states and self.linear_gaussian is None:
            raise Flaw("give it states, or linear_gaussian if it is continuous", code="incomplete")
        if len(set(self.states)) < len(self.states):
            raise Flaw(f"states must be distinct; given: {', '.join(self.states)}", code="duplicate")
        if len(set(self.parents)) < len(self.parents):
            raise Flaw(f"parents must be distinct; given: {', '.join(self.parents)}", code="duplicate")
        return self


class Decision(Frozen):
    """A decision in an influence diagram."""

    options: States = Field(min_length=1, description="The possible choices.")
    knows: list[str] = Field(
        default_factory=list,
        description="Variables known when the decision is taken; what was known or decided earlier is remembered.",
    )

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            options: Sequence[Word],
            knows: list[str] = ...,
        ) -> None: ...


class Utility(Frozen):
    """A utility in an influence diagram; several are added."""

    parents: list[str] = Field(default_factory=list, description="Variables and decisions it depends on.")
    table: Any = Field(description="A number for each combination of the parents' states.")


def _with_network_key(schema: dict[str, Any]) -> None:
    """Add to the JSON schema the key ``network``, which a file may give instead of or beside ``variables``."""
    schema["properties"]["network"] = {
        "type": "string",
        "description": "A network file (.bif .xmlbif .xdsl .net .dsc .uai); variables written here replace its own.",
    }
    schema["required"] = [key for key in schema.get("required", []) if key != "variables"]
    open_ = {"required": ["structure"], "properties": {"structure": {"type": "object"}}}
    schema["anyOf"] = [{"required": ["variables"]}, {"required": ["network"]}, open_]


class BayesNet(Family):
    """A Bayes net: a directed acyclic graph and a distribution of each variable given its parents."""

    family: Literal["bayes_net"] = "bayes_net"
    any_names: ClassVar[bool] = True
    model_config = ConfigDict(json_schema_extra=_with_network_key)

    variables: dict[
        str, Annotated[Variable, BeforeValidator(_as_variable, json_schema_input_type=Variable | list[Word])]
    ] = Field(
        default_factory=dict,
        max_length=5_000,
        description="`name: {states, parents, table | noisy_or | noisy_max | logit | function | linear_gaussian}`."
        " If the structure is unknown, only states are given, or nothing: then every data column is a"
        " variable.",
    )
    parameters: dict[Identifier, str | int | float] = Field(
        default_factory=dict, description="Parameters that tables share: `name: expression`, as nodes of a graph model."
    )
    hidden: list[str] = Field(default_factory=list, description="Variables that are never observed.")
    prior: GivenPrior = Field(
        default_factory=lambda: Prior(pseudocount=1), description="Prior of tables to be learned."
    )
    learn: Annotated[list[str] | Literal["all"] | None, BeforeValidator(_as_list_or_all)] = Field(
        default=None, description="Variables whose tables are learned although a network file gives them."
    )
    target: str | None = Field(default=None, description="Variable to be predicted from the others.")
    structure: Annotated[
        Literal["naive_bayes", "tan"] | Structure | None,
        BeforeValidator(as_structure, json_schema_input_type=Literal["naive_bayes", "tan"] | Structure | None),
    ] = Field(
        default=None,
        description="naive_bayes: the target is the parent of every other variable; tan: these also form a tree."
        " Or, for an unknown structure, a mapping of how structures are scored and sampled.",
    )

    decisions: dict[str, Decision] = Field(
        default_factory=dict, description="Decisions, in the order in which they are taken (influence diagram)."
    )
    utilities: dict[str, Utility] = Field(default_factory=dict, description="Utilities of an influence diagram.")

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            family: Literal["bayes_net"] = ...,
            network: str | os.PathLike[str] = ...,
            variables: Mapping[str, Variable | Mapping[str, Any] | Sequence[Word]] = ...,
            parameters: Mapping[str, str | float] = ...,
            hidden: list[str] = ...,
            prior: Prior | Mapping[str, float] | float = ...,
            learn: list[str] | Literal["all"] | None = ...,
            target: str | None = ...,
            structure: Literal["naive_bayes", "tan"] | Structure | Mapping[str, Any] | None = ...,
            decisions: Mapping[str, Decision | Mapping[str, Any]] = ...,
            utilities: Mapping[str, Utility | Mapping[str, Any]] = ...,
        ) -> None: ...

    @model_validator(mode="before")
    @classmethod
    def _read_network(cls, content: Any) -> Any:
        """Read the variables of a network file; those given in ``variables`` replace them. For a model file this
        has been done before.
        """
        if not isinstance(content, dict) or "network" not in content:
            return content
        named, given = content["network"], content.get("variables") or {}
        if not isinstance(named, str | os.PathLike):
            raise ModelError(
                f"network is the path of a network file, not {named!r:.60}",
                path=("model", "network"),
                code="wrong-type",
            )
        rest = {key: value for key, value in content.items() if key != "network"}
        return rest | {"variables": declared_variables(named) | given}

    @model_validator(mode="after")
    def _names(self) -> BayesNet:
        known = self.variables
        if unknown(self):
            return self._unknown()
        if not known:
            raise Flaw("the key 'variables' is missing", code="missing-key")
        nodes = [*known, *self.decisions, *self.utilities]
        twice = [word for word in nodes if nodes.count(word) > 1] if self.decisions else []
        if twice:
            raise Flaw(f"'{twice[0]}' is the name of two nodes", code="duplicate")
        if bool(self.decisions) != bool(self.utilities):
            raise Flaw("an influence diagram needs both decisions and utilities", code="incomplete")
        for key, words in (("hidden", self.hidden), ("learn", self.learn if isinstance(self.learn, list) else [])):
            for i, word in enumerate(words):
                if word not in known:
                    raise Flaw(
                        f"'{word}' in {key} is not a variable{hint(word, known)}", key, i, code="unknown-variable"
                    )
        if self.target is not None and self.target not in known:
            raise Flaw(
                f"the target '{self.target}' is not a variable{hint(self.target, known)}",
                "target",
                code="unknown-variable",
            )
        if self.structure and self.target is None:
            raise Flaw(f"structure: {self.structure} needs a target", "structure", code="incomplete")
        for name, variable in known.items():
            place = ("variables", name, "parents")
            for i, parent in enumerate(variable.parents):
                if parent not in known and parent not in self.decisions:
                    raise Flaw(
                        f"'{parent}', a parent of '{name}', is not a variable{hint(parent, known)}",
                        *place,
                        i,
                        code="unknown-variable",
                    )
            if self.structure and variable.parents:
                raise Flaw(
                    f"structure: {self.structure} determines the parents; leave `parents` out",
                    *place,
                    code="conflict",
                )
        graph = nx.DiGraph((parent, name) for name, v in known.items() for parent in v.parents)
        if not nx.is_directed_acyclic_graph(graph):
            circle = [parent for parent, _ in nx.find_cycle(graph)]
            message = f"the parents form a cycle: {' -> '.join([*circle, circle[0]])}"
            raise Flaw(message, "variables", circle[0], "parents", code="cycle")
        return self

    def _unknown(self) -> BayesNet:
        _validated_unknown(self)
        if self.target is not None and self.variables and self.target not in self.variables:
            raise Flaw(
                f"the target '{self.target}' is not a variable{hint(self.target, self.variables)}",
                "target",
                code="unknown-variable",
            )
        return self

    def chosen_outcome(self) -> str | None:
        """The target."""
        return self.target

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The target; without one, every observed variable."""
        if self.target is not None:
            return (self.target,)
        if unknown(self) and not self.variables:
            return tuple(sorted(columns))
        return tuple(v for v in self.variables if v in columns and v not in self.hidden)

    def folding(self, columns: Set[str], numbers: Set[str]) -> Folding | Reason:
        """All variables; if all are observed and the structure is given, the counts of families suffice."""
        measured = [v for v, one in self.variables.items() if not one.states and v in columns]
        if measured:
            return Reason(f"the continuous variable '{measured[0]}' has a value in each row", code="unsupported")
        names = frozenset(self.variables or columns) & columns - set(self.hidden)
        if unknown(self) or self.structure == "tan":
            advice = "structures need all columns together: leave some out, or let `bayeslab learn` search by counts"
            return Folding(names, advice=advice)
        if len(names) < len(self.variables):
            return Folding(names, advice="a net with hidden variables needs all columns together: leave some out")
        parents = {v: tuple(one.parents) for v, one in self.variables.items()}
        if self.structure == "naive_bayes":
            parents = {v: () if v == self.target else (str(self.target),) for v in self.variables}
        return Folding(names, chain=chain_of_counts({v: len(s.states) for v, s in self.variables.items()}, parents))

    def levels(self) -> dict[str, list[str]]:
        """The states of each variable, in the order that the model gives."""
        return {v: list(one.states) for v, one in self.variables.items() if one.states}


def _validated_unknown(spec: BayesNet) -> None:
    """Refuse keys that need a known structure."""
    for name, variable in spec.variables.items():
        for key in variable.model_fields_set - {"states", "linear_gaussian"}:
            raise Flaw(
                f"the structure is unknown: '{name}' has states and nothing else; leave `{key}` out",
                "variables",
                name,
                code="conflict",
            )
        if variable.linear_gaussian is not None and variable.linear_gaussian.model_fields_set:
            raise Flaw(
                "the structure is unknown: leave the numbers of `linear_gaussian` out",
                "variables",
                name,
                code="conflict",
            )
    for key in ("parameters", "hidden", "learn", "decisions", "utilities"):
        if getattr(spec, key):
            raise Flaw(f"`{key}` needs a known structure; here it is unknown", key, code="structure-unknown")
    if "prior" in spec.model_fields_set:
        raise Flaw(
            "the structure is unknown and the score has the prior of tables: give `equivalent_sample_size` there",
            "prior",
            code="incomplete",
        )
