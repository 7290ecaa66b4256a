"""Directive ``reference``: tables made from the specs, so that they cannot go stale.

``:::{reference} keys`` and so on; each word is a function below that returns Markdown.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from bayeslab import registry
from bayeslab.distributions import DISTRIBUTIONS, MODIFIERS, NEEDS_CODE
from bayeslab.error_codes import AREAS, KINDS
from bayeslab.families.bayes_net.spec import BayesNet, Decision, Utility, Variable
from bayeslab.families.bayes_net.structure_spec import Structure
from bayeslab.families.hmm.spec import HMM
from bayeslab.families.learner import Learner
from bayeslab.families.markov_random_field.spec import Grid, MarkovRandomField, Potential
from bayeslab.families.mixture.spec import Mixture
from bayeslab.families.regression.likelihoods import LIKELIHOODS, Likelihood, accepted, likelihood
from bayeslab.families.regression.spec import Regression
from bayeslab.families.regressions.spec import Regressions
from bayeslab.families.topics.spec import Topics
from bayeslab.language.functions import FUNCTIONS
from bayeslab.language.spec import DataSource, Model
from bayeslab.language.wording import type_words


def table(spec: type[BaseModel]) -> str:
    """One row a field: key, type, default, description."""
    rows = ["| key | type | default | |", "|---|---|---|---|"]
    for name, field in spec.model_fields.items():
        default = "required" if field.is_required() else repr(field.get_default(call_default_factory=True))
        default = {"{}": "", "None": "", "''": ""}.get(default, default)
        if isinstance(field.get_default(call_default_factory=True), BaseModel):
            default = ""
        kind = type_words(field.annotation).replace("|", "or")
        about = (field.description or "").replace("|", r"\|")
        rows.append(f"| `{name}` | {kind} | {f'`{default}`' if default else ''} | {about} |")
    return "\n".join(rows)


def keys() -> str:
    """The keys of a model file."""
    return "**Top level**\n\n" + table(Model) + "\n\n**`data`**\n\n" + table(DataSource)


def regression() -> str:
    """The keys of a regression."""
    return table(Regression)


def regressions() -> str:
    """The keys of regressions of several responses."""
    return table(Regressions)


def bayes_net() -> str:
    """The keys of a Bayes net and of its nodes."""
    parts = {"the model": BayesNet, "a variable": Variable, "a decision": Decision, "a utility": Utility}
    return "\n\n".join(f"**Keys of {name}**\n\n{table(spec)}" for name, spec in parts.items())


def markov_random_field() -> str:
    """The keys of a Markov random field, of its potentials and of its grid."""
    parts = {"the model": MarkovRandomField, "a potential": Potential, "a grid": Grid}
    return "\n\n".join(f"**Keys of {name}**\n\n{table(spec)}" for name, spec in parts.items())


def structure() -> str:
    """The keys of an unknown structure."""
    return table(Structure)


def mixture() -> str:
    """The keys of a mixture."""
    return table(Mixture)


def hmm() -> str:
    """The keys of a hidden Markov model."""
    return table(HMM)


def topics() -> str:
    """The keys of topics."""
    return table(Topics)


def learner() -> str:
    """The keys of the family of learners."""
    return table(Learner)


def likelihoods() -> str:
    """The words for likelihoods of a regression, with their links and what they need besides."""
    return _likelihoods(LIKELIHOODS)


def likelihood_distributions() -> str:
    """The distributions that can be likelihoods of a regression."""
    # Of Pareto a parameter has to be given.
    given = {"Pareto": "Pareto(m=1)"}
    return _likelihoods({given.get(name, name): likelihood(given.get(name, name)) for name in sorted(accepted())})


def _likelihoods(entries: Mapping[str, Likelihood]) -> str:
    rows = ["| likelihood | the response | the formula predicts | links, default first | further parameters, priors |"]
    rows.append("|---|---|---|---|---|")
    for name, entry in entries.items():
        priors = {key: prior.format(rate="1 / s", sd="s") for key, prior in entry.auxiliary.items()}
        if entry.levels == "ordered":
            priors = {"cutpoints": "Ordered(Normal(0, 2.5))"}
        further = [f"`{key}`: `{prior}`" for key, prior in priors.items()]
        further += [f"`{key}`: a number, if given" for key in entry.response.optional]
        links = ", ".join(f"`{link}`" for link in entry.links)
        rows.append(f"| `{name}` | {entry.support} | {entry.response.quantity} | {links} | {', '.join(further)} |")
    return "\n".join(rows)


def distributions() -> str:
    """All distributions with their parameters in order."""
    rows = ["| distribution | parameters | draws | what it is |", "|---|---|---|---|"]
    for name, entry in sorted(DISTRIBUTIONS.items()):
        ends = entry.domain.values
        interval = f"{'(' if ends.open_low else '['}{ends.low}, {ends.high}{')' if ends.open_high else ']'}"
        draws = f"{('numbers', 'vectors', 'matrices')[entry.support]}, `{interval}`"
        about = inspect.getdoc(registry.load("distributions", DISTRIBUTIONS.file(name))).partition("\n")[0]
        what = about.partition(": ")[2]
        rows.append(f"| `{name}` | {', '.join(entry.parameters)} | {'whole ' * entry.discrete}{draws} | {what} |")
    return (
        "\n".join(rows)
        + "\n\nThe language's own: "
        + ", ".join(f"`{m}`" for m in MODIFIERS)
        + ".\n\nIn PyMC, but not in a file: "
        + ", ".join(f"`{m}`" for m in NEEDS_CODE)
        + "."
    )


def functions() -> str:
    """All functions with the number of their arguments."""
    rows = ["| function | arguments |", "|---|---|"]
    for name, (low, high) in sorted(FUNCTIONS.items(), key=lambda item: item[0].lower()):
        rows.append(f"| `{name}` | {low if low == high else f'{low} or {high}'} |")
    return "\n".join(rows)


def engines() -> str:
    """Each engine's options."""
    parts = []
    for name in registry.names("engines"):
        module = registry.load("engines", name)
        if name != "auto":
            about = module.__doc__.splitlines()[0].partition(": ")[2]
            parts.append(f"**{name}**: {about}\n\n{table(module.ENGINE.options)}")
    return "\n\n".join(parts)


