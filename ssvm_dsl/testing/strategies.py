"""Hypothesis strategies for problems; needs hypothesis (``pip install 'ssvm-dsl[test]'``).

Hypothesis draws a recipe and a seed, so a failing problem shrinks to few, small and plain examples, and
is printed as the call that makes it.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from ssvm_dsl.ir import Caps, Topology
from ssvm_dsl.testing.problems import Problem, Recipe, Scores, seeded

_ANY = Caps(topology=Topology.LOOPY, max_arity=4)


def recipes(caps: Caps = _ANY) -> SearchStrategy[Recipe]:
    """Return a strategy for recipes whose problems these capabilities cover; simple ones come first."""
    regular = bool(caps.requires & {"submodular", "metric", "semimetric"})
    arity = caps.max_arity if caps.topology is Topology.LOOPY and not regular else min(2, caps.max_arity)
    return st.builds(
        Recipe,
        topology=st.sampled_from([shape for shape in Topology if shape <= caps.topology]),
        max_arity=st.integers(1, min(arity, 4)),
        n_examples=st.integers(1, 4),
        max_variables=st.integers(1, 6),
        max_card=st.integers(1, 2 if "binary" in caps.requires else 4),
        n_templates=st.integers(1, 3),
        density=st.sampled_from([1.0, 0.7, 0.0]),
        same_card=st.booleans(),
        shuffled=st.booleans(),
        turned=st.booleans(),
        repeats=st.booleans(),
        tied=st.booleans(),
        masks=st.booleans(),
        forbidden=st.booleans(),
        empty=st.booleans(),
        regular=st.just(regular),
        scores=st.sampled_from([Scores.INTEGER, Scores.NORMAL, Scores.MIXED, Scores.TINY, Scores.HUGE]),
    )


def problems(caps: Caps = _ANY) -> SearchStrategy[Problem]:
    """Return a strategy for problems that these capabilities cover."""
    return st.builds(seeded, recipes(caps), st.integers(0, 2**16))
