"""The nodes of a ``graph`` model: parsed, and checked without data or PyMC."""

from __future__ import annotations

import ast
import keyword
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from graphlib import CycleError, TopologicalSorter
from unicodedata import normalize

from bayeslab.distributions import DISTRIBUTIONS, MODIFIERS, NEEDS_CODE, Distribution
from bayeslab.errors import ModelError, errors_at, hint
from bayeslab.language.expressions import Expression, parse
from bayeslab.language.functions import DIM_ARGUMENTS, ELEMENTWISE, FUNCTIONS, check_call
from bayeslab.language.spec import RESERVED, unquoted

__all__ = [
    "Node",
    "atoms_of",
    "bound_arguments",
    "byproducts",
    "call_name",
    "check_nodes",
    "look_back_at_each_other",
    "nodes_of",
    "sorted_nodes",
    "together",
    "units",
]

_KEY = re.compile(r"\s*([^\W\d]\w*)\s*(?:\[([^\[\]]*)\])?\s*\Z")

# Arguments of modifiers; the first argument is a distribution (for Mixture, the second).
_MODIFIER_ARGUMENTS = {
    "Truncated": ("dist", "lower", "upper"),
    "Censored": ("dist", "lower", "upper"),
    "Mixture": ("w", "comp_dists"),
    "Ordered": ("dist",),
    "PositiveOrdered": ("dist",),
    "Potential": ("value",),
}


@dataclass(frozen=True)
class Node:
    """One node: ``name[dims]: expression``.

    Attributes
    ----------
    kind : {"random", "deterministic", "potential"}
    key : str
        The key in the file, which is the last part of the path of errors.
    """

    name: str
    dims: tuple[str, ...]
    expression: Expression
    kind: str
    key: str

    @property
    def path(self) -> tuple[str, ...]:
        return ("model", "nodes", self.key)

    @cached_property
    def distribution(self) -> str | None:
        """Name of the outermost distribution of a random node."""
        return call_name(self.expression.tree) if self.kind == "random" else None

    @cached_property
    def discrete(self) -> bool:
        """Whether the node's values are integers."""
        return self.kind == "random" and _discrete(self.expression.tree)

    @cached_property
    def atoms(self) -> frozenset[str]:
        """Expressions of the values that a continuous node takes with positive probability.

        The density does not cover them, so missing cells of such a node cannot be sampled.
        """
        return atoms_of(self.expression.tree) if self.kind == "random" and not self.discrete else frozenset()

    @cached_property
    def hidden_path(self) -> bool:
        """Whether the node is a path of hidden states."""
        return self.distribution in DISTRIBUTIONS and DISTRIBUTIONS[str(self.distribution)].path

    @cached_property
    def process(self) -> bool:
        """Whether the node is an unknown function of columns (a Gaussian process)."""
        return self.distribution in DISTRIBUTIONS and DISTRIBUTIONS[str(self.distribution)].process

    @cached_property
    def states(self) -> bool:
        """Whether the node is a sequence of linear-Gaussian states."""
        return self.distribution in DISTRIBUTIONS and DISTRIBUTIONS[str(self.distribution)].states

    @cached_property
    def finite(self) -> bool:
        """Whether a discrete node has few values, so that it can be summed out."""
        word = self.distribution
        return word is not None and word in DISTRIBUTIONS and DISTRIBUTIONS[word].finite

    @cached_property
    def parents(self) -> frozenset[str]:
        """Names in its expression, without dimension arguments and the node itself."""
        return frozenset(_names(self.expression.tree)) - {self.name}

    @cached_property
    def lagged(self) -> frozenset[str]:
        """Parents that occur only inside ``lag``; for an observed parent this means its data."""
        inside = {
            n.id
            for c in ast.walk(self.expression.tree)
            if isinstance(c, ast.Call) and call_name(c) == "lag"
            for n in ast.walk(c.args[0])
            if isinstance(n, ast.Name)
        }
        return frozenset(inside - _outside_lag(self.expression.tree) - {self.name})

    @cached_property
    def recursive(self) -> bool:
        """Whether the node refers to its own past by ``previous`` or ``lag``."""
        return self.name in self.expression.names


def call_name(tree: ast.expr) -> str | None:
    """Name of the function or distribution an expression calls outermost."""
    return tree.func.id if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) else None


