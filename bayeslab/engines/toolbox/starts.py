"""Starting points of searches and chains: points at which the log density and its gradient are finite.

Usually all points around the centres of the priors are valid. Under vague priors, or if data bound a parameter, they
may not be. Then draws from the priors, draws shrunk towards the centre, and points at growing distances from it are
tried, and a search climbs from the best valid one towards the mode.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from bayeslab.engines.toolbox.optimiser import search
from bayeslab.engines.toolbox.target import Target
from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.posterior.density import Density, centre
from bayeslab.posterior.evaluation import expand

__all__ = ["height", "middle", "near", "prior_function", "prior_points"]

# Number of points around the centre, of prior draws, of halvings of these, and of points at each distance.
_AROUND, _DRAWS, _HALVINGS, _FARTHER = 20, 50, 8, 30
# Number of steps of the climb from a start far from the mode.
_CLIMB = 200


def height(density: Callable[[np.ndarray], tuple[float, np.ndarray]], point: np.ndarray) -> float:
    """The log density, or -inf where it or its gradient is not finite."""
    try:
        value, gradient = density(point)
    except ModelError:
        return -np.inf
    return value if np.isfinite(value) and np.all(np.isfinite(gradient)) else -np.inf


def near(density: Density, point: np.ndarray, rng: np.random.Generator, jitter: float = 1.0) -> np.ndarray:
    """A point jittered by U(-jitter, jitter), or by less if that leaves the support."""
    step = rng.uniform(-jitter, jitter, point.size)
    for _ in range(_HALVINGS):
        if height(density, point + step) > -np.inf:
            return point + step
        step = step / 4.0
    return point


def middle(density: Density, initvals: Mapping[str, Any] | None = None) -> np.ndarray:
    """A point around which chains and searches can begin.

    Parameters
    ----------
    initvals
        Starting values by node name; other nodes start at the centres of their priors.

    Returns
    -------
    ndarray (n_dim,)

    Raises
    ------
    OptionError
        A name in ``initvals`` is not a parameter.
    ModelError
        No start was found; the message has the node that excludes all starts, its value, and what to do.
    """
    known = [v.name for v in density.model.free_RVs]
    for name in initvals or {}:
        if name not in known:
            raise OptionError(f"initvals: no parameter '{name}'{hint(name, known)}", code="unknown-parameter")
    usual = centre(density, initvals)
    rng = np.random.default_rng(0)
    around = [usual, *(usual + rng.uniform(-1.0, 1.0, usual.size) for _ in range(_AROUND))]
    if any(height(density, point) > -np.inf for point in around):
        return usual
    tried = len(around)
    for points in _stages(density, usual, rng):
        heights = [height(density, point) for point in points]
        tried += len(points)
        if max(heights, default=-np.inf) > -np.inf:
            return _climbed(density, points[int(np.argmax(heights))])
    raise ModelError(_reason(density, usual, tried), code="no-start")


def _stages(density: Density, usual: np.ndarray, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
    draws = prior_points(density, int(rng.integers(2**31)), _DRAWS)
    yield draws
    for k in range(1, _HALVINGS + 1):
        yield [usual + (draw - usual) / 2**k for draw in draws]
    for k in range(1, 6):
        yield [usual + 2.0**k * rng.standard_normal(usual.size) for _ in range(_FARTHER)]


def prior_points(density: Density, seed: int, n: int) -> list[np.ndarray]:
    """At most ``n`` finite draws from the prior, unconstrained; none if it cannot be drawn from, such as Flat."""
    try:
        function = prior_function(density, seed)
        points = [_flat(function()) for _ in range(n)]
    except (NotImplementedError, ValueError, TypeError):
        return []
    return [point for point in points if np.isfinite(point).all()]


def _flat(values: Any) -> np.ndarray:
    return np.concatenate([np.asarray(v, dtype=np.float64).ravel() for v in values])


def _climbed(density: Density, point: np.ndarray) -> np.ndarray:
    """A few steps towards the mode, because a start far out in a tail may be too steep for a sampler."""
    end = search(Target(density).falling, point, {"maxiter": _CLIMB, "maxfun": 4 * _CLIMB})
    return end.point if height(density, end.point) >= height(density, point) else point


def prior_function(density: Density, seed: int) -> Any:
    """A function without arguments that draws the value variables from their priors."""
    import pytensor
    from pymc.initial_point import make_initial_point_expression
    from pymc.pytensorf import compile as compile_pymc

    model = density.model
    # All values are drawn from the prior: with the starting values set for NUTS every point would be the same.
    drawn = make_initial_point_expression(
        free_rvs=model.free_RVs,
        rvs_to_transforms=model.rvs_to_transforms,
        initval_strategies={},
        default_strategy="prior",
        return_transformed=True,
    )
    by_name = {model.rvs_to_values[rv].name: value for rv, value in zip(model.free_RVs, drawn, strict=True)}
    mode = pytensor.compile.mode.Mode("py", "fast_compile")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return compile_pymc([], [by_name[name] for name in density.names], mode=mode, random_seed=seed)


# ------------------------------------------------------------------------------------- the message


def _reason(density: Density, point: np.ndarray, tried: int) -> str:
    """The message about the node that excludes every start, with its value and those of its parents."""
    from pymc.logprob.utils import ParameterValueError

    model = density.model
    values = {name: value[None] for name, value in density.split(point).items()}
    lead = (
        f"the density is zero or undefined at all {tried:,} starts (around the centres of the priors, drawn from them"
    )
    lead += ", shrunk towards the centre, farther out)"
    advice = "give starting values in initvals, or tighter priors"
    for rv in [*model.observed_RVs, *model.free_RVs]:
        try:
            (terms,) = expand(model, values, model.logp(vars=[rv], sum=False, jacobian=False))
        except ParameterValueError as error:
            broken = str(error).strip().splitlines()[0]
            return (
                f"{lead}: '{rv.name.removesuffix('_observed')}' needs {broken}; check the column or node that gives it"
            )
        except np.linalg.LinAlgError as error:
            name = rv.name.removesuffix("_observed")
            return f"{lead}: a matrix that '{name}' depends on cannot be used ({str(error).lower()}); {advice}"
        bad = np.argwhere(~np.isfinite(np.atleast_1d(terms[0])))
        if len(bad):
            at = tuple(int(i) for i in bad[0])
            where = f", element {', '.join(str(i + 1) for i in at)}" if np.ndim(terms[0]) else ""
            shown = _value_of(model, values, rv, at)
            parents = _parents(model, values, rv)
            if rv in model.observed_RVs:
                advice = f"check that {_word(rv)} can have that value; {advice}"
            return f"{lead}: '{rv.name.removesuffix('_observed')}'{where}{shown}{parents}; {advice}"
    return f"{lead}; {advice}"


def _word(rv: Any) -> str:
    return type(rv.owner.op).__name__.strip("_").removesuffix("RV")


def _value_of(model: Any, values: Mapping[str, np.ndarray], rv: Any, at: tuple[int, ...]) -> str:
    variable = model.rvs_to_values[rv]
    if rv in model.observed_RVs:
        value: Any = variable.data if hasattr(variable, "data") else variable.eval()
    else:
        (value,) = expand(model, values, [v for v in model.unobserved_value_vars if v.name == rv.name])
        value = value[0]
    value = np.asarray(value)
    at = at[: value.ndim]
    return f" (value {value[at] if at and value.ndim == len(at) else np.ravel(value)[0]:.6g})"


def _parents(model: Any, values: Mapping[str, np.ndarray], rv: Any) -> str:
    """The first few scalar parameters that a node depends on, with their values at the centre, as text."""
    from pytensor.graph.traversal import ancestors

    above = set(ancestors([rv]))
    free = [parent for parent in model.free_RVs if parent in above and parent is not rv and parent.ndim == 0][:4]
    if not free:
        return ""
    by_name = {v.name: v for v in model.unobserved_value_vars}
    centres = expand(model, values, [by_name[parent.name] for parent in free])
    shown = [f"{p.name} = {float(v[0]):.4g}" for p, v in zip(free, centres, strict=True)]
    return f" has no density at {', '.join(shown)}"
