"""``ChoosingSVM``: a structured SVM that chooses its risk and C by the data, where these are left open.

**Risk.**  Where sums over all labellings are exact and cost little more than the best labelling, it is the log-loss:
it is consistent whatever the classes are, and its probabilities are calibrated.  A margin to the best wrong class is
not consistent where no class has more than half of the probability (Liu 2007, "Fisher consistency of multicategory
support vector machines"), so that it may predict the most frequent class only.  Elsewhere it is the margin.

**Guarantee.**  Where best labellings take a search that lasts, and no log-loss is minimised, those of a heuristic are
taken.  Bounds do not help there: those of relaxations stay apart from the best labelling (on a graph of 2 000 nodes and
four classes fits ended at gaps of .1 to .9 after 5 to 8 s; cuts took .5 s and predicted as well).

**C.**  Three folds of held-out examples choose it, where that is cheap; how long it would take is computed from sizes
alone, so that the choice does not depend on the machine.  From a small C to larger ones, weights are learnt on two of
the folds, starting from those of the C before, and judged on the third.  The path ends where held-out examples say that
it only gets worse.  Of the C that are as good as the best one, within half a standard error of the difference on the
same examples, the smallest is taken.  (A whole one is usual, Breiman et al. 1984, chapter 3; here it cost orders of
noisy lists 1 % of their pairs.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar
from zlib import crc32

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline, within
from ssvm_dsl.errors import NoBackendError, OptionError
from ssvm_dsl.inference.planning.planner import need_of, plan_program
from ssvm_dsl.inference.planning.plans import AUTO
from ssvm_dsl.ir.need import Guarantee, Task
from ssvm_dsl.ir.question import Question
from ssvm_dsl.learning.driver.cost_estimate import feature_seconds
from ssvm_dsl.learning.driver.fit import seconds_to_conclude, train
from ssvm_dsl.learning.estimators.fitted import FitRequest
from ssvm_dsl.learning.estimators.fitting.training import planned_run
from ssvm_dsl.learning.estimators.parameters import PARAMETERS, check_parameters, one_of, seed_of
from ssvm_dsl.learning.estimators.svm import StructuredSVM
from ssvm_dsl.learning.objective import DEFAULT_C, check_sample_weight, l1_of, lam_of, regularized_risk
from ssvm_dsl.learning.risks.kinds import Problem, Risk, find_risk
from ssvm_dsl.plugin_api.protocols import Executor
from ssvm_dsl.plugin_api.specs import RiskForm, TrainerSpec
from ssvm_dsl.plugin_api.training import StopRule
from ssvm_dsl.registry import registry
from ssvm_dsl.units import seconds_text

#: Number of folds, and the values of C.
N_FOLDS = 3
VALUES = tuple(4.0**k for k in range(-5, 6))

#: Relative gap, and passes over the data, at which fits on folds end.
FOLD_TOL, FOLD_PASSES = 0.03, 30.0

#: Standard errors below which a C is as good as the best one, and beyond which it is worse, so that the path ends.
AS_GOOD, WORSE = 0.5, 2.0

#: The path also ends after so many C in a row that are not better than the best one,
PATIENCE = 2

#: and with the first C that is begun after so many passes over the data.
PATH_PASSES = 300.0

#: Learns weights at a C on the examples whose weight is not 0, from a start; returns them, the losses of all examples
#: with them, and the passes it took.
Learn = Callable[[float, F64, F64 | None], tuple[F64, F64, float]]


@dataclass(frozen=True, eq=False)
class ChosenStrength:
    """What held-out examples say of C.

    Parameters
    ----------
    C : float
        The chosen one.
    start : ndarray of float64, shape (dim,)
        The mean of the weights of the folds at it.
    values : tuple of float
        Those tried.
    means : ndarray of float64
        Mean held-out losses.
    """

    C: float
    start: F64
    values: tuple[float, ...]
    means: F64

    def __str__(self) -> str:
        first, last = self.values[0], self.values[-1]
        best = self.means[self.values.index(self.C)]
        return f"{self.C:g}, by {N_FOLDS} folds (held-out loss {best:.3g}; {first:.2g} to {last:.2g} tried)"


def folds_of(kinds: Sequence[int] | I64) -> I64:
    """Return the fold of each example; those of one kind are spread over all folds."""
    kinds = np.asarray(kinds)
    order = np.random.default_rng(0).permutation(len(kinds))
    order = order[np.argsort(kinds[order], kind="stable")]
    folds = np.empty(len(kinds), dtype=np.int64)
    folds[order] = np.arange(len(kinds)) % N_FOLDS
    return folds


def chosen_strength(learn: Learn, folds: I64, weight: F64) -> ChosenStrength:
    """Return the C that held-out examples choose.

    Parameters
    ----------
    learn : callable
    folds : ndarray of int64, shape (n,)
    weight : ndarray of float64, shape (n,)
        Of the examples; in each fold and outside of it some are positive.
    """
    starts: list[F64 | None] = [None] * N_FOLDS
    losses, starts_at, best, spent = list[F64](), list[F64](), 0, 0.0
    for C in VALUES:
        if spent > PATH_PASSES:
            break
        lost_of = np.empty(len(folds))
        for fold in range(N_FOLDS):
            outside = folds == fold
            w, lost, passes = learn(C, np.where(outside, 0.0, weight), starts[fold])
            starts[fold], lost_of[outside], spent = w, lost[outside], spent + passes
        losses.append(lost_of)
        starts_at.append(np.mean([one for one in starts if one is not None], axis=0))
        if np.average(lost_of, weights=weight) < np.average(losses[best], weights=weight):
            best = len(losses) - 1
        elif len(losses) > best + PATIENCE or _worse(lost_of, losses[best], weight, WORSE):
            break
    # the best one is the first that is not worse than itself
    chosen = next(k for k, one in enumerate(losses) if not _worse(one, losses[best], weight, AS_GOOD))
    means = np.array([np.average(one, weights=weight) for one in losses])
    return ChosenStrength(VALUES[chosen], starts_at[chosen], VALUES[: len(losses)], means)


def _worse(losses: F64, best: F64, weight: F64, errors: float) -> bool:
    """Return whether losses are larger than the best ones by more than some standard errors of the difference."""
    share, apart = weight / weight.sum(), losses - best
    mean = float(share @ apart)
    return mean > errors * float(np.sqrt((share**2) @ (apart - mean) ** 2))


#: Parameters with other values than those of a structured SVM.
GUARANTEES = {
    "guarantee": replace(PARAMETERS["guarantee"], rule=one_of(*(one.value for one in Guarantee), AUTO))
}  # fmt: skip

#: Chooses C by held-out examples, however long that takes.
CV = "cv"

#: The risks to choose from.
LOG, MARGIN, SOFTMAX_MARGIN = "log", "margin", "softmax-margin"

#: Sums over labellings may take so many times as long as best labellings.
SUMS = 20.0

#: Seconds that the choice of C may take, by estimate, and the fewest examples and labels it is made on.
SECONDS, EXAMPLES, LABELS = 10.0, 3, 60

#: Variables of an example whose margin risk is weighed by a C of 1.
VARIABLES = 100.0

#: Seconds that so many passes of a fit may take before a heuristic is taken, and how many times as fast it must be.
FIT_SECONDS, FIT_PASSES, FASTER = 3.0, 100, 4.0

#: Multiplications of dense and of sparse features a second, and seconds of a pass that do not depend on sizes.
DENSE, SPARSE, OVERHEAD = 2e9, 1.2e8, 5e-4

#: Seconds of a pass of a trainer of smooth risks for each weight: some sixty times it reads and writes all of them.
WEIGHT = 5e-8


class ChoosingSVM(StructuredSVM):
    """Parameters are those of :class:`~ssvm_dsl.StructuredSVM`.

    ``risk``, ``guarantee`` and ``C`` may be ``"auto"``, ``C`` also ``"cv"``.
    """

    _chosen: dict[str, str]
    _parameters: ClassVar = StructuredSVM._parameters | GUARANTEES
    _all_labels = True  # whether all labels are there when the model is declared

    @property
    def C_(self) -> float:
        """The weight of the risks in the last fit."""
        certificate = self._of_fit("C_").certificate
        assert certificate is not None
        return float(1.0 / (certificate.lam * certificate.n))

    @property
    def risk_(self) -> str:
        """The risk that the last fit minimised."""
        self._check_fitted()
        return self.report_.chosen["risk"].partition(":")[0] if self.risk == AUTO else self.risk

    def _check(self) -> None:
        if isinstance(self.C, str) and self.C not in (AUTO, CV):
            raise OptionError(f"C must be a positive number, 'auto' or 'cv', got {self.C!r}")
        if isinstance(self.C, str) and self.C == CV and self.lam is not None:
            raise OptionError("C='cv' chooses what lam says; leave one out")
        check_parameters(self, DEFAULT_C if isinstance(self.C, str) or self.C == DEFAULT_C else self.C)

    def _guarantee(self) -> Guarantee:
        if self.guarantee != AUTO:
            return super()._guarantee()
        report = self._last_report  # predictions have that of the fit
        chosen = "" if report is None else report.chosen.get("guarantee", "")
        return Guarantee(chosen.partition(":")[0] or Guarantee.EXACT)

    def _risk(self) -> Risk:
        return find_risk(LOG if isinstance(self.risk, str) and self.risk == AUTO else self.risk)

    @contextmanager
    def _choosing(self) -> Iterator[None]:
        """Let a fit choose parameters; afterwards they are as they were given."""
        names = ("C", "risk", "guarantee", "_all_labels")
        given, self._chosen = {name: getattr(self, name) for name in names}, {}
        try:
            yield
        finally:
            vars(self).update(given)

    def _choose(self, grounded: Grounded, request: FitRequest, executor: Executor, start: F64 | None) -> F64 | None:
        if self.risk == AUTO:
            self.risk, self._chosen["risk"] = self._risk_for(grounded)
        if self.guarantee == AUTO:
            self._choose_guarantee(grounded)
        if not isinstance(self.C, str) or self.lam is not None:
            return start
        asked, self.C = self.C, self._usual_strength(grounded)
        seconds = self._path_seconds(grounded)
        few = grounded.n_examples < EXAMPLES or grounded.program.n_variables < LABELS
        if few or (asked == AUTO and seconds > SECONDS) or grounded.declaration.latents or start is not None:
            self._chosen["C"] = f"{self.C:.3g}, the usual one; C='cv' chooses it by held-out examples"
            return start
        chosen = self._by_held_out(grounded, request, executor)
        self.C, self._chosen["C"] = chosen.C, str(chosen)
        return chosen.start

    def _choose_alone(self, grounded: Grounded) -> None:
        stream = self.fitted_.stream if self._is_fitted else None
        if self.risk == AUTO and stream is not None:  # as in the first batch
            self.risk = str(stream.fingerprint["risk"])
            self._chosen["risk"] = f"{self.risk}: as in the first batch"
        if self.risk == AUTO:
            self.risk, self._chosen["risk"] = self._risk_for(grounded)
        if self.guarantee == AUTO:
            self._choose_guarantee(grounded)
        if isinstance(self.C, str):
            self.C = self._usual_strength(grounded)
            self._chosen["C"] = f"{self.C:.3g}, the usual one where not all examples are at hand"

    # -- the risk --------------------------------------------------------------------------------------

    def _risk_for(self, grounded: Grounded) -> tuple[str, str]:
        """Return the name of a risk, and the reason for it."""
        if grounded.declaration.latents:
            return MARGIN, f"{MARGIN}: latent variables are completed by their best states"
        if self.trainer != AUTO and not registry().find(TrainerSpec, self.trainer).needs.covers(
            find_risk(LOG).spec, self.power
        ):
            return MARGIN, f"{MARGIN}: trainer '{self.trainer}' does not minimise log-loss"
        if self.guarantee not in (Guarantee.EXACT.value, AUTO):
            return MARGIN, f"{MARGIN}: guarantee='{self.guarantee}' asks for no exact sums over labellings"
        try:
            sums = self._plan_of(grounded, Task.MARGINALS)
        except NoBackendError:
            return MARGIN, f"{MARGIN}: no backend sums over all labellings of this model exactly"
        try:
            most = SUMS * self._plan_of(grounded, Task.MAP).seconds
        except NoBackendError:
            most = np.inf
        if sums.seconds > most:
            return MARGIN, f"{MARGIN}: sums over all labellings would take {SUMS:g} times as long as the best ones"
        exact = f"sums over all labellings are exact ({sums.backend})"
        if self._has_prices(grounded):
            return SOFTMAX_MARGIN, f"{SOFTMAX_MARGIN}: {exact}, and classes have weights"
        return LOG, f"{LOG}: {exact}"

    def _has_prices(self, grounded: Grounded) -> bool:
        """Whether the declared loss has weights of classes that the log-loss would not look at."""
        return False

    def _choose_guarantee(self, grounded: Grounded) -> None:
        """Choose the guarantee: exact, unless a fit would take long and a heuristic is much faster."""
        self.guarantee = Guarantee.EXACT.value
        if self.backend != AUTO or self._risk().spec.form is RiskForm.SMOOTH:
            return
        try:
            best = self._plan_of(grounded, Task.MAP)
            if not best.seconds * FIT_PASSES > FIT_SECONDS:
                return
            other = self._plan_of(grounded, Task.MAP, Guarantee.HEURISTIC)
        except NoBackendError:
            return
        if other.seconds * FASTER < best.seconds:
            self.guarantee = Guarantee.HEURISTIC.value
            slow = f"{best.backend} takes {seconds_text(best.seconds)} a pass"
            self._chosen["guarantee"] = f"{self.guarantee}: {slow}, {other.backend} {seconds_text(other.seconds)}"

    def _plan_of(self, grounded: Grounded, task: Task, guarantee: Guarantee = Guarantee.EXACT) -> Any:
        """Return the plan of a task for all examples."""
        need = need_of(grounded.parameters, frozenset({task}), guarantee)
        return plan_program(grounded.program, need, self.backend, self.backend_options)

    # -- the strength of regularisation ----------------------------------------------------------------

    def _usual_strength(self, grounded: Grounded) -> float:
        """Return a C that is not chosen by held-out examples: 1, or less for margins of examples of many variables.

        The loss of an example grows with its variables; C then weighs it as that of 100 of them.
        """
        size = len(grounded.program.card) / max(grounded.n_examples, 1)
        return 1.0 if self._risk().name != MARGIN else min(1.0, VARIABLES / max(size, 1.0))

    def _path_seconds(self, grounded: Grounded) -> float:
        """Return about how long fits along a path take, by sizes."""
        smooth, parameters = self._risk().spec.form is RiskForm.SMOOTH, grounded.parameters
        oracle = self._plan_of(grounded, Task.MARGINALS if smooth else Task.MAP).seconds
        weights = WEIGHT * parameters.dim if smooth else 0.0
        features = feature_seconds(parameters, DENSE, SPARSE)
        return float(PATH_PASSES * (OVERHEAD + oracle + weights + features))

    def _by_held_out(self, grounded: Grounded, request: FitRequest, executor: Executor) -> ChosenStrength:
        """Return the C that held-out examples choose."""
        target, n = request.target_of(grounded), grounded.n_examples
        chosen = self._trainer(grounded)
        spec, options = chosen.spec, chosen.options
        risk = target.risk
        session = planned_run(self, grounded, request, chosen, executor).problem.session
        parameters = risk.asked_about(grounded.parameters, target.loss)
        weight = check_sample_weight(request.sample_weight, n)

        def learn(C: float, some: F64, start: F64 | None) -> tuple[F64, F64, float]:
            given = C, None, n
            objective = regularized_risk(
                grounded.parameters, lam_of(*given), some, self.regularization, self.power, l1_of(*given, self.l1)
            )
            problem = risk.problem(parameters, target.loss, objective, session, executor, spec.needs)
            stop = StopRule(FOLD_TOL, min(FOLD_PASSES, self.max_passes), np.inf)
            trainer = spec.load()(**options, random_state=seed_of(self.random_state))
            progress = train(trainer, problem, stop, spec=spec, start=start, deadline=request.deadline)
            if progress.reason == "interrupt":
                raise KeyboardInterrupt
            with within(Deadline(seconds_to_conclude(request.deadline))):
                return progress.w, _losses(problem, progress.w), progress.n_passes

        return chosen_strength(learn, folds_of(_kinds(target.loss.truth, grounded.program.var_ptr)), weight)


def _kinds(truth: I32, var_ptr: I64) -> list[int]:
    """Return a number for the labels of each example, so that folds depend on what examples are, not on their order."""
    if len(truth) == len(var_ptr) - 1:
        return list(map(int, truth))
    return [crc32(truth[lo:hi].tobytes()) for lo, hi in pairwise(var_ptr.tolist())]


def _losses(problem: Problem, w: F64) -> F64:
    """Return what held-out examples lose at weights: log-losses, or declared losses of the best labellings."""
    if problem.smooth:
        return problem.evaluation(w).value
    solution = problem.ask(Question(problem.scores(w), None))
    return problem.loss.value(problem.program, solution.labels)
