"""Inference engines: one file each, named by the word after ``method:``.

Contract. An engine module has

``Options``
    a frozen :class:`bayeslab.language.spec.Spec` of the engine's options, named as PyMC names them.
``refuse(posterior) -> str | None``
    why the engine would give a wrong or meaningless answer here, or None.
``ready(job) -> None`` (optional)
    raises what else ``run`` would refuse before its work, now that options and graph are there; ``check`` and ``fit``
    both call it.
``run(job) -> Outcome``
    the inference; ``job`` is a :class:`bayeslab.job.Job`. What it returns is a DataTree
    of ArviZ's groups and a verdict.
``EXTENDS`` (optional)
    True if a run, finished or not, can be gone on with for more draws.
``USES_GRAPH`` (optional)
    False if ``run`` does without ``job.graph``; then PyMC is not imported.
"""
