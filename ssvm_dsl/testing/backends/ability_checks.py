"""The checks of the conformance kit for abilities of sessions beyond ``solve``, as announced by ``Caps``."""

from __future__ import annotations

from typing import cast

import numpy as np

from ssvm_dsl.array_types import I64
from ssvm_dsl.errors import BackendFault
from ssvm_dsl.inference.foreign import answer_of_oracle
from ssvm_dsl.inference.verification.verify import Verifier
from ssvm_dsl.ir import (
    ONE_SPAN,
    Ability,
    CountFactors,
    CountTables,
    DualBound,
    Limits,
    Marginals,
    Messages,
    Program,
    Question,
    Task,
    Theta,
)
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.ir.solution import select
from ssvm_dsl.plugin_api import (
    CompiledSession,
    CountingSession,
    DualBoundSession,
    MessageSession,
    SumSession,
    missing_methods,
)
from ssvm_dsl.scores.marginals import add_marginals, score_marginals
from ssvm_dsl.testing.backends.checks import BackendTrial, hide_others
from ssvm_dsl.testing.backends.judge import MARGINAL_ATOL
from ssvm_dsl.testing.brute_force import BruteForceSession
from ssvm_dsl.testing.contract import verdict_on
from ssvm_dsl.testing.kit import NotForThisCase
from ssvm_dsl.testing.report import Complaint


def check_methods(trial: BackendTrial) -> None:
    """Check that sessions have the methods of every ability that is announced."""
    if lacking := missing_methods(trial.open(), trial.spec.caps):
        raise Complaint(lacking)


def check_weighted_sums(trial: BackendTrial) -> None:
    """Let the session add weighted marginals to numbers, and compare with the marginals of all labellings."""
    program, session, chosen = trial.problem.program, cast(SumSession, trial.open()), trial.selection()
    coef, rng = trial.rng.normal(size=len(chosen)), trial.rng
    start = rng.normal(size=program.n_states), [rng.normal(size=one.shape) for one in trial.problem.theta.tables]
    node, tables = start[0].copy(), [one.copy() for one in start[1]]
    question = Question(hide_others(trial.problem, chosen), chosen, Task.MARGINALS)
    log_z = session.expect(question, coef, node, tables)
    if log_z is None:
        if not all(np.array_equal(*pair) for pair in zip((node, *tables), (start[0], *start[1]), strict=True)):
            raise Complaint("expect() returns None but has changed the sums")
        raise NotForThisCase
    exact = BruteForceSession(program).solve(question)
    assert exact.marginals is not None
    assert exact.log_partition is not None
    atol = MARGINAL_ATOL + 64 * np.finfo(float).eps * float(trial.judge.terms.size.max(initial=0.0))
    if not np.allclose(log_z, exact.log_partition, rtol=MARGINAL_ATOL, atol=atol):
        raise Complaint(f"expect() returns log partitions {log_z.tolist()}, expected {exact.log_partition.tolist()}")
    there = np.isfinite(exact.log_partition)
    add_marginals(program, exact.marginals, np.where(there, coef, 0.0), chosen, *start)
    for what, mine, right in (("variables", [node], [start[0]]), ("factors", tables, start[1])):
        if not all(np.allclose(*pair, rtol=0, atol=10 * atol) for pair in zip(mine, right, strict=True)):
            raise Complaint(f"expect() adds other numbers than the weighted marginals of {what}")


def check_compiled_oracle(trial: BackendTrial) -> None:
    """Call the compiled oracle for every example, if the program has one."""
    oracle = cast(CompiledSession, trial.open()).compiled()
    if oracle is None or (oracle.finite and (trial.problem.has_forbidden_scores or trial.problem.has_masks)):
        raise NotForThisCase
    program, judge, question = trial.problem.program, trial.judge, Question(trial.problem.theta)
    for example in range(program.n_examples):
        labels, score = answer_of_oracle(oracle, program, trial.problem.theta, example)
        card = program.card[slice(*program.var_ptr[example : example + 2])]
        best, slack = float(judge.best(question, example)[0]), judge.slack(example)
        if ((labels < 0) | (labels >= card)).any():
            raise Complaint(f"example {example}: labels {labels.tolist()} for variables of {card.tolist()} states")
        true_score = judge.labellings(question, example).score(labels)
        if not (score == best or abs(score - best) <= slack) or true_score < best - slack:
            text = f"returns score {score!r} and labels of score {true_score!r}, the best score is {best!r}"
            raise Complaint(f"compiled oracle, example {example}: {text}")


