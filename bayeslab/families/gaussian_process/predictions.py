"""What a fitted Gaussian process says: of new rows, of its additive terms, of each row from all others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy import special

from bayeslab.errors import DataError, ModelError
from bayeslab.exact.gaussian_process import GaussianProcess, factor
from bayeslab.exact.state_space import StateSpaceProcess
from bayeslab.families.gaussian_process import approximations
from bayeslab.families.gaussian_process.approximations import prior_quantiles, regression_of
from bayeslab.families.gaussian_process.exact_inference import coefficient_prior, integrated
from bayeslab.families.gaussian_process.model import Resolved
from bayeslab.families.regression.likelihoods import LIKELIHOODS, inverse_link

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

# Rows up to which the function is drawn jointly; beyond, every row is drawn by itself.
JOINT = 1_000
# Multiplications that predictions may cost: at more, fewer of the hyperparameters' draws are used, several times each.
_BUDGET = 1e12
_FEWEST = 100


def values_at(seen: Resolved, draws: Draws, i: int) -> dict[str, np.ndarray]:
    """Parameters of one draw by name."""
    names = (*seen.dims, "_z", "f")
    return {name: np.asarray(draws[name][i]) for name in names if name in draws}


def function_at(seen: Resolved, values: Mapping[str, Any], last: dict[bytes, Any] | None = None) -> GaussianProcess:
    """The process at one draw: given the observations, or given the function at the rows.

    ``last`` keeps the factor of the draw before, for draws that differ in the coefficients of the mean only.
    """
    theta = seen.theta(values)
    assert seen.y is not None
    if seen.spec.approximation is not None:
        return approximations.process_at(seen, regression_of(seen), values)
    if seen.gaussian:
        residuals, x = seen.y - seen.design @ seen.coefficients(values), seen.x
        noise = seen.known + seen.noise_sd(values) ** 2
    else:
        x = seen.distinct[0]
        residuals = noise = np.zeros(len(x))
    last = {} if last is None else last
    key = theta.tobytes() + noise.tobytes()
    if key not in last:
        last.clear()
        last[key] = factor(seen.kernel, theta, x, noise, nugget=seen.nugget)
    if not seen.gaussian:
        residuals = last[key][0] @ values["_z"]
    return GaussianProcess(seen.kernel, theta, x, residuals, noise, nugget=seen.nugget, known=last[key])


def _used(seen: Resolved, n_draws: int, rows: int) -> np.ndarray:
    """Which draw of the hyperparameters each predictive draw uses: its own, where that is affordable."""
    n = seen.n
    if not seen.dims and seen.gaussian:
        return np.zeros(n_draws, int)
    cost = n**3 / 3 + n * rows * min(rows, JOINT) + n**2 * rows
    if seen.spec.approximation is not None:
        cost = approximations.operations(seen) * (1.0 + rows / n) + rows * min(rows, JOINT) ** 2
    most = int(max(_FEWEST, _BUDGET / max(cost, 1.0)))
    if n_draws <= most:
        return np.arange(n_draws)
    kept = np.unique(np.linspace(0, n_draws - 1, most).astype(int))
    return kept[np.arange(n_draws) * len(kept) // n_draws]


def _processes(
    seen: Resolved, draws: Draws, used: np.ndarray
) -> Iterator[tuple[np.ndarray, dict[str, Any], GaussianProcess]]:
    """Each hyperparameter draw that is used: the predictive draws it is for, its values, and the process."""
    last: dict[bytes, Any] = {}
    for i in np.unique(used):
        values = values_at(seen, draws, int(i))
        yield np.flatnonzero(used == i), values, function_at(seen, values, last)


def _count(seen: Resolved, draws: Draws) -> int:
    name = next((n for n in (*seen.dims, "_z") if n in draws), None)
    if name is None:
        name = next(iter(draws), None)
    return len(draws[name]) if name is not None else 1


def _white(seen: Resolved, theta: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Variance of white noise in the kernel, which is part of an outcome but not of the function."""
    part = seen.kernel.free_of_noise()
    whole = seen.kernel.diagonal(theta, x)
    return whole if part is None else np.maximum(whole - part.diagonal(theta, x), 0.0)


