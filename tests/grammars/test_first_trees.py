"""Trees that searches begin with: there is one wherever the grammar has any, and it is a parse."""

from __future__ import annotations

import numpy as np
import pytest
from parses_by_hand import parses

from ssvm_dsl import Dim, Factor, Grammar, Hamming, Input, Label, Model, ParseTree, ground, leaves, rules
from ssvm_dsl.compiler.labels.trees import shared_arrays
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.session import open_plan
from ssvm_dsl.inference.starting.labelling import starting_labelling
from ssvm_dsl.ir import GrammarArrays, Limits, Primal, Question, Stop, Theta
from ssvm_dsl.kernels.derivable import parse_lengths
from ssvm_dsl.plugin_api import program_need


def random_tree(rng, n, names):
    """A bracketed tree of n words; sentences of this grammar often have lengths of one parity only."""
    if n == 1:
        tag = f"(T{rng.integers(names)} w)"
        return f"(A{rng.integers(names)} {tag})" if rng.random() < 0.3 else tag
    k = int(rng.integers(1, n))
    return f"(N{rng.integers(names)} {random_tree(rng, k, names)} {random_tree(rng, n - k, names)})"


def random_grammar(seed):
    rng = np.random.default_rng(seed)
    trees = [f"(S {random_tree(rng, int(n), 2)} {random_tree(rng, 1, 2)})" for n in rng.integers(1, 4, 2)]
    if seed % 3 == 0:
        trees.append(f"(S {' '.join(random_tree(rng, 1, 2) for _ in range(4))})")  # parts of a phrase
    return Grammar.from_trees([ParseTree.of(one) for one in trees], horizontal=seed % 2)


def parser(grammar):
    class Sentence(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, grammar=grammar)
        leaf = Factor(leaves(y), features=x)
        rule = Factor(rules(y))
        loss = Hamming(y)

    return Sentence


@pytest.mark.parametrize("seed", range(12))
def test_there_is_a_tree_wherever_the_grammar_has_one(seed):
    grammar, rng = random_grammar(seed), np.random.default_rng(seed)
    for n in range(1, 7):
        program = ground(parser(grammar), [rng.normal(size=(n, 2))]).program
        tables = [rng.normal(size=(group.n_tables, group.n_configs)) for group in program.groups]
        found = starting_labelling(program, Question(Theta.of(program, rng.normal(size=program.n_states), tables)))
        assert np.isfinite(found.score[0]) == any(True for _ in parses(grammar, n))  # labels were held against the tree


def test_a_search_for_a_tree_has_an_end():
    numbers = shared_arrays(random_grammar(0))
    arrays = GrammarArrays(**{name: numbers[name] for name in GrammarArrays._fields})
    assert parse_lengths(arrays, 40, 10**9).there[3:].any()
    assert not parse_lengths(arrays, 40, 1).there[3:].any()


@pytest.mark.parametrize("n", [3, 6])
def test_a_sentence_without_time_has_a_tree_and_a_bound(n):
    rng, (need, grounded) = np.random.default_rng(n), planned(n)
    program = grounded.program
    tables = [rng.normal(size=(group.n_tables, group.n_configs)) for group in program.groups]
    theta = Theta.of(program, rng.normal(size=program.n_states), tables)
    session = open_plan(plan(need, "cky"), program)
    best, found = session.solve(Question(theta)), session.solve(Question(theta, limits=Limits(time=0.0)))
    assert (found.stop == Stop.TIME).all()
    assert (found.primal == Primal.FEASIBLE).all()
    assert (found.score <= best.score + 1e-9).all()
    assert (best.score <= found.bound).all()


def planned(n):
    trees = [ParseTree.of("(S (NP (D the) (N dog)) (VP (V saw) (NP (N cats))))"), ParseTree.of("(S (N it) (S (V is)))")]
    grounded = ground(parser(Grammar.from_trees(trees)), [np.zeros((4, 2)), np.zeros((n, 2))])
    return program_need(grounded.program), grounded
