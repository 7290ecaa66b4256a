"""Functions of single numbers, written in plain Python, as numba compiles them.

A compiled copy of a module's function calls compiled copies of the functions that it names. The exponential and the
logarithm are replaced by those of :mod:`vector_math`, which have no branches.
"""

from __future__ import annotations

import math
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

from bayeslab.distributions.toolbox import special
from bayeslab.posterior.machine.kernels import vector_math
from bayeslab.posterior.machine.kernels.memory import jit

__all__ = ["compiled_source", "special_functions"]

_REPLACED = ("exp", "expm1", "log", "log1p", "sigmoid", "softplus")


def _math() -> ModuleType:
    module = ModuleType("math")
    module.__dict__.update({k: v for k, v in vars(math).items() if not k.startswith("__")})
    module.__dict__.update({name: getattr(vector_math, name) for name in ("exp", "expm1", "log", "log1p")})
    return module


@cache
def special_functions() -> dict[str, Any]:
    """The functions of :mod:`bayeslab.distributions.toolbox.special`, compiled when they are called."""
    names: dict[str, Any] = dict(vars(special))
    names["math"] = _math()
    for name, value in vars(special).items():
        if isinstance(value, FunctionType) and value.__module__ == special.__name__:
            names[name] = getattr(vector_math, name) if name in _REPLACED else _copy(value, names)
    return names


def _copy(function: FunctionType, names: dict[str, Any]) -> Any:
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    return jit(error_model="numpy", fastmath={"contract"}, forceinline=True)(copy)


def compiled_source(source: str, name: str, like: Any) -> Any:
    """The function that a text defines, compiled with the names that another function can call."""
    scope = _scope(like)
    exec(source, scope)
    return jit(error_model="numpy", fastmath={"contract"}, forceinline=True)(scope[name])


def _scope(function: Any) -> dict[str, Any]:
    ours = special_functions()
    scope = dict(function.__globals__)
    scope["math"] = ours["math"]
    for name in function.__code__.co_names:
        value = scope.get(name)
        if isinstance(value, FunctionType):
            scope[name] = ours[value.__name__] if value.__module__ == special.__name__ else _with_callees(value)
    return scope


@cache
def _with_callees(function: FunctionType) -> Any:
    """A function that a density calls, such as the density without extra zeros, compiled with those that it calls."""
    return _copy(function, _scope(function))
