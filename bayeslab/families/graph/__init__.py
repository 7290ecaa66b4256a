"""Family ``graph``: any directed graphical model, node by node, with PyMC's names of distributions.

A node is ``name[dims]: expression``. Nodes are built in topological order; each parameter of a
distribution is evaluated to a :class:`~bayeslab.language.expressions.Term` and laid out by the *names* of
its dimensions: first the node's own, then those that belong to one value of the parameter (the
two axes of a covariance matrix). Recursions along a dimension (``previous``) become one
``scan``; a random node that depends on its own past has a vectorised density and a ``scan`` to
draw from.
"""

from __future__ import annotations

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, hint
from bayeslab.families.graph.posterior import GraphPosterior
from bayeslab.families.graph.processes import check_process
from bayeslab.families.graph.spec import Graph, spec_of
from bayeslab.families.graph.states import check_states
from bayeslab.language.nodes import check_nodes, nodes_of
from bayeslab.language.spec import Model

__all__ = ["Graph", "Spec", "check", "compile"]

Spec = Graph


def check(model: Model, columns: set[str] | None) -> None:
    """Check everything that can be checked without building the graph."""
    nodes = nodes_of(spec_of(model).nodes)
    check_nodes(nodes, _dimensions(model), columns, model.data.derive)
    for node in nodes.values():
        if node.process:
            check_process(node, nodes)
        if node.states:
            check_states(node)
    known = (columns or set()) | nodes.keys()
    for name in model.data.dims if columns else ():
        # New data may lack the predicted columns.
        if name not in known:
            message = f"'{name}' is neither in the data nor a node{hint(name, known)}"
            raise ModelError(message, path=("data", "dims", name), code="unknown-name")


def _dimensions(model: Model) -> set[str]:
    source = model.data
    return {source.rows, *source.tables, *model.dims, *(d for dims in source.dims.values() for d in dims)}


def compile(model: Model, data: Data) -> GraphPosterior:
    """Bind the model to its data."""
    return GraphPosterior(model, data)
