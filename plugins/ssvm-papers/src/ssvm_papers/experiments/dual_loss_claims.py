"""Meshi et al. (2010), section 5: the statements about R and about fewer labels, which are not in Figure 1.

*R*, the passes of message passing in each step of DLPW: "a couple of other values" near 10 had similar overall
performance, a smaller R makes iterations faster and each of them less of an improvement, and without a limit DLPW does
as Pegasos with linear programs does.  On Yeast; DLPW looks at 2 R + 1 sweeps over all joint states in each example.

*Reuters with fewer labels*: with the 10 most frequent labels DLPW is only slightly faster than Pegasos, with 30 over
twice as fast.

Counts are those of :mod:`~ssvm_papers.experiments.dual_losses`: operations, which depend on no machine.  The best
objective is that of our ``bcfw`` at a gap of a thousandth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ssvm_dsl.datasets import load_reuters
from ssvm_dsl.ir import F64
from ssvm_dsl.testing import training_problem
from ssvm_papers.experiments.dual_loss_methods import (
    DLPW,
    METHODS,
    SIZES,
    C,
    Data,
    Effort,
    Method,
    ObjectiveCurve,
    dataset,
    multilabel,
    problem_of,
    run_method,
)
from ssvm_papers.experiments.dual_losses import FILES, PAPER
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps, Table
from ssvm_papers.results.statements import Answers, Between, Statement, factor_two

#: Values of R; the last one stands for no limit.  Those that the paper speaks of as alike.
PASSES, ALIKE = (1, 2, 5, 10, 20, 100), (5, 10, 20)

#: Passes over the data that runs are given, by R; how far above the best objective they are compared.
DATA_PASSES, LEVEL = {1: 60, 2: 50, 5: 40, 10: 30, 20: 20, 100: 12}, 0.01

#: Passes of Pegasos, and seeds of the noisy newest weights of DLPW; those of a full run.
PEGASOS_PASSES, SEEDS, FULL_SEEDS = 10, (0, 1), tuple(range(6))

#: Most frequent labels of Reuters that are kept; level and passes there.
LABELS, LEVEL_REUTERS, REUTERS_PASSES = (5, 10), 0.1, {"DLPW": 60, "Pegasos + LP": 10}


#: Documents of Reuters that are used, and in a full run: an LP for each of them in each pass is most of the time.
N_DOCUMENTS, N_ALL_DOCUMENTS = 1000, SIZES["reuters"]

#: Further values of R on Reuters with the most labels; the methods have 10.
REUTERS_R = (2, 5, 20)


def of_passes(R: int) -> Method:
    """Return DLPW with so many passes of message passing in each step."""
    return Method("dlpw", "msd", {}, {**DLPW, "passes": R}, 2 * R + 1)


@dataclass(frozen=True, eq=False)
class Judged:
    """A set with its best objective.

    Parameters
    ----------
    data : Data
    judge : Problem
        Evaluates equation 7.
    best, gap : float
        The objective of our trainer, and its certified relative gap.
    """

    data: Data
    judge: Any
    best: float
    gap: float

    @classmethod
    def from_data(cls, data: Data, passes: float) -> Judged:
        """Return a set; its best objective comes from at most ``passes`` passes of ``bcfw``."""
        judge, method = training_problem(data.model, *data.train, risk="relaxed", lam=1.0 / C), METHODS["ours: bcfw"]
        trace = run_method(method, *problem_of(data.model, *data.train, method), passes)
        best = ObjectiveCurve(trace, judge, 2).best
        return cls(data, judge, best, (best - trace.bound) / best)

    def curve(self, method: Method, passes: float, seed: int, level: float) -> ObjectiveCurve:
        """Return the curve of a method, with more points where it comes within a level of the best objective."""
        run = run_method(method, *problem_of(self.data.model, *self.data.train, method), passes, seed)
        curve = ObjectiveCurve(run, self.judge, 4)
        curve.refine((1.0 + level) * self.best)
        return curve

    def reached(self, curves: Sequence[ObjectiveCurve], level: float) -> list[Effort]:
        """Return the effort of each curve to a level; none where one of them did not reach it."""
        efforts = [curve.reached((1.0 + level) * self.best) for curve in curves]
        there = [one for one in efforts if one is not None]
        return there if len(there) == len(efforts) else []


def mean(efforts: Sequence[Effort], what: str) -> float:
    """Return the mean of some efforts; ``nan`` without any."""
    return float(np.mean([getattr(one, what) for one in efforts])) if efforts else np.nan


# -- R ----------------------------------------------------------------------------------------------------------


PASS_STATEMENTS = (
    Statement("alike", f"operations to {LEVEL:.0%}, R = 5, 10, 20: most over least", "similar", Between(1, 2.5),
              "{:.2f}"),
    Statement("smaller", "passes over the data to it, R = 2 over R = 20", "each step improves less", Between(1, np.inf),
              "{:.2f}"),
    Statement("faster", "operations of a pass over the data, R = 2 over R = 20", "faster steps", Between(0, 0.5),
              "{:.2f}"),
    Statement("unlimited", "passes over the data, R = 100 over Pegasos + LP", "similar", factor_two(1.0), "{:.2f}"),
    Statement("work", "operations, R = 100 over Pegasos + LP, each program from scratch"),
    Statement("least", "R with the fewest operations", "R = 10 was used", why="others were not told", form="{:.0f}"),
    Statement("gap", "certified relative gap of the best objective", form="{:.1e}"),
)  # fmt: skip


def run_passes(quick: bool, progress: Progress) -> Findings:
    """Vary R on Yeast; quick: 100 examples, three values, one seed."""
    values, seeds, size = ((2, 5, 20), SEEDS[:1], 100) if quick else (PASSES, SEEDS, 1500)
    return vary_passes(dataset("yeast", size), values, seeds, progress)


def run_all_passes(progress: Progress) -> Findings:
    """Vary R with more seeds."""
    return vary_passes(dataset("yeast", SIZES["yeast"]), PASSES, FULL_SEEDS, progress)


def vary_passes(data: Data, values: Sequence[int], seeds: Sequence[int], progress: Progress) -> Findings:
    """Run DLPW with some values of R, and Pegasos with linear programs for comparison."""
    steps, answers = Steps(progress, len(values) + 2), Answers(PASS_STATEMENTS)
    with threadpool_limits(1, user_api="blas"):
        steps("the best objective")
        set_ = Judged.from_data(data, 200)
        efforts: dict[int, list[Effort]] = {}
        for R in values:
            steps(f"R = {R}")
            some = seeds if PASSES[-1] != R else seeds[:1]  # long steps are hardly noisy
            curves = [set_.curve(of_passes(R), DATA_PASSES[R], seed, LEVEL) for seed in some]
            efforts[R] = set_.reached(curves, LEVEL)
        steps("Pegasos + LP")
        pegasos = set_.curve(METHODS["Pegasos + LP"], PEGASOS_PASSES, seeds[0], LEVEL)
    sweeps = {R: mean(one, "sweeps") for R, one in efforts.items()}
    passes = {R: mean(one, "passes") for R, one in efforts.items()}
    tell_passes(answers, sweeps, passes, set_, pegasos)
    beside = set_.reached([pegasos], LEVEL)
    times = {R: _shown(mean(one, "seconds"), "{:.2f} s") for R, one in efforts.items()}
    rows = [(str(R), f"{2 * R + 1}", _shown(passes[R]), _shown(sweeps[R]), times[R]) for R in values]
    scratch = [pegasos.trace.scratch(one) for one in beside]
    rows.append(("Pegasos + LP", f"{pegasos.trace.pivots + 1:.0f}", _shown(mean(beside, "passes")),
                 _shown(scratch[0] if scratch else np.nan), _shown(mean(beside, "seconds"), "{:.2f} s")))  # fmt: skip
    columns = ("R", "sweeps in each look", f"passes to {LEVEL:.0%}", "sweeps", "time of a processor")
    arrays = {
        "R": np.array(values), "sweeps": np.array(list(sweeps.values())),
        "passes": np.array(list(passes.values())), "pegasos": np.array([mean(beside, "passes"), *scratch]),
    }  # fmt: skip
    notes = (PASS_NOTE.format(n=len(seeds)), *PASS_NOTES)
    return Findings(answers.rows, notes, (Table("DLPW on Yeast, by R: means over seeds", columns, rows),), arrays)


def _shown(value: float, form: str = "{:.3g}") -> str:
    return form.format(value) if np.isfinite(value) else "-"


def tell_passes(
    answers: Answers, sweeps: Mapping[int, float], passes: Mapping[int, float], set_: Judged, pegasos: ObjectiveCurve
) -> None:
    """Answer the statements about R; a run that did not reach the level gives no answer."""
    alike = [sweeps[R] for R in ALIKE if R in sweeps]
    answers.numbers("alike", *([max(alike) / min(alike)] if np.isfinite(alike).all() else []))
    ratio = passes[2] / passes[20]
    answers.numbers("smaller", *([ratio] if np.isfinite(ratio) else []))
    answers.numbers("faster", 5 / 41)
    reached = set_.reached([pegasos], LEVEL)
    unlimited = passes.get(PASSES[-1], np.nan)
    if reached and np.isfinite(unlimited):
        answers.numbers("unlimited", unlimited / reached[0].passes)
        work = sweeps[PASSES[-1]] / pegasos.trace.scratch(reached[0])
        answers.text("work", f"{work:.2f}", work)
    finite = {R: one for R, one in sweeps.items() if np.isfinite(one)}
    if finite:
        least = min(finite, key=lambda R: finite[R])
        answers.text("least", str(least), least)
    answers.draws("gap", set_.gap)


PASS_NOTE = (
    f"Level: {LEVEL:.0%} above the best objective. Seeds: {{n}}, as the newest weights are noisy; R = 100 has one. An "
    "operation is a look at one joint state of a pair of labels; a look of DLPW at an example has 2 R + 1 sweeps over "
    "them, by count, so that the third statement is a property of the method."
)
PASS_NOTES = (
    "R = 100 stands for no limit: messages go on from those of the last look at the example.",
)


def draw_passes(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw passes over the data and sweeps to the level, by R."""
    for axis, what in zip(figure.subplots(1, 2), ("passes", "sweeps"), strict=True):
        axis.loglog(arrays["R"], arrays[what], "o-", color="blue", label="DLPW")
        beside = arrays["pegasos"][(0 if what == "passes" else -1)]
        axis.axhline(beside, color="black", linestyle="--", label="Pegasos + LP")
        axis.set(xlabel="R", ylabel=f"{what} to {LEVEL:.0%}")
        axis.legend()


