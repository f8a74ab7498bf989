"""Spot checks of what trainers call inside their own kernels, where no verifier sees the answers.

A foreign backend's compiled calls are made for a few examples at random scores, when they are handed out, and held
against its verified answers to the same question.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.inference.verification.form import Fault
from ssvm_dsl.inference.verification.verify import Verifier
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, runs
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.protocols import CompiledMessages, CompiledOracle

#: Examples that are looked at.
SPOTS = 3

#: Passes of message passing.
PASSES = 2

Solve = Callable[[Question], Solution]


def check_oracle(oracle: CompiledOracle, program: Program, solve: Solve, verify: Verifier) -> None:
    """Refuse a compiled oracle whose labellings or scores are not those of best labellings.

    Parameters
    ----------
    oracle : CompiledOracle
    program : Program
    solve : callable
        The backend's verified answers.
    verify : Verifier

    Raises
    ------
    BackendFault
    """
    question = made_up(program)
    known = solve(question)
    answers = [answer_of_oracle(oracle, program, question.theta, int(example)) for example in question.ids(program)]
    labels = np.concatenate([labels for labels, _ in answers] or [np.zeros(0, np.int32)])
    score = np.array([score for _, score in answers], dtype=np.float64)
    verify.compiled(question, Solution.exact(labels, score), known.best)


def check_messages(offer: CompiledMessages, program: Program, solve: Solve, fault: Fault) -> None:
    """Refuse compiled message passing whose choices are no states or whose bounds are below known labellings.

    Raises
    ------
    BackendFault
    """
    question = made_up(program)
    known = solve(question).best
    for best, example in zip(known.tolist(), question.ids(program).tolist(), strict=True):
        messages = np.zeros(int(np.diff(offer.message_ptr)[example]))
        choices, bound = pass_messages(offer, program, question.theta, example, messages)
        sizes = program.card[slice(*program.var_ptr[example : example + 2])]
        joint = [np.full(int(np.diff(group.ptr)[example]), group.n_configs) for group in program.groups]
        if offer.soft:
            every = np.concatenate([sizes, *joint])
            sums = np.add.reduceat(choices, np.cumsum(every) - every) if len(every) else np.ones(1)
            if not (choices >= 0.0).all() or not np.allclose(sums, 1.0, atol=1e-6):
                raise fault("its compiled messages write numbers that are no distributions")
        elif ((choices < 0) | (choices >= np.concatenate([sizes, *joint]))).any():
            raise fault("its compiled messages choose a number that is not a state")
        if not np.isfinite(messages).all() or not bound >= best - 1e-6 * (1.0 + abs(best)):
            raise fault(f"its compiled messages give the bound {bound}, a labelling has score {best}")


def answer_of_oracle(oracle: CompiledOracle, program: Program, theta: Theta, example: int) -> tuple[I32, float]:
    """Return the labels that a compiled oracle writes for an example, and the score it returns (constant added)."""
    from ssvm_dsl.kernels.compiled_oracles import call_oracle

    node = theta.node if program.allowed is None else np.where(program.allowed, theta.node, -np.inf)
    labels = np.full(int(np.diff(program.var_ptr)[example]), -1, dtype=np.int32)
    work = np.full(oracle.work_size, np.nan)
    score = call_oracle(oracle.function, oracle.ints, oracle.longs, example, theta.pool, node, labels, work)
    return labels, float(score) + float(theta.const[example])


def pass_messages(
    offer: CompiledMessages, program: Program, theta: Theta, example: int, messages: F64
) -> tuple[Any, float]:
    """Improve the messages of an example in place; return where the bound is attained, and it (constant added).

    The choices are the state of each variable, then the joint state of each factor, one group after the other; of soft
    maxima they are probabilities.
    """
    from ssvm_dsl.kernels.compiled_oracles import MessageData, call_messages
    from ssvm_dsl.kernels.flat import ScoreSpace

    lo, hi = program.var_ptr[example : example + 2]
    n_variables = program.state_ptr[hi] - program.state_ptr[lo] if offer.soft else hi - lo
    each = [group.n_configs if offer.soft else 1 for group in program.groups]
    factors = (n * np.diff(group.ptr)[example] for n, group in zip(each, program.groups, strict=True))
    choices = np.full(int(n_variables + sum(factors)), -1, dtype=np.float64 if offer.soft else np.int32)
    work = np.full(offer.work_size, np.nan)
    inputs, scores = MessageData(offer.ints, offer.longs, offer.reals), ScoreSpace(theta.node, theta.pool, work)
    bound = call_messages(offer.function, inputs, example, scores, PASSES, messages, choices)
    return choices, float(bound) + float(theta.const[example])


def made_up(program: Program) -> Question:
    """Return a question about a few examples, the first and the last among them, at random scores."""
    n, rng = program.n_examples, np.random.default_rng(0)
    ids = np.unique(np.linspace(0, n - 1, min(n, SPOTS)).round().astype(np.int64))
    theta = Theta.zeros(program)
    variables = members(program.var_ptr, ids)
    states = runs(program.state_ptr[variables], program.card[variables])
    theta.node[states] = rng.normal(size=len(states))
    theta.const[ids] = rng.normal(size=len(ids))
    for group, table in zip(program.groups, theta.tables, strict=True):
        rows = np.unique(group.table_rows(ids))
        table[rows] = rng.normal(size=(len(rows), group.n_configs))
    return Question(theta, ids)
