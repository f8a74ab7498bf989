"""Losses: how bad a labelling is when the truth is known; zero for the truth itself.

Losses add and scale: ``Hamming(y) + 0.5 * Cost(z, matrix)``, ``sum(Hamming(y) for y in labels)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np

from ssvm_dsl.lang.dims import Dim, indices_of
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.inputs import At, Edges, Input
from ssvm_dsl.lang.outputs.labels import Label, Latent, Target
from ssvm_dsl.lang.outputs.targets import as_target
from ssvm_dsl.lang.outputs.variables import ClassName
from ssvm_dsl.lang.patterns.pattern import Pattern, is_pattern
from ssvm_dsl.lang.patterns.references import LabelAt
from ssvm_dsl.lang.symbols import Mistake, ModelView, Symbol, as_flag, as_numbers, got, plain, show


@dataclass(frozen=True, init=False, repr=False)
class Loss(Symbol):
    """Base class of losses."""

    @property
    def terms(self) -> tuple[tuple[float, Loss], ...]:
        """The (weight, loss) terms whose weighted sum this is."""
        return ((1.0, self),)

    @property
    def labels(self) -> tuple[Label, ...]:
        """Labels whose variables the loss compares with the truth."""
        return ()

    @property
    def inputs(self) -> tuple[Any, ...]:
        """Inputs that the loss reads, such as weights of positions, and those of conditions."""
        return ()

    @property
    def asked_inputs(self) -> tuple[str, ...] | None:
        """Names of the inputs that its functions ask for; ``None``: all of them."""
        return ()

    @property
    def edge_lists(self) -> tuple[Edges, ...]:
        """The edge lists it follows."""
        return ()

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The user functions it calls."""
        return ()

    @property
    def of_counts(self) -> bool:
        """Whether it is a function of counts, which does not add up over variables."""
        return False

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield its labels, inputs and edge lists."""
        yield from (("the label", label.declared) for label in self.labels)
        yield from (("the input", given) for given in self.inputs)
        yield from (("the edge list", edges) for edges in self.edge_lists)

    def clashes(self, model: ModelView) -> Iterator[str]:
        """Yield a second loss, and labels that are never known."""
        first = model.of(Loss)[0]
        if first is not self:
            yield f"a model has one loss, {first.name} is already one; add them: a + b"
        for label in self.labels:
            if isinstance(label, Latent):
                yield f"{label.name} is latent; a loss compares labels that are known"
        if not self.mistakes:
            for _, term in self.terms:
                yield from term.lacking(model)

    def lacking(self, model: ModelView) -> Iterator[str]:
        """Yield the variables that a term ignores but must use."""
        yield from ()

    def __add__(self, other: Loss | float) -> Loss:
        if isinstance(other, Loss):
            return LossSum(self.terms + other.terms)
        if not isinstance(other, int | float | np.number):
            return NotImplemented
        if other != 0:  # where Python's sum starts
            raise TypeError(f"a sum holds losses only, got the number {other}; 2 * loss scales a loss")
        return self

    __radd__ = __add__

    def __rmul__(self, factor: float) -> LossSum:
        if not isinstance(factor, int | float | np.integer | np.floating):
            return NotImplemented
        return LossSum(tuple((_product(factor, weight), loss) for weight, loss in self.terms))

    __mul__ = __rmul__


def _product(factor: Any, weight: float) -> float:
    """Return a product as a float, infinite where it is beyond them."""
    try:
        return float(factor) * weight
    except OverflowError:
        return inf if factor > 0 else -inf


@dataclass(frozen=True, init=False, repr=False)
class LabelLoss(Loss):
    """A loss of one label array."""

    label: Label

    @property
    def labels(self) -> tuple[Label, ...]:
        """The one label."""
        return (self.label,)

    @staticmethod
    def _start(label: object, name: str) -> tuple[Label, list[Mistake]]:
        if isinstance(label, Label):
            return label, []
        return Label(1), [got(f"{name}: the first argument must be a Label", label)]


def structure_mistakes(name: str, label: Label, **options: object) -> Iterator[Mistake]:
    """Yield options that losses of pointer labels, or of segments, do not have."""
    if not label.pointer and label.segments is None:
        return
    what, loss = "a pointer label", "Hamming(y), the number of wrong pointers, or Cost(y, matrix)"
    if label.segments is not None:
        what, loss = "segments", "Hamming(y), wrong classes and beginnings, or Cost(spans(y), 'wrong'), wrong segments"
        loss += ", or CountLoss(spans(y), 'f1')"
    if name != "Hamming" and not (name == "Cost" and label.pointer):
        yield f"{name}: the loss of {what} is {loss}"
    for option, value in options.items():
        if value is not None:
            yield f"{name}: of {what} it has no {option}"


@dataclass(frozen=True, init=False, repr=False)
class WeighedLoss(LabelLoss):
    """A weighted sum over the variables of one label array, some of them, or the factors over them."""

    target: Target
    normalize: bool
    node_weights: Input | At | None

    @property
    def targets(self) -> tuple[Target, ...]:
        """The target."""
        return (self.target,)

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The weights of the variables, and what its condition reads."""
        given = self.node_weights
        weights = () if given is None else (given.source if isinstance(given, At) else given,)
        own = (one for one in self.target.inputs if not isinstance(one, Edges))
        return tuple({id(one): one for one in (*weights, *own)}.values())

    @property
    def edge_lists(self) -> tuple[Edges, ...]:
        """The edge list that its factors follow."""
        return tuple(one for one in self.target.inputs if isinstance(one, Edges))

    @property
    def at_positions(self) -> bool:
        """Whether it is about variables at positions, and not about all of a label."""
        return isinstance(self.target, Pattern)

    def references(self) -> Iterator[tuple[str, Symbol]]:
        """Yield its labels and inputs, and what its positions refer to."""
        yield from super().references()
        yield from self.target.symbols()

    def _written(self, **options: Any) -> dict[str, Any]:
        """Return options that are not as usual, and the condition."""
        options |= {"normalize": self.normalize, "node_weights": self.node_weights}
        return {key: one for key, one in options.items() if one not in (None, False)} | self.target.written_options

    @staticmethod
    def _weights_of(target: Target, given: object, name: str, mistakes: list[Mistake]) -> Input | At | None:
        """Return the input with the weights of the variables, or factors; note when it cannot be one."""
        if given is None:
            return None
        if isinstance(target, Pattern) and target.word is None:
            given = At(given, ()) if isinstance(given, Input) and not given.dims else given
            if isinstance(given, At) and isinstance(given.source, Input) and given.width == 1 and not given.sparse:
                mistakes += given.mistakes
                if all(any(one is own for own in target.free) for one in indices_of(*given.places)):
                    return given
            text = "node_weights must be one number at positions, such as a[t], with indices of"
            mistakes.append(lambda: f"{name}: {text} {target!r}, got {show(given)}")
            return None
        joint = target.arity > 1
        axes: tuple[Dim, ...] = target.feature_axes if joint else target.label.dims
        if not isinstance(given, Input) or given.shape or tuple(map(id, given.dims)) != tuple(map(id, axes)):
            owner = f"features of {target.kind}" if joint else "the label"
            text = f"{name}: node_weights must be an Input with the axes of {owner} and nothing else"
            mistakes.append(got(text, given))
            return None
        return given


