"""Feature functions: the user's own (``Feature``, ``JointFeature``) and fitted ones (``PLiF``, ``Whitened`` ...).

Each is a :class:`~ssvm_dsl.lang.inputs.Source`: it gives one row of features at each position of its axes.
Here they are only declared; :mod:`ssvm_dsl.compiler.features.encode` evaluates them, and what a fitted one learns
from the training data is stored with the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from itertools import pairwise
from math import comb, isfinite
from typing import Any, ClassVar

from ssvm_dsl.array_types import F64
from ssvm_dsl.calls import checked_class
from ssvm_dsl.lang.arrays import MOST
from ssvm_dsl.lang.dims import Dim, Number, check_axes, with_origins
from ssvm_dsl.lang.functions import FunctionRef, check_function
from ssvm_dsl.lang.inputs import At, Attributes, Input, Source
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.outputs.targets import as_target
from ssvm_dsl.lang.symbols import Mistake, as_flag, as_numbers, got, plain, show


@dataclass(frozen=True, init=False, repr=False)
class FunctionSource(Source):
    """Features that a user's function computes from the inputs of an example."""

    ref: FunctionRef
    n_features: int

    @property
    def width(self) -> int:
        """Number of features in a row, or of each combination of states."""
        return self.n_features

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The function."""
        return (self.ref,)

    @property
    def asked_inputs(self) -> tuple[str, ...] | None:
        """The inputs that the function asks for."""
        return self.ref.arguments()

    @property
    def _spare(self) -> tuple[str, ...]:
        """Other things that the function may ask for."""
        return ()

    def name_mistakes(self, inputs: frozenset[str]) -> Iterator[str]:
        """Yield parameters of the function that name no input, and inputs that stand in the way of others."""
        for name in sorted(inputs.intersection(self._spare)):
            text = "says where each factor is; give the input of this name another one"
            yield f"the parameter '{name}' of the function {text}"
        unknown = set(self.asked_inputs or ()) - inputs - set(self._spare)
        if unknown:
            known = ", ".join(sorted(inputs)) or "none"
            text = f"the inputs are {known} (parameters are matched by name)"
            yield f"{self.ref.path} asks for {', '.join(sorted(unknown))}; {text}"


@dataclass(frozen=True, init=False, repr=False)
class OfFactors(Source):
    """Features whose rows may belong to the factors of a target, in the order of the pattern, and not to axes."""

    target: Target | None


#: What functions of spans may ask for beside the inputs: where each one starts, and the position after its last one.
SPAN_ENDS = ("start", "end")


@dataclass(frozen=True, init=False, repr=False)
class Feature(FunctionSource, OfFactors):
    """The user's own feature function of one example's inputs.

    Parameters
    ----------
    function : callable
        Called with the example's inputs by name (``def contrast(x): ...`` receives the input ``x``), vectorised:
        returns an array of shape ``(*axes, width)``.  Inputs are read-only views, sparse ones and attributes copies.
    *axes : Dim, Target or Label
        The axes of the result, ``T, T`` for a pointer label ``Label(T, over=T)``; or one target such as
        ``pairs(y, W)``, then the function returns ``(n_factors, width)``, one row for each factor in the order of the
        pattern.  A label stands for each of its variables.  For ``spans(y)`` the function also receives the arrays
        ``start`` and ``end`` of all spans, ``end`` not included, where it has such parameters; for ``siblings(y)`` and
        ``grandparents(y)`` the arrays ``first``, ``second`` and ``target``.
    width : int
        Number of features in a row.
    stored : bool
        Whether features of spans are kept.  If not, the function is called with some of the spans at a time, whenever
        scores or gradients are made: they never are all in memory, and are made again and again.  They are then the
        only features of their factors.

    Examples
    --------
    >>> def shape(x): return np.c_[x.mean(axis=1), x.max(axis=1)]
    >>> Factor(y, features=Feature(shape, T, width=2))
    >>> def ends(x, start, end): return x[end - 1] - x[start]
    >>> Factor(spans(y), features=Feature(ends, spans(y), width=2))
    """

    stored: bool
    places: tuple[Any, ...]

    def __init__(
        self, function: Callable[..., Any], *axes: Dim | Target | Label | Number, width: int, stored: bool = True
    ) -> None:
        mistakes: list[Mistake] = []
        places: tuple[Any, ...] = ()
        if any(isinstance(one, Number) for one in axes):
            if not all(isinstance(one, Number) for one in axes):
                mistakes.append(got("Feature: axes, or indices and other positions, not both", axes))
            places, axes = tuple(one for one in axes if isinstance(one, Number)), ()
        target = as_target(axes[0]) if len(axes) == 1 and isinstance(axes[0], Target | Label) else None
        dims = check_axes(axes if target is None else (), "Feature", mistakes, twice=True)
        ref = check_function(function, "Feature", mistakes)
        width, kept = check_width(width, "Feature", mistakes), as_flag(stored, "Feature: stored", mistakes)
        asked = None if ref is None or ref.function is None else ref.arguments()
        sliced = target is not None and target.kind == "spans" and (asked is None or set(SPAN_ENDS) <= set(asked))
        if not (kept or sliced):
            mistakes.append("Feature: stored=False is for spans(y), and for functions with parameters start and end")
        self._fill(mistakes, dims=dims, ref=ref, target=target, n_features=width, stored=kept, places=places)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        options = {"width": self.n_features} | ({} if self.stored else {"stored": False})
        axes = with_origins(self.dims) if self.target is None else (self.target,)
        return (self.ref, *(self.places or axes)), options

    @property
    def asked_inputs(self) -> tuple[str, ...] | None:
        """The inputs that the function asks for: its first arguments are the positions."""
        asked = self.ref.arguments()
        return asked if asked is None else asked[len(self.places) :]

    @property
    def _spare(self) -> tuple[str, ...]:
        """The ends of spans, in a function of spans; the positions of pointers, in one of several pointers."""
        return () if self.target is None else self.target.ends


@dataclass(frozen=True, init=False, repr=False)
class JointFeature(FunctionSource):
    """The user's joint feature function f(x, states of a factor), as a table.

    Parameters
    ----------
    function : callable
        Called with the example's inputs by name; returns ``(n_factors, *cards, width)``: the features of each
        factor for each combination of its states.
    width : int
        Number of features (and of weights).
    """

    def __init__(self, function: Callable[..., Any], *, width: int) -> None:
        mistakes: list[Mistake] = []
        ref = check_function(function, "JointFeature", mistakes)
        self._fill(mistakes, dims=(), ref=ref, n_features=check_width(width, "JointFeature", mistakes))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.ref,), {"width": self.n_features}


@dataclass(frozen=True, init=False, repr=False)
class Transform(Source):
    """A feature computed from another one; it learns from the training data only.

    A subclass defines ``transform``, ``width``, and if it learns something ``learns = True`` and ``learn``.  One whose
    constructor takes options defines ``arguments``, too: models are printed and stored, and features told apart, by it.

    Parameters
    ----------
    source : Input or feature
        A dense one.
    """

    source: Source

    def __init__(self, source: Source) -> None:
        name, options = type(self).__name__, list(signature(type(self)).parameters)[1:]
        checked, mistakes = self._start(source, name)
        if options and type(self).arguments is Transform.arguments:
            text = f"return (self.source,), {{{', '.join(f'{one!r}: ...' for one in options)}}}"
            mistakes.append(f"{name}: the class takes options, so that it needs a method arguments(self): {text}")
        self._fill(mistakes, dims=checked.dims, source=checked)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self) or not isinstance(other, Transform):
            return NotImplemented
        return self.source == other.source and repr(self.arguments()) == repr(other.arguments())

    def __hash__(self) -> int:
        return hash((type(self), self.source))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments, the source first: what makes the same feature again."""
        return (self.source,), {}

    @property
    def sources(self) -> tuple[Source, ...]:
        """The feature it is computed from."""
        return (self.source,)

    def learn(self, rows: F64) -> dict[str, F64]:
        """Return the data kept from training, as arrays by name; kinds of other packages define this method.

        Parameters
        ----------
        rows : ndarray, shape (n, width of the source)
            Of all training examples.
        """
        return {}

    def transform(self, rows: F64, learnt: Mapping[str, F64]) -> F64:
        """Return the features, ``shape (n, width)``; kinds of other packages define it.

        Parameters
        ----------
        rows : ndarray, shape (n, width of the source)
        learnt : mapping of str to ndarray
            What :meth:`learn` returned in training.
        """
        raise NotImplementedError(f"{type(self).__name__} has no method transform")

    def _start(self, source: object, name: str, sparse: bool = False) -> tuple[Source, list[Mistake]]:
        """Return (source, mistakes); the source must be dense, or (with ``sparse``) a sparse Input."""
        mistakes: list[Mistake] = []
        if not isinstance(source, Source) or isinstance(source, JointFeature):
            mistakes.append(got(f"{name}: the source must be an Input or another feature", source))
            source = Input(1)
        elif source.sparse and not (sparse and isinstance(source, Input)):
            wrong = source
            mistakes.append(lambda: f"{name}: the source must be dense, {show(wrong)} is sparse")
        elif isinstance(source, At):
            mistakes.append(partial(_of_all_positions, name, source))
        elif deep := nested_too_deep([source], name):
            return Input(1), deep
        return source, mistakes


