"""Forward sampling: draws of some nodes given draws of others."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pymc

__all__ = ["forward"]


def forward(
    model: pymc.Model,
    given: Mapping[str, np.ndarray],
    names: Sequence[str],
    seed: int,
    draws: int | None = None,
) -> dict[str, np.ndarray]:
    """Draw nodes of a model in topological order, holding others at given values.

    Parameters
    ----------
    given
        Values of random nodes by name, shape (draws, ...); they are not drawn, nor are observed ones.
    names
        The nodes to draw, random or deterministic; their random ancestors are drawn too.
    draws
        Number of draws if ``given`` is empty.

    Returns
    -------
    dict of str to ndarray
        Shape (draws, ...) each.
    """
    import pytensor
    from pymc.pytensorf import compile as compile_pymc
    from pytensor.graph.replace import clone_replace
    from pytensor.graph.traversal import ancestors
    from pytensor.scan.op import Scan

    targets = [model[name] for name in names]
    above = set(ancestors(targets))
    held = [model[name] for name in given if model[name] in above]
    symbols = [variable.type(name=f"{variable.name}_given") for variable in held]
    fixed = dict(zip(held, symbols, strict=True))
    # Observed nodes are not drawn either: modelled predictors keep their data.
    fixed |= {rv: model.rvs_to_values[rv].astype(rv.dtype) for rv in model.observed_RVs if rv in above}
    replaced = clone_replace(targets, fixed) if fixed else targets
    looped = any(v.owner is not None and isinstance(v.owner.op, Scan) for v in ancestors(replaced))
    mode = "NUMBA" if looped else pytensor.compile.mode.Mode("py", "fast_compile")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            function = compile_pymc(symbols, replaced, mode=mode, random_seed=seed, on_unused_input="ignore")
        except NotImplementedError:  # distributions that numba cannot draw, such as hidden paths
            mode = pytensor.compile.mode.Mode("py", "fast_compile")
            function = compile_pymc(symbols, replaced, mode=mode, random_seed=seed, on_unused_input="ignore")
    inputs = [np.asarray(given[v.name]).astype(v.dtype) for v in held]
    n_draws = len(next(iter(given.values()))) if given else draws or 1
    rows = [function(*(values[i] for values in inputs)) for i in range(n_draws)]
    return {name: np.stack([np.asarray(row[k]) for row in rows]) for k, name in enumerate(names)}
