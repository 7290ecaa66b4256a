"""A Gaussian process on its data, as engines and results see it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Dataset
from bayeslab.errors import DataError, EngineRefusal, ModelError, hint
from bayeslab.exact.answer import Plan, PointEstimate
from bayeslab.exact.gaussian_process import threads
from bayeslab.families.gaussian_process import approximations, posterior_mode, pymc_graph
from bayeslab.families.gaussian_process.approximations import INDUCING, regression_of
from bayeslab.families.gaussian_process.model import (
    Resolved,
    resolved,
)
from bayeslab.families.gaussian_process.spec import GaussianProcess, columns_read
from bayeslab.memory import require_memory
from bayeslab.posterior.contract import DataFinding, Draws, Named, Posterior, Purpose

if TYPE_CHECKING:
    import pymc

__all__ = ["GaussianProcessPosterior"]

# From so many starts.
_SEARCHES = 4
# Rows from which NUTS on the hyperparameters is a matter of hours, and what it takes: 4 chains of 2,000 draws with
# some seven steps each.
_MANY, _EVALUATIONS = 1_500, 50_000
_PATIENCE = 1_800.0
# The largest covariance that is made, in rows: with its inverse it fills 6.4 GB.
_MOST = 20_000
_INSTEAD = (
    "approximation: sparse (inducing points), hsgp (basis functions), or state_space (kernels of one column; exact for"
    " Matérn)"
)


class GaussianProcessPosterior(Posterior):
    """A Gaussian process on its data."""

    view = "function"
    on_arrays = True

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """Probabilities of an outcome that is words."""
        return "probabilities" if self.spec.target in self.data.labels else "mean"

    @property
    def spec(self) -> GaussianProcess:
        assert isinstance(self.model.model, GaussianProcess)
        return self.model.model

    @cached_property
    def resolved(self) -> Resolved:
        """The model on its data."""
        return resolved(self.model, self.data, None if self.origin is None else self.origin.resolved)

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """The Gaussian process as a PyMC model.

        To fit: its hyperparameters, and one node with the log marginal likelihood, or for other than normal outcomes
        with the log likelihood of the function. To simulate: a node ``f`` for the function at the rows and one for the
        outcome.
        """
        seen = self.resolved
        if purpose != "fit":
            return pymc_graph.written_out(self.model, seen)
        _there(seen, self.data)
        _affordable(seen)
        if seen.spec.approximation is not None:
            return pymc_graph.with_approximation(self.model, seen)
        _distinguishable(seen)
        if seen.gaussian:
            return pymc_graph.with_evidence(self.model, seen)
        return pymc_graph.with_function(self.model, seen)

    @cached_property
    def exact_plan(self) -> Plan | str:
        """In closed form where every hyperparameter is fixed and the outcome normal."""
        from bayeslab.families.gaussian_process import exact_inference

        seen = self.resolved
        _there(seen, self.data)
        _affordable(seen)
        if seen.spec.approximation is not None and seen.gaussian and not seen.dims:
            raise ModelError(
                f"every hyperparameter is a number, and approximation: {seen.spec.approximation} is for hyperparameters"
                " that are inferred: leave it out (the answer is exact), or give one of them a prior",
                code="nothing-to-fit",
            )
        if seen.spec.approximation is not None:
            return f"approximation: {seen.spec.approximation} is for hyperparameters that are inferred"
        _distinguishable(seen)
        return exact_inference.exact(seen)

    def optimum(self, with_priors: bool, restarts: int, rng: np.random.Generator) -> PointEstimate | None:
        """The hyperparameters at the maximum of their marginal posterior or likelihood, of normal outcomes."""
        seen = self.resolved
        with threads(seen.n):
            return posterior_mode.optimum(seen, with_priors, restarts, rng)

    def maximum_likelihood(self) -> tuple[float, int]:
        """The highest marginal likelihood of what is inferred, how many numbers that is; NaN where it is not found."""
        from bayeslab.families.gaussian_process import posterior_mode, predictions

        seen = self.resolved
        n_free = sum(math.prod(len(seen.labels[dim]) for dim in dims) for dims in seen.dims.values())
        if not seen.gaussian and seen.spec.approximation != "laplace":
            return math.nan, n_free
        with threads(seen.n):
            if not seen.dims:
                return float(predictions.function_at(seen, {}).log_evidence), 0
            found = posterior_mode.optimum(seen, False, _SEARCHES, np.random.default_rng(0))
        return (math.nan if found is None or not found.converged else float(found.log_density)), n_free

    def no_mode(self) -> str | None:
        """The function and its hyperparameters have no useful mode together: it grows or vanishes with the scale."""
        seen = self.resolved
        if seen.spec.likelihood == "gaussian" or seen.spec.approximation == "laplace":
            return None
        return (
            f"of {seen.spec.likelihood} outcomes it would be the mode of the function and its hyperparameters together,"
            f" where the scale is far off; write approximation: laplace, which integrates the function out, or take"
            f" method nuts"
        )

    def starts_at_mode(self) -> bool:
        """Where the function is integrated out hyperparameters are all there is, few and each evaluation dear."""
        spec = self.spec
        return spec.likelihood == "gaussian" or spec.approximation == "laplace"

    def preferred_engine(self) -> tuple[str, str] | None:
        """The mode of the hyperparameters, where sampling them would take hours."""
        seen = self.resolved
        if seen.y is None or not seen.dims or not isinstance(self.exact_plan, str) or self.no_mode():
            return None
        if (seen.spec.approximation is None and seen.n <= _MANY) or _seconds(seen) * _EVALUATIONS < _PATIENCE:
            return None
        return "map", (
            f"the mode of the hyperparameters: with {seen.n:,} rows an evaluation of the density takes about"
            f" {_shown(_seconds(seen))}, and NUTS takes some {_EVALUATIONS:,}"
        )

    def forecast(self) -> dict[str, str]:
        """What an evaluation costs."""
        seen = self.resolved
        if seen.spec.approximation is not None:
            lines = [] if seen.y is None else regression_of(seen).remarks()
            shown = {"approximation": "; ".join([seen.spec.approximation, *lines])}
            return shown | {"an evaluation": f"about {_shown(_seconds(seen))}"}
        return {
            "covariance": f"{seen.n:,} × {seen.n:,}, {8 * seen.n**2 / 1e9:.2g} GB",
            "an evaluation": f"about {_shown(_seconds(seen))}",
            "nuts": f"about {_shown(_seconds(seen) * _EVALUATIONS)} of one core",
        }

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Outcomes at the rows, one for each draw; the function is drawn jointly at up to 1,000 rows.

        Each draw of the hyperparameters needs a factor of the covariance. Where that would take too long, fewer of them
        (at least 100) serve several predictive draws each.
        """
        from bayeslab.families.gaussian_process import predictions

        seen, new = self._with_fitted()
        with threads(seen.n):
            return predictions.replications(seen, new, draws, rng)

    def exact_predictions(
        self, draws: Draws, kind: Literal["mean", "components"], ci_prob: float
    ) -> dict[str, dict[str, np.ndarray]] | None:
        """Predictions without sampling error: of the outcome, or of the function's parts (``components``)."""
        from bayeslab.families.gaussian_process import predictions

        seen, new = self._with_fitted()
        with threads(seen.n):
            if kind == "components":
                return predictions.component_table(seen, new, draws, ci_prob)
            found = predictions.moments(seen, new, draws, ci_prob)
        return None if found is None else {"": found}

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray] | None:
        """Of both values of a 0/1 outcome, without sampling error of the outcome."""
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
        """Log density of each row: given all others where the function is integrated out."""
        from bayeslab.families.gaussian_process import predictions

        seen = self.resolved
        with threads(seen.n):
            return {"row": ((seen.rows,), predictions.row_log_likelihoods(seen, draws))}

    def posterior_findings(self, draws: Draws) -> tuple[DataFinding, ...]:
        """Covariances that need jitter or nearly so, terms that vanish at a mode, approximations too coarse."""
        from bayeslab.families.gaussian_process import against_all_rows, predictions

        seen = self.resolved
        with threads(seen.n):
            found = predictions.findings(seen, draws)
            told = any(check == "functions" for check, *_ in found)
            coarse = seen.spec.approximation in ("sparse", "fitc", "hsgp") and not told
            return (*found, *against_all_rows.differences(seen, draws)) if coarse else found

    def advice(self) -> str | None:
        """What to do where the function's values are hard to sample."""
        spec = self.spec
        if spec.likelihood == "gaussian" or spec.approximation == "laplace":
            return None
        return "or integrate the function out, approximation: laplace with method map"

    def _with_fitted(self) -> tuple[Resolved, Resolved]:
        """The model on the data of the fit, and on the data to predict."""
        new = self.resolved
        return (new if self.origin is None else self.origin.resolved), new

    def bound_data(self) -> Data:
        """The data without the rows that have no outcome."""
        seen = self.resolved
        if self.data.origin is not None or len(seen.kept) == len(self.data.labels[seen.rows]):
            return self.data
        return self._kept

    @cached_property
    def _kept(self) -> Data:
        """The data less the rows that have no outcome."""
        seen = self.resolved
        columns = {
            name: replace(c, values=c.values[seen.kept], missing=None if c.missing is None else c.missing[seen.kept])
            if c.dims == (seen.rows,)
            else c
            for name, c in self.data.dataset.columns.items()
        }
        kept = Dataset(columns, seen.rows, {**self.data.dataset.levels, seen.rows: seen.row_labels})
        return bind(self.model, kept, self.model.factors(), self.data.memory())

    def priors(self) -> dict[str, str]:
        """The prior of each parameter; those the file does not give are on the scale of the data."""
        seen = self.resolved
        return dict(seen.nodes) | {name: f"{value:g} (fixed)" for name, value in seen.fixed.items()}

    def model_choice(self) -> tuple[str, dict[str, Any], dict[str, np.ndarray]] | None:
        """What the approximation is, and how far off it may be."""
        seen = self.resolved
        if seen.spec.approximation is None or seen.y is None:
            return None
        lines = regression_of(seen).remarks()
        return (f"approximation: {seen.spec.approximation}" + "".join(f"; {line}" for line in lines), {}, {})

    def data_findings(self) -> tuple[DataFinding, ...]:
        """Rows without an outcome."""
        return self.resolved.remarks

    def network(self) -> nx.DiGraph:
        """Hyperparameters, the function, and the outcome."""
        seen = self.resolved
        out = nx.DiGraph(dims={seen.rows: seen.n} | {dim: len(labels) for dim, labels in seen.labels.items()})
        for name, text in seen.nodes.items():
            bare = name.partition("[")[0]
            out.add_node(bare, kind="random", text=text, dims=seen.dims[bare])
        out.add_node("f", kind="random", inner=True, text=f"GP({seen.kernel.text})", dims=(seen.rows,))
        for name in dict.fromkeys((*seen.kernel.columns, *columns_read(self.spec))):
            out.add_node(name, kind="data", dims=(seen.rows,))
            out.add_edge(name, "f")
        kind = "observed" if self.data.has(seen.target) else "random"
        out.add_node(seen.target, kind=kind, text=self.spec.likelihood, dims=(seen.rows,))
        out.add_edge("f", seen.target)
        own = set(seen.kernel.names) | {seen.level, "b"}
        for name in seen.dims:
            out.add_edge(name, "f" if name in own else seen.target)
        return out


