"""A plain PyMC model as a program of the density machine."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from pymc.distributions.distribution import SymbolicRandomVariable, support_point
from pytensor.graph.basic import Variable
from pytensor.scan.op import Scan
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.type_other import NoneTypeT

from bayeslab.errors import ModelError
from bayeslab.posterior import graph_model
from bayeslab.posterior.evaluation import evaluate
from bayeslab.posterior.machine.arrays import NotLowered, Var
from bayeslab.posterior.machine.laws import Law
from bayeslab.posterior.machine.model import MachineModel, Parameter
from bayeslab.posterior.machine.program import Builder
from bayeslab.posterior.machine.transforms import Ordered, Transform
from bayeslab.posterior.of_pymc.distributions import GraphLaw, law_of
from bayeslab.posterior.of_pymc.loops import scanned
from bayeslab.posterior.of_pymc.reader import UNREAD, Gap, Reader
from bayeslab.posterior.of_pymc.tensors import HANDLERS
from bayeslab.posterior.of_pymc.transforms import transform_of

__all__ = ["PyMCMachineModel", "lowered"]


@dataclass(frozen=True, eq=False)
class PyMCMachineModel(MachineModel):
    """The program of a PyMC model, and deterministic variables that PyMC evaluates.

    Attributes
    ----------
    outside : dict of str to Variable
        Deterministic variables with operations that the machine does not know, as functions of PyMC's value variables.
        The density does not depend on them.
    values : tuple of Variable
        These value variables.
    """

    outside: Mapping[str, Variable] = field(default_factory=dict)
    values: tuple[Variable, ...] = ()

    def quantities(self, points: np.ndarray) -> dict[str, np.ndarray]:
        out = super().quantities(points)
        if not self.outside:
            return out
        at = np.cumsum([0, *(parameter.size for parameter in self.parameters)])
        given = {
            value: points[:, a:b].reshape(len(points), *parameter.shape)
            for value, parameter, a, b in zip(self.values, self.parameters, at[:-1], at[1:], strict=True)
        }
        return out | dict(zip(self.outside, evaluate(given, list(self.outside.values())), strict=True))


def lowered(model: pm.Model) -> PyMCMachineModel:
    """The program of a PyMC model's log density and of its deterministic variables.

    Raises
    ------
    ModelError
        The machine does not know some operations or distributions; the message lists them all.
    """
    return _Lowering(model).run()


class _Lowering:
    """Lowers the variables of one model."""

    def __init__(self, model: pm.Model) -> None:
        self.model, self.builder = model, Builder()
        self.reader = Reader(self.builder, HANDLERS | {Scan: scanned})
        self.parameters: list[Parameter] = []
        self.outside: dict[str, Variable] = {}
        self._shapes: dict[str, tuple[int, ...]] | None = None

    def run(self) -> PyMCMachineModel:
        """The program; see :func:`lowered`."""
        model = self.model
        # PyMC's graphs else hold constants, such as the root of 2, in single precision.
        with warnings.catch_warnings(), pytensor.config.change_flags(cast_policy="numpy+floatX"):
            warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
            for rv in model.observed_RVs:
                self.reader.known[rv] = np.asarray(graph_model.constant(model.rvs_to_values[rv]))
            for rv in model.free_RVs:
                with self._reading(rv):
                    self._free(rv)
            for rv in model.observed_RVs:
                with self._reading(rv):
                    self._observed(rv)
            for potential in model.potentials:
                with self._reading(potential):
                    self.builder.add(self.reader.var(potential))
            if self.reader.gaps:
                raise _unknown(self.reader.gaps)
            self._name_quantities()
        if not self.parameters:
            raise ModelError("the model has no free continuous variable to sample", code="nothing-to-fit")
        return self._finished()

    @contextmanager
    def _reading(self, variable: Variable) -> Iterator[None]:
        """A context in which unknown operations are noted for a variable."""
        self.reader.node = str(variable.name)
        before = len(self.reader.gaps)
        try:
            yield
        except NotLowered as error:
            self.reader.known[variable] = UNREAD
            if len(self.reader.gaps) == before and not self._below_unread(variable):
                self.reader.gaps.add(Gap(str(variable.name), error.node, error.reason))

    def _below_unread(self, variable: Variable) -> bool:
        """Whether a parent of a variable could not be read."""
        inputs = variable.owner.inputs if variable.owner is not None else ()
        return any(self.reader.value(each) is UNREAD for each in inputs)

    # -------------------------------------------------------------------------------- variables

    def _free(self, rv: Variable) -> None:
        if rv.type.dtype[:5] != "float":
            raise NotLowered(_word(rv), "a discrete variable without data")
        law = law_of(self.reader, rv, self._shape(rv))
        made = self.model.rvs_to_transforms[rv]
        transform = None if made is None else transform_of(self.reader, rv, made)
        shape = law.shape if transform is None else transform.shape(law.shape)
        coordinates = self.builder.parameter(int(np.prod(shape))).reshape(shape)
        value = coordinates if transform is None else transform.backward(coordinates)
        value_variable = self.model.rvs_to_values[rv]
        self.reader.known[rv], self.reader.known[value_variable] = value, coordinates
        with self.builder.of_part("prior"):
            self._add(rv, law, value)
        jacobian = None if transform is None else transform.log_jacobian(coordinates)
        if jacobian is not None:
            with self.builder.of_part("jacobian"):
                self.builder.add(jacobian)
        start = self._start(rv, law, transform, coordinates)
        name = str(value_variable.name)
        in_order = isinstance(transform, Ordered)
        self.parameters.append(Parameter(str(rv.name), name, shape, law, transform, value, start, in_order))

    def _observed(self, rv: Variable) -> None:
        values = self.reader.known[rv]
        self._add(rv, law_of(self.reader, rv, values.shape), self.builder.constant(values))

    def _add(self, rv: Variable, law: Law, value: Var) -> None:
        """Add a variable's log density to the total."""
        if not isinstance(law, GraphLaw):
            law.add(value)
            return
        gaps = set(self.reader.gaps)
        try:
            density = law.log_density(value)
        except NotLowered as error:
            # The density of other variables is derived by PyMC from the graph of their random numbers.
            try:
                (graph,) = self.model.logp(vars=[rv], sum=False, jacobian=False)
            except (NotImplementedError, RuntimeError, ValueError):
                raise error from None
            self.reader.gaps.intersection_update(gaps)
            density = self.reader.var(graph)
        self.builder.add(density)

    def _start(self, rv: Variable, law: Law, transform: Transform | None, coordinates: Var) -> Var:
        """The coordinates at which searches start: given ones, or those of PyMC's support point; 0 without one."""
        given = self.model.rvs_to_initial_values.get(rv)
        gaps = set(self.reader.gaps)
        try:
            if given is None or isinstance(given, str):
                start = self.reader.var(support_point(rv))
            else:
                start = self.reader.var(given) if isinstance(given, Variable) else self.builder.constant(given)
            start = start.broadcast_to(law.shape)
            out = start if transform is None else transform.forward(start)
        except (NotLowered, NotImplementedError):
            out = self.builder.constant(np.zeros(coordinates.shape))
        # What only starts need is nothing that the density lacks.
        self.reader.gaps.intersection_update(gaps)
        return out

    def _shape(self, rv: Variable) -> tuple[int, ...]:
        """The shape of a free variable."""
        static = rv.type.shape
        if None not in static:
            return tuple(static)
        op, node = rv.owner.op, rv.owner
        if isinstance(op, RandomVariable | SymbolicRandomVariable) and not op.ndim_supp:
            size = op.size_param(node)
            if size is not None and not isinstance(size.type, NoneTypeT):
                numbers = self.reader.numbers(size)
                if numbers is not None:
                    return tuple(int(n) for n in numbers)
        if self._shapes is None:
            self._shapes = self.model.eval_rv_shapes()
        return tuple(int(n) for n in self._shapes[str(rv.name)])

    def _name_quantities(self) -> None:
        """Name parameters and deterministic variables; those that cannot be read are left to PyMC."""
        for parameter in self.parameters:
            self.builder.output(parameter.name, parameter.value)
        for variable in self.model.deterministics:
            value = self.reader.value(variable)
            if value is UNREAD:
                (self.outside[str(variable.name)],) = self.model.replace_rvs_by_values([variable])
            else:
                self.builder.output(str(variable.name), value)

    # ------------------------------------------------------------------------------------- ends

    def _finished(self) -> PyMCMachineModel:
        model, known = self.model, {parameter.name for parameter in self.parameters}
        coords = {
            str(dim): list(range(self._length(length))) if model.coords.get(dim) is None else list(model.coords[dim])
            for dim, length in model.dim_lengths.items()
        }
        dims = {name: tuple(map(str, each)) for name, each in graph_model.dims_of(model).items() if None not in each}
        cells = graph_model.observed_cells(model)
        constants = {
            str(variable.name): np.asarray(graph_model.constant(variable))
            for variable in model.data_vars
            if variable not in model.rvs_to_values.values()
        }
        return PyMCMachineModel(
            self.builder.finish(),
            self.builder,
            tuple(self.parameters),
            tuple(name for name in self.builder.named_outputs if name not in known),
            graph_model.intermediate(model),
            dims,
            coords,
            cells,
            constants,
            outside=self.outside,
            values=tuple(model.rvs_to_values[rv] for rv in model.free_RVs),
        )

    def _length(self, length: Any) -> int:
        number = self.reader.numbers(length)
        assert number is not None
        return int(number)


def _word(rv: Variable) -> str:
    return type(rv.owner.op).__name__.strip("_").removesuffix("RV")


def _unknown(gaps: set[Gap]) -> ModelError:
    """The error that lists what the machine does not know."""
    parts = "; ".join(f"{gap.operation} in '{gap.node}' ({gap.reason})" for gap in sorted(gaps))
    return ModelError(
        f"the density machine does not know: {parts}. Sample this model with pm.sample", code="unsupported"
    )
