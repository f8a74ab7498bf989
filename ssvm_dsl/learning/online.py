"""Labels of a stream with a fixed lag: of position t once the rows up to t + lag are there.

*Labels* are those of the best labelling of all rows so far that agrees with the labels that are out (fixed-lag Viterbi,
which never contradicts itself).  *Probabilities* are those of position t given the rows up to t + lag (fixed-lag
smoothing; Moore, Automatica 9, 1973).  With a lag as long as the stream both are those of ``predict`` and
``predict_marginals``.  A row takes O(lag K^2) for K classes in a chain, and O(lag K (K + lag)) for segments, with L
positions of a segment at most O(lag K (K + lag + L)) with probabilities: none of it grows with the stream.

What a row scores is worked out by the model itself, from an example of this row between its neighbours; of these only
the scores of the row are looked at, and those of its step from the rows before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64, I64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.errors import DataError, InfeasibleError, OptionError
from ssvm_dsl.ir.program import ONE_SPAN, SPANS
from ssvm_dsl.lang.arrays import describe, is_sparse
from ssvm_dsl.lang.constraints.durations import SegmentDuration
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Attributes, Edges
from ssvm_dsl.lang.outputs.labels import Label, Target

#: Lays the model over one example, and scores it.
Scored = Callable[[Any], tuple[Grounded, Any]]


@dataclass(frozen=True, eq=False)
class StepScores:
    """What one position scores in a chain.

    Parameters
    ----------
    table : ndarray of float64, shape (n_states, ..., n_states)
        By the states of the positions before it, as many as factors look back and there are, and its own.
    """

    table: F64


@dataclass(frozen=True, eq=False)
class SegmentScores:
    """What one position scores in a segmentation.

    Parameters
    ----------
    begin, inside : ndarray of float64, shape (K,)
        Where a segment of each class begins there, and where it goes on.
    step : ndarray of float64, shape (K, K)
        Of the class of the segment before, and of the one that begins.
    """

    begin: F64
    inside: F64
    step: F64


class OnlineLabels:
    """Labels of a stream, row by row: made by ``svm.online(lag=10)``.

    ``push(row)`` returns what is known of the position ``lag`` rows before, ``None`` for the first ``lag`` rows;
    ``finish()`` returns a list with the rest, and the next stream may begin.  What is known is a class; with ``proba``
    a pair of a class and an array of the probabilities of all of them.  Of segments the class is a pair, too: (class,
    whether a segment begins there).

    Parameters
    ----------
    declaration : Declaration
        Of the model.
    scored : callable
        Lays the model over an example and scores it.
    lag : int
    proba : bool

    Raises
    ------
    OptionError
        The model has factors or constraints that look further than from one position to the ones right before it.
    """

    def __init__(self, declaration: Declaration, scored: Scored, lag: int = 10, proba: bool = False) -> None:
        if not isinstance(lag, int | np.integer) or isinstance(lag, bool) or lag < 0:
            raise OptionError(f"lag is a number of rows of at least 0, got {lag!r}")
        self.lag, self.proba = int(lag), bool(proba)
        self._declaration, self._scored = declaration, scored
        self._label, self._axis = _checked(declaration)
        self._order = max((max(t.offsets or (1,)) for t in _targets(declaration)), default=1)
        self._start()

    def _start(self) -> None:
        self._rows: deque[Any] = deque(maxlen=self._order + 1)
        self.n_rows, self._out = 0, 0
        kind = _Segments if self._label.segments is not None else _Chain
        self._window: _Chain | _Segments = kind(self._label, self._declaration, self._order, self.lag, self.proba)

    def push(self, row: Any) -> Any:
        """Return the label of the position ``lag`` rows before this one, ``None`` where there is none yet."""
        rows = [*self._rows, row][-self._order - 1 :]
        # the row itself stands after it as well: what is said of the last position is not said of this one
        grounded, theta = self._scored(self._example([*rows, row]))
        self._rows.append(row)
        self._window.add(grounded, theta, len(rows) - 1)
        self.n_rows += 1
        if self.n_rows <= self.lag:
            return None
        return self._next(last=False)

    def finish(self) -> list[Any]:
        """Return the labels of the last positions; what is pushed afterwards is another stream."""
        rest = []
        if self._out < self.n_rows:
            rows = list(self._rows)
            grounded, theta = self._scored(self._example(rows))
            self._window.replace_last(grounded, theta, len(rows) - 1)
            rest = [self._next(last=True) for _ in range(self.n_rows - self._out)]
        self._start()
        return rest

    def _next(self, last: bool) -> Any:
        label, probabilities = self._window.take(last, self._out)
        self._out += 1
        return (label, probabilities) if self.proba else label

    def _example(self, rows: list[Any]) -> Any:
        """Return an example of some rows."""
        inputs = self._declaration.scored_inputs
        if len(inputs) == 1 and not isinstance(rows[0], Mapping | tuple):
            return _stacked(rows)
        if len(inputs) == 1 and isinstance(inputs[0], Attributes):
            return list(rows)
        names, out = [given.name for given in inputs], {}
        for one in rows:
            if not isinstance(one, Mapping) or not set(names) <= set(one):
                expected = f"a row with a value for {', '.join(names)} at one position of time"
                found = f"a dict with {', '.join(map(str, one))}" if isinstance(one, Mapping) else describe(one)
                raise DataError("the stream", expected=expected, found=found)
        for given in inputs:
            assert not isinstance(given, Edges | Dim)  # refused before
            along = any(dim is self._axis for dim in given.dims)
            values = [one[given.name] for one in rows]
            out[given.name] = values[-1] if not along else values if isinstance(given, Attributes) else _stacked(values)
        return out


def labels_online(labels: OnlineLabels, rows: Iterable[Any]) -> Iterator[Any]:
    """Yield what is known of each position of a stream."""
    for row in rows:
        label = labels.push(row)
        if labels.n_rows > labels.lag:
            yield label
    yield from labels.finish()


def _stacked(rows: list[Any]) -> Any:
    if is_sparse(rows[0]):
        from scipy.sparse import vstack

        return vstack([one.reshape(1, -1) for one in rows], format="csr")
    if isinstance(rows[0], Mapping | str) or (isinstance(rows[0], list | set) and not _numbers(rows[0])):
        return list(rows)
    arrays = [np.asarray(one) for one in rows]
    if any(one.shape != arrays[0].shape for one in arrays):
        expected, found = f"a row of shape {arrays[0].shape}, as those before", f"shape {arrays[-1].shape}"
        raise DataError("the stream", expected=expected, found=found)
    return np.stack(arrays)


def _numbers(row: Any) -> bool:
    return all(isinstance(one, int | float | np.number) for one in row)


def _targets(declaration: Declaration) -> list[Target]:
    own = (*declaration.factors, *declaration.given, *declaration.rules)
    return [one.target for one in own]


def _checked(declaration: Declaration) -> tuple[Label, Dim]:
    """Return the label and its axis; refuse models that look further than one position and those right before it."""
    labels = declaration.outputs
    if len(labels) != 1 or declaration.latents or len(labels[0].dims) != 1 or labels[0].pointer or labels[0].grammar:
        text = f"online: model {declaration.name} has to have one label, over one axis, which is time"
        raise OptionError(f"{text}; call predict for whole sequences")
    (label,) = labels
    allowed = 1 if declaration.compact else 0
    asked = [one for one in declaration.constraints if one.name]
    if len(asked) > allowed:
        text = f"online: the constraint '{asked[0].name}' looks at whole sequences, which are not there yet"
        raise OptionError(f"{text}; leave it out, or call predict for whole sequences")
    if label.segments is not None and not declaration.compact:
        raise OptionError("online: segments whose spans are variables are not divided row by row; call predict")
    for one in (*declaration.factors, *declaration.given, *declaration.rules):
        near = one.target.offsets is not None or one.target.fixed_position in (0, -1)
        if not near or (isinstance(one, Factor) and one.agreements):
            text = f"online: '{one.name}' looks further than from one position to the ones right before it"
            raise OptionError(f"{text}; leave it out, or call predict for whole sequences")
    if any(source.functions for source in declaration.sources):
        ref = next(ref for source in declaration.sources for ref in source.functions)
        text = f"online: the feature {ref.path} is a function of whole sequences"
        raise OptionError(f"{text}; compute it before, row by row, as an input")
    for given in declaration.scored_inputs:
        if isinstance(given, Edges):
            raise OptionError(f"online: edges ('{given.name}') join positions that are not there yet; call predict")
        assert not isinstance(given, Dim)  # there are no latent variables
        along = [dim is label.dims[0] for dim in given.dims]
        if any(along[1:]) or (along and not along[0] and True in along):
            raise OptionError(f"online: the first axis of input '{given.name}' has to be that of the label")
    return label, label.dims[0]


def _node(grounded: Grounded, theta: Any) -> list[F64]:
    """Return the scores of the states of each variable of the only example, ``-inf`` where they are ruled out."""
    program = grounded.program
    node = theta.node if program.allowed is None else np.where(program.allowed, theta.node, -np.inf)
    return np.split(node, program.state_ptr[1:-1])


def _tables(grounded: Grounded, theta: Any) -> Iterator[tuple[Any, Any, F64]]:
    """Yield (group, scope of a factor, its table)."""
    for group, table in zip(grounded.program.groups, theta.tables, strict=True):
        scope, rows = group.factors(0)
        for one, row in zip(scope.tolist(), rows.tolist(), strict=True):
            yield group, one, table[row].reshape(group.cards)


class _Chain:
    """The positions of a chain whose labels are not out yet."""

    def __init__(self, label: Label, declaration: Declaration, order: int, lag: int, proba: bool) -> None:
        self.names = label.classes or range(label.n_states)
        self.order, self.proba = order, proba
        self.steps: deque[StepScores] = deque()
        self.before: tuple[int, ...] = ()  # states that are out, as many as factors look back
        self.past: F64 | None = None  # log sums over those before the window, by the states of the last ones

    def add(self, grounded: Grounded, theta: Any, at: int) -> None:
        """Add a position: variable ``at`` of an example."""
        self.steps.append(self._scores(grounded, theta, at))

    def replace_last(self, grounded: Grounded, theta: Any, at: int) -> None:
        """Replace the scores of the last position by those at the end of a sequence."""
        self.steps[-1] = self._scores(grounded, theta, at)

    def _scores(self, grounded: Grounded, theta: Any, at: int) -> StepScores:
        node = _node(grounded, theta)
        total = node[at].reshape((1,) * min(at, self.order) + (-1,)).copy()
        total = np.broadcast_to(total, (len(node[at]),) * total.ndim).copy()
        for _, scope, table in _tables(grounded, theta):
            if scope[-1] == at:
                total += table.reshape((1,) * (total.ndim - table.ndim) + table.shape)
        return StepScores(total)

    def take(self, last: bool, position: int) -> tuple[Any, F64 | None]:
        """Return the label of the first position of the window, and its probabilities; it leaves the window."""
        probabilities = self._probabilities() if self.proba else None
        ahead: F64 | float = 0.0
        for step in list(self.steps)[:0:-1]:
            ahead = (step.table + ahead).max(axis=-1)
        own = (self.steps[0].table + ahead)[self.before[len(self.before) + 1 - self.steps[0].table.ndim :]]
        state = int(own.argmax())
        if own[state] == -np.inf:
            raise InfeasibleError(f"online: no label of position {position} may follow those before it")
        self.before = (*self.before, state)[-self.order :]
        self.steps.popleft()
        return self.names[state], probabilities

    def _probabilities(self) -> F64:
        """Return the probabilities of the first position; note the sums over what is before the next one."""
        first = self.steps[0].table
        if self.past is not None:
            first = first + self.past.reshape(self.past.shape + (1,) * (first.ndim - self.past.ndim))
        ahead: F64 | float = 0.0
        for step in list(self.steps)[:0:-1]:
            ahead = _log_sum(step.table + ahead, -1)
        whole = first + ahead
        log_sums = _log_sum(whole.reshape(-1, whole.shape[-1]), 0)
        self.past = _log_sum(first, 0) if first.ndim > self.order else first
        return _shares(log_sums)


class _Segments:
    """The positions of a segmentation whose labels are not out yet."""

    def __init__(self, label: Label, declaration: Declaration, order: int, lag: int, proba: bool) -> None:
        self.names, self.longest = label.classes or range(label.n_states), label.segments or 1
        self.begin_of, self.k, self.proba = label.begins.name, label.n_states, proba
        self.label = label
        self.lengths = np.zeros((self.longest, self.k))
        rules = [one for one in declaration.rules if isinstance(one, SegmentDuration)]
        self.cut = {one.name for one in rules if one.cut}
        inner = [np.where(one.long_enough(), 0.0, -np.inf).T for one in rules if one.cut]
        self.inner = np.sum(inner, axis=0) if inner else np.zeros_like(self.lengths)
        self.steps: deque[SegmentScores] = deque()
        self.out: deque[SegmentScores] = deque(maxlen=self.longest)  # the last ones that are out
        self.enter: deque[F64] = deque(maxlen=self.longest)  # log sums of beginnings at these
        self.first = 0  # the position of the first of the window
        self.open: tuple[int, int] | None = None  # start and class of the segment before it

    def add(self, grounded: Grounded, theta: Any, at: int) -> None:
        """Add a position: the variables ``at`` of an example."""
        self.steps.append(self._scores(grounded, theta, at))

    def replace_last(self, grounded: Grounded, theta: Any, at: int) -> None:
        """Replace the scores of the last position by those at the end of a sequence."""
        self.steps[-1] = self._scores(grounded, theta, at)

    def _scores(self, grounded: Grounded, theta: Any, at: int) -> SegmentScores:
        node, layout = _node(grounded, theta), grounded.layout
        label, begins = (int(layout.start(one)[0]) for one in (self.label, self.label.begins))
        inside, begin = node[label + at] + node[begins + at][0], node[label + at] + node[begins + at][1]
        step, lengths = np.zeros((self.k, self.k)), np.zeros_like(self.lengths)
        for group, scope, table in _tables(grounded, theta):
            if group.kind == SPANS:
                lengths += table.T if scope[0] == label else 0.0
            elif group.kind == ONE_SPAN:
                if group.name not in self.cut:
                    text = f"online: '{group.name}' scores whole segments, which are not there yet"
                    raise OptionError(f"{text}; of spans(y) lengths, sums of features and durations can be")
            elif table.ndim == 3 and scope[1] == label + at:  # successive segments
                inside, step = inside + np.diagonal(table[:, :, 0]), step + table[:, :, 1]
            elif table.ndim == 2 and scope[1] == label + at:  # neighbours
                inside, step = inside + np.diagonal(table), step + table
            elif table.ndim == 2 and scope[0] == label + at and scope[1] == begins + at:
                inside, begin = inside + table[:, 0], begin + table[:, 1]
        self.lengths = lengths
        return SegmentScores(begin, inside, step)

    def take(self, last: bool, position: int) -> tuple[Any, F64 | None]:
        """Return (class, whether a segment begins) of the first position, and the probabilities of the classes."""
        probabilities = self._probabilities(last) if self.proba else None
        begins, k = self._best(last)
        if begins is None and last:  # what is out cannot become long enough any more
            begins, k = self._best(False)
        if begins is None:
            raise InfeasibleError(f"online: no segment of position {position} may follow those before it")
        if begins:
            self.open = self.first, k
        self.out.append(self.steps.popleft())
        self.first += 1
        return (self.names[k], begins), probabilities

    def _length(self, start: int, ends: I64, last: bool) -> F64:
        """Return what segments from ``start`` score by their lengths, ``shape (len(ends), K)``.

        One that ends with what is there, before the stream does, may go on: it is as long as the shortest one allowed.
        """
        size, end = ends - start, self.first + len(self.steps)
        fits = (size >= 1) & (size <= self.longest)
        at = np.clip(size, 1, self.longest) - 1
        plain = self.lengths + (self.inner if start > 0 else 0.0)
        lengths = plain[at]
        open_ended = ends == end
        if open_ended.any():
            if last:
                lengths[open_ended] = self.lengths[at[open_ended]]
            else:
                longer = np.where(np.isneginf(plain), self.longest, np.arange(self.longest)[:, None])
                next_ = np.minimum.accumulate(longer[::-1], axis=0)[::-1]  # the next length that is allowed
                reached = next_[at[open_ended]]
                value = np.take_along_axis(plain, np.minimum(reached, self.longest - 1), axis=0)
                lengths[open_ended] = np.where(reached < self.longest, value, -np.inf)
        return np.where(fits[:, None], lengths, -np.inf)

    def _ahead(self, last: bool, soft: bool) -> list[F64]:
        """Return the scores of what follows a segment, by its class, that ends before each position of the window."""
        n = len(self.steps)
        after = [np.zeros(self.k)] * (n + 1)
        for s in range(n - 1, 0, -1):
            whole = self._from(s, after, last)
            best = _log_sum(whole, 0) if soft else whole.max(axis=0)
            into = self.steps[s].step + best
            after[s] = _log_sum(into, 1) if soft else into.max(axis=1)
        return after

    def _from(self, s: int, after: list[F64], last: bool) -> F64:
        """Return the scores of segments that begin at place s of the window and what follows; ``shape (ends, K)``."""
        ends = np.arange(s + 1, min(len(self.steps), s + self.longest) + 1)
        run = np.cumsum([self.steps[s].begin, *(self.steps[t].inside for t in ends[:-1])], axis=0)
        length = self._length(self.first + s, self.first + ends, last)
        return np.asarray(run + length + np.array([after[e] for e in ends]))

    def _best(self, last: bool) -> tuple[bool | None, int]:
        """Return (whether a segment begins at the first position, its class); ``None``: nothing may be there."""
        after = self._ahead(last, soft=False)
        new = self._from(0, after, last).max(axis=0)
        on = -np.inf
        if self.open is not None:
            start, k = self.open
            closed = self._closed(start)[k]
            new = new + self.steps[0].step[k] + closed
            ends = np.arange(1, len(self.steps) + 1)
            run = np.cumsum([one.inside[k] for one in self.steps])
            length = self._length(start, self.first + ends, last)[:, k]
            on = float((run + length + np.array([after[e][k] for e in ends])).max())
        best = int(new.argmax())
        if max(float(new[best]), on) == -np.inf:
            return None, 0
        if self.open is not None and on >= new[best]:
            return False, self.open[1]
        return True, best

    def _closed(self, start: int) -> F64:
        """Return what a segment from ``start`` to the window scores by its length, by class."""
        size = self.first - start
        if size > self.longest:
            return np.full(self.k, -np.inf)
        return np.asarray(self.lengths[size - 1] + (self.inner[size - 1] if start > 0 else 0.0))

    def _probabilities(self, last: bool) -> F64:
        """Return the probabilities of the classes of the first position; note the sums over what is before it."""
        after = self._ahead(last, soft=True)
        m, known = len(self.out), list(self.out)
        if self.first == 0:
            enter = np.zeros(self.k)
        else:
            ends = np.full((m, self.k), -np.inf)
            run = np.zeros(self.k)
            for back in range(1, m + 1):  # segments that end before the window, the shortest first
                one = known[m - back]
                ends[back - 1] = self.enter[m - back] + one.begin + run + self._closed(self.first - back)
                run = run + one.inside
            enter = _log_sum(_log_sum(ends, 0)[:, None] + self.steps[0].step, 0)
        total = [enter + self._from(0, after, last)]
        run, reach = np.zeros(self.k), np.cumsum([one.inside for one in self.steps], axis=0)
        every = np.arange(1, len(self.steps) + 1)
        follows = reach + np.array([after[e] for e in every])
        for back in range(1, min(m, self.longest - 1) + 1):  # those that go on
            one, start = known[m - back], self.first - back
            length = self._length(start, self.first + every, last)
            total.append(self.enter[m - back] + one.begin + run + follows + length)
            run = run + one.inside
        self.enter.append(enter)
        return _shares(_log_sum(np.concatenate(total), 0))


def _log_sum(values: F64, axis: int) -> F64:
    """Return the logarithm of the sum of exponentials along an axis."""
    top = np.max(values, axis=axis, keepdims=True)
    top = np.where(np.isneginf(top), 0.0, top)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(values - top).sum(axis=axis)) + np.squeeze(top, axis=axis))


def _shares(log_sums: F64) -> F64:
    """Return numbers in proportion to exponentials, which add up to one."""
    shares = np.exp(log_sums - log_sums.max())
    return np.asarray(shares / shares.sum())
