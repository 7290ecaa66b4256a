"""A fitted learner: held-out predictions, training curves, margins, and plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.decisions import scores
from bayeslab.errors import DataError, OptionError, hint, listed
from bayeslab.families.learner.posterior import LearnerPosterior
from bayeslab.plots import learners as plots
from bayeslab.plots.learners import Axis, Regions
from bayeslab.plots.learning import calibration_plot
from bayeslab.results.fitted import Fitted, bound_to
from bayeslab.results.predict import predict

if TYPE_CHECKING:
    import pandas as pd

    from bayeslab.families.learner.trained import Learned

__all__ = ["PICTURES", "FittedLearner", "learner_of", "plot_regions"]

PICTURES = ("regions", "training", "staged", "margins", "calibration", "confusion", "path")
# Grid points along a numeric input; fewer for models with draws, which predict from each draw.
_GRID, _GRID_OF_DRAWS, _BLOCK = 160, 50, 4096


def learner_of(fit: Fitted) -> FittedLearner:
    """See :attr:`bayeslab.results.fit.Fit.learner`."""
    if not isinstance(fit.bound_model, LearnerPosterior):
        raise OptionError(f"the family {fit.model.model.family} is not a learner", code="other-family")
    return FittedLearner(fit)


def _posterior(fit: Fitted) -> LearnerPosterior:
    assert isinstance(fit.bound_model, LearnerPosterior)
    return fit.bound_model


@dataclass(frozen=True, eq=False)
class FittedLearner:
    """A trained learner.

    Parameters
    ----------
    fit : Fitted
    """

    fit: Fitted

    @cached_property
    def _learned(self) -> Learned:
        """The trained learner; a fit from a run folder is trained again."""
        return _posterior(self.fit).learned(self.fit.seed)

    @property
    def estimator(self) -> Any:
        """The trained scikit-learn pipeline, from columns to probabilities or numbers."""
        return self._learned.estimator

    @property
    def learner(self) -> Any:
        """The trained learner inside the pipeline."""
        return self._learned.learner

    @property
    def pictures(self) -> tuple[str, ...]:
        """Names of the plots that :meth:`plot` has for this learner."""
        module, groups = self._learned.ready.spec.module, self.fit.data_tree.children
        apart = "cross_validation" in groups
        staged = apart and "staged_error" in (groups["training"].to_dataset() if "training" in groups else ())
        there = {
            "regions": True,
            "training": hasattr(module, "curves") and bool(module.curves(self.learner)),
            "staged": staged,
            "margins": bool(self._classes),
            "calibration": bool(self._classes) and apart,
            "confusion": bool(self._classes) and apart,
            "path": self._learned.ready.spec.learner == "linear",
        }
        return tuple(name for name in PICTURES if there[name])

    @property
    def chosen(self) -> dict[str, Any]:
        """Options chosen by tuning."""
        return dict(self._learned.chosen)

    @property
    def _classes(self) -> tuple[str, ...]:
        classes = self._learned.classes
        return () if classes is None else tuple(str(c) for c in classes)

    def _group(self, name: str, what: str, advice: str, code: str = "not-kept") -> Any:
        if name not in self.fit.data_tree.children:
            raise OptionError(f"there is no {what}: {advice}", code=code)
        return self.fit.data_tree.children[name].to_dataset()

    def _left_out(self) -> tuple[np.ndarray, np.ndarray]:
        """The held-out prediction of each row, and its outcome."""
        group = self._group("cross_validation", "prediction of rows left out", "fit with folds")
        return group["predicted"].to_numpy(), self._learned.outcome(self.fit.data)

    def _of_classes(self, what: str) -> tuple[str, ...]:
        if not self._classes:
            raise OptionError(f"{what} of classes, and '{self._target}' is a number", code="not-applicable")
        return self._classes

    @property
    def _target(self) -> str:
        return str(self._learned.ready.spec.target)

    # -- tables

    def left_out(self) -> pd.DataFrame:
        """The held-out prediction of each row (class probabilities or a number), its fold, and its outcome."""
        import pandas as pd

        predicted, outcome = self._left_out()
        rows = self.fit.model.data.rows
        fold = self.fit.data_tree.children["cross_validation"]["fold_of"].to_numpy()
        table = pd.DataFrame({rows: self.fit.data.labels[rows], "fold": fold})
        if not self._classes:
            return table.assign(**{self._target: outcome, "predicted": predicted})
        words = np.array(self._classes)
        table[self._target], table["predicted"] = words[outcome.astype(int)], words[predicted.argmax(axis=1)]
        return table.assign(**{f"P({self._target}={c})": predicted[:, k] for k, c in enumerate(words)})

    def confusion(self) -> pd.DataFrame:
        """The held-out confusion matrix: true classes in rows, predicted classes in columns."""
        import pandas as pd

        classes = self._of_classes("a table of confusions is")
        predicted, outcome = self._left_out()
        counts = np.zeros((len(classes), len(classes)), int)
        np.add.at(counts, (outcome.astype(int), predicted.argmax(axis=1)), 1)
        return pd.DataFrame(
            counts, index=pd.Index(classes, name=self._target), columns=pd.Index(classes, name="predicted")
        )

    def calibration(self, bins: int = 10, *, ci_prob: float = 0.89) -> pd.DataFrame:
        """Calibration of held-out predictions: predicted probabilities against observed frequencies of the class.

        For two classes, of the second. With more classes every row counts once per class (``state`` is ``any``).
        """
        import pandas as pd

        classes = self._of_classes("calibration curves are")
        predicted, outcome = self._left_out()
        state, curve = scores.class_bins(predicted, outcome.astype(int), classes, bins, ci_prob)
        return pd.DataFrame(
            {
                "state": state,
                "predicted": curve.predicted,
                "observed": curve.observed,
                f"eti{100 * ci_prob:g}_lb": curve.lower,
                f"eti{100 * ci_prob:g}_ub": curve.upper,
                "n": curve.count,
            }
        )

    def training(self) -> pd.DataFrame:
        """The training curve: loss, errors or another measure of the learner, by pass over the rows or by round.

        Raises
        ------
        OptionError
            The learner is not trained in passes or rounds.
        """
        import pandas as pd

        parts = [
            pd.DataFrame({"curve": name, "unit": unit, along: np.arange(len(v)) + 1, "value": v}).dropna()
            for name, along, units in self._curves()
            for unit, v in units.items()
        ]
        return pd.concat(parts, ignore_index=True)

    def _curves(self) -> list[tuple[str, str, dict[str, np.ndarray]]]:
        """For each training curve its name, the name of its axis, and the values by unit."""
        word = self._learned.ready.spec.learner
        none = f"{word} is not trained in passes over the rows that are counted"
        group = self._group("training", "training curve", none, "not-applicable")
        out = []
        for name, values in group.data_vars.items():
            if name == "staged_error":
                continue
            along = str(values.dims[-1])
            units = [""] if values.ndim == 1 else [str(u) for u in _names_along(values)]
            rows = np.atleast_2d(values.to_numpy())
            out.append((str(name).replace("_", " "), along, dict(zip(units, rows, strict=True))))
        if not out:
            raise OptionError(f"there is no training curve: {none}", code="not-applicable")
        return out

    def staged(self, data: Any = None) -> pd.DataFrame:
        """Error after each round of boosting: the misclassification rate, or the root mean squared error.

        Classes are predicted from the votes, before their conversion to probabilities.

        Parameters
        ----------
        data
            Rows with the outcome, on which the learner trained on all rows is evaluated; None: the learners of the
            folds, on their training rows and on their held-out rows.

        Raises
        ------
        OptionError
            The learner has no rounds.
        """
        import pandas as pd

        if data is not None:
            bound = bound_to(self.fit, data)
            errors = self._learned.staged_errors(self._learned.ready.matrix(bound), self._learned.outcome(bound))
            if not len(errors):
                raise OptionError(self._no_rounds(), code="not-applicable")
            return pd.DataFrame({"round": np.arange(len(errors)) + 1, "error": errors})
        training, left_out = self._staged()
        return pd.DataFrame(
            {
                "round": np.arange(training.shape[1]) + 1,
                "training": training.mean(axis=0),
                "left_out": left_out.mean(axis=0),
            }
        )

    def _no_rounds(self) -> str:
        return f"{self._learned.ready.spec.learner} is not trained in rounds; adaboost and boosted_regression are"

    def _staged(self) -> tuple[np.ndarray, np.ndarray]:
        """Errors of the folds on their training rows and on their held-out rows, shape (folds, rounds) each."""
        if not hasattr(self.learner, "staged_predict"):
            raise OptionError(self._no_rounds(), code="not-applicable")
        group = self._group("training", "error by round", "fit with folds")
        if "staged_error" not in group:
            raise OptionError("there is no error by round: fit with folds", code="not-kept")
        values = group["staged_error"].to_numpy()
        return values[:, 0], values[:, 1]

    def margins(self) -> dict[str, np.ndarray]:
        """Margins of the rows: positive if the predicted class is correct, larger the more certain.

        For boosting, the share of votes for the true class minus that for the best other class, after some of the
        rounds. For a support vector machine of two classes, the decision function times the sign of the true class (1
        at the edge of the margin). For other learners, the probability of the true class minus that of the best other
        class, also for held-out rows.

        References
        ----------
        Schapire, Freund, Bartlett, Lee (1998). Boosting the margin. Annals of Statistics 26, 1651-1686.
        """
        self._of_classes("margins are")
        learned, data = self._learned, self.fit.data
        outcome = learned.outcome(data).astype(int)
        inside = learned.pipeline[:-1].transform(learned.ready.matrix(data))
        if hasattr(learned.learner, "staged_margins"):
            every = [m.copy() for m in learned.learner.staged_margins(inside, outcome)]
            shown = sorted({min(n, len(every)) for n in (1, 5, 20, 100, 1000)} | {len(every)})
            return {f"{n} round{'s' * (n > 1)}": every[n - 1] for n in shown}
        if self._street():
            return {"training rows": np.where(outcome == 1, 1, -1) * learned.learner.decision_function(inside)}
        out = {"training rows": _lead(learned.predicted(data), outcome)}
        if self.fit.has_group("cross_validation"):
            out["held-out rows"] = _lead(self._left_out()[0], outcome)
        return out

    def _street(self) -> bool:
        """Whether the learner is a support vector machine of two classes."""
        return hasattr(self.learner, "street_widths") and len(self._classes) == 2

    def path(self, penalty: str | None = None) -> pd.DataFrame:
        """The regularisation path: weights of the standardised columns by strength of the ridge or lasso penalty.

        Raises
        ------
        OptionError
            The learner is not linear.
        """
        import pandas as pd

        from bayeslab.learners import linear

        spec, learned = self._learned.ready.spec, self._learned
        if spec.learner != "linear":
            raise OptionError(f"a path of weights needs the learner linear, not {spec.learner}", code="not-applicable")
        if penalty not in (None, "ridge", "lasso"):
            raise OptionError(
                f"unknown penalty '{penalty}'{hint(str(penalty), ('ridge', 'lasso'))}", code="unknown-word"
            )
        asked = penalty or spec.options.get("penalty", "none")
        kind: Literal["ridge", "lasso"] = "ridge" if asked == "ridge" else "lasso"
        columns = learned.pipeline[:-1].transform(learned.ready.matrix(self.fit.data))
        along = linear.path(columns, learned.outcome(self.fit.data), kind)
        table = pd.DataFrame(along.coefficients, columns=learned.ready.columns(self.fit.data))
        table.insert(0, "alpha", along.alphas)
        table.attrs["penalty"] = kind
        return table

    def rules(self) -> pd.DataFrame:
        """The rules of a tree or a decision list in words, with the number of training rows that each decides.

        A tree has one rule per leaf; in a list the first rule that holds decides.

        Raises
        ------
        OptionError
            The learner does not consist of rules.
        """
        import pandas as pd

        learned, data = self._learned, self.fit.data
        rules = getattr(learned.learner, "rules_", None) or getattr(learned.learner, "rules", list)()
        if not rules:
            raise OptionError(
                f"{learned.ready.spec.learner} has no rules; decision_tree and decision_list do",
                code="not-applicable",
            )
        inside = learned.pipeline[:-1].transform(learned.ready.matrix(data))
        outcome, classes = learned.outcome(data).astype(int), self._of_classes("rules are")
        open_ = np.ones(len(outcome), bool)
        lines = []
        for rule in rules:
            hit = open_ & rule.covers(inside)
            open_ &= ~hit
            words = " and ".join(self._condition(*c) for c in rule.conditions) or "otherwise"
            right = int(np.sum(outcome[hit] == rule.label))
            lines.append({"if": words, self._target: classes[int(rule.label)], "rows": int(hit.sum()), "right": right})
        return pd.DataFrame(lines)

    def _condition(self, column: int, sign: str, value: float) -> str:
        ready = self._learned.ready
        name = ready.names[column]
        shown = str(self.fit.data.labels[name][int(value)]) if ready.levels[column] else f"{value:g}"
        return f"{name} {sign} {shown}"

    # -- pictures

    def plot(
        self,
        what: str | None = None,
        *,
        inputs: Sequence[str] | None = None,
        at: Mapping[str, Any] | None = None,
        bins: int = 10,
        penalty: str | None = None,
    ) -> Any:
        """Plot the learner; a matplotlib figure.

        Parameters
        ----------
        what
            ``regions`` (predictions over two inputs, with the rows; support vectors are circled), ``training`` (loss
            or errors by pass), ``staged`` (error by round), ``margins`` (their cumulative distribution),
            ``calibration`` and ``confusion`` (of held-out rows), ``path`` (weights of a linear learner by the strength
            of the penalty). None: ``regions``.
        inputs
            For ``regions``: one or two inputs; default: the first two numeric columns. Other inputs are at their
            medians or most frequent levels.
        at
            For ``regions``: values of the other inputs.
        bins
            For ``calibration``: number of bins.
        penalty
            For ``path``: ``ridge`` or ``lasso``.
        """

        what = what or "regions"
        if what not in PICTURES:
            raise OptionError(f"unknown picture '{what}'{hint(what, self.pictures)}", code="unknown-word")
        if what == "regions":
            return plot_regions({"": self.fit}, inputs, at)
        if what == "training":
            curves = self._curves()
            return plots.curves([(name, units) for name, _, units in curves], curves[0][1])
        if what == "staged":
            measure = "share of errors" if self._classes else f"rmse of '{self._target}'"
            return plots.staged(*self._staged(), measure)
        if what == "margins":
            street = self._street()
            label = "probability of the true class less that of the best other"
            if hasattr(self.learner, "staged_margins"):
                label = "margin: share of votes for the true class less that for the best other"
            elif street:
                label = "score, to the true side"
            return plots.margins(self.margins(), label, street)
        if what == "confusion":
            return plots.confusion(self.confusion().to_numpy(), self._classes, self._target)
        if what == "calibration":
            table = self.calibration(bins)
            return calibration_plot({str(self._learned.ready.spec.learner): table}, _event(self._target, table))
        table = self.path(penalty)
        spec = self._learned.ready.spec
        fitted_penalty = spec.options.get("penalty") == table.attrs["penalty"]
        alpha = float(self.learner.alpha) if fitted_penalty and hasattr(self.learner, "alpha") else None
        return plots.path(
            table["alpha"].to_numpy(),
            table.iloc[:, 1:].to_numpy(),
            list(table.columns[1:]),
            alpha,
            table.attrs["penalty"],
        )


def _event(target: str, table: pd.DataFrame) -> str:
    state = table["state"].iloc[0]
    return f"any {target}" if state == "any" else f"{target} = {state}"


def _names_along(values: Any) -> list[Any]:
    dim = values.dims[0]
    if dim in values.coords:
        return list(values[dim].to_numpy())
    return [f"{dim} {k + 1}" for k in range(values.sizes[dim])]


def _lead(predicted: np.ndarray, outcome: np.ndarray) -> np.ndarray:
    """Probability of the true class minus that of the best other class."""
    at = np.arange(len(predicted))
    true_class, rest = predicted[at, outcome], predicted.copy()
    rest[at, outcome] = -np.inf
    return np.asarray(true_class - rest.max(axis=1))


# ------------------------------------------------------------------------------------ regions


def plot_regions(
    fits: Mapping[str, Fitted], inputs: Sequence[str] | None = None, at: Mapping[str, Any] | None = None
) -> Any:
    """Plot predictions of fits of any family over one or two inputs, side by side; a matplotlib figure.

    Parameters
    ----------
    fits
        Fits by the titles of their panels.
    inputs
        Columns of the data; default: the first two numeric columns.
    at
        Values of the other columns; default: medians, or the most frequent levels.
    """

    if not fits:
        raise OptionError("nothing to draw: give fits by name, {'name': fit, ...}", code="incomplete")
    return plots.regions({title: _regions(fit, inputs, dict(at or {})) for title, fit in fits.items()})


def _regions(fit: Fitted, inputs: Sequence[str] | None, at: dict[str, Any]) -> Regions:

    target, used = _target_of(fit), _used(fit)
    names = _chosen(fit.data, inputs, used)
    for name in at:
        if name not in used:
            raise OptionError(f"the model does not use a column '{name}'{hint(name, used)}", code="unknown-column")
        if name in names:
            raise OptionError(
                f"'{name}' varies in the picture, and a value of it is given: leave one of them out", code="conflict"
            )
    outcome, classes = _outcome(fit.data, target)
    learns = fit.model.model.is_learner
    axes = tuple(_axis(fit.data, name, _GRID if learns else _GRID_OF_DRAWS) for name in names)
    rest = {n: at.get(n, _typical(fit.data, n)) for n in used if n not in names}
    places = np.meshgrid(*(axis.at for axis in axes))
    table = {
        axis.name: fit.data.labels[axis.name][p.astype(int).ravel()] if axis.levels else p.ravel()
        for axis, p in zip(axes, places, strict=True)
    }
    table |= {name: np.repeat(np.array([value]), places[0].size) for name, value in rest.items()}
    predicted = _predicted(fit, table, target, classes)
    marked, street = np.zeros(0, int), None
    if learns:
        marked, street = _machine(fit, table, places[0].shape)
    shape = places[0].shape if len(axes) == 2 else places[0].size
    shown = predicted.reshape(*np.atleast_1d(shape), *predicted.shape[1:])
    return Regions(axes, shown, outcome, target, classes, marked, street, _note(rest, at))


def _note(rest: Mapping[str, Any], at: Mapping[str, Any]) -> str:
    """A note on the values of the other inputs; if there are many, only on how they were chosen."""
    if not rest:
        return ""
    if len(rest) > 5:
        given = ", ".join(f"{n} = {_short(v)}" for n, v in at.items())
        return f"other inputs: {given + '; ' if given else ''}medians and most frequent names"
    return "other inputs: " + ", ".join(f"{n} = {_short(v)}" for n, v in rest.items())


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def _target_of(fit: Fitted) -> str:
    chosen = fit.model.model.chosen_outcome()
    if chosen is not None:
        return chosen
    outcomes = fit.bound_model.outcomes()
    if len(outcomes) != 1:
        raise OptionError(
            f"regions need a model with one target; this one has {listed(outcomes) or 'none'}", code="not-applicable"
        )
    return str(outcomes[0])


def _used(fit: Fitted) -> list[str]:
    """Columns of the table that the model may use as inputs."""
    target, rows = _target_of(fit), fit.model.data.rows
    every = [n for n, c in fit.data.dataset.columns.items() if c.dims == (rows,) and n != target]
    if fit.model.model.is_learner:
        inputs = set(_posterior(fit).learned(fit.seed).ready.names)
        if inputs <= set(every):
            return [n for n in every if n in inputs]
    return every


def _named(data: Data, name: str) -> bool:
    """Whether a column is a factor: text, or numbers that stand for levels."""
    return bool(data.dataset.columns[name].text or name in data.factors)


def _chosen(data: Data, inputs: Sequence[str] | None, used: Sequence[str]) -> list[str]:
    if inputs is None:
        names = sorted(used, key=lambda n: _named(data, n))[:2]
    else:
        names = [inputs] if isinstance(inputs, str) else list(inputs)
    for name in names:
        if name not in used:
            raise OptionError(f"the model does not use a column '{name}'{hint(name, used)}", code="unknown-column")
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        raise OptionError(f"regions are over one or two inputs, not {listed(names) or 'none'}", code="wrong-length")
    return names


def _typical(data: Data, name: str) -> Any:
    """The median of a numeric column, or the most frequent level."""
    term = data.term(name, missing=True)
    if _named(data, name):
        return data.labels[name][np.bincount(term.codes[term.codes >= 0]).argmax()]
    values = np.asarray(term.value)
    middle = float(np.nanmedian(values.astype(float)))
    return round(middle) if values.dtype.kind in "ib" else middle


def _axis(data: Data, name: str, n: int) -> Axis:

    term = data.term(name, missing=True)
    if _named(data, name):
        levels = tuple(str(x) for x in data.labels[name])
        return Axis(name, np.arange(len(levels), dtype=float), np.where(term.codes < 0, np.nan, term.codes), levels)
    values = np.asarray(term.value)
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    if values.dtype.kind in "ib" and high - low < 12:
        return Axis(name, np.arange(low, high + 1), values.astype(float))
    margin = 0.05 * (high - low) or 0.5
    return Axis(name, np.linspace(low - margin, high + margin, n), values.astype(float))


def _outcome(data: Data, target: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes of classes and their names, or numbers and no names."""
    if not data.has(target):
        raise OptionError(
            f"the outcome '{target}' is computed; regions show columns of the data: use predict on a grid of inputs",
            code="not-applicable",
        )
    term = data.term(target, missing=True)
    if term.codes is not None:
        return np.asarray(term.codes, int), tuple(str(x) for x in data.labels[target])
    values = np.asarray(term.value)
    if set(np.unique(values).tolist()) <= {0, 1}:
        return values.astype(int), ("0", "1")
    return values.astype(float), ()