def _of_all_positions(name: str, source: At) -> str:
    places = ", ".join(map(show, source.places))
    return f"{name}: it is of all positions: write {name}({show(source.source)})[{places}]"


@checked_class
@dataclass(frozen=True)
class Quantiles:
    """Knots at the quantiles of the training data: each interval holds about as many observations.

    Parameters
    ----------
    n : int
        Number of knots.
    """

    n: int


def _read_knots(knots: object, mistakes: list[Mistake]) -> tuple[tuple[float, ...], int]:
    """Return (fixed knots, or ``()`` when they are learnt; number of knots)."""
    if isinstance(knots, Quantiles):
        n = plain(knots.n)
        if isinstance(n, int) and 2 <= n <= MOST:
            return (), n
        mistakes.append(got("PLiF: at least two knots are needed", knots))
        return (), 2
    fixed = as_numbers(knots, got("PLiF: knots are Quantiles(n) or a sequence of numbers", knots), mistakes)
    if fixed is not None:
        if len(fixed) >= 2 and all(a < b for a, b in pairwise(fixed)) and all(map(isfinite, fixed)):
            return fixed, len(fixed)
        mistakes.append("PLiF: fixed knots are two or more finite numbers, strictly increasing")
    return (), 2


@dataclass(frozen=True, init=False, repr=False)
class PLiF(Transform):
    """Piecewise-linear functions of each feature: the coordinates of x on hat functions over the knots.

    For knots ``s_1 < ... < s_P`` the row holds ``c_p(x)``, at most two of them non-zero, with
    ``sum_p c_p(x) = 1``; a weight vector v over them is the piecewise-linear function with value ``v_p`` at
    ``s_p``, constant beyond the ends (Zeller 2010).

    Parameters
    ----------
    source : Input or feature
        Each of its features gets its own function.
    knots : Quantiles or sequence of float
        ``Quantiles(8)`` learns the knots from the training data; a sequence fixes them.
    """

    knots: tuple[float, ...]
    n_knots: int

    def __init__(self, source: Source, knots: Quantiles | Sequence[float]) -> None:
        checked, mistakes = self._start(source, "PLiF")
        fixed, n_knots = _read_knots(knots, mistakes)
        self._fill(mistakes, dims=checked.dims, source=checked, knots=fixed, n_knots=n_knots)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.source, self.knots or Quantiles(self.n_knots)), {}

    @property
    def learns(self) -> bool:
        """Knots are learnt unless they are given."""
        return not self.knots

    @property
    def width(self) -> int | None:
        """``n_knots`` times the width of the source."""
        return None if self.source.width is None else self.source.width * self.n_knots


