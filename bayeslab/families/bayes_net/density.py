"""The log density of a Bayes net of tables given its data, with missing cells and hidden variables summed out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.families.bayes_net.local_distributions.table import Table
from bayeslab.families.bayes_net.net import Net, Resolved
from bayeslab.language.writer import Writer
from bayeslab.latents.networks.incomplete_rows import IncompleteRows
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.machine.writer import ProgramWriter

__all__ = ["machine_model", "write_evidence", "write_rows"]


def machine_model(resolved: Resolved) -> MachineModel:
    """Parameters, and log p(data | parameters), as a program.

    Raises
    ------
    NotLowered
        A table is computed from other parameters, or a variable is continuous.
    """
    net, codes, _, counts = resolved
    if net.linears:
        raise NotLowered(next(iter(net.linears)), "a continuous variable of a net")
    labels = net.labels()
    writer = ProgramWriter({dim: values.tolist() for dim, values in labels.items()})
    tables: dict[str, Any] = {}
    for v, one in net.locals.items():
        if one.known is not None:
            tables[v] = writer.constant(np.asarray(one.known, float))
        elif isinstance(one, Table) and one.rows is not None and one.rows.whole:
            tables[v] = write_rows(writer, net, v, net.dims(v))
        else:
            raise NotLowered(v, "a table of which only some rows are unknown, or which is computed")
    write_evidence(writer, net, codes, tables, counts)
    return writer.finish()


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
