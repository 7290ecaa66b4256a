"""EM for hidden Markov models (Baum-Welch), with priors, known parameters and missing cells.

References
----------
.. [1] Baum, Petrie, Soules, Weiss (1970). A maximization technique occurring in the statistical analysis of
   probabilistic functions of Markov chains. Annals of Mathematical Statistics 41, 164-171.
.. [2] Rabiner (1989). A tutorial on hidden Markov models and selected applications in speech recognition.
   Proceedings of the IEEE 77, 257-286.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from bayeslab.errors import ModelError, OptionError
from bayeslab.latents.chains.driven import LOG_ODDS
from bayeslab.posterior.answer import EMPlan
from bayeslab.posterior.chains.hidden import Hidden
from bayeslab.posterior.latent_problem import LatentModel

__all__ = ["collapsed", "plan"]

type Values = Mapping[str, np.ndarray]


def collapsed(hidden: Hidden, values: Values) -> bool:
    """Whether a state has collapsed to a point, where the likelihood is unbounded."""
    return any(part.collapsed(values) for part in hidden.parts if part.learned)


def plan(hidden: Hidden) -> EMPlan | str:
    """Plan of EM, or the reason why it does not apply."""
    if not hidden.learned:
        return "everything is given, so that there is nothing to learn; `bayeslab decode` finds the states"
    if why := hidden.chain.no_em:
        return why
    written = [part.unknown_prior for part in hidden.parts if part.unknown_prior is not None]
    hidden.check_possible(hidden.guess(None))

    def problem(prior: bool) -> LatentModel:
        if prior and written:
            raise ModelError(
                f"EM does not know the density of the prior written for '{written[0]}': use method nuts or map",
                path=("model", "parameters", written[0]),
                code="not-a-distribution",
            )
        if prior and hidden.in_order and hidden.numbering is None:
            name = hidden.in_order[0]
            raise ModelError(
                f"EM puts states in order where nothing else tells them apart; here the order of '{name}' is one of"
                " several constraints: use method nuts or map",
                path=("model", "parameters", name),
                code="unsupported",
            )
        if (
            prior
            and hidden.chain.learned
            and min(c[c > 0].min() for c in map(hidden.chain.concentration, hidden.chain.learned)) < 1
        ):
            raise ModelError(
                "a Dirichlet prior with pseudocount below 1 has no mode: use pseudocount 1 or more",
                path=("model", "pseudocount"),
                code="no-mode",
            )
        return hidden.problem(prior)

    def values(theta: Values) -> dict[str, np.ndarray]:
        return hidden.numbered(theta)

    def placed(theta: Values, given: Values) -> Values:
        for name, value in given.items():
            if name in hidden.chain.learned:
                _refuse_excluded(hidden, name, value)
        return {**theta, **given}

    chain = hidden.chain
    simplices = [
        *(n for n in chain.learned if chain.kind(n) == "simplex"),
        *(n for p in hidden.parts for n in p.learned if p.kind(n) == "simplex"),
    ]
    bounds = dict.fromkeys((n for n in simplices if not _patterned(hidden, n)), (0.0, 1.0))
    return EMPlan(
        how=chain.how,
        problem=problem,
        start=hidden.guess,
        values=values,
        dims=hidden.dims,
        placed=placed,
        labels=hidden.labels,
        kinds=hidden.problem(False).kinds(),
        bounds=bounds,
        unbounded=lambda theta: collapsed(hidden, theta),
    )


def _refuse_excluded(hidden: Hidden, name: str, value: np.ndarray) -> None:
    """Refuse start values above zero for excluded transitions, and log odds of staying that are not zero."""
    path = ("inference", "initvals", name)
    if name in LOG_ODDS:
        at = np.arange(hidden.n_states)
        if np.any(value[at, at] != 0):
            raise OptionError(f"initvals: '{name}' is 0 from a state to itself", path=path, code="out-of-range")
    elif np.any(value[hidden.chain.concentration(name) <= 0] != 0):
        raise OptionError(f"initvals: '{name}' is 0 where the chain has no way", path=path, code="out-of-range")


def _patterned(hidden: Hidden, name: str) -> bool:
    """Whether zeros are structural; also true for the first state of a single sequence, which is seldom uncertain."""
    if name == "initial" or name.startswith("initial_"):
        return hidden.sequences.n_sequences == 1 or bool((hidden.chain.concentration(name) <= 0).any())
    return name == "duration" or name.startswith("log_odds") or (name == "transition" and not hidden.chain.mask.all())
