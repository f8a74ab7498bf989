"""Where the variables of labels of trees are, and the factors over their rules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ssvm_backends.structures.constituency.sentence import SentencePlaces
from ssvm_backends.structures.session import variables_without_literals
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir import F64, I64, Bools, ConstraintGroup, GrammarArrays, Program, pointers


@dataclass(frozen=True, eq=False)
class ParsedProgram:
    """A program whose examples have a label of trees, or none.

    Parameters
    ----------
    program : Program
    group : ndarray of int64, shape (B,)
        The number of the group with each example's constraint, -1 for none.
    number : ndarray of int64, shape (B,)
        The constraint among those of the group.
    grammars : list of GrammarArrays
        Of each group.
    free : ndarray of bool, shape (V,)
        Variables that belong to no label of trees.
    work : ndarray of float64, shape (B,)
        Rules times divisions of spans of each example.
    divisions : ndarray of float64, shape (B,)
        Divisions of spans of each example.
    pool_start : ndarray of int64
        Where in the pool the tables of each group of factors begin.
    """

    program: Program
    group: I64
    number: I64
    grammars: list[GrammarArrays]
    free: Bools
    work: F64
    divisions: F64
    pool_start: I64

    @classmethod
    def of(cls, program: Program) -> ParsedProgram:
        """Return where things are.

        Raises
        ------
        PluginError
            There are factors of another form.
        """
        group, number = np.full(program.n_examples, -1), np.zeros(program.n_examples, np.int64)
        work, divisions, grammars = np.zeros(program.n_examples), np.zeros(program.n_examples), []
        for g, one in enumerate(program.constraints):
            group[one.example_of], number[one.example_of] = g, np.arange(one.n_constraints)
            grammars.append(GrammarArrays(**{name: one.shared[name] for name in GrammarArrays._fields}))
            divisions[one.example_of] = one.meta["n"].astype(np.float64) ** 3 / 6
            work[one.example_of] = divisions[one.example_of] * len(grammars[-1].left)
        sizes = [one.n_tables * one.n_configs for one in program.groups]
        start = pointers(np.array(sizes, dtype=np.int64))
        made = cls(program, group, number, grammars, variables_without_literals(program), work, divisions, start)
        made._check()
        return made

    def _check(self) -> None:
        """Refuse factors that join anything but both digits of the code of a rule."""
        program = self.program
        for example in np.unique(program.shape, return_index=True)[1].tolist():
            digits = self._digits(example)
            for one in program.groups:
                scope, _ = one.factors(example)
                if len(scope) and (digits is None or not np.array_equal(scope, digits)):
                    text = f"factor '{one.name}' joins other variables than those of rules(y)"
                    raise PluginError(f"cky cannot open this program: {text}")

    def _constraint(self, example: int) -> tuple[ConstraintGroup, int] | None:
        g = int(self.group[example])
        return None if g < 0 else (self.program.constraints[g], int(self.number[example]))

    def grammar(self, example: int) -> GrammarArrays:
        """Return the grammar of an example that has a label of trees."""
        return self.grammars[int(self.group[example])]

    def variables(self, example: int) -> I64:
        """Return its tags, spans and digits, counted from the first variable of the example."""
        found = self._constraint(example)
        assert found is not None
        return found[0].variable[found[0].literals(found[1])].astype(np.int64)

    def _digits(self, example: int) -> I64 | None:
        """Return the variables of both digits of each word, ``shape (n, 2)``."""
        found = self._constraint(example)
        if found is None:
            return None
        n = int(found[0].meta["n"][found[1]])
        return self.variables(example)[n + n * n :].reshape(2, n).T

    def sentence(self, example: int) -> SentencePlaces | None:
        """Return where the scores of an example are; ``None`` without a label of trees."""
        found = self._constraint(example)
        if found is None:
            return None
        group, number = found
        n, program = int(group.meta["n"][number]), self.program
        variables = self.variables(example)
        starts = np.array([0, n, n + n * n, n + n * n + n])
        state = np.zeros(4, dtype=np.int64)
        if n:
            state[:] = program.state_ptr[program.var_ptr[example] + variables[starts]]
        shared, arrays = group.shared, self.grammar(example)
        base = int(shared["n_digits"][0])
        sizes = [n, len(arrays.tag_symbol), len(arrays.chain_top), len(arrays.left), base]
        rows = [
            start + one.factors(example)[1] * one.n_configs
            for start, one in zip(self.pool_start, program.groups, strict=False)
            if len(one.factors(example)[0])
        ]
        row = np.array(rows, dtype=np.int64).reshape(len(rows), n)
        return SentencePlaces(np.array(sizes, dtype=np.int64), state, row)
