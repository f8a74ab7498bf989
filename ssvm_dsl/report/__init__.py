"""Tables, live progress, and plots, which are imported on first use and need matplotlib then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssvm_dsl.lazy_api import lazy_names

_HOMES = {
    "ssvm_dsl.report.confusion": ("confusion_matrix",),
    "ssvm_dsl.report.contributions": ("plot_contributions",),
    "ssvm_dsl.report.factor_graph": ("plot_factor_graph",),
    "ssvm_dsl.report.labellings": (
        *("plot_heads", "plot_label_maps", "plot_links", "plot_marginals", "plot_segments", "plot_transitions"),
    ),
    "ssvm_dsl.report.parse_trees": ("plot_tree",),
    "ssvm_dsl.report.plots": (
        *("plot_confusion", "plot_grid", "plot_path", "plot_training", "plot_weights", "save_for_script"),
    ),
}

__all__, __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__


if TYPE_CHECKING:
    from ssvm_dsl.report.confusion import confusion_matrix as confusion_matrix
    from ssvm_dsl.report.contributions import plot_contributions as plot_contributions
    from ssvm_dsl.report.factor_graph import plot_factor_graph as plot_factor_graph
    from ssvm_dsl.report.labellings import plot_heads as plot_heads
    from ssvm_dsl.report.labellings import plot_label_maps as plot_label_maps
    from ssvm_dsl.report.labellings import plot_links as plot_links
    from ssvm_dsl.report.labellings import plot_marginals as plot_marginals
    from ssvm_dsl.report.labellings import plot_segments as plot_segments
    from ssvm_dsl.report.labellings import plot_transitions as plot_transitions
    from ssvm_dsl.report.parse_trees import plot_tree as plot_tree
    from ssvm_dsl.report.plots import plot_confusion as plot_confusion
    from ssvm_dsl.report.plots import plot_grid as plot_grid
    from ssvm_dsl.report.plots import plot_path as plot_path
    from ssvm_dsl.report.plots import plot_training as plot_training
    from ssvm_dsl.report.plots import plot_weights as plot_weights
    from ssvm_dsl.report.plots import save_for_script as save_for_script
