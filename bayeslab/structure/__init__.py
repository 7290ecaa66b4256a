"""Graphs of random variables on networkx: independence, causal effects and structure learning; no PyMC."""
