"""The distributions by PyMC's names; each file is read when it is first asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from bayeslab import registry
from bayeslab.distributions._contract import Distribution, Maths

__all__ = ["DISTRIBUTIONS", "MODIFIERS", "NEEDS_CODE", "maths"]

# Names that are not the file's in capitals.
_SPELT = {
    "ar": "AR",
    "car": "CAR",
    "garch11": "GARCH11",
    "icar": "ICAR",
    "lkj_cholesky_cov": "LKJCholeskyCov",
    "lkj_corr": "LKJCorr",
}
# PyMC has these names twice.
_ALIASES = {"Lognormal": "log_normal"}


class _Table(Mapping[str, Distribution]):
    """Declarations by name."""

    def __init__(self) -> None:
        files = registry.names("distributions")
        self.files = {_SPELT.get(file, "".join(part.capitalize() for part in file.split("_"))): file for file in files}
        self.files |= _ALIASES

    def __getitem__(self, name: str) -> Distribution:
        return cast(Distribution, registry.load("distributions", self.files[name]).DECLARATION)

    def __contains__(self, name: object) -> bool:
        return name in self.files

    def __iter__(self) -> Iterator[str]:
        return iter(self.files)

    def __len__(self) -> int:
        return len(self.files)


DISTRIBUTIONS = _Table()

# Built from other distributions, or words of the language itself.
MODIFIERS = ("Truncated", "Censored", "Mixture", "Ordered", "PositiveOrdered", "Potential")

# In PyMC, but their arguments are Python functions: not expressible in a file.
NEEDS_CODE = ("CustomDist", "DensityDist", "EulerMaruyama", "Simulator", "KroneckerNormal")


def maths(name: str) -> Maths | None:
    """The functions of a distribution of single numbers; None where it is only declared."""
    module = registry.load("distributions", DISTRIBUTIONS.files[name])
    return cast(Maths, module) if hasattr(module, "log_density") else None
