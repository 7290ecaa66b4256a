"""Classical learners: one file each, named by the word a model file writes after ``learner:``.

Contract. A learner module has

``Options``
    a frozen :class:`bayeslab.language.spec.Spec`: what a model file may say of this learner. The module's classes, with
    ``options=Options``, check their parameters by it (:mod:`bayeslab.learners.toolbox.estimator`).
``TASKS``
    what it can learn, of ``classification`` and ``regression``.
``CATEGORIES``
    how columns of names reach it: ``codes`` (one column of whole numbers, in the order of the levels),
    ``indicators`` (a column of 0 and 1 for each level), or ``texts`` (all inputs are text, and reach it as they are).
``SCALE``
    whether number columns are standardised first, as distances, penalties and gradients need it.
``MISSING``
    whether it understands NaN.
``build(options, task, categorical) -> estimator``
    the scikit-learn estimator, not fitted; ``categorical`` are the positions of columns that hold codes.
``reported(estimator) -> dict`` (optional)
    what was learned, for the table of a fit: name to (dims, array).
``curves(estimator) -> dict`` (optional)
    how training went: name to (dims, array), the last dimension ``pass`` (over the rows) or ``round`` (of boosting).
``examples() -> list``
    estimators that the module defines, as scikit-learn's checks of estimators are to see them.

scikit-learn supplies the solvers that it has; the others are written here to the same protocol.
"""
