"""The plots of a fit by name: those of its view, of its draws, of its predictions and of its effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bayeslab.errors import BayeslabError, OptionError, hint, listed
from bayeslab.labelled import Group, of_dataset
from bayeslab.plots import draws as plots
from bayeslab.results import clusters, convergence, features, gaussian_process, structure_draws, topics
from bayeslab.results.effects.predictors import expectation_of
from bayeslab.results.ppc import CHECKS, STATISTICS

__all__ = ["draw", "first", "kinds"]

# Plots by the view that the fit has; the first suits the model.
_OF_VIEWS: Mapping[str, Sequence[str]] = {
    "clusters": clusters.PICTURES,
    "states": ("path", "transitions", "trace"),
    "function": gaussian_process.PICTURES,
    "features": features.PICTURES,
    "topics": topics.PICTURES,
    "field": ("most_probable", "probabilities"),
}
# Maximum number of quantities in a plot of panels, in a forest, and in a plot of pairs.
_PANELS, _ROWS, _PAIRS = 12, 40, 5
# Plots of predictive checks by their names here, where views have densities too.
_CHECKS = {"ppc": "density", "loo_pit": "pit", "residuals": "residuals"}


def first(fit: Any) -> str:
    """The name of the default plot."""
    return next(iter(_of_view(fit)), "ppc")


def kinds(fit: Any) -> list[str]:
    """Names of the plots that the fit has."""
    return list(dict.fromkeys([*_of_view(fit), *_of_draws(fit), *_of_predictions(fit), *_of_effects(fit)]))


def draw(fit: Any, what: str, columns: Sequence[str] | None, var_names: str | Sequence[str] | None) -> Any:
    """The figure of a plot: see :meth:`bayeslab.results.fit.Fit.plot`."""
    known = kinds(fit)
    if what not in known and not (what in CHECKS and _of_predictions(fit)):
        raise OptionError(
            f"this run has no picture '{what}'; it has {', '.join(known)}{hint(what, known)}", code="unknown-word"
        )
    of_view, of_draws = _of_view(fit), _of_draws(fit)
    if columns and what not in of_view and what not in _of_effects(fit):
        raise OptionError(f"columns: the picture '{what}' is not over columns of choice", code="not-applicable")
    if var_names is not None and (what in of_view or what not in of_draws):
        raise OptionError(f"var_names: the picture '{what}' is not of quantities of choice", code="not-applicable")
    if what in of_view:
        figure = _draw_view(fit, what, columns)
    elif what in of_draws:
        figure = of_draws[what](fit, [var_names] if isinstance(var_names, str) else var_names)
    elif what == "effects":
        figure = fit.plot_effects(columns)
    else:
        figure = fit.plot_check(_CHECKS.get(what, what))
    return _titled(figure, f"{fit.model.name}: {what.replace('_', ' ')}")


def _titled(figure: Any, title: str) -> Any:
    """The figure with a title, unless it or its panels have one."""
    panels = any(axes.get_title(loc) for axes in figure.axes for loc in ("left", "center", "right"))
    if not panels and not figure.get_suptitle():
        figure.suptitle(title, fontsize=10)
    return figure


# -------------------------------------------------------------------------------- views


def _of_view(fit: Any) -> Sequence[str]:
    if _has_structures(fit):
        return structure_draws.PICTURES
    view = fit.bound_model.view
    if view == "learner":
        return tuple(fit.learner.pictures)
    # Traces of these views are those of an iteration; draws have traces of quantities.
    iterated = fit.has_group("em") or fit.has_group("variational")
    return [what for what in _OF_VIEWS.get(view, ()) if what != "trace" or iterated]


def _draw_view(fit: Any, what: str, columns: Sequence[str] | None) -> Any:
    view = fit.bound_model.view
    if view == "learner":
        return fit.learner.plot(what, inputs=None if columns is None else list(columns))
    if view == "clusters":
        return fit.plot_clusters(what, columns=None if columns is None else list(columns))
    if view in ("states", "function"):
        drawn = fit.plot_states if view == "states" else fit.process.plot
        return drawn(what, column=_one(columns))
    if columns:
        raise OptionError(
            f"columns: pictures of the family {fit.model.model.family} are not over columns of choice",
            code="not-applicable",
        )
    if view == "features":
        return fit.plot_features(what)
    if view == "field":
        return fit.field.plot(what)
    return fit.topics.plot(what) if view == "topics" else fit.structures.plot(what)


def _has_structures(fit: Any) -> bool:
    return bool(fit.has_group("parent_sets"))


def _one(columns: Sequence[str] | None) -> str | None:
    if columns and len(columns) > 1:
        raise OptionError(f"columns: one, not {', '.join(columns)}", code="wrong-length")
    return columns[0] if columns else None


# -------------------------------------------------------------------------------- draws


def _sampled(fit: Any) -> bool:
    """Whether the posterior has draws of quantities that vary."""
    if fit.bound_model.view == "learner":
        return False
    sizes = fit.light_group("posterior").sizes
    return sizes.get("draw", 0) >= 4 and bool(_quantities(fit.light_group("posterior")))


def _quantities(group: Group) -> dict[str, np.ndarray]:
    """Draws of shape (chain, draw) by the labels of the summary, without internal and constant quantities."""
    out = {}
    for block in convergence.blocks(group):
        if block.name.startswith("_"):
            continue
        flat = block.values.reshape(*block.values.shape[:2], -1)
        for i in range(block.size):
            values = flat[:, :, i]
            if np.isfinite(values).all() and np.ptp(values.astype(float)) > 0:
                out[block.label(i)] = values
    return out


def _chosen(fit: Any, var_names: Sequence[str] | None, most: int) -> tuple[dict[str, np.ndarray], str]:
    """The quantities of a plot, and a remark if some are left out."""
    known = _quantities(fit.light_group("posterior"))
    if var_names is None:
        names = list(known)
    else:
        names = []
        for name in var_names:
            found = [label for label in known if label == name or label.startswith(f"{name}[")]
            if not found:
                raise OptionError(
                    f"no varying quantity '{name}' in the posterior{hint(name, known)}", code="unknown-variable"
                )
            names += found
    shown = {name: known[name] for name in names[:most]}
    return shown, f", the first {most} of {len(names):,}; var_names chooses" if len(names) > most else ""


def _panels(drawn: Callable[[Any, str], Any], says: str, most: int = _PANELS) -> Callable[..., Any]:
    def picture(fit: Any, var_names: Sequence[str] | None) -> Any:
        shown, some = _chosen(fit, var_names, most)
        return drawn(shown, f"{fit.model.name}: {says}{some}")

    return picture


def _pairs(fit: Any, var_names: Sequence[str] | None) -> Any:
    shown, some = _chosen(fit, var_names, _PAIRS)
    if len(shown) < 2:
        raise OptionError("pairs need two or more quantities", code="not-applicable")
    stats = fit.light_group("sample_stats") if fit.has_group("sample_stats") else None
    diverging = stats["diverging"].values if stats is not None and "diverging" in stats else None
    return plots.pairs(shown, diverging, f"{fit.model.name}: pairs of quantities, divergent steps in orange{some}")


def _prior(fit: Any, var_names: Sequence[str] | None) -> Any:
    fit.prior_predictive()
    prior = _quantities(of_dataset(fit.data_tree["prior"].to_dataset()))
    shown, some = _chosen(fit, var_names, len(prior) + _PANELS)
    both = {name: values for name, values in shown.items() if name in prior}
    if not both:
        raise OptionError(f"there are no prior draws of {listed(list(shown)[:3])}", code="not-applicable")
    if len(both) > _PANELS:
        some = f", the first {_PANELS} of {len(both)}; var_names chooses"
    names = list(both)[:_PANELS]
    title = f"{fit.model.name}: posterior over prior densities{some}"
    return plots.prior_densities({n: both[n] for n in names}, {n: prior[n] for n in names}, title)


def _energy(fit: Any, var_names: Sequence[str] | None) -> Any:
    if var_names is not None:
        raise OptionError("var_names: the picture 'energy' is not of quantities of choice", code="not-applicable")
    return plots.energies(fit.light_group("sample_stats")["energy"].values, f"{fit.model.name}: energies")


def _of_draws(fit: Any) -> dict[str, Callable[..., Any]]:
    """Pictures of posterior draws."""
    if not _sampled(fit):
        return {}
    out: dict[str, Callable[..., Any]] = {"trace": _panels(plots.traces, "traces of the chains")}
    if fit.light_group("posterior").sizes["chain"] > 1:
        out["rank"] = _panels(plots.ranks, "ranks of the chains minus the uniform distribution")
    out |= {
        "autocorrelation": _panels(plots.autocorrelations, "autocorrelations"),
        "posterior": _panels(plots.densities, "posterior densities, mean and 89 % interval"),
        "forest": _panels(plots.forest, "means, 50 and 89 % intervals", _ROWS),
        "pairs": _pairs,
    }
    if not _has_structures(fit):
        out["prior"] = _prior
    if fit.has_group("sample_stats") and "energy" in fit.light_group("sample_stats"):
        out["energy"] = _energy
    return out


# ------------------------------------------------------------------- predictions and effects


def _of_predictions(fit: Any) -> list[str]:
    if fit.bound_model.view == "learner" or _has_structures(fit):
        return []
    observed = [v.values for v in fit.light_group("observed_data").data_vars.values()] if _observed(fit) else []
    whole = any(values.dtype.kind in "iub" or np.all(values == np.round(values)) for values in observed)
    return [*_CHECKS, *(["calibration"] if whole else []), *STATISTICS]


def _observed(fit: Any) -> bool:
    return bool(fit.has_group("observed_data"))


def _of_effects(fit: Any) -> list[str]:
    if fit.bound_model.view == "learner" or _has_structures(fit):
        return []
    try:
        expectation_of(fit)
    except BayeslabError:
        return []
    return ["effects"]
