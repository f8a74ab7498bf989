"""``FitReport``: what a fit achieved, how far from optimal it can be, and what it cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import OptionError
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.learning.driver.progress import Progress, relative
from ssvm_dsl.learning.objective import RegularizedRisk, lam_of
from ssvm_dsl.notebook_tables import text_rows
from ssvm_dsl.plugin_api.training import TrainingEvent
from ssvm_dsl.units import seconds_text

if TYPE_CHECKING:
    from rich.table import Table

#: Why training ended, by name.
REASONS = {
    "tolerance": "the relative gap reached the tolerance",
    "estimate": "the gap to the labellings found reached the tolerance",
    "bounds": "the rest of the gap is that of the backend's bounds; more passes will hardly help",
    "passes": "the limit of passes was reached",
    "seconds": "the time limit was reached",
    "interrupt": "interrupted; the best model so far is kept",
    "callback": "a callback asked to stop",
    "validation": "the score on the validation examples no longer improved",
    "ended": "the trainer found nothing left to improve",
    "stream": "one pass of partial_fit",
    "rounding": "the rest of the gap is rounding; more passes will not help",
    "withdrawn": "the trainer took the tolerance for reached; its claims were false",
}


#: What bounds of the oracle may add to the gap, relative to the objective, and not be worth telling.
NEGLIGIBLE = 1e-6

#: Share of weights that are not 0 below which reports count them.
SPARSE = 0.5


@dataclass(frozen=True, eq=False)
class Certificate:
    """What is left of weights and of a plane below the mean risk to bound the optimum for every C.

    The plane ``1/n sum_i weight_i risk_i(w)^power >= b - v . w`` knows nothing of lam, whatever it was made of: planes
    of labellings, tangents of smooth risks, or of powers of either.  Lower bounds of weights are at 0, so that its dual
    value is

        D = b - 1/lam sum_j v_j^2 / (2 scale_j)       over the j with v_j > 0 or without a lower bound,

    and for another lam'

        D' = b - (b - D) lam / lam' .

    Parameters
    ----------
    lam : float
        The regularisation strength they are of.  With an L1 penalty the bound is of this strength alone.
    n : int
        Number of examples.
    regularizer : float
        ``1/2 sum_j scale_j w_j^2``.
    risk : float
        Certified upper bound of ``1/n sum_i weight_i risk_i(w)^power``; ``nan`` without one.
    dual, offset : float
        D and b; b is ``nan`` without a plane.
    """

    lam: float
    n: int
    regularizer: float
    risk: float
    dual: float
    offset: float

    @classmethod
    def of(cls, progress: Progress, objective: RegularizedRisk) -> Certificate:
        """Return the certificate of a finished fit."""
        size = objective.regularizer(progress.w)
        risk = progress.primal + progress.rounding - size
        offset = np.nan if objective.l1 else progress.offset
        relative_size = size / objective.lam if objective.lam else np.nan
        if objective.hard:  # its plane may weigh more than any finite C allows
            return cls(0.0, objective.n, relative_size, risk, progress.dual, np.nan)
        return cls(objective.lam, objective.n, relative_size, risk, progress.dual, offset)

    def relative_gap(self, C: float) -> float:
        """Return the relative gap of the weights for another C."""
        lam = lam_of(C, None, self.n)
        primal = lam * self.regularizer + self.risk
        same = lam == self.lam and bool(np.isfinite(self.dual))
        dual = self.dual if same else self.offset - (self.offset - self.dual) * self.lam / lam
        return relative(primal - dual, primal)


@dataclass(frozen=True, eq=False)
class FitReport:
    """The certificate of a fit.  Objective values are in the convention the user chose (C or lam).

    Parameters
    ----------
    primal : float
        Objective at the returned weights, where the oracle is exact; a certified upper bound of it where the oracle
        gives bounds; ``nan`` with a heuristic.
    dual : float
        Lower bound on the optimum, computed from the trainer's plane, without what rounding may have added to it;
        ``-inf`` without one.
    gap, relative_gap : float
        ``primal - dual`` with what rounding may add to ``primal``, and that over ``|primal|``; ``nan`` when the oracle
        gives no bounds, infinite without a lower bound.
    certified : bool
        Whether the gap is certified: both bounds are known, and nothing they rest on turned out false.
    converged : bool
        Whether the relative gap reached the tolerance.
    reason : str
        Why training ended: a key of ``REASONS``.
    n_passes : float
        Passes over the data with the oracle, those of certificates included.
    n_oracle_calls : int
    seconds : float
        Time of the whole call of ``fit``, from validating the data to this report; loading not counted.
    oracle_seconds : float
        The part of it in oracle calls while training (a compiled oracle's include the updates).
    plan : Plan
        The backend and how it was chosen.
    trainer : str
    trainer_reason : str
        Why ``trainer="auto"`` took it; empty where it was named.
    options : mapping
        The trainer's options.
    convention : str
        The objective as a formula, e.g. ``"1/2 |w|^2 + C sum_i risk_i, C = 1"``.
    n_examples, n_weights : int
    n_nonzero : int
        Weights that are not 0; -1 where they were not counted.
    tightness : float
        Share of the oracle's answers at the returned weights that are proved best (for the risk ``relaxed``: that a
        labelling attains, so that nothing is lost by relaxing); ``nan`` with a heuristic, and for smooth risks.
    eta : float
        How good the oracle was at the returned weights: the risks with the labellings that it found, added up, are at
        least eta times the true ones, 0 <= eta <= 1; 1 when it is exact, ``nan`` with a heuristic.  Such answers are
        those of an "eta-max": the subgradient made of them is a (1 - eta)-subgradient of the mean risk (Ratliff,
        Bagnell and Zinkevich 2007, definition 6.1 and theorem 6.2).
    validation_score : float
        Best score on the examples of ``validation``, that of the returned weights; ``nan`` without them.
    loading_seconds : float
        Wall time in which kernels were compiled or read from the cache, and libraries imported.
    preparing_seconds, evaluation_seconds : float
        The parts of ``seconds`` before and between training runs (validation, features, grounding, plans; completing
        latent variables), and of the last look at the weights that are returned.
    earlier_seconds : float
        The part of ``seconds`` spent in the interrupted runs that this one continues.
    n_late : int
        Examples whose answers at the returned weights time cut short, or came before: they are in ``primal`` by an
        upper bound of their risks.
    estimate : float
        Objective at the returned weights with the labellings that the oracle found: ``primal`` when it is exact, else
        at most the objective.
    rounding : float
        What rounding may add to ``primal``, or take from it.
    temperature, smoothing : float
        For trainers on messages with soft maxima: their temperature T, and by how much they raise the objective at
        most, T times the logarithms of the numbers of states of all variables and factors (mean over the examples).
        At any weights the objective with plain maxima is between this one and ``smoothing`` less, so that its optimum
        is between ``dual - smoothing`` and ``primal``.  0 for plain maxima.
    withdrawn : str
        The reason why there is no certificate although the oracle gives bounds.
    unread : str
        What of the data time did not suffice to read, where they are in parts: the report is of the others.
    marginals : str
        For trainers that work on marginals: whose they are, and whether their dual is exact or that of a relaxation.
    chosen : mapping of str to str
        What the estimator chose for itself (of ready models: the risk, C ...), and why.
    latent_objectives : tuple of float
        For latent variables: the objective after each fit and each completion in turn, which never rises.  It is not
        convex; all that is certified is of the last fit, whose latent states are fixed.
    history : tuple of TrainingEvent
        One event for each outer iteration.
    """

    primal: float
    dual: float
    gap: float
    relative_gap: float
    certified: bool
    converged: bool
    reason: str
    n_passes: float
    n_oracle_calls: int
    seconds: float
    oracle_seconds: float
    plan: Plan
    trainer: str
    options: Mapping[str, Any]
    convention: str
    n_examples: int
    n_weights: int
    n_nonzero: int = -1
    tightness: float = np.nan
    eta: float = np.nan
    validation_score: float = np.nan
    loading_seconds: float = 0.0
    preparing_seconds: float = 0.0
    evaluation_seconds: float = 0.0
    earlier_seconds: float = 0.0
    n_late: int = 0
    estimate: float = np.nan
    rounding: float = 0.0
    temperature: float = 0.0
    smoothing: float = 0.0
    withdrawn: str = ""
    marginals: str = ""
    trainer_reason: str = ""
    unread: str = ""
    chosen: Mapping[str, str] = field(default_factory=dict)
    latent_objectives: tuple[float, ...] = ()
    history: tuple[TrainingEvent, ...] = field(default=(), repr=False)

    def summary(self) -> dict[str, Any]:
        """Return everything but the history as plain data; non-finite numbers become ``None``."""
        other = ("plan", "history", "options", "chosen", "latent_objectives")
        names = [name for name in self.__dataclass_fields__ if name not in other]
        out: dict[str, Any] = {name: _plain(getattr(self, name)) for name in names}
        out["latent_objectives"] = [_plain(value) for value in self.latent_objectives]
        out["options"] = {key: _plain(value) for key, value in self.options.items()}
        out["chosen"] = dict(self.chosen)
        out["plan"] = self.plan.summary()
        return out

    @classmethod
    def of_summary(cls, stored: Mapping[str, Any]) -> FitReport:
        """Return the report of a stored summary, without history."""
        absent = {"dual": -np.inf, "gap": np.inf if stored["primal"] is not None else np.nan}
        absent["relative_gap"] = absent["gap"]
        values: dict[str, Any] = {k: absent.get(k, np.nan) if v is None else v for k, v in stored.items()}
        values |= {"plan": Plan.of_summary(stored["plan"]), "options": dict(stored["options"])}
        values["chosen"] = {str(key): str(text) for key, text in dict(stored.get("chosen", {})).items()}
        values["latent_objectives"] = tuple(map(float, stored["latent_objectives"]))
        return cls(**values)

    @property
    def inference_gap(self) -> float:
        """The part of the gap that is not the trainer's: how far bounds of the oracle are above its answers."""
        return min(max(self.primal - self.estimate, 0.0), max(self.gap, 0.0)) if np.isfinite(self.dual) else np.nan

    @property
    def validation_scores(self) -> dict[int, float]:
        """The scores on held-out examples, by number of the event in ``history``."""
        return scores_of(self.history)

    def history_dicts(self) -> list[dict[str, Any]]:
        """Return the history as plain data."""
        return [{key: _plain(value) for key, value in asdict(event).items()} for event in self.history]

    def link(self, svm: Any) -> None:
        """Remember the estimator of the fit, for :meth:`to_html`; copies and pickles of the report do not."""
        object.__setattr__(self, "_svm", ref(svm))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_svm"}

    def to_html(self, path: str | Path, X: Any = None, Y: Any = None) -> None:
        """Write a page about the fit and its model, as :meth:`StructuredSVM.to_html` does.

        Raises
        ------
        OptionError
            The estimator is gone: its weights are no part of the report.
        """
        svm = vars(self).get("_svm", lambda: None)()
        if svm is None:
            raise OptionError("to_html: the estimator of this report is gone; call svm.to_html(path) instead")
        svm.to_html(path, X, Y)

    def rows(self) -> list[tuple[str, str]]:
        """Return (name, text) of the rows to print."""
        return [
            ("objective", self.convention),
            ("trainer", self._trainer()),
            *([("marginals", self.marginals)] if self.marginals else []),
            *self.chosen.items(),
            ("backend", self.plan.reason),
            ("problem", f"{self.n_examples} examples, {self.n_weights} weights{self._sparsity()}"),
            *([("data", self.unread)] if self.unread else []),
            self._objective(),
            ("dual bound", f"{self.dual:.6g}"),
            *([("soft maxima", self._soft())] if self.temperature else []),
            ("gap", f"{self.gap:.3g}, relative {self.relative_gap:.2e} ({self._worth()})"),
            ("ended", f"{REASONS[self.reason]}{'' if self.converged else f' ({self._why()})'}"),
            *([] if self.tightness == 1.0 or (np.isnan(self.tightness) and self.bounded) else [self._inference()]),
            *([] if np.isnan(self.validation_score) else [("validation", f"best score {self.validation_score:.6g}")]),
            *([("latent", self._latent())] if self.latent_objectives else []),
            ("work", f"{self.n_passes:.4g} passes, {self.n_oracle_calls} oracle calls"),
            ("time", self._time()),
        ]

    def _trainer(self) -> str:
        """Return the row of the trainer: why it was taken, unless it was named, and its options."""
        chosen = f", by auto: {self.trainer_reason}" if self.trainer_reason else ""
        return f"{self.trainer}{chosen} ({', '.join(f'{k}={v!r}' for k, v in self.options.items())})"

    def _soft(self) -> str:
        """Return what the objective with soft maxima says of that with plain ones."""
        low = f"{self.dual - self.smoothing:.6g}"
        text = f"temperature {self.temperature:g}: the objective with plain maxima is at most"
        return f"{text} {self.smoothing:.3g} lower, its optimum between {low} and {self.primal:.6g}"

    def _sparsity(self) -> str:
        """Return how many weights are not 0, where most are."""
        few = 0 <= self.n_nonzero < SPARSE * self.n_weights
        return f", {self.n_nonzero} of them not 0" if few else ""

    @property
    def trainer_seconds(self) -> float:
        """The part of ``seconds`` in which the trainer itself worked."""
        parts = self.preparing_seconds + self.oracle_seconds + self.evaluation_seconds + self.earlier_seconds
        return max(self.seconds - parts, 0.0)

    @property
    def wall_seconds(self) -> float:
        """Wall time of the call of ``fit`` (with that of the runs it continues)."""
        return self.seconds + self.loading_seconds

    def _time(self) -> str:
        """Return the row of times: the wall time of the call and all of its parts."""
        parts = [
            ("preparing data", self.preparing_seconds),
            ("loading code", self.loading_seconds),
            ("oracle", self.oracle_seconds),
            ("trainer", self.trainer_seconds),
            ("last evaluation", self.evaluation_seconds),
        ]
        if self.earlier_seconds:
            parts.append(("earlier runs", self.earlier_seconds))
        text = ", ".join(f"{name} {seconds_text(seconds)}" for name, seconds in parts)
        return f"{seconds_text(self.wall_seconds)}: {text}"

    def _latent(self) -> str:
        """Return the objectives of the rounds of latent variables as text."""
        first, last, n = self.latent_objectives[0], self.latent_objectives[-1], (len(self.latent_objectives) + 1) // 2
        text = f"{n} round{'s' if n > 1 else ''}, objective {first:.6g} to {last:.6g}"
        return f"{text}; the gap is that of the last fit, with latent states fixed"

    @property
    def bounded(self) -> bool:
        """Whether the oracle was exact or gave bounds: whether ``primal`` is known."""
        return bool(np.isfinite(self.primal))

    def _objective(self) -> tuple[str, str]:
        """Return the row of the objective: its value, its upper bound, or the estimate of a heuristic."""
        if not self.bounded:
            return "estimate", f"{self.estimate:.6g} (with the labellings found; the objective may be larger)"
        if self.n_late:
            late = f"time was up before {self.n_late} of {self.n_examples} answers were complete"
            return "primal", f"{self.primal:.6g} (upper bound: {late}; {self.estimate:.6g} with the labellings found)"
        if self.primal - self.estimate > NEGLIGIBLE * max(abs(self.primal), 1.0):
            return "primal", f"{self.primal:.6g} (upper bound; {self.estimate:.6g} with the labellings found)"
        return "primal", f"{self.primal:.6g}"

    def _worth(self) -> str:
        """Return a text on the meaning of the gap."""
        if self.certified:
            return "certified"
        if self.withdrawn:
            return f"not certified: {self.withdrawn}"
        if not self.bounded:
            return "not certified: the backend gave no bounds"
        if self.reason == "stream":
            return "not certified: one pass of a stream gives no lower bound"
        return "not certified: the trainer gives no lower bound here"

    def _why(self) -> str:
        """Return what keeps the gap open."""
        if self.reason == "estimate":
            return "better labellings may exist"
        if self.n_late:
            return "not converged"
        if self.inference_gap > 0.5 * self.gap:
            return "not converged: inference is loose, more passes will not help"
        return "not converged"

    def _inference(self) -> tuple[str, str]:
        """Return the row on the accuracy of inexact answers."""
        if not self.bounded:
            return "inference", "a heuristic: how far its answers are from the best ones is not known"
        share = f"{self.tightness:.1%} of the answers are proved best labellings"
        if self.n_late:
            return "inference", f"{share}; time cut {self.n_late} of them short"
        lost = self.inference_gap
        if not lost > NEGLIGIBLE * max(abs(self.primal), 1.0):  # an exact relaxation, or no lower bound
            return "inference", share
        return "inference", f"{share}; bounds and answers are {lost:.3g} of the gap apart, eta at least {self.eta:.4g}"

    def __str__(self) -> str:
        return text_rows(self.rows())

    def __rich__(self) -> Table:
        from ssvm_dsl.report.tables import two_columns

        return two_columns("fit", self.rows())

    def _repr_html_(self) -> str:
        from ssvm_dsl.notebook_tables import html_table

        return html_table("fit", self.rows())


