"""Family ``topics``: documents as mixtures of topics, topics as distributions of words (latent Dirichlet allocation).

The topic of every word is summed out of the likelihood, or, with proportions and topics integrated out instead, drawn
word by word (:mod:`bayeslab.exact.topics`). Topics have no names of their own: chains are compared after their topics
have been paired, and what convergence is judged by needs no names.

References
----------
.. [1] Blei, Ng, Jordan (2003). Latent Dirichlet allocation. JMLR 3, 993-1022.
.. [2] Griffiths, Steyvers (2004). Finding scientific topics. PNAS 101, 5228-5235.
.. [3] Hoffman, Blei, Bach (2010). Online learning for latent Dirichlet allocation. NIPS 23.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal

import networkx as nx
import numpy as np

from bayeslab.data.bound import Data
from bayeslab.errors import ModelError, OptionError, hint
from bayeslab.exact.answer import GibbsPlan, Plan, VariationalPlan
from bayeslab.families.topics import gibbs_sampling, pymc_graph, variational_bayes
from bayeslab.families.topics.documents import documents_of, held_out_documents, row_data
from bayeslab.families.topics.spec import Topics, _process_of, prior_of
from bayeslab.language.spec import Model

if TYPE_CHECKING:
    import pymc


__all__ = ["Spec", "Topics", "check", "exact", "factors", "graph", "network", "outcomes", "prior_of", "summed_out"]


Spec = Topics


def _spec(model: Model) -> Topics:
    assert isinstance(model.model, Topics)
    return model.model


# --------------------------------------------------------------------------------- the contract


def check(model: Model, columns: set[str] | None) -> None:
    """The data have the columns that are named."""
    spec = _spec(model)
    if not columns:
        return
    wanted = [("document", spec.document), ("word", spec.word), ("count", spec.count)] if spec.counted else []
    if not spec.counted:
        wanted = [("text", name) for name in spec.text_columns]
    for key, name in [*wanted, ("time", spec.time)]:
        if name is not None and name not in columns:
            said = "; say with `text` which column has the documents" if key == "text" and spec.text is None else ""
            raise ModelError(
                f"the data have no column '{name}'{hint(name, columns)}{said}",
                path=("model", key),
                code="unknown-column",
            )


def factors(model: Model) -> set[str]:
    """None: words are counted, not columns of categories."""
    return set()


def outcomes(model: Model, columns: set[str]) -> tuple[str, ...]:
    """How often each document has each word."""
    return ("counts",)


def summed_out(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing that would have to be recovered: topics of words are summed out by the family itself."""
    return ()


def derived(model: Model, columns: set[str]) -> tuple[str, ...]:
    """Nothing is computed from topics in a draw."""
    return ()


def bound(model: Model, data: Data) -> Data:
    """One row a document, with the number of its words; and how often each has each word."""
    return row_data(model, data)


def no_mode(model: Model, data: Data) -> str | None:
    """Why the graph's mode is not that of the proportions."""
    return (
        "topics and proportions are searched for in coordinates of gamma variables, whose density is not that of"
        " shares, and shares with concentrations below 1 have no mode; use variational for a point, or gibbs"
    )


def graph(
    model: Model,
    data: Data,
    *,
    purpose: Literal["fit", "predict", "simulate"] = "fit",
    targets: Collection[str] = (),
) -> pymc.Model:
    """Topics and proportions as a PyMC model.

    To fit: ``phi``, ``theta`` and one node ``evidence`` with the topics of the words summed out. To simulate: a node
    ``counts`` of the words of each document.
    """
    if _spec(model).topics == "hdp":
        raise ModelError(
            "topics without a fixed number have no graph of fixed size; use method gibbs, or give a number",
            path=("model", "topics"),
            code="no-graph",
        )
    if _spec(model).time is not None or isinstance(_spec(model).text, list):
        raise ModelError(
            "topics of days, or of several languages, have no graph; use method gibbs",
            path=("model", "time" if _spec(model).time is not None else "text"),
            code="no-graph",
        )
    if purpose == "fit" and data.dataset.columns:
        return pymc_graph.with_evidence(_spec(model), documents_of(model, data))
    return pymc_graph.written_out(model, data)


def exact(model: Model, data: Data) -> Plan | str:
    """Never in closed form."""
    return "topics of words are summed out"


def preferred(model: Model, data: Data) -> tuple[str, str] | None:
    """Gibbs steps, which leave nothing out and grow with the number of words."""
    found = documents_of(model, data)
    return "gibbs", f"Gibbs steps over the topics of {found.corpus.n_tokens:,} words, everything else integrated out"


