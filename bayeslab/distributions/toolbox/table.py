"""The table of distributions by PyMC's names; each file is loaded on first use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from inspect import signature
from typing import Any, cast

from bayeslab import registry
from bayeslab.distributions.toolbox.conjugate import Conjugate
from bayeslab.distributions.toolbox.contract import Distribution, Maths, Values

__all__ = [
    "DISTRIBUTIONS",
    "MODIFIERS",
    "NEEDS_CODE",
    "closed_moments",
    "conjugate",
    "density_parameters",
    "ends",
    "functions",
    "maths",
    "pymc_class",
]

# Names that do not follow from the file's name.
_SPELT = {
    "ar": "AR",
    "car": "CAR",
    "garch11": "GARCH11",
    "icar": "ICAR",
    "lkj_cholesky_cov": "LKJCholeskyCov",
    "lkj_corr": "LKJCorr",
}
# Names that PyMC has twice.
_ALIASES = {"Lognormal": "log_normal"}


class _Table(Mapping[str, Distribution]):
    """Declarations by name; plug-ins of other projects are searched after bayeslab's own."""

    def __init__(self) -> None:
        self.files = {_name(file): file for file in registry.included("distributions")} | _ALIASES

    def file(self, name: str) -> str:
        """The file name of the plug-in."""
        return self.files[name] if name in self.files else re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()

    def __getitem__(self, name: str) -> Distribution:
        if name not in self:
            raise KeyError(name)
        return cast(Distribution, registry.load("distributions", self.file(name)).DECLARATION)

    def __contains__(self, name: object) -> bool:
        if not isinstance(name, str) or not name[:1].isupper():
            return False
        return name in self.files or registry.known("distributions", self.file(name))

    def __iter__(self) -> Iterator[str]:
        others = set(registry.names("distributions")) - registry.included("distributions")
        return iter(sorted([*self.files, *map(_name, others)]))

    def __len__(self) -> int:
        return len(list(iter(self)))


def _name(file: str) -> str:
    return _SPELT.get(file, "".join(part.capitalize() for part in file.split("_")))


DISTRIBUTIONS = _Table()

# Distributions built from others, or key words of the language.
MODIFIERS = ("Truncated", "Censored", "Mixture", "Ordered", "PositiveOrdered", "Potential")

_FUNCTIONS = "takes Python functions, which a model file cannot hold; build it with PyMC from bl.to_pymc()"
# Distributions of PyMC that are not supported, with the reason.
NEEDS_CODE = {
    **dict.fromkeys(("CustomDist", "DensityDist", "EulerMaruyama", "Simulator"), _FUNCTIONS),
    "KroneckerNormal": "takes a list of matrices, which a model file cannot hold; build it with PyMC from bl.to_pymc()",
    "PolyaGamma": "numbers serve samplers of logistic models, and their density has no derivative; write the model"
    " itself, such as Bernoulli(logit_p=...)",
}


def maths(name: str) -> Maths | None:
    """The functions of a univariate distribution; None if it is only declared."""
    module = registry.load("distributions", DISTRIBUTIONS.file(name))
    return cast(Maths, module) if hasattr(module, "log_density") else None


@cache
def functions(name: str) -> Maths:
    """The functions of a distribution; refuses one without them."""
    out = maths(name)
    assert out is not None, name
    return out


@cache
def density_parameters(name: str) -> tuple[str, ...]:
    """Names of the parameters of a distribution's log density."""
    return tuple(word for word in signature(functions(name).log_density).parameters if word != "x")


def ends(name: str, parameters: Sequence[Any]) -> tuple[Any, Any]:
    """The lower and the upper end of the support, at parameters of the log density."""
    values = DISTRIBUTIONS[name].domain.values
    if not isinstance(values.low, str) and not isinstance(values.high, str):
        return values.low, values.high
    bound = dict(zip(density_parameters(name), parameters, strict=True))
    low, high = (bound[end] if isinstance(end, str) else end for end in (values.low, values.high))
    return low, high


def closed_moments(name: str) -> Callable[..., Values] | None:
    """The function for mean and variance, if both have a closed form; otherwise None."""
    module = registry.load("distributions", DISTRIBUTIONS.file(name))
    return cast(Callable[..., Values], module.moments) if hasattr(module, "moments") else None


def conjugate(name: str) -> Conjugate | None:
    """The conjugate declaration of a distribution; None if it has none."""
    module = registry.load("distributions", DISTRIBUTIONS.file(name))
    return cast(Conjugate, module.CONJUGATE) if hasattr(module, "CONJUGATE") else None


def pymc_class(name: str) -> Any:
    """The class that creates a distribution's nodes: PyMC's class of that name, or the plug-in's."""
    import pymc as pm

    module = registry.load("distributions", DISTRIBUTIONS.file(name))
    return module.pymc_class() if hasattr(module, "pymc_class") else getattr(pm, name)
