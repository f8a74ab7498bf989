"""Random models with rules and given scores: fits, predictions and completions against all labellings."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from random_models import draw
from scipy.special import logsumexp

import naive
from ssvm_dsl import Allow, AtLeast, AtMost, Forbid, Given, Input, Label, Model, Pattern, StructuredSVM
from ssvm_dsl.errors import InfeasibleError, NoBackendError, TrainingError

UNIT, SHORT, LIMIT = "answers", 3, 90.0

#: Risks, with trainers for them.
FITS = {
    "margin": ("bcfw", "n-slack", "one-slack", "subgradient", "eg", "smo"),
    "slack": ("n-slack", "bundle"),
    "hm": ("bcfw", "n-slack"),
    "perceptron": ("bcfw", "perceptron"),
    "log": ("lbfgs",),
    "softmax-margin": ("lbfgs", "svrg"),
}
BACKENDS = ("auto", "auto", "junction-tree", "ilp", "brute-force", "combi")

#: What an objective may be off by, relative to its terms.
CLOSE = 1e-6


@dataclass(frozen=True, eq=False)
class Example:
    """All labellings of an example: states, losses, scores without weights, and ``Phi(truth) - Phi(y)``."""

    states: list[dict[str, Any]]
    truth: int
    loss: np.ndarray
    extra: np.ndarray
    psi: np.ndarray

    def margins(self, w: np.ndarray) -> np.ndarray:
        """Return what each labelling scores more than the truth; -inf where it is ruled out."""
        return self.extra - self.extra[self.truth] - self.psi @ w

    def spread(self, w: np.ndarray) -> float:
        """Return about how far its scores can differ: answers within 1e-9 of that count as equal."""
        extra = self.extra[self.extra > -np.inf]
        return 4.0 * float((np.abs(self.psi) @ np.abs(w)).max() + np.ptp(extra))

    def risk(self, w: np.ndarray, name: str) -> float:
        """Return the risk of this example by its definition."""
        margin, left = self.margins(w), self.extra > -np.inf
        if name == "slack":
            return float((self.loss * (1 + np.where(left, margin, 0.0)))[left].max())
        if name == "hm":
            wrong = left & (np.arange(len(margin)) != self.truth)
            return max(0.0, float((1 + margin)[wrong].max(initial=-np.inf)))
        loss = self.loss if name in ("margin", "softmax-margin") else 0.0 * self.loss
        return float(logsumexp(loss + margin)) if name in ("log", "softmax-margin") else float((loss + margin).max())


def trial(rng: np.random.Generator, scratch: Path) -> int:
    """Draw a model, add rules and given scores, fit it, predict with it."""
    data = draw(rng, kind=str(rng.choice(["chain", "chain", "grid", "graph", "layers"])), additive=True)
    model, target_label = extended(rng, data.model)
    inputs = [dict(one) for one in data.inputs]
    for one, states in zip(inputs, data.labels, strict=True):
        shape = np.shape(states[target_label.name])
        one["given_net"] = np.where(rng.random((*shape, target_label.n_states)) < 0.05, -np.inf, 0.0)
        one["given_net"] += rng.normal(size=(*shape, target_label.n_states))
    examples = [enumerated(rng, model, one, states, data) for one, states in zip(inputs, data.labels, strict=True)]
    if any(one is None for one in examples):
        return expect_infeasible(model, inputs, data)
    asked = fits(rng, model, inputs, examples, data)
    return asked + predictions(rng, model, inputs, examples, data)


def extended(rng: np.random.Generator, base: type[Model]) -> tuple[type[Model], Label]:
    """Return a model with random rules and given scores, and the label that has scores of an input."""
    declaration = base.declaration
    label = declaration.labels[rng.integers(len(declaration.labels))]
    net = Input(*label.dims, label.n_states)
    symbols: dict[str, Any] = {"given_net": net, "logits": Given(label, scores=net)}
    targets: list[Any] = [factor.target for factor in declaration.factors if factor.target.kind != "indicator"]
    targets += [label, *([Pattern(label[0]), Pattern(label[-1])] if len(label.dims) == 1 else [])]
    for k in range(int(rng.integers(1, 4))):
        target = targets[rng.integers(len(targets))]
        cards = (target.n_states,) if isinstance(target, Label) else target.cards
        mask = rng.random(cards) < 0.25
        if rng.random() < 0.3:
            scores = np.where(rng.random(cards) < 0.1, -np.inf, rng.normal(size=cards))
            symbols[f"table{k}"] = Given(target, scores=scores)
        elif mask.any() and not mask.all():
            symbols[f"rule{k}"] = Forbid(target, mask) if rng.random() < 0.5 else Allow(target, ~mask)
    if rng.random() < 0.3:
        state, kind = int(rng.integers(label.n_states)), AtMost if rng.random() < 0.7 else AtLeast
        k = int(rng.integers(3 if kind is AtMost else 2))  # a label without axes has one variable
        symbols["few"] = kind(k, label.is_(label.classes[state] if label.classes else state))
    return type("Ruled", (base,), symbols), label


def extra_score(model: type[Model], inputs: dict[str, Any], labels: dict[str, Any]) -> float:
    """Return what a labelling scores without weights."""
    declaration, total = model.declaration, 0.0
    sizes = naive.sizes_of(declaration, inputs)
    for one in (*declaration.rules, *declaration.given):
        for members, where in naive.scopes(one.target, sizes, inputs):
            states = tuple(int(np.asarray(labels[name])[p]) for name, p in members)
            number = int(np.ravel_multi_index(states, one.target.cards))
            if isinstance(one, Forbid):
                total += -np.inf if number in one.forbidden else 0.0
            elif one.table is not None:
                total += one.table[number]
            else:
                total += inputs["given_net"][(*(where[dim.name] for dim in one.features.dims), *states)]
    for one in declaration.constraints:
        (literal,) = one.literals
        target = literal.target
        n_true = int((np.asarray(labels[target.label.name]) == target.label.index(target.state)).sum())
        lower, upper = (bound.value for bound in one.meta)
        total += 0.0 if lower <= n_true <= upper else -np.inf
    return total


def enumerated(rng: np.random.Generator, model: Any, inputs: Any, labels: Any, data: Any) -> Example | None:
    """Return all labellings of an example, one that is left as the truth; ``None`` where none is."""
    names = [y.name for y in model.declaration.labels]
    spots = [(name, p) for name in names for p in np.ndindex(np.shape(labels[name]))]
    every = []
    for states in product(*(range(model.declaration.find(name).n_states) for name, _ in spots)):
        one = {name: np.array(labels[name]) for name in names}
        for (name, p), state in zip(spots, states, strict=True):
            one[name][p] = state
        every.append(one)
    extra = np.array([extra_score(model, inputs, one) for one in every])
    left = np.flatnonzero(extra > -np.inf)
    if not len(left):
        return None
    truth = int(left[rng.integers(len(left))])
    loss, psi = naive.all_planes(model.declaration, inputs, every[truth], data.grounded.fitted, data.shapes)
    return Example(every, truth, loss, extra, psi)


def users(model: Any, labels: dict[str, Any]) -> Any:
    """Return labels in the user's form."""
    import model_table

    return model_table.user_labels(model, labels)


