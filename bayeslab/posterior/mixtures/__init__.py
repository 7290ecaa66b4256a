"""Mixtures of emissions: rows whose components are summed out, their fits, choices of the number, draws."""
