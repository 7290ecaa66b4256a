"""The local distribution that a file declares for a variable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from bayeslab.families.bayes_net.local_distributions.contract import Local
from bayeslab.families.bayes_net.local_distributions.function import function_table
from bayeslab.families.bayes_net.local_distributions.logit import logit_of
from bayeslab.families.bayes_net.local_distributions.noisy_max import noisy_max, noisy_or
from bayeslab.families.bayes_net.local_distributions.place import Place, States
from bayeslab.families.bayes_net.local_distributions.table import Table, table_of

__all__ = ["local", "require_memory_of"]


def local(
    variable: str,
    declared: Any,
    states: States,
    names: frozenset[str],
    pseudocount: Any,
    constants: Mapping[str, float] | None = None,
) -> Local:
    """Read the local distribution that a file declares.

    Parameters
    ----------
    declared
        The spec of the variable.
    names
        Names of parameters that expressions may use.
    pseudocount
        ``pseudocount(n_rows, n_states)``: the prior of rows that are unknown.
    constants
        Values of the parameters that are known.
    """
    place = Place(variable, states[variable], tuple(declared.parents), states, names, constants=constants or {})
    if declared.noisy_or is not None:
        return noisy_or(place, declared)
    if declared.noisy_max is not None:
        return noisy_max(place, declared)
    if declared.logit is not None:
        return logit_of(place, declared.logit, declared.absent)
    if declared.function is not None:
        return Table(place, function_table(place, declared.function, declared.absent), None, {})
    return table_of(place, declared, pseudocount)


def require_memory_of(declarations: Mapping[str, Any], states: States) -> None:
    """Refuse tables that do not fit in memory together, before any of them is built.

    Raises
    ------
    ModelError
        Names the variable whose table is too large, alone or after those before it.
    """
    needed = 0
    for variable, declared in declarations.items():
        place = Place(variable, states[variable], tuple(declared.parents), states, frozenset())
        row = _row_memory(place, declared)
        place.require_memory(row, _fewer_parents(declared), needed)
        needed += row * math.prod(place.sizes)


def _row_memory(place: Place, declared: Any) -> int:
    """Bytes of one row of a table; every form needs one row per combination.

    A row takes its probabilities, with their prior, counts and posterior; where a form is worked out row by row, the
    parents' states and an indicator of every cause or weight as well.
    """
    row = 4 * 8 * len(place.variable_states)
    if declared.noisy_or is not None or declared.noisy_max is not None or declared.logit is not None:
        row += 4 * len(place.parents) + 8 * (1 + sum(n - 1 for n in place.sizes))
    elif isinstance(declared.function, str):
        row += 4 * len(place.parents) + 8
    return row


def _fewer_parents(declared: Any) -> str:
    """The advice for too many parents: an OR of ORs, or a maximum of maxima, is the same distribution."""
    if declared.noisy_or is not None:
        between = "noisy_or, and it has these as parents with strength 1"
    elif declared.noisy_max is not None:
        between = "noisy_max, and it has these as parents whose states have themselves as their effects"
    elif isinstance(declared.function, str) and declared.function.casefold() in ("or", "and", "xor"):
        between = f"'{declared.function.casefold()}', and it has these as parents by the same function"
    else:
        return "give it fewer parents"
    return (
        f"give it fewer parents; it is the same distribution if variables between take some of them each by {between}"
    )
