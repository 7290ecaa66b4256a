"""What each check of a verdict looks at, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["MEANING", "VERDICTS"]

VERDICTS: Mapping[str, str] = MappingProxyType(
    {
        "pass": "the answer can be trusted",
        "warn": "the answer is usable with care",
        "fail": "the answer is not to be used",
    }
)

MEANING: Mapping[str, str] = MappingProxyType(
    {
        # Chains
        "R-hat": "Compares the spread between chains with the spread within them; near 1 if all agree.",
        "bulk ESS": "The number of independent draws that would estimate the centre of each quantity as well.",
        "tail ESS": "The number of independent draws that would estimate the 5 % and 95 % quantiles as well.",
        "divergences": "Steps of NUTS that went astray, near which the posterior was not explored.",
        "tree depth": "Whether NUTS had to stop its paths early.",
        "E-BFMI": "Whether the chains move freely between regions of high and low density.",
        "acceptance": "The share of proposed moves that the chains accepted.",
        "movement": "Whether the chains move at all.",
        "warm-up": "Whether the chains had reached their region before the first draw that is kept.",
        "chains": "Whether there are chains enough to compare.",
        "draws": "Whether there are draws enough to judge.",
        "constant": "Quantities with one value in all draws.",
        "finite": "Whether all results are finite numbers.",
        "heavy tails": "Quantities without a mean or variance, for which the table has the median.",
        "exchanges": "How often tempered chains exchange their states.",
        "interrupted": "Whether the run reached its end.",
        "labels": "Whether exchangeable states kept their labels.",
        "relabelled": "Exchangeable states were matched across the draws.",
        "modes": "Whether the chains agree on one mode.",
        "ranks": "Whether the ranks of the draws are uniform across chains.",
        # Structures
        "edge R-hat": "R-hat of each edge, present or absent.",
        "edge ESS": "The effective number of draws of each edge, present or absent.",
        "agreement": "Whether chains give the edges the same probabilities.",
        "score": "Whether the scores of the graphs agree between chains.",
        "exact": "The posterior was computed, not approximated.",
        # Approximations
        "Pareto k": "Whether importance weights are stable; above 0.7 they are not.",
        "ELBO": "The lower bound of the log evidence that variational inference raises.",
        "reweighting": "Whether draws of the approximation could be reweighted to the posterior.",
        "optimum": "Whether the search ended at a maximum.",
        "boundary": "Whether the maximum lies at the edge of what is allowed.",
        "restarts": "Whether other starting points led to the same maximum.",
        "start": "Where the search began.",
        "monotone": "Whether the objective rose in every iteration, as it must.",
        "convergence": "Whether the iterations ended before their limit.",
        "collapse": "Whether a component shrank to a single point.",
        "repaired": "Components that were moved because they had collapsed.",
        "merged": "Whether two components are the same.",
        "moments": "Whether means and variances are accurate.",
        "standard errors": "Whether the curvature at the maximum gives standard errors.",
        "grid": "Whether the grid covers the posterior, finely enough.",
        "scales": "Whether the integral over the scales is accurate.",
        "messages": "Whether the messages of belief propagation settled.",
        "loops": "Whether the graph has loops, which make belief propagation approximate.",
        "paths": "Whether Pathfinder's paths reached the posterior.",
        "tails": "Whether the approximation has tails as wide as the posterior's.",
        "log density": "Whether the log density is finite and smooth at the answer.",
        "evidence": "The log of the probability that the model gave the data beforehand.",
        # Families
        "choice": "What was chosen before the fit, and by how much.",
        "components": "The components that the fit uses.",
        "clusters": "The number of clusters in the posterior.",
        "split-merge": "How often proposals that split or merge clusters were accepted.",
        "concentration": "The concentration of the process, which governs the number of clusters.",
        "truncation": "Whether the largest number of components that was allowed suffices.",
        "unused": "Components without rows.",
        "states": "The number of hidden states in use.",
        "partition": "The point estimate of the clustering.",
        "features": "The number of features in use.",
        "topics": "Whether the chains found the same topics.",
        "held out": "How well documents or rows that were not used are predicted.",
        "number": "The number of topics in use.",
        "spreads": "The spread of the topics.",
        "sparsity": "How sparse the solution is.",
        "support": "How many rows the solution rests on.",
        # Learners
        "left out": "How well rows are predicted that were left out of training.",
        "training": "Whether training ended as it should.",
        "training error": "The error on the rows used for training.",
        "fits": "Whether all fits succeeded.",
        "fit": "Whether the fits that are compared can be trusted.",
        "difference": "Whether the best model is clearly better than the next.",
        # Data
        "inputs": "Whether the inputs are as the method expects.",
        "levels": "Levels that differ only in capitals or spaces.",
        "text": "Columns of text that look like numbers.",
        "equal rows": "Rows that are equal to others.",
        "missing": "Cells without a value.",
        "prior": "Whether the prior, not the data, decides a quantity.",
        "parameters": "Whether the number of parameters is known.",
        "probabilities": "Whether the predicted probabilities can be relied on.",
    }
)
