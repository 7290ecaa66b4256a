"""The kinds of mistakes: the second part of an error's code, each with its meaning.

The first part says where the mistake lies and follows from the error's class, so that ``unknown-column`` is
``model.unknown-column`` where a model names the column and ``data.unknown-column`` where data lack it. A kind stands
for what a user or a program would treat alike, not for a place in the code.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["AREAS", "KINDS"]

AREAS: Mapping[str, str] = MappingProxyType(
    {
        "model": "the model file, or the model built in Python",
        "data": "the data, or how they fit the model",
        "option": "an option of a method, of a call or of a command",
        "evidence": "what is given in a query",
        "engine.refused": "a method that would give a wrong or meaningless answer, or none in the memory there is",
        "run": "a run, its folder, or the machine it runs on",
    }
)

KINDS: Mapping[str, str] = MappingProxyType(
    {
        # Unknown names.
        "unknown-column": "A column that the data do not have.",
        "unknown-dimension": "A dimension that there is not.",
        "unknown-family": "A model family that there is not.",
        "unknown-function": "A function or distribution that expressions do not have.",
        "unknown-key": "A key that a file or mapping does not have at this place.",
        "unknown-level": "A level, label or class that a column or dimension does not have.",
        "unknown-model": "A model that is not among those compared.",
        "unknown-name": "A name in an expression that is no node, column or dimension, or of a thing there is not.",
        "unknown-option": "An option or argument that a method, learner, score, search or function does not have.",
        "unknown-parameter": "A parameter that a model or distribution does not have.",
        "unknown-state": "A state that a variable does not have.",
        "unknown-variable": "A variable that the network, posterior or diagram does not have.",
        "unknown-word": "A value that is none of the words allowed here, such as a method, score or picture.",
        # Invalid names.
        "bad-name": "What is not a name: empty, of another kind, or with letters that names cannot have.",
        "duplicate": "A name, key, column, row or edge that occurs twice.",
        "name-clash": "A name that stands for two things; one is to be renamed.",
        "reserved-name": "A name that the language or the results keep for themselves.",
        # Values.
        "wrong-type": "A value of another type: a text for a number, a mapping for a list.",
        "wrong-shape": "An array of another shape, or of other dimensions.",
        "wrong-length": "Another number of entries than there are things to give one for.",
        "out-of-range": "A number outside the range that is allowed.",
        "not-finite": "A number that is infinite or NaN.",
        "not-whole": "A number, where a whole number is needed.",
        "not-probabilities": "Numbers that are no probabilities, or do not add up to 1.",
        "not-a-covariance": "A matrix that is not symmetric, or not positive definite.",
        "too-large": "A number, or a number of things, beyond what can be computed with.",
        "too-many-digits": "A whole number with more digits than floats keep.",
        "not-in-order": "Rows, times or offsets that do not rise as they have to.",
        "not-allowed": "A value or combination that a rule of the model's forbids.",
        # Parts that are missing or exclude each other.
        "missing-key": "A key that has to be there.",
        "incomplete": "A part that the rest needs is not given.",
        "conflict": "Parts that exclude each other: leave one of them out.",
        "contradiction": "Constraints, beliefs or an order that cannot hold together.",
        "cycle": "Nodes, columns or edges that form a cycle.",
        "missing-edge": "A graph that lacks an edge it has to have.",
        "forbidden-edge": "A graph with an edge that is ruled out.",
        "self-reference": "A thing that is among its own inputs, or in its own definition.",
        "unsupported": "A combination that is right but not offered.",
        "not-applicable": "What is asked for has no meaning for this model, fit or data.",
        "other-family": "A model of another family than the one that is asked for.",
        # Expressions and formulas.
        "syntax": "Text that cannot be read as an expression, formula or key.",
        "wrong-arguments": "Arguments of a function or distribution: too many, too few, or of another form.",
        "misplaced": "A part that stands where it has no meaning.",
        "too-deep": "What is nested too deeply, or too long.",
        "not-a-distribution": "A prior or node that is not a distribution, or not one that is known here.",
        "not-a-number": "A text or expression, where a number known beforehand is needed.",
        "bad-dimensions": "Values whose dimensions do not go together, or are not those of the node.",
        "bad-start": "A series that looks back past its first row and has no start there.",
        "bad-prior": "A prior that does not fit its parameter.",
        "improper": "A prior or posterior that has no integral.",
        "no-mode": "A posterior or likelihood without a highest point.",
        "no-closed-form": "What is asked for has no closed form here.",
        "not-conjugate": "Components or priors that a method needs to be conjugate.",
        "not-identified": "What the data or the model cannot tell apart.",
        "discrete": "A discrete node without data that cannot be summed out, or of which the method says nothing.",
        "continuous": "Continuous variables, where all have to have states.",
        "no-graph": "A model that has no graph of fixed size, for methods that need one.",
        "not-learned": "A table or parameter that is unknown: fit the model, or give it.",
        "nothing-to-fit": "A model in which nothing is unknown.",
        "nothing-to-predict": "Rows in which nothing is open that could be predicted.",
        "nothing-to-decide": "A model without decisions, or with none left to take.",
        "nothing-observed": "A model that the data say nothing about.",
        # Data.
        "no-data": "No data, where there have to be some.",
        "no-rows": "A table without rows, or without complete rows.",
        "no-columns": "A table without columns, or with none of those that are needed.",
        "missing": "A missing cell where a value has to be known.",
        "constant": "A column with one value only.",
        "no-values": "A column without any value.",
        "too-few": "Too few rows, values, levels or draws.",
        "dependent-columns": "Columns that are linear combinations of each other.",
        "not-numbers": "A column of text or states, where numbers are needed.",
        "not-states": "A column of numbers, where text or states are needed.",
        "not-a-column": "A value that is not one a row.",
        "odd-cell": "A column whose cells are not of one kind, or read ambiguously.",
        "impossible-value": "A cell that cannot come from the node's distribution.",
        "probability-zero": "Rows, evidence or a path that have probability zero.",
        "other-kind": "A column of another kind, or with other levels, than in the fit or the model.",
        "different-data": "Models or runs of different data or outcomes, which cannot be compared.",
        "no-level-order": "Levels whose order is needed and not declared.",
        "not-a-graph": "A graph that is not of the kind that is needed.",
        "no-acyclic-graph": "Parent sets or edges of which no acyclic graph can be made.",
        # Methods.
        "not-suited": "A method that does not apply to this model.",
        "too-costly": "What would take more memory or time than there is.",
        "loops": "A network with loops, where a method is exact on trees only.",
        "not-converged": "A computation that does not settle.",
        "no-start": "No point to start from: the density is zero or undefined.",
        "degenerate": "A density that grows without bound, collapses, or is not comparable with another.",
        "structure-unknown": "A question to a net whose structure is unknown.",
        "several-structures": "A question for one network to a fit of many.",
        # Files, folders and the machine.
        "no-such-file": "A file or folder that is not there.",
        "not-a-file": "A folder or device, where a file is needed.",
        "file-exists": "A file that is there already, or that is being read.",
        "unreadable": "A file that the system does not let be read.",
        "cannot-write": "A file or folder that cannot be written.",
        "not-text": "A file that is not text, or not UTF-8.",
        "malformed": "A file that breaks the rules of its format.",
        "unknown-format": "A format, or version of one, that is not known.",
        "damaged": "A run folder or stored table that is not what was written.",
        "not-installed": "A package that is needed and not installed.",
        # Runs.
        "no-result": "A run that has no result, or no draws, yet.",
        "not-kept": "Draws or numbers that the fit did not keep.",
        "other-run": "A run of another model, other data or other settings.",
        "in-use": "A run that another process is writing.",
        "finished": "A run that has ended: there is nothing to stop, continue or watch.",
        "stopped": "A run that was stopped before there was anything to report.",
        "failed": "A chain, worker or solver that failed.",
        "bad-plugin": "A part of another project that does not keep the contract of its kind, or cannot be imported.",
        "no-connection": "A scheduler that does not answer.",
        # The command line.
        "usage": "A command that the command line does not understand.",
        "system": "An error of the operating system.",
        "interrupted": "The command was interrupted.",
        "unexpected": "An error that is a defect of bayeslab: please report it.",
        # Errors raised without a code, by plugins.
        "other": "An error without a code of its own.",
    }
)
