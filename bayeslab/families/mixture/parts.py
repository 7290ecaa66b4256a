"""What the components of a mixture are made of: each kind of distribution, as results and as PyMC nodes.

A part is one kind of component distribution on some columns. The arithmetic on plain arrays is an emission of
:mod:`bayeslab.exact.emissions`; here are the names that its parameters have in results, and the same distribution
with the same prior as nodes of a PyMC graph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.special import gammaln

from bayeslab.data.weak_priors import shown
from bayeslab.exact import emissions
from bayeslab.posterior.observed.whitened import DiagonalNodes, FullNodes, scaled_normal, triangles

__all__ = ["Categories", "Gaussian", "Nodes", "OneParameter", "Part", "Regression", "StudentT"]

type Arrays = Mapping[str, np.ndarray]


class Nodes(Protocol):
    """A part's parameters as nodes of the PyMC model that is being built."""

    def log_density(self, rows: np.ndarray) -> Any:
        """log p(row | component), (N, K), missing cells left out."""
        ...

    def draw(self, labels: Any, rows: np.ndarray) -> list[Any]:
        """One random variable for each column, given the rows' components (and what of the rows is given)."""
        ...


class Part(Protocol):
    """One kind of distribution on some columns.

    Attributes
    ----------
    columns : tuple of str
    given : tuple of str
        Columns that are not predicted: numbers of trials, inputs.
    reads : tuple of str
        The columns of the emission's rows, in their order.
    emission : Emission
        With its prior.
    dims : dict of str to tuple of str
        Names and dimensions of the parameters in results.
    labels : dict of str to ndarray
    """

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def given(self) -> tuple[str, ...]: ...
    @property
    def reads(self) -> tuple[str, ...]: ...
    @property
    def emission(self) -> Any: ...
    @property
    def dims(self) -> dict[str, tuple[str, ...]]: ...
    @property
    def labels(self) -> dict[str, np.ndarray]: ...

    def values(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        """The emission's parameters by their names in results."""
        ...

    def theta(self, values: Arrays) -> dict[str, Any]:
        """The inverse of :meth:`values`."""
        ...

    @property
    def discrete(self) -> bool: ...

    def priors(self) -> dict[str, str]:
        """Priors in words, by the names of parameters."""
        ...

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], labels: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        """The columns in given components; ``given`` has the rows of the columns that are not predicted."""
        ...

    def location(self, values: Arrays, column: str) -> np.ndarray:
        """Where a column lies in each component, (..., K), from parameters by their names in results."""
        ...

    def nodes(self, n_components: int, start: Mapping[str, Any] | None) -> Nodes:
        """The parameters as nodes of the model on PyMC's context stack, starting at the emission's ``start``."""
        ...


def _normal_prior(prior: emissions.NormalPrior, mean: str, spread: str) -> dict[str, str]:
    """A normal-inverse-Wishart prior in words."""
    full = np.ndim(prior.scale) == 2
    law = f"InverseWishart({prior.nu:g}, {shown(prior.scale)})" if full else f"InverseGamma({prior.nu / 2:g}, s / 2)"
    said = law if full else f"{spread}² ~ {law}, s = {shown(prior.scale)}"
    return {spread: said, mean: f"Normal({shown(prior.mean)}, {spread}² / {prior.kappa:g})"}


# --------------------------------------------------------------------------------- gaussian


