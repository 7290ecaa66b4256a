"""Parameters of conditional linear-Gaussian nets from complete data.

For complete data the likelihood is a product over variables. Tables follow from counts; a continuous variable has a
linear regression for each configuration of its discrete parents. Maximum likelihood is least squares, where the
variance is the residual sum of squares divided by the number of rows (not by the degrees of freedom). The conjugate
prior of a regression is normal-inverse-gamma.

References
----------
.. [1] Geiger, Heckerman (1994). Learning Gaussian networks. UAI.
.. [2] Bøttcher (2001). Learning Bayesian networks with mixed variables. AISTATS.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayeslab.errors import DataError, EngineRefusal, hint
from bayeslab.exact.conjugate import DirichletMultinomial, NormalInverseGamma
from bayeslab.latents.networks.mixed_network import LinearGaussian, MixedNetwork

__all__ = ["ConjugatePosterior", "check_data", "conjugate", "count", "maximum_likelihood", "regress"]

# Singular values below this share of the largest count as zero.
_RANK = 1e-12


def check_data(network: MixedNetwork, codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Checked rows, as arrays of the right types.

    Raises
    ------
    DataError
        Shapes do not fit the net, state indices are out of range, or values are infinite.
    """
    codes, values = np.asarray(codes, np.int64), np.asarray(values, float)
    want = (len(network.states), len(network.continuous))
    if codes.ndim != 2 or values.ndim != 2 or (codes.shape[1], values.shape[1]) != want or len(codes) != len(values):
        raise DataError(
            f"data are {codes.shape} codes and {values.shape} values; the net has {want[0]} discrete and"
            f" {want[1]} continuous variables, one column each",
            code="wrong-shape",
        )
    for k, (v, states) in enumerate(network.states.items()):
        if np.any((codes[:, k] < -1) | (codes[:, k] >= len(states))):
            raise DataError(
                f"codes of '{v}' must be 0 to {len(states) - 1}, or -1 for a missing cell", code="out-of-range"
            )
    if np.any(np.isinf(values)):
        raise DataError("values must be finite, or NaN for a missing cell", code="not-finite")
    return codes, values


def maximum_likelihood(network: MixedNetwork, codes: np.ndarray, values: np.ndarray) -> MixedNetwork:
    """The net with maximum-likelihood parameters for complete data.

    Parent configurations without rows get a uniform distribution, or the regression over all rows. With fewer rows than
    coefficients, the least-squares solution of smallest norm (about the means) is used, and the sd is zero.

    Parameters
    ----------
    network : MixedNetwork
        Only its structure is used.
    codes : ndarray (n, number of discrete variables)
    values : ndarray (n, number of continuous variables)

    Raises
    ------
    DataError
        Missing cells: use `mixed_em.em`.
    """
    codes, values = _complete(network, codes, values)
    tables = {}
    for v in network.states:
        counts = count(network, v, codes)
        total = counts.sum(axis=-1, keepdims=True)
        tables[v] = np.where(total > 0, counts / np.maximum(total, 1), 1 / counts.shape[-1])
    continuous = {}
    for v, node in network.continuous.items():
        intercept, slopes, sd = (np.empty(a.shape) for a in (node.intercept, node.slopes, node.sd))
        x, y = _design(network, v, values)
        for at, rows in _configurations(network, v, codes):
            used = rows if rows.any() else np.ones(len(y), bool)
            intercept[at], slopes[at], sd[at] = regress(x[used], y[used])
        continuous[v] = LinearGaussian(node.parents, intercept, slopes, sd)
    return replace(network, tables=tables, continuous=continuous)


def regress(x: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray, float]:
    """Least squares of y (n,) on x (n, q): intercept, slopes, and the square root of RSS / n."""
    if not len(y):
        return 0.0, np.zeros(x.shape[1]), 1.0
    middle, centre = x.mean(axis=0), float(y.mean())
    slopes = np.linalg.lstsq(x - middle, y - centre, rcond=_RANK)[0]
    residuals = y - centre - (x - middle) @ slopes
    return centre - float(middle @ slopes), slopes, float(np.sqrt(np.mean(residuals**2)))


