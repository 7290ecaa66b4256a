"""The meaning of each check of a verdict, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["MEANING", "VERDICTS"]

VERDICTS: Mapping[str, str] = MappingProxyType(
    {
        "pass": "the answer can be trusted",
        "warn": "the answer is usable with care",
        "fail": "the answer must not be used",
    }
)

MEANING: Mapping[str, str] = MappingProxyType(
    {
        # Chains
        "R-hat": "Compares the variance between chains with the variance within chains; near 1 if the chains agree.",
        "bulk ESS": "The number of independent draws that would estimate the centre of a quantity as precisely.",
        "tail ESS": "The number of independent draws that would estimate the 5 % and 95 % quantiles as precisely.",
        "divergences": "Steps of NUTS that became inaccurate; the posterior may be unexplored near them.",
        "tree depth": "Whether NUTS stopped trajectories at the largest tree depth.",
        "E-BFMI": "Whether the chains move freely between regions of high and low density.",
        "acceptance": "The share of proposals that the chains accepted.",
        "movement": "Whether the chains move at all.",
        "warm-up": "Whether the chains had converged when warm-up ended.",
        "chains": "Whether there are enough chains to compare.",
        "draws": "Whether there are enough draws to judge convergence.",
        "constant": "Quantities that have the same value in all draws.",
        "finite": "Whether all results are finite numbers.",
        "heavy tails": "Quantities whose posterior has no mean or variance; the table has their median.",
        "exchanges": "How often tempered chains exchanged states.",
        "interrupted": "Whether the run reached its end.",
        "labels": "Exchangeable states, whose labels are arbitrary.",
        "relabelled": "Exchangeable states were relabelled, so that a label means the same state in all draws.",
        "modes": "Whether all chains are in the same mode of the posterior.",
        "ranks": "Whether the ranks of the draws are uniform across chains.",
        # Structures
        "edge R-hat": "R-hat of the indicator of each edge.",
        "edge ESS": "Effective sample size of the indicator of each edge.",
        "agreement": "Whether the chains give each edge the same probability.",
        "score": "Whether the scores of the sampled graphs agree between chains.",
        "exact": "The posterior was computed exactly, not approximated.",
        # Approximations
        "Pareto k": "Whether importance weights are stable: they are not above 0.7.",
        "ELBO": "The evidence lower bound, which variational inference maximises.",
        "reweighting": "Whether draws of the approximation were reweighted to the posterior.",
        "optimum": "Whether the search ended at a maximum.",
        "boundary": "Whether the maximum lies on the boundary of the parameter space.",
        "restarts": "How many starting points led to the same maximum.",
        "start": "The starting point of the search.",
        "monotone": "Whether the objective never fell between iterations, as the theory requires.",
        "convergence": "Whether the iterations converged before their limit.",
        "collapse": "Whether a component collapsed onto a single point.",
        "repaired": "Components that collapsed and were restarted elsewhere.",
        "merged": "Whether two components are equal.",
        "moments": "Whether posterior means and variances exist and were estimated accurately.",
        "standard errors": "Whether the curvature at the maximum is positive definite, so that standard errors exist.",
        "grid": "Whether the grid covers the posterior and is fine enough.",
        "scales": "Whether the scale parameters were integrated out or fixed at their maximum.",
        "messages": "Whether the messages of belief propagation converged.",
        "loops": "Whether the graph has loops, which make belief propagation approximate.",
        "paths": "Whether Pathfinder's optimisation paths reached the posterior.",
        "tails": "Whether the tails of the approximation are as heavy as those of the posterior.",
        "log density": "Whether the log density is finite and smooth at the answer.",
        "evidence": "The log marginal likelihood: the log probability of the data with the parameters integrated out.",
        # Families
        "choice": "A choice made from the data, such as the number of components, and its margin.",
        "components": "The number of components in use.",
        "clusters": "The number of clusters in the posterior.",
        "split-merge": "How often proposals that split or merge clusters were accepted.",
        "concentration": "The concentration parameter, which governs the number of clusters.",
        "truncation": "Whether the maximum number of components is large enough.",
        "unused": "Components to which no row belongs.",
        "states": "The number of hidden states in use.",
        "partition": "The point estimate of the partition.",
        "features": "The number of features in use.",
        "topics": "Whether the topics agree between chains.",
        "held out": "How well held-out documents or rows are predicted.",
        "number": "The number of topics in use.",
        "spreads": "Whether the posterior intervals are too narrow.",
        "sparsity": "The number of parameters that are exactly zero.",
        "support": "Whether draws of the approximation lie where the posterior density is positive.",
        # Learners
        "left out": "How well held-out rows are predicted.",
        "training": "Whether training converged.",
        "training error": "The error on the rows used for training.",
        "fits": "Whether all fits succeeded.",
        "fit": "Whether the fits that are compared can be trusted.",
        "difference": "Whether the best model is better than the next by more than the uncertainty.",
        # Data
        "inputs": "Whether the learner can generalise from the input columns.",
        "levels": "Levels that differ only in case or spaces.",
        "text": "Columns of text that look like numbers.",
        "equal rows": "Rows that occur more than once.",
        "column labels": "Titles of columns in the model file.",
        "column units": "Units of columns in the model file.",
        "missing": "Cells without a value.",
        "prior": "Whether a prior was used, and whether it rather than the data determines a quantity.",
        "parameters": "Whether the number of parameters is known.",
        "probabilities": "Whether a held-out row had the predicted probability 0.",
    }
)
