"""DSC, the format of Microsoft's Bayesian network tools (MSBN): ``.dsc``. Read only.

Rows are ``(states of the parents, by number from zero or by name) : p, ...;``. Some programs write a
meaningless key of zeros with one entry too many; such rows are read in order, the last parent changing
fastest.

References
----------
.. [1] Microsoft Research, Decision Theory Group (1996). Proposal for a Bayesian Network Interchange
   Format, version 0.2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from bayeslab.errors import hint
from bayeslab.formats.nodes import File, Node, check_sizes, network_of, position_of, states_of, table_shape, whole
from bayeslab.formats.scanner import C_COMMENTS, Scanner, unquoted
from bayeslab.formats.table_rows import TableBlock, rows_of
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["read"]


def read(file: File) -> DiscreteNetwork:
    """Return the network of a DSC file."""
    scan = Scanner(file, "{}()[]=;:,|", C_COMMENTS)
    name = ""
    states: dict[str, tuple[str, ...]] = {}
    lines: dict[str, int] = {}
    tables: dict[str, TableBlock] = {}
    positions, labels = {}, {}
    while not scan.done:
        match scan.take().lower():
            case "belief" | "network" as word:
                if word == "belief":
                    scan.expect("network")
                name = scan.name("the network's name") if scan.peek() not in ("{", "node") else ""
                if scan.peek() == "{":
                    scan.skip_block()
            case "properties":
                scan.skip_block()
            case "node":
                node = scan.name("a node's name")
                if node in states:
                    raise scan.error(f"node '{node}' occurs twice", code="duplicate")
                lines[node] = scan.line
                states[node], entries = _node(scan, node)
                if place := position_of(f"position = {entries.get('position', '')}"):
                    positions[node] = place
                if entries.get("name", node) != node:
                    labels[node] = entries["name"]
            case "probability":
                child, table = _probability(scan)
                if child in tables:
                    raise file.error(f"the table of '{child}' occurs twice", table.line, code="duplicate")
                tables[child] = table
            case word:
                raise scan.error(
                    f"'{word[:40]}' does not begin a block; there are network, node, probability, properties",
                    code="malformed",
                )
    for child, table in tables.items():
        if child not in states:
            raise file.error(
                f"'{child}' has a table but is not a node{hint(child, states)}", table.line, code="unknown-variable"
            )
    nodes = [
        Node(v, levels, tables[v].parents if v in tables else (), None, tables[v].line if v in tables else lines[v])
        for v, levels in states.items()
    ]
    checked = states_of(file, nodes)
    check_sizes(file, (n for n in nodes if n.name in tables), checked)
    full = [replace(n, values=_filled(file, n, tables[n.name], checked)) if n.name in tables else n for n in nodes]
    return network_of(file, full, name, {"positions": positions, "labels": labels})


def _node(scan: Scanner, name: str) -> tuple[tuple[str, ...], dict[str, str]]:
    states: tuple[str, ...] = ()
    entries = {}
    scan.expect("{")
    while (key := scan.take("'}'")) != "}":
        if key == ";":
            continue
        scan.expect(":", "=", "is")
        if key == "type":
            if states:
                raise scan.error(f"node '{name}' has its states twice", code="duplicate")
            states = _states(scan, name)
        else:
            entries[key] = unquoted(scan.raw_until(";"))
    return states, entries


def _states(scan: Scanner, name: str) -> tuple[str, ...]:
    kind = scan.take("'discrete'")
    if kind != "discrete":
        raise scan.error(f"node '{name}' is '{kind[:40]}'; only discrete ones are read", code="unsupported")
    scan.expect("[")
    size = "".join(scan.until("]"))
    scan.expect("=")
    scan.expect("{")
    states = tuple(unquoted(word) for word in scan.until("}") if word != ",")
    if size != str(len(states)):
        raise scan.error(f"node '{name}' is declared with {size} states and lists {len(states)}", code="wrong-length")
    scan.accept(";")
    return states


def _probability(scan: Scanner) -> tuple[str, TableBlock]:
    scan.expect("(")
    names = [unquoted(word) for word in scan.until(")") if word not in (",", "|")]
    if not names:
        raise scan.error("a probability block names its node: probability ( a | b, c )", code="malformed")
    table = TableBlock(tuple(names[1:]), scan.line)
    what = f"the table of '{names[0]}'"
    scan.expect("{")
    while not scan.accept("}"):
        if scan.accept("("):
            keys = [key for key in scan.until(")") if key != ","]
            scan.expect(":", "=")
            table.rows.append((keys, scan.numbers(";", what), scan.line))
        elif scan.accept("default"):
            if table.default is not None:
                raise scan.error(f"the default of '{names[0]}' occurs twice", code="duplicate")
            scan.expect(":", "=")
            table.default = scan.numbers(";", what)
        elif scan.peek() in ("function", "leak", "distribution"):
            raise scan.error(f"{what} is a '{scan.peek()}'; only tables are read", back=0, code="unsupported")
        else:
            table.flat = [*(table.flat or []), *scan.numbers(";", what)]
    return names[0], table


def _filled(
    file: File, node: Node, table: TableBlock, states: Mapping[str, tuple[str, ...]]
) -> list[float] | np.ndarray:
    shape = table_shape(file, node, states)
    n_rows = math.prod(shape[:-1])
    if table.flat is not None:
        table.check_flat(file, node)
        return table.flat
    plain = all(set(k) == {"0"} and len(k) == len(node.parents) + 1 for k, _, _ in table.rows)
    if plain and len(table.rows) == n_rows and all(len(row) == shape[-1] for _, row, _ in table.rows):
        return np.array([row for _, row, _ in table.rows])

    def code_of(parent: str, key: str) -> int | None:
        levels, number, word = states[parent], whole(key), unquoted(key)
        if number is not None and number < len(levels):
            return number
        return levels.index(word) if word in levels else None

    values, given = rows_of(file, node, table, shape, states, code_of)
    if not given.all() and (table.default is None or len(table.default) != shape[-1]):
        raise file.error(
            f"the table of '{node.name}' has {len(table.rows)} rows of {n_rows} and no default of {shape[-1]} numbers",
            node.line,
            code="incomplete",
        )
    if table.default is not None and not given.all():
        values[~given] = table.default
    return values
