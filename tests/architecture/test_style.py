"""House rules one would otherwise check by eye: sizes, docstrings, no prints, no open ends, nothing executed."""

from __future__ import annotations

import ast
import re

import pytest
from sources import ROOT, imports, module_name, product_files

FILE_LINES, FUNCTION_LINES = 500, 70
FORBIDDEN_CALLS = {"print", "eval", "exec"}
FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
OPEN_ENDS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")

FILES = pytest.mark.parametrize("path", product_files(), ids=module_name)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def body_lines(node: Function) -> int:
    """Lines of a function without its docstring."""
    doc = ast.get_docstring(node, clean=False)
    return (node.end_lineno or 0) - node.lineno + 1 - (len(doc.splitlines()) if doc else 0)


@FILES
def test_files_and_functions_are_small(path):
    text = path.read_text()
    assert len(text.splitlines()) <= FILE_LINES, f"{path.relative_to(ROOT)} has more than {FILE_LINES} lines"
    long = {n.name: body_lines(n) for n in ast.walk(ast.parse(text)) if isinstance(n, Function)}
    long = {name: size for name, size in long.items() if size > FUNCTION_LINES}
    assert not long, f"{path.relative_to(ROOT)}: functions of more than {FUNCTION_LINES} lines: {long}"


@FILES
def test_no_prints_no_open_ends_nothing_executed(path):
    text, tree = path.read_text(), ast.parse(path.read_text())
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") in FORBIDDEN_CALLS]
    assert not calls, f"{path.relative_to(ROOT)}:{calls[0].lineno} calls {ast.unparse(calls[0].func)}"
    found = [i.module for i in imports(tree, module_name(path), path.name == "__init__.py")]
    if module_name(path) != "ssvm_dsl.kernels.compiling.code_store":  # compiled code is run, whatever it is packed in
        assert not FORBIDDEN_MODULES & set(found), "files are JSON and npz, never pickle"
    open_ends = [f"line {k}: {line.strip()}" for k, line in enumerate(text.splitlines(), 1) if OPEN_ENDS.search(line)]
    assert not open_ends, f"{path.relative_to(ROOT)} {open_ends}"
    unsafe = [n for n in ast.walk(tree) if isinstance(n, ast.keyword) and n.arg == "allow_pickle"]
    assert all(isinstance(n.value, ast.Constant) and n.value.value is False for n in unsafe)


@FILES
def test_modules_and_public_functions_say_what_they_do(path):
    tree = ast.parse(path.read_text())
    if not tree.body:
        return
    assert ast.get_docstring(tree), f"{path.relative_to(ROOT)} has no docstring"
    silent = [
        node.name
        for owner in [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))]
        for node in owner.body
        if isinstance(node, Function | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not any("overload" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    assert not silent, f"{path.relative_to(ROOT)}: no docstring: {', '.join(silent)}"
