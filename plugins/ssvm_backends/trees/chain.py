"""``chain``: exact dynamic programming on disjoint chains (Viterbi 1967), the fastest path for sequences.

Maximisation has a separate kernel that walks each chain from end to end without the data structures of trees;
the other tasks are those of :mod:`ssvm_backends.trees.tree`, of which a chain is a special case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_backends.trees.forest import Chains
from ssvm_backends.trees.tree import ForestSession, counting, refusal
from ssvm_dsl.ir import F64, I64, Limits, Need, Program, Question
from ssvm_dsl.plugin_api import CompiledOracle, Verdict, add_marginals


class Chain:
    """Exact dynamic programming on disjoint chains (Viterbi 1967).

    The best score of the variables up to t with state s at t is
    ``best[t, s] = node[t, s] + max_r (best[t - 1, r] + table[r, s])``: O(T c^2) for T variables of c states.
    """

    def check(self, need: Need) -> Verdict:
        """Accept every batch of disjoint chains; of constraints, one ``count`` for each example."""
        cost, n_bytes = counting(need)
        if why := refusal(need):
            return Verdict(False, reasons=(why,))
        return Verdict(True, cost, n_bytes=n_bytes + 90.0 * need.n_variables)

    def open(self, program: Program, options: Mapping[str, Any]) -> ChainSession:
        """Return a session; chains of equal cardinality in natural order get the fast kernel."""
        link = natural_links(program)
        return ChainSession(program) if link is None else ViterbiSession(program, link)


class ChainSession(ForestSession):
    """A session for chains in any order, with any numbers of states."""

    def expect(self, question: Question, coef: F64, node: F64, tables: Sequence[F64]) -> F64 | None:
        """Return ``None``: marginals come from ``solve``; see :class:`~ssvm_dsl.plugin_api.SumSession`."""
        return None


class ViterbiSession(ChainSession):
    """A session whose maximisation uses the Viterbi kernel.

    Parameters
    ----------
    program : Program
    link : ndarray of int64, shape (V,)
        Where the table between a variable and the next starts, -1 at the end of a chain.
    """

    def __init__(self, program: Program, link: I64) -> None:
        super().__init__(program)
        self.chains = Chains(program.var_ptr, link, program.uniform_card)

    def map_kernel(self) -> tuple[Callable[..., None], Any]:
        """Return the Viterbi kernel."""
        from ssvm_backends.trees.max_product import viterbi

        return viterbi, self.chains

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        from ssvm_backends.trees.max_product import viterbi_oracle

        program = self.program
        header = np.array([program.uniform_card, program.n_examples], dtype=np.int64)
        longs = np.concatenate([header, program.var_ptr, self.chains.link])
        longest = int(np.diff(program.var_ptr).max(initial=0))
        return CompiledOracle(viterbi_oracle, np.zeros(1, np.int32), longs, (longest + 1) * program.uniform_card)

    def expect(self, question: Question, coef: F64, node: F64, tables: Sequence[F64]) -> F64 | None:
        """Add weighted marginals and return log partitions; see :class:`~ssvm_dsl.plugin_api.SumSession`."""
        from ssvm_backends.trees.chain_sum import ChainSums, LinearTables, expect_chains

        theta, ids = question.theta, question.ids(self.program)
        groups, c = self.program.groups, self.program.uniform_card
        if len(groups) > 1 or self._tables is not None:
            return None
        given = theta.tables[0] if groups else np.zeros((1, c * c))
        rows: slice | I64 = slice(None)
        if len(given) > 64:
            rows = groups[0].table_rows(ids).astype(np.int64)
        linear, shared = LinearTables.from_tables(given, rows, c), len(given) == 1
        own_node, log_z = question.masked_node(self.program), np.empty(len(ids))
        summed = np.zeros_like(linear.factor)
        expect_chains(self.chains, own_node, linear, ids, coef, shared, ChainSums(node, summed), log_z)
        if summed.any():  # a table that none of these examples reads may hold anything
            summed = summed * linear.factor if shared else summed
            tables[0][rows] += summed.reshape(len(given), c, -1)[rows, :, :c].reshape(-1, c * c)
        wide = np.flatnonzero(np.isnan(log_z))
        log_z += theta.const[ids]
        if len(wide):
            solution = self._marginals(theta, own_node, ids[wide], Limits())
            assert solution.log_partition is not None
            assert solution.marginals is not None
            log_z[wide] = solution.log_partition
            add_marginals(self.program, solution.marginals, coef[wide], ids[wide], node, tables)
        return log_z


def natural_links(program: Program) -> I64 | None:
    """Return where each variable's table to the next one starts; ``None`` where chains are not that plain."""
    if not program.uniform_card:
        return None
    link, n_factors = np.full(program.n_variables, -1, dtype=np.int64), 0
    for (start, _, (_, n_configs)), group in zip(program.table_places, program.groups, strict=True):
        if not group.n_factors:
            continue
        shapes = group.shapes
        follows = shapes.scope[:, 1] == shapes.scope[:, 0] + 1
        if not (follows.all() or shapes.spread(follows).all()):  # shapes that no example has do not matter
            return None
        rows = 0 if group.n_tables == 1 else group.table_rows().astype(np.int64)
        link[shapes.spread(shapes.scope[:, 0], shapes.first)] = start + rows * n_configs
        n_factors += group.n_factors
    return link if np.count_nonzero(link >= 0) == n_factors else None
