"""Emissions of several hidden chains in a model file.

There are three kinds: every state of the product space has its own parameters, with the parts of one chain
(:class:`bayeslab.posterior.observed.part.StatePart`); a part belongs to one chain, and the product space looks it up
(:class:`bayeslab.posterior.observed.one_chain.OneChain`); or normal columns have a mean that is the sum of effects of
all chains (:class:`bayeslab.posterior.observed.additive.Additive`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayeslab.data.bound import Data
from bayeslab.data.weak_priors import refuse_constant
from bayeslab.distributions.emissions import column_variances
from bayeslab.errors import ModelError, unknown_parameter
from bayeslab.families.hmm.emission_parts import joint_of
from bayeslab.families.hmm.emission_parts import parts_of as emitted_parts
from bayeslab.families.hmm.given_parameters import (
    check_together,
    columns_of,
    given_of,
    numbers_of_shape,
    parameter_names,
)
from bayeslab.families.hmm.spec import HMM
from bayeslab.latents.chains.product import ProductChain
from bayeslab.posterior.observed.additive import Additive, AdditiveGaussian, effect_shape
from bayeslab.posterior.observed.one_chain import OneChain, SpreadEmission
from bayeslab.posterior.observed.part import StatePart

__all__ = ["additive", "check_parameters", "parts_of"]


def additive(spec: HMM) -> bool:
    """Whether the effects of chains are additive.

    Raises
    ------
    ModelError
        Additive effects are requested but not possible.
    """
    if spec.coupling != "factorial" or spec.effects == "joint":
        return False
    if spec.emission != "gaussian":
        if spec.effects == "additive":
            raise ModelError(
                "effects are additive for emission: gaussian; for others write effects: joint",
                path=("model", "effects"),
                code="unsupported",
            )
        return False
    if spec.covariance != "diagonal":
        raise ModelError(
            f"additive effects have one standard deviation a column; for covariance: {spec.covariance} write"
            " effects: joint",
            path=("model", "covariance"),
            code="unsupported",
        )
    return True


def check_parameters(spec: HMM, chain: ProductChain, layout: Sequence[tuple[str, str, tuple[str, ...]]]) -> None:
    """Check names and shapes of the given parameters.

    Raises
    ------
    ModelError
    """
    if additive(spec):
        _known_effects(spec, chain)
        return
    rest = _of_emissions(spec, chain)
    if spec.coupling == "factorial":
        if spec.covariance in ("full", "tied") and rest:
            raise ModelError(
                f"with covariance: {spec.covariance} all parameters are learned",
                path=("model", "parameters"),
                code="conflict",
            )
        given_of(rest, layout, chain.n_states)
        return
    given = _shared(spec, chain, rest)
    for c in _speaking(chain):
        given_of(given[chain.names[c]], _layout(spec, chain, c), chain.sizes[c])


def _of_emissions(spec: HMM, chain: ProductChain) -> dict[str, Any]:
    return {name: value for name, value in spec.parameters.items() if name not in chain.every}


def _speaking(chain: ProductChain) -> range:
    """The chains that emit: with a switch, all but the first."""
    return range(1 if chain.coupling == "switching" else 0, len(chain.names))


def _layout(spec: HMM, chain: ProductChain, c: int) -> list[tuple[str, str, tuple[str, ...]]]:
    """The parts of one chain."""
    columns = spec.columns if spec.emits is None else spec.emits.get(chain.names[c], [])
    words = (
        spec.emission if isinstance(spec.emission, str) else {k: v for k, v in spec.emission.items() if k in columns}
    )
    return columns_of(columns, words) if columns else []


def _shared(spec: HMM, chain: ProductChain, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Parameters of the emissions by chain, without the chain's name."""
    home = {
        f"{inner}_{chain.names[c]}": (chain.names[c], inner)
        for c in _speaking(chain)
        for inner in parameter_names(_layout(spec, chain, c))
    }
    out: dict[str, dict[str, Any]] = {name: {} for name in chain.names}
    for name, value in given.items():
        if name not in home:
            raise unknown_parameter(name, (*chain.every, *home))
        name_of_chain, inner = home[name]
        out[name_of_chain][inner] = value
    return out


