"""``CRF``: a conditional random field with the constructor, the data and the attributes of ``sklearn_crfsuite.CRF``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain as joined
from itertools import pairwise
from pathlib import Path
from struct import Struct, error
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ssvm_dsl.array_types import F64
from ssvm_dsl.errors import FileFormatError, OptionError, TooLargeError
from ssvm_dsl.files.opening import as_path
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor
from ssvm_dsl.lang.inputs import Attributes
from ssvm_dsl.lang.losses.label_losses import Hamming
from ssvm_dsl.lang.model import Model
from ssvm_dsl.lang.outputs.labels import Label
from ssvm_dsl.lang.outputs.targets import chain
from ssvm_dsl.learning.answers import label_lists
from ssvm_dsl.learning.driver.certificate import FitReport
from ssvm_dsl.learning.estimator import Estimator, not_fitted
from ssvm_dsl.learning.estimators.svm import StructuredSVM
from ssvm_dsl.models.classes import classes_of
from ssvm_dsl.plugin_api.training import TrainingEvent

# -- models that CRFsuite wrote ------------------------------------------------------------------------------------
#
# Read the weights of a ``.crfsuite`` file.
#
# A file (CRFsuite 0.12, little-endian) is a header of 48 bytes, which holds the offsets of chunks: features, each of a
# type (0: state, 1: transition), a source (attribute or label), a label and a weight; and two tables of strings (labels
# and attributes), whose array of offsets leads from a number to its string.

#: Magic, size, type, version; numbers of features, labels and attributes; offsets of features, labels, attributes ...
_HEADER = Struct("<4sI4sIIIIIIIII")
#: Of a table of strings: magic, size, flag, byte order, number of strings, offset of the array of their offsets.
_TABLE = Struct("<4sIIIII")
#: Of a string: its number, and its length with the final zero.
_STRING = Struct("<II")
_CHUNK = Struct("<4sII")
_FEATURE = np.dtype([("kind", "<u4"), ("source", "<u4"), ("label", "<u4"), ("weight", "<f8")])

#: What the third word of a table is in a file of this byte order.
_ORDER = 0x62445371


@dataclass(frozen=True, eq=False)
class CrfsuiteModel:
    """The content of a CRFsuite file.

    Parameters
    ----------
    labels, attributes : list of str
    state : dict of (attribute, label) to float
    transitions : dict of (label, label) to float
    """

    labels: list[str]
    attributes: list[str]
    state: dict[tuple[str, str], float]
    transitions: dict[tuple[str, str], float]


def read_crfsuite(path: str | Path) -> CrfsuiteModel:
    """Return labels, attributes and weights of a model that CRFsuite wrote.

    Raises
    ------
    FileFormatError
        It is no such file, or damaged.
    """
    try:
        data = as_path(path, "read_crfsuite").read_bytes()
        magic, size, kind, _, _, n_labels, n_attributes, features, labels, attributes, _, _ = _HEADER.unpack_from(data)
        if (magic, kind) != (b"lCRF", b"FOMC") or size > len(data):
            raise ValueError(f"expected a model of CRFsuite, found {data[:12]!r}")
        names = list(_strings(data, labels, n_labels)), list(_strings(data, attributes, n_attributes))
        return _model(*names, _features(data, features))
    except (OSError, error, ValueError, IndexError) as err:
        raise FileFormatError(f"{path}: not a readable model of CRFsuite ({err})") from err


def _strings(data: bytes, start: int, n: int) -> Iterator[str]:
    """Yield the strings of a table by number."""
    magic, _, _, order, n_strings, offsets = _TABLE.unpack_from(data, start)
    if magic != b"CQDB" or order != _ORDER or n_strings < n:
        raise ValueError("a table of strings is malformed")
    for offset in np.frombuffer(data, dtype="<u4", count=n, offset=start + offsets).tolist():
        place = start + offset
        _, length = _STRING.unpack_from(data, place)
        text = data[place + _STRING.size : place + _STRING.size + length]
        if len(text) != length or not length:
            raise ValueError("a string ends beyond the file")
        yield text[:-1].decode("utf-8", "surrogateescape")


def _features(data: bytes, start: int) -> np.ndarray:
    """Return the records of all features."""
    magic, _, n = _CHUNK.unpack_from(data, start)
    if magic != b"FEAT":
        raise ValueError("the list of features is not where it should be")
    return np.frombuffer(data, dtype=_FEATURE, count=n, offset=start + _CHUNK.size)


def _model(labels: list[str], attributes: list[str], features: np.ndarray) -> CrfsuiteModel:
    """Return the weights by name."""
    if not np.isfinite(features["weight"]).all():
        raise ValueError("weights that are not finite")
    found: tuple[dict[tuple[str, str], float], ...] = ({}, {})
    sources = (attributes, labels)
    for kind, source, label, weight in features.tolist():
        found[kind][sources[kind][source], labels[label]] = weight
    return CrfsuiteModel(labels, attributes, *found)


# -- parameters of ``sklearn_crfsuite.CRF`` as options of a structured SVM -----------------------------------------

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


#: Most entries of the table that says which transitions have weights.
MOST_ENTRIES = 4_000_000


class CRF(Estimator):
    """Conditional random field over sequences, in place of ``sklearn_crfsuite.CRF``.

    As there, weights exist for pairs of an attribute and a label, and for transitions, that occur in training, and
    there is no bias.  ``algorithm`` is ``lbfgs`` or ``l2sgd`` (``c2 |w|^2 - sum_i log p(y_i | x_i)``, to a certified
    relative gap of ``min(epsilon, delta)``, by default 1e-5), ``ap`` (averaged perceptron), ``pa`` or ``arow``.

    Parameters
    ----------
    algorithm, all_possible_states, all_possible_transitions, c1, c2, max_iterations, num_memories, epsilon, delta, \
