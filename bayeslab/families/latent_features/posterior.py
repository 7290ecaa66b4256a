"""Posterior of a latent feature model given its data: the interface for engines and results."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.errors import OptionError, unknown_column
from bayeslab.families.latent_features.model import Resolved, Written, resolved
from bayeslab.families.latent_features.spec import LatentFeatures
from bayeslab.posterior.answer import EMPlan, GibbsPlan, Plan
from bayeslab.posterior.contract import DataFinding, Draws, Named, Posterior, Purpose
from bayeslab.posterior.machine.arrays import NotLowered
from bayeslab.posterior.machine.model import MachineModel
from bayeslab.posterior.open_cells import row_by_row

if TYPE_CHECKING:
    import pymc

__all__ = ["LatentFeaturesPosterior"]

# Distance from zero, in sds, from which columns without means get a remark.
_FAR = 10.0


class LatentFeaturesPosterior(Posterior):
    """Posterior of a latent feature model given its data."""

    view = "features"
    on_arrays = True

    def may_be_relabelled(self) -> bool:
        """True: features are exchangeable."""
        return True

    def outcomes_used(self) -> Literal["no", "row", "sequence"]:
        """``row``: rows are independent, and a prediction uses the other cells of its row."""
        return "row"

    @property
    def spec(self) -> LatentFeatures:
        assert isinstance(self.model.model, LatentFeatures)
        return self.model.model

    @cached_property
    def resolved(self) -> Resolved:
        """The model on its data."""
        return resolved(self.model, self.data, None if self.origin is None else self.origin.resolved)

    def _there(self) -> None:
        for i, name in enumerate(self.spec.columns):
            if not self.data.has(name):
                raise unknown_column(name, self.data.names(), ("model", "columns", i))

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """The model as a PyMC graph.

        For fitting: its parameters, and one node ``evidence`` with the features of all rows integrated or summed out.
        For simulation: also ``z`` of every row, and a node for every column.
        """
        from bayeslab.families.latent_features import pymc_graph

        if purpose == "fit" and self.data.dataset.columns:
            self._there()
            return pymc_graph.with_evidence(self.resolved)
        return pymc_graph.written_out(self.model, self.resolved, self.data)

    def machine_model(self, weights: Mapping[str, np.ndarray] | None = None) -> MachineModel:
        from bayeslab.families.latent_features import density

        if weights:
            raise NotLowered(next(iter(weights)), "weights of rows whose features are summed out")
        self._there()
        return density.machine_model(self.resolved)

    @cached_property
    def exact_plan(self) -> Plan | str:
        """Not available: loadings and noise have no joint posterior in closed form."""
        return "loadings and noise have no posterior in closed form"

    @cached_property
    def em_plan(self) -> EMPlan | str:
        """The maximum of the likelihood, or the mode of the posterior, by expectation maximisation."""
        from bayeslab.families.latent_features import expectation_maximisation

        self._there()
        return expectation_maximisation.em(self.resolved)

    @cached_property
    def gibbs_plan(self) -> GibbsPlan | str:
        """Gibbs sampling of binary features."""
        from bayeslab.families.latent_features import gibbs_sampling

        if self.spec.kind == "gaussian":
            return "normal features are integrated out; use nuts or em"
        self._there()
        return gibbs_sampling.by_gibbs(self.resolved, self.model.data.rows)

    def preferred_engine(self) -> tuple[str, str] | None:
        """Gibbs for binary features."""
        spec = self.spec
        if spec.kind == "gaussian":
            return None
        many = "their number is not given" if spec.features == "ibp" else "weights integrated out"
        return "gibbs", f"Gibbs steps over which row has which feature: {many}"

    def priors(self) -> dict[str, str]:
        """The prior of each parameter; default priors are on the scale of the data."""
        resolved = self.resolved
        scale = "scale" if isinstance(resolved.scale[0], Written) else _some(resolved.scale)
        out = {"loading": f"Normal(0, {scale}), free of rotations" if not resolved.binary else f"Normal(0, {scale})"}
        if isinstance(resolved.scale[0], Written):
            out["scale"] = str(resolved.scale[0])
        out["noise"] = _some(resolved.noise)
        if resolved.offset:
            out["mean"] = f"Normal(mean of the column, {_some(tuple(resolved.offset_scale))})"
        if resolved.binary and resolved.features is not None:
            out["probability"] = f"Beta({resolved.probability[0]:g}, {resolved.probability[1]:g})"
        elif resolved.binary:
            alpha = resolved.alpha
            out["alpha"] = f"Gamma({alpha[0]:g}, {alpha[1]:g})" if isinstance(alpha, tuple) else f"{alpha:g}"
        return out

    def maximum_likelihood(self) -> tuple[float, int]:
        """The highest log likelihood, and the number of free parameters."""
        from bayeslab.families.latent_features import expectation_maximisation

        return expectation_maximisation.maximum_likelihood(self.resolved)

    def relabelled(self, draws: Draws) -> tuple[dict[str, np.ndarray], str] | None:
        """Draws with matched features: permuted if binary, rotated to the principal axes of their mean if normal."""
        from bayeslab.latents.features.feature_matching import permutations, rotated, turned

        if "loading" not in draws:
            return None
        loading = np.asarray(draws["loading"])
        if self.spec.kind == "gaussian":
            noise = _noises(self.resolved, draws)
            return {"loading": rotated(loading, noise)}, "the features"
        turning = self.spec.with_mean
        if loading.shape[2] == 1 and not turning:
            return None
        moves, signs = permutations(loading, turning=turning)
        out = {"loading": np.take_along_axis(loading, moves[:, None, :], axis=2)}
        if "probability" in draws:
            out["probability"] = np.take_along_axis(np.asarray(draws["probability"]), moves, axis=1)
        if turning and "probability" in draws:
            # By convention fewer than half of the rows have a feature.
            fewer = np.where(
                np.where(signs < 0, 1 - out["probability"], out["probability"]).mean(axis=0) > 0.5, -1.0, 1.0
            )
            reversed_features = turned(signs * fewer, out["loading"], out["probability"], np.asarray(draws["mean"]))
            out = dict(zip(("loading", "probability", "mean"), reversed_features, strict=True))
        return out, "the features"

    def numbering_rule(self) -> str | None:
        """Description of the rotation of normal features; binary ones are permuted to agree."""
        return "loadings are turned to the principal axes of their mean" if self.spec.kind == "gaussian" else None

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Posterior predictive rows at each draw, with new features for each row.

        Under an Indian buffet process each new row may also have features that no other row has.
        """
        resolved = self.resolved
        loading, means, noises = np.asarray(draws["loading"]), _means(resolved, draws), _noises(resolved, draws)
        n_rows, n_fitted = len(resolved.rows), len((self.origin or self).resolved.rows)
        out = np.empty((len(loading), n_rows, len(resolved.columns)))
        for i in range(len(out)):
            if resolved.binary:
                z = (rng.random((n_rows, loading.shape[2])) < draws["probability"][i]).astype(float)
            else:
                z = rng.standard_normal((n_rows, loading.shape[2]))
            sd: Any = noises[i]
            if resolved.features is None:
                alpha: Any = draws["alpha"][i] if "alpha" in draws else resolved.alpha
                scale: Any = draws["scale"][i] if "scale" in draws else resolved.scale[0]
                n_new = rng.poisson(alpha / (n_fitted + 1), n_rows)[:, None]
                sd = np.sqrt(noises[i] ** 2 + n_new * scale**2)
            out[i] = means[i] + z @ loading[i].T + sd * rng.standard_normal((n_rows, len(resolved.columns)))
        return {c: ((self.model.data.rows,), out[..., j]) for j, c in enumerate(resolved.columns)}

    def completed(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Draws of missing cells given the rest of the row; posterior predictive draws of complete rows."""
        resolved = self.resolved
        cells = np.isnan(resolved.rows)
        if (cells.all(axis=1) | ~cells.any(axis=1)).all():
            # An empty row is completed by a new row.
            return self.predictive(draws, rng)
        if resolved.features is None:
            raise OptionError(
                "under a buffet a new row may bring features of its own, and its open cells are not predicted from the"
                " others: give a number of features, or see fit.features(data)",
                code="not-applicable",
            )
        lacking = {c: cells[:, j] for j, c in enumerate(resolved.columns)}
        return row_by_row(lacking, lambda: self._filled(resolved, draws, rng), lambda: self.predictive(draws, rng))

    def _filled(self, resolved: Resolved, draws: Draws, rng: np.random.Generator) -> Named:
        """All rows, with missing cells drawn."""
        from bayeslab.families.latent_features import rows as latent_features_rows

        cells = latent_features_rows.completed(
            resolved,
            np.asarray(draws["loading"]),
            _means(resolved, draws),
            _noises(resolved, draws),
            draws.get("probability"),
            rng,
        )
        return {c: ((self.model.data.rows,), cells[..., j]) for j, c in enumerate(resolved.columns)}

    def log_likelihoods(self, draws: Draws) -> Named:
        """Log density of each row's observed cells at each draw, with its features integrated or summed out."""
        from bayeslab.families.latent_features import rows as latent_features_rows

        resolved = self.resolved
        if resolved.features is None:
            raise OptionError(
                "rows under a buffet are not independent given the features there are; for log likelihoods give a"
                " number",
                code="not-applicable",
            )
        log_p = latent_features_rows.log_likelihoods(
            resolved,
            np.asarray(draws["loading"]),
            _means(resolved, draws),
            _noises(resolved, draws),
            draws.get("probability"),
        )
        return {"row": ((self.model.data.rows,), log_p)}

    def features(self, draws: Draws, rng: np.random.Generator) -> Named:
        """Features of each row, loadings, and rows reconstructed from them."""
        from bayeslab.families.latent_features import rows as latent_features_rows

        self._there()
        resolved = self.resolved
        return latent_features_rows.features(
            resolved,
            self.model.data.rows,
            np.asarray(draws["loading"]),
            _means(resolved, draws),
            _noises(resolved, draws),
            draws.get("probability"),
            draws.get("named"),
            rng,
        )

    def data_findings(self) -> list[DataFinding]:
        """Report rows without observed cells, and columns without means that are far from zero."""
        resolved = self.resolved
        out: list[DataFinding] = []
        if empty := int(np.isnan(resolved.rows).all(axis=1).sum()):
            text = f"{empty} rows have no cell of these columns: they say nothing"
            out.append(("empty rows", "", empty, text, "leave them out"))
        if not resolved.offset and len(resolved.rows) and resolved.pooled > 0:
            level = float(np.sqrt(np.mean(resolved.centre**2))) / resolved.pooled
            if level > _FAR:
                text = (
                    f"columns are {level:.3g} of their sds from zero: with mean: zero a feature has to be their level"
                )
                out.append(("level", "", level, text, "write mean: own unless zero means that nothing is there"))
        return out

    def network(self) -> nx.DiGraph:
        """The graph of parameters, features of a row, and columns."""
        spec, rows = self.spec, self.model.data.rows
        sizes = {"column": len(spec.columns)}
        if spec.features != "ibp":
            sizes["feature"] = int(spec.features)
        if rows in self.data.labels:
            sizes[rows] = len(self.data.labels[rows])
        # Features have no order in which prior draws could be compared with posterior draws.
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
            out.add_node(column, kind="observed" if self.data.has(column) else "random", text="Normal", dims=along)
            for source in ("z", "loading", "noise", *(("mean",) if spec.with_mean else ())):
                out.add_edge(source, column)
        return out


def _some(values: tuple[Any, ...]) -> str:
    shown = [str(v) if isinstance(v, Written) else f"{v:.4g}" for v in values]
    return shown[0] if len(set(shown)) == 1 else f"{shown[0]} to {shown[-1]}, by column"


def _noises(resolved: Resolved, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    """Sds of the noise of every column at each draw (S, D)."""
    n, d = len(next(iter(draws.values()))), len(resolved.columns)
    if "noise" not in draws:
        return np.full((n, d), resolved.noise[0], float)
    noise = np.asarray(draws["noise"], float)
    return np.broadcast_to(noise[:, None] if noise.ndim == 1 else noise, (n, d))


def _means(resolved: Resolved, draws: Mapping[str, np.ndarray]) -> np.ndarray:
    n, d = len(next(iter(draws.values()))), len(resolved.columns)
    return np.asarray(draws["mean"]) if "mean" in draws else np.zeros((n, d))