def _discrete(tree: ast.expr) -> bool:
    word = call_name(tree)
    if word is not None and word in DISTRIBUTIONS:
        return DISTRIBUTIONS[word].discrete
    if word in MODIFIERS and isinstance(tree, ast.Call):
        parts = list(tree.args) + [k.value for k in tree.keywords]
        items = [i for p in parts for i in (p.elts if isinstance(p, ast.List | ast.Tuple) else [p])]
        return any(_discrete(item) for item in items)
    return False


def atoms_of(tree: ast.expr) -> frozenset[str]:
    """Expressions of the values that a continuous distribution takes with positive probability."""
    word = call_name(tree)
    if not isinstance(tree, ast.Call) or (word not in DISTRIBUTIONS and word not in MODIFIERS) or _discrete(tree):
        return frozenset()
    out = set(DISTRIBUTIONS[str(word)].atoms) if word in DISTRIBUTIONS else set()
    if word == "Censored":
        given = bound_arguments(tree, word)
        bounds = [given[name] for name in ("lower", "upper") if name in given]
        out = {ast.unparse(bound) for bound in bounds if not (isinstance(bound, ast.Constant) and bound.value is None)}
    for part in [*tree.args, *(named.value for named in tree.keywords)]:
        for item in part.elts if isinstance(part, ast.List | ast.Tuple) else [part]:
            out |= atoms_of(item)
    return frozenset(out)


def _names(tree: ast.expr) -> Iterator[str]:
    if isinstance(tree, ast.Name):
        yield tree.id
        return
    if isinstance(tree, ast.Call):
        word = call_name(tree) or ""
        skipped = DIM_ARGUMENTS.get(word, ())
        if word == "rename" and len(tree.args) == 2:
            skipped = (1,)
        for place, argument in enumerate(tree.args):
            if place not in skipped and not _is_word(word, place, argument):
                yield from _names(argument)
        for named in tree.keywords:
            if not _is_word(word, str(named.arg), named.value):
                yield from _names(named.value)
        return
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.expr):
            yield from _names(child)


def _is_word(distribution: str, parameter: str | int, value: ast.expr) -> bool:
    """Whether an argument is a keyword of the distribution rather than a name."""
    if not isinstance(value, ast.Name) or distribution not in DISTRIBUTIONS:
        return False
    entry = DISTRIBUTIONS[distribution]
    if isinstance(parameter, int):
        parameter = entry.parameters[parameter] if parameter < len(entry.parameters) else ""
    return value.id in entry.words.get(parameter, ())


def _outside_lag(tree: ast.expr) -> set[str]:
    """Names used anywhere but in the first argument of ``lag``."""
    if isinstance(tree, ast.Name):
        return {tree.id}
    children: list[ast.AST] = list(ast.iter_child_nodes(tree))
    if call_name(tree) == "lag" and isinstance(tree, ast.Call):
        children = [*tree.args[1:], *tree.keywords]
    out: set[str] = set()
    for child in children:
        out |= _outside_lag(child.value if isinstance(child, ast.keyword) else child)  # type: ignore[arg-type]
    return out


def _listed(tree: ast.expr) -> bool:
    """Whether an expression has the axis of a list, which no dimension names."""
    match tree:
        case ast.List() | ast.Tuple():
            return True
        case ast.BinOp(op=op) if not isinstance(op, ast.MatMult):
            return _listed(tree.left) or _listed(tree.right)
        case ast.UnaryOp():
            return _listed(tree.operand)
        case ast.BoolOp():
            return any(map(_listed, tree.values))
        case ast.Compare():
            return any(map(_listed, [tree.left, *tree.comparators]))
        case ast.Call(func=ast.Name(id=word)) if word in ELEMENTWISE or word == "where":
            return any(map(_listed, tree.args))
    return False


