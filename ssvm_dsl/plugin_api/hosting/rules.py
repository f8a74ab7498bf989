"""Rules of constraints by strangers: kinds of foreign plug-ins, and structures of users' classes.

What they return is checked, and their errors name them.  A class of a user that claims to be exact is believed once it
has found best structures on small random problems: sizes that are drawn, integer scores
with ties, states that are ruled out, problems without a structure; every labelling is looked at.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I32, Bools
from ssvm_dsl.errors import PluginError
from ssvm_dsl.ir.constraints import ConstraintGroup, CustomOracle, IntegralKind, LinearRows
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.plugin_api.constraints import (
    BestKind,
    ConstraintKind,
    ConstraintScores,
    ExplainingKind,
    MixtureKind,
    ProjectingKind,
    PropagatingKind,
    SeparableKind,
    SizedKind,
    StartingKind,
)
from ssvm_dsl.plugin_api.hosting.contained import contained, read_only

# -- kinds of foreign plug-ins -------------------------------------------------------------------------------------


class ContainedRules:
    """A foreign kind: its results are checked, and its errors name it.

    Parameters
    ----------
    kind : ConstraintKind
    owner_name : str
        What errors call it.
    """

    def __init__(self, kind: ConstraintKind, owner_name: str) -> None:
        self._kind, self._owner_name = kind, owner_name

    def violated(self, group: ConstraintGroup, true: Bools) -> Bools:
        """Return which constraints are broken."""
        with contained(self._owner_name):
            broken = self._kind.violated(group, read_only(true))
        if not isinstance(broken, np.ndarray) or broken.dtype != bool or broken.shape != (group.n_constraints,):
            text = f"violated() returns an array of {group.n_constraints} bools, got {broken!r:.60}"
            raise PluginError(f"{self._owner_name} broke its contract: {text}")
        return broken

    def rows(self, group: ConstraintGroup, k: int) -> LinearRows:
        """Return the linear description of constraint k."""
        with contained(self._owner_name):
            rows = self._kind.rows(group, k)
        wrong = row_mistakes(rows, int(group.literal_ptr[k + 1] - group.literal_ptr[k]))
        if wrong:
            raise PluginError(f"{self._owner_name} broke its contract: rows() of '{group.name}': {wrong}")
        return rows

    def start(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return what the kind proposes for constraint k; ``None`` from one that proposes nothing."""
        if not isinstance(self._kind, StartingKind):
            return None
        with contained(self._owner_name):
            states = self._kind.start(group, k, scores)
        if states is not None and (wrong := state_mistakes(states, scores)):
            raise PluginError(f"{self._owner_name} broke its contract: start() of '{group.name}': {wrong}")
        return states

    def explain(self, group: ConstraintGroup, k: int, true: Bools) -> str:
        """Return the kind's explanation; empty if it gives none."""
        if not isinstance(self._kind, ExplainingKind):
            return ""
        with contained(self._owner_name):
            text = self._kind.explain(group, k, read_only(true))
        if not isinstance(text, str):
            raise PluginError(f"{self._owner_name} broke its contract: explain() returns a string, got {text!r:.60}")
        return text

    def n_row_entries(self, group: ConstraintGroup, k: int) -> float:
        """Return about how many entries the rows of constraint k have; as many as literals where the kind is silent."""
        n_literals = float(group.literal_ptr[k + 1] - group.literal_ptr[k])
        if not isinstance(self._kind, SizedKind):
            return n_literals
        with contained(self._owner_name):
            entries = self._kind.n_row_entries(group, k)
        if not isinstance(entries, (int, float)) or not entries >= 0:
            text = f"n_row_entries() is at least 0, got {entries!r:.60}"
            raise PluginError(f"{self._owner_name} broke its contract: {text}")
        return max(float(entries), n_literals)

    def problem(self, rng: np.random.Generator) -> tuple[Program, Theta]:
        """Return a small random problem with constraints of this kind, for the conformance kit."""
        with contained(self._owner_name):
            return self._kind.problem(rng)


