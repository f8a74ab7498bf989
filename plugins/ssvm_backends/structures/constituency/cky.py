"""``cky``: best parse trees of a grammar, the k best, and sums over all of them by dynamic programming over spans.

The recursion: :mod:`ssvm_backends.structures.constituency.chart`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_backends.graphs.batch_session import BatchCall, BatchSession, SummedAnswers
from ssvm_backends.structures.literals import Batch, add_free_marginals, best_states
from ssvm_backends.structures.session import k_best, places_of, variables_without_literals
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir import F64, I32, I64, Bools, GrammarArrays, Need, Program, Question, Solution, Task, pointers, runs
from ssvm_dsl.kernels import pack
from ssvm_dsl.plugin_api import CompiledOracle, Verdict, pause

if TYPE_CHECKING:
    from ssvm_backends.structures.constituency.chart import PairedRules
    from ssvm_backends.structures.constituency.sentence import SentenceArrays


# -- Where the variables of labels of trees are, and the factors over their rules ------------------------------------


@dataclass(frozen=True, eq=False)
class ParsedProgram:
    """A program whose examples have a label of trees, or none.

    Parameters
    ----------
    program : Program
    arrays : SentenceArrays
        Where the scores and labels of each sentence are.
    grammars : list of GrammarArrays
        Of each group.
    paired : list of PairedRules
        Of each of them.
    free : ndarray of bool, shape (V,)
        Variables that belong to no label of trees.
    bound : ndarray of bool, shape (B,)
        Examples all of whose variables belong to a label of trees.
    digits : ndarray of int64
        The variables of all digits of codes of rules.
    table : list of ndarray of int64, shape (B,)
        For each group of factors the row of the table of each example's first word; -1 where it has none.
    work : ndarray of float64, shape (B,)
        Rules times divisions of spans of each example.
    divisions : ndarray of float64, shape (B,)
        Divisions of spans of each example.
    """

    program: Program
    arrays: SentenceArrays
    grammars: list[GrammarArrays]
    paired: list[PairedRules]
    free: Bools
    bound: Bools
    digits: I64
    table: list[I64]
    work: F64
    divisions: F64

    @classmethod
    def from_program(cls, program: Program) -> ParsedProgram:
        """Return where things are.

        Raises
        ------
        PluginError
            There are factors of another form.
        """
        from ssvm_backends.structures.constituency.chart import paired_rules
        from ssvm_backends.structures.constituency.sentence import SentenceArrays

        n_examples = program.n_examples
        work, divisions, grammars = np.zeros(n_examples), np.zeros(n_examples), []
        which, sizes = np.full(n_examples, -1), np.zeros((n_examples, 6), np.int64)
        state, variable = np.zeros((2, n_examples, 4), np.int64)
        for g, group in enumerate(program.constraints):
            grammars.append(GrammarArrays(**{name: group.shared[name] for name in GrammarArrays._fields}))
            n, at, numbers = group.meta["n"].astype(np.int64), group.example_of, grammars[-1]
            n_digits = int(group.shared["n_digits"][0])
            which[at], sizes[at, 0] = g, n
            sizes[at, 1:5] = len(numbers.tag_symbol), len(numbers.chain_top), len(numbers.left), n_digits
            some = n > 0
            first = group.literal_ptr[:-1][some, None] + np.outer(n[some], [0, 1, 1, 2])
            first[:, 2:] += n[some, None] ** 2
            variable[at[some]] = group.variable[first]
            state[at[some]] = program.state_ptr[program.var_ptr[at[some], None] + variable[at[some]]]
            divisions[at] = n.astype(np.float64) ** 3 / 6
            work[at] = divisions[at] * len(numbers.left)
        row_ptr, row, table = _rows(program, sizes, variable)
        arrays, free = SentenceArrays(which, sizes, state, variable, row_ptr, row), variables_without_literals(program)
        bound = np.ones(n_examples, dtype=bool)
        bound[np.searchsorted(program.var_ptr, np.flatnonzero(free), side="right") - 1] = False
        first, n = program.var_ptr[:-1] + variable[:, 2], sizes[:, 0]
        digits = runs(np.concatenate([first, first + n]), np.tile(n, 2))
        paired = [paired_rules(one) for one in grammars]
        return cls(program, arrays, grammars, paired, free, bound, digits, table, work, divisions)

    def rules(self, example: int) -> tuple[GrammarArrays, PairedRules] | None:
        """Return the grammar of an example and its pairs; ``None`` without a label of trees."""
        number = int(self.arrays.grammar[example])
        return None if number < 0 else (self.grammars[number], self.paired[number])


def _rows(program: Program, sizes: I64, variable: I64) -> tuple[I64, I64, list[I64]]:
    """Return the rows of tables of each sentence, packed, and the first of each group of factors.

    How many groups of factors a sentence has is written.

    Raises
    ------
    PluginError
        A factor joins anything but both digits of the code of a rule.
    """
    starts = pointers(np.array([one.n_tables * one.n_configs for one in program.groups], dtype=np.int64))
    rows: list[I64] = [np.zeros(0, np.int64)]
    first_row = [np.full(len(sizes), -1) for _ in program.groups]
    row_ptr = np.zeros(len(sizes) + 1, np.int64)
    for example in range(len(sizes)):
        n, (_, _, first, second) = int(sizes[example, 0]), variable[example].tolist()
        for start, group, table in zip(starts.tolist(), program.groups, first_row, strict=False):
            scope, row = group.factors(example)
            if not len(scope):
                continue
            if not np.array_equal(scope, np.arange(n)[:, None] + (first, second)):
                text = f"factor '{group.name}' joins other variables than those of rules(y)"
                raise PluginError(f"cky cannot open this program: {text}")
            rows.append(start + row.astype(np.int64) * group.n_configs)
            table[example] = row[0]
            sizes[example, 5] += 1
        row_ptr[example + 1] = row_ptr[example] + n * sizes[example, 5]
    return row_ptr, np.concatenate(rows), first_row


#: Nanoseconds for each rule and division of a span, and for each division: of best parses, and of sums over parses.
BEST, SUMS = (0.35, 200.0), (2.5, 330.0)

#: Divisions of spans, in variables to the power of 1.5.
DIVISIONS = 0.14

#: How many times as long the best few parses take as the best one (five, of 5 to 25 words).
SEVERAL = 300.0

#: Nanoseconds of a call besides, and of one of the compiled oracle.
CALL, COMPILED_CALL = 1.5e4, 2048.0

#: Seconds of one call of a kernel that sums over parses, about.
RUN_SECONDS = 0.05

#: The kind of constraints that labels of trees have.
DERIVABLE = "derivable"


class Cky:
    """Parse trees, with factors over the tags, spans and rules of one label in each example.

    O(T^3 R) for T words and R rules of two children (Cocke, Kasami, Younger).
    """

    def check(self, need: Need) -> Verdict:
        """Accept one label of trees in each example, with factors over its rules; ``open`` checks the details."""
        if need.max_arity > 1 and not len(need.numbers(DERIVABLE, "n")):
            return Verdict(False, reasons=("takes the factors that a label of trees has, and no others",))
        if need.max_constraints > 1:
            return Verdict(False, reasons=("takes one label of trees in each example",))
        n_rules = max((len(one.shared["left"]) for one in need.constraints if "left" in one.shared), default=0)
        divisions = DIVISIONS * float(max(need.max_variables, 1)) ** 1.5
        best, sums = ((of_rule * n_rules + of_division) * divisions for of_rule, of_division in (BEST, SUMS))
        cost = CALL + (sums if Task.MARGINALS in need.tasks else best)
        if Task.KBEST in need.tasks:
            cost += SEVERAL * best
        return Verdict(True, need.n_examples * cost, n_bytes=40.0 * need.n_variables)

    def open(self, program: Program, options: Mapping[str, Any]) -> CkySession:
        """Open the backend on a program of parse trees; the session answers by CKY and inside-outside."""
        return CkySession(program)


class CkySession(BatchSession):
    """Parse trees of one program.

    Parameters
    ----------
    program : Program

    Raises
    ------
    PluginError
        Factors join other variables than the digits of rules.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.parsed, self.places = ParsedProgram.from_program(program), places_of(program)
        self._best_seconds, self._sum_seconds = (
            1e-9 * (rule * self.parsed.work + division * self.parsed.divisions) for rule, division in (BEST, SUMS)
        )
        self._asked: tuple[Bools, bool] | None = None

    def seconds(self, ids: I64, task: Task) -> F64:
        """Return the expected seconds of each example."""
        return (self._sum_seconds if task is Task.MARGINALS else self._best_seconds)[ids]

    def solve_kbest(self, question: Question) -> Solution:
        """Answer the task ``kbest``: the k best trees of each sentence, best first."""
        return k_best(_Ranking(self, question), question)

    def solve_map(self, call: BatchCall, lo: int, hi: int) -> int:
        """Write the best trees; see :class:`~ssvm_backends.graphs.batch_session.BatchSession`."""
        ids, ptr, pool = call.ids, call.ptr, call.question.theta.pool
        for k in range(lo, hi):
            call.feasible[k] = self.best_labels(int(ids[k]), call.node, pool, call.labels[ptr[k] : ptr[k + 1]])
        return hi

    def best_labels(self, example: int, node: F64, pool: F64, labels: I32) -> bool:
        """Write the best labels of an example; return whether there are any."""
        from ssvm_backends.structures.constituency.sentence import best_labels

        feasible = np.ones(1, dtype=bool)
        batch = Batch(node, np.array([example]), np.zeros(1, np.int64), labels, feasible)
        best_states(self.places, self.parsed.free, batch)
        rules = self.parsed.rules(example)
        if rules is None or not feasible[0]:
            return bool(feasible[0])
        return bool(best_labels(*rules, self.parsed.arrays, example, node, pool, labels) > -np.inf)

    def compiled(self) -> CompiledOracle:
        """Return the oracle for trainers that call it inside their own kernels."""
        from ssvm_backends.structures.constituency.sentence import cky_oracle

        program, parsed = self.program, self.parsed
        arrays = [program.var_ptr, program.state_ptr, parsed.free, *parsed.arrays]
        of_grammars = zip(parsed.grammars, parsed.paired, strict=True)
        packed = pack(*arrays, *(one for grammar, paired in of_grammars for one in (*grammar, *paired)))
        work = 1e9 * self._best_seconds.mean() if len(parsed.work) else 0.0
        return CompiledOracle(cky_oracle, *packed, 0, COMPILED_CALL + float(work))

    def solve_sum(self, call: BatchCall, sums: SummedAnswers, lo: int, hi: int) -> int:
        """Sum over trees; see :class:`~ssvm_backends.graphs.batch_session.BatchSession`."""
        start, pool = sums.start, call.question.theta.pool
        for k in range(lo, hi):
            mine = [table[ptr[k] : ptr[k + 1]] for table, ptr in zip(sums.tables, sums.rows, strict=True)]
            out = sums.node[start[k] : start[k + 1]]
            sums.log_z[k] = self._shares(int(call.ids[k]), call.node, pool, out, mine)
        return hi

    def expect(self, question: Question, coef: F64, node: F64, tables: Sequence[F64]) -> F64:
        """Add weighted marginals and return log partitions; see :class:`~ssvm_dsl.plugin_api.SumSession`."""
        ids, own = question.ids(self.program), question.masked_node(self.program)
        log_z = np.full(len(ids), np.nan)
        if self._without_digits(question.variables):
            number = np.where(self.parsed.bound[ids], self.parsed.arrays.grammar[ids], -1)
            for g in np.unique(number[number >= 0]).tolist():
                for some in self._runs(np.flatnonzero(number == g), ids):
                    log_z[some] = self._expect_bound(g, ids[some], own, question.theta.pool, (coef[some], node, tables))
        for k in np.flatnonzero(np.isnan(log_z)).tolist():
            pause(float(self._sum_seconds[ids[k]]))
            log_z[k] = self._expect_one(int(ids[k]), own, question.theta.pool, (coef[k], node, tables))
        return np.asarray(log_z + np.where(log_z > -np.inf, question.theta.const[ids], 0.0))

    def _without_digits(self, variables: Bools | None) -> bool:
        """Return whether nobody asks which rule is where."""
        if variables is None:
            return False
        if self._asked is None or self._asked[0] is not variables:
            self._asked = variables, not variables[self.parsed.digits].any()
        return self._asked[1]

    def _runs(self, places: I64, ids: I64) -> list[I64]:
        """Return places of examples in runs that take ``RUN_SECONDS`` each."""
        number = np.cumsum(self._sum_seconds[ids[places]]) // RUN_SECONDS
        return np.split(places, np.flatnonzero(np.diff(number)) + 1)

    def _expect_bound(self, g: int, ids: I64, node: F64, pool: F64, out: tuple[F64, F64, Sequence[F64]]) -> F64:
        """Add weighted marginals of examples of one grammar, but for digits; return log Z, nan where nothing is added.

        Parameters
        ----------
        g : int
            The number of the grammar.
        ids : ndarray of int64, shape (n,)
        node, pool : ndarray of float64
        out : tuple
            Weights of the examples, and where marginals of states and of tables are added.
        """
        from ssvm_backends.structures.constituency.sentence import ExpectedParts, expect_sentences

        pause(float(self._sum_seconds[ids].sum()))
        grammar, paired, (coef, to_node, tables) = self.parsed.grammars[g], self.parsed.paired[g], out
        parts = ExpectedParts(coef, to_node, np.zeros((len(ids), len(grammar.left))), np.empty(len(ids)))
        expect_sentences(grammar, paired, self.parsed.arrays, ids, node, pool, parts)
        there = np.flatnonzero(parts.log_z > -np.inf)
        for first_row, table in zip(self.parsed.table, tables, strict=True):
            row = first_row[ids[there]]
            for table_row in np.unique(row[row >= 0]).tolist():
                some = there[row == table_row]
                table[table_row, 0] += coef[some].sum()
                table[table_row, 1 : len(grammar.left) + 1] += coef[some] @ parts.rule[some]
        return parts.log_z

    def _expect_one(self, example: int, node: F64, pool: F64, out: tuple[float, F64, Sequence[F64]]) -> float:
        """Add the weighted marginals of one example; return log Z."""
        coef, to_node, tables = out
        first, last = self.program.state_ptr[self.program.var_ptr[example : example + 2]].tolist()
        shares, rows = np.zeros(last - first), [one.factors(example)[1] for one in self.program.groups]
        mine = [np.zeros((len(row), one.n_configs)) for row, one in zip(rows, self.program.groups, strict=True)]
        log_z = self._shares(example, node, pool, shares, mine)
        to_node[first:last] += coef * shares
        for table, row, expected in zip(tables, rows, mine, strict=True):
            if len(np.unique(row)) == 1:
                table[row[0]] += coef * expected.sum(axis=0)
            else:
                np.add.at(table, row, coef * expected)
        return log_z

    def _shares(self, example: int, node: F64, pool: F64, out: F64, tables: Sequence[F64]) -> float:
        """Write the marginals of an example; return log Z without the constant."""
        from ssvm_backends.structures.constituency.sentence import sum_sentence
        from ssvm_backends.structures.constituency.sum_parses import ParseShares

        log_z, here = np.zeros(1), np.array([example])
        add_free_marginals(self.places, self.parsed.free, node, here, np.zeros(1, np.int64), out, log_z)
        rules, total = self.parsed.rules(example), float(log_z[0])
        if rules is not None:
            arrays = self.parsed.arrays
            n, n_tags, n_chains, n_rules, base, _ = arrays.sizes[example].tolist()
            first = int(self.program.state_ptr[self.program.var_ptr[example]])
            tag, span, high, low = (arrays.state[example] - first).tolist()
            cells = n * n * (n_chains + 1)
            shares = ParseShares(
                out[tag : tag + n * n_tags].reshape(n, n_tags),
                out[span : span + cells].reshape(n, n, n_chains + 1),
                np.zeros((n, n_rules)),
            )
            total += sum_sentence(*rules, arrays, example, node, pool, shares)
            codes = np.zeros((n, base * base))
            codes[:, 1 : n_rules + 1] = shares.rule
            codes[:1, 0] = 1.0
            out[high : high + n * base] = codes.reshape(n, base, base).sum(axis=2).ravel()
            out[low : low + n * base] = codes.reshape(n, base, base).sum(axis=1).ravel()
            for table in tables:
                table[:] = codes
        if not total > -np.inf:
            for array in (out, *tables):
                array[...] = 0.0
            return -np.inf
        return total


class _Ranking:
    """The oracle of one question, for the k best."""

    def __init__(self, session: CkySession, question: Question) -> None:
        self.session, self.theta, self.program = session, question.theta, session.program

    def best_of(self, node: F64, example: int) -> I32 | None:
        """Return the best labelling of one example for unary scores of all, ``None`` where there is none."""
        first, last = self.program.var_ptr[example : example + 2]
        labels = np.zeros(int(last - first), dtype=np.int32)
        return labels if self.session.best_labels(example, node, self.theta.pool, labels) else None

    def of_factors(self, labels: I32, example: int) -> float:
        """Return the scores of the factors of an example."""
        total = 0.0
        for group, table in zip(self.program.groups, self.theta.tables, strict=True):
            scope, row = group.factors(example)
            total += float(table[row, labels[scope] @ group.strides].sum())
        return total