def check_best_by_count(trial: BackendTrial) -> None:
    """Ask for the best labellings by random tables of counts, and compare with all labellings."""
    program, judge = trial.problem.program, trial.judge
    if verdict_on(trial.backend, trial.spec.caps, trial.problem, Task.MAP, trial.options, Ability.COUNTS) is None:
        raise NotForThisCase
    session = cast(CountingSession, trial.open())
    tables, chosen = _random_tables(program, np.random.default_rng(program.n_variables)), trial.selection()
    verify = Verifier(program, trial.spec.name, trial.spec.caps)
    asked = ((trial.problem.theta, None), (trial.problem.theta, chosen), (hide_others(trial.problem, chosen), chosen))
    for theta, examples in asked:
        ids = select(program, examples)
        of_these = tables.select(ids)
        solution = session.best_by_count(Question(theta, examples), of_these)
        try:
            solution = verify.counted(Question(trial.problem.theta, examples), solution, of_these)
        except BackendFault as fault:
            raise Complaint(f"best by count: the verifier refuses the answer: {fault.fault}") from None
        for i, example in enumerate(ids):
            best = float(judge.labellings(Question(theta), int(example)).worth(of_these, i).max())
            score = float(solution.score[i])
            size = judge.terms.size[example] * tables.scale.max(initial=0.0) + 1.0  # offsets are about 1
            if not (score == best or abs(score - best) <= 2.0 * judge.caps.score_atol * size):
                raise Complaint(f"example {example}: the best by counts is worth {best!r}, it says {score!r}")


def _random_tables(program: Program, rng: np.random.Generator) -> CountTables:
    """Return tables that leave out some pairs of counts, and some that labellings have."""
    counts = rng.integers(0, 3, (int(program.state_ptr[-1]), 2)) * rng.integers(0, 2, 2)
    n_variables = np.diff(program.var_ptr)
    shape = 1 + rng.integers(0, 1 + 2 * n_variables[:, None], (program.n_examples, 2))
    cells = shape[:, 0] * shape[:, 1]
    offset, scale = rng.normal(size=cells.sum()), rng.choice([0.0, 0.5, 1.0, 2.0], cells.sum())
    offset[rng.random(len(offset)) < 0.1] = -np.inf
    last = program.groups[-1:]
    spans = [CountFactors(g, rng.integers(0, 3, (g.n_tables, g.n_configs, 2))) for g in last if g.kind == ONE_SPAN]
    return CountTables(counts, shape, np.cumsum(cells) - cells, offset, scale, tuple(spans))


def check_messages(trial: BackendTrial) -> None:
    """Restart from messages, and ask where their bound is attained: at these and at other scores."""
    session, chosen, other = cast(MessageSession, trial.open()), trial.selection(), trial.other()
    theta, theirs = trial.problem.theta, other.problem.theta
    question = Question(theta, chosen)
    if hasattr(session, "dual_bound") and session.dual_bound(question) is not None:
        check_dual_bounds(trial)
        return
    solution = session.solve(question)
    if not isinstance(solution.warm, Messages) or not np.array_equal(solution.warm.ids, chosen):
        raise Complaint(f"{question}\nclaims messages but Solution.warm is no Messages of these examples")
    mine, changed = (session.slope(question.replace(theta=scores, warm=solution.warm)) for scores in (theta, theirs))
    if mine is None or changed is None:
        raise NotForThisCase
    restarted = session.solve(question.replace(limits=Limits(iterations=1), warm=solution.warm))
    rise = []
    for slope in (mine, changed):
        _one_state_each(trial.problem.program, slope, chosen)
        at = [score_marginals(trial.problem.program, scores, slope, chosen) for scores in (theta, theirs)]
        with np.errstate(invalid="ignore"):  # forbidden at both
            rise.append(at[1] - at[0])
    for i, example in enumerate(chosen.tolist()):
        slack = trial.judge.slack(example) + other.judge.slack(example)
        best, bound = float(other.judge.best(question, example)[0]), float(solution.bound[i])
        if not restarted.bound[i] <= bound + slack:
            text = f"a bound of {bound!r}, and {float(restarted.bound[i])!r} when it starts from the messages"
        elif rise[1][i] < rise[0][i] - slack:
            text = "the slope of a convex bound falls on the way to other scores"
        elif bound + rise[1][i] < best - slack:
            most = bound + rise[1][i]
            text = f"bound and slope allow labellings of at most {most:g} at other scores, one has {best:g}"
        else:
            continue
        raise Complaint(f"example {example}: {text}")


