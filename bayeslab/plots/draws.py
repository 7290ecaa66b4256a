"""Plots of posterior draws, by arviz_plots: traces, ranks, densities, forests, pairs, energies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bayeslab.plots.figure import ACCENT, MUTED, OTHER, drawn_elsewhere

__all__ = ["autocorrelations", "densities", "energies", "forest", "pairs", "prior_densities", "ranks", "traces"]

type Draws = Mapping[str, np.ndarray]


def traces(draws: Draws, title: str) -> Any:
    """Plot the draws of every chain in order.

    Parameters
    ----------
    draws
        Shape (chain, draw), by the label of the quantity.
    """
    import arviz_plots

    return _panels(arviz_plots.plot_trace, draws, title)


def ranks(draws: Draws, title: str) -> Any:
    """Plot the distribution functions of the ranks of each chain minus the uniform one, with p-values."""
    import arviz_plots

    return _panels(arviz_plots.plot_rank, draws, title)


def autocorrelations(draws: Draws, title: str) -> Any:
    """Plot the autocorrelation of every chain up to a lag of 100."""
    import arviz_plots

    return _panels(arviz_plots.plot_autocorr, draws, title)


def densities(draws: Draws, title: str) -> Any:
    """Plot densities with the mean and the equal-tailed interval of 89 %."""
    import arviz_plots

    return _panels(
        arviz_plots.plot_dist,
        draws,
        title,
        ci_prob=0.89,
        ci_kind="eti",
        point_estimate="mean",
        visuals={"dist": {"color": ACCENT}, "credible_interval": {"color": ACCENT}},
    )


def prior_densities(draws: Draws, prior: Draws, title: str) -> Any:
    """Plot the densities of posterior and prior draws over each other."""
    import arviz_plots

    return _panels(arviz_plots.plot_prior_posterior, draws, title, prior=prior)


def forest(draws: Draws, title: str) -> Any:
    """Plot means and equal-tailed intervals of 50 and 89 %, one line for each quantity."""
    import arviz_plots

    made = drawn_elsewhere(
        lambda figure: _titled(
            arviz_plots.plot_forest(
                _tree(draws),
                combined=True,
                ci_kind="eti",
                ci_probs=(0.5, 0.89),
                point_estimate="mean",
                visuals={"ticklabels": False},
                backend="matplotlib",
                figure_kwargs=figure | {"figsize": (7.0, 1.0 + 0.28 * len(draws))},
            ),
            title,
        )
    )
    # The first column holds the names, which have no scale.
    made.axes[0].set_axis_off()
    return made


def pairs(draws: Draws, diverging: np.ndarray | None, title: str) -> Any:
    """Plot quantities against each other, with the draws at divergent steps.

    Parameters
    ----------
    diverging
        Shape (chain, draw).
    """
    import arviz_plots

    groups = {} if diverging is None else {"sample_stats": {"diverging": diverging}}
    side = 1.0 + 1.7 * len(draws)
    return drawn_elsewhere(
        lambda figure: _titled(
            arviz_plots.plot_pair(
                _tree(draws, **groups),
                backend="matplotlib",
                visuals={
                    "scatter": {"color": ACCENT, "alpha": 0.15, "size": 6},
                    "divergence": diverging is not None and bool(diverging.any()) and {"color": OTHER},
                },
                figure_kwargs=figure | {"figsize": (side, side)},
            ),
            title,
        )
    )


def energies(energy: np.ndarray, title: str) -> Any:
    """Plot the energies of NUTS and their changes from draw to draw, with the E-BFMI of each chain.

    Parameters
    ----------
    energy
        Shape (chain, draw).
    """
    import arviz_plots

    return drawn_elsewhere(
        lambda figure: _titled(
            arviz_plots.plot_energy(
                _tree({}, sample_stats={"energy": energy}),
                backend="matplotlib",
                figure_kwargs=figure | {"figsize": (7.5, 3.6)},
            ),
            title,
        )
    )


def _panels(plot: Callable[..., Any], draws: Draws, title: str, *, prior: Draws | None = None, **options: Any) -> Any:
    """A panel for each quantity, three in a row."""
    across = min(len(draws), 3)
    down = -(-len(draws) // across)
    groups = {} if prior is None else {"prior": prior}
    return drawn_elsewhere(
        lambda figure: _titled(
            plot(
                _tree(draws, **groups),
                backend="matplotlib",
                col_wrap=across,
                figure_kwargs=figure | {"figsize": (max(6.0, 1.0 + 3.1 * across), 0.6 + 2.3 * down)},
                **options,
            ),
            title,
        )
    )


def _titled(collection: Any, title: str) -> Any:
    figure = collection.viz["figure"].item()
    figure.suptitle(title, color=MUTED)
    return figure


def _tree(draws: Draws, **groups: Draws) -> Any:
    """Groups of ArviZ in which each quantity is a variable of its name."""
    import xarray as xr

    named = {name: values for name, values in ({"posterior": draws} | groups).items() if values}
    out = {}
    for group, values in named.items():
        made = xr.Dataset({label: (("chain", "draw"), array) for label, array in values.items()})
        out[group] = made.assign_coords(chain=np.arange(made.sizes["chain"]), draw=np.arange(made.sizes["draw"]))
    return xr.DataTree.from_dict(out)
