"""The bundled trainers: one method per file; here are only their descriptions."""

from __future__ import annotations

from collections.abc import Iterable

from ssvm_dsl.ir import Task
from ssvm_dsl.plugin_api import Option, TrainerNeeds, TrainerSpec, hookimpl

#: Risks that are a maximum over labellings, and smooth ones.
PLANES = frozenset({"margin", "hm", "perceptron"})
SMOOTH = frozenset({"log", "softmax-margin", "smooth-hinge"})

#: The same, and those whose planes have a scale of their own or hold marginals.
KEPT_PLANES = PLANES | {"slack", "relaxed"}

#: Convex risks: all of them.
CONVEX = KEPT_PLANES | SMOOTH | {"weston-watkins", "regression"}

ORDERS = ("stochastic", "incremental")


@hookimpl
def ssvm_trainers() -> Iterable[TrainerSpec]:
    """Return the bundled trainers."""
    return [*_dual_ascent(), *_cutting_planes(), *_polytopes(), *_gradients(), *_online()]


def _dual_ascent() -> list[TrainerSpec]:
    """Return the methods that climb the dual example by example."""
    return [
        TrainerSpec(
            "bcfw",
            "ssvm_trainers.bcfw:BCFW",
            "block-coordinate ascent of the dual with cached planes and a certified gap (the default)",
            needs=TrainerNeeds(risks=PLANES | {"relaxed"}, strongly_convex=True),
            resumable=True,
            n_labellings=16,
            options=(
                Option("sampling", "gap", "how exact passes choose examples", ("gap", "uniform")),
                Option("max_cached_passes", 100, "most cached passes after an exact one", least=0),
                Option("keep", 2, "exact visits a plane may stay without dual weight", least=0),
                Option("averaging", True, "also follow a moving average of the weights", (True, False)),
                Option("blocks", "auto", "for risk relaxed: what a step changes", ("auto", "examples", "factors")),
            ),
        ),
        TrainerSpec(
            "dlpw",
            "ssvm_trainers.dlpw:DLPW",
            "dual losses, primal weights: subgradient steps on bounds that message passing lowers on the way",
            needs=TrainerNeeds(risks=frozenset({"relaxed"}), messages=True),
            resumable=True,
            options=(
                Option("passes", 10, "passes of message passing for each step (R)", least=1),
                Option("batch_size", 1, "examples in a step", least=1),
                Option("averaging", "none", "which average is returned", ("none", "weighted")),
                Option("evaluate_every", 5, "passes between two evaluations of the objective", least=1),
            ),
        ),
        TrainerSpec(
            "eg",
            "ssvm_trainers.eg:ExponentiatedGradient",
            "exponentiated gradient on the dual, for small problems, with a certified gap",
            needs=TrainerNeeds(
                risks=frozenset({"margin", "log", "softmax-margin"}),
                tasks=frozenset({Task.MARGINALS}),
                strongly_convex=True,
            ),
            resumable=True,
            options=(Option("step_size", 0.5, "first step of each example, at most 1"),),
        ),
        TrainerSpec(
            "smo",
            "ssvm_trainers.smo:SMO",
            "pairwise steps on the factored dual, whose variables are marginals, for chains and forests",
            needs=TrainerNeeds(strongly_convex=True, factored=True),
            resumable=True,
            options=(
                Option("accuracy", 0.3, "the dual within the supports is solved to this share of the gap", least=0),
                Option("max_inner_passes", 50, "most passes within the supports after one with the oracle", least=0),
            ),
        ),
    ]


def _cutting_planes() -> list[TrainerSpec]:
    """Return the cutting-plane methods."""
    return [
        TrainerSpec(
            "n-slack",
            "ssvm_trainers.n_slack:NSlack",
            "cutting planes with a slack for each example and working sets of planes; slacks may be squared",
            needs=TrainerNeeds(risks=KEPT_PLANES, strongly_convex=True, powers=frozenset({1.0, 2.0})),
            resumable=True,
            n_labellings=16,
            options=(
                Option("accuracy", 0.1, "the quadratic program is solved to this share of the certified gap", least=0),
                Option("max_sweeps", 500, "most sweeps over the examples in one solve", least=1),
                Option("keep", 50, "solves a plane may stay without dual weight", least=0),
            ),
        ),
        TrainerSpec(
            "one-slack",
            "ssvm_trainers.one_slack:OneSlack",
            "cutting planes with one slack for all examples, and cuts from a cache of planes",
            needs=TrainerNeeds(risks=KEPT_PLANES, strongly_convex=True, any_power=True),
            resumable=True,
            n_labellings=20,
            n_vectors=60,
            options=(
                Option("cache", 50, "planes kept for an example; 0 for none", least=0),
                Option("max_cached_cuts", 20, "most cuts from the cache between two exact passes", least=0),
                Option("keep", 50, "solves of the dual a plane may stay without weight", least=0),
            ),
        ),
        TrainerSpec(
            "bundle",
            "ssvm_trainers.bundle:Bundle",
            "cutting planes of the whole risk, stabilised, for any convex risk, smooth or not",
            needs=TrainerNeeds(risks=CONVEX, strongly_convex=True, any_power=True),
            resumable=True,
            n_vectors=60,
            options=(
                Option("stabilise", True, "ask for points between the best one and the model's", (True, False)),
                Option("keep", 50, "passes a plane may stay without dual weight", least=0),
            ),
        ),
    ]


