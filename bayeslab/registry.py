"""Plug-ins are files or folders: every module and package in a package, unless its name begins with an underscore."""

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
    found = [path.stem for path in folder.glob("*.py")] + [path.parent.name for path in folder.glob("*/__init__.py")]
    return tuple(sorted(name for name in found if not name.startswith("_")))


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
