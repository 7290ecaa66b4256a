"""Classical learners: one file each, named by the word a model file writes after ``learner:``.

Contract. A learner module has

``Options``
    a frozen :class:`bayeslab.language.spec.Spec` that declares the options of the learner. The module's classes, with
    ``options=Options``, check their parameters against it (:mod:`bayeslab.learners.toolbox.estimator`).
``TASKS``
    the tasks that the learner supports: ``classification``, ``regression`` or both.
``CATEGORIES``
    how categorical columns are encoded: ``codes`` (one column of whole numbers, in the order of the levels),
    ``indicators`` (a column of 0 and 1 for each level), or ``texts`` (all inputs are text and are passed unchanged).
``SCALE``
    whether numeric columns are standardised first, which distances, penalties and gradients need.
``MISSING``
    whether the learner accepts missing cells (NaN).
``build(options, task, categorical) -> estimator``
    the unfitted scikit-learn estimator; ``categorical`` holds the positions of the columns of codes.
``reported(estimator) -> dict`` (optional)
    the learned quantities shown in the table of a fit: name to (dims, array).
``curves(estimator) -> dict`` (optional)
    the training curves: name to (dims, array); the last dimension is ``pass`` (over the rows) or ``round`` (boosting).
``examples() -> list``
    instances of the module's estimators on which scikit-learn's estimator checks are run.

Solvers that scikit-learn has are used from there; the others are written here to the same protocol.
"""
