"""Gaertner and Vembu (2009), section 4 and Figure 1: training by counting, in batch and online.

The paper does not give the input kernel, lambda, or the parameter p of the step size; ours are below.  ``lam`` weighs
the norm against the mean risk of the examples, so that objectives of different numbers of examples can be compared.
NCG ends when the gap that its gradient certifies is small (``TOL``).

Costs are compared by counts of multiplications, which depend on no machine; times of one processor are shown
as well.  A product of the Gram matrix with coefficients takes n^2 d, the Gram matrix n^2 times the number of
inputs; a step of SGD looks at the coefficients that are kept, tau at most, each with a kernel and d numbers.

Equation (2) is a sum over examples without the constant terms of their risks.  Its optimum is below 0, and falls in
proportion to n; in our terms it is ``n (P - 1)`` for the objective P, in units of |Y| - 1.  So "SGD attains a smaller
value of the objective function than NCG after a fixed amount of time" says that SGD has looked at more examples.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ssvm_dsl import CountingPredictor, Dicycles, Subsets
from ssvm_dsl.datasets import Tours, make_identity, make_tours
from ssvm_dsl.ir import F64
from ssvm_papers.results.experiment import Experiment, Findings, Progress, Steps, Table
from ssvm_papers.results.statements import Answers, Between, Rising, Statement

#: Options of a solver by the name of a run; what was found: objective and median processor seconds.
Runs = Mapping[str, Mapping[str, Any]]
Timings = dict[str, tuple[float, float]]

#: Of both tasks: relative gap at which NCG ends, and p of the step size of SGD.
TOL, STEP = 1e-3, 16.0

#: The identity task: an RBF kernel of the default width.
IDENTITY: dict[str, Any] = {"space": Subsets(5), "kernel": "rbf", "lam": 0.1}

#: The tours: 15 hidden policies over 10 nodes, the linear kernel; and how they are learnt.
TOURS: dict[str, Any] = {"space": Dicycles(10), "kernel": "linear", "lam": 0.1}
TOUR_SOLVERS: Runs = {
    "NCG": {"solver": "ncg"},
    "SGD, tau = 500": {"solver": "sgd", "truncation": 500},
    "SGD, all": {"solver": "sgd", "step": 1.0},
}

#: Number of runs whose median time is reported; solvers run in turn.
REPEATS = 5


def trained(X: Any, Y: Any, task: Mapping[str, Any], solver: str, **options: Any) -> CountingPredictor:
    """Return a predictor; no certificate is computed."""
    more = {**task, "step": STEP, **options}
    return CountingPredictor(solver=solver, tol=TOL, certificate="none", **more).fit(X, Y)


def timed(X: Any, Y: Any, task: Mapping[str, Any], runs: Runs) -> Timings:
    """Return (objective, median processor seconds) of several settings, run in turn."""
    reports: dict[str, list[Any]] = {name: [] for name in runs}
    for _ in range(REPEATS):
        for name, options in runs.items():
            reports[name].append(trained(X, Y, task, **options).report_)
    return {
        name: (report[0].objective, float(np.median([one.processor_seconds for one in report])))
        for name, report in reports.items()
    }


def batch_work(X: Any, Y: Any, task: Mapping[str, Any]) -> float:
    """Return the multiplications of NCG."""
    report, n_inputs = trained(X, Y, task, "ncg").report_, np.shape(X)[1]
    return float(len(X) ** 2 * (n_inputs + report.n_products * task["space"].n_features))


def online_work(n: int, n_inputs: int, task: Mapping[str, Any], tau: float) -> float:
    """Return the multiplications of one pass of SGD that keeps tau coefficients."""
    return float(np.minimum(np.arange(n), tau).sum() * (n_inputs + task["space"].n_features))


# -- the identity task ------------------------------------------------------------------------------------------


IDENTITY_STATEMENTS = (
    Statement("objective", "objective of SGD above that of NCG, the most examples", "comparable",
              Between(-0.2, 2, " %"), "{:+.2f} %"),
    Statement("work", "multiplications of NCG over those of SGD, the most examples",
              "a speed-up, apparent for large data sets", Between(2, np.inf), "{:.1f}"),
    Statement("times", "the same as processor time, by n (the most examples first)", form="{:.1f}"),
)  # fmt: skip


def run_identity(quick: bool, progress: Progress) -> Findings:
    """Compare one pass of SGD, tau = 0.15 n, with NCG on the identity task; quick: up to 1000 examples."""
    sizes = (100, 300, 1000) if quick else (100, 200, 500, 1000, 2000, 5000)
    runs: Runs = {
        "NCG": {"solver": "ncg"},
        "SGD": {"solver": "sgd", "truncation": 0.15},
        "closed form": {"solver": "closed-form"},
    }
    steps, rows, work = Steps(progress, len(sizes)), [], np.zeros((2, len(sizes)))
    for k, n in enumerate(sizes):
        steps(f"{n} examples")
        X, Y = make_identity(n)
        rows.append(timed(X, Y, IDENTITY, runs))
        work[:, k] = batch_work(X, Y, IDENTITY), online_work(n, len(X[0]), IDENTITY, round(0.15 * n))
    curves = np.array([[one[name] for one in rows] for name in runs])  # solver, size, (objective, seconds)
    excess = 100.0 * (curves[1, :, 0] / curves[0, :, 0] - 1.0)
    ratio, answers = curves[0, :, 1] / curves[1, :, 1], Answers(IDENTITY_STATEMENTS)
    answers.numbers("objective", excess[-1])
    answers.numbers("work", work[0, -1] / work[1, -1])
    answers.text("times", ", ".join(f"{r:.1f} at n = {n}" for n, r in zip(sizes, ratio, strict=True)), *ratio[::-1])
    cells = [
        [str(n), *(f"{o:.4f}" for o in curves[:, k, 0]), *(f"{count:.2g}" for count in work[:, k]),
         *(f"{1e3 * t:.1f} ms" for t in curves[:, k, 1])]
        for k, n in enumerate(sizes)
    ]  # fmt: skip
    head = ["n", *(f"objective, {name}" for name in runs), "multiplications, NCG", "multiplications, SGD",
            *(f"time, {name}" for name in runs)]  # fmt: skip
    note = (
        "The five inputs take 32 values, so that the Gram matrix has rank 32 at most.  For thousands of examples the "
        "optimum in closed form takes less time than either; the paper does not have it.  By multiplications SGD is "
        "ahead for every n, as tau grows with n; its steps are Python, so that by time it is not for few examples."
    )
    arrays = {"sizes": np.array(sizes), "curves": curves, "work": work}
    return Findings(answers.rows, (setting(IDENTITY), note), (Table("Solvers", head, cells),), arrays)


# -- the truncation ---------------------------------------------------------------------------------------------


TRUNCATION_STATEMENTS = (
    Statement("objective", "objective of SGD above that of NCG, tau >= 0.19 n, at most", "comparable",
              Between(-0.2, 1, " %"), "{:+.2f} %"),
    Statement("falls", "objective as tau grows: % below that of the least tau", "falls", Rising(0.1), "{:.2f}"),
    Statement("work", "multiplications of SGD over those of NCG, as tau grows", "training time grows", Rising(),
              "{:.3f}"),
    Statement(
        "crossing", "tau where SGD takes as many multiplications as NCG", "0.19 n, by time",
        why="it depends on the number of products with the Gram matrix that NCG takes.  The paper does not give what "
            "decides that number: the stopping rule, the kernel and lambda.  It also depends on what a step costs "
            "besides multiplications",
    ),
)  # fmt: skip


def run_truncation(quick: bool, progress: Progress) -> Findings:
    """Vary tau on the identity task; quick: fewer values."""
    n = 1000
    shares = (0.05, 0.19, 0.5) if quick else (0.02, 0.05, 0.1, 0.15, 0.19, 0.25, 0.3, 0.4, 0.5, 0.75, 1.0)
    steps = Steps(progress, 1)
    steps(f"{len(shares)} values of tau")
    runs: dict[str, Mapping[str, Any]] = {"NCG": {"solver": "ncg"}}
    runs |= {f"{share:g}": {"solver": "sgd", "truncation": float(share)} for share in shares}
    X, Y = make_identity(n)
    reports = timed(X, Y, IDENTITY, runs)
    objective, seconds = np.array([reports[f"{share:g}"] for share in shares]).T
    excess, batch = 100.0 * (objective / reports["NCG"][0] - 1.0), batch_work(X, Y, IDENTITY)
    work = np.array([online_work(n, len(X[0]), IDENTITY, round(share * n)) for share in shares]) / batch
    answers = Answers(TRUNCATION_STATEMENTS)
    answers.numbers("objective", excess[np.array(shares) >= 0.19].max())
    answers.numbers("falls", *(100.0 * (1.0 - objective / objective[0])))
    answers.numbers("work", *work)
    answers.text("crossing", crossing(n, len(X[0]), batch))
    cells = [[f"{s:g} n", f"{o:.4f}", f"{e:+.2f} %", f"{w * batch:.3g}", f"{1e3 * t:.1f} ms"]
             for s, o, e, w, t in zip(shares, objective, excess, work, seconds, strict=True)]  # fmt: skip
    cells.append(["NCG", f"{reports['NCG'][0]:.4f}", "", f"{batch:.3g}", f"{1e3 * reports['NCG'][1]:.1f} ms"])
    note = (
        "A pass of SGD takes n^2/2 kernels at most, NCG all n^2 and several products besides.  Times in the table are "
        "some milliseconds, of which the arithmetic is the smaller part: where they cross is noise."
    )
    arrays = {"shares": np.array(shares), "objective": objective, "seconds": seconds, "ncg": np.array(reports["NCG"])}
    table = Table(f"n = {n}", ("tau", "objective", "above NCG", "multiplications", "time"), cells)
    return Findings(answers.rows, (setting(IDENTITY), note), (table,), arrays)


def crossing(n: int, n_inputs: int, batch: float) -> str:
    """Return the tau at which a pass of SGD takes as many multiplications as NCG."""
    work = np.array([online_work(n, n_inputs, IDENTITY, tau) for tau in range(n + 1)])
    at = int(np.searchsorted(work, batch))
    return f"{at / n:.2f} n" if at <= n else f"none: SGD takes {work[-1] / batch:.2f} times as many for tau = n"


# -- tours ------------------------------------------------------------------------------------------------------


DICYCLE_STATEMENTS = (
    Statement("one-pass", "one pass, the same people: objective of SGD above that of NCG, for each n", "NCG < SGD",
              Between(-0.2, 10, " %"), "{:+.2f} %"),
    Statement("work", "multiplications of NCG over those of SGD, the most people", "much longer", Between(5, np.inf),
              "{:.1f}"),
    Statement("grows", "that over the same for the least people", form="{:.1f}"),
    Statement("same-work", "as many multiplications: objective (2)", "SGD < NCG", Rising(), "{:.1f}"),
    Statement("same-work-risk", "as many multiplications: mean risk on others"),
    Statement("times", "processor time of NCG over that of SGD, by n (the most people first)", form="{:.1f}"),
    Statement("cosine", "cosine of learned and hidden policies, the most people", "no number"),
    Statement("all", "SGD that keeps all coefficients, the most people"),
)  # fmt: skip


def run_dicycles(quick: bool, progress: Progress) -> Findings:
    """Learn hidden policies from cyclic tours; quick: up to 1000 people."""
    sizes = (100, 300, 1000) if quick else (100, 200, 500, 1000, 2000, 5000)
    steps = Steps(progress, len(sizes) + 1)
    steps("drawing tours")
    drawn = make_tours(sizes[-1] + 500)
    test = Tours(drawn.X[sizes[-1] :], drawn.Y[sizes[-1] :], drawn.policies[sizes[-1] :])
    curves = np.zeros((len(TOUR_SOLVERS), len(sizes), 4))  # solver, size, (objective, seconds, test risk, cosine)
    work = np.zeros((len(TOUR_SOLVERS), len(sizes)))
    for k, n in enumerate(sizes):
        steps(f"{n} people")
        for s, options in enumerate(TOUR_SOLVERS.values()):
            predictor = trained(drawn.X[:n], drawn.Y[:n], TOURS, **options)
            report = predictor.report_
            curves[s, k] = report.objective, report.processor_seconds, *on_test(predictor, test)
            if options["solver"] == "sgd":
                work[s, k] = online_work(n, len(drawn.X[0]), TOURS, options.get("truncation", n))
            else:
                work[s, k] = batch_work(drawn.X[:n], drawn.Y[:n], TOURS)
    cells = [
        [str(n), name, *(f"{value:.4f}" for value in curves[s, k, [0, 2, 3]]), f"{work[s, k]:.2g}",
         f"{curves[s, k, 1]:.3f} s"]
        for k, n in enumerate(sizes) for s, name in enumerate(TOUR_SOLVERS)
    ]  # fmt: skip
    head = ("n", "solver", "objective", "mean risk on 500 others", "cosine", "multiplications", "time")
    note = (
        "Objective (2) leaves out the constants of the risks: its optimum is negative, and falls in proportion to n. "
        "That SGD has the smaller one after the same work says that it has seen more people. What is learnt about "
        "others is another matter.  15 linear inputs are known from a few hundred people, and tau = 500 keeps only "
        "the last 500 of any number. One pass that keeps all coefficients (p = 1) is as good as NCG. The cosine is "
        "that of the angle between learned and hidden policies of 500 other people, on average."
    )
    arrays = {"sizes": np.array(sizes), "curves": curves, "work": work}
    rows = dicycle_answers(sizes, curves, work).rows
    return Findings(rows, (setting(TOURS), note), (Table("Solvers", head, cells),), arrays)


def on_test(predictor: CountingPredictor, test: Tours) -> tuple[float, float]:
    """Return the mean risk, and the mean cosine of learned and hidden policies."""
    learnt = predictor.decision_function(test.X)
    norms = np.linalg.norm(learnt, axis=1) * np.linalg.norm(test.policies, axis=1)
    return float(predictor.risks(test.X, test.Y).mean()), float(((learnt * test.policies).sum(axis=1) / norms).mean())


def dicycle_answers(sizes: Sequence[int], curves: F64, work: F64) -> Answers:
    """Return the statements of section 4.2 with our results."""
    (objective, seconds, risk, cosine), online, whole = curves[0].T, curves[1].T, curves[-1].T
    n, slower, ratio = sizes[-1], seconds / online[1], work[0] / work[1]
    within = np.flatnonzero(work[0] <= work[1, -1])
    answers = Answers(DICYCLE_STATEMENTS)
    answers.numbers("one-pass", *(100.0 * (online[0] / objective - 1.0)))
    answers.numbers("work", ratio[-1])
    answers.draws("grows", ratio[-1] / ratio[0])
    if len(within):
        last = int(within[-1])  # the most people for whom NCG takes no more multiplications
        total = n * (online[0, -1] - 1), sizes[last] * (objective[last] - 1)
        answers.numbers(
            "same-work", *total, text=f"{total[0]:.1f} (SGD, n = {n}), {total[1]:.1f} (NCG, n = {sizes[last]})"
        )
        shown = f"{online[2, -1]:.4f} (SGD, n = {n}), {risk[last]:.4f} (NCG, n = {sizes[last]})"
        answers.text("same-work-risk", shown, online[2, -1], risk[last])
    else:
        answers.numbers("same-work", text="NCG takes more for any number of people")
    answers.text("times", ", ".join(f"{r:.1f} at n = {m}" for m, r in zip(sizes, slower, strict=True)), *slower[::-1])
    cosines = cosine[-1], online[3, -1], whole[3, -1]
    answers.text("cosine", "{:.3f} (NCG), {:.3f} (SGD), {:.3f} (SGD, all)".format(*cosines), *cosines)
    excess, faster = 100.0 * (whole[0, -1] / objective[-1] - 1.0), seconds[-1] / whole[1, -1]
    answers.text("all", f"objective {excess:+.2f} % beside NCG, {faster:.1f} times as fast", excess, faster)
    return answers


def draw_identity(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw Figure 1, left: time and objective over n."""
    axes = figure.subplots(1, 2)
    for axis, k, what in ((axes[0], 1, "seconds of a processor"), (axes[1], 0, "final objective")):
        for name, marker, curve in zip(("NCG", "SGD"), "so", arrays["curves"], strict=False):
            axis.plot(arrays["sizes"], curve[:, k], marker=marker, label=name)
        axis.set(xlabel="training examples", ylabel=what, xscale="log")
    axes[0].set_yscale("log")
    axes[0].legend()


