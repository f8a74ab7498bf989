"""Tables that follow from weights alone are made again when these change, in place as well."""

from __future__ import annotations

from threading import Barrier, Thread

import numpy as np

from ssvm_dsl import Attributes, Dim, Factor, Hamming, Label, Model, StructuredSVM, chain
from ssvm_dsl.ir.features import ObservedPairs, SpreadPairs


class Tagged(Model):
    T = Dim()
    x = Attributes(T)
    y = Label(T, 3)
    emit = Factor(y, features=x)
    trans = Factor(chain(y), form=np.eye(9).reshape(9, 3, 3)[:5])
    loss = Hamming(y)


def test_tables_follow_weights_that_are_changed_in_place():
    X = [[{"w": f"{k % 3}", "n": k / 2} for k in range(6)], [["a", "b"], ["b"]]]
    svm = StructuredSVM(Tagged, C=1.0, max_passes=3, random_state=0).fit(X, [[0, 1, 2, 0, 1, 2], [2, 1]])
    rng = np.random.default_rng(0)
    for _ in range(4):
        svm.coef_[:] = rng.normal(size=len(svm.coef_))
        weights = {name: svm.weights_[name] for name in svm.weights_}
        other = StructuredSVM.from_weights(Tagged, weights, fitted_on=X)
        for one in (X, X[:1], X[1:]):
            for mine, wanted in zip(svm.predict(one), other.predict(one), strict=True):
                np.testing.assert_array_equal(mine, wanted)


def test_threads_with_different_weights_read_tables_of_their_own():
    pairs = ObservedPairs(np.array([0, 2, 3]), np.array([0, 2, 1], dtype=np.int32))
    spread, barrier, found = SpreadPairs(pairs, 3), Barrier(3), {}

    def read(number):
        with spread.table(np.full(3, float(number // 2))) as table:
            barrier.wait()
            found[number] = table
            assert table.sum() == 3.0 * (number // 2)
            barrier.wait()

    threads = [Thread(target=read, args=(number,)) for number in (2, 3, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[2] is found[3]
    assert found[4] is not found[2]
    with spread.adding_to(total := np.ones(3)) as table:
        assert not table.any()
        table[0] = 5.0
    assert total.tolist() == [6.0, 1.0, 1.0]
    with spread.table(np.ones(3)) as table:
        assert table.sum() == 3.0
