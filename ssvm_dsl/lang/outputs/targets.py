"""Words for patterns: ``chain(y)``, ``pairs(y, W)``, ``grid(y)``, ``complete(y)``, ``along(y, edges)`` ..."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from functools import partial
from operator import index
from typing import Any

import numpy as np

from ssvm_dsl.calls import checked_call
from ssvm_dsl.lang.arrays import number_text
from ssvm_dsl.lang.dims import Dim, Index, union_axes, with_paired
from ssvm_dsl.lang.inputs import Edges, Positions
from ssvm_dsl.lang.outputs.labels import MAX_ARITY, Label, Target
from ssvm_dsl.lang.patterns.pattern import Pattern, Word, is_pattern
from ssvm_dsl.lang.patterns.references import LabelAt, LiteralAt
from ssvm_dsl.lang.rules.formulas import OF_WHOLE_LABELS, Formula, as_formula
from ssvm_dsl.lang.rules.rule_patterns import rule_target
from ssvm_dsl.lang.symbols import Mistake, Node, got, plain, show


@checked_call
def chain(y: Label, order: int = 1) -> Target:
    """Join each ``order + 1`` consecutive variables of a one-axis label: ``(y[t], y[t + 1], ...)``.

    Features are taken at the last of them.

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
    if isinstance(y, Label) and y.segments is not None:
        if order > 1:
            mistakes.append("chain: of segments the order is 1: two successive ones")
        return Target("chain", (y,), mistakes=mistakes)
    if mistakes or not _is_plain(y):
        return Target("chain", (y,), mistakes=mistakes)
    t = dims[0].index().shown_as("t")
    word = Word("chain", (y,), {"order": order} if order != 1 else {}, dims, ((t + order,),))
    return Pattern.of_word(word, [tuple(y[t + k] for k in range(order + 1))])


