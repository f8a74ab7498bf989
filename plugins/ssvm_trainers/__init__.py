"""Descriptions of the bundled trainers and risks; each method has a file of its own in the folders below."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from types import FunctionType

from ssvm_dsl.ir import Task
from ssvm_dsl.plugin_api import AutoRule, Option, RiskForm, RiskSpec, TrainerNeeds, TrainerSpec, hookimpl
from ssvm_trainers.risks import RISKS, also

#: Forms of risks: those whose planes can be kept, and all.
KEPT_PLANES = frozenset({RiskForm.PLANES, RiskForm.SCALED, RiskForm.FRACTIONAL})
SMOOTH = frozenset({RiskForm.SMOOTH})
CONVEX = frozenset(RiskForm)

#: Models of ``bundle``.
METHODS = ("bmrm", "proximal", "kelley")

#: No risk by name.
NONE: frozenset[str] = frozenset()

ORDERS = ("stochastic", "incremental")
EVERY = (*ORDERS, "batch")

_FIRST_STEP = "length of steps in the first pass; None: by the number of steps in a pass"
_PROJECT = "projects a dict of the weights by factor, in place, onto a convex set"
_BALANCE = "more makes steps of marginals longer, those of weights shorter; None: 0.3, for entropic steps 1"
_RADIUS = "project onto the ball |w| <= radius; 'pegasos': one that holds the optimum"


#: Names in the literature and in other packages.
_ALIASES = {
    "subgradient": (
        *also("pegasos", trainer_options={"radius": "pegasos"}),
        *also("sgd", "structured-sgd", "stochastic-gradient-descent", "stochastic-subgradient", "ssg"),
        *also("subgradient-ssvm"),
        *also("asgd", "averaged-sgd", trainer_options={"averaging": "uniform"}),
        *also("batch-subgradient", trainer_options={"order": "batch"}),
    ),
    "adam": also("adamw", "adagrad", "rmsprop"),
    "bcfw": (
        *also("frank-wolfe", "block-coordinate-frank-wolfe", "frank-wolfe-ssvm", "fw"),
        *also("sdca", "dual-coordinate-ascent", "dual-coordinate-descent"),
    ),
    "eg": also("exponentiated-gradient"),
    "smo": also("sequential-minimal-optimization"),
    "extragradient": (
        *also("dual-extragradient", trainer_options={"method": "dual"}),
        *also("mirror-prox", "bregman", trainer_options={"geometry": "entropic"}),
    ),
    "lp-dual-qp": also("qp", "interior-point"),
    "bundle": (
        *also("bmrm", "bundle-method"),
        *also("proximal-bundle", trainer_options={"method": "proximal"}),
        *also("kelley", trainer_options={"method": "kelley"}),
    ),
    "one-slack": also("cutting-plane", "cutting-planes", "svm-struct", "1-slack", "one-slack-ssvm", "oca", "ocas"),
    "n-slack": also("n-slack-ssvm"),
    "perceptron": (
        *also("structured-perceptron", "averaged-perceptron", "perceptron-loss", "collins", "ap", risk="perceptron"),
        *also("lp-perceptron", risk="relaxed", trainer_options={"against": "prediction"}),
        *also("passive-aggressive", "pa-i", "pa-1", "mira", trainer_options={"update": "pa-i"}),
        *also("pa", trainer_options={"update": "pa"}),
        *also("pa-ii", "pa-2", trainer_options={"update": "pa-ii"}),
        *also("arow", trainer_options={"update": "arow"}),
    ),
}


@hookimpl
def ssvm_trainers() -> Iterable[TrainerSpec]:
    """Return the bundled trainers."""
    bundled = [*_dual_ascent(), *_cutting_planes(), *_polytopes(), *_gradients(), *_online()]
    return [replace(spec, aliases=_ALIASES.get(spec.name, ())) for spec in bundled]


@hookimpl
def ssvm_risks() -> Iterable[RiskSpec]:
    """Return the bundled risks."""
    return RISKS


def _dual_ascent() -> list[TrainerSpec]:
    """Return the methods that climb the dual example by example."""
    return [
        TrainerSpec(
            "bcfw",
            "ssvm_trainers.planes.bcfw:BCFW",
            "block-coordinate ascent of the dual with cached planes and a certified gap",
            needs=TrainerNeeds(NONE, frozenset({RiskForm.PLANES, RiskForm.FRACTIONAL}), strongly_convex=True, l1=True),
            concluding=True,
            anytime=True,
            resumable=True,
            distributes=True,
            keeps_on_shards=True,
            aggregates=True,
            n_labellings=16,
            n_marginals=2,  # and as many messages
            rules=(
                AutoRule(0, "needs the fewest answers of the backend for margins", frozenset({RiskForm.PLANES})),
                AutoRule(
                    0, "needs the fewest answers of the backend for margins", frozenset({RiskForm.FRACTIONAL}),
                    on_shards=False,
                ),
            ),
            options=(
                Option("sampling", "gap", "how exact passes choose examples", ("gap", "uniform")),
                Option("max_cached_passes", 100, "most cached passes after an exact one", int, least=0),
                Option("keep", 2, "exact visits a plane may stay without dual weight", int, least=0),
                Option("averaging", True, "also follow a moving average of the weights", bool),
                Option("blocks", "auto", "for risk relaxed: unit of a step", ("auto", "examples", "factors")),
                Option("parallel", 1, "groups of examples that are visited at the same time, in threads", int, least=1),
            ),
        ),
        TrainerSpec(
            "dlpw",
            "ssvm_trainers.dual.dlpw:DLPW",
            "dual losses, primal weights: subgradient steps on bounds that message passing lowers meanwhile",
            needs=TrainerNeeds(risks=frozenset({"relaxed"}), messages=True),
            compares_start=True,
            resumable=True,
            options=(
                Option("passes", 10, "passes of message passing for each step (R)", int, least=1),
                Option("batch_size", 1, "examples in a step", int, least=1),
                Option("averaging", "none", "which average is returned", ("none", "weighted")),
                Option("evaluate_every", 5, "passes between two evaluations of the objective", int, least=1),
            ),
        ),
        TrainerSpec(
            "eg",
            "ssvm_trainers.dual.eg:ExponentiatedGradient",
            "exponentiated gradient on the dual, for small problems, with a certified gap",
            needs=TrainerNeeds(
                risks=frozenset({"margin", "log", "softmax-margin"}),
                tasks=frozenset({Task.MARGINALS}),
                strongly_convex=True,
            ),
            compares_start=True,
            resumable=True,
            options=(
                Option("step_size", 0.5, "first step of each example, at most 1", float, above=0),
                Option("order", "stochastic", "examples in a random order, or all at once", ("stochastic", "batch")),
            ),
        ),
        TrainerSpec(
            "smo",
            "ssvm_trainers.dual.smo.smo:SMO",
            "pairwise steps on the factored dual, whose variables are marginals: exact, or relaxed for any graph",
            needs=TrainerNeeds(frozenset({"margin", "relaxed"}), strongly_convex=True, factored=True),
            concluding=True,
            anytime=True,
            resumable=True,
            options=(
                Option(
                    "accuracy", 0.3, "the dual within the supports is solved to this share of the gap", float, least=0
                ),
                Option(
                    "max_inner_passes", 50, "most passes within the supports after one with the oracle", int, least=0
                ),
            ),
        ),
    ]


def _cutting_planes() -> list[TrainerSpec]:
    """Return the cutting-plane methods."""
    return [
        TrainerSpec(
            "n-slack",
            "ssvm_trainers.cutting.n_slack:NSlack",
            "cutting planes with a slack for each example and working sets of planes; slacks may be squared",
            needs=TrainerNeeds(NONE, KEPT_PLANES, strongly_convex=True, powers=frozenset({1.0, 2.0}), hard=True),
            resumable=True,
            n_labellings=16,
            rules=(AutoRule(7, "needs few passes, with a slack for each example"),),
            options=(
                Option(
                    "accuracy",
                    0.1,
                    "the quadratic program is solved to this share of the certified gap",
                    float,
                    least=0,
                ),
                Option("max_sweeps", 500, "most sweeps over the examples in one solve", int, least=1),
                Option("keep", 50, "solves a plane may stay without dual weight", int, least=0),
            ),
        ),
        TrainerSpec(
            "one-slack",
            "ssvm_trainers.cutting.one_slack:OneSlack",
            "cutting planes with one slack for all examples, and cuts from a cache of planes",
            needs=TrainerNeeds(NONE, KEPT_PLANES, strongly_convex=True, any_power=True, l1=True),
            resumable=True,
            distributes=True,
            aggregates=True,
            n_labellings=20,
            n_vectors=60,
            rules=(AutoRule(6, "keeps its programs small, with one slack for all examples"),),
            options=(
                Option("cache", 50, "planes kept for an example; 0 for none", int, least=0),
                Option("max_cached_cuts", 20, "most cuts from the cache between two exact passes", int, least=0),
                Option("keep", 50, "solves of the dual a plane may stay without weight", int, least=0),
            ),
        ),
        TrainerSpec(
            "bundle",
            "ssvm_trainers.cutting.bundle:Bundle",
            "cutting planes of the whole risk, stabilised, for any convex risk, smooth or not",
            needs=TrainerNeeds(NONE, CONVEX, strongly_convex=True, any_power=True, l1=True),
            resumable=True,
            distributes=True,
            aggregates=True,
            n_vectors=60,
            rules=(
                AutoRule(
                    -1, "with few weights for many rows, planes of all of them need less time than steps for each",
                    frozenset({RiskForm.PLANES}), least_examples=2000, least_ratio=8.0, single=True,
                ),
                AutoRule(5, "takes every convex risk, and its planes are sums over all examples"),
            ),
            options=(
                Option("method", "bmrm", "what planes cut: the risk, or the whole objective", METHODS),
                Option("stabilise", True, "ask for points between the best one and the model's", bool),
                Option("keep", 50, "passes a plane may stay without dual weight", int, least=0),
            ),
        ),
    ]


def _polytopes() -> list[TrainerSpec]:
    """Return the methods that work on the linear programs of decoding."""
    marginals = frozenset({"margin", "relaxed"})
    return [
        TrainerSpec(
            "lp-dual-qp",
            "ssvm_trainers.dual.lp_dual_qp:LPDualQP",
            "one quadratic program over weights and messages, by an interior-point method, for small problems",
            needs=TrainerNeeds(risks=marginals, factored=True, hulls=True, powers=frozenset({1.0, 2.0})),
            requires=("clarabel",),
            install_hint="pip install clarabel",
            options=(
                Option(
                    "max_entries", 300_000, "most numbers in the inequalities; larger ones are refused", int, least=1
                ),
            ),
        ),
        TrainerSpec(
            "extragradient",
            "ssvm_trainers.dual.extragradient:Extragradient",
            "saddle point of weights and marginals by Euclidean or entropic steps that look ahead, for small problems",
            needs=TrainerNeeds(risks=marginals, factored=True, hulls=True, strongly_convex=True),
            resumable=True,
            options=(
                Option("method", "extragradient", "'dual' takes averages instead", ("extragradient", "dual")),
                Option("geometry", "euclidean", "distance that limits steps of marginals", ("euclidean", "entropic")),
                Option("balance", None, _BALANCE, float, above=0, optional=True),
                Option("evaluate_every", 20, "steps between two certificates", int, least=1),
            ),
        ),
    ]


def _gradients() -> list[TrainerSpec]:
    """Return the methods that follow gradients."""
    return [
        TrainerSpec(
            "lbfgs",
            "ssvm_trainers.gradient.lbfgs:LBFGS",
            "limited-memory quasi-Newton steps for smooth risks, with a certified gap",
            needs=TrainerNeeds(NONE, SMOOTH, tasks=frozenset({Task.MARGINALS}), any_power=True, l1=True),
            resumable=True,
            distributes=True,
            scale_free=True,
            rules=(AutoRule(0, "needs the fewest passes for smooth risks", SMOOTH),),
            options=(Option("memory", 10, "pairs of steps and gradient changes kept", int, least=1),),
        ),
        TrainerSpec(
            "svrg",
            "ssvm_trainers.gradient.svrg:SVRG",
            "minibatch steps with vanishing noise, for smooth risks and very many examples, with a certified gap",
            needs=TrainerNeeds(NONE, SMOOTH, any_power=True),
            resumable=True,
            distributes=True,
            rules=(AutoRule(3, "looks at some of the examples in each step", SMOOTH),),
            options=(
                Option("batch_size", 32, "examples in a step", int, least=1),
                Option("step_size", 1.0, "factor of the first step", float, above=0),
            ),
        ),
        TrainerSpec(
            "adam",
            "ssvm_trainers.gradient.adam:Adam",
            "minibatch steps with a scale for each weight, for very many examples",
            needs=TrainerNeeds(NONE, CONVEX, any_power=True),
            compares_start=True,
            resumable=True,
            distributes=True,
            options=(
                Option("batch_size", 32, "examples in a step", int, least=1),
                Option("step_size", None, _FIRST_STEP, float, above=0, optional=True),
                Option("evaluate_every", 5, "passes between two evaluations of the objective", int, least=1),
            ),
        ),
    ]


#: How steps of ``subgradient`` shrink.
SCHEDULES = ("auto", "1/(lam t)", "distance", "1/sqrt(t)", "1/t", "constant")

#: Metrics of its steps: Newton's by the subgradients of the steps before, or by the one of the step, too.
METRICS = ("identity", "newton", "newton-current")


def _online() -> list[TrainerSpec]:
    """Return the methods that also learn from streams."""
    return [
        TrainerSpec(
            "perceptron",
            "ssvm_trainers.online.perceptron:Perceptron",
            "online updates without a regulariser: perceptron, passive-aggressive, AROW (no certificate)",
            needs=TrainerNeeds(NONE, frozenset({RiskForm.PLANES, RiskForm.FRACTIONAL})),
            incremental=True,
            best_iterate=False,
            resumable=True,
            certifies=False,
            completes=True,
            options=(
                Option("update", "perceptron", "how far an update goes", ("perceptron", "pa", "pa-i", "pa-ii", "arow")),
                Option("against", "max-loss", "the labelling an update moves away from", ("max-loss", "prediction")),
                Option("averaging", True, "return the average of all weights met", bool),
                Option("aggressiveness", 1.0, "the C of pa-i, pa-ii and arow", float, above=0),
                Option("order", "stochastic", "a new random order in each pass or the given one, or one step", EVERY),
                Option("average_from", 0, "pass from which weights are averaged; -1: the newest alone", int, least=-1),
                Option("growth", 0.0, "updates of pass p are multiplied by (p + offset) ** growth", float),
                Option("offset", 1.0, "see growth", float, above=0),
            ),
        ),
        TrainerSpec(
            "subgradient",
            "ssvm_trainers.online.subgradient:Subgradient",
            "batch, stochastic or incremental subgradient steps, with averaging and projection",
            needs=TrainerNeeds(NONE, CONVEX, any_power=True, l1=True),
            incremental=True,
            anytime=True,
            compares_start=True,
            resumable=True,
            distributes=True,
            rules=(AutoRule(9, "learns from streams, and takes weights that are not regularised"),),
            options=(
                Option("order", "stochastic", "which examples a step looks at", EVERY),
                Option("batch_size", 1, "examples in a step", int, least=1),
                Option("schedule", "auto", "step size over steps t; auto: 1/(lam t), for powers distance", SCHEDULES),
                Option("step_size", 1.0, "factor of the schedule", float, above=0),
                Option("offset", 0.0, "number that is added to t in the schedule", float, least=0),
                Option("momentum", 0.0, "share of the last direction in the next one", float, least=0),
                Option("averaging", "weighted", "which average is returned", ("weighted", "uniform", "none")),
                Option("radius", None, _RADIUS, (float, "pegasos"), above=0, optional=True),
                Option("project", None, _PROJECT, FunctionType, optional=True),
                Option("best_iterate", True, "return the evaluated iterate with the lowest objective", bool),
                Option("evaluate_every", 5, "passes between two evaluations of the objective", int, least=1),
                Option("metric", "identity", "metric in which steps are measured", METRICS),
                Option("ridge", 1.0, "number that newton adds to the diagonal of its matrix", float, above=0),
            ),
        ),
    ]
