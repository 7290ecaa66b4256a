"""NET, the language of HUGIN: ``.net``.

The numbers of a potential are nested in parentheses, one level for each parent in order and the node
itself innermost; only their order matters. Names of nodes are identifiers; other names are stored as the
label and in an additional attribute, as the language allows.

References
----------
.. [1] HUGIN Expert. HUGIN API Reference Manual, chapter "The NET language".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from bayeslab.errors import hint
from bayeslab.formats.nodes import (
    File,
    Node,
    Notes,
    decimal,
    identifiers,
    network_of,
    numbers,
    pairs,
    position_of,
    quoted,
    storable,
)
from bayeslab.formats.scanner import NET_COMMENTS, Scanner, unquoted
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["read", "write"]

_NAME = "bayeslab_name"
# Other attributes are left as they are.
_READ = frozenset(("states", "data", "model_data", _NAME))
_SYMBOLS = "{}()=;|,"
_LANGUAGE = """class continuous data decision discrete function instance model_data model_nodes net node normal
potential states utility"""
_RESERVED = frozenset(_LANGUAGE.split())


@dataclass
class _Block:
    """The attributes of a node or potential: the words between ``=`` and ``;``."""

    line: int
    attributes: dict[str, list[str]] = field(default_factory=dict)

    def text(self, key: str) -> str:
        words = self.attributes.get(key, [])
        return unquoted(words[0]) if words else ""


def read(file: File) -> DiscreteNetwork:
    """Return the network of a HUGIN NET file."""
    scan = Scanner(file, _SYMBOLS, NET_COMMENTS)
    name = ""
    variables: dict[str, _Block] = {}
    potentials: dict[str, tuple[tuple[str, ...], _Block]] = {}
    in_class = False
    while not scan.done:
        match scan.take():
            case "net":
                name = _attributes(scan).text("name")
            case "class":
                name, in_class = scan.name("the class's name"), True
                scan.expect("{")
            case "}" if in_class:
                in_class = False
            case "discrete" | "node" as word:
                if word == "discrete":
                    scan.expect("node")
                key = scan.name("a node's name")
                if key in variables:
                    raise scan.error(f"node '{key}' occurs twice", code="duplicate")
                variables[key] = _attributes(scan)
            case "potential":
                child, above, block = _potential(scan)
                if child in potentials:
                    raise file.error(f"the potential of '{child}' occurs twice", block.line, code="duplicate")
                potentials[child] = above, block
            case "decision" | "utility" as word:
                raise scan.error(
                    f"'{scan.peek()[:40]}' is a {word} node: an influence diagram, not a Bayes net", code="unsupported"
                )
            case "continuous" | "function" | "instance" as word:
                raise scan.error(f"a {word} node; only nets of discrete nodes are read", code="unsupported")
            case word if in_class and scan.peek() == "=":
                scan.until(";")
            case word:
                raise scan.error(
                    f"'{word[:40]}' does not begin a block; there are net, node, potential", code="malformed"
                )
    if in_class:
        raise scan.error("the file ends before the '}' of its class", back=0, code="malformed")
    names = {key: block.text(_NAME) or key for key, block in variables.items()}
    for key, (above, block) in potentials.items():
        for word in (key, *above):
            if word not in names:
                raise file.error(
                    f"'{word}', in a potential, is not a node{hint(word, names)}", block.line, code="unknown-variable"
                )
    nodes = [_node(file, key, block, names, potentials.get(key)) for key, block in variables.items()]
    places = {names[k]: " ".join(block.attributes.get("position", ())) for k, block in variables.items()}
    positions = {v: position_of(f"position = {place}") for v, place in places.items()}
    labels = {names[k]: b.text("label") for k, b in variables.items()}
    notes: Notes = {
        "positions": {v: place for v, place in positions.items() if place},
        "labels": {v: label for v, label in labels.items() if label and label != v},
    }
    return network_of(file, nodes, name, notes)


def _attributes(scan: Scanner) -> _Block:
    block = _Block(scan.line)
    scan.expect("{")
    while (key := scan.take("'}'")) != "}":
        if key in block.attributes and key in _READ:
            raise scan.error(f"'{key}' occurs twice in one block", code="duplicate")
        scan.expect("=")
        block.attributes[key] = scan.until(";")
    return block


def _potential(scan: Scanner) -> tuple[str, tuple[str, ...], _Block]:
    scan.expect("(")
    words = [word for word in scan.until(")") if word != ","]
    children, above = (words[: words.index("|")], words[words.index("|") + 1 :]) if "|" in words else (words, [])
    if len(children) != 1:
        raise scan.error(f"a potential is of one node; here are {len(children)}", code="unsupported")
    line = scan.line
    block = _attributes(scan)
    block.line = line
    return unquoted(children[0]), tuple(map(unquoted, above)), block


def _node(
    file: File, key: str, block: _Block, names: dict[str, str], potential: tuple[tuple[str, ...], _Block] | None
) -> Node:
    states = tuple(unquoted(word) for word in block.attributes.get("states", ()) if word not in "(),")
    if potential is None:
        return Node(names[key], states, line=block.line)
    above, table = potential
    words = table.attributes.get("data")
    if words is None and "model_data" in table.attributes:
        raise file.error(
            f"the table of '{key}' is an expression (model_data); save it with its numbers",
            table.line,
            code="unsupported",
        )
    values = None
    if words is not None:
        values = numbers(file, [word for word in words if word not in "(),"], f"the data of '{key}'", table.line)
    return Node(names[key], states, tuple(names[p] for p in above), values, table.line)


def write(network: DiscreteNetwork) -> tuple[str, list[str]]:
    """Return the text of a NET file, and remarks."""
    ids = identifiers(list(network.states), _RESERVED)
    remarks = []
    out = ["net", "{", f"  name = {quoted(storable(network.name))};", "  node_size = (80 40);", "}"]
    for v, levels in network.states.items():
        out += ["", f"node {ids[v]}", "{"]
        out.append(f"  states = ({' '.join(quoted(storable(s)) for s in levels)});")
        out.append(f"  label = {quoted(storable(network.notes.get('labels', {}).get(v) or v))};")
        if place := network.notes.get("positions", {}).get(v):
            out.append(f"  position = ({place[0]:.10g} {place[1]:.10g});")
        if ids[v] != v:
            out.append(f"  {_NAME} = {quoted(storable(v))};")
        out.append("}")
    for v, above in network.parents.items():
        given = f" | {' '.join(ids[p] for p in above)}" if above else ""
        out += ["", f"potential ({ids[v]}{given})", "{", f"  data = {_nested(network.tables[v])};", "}"]
    if any(name != word for name, word in ids.items()):
        remarks.append(f"NET has identifiers for names, kept beside them as label: {pairs(ids)}")
    if network.notes.get("properties"):
        remarks.append("the properties of variables are left out")
    return "\n".join(out) + "\n", remarks


def _nested(table: np.ndarray) -> str:
    """Return the numbers with one pair of parentheses per axis and one row per line."""
    rows = [" ".join(decimal(row)) for row in table.reshape(-1, table.shape[-1])]
    sizes = table.shape[:-1]
    out = []
    for i, row in enumerate(rows):
        opened = closed = 1
        step = 1
        for size in reversed(sizes):
            step *= size
            opened += i % step == 0
            closed += (i + 1) % step == 0
        out.append(f"{'(' * opened:>{table.ndim}}{row}{')' * closed}")
    return "\n         ".join(out)
