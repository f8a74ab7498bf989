"""Kernels take at most eight arguments: what belongs together travels in a record with named fields.

A number among fifteen others says nothing at the call; a field of a NamedTuple does.  Kernels that still take more are
listed here.  The list only shrinks: a listed kernel that keeps the rule, or is gone, fails the test, too.
"""

from __future__ import annotations

import ast
from functools import cache

from sources import module_name, nodes_of, product_files, tree_of
from test_kernel_docs import arguments, is_kernel

MOST_ARGUMENTS = 8

#: Kernels that take more still, by module.
STILL_MORE: dict[str, str] = {
    "ssvm_backends.dual.clusters.kernels": "dual_bound improve refresh sweep update_edge",
    "ssvm_backends.dual.descent.compiled": "descent",
    "ssvm_backends.elimination.blocks": "spread",
    "ssvm_backends.elimination.max": "max_steps",
    "ssvm_backends.elimination.sum": "marginal_steps sum_steps",
    "ssvm_backends.search.moves": "_plane _scan",
    "ssvm_backends.trees.count": "convolve",
    "ssvm_backends.trees.sum_product": "joint_weights write_marginals",
    "ssvm_backends.trees.viterbi": "viterbi",
    "ssvm_trainers.dual.projection.projection_kernels": "project_all",
    "ssvm_trainers.planes.factors.bounds": "message_bounds",
    "ssvm_trainers.planes.factors.factor_kernels": "factor_step pull_on step_on sweep visit",
    "ssvm_trainers.planes.factors.pairs": "binary_step pair_run pair_step table_step update_messages",
}


@cache
def of_many_arguments() -> dict[str, str]:
    """``module:kernel`` of those that take more, and how many arguments they take."""
    return {
        f"{module_name(path)}:{node.name}": str(len(arguments(node)))
        for path in product_files()
        for node in nodes_of(tree_of(path))
        if isinstance(node, ast.FunctionDef) and is_kernel(node) and len(arguments(node)) > MOST_ARGUMENTS
    }


def listed() -> set[str]:
    """``module:kernel`` of those that may still take more."""
    return {f"{module}:{name}" for module, names in STILL_MORE.items() for name in names.split()}


def test_kernels_take_at_most_eight_arguments():
    found = [f"{name} takes {n}" for name, n in of_many_arguments().items() if name not in listed()]
    assert not found, "put what belongs together into a NamedTuple:\n" + "\n".join(found)


def test_listed_kernels_still_take_more():
    done = sorted(listed() - set(of_many_arguments()))
    assert not done, "take these off the list:\n" + "\n".join(done)
