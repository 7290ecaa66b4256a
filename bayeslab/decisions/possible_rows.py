"""The rows of decision rules that can occur."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.decisions.influence import InfluenceDiagram, Policy, under_policy
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["possible_rows"]


def possible_rows(
    diagram: InfluenceDiagram, policy: Policy, given: Mapping[str, Any] | None = None
) -> dict[str, list[dict[str, str]]]:
    """Return, for each decision, the rows of its rule that have positive probability under the policy.

    Parameters
    ----------
    policy
        The best policy given this, from :func:`bayeslab.decisions.influence.solve`.
    given
        What is known, and decisions already taken.
    """
    known = given or {}
    followed = under_policy(diagram, policy.rules)
    tables, parents = dict(followed.tables), dict(followed.parents)
    for taken in followed.decisions:
        tables[taken] = np.eye(len(diagram.states[taken]))[diagram.states[taken].index(known[taken])]
        parents[taken] = ()
    states = {v: diagram.states[v] for v in tables}
    tree = JunctionTree.of(DiscreteNetwork(states, {v: parents[v] for v in tables}, tables))
    column = {v: k for k, v in enumerate(states)}
    base = np.full(len(states), -1)
    for v, state in known.items():
        if isinstance(state, str):
            base[column[v]] = states[v].index(state)
    out = {}
    for d, rule in policy.rules.items():
        rows = rule.rows()
        codes = np.tile(base, (len(rows), 1))
        for i, row in enumerate(rows):
            for v in rule.known:
                codes[i, column[v]] = states[v].index(row[v])
        chances = tree.log_evidence_of(codes)
        out[d] = [row for row, chance in zip(rows, chances, strict=True) if np.isfinite(chance)]
    return out
