r"""Family ``latent_features``: every row is a sum of a few features, each times how much of it the row has.

.. math:: x_n = m + W z_n + e_n, \qquad e_n \sim N(0, \Psi).

``kind: gaussian``: z_n is normal. With one noise for all columns this is probabilistic principal components [1]_, with
one for each it is factor analysis [2]_. The scores z_n are integrated out, and the data enter through their means and
covariances: what a step costs does not depend on the number of rows.

``kind: binary``: z_n says which features the row has: binary factor analysis, and with ``features: ibp``, where the
number of features is not given, the factor model of the Indian buffet process [3]_.

References
----------
.. [1] Tipping, Bishop (1999). Probabilistic principal component analysis. JRSS B 61, 611-622.
.. [2] Bartholomew, Knott, Moustaki (2011). Latent Variable Models and Factor Analysis, 3rd ed. Wiley.
.. [3] Griffiths, Ghahramani (2011). The Indian buffet process: an introduction and review. JMLR 12, 1185-1224.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.exact.answer import EMPlan, GibbsPlan, Plan
from bayeslab.families.latent_features.model import Resolved, Written, resolved
from bayeslab.families.latent_features.spec import LatentFeatures
from bayeslab.language.spec import Model
from bayeslab.posterior.open_cells import row_by_row

if TYPE_CHECKING:
    import pymc

__all__ = ["LatentFeatures", "Spec", "check", "em", "exact", "factors", "gibbs", "graph", "network", "outcomes"]

# Sds from zero from which on columns without means are remarked upon.
_FAR = 10.0


Spec = LatentFeatures


def _spec(model: Model) -> LatentFeatures:
    assert isinstance(model.model, LatentFeatures)
    return model.model


# --------------------------------------------------------------------------------- the contract


def check(model: Model, columns: set[str] | None) -> None:
    """The data have the columns that are named."""
    spec = _spec(model)
    if not columns or not any(name in columns for name in spec.columns):
        return  # to be simulated
    for i, name in enumerate(spec.columns):
        if name not in columns:
            raise ModelError(
                f"the data have no column '{name}'{hint(name, columns)}",
                path=("model", "columns", i),
                code="unknown-column",
            )


def factors(model: Model) -> set[str]:
    """No column is one."""
    return set()


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """The columns."""
    return tuple(_spec(model).columns)


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing that would have to be recovered: the family sums and integrates itself."""
    return ()


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing is computed from features in a draw."""
    return ()


def _there(model: Model, data: Data) -> None:
    for i, name in enumerate(_spec(model).columns):
        if not data.has(name):
            raise ModelError(
                f"the data have no column '{name}'{hint(name, data.names())}",
                path=("model", "columns", i),
                code="unknown-column",
            )


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """The model as a PyMC graph.

    To fit: its parameters, and one node ``evidence`` with the features of all rows integrated or summed out. To
    simulate: ``z`` of every row too, and a node for every column.
    """
    from bayeslab.families.latent_features import pymc_graph

    if purpose == "fit" and data.dataset.columns:
        _there(model, data)
        return pymc_graph.with_evidence(model, resolved(model, data))
    return pymc_graph.written_out(model, resolved(model, data), data)


def exact(model: Model, data: Data) -> Plan | str:
    """Never: loadings and noise have no joint posterior in closed form."""
    return "loadings and noise have no posterior in closed form"


def em(model: Model, data: Data) -> EMPlan | str:
    """The maximum of the likelihood, or the mode of the posterior, by expectation maximisation."""
    from bayeslab.families.latent_features import expectation_maximisation

    _there(model, data)
    return expectation_maximisation.em(resolved(model, data))


def gibbs(model: Model, data: Data) -> GibbsPlan | str:
    """Rows of binary features in turns."""
    from bayeslab.families.latent_features import gibbs_sampling

    if _spec(model).kind == "gaussian":
        return "normal features are integrated out; use nuts or em"
    _there(model, data)
    return gibbs_sampling.by_gibbs(resolved(model, data), model.data.rows)


def preferred(model: Model, data: Data) -> tuple[str, str] | None:
    """Gibbs steps of binary features."""
    spec = _spec(model)
    if spec.kind == "gaussian":
        return None
    many = "their number is not given" if spec.features == "ibp" else "weights integrated out"
    return "gibbs", f"Gibbs steps over which row has which feature: {many}"


def priors(model: Model, data: Data) -> dict[str, str]:
    """The prior of each parameter; numbers the file does not give are on the scale of the data."""
    seen = resolved(model, data)
    scale = "scale" if isinstance(seen.scale[0], Written) else _some(seen.scale)
    out = {"loading": f"Normal(0, {scale}), free of rotations" if not seen.binary else f"Normal(0, {scale})"}
    if isinstance(seen.scale[0], Written):
        out["scale"] = str(seen.scale[0])
    out["noise"] = _some(seen.noise)
    if seen.offset:
        out["mean"] = f"Normal(mean of the column, {_some(tuple(seen.offset_scale))})"
    if seen.binary and seen.features is not None:
        out["probability"] = f"Beta({seen.probability[0]:g}, {seen.probability[1]:g})"
    elif seen.binary:
        alpha = seen.alpha
        out["alpha"] = f"Gamma({alpha[0]:g}, {alpha[1]:g})" if isinstance(alpha, tuple) else f"{alpha:g}"
    return out


def _some(values: tuple[Any, ...]) -> str:
    shown = [str(v) if isinstance(v, Written) else f"{v:.4g}" for v in values]
    return shown[0] if len(set(shown)) == 1 else f"{shown[0]} to {shown[-1]}, by column"


def maximum_likelihood(model: Model, data: Data) -> tuple[float, int]:
    """The highest log likelihood, and the number of free parameters."""
    from bayeslab.families.latent_features import expectation_maximisation

    return expectation_maximisation.maximum_likelihood(resolved(model, data))


def relabelled(model: Model, data: Data, draws: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str] | None:
    """Draws whose features agree: permuted if binary, turned to the principal axes of their mean if normal."""
    from bayeslab.exact.feature_matching import permutations, rotated, turned

    if "loading" not in draws:
        return None
    loading = np.asarray(draws["loading"])
    if _spec(model).kind == "gaussian":
        noise = _noises(resolved(model, data), draws)
        return {"loading": rotated(loading, noise)}, "the features"
    turning = _spec(model).with_mean
    if loading.shape[2] == 1 and not turning:
        return None
    moves, signs = permutations(loading, turning=turning)
    out = {"loading": np.take_along_axis(loading, moves[:, None, :], axis=2)}
    if "probability" in draws:
        out["probability"] = np.take_along_axis(np.asarray(draws["probability"]), moves, axis=1)
    if turning and "probability" in draws:
        # The side that fewer rows are on is called having the feature.
        fewer = np.where(np.where(signs < 0, 1 - out["probability"], out["probability"]).mean(axis=0) > 0.5, -1.0, 1.0)
        found = turned(signs * fewer, out["loading"], out["probability"], np.asarray(draws["mean"]))
        out = dict(zip(("loading", "probability", "mean"), found, strict=True))
    return out, "the features"


def numbering(model: Model) -> str | None:
    """What was done to normal features; binary ones are permuted to agree."""
    return "loadings are turned to the principal axes of their mean" if _spec(model).kind == "gaussian" else None


def _noises(seen: Resolved, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Sds of the noise of every column at each draw (S, D)."""
    n, d = len(next(iter(draws.values()))), len(seen.columns)
    if "noise" not in draws:
        return np.full((n, d), seen.noise[0], float)
    own = np.asarray(draws["noise"], float)
    return np.broadcast_to(own[:, None] if own.ndim == 1 else own, (n, d))


