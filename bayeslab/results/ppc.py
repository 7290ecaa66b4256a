"""Predictive checks, LOO-PIT, decisions and calibration of a fit.

A predictive check draws replications of the data and compares a statistic of the observed data with
those of the replications [1]_. Posterior replications depend on the data, so p-values are
conservative: values near 0 or 1 show a misfit, values in the middle show little. The probability
integral transform of each observation under its leave-one-out prediction (LOO-PIT) is uniform if
predictions are calibrated [2]_.

References
----------
.. [1] Gelman, Meng, Stern (1996). Posterior predictive assessment of model fitness via realized
   discrepancies. Statistica Sinica 6(4), 733-807.
.. [2] Gabry, Simpson, Vehtari, Betancourt, Gelman (2019). Visualization in Bayesian workflow.
   Journal of the Royal Statistical Society A 182(2), 389-402. arXiv:1709.01449
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab.arrays import number, real
from bayeslab.decisions import loss as losses
from bayeslab.decisions import scores
from bayeslab.errors import BayeslabError, DataError, OptionError, hint, listed
from bayeslab.plots import predictive
from bayeslab.posterior.event_kinds import LEFT, RIGHT
from bayeslab.results.calibrate import uniform_bands
from bayeslab.results.common_scale import conditioned
from bayeslab.results.compare import _relative_efficiency
from bayeslab.results.fitted import Fitted, bound_to
from bayeslab.results.predict import (
    level_labels,
    log_likelihood,
    numbers_of_levels,
    posterior_predictive,
    predict,
    prior_groups,
    values_between,
)
from bayeslab.results.psis import smoothed_log_weights
from bayeslab.results.thinned import thinned
from bayeslab.streams import stream

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "CHECKS", "STATISTICS", "applicable", "calibration", "check", "decide", "loo_pit", "quantile_residuals",
    "replications", "two_sided",
]  # fmt: skip

Array = NDArray[np.float64]
type Statistic = str | Callable[[Array], Array]


def _skewness(values: Array) -> Array:
    centred = values - values.mean(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((centred**3).mean(axis=-1) / (centred**2).mean(axis=-1) ** 1.5)


def _lag_one(values: Array) -> Array:
    centred = values - values.mean(axis=-1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((centred[..., 1:] * centred[..., :-1]).sum(axis=-1) / (centred**2).sum(axis=-1))


STATISTICS: Mapping[str, Callable[[Array], Array]] = {
    "mean": lambda v: v.mean(axis=-1),
    "sd": lambda v: v.std(axis=-1, ddof=1),
    "min": lambda v: v.min(axis=-1),
    "max": lambda v: v.max(axis=-1),
    "median": lambda v: np.median(v, axis=-1),
    "skewness": _skewness,
    "zeros": lambda v: (v == 0).mean(axis=-1),
    "autocorrelation": _lag_one,
}


# Plots of predictive checks, besides those of statistics.
CHECKS = ("density", "pit", "residuals", "calibration")
# Number of draws that show which plots a fit has.
_FEW = 8


def two_sided(observed: float, replicated: Array) -> float:
    """Twice the smaller tail probability of the observed value among replications, at most 1; ties count in both."""
    replicated = replicated[~np.isnan(replicated)]
    if not replicated.size or np.isnan(observed):
        return float("nan")
    return float(min(1.0, 2 * min((replicated >= observed).mean(), (replicated <= observed).mean())))


def replications(fit: Fitted, kind: Literal["posterior", "prior"]) -> dict[str, tuple[Array, Array]]:
    """Observed values (cell,) and replications (draw, cell) of every outcome.

    Missing cells and values that the model conditions on are left out.
    """
    if kind not in ("posterior", "prior"):
        raise OptionError(f"kind is posterior or prior, not {kind!r}", code="unknown-word")
    group = f"{kind}_predictive"
    if group not in fit.data_tree.children:
        added = (
            {group: posterior_predictive(fit)} if kind == "posterior" else prior_groups(fit.bound_model, 500, fit.seed)
        )
        fit.add(added)
    predicted, observed = fit.data_tree[group].to_dataset(), fit.data_tree["observed_data"].to_dataset()
    if any(np.isin(kinds, (LEFT, RIGHT)).any() for kinds in fit.bound_model.event_kinds().values()):
        raise DataError(
            f"replications of '{next(iter(predicted.data_vars))}' are not censored, and the data are: they cannot be"
            f" compared",
            code="not-applicable",
        )
    out = {}
    for name, values in predicted.data_vars.items():
        if name not in observed:
            continue
        real = observed[name]
        drawn = values.transpose("chain", "draw", *real.dims) if set(real.dims) < set(values.dims) else values
        flat = drawn.to_numpy().astype(float).reshape(drawn.sizes["chain"] * drawn.sizes["draw"], -1)
        cells = real.to_numpy().astype(float).ravel()
        # The first rows have no distribution because of a lag, and are not replicated.
        cells = cells[len(cells) - flat.shape[1] :]
        there = ~np.isnan(cells) & ~conditioned(str(name), fit.bound_model, len(cells))
        if not there.any():
            continue
        out[str(name)] = cells[there], flat[:, there]
    if not out:
        raise DataError("the fit has no outcome to check", code="not-applicable")
    return out


def check(
    fit: Fitted, statistics: Sequence[Statistic], kind: Literal["posterior", "prior"], ci_prob: float
) -> pd.DataFrame:
    """See :meth:`bayeslab.results.fit.Fit.check`."""
    import pandas as pd

    number(ci_prob, "ci_prob", 0, 1, above=True, below=True)
    wanted = _statistics(statistics)
    percent, tail, rows = f"{100 * ci_prob:g}", (1 - ci_prob) / 2, []
    for name, (observed, drawn) in replications(fit, kind).items():
        levels = fit.bound_model.outcome_levels().get(name)
        numbers = None if levels is None else numbers_of_levels(levels)
        if numbers is not None and numbers.dtype.kind != "U":
            observed, drawn = (numbers[positions.astype(np.int64)].astype(float) for positions in (observed, drawn))
        for word, function in wanted:
            try:
                real, simulated = (np.asarray(function(values), float) for values in (observed, drawn))
            except Exception as error:
                text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
                raise OptionError(f"the statistic '{word}' fails on '{name}': {text}", code="not-applicable") from error
            if real.shape != () or simulated.shape != (len(drawn),):
                raise OptionError(f"the statistic '{word}' must make one number of a vector", code="wrong-type")
            low, high = np.nanquantile(simulated, [tail, 1 - tail])
            rows.append(
                {
                    "node": name,
                    "statistic": word,
                    "observed": float(real),
                    "mean": np.nanmean(simulated),
                    f"eti{percent}_lb": low,
                    f"eti{percent}_ub": high,
                    "p_value": two_sided(float(real), simulated),
                }
            )
    return pd.DataFrame(rows)


def _statistics(given: Any) -> list[tuple[str, Callable[[Array], Array]]]:
    """Statistics with their names; one alone stands for a list of one."""
    if isinstance(given, str) or callable(given):
        given = [given]
    if not isinstance(given, Sequence | Set) or not given:
        raise OptionError(
            f"statistics are a list of names ({listed(STATISTICS)}) and functions, not {given!r}", code="wrong-type"
        )
    return [_statistic(statistic) for statistic in given]


def _statistic(statistic: Any) -> tuple[str, Callable[[Array], Array]]:
    if callable(statistic):
        return getattr(statistic, "__name__", "statistic"), lambda v: np.apply_along_axis(statistic, -1, v)
    if not isinstance(statistic, str) or statistic not in STATISTICS:
        raise OptionError(f"unknown statistic '{statistic}'{hint(statistic, STATISTICS)}", code="unknown-word")
    return statistic, STATISTICS[statistic]


def loo_pit(fit: Fitted, seed: int | None = None) -> dict[str, Array]:
    """Leave-one-out predictive probability of a value below each observation.

    For discrete outcomes the values are randomised over the probability of the observation itself, so
    that they are uniform for calibrated predictions.

    Returns
    -------
    dict of str to ndarray
        The values of each outcome, shape (observation,).
    """

    group = fit.group("log_likelihood", log_likelihood).to_dataset()
    rng = stream(fit.seed if seed is None else seed, "loo pit")
    out = {}
    for name, (observed, drawn) in replications(fit, "posterior").items():
        if name not in group:
            raise OptionError(
                f"loo_pit leaves out one value of '{name}' at a time, and the log likelihood of a"
                f" {fit.model.model.family} fit is that of {listed(map(str, group.data_vars))}: compare predictions"
                f" with check(), or leave rows out with cross_validate",
                code="not-applicable",
            )
        terms = np.moveaxis(group[name].to_numpy(), (0, 1), (-2, -1))
        terms = np.ascontiguousarray(terms.reshape(-1, *terms.shape[-2:]), dtype=float)
        if len(terms) != len(observed):
            raise DataError(
                f"'{name}' has {len(observed)} observations and {len(terms)} likelihood terms", code="wrong-length"
            )
        log_weights, _ = smoothed_log_weights(-terms.reshape(len(terms), -1), _relative_efficiency(fit, terms))
        weights = np.exp(log_weights)
        below = (weights * (observed[:, None] > drawn.T)).sum(axis=1)
        at = (weights * (observed[:, None] == drawn.T)).sum(axis=1)
        out[name] = np.clip(below + rng.uniform(size=len(below)) * at, 0, 1)
    return out


def quantile_residuals(pit: Array, n_draws: int) -> Array:
    """Randomised quantile residuals [1]_: normal quantiles of LOO-PIT values, standard normal if calibrated.

    Parameters
    ----------
    pit
        Shape (observation,).
    n_draws
        Number of posterior draws: a probability below that of half a draw is not known.

    References
    ----------
    .. [1] Dunn, Smyth (1996). Randomized quantile residuals. Journal of Computational and Graphical Statistics 5(3),
       236-244.
    """
    return np.array([NormalDist().inv_cdf(p) for p in np.clip(pit, 0.5 / n_draws, 1 - 0.5 / n_draws)])


def applicable(fit: Fitted) -> list[str]:
    """The names of the plots of checks and statistics that a fit has, found from a few of its draws."""
    few, _ = thinned(fit, _FEW)
    try:
        few.add({"posterior_predictive": posterior_predictive(few, each=1)})
        name, (observed, drawn) = next(iter(replications(few, "posterior").items()))
    except BayeslabError:
        return []
    whole = bool(np.all(observed == np.round(observed)) and np.all(drawn == np.round(drawn)))
    out = ["density", *(["pit", "residuals"] if _each_left_out(few, name, len(observed)) else [])]
    used = fit.bound_model.outcomes_used()
    out += ["calibration"] if whole and used != "sequence" and name not in fit.data.derive else []
    column = fit.data.dataset.columns.get(name)
    if column is None or not column.text:
        out += [word for word in STATISTICS if word != "zeros" or whole or (observed == 0).any()]
    return out


def _each_left_out(fit: Fitted, name: str, n: int) -> bool:
    """Whether each of ``n`` observations of an outcome has a log likelihood, at each of several draws."""
    if fit.posterior.sizes["chain"] * fit.posterior.sizes["draw"] < 2:
        return False
    try:
        terms = log_likelihood(fit)
    except BayeslabError:
        return False
    return name in terms and terms[name].isel(chain=0, draw=0).size == n


def plot_check(fit: Fitted, what: str, node: str | None) -> Any:
    """See :meth:`bayeslab.results.fit.Fit.plot_check`."""

    both = replications(fit, "posterior")
    if node is not None and node not in both:
        raise OptionError(f"the model does not predict '{node}'{hint(node, both)}", code="unknown-variable")
    name = node or next(iter(both))
    observed, drawn = both[name]
    title = fit.model.data.title(name)
    if what == "density":
        discrete = bool(np.all(observed == np.floor(observed)) and np.all(drawn[:50] == np.floor(drawn[:50])))
        levels = fit.data.labels.get(name) if discrete else None
        if levels is not None and len(levels) <= max(observed.max(), drawn.max()):
            levels = None
        return predictive.density_overlay(observed, drawn, title, discrete=discrete, levels=levels)
    if what == "pit":
        values = loo_pit(fit)[name]
        bands = uniform_bands(len(values), 50, np.random.default_rng(0))
        return predictive.pit_ecdf(values, bands.points, bands.lower, bands.upper, title)
    if what == "residuals":
        residuals = quantile_residuals(loo_pit(fit)[name], len(drawn))
        return predictive.residuals(drawn.mean(axis=0), residuals, title)
    if what == "calibration":
        table = calibration(fit, None, 10, name, 0.89, None)
        table = table[table["state"] == table["state"].iloc[-1]]
        share, low, high = (table[c].to_numpy() for c in ("observed", "eti89_lb", "eti89_ub"))
        event = f"{name} = {table['state'].iloc[-1]}"
        return predictive.calibration_curve(table["predicted"].to_numpy(), share, low, high, event)
    if what not in STATISTICS:
        # Only outcomes whose values have probabilities can be calibrated.
        whole = bool(np.all(observed == np.round(observed)))
        known = [*(word for word in CHECKS if word != "calibration" or whole), *STATISTICS]
        raise OptionError(f"unknown picture '{what}'{hint(what, known)}", code="unknown-word")
    function = STATISTICS[what]
    real, replicated = float(function(observed)), np.asarray(function(drawn), float)
    return predictive.statistic(real, replicated, f"{what} of {title}", two_sided(real, replicated))


# ------------------------------------------------------------------------ decisions of a fit


def _unseen(fit: Fitted, data: Any, node: str | None, what: str) -> str | None:
    """The outcome, if its observed cells must be hidden from the model that predicts them, else None.

    Rows of a mixture, a net or latent features are independent, so the column is removed. Rows of a chain are not, and
    without the column the states would be unknown.
    """
    used = fit.bound_model.outcomes_used()
    if used == "no" or fit.has_group("parent_sets"):
        return None
    names = list(fit.bound_model.outcomes())
    rows = fit.data if data is None else bound_to(fit, data)
    columns = {n: c for n in names if (c := rows.dataset.columns.get(n)) is not None}
    lacking = [n for n in names if n not in columns or columns[n].absent().any()]
    asked = node if node is not None or len(lacking) != 1 else lacking[0]
    if used == "sequence":
        if what == "calibration" or not lacking:
            raise OptionError(
                f"the states of a hidden Markov model are inferred from the cells, so {what} would predict cells from"
                f" themselves: compare models by compare(...), or leave the cells to be predicted empty",
                code="not-applicable",
            )
        return None
    if asked is None and len(names) > 1:
        raise OptionError(f"the model predicts {listed(names)}: choose one with node=", code="incomplete")
    hidden = asked or names[0]
    if hidden not in columns and hidden in rows.derive:
        raise OptionError(
            f"'{hidden}' is computed from other columns, so that {what} would predict it from its value: compute it in"
            " the table instead",
            code="not-applicable",
        )
    return hidden


def _outcome(drawn: Any, node: str | None) -> Any:
    names = [str(n) for n in drawn.data_vars]
    if node is None and len(names) > 1:
        raise OptionError(f"the model predicts {listed(names)}: choose one with node=", code="incomplete")
    if node is not None and node not in names:
        raise OptionError(f"the model does not predict '{node}'{hint(node, names)}", code="unknown-variable")
    return drawn[node or names[0]].stack(sample=("chain", "draw")).transpose("sample", ...)


def _undecided(fit: Fitted, data: Any, drawn: Any) -> Any:
    """Draws of the rows that need a decision; for a chain, rows with a missing cell that is predicted.

    Raises
    ------
    OptionError
        There is no such row.
    """
    if fit.bound_model.outcomes_used() != "sequence":
        return drawn
    rows = fit.data if data is None else bound_to(fit, data)
    column, values = rows.dataset.columns.get(str(drawn.name)), drawn.to_numpy()
    open_ = np.ones(values.shape[1], bool) if column is None else column.absent()
    # A cell without the past rows that its window needs has no distribution.
    asked = open_ & ~np.isnan(values).any(axis=0)
    if not asked.any():
        raise OptionError(
            f"no row has an open cell of '{drawn.name}' with a distribution: there is nothing to decide",
            code="not-applicable",
        )
    kept = drawn.isel({drawn.dims[1]: np.flatnonzero(asked)})
    whole = bool(np.isnan(values).any()) and bool((kept == np.round(kept)).all())
    return kept.astype(np.int64) if whole else kept


def _states(fit: Fitted, name: str, draws: np.ndarray) -> tuple[list[Any], NDArray[np.int64]]:
    """Names and codes of the values that a discrete outcome can take."""
    if draws.dtype.kind not in "iub":
        raise OptionError(f"'{name}' is continuous; this is for discrete outcomes", code="not-applicable")
    labels = level_labels(fit, name)
    if labels is not None and len(labels) > draws.max():
        return labels.tolist(), np.arange(len(labels))
    observed = fit.data_tree["observed_data"].to_dataset().get(name)
    known = (
        np.unique(draws)
        if observed is None
        else np.union1d(np.unique(draws), np.unique(observed.to_numpy()).astype(int))
    )
    if known.min() >= 0 and known.max() <= 1:
        known = np.array([0, 1])
    return known.tolist(), known.astype(np.int64)


def _probabilities(draws: np.ndarray, states: NDArray[np.int64]) -> Array:
    """Shares of the draws in each state, shape (case, state)."""
    return np.stack([(draws == state).mean(axis=0).ravel() for state in states], axis=-1)


def _of_states(
    fit: Fitted,
    data: Any,
    name: str,
    words: Sequence[Any],
    draws: np.ndarray,
    states: NDArray[np.int64],
    seed: int | None,
    unseen: str | None,
) -> Array:
    """Probabilities of an outcome's states from `predict`, or shares of draws if it provides none."""
    import pandas as pd

    if draws.ndim <= 2:
        table = predict(fit, data, "probabilities", seed=seed, unseen=unseen)
        columns, frame = [f"P({name}={word})" for word in words], pd.DataFrame(table)
        if not set(columns).isdisjoint(frame) and len(frame) == draws[0].size:
            # Values that occur in no draw are treated as impossible.
            return np.asarray(frame.reindex(columns=columns, fill_value=0.0), float)
    return _probabilities(draws, states)


