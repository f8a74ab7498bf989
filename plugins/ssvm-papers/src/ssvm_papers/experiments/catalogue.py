"""All experiments by name.

A new experiment is an :class:`~ssvm_papers.results.experiment.Experiment` in a module of its family, and an entry here.
"""

from __future__ import annotations

from collections.abc import Sequence

from ssvm_dsl.errors import OptionError, meant
from ssvm_papers.experiments import (
    approximate_steps,
    blocks,
    constant_steps,
    counting,
    dual_loss_claims,
    dual_loss_soft,
    dual_losses,
    ladar,
    multiclass,
    ocr,
    regret,
    regret_values,
    sequences,
    solvers,
    stripes,
    value_functions,
)
from ssvm_papers.results.experiment import Experiment

#: In the order of the papers.
EXPERIMENTS: tuple[Experiment, ...] = (
    *ocr.EXPERIMENTS,
    *ladar.EXPERIMENTS,
    *value_functions.EXPERIMENTS,
    *regret.EXPERIMENTS,
    *constant_steps.EXPERIMENTS,
    *regret_values.EXPERIMENTS,
    *approximate_steps.EXPERIMENTS,
    *counting.EXPERIMENTS,
    *solvers.EXPERIMENTS,
    *multiclass.EXPERIMENTS,
    *sequences.EXPERIMENTS,
    *blocks.EXPERIMENTS,
    *stripes.EXPERIMENTS,
    *dual_losses.EXPERIMENTS,
    *dual_loss_claims.EXPERIMENTS,
    *dual_loss_soft.EXPERIMENTS,
)


def chosen(names: Sequence[str]) -> list[Experiment]:
    """Return the experiments of these names or families, in the order of the list; all of them without names.

    Raises
    ------
    OptionError
        There is no such experiment.
    """
    known = {one.name for one in EXPERIMENTS} | {one.family for one in EXPERIMENTS}
    for name in names:
        if name not in known:
            listed = ", ".join(dict.fromkeys(one.name for one in EXPERIMENTS))
            raise OptionError(f"there is no experiment '{name}'{meant(name, known)}\n  known: {listed}")
    return [one for one in EXPERIMENTS if not names or one.name in names or one.family in names]
