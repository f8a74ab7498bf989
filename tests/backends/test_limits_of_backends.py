"""Limits inside backends: what is prepared looks at the clock, and what is too large is not made."""

from __future__ import annotations

import numpy as np
import pytest

from clocks import ticking
from constraints.constraint_cases import group_of, unlinked
from model_table import complete_graph, tagger
from ssvm_backends.graphs.deadline import UNLIMITED
from ssvm_backends.programs.side_rows import MOST_ENTRIES, SideRows, check_size
from ssvm_backends.trees import tree
from ssvm_backends.trees.chain import ViterbiSession, natural_links
from ssvm_backends.trees.tree import ForestSession
from ssvm_dsl import Dim, Factor, Hamming, Input, Label, Model, grid, ground
from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import Limits, Primal, Question, Stop, Task, Theta
from ssvm_dsl.plugin_api import Clock, ConstraintSpec, SizedKind
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import open_session


class Grid(Model):
    H, W = Dim(), Dim()
    x = Input(H, W, 1)
    y = Label(H, W, 3)
    own = Factor(y, features=x)
    edge = Factor(grid(y))
    loss = Hamming(y)


def opened(program, backend, **options):
    return open_session(program, backend, options=options)


def question(model, examples, rng):
    grounded = ground(model, examples)
    theta = Theta.zeros(grounded.program)
    grounded.parameters.fill_shared(w := rng.normal(size=grounded.parameters.dim), theta)
    grounded.parameters.fill_examples(w, theta, np.arange(len(examples)))
    return grounded.program, theta


def a_tree(n, kind):
    """One sentence of n tokens with all arcs."""
    arcs = [(h, d) for h in range(n + 1) for d in range(1, n + 1) if h != d]
    literals = [(v, 1, False, *arc) for v, arc in enumerate(arcs)]
    group = group_of(kind, [[literals]], literal_meta=("head", "dependent"), n=[n], single_root=[False])
    return with_rules(unlinked([[2] * len(arcs)], group), registry())


@pytest.mark.parametrize("backend", ["lp", "ilp", "ad3", "decompose", "brute-force", "chain", "cardinality"])
def test_a_count_that_contradicts_itself_has_no_labelling(backend):
    literals = [[(v, 1) for v in range(3)]]
    program = unlinked([[2] * 3, [2] * 3], group_of("count", [literals, literals], lower=[2, 1], upper=[1, 1]))
    found = opened(with_rules(program, registry()), backend).solve(Question(Theta.of(program, np.arange(12.0))))
    assert found.primal.tolist() == [Primal.INFEASIBLE, Primal.FEASIBLE]
    assert found.bound[0] == -np.inf


@pytest.mark.parametrize("backend", ["lp", "ilp", "ad3"])
def test_rows_are_not_begun_without_the_time_for_them(backend):
    program = a_tree(14, "projective-tree")
    theta = Theta.of(program, np.random.default_rng(0).normal(size=program.n_states))
    for time in (1e-3, 4e-3):
        with ticking() as clock:
            found = opened(program, backend).solve(Question(theta, limits=Limits(time=time)))
        assert found.stop[0] == Stop.TIME
        assert clock.looks < 60
        assert found.primal[0] == Primal.FEASIBLE  # a tree that the host finds
        assert found.score[0] <= found.bound[0] < np.inf


def test_rows_that_no_solver_takes_are_not_written():
    (group,) = a_tree(130, "projective-tree").constraints
    one = group.take(np.zeros(1, dtype=np.int64))
    assert one.rules.n_row_entries(one, 0) > MOST_ENTRIES
    with pytest.raises(TooLargeError, match=r"the linear rows of 'c' \(projective-tree\) have about"):
        check_size((one,), UNLIMITED)
    with pytest.raises(OutOfTime):
        check_size((one,), Clock.start(Limits(time=0.1)))


