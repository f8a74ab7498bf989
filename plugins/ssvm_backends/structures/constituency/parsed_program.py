"""Where the variables of labels of trees are, and the factors over their rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_backends.structures.constituency.paired_rules import PairedRules, paired_rules
from ssvm_backends.structures.constituency.sentence import SentenceArrays
from ssvm_backends.structures.session import variables_without_literals
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir import F64, I64, Bools, GrammarArrays, Program, pointers, runs


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
    def of(cls, program: Program) -> ParsedProgram:
        """Return where things are.

        Raises
        ------
        PluginError
            There are factors of another form.
        """
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
