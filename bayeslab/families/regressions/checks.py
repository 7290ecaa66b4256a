"""What regressions of several responses have to agree in, before any data are there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter

from bayeslab.errors import BayeslabError, ModelError, hint, listed
from bayeslab.families.regression.formulas import Formulas
from bayeslab.families.regression.likelihoods import likelihood
from bayeslab.families.regressions.spec import Regressions
from bayeslab.families.regressions.written_formulas import imputed, with_ids
from bayeslab.language.functions import FUNCTIONS
from bayeslab.language.terms import GroupTerm

__all__ = ["check_agreement", "in_order", "of_nodes", "of_response", "shared_effects", "whole_formulas"]

# Functions of the predictors that learn nothing from the rows, so that they can be of a response too.
_WITHOUT_MEMORY = {*FUNCTIONS, "I", "offset"}
_CALLED = re.compile(r"([^\W\d]\w*)\s*\(")


@contextmanager
def of_response(name: str) -> Iterator[None]:
    """Context that gives errors about the regression of one response their place in the model."""
    try:
        yield
    except BayeslabError as error:
        if error.path[:1] != ("model",) or error.path[1:2] == ("responses",):
            raise
        path = ("model", "responses", name, *error.path[1:])
        raise type(error)(error.message, path=path, offset=error.offset, code=error.code) from error.__cause__


@contextmanager
def of_nodes(spec: Regressions) -> Iterator[None]:
    """Context that gives errors about nodes of the graph the place of the response that they belong to."""
    try:
        yield
    except BayeslabError as error:
        if error.path[:2] != ("model", "nodes"):
            raise
        name = str(error.path[2]).split("[")[0].lstrip("_")
        responses = [each for each in spec.responses if name == each or name.startswith(f"{each}_")]
        path = ("model", "responses", max(responses, key=len)) if responses else ("model",)
        raise type(error)(error.message, path=path, code=error.code) from error.__cause__


def whole_formulas(spec: Regressions) -> dict[str, Formulas]:
    """The formulas of each response, with their ids."""
    out = {}
    for name, each in spec.responses.items():
        with of_response(name):
            out[name] = with_ids(each).formulas
    return out


def shared_effects(spec: Regressions) -> dict[tuple[str, str], list[tuple[str, str, GroupTerm]]]:
    """The group effects that share an id, by grouping factor and id: each the response, the parameter and the term."""
    out: dict[tuple[str, str], list[tuple[str, str, GroupTerm]]] = {}
    for response, formulas in whole_formulas(spec).items():
        for parameter, formula in formulas.all.items():
            for term in formula.groups:
                if term.id:
                    out.setdefault((term.name, term.id), []).append((response, parameter, term))
    return out


def in_order(spec: Regressions) -> list[str]:
    """The responses, each after those that are its predictors.

    Raises
    ------
    ModelError
        The responses are predictors of each other in a cycle.
    """
    formulas = whole_formulas(spec)
    above = {name: each.predictor_columns() & spec.responses.keys() for name, each in formulas.items()}
    try:
        return list(TopologicalSorter(above).static_order())
    except CycleError as error:
        cycle = error.args[1][::-1]
        raise ModelError(
            f"responses are predictors of each other in a cycle, {' -> '.join(cycle)}: leave out one of these"
            " predictors; responses that depend on each other in both ways have correlated residuals"
            f" (residuals: [{', '.join(sorted(set(cycle)))}])",
            path=("model", "responses", cycle[-1], "formula"),
            code="cycle",
        ) from None


def check_agreement(spec: Regressions) -> None:
    """Check names, ids, predictors that are responses, and shared priors."""
    formulas = whole_formulas(spec)
    for name, each in formulas.items():
        if each.mean.outcome != name:
            raise ModelError(
                f"the regression '{name}' has the response '{each.mean.outcome}': a regression is called like its"
                f" response, {each.mean.outcome}: {{formula: {each.mean.text}}}",
                path=("model", "responses", name),
                code="unknown-name",
            )
    _check_ids(spec)
    in_order(spec)
    for name, each in formulas.items():
        _check_predictors(spec, name, each)
    known = {f"corr_{group}_{id_}" for group, id_ in shared_effects(spec)}
    known |= {"corr_residuals", "nu_residuals"} if spec.residuals else set()
    for name in spec.priors:
        if name not in known:
            raise ModelError(
                f"'{name}' is no parameter that responses share{hint(name, known) if known else ''}; priors of one"
                " response stand with its formula",
                path=("model", "priors", name),
                code="unknown-parameter",
            )


def _check_ids(spec: Regressions) -> None:
    """Check that effects with an id share it with those of another formula, and of the same grouping factor."""
    groups: dict[str, set[str]] = {}
    for (group, id_), terms in shared_effects(spec).items():
        groups.setdefault(id_, set()).add(group)
        for response, _, _ in terms:
            prior = f"corr_{group}_{id_}"
            if prior in spec.responses[response].priors:
                raise ModelError(
                    f"'{prior}' is a parameter that formulas share: its prior stands in model.priors, beside"
                    " the responses",
                    path=("model", "responses", response, "priors", prior),
                    code="misplaced",
                )
        if len(terms) == 1:
            ((response, _, term),) = terms
            others = {other for _, other in shared_effects(spec)} - {id_}
            raise ModelError(
                f"no other formula has effects with the id '{id_}'{hint(id_, others) if others else ''}: effects that"
                f" share an id are correlated; without an id they are written ({term.effects.text} |"
                f" {':'.join(term.factors)})",
                path=("model", "responses", response, "formula"),
                code="incomplete",
            )
    for id_, names in groups.items():
        if len(names) > 1:
            raise ModelError(
                f"effects with the id '{id_}' are correlated, and belong to one grouping factor; given:"
                f" {listed(sorted(names))}",
                path=("model", "responses"),
                code="conflict",
            )


def _check_predictors(spec: Regressions, name: str, formulas: Formulas) -> None:
    """Check how other responses enter the formulas of one."""
    path = ("model", "responses", name, "formula")
    _check_imputed(spec, name)
    computed = {
        column: other
        for other, each in whole_formulas(spec).items()
        for column in each.mean.response_columns()
        if not each.mean.column
    }
    for column in sorted(formulas.predictor_columns() & computed.keys() - {name}):
        other = computed[column]
        if other != name:
            raise ModelError(
                f"'{column}' is a predictor, and the response '{other}' is computed from it: make '{other}' a computed"
                " column under data.derive, and use it in both formulas",
                path=path,
                code="unsupported",
            )
    for column in sorted(formulas.predictor_columns() & spec.responses.keys()):
        if likelihood(spec.responses[column].likelihood).levels is not None:
            raise ModelError(
                f"'{column}' is {spec.responses[column].likelihood}, and a predictor besides: a response that is a"
                " predictor is a number, such as a count or 0 and 1",
                path=path,
                code="unsupported",
            )
    for each in formulas.all.values():
        for column in sorted(each.factors() & spec.responses.keys()):
            raise ModelError(
                f"'{column}' is a response, and its levels cannot have effects of their own (... | {column})",
                path=path,
                code="unsupported",
            )
        terms = [*each.common.terms, *(term for group in each.groups for term in group.effects.terms)]
        for factor in (factor for term in terms for factor in term):
            responses = sorted(factor.names & spec.responses.keys())
            learns = set(_CALLED.findall(factor.text)) - _WITHOUT_MEMORY
            if responses and learns:
                raise ModelError(
                    f"'{responses[0]}' is a response, and {factor.text} learns from all of its values: functions of a"
                    " response are those of single values, such as log or I(x ** 2)",
                    path=path,
                    code="unsupported",
                )


def _check_imputed(spec: Regressions, name: str) -> None:
    """Check that predictors with ``mi(x)`` are responses, of a likelihood whose missing cells are parameters."""
    path = ("model", "responses", name, "formula")
    for column in sorted(imputed(spec.responses[name])):
        if column not in spec.responses:
            raise ModelError(
                f"mi({column}) is a predictor whose missing cells have a regression of their own, and '{column}' is"
                f" no response{hint(column, spec.responses)}: give it one, {column}: {{formula: {column} ~ 1}}",
                path=path,
                code="unknown-name",
            )
        with of_response(column):
            _ = spec.responses[column].formulas
