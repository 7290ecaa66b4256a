"""XMLBIF 0.3, as written by JavaBayes, Weka, AISpace and others: ``.xml``, ``.xmlbif``, ``.bifxml``.

The table of a variable lists, for each combination of its GIVEN variables in order (the last one
changing fastest), the probabilities of its own states.

References
----------
.. [1] Cozman (1998). The Interchange Format for Bayesian Networks, XMLBIF version 0.3.
"""

from __future__ import annotations

import re

from bayeslab.formats.bif import notes_of, property_texts
from bayeslab.formats.nodes import File, Node, Renaming, decimal, network_of, numbers, pairs, renamed
from bayeslab.formats.xml import Element, content, holdable, parse
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["read", "write"]

# Without the DTD, which pyAgrum's reader cannot parse and no reader needs.
_HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<BIF VERSION="0.3">
<NETWORK>"""


# Properties that aGrUM adds to each variable: its outcomes again, and a description that may be empty.
_AGRUM = re.compile(r"fast\s*=|description\s*=\s*$")


def read(file: File) -> DiscreteNetwork:
    """Return the network of an XMLBIF file."""
    root = parse(file)
    network = root.only(file, "network") if root.tag == "bif" else None
    if network is None:
        given = "<bif> without <network>" if root.tag == "bif" else f"<{root.tag[:40]}>"
        also = "; a <smile> file is read as .xdsl" if root.tag == "smile" else ""
        raise file.error(f"an XMLBIF file is <bif><network>...; this one is {given}{also}", root.line, code="malformed")
    definitions: dict[str, Element] = {}
    for definition in network.all("definition", "probability"):
        target = _one(file, definition, "for", "the variable it is for")
        if target in definitions:
            raise file.error(f"the table of '{target}' occurs twice", definition.line, code="duplicate")
        definitions[target] = definition
    nodes = []
    properties = {"": [p.text for p in network.all("property")]}
    for variable in network.all("variable"):
        name = _one(file, variable, "name", "a name")
        kind = variable.attributes.get("TYPE", variable.attributes.get("type", "nature"))
        if kind in ("decision", "utility"):
            raise file.error(
                f"'{name}' is a {kind} node: an influence diagram, not a Bayes net", variable.line, code="unsupported"
            )
        states = tuple(outcome.text for outcome in variable.all("outcome", "value"))
        properties[name] = [p.text for p in variable.all("property") if not _AGRUM.match(p.text)]
        nodes.append(_node(file, name, states, variable, definitions.pop(name, None)))
    for name, definition in definitions.items():
        raise file.error(f"'{name}' has a table but is not a variable", definition.line, code="unknown-variable")
    title = network.first("name")
    return network_of(file, nodes, title.text if title else "", notes_of(properties))


def _one(file: File, element: Element, tag: str, what: str) -> str:
    children = element.all(tag)
    if len(children) != 1:
        raise file.error(
            f"a <{element.tag}> needs {what}, once; here are {len(children)} <{tag}>", element.line, code="malformed"
        )
    return children[0].text


def _node(file: File, name: str, states: tuple[str, ...], variable: Element, definition: Element | None) -> Node:
    if definition is None:
        return Node(name, states, line=variable.line)
    parents = tuple(given.text for given in definition.all("given"))
    table = definition.only(file, "table")
    if table is None:
        return Node(name, states, parents, line=definition.line)
    values = numbers(file, table.raw.split(), f"the table of '{name}'", table.line)
    return Node(name, states, parents, values, table.line)


def write(network: DiscreteNetwork) -> tuple[str, list[str]]:
    """Return the text of an XMLBIF file, and remarks."""
    network, remarks = held(network, "XML")
    out = [_HEAD, content("NAME", network.name)]
    out += [content("PROPERTY", text) for text in property_texts(network, "")]
    for v, states in network.states.items():
        out += ["", '<VARIABLE TYPE="nature">', f"  {content('NAME', v)}"]
        out += [f"  {content('OUTCOME', state)}" for state in states]
        out += [f"  {content('PROPERTY', text)}" for text in property_texts(network, v)]
        out.append("</VARIABLE>")
    for v, above in network.parents.items():
        out += ["", "<DEFINITION>", f"  {content('FOR', v)}"]
        out += [f"  {content('GIVEN', p)}" for p in above]
        rows = network.tables[v].reshape(-1, len(network.states[v]))
        out.append("  <TABLE>")
        out += ["    " + " ".join(decimal(row)) for row in rows]
        out += ["  </TABLE>", "</DEFINITION>"]
    out += ["</NETWORK>", "</BIF>"]
    if network.notes.get("labels"):
        remarks.append("XMLBIF has no place for the labels of variables; they are left out")
    return "\n".join(out) + "\n", remarks


def held(network: DiscreteNetwork, what: str) -> tuple[DiscreteNetwork, list[str]]:
    """Return the network with names that XML can represent, and a remark if names were changed."""
    variables = _distinct(list(network.states))
    states = {v: _distinct(list(levels)) for v, levels in network.states.items()}
    changed = {name: word for names in (variables, *states.values()) for name, word in names.items() if name != word}
    if not changed:
        return network, []
    remark = f"{what} cannot hold control characters; names were changed: {pairs(changed)}"
    return renamed(network, Renaming(variables, states)), [remark]


def _distinct(names: list[str]) -> dict[str, str]:
    out = {name: name for name in names if holdable(name) == name}
    for name in names:
        if name not in out:
            trial = holdable(name)
            while trial in out.values():
                trial += "_"
            out[name] = trial
    return out
