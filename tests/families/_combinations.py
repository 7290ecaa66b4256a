"""Combinations of the keys of a model: each is refused in one line, or what is computed equals an oracle's answer.

Every pair of levels of two keys is tried, since mistakes that need three keys at once are rare. A family brings its
factors, what a combination declares, and a slow twin that reads the manual once more; the rest is here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

import bayeslab as bl
from bayeslab.errors import BayeslabError, EngineRefusal

type Levels = Mapping[str, Any]
#: A combination is a contradiction; or it has a likelihood, but no engine; or it is fitted.
type Standing = Literal["refused", "not fitted", "fitted"]

# --------------------------------------------------------------------------------- which combinations


def all_pairs(
    factors: Mapping[str, Sequence[Any]],
    seed: int,
    allowed: Callable[[dict[str, Any], set[str]], dict[str, Any]] = lambda choice, kept: choice,
) -> list[dict[str, Any]]:
    """Full combinations such that any two levels of two factors meet in one: each the best of some random ones.

    Parameters
    ----------
    allowed : callable
        The combination with other levels of some factors, but for those that are kept: only what is left in it counts.
    """
    rng = np.random.default_rng(seed)
    names = list(factors)
    missing = {
        (a, i, b, j)
        for a, b in itertools.combinations(names, 2)
        for i in range(len(factors[a]))
        for j in range(len(factors[b]))
    }

    def numbered(choice: dict[str, Any], drawn: dict[str, int]) -> dict[str, int]:
        """Numbers of the levels; of several that are equal the one that was drawn."""
        return {
            name: k if choice[name] is factors[name][k] else list(map(repr, factors[name])).index(repr(choice[name]))
            for name, k in drawn.items()
        }

    out = []
    while missing:
        # One missing pair is put in, so that it ends.
        a, i, b, j = min(missing)
        tried = []
        for _ in range(30):
            one = {name: int(rng.integers(len(levels))) for name, levels in factors.items()} | {a: i, b: j}
            one = numbered(allowed({name: factors[name][k] for name, k in one.items()}, {a, b}), one)
            met = {(p, one[p], q, one[q]) for p, q in itertools.combinations(names, 2)} & missing
            tried.append((len(met), one, met))
        _, best, met = max(tried, key=lambda t: t[0])
        missing -= met
        out.append({name: factors[name][k] for name, k in best.items()})
    return out


def pairs(factors: Mapping[str, Levels]) -> list[dict[str, str]]:
    """Every pair of levels of two factors, every level alone, and none, as {factor: level}.

    A factor that is not named keeps its default. Pairs that are refused would hide what they stand beside, so that
    every pair is tried by itself.
    """
    singles = [{factor: level} for factor, levels in factors.items() for level in levels]
    both = [
        {f: a, g: b}
        for (f, first), (g, second) in itertools.combinations(factors.items(), 2)
        for a in first
        for b in second
    ]
    return [{}, *singles, *both]


def among_others(
    choice: dict[str, str],
    factors: Mapping[str, Levels],
    rng: np.random.Generator,
    n: int,
    accepted: Callable[[dict[str, str]], bool],
) -> dict[str, str]:
    """The choice with levels of up to ``n`` further factors, drawn at random among those that are not refused.

    Parameters
    ----------
    accepted : callable
        Whether a choice is no contradiction.
    """
    rest = [factor for factor in factors if factor not in choice]
    for k in rng.permutation(len(rest))[: 5 * n]:
        more = choice | {rest[k]: list(factors[rest[k]])[rng.integers(len(factors[rest[k]]))]}
        with noted(more):
            if accepted(more):
                choice, n = more, n - 1
        if not n:
            break
    return choice


def patched(base: Levels, patches: Sequence[Levels]) -> dict[str, Any]:
    """A dict with patches of dicts laid over it; those of a value that is a dict itself are joined."""
    out = dict(base)
    for patch in patches:
        for key, value in patch.items():
            both = isinstance(value, dict) and isinstance(out.get(key), dict)
            out[key] = out[key] | value if both else value
    return out


# --------------------------------------------------------------------------------- what becomes of them


def refusal(call: Callable[[], Any]) -> BayeslabError | None:
    """The error that a call refuses with, which is a sentence in one line; None where it refuses nothing."""
    try:
        call()
    except BayeslabError as error:
        text = str(error)
        assert "\n" not in text and "Error" not in text and "unexpected" not in text, text
        return error
    return None


def refused_alike(
    declare: Callable[[], bl.Model], table: Any, fit: Callable[[bl.Model, Any], Any]
) -> tuple[bl.Model | None, BayeslabError | None]:
    """The model of a combination, and why it is refused: by ``check``, and by a fit with the same words.

    Returns
    -------
    Model or None
        None where there is no such model.
    BayeslabError or None
    """
    models: list[bl.Model] = []
    if (why := refusal(lambda: models.append(declare()))) is not None:
        return None, why
    if (why := refusal(lambda: bl.check(models[0], table))) is not None:
        again = refusal(lambda: fit(models[0], table))
        assert str(again) == str(why), f"check: {why}; fit: {again}"
    return models[0], why


@contextmanager
def noted(choice: Any) -> Iterator[None]:
    """Says of which combination an error inside is."""
    try:
        yield
    except Exception as error:
        error.add_note(str(choice))
        raise


def answered(
    choices: Iterable[Any], examined: Callable[[Any], bool], shown: Callable[[Any], Any] = lambda choice: choice
) -> int:
    """How many of the combinations have an answer, which ``examined`` holds to an oracle's.

    Parameters
    ----------
    shown : callable
        What a failure says of a combination.
    """
    total = 0
    for choice in choices:
        with noted(shown(choice)):
            total += examined(choice)
    return total


def sweep(
    factors: Mapping[str, Levels],
    standing: Callable[[dict[str, str]], Standing],
) -> list[dict[str, str]]:
    """Combinations that hold every pair: each among up to three others, unless one that is fitted holds it already.

    A pair stands by itself where it is refused, or stands with no others.
    """
    rng = np.random.default_rng(0)
    out: list[dict[str, str]] = []
    held: set[frozenset[tuple[str, str]]] = set()
    for pair in pairs(factors):
        if frozenset(pair.items()) in held:
            continue
        wider = among_others(pair, factors, rng, 3, lambda choice: standing(choice) != "refused")
        out += [wider] if wider == pair or standing(pair) != "refused" else [pair, wider]
        if standing(wider) == "fitted":
            held |= {frozenset(some) for n in range(3) for some in itertools.combinations(wider.items(), n)}
    return out


def standing_of(
    declare: Callable[[Levels], bl.Model], content: Levels, data: Any, instead: Levels | None = None
) -> Standing:
    """Whether a combination is a contradiction, as a model or with its data, and whether an engine fits it.

    Parameters
    ----------
    instead : dict, optional
        Keys that take the place of a choice of a number, which is made by fits: only as a model is it tried as it is.
    """
    try:
        model = declare(content)
        if instead:
            model = declare({key: value for key, value in content.items() if key != "choose"} | instead)
        bl.check(model, data)
    except EngineRefusal:
        return "not fitted"
    except BayeslabError:
        return "refused"
    return "fitted"
