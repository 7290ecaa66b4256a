"""Recursions along a dimension: deterministic (GARCH, ARMA), random (stochastic volatility), joint.

The expression of a recursive node is rewritten. Each largest subexpression without the past is evaluated once, for all
rows, and becomes a name ``__part_i``. Each reference to the past becomes a name ``__back_i``. One ``scan`` evaluates
the rewritten expression row by row. A log density evaluates it once for all rows, with the series shifted.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, pymc_class
from bayeslab.errors import ModelError
from bayeslab.families.graph.distribution_reader import DistributionReader
from bayeslab.language.algebra import Term
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.functions import DIM_ARGUMENTS
from bayeslab.language.nodes import Node, bound_arguments, call_name

__all__ = ["broadcast", "deterministic_recursion", "random_recursion", "rows_together"]

_ROW = "row"  # key of the row number among the inputs of a row


class Split:
    """An expression split into parts that do and parts that do not depend on the past of ``names``.

    Attributes
    ----------
    tree : ast.expr
        The rewritten expression.
    parts : dict of str to Term
        Values of the parts that do not depend on the past.
    backs : dict of str to (str, int)
        For each name ``__back_i`` in the tree: the node and the number of rows back.
    nows : set of str
        Nodes of the group whose value in the same row is used (as ``__now_<name>``).
    starts : dict of str to (str, Term)
        Start of each name ``__back_i``, its value before the first row: source text and value.
    apart : dict of str to str
        Name of the part that holds the start, where this start differs from that of the node's history.
    given : dict of (str, int) to Term
        Data of a node a number of rows before the first, for a lag without a start.
    undefined : int
        Number of first rows whose lag, without a start, reaches back before the data.
    """

    def __init__(self, node: Node, evaluator: Evaluator, names: frozenset[str]) -> None:
        self.node, self.names, self._evaluator = node, names, evaluator
        self.parts: dict[str, Term] = {}
        self.backs: dict[str, tuple[str, int]] = {}
        self.nows: set[str] = set()
        self.starts: dict[str, tuple[str, Term]] = {}
        self.apart: dict[str, str] = {}
        self.given: dict[tuple[str, int], Term] = {}
        self.undefined = 0
        self.tree = self._rewrite(node.expression.tree)
        dim = node.dims[-1]
        for term in self.parts.values():
            self.undefined = max(self.undefined, term.undefined.get(dim, 0))

    def order(self, name: str) -> int:
        """The longest lag of a node, in rows."""
        return max((k for n, k in self.backs.values() if n == name), default=0)

    def _rewrite(self, tree: ast.expr) -> ast.expr:
        if not any(isinstance(part, ast.Name) and part.id in self.names for part in ast.walk(tree)):
            if isinstance(tree, ast.Constant):
                return tree
            name = f"__part_{len(self.parts)}"
            self.parts[name] = self._evaluator.eval(tree)
            return ast.Name(name)
        if isinstance(tree, ast.Name):
            self.nows.add(tree.id)
            return ast.Name(f"__now_{tree.id}")
        if call_name(tree) in ("previous", "lag") and isinstance(tree, ast.Call):
            return self._back(tree)
        if isinstance(tree, ast.Call):
            # The name of a dimension is not a value.
            kept = DIM_ARGUMENTS.get(call_name(tree) or "", ())
            arguments = []
            for k, argument in enumerate(tree.args):
                with self._evaluator.branch(tree, k):
                    arguments.append(argument if k in kept else self._rewrite(argument))
            return ast.Call(tree.func, arguments, [ast.keyword(k.arg, self._rewrite(k.value)) for k in tree.keywords])
        fields = {field: self._child(value, field) for field, value in ast.iter_fields(tree)}
        return type(tree)(**fields)

    def _child(self, value: Any, field: str) -> Any:
        if isinstance(value, list):
            return [self._child(item, field) for item in value]
        if isinstance(value, ast.keyword):
            return ast.keyword(value.arg, self._rewrite(value.value))
        return self._rewrite(value) if isinstance(value, ast.expr) and field != "func" else value

    def _back(self, tree: ast.Call) -> ast.expr:
        inner, steps = tree.args[0], int(tree.args[1].value)  # type: ignore[attr-defined]
        if not isinstance(inner, ast.Name):
            raise ModelError(
                f"{ast.unparse(tree)}: in nodes that depend on each other's past, lag() takes the name of a node",
                offset=tree.col_offset,
                code="bad-start",
            )
        start = next((k.value for k in tree.keywords if k.arg == "start"), None)
        name = f"__back_{len(self.backs)}"
        if start is not None:
            self.starts[name] = ast.unparse(start), self._evaluator.eval(start)
        else:
            self.undefined = max(self.undefined, steps)
        self.backs[name] = (inner.id, steps)
        return ast.Name(name)


def broadcast(value: Any, shape: tuple[int, ...]) -> Any:
    """A PyTensor variable of exactly this shape."""
    import pytensor.tensor as pt

    value = pt.as_tensor_variable(value)
    return value if value.type.shape == shape else pt.broadcast_to(value, shape)


def _floats(value: Any, shape: tuple[int, ...]) -> Any:
    import pytensor.tensor as pt

    return broadcast(pt.as_tensor_variable(value).astype("float64"), shape)


def _initial(history: Any, order: int) -> dict[str, Any]:
    """The initial state of a scan; with a single tap it has no axis for taps."""
    if order == 1:
        return {"initial": history[0], "taps": [-1]}
    return {"initial": history, "taps": list(range(-order, 0))}


def _history(
    reader: DistributionReader,
    splits: list[Split],
    name: str,
    order: int,
    batch: tuple[str, ...],
    shape: tuple[int, ...],
) -> Any:
    """The ``order`` rows before the first, oldest first: rows of data, or the start of the shortest lag.

    A lag with another start keeps that start as a separate part; :func:`_past` puts it into the rows in which this lag
    reaches back before the first row.
    """
    import pytensor.tensor as pt

    calls = [(split, back, k) for split in splits for back, (n, k) in split.backs.items() if n == name]
    started = [(k, *split.starts[back]) for split, back, k in calls if back in split.starts]
    source, start = min(started, key=lambda candidate: candidate[0])[1:] if started else ("", Term(0.0))
    given = {k: term for split in splits for (n, k), term in split.given.items() if n == name}
    for split, back, _ in calls:
        if back in split.starts and (given or split.starts[back][0] != source):
            split.apart[back] = f"__part_{len(split.parts)}"
            split.parts[split.apart[back]] = split.starts[back][1]
    rows = []
    for steps in range(order, 0, -1):
        (value,), _, _ = reader.evaluator.align([given.get(steps, start)], onto=batch)
        rows.append(_floats(value, shape))
    return pt.stack(rows, axis=0)


def _past(
    split: Split,
    back: str,
    value: Any,
    row: Any,
    lookup: Callable[[str], Term],
    labels: Mapping[str, np.ndarray],
    batch: tuple[str, ...],
    shape: tuple[int, ...],
) -> Any:
    """The value of a name ``__back_i``: ``value``, or its separate start in rows whose lag reaches before the first.

    Parameters
    ----------
    row
        The row number; all row numbers where ``value`` has all rows along its last axis.
    """
    import pytensor.tensor as pt

    if back not in split.apart:
        return value
    (start,), _, _ = Evaluator(lookup, labels).align([lookup(split.apart[back])], onto=batch)
    start = _floats(start, shape)
    return pt.switch(pt.lt(row, split.backs[back][1]), start if np.ndim(row) == 0 else start[..., None], value)


def _row_inputs(reader: DistributionReader, split: Split, dim: str) -> dict[str, tuple[Any, tuple[str | None, ...]]]:
    """The parts as inputs of a row, each with its dims: values, and codes of factors that run along ``dim``."""
    out = {}
    for name, term in split.parts.items():
        if term.factor is not None and dim not in term.dims:
            continue  # a factor that is the same in every row needs no input
        # A scan accepts each variable once, and an expression may use a variable twice: pass copies.
        if term.value is not None:
            out[name] = reader.evaluator.symbolic(term).copy(), term.dims
        if term.factor is not None:
            out[f"{name} codes"] = reader.evaluator.symbolic(Term(term.codes)).copy(), term.dims
    return out


def _part(split: Split, name: str, now: Mapping[str, Any], dim: str | None) -> Term:
    """A part's value: in one row of ``dim``, or, if ``dim`` is None, in all rows."""
    term = split.parts[name]
    dims = tuple(d for d in term.dims if d != dim)
    if term.factor is not None and name not in now and f"{name} codes" not in now:
        return replace(term, column=None)
    return Term(now.get(name), dims, codes=now.get(f"{name} codes"), factor=term.factor)


