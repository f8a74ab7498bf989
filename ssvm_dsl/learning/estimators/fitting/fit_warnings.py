"""Warnings of fits that did not reach their goal, and of data that training cannot work with, or not well.

*Sizes.*  Steps of most trainers are as long in every direction, so that the largest column decides their length, and
weights of small columns hardly move.  ``lbfgs`` divides by a guess of the curvature, and is not slowed.

*Classes of the training data that a fitted model never predicts*: an answer that looks fine by its accuracy.  A margin
is not consistent where no class has most of the probability, and predicts the most frequent class only where classes
are rare or noisy (Liu 2007, "Fisher consistency of multicategory support vector machines").  So may any risk under too
strong a regularisation, or with features of very different sizes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.callers import warn_caller
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.compiler.features.weight_names import weight_names
from ssvm_dsl.compiler.labels.structures import structure_of
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import DataError, MissedClassWarning, OptionError, SsvmError
from ssvm_dsl.inference.diagnosis.missing_answers import without_answer
from ssvm_dsl.inference.session import open_session, refuse_interrupted
from ssvm_dsl.ir.features import FeatureMap
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.ragged import members, pointers
from ssvm_dsl.lang.features.kernel_features import Kernel
from ssvm_dsl.lang.inputs import Source
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.learning.driver.certificate import FitReport
from ssvm_dsl.learning.driver.progress import Progress
from ssvm_dsl.learning.estimators.structured import StructuredEstimator
from ssvm_dsl.learning.risks.accuracy import Accuracy
from ssvm_dsl.learning.risks.kinds import Problem, Risk, minimisers, risks
from ssvm_dsl.plugin_api.specs import RiskForm, TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.units import seconds_text

#: So many weights are few: a pass with a plane for all examples is worth as much as one with a plane for each.
FEW_WEIGHTS = 1000

#: Features this large are what costs the digits; with smaller ones it is the tolerance that asks for too many.
LARGE = 1e6

#: What to do about large numbers, by whether they are dense.
SCALE = {
    True: "Standardized(x), as the features of the factor, brings an input x to mean 0 and variance 1",
    False: "divide them by their size",
}


def convergence_warning(
    report: FitReport, tol: float, spec: TrainerSpec, risk: Risk, problem: Problem, progress: Progress
) -> str:
    """Return the text of a warning after a fit; empty if there is none."""
    if report.reason == "interrupt":
        text = f"its relative gap is {report.relative_gap:.2g}"
        if not np.isfinite(report.relative_gap):
            text = "its gap is not known" if np.isnan(report.primal) else f"its objective is {report.primal:.6g}"
        return f"interrupted after {seconds_text(report.seconds)}: the best model so far is kept ({text})"
    if report.withdrawn:
        return f"no certificate: {report.withdrawn}{_scale_advice(problem)}"
    if report.reason == "rounding":
        found = f"stopped at relative gap {report.relative_gap:.2g} > tol={tol:g}: the rest of it is rounding"
        advice = _scale_advice(problem)
        return found + (advice or "; double precision cannot resolve a smaller gap, so set a larger tol")
    if progress.from_start:
        text = f"trainer '{spec.name}' met no weights as good as those it started from, which are returned:"
        return f"{text} its steps are too long, or too few; see its options, raise max_passes, or set another trainer"
    if report.reason == "bounds":
        text = f"stopped at relative gap {report.relative_gap:.2g} > tol={tol:g}"
        return text + (_loose_bounds(report, spec, risk, problem) or _bounds_left(report))
    if spec.certifies and report.reason in ("passes", "seconds"):  # else there is no gap to close
        return _limit(report, tol, spec, risk, problem)
    if spec.certifies and report.reason == "ended" and np.isfinite(report.relative_gap) and report.relative_gap > tol:
        return _early_end(report, tol, spec, risk, problem)
    if progress.unsettled:
        return f"{progress.unsettled}: completing latent variables and fitting again may lower the objective further"
    return ""


def uncomputed_warning(missing: int, n: int, warm: bool) -> str:
    """Return the warning for a fit that ran out of time before the features of some examples were computed."""
    weights = "the weights are those of the last fit, whose objective is not known" if warm else "the weights are 0"
    text = f"time was up before the features of {missing} of {n} examples were computed: {weights}"
    return f"{text}; raise max_seconds, or give it fewer examples or features that take less time"


def _limit(report: FitReport, tol: float, spec: TrainerSpec, risk: Risk, problem: Problem) -> str:
    """Return the warning for a fit that a limit ended before the tolerance was reached."""
    limit = f"max_{report.reason}"
    backend = f"backend '{report.plan.title}'"
    if not report.bounded and problem.session.guarantee is Guarantee.HEURISTIC:
        return f"stopped at {limit}; {backend} is a heuristic and gives no bounds, so the gap is not known"
    if report.bounded and report.dual == -np.inf:
        text = f"stopped at {limit}; trainer '{spec.name}' gave no lower bound of the optimum"
        return f"{text}, so how far the weights are from it is not known"
    if not np.isfinite(report.relative_gap):
        done = f"after {report.n_oracle_calls} oracle calls on {report.n_examples} examples"
        return f"stopped at {limit} before the gap was known, {done}; raise {limit}"
    text = f"stopped at relative gap {report.relative_gap:.2g} > tol={tol:g}"
    if report.n_late:
        late = f"time was up before {report.n_late} of {report.n_examples} answers about the weights were complete"
        return f"{text}; {late}, and these count with an upper bound; raise {limit}"
    if loose := _loose_bounds(report, spec, risk, problem):
        return text + loose
    advice = _scale_advice(problem)
    if not advice and problem.dim <= FEW_WEIGHTS and not spec.aggregates and risk.spec.form is not RiskForm.SMOOTH:
        others = minimisers(risk, problem.objective.power, registry(), lambda other: _suits(other, problem))
        advice = f"; with so few weights try trainer={' or '.join(map(repr, others))}" if others else ""
    return f"{text}; raise {limit} or tol{advice}"


def _suits(spec: TrainerSpec, problem: Problem) -> bool:
    """Whether a trainer makes planes of all examples, and minimises the objective as it is regularised."""
    return spec.aggregates and (problem.objective.strongly_convex or not spec.needs.strongly_convex)


def _early_end(report: FitReport, tol: float, spec: TrainerSpec, risk: Risk, problem: Problem) -> str:
    """Return the warning for a trainer that ended before the tolerance was reached."""
    text = f"trainer '{spec.name}' ended at relative gap {report.relative_gap:.2g} > tol={tol:g}"
    loose = _loose_bounds(report, spec, risk, problem)
    return text + (loose or ": it found nothing left to improve; set a larger tol, or another trainer")


def _bounds_left(report: FitReport) -> str:
    """Return the warning where bounds are loose at the newest weights, while others are kept."""
    text = f": backend '{report.plan.title}' finds nothing more to learn from"
    return f"{text}; take a backend with tighter bounds, or an exact one"


def _loose_bounds(report: FitReport, spec: TrainerSpec, risk: Risk, problem: Problem) -> str:
    """Return the warning for a gap that is mostly due to inference, ``""`` for other gaps."""
    if not report.inference_gap > 0.5 * report.gap:
        return ""
    share = f"{report.inference_gap / report.gap:.0%}"
    text = f", {share} of which are bounds of backend '{report.plan.title}' above its answers"
    above = risks().get(risk.spec.upper_bound)
    other = ""
    if above is not None and spec.needs.covers(above.spec, problem.objective.power) and above.takes(problem.loss):
        other = f"risk='{above.name}', whose gap the same bounds close, "
    return f"{text}: more passes will not help; take {other}a backend with tighter bounds, or an exact one"


def _scale_advice(problem: Problem) -> str:
    """Return advice about large features, ``""`` if there are none."""
    most = problem.accuracy.largest()
    if most is None or abs(most.value) < LARGE:
        return ""
    text = f"; {most.source}, example {most.example}, holds {most.value:.3g}"
    return f"{text}: numbers this large cost scores their digits; {SCALE[most.dense]}"


def refuse_excess(accuracy: Accuracy) -> NoReturn:
    """Refuse features, or a regularisation, with which squares and sums overflow.

    Raises
    ------
    DataError
        Features are too large. It names the input, or the factor, and the example.
    OptionError
        Features are of usual size, and C is too large.
    """
    most = accuracy.largest()
    if most is None or abs(most.value) < LARGE:
        found = f"lam is {accuracy.objective.lam:.3g} (1 / (C n) where C is given)"
        raise OptionError(f"{found}, so small that the objective overflows: choose a smaller C, or a larger lam")
    expected, found = "numbers whose products and sums stay finite", f"{most.value:.6g}"
    raise DataError(most.source, example=most.example, expected=expected, found=found, hint=SCALE[most.dense])


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


def warn_of_missed(
    svm: StructuredEstimator, grounded: Grounded, problem: Problem, risk: Risk, deadline: Deadline
) -> None:
    """Warn of classes of the training data that the fitted model never predicts.

    Some examples are predicted, by the session that was open in training where that answers the question.

    Parameters
    ----------
    svm : StructuredEstimator
    grounded : Grounded
        The model laid over the training data.
    problem : Problem
        That of the fit, with its session.
    risk : Risk
        What it minimised.
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
            session = problem.session
            if risk.relaxed or Task.MAP not in session.tasks:
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
        cure = cure_of(risk.spec.form is RiskForm.SMOOTH)
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
