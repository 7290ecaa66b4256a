"""Hidden states that follow each other: Markov chains of order 1 and 2, with inputs, durations, trees and urns."""
