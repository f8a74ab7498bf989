"""The layer: gradients against differences, losses by hand, weights to and from estimators, and what is refused."""

from __future__ import annotations

import io
import warnings
from itertools import product

import numpy as np
import pytest
import torch
from models import CASES, Chain, Links, Pieces, draw
from torch.utils.data import DataLoader

from ssvm_dsl import (
    POTTS,
    Dim,
    Factor,
    Feature,
    Given,
    Hamming,
    Input,
    Label,
    Latent,
    Model,
    StructuredSVM,
    ZeroOne,
    chain,
    cross,
    pairs,
)
from ssvm_dsl.errors import DataError, InfeasibleError, NoBackendError, OptionError
from ssvm_torch import StructuredLayer, collate


def layer_of(case, risk="margin", **options):
    layer = StructuredLayer(case.model, risk, dtype=torch.float64, **options)
    for k, one in enumerate(layer.weights.values()):
        one.data = draw(*one.shape, seed=k) if one.dim() else draw(1, seed=k)[0]
    return layer


@pytest.mark.parametrize("risk", ["margin", "log", "softmax-margin"])
@pytest.mark.parametrize("name", list(CASES))
def test_gradients_of_inputs_and_weights(name, risk):
    case = CASES[name]()
    layer = layer_of(case, risk)
    leaves = [one.requires_grad_() for one in case.inputs.values()]
    own = list(layer.weights)

    def loss(*values):
        inputs = dict(zip(case.inputs, values[: len(leaves)], strict=True))
        weights = {f"weights.{key}": one for key, one in zip(own, values[len(leaves) :], strict=True)}
        asked = {"truth": case.truth, **case.more}
        summed = torch.func.functional_call(layer, weights, (inputs,), asked | {"reduction": "sum"})
        each = torch.func.functional_call(layer, weights, (inputs,), asked | {"reduction": "none"})
        return summed, each

    assert torch.autograd.gradcheck(loss, (*leaves, *layer.weights.values()), eps=1e-7, atol=1e-5)


def test_marginals_that_are_not_exact_are_refused_by_name():
    layer = StructuredLayer(Links, "log", dtype=torch.float64)
    with pytest.raises(NoBackendError, match="marginals"):
        layer({"x": draw(1, 9, 9, 2)}, [np.eye(9, dtype=int)])


def test_log_loss_is_that_of_all_labellings():
    case = CASES["chain"]()
    layer = layer_of(case, "log")
    scores = {name: one.detach().numpy() for name, one in layer.scores(case.inputs).items()}
    total = {}
    for y in product(range(3), repeat=4):
        total[y] = scores["first"][y[0]] + sum(scores["net"][0, t, y[t]] + scores["emit"][0, t, y[t]] for t in range(4))
        for t in range(3):
            total[y] += scores["trans"][y[t], y[t + 1]] + (y[t] == y[t + 1]) * scores["step"][0, t]
    expected = np.logaddexp.reduce(list(total.values())) - total[(0, 2, 1, 1)]
    losses = layer(case.inputs, case.truth, reduction="none", **case.more)
    assert losses[0].item() == pytest.approx(expected)
    best = max(total, key=total.get)
    assert tuple(layer.decode(case.inputs, **case.more)[0].tolist()) == best
    ranked = layer.k_best(case.inputs, 3, **case.more)[0]
    assert [score for _, score in ranked] == pytest.approx(sorted(total.values(), reverse=True)[:3])
    chances = layer.marginals(case.inputs, **case.more)["net"][0]
    exact = np.zeros((4, 3))
    for y, score in total.items():
        exact[np.arange(4), y] += np.exp(score - np.logaddexp.reduce(list(total.values())))
    assert chances.detach().numpy() == pytest.approx(exact)


def test_weights_of_samples_and_reductions():
    case = CASES["chain"]()
    for risk in ("margin", "log"):
        layer = layer_of(case, risk)
        each = layer(case.inputs, case.truth, reduction="none", **case.more)
        weights = torch.tensor([0.5, 2.0], dtype=torch.float64)
        summed = layer(case.inputs, case.truth, reduction="sum", sample_weight=weights, **case.more)
        assert summed.item() == pytest.approx((weights * each).sum().item())
        assert layer(case.inputs, case.truth, **case.more).item() == pytest.approx(each.mean().item())


