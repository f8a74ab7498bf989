"""House rules one would otherwise check by eye: docstrings, no prints, no open ends, nothing executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from sources import ROOT, imports, module_name, nodes_of, product_files, tree_of

FORBIDDEN_CALLS = {"print", "eval", "exec"}
FORBIDDEN_MODULES = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle"}
OPEN_ENDS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|XX" + r"X|HA" + r"CK)\b")

Function = ast.FunctionDef | ast.AsyncFunctionDef

#: Yields what breaks a rule in a file.
Rule = Callable[[Path], Iterator[str]]


def everywhere(rule: Rule) -> str:
    """What breaks a rule in any file, a line each."""
    return "\n".join(f"{path.relative_to(ROOT)}: {text}" for path in product_files() for text in rule(path))


#: A call travels to a process that this one has started, and its result back.
BLOCKING = ("ssvm_dsl.plugin_api.blocking", "ssvm_dsl.plugin_api.blocking_child")

#: Modules that may pickle: compiled code is run, whatever it is packed in; processes of one command hand examples over.
NO_FILES = {"ssvm_dsl.kernels.compiling.code_store", "ssvm_dsl.cli.tune.workers", *BLOCKING}


def loose_ends(path: Path) -> Iterator[str]:
    """Calls and modules that are forbidden, and what is left to do."""
    nodes = nodes_of(tree_of(path))
    for node in nodes:
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") in FORBIDDEN_CALLS:
            yield f"line {node.lineno} calls {ast.unparse(node.func)}"
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle" and ast.unparse(node.value) != "False":
            yield f"line {node.lineno} allows pickle"
    found = {i.module for i in imports(tree_of(path), module_name(path), path.name == "__init__.py")}
    if module_name(path) not in NO_FILES:
        yield from (f"imports {name}: files are JSON and npz, never pickle" for name in FORBIDDEN_MODULES & found)
    lines = enumerate(path.read_text().splitlines(), 1)
    yield from (f"line {k}: {line.strip()}" for k, line in lines if OPEN_ENDS.search(line))


def test_no_prints_no_open_ends_nothing_executed():
    assert not (found := everywhere(loose_ends)), found


def silent(path: Path) -> Iterator[str]:
    """A module without a docstring, or public functions and classes without one."""
    tree = tree_of(path)
    if tree.body and not ast.get_docstring(tree):
        yield "no docstring"
    names = [
        node.name
        for owner in [tree, *(n for n in tree.body if isinstance(n, ast.ClassDef) and not n.name.startswith("_"))]
        for node in owner.body
        if isinstance(node, Function | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not any("overload" in ast.unparse(decorator) for decorator in node.decorator_list)
    ]
    if names:
        yield f"no docstring: {', '.join(names)}"


def test_modules_and_public_functions_say_what_they_do():
    assert not (found := everywhere(silent)), found


def test_the_rules_see_offences(tmp_path, monkeypatch):
    path = tmp_path / "ssvm_dsl" / "odd.py"
    path.parent.mkdir()
    text = "import pickle\ndef f(a):\n    print(a)\nload(a, allow_pickle=a)\n# TO"
    path.write_text(text + "DO\n")
    monkeypatch.setattr("sources.ROOT", tmp_path)
    assert [text.split()[-1] for text in loose_ends(path)] == ["print", "pickle", "pickle", "TO" + "DO"]
    assert list(silent(path)) == ["no docstring", "no docstring: f"]
