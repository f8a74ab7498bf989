"""The product's source files, and what they import, read from the syntax trees (nothing is imported)."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Import:
    """One import statement: ``module`` (and ``name`` out of it) at ``line``."""

    module: str
    name: str
    line: int


#: The experiments of the papers: a package of its own under the same rules.
PAPERS = "plugins/ssvm-papers/src"

#: Bundled plug-ins.
BUNDLED = ("ssvm_backends", "ssvm_trainers", "ssvm_constraints", "ssvm_bridges", "ssvm_executors")


@cache
def product_files() -> list[Path]:
    """Every Python file of the package and of the papers; a rule is one test over all, which tells every offence."""
    packages = ("ssvm_dsl", *(f"plugins/{name}" for name in BUNDLED), PAPERS)
    return sorted(path for package in packages for path in ROOT.glob(f"{package}/**/*.py"))


@cache
def _trees() -> dict[Path, ast.Module]:
    """The syntax trees of the product.

    Python's collector is off meanwhile, and never looks at them later: it would look through a million nodes again and
    again (3.5 s in place of 1 s, and more in all tests of this process that come after).
    """
    gc.disable()
    try:
        return {path: ast.parse(path.read_text()) for path in product_files()}
    finally:
        gc.freeze()
        gc.enable()


def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a file, which nobody changes."""
    return _trees().get(path) or ast.parse(path.read_text())


@cache
def nodes_of(tree: ast.Module) -> tuple[ast.AST, ...]:
    """All nodes of a tree, as ``ast.walk`` finds them."""
    return tuple(ast.walk(tree))


def module_name(path: Path) -> str:
    """``ssvm_dsl/ir/program.py`` -> ``ssvm_dsl.ir.program``, ``plugins/NAME/src/ssvm_name/a.py`` -> ``ssvm_name.a``."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts[3 if "src" in parts else 1 :] if parts[0] == "plugins" else parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(tree: ast.Module, module: str, is_package: bool, typing: bool = False) -> Iterator[Import]:
    """Imports of a module, those inside functions too; the ones for type checkers only with ``typing``."""
    blocks = [node for node in nodes_of(tree) if isinstance(node, ast.If) and for_typing(node) and not typing]
    skipped = {id(node) for block in blocks for child in block.body for node in ast.walk(child)}
    for node in nodes_of(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, "", node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = resolve(node, module, is_package)
            for alias in node.names:
                yield Import(base, alias.name, node.lineno)


def for_typing(node: ast.If) -> bool:
    """Whether a node is ``if TYPE_CHECKING:``."""
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def resolve(node: ast.ImportFrom, module: str, is_package: bool) -> str:
    """The absolute module of ``from ... import``, relative ones included."""
    if not node.level:
        return node.module or ""
    parts = module.split(".")
    base = parts[: len(parts) - node.level + (1 if is_package else 0)]
    return ".".join([*base, *([node.module] if node.module else [])])
