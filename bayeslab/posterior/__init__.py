"""Posteriors as engines and results see them: log density, draws as groups of arrays, forward sampling."""
