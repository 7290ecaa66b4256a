"""A hidden Markov model as a PyMC graph, with states summed out or drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from bayeslab.data.bound import Data
from bayeslab.families.hmm.density import coordinates, parameters, write_evidence
from bayeslab.language.spec import Model
from bayeslab.language.writer import PYMC
from bayeslab.posterior.chains.hidden import Hidden

if TYPE_CHECKING:
    import pymc

__all__ = ["with_evidence", "written_out"]


def with_evidence(hidden: Hidden) -> pymc.Model:
    """Parameters, and log p(data | parameters) by forward-backward."""
    import pymc as pm

    start = hidden.guess(None)
    hidden.check_possible(start)
    with pm.Model(coords=coordinates(hidden)) as built:
        write_evidence(PYMC, hidden, start)
    return built


# --------------------------------------------------------------------------------- simulation


def written_out(model: Model, hidden: Hidden, data: Data) -> pymc.Model:
    """Parameters, the path of the states, and a random variable for each column."""
    import pymc as pm
    import pytensor.tensor as pt

    rows = model.data.rows
    with pm.Model(coords=coordinates(hidden)) as built:
        values = parameters(PYMC, hidden, None)
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
            values = dict(zip(hidden.chain.learned, rest, strict=True))
            outputs[0][0] = hidden.chain.simulate(values, uniform, hidden.sequences.offsets)

    return Paths()
