"""Random grammars: every question to ``cky`` against all parses by hand, and trainers that agree on the optimum."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "grammars"))

from parses_by_hand import parses, worth

from ssvm_dsl import (
    Cost,
    Dim,
    Factor,
    Grammar,
    Hamming,
    Input,
    Label,
    Model,
    PartialTree,
    StructuredSVM,
    ground,
    leaves,
    rules,
    spans,
)
from ssvm_dsl.errors import InfeasibleError, OptionError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.ir import Question, Task, Theta
from ssvm_dsl.plugin_api import program_need

UNIT, SHORT, LIMIT = "answers", 6, 90.0

#: More parses than this of a sentence are not listed.
MOST = 2000


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Draw a grammar, and compare answers and fits."""
    try:
        grammar = draw_grammar(rng)
    except OptionError:
        return 0  # a symbol that derives nothing
    model = parser_of(grammar)
    n = int(rng.integers(1, 6))
    if not 0 <= grammar.n_parses([""] * n) <= MOST:
        return 0
    tried = questions(model, grammar, n, rng)
    return tried + (fits(model, grammar, rng) if rng.random() < 0.3 else 0)


def draw_grammar(rng: np.random.Generator) -> Grammar:
    """Return a grammar of a few symbols, some of which derive themselves."""
    phrases, words = "SAB"[: rng.integers(1, 4)], "abc"[: rng.integers(1, 4)]
    if rng.random() < 0.3:
        words += "A"  # a phrase that is a part of speech, too
    made = {("S", (str(rng.choice(list(phrases + words))),))} if rng.random() < 0.5 else set()
    for _ in range(int(rng.integers(2, 9))):
        right = rng.choice(list(phrases + words), size=int(rng.choice([1, 2, 2, 3])))
        made.add((str(rng.choice(list(phrases))), tuple(map(str, right))))
    return Grammar(sorted(made), start=list(phrases[: rng.integers(1, 3)]), tags=words)


def parser_of(grammar: Grammar) -> Any:
    """Return a model of the parses of a grammar."""

    class Parser(Model):
        T = Dim()
        x = Input(T, 2)
        pair = Input(T, T, 1)
        y = Label(T, grammar=grammar)
        leaf = Factor(leaves(y), features=x)
        span = Factor(spans(y), features=pair)
        rule = Factor(rules(y))
        loss = Cost(spans(y), "wrong") + Hamming(y)

    return Parser


def inputs(n: int, rng: np.random.Generator) -> dict[str, Any]:
    """Return the inputs of a sentence."""
    return {"x": rng.normal(size=(n, 2)), "pair": rng.normal(size=(n, n, 1))}


def questions(model: Any, grammar: Grammar, n: int, rng: np.random.Generator) -> int:
    """Compare the answers to all questions about a sentence with all of its parses."""
    program = ground(model, [inputs(n, rng)], None).program
    (group,), size, whole = program.groups, 10.0 ** rng.uniform(-3, 3), rng.random() < 0.3
    node, table = size * rng.normal(size=program.n_states), size * rng.normal(size=(group.n_tables, group.n_configs))
    theta = Theta.of(program, np.rint(node) if whole else node, [np.rint(table) if whole else table])
    every = list(parses(grammar, n))
    assert len(every) == counted(grammar, n), (len(every), counted(grammar, n))
    if not every:
        assert asked(program, theta, Task.MAP).primal[0] != 0, "a labelling of a sentence without a parse"
        return 1
    worths, tags = by_hand(program, theta, grammar, every, n)
    close = 1e-9 * (1.0 + np.abs(worths).max())
    best = asked(program, theta, Task.MAP)
    assert abs(best.score[0] - worths.max()) <= close, (best.score, worths.max())
    k = int(rng.integers(1, 8))
    ranked = asked(program, theta, Task.KBEST, k=k)
    listed = ranked.score[:, 0][np.isfinite(ranked.score[:, 0])]
    assert np.allclose(listed, np.sort(worths)[::-1][:k], rtol=0.0, atol=close), (listed, np.sort(worths)[::-1][:k])
    assert len({one.tobytes() for one in ranked.labels[: len(listed)]}) == len(listed)
    sums = asked(program, theta, Task.MARGINALS)
    log_z = float(np.logaddexp.reduce(worths))
    assert abs(sums.log_partition[0] - log_z) <= close, (sums.log_partition, log_z)
    chances = np.exp(worths - log_z)
    assert sums.marginals is not None
    for t in range(n):
        expected = np.bincount(tags[:, t], weights=chances, minlength=len(grammar.tags))
        v = program.constraints[0].variable[t]
        found = sums.marginals.node[program.state_ptr[v] : program.state_ptr[v + 1]]
        assert np.allclose(found, expected, rtol=0.0, atol=1e-7), (t, found, expected)
    clamp = np.where(rng.random(len(best.labels)) < 0.3, ranked.labels[-1 if len(listed) == k else 0], -1)
    known = asked(program, theta, Task.MAP_CLAMPED, clamp=clamp.astype(np.int32))
    fixed = [clamp[program.constraints[0].variable[t]] for t in range(n)]
    able = worths[[all(mark in (-1, tag) for mark, tag in zip(fixed, row, strict=True)) for row in tags]]
    assert known.score[0] <= able.max() + close
    assert (known.labels[clamp >= 0] == clamp[clamp >= 0]).all()
    return 4


