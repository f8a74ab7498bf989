"""Former names of modules, as pickles of models hold them: importing one returns the classes from their new modules."""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

#: The new module of the classes of each module that was removed.
MOVED = {
    "ssvm_dsl.compiler.structure": "ssvm_dsl.compiler.prepared",
    "ssvm_dsl.ir.messages": "ssvm_dsl.ir.solution",
    "ssvm_dsl.lang.constraints.custom": "ssvm_dsl.lang.constraints.structures",
    "ssvm_dsl.lang.constraints.derivable": "ssvm_dsl.lang.constraints.implied",
    "ssvm_dsl.lang.constraints.quantities": "ssvm_dsl.lang.constraints.logic",
    "ssvm_dsl.lang.constraints.segments": "ssvm_dsl.lang.constraints.implied",
    "ssvm_dsl.lang.features.span_features": "ssvm_dsl.lang.features.sources",
    "ssvm_dsl.lang.given": "ssvm_dsl.lang.factors",
    "ssvm_dsl.lang.grammars.partial_tree": "ssvm_dsl.lang.grammars.parse_tree",
    "ssvm_dsl.lang.losses.count_loss": "ssvm_dsl.lang.losses.label_losses",
    "ssvm_dsl.lang.rules.ruled_out": "ssvm_dsl.lang.constraints.forbidden",
    "ssvm_dsl.learning.errors_report": "ssvm_dsl.learning.score_report",
    "ssvm_dsl.learning.tuning.cross_validation": "ssvm_dsl.learning.tuning.folds",
    "ssvm_dsl.scoring.problems": "ssvm_dsl.inference.problems",
}


class MovedModules:
    """A finder of modules by their former names."""

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how to make the module of a former name; ``None`` for other names."""
        return ModuleSpec(name, cls) if name in MOVED else None  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        """Return ``None``: an ordinary module."""
        return None

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Let a module look up each name where it is now."""
        module.__getattr__ = partial(getattr, import_module(MOVED[module.__name__]))  # type: ignore[method-assign]


def find_moved_modules() -> None:
    """Let Python find removed modules by their former names, after all its other ways of finding modules."""
    sys.meta_path.append(MovedModules)
