"""``bayeslab decide``: the best policy of an influence diagram."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bayeslab.cli._shared import JsonOption, output, print_json


def command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="A model file of a bayes_net with decisions and utilities.", show_default=False
        ),
    ],
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--given", "-g", metavar="NODE=STATE", help="What is known already, or a decision that has been taken."
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """What to do, given what will be known by then; and what it is worth to know more."""
    from bayeslab.decisions import influence
    from bayeslab.io import modelfile
    from bayeslab.networks import decisions

    asked = decisions(file)
    known: dict[str, Any] = {}
    for word in given or []:
        name, equals, state = word.partition("=")
        if not equals:
            raise typer.BadParameter(f"--given takes NODE=STATE, not '{word}'")
        known[name.strip()] = modelfile.parse_value(state) if state.startswith("{") else state.strip()
    policy = influence.solve(asked, known)
    remaining = [d for d in asked.decisions if d not in known]
    options = influence.expected_utilities(asked, known) if remaining else {}
    worth = influence.information_values(asked, known)
    if json:
        print_json(
            {
                "given": known,
                "expected_utility": policy.expected_utility,
                "policy": {d: rule.rows() for d, rule in policy.rules.items()},
                "options": {remaining[0]: options} if remaining else {},
                "value_of_information": [
                    {"decision": d, "variable": v, "value": value} for (d, v), value in worth.items()
                ],
            }
        )
        return
    lines = [f"expected utility  {policy.expected_utility:.6g}"]
    for d, rule in policy.rules.items():
        lines += ["", f"{d}:"]
        for row in rule.rows():
            seen = ", ".join(f"{name}={state}" for name, state in row.items() if name != d)
            lines.append(f"  {row[d]}" + (f"  if {seen}" if seen else ""))
    if len(remaining) > 0:
        lines += ["", f"options of {remaining[0]}, what comes after done well:"]
        lines += [f"  {option}  {value:.6g}" for option, value in options.items()]
    gains = [(d, v, value) for (d, v), value in worth.items() if value > 1e-12]
    if gains:
        lines += ["", "worth of knowing more first:"]
        lines += [f"  {v} before {d}  {value:.6g}" for d, v, value in gains]
    output(None, "\n".join(lines))
