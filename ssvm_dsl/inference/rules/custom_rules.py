"""Structures of users' classes: their answers are checked, and classes that claim to be exact are tested.

A class is believed to find best structures once it has on small random problems: sizes that are drawn, integer scores
with ties, states that are ruled out, problems without a structure; every labelling is looked at.
"""

from __future__ import annotations

from itertools import product

import numpy as np

from ssvm_dsl.array_types import F64, I32, Bools
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir.constraints import ConstraintGroup, CustomOracle, LinearRows
from ssvm_dsl.plugin_api.constraints import ConstraintScores
from ssvm_dsl.plugin_api.hosting.contained import contained, read_only

#: Small problems have at most so many labellings.
MOST_LABELLINGS = 2**10

#: Small problems that a class which claims to be exact must solve.
TRIALS = 24

#: Scores that differ by this much are different.
ATOL = 1e-9

#: Classes that have passed, with options, sizes that are fixed, and the number of states.
_passed: set[tuple[CustomOracle, tuple[int, ...], int]] = set()


class CustomRules:
    """The rules of a constraint that the user's own class judges (:class:`~ssvm_dsl.plugin_api.StructureRules`).

    Parameters
    ----------
    given : CustomOracle

    Raises
    ------
    PluginError
        The class cannot be made, or claims to be exact and is not.
    """

    def __init__(self, given: CustomOracle) -> None:
        self._owner_name, self._n_states = f"oracle {given.path}", given.n_states
        with contained(self._owner_name):
            self._oracle = given.factory(**dict(given.options))
        key = (given, given.sizes, given.n_states)
        if given.exact and key not in _passed:
            check_exact(given)
            _passed.add(key)

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which labellings are no structures; those of no variables are not asked about."""
        out = np.zeros(group.n_constraints, dtype=bool)
        for k in range(group.n_constraints):
            states = true[group.literals(k)].reshape(self._n_states, *_shape(group, k))
            if states[0].size:
                out[k] = not self._feasible(states.argmax(axis=0).astype(np.int32))
        return out

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Raise: a user's class has no linear description."""
        raise PluginError(f"constraint '{group.name}': {self._owner_name} has no linear rows")

    def best(self, group: ConstraintGroup, k: int, scores: F64) -> I32 | None:
        """Return what the class finds for constraint k, checked; see :class:`~ssvm_dsl.plugin_api.StructureRules`."""
        shape = _shape(group, k)
        if not len(scores):
            return np.zeros(0, dtype=np.int32)
        states = self.find(scores.reshape(*shape, self._n_states))
        return None if states is None else states.ravel()

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return the structure that the class finds for constraint k."""
        if not scores.n_variables:
            return np.zeros(0, dtype=np.int32)
        order = scores.place[: scores.n_variables]  # literals name each variable once, then the next state
        states = self.best(group, k, scores.score.reshape(-1, self._n_states)[order])
        if states is None:
            return None
        out = np.empty_like(states)
        out[order] = states
        return out

    def find(self, scores: F64) -> I32 | None:
        """Return what the class finds for scores of ``shape (*axes, n_states)``, checked."""
        with contained(self._owner_name):
            given = self._oracle.best(read_only(scores))
        if given is None:
            return None
        found, shape = np.asarray(given), scores.shape[:-1]
        if found.dtype.kind not in "iu" or found.shape != shape:
            raise self._broken(f"best() returns ints of shape {shape} or None, got {found.dtype}, shape {found.shape}")
        if found.size and not 0 <= found.min() <= found.max() < scores.shape[-1]:
            raise self._broken(f"best() returns states in 0..{scores.shape[-1] - 1}, got {found.min()}..{found.max()}")
        labels = found.astype(np.int32)
        if np.isneginf(np.take_along_axis(scores, labels[..., None], axis=-1)).any():
            raise self._broken("best() chose a state that scores -inf, which rules it out")
        if not self._feasible(labels):
            raise self._broken(f"best() returned labels that feasible() calls no structure: {labels.tolist()!r:.60}")
        return labels

    def _feasible(self, labels: I32) -> bool:
        with contained(self._owner_name):
            answer = self._oracle.feasible(read_only(labels))
        if not isinstance(answer, bool | np.bool_):
            raise self._broken(f"feasible() returns True or False, got {answer!r:.60}")
        return bool(answer)

    def _broken(self, text: str) -> PluginError:
        return PluginError(f"{self._owner_name} broke its contract: {text}")


def check_exact(given: CustomOracle, trials: int = TRIALS, seed: int = 0) -> int:
    """Compare what a class finds with the best of all labellings, on small random problems; return their number.

    Parameters
    ----------
    given : CustomOracle
    trials, seed : int

    Raises
    ------
    PluginError
        It is not exact, or no small problem can tell: names the problem and both answers.
    """
    rng, rules, judged = np.random.default_rng(seed), CustomRules(_untried(given)), False
    owner_name = f"oracle {given.path} says exact = True"
    for trial in range(trials):
        shape = _draw(given, rng, trial / trials, owner_name)
        scores = _scores(rng, (*shape, given.n_states))
        every = np.array(list(product(range(given.n_states), repeat=int(np.prod(shape)))), dtype=np.int32)
        every = every.reshape(-1, *shape)
        total = np.take_along_axis(scores[None], every[..., None], axis=-1).reshape(len(every), -1).sum(axis=1)
        ours = np.array([value > -np.inf and rules._feasible(one) for value, one in zip(total, every, strict=True)])
        states, best = rules.find(scores), total[ours].max(initial=-np.inf)
        judged |= bool(ours.any())
        if states is None and ours.any():
            right = every[ours][total[ours].argmax()].tolist()
            raise PluginError(f"{owner_name}, but finds nothing where {right} scores {best:g} (scores {_text(scores)})")
        score = -np.inf if states is None else _total(scores, states)
        if states is not None and score < best - ATOL:
            text = f"but {states.tolist()} scores {score:g} where {best:g} is possible (scores {_text(scores)})"
            raise PluginError(f"{owner_name}, {text}; correct it, or leave exact out")
    if not judged:
        text = "feasible() calls no labelling of small problems a structure"
        raise PluginError(f"{owner_name}, but {text}; leave exact out")
    return trials


def _untried(given: CustomOracle) -> CustomOracle:
    return CustomOracle(given.path, given.factory, given.options, given.sizes, given.n_states, exact=False)


def _draw(given: CustomOracle, rng: np.random.Generator, size: float, owner_name: str) -> tuple[int, ...]:
    """Return sizes of the axes of a small problem, up to the largest that can be tried."""
    most = max(1, int(np.log(MOST_LABELLINGS) / np.log(max(given.n_states, 2))))
    fixed = int(np.prod([size for size in given.sizes if size], dtype=np.int64))
    if fixed > most:
        text = f"the label's {fixed} variables of {given.n_states} states have too many labellings to try them all"
        raise PluginError(f"{owner_name}, which cannot be checked: {text}; leave exact out")
    shape, left = [], most // max(fixed, 1)
    for one in given.sizes:
        shape.append(one or int(rng.integers(1, max(1, min(left, 1 + round(4 * size))) + 1)))
        left = left if one else max(1, left // shape[-1])
    return tuple(shape)


def _scores(rng: np.random.Generator, shape: tuple[int, ...]) -> F64:
    """Return random scores: integers with ties or not, some states ruled out or none."""
    scores = rng.integers(-2, 3, shape).astype(np.float64) if rng.random() < 0.5 else rng.normal(size=shape)
    if rng.random() < 0.4:
        scores[rng.random(shape) < 0.3] = -np.inf
        dead = np.isneginf(scores).all(axis=-1)  # every variable has a state
        scores[dead, 0] = 0.0
    return scores


def _total(scores: F64, labels: I32) -> float:
    return float(np.take_along_axis(scores, labels[..., None], axis=-1).sum())


def _text(scores: F64) -> str:
    return f"{np.round(scores, 3).tolist()!r:.120}"


def _shape(group: ConstraintGroup, k: int) -> tuple[int, ...]:
    """Return the sizes of the axes of the label in one constraint."""
    return tuple(int(group.meta[f"size_{axis}"][k]) for axis in range(len(group.meta)))
