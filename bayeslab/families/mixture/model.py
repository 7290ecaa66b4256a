"""Arrays of a mixture and its data: rows, components with their priors, known labels, inputs of a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.dataset import RowStream
from bayeslab.data.design import Design
from bayeslab.distributions import emissions
from bayeslab.errors import DataError, ModelError, errors_at
from bayeslab.families.mixture.columns import column_names, gate_inputs, names_and_labels, read_rows
from bayeslab.families.mixture.components import component_parts, design_of, regression_part
from bayeslab.families.mixture.prior_numbers import concentration, process_prior
from bayeslab.families.mixture.spec import Mixture
from bayeslab.language.spec import Model
from bayeslab.latents.labels.labels import Labels
from bayeslab.latents.partitions.component_number import NumberPrior
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture, part_of
from bayeslab.posterior.mixtures.choice import choose_components
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.number_choice import NumberChoice
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.regression import RegressionPart

__all__ = ["Candidates", "candidates", "resolved"]


def resolved(
    model: Model, data: Data, origin: BoundMixture | None = None, tried: Candidates | None = None
) -> BoundMixture:
    """Resolve the mixture on its data.

    Default priors, the number of components and their names come from the data of the fit.

    Parameters
    ----------
    origin
        The mixture on the data of the fit, if the model's data are others; None: computed from the model.
    tried
        The candidate mixtures on the data of the fit; None: computed from the model.
    """
    spec: Any = model.model
    if data.origin is None:
        return _first(spec, candidates(model, data) if tried is None else tried)
    return _on(resolved(model, data.origin) if origin is None else origin, spec, model, data)


@dataclass(frozen=True, eq=False)
class Candidates:
    """The candidates of a mixture on the data of its fit, one for each possible number of components.

    Attributes
    ----------
    parts : dict of int to dict of str to StatePart
    problems : dict of int to MixtureProblem
        Weak priors depend on the number of components: each candidate has its own.
    columns, names, inputs, scales, design
        See :class:`BoundMixture`; ``names`` are those for the largest number of components.
    """

    parts: Mapping[int, Mapping[str, StatePart]]
    problems: Mapping[int, MixtureProblem]
    columns: tuple[str, ...]
    names: np.ndarray
    scales: tuple[np.ndarray, np.ndarray] | None
    design: Design | None
    stream: RowStream | None = None


def candidates(model: Model, data: Data) -> Candidates:
    """The candidate mixtures on the data of the fit.

    Raises
    ------
    ModelError, DataError
        A column does not suit its component distribution.
    """
    spec: Any = model.model
    design = None
    if spec.regression is None:
        columns = column_names(spec)
        rows = read_rows(spec, data, columns)
    else:
        design = design_of(spec, data)
        part, rows = regression_part(spec, data, design, None)
        columns = (*(f" {term}" for term in part.terms), *part.columns)
    names, allowed = names_and_labels(spec, model, data)
    inputs, scales = gate_inputs(spec, data, None)
    parts: dict[int, Mapping[str, StatePart]] = {}
    problems: dict[int, MixtureProblem] = {}
    with emissions.with_names(columns):
        for n in spec.components if isinstance(spec.components, list) else [len(names)]:
            # If the number is sampled, all numbers share one prior, on the scale of all the data.
            n_components = 1 if isinstance(spec.components, str) else n
            made = (
                {"regression": part} if design is not None else component_parts(spec, data, rows, columns, n_components)
            )
            parts[n] = {name: replace(each, n_states=n) for name, each in made.items()}
            problems[n] = MixtureProblem(
                _emission(parts[n]),
                rows,
                Labels(
                    n,
                    concentration(spec, n),
                    allowed=allowed,
                    inputs=inputs,
                    gate_precision=0.1,
                    row_weights=data.dataset.counts,
                ),
            )
            _check_rows(spec, problems[n], columns)
            if spec.order is not None:
                part_of(parts[n], spec.order)
                if not spec.labels and np.ptp(problems[n].latent.dirichlet) > 0:
                    raise ModelError(
                        "weights with different priors tell the components apart, and an order would number them anew:"
                        " leave one of them out",
                        path=("model", "order"),
                        code="conflict",
                    )
    return Candidates(parts, problems, columns, names, scales, design, data.dataset.stream)


def _first(spec: Mixture, candidates: Candidates) -> BoundMixture:
    choice = None
    n = len(candidates.names)
    if isinstance(spec.components, list):
        with emissions.with_names(candidates.columns):
            choice = _chosen(spec, candidates)
        n = choice.best
    problem = candidates.problems[n]
    number = None
    if spec.components == "sampled":
        if np.ptp(problem.latent.dirichlet) > 0:
            text = "the components of a sampled number are all alike a priori: one number, not one for each"
            raise ModelError(text, path=("model", "priors", "weights"), code="wrong-length")
        number = NumberPrior.uniform(n, float(np.ravel(problem.latent.dirichlet)[0]))
    by = None if spec.labels else spec.order or spec.modelled[0]
    process = None
    if spec.components == "dirichlet_process":
        process = process_prior(spec)
    return BoundMixture(
        candidates.parts[n],
        problem,
        candidates.columns,
        candidates.names[:n],
        tuple(spec.gating),
        candidates.scales,
        number,
        choice,
        by,
        candidates.design,
        process,
        candidates.stream,
    )


def _on(fitted: BoundMixture, spec: Mixture, model: Model, data: Data) -> BoundMixture:
    """The mixture of a fit on other data."""
    if fitted.design is not None:
        part = fitted.parts["regression"]
        assert isinstance(part, RegressionPart)
        _, rows = regression_part(spec, data, fitted.design, part)
    else:
        rows = read_rows(spec, data, fitted.columns)
    _, allowed = names_and_labels(spec, model, data, len(fitted.names))
    inputs, _ = gate_inputs(spec, data, fitted.scales)
    with emissions.with_names(fitted.columns):
        for part in fitted.parts.values():
            positions = list(part.at)
            with emissions.renumbered(positions):
                part.emission.check(rows[:, positions])
    problem = replace(fitted.problem, rows=rows, latent=fitted.problem.latent.on(allowed, inputs))
    return replace(fitted, problem=problem, origin=fitted)


def _check_rows(spec: Mixture, problem: MixtureProblem, columns: tuple[str, ...]) -> None:
    if not len(problem.rows):
        return
    for j, name in enumerate(columns if spec.regression is None else ()):
        cells = problem.rows[:, j]
        cells = cells[~np.isnan(cells)]
        if not len(cells):
            raise DataError(f"column '{name}' has no value; leave it out of columns", code="no-values")
        if spec.word(name) not in ("categorical", "binomial") and np.ptp(cells) == 0:
            raise DataError(
                f"column '{name}' is constant: it cannot tell components apart; leave it out of columns",
                code="constant",
            )
    if isinstance(spec.components, str):
        # Empty rows, and fewer rows than components, are allowed if no number of components is given.
        problem.emission.check(problem.rows)
        return
    problem.check()


def _chosen(spec: Mixture, candidates: Candidates) -> NumberChoice:
    """The number of components with the best score: by the likelihood, or by the evidence under its priors."""
    path, problems = ("model", "choose"), candidates.problems
    if spec.choose == "evidence":
        parts = next(iter(candidates.parts.values())).values()
        if not all(part.prior_of_emission for part in parts):
            raise ModelError(
                "the evidence needs conjugate priors, not those of mean, sd or correlation",
                path=path,
                code="not-conjugate",
            )
    else:
        problems = {k: problem.without_prior() for k, problem in problems.items()}
    rng = np.random.default_rng(0)
    with errors_at(path):
        return choose_components(problems.__getitem__, tuple(problems), criterion=spec.choose, rng=rng)[0]


def _emission(parts: Mapping[str, StatePart]) -> Any:
    if len(parts) == 1:
        return next(iter(parts.values())).emission
    return emissions.Product({name: (part.at, part.emission) for name, part in parts.items()})
