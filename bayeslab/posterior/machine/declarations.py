"""Parameters and computed nodes of a program while it is recorded."""

from __future__ import annotations

import math

from bayeslab.posterior.machine.arrays import Var
from bayeslab.posterior.machine.laws import Law
from bayeslab.posterior.machine.model import Parameter
from bayeslab.posterior.machine.program import Builder
from bayeslab.posterior.machine.transforms import Ordered, Transform

__all__ = ["Declarations"]


class Declarations:
    """Parameters and computed nodes, with the names of their axes.

    Attributes
    ----------
    builder : Builder
    parameters : list of Parameter
    computed_nodes : list of str
        Names of deterministic nodes.
    dims : dict of str to tuple of str
        Names of the axes of variables.
    """

    builder: Builder
    parameters: list[Parameter]
    computed_nodes: list[str]
    dims: dict[str, tuple[str, ...]]

    def free(
        self, name: str, law: Law, dims: tuple[str, ...], transform: Transform | None, start: Var | None = None
    ) -> Var:
        """The value of a random node without data, whose density is added to the total."""
        coordinates, value = self.parameter_of(law.shape, transform)
        self.sampled(name, law, dims, transform, coordinates, value, law.start() if start is None else start)
        return value

    def parameter_of(self, shape: tuple[int, ...], transform: Transform | None) -> tuple[Var, Var]:
        """The coordinates and the value of a parameter of a shape."""
        within = shape if transform is None else transform.shape(shape)
        coordinates = self.builder.parameter(math.prod(within)).reshape(within)
        return coordinates, coordinates if transform is None else transform.backward(coordinates)

    def sampled(
        self,
        name: str,
        law: Law,
        dims: tuple[str, ...],
        transform: Transform | None,
        coordinates: Var,
        value: Var,
        start: Var,
    ) -> None:
        """Add a parameter whose coordinates and value are known."""
        with self.builder.of_part("prior"):
            law.add(value)
        jacobian = None if transform is None else transform.log_jacobian(coordinates)
        if jacobian is not None:
            with self.builder.of_part("jacobian"):
                self.builder.add(jacobian)
        first = start if transform is None else transform.forward(start)
        value_name = name if transform is None else f"{name}_{transform.name}__"
        in_order = isinstance(transform, Ordered)
        self.parameters.append(Parameter(name, value_name, coordinates.shape, law, transform, value, first, in_order))
        if dims:
            self.dims[name] = dims
