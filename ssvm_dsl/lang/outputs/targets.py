"""Patterns of scopes: ``chain(y)``, ``pairs(y, W)``, ``grid(y)``, ``complete(y)``, ``along(y, edges)`` ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial
from operator import index
from typing import Any

from ssvm_dsl.calls import checked_call
from ssvm_dsl.lang.arrays import number_text
from ssvm_dsl.lang.dims import Dim, with_paired
from ssvm_dsl.lang.inputs import Edges
from ssvm_dsl.lang.outputs.labels import MAX_ARITY, Label, Target
from ssvm_dsl.lang.patterns.pattern import Pattern, is_pattern
from ssvm_dsl.lang.patterns.references import LiteralAt
from ssvm_dsl.lang.rules.formulas import Formula
from ssvm_dsl.lang.rules.rule_patterns import RulePattern
from ssvm_dsl.lang.symbols import Mistake, got, plain, show


@checked_call
def chain(y: Label, order: int = 1) -> Target:
    """Join each ``order + 1`` consecutive variables of a one-axis label.

    Parameters
    ----------
    y : Label
        A label with one axis.
    order : int
        1 joins (t, t+1); 2 joins (t, t+1, t+2); ...

    Notes
    -----
    Of a label with ``segments=`` it joins the classes of successive segments; ``pairs(y, T)`` joins those of
    neighbouring positions, within a segment and across.
    """
    mistakes: list[Mistake] = []
    dims = _dims(y)
    if len(dims) != 1:
        mistakes.append(f"chain: the label needs exactly one axis, it has {len(dims)}; use pairs(y, axis)")
    order = plain(order)
    if not isinstance(order, int) or isinstance(order, bool) or not 1 <= order < MAX_ARITY:
        mistakes.append(got(f"chain: order must be a positive int below {MAX_ARITY}", order))
        order = 1
    if order > 1 and isinstance(y, Label) and y.segments is not None:
        mistakes.append("chain: of segments the order is 1: two successive ones")
    return Target("chain", (y,), axes=dims[:1], order=order, mistakes=mistakes)


@checked_call
def pairs(y: Label, *axes: Dim) -> Target:
    """Join neighbours along one axis of a label array, or diagonal ones: one step along each of several axes.

    Parameters
    ----------
    y : Label
    *axes : Dim
        Axes of the label: ``pairs(y, W)`` joins ``(h, w)`` with ``(h, w+1)``, ``pairs(y, H, W)`` with ``(h+1, w+1)``.
        Of a pointer label ``Label(I, over=J)`` the positions i and i + 1 both point to j in ``pairs(y, I)``; in
        ``pairs(y, I, J)`` the second one points to j + 1.

    Examples
    --------
    >>> y = Label(I, J, 2)                      # a word of the source, a word of the target
    >>> both = [[[0, 0], [0, 1]]]               # scored where both links are there
    >>> next_ = Factor(pairs(y, I, J), form=both)
    """
    mistakes: list[Mistake] = [] if axes else ["pairs: the axis is missing, as in pairs(y, W)"]
    if isinstance(y, Label) and y.pointer:
        axes = with_paired(axes) if all(isinstance(axis, Dim) for axis in axes) else axes
        if axes and not any(axis is y.dims[0] for axis in axes):
            mistakes.append(lambda: f"pairs: a pointer points to one position; name its own axis, {show(y.dims[0])}")
    for k, axis in enumerate(axes):
        if not any(dim is axis for dim in _dims(y)):
            mistakes.append(partial(_no_axis, axis, y))
        elif any(axis is other for other in axes[:k]):
            mistakes.append("pairs: an axis is named twice")
    return Target("pairs", (y,), axes=axes if not mistakes else _dims(y)[:1] or (Dim(1),), mistakes=mistakes)


def _no_axis(axis: object, y: object) -> str:
    return f"pairs: {show(axis)} is not an axis of {show(y)}"


@checked_call
def grid(y: Label) -> Target:
    """Join neighbours along every axis of a label array with one shared table (4-neighbourhood in 2-D)."""
    mistakes = [] if len(_dims(y)) >= 2 else ["grid: the label needs two or more axes; use chain(y) for one"]
    return Target("grid", (y,), mistakes=mistakes)


@checked_call
def complete(y: Label) -> Target:
    """Join every pair of variables of a label (first position < second position)."""
    return Target("complete", (y,))


@checked_call
def along(y: Label | Sequence[Label], edges: Edges) -> Target:
    """Join the variables at the ends of each edge (or hyperedge) of an example's edge list.

    Parameters
    ----------
    y : Label or sequence of Label
        The label that all ends are positions of, or one for each end: ``along((y, z), e)`` joins ``y[e[m, 0]]`` with
        ``z[e[m, 1]]``.  Of a pointer label each two ends are a position and what it points to: with
        ``Edges(M, over=T, arity=4)`` a row (a, b, c, d) is scored where a points to b and c to d.
    edges : Edges
        ``Edges(M, over=N)``, ``Edges(M, over=N, arity=3)``, or ``Edges(M, over=(N, K))``.
    """
    labels = tuple(y) if isinstance(y, tuple | list) else (y,)
    if not isinstance(edges, Edges):
        text = got("along: the second argument must be an Edges input", edges)
        return Target("along", labels[:1] or (Label(1),), edges=Edges(Dim(), over=Dim()), mistakes=[text])
    mistakes: list[Mistake] = []
    if len(labels) not in (1, edges.arity):
        mistakes.append(got(f"along: one label, or one for each of the {edges.arity} ends of an edge", y))
        labels = labels[:1] or (Label(1),)
    if any(isinstance(label, Label) and label.pointer for label in labels):
        mistakes += _arc_mistakes(labels, edges)
        return Target("along", labels[:1], edges=edges, mistakes=mistakes)
    for label, end in zip(labels * (edges.arity if len(labels) == 1 else 1), edges.ends, strict=False):
        if not mistakes and (len(_dims(label)) != 1 or _dims(label)[0] is not end):
            if edges.several or len(labels) > 1:
                mistakes.append(lambda: f"along: {show(edges)} runs over {show(edges.over)}, the axis of each label")
            else:
                text = "along: the edges must run over the label's only axis: Edges(M, over=N) and Label(N, ...)"
                mistakes.append(text)
    return Target("along", labels, edges=edges, mistakes=mistakes)


def _arc_mistakes(labels: tuple[Label, ...], edges: Edges) -> list[str]:
    """Return why edges do not list pointers of a label: positions, and what they point to, in turn."""
    first, second = labels[0].dims if isinstance(labels[0], Label) and labels[0].pointer else (None, None)
    axes = first, None if second is None else second.origin
    if len(labels) > 1 or edges.arity % 2 or any(end is not axes[k % 2] for k, end in enumerate(edges.ends)):
        over = "T" if axes[0] is axes[1] else "(I, J, I, J)"
        return [f"along: two pointers of one label are four ends: Edges(M, over={over}, arity=4)"]
    return []


@checked_call
def cliques(y: Label, sets: Sequence[Sequence[int]]) -> Target:
    """Join the variables at listed positions (flat positions, C order) of a label of fixed size.

    Parameters
    ----------
    y : Label
        A label whose axes are all fixed.  Pointers to m positions have the flat positions ``i * m + j``, i points to j.
    sets : sequence of sequences of int
        All of the same length, e.g. ``[(0, 1, 2), (3, 4, 5)]``.
    """
    try:
        if isinstance(sets, Set | Mapping) or any(isinstance(members, Set | Mapping) for members in sets):
            raise TypeError  # no order of their own
        clean = tuple(tuple(index(i) for i in members) for members in sets)
    except TypeError:
        text = got("cliques: the sets are sequences of int positions, e.g. [(0, 1, 2)]", sets)
        return Target("cliques", (y,), sets=((0,),), mistakes=[text])
    mistakes = _clique_mistakes(y, clean)
    return Target("cliques", (y,), sets=((0,),) if mistakes else clean, mistakes=mistakes)


def _clique_mistakes(y: Label, sets: tuple[tuple[int, ...], ...]) -> list[str]:
    if not sets or not sets[0]:
        return ["cliques: at least one non-empty set of positions is needed"]
    found = []
    if len({len(members) for members in sets}) > 1:
        found.append("cliques: all sets have the same length; use one Factor for each length")
    if any(len(set(members)) != len(members) for members in sets):
        found.append("cliques: a set names a position twice")
    sizes = [dim.size for dim in _dims(y)]
    if None in sizes:
        found.append("cliques: the label's axes must be fixed, e.g. Dim(6); use along(y, edges) for ragged ones")
    else:
        total = 1
        for size in sizes:
            total *= size or 1
        wrong = [i for members in sets for i in members if not 0 <= i < total]
        if wrong:
            found.append(f"cliques: position {number_text(wrong[0])} is outside 0..{total - 1}")
    return found


@checked_call
def cross(a: Label, b: Label) -> Target:
    """Join variables of two labels: positions agree on shared axes, and all combinations on the other axes.

    Examples
    --------
    ``cross(h, y)`` with ``h`` over T and a single ``y`` joins each ``h[t]`` with ``y``; with both over T it
    joins ``h[t]`` with ``y[t]``.
    """
    mistakes = ["cross: needs two different labels; use complete(y)"] if a is b else []
    return Target("cross", (a, b), mistakes=mistakes)


def _dims(y: object) -> tuple[Dim, ...]:
    return y.dims if isinstance(y, Label) else ()


class TreeTarget(Target):
    """Variables of a label of trees that stand for its phrases, or for its rules; made by the function it names."""

    def __init__(self, kind: str, labels: tuple[Label, ...], maker: str) -> None:
        super().__init__(kind, labels)
        object.__setattr__(self, "maker", maker)

    @property
    def constructor(self) -> str:
        """Name of the function that makes it."""
        made: str = self.__dict__["maker"]
        return made

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the label of trees."""
        return (self.label.of,), {}  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"{self.constructor}({show(self.arguments()[0][0])})"