def check_dual_bounds(trial: BackendTrial) -> None:
    """Lower bounds, keep the messages, and ask for bounds and slopes there: at these scores and at others."""
    if not len(trial.selection()) or not np.isfinite(trial.problem.theta.node).all():
        raise NotForThisCase
    session, chosen, other = cast(DualBoundSession, trial.open()), trial.selection(), trial.other()
    theta, theirs, program = trial.problem.theta, other.problem.theta, trial.problem.program

    def ask(scores: Theta, iterations: int, warm: Messages | None) -> DualBound:
        found = session.dual_bound(Question(scores, chosen, warm=warm, limits=Limits(iterations=iterations)))
        if not isinstance(found, DualBound) or not np.array_equal(found.messages.ids, chosen):
            raise Complaint(f"dual_bound returned {found!r:.60}, expected a DualBound with messages of these examples")
        _distributions(program, found.marginals, chosen)
        return found

    first = ask(theta, 5, None)
    at = first, ask(theta, 0, first.messages), ask(theta, 5, first.messages), ask(theirs, 0, first.messages)
    rise = []
    for one in (first, at[3]):
        worth = [score_marginals(program, scores, one.marginals, chosen) for scores in (theta, theirs)]
        with np.errstate(invalid="ignore"):  # forbidden at both
            rise.append(worth[1] - worth[0])
    for i, example in enumerate(chosen.tolist()):
        slack = trial.judge.slack(example) + other.judge.slack(example)
        here, again, later, there = (float(one.bound[i]) for one in at)
        best = [float(one.judge.best(Question(s, chosen), example)[0]) for one, s in ((trial, theta), (other, theirs))]
        if abs(again - here) > slack:
            text = f"a bound of {here!r}, and {again!r} at the same messages"
        elif later > here + slack:
            text = f"a bound of {here!r}, and {later!r} after more iterations"
        elif here < best[0] - slack or there < best[1] - slack:
            text = f"bounds of {here!r}, and {there!r} at other scores; labellings have {best[0]!r} and {best[1]!r}"
        elif there < here + rise[0][i] - slack or here < there - rise[1][i] - slack:
            text = "the bound is below the plane of its slope at other scores"
        else:
            continue
        raise Complaint(f"example {example}: {text}")


def _distributions(program: Program, slope: Marginals, ids: I64) -> None:
    """Check that a slope is a distribution for each variable and for each factor."""
    card = program.card[members(program.var_ptr, ids)]
    expected = [int(card.sum()), *(group.shapes.count(ids) for group in program.groups)]
    if [len(slope.node), *map(len, slope.tables)] != expected:
        raise Complaint("a slope has other shapes than variables and factors")
    rows = [row for table in slope.tables for row in table]
    rows += np.split(slope.node, np.cumsum(card)[:-1]) if len(card) else []
    if any((row < 0.0).any() or abs(row.sum() - 1.0) > 1e-6 for row in rows):
        raise Complaint("a slope is a distribution for each variable and for each factor")


def _one_state_each(program: Program, slope: Marginals, ids: I64) -> None:
    """Check that a slope is one state for each variable and one joint state for each factor."""
    card = program.card[members(program.var_ptr, ids)]
    rows = [row for table in slope.tables for row in table]
    rows += np.split(slope.node, np.cumsum(card)[:-1]) if len(card) else []
    counts = [len(slope.node), *map(len, slope.tables)]
    expected = [int(card.sum()), *(group.shapes.count(ids) for group in program.groups)]
    if counts != expected or not all((np.sort(row) == np.eye(len(row))[-1]).all() for row in rows):
        raise Complaint("a slope is a one for one state of each variable and joint state of each factor, else zeros")
