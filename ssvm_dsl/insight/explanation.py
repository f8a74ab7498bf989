"""``Explanation``: what the score of a labelling is made of, by factors, features and positions."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ssvm_dsl.array_types import F64, I32
from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.errors import OptionError
from ssvm_dsl.insight.naming import ExampleNames
from ssvm_dsl.insight.terms import TemplateTerms, terms_of

if TYPE_CHECKING:
    from rich.table import Table

#: Terms that are printed.
SHOWN = 10

#: Variables of a factor that are printed.
PLACES = 6

#: What sums can be taken over.
BY = ("factor", "feature", "position")


class ScoreTerm(NamedTuple):
    """One term of a score.

    Parameters
    ----------
    factor : str
        The factor template, or the given scores.
    places : tuple of str
        The variables of the factor, such as ``("y[2]", "y[3]")``.
    states : tuple
        Their states.
    feature : str or None
    value, weight, score : float
        ``score = value * weight``; the weight is that of these states.
    at : str
        The values of the index variables of a factor at positions, ``"t = 3"``; else empty.
    """

    factor: str
    places: tuple[str, ...]
    states: tuple[Any, ...]
    feature: str | None
    value: float
    weight: float
    score: float
    at: str = ""


@dataclass(frozen=True, eq=False)
class Explanation:
    """The terms of the score of a labelling.  It prints as text, and as a table in notebooks.

    Parameters
    ----------
    labelling
        In the user's form.
    latent
        The states of latent variables; ``None`` without any.
    score : float
        The score of the labelling, ``w . Phi(x, y)`` and given scores.
    bound : float
        No labelling (with the given labels) scores more; ``nan`` where the backend gives no bound.
    templates : list of TemplateTerms
        All terms, in columns.
    names : ExampleNames
    states : ndarray of int32
        The labelling as states of all variables.
    """

    labelling: Any
    latent: Any
    score: float
    bound: float
    templates: list[TemplateTerms]
    names: ExampleNames
    states: I32

    @cached_property
    def total(self) -> float:
        """The sum of all terms: the score, up to rounding."""
        return math.fsum(float(one) for template in self.templates for one in template.terms.score)

    @property
    def n_terms(self) -> int:
        """Number of terms that are not 0."""
        return sum(len(template.terms.factor) for template in self.templates)

    def by(self, what: str) -> dict[str, float]:
        """Return sums of terms, which add up to the score, the largest absolute value first.

        Parameters
        ----------
        what : {"factor", "feature", "position"}
            A factor of several variables counts for the position of each by an equal share.  Features have the name of
            their factor in front; terms without features go by that name alone.
        """
        sums = {"factor": self._by_factor, "feature": self._by_feature, "position": self._by_position}
        if what not in sums:
            raise OptionError(f"what: expected one of {', '.join(BY)}, got {what!r}")
        return dict(sorted(sums[what]().items(), key=lambda item: -abs(item[1])))

    def _by_factor(self) -> dict[str, float]:
        sums = _NamedSums()
        for template in self.templates:
            sums.add(self._factor(template), template.terms.score)
        return sums.total()

    def _by_feature(self) -> dict[str, float]:
        sums = _NamedSums()
        for template in self.templates:
            terms, factor = template.terms, self._factor(template)
            order = np.argsort(terms.feature, kind="stable")
            numbers, starts = np.unique(terms.feature[order], return_index=True)
            ends, scores = [*starts[1:].tolist(), len(order)], terms.score[order]
            for number, start, end in zip(numbers.tolist(), starts.tolist(), ends[: len(starts)], strict=True):
                feature = self.names.feature(template.name, number)
                sums.add(factor if feature is None else f"{factor}: {feature}", scores[start:end])
        return sums.total()

    def _by_position(self) -> dict[str, float]:
        sums = _NamedSums()
        for template in self.templates:
            scores = np.bincount(template.terms.factor, template.terms.score, len(template.scope))
            for f in np.flatnonzero(scores).tolist():
                scope = self.names.about(template, f)
                for variable in scope:
                    sums.add(self.names.position(variable), scores[f : f + 1] / len(scope))
        return sums.total()

    def _factor(self, template: TemplateTerms) -> str:
        return self.names.template_factors.get(template.name, template.name)

    def top(self, k: int | None = SHOWN, factor: Any = None) -> list[ScoreTerm]:
        """Return the k terms of largest absolute value, largest first.

        Parameters
        ----------
        k : int, optional
            ``None``: all.
        factor : Factor or str, optional
            Its terms only.
        """
        if k is not None and k < 0:
            raise OptionError(f"k: expected a number of terms, or None for all, got {k}")
        name = getattr(factor, "name", factor)
        chosen = [one for one in self.templates if name is None or self._factor(one) == name]
        if name is not None and not chosen:
            known = dict.fromkeys(map(self._factor, self.templates))
            raise OptionError(f"factor: expected one of {', '.join(known)}, got {name!r}")
        sizes = np.concatenate([np.zeros(0), *(np.abs(one.terms.score) for one in chosen)])
        owner = np.repeat(np.arange(len(chosen)), [len(one.terms.factor) for one in chosen])
        start = np.cumsum([0, *(len(one.terms.factor) for one in chosen)])
        order = np.argsort(-sizes, kind="stable")[:k].tolist()
        return [self._term(chosen[owner[at]], at - int(start[owner[at]])) for at in order]

    def rows(self) -> list[ScoreTerm]:
        """Return all terms, for a table: ``pandas.DataFrame(svm.explain(x).rows())``."""
        return self.top(None)

    def _term(self, template: TemplateTerms, k: int) -> ScoreTerm:
        terms, names = template.terms, self.names
        factor, value, weight = int(terms.factor[k]), float(terms.value[k]), float(terms.weight[k])
        states = names.states(template, factor, int(template.config[factor]))
        feature = names.feature(template.name, int(terms.feature[k]))
        places, at = names.places(template, factor), names.at(template, factor)
        return ScoreTerm(self._factor(template), places, states, feature, value, weight, value * weight, at)

    # -- text and tables ------------------------------------------------------------------------------------

    def _shown(self) -> tuple[list[str], list[list[str]]]:
        """Return (columns, rows) of the largest terms; columns that say nothing are left out."""
        top = self.top()
        columns = {
            "score": [f"{one.score:+.4g}" for one in top],
            "factor": [placed_name(one.factor, one.at) for one in top],
            "of": [few_places(one.places) for one in top],
            "states": [", ".join(map(str, one.states)) for one in top],
            "feature": [one.feature or "" for one in top],
            "value": [f"{one.value:.4g}" if one.feature else "" for one in top],
            "weight": [f"{one.weight:+.4g}" if one.feature else "" for one in top],
        }
        return shown_columns(columns)

    def summary(self) -> str:
        """Return the score, and the sums by factor, in a line."""
        parts = ", ".join(f"{name} {value:+.4g}" for name, value in self.by("factor").items())
        bound = f" (no labelling scores more than {self.bound:.6g})" if self.bound - self.score > 1e-6 else ""
        return f"score {self.score:.6g}{bound}: {parts or 'all terms are 0'}"

    def _rest(self) -> str:
        """Return the line below the largest terms."""
        left = self.n_terms - SHOWN
        if left <= 0:
            return ""
        rest = self.total - math.fsum(one.score for one in self.top())
        return f"and {left} more terms, {rest:+.4g} together"

    def __str__(self) -> str:
        return "\n".join(filter(None, [self.summary(), "", text_table(*self._shown()), self._rest()])).rstrip()

    def __rich__(self) -> Table:
        from ssvm_dsl.report.tables import plain_table

        return plain_table(self.summary(), *self._shown())

    def _repr_html_(self) -> str:
        from ssvm_dsl.notebook_tables import html_grid

        return html_grid(self.summary(), *self._shown(), note=self._rest())


class _NamedSums:
    """Exact sums by name."""

    def __init__(self) -> None:
        self._parts: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, name: str, scores: F64) -> None:
        if len(scores):
            self._parts[name].append(math.fsum(scores.tolist()))

    def total(self) -> dict[str, float]:
        return {name: math.fsum(parts) for name, parts in self._parts.items()}


def explanation(grounded: Grounded, states: I32, w: F64, score: float, bound: float) -> Explanation:
    """Return the terms of the score of a labelling of the first example."""
    layout = grounded.layout
    latent = layout.decode(states, latent=True)[0] if grounded.declaration.latents else None
    templates = terms_of(grounded, states, w)
    names = ExampleNames(grounded)
    return Explanation(layout.decode(states)[0], latent, score, bound, templates, names, states)


def placed_name(factor: str, at: str) -> str:
    """Return a factor and where it is: ``trans at t = 3``."""
    return f"{factor} at {at}" if at else factor


def few_places(places: tuple[str, ...]) -> str:
    """Return the names of variables, the first ones of many."""
    return ", ".join(places) if len(places) <= PLACES else f"{', '.join(places[:PLACES])}, ... ({len(places)})"


def shown_columns(columns: dict[str, list[str]]) -> tuple[list[str], list[list[str]]]:
    """Return (names, rows) of the columns that say something."""
    shown = {name: texts for name, texts in columns.items() if any(texts)}
    return list(shown), [list(row) for row in zip(*shown.values(), strict=True)]


def text_table(names: list[str], rows: Iterable[list[str]]) -> str:
    """Return a table as aligned text."""
    lines = [names, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    texts = ["  ".join(f"{text:{k}}" for text, k in zip(line, widths, strict=True)) for line in lines]
    return "\n".join(text.rstrip() for text in texts)
