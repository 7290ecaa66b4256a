"""The regressions of several responses as nodes of one graph."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from bayeslab.errors import ModelError
from bayeslab.families.regression.formulas import Names
from bayeslab.families.regression.joint_effects import JointEffects
from bayeslab.families.regression.lowered import Lowered
from bayeslab.families.regressions.checks import shared_effects
from bayeslab.families.regressions.prefixes import prefixed, renamed, substituted, words
from bayeslab.families.regressions.residuals import Residuals
from bayeslab.families.regressions.spec import Regressions
from bayeslab.families.regressions.written_formulas import formula_texts
from bayeslab.language.expansion import Expansion
from bayeslab.language.expressions import parse
from bayeslab.language.nodes import call_name

__all__ = ["Merged"]


@dataclass
class Merged:
    """The nodes of the regressions added so far.

    Attributes
    ----------
    columns : set of str
        Columns of the data.
    nodes, likelihoods : dict of str to str
        Nodes of the parameters, and of the responses with independent residuals.
    """

    spec: Regressions
    columns: Collection[str]
    nodes: dict[str, str] = field(default_factory=dict)
    likelihoods: dict[str, str] = field(default_factory=dict)
    derive: dict[str, str] = field(default_factory=dict)
    dims: dict[str, Any] = field(default_factory=dict)
    comments: dict[str, str] = field(default_factory=dict)

    def add(self, response: str, alone: Expansion) -> None:
        """Add the regression of one response."""
        each, known = renamed(alone, response, self.columns, self.derive), self._names()
        for key, text in each.nodes.items():
            name = key.split("[")[0]
            if name in known:
                raise ModelError(
                    f"'{name}' would be a part of the regressions of two responses: give predictors with a"
                    " distribution a regression of their own, or rename a column under data.rename",
                    path=("model", "responses", response),
                    code="name-clash",
                )
            (self.likelihoods if name == response else self.nodes)[key] = text
        self._inline()
        self.derive |= each.derive
        self.dims |= each.dims
        self.comments |= each.comments

    def _names(self) -> set[str]:
        return {key.split("[")[0] for key in (*self.nodes, *self.likelihoods)}

    def _inline(self) -> None:
        """Put nodes that are computed from responses where they are used: the draws need no copy of each row."""
        for key, text in list(self.nodes.items()):
            tree = parse(text).tree
            if words(text) & self.spec.responses.keys() and call_name(tree) != "Potential":
                del self.nodes[key]
                parts = {key.split("[")[0]: text if isinstance(tree, ast.Call | ast.Name) else f"({text})"}
                self.nodes = {other: substituted(given, parts) for other, given in self.nodes.items()}
                self.likelihoods = {other: substituted(given, parts) for other, given in self.likelihoods.items()}
                self.comments.pop(key, None)

    def share_effects(self, parts: Mapping[str, Lowered]) -> None:
        """Write group effects that share an id, in place of independent ones."""
        for (group, id_), terms in shared_effects(self.spec).items():
            sds: list[str] = []
            effects: list[str] = []
            places: list[tuple[str, str, int]] = []
            for response, parameter, _ in terms:
                predictor = next(p for p in parts[response].predictors if p.names.parameter == parameter)
                names = next(each.effects for each in predictor.design.groups if each.name == group)
                label = Names(parameter).group(group)
                sd = prefixed(f"sd_{label}", response)
                sds += [sd] if len(names) == 1 else [f"{sd}[{name!r}]" for name in names]
                effects += [":".join(part for part in (response, parameter, name) if part) for name in names]
                places.append((response, label, len(names)))
            joint, at = JointEffects(group, id_, effects, sds), 0
            self.nodes |= joint.nodes(self.spec.shared_priors.get(f"corr_{joint.label}", "2"))
            self.dims |= joint.dims()
            axes = {key.split("[")[0]: key for key in self.nodes}
            self.comments |= {axes[name]: text for name, text in joint.comments().items()}
            for response, label, count in places:
                del self.nodes[axes[prefixed(f"_raw_{label}", response)]]
                key = axes[prefixed(f"u_{label}", response)]
                del self.nodes[key]  # to stand below the joint effects
                self.nodes[key] = joint.part(at, count, prefixed(f"{label}_effect", response))
                at += count

    def expansion(self, given: Mapping[str, str] | None = None) -> Expansion:
        """The model of all responses.

        Parameters
        ----------
        given
            Expressions for predictors that are responses, by response; default: the responses themselves.
        """
        nodes = {key: substituted(text, given or {}) for key, text in self.nodes.items()}
        likelihoods = {key: substituted(text, given or {}) for key, text in self.likelihoods.items()}
        dims, comments = dict(self.dims), dict(self.comments)
        if self.spec.residuals:
            residuals = Residuals(self.spec, likelihoods)
            gone = {prefixed("nu", name) for name in residuals.names} if residuals.student else set()
            nodes = {key: text for key, text in nodes.items() if key not in gone} | residuals.nodes()
            likelihoods = residuals.likelihoods()
            dims, comments = dims | residuals.dims(), comments | residuals.comments()
        texts = [text for each in self.spec.responses.values() for text in formula_texts(each)]
        about = (
            f"The regressions {'; '.join(texts)}\nwritten out in the model language. The parts of each have its"
            " response before their names. Default priors stand here as numbers, scaled to the data."
        )
        return Expansion(nodes | likelihoods, self.derive, dims, comments, about)
