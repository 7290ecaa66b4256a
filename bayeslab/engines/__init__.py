"""Inference engines: one file each, named by the word after ``method:``.

Contract. An engine module has ``ENGINE``, a :class:`bayeslab.engines.toolbox.contract.Engine`: its options, what it
does, and when it would be wrong. It sees a :class:`bayeslab.posterior.contract.Posterior` and never asks which family
that is of. ``auto`` is no engine: it chooses one.
"""
