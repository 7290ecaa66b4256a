"""Cross-validation of models of any kind, on the same splits and by the same scores.

Bayesian models and classical learners are treated alike: each is fitted to the training rows and predicts the held-out
rows. Everything that uses data, including tuning and scaling, uses the training rows only; only the names of levels
come from all rows. Classes are scored by accuracy, mean log probability, Brier score and, with a loss matrix, the
expected cost of the optimal action; numbers by errors and, if the model has one, the log predictive density.

References
----------
.. [1] Stone (1974). Cross-validatory choice and assessment of statistical predictions. JRSS B 36, 111-147.
.. [2] Gneiting, Raftery (2007). Strictly proper scoring rules, prediction, and estimation. JASA 102, 359-378.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal, Unpack

import numpy as np
from numpy.typing import NDArray

from bayeslab import arrays
from bayeslab.data.binding import bind
from bayeslab.data.bound import Data, Memory
from bayeslab.data.dataset import Dataset
from bayeslab.data.tables import read_dataset
from bayeslab.decisions import loss as losses
from bayeslab.decisions import scores
from bayeslab.decisions.paired import PairedDifference, correlated_t
from bayeslab.errors import BayeslabError, DataError, OptionError, hint, listed
from bayeslab.language.spec import Model
from bayeslab.options import SharedOptions
from bayeslab.plots.learning import calibration_plot, learning_curve_plot, scores_plot
from bayeslab.posterior.contract import Posterior, posterior_of
from bayeslab.posterior.event_kinds import LEFT, RIGHT
from bayeslab.progress import reporter
from bayeslab.results.common_scale import kinds, same_events, unlike_kinds
from bayeslab.results.fit import Fit
from bayeslab.results.fitted import bound_to
from bayeslab.results.psis import good_k, smoothed_log_weights
from bayeslab.streams import stream
from bayeslab.workers import check_jobs, each

if TYPE_CHECKING:
    import pandas as pd


__all__ = ["CrossValidation", "LearningCurve", "Split", "cross_validate", "learning_curve", "splits"]

Array = NDArray[np.float64]

# Scores of which smaller values are better.
LOSSES = {"brier", "cost", "rmse", "mae"}
# Default margin below which scores count as equal: absolute for scores without a unit, else relative to their scale.
_MARGIN = 0.01
# Fewer draws, such as a point, have no tail by which to judge a mean over them.
_TAIL = 100
# Scores with a smaller relative difference differ by rounding only.
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Split:
    """Training rows and held-out rows."""

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
    """Splits of the rows: k folds, leave-one-out, or a hold-out share; folds are stratified by class.

    Parameters
    ----------
    outcome
        One value per row; for classes their codes.
    folds
        Number of folds; ``loo``; or the share of rows to hold out.
    """
    n = len(outcome)
    if folds == "loo":
        folds = n
    if isinstance(folds, bool) or not isinstance(folds, int | float):
        raise OptionError(
            f"folds is a number of folds, loo, or the share of rows to hold out, not {folds!r}", code="out-of-range"
        )
    if isinstance(folds, float) and not 0 < folds < 1:
        raise OptionError(f"the share of rows to hold out lies between 0 and 1, not {folds!r}", code="out-of-range")
    if isinstance(folds, int) and not 2 <= folds <= n:
        raise OptionError(
            f"the number of folds lies between 2 and the number of rows, {n}; not {folds!r}", code="out-of-range"
        )
    if isinstance(folds, float) and not 1 <= round(folds * n) <= n - 2:
        raise OptionError(
            f"holding out {100 * folds:g} % of {n} rows leaves {round(folds * n)} to judge by and"
            f" {n - round(folds * n)} to learn from; it takes one row and two at least",
            code="out-of-range",
        )
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise OptionError(f"repeats is a whole number ≥ 1, not {repeats!r}", code="out-of-range")
    if folds == n and repeats > 1:
        raise OptionError(
            f"there is one way only to leave out each of {n} rows, so that nothing is gained by {repeats} repeats:"
            f" leave repeats out, or ask for fewer folds",
            code="conflict",
        )
    out = []
    for _ in range(repeats):
        # Rows in random order, sorted by class if there are classes, are dealt to the folds in turn.
        order = rng.permutation(n)
        if classes:
            order = order[np.argsort(outcome[order], kind="stable")]
        if isinstance(folds, float):
            left = round(folds * n)
            # Equally spaced rows of this order, so that each class contributes its share.
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
    """A model and all its rows."""

    name: str
    posterior: Posterior

    @property
    def model(self) -> Model:
        return self.posterior.model

    @property
    def whole(self) -> Data:
        return self.posterior.data


@dataclass(frozen=True, eq=False)
class _Task:
    """The prediction task shared by all models."""

    target: str
    rows: str
    outcome: NDArray[Any]
    classes: list[str] | None
    loss: Any
    # For numbers: whether some are censored, so that prediction errors are unknown, and whether the log densities of
    # all models are on the same scale.
    censored: bool = False
    one_scale: bool = True

    @property
    def notes(self) -> list[str]:
        """Which scores are left out, and why."""
        out = []
        if self.censored:
            out.append(f"rows of '{self.target}' are censored and their errors not known: the log score alone is given")
        if not self.one_scale:
            out.append(
                f"'{self.target}' is discrete in one model and continuous in another: a probability and a density have"
                f" no common scale, and log scores are left out"
            )
        return out


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
    jobs: int = 1,
    scheduler: str | None = None,
    progress: bool = True,
    **options: Unpack[SharedOptions],
) -> CrossValidation:
    """Cross-validate models that predict the same column, on the same splits.

    Parameters
    ----------
    models
        Models by name: models, paths of model files, or fits, whose models are refitted.
    data
        As for :func:`bayeslab.fit`; None: the data that each model names.
    folds
        Number of folds; ``"loo"`` for leave-one-out; or a share of rows to hold out, such as 0.3.
    repeats
        Number of random divisions into folds, or of hold-out samples; ``loo`` has only one.
    target
        The outcome to predict, if the models have several.
    loss
        For classes, a loss matrix as for :meth:`Fit.decide <bayeslab.results.fit.Fit.decide>`; adds the score ``cost``.
    method, **options
        As for :func:`bayeslab.fit`, the same for all models. None: each model's method.
    seed
        Seed of the splits and the fits.
    jobs, scheduler
        Number of processes that fit in parallel, or the address of a Dask scheduler (``tcp://host:8786``) whose workers
        do. The scores do not depend on them.

    Returns
    -------
    CrossValidation

    Raises
    ------
    DataError, OptionError
        The models predict different columns, or the same column with different values.
    """
    check_jobs(jobs)
    entries, task = _prepared(models, data, target, loss)
    rng = stream(seed, "splits")
    plan = splits(task.outcome, folds, repeats, rng, classes=task.classes is not None)
    records: list[dict[str, Any]] = []
    predictions = {entry.name: np.full(_shape(task, repeats), np.nan) for entry in entries}
    per_repeat = len(plan) // repeats
    problems: dict[str, list[str]] = {entry.name: [] for entry in entries}
    shared = _Shared(entries, task, plan, method, dict(options), seed)
    with reporter(progress) as view:

        def places() -> Iterator[_Place]:
            for number in range(len(plan)):
                for k, entry in enumerate(entries):
                    view.note(f"split {number + 1} of {len(plan)}: {entry.name}")
                    yield number, k

        scored = sorted(each(_scored_at, shared, places(), jobs=jobs, scheduler=scheduler), key=itemgetter(0))
    for (number, k), (predicted, log_density, doubts) in scored:
        name, outside = entries[k].name, plan[number].outside
        problems[name] += doubts
        predictions[name][number // per_repeat, outside] = predicted
        measured = _measures(task, predicted, task.outcome[outside], log_density)
        records.append({"model": name, "split": number, "rows": len(outside), **measured})
    learners = [entry.name for entry in entries if entry.model.model.is_learner]
    doubts = [*task.notes, *_doubts(problems, len(plan), "splits")]
    return CrossValidation(records, predictions, task, folds, learners, doubts)


# A split and a model, by their numbers.
type _Place = tuple[int, int]


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all fits of a cross-validation need."""

    entries: Sequence[_Entry]
    task: _Task
    plan: Sequence[Split]
    method: str | None
    options: dict[str, Any]
    seed: int


def _scored_at(shared: _Shared, place: _Place) -> tuple[_Place, tuple[Array, Array | None, list[str]]]:
    entry, split = shared.entries[place[1]], shared.plan[place[0]]
    return place, _scored(entry, shared.task, split, shared.method, shared.options, shared.seed)


def _both_sides_at(shared: _Shared, place: _Place) -> tuple[_Place, tuple[dict[str, float], list[str]]]:
    """Scores of training and held-out rows."""
    entry, split = shared.entries[place[1]], shared.plan[place[0]]
    return place, _both_sides(entry, shared.task, split, shared.method, shared.options, shared.seed)


def _doubts(problems: Mapping[str, Sequence[str]], n: int, what: str) -> list[str]:
    """One line for each model with fits that cannot be trusted: their number and the most frequent problem."""
    out = []
    for name, texts in problems.items():
        if texts:
            commonest, _ = Counter(texts).most_common(1)[0]
            out.append(f"{name}: {len(texts)} fits in {n} {what} are in doubt; most often: {commonest}")
    return out


def _problems(fit: Fit) -> list[str]:
    """Why a fit cannot be trusted: convergence warnings and failed checks."""
    doubted = (f for f in fit.verdict.findings if f.status == "fail" or (f.check, f.status) == ("convergence", "warn"))
    return [f.message for f in doubted][:1]


def _shape(task: _Task, repeats: int) -> tuple[int, ...]:
    whole = (repeats, len(task.outcome))
    return whole if task.classes is None else (*whole, len(task.classes))


def _prepared(models: Mapping[str, Any], data: Any, target: str | None, loss: Any) -> tuple[list[_Entry], _Task]:
    """Every model with all its rows, and the task, checked to be the same for all."""
    from bayeslab.preparation import Source

    if not isinstance(models, Mapping) or not models:
        raise OptionError("nothing to compare: give models by name, {'name': model, ...}", code="incomplete")
    entries = []
    for name, given in models.items():
        if isinstance(given, Fit):
            levels = given.model.declared()
            dataset = given.data.dataset if data is None else read_dataset(given.model.data, None, data, levels)
            bound = bind(given.model, dataset, given.model.factors())
            entries.append(_Entry(name, posterior_of(given.model, bound)))
            continue
        if not isinstance(given, Model | str | os.PathLike):
            raise OptionError(
                f"'{name}' is a model, a fit or the path of a model file, not {type(given).__name__}", code="wrong-type"
            )
        source = Source(given)
        with source.located():
            entries.append(_Entry(name, source.posterior(data)))
    for entry in entries:
        entry.posterior.data.refuse_folded("cross-validation and learning curves")
    return entries, _task(entries, target, loss)


def _task(entries: Sequence[_Entry], target: str | None, loss: Any) -> _Task:
    outcomes: dict[str, tuple[str, ...]] = {}
    for entry in entries:
        outcomes[entry.name] = entry.posterior.outcomes()
    if target is None:
        chosen = [t for entry in entries if (t := entry.model.model.chosen_outcome())]
        single = [names[0] for names in outcomes.values() if len(names) == 1]
        target = next(iter([*chosen, *single]), None)
    if target is None:
        raise OptionError(
            f"the models predict {listed(sorted(set().union(*outcomes.values())))}: choose one with target=",
            code="incomplete",
        )
    for name, names in outcomes.items():
        if target not in names:
            raise DataError(
                f"'{name}' predicts {listed(names)}, not '{target}'{hint(target, names)}", code="unknown-variable"
            )
    for entry in entries:
        _check_order(entry)
        if not entry.whole.has(target):
            raise DataError(
                f"{entry.name}: a model of the family {entry.model.model.family} has no column here with one outcome a"
                " row, so that rows cannot be left out",
                code="not-a-column",
            )
    first, *others = entries
    found_all = [_outcome(entry, target) for entry in entries]
    marks = [_marks(entry, target) for entry in entries]
    for other, its in zip(others, marks[1:], strict=True):
        if not unlike_kinds(marks[0], its):
            same_events(target, (first.name, marks[0]), (other.name, its))
        _same(first, other, target)
    if loss is not None and found_all[0][1] is None:
        raise OptionError(
            f"a loss makes decisions about classes, and '{target}' is a number: its predictions are scored by errors"
            f" and log density",
            code="not-applicable",
        )
    discrete = {entry.name: classes is not None for entry, (_, classes) in zip(entries, found_all, strict=True)}
    if len(set(discrete.values())) > 1:
        raise DataError(_kinds(entries, target, discrete), code="different-data")
    for other, one in zip(others, found_all[1:], strict=True):
        _same_outcome((first.name, *found_all[0]), (other.name, *one), target)
    outcome, classes = found_all[0]
    if classes is not None:
        # A class that one model alone has, and no row, is one that the others give no probability.
        more = [word for _, words in found_all[1:] for word in words or () if not _truths(classes, words or [])]
        classes = list(dict.fromkeys([*classes, *more]))
    censored = any(each is not None and bool(np.isin(each, (LEFT, RIGHT)).any()) for each in marks)
    one_scale = not any(unlike_kinds(marks[0], its) for its in marks[1:])
    return _Task(target, first.model.data.rows, outcome, classes, loss, censored, one_scale)


def _check_order(entry: _Entry) -> None:
    """Refuse models of rows in an order: a part of the rows would be another series."""
    names, what = entry.posterior.computed_in_order(), entry.posterior.in_order()
    if not names and what is None:
        return
    raise OptionError(
        f"{entry.name}: {what or f"the computed column '{names[0]}'"} depends on the order of the rows, and rows that"
        " remain when others are left out would follow each other as they do not in the table: "
        + ("compare such models by compare" if what else "compute it in the table instead"),
        code="not-applicable",
    )


def _kinds(entries: Sequence[_Entry], target: str, classes: Mapping[str, bool]) -> str:
    """The error message for a mix of models that predict numbers and models that predict classes."""
    numbers = [entry for entry in entries if not classes[entry.name]]
    shown = listed(entry.name for entry in numbers)
    text = f"'{target}' is a number to {shown}, and a class to {listed(n for n, yes in classes.items() if yes)}"
    if all(entry.model.model.is_learner for entry in numbers):
        return f"{text}: say 'task: classification' in the model section of {shown}"
    return f"{text}: compare models of one kind (of learners 'task: classification' makes numbers classes)"


def _outcome(entry: _Entry, target: str) -> tuple[NDArray[Any], list[str] | None]:
    """Values of the target: codes and their class names, or numbers."""
    term = entry.whole.term(target, missing=True)
    if term.dims != (entry.model.data.rows,):
        raise DataError(
            f"'{target}' does not have one value a row, so that rows cannot be left out", code="not-a-column"
        )
    values = np.asarray(term.value if term.codes is None else term.codes)
    gone = np.flatnonzero(values < 0 if term.codes is not None else ~np.isfinite(values.astype(float)))
    if len(gone):
        raise DataError(
            f"{entry.name}: the target '{target}' has no value in {len(gone)} row{'s' * (len(gone) > 1)}"
            f" ({_places(gone)}), and what is predicted there cannot be scored: drop these rows",
            code="missing",
        )
    if not _classifies(entry, target):
        return values.astype(float), None
    if term.codes is not None:
        return values.astype(np.int64), [str(x) for x in entry.whole.labels[target]]
    return values.astype(np.int64), ["0", "1"]


def _places(at: NDArray[np.int64]) -> str:
    """The first of these positions as text, counted from 1."""
    return ", ".join(str(i + 1) for i in at[:5]) + (" ..." if len(at) > 5 else "")


def _classifies(entry: _Entry, target: str) -> bool:
    """Whether a model predicts classes; whether 0 and 1 are classes depends on the model."""
    try:
        known = entry.posterior.classifies()
    except BayeslabError as error:
        raise type(error)(f"{entry.name}: {error.message}", path=error.path, code=error.code) from None
    if known is not None:
        return known
    term = entry.whole.term(target, missing=True)
    if term.codes is not None:
        return True
    if not set(np.unique(np.asarray(term.value)).tolist()) <= {0, 1}:
        return False
    node = _graph(entry, target).named_vars.get(target)
    return node is None or not str(node.dtype).startswith("float")


def _marks(entry: _Entry, target: str) -> NDArray[Any] | None:
    """The kind of the likelihood term of each value of the target, on all rows."""
    try:
        return kinds(target, entry.posterior)
    except BayeslabError as error:
        raise type(error)(f"{entry.name}: {error.message}", code=error.code) from None


def _graph(entry: _Entry, target: str) -> Any:
    """The PyMC graph of a model on all rows in which the target is random."""
    return entry.posterior.graph(purpose="predict", targets=(target,))


def _same(first: _Entry, other: _Entry, target: str) -> None:
    a, b = (entry.whole.dataset.columns.get(target) for entry in (first, other))
    if a is None or b is None:
        return
    if len(a.values) != len(b.values):
        raise DataError(
            f"'{first.name}' has {len(a.values)} rows and '{other.name}' {len(b.values)}: compare on the same data",
            code="different-data",
        )
    differ = np.flatnonzero(np.asarray(a.values) != np.asarray(b.values))
    if len(differ):
        i = int(differ[0])
        raise DataError(
            f"'{first.name}' and '{other.name}' are of different data: '{target}', row {i + 1}, is {a.values[i]} in the"
            f" one and {b.values[i]} in the other",
            code="different-data",
        )


def _same_outcome(
    first: tuple[str, NDArray[Any], list[str] | None], other: tuple[str, NDArray[Any], list[str] | None], target: str
) -> None:
    """Refuse outcomes that differ, of computed columns too; classes are compared by name."""
    (one, a, ours), (two, b, theirs) = first, other
    if len(a) == len(b):
        if ours is not None and theirs is not None and not _truths(ours, theirs):
            a, b = np.array(ours)[a], np.array(theirs)[b]
        differ = np.flatnonzero(a != b)
        if not len(differ):
            return
        i = int(differ[0])
        what = f"'{target}', row {i + 1}, is {a[i]} in the one and {b[i]} in the other"
    else:
        what = f"the one has {len(a)} rows and the other {len(b)}"
    raise DataError(f"'{one}' and '{two}' are of different data: {what}", code="different-data")


def _truths(ours: Sequence[str], theirs: Sequence[str]) -> bool:
    """Whether the two classes are 0 and 1 to one model and truth values to another, so that positions agree."""
    words = [[word.casefold() for word in classes] for classes in (ours, theirs)]
    return sorted(words) == [["0", "1"], ["false", "true"]]


# ---------------------------------------------------------------------------------- one split


def _fitted(entry: _Entry, rows: NDArray[np.int64], method: str | None, options: Any, seed: int) -> Fit:
    """The model fitted to some rows, with the levels of all rows."""
    from bayeslab.fitting import fit_bound

    known = Memory({d: list(v) for d, v in entry.whole.memory().levels.items()}, {})
    data = bind(entry.model, entry.whole.dataset.take(rows), entry.model.factors(), known)
    if entry.model.model.is_learner:
        # A learner holds out training rows only to estimate the spread of its errors for numbers.
        numbers = data.term(entry.model.model.target).codes is None  # type: ignore[attr-defined]
        return fit_bound(entry.model, data, "train", seed=seed, folds=min(5, len(rows)) if numbers else 0)
    return fit_bound(entry.model, data, method, seed=seed, **options)


def _scored(
    entry: _Entry, task: _Task, split: Split, method: str | None, options: Any, seed: int
) -> tuple[Array, Array | None, list[str]]:
    """Predictions of the held-out rows, the log densities of their outcomes for numbers, and problems of the fit."""
    with _blamed(entry, task, split):
        fit = _fitted(entry, split.inside, method, options, seed)
        test = entry.whole.dataset.take(split.outside)
        predicted = _predicted(fit, task, test)
        # Class probabilities are already averaged over the posterior.
        at_draws = _log_densities(fit, task, test) if task.classes is None else None
        if at_draws is None:
            return predicted, None, _problems(fit)
        return predicted, _averaged(at_draws), _problems(fit) or _far_off(at_draws)


def _both_sides(
    entry: _Entry, task: _Task, split: Split, method: str | None, options: Any, seed: int
) -> tuple[dict[str, float], list[str]]:
    """Scores of the held-out rows, and of the training rows with names that begin with ``training_``."""
    with _blamed(entry, task, split):
        fit = _fitted(entry, split.inside, method, options, seed)
        sides = [_predicted(fit, task, entry.whole.dataset.take(rows)) for rows in (split.inside, split.outside)]
    training = _measures(task, sides[0], task.outcome[split.inside], None)
    outside = _measures(task, sides[1], task.outcome[split.outside], None)
    return outside | {f"training_{n}": x for n, x in training.items()}, _problems(fit)


@contextmanager
def _blamed(entry: _Entry, task: _Task, split: Split) -> Iterator[None]:
    """Add the model's name to errors of a split; errors of the data refer to the row numbers of the whole table."""
    try:
        yield
    except BayeslabError as error:
        if not entry.model.model.is_learner:
            try:
                _graph(entry, task.target)
            except BayeslabError as whole:
                raise type(whole)(f"{entry.name}: {whole.message}", code=whole.code) from None
        counted = " (rows are counted within the split)" if re.search(r"\brows? \d", error.message) else ""
        raise type(error)(
            f"{entry.name}, with {len(split.inside)} rows: {error.message}{counted}", code=error.code
        ) from None


def _predicted(fit: Fit, task: _Task, test: Dataset) -> Array:
    """Probabilities of the classes (rows, classes), or expected values (rows,)."""
    if task.target not in test.columns and fit.bound_model.outcomes_used() != "no":
        raise OptionError(
            f"'{task.target}' is computed from other columns, and this model would predict it from its value: compute"
            " it in the table instead",
            code="not-applicable",
        )
    n_rows = next(len(c.values) for c in test.columns.values() if c.dims == (test.rows,))
    hidden = Dataset({n: c for n, c in test.columns.items() if n != task.target}, test.rows, test.levels)
    if not hidden.columns:
        raise _silent(task)
    if task.classes is None:
        frame = fit.predict(hidden, "mean")
        if "node" in frame:
            frame = frame[frame["node"] == task.target]
        if len(frame) != n_rows or "mean" not in frame:
            raise _silent(task)
        return np.asarray(frame["mean"], float)
    frame = fit.predict(hidden, "probabilities")
    out = np.zeros((n_rows, len(task.classes)))
    # One model may call the same two classes 0 and 1, another False and True, or have levels that no row has.
    levels = [str(x) for x in fit.data.labels.get(task.target, (0, 1))]
    words = levels if _truths(levels, task.classes) else task.classes
    if len(frame) != n_rows or not any(f"P({task.target}={word})" in frame for word in words):
        raise _silent(task)
    for k, word in enumerate(words):
        column = f"P({task.target}={word})"
        if column in frame:
            out[:, k] = np.asarray(frame[column], float)
    total = out.sum(axis=1, keepdims=True)
    return np.asarray(out / np.where(total > 0, total, 1.0))


def _silent(task: _Task) -> OptionError:
    return OptionError(
        f"the model has no prediction of '{task.target}' for rows in which it is left out: compare such models by"
        f" compare (leave-one-out densities of whole rows)",
        code="not-applicable",
    )


def _log_densities(fit: Fit, task: _Task, test: Dataset) -> Array | None:
    """Log density of each outcome at every draw (draws, rows); None where the model has none."""
    from bayeslab.results.predict import log_likelihood

    if fit.bound_model.outcomes() != (task.target,):
        return None  # the row's density is joint over its outcomes, not that of the target
    try:
        terms = log_likelihood(fit, bound_to(fit, test), weighted=False)
    except BayeslabError:
        return None
    if task.target not in terms or terms[task.target].ndim != 3:
        return None
    return np.asarray(terms[task.target].to_numpy().reshape(-1, terms[task.target].shape[-1]))


def _averaged(at_draws: Array) -> Array:
    """Log predictive density of each outcome: that of the mean of its densities over draws."""
    from scipy.special import logsumexp

    return np.asarray(logsumexp(at_draws, axis=0) - np.log(len(at_draws)))


def _far_off(at_draws: Array) -> list[str]:
    """A problem if the density of some outcome is that of the few draws nearest to it, by its Pareto shape."""
    possible = np.isfinite(at_draws.max(axis=0))
    if len(at_draws) < _TAIL or not possible.any():
        return []
    _, shape = smoothed_log_weights(at_draws[:, possible].T)
    if not np.any(shape > good_k(len(at_draws))):
        return []
    return [
        "an outcome lies so far from its prediction that its log density, a mean over draws, depends on the few draws"
        " nearest to it: the log score is uncertain, mostly too low (compare bridges such distances)"
    ]


def _measures(task: _Task, predicted: Array, outcome: NDArray[Any], log_density: Array | None) -> dict[str, float]:
    if task.classes is None:
        gap = outcome - predicted
        out = {} if task.censored else {"rmse": float(np.sqrt(np.mean(gap**2))), "mae": float(np.mean(np.abs(gap)))}
        if log_density is not None and task.one_scale:
            out["log_score"] = float(np.mean(log_density))
        if not out:
            raise OptionError(
                f"rows of '{task.target}' are censored: predictions are scored by their log density alone, and here"
                f" there is none",
                code="not-applicable",
            )
        return out
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


def _sign(measure: str) -> float:
    return -1.0 if measure in LOSSES else 1.0


def overall(measure: str, values: Array, weights: Array) -> float:
    """A score over all held-out rows from those of splits: the weighted mean, for ``rmse`` the root mean square."""
    if measure == "rmse":
        return float(np.sqrt(np.average(values**2, weights=weights)))
    return float(np.average(values, weights=weights))


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
        One row per model and split: the number of held-out rows, and each score.
    predictions : dict of str to ndarray
        Held-out predictions of each row, by model: probabilities of the classes, shape (repeats, rows, classes), or
        expected values (repeats, rows); NaN for rows that were never held out.
    classes : list of str or None
        Classes of the target.
    """

    def __init__(
        self,
        records: list[dict[str, Any]],
        predictions: Mapping[str, Array],
        task: _Task,
        folds: int | float | str,
        learners: Sequence[str],
        doubts: Sequence[str] = (),
    ) -> None:
        import pandas as pd

        self.scores = pd.DataFrame(records)
        self._doubts = tuple(doubts)
        self.predictions, self.classes, self.target = dict(predictions), task.classes, task.target
        self._outcome, self._n_rows, self._folds = task.outcome, len(task.outcome), folds
        self._learners, self._losses = frozenset(learners), None if task.loss is None else _matrix(task)

    @property
    def measures(self) -> list[str]:
        """The scores that all models have."""
        columns = [c for c in self.scores.columns if c not in ("model", "split", "rows")]
        return [c for c in columns if not self.scores[c].isna().any()]

    @property
    def models(self) -> list[str]:
        return list(self.predictions)

    @property
    def table(self) -> pd.DataFrame:
        """Each score over all held-out rows and its standard deviation over splits, best model first.

        Scores are means, except that ``rmse`` is the root mean squared error over all rows, not the mean over splits
        (which equals ``mae`` for splits of one row).
        """
        import pandas as pd

        rows = {}
        for name in self.models:
            row: dict[str, float] = {}
            for measure in [c for c in self.scores.columns if c not in ("model", "split", "rows")]:
                values, weights = self._splits(name, measure)
                row[measure] = overall(measure, values, weights)
                if len(values) > 1:
                    with np.errstate(invalid="ignore"):
                        row[f"{measure}_sd"] = float(np.std(values, ddof=1))
            rows[name] = row
        return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model").loc[self._ordered(self.measures[0])]

    def _splits(self, name: str, measure: str) -> tuple[Array, Array]:
        """A model's scores by split, and the rows of each."""
        rows = self.scores[self.scores["model"] == name].sort_values("split")
        return rows[measure].to_numpy(float), rows["rows"].to_numpy(float)

    def _ordered(self, measure: str) -> list[str]:
        """The models, the best first."""
        score = {name: overall(measure, *self._splits(name, measure)) for name in self.models}
        return sorted(self.models, key=lambda name: _sign(measure) * score[name], reverse=True)

    def _chosen(self, measure: str | None) -> str:
        chosen = measure or self.measures[0]
        if chosen not in self.measures:
            raise OptionError(f"no score '{chosen}' of all models{hint(chosen, self.measures)}", code="unknown-word")
        return chosen

    def margin(self, measure: str | None = None) -> float:
        """The default margin: the largest difference of a score that counts as a tie.

        It is 0.01 for scores without a unit. For ``rmse`` and ``mae`` it is 1 % of the target's standard deviation, and
        for ``cost`` 1 % of the range of losses, so that it does not depend on the unit.
        """
        chosen = self._chosen(measure)
        if chosen in ("rmse", "mae"):
            return _MARGIN * float(np.std(self._outcome))
        if chosen == "cost":
            assert self._losses is not None
            return _MARGIN * float(np.ptp(self._losses))
        return _MARGIN

    def difference(
        self, first: str, second: str, measure: str | None = None, margin: float | None = None
    ) -> PairedDifference:
        """The probability that one model is better than another by more than a margin.

        Parameters
        ----------
        first, second
            Names of models.
        measure
            A score; default: ``accuracy`` or ``rmse``. If smaller values are better, the sign is reversed, so that a
            positive difference always favours ``first``.
        margin
            The largest difference that counts as a tie; None: :meth:`margin`.

        Returns
        -------
        PairedDifference
            With the probabilities ``better``, ``same`` and ``worse`` of the Bayesian correlated t-test; NaN if the
            difference is the same in all splits.

        Notes
        -----
        Mean squared errors can be averaged over splits, their roots cannot. So differences of mean squared errors are
        compared, divided by the sum of the two ``rmse`` to have the target's unit: :math:`a^2-b^2=(a-b)(a+b)`.
        """
        chosen = self._chosen(measure)
        for name in (first, second):
            if name not in self.predictions:
                raise OptionError(f"no model '{name}'{hint(name, self.predictions)}", code="unknown-model")
            if endless := self._endless(name, chosen):
                raise OptionError(endless, code="not-finite")
        (a, rows), (b, _) = self._splits(first, chosen), self._splits(second, chosen)
        unit = 1.0
        if chosen == "rmse":
            unit = overall(chosen, a, rows) + overall(chosen, b, rows)
            a, b = a**2, b**2
        gaps = _sign(chosen) * (a - b)
        if np.ptp(gaps) <= _ROUNDING * max(np.abs(a).max(), np.abs(b).max()):
            gaps = np.full_like(gaps, gaps[0])
        least = self.margin(chosen) if margin is None else margin
        return correlated_t(gaps / (unit or 1.0), float(rows.mean()) / self._n_rows, least)

    def differences(self, measure: str | None = None, margin: float | None = None) -> pd.DataFrame:
        """Every model against the best: mean difference, interval, and probabilities of better, same and worse.

        Values are NaN where the test does not apply; ``attrs["notes"]`` says why.
        """
        import pandas as pd

        chosen = self._chosen(measure)
        best, *others = self._ordered(chosen)
        columns = ["difference", "eti89_lb", "eti89_ub", "better", "same", "worse"]
        rows, notes = {}, []
        for name in others:
            pair = f"{best} − {name}"
            if self._endless(best, chosen) or self._endless(name, chosen):
                rows[pair] = [np.nan] * len(columns)
                continue
            difference = self.difference(best, name, chosen, margin)
            rows[pair] = [difference.mean, *difference.interval(), difference.better, difference.same, difference.worse]
            if np.isnan(difference.better):
                n = self.scores["split"].nunique()
                notes.append(
                    f"{pair}: {chosen} differs by the same in all {n} splits, and of differences that do not vary the"
                    f" test has no answer: ask for repeats (of fewer folds than rows){self._instead(chosen)}"
                )
        frame = pd.DataFrame.from_dict(rows, orient="index", columns=columns)
        frame.attrs["notes"] = notes
        return frame

    def _instead(self, measure: str) -> str:
        """Advice to compare by another score."""
        others = [m for m in self.measures if m != measure and not any(self._endless(n, m) for n in self.models)]
        best = next((m for m in ("log_score", "brier", "mae") if m in others), next(iter(others), None))
        return f", or compare by another score, such as {best}" if best else ""

    def _endless(self, name: str, measure: str) -> str:
        """Why a model's score is infinite, and what to do; empty if it is finite."""
        values, _ = self._splits(name, measure)
        at = np.flatnonzero(~np.isfinite(values))
        if not len(at):
            return ""
        where = f"split{'s' * (len(at) > 1)} {_places(at)} of {len(values)}"
        if measure != "log_score" or self.classes is None:
            cure = "look at its predictions there, or compare by another score"
            return f"{name}: {measure} is infinite in {where}: {cure}"
        probabilities = np.take_along_axis(
            self.predictions[name], np.broadcast_to(self._outcome[:, None], (*self.predictions[name].shape[:2], 1)), -1
        )
        n = int(np.any(probabilities == 0, axis=(0, 2)).sum())
        trained = name in self._learners
        cure = "calibration: platt, or a smoother learner" if trained else "a prior that excludes nothing"
        return (
            f"{name}: the class of {n} held-out row{'s' * (n > 1)} had the predicted probability 0, so that its"
            f" log_score is −∞ ({where}): ask for {cure}"
        )

    def notes(self, measure: str | None = None, margin: float | None = None) -> list[str]:
        """Limitations of the scores and of the comparison, with advice."""
        out = [*self._doubts, *(text for n in self.models for m in self.measures if (text := self._endless(n, m)))]
        return out + list(self.differences(measure, margin).attrs["notes"]) if self._several else out

    @property
    def _several(self) -> bool:
        """Whether there are several models and several splits to compare."""
        return len(self.models) > 1 and self.scores["split"].nunique() > 1

    def question(self, measure: str | None = None, margin: float | None = None) -> str:
        """A caption for the probabilities of :meth:`differences`."""
        chosen = self._chosen(measure)
        least, of = (self.margin(chosen), "") if margin is None else (margin, "")
        if margin is None and chosen in ("rmse", "mae"):
            of = f" (1 % of the standard deviation of '{self.target}')"
        elif margin is None and chosen == "cost":
            of = " (1 % of the range of losses)"
        return f"probability that {chosen} is better by more than {least:.3g}{of}, about the same, or worse"

    def calibration(self, model: str, bins: int = 10, *, together: bool = False, ci_prob: float = 0.89) -> pd.DataFrame:
        """Calibration of the held-out predictions: predicted probabilities against observed frequencies of the class.

        Parameters
        ----------
        together
            Whether to pool more than two classes in one curve, in which each row counts once per class (state ``any``).

        Returns
        -------
        pandas.DataFrame
            As for :meth:`Fit.calibration <bayeslab.results.fit.Fit.calibration>`; ``n`` counts each row once, however
            often it was held out.
        """
        import pandas as pd

        if self.classes is None:
            raise OptionError(f"'{self.target}' is a number; calibration curves are of classes", code="not-applicable")
        if model not in self.predictions:
            raise OptionError(f"no model '{model}'{hint(model, self.predictions)}", code="unknown-model")
        predicted = self.predictions[model]
        there = ~np.isnan(predicted[..., 0])
        happened = np.broadcast_to(self._outcome, there.shape)[there]
        # Repeats predict the same row again, but each row counts once.
        once = np.broadcast_to(1 / np.maximum(there.sum(axis=0), 1), there.shape)[there]
        if together:
            curves = [scores.class_bins(predicted[there], happened, self.classes, bins, ci_prob, once)]
        else:
            each = range(len(self.classes)) if len(self.classes) > 2 else [1]
            curves = [
                (self.classes[k], scores.calibration_bins(predicted[there][:, k], happened == k, bins, ci_prob, once))
                for k in each
            ]
        parts = []
        for state, curve in curves:
            parts.append(
                pd.DataFrame(
                    {
                        "state": [state] * len(curve.count),
                        "predicted": curve.predicted,
                        "observed": curve.observed,
                        f"eti{100 * ci_prob:g}_lb": curve.lower,
                        f"eti{100 * ci_prob:g}_ub": curve.upper,
                        "n": curve.count,
                    }
                )
            )
        return pd.concat(parts, ignore_index=True)

    def plot(self, measure: str | None = None) -> Any:
        """Plot the scores of every split, by model; a matplotlib figure."""

        chosen = self._chosen(measure)
        means = {name: overall(chosen, *self._splits(name, chosen)) for name in self._ordered(chosen)}
        return scores_plot(self.scores, chosen, means)

    def plot_calibration(self, bins: int = 10) -> Any:
        """Plot calibration curves of all models: of the second of two classes, or of more classes pooled; a figure."""

        curves = {name: self.calibration(name, bins, together=True) for name in self.models}
        state = next(iter(curves.values()))["state"].iloc[0]
        event = f"any {self.target}" if state == "any" else f"{self.target} = {state}"
        return calibration_plot(curves, event)

    def _description(self) -> str:
        how = "leave one out" if self._folds in ("loo", self._n_rows) else f"{self._folds} folds"
        if isinstance(self._folds, float):
            how = f"{100 * self._folds:g} % held out"
        return f"'{self.target}', {self._n_rows} rows, {how}, {self.scores['split'].nunique()} splits"

    def __repr__(self) -> str:
        shown = f"{self._description()}\n{self.table.to_string(float_format=lambda x: f'{x:.4g}')}"
        if self._several:
            shown += f"\n\n{self.question()}\n{self.differences().to_string(float_format=lambda x: f'{x:.3g}')}"
        return shown + "".join(f"\n→ {note}" for note in self.notes())

    def _repr_html_(self) -> str:
        parts = [f"<p>{escape(self._description())}</p>", self.table.to_html(float_format=lambda x: f"{x:.4g}")]
        if self._several:
            parts.append(f"<p>{escape(self.question())}</p>")
            parts.append(self.differences().to_html(float_format=lambda x: f"{x:.3g}"))
        return "".join([*parts, *(f"<p>→ {escape(note)}</p>" for note in self.notes())])


# ---------------------------------------------------------------------------------- learning curves


class LearningCurve:
    """Scores by the number of training rows.

    Attributes
    ----------
    scores : pandas.DataFrame
        One row per model, size and repeat.
    """

    def __init__(self, records: list[dict[str, Any]], target: str) -> None:
        import pandas as pd

        self.scores, self.target = pd.DataFrame(records), target

    def table(self, measure: str | None = None, *, ci_prob: float = 0.89) -> pd.DataFrame:
        """Mean over repeats and the central interval, by model and size."""
        import pandas as pd

        known = [c for c in self.scores.columns if c not in ("model", "size", "repeat", "rows")]
        chosen = measure or known[0]
        if chosen not in known:
            raise OptionError(f"no score '{chosen}'{hint(str(chosen), known)}", code="unknown-word")
        arrays.number(ci_prob, "ci_prob", 0, 1, above=True, below=True)
        tail = (1 - ci_prob) / 2
        rows = []
        for (name, size), group in self.scores.groupby(["model", "size"], sort=False):
            values = group[chosen].to_numpy()
            # Quantiles between minus infinity and a number cannot be interpolated.
            between: Literal["linear", "inverted_cdf"] = "linear" if np.isfinite(values).all() else "inverted_cdf"
            low, high = np.quantile(values, [tail, 1 - tail], method=between)
            percent = f"{100 * ci_prob:g}"
            rows.append(
                {
                    "model": name,
                    "size": size,
                    chosen: overall(chosen, values, np.ones(len(values))),
                    f"eti{percent}_lb": low,
                    f"eti{percent}_ub": high,
                }
            )
        return pd.DataFrame(rows)

    def plot(self, measure: str | None = None) -> Any:
        """Plot means with bands; a matplotlib figure."""

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
    jobs: int = 1,
    scheduler: str | None = None,
    progress: bool = True,
    **options: Unpack[SharedOptions],
) -> LearningCurve:
    """Learning curves: scores of models fitted to random subsets of increasing size, on all other rows.

    Parameters
    ----------
    sizes
        Numbers of training rows.
    repeats
        Number of random subsets of each size.
    models, data, target, loss, method, seed, jobs, scheduler, **options
        As for :func:`cross_validate`.
    """
    check_jobs(jobs)
    if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
        raise OptionError(f"repeats is a whole number ≥ 1, not {repeats!r}", code="out-of-range")
    if np.ndim(sizes) != 1 or not len(sizes):
        raise OptionError(f"sizes are a list of numbers of training rows, not {sizes!r:.80}", code="wrong-type")
    entries, task = _prepared(models, data, target, loss)
    n = len(task.outcome)
    for size in sizes:
        if isinstance(size, bool) or not isinstance(size, int | np.integer) or not 1 <= size < n:
            raise OptionError(f"sizes are whole numbers from 1 to {n - 1}, not {size!r}", code="out-of-range")
    records: list[dict[str, Any]] = []
    problems: dict[str, list[str]] = {entry.name: [] for entry in entries}
    of_sizes = [(int(size), stream((seed, int(size)), "splits").spawn(repeats)) for size in sizes]
    labels = [(size, repeat) for size, children in of_sizes for repeat in range(len(children))]
    plan = [_subset(task, size, child) for size, children in of_sizes for child in children]
    shared = _Shared(entries, task, plan, method, dict(options), seed)
    with reporter(progress) as view:

        def places() -> Iterator[_Place]:
            for number, (size, repeat) in enumerate(labels):
                view.note(f"{size} rows, repeat {repeat + 1} of {repeats}")
                yield from ((number, k) for k in range(len(entries)))

        scored = sorted(each(_scored_at, shared, places(), jobs=jobs, scheduler=scheduler), key=itemgetter(0))
    for (number, k), (predicted, log_density, doubts) in scored:
        name, (size, repeat) = entries[k].name, labels[number]
        problems[name] += doubts
        measured = _measures(task, predicted, task.outcome[plan[number].outside], log_density)
        records.append({"model": name, "size": size, "repeat": repeat, **measured})
    from sklearn.exceptions import ConvergenceWarning

    for line in _doubts(problems, len(sizes) * repeats, "subsets"):
        warnings.warn(line, ConvergenceWarning, stacklevel=2)
    return LearningCurve(records, task.target)


def _subset(task: _Task, size: int, rng: np.random.Generator) -> Split:
    """A random subset; for classes, one with at least two classes if possible."""
    n = len(task.outcome)
    for _ in range(1000):
        order = rng.permutation(n)
        if task.classes is None or size < 2 or len(np.unique(task.outcome[order[:size]])) > 1:
            break
    return Split(np.sort(order[:size]), np.sort(order[size:]))
