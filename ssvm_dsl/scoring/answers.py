"""Answers of a scorer: labels, scores, marginals, log Z, and counts of states in the shape of the scores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, describe, real_array
from ssvm_dsl.scores.labellings import add_labels
from ssvm_dsl.scores.marginals import add_marginals
from ssvm_dsl.scoring.batch import RawLayout, Sizes
from ssvm_dsl.scoring.grounded_batch import GroundedBatch
from ssvm_dsl.scoring.questions import Truth


class ScoredAnswers:
    """The answers to one question about a batch of B examples, each computed on first access.

    Attributes
    ----------
    plan : Plan
        The backend that answered, and why it was chosen.
    score : ndarray of float64, shape (B,) or (k, B)
        Of the best labellings, with the loss where it was added; ``nan`` for marginals.
    bound : ndarray of float64, shape (B,)
        Upper bound on the score of any labelling; ``nan`` where no bound is proved.
    log_z : ndarray of float64, shape (B,)
        The log partition, for the tasks ``marginals`` and ``log_z``; ``nan`` for others.
    """

    def __init__(
        self,
        grounded: GroundedBatch,
        layouts: Mapping[str, RawLayout],
        sizes: Sizes,
        plan: Plan,
        solution: Solution,
        sums: Theta | None,
        truth: Truth | None,
        truth_score: F64 | None,
        coef: F64,
    ) -> None:
        self._grounded, self._layouts, self._sizes = grounded, layouts, sizes
        self._solution, self._sums, self._truth, self._truth_score = solution, sums, truth, truth_score
        self._coef = coef
        none = np.full(grounded.layout.n, np.nan)
        self.plan, self.score, self.bound = plan, solution.score, solution.bound
        self.log_z = none if solution.log_partition is None else solution.log_partition

    @property
    def states(self) -> I32:
        """The best states of all variables, packed; ``shape (V,)`` or ``(k, V)``.

        Raises
        ------
        OptionError
            Marginals were asked for.
        """
        if self.log_z is self._solution.log_partition:
            raise OptionError("marginals have no labels; ask for task='best'")
        return self._solution.labels

    @cached_property
    def labels(self) -> list[Any]:
        """The best labels of each example in the model's classes; for ``kbest`` a list of (labels, score), best first.

        Raises
        ------
        OptionError
            Marginals were asked for.
        """
        states, layout = self.states, self._grounded.layout
        if states.ndim == 1:
            return layout.decode(states)
        ranked = [layout.decode(np.maximum(one, 0)) for one in states]
        return [
            [(ranked[r][i], float(score)) for r, score in enumerate(self.score[:, i]) if score > -np.inf]
            for i in range(layout.n)
        ]

    def padded(self, label: str, width: tuple[int, ...] | None = None, fill: int = -1) -> NDArray[np.int64]:
        """Return the states of a label in an array ``(B, *positions)``, ``fill`` where there is no position.

        Of the k best ones ``(k, B, *positions)``.

        Parameters
        ----------
        label : str
        width : tuple of int, optional
            The size of each axis; by default that of its mask, or of the largest example.
        fill : int

        Raises
        ------
        OptionError
            There is no such label, or marginals were asked for.
        DataError
            The width is too small, or not that of the mask.
        """
        layout, sizes, states = self._grounded.layout, self._sizes, self.states
        known = {one.name: one for one in layout.declaration.own_labels}
        if label not in known:
            raise OptionError(f"no label '{label}'; the labels are {', '.join(known)}")
        template = self._grounded.label_template(known[label])
        if width is None:
            own = sizes.of(template).max(axis=0, initial=0).tolist()
            masked = [sizes.mask_widths.get(axis.name) for axis in template.axes]
            width = tuple(size if most is None else most for size, most in zip(own, masked, strict=True))
        at = sizes.places(template, width, "width")
        mine = states[..., layout.variables(known[label])]
        shape = (*states.shape[:-1], sizes.n, *width)
        if at is None:
            return mine.astype(np.int64).reshape(shape)
        out = np.full((*states.shape[:-1], sizes.n * prod(width)), fill, dtype=np.int64)
        out[..., at] = mine
        return out.reshape(shape)

    @cached_property
    def marginals(self) -> list[Any]:
        """The probability of each state at each position, ``(*positions, states)`` for each example.

        A dict by label where the model has several.

        Raises
        ------
        OptionError
            They were not asked for.
        """
        if self._solution.marginals is not None:
            return self._grounded.layout.decode_states(self._solution.marginals.node)
        if self._sums is None or (self._coef != 1.0).any():
            raise OptionError("marginals are not there: ask for task='marginals'")
        return self._grounded.layout.decode_states(self._sums.node)

    def counts(self, weights: NDArray[np.float64] | None = None, *, less_truth: bool = False) -> dict[str, Any]:
        """Return how often each score counts, in the shape of the scores: the gradient of the answer's value.

        That of the score of the best labelling (for ``kbest`` of the first), of log Z for marginals; where all factors
        have the same scores it is a sum over all of them.

        Parameters
        ----------
        weights : ndarray of float64, shape (B,), optional
            The factor of the counts of each example; by default the weights of the question.
        less_truth : bool
            Subtract the counts of the truth with the same weights: the gradient of the difference of both scores.

        Raises
        ------
        OptionError
            Marginals were summed up already, so that they cannot be weighed; or no truth was given.
        """
        if self._sums is not None and weights is not None:
            raise OptionError("these counts are sums already: give answer(...) the weights")
        coef, program = self._coef if weights is None else self._coefficients(weights), self._grounded.program
        out = self._counted(coef)
        if less_truth:
            add_labels(program, self._needed_truth().states, -coef, program.every_example, out.node, out.tables)
        return self._by_template(out)

    def _counted(self, coef: F64) -> Theta:
        """Return the counts of all examples as a new Theta."""
        if self._sums is not None:
            return self._sums.copy()
        out, ids = Theta.zeros(self._grounded.program), self._grounded.program.every_example
        if self._solution.marginals is not None:
            add_marginals(self._grounded.program, self._solution.marginals, coef, ids, out.node, out.tables)
        else:
            labels = self._solution.labels
            add_labels(
                self._grounded.program, labels if labels.ndim == 1 else labels[0], coef, ids, out.node, out.tables
            )  # fmt: skip
        return out

    def truth_counts(self, weights: NDArray[np.float64] | None = None) -> dict[str, Any]:
        """Return the counts of the truth in the shape of the scores; see :meth:`counts`.

        Raises
        ------
        OptionError
            No truth was given.
        """
        out, ids = Theta.zeros(self._grounded.program), self._grounded.program.every_example
        truth = self._needed_truth().states
        add_labels(self._grounded.program, truth, self._coefficients(weights), ids, out.node, out.tables)
        return self._by_template(out)

    @property
    def truth_score(self) -> F64:
        """The score of the truth, without the loss; ``shape (B,)``.

        Raises
        ------
        OptionError
            No truth was given.
        """
        self._needed_truth()
        assert self._truth_score is not None
        return self._truth_score

    @property
    def loss(self) -> F64:
        """The loss of the best labelling against the truth; ``shape (B,)``.

        Raises
        ------
        OptionError
            No truth was given, the model has no loss, or marginals were asked for.
        """
        truth = self._needed_truth()
        if truth.loss is None:
            raise OptionError("the model has no loss")
        states = self.states
        return truth.loss.value(self._grounded.program, states if states.ndim == 1 else states[0])

    def _needed_truth(self) -> Truth:
        if self._truth is None:
            raise OptionError("no truth was given: answer(..., truth=labels)")
        return self._truth

    def _coefficients(self, weights: NDArray[np.float64] | None) -> F64:
        n = self._grounded.layout.n
        return np.ones(n) if weights is None else checked_weights(weights, n)

    def _by_template(self, sums: Theta) -> dict[str, Any]:
        """Return numbers laid out as a Theta, which are not needed any more, in the shape of the scores."""
        shapes = {name: (layout.n_factors, layout.template.width) for name, layout in self._layouts.items()}
        gathered = self._grounded.gathered(sums.node, sums.tables, shapes)
        return {name: layout.restored(gathered[name]) for name, layout in self._layouts.items()}


def checked_weights(value: Any, n: int) -> F64:
    """Return the weights of n examples.

    Raises
    ------
    DataError
        They are not n finite numbers.
    """
    expected = f"{n} numbers"
    try:
        array = as_floats(real_array(value))
    except NotNumbers as err:
        raise DataError("weights", expected=expected, found=err.found, hint=err.hint) from None
    if array.shape != (n,) or not np.isfinite(array).all():
        raise DataError("weights", expected=expected, found=describe(array) if array.shape != (n,) else str(array))
    return array
