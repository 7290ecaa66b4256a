"""Hierarchical Dirichlet process topics by Gibbs sampling: persistent topics and their number.

Topics appear and vanish. Within a chain, each draw's topics are matched with those of earlier draws, or are new. The
report has the topics in at least half of the draws of the most probable chain, and how many other chains have them too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from bayeslab.errors import Stopped
from bayeslab.families.topics.documents import Documents
from bayeslab.families.topics.gibbs_sampling import SAME, held_out_group, held_out_note, some_pairs, topics_note
from bayeslab.latents.sampler import Arrays, Chains
from bayeslab.latents.topics import topic_process
from bayeslab.latents.topics.topic_process import ProcessPrior
from bayeslab.latents.topics.topics import Corpus
from bayeslab.posterior.answer import GibbsDraws, GibbsPlan, Note

__all__ = ["by_gibbs"]

# A topic is reported if it occurs in this share of the draws with at least this share of the words.
THERE, _LARGE = 0.5, 0.01
_START = 10
# Smaller corpora have several sweeps for each draw, up to this many.
_SHORT, _SWEEPS = 20_000, 5
# Weight of an absent topic.
_NONE = 1e-30
_MEANS, _KEPT, _KEPT_CELLS, _MOST_SEEN = 200, 10, 20_000_000, 300


def by_gibbs(prior: ProcessPrior, documents: Documents, apart: Documents | None) -> GibbsPlan:
    """The plan of Gibbs sampling: see :class:`bayeslab.posterior.answer.GibbsPlan`."""
    sampler = _Sampler(documents.corpus, prior)
    dims: dict[str, tuple[str, ...]] = dict.fromkeys(_recorded(prior), ())

    def finish(states: Mapping[int, Arrays]) -> GibbsDraws:
        return _finished(sampler, documents, apart, states)

    each = f", {sampler.sweeps} times for each draw" if sampler.sweeps > 1 else ""
    how = f"topics of {documents.corpus.n_tokens:,} words drawn in turns{each}, among those there are and new ones"
    labels = {"word": documents.vocabulary, documents.dim: documents.labels, "topic": np.arange(1, _MOST_SEEN + 1)}
    return GibbsPlan(how, Chains(sampler.begin, sampler.advance, finish), dims, labels)


def _recorded(prior: ProcessPrior) -> tuple[str, ...]:
    more = [name for name in ("alpha", "gamma") if not isinstance(getattr(prior, name), float | int)]
    return ("n_topics", "n_large", "log_words", "log_word", *more, *(["beta"] if prior.learn_beta else []))


@dataclass(frozen=True, eq=False)
class _Sampler:
    corpus: Corpus
    prior: ProcessPrior

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return some_pairs(self.corpus)

    @property
    def sweeps(self) -> int:
        """Sweeps for each draw: small topics change slowly, and storing a draw costs more than a sweep."""
        return int(np.clip(_SHORT // max(self.corpus.n_tokens, 1), 1, _SWEEPS))

    def begin(self, rng: np.random.Generator, draws: int, tune: int) -> Arrays:
        """Initial state with a few random topics, and room for stored sums."""
        v, d = self.corpus.n_words, self.corpus.n_documents
        first = topic_process.start(self.corpus, self.prior, rng, n_topics=min(_START, self.corpus.n_tokens))
        return {
            **{f"state_{name}": value for name, value in first.items()},
            "done": np.array(0),
            "tune": np.array(tune),
            "draws": np.array(draws),
            **{f"draw_{name}": np.zeros(draws) for name in _recorded(self.prior)},
            "summed": np.array(0),
            "there": np.zeros(0, int),
            "share": np.zeros(0),
            **{name: np.zeros((0, v)) for name in ("phi", "phi_square", "counts")},
            **{name: np.zeros((d, 0)) for name in ("theta", "theta_square")},
            "kept": np.array(0),
        }

    def advance(self, state: Arrays, n_sweeps: int) -> Arrays:
        """Run the given number of draws; splitting them into several calls does not change the result."""
        now: dict[str, Any] = {name: np.array(value) for name, value in state.items()}
        end = int(now["done"]) + n_sweeps
        while (done := int(now["done"])) < end:
            many = max(1, min(end, int(now["tune"])) - done)
            before = {name.removeprefix("state_"): value for name, value in now.items() if name.startswith("state_")}
            chain = topic_process.run(self.corpus, before, self.prior, many * self.sweeps)
            now |= {f"state_{name}": value for name, value in chain.items()}
            now["done"] = np.array(done + many)
            if done >= now["tune"]:
                self._record(now, chain, done - int(now["tune"]))
        return now

    def _record(self, now: dict[str, Any], chain: Arrays, draw: int) -> None:
        draws, corpus = int(now["draws"]), self.corpus
        phi, theta = topic_process.topics(corpus, chain), topic_process.proportions(corpus, chain)
        sizes = np.bincount(chain["z"], minlength=len(phi))
        documents, words, counts = self.pairs
        chance = np.einsum("pk,pk->p", theta[documents, :-1], phi.T[words]) + theta[documents, -1] / corpus.n_words
        values = {
            "n_topics": len(phi),
            "n_large": int((sizes >= _LARGE * corpus.n_tokens).sum()),
            "log_words": topic_process.log_words(corpus, chain),
            "log_word": counts @ np.log(chance) / counts.sum(),
            **{name: float(chain[name]) for name in ("alpha", "gamma", "beta")},
        }
        for name in _recorded(self.prior):
            now[f"draw_{name}"][draw] = values[name]
        if draw % max(1, draws // _MEANS) == 0:
            self._sum(now, chain, phi, theta, sizes)
        room = max(1, min(_KEPT, draws, _KEPT_CELLS // (len(phi) * corpus.n_words)))
        kept = int(now["kept"])
        if kept < room and (draw + 1) * room >= (kept + 1) * draws:
            rng = np.random.default_rng([*chain["seed"].tolist(), int(chain["sweep"]), 1])
            every, prior, known = topic_process.given(corpus, chain, rng)
            now[f"kept_phi_{kept}"], now[f"kept_alpha_{kept}"] = every.astype(np.float32), prior.alpha
            now[f"kept_beta_{kept}"], now[f"kept_size_{kept}"] = np.array(prior.beta), known
            now["kept"] = np.array(kept + 1)

    def _sum(self, now: dict[str, Any], chain: Arrays, phi: np.ndarray, theta: np.ndarray, sizes: np.ndarray) -> None:
        """Add this draw's topics to the sums of the topics they are matched with."""
        beta = float(chain["beta"])
        # Match by counts of words: the prior's contribution would make all small topics alike.
        counts = np.maximum(phi * (sizes + beta * self.corpus.n_words)[:, None] - beta, 0)
        large = np.flatnonzero(sizes >= _LARGE * self.corpus.n_tokens)
        slot, n_known = np.full(len(phi), -1), len(now["there"])
        slot[large] = paired(_shares(now["counts"]), _shares(counts[large]))
        new = large[slot[large] < 0][: max(0, _MOST_SEEN - n_known)]
        slot[new] = n_known + np.arange(len(new))
        extra, present = len(new), np.flatnonzero(slot >= 0)
        now["there"] = np.append(now["there"], np.zeros(extra, int))
        now["share"] = np.append(now["share"], np.zeros(extra))
        for name, axis in (("phi", 0), ("phi_square", 0), ("counts", 0), ("theta", 1), ("theta_square", 1)):
            width = [(0, extra if a == axis else 0) for a in (0, 1)]
            now[name] = np.pad(now[name], width)
        at = slot[present]
        now["there"][at] += 1
        now["share"][at] += sizes[present] / self.corpus.n_tokens
        now["counts"][at] += counts[present]
        of_topic = sizes[present] + beta * self.corpus.n_words
        of_document = self.corpus.lengths + float(chain["alpha"])
        for name, mean, size, index in (
            ("phi", phi[present], of_topic[:, None], np.s_[at]),
            ("theta", theta[:, present], of_document[:, None], np.s_[:, at]),
        ):
            now[name][index] += mean
            now[f"{name}_square"][index] += mean * (mean * size + 1) / (size + 1)
        now["summed"] = now["summed"] + 1


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1e-300)


