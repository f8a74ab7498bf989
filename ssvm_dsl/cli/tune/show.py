"""Output of ``ssvm tune``: a table of scores, the best parameters, doubts about them, and the nested score."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_dsl.cli.tune.sources import plain_json
from ssvm_dsl.cli.tune.tuned import Tuned
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.learning.tuning.grid import GridScores, described

if TYPE_CHECKING:
    from rich.console import Console


def show(screen: Console, tuned: Tuned) -> None:
    """Print the results."""
    from ssvm_dsl.report.tables import plain_table
    from ssvm_dsl.units import seconds_text

    def say(text: str, style: str | None = None) -> None:
        screen.print(text, markup=False, soft_wrap=True, style=style)

    scores, varied = tuned.all_scores, _varied(tuned.plan.grid)
    say(_heading(tuned))
    if fixed := {name: value for name, value in tuned.plan.grid[0].items() if name not in varied}:
        say(f"with {described(fixed)}")
    screen.print()
    screen.print(plain_table("", [*varied, "score", "+-", "seconds", ""], _rows(tuned, scores, varied)))
    screen.print()
    if tuned.scores is not None:
        best = scores.best_index
        say(f"best: {described(scores.best)}, score {scores.means[best]:.4f} +- {scores.deviations[best]:.4f}", "bold")
        for note in notes(tuned):
            say(note, "yellow")
    if tuned.nested is not None:
        nested = tuned.nested
        worth = f"{nested.scores.mean():.4f} +- {nested.scores.std(ddof=1):.4f}{_error(tuned)}"
        say(f"nested: score {worth}: what such a choice")
        chosen = [described({name: one[name] for name in varied}) for one in nested.chosen]
        times = {text: chosen.count(text) for text in dict.fromkeys(chosen)}
        listed = ", ".join(f"{text} ({count} of {len(chosen)})" for text, count in times.items())
        say(f"        is worth on new examples; chosen within the folds: {listed}")
    elif tuned.plan.nested:
        say("nested: not finished", "yellow")
    if tuned.model is not None:
        gap = getattr(tuned.model.report_, "relative_gap", np.nan)
        certified = f", relative gap {gap:.2e}" if np.isfinite(gap) else ", nothing is certified"
        say(f"fitted on all examples{certified}; saved as {tuned.saved}")
    n, kept = len(tuned.outcomes), f", {tuned.n_kept} of them from the file" if tuned.n_kept else ""
    spent = f"{seconds_text(tuned.processor_seconds)} of processor time, {seconds_text(tuned.seconds)} in all"
    say(f"{n} fits{kept}: {spent}")


def notes(tuned: Tuned) -> list[str]:
    """Return sentences about doubts on the best parameters."""
    scores, doubts = tuned.all_scores, []
    for name, side in scores.at_edge().items():
        value = scores.best[name]
        other = value * 10.0 if side == "largest" else value / 10.0
        example = f", e.g. --grid {name}={other:g}" if is_number(value) and value > 0 else ""
        text = f"note: {described({name: value})} is the {side} that was tried"
        doubts.append(f"{text}; better ones may lie beyond{example}")
    best, made = scores.best_index, ~np.isnan(scores.scores)
    late = int((~scores.converged[best]).sum())
    if late:
        gaps = scores.relative_gaps[best][~scores.converged[best]]
        gap = f" (largest relative gap {np.nanmax(gaps):.2g})" if np.isfinite(gaps).any() else " (no gap is known)"
        text = f"note: {late} of {made[best].sum()} fits of the best ended before their tolerance{gap}"
        doubts.append(f"{text}; raise max_passes or tol: --grid max_passes=2000")
    elif tuned.source.estimator is not None and np.isnan(scores.relative_gaps[best]).all():
        doubts.append("note: nothing is certified of these fits: their trainer or backend gives no bounds")
    close = scores.means >= scores.means[best] - scores.deviations[best] / np.sqrt(scores.scores.shape[1])
    if int(close.sum()) > 1:
        text = f"note: {int(close.sum()) - 1} more within a standard error of the best"
        doubts.append(f"{text}: the folds cannot rank them")
    return doubts


def summary(tuned: Tuned) -> dict[str, Any]:
    """Return everything as plain data."""
    scores, made = tuned.all_scores, tuned.scores is not None
    entries = [
        {
            "parameters": plain_json(parameters),
            "mean": _number(scores.means[i]), "sd": _number(scores.deviations[i]),
            "scores": [_number(one) for one in scores.scores[i]],
            "seconds": [_number(one) for one in scores.seconds[i]],
            "converged": scores.converged[i].tolist(),
            "relative_gaps": [_number(one) for one in scores.relative_gaps[i]],
        }
        for i, parameters in enumerate(scores.grid)
    ]  # fmt: skip
    nested = None
    if tuned.nested is not None:
        found = tuned.nested
        nested = {
            "mean": float(found.scores.mean()), "sd": float(found.scores.std(ddof=1)),
            "scores": found.scores.tolist(), "chosen": plain_json(found.chosen),
        }  # fmt: skip
    return {
        "model": tuned.source.name,
        "estimator": repr(tuned.source.estimator),
        "n_examples": len(tuned.plan.folds[0][0]) + len(tuned.plan.folds[0][1]),
        "n_folds": len(tuned.plan.folds),
        "seed": tuned.seed,
        "complete": not tuned.interrupted,
        "grid": entries,
        "best": plain_json(scores.best) if made else None,
        "at_edge": scores.at_edge() if made else {},
        "notes": notes(tuned) if made else [],
        "nested": nested,
        "saved": tuned.saved,
        "n_fits": len(tuned.outcomes),
        "n_fits_kept": tuned.n_kept,
        "processor_seconds": tuned.processor_seconds,
        "seconds": tuned.seconds,
    }


def plot(tuned: Tuned, folder: Path) -> Path:
    """Draw the scores into ``tune.png`` of a folder, and return its path."""
    from ssvm_dsl.report.plots import new_figure, plot_grid

    figure = new_figure(7.0, 4.5)
    figure.set_layout_engine("constrained")
    plot_grid(tuned.all_scores, ax=figure.subplots())
    path = folder / "tune.png"
    figure.savefig(path, dpi=120)
    return path


def _heading(tuned: Tuned) -> str:
    plan = tuned.plan
    n = len(plan.folds[0][0]) + len(plan.folds[0][1])
    how = "in the given order" if plan.random_state is None else "shuffled"
    how = how if plan.groups is None else "of whole groups"
    about = f"{tuned.source.name}: {n} examples, {len(plan.folds)} folds {how}, seed {tuned.seed}"
    return f"{about}\n{tuned.source.estimator!r}"


def _varied(grid: list[dict[str, Any]]) -> list[str]:
    """Return the parameters with several values; all if there is one entry only."""
    several = [name for name in grid[0] if len({repr(one[name]) for one in grid}) > 1]
    return several or list(grid[0])


def _rows(tuned: Tuned, scores: GridScores, varied: list[str]) -> list[list[str]]:
    rows = []
    best = scores.best_index if tuned.scores is not None else -1
    for i, parameters in enumerate(scores.grid):
        made = int((~np.isnan(scores.scores[i])).sum())
        late = int((~scores.converged[i]).sum())
        said = ["best"] if i == best else []
        said += [f"{made} of {len(tuned.plan.folds)} fits made"] if made < len(tuned.plan.folds) else []
        said += [f"{late} not converged"] if late else []
        values = [described({"": parameters[name]})[1:] for name in varied]
        whole = made == len(tuned.plan.folds)
        number = [f"{scores.means[i]:.4f}", f"{scores.deviations[i]:.4f}"] if whole else ["", ""]
        seconds = f"{np.nanmean(scores.seconds[i]):.2f}" if made else ""
        rows.append([*values, *number, seconds, ", ".join(said)])
    return rows


def _error(tuned: Tuned) -> str:
    """Return the loss that corresponds to a score."""
    from ssvm_dsl.learning.estimators.svm import StructuredSVM

    estimator, nested = tuned.source.estimator, tuned.nested
    if not isinstance(estimator, StructuredSVM) or estimator.scoring is not None or nested is None:
        return ""
    return f" (loss {1.0 - nested.scores.mean():.4f} of the largest)"


def _number(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None
