"""Types of the engines' options, so that a type checker finds a misspelt option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypedDict

__all__ = ["FitOptions", "SharedOptions"]


class SharedOptions(TypedDict, total=False):
    """Engine options of functions that fit a model repeatedly; None stands for the engine's default."""

    draws: int | None
    tune: int | None
    chains: int | None
    cores: int | None
    target_accept: float | None
    max_treedepth: int | None
    initvals: Mapping[str, Any] | None
    start: Literal["priors", "mode"] | None
    backend: Literal["auto", "machine", "pytensor"] | None
    restarts: int | None
    max_iterations: int | None
    tolerance: float | None
    variant: Literal["em", "accelerated", "newton", "gradient", "stochastic", "hard"] | None
    prior: Literal["use", "ignore"] | None
    standard_errors: bool | None
    scales: Literal["integrate", "maximise"] | None
    maxeval: int | None
    optimizer: Literal["L-BFGS-B", "BFGS"] | None
    fit: Literal["mean_field", "full_rank"] | None
    obj_n_mc: int | None
    learning_rate: float | None
    num_paths: int | None
    num_draws_per_path: int | None
    num_elbo_draws: int | None
    maxcor: int | None
    maxiter: int | None
    jitter: float | None
    importance_sampling: Literal["psis", "none"] | None
    damping: float | None
    max_sweeps: int | None
    schedule: Literal["sequential", "residual"] | None
    threshold: float | None
    correlation_threshold: float | None
    max_moves: int | None
    thin: int | None
    segment: int | None
    workers: Literal["processes", "threads"] | None


class FitOptions(SharedOptions, total=False):
    """Engine options of :func:`bayeslab.fit`; ``docs/engines.md`` lists the options of each engine."""

    n: int | None
    folds: int | None
    scheduler: str | None