@dataclass(frozen=True, eq=False)
class ConjugatePosterior:
    """The posterior of all parameters, independent between variables.

    Attributes
    ----------
    network : MixedNetwork
        The structure.
    tables : dict of str to DirichletMultinomial
        One Dirichlet distribution for each row of each table.
    regressions : dict of str to ndarray of NormalInverseGamma
        One for each configuration of the discrete parents; coefficients are the intercept, then the slopes.
    log_evidence : float
        Log probability of the data with the parameters integrated out; NaN if a prior is improper.
    """

    network: MixedNetwork
    tables: dict[str, DirichletMultinomial]
    regressions: dict[str, np.ndarray]
    log_evidence: float

    def mean(self) -> MixedNetwork:
        """The net at the posterior means of probabilities, coefficients and σ²."""
        return self._network(
            {v: d.mean() for v, d in self.tables.items()},
            {v: np.vectorize(_mean, otypes=[object])(r) for v, r in self.regressions.items()},
        )

    def draw(self, rng: np.random.Generator) -> MixedNetwork:
        """A net with parameters drawn from the posterior."""

        def one(posterior: NormalInverseGamma) -> tuple[np.ndarray, float]:
            coefficients, variance = posterior.draws(rng, 1)
            return coefficients[0], float(variance[0])

        return self._network(
            {v: d.draws(rng, 1)[0] for v, d in self.tables.items()},
            {v: np.vectorize(one, otypes=[object])(r) for v, r in self.regressions.items()},
        )

    def _network(self, tables: dict[str, np.ndarray], regressions: Mapping[str, np.ndarray]) -> MixedNetwork:
        continuous = {}
        for v, node in self.network.continuous.items():
            intercept, slopes, sd = (np.empty(a.shape) for a in (node.intercept, node.slopes, node.sd))
            for at in np.ndindex(node.intercept.shape):
                coefficients, variance = regressions[v][at]
                intercept[at], slopes[at], sd[at] = coefficients[0], coefficients[1:], np.sqrt(variance)
            continuous[v] = LinearGaussian(node.parents, intercept, slopes, sd)
        return replace(self.network, tables=tables, continuous=continuous)


def _mean(posterior: NormalInverseGamma) -> tuple[np.ndarray, float]:
    coefficients, variance = posterior.mean()
    if not np.isfinite(variance):
        raise EngineRefusal(
            "σ² has no posterior mean: too few rows for a flat prior; give a proper prior", code="improper"
        )
    return coefficients, variance


def conjugate(
    network: MixedNetwork,
    codes: np.ndarray,
    values: np.ndarray,
    *,
    dirichlet: float = 1.0,
    regressions: Mapping[str, NormalInverseGamma] | None = None,
) -> ConjugatePosterior:
    """The exact posterior of all parameters given complete data.

    Parameters
    ----------
    network : MixedNetwork
        Only its structure is used.
    codes : ndarray (n, number of discrete variables)
    values : ndarray (n, number of continuous variables)
    dirichlet : float
        Concentration of the symmetric Dirichlet prior of each row of a table.
    regressions : mapping of str to NormalInverseGamma, optional
        Prior of a continuous variable in each configuration, on (intercept, slopes...); default the
        reference prior, flat on the coefficients and on log σ.

    Raises
    ------
    DataError
        There are missing cells, or a prior for a variable that is not continuous.
    ModelError
        Under a flat prior, the rows of a configuration do not determine the coefficients.
    """
    codes, values = _complete(network, codes, values)
    priors = dict(regressions or {})
    for v in priors.keys() - network.continuous.keys():
        raise DataError(
            f"'{v}' has a prior but is not a continuous variable{hint(v, network.continuous)}", code="unknown-variable"
        )
    log_evidence, tables, posteriors = 0.0, {}, {}
    for v in network.states:
        counts = count(network, v, codes)
        prior = DirichletMultinomial.of(np.full(counts.shape, dirichlet))
        tables[v] = prior.update(counts)
        log_evidence += prior.log_evidence(counts)
    for v, node in network.continuous.items():
        x, y = _design(network, v, values)
        design = np.column_stack([np.ones(len(y)), x])
        start = priors.get(v, NormalInverseGamma.flat(design.shape[1]))
        posteriors[v] = np.empty(node.intercept.shape, dtype=object)
        for at, rows in _configurations(network, v, codes):
            posteriors[v][at] = start.update(design[rows], y[rows])
            log_evidence += start.log_evidence(design[rows], y[rows])
    return ConjugatePosterior(network, tables, posteriors, log_evidence)


def _complete(network: MixedNetwork, codes: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes, values = check_data(network, codes, values)
    if np.any(codes < 0) or np.any(np.isnan(values)):
        raise DataError("there are missing cells: use EM", code="missing")
    return codes, values


def count(network: MixedNetwork, variable: str, codes: np.ndarray) -> np.ndarray:
    """Counts of the entries of a discrete variable's table in complete rows."""
    shape = network.tables[variable].shape
    place = {v: k for k, v in enumerate(network.states)}
    columns = tuple(codes[:, place[v]] for v in (*network.parents[variable], variable))
    flat = np.ravel_multi_index(columns, shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def _design(network: MixedNetwork, variable: str, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    place = {v: k for k, v in enumerate(network.continuous)}
    return values[:, [place[p] for p in network.continuous_parents(variable)]], values[:, place[variable]]


def _configurations(
    network: MixedNetwork, variable: str, codes: np.ndarray
) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Each configuration of the discrete parents and its rows."""
    place = {v: k for k, v in enumerate(network.states)}
    columns = [codes[:, place[p]] for p in network.discrete_parents(variable)]
    for at in np.ndindex(network.continuous[variable].intercept.shape):
        rows = np.ones(len(codes), bool)
        for column, code in zip(columns, at, strict=True):
            rows &= column == code
        yield at, rows