@dataclass(frozen=True, init=False, repr=False)
class Hamming(WeighedLoss):
    """Number of wrong variables: ``sum_v weights[y_v] [yhat_v != y_v]``.

    Of a label with ``segments=`` it is the number of positions of a wrong class and of positions where a segment begins
    in one of both only; it is zero for the true segments alone.

    Parameters
    ----------
    y : Label, or variable at positions
        The label; or some of its variables, ``y[t]`` with ``where=``: one term for each assignment of the indices.
    normalize : bool
        Divide by the number (or the total node weight) of the variables of the example that count.
    weights : sequence of float, optional
        Price of missing each true class, one for each state.
    ignore : class name, optional
        A value in Y (usually not one of the classes, e.g. 255) that marks variables without a known truth:
        they cost nothing, and in training they are left out together with the factors that touch them.
    node_weights : Input, optional
        A weight for each variable, that comes with the example, e.g. the area of each superpixel: an input with the
        axes of ``y``, of non-negative numbers; of variables at positions one at positions, ``area[t]``.
    where : condition, optional
        Of variables at positions, which of them count.  Inputs that only the loss reads are not needed to predict.

    Examples
    --------
    >>> loss = Hamming(y)
    >>> loss = Hamming(y[t], where=judged[t])                  # only some positions are judged
    >>> loss = Hamming(y) + 2.0 * Hamming(y[-1])               # the last one counts three times
    """

    weights: tuple[float, ...] | None
    ignore: str | int | None

    def __init__(
        self,
        y: Label | LabelAt | Pattern | Sequence[LabelAt | Pattern],
        *,
        normalize: bool = False,
        weights: Sequence[float] | None = None,
        ignore: str | int | None = None,
        node_weights: Input | At | None = None,
        where: Any = None,
    ) -> None:
        mistakes: list[Mistake] = []
        target = judged_target(y, where, "Hamming", mistakes)
        label, at_positions = target.label, isinstance(target, Pattern)
        if target.arity > 1 and not mistakes:
            mistakes.append(got("Hamming: it counts single variables; of several write Cost(..., 'wrong')", target))
        complaint = got(f"Hamming: weights must be {label.n_states} non-negative numbers, one for each state", weights)
        prices = None if weights is None else as_numbers(weights, complaint, mistakes)
        if prices is not None and (len(prices) != label.n_states or not all(0 <= price < inf for price in prices)):
            mistakes.append(complaint)
        ignore = ignored_value(label, ignore, "Hamming", mistakes)
        nodes = self._weights_of(target, node_weights, "Hamming", mistakes)
        divide = as_flag(normalize, "Hamming: normalize", mistakes)
        options = {"ignore": ignore} | ({} if at_positions else {"weights": weights, "node_weights": node_weights})
        mistakes += structure_mistakes("Hamming", label, **options)
        self._fill(
            mistakes, label=label, target=target, normalize=divide, weights=prices, ignore=ignore, node_weights=nodes
        )

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.target.written,), self._written(weights=self.weights, ignore=self.ignore)


