"""DSL, the text format of older GeNIe and SMILE: ``.dsl``. Read only.

Nested blocks of ``KEY = value;``. In tables the node's own state changes fastest, then the last parent.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bayeslab.errors import hint
from bayeslab.formats.nodes import File, Node, network_of, numbers
from bayeslab.formats.scanner import C_COMMENTS, Scanner, unquoted
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["read"]

_MAX_DEPTH = 20
# Other keys are left as they are.
_READ = frozenset(("TYPE", "DEFINITION", "PARENTS", "NAMESTATES", "PROBABILITIES", "RESULTINGSTATES"))
_DIAGRAM = {"LIST": "decision", "DECISION": "decision", "TABLE": "utility", "UTILITY": "utility", "MAU": "utility"}


def read(file: File) -> DiscreteNetwork:
    """Return the network of a DSL file."""
    scan = Scanner(file, "{}()=;,", C_COMMENTS)
    if scan.take("'net'") != "net":
        raise scan.error("a DSL file begins with 'net'", code="malformed")
    name = scan.name("the network's name")
    blocks: list[tuple[str, int, dict[str, Any]]] = []
    scan.expect("{")
    while (key := scan.take("'}'")) != "}":
        if key == "node":
            node = scan.name("a node's name")
            blocks.append((node, scan.line, _block(scan, 0)))
        else:
            scan.expect("=")
            _value(scan, 0)
        scan.accept(";")
    scan.accept(";")
    if not scan.done:
        raise scan.error(f"the file goes on after its net, with '{scan.peek()[:40]}'", back=0, code="malformed")
    nodes = [_node(file, *entry) for entry in blocks]
    titles = {node: _part(content, "HEADER").get("NAME", "") for node, _, content in blocks}
    labels = {node: title for node, title in titles.items() if isinstance(title, str) and title not in ("", node)}
    return network_of(file, nodes, name, {"labels": labels})


def _block(scan: Scanner, depth: int) -> dict[str, Any]:
    if depth > _MAX_DEPTH:
        raise scan.error(f"blocks are nested more than {_MAX_DEPTH} deep", code="too-deep")
    scan.expect("{")
    out = {}
    while (key := scan.take("'}'")) != "}":
        if key in out and key in _READ:
            raise scan.error(f"'{key}' occurs twice in one block", code="duplicate")
        scan.expect("=")
        out[key] = _value(scan, depth)
        scan.accept(";")
    return out


def _value(scan: Scanner, depth: int) -> Any:
    """Read a block, a list in parentheses, or words up to the semicolon, which is not consumed."""
    if scan.peek() == "{":
        return _block(scan, depth + 1)
    if scan.accept("("):
        return [unquoted(word) for word in scan.until(")") if word not in ("(", ",")]
    word = unquoted(scan.take("a value"))
    while scan.peek() not in (";", "}", ""):
        scan.take()
    return word


def _part(content: dict[str, Any], key: str) -> dict[str, Any]:
    part = content.get(key)
    return part if isinstance(part, dict) else {}


def _words(content: dict[str, Any], key: str) -> list[str]:
    part = content.get(key)
    return part if isinstance(part, list) else []


def _node(file: File, name: str, line: int, content: dict[str, Any]) -> Node:
    kind = str(content.get("TYPE", "CPT")).upper()
    if kind in _DIAGRAM:
        raise file.error(
            f"'{name}' is a {_DIAGRAM[kind]} node: an influence diagram, not a Bayes net", line, code="unsupported"
        )
    definition = _part(content, "DEFINITION")
    states, parents = tuple(_words(definition, "NAMESTATES")), tuple(_words(content, "PARENTS"))
    if kind == "CPT":
        values = numbers(file, _words(definition, "PROBABILITIES"), f"PROBABILITIES of '{name}'", line)
        return Node(name, states, parents, values, line)
    if kind == "TRUTHTABLE":
        results = _words(definition, "RESULTINGSTATES")
        for word in results:
            if word not in states:
                raise file.error(
                    f"'{word}', in RESULTINGSTATES, is not a state of '{name}'{hint(word, states)}",
                    line,
                    code="unknown-state",
                )
        return Node(name, states, parents, np.eye(len(states))[[states.index(word) for word in results]], line)
    raise file.error(f"'{name}' is a node of type '{kind[:40]}'; read are CPT, TRUTHTABLE", line, code="unsupported")
