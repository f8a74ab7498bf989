"""The fits that ``ssvm tune`` plans, their outcomes, the file that keeps them, and what is shown of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any

import numpy as np

from ssvm_dsl.cli.tune.sources import TuningSource, plain_json
from ssvm_dsl.errors import FileFormatError, ModelError, OptionError
from ssvm_dsl.files.opening import check_path
from ssvm_dsl.io.arrays_file import read_arrays, write_arrays
from ssvm_dsl.lang.arrays import is_number
from ssvm_dsl.learning.tuning.fitting import FittingTask, Outcome, Trials
from ssvm_dsl.learning.tuning.folds import Fold
from ssvm_dsl.learning.tuning.grid import GridScores, NestedScores, described, inner_folds, tasks_of
from ssvm_dsl.version import __version__

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True, eq=False)
class TuningPlan:
    """All fits: of the grid on the folds, then, for nested cross-validation, of the grid within each fold.

    The outer fits of nested cross-validation, with what was chosen within a fold, are among the first.

    Parameters
    ----------
    grid : list of dict
    folds : list of (training positions, test positions)
    groups : sequence, optional
        As for the folds.
    random_state : int, optional
        What shuffled the examples.
    nested : bool
    """

    grid: list[dict[str, Any]]
    folds: list[Fold]
    groups: Any
    random_state: int | None
    nested: bool

    @cached_property
    def tasks(self) -> list[FittingTask]:
        """The fits, in the order in which they are started.

        Raises
        ------
        OptionError
            There are fewer examples (or groups) outside a fold than folds.
        """
        tasks = list(tasks_of(self.grid, self.folds))
        for k, fold in enumerate(self.folds if self.nested else []):
            try:
                within = inner_folds(fold, len(self.folds), self.groups, self.random_state)
            except OptionError as err:
                err.add_note(f"in the cross-validation that --nested makes without the examples of fold {k + 1}")
                raise
            tasks += tasks_of(self.grid, within, f" within the training examples of fold {k + 1}")
        return tasks

    @property
    def n_cells(self) -> int:
        """Number of fits of one cross-validation of the grid."""
        return len(self.grid) * len(self.folds)


@dataclass(eq=False)
class Tuned:
    """The outcomes of the fits.

    Parameters
    ----------
    source : Source
    plan : Plan
    seed : int
    outcomes : dict
        By number of the fit.
    n_kept : int
        How many of them are from a file.
    seconds, refit_seconds : float
        Wall time of the command, and processor time of the fit on all examples.
    model : estimator, optional
        Fitted on all examples.
    saved : str, optional
        Where that was written to.
    interrupted : bool
    """

    source: TuningSource
    plan: TuningPlan
    seed: int
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    n_kept: int = 0
    seconds: float = 0.0
    refit_seconds: float = 0.0
    model: Any = None
    saved: str | None = None
    interrupted: bool = False

    def _scores(self, number: int) -> GridScores:
        """Return the scores of a cross-validation: 0 that of the grid, k that within fold k - 1."""
        n = self.plan.n_cells
        outcomes = {k - number * n: one for k, one in self.outcomes.items() if k // n == number}
        return GridScores.of(self.plan.grid, len(self.plan.folds), outcomes)

    @property
    def all_scores(self) -> GridScores:
        """Scores of the grid; ``nan`` where a fit has not been made."""
        return self._scores(0)

    @property
    def scores(self) -> GridScores | None:
        """Scores of the grid; ``None`` if no entry has been tried on all folds."""
        scores = self.all_scores
        return None if np.isnan(scores.means).all() else scores

    @property
    def nested(self) -> NestedScores | None:
        """Scores of the whole procedure; ``None`` if not requested, or if some of its fits are missing."""
        if not self.plan.nested or len(self.outcomes) < len(self.plan.tasks):
            return None
        outer, inner = self.all_scores, [self._scores(k + 1) for k in range(len(self.plan.folds))]
        scores = [outer.scores[one.best_index, k] for k, one in enumerate(inner)]
        return NestedScores(np.array(scores), [one.best for one in inner], inner)

    @property
    def processor_seconds(self) -> float:
        """Of all fits."""
        return self.refit_seconds + sum(one.seconds for one in self.outcomes.values())

    def refit(self, trials: Trials) -> Any:
        """Return the best, fitted on all examples."""
        begin = process_time()
        model = trials.fitted(self.all_scores.best, trials.data)
        if getattr(getattr(model, "report_", None), "reason", "") == "interrupt":  # half a fit is not to be saved
            raise KeyboardInterrupt
        self.refit_seconds = process_time() - begin
        self.model = model
        return model


# -- finished fits in a file
# ------------------------------------------------------------------------------------------------
#
# The same command resumes after an interrupt, or extends the grid.  A fit is recognised by a hash of all that it
# depends on: the version of the package, the estimator and its model, the parameters, and the contents and positions of
# its examples.

FORMAT, VERSION = "ssvm-dsl tuning", 2


class KeptFits:
    """A file of the outcomes of fits.

    Parameters
    ----------
    path : Path
    trials : Trials
        The estimator to fit.

    Raises
    ------
    FileFormatError
        There is a file that holds something else.
    OptionError
        No file can be written there, or the examples hold something that has no hash.
    """

    def __init__(self, path: Path, trials: Trials) -> None:
        self.path = check_path(path, "--results")
        self._of = _fingerprint(trials)
        self._kept = _read(path) if path.exists() else {}
        self._write()  # complains now where nothing may be written

    def find(self, task: FittingTask) -> Outcome | None:
        """Return the outcome of a fit that is done."""
        return self._kept.get(self._key(task))

    def keep(self, task: FittingTask, outcome: Outcome) -> None:
        """Add the outcome of a fit, and write the file."""
        self._kept[self._key(task)] = outcome
        self._write()

    def _key(self, task: FittingTask) -> str:
        return _hash((self._of, sorted(task.parameters.items()), task.fold), "the parameters")

    def _write(self) -> None:
        fits = {}
        for key, one in self._kept.items():
            gap = one.relative_gap if np.isfinite(one.relative_gap) else None
            fits[key] = asdict(one) | {"relative_gap": gap}
        write_arrays(self.path, {"format": FORMAT, "version": VERSION, "fits": fits}, {})


def _read(path: Path) -> dict[str, Outcome]:
    content, _ = read_arrays(path, "a file of ssvm tune")
    fits = content.get("fits")
    if (content.get("format"), content.get("version")) != (FORMAT, VERSION) or not isinstance(fits, dict):
        raise FileFormatError(f"{path}: not a file of ssvm tune that this version reads; name another one")
    try:
        return {key: _outcome(**fit) for key, fit in fits.items()}
    except (TypeError, ValueError) as err:
        raise FileFormatError(f"{path}: not a file of ssvm tune, or damaged ({err})") from err


def _outcome(score: Any, seconds: Any, converged: Any, relative_gap: Any) -> Outcome:
    numbers = [score, seconds, 0.0 if relative_gap is None else relative_gap]
    if not all(is_number(one) and np.isfinite(one) for one in numbers) or not isinstance(converged, bool):
        raise ValueError("expected numbers")
    gap = np.nan if relative_gap is None else float(relative_gap)
    return Outcome(float(score), float(seconds), converged, gap)


def _fingerprint(trials: Trials) -> str:
    """Return a hash of what all fits share."""
    settings = {name: _text(value) for name, value in trials.estimator.get_params(deep=False).items()}
    settings.pop("n_threads", None)  # results do not depend on it
    scoring = getattr(trials.scorer, "scoring", trials.scorer)
    data = [values.tocsr() if hasattr(values, "tocsr") else values for values in trials.data]
    return _hash((__version__, settings, getattr(scoring, "__qualname__", str(scoring)), data), "the examples")


def _text(value: Any) -> str:
    """Return a parameter of an estimator as text: a model as JSON, a function or an output space by its name."""
    if hasattr(value, "declaration"):
        with suppress(ModelError):  # functions that have no import path
            return str(value.to_json())
        return str(value)
    return repr(value)


def _hash(value: Any, what: str) -> str:
    """Return the hash of plain data, lists and arrays.

    Raises
    ------
    OptionError
        Something in it cannot be pickled.
    """
    from joblib import hash as content_hash

    try:
        return str(content_hash(value))
    except Exception as err:
        text = f"{what} hold something that cannot be recognised again ({err})"
        raise OptionError(f"--results: {text}; leave --results out") from err


# -- output ---------------------------------------------------------------------------------------------------------
#
# A table of scores, the best parameters, doubts about them, and the nested score.


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
