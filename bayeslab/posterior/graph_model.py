"""What engines and results ask of a PyMC model beside its density: starts, draws of the prior, kinds of nodes."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.posterior.evaluation import expand

if TYPE_CHECKING:
    import pymc

__all__ = [
    "centred",
    "dims_of",
    "improper",
    "intermediate",
    "lasso",
    "observed_cells",
    "ordered",
    "prior_points",
    "separate",
    "why_no_start",
]


def improper(model: pymc.Model) -> list[str]:
    """Parameters with an improper prior, for which the evidence is undefined."""
    # Vector distributions such as LKJCholeskyCov have no name.
    names = {rv.name: rv.owner.op.name or "" for rv in model.free_RVs}
    return [name for name, distribution in names.items() if distribution.lower() in ("flat", "halfflat")]


def ordered(model: pymc.Model) -> bool:
    """Whether a prior is restricted to ordered vectors, without dividing by the probability of the order."""
    transforms = [model.rvs_to_transforms[rv] for rv in model.free_RVs]
    each = [part for t in transforms for part in getattr(t, "transform_list", [t])]
    return any(type(part).__name__ == "Ordered" for part in each)


def separate(model: pymc.Model) -> frozenset[str]:
    """Parameters each of whose elements is a monotone function of one coordinate."""
    monotone = ("NoneType", "LogTransform", "LogOddsTransform", "Interval", "IntervalTransform")
    return frozenset(
        str(rv.name) for rv in model.free_RVs if type(model.rvs_to_transforms.get(rv)).__name__ in monotone
    )


def lasso(model: pymc.Model, names: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> dict[int, float]:
    """Elements of the flat vector that are parameters with a prior Laplace(0, b) of known b, with their 1/b."""
    import pytensor
    from pytensor.graph.traversal import ancestors

    random, out, at = set(model.basic_RVs), dict[int, float](), 0
    by_value = {model.rvs_to_values[rv].name: rv for rv in model.free_RVs}
    for name, shape in zip(names, shapes, strict=True):
        rv = by_value[name]
        if getattr(rv.owner.op, "name", None) == "laplace" and model.rvs_to_transforms[rv] is None:
            location, scale = rv.owner.op.dist_params(rv.owner)
            if not set(ancestors([location, scale])) & random:
                mode = pytensor.compile.mode.Mode("py", "fast_compile")
                centre, width = pytensor.function([], [location, scale], mode=mode)()
                zero = np.broadcast_to(np.asarray(centre) == 0, shape).ravel()
                widths = np.broadcast_to(np.asarray(width, dtype=float), shape).ravel()
                out |= {at + int(i): float(1 / widths[i]) for i in np.flatnonzero(zero)}
        at += int(np.prod(shape))
    return out


def intermediate(model: pymc.Model) -> frozenset[str]:
    """Deterministic nodes from which others are computed, and internal parameters that other nodes show.

    Internal parameters (such as ``_squares``) are checked through the nodes that show them (the loadings), because
    coordinates may have symmetries that these do not have.
    """
    from pytensor.graph.traversal import ancestors

    # A deterministic node is a named copy of an expression, and other nodes may use either of the two.
    computed = {v: str(d.name) for d in model.deterministics for v in (d, d.owner.inputs[0])}
    hidden = {rv for rv in model.free_RVs if str(rv.name).startswith("_")}
    named = {*model.basic_RVs, *model.potentials, *computed}
    used, shows, shown = set(), set(), set()
    for node in named:
        direct = set(ancestors(node.owner.inputs if node.owner is not None else (), blockers=named)) & named
        used |= {computed[a] for a in direct if a in computed and computed[a] != computed.get(node)}
        if node in computed and not computed[node].startswith("_") and direct & hidden:
            shows.add(computed[node])
            shown |= {str(rv.name) for rv in direct & hidden}
    return frozenset(used - shows) | shown


def centred(model: pymc.Model) -> tuple[str, ...]:
    """Parameters whose scale depends on other parameters: centred hierarchies."""
    from pymc import Laplace, Logistic, Normal, StudentT
    from pytensor.graph.traversal import ancestors

    scaled = {kind.rv_op.__class__: -1 for kind in (Normal, Laplace, Logistic, StudentT)}
    free = set(model.free_RVs)
    return tuple(
        str(rv.name)
        for rv in model.free_RVs
        if rv.owner is not None
        and type(rv.owner.op) in scaled
        and any(a in free for a in ancestors([rv.owner.op.dist_params(rv.owner)[-1]]))
    )


def dims_of(model: pymc.Model) -> dict[str, tuple[str | None, ...]]:
    """Names of the axes of a model's variables, and of its value variables by the variables behind them."""
    dims = {name: tuple(known) for name, known in model.named_vars_to_dims.items() if known}
    values = {v.name: dims[rv.name] for rv, v in model.rvs_to_values.items() if rv.name in dims}
    return values | dims


def observed_cells(model: pymc.Model) -> dict[str, np.ndarray]:
    """The data of observed nodes; of nodes with missing cells those that are there, as ``<name>_observed``."""
    return {str(rv.name): np.asarray(constant(model.rvs_to_values[rv])) for rv in model.observed_RVs}


def constant(variable: Any) -> Any:
    """The value of a variable that holds data."""
    return (
        variable.data
        if hasattr(variable, "data")
        else variable.get_value()
        if hasattr(variable, "get_value")
        else variable.eval()
    )


def _prior_function(model: pymc.Model, names: tuple[str, ...], seed: int) -> Any:
    """A function without arguments that draws the value variables ``names`` from their priors."""
    import pytensor
    from pymc.initial_point import make_initial_point_expression
    from pymc.pytensorf import compile as compile_pymc

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
        return compile_pymc([], [by_name[name] for name in names], mode=mode, random_seed=seed)


def prior_points(model: pymc.Model, names: tuple[str, ...], seed: int, n: int, attempts: int) -> list[np.ndarray]:
    """At most ``n`` finite draws of the value variables from their priors; none if they cannot be drawn from."""
    points = list[np.ndarray]()
    try:
        function = _prior_function(model, names, seed)
        for _ in range(attempts):
            point = np.concatenate([np.asarray(v, dtype=np.float64).ravel() for v in function()])
            points += [point] if np.isfinite(point).all() else []
            if len(points) == n:
                break
    except (NotImplementedError, ValueError, TypeError):
        return []
    return points


def why_no_start(model: pymc.Model, point: Mapping[str, np.ndarray], tried: int) -> str:
    """The message about the node that excludes every start, with its value and those of its parents."""
    from pymc.logprob.utils import ParameterValueError

    values = {name: value[None] for name, value in point.items()}
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