# -- fewer labels -------------------------------------------------------------------------------------------------


LABEL_STATEMENTS = (
    Statement("ten", f"operations of Pegasos + LP, from scratch, over those of DLPW: {LEVEL_REUTERS:.0%}, 10 labels",
              "a little over 1", Between(1, 2), "{:.1f}"),
    Statement("scales", "that with 10 labels over that with 5: it grows with the graph", "more than 1",
              Between(1, np.inf), "{:.1f}"),
    Statement("five", "the same with 5 labels", form="{:.1f}"),
    Statement("warm", "the same, each program from its last basis: 5, 10 labels"),
    Statement("one", "the same at 1 % above the best objective: 5, 10 labels"),
    Statement("times", "the same as processor time: 5, 10 labels", "slightly above 1",
              why="seconds compare a compiled kernel with a library that is called from Python for each example"),
    Statement("gap", "certified relative gap of the best objectives, at most", form="{:.1e}"),
)  # fmt: skip


def few_labels(n_labels: int, size: int) -> Data:
    """Return Reuters with its most frequent labels."""
    X, Y, others, truth = load_reuters(n_labels)
    X, Y = X[:size], Y[:size]
    seen = np.unique(np.concatenate([x.indices for x in X]))  # weights of words that do not occur are zero
    model = multilabel(n_labels, len(seen), sparse=True)
    return Data(model, ([x[:, seen] for x in X], Y), ([x[:, seen] for x in others[:size]], truth[:size]))