def _amounts(fit: Fitted, name: str, draws: np.ndarray) -> np.ndarray:
    """Draws of an outcome as numbers: the numbers of its levels, where it has levels.

    Raises
    ------
    OptionError
        Its levels are words, which have no mean, no median and no quantiles.
    """
    levels = fit.bound_model.outcome_levels().get(name)
    if levels is None:
        return draws
    numbers = numbers_of_levels(levels)
    if numbers is None:
        raise OptionError(
            f"the levels of '{name}' are words ({listed(list(map(str, levels)))}), which cannot be too large or too"
            " small by an amount: use loss zero_one, or a loss for each level",
            code="not-applicable",
        )
    return np.asarray(numbers[draws])


def decide(fit: Fitted, data: Any, loss: Any, node: str | None, seed: int | None) -> pd.DataFrame:
    """See :meth:`bayeslab.results.fit.Fit.decide`."""
    import pandas as pd

    unseen = _unseen(fit, data, node, "decide")
    drawn = _outcome(predict(fit, data, "draws", seed=seed, unseen=unseen), node or unseen)
    drawn = _undecided(fit, data, drawn)
    name, draws = str(drawn.name), drawn.to_numpy()
    dims = [str(d) for d in drawn.dims[1:]]
    grid = np.meshgrid(
        *(drawn[d].to_numpy() if d in drawn.coords else np.arange(drawn.sizes[d]) for d in dims), indexing="ij"
    )
    columns: dict[str, Any] = {d: g.ravel() for d, g in zip(dims, grid, strict=True)}
    if isinstance(loss, losses.Asymmetric) or (isinstance(loss, str) and loss != "zero_one"):
        decision = losses.from_draws(_amounts(fit, name, draws), loss)  # type: ignore[arg-type]
        columns |= {"action": np.ravel(decision.action), "expected_loss": np.ravel(decision.expected_loss)}
        return pd.DataFrame(columns)
    if draws.dtype.kind not in "iub":
        if not isinstance(loss, str):
            raise OptionError(
                f"a loss for each state needs an outcome that has states, and '{name}' is continuous: use absolute,"
                " squared or the costs of too much and too little",
                code="not-applicable",
            )
        losses.from_draws(draws, "zero_one")  # raises the error
    words, states = _states(fit, name, draws)
    if isinstance(loss, str) and level_labels(fit, name) is None:
        states = values_between(states).astype(np.int64)
        words = states.tolist()
    probabilities = _of_states(fit, data, name, words, draws, states, seed, unseen)
    if isinstance(loss, str):
        likely, remaining = probabilities.argmax(axis=1), 1 - probabilities.max(axis=1)
        return pd.DataFrame(columns | {"action": np.asarray(words)[likely], "expected_loss": remaining})
    actions, matrix = _matrix(loss, words)
    if np.any(np.abs(probabilities.sum(axis=1) - 1) > 1e-9):
        # The matrix has no loss for other values than those drawn.
        probabilities = _probabilities(draws, states)
    best = losses.from_probabilities(probabilities, matrix)
    columns |= {"action": np.asarray(actions, dtype=object)[best.action], "expected_loss": best.expected_loss}
    every = losses.expected_losses(probabilities, matrix)
    columns |= {f"E[{action}]": every[:, k] for k, action in enumerate(actions)}
    return pd.DataFrame(columns)


