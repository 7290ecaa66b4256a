"""Expand a set of hypotheses in the model language: a categorical node, and a distribution that depends on it."""

from __future__ import annotations

import ast
from typing import Any

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError
from bayeslab.families.hypotheses.spec import Hypotheses
from bayeslab.language.expansion import Expansion, check_columns, listed_numbers, nested
from bayeslab.language.nodes import bound_arguments, call_name
from bayeslab.language.spec import Model

__all__ = ["dims_of", "expand", "nodes_of"]

_TRUE = "true_hypothesis"


def expand(model: Model, data: Data) -> Expansion:
    """Write the hypotheses as nodes of the language.

    Raises
    ------
    ModelError
        Hypotheses have different distributions, or a column of the table has the name of a node.
    """
    spec = model.model
    assert isinstance(spec, Hypotheses)
    nodes, dims = nodes_of(spec, data.dataset.rows, _TRUE), dims_of(spec)
    check_columns(nodes, dims, data.dataset.columns, (spec.observed,), "hypotheses")
    comments = {
        _TRUE: "The number of the true hypothesis, from 0. It has no data: fits sum it out exactly.",
        "is_true[hypothesis]": "1 for the true hypothesis, else 0; its mean is the probability of each.",
        "chance[hypothesis, state]": "The probability of each value under each hypothesis.",
    }
    about = f"{len(spec.hypotheses)} hypotheses about '{spec.observed}', written out in the model language."
    return Expansion(nodes, {}, dims, comments, about)


def nodes_of(spec: Hypotheses, rows: str, which: str) -> dict[str, str]:
    """Nodes of the language, with the node ``which`` for the number of the true hypothesis.

    Raises
    ------
    ModelError
        Hypotheses have different distributions.
    """
    nodes = {
        which: f"Categorical({listed_numbers(spec.prior)})",
        "is_true[hypothesis]": f"index(hypothesis) == {which}",
    }
    outcome = f"{spec.observed}[{rows}]"
    if not spec.states:
        return nodes | {outcome: _switched(spec, which)}
    return nodes | {"chance[hypothesis, state]": nested(spec.table), outcome: f"Categorical(chance[{which}, state])"}


def dims_of(spec: Hypotheses) -> dict[str, Any]:
    """Dimensions of the nodes: the hypotheses, and the values that are observed."""
    dims: dict[str, Any] = {"hypothesis": list(spec.hypotheses)}
    return dims | ({"state": spec.states, spec.observed: spec.states} if spec.states else {})


def _switched(spec: Hypotheses, which: str) -> str:
    """One distribution with the parameters of the true hypothesis."""
    calls = [hypothesis.call for hypothesis in spec.hypotheses.values()]
    words = {str(call_name(call)) for call in calls}
    given = [bound_arguments(call, str(call_name(call))) for call in calls]
    if len(words) > 1 or len({frozenset(g) for g in given}) > 1:
        raise ModelError(
            "the hypotheses have different distributions: they are weighed by method exact, but new observations are"
            " drawn, and other methods apply, only where each has the same distribution with the same parameters",
            path=("model", "hypotheses"),
            code="unsupported",
        )
    parts = [f"{key}=[{', '.join(ast.unparse(g[key]) for g in given)}][{which}]" for key in given[0]]
    return f"{words.pop()}({', '.join(parts)})"