@checked_call
def pairs(y: Label, *axes: Dim) -> Target:
    """Join neighbours along one axis of a label array, or diagonal ones: one step along each of several axes.

    Features are taken at the second one.

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
    named = axes
    if isinstance(y, Label) and y.pointer:
        axes = with_paired(axes) if all(isinstance(axis, Dim) for axis in axes) else axes
        if axes and not any(axis is own for axis in axes for own in y.dims[:-1]):
            mistakes.append(lambda: f"pairs: a pointer points to one position; name its own axis, {show(y.dims[0])}")
    for k, axis in enumerate(axes):
        if not any(dim is axis for dim in _dims(y)):
            mistakes.append(partial(_no_axis, axis, y))
        elif any(axis is other for other in axes[:k]):
            mistakes.append("pairs: an axis is named twice")
    if mistakes or not isinstance(y, Label):
        return _mistaken("pairs", y, mistakes=mistakes)
    group, last = _neighbours(y, axes)
    shared = tuple(dim for dim in y.dims if not any(dim is axis for axis in axes))
    return Pattern.of_word(Word("pairs", (y, *named), {}, y.dims, (last,), shared), [group])


def _neighbours(y: Label, axes: Sequence[Dim]) -> tuple[tuple[LabelAt, LabelAt], tuple[Any, ...]]:
    """Return (a variable and the one a step along axes after it, the positions of the second)."""
    first = _indices(y)
    last = tuple(i + 1 if any(dim is axis for axis in axes) else i for i, dim in zip(first, y.dims, strict=True))
    return (LabelAt(y, first), LabelAt(y, last)), last


def _indices(y: Label, first: bool = True) -> tuple[Index, ...]:
    """Return an index for each axis of a label, which read as i, j, ... from a letter on."""
    letters = "ijklmnopqr" if first else "uvwabcdefg"
    return tuple(dim.origin.index().shown_as(letters[k % 10]) for k, dim in enumerate(y.dims))


def _no_axis(axis: object, y: object) -> str:
    return f"pairs: {show(axis)} is not an axis of {show(y)}"


@checked_call
def grid(y: Label) -> Target:
    """Join neighbours along every axis of a label array with one shared table (4-neighbourhood in 2-D)."""
    mistakes = [] if len(_dims(y)) >= 2 else ["grid: the label needs two or more axes; use chain(y) for one"]
    if mistakes or not _is_plain(y):
        return _mistaken("grid", y, mistakes=mistakes)
    parts = [_neighbours(y, (dim,)) for dim in y.dims]
    word = Word("grid", (y,), {}, y.dims, tuple(last for _, last in parts))
    return Pattern.of_word(word, [pair for pair, _ in parts])


@checked_call
def complete(y: Label) -> Target:
    """Join every pair of variables of a label (first position < second position, in C order).

    Of a label with one axis features may be those of pairs of positions: ``Input(N, N, 3)``.
    """
    if not _is_plain(y):
        return _mistaken("complete", y)
    if not y.dims:
        return _mistaken("complete", y, mistakes=["complete: a label without axes has one variable, and no pairs"])
    first, second = _indices(y), _indices(y, first=False)
    later: Any = None
    for i, j in reversed(list(zip(first, second, strict=True))):
        later = i < j if later is None else (i < j) | (i.is_(j) & later)
    word = Word("complete", (y,))
    if len(y.dims) == 1:  # features are those of the pair
        word = Word("complete", (y,), {}, (y.dims[0], y.dims[0].paired), ((first[0], second[0]),))
    return Pattern.of_word(word, [(LabelAt(y, first), LabelAt(y, second))], later)


@checked_call
def along(y: Label | Sequence[Label], edges: Edges) -> Target:
    """Join the variables at the ends of each edge (or hyperedge) of an example's edge list.

    That is ``(y[e[m, 0]], y[e[m, 1]])``; features are taken at the edge.

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
        wrong = got("along: the second argument must be an Edges input", edges)
        return _mistaken("along", *labels[:1], mistakes=[wrong])
    mistakes: list[Mistake] = []
    if len(labels) not in (1, edges.arity):
        mistakes.append(got(f"along: one label, or one for each of the {edges.arity} ends of an edge", y))
    elif any(isinstance(label, Label) and label.pointer for label in labels):
        mistakes += _arc_mistakes(labels, edges)
    else:
        mistakes += _end_mistakes(labels, edges)
    if mistakes or not all(isinstance(label, Label) for label in labels):
        return _mistaken("along", *labels[:1], mistakes=mistakes)
    m = edges.dim.index().shown_as("m")
    ends = [edges[m, k] for k in range(edges.arity)]
    if labels[0].pointer:
        group = tuple(LabelAt(labels[0], pair) for pair in zip(ends[::2], ends[1::2], strict=True))
    else:
        each = labels if len(labels) > 1 else labels * edges.arity
        group = tuple(LabelAt(label, (end,)) for label, end in zip(each, ends, strict=True))
    axes = (edges.dim,)
    return Pattern.of_word(Word("along", (y if len(labels) == 1 else labels, edges), {}, axes, ((m,),), axes), [group])


def _end_mistakes(labels: tuple[Label, ...], edges: Edges) -> list[Mistake]:
    """Return why the ends of edges are no positions of labels."""
    for label, end in zip(labels * (edges.arity if len(labels) == 1 else 1), edges.ends, strict=True):
        if len(_dims(label)) != 1 or _dims(label)[0] is not end:
            if edges.several or len(labels) > 1:
                return [lambda: f"along: {show(edges)} runs over {show(edges.over)}, the axis of each label"]
            return ["along: the edges must run over the label's only axis: Edges(M, over=N) and Label(N, ...)"]
    return []