def _matrix(loss: Any, states: Sequence[Any]) -> tuple[list[Any], Array]:
    """Names of the actions and the loss matrix (state, action), from a table, an array or {action: {state: loss}}."""
    words = [str(s) for s in states]
    if isinstance(loss, Mapping):
        for action, entry in loss.items():
            if not isinstance(entry, Mapping):
                raise OptionError(
                    f"a loss is {{action: {{state: number}}}}; of '{action}' it is {entry!r:.60}", code="wrong-type"
                )
        rows = {str(a): {str(s): v for s, v in entry.items()} for a, entry in loss.items()}
        for action, entry in rows.items():
            for state in words:
                if state not in entry:
                    raise OptionError(f"action '{action}' has no loss for the state '{state}'", code="incomplete")
            for state in entry:
                if state not in words:
                    raise OptionError(
                        f"action '{action}': no state '{state}'{hint(state, words)}", code="unknown-state"
                    )
        return list(rows), np.array([[float(entry[s]) for entry in rows.values()] for s in words])
    if hasattr(loss, "index") and hasattr(loss, "columns"):
        table = {str(a): dict(zip(map(str, loss.index), loss[a], strict=True)) for a in loss.columns}
        return _matrix(table, states)
    if isinstance(loss, str):
        raise OptionError(
            f"this takes a loss for each action and state, {{action: {{state: number}}}}, not '{loss}'",
            code="wrong-type",
        )
    matrix = real(loss, "a loss matrix")
    if matrix.ndim != 2 or len(matrix) != len(states):
        raise OptionError(
            f"a loss matrix has one row for each of {listed(states)} and one column an action", code="wrong-shape"
        )
    return (list(states) if matrix.shape[1] == len(states) else list(range(matrix.shape[1]))), matrix


