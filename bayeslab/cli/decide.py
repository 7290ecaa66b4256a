"""``bayeslab decide``: the best policy of an influence diagram."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bayeslab.cli.toolbox.shared import JsonOption, evidence, output, print_json


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
    from bayeslab.decisions.possible_rows import possible_rows
    from bayeslab.networks import decisions

    asked = decisions(file)
    known = evidence(given or [], asked.states, asked.states, form="NODE=STATE")
    policy = influence.solve(asked, known)
    rules = possible_rows(asked, policy, known)
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
