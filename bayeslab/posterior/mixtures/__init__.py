"""Mixtures of emissions with components summed out: fits, choice of the number of components, Gibbs draws."""