def asked(program: Any, theta: Any, task: Task, **more: Any) -> Any:
    """Return the answer of ``cky``."""
    session = open_plan(plan(program_need(program, frozenset({task})), backend="cky"), program)
    return session.solve(Question(theta, None, task, **more))


def counted(grammar: Grammar, n: int) -> int:
    """Return the number of parses of n words, each of which may have every tag."""
    return int(grammar.n_parses([""] * n))


def by_hand(program: Any, theta: Any, grammar: Grammar, every: list[Any], n: int) -> tuple[Any, Any]:
    """Return (score of each parse, its tags)."""
    node = [theta.node[program.state_ptr[v] : program.state_ptr[v + 1]] for v in program.constraints[0].variable]
    tag, span = np.array(node[:n]), np.array(node[n : n + n * n]).reshape(n, n, -1)
    first, second = np.array(node[n + n * n :]).reshape(2, n, -1)
    table = theta.tables[0][program.groups[0].factors(0)[1]]
    code = (first[:, :, None] + second[:, None, :]).reshape(n, -1) + table
    none = code[0, 0]
    rule = np.ascontiguousarray(code[:, 1 : len(grammar.binary) + 1])
    worths = none + np.array([worth(grammar, one, tag, span, rule) for one in every])
    tags = np.zeros((len(every), n), dtype=int)
    for row, one in zip(tags, every, strict=True):
        for part in one:
            if part[0] == "tag":
                row[part[1]] = grammar.tags.index(part[2])
    return worths, tags


def fits(model: Any, grammar: Grammar, rng: np.random.Generator) -> int:
    """Compare the optima of trainers, on parses that random weights find best."""
    X = [inputs(n, rng) for n in rng.integers(1, 5, size=4).tolist() if grammar.n_parses([""] * n)]
    if not X:
        return 0
    blocks = ground(model, X, None).parameters.blocks
    drawn = StructuredSVM.from_weights(model, {block.name: rng.normal(size=block.shape) for block in blocks})
    try:
        Y = drawn.predict(X)
    except InfeasibleError:
        return 0
    C, found = float(10.0 ** rng.uniform(-2, 1)), []
    for trainer, risk in (("bcfw", "margin"), ("one-slack", "margin"), ("lbfgs", "log"), ("bundle", "log")):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            svm = StructuredSVM(model, C=C, trainer=trainer, risk=risk, tol=1e-4, max_passes=200, random_state=0)
            found.append(svm.fit(X, Y).report_)
    for one, other in (found[:2], found[2:]):
        slack = 1e-9 * (abs(one.primal) + abs(other.primal))
        assert one.dual <= other.primal + slack, (one, other)
        assert other.dual <= one.primal + slack, (one, other)
    return len(found) + learnt_grammars(X, Y, rng)


def learnt_grammars(X: list[Any], Y: list[Any], rng: np.random.Generator) -> int:
    """A grammar read off trees derives them, however it binarises, and so do all parts of them that are given."""
    options = {
        "binarize": str(rng.choice(["left", "right"])), "vertical": int(rng.integers(1, 3)),
        "horizontal": [0, 1, 2, None][rng.integers(4)],
    }  # fmt: skip
    try:
        grammar = Grammar.from_trees(Y, **options)
    except OptionError:
        return 0
    model = parser_of(grammar)
    grounded = ground(model, X, Y)
    assert grounded.layout.decode(grounded.truth) == Y, options
    blocks = grounded.parameters.blocks
    svm = StructuredSVM.from_weights(model, {block.name: rng.normal(size=block.shape) for block in blocks})
    for x, tree in zip(X, Y, strict=True):
        marks = [tag if rng.random() < 0.5 else None for tag in tree.tags]
        phrases = [(*one[:2], one.label if rng.random() < 0.5 else None) for one in tree.brackets()]
        phrases = [one for one in phrases if rng.random() < 0.5]
        (found,) = svm.predict([x], given=[PartialTree(marks, phrases)])
        assert all(mark in (None, tag) for mark, tag in zip(marks, found.tags, strict=True)), (marks, found)
        mine = {(one[0], one[1], one.label) for one in found.brackets()}
        spans_ = {one[:2] for one in mine}
        assert all((one in mine) if one[2] else (one[:2] in spans_) for one in phrases), (phrases, found)
        assert svm.best_score([x])[0] >= svm.best_score([x], [tree])[0] - 1e-9
    return len(X)