def judged_target(y: Any, where: Any, name: str, mistakes: list[Mistake]) -> Target:
    """Return what a loss compares, a label or variables at positions; note anything else."""
    if not isinstance(y, Label | Target) and not is_pattern(y):
        kinds = "a Label, " if name == "Hamming" else "a Label, or joins labels as chain(y) does, "
        mistakes.append(got(f"{name}: the first argument must be {kinds}or variables at positions, as y[t]", y))
        return Target("each", (Label(1),))
    target = as_target(y, where)
    mistakes += target.mistakes
    if len(target.all_labels) > 1 and target.arity == 1:
        mistakes.append(f"{name}: the variables of one label; losses of several labels are added")
    return target


def ignored_value(label: Label, ignore: Any, name: str, mistakes: list[Mistake]) -> Any:
    """Return the value that marks variables without a truth; note when no class could have such a name."""
    ignore = plain(ignore)
    named = label.classes is not None and isinstance(label.classes[0], str)
    if ignore is not None and (isinstance(ignore, bool) or not isinstance(ignore, str if named else int)):
        kind = "a string" if named else "an int"
        mistakes.append(got(f"{name}: ignore must be {kind}, as the classes are", ignore))
        return None
    if isinstance(ignore, str) and ignore.endswith("\0"):
        mistakes.append(got(f"{name}: ignore does not end with the character NUL, which numpy drops", ignore))
    return ignore


