"""Images with structure: horses with their outlines, a pair of stereo images, grid maps.

All are read from the folder that environment variable ``SSVM_DATA`` names; every loader raises
:class:`~ssvm_dsl.errors.DataError` when its file is not there, with where it comes from.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, U8, Bools
from ssvm_dsl.datasets.files import MOST_BYTES, data_file
from ssvm_dsl.errors import DataError
from ssvm_dsl.files.text_lines import columns_of, is_blank, lines_in, read_text


class Horses(NamedTuple):
    """Images and masks: ``images, masks = load_horses()``.

    Parameters
    ----------
    images : list of ndarray of uint8, shape (H, W, 3)
    masks : list of ndarray of uint8, shape (H, W)
        1 on the horse, 0 around it.
    """

    images: list[U8]
    masks: list[U8]


class StereoPair(NamedTuple):
    """A stereo pair.

    Parameters
    ----------
    left, right : ndarray of uint8, shape (H, W, 3)
    disparity : ndarray of float, shape (H, W)
        Pixels by which a point of the left image stands further left in the right one; not finite where unknown.
    """

    left: U8
    right: U8
    disparity: NDArray[Any]


def load_horses() -> Horses:
    """Return the 328 Weizmann horses, at most 64 pixels wide or high."""
    with np.load(data_file("load_horses", "segmentation/weizmann_horse_328_max64.npz"), allow_pickle=False) as stored:
        rgb, mask, shapes = stored["rgb"], stored["mask"], stored["shapes"].tolist()
        bounds = list(pairwise(stored["offsets"].tolist()))
    images = [rgb[lo:hi].reshape(*shape, 3) for (lo, hi), shape in zip(bounds, shapes, strict=True)]
    return Horses(images, [mask[lo:hi].reshape(shape) for (lo, hi), shape in zip(bounds, shapes, strict=True)])


def pixel_features(rgb: F64) -> dict[str, F64]:
    """Return features of the pixels of a photograph, and of each pixel with its neighbours to the left and above.

    Parameters
    ----------
    rgb : ndarray of float64, shape (H, W, 3)
        Colours from 0 to 1.

    Returns
    -------
    dict
        ``x``, shape (H, W, 55): the place, by 6 x 6 products of linear hats; the colours, their means over 5 x 5 pixels
        and how far these are from the median colour at the edge of the image, with the squares of all of them; 1.
        ``left`` and ``above``, shape (H, W, 2): 1, and ``exp(-d / (2 m))`` for the squared difference d of the colours
        and its mean m, the contrast of Boykov and Jolly (2001).
    """
    from scipy.ndimage import uniform_filter

    near, edge = uniform_filter(rgb, (5, 5, 0)), np.concatenate([rgb[0], rgb[-1], rgb[:, 0], rgb[:, -1]])
    strange = abs(near - np.median(edge, axis=0))
    hats = [np.maximum(0, 1 - abs(np.linspace(0, 5, n)[:, None] - np.arange(6))) for n in rgb.shape[:2]]
    place = np.einsum("ia,jb->ijab", *hats).reshape(*rgb.shape[:2], 36)
    x = np.concatenate([place, rgb, rgb**2, near, near**2, strange, strange**2, np.ones_like(rgb[..., :1])], axis=2)
    steps = (np.square(np.diff(rgb, axis=a, prepend=rgb.take([0], axis=a))).sum(axis=2) for a in (0, 1))
    above, left = (np.stack([np.ones_like(s), np.exp(-s / (2 * max(s.mean(), 1e-12)))], axis=2) for s in steps)
    return {"x": x, "left": left, "above": above}


def load_stereo() -> StereoPair:
    """Return the Middlebury pair Motorcycle, 83 x 123 pixels."""
    with np.load(data_file("load_stereo", "stereo/motorcycle_div6.npz"), allow_pickle=False) as stored:
        return StereoPair(*(stored[name] for name in ("left", "right", "disp")))


def load_grid_map(name: str) -> Bools:
    """Return where one can walk on a grid map, shape (H, W), e.g. of ``"arena"``.

    Squares ``.``, ``G`` and ``S`` (swamp) are walked on, all others (out of bounds, trees, water) are not.

    Raises
    ------
    DataError
        There is no such map, or the file is not in octile format.
    """
    path = data_file("load_grid_map", f"maps/{name}.map")
    head, _, body = read_text(path, MOST_BYTES).partition("map\n")
    sizes = dict(columns_of(line)[:2] for line in lines_in(head) if not is_blank(line))
    rows = lines_in(body)
    expected = (int(sizes.get("height", -1)), int(sizes.get("width", -1)))
    if len(rows) != expected[0] or {len(row) for row in rows} != {expected[1]}:
        found = f"{len(rows)} rows of {sorted({len(row) for row in rows})}"
        raise DataError(str(path), expected=f"a map of {expected[0]} rows of {expected[1]}", found=found)
    return np.array([[square in ".GS" for square in row] for row in rows])
