"""The multi-label sets are those of Meshi et al. (2010); without SSVM_DATA the loaders say what is missing."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl.datasets import load_reuters, load_scene, load_yeast
from ssvm_dsl.errors import DataError
from ssvm_papers.generators import make_multilabel


@pytest.mark.data
@pytest.mark.parametrize(
    ("load", "n_train", "n_test", "n_features", "n_labels"),
    [(load_yeast, 1500, 917, 103, 14), (load_scene, 1211, 1196, 294, 6), (load_reuters, 3000, 3000, 47235, 30)],
)
def test_sizes_are_the_published_ones(data_dir, load, n_train, n_test, n_features, n_labels):
    found = load()
    assert [len(part) for part in found] == [n_train, n_train, n_test, n_test]
    assert {x.shape[-1] for x in found.X_train + found.X_test} == {n_features}
    labels = np.array(found.Y_train + found.Y_test)
    assert labels.shape == (n_train + n_test, n_labels)
    assert set(np.unique(labels)) == {0, 1}


@pytest.mark.data
def test_reuters_keeps_the_most_frequent_labels(data_dir):
    few, more = (np.array(load_reuters(n).Y_train + load_reuters(n).Y_test).sum(axis=0) for n in (10, 30))
    np.testing.assert_array_equal(np.sort(more)[::-1][:10], np.sort(few)[::-1])


@pytest.mark.parametrize("load", [load_yeast, load_scene, load_reuters])
def test_without_data(monkeypatch, tmp_path, load):
    monkeypatch.delenv("SSVM_DATA", raising=False)
    with pytest.raises(DataError, match=f"{load.__name__}: expected environment variable SSVM_DATA"):
        load()
    monkeypatch.setenv("SSVM_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"expected a file multilabel/.*npz in the folder SSVM_DATA"):
        load()


def test_synthetic_labels_are_seeded_and_of_all_states():
    X, Y = make_multilabel(random_state=3)
    again = make_multilabel(random_state=3)
    assert [len(X), X[0].shape, Y[0].shape] == [100, (20,), (20,)]
    np.testing.assert_array_equal(Y, again[1])
    assert np.bincount(np.concatenate(Y), minlength=4).min() > 0


def test_synthetic_labels_are_local_optima():
    """With one label there is nothing to iterate: the best state alone; weights are the generator's first draw."""
    X, Y = make_multilabel(n_labels=1, random_state=5)
    weights = np.random.default_rng(5).normal(size=(1, 4))
    np.testing.assert_array_equal(np.ravel(Y), [(weights[0] * x[0]).argmax() for x in X])
