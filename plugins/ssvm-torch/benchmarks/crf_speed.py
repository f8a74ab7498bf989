"""Chains of 26 states beside ``pytorch-crf``: a step of training and decoding, one run, side by side.

    pip install pytorch-crf
    python plugins/ssvm-torch/benchmarks/crf_speed.py

Each number is the shortest of the calls of both in turn; the second ratio is that of processor time, which says more on
a busy machine. One thread: ``OMP_NUM_THREADS=1``.
"""

from __future__ import annotations

from time import perf_counter, process_time

import numpy as np
import torch

from ssvm_dsl import Dim, Factor, Given, Hamming, Input, Label, Model, chain
from ssvm_torch import StructuredLayer

STATES, CALLS = 26, 30
SIZES = [(32, 8), (128, 8), (32, 40), (128, 40), (32, 200)]


class Tagger(Model):
    T = Dim()
    logits = Input(T, STATES)
    y = Label(T, STATES)
    net = Given(y, scores=logits)
    trans = Factor(chain(y))
    first = Factor(y.at(0))
    last = Factor(y.at(-1))
    loss = Hamming(y)


def in_turn(*calls):
    """Return the shortest (milliseconds, processor milliseconds) of each call."""
    found = np.zeros((len(calls), CALLS, 2))
    for call in calls:
        call()
        call()
    for k in range(CALLS):
        for which, call in enumerate(calls):
            begin = perf_counter(), process_time()
            call()
            found[which, k] = perf_counter() - begin[0], process_time() - begin[1]
    return found.min(axis=1) * 1e3


def row(batch, length, CRF):
    """Compare one size."""
    torch.manual_seed(0)
    crf = CRF(STATES, batch_first=True).double()
    start, stop, trans = crf.start_transitions, crf.end_transitions, crf.transitions
    named = {"trans": trans.detach(), "first": start.detach(), "last": stop.detach()}
    layer = StructuredLayer.from_weights(Tagger, named, risk="log", dtype=torch.float64)
    scores = torch.randn(batch, length, STATES, dtype=torch.float64, requires_grad=True)
    truth = torch.randint(0, STATES, (batch, length))

    def ours():
        scores.grad = None
        loss = layer(scores, truth)
        loss.backward()
        return loss.item(), scores.grad

    def theirs():
        scores.grad = None
        loss = -crf(scores, truth, reduction="mean")
        loss.backward()
        return loss.item(), scores.grad

    (one, slope), (other, other_slope) = ours(), theirs()
    apart = max(abs(one - other), (slope - other_slope).abs().max().item())
    step = in_turn(ours, theirs)
    decoded = in_turn(lambda: layer.decode(scores), lambda: crf.decode(scores))
    ratios = [pair[1] / pair[0] for pair in (step, decoded)]
    print(
        f"{batch:4} x {length:3}  {step[0, 0]:8.2f} {step[1, 0]:8.2f} {ratios[0][0]:6.1f} {ratios[0][1]:6.1f}"
        f"   {decoded[0, 0]:8.2f} {decoded[1, 0]:8.2f} {ratios[1][0]:6.1f} {ratios[1][1]:6.1f}   {apart:.1e}"
    )


def main():
    try:
        from torchcrf import CRF
    except ImportError:
        print("pytorch-crf is not installed: pip install pytorch-crf")
        return
    print(f"{torch.get_num_threads()} threads; ms of the layer, of pytorch-crf, ratio, ratio of processor time")
    print("batch x T  forward and backward              decoding                            apart")
    for batch, length in SIZES:
        row(batch, length, CRF)


if __name__ == "__main__":
    main()
