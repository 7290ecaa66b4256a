"""Arrays with named dimensions, in groups: what engines return.

They become xarray's datasets (:meth:`Group.to_dataset`) only when somebody asks for one. A fit, its verdict and its run
folder need none, so that xarray and pandas, which take half a second to import, are not loaded. Names of methods and
attributes are those of xarray.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from types import EllipsisType

    import xarray as xr

__all__ = ["Group", "Variable", "grouped", "groups_of", "of_dataset"]


@dataclass(frozen=True, eq=False)
class Variable:
    """An array with named dimensions.

    Attributes
    ----------
    dims : tuple of str
        A name for each axis.
    values : ndarray
    attrs : dict
    """

    dims: tuple[str, ...]
    values: NDArray[Any]
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.values.dtype

    @property
    def sizes(self) -> dict[str, int]:
        """Length of each dimension."""
        return dict(zip(self.dims, self.values.shape, strict=True))

    def to_numpy(self) -> NDArray[Any]:
        return self.values

    def transpose(self, *dims: str | EllipsisType) -> Variable:
        """The array with its dimensions in this order; ``...`` stands for those that are not named."""
        rest = [dim for dim in self.dims if dim not in dims]
        order = [name for dim in dims for name in (rest if isinstance(dim, type(...)) else [dim])]
        return Variable(tuple(order), self.values.transpose([self.dims.index(dim) for dim in order]), self.attrs)


@dataclass(frozen=True, eq=False)
class Group:
    """Arrays that share dimensions and labels.

    Attributes
    ----------
    data_vars : dict of str to Variable
    coords : dict of str to Variable
        Labels, mostly of the dimension with the same name.
    attrs : dict
        Provenance and numbers about the whole group.
    """

    data_vars: dict[str, Variable]
    coords: dict[str, Variable] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=dict)

    @property
    def sizes(self) -> dict[str, int]:
        """Length of each dimension."""
        return {dim: n for v in (*self.coords.values(), *self.data_vars.values()) for dim, n in v.sizes.items()}

    def __getitem__(self, name: str) -> Variable:
        """A variable, or the labels of a dimension, which are 0, 1, ... if it has none."""
        if name in self.data_vars:
            return self.data_vars[name]
        if name in self.coords:
            return self.coords[name]
        return Variable((name,), np.arange(self.sizes[name]))

    def __contains__(self, name: object) -> bool:
        return name in self.data_vars or name in self.coords

    def changed(self, variables: Mapping[str, NDArray[Any] | Variable]) -> Group:
        """The group with other values of variables, or with variables added, which then have dimensions."""
        new = {n: v if isinstance(v, Variable) else replace(self.data_vars[n], values=v) for n, v in variables.items()}
        return replace(self, data_vars=self.data_vars | new)

    def without(self, names: Iterable[str]) -> Group:
        """The group without some variables, and without the labels of dimensions that no variable has any more."""
        left_out = set(names)
        kept = {name: v for name, v in self.data_vars.items() if name not in left_out}
        dims = {dim for v in kept.values() for dim in v.dims}
        return replace(self, data_vars=kept, coords={n: v for n, v in self.coords.items() if set(v.dims) <= dims})

    def only(self, names: Iterable[str]) -> Group:
        """The group of some variables, in this order."""
        return replace(self, data_vars={name: self.data_vars[name] for name in names}).without(())

    def to_dataset(self) -> xr.Dataset:
        """The group as a dataset of xarray, which shares its arrays."""
        import xarray as xr

        variables, coords = (
            {name: (v.dims, v.values, v.attrs) for name, v in kind.items()} for kind in (self.data_vars, self.coords)
        )
        return xr.Dataset(variables, coords, self.attrs)


def grouped(
    variables: Mapping[str, tuple[Iterable[str], Any]],
    coords: Mapping[str, Any] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Group:
    """A group from arrays with the names of their dimensions.

    Parameters
    ----------
    variables
        Dimensions and array by name.
    coords
        Labels by dimension; or dimensions and array, if it has another name than its dimension.
    attrs
        Attributes of the group.

    Examples
    --------
    >>> group = grouped({"mu": (("chain", "draw"), np.zeros((4, 100)))}, {"chain": range(4)})
    >>> group.sizes
    {'chain': 4, 'draw': 100}
    """

    def variable(name: str, content: Any) -> Variable:
        if isinstance(content, tuple) and len(content) == 2 and not np.isscalar(content[1]):
            dims, array = content
            return Variable((dims,) if isinstance(dims, str) else tuple(dims), np.asarray(array))
        return Variable((name,), np.asarray(content))

    arrays = {n: Variable(tuple(dims), np.asarray(array)) for n, (dims, array) in variables.items()}
    return Group(arrays, {n: variable(n, labels) for n, labels in (coords or {}).items()}, dict(attrs or {}))


def of_dataset(dataset: xr.Dataset) -> Group:
    """A dataset of xarray as a group, which shares its arrays."""
    variables, coords = (
        {str(n): Variable(tuple(map(str, v.dims)), v.to_numpy(), dict(v.attrs)) for n, v in kind.items()}
        for kind in (dataset.data_vars, dataset.coords)
    )
    return Group(variables, coords, {str(name): value for name, value in dataset.attrs.items()})


def groups_of(tree: xr.DataTree) -> dict[str, Group]:
    """The groups of a tree of xarray, which share its arrays."""
    return {name: of_dataset(node.to_dataset()) for name, node in tree.children.items()}
