"""Sampled structures for users: their graphs, and the queries and effects averaged over them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bayeslab.data.tables import read_dataset
from bayeslab.errors import OptionError
from bayeslab.families.bayes_net.net import codes_from, state_words
from bayeslab.families.bayes_net.posterior import BayesNetPosterior
from bayeslab.language.spec import DataSource
from bayeslab.questions import names_of
from bayeslab.results import structure_averages
from bayeslab.results.fitted import Fitted
from bayeslab.results.structure_averages import AveragedQuery, Effect
from bayeslab.results.structure_draws import PICTURES, Drawn, Estimate, StructureDraws
from bayeslab.structure.parameters import Incomplete, Parameters

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["PICTURES", "Drawn", "Estimate", "Structures", "structures_of"]


def structures_of(fit: Fitted) -> Structures:
    """The sampled structures of a fit.

    Raises
    ------
    OptionError
        The structure of the model is known.
    """
    if not fit.has_group("parent_sets"):
        raise OptionError(
            f"this fit of the family {fit.model.model.family} has no sampled structures: they come from a bayes_net"
            f" whose structure is unknown (`structure: {{score: ...}}`)",
            code="other-family",
        )

    def parameters() -> Parameters | Incomplete:
        assert isinstance(fit.bound_model, BayesNetPosterior)
        plan = fit.bound_model.structure_plan
        if plan.missing:
            return Incomplete.of(plan.codes, plan.states, plan.word, plan.score_options)
        return Parameters(plan.observations, plan.word, plan.score_options)

    return Structures(fit.data_tree, parameters, fit.seed)


class Structures(StructureDraws):
    """Sampled structures, with queries and effects averaged over them; parameters as for the base class."""

    def query_many(self, table: Any, targets: Any = None) -> pd.DataFrame:
        """Posteriors for every row of a table of evidence, averaged over structures; empty cells are unobserved.

        Returns
        -------
        pandas.DataFrame
            ``log_evidence`` and a column ``P(variable=state)`` for each state of every target (default: every variable
            that is unobserved in some row); NaN in rows of probability zero. The index is the table's.
        """
        import pandas as pd

        columns = read_dataset(DataSource(), None, table, state_words(self.states)).complete().columns
        for name in columns:
            self.variable(name)
        if numbers := [name for name in self.names if not self.states.get(name)]:
            raise OptionError(
                f"'{numbers[0]}' holds numbers, and these answers are of states; use fit.predict(table)",
                code="not-applicable",
            )
        n_rows = len(next(iter(columns.values())).values)
        answer = self.predictions(codes_from(self.states, columns, n_rows), targets)
        return pd.DataFrame(answer, index=table.index if isinstance(table, pd.DataFrame) else None)

    def predictions(self, codes: NDArray[np.integer], targets: Any = None) -> dict[str, NDArray[np.float64]]:
        """The columns of :meth:`query_many` for codes of states, shape (n_rows, n_variables), -1 for unobserved."""
        missing = [v for k, v in enumerate(self.names) if np.any(codes[:, k] < 0)]
        wanted = missing if targets is None else names_of(targets)
        for v in wanted:
            self.variable(v)
        marginals, log_evidence = structure_averages.predictions(self, codes, wanted)
        out = {"log_evidence": log_evidence}
        return out | {f"P({v}={s})": marginals[v][:, k] for v in wanted for k, s in enumerate(self.states[v])}

    def query(self, given: Mapping[str, Any] | None = None, targets: Any = None, **options: Any) -> AveragedQuery:
        """Posteriors for a new case, averaged: see :func:`bayeslab.results.structure_averages.query`."""
        return structure_averages.query(self, given, targets, **options)

    def interventional(self, treatment: str, outcome: str, **options: Any) -> pd.DataFrame:
        """P(outcome | do(treatment)): see :func:`bayeslab.results.structure_averages.interventional`."""
        return structure_averages.interventional(self, treatment, outcome, **options)

    def average_effect(self, treatment: str, outcome: str, **options: Any) -> Effect:
        """Effect of one variable on another: see :func:`bayeslab.results.structure_averages.average_effect`."""
        return structure_averages.average_effect(self, treatment, outcome, **options)

    def effects(self, **options: Any) -> pd.DataFrame:
        """Linear effects between all pairs: see :func:`bayeslab.results.structure_averages.linear_effects`."""
        return structure_averages.linear_effects(self, **options)