def _there(seen: Resolved, data: Data) -> None:
    if seen.y is None:
        raise DataError(
            f"the data have no column '{seen.target}', the outcome{hint(seen.target, data.names())}",
            code="unknown-column",
        )


def _distinguishable(seen: Resolved) -> None:
    """Rows with the same inputs and no noise have a covariance without a factor."""
    noiseless = seen.gaussian and seen.fixed.get("sigma", seen.fixed.get("sigma2")) == 0 and not seen.known.all()
    if not noiseless or any(leaf.word == "White" for leaf in seen.kernel.root.leaves()):
        return
    distinct, place = seen.distinct
    if len(distinct) < seen.n:
        first = int(np.flatnonzero(np.bincount(place) > 1)[0])
        rows = np.flatnonzero(place == first)[:2] + 1
        raise DataError(
            f"rows {rows[0]} and {rows[1]} have the same inputs, and without noise they can have one outcome only: give"
            " sigma a prior, or leave out doubled rows",
            path=("model", "priors", "sigma" if "sigma" in seen.fixed else "sigma2"),
            code="contradiction",
        )


def _seconds(seen: Resolved) -> float:
    """Of one evaluation of density and gradient, at 15 billion operations a second."""
    if seen.spec.approximation is not None:
        return approximations.operations(seen) / 15e9
    n = seen.n if seen.gaussian else len(seen.distinct[0])
    return (n**3 if seen.gaussian else 2.4 * n**3) / 15e9 + 1e-8 * n**2 * len(list(seen.kernel.root.leaves()))


def _shown(seconds: float) -> str:
    for unit, size in (("hours", 3600.0), ("minutes", 60.0), ("s", 1.0)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{1000 * seconds:.0f} ms" if seconds < 0.5 else f"{seconds:.1f} s"


def _affordable(seen: Resolved) -> None:
    """A covariance too large for this machine is refused, with what there is instead."""
    if seen.spec.approximation in ("sparse", "fitc"):
        points = min(seen.spec.inducing or INDUCING, seen.n)
        require_memory(
            8 * seen.n * points,
            f"the covariance of {points:,} inducing points with {seen.n:,} rows",
            "give fewer",
            kind=EngineRefusal,
            path=("model", "inducing"),
        )
    if seen.n <= _MOST or seen.spec.approximation not in (None, "laplace"):
        return
    raise EngineRefusal(
        f"an exact Gaussian process of {seen.n:,} rows needs {8 * seen.n**2 / 1e9:,.0f} GB for its covariance and about"
        f" {_shown(_seconds(seen))} for each evaluation; at most {_MOST:,} rows are taken. Approximate it: {_INSTEAD}",
        code="too-costly",
    )
