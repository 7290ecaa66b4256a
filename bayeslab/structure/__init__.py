"""Graphs of random variables on networkx: what a structure says before any number is known; no PyMC."""
