"""Structures of users' own classes, right ones and wrong ones."""

from __future__ import annotations

import numpy as np


class Runs:
    """Labels whose classes change at most ``most`` times: best ones by dynamic programming over changes."""

    exact = True

    def __init__(self, most=1):
        self.most = most

    def feasible(self, labels):
        return bool((np.diff(labels) != 0).sum() <= self.most)

    def best(self, scores):
        k = scores.shape[1]
        value, back = np.full((self.most + 1, k), -np.inf), []
        value[0] = scores[0]
        for row in scores[1:]:
            stay, moved = value, np.full_like(value, -np.inf)
            moved[1:] = value[:-1].max(axis=1, keepdims=True)
            came = np.where(moved > stay, value.argmax(axis=1)[np.arange(self.most + 1) - 1][:, None], np.arange(k))
            back.append((moved > stay, came))
            value = np.maximum(stay, moved) + row
        if value.max() == -np.inf:
            return None
        c, state = np.unravel_index(value.argmax(), value.shape)
        out = [state]
        for changed, came in reversed(back):
            c, state = c - changed[c, state], came[c, state]
            out.append(state)
        return np.array(out[::-1])


class Greedy(Runs):
    """The best constant labelling: a structure, seldom the best one."""

    exact = False

    def best(self, scores):
        total = scores.sum(axis=0)
        return None if total.max() == -np.inf else np.full(len(scores), total.argmax())


class Boastful(Greedy):
    exact = True


class Grid:
    """Exactly ``k`` cells of a grid are in class 1."""

    exact = True

    def __init__(self, k):
        self.k = k

    def feasible(self, labels):
        return int(labels.sum()) == self.k

    def best(self, scores):
        gain = (scores[..., 1] - scores[..., 0]).ravel()  # no state is ruled out by both
        order = np.argsort(-gain, kind="stable")
        if len(order) < self.k:
            return None
        out = np.zeros(len(order), dtype=int)
        out[order[: self.k]] = 1
        sure = np.isneginf(scores.reshape(-1, 2)[np.arange(len(out)), out]).any()
        return None if sure else out.reshape(scores.shape[:-1])


class Liar(Greedy):
    """Breaks its contract in a way that is told."""

    def __init__(self, how):
        super().__init__()
        self.how = how

    def feasible(self, labels):
        return "perhaps" if self.how == "perhaps" else super().feasible(labels)

    def best(self, scores):
        found = super().best(scores)
        if self.how == "fails":
            raise KeyError("lost")
        wrong = {"shape": found[:-1], "floats": found * 1.0, "states": found + 7}
        return wrong.get(self.how, np.arange(len(found)) % 2 if self.how == "infeasible" else found)