pa_type, c, averaging, verbose, model_filename
        As in ``sklearn_crfsuite``; ``model_filename`` is a file of CRFsuite whose weights are read.
    min_freq, period, linesearch, max_linesearch, calibration_eta, calibration_rate, calibration_samples, \
calibration_candidates, calibration_max_trials, error_sensitive, variance, gamma, keep_tempfiles, trainer_cls
        Accepted with values that change nothing here (``None``, 0); other values raise an error with advice.

    Attributes
    ----------
    svm_ : StructuredSVM
        The fitted estimator, with ``report_``, ``weights_``, ``save`` ...
    classes_ : list of str, or of int
        The labels, in the order in which they were first met; booleans are 0 and 1.
    state_features_, transition_features_ : dict of (str, str) to float
        Weights by (attribute, label) and (label, label); those that are 0 are left out.

    Examples
    --------
    >>> crf = CRF(c2=0.1, all_possible_transitions=True).fit(X_train, y_train)
    >>> crf.predict(X_test), crf.transition_features_
    """

    _svm: StructuredSVM
    model_filename: str | None
    all_possible_states: bool | None
    all_possible_transitions: bool | None

    def __init__(
        self,
        algorithm: str | None = None,
        min_freq: float | None = None,
        all_possible_states: bool | None = None,
        all_possible_transitions: bool | None = None,
        c1: float | None = None,
        c2: float | None = None,
        max_iterations: int | None = None,
        num_memories: int | None = None,
        epsilon: float | None = None,
        period: int | None = None,
        delta: float | None = None,
        linesearch: str | None = None,
        max_linesearch: int | None = None,
        calibration_eta: float | None = None,
        calibration_rate: float | None = None,
        calibration_samples: int | None = None,
        calibration_candidates: int | None = None,
        calibration_max_trials: int | None = None,
        pa_type: int | None = None,
        c: float | None = None,
        error_sensitive: bool | None = None,
        averaging: bool | None = None,
        variance: float | None = None,
        gamma: float | None = None,
        verbose: bool = False,
        model_filename: str | None = None,
        keep_tempfiles: bool = False,
        trainer_cls: Any = None,
    ) -> None:
        for name, value in locals().copy().items():
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    @property
    def svm_(self) -> StructuredSVM:
        """The fitted estimator, or one with the weights of a CRFsuite file."""
        if "_svm" not in vars(self):
            if self.model_filename is None:
                raise not_fitted("this CRF is not fitted yet; call fit first, or name a model_filename")
            self._svm = svm_of(read_crfsuite(self.model_filename))
        return self._svm

    def __sklearn_is_fitted__(self) -> bool:
        """Return whether there are weights."""
        return "_svm" in vars(self) or self.model_filename is not None

    def fit(self, X: Sequence[Any], y: Sequence[Any], X_dev: Any = None, y_dev: Any = None) -> Self:
        """Learn from sequences of attributes and of labels.

        Raises
        ------
        DataError
            Bad data, named with the example.
        OptionError
            A parameter that has no meaning here; ``X_dev``, on which CRFsuite only prints scores.
        """
        if X_dev is not None or y_dev is not None:
            raise OptionError("X_dev: CRFsuite only prints scores of it; call score(X_dev, y_dev) after fit")
        X, y = _lists(X), _lists(y)
        options = svm_options(self.get_params(deep=False), max(len(X), 1))
        self._svm = StructuredSVM(self._declared(y), **options).fit(X, y)
        return self

    def _declared(self, y: list[list[Any]]) -> type[Model]:
        """Return the model for the labels of some sequences."""
        order = {name: k for k, name in enumerate(dict.fromkeys(joined.from_iterable(y)))}
        labels: list[Any] = sorted(classes_of(y), key=order.__getitem__)
        transitions = None if self.all_possible_transitions else _transitions(y, labels)
        return declare(labels, transitions, bool(self.all_possible_states))

    def predict(self, X: Sequence[Any]) -> NDArray[Any]:
        """Return the best labels of each sequence: an array of lists."""
        return _array(self.svm_._answers(_lists(X), label_lists).listed if len(X) else [])

    def predict_single(self, xseq: Sequence[Any]) -> list[Any]:
        """Return the best labels of a sequence."""
        found: list[Any] = self.predict([xseq])[0]
        return found

    def predict_marginals(self, X: Sequence[Any]) -> NDArray[Any]:
        """Return for each sequence, at each position, the probability of each label: an array of lists of dicts."""
        marginals = self.svm_.predict_marginals(_lists(X)) if len(X) else []
        return _array([[dict(zip(self.classes_, row, strict=True)) for row in one.tolist()] for one in marginals])

    def predict_marginals_single(self, xseq: Sequence[Any]) -> list[dict[Any, float]]:
        """Return the probabilities of the labels at each position of a sequence."""
        found: list[dict[Any, float]] = self.predict_marginals([xseq])[0]
        return found

    def score(self, X: Sequence[Any], y: Sequence[Any]) -> float:
        """Return the share of right labels; those that training never saw count as wrong, with a warning."""
        return self.svm_.score(_lists(X), _lists(y)) if len(X) else 0.0

    @property
    def report_(self) -> FitReport:
        """Objective, gap and time of the fit.

        The objective of CRFsuite is ``report_.primal`` divided by C; with ``c2 = 0``, times the number of sequences.
        """
        return self.svm_.report_

    @property
    def classes_(self) -> list[Any]:
        """The labels, in the order in which they were first met."""
        return list(self.svm_.model.declaration.outputs[0].classes or ())

    @property
    def attributes_(self) -> list[str]:
        """The names of attributes."""
        return list(self.svm_.weights_.names("state")[1])

    @property
    def num_attributes_(self) -> int:
        """The number of attributes."""
        return len(self.attributes_)

    @property
    def state_features_(self) -> dict[tuple[Any, Any], float]:
        """The weights by (attribute, label), those that are not 0."""
        from scipy.sparse import coo_array

        attributes, labels, weights = self.attributes_, self.classes_, coo_array(self.svm_.weights_["state"])
        entries = zip(weights.col.tolist(), weights.row.tolist(), weights.data.tolist(), strict=True)
        return {(attributes[a], labels[k]): w for a, k, w in entries if w}

    @property
    def transition_features_(self) -> dict[tuple[Any, Any], float]:
        """The weights by (label, next label), those that are not 0."""
        labels, weights = self.classes_, self.svm_.weights_
        if "transition" not in weights:
            return {}
        transitions = weights["transition"]
        form = next(one.form for one in self.svm_.model.declaration.factors if one.name == "transition")
        table = np.tensordot(transitions, np.reshape(form.values, form.shape), axes=1) if form.shape else transitions
        return {(labels[a], labels[b]): float(table[a, b]) for a, b in np.argwhere(table).tolist()}


def declare(labels: Sequence[str] | Sequence[int], transitions: F64 | None, all_states: bool) -> type[Model]:
    """Return the model of CRFsuite.

    Parameters
    ----------
    labels : list of str, or of int
    transitions : ndarray of float64, shape (p, n_labels, n_labels), optional
        A table for each transition that has a weight; without it all have.
    all_states : bool
        Whether all pairs of an attribute and a label have weights, not the observed ones alone.
    """

    class ConditionalField(Model):
        T = Dim()
        x = Attributes(T)
        y = Label(T, list(labels))
        state = Factor(y, features=x) if all_states else Factor(y, features=x, weights="observed")
        if transitions is None:
            transition = Factor(chain(y))
        elif len(transitions):
            transition = Factor(chain(y), form=transitions)
        loss = Hamming(y)

    return ConditionalField


def svm_of(model: CrfsuiteModel) -> StructuredSVM:
    """Return a structured SVM with the weights of a model of CRFsuite."""
    attributes = {name: k for k, name in enumerate(model.attributes)}
    labels = {name: k for k, name in enumerate(model.labels)}
    state, transition = np.zeros((len(labels), len(attributes))), np.zeros((len(labels), len(labels)))
    for (name, label), weight in model.state.items():
        state[labels[label], attributes[name]] = weight
    for (one, other), weight in model.transitions.items():
        transition[labels[one], labels[other]] = weight
    weights = {"state": state, "transition": transition}
    return StructuredSVM.from_weights(declare(model.labels, None, True), weights, fitted_on=[[model.attributes]])


def _transitions(y: Iterable[list[Any]], labels: Sequence[Any]) -> F64:
    """Return a table for each transition that occurs."""
    number = {name: k for k, name in enumerate(labels)}
    seen = sorted({(number[a], number[b]) for one in y for a, b in pairwise(one)})
    if len(seen) * len(labels) ** 2 > MOST_ENTRIES:
        text = f"{len(seen)} observed transitions of {len(labels)} labels"
        raise TooLargeError(f"{text} take too much memory; set all_possible_transitions=True")
    out = np.zeros((len(seen), len(labels), len(labels)))
    for k, (a, b) in enumerate(seen):
        out[k, a, b] = 1.0
    return out


def _lists(sequences: Sequence[Any]) -> list[list[Any]]:
    """Return sequences as lists: arrays and tuples, too, are what CRFsuite takes."""
    return [one if type(one) is list else list(one) for one in sequences]


def _array(lists: list[Any]) -> NDArray[Any]:
    """Return an array of lists."""
    out = np.empty(len(lists), dtype=object)
    for i, one in enumerate(lists):
        out[i] = one
    return out
