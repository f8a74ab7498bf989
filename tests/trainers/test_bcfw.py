"""``bcfw``: groups of examples at once, its cache of planes, random chains against the optimum over all labellings."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import optimize
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
from ssvm_trainers.planes.side_by_side import SideBySide, best_shares


@pytest.mark.parametrize("compiled", [True, False])
def test_parallel_visits_do_not_depend_on_the_number_of_threads(compiled, monkeypatch):
    if not compiled:
        monkeypatch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
    data = Case(Word, n=16, C=3.0).make(5)
    joined = []
    visit = SideBySide.visit
    monkeypatch.setattr(SideBySide, "visit", lambda *given: joined.append(given[2]) or visit(*given))
    found = [fitted(data, tol=1e-3, n_threads=n, trainer_options={"parallel": 3}) for n in (1, 3)]
    assert joined
    for one in found:
        assert one.report_.certified
        assert np.array_equal(one.coef_, found[0].coef_)
    sparse, other = (fitted(data, l1=0.01, tol=1e-4, trainer_options={"parallel": n}).report_ for n in (1, 3))
    assert other.primal == pytest.approx(sparse.primal, rel=2e-4)
    with pytest.raises(OptionError, match="parallel= is not for risk='relaxed'"):
        fitted(data, risk="relaxed", trainer_options={"parallel": 2})


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 4))
def test_groups_go_as_far_as_the_parabola_rises(seed, n):
    random = np.random.default_rng(seed)
    moves = random.normal(size=(n, 3))
    curve, gains = moves @ moves.T, random.uniform(size=n)
    slope = gains + 0.5 * np.diag(curve)

    def value(share):
        return slope @ share - 0.5 * share @ curve @ share

    found = best_shares(slope, curve)
    bound = optimize.minimize(lambda t: -value(t), found, jac=lambda t: curve @ t - slope, bounds=[(0.0, 1.0)] * n)
    assert value(found) >= -bound.fun - 1e-5
    assert value(found) >= gains.max() - 1e-12


@pytest.mark.parametrize("compiled", [True, False])
def test_the_plane_cache_grows_when_an_example_needs_it(compiled, monkeypatch):
    monkeypatch.setattr(store, "FIRST_CAPACITY", 1)
    grown = []
    grow = store.DualState.grow
    monkeypatch.setattr(store.DualState, "grow", lambda self: grown.append(self.capacity) or grow(self))
    if not compiled:
        monkeypatch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
    data = Case(Word, n=3, ragged=(2, 4), C=2.0).make(0)
    best, w = data.optimum()
    check_optimal(data, fitted(data, tol=1e-7, max_passes=2000), best, w)
    assert grown[:2] == [1, 2]


# -- hypothesis: random chains ---------------------------------------------------------------------------------

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
def test_bcfw_on_random_chains(data, hide):
    best, w = data.optimum()
    with pytest.MonkeyPatch.context() as patch:
        if hide:
            patch.setattr(MarginProblem, "compiled", lambda self, tables=False: None)
        check_optimal(data, fitted(data, tol=1e-7, max_passes=5000), best, w)
