"""Distributions that the machine supports: those with a fused log density of one number.

A *form* of a distribution takes a parameter on the scale of its link; it is named after both, as ``bernoulli.logit``.
Its tails are named ``normal:log_cumulative`` and ``normal:log_survival``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType
from typing import Any

from bayeslab.distributions.toolbox import special
from bayeslab.posterior.machine import cores

__all__ = ["arity", "core_of", "evidence_files", "evidence_function", "forms", "fused", "source_files"]

_PACKAGE = "bayeslab.distributions"


@cache
def _module(name: str) -> Any:
    place = f"{_PACKAGE}.{name}"
    return import_module(place) if name.isidentifier() and find_spec(place) is not None else None


@cache
def fused(name: str) -> Callable[..., tuple[float, ...]] | None:
    """The log density of one number with its derivatives, or None if the machine does not support the distribution."""
    if name in cores.CORES:
        return cores.CORES[name]
    distribution, _, tail = name.partition(":")
    distribution, _, form = distribution.partition(".")
    module = _module(distribution)
    if form:
        return module.FORMS[form].fused
    function: Callable[..., tuple[float, ...]] | None = getattr(module, tail or "fused", None)
    return function


def arity(name: str) -> int | None:
    """Number of arguments of a distribution, including its value; None if the machine does not support it."""
    function = fused(name)
    return None if function is None else function.__code__.co_argcount


@cache
def forms(name: str) -> dict[int, tuple[str, str]]:
    """By position of a parameter: its inverse link function, and the form with that function's argument."""
    module, out = _module(name), {}
    for form, each in getattr(module, "FORMS", {}).items():
        names = module.fused.__code__.co_varnames
        out[names.index(each.parameter)] = (each.inverse, f"{name}.{form}")
    return out


def core_of(name: str) -> str | None:
    """The part of a density that depends on parameters, if the rest is computed once from the data."""
    core = f"{name}.core" if "." not in name else f"{name}_core"
    return core if core in cores.CORES else None


def source_files(name: str) -> list[str]:
    """The files that a distribution's machine code depends on, besides the machine's and the special functions."""
    function = fused(name)
    assert function is not None
    files: dict[str, None] = {}
    _add_files(function, files)
    return list(files)


def evidence_function(name: str) -> Any:
    """The numba function ``module:function``; what its machine code calls is then known to LLVM."""
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    # As before numba compiles a function: its functions for memory, and those in C.
    cpu_target.target_context.refresh()
    rtsys.initialize(cpu_target.target_context)
    module, _, function = name.partition(":")
    return getattr(import_module(module), function)


def evidence_files(name: str) -> list[str]:
    """The files of a numba function ``module:function`` and of those that it may call."""
    modules, todo = dict[str, None](), [name.partition(":")[0]]
    while todo:
        module = todo.pop()
        if module not in modules:
            modules[module] = None
            values = vars(import_module(module)).values()
            todo += sorted({value.__module__ for value in values if hasattr(value, "py_func")})
    return [str(import_module(module).__file__) for module in modules]


def _add_files(function: Any, files: dict[str, None]) -> None:
    """Add the files of a function and of those that it calls."""
    files[function.__code__.co_filename] = None
    for name in function.__code__.co_names:
        value = function.__globals__.get(name)
        if isinstance(value, FunctionType) and value.__module__ != special.__name__:
            _add_files(value, files)
