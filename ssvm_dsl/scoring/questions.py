"""Questions to a scorer, and the truth that its answers are compared with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import I32
from ssvm_dsl.compiler.agreements import set_auxiliary
from ssvm_dsl.compiler.losses.loss import build_loss
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.ir.loss import ADDITIVE, LossTerm
from ssvm_dsl.ir.need import Task
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.registry import loss_function
from ssvm_dsl.scoring.batch import Sizes
from ssvm_dsl.scoring.grounded_batch import GroundedBatch

#: The tasks by the words that users write.
TASKS = {
    "best": Task.MAP,
    "kbest": Task.KBEST,
    "marginals": Task.MARGINALS,
    "log_z": Task.MARGINALS,
    "relaxed": Task.RELAXED,
}


def task_of(task: object, k: object) -> Task:
    """Return the task of a word.

    Raises
    ------
    OptionError
        It is no task, or k is not a positive int.
    """
    if not isinstance(task, str) or task not in TASKS:
        raise OptionError(f"task must be one of {', '.join(TASKS)}, got {task!r}")
    if not isinstance(k, int | np.integer) or isinstance(k, bool) or k < 1:
        raise OptionError(f"k must be a positive int, got {k!r}")
    return TASKS[task]


@dataclass(frozen=True, eq=False)
class Truth:
    """Labels that answers are held against.

    Parameters
    ----------
    declaration : Declaration
    grounded : GroundedBatch
    states : ndarray of int32, shape (V,)
    """

    declaration: Declaration
    grounded: GroundedBatch
    states: I32

    @cached_property
    def loss(self) -> LossTerm | None:
        """The model's loss, if it has one; computed on first access."""
        loss, grounded = self.declaration.loss, self.grounded
        if loss is None:
            return None
        return build_loss(loss, grounded.layout, grounded.examples, self.states, None, loss_function)


def read_truth(declaration: Declaration, grounded: GroundedBatch, sizes: Sizes, Y: Any) -> Truth:
    """Return the states of labels, and the loss of other ones.

    Parameters
    ----------
    declaration : Declaration
    grounded : GroundedBatch
    sizes : Sizes
    Y : list of labels, or ndarray of ints
        As for ``fit``; an array ``(B, *positions)`` holds numbers of states, padded as scores are.

    Raises
    ------
    DataError
        Names label and example: labels that are not known, or no labels of the model.
    OptionError
        The model has latent variables.
    """
    if declaration.latents:
        names = ", ".join(one.name for one in declaration.latents)
        text = f"model {declaration.name} has latent variables ({names}), which no truth covers"
        raise OptionError(f"{text}: scores are answered without truth= and augmented=")
    if isinstance(Y, np.ndarray) and Y.dtype.kind in "iu" and Y.ndim:
        states, unknown = _padded_states(declaration, grounded, sizes, Y), None
    else:
        encoded = grounded.layout.encode(Y)
        states, unknown = encoded.states, encoded.unknown
    if grounded.layout.agreements:
        unknown = set_auxiliary(grounded.layout, grounded.examples, states, unknown)
    if unknown is not None and unknown.any():
        example = int(np.searchsorted(grounded.layout.var_ptr, int(np.argmax(unknown)), side="right")) - 1
        raise DataError("truth", example=example, expected="labels that are all known", found="one that is not")
    return Truth(declaration, grounded, states)


def _padded_states(declaration: Declaration, grounded: GroundedBatch, sizes: Sizes, Y: NDArray[Any]) -> I32:
    """Return the states of the only label, given as numbers in a padded array; those of auxiliary variables are 0."""
    label = declaration.own_labels[0]
    if len(declaration.own_labels) != 1 or label.pointer:
        expected = "a list of labels: numbers of states in an array are for models of a single plain label"
        raise DataError("truth", expected=expected, found=describe(Y))
    template = grounded.label_template(label)
    if len(Y) != sizes.n or Y.ndim != 1 + len(template.axes):
        axes = ", ".join([str(sizes.n), *(axis.words for axis in template.axes)])
        expected = f"states of {sizes.n} examples, padded: an array of shape ({axes}{'' if template.axes else ','})"
        raise DataError("truth", expected=expected, found=describe(Y))
    at = sizes.places(template, Y.shape[1:], "truth")
    given, places = (Y.ravel() if at is None else Y.ravel()[at]), grounded.layout.variables(label)
    wrong = (given < 0) | (given >= label.n_states)
    if wrong.any():
        k = int(np.argmax(wrong))
        variable = int(np.arange(grounded.program.n_variables)[places][k])
        example = int(np.searchsorted(grounded.layout.var_ptr, variable, side="right")) - 1
        expected = f"numbers of states from 0 to {label.n_states - 1} where there are positions"
        raise DataError("truth", example=example, expected=expected, found=str(given[k]))
    states = np.zeros(grounded.program.n_variables, dtype=np.int32)
    states[places] = given
    return states


def require_additive(declaration: Declaration, truth: Truth) -> LossTerm:
    """Return the loss that scores are augmented by.

    Raises
    ------
    OptionError
        There is none, or it does not add up over variables.
    """
    loss, name = truth.loss, declaration.name
    if loss is None:
        raise OptionError(f"model {name} has no loss to augment scores by; declare one, e.g. loss = Hamming(y)")
    if loss.kind != ADDITIVE:
        text = f"the loss of model {name} ({loss.called}) does not add up over variables"
        raise OptionError(f"{text}: scores can be augmented by Hamming, Cost of single variables, and sums of these")
    return loss
