"""Topics by Gibbs steps over the topics of words: chains as arrays, and what their draws say together.

Topics trade places within a chain and between chains. Within a chain each draw is paired with the mean of those before;
chains are paired with the one of the highest probability, and those that found other topics are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import gammaln

from bayeslab.errors import Stopped
from bayeslab.exact import topics as lda
from bayeslab.exact.answer import GibbsDraws, GibbsPlan, Note, SteppedChains
from bayeslab.exact.topic_concentrations import draw_alpha, draw_beta
from bayeslab.exact.topics import Corpus, TopicPrior
from bayeslab.families._topics_words import Documents

__all__ = ["SAME", "by_gibbs", "held_out_group", "held_out_note", "per_word", "some_pairs", "topics_note"]

# Topics are taken as the same from this affinity on, the sum over words of √(p q): 1 for equal ones.
SAME = 0.7
# Means are over so many draws at most, unless cells are few; predictions over so many of each chain.
_MEANS, _FEW_CELLS = 200, 20_000
_KEPT, _KEPT_CELLS = 10, 20_000_000
# The probability of words is looked at for so many pairs of document and word at most.
_PAIRS = 20_000
# Held-out documents are judged by so many draws of all chains together, with so many particles.
_JUDGED, _PARTICLES = 12, 20

type Arrays = Mapping[str, np.ndarray]


def by_gibbs(spec: Any, documents: Documents, apart: Documents | None) -> GibbsPlan:
    """The plan: see :class:`bayeslab.exact.answer.GibbsPlan`."""
    from bayeslab.families.topics import prior_of

    sampler = _Sampler(
        documents.corpus,
        prior_of(spec),
        spec.alpha == "learned",
        spec.beta == "learned",
        # Given unequal numbers topics are told apart by them.
        not isinstance(spec.alpha, list) or len(set(spec.alpha)) == 1,
    )
    n = sampler.prior.n_topics
    dims: dict[str, tuple[str, ...]] = {"log_joint": (), "log_word": ()}
    dims |= {"alpha": ("topic",)} if sampler.learn_alpha else {}
    dims |= {"beta": ()} if sampler.learn_beta else {}

    def finish(states: Mapping[int, Arrays]) -> GibbsDraws:
        return _finished(sampler, documents, apart, states)

    def sample(
        chains: int, draws: int, tune: int, rng: np.random.Generator, report: Callable[[int, int], None]
    ) -> GibbsDraws:
        ends = {}
        for k, own in enumerate(rng.spawn(chains)):
            ends[k] = sampler.advance(sampler.begin(own, draws, tune), draws + tune)
            report(k, draws + tune)
        return finish(ends)

    how = f"topics of {documents.corpus.n_tokens:,} words drawn in turns, topics and proportions integrated out"
    labels = {"topic": np.arange(1, n + 1), "word": documents.vocabulary, documents.dim: documents.labels}
    return GibbsPlan(how, sample, dims, labels, SteppedChains(sampler.begin, sampler.advance, finish))


@dataclass(frozen=True, eq=False)
class _Sampler:
    corpus: Corpus
    prior: TopicPrior
    learn_alpha: bool
    learn_beta: bool
    exchangeable: bool

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return some_pairs(self.corpus)

    def begin(self, rng: np.random.Generator, draws: int, tune: int) -> Arrays:
        """Words in random topics, and room for what is kept."""
        k, v, d = self.prior.n_topics, self.corpus.n_words, self.corpus.n_documents
        kept = max(1, min(_KEPT, draws, _KEPT_CELLS // (k * v)))
        return {
            **lda.start(self.corpus, k, rng),
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
            "summed": np.array(0),
            "phi": np.zeros((k, v)),
            "phi_square": np.zeros((k, v)),
            "theta": np.zeros((d, k)),
            "theta_square": np.zeros((d, k)),
            "kept": np.array(0),
            "kept_phi": np.zeros((kept, k, v), np.float32),
            "kept_alpha": np.zeros((kept, k)),
            "kept_beta": np.zeros(kept),
        }

    def advance(self, state: Arrays, n_sweeps: int) -> Arrays:
        """So many sweeps; how they are cut into pieces changes nothing."""
        now: dict[str, Any] = {name: np.array(value) for name, value in state.items()}
        end = int(now["done"]) + n_sweeps
        while (done := int(now["done"])) < end:
            left = min(end, int(now["tune"])) - done
            many = max(1, left) if not (self.learn_alpha or self.learn_beta) else 1
            prior = TopicPrior(now["alpha"], float(now["beta"]))
            now |= lda.run(self.corpus, {"z": now["z"], "rng": now["rng"]}, prior, many)
            self._concentrations(now, done)
            now["done"] = np.array(done + many)
            if done >= now["tune"]:
                self._record(now, done - int(now["tune"]))
        return now

    def _concentrations(self, now: dict[str, Any], sweep: int) -> None:
        if not (self.learn_alpha or self.learn_beta):
            return
        # A generator of its own for each sweep, so that nothing but arrays need be kept.
        rng = np.random.default_rng([*now["seed"].tolist(), sweep])
        by_document, by_word = _counts(self.corpus, now["z"], self.prior.n_topics)
        if self.learn_alpha:
            now["alpha"] = draw_alpha(now["alpha"], by_document, rng)
        if self.learn_beta:
            now["beta"] = np.array(draw_beta(float(now["beta"]), by_word, rng))

    def _record(self, now: dict[str, Any], draw: int) -> None:
        k, draws = self.prior.n_topics, len(now["log_joint"])
        by_document, by_word = _counts(self.corpus, now["z"], k)
        alpha, beta = now["alpha"], float(now["beta"])
        now["log_joint"][draw] = _log_joint(by_document, by_word, alpha, beta)
        phi = by_word.T + beta
        phi_size = phi.sum(axis=1)
        phi /= phi_size[:, None]
        theta = by_document + alpha
        theta_size = theta.sum(axis=1)
        theta /= theta_size[:, None]
        documents, words, counts = self.pairs
        chance = np.einsum("pk,pk->p", theta[documents], phi.T[words])
        now["log_word"][draw] = counts @ np.log(chance) / counts.sum()
        small = k * self.corpus.n_words + k * self.corpus.n_documents <= _FEW_CELLS
        if small or draw % max(1, draws // _MEANS) == 0:
            if self.exchangeable and now["summed"]:
                now["order"] = lda.align(now["phi"] / now["summed"], phi)
            order = now["order"]
            _add(now, "phi", phi[order], phi_size[order][:, None])
            _add(now, "theta", theta[:, order], theta_size[:, None])
            now["summed"] = now["summed"] + 1
        order = now["order"]
        now["share"][draw] = by_word.sum(axis=0)[order] / self.corpus.n_tokens
        if self.learn_alpha:
            now["alphas"][draw] = alpha[order]
        if self.learn_beta:
            now["betas"][draw] = beta
        kept, room = int(now["kept"]), len(now["kept_beta"])
        if kept < room and (draw + 1) * room >= (kept + 1) * draws:
            now["kept_phi"][kept], now["kept_alpha"][kept], now["kept_beta"][kept] = phi[order], alpha[order], beta
            now["kept"] = np.array(kept + 1)


def some_pairs(corpus: Corpus) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Some pairs of document and word, and how often each is there."""
    keys, counts = np.unique(corpus.document * corpus.n_words + corpus.words, return_counts=True)
    some = np.unique(np.linspace(0, len(keys) - 1, min(len(keys), _PAIRS)).astype(int))
    return keys[some] // corpus.n_words, keys[some] % corpus.n_words, counts[some]


