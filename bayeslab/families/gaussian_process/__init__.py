"""Family ``gaussian_process``: a function of some columns, with a covariance instead of a formula.

``kernel`` says how alike the function's values at two rows are (:mod:`bayeslab.exact.covariance`), ``mean`` what it
varies about. With likelihood gaussian the function is integrated out: hyperparameters have a log marginal likelihood,
which with its gradient is one node of the graph and costs one Cholesky factor
(:mod:`bayeslab.exact.gaussian_process`). With other likelihoods the function at the rows is part of what is inferred,
as standard normals times the factor.

``Intercept``, ``b[predictor]``
    Coefficients of the mean. Beside predictors the intercept with a default prior is ``Intercept_centred``, that of
    centred predictors, and ``Intercept`` is computed from it.
``sigma`` (or ``sigma2``, ``precision``), ``nu``, ``alpha``
    What the likelihood needs besides.
Names of hyperparameters
    As the kernel has them: ``Matern52_lengthscale``, or the names written in it.

A prior that is a number fixes a parameter; where all are fixed the answer is exact.

References
----------
.. [1] Rasmussen, Williams (2006). Gaussian Processes for Machine Learning. MIT Press.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data
from bayeslab.data.dataset import Dataset
from bayeslab.errors import DataError, EngineRefusal, ModelError, hint
from bayeslab.exact.answer import Plan, PointEstimate
from bayeslab.exact.covariance import Kernel
from bayeslab.exact.gaussian_process import threads
from bayeslab.families.gaussian_process import approximations, posterior_mode, pymc_graph
from bayeslab.families.gaussian_process.approximations import INDUCING, regression_of
from bayeslab.families.gaussian_process.model import (
    Resolved,
    columns_read,
    kernel_of,
    mean_formula,
    resolved,
    target_of,
)
from bayeslab.families.gaussian_process.spec import GaussianProcess
from bayeslab.language.spec import Model
from bayeslab.memory import require_memory

if TYPE_CHECKING:
    import pymc

__all__ = ["GaussianProcess", "Spec", "check", "exact", "factors", "graph", "network", "outcomes", "summed_out"]

Spec = GaussianProcess


def _spec(model: Model) -> GaussianProcess:
    assert isinstance(model.model, GaussianProcess)
    return model.model


# --------------------------------------------------------------------------------- the contract


def check(model: Model, columns: set[str] | None) -> None:
    """The kernel and the mean can be read, and the data have their columns."""
    spec = _spec(model)
    _approximable(spec, kernel_of(spec))
    mean_formula(spec, "y")
    if not columns:
        return
    target = target_of(spec, columns)
    if target in columns_read(spec):
        raise ModelError(
            f"the outcome '{target}' is among its own inputs", path=("model", "target"), code="self-reference"
        )
    kernel_of(spec, columns - {target})
    formula = mean_formula(spec, target)
    wanted: dict[str, set[str]] = {"mean": formula.predictor_columns() if formula else set()}
    wanted["errors"] = {spec.errors} if spec.errors else set()
    wanted["trials"] = {spec.trials} if isinstance(spec.trials, str) else set()
    for key, names in wanted.items():
        for name in sorted(names):
            if name not in columns:
                raise ModelError(
                    f"the data have no column '{name}'{hint(name, columns)}", path=("model", key), code="unknown-column"
                )


def _approximable(spec: GaussianProcess, kernel: Kernel) -> None:
    """The model can have the approximation it names."""
    if spec.approximation is None:
        return

    reason = approximations.reason_against(spec, kernel)
    if reason is not None:
        raise ModelError(reason, path=("model", "approximation"), code="unsupported")
    for name in spec.domain or {}:
        if name not in kernel.columns:
            raise ModelError(
                f"the kernel has no column '{name}'{hint(name, kernel.columns)}",
                path=("model", "domain", name),
                code="unknown-column",
            )


def factors(model: Model) -> set[str]:
    """Columns of categories."""
    return set(kernel_of(_spec(model)).categorical) | set(model.dims)


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The outcome."""
    return (target_of(_spec(model), columns),)


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing discrete."""
    return ()


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing depends on discrete latents."""
    return ()


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """The Gaussian process as a PyMC model.

    To fit: its hyperparameters, and one node with the log marginal likelihood, or for other than normal outcomes with
    the log likelihood of the function. To simulate: a node ``f`` for the function at the rows and one for the outcome.
    """
    seen = resolved(model, data)
    if purpose != "fit":
        return pymc_graph.written_out(model, seen)
    _there(seen, data)
    _affordable(seen)
    if seen.spec.approximation is not None:
        return pymc_graph.with_approximation(model, seen)
    _distinguishable(seen)
    if seen.gaussian:
        return pymc_graph.with_evidence(model, seen)
    return pymc_graph.with_function(model, seen)


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