@dataclass(frozen=True, init=False, repr=False)
class ZeroOne(Loss):
    """1 when any variable is wrong, 0 when all are right; needs a backend with 2-best (or one that lists it)."""

    over: tuple[Label, ...]

    def __init__(self, *labels: Label) -> None:
        mistakes: list[Mistake] = [got("ZeroOne: expected Labels", y) for y in labels if not isinstance(y, Label)]
        self._fill(mistakes, over=tuple(y for y in labels if isinstance(y, Label)))

    @property
    def labels(self) -> tuple[Label, ...]:
        """All the labels given."""
        return self.over

    def lacking(self, model: ModelView) -> Iterator[str]:
        """Yield the mistake of ignoring parts of the output."""
        if {label.name for label in self.labels} != set(model.output_names):
            yield f"ZeroOne looks at the whole output; name every label: ZeroOne({', '.join(model.output_names)})"

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return self.over, {}


@dataclass(frozen=True, init=False, repr=False)
class NoLoss(Loss):
    """Zero for every labelling (the perceptron's criterion)."""

    def __init__(self) -> None:
        self._fill([])


@dataclass(frozen=True, init=False, repr=False)
class CustomLoss(LabelLoss):
    """A loss from a plug-in (hook ``ssvm_losses``), named as it is registered.

    Parameters
    ----------
    kind : str
        Name of the registered loss.
    y : Label
        The label.
    **options : str, int, float or bool
        Passed on to the plug-in.
    """

    kind: str
    options: tuple[tuple[str, Any], ...]

    def __init__(self, kind: str, y: Label, **options: Any) -> None:
        label, mistakes = self._start(y, "CustomLoss")
        if not isinstance(kind, str):
            mistakes.append(got("CustomLoss: the first argument is the name of a registered loss", kind))
            kind = "?"
        given = {key: plain(value) for key, value in options.items()}
        for key, value in given.items():
            if not isinstance(value, str | int | float) or value != value:
                mistakes.append(got(f"CustomLoss: the option {key} must be a string, a number or a truth value", value))
                given[key] = None
        mistakes += structure_mistakes("CustomLoss", label)
        self._fill(mistakes, label=label, kind=kind, options=tuple(sorted(given.items())))

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        return (self.kind, self.label), dict(self.options)


@dataclass(frozen=True, init=False, repr=False)
class LossSum(Loss):
    """A weighted sum of losses."""

    parts: tuple[tuple[float, Loss], ...]
    made_from: ClassVar = ("parts",)

    def __init__(self, parts: Sequence[tuple[float, Loss]]) -> None:
        mistakes: list[Mistake] = []
        parts, given = [], parts
        for one in given:
            pair = one if isinstance(one, tuple | list) and len(one) == 2 else (None, None)
            if isinstance(pair[0], int | float) and isinstance(pair[1], Loss):
                parts += [(_product(pair[0], weight), loss) for weight, loss in pair[1].terms]
            else:
                mistakes.append(got("LossSum: pairs of a number and a loss", one))
        mistakes += [text for _, loss in parts for text in loss.mistakes]
        wrong = next((weight for weight, _ in parts if not 0 <= weight < inf), None)
        if wrong is not None:
            mistakes.append(f"the weights of a sum of losses must be non-negative and finite, got {wrong:g}")
        if len(parts) > 1 and any(isinstance(loss, ZeroOne) for _, loss in parts):
            mistakes.append("ZeroOne cannot be added to another loss")
        if sum(loss.of_counts for _, loss in parts) > 1:
            mistakes.append("a sum of losses holds at most one CountLoss")
        self._fill(mistakes, parts=tuple(parts))

    @property
    def terms(self) -> tuple[tuple[float, Loss], ...]:
        """The weighted terms."""
        return self.parts

    @property
    def targets(self) -> tuple[Target, ...]:
        """The targets of all terms."""
        return tuple(target for _, loss in self.parts for target in loss.targets)

    @property
    def labels(self) -> tuple[Label, ...]:
        """The labels of all terms."""
        return tuple(dict.fromkeys(label for _, loss in self.parts for label in loss.labels))

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The inputs of all terms."""
        return tuple(dict.fromkeys(given for _, loss in self.parts for given in loss.inputs))

    @property
    def asked_inputs(self) -> tuple[str, ...] | None:
        """What the functions of all terms ask for."""
        asked = [loss.asked_inputs for _, loss in self.parts]
        return None if None in asked else tuple(name for names in asked for name in names or ())

    @property
    def edge_lists(self) -> tuple[Edges, ...]:
        """The edge lists of all terms."""
        return tuple(dict.fromkeys(edges for _, loss in self.parts for edges in loss.edge_lists))

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The user functions of all terms."""
        return tuple(ref for _, loss in self.parts for ref in loss.functions)


