"""Imports point downwards only; plug-ins see the contract and the IR; nobody reaches into another's privates."""

from __future__ import annotations

import ast
from functools import cache

import networkx
import pytest
from sources import BUNDLED, PAPERS, ROOT, Import, imports, module_name, product_files, tree_of

#: What each part of ``ssvm_dsl`` may import besides itself.  A new part must be placed here.
LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "calls": {"errors"},
    "units": set(),
    "memory": {"errors", "units"},
    "processors": set(),
    "version": set(),
    "moved_modules": set(),
    "loading": set(),
    "deadline": {"errors", "loading"},
    "files": {"errors", "units"},
    "ir": {"errors"},
    "kernels": {"errors", "ir"},
    "scores": {"errors", "ir", "kernels"},
    "requirements": {"deadline", "ir", "kernels", "scores"},
    "lang": {"errors", "files", "ir", "memory"},  # ragged arrays; patterns are found before there is a program
    "compiler": {"lang", "ir", "kernels", "scores", "errors", "units", "memory", "deadline"},
    "plugin_api": {"ir", "kernels", "scores", "requirements", "errors", "deadline", "loading", "units"},
    "registry": {"plugin_api", "ir", "kernels", "errors", "version"},
    "own_formats": {"plugin_api"},
    "inference": {
        "compiler", "lang", "ir", "kernels", "scores", "requirements", "plugin_api", "registry", "errors", "units",
        "memory", "deadline", "loading",
    },
    "io": {"compiler", "files", "lang", "ir", "kernels", "errors", "plugin_api", "registry", "units", "version"},
    "report": {"compiler", "lang", "ir", "kernels", "plugin_api", "errors", "units", "inference", "io", "registry"},
    "root": {"moved_modules", "version"},
}
LAYERS["scoring"] = LAYERS["inference"] | {"inference", "io"}
LAYERS["learning"] = LAYERS["inference"] | {"files", "inference", "io", "report", "processors", "version"}
# generators search for best outputs, readers return trees and parts of data, plug-ins bring formats
LAYERS["datasets"] = {"errors", "files", "io", "lang", "learning", "memory", "plugin_api", "registry"}
LAYERS["testing"] = LAYERS["learning"] | {"learning"}
LAYERS["models"] = LAYERS["learning"] | {"learning", "datasets"}
LAYERS["cli"] = LAYERS["learning"] | {"learning", "datasets", "models", "scoring", "testing"}

#: What plug-ins may import of ``ssvm_dsl``: the names in ``__all__`` of these (all public names of ``errors``).
CONTRACT = {"plugin_api", "ir", "kernels", "errors"}

#: Parts that need a compiler; they lie above the data.
COMPILED = {"kernels", "scores", "requirements"}

#: Modules that every part may import.
EVERYWHERE = {"array_types", "callers", "calls", "lazy_api", "notebook_tables", "values"}


def part(module: str) -> str:
    """The part of ``ssvm_dsl`` a module belongs to: ``ssvm_dsl.ir.program`` -> ``ir``."""
    return module.split(".")[1] if "." in module else "root"


def reached(found: Import) -> str:
    """The part of ``ssvm_dsl`` an import reaches; ``from ssvm_dsl import lang`` reaches ``lang``."""
    if found.module == "ssvm_dsl" and found.name in LAYERS:
        return found.name
    return part(found.module)


