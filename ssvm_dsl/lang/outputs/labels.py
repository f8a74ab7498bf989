"""Output variables, and targets: which variables a factor joins.

``Label(T, "abc")`` is an array of discrete variables, one at each position of its axes.  A target (``y`` itself,
``chain(y)``, ``pairs(y, W)``, ``along(y, edges)`` ...) is a pattern, not a list of scopes: the compiler lays it over
the actual sizes of each example.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.dims import (
    Condition,
    Dim,
    Index,
    Number,
    as_condition,
    check_axes,
    indices_of,
    n_positions,
    refuse,
    union_axes,
    walk,
    with_origins,
    with_paired,
)
from ssvm_dsl.lang.grammars.grammar import Grammar
from ssvm_dsl.lang.inputs import At, Input
from ssvm_dsl.lang.outputs.variables import (
    MOST_CLASSES,
    ClassName,
    Variables,
    n_spans,
    read_converse,
    read_longest,
    read_pointer_unknown,
    read_states,
    read_unknown,
)
from ssvm_dsl.lang.patterns.references import LabelAt, label_at
from ssvm_dsl.lang.symbols import Mistake, Node, Symbol, as_flag, got, plain, show


@dataclass(frozen=True, init=False, repr=False)
class Label(Variables):
    """Discrete output variables, one for each position of the axes (a single one without axes).

    Parameters
    ----------
    *axes : Dim
        The axes of the array of variables, e.g. ``T`` or ``H, W``; none for a single variable.
    states : int, str or sequence of class names
        An int ``k`` means the classes ``0 .. k-1``; a string means one class per character; a sequence gives
        the class names (strings or ints).  Declared, never inferred from data.
    allowed : Input, optional
        Which classes each variable may take, example by example: an input of the label's axes with one number for each
        class, 0 where the class is ruled out (candidate tags of a word from a lexicon, say).
    over : Dim, optional
        Makes a *pointer label*, in place of states: the value at each position is a position on this axis.  A factor of
        it scores every pair: ``Factor(y, features=Input(T, T, 20))``.
    null : bool
        A pointer may also point nowhere: -1 in Y and in predictions; ``y.is_(None)`` is a target.
    segments : int, optional
        Makes the positions of the (single) axis a *segmentation*: they are divided into segments of at most this many
        positions, each with one class.  Y and predictions are lists of ``(start, end, class)``, ``end`` not included;
        Y may also be a class for each position, where neighbours of one class are one segment.  Factors are of
        ``spans(y)`` (whole segments), ``chain(y)`` (successive segments), ``starts(y)`` (their first positions), and of
        ``y`` (each position).
    grammar : Grammar, optional
        Makes the positions of the (single) axis the words of a sentence, in place of states: Y and predictions are
        parse trees (:class:`~ssvm_dsl.ParseTree`); ``allowed`` has a number for each tag.  Factors are of
        ``leaves(y)`` (the tags of words), ``spans(y)`` (phrases) and ``rules(y)``.
    where : condition, optional
        Over indices in place of axes, ``Label(i, j, 2, where=i < j)``: there are variables where it is true only.
        Arrays are full: predictions are masked elsewhere, and what Y holds there is ignored.
    symmetric : bool or dict, optional
        Of two indices over one axis: the variable at (i, j) is that at (j, i), and there is none on the diagonal; with
        a dict of converse classes, ``{"before": "after"}``, in the converse class.
    unknown : str or int, optional
        A value in Y that means "not known", such as -1; it is no class.  ``None`` and masked entries always mean it.

    Examples
    --------
    >>> head = Label(T, over=T, null=True)
    >>> y = Label(T, grammar=Grammar.from_trees(trees))
    >>> y = Label(T, ["O", "PER", "LOC"], segments=6)
    >>> y = Label(T, "abcdefghijklmnopqrstuvwxyz")
    >>> y = Label(H, W, 21)
    >>> y = Label(["noun", "verb", "other"])
    >>> y = Label(T, 50, allowed=candidates)     # candidates = Input(T, 50)
    >>> y = Label(H, W, 21, unknown=-1)          # pixels of -1 have no known class
    """

    def __init__(
        self,
        *axes_then_states: Dim | Index | int | str | Sequence[ClassName],
        allowed: Input | None = None,
        over: Dim | None = None,
        null: bool = False,
        segments: int | None = None,
        unknown: ClassName | None = None,
        grammar: Grammar | None = None,
        where: Condition | At | None = None,
        symmetric: bool | Mapping[ClassName, ClassName] = False,
    ) -> None:
        mistakes: list[Mistake] = []
        conditioned = where is not None or symmetric is not False
        if conditioned and (over, segments, grammar) != (None,) * 3:
            mistakes.append("Label: where= and symmetric= are not for pointers, segments and trees")
            where, symmetric, conditioned = None, False, False
        if grammar is not None:
            others = (over, segments, unknown) != (None,) * 3 or null is not False
            self._derive(axes_then_states, grammar, allowed, others, mistakes)
            return
        if over is not None or null is not False:
            if allowed is not None or segments is not None:
                mistakes.append(f"Label: a pointer label has no {'segments' if allowed is None else 'allowed'}")
            self._point(axes_then_states, over, null, unknown, mistakes)
            return
        *axes, states = axes_then_states or (1,)
        if not axes_then_states:
            mistakes.append("Label: the number of states or their names are missing, e.g. Label(T, 26) or Label('ab')")
        axes, indices = _read_indices(axes, conditioned, symmetric, mistakes)
        dims = check_axes(tuple(axes), "Label", mistakes, twice=True)
        n_states, classes = read_states(plain(states), mistakes)
        if prod(dim.size or 1 for dim in dims) > MOST:
            mistakes.append(f"Label: the fixed axes have more than {MOST} positions")
        allowed = _mask(allowed, mistakes)
        longest = None if segments is None else read_longest(segments, dims, n_states, mistakes)
        dims = dims if segments is None else dims[:1] or (Dim(1),)
        n_states, classes = (1, None) if segments is not None and n_states > MOST_CLASSES else (n_states, classes)
        self._fill(
            mistakes, dims=dims, n_states=n_states, classes=classes, allowed=allowed, over=None, null=False,
            segments=longest, unknown=read_unknown(unknown, n_states, classes, longest, mistakes), indices=indices,
            condition=_read_condition(where, indices, mistakes),
            converse=read_converse(symmetric, n_states, classes, mistakes),
        )  # fmt: skip

    def _point(
        self, axes: tuple[Any, ...], over: object, null: object, unknown: object, mistakes: list[Mistake]
    ) -> None:
        """Declare a pointer label: a binary variable for every pair of a position and its possible target."""
        if not axes or not all(isinstance(axis, Dim) for axis in axes) or not isinstance(over, Dim):
            text = "Label: a pointer label has axes, and no states but the positions of over=, as Label(T, over=T)"
            mistakes.append(got(text, (*axes, over)))
            axes, over = (Dim(1),), Dim(1)
        dims = check_axes((*axes, over), "Label", mistakes, twice=True)
        empty = as_flag(null, "Label: null", mistakes)
        marker = read_pointer_unknown(unknown, empty, mistakes)
        self._fill(
            mistakes, dims=dims, n_states=2, classes=None, allowed=None, over=over, null=empty, segments=None,
            unknown=marker,
        )  # fmt: skip

    def _derive(
        self, axes: tuple[Any, ...], grammar: object, allowed: object, others: bool, mistakes: list[Mistake]
    ) -> None:
        """Declare a label of parse trees: its own variables are the tags of words."""
        if len(axes) != 1 or not isinstance(axes[0], Dim) or others:
            mistakes.append("Label: a label of trees has one axis, a grammar and maybe allowed=: Label(T, grammar=G)")
            axes = (Dim(1),)
        if not isinstance(grammar, Grammar):
            mistakes.append(got("Label: grammar must be a Grammar, such as Grammar.from_trees(trees)", grammar))
            grammar = Grammar([], "?", tags="?")
        dims = check_axes(axes, "Label", mistakes)
        self._fill(
            mistakes, dims=dims, n_states=len(grammar.tags), classes=grammar.tags, allowed=_mask(allowed, mistakes),
            over=None, null=False, segments=None, unknown=None, grammar=grammar,
        )  # fmt: skip

    def __set_name__(self, owner: type, name: str) -> None:
        super().__set_name__(owner, name)
        for part in self.parts:
            part._follow()

    @property
    def declared(self) -> Label:
        """The label that the user wrote: itself, unless it is a part of one."""
        return self

    @property
    def parts(self) -> tuple[LabelPart, ...]:
        """Auxiliary variables of the label: whether pointers point nowhere; where segments are; phrases and rules."""

        def make() -> tuple[LabelPart, ...]:
            makers: tuple[type[LabelPart], ...] = (NoneOf,) if self.null else ()
            if self.segments is not None:
                makers = BeginsOf, SpansOf
            if self.grammar is not None:
                makers = PhrasesOf, FirstDigitOf, SecondDigitOf
            return tuple(made(self) for made in makers)

        return self._kept("_parts", make)

    @property
    def none(self) -> LabelPart | None:
        """The variables that say whether a pointer points nowhere; ``None`` if none may."""
        return self.parts[0] if self.null else None

    @property
    def begins(self) -> LabelPart:
        """The variables that say at which positions segments begin."""
        return self.parts[0]

    @property
    def spans(self) -> LabelPart:
        """The variables that say which spans are segments, and of which class."""
        return self.parts[1]

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        marked = {} if self.unknown is None else {"unknown": self.unknown}
        if self.over is not None:
            return with_origins(self.dims[:-1]), {"over": self.over} | ({"null": True} if self.null else {}) | marked
        if self.grammar is not None:
            return self.dims, {"grammar": self.grammar} | ({} if self.allowed is None else {"allowed": self.allowed})
        options: dict[str, Any] = marked if self.allowed is None else {"allowed": self.allowed} | marked
        if self.segments is not None:
            options["segments"] = self.segments
        if self.condition is not None:
            options["where"] = self.condition
        if self.converse is not None:
            options["symmetric"] = self._converse_classes()
        axes = self.indices or with_origins(self.dims)
        return (*axes, self.n_states if self.classes is None else self.classes), options

    def _converse_classes(self) -> Any:
        """Return ``True``, or the classes that have another one as their converse."""
        names, converse = self.classes or tuple(range(self.n_states)), self.converse or ()
        pairs = {names[k]: names[other] for k, other in enumerate(converse) if k < other}
        return pairs or True

    def __getitem__(self, places: Any) -> LabelAt:
        return label_at(self, places)

    def __iter__(self) -> NoReturn:
        refuse(f"{show(self)} cannot be iterated; {show(self)}[t] is its variable at position t")

    def __contains__(self, other: object) -> NoReturn:
        refuse(f"`in` asks Python, not the model; {show(self)}[t].is_(...) is a literal")

    def is_(self, state: Any) -> Any:
        """Return the target "this variable has class ``state``" (an indicator; ``==`` is never overloaded).

        Parameters
        ----------
        state : class name
            One of the declared classes; ``None`` for a pointer that may point nowhere.
        """
        if self.pointer:
            if state is None and self.none is not None:
                return Target("indicator", (self.none,), state=1)
            only = "is_(None)" if self.null else "the label itself, with features of pairs of positions"
            return Target("each", (self,), mistakes=[f"is_({show(state)}): of a pointer label the target is {only}"])
        if isinstance(state, Number) and not self.dims:
            return LabelAt(self, ()).is_(state)
        return Target("indicator", (self,), state=plain(state))

    def at(self, position: int) -> LabelAt:
        """Return the variable at this position of a label with one axis, ``y[position]``.

        ``y.at(0)`` is the first variable and ``y.at(-1)`` the last one: weights of beginnings and ends, or classes that
        are forbidden there.  Examples that are too short have none.

        Parameters
        ----------
        position : int
            Counted from the end where it is negative.
        """
        place, mistakes = plain(position), list[Mistake]()
        if not isinstance(place, int) or isinstance(place, bool) or abs(place) > MOST:
            mistakes.append(got("at: the position must be an int, such as 0 or -1", position))
            place = 0
        if len(self.dims) != 1:
            mistakes.append(f"at: the label needs exactly one axis, it has {len(self.dims)}")
        return LabelAt(self, (place,), tuple(mistakes))


def _read_indices(
    axes: list[Any], conditioned: bool, symmetric: object, mistakes: list[Mistake]
) -> tuple[list[Any], tuple[Index, ...]]:
    """Return (axes, indices) of a label that is declared with indices in place of axes."""
    indices = tuple(one for one in axes if isinstance(one, Index))
    if not indices:
        if conditioned:
            mistakes.append("Label: where= and symmetric= need indices in place of axes: Label(i, j, 2, where=i < j)")
        return axes, ()
    if len(indices) < len(axes) or len(set(map(id, indices))) < len(indices):
        mistakes.append("Label: indices in place of axes: all of them indices, each once, as Label(i, j, 2)")
        return [one.dim if isinstance(one, Index) else one for one in axes], ()
    if symmetric is not False and (len(indices) != 2 or indices[0].dim is not indices[1].dim):
        mistakes.append("Label: symmetric= is for two indices over one axis: i, j = N.index(2)")
    return [one.dim for one in indices], indices


def _read_condition(where: object, indices: tuple[Index, ...], mistakes: list[Mistake]) -> Condition | None:
    """Return the condition of a label, over its own indices."""
    if where is None:
        return None
    condition = as_condition(where)
    mistakes += (text for one in walk(condition) for text in getattr(one, "mistakes", ()))
    if strange := [one for one in indices_of(condition) if not any(one is own for own in indices)]:
        mistakes.append(got("Label: its where= has its own indices only", strange[0]))
    return condition


def _mask(allowed: object, mistakes: list[Mistake]) -> Input | None:
    """Return a mask as it was given; ``None``, and a mistake, where it is no input."""
    if allowed is None or isinstance(allowed, Input):
        return allowed
    mistakes.append(got("Label: allowed must be an Input with a number for each class", allowed))
    return None


@dataclass(frozen=True, init=False, repr=False)
class Latent(Label):
    """Variables that are never observed: targets of factors like a label, but no part of ``Y`` or of predictions.

    Parameters
    ----------
    *axes_then_states, allowed
        As of :class:`Label`.

    Examples
    --------
    >>> h = Latent(T, 8)
    >>> joint = Factor(cross(h, y))
    """

    def __init__(self, *axes_then_states: Dim | int | str | Sequence[ClassName], allowed: Input | None = None) -> None:
        super().__init__(*axes_then_states, allowed=allowed)


class LabelPart(Label):
    """Auxiliary variables of a label; users name the label only.

    Parameters
    ----------
    of : Label
        The label.
    """

    of: Label
    suffix = ""

    @property
    def declared(self) -> Label:
        """The label that the user wrote."""
        return self.of

    def __init__(self, of: Label, *axes_then_states: Any) -> None:
        super().__init__(*axes_then_states)
        object.__setattr__(self, "of", of)
        self._follow()

    def _follow(self) -> None:
        """Take a name that no user can give, after the label."""
        name = f"{self.of.name}{self.suffix}" if self.of.name else ""
        object.__setattr__(self, "name", name)


class NoneOf(LabelPart):
    """Whether each pointer of a label points nowhere."""

    suffix = ".is_(None)"

    def __init__(self, of: Label) -> None:
        super().__init__(of, *of.dims[:-1], 2)


class BeginsOf(LabelPart):
    """Whether a segment begins at each position."""

    suffix = ".begins"

    def __init__(self, of: Label) -> None:
        super().__init__(of, *of.dims, 2)


class SpansOf(LabelPart):
    """For each position and length: 0 where this span is no segment, else 1 and the number of its class."""

    suffix = ".spans"

    def __init__(self, of: Label) -> None:
        super().__init__(of, *of.dims, Dim(of.segments), of.n_states + 1)

    def _follow(self) -> None:
        super()._follow()
        object.__setattr__(self.dims[-1], "name", f"{self.of.name}.length" if self.of.name else "")


class PhrasesOf(LabelPart):
    """For each pair of words: 0 where what is between them is no phrase, else 1 and the number of its chain.

    Pairs whose second word comes first are no phrases.
    """

    suffix = ".spans"

    def __init__(self, of: Label) -> None:
        assert of.grammar is not None
        names = ("", *(" > ".join(chain) for chain in of.grammar.chains))
        super().__init__(of, *of.dims, names)
        object.__setattr__(self, "dims", with_paired((*of.dims, *of.dims)))


class FirstDigitOf(LabelPart):
    """Which rule divides the phrase whose second child begins at each word: 1 and its number, 0 at the first word.

    The code has two digits, so that there is a score for each rule in a table of both, and not for each word besides.
    """

    suffix = ".rules"

    def __init__(self, of: Label) -> None:
        assert of.grammar is not None
        super().__init__(of, *of.dims, of.grammar.n_digits)


class SecondDigitOf(FirstDigitOf):
    """The second digit of the same code."""

    suffix = ".rules'"


#: Kinds of targets that pointer labels have.
OF_POINTERS = frozenset({"each", "indicator", "pattern"})

#: Most variables of a factor with a table: it is an array with an axis for each, and two more.
MAX_ARITY = 30


@dataclass(frozen=True, init=False, repr=False)
class Target(Node):
    """What the factors of a template join: each variable of a label, segments, or a :class:`~ssvm_dsl.Pattern`.

    Parameters
    ----------
    kind : str
        ``"each"``, ``"indicator"``, ``"spans"``, ``"starts"`` or ``"chain"`` (successive segments); ``"pattern"`` of
        :class:`~ssvm_dsl.Pattern`; of the compiler ``"agreement"`` and ``"members"``, the auxiliary variables of other
        factors alone and with each of their variables, and ``"lengths"`` and ``"span"``, segments by class and length,
        and single spans, where these are no variables.
    labels : tuple of Label
        The label arrays joined; with auxiliary variables their own and that of the factors they belong to.
    state : class name, optional
        The class an indicator tests for.
    """

    kind: str
    labels: tuple[Label, ...]
    state: ClassName | None

    def __init__(
        self,
        kind: str,
        labels: tuple[Label, ...],
        *,
        state: ClassName | None = None,
        mistakes: Iterable[Mistake] = (),
    ) -> None:
        found: list[Mistake] = list(mistakes)
        if wrong := [label for label in labels if not isinstance(label, Label)]:  # it has no axes to complain of
            hints = [", the name without quotes" if isinstance(label, str) else "" for label in wrong]
            found = [got(f"{kind}: expected a Label{hint}", label) for label, hint in zip(wrong, hints, strict=True)]
        labels = tuple(label if isinstance(label, Label) else Label(1) for label in labels)
        if kind not in OF_POINTERS and any(label.pointer for label in labels):
            found.append(f"{kind}: not of a pointer label, which has y, pairs, cliques, along, siblings, grandparents")
        if kind == "indicator" and not found and labels[0].index(state) is None:  # type: ignore[arg-type]
            found.append(f"is_({show(state)}): not one of the classes of the label")
        state = state if isinstance(state, str | int) else None  # others may have no hash
        self._fill(found, kind=kind, labels=labels, state=state)

    @property
    def covers(self) -> bool:
        """Whether there is one factor for each variable of the label, in their order."""
        return self.kind == "each"

    @property
    def label(self) -> Label:
        """The (first) label array of the target."""
        return self.labels[0]

    @property
    def arity(self) -> int:
        """Number of variables in one factor."""
        return 2 if self.kind in ("chain", "members", "lengths") else 1

    def scopes(self, sizes: tuple[int, ...]) -> NDArray[np.int64]:
        """Return the variables of each factor, ``shape (n, arity)``, for sizes of the label's axes, counted in C order.

        Kinds of other packages define it, and with it ``arity``, ``count`` and ``arguments``.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method scopes")

    @property
    def members(self) -> tuple[Label, ...]:
        """The label of each variable of a factor."""
        return self.labels if self.kind == "members" else (self.label,) * self.arity

    @property
    def cards(self) -> tuple[int, ...]:
        """Number of states of each variable of a factor; of segments, of their classes and lengths."""

        def find() -> tuple[int, ...]:
            if self.kind == "lengths":
                return self.label.n_states, self.label.segments or 1
            return tuple(label.n_states for label in self.members)

        return self._kept("_cards", find)

    @property
    def written(self) -> Any:
        """What users write for it: the label itself where it is each variable of one."""
        whole = self.kind == "each" and self.label.declared is self.label
        return self.label if whole else self

    @property
    def written_options(self) -> dict[str, Any]:
        """What users write beside it: the condition of a pattern."""
        return {}

    @property
    def inner(self) -> Target:
        """The factors that auxiliary variables belong to."""
        of: Target = self.label.of  # type: ignore[attr-defined]
        return of

    @property
    def constructor(self) -> str:
        """Name of the function that makes this target."""
        return self.kind

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments of the function that makes this target."""
        if self.kind == "indicator":
            return (self.label.of, None) if isinstance(self.label, NoneOf) else (self.label, self.state), {}
        return self.labels, {}

    def __repr__(self) -> str:
        if self.kind == "each":
            return show(self.label)
        if self.kind == "indicator":
            label, state = self.arguments()[0]
            return f"{show(label)}.is_({state!r})"
        return super().__repr__()

    def __eq__(self, other: object) -> bool:
        # different labels that have no name yet compare equal; Linear({a.is_(1): 2.0, b.is_(1): 1.0}) means two
        if not isinstance(other, Target):
            return NotImplemented
        named = all(one is two or bool(one.name) for one, two in zip(self.labels, other.labels, strict=False))
        return named and self._content() == other._content()

    def __hash__(self) -> int:
        return hash(self._content())

    def _content(self) -> tuple[Any, ...]:
        return self.kind, self.labels, self.state

    # -- how many factors it has, on which axes, and the tables that they have in programs --------------------------

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs whose content decides which factors there are."""
        return () if self.kind not in ("agreement", "members") else self.inner.inputs

    @property
    def count_reads_inputs(self) -> bool:
        """Whether the content of inputs decides how many factors there are."""
        return any(label.has_domain for label in self.all_labels)

    def symbols(self) -> Iterator[tuple[str, Symbol]]:
        """Yield the symbols that it refers to beside its labels, with what each is to it."""
        yield from ()

    @property
    def all_labels(self) -> tuple[Any, ...]:
        """The labels whose variables its factors join, each once."""
        return tuple({id(label): label for label in self.labels}.values())

    @property
    def laid_labels(self) -> tuple[Any, ...]:
        """The labels whose variables its factors follow from, each once."""
        return self.all_labels

    def is_(self, state: object) -> Any:
        """Note a mistake: classes are those of a label, ``y.is_(k)``."""
        return self._with("is_: only a label has it, as y.is_(k), for all of its positions")

    def at(self, position: object) -> Self:
        """Note a mistake: positions are those of a label, ``y.at(0)``."""
        return self._with("at: only a label has it, as y.at(0)")

    def _with(self, mistake: str) -> Self:
        """Return the target with one more mistake."""
        made = copy(self)
        object.__setattr__(made, "mistakes", (*self.mistakes, mistake))
        return made

    @property
    def table_cards(self) -> tuple[int, ...]:
        """Number of states of each variable that a factor has in programs.

        Factors of segments also use the begin of segments: those of successive segments only that of the second.
        """
        if self.kind == "spans":
            return (self.label.n_states + 1,)
        return (*self.cards, 2) if self.where_segments_begin else self.cards

    @property
    def where_segments_begin(self) -> bool:
        """Whether its factors score only where segments begin."""
        return self.kind in ("starts", "chain")

    @property
    def of_segments(self) -> bool:
        """Whether its factors are of whole segments."""
        return self.kind == "spans" or self.where_segments_begin

    @property
    def of_spans(self) -> bool:
        """Whether its factors are of whole segments, which are variables."""
        return self.kind == "spans"

    @property
    def of_single_spans(self) -> bool:
        """Whether its factors are of single spans, which are no variables."""
        return self.kind == "span"

    @property
    def of_lengths(self) -> bool:
        """Whether its factors are of segments by class and length."""
        return self.kind == "lengths"

    @property
    def is_indicator(self) -> bool:
        """Whether it is about one class of each variable of a label."""
        return self.kind == "indicator"

    @property
    def is_whole(self) -> bool:
        """Whether it is each variable of a label."""
        return self.kind == "each"

    @property
    def is_union(self) -> bool:
        """Whether it is made of several patterns."""
        return False

    @property
    def offsets(self) -> tuple[int, ...] | None:
        """The variables of a factor by their distances along the only axis: ``(0, 1)`` of a chain."""
        if len(self.label.dims) != 1 or self.kind not in ("each", "indicator", "starts", "chain", "lengths"):
            return None
        return (0, 1) if self.kind == "chain" else (0,)

    @property
    def fixed_position(self) -> int | None:
        """The position of a single variable that is written as an int."""
        return None

    @property
    def ends(self) -> tuple[str, ...]:
        """What functions of features may ask for beside the inputs: where each factor is."""
        return ("start", "end") if self.kind == "spans" else ()

    @property
    def feature_axes(self) -> tuple[Dim, ...]:
        """Axes that features of this target may have."""
        return () if self.kind in ("spans", "span", "lengths") else self.label.dims

    @property
    def shared_axes(self) -> tuple[Dim, ...]:
        """Axes along which all variables of one factor have the same position (what ``per=`` can untie)."""
        return () if self.kind == "chain" else self.feature_axes

    @property
    def all_axes(self) -> tuple[Dim, ...]:
        """Axes whose sizes decide how many factors there are."""
        if self.kind in ("agreement", "members"):
            return self.inner.all_axes
        return union_axes(*(label.dims for label in self.labels))

    @property
    def position_axes(self) -> tuple[tuple[Dim | None, int], ...]:
        """The axes of an array with a number for each factor, with how many positions fewer each has.

        ``None`` for an axis that counts factors.
        """
        if self.kind in ("each", "indicator", "starts"):
            return tuple((dim, 0) for dim in self.label.dims)
        if self.kind == "chain":
            return ((self.label.dims[0], 1),)
        if self.kind == "spans":
            length: Dim = self.labels[0].spans.dims[-1]
            return (self.label.dims[0], 0), (length, 0)
        return ((None, 0),)

    def count(self, sizes: Mapping[str, Any]) -> Any:
        """Return the number of factors for axis sizes given by name (ints, or arrays over examples)."""
        if self.kind in ("agreement", "members"):
            return self.inner.count(sizes) * (1 if self.kind == "agreement" else self.inner.arity)
        total = n_positions(self.label.dims, sizes)
        if self.kind in ("spans", "span"):
            return n_spans(total, self.label.segments or 1)
        return (total - 1) * (total > 1) if self.kind == "chain" else total
