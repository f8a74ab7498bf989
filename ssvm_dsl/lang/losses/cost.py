"""``Cost``: a price for each confusion, of single variables or of the joint states that a target's variables have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ssvm_dsl.array_types import F64
from ssvm_dsl.lang.arrays import NotNumbers, as_floats, real_array
from ssvm_dsl.lang.functions import FunctionRef, check_function
from ssvm_dsl.lang.inputs import At, Input
from ssvm_dsl.lang.losses.label_losses import WeighedLoss, judged_target, structure_mistakes
from ssvm_dsl.lang.outputs.labels import Label, PhrasesOf, Target
from ssvm_dsl.lang.patterns.join import symbols_of
from ssvm_dsl.lang.patterns.pattern import function_mistakes, unknown_inputs
from ssvm_dsl.lang.symbols import Mistake, ModelView, Symbol, as_flag, got, show

#: Tables by name: 1 where any variable is wrong; 1 where truth or answer, but not both, have unequal states; how many
#: positions a pointer is off.
WRONG, BOUNDARY, DISTANCE = "wrong", "boundary", "distance"

#: Most prices of a table.
MOST = 2**26


@dataclass(frozen=True, init=False, repr=False)
class Cost(WeighedLoss):
    """A price for each confusion: ``sum_f table[y_f, yhat_f]``, of variables or of joint states.

    Of a label, f runs over its variables; of a target such as ``chain(y)``, ``pairs(y, W)``, ``along(y, e)``,
    ``cross(a, b)`` or ``cliques(y, sets)`` over the factors that it makes, and y_f are their true joint states.
    ``Cost(spans(y), "wrong")``, of a label of segments, is the number of segments in truth or answer, but not in both.

    Parameters
    ----------
    target : Label, Target, or variables at positions
        The label, or what joins its variables; ``y[t]``, ``(y[i], y[j])``.
    table : array_like, str or function
        With ``cards`` the numbers of states of the variables of a factor, one of

        * an array of shape ``(*cards, *cards)``, true states first, then predicted ones: ``(K, K)`` for a label
          (row: true class, column: predicted class), ``(K, K, K, K)`` for pairs of it; or ``(n, n)`` for all
          ``n = prod(cards)`` joint states in C order.  Non-negative, and zero where all is right;
        * an array of shape ``cards``: a function of the joint state; the price is how far it is off,
          ``|table[yhat_f] - table[y_f]|`` (``Cost(y, range(5))``: classes that are grades);
        * ``"boundary"``: 1 where truth or answer, but not both, have a boundary, which is where the variables of a
          factor are not all equal; the same as the array ``1 - eye(K)`` for pairs;
        * ``"wrong"``: 1 where any variable of the factor is wrong;
        * ``"distance"``, of a pointer label: how many positions each pointer is off, on an axis of any length;
        * of variables at positions a function: called with the true class of each variable, then the predicted ones,
          the listed positions, and inputs by name, all as arrays; it returns prices that broadcast to ``(n, *cards)``,
          not negative, and 0 where the prediction is true.

        Of a pointer label with a fixed axis to point to, the states are the positions on it, "nowhere" last.  Of
        several pointers, as ``siblings(y)`` joins them, ``"wrong"`` is 1 where truth or answer, but not both, have
        all of them.
    *positions : index or position
        What the function gets after the classes.
    normalize : bool
        Divide by the number (or the total node weight) of the variables (or factors) of the example that count.
    node_weights : Input, optional
        A weight for each variable, as for :class:`Hamming`; of a target for each factor, an input with the axes that
        its features may have; of variables at positions one at positions, ``a[i, j]``.
    where : condition, optional
        Of variables at positions, ``Cost((y[i], y[j]), "boundary", where=i < j)``: which of them count.

    Notes
    -----
    A loss of joint states becomes tables of the graph that loss-augmented inference is asked about, so that backends
    need nothing new; the graph has the edges of the loss and those of the factors.  Variables without a known
    truth leave out the factors that touch them.

    Examples
    --------
    >>> loss = Cost(y, 1.0 - np.eye(26))
    >>> loss = Hamming(y) + 0.5 * Cost(chain(y), "boundary")
    >>> def late(true, found, t): return np.maximum(found - true, 0) * (t > 2)
    >>> loss = Cost(y[t], late, t, where=judged[t])
    """

    table: str | tuple[Any, ...] | FunctionRef
    places: tuple[Any, ...]

    def __init__(
        self,
        target: Label | Target | Sequence[Any],
        table: Any,
        *positions: Any,
        normalize: bool = False,
        node_weights: Input | At | None = None,
        where: Any = None,
    ) -> None:
        mistakes: list[Mistake] = []
        goal = judged_target(target, where, "Cost", mistakes)
        of_spans = goal.kind == "spans" or isinstance(goal.label, PhrasesOf)
        if of_spans:
            mistakes += _span_mistakes(table, normalize, node_weights)
        elif goal.arity > 1 or goal.kind != "pattern":
            each = node_weights if goal.kind == "each" else None
            mistakes += structure_mistakes("Cost", goal.label, node_weights=each)
        if goal.kind == "indicator":
            mistakes.append("Cost: of single variables it takes the label: Cost(y, matrix)")
        called = isinstance(table, FunctionRef) or callable(table)
        if positions and not called:
            mistakes.append(got("Cost: positions are for a function, which gets them", positions))
        if called:
            stored: Any = check_function(table, "Cost", mistakes)
            mistakes += function_mistakes("Cost", goal, positions)
        else:
            stored = WRONG if of_spans else _read_table(goal, _choices(goal), table, mistakes)
        nodes = self._weights_of(goal, node_weights, "Cost", mistakes)
        divide = as_flag(normalize, "Cost: normalize", mistakes)
        self._fill(
            mistakes, label=goal.label, target=goal, table=stored, places=positions, normalize=divide,
            node_weights=nodes,
        )  # fmt: skip

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of the target."""
        return tuple(dict.fromkeys(self.target.labels))

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The function that says the prices, if there is one."""
        return (self.table,) if isinstance(self.table, FunctionRef) else ()

    @property
    def asked_inputs(self) -> tuple[str, ...] | None:
        """The inputs that the function asks for by name; ``None``: all of them."""
        asked = self.table.arguments() if isinstance(self.table, FunctionRef) else ()
        return asked if asked is None else asked[2 * self.target.arity + len(self.places) :]

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield its labels and inputs, and what its positions refer to."""
        yield from super().references()
        for one in self.places:
            yield from symbols_of(one)

    def lacking(self, model: ModelView) -> Iterator[str]:
        """Yield parameters of the function that name no input."""
        for ref in self.functions:
            given = f"{self.target.arity} true and as many predicted classes, and {len(self.places)} positions"
            yield from unknown_inputs(ref, self.asked_inputs, model, given)

    @property
    def of_factors(self) -> bool:
        """Whether it prices joint states of several variables, or spans that are none."""
        return self.target.arity > 1 or self.target.kind == "span"

    def prices(self) -> F64:
        """Return the price of each joint state (column) by the true one (row), in C order; ``shape (n, n)``.

        The first state of spans is "no segment": a segment of a wrong class is one that is missed and one too many.  Of
        spans that are no variables these are the prices of the true ones: that they are missed, and that there is one
        too many, is taken back from where all segments of truth and answer are counted.
        """
        if self.target.kind == "span":
            return -2.0 * np.eye(self.target.cards[0])
        if self.target.kind == "spans" or isinstance(self.label, PhrasesOf):
            segment = np.arange(self.target.table_cards[0]) > 0
            return (1.0 - np.eye(len(segment))) * (1.0 + np.outer(segment, segment))
        table: Any = self.table
        if table == WRONG and self.label.pointer and self.target.arity > 1:  # whether all of them point there
            table = np.eye(1, prod(self.target.cards), prod(self.target.cards) - 1).reshape(self.target.cards)
        return _prices(_choices(self.target) or (2,), table)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.target.written, self.table, *self.places), self._written()


