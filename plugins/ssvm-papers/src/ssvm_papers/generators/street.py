"""Simulated laser scans of streets: points on the ground, on walls, in trees and in shrubs, with features of shape.

They stand for the scans of Anguelov et al. (2005), which cannot be had.  Features are like theirs: a spin image of each
point (how many neighbours stand at which distance from its vertical axis and at which height relative to it; Johnson
and Hebert 1999), and its height and the principal axes of its neighbourhood.  Edges join near neighbours.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ssvm_dsl.ir import F64, I32, I64

#: Classes of points, by number.
STREET_CLASSES = ("ground", "building", "tree", "shrubbery")

#: Rings and layers of a spin image, and how far it reaches, in metres.
RINGS, LAYERS, REACH = 9, 9, 1.5

#: Features of a point: a spin image and nine more.
N_STREET_FEATURES = RINGS * LAYERS + 9


class StreetScan(NamedTuple):
    """A scan.

    Parameters
    ----------
    points : ndarray of float64, shape (n, 3)
        Metres: along the street, across it, and up.
    features : ndarray of float64, shape (n, 90)
    edges : ndarray of int32, shape (m, 2)
        Pairs of near neighbours, each once.
    labels : ndarray of int64, shape (n,)
        Positions in ``STREET_CLASSES``.
    """

    points: F64
    features: F64
    edges: I32
    labels: I64


def make_street_scans(
    n: int = 4,
    n_points: int = 1500,
    *,
    neighbours: int = 5,
    noise: float = 0.05,
    random_state: int | np.random.Generator = 0,
) -> list[StreetScan]:
    """Return scans of streets of 30 m.

    Parameters
    ----------
    n : int
        Number of scans.
    n_points : int
        Points of a scan: a quarter on the ground, three tenths on walls, the rest in trees and shrubs.
    neighbours : int
        Each point is joined with so many nearest ones.
    noise : float
        Standard deviation of the points around where they are, in metres.
    random_state : int or Generator

    Returns
    -------
    list of StreetScan
    """
    rng = np.random.default_rng(random_state)
    return [_scan(rng, n_points, neighbours, noise) for _ in range(n)]


def _scan(rng: np.random.Generator, n_points: int, neighbours: int, noise: float) -> StreetScan:
    """Return one scan."""
    from scipy.spatial import cKDTree

    shares = np.array([0.25, 0.3, 0.27, 0.18])
    sizes = np.diff(np.concatenate([[0], np.round(np.cumsum(shares) * n_points)])).astype(int)
    makers = (_ground, _walls, _trees, _shrubs)
    points = np.concatenate([make(rng, size) for make, size in zip(makers, sizes, strict=True)])
    points += noise * rng.normal(size=points.shape)
    labels = np.repeat(np.arange(4), sizes)
    tree = cKDTree(points)
    near = tree.query(points, neighbours + 1)[1][:, 1:]
    pairs = np.stack([np.repeat(np.arange(len(points)), near.shape[1]), near.ravel()], axis=1)
    edges = np.unique(np.sort(pairs, axis=1), axis=0).astype(np.int32)
    features = np.stack([_shape(points, i, close) for i, close in enumerate(tree.query_ball_point(points, REACH))])
    return StreetScan(points, features, edges, labels)


def _ground(rng: np.random.Generator, n: int) -> F64:
    """Return points of a street 12 m wide, slightly arched."""
    across = rng.uniform(-6.0, 6.0, n)
    return np.stack([rng.uniform(0.0, 30.0, n), across, -0.003 * across**2], axis=1)


def _walls(rng: np.random.Generator, n: int) -> F64:
    """Return points of house fronts on both sides, some set back, of different heights."""
    front = rng.integers(6, size=n)
    height, depth = rng.uniform(4.0, 9.0, 6), rng.uniform(5.0, 7.0, 6)
    side = np.where(front % 2 == 0, 1.0, -1.0)
    along = 10.0 * (front // 2) + rng.uniform(0.0, 10.0, n)
    return np.stack([along, side * depth[front], height[front] * rng.random(n)], axis=1)


def _trees(rng: np.random.Generator, n: int) -> F64:
    """Return points of crowns, and of trunks (one in eight)."""
    place = np.stack([rng.uniform(0.0, 30.0, 5), rng.choice([-1.0, 1.0], 5) * rng.uniform(3.0, 5.5, 5)], axis=1)
    top, radius, which = rng.uniform(3.0, 6.0, 5), rng.uniform(1.0, 2.2, 5), rng.integers(5, size=n)
    ball = rng.normal(size=(n, 3))
    ball *= (radius[which] * rng.random(n) ** (1 / 3) / np.linalg.norm(ball, axis=1))[:, None]
    points = np.concatenate([place[which], top[which, None]], axis=1) + ball
    trunk = rng.random(n) < 1 / 8
    thin, height = 0.1 * rng.normal(size=(n, 2)), top[which] * rng.random(n)
    points[trunk] = np.concatenate([place[which] + thin, height[:, None]], axis=1)[trunk]
    return points


def _shrubs(rng: np.random.Generator, n: int) -> F64:
    """Return points of hedges and bushes up to 1.6 m, some of them in front of walls."""
    place = np.stack([rng.uniform(0.0, 30.0, 8), rng.choice([-1.0, 1.0], 8) * rng.uniform(3.0, 6.0, 8)], axis=1)
    size, which = rng.uniform(0.5, 1.6, 8), rng.integers(8, size=n)
    flat = place[which] + 0.6 * size[which, None] * rng.normal(size=(n, 2))
    return np.concatenate([flat, (size[which] * rng.beta(1.5, 1.5, n))[:, None]], axis=1)


def _shape(points: F64, i: int, near: list[int]) -> F64:
    """Return the features of a point: its spin image, heights, and the spread of its neighbourhood."""
    apart = points[near] - points[i]
    ring = np.minimum((np.hypot(apart[:, 0], apart[:, 1]) / REACH * RINGS).astype(int), RINGS - 1)
    layer = np.clip(((apart[:, 2] / REACH + 1.0) / 2.0 * LAYERS).astype(int), 0, LAYERS - 1)
    image = np.bincount(ring * LAYERS + layer, minlength=RINGS * LAYERS) / len(near)
    spread, axes = np.linalg.eigh(apart.T @ apart / len(near))
    # few points, or points on a line, have many smallest axes: the steepest of all counts, whatever basis LAPACK takes
    smallest = spread <= spread[0] + 1e-9 * spread[2]
    upright = float(np.sqrt((axes[2, smallest] ** 2).sum()))
    heights = points[near, 2]
    more = [points[i, 2], len(near) / 100.0, *spread, upright, heights.mean(), heights.std(), np.ptp(heights)]
    return np.concatenate([image, more])