def _arc_mistakes(labels: tuple[Label, ...], edges: Edges) -> list[Mistake]:
    """Return why edges do not list pointers of a label: positions, and what they point to, in turn."""
    alone = isinstance(labels[0], Label) and labels[0].pointer and len(labels[0].dims) == 2
    first, second = labels[0].dims if alone else (None, None)
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
        return _mistaken("cliques", y, mistakes=[text])
    mistakes = _clique_mistakes(y, clean)
    if mistakes or not isinstance(y, Label):
        return _mistaken("cliques", y, mistakes=mistakes)
    q, group = Dim(len(clean)).index().shown_as("q"), []
    for column in np.array(clean, dtype=np.int64).T:
        places = np.unravel_index(column, tuple(dim.size or 1 for dim in y.dims)) if y.dims else ()
        read = [Positions(at, over=dim.origin)[q] for at, dim in zip(places, y.dims, strict=True)]
        group.append(LabelAt(y, tuple(read)))
    return Pattern.of_word(Word("cliques", (y, clean)), [tuple(group)])


def _clique_mistakes(y: Label, sets: tuple[tuple[int, ...], ...]) -> list[Mistake]:
    if not sets or not sets[0]:
        return ["cliques: at least one non-empty set of positions is needed"]
    mistakes: list[Mistake] = []
    if len({len(members) for members in sets}) > 1:
        mistakes.append("cliques: all sets have the same length; use one Factor for each length")
    if any(len(set(members)) != len(members) for members in sets):
        mistakes.append("cliques: a set names a position twice")
    sizes = [dim.size for dim in _dims(y)]
    if None in sizes:
        mistakes.append("cliques: the label's axes must be fixed, e.g. Dim(6); use along(y, edges) for ragged ones")
    else:
        total = 1
        for size in sizes:
            total *= size or 1
        wrong = [i for members in sets for i in members if not 0 <= i < total]
        if wrong:
            mistakes.append(f"cliques: position {number_text(wrong[0])} is outside 0..{total - 1}")
    return mistakes


@checked_call
def cross(a: Label, b: Label) -> Target:
    """Join variables of two labels: positions agree on shared axes, and all combinations on the other axes.

    Examples
    --------
    ``cross(h, y)`` with ``h`` over T and a single ``y`` joins each ``h[t]`` with ``y``; with both over T it
    joins ``h[t]`` with ``y[t]``.
    """
    mistakes = ["cross: needs two different labels; use complete(y)"] if a is b else []
    if mistakes or not (_is_plain(a) and _is_plain(b)):
        return _mistaken("cross", a, b, mistakes=mistakes)
    return _crossed("cross", (a, b), (a, b))


def _crossed(name: str, args: tuple[Any, ...], labels: tuple[Label, Label]) -> Pattern:
    """Return the pattern of two labels that agree on shared axes."""
    axes = union_axes(*(label.dims for label in labels))
    over = {id(dim): (dim, dim.origin.index().shown_as("ijklmnopqr"[k % 10])) for k, dim in enumerate(axes)}
    group = tuple(LabelAt(label, tuple(over[id(dim)][1] for dim in label.dims)) for label in labels)
    word = Word(name, args, {}, axes, (tuple(i for _, i in over.values()),), axes)
    return Pattern.of_word(word, [group])


def _dims(y: object) -> tuple[Dim, ...]:
    return y.dims if isinstance(y, Label) else ()


def _is_plain(y: object) -> bool:
    """Whether something is a label whose variables have classes at positions."""
    return isinstance(y, Label) and not y.pointer


def _mistaken(name: str, *labels: Any, mistakes: Sequence[Mistake] = ()) -> Target:
    """Return a target that stands for one with mistakes."""
    made = Target(name, labels or (Label(1),))
    return Target("each", made.labels[:1], mistakes=[*mistakes, *made.mistakes])


