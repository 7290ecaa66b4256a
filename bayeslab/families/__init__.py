"""Model families: one file or folder each, named by the word a model file writes after ``family:``.

Contract. A family module has

``Spec``
    a frozen :class:`bayeslab.language.spec.Family`: the keys of a model file. Its methods ``outcomes(columns)`` and
    ``factors(dims)`` are called before data are bound, since they follow from the keys alone.
``check(model, columns) -> None``
    raises every error that can be detected without the values of the data; ``columns`` are the names of the data's
    columns, or None when no data are known. Never imports PyMC.
``compile(model, data) -> Posterior``
    binds the model to data (:class:`bayeslab.data.bound.Data`) and returns a
    :class:`bayeslab.posterior.contract.Posterior`, the only part of a family that engines and results use. Compiling is
    cheap: the posterior computes what it derives from the data on demand.

A family that is a short form of the language has a module ``expand`` in its folder with

``expand(model, data) -> Expansion``
    the same model as nodes of the family ``graph`` (:class:`bayeslab.language.expansion.Expansion`).

By convention ``spec.py`` of the family's folder holds the keys and ``posterior.py`` the posterior.
"""
