"""Parameters of ``sklearn_crfsuite.CRF`` as options of a structured SVM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ssvm_dsl.errors import OptionError
from ssvm_dsl.plugin_api.training import TrainingEvent

#: Updates of the trainer ``perceptron`` by CRFsuite's ``pa_type``.
_PASSIVE_AGGRESSIVE = {None: "pa-i", 0: "pa", 1: "pa-i", 2: "pa-ii"}

#: Parameters of searches that are done differently here; only their defaults are taken.
WITHOUT_MEANING = {
    **dict.fromkeys(("period", "linesearch", "max_linesearch"), "the line search and its stopping rule are our own"),
    **dict.fromkeys(
        [f"calibration_{name}" for name in ("eta", "rate", "samples", "candidates", "max_trials")],
        "l2sgd is the trainer svrg here, which chooses its step size itself",
    ),
    "min_freq": "leave rare attributes out of X",
    "error_sensitive": "the loss of pa is the number of wrong labels",
    "variance": "arow starts from variance 1",
    "gamma": "arow has c in its place",
    "trainer_cls": "the trainer is chosen by algorithm",
}

#: With an L1 penalty training ends as CRFsuite's does: after so many steps that gained less than this share.
_PERIOD, _DELTA = 10, 1e-5

#: By algorithm: passes, as many as CRFsuite makes by default.
_PASSES = {"lbfgs": 10_000, "l2sgd": 1000, "ap": 100, "pa": 100, "arow": 100}


def svm_options(crf: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Return the options of the structured SVM that corresponds to a CRF of these parameters on n sequences.

    CRFsuite minimises ``c1 |w|_1 + c2 |w|^2 - sum_i log p(y_i | x_i)``: that is risk ``log`` with ``C = 1 / (2 c2)``
    and ``l1 = c1 C``, and its objective is ours divided by C.  With ``c2 = 0`` it is ``lam = 0`` and ``l1 = c1 / n``,
    and its objective is ours times n.

    Raises
    ------
    OptionError
        A parameter has no counterpart here; the message says what to do.
    """
    algorithm = "lbfgs" if crf["algorithm"] is None else crf["algorithm"]
    if algorithm not in _PASSES:
        raise OptionError(f"algorithm must be one of {', '.join(map(repr, _PASSES))}, got {algorithm!r}")
    for name, why in WITHOUT_MEANING.items():
        if crf[name] not in ((None, True) if name == "error_sensitive" else (None, 0)):
            raise OptionError(f"{name}={crf[name]!r} has no meaning here: {why}; leave it out")
    if crf["c1"] and algorithm != "lbfgs":
        raise OptionError(f"c1={crf['c1']!r} is for algorithm='lbfgs', got {algorithm!r}")
    common = {"verbose": bool(crf["verbose"]), "max_passes": crf["max_iterations"] or _PASSES[algorithm]}
    return common | (_of_likelihood(crf, algorithm, n) if algorithm in ("lbfgs", "l2sgd") else _online(crf, algorithm))


def _of_likelihood(crf: Mapping[str, Any], algorithm: str, n: int) -> dict[str, Any]:
    """Return the options of training by likelihood."""
    c1, c2 = crf["c1"] or 0.0, 1.0 if crf["c2"] is None else crf["c2"]
    if not (isinstance(c1, int | float) and c1 >= 0):
        raise OptionError(f"c1 must be a non-negative number, got {c1!r}")
    if not (isinstance(c2, int | float) and c2 >= 0 and c1 + c2 > 0):
        text = f"c2 must be a number above 0 (or 0 if c1 is above 0), got {c2!r}"
        raise OptionError(f"{text}: without it there may be no best weights")
    given = [crf[name] for name in ("epsilon", "delta") if crf[name] is not None]
    out: dict[str, Any] = {"risk": "log", "tol": min(given, default=1e-5)}
    out |= {"C": 0.5 / c2, "l1": 0.5 * c1 / c2} if c2 else {"lam": 0.0, "l1": c1 / n}
    if algorithm == "l2sgd":
        return out | {"trainer": "svrg"}
    out |= {"callbacks": [Stalled(_DELTA if crf["delta"] is None else crf["delta"])]} if c1 else {}
    return out | {"trainer": "lbfgs", "trainer_options": {"memory": crf["num_memories"] or 6}}


class Stalled:
    """A callback that ends training when the last ten steps gained too little, the rule of CRFsuite.

    Beside an L1 penalty the gap closes long after the objective has settled: the optimum is at a kink.

    Parameters
    ----------
    delta : float
        The least gain, relative to the objective.
    """

    def __init__(self, delta: float) -> None:
        self.delta, self._values = delta, list[float]()

    def __call__(self, event: TrainingEvent) -> bool:
        values = self._values
        values.append(event.best_primal)
        return len(values) > _PERIOD and values[-1 - _PERIOD] - values[-1] < self.delta * abs(values[-1])


def _online(crf: Mapping[str, Any], algorithm: str) -> dict[str, Any]:
    """Return the options of the perceptron and its kin."""
    if algorithm == "pa" and crf["pa_type"] not in _PASSIVE_AGGRESSIVE:
        raise OptionError(f"pa_type is 0, 1 or 2, got {crf['pa_type']!r}")
    averaging = True if crf["averaging"] is None else bool(crf["averaging"])
    options: dict[str, Any] = {"averaging": averaging}
    if algorithm == "ap":
        return {"trainer": "perceptron", "risk": "perceptron", "trainer_options": options | {"update": "perceptron"}}
    update = _PASSIVE_AGGRESSIVE[crf["pa_type"]] if algorithm == "pa" else "arow"
    options |= {"update": update} | ({} if crf["c"] is None else {"aggressiveness": crf["c"]})
    return {"trainer": "perceptron", "risk": "margin", "trainer_options": options}
