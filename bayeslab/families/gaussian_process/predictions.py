"""Predictions of a fitted Gaussian process: new rows, additive terms, and each row given all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from bayeslab.errors import DataError, ModelError
from bayeslab.families.gaussian_process import approximations
from bayeslab.families.gaussian_process.approximations import prior_quantiles, regression_of
from bayeslab.families.gaussian_process.exact_inference import coefficient_prior, integrated
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.families.regression.likelihoods import LIKELIHOODS, inverse_link
from bayeslab.latents.gaussian_process.gaussian_process import GaussianProcess, LeaveOneOut, factor
from bayeslab.latents.gaussian_process.state_space import StateSpaceProcess

__all__ = [
    "component_table",
    "expected",
    "findings",
    "function_at",
    "leave_one_out",
    "moments",
    "replications",
    "row_log_likelihoods",
]

type Draws = Mapping[str, np.ndarray]
type Remark = tuple[str, str, float | None, str, str]

# Largest number of rows at which the function is drawn jointly; beyond, each row is drawn independently.
JOINT = 1_000
# Budget of multiplications for predictions; beyond, fewer draws of the hyperparameters are used, several times each.
_BUDGET = 1e12
_FEWEST = 100
# Draws at which Laplace's approximation is checked, and the largest number of rows for checking it by sampling.
_FEW_LOOKED_AT, _SAMPLED_ROWS = 3, 200
# Tolerated errors of Laplace's approximation: of means in standard deviations, and of standard deviations by a factor.
_OFF, _FACTOR = 0.25, 1.15


def values_at(resolved: Resolved, draws: Draws, i: int) -> dict[str, np.ndarray]:
    """Parameters of one draw, by name."""
    names = (*resolved.dims, "_z", "f")
    return {name: np.asarray(draws[name][i]) for name in names if name in draws}


def function_at(resolved: Resolved, values: Mapping[str, Any], last: dict[bytes, Any] | None = None) -> GaussianProcess:
    """The process at one draw: given the observations, or given the function at the rows.

    ``last`` caches the factor of the previous draw, for draws that differ in the coefficients of the mean only.
    """
    theta = resolved.theta(values)
    assert resolved.y is not None
    if resolved.spec.approximation is not None:
        return approximations.process_at(resolved, regression_of(resolved), values)
    if resolved.gaussian:
        residuals, x = resolved.y - resolved.design @ resolved.coefficients(values), resolved.x
        noise = resolved.known + resolved.noise_sd(values) ** 2
    else:
        x = resolved.distinct[0]
        residuals = noise = np.zeros(len(x))
    last = {} if last is None else last
    key = theta.tobytes() + noise.tobytes()
    if key not in last:
        last.clear()
        last[key] = factor(resolved.kernel, theta, x, noise, nugget=resolved.nugget)
    if not resolved.gaussian:
        residuals = last[key][0] @ values["_z"]
    return GaussianProcess(resolved.kernel, theta, x, residuals, noise, nugget=resolved.nugget, known=last[key])


def _used(resolved: Resolved, n_draws: int, rows: int) -> np.ndarray:
    """The draw of the hyperparameters for each predictive draw: its own, if that is affordable."""
    n = resolved.n
    if not resolved.dims and resolved.gaussian:
        return np.zeros(n_draws, int)
    cost = n**3 / 3 + n * rows * min(rows, JOINT) + n**2 * rows
    if resolved.spec.approximation is not None:
        cost = approximations.operations(resolved) * (1.0 + rows / n) + rows * min(rows, JOINT) ** 2
    most = int(max(_FEWEST, _BUDGET / max(cost, 1.0)))
    if n_draws <= most:
        return np.arange(n_draws)
    kept = np.unique(np.linspace(0, n_draws - 1, most).astype(int))
    return kept[np.arange(n_draws) * len(kept) // n_draws]


def _processes(
    resolved: Resolved, draws: Draws, used: np.ndarray
) -> Iterator[tuple[np.ndarray, dict[str, Any], GaussianProcess]]:
    """For each draw of the hyperparameters in use: its predictive draws, its values, and the process."""
    last: dict[bytes, Any] = {}
    for i in np.unique(used):
        values = values_at(resolved, draws, int(i))
        yield np.flatnonzero(used == i), values, function_at(resolved, values, last)


def _count(resolved: Resolved, draws: Draws) -> int:
    name = next((n for n in (*resolved.dims, "_z") if n in draws), None)
    if name is None:
        name = next(iter(draws), None)
    return len(draws[name]) if name is not None else 1


def _white(resolved: Resolved, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Variance of white noise in the kernel, which belongs to the outcome but not to the function."""
    part = resolved.kernel.free_of_noise()
    whole = resolved.kernel.diagonal(theta, x)
    return whole if part is None else np.maximum(whole - part.diagonal(theta, x), 0.0)


