"""``SlackProblem``: slack rescaling, where a large loss scales the margin's violation instead of widening the margin.

    risk_i(w) = max_y Delta(y) (1 + w . Phi(x_i, y) - w . Phi(x_i, y_i))

(Tsochantaridis et al. 2005).  The product does not come apart over variables, so that one call of a decoder does
not answer it.  Two exact ways are used:

* by *count*, where the loss is a function of counts (a multiple of a unit for each example, or declared so) and the
  backend finds best labellings by counts (dynamic programming on chains and trees);
* by *envelope* otherwise (:class:`Envelope`), with the k best answers where that is stuck and the backend has them.
  Where neither proves the maximum, the risk has a certified upper bound above its value, and so has the objective: the
  gap of the report does not close, and says so.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.errors import OptionError, TooLargeError
from ssvm_dsl.ir.counts import CountTables
from ssvm_dsl.ir.loss import ADDITIVE, COUNT, ZERO_ONE, LossTerm
from ssvm_dsl.ir.need import Ability, Guarantee, Task
from ssvm_dsl.ir.program import Program
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import owners, positions, runs
from ssvm_dsl.ir.solution import label_ptr
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.learning.risks.ceilings import spreads
from ssvm_dsl.learning.risks.hinges.margin import MarginProblem
from ssvm_dsl.plugin_api.protocols import CompiledOracle
from ssvm_dsl.plugin_api.training import Planes
from ssvm_dsl.scores.labellings import score_labels

#: Largest count that tables are made for.
MAX_COUNT = 2000

#: Most labellings of one example that are looked at when its envelope is stuck.
MAX_K = 1024

#: The unit of losses is the smallest one, divided by at most this.
MAX_PARTS = 12

#: A bound this close to the value (relative to 1 + value) proves it.
ATOL = 1e-10

#: Questions about one example at most: bounds of inexact backends may never meet.
MAX_QUESTIONS = 50

#: Steeper questions are not asked, relative to height over loss: their answers would lose digits.
MAX_SLOPE = 1e5


class SlackProblem(MarginProblem):
    """Slack-rescaling risk over a data set; parameters are those of ``MarginProblem``.

    Raises
    ------
    OptionError
        The backend gives neither proved answers nor bounds, or the loss is of a kind that is not covered.
    """

    exact_with_backend = False

    def _prepare(self) -> None:
        loss = self.loss
        if loss.kind == COUNT and (loss.node.any() or loss.const.any() or loss.factors):
            raise OptionError("risk 'slack' takes a CountLoss alone, not in a sum; risk 'margin' takes both")
        if self.session.guarantee is Guarantee.HEURISTIC:
            raise OptionError("risk 'slack' needs a backend that is exact or gives bounds; risk 'margin' does not")
        super()._prepare()
        self.largest = loss.largest(self.program)
        self.reach = 2.0 * self.largest
        self._unit_margin: MarginProblem | None = None
        if loss.kind == ZERO_ONE:
            one = replace(loss, weight=1.0)
            self._unit_margin = MarginProblem(self.parameters, one, self.objective, self.session, self.executor)
            self._unit_margin._theta = self._theta
        self.counts, self.unit = (np.zeros(0, np.int64), np.zeros(self.n))
        if loss.kind == ADDITIVE:
            self.counts, self.unit = loss_counts(loss, self.program)
        self.tables = loss.tables if loss.kind == COUNT else one_count_tables(self.counts, self.unit, self.largest)
        self.by_count = Ability.COUNTS in self.session.abilities and self.tables is not None

    def risks_at_zero(self) -> F64 | None:
        """Return the most that each risk is at weights of 0: the largest loss, times 1 and scores without weights."""
        constants = self.parameters.constants
        apart = 0.0 if constants is None else spreads(constants, self.program)
        return self.largest * (1.0 + apart)

    def compiled(self, tables: bool = False) -> CompiledOracle | None:
        """Return ``None``: no single decoding answers."""
        return None

    def _part(self, w: F64, ids: I64) -> Planes:
        """Return the planes of one part of a batch."""
        if self.loss.kind == ZERO_ONE:
            return self._all_or_nothing(w, ids)
        theta, program = self._theta, self.program
        self.parameters.fill_examples(w, theta, ids)
        truth = self.truth[positions(program.var_ptr, ids)]
        of_truth = score_labels(program, theta, truth, ids)
        find = self._by_count if self.by_count else self._by_envelope
        labels, value, bound = find(theta, ids, truth, of_truth)
        loss = self.loss.value(program, labels, ids)
        offset = loss
        if self.parameters.has_varying_constants:
            offset = loss * (1.0 + self._without_weights(ids, truth, labels))
        return Planes(ids, label_ptr(program, ids), labels, offset, value, np.fmax(bound, value), loss)

    def _all_or_nothing(self, w: F64, ids: I64) -> Planes:
        """Return the planes for the zero-one loss: those of a margin of 1, scaled."""
        assert self._unit_margin is not None
        weight, planes = self.loss.weight, self._unit_margin._part(w, ids)
        loss, value, bound = weight * planes.loss, weight * planes.value, weight * planes.bound
        return replace(planes, loss=loss, value=value, bound=bound, scale=np.full(len(ids), weight))

    def _by_count(self, theta: Theta, ids: I64, truth: I32, of_truth: F64) -> tuple[I32, F64, F64]:
        """Return (labels, value, bound) of the best product: worth ``loss (1 - s(y_i)) + loss s(y)``."""
        assert self.tables is not None
        prices = self.tables.select(ids).own()
        wanted = prices.offset > -np.inf
        scale = np.where(wanted, prices.offset, 0.0)
        offset = np.where(wanted, scale * (1.0 - np.repeat(of_truth, prices.n_cells)), -np.inf)
        tables, of_zero = replace(prices, offset=offset, scale=scale), np.zeros(len(ids))
        solution = self.ask_by_count(theta, tables, ids, of_zero)  # the truth is worth nothing
        value = np.maximum(solution.score, 0.0)
        owner = owners(label_ptr(self.program, ids))
        labels = np.where((value > 0.0)[owner], solution.labels, truth).astype(np.int32)
        return labels, value, np.fmax(solution.bound, value)

    # -- by envelope -----------------------------------------------------------------------------------

    def _by_envelope(self, theta: Theta, ids: I64, truth: I32, of_truth: F64) -> tuple[I32, F64, F64]:
        """Return (labels, value, bound) from margin-rescaled questions, a round of them at a time."""
        ptr = label_ptr(self.program, ids)
        envelopes = [
            Envelope(truth[ptr[k] : ptr[k + 1]], float(self.largest[i]), float(self.unit[i])) for k, i in enumerate(ids)
        ]
        plain = theta.node[self._states(ids)].copy()
        open_ = np.flatnonzero(self.largest[ids] > 0.0)
        stuck: list[int] = []
        while len(open_):
            slopes = [envelopes[k].question() for k in open_]
            stuck += [k for k, slope in zip(open_.tolist(), slopes, strict=True) if slope is None]
            asked = np.array([slope is not None for slope in slopes])
            open_ = open_[asked]
            if len(open_):
                self._ask(theta, ids, of_truth, plain, open_, np.array([s for s in slopes if s is not None]), envelopes)
        bounds = np.array([e.bound() if self.largest[i] > 0 else 0.0 for e, i in zip(envelopes, ids, strict=True)])
        if Task.KBEST in self.session.tasks and self.session.guarantee is Guarantee.EXACT:
            for k in stuck:
                if not envelopes[k].settled(bounds[k]):
                    bounds[k] = self._k_best(theta, ids, of_truth, plain, k, envelopes[k])
        self._augment(theta, ids, plain, open_, np.zeros(0))
        labels = np.concatenate([*(e.labels for e in envelopes), np.zeros(0, np.int32)]).astype(np.int32)
        value = np.array([e.value for e in envelopes])
        settled = np.array([e.settled(b) for e, b in zip(envelopes, bounds, strict=True)])
        return labels, value, np.where(settled, value, bounds)

    def _states(self, ids: I64) -> slice | I64:
        return positions(self.program.state_ptr[self.program.var_ptr], ids)

    def _augment(self, theta: Theta, ids: I64, plain: F64, which: I64, slopes: F64) -> None:
        """Set the scores of some examples to ``s + slope Delta``, those of all others to ``s``."""
        slope = np.zeros(len(ids))
        slope[which] = slopes
        theta.node[self._states(ids)] = plain
        self.loss.augment(self.program, theta, ids, slope)

    def _ask(
        self, theta: Theta, ids: I64, of_truth: F64, plain: F64, which: I64, slopes: F64, envelopes: list[Envelope]
    ) -> None:
        """Ask one question for each of some examples."""
        self._augment(theta, ids, plain, which, slopes)
        known = of_truth[which] - slopes * self.loss.const[ids[which]]
        solution = self.ask(Question(theta, ids[which]), known)
        self._augment(theta, ids, plain, which, np.zeros(len(which)))
        ptr = label_ptr(self.program, ids[which])
        labels = solution.labels_or(self.truth[positions(self.program.var_ptr, ids[which])])
        loss = self.loss.value(self.program, labels, ids[which])
        height = 1.0 + score_labels(self.program, theta, labels, ids[which]) - of_truth[which]
        top = solution.bound + 1.0 - of_truth[which] + slopes * self.loss.const[ids[which]]
        for k, envelope in enumerate(envelopes[i] for i in which):
            envelope.tell(float(slopes[k]), float(top[k]))
            if solution.score[k] > -np.inf:
                envelope.found(float(loss[k]), float(height[k]), labels[ptr[k] : ptr[k + 1]])

    def _k_best(self, theta: Theta, ids: I64, of_truth: F64, plain: F64, k: int, envelope: Envelope) -> float:
        """Search the best labellings of one question, more and more of them; return the remaining bound."""
        only, slope = ids[k : k + 1], envelope.steepest()
        self._augment(theta, ids, plain, np.array([k]), np.array([slope]))
        n_best, bound = 16, envelope.bound()
        known = of_truth[k : k + 1] - slope * self.loss.const[only]
        while n_best <= MAX_K:
            try:
                solution = self.ask(Question(theta, only, Task.KBEST, k=n_best), known, whole=True)
            except TooLargeError:  # the bound so far holds
                break
            for labels, score in zip(solution.labels, solution.score[:, 0], strict=True):
                if score > -np.inf:
                    loss = float(self.loss.value(self.program, labels, only)[0])
                    shift = 1.0 - of_truth[k] + slope * float(self.loss.const[only[0]])
                    envelope.found(loss, float(score) + shift - slope * loss, labels)
            last = float(solution.score[-1, 0])
            if last == -np.inf:
                return envelope.value
            bound = envelope.bound(slope, last + shift)
            if envelope.settled(bound):
                break
            n_best *= 4
        return bound


class Envelope:
    """Slack rescaling for one example by margin-rescaled questions: a search over their upper envelope.

    Every labelling is a point ``(a, h) = (Delta(y), 1 + s(y) - s(y_i))``, and ``max a h`` is wanted.  A backend can
    answer ``max h + lam a`` for any ``lam >= 0``: the answer is a point, and a line that no point is above.  The least
    of all lines at each a, times a, bounds the maximum; the next question is asked where that bound is largest, with
    the slope of the chord between the known points around it (Sarawagi and Gupta 2008; Bauer et al. 2014).

    Points below the convex hull are never answers.  Where one of them could be the maximum the search is *stuck*: the
    bound stays above the value, and only the k best answers to one question settle it (Choi, Meshi and Srebro 2016
    exclude what they saw; here all but the k best are below the line of the last one).

    Parameters
    ----------
    truth : ndarray of int32
        Its labels are the first answer: loss 0, value 0.
    largest : float
        No loss is larger.
    unit : float
        All losses are multiples of it; 0 when nothing is known.

    Attributes
    ----------
    value : float
        Largest ``a h`` found.
    loss : float
        Its a.
    labels : ndarray of int32
    """

    def __init__(self, truth: I32, largest: float, unit: float) -> None:
        self.largest, self.unit = largest, unit
        self.value, self.loss, self.labels = 0.0, 0.0, truth
        self._slopes, self._tops = np.zeros(0), np.zeros(0)
        self._points = [(0.0, 1.0)]

    def tell(self, slope: float, top: float) -> None:
        """Take in a line: ``h + slope a <= top`` for all points."""
        self._slopes, self._tops = np.append(self._slopes, slope), np.append(self._tops, top)

    def found(self, a: float, h: float, labels: I32) -> None:
        """Take in a point."""
        self._points.append((a, h))
        if a * h > self.value:
            self.value, self.loss, self.labels = a * h, a, labels

    def bound(self, slope: float = 0.0, top: float = np.inf) -> float:
        """Return an upper bound on every ``a h``, of points below one more line where that is given."""
        a, h = self._highest(slope, top)
        return max(a * h, self.value)

    def settled(self, bound: float) -> bool:
        """Whether the value is the maximum, given a bound."""
        return bound <= self.value + ATOL * (1.0 + self.value)

    def question(self) -> float | None:
        """Return the slope of the next question, ``None`` when the value is proved or the search is stuck."""
        if not len(self._slopes):
            return 0.0
        a, h = self._highest()
        if self.settled(a * h) or len(self._slopes) >= MAX_QUESTIONS:
            return None
        left = max((p for p in self._points if p[0] < a), default=(0.0, 1.0))
        right = min(((p[0], -p[1]) for p in self._points if p[0] > a), default=None)
        if right is None:
            slope = max(h / a, 2.0 * float(self._slopes.max()))
        else:
            slope = (left[1] + right[1]) / (right[0] - left[0])
        asked = np.abs(self._slopes - slope) <= 1e-12 * (1.0 + slope)
        return None if asked.any() or not 0.0 < slope <= MAX_SLOPE * (1.0 + h / a) else slope

    def steepest(self) -> float:
        """Return the slope of the level set of ``a h`` where the bound is largest: what to ask the k best of."""
        a, h = self._highest()
        return h / a

    def _highest(self, slope: float = 0.0, top: float = np.inf) -> tuple[float, float]:
        """Return the (a, h) below all lines with the largest product."""
        slopes, tops = np.append(self._slopes, slope), np.append(self._tops, top)
        known = np.isfinite(tops)
        slopes, tops = slopes[known], tops[known]
        if not len(tops):  # no line bounds anything: scores overflow
            return self.largest, np.inf
        a = self._candidates(slopes, tops)
        h = (tops - np.multiply.outer(a, slopes)).min(axis=1)
        best = int(np.argmax(a * h))
        return float(a[best]), float(h[best])

    def _candidates(self, slopes: F64, tops: F64) -> F64:
        """Return the losses among which the maximum below the lines is."""
        if self.unit > 0.0:
            return self.unit * np.arange(1.0, round(self.largest / self.unit) + 0.5)
        with np.errstate(divide="ignore", invalid="ignore"):
            crossings = (tops[:, None] - tops) / (slopes[:, None] - slopes)
            middles = tops / (2.0 * slopes)
        a = np.concatenate([crossings.ravel(), middles, [self.largest]])
        return a[(a > 0.0) & (a <= self.largest)]


def one_count_tables(counts: I64, unit: F64, largest: F64) -> CountTables | None:
    """Return the tables of losses that are ``unit`` times one count; ``None`` without counts, or for large ones."""
    n_columns = 1 + np.rint(largest / np.where(unit > 0, unit, np.inf)).astype(np.int64)
    if not len(counts) or int(n_columns.max(initial=1)) > 1 + MAX_COUNT:
        return None
    start = np.cumsum(n_columns) - n_columns
    price = np.repeat(unit, n_columns) * runs(np.zeros(len(start), dtype=np.int64), n_columns)
    shape = np.column_stack([np.ones_like(n_columns), n_columns])
    return CountTables.of_prices(np.column_stack([np.zeros_like(counts), counts]), shape, start, price)


def loss_counts(loss: LossTerm, program: Program) -> tuple[I64, F64]:
    """Return (count of each state, unit of each example) with ``node = unit count``; empty counts if there are none.

    The unit is the smallest price of the example, divided by a number of at most ``MAX_PARTS``.
    """
    example = np.repeat(owners(program.var_ptr), program.card)
    unit = np.full(program.n_examples, np.inf)
    priced = loss.node > 0.0
    np.minimum.at(unit, example[priced], loss.node[priced])
    unit = np.where(np.isfinite(unit), unit, 1.0)
    ratio = loss.node / unit[example]
    for parts in range(1, MAX_PARTS + 1):
        counts = np.rint(parts * ratio)
        if (np.abs(parts * ratio - counts) <= 1e-9 * np.maximum(counts, 1.0)).all() and not loss.const.any():
            return counts.astype(np.int64), unit / parts
    return np.zeros(0, dtype=np.int64), np.zeros(program.n_examples)