@pytest.mark.parametrize("name", ["arborescence", "projective-tree", "path", "circuit", "segmentation"])
def test_kinds_know_how_large_their_rows_are(name):
    spec = next(spec for spec in registry().specs(ConstraintSpec) if spec.name == name)
    kind = registry().load(spec)()
    assert isinstance(kind, SizedKind)
    for seed in range(10):
        for group in kind.problem(np.random.default_rng(seed))[0].constraints:
            for k in range(group.n_constraints):
                written = len(kind.rows(group, k).column)
                assert written / 3.0 - 30.0 <= kind.n_row_entries(group, k) <= 4.0 * written + 30.0
    if "tree" in name or name == "arborescence":
        for n in (10, 25):
            (group,) = a_tree(n, name).constraints
            written = len(kind.rows(group, 0).column)
            assert written / 3.0 <= kind.n_row_entries(group, 0) <= 3.0 * written


def test_rows_in_one_go_are_those_of_the_definition():
    """Tokens below an arc have their heads below it; of all arcs that there are."""
    program = a_tree(5, "projective-tree")
    (group,) = program.constraints
    side = SideRows.from_group(program, 0, program.n_states, program.state_ptr)
    head, dependent = (group.literal_meta[name] for name in ("head", "dependent"))
    below = 0
    for l in range(len(head)):
        low, high = sorted((int(head[l]), int(dependent[l])))
        for inner in range(low + 1, high):
            row = np.zeros(side.matrix.shape[1])
            row[2 * l + 1] = 1.0
            row[2 * np.flatnonzero((dependent == inner) & (head >= low) & (head <= high)) + 1] -= 1.0
            assert (side.matrix.toarray() == row).all(axis=1).any()
            below += 1
    assert below == 30


def test_cycles_looks_at_the_clock_while_it_searches():
    program, theta = question(Grid, [np.random.default_rng(0).normal(size=(14, 14, 1))], np.random.default_rng(1))
    session = opened(program, "cycles")
    for time in (0.01, 0.1, 0.3):
        with ticking() as clock:
            found = session.solve(Question(theta, limits=Limits(time=time)))
        assert clock.looks < 1000 * time + 60
        assert found.primal[0] == Primal.FEASIBLE
        assert found.score[0] <= found.bound[0] < np.inf


def test_combi_gives_every_example_a_labelling_before_it_searches():
    rng = np.random.default_rng(0)
    program, theta = question(complete_graph(1, 2), [rng.normal(size=(12, 1)) for _ in range(30)], rng)
    with ticking():
        found = opened(program, "combi").solve(Question(theta, limits=Limits(time=0.1)))
    assert (found.primal == Primal.FEASIBLE).all()
    assert (found.stop == Stop.TIME).any()
    assert (found.score <= found.bound).all()


def test_brute_force_looks_at_the_clock_while_it_judges():
    literals = [[[(v, 1) for v in range(n)]] for n in (3, 17)]
    program = unlinked([[2] * 3, [2] * 17], group_of("count", literals, lower=[1, 1], upper=[2, 5]))
    session = opened(with_rules(program, registry()), "brute-force")
    with ticking() as clock:
        found = session.solve(Question(Theta.of(program, np.arange(40.0)), limits=Limits(time=0.02)))
    assert clock.looks < 60
    assert found.stop.tolist() == [Stop.FINISHED, Stop.TIME]


@pytest.mark.parametrize("backend", ["chain", "tree"])
@pytest.mark.parametrize(("task", "constant"), [(Task.MARGINALS, "SUM_SECONDS"), (Task.KBEST, "LIST_SECONDS")])
def test_chains_do_not_begin_what_there_is_no_time_for(backend, task, constant, monkeypatch):
    """Steps of 9 joint states that take a second each: a limit of 30 seconds is enough for 3 of the first four."""
    rng = np.random.default_rng(0)
    program, theta = question(tagger(1, 3), [rng.normal(size=(n, 1)) for n in (2, 2, 40, 1)], rng)
    session = ForestSession(program) if backend == "tree" else ViterbiSession(program, natural_links(program))
    monkeypatch.setattr(tree, constant, 1.0)
    found = session.solve(Question(theta, task=task, k=2, limits=Limits(time=30.0)))
    assert (found.stop == Stop.TIME).tolist() == [False, False, True, True]
    assert (session.solve(Question(theta, task=task, k=2)).stop == Stop.FINISHED).all()
