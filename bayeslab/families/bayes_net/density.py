"""The log density of a Bayes net given its data, with missing cells and hidden discrete variables summed out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.families.bayes_net.net import Net, Resolved
from bayeslab.families.bayes_net.normal_nodes import Linear, centred, prior_of
from bayeslab.families.graph.priors import program_with_priors
from bayeslab.language.algebra import Term
from bayeslab.language.backends import Backend
from bayeslab.language.evaluator import Evaluator
from bayeslab.language.expressions import parse
from bayeslab.language.spec import Model
from bayeslab.language.writer import Writer
from bayeslab.latents.networks.incomplete_rows import IncompleteRows
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.posterior.machine import functions
from bayeslab.posterior.machine.model import MachineModel

__all__ = ["check", "machine_model", "normal", "values_by_text", "write_data", "write_parameters"]


def check(resolved: Resolved) -> None:
    """Refuse nets without unknowns, and missing cells of nets with continuous variables."""
    net, codes, values, _ = resolved
    if not net.learned and not net.regressions:
        raise ModelError(
            "every table is given, so that there is nothing to learn; `bayeslab query` answers questions",
            code="nothing-to-fit",
        )
    if net.linears and (np.any(codes < 0) or np.any(np.isnan(values))):
        raise ModelError(
            "a net with continuous variables needs complete rows here; method em takes missing cells", code="missing"
        )


def machine_model(model: Model, resolved: Resolved) -> MachineModel:
    """Parameters, and log p(data | parameters), as a program.

    Raises
    ------
    NotLowered
        The machine does not know a prior, or missing cells need the junction tree.
    """
    check(resolved)
    net = resolved.net
    labels = {dim: values.tolist() for dim, values in net.labels().items()}
    writer = program_with_priors(model, {**net.parameters, **net.unknown}, labels)
    write_parameters(writer, resolved)
    write_data(writer, resolved, net.tables(values_by_text(writer.values, writer.ops), _MachineArrays))
    return writer.finish()


def values_by_text(variables: Mapping[str, Any], ops: Backend) -> Callable[[str], Any]:
    """The value of an unknown by its name, or of an expression of unknowns and parameters."""
    evaluator = Evaluator(lambda name: Term(variables[name]), {}, backend=ops)

    def value(text: str) -> Any:
        return variables[text] if text in variables else evaluator.term(parse(text)).value

    return value


class _MachineArrays:
    """NumPy's functions of arrays, for variables of the machine."""

    stack = staticmethod(functions.stack)
    concatenate = staticmethod(functions.concatenate)
    cumsum = staticmethod(functions.cumsum)
    exp = staticmethod(functions.function_of("exp"))

    @staticmethod
    def reshape(value: Any, shape: tuple[int, ...]) -> Any:
        return value.reshape(*shape)

    @staticmethod
    def max(value: Any, axis: int, keepdims: bool = False) -> Any:
        return _reduced("max", value, axis, keepdims)

    @staticmethod
    def sum(value: Any, axis: int, keepdims: bool = False) -> Any:
        return _reduced("sum", value, axis, keepdims)


def _reduced(name: str, value: Any, axis: int, keepdims: bool) -> Any:
    out = functions.reduction_of(name)(value, (axis,))
    return out.reshape(*(1 if k == axis else n for k, n in enumerate(value.shape))) if keepdims else out


def write_parameters(writer: Writer, resolved: Resolved, *, dims: bool = True) -> None:
    """Write the unknown rows of tables, and the coefficients of continuous variables.

    Parameters
    ----------
    dims
        Whether axes have names.
    """
    net = resolved.net
    for v, one in net.locals.items():
        if one.rows is not None:
            write_rows(writer, net, v, net.dims(v) if dims else ())
    for v in net.regressions:
        _write_coefficients(writer, net.linears[v], resolved, dims=dims)


def write_data(writer: Writer, resolved: Resolved, tables: Mapping[str, Any]) -> None:
    """Write log p(data | parameters): of continuous variables given their parents, and of the others by the tables."""
    net, codes, values, counts = resolved
    place, column = ({v: k for k, v in enumerate(each)} for each in (net.states, net.linears))
    for v, node in net.linears.items():
        discrete = [codes[:, place[p]] for p in node.discrete]
        mean, sd = normal(writer, node, discrete, [values[:, column[p]] for p in node.continuous])
        writer.data(v, "Normal", {"mu": mean, "sigma": sd}, values[:, column[v]])
    if net.states:
        write_evidence(writer, net, codes, tables, counts)


