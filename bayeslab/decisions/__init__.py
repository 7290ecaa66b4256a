"""Decisions under uncertainty, on plain arrays: actions under a loss, and scores of predicted probabilities."""