def test_marginals_are_differentiable():
    case = CASES["chain"]()
    layer = layer_of(case)
    logits = case.inputs["logits"].requires_grad_()

    def chances(values):
        return tuple(layer.marginals(case.inputs | {"logits": values}, **case.more).values())

    assert torch.autograd.gradcheck(chances, (logits,), eps=1e-6, atol=1e-5)


def test_samples_have_the_probabilities_of_the_model():
    case = CASES["chain"]()
    layer = layer_of(case)
    drawn = layer.sample(case.inputs, 400, seed=0, **case.more)
    assert torch.equal(drawn, layer.sample(case.inputs, 400, seed=0, **case.more))
    assert (drawn[:, 1, 3] == -1).all()
    found = torch.stack([(drawn == state).double().mean(0) for state in range(3)], dim=-1)
    expected = layer.marginals(case.inputs, **case.more)["net"]
    assert (found - expected).abs().max() < 0.1
    with pytest.raises(OptionError, match="not of one plain label"):
        layer_of(CASES["segments"]()).sample(CASES["segments"]().inputs)


def test_lists_and_padded_tensors_are_the_same():
    case = CASES["chain"]()
    layer = layer_of(case, "log")
    lists = {name: [one[0], one[1, :3]] for name, one in case.inputs.items()}
    found = layer(lists, [[0, 2, 1, 1], [2, 0, 1]])
    assert found.item() == pytest.approx(layer(case.inputs, case.truth, **case.more).item())
    states = [case.truth[0], case.truth[1, :3]]
    assert layer(lists, states).item() == found.item()


def test_positions_in_the_middle_are_left_out():
    case = CASES["chain"]()
    layer = layer_of(case, "log")
    mask = torch.tensor([[1, 0, 1, 1], [0, 1, 0, 1]], dtype=torch.bool)
    logits = case.inputs["logits"].requires_grad_()
    loss = layer(case.inputs, torch.where(mask, 1, -100), mask=mask)
    loss.backward()
    assert not logits.grad[~mask].any()
    parts = {name: [one[i][mask[i]] for i in range(2)] for name, one in case.inputs.items()}
    assert loss.item() == pytest.approx(layer(parts, [[1, 1, 1], [1, 1]]).item())


def test_single_precision():
    case = CASES["chain"]()
    layer = layer_of(case, "log")
    expected = layer(case.inputs, case.truth, **case.more).item()
    inputs = {name: one.float().requires_grad_() for name, one in case.inputs.items()}
    loss = layer.float()(inputs, case.truth, **case.more)
    loss.backward()
    assert loss.dtype == inputs["x"].grad.dtype == layer.weights["trans"].grad.dtype == torch.float32
    assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_losses_have_the_highest_precision_of_the_scores():
    layer = StructuredLayer(Given32, "log")
    x, y = torch.randn(2, 4, 3), torch.zeros(2, 4, dtype=int)
    assert layer(x, y).dtype == torch.float32
    assert layer(x.double(), y).dtype == layer(x.double(), y, reduction="none").dtype == torch.float64
    assert layer(1e300 * x.double(), y).isfinite()  # which no number of single precision is


def test_compiled_networks_break_their_graph_at_the_layer():
    case = CASES["chain"]()
    layer = layer_of(case, "log")
    network = torch.compile(lambda inputs: 2.0 * layer(inputs, case.truth, **case.more), backend="eager")
    assert network(case.inputs).item() == pytest.approx(2.0 * layer(case.inputs, case.truth, **case.more).item())


def test_state_dict_and_files():
    case = CASES["chain"]()
    layer, other = layer_of(case, "log"), StructuredLayer(case.model, "log", dtype=torch.float64)
    other.load_state_dict(layer.state_dict())
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    kept = torch.load(file, weights_only=False)
    expected = layer(case.inputs, case.truth, **case.more).item()
    assert other(case.inputs, case.truth, **case.more).item() == expected
    assert kept(case.inputs, case.truth, **case.more).item() == expected


def test_a_data_loader():
    rng = np.random.default_rng(0)
    sizes = (3, 1, 4, 2)
    inputs = [{"x": rng.normal(size=(t, 2)), "logits": rng.normal(size=(t, 3))} for t in sizes]
    data = [(one, rng.integers(3, size=t)) for one, t in zip(inputs, sizes, strict=True)]
    layer = layer_of(CASES["chain"](), "log")
    batches = list(DataLoader(data, batch_size=2, collate_fn=collate(Chain)))
    each = [layer(inputs, [labels]).item() for inputs, labels in map(_alone, data)]
    found = torch.cat([layer(**batch, reduction="none") for batch in batches])
    assert found.tolist() == pytest.approx(each)


