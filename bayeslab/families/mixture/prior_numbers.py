"""Conjugate priors of mixtures with numeric parameters, as model files give them."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayeslab.distributions import DISTRIBUTIONS, Law, emissions, maths
from bayeslab.errors import ModelError, OptionError, errors_at, hint
from bayeslab.families.mixture.spec import Mixture
from bayeslab.language.numeric_priors import has_numbers, numbers, read_prior
from bayeslab.latents.partitions.dirichlet_process import Concentration, ProcessPrior
from bayeslab.posterior.mixtures.bound_mixture import BoundMixture

__all__ = ["beta_or_gamma", "concentration", "gaussian_prior", "given_law", "lkj", "process_prior", "written_priors"]


def concentration(spec: Mixture, n: int, where: str = "weights") -> Any:
    """Concentration of a Dirichlet prior: a number, or for weights one for each component."""
    given = spec.priors.get(where, 1.0)
    if isinstance(given, str):
        word, values = numbers(given, {"Dirichlet": ("a",), "Beta": ("alpha", "beta")}, where)
        given = list(values) if word == "Beta" else values[0]
    path = ("model", "priors", where)
    try:
        value = np.asarray(given, float)
    except (TypeError, ValueError):
        raise ModelError(
            f"the prior of '{where}' is Dirichlet([..]) or a number, not {given!r}", path=path, code="bad-prior"
        ) from None
    if not (value > 0).all() or value.ndim > 1:
        raise ModelError(f"the concentration of '{where}' is positive, not {given!r}", path=path, code="out-of-range")
    if value.ndim == 0:
        return float(value)
    even = len(np.unique(value)) == 1
    if len(value) != n and not (even and where != "weights"):
        raise ModelError(
            f"the prior of '{where}' has {len(value)} numbers, {n} are wanted; or give one",
            path=path,
            code="wrong-length",
        )
    # Equal numbers do not distinguish components, like a single number.
    return float(value[0]) if even else value


def beta_or_gamma(spec: Mixture, emission: emissions.OneParameter) -> tuple[float, float] | None:
    """The prior of rates or probabilities, if the file has one."""
    name, given = emission.name, spec.priors.get(emission.name)
    if given is None:
        return None
    _, (a, b) = numbers(str(given), {emission.pair.name: ("alpha", "beta")}, name)
    if not (a > 0 and b > 0):
        raise ModelError(f"the parameters of {given} are positive", path=("model", "priors", name), code="out-of-range")
    return float(a), float(b)


def lkj(spec: Mixture) -> float | None:
    """η of the LKJ prior of correlations, if the file has one: LKJ(2), or the number."""
    given = spec.priors.get("correlation")
    if given is None:
        return None
    try:
        tree = ast.parse(str(given).strip(), mode="eval").body
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and tree.func.id == "LKJ":
            values = [*tree.args, *(k.value for k in tree.keywords if k.arg == "eta")]
            tree = values[0] if len(values) == 1 == len(tree.args) + len(tree.keywords) else tree
        eta = float(ast.literal_eval(tree))
    except (SyntaxError, ValueError, TypeError):
        eta = -1.0
    if not 0 < eta < np.inf:
        text = f"the prior of correlations is LKJ(eta) with a positive number (1: all alike), not {given}"
        raise ModelError(text, path=("model", "priors", "correlation"), code="bad-prior")
    return eta


def gaussian_prior(spec: Mixture, emission: Any, rows: np.ndarray, n_components: int) -> emissions.NormalPrior:
    """Normal-inverse-Wishart prior: numbers from the file, and defaults on the scale of the data."""
    given, path = spec.priors.get("components"), ("model", "priors", "components")
    d = emission.n_columns
    diagonal = isinstance(emission, emissions.DiagonalGaussian)
    known = given if isinstance(given, Mapping) else {}
    if len(rows):
        weak = emissions.NormalPrior.weak(rows, n_components, diagonal=diagonal)
    elif {"mean", "scale"} <= set(known):
        weak = emissions.NormalPrior(np.zeros(d), 0.01, 3.0 if diagonal else d + 2.0, np.eye(d))
    else:
        raise ModelError(
            "the prior of the components is on the scale of the data, and there are none; give priors: {components:"
            " {mean: .., scale: ..}}",
            path=("model", "priors"),
            code="no-data",
        )
    vector, matrix = {(), (d,)}, set[tuple[int, ...]]() if diagonal else {(d, d)}
    for name, shapes in {"mean": vector, "rows": {()}, "dof": {()}, "scale": vector | matrix}.items():
        if name in known and _shape(known[name]) not in shapes:
            lists = f", or a list of {d}" if (d,) in shapes else ""
            lists += f", or {d} lists of {d}" if (d, d) in shapes else ""
            raise ModelError(
                f"'{name}' of the prior of the components is a number{lists}; given: {known[name]!s:.60}",
                path=(*path, name),
                code="wrong-type",
            )
    mean = np.broadcast_to(np.asarray(known.get("mean", weak.mean), float), (d,)).copy()
    scale = np.asarray(known.get("scale", weak.scale), float)
    if diagonal:
        scale = np.broadcast_to(scale, (d,)).copy()
    elif scale.ndim < 2:
        scale = np.diag(np.broadcast_to(scale, (d,)))
    kappa, nu = float(known.get("rows", weak.kappa)), float(known.get("dof", weak.nu))
    good = scale.shape == ((d,) if diagonal else (d, d)) and kappa > 0 and nu > (0 if diagonal else d - 1)
    if not good or not np.all((scale if diagonal else np.linalg.eigvalsh(scale)) > 0):
        raise ModelError(
            f"the prior of {d} columns has rows > 0, dof > {0 if diagonal else d - 1} and a positive scale",
            path=path,
            code="out-of-range",
        )
    return emissions.NormalPrior(mean, kappa, nu, scale)


def _shape(value: object) -> tuple[int, ...] | None:
    """The shape of a number or of nested lists of numbers; None for anything else, such as ragged lists."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, int | float) and not isinstance(value, bool):
        return ()
    shapes = {_shape(entry) for entry in value} if isinstance(value, list | tuple) else set()
    if len(shapes) != 1 or None in shapes:
        return None
    (inner,) = shapes
    return (len(value), *(inner or ()))  # type: ignore[arg-type]


