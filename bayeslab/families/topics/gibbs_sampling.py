"""Collapsed Gibbs sampling of the topics of words: chains as arrays, and summaries of their draws.

Topic labels may switch within a chain and between chains. Within a chain, the topics of each draw are matched with the
mean of the preceding draws; chains are matched with the most probable chain, and chains with other topics are reported.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.special import gammaln

from bayeslab.errors import Stopped
from bayeslab.families.topics.documents import Documents, counted
from bayeslab.families.topics.spec import prior_of
from bayeslab.latents.sampler import Arrays, Chains
from bayeslab.latents.topics import paired_topics, topic_sequence
from bayeslab.latents.topics import topics as lda
from bayeslab.latents.topics.paired_topics import PairedCorpus
from bayeslab.latents.topics.topic_concentrations import draw_alpha, draw_beta
from bayeslab.latents.topics.topic_sequence import DatedCorpus, SequencePrior
from bayeslab.latents.topics.topics import Corpus, TopicPrior
from bayeslab.posterior.answer import GibbsDraws, GibbsPlan, Note

__all__ = [
    "SAME",
    "Kept",
    "by_gibbs",
    "held_out_group",
    "held_out_note",
    "of_draw",
    "per_word",
    "some_pairs",
    "topics_note",
]

# Affinity from which topics count as the same: the sum over words of √(p q), which is 1 for equal topics.
SAME = 0.7
# Largest number of draws for means, unless there are few cells; and for predictions, in each chain.
_MEANS, _FEW_CELLS = 200, 20_000
KEPT, _KEPT_CELLS = 10, 20_000_000
# Largest number of pairs of document and word for which the probability of words is tracked.
_PAIRS = 20_000
# Held-out documents are evaluated with this many draws of all chains together, this many particles for each draw, and
# this many resampled earlier words at each word.
JUDGED, _PARTICLES, _FRESH = 40, 6, 20
type Kept = Mapping[str, tuple[tuple[str, ...], np.ndarray]]


def by_gibbs(spec: Any, documents: Documents, apart: Documents | None) -> GibbsPlan:
    """The plan of Gibbs sampling: see :class:`bayeslab.posterior.answer.GibbsPlan`."""

    sampler = _Sampler(
        documents.corpus,
        prior_of(spec),
        spec.alpha == "learned",
        spec.beta == "learned",
        # Given unequal concentrations identify the topics.
        not isinstance(spec.alpha, list) or len(set(spec.alpha)) == 1,
        documents.bounds,
        None if documents.day is None else _dated(spec, documents),
    )
    n = sampler.prior.n_topics
    dims: dict[str, tuple[str, ...]] = {"log_joint": (), "log_word": ()}
    # Concentrations by topic are reported with the topics; convergence uses label-invariant quantities.
    dims |= {"alpha_total": ()} if sampler.learn_alpha else {}
    dims |= {"beta": ()} if sampler.learn_beta else {}
    dims |= {"tau": ()} if sampler.learn_tau else {}

    def finish(states: Mapping[int, Arrays]) -> GibbsDraws:
        return _finished(sampler, documents, apart, states)

    how = f"topics of {documents.corpus.n_tokens:,} words drawn in turns, topics and proportions integrated out"
    labels = {"topic": np.arange(1, n + 1), "word": documents.vocabulary, documents.dim: documents.labels}
    if sampler.dated is not None:
        labels["day"] = documents.dates[: sampler.dated[0].n_days]
    return GibbsPlan(how, Chains(sampler.begin, sampler.advance, finish), dims, labels)


def _dated(spec: Any, documents: Documents) -> tuple[Any, Any]:
    """Documents by day, and the prior of the days' concentrations."""

    assert documents.day is not None
    learned = spec.tau == "learned"
    tau = {} if learned else {"tau": float(spec.tau)}
    return DatedCorpus(documents.corpus, documents.day), SequencePrior(prior_of(spec), learn_tau=learned, **tau)