def paired(reference: np.ndarray, other: np.ndarray) -> np.ndarray:
    """For each topic of ``other`` the index of its match in ``reference``, or -1; one to one, by affinity."""
    out = np.full(len(other), -1)
    if not len(reference):
        return out
    likeness = np.minimum(np.sqrt(other) @ np.sqrt(reference).T, 1.0)
    rows, columns = linear_sum_assignment(-likeness)
    same = likeness[rows, columns] >= SAME
    out[rows[same]] = columns[same]
    return out


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
    names = _recorded(sampler.prior)
    drawn = {name: np.stack([s[f"draw_{name}"][:length] for s in each]) for name in names}
    drawn |= {name: drawn[name].astype(np.int64) for name in ("n_topics", "n_large")}
    best = int(np.argmax(drawn["log_word"].mean(axis=1)))
    group, likeness, words = _reported(each, best, documents)
    kept = _kept(each, group["phi"][1], words)
    notes = [_number(drawn["n_topics"]), *topics_note(list(chains), likeness, best)]
    groups: dict[str, Any] = {"topics": group, "topic_draws": kept}
    if apart is not None:
        groups["held_out"] = held_out_group(apart, kept)
        notes.append(held_out_note(groups["held_out"]))
    return GibbsDraws(drawn, {}, groups, tuple(notes))


