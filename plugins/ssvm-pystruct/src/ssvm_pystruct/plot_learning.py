"""Curves of a fit: objective, bound, training loss."""

from __future__ import annotations

from typing import Any


def plot_learning(ssvm: Any, time: bool = True) -> None:
    """Draw the bound and the objective of a fitted learner over time (or iterations), and its training loss."""
    import matplotlib.pyplot as plt

    learner = getattr(ssvm, "base_ssvm", ssvm)
    history = learner.svm_.report_.history
    places = [event.seconds if time else event.iteration for event in history]
    figure, axes = plt.subplots(1, 2 if learner.loss_curve_ else 1, squeeze=False)
    axes[0, 0].plot(places, [event.best_dual for event in history], label="bound")
    axes[0, 0].plot(places, [event.estimate for event in history], ".-", label="objective")
    axes[0, 0].set_xlabel("seconds" if time else "iterations")
    axes[0, 0].legend()
    if learner.loss_curve_:
        every = learner.show_loss_every
        axes[0, 1].plot(places[::every][: len(learner.loss_curve_)], learner.loss_curve_)
        axes[0, 1].set_ylabel("training loss")
    figure.tight_layout()
    plt.show()