def _predicted(fit: Fitted, table: Mapping[str, np.ndarray], target: str, classes: tuple[str, ...]) -> np.ndarray:
    """Class probabilities or expected values, computed in blocks of rows."""
    import pandas as pd

    frame = pd.DataFrame(dict(table))
    parts = []
    for start in range(0, len(frame), _BLOCK):
        block = frame.iloc[start : start + _BLOCK].reset_index(drop=True)
        if not classes:
            predicted = pd.DataFrame(predict(fit, block, "mean"))
            parts.append(
                np.asarray(
                    (predicted[predicted["node"] == target] if "node" in predicted else predicted)["mean"], float
                )
            )
            continue
        predicted = pd.DataFrame(predict(fit, block, "probabilities"))
        wanted = [f"P({target}={c})" for c in classes]
        if not set(wanted) & set(predicted.columns):
            raise DataError(f"the model gives no probabilities of '{target}'", code="not-applicable")
        parts.append(predicted.reindex(columns=wanted, fill_value=0.0).to_numpy(float))
    return np.concatenate(parts)


def _machine(
    fit: Fitted, table: Mapping[str, np.ndarray], shape: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray | None]:
    """For a support vector classifier, the support vectors; for two classes also the decision function on the grid."""

    fitted = learner_of(fit)
    marked = np.asarray(getattr(fitted.learner, "support_", np.zeros(0, int)), int)
    if not fitted._street() or len(shape) < 2:
        return marked, None
    import pandas as pd

    matrix = fitted._learned.ready.matrix(bound_to(fit, pd.DataFrame(dict(table))))
    scores_ = fitted._learned.pipeline.decision_function(matrix)
    return marked, np.asarray(scores_, float).reshape(shape)
