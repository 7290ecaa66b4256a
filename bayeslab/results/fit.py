"""The result of a fit: summary, verdict, predictions, and ArviZ's DataTree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from bayeslab.errors import OptionError, hint
from bayeslab.posterior.averaging import AVERAGED
from bayeslab.results import pictures
from bayeslab.results.fitted import Fitted, log_evidence
from bayeslab.results.functions import Functions, functions_of
from bayeslab.results.verdict import Verdict

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from bayeslab.results.gaussian_process import FittedProcess
    from bayeslab.results.learner import FittedLearner
    from bayeslab.results.states import States
    from bayeslab.results.structures import Structures
    from bayeslab.results.topics import FittedTopics

__all__ = ["Fit"]


class Fit(Fitted):
    """A fitted model: what its run left behind, with all that can be asked of it."""

    @classmethod
    def of(cls, fitted: Fitted) -> Fit:
        """The fit of a run."""
        return cls(fitted.bound_model, fitted.data_tree, fitted.verdict, fitted.info, fitted.folder)

    def summary(
        self,
        var_names: str | list[str] | None = None,
        *,
        ci_prob: float = 0.89,
        ci_kind: Literal["eti", "hdi"] = "eti",
    ) -> pd.DataFrame:
        """Mean, sd, interval, ESS and R-hat of every quantity, named as ArviZ names them.

        After the engine ``exact``, means, sds and equal-tailed intervals are exact, and there are no
        columns of Monte Carlo errors. Independent draws from an approximation (``advi``, ``laplace``,
        ``pathfinder``, ``variational``) have no ESS and R-hat: they would only say that the draws are independent.

        Of a learner: its scores on rows left out, and what it learned.

        Of sampled structures: their score, their number of edges, and the probability of every edge that was drawn,
        the most probable first, without intervals.

        Parameters
        ----------
        var_names
            Only these nodes, or rows by the name that the summary prints: ``"b"``, ``"b[size]"``.
        ci_prob, ci_kind
            Probability and kind (``eti``: equal tails, ``hdi``: highest density) of the interval.

        Raises
        ------
        OptionError
            There is no such node or row; the message has the nearest name.
        """
        from bayeslab.results.render import pick_rows

        if var_names is None:
            return self._summary(None, ci_prob, ci_kind)
        names = [var_names] if isinstance(var_names, str) else [str(name) for name in var_names]
        exact = self.data_tree.children.get("exact_posterior")
        nodes = {str(name) for group in (self.posterior, exact) if group is not None for name in group.data_vars}
        if nodes.issuperset(names):
            return self._summary(names, ci_prob, ci_kind)
        if {"cross_validation", "parent_sets"} & self.data_tree.children.keys():
            # Their rows are not those of nodes.
            return pick_rows(self._summary(None, ci_prob, ci_kind), names)
        holding = [name if name in nodes else name.partition("[")[0] for name in names]
        for name in holding:
            if name not in nodes:
                raise OptionError(
                    f"no variable '{name}' in the posterior{hint(name, sorted(nodes))}", code="unknown-variable"
                )
        return pick_rows(self._summary(list(dict.fromkeys(holding)), ci_prob, ci_kind), names)

    def _summary(self, var_names: list[str] | None, ci_prob: float, ci_kind: Literal["eti", "hdi"]) -> pd.DataFrame:
        """The summary of whole nodes."""
        from bayeslab.results.render import summary

        if "cross_validation" in self.data_tree.children and var_names is None:
            return self._learner_summary()
        sampled = "parent_sets" in self.data_tree.children
        if sampled and var_names is None:
            return self._structure_summary()
        if "exact_posterior" in self.data_tree.children and ci_kind == "eti" and not sampled:
            return self._exact_summary(var_names, ci_prob)
        frame = summary(self.posterior.to_dataset(), var_names, ci_prob, ci_kind)
        if {"pareto_k", "elbo"} & self.posterior.attrs.keys():
            frame = frame.drop(columns=["ess_bulk", "ess_tail", "r_hat"])
        return frame

    def _structure_summary(self) -> pd.DataFrame:
        """Score and number of edges, then edges by their probability."""
        import pandas as pd

        from bayeslab.results.render import summary

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
        """Scores of rows left out, then what was learned."""
        import pandas as pd

        from bayeslab.results.render import summary

        group = self.data_tree.children["cross_validation"].to_dataset()
        names = [f"{name} (left out)" for name in group["measure"].to_numpy()]
        each = group["fold_score"].to_numpy()
        # A score of minus infinity in a fold has no spread.
        known = np.isfinite(each).all(axis=0) & (len(each) > 1)
        spread = np.full(len(names), np.nan)
        spread[known] = each[:, known].std(axis=0, ddof=1)
        scores = pd.DataFrame({"value": group["score"].to_numpy(), "sd over folds": spread}, index=names)
        return pd.concat([scores, summary(self.posterior.to_dataset())])

    def _exact_summary(self, var_names: list[str] | None, ci_prob: float) -> pd.DataFrame:
        """Exact statistics; of nodes that have none (nonlinear ones) those of the independent draws."""
        import pandas as pd

        from bayeslab.results.render import exact_summary, summary

        group, draws = self._exact_group(ci_prob), self.posterior.to_dataset()
        shown = [str(name) for name in draws.data_vars if not str(name).startswith("_")]
        wanted = var_names or shown
        if all(name in group for name in wanted):
            return exact_summary(group, var_names, ci_prob)
        parts = [
            exact_summary(group, [name], ci_prob) if name in group else summary(draws, [name], ci_prob)
            for name in wanted
        ]
        errors = ["ess_bulk", "ess_tail", "r_hat", "mcse_mean", "mcse_sd"]
        table = pd.concat(parts).drop(columns=errors, errors="ignore")
        if "median" in table:  # of what is too heavy for a mean, beside the mean's place
            table.insert(2, "median", table.pop("median"))
        return table

    def _exact_group(self, ci_prob: float) -> xr.Dataset:
        """The group ``exact_posterior`` with the quantiles of this interval."""
        import xarray as xr

        from bayeslab.engines.exact import solved_as

        group = self.data_tree.children["exact_posterior"].to_dataset()
        known = set(group["statistic"].to_numpy().tolist())
        for probability in ((1 - ci_prob) / 2, (1 + ci_prob) / 2):
            word = f"q{100 * probability:g}"
            if word in known or not 0 < probability < 1:
                continue
            plan = self.bound_model.exact_plan if self.method == "exact" else "quantiles of the draws"
            if isinstance(plan, str):
                draws = self.posterior.to_dataset()[list(group.data_vars)]
                at = draws.quantile(probability, ("chain", "draw"))
                values: Mapping[str, Any] = {str(n): v.to_numpy() for n, v in at.data_vars.items()}
            else:
                values = solved_as(plan, self.info["options"].get("scales", "integrate")).quantile(probability)
            more = {n: (v.dims, np.asarray(values[str(n)])[None]) for n, v in group.data_vars.items()}
            group = xr.concat([group, xr.Dataset(more, coords={"statistic": [word]})], dim="statistic")
        return group

    @property
    def log_evidence(self) -> float:
        """The log evidence of the model: the log of the marginal likelihood of the data.

        Exact after the engine ``exact``, an estimate after ``smc`` (its error is in the verdict) and ``grid``, a lower
        bound after ``variational`` and ``advi``.

        Raises
        ------
        OptionError
            The engine finds no evidence.
        """
        evidence = log_evidence(self)
        if np.isnan(evidence):
            raise OptionError(
                f"the method {self.method} finds no evidence; exact does where it applies, and smc for any graph",
                code="not-applicable",
            )
        return evidence

    @property
    def states(self) -> States:
        """The hidden states of a model with chains, trees or segments: paths, probabilities and pictures.

        Raises
        ------
        OptionError
            The model has no hidden states.
        """
        from bayeslab.results.states import states_of

        return self.view(states_of)

    @property
    def functions(self) -> Functions:
        """The functions of a graph, its nodes ``GaussianProcess``: their values at the rows of the fit, and pictures.

        Raises
        ------
        OptionError
            The model has no such node; of the family gaussian_process see :attr:`process`.
        """
        return self.view(functions_of)

    @property
    def structures(self) -> Structures:
        """What sampled structures of a Bayes net say: edges, graphs, averaged queries and effects.

        Raises
        ------
        OptionError
            The structure of the model is known.
        """
        from bayeslab.results.structures import structures_of

        return self.view(structures_of)

    @property
    def topics(self) -> FittedTopics:
        """The topics of documents: their words, proportions, how probable new documents are, and pictures.

        Raises
        ------
        OptionError
            The model has no topics.
        """
        from bayeslab.results.topics import topics_of

        return self.view(topics_of)

    @property
    def process(self) -> FittedProcess:
        """A Gaussian process: leave-one-out predictions, where to measure next, rows to do without, and pictures.

        Raises
        ------
        OptionError
            The model is of another family.
        """
        from bayeslab.results.gaussian_process import process_of

        return self.view(process_of)

    @property
    def learner(self) -> FittedLearner:
        """A classical learner: predictions of rows left out, confusions, margins, training curves, and pictures.

        Raises
        ------
        OptionError
            The model is of another family.
        """
        from bayeslab.results.learner import learner_of

        return self.view(learner_of)

    def diagnose(self) -> Verdict:
        """The verdict: pass, warn or fail, and what each check found."""
        return self.verdict

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

    def posterior_predictive(self) -> xr.DataTree:
        """Replications of the observed nodes, added as the group ``posterior_predictive``."""
        from bayeslab.results.predict import posterior_predictive

        self.add({"posterior_predictive": posterior_predictive(self)})
        return self.data_tree.children["posterior_predictive"]

    def log_likelihood(self) -> xr.DataTree:
        """Pointwise log likelihood, added as the group ``log_likelihood`` (what ``arviz.loo`` needs)."""
        from bayeslab.results.predict import log_likelihood

        self.add({"log_likelihood": log_likelihood(self)})
        return self.data_tree.children["log_likelihood"]

    def clusters(self) -> xr.DataTree:
        """Which component each row comes from, added as the group ``clusters``.

        Returns
        -------
        xarray.DataTree
            ``probability`` (row, component), ``component_of`` the most probable one; and, free of the names of
            components, ``together``, how often two rows share one, and ``partition``, the clustering with the least
            expected variation of information (up to 2,000 rows).

        Raises
        ------
        OptionError
            The model has no components.
        """
        from bayeslab.results.clusters import clusters

        return self.group("clusters", clusters)

    def extended(
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
        """A fit to the rows of this one and more: see :func:`bayeslab.results.extend.extended`."""
        from bayeslab.results.extend import extended

        return Fit.of(extended(self, data, draws=draws, tune=tune, seed=seed, progress=progress, runs=runs, name=name))

    def density(self, data: Any = None, *, ci_prob: float = 0.89) -> pd.DataFrame:
        """The posterior predictive density of new rows, each on its own: see
        :func:`bayeslab.results.clusters.density`.
        """
        from bayeslab.results.clusters import density

        return density(self, data, ci_prob)

    def plot_clusters(
        self, what: str = "components", *, columns: list[str] | None = None, reference: float | None = None
    ) -> Any:
        """A drawing of a mixture; a matplotlib figure.

        Parameters
        ----------
        what
            ``components`` (ellipses over two normal columns, or densities over one column),
            ``responsibilities``, ``together`` (how often rows share a component), or after method em
            ``trace`` (the log likelihood by iteration).
        columns
            The one or two columns of ``components``.
        reference
            A line in ``trace``: the log likelihood of other parameters, such as the true ones.
        """
        from bayeslab.results.clusters import plot_clusters

        return plot_clusters(self, what, columns, reference)

    def features(self, data: Any = None) -> xr.DataTree:
        """What rows have of latent features, added as the group ``features`` where the rows are those of the fit.

        Parameters
        ----------
        data
            New rows, which may have missing cells; None: those of the fit.

        Returns
        -------
        xarray.DataTree
            ``loading`` and ``loading_sd`` (column, feature) and ``reconstruction`` (row, column), the mean of the row
            given its features. Of binary features ``active`` (row, feature), the probability that a row has it, ``z``,
            which it has in the draw with the highest density (of new rows, or after nuts and em: those that are more
            likely there than not), and ``present``, in what share of the draws some row has the feature. Of normal ones
            ``score`` and ``score_sd`` (row, feature), ``explained``, the share of the variance, and ``communality``
            (column), what is not noise.

        Raises
        ------
        OptionError
            The model has no latent features.
        """
        import xarray as xr

        from bayeslab.results.features import features

        if data is not None:
            return xr.DataTree(features(self, data))
        return self.group("features", features)

    def plot_features(self, what: str = "loadings", *, shape: tuple[int, int] | None = None) -> Any:
        """A drawing of latent features; a matplotlib figure.

        Parameters
        ----------
        what
            ``loadings`` (bars), ``images`` (loadings as images), ``rows`` (what each row has of the features), or
            ``number`` (posterior of the number of binary features).
        shape
            Of ``images``: rows and columns of an image, whose cells are the columns of the data row by row.
        """
        from bayeslab.results.features import plot_features

        return plot_features(self, what, shape)

    def plot_states(
        self,
        what: str = "path",
        *,
        sequence: str | None = None,
        column: str | None = None,
        reference: float | None = None,
    ) -> Any:
        """A drawing of a hidden Markov model; a matplotlib figure.

        Parameters
        ----------
        what
            ``path`` (a column coloured by the most likely states, over a ribbon of their probabilities),
            ``transitions`` (a diagram of the chain), or after method em ``trace`` (the log likelihood by iteration).
        sequence, column
            Of ``path``: of several the first, unless one is named.
        reference
            A line in ``trace``: the log likelihood of other parameters, such as the true ones.
        """
        from bayeslab.results.clusters import plot_trace
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

        Parameters are those that the data of the fit tell of: what a new row shows chooses its hidden state, component,
        cluster or features in every draw, and does not change the parameters. Probabilities are averages over the
        draws. To learn from the rows too, fit them with the others.

        Parameters
        ----------
        data
            New data, without the outcome (a column of its name is ignored); None: the data of the
            fit. Factors keep the levels of the fit, ``mean(...)`` and its kin keep their values.
        kind
            None: what suits the outcome, ``probabilities`` of classes, states and components, else ``mean``.
            ``mean``: a table with mean, sd and interval of each row's predictive distribution;
            ``draws``: a Dataset of draws, dims (chain, draw, ...), of a point estimate several at the
            point; ``probabilities``: for discrete outcomes a table with the probability of each value;
            ``components``: of a Gaussian process the additive terms of its kernel, its mean, and the function.
        ci_prob
            Probability of the interval (equal tails).

        Returns
        -------
        dataframe of the kind given (pandas by default), or xarray.Dataset

        Raises
        ------
        DataError
            A predictor is missing, or a value is no level of its factor.
        """
        from bayeslab.results.predict import in_labels, predict

        predicted = predict(self, data, kind, ci_prob=ci_prob, seed=self.seed if seed is None else seed)
        return in_labels(self.model, self.data, predicted) if kind == "draws" else predicted

    def decode(
        self,
        data: Any = None,
        method: str = "viterbi",
        *,
        best: int = 1,
        sequence: str | None = None,
        draws: int = AVERAGED,
    ) -> pd.DataFrame:
        """The hidden states time by time: see :func:`bayeslab.results.decode.decode`."""
        from bayeslab.results.decode import decode

        return decode(self, data, method, best=best, sequence=sequence, draws=draws)

    def check(
        self,
        statistics: Sequence[str | Callable[[Any], Any]] = ("mean", "sd", "min", "max"),
        kind: Literal["posterior", "prior"] = "posterior",
        *,
        ci_prob: float = 0.89,
    ) -> pd.DataFrame:
        """Predictive checks: where statistics of the data lie among those of replications.

        Parameters
        ----------
        statistics
            ``mean``, ``sd``, ``min``, ``max``, ``median``, ``skewness``, ``zeros``,
            ``autocorrelation``, or functions that make one number of a vector.
        kind
            Replications from the ``posterior`` or the ``prior``.
        ci_prob
            Probability of the interval (equal tails).

        Returns
        -------
        pandas.DataFrame
            One row a statistic: its value in the data, mean and interval in replications, and the
            two-sided p-value.
        """
        from bayeslab.results.ppc import check

        return check(self, statistics, kind, ci_prob)

    def loo_pit(self) -> dict[str, Any]:
        """LOO-PIT: the probability, predicted without it, below each observation; uniform if calibrated.

        Returns
        -------
        dict of str to ndarray
            By outcome.
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
            an array or table with a row a state and a column an action, or
            ``{action: {state: loss}}``.
        node
            The outcome, if the model predicts several. Its own cells are not looked at.

        Returns
        -------
        pandas.DataFrame
            ``action`` and ``expected_loss`` of each row; with a matrix the expected loss of every action.
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
        """Predicted probabilities of a discrete outcome against how often it happened.

        Parameters
        ----------
        data
            Data with the outcome, best not those of the fit; None: the data of the fit.
        bins
            Number of bins, of equally many cases.
        node
            The outcome, if the model predicts several. It is predicted from the other columns of its row; of a
            hidden Markov model, whose rows tell each other's states, there is no calibration.

        Returns
        -------
        pandas.DataFrame
            Per bin the mean probability, the share of cases, its interval and their number; ``attrs``
            has the Brier and the log score.
        """
        from bayeslab.results.ppc import calibration

        return calibration(self, data, bins, node, ci_prob, seed)

    def plot(self, what: str | None = None, *, columns: Sequence[str] | None = None) -> Any:
        """A picture of the fit; a matplotlib figure.

        Parameters
        ----------
        what
            None: the picture that suits the model: regions of a learner, components of a mixture, the path of a hidden
            Markov model, the function of a Gaussian process, loadings of latent features, words of topics, the
            probabilities of edges where structures were sampled; else the data over replications. Other names are those
            of ``fit.learner.plot``, :meth:`plot_clusters`, :meth:`plot_states`, ``fit.process.plot``,
            :meth:`plot_features`, ``fit.topics.plot``, ``fit.structures.plot`` and :meth:`plot_check`.
        columns
            What is drawn over, where that can be chosen.

        Raises
        ------
        OptionError
            There is no such picture of this model.
        """

        return pictures.draw(self, what or pictures.first(self), columns)

    def plot_check(self, what: str = "density", *, node: str | None = None) -> Any:
        """A drawing of a predictive check; a matplotlib figure.

        Parameters
        ----------
        what
            ``density`` (the data over replications), ``pit`` (LOO-PIT against uniform), ``calibration``
            (of the last value's probabilities), or a statistic such as ``max``.
        node
            The outcome, if the model predicts several.
        """
        from bayeslab.results.ppc import plot_check

        return plot_check(self, what, node)

    def __repr__(self) -> str:
        sizes = self.posterior.sizes
        return (
            f"<bayeslab.Fit {self.model.name}: {self.method}, {sizes['chain']} chains × {sizes['draw']} draws,"
            f" verdict {self.verdict.status}>"
        )

    def _repr_html_(self) -> str:
        from bayeslab.plots.graph_svg import model_svg
        from bayeslab.results.render import fit_html

        drawn = self.bound_model.network()
        if "parent_sets" in self.data_tree.children:
            drawn.add_edges_from(self.structures.consensus().edges)
        return fit_html(
            name=self.model.name,
            about=self.model.about,
            method=self.reason,
            verdict=self.verdict,
            summary=self.summary(),
            timings=self.timings,
            folder=self.folder,
            svg=model_svg(drawn),
            topics=self.topics.rows() if self.bound_model.view == "topics" else (),
        )
