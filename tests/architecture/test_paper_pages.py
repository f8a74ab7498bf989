"""Whatever the pages about the texts name exists: files, tests, experiments, trainers, backends, risks, options, names.

An audit of a text by its page is worth no more than these references.  Only code marks count; blocks of code run in the
tests of the documents.
"""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from importlib import import_module

import pytest
from sources import ROOT

from ssvm_dsl.learning.counting.checks import SOLVERS, STEP_RULES
from ssvm_dsl.plugin_api import BackendSpec, RiskSpec, TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_papers.experiments.catalogue import EXPERIMENTS

PAGES = [*sorted((ROOT / "docs" / "papers").glob("*.md")), *sorted((ROOT / "docs" / "theory").glob("*.md"))]

#: Modules whose public names pages may use without saying where they are.
HOMES = (
    "ssvm_dsl", "ssvm_dsl.datasets", "ssvm_dsl.models", "ssvm_dsl.ir", "ssvm_dsl.testing", "ssvm_dsl.report",
    "ssvm_papers.generators", "sklearn.multiclass",
)  # fmt: skip

#: Classes of the author's implementation in Shogun, which no page can import; an attribute; our distribution.
FOREIGN = {"HMSVMModel", "TwoStateModel", "Phi", "ssvm-dsl"}

PATH = re.compile(r"^[A-Za-z_.][\w.-]*(?:/[\w.*-]+)+/?$")
TEST = re.compile(r"^(tests/[\w/.-]+\.py)::(\w+)$")
ASSIGNED = re.compile(r"^(\w+)=(.*)$")


def spans(text: str) -> list[str]:
    """Return what is in code marks outside of blocks, and the commands of the blocks of a shell."""
    blocks = re.findall(r"```sh\n(.*?)```", text, re.S)
    commands = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines() if line.strip()]
    return re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S)) + commands


@cache
def names_of(kind: type) -> set[str]:
    """Return the names of the plug-ins of a kind, those that people know them by from elsewhere among them."""
    specs = registry().specs(kind)
    return {one.name for one in specs} | {alias.name for one in specs for alias in getattr(one, "aliases", ())}


@cache
def public(name: str) -> bool:
    """Whether a name is public in one of the modules that pages speak of."""
    return any(hasattr(import_module(home), name) for home in HOMES)


@cache
def options() -> dict[str, set[object]]:
    """Return the options of plug-ins and the parameters of the public classes, with the values that are listed."""
    found: dict[str, set[object]] = {"solver": set(SOLVERS), "step_rule": set(STEP_RULES)}
    for kind in (BackendSpec, TrainerSpec):
        for spec in registry().specs(kind):
            for option in spec.options:
                listed = option.kind if isinstance(option.kind, tuple) else ()
                found.setdefault(option.name, set()).update(one for one in listed if isinstance(one, str))
    for home in HOMES[:3]:
        module = import_module(home)
        for name in getattr(module, "__all__", dir(module)):
            value = getattr(module, name, None)
            calls = [value, *(getattr(value, method, None) for method in ("fit", "predict", "partial_fit"))]
            for call in calls:
                try:
                    parameters = inspect.signature(call).parameters if callable(call) else {}
                except (TypeError, ValueError):
                    continue
                for parameter in parameters:
                    found.setdefault(parameter, set())
    return found


def wrong(span: str) -> str:
    """Return what is wrong with a span; empty where nothing is."""
    if span in FOREIGN:
        return ""
    test = TEST.match(span)
    if test is not None:
        path = ROOT / test.group(1)
        if not path.is_file():
            return "no such file"
        defined = {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}
        return "" if test.group(2) in defined else "no such test"
    if span.startswith("ssvm reproduce"):
        known = {one.name for one in EXPERIMENTS} | {one.family for one in EXPERIMENTS} | {"list", "NAME"}
        given = [word for word in span.split()[2:] if not word.startswith("--")]
        missing = [word for word in given if word not in known and word not in ("figures", "FILE", "DIR")]
        return f"no experiment {missing}" if missing else ""
    if PATH.match(span) or re.match(r"^\w+\.(py|md|json|npz)$", span):
        return "" if (ROOT / span).exists() else "no such file or folder, from the root of the repository"
    assigned = ASSIGNED.match(span)
    if assigned is not None:
        name, value = assigned.group(1), assigned.group(2).strip("'\"")
        kind = {"trainer": TrainerSpec, "backend": BackendSpec, "risk": RiskSpec}.get(name)
        if kind is not None and value:
            return "" if value in names_of(kind) else f"no {name} of this name"
        if name not in options():
            return "no option or parameter of this name"
        listed = options()[name]
        quoted = assigned.group(2)[:1] in "'\"" and bool(value)
        return "" if not listed or not quoted or value in listed else f"'{name}' has no value '{value}'"
    if re.match(r"^[A-Z][a-z]+[A-Za-z]*$", span) or re.match(r"^(make|load|check)_\w+$", span):
        return "" if public(span) else "no such public name"
    if re.match(r"^[a-z]+[a-z0-9]*(-[a-z0-9]+)+$", span):
        known = {one.name for one in EXPERIMENTS}.union(*map(names_of, (BackendSpec, TrainerSpec, RiskSpec)))
        known |= {value for values in options().values() for value in values if isinstance(value, str)}
        return "" if span in known else "no plug-in, option or experiment of this name"
    return ""


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_everything_that_a_page_names_exists(page):
    found = [f"{span}: {wrong(span)}" for span in dict.fromkeys(spans(page.read_text())) if wrong(span)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "span",
    [
        "ssvm_dsl/learning/no_such.py", "objective.py", "tests/architecture/test_paper_pages.py::test_nothing",
        "tests/no_such.py::test_a", "ssvm reproduce nothing", 'trainer="nothing"', 'backend="nothing"',
        'risk="nothing"', 'schedule="2/t"', "nothing=3", "NoSuchClass", "make_nothing", "no-such-trainer",
    ],
)  # fmt: skip
def test_what_does_not_exist_is_found(span):
    assert wrong(span)


def test_every_experiment_stands_on_the_page_of_its_text():
    text = "\n".join(page.read_text() for page in PAGES)
    missing = [one.name for one in EXPERIMENTS if f"ssvm reproduce {one.name}" not in text]
    assert not missing, missing
