"""The posterior of a plain PyMC model, as engines and results use it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Set
from functools import cached_property

import networkx as nx
import numpy as np
import pymc as pm
from pytensor.graph.basic import Variable
from pytensor.graph.traversal import ancestors

from bayeslab.data.binding import bind
from bayeslab.data.dataset import Dataset
from bayeslab.errors import OptionError
from bayeslab.language.spec import Family, Model
from bayeslab.posterior import graph_model
from bayeslab.posterior.contract import Posterior, Purpose
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.density import MachineDensity
from bayeslab.posterior.of_pymc.model import PyMCMachineModel, lowered

__all__ = ["PyMCPosterior"]


class PyMCSpec(Family):
    """Stands for a PyMC model where a run's record has the content of a model file."""

    family: str = "pymc"
    observed: tuple[str, ...] = ()
    #: SHA-256 of the model's text and data.
    sha256: str = ""

    def outcomes(self, columns: Set[str]) -> tuple[str, ...]:
        return self.observed


class PyMCPosterior(Posterior):
    """The posterior of a plain PyMC model with its data.

    Parameters
    ----------
    built
        A model; it is read once, so that later changes of it have no effect.

    Raises
    ------
    ModelError
        The density machine does not know some operations or distributions.
    """

    def __init__(self, built: pm.Model) -> None:
        self.built, self._machine = built, lowered(built)
        names = tuple(str(rv.name) for rv in built.observed_RVs)
        spec = PyMCSpec(observed=names, sha256=_digest(built))
        model = Model(name="pymc", model=spec)
        super().__init__(model, bind(model, Dataset(), ()))

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pm.Model:
        if purpose != "fit":
            raise OptionError(
                "a PyMC model predicts by its own means: pm.sample_posterior_predictive(fit.data_tree, model=model)",
                code="other-family",
            )
        return self.built

    def network(self) -> nx.DiGraph:
        built = self.built
        named = {
            **dict.fromkeys(built.free_RVs, "random"),
            **dict.fromkeys(built.observed_RVs, "observed"),
            **dict.fromkeys(built.deterministics, "deterministic"),
            **dict.fromkeys(built.potentials, "potential"),
        }
        out = nx.DiGraph(dims=dict[str, int]())
        for variable, kind in named.items():
            out.add_node(str(variable.name), kind=kind, text=_word(variable), dims=())
        for variable in named:
            parents = variable.owner.inputs if variable.owner is not None else ()
            for parent in {v for v in ancestors(parents, blockers=named) if v in named}:
                out.add_edge(str(parent.name), str(variable.name))
        return out

    def outcomes(self) -> tuple[str, ...]:
        return self.observed()

    def observed(self) -> tuple[str, ...]:
        return tuple(str(v.name) for v in (*self.built.observed_RVs, *self.built.potentials))

    def machine_model(self, weights: Mapping[str, np.ndarray] | None = None) -> PyMCMachineModel:
        if weights:
            raise NotLowered("pymc", "weights of the observations of a PyMC model")
        return self._machine

    @cached_property
    def density(self) -> MachineDensity:
        """The log density on the unconstrained scale."""
        return MachineDensity(self._machine, self.graph)


def _word(variable: Variable) -> str:
    """The name of the distribution of a random variable; "" for others."""
    names = getattr(variable.owner.op, "_print_name", None) if variable.owner is not None else None
    return str(names[0]) if names else ""


def _digest(built: pm.Model) -> str:
    """A hash of a model's text and data."""
    out = hashlib.sha256(built.str_repr().encode())
    arrays = graph_model.observed_cells(built)
    arrays |= {str(v.name): np.asarray(graph_model.constant(v)) for v in built.data_vars}
    for name, array in sorted(arrays.items()):
        out.update(name.encode() + str(array.dtype).encode() + np.ascontiguousarray(array).tobytes())
    return out.hexdigest()