def calibration(fit: Fitted, data: Any, bins: int, node: str | None, ci_prob: float, seed: int | None) -> pd.DataFrame:
    """See :meth:`bayeslab.results.fit.Fit.calibration`."""
    import pandas as pd

    unseen = _unseen(fit, data, node, "calibration")
    drawn = _outcome(predict(fit, data, "draws", seed=seed, unseen=unseen), node or unseen)
    name, draws = str(drawn.name), drawn.to_numpy()
    words, states = _states(fit, name, draws)
    if data is None:
        happened = fit.data_tree["observed_data"][name].to_numpy().ravel()
    else:
        term = bound_to(fit, data).term(name)
        happened = _positions(fit, name, np.ravel(term.codes if term.value is None else term.value), term.value is None)
    probabilities = _of_states(fit, data, name, words, draws, states, seed, unseen)
    if len(happened) != len(probabilities):
        raise DataError(
            f"{len(probabilities)} predictions of '{name}' and {len(happened)} outcomes", code="wrong-length"
        )
    there = np.isin(happened, states)
    probabilities, happened = probabilities[there], happened[there]
    parts = []
    # For two states the second suffices.
    for k in range(len(states)) if len(states) > 2 else [len(states) - 1]:
        curve = scores.calibration_bins(probabilities[:, k], happened == states[k], bins, ci_prob)
        columns = {
            "state": [words[k]] * len(curve.count),
            "predicted": curve.predicted,
            "observed": curve.observed,
            f"eti{100 * ci_prob:g}_lb": curve.lower,
            f"eti{100 * ci_prob:g}_ub": curve.upper,
            "n": curve.count,
        }
        parts.append(pd.DataFrame(columns))
    table = pd.concat(parts, ignore_index=True)
    places = np.searchsorted(states, happened)
    table.attrs |= {
        "node": name,
        "brier": scores.brier_score(probabilities, places),
        "log_score": scores.log_score(_floored(probabilities, len(draws)), places),
    }
    return table


def _positions(fit: Fitted, name: str, values: np.ndarray, coded: bool) -> np.ndarray:
    """Outcomes as positions of their levels, -1 for a number that is no level; values that are not levels as given."""
    levels = fit.bound_model.outcome_levels().get(name)
    numbers = None if levels is None or coded else numbers_of_levels(levels)
    if numbers is None:
        return values
    order = np.argsort(numbers)
    places = order[np.searchsorted(numbers[order], values).clip(0, len(numbers) - 1)]
    return np.where(numbers[places] == values, places, -1)


def _floored(probabilities: Array, n_draws: int) -> Array:
    """Probabilities from draws with half a draw added to every state, so that none is zero."""
    return np.asarray((probabilities * n_draws + 0.5) / (n_draws + 0.5 * probabilities.shape[1]))
