"""``GridSegmenter`` on images as people have them: bytes, grey, numbers from 0 to 1, images of Pillow, files."""

from __future__ import annotations

import numpy as np
import pytest

from ssvm_dsl.datasets import pixel_features
from ssvm_dsl.errors import DataError, FileFormatError, OptionError
from ssvm_dsl.models import GridSegmenter

Image = pytest.importorskip("PIL.Image")


def pictures(n: int = 6):
    """Return photographs of a bright square on a dark ground, as bytes, and where it is."""
    rng = np.random.default_rng(0)
    X, Y = [], []
    for _ in range(n):
        mask = np.zeros((12, 14), dtype=int)
        top, left = rng.integers(1, 5, size=2)
        mask[top : top + 6, left : left + 6] = 1
        X.append((90 + 60 * mask[..., None] + rng.normal(0, 25, (12, 14, 3))).clip(0, 255).astype(np.uint8))
        Y.append(mask)
    return X, Y


@pytest.fixture(scope="module")
def fitted():
    X, Y = pictures()
    return GridSegmenter(C=0.1, random_state=0).fit(X, Y), X, Y


def test_images_get_features_of_pixels_and_of_neighbours(fitted):
    svm, X, Y = fitted
    assert svm.plan_.backend == "graph-cut"
    assert svm.score(X, Y) > 0.97
    features = [pixel_features(x / 255.0) for x in X]
    same = GridSegmenter(C=0.1, random_state=0).fit(features, Y)
    np.testing.assert_allclose(same.coef_, svm.coef_)
    alone = GridSegmenter(C=0.1, random_state=0).fit([one["x"] for one in features], Y)
    assert "left" not in str(alone.model_)
    assert alone.score([one["x"] for one in features], Y) > 0.9


def test_an_image_is_the_same_however_it_is_written(fitted, tmp_path):
    svm, X, _ = fitted
    expected = [one.tolist() for one in svm.predict(X[:2])]
    files = []
    for k, x in enumerate(X[:2]):
        files.append(tmp_path / f"{k}.png")
        Image.fromarray(x).save(files[-1])
    opaque = [np.dstack([x, np.full(x.shape[:2], 255, np.uint8)]) for x in X[:2]]
    ways = ([x / 255.0 for x in X[:2]], [Image.fromarray(x) for x in X[:2]], files, list(map(str, files)), opaque)
    for way in ways:
        assert [one.tolist() for one in svm.predict(way)] == expected
    svm.save(tmp_path / "m.ssvm")
    assert [one.tolist() for one in GridSegmenter.load(tmp_path / "m.ssvm").predict(files)] == expected


def test_grey_images_and_masks_in_files(tmp_path):
    X, Y = pictures()
    grey = [x.mean(axis=2).astype(np.uint8) for x in X]
    masks = []
    for k, y in enumerate(Y):
        masks.append(str(tmp_path / f"mask{k}.png"))
        Image.fromarray(y.astype(np.uint8)).save(masks[-1])
    from_files, from_arrays = (GridSegmenter(C=0.1, random_state=0).fit(grey, one) for one in (masks, Y))
    np.testing.assert_array_equal(from_files.coef_, from_arrays.coef_)
    assert from_files.score(grey, masks) > 0.95


def test_numbers_that_are_no_colours_are_features():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(5, 6, 3)) for _ in range(4)]
    assert "Input(H, W, 3)" in str(GridSegmenter.declare(X, [(x[..., 0] > 0).astype(int) for x in X]))


def test_what_is_no_image_is_named(fitted, tmp_path):
    svm, X, Y = fitted
    with pytest.raises(DataError, match=r"X, example 1: expected an image as in fit"):
        svm.predict([X[0], X[0] * 1.5])
    with pytest.raises(FileFormatError, match=r"nowhere\.png"):
        svm.predict(["nowhere.png"])
    Image.fromarray(X[0]).save(tmp_path / "colours.png")
    with pytest.raises(FileFormatError, match="expected a mask in grey or of a palette, found mode RGB"):
        GridSegmenter().fit(X[:1], [tmp_path / "colours.png"])
    with pytest.raises(DataError, match=r"X, example 0: .*image"):
        GridSegmenter().fit([np.ones(3)], [[0, 1, 0]])
    below = {**pixel_features(X[0] / 255.0), "left": -np.ones((12, 14, 2))}
    with pytest.raises(OptionError, match="left: features of neighbours are not negative"):
        GridSegmenter().fit([below], Y[:1])
    with pytest.raises(DataError, match="X, example 1"):
        GridSegmenter().fit([pixel_features(X[0] / 255.0), X[1]], Y[:2])
