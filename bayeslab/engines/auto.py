"""Engine ``auto``: the engine an expert would pick, and one line that says which and why."""

from __future__ import annotations

from bayeslab import registry
from bayeslab.data.bound import Data
from bayeslab.engines import exact
from bayeslab.job import summed_out
from bayeslab.language.spec import Model

__all__ = ["choose"]


def choose(model: Model, data: Data) -> tuple[str, str]:
    """Name of the engine and the reason.

    In order: what the family asks for, closed form, NUTS on the graph with discrete nodes summed out.
    """
    family = registry.load("families", model.model.family)
    if hasattr(family, "preferred") and (wanted := family.preferred(model, data)):
        return wanted
    found = exact.plan(model, data)
    if not isinstance(found, str):
        return "exact", f"exact: {found.how}"
    latent = summed_out(model, data)
    summed = f" with {', '.join(latent)} summed out" if latent else ""
    return "nuts", f"NUTS on the model's graph{summed}; not exact: {found}"