def run_labels(quick: bool, progress: Progress) -> Findings:
    """Compare DLPW with Pegasos + LP by the number of labels; quick: 100 examples, a few passes."""
    return compare_labels(100, 0.5, progress) if quick else compare_labels(N_DOCUMENTS, 1.0, progress)


def run_all_labels(progress: Progress) -> Findings:
    """Compare them on all documents."""
    return compare_labels(N_ALL_DOCUMENTS, 1.0, progress)


def compare_labels(size: int, share: float, progress: Progress) -> Findings:
    """Compare methods on so many documents, with a share of their passes."""
    steps, answers, by_labels = Steps(progress, 3 * len(LABELS)), Answers(LABEL_STATEMENTS), {}
    with threadpool_limits(1, user_api="blas"):
        for n_labels in LABELS:
            steps(f"{n_labels} labels: the best objective")
            set_ = Judged.from_data(few_labels(n_labels, size), 200)
            curves = {}
            for name, passes in REUTERS_PASSES.items():
                steps(f"{n_labels} labels: {name}")
                seeds = SEEDS if name == "DLPW" else SEEDS[:1]
                curves[name] = [set_.curve(METHODS[name], share * passes, seed, LEVEL_REUTERS) for seed in seeds]
            for R in REUTERS_R if n_labels == LABELS[-1] else ():
                most = share * REUTERS_PASSES["DLPW"]
                curves[f"DLPW, R = {R}"] = [set_.curve(of_passes(R), most, seed, LEVEL_REUTERS) for seed in SEEDS]
            for several in curves.values():
                for curve in several:
                    curve.refine((1.0 + LEVEL) * set_.best)
            by_labels[n_labels] = set_, curves
    documents = f"{size} of its {N_ALL_DOCUMENTS} documents" if size < N_ALL_DOCUMENTS else f"all {size} documents"
    notes = (f"Reuters is the first subset of RCV1, {documents}, with its most frequent labels. {LABEL_NOTE}",)
    return Findings(tell_labels(answers, by_labels), notes, (label_table(by_labels),), {
        f"{n}/{name}": several[0].points / [1.0, 1.0, set_.best]
        for n, (set_, curves) in by_labels.items() for name, several in curves.items()
    })  # fmt: skip