def learners() -> str:
    """All learners: what they are, what they learn, and how columns reach them."""
    rows = ["| learner | | learns | inputs |", "|---|---|---|---|"]
    tasks = {"classification": "classes", "regression": "numbers"}
    for name in registry.names("learners"):
        module = registry.load("learners", name)
        about = " ".join(_markdown(module.__doc__).partition("\n\n")[0].split()).rstrip(".")
        inputs = [module.CATEGORIES, *["scaled"] * module.SCALE, *["missing"] * module.MISSING]
        learns = ", ".join(tasks[task] for task in module.TASKS)
        rows.append(f"| `{name}` | {about} | {learns} | {', '.join(inputs)} |")
    return "\n".join(rows)


def learner_words() -> dict[str, str]:
    """By learner what its module says of it, with its sources, and its options."""
    out = {}
    for name in registry.names("learners"):
        module = registry.load("learners", name)
        options = table(module.Options) if module.Options.model_fields else "It has no options."
        out[name] = f"{_markdown(module.__doc__)}\n\n{options}"
    return out


def theory() -> dict[str, str]:
    """By module of the theory of learning what it says of itself, with its sources, and its functions."""
    return _calls("theory")


def decisions() -> dict[str, str]:
    """The same of decisions."""
    return _calls("decisions")


def _calls(folder: str) -> dict[str, str]:
    out = {}
    for name in registry.names(folder):
        module = registry.load(folder, name)
        rows = ["| | |", "|---|---|"]
        for word in module.__all__:
            found = getattr(module, word)
            if not callable(found):
                continue
            rows.append(_call(word, found))
            methods = vars(found).items() if isinstance(found, type) else ()
            for method, value in methods:
                inner = getattr(value, "__func__", value)
                if not method.startswith("_") and inspect.isfunction(inner):
                    rows.append(_call(f"{word}.{method}", inner))
        table = "\n".join(rows)
        out[f"bayeslab.{folder}.{name}"] = f"{_markdown(module.__doc__)}\n\n{table}"
    return out


