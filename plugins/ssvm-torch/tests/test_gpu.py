"""A layer on a GPU: losses, gradients and answers are those of the CPU, on the device of the scores."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from models import CASES
from test_layer import layer_of

from ssvm_dsl.errors import OptionError
from ssvm_torch import sparsemap
from ssvm_torch.arrays import DeviceWarning

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
    pytest.mark.filterwarnings("ignore::ssvm_torch.arrays.DeviceWarning"),
]


def on_gpu(case):
    """Inputs of a case on the GPU, as leaves."""
    return {name: one.detach().clone().cuda().requires_grad_() for name, one in case.inputs.items()}


@pytest.mark.parametrize("risk", ["margin", "log", "softmax-margin"])
@pytest.mark.parametrize("name", list(CASES))
def test_losses_and_gradients_are_those_of_the_cpu(name, risk):
    case = CASES[name]()
    try:
        layer = layer_of(case, risk)
        inputs = {key: one.detach().clone().requires_grad_() for key, one in case.inputs.items()}
        here = layer(inputs, case.truth, **case.more)
    except OptionError:
        pytest.skip(f"the {risk} risk is refused for this structure on the CPU, too")
    here.backward()
    slopes = {key: one.grad.clone() for key, one in layer.weights.items() if one.grad is not None}
    layer.zero_grad()
    layer.cuda()
    there_inputs = on_gpu(case)
    there = layer(there_inputs, case.truth, **case.more)
    there.backward()
    assert there.device.type == "cuda"
    torch.testing.assert_close(there.cpu(), here, rtol=1e-10, atol=1e-12)
    for key, one in inputs.items():
        if one.grad is None:
            assert there_inputs[key].grad is None
            continue
        assert there_inputs[key].grad.device.type == "cuda"
        torch.testing.assert_close(there_inputs[key].grad.cpu(), one.grad, rtol=1e-10, atol=1e-12)
    for key, slope in slopes.items():
        torch.testing.assert_close(layer.weights[key].grad.cpu(), slope, rtol=1e-10, atol=1e-12)


def test_answers_are_those_of_the_cpu():
    case = CASES["chain"]()
    layer = layer_of(case, "log")
    decoded = layer.decode(case.inputs, **case.more)
    shares = layer.marginals(case.inputs, **case.more)
    layer.cuda()
    again = layer.decode(on_gpu(case), **case.more)
    assert all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(decoded, again, strict=True))
    for key, one in layer.marginals(on_gpu(case), **case.more).items():
        assert one.device.type == "cuda"
        torch.testing.assert_close(one.detach().cpu(), shares[key].detach(), rtol=1e-10, atol=1e-12)


def test_sparsemap_is_that_of_the_cpu():
    case = CASES["chain"]()
    layer = layer_of(case)
    scores = {key: one.detach().clone() for key, one in layer.scores(case.inputs).items()}
    here = sparsemap(layer.scorer, scores, **case.more)
    there = sparsemap(layer.scorer, {key: one.cuda() for key, one in scores.items()}, **case.more)
    for key, one in here.items():
        assert there[key].device.type == "cuda"
        torch.testing.assert_close(there[key].cpu(), one, rtol=1e-8, atol=1e-9)


def test_the_move_is_said():
    case = CASES["chain"]()
    layer = layer_of(case).cuda()
    with pytest.warns(DeviceWarning, match="are moved to the CPU"):
        layer(on_gpu(case), case.truth, **case.more)


def test_half_precision_is_refused_with_the_cure():
    case = CASES["chain"]()
    layer = layer_of(case).float().cuda()
    halves = {key: one.detach().cuda().half() for key, one in case.inputs.items()}
    with pytest.raises(OptionError, match="leave autocast before the layer"), torch.autocast("cuda"):
        layer(halves, case.truth, **case.more)
