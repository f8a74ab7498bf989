"""``WhyNot``: why a model does not predict some labels, and which factors decide against them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ssvm_dsl.insight.explanation import SHOWN, Explanation, few_places, placed_name, shown_columns, text_table

if TYPE_CHECKING:
    from rich.table import Table


class FactorChange(NamedTuple):
    """A factor that scores the labels asked about otherwise than the prediction.

    Parameters
    ----------
    factor : str
        The factor template.
    places : tuple of str
        Its variables.
    predicted, asked : tuple
        Their states in the prediction, and in the best labelling with the labels asked about.
    change : float
        Its score there minus its score in the prediction: positive factors speak for the labels asked about.
    at : str
        The values of the index variables of a factor at positions, ``"t = 3"``; else empty.
    """

    factor: str
    places: tuple[str, ...]
    predicted: tuple[Any, ...]
    asked: tuple[Any, ...]
    change: float
    at: str = ""


@dataclass(frozen=True, eq=False)
class WhyNot:
    """The prediction beside the best labelling that has given labels.  It prints as text, and as a table in notebooks.

    Parameters
    ----------
    best : Explanation
        The prediction.
    asked : Explanation or None
        The best labelling that has the labels; ``None`` where the model's rules and constraints leave none.
    reason : str
        Why there is none.
    """

    best: Explanation
    asked: Explanation | None
    reason: str = ""

    @property
    def labelling(self) -> Any:
        """The best labelling that has the labels; ``None`` where there is none."""
        return None if self.asked is None else self.asked.labelling

    @property
    def margin(self) -> float:
        """By how much the prediction scores more; infinite where no labelling has the labels."""
        return np.inf if self.asked is None else self.best.score - self.asked.score

    @property
    def margin_bounds(self) -> tuple[float, float]:
        """Lower and upper bound of the margin of the best labellings, for inference that is not exact."""
        if self.asked is None:
            return np.inf, np.inf
        return self.best.score - self.asked.bound, self.best.bound - self.asked.score

    @property
    def differences(self) -> list[tuple[str, Any, Any]]:
        """What would have to change: (variable, its state in the prediction, its state with the labels)."""
        return [] if self.asked is None else self.best.names.differences(self.best.states, self.asked.states)

    def changes(self, k: int | None = None) -> list[FactorChange]:
        """Return the k factors (all by default) whose scores differ most; all together add up to minus the margin."""
        changes = sorted(self._changes(), key=lambda one: -abs(one.change))
        return changes[:k]

    @property
    def against(self) -> list[FactorChange]:
        """The factors that score the labels lower than the prediction."""
        return [one for one in self.changes() if one.change < 0.0]

    @property
    def speaking_for(self) -> list[FactorChange]:
        """The factors that score the labels higher than the prediction."""
        return [one for one in self.changes() if one.change > 0.0]

    def by(self, what: str) -> dict[str, float]:
        """Return the changes of sums of terms, which add up to minus the margin, the largest absolute value first.

        Parameters
        ----------
        what : {"factor", "feature", "position"}
            As for :meth:`Explanation.by`.
        """
        before = self.best.by(what)
        after = {} if self.asked is None else self.asked.by(what)
        names = dict.fromkeys([*before, *after]) if after else {}
        changes = {name: after.get(name, 0.0) - before.get(name, 0.0) for name in names}
        return dict(sorted(((n, v) for n, v in changes.items() if v), key=lambda item: -abs(item[1])))

    def _changes(self) -> Iterator[FactorChange]:
        if self.asked is None:
            return
        names = self.best.names
        for one, other in zip(self.best.templates, self.asked.templates, strict=True):
            sums = [np.bincount(each.terms.factor, each.terms.score, len(each.scope)) for each in (one, other)]
            change = np.where(one.config == other.config, 0.0, sums[1] - sums[0])
            name = names.template_factors.get(one.name, one.name)
            for f in np.flatnonzero(change).tolist():
                states = [names.states(each, f, int(each.config[f])) for each in (one, other)]
                yield FactorChange(
                    name, names.places(one, f), states[0], states[1], float(change[f]), names.at(one, f)
                )

    # -- text and tables ------------------------------------------------------------------------------------

    def summary(self) -> str:
        """Return in a line or two what was found."""
        if self.asked is None:
            return f"no labelling has these labels: {self.reason}"
        changed = self.differences
        if not changed:
            return f"the prediction has these labels (score {self.best.score:.6g})"
        shown = ", ".join(f"{place} from {old} to {new}" for place, old, new in changed[:SHOWN])
        rest = f" and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
        scores = f"the best labelling with these labels scores {self.asked.score:.6g}, the prediction"
        return f"{scores} {self.best.score:.6g}: {self.margin:.6g} more{self._unproved()}\nit changes {shown}{rest}"

    def _unproved(self) -> str:
        """Return the bounds of the margin as text, for inference that is not exact."""
        least, most = self.margin_bounds
        if np.isnan(least) or np.isnan(most):
            return " (not proved: the backend gives no bounds)"
        return "" if most - least <= 1e-6 else f" (between {max(least, 0.0):.4g} and {most:.4g})"

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        top = self.changes(SHOWN)
        columns = {
            "change": [f"{one.change:+.4g}" for one in top],
            "factor": [placed_name(one.factor, one.at) for one in top],
            "of": [few_places(one.places) for one in top],
            "predicted": [", ".join(map(str, one.predicted)) for one in top],
            "asked": [", ".join(map(str, one.asked)) for one in top],
        }
        return shown_columns(columns)

    def __str__(self) -> str:
        names, rows = self._shown()
        return "\n".join([self.summary(), *(["", text_table(names, rows)] if rows else [])])

    def __rich__(self) -> Table:
        from ssvm_dsl.report.tables import plain_table

        return plain_table(self.summary(), *self._shown())

    def _repr_html_(self) -> str:
        from ssvm_dsl.notebook_tables import html_grid

        return html_grid(self.summary(), *self._shown())
