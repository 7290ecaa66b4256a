"""Draws of missing cells given the rest of the row: first a component given the observed cells, then the cells."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.posterior.draws import each_draw
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture
from bayeslab.posterior.observed.part import StatePart

__all__ = ["completed"]


def completed(mixture: BoundMixture, draws: Mapping[str, np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """The modelled columns (draws, rows, columns), completed; observed cells are kept.

    Parameters
    ----------
    mixture
        The mixture on the rows, NaN where a cell is missing.
    draws
        Draws of its parameters, by their names in results.
    """
    at = [mixture.columns.index(c) for c in mixture.modelled]
    out = []
    for values in each_draw(draws, mixture.dims):
        theta = mixture.theta(values)
        labels, rows, first = mixture.problem.law(theta).sample(rng), mixture.rows[:, at].copy(), 0
        for name, part in mixture.parts.items():
            cells = rows[:, first : first + len(part.columns)]
            first += len(part.columns)
            if (lacking := np.isnan(cells)).any():
                given = mixture.rows[:, list(part.given_at)]
                made = _drawn(part, mixture.parameters_of(name, theta), labels, cells, given, rng)
                cells[lacking] = made[lacking]
        out.append(rows)
    return np.stack(out)


def _drawn(
    part: StatePart,
    theta: Mapping[str, Any],
    labels: np.ndarray,
    rows: np.ndarray,
    given: np.ndarray,
    rng: np.random.Generator,
) -> np.ndarray:
    """Draw rows of a part in given components; dependent columns are drawn given the observed ones."""
    if part.emission.columns_depend:
        return np.asarray(part.emission.complete(rng, theta, labels, rows))
    return np.array(part.sample(rng, theta, labels, given), float)