def _moving(reader: DistributionReader, split: Split, dim: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Inputs that run along ``dim`` (moved to the first axis), and inputs that do not."""
    import pytensor.tensor as pt

    along, fixed = {}, {}
    for key, (value, dims) in _row_inputs(reader, split, dim).items():
        if dim in dims:
            along[key] = pt.moveaxis(value, dims.index(dim), 0) if value.ndim > 1 else value
        else:
            fixed[key] = value
    return along, fixed


def deterministic_recursion(reader: DistributionReader, node: Node) -> Term:
    """A deterministic node that depends on its past, as one scan."""
    import pytensor
    import pytensor.tensor as pt

    split = Split(node, reader.evaluator, frozenset([node.name]))
    if split.starts.keys() != split.backs.keys():
        raise ModelError(
            f"a deterministic node refers to its past by previous({node.name}, k, start=s), not by lag()",
            code="bad-start",
        )
    dim, batch = node.dims[-1], node.dims[:-1]
    length, shape = len(reader.labels[dim]), reader.lengths(batch)
    first, order = split.undefined, split.order(node.name)
    history = _history(reader, [split], node.name, order, batch, shape)
    along, fixed = _moving(reader, split, dim)
    along[_ROW] = pt.arange(length)

    def step(*values: Any) -> Any:
        now = dict(zip(along, values, strict=False))
        past = values[len(along) : len(along) + order]
        now |= dict(zip(fixed, values[len(along) + order :], strict=True))

        def lookup(name: str) -> Term:
            if name in split.backs:
                value = past[order - split.backs[name][1]]
                return Term(_past(split, name, value, now[_ROW], lookup, reader.labels, batch, shape), batch)
            return _part(split, name, now, dim)

        inner = Evaluator(lookup, reader.labels)
        (value,), _, _ = inner.align([inner.eval(split.tree)], onto=batch)
        return _floats(value, shape)

    out = pytensor.scan(
        step,
        sequences=[value[first:] for value in along.values()],
        outputs_info=[_initial(history, order)],
        non_sequences=list(fixed.values()),
        n_steps=length - first,
        strict=True,
        return_updates=False,
    )
    if first:
        # Rows whose lag reaches back before the data take the start value.
        out = pt.concatenate([broadcast(history[-1:], (first, *shape)), out], axis=0)
    out = pt.specify_shape(out, (length, *shape))
    out = pt.moveaxis(out, 0, -1) if batch else out
    if not any(term.random for term in (*split.parts.values(), *(start for _, start in split.starts.values()))):
        # It depends on data only: compute it once.
        mode = pytensor.compile.mode.Mode("py", "fast_compile")
        return Term(np.asarray(pytensor.function([], out, mode=mode)()), node.dims)
    return Term(out, node.dims)


def scalar_distribution(node: Node) -> str:
    """The name of the node's distribution, which must be univariate."""
    name = str(node.distribution)
    if name not in DISTRIBUTIONS or DISTRIBUTIONS[name].support:
        raise ModelError(
            f"a random node that depends on its past has a univariate distribution, not {name}",
            code="unsupported",
        )
    return name


def _parameters(
    reader: DistributionReader, split: Split, distribution: str, lookup: Callable[[str], Term], onto: tuple[str, ...]
) -> dict[str, Any]:
    """A distribution's parameters from the rewritten call."""
    inner, entry = Evaluator(lookup, reader.labels), DISTRIBUTIONS[distribution]
    assert isinstance(split.tree, ast.Call)
    return {
        name: reader.parameter(inner.eval(value), onto, (), entry.core.get(name, 0), name, name in entry.apart)
        for name, value in bound_arguments(split.tree, distribution).items()
    }


def random_recursion(reader: DistributionReader, node: Node) -> Term:
    """A random node without data whose distribution depends on its past.

    Its log density is evaluated for all rows at once; random draws are made row by row.
    """
    import pytensor
    import pytensor.tensor as pt

    distribution = scalar_distribution(node)
    if node.discrete and reader.purpose == "fit":
        raise ModelError(
            f"'{node.name}' is discrete, has no data and depends on its past; it cannot be summed out, because nodes"
            f" without data or with missing cells depend on it",
            code="discrete",
        )
    split = Split(node, reader.evaluator, frozenset([node.name]))
    dim, batch = node.dims[-1], node.dims[:-1]
    length, shape = len(reader.labels[dim]), reader.lengths(batch)
    order = split.order(node.name)
    _fill_starts(reader, split, node)
    if any(term.undefined for term in split.parts.values()):
        raise ModelError("lag() of another vector needs start=... in a node that depends on its past", code="bad-start")
    history = _history(reader, [split], node.name, order, batch, shape)
    given = _row_inputs(reader, split, dim)
    names = list(given)
    values, dims_of = [given[name][0] for name in names], {name: given[name][1] for name in names}
    maker = pymc_class(distribution)

    def logp(value: Any, start: Any, *rest: Any) -> Any:
        parts = dict(zip(names, rest, strict=True))
        whole = pt.concatenate([pt.moveaxis(start, 0, -1), value], axis=-1)

        def lookup(name: str) -> Term:
            if name in split.backs:
                back = split.backs[name][1]
                shifted = whole[..., order - back : order - back + length]
                rows = pt.arange(length)
                return Term(_past(split, name, shifted, rows, lookup, reader.labels, batch, shape), node.dims)
            return _part(split, name, parts, None)

        parameters = _parameters(reader, split, distribution, lookup, node.dims)
        return reader.pm.logp(maker.dist(**parameters, shape=(*shape, length)), value)

    def draw(start: Any, *rest: Any) -> Any:
        parts = dict(zip(names, rest[:-1], strict=True))  # the last argument is the size, which is fixed
        along = [name for name in names if dim in dims_of[name]]
        still = [name for name in names if dim not in dims_of[name]]

        def step(row: Any, *args: Any) -> Any:
            now = dict(zip(along, args, strict=False))
            past = args[len(along) : len(along) + order]
            now |= dict(zip(still, args[len(along) + order :], strict=True))

            def lookup(name: str) -> Term:
                if name in split.backs:
                    value = past[order - split.backs[name][1]]
                    return Term(_past(split, name, value, row, lookup, reader.labels, batch, shape), batch)
                return _part(split, name, now, dim)

            drawn = maker.dist(**_parameters(reader, split, distribution, lookup, batch), shape=shape)
            return drawn.astype("float64"), reader.pm.pytensorf.collect_default_updates([drawn], inputs=[row, *args])

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Scan return signature will change", category=DeprecationWarning)
            out, _ = pytensor.scan(
                step,
                sequences=[
                    pt.arange(length),
                    *(pt.moveaxis(parts[name], dims_of[name].index(dim), 0) for name in along),
                ],
                outputs_info=[_initial(start, order)],
                non_sequences=[parts[name] for name in still],
                n_steps=length,
                strict=True,
            )
        out = pt.specify_shape(pt.moveaxis(out, 0, -1), (*shape, length))
        return out.astype("int64") if node.discrete else out

    def first_row(name: str) -> Term:
        if name in split.backs:
            return Term(history[order - split.backs[name][1]], batch)
        first = {
            key: value[(slice(None),) * dims.index(dim) + (0,)] if dim in dims else value
            for key, (value, dims) in given.items()
        }
        return _part(split, name, first, dim)

    # The default transform depends on the distribution, not on the row.
    probe = maker.dist(**_parameters(reader, split, distribution, first_row, batch), shape=shape)
    ndims = [history.ndim, *(value.ndim for value in values)]
    inputs = ",".join("(" + ",".join(f"d{i}x{j}" for j in range(n)) + ")" for i, n in enumerate(ndims))
    rv = reader.pm.CustomDist(
        node.name,
        history,
        *values,
        dist=draw,
        logp=logp,
        support_point=lambda rv, size, start, *rest: pt.broadcast_to(start[-1][..., None], (*shape, length)).astype(
            rv.dtype
        ),
        signature=f"{inputs}->({','.join(f'o{j}' for j in range(len(node.dims)))})",
        transform=reader.pm.distributions.transforms._default_transform(probe.owner.op, probe),
        default_transform=None,
        dims=node.dims,
        **({"dtype": "int64"} if node.discrete else {}),
    )
    return Term(rv, node.dims)


def _fill_starts(reader: DistributionReader, split: Split, node: Node) -> None:
    """Start lags that have no start from the first rows of the data."""
    without = [lag for name, lag in split.backs.items() if name not in split.starts]
    for name, back in sorted(without, key=lambda lag: -lag[1]):
        if node.name not in reader.columns:
            raise ModelError(
                f"lag({node.name}, {back}) needs start=...: in the first rows it reaches back before the data, and"
                f" '{node.name}' has no data to start from",
                code="bad-start",
            )
        observed = reader.data_of(node.name)
        for step in range(1, back + 1):
            split.given.setdefault((name, step), Term(np.asarray(observed.value)[..., back - step], observed.dims[:-1]))


def rows_together(reader: DistributionReader, group: list[Node]) -> dict[str, Any]:
    """Values of nodes that depend on each other's past, from one scan over the rows; random nodes are drawn.

    Parameters
    ----------
    group
        The nodes, sorted so that each comes after the nodes whose value in the same row it needs.

    Returns
    -------
    dict of str to variable
        Each node's values, with the axes of its dims.
    """
    import pytensor
    import pytensor.tensor as pt

    names = frozenset(node.name for node in group)
    dims = {node.dims[-1:] for node in group}
    if len(dims) != 1 or dims == {()}:
        raise ModelError(
            f"{', '.join(sorted(names))} depend on each other's past, so they need the same last dimension",
            code="bad-dimensions",
        )
    ((dim,),) = dims
    length = len(reader.labels[dim])
    splits = {node.name: Split(node, reader.evaluator, names) for node in group}
    shapes = {node.name: reader.lengths(node.dims[:-1]) for node in group}
    late = _late_rows(reader, group, splits)
    orders = {n: max([1, *(split.order(n) for split in splits.values())]) for n in names}
    histories = {
        node.name: _history(
            reader, list(splits.values()), node.name, orders[node.name], node.dims[:-1], shapes[node.name]
        )
        for node in group
    }
    along: dict[str, Any] = {"t": pt.arange(length)}
    fixed: dict[str, Any] = {}
    for name, split in splits.items():
        moving, still = _moving(reader, split, dim)
        along |= {f"{name} {part}": value for part, value in moving.items()}
        fixed |= {f"{name} {part}": value for part, value in still.items()}
    given = {
        n: values for n, values in ((n, _given_rows(reader, n, late[n], length)) for n in names) if values is not None
    }
    along |= {f"{n} given": value for n, value in given.items()}
    fixed |= {f"{n} start": histories[n][-1] for n in names}

    def step(*args: Any) -> Any:
        at = dict(zip(along, args, strict=False))
        past, used = {}, len(along)
        for node in group:
            past[node.name] = args[used : used + orders[node.name]]
            used += orders[node.name]
        at |= dict(zip(fixed, args[used:], strict=True))
        now: dict[str, Any] = {}
        for node in group:
            now[node.name] = _row(reader, node, splits[node.name], dim, at, past, now, orders, shapes, late)
        updates = reader.pm.pytensorf.collect_default_updates(list(now.values()), inputs=args)
        return list(now.values()), updates

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Scan return signature will change", category=DeprecationWarning)
        out, _ = pytensor.scan(
            step,
            sequences=list(along.values()),
            outputs_info=[_initial(histories[node.name], orders[node.name]) for node in group],
            non_sequences=list(fixed.values()),
            n_steps=length,
            strict=True,
            return_list=True,
        )
    return {
        node.name: pt.moveaxis(value, 0, -1) if value.ndim > 1 else value
        for node, value in zip(group, out, strict=True)
    }


def _late_rows(reader: DistributionReader, group: list[Node], splits: Mapping[str, Split]) -> dict[str, int]:
    """For each node, the number of first rows that its definition leaves undefined."""
    late: dict[str, int] = {}
    starting: dict[str, int] = {}
    for node in group:
        split = splits[node.name]
        late[node.name] = max([split.undefined, *(late.get(n, 0) for n in split.nows)])
        if late[node.name] and node.kind == "random" and node.name not in reader.columns:
            raise ModelError(
                f"the first {late[node.name]} rows of '{node.name}' depend on rows before the first: give"
                f" lag(..., start=...), or data to start from",
                path=node.path,
                code="bad-start",
            )
        has_start = any(split.backs[back][0] == node.name for back in split.starts)
        if late[node.name] and not has_start and reader.purpose != "simulate":
            raise ModelError(
                f"'{node.name}' and other nodes depend on each other's rows before the first: give lag(..., start=...)",
                path=node.path,
                code="bad-start",
            )
        if has_start:
            # There it takes its start value, so nodes that depend on it are defined.
            starting[node.name], late[node.name] = late[node.name], 0
    return late | starting


def _given_rows(reader: DistributionReader, name: str, rows: int, length: int) -> Any:
    """The data of a random node, for the first rows, in which it cannot be drawn; None if there are no such rows."""
    if not rows or reader.nodes[name].kind != "random":
        return None
    import pytensor.tensor as pt

    term = reader.data.term(name)
    value = np.moveaxis(np.asarray(term.value, dtype=float), -1, 0)
    return pt.as_tensor_variable(value[:length])


def _row(
    reader: DistributionReader,
    node: Node,
    split: Split,
    dim: str,
    at: Mapping[str, Any],
    past: Mapping[str, Any],
    now: Mapping[str, Any],
    orders: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    late: Mapping[str, int],
) -> Any:
    """The value of a node in one row."""
    import pytensor.tensor as pt

    batch = node.dims[:-1]
    parts = {
        key.removeprefix(f"{node.name} "): value for key, value in at.items() if key.startswith(f"{node.name} __part")
    }

    def lookup(name: str) -> Term:
        if name in split.backs:
            other, back = split.backs[name]
            dims, value = reader.nodes[other].dims[:-1], past[other][orders[other] - back]
            return Term(_past(split, name, value, at["t"], lookup, reader.labels, dims, shapes[other]), dims)
        if name.startswith("__now_"):
            other = name.removeprefix("__now_")
            return Term(now[other], reader.nodes[other].dims[:-1])
        return _part(split, name, parts, dim)

    if node.kind == "random":
        distribution = scalar_distribution(node)
        parameters = _parameters(reader, split, distribution, lookup, batch)
        value = pymc_class(distribution).dist(**parameters, shape=shapes[node.name]).astype("float64")
        fallback = at.get(f"{node.name} given")
    else:
        inner = Evaluator(lookup, reader.labels)
        (value,), _, _ = inner.align([inner.eval(split.tree)], onto=batch)
        value = _floats(value, shapes[node.name])
        fallback = at[f"{node.name} start"]
    if not late[node.name] or fallback is None:
        return value
    return pt.switch(pt.lt(at["t"], late[node.name]), fallback, value)
