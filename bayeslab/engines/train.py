"""Engine ``train``: classical learners, trained on all rows and scored on held-out rows.

A learner has no posterior. The group ``posterior`` holds the learned quantities as a single draw. The reliable result
is the held-out score from cross-validation, in which everything, including tuning, uses the training rows only.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from bayeslab.data.bound import Data
from bayeslab.decisions import scores
from bayeslab.engines.toolbox.contract import Engine
from bayeslab.errors import DataError, Reason
from bayeslab.families.learner import trained as learner_trained
from bayeslab.families.learner.posterior import LearnerPosterior
from bayeslab.job import Job, Outcome
from bayeslab.language.spec import Spec
from bayeslab.posterior.contract import Posterior
from bayeslab.posterior.groups import attributes, labelled, observed_groups
from bayeslab.results.verdict import Finding, Verdict
from bayeslab.training_warnings import convergence_warnings, summary

__all__ = ["ENGINE", "Options", "run"]

# With fewer rows, levels may all be distinct by chance.
_MANY_NAMES = 10
# Number of rows that give the standard deviation of errors to two percent.
_ENOUGH = 1000
_SIDES = ("training", "held out")


class Options(Spec):
    """Options of the cross-validation."""

    folds: int = Field(10, ge=0, description="Number of folds; 0: none; the number of rows: leave-one-out.")

    @field_validator("folds")
    @classmethod
    def _several(cls, value: int) -> int:
        if value == 1:
            raise ValueError("folds are 2 or more, or 0 for none: with a single one no row would be left to train on")
        return value


def refuse(posterior: Posterior) -> Reason | None:
    """Refuse models that are not learners."""
    if not isinstance(posterior, LearnerPosterior):
        text = f"the family {posterior.family} has a posterior; training is for the family learner"
        return Reason(text, code="other-family")
    _ = posterior.prepared  # raises the errors of the columns
    return None


def ready(job: Job) -> None:
    """Refuse more folds than the rows allow, before anything is trained."""
    for folds in (job.options.folds, _tuned_by(job)):
        if folds:
            prepared = _learner(job).prepared
            learner_trained._splitter(prepared, prepared.outcome(job.data), folds, job.seed)


def _learner(job: Job) -> LearnerPosterior:
    assert isinstance(job.posterior, LearnerPosterior)
    return job.posterior


def _tuned_by(job: Job) -> int:
    """Number of folds for tuning options; 0: no tuning."""
    spec: Any = job.model.model
    return int(spec.tune_folds) if spec.tune else 0


def run(job: Job) -> Outcome:
    """Train on all rows, and score on held-out rows."""

    begun = time.perf_counter()
    learned = _learner(job).learned(job.seed)
    trained = time.perf_counter()
    ready, options = learned.ready, job.options
    matrix, outcome = ready.matrix(job.data), ready.outcome(job.data)
    outside = _left_out(job, ready, matrix, outcome, options.folds) if options.folds else None
    with convergence_warnings() as answering:
        inside = learner_trained.answers(learned.estimator, matrix, ready.classes) if outside is not None else None
        values = _reported(job, learned, outside, matrix, outcome)
    unconverged = [*learned.unconverged, *answering]
    lead = {"chain": np.arange(1), "draw": np.arange(1)}
    labels = {**job.data.labels, "input": np.array(ready.names), "column": np.array(ready.columns(job.data))}
    if ready.classes is not None:
        labels["class"] = ready.classes
    if named := ready.spec.options.get("learners"):
        labels["member"] = np.array(_distinct([one["learner"] for one in named]))
    attrs = attributes(job) | {"how": f"{ready.spec.learner}, {ready.task}"}
    groups = {
        "posterior": labelled(
            {n: np.asarray(v)[None, None] for n, (_, v) in values.items()},
            {n: dims for n, (dims, _) in values.items()},
            labels,
            lead,
            attrs,
        ),
        **observed_groups(job.posterior, attributes(job)),
    }
    findings = [_described(learned), *_converged(unconverged, outside), *_identifying(ready, job.data)]
    if training := _training(ready, learned, outside):
        arrays = {n: values for n, (_, values) in training.items()}
        dims = {n: names for n, (names, _) in training.items()}
        groups["training"] = labelled(arrays, dims, labels | {"rows": np.array(_SIDES)}, {}, attrs)
    if outside is not None and inside is not None:
        groups["cross_validation"] = _group(job, ready, outside, outcome, labels, attrs)
        findings += _against_guessing(ready, inside, outside.predicted, outside.fold, outcome)
    else:
        findings.append(
            Finding(
                "warn", "left out", "", None, "there are no held-out rows: how well it predicts is unknown", "set folds"
            )
        )
    timings = {"train": trained - begun, "cross_validate": time.perf_counter() - trained}
    return Outcome(groups, Verdict(tuple(findings)), True, timings)


def _distinct(words: list[str]) -> list[str]:
    """The words, with numbers added to repeated ones."""
    return [w if words.count(w) == 1 else f"{w}_{words[: i + 1].count(w)}" for i, w in enumerate(words)]


def _described(learned: Any) -> Finding:
    ready = learned.ready
    text = f"{ready.spec.learner} trained on {len(ready.names)} inputs"
    if learned.chosen:
        text += "; tuning chose " + ", ".join(f"{name} = {value}" for name, value in learned.chosen.items())
    return Finding("pass", "training", "", None, text)


@dataclass(frozen=True, eq=False)
class _LeftOut:
    """Held-out predictions of every row.

    Attributes
    ----------
    predicted, fold : ndarray
        The held-out prediction and the fold of each row.
    staged : list of (ndarray, ndarray)
        For each fold the errors after each round, on its training rows and on its held-out rows.
    unconverged : list of tuple of str
        For each fold the convergence warnings.
    """

    predicted: np.ndarray
    fold: np.ndarray
    staged: list[tuple[np.ndarray, np.ndarray]]
    unconverged: list[tuple[str, ...]]


def _converged(unconverged: list[str], outside: _LeftOut | None) -> Iterator[Finding]:
    """The finding about fits without convergence, of the final learner and in the folds, in one line."""
    folds = outside.unconverged if outside is not None else []
    texts = [*unconverged, *(text for fold in folds for text in fold)]
    if not texts:
        return
    where = ["the learner itself"] if unconverged else []
    if n := sum(map(bool, folds)):
        where.append(f"{n} of {len(folds)} folds")

    # The final learner matters more than those of the folds.
    text = f"{summary(unconverged or texts)} ({' and '.join(where)})"
    advice = "allow more steps (the option that the message names), or take a solver without steps"
    yield Finding("warn", "convergence", "", len(texts), text, advice)


def _identifying(ready: Any, data: Data) -> Iterator[Finding]:
    """Findings about columns whose values are all distinct, which cannot generalise to other rows."""
    for name, n_levels in zip(ready.names, ready.levels, strict=True):
        if n_levels < _MANY_NAMES:
            continue
        codes = data.term(name, missing=True).codes
        if codes is not None and len(np.unique(codes)) == len(codes):
            text = f"column '{name}' has a different name in each of {len(codes)} rows: nothing can be learned from it"
            yield Finding(
                "warn", "inputs", name, len(codes), text, "leave the column out (inputs), or code it as numbers"
            )


def _left_out(job: Job, ready: Any, matrix: np.ndarray, outcome: np.ndarray, folds: int) -> _LeftOut:

    splitter = learner_trained._splitter(ready, outcome, folds, job.seed)
    shape = (len(outcome),) if ready.classes is None else (len(outcome), len(ready.classes))
    out, fold, staged = np.zeros(shape), np.zeros(len(outcome), int), []
    unconverged: list[tuple[str, ...]] = []
    weights = ready.weights(job.data)
    for number, (inside, outside) in enumerate(splitter.split(matrix, outcome)):
        job.progress.note(f"fold {number + 1} of {folds}")
        try:
            one = learner_trained.fitted(
                ready, matrix[inside], outcome[inside], job.seed, None if weights is None else weights[inside]
            )
        except DataError as error:
            where = f"fold {number + 1} of {folds}, with {len(inside)} of {len(outcome)} rows"
            raise DataError(f"{where}: {error.message}; 'folds: 0' leaves no row out", code=error.code) from None
        with convergence_warnings() as answering:
            out[outside], fold[outside] = learner_trained.answers(one.estimator, matrix[outside], ready.classes), number
        unconverged.append((*one.unconverged, *answering))
        staged.append(
            (one.staged_errors(matrix[inside], outcome[inside]), one.staged_errors(matrix[outside], outcome[outside]))
        )
    return _LeftOut(out, fold, staged, unconverged)


def _training(ready: Any, learned: Any, outside: _LeftOut | None) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Training curves of the final learner, and errors by round in the folds."""
    module = ready.spec.module
    out = dict(module.curves(learned.learner)) if hasattr(module, "curves") else {}
    if outside is not None and (most := max(len(training) for training, _ in outside.staged)):
        staged = np.full((len(outside.staged), len(_SIDES), most), np.nan)
        for fold, sides in enumerate(outside.staged):
            for side, errors in enumerate(sides):
                # A fold that ended early keeps its last errors.
                staged[fold, side] = np.pad(errors, (0, most - len(errors)), mode="edge")
        out["staged_error"] = (("fold", "rows", "fold_round"), staged)
    return out


