"""Parameters of other families whose priors are expressions of the model language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bayeslab.data.binding import bind
from bayeslab.data.dataset import Dataset
from bayeslab.errors import ModelError
from bayeslab.families import graph as graphs
from bayeslab.families.graph.lowering import Lowering
from bayeslab.language.spec import Model
from bayeslab.posterior.machine.writer import ProgramWriter

if TYPE_CHECKING:
    import pymc

__all__ = ["program_with_priors", "pymc_with_priors"]


def pymc_with_priors(model: Model, nodes: Mapping[str, str], dims: Mapping[str, Sequence[Any]]) -> pymc.Model:
    """A PyMC model with the parameters and the labels of dimensions.

    Parameters
    ----------
    nodes
        Parameters, ``name`` or ``name[dim]``, with their priors.

    Raises
    ------
    ModelError
        A prior is wrong; the error has its path in the short form.
    """
    import pymc as pm

    if not nodes:
        return pm.Model(coords=dict(dims))
    try:
        built: pymc.Model = graphs.compile(*_bound(model, nodes, dims)).graph()
    except ModelError as error:
        raise _renamed(error) from None
    for dim, labels in dims.items():
        if dim not in built.coords:
            built.add_coord(dim, labels)
    return built


def program_with_priors(model: Model, nodes: Mapping[str, str], dims: Mapping[str, Sequence[Any]]) -> ProgramWriter:
    """The same as the beginning of a program.

    Raises
    ------
    ModelError
        A prior is wrong; the error has its path in the short form.
    NotLowered
        The machine does not know a prior.
    """
    if not nodes:
        return ProgramWriter(dims)
    try:
        lowering = Lowering(*_bound(model, nodes, dims), {}, frozenset())
        lowering.walk()
    except ModelError as error:
        raise _renamed(error) from None
    return ProgramWriter(dims, lowering, {name: lowering.terms[name].value for name in lowering.nodes})


def _bound(model: Model, nodes: Mapping[str, str], dims: Mapping[str, Sequence[Any]]) -> tuple[Model, Any]:
    short = model.model_copy(update={"model": graphs.Graph(nodes=dict(nodes)), "dims": dict(dims)})
    graphs.check(short, set())
    return short, bind(short, Dataset({}, model.data.rows), ())


def _renamed(error: ModelError) -> ModelError:
    """An error in a node as an error in a prior."""
    where = error.path[2].partition("[")[0] if len(error.path) > 2 else ""
    return ModelError(error.message, path=("model", "priors", where), offset=error.offset, code=error.code)
