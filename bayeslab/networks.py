"""Bayes nets: queries, interventions, samples, drawings and files."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import networkx as nx
import numpy as np

from bayeslab.arrays import count
from bayeslab.data.tables import read_dataset
from bayeslab.errors import EvidenceError, ModelError, OptionError, hint
from bayeslab.families import bayes_net
from bayeslab.families.bayes_net import spec
from bayeslab.families.bayes_net.net import codes_from, state_words
from bayeslab.families.bayes_net.posterior import BayesNetPosterior
from bayeslab.families.bayes_net.spec import BayesNet
from bayeslab.families.markov_random_field.posterior import FieldPosterior
from bayeslab.families.markov_random_field.spec import MarkovRandomField
from bayeslab.formats.network_files import is_network_file, read_network, write_network
from bayeslab.language import model_file
from bayeslab.language.model_file import save
from bayeslab.language.spec import DataSource, Model
from bayeslab.latents.networks import belief_propagation, sampling, sensitivity, strong_junction_tree
from bayeslab.latents.networks.factors import FactorGraph
from bayeslab.latents.networks.joint_table import JointTable, is_small
from bayeslab.latents.networks.junction_tree import JunctionTree
from bayeslab.latents.networks.mixed_network import MixedNetwork, draws
from bayeslab.latents.networks.network import DiscreteNetwork
from bayeslab.latents.networks.sampling import forward_sample
from bayeslab.memory import require_memory
from bayeslab.plots.network_svg import network_svg
from bayeslab.preparation import Declaring, Source
from bayeslab.questions import check_evidence, names_of
from bayeslab.results.render import image
from bayeslab.running import opened
from bayeslab.streams import stream
from bayeslab.structure import causal, dag

if TYPE_CHECKING:
    import pandas as pd

    from bayeslab.decisions.influence import InfluenceDiagram
    from bayeslab.latents.networks.network_answers import Explanation

__all__ = ["Network", "Query", "decisions", "network", "network_or_decisions"]

type Plain = DiscreteNetwork | FactorGraph | MixedNetwork


def network(source: Any) -> Network:
    """A network for queries, from a file, a model, a fit or plain data.

    Parameters
    ----------
    source
        The path of a network file (BIF, XMLBIF, XDSL, NET, DSC, UAI) or of a model file of the family
        ``bayes_net`` or ``markov_random_field`` (with its evidence); a :class:`bayeslab.Model` of these families; a fit
        of such a model, or its run folder, with parameters at their posterior means; or plain data
        (:class:`~bayeslab.latents.networks.network.DiscreteNetwork` and its kin).

    Raises
    ------
    ModelError
        The file or the model has an error, whose place is given, or a table is unknown because nothing was fitted.
    """
    if isinstance(source, Network):
        return source
    if isinstance(source, DiscreteNetwork | FactorGraph | MixedNetwork):
        return Network(source)

    if isinstance(source, str | os.PathLike):
        return _from_path(source)
    if isinstance(source, Model):
        return Network(_plain(source))
    if hasattr(source, "posterior") and hasattr(source, "model"):
        return Network(_fitted(source))
    raise ModelError(
        f"a network is a path, a model, a fit or plain data, not {type(source).__name__}", code="wrong-type"
    )


def _from_path(path: str | os.PathLike[str]) -> Network:

    file = Path(path)
    if (file / "run.json").exists():
        return Network(_fitted(opened(file)))
    if is_network_file(file):
        return Network(read_network(file))
    return _of_file(model_file.read(file), file)


def _of_file(file: model_file.Source, path: str | os.PathLike[str]) -> Network:
    if isinstance(file.model.model, MarkovRandomField):
        return Network(_plain(path))
    with file.located():
        return Network(_plain(file.model))


def _plain(model: Any) -> Plain:
    source = Source(model)
    if isinstance(source.model.model, MarkovRandomField):
        with source.located():
            posterior = source.posterior(None)
            assert isinstance(posterior, FieldPosterior)
            return posterior.plain()
    if not isinstance(model.model, spec.BayesNet):
        raise ModelError(
            f"a network is of the family bayes_net; this model is of the family {model.model.family}",
            code="other-family",
        )
    return bayes_net.plain(model)


def _fitted(fit: Any) -> Plain:
    if isinstance(fit.bound_model, FieldPosterior):
        return fit.bound_model.plain()
    if not isinstance(fit.bound_model, BayesNetPosterior):
        raise ModelError(
            f"a network is of the family bayes_net; this fit is of the family {fit.model.model.family}",
            code="other-family",
        )
    if fit.has_group("parent_sets"):
        raise ModelError(
            "this fit has many structures, not one network: fit.structures.query averages over them, and"
            " fit.structures.network(chain, draw) is one of them",
            code="several-structures",
        )
    means = {str(name): np.asarray(v.mean(("chain", "draw"))) for name, v in fit.posterior.data_vars.items()}
    if fit.has_group("exact_posterior"):
        exact = fit.data_tree.children["exact_posterior"].to_dataset().sel(statistic="mean")
        means |= {str(name): np.asarray(v) for name, v in exact.data_vars.items()}
    return fit.bound_model.plain(means)


@dataclass(frozen=True, eq=False)
class Query:
    """Posterior distributions of the variables of a network.

    Attributes
    ----------
    evidence : mapping
        The observed states and values.
    log_evidence : float
        Log probability of the evidence (log density, if it includes a continuous variable). For a factor
        graph, the log of the normalising constant under the evidence.
    marginals : mapping of str to mapping of str to float
        Probability of each state of every discrete target.
    continuous : mapping of str to NormalMixture
        Posterior of every continuous target, with mean, sd and quantiles.
    errors : mapping of str to mapping of str to float
        Monte Carlo standard errors of the probabilities, for approximate answers.
    """

    graph: nx.DiGraph
    evidence: Mapping[str, Any]
    log_evidence: float
    marginals: Mapping[str, Mapping[str, float]]
    continuous: Mapping[str, Any]
    errors: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def __getitem__(self, variable: str) -> Any:
        """The posterior of one variable."""
        known = {**self.marginals, **self.continuous}
        if variable not in known:
            raise EvidenceError(
                f"'{variable}' is not a target of this query{hint(variable, known)}", code="unknown-variable"
            )
        return known[variable]

    def __contains__(self, variable: object) -> bool:
        return variable in self.marginals or variable in self.continuous

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __len__(self) -> int:
        return len(self.marginals) + len(self.continuous)

    def keys(self) -> tuple[str, ...]:
        """The targets: discrete variables, then continuous ones."""
        return (*self.marginals, *self.continuous)

    def to_frame(self) -> pd.DataFrame:
        """A table with one row per state: variable, state, probability; for continuous variables mean and sd."""
        import pandas as pd

        rows: list[dict[str, Any]] = [
            {"variable": v, "state": s, "probability": p} | ({"error": self.errors[v][s]} if v in self.errors else {})
            for v, distribution in self.marginals.items()
            for s, p in distribution.items()
        ]
        rows += [{"variable": v, "mean": float(m.mean), "sd": float(m.sd)} for v, m in self.continuous.items()]
        return pd.DataFrame(rows)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: ``{"evidence": ..., "log_evidence": ..., "marginals": ...}``."""
        out: dict[str, Any] = {
            "evidence": {v: s if isinstance(s, Mapping | int | float) else str(s) for v, s in self.evidence.items()},
            "log_evidence": float(self.log_evidence),
            "marginals": {v: dict(distribution) for v, distribution in self.marginals.items()},
        }
        if self.errors:
            out["errors"] = {v: dict(errors) for v, errors in self.errors.items()}
        if self.continuous:
            out["continuous"] = {
                v: {
                    "mean": float(m.mean),
                    "sd": float(m.sd),
                    "components": [
                        {"weight": float(w), "mean": float(a), "sd": float(s)}
                        for w, a, s in zip(m.weights, m.means, m.sds, strict=True)
                    ],
                }
                for v, m in self.continuous.items()
            }
        return out

    def __repr__(self) -> str:
        wide = max((len(v) for v in (*self.marginals, *self.continuous)), default=0)
        lines = [f"log evidence {self.log_evidence:.6g}"] if self.evidence and np.isfinite(self.log_evidence) else []
        for v, distribution in self.marginals.items():
            lines.append(f"{v:<{wide}}  " + "  ".join(f"{s} {p:.4g}" for s, p in distribution.items()))
        lines += [f"{v:<{wide}}  mean {m.mean:.4g}  sd {m.sd:.4g}" for v, m in self.continuous.items()]
        return "\n".join(lines)

    def svg(self) -> str:
        """A drawing of the network with the probabilities in its nodes, as SVG text."""

        return network_svg(self.graph, self.marginals, self.evidence, self.continuous)

    def _repr_html_(self) -> str:
        return image(self.svg(), f"network of {', '.join(self.graph)}"[:200])