def _span_mistakes(table: object, normalize: object, node_weights: object) -> Iterator[Mistake]:
    """Yield the settings that prices of whole segments do not allow."""
    if not (isinstance(table, str) and table == WRONG):
        yield got("Cost: of spans(y) the table is 'wrong', the number of segments in truth or answer only", table)
    if normalize is not False or node_weights is not None:
        yield "Cost: of spans(y) it has no normalize and no node_weights"


def _choices(goal: Target) -> tuple[int, ...]:
    """Return how many states the variables of a factor have; of a pointer what it may point to, "nowhere" last.

    ``()`` where that differs from example to example.
    """
    if not (goal.label.pointer and goal.kind == "each"):
        return goal.cards
    size = goal.label.dims[-1].size
    return () if size is None else (size + goal.label.null,)


def _read_table(
    goal: Target, cards: tuple[int, ...], table: Any, mistakes: list[Mistake]
) -> str | tuple[Any, ...]:
    """Return a table as plain data; note mistakes in it."""
    n = prod(cards)
    if isinstance(table, str) and table == DISTANCE:
        if not (goal.label.pointer and goal.kind == "each") or goal.label.null:
            mistakes.append("Cost: 'distance' is about a pointer label that always points somewhere: Label(T, over=T)")
        return table
    if not cards and not (isinstance(table, str) and table == WRONG):
        over = goal.label.over
        text = "Cost: the matrix needs a fixed axis to point to, e.g. Dim(6)"
        mistakes.append(lambda: f"{text}, {show(over)} is ragged; 'distance' does without")
        return WRONG
    if n * n > MOST:
        mistakes.append(f"Cost: a table has at most {MOST} prices")
    if isinstance(table, str) and table in (WRONG, BOUNDARY):
        if table == BOUNDARY and (len(cards) < 2 or len({(one.classes, one.n_states) for one in goal.members}) > 1):
            mistakes.append("Cost: 'boundary' is about several variables of the same classes, as chain(y) joins")
        return table
    expected = f"{(*cards, *cards)}" + (f", {(n, n)} or {cards}" if len(cards) > 1 else f" or {cards}")
    try:
        array = as_floats(real_array(table))
    except NotNumbers:
        names = f", {BOUNDARY!r} or {WRONG!r}" if len(cards) > 1 else f" or {WRONG!r}"
        mistakes.append(got(f"Cost: the matrix must be a table of numbers{names}", table))
        return WRONG
    if mistakes:
        return WRONG
    if array.shape not in ((*cards, *cards), (n, n), cards):
        mistakes.append(f"Cost: the matrix has shape {array.shape}, expected {expected}")
    elif not np.isfinite(array).all():
        mistakes.append(f"Cost: the matrix is finite, got {array[~np.isfinite(array)][0]}")
    else:
        prices = _prices(cards, array)
        if (prices < 0).any() or prices.diagonal().any():
            mistakes.append(_wrong_price(prices))
        return _nested(array.tolist())
    return WRONG


def _prices(cards: tuple[int, ...], table: Any) -> F64:
    """Return a table in any of its forms as ``(n, n)`` prices."""
    n = prod(cards)
    if isinstance(table, str) and table == WRONG:
        return 1.0 - np.eye(n)
    if isinstance(table, str):
        states = np.indices(cards).reshape(len(cards), n)
        table = (states != states[0]).any(axis=0).reshape(cards)
    array = np.asarray(table, dtype=np.float64)
    if array.shape != cards or n == 1:
        return array.reshape(n, n)
    return np.abs(np.subtract.outer(array.ravel(), array.ravel()))


def _nested(values: list[Any]) -> tuple[Any, ...]:
    """Return lists inside lists as tuples."""
    return tuple(_nested(one) if isinstance(one, list) else one for one in values)


def _wrong_price(prices: F64) -> str:
    """Return the mistakes in a matrix of prices; name the first wrong entry."""
    right = (prices >= 0) & ((prices == 0) | ~np.eye(len(prices), dtype=bool))
    row, column = np.argwhere(~right)[0].tolist()
    entry = f"{prices[row, column].item()} in row {row}, column {column}"
    return f"Cost: the matrix must be non-negative and finite with a zero diagonal, got {entry}"
