"""The fit of one of several outcomes as a fit of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bayeslab.errors import OptionError, hint, listed
from bayeslab.labelled import Group, Variable
from bayeslab.results.fitted import Fitted

__all__ = ["alone"]


def alone(fit: Fitted, outcome: str) -> Fitted:
    """The posterior of the parameters of one outcome, with the names and the methods of a model of it alone.

    Raises
    ------
    OptionError
        The outcomes have no models of their own, or there is no such outcome.
    """
    outcomes = fit.bound_model.outcomes()
    if outcome not in outcomes:
        raise OptionError(
            f"'{outcome}' is no outcome of this model{hint(outcome, outcomes)}; it has {listed(outcomes)}",
            code="unknown-variable",
        )
    part = fit.bound_model.of_outcome(outcome)
    if part is None:
        raise OptionError(
            f"outcomes of the family {fit.model.model.family} have no models of their own; those of regressions have",
            code="other-family",
        )
    posterior, names, dims = part
    group = _renamed(fit.light_group("posterior"), names, dims)
    return Fitted(posterior, {"posterior": group}, fit.verdict, fit.info, None)


def _renamed(group: Group, names: Mapping[str, str], dims: Mapping[str, str]) -> Group:
    """Some variables of a group, under other names and with other names of their dimensions."""

    def moved(variable: Variable) -> Variable:
        return replace(variable, dims=tuple(dims.get(dim, dim) for dim in variable.dims))

    kept = group.only([name for name in group.data_vars if name in names])
    return replace(
        kept,
        data_vars={names[name]: moved(variable) for name, variable in kept.data_vars.items()},
        coords={dims.get(name, name): moved(labels) for name, labels in kept.coords.items()},
    )
