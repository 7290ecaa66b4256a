"""Models of any kind on the same splits, by the same scores.

A model with a posterior and a classical learner are treated alike: fitted to the rows of a training set, asked for the
rows left out. Everything that looks at data, also tuning and scaling, happens inside the training rows; only the names
of levels are known from all rows. Classes are scored by accuracy, mean log probability, Brier score and, if one is
given, expected cost of the action that a loss matrix makes best; numbers by errors and, where the model has one, the
log predictive density.

References
----------
.. [1] Stone (1974). Cross-validatory choice and assessment of statistical predictions. JRSS B 36, 111-147.
.. [2] Gneiting, Raftery (2007). Strictly proper scoring rules, prediction, and estimation. JASA 102, 359-378.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from bayeslab import registry
from bayeslab.dataset import Data, Dataset, Memory, bind
from bayeslab.decisions import loss as losses
from bayeslab.decisions import scores
from bayeslab.decisions.paired import PairedDifference, correlated_t
from bayeslab.errors import BayeslabError, DataError, OptionError, hint, listed
from bayeslab.progress import reporter
from bayeslab.spec import Model

if TYPE_CHECKING:
    import pandas as pd

    from bayeslab.results.fit import Fit

__all__ = ["CrossValidation", "LearningCurve", "Split", "cross_validate", "learning_curve", "splits"]

Array = NDArray[np.float64]

# Less is better.
LOSSES = {"brier", "cost", "rmse", "mae"}


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to fit to and rows left out."""

    inside: NDArray[np.int64]
    outside: NDArray[np.int64]


