"""Arrays of a mixture and its data: rows, components with their priors, known labels, inputs of a gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.design import Design
from bayeslab.distributions import emissions
from bayeslab.errors import DataError, ModelError, OptionError, Reason, hint
from bayeslab.families.mixture.columns import column_names, gate_inputs, named, names_and_labels, read_rows
from bayeslab.families.mixture.components import component_parts, design_of, regression_part
from bayeslab.families.mixture.prior_numbers import concentration, process_prior
from bayeslab.language.spec import Model
from bayeslab.latents.labels.labels import Labels
from bayeslab.latents.partitions.component_number import NumberPrior
from bayeslab.latents.partitions.dirichlet_process import ProcessPrior
from bayeslab.posterior.mixtures.choice import choose_components
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.number_choice import NumberChoice
from bayeslab.posterior.observed.any_distribution import DistributedPart
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.regression import RegressionPart

if TYPE_CHECKING:
    from bayeslab.families.mixture.spec import Mixture

__all__ = ["Candidates", "Resolved", "candidates", "resolved", "without_prior"]


@dataclass(frozen=True, eq=False)
class Resolved:
    """A mixture resolved on its data.

    Attributes
    ----------
    parts : dict of str to StatePart
    problem : MixtureProblem
        The problem with its priors; for an unknown number of components, with the largest number.
    columns : tuple of str
        Names of the columns of the rows.
    names : ndarray
        Names of the components.
    number : NumberPrior or None
        Prior of the number of components, if it is sampled.
    choice : NumberChoice or None
        The choice of that number, if it was chosen.
    by : str or None
        The column whose locations order the components.
    design : Design or None
        Design matrix of a regression.
    process : ProcessPrior or None
        Prior of a Dirichlet or Pitman-Yor process.
    origin : Resolved or None
        The mixture on the data of the fit, if these data are others.
    """

    parts: Mapping[str, StatePart]
    problem: MixtureProblem
    columns: tuple[str, ...]
    names: np.ndarray
    inputs: tuple[str, ...] = ()
    scales: tuple[np.ndarray, np.ndarray] | None = None
    number: NumberPrior | None = None
    choice: NumberChoice | None = None
    by: str | None = None
    design: Design | None = None
    process: ProcessPrior | None = None
    origin: Resolved | None = None

    @property
    def of_fit(self) -> Resolved:
        """The mixture on the data of the fit, if this one is on other data."""
        return self if self.origin is None else self.origin

    @property
    def n_components(self) -> int:
        return self.problem.n_components

    @property
    def rows(self) -> np.ndarray:
        return self.problem.rows

    @property
    def labels(self) -> dict[str, np.ndarray]:
        """Labels of the parameters' dimensions."""
        out = {"component": self.names}
        if self.inputs:
            out["input"] = np.array(["Intercept", *self.inputs])
        for part in self.parts.values():
            out |= part.labels()
        return out

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        """Dimensions of the parameters in results."""
        out: dict[str, tuple[str, ...]] = {"gate": ("component", "input")} if self.inputs else {}
        if not self.inputs:
            out["weights"] = ("component",)
        for part in self.parts.values():
            out |= {name: part.dims(name) for name in part.results}
        return out

    @property
    def searched(self) -> Reason | None:
        """Reason why parameters cannot be integrated out or drawn in closed form: no conjugate prior."""
        names = dict.fromkeys(part.emission.name for part in self.parts.values() if isinstance(part, DistributedPart))
        if not names:
            return None
        engines = "nuts" if self.process is not None else "nuts or em"
        return Reason(f"{' and '.join(names)} components have no conjugate prior; use {engines}", code="not-conjugate")

    @property
    def tied(self) -> Reason | None:
        """Reason why there is no closed form if all components share a covariance."""
        if not any(isinstance(part, JointNormal) and part.tied for part in self.parts.values()):
            return None
        text = "one covariance for all components has no closed form here; use full or diagonal, or nuts"
        return Reason(text, code="no-closed-form")

    @property
    def conjugate(self) -> bool:
        """Whether all priors are the emission's conjugate ones."""
        return all(part.prior_of_emission for part in self.parts.values())

    def free_nodes(self) -> dict[str, str]:
        """Parameters whose priors are expressions of the model language, as nodes of a graph."""
        out = {}
        for part in self.parts.values():
            for name, text in part.language_priors.items():
                out[f"{name}[{', '.join(part.dims(name))}]"] = text
        return out

    def values(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """Parameters of the problem by their names in results."""
        out = {name: theta[name] for name in ("weights", "gate") if name in theta}
        for name, part in self.parts.items():
            out |= part.from_emission(self.parameters_of(name, theta))
        return {name: np.asarray(out[name]) for name in self.dims}

    def location(self, values: Mapping[str, np.ndarray], column: str) -> np.ndarray:
        """Locations of the components in a column, (..., K), which order them."""
        return _part_of(self.parts, column).place(values, column)

    def numbered(self, values: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The values with components ordered by their locations in a column, unless labels identify them."""
        return self.renumbered(values, self.ranking(values))

    def ranking(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """The order of the components by their locations in a column, unless labels identify them."""
        if self.by is None:
            return np.arange(self.n_components)
        return np.argsort(self.location(values, self.by), kind="stable")

    def renumbered(self, values: Mapping[str, np.ndarray], order: np.ndarray) -> dict[str, np.ndarray]:
        """The values with components in this order."""
        by_component = {n for n, dims in self.dims.items() if dims[:1] == ("component",)}
        out = {n: v[order] if n in by_component else v for n, v in values.items()}
        return out | {"gate": out["gate"] - out["gate"][0]} if "gate" in out else out

    def parameters_of(self, part: str, theta: Mapping[str, Any]) -> dict[str, Any]:
        """One part's parameters."""
        if len(self.parts) == 1:
            return {name: value for name, value in theta.items() if name not in ("weights", "gate")}
        return {n.removeprefix(f"{part}."): v for n, v in theta.items() if n.startswith(f"{part}.")}

    def theta(self, values: Mapping[str, np.ndarray]) -> dict[str, Any]:
        """The inverse of :meth:`values`."""
        out = {name: values[name] for name in ("weights", "gate") if name in values}
        for name, part in self.parts.items():
            parameters = part.to_emission(values)
            out |= parameters if len(self.parts) == 1 else {f"{name}.{key}": value for key, value in parameters.items()}
        return out


def _part_of(parts: Mapping[str, StatePart], column: str) -> StatePart:
    for part in parts.values():
        if column in part.orders:
            return part
    known = [name for part in parts.values() for name in part.orders]
    raise ModelError(
        f"order: '{column}' is neither a column nor a term{hint(column, known)}",
        path=("model", "order"),
        code="unknown-column",
    )


def resolved(model: Model, data: Data, origin: Resolved | None = None, tried: Candidates | None = None) -> Resolved:
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
        See :class:`Resolved`; ``names`` are those for the largest number of components.
    """

    parts: Mapping[int, Mapping[str, StatePart]]
    problems: Mapping[int, MixtureProblem]
    columns: tuple[str, ...]
    names: np.ndarray
    scales: tuple[np.ndarray, np.ndarray] | None
    design: Design | None


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
    with named(columns):
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
                Labels(n, concentration(spec, n), allowed=allowed, inputs=inputs, gate_precision=0.1),
            )
            _check_rows(spec, problems[n], columns)
            if spec.order is not None:
                _part_of(parts[n], spec.order)
                if not spec.labels and np.ptp(problems[n].latent.dirichlet) > 0:
                    raise ModelError(
                        "weights with different priors tell the components apart, and an order would number them anew:"
                        " leave one of them out",
                        path=("model", "order"),
                        code="conflict",
                    )
    return Candidates(parts, problems, columns, names, scales, design)


def _first(spec: Mixture, candidates: Candidates) -> Resolved:
    choice = None
    n = len(candidates.names)
    if isinstance(spec.components, list):
        with named(candidates.columns):
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
    return Resolved(
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
    )


def _on(fitted: Resolved, spec: Mixture, model: Model, data: Data) -> Resolved:
    """The mixture of a fit on other data."""
    if fitted.design is not None:
        part = fitted.parts["regression"]
        assert isinstance(part, RegressionPart)
        _, rows = regression_part(spec, data, fitted.design, part)
    else:
        rows = read_rows(spec, data, fitted.columns)
    _, allowed = names_and_labels(spec, model, data, len(fitted.names))
    inputs, _ = gate_inputs(spec, data, fitted.scales)
    with named(fitted.columns):
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
        problems = {k: without_prior(problem) for k, problem in problems.items()}
    rng = np.random.default_rng(0)
    try:
        return choose_components(problems.__getitem__, tuple(problems), criterion=spec.choose, rng=rng)[0]
    except OptionError as error:
        raise ModelError(error.message, path=path, code=error.code) from None


def without_prior(problem: MixtureProblem) -> MixtureProblem:
    """The problem with flat priors, whose posterior is the likelihood."""
    labels = replace(problem.latent, dirichlet=1.0, gate_precision=1e-6)
    return replace(problem, emission=problem.emission.without_prior(), latent=labels)


def _emission(parts: Mapping[str, StatePart]) -> Any:
    if len(parts) == 1:
        return next(iter(parts.values())).emission
    return emissions.Product({name: (part.at, part.emission) for name, part in parts.items()})
