"""``MarginProblem``: loss-augmented oracles over a grounded data set, as trainers of margins ask for them.

The risk is the structured hinge by margin rescaling,

    risk_i(w) = max_y [ loss(y_i, y) + w . Phi(x_i, y) ] - w . Phi(x_i, y_i) .

An oracle call is a pure function of (program, features, w, examples): it knows nothing of where it runs.

There are two ways to the same planes.  :meth:`MarginProblem.oracle` fills scores and asks the session, for any backend;
certificates are always taken this way.  Where the backend offers a compiled oracle (:meth:`MarginProblem.compiled`),
kernels of trainers add the loss to the scores of one example after the other and ask it themselves.

Where each call of the oracle completes latent variables again (:class:`CompletingProblem`), what an online trainer sees
of example i at weights w is the risk

    max_(y, h) [loss(y_i, y) + w . Phi(x_i, y, h)] - max_h w . Phi(x_i, y_i, h)

with the plane of both maximisers, the second one found with the known labels clamped.  Without a loss these are the
updates of the latent structured perceptron (Sun, Matsuzaki, Okanohara and Tsujii, IJCAI 2009): away from the best
labelling, towards the best one that agrees with what is known.  The risk is not convex, and planes do not bound it at
other weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I32, I64, Bools
from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.inference.batch import split_examples
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.loss import ADDITIVE, JOINT, ZERO_ONE
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, owners, pointers, positions
from ssvm_dsl.ir.solution import Prices, join_marginals, label_ptr, take_marginals
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.risks.base import BaseProblem, each_once, proved_share
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
        found = self.executor.map(partial(self._part, w), parts)
        planes = found[0] if len(found) == 1 else join_planes(found)
        self.n_oracle_calls += len(ids)
        self._remember(w, ids, planes.value, planes.bound)
        self.oracle_seconds += self.seconds() - start
        return planes if back is None else repeated(planes, back, self.program)

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
        found = self.ask(Question(theta, ids), of_truth, whole=True)
        labels = found.labels_or(truth)
        loss = self.loss.value(program, labels, ids)
        value = loss + found.score - of_truth
        if given is not None:  # which is in the loss, too
            value -= node_scores(program, given, labels, ids)
        planes = self._planes_of(ids, truth, labels, loss, value, np.full(len(ids), np.nan))
        self.n_oracle_calls += len(ids)
        self.oracle_seconds += self.seconds() - start
        return planes if back is None else repeated(planes, back, program)

    def compiled(self, tables: bool = False) -> CompiledOracle | None:
        """Return the backend's compiled oracle for loss-augmented maximisation, ``None`` without one.

        ``tables``: whether the caller's kernel adds what joint states score without weights.
        """
        plain = self.loss.kind == ADDITIVE and not self.parameters.has_varying_constants
        if not (plain or (tables and self.loss.kind in (ADDITIVE, JOINT))) or self.parameters.sliced:
            return None  # other kernels know of losses that add up over variables, and of features at hand, only
        oracle = self.session.compiled()
        if oracle is None or not oracle.finite:
            return oracle
        constants = self.parameters.constants
        given = [] if constants is None else list(constants.tables.values())
        rules_out = self.program.allowed is not None or any((table == -np.inf).any() for table in given)
        return None if rules_out else oracle

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
        planes = self.oracle(w, examples)
        if self.cut_short:
            self._require_bounds(planes)
        coef = -self.objective.slopes(planes.value) * self.objective.weight[planes.examples]
        vector = self.accumulate(planes, coef, np.zeros(self.dim))
        return RiskGradient.below(self.objective, planes.examples, planes.value, planes.bound, vector, planes.loss)

    def evaluate(self, w: F64) -> tuple[float, float, Planes]:
        """Return (objective, certified upper bound or nan, planes of all examples) at w."""
        planes = self.oracle(w)
        if self.cut_short:
            self._require_bounds(planes)
        return self.objective.primal(w, planes.value), self.objective.primal(w, planes.bound), planes

    def _require_bounds(self, planes: Planes) -> None:
        """Raise ``OutOfTime`` where risks of planes that time cut short have no bound, either."""
        if np.isnan(planes.bound).any():
            raise OutOfTime("the time limit came before the oracle's answers, and they have no bounds")

    def tightness(self, w: F64, ask: bool = True) -> float:
        """Return the share of examples whose labelling at w is proved the worst one.

        ``nan`` where nothing is proved: the oracle is a heuristic.
        """
        if self.exact_with_backend and self.session.guarantee is Guarantee.EXACT and not self.cut_short:
            return 1.0
        if not ask:
            return np.nan
        found = self.evaluation(w)
        return proved_share(found.value, found.bound)

    def _part(self, w: F64, ids: I64) -> Planes:
        """Return the planes of one part of a batch."""
        theta, program, loss = self._theta, self.program, self.loss
        self.parameters.fill_examples(w, theta, ids)
        truth = self.truth[positions(program.var_ptr, ids)]
        of_truth = score_labels(program, theta, truth, ids)
        if loss.kind == ZERO_ONE:
            labels, value, bound = self._zero_one(theta, ids, truth, of_truth)
        else:
            loss.augment(program, theta, ids)
            shift = loss.const[ids] - of_truth
            if loss.tables is None:
                solution = self.ask(Question(theta, ids, warm=self._prices_of(ids) if self._prices else None), -shift)
                if isinstance(solution.warm, Prices):
                    self._keep_prices(solution.warm)
            else:  # what it adds by counts
                solution = self.ask_by_count(theta, loss.tables.select(ids), ids, -shift)
            labels, value, bound = solution.labels_or(truth), solution.score + shift, solution.bound + shift
        return self._planes_of(ids, truth, labels, loss.value(program, labels, ids), value, bound)

    def _planes_of(self, ids: I64, truth: I32, labels: I32, loss: F64, value: F64, bound: F64) -> Planes:
        """Return planes; the truth's, which is zero, where an inexact oracle has found nothing better, or nothing."""
        ptr = label_ptr(self.program, ids)
        if self.parameters.has_varying_constants:
            loss = loss + self._without_weights(ids, truth, labels)
        below = value < 0.0
        if below.any():
            labels = np.where(np.repeat(below, np.diff(ptr)), truth, labels)
            loss, value = np.where(below, 0.0, loss), np.maximum(value, 0.0)
        return Planes(ids, ptr, labels, loss, value, bound if np.isnan(bound).any() else np.fmax(bound, value))

    def _without_weights(self, ids: I64, truth: I32, labels: I32) -> F64:
        """Return what labellings score without weights more than the truth: a part of the offset of their planes."""
        constants, program = self.parameters.constants, self.program
        assert constants is not None
        return constants.value(program, labels, ids) - constants.value(program, truth, ids)

    def _prices_of(self, ids: I64) -> Prices | None:
        """Return the prices that the last oracle calls for some examples have kept, if any."""
        there = [i for i in ids.tolist() if i in self._prices]
        if not there:
            return None
        values = [self._prices[i] for i in there]
        return Prices(np.array(there, dtype=np.int64), pointers(np.array([*map(len, values)])), np.concatenate(values))

    def _keep_prices(self, prices: Prices) -> None:
        """Keep the prices of some examples for the next oracle call."""
        for k, i in enumerate(prices.ids.tolist()):
            self._prices[i] = prices.values[prices.ptr[k] : prices.ptr[k + 1]].copy()

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
        self._keep_prices(Prices(ids, ptr, values))

    def _zero_one(self, theta: Theta, ids: I64, truth: I32, of_truth: F64) -> tuple[I32, F64, F64]:
        """Return the most violated labelling for the zero-one loss, from the two best ones."""
        program = self.program
        solution = self.ask(Question(theta, ids, Task.KBEST, k=2), of_truth, whole=True)
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


