"""UAI, the format of the inference competitions: ``.uai``.

Numbers only: sizes of the variables, scopes of the factors, and tables with the last variable of the
scope changing fastest. In a BAYES file the last variable of each scope is the child. Variables and states
are named by their numbers, from zero.

aGrUM/pyAgrum (3.3) writes BAYES files with the first parent changing fastest; these are recognised by the
comment with the name of a variable after each scope.

References
----------
.. [1] UAI 2008-2014 inference competitions, "File formats: the model format".
"""

from __future__ import annotations

import math
import re

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.formats.nodes import MAX_ENTRIES, File, Node, decimal, network_of, whole
from bayeslab.formats.scanner import HASH_COMMENTS, Scanner
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.network import DiscreteNetwork

__all__ = ["read", "write"]

# A few digits of a file may declare any number of states, each of which gets a name: these take half a gigabyte.
_MAX_STATES = 2**22

_NAMED_SCOPE = re.compile(r"^\d[\d ]* {3}# \S.*$", re.MULTILINE)


def read(file: File) -> DiscreteNetwork | FactorGraph:
    """Return the network of a BAYES file, or the factor graph of a MARKOV file."""
    scan = Scanner(file, "", HASH_COMMENTS)
    kind = scan.take("BAYES or MARKOV").upper()
    if kind not in ("BAYES", "MARKOV"):
        raise scan.error(f"a UAI file begins with BAYES or MARKOV, not '{kind[:40]}'", code="malformed")
    n_variables = _count(scan, "the number of variables")
    sizes = [_count(scan, f"the number of states of variable {i}", least=1) for i in range(n_variables)]
    if sum(sizes) > _MAX_STATES:
        raise scan.error(
            f"the variables have {sum(sizes):,} states together; at most {_MAX_STATES:,} are read", code="too-costly"
        )
    n_factors = _count(scan, "the number of factors")
    scopes, lines = [], []
    for f in range(n_factors):
        scopes.append([_variable(scan, f, n_variables) for _ in range(_count(scan, f"the size of scope {f}"))])
        lines.append(scan.line)
    tables = [_table(scan, f, [sizes[v] for v in scope]) for f, scope in enumerate(scopes)]
    if not scan.done:
        raise scan.error(f"the file goes on after the last table, with '{scan.peek()[:40]}'", back=0, code="malformed")
    states = {str(i): tuple(map(str, range(size))) for i, size in enumerate(sizes)}
    if kind == "MARKOV":
        if not states:
            raise file.error("there is no variable in this file", code="malformed")
        try:
            return FactorGraph(states, tuple(tuple(map(str, scope)) for scope in scopes), tuple(tables))
        except ModelError as error:
            raise error.located(file.shown) from None
    by_agrum = n_factors > 0 and len(_NAMED_SCOPE.findall(file.text)) == n_factors
    nodes: dict[int, Node] = {}
    for scope, table, line in zip(scopes, tables, lines, strict=True):
        if not scope:
            raise file.error("a factor of a BAYES file has at least one variable", line, code="malformed")
        *above, child = scope
        if child in nodes:
            raise file.error(f"variable {child} has two tables; this is not a Bayes net", line, code="duplicate")
        table = _first_parent_fastest(table) if by_agrum else table
        nodes[child] = Node(str(child), states[str(child)], tuple(map(str, above)), table, line)
    ordered = [nodes.get(i, Node(str(i), states[str(i)])) for i in range(n_variables)]
    return network_of(file, ordered)


def _count(scan: Scanner, what: str, least: int = 0) -> int:
    word = scan.take(what)
    count = whole(word)
    if count is None or count < least:
        raise scan.error(f"'{word[:40]}' stands where {what} should be", code="malformed")
    return count


def _variable(scan: Scanner, factor: int, n_variables: int) -> int:
    variable = _count(scan, f"a variable of scope {factor}")
    if variable >= n_variables:
        raise scan.error(
            f"scope {factor} has the variable {variable}; there are 0 to {n_variables - 1}", code="out-of-range"
        )
    return variable


def _table(scan: Scanner, factor: int, shape: list[int]) -> np.ndarray:
    size = _count(scan, f"the size of table {factor}")
    if size != math.prod(shape):
        made = " × ".join(map(str, shape)) or "a number"
        raise scan.error(
            f"table {factor} is declared with {size} numbers; its scope makes {made} = {math.prod(shape)}",
            code="wrong-length",
        )
    if size > MAX_ENTRIES:
        raise scan.error(f"table {factor} would have {size:.3g} entries: too many", code="too-costly")
    return np.reshape(scan.some_numbers(size, f"table {factor}"), shape)


def _first_parent_fastest(table: np.ndarray) -> np.ndarray:
    *above, n_states = table.shape
    n = len(above)
    return table.reshape(*reversed(above), n_states).transpose(*reversed(range(n)), n)


def write(network: DiscreteNetwork | FactorGraph) -> tuple[str, list[str]]:
    """Return the text of a UAI file, and remarks."""
    kind = "BAYES" if isinstance(network, DiscreteNetwork) else "MARKOV"
    factors = FactorGraph.of(network) if isinstance(network, DiscreteNetwork) else network
    number = {v: str(i) for i, v in enumerate(factors.states)}
    out = [
        kind,
        str(len(number)),
        " ".join(str(len(levels)) for levels in factors.states.values()),
        str(len(factors.scopes)),
    ]
    out += [" ".join([str(len(scope)), *(number[v] for v in scope)]) for scope in factors.scopes]
    for table in factors.tables:
        rows = table.reshape(-1, table.shape[-1]) if table.ndim else table.reshape(1, 1)
        out += ["", str(table.size), *("  " + " ".join(decimal(row)) for row in rows)]
    remarks = []
    if any(v != i for v, i in number.items()):
        remarks.append("UAI holds no names: variables are numbered from 0, in their order")
    if any(s != str(i) for levels in factors.states.values() for i, s in enumerate(levels)):
        remarks.append("UAI holds no names: states are numbered from 0, in their order")
    if isinstance(network, DiscreteNetwork) and network.notes:
        remarks.append(f"UAI has no place for {', '.join(network.notes)}; they are left out")
    return "\n".join(out) + "\n", remarks
