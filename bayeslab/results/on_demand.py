"""Groups of a fit that are computed when they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Self, cast, overload

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Group", "on_demand"]


class Group:
    """A group of a fit: called, it is computed anew; any other use computes it if it is missing.

    Parameters
    ----------
    fit : Fitted
    name : str
    make : callable
        Computes the group, adds it to the fit's ``data_tree`` and returns it.
    """

    def __init__(self, fit: Any, name: str, make: Callable[..., xr.DataTree]) -> None:
        self._fit, self._name, self._make = fit, name, make

    def __call__(self, *args: Any, **options: Any) -> xr.DataTree:
        return self._make(self._fit, *args, **options)

    def _tree(self) -> xr.DataTree:
        known = self._fit.data_tree.children
        return known[self._name] if self._name in known else self._make(self._fit)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._tree(), name)

    def __getitem__(self, name: str) -> Any:
        return self._tree()[name]

    def __contains__(self, name: object) -> bool:
        return name in self._tree()

    def __iter__(self) -> Iterator[Any]:
        return iter(self._tree())

    def __len__(self) -> int:
        return len(self._tree())

    def __repr__(self) -> str:
        return repr(self._tree())


class on_demand:
    """A method that computes a group of a fit; without parentheses it is the group, as ArviZ expects of a DataTree."""

    def __init__(self, make: Callable[..., xr.DataTree]) -> None:
        self.make, self.name = make, make.__name__
        update_wrapper(cast(Any, self), make)

    @overload
    def __get__(self, fit: None, owner: Any = None) -> Self: ...
    @overload
    def __get__(self, fit: object, owner: Any = None) -> Group: ...
    def __get__(self, fit: Any, owner: Any = None) -> Self | Group:
        return self if fit is None else Group(fit, self.name, self.make)

    def __call__(self, fit: Any, *args: Any, **options: Any) -> xr.DataTree:
        return self.make(fit, *args, **options)
