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

from ssvm_dsl.callers import warn_caller
from ssvm_dsl.calls import CheckedCalls, unknown_keyword
from ssvm_dsl.errors import KeywordError
from ssvm_dsl.plugin_api.specs import BackendSpec, TrainerSpec
from ssvm_dsl.registry import registry

_PASSES = "it is called max_passes (passes over the data)"
_THREADS = "it is called n_threads"
_LAM = "regularisation is C, or lam (lam = 1 / (C n)); regularization={factor: strength} weighs factors"
_L1 = "it is called l1 (a penalty l1 |w|_1 in addition to the square of strength C or lam; lam=0 drops the square)"
_PENALTY = "the square always has strength C or lam; l1= is the strength of an additional L1 penalty"
_SECONDS = "it is called max_seconds for fit, time_limit for predict"
_TRAINER = "it is called trainer (ssvm plugins list)"
_BACKEND = "it is called backend (ssvm plugins list)"
_LOSS = "the loss is declared in the model: loss = Hamming(y); risk= is the bound of it that is minimised"
_KERNEL = "kernels are features of the model: Kernel(x, ...), RandomFourier(x, ...), Nystroem(x, ...), Polynomial(x, 2)"
_STEP = "steps are options of the trainer: trainer_options={...} (ssvm plugins show TRAINER)"
_WEIGHTS = "weights of classes are those of the loss: loss = Hamming(y, weights=[...]); ready models have class_weight"
_SAMPLE_WEIGHT = "it is an argument of fit: fit(X, Y, sample_weight=...)"
_ORDER = "the order of examples is an option of the trainer: trainer_options={'order': ...} (ssvm plugins show TRAINER)"
_PLANES = "planes are dropped by the option keep of cutting planes: trainer_options={'keep': ...}"
_CHECKED = "answers of backends are always checked, and limits end a fit with a warning"
_LATENT = "a model with Latent variables is completed and fitted in turn by fit; latent_options={...} says how"
_AVERAGING = "it is an option of the trainer: trainer_options={'averaging': ...} (ssvm plugins show TRAINER)"
_STATES = "states and axes are declared in the model: y = Label(N, 3), x = Input(N, 10)"
_PATIENCE = "fit(X, Y, validation=(X_val, Y_val)) ends early, after patience= looks without a better score"

#: By the name without case and punctuation.
HABITS = {
    **dict.fromkeys(("maxiter", "maxiterations", "niter", "iterations", "nepochs", "epochs", "maxepochs"), _PASSES),
    **dict.fromkeys(("njobs", "nworkers", "numthreads", "threads", "nthread", "numworkers"), _THREADS),
    **dict.fromkeys(("c2", "alpha", "lambda", "reg", "regparam", "l2", "weightdecay", "lambda2"), _LAM),
    **dict.fromkeys(("c1", "l1ratio", "lambda1", "elasticnet", "lasso", "penaltyl1"), _L1),
    "penalty": _PENALTY,
    **dict.fromkeys(("timelimit", "timeout", "maxtime", "seconds"), _SECONDS),
    **dict.fromkeys(("algorithm", "solver", "optimizer", "learner", "method"), _TRAINER),
    **dict.fromkeys(("inference", "inferencemethod", "decoder", "oracle"), _BACKEND),
    **dict.fromkeys(("loss", "lossfunction", "criterion"), _LOSS),
    **dict.fromkeys(("kernel", "gamma", "degree", "coef0"), _KERNEL),
    **dict.fromkeys(("learningrate", "eta", "eta0", "lr", "stepsize", "batchsize", "momentum"), _STEP),
    **dict.fromkeys(("decayexponent", "decayt0"), _STEP),
    **dict.fromkeys(("classweight", "classweights"), _WEIGHTS),
    **dict.fromkeys(("earlystopping", "niternochange", "validationfraction"), _PATIENCE),
    **dict.fromkeys(("seed", "randomseed", "rng"), "it is called random_state"),
    **dict.fromkeys(("tolerance", "eps", "epsilon", "gap"), "it is called tol (a relative gap)"),
    "c": "it is called C",
    **dict.fromkeys(("sampleweight", "rescalec"), _SAMPLE_WEIGHT),
    **dict.fromkeys(("shuffle", "samplemethod"), _ORDER),
    **dict.fromkeys(("inactivewindow", "inactivethreshold", "cachetol"), _PLANES),
    **dict.fromkeys(("breakonbad", "checkconstraints", "breakonnoconstraints"), _CHECKED),
    **dict.fromkeys(("basessvm", "latentiter"), _LATENT),
    **dict.fromkeys(("doaveraging", "average"), _AVERAGING),
    **dict.fromkeys(("nclasses", "nstates", "nlabels", "nfeatures", "nedgefeatures"), _STATES),
    "checkdualevery": "bounds are looked at after every pass: callbacks=[function] see event.best_dual",
    "fitintercept": "an intercept is a factor without features: bias = Factor(y)",
    "logger": "callbacks=[function] follow every iteration: event.model() can be saved; verbose=True shows progress",
    "switchto": "set_params(backend=..., warm_start=True) and another fit go on with another backend",
    "inferencecache": "it is the option cache of the trainer one-slack: trainer_options={'cache': ...}",
    "negativityconstraint": "signs of weights are declared: Factor(..., nonneg=True), form=-table for negative ones",
    "showlossevery": "callbacks=[function] follow every iteration: event.model().score(X, Y)",
}

#: What to write in place of arguments of other packages' methods.
HABITS_OF_CALLS = {
    "relaxed": "predict_relaxed(X) returns fractional answers, with backend='lp' or 'ad3'",
    "constraints": "constraints are declared in the model; their numbers come with each example",
    "returnenergy": "best_score(X, Y) has the scores of labels",
    "initialize": "sizes are declared in the model",
}


def plug_in_option(name: str) -> str:
    """Return how to write the option of a trainer or backend; empty where there is none of that name."""
    for spec_kind, parameter in ((TrainerSpec, "trainer"), (BackendSpec, "backend")):
        owners = [spec.name for spec in registry().specs(spec_kind) if name in [one.name for one in spec.options]]
        if owners:
            named = f"{', '.join(owners[:3])}{', ...' if len(owners) > 3 else ''}"
            return f"it is an option of a {parameter} ({named}): {parameter}_options={{{name!r}: ...}}"
    return ""


#: Parameters that are dicts of options: ``set_params(trainer_options__keep=3)`` sets one of them.
OPTIONS = ("trainer_options", "backend_options", "executor_options", "latent_options", "regularization")


class NotFitted(ValueError, AttributeError):
    """An estimator is asked before ``fit``: scikit-learn's error of that name, where scikit-learn is not loaded."""


def not_fitted(text: str) -> Exception:
    """Return the error for an estimator that is not fitted; scikit-learn is not loaded for it."""
    loaded = sys.modules.get("sklearn.exceptions")
    made: type[Exception] = getattr(loaded, "NotFittedError", NotFitted)
    return made(text)


class ConvergenceWarning(UserWarning):
    """A fit did not reach its goal: scikit-learn's warning of that name, where scikit-learn is not loaded."""


def warn_unconverged(text: str) -> None:
    """Warn the caller of ``fit`` that it did not converge.

    The warning is scikit-learn's where that is loaded, so that filters of it apply.  Nobody has one where it is not,
    and to import it takes longer than many fits, and than the time within which a second Ctrl-C ends a loop of them.
    """
    loaded = sys.modules.get("sklearn.exceptions")
    warn_caller(text, getattr(loaded, "ConvergenceWarning", ConvergenceWarning))


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
        "save": ("saving the model", "use a machine with more memory"),
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
