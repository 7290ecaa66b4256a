"""Engine ``auto``: the engine an expert would pick, and one line that says which and why."""

from __future__ import annotations

from bayeslab.posterior.contract import Posterior

__all__ = ["choose"]


def choose(posterior: Posterior) -> tuple[str, str]:
    """Name of the engine and the reason.

    In order of preference: the family's choice, the closed form, NUTS on the graph with discrete nodes summed out.
    """
    wanted = posterior.preferred_engine()
    if wanted is not None:
        return wanted
    plan = posterior.exact_plan
    if not isinstance(plan, str):
        return "exact", f"exact: {plan.how}"
    summed = f" with {', '.join(posterior.latent)} summed out" if posterior.latent else ""
    return "nuts", f"NUTS on the model's graph{summed}; not exact: {plan}"
