"""Words of hidden Markov models that are checked before the whole is: durations and chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from bayeslab.errors import Flaw, hint
from bayeslab.language.spec import Spec
from bayeslab.latents.chains.durations import OF_DURATIONS

__all__ = ["INFINITE", "MOST_OF_ONE_CHAIN", "MOST_STATES", "SEVERAL", "Durations", "as_chains", "as_durations"]

# With 512 × 512 transition probabilities a forward pass over a few thousand rows takes about a second.
MOST_STATES = 512
# The transition matrix of this many states takes 200 MB.
MOST_OF_ONE_CHAIN = 5_000
# Keys that an infinite number of states allows.
INFINITE = frozenset(
    ("family", "columns", "states", "most", "emission", "covariance", "trials", "parameters", "sequence", "time",
     "stickiness")
)  # fmt: skip
# Keys that several chains allow.
SEVERAL = frozenset(
    ("family", "columns", "chains", "coupling", "effects", "emits", "emission", "covariance", "trials", "dof",
     "parameters", "sequence", "time", "initial", "pseudocount", "stickiness")
)  # fmt: skip
_LONGEST = 100_000


class Durations(Spec):
    """Distribution of how long a state lasts."""

    longest: int = Field(ge=1, le=_LONGEST, description="Longest possible duration, in rows.")
    law: Literal["table", "poisson", "negative_binomial"] = Field(
        default="table",
        description="Distribution of durations in each state: a table of probabilities, or a distribution of the"
        " duration minus one, truncated at `longest`.",
    )


def as_durations(value: Any) -> Any:
    """Read ``durations`` of a model file: a number, a mapping or None; refuse anything else with a one-line error."""
    entry = value if isinstance(value, Mapping) else {"longest": value}
    if value is None or isinstance(value, Durations):
        return value
    longest, law = entry.get("longest"), entry.get("law", "table")
    if isinstance(longest, bool) or not isinstance(longest, int) or not 1 <= longest <= _LONGEST:
        raise Flaw(
            f"the longest duration is a whole number from 1 to {_LONGEST:,}, not {longest!r}", code="out-of-range"
        )
    if law not in OF_DURATIONS:
        raise Flaw(f"unknown law '{law}'{hint(str(law), OF_DURATIONS)}", code="unknown-word")
    odd = sorted(entry.keys() - {"longest", "law"})
    if odd:
        raise Flaw(f"unknown key '{odd[0]}'{hint(odd[0], ('longest', 'law'))}", code="unknown-key")
    return value if not isinstance(value, Mapping) else Durations(longest=longest, law=law)


def as_chains(value: Any) -> Any:
    """Read ``chains`` of a model file: names mapped to numbers of states or to lists of state names."""
    if value is None:
        return value
    if not isinstance(value, dict):
        raise Flaw(
            "chains are names with numbers of states, such as {season: 2, weather: [dry, wet]}", code="wrong-type"
        )
    out: dict[str, int | list[str]] = {}
    for name, states in value.items():
        if isinstance(states, bool) or not isinstance(states, int | list):
            raise Flaw(
                f"chain '{name}': a number of states or a list of their names, not {states!r}", code="wrong-type"
            )
        if isinstance(states, int):
            if states < 1:
                raise Flaw(f"chain '{name}' has {states} states; at least 1 is needed", code="out-of-range")
            out[name] = states
            continue
        levels = [("true" if v else "false") if isinstance(v, bool) else str(v) for v in states]
        if not levels or len(set(levels)) < len(levels):
            raise Flaw(f"chain '{name}': at least one state, each name once", code="duplicate")
        out[name] = levels
    if len(out) < 2:
        raise Flaw("chains are two or more; of one chain write `states`", code="too-few")
    return out