@checked_call
def leaves(y: Label) -> Target:
    """The tag of each word of a label with ``grammar=``; the label itself as a target is the same."""
    return Target("each", (y,), mistakes=_tree_mistakes("leaves", y))


@checked_call
def rules(y: Label) -> Target:
    """The rule of two children of each phrase of a label with ``grammar=``.

    Weights are an array of two digits of a rule's code: ``w.ravel()[1 + r]`` is that of ``grammar.numbered_rules[r]``.
    Rules of one child are scored as what chains of symbols are: phrases, by ``spans(y)``.
    """
    if mistakes := _tree_mistakes("rules", y):
        return Target("each", (y,), mistakes=mistakes)
    return TreeTarget("cross", y.parts[1:], "rules")


def _tree_mistakes(what: str, y: object) -> list[Mistake]:
    if isinstance(y, Label) and y.grammar is not None:
        return []
    return [got(f"{what}: a label of trees, such as y = Label(T, grammar=G)", y)]


@checked_call
def spans(y: Label) -> Target:
    """Each whole segment of a label with ``segments=``: features are of (start, end), a row for each span.

    Of a label with ``grammar=`` each phrase: features are of its first and its last word, ``Input(T, T, 20)``.

    Without features a segment of each class has one weight.  Features of spans are :class:`SpanLength`,
    :class:`SpanMean`, or ``Feature(function, spans(y), width=...)``, a function that takes ``start`` and ``end``.
    """
    if isinstance(y, Label) and y.grammar is not None:
        return TreeTarget("each", y.parts[:1], "spans")
    return Target("spans", (y,), mistakes=_segment_mistakes("spans", y))