def _call(name: str, found: Any) -> str:
    """How it is called, and the first sentence of what it says of itself."""
    parameters = [p for p in inspect.signature(found).parameters.values() if p.name not in ("self", "cls")]
    words = [p.name if p.default is p.empty else f"{p.name}={p.default!r}" for p in parameters]
    about = " ".join(_inline((found.__doc__ or "").strip().partition("\n\n")[0]).split())
    return f"| `{name}({', '.join(words)})` | {about} |"


def _markdown(docstring: str) -> str:
    """A module's numpydoc as Markdown, without the words it begins with."""
    text = re.sub(r"^Learner ``\w+``: ", "", docstring.strip())
    text = text[0].upper() + text[1:]
    text, _, sources = text.partition("References\n----------\n")
    text = re.sub(r"^\.\. math::\s*((?:.+\n?)(?:^ +.+\n?)*)", _displayed, text, flags=re.MULTILINE)
    text = _inline(text)
    found = re.split(r"^\.\. \[(\d+)\] ", sources, flags=re.MULTILINE)[1:]
    listed = [f"[{n}] {_inline(' '.join(source.split()))}" for n, source in zip(found[::2], found[1::2], strict=True)]
    return "\n\n".join([text.strip(), *(["Sources: " + " ".join(listed)] if listed else [])])


def _displayed(found: re.Match[str]) -> str:
    return f"$$\n{' '.join(found[1].split())}\n$$\n"


def _inline(text: str) -> str:
    text = re.sub(r":math:`([^`]*)`", lambda m: f"${' '.join(m[1].split())}$", text)
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"`\1`", text)
    return re.sub(r"\[(\d+)\]_", r"[\1]", text.replace("``", "`"))


def commands() -> str:
    """What each command's --help says."""
    parts = []
    for name in registry.names("cli"):
        code = f"from bayeslab.cli import main; main(['{name}', '--help'])"
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        parts.append(f"```text\n{shown.strip()}\n```")
    return "\n\n".join(parts)


def error_areas() -> str:
    """First parts of codes."""
    return "\n".join(
        ["| first part | the mistake lies in |", "|---|---|", *(f"| `{a}` | {t} |" for a, t in AREAS.items())]
    )


def error_kinds() -> str:
    """Last parts of codes."""
    return "\n".join(["| last part | |", "|---|---|", *(f"| `{kind}` | {text} |" for kind, text in KINDS.items())])


PARTS = {
    f.__name__: f
    for f in (
        keys,
        regression,
        regressions,
        bayes_net,
        structure,
        markov_random_field,
        mixture,
        hmm,
        topics,
        likelihoods,
        likelihood_distributions,
        distributions,
        functions,
        engines,
        learner,
        learners,
        learner_words,
        theory,
        decisions,
        commands,
        error_areas,
        error_kinds,
    )
}


def setup(app: Any) -> dict[str, Any]:
    """Register the directive."""
    from docutils import nodes
    from docutils.parsers.rst import Directive
    from docutils.statemachine import StringList

    class Reference(Directive):
        required_arguments = 1

        def run(self) -> list[Any]:
            found: Any = PARTS[self.arguments[0]]()
            if isinstance(found, str):
                return list(self._parsed(found, nodes.Element()).children)
            # Headings inside a directive would not be in the table of contents; sections are.
            parts = []
            for name, text in found.items():
                section = nodes.section(ids=[nodes.make_id(name)], names=[name])
                section += nodes.title(name, name)
                self.state.document.note_implicit_target(section, section)
                parts.append(self._parsed(text, section))
            return parts

        def _parsed(self, text: str, into: Any) -> Any:
            self.state.nested_parse(StringList(text.splitlines(), source="reference"), self.content_offset, into)
            return into

    app.add_directive("reference", Reference)
    return {"parallel_read_safe": True}