# -- functions of counts of true and false positives, of variables or of segments ----------------------------------

#: Positive classes at most.
MOST_POSITIVE = 1 << 20

#: Named measures of :class:`CountLoss`.
MEASURES = ("f1", "iou", "f_beta")


@dataclass(frozen=True, init=False, repr=False)
class CountLoss(LabelLoss):
    """A function of the true and false positives and negatives of each example, such as ``1 - F1``.

    Each positive class is a yes-or-no question to every variable; tp, fp, fn and tn count the answers of one example,
    over all variables and all positive classes (micro averages).  The measures are

        f1       1 - 2 tp / (2 tp + fp + fn)
        iou      1 - tp / (tp + fp + fn)                             Jaccard index, intersection over union
        f_beta   1 - (1 + beta^2) tp / ((1 + beta^2) tp + beta^2 fn + fp)

    and 0 where nothing is positive, neither in truth nor in the answer.  Of segments, ``CountLoss(spans(y), "f1")``,
    the questions are to every span: a segment is a true positive where start, end and class are those of a true one, so
    that F1 is ``2 tp / (true segments + found ones)``.

    These losses do not add up over variables: training needs a backend that counts (``chain``, ``tree``,
    ``semi-markov`` for segments; ``brute-force`` for the smallest examples).  The F1 of a whole corpus is not the mean
    of these, and not what is minimised.

    Parameters
    ----------
    y : Label or Target
        The label, or ``spans(y)`` of a label of segments.
    measure : {"f1", "iou", "f_beta"} or callable
        A callable gets int arrays (tp, fp, fn, tn) of one shape and returns that many losses, finite, none negative,
        0 where fp = fn = 0.  Models that are written to files need one with an import path.
    positive : class name or sequence of class names, optional
        The class or classes to find; by default the second one where there are two, and all classes of segments.
    outside : class name or sequence of class names, optional
        In place of ``positive``: the class or classes that are nothing to find, such as ``"O"``; all others are.
    beta : float, optional
        For ``"f_beta"``: how many times as much a missed positive counts as a false one (roughly).
    ignore : class name, optional
        A value in Y that marks variables without a known truth, as for :class:`Hamming`; they are not counted.

    Notes
    -----
    Loss-augmented inference is dynamic programming with counts of true and false positives: time
    O(T (P + 1)(N + 1) L^2) for T variables of L states in a chain, P positives and N others (N = T with more than one
    positive class); O(T (P + 1)(T + 1) K (K + L)) for segments of up to L positions and K classes.

    Joachims, A support vector method for multivariate performance measures, ICML 2005; with structure: Bauer,
    Goernitz, Biegler, Mueller and Kloft, IEEE TNNLS 2014.

    Examples
    --------
    >>> loss = CountLoss(y, "f1")
    >>> loss = CountLoss(y, "iou", positive=["B-NP", "I-NP"])
    >>> loss = CountLoss(spans(y), "f1", outside="O")
    """

    target: Target
    measure: str | FunctionRef
    positive: tuple[ClassName, ...]
    beta: float | None
    ignore: str | int | None

    def __init__(
        self,
        y: Label | Target,
        measure: str | Callable[..., Any] | FunctionRef = "f1",
        *,
        positive: ClassName | Sequence[ClassName] | None = None,
        outside: ClassName | Sequence[ClassName] | None = None,
        beta: float | None = None,
        ignore: str | int | None = None,
    ) -> None:
        goal, mistakes = _goal(y)
        label = goal.label
        if callable(measure):
            measure = FunctionRef.of(measure)
        if not isinstance(measure, FunctionRef) and not (isinstance(measure, str) and measure in MEASURES):
            names = ", ".join(map(repr, MEASURES))
            mistakes.append(got(f"CountLoss: the measure must be {names} or a function of counts", measure))
            measure, beta = "f1", None
        if measure == "f_beta" and beta is None:
            mistakes.append("CountLoss: the measure 'f_beta' needs a number beta, e.g. beta=2")
        if measure != "f_beta" and beta is not None:
            mistakes.append(f"CountLoss: only the measure 'f_beta' takes beta, got beta={show(beta)}")
        number = as_numbers([] if beta is None else [beta], got("CountLoss: beta must be a number", beta), mistakes)
        if number and not 1e-100 < number[0] < 1e100:  # it is squared
            mistakes.append(got("CountLoss: beta must be positive and finite", beta))
        classes = _positive_classes(goal, plain(positive), plain(outside), mistakes)
        given = number[0] if number else None
        ignore = ignored_value(label, ignore, "CountLoss", mistakes)
        if goal.kind != "spans":
            mistakes += structure_mistakes("CountLoss", label)
        elif ignore is not None:
            mistakes.append("CountLoss: segments have no ignore=; write (start, end, None) in Y for unknown classes")
        self._fill(
            mistakes, label=label, target=goal, measure=measure, positive=classes, beta=given, ignore=ignore
        )  # fmt: skip

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the constructor's arguments."""
        of_spans = self.target.kind == "spans"
        positive: Any = self.positive[0] if len(self.positive) == 1 else self.positive
        if of_spans and self.positive == tuple(_known(self.label)):
            positive = None
        options = {"positive": positive, "beta": self.beta, "ignore": self.ignore}
        given = {key: value for key, value in options.items() if value is not None}
        return (self.target if of_spans else self.label, self.measure), given

    @property
    def functions(self) -> tuple[FunctionRef, ...]:
        """The measure, where it is a user's function."""
        return (self.measure,) if isinstance(self.measure, FunctionRef) else ()

    @property
    def of_counts(self) -> bool:
        """Whether it is a function of counts: it is."""
        return True


