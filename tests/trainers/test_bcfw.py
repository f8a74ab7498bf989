"""``bcfw``: groups of examples at once, its cache of planes, random chains against the optimum over all labellings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_every_trainer import check_optimal, fitted

from small import Case, Data, Word
from ssvm_dsl import (
    ANTISYMMETRIC,
    FULL,
    POTTS,
    SYMMETRIC,
    Cost,
    Hamming,
    ModelBuilder,
    NoLoss,
    ZeroOne,
    chain,
)
from ssvm_dsl.errors import OptionError
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_trainers.planes import store


def uncompiled(patch: pytest.MonkeyPatch) -> None:
    """Let the trainer ask the oracle from Python."""
    patch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)


@pytest.mark.parametrize("compiled", [True, False])
def test_parallel_visits_do_not_depend_on_the_number_of_threads(compiled, monkeypatch):
    if not compiled:
        uncompiled(monkeypatch)
    data = Case(Word, n=16, C=3.0).make(5)
    one, other = (fitted(data, tol=1e-3, n_threads=n, trainer_options={"parallel": 3}) for n in (1, 3))
    assert one.report_.certified
    assert np.array_equal(one.coef_, other.coef_)
    sparse, other = (fitted(data, l1=0.01, tol=1e-4, trainer_options={"parallel": n}).report_ for n in (1, 3))
    assert other.primal == pytest.approx(sparse.primal, rel=2e-4)


def test_groups_of_examples_are_not_for_every_risk():
    with pytest.raises(OptionError, match="parallel= is not for risk='relaxed'"):
        fitted(Case(Word, n=16).make(5), risk="relaxed", trainer_options={"parallel": 2})


@pytest.mark.parametrize("compiled", [True, False])
def test_a_cache_of_planes_that_is_too_small_grows(compiled, monkeypatch):
    monkeypatch.setattr(store, "FIRST_CAPACITY", 1)
    if not compiled:
        uncompiled(monkeypatch)
    data = Case(Word, n=3, ragged=(2, 4), C=2.0).make(0)
    check_optimal(data, fitted(data, tol=1e-7, max_passes=2000), *data.optimum())


FORMS = {"full": FULL, "potts": POTTS, "symmetric": SYMMETRIC, "antisymmetric": ANTISYMMETRIC}


@st.composite
def chain_cases(draw) -> Data:
    """Data for a random chain model: states, features, form, bounds, loss, lengths (0 included)."""
    n_states, width = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    m = ModelBuilder("Random")
    T = m.dim("T")
    x, y = m.input("x", T, width), m.label("y", T, n_states)
    m.factor("emit", y, features=x, nonneg=draw(st.booleans()))
    form = FORMS[draw(st.sampled_from(sorted(FORMS) if n_states > 1 else ["full", "potts", "symmetric"]))]
    m.factor("trans", chain(y), form=form, features=x if draw(st.booleans()) else None, nonneg=draw(st.booleans()))
    prices = 1.0 - np.eye(n_states)
    losses = [Hamming(y), Hamming(y, normalize=True), Cost(y, prices * 3), ZeroOne(y), NoLoss()]
    m.loss(draw(st.sampled_from([*losses, Hamming(y) + 0.5 * Cost(y, prices, normalize=True)])))
    scales = st.sampled_from([0.3, 1.0, 4.0])
    case = Case(
        m.build(),
        n=draw(st.integers(1, 5)),
        C=draw(st.sampled_from([0.01, 0.3, 1.0, 30.0])),
        ragged=tuple(draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))),
        regularization={"emit": draw(scales), "trans": draw(scales)},
        weighted=draw(st.booleans()),
    )
    data = case.make(draw(st.integers(0, 10**6)))
    assume(any(len(y) for y in data.Y))  # empty examples only are refused
    return data


@settings(max_examples=15)
@given(chain_cases(), st.booleans())
def test_random_chains_reach_the_optimum_over_all_labellings(data, hide):
    best, w = data.optimum()
    with pytest.MonkeyPatch.context() as patch:
        if hide:
            uncompiled(patch)
        check_optimal(data, fitted(data, tol=1e-7, max_passes=5000), best, w)
