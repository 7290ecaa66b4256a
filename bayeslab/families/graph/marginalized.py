"""Discrete nodes summed out by PyMC-extras, if unobserved continuous nodes depend on them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from bayeslab.errors import ModelError, listed
from bayeslab.language.nodes import Node

if TYPE_CHECKING:
    import pymc

__all__ = ["marginalized"]

# Errors of PyMC-extras for graphs that it does not support.
_UNKNOWN_GRAPH = (NotImplementedError, ValueError, TypeError, LookupError, AssertionError)


def marginalized(built: pymc.Model, latent: list[str], nodes: Mapping[str, Node]) -> pymc.Model:
    """The same by PyMC-extras, where continuous nodes without data depend on the discrete ones."""
    import pytensor
    from pymc_extras.model.marginal.distributions.enumerable import NonSeparableLogpWarning
    from pymc_extras.model.marginal.marginalize import marginalize

    # Silence its warning about pointwise terms, which are computed without summing out.
    warnings.filterwarnings("ignore", category=NonSeparableLogpWarning)

    for name in latent:
        if not nodes[name].finite:
            raise ModelError(
                f"'{name}' is discrete and has no data ({nodes[name].distribution}); only Bernoulli, Categorical and"
                f" DiscreteUniform nodes can be summed out",
                path=nodes[name].path,
                code="discrete",
            )
    # PyMC-extras refuses models with initial values; these are restored afterwards.
    start = {rv.name: value for rv, value in built.rvs_to_initial_values.items() if value is not None}
    for rv in built.rvs_to_initial_values:
        built.rvs_to_initial_values[rv] = None
    try:
        # Rewrites that fail are logged with their tracebacks.
        with warnings.catch_warnings(), pytensor.config.change_flags(on_opt_error="ignore"):
            warnings.simplefilter("ignore")
            out = marginalize(built, latent)
    except _UNKNOWN_GRAPH as error:
        gaps = [name for name in nodes if f"{name}_unobserved" in built.named_vars]
        advice = f"; leave out the rows in which {listed(gaps)} is missing, and predict them afterwards" if gaps else ""
        raise ModelError(
            f"the discrete node {listed(latent)} cannot be summed out, because nodes without data or with missing cells"
            f" depend on it in a way that is not known{advice}",
            path=nodes[latent[0]].path,
            code="discrete",
        ) from error
    for rv in out.free_RVs:
        out.rvs_to_initial_values[rv] = start.get(rv.name)
    for name in latent:
        # They are recovered after sampling, with their dims.
        if name in built.named_vars_to_dims:
            out.named_vars_to_dims[name] = built.named_vars_to_dims[name]
    return out