def expect_infeasible(model: Any, inputs: list[Any], data: Any) -> int:
    """An example without a labelling is an error, whatever answers."""
    svm = StructuredSVM.from_weights(model, {name: np.zeros(shape) for name, shape in data.shapes.items()})
    try:
        svm.predict(inputs)
    except InfeasibleError:
        return 1
    raise AssertionError("no labelling is left, and one was predicted")


def fits(rng: Any, model: Any, inputs: list[Any], examples: list[Example], data: Any) -> int:
    """Fit with two trainers of a risk; objectives are those of the enumeration, and no bound is above them."""
    risk = str(rng.choice(list(FITS)))
    scale, s = data.scale, data.s
    Y = [users(model, one.states[one.truth]) for one in examples]

    def objective(w: np.ndarray) -> float:
        risks = np.array([one.risk(w, risk) for one in examples])
        return float(0.5 * np.sum(scale * w**2) + data.C * np.dot(s, risks))

    values, bounds = [], []
    for trainer in rng.permutation(FITS[risk])[:2].tolist():
        svm = StructuredSVM(
            model, risk=risk, trainer=trainer, backend=str(rng.choice(BACKENDS)), tol=1e-3, max_passes=60,
            max_seconds=5.0, random_state=0, n_threads=1, **data.settings,
        )  # fmt: skip
        try:
            svm.fit(inputs, Y, sample_weight=data.weight)
        except (NoBackendError, TrainingError):
            continue
        w = data.flat(svm.weights_)
        own = objective(w)
        values += [own, objective(w + 0.01 * rng.normal(size=len(w)) * ~data.nonneg)]
        if np.isfinite(svm.report_.primal):
            size = abs(own) + float(0.5 * np.sum(scale * w**2)) + 1e-3 * data.C * float(s.sum())
            undecided = 1e-9 * data.C * float(s @ [one.spread(w) for one in examples])  # what answers count as equal
            found, slack = svm.report_, CLOSE * size + undecided + svm.report_.rounding
            text = f"{risk} by {trainer}: primal {found.primal}, estimate {found.estimate}, all labellings say {own}"
            assert found.estimate - slack <= own <= found.primal + slack, text  # where answers are bounds, both differ
            bounded = risk == "slack" or found.reason == "seconds"  # answers that time cut short are bounds, too
            assert bounded or found.primal - own <= slack, text
            bounds.append((svm.report_.dual, trainer))
    for dual, trainer in bounds:
        lowest = min(values)
        text = f"{risk} by {trainer}: dual {dual} above an objective of {lowest}"
        assert dual <= lowest + CLOSE * (abs(lowest) + 1e-3 * data.C * float(s.sum())), text
    return len(bounds)


