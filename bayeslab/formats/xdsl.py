"""XDSL, the format of GeNIe and SMILE: ``.xdsl``.

Tables list, for each combination of the parents in order (the last one changing fastest), the
probabilities of the node's own states. Identifiers are ``[A-Za-z][A-Za-z0-9_]*``; other names are stored
in user properties, which GeNIe preserves.

aGrUM/pyAgrum (3.3) writes files, and reads files by GeNIe, with the first parent changing fastest. Its
files are recognised by their ``app`` attribute and read in that order.

References
----------
.. [1] BayesFusion. SMILE Programmer's Manual, appendix "XDSL file format".
.. [2] Diez (1993). Parameter adjustment in Bayes networks: the generalized noisy OR-gate. UAI 9 (noisy-MAX).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import networkx as nx
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
    states_of,
    storable,
    table_shape,
    whole,
)
from bayeslab.formats.xml import Element, attribute, content, parse
from bayeslab.formats.xmlbif import held
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["XdslNode", "read", "read_xdsl_nodes", "write"]

_DISCRETE = ("cpt", "deterministic", "noisymax")
_DIAGRAM = ("decision", "utility", "mau")
_NUMBERS = {"cpt": "probabilities", "noisymax": "parameters", "utility": "utilities", "mau": "weights"}

_NAME, _STATES = "bayeslab_name", "bayeslab_states"

# Half the size of a node's box in GeNIe, in pixels.
_HALF_WIDTH, _HALF_HEIGHT = 40, 20

_PROPERTY = re.compile(r"([A-Za-z]\w*) = (.*)", re.ASCII | re.DOTALL)


@dataclass(frozen=True)
class XdslNode:
    """A node as stored in the file.

    Parameters
    ----------
    kind : str
        ``cpt``, ``deterministic``, ``noisymax``, ``decision``, ``utility``, ``mau``, or another element.
    name : str
    states, parents : tuple of str
    values : tuple of float
        Probabilities, noisy-MAX parameters, utilities or weights; the node's own state changes fastest,
        then the last parent.
    results : tuple of int
        The state of a deterministic node for each combination of its parents.
    strengths : tuple of int
        The order of the parents' states in a noisy-MAX.
    line : int
    label : str
        The title in GeNIe, if it differs from the name.
    position : pair of float or None
        Centre of the node in GeNIe's drawing.
    """

    kind: str
    name: str
    states: tuple[str, ...]
    parents: tuple[str, ...]
    values: tuple[float, ...]
    results: tuple[int, ...]
    strengths: tuple[int, ...]
    line: int
    label: str = ""
    position: tuple[float, float] | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def read_xdsl_nodes(file: File) -> tuple[str, list[XdslNode]]:
    """Return the name of a network or influence diagram, and its nodes as stored in the file."""
    root = parse(file)
    if root.tag != "smile":
        also = "; a <bif> file is read as .xml or .xmlbif" if root.tag == "bif" else ""
        raise file.error(
            f"an XDSL file is <smile><nodes>...; this one is <{root.tag[:40]}>{also}", root.line, code="malformed"
        )
    body = root.only(file, "nodes")
    if body is None:
        raise file.error("there is no <nodes> in this file", root.line, code="malformed")
    genie = next((e for e in root.walk() if e.tag == "genie"), None)
    drawn = {e.attributes.get("id", ""): e for e in genie.walk() if e.tag == "node"} if genie else {}
    program = genie.attributes.get("app", "") if genie else ""
    ids = [_id(file, element) for element in body.children]
    names = {key: _properties(element).get(_NAME, key) for key, element in zip(ids, body.children, strict=True)}
    nodes = {
        key: _node(file, key, element, names, drawn.get(key)) for key, element in zip(ids, body.children, strict=True)
    }
    if len(nodes) < len(ids):
        twice = next(key for i, key in enumerate(ids) if key in ids[:i])
        raise file.error(f"node '{twice}' occurs twice", body.children[ids.index(twice)].line, code="duplicate")
    if program.startswith("aGrUM"):
        sizes = {node.name: len(node.states) for node in nodes.values()}
        nodes = {key: _last_parent_fastest(node, sizes) for key, node in nodes.items()}
    if program.startswith("bayeslab"):
        nodes = _as_written(nodes, list(drawn))
    title = genie.attributes.get("name", "") if genie else ""
    return title or root.attributes.get("id", ""), list(nodes.values())


def _as_written(nodes: dict[str, XdslNode], drawn: list[str]) -> dict[str, XdslNode]:
    """For a file by bayeslab: return the nodes in the order of the drawing, without invented positions."""
    order = [key for key in drawn if key in nodes]
    ranks = {key: rank for rank, key in enumerate(order)}
    return {
        key: replace(nodes[key], position=None) if nodes[key].position == _grid(ranks.get(key, -1)) else nodes[key]
        for key in [*order, *(key for key in nodes if key not in ranks)]
    }


def _grid(rank: int) -> tuple[float, float]:
    """Return a grid position for a node without a position."""
    return 100.0 + 120 * (rank % 8), 60.0 + 80 * (rank // 8)


def _id(file: File, element: Element) -> str:
    if "id" not in element.attributes:
        raise file.error(f"a <{element.tag}> needs an id", element.line, code="malformed")
    return element.attributes["id"]


def _properties(element: Element) -> dict[str, str]:
    return {p.attributes.get("id", ""): p.text for p in element.all("property")}


def _node(file: File, key: str, element: Element, names: Mapping[str, str], drawn: Element | None) -> XdslNode:
    ids = [_id(file, state) for state in element.all("state")]
    properties = _properties(element)
    states = _kept_states(properties.get(_STATES), ids)
    parents = element.words(file, "parents")
    for parent in parents:
        if parent not in names:
            raise file.error(
                f"'{parent}', a parent of '{key}', is not a node{hint(parent, names)}",
                element.line,
                code="unknown-variable",
            )
    tag = _NUMBERS.get(element.tag)
    values = numbers(file, element.words(file, tag), f"<{tag}> of '{key}'", element.line) if tag else []
    results = element.words(file, "resultingstates")
    for word in results:
        if word not in ids:
            raise file.error(
                f"'{word}', in <resultingstates>, is not a state of '{key}'{hint(word, ids)}",
                element.line,
                code="unknown-state",
            )
    strengths = element.words(file, "strengths")
    for word in strengths:
        if whole(word) is None:
            raise file.error(
                f"'{word[:40]}', in <strengths> of '{key}', is not the number of a state",
                element.line,
                code="unknown-state",
            )
    return XdslNode(
        element.tag,
        names[key],
        states,
        tuple(names[p] for p in parents),
        tuple(values),
        tuple(ids.index(word) for word in results),
        tuple(int(s) for s in strengths),
        element.line,
        _label(drawn, names[key]),
        _position(drawn),
        {k: v for k, v in properties.items() if k not in (_NAME, _STATES)},
    )


def _kept_states(kept: str | None, ids: list[str]) -> tuple[str, ...]:
    """Return the names of states, each by its identifier: in GeNIe states may be moved, added and renamed."""
    try:
        names = json.loads(kept) if kept else []
    except (ValueError, RecursionError):
        names = []
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return tuple(ids)
    kept_names = {word: storable(name) for name, word in identifiers(names, letter_first=True).items()}
    return tuple(kept_names.get(word, word) for word in ids)


def _label(drawn: Element | None, name: str) -> str:
    title = drawn.first("name") if drawn else None
    return title.text if title and title.text != name else ""


def _position(drawn: Element | None) -> tuple[float, float] | None:
    try:
        words = drawn.first("position") if drawn else None
        left, top, right, bottom = map(float, words.raw.split() if words else ())
    except ValueError:
        return None
    place = (left + right) / 2, (top + bottom) / 2
    return place if all(map(math.isfinite, place)) else None


def _last_parent_fastest(node: XdslNode, sizes: Mapping[str, int]) -> XdslNode:
    shape = (*(sizes[p] for p in reversed(node.parents)), len(node.states))
    if node.kind != "cpt" or len(node.values) != math.prod(shape):
        return node
    n = len(node.parents)
    table = np.reshape(node.values, shape).transpose(*reversed(range(n)), n)
    return replace(node, values=tuple(table.ravel().tolist()))


def read(file: File) -> DiscreteNetwork:
    """Return the Bayes net of an XDSL file."""
    name, xdsl_nodes = read_xdsl_nodes(file)
    for node in xdsl_nodes:
        if node.kind in _DIAGRAM:
            raise file.error(
                f"'{node.name}' is a {node.kind} node: an influence diagram, not a Bayes net",
                node.line,
                code="unsupported",
            )
        if node.kind not in _DISCRETE:
            raise file.error(
                f"'{node.name}' is a node of kind <{node.kind}>; read are {', '.join(_DISCRETE)}",
                node.line,
                code="unsupported",
            )
    plain = [Node(n.name, n.states, n.parents, n.values or None, n.line) for n in xdsl_nodes]
    states = states_of(file, plain)
    nodes = [
        node if xdsl.kind == "cpt" else _expanded(file, xdsl, node, table_shape(file, node, states))
        for xdsl, node in zip(xdsl_nodes, plain, strict=True)
    ]
    notes: Notes = {
        "positions": {n.name: n.position for n in xdsl_nodes if n.position},
        "labels": {n.name: n.label for n in xdsl_nodes if n.label},
        "properties": {
            n.name: tuple(f"{k} = {v}" for k, v in n.properties.items()) for n in xdsl_nodes if n.properties
        },
    }
    return network_of(file, nodes, name, notes)


def _expanded(file: File, xdsl: XdslNode, node: Node, shape: tuple[int, ...]) -> Node:
    if xdsl.kind == "noisymax":
        table = _noisy_max(file, xdsl, shape)
    else:
        if len(xdsl.results) != math.prod(shape[:-1]):
            raise file.error(
                f"<resultingstates> of '{node.name}' has {len(xdsl.results)} states; its parents make "
                f"{math.prod(shape[:-1])} combinations",
                node.line,
                code="wrong-length",
            )
        table = np.eye(shape[-1])[list(xdsl.results)]
    return Node(node.name, node.states, node.parents, table, node.line)


def _noisy_max(file: File, node: XdslNode, shape: tuple[int, ...]) -> np.ndarray:
    """Return the table of a noisy-MAX: the maximum of independent effects of the parents and the leak.

    The first state is the largest and the last state means no effect, so that P(X at or after state c)
    is the product of the corresponding probabilities over parents and leak.
    """
    *sizes, n_states = shape
    n_columns = sum(sizes) + 1
    if len(node.values) != n_columns * n_states:
        raise file.error(
            f"<parameters> of '{node.name}' has {len(node.values)} numbers; {n_columns} columns "
            f"(the states of its parents, and the leak) of {n_states} states make {n_columns * n_states}",
            node.line,
            code="wrong-length",
        )
    columns = np.reshape(node.values, (n_columns, n_states))
    if np.any(~np.isfinite(columns)) or np.any(columns < 0) or np.any(columns.sum(axis=1) == 0):
        raise file.error(
            f"<parameters> of '{node.name}' has a column that is not a distribution",
            node.line,
            code="not-probabilities",
        )
    columns = columns / columns.sum(axis=1, keepdims=True)
    # P(state c or later): these probabilities are multiplied.
    at_most = np.cumsum(columns[:, ::-1], axis=1)[:, ::-1]
    at_most[:, 0] = 1.0
    product = at_most[-1].reshape((1,) * len(sizes) + (n_states,))
    begin = 0
    for axis, size in enumerate(sizes):
        order = _column_order(file, node, axis, begin, size, columns[begin : begin + size])
        group = at_most[begin : begin + size][order]
        product = product * group.reshape((1,) * axis + (size,) + (1,) * (len(sizes) - axis - 1) + (n_states,))
        begin += size
    after = np.concatenate([product[..., 1:], np.zeros((*product.shape[:-1], 1))], axis=-1)
    return np.clip(np.broadcast_to(product - after, shape), 0.0, None)


def _column_order(file: File, node: XdslNode, axis: int, begin: int, size: int, columns: np.ndarray) -> list[int]:
    """Return the column that belongs to each state of a parent.

    ``strengths`` lists the parent's states from the strongest to the weakest; the weakest has no
    effect, so its column is (0, ..., 0, 1). If this order differs from the order of the states, the
    position of that column shows which order the columns have.
    """
    strengths = list(node.strengths[begin : begin + size]) or list(range(size))
    if sorted(strengths) != list(range(size)):
        raise file.error(
            f"<strengths> of '{node.name}' is not an order of the states of '{node.parents[axis]}'",
            node.line,
            code="malformed",
        )
    declared = list(range(size))
    if strengths == declared:
        return declared
    none = [i for i, column in enumerate(columns) if column[-1] == 1]
    by_state, by_strength = strengths[-1] in none, size - 1 in none
    ranks = [strengths.index(state) for state in declared]
    if by_state and not by_strength:
        return declared
    if by_strength and not by_state and ranks == strengths:
        return ranks
    if np.all(columns == columns[0]):
        return declared
    raise file.error(
        f"the order of the states of '{node.parents[axis]}' in the noisy-MAX '{node.name}' is ambiguous; "
        "save it as a table (CPT)",
        node.line,
        code="unsupported",
    )


def write(network: DiscreteNetwork) -> tuple[str, list[str]]:
    """Return the text of an XDSL file, and remarks."""
    network, remarks = held(network, "XML")
    ids = identifiers(list(network.states), letter_first=True)
    states = {v: identifiers(list(levels), letter_first=True) for v, levels in network.states.items()}
    rank = {v: i for i, v in enumerate(network.states)}
    title = identifiers([network.name], letter_first=True)[network.name]
    out = ['<?xml version="1.0" encoding="UTF-8"?>']
    out.append(f'<smile version="1.0" id="{title}" numsamples="10000" discsamples="10000">')
    out.append("  <nodes>")
    for v in nx.lexicographical_topological_sort(network.graph, rank.__getitem__):
        out += _cpt(network, v, ids, states[v])
    out += ["  </nodes>", "  <extensions>"]
    out.append(f'    <genie version="1.0" app="bayeslab" name={attribute(network.name)}>')
    for v in network.states:
        out += _drawn(network, v, ids[v], rank[v])
    out += ["    </genie>", "  </extensions>", "</smile>"]
    if any(name != word for name, word in ids.items()):
        remarks.append(f"XDSL has identifiers for names, kept beside them as properties: {pairs(ids)}")
    odd = {name: word for ids in states.values() for name, word in ids.items()}
    if any(name != word for name, word in odd.items()):
        remarks.append(f"XDSL has identifiers for states, their names kept as properties: {pairs(odd)}")
    if any(
        not v or not _PROPERTY.fullmatch(t) for v, texts in network.notes.get("properties", {}).items() for t in texts
    ):
        remarks.append("XDSL has properties of the form name = value, of nodes only; others are left out")
    return "\n".join(out) + "\n", remarks


def _cpt(network: DiscreteNetwork, v: str, ids: Mapping[str, str], states: Mapping[str, str]) -> list[str]:
    out = [f'    <cpt id="{ids[v]}">']
    out += [f'      <state id="{states[state]}" />' for state in network.states[v]]
    if network.parents[v]:
        out.append(f"      <parents>{' '.join(ids[p] for p in network.parents[v])}</parents>")
    out.append(f"      <probabilities>{' '.join(decimal(network.tables[v]))}</probabilities>")
    if ids[v] != v:
        out.append(_property(_NAME, v))
    if any(name != word for name, word in states.items()):
        out.append(_property(_STATES, json.dumps(list(network.states[v]), ensure_ascii=False)))
    matches = map(_PROPERTY.fullmatch, network.notes.get("properties", {}).get(v, ()))
    out += [_property(match[1], match[2]) for match in matches if match]
    out.append("    </cpt>")
    return out


def _property(key: str, text: str) -> str:
    return "      " + content("property", text).replace("<property", f'<property id="{key}"', 1)


def _drawn(network: DiscreteNetwork, v: str, key: str, rank: int) -> list[str]:
    x, y = network.notes.get("positions", {}).get(v) or _grid(rank)
    box = (x - _HALF_WIDTH, y - _HALF_HEIGHT, x + _HALF_WIDTH, y + _HALF_HEIGHT)
    return [
        f'      <node id="{key}">',
        f"        {content('name', network.notes.get('labels', {}).get(v) or v)}",
        '        <interior color="e5f6f7" />',
        '        <outline color="000080" />',
        '        <font color="000000" name="Arial" size="8" />',
        f"        <position>{' '.join(f'{edge:.0f}' for edge in box)}</position>",
        "      </node>",
    ]
