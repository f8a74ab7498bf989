"""Imports point downwards only; plug-ins see the contract and the IR; nobody reaches into another's privates."""

from __future__ import annotations

import ast

import pytest
from sources import Import, imports, module_name, product_files

#: What each part of ``ssvm_dsl`` may import besides itself.  A new part must be placed here.
LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "units": set(),
    "memory": {"errors", "units"},
    "processors": set(),
    "ir": {"errors"},
    "lang": {"errors"},
    "compiler": {"lang", "ir", "errors", "units", "memory"},
    "plugin_api": {"ir", "errors"},
    "registry": {"plugin_api", "ir", "errors"},
    "datasets": {"errors"},
    "inference": {"compiler", "lang", "ir", "plugin_api", "registry", "errors", "units", "memory"},
    "io": {"compiler", "lang", "ir", "errors", "units", "root"},
    "report": {"compiler", "lang", "ir", "plugin_api", "errors", "units", "inference", "registry"},
    "testing": {"inference", "ir", "plugin_api", "registry", "errors", "units"},
    "root": set(),
}
LAYERS["learning"] = LAYERS["inference"] | {"inference", "io", "report", "root", "processors"}
LAYERS["cli"] = LAYERS["learning"] | {"learning", "testing", "datasets"}

#: What plug-ins may import of ``ssvm_dsl``.
CONTRACT = {"plugin_api", "ir", "errors"}

BUNDLED = ("ssvm_backends", "ssvm_trainers")


def part(module: str) -> str:
    """The part of ``ssvm_dsl`` a module belongs to: ``ssvm_dsl.ir.program`` -> ``ir``."""
    return module.split(".")[1] if "." in module else "root"


def reached(found: Import) -> str:
    """The part of ``ssvm_dsl`` an import reaches; ``from ssvm_dsl import lang`` reaches ``lang``."""
    if found.module == "ssvm_dsl" and found.name in LAYERS:
        return found.name
    return part(found.module)


def offences(source: str, module: str, is_package: bool = False) -> list[str]:
    """Every forbidden import of one file, in words."""
    package, out = module.split(".")[0], []
    for found in imports(ast.parse(source), module, is_package):
        what = f"{module}, line {found.line}, imports {found.module}{f':{found.name}' if found.name else ''}"
        target = found.module.split(".")[0]
        if target not in ("ssvm_dsl", *BUNDLED):
            continue
        if target == "ssvm_dsl" and package == "ssvm_dsl":
            mine, other = part(module), reached(found)
            if other != mine and other not in LAYERS[mine]:
                out.append(f"{what}: {mine} may import {', '.join(sorted(LAYERS[mine])) or 'nothing'}")
            elif other == "root" and found.name != "__version__":
                out.append(f"{what}: import it from where it is defined")
        elif target == "ssvm_dsl" and reached(found) not in CONTRACT:
            out.append(f"{what}: plug-ins may import {', '.join(sorted(CONTRACT))}")
        elif target != package and target != "ssvm_dsl":
            out.append(f"{what}: {'the core' if package == 'ssvm_dsl' else 'a plug-in'} never imports a plug-in")
        if found.name.startswith("_") and not found.name.startswith("__") and found.module != module:
            out.append(f"{what}: a private name of another module")
    return out


@pytest.mark.parametrize("path", product_files(), ids=module_name)
def test_imports_point_downwards(path):
    found = offences(path.read_text(), module_name(path), path.name == "__init__.py")
    assert not found, "\n".join(found)


def test_every_part_has_its_place():
    parts = {part(module_name(path)) for path in product_files() if module_name(path).startswith("ssvm_dsl")}
    assert parts <= set(LAYERS), f"place these in LAYERS: {sorted(parts - set(LAYERS))}"


def test_layers_have_no_cycle():
    done: list[str] = []
    while len(done) < len(LAYERS):
        ready = [name for name, below in LAYERS.items() if name not in done and below <= set(done)]
        assert ready, f"a cycle among {sorted(set(LAYERS) - set(done))}"
        done += ready


@pytest.mark.parametrize(
    ("source", "module", "word"),
    [
        ("import ssvm_dsl.learning.problem", "ssvm_dsl.inference.planner", "inference may import"),
        ("def f():\n    from ssvm_dsl.compiler import ground", "ssvm_dsl.ir.program", "line 2"),
        ("from ..learning import problem", "ssvm_dsl.lang.model", "ssvm_dsl.learning"),
        ("from ssvm_dsl import StructuredSVM", "ssvm_dsl.cli.demo", "where it is defined"),
        ("from ssvm_backends.chain import Chain", "ssvm_dsl.testing.judge", "never imports a plug-in"),
        ("from ssvm_backends.chain import Chain", "ssvm_trainers.bcfw", "never imports a plug-in"),
        ("from ssvm_dsl.registry import registry", "ssvm_trainers.bcfw", "plug-ins may import"),
        ("from ssvm_dsl.lang.model import _reduce", "ssvm_dsl.lang.render", "private name"),
    ],
)
def test_forbidden_imports_are_noticed(source, module, word):
    found = offences(source, module)
    assert len(found) == 1
    assert word in found[0]


def test_imports_for_type_checkers_do_not_count():
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ssvm_dsl.learning.problem import Problem"
    assert offences(source, "ssvm_dsl.lang.model") == []
