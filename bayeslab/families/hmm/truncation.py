"""Options of an infinite number of states: truncation, concentrations, and the prior of new states' emissions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.errors import ModelError, hint
from bayeslab.families.hmm.given_parameters import distribution_of
from bayeslab.families.hmm.spec import HMM
from bayeslab.latents.chains.infinite_hidden import Limit
from bayeslab.posterior.chains.hidden import Hidden

__all__ = ["CONCENTRATIONS", "REFUSED", "based", "limit_of", "limited", "shown", "truncated"]

CONCENTRATIONS = ("alpha", "gamma", "kappa")
REFUSED = "an infinite number of states is sampled: use method gibbs, or give a number of states"
# Typical standard deviation of a new state, as a share of the column's; centres vary like the column.
_SHARE, _KAPPA = 1 / 3, 0.1
# Gamma(a, b) prior of the stickiness.
_STICKY = (1.0, 0.1)


def truncated(spec: Any) -> Any:
    """The specification with ``most`` states, and with emission parameters only."""
    if spec.states != "infinite":
        return spec
    rest = {name: value for name, value in spec.parameters.items() if name not in CONCENTRATIONS}
    return spec.model_copy(update={"states": spec.most, "parameters": rest})


def limit_of(spec: HMM) -> Limit:
    """The prior of the states.

    Raises
    ------
    ModelError
        A concentration is neither a positive number nor a Gamma; or both kappa and stickiness are given.
    """
    given = {name: _concentration(name, spec.parameters[name]) for name in CONCENTRATIONS if name in spec.parameters}
    if "kappa" in given and spec.stickiness is not None:
        raise ModelError(
            "stickiness is the number kappa: give one of them", path=("model", "stickiness"), code="conflict"
        )
    # The default is sticky: otherwise a persistent state splits into two alternating ones, and chains mix badly.
    sticky = _STICKY if spec.stickiness is None else float(spec.stickiness)
    return Limit(spec.most, **({"kappa": sticky} | given))


def _concentration(name: str, value: Any) -> float | tuple[float, float]:
    path = ("model", "parameters", name)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not (np.isfinite(value) and (value > 0 or (name == "kappa" and value == 0))):
            raise ModelError(
                f"'{name}' is a positive number, or a distribution Gamma(a, b)", path=path, code="bad-prior"
            )
        return float(value)
    if not isinstance(value, str):
        raise ModelError(f"'{name}' is a positive number, or a distribution Gamma(a, b)", path=path, code="bad-prior")
    word, numbers = distribution_of(value, path)
    if word != "Gamma" or set(numbers) != {"alpha", "beta"}:
        raise ModelError(f"the prior of '{name}' is Gamma(a, b){hint(word, ('Gamma',))}", path=path, code="bad-prior")
    if min(numbers.values()) <= 0:
        raise ModelError(f"the prior of '{name}' is Gamma(a, b) with positive numbers", path=path, code="bad-prior")
    return float(numbers["alpha"]), float(numbers["beta"])


def based(part: Any) -> Any:
    """The part with a base prior that does not depend on the number of states.

    Normal columns: σ² ~ InverseGamma(1.5, s² / 18) and means Normal(m, σ / √0.1), with s the spread of the
    column. A vaguer prior of means would make new states too costly, and one scaled by `most` would be too narrow.
    """
    if part.word != "gaussian":
        return part
    prior, d = part.emission.prior, len(part.columns)
    joint = np.ndim(prior.scale) == 2
    weak = part.n_states ** (2 / d if joint else 2)  # divisor of the weak prior's scale
    scaled = replace(prior, kappa=_KAPPA, scale=prior.scale * weak * _SHARE**2)
    return replace(part, emission=replace(part.emission, prior=scaled))


def limited(hidden: Hidden) -> Hidden:
    """The states with priors that do not depend on the truncation level."""
    return replace(hidden, parts=tuple(based(part) for part in hidden.parts))


def shown(columns: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """A table of decoded states without the columns of states that hardly ever occur."""
    return {
        name: v for name, v in columns.items() if not (name.startswith("P(state=") and np.max(v, initial=0.0) < 0.005)
    }
