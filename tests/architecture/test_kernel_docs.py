"""Kernels are read more often than written: those of many arguments document every one of them.

A numba kernel with more than six arguments has a numpydoc ``Parameters`` section with an entry for each argument and
no other; arguments that share a meaning share an entry (``a, b : int``).  An entry may point to another function
(``As for :func:`name```), which then has to document these arguments.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from sources import ROOT, module_name, nodes_of, product_files, tree_of

MOST_ARGUMENTS = 6

FUNC = re.compile(r":func:`~?([\w.]+)`")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def is_kernel(node: ast.AST) -> bool:
    """Whether numba compiles a function."""
    if not isinstance(node, ast.FunctionDef):
        return False
    names = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return any(ast.unparse(name).split(".")[-1] in ("njit", "jit", "cfunc") for name in names)


def arguments(node: Function) -> list[str]:
    """The names of a function's arguments."""
    args = node.args
    return [a.arg for a in (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg) if a is not None]


def entries(node: Function) -> list[tuple[list[str], str, str]]:
    """(names, type, description) of each entry of a function's ``Parameters`` section."""
    lines = inspect.cleandoc(ast.get_docstring(node) or "").splitlines()
    titles = [k for k, line in enumerate(lines[1:]) if line.startswith("---")]
    start = next((k for k in titles if lines[k] == "Parameters"), None)
    if start is None:
        return []
    end = next((k for k in titles if k > start), len(lines))
    found: list[tuple[list[str], str, str]] = []
    for line in lines[start + 2 : end]:
        if line and not line.startswith(" "):
            names, _, kind = line.partition(" : ")
            found.append(([name.strip(" *") for name in names.split(",")], kind, ""))
        elif line:
            names_, kind, text = found[-1]
            found[-1] = (names_, kind, f"{text} {line.strip()}".strip())
    return found


def kernels(path: Path) -> list[ast.FunctionDef]:
    """The kernels of many arguments in a file."""
    found = [node for node in nodes_of(tree_of(path)) if isinstance(node, ast.FunctionDef) and is_kernel(node)]
    return [node for node in found if len(arguments(node)) > MOST_ARGUMENTS]


@cache
def functions() -> dict[str, ast.FunctionDef]:
    """Every function of the product by its full name."""
    return {
        f"{module_name(path)}.{node.name}": node
        for path in product_files()
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef)
    }


def referred(text: str, module: str) -> set[str] | None:
    """The arguments that the functions of an ``As for`` document, ``None`` when one of them does not exist."""
    names: set[str] = set()
    for target in FUNC.findall(text):
        node = functions().get(target, functions().get(f"{module}.{target}"))
        if node is None:
            return None
        names.update(name for entry, _, _ in entries(node) for name in entry)
    return names


@cache
def all_kernels() -> list[tuple[str, str, ast.FunctionDef]]:
    """(module, place, kernel) of every kernel of many arguments."""
    found = [(path, node) for path in product_files() for node in kernels(path)]
    return [(module_name(path), f"{path.relative_to(ROOT)}:{node.lineno} {node.name}", node) for path, node in found]


def undocumented(where: str, node: ast.FunctionDef) -> Iterator[str]:
    """What is wrong with the Parameters section of a kernel."""
    named = [name for names, _, _ in entries(node) for name in names]
    missing, stale = set(arguments(node)) - set(named), set(named) - set(arguments(node))
    if missing:
        yield f"{where} does not document {', '.join(sorted(missing))}"
    if stale:
        yield f"{where} documents {', '.join(sorted(stale))}, which it does not take"
    if len(named) > len(set(named)):
        yield f"{where} documents an argument twice"
    empty = [", ".join(names) for names, kind, text in entries(node) if not (kind or text)]
    if empty:
        yield f"{where} says nothing about {empty}"


def test_kernels_document_every_argument():
    found = [text for _, where, node in all_kernels() for text in undocumented(where, node)]
    assert not found, "\n".join(found)


def astray(module: str, where: str, node: ast.FunctionDef) -> Iterator[str]:
    """References of a kernel to functions that are not there or do not document the arguments."""
    for names, _, text in entries(node):
        if text.startswith("As for"):
            known = referred(text, module)
            if known is None:
                yield f"{where}: '{text}' leads nowhere"
            elif not set(names) <= known:
                yield f"{where}: not in '{text}': {', '.join(sorted(set(names) - known))}"


def test_references_lead_to_documented_arguments():
    found = [text for one in all_kernels() for text in astray(*one)]
    assert not found, "\n".join(found)


def test_there_are_kernels_to_check():
    assert len(all_kernels()) > 150
