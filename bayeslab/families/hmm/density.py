"""The log density of a hidden Markov model, with states summed out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.language.writer import Writer
from bayeslab.latents.chains.forward_backward import GAUSSIAN_KERNEL
from bayeslab.latents.chains.state_chain import MarkovChain
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.machine.writer import ProgramWriter
from bayeslab.posterior.observed.normal import Normal

__all__ = ["coordinates", "machine_model", "parameters", "write_evidence"]


def machine_model(hidden: Hidden) -> MachineModel:
    """Parameters, and log p(data | parameters) by forward-backward, as a program.

    Raises
    ------
    NotLowered
        The machine does not know a part of the model.
    """
    start = hidden.guess(None)
    hidden.check_possible(start)
    writer = ProgramWriter(coordinates(hidden))
    write_evidence(writer, hidden, start)
    return writer.finish()


def coordinates(hidden: Hidden) -> dict[str, list[Any]]:
    """Labels of the dimensions of parameters."""
    dims = ["state", "next_state", *hidden.chain.labels()] + ["state_before"] * (hidden.chain.order == 2)
    out = {dim: hidden.labels[dim].tolist() for dim in dims}
    for part in hidden.parts:
        for dim, labels in part.labels().items():
            out.setdefault(dim, labels.tolist())
    return out


def parameters(writer: Writer, hidden: Hidden, start: Mapping[str, np.ndarray] | None) -> dict[str, Any]:
    """All parameters: unknown ones as random variables, which start at given values."""
    values = dict(hidden.chain.variables(writer, start))
    for part in hidden.parts:
        values |= (part if start is None else part.starting(start)).variables(writer)
    return values


def write_evidence(writer: Writer, hidden: Hidden, start: Mapping[str, np.ndarray]) -> None:
    """Write the parameters, and log p(data | parameters)."""
    values, chain, offsets = parameters(writer, hidden, start), hidden.chain, hidden.sequences.offsets
    if isinstance(chain, MarkovChain) and chain.full and all(isinstance(part, Normal) for part in hidden.parts):
        # The kernel computes densities of rows and their moments, so that the model has only the size of the
        # parameters.
        log_start, log_transition = chain.log_probabilities(writer, values)
        mean, deviation, columns = _normal_parameters(writer, hidden, values)
        rows, sizes = np.ascontiguousarray(hidden.rows[:, columns]), np.array([chain.n_states, 1, chain.n_steps])
        flat = (log_start, log_transition, mean, deviation)
        writer.add("evidence", writer.evidence(GAUSSIAN_KERNEL, flat, offsets, sizes, rows))
        return
    log_emission: Any = np.zeros((len(hidden.rows), hidden.parts[0].n_states))
    for part in hidden.parts:  # missing cells contribute nothing
        log_emission = log_emission + part.density(writer, values, hidden.rows)
    writer.add("evidence", chain.evidence(writer, values, log_emission, offsets))


def _normal_parameters(writer: Writer, hidden: Hidden, values: Mapping[str, Any]) -> tuple[Any, Any, list[int]]:
    """Means and standard deviations (K, D) of independent normal columns, and the columns' positions."""
    tables = []
    for parameter in ("mean", "sd"):
        columns = []
        for part in hidden.parts:
            value = values[part.called(parameter)]
            value = value if value.ndim == 2 else value[:, None]
            columns.append(writer.ops.broadcast_to(value, (part.n_states, len(part.columns))))
        tables.append(writer.joined(columns, 1))
    return tables[0], tables[1], [at for part in hidden.parts for at in part.at]
