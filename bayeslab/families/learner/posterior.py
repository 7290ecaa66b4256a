"""A classical learner on its data: the interface for engines and results."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NoReturn

import networkx as nx
import numpy as np
from scipy.special import ndtri

from bayeslab.constants import HALF_LOG_2PI
from bayeslab.errors import (
    ModelError,
)
from bayeslab.families.learner.spec import Learner
from bayeslab.families.learner.trained import Prepared, prepared, train
from bayeslab.posterior.contract import DataFinding, Draws, Named, Posterior, Purpose
from bayeslab.posterior.event_kinds import DENSITY, PROBABILITY

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.learner.trained import Learned

__all__ = ["LearnerPosterior"]


class LearnerPosterior(Posterior):
    """A classical learner on its data, in the form of a posterior."""

    view = "learner"
    on_arrays = True

    def classifies(self) -> bool:
        """Whether the task is classification, by ``task`` or by the target's cells."""
        return self.prepared.classes is not None

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """``probabilities`` for classes, otherwise ``mean``."""
        return "probabilities" if self.spec.target in self.data.labels else "mean"

    @property
    def spec(self) -> Learner:
        assert isinstance(self.model.model, Learner)
        return self.model.model

    def computed_in_order(self) -> list[str]:
        """Computed columns that depend on the order of the rows; without ``inputs`` all columns are used."""
        return self.data.of_order(self.spec.inputs or self.data.derive)

    @cached_property
    def prepared(self) -> Prepared:
        """The learning problem: inputs, target and task."""
        return prepared(self.model, self.data)

    def data_findings(self) -> list[DataFinding]:
        """Report columns that are no inputs, such as dates, where the model takes every column."""
        left_out = {} if self.spec.inputs else self.data.dataset.left_out
        return [
            ("data", name, None, f"'{name}' is no input: {reason}", "make numbers of it (data.derive), or list inputs")
            for name, reason in left_out.items()
        ]

    def event_kinds(self) -> dict[str, np.ndarray]:
        """Kind of likelihood: a probability for classes, a density for numbers."""
        ready, target = self.prepared, self.spec.target
        n_rows = len(self.data.labels[self.model.data.rows]) if self.data.has(target) else 0
        return {target: np.full(n_rows, DENSITY if ready.classes is None else PROBABILITY)}

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """Not available: a learner is not a probability model of its data."""
        self._no_graph()

    def _no_graph(self) -> NoReturn:
        raise ModelError(
            f"the learner {self.spec.learner} is not a probability model: it has no graph and no prior, cannot be"
            f" simulated, and is fitted by method train",
            path=("model", "learner"),
            code="no-graph",
        )

    @cached_property
    def exact_plan(self) -> str:
        """Not available: learners are trained."""
        return "a learner has no posterior"

    def preferred_engine(self) -> tuple[str, str]:
        """The one engine for learners."""
        ready = self.prepared
        what = f"{len(ready.classes)} classes" if ready.classes is not None else "numbers"
        return "train", f"train: {self.spec.learner} of {len(ready.names)} inputs, {ready.task} ({what})"

    def learned(self, seed: int) -> Learned:
        """The learner trained on the data."""
        if seed not in self._learned:
            self._learned[seed] = train(self.prepared, self.data, seed)
        return self._learned[seed]

    @cached_property
    def _learned(self) -> dict[int, Learned]:
        return {}

    def network(self) -> nx.DiGraph:
        """The graph of inputs, learner and target."""
        spec = self.spec
        names = spec.inputs or sorted(self.data.names() - {spec.target, spec.sample_weight})
        shown = names if len(names) <= 12 else [*names[:11], f"and {len(names) - 11} more"]
        out = nx.DiGraph(dims={self.model.data.rows: len(self.data.labels.get(self.model.data.rows, ()))})
        for name in shown:
            out.add_node(name, kind="data", text="", dims=(self.model.data.rows,))
        out.add_node(spec.target, kind="observed", text=spec.learner, dims=(self.model.data.rows,))
        out.add_edges_from((name, spec.target) for name in shown)
        return out

    def _of_fit(self, draws: Draws) -> Learned:
        return self.fitted.learned(int(np.ravel(draws["_seed"])[0]))

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Outcomes drawn from predicted probabilities; for numbers, predictions plus held-out errors."""
        learned = self._of_fit(draws)
        n = len(draws["_seed"])
        predicted = learned.predicted(self.data)
        if learned.classes is None:
            values = predicted + draws["sigma"][:, None] * rng.standard_normal((n, len(predicted)))
        else:
            # Inversion of the cumulative probabilities: one uniform number for each draw and row.
            up_to = np.cumsum(predicted, axis=1)
            u = rng.random((n, len(predicted)))
            values = np.minimum((u[:, :, None] > up_to).sum(axis=2), len(learned.classes) - 1)
        return {self.spec.target: ((self.model.data.rows,), values)}

    def exact_predictions(
        self, draws: Draws, kind: Literal["mean", "components"], ci_prob: float
    ) -> dict[str, dict[str, np.ndarray]] | None:
        """Predicted numbers, with the held-out error as their spread; None for classes, which have probabilities."""
        learned = self._of_fit(draws)
        if kind != "mean" or learned.classes is not None:
            return None
        predicted, sigma = learned.predicted(self.data), float(draws["sigma"][0])
        reach, percent = sigma * ndtri((1 + ci_prob) / 2), f"{100 * ci_prob:g}"
        interval = {f"eti{percent}_lb": predicted - reach, f"eti{percent}_ub": predicted + reach}
        return {"": {"mean": predicted, "sd": np.full(len(predicted), sigma)} | interval}

    def probabilities(self, draws: Draws) -> dict[str, np.ndarray] | None:
        """Probability of each class for every new row; None for regression."""
        learned = self._of_fit(draws)
        if learned.classes is None:
            return None
        predicted = learned.predicted(self.data)
        rows = self.data.labels.get(self.model.data.rows, np.arange(len(predicted)))
        target = self.spec.target
        return {self.model.data.rows: rows} | {
            f"P({target}={c})": predicted[:, k] for k, c in enumerate(learned.classes)
        }

    def log_likelihoods(self, draws: Draws) -> Named:
        """Log probability, or normal log density, of each row's outcome."""
        learned = self._of_fit(draws)
        truth, predicted = learned.outcome(self.data), learned.predicted(self.data)
        if learned.classes is not None:
            with np.errstate(divide="ignore"):
                one = np.log(predicted[np.arange(len(truth)), truth.astype(int)])[None]
            values = np.repeat(one, len(draws["_seed"]), axis=0)
        else:
            sigma = draws["sigma"][:, None]
            values = -0.5 * ((truth - predicted) / sigma) ** 2 - np.log(sigma) - HALF_LOG_2PI
        return {self.spec.target: ((self.model.data.rows,), values)}