def exact(model: Model, data: Data) -> Plan | str:
    """In closed form where every hyperparameter is fixed and the outcome normal."""
    from bayeslab.families.gaussian_process import exact_inference

    seen = resolved(model, data)
    _there(seen, data)
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


def optimum(
    model: Model, data: Data, with_priors: bool, restarts: int, rng: np.random.Generator
) -> PointEstimate | None:
    """The hyperparameters at the maximum of their marginal posterior or likelihood, of normal outcomes."""
    seen = resolved(model, data)
    with threads(seen.n):
        return posterior_mode.optimum(seen, with_priors, restarts, rng)


def maximum_likelihood(model: Model, data: Data) -> tuple[float, int]:
    """The highest marginal likelihood of what is inferred, and how many numbers that is; NaN where it is not found."""
    from bayeslab.families.gaussian_process import posterior_mode, predictions

    seen = resolved(model, data)
    n_free = sum(math.prod(len(seen.labels[dim]) for dim in dims) for dims in seen.dims.values())
    if not seen.gaussian and seen.spec.approximation != "laplace":
        return math.nan, n_free
    with threads(seen.n):
        if not seen.dims:
            return float(predictions.function_at(seen, {}).log_evidence), 0
        found = posterior_mode.optimum(seen, False, _SEARCHES, np.random.default_rng(0))
    return (math.nan if found is None or not found.converged else float(found.log_density)), n_free


# From so many starts.
_SEARCHES = 4


def no_mode(model: Model, data: Data) -> str | None:
    """The function and its hyperparameters have no useful mode together: it grows or vanishes with the scale."""
    seen = resolved(model, data)
    if seen.spec.likelihood == "gaussian" or seen.spec.approximation == "laplace":
        return None
    return (
        f"of {seen.spec.likelihood} outcomes it would be the mode of the function and its hyperparameters together,"
        f" where the scale is far off; write approximation: laplace, which integrates the function out, or take"
        f" method nuts"
    )


def from_mode(model: Model, data: Data) -> bool:
    """Where the function is integrated out hyperparameters are all there is, few and each evaluation dear."""
    spec = _spec(model)
    return spec.likelihood == "gaussian" or spec.approximation == "laplace"


def preferred(model: Model, data: Data) -> tuple[str, str] | None:
    """The mode of the hyperparameters, where sampling them would take hours."""
    seen = resolved(model, data)
    if seen.y is None or not seen.dims or not isinstance(exact(model, data), str) or no_mode(model, data):
        return None
    if (seen.spec.approximation is None and seen.n <= _MANY) or _seconds(seen) * _EVALUATIONS < _PATIENCE:
        return None
    return "map", (
        f"the mode of the hyperparameters: with {seen.n:,} rows an evaluation of the density takes about"
        f" {_shown(_seconds(seen))}, and NUTS takes some {_EVALUATIONS:,}"
    )


def forecast(model: Model, data: Data) -> dict[str, str]:
    """What an evaluation costs."""
    seen = resolved(model, data)
    if seen.spec.approximation is not None:
        lines = [] if seen.y is None else regression_of(seen).remarks()
        shown = {"approximation": "; ".join([seen.spec.approximation, *lines])}
        return shown | {"an evaluation": f"about {_shown(_seconds(seen))}"}
    return {
        "covariance": f"{seen.n:,} × {seen.n:,}, {8 * seen.n**2 / 1e9:.2g} GB",
        "an evaluation": f"about {_shown(_seconds(seen))}",
        "nuts": f"about {_shown(_seconds(seen) * _EVALUATIONS)} of one core",
    }


# Rows from which NUTS on the hyperparameters is a matter of hours, and what it takes: 4 chains of 2,000 draws with
# some seven steps each.
_MANY, _EVALUATIONS = 1_500, 50_000
_PATIENCE = 1_800.0
# The largest covariance that is made, in rows: with its inverse it fills 6.4 GB.
_MOST = 20_000


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


_INSTEAD = (
    "approximation: sparse (inducing points), hsgp (basis functions), or state_space (kernels of one column; exact for"
    " Matérn)"
)


