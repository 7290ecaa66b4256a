"""Expand regressions of several responses in the model language: all of them as one graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from bayeslab.data.binding import bind
from bayeslab.data.bound import Data, Memory
from bayeslab.data.dataset import Dataset
from bayeslab.errors import ModelError, listed
from bayeslab.families.regression.expand import written
from bayeslab.families.regression.lowered import Lowered, Remark
from bayeslab.families.regression.lowering import lower
from bayeslab.families.regressions.checks import in_order, of_response
from bayeslab.families.regressions.common_rows import complete, with_computed, without_computed
from bayeslab.families.regressions.merging import Merged
from bayeslab.families.regressions.prefixes import prefixed
from bayeslab.families.regressions.spec import Regressions
from bayeslab.families.regressions.written_formulas import imputed
from bayeslab.language.expansion import Expansion, check_columns, unsupported
from bayeslab.language.spec import Model

__all__ = ["Whole", "expand", "whole_of"]


@dataclass(frozen=True, eq=False)
class Whole:
    """Regressions of several responses as one model of the language, on the rows that all of them use.

    Attributes
    ----------
    merged : Merged
    dataset : Dataset
        The table without rows that have missing cells.
    rows : ndarray of int
        Positions of these rows in the table.
    parts : dict of str to Lowered
        The regression of each response, resolved on the rows.
    dropped : str
        How many rows were dropped and why, or "".
    """

    merged: Merged
    dataset: Dataset
    rows: np.ndarray
    parts: Mapping[str, Lowered]
    dropped: str

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """Remarks on the data of each response."""
        out: list[Remark] = []
        for response, each in self.parts.items():
            for check, place, value, message, advice in each.remarks:
                where = place if place in (response, "rows") else prefixed(place, response)
                out.append((check, where, value, f"{response}: {message}", advice))
        return tuple(out)


def spec_of(model: Model) -> Regressions:
    """The specification of a model of this family."""
    assert isinstance(model.model, Regressions)
    return model.model


def expand(model: Model, data: Data) -> Expansion:
    """Write the regressions as nodes of one graph; the nodes of each have its response before their names.

    Raises
    ------
    ModelError
        Some part of the model has no form in the language; the message names it and the reason.
    """
    whole = whole_of(model, data)
    if absent := [name for name, part in whole.parts.items() if part.y is None]:
        raise ModelError(
            f"regressions are expanded with their data, which scale their priors; the data have no {listed(absent)}",
            path=("model", "responses"),
            code="no-data",
        )
    total = len(data.labels[data.dataset.rows])
    if len(whole.rows) < total:
        raise unsupported(
            f"{total - len(whole.rows)} of {total} rows have missing cells, and a graph drops no rows: leave them out"
            " of the table, or write mi(x) for predictors that are responses",
            "responses",
        )
    _check_columns(model, data.dataset, whole)
    return whole.merged.expansion()


def whole_of(model: Model, data: Data) -> Whole:
    """The model of all responses on its data."""
    spec = spec_of(model)
    rows, dropped = complete(spec, data)
    dataset = with_computed(spec, data).take(rows)
    levels = {dim: labels.tolist() for dim, labels in data.labels.items() if dim != dataset.rows}
    source, merged = without_computed(model.data, dataset), Merged(spec, dataset.columns.keys())
    parts, regressions = {}, spec.regressions()
    for name in in_order(spec):
        alone = model.model_copy(update={"model": regressions[name], "inference": {}, "data": source})
        with of_response(name):
            bound = bind(alone, dataset, alone.factors(), Memory(levels))
            bound.alphabetical |= data.alphabetical  # the memory has levels, and says nothing about their order
            parts[name] = lower(alone, bound, gaps=True)
            _check_gaps(parts[name])
            expansion = written(alone, bound, parts[name], spec.responses.keys() - {name})
        merged.add(name, _without_imputed(expansion, imputed(spec.responses[name]), dataset.rows))
    merged.share_effects(parts)
    whole = Whole(merged, dataset, rows, parts, dropped)
    _check_columns(model, dataset, whole)
    return whole


def _check_gaps(part: Lowered) -> None:
    """Refuse missing responses beside weights or censoring, which say nothing about values that are not there."""
    if part.y is None or not np.isnan(part.y).any():
        return
    for key, column in (("weights", part.spec.weights), ("censored", part.spec.censored)):
        if column is not None:
            raise ModelError(
                f"the response '{part.formula.response}' has missing cells (row {int(np.isnan(part.y).argmax()) + 1}),"
                f" and {key} besides, which say nothing about them: leave these rows out of the table",
                path=("model", key),
                code="unsupported",
            )


def _check_columns(model: Model, table: Dataset, whole: Whole) -> None:
    """Refuse columns with the name of an unrelated node or dimension, and responses of words as predictors."""
    spec, columns, expansion = spec_of(model), table.columns, whole.merged.expansion()
    allowed = {*spec.responses, *spec.factors(())}
    allowed |= {each.predictor for part in whole.parts.values() for p in part.predictors for each in p.design.measured}
    allowed |= {name for part in whole.parts.values() for name in part.spec.missing}
    check_columns(expansion.nodes, expansion.dims.keys() - model.dims.keys(), columns, allowed, "responses")
    for response, part in whole.parts.items():
        for name in sorted(part.spec.formulas.predictor_columns() & spec.responses.keys()):
            if name in columns and columns[name].text:
                raise ModelError(
                    f"'{name}' is a response of words, and a predictor of '{response}': code it under data.derive, such"
                    f" as {name}_1: {name} == '{whole.parts[name].levels[-1]}', and call it so in both",
                    path=("model", "responses", response, "formula"),
                    code="not-numbers",
                )


def _without_imputed(expansion: Expansion, names: set[str], row: str) -> Expansion:
    """The expansion without the distributions of predictors that have a regression elsewhere."""
    gone = {f"{name}[{row}]" for name in names}
    nodes = {key: text for key, text in expansion.nodes.items() if key not in gone}
    return Expansion(nodes, expansion.derive, expansion.dims, expansion.comments, expansion.about)