def splits(
    outcome: NDArray[Any],
    folds: int | float | Literal["loo"],
    repeats: int,
    rng: np.random.Generator,
    *,
    classes: bool,
) -> list[Split]:
    """Splits of the rows: k folds, leave one out, or a share held out; classes are spread evenly over folds.

    Parameters
    ----------
    outcome
        One value a row; of classes their codes.
    folds
        Number of folds; ``loo``; or the share of rows to hold out.
    """
    n = len(outcome)
    if folds == "loo":
        folds = n
    if isinstance(folds, bool) or not isinstance(folds, int | float):
        raise OptionError(f"folds is a number of folds, loo, or the share of rows to hold out, not {folds!r}")
    if isinstance(folds, float) and not 0 < folds < 1:
        raise OptionError(f"the share of rows to hold out lies between 0 and 1, not {folds!r}")
    if isinstance(folds, int) and not 2 <= folds <= n:
        raise OptionError(f"the number of folds lies between 2 and the number of rows, {n}; not {folds!r}")
    if repeats < 1:
        raise OptionError(f"repeats is a whole number ≥ 1, not {repeats!r}")
    out = []
    for _ in range(1 if folds == n else repeats):
        # Rows in random order, and of classes one class after the other: dealt out in turns.
        order = rng.permutation(n)
        if classes:
            order = order[np.argsort(outcome[order], kind="stable")]
        if isinstance(folds, float):
            left = min(max(round(folds * n), 1), n - 1)
            # Every so many-th row of the order, so that each class gives its share.
            chosen = np.zeros(n, bool)
            chosen[order[np.floor((np.arange(left) + rng.random()) * n / left).astype(int)]] = True
            out.append(Split(np.flatnonzero(~chosen), np.flatnonzero(chosen)))
            continue
        fold = np.empty(n, int)
        fold[order] = np.arange(n) % folds
        out += [Split(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(folds)]
    return out


@dataclass(frozen=True, eq=False)
class _Entry:
    """A model on all rows."""

    name: str
    model: Model
    whole: Data


@dataclass(frozen=True, eq=False)
class _Task:
    """What all models predict."""

    target: str
    rows: str
    outcome: NDArray[Any]
    classes: list[str] | None
    loss: Any


def cross_validate(
    models: Mapping[str, Any],
    data: Any = None,
    *,
    folds: int | float | Literal["loo"] = 10,
    repeats: int = 1,
    target: str | None = None,
    loss: Any = None,
    method: str | None = None,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> CrossValidation:
    """Score models of the same column on the same splits.

    Parameters
    ----------
    models
        By the names to call them by: models, paths of model files, or fits (whose model is fitted again).
    data
        As for :func:`bayeslab.fit`; None: what each model names.
    folds
        Number of folds; ``"loo"``: leave one out; a share such as 0.3: so many rows held out.
    repeats
        Different divisions into folds, or hold-outs.
    target
        The column to predict, where the models have several outcomes.
    loss
        Of classes: a matrix as for :meth:`Fit.decide <bayeslab.results.fit.Fit.decide>`; adds the score ``cost``.
    method, **options
        As for :func:`bayeslab.fit`; the same for all models. None: what each model says.
    seed
        Of the splits and the fits.

    Returns
    -------
    CrossValidation

    Raises
    ------
    DataError, OptionError
        Models that predict different columns, or the same from different values.
    """
    entries, task = _prepared(models, data, target, loss)
    rng = np.random.default_rng(seed)
    plan = splits(task.outcome, folds, repeats, rng, classes=task.classes is not None)
    records: list[dict[str, Any]] = []
    predictions = {entry.name: np.full(_shape(task, plan, repeats), np.nan) for entry in entries}
    per_repeat = max(len(plan) // max(repeats, 1), 1)
    with reporter(progress) as view:
        for number, split in enumerate(plan):
            for entry in entries:
                view.note(f"split {number + 1} of {len(plan)}: {entry.name}")
                predicted, log_density = _scored(entry, task, split, method, options, seed)
                predictions[entry.name][number // per_repeat, split.outside] = predicted
                measured = _measures(task, predicted, task.outcome[split.outside], log_density)
                records.append({"model": entry.name, "split": number, "rows": len(split.outside), **measured})
    return CrossValidation(records, predictions, task, len(task.outcome), folds)


def _shape(task: _Task, plan: Sequence[Split], repeats: int) -> tuple[int, ...]:
    whole = (max(repeats, 1), len(task.outcome))
    return whole if task.classes is None else (*whole, len(task.classes))


def _prepared(models: Mapping[str, Any], data: Any, target: str | None, loss: Any) -> tuple[list[_Entry], _Task]:
    """Every model on all rows, and that they predict the same."""
    from bayeslab.fitting import _Source
    from bayeslab.io.tables import read_dataset
    from bayeslab.results.fit import Fit

    if not isinstance(models, Mapping) or not models:
        raise OptionError("nothing to compare: give models by name, {'name': model, ...}")
    entries = []
    for name, given in models.items():
        if isinstance(given, Fit):
            dataset = given.data.dataset if data is None else read_dataset(given.model.data, None, data)
            family = registry.load("families", given.model.model.family)
            entries.append(_Entry(name, given.model, bind(given.model, dataset, family.factors(given.model))))
            continue
        if not isinstance(given, Model | str | os.PathLike):
            raise OptionError(f"'{name}' is a model, a fit or the path of a model file, not {type(given).__name__}")
        source = _Source(given)
        with source.located():
            entries.append(_Entry(name, source.model, source.bound(data)))
    return entries, _task(entries, target, loss)


def _task(entries: Sequence[_Entry], target: str | None, loss: Any) -> _Task:
    found: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        family = registry.load("families", entry.model.model.family)
        found[entry.name] = tuple(family.outcomes(entry.model, entry.whole.names()))
    if target is None:
        own = [str(t) for entry in entries if (t := getattr(entry.model.model, "target", None))]
        single = [names[0] for names in found.values() if len(names) == 1]
        target = next(iter([*own, *single]), None)
    if target is None:
        raise OptionError(f"the models predict {listed(sorted(set().union(*found.values())))}: choose one with target=")
    for name, names in found.items():
        if target not in names:
            raise DataError(f"'{name}' predicts {listed(names)}, not '{target}'{hint(target, names)}")
    first, *others = entries
    outcome, classes = _outcome(first, target)
    for entry in entries:
        values, words = _outcome(entry, target)
        if words is not None and classes is None:
            outcome, classes = values, words  # numbers to one model are classes to another
    for entry in others:
        _same(first, entry, target)
    return _Task(target, first.model.data.rows, outcome, classes, loss)


def _outcome(entry: _Entry, target: str) -> tuple[NDArray[Any], list[str] | None]:
    """Values of the target: codes and the words for them, or numbers."""
    term = entry.whole.term(target)
    if term.dims != (entry.model.data.rows,):
        raise DataError(f"'{target}' does not have one value a row, so that rows cannot be left out")
    if term.codes is not None:
        return np.asarray(term.codes, np.int64), [str(x) for x in entry.whole.labels[target]]
    values = np.asarray(term.value)
    if set(np.unique(values).tolist()) <= {0, 1}:
        return values.astype(np.int64), ["0", "1"]
    return values.astype(float), None


def _same(first: _Entry, other: _Entry, target: str) -> None:
    a, b = (entry.whole.dataset.columns.get(target) for entry in (first, other))
    if a is None or b is None:
        return
    if len(a.values) != len(b.values):
        raise DataError(
            f"'{first.name}' has {len(a.values)} rows and '{other.name}' {len(b.values)}: compare on the same data"
        )
    differ = np.flatnonzero(np.asarray(a.values) != np.asarray(b.values))
    if len(differ):
        i = int(differ[0])
        raise DataError(
            f"'{first.name}' and '{other.name}' are of different data: '{target}', row {i + 1}, is {a.values[i]} in the"
            f" one and {b.values[i]} in the other"
        )


# ---------------------------------------------------------------------------------- one split


def _fitted(entry: _Entry, rows: NDArray[np.int64], method: str | None, options: Any, seed: int) -> Fit:
    """The model fitted to some rows; the names of levels are those of all."""
    from bayeslab.fitting import fit_bound

    family = registry.load("families", entry.model.model.family)
    known = Memory({d: list(v) for d, v in entry.whole.memory().levels.items()}, {})
    data = bind(entry.model, entry.whole.dataset.take(rows), family.factors(entry.model), known)
    if entry.model.model.family == "learner":
        # Rows of the training set are left out only to learn how wide the errors of numbers are.
        numbers = data.term(entry.model.model.target).codes is None  # type: ignore[attr-defined]
        return fit_bound(entry.model, data, "train", seed=seed, folds=min(5, len(rows)) if numbers else 0)
    return fit_bound(entry.model, data, method, seed=seed, **options)


def _scored(
    entry: _Entry, task: _Task, split: Split, method: str | None, options: Any, seed: int
) -> tuple[Array, Array | None]:
    """Predictions of the rows left out, and of numbers the log density of their outcomes."""
    try:
        fit = _fitted(entry, split.inside, method, options, seed)
        test = entry.whole.dataset.take(split.outside)
        predicted = _predicted(fit, task, test)
        # Probabilities of classes are averaged over the posterior already.
        return predicted, _log_densities(fit, task, test) if task.classes is None else None
    except BayeslabError as error:
        raise type(error)(f"{entry.name}, with {len(split.inside)} rows: {error.message}") from None


def _both_sides(
    entry: _Entry, task: _Task, split: Split, method: str | None, options: Any, seed: int
) -> dict[str, float]:
    """Scores of the rows left out, and, with ``training_`` before their names, of the rows fitted to."""
    try:
        fit = _fitted(entry, split.inside, method, options, seed)
        sides = [_predicted(fit, task, entry.whole.dataset.take(rows)) for rows in (split.inside, split.outside)]
    except BayeslabError as error:
        raise type(error)(f"{entry.name}, with {len(split.inside)} rows: {error.message}") from None
    own = _measures(task, sides[0], task.outcome[split.inside], None)
    return _measures(task, sides[1], task.outcome[split.outside], None) | {f"training_{n}": x for n, x in own.items()}


def _predicted(fit: Fit, task: _Task, test: Dataset) -> Array:
    """Probabilities of the classes (rows, classes), or expected values (rows,)."""
    n_rows = len(test.columns[task.target].values)
    hidden = Dataset({n: c for n, c in test.columns.items() if n != task.target}, test.rows, test.levels)
    if task.classes is None:
        frame = fit.predict(hidden, "mean")
        if "node" in frame:
            frame = frame[frame["node"] == task.target]
        return np.asarray(frame["mean"], float)
    frame = fit.predict(hidden, "probabilities")
    out = np.zeros((n_rows, len(task.classes)))
    for k, word in enumerate(task.classes):
        column = f"P({task.target}={word})"
        if column in frame:
            out[:, k] = np.asarray(frame[column], float)
    total = out.sum(axis=1, keepdims=True)
    return np.asarray(out / np.where(total > 0, total, 1.0))


def _log_densities(fit: Fit, task: _Task, test: Dataset) -> Array | None:
    """Log predictive density of each outcome; None where the model has none."""
    from scipy.special import logsumexp

    from bayeslab.results.predict import bound_to, log_likelihood

    family = registry.load("families", fit.model.model.family)
    if tuple(family.outcomes(fit.model, fit.data.names())) != (task.target,):
        return None  # the density of a row is of all its outcomes, not of the target given the others
    try:
        terms = log_likelihood(fit, bound_to(fit, test))
    except BayeslabError:
        return None
    if task.target not in terms or terms[task.target].ndim != 3:
        return None
    values = terms[task.target].to_numpy().reshape(-1, terms[task.target].shape[-1])
    return np.asarray(logsumexp(values, axis=0) - np.log(len(values)))


def _measures(task: _Task, predicted: Array, outcome: NDArray[Any], log_density: Array | None) -> dict[str, float]:
    if task.classes is None:
        gap = outcome - predicted
        out = {"rmse": float(np.sqrt(np.mean(gap**2))), "mae": float(np.mean(np.abs(gap)))}
        return out | ({"log_score": float(np.mean(log_density))} if log_density is not None else {})
    out = {
        "accuracy": float(np.mean(predicted.argmax(axis=1) == outcome)),
        "log_score": scores.log_score(predicted, outcome),
        "brier": scores.brier_score(predicted, outcome),
    }
    if task.loss is not None:
        matrix = _matrix(task)
        chosen = losses.from_probabilities(predicted, matrix).action
        out["cost"] = float(np.mean(matrix[outcome, chosen]))
    return out


def _matrix(task: _Task) -> Array:
    from bayeslab.results.ppc import _matrix as named

    assert task.classes is not None
    return named(task.loss, task.classes)[1]


# ------------------------------------------------------------------------------------ the results


class CrossValidation:
    """Scores of models on the same splits.

    Attributes
    ----------
    scores : pandas.DataFrame
        One row a model and split: the number of rows left out, and each score.
    predictions : dict of str to ndarray
        By model, what it said of each row when the row was left out: probabilities of the classes, shape (repeats,
        rows, classes), or expected values (repeats, rows); NaN where a row was never left out.
    classes : list of str or None
        Classes of the target.
    """

    def __init__(
        self,
        records: list[dict[str, Any]],
        predictions: Mapping[str, Array],
        task: _Task,
        n_rows: int,
        folds: int | float | str,
    ) -> None:
        import pandas as pd

        self.scores = pd.DataFrame(records)
        self.predictions, self.classes, self.target = dict(predictions), task.classes, task.target
        self._outcome, self._n_rows, self._folds = task.outcome, n_rows, folds

    @property
    def measures(self) -> list[str]:
        """The scores that all models have."""
        own = [c for c in self.scores.columns if c not in ("model", "split", "rows")]
        return [c for c in own if not self.scores[c].isna().any()]

    @property
    def models(self) -> list[str]:
        return list(self.predictions)

    @property
    def table(self) -> pd.DataFrame:
        """Mean of each score over splits and its standard deviation; the best model first."""
        import pandas as pd

        first = self.measures[0]
        rows = {}
        for name in self.models:
            own = self.scores[self.scores["model"] == name]
            weights = own["rows"].to_numpy()
            row: dict[str, float] = {}
            for measure in [c for c in own.columns if c not in ("model", "split", "rows")]:
                values = own[measure].to_numpy()
                row[measure] = float(np.average(values, weights=weights))
                if len(values) > 1:
                    with np.errstate(invalid="ignore"):
                        row[f"{measure}_sd"] = float(np.std(values, ddof=1))
            rows[name] = row
        frame = pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")
        return frame.sort_values(first, ascending=first in LOSSES, kind="stable")

    def difference(self, first: str, second: str, measure: str | None = None, margin: float = 0.01) -> PairedDifference:
        """How probable it is that one model is better than another by more than a margin.

        Parameters
        ----------
        first, second
            Names of models.
        measure
            A score; default the first (``accuracy``, or ``rmse``). Where less is better, the sign is turned, so that a
            positive difference always speaks for ``first``.
        margin
            A difference up to this counts as none.

        Returns
        -------
        PairedDifference
            With ``better``, ``same`` and ``worse``, by the Bayesian correlated t-test.
        """
        chosen = measure or self.measures[0]
        if chosen not in self.measures:
            raise OptionError(f"no score '{chosen}' of all models{hint(chosen, self.measures)}")
        for name in (first, second):
            if name not in self.predictions:
                raise OptionError(f"no model '{name}'{hint(name, self.predictions)}")
        a, b = (
            self.scores[self.scores["model"] == name].sort_values("split")[chosen].to_numpy()
            for name in (first, second)
        )
        sign = -1.0 if chosen in LOSSES else 1.0
        return correlated_t(sign * (a - b), float(self.scores["rows"].mean()) / self._n_rows, margin)

    def differences(self, measure: str | None = None, margin: float = 0.01) -> pd.DataFrame:
        """Every model against the best: mean difference, interval, and probabilities of better, same, worse."""
        import pandas as pd

        best, *others = list(self.table.index)
        rows = {}
        for name in others:
            found = self.difference(best, name, measure, margin)
            low, high = found.interval()
            rows[f"{best} − {name}"] = {
                "difference": found.mean, "eti89_lb": low, "eti89_ub": high,
                "better": found.better, "same": found.same, "worse": found.worse,
            }  # fmt: skip
        return pd.DataFrame.from_dict(rows, orient="index")

    def calibration(self, model: str, bins: int = 10, *, together: bool = False, ci_prob: float = 0.89) -> pd.DataFrame:
        """Predicted probabilities of rows left out against how often the class was the true one.

        Parameters
        ----------
        together
            One curve for more than two classes, in which each row counts once for each of them (state ``any``).

        Returns
        -------
        pandas.DataFrame
            As :meth:`Fit.calibration <bayeslab.results.fit.Fit.calibration>` gives it.
        """
        import pandas as pd

        if self.classes is None:
            raise OptionError(f"'{self.target}' is a number; calibration curves are of classes")
        if model not in self.predictions:
            raise OptionError(f"no model '{model}'{hint(model, self.predictions)}")
        said = self.predictions[model]
        there = ~np.isnan(said[..., 0])
        happened = np.broadcast_to(self._outcome, there.shape)[there]
        if together:
            curves = [scores.class_bins(said[there], happened, self.classes, bins, ci_prob)]
        else:
            each = range(len(self.classes)) if len(self.classes) > 2 else [1]
            curves = [
                (self.classes[k], scores.calibration_bins(said[there][:, k], happened == k, bins, ci_prob))
                for k in each
            ]
        parts = []
        for state, found in curves:
            parts.append(
                pd.DataFrame(
                    {
                        "state": [state] * len(found.count),
                        "predicted": found.predicted,
                        "observed": found.observed,
                        f"eti{100 * ci_prob:g}_lb": found.lower,
                        f"eti{100 * ci_prob:g}_ub": found.upper,
                        "n": found.count,
                    }
                )
            )
        return pd.concat(parts, ignore_index=True)

    def plot(self, measure: str | None = None) -> Any:
        """The scores of every split, by model; a matplotlib figure."""
        from bayeslab.plots.learning import scores_plot

        return scores_plot(self.scores, measure or self.measures[0], list(self.table.index))

    def plot_calibration(self, bins: int = 10) -> Any:
        """Calibration curves of all models: of two classes the second, of more all together; a matplotlib figure."""
        from bayeslab.plots.learning import calibration_plot

        curves = {name: self.calibration(name, bins, together=True) for name in self.models}
        state = next(iter(curves.values()))["state"].iloc[0]
        event = f"any {self.target}" if state == "any" else f"{self.target} = {state}"
        return calibration_plot(curves, event)

    def _told(self) -> str:
        how = "leave one out" if self._folds in ("loo", self._n_rows) else f"{self._folds} folds"
        if isinstance(self._folds, float):
            how = f"{100 * self._folds:g} % held out"
        return f"'{self.target}', {self._n_rows} rows, {how}, {self.scores['split'].nunique()} splits"

    def __repr__(self) -> str:
        shown = f"{self._told()}\n{self.table.to_string(float_format=lambda x: f'{x:.4g}')}"
        if len(self.models) > 1 and self.scores["split"].nunique() > 1:
            shown += f"\n\n{self.differences().to_string(float_format=lambda x: f'{x:.3g}')}"
        return shown

    def _repr_html_(self) -> str:
        parts = [f"<p>{self._told()}</p>", self.table.to_html(float_format=lambda x: f"{x:.4g}")]
        if len(self.models) > 1 and self.scores["split"].nunique() > 1:
            parts.append(self.differences().to_html(float_format=lambda x: f"{x:.3g}"))
        return "".join(parts)


# ---------------------------------------------------------------------------------- learning curves


class LearningCurve:
    """Scores by the number of rows fitted to.

    Attributes
    ----------
    scores : pandas.DataFrame
        One row a model, size and repeat.
    """

    def __init__(self, records: list[dict[str, Any]], target: str) -> None:
        import pandas as pd

        self.scores, self.target = pd.DataFrame(records), target

    def table(self, measure: str | None = None, *, ci_prob: float = 0.89) -> pd.DataFrame:
        """Mean over repeats and the central band, by model and size."""
        import pandas as pd

        chosen = measure or next(c for c in self.scores.columns if c not in ("model", "size", "repeat", "rows"))
        tail = (1 - ci_prob) / 2
        rows = []
        for (name, size), own in self.scores.groupby(["model", "size"], sort=False):
            values = own[chosen].to_numpy()
            # Between minus infinity and a number there is nothing to interpolate.
            between: Literal["linear", "inverted_cdf"] = "linear" if np.isfinite(values).all() else "inverted_cdf"
            low, high = np.quantile(values, [tail, 1 - tail], method=between)
            percent = f"{100 * ci_prob:g}"
            rows.append(
                {"model": name, "size": size, chosen: values.mean(), f"eti{percent}_lb": low, f"eti{percent}_ub": high}
            )
        return pd.DataFrame(rows)

    def plot(self, measure: str | None = None) -> Any:
        """Means with bands; a matplotlib figure."""
        from bayeslab.plots.learning import learning_curve_plot

        return learning_curve_plot(self.table(measure), self.target)


def learning_curve(
    models: Mapping[str, Any],
    data: Any = None,
    *,
    sizes: Sequence[int],
    repeats: int = 20,
    target: str | None = None,
    loss: Any = None,
    method: str | None = None,
    seed: int = 0,
    progress: bool = True,
    **options: Any,
) -> LearningCurve:
    """Scores of models fitted to more and more rows, each time to a random subset, on all the others.

    Parameters
    ----------
    sizes
        Numbers of rows to fit to.
    repeats
        Random subsets of each size.
    models, data, target, loss, method, seed, **options
        As for :func:`cross_validate`.
    """
    entries, task = _prepared(models, data, target, loss)
    n = len(task.outcome)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 1 <= size < n:
            raise OptionError(f"sizes are whole numbers from 1 to {n - 1}, not {size!r}")
    records: list[dict[str, Any]] = []
    with reporter(progress) as view:
        for size in sizes:
            for repeat, child in enumerate(np.random.default_rng((seed, int(size))).spawn(repeats)):
                view.note(f"{size} rows, repeat {repeat + 1} of {repeats}")
                split = _subset(task, int(size), child)
                for entry in entries:
                    predicted, log_density = _scored(entry, task, split, method, options, seed)
                    measured = _measures(task, predicted, task.outcome[split.outside], log_density)
                    records.append({"model": entry.name, "size": int(size), "repeat": repeat, **measured})
    return LearningCurve(records, task.target)


def _subset(task: _Task, size: int, rng: np.random.Generator) -> Split:
    """A random subset; of classes one with two of them at least, where that is possible."""
    n = len(task.outcome)
    for _ in range(1000):
        order = rng.permutation(n)
        if task.classes is None or size < 2 or len(np.unique(task.outcome[order[:size]])) > 1:
            break
    return Split(np.sort(order[:size]), np.sort(order[size:]))
