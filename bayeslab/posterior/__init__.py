"""A posterior as engines and results see it: its log density, its draws as groups of arrays, drawing forward."""
