"""Emissions as nodes of the model language: parameters with their priors, and a node for each column."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bayeslab.language.expansion import nested, number, numbers, unsupported
from bayeslab.posterior.observed.any_distribution import DistributedPart
from bayeslab.posterior.observed.categories import Categories
from bayeslab.posterior.observed.joint_normal import JointNormal
from bayeslab.posterior.observed.normal import Normal
from bayeslab.posterior.observed.one_parameter import OneParameter
from bayeslab.posterior.observed.part import StatePart
from bayeslab.posterior.observed.prior import Prior

__all__ = ["EmissionNodes", "emission_nodes"]


@dataclass
class EmissionNodes:
    """Nodes of some parts.

    Attributes
    ----------
    parameters, columns : dict of str to str
        Nodes of parameters, and of the columns, given the node ``state`` of each row.
    dims : dict of str to list
    comments : dict of str to str
    """

    state: str
    row: str
    read: tuple[str, ...]
    parameters: dict[str, str] = field(default_factory=dict)
    columns: dict[str, str] = field(default_factory=dict)
    dims: dict[str, list[Any]] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)

    # -- parts

    def add(self, part: StatePart) -> None:
        """Add the nodes of a part.

        Raises
        ------
        ModelError
            The language cannot express this kind of part.
        """
        self.dims |= {dim: [_plain(label) for label in labels] for dim, labels in part.labels().items()}
        match part:
            case Normal():
                self._normal(part)
            case OneParameter():
                self._one_parameter(part)
            case Categories():
                self._categories(part)
            case DistributedPart():
                self._distributed(part)
            case JointNormal() if part.covariance == "full" and part.lkj is None and not part.free and not part.priors:
                self._joint_normal(part)
            case _:
                raise unsupported(
                    f"a {part.word} distribution of {len(part.columns)} columns together cannot be expanded yet:"
                    " columns with covariance: diagonal or full and the default priors can"
                )

    def _normal(self, part: Normal) -> None:
        mean, sd, prior, d = part.called("mean"), part.called("sd"), part.emission.prior, len(part.columns)
        if part.free:
            for name in (mean, sd):
                self.parameters[_key(part, name)] = part.free[part.parameter(name)]
        else:
            assert prior is not None
            if not self._given(part, sd):
                variance = part.called("variance")
                half = (
                    number(float(part.scales) / 2)
                    if part.spherical
                    else numbers(np.broadcast_to(part.scales, (d,)) / 2)
                )
                key = f"{variance}[{', '.join(part.dims(sd))}]"
                half = self._one_way(part, f"{variance}_scale", half)
                self.parameters[key] = f"InverseGamma({number(prior.nu / 2)}, {half})"
                self.comments[key] = "Variances; the prior is weak, on the scale of the data."
                self.parameters[_key(part, sd)] = f"sqrt({variance})"
            if not self._given(part, mean):
                key = _key(part, mean)
                centre = numbers(np.broadcast_to(np.asarray(prior.mean, float), (d,)))
                centre = self._one_way(part, f"{mean}_centre", centre)
                self.parameters[key] = f"Normal({centre}, {sd} / sqrt({number(prior.kappa)}))"
                self.comments[key] = "Means. The wider a state, the further out it may lie: the conjugate prior."
        for column in part.columns:
            at = [self._at(part, name, column) for name in (mean, sd)]
            self.columns[f"{column}[{self.row}]"] = f"Normal({', '.join(at)})"

    def _joint_normal(self, part: JointNormal) -> None:
        """Columns with covariance matrices: each is normal given those before it.

        With the precision A'A in coordinates in which its prior is a standard Wishart distribution, and T = A L^-1 in
        those of the data, T (x - mean) is standard normal, and T is lower triangular: row by row it says the density
        of a column given those before it.
        """
        prior, columns, state = part.weak, part.columns, part.style.state
        d, inverse = len(columns), np.linalg.inv(np.linalg.cholesky(prior.scale))
        diagonal, mean, sd = (part.called(word) for word in ("diagonal", "mean", "sd"))
        key = f"{diagonal}[{state}, {part.style.feature}]"
        freedom = self._one_way(part, f"{diagonal}_freedom", numbers(float(prior.nu) - np.arange(d)[::-1]))
        self.parameters[key] = f"ChiSquared({freedom})"
        self.comments[key] = "Covariances have a weak inverse Wishart prior, by the triangle of Bartlett."
        feature = part.style.feature
        self.dims = {dim: labels for dim, labels in self.dims.items() if dim == feature or dim not in part.labels()}
        for i, column in enumerate(columns):
            before = columns[:i]
            below = [f"{part.called('below')}_{column}_{other}" for other in before]
            self.parameters |= {f"{name}[{state}]": "Normal(0, 1)" for name in below}
            root = [*below, f"sqrt({diagonal}[{column!r}])"]
            rows = [[(root[k], inverse[k, j]) for k in range(j, i + 1)] for j in range(i + 1)]
            texts = [" + ".join(f"{number(value)} * {name}" for name, value in row) for row in rows]
            own, slopes = f"{sd}_{column}", [f"{part.called('slope')}_{column}_{other}" for other in before]
            self.parameters[f"{own}[{state}]"] = f"1 / ({texts[i]})"
            self.parameters |= {
                f"{slope}[{state}]": f"-({text}) * {own}" for slope, text in zip(slopes, texts, strict=False)
            }
            if i:
                given = ", ".join(before)
                self.comments[f"{own}[{state}]"] = f"Standard deviation of {column} given {given}."
                self.comments[f"{slopes[0]}[{state}]"] = f"How {column} changes with {before[0]}."
            centre = [number(float(np.broadcast_to(prior.mean, (d,))[k])) for k in range(i + 1)]
            about = [
                f"{slope} * ({mean}_{other} - {m})" for slope, other, m in zip(slopes, before, centre, strict=False)
            ]
            self.parameters[f"{mean}_{column}[{state}]"] = (
                f"Normal({' + '.join([centre[i], *about])}, {own} / sqrt({number(prior.kappa)}))"
            )
            apart = [
                f"{slope}[{self.state}] * ({other} - {mean}_{other}[{self.state}])"
                for slope, other in zip(slopes, before, strict=True)
            ]
            expected = " + ".join([f"{mean}_{column}[{self.state}]", *apart])
            self.columns[f"{column}[{self.row}]"] = f"Normal({expected}, {own}[{self.state}])"

    def _one_parameter(self, part: OneParameter) -> None:
        (name,) = part.names
        if not self._given(part, name):
            shape = (part.n_states, len(part.columns))
            assert part.emission.prior is not None
            a, b = (_across(np.broadcast_to(np.asarray(value, float), shape)) for value in part.emission.prior)
            a, b = self._one_way(part, f"{name}_a", a), self._one_way(part, f"{name}_b", b)
            self.parameters[_key(part, name)] = f"{part.emission.pair.name}({a}, {b})"
        known = [number(float(value)) for value in part.emission.known.values()]
        for column in part.columns:
            given = ", ".join([*known, *(self.read[at] for at in part.given_at), self._at(part, name, column)])
            self.columns[f"{column}[{self.row}]"] = f"{part.emission.distribution}({given})"

    def _categories(self, part: Categories) -> None:
        every = (part.n_states, len(part.columns), max(part.emission.levels))
        for j, (name, column) in enumerate(zip(part.names, part.columns, strict=True)):
            states = f"{column}_state"
            if name in part.known:
                self.parameters[_key(part, name)] = nested(np.asarray(part.known[name], float))
            else:
                prior = np.broadcast_to(np.asarray(part.emission.prior, float), every)[:, j, : len(part.states[j])]
                self.parameters[_key(part, name)] = f"Dirichlet({_across(prior)})"
            self.columns[f"{column}[{self.row}]"] = f"Categorical({name}[{self.state}, {states}])"

    def _distributed(self, part: DistributedPart) -> None:
        shape, e = (part.n_states, len(part.columns)), part.emission
        for word in e.learned:
            name = part.called(word)
            if self._given(part, name):
                continue
            if e.prior is None:
                raise unsupported(f"{e.name} components have no prior here")
            law = e.prior[word]
            texts = {key: _across(np.broadcast_to(value, shape)) for key, value in law.given.items()}
            given = [f"{key}={self._one_way(part, f'{name}_{key}', text)}" for key, text in texts.items()]
            self.parameters[_key(part, name)] = f"{law.name}({', '.join(given)})"
        for j, column in enumerate(part.columns):
            arguments = [f"{word}={self._at(part, part.called(word), column)}" for word in e.learned]
            arguments += [
                f"{w}={number(np.broadcast_to(v, shape)[0, j])}" for w, v in e.known.items() if w not in e.learned
            ]
            self.columns[f"{column}[{self.row}]"] = f"{e.name}({', '.join(arguments)})"

    # -- parameters

    def _given(self, part: StatePart, name: str) -> bool:
        """Whether a parameter is known or has a prior in the model file."""
        if name in part.known:
            value = np.asarray(part.known[name], float)
            self.parameters[_key(part, name)] = nested(value)
            return True
        if name in part.priors and not isinstance(part, DistributedPart):
            self.parameters[_key(part, name)] = _prior(part.priors[name])
            return True
        return False

    def _one_way(self, part: StatePart, name: str, text: str) -> str:
        """A list along the columns; it becomes a node if there are as many states, to make its dimension explicit."""
        if not text.startswith("[") or part.n_states != len(part.columns):
            return text
        self.parameters[f"{name}[{part.style.feature}]"] = text
        return name

    def _at(self, part: StatePart, name: str, column: str) -> str:
        """A parameter in the state of the row."""
        return f"{name}[{self.state}, {column!r}]" if len(part.dims(name)) > 1 else f"{name}[{self.state}]"


def emission_nodes(parts: list[StatePart], state: str, row: str, read: tuple[str, ...]) -> EmissionNodes:
    """The nodes of several parts.

    Parameters
    ----------
    state
        Name of the node of the rows' states.
    row
        Dimension of the rows.
    read
        Names of the columns of the rows.
    """
    out = EmissionNodes(state, row, read)
    for part in parts:
        out.add(part)
    return out


def _key(part: StatePart, name: str) -> str:
    return f"{name}[{', '.join(part.dims(name))}]"


def _prior(prior: Prior) -> str:
    arguments = ", ".join(f"{name}={_across(np.atleast_1d(value))}" for name, value in prior.arguments.items())
    call = f"{prior.word}({arguments})"
    return f"Ordered({call})" if prior.ordered else call


def _across(values: np.ndarray) -> str:
    """Numbers (K, d) as text: a single number, or a list along the columns."""
    values = np.asarray(values, float)
    if values.ndim == 1:
        return numbers(values)
    if not np.all(values == values[0]):
        raise unsupported("states with different priors cannot be expanded yet", "priors")
    return numbers(values[0])


def _plain(label: Any) -> Any:
    return label.item() if isinstance(label, np.generic) else label