#: Highest degree of a polynomial: two features have 560 monomials of it.
MAX_DEGREE = 32


@dataclass(frozen=True, init=False, repr=False)
class Polynomial(Transform):
    """All monomials of degree 1 to ``degree`` of the source's features (no constant).

    Of a sparse input they are sparse: a row with k features that are not zero has ``binomial(k + degree, degree) - 1``.
    """

    degree: int

    def __init__(self, source: Source, degree: int = 2) -> None:
        checked, mistakes = self._start(source, "Polynomial", sparse=True)
        degree = plain(degree)
        if not isinstance(degree, int) or isinstance(degree, bool) or not 1 <= degree <= MAX_DEGREE:
            mistakes.append(got(f"Polynomial: the degree must be a positive int, at most {MAX_DEGREE}", degree))
            degree = 1
        self._fill(mistakes, dims=checked.dims, source=checked, degree=degree)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.source, self.degree), {}

    @property
    def sparse(self) -> bool:
        """Whether the source is."""
        return self.source.sparse

    @property
    def width(self) -> int | None:
        """``binomial(width + degree, degree) - 1``."""
        return None if self.source.width is None else comb(self.source.width + self.degree, self.degree) - 1


@dataclass(frozen=True, init=False, repr=False)
class Normalised(Transform):
    """The source shifted and turned into features of the same number, as the training data say."""

    @property
    def learns(self) -> bool:
        """Means and variances are learnt."""
        return True

    @property
    def width(self) -> int | None:
        """The width of the source."""
        return self.source.width