class TreeTarget(Target):
    """Variables of a label of trees that stand for its phrases; made by the function it names."""

    def __init__(self, labels: tuple[Label, ...]) -> None:
        super().__init__("each", labels)

    @property
    def constructor(self) -> str:
        """Name of the function that makes it."""
        return "spans"

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the label of trees."""
        return (self.label.of,), {}  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"spans({show(self.arguments()[0][0])})"


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
    first, second = y.parts[1:]
    return _crossed("rules", (y,), (first, second))


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
        return TreeTarget(y.parts[:1])
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
        return rule_target(target, where)
    if isinstance(target, Node) and not isinstance(target, Target) and target.constructor in OF_WHOLE_LABELS:
        mistakes: list[Mistake] = []
        formula = as_formula(target, "Factor", mistakes)
        return Target("each", (Label(1),), mistakes=mistakes) if formula is None else rule_target(formula, where)
    if is_pattern(target):
        if not isinstance(target, Pattern):
            return Pattern(target, where)
        if target.word is None or where is None:
            return target if where is None else target.narrowed(where)
    if isinstance(target, Target | Label) and where is not None:
        text = got("where: a condition is for variables at positions, such as (y[i], y[j]); this has none", target)
        return Target("each", (target if isinstance(target, Label) else target.label,), mistakes=[text])
    if isinstance(target, Target):
        return target
    if isinstance(target, Label):
        return Target("each", (target,))
    text = got("Factor: the target must be a Label or a pattern like chain(y), pairs(y, W), (y[i], y[j])", target)
    return Target("each", (Label(1),), mistakes=[text])


# -- several pointers ----------------------------------------------------------------------------------------------
#
# Factors of several pointers score where all of them point as the pattern says; elsewhere they score nothing.


@checked_call
def siblings(y: Label) -> Target:
    """Join each two pointers to the same position: ``first`` and ``second`` point to ``target``, ``first < second``.

    A factor scores where both do.  Its features are a row for each (first, second, target), the target running fastest:
    ``Feature(function, siblings(y), width=...)``, a function that takes these as arrays.

    Parameters
    ----------
    y : Label
        A pointer label, such as ``Label(T, over=T, null=True)``.

    Examples
    --------
    >>> both = Factor(siblings(head))
    >>> def apart(first, second, target): return (second - first == 1).astype(float)
    >>> near = Factor(siblings(head), features=Feature(apart, siblings(head), width=1))
    """
    if mistakes := _pointer_mistakes("siblings", y):
        return Target("each", (y,), mistakes=mistakes)
    (i, j), k = y.dims[0].index(2), y.dims[1].origin.index()
    i, j, k = i.shown_as("i"), j.shown_as("j"), k.shown_as("k")
    word = Word("siblings", (y,), ends={"first": i, "second": j, "target": k})
    return Pattern.of_word(word, [(LabelAt(y, (i, k)), LabelAt(y, (j, k)))], i < j)


@checked_call
def grandparents(y: Label) -> Target:
    """Join pointers one after the other: ``first`` points to ``second``, which points to ``target``.

    A factor scores where both do.  Its features are those of :func:`siblings`, with all pairs of different positions in
    order, and the target running fastest.

    Parameters
    ----------
    y : Label
        A label that points to positions of its own axis, such as ``Label(T, over=T, null=True)``.

    Examples
    --------
    >>> chains = Factor(grandparents(head))
    """
    mistakes = _pointer_mistakes("grandparents", y)
    if not mistakes and y.dims[1].origin is not y.dims[0]:
        mistakes.append("grandparents: pointers to pointers need one axis: Label(T, over=T)")
    if mistakes:
        return Target("each", (y,), mistakes=mistakes)
    i, j, k = (index.shown_as(text) for index, text in zip(y.dims[0].index(3), "ijk", strict=True))
    word = Word("grandparents", (y,), ends={"first": i, "second": j, "target": k})
    return Pattern.of_word(word, [(LabelAt(y, (i, j)), LabelAt(y, (j, k)))], i.is_not(j))


def _pointer_mistakes(what: str, y: object) -> list[Mistake]:
    alone = isinstance(y, Label) and y.pointer and len(y.dims) == 2
    return [] if alone else [got(f"{what}: a pointer label of one axis, as Label(T, over=T)", y)]