@dataclass(frozen=True, eq=False)
class Gaussian:
    """Normal columns: ``mean`` and ``sd``, and ``covariance`` where there is one.

    ``free`` has priors of ``mean`` and ``sd`` in the model language, where they are not the conjugate ones. With
    ``lkj`` matrices are sds and a correlation matrix whose prior is LKJ(η).
    """

    columns: tuple[str, ...]
    emission: Any
    prefix: str = ""
    given: tuple[str, ...] = ()
    free: Mapping[str, str] = field(default_factory=dict)
    lkj: float | None = None

    @property
    def covariance(self) -> str:
        return str(self.emission.covariance)

    @cached_property
    def _column(self) -> str:
        return f"{self.prefix}feature"

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        at, p = ("component", self._column), self.prefix
        match self.covariance:
            case "full":
                return {f"{p}mean": at, f"{p}sd": at, f"{p}covariance": (*at, f"{self._column}_2")}
            case "tied":
                return {f"{p}mean": at, f"{p}sd": at[1:], f"{p}covariance": (self._column, f"{self._column}_2")}
            case "diagonal":
                return {f"{p}mean": at, f"{p}sd": at}
            case "spherical":
                return {f"{p}mean": at, f"{p}sd": ("component",)}
        return {f"{p}mean": at}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        return {self._column: np.array(self.columns), f"{self._column}_2": np.array(self.columns)}

    def values(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        out, p = {f"{self.prefix}mean": theta["mean"]}, self.prefix
        if self.covariance in ("full", "tied"):
            covariance = theta["covariance"]
            out |= {f"{p}sd": np.sqrt(np.einsum("...ii->...i", covariance)), f"{p}covariance": covariance}
        elif self.covariance != "known":
            out[f"{p}sd"] = np.sqrt(theta["variance"])
        return out

    def theta(self, values: Arrays) -> dict[str, Any]:
        p = self.prefix
        out = {"mean": values[f"{p}mean"]}
        if self.covariance in ("full", "tied"):
            out["covariance"] = values[f"{p}covariance"]
        elif self.covariance != "known":
            out["variance"] = values[f"{p}sd"] ** 2
        return out

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.columns, *self.given)

    @property
    def discrete(self) -> bool:
        return False

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], labels: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        out: np.ndarray = self.emission.sample(rng, theta, labels)
        return out

    def priors(self) -> dict[str, str]:
        matrix = {f"{self.prefix}covariance": f"correlations LKJ({self.lkj:g})"} if self.lkj is not None else {}
        if self.free:
            return {f"{self.prefix}{name}": text for name, text in self.free.items()} | matrix
        if self.lkj is not None:
            prior, sd = self.emission.prior, np.sqrt(np.diag(self.emission.prior.scale))
            mean = f"Normal({shown(prior.mean)}, {shown(sd * prior.kappa**-0.5)})"
            return {f"{self.prefix}mean": mean, f"{self.prefix}sd": f"LogNormal(log {shown(sd)}, 1)"} | matrix
        spread = "covariance" if self.covariance in ("full", "tied") else "sd"
        found = _normal_prior(self.emission.prior, f"{self.prefix}mean", f"{self.prefix}{spread}")
        return {name: text for name, text in found.items() if name in self.dims}

    def location(self, values: Arrays, column: str) -> np.ndarray:
        return np.asarray(values[f"{self.prefix}mean"])[..., self.columns.index(column)]

    def nodes(self, n_components: int, start: Mapping[str, Any] | None) -> Nodes:
        if self.lkj is not None:
            return FullNodes.separated(self, n_components, start)
        if self.free:
            return DiagonalNodes.free(self, start)
        if self.covariance in ("diagonal", "spherical"):
            return DiagonalNodes.of(self, n_components, start)
        return FullNodes.of(self, n_components, start)


# --------------------------------------------------------------------------------- Student's t


