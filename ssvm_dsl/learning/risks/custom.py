"""Training problems around risks of plug-ins: their results are checked, and their errors name them.

A risk is known at one w by what it returns; that it is convex rests with the plug-in, and a plane that turns out above
the mean risk elsewhere withdraws the certificate (:mod:`ssvm_dsl.learning.driver.progress`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.errors import PluginError
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.ragged import members
from ssvm_dsl.ir.solution import label_ptr, select
from ssvm_dsl.learning.objective import RegularizedRisk
from ssvm_dsl.learning.risks.base import each_once
from ssvm_dsl.learning.risks.gradients.gradient import GradientProblem
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem, repeated
from ssvm_dsl.plugin_api.hosting.contained import contained
from ssvm_dsl.plugin_api.protocols import CompiledOracle, Executor
from ssvm_dsl.plugin_api.specs import RiskForm, RiskSpec
from ssvm_dsl.plugin_api.training import Planes, RiskGradient
from ssvm_dsl.scores.labellings import score_labels
from ssvm_dsl.scores.parameter_map import ParameterMap

#: How far numbers of a risk may be off, relative to the largest of them and 1.
CLOSE = 1e-6


def custom_risk(
    make: Callable[..., Any],
    spec: RiskSpec,
    whose: str,
    parameters: ParameterMap,
    loss: LossTerm,
    objective: RegularizedRisk,
    session: PlannedSession,
    executor: Executor,
) -> CustomGradients | CustomPlanes:
    """Return the training problem of a risk that a plug-in makes.

    Raises
    ------
    PluginError
        It fails, or its form is not open to plug-ins.
    """
    world = (parameters, loss, objective, session, executor)
    if spec.form is RiskForm.FRACTIONAL:
        raise PluginError(f"{whose}: only bundled risks are maxima over fractional labellings")
    made = CustomPlanes(*world) if spec.form in (RiskForm.PLANES, RiskForm.SCALED) else CustomGradients(*world)
    made.smooth = spec.form is RiskForm.SMOOTH
    with contained(whose):
        made.given = make(made)
    made.whose = whose
    if isinstance(made, CustomPlanes):
        made.scaled = spec.form is RiskForm.SCALED
    return made


class CustomGradients(GradientProblem):
    """A risk with values and subgradients (:class:`~ssvm_dsl.plugin_api.GradientRisk`)."""

    given: Any
    whose = ""

    def _gradient(self, w: F64, examples: I64 | None) -> RiskGradient:
        """Return the risks of the selected examples and a subgradient of their weighted sum."""
        self.pause()
        start, ids = self.seconds(), select(self.program, examples)
        with contained(self.whose):
            answer = self.given.gradient(w, ids)
        risk = self._checked(answer, w, ids)
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += self.seconds() - start
        self._remember(w, ids, risk.value, risk.bound)
        return risk

    def _checked(self, found: Any, w: F64, ids: I64) -> RiskGradient:
        """Return a gradient; refuse what is none of this problem, or whose plane does not touch the risks at w."""
        if not isinstance(found, RiskGradient):
            raise _broken(self.whose, f"gradient() returned {type(found).__name__}, expected a RiskGradient")
        for name, size in (("value", len(ids)), ("bound", len(ids)), ("vector", self.dim)):
            _check_array(self.whose, name, getattr(found, name), size)
        if not (np.isfinite(found.value).all() and np.isfinite(found.vector).all() and np.isfinite(found.offset)):
            raise _broken(self.whose, "risks, vector and offset are finite numbers")
        if (found.value < 0.0).any() or (found.bound < found.value).any():
            raise _broken(self.whose, "a risk is negative, or above its bound")
        total = float(np.dot(self.objective.weight[ids], self.objective.powered(found.value)))
        slope = float(np.dot(found.vector, w))
        if abs(found.offset + slope - total) > CLOSE * max(1.0, abs(total), abs(slope), abs(found.offset)):
            text = f"the plane of its gradient is {found.offset + slope:.6g} at the weights where the risks sum to"
            raise _broken(self.whose, f"{text} {total:.6g}")
        return found


class CustomPlanes(MarginProblem):
    """A risk with planes of labellings (:class:`~ssvm_dsl.plugin_api.PlaneRisk`)."""

    exact_with_backend = False
    scaled = False
    given: Any
    whose = ""

    def oracle(self, w: F64, examples: I64 | None = None) -> Planes:
        """Return the most violated plane of each selected example."""
        self.pause()
        start, self.cut_short, (ids, back) = self.seconds(), False, each_once(self.program, examples)
        with contained(self.whose):
            returned = self.given.oracle(w, ids)
        planes = self._checked(returned, w, ids)
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += self.seconds() - start
        self._remember(w, ids, planes.value, planes.bound)
        return planes if back is None else repeated(planes, back, self.program)

    def risks_at_zero(self) -> None:
        """Return ``None``: how large the risks of a plug-in can be is not known."""

    def compiled(self, tables: bool = False) -> CompiledOracle | None:
        """Return ``None``: the backend's compiled oracle answers another question."""
        return None

    def _checked(self, found: Any, w: F64, ids: I64) -> Planes:
        """Return planes; refuse those that are none of this problem, or whose values are not what they say."""
        if not isinstance(found, Planes):
            raise _broken(self.whose, f"oracle() returned {type(found).__name__}, expected Planes")
        ptr, here = label_ptr(self.program, ids), members(self.program.var_ptr, ids)
        card, truth = self.program.card[here], self.truth[here]
        for name in ("loss", "value", "bound", "scale"):
            _check_array(self.whose, name, getattr(found, name), len(ids))
        if not (np.array_equal(found.examples, ids) and np.array_equal(found.ptr, ptr)):
            raise _broken(self.whose, "its planes are not those of the examples asked for, in that order")
        if found.labels.shape != card.shape or ((found.labels < 0) | (found.labels >= card)).any():
            raise _broken(self.whose, "its labels are not states of the variables")
        if not self.scaled and (found.scale != 1.0).any():
            raise _broken(self.whose, "planes with scales are of the form RiskForm.SCALED")
        theta, labels = self.scores(w, ids), found.labels.astype(np.int32)
        margin = score_labels(self.program, theta, truth, ids) - score_labels(self.program, theta, labels, ids)
        value = found.loss - found.scale * margin
        off = ~(np.abs(value - found.value) <= CLOSE * np.maximum(1.0, np.maximum(np.abs(value), np.abs(found.loss))))
        if off.any():
            i = int(np.flatnonzero(off)[0])
            text = f"the value of its plane is {found.value[i]:.6g}, and loss - scale w . psi is {value[i]:.6g}"
            raise _broken(self.whose, f"{text} (example {ids[i]})")
        if (found.value < 0.0).any() or (found.bound < found.value).any():
            raise _broken(self.whose, "a plane is below zero, where the truth's is, or above its bound")
        return found


def _check_array(whose: str, name: str, array: Any, size: int) -> None:
    if not (isinstance(array, np.ndarray) and array.shape == (size,) and array.dtype == np.float64):
        came = f"{array.dtype}, shape {array.shape}" if isinstance(array, np.ndarray) else type(array).__name__
        raise _broken(whose, f"'{name}' must be an array of {size} float64, got {came}")


def _broken(whose: str, text: str) -> PluginError:
    return PluginError(f"{whose} broke its contract: {text}")
