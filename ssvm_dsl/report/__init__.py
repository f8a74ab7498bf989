"""Tables, live progress, and plots, which are imported on first use and need matplotlib then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssvm_dsl.lazy_api import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)

if TYPE_CHECKING:
    from ssvm_dsl.report.confusion import confusion_matrix as confusion_matrix
    from ssvm_dsl.report.factor_graph import plot_factor_graph as plot_factor_graph
    from ssvm_dsl.report.labellings import plot_contributions as plot_contributions
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
