"""Learning theory: bounds on examples, hypotheses and mistakes, and classical networks, as plain functions."""
