"""Distributions of columns in each of K states: emissions of hidden states and of mixture components.

Contract: :class:`bayeslab.posterior.observed.part.StatePart`. A family reads its model file and creates parts for its
data. The parts provide everything else: names, dimensions and priors of parameters in results; parameters for the exact
kernels; M-steps and conjugate draws; variables and densities of a PyMC graph; replicated columns. The files are

``normal``, ``joint_normal``, ``student_t``
    columns with a location and a scale, or with covariance matrices; ``location_scale`` has their natural
    parametrisation and ``whitened`` the coordinates of order one;
``one_parameter``, ``categories``, ``any_distribution``, ``gaussian_mixture``, ``regression``, ``scores``
    the other kinds;
``standard``, ``given_priors``, ``prior_variables``, ``prior``
    parameters that are known or have priors in the model file, as variables and in M-steps;
"""