def given_law(text: str, distribution: str, parameter: str, path: tuple[str | int, ...]) -> Law:
    """The prior that a file gives to one parameter of a distribution, for all components.

    Raises
    ------
    ModelError
        The prior is not a univariate distribution with numeric parameters, or has values outside the parameter's
        domain.
    """
    word, given = read_prior(text, path)
    what = f"the prior of {distribution}'s {parameter}"
    if word is None:
        raise ModelError(
            f"{what} is a distribution with numbers, such as Gamma(2, 1), not {text}", path=path, code="bad-prior"
        )
    entry = DISTRIBUTIONS.get(word)
    if entry is None:
        raise ModelError(
            f"{what}: unknown distribution '{word}'{hint(word, DISTRIBUTIONS)}", path=path, code="not-a-distribution"
        )
    functions = None if entry.support or entry.discrete or entry.atoms or not entry.proper else maths(word)
    if functions is None:
        raise ModelError(
            f"{what} is a density of one number, such as Gamma(2, 1), not {text}", path=path, code="bad-prior"
        )
    if not has_numbers(given):
        raise ModelError(f"{what} is {word} with numbers, not {text}", path=path, code="bad-prior")
    arrays = {name: np.asarray(value, float) for name, value in given.items()}
    try:
        functions.canonical(**arrays)
    except ModelError as error:
        raise ModelError(f"{what}: {error.message}", path=path, code=error.code) from None
    if entry.angles and parameter not in DISTRIBUTIONS[distribution].angles:
        raise ModelError(f"{what}: {word} is of angles, and {parameter} is none", path=path, code="out-of-range")
    law = Law(word, arrays)
    interval = DISTRIBUTIONS[distribution].domain.parameters.get(parameter)
    if interval is not None:
        low, high = float(interval.low), float(interval.high)
        if float(law.ends[0]) < low or float(law.ends[1]) > high:
            raise ModelError(
                f"{what} has values that it cannot have: {parameter} is {interval.words(low, high)}, and {text} is not",
                path=path,
                code="out-of-range",
            )
    return law


def process_prior(spec: Mixture) -> ProcessPrior:
    """The prior of the concentration in the file: a number, Gamma(a, b), or empirical_bayes."""
    given, path = spec.concentration, ("model", "concentration")
    alpha: Concentration
    if given == "empirical_bayes":
        alpha = "empirical_bayes"
    elif isinstance(given, str):
        try:
            _, (a, b) = numbers(given, {"Gamma": ("alpha", "beta")}, "concentration")
        except ModelError as error:
            text = error.message.replace("the prior of 'concentration' is", "the concentration is a number, or")
            raise ModelError(text, path=path, offset=error.offset, code=error.code) from None
        alpha = (float(a), float(b))
    else:
        alpha = float(given)
    with errors_at(path):
        return ProcessPrior(alpha, float(spec.discount))


def written_priors(spec: Mixture, mixture: BoundMixture) -> dict[str, Any]:
    """The priors of the file, with default priors on the data's scale written as numbers."""
    out = dict(spec.priors)
    normal = [part for part in mixture.parts.values() if isinstance(part.emission.prior, emissions.NormalPrior)]
    if len(normal) == 1 and not out.keys() & {"mean", "sd", "correlation"}:
        prior = normal[0].emission.prior
        out["components"] = {
            "mean": np.asarray(prior.mean).tolist(),
            "rows": float(prior.kappa),
            "dof": float(prior.nu),
            "scale": np.asarray(prior.scale).tolist(),
        }
    rates = [part for name, part in mixture.parts.items() if name in ("poisson", "exponential")]
    if rates and "rate" not in out:
        pairs = {(float(a), float(b)) for part in rates for a, b in zip(*_each(part.emission), strict=True)}
        if len(pairs) > 1 or len(normal) > 1:
            raise OptionError(
                "rates of several columns have priors on the scale of each: give priors: {rate: Gamma(a, b)} in the"
                " model that is to get more rows",
                code="incomplete",
            )
        a, b = pairs.pop()
        out["rate"] = f"Gamma({a!r}, {b!r})"
    return out


def _each(emission: Any) -> tuple[np.ndarray, np.ndarray]:
    first, second = (np.broadcast_to(p, (emission.n_columns,)) for p in emission.prior)
    return first, second
