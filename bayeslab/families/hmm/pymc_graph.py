"""A hidden Markov model as a PyMC graph, with states summed out or drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.language.spec import Model
from bayeslab.latents.chains.forward_backward import GAUSSIAN_KERNEL
from bayeslab.latents.chains.state_chain import MarkovChain
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.observed.normal import Normal
from bayeslab.posterior.observed.part import StatePart

if TYPE_CHECKING:
    import pymc

__all__ = ["log_density", "with_evidence", "written_out"]


def with_evidence(hidden: Hidden) -> pymc.Model:
    """Parameters, and log p(data | parameters) by forward-backward."""
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.evidence import log_evidence

    start = hidden.guess(None)
    hidden.check_possible(start)
    built, values = _parameters(hidden, start)
    with built:
        chain, offsets = hidden.chain, hidden.sequences.offsets
        if isinstance(chain, MarkovChain) and chain.full and _independent_normals(hidden):
            # The kernel computes densities of rows and their moments, so that the graph has only the size of the
            # parameters.
            log_start, log_transition = chain.log_probabilities(values)
            mean, deviation, columns = _normal_parameters(hidden, values)
            flat = pt.concatenate([x.ravel() for x in (log_start, log_transition, mean, deviation)])
            rows, sizes = np.ascontiguousarray(hidden.rows[:, columns]), np.array([chain.n_states, 1, chain.n_steps])
            pm.Potential("evidence", log_evidence(GAUSSIAN_KERNEL, flat, offsets, sizes, rows))
            return built
        log_emission = log_density(hidden.parts, values, hidden.rows)
        pm.Potential("evidence", chain.evidence(values, log_emission, offsets))
    return built


def _parameters(hidden: Hidden, start: Mapping[str, np.ndarray] | None) -> tuple[pymc.Model, dict[str, Any]]:
    """A PyMC model with every unknown as a free random variable, and all parameters as expressions."""
    import pymc as pm

    dims = ("state", "next_state", *hidden.chain.labels())
    built = pm.Model(coords={dim: hidden.labels[dim].tolist() for dim in dims})
    if hidden.chain.order == 2:
        built.add_coord("state_before", hidden.states.tolist())
    with built:
        values = hidden.chain.variables(start)
        for part in hidden.parts:
            for dim, labels in part.labels().items():
                if dim not in built.coords:
                    built.add_coord(dim, labels.tolist())
            values |= (part if start is None else part.starting(start)).variables()
    return built, values


def log_density(parts: Sequence[StatePart], values: Mapping[str, Any], rows: np.ndarray) -> Any:
    """log p(row | state), (N, K), as a PyTensor expression; missing cells contribute nothing."""
    import pytensor.tensor as pt

    return sum((part.density(values, rows) for part in parts), start=pt.zeros((len(rows), parts[0].n_states)))


def _independent_normals(hidden: Hidden) -> bool:
    """Whether all columns are normal and independent given the state."""
    return all(isinstance(part, Normal) for part in hidden.parts)


def _normal_parameters(hidden: Hidden, values: Mapping[str, Any]) -> tuple[Any, Any, list[int]]:
    """Means and standard deviations (K, D) of independent normal columns as expressions, and the columns'
    positions.
    """
    import pytensor.tensor as pt

    def table(part: StatePart, parameter: str) -> Any:
        parameters = values[part.called(parameter)]
        shape = (part.n_states, len(part.columns))
        return pt.broadcast_to(parameters if parameters.ndim == 2 else parameters[:, None], shape)

    mean, deviation = (pt.concatenate([table(part, p) for part in hidden.parts], axis=1) for p in ("mean", "sd"))
    return mean, deviation, [at for part in hidden.parts for at in part.at]


# --------------------------------------------------------------------------------- simulation


def written_out(model: Model, hidden: Hidden, data: Data) -> pymc.Model:
    """Parameters, the path of the states, and a random variable for each column."""
    import pymc as pm
    import pytensor.tensor as pt

    rows = model.data.rows
    built, values = _parameters(hidden, None)
    with built:
        built.add_coord(rows, data.labels[rows].tolist())
        inputs = [pt.as_tensor_variable(values[name]) for name in hidden.chain.learned]
        uniform = pm.Uniform.dist(shape=hidden.sequences.n_times)
        path = _paths(hidden)(uniform, *inputs)
        states = path[hidden.sequences.at]
        pm.Deterministic("path", states, dims=rows)
        switched = _behind_a_switch(hidden, values, states)
        for column, variable in switched.items():
            pm.Deterministic(column, variable, dims=rows)
        for part in hidden.parts if not switched else ():
            for column, variable in part.drawn(values, states, hidden.rows[hidden.sequences.at]).items():
                if part.computed:
                    pm.Deterministic(column, variable, dims=rows)
                    continue
                variable.name = column
                # Not sampled by MCMC steps: PyMC would warn about variables without coordinates.
                built.register_rv(variable, column, dims=rows, default_transform=None)
    return built


def _behind_a_switch(hidden: Hidden, values: Mapping[str, Any], states: Any) -> dict[str, Any]:
    """Columns that one chain or another emits, depending on the switch; empty without a switch."""
    import pytensor.tensor as pt

    out: dict[str, Any] = {}
    for part in hidden.parts:
        if not part.switched:
            continue
        for column, variable in part.drawn(values, states, hidden.rows[hidden.sequences.at]).items():
            out[column] = pt.where(part.emits(states), variable, out[column]) if column in out else variable
    return out


def _paths(hidden: Hidden) -> Any:
    """An Op that draws the states of all sequences from uniform numbers and the chain's probabilities."""
    import pytensor.tensor as pt
    from pytensor.graph.basic import Apply
    from pytensor.graph.op import Op

    class Paths(Op):
        def make_node(self, uniform: Any, *probabilities: Any) -> Apply:
            return Apply(self, [uniform, *probabilities], [pt.lvector()])

        def perform(self, node: Any, inputs: Any, outputs: Any) -> None:
            uniform, *rest = inputs
            outputs[0][0] = _drawn_path(hidden, uniform, rest)

    return Paths()


def _drawn_path(hidden: Hidden, uniform: np.ndarray, probabilities: list[np.ndarray]) -> np.ndarray:
    values = dict(zip(hidden.chain.learned, probabilities, strict=True))
    return hidden.chain.simulate(values, uniform, hidden.sequences.offsets)