@dataclass(eq=False)
class Times:
    """Where the seconds of a call went that were spent in training runs.

    Parameters
    ----------
    runs, oracle, evaluation, earlier : float
        All of them; those in oracle calls while training; those of the last looks at weights; those of interrupted runs
        that were gone on from, which were spent before the call.
    """

    runs: float = 0.0
    oracle: float = 0.0
    evaluation: float = 0.0
    earlier: float = 0.0

    def add(self, seconds: float, progress: Progress) -> None:
        """Add a training run that took so many seconds."""
        self.runs += seconds
        self.oracle += progress.oracle_seconds
        self.evaluation += progress.evaluation_seconds
        self.earlier += progress.earlier_seconds

    def with_times(self, report: FitReport, deadline: Deadline) -> FitReport:
        """Return the report of a call that began with a deadline and ends now, with its times."""
        spent = deadline.spent
        return replace(
            report, seconds=self.earlier + spent, loading_seconds=deadline.loaded,
            preparing_seconds=max(spent - self.runs, 0.0), oracle_seconds=self.oracle,
            evaluation_seconds=self.evaluation, earlier_seconds=self.earlier,
        )  # fmt: skip


def scores_of(history: Iterable[TrainingEvent]) -> dict[int, float]:
    """Return the scores on held-out examples of a fit, by number of the event."""
    scores = dict[int, float]()
    for k, event in enumerate(history):
        if "validation_score" in event.extra:
            scores[k] = event.extra["validation_score"]
    return scores


def eta_of(estimate: float, upper: float, regularizer: float) -> float:
    """Return the least eta of the oracle's answers: risks with the labellings found over certified bounds of them.

    Parameters
    ----------
    estimate, upper : float
        The objective with the labellings found, and its upper bound (``nan`` without one).
    regularizer : float
        Its other part.
    """
    risk, bound = estimate - regularizer, upper - regularizer
    return 1.0 if risk >= bound or bound <= 0.0 else float(max(risk, 0.0) / bound)


def _plain(value: Any) -> Any:
    """Return a value that JSON can hold."""
    if isinstance(value, float | np.floating):
        return float(value) if np.isfinite(value) else None
    if isinstance(value, np.integer):
        return int(value)
    return value if isinstance(value, str | int | bool | type(None)) else str(value)
