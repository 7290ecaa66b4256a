"""EM for Bayes nets: the unknown part of each local distribution, and its M-step."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayeslab.errors import ModelError
from bayeslab.families.bayes_net.local_distributions.contract import Local
from bayeslab.families.bayes_net.local_distributions.logit import Softmax
from bayeslab.families.bayes_net.local_distributions.noisy_max import NoisyMax
from bayeslab.families.bayes_net.local_distributions.place import identifier
from bayeslab.families.bayes_net.local_distributions.table import Table
from bayeslab.families.bayes_net.net import Net, Resolved
from bayeslab.language.numeric_priors import has_numbers, read_prior
from bayeslab.latents.networks.learning import TableProblem
from bayeslab.latents.networks.local_models import FreeTable, LocalModel
from bayeslab.latents.networks.local_models import NoisyMax as FittedMax
from bayeslab.latents.networks.local_models import NoisyOr as FittedOr
from bayeslab.latents.networks.local_models import Softmax as FittedSoftmax
from bayeslab.latents.networks.mixed_em import MixedProblem, Options
from bayeslab.latents.networks.mixed_network import LinearGaussian, MixedNetwork
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.posterior.answer import EMPlan

__all__ = ["em"]


def em(resolved: Resolved) -> EMPlan | str:
    """Plan of the maximum of the likelihood or the posterior, with hidden variables and missing cells summed out."""
    net = resolved.net
    if not net.learned and not net.regressions:
        return "every table is given, so that there is nothing to learn; `bayeslab query` answers questions"
    if net.parameters:
        return f"tables share the parameter '{next(iter(net.parameters))}', and EM fits each by itself; use nuts"
    if net.linears:
        return _mixed(resolved)
    try:
        fitted = {v: _fitted(net.locals[v], prior=False) for v in net.learned}
    except ModelError as error:
        return error.message

    def problem(prior: bool) -> TableProblem:
        models = {v: _fitted(net.locals[v], prior=prior).model for v in net.learned}
        return TableProblem.of(_blank(net), resolved.codes, models, resolved.counts)

    return EMPlan(
        how=f"the distributions of {len(fitted)} variables",
        problem=problem,
        start=lambda rng: {v: f.model.start(rng) for v, f in fitted.items()},
        values=lambda theta: {k: x for v, f in fitted.items() for k, x in f.values(theta[v]).items()},
        dims={name: dims for v, f in fitted.items() for name, dims in f.dims(net, v).items()},
        placed=lambda theta, given: {
            v: f.placed(np.array(theta[v]), f.select(net, v, given)) for v, f in fitted.items()
        },
        labels=net.labels(),
        kinds={name: f.kind for v, f in fitted.items() for name in f.dims(net, v)},
        bounds={
            name: (0.0, 1.0) for v, f in fitted.items() if not isinstance(f.local, Softmax) for name in f.dims(net, v)
        },
    )


def _blank(net: Net) -> Any:
    """The net with its known tables, and uniform tables in place of the unknown ones."""

    def uniform(v: str) -> np.ndarray:
        shape = (*(len(net.states[p]) for p in net.parents[v]), len(net.states[v]))
        return np.full(shape, 1 / shape[-1])

    tables = {v: one.known if one.known is not None else uniform(v) for v, one in net.locals.items()}
    return DiscreteNetwork(net.states, net.parents, tables, net.name)


@dataclass(frozen=True, eq=False)
class _Fitted:
    """A local distribution in EM's form, with its parameters by the posterior's names."""

    local: Local
    model: LocalModel
    values: Callable[[np.ndarray], dict[str, np.ndarray]]
    placed: Callable[[np.ndarray, Mapping[str, np.ndarray]], np.ndarray]
    kind: str

    def select(self, net: Net, variable: str, given: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The given values that belong to this distribution."""
        return {name: given[name] for name in self.dims(net, variable) if name in given}

    def dims(self, net: Net, variable: str) -> dict[str, tuple[str, ...]]:
        rows = self.local.rows
        return ({rows.name: net.dims(variable)} if rows is not None else {}) | dict.fromkeys(self.local.unknown, ())


