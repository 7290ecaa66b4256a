"""Topics by variational Bayes: all documents at once, or in batches if there are many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import gammaln

from bayeslab.families.topics.documents import Documents
from bayeslab.families.topics.spec import prior_of
from bayeslab.latents.topics.variational_topics import VariationalTopics, fit_online, fit_variational
from bayeslab.posterior.answer import Note, VariationalEnd, VariationalPlan

__all__ = ["variational"]

# More documents are processed in batches, with this many passes.
MANY, _PASSES = 5_000, 5
_TOP, _KEPT = 10, 10


def variational(spec: Any, documents: Documents) -> VariationalPlan | str:
    """The plan, or the reason why there is none."""

    if "learned" in (spec.alpha, spec.beta):
        return "it needs known concentrations; give numbers for alpha and beta, or use gibbs"
    prior, corpus = prior_of(spec), documents.corpus
    batches = corpus.n_documents > MANY

    def search(
        rng: np.random.Generator, tolerance: float, most: int, progress: Callable[[int, float], None]
    ) -> VariationalEnd:
        if batches:
            topics = fit_online(corpus, prior, rng, passes=_PASSES)
            per_pass = len(topics.bound) // _PASSES
            trace, converged = np.array([topics.bound[-per_pass:].mean()]), True
        else:
            # The bound is proportional to the number of words: it has converged when its gain per word is small.
            relative = tolerance * corpus.n_tokens
            topics = fit_variational(corpus, prior, rng, iterations=most, tolerance=max(relative, 1e-9) / 1e3)
            trace, converged = topics.bound, len(topics.bound) < most
        progress(len(trace), float(trace[-1]))
        return _ended(topics, documents, trace, converged, spec)

    where = f"in batches, {_PASSES} passes" if batches else "all at once"
    how = f"{spec.topics} Dirichlet topics × {corpus.n_documents:,} Dirichlet proportions, documents {where}"
    even = not isinstance(spec.alpha, list) or len(set(spec.alpha)) == 1
    labels = {
        "topic": np.arange(1, spec.topics + 1),
        "word": documents.vocabulary,
        "rank": np.arange(1, min(_TOP, corpus.n_words) + 1),
        documents.dim: documents.labels,
    }
    return VariationalPlan(
        how=how,
        search=search,
        dims={"top_phi": ("topic", "rank")},
        labels=labels,
        log_copies=float(gammaln(spec.topics + 1)) if even else 0.0,
        otherwise="sample with method gibbs",
    )


def _ended(
    topics: VariationalTopics, documents: Documents, trace: np.ndarray, converged: bool, spec: Any
) -> VariationalEnd:
    weight = documents.corpus.lengths / documents.corpus.n_tokens
    by_size = np.argsort(-(weight @ topics.proportions), kind="stable")
    concentration, of_documents = topics.concentration[by_size], topics.documents[:, by_size]
    phi, phi_sd = _moments(concentration, 1)
    theta, theta_sd = _moments(of_documents, 1)
    top = np.argsort(-phi, axis=1, kind="stable")[:, : min(_TOP, phi.shape[1])]

    def draw(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
        top_concentration = np.take_along_axis(concentration, top, axis=1)
        rest = np.maximum(concentration.sum(axis=1) - top_concentration.sum(axis=1), 1e-12)
        drawn = rng.standard_gamma(top_concentration, (n, *top_concentration.shape))
        return {"top_phi": drawn / (drawn.sum(axis=2) + rng.standard_gamma(rest, (n, len(rest))))[..., None]}

    rng = np.random.default_rng(0)
    kept = np.stack([rng.standard_gamma(np.maximum(concentration, 1e-12)) for _ in range(_KEPT)])
    kept /= kept.sum(axis=2, keepdims=True)

    prior = prior_of(spec)
    groups: dict[str, Any] = {
        "topics": {
            "phi": (("topic", "word"), phi),
            "phi_sd": (("topic", "word"), phi_sd),
            "theta": ((documents.dim, "topic"), theta),
            "theta_sd": ((documents.dim, "topic"), theta_sd),
            "share": (("topic",), weight @ theta),
            "word_share": (("word",), documents.word_shares),
            "n_words": ((documents.dim,), documents.corpus.lengths),
            "top_word": (("topic", "rank"), documents.vocabulary[top]),
        },
        "topic_draws": {
            "phi": (("kept", "topic", "word"), np.maximum(kept, 1e-30).astype(np.float32)),
            "alpha": (("kept", "topic"), np.tile(prior.alpha[by_size], (_KEPT, 1))),
            "beta": (("kept",), np.full(_KEPT, prior.beta)),
            "from_chain": (("kept",), np.zeros(_KEPT, int)),
        },
    }
    text = "mean-field approximation (assignments, proportions and topics independent): intervals are too narrow"
    return VariationalEnd(trace, converged, draw, None, groups, (Note("pass", "spreads", text),))


def _moments(concentration: np.ndarray, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of Dirichlet distributions."""
    whole = concentration.sum(axis=axis, keepdims=True)
    mean = concentration / whole
    return mean, np.sqrt(mean * (1 - mean) / (whole + 1))
