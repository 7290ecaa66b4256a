"""A Bayes net to click on: the page's script computes all posteriors exactly, by variable elimination.

Of larger networks the page has the posteriors given each single finding, computed beforehand.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence

import numpy as np

from bayeslab.errors import OptionError
from bayeslab.latents.networks.mixed_network import MixedNetwork
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.networks import Network
from bayeslab.report.markup import Markup, element, fits_page, joined, paragraph
from bayeslab.report.single_findings import SingleFindings, single_findings, too_large

__all__ = ["looked_up", "network_panel"]

# Maximum numbers of variables, of probabilities in all tables, and of cells of a table during elimination, that the
# page computes with.
_VARIABLES, _PROBABILITIES, _CELLS = 60, 30_000, 50_000


def network_panel(net: Network, share: float = 1.0) -> Markup:
    """The states of every variable as buttons with their probabilities.

    Parameters
    ----------
    share
        The part of the limits on time and size that a network too large for the page's script may use.

    Raises
    ------
    OptionError
        The network is not discrete and directed, or too large for a page.
    """
    plain = net.plain
    if isinstance(plain, MixedNetwork) and not plain.continuous:
        plain = DiscreteNetwork(plain.states, plain.parents, plain.tables, plain.name)
    if not isinstance(plain, DiscreteNetwork):
        raise OptionError("pages to click on are for discrete directed networks", code="not-applicable")
    names = list(plain.states)
    place = {name: k for k, name in enumerate(names)}
    sizes = [len(plain.states[name]) for name in names]
    scopes = [[*(place[parent] for parent in plain.parents[name]), place[name]] for name in names]
    cells = sum(int(np.size(plain.tables[name])) for name in names)
    if len(names) > _VARIABLES or cells > _PROBABILITIES or _largest(scopes, sizes) > _CELLS:
        about, made = _large(net, share)
    else:
        about, made = _computed(net, plain, scopes)
    note = paragraph("Without JavaScript the buttons have no effect.", class_="mute noscript")
    return joined([about, made, note])


def _computed(net: Network, plain: DiscreteNetwork, scopes: Sequence[Sequence[int]]) -> tuple[Markup, Markup]:
    """Buttons for any findings and interventions: the page has the tables of the network."""
    names = list(plain.states)
    answer = net.query()
    boxes = [
        _box(k, name, plain.states[name], [float(p) for p in answer[name].values()]) for k, name in enumerate(names)
    ]
    content = {
        "names": names,
        "sizes": [len(plain.states[name]) for name in names],
        "factors": [
            {"of": scope, "values": [float(f"{p:.15g}") for p in np.ravel(plain.tables[name])]}
            for scope, name in zip(scopes, names, strict=True)
        ],
    }
    about = (
        "Click on a state to observe it, and again to take it back. With “intervene” checked, the variable is set to"
        " the state instead, whatever its causes. The page computes all probabilities exactly."
    )
    made = element(
        "div",
        *boxes,
        element("p", "Nothing is observed.", class_="answer", aria_live="polite"),
        _value_of_information(names),
        class_="net",
        data_net=json.dumps(content, separators=(",", ":")),
    )
    return paragraph(about), made


def _large(net: Network, share: float) -> tuple[Markup, Markup]:
    """Buttons for one finding at a time."""
    about = (
        "Click on a state to observe it, and again to take it back. This network is too large to compute in a page,"
        " which therefore holds single findings only: the exact probabilities of all variables given one state of one"
        " variable, to four digits. For several findings at once, or an intervention, use ",
        element("code", "bayeslab query"),
        ".",
    )
    made = looked_up(net.states, single_findings(net, share))
    if not fits_page(made, share):
        raise too_large(net)
    return paragraph(*about), made


def looked_up(all_states: Mapping[str, Sequence[str]], findings: SingleFindings) -> Markup:
    """Buttons for one finding at a time, whose answers the page has, to four digits."""
    prior = iter(findings.prior / 1e4)
    boxes = [
        _box(k, name, states, [next(prior) for _ in states], intervene=False)
        for k, (name, states) in enumerate(all_states.items())
    ]
    sizes = [len(states) for states in all_states.values()]
    content = {"sizes": sizes, "impossible": findings.impossible, "table": findings.table}
    return element(
        "div",
        element("p", "Nothing is observed.", class_="answer", aria_live="polite"),
        element("ol", class_="changed"),
        *boxes,
        class_="net",
        data_singles=json.dumps(content, separators=(",", ":")),
    )


def _value_of_information(names: Sequence[str]) -> Markup:
    """A list of variables to ask about, and an empty list of what each other variable would tell about it."""
    options = [element("option", "none", value="")]
    options += [element("option", name, value=k) for k, name in enumerate(names)]
    about = (
        "The value of an observation is the expected reduction of the entropy of the variable asked about, in bits,"
        " given what is observed now."
    )
    return element(
        "div",
        element("label", "What should be observed next to learn about ", element("select", *options, data_query=True)),
        element("p", about, class_="mute small"),
        element("p", class_="entropy", aria_live="polite"),
        element("ol"),
        class_="value",
    )


def _box(k: int, name: str, states: Sequence[str], probabilities: Sequence[float], *, intervene: bool = True) -> Markup:
    buttons = [
        element(
            "button",
            element("span", state, class_="state"),
            element("span", element("span", style=f"width:{100 * p:.1f}%"), class_="bar"),
            element("span", f"{p:.4f}", class_="p"),
            type="button",
            data_variable=k,
            data_state=j,
            aria_pressed="false",
        )
        for j, (state, p) in enumerate(zip(states, probabilities, strict=True))
    ]
    check = element("label", element("input", type="checkbox", data_do=k), " intervene", class_="mute small")
    inside = [*buttons, check] if intervene else buttons
    return element(
        "div", element("div", name, class_="head"), *inside, class_="variable", role="group", aria_label=name
    )


def _largest(scopes: Sequence[Sequence[int]], sizes: Sequence[int]) -> int:
    """The largest table of an elimination in the order of the page: the smallest product next."""
    tables, left, most = [frozenset(scope) for scope in scopes], set(range(len(sizes))), 1
    while left:
        joint = {v: frozenset().union(*(t for t in tables if v in t)) for v in left}
        cells = {v: math.prod(sizes[u] for u in joint[v]) for v in left}
        first = min(left, key=lambda v: (cells[v], v))
        most = max(most, cells[first])
        tables = [t for t in tables if first not in t] + [joint[first] - {first}]
        left.remove(first)
    return most