def _known_effects(spec: HMM, chain: ProductChain) -> dict[str, np.ndarray]:
    """All parameters of additive columns as numbers; empty if they are unknown."""
    names = ("mean", *(f"effect_{name}" for name in chain.names), "sd")
    rest = _of_emissions(spec, chain)
    for name in rest:
        if name not in names:
            raise unknown_parameter(name, (*chain.every, *names))
    if not rest:
        return {}
    check_together(rest, names, "additive effects")
    return {
        name: numbers_of_shape(
            rest[name],
            effect_shape(name, chain.names, chain.sizes, len(spec.columns)),
            ("model", "parameters", name),
            "additive effects have the default priors",
            positive=name == "sd",
            scalar=False,
        )
        for name in names
    }


def parts_of(
    spec: HMM,
    data: Data,
    chain: ProductChain,
    layout: Sequence[tuple[str, str, tuple[str, ...]]],
    rows: np.ndarray,
    scaled_by: np.ndarray,
) -> tuple[Any, ...]:
    """Build the emission parts of the chains; rows are in the order of the layout.

    Raises
    ------
    ModelError, DataError
    """
    if additive(spec):
        return (_additive_of(spec, chain, rows, scaled_by),)
    rest = _of_emissions(spec, chain)
    made = {"covariance": spec.covariance, "trials": spec.trials, "dof": spec.dof}
    if chain.coupling == "factorial":
        if spec.covariance in ("full", "tied"):
            return (joint_of(spec, rows, scaled_by, chain.n_states, rest),)
        return emitted_parts(data, layout, rows, scaled_by, chain.n_states, rest, **made)  # type: ignore[arg-type]
    if spec.covariance in ("full", "tied"):
        raise ModelError(
            f"covariance: {spec.covariance} is for factorial chains with effects: joint; {chain.coupling} ones have"
            " diagonal or spherical",
            path=("model", "covariance"),
            code="unsupported",
        )
    order = [column for _, _, columns in layout for column in columns]
    given, out = _shared(spec, chain, rest), []
    for c in _speaking(chain):
        chain_layout = _layout(spec, chain, c)
        at = [order.index(column) for _, _, columns in chain_layout for column in columns]
        if at:
            inner = emitted_parts(
                data, chain_layout, rows[:, at], scaled_by[:, at], chain.sizes[c], given[chain.names[c]],
                **made,  # type: ignore[arg-type]
            )  # fmt: skip
            out += [_one(chain, c, part, at) for part in inner]
    return tuple(out)


def _one(chain: ProductChain, c: int, part: StatePart, at: Sequence[int]) -> OneChain:
    suffix = f"_{chain.names[c]}"
    inner = replace(
        part,
        at=tuple(at[j] for j in part.at),
        known={name + suffix: value for name, value in part.known.items()},
        priors={name + suffix: value for name, value in part.priors.items()},
        suffix=suffix,
        style=replace(part.style, state=chain.names[c]),
    )
    emitting_in = c - 1 if chain.coupling == "switching" else None
    return OneChain.of(inner, chain.names[c], SpreadEmission(part.emission, chain.space, c, emitting_in))


def _additive_of(spec: HMM, chain: ProductChain, rows: np.ndarray, scaled_by: np.ndarray) -> Additive:
    columns, known = tuple(spec.columns), _known_effects(spec, chain)
    if not known:
        refuse_constant(scaled_by, columns)
    emission = AdditiveGaussian(chain.sizes, len(columns)).with_prior(scaled_by, chain.n_states)
    emission.check(rows)
    return Additive(
        columns=columns, at=tuple(range(len(columns))), n_states=chain.n_states, chains=chain.names,
        emission=emission, spread=np.sqrt(column_variances(scaled_by)), known=known,
    )  # fmt: skip
