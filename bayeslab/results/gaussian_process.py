"""A fitted Gaussian process: its function and terms, active learning, and informative rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import logsumexp

from bayeslab.errors import OptionError, hint
from bayeslab.families.gaussian_process import predictions
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.families.gaussian_process.posterior import GaussianProcessPosterior
from bayeslab.families.regression.likelihoods import inverse_link
from bayeslab.latents.gaussian_process.active_learning import informative_rows, most_uncertain
from bayeslab.latents.gaussian_process.gaussian_process import GaussianProcess
from bayeslab.plots import gaussian_process as plots
from bayeslab.results.fitted import Fitted, bound_to, posterior_values
from bayeslab.results.predict import predict
from bayeslab.results.psis import smoothed_log_weights
from bayeslab.streams import stream

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FittedProcess", "applicable", "process_of"]

PICTURES = ("function", "components", "leave_one_out")

type Band = tuple[np.ndarray, np.ndarray, np.ndarray]

# Number of hyperparameter draws over which variances are averaged.
_DRAWS = 20
# Importance weights need more draws.
_WEIGHTED = 1_000


def process_of(fit: Fitted) -> FittedProcess:
    """See :attr:`bayeslab.results.fit.Fit.process`."""
    if not isinstance(fit.bound_model, GaussianProcessPosterior):
        raise OptionError(
            f"the family {fit.model.model.family} has no function that is a Gaussian process", code="other-family"
        )
    return FittedProcess(fit)


def applicable(fit: Fitted) -> tuple[str, ...]:
    """The names of the plots that a fit has."""
    resolved = _posterior(fit).resolved
    numeric = len(resolved.kernel.categorical) < len(resolved.kernel.columns)
    return (*(["function", "components"] if numeric else []), *(["leave_one_out"] if resolved.gaussian else []))


def _posterior(fit: Fitted) -> GaussianProcessPosterior:
    assert isinstance(fit.bound_model, GaussianProcessPosterior)
    return fit.bound_model


@dataclass(frozen=True, eq=False)
class FittedProcess:
    """A posterior Gaussian process.

    Parameters
    ----------
    fit : Fitted
    """

    fit: Fitted

    @cached_property
    def _resolved(self) -> Resolved:
        return _posterior(self.fit).resolved

    @cached_property
    def _draws(self) -> dict[str, np.ndarray]:
        """Evenly spaced posterior draws by name."""
        return self._some(_DRAWS)

    def _some(self, most: int) -> dict[str, np.ndarray]:
        every = posterior_values(self.fit)
        n = len(next(iter(every.values()))) if every else 1
        some = np.unique(np.linspace(0, n - 1, min(n, most)).astype(int))
        return {name: values[some] for name, values in every.items()}

    def _processes(self) -> list[tuple[dict[str, Any], Any]]:
        n = len(next(iter(self._draws.values()))) if self._resolved.dims or not self._resolved.gaussian else 1
        values = [predictions.values_at(self._resolved, self._draws, i) for i in range(n)]
        return [(v, predictions.function_at(self._resolved, v)) for v in values]

    def leave_one_out(self) -> pd.DataFrame:
        """Leave-one-out predictions: mean, sd, log density, and standardised residual of each row.

        Coefficients of the mean are conditioned on the other rows, exactly if their priors are normal. Draws of
        hyperparameters are weighted by PSIS, whose reliability is ``pareto_k`` (not reliable above 0.7).

        Raises
        ------
        OptionError
            The outcome is not normal.
        """
        import pandas as pd

        resolved = self._resolved
        if not resolved.gaussian:
            raise OptionError(
                f"with likelihood {resolved.spec.likelihood} leaving rows out has no closed form; bayeslab compare does"
                " it with weights",
                code="not-applicable",
            )
        assert resolved.y is not None
        at = predictions.leave_one_out(resolved, self._some(_WEIGHTED))
        log_weights, pareto_k = smoothed_log_weights(-at["log_density"].T)
        weights = np.exp(log_weights).T
        mean = (weights * at["mean"]).sum(axis=0)
        columns = {
            "mean": mean,
            "sd": np.sqrt((weights * (at["variance"] + (at["mean"] - mean) ** 2)).sum(axis=0)),
            "log_density": logsumexp(log_weights.T + at["log_density"], axis=0),
        }
        columns |= {"pareto_k": pareto_k} if len(weights) > 1 else {}
        table = pd.DataFrame({resolved.rows: resolved.row_labels, resolved.target: resolved.y, **columns})
        table["z"] = (table[resolved.target] - table["mean"]) / table["sd"]
        return table

    def next_points(
        self, bounds: Mapping[str, tuple[float, float]] | None = None, n: int = 1, *, seed: int | None = None
    ) -> pd.DataFrame:
        """Where to measure next: inputs at which the function is most uncertain, chosen sequentially.

        The criterion is the variance given the hyperparameters, averaged over their draws. Each point is chosen as if
        the points before it had been measured; their values do not affect the variance.

        Parameters
        ----------
        bounds : mapping of str to (float, float), optional
            Range of each column of the kernel; default: the range of the data.
        n : int
            Number of points; above one only for a normal outcome and no approximation.

        Returns
        -------
        DataFrame
            The columns, and the ``sd`` of the function before each measurement.
        """
        import pandas as pd

        resolved = self._resolved
        lower, upper = self._box(bounds)
        if n > 1 and not (resolved.gaussian and resolved.spec.approximation is None):
            raise OptionError(
                "several points at once need a normal outcome and no approximation; take them one by one",
                code="unsupported",
            )
        rng = stream(self.fit.seed if seed is None else seed, "design")
        processes = [process for _, process in self._processes()]
        points, spreads = [], []
        for _ in range(n):
            point, top = most_uncertain(lambda z, now=tuple(processes): _variance(now, z), lower, upper, rng)  # type: ignore[misc]
            points.append(point)
            spreads.append(np.sqrt(top))
            if n > 1:
                processes = [_measured(process, point, self._noise(i)) for i, process in enumerate(processes)]
        table = pd.DataFrame(np.array(points), columns=list(resolved.kernel.columns))
        return table.assign(sd=spreads)

    def _noise(self, i: int) -> float:
        return float(self._resolved.noise_sd(predictions.values_at(self._resolved, self._draws, i)) ** 2)

    def _box(self, bounds: Mapping[str, tuple[float, float]] | None) -> tuple[np.ndarray, np.ndarray]:
        kernel, x = self._resolved.kernel, self._resolved.x
        if kernel.categorical:
            raise OptionError(
                f"the search for the next point needs numeric inputs, and the kernel has {sorted(kernel.categorical)}",
                code="not-applicable",
            )
        given = dict(bounds or {})
        for name in given:
            if name not in kernel.columns:
                raise OptionError(
                    f"bounds need columns of the kernel, not '{name}'{hint(name, kernel.columns)}",
                    code="unknown-column",
                )
        limits = [given.get(c, (x[:, j].min(), x[:, j].max())) for j, c in enumerate(kernel.columns)]
        return np.array([low for low, _ in limits]), np.array([high for _, high in limits])

    def informative_rows(self, probability: float = 0.95, share: float = 0.5) -> np.ndarray:
        """Positions of a subset of rows that predicts the others: a smaller training set.

        Rows are dropped one by one: of the rows inside their leave-one-out interval, the one best predicted; see
        :func:`bayeslab.latents.gaussian_process.active_learning.informative_rows`. Hyperparameters are at their
        posterior medians.

        Raises
        ------
        OptionError
            The outcome is not normal.
        """
        resolved = self._resolved
        if not resolved.gaussian:
            raise OptionError(
                f"dropping rows needs a normal outcome, not likelihood {resolved.spec.likelihood}",
                code="not-applicable",
            )
        assert resolved.y is not None
        values = {name: np.median(each, axis=0) for name, each in posterior_values(self.fit).items()}
        noise = (
            resolved.known
            + resolved.noise_sd(values) ** 2
            + predictions._white(resolved, resolved.theta(values), resolved.x)
        )
        signal = resolved.kernel.free_of_noise() or resolved.kernel
        covariance = signal.matrix(resolved.theta(values), resolved.x) + np.diag(noise)
        residuals = resolved.y - resolved.design @ resolved.coefficients(values)
        kept = informative_rows(covariance, residuals, noise, probability, share)
        return resolved.kept[kept]

    def plot(self, what: str = "function", *, column: str | None = None, ci_prob: float = 0.89) -> Any:
        """Plot the ``function`` over one column with the data, its ``components``, or ``leave_one_out``.

        Parameters
        ----------
        what : {"function", "components", "leave_one_out"}
        column : str, optional
            The column that varies; default: the kernel's first numeric column. Others are at their medians.
        ci_prob : float
            Probability of the band.
        """

        if what not in PICTURES:
            raise OptionError(f"unknown picture '{what}'{hint(what, PICTURES)}", code="unknown-word")
        resolved = self._resolved
        if what == "leave_one_out":
            table = self.leave_one_out()
            return plots.leave_one_out(
                table["mean"].to_numpy(), table["sd"].to_numpy(), table[resolved.target].to_numpy()
            )
        numeric = [c for c in resolved.kernel.columns if c not in resolved.kernel.categorical]
        name = column or next(iter(numeric), "")
        if name not in numeric:
            raise OptionError(
                f"'{name}' is not a column of numbers in the kernel{hint(name, numeric)}", code="unknown-column"
            )
        frame = self._along(name)
        tables = self._tables(frame, ci_prob)
        percent = f"{100 * ci_prob:g}"
        bands = {
            part: (table["mean"], table[f"eti{percent}_lb"], table[f"eti{percent}_ub"])
            for part, table in tables.items()
        }
        grid = frame[name].to_numpy()
        if what == "components":
            return plots.components(grid, {part: b for part, b in bands.items() if np.ptp(b[0]) > 0.0}, name, ci_prob)
        return plots.function(grid, self._of_outcome(frame, bands["function"]), *self._points(name), ci_prob)

    def _of_outcome(self, frame: pd.DataFrame, band: Band) -> Band:
        """The band of the function transformed to the outcome's mean: probabilities, or counts per trial."""
        resolved = self._resolved
        if resolved.link == "identity":
            return band
        new = _posterior(self.fit).on(bound_to(self.fit, frame)).resolved
        low, high = (inverse_link(resolved.link, end) for end in band[1:])
        return predictions.expected(resolved, new, posterior_values(self.fit)), low, high

    def _points(self, name: str) -> tuple[tuple[np.ndarray, np.ndarray], str, str]:
        """The data over one column, with the names of both axes."""
        resolved = self._resolved
        assert resolved.y is not None
        label, y = resolved.target, resolved.y
        match resolved.spec.likelihood:
            case "bernoulli":
                label = f"P({resolved.target}={resolved.levels[1] if resolved.levels else 1})"
            case "binomial" if resolved.trials is not None:
                label, y = f"share of {resolved.target}", y / resolved.trials
        return (resolved.x[:, resolved.kernel.columns.index(name)], y), name, label

    def _along(self, name: str) -> pd.DataFrame:
        """Rows in which one column varies and the others are at their medians."""
        import pandas as pd

        resolved, data = self._resolved, self.fit.data.dataset
        values = resolved.x[:, resolved.kernel.columns.index(name)]
        margin = 0.05 * float(np.ptp(values))
        grid = np.linspace(values.min() - margin, values.max() + margin, 400)
        table = {}
        for other, column in data.columns.items():
            if column.dims == (resolved.rows,) and other != resolved.target:
                middle = column.values[0] if column.text else np.nanmedian(np.asarray(column.values, float))
                table[other] = np.repeat(middle, len(grid))
        table[name] = grid
        return pd.DataFrame(table)

    def _tables(self, frame: pd.DataFrame, ci_prob: float) -> dict[str, dict[str, np.ndarray]]:
        """The function and its terms at these rows."""
        components = predict(self.fit, frame, kind="components", ci_prob=ci_prob)
        return {
            str(part): {c: rows[c].to_numpy() for c in rows.columns if c not in ("component", self._resolved.rows)}
            for part, rows in components.groupby("component", sort=False)
        }


def _variance(processes: tuple[Any, ...], z: np.ndarray) -> np.ndarray:
    """The variance of the function at points, averaged over the draws.

    The variance of the means between draws is not included.
    """
    return np.mean([process.predict(z)[1] for process in processes], axis=0)


def _measured(process: GaussianProcess, point: np.ndarray, noise: float) -> GaussianProcess:
    """The process with one more row, whose outcome is its predictive mean."""
    expected = process.predict(point[None])[0]
    return GaussianProcess(
        process.kernel,
        process.theta,
        np.vstack([process.x, point]),
        np.concatenate([process.residuals, expected]),
        np.append(process.noise, noise),
        nugget=process.nugget,
    )
