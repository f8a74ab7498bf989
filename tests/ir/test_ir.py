"""The intermediate representation: validation, topology and order, hashing, ragged indices, scores."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ssvm_dsl.ir import Block, ConstraintGroup, Group, Primal, Program, Solution, Theta, Topology
from ssvm_dsl.ir.ragged import members, owners, pointers, positions, runs
from ssvm_dsl.ir.solution import join_solutions, label_ptr, select
from ssvm_dsl.plugin_api import program_need, score_labels
from ssvm_dsl.testing.problems import Recipe, catalogue, grouped, seeded
from ssvm_dsl.testing.strategies import problems


def pair_group(**changes):
    """Factors (0, 1) of example 0 and (2, 3) of example 1, over variables of (2, 3) states."""
    whole = {
        "name": "pair",
        "cards": (2, 3),
        "scope": np.array([[0, 1], [2, 3]], np.int32),
        "ptr": np.array([0, 1, 2]),
        "table": np.array([0, 1], np.int32),
        "n_tables": 2,
        "var_ptr": np.array([0, 2, 4]),
    }
    return Group.of(**(whole | changes))


def program(group=None, **changes):
    whole = {
        "var_ptr": np.array([0, 2, 4]),
        "card": np.array([2, 3, 2, 3], np.int32),
        "groups": (pair_group() if group is None else group,),
    }
    return Program(**(whole | changes))


# -- validation ------------------------------------------------------------------------------------------


def test_a_good_program_is_returned():
    good = program(allowed=np.ones(10, bool))
    assert good.validate() is good


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"var_ptr": np.array([0, 2, 4], np.int32)}, "var_ptr starts with 0, int64"),
        ({"var_ptr": np.array([1, 2, 4])}, "var_ptr starts with 0"),
        ({"var_ptr": np.array([0, 5, 4])}, "var_ptr does not decrease"),
        ({"var_ptr": np.array([0, 2, 3])}, "var_ptr ends with the number of variables"),
        ({"card": np.array([2, 3, 2, 3])}, "card is int32, at least 1"),
        ({"card": np.array([2, 0, 2, 3], np.int32)}, "card is int32, at least 1"),
        ({"allowed": np.ones(9, bool)}, "allowed has one bool for each state"),
        ({"allowed": np.ones(10)}, "allowed has one bool for each state"),
        ({"role": np.zeros(3, np.int8)}, "role has one int8 for each variable"),
        ({"role": np.zeros(4)}, "role has one int8 for each variable"),
    ],
)
def test_bad_programs_are_refused(changes, message):
    with pytest.raises(ValueError, match=f"^program: {message}"):
        program(**changes).validate()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"cards": (2,), "scope": np.array([[0], [2]], np.int32)},
            "factors join two or more variables; unary scores are node",
        ),
        ({"scope": np.array([[0, 1], [2, 3]])}, "scope"),
        ({"scope": np.array([[0, 1, 2], [2, 3, 0]], np.int32)}, "scope"),
        ({"ptr": np.array([0, 2])}, "ptr$"),
        ({"ptr": np.array([0, 1, 1])}, "ptr runs from 0 to the number of factors"),
        ({"ptr": np.array([1, 1, 2])}, "ptr runs from 0 to the number of factors"),
        ({"ptr": np.array([0, 3, 2])}, "ptr does not decrease"),
        ({"ptr": np.array([0, 1, 2], np.int32)}, "ptr$"),
        ({"table": np.array([0, 1])}, "table"),
        ({"table": np.array([0], np.int32)}, "table"),
        ({"table": np.array([0, 2], np.int32)}, "table rows"),
        ({"table": np.array([0, -1], np.int32)}, "table rows"),
        ({"scope": np.array([[0, 1], [2, 4]], np.int32)}, "a factor reaches out of its example"),
        ({"scope": np.array([[-1, 1], [2, 3]], np.int32)}, "a factor reaches out of its example"),
        ({"scope": np.array([[1, 0], [2, 3]], np.int32)}, r"cards differ from card\[scope\]"),
        ({"scope": np.array([[0, 3], [2, 3]], np.int32)}, "a factor reaches out of its example"),
        ({"ptr": np.array([0, 2, 2])}, "a factor reaches out of its example"),
        ({"cards": (2, 2), "scope": np.array([[0, 0], [2, 2]], np.int32)}, "a factor names a variable twice"),
    ],
)
def test_bad_groups_are_refused(changes, message):
    with pytest.raises(ValueError, match=f"^program: group pair: {message}"):
        program(pair_group(**changes)).validate()


def test_a_group_without_factors_is_fine():
    nothing = pair_group(
        scope=np.zeros((0, 2), np.int32), ptr=np.zeros(3, np.int64), table=np.zeros(0, np.int32), n_tables=0
    )
    assert program(nothing).validate().max_arity == 1


@pytest.mark.parametrize("name", catalogue())
def test_sizes_of_corner_cases(name):
    one = catalogue()[name].program.validate()
    assert one.n_states == one.card.sum()
    assert one.state_ptr.tolist() == [int(one.card[:v].sum()) for v in range(one.n_variables + 1)]
    assert one.uniform_card == (one.card[0] if len(set(one.card.tolist())) == 1 else 0)
    for i in range(one.n_examples):
        assert one.n_labellings(i) == np.prod(one.card[one.var_ptr[i] : one.var_ptr[i + 1]])


def test_labellings_overflow_to_infinity():
    many = Program(np.array([0, 2000]), np.full(2000, 2, np.int32))
    assert many.n_labellings(0) == np.inf
    assert program_need(many).max_labellings == np.inf


def test_strides_follow_c_order():
    group = replace(pair_group(), cards=(4, 3, 2))
    assert group.strides.tolist() == [6, 2, 1]
    assert group.n_configs == 24
    table = np.arange(24).reshape(4, 3, 2)
    assert table[2, 1, 1] == np.array([2, 1, 1]) @ group.strides


# -- topology and order ------------------------------------------------------------------------------------


def build(n_variables, edges):
    """A program of examples with two-state variables; ``edges`` has one list for each example."""
    cards = [[2] * n for n in n_variables]
    factors = [("t", example, edge) for example, some in enumerate(edges) for edge in some]
    card = np.full(sum(n_variables), 2, np.int32)
    return Program(pointers(np.array(n_variables)), card, tuple(grouped(cards, factors))).validate()


def graph(n, edges):
    g = nx.Graph()
    g.add_nodes_from(range(n))
    g.add_edges_from(edges)
    return g


def shape_of(g):
    if not all(nx.is_tree(g.subgraph(part)) for part in nx.connected_components(g)):
        return Topology.LOOPY
    return Topology.FOREST if max((d for _, d in g.degree), default=0) > 2 else Topology.CHAIN


@st.composite
def batches(draw):
    """A few graphs: random ones, random trees with parts cut off, and paths in random numbering."""
    n_variables = draw(st.lists(st.integers(0, 8), min_size=1, max_size=4))
    edges = []
    for n in n_variables:
        number = draw(st.permutations(range(n)))
        kind = draw(st.sampled_from(["path", "tree", "any"]))
        some = []
        for v in range(1, n):
            if kind == "any":
                some += [(u, v) for u in range(v) if draw(st.integers(0, 3)) == 0]
            elif draw(st.integers(0, 5)):
                some.append((v - 1 if kind == "path" else draw(st.integers(0, v - 1)), v))
        turned = [(b, a) if draw(st.booleans()) else (a, b) for a, b in some]
        edges.append([(number[a], number[b]) for a, b in turned])
        if some and draw(st.booleans()):
            edges[-1].append(edges[-1][0][::-1])  # a second factor on the same pair is not a cycle
    return n_variables, edges


@settings(max_examples=50)
@given(batch=batches())
def test_topology_against_networkx(batch):
    n_variables, edges = batch
    made = build(n_variables, edges)
    expected = [shape_of(graph(n, some)) for n, some in zip(n_variables, edges)]
    assert made.topology.tolist() == expected
    assert made.hardest_topology == max(expected)


@settings(max_examples=50)
@given(batch=batches())
def test_order_eliminates_leaves_before_their_parents(batch):
    """In a forest every variable but one of each component has exactly one neighbour later in the order."""
    n_variables, edges = batch
    made = build(n_variables, edges)
    assert sorted(made.order.tolist()) == list(range(made.n_variables))
    for i, (n, some) in enumerate(zip(n_variables, edges)):
        lo = made.var_ptr[i]
        local = (made.order[lo : made.var_ptr[i + 1]] - lo).tolist()
        assert sorted(local) == list(range(n))
        g = graph(n, some)
        if shape_of(g) is Topology.LOOPY:
            continue
        place = {v: k for k, v in enumerate(local)}
        for part in nx.connected_components(g):
            later = sorted(sum(place[u] > place[v] for u in g[v]) for v in part)
            assert later == [0] + [1] * (len(part) - 1)


@settings(max_examples=40)
@given(batch=batches())
def test_order_walks_paths_from_one_end_to_the_other(batch):
    n_variables, edges = batch
    made = build(n_variables, edges)
    for i, (n, some) in enumerate(zip(n_variables, edges)):
        g = graph(n, some)
        if shape_of(g) is not Topology.CHAIN:
            continue
        lo = made.var_ptr[i]
        local = (made.order[lo : made.var_ptr[i + 1]] - lo).tolist()
        for part in nx.connected_components(g):
            walk = [v for v in local if v in part]
            assert all(g.has_edge(a, b) for a, b in pairwise(walk))


@pytest.mark.parametrize("n", [1, 2, 7])
def test_natural_chains_keep_the_plain_order(n):
    made = build([n, 0, n], [[(v, v + 1) for v in range(n - 1)], [], []])
    assert made.topology.tolist() == [Topology.CHAIN] * 3
    assert made.order.tolist() == list(range(2 * n))


@pytest.mark.parametrize("name", ["parity of three", "arity four"])
def test_large_factors_count_as_loopy(name):
    assert catalogue()[name].program.hardest_topology is Topology.LOOPY


def test_only_the_example_with_the_large_factor_is_loopy():
    factors = [("t", 0, (0, 1)), ("c", 1, (0, 1, 2))]
    made = Program(np.array([0, 2, 5]), np.full(5, 2, np.int32), tuple(grouped([[2] * 2, [2] * 3], factors)))
    assert made.topology.tolist() == [Topology.CHAIN, Topology.LOOPY]


def test_ten_thousand_variables_take_no_time_to_order():
    n = 10_000
    rng = np.random.default_rng(0)
    scope = np.array([[rng.integers(0, v), v] for v in range(1, n)], np.int32)
    group = Group.of("t", (2, 2), scope, np.array([0, n - 1]), np.zeros(n - 1, np.int32), 1, np.array([0, n]))
    made = Program(np.array([0, n]), np.full(n, 2, np.int32), (group,)).validate()
    assert made.hardest_topology is Topology.FOREST
    place = np.empty(n, int)
    place[made.order] = np.arange(n)
    first, second = place[scope].T
    later = np.bincount(np.where(first < second, scope[:, 0], scope[:, 1]), minlength=n)
    assert sorted(later.tolist()) == [0] + [1] * (n - 1)


# -- content hash --------------------------------------------------------------------------------------------

MEMBERS = (np.array([0, 1, 1]), np.array([0, 2]), np.array([0, 1], np.int32), np.array([0, 1], np.int32))


def constraint(kind="at-most", negated=(False, False), **meta):
    values = {key: np.array(value) for key, value in meta.items()}
    return ConstraintGroup(kind, "c", *MEMBERS, np.array(negated), values)


def test_the_hash_is_that_of_the_content():
    assert program().content_hash == program().content_hash
    assert len(program().content_hash) == 64
    again = program(pair_group(scope=np.array([[0, 1], [2, 3]], np.int32).copy()))
    assert again.content_hash == program().content_hash


CHANGES = {
    "plain": {},
    "card": {"card": np.array([2, 3, 2, 4], np.int32)},
    "examples": {"var_ptr": np.array([0, 4])},
    "allowed": {"allowed": np.ones(10, bool)},
    "another mask": {"allowed": np.arange(10) != 3},
    "role": {"role": np.zeros(4, np.int8)},
    "latent": {"role": np.array([0, 0, 0, 1], np.int8)},
    "no groups": {"groups": ()},
    "two groups": {"groups": (pair_group(), pair_group())},
    "group name": {"groups": (pair_group(name="other"),)},
    "group kind": {"groups": (pair_group(kind="potts"),)},
    "cards": {"groups": (pair_group(cards=(3, 2)),)},
    "scope": {"groups": (pair_group(scope=np.array([[0, 1], [3, 2]], np.int32)),)},
    "rows": {"groups": (pair_group(table=np.array([1, 0], np.int32)),)},
    "pool": {"groups": (pair_group(n_tables=3),)},
    "ptr": {"groups": (pair_group(ptr=np.array([0, 2, 2])),)},
    "constraint": {"constraints": (constraint(),)},
    "constraint kind": {"constraints": (constraint("at-least"),)},
    "negation": {"constraints": (constraint(negated=(True, False)),)},
    "meta": {"constraints": (constraint(bound=[1]),)},
    "meta value": {"constraints": (constraint(bound=[2]),)},
    "block": {"blocks": (Block("w", 0, (3,)),)},
    "block shape": {"blocks": (Block("w", 0, (4,)),)},
}


def test_every_change_of_structure_changes_the_hash():
    hashes = {name: program(**changes).content_hash for name, changes in CHANGES.items()}
    assert len(set(hashes.values())) == len(hashes), sorted(hashes.items(), key=lambda pair: pair[1])


@settings(max_examples=20)
@given(problem=problems())
def test_the_hash_survives_a_copy_of_all_arrays(problem):
    groups = tuple(
        replace(group, shapes=replace(group.shapes, scope=group.shapes.scope.copy(order="F")), rows=group.rows.copy())
        for group in problem.program.groups
    )
    copied = replace(problem.program, card=problem.program.card.copy(), groups=groups)
    assert copied.content_hash == problem.program.content_hash


# -- ragged indices ------------------------------------------------------------------------------------------

lengths = st.lists(st.integers(0, 4), max_size=6)


@given(sizes=lengths)
def test_pointers_and_owners(sizes):
    ptr = pointers(np.array(sizes, dtype=np.int64))
    assert ptr.dtype == np.int64
    assert ptr.tolist() == [sum(sizes[:i]) for i in range(len(sizes) + 1)]
    assert owners(ptr).tolist() == [i for i, size in enumerate(sizes) for _ in range(size)]


@given(data=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), max_size=6))
def test_runs(data):
    starts, sizes = (
        (np.array(column, dtype=np.int64) for column in zip(*data)) if data else (np.zeros(0, np.int64),) * 2
    )
    assert runs(starts, sizes).tolist() == [s + j for s, k in data for j in range(k)]


@given(sizes=lengths, picks=st.lists(st.integers(0, 5), max_size=6))
def test_members_and_positions(sizes, picks):
    ptr = pointers(np.array(sizes, dtype=np.int64))
    chosen = np.array([p for p in picks if p < len(sizes)], dtype=np.int64)
    expected = [v for i in chosen for v in range(ptr[i], ptr[i + 1])]
    assert members(ptr, chosen).tolist() == expected
    everything = np.arange(ptr[-1])
    assert everything[positions(ptr, chosen)].tolist() == expected
    assert everything[positions(ptr, None)].tolist() == everything.tolist()


@given(examples=st.lists(st.integers(0, 5), max_size=5))
def test_positions_of_a_range_of_examples_are_a_slice(examples):
    found = positions(np.arange(7), np.array(examples, dtype=np.int64))
    is_range = not examples or examples == list(range(examples[0], examples[0] + len(examples)))
    assert isinstance(found, slice) == is_range
    assert np.arange(6)[found].tolist() == examples
    assert positions(np.arange(7), None) == slice(0, 6)


# -- scores ----------------------------------------------------------------------------------------------------


def test_theta_is_laid_out_for_the_program():
    theta = Theta.of(program(), np.arange(10.0), [np.arange(12.0).reshape(2, 2, 3)], [1.0, 2.0])
    assert theta.tables[0].shape == (2, 6)
    assert theta.pool.tolist() == list(range(12))
    assert theta.tables[0].base is theta.pool or np.shares_memory(theta.tables[0], theta.pool)
    assert theta.offsets.tolist() == [0, 12]
    zero = Theta.of(program())
    assert not zero.node.any()
    assert not zero.pool.any()
    assert zero.const.tolist() == [0.0, 0.0]


def test_theta_copies_what_it_is_given_and_copies_deeply():
    node = np.zeros(10)
    theta = Theta.of(program(), node, [np.ones((2, 6))])
    node[:] = 5.0
    assert not theta.node.any()
    twin = theta.copy()
    twin.node[:], twin.tables[0][:], twin.const[:] = 1.0, 2.0, 3.0
    assert not theta.node.any()
    assert (theta.pool == 1.0).all()
    assert (twin.pool == 2.0).all()
    assert not theta.const.any()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"node": np.zeros(9)}, "node has 9 entries, expected 10"),
        ({"const": [1.0]}, "const has 1 entries, expected 2"),
        ({"tables": [np.zeros((1, 6))]}, "table of group pair has 6 entries, expected 12"),
        ({"tables": [np.zeros((2, 6))] * 2}, "1 tables expected, 2 given"),
        ({"node": np.full(10, np.nan)}, "node holds nan"),
        ({"const": [0.0, np.inf]}, r"const holds nan or \+inf"),
        ({"tables": [np.full((2, 6), np.nan)]}, "table of group pair holds nan"),
    ],
)
def test_bad_scores_are_refused(arguments, message):
    with pytest.raises(ValueError, match=f"^theta: {message}"):
        Theta.of(program(), **arguments)


def test_minus_infinity_is_a_score():
    assert Theta.of(program(), np.full(10, -np.inf)).node[0] == -np.inf


def test_a_copy_of_theta_with_two_groups_keeps_them_apart():
    two = program(groups=(pair_group(), pair_group(name="b")))
    theta = Theta.of(two, None, [np.full((2, 6), 1.0), np.full((2, 6), 2.0)]).copy()
    theta.tables[1][:] = 7.0
    assert (theta.tables[0] == 1.0).all()
    assert theta.pool.tolist() == [1.0] * 12 + [7.0] * 12


@settings(max_examples=30)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_score_labels_by_loops(problem, seed):
    one, theta = problem.program, problem.theta
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, one.card).astype(np.int32)
    expected = theta.const.copy()
    for i in range(one.n_examples):
        for v in range(one.var_ptr[i], one.var_ptr[i + 1]):
            expected[i] += theta.node[one.state_ptr[v] + labels[v]]
        for group, table in zip(one.groups, theta.tables):
            for f in range(group.ptr[i], group.ptr[i + 1]):
                expected[i] += table[group.table[f]].reshape(group.cards)[tuple(labels[group.scope[f]])]
    np.testing.assert_allclose(score_labels(one, theta, labels), expected, rtol=1e-9, atol=1e-9)
    chosen = rng.permutation(one.n_examples)[: rng.integers(0, one.n_examples + 1)]
    packed = np.concatenate([labels[one.var_ptr[i] : one.var_ptr[i + 1]] for i in chosen] or [labels[:0]])
    scores = score_labels(one, theta, packed, chosen)
    np.testing.assert_allclose(scores, expected[chosen], rtol=1e-9, atol=1e-9)


def test_selection_helpers():
    one = seeded(Recipe(n_examples=4, empty=True), 2).program
    assert select(one, None).tolist() == list(range(5))
    chosen = np.array([3, 0])
    assert select(one, chosen) is chosen
    assert np.diff(label_ptr(one, chosen)).tolist() == np.diff(one.var_ptr)[chosen].tolist()
    assert label_ptr(one, None) is one.var_ptr


def test_exact_solutions_carry_their_score_as_bound():
    solution = Solution.exact(np.zeros(2, np.int32), np.array([1.0, -np.inf]))
    assert solution.bound.tolist() == [1.0, -np.inf]
    assert solution.primal.tolist() == [Primal.FEASIBLE, Primal.INFEASIBLE]
    several = Solution.exact(np.zeros((2, 1), np.int32), np.array([[3.0], [2.0]]))
    assert several.bound.tolist() == [3.0]
    assert several.bound.base is None


def test_counters_of_joined_solutions_add_up():
    parts = [Solution.exact(np.zeros(1, np.int32), np.array([1.0])) for _ in range(3)]
    for k, part in enumerate(parts):
        part.stats = {"pivots": 10 * k, "flows": 1} if k else {"pivots": 5}
    assert join_solutions(parts).stats == {"pivots": 35, "flows": 2}


def test_pickles_of_other_versions_hold_the_fields_alone():
    """What follows from the fields is worked out again: a version may have kept it in another way, or not at all."""
    made = program()
    wholes = made.groups[0], made
    states = [{one.name: getattr(whole, one.name) for one in fields(whole) if one.init} for whole in wholes]
    group, other = Group.__new__(Group), Program.__new__(Program)
    group.__setstate__(states[0] | {"shapes_of_old": 3})
    other.__setstate__(states[1] | {"groups": (group,), "state_ptr": "kept in another way"})
    assert (group.arity, group.n_configs, group.of_spans) == (2, 6, False)
    assert (other.n_examples, other.n_variables, other.n_states) == (2, 4, 10)
    assert pickle.loads(pickle.dumps(made)).content_hash == other.content_hash
