"""``MarginProblem``: the world of a trainer - loss-augmented oracles over a grounded data set.

The risk is the structured hinge by margin rescaling,

    risk_i(w) = max_y [ loss(y_i, y) + w . Phi(x_i, y) ] - w . Phi(x_i, y_i) .

An oracle call is a pure function of (program, features, w, examples): it knows nothing of where it runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.inference.batch import split_examples
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.loss import ADDITIVE, JOINT, ZERO_ONE
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, owners, pointers, positions
from ssvm_dsl.ir.solution import Prices, Solution, join_marginals, label_ptr, take_marginals
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.driver.evaluations import proved_share
from ssvm_dsl.learning.risks.base import BaseProblem, each_once
from ssvm_dsl.learning.risks.ceilings import largest_losses
from ssvm_dsl.plugin_api.protocols import CompiledOracle
from ssvm_dsl.plugin_api.training import Planes, RiskGradient
from ssvm_dsl.scores.labellings import node_scores, score_labels

#: Memory that the beliefs of one example may take for a loss of counts.
MAX_COUNT_BYTES = 2.0**31


class MarginProblem(BaseProblem):
    """Margin-rescaling risk over a data set.

    Parameters are those of :class:`~ssvm_dsl.learning.risks.base.BaseProblem`.
    """

    exact_with_backend = True  # an exact backend makes the oracle exact

    def _prepare(self) -> None:
        super()._prepare()
        self.truth: I32 = self.loss.truth
        self._prices: dict[int, F64] = {}
        if self.loss.tables is not None:
            _check_count_memory(self.loss.tables, self.program)

    def oracle(self, w: F64, examples: I64 | None = None) -> Planes:
        """Return the most violated plane of each selected example.

        Parameters
        ----------
        w : ndarray of float64, shape (dim,)
        examples : ndarray of int64, optional
            In any order; one that is there several times is answered once.  All by default.

        Notes
        -----
        Where time cuts it short, ``bound`` is what is known by then (``nan`` if nothing is), and the plane is that of
        the best labelling found, the truth's if there is none.

        Raises
        ------
        OutOfTime
            Time was up before.
        """
        start, self.cut_short = self.seconds(), False
        ids, back = each_once(self.program, examples)
        self.parameters.fill_shared(w, self._theta)
        parts = split_examples(self.program.state_ptr[self.program.var_ptr], ids)
        planes = self.executor.map(lambda part: self._part(w, part), parts)
        self.n_oracle_calls += len(ids)
        joined = join_planes(planes)
        self._remember(w, ids, joined.value, joined.bound)
        self.oracle_seconds += self.seconds() - start
        return repeated(joined, back, self.program)

    def predicted(self, w: F64, examples: I64 | None = None) -> Planes:
        """Return the planes of the labellings of the highest score; ``bound`` is ``nan``."""
        start, program, theta = self.seconds(), self.program, self._theta
        ids, back = each_once(program, examples)
        self.parameters.fill_shared(w, theta)
        self.parameters.fill_examples(w, theta, ids)
        truth, given = self.truth[members(program.var_ptr, ids)], self.loss.given
        if given is not None:  # zero at the truth
            states = positions(program.state_ptr[program.var_ptr], ids)
            theta.node[states] += given[states]
        of_truth = score_labels(program, theta, truth, ids)
        found = self.ask_all(Question(theta, ids), of_truth)
        labels = found.labels_or(truth)
        loss = self.loss.value(program, labels, ids)
        value = loss + found.score - of_truth
        if given is not None:  # which is in the loss, too
            value -= node_scores(program, given, labels, ids)
        planes = self._planes_of(ids, truth, labels, loss, value, np.full(len(ids), np.nan))
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += self.seconds() - start
        return repeated(planes, back, program)

    def compiled(self, tables: bool = False) -> CompiledOracle | None:
        """Return the backend's compiled oracle for loss-augmented maximisation, ``None`` without one.

        ``tables``: whether the caller's kernel adds what joint states score without weights.
        """
        plain = self.loss.kind == ADDITIVE and not self.parameters.has_varying_constants
        if not (plain or (tables and self.loss.kind in (ADDITIVE, JOINT))) or self.parameters.sliced:
            return None  # other kernels know of losses that add up over variables, and of features at hand, only
        oracle = self.session.compiled()
        return None if oracle is not None and oracle.finite and self._rules_out else oracle

    @property
    def _rules_out(self) -> bool:
        """Whether states or joint states are ruled out."""
        constants = self.parameters.constants
        tables = [] if constants is None else list(constants.tables.values())
        return self.program.allowed is not None or any((table == -np.inf).any() for table in tables)

    def accumulate(self, planes: Planes, coef: F64, out: F64) -> F64:
        """Add ``sum_k coef_k scale_k (Phi(x_k, y_k) - Phi(x_k, labels_k))`` to ``out`` and return it."""
        truth = self.truth[members(self.program.var_ptr, planes.examples)]
        coef = coef * planes.scale
        self.parameters.accumulate(truth, coef, out, planes.examples)
        return self.parameters.accumulate(planes.labels, -coef, out, planes.examples)

    def value(self, w: F64) -> tuple[float, float]:
        """Return (objective, certified upper bound or nan) at w."""
        primal, upper, _ = self.evaluate(w)
        return primal, upper

    def risks(self, w: F64, ids: I64) -> tuple[F64, F64]:
        """Return (risks of some examples with the answers found, certified upper bounds or nan) at w."""
        planes = self.oracle(w, ids)
        return planes.value, planes.bound

    def risks_at_zero(self) -> F64 | None:
        """Return the most that each risk is at weights of 0: the largest loss."""
        return largest_losses(self.loss, self.program, self.parameters.constants)

    def gradient(self, w: F64, examples: I64 | None = None) -> RiskGradient:
        """Return the risks of the selected examples and a subgradient of their weighted sum."""
        planes = self._known(self.oracle(w, examples))
        coef = -self.objective.slopes(planes.value) * self.objective.weight[planes.examples]
        vector = self.accumulate(planes, coef, np.zeros(self.dim))
        return RiskGradient.below(self.objective, planes.examples, planes.value, planes.bound, vector, planes.loss)

    def evaluate(self, w: F64) -> tuple[float, float, Planes]:
        """Return (objective, certified upper bound or nan, planes of all examples) at w."""
        planes = self._known(self.oracle(w))
        return self.objective.primal(w, planes.value), self.objective.primal(w, planes.bound), planes

    def _known(self, planes: Planes) -> Planes:
        """Return planes; raise ``OutOfTime`` where time cut them short and their risks have no bound, either."""
        if self.cut_short and np.isnan(planes.bound).any():
            raise OutOfTime("the time limit came before the oracle's answers, and they have no bounds")
        return planes

    @property
    def tightness_is_free(self) -> bool:
        """Whether all answers are proved, so that nothing needs to be asked."""
        return self.exact_with_backend and self.session.guarantee is Guarantee.EXACT and not self.cut_short

    def tightness(self, w: F64) -> float:
        """Return the share of examples whose labelling at w is proved the worst one.

        ``nan`` where nothing is proved: the oracle is a heuristic.
        """
        if self.tightness_is_free:
            return 1.0
        found = self.evaluation(w)
        return proved_share(found.value, found.bound)

    def _part(self, w: F64, ids: I64) -> Planes:
        """Return the planes of one part of a batch."""
        theta, program = self._theta, self.program
        self.parameters.fill_examples(w, theta, ids)
        truth = self.truth[positions(program.var_ptr, ids)]
        of_truth = score_labels(program, theta, truth, ids)
        if self.loss.kind == ZERO_ONE:
            labels, value, bound = self._zero_one(theta, ids, truth, of_truth)
        else:
            self.loss.augment(program, theta, ids)
            shift = self.loss.const[ids] - of_truth
            solution = self._best(theta, ids, known=-shift)
            labels, value, bound = solution.labels_or(truth), solution.score + shift, solution.bound + shift
        return self._planes_of(ids, truth, labels, self.loss.value(program, labels, ids), value, bound)

    def _planes_of(self, ids: I64, truth: I32, labels: I32, loss: F64, value: F64, bound: F64) -> Planes:
        """Return planes; the truth's, which is zero, where an inexact oracle has found nothing better, or nothing."""
        ptr, loss = label_ptr(self.program, ids), loss + self._without_weights(ids, truth, labels)
        below = value < 0.0
        if below.any():
            labels = np.where(np.repeat(below, np.diff(ptr)), truth, labels)
            loss, value = np.where(below, 0.0, loss), np.maximum(value, 0.0)
        return Planes(ids, ptr, labels, loss, value, bound if np.isnan(bound).any() else np.fmax(bound, value))

    def _without_weights(self, ids: I64, truth: I32, labels: I32) -> F64 | float:
        """Return what labellings score without weights more than the truth: a part of the offset of their planes."""
        if not self.parameters.has_varying_constants:
            return 0.0
        constants, program = self.parameters.constants, self.program
        assert constants is not None
        return constants.value(program, labels, ids) - constants.value(program, truth, ids)

    def _best(self, theta: Theta, ids: I64, known: F64) -> Solution:
        """Return the best labellings for loss-augmented scores, with what the loss adds by counts.

        ``known`` are the scores of the truth, whose loss is zero.
        """
        if self.loss.tables is None:
            found = self.ask(Question(theta, ids, warm=self._prices_of(ids)), known)
            if isinstance(found.warm, Prices):
                for k, i in enumerate(found.warm.ids.tolist()):
                    self._prices[i] = found.warm.values[found.warm.ptr[k] : found.warm.ptr[k + 1]].copy()
            return found
        return self.ask_by_count(theta, self.loss.tables.select(ids), ids, known)

    def _prices_of(self, ids: I64) -> Prices | None:
        """Return the prices that the last oracle calls for some examples have kept, if any."""
        there = [i for i in ids.tolist() if i in self._prices] if self._prices else []
        if not there:
            return None
        values = [self._prices[i] for i in there]
        return Prices(np.array(there, dtype=np.int64), pointers(np.array([*map(len, values)])), np.concatenate(values))

    def kept(self) -> dict[str, NDArray[Any]]:
        """Return the prices of all examples; see :class:`~ssvm_dsl.learning.driver.checkpoint.KeepingProblem`."""
        prices = self._prices_of(np.array(sorted(self._prices), dtype=np.int64))
        return {} if prices is None else {"ids": prices.ids, "ptr": prices.ptr, "values": prices.values}

    def keep(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Go on from prices; see :class:`~ssvm_dsl.learning.driver.checkpoint.KeepingProblem`."""
        self._prices = {}
        if not arrays:
            return
        ids, ptr, values = arrays["ids"], arrays["ptr"], arrays["values"]
        sound = ids.dtype == ptr.dtype == np.int64 and values.dtype == np.float64 and ids.ndim == values.ndim == 1
        if not (sound and ptr.shape == (len(ids) + 1,) and ptr[0] == 0 and ptr[-1] == len(values)):
            raise ValueError("expected prices of examples")
        if (np.diff(ptr) < 0).any() or not np.isfinite(values).all() or not np.isin(ids, np.arange(self.n)).all():
            raise ValueError("expected finite prices of examples")
        for k, i in enumerate(ids.tolist()):
            self._prices[i] = values[ptr[k] : ptr[k + 1]].copy()

    def _zero_one(self, theta: Theta, ids: I64, truth: I32, of_truth: F64) -> tuple[I32, F64, F64]:
        """Return the most violated labelling for the zero-one loss, from the two best ones."""
        program = self.program
        solution = self.ask_all(Question(theta, ids, Task.KBEST, k=2), of_truth)
        owner = owners(label_ptr(program, ids))
        first, second = solution.labels
        is_truth = np.bincount(owner, weights=first != truth, minlength=len(ids)) == 0
        other = np.where(is_truth, solution.score[1], solution.score[0])
        value = other + self.loss.weight - of_truth
        keep_truth = ~(value > 0.0)
        labels = np.where(is_truth[owner], second, first)
        labels = np.where(keep_truth[owner], truth, labels).astype(np.int32)
        value = np.where(keep_truth, 0.0, value)
        if self.session.guarantee is Guarantee.EXACT:
            return labels, value, value.copy()
        return labels, value, np.maximum(solution.bound + self.loss.weight - of_truth, value)


def _check_count_memory(tables: CountTables, program: Program) -> None:
    """Refuse counts that would take too much memory."""
    n_bytes = 8.0 * tables.n_beliefs(program)
    largest = int(n_bytes.argmax()) if len(n_bytes) else 0
    if len(n_bytes) and n_bytes[largest] > MAX_COUNT_BYTES:
        rows, columns = tables.shape[largest]
        raise TooLargeError(
            f"the loss of example {largest} is a function of {rows} x {columns} pairs of counts, which takes "
            f"{n_bytes[largest] / 2**30:.1f} GiB to keep for every state ({MAX_COUNT_BYTES / 2**30:g} are allowed); "
            "use shorter examples, or a loss that adds up over variables, such as Hamming with weights"
        )


def join_planes(parts: Sequence[Planes]) -> Planes:
    """Return planes of several parts as one."""
    if len(parts) == 1:
        return parts[0]
    lengths = np.concatenate([np.diff(part.ptr) for part in parts])
    return Planes(
        np.concatenate([part.examples for part in parts]),
        pointers(lengths),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.loss for part in parts]),
        np.concatenate([part.value for part in parts]),
        np.concatenate([part.bound for part in parts]),
        np.concatenate([part.scale for part in parts]),
        join_marginals([part.marginals for part in parts]),
    )


def repeated(planes: Planes, back: I64 | None, program: Program) -> Planes:
    """Return the plane of each example asked for, of those of distinct ones (:func:`each_once`)."""
    if back is None:
        return planes
    marginals = planes.marginals
    return Planes(
        planes.examples[back],
        pointers(np.diff(planes.ptr)[back]),
        planes.labels[members(planes.ptr, back)],
        planes.loss[back],
        planes.value[back],
        planes.bound[back],
        planes.scale[back],
        None if marginals is None else take_marginals(program, marginals, planes.examples, back),
    )