@dataclass(frozen=True, eq=False)
class StudentT:
    """Student's t columns: ``location``, ``scale`` of each column, ``scale_matrix`` and ``dof``."""

    columns: tuple[str, ...]
    emission: emissions.StudentT
    prefix: str = ""
    given: tuple[str, ...] = ()

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        p, column = self.prefix, f"{self.prefix}feature"
        at = ("component", column)
        return {
            f"{p}location": at,
            f"{p}scale": at,
            f"{p}scale_matrix": (*at, f"{column}_2"),
            f"{p}dof": ("component",),
        }

    @property
    def labels(self) -> dict[str, np.ndarray]:
        column = f"{self.prefix}feature"
        return {column: np.array(self.columns), f"{column}_2": np.array(self.columns)}

    def values(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        p, matrix = self.prefix, theta["scale"]
        return {
            f"{p}location": theta["mean"],
            f"{p}scale": np.sqrt(np.einsum("...ii->...i", matrix)),
            f"{p}scale_matrix": matrix,
            f"{p}dof": theta["dof"],
        }

    def theta(self, values: Arrays) -> dict[str, Any]:
        p = self.prefix
        return {"mean": values[f"{p}location"], "scale": values[f"{p}scale_matrix"], "dof": values[f"{p}dof"]}

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.columns, *self.given)

    @property
    def discrete(self) -> bool:
        return False

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], labels: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        return self.emission.sample(rng, theta, labels)

    def priors(self) -> dict[str, str]:
        assert self.emission.prior is not None
        found = _normal_prior(self.emission.prior, f"{self.prefix}location", f"{self.prefix}scale_matrix")
        return found | ({f"{self.prefix}dof": "Gamma(2, 0.1)"} if self.emission.dof is None else {})

    def location(self, values: Arrays, column: str) -> np.ndarray:
        return np.asarray(values[f"{self.prefix}location"])[..., self.columns.index(column)]

    def nodes(self, n_components: int, start: Mapping[str, Any] | None) -> Nodes:
        import pymc as pm
        import pytensor.tensor as pt

        p, e = self.prefix, self.emission
        prior, d = e.prior, e.n_columns
        assert prior is not None
        root = np.linalg.cholesky(prior.scale)
        begin = None if start is None else np.linalg.solve(np.linalg.cholesky(start["scale"]), root[None])
        packed = triangles(p, n_components, d, prior.nu, begin)
        i, j = np.tril_indices(d)
        factors = pt.zeros((n_components, d, d))[:, i, j].set(packed)
        begin = None if start is None else np.linalg.solve(root, (start["mean"] - prior.mean).T).T
        at = scaled_normal(f"_{p}mean", factors, packed, prior.kappa, begin)
        spread = pt.matmul(root, pt.linalg.inv(factors))
        matrix = pt.matmul(spread, pt.swapaxes(spread, -1, -2))
        pm.Deterministic(f"{p}location", prior.mean + pt.dot(at, root.T), dims=self.dims[f"{p}location"])
        pm.Deterministic(f"{p}scale", pt.sqrt(pt.diagonal(matrix, axis1=-2, axis2=-1)), dims=self.dims[f"{p}scale"])
        pm.Deterministic(f"{p}scale_matrix", matrix, dims=self.dims[f"{p}scale_matrix"])
        if e.dof is None:
            begin = None if start is None else np.clip(start["dof"], 1.0, 100.0)
            dof = pm.Gamma(f"{p}dof", 2.0, 0.1, dims=("component",), initval=begin)
        else:
            dof = pm.Deterministic(f"{p}dof", pt.constant(np.full(n_components, float(e.dof))), dims=("component",))
        return StudentNodes(FullNodes(at, factors, packed, np.asarray(prior.mean, float), root), dof)


@dataclass(frozen=True, eq=False)
class StudentNodes:
    """Student's t columns."""

    normal: FullNodes
    dof: Any

    def log_density(self, rows: np.ndarray) -> Any:
        import pytensor.tensor as pt

        squares, log_det, observed = self.normal.squares(rows)
        d, dof = observed[:, None].astype(float), self.dof[None, :]
        if (observed == observed[0]).all():
            d = d[:1]
        constant = pt.gammaln(0.5 * (dof + d)) - pt.gammaln(0.5 * dof) - 0.5 * d * pt.log(dof * np.pi)
        return constant + log_det - 0.5 * (dof + d) * pt.log1p(squares / dof)

    def draw(self, labels: Any, rows: np.ndarray) -> list[Any]:
        import pymc as pm
        import pytensor.tensor as pt

        d = len(self.normal.centre)
        mixing = pm.Gamma.dist(0.5 * self.dof[labels], 0.5 * self.dof[labels], shape=len(rows))
        noise = pm.Normal.dist(shape=(len(rows), d)) / pt.sqrt(mixing)[:, None]
        spread = pt.linalg.inv(self.normal.factors)[labels]
        made = self.normal.at[labels] + (spread * noise[:, None, :]).sum(axis=-1)
        made = self.normal.centre + pt.dot(made, self.normal.root.T)
        return [made[:, c] for c in range(d)]


