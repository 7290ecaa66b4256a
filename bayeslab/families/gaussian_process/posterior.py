"""Posterior of a Gaussian process given its data: the interface for engines and results."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Dataset
from bayeslab.errors import DataError, EngineRefusal, ModelError, hint
from bayeslab.families.gaussian_process import approximations, density, posterior_mode, pymc_graph
from bayeslab.families.gaussian_process.approximations import INDUCING, regression_of
from bayeslab.families.gaussian_process.model import (
    Resolved,
    resolved,
)
from bayeslab.families.gaussian_process.spec import GaussianProcess, columns_read
from bayeslab.latents.gaussian_process.gaussian_process import threads
from bayeslab.memory import require_memory
from bayeslab.posterior.answer import Plan, PointEstimate
from bayeslab.posterior.contract import DataFinding, Draws, Named, Posterior, Purpose
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.model import MachineModel

if TYPE_CHECKING:
    import pymc

__all__ = ["GaussianProcessPosterior"]

# Number of starts of the search.
_SEARCHES = 4
# Limit of the time of NUTS on the hyperparameters, in seconds, and the evaluations it takes: 4 chains of 2,000 draws
# with about seven steps each.
_MANY, _EVALUATIONS = 1_500, 50_000
_PATIENCE = 1_800.0
# Largest number of rows of a covariance matrix: with its inverse it takes 6.4 GB.
_MOST = 20_000
_INSTEAD = (
    "approximation: sparse (inducing points), hsgp (basis functions), or state_space (kernels of one column; exact for"
    " Matérn)"
)


class GaussianProcessPosterior(Posterior):
    """Posterior of a Gaussian process given its data."""

    view = "function"
    on_arrays = True

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """``probabilities`` for an outcome of two words, otherwise ``mean``."""
        return "probabilities" if self.spec.target in self.data.labels else "mean"

    @property
    def spec(self) -> GaussianProcess:
        assert isinstance(self.model.model, GaussianProcess)
        return self.model.model

    @cached_property
    def resolved(self) -> Resolved:
        """The model resolved on its data."""
        return resolved(self.model, self.data, None if self.origin is None else self.origin.resolved)

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """The Gaussian process as a PyMC model.

        For fitting: its hyperparameters, and one node with the log marginal likelihood or, for non-normal outcomes,
        with the log likelihood of the function. For simulation: a node ``f`` for the function at the rows and one for
        the outcome.
        """
        resolved = self.resolved
        if purpose != "fit":
            return pymc_graph.written_out(self.model, resolved)
        _there(resolved, self.data)
        _affordable(resolved)
        if resolved.spec.approximation is None:
            _distinguishable(resolved)
        return pymc_graph.with_evidence(self.model, resolved)

    def machine_model(self, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
        if weights:
            raise NotLowered(next(iter(weights)), "weights of rows of a Gaussian process")
        resolved = self.resolved
        _there(resolved, self.data)
        _affordable(resolved)
        if resolved.spec.approximation is None:
            _distinguishable(resolved)
        return density.machine_model(self.model, resolved)

    @cached_property
    def exact_plan(self) -> Plan | str:
        """The closed form, if every hyperparameter is fixed and the outcome is normal."""
        from bayeslab.families.gaussian_process import exact_inference

        resolved = self.resolved
        _there(resolved, self.data)
        _affordable(resolved)
        if resolved.spec.approximation is not None and resolved.gaussian and not resolved.dims:
            raise ModelError(
                f"every hyperparameter is a number, and approximation: {resolved.spec.approximation} is for"
                " hyperparameters that are inferred: leave it out (the answer is exact), or give one of them a prior",
                code="nothing-to-fit",
            )
        if resolved.spec.approximation is not None:
            return f"approximation: {resolved.spec.approximation} is for hyperparameters that are inferred"
        _distinguishable(resolved)
        return exact_inference.exact(resolved)

    def optimum(self, with_priors: bool, restarts: int, rng: np.random.Generator) -> PointEstimate | None:
        """The hyperparameters that maximise their marginal posterior or likelihood, for normal outcomes."""
        resolved = self.resolved
        with threads(resolved.n):
            return posterior_mode.optimum(resolved, with_priors, restarts, rng)

    def maximum_likelihood(self) -> tuple[float, int]:
        """The maximum log marginal likelihood (NaN if the search fails) and the number of free parameters."""
        from bayeslab.families.gaussian_process import posterior_mode, predictions

        resolved = self.resolved
        n_free = sum(math.prod(len(resolved.labels[dim]) for dim in dims) for dims in resolved.dims.values())
        if not resolved.gaussian and resolved.spec.approximation != "laplace":
            return math.nan, n_free
        with threads(resolved.n):
            if not resolved.dims:
                return float(predictions.function_at(resolved, {}).log_evidence), 0
            optimum = posterior_mode.optimum(resolved, False, _SEARCHES, np.random.default_rng(0))
        return (math.nan if optimum is None or not optimum.converged else float(optimum.log_density)), n_free

    def no_mode(self) -> str | None:
        """The reason why a joint mode of function and hyperparameters is useless: it depends on the scale; None
        otherwise.
        """
        resolved = self.resolved
        if resolved.spec.likelihood == "gaussian" or resolved.spec.approximation == "laplace":
            return None
        return (
            f"of {resolved.spec.likelihood} outcomes it would be the mode of the function and its hyperparameters"
            " together, where the scale is far off; write approximation: laplace, which integrates the function out, or"
            " take method nuts"
        )

    def starts_at_mode(self) -> bool:
        """Whether chains start at the mode: if the function is integrated out, hyperparameters are few and costly."""
        spec = self.spec
        return spec.likelihood == "gaussian" or spec.approximation == "laplace"

    def preferred_engine(self) -> tuple[str, str] | None:
        """The mode of the hyperparameters, if sampling them would take hours."""
        resolved = self.resolved
        if resolved.y is None or not resolved.dims or not isinstance(self.exact_plan, str) or self.no_mode():
            return None
        if (resolved.spec.approximation is None and resolved.n <= _MANY) or _seconds(
            resolved
        ) * _EVALUATIONS < _PATIENCE:
            return None
        return "map", (
            f"the mode of the hyperparameters: with {resolved.n:,} rows an evaluation of the density takes about"
            f" {_shown(_seconds(resolved))}, and NUTS takes some {_EVALUATIONS:,}"
        )

    def forecast(self) -> dict[str, str]:
        """The cost of one evaluation."""
        resolved = self.resolved
        if resolved.spec.approximation is not None:
            lines = [] if resolved.y is None else regression_of(resolved).remarks()
            shown = {"approximation": "; ".join([resolved.spec.approximation, *lines])}
            return shown | {"an evaluation": f"about {_shown(_seconds(resolved))}"}
        return {
            "covariance": f"{resolved.n:,} × {resolved.n:,}, {8 * resolved.n**2 / 1e9:.2g} GB",
            "an evaluation": f"about {_shown(_seconds(resolved))}",
            "nuts": f"about {_shown(_seconds(resolved) * _EVALUATIONS)} of one core",
        }

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Posterior predictive draws of the outcomes, one for each draw; the function is drawn jointly at up to 1,000
        rows.

        Each draw of the hyperparameters needs a Cholesky factor. If that would take too long, fewer of them (at least
        100) are used, each for several predictive draws.
        """
        from bayeslab.families.gaussian_process import predictions

        resolved, new = self._with_fitted()
        with threads(resolved.n):
            return predictions.replications(resolved, new, draws, rng)

    def exact_predictions(
        self, draws: Draws, kind: Literal["mean", "components"], ci_prob: float
    ) -> dict[str, dict[str, np.ndarray]] | None:
        """Predictions without sampling error: of the outcome, or of the terms of the function (``components``)."""
        from bayeslab.families.gaussian_process import predictions

        resolved, new = self._with_fitted()
        with threads(resolved.n):
            if kind == "components":
                return predictions.component_table(resolved, new, draws, ci_prob)
            moments = predictions.moments(resolved, new, draws, ci_prob)
        return None if moments is None else {"": moments}

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray] | None:
        """Probabilities of both values of a 0/1 outcome, without sampling error of the outcome."""
        from bayeslab.families.gaussian_process import predictions

        if self.spec.likelihood != "bernoulli":
            return None
        fitted, rows = self.fitted.resolved, self.resolved
        with threads(fitted.n):
            p = predictions.expected(fitted, rows, draws)
        names = fitted.levels or ("0", "1")
        shown = {f"P({fitted.target}={name})": each for name, each in zip(names, (1.0 - p, p), strict=True)}
        return {rows.rows: rows.row_labels} | shown

    def log_likelihoods(self, draws: Draws) -> Named:
        """Log density of each row; given all other rows if the function is integrated out."""
        from bayeslab.families.gaussian_process import predictions

        resolved = self.resolved
        with threads(resolved.n):
            return {"row": ((resolved.rows,), predictions.row_log_likelihoods(resolved, draws))}

    def posterior_findings(self, draws: Draws) -> tuple[DataFinding, ...]:
        """Report covariances that need jitter, terms that vanish at a mode, and approximations that are too coarse."""
        from bayeslab.families.gaussian_process import against_all_rows, predictions

        resolved = self.resolved
        with threads(resolved.n):
            findings = predictions.findings(resolved, draws)
            reported = any(check == "functions" for check, *_ in findings)
            coarse = resolved.spec.approximation in ("sparse", "fitc", "hsgp") and not reported
            return (*findings, *against_all_rows.differences(resolved, draws)) if coarse else findings

    def advice(self) -> str | None:
        """Advice if the function's values are hard to sample."""
        spec = self.spec
        if spec.likelihood == "gaussian" or spec.approximation == "laplace":
            return None
        return "or integrate the function out, approximation: laplace with method map"

    def _with_fitted(self) -> tuple[Resolved, Resolved]:
        """The model resolved on the data of the fit, and on the data to predict."""
        new = self.resolved
        return (new if self.origin is None else self.origin.resolved), new

    def bound_data(self) -> Data:
        """The data without the rows that have no outcome."""
        resolved = self.resolved
        if self.data.origin is not None or len(resolved.kept) == len(self.data.labels[resolved.rows]):
            return self.data
        return self._kept

    @cached_property
    def _kept(self) -> Data:
        """The data without the rows that have no outcome."""
        resolved = self.resolved
        columns = {
            name: replace(
                c, values=c.values[resolved.kept], missing=None if c.missing is None else c.missing[resolved.kept]
            )
            if c.dims == (resolved.rows,)
            else c
            for name, c in self.data.dataset.columns.items()
        }
        kept = Dataset(columns, resolved.rows, {**self.data.dataset.levels, resolved.rows: resolved.row_labels})
        return bind(self.model, kept, self.model.factors(), self.data.memory())

    def priors(self) -> dict[str, str]:
        """The prior of each parameter; defaults are on the scale of the data."""
        resolved = self.resolved
        return dict(resolved.nodes) | {name: f"{value:g} (fixed)" for name, value in resolved.fixed.items()}

    def model_choice(self) -> tuple[str, dict[str, Any], dict[str, np.ndarray]] | None:
        """Description of the approximation and of its error."""
        resolved = self.resolved
        if resolved.spec.approximation is None or resolved.y is None:
            return None
        lines = regression_of(resolved).remarks()
        return (f"approximation: {resolved.spec.approximation}" + "".join(f"; {line}" for line in lines), {}, {})

    def data_findings(self) -> tuple[DataFinding, ...]:
        """Report rows without an outcome."""
        return self.resolved.remarks

    def network(self) -> nx.DiGraph:
        """The graph of hyperparameters, function and outcome."""
        resolved = self.resolved
        out = nx.DiGraph(
            dims={resolved.rows: resolved.n} | {dim: len(labels) for dim, labels in resolved.labels.items()}
        )
        for name, text in resolved.nodes.items():
            bare = name.partition("[")[0]
            out.add_node(bare, kind="random", text=text, dims=resolved.dims[bare])
        out.add_node("f", kind="random", inner=True, text=f"GP({resolved.kernel.text})", dims=(resolved.rows,))
        for name in dict.fromkeys((*resolved.kernel.columns, *columns_read(self.spec))):
            out.add_node(name, kind="data", dims=(resolved.rows,))
            out.add_edge(name, "f")
        kind = "observed" if self.data.has(resolved.target) else "random"
        out.add_node(resolved.target, kind=kind, text=self.spec.likelihood, dims=(resolved.rows,))
        out.add_edge("f", resolved.target)
        f_parents = set(resolved.kernel.names) | {resolved.level, "b"}
        for name in resolved.dims:
            out.add_edge(name, "f" if name in f_parents else resolved.target)
        return out