def _counts(corpus: Corpus, z: np.ndarray, n_topics: int) -> tuple[np.ndarray, np.ndarray]:
    """Words by document and topic, and by word and topic."""
    by_document = np.bincount(corpus.document * n_topics + z, minlength=corpus.n_documents * n_topics)
    by_word = np.bincount(corpus.words.astype(np.int64) * n_topics + z, minlength=corpus.n_words * n_topics)
    return by_document.reshape(-1, n_topics), by_word.reshape(-1, n_topics)


def _log_joint(by_document: np.ndarray, by_word: np.ndarray, alpha: np.ndarray, beta: float) -> float:
    """log p(words, topics of words | alpha, beta): cells without words add nothing."""
    rows, topics = np.nonzero(by_document)
    documents = float((gammaln(by_document[rows, topics] + alpha[topics]) - gammaln(alpha)[topics]).sum())
    lengths, whole = by_document.sum(axis=1), alpha.sum()
    documents -= float((gammaln(lengths + whole) - gammaln(whole)).sum())
    counts = by_word[by_word > 0]
    words = float(gammaln(counts + beta).sum() - len(counts) * gammaln(beta))
    sizes, width = by_word.sum(axis=0), len(by_word) * beta
    return documents + words - float((gammaln(sizes + width) - gammaln(width)).sum())