@dataclass(frozen=True, eq=False)
class Network(Declaring):
    """A Bayes net or factor graph that answers queries.

    Attributes
    ----------
    plain : DiscreteNetwork, MixedNetwork or FactorGraph
        States, parents and tables.
    """

    plain: Plain

    # -- structure and tables

    @property
    def name(self) -> str:
        return self.plain.name

    @property
    def graph(self) -> Any:
        """The structure: a ``networkx.DiGraph``, or the ``networkx.Graph`` of a factor graph."""
        return self.plain.graph

    @property
    def states(self) -> Mapping[str, tuple[str, ...]]:
        """The states of each discrete variable, in order."""
        return dict(self.plain.states)

    @property
    def variables(self) -> tuple[str, ...]:
        more = self.plain.continuous if isinstance(self.plain, MixedNetwork) else ()
        return (*self.plain.states, *more)

    def __repr__(self) -> str:
        edges = self.graph.number_of_edges()
        free = f", {self.plain.n_parameters:,} parameters" if not isinstance(self.plain, FactorGraph) else ""
        return f"<Network '{self.name}': {len(self.variables)} variables, {edges} edges{free}>"

    def _repr_html_(self) -> str:
        return self.query()._repr_html_()

    @cached_property
    def tree(self) -> JunctionTree:
        """The compiled junction tree of a discrete network."""

        return JunctionTree.of(self._discrete("a junction tree"))

    @cached_property
    def _solver(self) -> JointTable | JunctionTree:
        """The solver of one query: for a small network its joint table, which needs no compiled code, else the tree."""

        model = self._discrete("exact inference by tables")
        return JointTable(model) if is_small(model) else self.tree

    def _discrete(self, what: str) -> DiscreteNetwork | FactorGraph:
        if isinstance(self.plain, MixedNetwork):
            if self.plain.continuous:
                raise OptionError(f"{what} is for networks without continuous variables", code="continuous")
            return DiscreteNetwork(self.plain.states, self.plain.parents, self.plain.tables, self.plain.name)
        return self.plain

    def _directed(self, what: str) -> DiscreteNetwork:
        discrete = self._discrete(what)
        if isinstance(discrete, FactorGraph):
            raise OptionError(f"{what} is for directed networks", code="not-applicable")
        return discrete

    def cpt(self, variable: str) -> pd.DataFrame:
        """The conditional distribution of a variable given its parents.

        Parameters
        ----------
        variable
            Discrete or continuous.

        Returns
        -------
        pandas.DataFrame
            One row for each configuration of the discrete parents. Columns of a discrete variable: the probabilities of
            its states, which sum to one. Columns of a continuous variable: ``intercept``, a slope for each continuous
            parent, and ``sd``.

        Raises
        ------
        EvidenceError
            The variable is unknown.
        OptionError
            The network is a factor graph, which has no conditional distributions.

        Examples
        --------
        >>> import bayeslab as bl
        >>> rain = bl.BayesNet(
        ...     variables={
        ...         "rain": {"states": ["no", "yes"], "table": [0.8, 0.2]},
        ...         "wet": {"states": ["no", "yes"], "parents": ["rain"], "table": [[0.9, 0.1], [0.05, 0.95]]},
        ...     }
        ... )
        >>> print(bl.network(bl.Model(name="rain", model=rain)).cpt("wet"))
                no   yes
        rain
        no    0.90  0.10
        yes   0.05  0.95
        """
        import pandas as pd

        plain = self.plain
        if isinstance(plain, FactorGraph):
            raise OptionError("conditional distributions need a directed network", code="not-applicable")
        if variable not in self.variables:
            raise EvidenceError(
                f"'{variable}' is not a variable of the network{hint(str(variable), self.variables)}",
                code="unknown-variable",
            )
        if isinstance(plain, MixedNetwork) and variable in plain.continuous:
            node, above = plain.continuous[variable], plain.discrete_parents(variable)
            columns = ["intercept", *plain.continuous_parents(variable), "sd"]
            values = np.concatenate([node.intercept[..., None], node.slopes, node.sd[..., None]], axis=-1)
        else:
            above, columns = plain.parents[variable], list(plain.states[variable])
            values = plain.tables[variable]
        rows = [plain.states[parent] for parent in above]
        index = pd.Index([variable])
        if len(rows) == 1:
            index = pd.Index(rows[0], name=above[0])
        elif rows:
            index = pd.MultiIndex.from_product(rows, names=list(above))
        return pd.DataFrame(values.reshape(-1, len(columns)), index=index, columns=columns)

    # -- queries

    def query(
        self,
        given: Mapping[str, Any] | None = None,
        targets: Iterable[str] | None = None,
        *,
        believed: Mapping[str, Mapping[str, float]] | None = None,
    ) -> Query:
        """Posterior marginals.

        Parameters
        ----------
        given
            The evidence: for each observed variable its state (or value, if continuous), or
            ``{state: likelihood}`` for virtual evidence.
        targets
            The variables whose posteriors are returned; None: all.
        believed
            Soft evidence (Jeffrey's rule): ``{variable: {state: probability}}``, the marginals that the
            posterior must have. Of all distributions with these marginals, the one closest to the network is taken.

        Raises
        ------
        EvidenceError
            An unknown variable or state, or evidence of probability zero.
        EngineRefusal
            Exact inference would not fit into memory.
        """
        check_evidence(given)
        check_evidence(believed, "believed", "probabilities of their states")
        for variable, belief in (believed or {}).items():
            check_evidence(belief, f"believed['{variable}']", "probabilities")
        wanted = None if targets is None else names_of(targets)
        if isinstance(self.plain, MixedNetwork) and self.plain.continuous:
            if believed:
                raise OptionError("soft evidence is for networks without continuous variables", code="continuous")

            mixed = strong_junction_tree.query(self.plain, given, wanted)
            return self._answer(given, mixed.log_evidence, mixed.discrete, mixed.continuous)
        posterior = self.tree.query(given, wanted, believed) if believed else self._solver.query(given, wanted)
        evidence = dict(given or {}) | {v: dict(b) for v, b in (believed or {}).items()}
        return self._answer(evidence, posterior.log_evidence, posterior.marginals, {})

    def approximate(
        self,
        given: Mapping[str, Any] | None = None,
        targets: Iterable[str] | None = None,
        *,
        method: Literal["likelihood_weighting", "gibbs", "loopy"] = "likelihood_weighting",
        draws: int = 100_000,
        seed: int | None = None,
    ) -> Query:
        """Approximate posterior marginals, for networks where exact inference is too costly.

        Parameters
        ----------
        method
            ``likelihood_weighting``: independent weighted draws, accurate unless the evidence is very
            improbable. ``gibbs``: four chains, accurate unless a table is nearly deterministic. ``loopy``:
            loopy belief propagation, without an error estimate.
        draws
            Number of weighted draws, or of Gibbs steps of all chains together.

        Returns
        -------
        Query
            With ``errors``, the Monte Carlo standard errors of the probabilities. A warning is given where
            they are not reliable.
        """

        check_evidence(given)
        wanted = list(self.states) if targets is None else names_of(targets)
        rng, discrete = stream(seed, "query"), self._discrete("approximate inference")
        errors: Mapping[str, np.ndarray] = {}
        if method == "likelihood_weighting":
            rows = sampling.likelihood_weighting(self._directed("likelihood weighting"), given, draws, rng)
            marginals, errors, log_evidence = rows.marginals, rows.standard_errors, rows.log_evidence
            if rows.effective_sample_size < 100:
                warnings.warn(
                    f"the effective sample size of {draws:,} weighted rows is {rows.effective_sample_size:.0f}: the"
                    f" evidence is too improbable for likelihood weighting; raise draws or use method='gibbs'",
                    stacklevel=2,
                )
        elif method == "gibbs":
            chains = sampling.gibbs(discrete, given, n=max(draws // 4, 4), warmup=max(draws // 8, 1), rng=rng)
            marginals, errors, log_evidence = chains.marginals, chains.standard_errors, float("nan")
            if not chains.worst_r_hat < 1.05:
                warnings.warn(
                    f"the chains have not converged (worst R-hat {chains.worst_r_hat:.3g}): raise draws, or use"
                    f" method='likelihood_weighting'",
                    stacklevel=2,
                )
        elif method == "loopy":
            beliefs = belief_propagation.loopy(discrete, given)
            marginals, log_evidence = beliefs.marginals, beliefs.bethe_log_evidence
            if not beliefs.converged:
                warnings.warn("loopy belief propagation did not converge: do not use its result", stacklevel=2)
        else:
            raise OptionError(f"method is likelihood_weighting, gibbs or loopy, not {method!r}", code="unknown-word")
        for v in wanted:
            if v not in self.states:
                raise EvidenceError(f"'{v}' is not a variable{hint(v, self.states)}", code="unknown-variable")
        answer = self._answer(given, log_evidence, {v: marginals[v] for v in wanted}, {})
        named = {v: dict(zip(self.states[v], map(float, errors[v]), strict=True)) for v in wanted if v in errors}
        return replace(answer, errors=named)

    def _answer(self, given: Any, log_evidence: float, marginals: Mapping[str, np.ndarray], more: Any) -> Query:
        named = {v: dict(zip(self.states[v], map(float, p), strict=True)) for v, p in marginals.items()}
        return Query(self.graph, dict(given or {}), float(log_evidence), named, dict(more))

    def query_many(self, table: Any, targets: Iterable[str] | None = None) -> pd.DataFrame:
        """Posteriors for every row of a table of evidence; empty cells are unobserved.

        Returns
        -------
        DataFrame
            ``log_evidence`` and a column ``P(variable=state)`` for each state of every target (default:
            every variable that is unobserved in some row); NaN in rows whose evidence has probability zero. The index
            is the table's.
        """
        import pandas as pd

        codes = self.codes(table)
        missing = [v for k, v in enumerate(self.states) if np.any(codes[:, k] < 0)]
        wanted = missing if targets is None else names_of(targets)
        small = isinstance(self._solver, JointTable) and is_small(self._solver.model, len(codes))
        posterior = (self._solver if small else self.tree).query_many(codes, wanted)
        columns = {"log_evidence": posterior.log_evidence}
        for v in wanted:
            columns |= {f"P({v}={s})": posterior.marginals[v][:, i] for i, s in enumerate(self.states[v])}
        return pd.DataFrame(columns, index=table.index if isinstance(table, pd.DataFrame) else None)

    def codes(self, table: Any) -> np.ndarray:
        """A table of states as integer codes, shape (rows, variables); -1 for unobserved cells."""
        columns = read_dataset(DataSource(), None, table, state_words(self.states)).complete().columns
        for name in columns:
            if name in self.variables and name not in self.states:
                raise OptionError(
                    f"a table of evidence holds states, and '{name}' is continuous: query row by row",
                    code="not-applicable",
                )
            if name not in self.states:
                raise EvidenceError(
                    f"column '{name}' is not a variable{hint(name, self.states)}", code="unknown-variable"
                )
        n_rows = len(next(iter(columns.values())).values)
        return codes_from(self.states, columns, n_rows)

    def joint(self, targets: Sequence[str], given: Mapping[str, Any] | None = None) -> Any:
        """Posterior joint distribution of several variables, as a labelled ``xarray.DataArray``."""
        import xarray as xr

        check_evidence(given)
        names = names_of(targets)
        values = self._solver.joint(names, given)
        return xr.DataArray(values, dims=names, coords={v: list(self.states[v]) for v in names})

    def most_probable(self, given: Mapping[str, Any] | None = None, k: int = 1) -> list[Explanation]:
        """The ``k`` most probable joint states of all unobserved variables, best first."""
        check_evidence(given)
        return self._solver.most_probable(given, count(k, "k", 1))

    def marginal_map(self, targets: Sequence[str], given: Mapping[str, Any] | None = None) -> Explanation:
        """The most probable joint state of the targets, with all other variables summed out."""
        check_evidence(given)
        return self._solver.marginal_map(names_of(targets), given)

    def sample(self, n: int, *, given: Mapping[str, Any] | None = None, seed: int | None = None) -> pd.DataFrame:
        """Independent draws of all variables, given evidence if any; one column of states (or numbers) per variable."""
        import pandas as pd

        n = count(n, "n")
        check_evidence(given)
        require_memory(
            8 * n * len(self.variables), f"n = {n:,} draws of {len(self.variables)} variables", "ask for fewer"
        )
        rng = np.random.default_rng(None if seed is None else count(seed, "seed"))
        if isinstance(self.plain, MixedNetwork) and self.plain.continuous:
            if given:
                raise OptionError(
                    "draws given evidence are for networks without continuous variables", code="not-applicable"
                )

            codes, values = draws(self.plain, rng, n)
            more = {v: values[:, k] for k, v in enumerate(self.plain.continuous)}
        else:
            more = {}
            if given or isinstance(self.plain, FactorGraph):
                codes = self.tree.sample(n, rng, given)
            else:
                codes = forward_sample(self._directed("forward sampling"), n, rng)
        named = {
            v: pd.Categorical.from_codes(codes[:, k].astype(np.int64), pd.Index(s))
            for k, (v, s) in enumerate(self.states.items())
        }
        return pd.DataFrame({v: named[v] if v in named else more[v] for v in self.variables})

    # -- independence

    def d_separated(self, x: str | Iterable[str], y: str | Iterable[str], given: str | Iterable[str] = ()) -> bool:
        """Whether ``x`` and ``y`` are d-separated by ``given``, and therefore independent given these variables."""

        return dag.d_separated(self._structure(), x, y, given)

    def open_path(self, x: str | Iterable[str], y: str | Iterable[str], given: str | Iterable[str] = ()) -> Any:
        """A path that d-connects ``x`` and ``y`` given ``given``; None if there is none."""

        return dag.open_path(self._structure(), x, y, given)

    def markov_blanket(self, variable: str) -> frozenset[str]:
        """The Markov blanket of a variable: its parents, its children and the children's other parents."""

        return dag.markov_blanket(self._structure(), variable)

    def _structure(self) -> nx.DiGraph:
        if isinstance(self.plain, FactorGraph):
            raise OptionError(
                "d-separation and Markov blankets need a directed network; see `.graph`", code="not-a-graph"
            )
        return self.plain.graph

    def moral_graph(self) -> nx.Graph:
        """The moral graph: undirected, with parents of a common child joined; for a factor graph its Markov graph."""
        return self.plain.graph if isinstance(self.plain, FactorGraph) else dag.moral_graph(self.plain.graph)

    def separator(self, x: str, y: str) -> frozenset[str] | None:
        """A minimal set of variables given which ``x`` and ``y`` are d-separated; None if they are adjacent.

        References
        ----------
        van der Zander, Liskiewicz (2020). Finding minimal d-separators in linear time and applications. UAI.
        """
        return dag.separator(self._structure(), x, y)

    # -- causes

    def do(self, actions: Mapping[str, Any]) -> Network:
        """The network under an intervention, which fixes variables and cuts the edges from their parents."""
        check_evidence(actions, "actions")
        if isinstance(self.plain, MixedNetwork):
            return Network(self.plain.do(actions))

        return Network(causal.intervene(self._directed("do"), actions))

    def average_effect(self, treatment: str, outcome: str, **options: Any) -> float:
        """The average causal effect: the difference of the outcome's means under two settings of the treatment.

        See :func:`bayeslab.structure.causal.average_effect` for ``values`` and ``contrast``.
        """

        return causal.average_effect(self._directed("an average effect"), treatment, outcome, **options)

    def adjustment_sets(
        self, treatment: str, outcome: str, observed: Iterable[str] | None = None
    ) -> list[frozenset[str]]:
        """Minimal sets that satisfy the back-door criterion; adjusting for any one identifies the causal effect."""

        return list(causal.back_door_sets(self._structure(), treatment, outcome, observed))

    # -- sensitivity

    def sensitivity(self, target: Mapping[str, str], given: Mapping[str, Any] | None = None) -> Any:
        """Sensitivity functions of P(target | given), one for each table entry, largest derivative first."""
        check_evidence(target, "target")
        check_evidence(given)
        return sensitivity.sensitivity(self._directed("sensitivity analysis"), target, given)

    def evidence_influence(self, target: Mapping[str, str], given: Mapping[str, Any]) -> Any:
        """The influence of each item of evidence on P(target | given), largest first."""
        check_evidence(target, "target")
        check_evidence(given)
        return sensitivity.evidence_influence(self._directed("influence of evidence"), target, given)

    def information_value(
        self, target: str, given: Mapping[str, Any] | None = None, candidates: Iterable[str] | None = None
    ) -> Any:
        """The expected information of each candidate variable about the target, in bits: what to observe next."""
        check_evidence(given)
        names = None if candidates is None else names_of(candidates, "candidates")
        return sensitivity.information_value(self._directed("the value of information"), target, given, names)

    # -- files

    def write(self, path: str | os.PathLike[str]) -> list[str]:
        """Write a network file in the format of the path's ending; return notes on what the format cannot hold."""

        if isinstance(self.plain, MixedNetwork) and self.plain.continuous:
            raise OptionError("network files hold discrete variables; save the model file instead", code="continuous")
        return write_network(self._discrete("a network file"), path)

    def model(self) -> Model:
        """The network as a model of the family ``bayes_net`` with every table fixed."""

        plain = self.plain
        if isinstance(plain, FactorGraph):
            raise OptionError("a model file needs a directed network", code="not-applicable")
        variables: dict[str, dict[str, Any]] = {
            v: {"states": list(s), "parents": list(plain.parents[v]), "table": plain.tables[v].tolist()}
            for v, s in plain.states.items()
        }
        if isinstance(plain, MixedNetwork):
            for v, node in plain.continuous.items():
                slopes = {p: node.slopes[..., k].tolist() for k, p in enumerate(plain.continuous_parents(v))}
                normal = {"intercept": node.intercept.tolist(), "sd": node.sd.tolist(), "slopes": slopes}
                variables[v] = {"parents": list(node.parents), "linear_gaussian": normal}
        return self._model_of(variables)

    def unfitted(self) -> Model:
        """The network's structure as a model of the family ``bayes_net`` whose distributions are all to be learned.

        :func:`bayeslab.fit` of a network fits this model.

        Raises
        ------
        OptionError
            The network is a factor graph.
        """
        plain = self.plain
        if isinstance(plain, FactorGraph):
            raise OptionError("tables to be learned need a directed network", code="not-applicable")
        variables: dict[str, dict[str, Any]] = {
            v: {"states": list(s), "parents": list(plain.parents[v])} for v, s in plain.states.items()
        }
        if isinstance(plain, MixedNetwork):
            for v, node in plain.continuous.items():
                variables[v] = {"parents": list(node.parents), "linear_gaussian": {}}
        return self._model_of(variables)

    def _model_of(self, variables: dict[str, dict[str, Any]]) -> Model:
        name = re.sub(r"[^\w .-]", " ", self.plain.name).strip(" .-")[:80] or "network"
        return Model(name=name, model=BayesNet(variables=cast(Any, variables)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network as a model file (.yaml or .yml); for other formats see :meth:`write`."""
        ending = os.path.splitext(os.fspath(path))[1]
        if ending.lower() not in (".yaml", ".yml"):
            raise OptionError(
                f"{os.fspath(path)}: a model file ends in .yaml, not '{ending}'; write() is for other formats",
                code="unknown-format",
            )
        save(self.model(), path)


def decisions(source: Any) -> InfluenceDiagram:
    """An influence diagram from a model, for :mod:`bayeslab.decisions.influence`.

    Parameters
    ----------
    source
        The path of a model file of the family ``bayes_net`` with ``decisions`` and ``utilities``, or
        such a :class:`bayeslab.Model`.
    """
    if isinstance(source, Model):
        return bayes_net.diagram(source)
    return _diagram_of_file(model_file.read(source))


def network_or_decisions(source: Any) -> Network | InfluenceDiagram:
    """The influence diagram of a model with decisions; otherwise the network. A model file is read once."""
    if isinstance(source, str | os.PathLike) and not is_network_file(source):
        file = model_file.read(source)
        return _diagram_of_file(file) if _decides(file.model) else _of_file(file, source)
    return decisions(source) if isinstance(source, Model) and _decides(source) else network(source)


def _decides(model: Model) -> bool:
    return isinstance(model.model, BayesNet) and bool(model.model.decisions)


def _diagram_of_file(file: model_file.Source) -> InfluenceDiagram:
    if not isinstance(file.model.model, spec.BayesNet):
        raise ModelError(
            f"an influence diagram is a bayes_net; this model is of the family {file.model.model.family}",
            code="other-family",
        )
    with file.located():
        return bayes_net.diagram(file.model)