# --------------------------------------------------------------------------------- one parameter a column


@dataclass(frozen=True, eq=False)
class OneParameter:
    """Bernoulli, binomial (``probability``), Poisson and exponential (``rate``) columns."""

    word: str
    columns: tuple[str, ...]
    emission: Any
    prefix: str = ""
    given: tuple[str, ...] = ()

    @property
    def _name(self) -> str:
        return "rate" if self.word in ("poisson", "exponential") else "probability"

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        return {f"{self.prefix}{self._name}": ("component", f"{self.prefix}feature")}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        return {f"{self.prefix}feature": np.array(self.columns)}

    def values(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return {f"{self.prefix}{self._name}": theta[self._name]}

    def theta(self, values: Arrays) -> dict[str, Any]:
        return {self._name: values[f"{self.prefix}{self._name}"]}

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.columns, *self.given)

    @property
    def discrete(self) -> bool:
        return self.word != "exponential"

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], labels: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        if self.given:
            return rng.binomial(given.astype(int), theta["probability"][labels]).astype(float)
        out: np.ndarray = self.emission.sample(rng, theta, labels)
        return out

    def priors(self) -> dict[str, str]:
        a, b = self.emission.prior
        law = "Gamma" if self._name == "rate" else "Beta"
        return {f"{self.prefix}{self._name}": f"{law}({shown(a)}, {shown(b)})"}

    def location(self, values: Arrays, column: str) -> np.ndarray:
        return np.asarray(values[f"{self.prefix}{self._name}"])[..., self.columns.index(column)]

    def nodes(self, n_components: int, start: Mapping[str, Any] | None) -> Nodes:
        import pymc as pm

        name, (a, b) = f"{self.prefix}{self._name}", self.emission.prior
        shape = (n_components, len(self.columns))
        a, b = np.broadcast_to(a, shape), np.broadcast_to(b, shape)
        begin = None if start is None else start[self._name]
        if self._name == "rate":
            begin = None if begin is None else np.maximum(begin, 1e-3 * a / b)
            node = pm.Gamma(name, a, b, dims=self.dims[name], initval=begin)
        else:
            begin = None if begin is None else np.clip(begin, 0.01, 0.99)
            node = pm.Beta(name, a, b, dims=self.dims[name], initval=begin)
        return OneParameterNodes(self.word, node, self.emission)


@dataclass(frozen=True, eq=False)
class OneParameterNodes:
    word: str
    parameter: Any
    emission: Any

    def log_density(self, rows: np.ndarray) -> Any:
        import pytensor.tensor as pt

        won, base = self.emission.counted(rows)
        theta = self.parameter.T
        if self.word in ("poisson", "exponential"):
            term = pt.dot(won, pt.log(theta)) - pt.dot(base, theta)
        else:
            term = pt.dot(won, pt.log(theta)) + pt.dot(base, pt.log1p(-theta))
        return term + self.emission.log_base(rows)[:, None]

    def draw(self, labels: Any, rows: np.ndarray) -> list[Any]:
        import pymc as pm

        theta, made = self.parameter[labels], []
        for c in range(self._n):
            own = theta[:, c]
            made.append(
                pm.Poisson.dist(own)
                if self.word == "poisson"
                else pm.Exponential.dist(own)
                if self.word == "exponential"
                else pm.Bernoulli.dist(own)
                if self.word == "bernoulli"
                else pm.Binomial.dist(
                    rows[:, -1].astype(int) if self.emission.trials is None else self.emission.trials, own
                )
            )
        return made

    @property
    def _n(self) -> int:
        return int(getattr(self.emission, "n_outcomes", self.emission.n_columns))


# --------------------------------------------------------------------------------- categories


