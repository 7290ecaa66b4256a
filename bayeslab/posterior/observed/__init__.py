"""The distribution of some columns in each of K states: one contract, and one file for each kind of distribution."""
