"""The log density of a job: by the density machine where it knows the model, else compiled by PyTensor."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal

from pydantic import Field

from bayeslab.job import Job
from bayeslab.posterior.density import Density
from bayeslab.posterior.log_density import LogDensity
from bayeslab.posterior.machine.arrays import PARTS, Part
from bayeslab.posterior.machine.density import MachineDensity

__all__ = ["Backend", "backend", "density_of"]

Backend = Literal["auto", "machine", "pytensor"]

# Relative difference from the independent evaluation that is more than rounding.
_ROUNDING = 1e-8


def backend() -> Any:
    """The option of engines that chooses what evaluates the density."""
    return Field(
        "auto",
        description="What evaluates the density: the density machine, which compiles nothing, or a function compiled by"
        " PyTensor. Default: the machine for models that it knows.",
    )


def density_of(job: Job, parts: Collection[Part] = PARTS) -> LogDensity:
    """The log density of the posterior on the unconstrained scale.

    Parameters
    ----------
    parts
        Those that count; without ``jacobian`` it is the density on the parameters' own scale.
    """
    if job.machine is not None:
        density = MachineDensity(job.machine, lambda: job.graph, tuple(parts))
        apart = density.disagreement(density.centre())
        if apart <= _ROUNDING:
            return density
        job.progress.note(
            f"the density machine and its check differ by {apart:.2g}, relative, at the start; please report this model"
        )
    kind: Literal["joint", "prior", "likelihood"] = "joint" if {"prior", "likelihood"} <= set(parts) else "likelihood"
    kind = kind if "likelihood" in parts else "prior"
    compiled = Density.of(job.graph, jacobian="jacobian" in parts, part=kind)
    job.progress.note(f"compiling the model ({compiled.n_dim} parameters)")
    return compiled