@lru_cache(maxsize=64)
def _parsed(items: tuple[tuple[str, str], ...]) -> tuple[Node, ...]:
    out: dict[str, Node] = {}
    for key, text in items:
        path = ("model", "nodes", key)
        match = _KEY.match(unquoted(key))
        if match is None:
            raise ModelError(
                f"'{key}' is not a node: write name or name[dim] or name[dim, dim]",
                path=(*path, "[key]"),
                code="bad-name",
            )
        name = normalize("NFKC", match[1])
        dims = tuple(normalize("NFKC", part.strip()) for part in match[2].split(",")) if match[2] is not None else ()
        for part in (name, *dims):
            if keyword.iskeyword(part):
                raise ModelError(
                    f"'{part}' is a reserved word of expressions; choose another name",
                    path=(*path, "[key]"),
                    code="reserved-name",
                )
            if not part.isidentifier():
                raise ModelError(f"'{part}' is not a name (in '{key}')", path=(*path, "[key]"), code="bad-name")
            if part in RESERVED or part.startswith("__"):
                raise ModelError(
                    f"'{part}' is reserved by the results format; choose another name",
                    path=(*path, "[key]"),
                    code="reserved-name",
                )
        if len(set(dims)) < len(dims):
            raise ModelError(
                f"'{key}' has a dimension twice; declare a twin of it in dims (dim2: dim)",
                path=(*path, "[key]"),
                code="duplicate",
            )
        if name in out:
            raise ModelError(f"the node '{name}' occurs twice", path=(*path, "[key]"), code="duplicate")
        with errors_at(path):
            expression = parse(text)
        word = call_name(expression.tree)
        kind = "deterministic"
        if word == "Potential":
            kind = "potential"
        elif word in DISTRIBUTIONS or word in MODIFIERS or word in NEEDS_CODE:
            kind = "random"
        if kind == "deterministic" and not dims and _listed(expression.tree):
            raise ModelError(
                f"'{name}' has several values and no dimension: write {name}[part], with the levels of part in dims",
                path=path,
                code="bad-dimensions",
            )
        out[name] = Node(name, dims, expression, kind, key)
    return tuple(out.values())


def nodes_of(spec_nodes: Mapping[str, str | int | float]) -> dict[str, Node]:
    """The nodes of a spec by name, parsed once."""
    return {node.name: node for node in _parsed(tuple((key, str(text)) for key, text in spec_nodes.items()))}


def byproducts(nodes: Mapping[str, Node]) -> dict[str, str]:
    """Additional names that nodes create, with the node: ``L_corr`` and ``L_stds`` of a factor ``L``.

    A local trend also creates its slope.
    """
    parts = {"LKJCholeskyCov": ("corr", "stds"), "LocalTrend": ("slope",)}
    return {f"{n}_{part}": n for n, node in nodes.items() for part in parts.get(str(node.distribution), ())}


def sorted_nodes(nodes: Mapping[str, Node], observed: Iterable[str]) -> list[Node]:
    """Nodes with parents before children, otherwise in the file's order.

    An observed node that occurs only in ``lag(y, 1)`` does not count as a parent, because its data are used.

    Raises
    ------
    ModelError
        The nodes form a cycle; the message lists it.
    """
    return [node for unit in units(nodes, observed) for node in unit]


def units(nodes: Mapping[str, Node], observed: Iterable[str], groups: Iterable[list[Node]] = ()) -> list[list[Node]]:
    """Single nodes, and groups that are ordered only row by row; parents first, otherwise in the file's order.

    Two kinds of cycles are allowed: deterministic nodes that refer to each other's past (``lag``) form a group, and a
    deterministic node in the ``lag`` of an observed node uses the data of the latter.

    Parameters
    ----------
    groups
        Groups of nodes to keep together.
    """
    observed = set(observed)
    parents = _parents(nodes, observed)
    unit_of = {node.name: group for group in groups for node in group}
    if not unit_of:
        try:
            return [[nodes[name]] for name in _ordered(parents, nodes)]
        except ModelError:
            same_row = _parents(nodes, set(nodes))
            _ordered(same_row, nodes)
            for names in _circles(parents):
                for name in names:
                    if nodes[name].kind == "deterministic":
                        parents[name] -= names & observed
            for names in _circles(parents):
                if all(nodes[name].kind == "deterministic" for name in names):
                    inside = {name: same_row[name] & names for name in nodes if name in names}
                    group = [nodes[name] for name in _ordered(inside, nodes)]
                    unit_of |= dict.fromkeys(names, group)
    first = {name: group[0].name for name, group in unit_of.items()}
    joined: dict[str, set[str]] = {first.get(name, name): set() for name in nodes}
    for name, above in parents.items():
        leader = first.get(name, name)
        joined[leader] |= {first.get(parent, parent) for parent in above} - ({leader} if name in first else set())
    return [unit_of.get(name, [nodes[name]]) for name in _ordered(joined, nodes)]


def _parents(nodes: Mapping[str, Node], observed: set[str]) -> dict[str, set[str]]:
    """The nodes to build before each node, without observed ones that occur only in its ``lag``."""
    made = byproducts(nodes)
    return {
        node.name: {made.get(name, name) for name in node.parents - (node.lagged & observed)} & nodes.keys()
        for node in nodes.values()
    }


