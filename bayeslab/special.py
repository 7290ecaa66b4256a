"""Special functions of SciPy, imported on first use.

The import takes a fifth of a second, as long as the rest of a small fit, and most commands need none of them.

Example
-------
>>> from bayeslab import special
>>> float(special.gammaln(5.0).round(6))
3.178054
"""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


def __getattr__(name: str) -> Any:
    import scipy.special

    return getattr(scipy.special, name)
