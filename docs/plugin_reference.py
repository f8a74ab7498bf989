"""Writes ``docs/plugins/reference.md``, the reference of what plug-ins import, from the docstrings.

The built reference is not where the sources are read, on a code host or in an editor; this page is.  A test holds the
page equal to what this program writes: ``python docs/plugin_reference.py`` writes it anew.
"""

from __future__ import annotations

import inspect
import re
from enum import EnumType
from importlib import import_module
from pathlib import Path
from typing import Any

PAGE = Path(__file__).with_name("plugins") / "reference.md"

#: Headings, and the names below each, by the module that authors import them from.
CONTENT: dict[str, dict[str, tuple[str, ...]]] = {
    "Descriptions": {
        "ssvm_dsl.plugin_api": (
            "BackendSpec", "TrainerSpec", "ConstraintSpec", "BridgeSpec", "RiskSpec", "LossSpec", "ExecutorSpec",
            "CommandSpec", "ReaderSpec", "Option", "Alias", "AutoRule", "TrainerNeeds", "RiskForm",
        ),
    },
    "What a backend is asked, and answers": {
        "ssvm_dsl.ir": (
            "Need", "Caps", "Question", "Limits", "Solution", "Marginals", "Stop", "Primal", "Task", "Topology",
            "Guarantee", "Warm", "Ability",
        ),
        "ssvm_dsl.plugin_api": ("Verdict", "Session"),
    },
    "The base class of sessions": {
        "ssvm_dsl.plugin_api": ("ExampleSession", "PlainExample", "Clock", "ExampleAnswer"),
    },
    "Time, and solvers written in C": {
        "ssvm_dsl.plugin_api": ("pause", "time_left", "loading", "call_in_thread", "call_in_process", "CallOutcome"),
    },
    "Programs and scores": {
        "ssvm_dsl.ir": ("Program", "Group", "Theta"),
    },
    "Hard constraints and bridges": {
        "ssvm_dsl.ir": ("ConstraintGroup", "LinearRows"),
        "ssvm_dsl.plugin_api": (
            "ConstraintKind", "ExplainingKind", "UnmetKind", "SizedKind", "SeparableKind", "IntegralKind",
            "StartingKind", "BestKind", "MixtureKind", "ProjectingKind", "PropagatingKind", "ConstraintScores",
            "Bridge", "Rewrite",
        ),
    },
    "The training problem": {
        "ssvm_dsl.plugin_api": ("TrainProblem", "Objective", "Planes", "Iterate", "StopRule", "ParameterMap"),
    },
    "Risks": {
        "ssvm_dsl.plugin_api": ("RiskContext", "GradientRisk", "PlaneRisk", "RiskGradient"),
    },
    "Executors": {
        "ssvm_dsl.plugin_api": (
            "ShardExecutor", "Shard", "OpenShards", "NotOpen", "answer", "answer_if_open", "forget", "ready",
        ),
    },
    "Compiled oracles": {
        "ssvm_dsl.plugin_api": ("CompiledOracle", "CompiledMessages"),
        "ssvm_dsl.kernels": ("pack", "packed_longs", "packed_ints", "packed_bytes", "packed_flags", "packed_record"),
    },
    "Readers of files": {
        "ssvm_dsl.plugin_api": ("ProblemReader", "ExamplesReader", "AnswersWriter"),
        "ssvm_dsl.ir": ("GraphProblem",),
    },
    "Features": {"ssvm_dsl": ("Transform",)},
    "Tests": {"ssvm_dsl.testing": ("solve", "open_session", "Problem", "Recipe", "seeded", "check_backend")},
}  # fmt: skip

HEAD = """\
# Reference of the plug-in interface

What plug-ins import, with its docstrings. The page is written by `docs/plugin_reference.py`.
"""


def page() -> str:
    """Return the page."""
    parts = [HEAD]
    for heading, modules in CONTENT.items():
        listed = [(module, name) for module, names in modules.items() for name in names]
        links = ", ".join(f"[`{name}`](#{name.lower()})" for _, name in listed)
        parts += [f"## {heading}\n", f"{links}\n"]
        parts += [entry(module, name) for module, name in listed]
    return "\n".join(parts)


def entry(module: str, name: str) -> str:
    """Return the entry of one name."""
    found = getattr(import_module(module), name)
    lines = [f"from {module} import {name}", "", *_signed(name, found)]
    if isinstance(found, EnumType):
        lines += ["", *(f"    {name}.{member}" for member in found.__members__)]
    if inspect.isclass(found):
        for member, value in vars(found).items():
            function = _function_of(value)
            if not member.startswith("_") and function is not None and inspect.getdoc(function):
                lines += ["", *(f"    {line}".rstrip() for line in _signed(member, value))]
    return "\n".join([f"### {name}\n", "```rst", *lines, "```", ""])


def _function_of(value: Any) -> Any:
    """Return the function of a method or property; ``None`` of anything else."""
    if isinstance(value, property):
        return value.fget
    if isinstance(value, classmethod | staticmethod):
        return value.__func__
    if hasattr(value, "func") and hasattr(value, "attrname"):  # cached_property
        return value.func
    return value if inspect.isfunction(value) else None


def _signed(name: str, value: Any) -> list[str]:
    """Return a signature and the docstring below it."""
    function = value if inspect.isclass(value) else _function_of(value) or getattr(value, "py_func", value)
    is_property = isinstance(value, property) or hasattr(value, "attrname")
    try:
        signature = "" if is_property else str(inspect.signature(function))
    except (TypeError, ValueError):
        signature = ""
    if inspect.isclass(value):
        signature = _fields(value) if "__dataclass_fields__" in vars(value) else ""
    doc = inspect.getdoc(function) or ""
    signature = re.sub(r"'|\bself(, )?|\bcls, ", "", signature)
    return [f"{name}{signature}", *(f"    {line}".rstrip() for line in doc.splitlines())]


def _fields(kind: Any) -> str:
    """Return the constructor of a dataclass, by the names of its arguments."""
    return f"({', '.join(one.name for one in inspect.signature(kind).parameters.values())})"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