@dataclass(frozen=True, init=False, repr=False)
class Standardized(Normalised):
    """The source with each feature shifted and scaled to mean 0 and variance 1 on the training data."""


@dataclass(frozen=True, init=False, repr=False)
class Whitened(Normalised):
    """The source with its features decorrelated to unit covariance on the training data (ZCA whitening).

    Directions whose variance is below ``1e-10`` of the largest are set to zero.
    """


@dataclass(frozen=True, init=False, repr=False)
class Scaled(Normalised):
    """The source with each feature divided by its largest absolute value on the training data.

    Zeros stay zeros, so that sparse inputs and attributes stay sparse.
    """

    def __init__(self, source: Source) -> None:
        mistakes: list[Mistake] = []
        if isinstance(source, Attributes):
            checked: Source = source
        else:
            checked, mistakes = self._start(source, "Scaled", sparse=True)
        self._fill(mistakes, dims=checked.dims, source=checked)

    @property
    def sparse(self) -> bool:
        """Whether the source is."""
        return self.source.sparse


@dataclass(frozen=True, init=False, repr=False)
class Hashed(Transform):
    """Attributes hashed to a fixed number of columns: no vocabulary is kept (the hashing trick).

    Parameters
    ----------
    source : Attributes
        The named features.
    width : int
        Number of columns; names that collide share one.
    """

    n_features: int

    def __init__(self, source: Attributes, width: int = 2**18) -> None:
        mistakes: list[Mistake] = []
        if not isinstance(source, Attributes):
            mistakes.append(got("Hashed: the source must be an Attributes input", source))
            source = Attributes()
        width = check_width(width, "Hashed", mistakes)
        self._fill(mistakes, dims=source.dims, source=source, n_features=width)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.source, self.n_features), {}

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.n_features

    @property
    def sparse(self) -> bool:
        """Hashed attributes are stored sparsely."""
        return True


@dataclass(frozen=True, init=False, repr=False)
class Concat(Source):
    """Several features side by side; made from ``features=[a, b]``."""

    parts: tuple[Source, ...]
    made_from: ClassVar = ("parts",)

    def __init__(self, parts: Sequence[Source]) -> None:
        mistakes: list[Mistake] = []
        if not parts or any(not isinstance(part, Source) or isinstance(part, JointFeature) for part in parts):
            mistakes.append(got("features: a list holds Inputs and features", list(parts)))
            parts = [part for part in parts if isinstance(part, Source)] or [Input(1)]
        elif deep := nested_too_deep(parts, "features"):
            mistakes, parts = deep, [Input(1)]
        self._fill(mistakes, dims=parts[0].dims, parts=tuple(parts))

    @property
    def width(self) -> int | None:
        """The sum of the widths."""
        widths = [part.width for part in self.parts]
        return None if None in widths else sum(width for width in widths if width is not None)

    @property
    def sparse(self) -> bool:
        """Sparse as soon as one part is."""
        return any(part.sparse for part in self.parts)

    @property
    def sources(self) -> tuple[Source, ...]:
        """The parts."""
        return self.parts


def walk_sources(source: Source | None) -> Iterator[Source]:
    """Yield a source and everything it is computed from."""
    if source is not None:
        yield source
        for part in source.sources:
            yield from walk_sources(part)


#: How many features may be made from one another, and how many there may be in one.
MAX_DEPTH, MAX_PARTS = 32, 10_000


def nested_too_deep(sources: Sequence[Source], name: str) -> list[Mistake]:
    """Return a mistake where features inside these features are too many levels, or too many."""
    level, depth, total = list(sources), 0, 0
    while level:
        depth, total = depth + 1, total + len(level)
        if depth > MAX_DEPTH or total > MAX_PARTS:
            return [f"{name}: features inside features, more than {MAX_DEPTH} levels or {MAX_PARTS} of them"]
        level = [part for source in level for part in source.sources]
    return []


