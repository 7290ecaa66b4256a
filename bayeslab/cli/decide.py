"""``bayeslab decide``: the best policy of an influence diagram."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bayeslab.cli.toolbox.shared import JsonOption, evidence, output, print_json

if TYPE_CHECKING:
    from bayeslab.decisions.influence import InfluenceDiagram, Policy


def command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A model file of a bayes_net with decisions and utilities.", show_default=False
        ),
    ],
    given: Annotated[
        list[str] | None,
        typer.Option("--given", "-g", metavar="NODE=STATE", help="An observed state, or a decision already taken."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Find the best rule for each decision, its expected utility, and the value of further information."""
    from bayeslab.decisions import influence
    from bayeslab.networks import decisions

    asked = decisions(file)
    known = evidence(given or [], asked.states, asked.states, form="NODE=STATE")
    policy = influence.solve(asked, known)
    rules = _possible(asked, known, policy)
    remaining = [d for d in asked.decisions if d not in known]
    options = influence.expected_utilities(asked, known) if remaining else {}
    worth = influence.information_values(asked, known)
    if json:
        print_json(
            {
                "given": known,
                "expected_utility": policy.expected_utility,
                "policy": rules,
                "options": {remaining[0]: options} if remaining else {},
                "value_of_information": [
                    {"decision": d, "variable": v, "value": value} for (d, v), value in worth.items()
                ],
            }
        )
        return
    lines = [f"expected utility  {policy.expected_utility:.6g}"]
    for d, rows in rules.items():
        lines += ["", f"{d}:"]
        for row in rows:
            conditions = ", ".join(f"{name}={state}" for name, state in row.items() if name != d)
            lines.append(f"  {row[d]}" + (f"  if {conditions}" if conditions else ""))
    if len(remaining) > 0:
        lines += ["", f"options of {remaining[0]}, what comes after done well:"]
        lines += [f"  {option}  {value:.6g}" for option, value in options.items()]
    gains = [(d, v, value) for (d, v), value in worth.items() if value > 1e-12]
    if gains:
        lines += ["", "worth of knowing more first:"]
        lines += [f"  {v} before {d}  {value:.6g}" for d, v, value in gains]
    output(None, "\n".join(lines))


def _possible(asked: InfluenceDiagram, known: Mapping[str, Any], policy: Policy) -> dict[str, list[dict[str, str]]]:
    """The rows of each decision rule that have positive probability under the policy."""
    import numpy as np

    from bayeslab.decisions.influence import under_policy
    from bayeslab.latents.networks.junction_tree import JunctionTree
    from bayeslab.latents.networks.network import DiscreteNetwork

    followed = under_policy(asked, policy.rules)
    tables, parents = dict(followed.tables), dict(followed.parents)
    for taken in followed.decisions:
        tables[taken] = np.eye(len(asked.states[taken]))[asked.states[taken].index(known[taken])]
        parents[taken] = ()
    states = {v: asked.states[v] for v in tables}
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
