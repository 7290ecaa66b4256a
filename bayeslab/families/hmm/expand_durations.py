"""Expand the durations of hidden states: a table for each state, given or computed from a law."""

from __future__ import annotations

from typing import Any

from bayeslab.language.expansion import nested, number
from bayeslab.latents.chains.durations import DurationChain

__all__ = ["duration_nodes"]


def duration_nodes(chain: DurationChain) -> tuple[dict[str, str], dict[str, Any], dict[str, str]]:
    """Nodes of the durations of states, their dimensions and their comments.

    The node ``durations`` (states, lengths) holds the probabilities of lasting 1, 2, ... rows.
    """
    table, length = "durations[state, length]", {"length": chain.longest}
    if chain.word == "table":
        text = nested(chain.given["duration"]) if chain.given else f"Dirichlet({number(chain.pseudocount)})"
        return {table: text}, length, {table: "Probabilities of lasting 1, 2, ... rows, for each state."}
    priors = {"duration_mu": f"Gamma(1, {number(2 / chain.longest)})", "duration_alpha": "Gamma(2, 0.1)"}
    nodes = {
        f"{name}[state]": nested(chain.given[name]) if chain.given else priors[name] for name in chain.of_durations
    }
    if chain.word == "poisson":
        weight = "index(length) * log(duration_mu) - gammaln(index(length) + 1)"
        law = "Poisson"
    else:
        weight = (
            "gammaln(index(length) + duration_alpha) - gammaln(index(length) + 1)"
            " + index(length) * (log(duration_mu) - log(duration_mu + duration_alpha))"
        )
        law = "negative binomial"
    nodes["duration_weight[state, length]"] = weight
    nodes[table] = "softmax(duration_weight, length)"
    comments = {
        f"{chain.of_durations[0]}[state]": "Mean number of rows that a state lasts beyond the first.",
        "duration_weight[state, length]": f"The logarithm of a {law} law of that number, but for a constant.",
        table: "Probabilities of lasting 1, 2, ... rows, for each state.",
    }
    return nodes, length, comments