def _add(now: dict[str, Any], name: str, mean: np.ndarray, size: np.ndarray) -> None:
    """A Dirichlet distribution's mean and mean square, given the topics of words, to the sums."""
    now[name] += mean
    now[f"{name}_square"] += mean * (mean * size + 1) / (size + 1)


# --------------------------------------------------------------------------------- chains together


def _finished(
    sampler: _Sampler, documents: Documents, apart: Documents | None, states: Mapping[int, Arrays]
) -> GibbsDraws:
    chains = {k: s for k, s in sorted(states.items()) if int(s["done"]) > int(s["tune"])}
    if not chains:
        raise Stopped("interrupted before any draw after tuning; `bayeslab fit --resume RUN` goes on from here")
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
        **_means(each, orders, agreeing, documents.dim),
        "share": (("chain", "draw", "topic"), share),
        "likeness": (("chain", "topic"), likeness),
        "word_share": (("word",), documents.word_shares),
        "n_words": ((documents.dim,), documents.corpus.lengths),
        "agrees": (("chain",), alike),
    }
    groups: dict[str, Any] = {"topics": group, "topic_draws": _kept(each, orders)}
    notes = topics_note(list(chains), likeness, best)
    if apart is not None:
        judged = held_out_group(apart, groups["topic_draws"])
        groups["held_out"] = judged
        notes.append(held_out_note(judged))
    drawn = {"log_joint": joint, "log_word": np.stack([s["log_word"][:length] for s in each])}
    if sampler.learn_alpha:
        drawn["alpha"] = np.stack([s["alphas"][:length][:, o] for s, o in zip(each, orders, strict=True)])
    if sampler.learn_beta:
        drawn["beta"] = np.stack([s["betas"][:length] for s in each])
    return GibbsDraws(drawn, {"lp": joint}, groups, tuple(notes))


def _paired(sampler: _Sampler, each: list[Arrays], best: int) -> tuple[list[np.ndarray], np.ndarray]:
    """For each chain which of its topics goes with which of the best chain's, and the affinity of the two."""
    means = [s["phi"] / max(int(s["summed"]), 1) for s in each]
    n = sampler.prior.n_topics
    orders = [lda.align(means[best], own) if sampler.exchangeable else np.arange(n) for own in means]
    likeness = [
        np.sqrt(means[best] * own[order]).sum(axis=1) for own, order in zip(means, orders, strict=True)
    ]  # fmt: skip
    return orders, np.minimum(np.stack(likeness), 1.0)


def _means(each: list[Arrays], orders: list[np.ndarray], agreeing: np.ndarray, dim: str) -> dict[str, Any]:
    """Means and standard deviations over the chains that agree."""
    out = {}
    total = sum(int(each[c]["summed"]) for c in agreeing)
    for name, dims, axis in (("phi", ("topic", "word"), 0), ("theta", (dim, "topic"), 1)):
        mean = sum(np.take(each[c][name], orders[c], axis) for c in agreeing) / total
        square = sum(np.take(each[c][f"{name}_square"], orders[c], axis) for c in agreeing) / total
        out[name] = (dims, np.asarray(mean))
        out[f"{name}_sd"] = (dims, np.sqrt(np.maximum(square - mean**2, 0.0)))
    return out


