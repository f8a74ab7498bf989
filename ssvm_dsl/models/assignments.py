"""``Matcher`` and ``Assigner``: links between the rows and columns of a table, as many for each as limits allow.

What is learnt.  A log-loss over tables that keep the limits of rows *and* columns would need sums over matchings, which
are hard to count (Valiant 1979).  The margin needs the best one alone, but where links are noisy and few of all pairs
are linked it is smallest with no weights at all, so that nothing, or anything, is linked.  So with ``risk="log"`` links
are learnt under the limits of one side, over which sums are exact: each row is a choice of as many columns as it may
have (a conditional logit; McFadden 1974).  The limits of both sides hold in all predictions.

``risk="auto"`` takes the log-loss where each row has a fixed number of links, and elsewhere the margin, which is a
little better where links are clear (F1 .729 beside .721 on alignments of words), unless it finds too few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Self

import numpy as np

from ssvm_dsl.compiler import Grounded
from ssvm_dsl.deadline import Deadline
from ssvm_dsl.errors import DataError, OptionError
from ssvm_dsl.inference.diagnosis.true_labels import require_feasible_truth
from ssvm_dsl.inference.planning.plans import AUTO
from ssvm_dsl.lang.arrays import describe, is_masked
from ssvm_dsl.lang.constraints.logic import NO_BOUND, Constraint
from ssvm_dsl.lang.constraints.structures import Matching
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Input
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.learning.estimators.fitting.infeasible import Trainable
from ssvm_dsl.learning.estimators.parameters import RAISE
from ssvm_dsl.learning.shards.parts import PartitionedDataset
from ssvm_dsl.models.base import ReadyModel
from ssvm_dsl.models.choosing import LOG
from ssvm_dsl.models.classes import input_of, require_names

#: What an example may say about its rows and columns.
LIMITS = ("row_limit", "row_least", "col_limit", "col_least")

#: Risks that are sums over labellings: links are learnt under the limits of one side.
SUMS = (AUTO, LOG)


class Assigner(ReadyModel):
    """Assigns rows to columns within capacities: papers to reviewers, shifts to people, jobs to machines.

    X is a list of arrays ``(I, J, n_features)``, features of each pair, or of dicts with such an array ``x`` and limits
    of the example: ``row_limit``, ``row_least``, ``col_limit``, ``col_least``, each a number or one for each row
    (column).  Y is a list of arrays ``(I, J)`` of 0 and 1.

    Parameters
    ----------
    row_limit, col_limit : int, None or "auto"
        How often a row (column) is assigned at most, where examples do not say it.  ``None`` is no limit.  ``"auto"``
        is what all rows (columns) of Y have, if it is the same for all, otherwise no limit.
    row_least, col_least : int or "auto"
        How often at least, likewise.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`.  With ``risk="log"`` links are learnt by log-loss under the limits of the
        rows (of the columns, where rows have none), and all limits hold in predictions; other risks learn under all of
        them.  ``risk="auto"`` is ``"log"`` where rows (columns) have a fixed number of links, or where the margin
        finds fewer than half as many links as there are; elsewhere it is ``"margin"``.

    Examples
    --------
    >>> X = [{"x": similarities, "col_limit": capacities}, ...]
    >>> Assigner(row_limit=3, row_least=3).fit(X, Y).predict(X_test)
    """

    row_limit: int | str | None = AUTO
    col_limit: int | str | None = AUTO
    row_least: int | str = AUTO
    col_least: int | str = AUTO

    _sums_risk = ""  # the risk of the fit that goes on, where it is one of SUMS
    _one_sided = False
    _why = ""
    _whole: type[Model]

    def _read_examples(self, X: Any) -> Any:
        """Return arrays, or dicts with an array and a number for each row or column."""
        expected = f"an array (I, J, n_features), or a dict with x and some of {', '.join(LIMITS)}"
        out = []
        for i, one in enumerate(X):
            if not isinstance(one, Mapping):
                out.append(one)
                continue
            require_names(one, i, ("x",), expected)
            strange = [name for name in one if name != "x" and name not in LIMITS]
            if strange:
                raise DataError("X", example=i, expected=expected, found=f"a dict with {strange[0]!r}")
            listed = isinstance(one["x"], list | tuple) or getattr(one["x"], "ndim", 0) > 1
            first = one["x"][:1] if listed else None
            if first is None or (len(first) and not hasattr(first[0], "__len__")):
                raise DataError("X", example=i, expected=expected, found=f"x: {describe(one['x'])}")
            sizes = {"row": len(one["x"]), "col": len(first[0]) if len(first) else 0}
            given = {name: np.asarray(value) for name, value in one.items() if name != "x"}
            each = {name: np.full(sizes[name[:3]], value) if not value.ndim else value for name, value in given.items()}
            out.append({"x": one["x"], **each})
        return out

    def _declaration(self, X: Sequence[Any], Y: Sequence[Any]) -> type[Model]:
        named = isinstance(X[0], Mapping)
        values = [one["x"] for one in X] if named else X
        brought = {name: [one.get(name) for one in X] for name in LIMITS if named and name in X[0]}

        class Pairs(Model):
            I, J = Dim(), Dim()
            x = input_of(values, I, J)
            row_limit = Input(I) if "row_limit" in brought else None
            row_least = Input(I) if "row_least" in brought else None
            col_limit = Input(J) if "col_limit" in brought else None
            col_least = Input(J) if "col_least" in brought else None
            y = Label(I, J, 2)
            link = Factor(y.is_(1), features=self._scaled(x, values))
            bias = Factor(y.is_(1))
            loss = Hamming(y)

        bounds: dict[str, Any] = {}
        for side, axis in (("row", 1), ("col", 0)):
            names = f"{side}_limit", f"{side}_least"
            counts = _counts(Y, axis)
            for name, none in zip(names, (None, 0), strict=True):
                asked = getattr(self, name)
                if isinstance(asked, str) and asked != AUTO:
                    raise OptionError(f"{name} is a number, None or 'auto', got {asked!r}")
                if name in brought:
                    bounds[name] = getattr(Pairs, name)
                elif asked == AUTO:
                    bounds[name] = counts if counts and (none is None or _within(counts, bounds[names[0]])) else none
                else:
                    bounds[name] = asked
            open_ = getattr(self, names[1]) == AUTO and names[1] not in brought
            if open_ and _all_full(Y, brought.get(names[0]), axis):
                bounds[names[1]] = bounds[names[0]]

        class LinkTable(Pairs):
            limits = Matching(Pairs.y.is_(1), rows=Pairs.I, cols=Pairs.J, **bounds)

        self._whole = LinkTable
        side = "row" if bounds["row_limit"] is not None or bounds["row_least"] != 0 else "col"
        least, most = bounds[f"{side}_least"], bounds[f"{side}_limit"]
        named_both = [brought.get(f"{side}_{bound}", []) for bound in ("least", "limit")]
        fixed = least is most or (isinstance(least, int) and least == most)
        fixed = fixed or (all(named_both) and all(map(np.array_equal, *named_both)))
        if self._sums_risk != LOG and not (self._sums_risk == AUTO and fixed):
            return LinkTable
        self._one_sided = True
        if most is None and least == 0:
            return Pairs

        class OneSide(Pairs):
            limits = Constraint(
                "count", Pairs.y.is_(1), along=Pairs.I if side == "row" else Pairs.J, lower=least,
                upper=NO_BOUND if most is None else most,
            )  # fmt: skip

        return OneSide

    @contextmanager
    def _learning(self, risk: Any) -> Iterator[None]:
        """Let a fit learn under the limits of one side, if it is to; afterwards the model has all of them."""
        self._sums_risk = risk if isinstance(risk, str) and risk in SUMS else ""
        half = vars(self).get("_half")
        if self._sums_risk and half is not None and self.warm_start and hasattr(self, "coef_"):
            self.model_, self._one_sided = half, True
        self._half: type[Model] | None = None
        try:
            yield
            if self._one_sided:
                self._half, self.model_ = self.model_, self._whole
        finally:
            self._sums_risk, self._one_sided = "", False

    def _fit_examples(self, X: Any, Y: Any, sample_weight: Any, validation: Any, deadline: Deadline) -> Self:
        self._why = ""
        with self._learning(self.risk):
            super()._fit_examples(X, Y, sample_weight, validation, deadline)
        if self.risk != AUTO or self._half is not None or isinstance(X, PartitionedDataset) or deadline.over:
            return self
        n, n_predicted = _n_links(Y), _n_links(self.predict(X))
        if 2 * n_predicted >= n:
            return self
        self._why = f"the margin finds {n_predicted} of {n} links"
        with self._learning(LOG):
            return super()._fit_examples(X, Y, sample_weight, validation, deadline)

    def partial_fit(self, X: Any, Y: Any, sample_weight: Any = None) -> Self:
        """Learn from a batch of a stream; the model is declared from the first batch."""
        with self._learning(self.risk):
            return super().partial_fit(X, Y, sample_weight)

    def _risk_for(self, grounded: Grounded) -> tuple[str, str]:
        if not self._one_sided:
            return super()._risk_for(grounded)
        why = self._why or "the number of links of each row is fixed"
        return LOG, f"{LOG}: {why}; learnt under the limits of one side, those of both hold in predictions"

    def _trainable(self, X: Any, Y: Any, sample_weight: Any, part: bool = False) -> Trainable:
        """Return the data without labels that break any limit, of the other side as well, or refuse these."""
        if not self._one_sided:
            return super()._trainable(X, Y, sample_weight, part)
        half, self.model_ = self.model_, self._whole
        try:
            if self.infeasible == RAISE:
                require_feasible_truth(self._ground(X, Y, part=part))
            return super()._trainable(X, Y, sample_weight, part)
        finally:
            self.model_ = half


class Matcher(Assigner):
    """Links the items of two lists, each item at most once: words and their translations, points of two images.

    X is a list of arrays ``(I, J, n_features)``, features of each pair.  Y is a list of arrays ``(I, J)`` of 0 and 1.

    Parameters
    ----------
    row_limit, col_limit, row_least, col_least
        How often an item is linked at most, and at least; as of :class:`Assigner`, but for the defaults.
    **options
        Of :class:`~ssvm_dsl.StructuredSVM`, as of :class:`Assigner`.

    Examples
    --------
    >>> Matcher(C=1).fit(X, Y).predict(X_test)
    """

    row_limit: int | str | None = 1
    col_limit: int | str | None = 1
    row_least: int | str = 0
    col_least: int | str = 0


def _n_links(Y: Sequence[Any]) -> int:
    """Return how many links there are in all."""
    return sum(int(np.ma.sum(one)) for one in Y if one is not None and np.ma.count(one))


def _counts(Y: Sequence[Any], axis: int) -> int:
    """Return how many links every row (column) has, if it is the same for all; otherwise 0."""
    if any(one is None or is_masked(one) for one in Y):
        return 0
    tables = [np.asarray(one) for one in Y]
    if any(one.ndim != 2 or one.dtype.kind not in "biuf" for one in tables):  # what they should be is said later
        return 0
    sums = {int(n) for one in tables for n in one.sum(axis=axis)}
    return sums.pop() if len(sums) == 1 else 0


def _within(count: int, limit: Any) -> bool:
    return not isinstance(limit, int) or count <= limit


def _all_full(Y: Sequence[Any], limits: Sequence[Any] | None, axis: int) -> bool:
    """Whether every row (column) has as many links as its limit says."""
    if limits is None or any(one is None or is_masked(one) for one in (*Y, *limits)):
        return False
    return all(np.array_equal(np.sum(y, axis=axis), most) for y, most in zip(Y, limits, strict=True))
