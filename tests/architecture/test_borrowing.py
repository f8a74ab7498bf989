"""A kernel borrows what it is given, never an array that it made itself.

An array is freed where its last owner is used for the last time, and a borrowed one is no owner: the memory would be
another thread's already, or gone, while the kernel still writes to it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from sources import module_name, nodes_of, product_files, tree_of
from test_kernel_docs import is_kernel


def first_name(value: ast.expr) -> str:
    """The variable that a chain of attributes and indices starts with."""
    while isinstance(value, ast.Attribute | ast.Subscript):
        value = value.value
    return value.id if isinstance(value, ast.Name) else ast.unparse(value)


def borrowed_of_own(node: ast.FunctionDef) -> Iterator[str]:
    """What a kernel borrows that it was not given."""
    given = {one.arg for one in node.args.args}
    for call in ast.walk(node):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "borrow":
            continue
        if first_name(call.args[0]) not in given:
            yield ast.unparse(call)


def test_kernels_borrow_only_what_they_are_given():
    found = [
        f"{module_name(path)}:{node.name} {what}"
        for path in product_files()
        for node in nodes_of(tree_of(path))
        if isinstance(node, ast.FunctionDef) and is_kernel(node)
        for what in borrowed_of_own(node)
    ]
    assert not found, "let the caller hold what is borrowed:\n" + "\n".join(found)
