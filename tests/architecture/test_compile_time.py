"""What makes kernels compile longer than they need to.

Where an array is copied to a slice, numba compiles the text of the error for those that do not fit, too (two seconds in
each process).
"""

from __future__ import annotations

import ast

from sources import module_name, product_files, tree_of


def compiled(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of a module that numba compiles, each by itself."""
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    how = {node.name: "".join(map(ast.unparse, node.decorator_list)) for node in found}
    return [node for node in found if "njit" in how[node.name] and "inline=" not in how[node.name]]


def copies(tree: ast.Module) -> list[str]:
    """Statements of kernels that copy an array (a name, or a slice of one) to a slice."""
    found = []
    for kernel in compiled(tree):
        for node in ast.walk(kernel):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            sliced = any(isinstance(one, ast.Subscript) and has_slice(one.slice) for one in targets)
            if sliced and isinstance(node, ast.Assign | ast.AugAssign):
                whole = isinstance(node.value, ast.Name) and not node.value.id.isupper()
                found += [ast.unparse(node)] if whole or has_slice(node.value) else []
    return found


def has_slice(node: ast.expr) -> bool:
    """Whether there is a slice in an expression."""
    return any(isinstance(one, ast.Slice) for one in ast.walk(node))


def test_arrays_are_copied_by_assign():
    found = {module_name(path): copies(tree_of(path)) for path in product_files()}
    assert {module: lines for module, lines in found.items() if lines} == {}, "use ssvm_dsl.kernels.assign"


def test_the_rule_sees_copies():
    kernel = "@njit\ndef f(a, b, n):\n    a[:n] = 0.0\n    a[:] = b[0]\n    a[:n] = -INF\n    assign(a, b)\n"
    bad = ["a[:n] = b", "a[:n] += b[:n]", "a[n, :] = b[:n] + 1.0"]
    assert copies(ast.parse(kernel)) == []
    assert copies(ast.parse(kernel + "".join(f"    {line}\n" for line in bad))) == bad
