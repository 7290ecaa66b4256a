"""Validation curves: scores on training rows and on held-out rows by the value of an option, such as the model's size.

With increasing size the training error falls. The held-out error falls too, and rises again once the model begins to
fit noise [1]_. Sizes are tried in the given order, and the search may end once the training error no longer changes,
because larger models cannot fit better.

References
----------
.. [1] Kearns, Mansour, Ng, Ron (1997). An experimental and theoretical comparison of model selection methods. Machine
   Learning 27, 7-50.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslab.errors import OptionError, hint
from bayeslab.language.spec import Model
from bayeslab.plots.learning import validation_curve_plot
from bayeslab.posterior.contract import posterior_of
from bayeslab.progress import reporter
from bayeslab.results import cross_validation as crossed
from bayeslab.streams import stream
from bayeslab.workers import check_jobs, each

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ValidationCurve", "validation_curve"]


class ValidationCurve:
    """Scores by the value of an option.

    Attributes
    ----------
    option : str
    scores : pandas.DataFrame
        One row per value and split: each score on the training rows (``training``) and on the held-out rows.
    values : list
        The values tried, in order.
    """

    def __init__(self, option: str, values: Sequence[Any], records: list[dict[str, Any]], target: str) -> None:
        import pandas as pd

        self.option, self.values, self.target = option, list(values), target
        self.scores = pd.DataFrame(records)

    def _measure(self, measure: str | None) -> str:
        known = [c.removeprefix("training_") for c in self.scores.columns if c.startswith("training_")]
        chosen = measure or known[0]
        if chosen not in known:
            raise OptionError(f"no score '{chosen}'{hint(chosen, known)}", code="unknown-word")
        return chosen

    def table(self, measure: str | None = None) -> pd.DataFrame:
        """Means over splits on training rows and on held-out rows, and the standard deviation of the latter."""
        import pandas as pd

        chosen, rows = self._measure(measure), []
        for place, value in enumerate(self.values):
            scores = self.scores[self.scores["place"] == place]
            left_out = scores[chosen].to_numpy()
            rows.append(
                {
                    self.option: value,
                    "training": crossed.overall(chosen, scores[f"training_{chosen}"].to_numpy(), np.ones(len(scores))),
                    "left_out": crossed.overall(chosen, left_out, scores["rows"].to_numpy()),
                    "sd": float(np.std(left_out, ddof=1)) if len(left_out) > 1 else float("nan"),
                }
            )
        return pd.DataFrame(rows)

    def best(self, measure: str | None = None) -> Any:
        """The value with the best held-out score; the first among ties."""
        chosen = self._measure(measure)
        left_out = self.table(chosen)["left_out"].to_numpy()
        return self.values[int(left_out.argmin() if chosen in crossed.LOSSES else left_out.argmax())]

    def plot(self, measure: str | None = None) -> Any:
        """Plot both curves and the best value; a matplotlib figure."""

        chosen = self._measure(measure)
        place = self.values.index(self.best(chosen))
        return validation_curve_plot(self.table(chosen), f"{chosen} of '{self.target}'", place)

    def __repr__(self) -> str:
        chosen = self._measure(None)
        shown = self.table(chosen).to_string(index=False, float_format=lambda x: f"{x:.4g}")
        return f"{chosen} of '{self.target}'\n{shown}\n\nbest: {self.option} = {self.best(chosen)}"


def validation_curve(
    model: Any,
    option: str,
    values: Sequence[Any],
    data: Any = None,
    *,
    folds: int | float | Literal["loo"] = 10,
    repeats: int = 1,
    settled: int | None = None,
    target: str | None = None,
    loss: Any = None,
    method: str | None = None,
    seed: int = 0,
    jobs: int = 1,
    scheduler: str | None = None,
    progress: bool = True,
    **options: Any,
) -> ValidationCurve:
    """Cross-validate a model with each value of an option, on the same splits.

    Parameters
    ----------
    model
        A model, the path of a model file, or a fit.
    option
        A key of the model's section, such as ``max_nodes``, or a nested key such as ``prior.m_estimate``.
    values
        Its values, simplest model first.
    settled
        End once all training scores have been the same for this many values; None: try all values.
    data, folds, repeats, target, loss, method, seed, jobs, scheduler, **options
        As for :func:`bayeslab.cross_validate`.

    Returns
    -------
    ValidationCurve

    Raises
    ------
    ModelError, OptionError
        The model has no such option, or does not allow this value.
    """
    if not len(values) or (settled is not None and settled < 2):
        raise OptionError("values are one at least, and settled is None or 2 at least", code="out-of-range")
    check_jobs(jobs)
    (entry,), task = crossed._prepared({"model": model}, data, target, loss)
    plan = crossed.splits(task.outcome, folds, repeats, stream(seed, "splits"), classes=task.classes is not None)
    records: list[dict[str, Any]] = []
    tried: list[Any] = []
    training: list[tuple[float, ...]] = []
    problems: dict[str, list[str]] = {}
    with reporter(progress) as view:
        for place, value in enumerate(values):
            view.note(f"{option} = {value}")
            changed = posterior_of(_changed(entry.model, option, value), entry.whole)
            changed_entry = crossed._Entry(f"{option} = {value}", changed)
            shared = crossed._Shared([changed_entry], task, plan, method, options, seed)
            places = ((number, 0) for number in range(len(plan)))
            scored = sorted(
                each(crossed._both_sides_at, shared, places, jobs=jobs, scheduler=scheduler), key=itemgetter(0)
            )
            for (number, _), (measured, doubts) in scored:
                records.append({"place": place, "split": number, "rows": len(plan[number].outside)} | measured)
                problems[changed_entry.name] = [*problems.get(changed_entry.name, []), *doubts]
            tried.append(value)
            training.append(_training(records[-len(plan) :]))
            if settled is not None and len(training) >= settled and len(set(training[-settled:])) == 1:
                break
    from sklearn.exceptions import ConvergenceWarning

    for line in crossed._doubts(problems, len(plan), "splits"):
        warnings.warn(line, ConvergenceWarning, stacklevel=2)
    return ValidationCurve(option, tried, records, task.target)


def _training(records: Sequence[dict[str, Any]]) -> tuple[float, ...]:
    names = [name for name in records[0] if name.startswith("training_")]
    return tuple(round(float(np.mean([one[name] for one in records])), 12) for name in names)


def _changed(model: Model, option: str, value: Any) -> Model:
    content = model.to_dict()
    *path, last = option.split(".")
    place = content["model"]
    for part in path:
        place = place.setdefault(part, {})
        if not isinstance(place, dict):
            raise OptionError(f"'{part}' of {option} is not a section of the model", code="unknown-key")
    place[last] = value
    return Model(**content)
