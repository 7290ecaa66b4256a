"""Plug-ins are files: every module of a package without a leading underscore is one."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from bayeslab.errors import ModelError, hint

__all__ = ["load", "names"]


@cache
def names(package: str) -> tuple[str, ...]:
    """Names of the plug-ins in ``bayeslab.<package>``, sorted, without importing them."""
    folder = Path(__file__).parent / package
    return tuple(sorted(path.stem for path in folder.glob("*.py") if not path.stem.startswith("_")))


def load(package: str, name: str) -> ModuleType:
    """Import one plug-in.

    Raises
    ------
    ModelError
        No plug-in of that name; the message has the nearest one.
    """
    if name not in names(package):
        noun = {"families": "family", "engines": "method"}.get(package, package)
        raise ModelError(f"unknown {noun} '{name}'{hint(name, names(package))}")
    return import_module(f"bayeslab.{package}.{name}")
