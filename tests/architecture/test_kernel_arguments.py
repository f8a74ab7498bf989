"""Kernels take at most eight arguments: what belongs together travels in a record with named fields.

A number among fifteen others says nothing at the call; a field of a NamedTuple does.  Functions that others call by
their address (``cfunc``) have the arguments of their contract.
"""

from __future__ import annotations

import ast

from sources import module_name, nodes_of, product_files, tree_of
from test_kernel_docs import arguments, is_kernel

MOST_ARGUMENTS = 8


def keeps_a_contract(node: ast.FunctionDef) -> bool:
    """Whether a kernel's arguments are those of a signature that the contract with plug-ins names."""
    return any(ast.unparse(one).startswith("cfunc(") for one in node.decorator_list)


def test_kernels_take_at_most_eight_arguments():
    found = [
        f"{module_name(path)}:{node.name} takes {len(arguments(node))}"
        for path in product_files()
        for node in nodes_of(tree_of(path))
        if isinstance(node, ast.FunctionDef) and is_kernel(node) and not keeps_a_contract(node)
        if len(arguments(node)) > MOST_ARGUMENTS
    ]
    assert not found, "put what belongs together into a NamedTuple:\n" + "\n".join(found)
