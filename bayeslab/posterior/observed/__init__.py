"""The distribution of some columns in each of K states: what hidden states emit, what components are made of.

Contract: :class:`bayeslab.posterior.observed.part.StatePart`. A family reads its model file, makes parts on its data,
and asks them for everything else: names, dimensions and priors of parameters in results; the same numbers for the exact
kernels; M-steps and conjugate draws; variables and densities of a PyMC graph; new columns. The files are

``normal``, ``joint_normal``, ``student_t``
    columns with a centre and a spread, or with matrices; ``location_scale`` has their natural parametrisation and
    ``whitened`` the coordinates of order one;
``one_parameter``, ``categories``, ``any_distribution``, ``gaussian_mixture``, ``regression``, ``scores``
    the other kinds;
``standard``, ``given_priors``, ``prior_variables``, ``prior``
    parameters that are known, or have priors that the file writes: as variables, and in M-steps;
``row_terms``
    compiled densities of rows with missing cells as one node of a graph.
"""
