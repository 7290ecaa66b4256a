"""Chains of hidden states: Markov chains of order 1 and 2, with inputs, durations, trees and urns."""
