"""The expected cost of a fit or a prediction, reported before it begins, with faster alternatives.

Expected times are those of backends (``cost / speed``, within a few times of the truth as a rule) for each example and
pass.  Nothing is chosen by them: a weaker guarantee is the user's choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from ssvm_dsl.errors import NoBackendError
from ssvm_dsl.inference.planning.planner import plan
from ssvm_dsl.inference.planning.plans import Plan
from ssvm_dsl.ir.features import SparseRows
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.ir.need import Guarantee, Need
from ssvm_dsl.learning.risks.hinges.relaxed import CHUNK
from ssvm_dsl.learning.risks.kinds import Risk, risks
from ssvm_dsl.memory import fitting_share, require_memory
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.scores.parameter_map import ParameterMap
from ssvm_dsl.units import seconds_text
from ssvm_dsl.values import Value

#: Expected seconds from which on a user is warned before the fit, and from which on faster alternatives are tried:
#: limits may be short.
LONG, SHORT = 30.0, 1.0

#: What fits are called.
FIT = "this fit"

#: Passes over the data that fits take, as a rule.
PASSES = 20.0

#: Bytes of the flat arrays that compiled trainers read: for each factor of a shape; for each example and feature map.
SHAPE_BYTES, EXAMPLE_BYTES = 30.0, 32.0

#: Multiplications a second for dense and sparse features, and how many a feature takes: for a score and for a sum.
DENSE_SPEED, SPARSE_SPEED, TIMES = 4e9, 1e9, 4.0

#: A gap that predictions rarely show.
LOOSE = 0.01

#: What is not so many times faster is not worth a word.
FASTER = 3.0

#: The setting that leaves the choice of the backend to the planner: worth a word where a slower one was named.
UNNAMED = "backend='auto'"

#: What becomes of the certificate of a fit where something weaker is set.
CERTIFICATES = {
    "guarantee='bound'": "its gap includes the gap of the bounds",
    "guarantee='heuristic'": "without a gap",
    "risk='relaxed'": "an upper bound of this risk, whose gap closes",
}

#: Variables of a graph with all pairs are in more factors than this; with fewer of them answers are found much sooner.
DENSE = 16.0


@dataclass(frozen=True, eq=False)
class CostEstimate(Value):
    """Expected time.

    Parameters
    ----------
    what : str
        What takes it, e.g. ``"this fit"``.
    backend : str
    n_examples : int
    pass_seconds : float
        One answer for every example; ``nan`` if the backend gives no cost.
    passes : float
    faster : tuple of (str, str, float)
        The settings, the backend that ``auto`` would take with them, and its expected seconds.
    dense : bool
        Whether variables are in many factors each.
    feature_seconds : float
        The part of ``pass_seconds`` for products of features and weights.
    """

    what: str
    backend: str
    n_examples: int
    pass_seconds: float
    passes: float = 1.0
    faster: tuple[tuple[str, str, float], ...] = ()
    dense: bool = False
    feature_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """The whole time."""
        return self.passes * self.pass_seconds

    def __str__(self) -> str:
        who = self.backend if self.pass_seconds > 2.0 * self.feature_seconds else "the products of features and weights"
        needs = "needs" if who == self.backend else "take"
        each = f"{who} {needs} about {seconds_text(self.pass_seconds)} for {self.n_examples} examples"
        if self.passes == 1.0:
            return each
        return f"{each}, about {seconds_text(self.seconds)} for {self.passes:g} passes"

    def warning(self, limit: float | None, tol: float = 0.0) -> str:
        """Return the message to print beforehand; empty if the work is short, or within its limit.

        Parameters
        ----------
        limit : float, optional
            Seconds after which it will be ended; ``None`` or ``inf`` without an end.
        tol : float
            The relative gap at which a fit ends.
        """
        limit, seconds = None if limit == np.inf else limit, self.seconds
        if limit is not None and seconds <= limit:
            return ""
        if not (seconds > LONG or (limit is not None and self.pass_seconds > limit)):
            return ""
        text = f"{self.what} may take about {seconds_text(seconds)}: {self}"
        if limit is not None:
            text += f"; the limit of {seconds_text(limit)} will end it {self._reached(limit)}"
        quicker = [f"{how} ({', '.join(self._facts(how, name, s))})" for how, name, s in self.faster]
        quicker += ["factors of fewer pairs"] if self.dense else []
        quicker = quicker or ["fewer examples, states or factors"]
        quicker += [f"tol={LOOSE:g}"] if self._is_fit and 0.0 < tol < LOOSE else []
        return f"{text}\n  faster: {'; '.join(quicker)}"

    @property
    def _is_fit(self) -> bool:
        return self.what == FIT

    def _reached(self, limit: float) -> str:
        """Return a sentence on how far it gets within its limit."""
        if not self._is_fit:
            return "before it is done"
        if limit < self.pass_seconds:
            return "within the first pass, so that no useful gap can be expected"
        return f"after about {limit / self.pass_seconds:.0f} passes"

    def _facts(self, how: str, name: str, seconds: float) -> list[str]:
        """Return a sentence on a faster alternative."""
        facts = [name, f"about {seconds_text(seconds)}"]
        return [*facts, CERTIFICATES[how]] if self._is_fit and how in CERTIFICATES else facts


def fit_cost_estimate(
    need: Need, chosen: Plan, risk: Risk, loss: LossTerm, spec: TrainerSpec, power: float, max_passes: float,
    features: float = 0.0,
) -> CostEstimate:  # fmt: skip
    """Return the expected cost of a fit.

    Parameters
    ----------
    need : Need
        The need.
    chosen : Plan
    risk : Risk
    loss : LossTerm
        The declared loss.
    spec : TrainerSpec
    power : float
        Of the risk.
    max_passes : float
    features : float
        Seconds of a pass for products of features and weights.
    """
    passes = min(PASSES, max_passes)
    dense = need.n_slots > DENSE * need.n_variables
    seconds = chosen.seconds + features
    made = CostEstimate(FIT, chosen.backend, need.n_examples, seconds, passes, dense=dense, feature_seconds=features)
    if not passes * chosen.seconds > SHORT:
        return made
    others = _distinct(
        [(how, *found) for how, other in _weaker(need, risk, loss, spec, power) if (found := _time(other, passes))]
    )
    others = [(how, name, found + passes * features) for how, name, found in others]
    quick = sorted((one for one in others if FASTER * one[2] <= made.seconds), key=lambda one: one[2])
    return replace(made, faster=tuple(quick))


def feature_seconds(
    parameters: ParameterMap, dense_speed: float = DENSE_SPEED, sparse_speed: float = SPARSE_SPEED
) -> float:
    """Return about how long it takes to score all examples, and to sum their features; speeds in numbers a second."""
    total = 0.0
    for fmap in parameters.maps:
        rows = fmap.features
        if isinstance(rows, SparseRows):
            total += TIMES * len(rows.indices) * fmap.n_basis / sparse_speed
        elif rows is not None:
            total += TIMES * float(np.prod(rows.shape)) * fmap.n_basis / dense_speed
    return total


def predict_cost_estimate(need: Need, chosen: Plan, n: int) -> CostEstimate:
    """Return the expected cost of answers for n examples, from the plan for the first few."""
    seconds = chosen.seconds * n / max(need.n_examples, 1)
    made = CostEstimate("this prediction", chosen.backend, n, seconds)
    if not made.seconds > SHORT:
        return made
    settings = [(UNNAMED, need)]
    if need.guarantee is Guarantee.EXACT:
        weaker = (Guarantee.BOUND, Guarantee.HEURISTIC)
        settings += [(f"guarantee='{one.value}'", replace(need, guarantee=one)) for one in weaker]
    others = []
    for how, other in settings:
        cheaper = _time(other, n / max(need.n_examples, 1))
        if cheaper is not None and FASTER * cheaper[1] <= made.seconds:
            others.append((how, *cheaper))
    return replace(made, faster=tuple(_distinct(others)))


def _distinct(others: list[tuple[str, str, float]]) -> list[tuple[str, str, float]]:
    """Leave out a weaker guarantee that the same backend would answer for as the stronger one before it."""
    known: set[tuple[str, str]] = set()
    out = []
    for how, name, seconds in others:
        key = (how.partition("=")[0], name)
        if key not in known:
            out.append((how, name, seconds))
        known.add(key)
    return out


def _weaker(need: Need, risk: Risk, loss: LossTerm, spec: TrainerSpec, power: float) -> Iterator[tuple[str, Need]]:
    """Yield (settings, need) of requirements that are weaker than the given ones: without the named backend, too."""
    yield UNNAMED, need
    above = risks().get(risk.spec.upper_bound)
    if above is not None and spec.needs.covers(above.spec, power) and above.takes(loss):
        yield f"risk='{above.name}'", replace(need, tasks=above.asks(loss).tasks, guarantee=Guarantee.BOUND)
    weakest = risk.asks(loss, spec.needs).weakest
    for guarantee in (Guarantee.BOUND, Guarantee.HEURISTIC):
        if guarantee is not need.guarantee and need.guarantee.covers(guarantee) and guarantee.covers(weakest):
            yield f"guarantee='{guarantee.value}'", replace(need, guarantee=guarantee)


def _time(need: Need, passes: float) -> tuple[str, float] | None:
    """Return (backend that ``auto`` takes, seconds of some passes); ``None`` where nothing fits or is known."""
    try:
        chosen = plan(need)
    except NoBackendError:
        return None
    return None if np.isnan(chosen.seconds) else (chosen.backend, passes * chosen.seconds)


def require_fit_memory(parameters: ParameterMap, chosen: Plan, risk: Risk, spec: TrainerSpec, model: str) -> float:
    """Refuse a fit that exceeds the memory, before it allocates; return the bytes it takes in addition to the data.

    Raises
    ------
    TooLargeError
        Names settings that would fit.
    """
    program = parameters.program
    n_scores = program.n_states
    for group in program.groups:
        n_scores += group.n_tables * group.n_configs
    n_bytes = 8.0 * n_scores * (2 if risk.relaxed else 1) + chosen.n_bytes
    n_bytes += 8.0 * spec.n_vectors * parameters.dim + 4.0 * spec.n_labellings * program.n_variables
    for fmap in parameters.maps:
        n_bytes += SHAPE_BYTES * len(fmap.shapes.scope) + EXAMPLE_BYTES * program.n_examples
        n_bytes += fmap.features.indices.nbytes if isinstance(fmap.features, SparseRows) else 0.0
    if risk.relaxed or spec.needs.asks_marginals:
        ids, n_values = np.arange(program.n_examples), program.n_states
        for group in program.groups:
            n_values += int(group.answer_rows(ids).sum()) * group.n_configs
        # a relaxed chunk's marginals, joined and rounded, for the objective; those that the trainer keeps
        n_bytes += 8.0 * (6 * min(n_values, CHUNK) + spec.n_marginals * n_values if risk.relaxed else n_values)
    what = f"training of model {model} with trainer '{spec.name}' and backend '{chosen.backend}'"
    fits = int(program.n_examples * fitting_share(n_bytes))
    instead = f"pass fewer examples (about {fits} would fit), or set another trainer or backend"
    if spec.n_vectors * parameters.dim * 8.0 > 0.5 * n_bytes:
        instead = "most of it are vectors of weights: declare fewer states or features, or set another trainer"
    require_memory(n_bytes, what, instead)
    return n_bytes