def _fitted(local: Local, *, prior: bool) -> _Fitted:
    """How EM fits a local distribution, with its priors or without.

    Raises
    ------
    ModelError
        A prior has a form that the M-step does not support, or has no mode.
    """
    if isinstance(local, Table):
        return _table(local, prior)
    if isinstance(local, NoisyMax):
        return _noisy_or(local, prior) if local.rows is None else _noisy_max(local, prior)
    assert isinstance(local, Softmax)
    return _softmax(local, prior)


def _table(local: Table, prior: bool) -> _Fitted:
    rows = local.rows
    assert rows is not None
    shape = local.place.shape
    concentration, free = np.ones((len(local.fixed), shape[-1])), np.zeros(len(local.fixed), bool)
    free[rows.index] = True
    if prior:
        concentration[rows.index] = rows.concentration
    model = FreeTable(local.fixed.reshape(shape), concentration.reshape(shape), free.reshape(shape[:-1]))

    def values(theta: np.ndarray) -> dict[str, np.ndarray]:
        return {rows.name: theta if rows.whole else theta.reshape(-1, shape[-1])[rows.index]}

    def placed(theta: np.ndarray, given: Mapping[str, np.ndarray]) -> np.ndarray:
        for value in given.values():
            if rows.whole:
                return value
            theta.reshape(-1, shape[-1])[rows.index] = value
        return theta

    return _Fitted(local, model, values, placed, "simplex")


def _noisy_or(local: NoisyMax, prior: bool) -> _Fitted:
    names = list(local.unknown)
    causes, absent = {}, np.ones(math.prod(local.place.sizes))
    for cause, name in local.effects:
        word = identifier(name)
        if word in local.unknown:
            causes[word] = cause.by_row()
        else:
            absent = absent * np.where(cause.by_row() > 0, 1 - local.scalars.known[word], 1.0)
    betas = np.array([_numbers(local.unknown[n], "Beta", ("alpha", "beta")) for n in names]).T if prior else None
    shape, present = local.place.shape, int(local.order[1])
    model = FittedOr(shape, np.stack([causes[n] for n in names], axis=1), present, absent, betas)

    def placed(theta: np.ndarray, given: Mapping[str, np.ndarray]) -> np.ndarray:
        for name, value in given.items():
            theta[names.index(name)] = value
        return theta

    return _Fitted(local, model, lambda theta: {name: theta[i] for i, name in enumerate(names)}, placed, "unit")


def _noisy_max(local: NoisyMax, prior: bool) -> _Fitted:
    rows = local.rows
    assert rows is not None
    known = np.full((len(local.effects), local.place.shape[-1]), np.nan)
    concentration, drawn = np.ones(known.shape), []
    for i, (_, effect) in enumerate(local.effects):
        if isinstance(effect, int):
            concentration[i] = rows.concentration[effect] if prior else 1.0
            drawn.append(i)
        else:
            known[i] = effect
    causes = np.stack([cause.by_row() for cause, _ in local.effects], axis=1)
    model = FittedMax(local.place.shape, causes, local.order, concentration, known)

    def placed(theta: np.ndarray, given: Mapping[str, np.ndarray]) -> np.ndarray:
        for value in given.values():
            theta[drawn] = value
        return theta

    return _Fitted(local, model, lambda theta: {rows.name: theta[drawn]}, placed, "simplex")


def _softmax(local: Softmax, prior: bool) -> _Fitted:
    known = np.array([[local.scalars.known.get(identifier(n), np.nan) for n in row] for row in local.weights])
    normals = None
    if prior:
        each = [[_weight_prior(local, identifier(n)) for n in row] for row in local.weights]
        normals = tuple(np.moveaxis(np.array(each), -1, 0))
    model = FittedSoftmax(local.place.shape, local.design, local.reference, normals, known)
    names = {identifier(n): (i, j) for i, row in enumerate(local.weights) for j, n in enumerate(row)}

    def placed(theta: np.ndarray, given: Mapping[str, np.ndarray]) -> np.ndarray:
        for name, value in given.items():
            theta[names[name]] = value
        return theta

    return _Fitted(
        local, model, lambda theta: {n: theta[at] for n, at in names.items() if n in local.unknown}, placed, "real"
    )


