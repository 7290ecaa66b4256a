"""Plug-ins: modules or folders named by the word the user writes, with the attributes that their kind's contract needs.

bayeslab's plug-ins are the modules and folders of a package, except its folder ``toolbox``, which holds shared code.
Plug-ins of other projects are entry points in a group named after the package, such as ``bayeslab.families``; they
cannot take the name of one of bayeslab's plug-ins. :data:`CONTRACTS` lists the attributes that a plug-in must have; the
package's documentation says what they mean and which others are optional.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType

from bayeslab.errors import ModelError, hint

__all__ = ["CONTRACTS", "included", "known", "load", "names", "part"]

# The attributes that every plug-in must have, by kind.
CONTRACTS = MappingProxyType(
    {
        "families": ("Spec", "check", "compile"),
        "engines": ("ENGINE",),
        "learners": ("Options", "TASKS", "CATEGORIES", "SCALE", "MISSING", "build", "examples"),
        "cli": ("command",),
        "structure/chains": ("PRIOR", "KINDS", "COLD", "init", "run", "log_weight"),
        "structure/scores": ("score",),
        "structure/searches": ("search",),
        "distributions": ("DECLARATION",),
        "theory": ("__all__",),
        "decisions": ("__all__",),
    }
)
# The folder beside plug-ins that holds their shared code.
TOOLBOX = "toolbox"
# Kinds to which other projects can add plug-ins.
_OPEN = ("families", "engines", "learners", "distributions")
# Not an engine, but the rules that choose one.
_EXEMPT = {("engines", "auto")}
# Other folders beside plug-ins: emissions are built from distributions.
_APART = {"distributions": {"emissions"}}
_NOUNS = {"families": "family", "engines": "method", "learners": "learner", "distributions": "distribution"}


@cache
def names(package: str) -> tuple[str, ...]:
    """Names of the plug-ins of a kind, sorted, without importing them.

    Parameters
    ----------
    package
        A key of :data:`CONTRACTS`.
    """
    return tuple(sorted({*included(package), *_added(package)}))


def known(package: str, name: str) -> bool:
    """Whether there is a plug-in of that name; entry points are read only if bayeslab has none."""
    return name in included(package) or name in _added(package)


@cache
def load(package: str, name: str) -> ModuleType:
    """Import one plug-in.

    Raises
    ------
    ModelError
        There is no plug-in of that name (the message suggests the most similar one), or it lacks an attribute of its
        contract.
    """
    if name in included(package):
        module = import_module(f"bayeslab.{package.replace('/', '.')}.{name}")
    elif name in _added(package):
        place = _added(package)[name]
        try:
            module = import_module(place)
        except ImportError as error:
            raise ModelError(
                f"the {_NOUNS[package]} '{name}' of another project cannot be imported: {error}", code="bad-plugin"
            ) from error
    else:
        raise ModelError(
            f"unknown {_NOUNS.get(package, package)} '{name}'{hint(name, names(package))}", code="unknown-word"
        )
    if (package, name) not in _EXEMPT:
        lacking = [attribute for attribute in CONTRACTS[package] if not hasattr(module, attribute)]
        if lacking:
            raise ModelError(
                f"{module.__name__} is not a plug-in of '{package}': it lacks {', '.join(lacking)}", code="bad-plugin"
            )
    return module


@cache
def part(package: str, name: str, module: str) -> ModuleType | None:
    """An optional module in the folder of a plug-in, such as ``expand``; None if the plug-in has none."""
    whole = load(package, name)
    place = f"{whole.__name__}.{module}"
    return import_module(place) if hasattr(whole, "__path__") and find_spec(place) is not None else None


@cache
def included(package: str) -> frozenset[str]:
    """Names of bayeslab's own plug-ins of a kind, without reading entry points, which is slow."""
    folder = Path(__file__).parent / package
    files = [path.stem for path in folder.glob("*.py")] + [path.parent.name for path in folder.glob("*/__init__.py")]
    return frozenset(files) - {"__init__", "__main__", TOOLBOX} - _APART.get(package, set())


@cache
def _added(package: str) -> dict[str, str]:
    """Modules of other projects' plug-ins, by name."""
    if package not in _OPEN:
        return {}

    points = entry_points(group=f"bayeslab.{package}")
    return {point.name: point.value for point in points if point.name not in included(package)}
