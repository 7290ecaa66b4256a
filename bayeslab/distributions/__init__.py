"""The vocabulary of distributions: names, supports, tails, priors and the likelihoods of regressions."""
