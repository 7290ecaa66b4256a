"""Bayes nets of tables and conditional Gaussians: inference and learning."""