def look_back_at_each_other(nodes: Mapping[str, Node], observed: Iterable[str]) -> bool:
    """Whether some nodes can only be ordered row by row."""
    return bool(_circles(_parents(nodes, set(observed))))


def _circles(parents: Mapping[str, Collection[str]]) -> list[set[str]]:
    """Sets of nodes that depend on each other in a cycle."""
    try:
        TopologicalSorter(parents).prepare()
    except CycleError:
        pass
    else:
        return []
    import networkx as nx

    graph = nx.DiGraph((parent, name) for name, above in parents.items() for parent in sorted(above))
    return [names for names in nx.strongly_connected_components(graph) if len(names) > 1]


def _ordered(parents: Mapping[str, set[str]], nodes: Mapping[str, Node]) -> list[str]:
    """Names with parents before children, otherwise in their order."""
    done: dict[str, None] = {}
    for start in parents:
        trail: dict[str, Iterator[str]] = {}
        if start not in done:
            trail[start] = iter(sorted(parents[start]))
        while trail:
            name = next(reversed(trail))
            parent = next(trail[name], None)
            if parent is None:
                done[name] = None
                del trail[name]
            elif parent in trail:
                names = list(trail)
                circle = [*names[names.index(parent) :], parent]
                raise ModelError(f"nodes form a cycle: {' -> '.join(circle)}", path=nodes[start].path, code="cycle")
            elif parent not in done:
                trail[parent] = iter(sorted(parents[parent]))
    return list(done)


def together(nodes: Mapping[str, Node]) -> list[list[Node]]:
    """Groups of nodes that refer to each other's past, such as a series and its variance.

    They can only be computed row by row. Each group is sorted by its dependence within a row.
    """
    out = []
    for names in _circles({node.name: node.parents & nodes.keys() for node in nodes.values()}):
        group = {name: node for name, node in nodes.items() if name in names}
        out.append([n for n in sorted_nodes(group, names) if n.name in names])
    return out


# ------------------------------------------------------------------------------------- checking


def check_nodes(
    nodes: Mapping[str, Node],
    dims: Iterable[str],
    columns: set[str] | None,
    derive: Mapping[str, str] | None = None,
) -> None:
    """Check nodes as far as possible before data are bound.

    Parameters
    ----------
    dims
        Dimensions that the model declares or the data have.
    columns
        Names of the data's columns; None if the data are not known yet.
    derive
        Computed columns, for the error about one whose inputs are missing.
    """
    used_dims = {dim for node in nodes.values() for dim in node.dims}
    known = None
    if columns is not None:
        known = nodes.keys() | byproducts(nodes).keys() | columns | set(dims) | used_dims
    for node in nodes.values():
        if node.name in used_dims:
            raise ModelError(
                f"'{node.name}' is the name of a node and of a dimension; rename one",
                path=(*node.path, "[key]"),
                code="name-clash",
            )
        try:
            _check_node(node)
            if known is not None and not node.parents <= known:
                _check_parents(node, known, derive or {})
        except ModelError as error:
            raise (
                error if error.path else ModelError(error.message, path=node.path, offset=error.offset, code=error.code)
            ) from None
    # Any random node may turn out to be observed.
    sorted_nodes(nodes, [node.name for node in nodes.values() if node.kind == "random"])


def _check_node(node: Node) -> None:
    tree = node.expression.tree
    if node.kind == "potential":
        assert isinstance(tree, ast.Call)
        _check_modifier(tree, "Potential")
        _check_values(tree.args[0])
    elif node.kind == "random":
        _check_distribution(tree, outermost=True)
    else:
        _check_values(tree)
    _check_own_past(node, tree)


def _check_parents(node: Node, known: set[str], derive: Mapping[str, str]) -> None:
    """Every name in a node must be known: a node, a column or a dimension."""
    name = min(node.parents - known)
    tree = node.expression.tree
    at = next((n.col_offset for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name), 0)
    if name in derive:
        lacking = sorted(parse(derive[name]).names - known)
        raise ModelError(
            f"'{name}' is computed from {', '.join(lacking)}, which the data do not have",
            offset=at,
            code="unknown-column",
        )
    raise ModelError(
        f"'{name}' is neither a node, a column of the data, nor a dimension{hint(name, known)}",
        offset=at,
        code="unknown-name",
    )