@cache
def exported(package: str) -> frozenset[str]:
    """Names that a part of the contract exports."""
    path = ROOT / "ssvm_dsl" / package
    source = (path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text()
    for node in ast.parse(source).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return frozenset(ast.literal_eval(node.value))
    return frozenset(node.name for node in ast.parse(source).body if isinstance(node, ast.ClassDef | ast.FunctionDef))


def offences(tree: ast.Module, module: str, is_package: bool = False) -> list[str]:
    """Every forbidden import of one file, in words."""
    package, out = module.split(".")[0], []
    for found in imports(tree, module, is_package):
        what = f"{module}, line {found.line}, imports {found.module}{f':{found.name}' if found.name else ''}"
        target = found.module.split(".")[0]
        if target not in ("ssvm_dsl", *BUNDLED):
            continue
        if target == "ssvm_dsl" and package == "ssvm_dsl":
            mine, other = part(module), reached(found)
            if other in EVERYWHERE:
                continue
            if other == "root":
                out.append(f"{what}: import it from where it is defined")
            elif other != mine and other not in LAYERS[mine]:
                out.append(f"{what}: {mine} may import {', '.join(sorted(LAYERS[mine])) or 'nothing'}")
        elif target == "ssvm_dsl" and reached(found) not in CONTRACT:
            out.append(f"{what}: plug-ins may import {', '.join(sorted(CONTRACT))}")
        elif target == "ssvm_dsl" and (found.module.count(".") > 1 or found.name not in exported(part(found.module))):
            out.append(f"{what}: plug-ins import what is in __all__ of {part(found.module)}")
        elif target != package and target != "ssvm_dsl":
            out.append(f"{what}: {'the core' if package == 'ssvm_dsl' else 'a plug-in'} never imports a plug-in")
        if found.name.startswith("_") and not found.name.startswith("__") and found.module != module:
            out.append(f"{what}: a private name of another module")
    return out


def test_imports_point_downwards():
    files = [path for path in product_files() if not path.is_relative_to(ROOT / PAPERS)]  # as other packages are
    each = [offences(tree_of(path), module_name(path), path.name == "__init__.py") for path in files]
    found = [text for one in each for text in one]
    assert not found, "\n".join(found)


def test_every_part_has_its_place():
    parts = {part(module_name(path)) for path in product_files() if module_name(path).startswith("ssvm_dsl")}
    assert parts <= set(LAYERS) | EVERYWHERE, f"place these in LAYERS: {sorted(parts - set(LAYERS) - EVERYWHERE)}"


def import_graph(sources: dict[str, tuple[ast.Module, bool]]) -> networkx.DiGraph:
    """Which module imports which, of modules given as (tree, whether it is a package); for typing, too."""
    graph = networkx.DiGraph()
    for module, (tree, is_package) in sources.items():
        for found in imports(tree, module, is_package, typing=True):
            inner = f"{found.module}.{found.name}"
            target = inner if inner in sources else found.module
            if target in sources and target != module:
                graph.add_edge(module, target)
    return graph


def cycles(graph: networkx.DiGraph) -> list[list[str]]:
    return [sorted(part) for part in networkx.strongly_connected_components(graph) if len(part) > 1]


def test_modules_have_no_cycle():
    sources = {module_name(path): (tree_of(path), path.name == "__init__.py") for path in product_files()}
    graph = import_graph(sources)
    assert graph.number_of_edges() > 1000
    assert not cycles(graph), "put what both need into a module of its own"


def test_cycles_for_typing_and_inside_functions_are_noticed():
    lazy = "def f():\n    from p.b import g\n"
    typed = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from p import a\n"
    texts = {"p": "", "p.a": lazy, "p.b": typed, "p.c": lazy}
    graph = import_graph({name: (ast.parse(text), name == "p") for name, text in texts.items()})
    assert cycles(graph) == [["p.a", "p.b"]]


def test_layers_have_no_cycle():
    done: list[str] = []
    while len(done) < len(LAYERS):
        ready = [name for name, below in LAYERS.items() if name not in done and below <= set(done)]
        assert ready, f"a cycle among {sorted(set(LAYERS) - set(done))}"
        done += ready


@pytest.mark.parametrize(
    ("source", "module", "word"),
    [
        ("import ssvm_dsl.learning.risks.hinges.margin", "ssvm_dsl.inference.planning.planner", "inference may import"),
        ("def f():\n    from ssvm_dsl.compiler import ground", "ssvm_dsl.ir.program", "line 2"),
        ("from ..learning import problem", "ssvm_dsl.lang.model", "ssvm_dsl.learning"),
        ("from ssvm_dsl import StructuredSVM", "ssvm_dsl.cli.demo", "where it is defined"),
        ("from ssvm_backends.trees.chain import Chain", "ssvm_dsl.testing.backends.judge", "never imports a plug-in"),
        ("from ssvm_backends.trees.chain import Chain", "ssvm_trainers.planes.bcfw", "never imports a plug-in"),
        ("from ssvm_dsl.registry import registry", "ssvm_trainers.planes.bcfw", "plug-ins may import"),
        ("from ssvm_dsl.ir.ragged import pointers", "ssvm_trainers.bcfw", "in __all__ of ir"),
        ("from ssvm_dsl.ir import Nothing", "ssvm_trainers.bcfw", "in __all__ of ir"),
        ("from ssvm_dsl import StructuredSVM", "ssvm_trainers.bcfw", "plug-ins may import"),
        ("from ssvm_dsl.lang.model import _reduce", "ssvm_dsl.lang.serial", "private name"),
    ],
)
def test_forbidden_imports_are_noticed(source, module, word):
    found = offences(ast.parse(source), module)
    assert len(found) == 1
    assert word in found[0]


def test_the_ir_and_what_lies_below_know_no_compiler():
    """Data alone: neither numba nor kernels, nor what stands on them, not even for types or inside functions."""
    for path in product_files():
        module = module_name(path)
        if part(module) in ("ir", "lang", "errors", "array_types"):
            found = {one.module for one in imports(tree_of(path), module, path.name == "__init__.py", typing=True)}
            bad = [name for name in found if name.split(".")[0] in ("numba", "llvmlite") or part(name) in COMPILED]
            assert not bad, f"{module} imports {bad}"


def test_imports_for_type_checkers_do_not_count():
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from ssvm_dsl.learning.driver.fit import fit"
    assert offences(ast.parse(source), "ssvm_dsl.lang.model") == []
