"""Decisions under uncertainty, on plain arrays: actions under a loss, and how good probabilities are."""
