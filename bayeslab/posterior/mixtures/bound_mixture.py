"""A mixture bound to its data: rows, components with their priors, and names of the parameters in results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bayeslab.data.dataset import RowStream
from bayeslab.data.design import Design
from bayeslab.errors import ModelError, Reason, hint
from bayeslab.latents.partitions.component_number import NumberPrior
from bayeslab.latents.partitions.dirichlet_process import ProcessPrior
from bayeslab.posterior.mixtures.problem import MixtureProblem
from bayeslab.posterior.number_choice import NumberChoice
from bayeslab.posterior.observed.any_distribution import DistributedPart
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.part import StatePart

__all__ = ["BoundMixture", "part_of"]


@dataclass(frozen=True, eq=False)
class BoundMixture:
    """A mixture bound to its data.

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
    stream : RowStream or None
        All rows, if those held are a sample.
    origin : BoundMixture or None
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
    stream: RowStream | None = None
    origin: BoundMixture | None = None

    @property
    def modelled(self) -> list[str]:
        """Names of the columns that the parts model, in the order of the parts."""
        return [column for part in self.parts.values() for column in part.columns]

    def as_columns(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Drawn rows (..., n_columns) by modelled column; integers for discrete columns."""
        discrete = {column for part in self.parts.values() if part.discrete for column in part.columns}
        return {
            column: rows[..., j].astype(np.int64) if column in discrete else rows[..., j]
            for j, column in enumerate(self.modelled)
        }

    def sample(self, rng: np.random.Generator, theta: Mapping[str, Any], labels: np.ndarray) -> np.ndarray:
        """Modelled columns (N, n_columns) of rows of these components, given what the parts condition on."""
        made = []
        for name, part in self.parts.items():
            given = self.rows[:, list(part.given_at)]
            made.append(part.sample(rng, self.parameters_of(name, theta), labels, given))
        return np.concatenate(made, axis=1)

    @property
    def of_fit(self) -> BoundMixture:
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

    @property
    def no_conjugate_steps(self) -> Reason | None:
        """Reason why there are no conjugate updates of the components; None if there are."""
        if self.searched is None and not self.conjugate:
            text = "the priors of mean, sd or correlation are not conjugate; use nuts"
            return Reason(text, code="not-conjugate")
        return self.searched or self.tied

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
        return part_of(self.parts, column).place(values, column)

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


def part_of(parts: Mapping[str, StatePart], column: str) -> StatePart:
    """The part whose column or term orders the components.

    Raises
    ------
    ModelError
        There is no such column or term.
    """
    for part in parts.values():
        if column in part.orders:
            return part
    known = [name for part in parts.values() for name in part.orders]
    raise ModelError(
        f"order: '{column}' is neither a column nor a term{hint(column, known)}",
        path=("model", "order"),
        code="unknown-column",
    )
