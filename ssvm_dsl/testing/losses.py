"""The conformance kit for losses: prices of single examples against batches, other batches and later calls.

A check gets a :class:`LossTrial` and raises :class:`~ssvm_dsl.testing.kit.Complaint`; any other exception comes from
the loss and is a failure, too.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from ssvm_dsl.array_types import F64, I32, I64
from ssvm_dsl.ir.ragged import pointers
from ssvm_dsl.plugin_api import LossSpec
from ssvm_dsl.registry import PackedLoss, packed_loss, registry
from ssvm_dsl.testing.kit import Complaint, ConformanceReport, HowToRun, Kit, Rule, require_call

#: Numbers of variables of the examples of each batch, and numbers of states.
BATCHES = ((1,), (3,), (4, 4, 4), (2, 5, 1, 3), (3, 0, 2, 2), (0,), ())
STATES = (2, 3, 7)


@dataclass(eq=False)
class LossTrial:
    """One loss on one batch of true states.

    Parameters
    ----------
    function : callable
        The loss of many examples.
    options : mapping
    sizes : tuple of int
        Variables of each example.
    n_states, seed : int
    """

    function: PackedLoss
    options: dict[str, Any]
    sizes: tuple[int, ...]
    n_states: int
    seed: int

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.truth = rng.integers(self.n_states, size=sum(self.sizes)).astype(np.int32)
        self.hidden = rng.random(len(self.truth)) < 0.4

    @property
    def name(self) -> str:
        """What the examples are."""
        return f"examples of {list(self.sizes)} variables with {self.n_states} states, seed {self.seed}"

    def prices(self, truth: I32, sizes: Collection[int]) -> F64:
        """Return the prices of examples, checked as the host checks them."""
        ptr: I64 = pointers(np.array(list(sizes), dtype=np.int64))
        given = truth.copy(), ptr.copy()
        for array in given:
            array.flags.writeable = False
        priced: Any = self.function(given[0], self.n_states, given[1], **self.options)
        shape = (len(truth), self.n_states)
        if np.asarray(priced).dtype.kind not in "biuf" or np.shape(priced) != shape:
            raise Complaint(f"expected an array of real numbers of shape {shape}, got {priced!r:.80}")
        out: F64 = np.array(priced, dtype=np.float64)
        known = np.flatnonzero(truth >= 0)
        what = f"of true states {truth.tolist()}"
        if not np.isfinite(out[known]).all() or out[known].min(initial=0.0) < 0.0:
            raise Complaint(f"prices {what} are finite and not negative, got {out[known].tolist()}")
        if out[known, truth[known]].any():
            raise Complaint(f"true states cost 0; prices {what} are {out.tolist()}")
        return out

    def parts(self, truth: I32) -> list[I32]:
        """Return the true states of each example."""
        return np.split(truth, np.cumsum(self.sizes)[:-1]) if self.sizes else []


def _prices(trial: LossTrial) -> None:
    """Ask once: finite, not negative, 0 at the truth, and something for another state of some variable."""
    priced = trial.prices(trial.truth, trial.sizes)
    if len(priced) > 2 and not priced.any():
        raise Complaint("no state of any variable costs anything")


def _singles(trial: LossTrial) -> None:
    """Ask for all examples, for each alone, and for all in another order."""
    _alike(trial, trial.truth)


def _unknown(trial: LossTrial) -> None:
    """Hide some true states (-1): the others still cost 0, in a batch as alone, whatever unknown ones follow."""
    hidden = np.where(trial.hidden, np.int32(-1), trial.truth)
    _alike(trial, hidden)
    trial.prices(np.full_like(trial.truth, -1), trial.sizes)
    for truth in filter(len, trial.parts(hidden)):
        longer = np.append(truth, np.full(3, -1, np.int32))
        one, other = trial.prices(truth, [len(truth)]), trial.prices(longer, [len(longer)])[: len(truth)]
        if not np.allclose(one[truth >= 0], other[truth >= 0], rtol=1e-12, atol=0.0):
            said = f"{one.tolist()}, and {other.tolist()} if three unknown ones follow; a mean is over the known ones"
            raise Complaint(f"an example of true states {truth.tolist()} has prices {said}")


def _alike(trial: LossTrial, truth: I32) -> None:
    parts, known = trial.parts(truth), truth >= 0
    whole = trial.prices(truth, trial.sizes)
    for turned in (False, True):
        order = range(len(parts))[:: -1 if turned else 1]
        moved = [parts[i] for i in order]
        together = trial.prices(np.concatenate([truth[:0], *moved]), [len(one) for one in moved])
        ends = np.cumsum([0, *map(len, moved)])
        for place, i in enumerate(order):
            start = sum(trial.sizes[:i])
            rows = slice(start, start + trial.sizes[i])
            alone = trial.prices(parts[i], [trial.sizes[i]])
            for priced in (alone, together[ends[place] : ends[place + 1]]):
                if not np.allclose(priced[known[rows]], whole[rows][known[rows]], rtol=1e-12, atol=0.0):
                    said = f"{whole[rows].tolist()} in a batch, {priced.tolist()} alone or in another batch"
                    raise Complaint(f"an example of true states {parts[i].tolist()} has prices {said}")


def _twice(trial: LossTrial) -> None:
    """Ask again, with other true states in between and what was returned overwritten; the first result stays."""
    first = trial.prices(trial.truth, trial.sizes)
    kept: Any = trial.function(trial.truth.copy(), trial.n_states, _ptr(trial), **trial.options)
    trial.prices((trial.truth + 1) % trial.n_states, trial.sizes)
    if not np.array_equal(kept, first):
        raise Complaint("a later call changed the array that an earlier one returned")
    if isinstance(kept, np.ndarray) and kept.flags.writeable:
        kept[...] = -1
    if not np.array_equal(trial.prices(trial.truth, trial.sizes), first):
        raise Complaint("asked twice, it gives different prices")


def _ptr(trial: LossTrial) -> I64:
    return pointers(np.array(trial.sizes, dtype=np.int64))


class LossKit(Kit[LossSpec, Rule[LossSpec, LossTrial], LossTrial]):
    """The kit of losses; a case is a batch of examples."""

    kind = "loss"
    rules = (
        Rule("prices", _prices), Rule("single examples", _singles), Rule("unknown states", _unknown),
        Rule("two calls", _twice),
    )  # fmt: skip

    def make(self, factory: Any) -> PackedLoss:
        """Return the function, for many examples."""
        arguments = ("truth", "n_states", "ptr") if self.spec.packed else ("truth", "n_states")
        require_call(factory, self.options, arguments, "called as")
        return packed_loss(self.spec, factory)

    def prepare(self) -> None:
        """Make the batches."""
        for n_states in STATES:
            for number, sizes in enumerate(BATCHES):
                seed = 100 * self.report.seed + number
                self.cases.append(LossTrial(self.made, self.options, sizes, n_states, seed))


def check_loss(
    loss: str | LossSpec,
    *,
    seed: int = 0,
    options: dict[str, Any] | None = None,
    **how: Unpack[HowToRun],
) -> ConformanceReport:
    """Check a loss: zero at the truth, the same alone and in any batch, called once or often, with unknown states.

    Parameters
    ----------
    loss : str or LossSpec
        A registered name, or a description that need not be registered.
    seed : int
        The same seed gives the same true states.
    options : dict, optional
        Keywords of ``CustomLoss`` that the loss is called with.
    **how
        Which checks run, and how: :class:`~ssvm_dsl.testing.kit.HowToRun`.

    Raises
    ------
    PluginError, OptionError
        Unknown loss; unknown check.  (Faults of the loss are in the report.)
    """
    spec = loss if isinstance(loss, LossSpec) else registry().find(LossSpec, loss)
    n_batches = len(STATES) * len(BATCHES)
    return LossKit(spec, seed=seed, n_problems=n_batches, options=options).run(**how)
