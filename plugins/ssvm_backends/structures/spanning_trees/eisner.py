"""``eisner``: best projective trees and sums over all of them by dynamic programming over spans in O(n^3).

The root has one dependent or several.  The algorithm: :mod:`ssvm_backends.structures.spanning_trees.projective`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssvm_backends.structures.spanning_trees.trees_session import TreesSession
from ssvm_backends.structures.verdicts import verdict
from ssvm_dsl.ir import Need, Program
from ssvm_dsl.plugin_api import Verdict


class Eisner:
    """Projective trees over the tokens of sentences (Eisner 1996): O(n^3) for n tokens."""

    def check(self, need: Need) -> Verdict:
        """Accept constraints over different variables."""
        return verdict(need, 1e3 + 4.0 * float(need.max_variables) ** 1.5)

    def open(self, program: Program, options: Mapping[str, Any]) -> TreesSession:
        """Return a session."""
        return TreesSession(program, projective=True)