class ContainedSeparableRules(ContainedRules):
    """A foreign kind whose rows are found where a point violates them."""

    def violated_rows(self, group: ConstraintGroup, k: int, values: F64, least: float) -> LinearRows:
        """Return the rows of constraint k that a point violates."""
        assert isinstance(self._kind, SeparableKind)
        with contained(self._owner_name):
            rows = self._kind.violated_rows(group, k, read_only(values), least)
        wrong = separated_mistakes(rows, int(group.literal_ptr[k + 1] - group.literal_ptr[k]))
        if wrong:
            raise PluginError(f"{self._owner_name} broke its contract: violated_rows() of '{group.name}': {wrong}")
        return rows


class ContainedBestRules(ContainedRules):
    """A foreign kind that finds the best states under a constraint."""

    def best_states(self, group: ConstraintGroup, k: int, scores: ConstraintScores) -> I32 | None:
        """Return the best states under constraint k."""
        assert isinstance(self._kind, BestKind)
        with contained(self._owner_name):
            states = self._kind.best_states(group, k, scores)
        if states is not None and (wrong := state_mistakes(states, scores)):
            raise PluginError(f"{self._owner_name} broke its contract: best_states() of '{group.name}': {wrong}")
        return states


class ContainedPropagatingRules(ContainedRules):
    """A foreign kind that adds constraints of CP-SAT."""

    def propagate(self, group: ConstraintGroup, k: int, model: Any, literals: list[Any]) -> None:
        """Add constraints that constraint k implies."""
        assert isinstance(self._kind, PropagatingKind)
        with contained(self._owner_name):
            self._kind.propagate(group, k, model, literals)


class ContainedIntegralRules(ContainedRules):
    """A foreign kind with rows that have no gaps."""

    def hull(self, group: ConstraintGroup, k: int) -> LinearRows | None:
        """Return the rows of constraint k without gaps."""
        assert isinstance(self._kind, IntegralKind)
        with contained(self._owner_name):
            found = self._kind.hull(group, k)
        if found is not None and (wrong := row_mistakes(found, int(np.diff(group.literal_ptr)[k]))):
            raise PluginError(f"{self._owner_name} broke its contract: hull() of '{group.name}': {wrong}")
        return found


class ContainedMixtureRules(ContainedRules):
    """A foreign kind that finds the best truth values under a constraint."""

    def best_truth(self, group: ConstraintGroup, k: int, gain: F64) -> Bools | None:
        """Return the best truth values that keep constraint k."""
        assert isinstance(self._kind, MixtureKind)
        with contained(self._owner_name):
            found = self._kind.best_truth(group, k, read_only(gain))
        if found is not None and (wrong := truth_mistakes(found, gain)):
            raise PluginError(f"{self._owner_name} broke its contract: best_truth() of '{group.name}': {wrong}")
        return found


class ContainedProjectingRules(ContainedRules):
    """A foreign kind that finds the nearest mixtures of truth values, too."""

    def project(self, group: ConstraintGroup, k: int, point: F64) -> F64 | None:
        """Return the nearest mixture of truth values that keep constraint k."""
        assert isinstance(self._kind, ProjectingKind)
        with contained(self._owner_name):
            found = self._kind.project(group, k, read_only(point))
        if found is not None and (wrong := mixture_mistakes(found, point)):
            raise PluginError(f"{self._owner_name} broke its contract: project() of '{group.name}': {wrong}")
        return found


#: What a foreign kind may have besides, and what holds its results against the contract.
OPTIONAL: dict[Any, type[ContainedRules]] = {
    SeparableKind: ContainedSeparableRules,
    IntegralKind: ContainedIntegralRules,
    BestKind: ContainedBestRules,
    MixtureKind: ContainedMixtureRules,
    ProjectingKind: ContainedProjectingRules,
    PropagatingKind: ContainedPropagatingRules,
}