@dataclass(frozen=True, eq=False)
class Categories:
    """Columns of categories: a table ``p_<column>`` each."""

    columns: tuple[str, ...]
    emission: emissions.Categorical
    states: tuple[tuple[Any, ...], ...]
    given: tuple[str, ...] = ()

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        return {f"p_{c}": ("component", f"{c}_state") for c in self.columns}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        return {f"{c}_state": np.array(s) for c, s in zip(self.columns, self.states, strict=True)}

    def values(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        p = theta["probability"]
        return {f"p_{c}": p[:, j, : len(self.states[j])] for j, c in enumerate(self.columns)}

    def theta(self, values: Arrays) -> dict[str, Any]:
        tables = [np.asarray(values[f"p_{c}"]) for c in self.columns]
        out = np.zeros((len(tables[0]), len(tables), max(self.emission.levels)))
        for j, table in enumerate(tables):
            out[:, j, : table.shape[1]] = table
        return {"probability": out}

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.columns, *self.given)

    @property
    def discrete(self) -> bool:
        return True

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], labels: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        return self.emission.sample(rng, theta, labels)

    def priors(self) -> dict[str, str]:
        prior = self.emission.prior
        said = f"Dirichlet({prior:g})" if isinstance(prior, float | int) else "Dirichlet, row by row"
        return {f"p_{c}": said for c in self.columns}

    def location(self, values: Arrays, column: str) -> np.ndarray:
        # The probability of the last state: for two states like a 0/1 column's.
        return np.asarray(values[f"p_{column}"])[..., -1]

    def nodes(self, n_components: int, start: Mapping[str, Any] | None) -> Nodes:
        import pymc as pm

        shape = (n_components, len(self.columns), max(self.emission.levels))
        prior = np.broadcast_to(np.asarray(self.emission.prior, float), shape)
        tables = []
        for j, c in enumerate(self.columns):
            n = len(self.states[j])
            begin = None
            if start is not None:
                begin = np.maximum(start["probability"][:, j, :n], 0.01)
                begin = begin / begin.sum(axis=1, keepdims=True)
            tables.append(pm.Dirichlet(f"p_{c}", prior[:, j, :n], dims=self.dims[f"p_{c}"], initval=begin))
        return CategoryNodes(tuple(tables))


@dataclass(frozen=True, eq=False)
class CategoryNodes:
    tables: tuple[Any, ...]

    def log_density(self, rows: np.ndarray) -> Any:
        import pytensor.tensor as pt

        total = 0.0
        for j, table in enumerate(self.tables):
            seen = ~np.isnan(rows[:, j])
            codes = np.where(seen, rows[:, j], 0).astype(int)
            total = total + pt.log(table).T[codes] * seen[:, None].astype(float)
        return total

    def draw(self, labels: Any, rows: np.ndarray) -> list[Any]:
        import pymc as pm

        return [pm.Categorical.dist(p=table[labels]) for table in self.tables]


# --------------------------------------------------------------------------------- regressions


