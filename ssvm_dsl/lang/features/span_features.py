"""Features of whole spans: lengths, means and sums of features of their positions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.features.sources import JointFeature, OfFactors
from ssvm_dsl.lang.inputs import Input, Source
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.symbols import Mistake, got


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

    def __init__(self, target: Target) -> None:
        mistakes: list[Mistake] = []
        self._fill(mistakes, dims=(), target=_checked(target, "SpanLength", mistakes))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.target,), {}

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

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.source, self.target), {}

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
