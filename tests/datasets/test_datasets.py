"""The embedded letters are the published set in its published splits; generators are seeded and as described."""

from __future__ import annotations

import zipfile
from importlib.resources import files

import numpy as np
import pytest

from model_table import tagger
from ssvm_dsl import ground
from ssvm_dsl.datasets import load_letters, make_chains, make_stripes
from ssvm_dsl.errors import OptionError
from ssvm_papers.generators import make_blocks, make_gaussian_hmm

FOLD_SIZES = [626, 704, 684, 698, 693, 651, 739, 717, 690, 675]


OCR = tagger(128, "abcdefghijklmnopqrstuvwxyz")


@pytest.fixture(scope="module")
def letters():
    return load_letters()


def test_all_words(letters):
    assert len(letters.X) == len(letters.Y) == len(letters.folds) == 6877
    assert sum(map(len, letters.Y)) == 52152
    assert np.bincount(letters.folds).tolist() == FOLD_SIZES
    assert "".join(letters.Y[0]) == "ommanding"
    assert {len(x) - len(y) for x, y in zip(letters.X, letters.Y)} == {0}
    assert {x.shape[1] for x in letters.X} == {128}
    assert {x.dtype for x in letters.X} == {np.dtype(np.uint8)}
    assert set(np.unique(np.concatenate(letters.X))) == {0, 1}
    assert "".join(sorted(set(np.concatenate(letters.Y)))) == "abcdefghijklmnopqrstuvwxyz"


def test_the_image_of_a_letter_is_upright(letters):
    """An l is taller than wide, an m the other way round (16 rows of 8 pixels)."""

    def extent(letter):
        spelled, pixels = np.concatenate(letters.Y), np.concatenate(letters.X).reshape(-1, 16, 8)
        mean = pixels[spelled == letter].mean(axis=0) > 0.3
        return mean.any(axis=1).sum(), mean.any(axis=0).sum()

    assert extent("l")[0] > extent("l")[1]
    assert extent("m")[0] < 16
    assert extent("m")[1] == 8


@pytest.mark.parametrize("fold", [0, 1, 9])
def test_the_two_protocols(letters, fold):
    one, rest = load_letters(fold), load_letters(fold, train="rest")
    assert (len(one.X_train), len(one.X_test)) == (FOLD_SIZES[fold], 6877 - FOLD_SIZES[fold])
    assert (len(rest.X_train), len(rest.X_test)) == (6877 - FOLD_SIZES[fold], FOLD_SIZES[fold])
    where = np.flatnonzero(letters.folds == fold)
    for k in (0, 5, -1):
        np.testing.assert_array_equal(one.X_train[k], letters.X[where[k]])
        np.testing.assert_array_equal(rest.X_test[k], letters.X[where[k]])
        assert one.Y_train[k].tolist() == rest.Y_test[k].tolist() == letters.Y[where[k]].tolist()
    X_train, Y_train, X_test, Y_test = one
    assert (len(X_train), len(X_test)) == (len(Y_train), len(Y_test))


def test_the_ocr_model_takes_them(letters):
    X_train, Y_train, _, _ = load_letters(fold=1)
    g = ground(OCR, X_train, Y_train)
    assert (g.n_examples, g.program.n_variables, g.parameters.dim) == (704, sum(map(len, Y_train)), 4004)
    np.testing.assert_array_equal(g.layout.decode(g.truth)[3], Y_train[3])


def test_wrong_arguments():
    with pytest.raises(OptionError, match=r"fold: an int in 0\.\.9, got 10"):
        load_letters(10)
    with pytest.raises(OptionError, match=r"fold: an int in 0\.\.9, got '1'"):
        load_letters("1")
    with pytest.raises(OptionError, match=r"train: 'one' .* or 'rest'"):
        load_letters(1, train="most")


def test_the_file_holds_plain_arrays_and_its_licence():
    folder = files("ssvm_dsl.datasets")
    with zipfile.ZipFile(folder.joinpath("letters.npz").open("rb")) as archive:
        assert sorted(archive.namelist()) == ["folds.npy", "labels.npy", "offsets.npy", "pixels.npy"]
        heads = [archive.read(name)[:128] for name in archive.namelist()]
    assert not any(b"'descr': '|O'" in head for head in heads)
    assert "Copyright (c) 2013, Andreas C. Mueller" in folder.joinpath("letters.txt").read_text()


@pytest.mark.data
def test_the_embedded_file_is_the_original(data_dir):
    original = data_dir / "ocr" / "letters.npz"
    assert files("ssvm_dsl.datasets").joinpath("letters.npz").read_bytes() == original.read_bytes()


@pytest.mark.parametrize("make", [make_chains, make_stripes, make_blocks, make_gaussian_hmm])
def test_generators_are_seeded(make):
    (X, Y, *_), (again, *_), (other, *_) = (make(n=4, random_state=seed) for seed in (3, 3, 4))
    for x, x_again, y in zip(X, again, Y):
        np.testing.assert_array_equal(x, x_again)
        assert x.shape[:-1] == y.shape
    assert not np.array_equal(X[0], other[0])


def test_chains():
    X, Y = make_chains(400, n_states=4, n_features=2, length=(2, 30), stay=0.8, noise=0.1, random_state=0)
    assert {len(y) for y in Y} == set(range(2, 31))
    moves = np.concatenate([y[1:] != y[:-1] for y in Y])
    assert moves.mean() == pytest.approx(0.2, abs=0.02)
    states, values = np.concatenate(Y), np.concatenate(X)
    assert np.bincount(states, minlength=4).min() > 0.15 * len(states)
    spread = [values[states == k].std(axis=0) for k in range(4)]
    np.testing.assert_allclose(spread, 0.1, atol=0.01)


def test_one_state_and_short_chains():
    _, Y = make_chains(3, n_states=1, length=(1, 1))
    assert [y.tolist() for y in Y] == [[0]] * 3


def test_stripes():
    X, Y = make_stripes(30, shape=(12, 7), noise=0.0, random_state=0)
    assert len({tuple(y[:, 0]) for y in Y}) > 1
    for x, y in zip(X, Y):
        assert (np.diff(y, axis=0) >= 0).all()
        assert (y == y[:, :1]).all()
        assert set(np.unique(y)) == {0, 1, 2}
        np.testing.assert_array_equal(x.argmax(axis=2), y)


def test_stripes_of_the_thesis_stand_side_by_side_in_any_order():
    X, Y = make_stripes(30, noise=0.0, vertical=True, permuted=True, wander=0.0)
    assert {tuple(y[0, ::4].tolist()) for y in Y} == {(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)}
    for x, y in zip(X, Y):
        np.testing.assert_array_equal(y, np.repeat(y[:1], 12, axis=0))
        np.testing.assert_array_equal(y[0], np.repeat(y[0, ::4], 4))
        np.testing.assert_array_equal(x.argmax(axis=2), y)
