"""Posterior of a topic model given its data: the interface for engines and results."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, OptionError
from bayeslab.families.topics import gibbs_sampling, pymc_graph, variational_bayes
from bayeslab.families.topics.documents import (
    Documents,
    every_document,
    fitted_documents,
    held_out_documents,
    row_data,
)
from bayeslab.families.topics.spec import Topics, _process_of, prior_of
from bayeslab.posterior.answer import GibbsPlan, Plan, VariationalPlan
from bayeslab.posterior.contract import Draws, Posterior, Purpose

if TYPE_CHECKING:
    import pymc

__all__ = ["TopicsPosterior"]


class TopicsPosterior(Posterior):
    """Posterior of a topic model given its data."""

    view = "topics"
    on_arrays = True

    def may_be_relabelled(self) -> bool:
        """True: topics are exchangeable."""
        return True

    def suited_prediction(self) -> Literal["mean", "probabilities"]:
        """``probabilities`` of topics."""
        return "probabilities"

    @property
    def spec(self) -> Topics:
        assert isinstance(self.model.model, Topics)
        return self.model.model

    @cached_property
    def _every(self) -> Documents:
        return every_document(self.model, self.data)

    @cached_property
    def documents(self) -> Documents:
        """The fitted documents, in the order of their days."""
        return fitted_documents(self.model, self._every)

    @cached_property
    def held_out(self) -> Documents | None:
        """The held-out documents, if there are any."""
        return held_out_documents(self.model, self._every)

    def bound_data(self) -> Data:
        """One row for each document with its number of words, and the counts of words in documents."""
        return row_data(self.model, self.data, self._every)

    def no_mode(self) -> str | None:
        """The reason why the mode of the graph is not an estimate of topics and proportions."""
        return (
            "proportions with concentrations below 1 have no mode, and the graph has gamma variables as coordinates,"
            " whose mode is not that of proportions; use variational for a point estimate, or gibbs"
        )

    def graph(self, *, purpose: Purpose = "fit", targets: Collection[str] = ()) -> pymc.Model:
        """Topics and proportions as a PyMC model.

        For fitting: ``phi``, ``theta`` and one node ``evidence`` with the topics of the words summed out. For
        simulation: a node ``counts`` of the words of each document.
        """
        if self.spec.topics == "hdp":
            raise ModelError(
                "a model without a fixed number of topics has no graph; use method gibbs, or give a number",
                path=("model", "topics"),
                code="no-graph",
            )
        if self.spec.time is not None or isinstance(self.spec.text, list):
            raise ModelError(
                "topics by day or in several languages have no graph; use method gibbs",
                path=("model", "time" if self.spec.time is not None else "text"),
                code="no-graph",
            )
        if purpose == "fit" and self.data.dataset.columns:
            return pymc_graph.with_evidence(self.spec, self.documents)
        return pymc_graph.written_out(self.model, self.data, self.documents if self.data.dataset.columns else None)

    @cached_property
    def exact_plan(self) -> Plan | str:
        """Not available: there is no closed form."""
        return "topics of words are summed out"

    def preferred_engine(self) -> tuple[str, str] | None:
        """Gibbs, which is asymptotically exact and linear in the number of words."""
        documents = self.documents
        return (
            "gibbs",
            f"Gibbs steps over the topics of {documents.corpus.n_tokens:,} words, everything else integrated out",
        )

    @cached_property
    def gibbs_plan(self) -> GibbsPlan | str:
        """Collapsed Gibbs sampling of the topics of words."""
        if self.spec.topics == "hdp":
            from bayeslab.families.topics import hierarchical_process

            process = _process_of(self.spec)
            return hierarchical_process.by_gibbs(process, self.documents, self.held_out)

        return gibbs_sampling.by_gibbs(self.spec, self.documents, self.held_out)

    @cached_property
    def variational_plan(self) -> VariationalPlan | str:
        """Variational Bayes with Dirichlet factors of topics and proportions."""
        if self.spec.topics == "hdp":
            return "it needs a fixed number of topics; method gibbs infers it"
        if self.spec.time is not None or isinstance(self.spec.text, list):
            return "topics by day or in several languages need method gibbs"
        return variational_bayes.variational(self.spec, self.documents)

    def relabelled(self, draws: Draws) -> tuple[dict[str, np.ndarray], str] | None:
        """Draws with matched topics, if the draws are of topics."""
        spec = self.spec
        uneven = isinstance(spec.alpha, list) and len(set(spec.alpha)) > 1
        if "phi" not in draws or spec.topics == 1 or uneven:
            return None

        return pymc_graph.relabelled(draws), "the topic"

    def priors(self) -> dict[str, str]:
        """The prior of topics and proportions."""
        spec = self.spec
        if spec.topics == "hdp":
            given = {name: getattr(spec, name) for name in ("gamma", "alpha")}
            each = {name: "learned" if value in (None, "learned") else f"{value:g}" for name, value in given.items()}
            return {
                "corpus": f"DP({each['gamma']}, Dirichlet({spec.beta}))",
                "documents": f"DP({each['alpha']}, corpus)",
            }
        prior = prior_of(spec)
        even = "learned" if spec.alpha == "learned" else f"{prior.alpha[0]:.3g}"
        shown = even if not isinstance(spec.alpha, list) else ", ".join(f"{a:g}" for a in prior.alpha)
        return {"theta": f"Dirichlet({shown})", "phi": f"Dirichlet({spec.beta})"}

    def forecast(self) -> dict[str, str]:
        """Size of the corpus."""
        documents = self.documents
        corpus, apart = documents.corpus, self.held_out
        left = f"; {apart.corpus.n_documents:,} documents held out" if apart is not None else ""
        return {
            "documents": f"{corpus.n_documents:,} with {corpus.n_tokens:,} words of a vocabulary of"
            f" {corpus.n_words:,} ({int(documents.dropped.sum()):,} words left out){left}"
        }

    def log_likelihoods(self, draws: Draws) -> Any:
        """Not available: leaving out a document changes its topic proportions."""
        raise OptionError(
            "documents have no pointwise log likelihood; evaluate topics by held-out documents"
            " (`held_out: 0.1` in the model, or fit.topics.held_out(new))",
            code="not-applicable",
        )

    def predictive(self, draws: Draws, rng: np.random.Generator) -> Any:
        """Not available for documents."""
        raise OptionError(
            "replications of documents are not drawn; fit.predict gives the topics of new ones", code="not-applicable"
        )

    def network(self) -> nx.DiGraph:
        """The graph of topics, proportions, the topic of a word, and the word."""
        spec = self.spec
        rows = spec.document or self.model.data.rows
        many = {"topic": spec.topics} if isinstance(spec.topics, int) else {}
        out = nx.DiGraph(dims=many | ({rows: len(self.data.labels[rows])} if rows in self.data.labels else {}))
        along = (rows,) if rows in self.data.labels else ()
        for name in ("alpha", "beta"):
            if getattr(spec, name) == "learned":
                out.add_node(name, kind="random", text="Gamma", dims=("topic",) if name == "alpha" and many else ())
        out.add_node("theta", kind="random", text="Dirichlet" if many else "DP", dims=along)
        out.add_node("phi", kind="random", text="Dirichlet", dims=("topic",) if many else ())
        out.add_node(
            "z", kind="discrete", inner=True, text=f"of {spec.topics}" if many else "of any number", dims=along
        )
        out.add_edge("theta", "z")
        for words in [spec.word] if spec.word else spec.text_columns:
            out.add_node(words, kind="observed" if self.data.has(words) else "random", text="words", dims=along)
            out.add_edges_from([("z", words), ("phi", words)])
        if spec.time is not None:
            out.add_node("day", kind="random", text="random walk", dims=("topic",))
            out.add_edge("day", "theta")
        out.add_edges_from([pair for pair in (("alpha", "theta"), ("beta", "phi")) if pair[0] in out])
        return out