def _goal(y: object) -> tuple[Target, list[Mistake]]:
    """Return the subject of the questions: a label, or the spans of one."""
    if isinstance(y, Label) or (isinstance(y, Target) and y.kind == "spans"):
        goal = as_target(y)
        return goal, list(goal.mistakes)
    wrong = got("CountLoss: the first argument must be a Label or spans(y)", y)
    return as_target(Label(2)), [wrong]


def _known(label: Label) -> Sequence[ClassName]:
    """Return the names of all classes, of which there may be billions."""
    return range(label.n_states) if label.classes is None else label.classes


def _positive_classes(goal: Target, positive: Any, outside: Any, mistakes: list[Mistake]) -> tuple[ClassName, ...]:
    """Return the positive classes; note mistakes in them."""
    label, known = goal.label, _known(goal.label)
    if positive is not None and outside is not None:
        mistakes.append("CountLoss: give the positive classes or those outside, not both")
    if positive is None and outside is None:
        if goal.kind == "spans":
            return tuple(known[:MOST_POSITIVE])  # labels of segments have fewer
        if label.n_states != 2:
            text = f"CountLoss: name the positive class (or classes) of the {label.n_states}: positive=..., "
            mistakes.append(text + "or those that are none: outside=...")
        return tuple(known[-1:])
    name, given = ("positive", positive) if outside is None else ("outside", outside)
    classes = tuple(map(plain, given)) if isinstance(given, list | tuple) else (given,)
    strange = [one for one in classes if label.index(one) is None]
    if strange:
        shown = [*known[:8], "..."] if len(known) > 8 else known
        mistakes.append(f"CountLoss: {name} names classes of {show(list(shown))}, got {show(strange[0])}")
    elif not classes or len(set(classes)) != len(classes):
        mistakes.append(f"CountLoss: {name} names at least one class, each once, got {show(classes)}")
    if outside is None:
        return classes
    if strange or not 0 < len(known) - len(classes) <= MOST_POSITIVE:
        left = f"more than {MOST_POSITIVE} classes" if len(classes) < len(known) else "no class"
        mistakes += [] if strange else [f"CountLoss: outside leaves {left} to find"]
        return tuple(known[-1:])
    return tuple(one for one in known if one not in classes)
