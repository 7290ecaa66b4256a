"""Keys of the ``markov_random_field`` family in a model file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator, model_validator

from bayeslab.errors import Flaw, hint
from bayeslab.families.bayes_net.spec import States, Word
from bayeslab.language.spec import ColumnName, Family, Identifier
from bayeslab.language.spec import Spec as Frozen

__all__ = ["Grid", "MarkovRandomField", "Potential"]


class Potential(Frozen):
    """A non-negative function of a few variables; one of ``table`` and ``log_table`` is given."""

    variables: list[str] = Field(min_length=1, description="The variables, in the order in which they index the table.")
    table: Any = Field(
        default=None,
        description="The values: nested lists by variable, or mappings from the states. They need not sum to one.",
    )
    log_table: Any = Field(default=None, description="The logarithms of the values, in place of `table`.")

    @model_validator(mode="after")
    def _one(self) -> Potential:
        if (self.table is None) == (self.log_table is None):
            raise Flaw("a potential has one of table and log_table", code="conflict")
        if len(set(self.variables)) < len(self.variables):
            raise Flaw(f"each variable once; given: {', '.join(self.variables)}", code="duplicate")
        return self


class Grid(Frozen):
    """An image: one variable for each pixel, neighbours coupled, and each pixel observed with noise."""

    observed: ColumnName = Field(
        description="The noisy pixels: an array of two dimensions, or a column of a table with `row` and `column`."
    )
    row: ColumnName | None = Field(default=None, description="Column with the row of each pixel in the image.")
    column: ColumnName | None = Field(default=None, description="Column with the column of each pixel in the image.")
    states: States = Field(min_length=2, description="The labels that a pixel may have.")
    label: Identifier = Field(default="label", description="Name of the labels in results.")
    coupling: float | int | list[list[float | int]] = Field(
        description="Log potential of two neighbours with the same label (Ising, Potts), or a symmetric table of log"
        " potentials by the two labels."
    )
    external_field: dict[str, float | int] = Field(
        default_factory=dict, description="Log potential of each label in every pixel; 0 for labels left out."
    )
    neighbours: Literal[4, 8] = Field(default=4, description="Neighbours of a pixel: 4, or 8 with the diagonal ones.")
    noise: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        default=None,
        description="Probability that an observed pixel differs from its label; other labels are equally probable.",
    )
    emission: dict[str, str] | None = Field(
        default=None, description="For each label the distribution of an observed pixel, such as Normal(0, 1)."
    )

    @field_validator("states")
    @classmethod
    def _once(cls, value: list[str]) -> list[str]:
        if len(set(value)) < len(value):
            raise Flaw(f"states must be distinct; given: {', '.join(value)}", code="duplicate")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Grid:
        if (self.noise is None) == (self.emission is None):
            raise Flaw("a grid has one of noise and emission", code="conflict")
        if (self.row is None) != (self.column is None):
            raise Flaw("row and column are given together: a table has both, an array neither", code="incomplete")
        for name in {**self.external_field, **(self.emission or {})}:
            if name not in self.states:
                raise Flaw(f"'{name}' is not a state{hint(name, self.states)}", code="unknown-state")
        if self.emission is not None and len(self.emission) < len(self.states):
            lacking = next(s for s in self.states if s not in self.emission)
            raise Flaw(f"the emission of '{lacking}' is missing", code="incomplete")
        if isinstance(self.coupling, list):
            n, rows = len(self.states), [list(map(float, row)) for row in self.coupling]
            if [len(row) for row in rows] != [n] * n or any(
                rows[i][j] != rows[j][i] for i in range(n) for j in range(n)
            ):
                raise Flaw(f"a table of couplings is symmetric, {n} × {n}", code="wrong-shape")
        return self


class MarkovRandomField(Family):
    """An undirected graphical model of discrete variables: a product of potentials."""

    of_rows: ClassVar[bool] = False  # an image is an array of two dimensions
    family: Literal["markov_random_field"] = "markov_random_field"
    variables: dict[Identifier, States] = Field(
        default_factory=dict, description="The states of each variable, in order."
    )
    potentials: list[Potential] = Field(default_factory=list, description="The potentials, which are multiplied.")
    given: dict[str, Word | dict[str, float | int]] = Field(
        default_factory=dict,
        description="Evidence besides the data: the state of a variable, or {state: likelihood} for virtual evidence.",
    )
    grid: Grid | None = Field(default=None, description="The short form for images, in place of `variables`.")

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            family: Literal["markov_random_field"] = ...,
            variables: Mapping[str, Sequence[Word]] = ...,
            potentials: Sequence[Potential | Mapping[str, Any]] = ...,
            given: Mapping[str, Word | Mapping[str, float]] = ...,
            grid: Grid | Mapping[str, Any] | None = ...,
        ) -> None: ...

    @model_validator(mode="after")
    def _one_form(self) -> MarkovRandomField:
        if (self.grid is None) == (not self.variables):
            raise Flaw("give variables with their potentials, or a grid", code="conflict")
        if self.grid is not None and (self.potentials or self.given):
            raise Flaw("a grid has its potentials and its evidence; leave potentials and given out", code="conflict")
        for name, states in self.variables.items():
            if not states or len(set(states)) < len(states):
                raise Flaw(f"'{name}' needs at least one state, each state once", code="duplicate")
            if name.removesuffix("_state") != name and name.removesuffix("_state") in self.variables:
                raise Flaw(f"'{name}' is the dimension of the states of another variable; rename it", code="bad-name")
        return self

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """The columns with evidence: the noisy pixels, or the columns of variables."""
        if self.grid is not None:
            return (self.grid.observed,)
        return tuple(name for name in self.variables if name in columns)