def _check_values(tree: ast.expr) -> None:
    """Check that calls in an ordinary expression are functions with the right number of arguments."""
    for part in ast.walk(tree):
        word = call_name(part) if isinstance(part, ast.expr) else None
        if word is None:
            continue
        assert isinstance(part, ast.Call)
        if word in DISTRIBUTIONS or word in MODIFIERS or word in NEEDS_CODE:
            raise ModelError(
                f"the distribution {word} inside an expression; give it a node of its own and use its name",
                offset=part.col_offset,
                code="misplaced",
            )
        if word not in FUNCTIONS:
            known = [*FUNCTIONS, *DISTRIBUTIONS, *MODIFIERS]
            raise ModelError(
                f"unknown function or distribution '{word}'{_near(word, known)}",
                offset=part.col_offset,
                code="unknown-function",
            )
        check_call(part)


def _near(word: str, known: Iterable[str]) -> str:
    near = hint(word, known)
    return near if near.startswith("; did") else "; the reference lists all functions and distributions"


def _check_distribution(tree: ast.expr, *, outermost: bool = False) -> None:
    word = call_name(tree)
    if word is None or not isinstance(tree, ast.Call):
        raise ModelError(
            f"'{ast.unparse(tree)[:40]}' is not a distribution", offset=tree.col_offset, code="not-a-distribution"
        )
    if word in NEEDS_CODE:
        raise ModelError(f"{word} {NEEDS_CODE[word]}", offset=tree.col_offset, code="not-a-distribution")
    if word in MODIFIERS:
        if word in ("Ordered", "PositiveOrdered", "Potential") and not outermost:
            raise ModelError(
                f"{word}(...) can only be the outermost call of a node", offset=tree.col_offset, code="misplaced"
            )
        _check_modifier(tree, word)
        return
    if word not in DISTRIBUTIONS:
        raise ModelError(
            f"unknown distribution '{word}'{_near(word, [*DISTRIBUTIONS, *MODIFIERS])}",
            offset=tree.col_offset,
            code="unknown-function",
        )
    entry = DISTRIBUTIONS[word]
    if entry.process:
        _check_process(tree, entry, outermost=outermost)
        return
    for name, value in bound_arguments(tree, word, entry).items():
        if name in entry.distributions:
            _check_distribution(value)
        else:
            _check_values(value)
    if entry.path:
        _check_path(tree, entry, ("P", "parent", "durations"), outermost=outermost)
    if entry.states:
        _check_path(tree, entry, entry.parameters[:-1], outermost=outermost)


def _check_path(tree: ast.Call, entry: Distribution, needed: Iterable[str], *, outermost: bool) -> None:
    """Check that a path of hidden states is a separate node, and that columns are given by name."""
    if not outermost:
        raise ModelError(
            f"{entry.name}(...) can only be the outermost call of a node", offset=tree.col_offset, code="misplaced"
        )
    given = bound_arguments(tree, entry.name, entry)
    for name in needed:
        if name in entry.parameters and name not in given:
            raise ModelError(f"{entry.name}() needs '{name}'", offset=tree.col_offset, code="wrong-arguments")
    for name in entry.columns:
        if name in given and not isinstance(given[name], ast.Name):
            raise ModelError(
                f"{entry.name}: '{name}' is the name of a column of the data, not '{ast.unparse(given[name])}'",
                offset=given[name].col_offset,
                code="wrong-arguments",
            )


def _check_process(tree: ast.Call, entry: Distribution, *, outermost: bool) -> None:
    """Check that a Gaussian process is a separate node; its covariance function has its own language."""
    if not outermost:
        raise ModelError(
            f"{entry.name}(...) can only be the outermost call of a node", offset=tree.col_offset, code="misplaced"
        )
    given = bound_arguments(tree, entry.name, entry)
    if "kernel" not in given:
        raise ModelError(
            f"{entry.name}() needs a covariance function, such as {entry.name}(Matern52(x, lengthscale, scale))",
            offset=tree.col_offset,
            code="wrong-arguments",
        )
    for name, words in entry.words.items():
        if name in given and not (isinstance(given[name], ast.Name) and given[name].id in words):  # type: ignore[attr-defined]
            raise ModelError(
                f"{name} is {' or '.join(words)}, or left out, not '{ast.unparse(given[name])}'",
                offset=given[name].col_offset,
                code="unknown-word",
            )


