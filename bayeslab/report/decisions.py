"""An influence diagram: its drawing, the best rules, what they are worth, and the same given each single finding."""

from __future__ import annotations

from collections.abc import Mapping

import networkx as nx

from bayeslab.decisions.influence import InfluenceDiagram, expected_utilities, information_values, solve
from bayeslab.decisions.possible_rows import possible_rows
from bayeslab.errors import BayeslabError
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.networks import Network
from bayeslab.plots.network_svg import influence_svg
from bayeslab.report.explorer import looked_up
from bayeslab.report.markup import EMPTY, Markup, element, fits_page, joined, paragraph, table
from bayeslab.report.single_findings import single_findings

__all__ = ["decisions_panel"]

# Maximum numbers of findings with answers of their own, and of rows of a rule.
_FINDINGS, _ROWS = 100, 200


def decisions_panel(diagram: InfluenceDiagram) -> Markup:
    """The diagram, the best rule of each decision, expected utilities, findings to click on, values of information.

    Raises
    ------
    EngineRefusal
        The diagram is too large to solve.
    """
    policy = solve(diagram)
    drawn = element(
        "div",
        # The drawing escapes all names.
        Markup(influence_svg(diagram, policy)),
        class_="graph",
        tabindex=0,
        role="group",
        aria_label="influence diagram with probabilities and utilities",
    )
    caption = element(
        "figcaption",
        "Chance variables are rounded boxes, decisions rectangles, utilities hexagons. A dashed arrow comes from what"
        " is known when a decision is taken. The probabilities are those under the best rules.",
    )
    buttons, answers = _findings(diagram)
    return joined(
        [
            element("figure", drawn, caption),
            element("h2", "Best decisions"),
            buttons,
            element("div", _answer(diagram, {}), data_finding=-1),
            *answers,
            element("h2", "Value of information"),
            _values(diagram),
        ]
    )


def _answer(diagram: InfluenceDiagram, given: Mapping[str, str]) -> Markup:
    """The expected utility, the options of the first decision and the rules, given a finding or nothing."""
    policy = solve(diagram, given)
    first = diagram.decisions[0]
    finding = "".join(f" given {name} = {state}" for name, state in given.items())
    options = expected_utilities(diagram, given)
    parts = [
        paragraph(f"Expected utility of the best decisions{finding}: {policy.expected_utility:.6g}", class_="answer"),
        table(
            [first, "expected utility"],
            [(option, f"{value:.6g}") for option, value in options.items()],
            caption=f"Options of {first}{finding}, whatever else is observed before it, with the best later decisions",
        ),
    ]
    for decision, rows in possible_rows(diagram, policy, given).items():
        conditions = list(policy.rules[decision].known)
        some = f" (the first {_ROWS} of {len(rows):,} rows)" if len(rows) > _ROWS else ""
        parts.append(
            table(
                [*conditions, f"best option of {decision}"],
                [[row[name] for name in (*conditions, decision)] for row in rows[:_ROWS]],
                caption=f"Best rule of {decision}{finding}{some}",
                class_="words",
            )
        )
    return joined(parts)


def _findings(diagram: InfluenceDiagram) -> tuple[Markup, list[Markup]]:
    """Buttons for the chance variables that no decision affects, and the answer given each of their states."""
    affected = set().union(*(nx.descendants(diagram.graph, d) for d in diagram.decisions))
    names = [name for name in diagram.states if name in diagram.tables and name not in affected]
    if not names:
        return paragraph("All chance variables depend on decisions: none can be observed first.", class_="mute"), []
    states = {name: diagram.states[name] for name in names}
    count = sum(map(len, states.values()))
    if count > _FINDINGS:
        return paragraph(
            f"The page has no buttons for {count:,} states; use bayeslab decide --given.", class_="mute"
        ), []
    parents, tables = {name: diagram.parents[name] for name in names}, {name: diagram.tables[name] for name in names}
    plain = DiscreteNetwork(states, parents, tables, diagram.name)
    try:
        findings = single_findings(Network(plain))
    except BayeslabError as error:
        return paragraph(f"There are no buttons: {error.message}.", class_="mute"), []
    about = paragraph(
        "Click on a state to observe it before the first decision, and again to take it back. The page holds the"
        " answers to single findings; for several, or decisions already taken, use ",
        element("code", "bayeslab decide --given"),
        ".",
    )
    note = paragraph("Without JavaScript the buttons have no effect.", class_="mute noscript")
    every = [(name, state) for name in names for state in states[name]]
    answers = [
        element("div", _answer(diagram, {name: state}), data_finding=k, hidden=True)
        for k, (name, state) in enumerate(every)
        if k not in findings.impossible
    ]
    buttons = joined([about, looked_up(states, findings), note])
    if not fits_page(joined([buttons, *answers])):
        return paragraph(
            "The rules given findings are too long for a page; use bayeslab decide --given.", class_="mute"
        ), []
    return buttons, answers


def _values(diagram: InfluenceDiagram) -> Markup:
    worth = information_values(diagram)
    if not worth:
        return paragraph("There is nothing more that could be known before a decision.", class_="mute")
    about = paragraph(
        "How much the expected utility rises if a variable is known before a decision: the largest price worth paying,"
        " if utility is money. The drawing and these values are without findings."
    )
    rows = [(name, decision, f"{value:.6g}") for (decision, name), value in worth.items()][:_ROWS]
    some = f" (the first {_ROWS} of {len(worth):,})" if len(worth) > _ROWS else EMPTY
    return joined([about, table(["variable", "before", "value"], rows, caption=f"Value of knowing more first{some}")])