def predictions(rng: Any, model: Any, inputs: list[Any], examples: list[Example], data: Any) -> int:
    """Predict with random weights; some labels are known."""
    weights = {name: rng.normal(size=shape) for name, shape in data.shapes.items()}
    for factor in model.declaration.factors:
        if factor.nonneg and factor.name in weights:
            weights[factor.name] = np.abs(weights[factor.name])
    w, asked = np.concatenate([np.ravel(one) for one in weights.values()]), 0
    svm = StructuredSVM.from_weights(model, weights)
    given, allowed = zip(*(known(rng, model, one) for one in examples), strict=True)
    for backend in rng.permutation(BACKENDS)[:2].tolist():
        svm.set_params(backend=backend)
        for clamp in (None, list(given)):
            try:
                labels, scores, _ = svm.predict(inputs, return_bounds=True, given=clamp)
            except NoBackendError:
                continue
            own = svm.best_score(inputs, labels)
            for k, example in enumerate(examples):
                margin = example.margins(w)
                fit = np.ones(len(margin), bool) if clamp is None else allowed[k]
                at = next(j for j, one in enumerate(example.states) if equal(users(model, one), labels[k]))
                text = f"{backend}: example {k} scores {margin[at]} above the truth, {margin[fit].max()} is the most"
                assert fit[at], "what was given is not kept"
                assert margin[at] >= margin[fit].max() - 1e-7, text
                assert abs(scores[k] - own[k]) <= 1e-7 * (1 + abs(own[k])), f"{backend}: scores differ"
                asked += 1
    return asked


def known(rng: Any, model: Any, example: Example) -> tuple[Any, np.ndarray]:
    """Return some labels of a labelling that is left, in the user's form, and which labellings agree with them."""
    left = np.flatnonzero(example.extra > -np.inf)
    chosen = example.states[int(rng.choice(left))]
    hide = {name: rng.random(np.shape(states)) < 0.6 for name, states in chosen.items()}
    agree = [all((np.asarray(one[n] == chosen[n]) | hide[n]).all() for n in chosen) for one in example.states]
    out = {}
    for label in model.declaration.labels:
        names = label.classes or tuple(range(label.n_states))
        flat = [
            None if out_ else names[int(state)]
            for state, out_ in zip(np.ravel(chosen[label.name]), np.ravel(hide[label.name]), strict=True)
        ]
        shaped = np.empty(np.shape(chosen[label.name]), dtype=object)
        shaped[...] = np.array(flat, dtype=object).reshape(shaped.shape) if flat else shaped
        out[label.name] = shaped.tolist()
    return (out if len(out) > 1 else next(iter(out.values()))), np.array(agree)


def equal(a: Any, b: Any) -> bool:
    """Return whether labels in the user's form are the same."""
    if isinstance(a, dict):
        return all(equal(a[name], b[name]) for name in a)
    return bool(np.array_equal(np.asarray(list(a) if isinstance(a, str) else a), np.asarray(b)))