def draw_truncation(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw Figure 1, centre: time (left axis) and objective (right axis) over tau; dashed lines are NCG's."""
    time = figure.subplots()
    objective = time.twinx()
    value, seconds = arrays["ncg"]
    for axis, curve, level, color, what in (
        (time, arrays["seconds"], seconds, "tab:blue", "seconds of a processor"),
        (objective, arrays["objective"], value, "tab:orange", "final objective"),
    ):
        axis.plot(arrays["shares"], curve, color=color, marker="o")
        axis.axhline(level, color=color, linestyle="--")
        axis.set_ylabel(what, color=color)
    time.set(xlabel="truncation tau / n", title="identity task: SGD (solid), NCG (dashed)")


def draw_dicycles(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw Figure 1, right: objective (2) over time, a point for each n; beside it the cosine."""
    axes = figure.subplots(1, 2)
    sizes, curves = arrays["sizes"], arrays["curves"]
    for axis, values, what in (
        (axes[0], sizes * (curves[:, :, 0] - 1), "final objective (2), over |Y| - 1"),
        (axes[1], curves[:, :, 3], "cosine of policies, other people"),
    ):
        for name, marker, seconds, curve in zip(TOUR_SOLVERS, "so^", curves[:, :, 1], values, strict=False):
            axis.plot(seconds, curve, marker=marker, label=name)
            for n, *point in zip(sizes, seconds, curve, strict=True):
                axis.annotate(str(n), point, fontsize="x-small")
        axis.set(xlabel="seconds of a processor", ylabel=what, xscale="log")
    axes[0].legend()


def setting(task: Mapping[str, Any]) -> str:
    """Return the settings that the paper leaves open."""
    return (
        f"Not told in the paper, and ours: {task['kernel']} kernel, lam/2 |h|^2 + mean risk with lam = "
        f"{task['lam']:g}, p = {STEP:g}.  The examples come in the order they are drawn.  Steps are no longer than the "
        f"inverse of the curvature.  NCG runs to a relative gap of {TOL:.1%}."
    )


# -- the step size ----------------------------------------------------------------------------------------------


#: Factors p of the step size, and passes.
STEPS, STEP_PASSES = (0.25, 1.0, 4.0, 16.0), (1, 10)

STEP_STATEMENTS = (
    Statement("plain", "gap of SGD, one pass: largest over least of all p", "p has to be fine tuned",
              Between(5, np.inf), "{:.0f}"),
    Statement("adapted", "the same with meta-descent, over that: how much less p matters", "a better way",
              Between(0, 0.5), "{:.2f}"),
    Statement("best", "largest gap of meta-descent over the least one of SGD, one pass", form="{:.1f}"),
    Statement("stream", "the same of a stream, ten batches through partial_fit", form="{:.1f}"),
)  # fmt: skip


def run_steps(quick: bool, progress: Progress) -> Findings:
    """Vary p on the identity task, with and without meta-descent; quick: 100 examples, one pass."""
    n, passes = (100, STEP_PASSES[:1]) if quick else (1000, STEP_PASSES)
    steps, gaps = Steps(progress, len(passes) + 1), np.zeros((len(passes), 2, len(STEPS)))
    X, Y = make_identity(n)
    labels = list(Y)
    for k, n_passes in enumerate(passes):
        steps(f"{n_passes} passes")
        for r, rule in enumerate(("decay", "smd")):
            for s, step in enumerate(STEPS):
                predictor = CountingPredictor(
                    solver="sgd", step_rule=rule, step=step, n_passes=n_passes, random_state=0, **IDENTITY
                ).fit(X, labels)  # fmt: skip
                gaps[k, r, s] = predictor.report_.relative_gap
    answers, (plain, adapted) = Answers(STEP_STATEMENTS), gaps[0]
    answers.numbers("plain", plain.max() / plain.min())
    answers.numbers("adapted", (adapted.max() / adapted.min()) / (plain.max() / plain.min()))
    answers.draws("best", float(adapted.max() / plain.min()))
    steps("streams")
    streams = stream_gaps(X, labels)
    answers.draws("stream", float(streams.max() / plain.min()))
    rows = [(str(n_passes), rule, *(f"{one:.1e}" for one in gaps[k, r]))
            for k, n_passes in enumerate(passes) for r, rule in enumerate(("SGD", "SGD, meta-descent"))]  # fmt: skip
    rows.append(("1, in ten batches", "SGD, meta-descent", *(f"{one:.1e}" for one in streams)))
    table = Table("Relative gap, by p", ("passes", "rule", *(f"p = {one:g}" for one in STEPS)), rows)
    note = (
        f"An RBF kernel, lam = {IDENTITY['lam']:g}, the examples in one random order. "
        "The paper announces meta-descent and has no results of it. Gaps are certified, by the optimum in closed form; "
        "the delay is automatic, so that no step is too long; meta_step = 1. A stream has the longest delay that "
        "a batch so far needs, and the width of the kernel as a number."
    )
    return Findings(answers.rows, (note,), (table,), {"steps": np.array(STEPS), "gaps": gaps})


def stream_gaps(X: F64, Y: Sequence[Any]) -> F64:
    """Return the relative gaps of streams with meta-descent by p: the examples come in ten batches, in random order."""
    order, gaps = np.random.default_rng(0).permutation(len(X)), np.zeros(len(STEPS))
    X, Y = X[order], [Y[i] for i in order]
    task = {**IDENTITY, "gamma": 1.0 / (X.shape[1] * float(X.var()))}
    best = CountingPredictor(solver="closed-form", **task).fit(X, Y).report_.lower_bound
    for s, step in enumerate(STEPS):
        stream = CountingPredictor(solver="sgd", step_rule="smd", step=step, **task)
        for batch in np.array_split(np.arange(len(X)), 10):
            stream.partial_fit(X[batch], [Y[i] for i in batch])
        norm = float((stream.decision_function(stream.X_fit_) * stream.dual_coef_).sum())
        value = 0.5 * task["lam"] * norm + float(stream.risks(X, Y).mean())
        gaps[s] = (value - best) / abs(value)
    return gaps


def draw_steps(arrays: Mapping[str, Any], figure: Any) -> None:
    """Draw gaps over p, with meta-descent (solid) and without."""
    axis = figure.subplots()
    for gaps, color in zip(arrays["gaps"], ("green", "blue"), strict=False):
        for one, line in zip(gaps, ("--", "-"), strict=True):
            axis.loglog(arrays["steps"], one, line, color=color, marker="o")
    axis.set(xlabel="p", ylabel="relative gap", title="solid: meta-descent; green: one pass, blue: ten")


PAPER = "Gaertner, Vembu: Training Non-linear Structured Prediction Models with Stochastic Gradient Descent (2009)"

EXPERIMENTS = (
    Experiment(
        "counting-identity", "counting", PAPER, "Figure 1, left", "multi-label identity task: SGD and NCG over n",
        run_identity, IDENTITY_STATEMENTS, draw_identity,
    ),
    Experiment(
        "counting-truncation", "counting", PAPER, "Figure 1, centre", "the truncation tau: time and objective",
        run_truncation, TRUNCATION_STATEMENTS, draw_truncation, (6.0, 4.0),
    ),
    Experiment(
        "counting-dicycles", "counting", PAPER, "section 4.2, Figure 1, right", "policies of people from their tours",
        run_dicycles, DICYCLE_STATEMENTS, draw_dicycles,
    ),
    Experiment(
        "counting-steps", "counting", PAPER, "section 3.3", "the step size of SGD, with and without meta-descent",
        run_steps, STEP_STATEMENTS, draw_steps, (6.0, 4.0),
    ),
)  # fmt: skip