def _weight_prior(local: Softmax, name: str) -> tuple[float, float]:
    return _numbers(local.unknown[name], "Normal", ("mu", "sigma")) if name in local.unknown else (0.0, 1.0)


def _numbers(text: str, word: str, keys: tuple[str, str]) -> tuple[float, float]:
    """The two numbers of a prior such as Beta(2, 3).

    Raises
    ------
    ModelError
        The prior is another distribution, or its parameters are not numbers.
    """
    called, given = read_prior(text)
    if called == word and has_numbers(given) and given.keys() >= set(keys):
        return float(given[keys[0]]), float(given[keys[1]])
    raise ModelError(
        f"EM needs a prior {word}({', '.join(keys)}) with numbers here, not {text}; use nuts", code="bad-prior"
    )


# --------------------------------------------------------------------------- continuous variables


def _mixed(resolved: Resolved) -> EMPlan | str:
    """Conditional linear Gaussian nets: closed-form M-steps of tables and regressions."""
    net = resolved.net
    odd = [v for v in net.learned if not isinstance(net.locals[v], Table) or not _whole(net.locals[v])]
    if odd:
        return f"in a net with continuous variables EM learns whole tables, and '{odd[0]}' is not one; use nuts"
    counts = {float(c) for v in net.learned for c in np.unique(_rows(net.locals[v]))}

    nodes = {}
    for v, one in net.linears.items():
        blank = np.zeros(one.shape), np.zeros((*one.shape, len(one.continuous))), np.ones(one.shape)
        nodes[v] = one.known or LinearGaussian((*one.discrete, *one.continuous), *blank)
    discrete = _blank(net)
    network = MixedNetwork(net.states, net.parents, discrete.tables, nodes, net.name)
    learned = (*net.learned, *net.regressions)

    def problem(prior: bool) -> MixedProblem:
        if prior and (len(counts) > 1 or any(c < 1 for c in counts)):
            raise ModelError(
                "in a net with continuous variables EM takes one pseudocount, of at least 1, for all tables;"
                " prior=ignore leaves it out",
                code="bad-prior",
            )
        # The weak prior of the regressions is left out: EM fits them by least squares.
        options = Options(table_count=max(counts, default=1.0) - 1.0 if prior else 0.0)
        return MixedProblem.of(network, resolved.codes, resolved.values, learned, options)

    plain = MixedProblem.of(network, resolved.codes, resolved.values, learned, Options())

    def values(theta: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        fitted = plain.network_at(theta)
        out = {_name(net.locals[v]): fitted.tables[v] for v in net.learned}
        for v in net.regressions:
            node, names = fitted.continuous[v], net.linears[v].names
            out |= {names[0]: node.intercept, names[2]: node.sd}
            if net.linears[v].continuous:
                out[names[1]] = node.slopes
        return out

    def placed(theta: Mapping[str, np.ndarray], given: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
        start = plain.network_at(theta)
        tables = {v: given.get(_name(net.locals[v]), start.tables[v]) for v in net.learned}
        nodes = dict(start.continuous)
        for v in net.regressions:
            names = dict(zip(("intercept", "slopes", "sd"), net.linears[v].names, strict=True))
            changes: dict[str, Any] = {word: given[name] for word, name in names.items() if name in given}
            nodes[v] = replace(nodes[v], **changes)
        return plain.parameters_of(replace(start, tables={**start.tables, **tables}, continuous=nodes))

    dims = {_name(net.locals[v]): net.dims(v) for v in net.learned}
    dims |= {name: d for v in net.regressions for name, d in net.linears[v].dims.items()}
    kinds = {_name(net.locals[v]): "simplex" for v in net.learned}
    kinds |= {net.linears[v].names[2]: "positive" for v in net.regressions}
    what = f"{len(net.learned)} tables and {len(net.regressions)} linear Gaussian distributions"
    return EMPlan(
        how=what,
        problem=problem,
        start=plain.start,
        values=values,
        dims=dims,
        placed=placed,
        labels=net.labels(),
        kinds=kinds,
    )


def _whole(local: Local) -> bool:
    return local.rows is not None and local.rows.whole


def _rows(local: Local) -> np.ndarray:
    assert local.rows is not None
    return local.rows.concentration


def _name(local: Local) -> str:
    assert local.rows is not None
    return local.rows.name