def normal(writer: Writer, node: Linear, codes: Sequence[Any], values: Sequence[Any]) -> tuple[Any, Any]:
    """Mean and standard deviation of a continuous variable, given its parents.

    Parameters
    ----------
    codes, values
        Those of the discrete and of the continuous parents.
    """
    at = tuple(codes)
    if node.known is not None:
        known = node.known
        intercept, slopes, sd = (writer.constant(part) for part in (known.intercept, known.slopes, known.sd))
    else:
        intercept, slopes, sd = (writer.existing(name) if name in node.dims else None for name in node.names)
    mean = intercept[at] if at else intercept
    for k, value in enumerate(values):
        slope = slopes[..., k]
        mean = mean + (slope[at] if at else slope) * value
    return mean, (sd[at] if at else sd)


def _write_coefficients(writer: Writer, node: Linear, resolved: Resolved, *, dims: bool) -> None:
    """Write intercept, slopes and sd of a continuous variable, under the prior of :mod:`.normal_nodes`."""
    prior = prior_of(node, resolved.net.linears, resolved.net.measured)
    intercept, slope, sd = node.names
    named = node.dims if dims else {}
    variable = intercept.removeprefix("intercept_")
    variance = writer.random(
        f"_variance_{variable}", "InverseGamma", {"alpha": prior.alpha, "beta": prior.beta}, node.shape
    )
    spread = writer.computed(sd, writer.sqrt(variance), named.get(sd, ()))
    widths, centres = centred(prior)
    middle = writer.random(
        f"_middle_{variable}", "Normal", {"mu": prior.mu[0], "sigma": spread * widths[0]}, node.shape
    )
    if node.continuous:
        slopes = writer.random(
            slope,
            "Normal",
            {"mu": 0.0, "sigma": spread[..., None] * widths[1:]},
            (*node.shape, len(node.continuous)),
            dims=named.get(slope, ()),
        )
        middle = middle - (slopes * centres).sum(axis=-1)
    writer.computed(intercept, middle, named.get(intercept, ()))


def write_rows(writer: Writer, net: Net, v: str, dims: tuple[str, ...]) -> Any:
    """Write the unknown rows of a table.

    Parameters
    ----------
    dims
        Names of the axes; empty: without names.
    """
    rows, shape = net.locals[v].rows, net.shape(v)
    assert rows is not None
    concentration = rows.concentration.reshape(shape)
    # Start in the middle of the prior, perturbed so that hidden states do not start alike.
    start = concentration * _nudge(v, shape)
    return writer.random(
        rows.name, "Dirichlet", {"a": concentration}, shape, dims=dims, start=start / start.sum(axis=-1, keepdims=True)
    )


def write_evidence(
    writer: Writer, net: Net, codes: np.ndarray, tables: Mapping[str, Any], counts: np.ndarray | None = None
) -> None:
    """Write log p(data | tables).

    The missing cells of a row fall into groups that the observed cells separate; equal groups are summed out once, and
    only the widest need the junction tree.
    """
    flat = [tables[v] for v in net.states]
    rows = IncompleteRows.of(net.states, net.parents, codes, counts)
    kernel = "bayeslab.latents.networks.counting_kernels:evidence_of_tables"
    total = writer.evidence(kernel, flat, *rows.kernel_arrays)
    if len(rows.wide):
        writer.only_pymc("missing cells that need the junction tree")
        tree = JunctionTree.of(net.network(_prior_means(net)))
        kernel = "bayeslab.latents.networks.tree_kernels:log_evidence_and_gradient"
        total = total + writer.evidence(kernel, flat, rows.wide, rows.wide_weights, *tree.arrays)
    writer.add("evidence", total)


def _prior_means(net: Net) -> Any:
    """A value of every unknown: the junction tree needs only the shapes."""
    rows = {one.rows.name: (v, one.rows) for v, one in net.locals.items() if one.rows is not None}

    def value(name: str) -> Any:
        if name in rows:
            v, prior = rows[name]
            return (prior.concentration / prior.concentration.sum(axis=1, keepdims=True)).reshape(net.shape(v))
        return 0.5

    return value


def _nudge(variable: str, shape: tuple[int, ...]) -> np.ndarray:
    """Perturbation factors near one, the same in every process."""
    seed = int.from_bytes(variable.encode()[:8].ljust(8, b"\0"), "little")
    return np.exp(0.1 * np.random.default_rng(seed).standard_normal(shape))
