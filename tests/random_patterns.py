"""Random patterns with index variables: positions, conditions, reads, unions; and data for them."""

from __future__ import annotations

import numpy as np

from ssvm_dsl import Edges, Factor, Hamming, Input, Label, ModelBuilder, Positions
from ssvm_dsl.lang.dims import opposite


class Drawn:
    """A random model with one factor over a random pattern, and an example."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        m = ModelBuilder("Drawn")
        self.N, self.K, self.M = m.dim("N"), m.dim("K", 3), m.dim("M")
        self.indices = [m.index(name, dim) for name, dim in
                        [("i", self.N), ("j", self.N), ("k", self.N), ("a", self.K), ("b", self.K), ("m", self.M)]]
        self.x = m.add("x", Input(self.N, 2))
        self.f = m.add("f", Input(self.N, self.N))
        self.s = m.add("s", Input(self.N, self.N, 2))
        self.w = m.add("w", Input(self.N))
        self.p = m.add("p", Positions(self.N, over=self.N))
        self.e = m.add("e", Edges(self.M, over=self.N))
        self.c = m.add("c", Positions([-1, 0, 1], over=self.K))
        i, j = self.indices[:2]
        self.own = True  # conditions of a label have its own indices only
        self.labels = [
            m.add("y", Label(self.N, 2)), m.add("z", Label(self.K, 3)), m.add("g", Label(self.N, self.K, 2)),
            m.add("r", Label(i, j, 2, where=self.condition([i, j], 1))), m.add("u", Label(i, j, 2, symmetric=True)),
            m.add("q", Label(2)),
        ]  # fmt: skip
        self.own = False
        m.add("unary", Factor(self.labels[0], features=self.x))
        pool = [self.indices[k] for k in rng.permutation(len(self.indices))[: int(rng.integers(1, 4))]]
        groups = [self.references(pool) for _ in range(1 if rng.random() < 0.8 else 2)]
        if len({tuple(one.label.n_states if hasattr(one, "label") else 2 for one in group) for group in groups}) > 1:
            groups = groups[:1]
        where = self.condition(pool, int(rng.integers(0, 4)))
        self.factor = m.add("drawn", Factor(groups if len(groups) > 1 else groups[0], where=where))
        m.add("loss", self.losses(m))
        self.model = m.build()

    def losses(self, m):
        """The loss, and what belongs to it."""
        return Hamming(self.labels[0])

    def index(self, pool, dim):
        """An index over an axis, from the pool if it has one."""
        over = [one for one in pool if one.dim is dim] or [one for one in self.indices if one.dim is dim]
        return over[int(self.rng.integers(len(over)))]

    def position(self, pool, dim):
        """A random position on an axis."""
        rng, t = self.rng, self.index(pool, dim)
        kind = int(rng.integers(10))
        if kind == 0:
            return int(rng.integers(-2, 3))
        if kind == 1:
            return (t + int(rng.integers(-2, 3))) % dim
        if kind == 2:
            return int(rng.integers(-2, 0)) - t
        if kind == 3 and dim is self.N:
            if self.own or rng.random() < 0.5:
                return self.p[self.position(pool, dim)]
            return self.e[self.index(pool, self.M), 0]
        if kind == 3 and dim is self.K:
            return self.c[t]
        if kind == 4 and dim is not self.M and not self.own:
            return self.index(pool, self.K if dim is self.N else self.N).on(dim) + int(rng.integers(-1, 2))
        return t + int(rng.integers(-1, 2))

    def number(self, pool):
        """A random number that conditions compare."""
        rng, kind = self.rng, int(self.rng.integers(6))
        dim = self.N if self.own else [self.N, self.K][int(rng.integers(2))]
        if kind == 0:
            return self.index(pool, self.N) - self.index(pool, self.N)
        if kind == 1:
            return abs(self.index(pool, self.N) - self.index(pool, self.N))
        if kind == 2:
            return self.index(pool, dim) % 2
        if kind == 3:
            return self.w[self.position(pool, self.N)]
        if kind == 4:
            return self.s[self.position(pool, self.N), self.position(pool, self.N), int(rng.integers(2))]
        return self.index(pool, dim)

    def condition(self, pool, n):
        """A random condition of n atoms, None for none."""
        rng, out = self.rng, None
        for _ in range(n):
            kind, left = int(rng.integers(8)), self.number(pool)
            if kind < 2:
                one = self.f[self.position(pool, self.N), self.position(pool, self.N)]
            elif kind == 2:
                one = self.w[self.index(pool, self.N)].is_(self.w[self.position(pool, self.N)])
            elif kind == 3:
                one = self.p[self.index(pool, self.N)].is_(None)
            else:
                plain = rng.random() < 0.6 or getattr(left, "axis", None) is not None
                right = int(rng.integers(-1, 3)) if plain else self.number(pool)
                every = [left < right, left <= right, left >= right, left.is_(right), left.is_not(right)]
                one = every[int(rng.integers(5))]
            if rng.random() < 0.2:
                one = opposite(one)
            out = one if out is None else (out | one if rng.random() < 0.25 else out & one)
        return out

    def references(self, pool):
        """A tuple of one to three different references."""
        found = []
        for _ in range(int(self.rng.integers(1, 4))):
            label = self.labels[int(self.rng.integers(len(self.labels)))]
            one = label[tuple(self.position(pool, dim.origin) for dim in label.dims)] if label.dims else label
            if not any(repr(one) == repr(other) for other in found):
                found.append(one)
        return tuple(found)

    def example(self):
        """Inputs of an example, of up to four positions."""
        rng, n = self.rng, int(self.rng.integers(0, 5))
        m = int(rng.integers(0, 4)) if n > 1 else 0
        edges = np.array([rng.permutation(n)[:2] for _ in range(m)], dtype=np.int64).reshape(m, 2)
        return {
            "x": rng.normal(size=(n, 2)),
            "f": (rng.random((n, n)) < 0.5) * 1.0,
            "s": rng.integers(0, 3, (n, n, 2)) * 1.0,
            "w": rng.integers(0, 3, n) * 1.0,
            "p": rng.integers(-1, n, n) if n else np.zeros(0, dtype=np.int64),
            "e": edges,
        }
