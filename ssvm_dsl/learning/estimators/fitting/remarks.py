"""What a fit says of its data: labels that are not known, features of different sizes, classes never predicted.

*Sizes.*  Steps of most trainers are as long in every direction, so that the largest column decides their length, and
weights of small columns hardly move.  ``lbfgs`` divides by a guess of the curvature, and is not slowed.

*Classes of the training data that a fitted model never predicts*: an answer that looks fine by its accuracy.  A margin
is not consistent where no class has most of the probability, and predicts the most frequent class only where classes
are rare or noisy (Liu 2007, "Fisher consistency of multicategory support vector machines").  So may any risk under too
strong a regularisation, or with features of very different sizes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.features.weight_names import weight_names
from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.compiler.layout import EncodedLabels
from ssvm_dsl.errors import MissedClassWarning, SsvmError
from ssvm_dsl.inference.planning.planner import need_of, plan_program
from ssvm_dsl.ir.features import FeatureMap
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.ir.solution import Solution
from ssvm_dsl.lang.features.kernel_features import Kernel
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.learning.answers import PredictionRequest
from ssvm_dsl.learning.estimators.structured import StructuredEstimator
from ssvm_dsl.plugin_api.specs import RiskForm, TrainerSpec

#: So many examples or classes are listed.
LISTED = 5


def warn_of_unknown(grounded: Grounded) -> None:
    """Warn of what nothing can be learnt about: such data are often read in another way than they were meant.

    Parameters
    ----------
    grounded : Grounded
        With labels.
    """
    for text in (_unlabelled(grounded), *(_unseen(grounded, label) for label in grounded.declaration.outputs)):
        if text:
            warn_caller(text)


def _unlabelled(grounded: Grounded) -> str:
    """Return which examples have variables, but no known label; empty where there are none."""
    if grounded.ignored is None:
        return ""
    layout = grounded.layout
    own = ~(layout.latent | layout.auxiliary)
    there, known = (_per_example(layout.var_ptr, which) for which in (own, own & ~grounded.ignored))
    empty = np.flatnonzero((there > 0) & (known == 0))
    if not len(empty):
        return ""
    return f"Y: {len(empty)} of {layout.n} examples have no known label ({_listed(empty.tolist())}): they teach nothing"


def _per_example(var_ptr: I64, which: Bools) -> I64:
    """Return the number of variables of each example among those of a mask."""
    return np.diff(pointers(which.astype(np.int64))[var_ptr])


def _unseen(grounded: Grounded, label: Label) -> str:
    """Return which classes of a label no known label has, where that is suspicious: empty elsewhere.

    Classes are declared, and small data often lack some of them.  It is suspicious where some labels are not known, or
    all that are known are of one class.
    """
    if not structure_of(label).has_classes:
        return ""
    assert grounded.truth is not None
    variables = grounded.layout.variables(label)
    states: NDArray[np.int32] = grounded.truth[variables]
    hidden = np.zeros(0, dtype=bool) if grounded.ignored is None else grounded.ignored[variables]
    states = states[~hidden] if len(hidden) else states
    unseen = np.flatnonzero(np.bincount(states, minlength=label.n_states) == 0)
    if len(states) < 2 or not len(unseen) or (len(unseen) < label.n_states - 1 and not hidden.any()):
        return ""
    names = [label.classes[state] if label.classes else int(state) for state in unseen.tolist()]
    one = len(names) == 1
    which = f"class {names[0]!r}" if one else f"{len(names)} of the {label.n_states} classes ({_listed(names)})"
    learnt = f"that {'it is' if one else 'they are'} wrong"
    return f"label '{label.name}': no known label in Y has {which}; the model can learn only {learnt}"


def _listed(items: list[int] | list[str | int]) -> str:
    """Return the first few of a list, as text."""
    return ", ".join(map(repr, items[:LISTED])) + (", ..." if len(items) > LISTED else "")


#: Columns whose sizes differ by more than this are worth a warning.
APART = 100.0

#: Numbers that are squared at a time, and rows that are looked at: some that are spread evenly show the sizes.
SLICE, ROWS = 2**18, 4096


def scale_warning(grounded: Grounded, spec: TrainerSpec) -> str:
    """Return the warning about columns of dense features whose sizes differ much; empty where there are none.

    Parameters
    ----------
    grounded : Grounded
        The training data.
    spec : TrainerSpec
        The trainer that learns from them.
    """
    if spec.scale_free:
        return ""
    apart = 1.0, "", ""
    kernels = {one.name for one in grounded.declaration.factors if _has_kernel(one.features)}
    for fmap in grounded.parameters.maps:
        if not isinstance(fmap.features, np.ndarray) or fmap.width < 2 or fmap.joint or fmap.name in kernels:
            continue
        sizes = column_sizes(fmap.features)
        known = np.flatnonzero(sizes > 0.0)
        if not len(known):
            continue
        small, large = int(known[np.argmin(sizes[known])]), int(np.argmax(sizes))
        ratio = float(sizes[large] / sizes[small])
        if max(APART, apart[0]) < ratio < np.inf:  # what overflows is an error elsewhere
            names = _names(grounded, fmap)
            apart = ratio, fmap.source, f"{names[large]} is about {sizes[large]:.3g}, {names[small]} {sizes[small]:.3g}"
    ratio, source, which = apart
    if not source:
        return ""
    text = f"features of {source} differ in size by {ratio:,.0f} times ({which})"
    cure = "declare features=Standardized(...), or divide the columns by their sizes"
    return f"{text}; trainer '{spec.name}' is slow on them: {cure}"


def _has_kernel(source: Source | None) -> bool:
    """Whether features are those of an exact kernel, whose sizes are what they must be."""
    return source is not None and (isinstance(source, Kernel) or any(map(_has_kernel, source.sources)))


def column_sizes(rows: F64) -> F64:
    """Return the root mean square of the numbers of each column that are not 0; 0 for columns of zeros.

    Of standardised columns it is 1, and so it is of indicators, however rare.  Of many rows some are looked at.
    """
    rows = rows[:: max(1, len(rows) // ROWS)]
    total, count = np.zeros(rows.shape[1]), np.zeros(rows.shape[1], dtype=np.int64)
    step = max(1, SLICE // rows.shape[1])
    with np.errstate(over="ignore"):
        for lo in range(0, len(rows), step):
            part = rows[lo : lo + step]
            total += np.einsum("ij,ij->j", part, part)
            count += np.count_nonzero(part, axis=0)
        return np.sqrt(total / np.maximum(count, 1))


def _names(grounded: Grounded, fmap: FeatureMap) -> list[str]:
    """Return the names of the columns of a map."""
    factors = {factor.name: factor for factor in grounded.declaration.factors}
    names = weight_names(factors[fmap.block.name], grounded.declaration, grounded.fitted).features
    return [str(name) for name in names or range(fmap.width)]


#: Predictions are looked at for so many variables, and where that takes no longer than so many seconds by estimate.
VARIABLES, SECONDS = 4000, 0.2

#: One example of so many is looked at first.
PART = 8

#: Fewer variables tell nothing; nor does a class with fewer of them, or with a smaller share.
LEAST, FEW, RARE = 100, 10, 0.01

#: (times true, times predicted) of each class of a label.
Counts = dict[str, I64]


#: Reasons to end and a relative gap after which predictions say nothing about the model.
UNTRAINED, ROUGH = ("interrupt", "callback"), 0.1


def warn_of_missed(svm: StructuredEstimator, X: Any, Y: Any, grounded: Grounded) -> None:
    """Warn of classes of the training data that the fitted model never predicts.

    Parameters
    ----------
    svm : StructuredEstimator
    X, Y
        The training data.
    grounded : Grounded
        The model laid over them.
    """
    report = svm.report_
    if report.reason in UNTRAINED or report.relative_gap > ROUGH or (svm._deadline is not None and svm._deadline.over):
        return
    if isinstance(Y, EncodedLabels):  # nearest ones, which are states and no labels of the user
        return
    try:
        need = need_of(grounded.parameters, frozenset({Task.MAP}), Guarantee(svm.guarantee))
        chosen = plan_program(grounded.program, need, svm.backend, svm.backend_options)
        examples = sample_of(grounded.layout.var_ptr, chosen.seconds)
        if not examples:
            return
        X, Y = svm._examples(X), svm._labels(Y)
        wanted = known_classes(grounded)
        for some in looks(examples):  # most models predict all classes on the first few examples
            request = PredictionRequest(truth=[Y[i] for i in some])
            counts = svm._answers([X[i] for i in some], class_counts, request).parts
            if are_predicted(wanted, counts):
                return
    except SsvmError:  # who asks for these predictions hears of it
        return
    smooth = svm._risk().spec.form is RiskForm.SMOOTH
    if missed := missed_warning(grounded.declaration.outputs, counts, cure_of(smooth)):
        warn_caller(missed, MissedClassWarning)


def sample_of(var_ptr: I64, seconds: float) -> list[int]:
    """Return which examples are looked at: some that are spread evenly, by sizes alone; none where they tell nothing.

    Parameters
    ----------
    var_ptr : ndarray of int64, shape (n + 1,)
        Where the variables of each example begin.
    seconds : float
        Expected time of the answers for all of them; ``nan`` where it is not known.
    """
    n, n_variables = len(var_ptr) - 1, int(var_ptr[-1])
    share = min(1.0, VARIABLES / max(n_variables, 1), SECONDS / max(seconds, 1e-9))
    if np.isnan(seconds) or share * n < 1.0 or share * n_variables < LEAST:
        return []
    sample: list[int] = np.linspace(0, n - 1, int(share * n)).round().astype(int).tolist()
    return sample


def looks(examples: list[int]) -> list[list[int]]:
    """Return which examples are looked at first, and then, where a class is not predicted for these: all of them."""
    return [examples[::PART], examples] if len(examples) >= 4 * PART else [examples]


def known_classes(grounded: Grounded) -> dict[str, Bools]:
    """Return which classes of each label have a share of the training data that may be warned of."""
    known = {}
    for label in grounded.declaration.outputs:
        assert grounded.truth is not None
        counts = np.bincount(grounded.truth[grounded.layout.variables(label)], minlength=label.n_states)
        known[label.name] = counts > 0.5 * RARE * counts.sum()  # those looked at may have more of it than others
    return known


def are_predicted(wanted: dict[str, Bools], parts: list[Counts]) -> bool:
    """Return whether each of these classes is predicted somewhere."""
    names = {name for one in parts for name in one}
    return all(not (wanted[name] & (sum(one[name][1] for one in parts) == 0)).any() for name in names)


def class_counts(grounded: Grounded, solution: Solution) -> Counts:
    """Return how often each class of each label is true, and predicted, among the variables whose truth is known."""
    counts: Counts = {}
    for label in grounded.declaration.outputs:
        if not structure_of(label).has_classes:
            continue
        assert grounded.truth is not None
        variables = grounded.layout.variables(label)
        both = np.array([grounded.truth[variables], solution.labels[variables]])
        if grounded.ignored is not None:
            both = both[:, ~grounded.ignored[variables]]
        counts[label.name] = np.array([np.bincount(states, minlength=label.n_states) for states in both])
    return counts


def missed_warning(labels: tuple[Label, ...], parts: list[Counts], cure: str) -> str:
    """Return the warning about classes that are never predicted; empty where there are none.

    Parameters
    ----------
    labels : tuple of Label
    parts : list of dict
        Of :func:`class_counts`, of each chunk of the examples.
    cure : str
        What to set.
    """
    texts = []
    for label in labels:
        counts = [one[label.name] for one in parts if label.name in one]
        if not counts:
            continue
        true, predicted = np.sum(counts, axis=0)
        n = int(true.sum())
        missed = np.flatnonzero((predicted == 0) & (true >= max(FEW, RARE * n)))
        if n < LEAST or not len(missed):
            continue
        names = [repr(label.classes[state] if label.classes else state) for state in missed.tolist()]
        each = zip(names, true[missed] / n, strict=True)
        shares = ", ".join(f"{name} ({share:.0%} of the labels)" for name, share in each)
        only = np.flatnonzero(predicted)
        what = f"{shares} {'is' if len(names) == 1 else 'are'} never predicted"
        if len(only) == 1:
            one = label.classes[only[0]] if label.classes else int(only[0])
            what = f"only {one!r} is predicted, never {shares}"
        texts.append(f"label '{label.name}', on the training data: {what}")
    return f"{'; '.join(texts)}\n  {cure}" if texts else ""


def cure_of(risk_is_smooth: bool) -> str:
    """Return what to set where classes are never predicted."""
    other = "weigh the examples (sample_weight), take a larger C, or features of one scale (Standardized)"
    if risk_is_smooth:
        return other
    why = "a margin may do so where classes are rare or noisy"
    return f"set risk='log' ({why}), or risk='slack' with Hamming(y, weights=[...]); or {other}"
