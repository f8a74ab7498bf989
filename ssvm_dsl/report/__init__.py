"""What people look at: tables, live progress, and plots, which are imported on first use and need matplotlib then."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__all__ = ["confusion_matrix", "plot_confusion", "plot_path", "plot_training", "plot_weights"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'ssvm_dsl.report' has no attribute '{name}'")
    value = getattr(import_module("ssvm_dsl.report.plots"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from ssvm_dsl.report.plots import confusion_matrix as confusion_matrix
    from ssvm_dsl.report.plots import plot_confusion as plot_confusion
    from ssvm_dsl.report.plots import plot_path as plot_path
    from ssvm_dsl.report.plots import plot_training as plot_training
    from ssvm_dsl.report.plots import plot_weights as plot_weights