def _reported(each: list[Arrays], best: int, documents: Documents) -> tuple[dict[str, Any], np.ndarray, np.ndarray]:
    """Reported topics, as means over the best chain's draws; affinity of each chain's nearest topic; their words."""
    state = each[best]
    summed, there = int(state["summed"]), state["there"]
    reported = np.flatnonzero(there >= THERE * summed)
    share = state["share"] / summed
    reported = reported[np.argsort(-share[reported], kind="stable")]
    phi = state["phi"][reported] / there[reported][:, None]
    theta = state["theta"][:, reported] / summed
    phi_square = state["phi_square"][reported] / there[reported][:, None]
    theta_square = state["theta_square"][:, reported] / summed
    words = _shares(state["counts"][reported])
    likeness = np.zeros((len(each), len(reported)))
    for c, other in enumerate(each):
        frequent = other["there"] >= THERE * int(other["summed"])
        alike = np.minimum(np.sqrt(words) @ np.sqrt(_shares(other["counts"][frequent])).T, 1.0)
        rows, columns = linear_sum_assignment(-alike)
        likeness[c, rows] = alike[rows, columns]
    group: dict[str, Any] = {
        "phi": (("topic", "word"), phi),
        "phi_sd": (("topic", "word"), np.sqrt(np.maximum(phi_square - phi**2, 0))),
        "theta": ((documents.dim, "topic"), theta),
        "theta_sd": ((documents.dim, "topic"), np.sqrt(np.maximum(theta_square - theta**2, 0))),
        "share": (("topic",), share[reported]),
        "there": (("topic",), there[reported] / summed),
        "likeness": (("chain", "topic"), likeness),
        "word_share": (("word",), documents.word_shares),
        "n_words": ((documents.dim,), documents.corpus.lengths),
    }
    return group, likeness, words


def _kept(each: list[Arrays], reported: np.ndarray, words: np.ndarray) -> dict[str, Any]:
    """Some draws of every chain: the reported topics first, then the others, padded with topics of zero weight."""
    phi, alpha, size, beta, chain = [], [], [], [], []
    for c, state in enumerate(each):
        for i in range(int(state["kept"])):
            topics, weight, known = (state[f"kept_{name}_{i}"] for name in ("phi", "alpha", "size"))
            b = float(state[f"kept_beta_{i}"])
            slot = paired(words, _shares(np.maximum(np.rint(topics * known[:, None] - b), 0)))
            at = np.flatnonzero(slot >= 0)
            others = np.setdiff1d(np.arange(len(topics)), at)
            mine, share, whole = reported.astype(np.float32), np.full(len(reported), _NONE), np.ones(len(reported))
            mine[slot[at]], share[slot[at]], whole[slot[at]] = topics[at], weight[at], known[at]
            phi.append(np.vstack([mine, topics[others]]))
            alpha.append(np.append(share, weight[others]))
            size.append(np.append(whole, known[others]))
            beta.append(b)
            chain.append(c)
    most = max(len(a) for a in alpha)
    filled = [np.vstack([p, np.full((most - len(p), p.shape[1]), 1 / p.shape[1], np.float32)]) for p in phi]
    return {
        "phi": (("kept", "topic_of_draw", "word"), np.stack(filled)),
        "size": (("kept", "side", "topic_of_draw"), _level(size, most, 1.0)[:, None]),
        "alpha": (("kept", "topic_of_draw"), _level(alpha, most, _NONE)),
        "beta": (("kept",), np.array(beta)),
        "from_chain": (("kept",), np.array(chain)),
    }


def _level(rows: list[np.ndarray], length: int, filler: float) -> np.ndarray:
    """Pad rows to the same length."""
    return np.stack([np.append(row, np.full(length - len(row), filler)) for row in rows])


def _number(n_topics: np.ndarray) -> Note:
    values, counts = np.unique(n_topics, return_counts=True)
    each = [(n, p) for n, p in zip(values, counts / counts.sum(), strict=True) if p >= 0.005]
    if len(each) > 6:
        low, high = np.quantile(n_topics, [0.055, 0.945], method="nearest")
        return Note("pass", "number", f"{low} to {high} topics have words (89 % of the draws)")
    shown = ", ".join(f"{n}: {p:.2f}" for n, p in each)
    return Note("pass", "number", f"posterior of the number of topics that have words {shown}")