def _polytopes() -> list[TrainerSpec]:
    """Return the methods that have the linear program of decoding written out."""
    marginals = frozenset({"margin", "relaxed"})
    return [
        TrainerSpec(
            "lp-dual-qp",
            "ssvm_trainers.lp_dual_qp:LPDualQP",
            "one quadratic program over weights and messages, by an interior-point method, for small problems",
            needs=TrainerNeeds(risks=marginals, factored=True, powers=frozenset({1.0, 2.0})),
            requires=("clarabel",),
            install_hint="pip install clarabel",
            options=(
                Option("max_entries", 300_000, "most numbers in the inequalities; larger ones are refused", least=1),
            ),
        ),
        TrainerSpec(
            "extragradient",
            "ssvm_trainers.extragradient:Extragradient",
            "saddle point of weights and marginals by projected gradient steps that look ahead, for small problems",
            needs=TrainerNeeds(risks=marginals, factored=True, strongly_convex=True),
            resumable=True,
            options=(
                Option("method", "extragradient", "'dual' takes averages instead", ("extragradient", "dual")),
                Option("balance", 0.3, "more makes steps of marginals longer, those of weights shorter", above=0),
                Option("evaluate_every", 20, "steps between two certificates", least=1),
            ),
        ),
    ]


def _gradients() -> list[TrainerSpec]:
    """Return the methods that follow gradients."""
    return [
        TrainerSpec(
            "lbfgs",
            "ssvm_trainers.lbfgs:LBFGS",
            "limited-memory quasi-Newton steps for smooth risks, with a certified gap",
            needs=TrainerNeeds(risks=SMOOTH, tasks=frozenset({Task.MARGINALS}), any_power=True),
            resumable=True,
            options=(Option("memory", 10, "pairs of steps and gradient changes kept", least=1),),
        ),
        TrainerSpec(
            "svrg",
            "ssvm_trainers.svrg:SVRG",
            "minibatch steps with vanishing noise, for smooth risks and very many examples, with a certified gap",
            needs=TrainerNeeds(risks=SMOOTH, any_power=True),
            resumable=True,
            options=(
                Option("batch_size", 32, "examples in a step", least=1),
                Option("step_size", 1.0, "factor of the first step", above=0),
            ),
        ),
        TrainerSpec(
            "adam",
            "ssvm_trainers.adam:Adam",
            "minibatch steps with a scale for each weight, for very many examples",
            needs=TrainerNeeds(risks=CONVEX, any_power=True),
            resumable=True,
            options=(
                Option("batch_size", 32, "examples in a step", least=1),
                Option("step_size", None, "length of steps in the first pass; None: by the number of steps in a pass"),
                Option("evaluate_every", 5, "passes between two evaluations of the objective", least=1),
            ),
        ),
    ]


#: How steps of ``subgradient`` shrink.
SCHEDULES = ("auto", "1/(lam t)", "distance", "1/sqrt(t)", "1/t", "constant")


def _online() -> list[TrainerSpec]:
    """Return the methods that also learn from streams."""
    return [
        TrainerSpec(
            "perceptron",
            "ssvm_trainers.perceptron:Perceptron",
            "online updates without a regulariser: perceptron, passive-aggressive, AROW (no certificate)",
            needs=TrainerNeeds(risks=PLANES),
            incremental=True,
            resumable=True,
            certifies=False,
            options=(
                Option("update", "perceptron", "how far an update goes", ("perceptron", "pa", "pa-i", "pa-ii", "arow")),
                Option("against", "max-loss", "the labelling an update moves away from", ("max-loss", "prediction")),
                Option("averaging", True, "return the average of all weights met", (True, False)),
                Option("aggressiveness", 1.0, "the C of pa-i, pa-ii and arow", above=0),
                Option("order", "stochastic", "a new random order in each pass or the given one", ORDERS),
            ),
        ),
        TrainerSpec(
            "subgradient",
            "ssvm_trainers.subgradient:Subgradient",
            "batch, stochastic or incremental subgradient steps, with averaging and projection",
            needs=TrainerNeeds(risks=CONVEX, any_power=True),
            incremental=True,
            resumable=True,
            options=(
                Option("order", "stochastic", "which examples a step looks at", ("stochastic", "incremental", "batch")),
                Option("batch_size", 1, "examples in a step", least=1),
                Option("schedule", "auto", "step size over steps t; auto: 1/(lam t), for powers distance", SCHEDULES),
                Option("step_size", 1.0, "factor of the schedule", above=0),
                Option("averaging", "weighted", "which average is returned", ("weighted", "uniform", "none")),
                Option("radius", None, "project onto the ball |w| <= radius; 'pegasos': one that holds the optimum"),
                Option("best_iterate", True, "return the evaluated iterate with the lowest objective", (True, False)),
                Option("evaluate_every", 5, "passes between two evaluations of the objective", least=1),
                Option("metric", "identity", "what a step is long in", ("identity", "newton")),
                Option("ridge", 1.0, "what newton adds to the diagonal of its matrix"),
            ),
        ),
    ]