def _reported(
    job: Job, learned: Any, outside: _LeftOut | None, matrix: np.ndarray, outcome: np.ndarray
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The learned quantities, the standard deviation of errors, and the seed that reproduces the training."""
    module, out = learned.ready.spec.module, {}
    if hasattr(module, "reported"):
        out = {name: (dims, np.asarray(v)) for name, (dims, v) in module.reported(learned.learner).items()}
    if learned.classes is None:
        if outside is not None:
            gap = outcome - outside.predicted
        else:
            some = np.linspace(0, len(outcome) - 1, min(len(outcome), _ENOUGH)).astype(int)
            gap = outcome[some] - learner_trained.answers(learned.estimator, matrix[some], None)
        spread = float(np.sqrt(np.mean(gap**2)))
        # A learner without errors on its training rows still has errors on others.
        out["sigma"] = ((), np.array(max(spread, 1e-6 * max(float(np.std(outcome)), 1e-300))))
    return out | {"_seed": ((), np.array(job.seed, np.int64))}


def measures(predicted: np.ndarray, outcome: np.ndarray, classes: np.ndarray | None) -> dict[str, float]:
    """Scores of predictions: for classes accuracy, log score and Brier score; for numbers errors and R²."""
    if classes is None:
        gap = outcome - predicted
        around = float(np.sum((outcome - outcome.mean()) ** 2))
        return {
            "rmse": float(np.sqrt(np.mean(gap**2))),
            "mae": float(np.mean(np.abs(gap))),
            "r2": 1 - float(np.sum(gap**2)) / around if around > 0 else float("nan"),
        }
    return {
        "accuracy": float(np.mean(predicted.argmax(axis=1) == outcome)),
        "log_score": scores.log_score(predicted, outcome),
        "brier": scores.brier_score(predicted, outcome),
    }


def _group(job: Job, ready: Any, outside: Any, outcome: np.ndarray, labels: Any, attrs: Any) -> Any:
    """The group of held-out predictions, with scores over all rows and by fold."""
    predicted, fold = outside.predicted, outside.fold
    each = [measures(predicted[fold == k], outcome[fold == k], ready.classes) for k in range(fold.max() + 1)]
    whole = measures(predicted, outcome, ready.classes)
    rows = job.model.data.rows
    arrays: dict[str, np.ndarray] = {
        "predicted": predicted,
        "fold_of": fold,
        "score": np.array(list(whole.values())),
        "fold_score": np.array([[one[name] for name in whole] for one in each]),
    }
    dims: dict[str, tuple[str, ...]] = {
        "predicted": (rows,) if ready.classes is None else (rows, "class"),
        "fold_of": (rows,),
        "score": ("measure",),
        "fold_score": ("fold", "measure"),
    }
    return labelled(arrays, dims, {**labels, "measure": np.array(list(whole))}, {}, attrs)


def _against_guessing(
    ready: Any, inside: np.ndarray, outside: np.ndarray, fold: np.ndarray, outcome: np.ndarray
) -> Any:
    """The finding whether the learner predicts better than a guess that ignores the inputs, beyond chance."""
    folds = int(fold.max()) + 1
    if ready.classes is None:
        score, base = float(np.mean((outcome - outside) ** 2)), float(np.var(outcome))
        text = f"R² {1 - score / base:.3f} on held-out rows ({folds} folds)" if base > 0 else "the target does not vary"
        gains = [(outcome - outcome.mean()) ** 2 - (outcome - outside) ** 2]
        apart = f"on the training rows {1 - float(np.mean((outcome - inside) ** 2)) / base:.3f}" if base > 0 else ""
    else:
        counts = np.bincount(outcome, minlength=len(ready.classes))
        right = outside.argmax(axis=1) == outcome
        score, common = float(np.mean(right)), float(counts.max() / len(outcome))
        text = f"{100 * score:.1f} % correct on held-out rows ({folds} folds)"
        text += f"; always the most frequent class: {100 * common:.1f} %"
        with np.errstate(divide="ignore"):
            log_scores = np.log(outside[np.arange(len(outcome)), outcome])
        guess = np.log((counts / len(outcome))[outcome])
        # Even if the most probable class is always the same, probabilities can be better than those of guessing.
        gains = [right.astype(float) - (outcome == counts.argmax()), log_scores - guess]
        if not _more_than_chance(gains[0]) and _more_than_chance(gains[1]):
            mean, chance = log_scores.mean(), guess.mean()
            text += f"; its probabilities are better than guessing (log score {mean:.3f}, not {chance:.3f})"
        apart = f"on the training rows {100 * float(np.mean(inside.argmax(axis=1) == outcome)):.1f} %"
    yield Finding("pass", "training error", "", None, apart)
    if any(_more_than_chance(gain) for gain in gains):
        yield Finding("pass", "left out", "", score, text)
    elif any(gain.mean() > 0 for gain in gains):
        only = "" if gains[0].mean() > 0 else "only its probabilities are "
        why = f"{only}better than guessing, but no more than chance explains on {len(outcome)} rows"
        yield Finding(
            "warn", "left out", "", score, f"{text}: {why}", "give more rows, other inputs or another learner"
        )
    else:
        advice = "do not use it: give other inputs, more rows or another learner"
        yield Finding("warn", "left out", "", score, f"{text}: no better than guessing", advice)
    if ready.classes is not None and not np.isfinite(scores.log_score(outside, outcome)):
        n = int(np.sum(outside[np.arange(len(outcome)), outcome] == 0))
        text = f"the class of {n} held-out row{'s' * (n > 1)} had the predicted probability 0: the log score is −∞"
        yield Finding("warn", "probabilities", "", n, text, "ask for calibration: platt, or a smoother learner")


def _more_than_chance(gain: np.ndarray) -> bool:
    """Whether the mean gain over rows exceeds two standard errors."""
    if len(gain) < 2 or not np.isfinite(gain).all():
        return False
    return bool(gain.mean() > 2 * gain.std(ddof=1) / np.sqrt(len(gain)))


ENGINE = Engine(Options, run, refuse=refuse, ready=ready, uses_graph=False)