def _kept(each: list[Arrays], orders: list[np.ndarray]) -> dict[str, Any]:
    """Some draws of topics of every chain, to predict from."""
    phi, alpha, beta, chain = [], [], [], []
    for c, (state, order) in enumerate(zip(each, orders, strict=True)):
        n = int(state["kept"])
        phi.append(state["kept_phi"][:n][:, order])
        alpha.append(state["kept_alpha"][:n][:, order])
        beta.append(state["kept_beta"][:n])
        chain += [c] * n
    return {
        "phi": (("kept", "topic", "word"), np.concatenate(phi)),
        "alpha": (("kept", "topic"), np.concatenate(alpha)),
        "beta": (("kept",), np.concatenate(beta)),
        "from_chain": (("kept",), np.array(chain)),
    }


def topics_note(chains: list[int], likeness: np.ndarray, best: int) -> list[Note]:
    same = likeness >= SAME
    lone = np.flatnonzero(~same.all(axis=0))
    if len(chains) == 1:
        return [Note("warn", "topics", "one chain cannot say whether topics are found again", "run several chains")]
    if not len(lone):
        text = f"all {same.shape[1]} topics are found by all {len(chains)} chains (affinity at least {SAME:g})"
        return [Note("pass", "topics", text)]
    agreeing = int(same.all(axis=1).sum())
    shown = ", ".join(f"{k + 1} (by {int(same[:, k].sum())})" for k in lone[:8]) + (" ..." if len(lone) > 8 else "")
    n = len(chains)
    text = (
        f"{len(lone)} of {same.shape[1]} topics are not found by all {n} chains: {shown}; words and proportions are"
        f" those of the {agreeing} of {n} chains that agree with the most probable one, chain {chains[best]}"
    )
    return [
        Note("warn", "topics", text, "run longer (tune), take fewer topics, or rely only on topics all chains find")
    ]


# --------------------------------------------------------------------------------- held out


def held_out_group(apart: Documents, kept: Mapping[str, tuple[tuple[str, ...], np.ndarray]]) -> dict[str, Any]:
    """Log probability of documents, averaged over draws of the topics; by document and draw."""
    phi, alpha, beta = (kept[name][1] for name in ("phi", "alpha", "beta"))
    chain = kept["from_chain"][1]
    some = np.unique(np.linspace(0, len(phi) - 1, min(len(phi), _JUDGED)).astype(int))
    corpus = apart.corpus.take(apart.corpus.lengths > 0)
    rng = np.random.default_rng(0)
    each = [
        lda.held_out(corpus, phi[s].astype(float), TopicPrior(alpha[s], float(beta[s])), rng, particles=_PARTICLES)
        for s in some
    ]
    return {
        "log_probability": (("held_out_draw", "held_out_document"), np.stack(each)),
        "from_chain": (("held_out_draw",), chain[some]),
        "n_words": (("held_out_document",), corpus.lengths),
    }


def held_out_note(judged: Mapping[str, tuple[tuple[str, ...], np.ndarray]]) -> Note:
    value, error = per_word(*(judged[name][1] for name in ("log_probability", "n_words", "from_chain")))
    n, words = len(judged["n_words"][1]), int(judged["n_words"][1].sum())
    text = (
        f"log probability of a word in {n:,} held-out documents ({words:,} words) {value:.4f} ± {error:.2g} (Monte"
        f" Carlo error); perplexity {np.exp(-value):,.1f}"
    )
    return Note("pass", "held out", text)


def per_word(log_probability: np.ndarray, n_words: np.ndarray, chain: np.ndarray) -> tuple[float, float]:
    """Log probability of a word of documents, and its Monte Carlo error.

    Parameters
    ----------
    log_probability : ndarray (n_draws, n_documents)
        Given each draw of the topics.
    chain : ndarray (n_draws,)
        Where each draw is from: with three chains or more the error is the jackknife's over chains, else over draws.
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