def functions(seen: Resolved, new: Resolved, draws: Draws, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the linear predictor at the rows of ``new``, white noise included, and which draw each is of."""
    n_draws = _count(seen, draws)
    used = _used(seen, n_draws, new.n)
    out = np.empty((n_draws, new.n))
    for places, values, process in _processes(seen, draws, used):
        mean = new.design @ seen.coefficients(values)
        if isinstance(process, StateSpaceProcess):
            centre, part = np.zeros(new.n), process.draw(new.x, rng, len(places))
        elif new.n <= JOINT:
            centre, covariance = process.joint(new.x)
            shape = _square_root(covariance)
            part = rng.standard_normal((len(places), new.n)) @ shape.T
        else:
            centre, variance = process.predict(new.x)
            part = rng.standard_normal((len(places), new.n)) * np.sqrt(variance)
        white = np.sqrt(_white(seen, process.theta, new.x))
        out[places] = mean + centre + part + rng.standard_normal(part.shape) * white
    return out, used


def _square_root(covariance: np.ndarray) -> np.ndarray:
    """A factor of a covariance that may be singular: where rows repeat, or nothing is uncertain."""
    try:
        return np.linalg.cholesky(
            covariance + 1e-12 * float(np.trace(covariance)) / len(covariance) * np.eye(len(covariance))
        )
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(covariance)
        return vectors * np.sqrt(np.maximum(values, 0.0))


def replications(
    seen: Resolved, new: Resolved, draws: Draws, rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Outcomes at the rows of ``new``, one for each draw."""
    eta, used = functions(seen, new, draws, rng)
    auxiliary = _auxiliary(seen, draws, used)
    likelihood = LIKELIHOODS[seen.spec.likelihood]
    if seen.gaussian:
        sd = np.sqrt(auxiliary["sigma"] ** 2 + new.known)
        return {seen.target: ((seen.rows,), rng.normal(eta, sd))}
    made = likelihood.draw(rng, inverse_link(seen.link, eta), auxiliary, {"trials": _trials(seen, new)})
    return {seen.target: ((seen.rows,), made)}


def _trials(seen: Resolved, new: Resolved) -> np.ndarray:
    if seen.spec.likelihood == "binomial" and new.trials is None:
        raise DataError(f"the new data have no column '{seen.spec.trials}', the trials", code="unknown-column")
    return np.ones(new.n) if new.trials is None else new.trials


def _auxiliary(seen: Resolved, draws: Draws, used: np.ndarray) -> dict[str, np.ndarray]:
    """Parameters of the likelihood at each draw, (draws, 1)."""
    rows = [values_at(seen, draws, int(i)) for i in used]
    out = {}
    if seen.spec.likelihood in ("gaussian", "student_t"):
        out["sigma"] = np.array([seen.noise_sd(values) for values in rows])[:, None]
    for name in ("nu", "alpha"):
        if name in seen.dims or name in seen.fixed:
            out[name] = np.array([seen.value(name, values) for values in rows])[:, None]
    return out


def row_log_likelihoods(seen: Resolved, draws: Draws) -> np.ndarray:
    """Log density of each row at each draw: given all other rows where the function is integrated out.

    Draws of the hyperparameters are from the posterior given all rows; importance weights 1 / p(row | other rows)
    make them draws given the other rows. So these are the terms that leave-one-out cross-validation needs.
    """
    n_draws = _count(seen, draws)
    out = np.empty((n_draws, seen.n))
    last: dict[bytes, Any] = {}
    if seen.gaussian or seen.spec.approximation == "laplace":
        for i in range(n_draws):
            out[i] = function_at(seen, values_at(seen, draws, i), last).leave_one_out().log_density
        return out
    _, place = seen.distinct
    auxiliary = _auxiliary(seen, draws, np.arange(n_draws))
    for i in range(n_draws):
        values = values_at(seen, draws, i)
        process = function_at(seen, values, last)
        function = process.residuals[place] if seen.spec.approximation is None else process.predict(seen.x)[0]
        eta = seen.design @ seen.coefficients(values) + function
        own = {name: column[i] for name, column in auxiliary.items()}
        trials = np.ones(seen.n) if seen.trials is None else seen.trials
        density = LIKELIHOODS[seen.spec.likelihood].log_density
        assert seen.y is not None
        out[i] = density(seen.y, inverse_link(seen.link, eta), own, {"trials": trials})
    return out


# ----------------------------------------------------------------------------------------- tables


def moments(seen: Resolved, new: Resolved, draws: Draws, ci_prob: float) -> dict[str, np.ndarray] | None:
    """Mean, sd and interval of the outcome at each row of ``new``: a mixture of one normal for each draw.

    None where the outcome is not normal.
    """
    if not seen.gaussian:
        return None
    used = np.unique(_used(seen, _count(seen, draws), new.n))
    centres, variances = np.empty((len(used), new.n)), np.empty((len(used), new.n))
    for i, (_, values, process) in enumerate(_processes(seen, draws, used)):
        centre, variance = process.predict(new.x)
        centres[i] = new.design @ seen.coefficients(values) + centre
        variances[i] = variance + _white(seen, process.theta, new.x) + new.known + seen.noise_sd(values) ** 2
    return _mixture(centres, variances, ci_prob)


_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(40)


def expected(seen: Resolved, new: Resolved, draws: Draws) -> np.ndarray:
    """Mean of the outcome (of one trial) at each row of ``new``, the function integrated out at each draw."""
    used = np.unique(_used(seen, _count(seen, draws), new.n))
    total = np.zeros(new.n)
    for _, values, process in _processes(seen, draws, used):
        centre, variance = process.predict(new.x)
        centre = centre + new.design @ seen.coefficients(values)
        sd = np.sqrt(variance + _white(seen, process.theta, new.x))
        each = inverse_link(seen.link, centre[:, None] + sd[:, None] * _NODES)
        total += each @ _WEIGHTS / _WEIGHTS.sum()
    return total / len(used)


def component_table(seen: Resolved, new: Resolved, draws: Draws, ci_prob: float) -> dict[str, dict[str, np.ndarray]]:
    """Mean, sd and interval of each term of the kernel, of the mean, and of the whole function, by name."""
    used = np.unique(_used(seen, _count(seen, draws), new.n))
    terms = {name: k for name, k in seen.kernel.components().items() if k.free_of_noise() is not None}
    names = [*(("mean",) if new.design.shape[1] else ()), *terms, "function"]
    centres = {name: np.zeros((len(used), new.n)) for name in names}
    variances = {name: np.zeros((len(used), new.n)) for name in names}
    for i, (_, values, process) in enumerate(_processes(seen, draws, used)):
        mean = new.design @ seen.coefficients(values)
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
    """Of an equal mixture of normals, by bisection between the extremes of its components' quantiles."""
    sds = np.sqrt(np.maximum(variances, 1e-300))
    each = centres + sds * special.ndtri(probability)
    low, high = each.min(axis=0), each.max(axis=0)
    for _ in range(60):
        middle = 0.5 * (low + high)
        below = special.ndtr((middle - centres) / sds).mean(axis=0) < probability
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return 0.5 * (low + high)


def leave_one_out(seen: Resolved, draws: Draws) -> dict[str, np.ndarray]:
    """Each row predicted from all others at some draws: mean, variance and log density, (draws, rows).

    Coefficients of the mean with normal priors are integrated out, so that they too are those of the other rows. Draws
    of everything else are from the posterior given all rows; importance weights 1 / p(row | other rows) make them draws
    given the others.
    """
    used = np.unique(_used(seen, _count(seen, draws), seen.n))
    prior = _normal_coefficients(seen)
    if prior is not None and not seen.dims.keys() - {seen.level, "b"}:
        used = used[:1]
    parts, shifts = [], []
    for i in used:
        values = values_at(seen, draws, int(i))
        process = function_at(seen, values) if prior is None else integrated(seen, values, *prior)
        parts.append(process.leave_one_out())
        shifts.append(seen.design @ (seen.coefficients(values) if prior is None else prior[0]))
    means, variances = np.stack([p.mean for p in parts]) + shifts, np.stack([p.variance for p in parts])
    return {"mean": means, "variance": variances, "log_density": np.stack([p.log_density for p in parts])}


def _normal_coefficients(seen: Resolved) -> tuple[np.ndarray, np.ndarray] | None:
    """Means and variances of the coefficients, where they can be integrated out."""
    if seen.spec.approximation is not None or not (seen.intercept or seen.predictors):
        return None
    try:
        return coefficient_prior(seen)
    except ModelError:
        return None


# So many draws are looked at for repairs.
_LOOKED_AT = 50
# A covariance with a larger condition number leaves results three digits or fewer.
_CONDITION = 1e13
# A scale at its mode below this share of its prior's median is at zero.
_NOTHING = 1e-3


def findings(seen: Resolved, draws: Draws) -> tuple[Remark, ...]:
    """What the verdict says besides: repairs and condition of covariances, terms that vanish, functions too few."""
    if seen.y is None or not (seen.dims or seen.gaussian):
        return ()
    out = list(_vanished(seen, draws)) if _count(seen, draws) == 1 else []
    if seen.spec.approximation == "hsgp":
        out += approximations.unserved(seen, draws)
    if seen.spec.approximation in (None, "sparse", "fitc"):
        out += _repairs(seen, draws)
    return tuple(out)


def _repairs(seen: Resolved, draws: Draws) -> list[Remark]:
    """Whether covariances had a factor only with more jitter than the model says, or are close to singular."""
    n_draws = _count(seen, draws)
    some = np.unique(np.linspace(0, n_draws - 1, min(n_draws, _LOOKED_AT if seen.n <= 1000 else 5)).astype(int))
    shares, conditions = [], []
    for i in some:
        process = function_at(seen, values_at(seen, draws, int(i)))
        if process.jitter > 1.01 * process.usual_jitter:
            shares.append(process.jitter)
        elif seen.gaussian:
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


def _vanished(seen: Resolved, draws: Draws) -> list[Remark]:
    """Scales that are zero at a mode: their terms are not there, which no posterior would say for certain."""

    shown = {p.name: p.word or "a factor" for p in seen.kernel.parameters if p.role in ("scale", "variance")}
    shown |= {p.name: "what this level has of its own" for p in seen.kernel.parameters if p.role == "specific"}
    out: list[Remark] = []
    for name, what in {**shown, "sigma": "the noise"}.items():
        if name not in seen.dims:
            continue
        value = float(np.ravel(draws[name])[0])
        if value < _NOTHING * prior_quantiles(seen, name)[1]:
            text = f"{name} is {value:.2g}: at the mode {what} vanishes, however little the data say of it"
            out.append(("zero", name, value, text, "method nuts says how large it may be; or leave it out"))
    return out
