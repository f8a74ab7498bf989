"""Descriptions of the bundled risks; each has a file of its own in ``ssvm_dsl.learning.risks``.

With ``Delta`` the declared loss, ``s(y) = w . Phi(x_i, y)`` and y_i the truth, the risk of example i is

    margin          max_y [Delta(y) + s(y)] - s(y_i)              Taskar et al. 2003, Tsochantaridis et al. 2005
    slack           max_y Delta(y) (1 + s(y) - s(y_i))            Tsochantaridis et al. 2005
    hm              max_{y != y_i} [1 + s(y)] - s(y_i), or 0      Altun et al. 2003 (HM-SVM); the unstructured margin
    perceptron      max_y s(y) - s(y_i)                           Collins 2002
    relaxed         max_{mu} [Delta(mu) + s(mu)] - s(y_i)         over the local polytope: Finley and Joachims 2008
    log             log sum_y exp s(y) - s(y_i)                   Lafferty et al. 2001 (conditional random field)
    softmax-margin  log sum_y exp(Delta(y) + s(y)) - s(y_i)       Gimpel and Smith 2010
    weston-watkins  sum_{y != y_i} max(0, Delta(y) + s(y) - s(y_i))   models of one label: Weston and Watkins 1999
    smooth-hinge    the same of smooth hinges                     models of one label: Rennie and Srebro 2005
    squared-weston-watkins    the same of squared hinges          models of one label: Schmidt 2009, footnote 2
    regression      |max_y s(y) - v_i|, up to epsilon             Ratliff et al. 2007 (MMSR); values v_i

and any power q >= 1 of them (q = 2: squared slacks).
"""

from __future__ import annotations

from typing import Any

from ssvm_dsl.ir import Task
from ssvm_dsl.plugin_api import AddedLoss, Alias, RiskForm, RiskSpec

_HERE = "ssvm_dsl.learning.risks"
_MARGIN = f"{_HERE}.hinges.margin:MarginProblem"
_SMOOTH = f"{_HERE}.gradients.smooth:SmoothProblem"
_MARGINALS = frozenset({Task.MARGINALS})


def also(*names: str, **settings: Any) -> tuple[Alias, ...]:
    """Return other names of a plug-in, with the same settings."""
    return tuple(Alias(name, settings) for name in names)


RISKS = (
    RiskSpec(
        "margin",
        _MARGIN,
        "margin rescaling: the declared loss is the margin",
        form=RiskForm.PLANES,
        mixtures=f"{_HERE}.hinges.mixture:MarginMixtureProblem",
        upper_bound="relaxed",
        aliases=(
            *also("margin-rescaling", "max-margin", "m3n", "hinge", "structured-hinge", "binary-hinge"),
            *also("crammer-singer"),
            *also("squared", "squared-hinge", "squared-margin", "squared-slacks", "l2-hinge", "l2-loss", power=2),
        ),
    ),
    RiskSpec(
        "slack",
        f"{_HERE}.hinges.slack:SlackProblem",
        "slack rescaling: the declared loss scales the violation",
        form=RiskForm.SCALED,
        bounded=True,
        aliases=also("slack-rescaling"),
    ),
    RiskSpec(
        "hm",
        _MARGIN,
        "a margin of 1 to every labelling but the truth (HM-SVM)",
        form=RiskForm.PLANES,
        loss=AddedLoss.ZERO_ONE,
        aliases=also("hm-svm", "unstructured-margin"),
    ),
    RiskSpec(
        "perceptron",
        _MARGIN,
        "no margin: the best labelling against the truth",
        form=RiskForm.PLANES,
        loss=AddedLoss.NONE,
    ),
    RiskSpec(
        "relaxed",
        f"{_HERE}.hinges.relaxed:RelaxedProblem",
        "margin rescaling over the local polytope: an upper bound of margin",
        form=RiskForm.FRACTIONAL,
        dual_losses=f"{_HERE}.hinges.dual_loss:DualLossProblem",
        additive=True,
        tasks=frozenset({Task.RELAXED}),
        aliases=also("lp-relaxed", "lp-relaxation"),
    ),
    RiskSpec(
        "log",
        _SMOOTH,
        "negative log-likelihood (conditional random field)",
        form=RiskForm.SMOOTH,
        loss=AddedLoss.NONE,
        additive=True,
        tasks=_MARGINALS,
        aliases=(
            *also("crf", "conditional-random-field", "log-loss", "log-likelihood", "nll", "logistic", "cross-entropy"),
            *also("maxent", "softmax"),
            *also("crf-lbfgs", "l-bfgs", trainer="lbfgs"),
            *also("crf-sgd", "l2sgd", "sag", "saga", trainer="svrg"),
        ),
    ),
    RiskSpec(
        "softmax-margin",
        _SMOOTH,
        "log-loss of scores with the declared loss added",
        form=RiskForm.SMOOTH,
        additive=True,
        joint=True,
        tasks=_MARGINALS,
    ),
    RiskSpec(
        "weston-watkins",
        f"{_HERE}.gradients.single_label:WestonWatkins",
        "the sum of the hinges of all wrong classes (one label)",
        one_label=True,
        aliases=also("ww"),
    ),
    RiskSpec(
        "smooth-hinge",
        f"{_HERE}.gradients.single_label:SmoothHinge",
        "the sum of the smooth hinges of all wrong classes (one label)",
        form=RiskForm.SMOOTH,
        one_label=True,
        aliases=also("smoothed-hinge"),
    ),
    RiskSpec(
        "squared-weston-watkins",
        f"{_HERE}.gradients.single_label:SquaredHinges",
        "the sum of the squared hinges of all wrong classes (one label)",
        form=RiskForm.SMOOTH,
        one_label=True,
        aliases=also("weston-watkins-squared", "squared-ww", "l2-ww"),
    ),
    RiskSpec(
        "regression",
        f"{_HERE}.gradients.regression:RegressionProblem",
        "scores are to be values, up to epsilon (MMSR)",
        loss=AddedLoss.NONE,
        values=True,
        aliases=also("mmsr", "svr", "epsilon-insensitive"),
    ),
)
