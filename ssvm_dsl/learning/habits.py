"""Names of estimators' parameters that are usual elsewhere, and what to write here."""

from __future__ import annotations

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