def predictive(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Outcomes at the rows, one for each draw; the function is drawn jointly at up to 1,000 rows.

    Each draw of the hyperparameters needs a factor of the covariance. Where that would take too long, fewer of them
    (at least 100) serve several predictive draws each.
    """
    from bayeslab.families.gaussian_process import predictions

    seen, new = _fitted(model, data)
    with threads(seen.n):
        return predictions.replications(seen, new, draws, rng)


def tables(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], kind: str, ci_prob: float
) -> dict[str, dict[str, np.ndarray]] | None:
    """Predictions without sampling error: of the outcome (``mean``), or of the function's parts (``components``)."""
    from bayeslab.families.gaussian_process import predictions

    seen, new = _fitted(model, data)
    with threads(seen.n):
        if kind == "components":
            return predictions.component_table(seen, new, draws, ci_prob)
        found = predictions.moments(seen, new, draws, ci_prob)
    return None if found is None else {"": found}


def probabilities(model: Model, seen: Data, new: Data, draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
    """Of both values of a 0/1 outcome, without sampling error of the outcome."""
    from bayeslab.families.gaussian_process import predictions

    if _spec(model).likelihood != "bernoulli":
        return None
    fitted, rows = resolved(model, seen), resolved(model, new)
    with threads(fitted.n):
        p = predictions.expected(fitted, rows, draws)
    names = fitted.levels or ("0", "1")
    shown = {f"P({fitted.target}={name})": each for name, each in zip(names, (1.0 - p, p), strict=True)}
    return {rows.rows: rows.row_labels} | shown


def log_likelihoods(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Log density of each row: given all others where the function is integrated out."""
    from bayeslab.families.gaussian_process import predictions

    seen = resolved(model, data)
    with threads(seen.n):
        return {"row": ((seen.rows,), predictions.row_log_likelihoods(seen, draws))}


def judged(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> tuple[tuple[str, str, float | None, str, str], ...]:
    """Covariances that needed jitter or nearly so, terms that vanish at a mode, approximations that are too coarse."""
    from bayeslab.families.gaussian_process import against_all_rows, predictions

    seen = resolved(model, data)
    with threads(seen.n):
        found = predictions.findings(seen, draws)
        told = any(check == "functions" for check, *_ in found)
        coarse = seen.spec.approximation in ("sparse", "fitc", "hsgp") and not told
        return (*found, *against_all_rows.differences(seen, draws)) if coarse else found


def helps(model: Model, data: Data) -> str | None:
    """What to do where the function's values are hard to sample."""
    spec = _spec(model)
    if spec.likelihood == "gaussian" or spec.approximation == "laplace":
        return None
    return "or integrate the function out, approximation: laplace with method map"


def _fitted(model: Model, data: Data) -> tuple[Resolved, Resolved]:
    """The model on the data of the fit, and on the data to predict."""
    new = resolved(model, data)
    return (new if data.origin is None else resolved(model, data.origin)), new


def bound(model: Model, data: Data) -> Data:
    """The data without the rows that have no outcome."""
    seen = resolved(model, data)
    if data.origin is not None or len(seen.kept) == len(data.labels[seen.rows]):
        return data
    if "kept" not in data.memo:
        columns = {
            name: replace(c, values=c.values[seen.kept], missing=None if c.missing is None else c.missing[seen.kept])
            if c.dims == (seen.rows,)
            else c
            for name, c in data.dataset.columns.items()
        }
        kept = Dataset(columns, seen.rows, {**data.dataset.levels, seen.rows: seen.row_labels})
        data.memo["kept"] = bind(model, kept, factors(model), data.memory())
    out: Data = data.memo["kept"]
    return out


def priors(model: Model, data: Data) -> dict[str, str]:
    """The prior of each parameter; those the file does not give are on the scale of the data."""
    seen = resolved(model, data)
    return dict(seen.nodes) | {name: f"{value:g} (fixed)" for name, value in seen.fixed.items()}


def chosen(model: Model, data: Data) -> tuple[str, dict[str, Any], dict[str, np.ndarray]] | None:
    """What the approximation is, and how far off it may be."""
    seen = resolved(model, data)
    if seen.spec.approximation is None or seen.y is None:
        return None
    lines = regression_of(seen).remarks()
    return (f"approximation: {seen.spec.approximation}" + "".join(f"; {line}" for line in lines), {}, {})


def remarks(model: Model, data: Data) -> tuple[tuple[str, str, float | None, str, str], ...]:
    """Rows without an outcome."""
    return resolved(model, data).remarks


def network(model: Model, data: Data) -> nx.DiGraph:
    """Hyperparameters, the function, and the outcome."""
    seen = resolved(model, data)
    out = nx.DiGraph(dims={seen.rows: seen.n} | {dim: len(labels) for dim, labels in seen.labels.items()})
    for name, text in seen.nodes.items():
        bare = name.partition("[")[0]
        out.add_node(bare, kind="random", text=text, dims=seen.dims[bare])
    out.add_node("f", kind="random", inner=True, text=f"GP({seen.kernel.text})", dims=(seen.rows,))
    for name in dict.fromkeys((*seen.kernel.columns, *columns_read(_spec(model)))):
        out.add_node(name, kind="data", dims=(seen.rows,))
        out.add_edge(name, "f")
    kind = "observed" if data.has(seen.target) else "random"
    out.add_node(seen.target, kind=kind, text=_spec(model).likelihood, dims=(seen.rows,))
    out.add_edge("f", seen.target)
    own = set(seen.kernel.names) | {seen.level, "b"}
    for name in seen.dims:
        out.add_edge(name, "f" if name in own else seen.target)
    return out
