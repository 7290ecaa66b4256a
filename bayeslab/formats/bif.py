"""BIF, the Interchange Format for Bayesian Networks: ``.bif``.

Names may be quoted; ``,`` and ``|`` are separators only. A row ``(states of the parents) p, ...`` names
its parent states, so rows may be in any order. A flat ``table`` of a variable with parents lists all
numbers of its first state, then of the second: the variable itself changes slowest. Some programs write
it with the variable changing fastest; that order is used if the rows sum to one only then.

References
----------
.. [1] Cozman (1997). The Interchange Format for Bayesian Networks, version 0.15.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from bayeslab.errors import hint
from bayeslab.formats.nodes import (
    ROUNDED,
    File,
    Node,
    check_sizes,
    decimal,
    network_of,
    position_of,
    quoted,
    states_of,
    storable,
    table_shape,
    whole,
)
from bayeslab.formats.scanner import C_COMMENTS, Scanner, unquoted
from bayeslab.formats.table_rows import TableBlock, rows_of
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["read", "write"]

_SYMBOLS = "{}()[],;|"
_KEYWORDS = {"network", "variable", "probability", "property", "type", "discrete", "default", "table"}


def read(file: File) -> DiscreteNetwork:
    """Return the network of a BIF file."""
    scan = Scanner(file, _SYMBOLS, C_COMMENTS)
    name = ""
    variables: dict[str, tuple[tuple[str, ...], int]] = {}
    blocks: dict[str, TableBlock] = {}
    properties: dict[str, list[str]] = {}
    while not scan.done:
        match scan.take().lower():
            case "network":
                name = scan.name("the network's name") if scan.peek() != "{" else ""
                properties[""] = _properties(scan)
            case "variable":
                variable, levels, line, texts = _variable(scan)
                if variable in variables:
                    raise file.error(f"variable '{variable}' occurs twice", line, code="duplicate")
                variables[variable], properties[variable] = (levels, line), texts
            case "probability":
                variable, block = _probability(scan)
                if variable in blocks:
                    raise file.error(f"the table of '{variable}' occurs twice", block.line, code="duplicate")
                blocks[variable] = block
            case word:
                raise scan.error(
                    f"'{word[:40]}' does not begin a block; there are network, variable, probability", code="malformed"
                )
    for variable, block in blocks.items():
        if variable not in variables:
            raise file.error(
                f"'{variable}' has a table but is not a variable{hint(variable, variables)}",
                block.line,
                code="unknown-variable",
            )
    nodes = [
        Node(v, levels, blocks[v].parents if v in blocks else (), None, blocks[v].line if v in blocks else line)
        for v, (levels, line) in variables.items()
    ]
    states = states_of(file, nodes)
    codes = {v: {s: i for i, s in enumerate(levels)} for v, levels in states.items()}
    check_sizes(file, (n for n in nodes if n.name in blocks), states)
    full = [_filled(file, n, blocks[n.name], states, codes) if n.name in blocks else n for n in nodes]
    return network_of(file, full, name, notes_of(properties))


def notes_of(properties: Mapping[str, Sequence[str]]) -> dict[str, dict[str, object]]:
    """Return the notes from properties, with positions parsed."""
    positions = {v: place for v, texts in properties.items() for text in texts if (place := position_of(text))}
    rest = {v: tuple(text for text in texts if not position_of(text)) for v, texts in properties.items()}
    return {"positions": dict(positions), "properties": {v: texts for v, texts in rest.items() if texts}}


def _properties(scan: Scanner) -> list[str]:
    scan.expect("{")
    out = []
    while scan.expect("property", "}") == "property":
        out.append(scan.raw_until(";"))
    return out


def _variable(scan: Scanner) -> tuple[str, tuple[str, ...], int, list[str]]:
    name = scan.name("a variable's name")
    line = scan.line
    states: tuple[str, ...] = ()
    texts: list[str] = []
    scan.expect("{")
    while (word := scan.take("'}'")) != "}":
        if word == "property":
            texts.append(scan.raw_until(";"))
        elif word == "type":
            if states:
                raise scan.error(f"variable '{name}' has its states twice", code="duplicate")
            states = _states(scan, name)
        else:
            raise scan.error(f"'{word[:40]}' is not an entry of a variable; there are type, property", code="malformed")
    return name, states, line, texts


def _states(scan: Scanner, name: str) -> tuple[str, ...]:
    kind = scan.take("'discrete'")
    if kind != "discrete":
        raise scan.error(f"variable '{name}' is '{kind[:40]}'; only discrete ones are read", code="unsupported")
    count = None
    if scan.accept("["):
        size = scan.take("the number of states")
        count = whole(size)
        if count is None:
            raise scan.error(f"'{size[:40]}' is not a number of states", code="not-a-number")
        scan.expect("]")
    scan.expect("{")
    states = tuple(unquoted(word) for word in scan.until("}") if word != ",")
    if count is not None and count != len(states):
        raise scan.error(
            f"variable '{name}' is declared with {count} states and lists {len(states)}", code="wrong-length"
        )
    scan.accept(";")
    return states


def _probability(scan: Scanner) -> tuple[str, TableBlock]:
    scan.expect("(")
    names = [unquoted(word) for word in scan.until(")") if word not in (",", "|")]
    line = scan.line
    if not names:
        raise scan.error("a probability block names its variable: probability ( a | b, c )", code="malformed")
    block = TableBlock(tuple(names[1:]), line)
    scan.expect("{")
    while (word := scan.take("'}'")) != "}":
        match word:
            case "(":
                keys = [unquoted(key) for key in scan.until(")") if key != ","]
                block.rows.append((keys, scan.numbers(";", f"the table of '{names[0]}'"), scan.line))
            case "table":
                if block.flat is not None:
                    raise scan.error(f"the table of '{names[0]}' occurs twice", code="duplicate")
                block.flat = scan.numbers(";", f"the table of '{names[0]}'")
            case "default":
                if block.default is not None:
                    raise scan.error(f"the default of '{names[0]}' occurs twice", code="duplicate")
                block.default = scan.numbers(";", f"the table of '{names[0]}'")
            case "property":
                scan.raw_until(";")
            case _:
                raise scan.error(
                    f"'{word[:40]}' does not begin a row of '{names[0]}'; there are table, default, (states), property",
                    code="malformed",
                )
    return names[0], block


def _filled(
    file: File,
    node: Node,
    block: TableBlock,
    states: Mapping[str, tuple[str, ...]],
    codes: Mapping[str, Mapping[str, int]],
) -> Node:
    """Return the node with its table from rows, defaults or flat numbers."""
    shape = table_shape(file, node, states)
    if block.flat is not None:
        block.check_flat(file, node)
        return replace(node, values=_flat(file, node, np.array(block.flat), shape))
    values, given = rows_of(file, node, block, shape, states, lambda parent, key: codes[parent].get(key))
    if block.default is not None and len(block.default) != shape[-1]:
        raise file.error(
            f"the default of '{node.name}' has {len(block.default)} numbers; it has {shape[-1]} states",
            node.line,
            code="wrong-length",
        )
    if block.default is None and not given.all():
        missing = np.unravel_index(int(np.argmin(given)), shape[:-1]) if node.parents else ()
        wanted = ", ".join(states[p][int(i)] for p, i in zip(node.parents, missing, strict=True))
        raise file.error(
            f"the table of '{node.name}' has no row ({wanted}) and no default", node.line, code="incomplete"
        )
    if block.default is not None:
        values[~given] = block.default
    return replace(node, values=values)


def _flat(file: File, node: Node, values: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if not node.parents or values.size != math.prod(shape):
        return values
    slow = np.moveaxis(values.reshape(shape[-1], *shape[:-1]), 0, -1)
    fast = values.reshape(shape)
    if _sums_to_one(slow):
        return slow
    if not _sums_to_one(fast):
        return slow
    warnings.warn(
        f"{file.shown}:{node.line}: the flat table of '{node.name}' sums to one only if its own states "
        "change fastest; it is read so",
        stacklevel=2,
    )
    return fast


def _sums_to_one(table: np.ndarray) -> bool:
    return bool(np.all(np.abs(table.sum(axis=-1) - 1) <= ROUNDED))


# -- writing

# Words that bnlearn's networks leave unquoted, such as `<5`, `>=7.5`, `12+` and `Asy/Patch`, stay unquoted.
_BARE = re.compile(r"(?!.*(?://|/\*))[^\s{}()\[\],;|\"\\']+", re.ASCII)


def _word(name: str) -> str:
    """Return the name unquoted if every reader accepts that, else in quotes."""
    bare = _BARE.fullmatch(name) and name.isascii() and name.isprintable() and name.lower() not in _KEYWORDS
    return name if bare else quoted(name)


def write(network: DiscreteNetwork) -> tuple[str, list[str]]:
    """Return the text of a BIF file, and remarks."""
    words = {v: _word(storable(v)) for v in network.states}
    states = {v: [_word(storable(s)) for s in levels] for v, levels in network.states.items()}
    out = [f"network {_word(storable(network.name))} {{"]
    out += [_property(text) for text in property_texts(network, "")]
    out.append("}")
    for v, levels in states.items():
        out.append(f"variable {words[v]} {{")
        out.append(f"  type discrete [ {len(levels)} ] {{ {', '.join(levels)} }};")
        out += [_property(text) for text in property_texts(network, v)]
        out.append("}")
    for v in network.states:
        out += _probability_text(network, v, words, states)
    all_words = dict.fromkeys([*words.values(), *(word for levels in states.values() for word in levels)])
    odd = [word for word in all_words if word.startswith('"')]
    remarks = []
    if odd:
        shown = ", ".join(odd[:6]) + (f" and {len(odd) - 6} more" if len(odd) > 6 else "")
        remarks.append(f"names in quotes, which some programs cannot read: {shown}")
    if network.notes.get("labels"):
        remarks.append("BIF has no place for the labels of variables; they are left out")
    return "\n".join(out) + "\n", remarks


def property_texts(network: DiscreteNetwork, variable: str) -> list[str]:
    """Return the notes on a variable as properties of one line each."""
    out = []
    if place := network.notes.get("positions", {}).get(variable):
        out.append(f"position = ({place[0]:.10g}, {place[1]:.10g})")
    texts = network.notes.get("properties", {}).get(variable, ())
    return out + [" ".join(storable(text).split()) for text in texts]


def _property(text: str) -> str:
    return f"  property {quoted(text) if re.search(r'[;\"{}]|//|/[*]', text) else text};"


def _probability_text(
    network: DiscreteNetwork, v: str, words: Mapping[str, str], states: Mapping[str, list[str]]
) -> list[str]:
    above, table = network.parents[v], network.tables[v]
    if not above:
        return [f"probability ( {words[v]} ) {{", f"  table {', '.join(decimal(table))};", "}"]
    out = [f"probability ( {words[v]} | {', '.join(words[p] for p in above)} ) {{"]
    for index in np.ndindex(table.shape[:-1]):
        keys = ", ".join(states[p][i] for p, i in zip(above, index, strict=True))
        out.append(f"  ({keys}) {', '.join(decimal(table[index]))};")
    out.append("}")
    return out