@lru_cache
def contained_class(optional: tuple[type[ContainedRules], ...]) -> type[ContainedRules]:
    """Return the class with the methods of these, and no others: who asks looks for methods."""
    return type("ContainedRules", (*optional, ContainedRules), {})


def separated_mistakes(rows: object, n_literals: int) -> str:
    """Return the mistakes in rows that a point violates, as text; empty if there are none."""
    wrong = row_mistakes(rows, n_literals)
    if not wrong and isinstance(rows, LinearRows) and rows.n_auxiliary:
        return f"rows without auxiliary columns are expected, got {rows.n_auxiliary}"
    return wrong


def state_mistakes(states: object, scores: ConstraintScores) -> str:
    """Return the mistakes in the states that a kind proposes, as text; empty if there are none."""
    shape = (scores.n_variables,)
    if not isinstance(states, np.ndarray) or states.dtype != np.int32 or states.shape != shape:
        return f"it returns {shape[0]} int32 or None, got {states!r:.60}"
    if (states < 0).any() or (states >= np.diff(scores.ptr)).any():
        return "a state is none of its variable"
    if (scores.score[scores.ptr[:-1] + states] == -np.inf).any():
        return "a state is one that scores -inf, which rules it out"
    return ""


def truth_mistakes(found: object, gain: F64) -> str:
    """Return the mistakes in the truth values that a kind finds, as text; empty if there are none."""
    if not isinstance(found, np.ndarray) or found.dtype != bool or found.shape != gain.shape:
        return f"it returns {len(gain)} bools or None, got {found!r:.60}"
    wrong = (found != (gain > 0))[np.isinf(gain)].any()
    return "a literal of gain inf is false, or one of gain -inf true" if wrong else ""


def mixture_mistakes(found: object, point: F64) -> str:
    """Return the mistakes in a mixture that a kind finds, as text; empty if there are none."""
    if not isinstance(found, np.ndarray) or found.dtype != np.float64 or found.shape != point.shape:
        return f"it returns {len(point)} float64 or None, got {found!r:.60}"
    if not ((found >= -1e-9) & (found <= 1.0 + 1e-9)).all():
        return f"numbers from 0 to 1 are expected, got {found.tolist()}"
    decided = np.isinf(point)
    return "a literal at inf is not 1, or one at -inf not 0" if (found != (point > 0))[decided].any() else ""


def row_mistakes(rows: object, n_literals: int) -> str:
    """Return the mistakes in a linear description, as text; empty if there are none."""
    if not isinstance(rows, LinearRows):
        return f"expected LinearRows, got {type(rows).__name__}"
    n, entries, extra = rows.n_rows, len(rows.column), rows.n_auxiliary
    shapes = {
        "ptr": (np.int64, n + 1), "column": (np.int32, entries), "coefficient": (np.float64, entries),
        "lower": (np.float64, n), "upper": (np.float64, n), "least": (np.float64, extra), "most": (np.float64, extra),
        "whole": (np.bool_, extra),
    }  # fmt: skip
    for name, (dtype, size) in shapes.items():
        array = getattr(rows, name)
        if not isinstance(array, np.ndarray) or array.dtype != dtype or array.shape != (size,):
            return f"{name} must be an array of {size} {np.dtype(dtype).name}, got {array!r:.60}"
    if rows.ptr[0] != 0 or rows.ptr[-1] != entries or (np.diff(rows.ptr) < 0).any():
        return f"ptr runs from 0 to {entries} and does not decrease"
    if entries and not 0 <= rows.column.min() <= rows.column.max() < n_literals + extra:
        return f"columns are numbers from 0 to {n_literals + extra - 1}"
    if not (np.isfinite(rows.coefficient).all() and np.isfinite(rows.least).all() and np.isfinite(rows.most).all()):
        return "coefficients and bounds of columns are finite"
    if np.isnan(rows.lower).any() or np.isnan(rows.upper).any():
        return "bounds of rows are numbers"
    return ""


# -- structures of users' classes --------------------------------------------------------------------------------

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
