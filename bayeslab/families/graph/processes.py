"""Nodes ``f[row]: GaussianProcess(kernel)``: their declaration, and their inputs in the data."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.node_values import Environment, NotExact
from bayeslab.distributions import DISTRIBUTIONS, MODIFIERS
from bayeslab.errors import BayeslabError, DataError, ModelError
from bayeslab.exact.prior_quantiles import quantiles
from bayeslab.language.algebra import Term
from bayeslab.language.indexing import labels_are_numbers
from bayeslab.language.nodes import Node, bound_arguments
from bayeslab.latents.gaussian_process import hilbert_gp
from bayeslab.latents.gaussian_process.covariance import Kernel, Parameter
from bayeslab.latents.gaussian_process.hilbert_gp import HilbertBasis

__all__ = [
    "JITTER",
    "Inputs",
    "Process",
    "basis_of",
    "check_inputs",
    "check_process",
    "functions_refused",
    "inputs_of",
    "process_of",
    "unserved_lengthscales",
]

# Jitter on the diagonal of a covariance, as a share of the mean variance.
JITTER = 1e-8
# Largest number of distinct inputs of a dense process: one Cholesky factor takes about a second.
_MOST_INPUTS = 3_000
# Margin of the domain beyond the inputs, as a share of their range.
_MARGIN = 0.05


@dataclass(frozen=True, eq=False)
class Process:
    """A function as its node declares it.

    Attributes
    ----------
    kernel : Kernel
        Kernel whose hyperparameters are names of scalar nodes.
    approximate : bool
        Whether sines approximate the function.
    functions : int or None
        Number of sines for each column.
    domain : tuple of (float, float) or None
        Range of predictions by column.
    """

    kernel: Kernel
    approximate: bool
    functions: int | None
    domain: tuple[tuple[float, float], ...] | None


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a function, by row.

    Attributes
    ----------
    x : ndarray (rows, columns)
    """

    x: np.ndarray

    @cached_property
    def distinct(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct inputs, and the index of each row among them."""
        unique, place = np.unique(self.x, axis=0, return_inverse=True)
        return unique, place.ravel()

    def places(self, x: np.ndarray) -> np.ndarray:
        """Indices of other inputs among the distinct ones; -1 for new inputs."""
        known = {row.tobytes(): k for k, row in enumerate(self.distinct[0] + 0.0)}
        return np.array([known.get(row.tobytes(), -1) for row in x + 0.0], dtype=np.int64)


# ------------------------------------------------------------------------------ what a node says


def process_of(node: Node, nodes: Mapping[str, Node], data: Data | None) -> Process:
    """The function that a node declares; without data, every name that is not a scalar node is a column.

    Raises
    ------
    ModelError
        At the place in the node's expression.
    """
    tree = node.expression.tree
    assert isinstance(tree, ast.Call)
    given = bound_arguments(tree, str(node.distribution))
    if not node.dims:
        raise ModelError(
            f"a function has values along a dimension: {node.name}[row]: GaussianProcess(...)", code="bad-dimensions"
        )
    columns = None if data is None else data.names()
    single = {name for name, other in nodes.items() if not other.dims and name not in (columns or ())}
    inputs = None
    if data is not None:
        inputs = data.names() | set(data.labels) | {name for name, other in nodes.items() if other.dims}
    kernel = Kernel.read(given["kernel"], inputs, single, _levels(given["kernel"], data))
    _check_inputs(kernel, given["kernel"], nodes, columns or set())
    _check_complete(kernel, given["kernel"], single)
    for parameter in kernel.parameters:
        _check_support(parameter, nodes, given["kernel"])
    approximate = _approximate(given, kernel)
    functions, domain = _functions(given), _domain(given, kernel)
    for name in ("functions", "domain"):
        if name in given and not approximate:
            raise ModelError(f"'{name}' needs approximation=hsgp", offset=given[name].col_offset, code="conflict")
    return Process(kernel, approximate, functions, domain)


def check_process(node: Node, nodes: Mapping[str, Node]) -> None:
    """Check everything about a function that can be checked before data are bound."""
    with _located(node):
        process_of(node, nodes, None)


def check_inputs(node: Node, nodes: Mapping[str, Node], data: Data) -> None:
    """Check a function against the data of a fit."""
    process = process_of(node, nodes, data)
    inputs = inputs_of(process, node, nodes, data)
    if process.approximate:
        basis_of(process, inputs, node, nodes)


@contextmanager
def _located(node: Node) -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        if error.path:
            raise
        raise ModelError(error.message, path=node.path, offset=error.offset, code=error.code) from None


def _levels(tree: ast.expr, data: Data | None) -> dict[str, list[str]] | None:
    """Names of the levels of the columns that hold names."""
    if data is None:
        return None
    names = {part.id for part in ast.walk(tree) if isinstance(part, ast.Name)} & data.names()
    factors = {name: data.term(name, missing=True) for name in names}
    return {
        name: [str(level) for level in data.labels[term.factor]]
        for name, term in factors.items()
        if term.value is None and term.factor in data.labels
    }


def _at(tree: ast.expr, name: str) -> int:
    """Where a name stands in an expression."""
    return next((part.col_offset for part in ast.walk(tree) if isinstance(part, ast.Name) and part.id == name),
                tree.col_offset)  # fmt: skip


def _check_complete(kernel: Kernel, tree: ast.expr, single: Collection[str]) -> None:
    """Check that every hyperparameter is given, as a number or the name of a node."""
    for leaf in kernel.root.leaves():
        if leaf.word == "White":
            raise ModelError(
                "White(...) in a function is independent noise in each row: give it a node, noise[row]: Normal(0, s),"
                " or leave it to the distribution of the observations",
                offset=tree.col_offset,
                code="unsupported",
            )
        for role, arguments in leaf.arguments.items():
            lacking = [argument.name for argument in arguments if argument.name and argument.name not in single]
            if lacking and lacking[0].startswith(leaf.word):
                raise ModelError(
                    f"'{leaf.text}' has no {role}: give a number, or the name of a node without dimensions"
                    f" that has a prior, as in {leaf.text[:-1]}, {role}=s)",
                    offset=tree.col_offset,
                    code="incomplete",
                )
            if lacking:
                raise ModelError(
                    f"'{lacking[0]}', the {role} in '{leaf.text}', is not a single number: name a node without"
                    " dimensions",
                    offset=_at(tree, lacking[0]),
                    code="unknown-name",
                )


def _check_inputs(kernel: Kernel, tree: ast.expr, nodes: Mapping[str, Node], columns: Collection[str]) -> None:
    """Check that inputs are data: columns, or functions of them."""
    if not kernel.columns:
        raise ModelError(
            f"'{kernel.text}' has no column, so the function is one number: give it a node without a dimension, such as"
            " a: Normal(0, s)",
            offset=tree.col_offset,
            code="incomplete",
        )
    for column in kernel.columns:
        todo, above = [column], set[str]()
        while todo:
            name = todo.pop()
            if name in above or name in columns or name not in nodes:
                continue
            above.add(name)
            if nodes[name].kind != "deterministic":
                also = "" if name == column else f", which '{column}' is computed from,"
                raise ModelError(
                    f"the inputs of a function are data, and '{nodes[name].key}'{also} is not: it would have to be"
                    " sampled with the function. A hyperparameter is a node without dimensions",
                    offset=_at(tree, column),
                    code="unsupported",
                )
            todo += nodes[name].parents


def _check_support(parameter: Parameter, nodes: Mapping[str, Node], tree: ast.expr) -> None:
    """Check that positive hyperparameters have priors on positive numbers."""
    node = nodes.get(parameter.name)
    if parameter.support == "real" or node is None or node.kind != "random":
        return
    word = str(node.distribution)
    if word in MODIFIERS or word not in DISTRIBUTIONS or DISTRIBUTIONS[word].discrete:
        return
    low = DISTRIBUTIONS[word].domain.values.low
    if not isinstance(low, str) and low < 0:
        raise ModelError(
            f"'{parameter.name}' is a {parameter.role}, which is positive, and {word} draws negative numbers: take"
            " HalfNormal, LogNormal, Gamma or InverseGamma",
            offset=_at(tree, parameter.name),
            code="out-of-range",
        )


def _approximate(given: Mapping[str, ast.expr], kernel: Kernel) -> bool:
    if "approximation" not in given:
        return False
    reason = hilbert_gp.reason_against(kernel)
    if reason is not None:
        raise ModelError(reason, offset=given["approximation"].col_offset, code="unsupported")
    return True


def _functions(given: Mapping[str, ast.expr]) -> int | None:
    tree = given.get("functions")
    if tree is None:
        return None
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int) and tree.value is not True and tree.value >= 1:
        return tree.value
    raise ModelError(
        f"functions is the number of basis functions for each column, a whole number, not '{ast.unparse(tree)}'",
        offset=tree.col_offset,
        code="out-of-range",
    )


def _domain(given: Mapping[str, ast.expr], kernel: Kernel) -> tuple[tuple[float, float], ...] | None:
    tree = given.get("domain")
    if tree is None:
        return None
    shown = "[low, high]" if len(kernel.columns) == 1 else f"[[low, high], ...], one pair for each of {kernel.columns}"
    try:
        value = np.array(ast.literal_eval(tree), dtype=float)
    except (ValueError, TypeError, SyntaxError):
        value = np.zeros(0)
    pairs = value.reshape(-1, 2) if value.size % 2 == 0 else np.zeros((0, 2))
    if len(pairs) != len(kernel.columns) or np.any(pairs[:, 0] >= pairs[:, 1]):
        raise ModelError(f"domain is {shown}, not '{ast.unparse(tree)}'", offset=tree.col_offset, code="out-of-range")
    return tuple((float(low), float(high)) for low, high in pairs)


# ------------------------------------------------------------------------------ inputs in the data


def inputs_of(process: Process, node: Node, nodes: Mapping[str, Node], data: Data, *, fitted: bool = True) -> Inputs:
    """The inputs of a function in the data.

    Parameters
    ----------
    fitted
        Whether these are the data of the fit, from which parameters are learned.

    Raises
    ------
    ModelError, DataError
        Columns of another dimension, missing cells, columns of which nothing can be learnt.
    """
    environment = Environment(nodes, data, {})
    x = np.column_stack([_column(name, process, node, data, environment) for name in process.kernel.columns])
    if fitted:
        categorical = process.kernel.categorical
        for name, values in zip(process.kernel.columns, x.T, strict=True):
            if name not in categorical and np.ptp(values) == 0.0:
                raise DataError(
                    f"column '{name}' is {values[0]:g} in every row: a function of it cannot be estimated",
                    path=node.path,
                    code="constant",
                )
        inputs = Inputs(x)
        if not process.approximate and len(inputs.distinct[0]) > _MOST_INPUTS:
            raise ModelError(
                f"'{node.name}' has {len(inputs.distinct[0]):,} distinct inputs, too many for a full covariance matrix"
                f" (at most {_MOST_INPUTS:,}): use approximation=hsgp",
                path=node.path,
                code="too-costly",
            )
        return inputs
    return Inputs(x)


def _column(name: str, process: Process, node: Node, data: Data, environment: Environment) -> np.ndarray:
    try:
        if name in data.names():
            term = data.term(name, missing=True)
        elif name in data.labels:
            term = Term(None, (name,), codes=np.arange(len(data.labels[name])), factor=name)
        else:
            term = environment.lookup(name)
    except NotExact as error:
        raise ModelError(str(error), path=node.path, code="unsupported") from None
    if term.dims != (node.dims[-1],):
        have = ", ".join(map(str, term.dims)) or "none"
        raise ModelError(
            f"'{name}' has the dimensions ({have}), and an input of {node.key} has one cell for each"
            f" '{node.dims[-1]}', the dimension along which the function has values",
            path=node.path,
            code="bad-dimensions",
        )
    values = _numbers(name, term, process, node, data)
    if np.isnan(values).any():
        row = int(np.argmax(np.isnan(values)))
        raise DataError(
            f"column '{name}', row {row + 1} is missing, and '{node.name}' is a function of it: drop the row",
            path=node.path,
            code="missing",
        )
    if np.isinf(values).any():
        row = int(np.argmax(np.isinf(values)))
        raise DataError(
            f"column '{name}', row {row + 1} is {values[row]:g}, and '{node.name}' is a function of it, which has"
            " values at numbers only: correct the cell, or drop the row",
            path=node.path,
            code="not-finite",
        )
    return values


def _numbers(name: str, term: Term, process: Process, node: Node, data: Data) -> np.ndarray:
    if name in process.kernel.categorical:
        if term.codes is None:
            raise ModelError(
                f"Coregion({name}) needs a column of names; list '{name}' under `text`",
                path=node.path,
                code="wrong-type",
            )
        return np.where(np.asarray(term.codes) < 0, np.nan, np.asarray(term.codes, dtype=float))
    labels = data.labels.get(str(term.factor)) if term.value is None else None
    if labels is not None and (labels.dtype.kind in "iuf" or labels_are_numbers(labels)):
        return np.where(np.asarray(term.codes) < 0, np.nan, labels.astype(float)[term.codes])
    if term.value is None:
        raise ModelError(
            f"'{name}' holds names, and a function of '{name}' needs numbers; of names take Coregion({name})",
            path=node.path,
            code="not-numbers",
        )
    return np.asarray(term.value, dtype=float)


def basis_of(process: Process, inputs: Inputs, node: Node, nodes: Mapping[str, Node]) -> HilbertBasis:
    """The sines that approximate a function, chosen by its inputs and the priors of its lengthscales alone."""
    x, columns = inputs.x, process.kernel.columns
    limits = {
        parameter.name: _limits(parameter, x, columns, nodes)
        for parameter in process.kernel.parameters
        if parameter.role == "lengthscale"
    }
    domain = {}
    for k, (name, values) in enumerate(zip(columns, x.T, strict=True)):
        low, high = float(values.min()), float(values.max())
        margin = _MARGIN * (high - low)
        domain[name] = (low - margin, high + margin) if process.domain is None else process.domain[k]
        if low < domain[name][0] or high > domain[name][1]:
            raise ModelError(
                f"the data have '{name}' from {low:g} to {high:g}, which is not inside the domain"
                f" [{domain[name][0]:g}, {domain[name][1]:g}]",
                path=node.path,
                code="out-of-range",
            )
    with _located(node):
        return hilbert_gp.choose_basis(process.kernel, x, limits, functions=process.functions, domain=domain)


def _limits(
    parameter: Parameter, x: np.ndarray, columns: tuple[str, ...], nodes: Mapping[str, Node]
) -> tuple[float, float]:
    """Lengthscales that matter: of a prior with numbers its middle, else from neighbours to the whole range."""
    node = nodes.get(parameter.name)
    prior_quantiles = quantiles(node.expression.text) if node is not None and node.kind == "random" else None
    if prior_quantiles is not None:
        return prior_quantiles[0], prior_quantiles[2]
    gaps, spans = [], []
    for name, values in zip(columns, x.T, strict=True):
        if name in parameter.columns:
            distinct = np.unique(values)
            spans.append(float(np.ptp(distinct)))
            gaps.append(float(np.median(np.diff(distinct))))
    return min(gaps), max(max(spans), math.nextafter(min(gaps), math.inf))


def functions_refused(error: DataError, node: Node) -> BayeslabError:
    """The message for new rows outside the domain of the sines."""
    head = error.message.partition(";")[0].replace("approximation: hsgp", "approximation=hsgp")
    return DataError(
        f"{head}; fit with domain=[low, high] in '{node.key}' wide enough for them, or without approximation",
        path=node.path,
        code=error.code,
    )


def unserved_lengthscales(
    nodes: Mapping[str, Node], data: Data, draws: Mapping[str, np.ndarray]
) -> list[tuple[str, str, float | None, str, str]]:
    """Findings about lengthscales of a posterior that sines do not serve: check, name, value, text and advice."""
    out: list[tuple[str, str, float | None, str, str]] = []
    for node in nodes.values():
        if not node.process:
            continue
        process = process_of(node, nodes, data)
        if not process.approximate:
            continue
        basis = basis_of(process, inputs_of(process, node, nodes, data), node, nodes)
        for finding in hilbert_gp.unserved(basis, draws):
            if finding.short:
                advice = (
                    f"standard deviations of '{node.name}' are too small;"
                    f" fit with functions={finding.functions} or more"
                )
            else:
                low, high = finding.domain
                advice = f"fit with a wider box, domain=[{low:.4g}, {high:.4g}] of {finding.column} in '{node.name}'"
            out.append(("functions" if finding.short else "box", finding.name, finding.value, finding.text, advice))
    return out
