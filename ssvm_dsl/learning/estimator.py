"""``Estimator``: an estimator of scikit-learn that does not import scikit-learn.

Its ``BaseEstimator`` brings ``scipy.stats`` and pandas with it: 1.0 s of processor time and 130 MB, as much again as
the import of an estimator takes without it, for every process, whether it uses a tool of scikit-learn or not.  Nobody
can ask ``isinstance(svm, BaseEstimator)``, or for metadata routing, without having imported it, though: once it is
loaded, ``BaseEstimator`` becomes a base class of :class:`Estimator`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from copy import deepcopy
from inspect import signature
from typing import TYPE_CHECKING, Any, ClassVar, Self

from ssvm_dsl.calls import CheckedCalls, unknown_keyword
from ssvm_dsl.errors import KeywordError
from ssvm_dsl.learning.habits import HABITS, HABITS_OF_CALLS, plug_in_option

#: Parameters that are dicts of options: ``set_params(trainer_options__keep=3)`` sets one of them.
OPTIONS = ("trainer_options", "backend_options", "executor_options", "latent_options", "regularization")


class NotFitted(ValueError, AttributeError):
    """An estimator is asked before ``fit``: scikit-learn's error of that name, where scikit-learn is not loaded."""


def not_fitted(text: str) -> Exception:
    """Return the error for an estimator that is not fitted; scikit-learn is not loaded for it."""
    loaded = sys.modules.get("sklearn.exceptions")
    made: type[Exception] = getattr(loaded, "NotFittedError", NotFitted)
    return made(text)


class Estimator(CheckedCalls):
    """An estimator whose parameters are those of ``__init__``, each kept in an attribute of its name.

    All estimators are scikit-learn's ``BaseEstimator`` from the first moment at which one is made, or asked for its
    parameters, tags or picture, while scikit-learn is loaded.
    """

    def __new__(cls, *args: Any, **named: Any) -> Any:
        """Make an instance, of scikit-learn's class where that is loaded."""
        join_scikit_learn()
        return super().__new__(cls)

    _memory_advice: ClassVar = {
        "": ("prediction", "ask for fewer examples at once, or set another backend"),
        "fit": ("fit", "give it fewer examples, or a model with fewer states, factors or features"),
        "partial_fit": ("partial_fit", "give it smaller batches"),
        "predict_kbest": ("prediction", "ask for fewer labellings, or examples at once, or set another backend"),
        "prediction_plan": ("prediction_plan", "ask for fewer examples, or set another backend"),
        "best_score": ("best_score", "ask for fewer examples at once, or set another backend"),
        "load": ("reading the model", "it does not fit this machine"),
    }

    if TYPE_CHECKING:  # subclasses list their parameters

        def __init__(self, model: Any, **parameters: Any) -> None: ...

    @classmethod
    def _habits(cls) -> Mapping[str, str]:
        """Return what to write in place of names that are usual elsewhere."""
        return HABITS

    @classmethod
    def _habits_of_calls(cls) -> Mapping[str, str]:
        """Return the same for arguments of methods."""
        return HABITS_OF_CALLS

    @classmethod
    def _advice(cls, name: str) -> str:
        """Return what to write in place of the option of a plug-in."""
        return plug_in_option(name)

    @classmethod
    def _of_model(cls, model: Any, parameters: Mapping[str, Any]) -> Self:
        """Return an estimator of a model."""
        return cls(model, **parameters)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Return the names of the parameters, sorted."""
        given = signature(cls).parameters.values()
        return sorted(one.name for one in given if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name; ``deep`` adds those of estimators among them as ``name__parameter``."""
        join_scikit_learn()
        out: dict[str, Any] = {}
        for name in self._get_param_names():
            value = out[name] = getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                out.update((f"{name}__{inner}", given) for inner, given in value.get_params().items())
        return out

    def set_params(self, **parameters: Any) -> Self:
        """Set parameters by name, those of estimators among them, and options in dicts, by ``name__parameter``.

        Raises
        ------
        KeywordError
            There is no such parameter; lists those there are.
        """
        known = self._get_param_names()
        for key, value in parameters.items():
            name, _, inner = key.partition("__")
            old = getattr(self, name, None)
            if name not in known:
                said = unknown_keyword(type(self).__name__, name, known, self._habits(), self._advice)
                raise KeywordError(f"Invalid parameter {name!r}: {said}")
            if not inner:
                setattr(self, name, value)
            elif name in OPTIONS and (old is None or isinstance(old, Mapping)):
                setattr(self, name, {**(old or {}), inner: value})  # a new one: others may hold the old one
            elif old is not None and hasattr(old, "set_params") and not isinstance(old, type):
                old.set_params(**{inner: value})
            else:
                raise KeywordError(f"{key}: parameter '{name}' ({old!r}) has no parameters")
        return self

    def _follow(self, other: Self) -> None:
        """Take from the estimator that this one is a copy of what belongs to neither parameters nor weights."""

    def __repr__(self) -> str:
        """Return the class and the parameters that differ from their defaults."""
        defaults = signature(type(self)).parameters
        given = ((name, getattr(self, name)) for name in self._get_param_names())
        changed = (f"{name}={value!r}" for name, value in given if repr(value) != repr(defaults[name].default))
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_tags__(self) -> Any:
        """Return what scikit-learn is to know: nothing is asked of the data, which are lists of examples."""
        from sklearn.utils import Tags, TargetTags

        join_scikit_learn()
        return Tags(estimator_type=None, target_tags=TargetTags(required=False))

    def _repr_html_(self) -> str:
        """Return the estimator as notebooks show it, drawn by scikit-learn."""
        from sklearn.utils import estimator_html_repr

        join_scikit_learn()
        text: str = estimator_html_repr(self)
        return text


def join_scikit_learn() -> None:
    """Make all estimators scikit-learn's, if it is loaded."""
    base = getattr(sys.modules.get("sklearn.base"), "BaseEstimator", None)  # none while it is being imported
    if base is None or issubclass(Estimator, base):
        return
    Estimator.__bases__ = (CheckedCalls, base)
    for kind in _subclasses(Estimator):  # as if they had been declared now: set_fit_request and the like
        base.__init_subclass__.__func__(kind)


def _subclasses(kind: type) -> Iterator[type]:
    """Yield a class and all that descend from it."""
    yield kind
    below: list[type] = kind.__subclasses__()
    for one in below:
        yield from _subclasses(one)


def clone(estimator: Any) -> Any:
    """Return an estimator with the same parameters (copies of them), not fitted, as ``sklearn.base.clone`` does."""
    made = type(estimator)(**{name: deepcopy(value) for name, value in estimator.get_params(deep=False).items()})
    made._follow(estimator)
    return made
