"""Plots of quantities that results and models already contain; nothing is computed here."""
