"""Keys of the ``hypotheses`` family in a model file."""

from __future__ import annotations

import ast
import math
from collections.abc import Mapping, Set
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from bayeslab.distributions import DISTRIBUTIONS
from bayeslab.errors import (
    Flaw,
    listed,
)
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import call_name
from bayeslab.language.spec import ColumnName, Family, Identifier
from bayeslab.language.spec import Spec as Frozen

__all__ = ["DISCRETE", "Hypotheses", "Hypothesis"]

# Discrete distributions, allowed beside the continuous univariate ones.
DISCRETE = ("Bernoulli", "Binomial", "Categorical", "Geometric", "Poisson")

Probability = Annotated[float | int, Field(ge=0, le=1)]


class Hypothesis(Frozen):
    """One hypothesis: its prior probability and its likelihood."""

    prior: Probability | None = Field(
        default=None, description="Prior probability; if no hypothesis has one, all are equally probable."
    )
    likelihood: dict[str, Probability] | str = Field(
        description="Probability of each observed value by name, or a distribution such as Normal(0, 1)."
    )

    @property
    def call(self) -> ast.Call:
        """The tree of a likelihood that is a distribution."""
        tree = parse(str(self.likelihood)).tree
        assert isinstance(tree, ast.Call)
        return tree


class Hypotheses(Family):
    """A finite set of hypotheses about one column."""

    of_rows: ClassVar[bool] = False  # its hypotheses are a dimension of their own
    family: Literal["hypotheses"] = "hypotheses"
    observed: ColumnName = Field(description="Column of observations, in the order in which they were made.")
    hypotheses: dict[Identifier, Hypothesis] = Field(min_length=1, max_length=10_000)

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            family: Literal["hypotheses"] = ...,
            observed: str,
            hypotheses: Mapping[str, Hypothesis | Mapping[str, Any]],
        ) -> None: ...

    @field_validator("hypotheses")
    @classmethod
    def _complete(cls, value: dict[str, Hypothesis]) -> dict[str, Hypothesis]:
        given = [h.prior for h in value.values()]
        if any(p is None for p in given) and any(p is not None for p in given):
            raise Flaw("give every hypothesis a prior, or none (then all are equally probable)", code="incomplete")
        if given[0] is not None and abs(math.fsum(p for p in given if p is not None) - 1) > 1e-9:
            total = math.fsum(p for p in given if p is not None)
            raise Flaw(f"the priors add up to {total:g}, not to 1", code="not-probabilities")
        return value

    @model_validator(mode="after")
    def _alike(self) -> Hypotheses:
        tables = {name: h.likelihood for name, h in self.hypotheses.items() if isinstance(h.likelihood, dict)}
        if tables and len(tables) < len(self.hypotheses):
            raise Flaw("likelihoods are all tables or all distributions", code="conflict")
        self._of_one_scale()
        states = next((list(table) for table in tables.values()), [])
        for name, table in tables.items():
            if set(table) != set(states):
                raise Flaw(
                    f"'{name}' has the values {listed(table)}, the first hypothesis {listed(states)}",
                    code="contradiction",
                )
            if abs(math.fsum(table.values()) - 1) > 1e-9:
                raise Flaw(
                    f"the probabilities of '{name}' add up to {math.fsum(table.values()):g}, not to 1",
                    code="not-probabilities",
                )
        return self

    def _of_one_scale(self) -> None:
        """Refuse probabilities beside densities: a change of units of the column would change the posterior."""
        kinds: dict[bool, str] = {}
        for name, hypothesis in self.hypotheses.items():
            word = str(hypothesis.likelihood).partition("(")[0].strip()
            if word in DISTRIBUTIONS:
                kinds.setdefault(DISTRIBUTIONS[word].discrete, name)
        if len(kinds) > 1:
            raise Flaw(
                f"'{kinds[True]}' gives probabilities of whole numbers and '{kinds[False]}' a density: they have no"
                f" common scale, and another unit of '{self.observed}' would change the answer",
                code="conflict",
            )

    def distributions(self, outcome: str) -> set[str]:
        """Names of the distributions of the hypotheses; a table of probabilities is a categorical distribution."""
        words = (str(hypothesis.likelihood) for hypothesis in self.hypotheses.values())
        return {"Categorical"} if self.states else {str(call_name(parse(word).tree)) for word in words}

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The observed column."""
        return (self.observed,)

    def levels(self) -> dict[str, list[str]]:
        """The values of the observed column, if likelihoods are tables."""
        return {self.observed: self.states} if self.states else {}

    @property
    def states(self) -> list[str]:
        """Values of the observed column in the order of the first table; empty for distributions."""
        first = next(iter(self.hypotheses.values())).likelihood
        return list(first) if isinstance(first, dict) else []

    @property
    def prior(self) -> np.ndarray:
        given = [h.prior for h in self.hypotheses.values()]
        return np.array([1 / len(given) if p is None else float(p) for p in given])

    @property
    def table(self) -> np.ndarray:
        """Probability of each state under each hypothesis, shape (hypotheses, states)."""
        tables = [h.likelihood for h in self.hypotheses.values()]
        return np.array([[float(t[state]) for state in self.states] for t in tables if isinstance(t, dict)])
