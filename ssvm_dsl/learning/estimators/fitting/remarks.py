"""What a fit says of its data: labels that are not known, features of different sizes, classes never predicted.

*Sizes.*  Steps of most trainers are as long in every direction, so that the largest column decides their length, and
weights of small columns hardly move.  ``lbfgs`` divides by a guess of the curvature, and is not slowed.

*Classes of the training data that a fitted model never predicts*: an answer that looks fine by its accuracy.  A margin
is not consistent where no class has most of the probability, and predicts the most frequent class only where classes
are rare or noisy (Liu 2007, "Fisher consistency of multicategory support vector machines").  So may any risk under too
strong a regularisation, or with features of very different sizes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.features.weight_names import weight_names
from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import MissedClassWarning, SsvmError
from ssvm_dsl.inference.diagnosis.missing_answers import without_answer
from ssvm_dsl.inference.session import open_session, refuse_interrupted
from ssvm_dsl.ir.features import FeatureMap
from ssvm_dsl.ir.need import Task
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, pointers
from ssvm_dsl.lang.features.kernel_features import Kernel
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.learning.estimators.fitting.training import TrainingRun
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
    layout, ignored = grounded.layout, grounded.ignored
    if ignored is not None:
        own = ~(layout.latent | layout.auxiliary)
        there, known = (np.diff(pointers(which.astype(np.int64))[layout.var_ptr]) for which in (own, own & ~ignored))
        if len(empty := np.flatnonzero((there > 0) & (known == 0))):
            some = f"{len(empty)} of {layout.n} examples have no known label ({_listed(empty.tolist())})"
            warn_caller(f"Y: {some}: they teach nothing")
    for label in grounded.declaration.outputs:
        _warn_of_unseen(grounded, label)


def _warn_of_unseen(grounded: Grounded, label: Label) -> None:
    """Warn of classes of a label that no known label has, where that is suspicious.

    Classes are declared, and small data often lack some of them.  It is suspicious where some labels are not known, or
    all that are known are of one class.
    """
    if not structure_of(label).has_classes:
        return
    assert grounded.truth is not None
    variables = grounded.layout.variables(label)
    states: NDArray[np.int32] = grounded.truth[variables]
    hidden = np.zeros(0, dtype=bool) if grounded.ignored is None else grounded.ignored[variables]
    states = states[~hidden] if len(hidden) else states
    unseen = np.flatnonzero(np.bincount(states, minlength=label.n_states) == 0)
    if len(states) < 2 or not len(unseen) or (len(unseen) < label.n_states - 1 and not hidden.any()):
        return
    names = [label.classes[state] if label.classes else int(state) for state in unseen.tolist()]
    one = len(names) == 1
    which = f"class {names[0]!r}" if one else f"{len(names)} of the {label.n_states} classes ({_listed(names)})"
    learnt = f"that {'it is' if one else 'they are'} wrong"
    warn_caller(f"label '{label.name}': no known label in Y has {which}; the model can learn only {learnt}")


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
    for fmap in grounded.parameters.maps:
        if not isinstance(fmap.features, np.ndarray) or fmap.width < 2 or fmap.joint:
            continue
        sizes = column_sizes(fmap.features)
        known = np.flatnonzero(sizes > 0.0)
        if not len(known):
            continue
        small, large = int(known[np.argmin(sizes[known])]), int(np.argmax(sizes))
        ratio = float(sizes[large] / sizes[small])
        if max(APART, apart[0]) < ratio < np.inf and not _of_kernel(grounded, fmap):  # overflow is an error elsewhere
            names = _names(grounded, fmap)
            apart = ratio, fmap.source, f"{names[large]} is about {sizes[large]:.3g}, {names[small]} {sizes[small]:.3g}"
    ratio, source, which = apart
    if not source:
        return ""
    text = f"features of {source} differ in size by {ratio:,.0f} times ({which})"
    cure = "declare features=Standardized(...), or divide the columns by their sizes"
    return f"{text}; trainer '{spec.name}' is slow on them: {cure}"


def _of_kernel(grounded: Grounded, fmap: FeatureMap) -> bool:
    """Whether features are those of an exact kernel, whose sizes are what they must be."""
    return any(one.name == fmap.name and _has_kernel(one.features) for one in grounded.declaration.factors)


def _has_kernel(source: Source | None) -> bool:
    """Whether features are made from a kernel."""
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

#: Reasons to end and a relative gap after which predictions say nothing about the model.
UNTRAINED, ROUGH = ("interrupt", "callback"), 0.1


def warn_of_missed(svm: StructuredEstimator, grounded: Grounded, run: TrainingRun, deadline: Deadline) -> None:
    """Warn of classes of the training data that the fitted model never predicts.

    Some examples are predicted, by the session that was open in training where that answers the question.

    Parameters
    ----------
    svm : StructuredEstimator
    grounded : Grounded
        The model laid over the training data.
    run : TrainingRun
        The training run, with its session.
    deadline : Deadline
        Of the fit; predictions that it would cut short are not looked at.
    """
    report, layout, truth = svm.fitted_.report, grounded.layout, grounded.truth
    assert report is not None
    assert truth is not None
    if report.reason in UNTRAINED or report.relative_gap > ROUGH or deadline.over:
        return
    labels = list[tuple[Label, Bools]]()  # those of classes, with the variables whose truth is known
    for label in grounded.declaration.outputs:
        if structure_of(label).has_classes:
            known = np.zeros(len(truth), dtype=bool)
            known[layout.variables(label)] = True
            labels.append((label, known if grounded.ignored is None else known & ~grounded.ignored))
    try:
        with within(deadline):
            session = run.problem.session
            if run.risk.relaxed or Task.MAP not in session.tasks:
                session = open_session(grounded.program, svm._ask(Task.MAP), grounded.parameters, grounded.kept)
            parameters = grounded.parameters
            if session.program is not grounded.program:  # it has the factors of the loss, too
                parameters = replace(parameters, program=session.program)
            sample = sample_of(layout.var_ptr, session.plan.seconds)
            if not len(sample):
                return
            scores = parameters.scores(svm.fitted_.coef, sample if len(sample) < layout.n else None)
            for step in (PART, 1) if len(sample) >= 4 * PART else (1,):  # most models predict all in the first part
                ids, texts, all_there = sample[::step], list[str](), True
                solution = refuse_interrupted(session.solve(Question(scores, ids)))
                if not solution.complete and (deadline.over or without_answer(solution, Task.MAP).any()):
                    return
                variables = members(layout.var_ptr, ids)
                for label, known in labels:
                    all_counts = np.bincount(truth[known], minlength=label.n_states)
                    mine = known[variables]
                    true = np.bincount(truth[variables][mine], minlength=label.n_states)
                    predicted = np.bincount(solution.labels[mine], minlength=label.n_states)
                    wanted = all_counts > 0.5 * RARE * all_counts.sum()  # in the sample shares may be larger
                    if (wanted & (predicted == 0)).any():
                        all_there = False
                        texts += missed_text(label, true, predicted)
                if all_there:
                    return
    except SsvmError:  # who asks for these predictions hears of it
        return
    if texts:
        cure = cure_of(run.risk.spec.form is RiskForm.SMOOTH)
        warn_caller(f"{'; '.join(texts)}\n  {cure}", MissedClassWarning)


def sample_of(var_ptr: I64, seconds: float) -> I64:
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
        return np.zeros(0, dtype=np.int64)
    return np.linspace(0, n - 1, int(share * n)).round().astype(np.int64)


def missed_text(label: Label, true: I64, predicted: I64) -> list[str]:
    """Return what to say of classes that are never predicted: one text, or none where too few labels are known.

    Parameters
    ----------
    label : Label
    true, predicted : ndarray of int64, shape (n_states,)
        How often each class is right, and predicted.
    """
    n = int(true.sum())
    missed = np.flatnonzero((predicted == 0) & (true >= max(FEW, RARE * n)))
    if n < LEAST or not len(missed):
        return []
    names = [repr(label.classes[state] if label.classes else state) for state in missed.tolist()]
    each = zip(names, true[missed] / n, strict=True)
    shares = ", ".join(f"{name} ({share:.0%} of the labels)" for name, share in each)
    only = np.flatnonzero(predicted)
    what = f"{shares} {'is' if len(names) == 1 else 'are'} never predicted"
    if len(only) == 1:
        one = label.classes[only[0]] if label.classes else int(only[0])
        what = f"only {one!r} is predicted, never {shares}"
    return [f"label '{label.name}', on the training data: {what}"]


def cure_of(risk_is_smooth: bool) -> str:
    """Return what to set where classes are never predicted."""
    other = "weigh the examples (sample_weight), take a larger C, or features of one scale (Standardized)"
    if risk_is_smooth:
        return other
    why = "a margin may do so where classes are rare or noisy"
    return f"set risk='log' ({why}), or risk='slack' with Hamming(y, weights=[...]); or {other}"