def has_sliced(source: Source | None) -> bool:
    """Whether some features that a source is made of are not kept."""
    return any(isinstance(one, Feature) and not one.stored for one in walk_sources(source))


def is_indexed(source: Source | None) -> bool:
    """Whether features are read at positions of a pattern: ``x[t - 1]``, or a function of indices."""
    return source is not None and any(
        isinstance(one, At) or (isinstance(one, Feature) and bool(one.places)) for one in walk_sources(source)
    )


def positions_of(source: Source) -> tuple[Any, ...]:
    """Return the positions that features are read at."""
    return tuple(place for one in walk_sources(source) if isinstance(one, At | Feature) for place in one.places)


def row_target(source: Source) -> Target | None:
    """Return the target whose factors the rows of a source belong to, ``None`` when rows belong to axes."""
    if isinstance(source, OfFactors):
        return source.target
    return next((target for part in source.sources if (target := row_target(part)) is not None), None)


def check_width(width: object, what: str, mistakes: list[Mistake]) -> int:
    """Return a positive int width."""
    width = plain(width)
    if isinstance(width, int) and not isinstance(width, bool) and 1 <= width <= MOST:
        return width
    if isinstance(width, int) and width > MOST:
        mistakes.append(got(f"{what}: width is at most {MOST}", width))
        return 1
    mistakes.append(got(f"{what}: width must be a positive int", width))
    return 1


# -- features of whole spans: lengths, means and sums of features of their positions -------------------------------


@dataclass(frozen=True, init=False, repr=False)
class SpanFeature(OfFactors):
    """Features of spans."""

    target: Target

    @property
    def label(self) -> Label:
        """The label of segments."""
        return self.target.label


@dataclass(frozen=True, init=False, repr=False)
class SpanLength(SpanFeature):
    """The length of each span as an indicator: column ``l - 1`` is 1 for spans of l positions.

    Parameters
    ----------
    target : Target
        ``spans(y)``.

    Examples
    --------
    >>> long = Factor(spans(y), features=SpanLength(spans(y)))
    """

    made_from: ClassVar = ("target",)

    def __init__(self, target: Target) -> None:
        mistakes: list[Mistake] = []
        self._fill(mistakes, dims=(), target=_checked(target, "SpanLength", mistakes))

    @property
    def width(self) -> int:
        """How long a segment may be."""
        return self.label.segments or 1


@dataclass(frozen=True, init=False, repr=False)
class SpanMean(SpanFeature):
    """The mean of features over the positions of each span.

    Parameters
    ----------
    source : Input or feature
        Dense, with a row for each position.
    target : Target
        ``spans(y)``.

    Examples
    --------
    >>> look = Factor(spans(y), features=[SpanLength(spans(y)), SpanMean(x, spans(y))])
    """

    source: Source
    made_from: ClassVar = ("source", "target")

    def __init__(self, source: Source, target: Target) -> None:
        mistakes: list[Mistake] = []
        what = type(self).__name__
        goal = _checked(target, what, mistakes)
        if not isinstance(source, Source) or isinstance(source, JointFeature) or source.sparse:
            mistakes.append(got(f"{what}: the source must be a dense Input or another dense feature", source))
            source = Input(*goal.label.dims, 1)
        elif len(source.dims) != 1 or source.dims[0] is not goal.label.dims[0]:
            mistakes.append(got(f"{what}: the source has a row for each position of the label's axis", source))
        self._fill(mistakes, dims=(), source=source, target=goal)

    @property
    def width(self) -> int | None:
        """The width of the source."""
        return self.source.width

    @property
    def sources(self) -> tuple[Source, ...]:
        """The source."""
        return (self.source,)


@dataclass(frozen=True, init=False, repr=False)
class SpanSum(SpanMean):
    """The sum of features over the positions of each span; parameters are those of :class:`SpanMean`.

    Weights of sums score what weights of the positions score, ``Factor(y, features=x)``, which take less memory: sums
    are for what is computed from them, such as ``PLiF(SpanSum(x, spans(y)), knots=...)``.
    """


def _checked(target: object, what: str, mistakes: list[Mistake]) -> Target:
    """Return the target of a feature of spans; note anything else as a mistake."""
    if isinstance(target, Target) and target.kind == "spans":
        mistakes += target.mistakes
        if not target.mistakes:
            return target
    else:
        mistakes.append(got(f"{what}: the last argument is spans(y) of a label of segments", target))
    return Target("spans", (Label(Dim(1), 1, segments=1),))
