"""``CountLoss``: functions of counts of true and false positives, such as ``1 - F1``, of variables or of segments."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.losses.label_losses import LabelLoss, ignored_value, structure_mistakes
from ssvm_dsl.lang.outputs.class_names import ClassName
from ssvm_dsl.lang.outputs.labels import Label, Target
from ssvm_dsl.lang.outputs.targets import as_target
from ssvm_dsl.lang.symbols import Mistake, as_numbers, got, plain, show

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