@dataclass(frozen=True, eq=False)
class _Sampler:
    """Chains for documents in one or several languages, static or by day.

    Words of several languages have a joint numbering, and a topic has a distribution over the words of each language.
    """

    corpus: Corpus
    prior: TopicPrior
    learn_alpha: bool
    learn_beta: bool
    exchangeable: bool
    bounds: np.ndarray
    dated: tuple[Any, Any] | None = None

    @property
    def learn_tau(self) -> bool:
        return self.dated is not None and bool(self.dated[1].learn_tau)

    @cached_property
    def paired(self) -> Any:
        """The documents of each language."""

        sides = []
        for begin, end in pairwise(self.bounds):
            in_side = (self.corpus.words >= begin) & (self.corpus.words < end)
            sizes = np.bincount(self.corpus.document[in_side], minlength=self.corpus.n_documents)
            words = self.corpus.words[in_side] - begin
            sides.append(Corpus(words, np.append(0, np.cumsum(sizes)), int(end - begin)))
        return PairedCorpus(sides)

    def _swept(self, now: Arrays, many: int) -> Arrays:
        """The state of the topics after the given number of sweeps."""
        state = {name.removeprefix("state_"): value for name, value in now.items() if name.startswith("state_")}
        prior = TopicPrior(now["alpha"], float(now["beta"]))
        if self.dated is not None:
            after = topic_sequence.run(self.dated[0], state, self.dated[1], many)
        elif len(self.bounds) > 2:
            after = paired_topics.run(self.paired, state, prior, many)
        else:
            after = lda.run(self.corpus, state, prior, many)
        return {f"state_{name}": value for name, value in after.items()}

    def _first(self, rng: np.random.Generator) -> Arrays:
        if self.dated is not None:
            state = topic_sequence.start(*self.dated, rng)
        elif len(self.bounds) > 2:
            state = paired_topics.start(self.paired, self.prior.n_topics, rng)
        else:
            state = lda.start(self.corpus, self.prior.n_topics, rng)
        return {f"state_{name}": value for name, value in state.items()}

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return some_pairs(self.corpus)

    def begin(self, rng: np.random.Generator, draws: int, tune: int) -> Arrays:
        """Initial state with random topics of words, and room for stored sums."""
        k, v, d = self.prior.n_topics, self.corpus.n_words, self.corpus.n_documents
        kept = max(1, min(KEPT, draws, _KEPT_CELLS // (k * v)))
        return {
            **self._first(rng),
            "seed": rng.integers(0, 1 << 63, 2),
            "done": np.array(0),
            "tune": np.array(tune),
            "alpha": self.prior.alpha.copy(),
            "beta": np.array(self.prior.beta),
            "order": np.arange(k),
            "log_joint": np.zeros(draws),
            "log_word": np.zeros(draws),
            "share": np.zeros((draws, k)),
            "alphas": np.zeros((draws if self.learn_alpha else 0, k)),
            "betas": np.zeros(draws if self.learn_beta else 0),
            "taus": np.zeros(draws if self.learn_tau else 0),
            "day": np.zeros((self.dated[0].n_days if self.dated is not None else 0, k)),
            "day_square": np.zeros((self.dated[0].n_days if self.dated is not None else 0, k)),
            "summed": np.array(0),
            "phi": np.zeros((k, v)),
            "phi_square": np.zeros((k, v)),
            "theta": np.zeros((d, k)),
            "theta_square": np.zeros((d, k)),
            "kept": np.array(0),
            "kept_phi": np.zeros((kept, k, v), np.float32),
            "kept_size": np.zeros((kept, len(self.bounds) - 1, k), np.float32),
            "kept_alpha": np.zeros((kept, k)),
            "kept_beta": np.zeros(kept),
        }

    def advance(self, state: Arrays, n_sweeps: int) -> Arrays:
        """Run the given number of sweeps; splitting them into several calls does not change the result."""
        now: dict[str, Any] = {name: np.array(value) for name, value in state.items()}
        end = int(now["done"]) + n_sweeps
        while (done := int(now["done"])) < end:
            left = min(end, int(now["tune"])) - done
            many = max(1, left) if not (self.learn_alpha or self.learn_beta) else 1
            now |= self._swept(now, many)
            self._concentrations(now, done)
            now["done"] = np.array(done + many)
            if done >= now["tune"]:
                self._record(now, done - int(now["tune"]))
        return now

    def _concentrations(self, now: dict[str, Any], sweep: int) -> None:
        if not (self.learn_alpha or self.learn_beta):
            return
        # Each sweep has its own generator, so that only arrays need to be stored.
        rng = np.random.default_rng([*now["seed"].tolist(), sweep])
        by_document, by_word = _counts(self.corpus, now["state_z"], self.prior.n_topics)
        if self.learn_alpha:
            now["alpha"] = draw_alpha(now["alpha"], by_document, rng)
        if self.learn_beta:
            now["beta"] = np.array(draw_beta(float(now["beta"]), by_word, rng))

    def _record(self, now: dict[str, Any], draw: int) -> None:
        k, draws = self.prior.n_topics, len(now["log_joint"])
        by_document, by_word = _counts(self.corpus, now["state_z"], k)
        alpha, beta = now["alpha"], float(now["beta"])
        of_days = None if self.dated is None else np.exp(now["state_path"])
        each = alpha if of_days is None else of_days[self.dated[0].day]  # type: ignore[index]
        now["log_joint"][draw] = _log_joint(by_document, by_word, each, beta, self.bounds)
        sizes = np.add.reduceat(by_word, self.bounds[:-1], axis=0) + beta * np.diff(self.bounds)[:, None]
        theta = by_document + each
        theta_size = theta.sum(axis=1, keepdims=True)
        theta /= theta_size
        documents, words, counts = self.pairs
        of_word = sizes[np.searchsorted(self.bounds, words, side="right") - 1]
        chance = np.einsum("pk,pk->p", theta[documents], (by_word[words] + beta) / of_word)
        now["log_word"][draw] = counts @ np.log(chance) / counts.sum()
        small = k * self.corpus.n_words + k * self.corpus.n_documents <= _FEW_CELLS
        summed = small or draw % max(1, draws // _MEANS) == 0
        kept, room = int(now["kept"]), len(now["kept_beta"])
        keep = kept < room and (draw + 1) * room >= (kept + 1) * draws
        if summed or keep:
            phi_size = np.repeat(sizes, np.diff(self.bounds), axis=0).T
            phi = (by_word.T + beta) / phi_size
        if summed:
            if self.exchangeable and now["summed"]:
                now["order"] = lda.align(now["phi"] / now["summed"], phi)
            order = now["order"]
            _add(now, "phi", phi[order], phi_size[order])
            _add(now, "theta", theta[:, order], theta_size)
            if of_days is not None:
                share = (of_days / of_days.sum(axis=1, keepdims=True))[:, order]
                now["day"] += share
                now["day_square"] += share**2
            now["summed"] = now["summed"] + 1
        order = now["order"]
        now["share"][draw] = by_document.sum(axis=0)[order] / self.corpus.n_tokens
        if self.learn_alpha:
            now["alphas"][draw] = alpha[order]
        if self.learn_beta:
            now["betas"][draw] = beta
        if self.learn_tau:
            now["taus"][draw] = float(now["state_tau"])
        if keep:
            # New documents are assigned to the last day.
            last = alpha if of_days is None else of_days[-1]
            now["kept_phi"][kept], now["kept_alpha"][kept], now["kept_beta"][kept] = phi[order], last[order], beta
            now["kept_size"][kept] = sizes[:, order]
            now["kept"] = np.array(kept + 1)


def some_pairs(corpus: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some pairs of document and word, with their counts."""
    keys, counts = np.unique(corpus.document * corpus.n_words + corpus.words, return_counts=True)
    some = np.unique(np.linspace(0, len(keys) - 1, min(len(keys), _PAIRS)).astype(int))
    return keys[some] // corpus.n_words, keys[some] % corpus.n_words, counts[some]


def _counts(corpus: Corpus, z: np.ndarray, n_topics: int) -> tuple[np.ndarray, np.ndarray]:
    """Counts by document and topic, and by word and topic."""
    by_document = np.bincount(corpus.document * n_topics + z, minlength=corpus.n_documents * n_topics)
    by_word = np.bincount(corpus.words.astype(np.int64) * n_topics + z, minlength=corpus.n_words * n_topics)
    return by_document.reshape(-1, n_topics), by_word.reshape(-1, n_topics)


def _log_joint(
    by_document: np.ndarray, by_word: np.ndarray, alpha: np.ndarray, beta: float, bounds: np.ndarray
) -> float:
    """log p(words, topics of words | alpha, beta); empty cells contribute nothing."""
    each = np.broadcast_to(alpha, by_document.shape)
    rows, topics = np.nonzero(by_document)
    prior_counts = each[rows, topics]
    documents = float((gammaln(by_document[rows, topics] + prior_counts) - gammaln(prior_counts)).sum())
    lengths, whole = by_document.sum(axis=1), alpha.sum(axis=-1)
    documents -= float((gammaln(lengths + whole) - gammaln(whole)).sum())
    counts = by_word[by_word > 0]
    words = float(gammaln(counts + beta).sum() - len(counts) * gammaln(beta))
    sizes, width = np.add.reduceat(by_word, bounds[:-1], axis=0), beta * np.diff(bounds)[:, None]
    return documents + words - float((gammaln(sizes + width) - gammaln(width)).sum())


def _add(now: dict[str, Any], name: str, mean: np.ndarray, size: np.ndarray) -> None:
    """Add the mean and mean square of a Dirichlet distribution, given the topics of words, to the sums."""
    now[name] += mean
    now[f"{name}_square"] += mean * (mean * size + 1) / (size + 1)


# --------------------------------------------------------------------------------- combining chains


def _finished(
    sampler: _Sampler, documents: Documents, apart: Documents | None, states: Mapping[int, Arrays]
) -> GibbsDraws:
    chains = {k: s for k, s in sorted(states.items()) if int(s["done"]) > int(s["tune"])}
    if not chains:
        raise Stopped(
            "interrupted before any draw after tuning; `bayeslab fit --resume RUN` goes on from here", code="stopped"
        )
    length = min(int(s["done"]) - int(s["tune"]) for s in chains.values())
    each = list(chains.values())
    joint = np.stack([s["log_joint"][:length] for s in each])
    best = int(np.argmax(joint.mean(axis=1)))
    orders, likeness = _paired(sampler, each, best)
    alike = likeness.min(axis=1) >= SAME
    agreeing = np.flatnonzero(alike)
    share = np.stack([s["share"][:length][:, order] for s, order in zip(each, orders, strict=True)])
    by_size = np.argsort(-share[agreeing].mean(axis=(0, 1)), kind="stable") if sampler.exchangeable else slice(None)
    orders, likeness, share = [order[by_size] for order in orders], likeness[:, by_size], share[..., by_size]
    group: dict[str, Any] = {
        **_means(each, orders, agreeing, documents.dim, sampler.dated is not None),
        "share": (("chain", "draw", "topic"), share),
        "likeness": (("chain", "topic"), likeness),
        "word_share": (("word",), documents.word_shares),
        "n_words": ((documents.dim,), documents.corpus.lengths),
        "agrees": (("chain",), alike),
    }
    if documents.languages:
        group["language"] = (("word",), np.repeat(documents.languages, np.diff(documents.bounds)))
    groups: dict[str, Any] = {"topics": group, "topic_draws": _kept(each, orders)}
    notes = topics_note(list(chains), likeness, best)
    if apart is not None:
        held_out = held_out_group(apart, groups["topic_draws"])
        groups["held_out"] = held_out
        notes.append(held_out_note(held_out))
    drawn = {"log_joint": joint, "log_word": np.stack([s["log_word"][:length] for s in each])}
    if sampler.learn_alpha:
        alphas = np.stack([s["alphas"][:length][:, o] for s, o in zip(each, orders, strict=True)])
        drawn["alpha_total"] = alphas.sum(axis=2)
        group["alpha"] = (("chain", "draw", "topic"), alphas)
    if sampler.learn_beta:
        drawn["beta"] = np.stack([s["betas"][:length] for s in each])
    if sampler.learn_tau:
        drawn["tau"] = np.stack([s["taus"][:length] for s in each])
    return GibbsDraws(drawn, {"lp": joint}, groups, tuple(notes))


def _paired(sampler: _Sampler, each: list[Arrays], best: int) -> tuple[list[np.ndarray], np.ndarray]:
    """For each chain the matching of its topics with those of the best chain, and their affinities."""
    means = [s["phi"] / max(int(s["summed"]), 1) for s in each]
    n = sampler.prior.n_topics
    orders = [lda.align(means[best], mean) if sampler.exchangeable else np.arange(n) for mean in means]
    likeness = [
        np.sqrt(means[best] * mean[order]).sum(axis=1) for mean, order in zip(means, orders, strict=True)
    ]  # fmt: skip
    # For several languages, use the mean affinity.
    return orders, np.minimum(np.stack(likeness) / (len(sampler.bounds) - 1), 1.0)


def _means(each: list[Arrays], orders: list[np.ndarray], agreeing: np.ndarray, dim: str, dated: bool) -> dict[str, Any]:
    """Means and standard deviations over the chains that agree."""
    out = {}
    total = sum(int(each[c]["summed"]) for c in agreeing)
    of_days = [("day", ("day", "topic"), 1)] if dated else []
    for name, dims, axis in (("phi", ("topic", "word"), 0), ("theta", (dim, "topic"), 1), *of_days):
        mean = sum(np.take(each[c][name], orders[c], axis) for c in agreeing) / total
        square = sum(np.take(each[c][f"{name}_square"], orders[c], axis) for c in agreeing) / total
        # A variable and a dimension cannot both be named day.
        name = "day_share" if name == "day" else name
        out[name] = (dims, np.asarray(mean))
        out[f"{name}_sd"] = (dims, np.sqrt(np.maximum(square - mean**2, 0.0)))
    return out


def _kept(each: list[Arrays], orders: list[np.ndarray]) -> dict[str, Any]:
    """Some draws of every chain for predictions: given the topics of words, a topic is Dirichlet(size · phi)."""
    phi, size, alpha, beta, chain = [], [], [], [], []
    for c, (state, order) in enumerate(zip(each, orders, strict=True)):
        n = int(state["kept"])
        phi.append(state["kept_phi"][:n][:, order])
        size.append(state["kept_size"][:n][..., order])
        alpha.append(state["kept_alpha"][:n][:, order])
        beta.append(state["kept_beta"][:n])
        chain += [c] * n
    return {
        "phi": (("kept", "topic", "word"), np.concatenate(phi)),
        "size": (("kept", "side", "topic"), np.concatenate(size)),
        "alpha": (("kept", "topic"), np.concatenate(alpha)),
        "beta": (("kept",), np.concatenate(beta)),
        "from_chain": (("kept",), np.array(chain)),
    }


def topics_note(chains: list[int], likeness: np.ndarray, best: int) -> list[Note]:
    """A remark on the topics that all chains share."""
    same = likeness >= SAME
    if not same.shape[1]:
        text = "no topic has 1 % of the words in half of the draws: no topic is stable"
        return [Note("warn", "topics", text, "give a number of topics, or a larger beta, which gives fewer topics")]
    lone = np.flatnonzero(~same.all(axis=0))
    if len(chains) == 1:
        return [
            Note(
                "warn",
                "topics",
                "with one chain, the agreement of topics between chains is unknown",
                "run several chains",
            )
        ]
    if not len(lone):
        n = same.shape[1]
        which = f"all {n} topics are" if n > 1 else "the topic is"
        text = f"{which} found by all {len(chains)} chains (affinity at least {SAME:g})"
        return [Note("pass", "topics", text)]
    agreeing = int(same.all(axis=1).sum())
    shown = ", ".join(f"{k + 1} (by {int(same[:, k].sum())})" for k in lone[:8]) + (" ..." if len(lone) > 8 else "")
    n = len(chains)
    text = (
        f"{len(lone)} of {counted(same.shape[1], 'topic')} not found by all {n} chains: {shown}; words and proportions"
        f" are those of the {agreeing} of {n} chains that agree with the most probable one, chain {chains[best]}"
    )
    return [
        Note("warn", "topics", text, "run longer (tune), take fewer topics, or rely only on topics all chains find")
    ]


# --------------------------------------------------------------------------------- held out


def held_out_group(apart: Documents, kept: Kept) -> dict[str, Any]:
    """Log probability of held-out documents, by document and draw."""
    chain = kept["from_chain"][1]
    some = np.unique(np.linspace(0, len(chain) - 1, min(len(chain), JUDGED)).astype(int))
    there = apart.take(np.flatnonzero(apart.corpus.lengths))
    rng = np.random.default_rng(0)
    each = [
        lda.held_out(there.corpus, *draw, rng, **more, particles=_PARTICLES, fresh=_FRESH)
        for draw, more in (of_draw(there, kept, s) for s in some)
    ]
    return {
        "log_probability": (("held_out_draw", "held_out_document"), np.stack(each)),
        "from_chain": (("held_out_draw",), chain[some]),
        "n_words": (("held_out_document",), there.corpus.lengths),
    }


def of_draw(documents: Documents, kept: Kept, s: int) -> tuple[tuple[np.ndarray, TopicPrior], dict[str, Any]]:
    """The topics in one stored draw, for evaluating or assigning documents."""
    phi, prior = kept["phi"][1][s].astype(float), TopicPrior(kept["alpha"][1][s], float(kept["beta"][1][s]))
    # Direct draws of topics have no size.
    sizes = kept["size"][1][s] if "size" in kept else None
    return (phi, prior), {"sizes": sizes, "sides": documents.sides}


def held_out_note(group: Kept) -> Note:
    value, error = per_word(*(group[name][1] for name in ("log_probability", "n_words", "from_chain")))
    n, words = len(group["n_words"][1]), int(group["n_words"][1].sum())
    text = (
        f"log probability of a word in {counted(n, 'held-out document')} ({counted(words, 'word')}) {value:.4f} ±"
        f" {error:.2g} (Monte Carlo error); perplexity {np.exp(-value):,.1f}"
    )
    return Note("pass", "held out", text)


def per_word(log_probability: np.ndarray, n_words: np.ndarray, chain: np.ndarray) -> tuple[float, float]:
    """Log probability per word of documents, and its Monte Carlo error.

    Parameters
    ----------
    log_probability : ndarray (n_draws, n_documents)
        Log probability of each document given each draw of the topics.
    chain : ndarray (n_draws,)
        Chain of each draw: with three or more chains the error is the jackknife's over chains, otherwise over draws.
    """
    groups = chain if len(np.unique(chain)) >= 3 else np.arange(len(chain))
    names = np.unique(groups)
    whole = _averaged(log_probability) / n_words.sum()
    if len(names) < 2:
        return whole, float("nan")
    left = np.array([_averaged(log_probability[groups != name]) for name in names]) / n_words.sum()
    n = len(names)
    return whole, float(np.sqrt((n - 1) / n * ((left - left.mean()) ** 2).sum()))


def _averaged(log_probability: np.ndarray) -> float:
    most = log_probability.max(axis=0)
    return float((most + np.log(np.exp(log_probability - most).mean(axis=0))).sum())