def _alone(example):
    inputs, labels = example
    return {name: [torch.as_tensor(one)] for name, one in inputs.items()}, labels


def test_to_an_estimator_and_back():
    class Word(Model):
        T = Dim()
        x = Input(T, 3)
        y = Label(T, "abc")
        emit = Factor(y, features=x)
        loss = Hamming(y)

    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 3)) for _ in range(8)]
    Y = [np.array(list("abc"))[x.argmax(1)] for x in X]
    svm = StructuredSVM(Word, C=1.0, tol=1e-6).fit(X, Y)
    layer = StructuredLayer.from_weights(Word, svm, dtype=torch.float64)
    tensors = {"x": [torch.as_tensor(x) for x in X]}
    assert np.array_equal(layer.decode(tensors).numpy(), [["abc".index(c) for c in y] for y in svm.predict(X)])
    back = layer.to_svm(C=1.0, warm_start=True)
    assert np.array_equal(back.coef_, svm.coef_)
    hinge = layer(tensors, Y, reduction="sum").item()
    assert svm.report_.primal == pytest.approx(0.5 * (svm.coef_**2).sum() + hinge, rel=1e-6)
    again = back.fit(X, Y)
    assert again.report_.certified
    assert again.report_.gap <= 0.01 * again.report_.primal
    with pytest.raises(DataError, match="shape"):
        StructuredLayer.from_weights(Word, {"emit": np.zeros((2, 3))})
    with pytest.raises(DataError, match="those of emit"):
        StructuredLayer.from_weights(Word, {"emitt": np.zeros((3, 3))})


def test_another_backend_answers():
    case = CASES["grid"]()
    exact = layer_of(case)(case.inputs, case.truth).item()
    for backend in ("junction-tree", "combi", "ilp"):
        assert layer_of(case, backend=backend)(case.inputs, case.truth).item() == pytest.approx(exact)


def test_weights_that_must_not_be_negative():
    class Like(Model):
        H, W = Dim(), Dim()
        x = Input(H, W, 2)
        y = Label(H, W, 2)
        data = Factor(y, features=x)
        right = Factor(pairs(y, W), form=POTTS, nonneg=True)
        loss = Hamming(y)

    layer, case = StructuredLayer(Like, dtype=torch.float64), CASES["grid"]()
    layer.weights["right"].data.fill_(-1.0)
    assert torch.isfinite(layer(case.inputs, case.truth))
    assert layer.weights["right"].item() == 0.0


def test_latent_variables_and_losses_that_do_not_add_up_are_refused_by_name():
    class Hidden(Model):
        T = Dim()
        x = Input(T, 3)
        h = Latent(T, 2)
        y = Label(2)
        emit = Factor(h, features=x)
        joint = Factor(cross(h, y))
        loss = Hamming(y)

    class Whole(Model):
        T = Dim()
        x = Input(T, 3)
        y = Label(T, 2)
        emit = Factor(y, features=x)
        loss = ZeroOne(y)

    x = draw(2, 4, 3)
    for risk in ("margin", "log", "softmax-margin"):
        with pytest.raises(OptionError, match=r"model Hidden has latent variables \(h\), which no truth covers"):
            StructuredLayer(Hidden, risk, dtype=torch.float64)(x, torch.tensor([0, 1]))
    for risk in ("margin", "softmax-margin"):
        with pytest.raises(OptionError, match=r"loss of model Whole \(ZeroOne\) does not add up over variables"):
            StructuredLayer(Whole, risk, dtype=torch.float64)(x, torch.zeros(2, 4, dtype=int))
    loss = StructuredLayer(Whole, "log", dtype=torch.float64)(x, torch.zeros(2, 4, dtype=int))
    assert loss.item() == pytest.approx(4 * np.log(2.0))


def double(x):
    return 2.0 * x


class Given32(Model):
    T = Dim()
    logits = Input(T, 3)
    y = Label(T, 3)
    trans = Factor(chain(y))
    net = Given(y, scores=logits)


