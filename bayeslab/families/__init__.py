"""Model families: one file each, named by the word a model file writes after ``family:``.

Contract. A family module has

``Spec``
    a frozen :class:`bayeslab.language.spec.Family`: what the file may say.
``graph(model, data, *, purpose="fit", targets=()) -> pymc.Model``
    the model as a PyMC graph on bound data (:class:`bayeslab.data.bound.Data`): to ``fit``; to
    ``predict``, with the targets left random; or to ``simulate``, with every random node random.
``check(model, columns) -> None``
    everything that can be found wrong without building the graph; ``columns`` are the names the
    data offer, or None when no data are known. Never imports PyMC.
``factors(model) -> set[str]``
    dimensions the model indexes by a column of the same name.
``evidence(model, data) -> tuple[str, ...]`` (optional)
    names of the columns or nodes through which data enter the density, () if none; without it, the outcomes that have
    a cell that is not missing.
``size(model, data) -> int`` (optional)
    numbers in one draw, found without building the graph; raises where not even one fits into memory.
``outcomes(model, columns) -> tuple[str, ...]``
    the observed nodes whose values the model predicts.
``summed_out(model, columns) -> tuple[str, ...]``
    the discrete nodes without data.
``imputed(model, data) -> tuple[str, ...]`` (optional)
    missing cells of discrete nodes with data that are summed out like those: ``x_unobserved``.
``elimination(model, data) -> (pymc.Model, SummedOut) | None`` (optional)
    the graph to fit and the tables from which its discrete nodes, or its states, are drawn given the parameters.
``integrated(model, data) -> dict of str to str`` (optional)
    linear-Gaussian states without data that are summed out, and the standard normals that each is made of.
``paths(model, data) -> tuple[str, ...]`` (optional)
    those of the nodes that are summed out that are hidden paths, which are decoded at given parameters.
``bound(model, data) -> Data`` (optional)
    the data as the graph has them, where they differ from the table's columns.
``graph_without_start(model, data) -> pymc.Model`` (optional)
    the graph to fit without what is computed for the start of chains alone: all that a check needs.
``pointwise(model, data) -> pymc.Model`` (optional)
    the graph with a likelihood term for every observation, where the graph to fit sums them up.
``completed(model, data, draws, rng)`` (optional)
    predictions of the cells that rows leave open, given the rest of their row, which stays; complete rows are
    replicated, as ``predictive`` replicates all. See :mod:`bayeslab.posterior.open_cells`.
``predictive(model, data, draws, rng)``, ``log_likelihoods(model, data, draws)`` (optional)
    replications of the outcomes, and log likelihoods of the rows, on arrays: name to (dims, array
    with draws first); None where only the graph can.
``probabilities(model, seen, new, draws)`` (optional)
    probabilities of the outcome's values for every new row, by column, not by counting replications;
    None where that is all there is.
``remarks(model, data)`` (optional)
    what the user should know about the data; each is the rest of a warning of the verdict: (check,
    where, value, message, advice).
``helps(model, data)`` (optional)
    What to do, besides what the engine advises, where a fit is bad; or None.
``judged(model, data, draws)`` (optional)
    the same of the posterior: what the user should know about draws that were made.
``tables(model, data, draws, kind, ci_prob)`` (optional)
    predictions of kind ``mean`` or ``components`` without sampling error: name of a part to columns of a table; None
    where only draws can tell. ``data.origin`` are the data of the fit, where these are new.
``priors(model, data) -> dict[str, str]`` (optional)
    the prior of each parameter in the model language, where the file need not write it.
``exact(model, data) -> Plan | str`` (optional)
    how the posterior can be had in closed form (:class:`bayeslab.exact.answer.Plan`), or why not.
``em(model, data) -> EMPlan | str`` (optional)
    how expectation maximisation finds the parameters (:class:`bayeslab.exact.answer.EMPlan`), or why it cannot.
``gibbs(model, data) -> GibbsPlan | str`` (optional)
    how Gibbs steps draw from the posterior (:class:`bayeslab.exact.answer.GibbsPlan`), or why they cannot.
``variational(model, data) -> VariationalPlan | str`` (optional)
    how coordinate ascent finds a product of conjugate factors near the posterior
    (:class:`bayeslab.exact.answer.VariationalPlan`), or why it cannot.
``optimum(model, data, with_priors, restarts, rng) -> PointEstimate | None`` (optional)
    the mode of the posterior, or the maximum of the likelihood, where the family finds it without compiling a graph.
``no_mode(model, data) -> str | None`` (optional)
    why the mode of the graph's parameters would be a wrong answer.
``from_mode(model, data) -> bool`` (optional)
    whether NUTS starts at the mode with the curvature there for a metric: where parameters are few, each evaluation is
    dear, and the posterior is about normal on the unconstrained scale.
``forecast(model, data) -> dict[str, str]`` (optional)
    what is to be found out and what that will cost, for ``bayeslab check``.
``preferred(model, data) -> (engine, reason) | None`` (optional)
    the engine that ``auto`` takes, where it is the only one that answers the question.
``clusters(model, data, draws, rng)`` (optional)
    which component each row comes from, and which rows belong together: name to (dims, array).
``features(model, data, draws, rng)`` (optional)
    what each row has of latent features, what they are, and rows put together from them: name to (dims, array).
``shapes(model, data, draws, columns)`` (optional)
    what components look like, for drawing.
``relabelled(model, data, draws) -> (dict, str) | None`` (optional)
    draws in which the exchangeable states of hidden variables have been given names that agree, by
    the algorithm of Stephens (2000), and whose states these are; None where nothing is exchangeable.
``unnamed(model, data, draws, rng) -> (names, dict, notes) | None`` (optional)
    quantities of components whose numbering means nothing, which go to the group ``components`` and are not judged;
    by name others, free of names, that are; and what the verdict says.
``numbering(model) -> str | None`` (optional)
    the rule by which the model states that they are numbered, for the verdict on ``relabelled``.
``ordered(model, data, draws) -> dict`` (optional)
    draws, also of the prior, in which states are numbered by a rule that the model states.
``decoded(model, data, draws, method, best, sequence) -> (dict, dict)`` (optional)
    the hidden states time by time, as columns of a table, and what is to be said about them.
``rows_of(model, data, node, position) -> ndarray | None`` (optional)
    the rows that one term of ``log_likelihoods`` is of, where a fit without them is a fit of the same model to fewer
    rows (whole sequences).
``chosen(model, data) -> (str, dict, dict) | None`` (optional)
    what was chosen before the fit, such as a number of states: a line for the verdict, and a table of scores (name to
    (dims, array)) with its labels.
``events(model, data) -> dict`` (optional)
    by outcome, what the likelihood of each value is: ``DENSITY``, ``PROBABILITY`` (discrete), ``LEFT`` or ``RIGHT``
    (censored there), ``ATOM`` (continuous, but a value that has a probability), ``UNREAD`` (hangs on parameters),
    ``GIVEN`` (none: the value is conditioned on).
``row_weights(model, data) -> dict`` (optional)
    by outcome, what the log likelihood of each of its values is multiplied by.
``maximum_likelihood(model, data) -> (float, int)`` (optional)
    the highest log likelihood, NaN where there is none, and the number of parameters.
``network(model, data) -> networkx.DiGraph``
    the model's nodes and edges, for drawing (attributes: kind, text, dims, and ``inner`` of what is
    summed out without being recovered; lengths of the dimensions in ``graph["dims"]``).

A family that is a short form of the language has in its folder a module ``expand`` with

``expand(model, data) -> Expansion``
    the same model as nodes of the family ``graph`` (:class:`bayeslab.language.expansion.Expansion`).
"""

# What the likelihood of a value is.
DENSITY, PROBABILITY, LEFT, RIGHT, ATOM, UNREAD, GIVEN = range(7)