def _there(resolved: Resolved, data: Data) -> None:
    if resolved.y is None:
        raise DataError(
            f"the data have no column '{resolved.target}', the outcome{hint(resolved.target, data.names())}",
            code="unknown-column",
        )


def _distinguishable(resolved: Resolved) -> None:
    """Refuse rows with equal inputs and no noise: their covariance matrix is singular."""
    noiseless = (
        resolved.gaussian
        and resolved.fixed.get("sigma", resolved.fixed.get("sigma2")) == 0
        and not resolved.known.all()
    )
    if not noiseless or any(leaf.word == "White" for leaf in resolved.kernel.root.leaves()):
        return
    distinct, place = resolved.distinct
    if len(distinct) < resolved.n:
        first = int(np.flatnonzero(np.bincount(place) > 1)[0])
        rows = np.flatnonzero(place == first)[:2] + 1
        raise DataError(
            f"rows {rows[0]} and {rows[1]} have the same inputs, and without noise they can have one outcome only: give"
            " sigma a prior, or leave out doubled rows",
            path=("model", "priors", "sigma" if "sigma" in resolved.fixed else "sigma2"),
            code="contradiction",
        )


def _seconds(resolved: Resolved) -> float:
    """Seconds for one evaluation of density and gradient, at 15 billion operations a second."""
    if resolved.spec.approximation is not None:
        return approximations.operations(resolved) / 15e9
    n = resolved.n if resolved.gaussian else len(resolved.distinct[0])
    return (n**3 if resolved.gaussian else 2.4 * n**3) / 15e9 + 1e-8 * n**2 * len(list(resolved.kernel.root.leaves()))


def _shown(seconds: float) -> str:
    for unit, size in (("hours", 3600.0), ("minutes", 60.0), ("s", 1.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{1000 * seconds:.0f} ms" if seconds < 0.5 else f"{seconds:.1f} s"


def _affordable(resolved: Resolved) -> None:
    """Refuse a covariance matrix that is too large for this machine, and name the alternatives."""
    if resolved.spec.approximation in ("sparse", "fitc"):
        points = min(resolved.spec.inducing or INDUCING, resolved.n)
        require_memory(
            8 * resolved.n * points,
            f"the covariance of {points:,} inducing points with {resolved.n:,} rows",
            "give fewer",
            kind=EngineRefusal,
            path=("model", "inducing"),
        )
    if resolved.n <= _MOST or resolved.spec.approximation not in (None, "laplace"):
        return
    raise EngineRefusal(
        f"an exact Gaussian process of {resolved.n:,} rows needs {8 * resolved.n**2 / 1e9:,.0f} GB for its covariance"
        f" and about {_shown(_seconds(resolved))} for each evaluation; at most {_MOST:,} rows are taken. Approximate"
        f" it: {_INSTEAD}",
        code="too-costly",
    )
