"""Topics as a PyMC graph: the topics of words summed out, or documents as random counts of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bayeslab.dataset import Data
from bayeslab.errors import ModelError
from bayeslab.exact import topics as lda
from bayeslab.exact.topic_concentrations import ALPHA_PRIOR, BETA_PRIOR
from bayeslab.families._topics_words import Documents, documents_of
from bayeslab.spec import Model

if TYPE_CHECKING:
    import pymc

    from bayeslab.families.topics import Topics

__all__ = ["relabelled", "with_evidence", "written_out"]

# The graph has the probability of every word in every document; beyond, it would be slow to no end.
_MOST_CELLS = 5_000_000
# Chains begin after so many Gibbs sweeps.
_SWEEPS = 200


def with_evidence(spec: Topics, documents: Documents) -> pymc.Model:
    r"""Parameters, and log p(words | parameters) = :math:`\sum_{dw} n_{dw} \log \sum_k \theta_{dk} \phi_{kw}`."""
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.families.topics import prior_of

    corpus = documents.corpus
    if (cells := corpus.n_documents * corpus.n_words) > _MOST_CELLS:
        raise ModelError(
            f"{corpus.n_documents:,} documents and {corpus.n_words:,} words make a graph of {cells:,} cells, more than"
            f" {_MOST_CELLS:,}; use method gibbs or variational",
            path=("model", "family"),
        )
    k = prior_of(spec).n_topics
    built = pm.Model(coords=_coords(k, documents.vocabulary, documents.dim, documents.labels))
    with built:
        theta, phi = _parameters(spec, documents.dim, _start(spec, documents))
        pm.Potential("evidence", pt.sum(documents.counts * pt.log(pt.dot(theta, phi))))
    return built


def _coords(k: int, vocabulary: np.ndarray, dim: str, labels: np.ndarray) -> dict[str, Any]:
    return {"topic": list(range(1, k + 1)), "word": vocabulary.tolist(), dim: labels.tolist()}


def _start(spec: Topics, documents: Documents) -> dict[str, np.ndarray]:
    """Means given the topics of words after some Gibbs sweeps."""
    from bayeslab.families.topics import prior_of

    prior, corpus = prior_of(spec), documents.corpus
    state = lda.run(corpus, lda.start(corpus, prior.n_topics, np.random.default_rng(0)), prior, _SWEEPS)
    return {"theta": lda.proportions(corpus, state, prior), "phi": lda.topics(corpus, state, prior)}


def _parameters(spec: Topics, dim: str, start: Mapping[str, np.ndarray] | None) -> tuple[Any, Any]:
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.families.topics import prior_of

    prior = prior_of(spec)
    k = prior.n_topics
    context = pm.modelcontext(None)
    d, v = (len(context.coords[name]) for name in (dim, "word"))
    alpha: Any = prior.alpha
    if spec.alpha == "learned":
        alpha = pm.Gamma("alpha", ALPHA_PRIOR.shape, ALPHA_PRIOR.rate * k, dims="topic")
    beta: Any = prior.beta
    if spec.beta == "learned":
        beta = pm.Gamma("beta", BETA_PRIOR.shape, BETA_PRIOR.rate)
    begin = {name: {} if start is None else {"initval": value} for name, value in (start or _NONE).items()}
    if k == 1:
        theta = pm.Deterministic("theta", pt.ones((d, 1)), dims=(dim, "topic"))
    else:
        theta = pm.Dirichlet("theta", pt.ones((d, 1)) * alpha, dims=(dim, "topic"), **begin["theta"])
    phi = pm.Dirichlet("phi", pt.ones((k, v)) * beta, dims=("topic", "word"), **begin["phi"])
    return theta, phi


_NONE: dict[str, Any] = {"theta": None, "phi": None}


def written_out(model: Model, data: Data) -> pymc.Model:
    """Parameters, and ``counts``: how often each document has each word."""
    import pymc as pm
    import pytensor.tensor as pt

    from bayeslab.families.topics import Topics, prior_of

    spec = model.model
    assert isinstance(spec, Topics)
    if data.dataset.columns:
        documents = documents_of(model, data)
        dim, labels, vocabulary = documents.dim, documents.labels, documents.vocabulary
        lengths = documents.corpus.lengths
    else:
        dim = spec.document or model.data.rows
        for name in (dim, "word"):
            if name not in data.labels:
                raise ModelError(
                    f"to simulate without data give '{name}' a length, such as {{{name}: 50}}", path=("dims",)
                )
        labels, vocabulary = data.labels[dim], data.labels["word"]
        lengths = np.full(len(labels), spec.words_per_document)
    built = pm.Model(coords=_coords(prior_of(spec).n_topics, vocabulary, dim, labels))
    with built:
        theta, phi = _parameters(spec, dim, None)
        chance = pt.dot(theta, phi)
        chance = chance / chance.sum(axis=1, keepdims=True)
        pm.Multinomial("counts", n=lengths, p=chance, dims=(dim, "word"))
    return built


def relabelled(draws: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws in which topics are in an order that agrees, the most common first."""
    phi, theta = np.asarray(draws["phi"]), np.asarray(draws["theta"])
    mean, orders = phi[0].copy(), np.empty(phi.shape[:2], int)
    # Twice: the first draws are paired with few.
    for again in (False, True):
        total = np.zeros_like(mean)
        for s, one in enumerate(phi):
            orders[s] = lda.align(mean if again or s == 0 else total / s, one)
            total += one[orders[s]]
        mean = total / len(phi)
    share = np.mean([theta[s][:, order].mean(axis=0) for s, order in enumerate(orders)], axis=0)
    orders = orders[:, np.argsort(-share, kind="stable")]
    out = {
        "phi": np.take_along_axis(phi, orders[:, :, None], axis=1),
        "theta": np.take_along_axis(theta, orders[:, None, :], axis=2),
    }
    if "alpha" in draws:
        out["alpha"] = np.take_along_axis(np.asarray(draws["alpha"]), orders, axis=1)
    return out
