"""Mixtures as problems for EM: starts, searches that repair bad components, and what is still wrong at the end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.exact import emissions
from bayeslab.exact.answer import EMPlan
from bayeslab.exact.mixture import MixtureProblem
from bayeslab.families._mixture_model import Resolved

__all__ = ["draw_labels", "em", "some_rows", "without_prior"]


def em(seen: Resolved) -> EMPlan:
    """How EM finds the mode of the posterior, or of the likelihood."""
    from bayeslab.exact.mixture import starting_labels

    problem = seen.problem

    def start(rng: np.random.Generator) -> Mapping[str, Any]:
        return problem.update(problem.statistics(starting_labels(problem, "k_means", rng)))

    return EMPlan(
        how=f"{seen.n_components} components, summed out for {len(seen.rows):,} rows",
        problem=lambda prior: problem if prior else without_prior(problem),
        start=start,
        values=lambda theta: seen.numbered(seen.values(theta)),
        dims=seen.dims,
        labels=seen.labels,
        bounds={n: (0.0, 1.0) for n in seen.dims if n in ("weights", "probability") or n.startswith("p_")},
    )


def without_prior(problem: MixtureProblem) -> MixtureProblem:
    """The problem whose posterior is the likelihood."""
    return replace(problem, emission=_plain(problem.emission), concentration=1.0, gate_precision=1e-6)


def _plain(emission: Any) -> Any:
    if isinstance(emission, emissions.Product):
        parts = {name: (columns, replace(e, prior=None)) for name, (columns, e) in emission.parts.items()}
        return replace(emission, parts=parts)
    return replace(emission, prior=None)


def some_rows(problem: MixtureProblem, rows: np.ndarray) -> MixtureProblem:
    """The problem on some of its rows."""

    def some(values: np.ndarray | None) -> np.ndarray | None:
        return None if values is None else values[rows]

    return replace(
        problem,
        rows=problem.rows[rows],
        allowed=some(problem.allowed),
        inputs=some(problem.inputs),
        row_weights=some(problem.row_weights),
    )


def draw_labels(problem: MixtureProblem, theta: Mapping[str, Any], n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Components of new rows, before anything of them is seen."""
    log_weights = np.atleast_2d(replace(problem, allowed=None).log_weights(theta))
    cumulated = np.cumsum(np.exp(log_weights), axis=1)
    return np.asarray((rng.random((n_rows, 1)) * cumulated[:, -1:] >= cumulated).sum(axis=1))
