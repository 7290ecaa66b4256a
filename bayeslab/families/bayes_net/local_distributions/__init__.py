"""Local distributions of discrete variables: the table given the parents, as a function of the parameters.

One module for each form: ``table``, ``noisy_max`` (and ``noisy_or``), ``logit`` and ``function``. Each lists its
unknown numbers and rows (:class:`bayeslab.families.bayes_net.local_distributions.contract.Local`) and computes the
table P(variable | parents), shape (states of parent 1, ..., states of the variable), with either NumPy or PyTensor.
"""