X, Y = torch.zeros(2, 4, 3), torch.zeros(2, 4, dtype=int)
MASK = torch.ones(2, 4, dtype=torch.bool)
FORBIDDEN = torch.where(torch.arange(3) == 0, -torch.inf, 0.0)
WRONG = {
    r"input 'logits': expected a padded tensor \(B, T, 3\), found .* \(4, 3\)": (X[0], Y),
    r"input 'logits', example 1: expected a tensor \(T, 3\), found shape \(2, 4\)": ([X[0], torch.zeros(2, 4)], Y),
    "input 'logits': expected at least one example, found none": (X[:0], Y[:0]),
    "found an empty list": ([], []),
    "found ndarray": (X.numpy(), Y),
    "found a single number": (X.sum(), Y),
    "a dense tensor with numbers, found one of layout torch.sparse_coo": (X.to_sparse(), Y),
    "a dense tensor with numbers, found one on the device 'meta'": (X.to("meta"), Y),
    r"truth: expected states of 2 examples, padded: an array of shape \(2, T\)": (X, Y[:1]),
    "truth, example 0: expected at least 4 positions along T, found 3": (X, Y[:, :3]),
    "truth, example 0: expected numbers of states from 0 to 2 where there are positions, found -3": (X, Y - 3),
    "truth, example 0: expected labels that the scores allow, found a score of -inf": (X + FORBIDDEN, Y),
    "as in the mask of T, found 4": (X, Y, MASK[:, :3]),
    r"mask of T: expected an array of bools, shape \(2, width\), found .*float32": (X, Y, MASK.float()),
    "sample_weight, example 1: expected a finite number, found nan": (X, Y, MASK, torch.tensor([1.0, torch.nan])),
}


@pytest.mark.parametrize("found", WRONG)
def test_what_is_wrong_with_tensors_is_named(found):
    inputs, truth, mask, weight, *_ = *WRONG[found], None, None
    with pytest.raises(DataError, match=found):
        StructuredLayer(Given32, "log")(inputs, truth, mask=mask, sample_weight=weight)


def test_refusals():
    case = CASES["chain"]()
    layer = layer_of(case, "log")
    asked = {"truth": case.truth, **case.more}
    with pytest.raises(OptionError, match="risk must be one of"):
        StructuredLayer(Chain, "hinge")
    with pytest.raises(OptionError, match="reduction must be one of"):
        layer(case.inputs, **asked, reduction="avg")
    with pytest.raises(OptionError, match="bfloat16, which structured sums are too large for"):
        layer(case.inputs | {"logits": case.inputs["logits"].bfloat16()}, **asked)
    with pytest.raises(OptionError, match="convert one of them"):
        layer(case.inputs | {"x": case.inputs["x"].float()}, **asked)
    with pytest.raises(OptionError, match="leave autocast"), torch.autocast("cpu", dtype=torch.bfloat16):
        layer.float()({name: one.float() for name, one in case.inputs.items()}, **asked)
    layer.double()
    nan = case.inputs["logits"].clone()
    nan[1, 2, 0] = float("nan")
    with pytest.raises(DataError, match=r"scores of 'net', example 1.*found nan in factor 2"):
        layer(case.inputs | {"logits": nan}, **asked)
    out = case.inputs["logits"].clone()
    out[1] = -torch.inf
    with pytest.raises(InfeasibleError, match="example 1 has no labelling"):
        layer(case.inputs | {"logits": out}, **asked)
    with pytest.raises(DataError, match=r"input 'logits': expected a padded tensor \(B, T, 3\)"):
        layer(case.inputs | {"logits": draw(2, 4, 2)}, **asked)
    with pytest.raises(DataError, match="a tensor for input 'logits'"):
        layer({"x": case.inputs["x"]}, **asked)
    with pytest.raises(DataError, match="whole numbers"):
        layer(case.inputs, case.truth.double(), **case.more)
    with pytest.raises(DataError, match="sample_weight: expected 2 numbers"):
        layer(case.inputs, **asked, sample_weight=torch.ones(3))

    class Own(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 3)
        emit = Factor(y, features=Feature(double, T, width=2))
        loss = Hamming(y)

    with pytest.raises(OptionError, match="factor 'emit' has features that are no dense Input"):
        StructuredLayer(Own)


def test_nothing_is_warned_of_on_the_cpu():
    case = CASES["segments"]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert StructuredLayer(Pieces, dtype=torch.float64).decode(case.inputs)
