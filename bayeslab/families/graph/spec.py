"""Keys of the ``graph`` family in a model file: nodes by name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Set
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from bayeslab.data.bound import Data
from bayeslab.families.graph.levels import categories
from bayeslab.language.nodes import (
    nodes_of,
)
from bayeslab.language.spec import Family, Model

__all__ = ["Graph", "spec_of"]


def _as_expression(value: Any) -> Any:
    """Write a YAML list as the text of a vector, so that ``[a, 1 - a]`` needs no quotes."""
    return f"[{', '.join(str(_as_expression(item)) for item in value)}]" if isinstance(value, list) else value


class Graph(Family):
    """A directed model written node by node."""

    of_rows: ClassVar[bool] = False
    is_language: ClassVar[bool] = True
    family: Literal["graph"] = "graph"
    nodes: dict[str, Annotated[str | int | float, BeforeValidator(_as_expression)]] = Field(
        min_length=1,
        max_length=2_000,
        description="`name: expression` or `name[dim, ...]: expression`. If the outermost call is a distribution"
        " the node is random (and observed, if a data column has its name); otherwise it is"
        " deterministic.",
    )

    if TYPE_CHECKING:  # what a model file may hold, for type checkers; the fields are what it becomes

        def __init__(
            self,
            *,
            family: Literal["graph"] = ...,
            nodes: Mapping[str, str | float | list[Any]],
        ) -> None: ...

    def factors(self, dims: Collection[str]) -> set[str]:
        """Dimensions of the model; a column with the name of a dimension is an index into it."""
        return {dim for node in nodes_of(self.nodes).values() for dim in node.dims} | set(dims)

    def distributions(self, outcome: str) -> set[str]:
        """The distribution of the node; empty for a deterministic node."""
        node = nodes_of(self.nodes).get(outcome)
        return {node.distribution} if node is not None and node.distribution is not None else set()

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        """Nodes that the model predicts: observed nodes that no other random node depends on.

        If none of them is observed: random nodes that no other random node depends on.
        """
        nodes = nodes_of(self.nodes)
        parents = {n.name: (n.parents - n.lagged - {n.name}) & set(nodes) for n in nodes.values()}
        random = [node.name for node in nodes.values() if node.kind == "random"]
        above, waiting = set[str](), [p for name in random for p in parents[name]]
        while waiting:
            name = waiting.pop()
            if name not in above:
                above.add(name)
                waiting += parents[name]
        last = [name for name in random if name not in above]
        observed = [name for name in last if name in columns]
        return tuple(observed or last)

    def categories(self, data: Data) -> Mapping[str, str | None]:
        """Random nodes whose values are levels, each with the dimension of its probabilities."""
        return categories(nodes_of(self.nodes), data)


def spec_of(model: Model) -> Graph:
    """The specification of a model of this family."""
    assert isinstance(model.model, Graph)
    return model.model
