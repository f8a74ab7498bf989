"""``open_plan``: from a plan to the session that the rest of the package asks."""

from __future__ import annotations

from ssvm_dsl.inference.layers.base import PlannedSession
from ssvm_dsl.inference.layers.checked import CheckedSession
from ssvm_dsl.inference.layers.components import ComponentSession
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.program import Program
from ssvm_dsl.registry import Registry, registry


def open_plan(plan: Plan, program: Program, plugins: Registry | None = None, outwards: bool = True) -> PlannedSession:
    """Open the planned backend (or one for each part) on a program.

    Parameters
    ----------
    plan : Plan
    program : Program
    plugins : Registry, optional
        The installed plug-ins by default.
    outwards : bool
        Whether bounds are rounded outwards, so that they hold in exact arithmetic.  It costs a look at all scores;
        training and prediction, which do not depend on the last digits, go without.
    """
    known = registry() if plugins is None else plugins
    kind = ComponentSession if plan.components else CheckedSession
    return kind(plan, program, known, outwards)
