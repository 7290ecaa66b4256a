"""Keys of an unknown structure of a Bayes net."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

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
from bayeslab.structure.priors import DEFAULT, EdgePrior, StructurePrior, structure_prior

__all__ = ["HIDDEN", "MOST_PARENTS", "PATH", "Number", "Structure", "as_structure", "sampled", "unknown"]

_EXCHANGE_EVERY = {"structure": 2000, "order": 100, "partition": 100}


PATH = ("model", "structure")


# Default inverse temperatures of parallel tempering, which let chains move between modes; orders need none.
_LADDER = {
    "structure": (1.0, 0.8, 0.6, 0.45, 0.3, 0.2),
    "order": (1.0,),
    "partition": (1.0, 0.7, 0.5, 0.35, 0.2),
}


_SCORE_OPTIONS = ("equivalent_sample_size", "alpha_mu", "alpha_w", "nu", "scale")


_OF_CHAINS = ("temperatures", "exchange_every", "imputation_every", "reversal", "renewal")
_SAMPLER_OPTIONS = {"structure": ("reversal", "renewal"), "order": (), "partition": ("reversal",)}


_WORDS = ("naive_bayes", "tan")


# The search that handles hidden variables and missing cells.
HIDDEN = "structural_em"


# Default limit of the number of parents.
MOST_PARENTS = 3
# The order in which constraints are combined; an error points to the one that contradicts those before it.
_CONSTRAINTS = ("max_parents", "forbidden", "tiers", "candidates", "required")


Number = float | int


class Structure(Frozen):
    """An unknown structure: how structures are scored, constrained and sampled."""

    score: str | None = Field(
        default=None,
        description="Score of a structure: bds, k2, bic, ...; if left out bdeu for discrete, bge for continuous and"
        " mixed_bic for mixed variables.",
    )
    equivalent_sample_size: Number | None = Field(
        default=None, gt=0, description="For bdeu and bds: equivalent sample size; default 10."
    )
    alpha_mu: Number | None = Field(
        default=None, gt=0, description="For bge: number of imaginary rows that the prior mean is worth."
    )
    alpha_w: Number | None = Field(default=None, gt=0, description="For bge: degrees of freedom of the Wishart prior.")
    nu: list[Number] | None = Field(
        default=None, description="For bge: prior mean of each column; default: the columns' means."
    )
    scale: list[Number] | Number | None = Field(
        default=None,
        description="For bge: prior scale of each column, or one for all; default: the columns' standard deviations.",
    )
    prior: str | dict[str, Number] = Field(
        default="uniform",
        description="Prior over structures: uniform, sparse, or edge probabilities `{a -> b: 0.9, default: 0.2}`.",
    )
    max_parents: int | dict[str, int] = Field(
        default=MOST_PARENTS,
        description="Largest number of parents, for all variables or by variable; 3 for variables not named.",
    )
    candidates: int | dict[str, list[str]] | None = Field(
        default=None,
        description="Candidate parents: the number of best ones to keep for each variable, or lists by variable.",
    )
    required: list[list[str] | str] = Field(
        default_factory=list, description="Edges that every structure contains, `from -> to` or [from, to]."
    )
    forbidden: list[list[str] | str] = Field(
        default_factory=list, description="Edges that no structure contains, written likewise."
    )
    tiers: list[list[str]] = Field(
        default_factory=list,
        description="Groups of variables, earliest first: no edge goes from a later group to an earlier one.",
    )
    prune: Number | None = Field(
        default=None,
        ge=0,
        description="Drop a parent set if one of its subsets scores higher by this many nats; if left out, none is"
        " dropped.",
    )
    search: str | None = Field(
        default=None,
        description="Search that `bayeslab learn` uses: tabu, exact, structural_em, ...; a fit samples structures"
        " instead.",
    )
    hidden: dict[str, int] = Field(
        default_factory=dict, description="For structural_em: hidden variables and their numbers of states."
    )
    invent: int | None = Field(
        default=None, ge=0, description="For structural_em: largest number of hidden variables that the search may add."
    )
    sampler: str = Field(
        default="structure", description="Space of the Markov chain: structure (DAGs), order, or partition."
    )
    temperatures: list[Number] | Number | None = Field(
        default=None,
        description="Inverse temperatures of parallel tempering, decreasing from 1; the number 1 means no tempering.",
    )
    exchange_every: int | None = Field(
        default=None,
        ge=1,
        description="Steps between exchanges of tempered chains; default 2000, or 100 for orders and partitions.",
    )
    imputation_every: int | None = Field(
        default=None,
        ge=1,
        description="Steps between draws of the missing cells; by default about once for each stored draw.",
    )
    reversal: Number | None = Field(
        default=None, ge=0, le=1, description="Share of steps that propose an edge reversal."
    )
    renewal: Number | None = Field(
        default=None, ge=0, le=1, description="Share of steps that redraw all parents of a variable."
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
        """Keys given that concern the chains and that an exact sum over structures does not use."""
        return [name for name in _OF_CHAINS if getattr(self, name) is not None]

    @property
    def betas(self) -> tuple[float, ...]:
        """Inverse temperatures of parallel tempering."""
        if self.temperatures is None:
            return _LADDER[self.sampler]
        given = self.temperatures if isinstance(self.temperatures, list) else [self.temperatures]
        return tuple(float(beta) for beta in given)

    @property
    def score_options(self) -> dict[str, Any]:
        """The options given for the score, by name."""
        return {name: getattr(self, name) for name in _SCORE_OPTIONS if getattr(self, name) is not None}

    def chain(self) -> Sampler:
        """The structure sampler with its options."""

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
        """Constraints on the structure; an error points to the key that is wrong."""

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
        """Check everything that can be checked for these variables without data."""
        self.chain()
        self.constraints((*names, *self.hidden))
        self.edge_prior(names)


def _pair(edge: str | Sequence[str]) -> None:
    """Check that the text or list is an edge."""
    try:
        edge_of(edge)
    except ModelError as error:
        raise ValueError(error.message) from None


@contextmanager
def _at(*path: str) -> Iterator[None]:
    """Prefix the place of errors raised in the block with this part of the structure."""
    try:
        yield
    except (ModelError, OptionError) as error:
        raise ModelError(error.message, path=error.path or (*PATH, *path), code=error.code) from None


def as_structure(value: Any) -> Any:
    """Read a mapping as an unknown structure, and a word as a structure known by rule."""
    if isinstance(value, Mapping):
        try:
            return Structure.model_validate(dict(value))
        except ValidationError as error:
            problem = Problem.first(error, {(): Structure.model_fields}, value)
            # Pydantic's name of the alternative it tried is not a place in the file.
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
    """Whether the structure is unknown."""
    return isinstance(getattr(spec, "structure", None), Structure)


def sampled(what: str) -> EngineRefusal:
    """The refusal of a request that needs a known structure."""
    return EngineRefusal(
        f"{what} needs a known structure, and here it is unknown: sample it (method structure); `fit.structures`"
        f" has what is averaged over them",
        code="structure-unknown",
    )