def gibbs(model: Model, data: Data) -> GibbsPlan | str:
    """The topics of words in turns."""
    if _spec(model).topics == "hdp":
        from bayeslab.families.topics import hierarchical_process

        process = _process_of(_spec(model))
        return hierarchical_process.by_gibbs(process, documents_of(model, data), held_out_documents(model, data))

    return gibbs_sampling.by_gibbs(_spec(model), documents_of(model, data), held_out_documents(model, data))


def variational(model: Model, data: Data) -> VariationalPlan | str:
    """Dirichlet distributions of topics and of proportions."""
    if _spec(model).topics == "hdp":
        return "it needs a number of topics; method gibbs finds it"
    if _spec(model).time is not None or isinstance(_spec(model).text, list):
        return "topics of days, or of several languages, are for method gibbs"
    return variational_bayes.variational(_spec(model), documents_of(model, data))


def relabelled(model: Model, data: Data, draws: Mapping[str, np.ndarray]) -> tuple[dict[str, np.ndarray], str] | None:
    """Draws whose topics are paired with each other, where the draws are of topics."""
    spec = _spec(model)
    uneven = isinstance(spec.alpha, list) and len(set(spec.alpha)) > 1
    if "phi" not in draws or spec.topics == 1 or uneven:
        return None

    return pymc_graph.relabelled(draws), "the topic"


def priors(model: Model, data: Data) -> dict[str, str]:
    """The prior of topics and proportions."""
    spec = _spec(model)
    if spec.topics == "hdp":
        found = {name: getattr(spec, name) for name in ("gamma", "alpha")}
        each = {name: "learned" if value in (None, "learned") else f"{value:g}" for name, value in found.items()}
        return {
            "corpus": f"DP({each['gamma']}, Dirichlet({spec.beta}))",
            "documents": f"DP({each['alpha']}, corpus)",
        }
    prior = prior_of(spec)
    even = "learned" if spec.alpha == "learned" else f"{prior.alpha[0]:.3g}"
    shown = even if not isinstance(spec.alpha, list) else ", ".join(f"{a:g}" for a in prior.alpha)
    return {"theta": f"Dirichlet({shown})", "phi": f"Dirichlet({spec.beta})"}


def forecast(model: Model, data: Data) -> dict[str, str]:
    """Size of the corpus."""
    found = documents_of(model, data)
    corpus, apart = found.corpus, held_out_documents(model, data)
    left = f"; {apart.corpus.n_documents:,} documents held out" if apart is not None else ""
    return {
        "documents": f"{corpus.n_documents:,} with {corpus.n_tokens:,} words of a vocabulary of"
        f" {corpus.n_words:,} ({int(found.dropped.sum()):,} words left out){left}"
    }


def log_likelihoods(model: Model, data: Data, draws: Mapping[str, np.ndarray]) -> Any:
    """Not of documents: leaving one out changes its own proportions."""
    raise OptionError(
        "documents have no pointwise log likelihood of their own; judge topics by documents that were held out"
        " (`held_out: 0.1` in the model, or fit.topics.held_out(new))",
        code="not-applicable",
    )


def predictive(model: Model, data: Data, draws: Mapping[str, np.ndarray], rng: np.random.Generator) -> Any:
    """Not of documents."""
    raise OptionError(
        "replications of documents are not drawn; fit.predict gives the topics of new ones", code="not-applicable"
    )


def network(model: Model, data: Data) -> nx.DiGraph:
    """Topics, proportions, the topic of a word, and the word."""
    spec = _spec(model)
    rows = spec.document or model.data.rows
    many = {"topic": spec.topics} if isinstance(spec.topics, int) else {}
    out = nx.DiGraph(dims=many | ({rows: len(data.labels[rows])} if rows in data.labels else {}))
    along = (rows,) if rows in data.labels else ()
    for name in ("alpha", "beta"):
        if getattr(spec, name) == "learned":
            out.add_node(name, kind="random", text="Gamma", dims=("topic",) if name == "alpha" and many else ())
    out.add_node("theta", kind="random", text="Dirichlet" if many else "DP", dims=along)
    out.add_node("phi", kind="random", text="Dirichlet", dims=("topic",) if many else ())
    out.add_node("z", kind="discrete", inner=True, text=f"of {spec.topics}" if many else "of any number", dims=along)
    out.add_edge("theta", "z")
    for words in [spec.word] if spec.word else spec.text_columns:
        out.add_node(words, kind="observed" if data.has(words) else "random", text="words", dims=along)
        out.add_edges_from([("z", words), ("phi", words)])
    if spec.time is not None:
        out.add_node("day", kind="random", text="random walk", dims=("topic",))
        out.add_edge("day", "theta")
    out.add_edges_from([pair for pair in (("alpha", "theta"), ("beta", "phi")) if pair[0] in out])
    return out
