"""The result of a fit: summary, verdict, predictions, and ArviZ's DataTree."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslab.arrays import number
from bayeslab.engines.exact import solved_as
from bayeslab.errors import OptionError, hint
from bayeslab.labelled import Group, Variable
from bayeslab.posterior.averaging import AVERAGED
from bayeslab.report.writing import Report, check_path
from bayeslab.results.clusters import clusters, density, plot_clusters, plot_trace
from bayeslab.results.effects.pictures import plot_effects
from bayeslab.results.effects.quantities import comparisons, predictions, slopes
from bayeslab.results.effects.rows import grid
from bayeslab.results.features import features, plot_features
from bayeslab.results.field import FittedField, field_of
from bayeslab.results.fitted import Fitted, joined, log_evidence
from bayeslab.results.functions import Functions, functions_of
from bayeslab.results.on_demand import on_demand
from bayeslab.results.render import Table, exact_summary, fit_html, pick_rows, summary, summary_table
from bayeslab.results.responses import alone
from bayeslab.results.rope import with_shares
from bayeslab.results.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayeslab.posterior.expectation import Scale
    from bayeslab.results.effects.estimates import Effects
    from bayeslab.results.effects.pictures import What
    from bayeslab.results.effects.quantities import ComparisonKind, SlopeKind
    from bayeslab.results.gaussian_process import FittedProcess
    from bayeslab.results.learner import FittedLearner
    from bayeslab.results.render import Table
    from bayeslab.results.rope import Regions
    from bayeslab.results.states import States
    from bayeslab.results.structures import Structures
    from bayeslab.results.topics import FittedTopics

__all__ = ["Fit"]

# Columns of a summary that show whether draws suffice.
_DIAGNOSTICS = ("ess_bulk", "ess_tail", "r_hat")
_ERRORS = (*_DIAGNOSTICS, "mcse_mean", "mcse_sd")


class Fit(Fitted):
    """A fitted model: summary, verdict, predictions, checks and plots.

    ArviZ's functions take a fit where they take a ``DataTree``: ``az.summary(fit)``, ``az.compare({"a": fit})``. What a
    fit does not define itself is that of :attr:`data_tree`: ``fit["posterior"]``, ``fit.observed_data``.
    """

    # ArviZ asks isinstance(fit, DataTree), which is answered by the attribute __class__; type(fit) remains Fit.
    @property  # type: ignore[misc]
    def __class__(self) -> type:
        xarray = sys.modules.get("xarray")
        return getattr(xarray, "DataTree", Fit)

    def __reduce__(self) -> tuple[Any, ...]:
        return Fit, (self.bound_model, self.result, self.verdict, self.info, self.folder)

    if TYPE_CHECKING:  # of data_tree, by name, so that type checkers know every attribute that there may be
        posterior: xr.DataTree
        unconstrained_posterior: xr.DataTree
        exact_posterior: xr.DataTree
        sample_stats: xr.DataTree
        observed_data: xr.DataTree
        constant_data: xr.DataTree
        prior: xr.DataTree
        standard_errors: xr.DataTree
        beliefs: xr.DataTree
        cross_validation: xr.DataTree
        parent_sets: xr.DataTree
        completions: xr.DataTree
        training: xr.DataTree
        children: Mapping[str, xr.DataTree]
        groups: tuple[str, ...]
        attrs: dict[Any, Any]

        def to_netcdf(self, filepath: str | Path, **options: Any) -> Any: ...
        def to_zarr(self, store: Any, **options: Any) -> Any: ...
        def sel(self, indexers: Mapping[Any, Any] | None = None, **options: Any) -> xr.DataTree: ...
        def isel(self, indexers: Mapping[Any, Any] | None = None, **options: Any) -> xr.DataTree: ...

    else:

        def __getattr__(self, name: str) -> Any:
            if name.startswith("_") or "info" not in vars(self):
                raise AttributeError(f"'Fit' object has no attribute '{name}'")
            try:
                return getattr(self.data_tree, name)
            except AttributeError:
                known = {*dir(type(self)), *vars(self), *dir(self.data_tree)}
                near = hint(name, sorted(n for n in known if not n.startswith("_")))
                near = near if "did you mean" in near else "; fit.data_tree lists the groups"
                raise AttributeError(f"a fit has no attribute '{name}'{near}") from None

    def __getitem__(self, group: str) -> Any:
        made = getattr(type(self), group, None)
        if isinstance(made, on_demand) and group not in self.data_tree.children:
            made.make(self)
        return self.data_tree[group]

    def __contains__(self, group: object) -> bool:
        return group in self.data_tree

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data_tree)

    @classmethod
    def of(cls, fitted: Fitted) -> Fit:
        """A :class:`Fit` from the record of a run."""
        return cls(fitted.bound_model, fitted.result, fitted.verdict, fitted.info, fitted.folder)

    def summary(
        self,
        var_names: str | list[str] | None = None,
        *,
        ci_prob: float = 0.89,
        ci_kind: Literal["eti", "hdi"] = "eti",
        rope: Regions | None = None,
    ) -> pd.DataFrame:
        """Mean, sd, credible interval, ESS and R-hat of every quantity, with ArviZ's column names.

        After the engine ``exact``, means, sds and equal-tailed intervals are exact, and there are no
        columns of Monte Carlo errors. Independent draws from an approximation (``advi``, ``laplace``,
        ``pathfinder``, ``variational``) have no ESS and R-hat, which would only confirm independence.

        For a learner: its held-out scores, and the quantities it learned.

        For sampled structures: their score, their number of edges, and the probability of every drawn edge, most
        probable first, without intervals.

        Parameters
        ----------
        var_names
            Names of the nodes or rows to include, as the summary prints them: ``"b"``, ``"b[size]"``.
        ci_prob, ci_kind
            Probability and kind (``eti``: equal tails, ``hdi``: highest density) of the interval.
        rope
            Regions of practical equivalence: the two ends of one for all quantities, or regions by row (``b[size]``) or
            node (``b``). The column ``in_rope`` has the share of the draws within.

        Raises
        ------
        OptionError
            There is no such node or row; the message suggests the most similar name.

        Examples
        --------
        >>> import bayeslab as bl
        >>> data = {"x": [0, 1, 2, 3], "y": [1.0, 3.1, 4.9, 7.0]}
        >>> fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ x")), data, runs=None, seed=1)
        >>> float(fit.summary("b", rope={"b[x]": (-0.1, 0.1)})["in_rope"].iloc[0])
        0.0
        """
        if rope is not None:
            if self.has_group("cross_validation") or self.has_group("parent_sets"):
                raise OptionError("rope: this run has no posterior draws of quantities", code="not-applicable")
            whole = with_shares(self.summary(ci_prob=ci_prob, ci_kind=ci_kind), self.light_group("posterior"), rope)
            return (
                whole
                if var_names is None
                else pick_rows(whole, [var_names] if isinstance(var_names, str) else var_names)
            )
        if var_names is None:
            return self.summary_table(ci_prob=ci_prob, ci_kind=ci_kind).frame()
        names = [var_names] if isinstance(var_names, str) else [str(name) for name in var_names]
        groups = [self.light_group(group) for group in ("posterior", "exact_posterior") if self.has_group(group)]
        nodes = {name for group in groups for name in group.data_vars}
        if nodes.issuperset(names):
            return self.summary_table(names, ci_prob=ci_prob, ci_kind=ci_kind).frame()
        if self.has_group("cross_validation") or self.has_group("parent_sets"):
            # Their rows do not belong to nodes.
            return pick_rows(self.summary_table(ci_prob=ci_prob, ci_kind=ci_kind).frame(), names)
        holding = [name if name in nodes else name.partition("[")[0] for name in names]
        for name in holding:
            if name not in nodes:
                raise OptionError(
                    f"no variable '{name}' in the posterior{hint(name, sorted(nodes))}", code="unknown-variable"
                )
        return pick_rows(
            self.summary_table(list(dict.fromkeys(holding)), ci_prob=ci_prob, ci_kind=ci_kind).frame(), names
        )

    def summary_table(
        self,
        var_names: list[str] | None = None,
        *,
        ci_prob: float = 0.89,
        ci_kind: Literal["eti", "hdi"] = "eti",
    ) -> Table:
        """The summary of nodes, all rows of each, without pandas; see :meth:`summary`."""
        if self.has_group("cross_validation") and var_names is None:
            return Table.of(self._learner_summary())
        sampled = self.has_group("parent_sets")
        if sampled and var_names is None:
            return Table.of(self._structure_summary())
        if self.has_group("exact_posterior") and ci_kind == "eti" and not sampled:
            return self._exact_summary(var_names, ci_prob)
        posterior = self.light_group("posterior")
        table = summary_table(posterior, var_names, ci_prob, ci_kind)
        if self.has_group("beliefs"):
            return self._with_beliefs(table, var_names or list(posterior.data_vars))
        if {"pareto_k", "elbo", "bethe_log_partition"} & posterior.attrs.keys():
            return Table(table.index, {n: v for n, v in table.columns.items() if n not in _DIAGNOSTICS})
        return table

    def _with_beliefs(self, table: Table, names: list[str]) -> Table:
        """Probabilities as belief propagation made them, in place of shares of draws."""
        beliefs = self.light_group("beliefs")
        p = np.concatenate([np.ravel(beliefs[name].values) for name in names])
        columns = {"mean": p, "sd": np.sqrt(p * (1 - p))}
        return Table(table.index, columns | {n: v for n, v in table.columns.items() if n.startswith(("eti", "hdi"))})

    def _structure_summary(self) -> pd.DataFrame:
        """Score and number of edges, then the edges by decreasing probability."""
        import pandas as pd

        edges = self.structures.edges()
        p = edges["probability"].to_numpy()
        columns = {"mean": p, "sd": np.sqrt(p * (1 - p))}
        if "mcse" in edges:
            columns |= {"ess_bulk": edges["ess"], "r_hat": edges["r_hat"], "mcse_mean": edges["mcse"]}
        names = [f"edge[{a}, {b}]" for a, b in zip(edges["source"], edges["target"], strict=True)]
        by_edge = pd.DataFrame({name: np.asarray(values) for name, values in columns.items()}, index=names)
        whole = summary(self.posterior.to_dataset()[["score", "n_edges"]])
        return pd.concat([whole.reindex(columns=list(by_edge.columns)), by_edge])

    def _learner_summary(self) -> pd.DataFrame:
        """Held-out scores, then the learned quantities."""
        import pandas as pd

        group = self.data_tree.children["cross_validation"].to_dataset()
        names = [f"{name} (left out)" for name in group["measure"].to_numpy()]
        each = group["fold_score"].to_numpy()
        # If a fold's score is minus infinity, there is no standard deviation.
        known = np.isfinite(each).all(axis=0) & (len(each) > 1)
        spread = np.full(len(names), np.nan)
        spread[known] = each[:, known].std(axis=0, ddof=1)
        scores = pd.DataFrame({"value": group["score"].to_numpy(), "sd over folds": spread}, index=names)
        return pd.concat([scores, summary(self.posterior.to_dataset())])

    def _exact_summary(self, var_names: list[str] | None, ci_prob: float) -> Table:
        """Exact statistics; for nodes without them (nonlinear ones), statistics of the independent draws."""
        group, draws = self._exact_group(ci_prob), self.light_group("posterior")
        wanted = var_names or [name for name in draws.data_vars if not name.startswith("_")]
        if all(name in group for name in wanted):
            return exact_summary(group, var_names, ci_prob)
        parts = [
            exact_summary(group, [name], ci_prob) if name in group else summary_table(draws, [name], ci_prob)
            for name in wanted
        ]
        names = [name for name in dict.fromkeys(n for part in parts for n in part.columns) if name not in _ERRORS]
        if "median" in names:  # for quantities without a mean; the column stands beside the mean
            names.remove("median")
            names.insert(2, "median")
        blank = [np.full(len(part.index), np.nan) for part in parts]
        columns = {
            name: np.concatenate([part.columns.get(name, nan) for part, nan in zip(parts, blank, strict=True)])
            for name in names
        }
        return Table([label for part in parts for label in part.index], columns)

    def _exact_group(self, ci_prob: float) -> Group:
        """The group ``exact_posterior`` with the quantiles of this interval."""
        number(ci_prob, "ci_prob", 0, 1, above=True, below=True)
        group, draws = self.light_group("exact_posterior"), self.light_group("posterior")
        known = list(group["statistic"].values.tolist())
        for probability in ((1 - ci_prob) / 2, (1 + ci_prob) / 2):
            word = f"q{100 * probability:g}"
            if word in known or not 0 < probability < 1:
                continue
            plan = self.bound_model.exact_plan if self.method == "exact" else "quantiles of the draws"
            if isinstance(plan, str):
                flat = joined(draws.only(list(group.data_vars)))
                values: Mapping[str, Any] = {name: np.quantile(v, probability, axis=0) for name, v in flat.items()}
            else:
                values = solved_as(plan, self.info["options"].get("scales", "integrate")).quantile(probability)
            known.append(word)
            more = {}
            for name, variable in group.data_vars.items():
                first = variable.transpose("statistic", ...)
                longer = np.concatenate([first.values, np.asarray(values[name], float)[None]])
                more[name] = Variable(first.dims, longer, variable.attrs)
            labels = group.coords | {"statistic": Variable(("statistic",), np.array(known))}
            group = replace(group, data_vars=more, coords=labels)
        return group

    @property
    def log_evidence(self) -> float:
        """The log evidence of the model: the log of the marginal likelihood of the data.

        Exact after the engine ``exact``, an estimate after ``smc`` (its error is in the verdict) and ``grid``, a lower
        bound after ``variational`` and ``advi``.

        Raises
        ------
        OptionError
            The engine does not compute the evidence.
        """
        evidence = log_evidence(self)
        if np.isnan(evidence):
            raise OptionError(
                f"the method {self.method} gives no log evidence; use exact where it applies, or smc",
                code="not-applicable",
            )
        return evidence

    @property
    def states(self) -> States:
        """The hidden states of a model with chains, trees or segments: paths, probabilities and plots.

        Raises
        ------
        OptionError
            The model has no hidden states.
        """
        from bayeslab.results.states import states_of

        return self.view(states_of)

    @property
    def field(self) -> FittedField:
        """The variables of a Markov random field: probabilities, most probable states, partition function, plots.

        Raises
        ------
        OptionError
            The model is of another family.
        """
        return self.view(field_of)

    @property
    def functions(self) -> Functions:
        """The functions of a graph (nodes ``GaussianProcess``): values at the rows of the fit, and plots.

        Raises
        ------
        OptionError
            The model has no such node; for the family gaussian_process see :attr:`process`.
        """
        return self.view(functions_of)

    @property
    def structures(self) -> Structures:
        """The sampled structures of a Bayes net: edges, graphs, and queries and effects averaged over them.

        Raises
        ------
        OptionError
            The structure of the model is known.
        """
        from bayeslab.results.structures import structures_of

        return self.view(structures_of)

    @property
    def topics(self) -> FittedTopics:
        """The topics of documents: words, proportions, held-out probability of documents, and plots.

        Raises
        ------
        OptionError
            The model has no topics.
        """
        from bayeslab.results.topics import topics_of

        return self.view(topics_of)

    @property
    def process(self) -> FittedProcess:
        """The fitted Gaussian process: leave-one-out predictions, active learning, informative rows, and plots.

        Raises
        ------
        OptionError
            The model is of another family.
        """
        from bayeslab.results.gaussian_process import process_of

        return self.view(process_of)

    @property
    def learner(self) -> FittedLearner:
        """The fitted classical learner: held-out predictions, confusion matrix, margins, training curves, and plots.

        Raises
        ------
        OptionError
            The model is of another family.
        """
        from bayeslab.results.learner import learner_of

        return self.view(learner_of)

    def diagnose(self) -> Verdict:
        """The verdict: pass, warn or fail, with the findings of the checks."""
        return self.verdict

    @on_demand
    def prior_predictive(self, draws: int = 500) -> xr.DataTree:
        """Draws of parameters and data from the prior, as groups ``prior`` and ``prior_predictive``.

        Returns
        -------
        xarray.DataTree
            The group ``prior_predictive``; both are added to :attr:`data_tree`.
        """
        from bayeslab.results.predict import prior_groups

        self.add(prior_groups(self.bound_model, draws, self.seed))
        return self.data_tree.children["prior_predictive"]

    @on_demand
    def posterior_predictive(self) -> xr.DataTree:
        """Replications of the observed nodes, added as the group ``posterior_predictive``."""
        from bayeslab.results.predict import posterior_predictive

        self.add({"posterior_predictive": posterior_predictive(self)})
        return self.data_tree.children["posterior_predictive"]

    @on_demand
    def log_likelihood(self) -> xr.DataTree:
        """Pointwise log likelihood, added as the group ``log_likelihood``, which ``arviz.loo`` needs."""
        from bayeslab.results.predict import log_likelihood

        self.add({"log_likelihood": log_likelihood(self)})
        return self.data_tree.children["log_likelihood"]

    @on_demand
    def log_prior(self) -> xr.DataTree:
        """Log prior density of each parameter, added as the group ``log_prior``.

        With :meth:`log_likelihood` it is what ``arviz.psense_summary`` needs to scale the prior and the likelihood.

        Raises
        ------
        DataError
            The fit has no draws of a parameter of the graph.
        """
        from bayeslab.results.predict import log_prior

        self.add({"log_prior": log_prior(self)})
        return self.data_tree.children["log_prior"]

    def clusters(self) -> xr.DataTree:
        """Component probabilities of each row, and the clustering of rows, added as the group ``clusters``.

        Returns
        -------
        xarray.DataTree
            ``probability`` (row, component) and ``component_of``, the most probable component. Invariant to
            relabelling: ``together``, the posterior probability that two rows share a component, and ``partition``,
            the clustering with the least expected variation of information (up to 2,000 rows).

        Raises
        ------
        OptionError
            The model has no components.
        """
        return self.group("clusters", clusters)

    def update(
        self,
        data: Any,
        *,
        draws: int | None = None,
        tune: int | None = None,
        seed: int | None = None,
        progress: bool = True,
        runs: str | Path | None = None,
        name: str | None = None,
    ) -> Fit:
        """A new fit, to the rows of this one and new rows: see :func:`bayeslab.results.update.updated`."""
        from bayeslab.results.update import updated

        return Fit.of(updated(self, data, draws=draws, tune=tune, seed=seed, progress=progress, runs=runs, name=name))

    def density(self, data: Any = None, *, ci_prob: float = 0.89) -> pd.DataFrame:
        """The posterior predictive density of each new row, separately: see
        :func:`bayeslab.results.clusters.density`.
        """
        return density(self, data, ci_prob)

    def plot_clusters(
        self, what: str = "components", *, columns: list[str] | None = None, reference: float | None = None
    ) -> Any:
        """Plot a mixture; a matplotlib figure.

        Parameters
        ----------
        what
            ``components`` (ellipses over two normal columns, or densities over one column),
            ``responsibilities``, ``together`` (probability that two rows share a component), or after method em
            ``trace`` (the log likelihood by iteration).
        columns
            The one or two columns on the axes of ``components``.
        reference
            A line in ``trace``: the log likelihood of other parameters, such as the true ones.
        """
        return plot_clusters(self, what, columns, reference)

    def features(self, data: Any = None) -> xr.DataTree:
        """The latent features of rows, added as the group ``features`` if the rows are those of the fit.

        Parameters
        ----------
        data
            New rows, which may have missing cells; None: the rows of the fit.

        Returns
        -------
        xarray.DataTree
            ``loading`` and ``loading_sd`` (column, feature) and ``reconstruction`` (row, column), the mean of the row
            given its features. For binary features: ``active`` (row, feature), the probability that a row has the
            feature; ``z``, the features of a row in the draw with the highest density (for new rows, or after nuts and
            em, the features with a probability above one half); and ``present``, the share of draws in which some row
            has the feature. For normal features: ``score`` and ``score_sd`` (row, feature); ``explained``, the share of
            the variance; and ``communality`` (column), the share of the variance that is not noise.

        Raises
        ------
        OptionError
            The model has no latent features.
        """
        import xarray as xr

        if data is not None:
            return xr.DataTree(features(self, data))
        return self.group("features", features)

    def plot_features(self, what: str = "loadings", *, shape: tuple[int, int] | None = None) -> Any:
        """Plot latent features; a matplotlib figure.

        Parameters
        ----------
        what
            ``loadings`` (bars), ``images`` (loadings as images), ``rows`` (the features of each row), or
            ``number`` (posterior of the number of binary features).
        shape
            For ``images``: height and width of an image, whose pixels are the columns of the data in row-major order.
        """
        return plot_features(self, what, shape)

    def plot_states(
        self,
        what: str = "path",
        *,
        sequence: str | None = None,
        column: str | None = None,
        reference: float | None = None,
    ) -> Any:
        """Plot a hidden Markov model; a matplotlib figure.

        Parameters
        ----------
        what
            ``path`` (a column coloured by the most probable path, over a ribbon of state probabilities),
            ``transitions`` (a diagram of the chain), or after method em ``trace`` (the log likelihood by iteration).
        sequence, column
            For ``path``: the sequence and the column to plot; default: the first.
        reference
            A line in ``trace``: the log likelihood of other parameters, such as the true ones.
        """
        from bayeslab.results.decode import plot_states, plot_transitions

        if what == "path":
            return plot_states(self, sequence=sequence, column=column)
        if what == "transitions":
            return plot_transitions(self)
        if what == "trace":
            return plot_trace(self, reference)
        raise OptionError(
            f"unknown picture '{what}'{hint(what, ('path', 'transitions', 'trace'))}", code="unknown-word"
        )

    def predict(
        self,
        data: Any = None,
        kind: Literal["mean", "draws", "probabilities", "components"] | None = None,
        *,
        ci_prob: float = 0.89,
        seed: int | None = None,
    ) -> Any:
        """Predict the outcomes for new rows.

        The posterior of the parameters is that of the fit. The observed values of a new row inform only its hidden
        state, component, cluster or features, in every draw, not the parameters; probabilities are averaged over the
        draws. To learn parameters from the new rows too, include them in the fit.

        Parameters
        ----------
        data
            New data, without the outcome (a column of its name is ignored); None: the data of the
            fit. Factors keep the levels of the fit; reductions such as ``mean(...)`` keep their values.
        kind
            ``mean``: a table with mean, sd and interval of each row's predictive distribution.
            ``draws``: a Dataset of draws, dims (chain, draw, ...); at a point estimate, several
            predictive draws. ``probabilities``: a table with the probability of each value of a discrete outcome.
            ``components``: the additive terms of a Gaussian process's kernel, its mean, and the function.
            None: ``probabilities`` for classes, states and components, else ``mean``.
        ci_prob
            Probability of the equal-tailed interval.

        Returns
        -------
        dataframe of the kind given (pandas by default), or xarray.Dataset

        Raises
        ------
        DataError
            A predictor is missing, or a value is not a level of its factor.
        """
        from bayeslab.results.predict import in_labels, predict

        predicted = predict(self, data, kind, ci_prob=ci_prob, seed=self.seed if seed is None else seed)
        return in_labels(self.bound_model, predicted) if kind == "draws" else predicted

    def grid(
        self, columns: Mapping[str, Any] | None = None, *, counterfactual: bool = False, **named: Any
    ) -> pd.DataFrame:
        """A table with all combinations of some values of the predictors, for :meth:`predictions` and its kin.

        Parameters
        ----------
        columns, **named
            Values by predictor: a value, a list, a function of the column, or one of the words ``mean``, ``median``,
            ``mode``, ``min``, ``max``, ``minmax``, ``quartiles`` and ``levels`` (all different values). None: the
            levels of a factor, the quartiles of a number.
        counterfactual
            False: other predictors have their typical value, the mean of numbers, or the most frequent value of a
            factor or of 0 and 1. Grouping factors that are not named are left out; effects of their groups are then
            taken as zero. True: the rows of the sample are repeated for each combination.

        Returns
        -------
        pandas.DataFrame

        Raises
        ------
        OptionError
            The model has no such predictor, or a value is not one of its levels.
        """
        return grid(self, columns, counterfactual=counterfactual, **named)

    def outcome(self, name: str) -> Fit:
        """The fit of one of several responses, as that of a regression by itself.

        It has the draws of this fit under the names of a regression (``b`` for ``y_b``), and its methods: effects,
        :meth:`r2`, predictions given the responses that are its predictors.

        Parameters
        ----------
        name
            The response.

        Raises
        ------
        OptionError
            There is no such response, or the family has none with regressions of their own.
        """
        return Fit.of(alone(self, name))

    def predictions(
        self,
        newdata: Any = None,
        *,
        at: Any = None,
        by: str | Sequence[str] | bool | None = None,
        scale: Scale = "response",
        weights: str | bool | None = None,
        ci_prob: float = 0.89,
    ) -> Effects:
        """Expected outcomes, averaged over the sample or at given values of the predictors.

        An expected outcome is the mean of the predictive distribution given the parameters; its interval has the
        uncertainty of the parameters only. :meth:`predict` gives the predictive distribution of single new rows.

        Parameters
        ----------
        newdata
            The rows: a dataframe, a mapping of arrays, a path, or a :meth:`grid`; None: the sample, the rows of the
            fit. A grouping factor that the table lacks stands for a typical group, whose effects are zero.
        at
            Instead of ``newdata``: values by predictor as for :meth:`grid`, or ``"mean"`` for one typical row.
        by
            Columns whose combinations of values are averaged over separately. True: one average. False: no average,
            an estimate for each row. None: one average over the sample, or each row of ``newdata`` and ``at``.
        scale
            ``response``: the mean of the outcome; a probability of an event, of a success, or of each level.
            ``parameter``: what the formula predicts, such as the quantile of a quantile regression. ``link``: the
            linear predictor.
        weights
            Column of weights in averages; None: the model's weights, if it has any; False: equal weights.
        ci_prob
            Probability of the equal-tailed interval.

        Returns
        -------
        Effects
            The estimates, with their draws.

        Raises
        ------
        OptionError
            The predictions of the model are not a function of the columns of a table, or an argument is wrong.
        DataError
            A predictor is missing, or a value is not a level of its factor.

        Examples
        --------
        >>> import bayeslab as bl
        >>> data = {"x": [0, 1, 2, 3], "y": [1.0, 3.1, 4.9, 7.0]}
        >>> fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ x")), data, runs=None, seed=1)
        >>> round(float(fit.predictions(at={"x": 2}).table["mean"][0]), 1)
        5.0
        """
        return predictions(self, newdata, at=at, by=by, scale=scale, weights=weights, ci_prob=ci_prob)

    def comparisons(
        self,
        of: str | Sequence[str] | Mapping[str, Any] | None = None,
        *,
        newdata: Any = None,
        at: Any = None,
        by: str | Sequence[str] | bool | None = None,
        kind: ComparisonKind = "difference",
        scale: Scale = "response",
        weights: str | bool | None = None,
        ci_prob: float = 0.89,
        rope: tuple[float, float] | None = None,
    ) -> Effects:
        """Expected outcomes compared between two values of a predictor, everything else in the row unchanged.

        Parameters
        ----------
        of
            The predictors to compare; None: all of them, one after the other. A mapping says how: for numbers the
            change (default 1), two values, ``sd``, ``2sd``, ``iqr`` or ``minmax``; for factors ``reference`` (each
            level with the first, the default), ``sequential``, ``pairwise``, or two levels. The first of two values
            is subtracted. Numbers that are 0 or 1 are compared as 1 with 0.
        newdata, at, by, scale, weights, ci_prob
            As for :meth:`predictions`.
        kind
            ``difference``, ``ratio`` or ``odds ratio``. The expected outcomes are averaged first, then compared.
        rope
            Ends of a region of practical equivalence: the table then has its posterior probability.

        Returns
        -------
        Effects
            The estimates, with their draws.

        Raises
        ------
        OptionError, DataError
            As for :meth:`predictions`.

        Examples
        --------
        >>> import bayeslab as bl
        >>> data = {"x": [0, 1, 2, 3], "y": [1.0, 3.1, 4.9, 7.0]}
        >>> fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ x")), data, runs=None, seed=1)
        >>> fit.comparisons({"x": 10}).table["contrast"][0]
        '+10'
        """
        return comparisons(
            self, of, newdata=newdata, at=at, by=by, kind=kind, scale=scale, weights=weights, ci_prob=ci_prob, rope=rope
        )

    def slopes(
        self,
        of: str | Sequence[str] | None = None,
        *,
        newdata: Any = None,
        at: Any = None,
        by: str | Sequence[str] | bool | None = None,
        kind: SlopeKind = "slope",
        scale: Scale = "response",
        weights: str | bool | None = None,
        ci_prob: float = 0.89,
        rope: tuple[float, float] | None = None,
    ) -> Effects:
        """Derivatives of the expected outcome by a predictor: marginal effects.

        Parameters
        ----------
        of
            The predictors; None: all that are numbers.
        newdata, at, by, scale, weights, ci_prob
            As for :meth:`predictions`.
        kind
            ``slope``: change of the expected outcome for each unit of the predictor. ``elasticity``: relative change
            for a relative change. ``semi-elasticity``: relative change for each unit.
        rope
            As for :meth:`comparisons`.

        Returns
        -------
        Effects
            The estimates, with their draws.

        Raises
        ------
        OptionError, DataError
            As for :meth:`predictions`; or a predictor is a factor.

        Notes
        -----
        Derivatives are central differences.

        Examples
        --------
        >>> import bayeslab as bl
        >>> data = {"x": [0, 1, 2, 3], "y": [1.0, 3.1, 4.9, 7.0]}
        >>> fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ x")), data, runs=None, seed=1)
        >>> round(float(fit.slopes("x").table["mean"][0]), 1)
        2.0
        """
        return slopes(
            self, of, newdata=newdata, at=at, by=by, kind=kind, scale=scale, weights=weights, ci_prob=ci_prob, rope=rope
        )

    def plot_effects(
        self,
        of: str | Sequence[str] | None = None,
        *,
        by: str | Sequence[str] | None = None,
        what: What = "predictions",
        kind: str | None = None,
        at: Mapping[str, Any] | None = None,
        scale: Scale = "response",
        ci_prob: float = 0.89,
        data: bool = True,
    ) -> Any:
        """Plot expected outcomes, comparisons or slopes over a predictor; a matplotlib figure.

        Parameters
        ----------
        of
            The predictors; None: all, a panel each. Numbers have a curve with a band, factors points with intervals.
        by
            Columns to tell apart: the first by colour, the next by panels. Numbers are shown at their quartiles.
        what
            ``predictions``: expected outcomes over ``of``. ``slopes``: slopes by ``of``, over it. ``comparisons``:
            comparisons of ``of`` over the first column of ``by``, or averaged over the sample without ``by``.
        kind
            Kind of comparison or slope, as for :meth:`comparisons` and :meth:`slopes`.
        at
            Values of other predictors, which have their typical value otherwise: see :meth:`grid`.
        scale, ci_prob
            As for :meth:`predictions`.
        data
            Whether the observed outcomes are drawn behind predictions; they are not if they are levels, or if the
            model has an offset.

        Raises
        ------
        OptionError
            As for :meth:`predictions`; or there are too many panels.
        """
        return plot_effects(self, of, by=by, what=what, kind=kind, at=at, scale=scale, ci_prob=ci_prob, data=data)

    def derive(
        self,
        expressions: str | Sequence[str] | Mapping[str, str],
        *,
        ci_prob: float = 0.89,
        rope: tuple[float, float] | None = None,
    ) -> Effects:
        """The posterior of expressions of the language, such as ``b[x] / sigma``.

        Parameters
        ----------
        expressions
            An expression, several, or expressions by name. They are of quantities of the posterior, with the labels
            that tables print (``b[log(girth)]``, ``u_county[ANOKA]``), and of columns of the data; the name of a
            dimension of the posterior stands for all its labels. Reductions such as ``mean(b)`` are taken at each
            draw. An expression with dimensions gives an estimate for each label.
        ci_prob
            Probability of the equal-tailed interval.
        rope
            Ends of a region of practical equivalence.

        Returns
        -------
        Effects
            The estimates, with their draws.

        Raises
        ------
        ModelError
            The expression cannot be read, or has an unknown name or label.

        Examples
        --------
        >>> import bayeslab as bl
        >>> data = {"x": [0, 1, 2, 3], "y": [1.0, 3.1, 4.9, 7.0]}
        >>> fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ x")), data, runs=None, seed=1)
        >>> round(float(fit.derive("Intercept + 10 * b[x]").table["mean"][0]))
        21
        """
        from bayeslab.results.derived import derive

        return derive(self, expressions, ci_prob=ci_prob, rope=rope)

    def hypothesis(
        self,
        statements: str | Sequence[str] | Mapping[str, str],
        *,
        prior: bool = False,
        seed: int | None = None,
    ) -> pd.DataFrame:
        """The posterior probability of statements such as ``b[x] > b[z]``.

        Parameters
        ----------
        statements
            A comparison of expressions (see :meth:`derive`), several, or comparisons by name; they are joined by
            ``and``, ``or`` and ``not``.
        prior
            Whether to draw from the prior too, for the statement's prior probability and its Bayes factor.
        seed
            Seed of these draws; None: the fit's.

        Returns
        -------
        pandas.DataFrame
            For each statement its ``probability``, the Monte Carlo standard error ``mcse``, and the posterior ``odds``;
            with ``prior`` also ``prior_probability`` and ``bayes_factor``, the factor by which the data changed the
            odds.

        Raises
        ------
        ModelError
            A statement cannot be read, or has an unknown name or label.
        OptionError
            A statement is not a comparison, or says that continuous quantities are equal.

        Examples
        --------
        >>> import bayeslab as bl
        >>> data = {"x": [0, 1, 2, 3], "y": [1.0, 3.1, 4.9, 7.0]}
        >>> fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ x")), data, runs=None, seed=1)
        >>> bool(fit.hypothesis("b[x] > 0")["probability"][0] > 0.99)
        True
        """
        from bayeslab.results.derived import hypothesis

        return hypothesis(self, statements, prior=prior, seed=seed)

    def r2(self, *, by: str | Sequence[str] | None = None, ci_prob: float = 0.89) -> Effects:
        """Bayesian R²: the share of the variance of new outcomes at the same rows that the model explains.

        At each draw, the variance of the expected outcomes over the rows, divided by the sum of this variance and the
        average variance of the outcomes given the parameters (see the reference). Group effects count as explained.

        Parameters
        ----------
        by
            Columns: R² within each combination of their values.
        ci_prob
            Probability of the equal-tailed interval.

        Raises
        ------
        OptionError
            The outcome has levels, or the variance of the likelihood has no closed form.

        References
        ----------
        Gelman, Goodrich, Gabry, Vehtari (2019). R-squared for Bayesian regression models. The American Statistician 73,
        307-309.

        Examples
        --------
        >>> import bayeslab as bl
        >>> data = {"x": [0, 1, 2, 3], "y": [1.0, 3.1, 4.9, 7.0]}
        >>> fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ x")), data, runs=None, seed=1)
        >>> bool(fit.r2().table["mean"][0] > 0.9)
        True
        """
        from bayeslab.results.derived import r2

        return r2(self, by=by, ci_prob=ci_prob)

    def decode(
        self,
        data: Any = None,
        method: str = "viterbi",
        *,
        best: int = 1,
        sequence: str | None = None,
        draws: int = AVERAGED,
    ) -> pd.DataFrame:
        """Decode the hidden states: see :func:`bayeslab.results.decode.decode`."""
        from bayeslab.results.decode import decode

        return decode(self, data, method, best=best, sequence=sequence, draws=draws)

    def check(
        self,
        statistics: Sequence[str | Callable[[Any], Any]] = ("mean", "sd", "min", "max"),
        kind: Literal["posterior", "prior"] = "posterior",
        *,
        ci_prob: float = 0.89,
    ) -> pd.DataFrame:
        """Predictive checks: statistics of the data compared with those of replicated data.

        Parameters
        ----------
        statistics
            ``mean``, ``sd``, ``min``, ``max``, ``median``, ``skewness``, ``zeros``,
            ``autocorrelation``, or functions that map a vector to a number.
        kind
            Replications from the ``posterior`` or the ``prior``.
        ci_prob
            Probability of the interval (equal tails).

        Returns
        -------
        pandas.DataFrame
            One row per statistic: its value in the data, its mean and interval in replications, and the
            two-sided p-value.
        """
        from bayeslab.results.ppc import check

        return check(self, statistics, kind, ci_prob)

    def loo_pit(self) -> dict[str, Any]:
        """LOO-PIT: the leave-one-out predictive probability below each observation; uniform if calibrated.

        Returns
        -------
        dict of str to ndarray
            The values of each outcome, by its name.
        """
        from bayeslab.results.ppc import loo_pit

        return loo_pit(self)

    def decide(
        self,
        data: Any = None,
        loss: Any = "squared",
        *,
        node: str | None = None,
        seed: int | None = None,
    ) -> pd.DataFrame:
        """The action with the smallest expected loss for every row.

        Parameters
        ----------
        data
            New data; None: the data of the fit.
        loss
            ``squared`` (the mean), ``absolute`` (the median), ``zero_one`` (the most probable value),
            an :class:`~bayeslab.decisions.loss.Asymmetric`, or for discrete outcomes a loss matrix:
            an array or table with one row per state and one column per action, or
            ``{action: {state: loss}}``.
        node
            The outcome, if the model predicts several. Its observed cells are not used.

        Returns
        -------
        pandas.DataFrame
            ``action`` and ``expected_loss`` of each row; with a loss matrix, also the expected loss of every action.
        """
        from bayeslab.results.ppc import decide

        return decide(self, data, loss, node, seed)

    def calibration(
        self,
        data: Any = None,
        *,
        bins: int = 10,
        node: str | None = None,
        ci_prob: float = 0.89,
        seed: int | None = None,
    ) -> pd.DataFrame:
        """Calibration of a discrete outcome: predicted probabilities against observed frequencies.

        Parameters
        ----------
        data
            Data with the outcome, preferably new; None: the data of the fit.
        bins
            Number of bins with equal numbers of cases.
        node
            The outcome, if the model predicts several. It is predicted from the other columns of its row. Hidden
            Markov models, in which rows inform each other's states, have no calibration.

        Returns
        -------
        pandas.DataFrame
            For each bin the mean probability, the observed share of cases with its interval, and the number of
            cases; ``attrs`` has the Brier score and the log score.
        """
        from bayeslab.results.ppc import calibration

        return calibration(self, data, bins, node, ci_prob, seed)

    def plot(
        self,
        kind: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        var_names: str | Sequence[str] | None = None,
    ) -> Any:
        """Plot the fit; a matplotlib figure.

        Axes have the ``labels`` and ``units`` of the model file's data section.

        Parameters
        ----------
        kind
            Of the draws, by ArviZ: ``trace``, ``rank``, ``autocorrelation``, ``posterior``, ``prior`` (with the
            posterior), ``forest``, ``pairs``, ``energy``. Of predictions: ``ppc`` (the data over replications),
            ``loo_pit``, ``residuals``, ``calibration``, or a statistic such as ``max``. Of regressions: ``effects``.
            Of the family: a name of ``fit.learner.plot``, :meth:`plot_clusters`, :meth:`plot_states`,
            ``fit.process.plot``, :meth:`plot_features`, ``fit.topics.plot`` or ``fit.structures.plot``. None: the plot
            that suits the model, which is regions of a learner, components of a mixture, the path of a hidden Markov
            model, the function of a Gaussian process, loadings of latent features, words of topics, the edge
            probabilities of sampled structures, or else ``ppc``.
        columns
            Columns on the axes, for plots that have a choice.
        var_names
            For plots of draws: names of nodes or rows as the summary prints them. None: the first of the posterior.

        Raises
        ------
        OptionError
            The fit has no such plot; the message lists those it has.

        Examples
        --------
        >>> import bayeslab as bl
        >>> data = {"x": [0, 1, 2, 3], "y": [1.0, 3.1, 4.9, 7.0]}
        >>> fit = bl.fit(bl.Model(model=bl.Regression(formula="y ~ x")), data, runs=None, seed=1)
        >>> fit.plot("forest", var_names=["b", "sigma"]).savefig("forest.svg")  # doctest: +SKIP
        """
        from bayeslab.results import pictures

        return pictures.draw(self, kind or pictures.first(self), columns, var_names)

    def plot_check(self, what: str = "density", *, node: str | None = None) -> Any:
        """Plot a predictive check; a matplotlib figure.

        Parameters
        ----------
        what
            ``density`` (the data over replications), ``pit`` (LOO-PIT against uniform), ``residuals`` (normal quantiles
            of LOO-PIT over predicted means), ``calibration`` (of the last value's probabilities), or a statistic such
            as ``max``.
        node
            The outcome, if the model predicts several.
        """
        from bayeslab.results.ppc import plot_check

        return plot_check(self, what, node)

    def report(self, path: str | Path | None = None, *, force: bool = False, rope: Regions | None = None) -> Report:
        """The report of the fit: one HTML page for any reader, without Python and without a network.

        Parameters
        ----------
        path
            The file to write; None: nothing is written.
        force
            Whether an existing file is replaced.
        rope
            Regions of practical equivalence, as for :meth:`summary`.

        Returns
        -------
        Report
            The page: ``html``, ``save(path)``, and a preview in a notebook.

        Raises
        ------
        OptionError
            The file exists and ``force`` is not set, its folder does not exist, or ``rope`` names no quantity.

        Example
        -------
        >>> import bayeslab as bl
        >>> fit = bl.fit("models/trees.yaml", runs=None, progress=False)
        >>> fit.report("trees.html")  # doctest: +SKIP
        """
        from bayeslab.report.page import html_of

        if path is not None:
            check_path(path, force=force)
        made = Report(html_of({self.model.name: self}, rope), static=self._repr_html_)
        if path is not None:
            made.save(path, force=force)
        return made

    def explore(self) -> Report:
        """A page to click on: evidence and interventions of a Bayes net, sliders for the predictors of a regression.

        The page computes the answers itself, from the network or from 400 evenly spaced draws.

        Returns
        -------
        Report
            The page: ``html``, ``save(path)``, and the page itself in a trusted notebook.

        Raises
        ------
        OptionError, DataError
            The model is no Bayes net and has no expected outcome as a function of columns, or is too large for a page.

        Example
        -------
        >>> import bayeslab as bl
        >>> fit = bl.fit("models/trees.yaml", runs=None, progress=False)
        >>> fit.explore().save("trees.html")  # doctest: +SKIP
        """
        from bayeslab.report.page import explorer_of

        return Report(explorer_of(self), alive=True, static=self._repr_html_)

    def __repr__(self) -> str:
        sizes = self.light_group("posterior").sizes
        return (
            f"<bayeslab.Fit {self.model.name}: {self.method}, {sizes['chain']} chains × {sizes['draw']} draws,"
            f" verdict {self.verdict.status}>"
        )

    def _repr_html_(self) -> str:
        from bayeslab.plots.graph_svg import model_svg

        drawn = self.bound_model.network()
        if self.has_group("parent_sets"):
            drawn.add_edges_from(self.structures.consensus().edges)
        return fit_html(
            name=self.model.name,
            about=self.model.about,
            method=self.reason,
            verdict=self.verdict,
            summary=self.summary_table(),
            timings=self.timings,
            folder=self.folder,
            svg=model_svg(drawn),
            topics=self.topics.rows() if self.bound_model.view == "topics" else (),
        )
