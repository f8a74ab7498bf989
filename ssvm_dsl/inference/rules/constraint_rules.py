"""Give hard constraints the rules of their kinds, which then are part of the program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, Bools
from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.inference.rules.custom_rules import CustomRules
from ssvm_dsl.ir.constraints import ConstraintGroup, IntegralKind, LinearRows
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
from ssvm_dsl.plugin_api.specs import ConstraintSpec, Option
from ssvm_dsl.registry import Registry

#: The methods of a :class:`~ssvm_dsl.plugin_api.ConstraintKind`.
METHODS = ("violated", "rows", "problem")


def with_rules(program: Program, plugins: Registry) -> Program:
    """Return the program with the rules of its constraints; the same one where there is nothing to fill in.

    Raises
    ------
    PluginError
        There is no such kind, or it cannot be loaded.
    OptionError
        A constraint has other parameters than its kind.
    """
    if not program.constraints or all(group.rules is not None for group in program.constraints):
        return program
    return replace(program, constraints=tuple(_ruled(group, plugins) for group in program.constraints))


def _ruled(group: ConstraintGroup, plugins: Registry) -> ConstraintGroup:
    if group.rules is not None:
        return group
    if group.oracle is not None:
        return replace(group, rules=CustomRules(group.oracle))
    spec = plugins.find(ConstraintSpec, group.kind)
    what = f"constraint '{group.name}' of the kind '{spec.name}'"
    meta = _numbers(group.meta, spec.parameters, group.n_constraints, f"{what}: its parameters for each constraint")
    literal_meta = _numbers(
        group.literal_meta, spec.literal_parameters, len(group.variable), f"{what}: its parameters for each literal"
    )
    owner_name = plugins.describe_owner(spec)
    with contained(owner_name):
        rules = plugins.load(spec)()
    if not isinstance(rules, ConstraintKind):
        lacking = " and ".join(f"{name}()" for name in METHODS if not hasattr(rules, name))
        raise PluginError(f"{owner_name}: {spec.factory} makes no constraint kind: it lacks {lacking}")
    if not plugins.owner(spec).bundled:
        optional = tuple(contained for kind, contained in OPTIONAL.items() if isinstance(rules, kind))
        rules = _contained_class(optional)(rules, owner_name)
    return replace(group, rules=rules, meta=meta, literal_meta=literal_meta)


def _numbers(
    given: Mapping[str, NDArray[Any]], declared: tuple[str | Option, ...], n: int, what: str
) -> dict[str, NDArray[Any]]:
    """Return the numbers of a kind's parameters, with defaults filled in; refuse missing, unknown and other ones."""
    known = {one.name if isinstance(one, Option) else one: one for one in declared}
    out = dict(given)
    for name, one in known.items():
        if isinstance(one, Option) and name not in out and one.default is not None:
            out[name] = np.full(n, one.default)
    if set(out) != set(known):
        found = ", ".join(sorted(given)) or "none"
        raise OptionError(f"{what} are {', '.join(known) or 'none'}, got {found}")
    for name, one in known.items():
        if not isinstance(one, Option):
            continue
        if one.kind is int and out[name].dtype.kind == "f" and (out[name] == np.rint(out[name])).all():
            out[name] = out[name].astype(np.int64)  # numbers of an input
        wrong = {expected: value for value in np.unique(out[name]).tolist() if (expected := one.expected(value))}
        for expected, value in wrong.items():
            raise OptionError(f"{what}: {name} must be {expected}, got {value!r} ({one.doc})")
    return out


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
def _contained_class(optional: tuple[type[ContainedRules], ...]) -> type[ContainedRules]:
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
