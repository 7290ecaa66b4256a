"""Model families: one file or folder each, named by the word a model file writes after ``family:``.

Contract. A family module has

``Spec``
    a frozen :class:`bayeslab.language.spec.Family`: what the file may say. Its methods ``outcomes(columns)`` and
    ``factors(dims)`` are asked before data are bound: they follow from the words alone, and so they are theirs.
``check(model, columns) -> None``
    raises what can be found wrong without the data's values; ``columns`` are the names the data offer, or None when no
    data are known. Never imports PyMC.
``compile(model, data) -> Posterior``
    the model on its bound data (:class:`bayeslab.data.bound.Data`), a :class:`bayeslab.posterior.contract.Posterior`,
    which is all that engines and results see of a family. Compiling is cheap: what the posterior works out about its
    data it works out when it is asked.

A family that is a short form of the language has in its folder a module ``expand`` with

``expand(model, data) -> Expansion``
    the same model as nodes of the family ``graph`` (:class:`bayeslab.language.expansion.Expansion`).

By convention the words stand in ``spec.py`` and the posterior in ``posterior.py`` of the family's folder.
"""

# What the likelihood of a value is: a density; a probability (discrete); that of a tail, censored on the left or right;
# the probability of one value of a continuous outcome; unread, since it depends on parameters; none, for what is given.
DENSITY, PROBABILITY, LEFT, RIGHT, ATOM, UNREAD, GIVEN = range(7)