@dataclass(frozen=True, eq=False)
class Regression:
    """A generalised linear model of one column: ``coefficients``, and for a normal outcome ``sd``.

    The emission sees standardised inputs and a normal outcome less its mean: its prior does not depend on units;
    results are on the scale of the data.

    Attributes
    ----------
    terms : tuple of str
        Of the design, the intercept first if there is one.
    centre, scale : ndarray (p,)
        The emission's inputs are (design - centre) / scale; for the intercept 0 and 1.
    middle : float
        What a normal outcome is measured from.
    """

    columns: tuple[str, ...]
    emission: emissions.Regression
    terms: tuple[str, ...]
    centre: np.ndarray
    scale: np.ndarray
    middle: float = 0.0

    @property
    def given(self) -> tuple[str, ...]:
        return tuple(f" {term}" for term in self.terms)

    @property
    def reads(self) -> tuple[str, ...]:
        return (*self.given, *self.columns)

    @property
    def discrete(self) -> bool:
        return self.emission.outcome != "gaussian"

    @property
    def _intercept(self) -> bool:
        return self.terms[0] == "Intercept"

    @property
    def dims(self) -> dict[str, tuple[str, ...]]:
        sd = {"sd": ("component",)} if self.emission.outcome == "gaussian" else {}
        return {"coefficients": ("component", "term"), **sd}

    @property
    def labels(self) -> dict[str, np.ndarray]:
        return {"term": np.array(self.terms)}

    def _natural(self, inner: Any) -> Any:
        """Coefficients on the scale of the data: a linear map of the inner ones."""
        turn = np.diag(1 / self.scale)
        if self._intercept:
            turn[0] -= self.centre / self.scale
        shift = np.zeros(len(self.terms))
        shift[0] = self.middle if self._intercept else 0.0
        return inner @ turn.T + shift

    def values(self, theta: Mapping[str, Any]) -> dict[str, np.ndarray]:
        out = {"coefficients": self._natural(theta["coefficients"])}
        return out | ({"sd": np.sqrt(theta["variance"])} if "variance" in theta else {})

    def theta(self, values: Arrays) -> dict[str, Any]:
        inner = values["coefficients"] * self.scale
        if self._intercept:
            slopes = values["coefficients"][..., 1:]
            inner[..., 0] = values["coefficients"][..., 0] - self.middle + slopes @ self.centre[1:]
        return {"coefficients": inner} | ({"variance": values["sd"] ** 2} if "sd" in values else {})

    def sample(
        self, rng: np.random.Generator, theta: Mapping[str, Any], labels: np.ndarray, given: np.ndarray
    ) -> np.ndarray:
        return (self.emission.outcomes(rng, theta, labels, given) + self.middle)[:, None]

    def priors(self) -> dict[str, str]:
        e = self.emission
        assert e.prior is not None
        if e.outcome != "gaussian":
            return {"coefficients": f"Normal(0, {e.prior**-0.5:.3g}) on standardised inputs"}
        return {
            "sd": f"sd² ~ InverseGamma(1, {0.01 * e.spread:.4g})",
            "coefficients": f"Normal(0, {e.prior**-0.5:.3g} sd) on standardised inputs",
        }

    def location(self, values: Arrays, column: str) -> np.ndarray:
        at = self.terms.index(column) if column in self.terms else 0
        return np.asarray(values["coefficients"])[..., at]

    def nodes(self, n_components: int, start: Mapping[str, Any] | None) -> Nodes:
        import pymc as pm
        import pytensor.tensor as pt

        e = self.emission
        assert e.prior is not None
        sd: Any = None
        width: Any = e.prior**-0.5
        if e.outcome == "gaussian":
            begin = None if start is None else start["variance"]
            variance = pm.InverseGamma("_variance", 1.0, 0.01 * e.spread, shape=n_components, initval=begin)
            sd = pm.Deterministic("sd", pt.sqrt(variance), dims="component")
            width = sd[:, None] * width
        begin = None if start is None else start["coefficients"]
        inner = pm.Normal("_coefficients", 0.0, width, shape=(n_components, len(self.terms)), initval=begin)
        pm.Deterministic("coefficients", self._natural(inner), dims=("component", "term"))
        return RegressionNodes(self, inner, sd)


@dataclass(frozen=True, eq=False)
class RegressionNodes:
    part: Regression
    inner: Any
    sd: Any

    def log_density(self, rows: np.ndarray) -> Any:
        import pytensor.tensor as pt

        y = rows[:, -1:]
        seen = ~np.isnan(y)
        y = np.where(seen, y, 0.0)
        eta = pt.dot(rows[:, :-1], self.inner.T)
        if self.sd is not None:
            terms = -0.5 * ((y - eta) / self.sd) ** 2 - pt.log(self.sd) - 0.5 * np.log(2 * np.pi)
        elif self.part.emission.outcome == "bernoulli":
            terms = y * eta - pt.softplus(eta)
        else:
            terms = y * eta - pt.exp(eta) - gammaln(y + 1)
        return terms * seen.astype(float)

    def draw(self, labels: Any, rows: np.ndarray) -> list[Any]:
        import pymc as pm
        import pytensor.tensor as pt

        eta = (rows[:, :-1] * self.inner[labels]).sum(axis=-1)
        if self.sd is not None:
            return [pm.Normal.dist(eta + self.part.middle, self.sd[labels])]
        if self.part.emission.outcome == "bernoulli":
            return [pm.Bernoulli.dist(pt.sigmoid(eta))]
        return [pm.Poisson.dist(pt.exp(eta))]
