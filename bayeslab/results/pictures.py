"""The plots of a fit by name: those of its view, of its draws, of its predictions and of its effects."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bayeslab.errors import BayeslabError, OptionError, hint, listed
from bayeslab.labelled import Group, of_dataset
from bayeslab.plots import draws as plots
from bayeslab.results import (
    clusters,
    convergence,
    features,
    field,
    gaussian_process,
    ppc,
    states,
    structure_draws,
    topics,
)
from bayeslab.results.effects.predictors import expectation_of
from bayeslab.results.fitted import Fitted
from bayeslab.results.predict import prior_groups

__all__ = ["draw", "first", "kinds"]

# The plots that a fit has, by its view; the first suits the model.
_OF_VIEWS: Mapping[str, Callable[[Fitted], Sequence[str]]] = {
    "clusters": clusters.applicable,
    "states": states.applicable,
    "function": gaussian_process.applicable,
    "features": features.applicable,
    "topics": topics.applicable,
    "field": field.applicable,
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
    of_draws = [what for what in _of_draws(fit) if what != "prior" or _prior_draws(fit, few=True)]
    return list(dict.fromkeys([*_of_view(fit), *of_draws, *_of_predictions(fit), *_of_effects(fit)]))


def draw(fit: Any, what: str, columns: Sequence[str] | None, var_names: str | Sequence[str] | None) -> Any:
    """The figure of a plot: see :meth:`bayeslab.results.fit.Fit.plot`."""
    of_view, of_draws = _of_view(fit), _of_draws(fit)
    if what in of_view:
        _refuse(var_names is not None, f"var_names: the picture '{what}' is not of quantities of choice")
        figure = _draw_view(fit, what, columns)
    elif what in of_draws:
        _refuse(bool(columns), f"columns: the picture '{what}' is not over columns of choice")
        if what == "prior" and not _prior_draws(fit):
            raise _lacking(fit, what)
        figure = of_draws[what](fit, [var_names] if isinstance(var_names, str) else var_names)
    elif what == "effects" and _of_effects(fit):
        _refuse(var_names is not None, f"var_names: the picture '{what}' is not of quantities of choice")
        figure = fit.plot_effects(columns)
    else:
        if what not in _of_predictions(fit):
            raise _lacking(fit, what)
        _refuse(bool(columns), f"columns: the picture '{what}' is not over columns of choice")
        _refuse(var_names is not None, f"var_names: the picture '{what}' is not of quantities of choice")
        figure = fit.plot_check(_CHECKS.get(what, what))
    return _titled(figure, f"{fit.model.name}: {what.replace('_', ' ')}")


def _refuse(wrong: bool, message: str) -> None:
    if wrong:
        raise OptionError(message, code="not-applicable")


def _lacking(fit: Any, what: str) -> OptionError:
    known = kinds(fit)
    return OptionError(
        f"this run has no picture '{what}'; it has {', '.join(known)}{hint(what, known)}", code="unknown-word"
    )


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
    return _OF_VIEWS[view](fit) if view in _OF_VIEWS else ()


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


def _prior_draws(fit: Any, *, few: bool = False) -> dict[str, np.ndarray]:
    """Prior draws of the quantities that the posterior has too; with ``few``, a handful to see which there are."""
    try:
        if few:
            prior = prior_groups(fit.bound_model, 8, fit.seed)["prior"]
        else:
            fit.prior_predictive()
            prior = fit.data_tree["prior"].to_dataset()
    except BayeslabError:
        return {}
    both = _quantities(of_dataset(prior))
    return {name: values for name, values in both.items() if name in _quantities(fit.light_group("posterior"))}


def _prior(fit: Any, var_names: Sequence[str] | None) -> Any:
    prior = _prior_draws(fit)
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
    names = {check: name for name, check in _CHECKS.items()}
    return [names.get(check, check) for check in ppc.applicable(fit)]


def _of_effects(fit: Any) -> list[str]:
    if fit.bound_model.view == "learner" or _has_structures(fit):
        return []
    try:
        expectation_of(fit)
    except BayeslabError:
        return []
    return ["effects"]
