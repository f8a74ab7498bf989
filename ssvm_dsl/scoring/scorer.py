"""``Scorer``: a declared model that answers questions about scores, without weights or features."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from math import isfinite
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64, I64, Bools
from ssvm_dsl.calls import checked_class
from ssvm_dsl.compiler.inputs import Examples, read_inputs
from ssvm_dsl.compiler.scopes import factor_counts
from ssvm_dsl.deadline import Deadline, time_left, within
from ssvm_dsl.errors import DataError, ModelError, OptionError
from ssvm_dsl.inference.diagnosis.conflicts import conflict
from ssvm_dsl.inference.diagnosis.missing_answers import MissingAnswers
from ssvm_dsl.inference.planned import PlannedSession
from ssvm_dsl.inference.session import Ask, open_session, refuse_interrupted
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.ir.question import Question
from ssvm_dsl.ir.solution import NO_STATE, Primal, Solution
from ssvm_dsl.ir.theta import Theta
from ssvm_dsl.lang.arrays import describe
from ssvm_dsl.lang.declaration import Declaration, declaration_of
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.losses.label_losses import Loss
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.symbols import Symbol
from ssvm_dsl.scores.labellings import score_labels
from ssvm_dsl.scoring.answers import ScoredAnswers, checked_weights
from ssvm_dsl.scoring.batch import TIED, RawLayout, RawScores, Sizes, told_sizes
from ssvm_dsl.scoring.grounded_batch import GroundedBatch, ground_batch
from ssvm_dsl.scoring.questions import read_truth, require_additive, task_of
from ssvm_dsl.scoring.templates import templates_of

# -- batches whose shapes were met before --------------------------------------------------------------------------
#
# Where the scores of each array go is known, only the scores are looked at.

#: Types of arrays that are taken as they are.
FLOATS = (np.dtype(np.float64), np.dtype(np.float32))

_SUM = np.add.reduce


class BatchLayout(NamedTuple):
    """How the scores of a batch lie in arrays of some shapes.

    Parameters
    ----------
    grounded : GroundedBatch
        The model, laid over the batch.
    sizes : Sizes
    layouts : dict of str to RawLayout
        By template.
    """

    grounded: GroundedBatch
    sizes: Sizes
    layouts: dict[str, RawLayout]

    def theta(self, arrays: Mapping[str, Any]) -> Theta:
        """Return the Theta of scores, once they are found to be scores.

        Whatever is wrong with one of them shows in the sum of all, but for signs.

        Raises
        ------
        DataError
            A score is nan, infinite or of the wrong sign: names the template and the example.
        """
        packed = {name: layout.packed(arrays[name]) for name, layout in self.layouts.items()}
        with np.errstate(invalid="ignore", over="ignore"):
            theta = self.grounded.theta(packed)
            sound = isfinite(_SUM(theta.node) + _SUM(theta.pool))
        for name, layout in self.layouts.items():
            if not sound or layout.template.nonneg:
                layout.check(packed[name])
        return theta


def signature(scores: object, lengths: object, mask: object) -> Any:
    """Return the key of the layout of a batch of arrays; ``None`` for lists, whose layout is not cached."""
    if type(scores) is not dict:
        return None
    parts: list[Any] = []
    for name, value in scores.items():
        if type(name) is not str or type(value) is not np.ndarray or value.dtype not in FLOATS:
            return None
        parts.append((name, value.shape))
    for given in (lengths, mask):
        named = given if isinstance(given, Mapping) else {"": given}
        for name, value in named.items():
            try:
                array = None if value is None else np.asarray(value)
            except ValueError:  # lists of different lengths, which are refused later
                return None
            parts.append(None if array is None else (str(name), array.dtype.str, array.shape, array.tobytes()))
    return tuple(parts)


#: Shapes of arrays, with lengths and masks, whose places are kept.
MOST_BATCHES = 64

#: Batches of different lengths whose programs are kept.
MOST_GROUNDED = 256


@checked_class
class Scorer:
    """A declared model that answers questions about scores that come from elsewhere, such as a network.

    Factors are declared as usual.  Their weights and features are not used, and features may be missing.

    Parameters
    ----------
    model : Model class
    backend : str
        A backend's name, or ``"auto"``.
    backend_options : dict, optional
        Of the backend.
    guarantee : {"exact", "bound", "heuristic"}
        The weakest that ``auto`` may take.

    Attributes
    ----------
    templates : dict of str to Template
        The factors that scores are of, with their shapes.

    Examples
    --------
    >>> scorer = Scorer(OCR)
    >>> found = scorer.answer({"emit": scores, "trans": table}, mask=mask, truth=labels, augmented=True)
    >>> loss = found.score - found.truth_score
    >>> gradient = found.counts()["emit"] - found.truth_counts()["emit"]
    """

    def __init__(
        self,
        model: type[Model] | Declaration,
        *,
        backend: str = "auto",
        backend_options: Mapping[str, Any] | None = None,
        guarantee: str = "exact",
    ) -> None:
        self.model, self.declaration = model, declaration_of(model, "Scorer")
        if guarantee not in list(Guarantee):
            raise OptionError(f"guarantee must be one of {', '.join(Guarantee)}, got {guarantee!r}")
        self.backend, self.guarantee = backend, Guarantee(guarantee)
        self.backend_options = None if backend_options is None else dict(backend_options)
        self.templates = templates_of(self.declaration)
        if not self.declaration.outputs or not self.templates:
            what = "no Label; there is nothing to answer" if self.templates else "no Factor that scores could be of"
            raise ModelError(self.declaration.name, [("", f"it has {what}")])
        self._asked = _asked_inputs(self.declaration)
        self._grounded: OrderedDict[Any, GroundedBatch] = OrderedDict()
        self._batches: dict[Any, BatchLayout] = {}
        self._lock = Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        options = {"backend_options": self.backend_options, "guarantee": str(self.guarantee)}
        return _opened_again, (self.model, self.backend, options)

    @property
    def data_names(self) -> tuple[str, ...]:
        """The inputs that structures come from: edges, masks of labels and numbers of constraints."""
        return tuple(self._asked)

    @property
    def shapes(self) -> dict[str, str]:
        """The shape of the scores of each factor, in words."""
        return {name: template.words() for name, template in self.templates.items()}

    def answer(
        self,
        scores: Mapping[Any, Any],
        *,
        task: str = "best",
        k: int = 1,
        lengths: Mapping[str, Any] | Sequence[int] | NDArray[np.integer[Any]] | None = None,
        mask: Mapping[str, Any] | Sequence[Any] | NDArray[Any] | None = None,
        data: Mapping[str, Sequence[Any]] | None = None,
        truth: Any = None,
        augmented: bool = False,
        weights: Sequence[float] | NDArray[np.floating[Any]] | None = None,
        time_limit: float | None = None,
    ) -> ScoredAnswers:
        """Return the answers for a batch of examples.

        Parameters
        ----------
        scores : mapping
            By the name of the factor (or the factor itself): padded, packed, a list of arrays, or one table for all
            factors (:mod:`ssvm_dsl.scoring.batch`).
        task : {"best", "kbest", "marginals", "log_z", "relaxed"}
            ``log_z``: marginals are only summed up, as :meth:`ScoredAnswers.counts` has them.
        k : int
            How many labellings, for ``kbest``.
        lengths : mapping, or sequence of int, optional
            Sizes of the axes in each example, by the name of the axis; a sequence where only one is ragged.  Without it
            padded arrays are full.
        mask : mapping, or array of bool, shape (B, width), optional
            The existing positions, which may have gaps in the middle; as wide as the padded arrays.  With lengths, none
            of them is beyond the length of its example.
        data : mapping, optional
            By the name of the input: edges, masks of labels and numbers of constraints, one for each example.
        truth : list of labels, or ndarray of ints, optional
            In the model's classes; or numbers of states, padded as the scores are.
        augmented : bool
            Add the model's loss against the truth to the scores.
        weights : sequence of float, shape (B,), optional
            What counts of each example are multiplied by.
        time_limit : float, optional
            Seconds for the whole call.

        Raises
        ------
        DataError
            Scores, lengths, masks or truth are malformed; the message names the factor and the example.
        InfeasibleError
            An example has no labelling: names it.
        NoBackendError
            No backend answers this task for this model, with each one's reason.
        """
        asked = task_of(task, k)
        deadline = Deadline.of(time_limit)
        if not isinstance(augmented, bool | np.bool_):
            raise OptionError(f"augmented must be True or False, got {augmented!r}")
        layout, arrays = self._batch(scores, lengths, mask, data)
        (grounded, sizes, layouts), theta = layout, layout.theta(arrays)
        known_truth = None if truth is None else read_truth(self.declaration, grounded, sizes, truth)
        known = None if known_truth is None else score_labels(grounded.program, theta, known_truth.states)
        if augmented:
            if known_truth is None:
                raise OptionError("augmented=True needs the truth")
            program = grounded.program
            require_additive(self.declaration, known_truth).augment(program, theta, program.every_example)
        coef = np.ones(sizes.n) if weights is None else checked_weights(weights, sizes.n)
        ask = Ask(frozenset({asked}), self.backend, self.backend_options, self.guarantee)
        with within(deadline):
            session = open_session(grounded.program, ask, grounded.parameters, grounded)
            solution, sums = _solved(session, Question(theta, task=asked, k=k), known, task, coef)
        noted = MissingAnswers(asked)
        noted.add(session.plan, session.guarantee, solution, 0, partial(conflict, session.program, theta))
        noted.check()
        return ScoredAnswers(grounded, layouts, sizes, session.plan, solution, sums, known_truth, known, coef)

    # -- what is read --------------------------------------------------------------------------------------

    def _raw(self, scores: Mapping[Any, Any]) -> dict[str, RawScores]:
        """Return the scores of all templates, in order of declaration."""
        if not isinstance(scores, Mapping):
            expected = f"a dict by factor: {', '.join(self.templates)}"
            raise DataError("scores", expected=expected, found=describe(scores))
        named = {factor.name if isinstance(factor, Symbol) else factor: value for factor, value in scores.items()}
        for name in named:
            if name not in self.templates:
                close = get_close_matches(str(name), list(self.templates), n=1)
                meant = f"did you mean '{close[0]}'?" if close else ""
                expected = f"scores of the factors {', '.join(self.templates)}"
                raise DataError("scores", expected=expected, found=f"{name!r}", hint=meant)
        missing = [name for name in self.templates if name not in named]
        if missing:
            template = self.templates[missing[0]]
            raise DataError("scores", expected=f"those of '{missing[0]}', {template.words()}", found="none")
        return {name: RawScores.read(template, named[name]) for name, template in self.templates.items()}

    def _batch(
        self, scores: Mapping[Any, Any], lengths: Any, mask: Any, data: Any
    ) -> tuple[BatchLayout, Mapping[str, Any]]:
        """Return the grounded batch, the layout of its scores, and the scores; cached for arrays of the same shapes."""
        if data is not None and not isinstance(data, Mapping):
            raise DataError("data", expected="a dict by the name of the input", found=describe(data))
        key = None if data else signature(scores, lengths, mask)
        known = None if key is None else self._batches.get(key)
        if known is not None:
            return known, scores
        raw = self._raw(scores)
        sizes, rows = self._sizes(raw, lengths, mask, data)
        grounded = self._grounded_for(raw, sizes, rows, data)
        counted = {
            name: factor_counts(given.template.target, grounded.layout, grounded.examples)
            for name, given in raw.items() if given.template.target.count_reads_inputs
        }  # fmt: skip
        sizes = Sizes(sizes.n, grounded.examples.sizes, sizes.kept, sizes.mask_widths, counted)
        layouts = {name: RawLayout(given, sizes) for name, given in raw.items()}
        made = BatchLayout(grounded, sizes, layouts)
        if key is not None:
            if len(self._batches) >= MOST_BATCHES:
                self._batches.clear()
            self._batches[key] = made
        return made, {name: given.values for name, given in raw.items()}

    def _sizes(
        self, raw: Mapping[str, RawScores], lengths: Any, mask: Any, data: Mapping[str, Sequence[Any]] | None
    ) -> tuple[Sizes, list[dict[str, Any]]]:
        """Return the sizes of the axes, and examples of these sizes with the data that structures come from."""
        given = {} if data is None else dict(data)
        for name in given:
            if name not in self._asked:
                names = ", ".join(self._asked) or "none"
                raise DataError("data", expected=f"the inputs that structures come from: {names}", found=f"{name!r}")
        by_length, by_mask = self._by_axis(lengths, "lengths"), self._by_axis(mask, "mask")
        counts = {f"scores of '{name}'": scores.n_examples for name, scores in raw.items()}
        counts |= {f"lengths of {name}": len(value) for name, value in by_length.items()}
        counts |= {f"mask of {name}": len(value) for name, value in by_mask.items()}
        n = _n_examples(counts | {f"data '{name}'": len(value) for name, value in given.items()})
        known = {name: _lengths(value, n, name) for name, value in by_length.items()}
        kept: dict[str, Bools] = {}
        for name, value in by_mask.items():
            there = _mask(value, n, name, known.get(name))
            known[name] = there.sum(axis=1).astype(np.int64)
            if not (np.arange(there.shape[1]) < known[name][:, None])[there].all():
                kept[name] = there
        widths = {name: np.shape(value)[1] for name, value in by_mask.items()}
        known = told_sizes(raw, known)
        rows = [dict(zip(given, row, strict=True)) for row in zip(*given.values(), strict=True)] if given else []
        return Sizes(n, known, kept, widths), rows

    def _by_axis(self, value: Any, what: str) -> dict[str, Any]:
        """Return lengths or masks by axis."""
        if value is None:
            return {}
        ragged = [dim.name for dim in self.declaration.dims if dim.ragged]
        if isinstance(value, Mapping):
            sizes_by_axis = {dim.name if isinstance(dim, Symbol) else str(dim): sizes for dim, sizes in value.items()}
            wrong = [name for name in sizes_by_axis if name not in ragged]
            if wrong:
                raise DataError(what, expected=f"ragged axes: {', '.join(ragged) or 'none'}", found=repr(wrong[0]))
        elif len(ragged) != 1:
            expected = f"a dict by ragged axis: {', '.join(ragged) or 'none'}"
            raise DataError(what, expected=expected, found=describe(value))
        else:
            sizes_by_axis = {ragged[0]: value}
        for name, sizes in sizes_by_axis.items():
            try:
                shape = np.shape(sizes)
            except ValueError:  # lists of different lengths
                shape = ()
            if not shape:
                expected = "an array with an entry for each example"
                raise DataError(f"{what} of {name}", expected=expected, found=describe(sizes))
        return sizes_by_axis

    def _grounded_for(
        self, raw: Mapping[str, RawScores], sizes: Sizes, rows: list[dict[str, Any]], data: Any
    ) -> GroundedBatch:
        """Return the model laid over examples of these sizes, kept or made now."""
        tied = frozenset(name for name, scores in raw.items() if scores.form == TIED)
        content = None if not data else tuple((name, _content(values)) for name, values in sorted(data.items()))
        key = (tied, tuple((name, size.tobytes()) for name, size in sorted(sizes.known.items())), sizes.n, content)
        with self._lock:
            grounded = self._grounded.get(key)
            if grounded is not None:
                self._grounded.move_to_end(key)
                return grounded
        examples = self._examples(sizes, rows)
        made = ground_batch(self.declaration, examples, self.templates, tied)
        with self._lock:
            self._grounded[key] = made
            while len(self._grounded) > MOST_GROUNDED:
                self._grounded.popitem(last=False)
        return made

    def _examples(self, sizes: Sizes, rows: list[dict[str, Any]]) -> Examples:
        """Return examples of these sizes, with the data that structures come from."""
        asked = self._asked
        inputs = [given for given in self.declaration.inputs if given.name in asked and not isinstance(given, Dim)]
        axes = {id(dim) for given in inputs for dim in given.sized_axes}
        for dim in self.declaration.dims:
            if dim.ragged and dim.name not in sizes.known and id(dim) not in axes:
                hint = "the scores do not define it: pass lengths=, or mask="
                expected = f"the size of axis {dim.name} in each example"
                raise DataError("lengths", expected=expected, found="none", hint=hint)
        rows = rows or [{} for _ in range(sizes.n)]
        return read_inputs(self.declaration, rows, inputs, judged=True, known=sizes.known)


def _opened_again(model: Any, backend: str, options: dict[str, Any]) -> Scorer:
    """Return a copy of a pickled scorer, without its cached structures."""
    return Scorer(model, backend=backend, **options)


def _asked_inputs(declaration: Declaration) -> list[str]:
    """Return the names of the inputs that structures, rules and losses follow from."""
    needed = {given.name for constraint in declaration.constraints for given in constraint.inputs}
    needed |= {label.allowed.name for label in declaration.labels if label.allowed is not None}
    needed |= set(declaration.structural_inputs)
    if declaration.loss is not None:
        needed |= {given.name for given in declaration.loss.inputs}
    functions = [rule.asked_inputs for rule in declaration.rules]
    functions += [loss.asked_inputs for loss in declaration.of(Loss)[:1]]
    for asked in functions:  # by rules and prices
        needed |= declaration.input_names if asked is None else set(asked)
    return sorted(needed)


def _n_examples(counts: Mapping[str, int | None]) -> int:
    """Return the number of examples, by what tells it."""
    known = {what: count for what, count in counts.items() if count is not None}
    if not known:
        raise DataError("scores", expected="lengths=, or mask=, where no scores tell examples apart", found="neither")
    first, n = next(iter(known.items()))
    for what, count in known.items():
        if count != n:
            raise DataError(what, expected=f"{n} examples, as in {first}", found=f"{count}")
    if n == 0:
        raise DataError("scores", expected="at least one example", found="none")
    return n


def _lengths(value: Any, n: int, name: str) -> I64:
    array = np.asarray(value)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise DataError(f"lengths of {name}", expected=f"{n} whole numbers", found=_typed(array))
    if array.min(initial=0) < 0:
        i = int(np.argmax(array < 0))
        raise DataError(f"lengths of {name}", example=i, expected="a length of at least 0", found=str(array[i]))
    return array.astype(np.int64)


def _mask(value: Any, n: int, name: str, lengths: I64 | None) -> Bools:
    """Return the mask of an axis, whose positions are not beyond given lengths."""
    array, what = np.asarray(value), f"mask of {name}"
    if array.ndim != 2 or len(array) != n or array.dtype.kind not in "biu":
        raise DataError(what, expected=f"an array of bools, shape ({n}, width)", found=_typed(array))
    mask = array.astype(bool)
    if lengths is not None:
        beyond = mask & (np.arange(mask.shape[1]) >= lengths[:, None])
        if beyond.any():
            i, position = np.argwhere(beyond)[0].tolist()
            expected = f"no position beyond its length {lengths[i]}"
            raise DataError(what, example=i, expected=expected, found=f"position {position}")
    return mask


def _typed(array: NDArray[Any]) -> str:
    return f"{describe(array)}, {array.dtype}"


def _content(values: Sequence[Any]) -> tuple[Any, ...]:
    arrays = [np.asarray(value) for value in values]
    return tuple((array.dtype.str, array.shape, array.tobytes()) for array in arrays)


def _solved(
    session: PlannedSession, question: Question, known: F64 | None, task: str, coef: F64
) -> tuple[Solution, Theta | None]:
    """Return the verified answer, and for sums over labellings the summed marginals where the backend adds them up."""
    summed = task == "log_z" or (task == "marginals" and bool((coef == 1.0).all()))
    if summed and time_left() == np.inf:
        sums = Theta.zeros(session.program)
        log_z = session.expect(question, coef, sums.node, sums.tables, known)
        if log_z is not None:
            n, none = len(log_z), np.full(len(log_z), np.nan)
            labels = np.full(session.program.n_variables, NO_STATE, dtype=np.int32)
            primal = np.where(log_z == -np.inf, Primal.INFEASIBLE, Primal.FEASIBLE).astype(np.int8)
            return Solution(labels, none, none, np.zeros(n, np.int8), primal, log_partition=log_z), sums
    return refuse_interrupted(session.solve(question, known)), None