def _means(seen: Resolved, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    n, d = len(next(iter(draws.values()))), len(seen.columns)
    return np.asarray(draws["mean"]) if "mean" in draws else np.zeros((n, d))


# --------------------------------------------------------------------------------- from draws


def predictive(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Replications of the rows at each draw, with features drawn anew.

    Of a buffet the rows are new ones, each with features of its own beside those there are.
    """
    seen = resolved(model, data)
    loading, means, noises = np.asarray(draws["loading"]), _means(seen, draws), _noises(seen, draws)
    n_rows, n_fitted = len(seen.rows), len(resolved(model, data.origin or data).rows)
    out = np.empty((len(loading), n_rows, len(seen.columns)))
    for i in range(len(out)):
        if seen.binary:
            z = (rng.random((n_rows, loading.shape[2])) < draws["probability"][i]).astype(float)
        else:
            z = rng.standard_normal((n_rows, loading.shape[2]))
        sd: Any = noises[i]
        if seen.features is None:
            alpha: Any = draws["alpha"][i] if "alpha" in draws else seen.alpha
            scale: Any = draws["scale"][i] if "scale" in draws else seen.scale[0]
            own = rng.poisson(alpha / (n_fitted + 1), n_rows)[:, None]
            sd = np.sqrt(noises[i] ** 2 + own * scale**2)
        out[i] = means[i] + z @ loading[i].T + sd * rng.standard_normal((n_rows, len(seen.columns)))
    return {c: ((model.data.rows,), out[..., j]) for j, c in enumerate(seen.columns)}


def completed(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The cells that rows leave open at each draw, given the rest of their row; replications of complete rows."""
    seen = resolved(model, data)
    cells = np.isnan(seen.rows)
    if (cells.all(axis=1) | ~cells.any(axis=1)).all():
        # What is drawn of an empty row is a new one.
        return predictive(model, data, draws, rng)
    if seen.features is None:
        raise OptionError(
            "under a buffet a new row may bring features of its own, and its open cells are not predicted from the"
            " others: give a number of features, or see fit.features(data)",
            code="not-applicable",
        )
    lacking = {c: cells[:, j] for j, c in enumerate(seen.columns)}
    return row_by_row(
        lacking, lambda: _filled(model, seen, draws, rng), lambda: predictive(model, data, draws, rng)
    )  # fmt: skip


def _filled(
    model: Model, seen: Resolved, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """All rows with their open cells drawn."""
    from bayeslab.families.latent_features import rows as latent_features_rows

    found = latent_features_rows.completed(
        seen,
        np.asarray(draws["loading"]),
        _means(seen, draws),
        _noises(seen, draws),
        draws.get("probability"),
        rng,
    )
    return {c: ((model.data.rows,), found[..., j]) for j, c in enumerate(seen.columns)}


def log_likelihoods(
    model: Model, data: Data, draws: Mapping[str, np.ndarray]
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """Log density of each row at each draw, over the cells it has, its features integrated or summed out."""
    from bayeslab.families.latent_features import rows as latent_features_rows

    seen = resolved(model, data)
    if seen.features is None:
        raise OptionError(
            "rows under a buffet are not independent given the features there are; for log likelihoods give a number",
            code="not-applicable",
        )
    found = latent_features_rows.log_likelihoods(
        seen, np.asarray(draws["loading"]), _means(seen, draws), _noises(seen, draws), draws.get("probability")
    )
    return {"row": ((model.data.rows,), found)}


def features(
    model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """What each row has of the features, their loadings, and the rows put together from them."""
    from bayeslab.families.latent_features import rows as latent_features_rows

    _there(model, data)
    seen = resolved(model, data)
    return latent_features_rows.features(
        seen,
        model.data.rows,
        np.asarray(draws["loading"]),
        _means(seen, draws),
        _noises(seen, draws),
        draws.get("probability"),
        draws.get("named"),
        rng,
    )


def remarks(model: Model, data: Data) -> list[tuple[str, str, float | None, str, str]]:
    """Rows without a single cell; columns without means that are far from zero."""
    seen = resolved(model, data)
    out: list[tuple[str, str, float | None, str, str]] = []
    if empty := int(np.isnan(seen.rows).all(axis=1).sum()):
        text = f"{empty} rows have no cell of these columns: they say nothing"
        out.append(("empty rows", "", empty, text, "leave them out"))
    if not seen.offset and len(seen.rows) and seen.pooled > 0:
        level = float(np.sqrt(np.mean(seen.centre**2))) / seen.pooled
        if level > _FAR:
            text = f"columns are {level:.3g} of their sds from zero: with mean: zero a feature has to be their level"
            out.append(("level", "", level, text, "write mean: own unless zero means that nothing is there"))
    return out


def network(model: Model, data: Data) -> nx.DiGraph:
    """Parameters, the features of a row, and the columns."""
    spec, rows = _spec(model), model.data.rows
    sizes = {"column": len(spec.columns)}
    if spec.features != "ibp":
        sizes["feature"] = int(spec.features)
    if rows in data.labels:
        sizes[rows] = len(data.labels[rows])
    # Features have no order by which draws of the prior could be compared with those of a posterior.
    out = nx.DiGraph(dims=sizes, unordered=("loading", "probability"))
    along = (rows,) if rows in sizes else ()
    each = ("feature",) if "feature" in sizes else ()
    if spec.kind == "binary":
        top = "alpha" if spec.features == "ibp" else "probability"
        out.add_node(top, kind="random", text="Gamma" if top == "alpha" else "Beta", dims=each)
        out.add_node(
            "z", kind="discrete", inner=True, text="buffet" if top == "alpha" else "Bernoulli", dims=(*along, *each)
        )
        out.add_edge(top, "z")
    else:
        out.add_node("z", kind="random", inner=True, text="Normal", dims=(*along, *each))
    out.add_node("loading", kind="random", text="Normal", dims=("column", *each))
    out.add_node("noise", kind="random", text="", dims=("column",) if spec.noise == "own" else ())
    if spec.with_mean:
        out.add_node("mean", kind="random", text="Normal", dims=("column",))
    for column in spec.columns:
        out.add_node(column, kind="observed" if data.has(column) else "random", text="Normal", dims=along)
        for source in ("z", "loading", "noise", *(("mean",) if spec.with_mean else ())):
            out.add_edge(source, column)
    return out