def _check_modifier(tree: ast.Call, word: str) -> None:
    given = bound_arguments(tree, word, Distribution(word, _MODIFIER_ARGUMENTS[word]))
    first = "comp_dists" if word == "Mixture" else _MODIFIER_ARGUMENTS[word][0]
    for needed in ("w", "comp_dists") if word == "Mixture" else (first,):
        if needed not in given:
            raise ModelError(f"{word}() needs '{needed}'", offset=tree.col_offset, code="wrong-arguments")
    for name, value in given.items():
        if name == first and word != "Potential":
            parts = value.elts if isinstance(value, ast.List | ast.Tuple) else [value]
            if len(parts) != 1 and word != "Mixture":
                raise ModelError(f"{word}() takes one distribution", offset=tree.col_offset, code="wrong-arguments")
            for part in parts:
                _check_distribution(part)
            if word == "Mixture":
                _check_components(tree, parts)
        else:
            _check_values(value)


def _check_components(tree: ast.Call, parts: list[ast.expr]) -> None:
    """Check that all components of a mixture have the same kind of density, else their sum is undefined."""
    if len({_discrete(part) for part in parts}) > 1:
        raise ModelError(
            "Mixture() of discrete and continuous distributions has no density: for values of exactly 0 take"
            " HurdleGamma or HurdleLogNormal, or make which component a row is of a node",
            offset=tree.col_offset,
            code="unsupported",
        )
    if len({atoms_of(part) for part in parts}) > 1:
        each = "; ".join(f"{call_name(part)}: {', '.join(sorted(atoms_of(part))) or 'none'}" for part in parts)
        raise ModelError(
            f"Mixture() adds a density to a probability where only some components give a value a probability above"
            f" zero ({each}): censor all of them at the same bounds, or give all a hurdle (psi=1: none is 0)",
            offset=tree.col_offset,
            code="unsupported",
        )


def bound_arguments(tree: ast.Call, word: str, entry: Distribution | None = None) -> dict[str, ast.expr]:
    """Arguments of a distribution's call by parameter name."""
    entry = entry or (DISTRIBUTIONS[word] if word in DISTRIBUTIONS else Distribution(word, _MODIFIER_ARGUMENTS[word]))
    most = len(entry.parameters) if entry.positional is None else entry.positional
    shown = f"{word}({', '.join(entry.parameters)})"
    if len(tree.args) > most:
        extra = " by position; name the others" if most < len(entry.parameters) else ""
        raise ModelError(
            f"{shown} takes at most {most} arguments{extra}, {len(tree.args)} given",
            offset=tree.col_offset,
            code="wrong-arguments",
        )
    out = dict(zip(entry.parameters, tree.args, strict=False))
    for named in tree.keywords:
        name = str(named.arg)
        if name not in entry.parameters:
            raise ModelError(
                f"{word} has no parameter '{name}'{hint(name, entry.parameters)}",
                offset=tree.col_offset,
                code="unknown-parameter",
            )
        if name in out:
            raise ModelError(
                f"the parameter '{name}' of {word} is given twice", offset=tree.col_offset, code="wrong-arguments"
            )
        out[name] = named.value
    return out


def _check_own_past(node: Node, tree: ast.expr) -> None:
    """Check that a node refers to itself only in ``previous`` or ``lag``, and ``previous`` only to the node."""
    inside: set[int] = set()
    for part in ast.walk(tree):
        word = call_name(part) if isinstance(part, ast.expr) else None
        if word not in ("previous", "lag"):
            continue
        assert isinstance(part, ast.Call)
        names_itself = isinstance(part.args[0], ast.Name) and part.args[0].id == node.name
        if names_itself:
            inside.add(id(part.args[0]))
        if word == "previous":
            if not names_itself:
                raise ModelError(
                    f"previous() looks back at the node being defined: write previous({node.name}, ...);"
                    f" for another vector use lag()",
                    offset=part.col_offset,
                    code="self-reference",
                )
            if not any(k.arg == "start" for k in part.keywords):
                raise ModelError(
                    f"previous({node.name}, k, start=s) needs its start value", offset=part.col_offset, code="bad-start"
                )
            if not node.dims:
                raise ModelError(
                    f"previous() needs a dimension to run along: {node.name}[time]",
                    offset=part.col_offset,
                    code="bad-dimensions",
                )
    for part in ast.walk(tree):
        if isinstance(part, ast.Name) and part.id == node.name and id(part) not in inside:
            raise ModelError(
                f"'{node.name}' is used in its own definition; only previous({node.name}, k, start=s)"
                f" and lag({node.name}, k) may do that",
                offset=part.col_offset,
                code="self-reference",
            )