@checked_call
def starts(y: Label) -> Target:
    """The first position of each segment of a label with ``segments=``: features are those at this position."""
    return Target("starts", (y,), mistakes=_segment_mistakes("starts", y))


def _segment_mistakes(what: str, y: object) -> list[Mistake]:
    if isinstance(y, Label) and y.segments is not None:
        return []
    return [got(f"{what}: a label of segments, such as y = Label(T, states, segments=8)", y)]


def as_target(target: object, where: object = None) -> Target:
    """Return ``target`` as a Target: a bare Label means each of its variables.

    Variables at positions, ``(y[i], y[j])``, are a pattern, of which there are the factors for which ``where`` is true.
    """
    if isinstance(target, LiteralAt | Formula):
        return RulePattern(target, where)
    if is_pattern(target):
        if isinstance(target, Pattern):
            return target if where is None else target.narrowed(where)
        return Pattern(target, where)
    if isinstance(target, Target | Label) and where is not None:
        text = got("where: a condition is for variables at positions, such as (y[i], y[j]); this has none", target)
        return Target("each", (target if isinstance(target, Label) else target.label,), mistakes=[text])
    if isinstance(target, Target):
        return target
    if isinstance(target, Label):
        return Target("each", (target,))
    text = got("Factor: the target must be a Label or a pattern like chain(y), pairs(y, W), (y[i], y[j])", target)
    return Target("each", (Label(1),), mistakes=[text])