def functions(
    resolved: Resolved, new: Resolved, draws: Draws, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the linear predictor at the rows of ``new``, white noise included, with the index of each draw."""
    n_draws = _count(resolved, draws)
    used = _used(resolved, n_draws, new.n)
    out = np.empty((n_draws, new.n))
    for places, values, process in _processes(resolved, draws, used):
        mean = new.design @ resolved.coefficients(values)
        if isinstance(process, StateSpaceProcess):
            centre, part = np.zeros(new.n), process.draw(new.x, rng, len(places))
        elif new.n <= JOINT:
            centre, covariance = process.joint(new.x)
            shape = _square_root(covariance)
            part = rng.standard_normal((len(places), new.n)) @ shape.T
        else:
            centre, variance = process.predict(new.x)
            part = rng.standard_normal((len(places), new.n)) * np.sqrt(variance)
        white = np.sqrt(_white(resolved, process.theta, new.x))
        out[places] = mean + centre + part + rng.standard_normal(part.shape) * white
    return out, used


def _square_root(covariance: np.ndarray) -> np.ndarray:
    """A square root of a covariance that may be singular because rows repeat or nothing is uncertain."""
    try:
        return np.linalg.cholesky(
            covariance + 1e-12 * float(np.trace(covariance)) / len(covariance) * np.eye(len(covariance))
        )
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        return vectors * np.sqrt(np.maximum(values, 0.0))


def replications(
    resolved: Resolved, new: Resolved, draws: Draws, rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Draws of the outcomes at the rows of ``new``, one for each draw."""
    eta, used = functions(resolved, new, draws, rng)
    auxiliary = _auxiliary(resolved, draws, used)
    likelihood = LIKELIHOODS[resolved.spec.likelihood]
    if resolved.gaussian:
        sd = np.sqrt(auxiliary["sigma"] ** 2 + new.known)
        return {resolved.target: ((resolved.rows,), rng.normal(eta, sd))}
    made = likelihood.draw(rng, inverse_link(resolved.link, eta), auxiliary, {"trials": _trials(resolved, new)})
    return {resolved.target: ((resolved.rows,), made)}


def _trials(resolved: Resolved, new: Resolved) -> np.ndarray:
    if resolved.spec.likelihood == "binomial" and new.trials is None:
        raise DataError(f"the new data have no column '{resolved.spec.trials}', the trials", code="unknown-column")
    return np.ones(new.n) if new.trials is None else new.trials


def _auxiliary(resolved: Resolved, draws: Draws, used: np.ndarray) -> dict[str, np.ndarray]:
    """Parameters of the likelihood at each draw, (draws, 1)."""
    rows = [values_at(resolved, draws, int(i)) for i in used]
    out = {}
    if resolved.spec.likelihood in ("gaussian", "student_t"):
        out["sigma"] = np.array([resolved.noise_sd(values) for values in rows])[:, None]
    for name in ("nu", "alpha"):
        if name in resolved.dims or name in resolved.fixed:
            out[name] = np.array([resolved.value(name, values) for values in rows])[:, None]
    return out


def row_log_likelihoods(resolved: Resolved, draws: Draws) -> np.ndarray:
    """Log density of each row at each draw; given all other rows if the function is integrated out.

    Draws of the hyperparameters are from the posterior given all rows; importance weights 1 / p(row | other rows)
    make them draws given the other rows. These are the terms of leave-one-out cross-validation.
    """
    n_draws = _count(resolved, draws)
    out = np.empty((n_draws, resolved.n))
    last: dict[bytes, Any] = {}
    if resolved.gaussian or resolved.spec.approximation == "laplace":
        for i in range(n_draws):
            out[i] = function_at(resolved, values_at(resolved, draws, i), last).leave_one_out().log_density
        return out
    _, place = resolved.distinct
    auxiliary = _auxiliary(resolved, draws, np.arange(n_draws))
    for i in range(n_draws):
        values = values_at(resolved, draws, i)
        process = function_at(resolved, values, last)
        function = process.residuals[place] if resolved.spec.approximation is None else process.predict(resolved.x)[0]
        eta = resolved.design @ resolved.coefficients(values) + function
        parameters = {name: column[i] for name, column in auxiliary.items()}
        trials = np.ones(resolved.n) if resolved.trials is None else resolved.trials
        density = LIKELIHOODS[resolved.spec.likelihood].log_density
        assert resolved.y is not None
        out[i] = density(resolved.y, inverse_link(resolved.link, eta), parameters, {"trials": trials})
    return out


# ----------------------------------------------------------------------------------------- tables


def moments(resolved: Resolved, new: Resolved, draws: Draws, ci_prob: float) -> dict[str, np.ndarray] | None:
    """Mean, sd and credible interval of the outcome at each row of ``new``: a mixture of one normal for each draw.

    None if the outcome is not normal.
    """
    if not resolved.gaussian:
        return None
    used = np.unique(_used(resolved, _count(resolved, draws), new.n))
    centres, variances = np.empty((len(used), new.n)), np.empty((len(used), new.n))
    for i, (_, values, process) in enumerate(_processes(resolved, draws, used)):
        centre, variance = process.predict(new.x)
        centres[i] = new.design @ resolved.coefficients(values) + centre
        variances[i] = variance + _white(resolved, process.theta, new.x) + new.known + resolved.noise_sd(values) ** 2
    return _mixture(centres, variances, ci_prob)


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def expected(resolved: Resolved, new: Resolved, draws: Draws) -> np.ndarray:
    """Mean of the outcome (for one trial) at each row of ``new``, with the function integrated out at each draw."""
    used = np.unique(_used(resolved, _count(resolved, draws), new.n))
    total = np.zeros(new.n)
    for _, values, process in _processes(resolved, draws, used):
        centre, variance = process.predict(new.x)
        centre = centre + new.design @ resolved.coefficients(values)
        sd = np.sqrt(variance + _white(resolved, process.theta, new.x))
        each = inverse_link(resolved.link, centre[:, None] + sd[:, None] * _NODES)
        total += each @ _WEIGHTS / _WEIGHTS.sum()
    return total / len(used)


def component_table(
    resolved: Resolved, new: Resolved, draws: Draws, ci_prob: float
) -> dict[str, dict[str, np.ndarray]]:
    """Mean, sd and credible interval of each kernel term, of the mean and of the whole function, by name."""
    used = np.unique(_used(resolved, _count(resolved, draws), new.n))
    terms = {name: k for name, k in resolved.kernel.components().items() if k.free_of_noise() is not None}
    names = [*(("mean",) if new.design.shape[1] else ()), *terms, "function"]
    centres = {name: np.zeros((len(used), new.n)) for name in names}
    variances = {name: np.zeros((len(used), new.n)) for name in names}
    for i, (_, values, process) in enumerate(_processes(resolved, draws, used)):
        mean = new.design @ resolved.coefficients(values)
        if "mean" in centres:
            centres["mean"][i] = mean
        for name, term in terms.items():
            centres[name][i], variances[name][i] = process.predict(new.x, term)
        centre, variances["function"][i] = process.predict(new.x)
        centres["function"][i] = mean + centre
    return {name: _mixture(centres[name], variances[name], ci_prob) for name in names}


def _mixture(centres: np.ndarray, variances: np.ndarray, ci_prob: float) -> dict[str, np.ndarray]:
    """Summary of an equal mixture of normals, (components, rows)."""
    mean = centres.mean(axis=0)
    sd = np.sqrt(variances.mean(axis=0) + centres.var(axis=0))
    tail, percent = (1 - ci_prob) / 2, f"{100 * ci_prob:g}"
    return {
        "mean": mean,
        "sd": sd,
        f"eti{percent}_lb": _quantile(centres, variances, tail),
        f"eti{percent}_ub": _quantile(centres, variances, 1 - tail),
    }


def _quantile(centres: np.ndarray, variances: np.ndarray, probability: float) -> np.ndarray:
    """Quantile of an equal mixture of normals, by bisection between the extremes of the components' quantiles."""
    sds = np.sqrt(np.maximum(variances, 1e-300))
    each = centres + sds * special.ndtri(probability)
    low, high = each.min(axis=0), each.max(axis=0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = special.ndtr((middle - centres) / sds).mean(axis=0) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def leave_one_out(resolved: Resolved, draws: Draws) -> dict[str, np.ndarray]:
    """Prediction of each row from all others at some draws: mean, variance and log density, (draws, rows).

    Coefficients of the mean with normal priors are integrated out given the other rows. Draws
    of everything else are from the posterior given all rows; importance weights 1 / p(row | other rows) make them draws
    given the others.
    """
    used = np.unique(_used(resolved, _count(resolved, draws), resolved.n))
    prior = _normal_coefficients(resolved)
    if prior is not None and not resolved.dims.keys() - {resolved.level, "b"}:
        used = used[:1]
    parts, shifts = [], []
    for i in used:
        values = values_at(resolved, draws, int(i))
        if prior is not None and resolved.spec.approximation is not None:
            parts.append(_integrating(resolved, function_at(resolved, values), *prior))
        else:
            process = function_at(resolved, values) if prior is None else integrated(resolved, values, *prior)
            parts.append(process.leave_one_out())
        shifts.append(resolved.design @ (resolved.coefficients(values) if prior is None else prior[0]))
    means, variances = np.stack([p.mean for p in parts]) + shifts, np.stack([p.variance for p in parts])
    return {"mean": means, "variance": variances, "log_density": np.stack([p.log_density for p in parts])}


def _integrating(resolved: Resolved, process: Any, centre: np.ndarray, variances: np.ndarray) -> LeaveOneOut:
    """Leave-one-out predictions by an approximation, with the coefficients of the mean integrated out."""
    assert resolved.y is not None
    residuals = resolved.y - resolved.design @ centre
    return LeaveOneOut.integrating(
        lambda r: replace(process, residuals=r).leave_one_out(), residuals, resolved.design, variances
    )


def _normal_coefficients(resolved: Resolved) -> tuple[np.ndarray, np.ndarray] | None:
    """Means and variances of the coefficients' priors, if the coefficients can be integrated out."""
    if not (resolved.intercept or resolved.predictors):
        return None
    try:
        return coefficient_prior(resolved)
    except ModelError:
        return None


# Number of draws checked for added jitter.
_LOOKED_AT = 50
# With a larger condition number results have at most three correct digits.
_CONDITION = 1e13
# A scale whose mode is below this share of its prior's median counts as zero.
_NOTHING = 1e-3


def findings(resolved: Resolved, draws: Draws) -> tuple[Remark, ...]:
    """Findings for the verdict: jitter and condition of covariances, vanishing terms, too few basis functions."""
    if resolved.y is None or not (resolved.dims or resolved.gaussian):
        return ()
    out = list(_vanished(resolved, draws)) if _count(resolved, draws) == 1 else []
    if resolved.spec.approximation == "hsgp":
        out += approximations.unserved(resolved, draws)
    if resolved.spec.approximation in (None, "sparse", "fitc"):
        out += _repairs(resolved, draws)
    if resolved.spec.approximation == "laplace":
        out += _rough(resolved, draws)
    return tuple(out)


def _rough(resolved: Resolved, draws: Draws) -> list[Remark]:
    """Report a posterior of the function that Laplace's approximation does not fit."""
    n_draws = _count(resolved, draws)
    some = np.unique(np.linspace(0, n_draws - 1, min(n_draws, _FEW_LOOKED_AT)).astype(int))
    processes: Any = [function_at(resolved, values_at(resolved, draws, int(i))) for i in some]
    if resolved.n > _SAMPLED_ROWS:
        most = np.mean([np.abs(process.mean_from_mode) for process in processes], axis=0)
        row = int(np.argmax(most))
        off, text = float(most[row]), f"its mean about {most[row]:.1f} of its standard deviation from the mode"
        worst = off / _OFF
    else:
        errors = [process.errors(np.random.default_rng(k)) for k, process in enumerate(processes)]
        means = np.mean([np.abs(e.mean) for e in errors], axis=0)
        responses = np.mean([np.abs(e.response) for e in errors], axis=0)
        factors = np.mean([e.log_sd for e in errors], axis=0)
        shares = np.stack([means / _OFF, responses / _OFF, np.abs(factors) / np.log(_FACTOR)])
        kind, row = divmod(int(np.argmax(shares)), shares.shape[1])
        worst, off = float(shares[kind, row]), float((means, responses, np.exp(factors))[kind][row])
        text = (
            f"by sampling, the mean of the function is off by {off:.2f} of its standard deviation",
            f"by sampling, the expected outcome is off by {off:.2f} standard deviations",
            f"by sampling, the standard deviation of the function is {off:.2f} times the right one",
        )[kind]
    if not worst > 1.0:
        return []
    text = (
        f"Laplace's approximation is rough: the posterior of the function is not near normal, {text} (row {row + 1});"
        " predictions and intervals are off accordingly"
    )
    return [("approximation", "function", off, text, "leave approximation out and take method nuts")]


def _repairs(resolved: Resolved, draws: Draws) -> list[Remark]:
    """Report covariances that needed more jitter than the model has, or are close to singular."""
    n_draws = _count(resolved, draws)
    some = np.unique(np.linspace(0, n_draws - 1, min(n_draws, _LOOKED_AT if resolved.n <= 1000 else 5)).astype(int))
    shares, conditions = [], []
    for i in some:
        process = function_at(resolved, values_at(resolved, draws, int(i)))
        if process.jitter > 1.01 * process.usual_jitter:
            shares.append(process.jitter)
        elif resolved.gaussian:
            conditions.append(process.condition)
    advice = "inputs lie close together beside the lengthscale; give `jitter`, a rougher kernel, or noise"
    if shares:
        text = (
            f"at {len(shares)} of {len(some)} draws looked at, the covariance had a Cholesky factor only with up to"
            f" {max(shares):.2g} added to its diagonal"
        )
        return [("jitter", "covariance", float(max(shares)), text, advice)]
    if conditions and max(conditions) > _CONDITION:
        text = f"the covariance is singular but for a share of {1 / max(conditions):.1g}: results have few right digits"
        return [("condition", "covariance", float(max(conditions)), text, advice)]
    return []


def _vanished(resolved: Resolved, draws: Draws) -> list[Remark]:
    """Report scales that are zero at a mode: the point estimate drops their terms, which a posterior would not."""

    shown = {p.name: p.word or "a factor" for p in resolved.kernel.parameters if p.role in ("scale", "variance")}
    shown |= {p.name: "what this level has of its own" for p in resolved.kernel.parameters if p.role == "specific"}
    out: list[Remark] = []
    for name, what in {**shown, "sigma": "the noise"}.items():
        if name not in resolved.dims:
            continue
        value = float(np.ravel(draws[name])[0])
        if value < _NOTHING * prior_quantiles(resolved, name)[1]:
            text = f"{name} is {value:.2g}: at the mode {what} vanishes, however little the data say of it"
            out.append(("zero", name, value, text, "method nuts says how large it may be; or leave it out"))
    return out
