"""Slack rescaling for one example by margin-rescaled questions: a search over their upper envelope.

Every labelling is a point ``(a, h) = (Delta(y), 1 + s(y) - s(y_i))``, and ``max a h`` is wanted.  A backend can
answer ``max h + lam a`` for any ``lam >= 0``: the answer is a point, and a line that no point is above.  The least of
all lines at each a, times a, bounds the maximum; the next question is asked where that bound is largest, with the
slope of the chord between the known points around it (Sarawagi and Gupta 2008; Bauer et al. 2014).

Points below the convex hull are never answers.  Where one of them could be the maximum the search is *stuck*: the
bound stays above the value, and only the k best answers to one question settle it (Choi, Meshi and Srebro 2016 exclude
what they saw; here all but the k best are below the line of the last one).
"""

from __future__ import annotations

import numpy as np

from ssvm_dsl.array_types import F64, I32

#: A bound this close to the value (relative to 1 + value) proves it.
ATOL = 1e-10

#: Questions about one example at most: bounds of inexact backends may never meet.
MAX_QUESTIONS = 50

#: Steeper questions are not asked, relative to height over loss: their answers would lose digits.
MAX_SLOPE = 1e5


class Envelope:
    """What is known of the points of one example.

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
