"""``semi-markov`` and the kind ``segmentation``: against brute force, ``ilp``, ``lp``, definitions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from ssvm_constraints.segmentation import model_problem
from ssvm_dsl.errors import NoBackendError
from ssvm_dsl.inference.planning.planner import plan_program
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir import Program, Question, Task
from ssvm_dsl.plugin_api import ConstraintSpec, program_need, score_labels
from ssvm_dsl.plugin_api.hosting.rules import row_mistakes
from ssvm_dsl.registry import registry
from ssvm_dsl.testing import open_session
from ssvm_dsl.testing.constraints import keeps


def asked(program, backend, *questions):
    session = open_session(program, backend, {question.task for question in questions})
    return [session.solve(question) for question in questions]


def all_segmentations(n, longest, k):
    if n == 0:
        return [()]
    lasts = [(l, b) for l in range(1, min(longest, n) + 1) for b in range(k)]
    return [(*rest, (n - l, n, b)) for l, b in lasts for rest in all_segmentations(n - l, longest, k)]


def labels_of(segments, n, longest):
    classes, begins, spans = np.zeros(n, np.int32), np.zeros(n, np.int32), np.zeros((n, longest), np.int32)
    for start, end, b in segments:
        classes[start:end], begins[start], spans[start, end - start - 1] = b, 1, b + 1
    return np.concatenate([classes, begins, spans.ravel()])


def full_problem(seed, n, longest, k):
    """One segmentation with factors, and nothing else."""
    rng = np.random.default_rng(seed)
    while True:
        program, theta = model_problem(rng, [(n, longest)], k)
        if program.groups and program.n_variables == 2 * n + n * longest and program.allowed is None:
            return program, theta


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_of_all_segmentations(seed):
    n, longest, k = 6, 3, 2
    program, theta = full_problem(seed, n, longest, k)
    every = [labels_of(one, n, longest) for one in all_segmentations(n, longest, k)]
    scores = np.array([score_labels(program, theta, one)[0] for one in every])
    (best, listed, sums) = asked(
        program, "semi-markov", Question(theta), Question(theta, task=Task.KBEST, k=9),
        Question(theta, task=Task.MARGINALS),
    )  # fmt: skip
    assert best.score[0] == pytest.approx(scores.max())
    np.testing.assert_allclose(listed.score[:, 0], np.sort(scores)[::-1][:9])
    assert len(np.unique(listed.labels, axis=0)) == 9
    assert sums.log_partition[0] == pytest.approx(np.logaddexp.reduce(scores))
    p = np.exp(scores - np.logaddexp.reduce(scores))
    states = np.concatenate([[q for c, y in zip(program.card, one) for q in np.eye(c)[y]] for one in every])
    np.testing.assert_allclose(sums.marginals.node, p @ states.reshape(len(every), -1), atol=1e-9)


def holds(meta, places, true):
    """Whether the true literals describe a segmentation; from the definition."""
    spans = {place for place, bit in zip(places, true) if bit and place[0] < place[1]}
    if sorted(t for s, e, _ in spans for t in range(s, e)) != list(range(meta["n"])):
        return False
    for (start, stop, kind), bit in zip(places, true):
        if start == stop:
            mine = [one for one in spans if (one[0] == start if kind == -1 else one[0] <= start < one[1])]
            if bit != any(kind in (-1, one[2]) for one in mine):
                return False
        elif bit != ((start, stop, kind) in spans):
            return False
    return True


def test_what_the_kind_calls_broken_and_its_rows():
    seen, rng = set(), np.random.default_rng(0)
    kind = registry().load(registry().find(ConstraintSpec, "segmentation"))()
    for seed in range(8):
        (group,) = with_rules(kind.problem(np.random.default_rng(seed))[0], registry()).constraints
        for k in range(group.n_constraints):
            one, part = group.only(np.array([k])), group.literals(k)
            places = list(zip(*(group.literal_meta[name][part].tolist() for name in ("start", "stop", "class"))))
            meta = {name: value[k].item() for name, value in group.meta.items()}
            rows = one.rules.rows(one, 0)
            assert not row_mistakes(rows, len(places))
            for bits in rng.permutation(list(itertools.product([False, True], repeat=min(len(places), 9))))[:60]:
                true = np.zeros(len(places), dtype=bool)
                true[: len(bits)] = bits
                right = holds(meta, places, true.tolist())
                assert one.rules.violated(one, true).tolist() == [not right]
                assert keeps(rows, true) == right
                seen.add(right)
    assert seen == {True, False}


def test_auto_prefers_it_and_other_programs_are_refused():
    program, _ = full_problem(0, 6, 3, 2)
    assert plan_program(program, program_need(program)).backend == "semi-markov"
    group = program.constraints[0]
    moved = Program(program.var_ptr, program.card, program.groups, (group, group))
    assert not program_need(moved).segmented  # variables of two constraints
    with pytest.raises(NoBackendError, match="the factors and constraints that a label of segments has"):
        plan_program(moved, program_need(moved), "semi-markov")
