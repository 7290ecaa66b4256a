"""The words of an unknown structure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from bayeslab import registry
from bayeslab.errors import (
    EngineRefusal,
    Flaw,
    ModelError,
    OptionError,
    hint,
)
from bayeslab.language.spec import Problem
from bayeslab.language.spec import Spec as Frozen
from bayeslab.structure.constraints import Constraints, edge_of
from bayeslab.structure.jobs import Sampler
from bayeslab.structure.priors import DEFAULT, EdgePrior, structure_prior

if TYPE_CHECKING:
    from bayeslab.structure.priors import StructurePrior

__all__ = ["HIDDEN", "MOST_PARENTS", "PATH", "Number", "Structure", "as_structure", "sampled", "unknown"]

_EXCHANGE_EVERY = {"structure": 2000, "order": 100, "partition": 100}


PATH = ("model", "structure")


# Temperatures that let chains cross between modes, and steps between their exchanges; orders need none.
_LADDER = {
    "structure": (1.0, 0.8, 0.6, 0.45, 0.3, 0.2),
    "order": (1.0,),
    "partition": (1.0, 0.7, 0.5, 0.35, 0.2),
}


_SCORE_OPTIONS = ("equivalent_sample_size", "alpha_mu", "alpha_w", "nu", "scale")


_OF_CHAINS = ("temperatures", "exchange_every", "imputation_every", "reversal", "renewal")
_SAMPLER_OPTIONS = {"structure": ("reversal", "renewal"), "order": (), "partition": ("reversal",)}


_WORDS = ("naive_bayes", "tan")


# The search that takes hidden variables and missing cells.
HIDDEN = "structural_em"


# Of variables for which no number of parents is given.
MOST_PARENTS = 3
# The order in which constraints are put together: the one that contradicts those before it is where the error points.
_CONSTRAINTS = ("max_parents", "forbidden", "tiers", "candidates", "required")


Number = float | int


class Structure(Frozen):
    """An unknown structure: how structures are scored, which ones may be, and how they are sampled."""

    score: str | None = Field(
        default=None, description="Left out: bdeu for states, bge for numbers, mixed_bic for both. Or bds, k2, bic, ..."
    )
    equivalent_sample_size: Number | None = Field(default=None, gt=0, description="Of bdeu and bds; 10 if left out.")
    alpha_mu: Number | None = Field(default=None, gt=0, description="Of bge: imagined rows behind the prior mean.")
    alpha_w: Number | None = Field(default=None, gt=0, description="Of bge: degrees of freedom of the Wishart prior.")
    nu: list[Number] | None = Field(
        default=None, description="Of bge: prior mean of each column; its mean if left out."
    )
    scale: list[Number] | Number | None = Field(
        default=None,
        description="Of bge: prior scale of each column, or of all; left out, the columns' standard deviations.",
    )
    prior: str | dict[str, Number] = Field(
        default="uniform",
        description="Of structures: uniform, sparse, or probabilities of edges `{a -> b: 0.9, default: 0.2}`.",
    )
    max_parents: int | dict[str, int] = Field(
        default=MOST_PARENTS,
        description="Largest number of parents, of all variables or of those that are named; of the others 3.",
    )
    candidates: int | dict[str, list[str]] | None = Field(
        default=None, description="Possible parents: so many of the best ones, or for a variable these."
    )
    required: list[list[str] | str] = Field(
        default_factory=list, description="Edges that are there, `from -> to` or [from, to]."
    )
    forbidden: list[list[str] | str] = Field(default_factory=list, description="Edges that are not there, likewise.")
    tiers: list[list[str]] = Field(
        default_factory=list, description="Groups of variables, earliest first: no edge leads back in time."
    )
    prune: Number | None = Field(
        default=None, ge=0, description="Leave out parent sets that a subset beats by so many nats; left out, none."
    )
    search: str | None = Field(
        default=None,
        description="How `bayeslab learn` finds one: tabu, exact, structural_em, ... Fits sample instead.",
    )
    hidden: dict[str, int] = Field(
        default_factory=dict, description="Of the search structural_em: hidden variables and how many states they have."
    )
    invent: int | None = Field(
        default=None, ge=0, description="Of structural_em: hidden variables it may invent at most."
    )
    sampler: str = Field(default="structure", description="The chain: structure (DAGs), order, or partition.")
    temperatures: list[Number] | Number | None = Field(
        default=None, description="Inverse temperatures of parallel tempering, 1 first, falling; 1: no tempering."
    )
    exchange_every: int | None = Field(
        default=None, ge=1, description="Steps of hot copies between exchanges; 2000, of orders and partitions 100."
    )
    imputation_every: int | None = Field(
        default=None, ge=1, description="Steps between two draws of the missing cells; left out, about once a draw."
    )
    reversal: Number | None = Field(default=None, ge=0, le=1, description="Share of edge reversals among the steps.")
    renewal: Number | None = Field(
        default=None, ge=0, le=1, description="Share of steps that draw a variable's parents anew."
    )

    @field_validator("score", "sampler", "prior", "search")
    @classmethod
    def _words(cls, value: Any, info: Any) -> Any:
        known = {
            "score": registry.names("structure/scores"),
            "sampler": registry.names("structure/chains"),
            "prior": ("uniform", "sparse"),
            "search": registry.names("structure/searches"),
        }[info.field_name]
        if isinstance(value, str) and value not in known:
            raise Flaw(f"unknown {info.field_name} '{value}'{hint(value, known)}", code="unknown-word")
        return value

    @field_validator("prior")
    @classmethod
    def _probabilities(cls, value: Any) -> Any:
        for word, p in value.items() if isinstance(value, dict) else ():
            if word != DEFAULT:
                _pair(word)
            if not 0 < p < 1:
                raise Flaw(
                    f"'{word}' has the probability {p}: it lies between 0 and 1; what must or cannot be goes into"
                    f" `required` and `forbidden`",
                    code="out-of-range",
                )
        return value

    @field_validator("required", "forbidden")
    @classmethod
    def _pairs(cls, value: list[list[str] | str]) -> list[list[str] | str]:
        for edge in value:
            _pair(edge)
        return value

    @model_validator(mode="after")
    def _searched(self) -> Structure:
        if (self.hidden or self.invent) and self.search != HIDDEN:
            raise Flaw(f"hidden variables are searched for, not sampled: add `search: {HIDDEN}`", code="incomplete")
        return self

    @field_validator("temperatures")
    @classmethod
    def _falling(cls, value: Any) -> Any:
        given = value if isinstance(value, list) else [1 if value is None else value]
        if not given or given[0] != 1 or not all(a > b > 0 for a, b in pairwise(given)):
            raise Flaw(f"inverse temperatures begin with 1 and fall, all above 0; given {value}", code="out-of-range")
        return value

    @property
    def of_chains(self) -> list[str]:
        """Keys that are written and say how chains go; sums over all structures have no use for them."""
        return [name for name in _OF_CHAINS if getattr(self, name) is not None]

    @property
    def betas(self) -> tuple[float, ...]:
        """Inverse temperatures."""
        if self.temperatures is None:
            return _LADDER[self.sampler]
        given = self.temperatures if isinstance(self.temperatures, list) else [self.temperatures]
        return tuple(float(beta) for beta in given)

    @property
    def score_options(self) -> dict[str, Any]:
        """Options of the score that are given, by their names."""
        return {name: getattr(self, name) for name in _SCORE_OPTIONS if getattr(self, name) is not None}

    def chain(self) -> Sampler:
        """The chain with its options."""

        shares = {"reversal": self.reversal, "renewal": self.renewal}
        given = {name: float(share) for name, share in shares.items() if share is not None}
        for name in given:
            if name not in _SAMPLER_OPTIONS[self.sampler]:
                raise ModelError(
                    f"the sampler {self.sampler} has no option '{name}'", path=(*PATH, name), code="unknown-option"
                )
        return Sampler(self.sampler, self.betas, self.exchange_every or _EXCHANGE_EVERY[self.sampler], given)

    def limits(self, names: Sequence[str]) -> dict[str, int]:
        """The largest number of parents of each variable."""
        given = self.max_parents
        return dict.fromkeys(names, MOST_PARENTS) | given if isinstance(given, dict) else dict.fromkeys(names, given)

    def constraints(self, names: Sequence[str]) -> Constraints:
        """What is known of the structure beforehand; an error points at the part that is wrong."""

        parts: dict[str, Any] = {
            "max_parents": self.limits(names) if isinstance(self.max_parents, dict) else None,
            "forbidden": self.forbidden,
            "tiers": self.tiers,
            "candidates": self.candidates if isinstance(self.candidates, dict) else None,
            "required": self.required,
        }
        given: dict[str, Any] = {}
        for name in _CONSTRAINTS:
            given[name] = parts[name]
            with _at(name):
                out = Constraints.of(names, **given)
        return out

    def edge_prior(self, names: Sequence[str]) -> StructurePrior:
        """The prior over structures."""

        with _at("prior"):
            if isinstance(self.prior, str):
                return structure_prior(self.prior)
            return EdgePrior.of_words(names, self.prior)

    def check(self, names: Sequence[str]) -> None:
        """Everything that can be wrong about these variables without data."""
        self.chain()
        self.constraints((*names, *self.hidden))
        self.edge_prior(names)


def _pair(edge: str | Sequence[str]) -> None:
    """Check that this is an edge."""
    try:
        edge_of(edge)
    except ModelError as error:
        raise ValueError(error.message) from None


@contextmanager
def _at(*path: str) -> Iterator[None]:
    """Errors raised inside point at a part of the structure."""
    try:
        yield
    except (ModelError, OptionError) as error:
        raise ModelError(error.message, path=error.path or (*PATH, *path), code=error.code) from None


def as_structure(value: Any) -> Any:
    """A mapping is an unknown structure, a word a structure known by rule."""
    if isinstance(value, Mapping):
        try:
            return Structure.model_validate(dict(value))
        except ValidationError as error:
            problem = Problem.first(error, {(): Structure.model_fields}, value)
            # Which alternative of a value was tried is no place in the file.
            path = tuple(p for p in problem.path[:1]) + tuple(p for p in problem.path[1:] if isinstance(p, int))
            raise Flaw(problem.message, *path, code=problem.code) from None
    if isinstance(value, str) and value not in _WORDS:
        known = hint(value, _WORDS)
        raise Flaw(
            f"'{value}' is not a structure{known}; an unknown one is a mapping such as {{score: bdeu}}",
            code="unknown-word",
        )
    return value


def unknown(spec: Any) -> bool:
    """Whether the structure is to be found out."""
    return isinstance(getattr(spec, "structure", None), Structure)


def sampled(what: str) -> EngineRefusal:
    """What cannot be done while the structure is unknown."""
    return EngineRefusal(
        f"{what} needs a known structure, and here it is unknown: sample it (method structure); `fit.structures`"
        f" has what is averaged over them",
        code="structure-unknown",
    )
