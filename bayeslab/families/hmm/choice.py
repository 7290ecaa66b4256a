"""The number of states of a model file that gives a range of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from bayeslab.data.bound import Data
from bayeslab.families.hmm.model import hidden_at
from bayeslab.language.spec import Model
from bayeslab.posterior.chains.choice import choose_states
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.number_choice import NumberChoice

if TYPE_CHECKING:
    from bayeslab.families.hmm.spec import HMM

__all__ = ["candidate", "hidden_of", "settled"]

# Key under which the data store the chosen number, so that a reopened run need not choose again.
_KEPT = "number of states"


def settled(model: Model, data: Data) -> tuple[Model, NumberChoice | None]:
    """The model with one number of states, and the choice of that number (None if it was given or chosen before).

    The data store the number, like other values of the fit.
    """
    spec, choice = cast("HMM", model.model), None
    if not spec.ranged:
        return model, None
    if _KEPT not in data.frozen:
        low, high = spec.ranged
        candidates = {n: candidate(model, data, n) for n in range(low, high + 1)}
        choice = choose_states(candidates, spec.choose)
        data.frozen[_KEPT] = choice.best
    return _with(model, int(data.frozen[_KEPT])), choice


def _with(model: Model, n: int) -> Model:
    spec = cast("HMM", model.model)
    return model.model_copy(update={"model": spec.model_copy(update={"states": n})})


def candidate(model: Model, data: Data, n: int) -> Hidden:
    """The model with this number of states, resolved on its data."""
    return hidden_at(_with(model, n), data)


def hidden_of(model: Model, data: Data) -> Hidden:
    """The model resolved on its data, with the number of states fixed."""
    return hidden_at(settled(model, data)[0], data)
