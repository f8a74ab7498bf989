"""What to write for names of trainers and risks that the literature and other packages use, and this one does not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

Settings = Mapping[str, Any]

#: Where a name stands for a class of estimators of its own.
REGRESSOR = "StructuredRegressor"

_CRF: Settings = {"risk": "log", "trainer": "lbfgs"}
_CRF_STOCHASTIC: Settings = {"risk": "log", "trainer": "svrg"}
_BCFW: Settings = {"trainer": "bcfw"}
_ONE_SLACK: Settings = {"trainer": "one-slack"}
_SUBGRADIENT: Settings = {"trainer": "subgradient"}
_MARGIN: Settings = {"risk": "margin"}
_SLACK: Settings = {"risk": "slack", "trainer": "bundle"}
_WESTON_WATKINS: Settings = {"risk": "weston-watkins", "trainer": "bundle"}
_SMOOTH_HINGE: Settings = {"risk": "smooth-hinge", "trainer": "lbfgs"}
_COLLINS: Settings = {"trainer": "perceptron", "risk": "perceptron"}
_QP: Settings = {"trainer": "lp-dual-qp"}


def _online(update: str) -> Settings:
    return {"trainer": "perceptron", "trainer_options": {"update": update}}


#: Usual name -> settings of ``StructuredSVM`` (names are compared without case and punctuation).
USUAL: Mapping[str, Settings] = {
    # subgradients
    "pegasos": {"trainer": "subgradient", "trainer_options": {"radius": "pegasos"}},
    "sgd": _SUBGRADIENT,
    "structured-sgd": _SUBGRADIENT,
    "stochastic-gradient-descent": _SUBGRADIENT,
    "stochastic-subgradient": _SUBGRADIENT,
    "ssg": _SUBGRADIENT,
    "subgradient-ssvm": _SUBGRADIENT,
    "asgd": {"trainer": "subgradient", "trainer_options": {"averaging": "uniform"}},
    "averaged-sgd": {"trainer": "subgradient", "trainer_options": {"averaging": "uniform"}},
    "batch-subgradient": {"trainer": "subgradient", "trainer_options": {"order": "batch"}},
    "adamw": {"trainer": "adam"},
    "adagrad": {"trainer": "adam"},
    "rmsprop": {"trainer": "adam"},
    # the dual, block by block
    "frank-wolfe": _BCFW,
    "block-coordinate-frank-wolfe": _BCFW,
    "frank-wolfe-ssvm": _BCFW,
    "fw": _BCFW,
    "sdca": _BCFW,
    "dual-coordinate-ascent": _BCFW,
    "dual-coordinate-descent": _BCFW,
    "exponentiated-gradient": {"trainer": "eg"},
    "sequential-minimal-optimization": {"trainer": "smo"},
    "dual-extragradient": {"trainer": "extragradient", "trainer_options": {"method": "dual"}},
    "qp": _QP,
    "interior-point": _QP,
    # cutting planes
    "bmrm": {"trainer": "bundle"},
    "bundle-method": {"trainer": "bundle"},
    "cutting-plane": _ONE_SLACK,
    "cutting-planes": _ONE_SLACK,
    "svm-struct": _ONE_SLACK,
    "1-slack": _ONE_SLACK,
    "one-slack-ssvm": _ONE_SLACK,
    "oca": _ONE_SLACK,
    "ocas": _ONE_SLACK,
    "n-slack-ssvm": {"trainer": "n-slack"},
    # online
    "structured-perceptron": _COLLINS,
    "averaged-perceptron": _COLLINS,
    "perceptron-loss": _COLLINS,
    "collins": _COLLINS,
    "ap": _COLLINS,
    "passive-aggressive": _online("pa-i"),
    "pa": _online("pa"),
    "pa-i": _online("pa-i"),
    "pa-1": _online("pa-i"),
    "pa-ii": _online("pa-ii"),
    "pa-2": _online("pa-ii"),
    "mira": _online("pa-i"),
    "arow": _online("arow"),
    # log-loss
    "crf": _CRF,
    "conditional-random-field": _CRF,
    "log": _CRF,
    "log-loss": _CRF,
    "log-likelihood": _CRF,
    "nll": _CRF,
    "logistic": _CRF,
    "cross-entropy": _CRF,
    "maxent": _CRF,
    "softmax": _CRF,
    "crf-lbfgs": _CRF,
    "l-bfgs": _CRF,
    "crf-sgd": _CRF_STOCHASTIC,
    "l2sgd": _CRF_STOCHASTIC,
    "sag": _CRF_STOCHASTIC,
    "saga": _CRF_STOCHASTIC,
    "softmax-margin": {"risk": "softmax-margin", "trainer": "lbfgs"},
    # margins
    "margin": _MARGIN,
    "margin-rescaling": _MARGIN,
    "max-margin": _MARGIN,
    "m3n": _MARGIN,
    "hinge": _MARGIN,
    "structured-hinge": _MARGIN,
    "binary-hinge": _MARGIN,
    "crammer-singer": _MARGIN,
    "squared-hinge": {"risk": "margin", "power": 2, "trainer": "bundle"},
    "slack": _SLACK,
    "slack-rescaling": _SLACK,
    "hm": {"risk": "hm"},
    "hm-svm": {"risk": "hm"},
    "unstructured-margin": {"risk": "hm"},
    "relaxed": {"risk": "relaxed"},
    "lp-relaxed": {"risk": "relaxed"},
    "lp-relaxation": {"risk": "relaxed"},
    # one label
    "weston-watkins": _WESTON_WATKINS,
    "ww": _WESTON_WATKINS,
    "smooth-hinge": _SMOOTH_HINGE,
    "smoothed-hinge": _SMOOTH_HINGE,
    # values
    "mmsr": {"estimator": REGRESSOR},
    "svr": {"estimator": REGRESSOR},
    "epsilon-insensitive": {"estimator": REGRESSOR},
}


def advice(name: object, **known: Iterable[str]) -> str:
    """Return what to write for a usual name, e.g. ``"risk='log', trainer='lbfgs'"``; empty for an unknown one.

    Parameters
    ----------
    name : object
        What was given.
    **known : iterable of str
        The names there are, by parameter: one of them in another spelling, or of another parameter, is advice, too.
    """
    alike = (settings for usual, settings in USUAL.items() if _bare(usual) == _bare(name))
    spelt = ({parameter: one} for parameter, names in known.items() for one in names if _bare(one) == _bare(name))
    settings = next(chain(alike, spelt), {})
    if "estimator" in settings:
        return str(settings["estimator"])
    return ", ".join(f"{parameter}={value!r}" for parameter, value in settings.items())


def _bare(name: object) -> str:
    """Return a name without case and punctuation."""
    return "".join(filter(str.isalnum, str(name))).lower()
