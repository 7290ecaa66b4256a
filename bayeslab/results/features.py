"""Latent features of a fit: the features of each row, their loadings, and reconstructed rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.errors import OptionError, hint
from bayeslab.plots import latent_features as plots
from bayeslab.posterior.groups import labelled
from bayeslab.results.fitted import Fitted, bound_to, posterior_values
from bayeslab.streams import stream

if TYPE_CHECKING:
    import xarray as xr


__all__ = ["applicable", "features", "plot_features"]

PICTURES = ("loadings", "images", "rows", "number")


def applicable(fit: Fitted) -> tuple[str, ...]:
    """The names of the plots that a fit has; images need a shape, which only :func:`plot_features` takes."""
    return ("loadings", "rows", *(["number"] if "n_features" in fit.posterior else []))


def features(fit: Fitted, data: Any = None) -> xr.Dataset:
    """Features of the rows of the fit, or of new rows."""
    bound = fit.data if data is None else bound_to(fit, data)
    made = fit.bound_model.on(bound).features(posterior_values(fit), stream(fit.seed, "features"))
    posterior = fit.posterior.to_dataset()
    labels = bound.labels | {str(d): posterior[d].to_numpy() for d in posterior.dims if d in posterior.coords}
    labels.setdefault("column", np.array(_columns(fit)))
    dims = {n: dims for n, (dims, _) in made.items()}
    return labelled(
        {n: values for n, (_, values) in made.items()}, dims, labels, {}, {"creation_library": "bayeslab"}
    ).to_dataset()


def plot_features(fit: Fitted, what: str, shape: tuple[int, int] | None) -> Any:
    """See :meth:`bayeslab.results.fit.Fit.plot_features`."""

    if what not in PICTURES:
        raise OptionError(f"unknown picture '{what}'{hint(what, PICTURES)}", code="unknown-word")
    if what == "number":
        if "n_features" not in fit.posterior:
            raise OptionError("the number of features was not sampled", code="not-applicable")
        return plots.number(fit.posterior["n_features"].to_numpy().ravel())
    group = fit.group("features", features)
    loading = group["loading"].to_numpy()
    if what == "images":
        rows, columns = shape or (0, 0)
        if rows * columns != len(loading):
            raise OptionError(
                f"shape has the rows and columns of an image of {len(loading)} cells, not {shape}", code="wrong-shape"
            )
        present = group["present"].to_numpy() if "present" in group else None
        return plots.images(loading.T.reshape(-1, rows, columns), present)
    if what == "rows":
        name = "active" if "active" in group else "score"
        return plots.rows(group[name].to_numpy(), binary=name == "active")
    sds, label = group["loading_sd"].to_numpy(), "loading"
    if "communality" in group:
        # Columns may have different units, so loadings are divided by the columns' sds.
        whole = np.sqrt((loading**2).sum(axis=1) / np.maximum(group["communality"].to_numpy(), 1e-12))[:, None]
        loading, sds, label = loading / whole, sds / whole, "loading / sd"
    return plots.loadings(loading, sds, _columns(fit), label)


def _columns(fit: Fitted) -> list[str]:
    spec: Any = fit.model.model
    return [str(column) for column in spec.columns]