#: By number of labels: the set, and the curves of both methods by seed.
ByLabels = Mapping[int, tuple[Judged, Mapping[str, Sequence[ObjectiveCurve]]]]


def ratios(by_labels: ByLabels, level: float) -> dict[int, tuple[float, float, float]]:
    """Return what Pegasos took over what DLPW took: operations from scratch, from the last basis, time; ``nan``."""
    result = {}
    for n_labels, (set_, curves) in by_labels.items():
        dlpw, pegasos = (set_.reached(curves[name], level) for name in REUTERS_PASSES)
        if not dlpw or not pegasos:
            result[n_labels] = (np.nan, np.nan, np.nan)
            continue
        scratch = curves["Pegasos + LP"][0].trace.scratch(pegasos[0])
        both = (pegasos[0].sweeps / mean(dlpw, "sweeps"), pegasos[0].seconds / mean(dlpw, "seconds"))
        result[n_labels] = (scratch / mean(dlpw, "sweeps"), *both)
    return result


def tell_labels(answers: Answers, by_labels: ByLabels) -> Any:
    """Answer the statements about fewer labels."""
    near, close = ratios(by_labels, LEVEL_REUTERS), ratios(by_labels, LEVEL)
    for key, values in (("ten", [near[10][0]]), ("scales", [near[10][0] / near[5][0]]), ("five", [near[5][0]])):
        answers.numbers(key, *(one for one in values if np.isfinite(one)))
    for key, column in (("warm", 1), ("times", 2)):
        answers.text(
            key, ", ".join(_shown(one[column]) for one in near.values()), *(one[column] for one in near.values())
        )
    answers.text("one", ", ".join(_shown(one[0]) for one in close.values()), *(one[0] for one in close.values()))
    answers.draws("gap", max(set_.gap for set_, _ in by_labels.values()))
    return answers.rows


#: The efforts that a table shows.
SHOWN = {"passes": "{:.3g}", "sweeps": "{:.3g}", "seconds": "{:.2f} s"}


def label_table(by_labels: ByLabels) -> Table:
    """Return passes and sweeps to both levels, by the number of labels."""
    rows = []
    for n_labels, (set_, curves) in by_labels.items():
        for name, several in curves.items():
            cells = []
            for level in (LEVEL_REUTERS, LEVEL):
                there = set_.reached(several, level)
                cells += [_shown(mean(there, what), form) for what, form in SHOWN.items()]
            above = min(curve.best for curve in several) / set_.best - 1.0
            rows.append((str(n_labels), name, *cells, f"{above:.2%}"))
    columns = ("labels", "method", "passes to 10 %", "sweeps", "time", "passes to 1 %", "sweeps", "time", "above best")
    return Table("Methods by the number of labels; programs from their last basis", columns, rows)


LABEL_NOTE = (
    "The paper shows no curve for 10 labels; ratios of its seconds are compared with ratios of operations. DLPW has "
    "R = 10 where nothing else is said. Means over two seeds of DLPW."
)


def draw_labels(arrays: Mapping[str, F64], figure: Any) -> None:
    """Draw objectives relative to the best one over sweeps, a panel for each number of labels."""
    for axis, n_labels in zip(figure.subplots(1, len(LABELS), sharey=True), LABELS, strict=True):
        for name in REUTERS_PASSES:
            points = arrays[f"{n_labels}/{name}"]
            axis.loglog(np.maximum(points[:, 1], 1.0), np.maximum(points[:, 2] - 1.0, 1e-5), label=name)
        axis.set(xlabel="sweeps over joint states", title=f"{n_labels} labels")
        axis.legend(fontsize="small")


EXPERIMENTS = (
    Experiment(
        "dual-losses-passes", "dual-losses", PAPER, "section 5", "DLPW by R, the passes of message passing in a step",
        run_passes, PASS_STATEMENTS, draw_passes, (9.0, 4.0), (f"multilabel/{FILES['yeast']}",),
        run_full=run_all_passes, smaller=f"{len(SEEDS)} seeds of {len(FULL_SEEDS)}",
    ),
    Experiment(
        "dual-losses-labels", "dual-losses", PAPER, "section 5", "Reuters with its 5 and 10 most frequent labels",
        run_labels, LABEL_STATEMENTS, draw_labels, (9.0, 4.0), (f"multilabel/{FILES['reuters']}",),
        ("RCV1, subset 1, its most frequent labels, for the paper's Reuters set",),
        run_full=run_all_labels, smaller=f"{N_DOCUMENTS} of {N_ALL_DOCUMENTS} documents",
    ),
)  # fmt: skip
