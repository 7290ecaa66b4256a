"""Inference engines: one file each, named by the word after ``method:``.

Contract. An engine module has ``ENGINE``, a :class:`bayeslab.engines.toolbox.contract.Engine`: its options, its
inference, and its reasons to refuse a model. It works on a :class:`bayeslab.posterior.contract.Posterior` and never
asks for the model's family. ``auto`` is not an engine: it chooses one.
"""