def repeated(planes: Planes, back: I64, program: Program) -> Planes:
    """Return the plane of each example asked for, of those of distinct ones (:func:`each_once`)."""
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


class CompletingProblem(MarginProblem):
    """Margin rescaling over a data set with latent variables.

    At the first visit of an example its latent variables have the states they were given: weights say nothing yet.

    Parameters
    ----------
    problem : MarginProblem
        The problem in which the given states are true.
    hidden : ndarray of bool, shape (V,)
        Which variables are completed.
    """

    def __init__(self, problem: MarginProblem, hidden: Bools) -> None:
        super().__init__(problem.parameters, problem.loss, problem.objective, problem.session, problem.executor)
        self._hidden = hidden
        self.truth: I32 = problem.truth.copy()
        self._clamp = np.where(hidden, np.int32(-1), self.truth)
        self._visited = np.zeros(self.n, dtype=bool)

    def oracle(self, w: F64, examples: I64 | None = None) -> Planes:
        """Complete the selected examples, and return their most violated planes; see :class:`MarginProblem`."""
        self._complete(w, each_once(self.program, examples)[0])
        return self._without_ties(super().oracle(w, examples))

    def predicted(self, w: F64, examples: I64 | None = None) -> Planes:
        """Complete the selected examples, and return the planes of the labellings of the highest score."""
        self._complete(w, each_once(self.program, examples)[0])
        return self._without_ties(super().predicted(w, examples))

    def compiled(self, tables: bool = False) -> None:
        """Return nothing: compiled oracles know one truth."""
        return

    def _complete(self, w: F64, ids: I64) -> None:
        """Take the best latent states at w for the truth of examples that were visited before."""
        start, again = self.seconds(), ids[self._visited[ids]]
        self._visited[ids] = True
        if len(again):
            theta = self.parameters.scores(w, again, out=self._theta)
            found = self.ask(Question(theta, again, Task.MAP_CLAMPED, self._clamp), whole=True)
            at = members(self.program.var_ptr, again)
            self.truth[at] = np.where(self._hidden[at], found.labels_or(self.truth[at]), self.truth[at])
            self.n_oracle_calls += len(again)
        self.oracle_seconds += self.seconds() - start

    def _without_ties(self, planes: Planes) -> Planes:
        """Return planes, those of labellings that agree with what is known as those of the truth: other states tie."""
        at = members(self.program.var_ptr, planes.examples)
        truth, owner = self.truth[at], np.repeat(np.arange(len(planes.examples)), np.diff(planes.ptr))
        wrong = np.bincount(owner[(planes.labels != truth) & ~self._hidden[at]], minlength=len(planes.examples))
        tied = (wrong == 0) & (planes.value <= 0.0)
        return replace(planes, labels=np.where(tied[owner], truth, planes.labels).astype(np.int32))
