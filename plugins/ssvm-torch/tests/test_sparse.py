"""SparseMAP beside a quadratic program over all labellings; perturbed answers beside the formula; their gradients."""

from __future__ import annotations

from itertools import product

import clarabel
import numpy as np
import pytest
import torch
from models import CASES
from scipy import sparse
from test_layer import layer_of

from ssvm_dsl.errors import OptionError
from ssvm_torch import SparseMap, perturbed, sparsemap
from ssvm_torch.arrays import as_mask


def prepared(name):
    """A scorer, scores that are leaves, and what else is asked."""
    case = CASES[name]()
    layer = layer_of(case)
    more = dict(case.more)
    scores = {key: one.detach().clone().requires_grad_() for key, one in layer.scores(case.inputs).items()}
    return layer.scorer, scores, case.truth, more


def columns(name, scores, labels):
    """The counts of the penalised scores in a labelling, by hand, and the names of the factors."""
    if name == "matching":
        return ["sim"], np.ravel(labels).astype(float)
    if name == "projective trees":
        arcs, top = np.zeros((3, 3)), np.zeros(3)
        for t, head in enumerate(labels):
            if head < 0:
                top[t] = 1.0
            else:
                arcs[t, head] = 1.0
        return ["arc"], arcs.ravel()
    hot = np.eye(3)[np.asarray(labels)]
    return ["net"], np.concatenate([hot, np.zeros((4 - len(hot), 3))]).ravel()


def program(a, linear):
    """Maximise linear' p - |a p|^2 / 2 over the simplex; return the optimum and a p."""
    n = len(linear)
    rows = sparse.vstack([sparse.csc_matrix(np.ones((1, n))), -sparse.eye(n)]).tocsc()
    cones = [clarabel.ZeroConeT(1), clarabel.NonnegativeConeT(n)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    quadratic = sparse.csc_matrix(np.triu(a.T @ a))
    solver = clarabel.DefaultSolver(quadratic, -linear, rows, np.append(1.0, np.zeros(n)), cones, settings)
    p = np.array(solver.solve().x)
    return linear @ p - 0.5 * np.sum((a @ p) ** 2), a @ p


@pytest.mark.parametrize("name", ["chain", "matching", "projective trees"])
def test_sparsemap_is_the_program_over_all_labellings(name):
    scorer, scores, truth, more = prepared(name)
    arrays = {key: one.detach().numpy() for key, one in scores.items()}
    asked = {key: value.numpy() if isinstance(value, torch.Tensor) else value for key, value in more.items()}
    ranked = scorer.answer(arrays, task="kbest", k=200, **asked).labels
    on = columns(name, arrays, ranked[0][0][0])[0]
    found = sparsemap(scorer, scores, on=on, **more)[on[0]].detach().numpy()
    loss = SparseMap(scorer, on=on)(scores, truth, **more).detach().numpy()
    states = scorer.answer(arrays, truth=truth.numpy() if isinstance(truth, torch.Tensor) else truth, **asked)
    own = states.truth_counts()[on[0]]
    for i, labellings in enumerate(ranked):
        a = np.stack([columns(name, arrays, labels)[1] for labels, _ in labellings], axis=1)
        value, mean = program(a, np.array([score for _, score in labellings]))
        assert found[i].ravel() == pytest.approx(mean, abs=1e-6)
        assert loss[i] == pytest.approx(value - states.truth_score[i] + 0.5 * (own[i] ** 2).sum(), abs=1e-7)


def labellings(name, size):
    """All labellings of an example whose states are listed, by hand."""
    if name == "segments":
        cuts = [[(0, 2), (2, 3)], [(0, 1), (1, 3)], [(0, 1), (1, 2), (2, 3)]]
        named = [(cut, names) for cut in cuts for names in product("NV", repeat=len(cut))]
        return [[(*part, kind) for part, kind in zip(cut, names, strict=True)] for cut, names in named]
    n_states = {"tree": 3, "grid": 2, "budget": 2}[name]
    found = [np.reshape(states, size) for states in product(range(n_states), repeat=int(np.prod(size)))]
    return [one for one in found if name != "budget" or one.sum() <= 2]


@pytest.mark.parametrize(("name", "sizes"), [
    ("tree", [(3,), (2,)]), ("grid", [(2, 3), (2, 3)]), ("segments", [(3,)]), ("budget", [(4,), (4,)]),
])  # fmt: skip
def test_sparsemap_is_the_program_over_listed_labellings(name, sizes):
    scorer, scores, truth, more = prepared(name)
    arrays = {key: one.detach().numpy() for key, one in scores.items()}
    asked = as_mask(more.get("data")), as_mask(more.get("lengths"))
    found = sparsemap(scorer, scores, **more)
    truths = list(truth)
    if name != "segments":
        truths = [one.numpy()[tuple(map(slice, size))] for one, size in zip(truth, sizes, strict=True)]
    for i, size in enumerate(sizes):
        listed = labellings(name, size)
        worth, counts = [], []
        for one in listed:
            known = scorer.answer(arrays, truth=[*truths[:i], one, *truths[i + 1 :]], data=asked[0], lengths=asked[1])
            worth.append(known.truth_score[i])
            counts.append(np.concatenate([known.truth_counts()[key][i].ravel() for key in found]))
        _, mean = program(np.stack(counts, axis=1), np.array(worth))
        own = np.concatenate([one[i].detach().numpy().ravel() for one in found.values()])
        assert own == pytest.approx(mean, abs=1e-6)


@pytest.mark.parametrize("name", list(CASES))
def test_gradients_of_sparsemap(name):
    scorer, scores, truth, more = prepared(name)
    names = list(scores)

    def mean(*values):
        return tuple(sparsemap(scorer, dict(zip(names, values, strict=True)), **more).values())

    def loss(*values):
        return SparseMap(scorer)(dict(zip(names, values, strict=True)), truth, **more)

    assert torch.autograd.gradcheck(mean, tuple(scores.values()), eps=1e-6, atol=1e-5)
    assert torch.autograd.gradcheck(loss, tuple(scores.values()), eps=1e-6, atol=1e-5)
    assert (loss(*scores.values()) >= -1e-9).all()


def test_sparsemap_is_sparse_and_scales():
    scorer, scores, _, more = prepared("chain")
    sharp = sparsemap(scorer, {key: 100.0 * one for key, one in scores.items()}, on="net", **more)["net"]
    best = scorer.answer({key: 100.0 * one.detach().numpy() for key, one in scores.items()}, mask=more["mask"].numpy())
    assert torch.allclose(sharp, torch.as_tensor(best.counts()["net"]))
    flat = sparsemap(scorer, {key: 0.001 * one for key, one in scores.items()}, on="net", **more)["net"]
    assert (flat[more["mask"]].sum(-1) - 1.0).abs().max() < 1e-9
    assert not flat[~more["mask"]].any()


def test_perturbed_answers():
    scorer, scores, _, more = prepared("matching")
    asked = {"samples": 50, "sigma": 0.7, "seed": 3, **more}
    found = perturbed(scorer, scores, **asked)["sim"]
    assert torch.equal(found, perturbed(scorer, scores, **asked)["sim"])
    assert not torch.equal(found, perturbed(scorer, scores, **asked | {"seed": 4})["sim"])
    grad = torch.randn(found.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    (slope,) = torch.autograd.grad((grad * found).sum(), scores["sim"])
    rng, base = np.random.default_rng(3), scores["sim"].detach().numpy()
    mean, expected = np.zeros(base.shape), np.zeros(base.shape)
    for _ in range(50):
        noise = rng.normal(size=base.shape)
        best = np.array(scorer.answer({"sim": base + 0.7 * noise}).labels)
        mean += best / 50
        expected += (grad.numpy() * best).sum(axis=(1, 2))[:, None, None] * noise / (0.7 * 50)
    assert found.detach().numpy() == pytest.approx(mean)
    assert slope.numpy() == pytest.approx(expected)


def test_the_gradient_of_perturbed_answers_is_that_of_the_mean():
    scorer, scores, _, more = prepared("matching")
    many = {"samples": 4000, "sigma": 1.0, "seed": 0, **more}
    (slope,) = torch.autograd.grad(perturbed(scorer, scores, **many)["sim"][0, 0, 0], scores["sim"])
    ahead, behind = ({"sim": scores["sim"].detach().clone()} for _ in range(2))
    ahead["sim"][0, 0, 0] += 0.2
    behind["sim"][0, 0, 0] -= 0.2
    rise = perturbed(scorer, ahead, **many)["sim"][0, 0, 0] - perturbed(scorer, behind, **many)["sim"][0, 0, 0]
    assert slope[0, 0, 0].item() == pytest.approx(rise.item() / 0.4, abs=0.05)


def test_what_they_do_not_take():
    scorer, scores, _, more = prepared("chain")
    for on in ("trans", "nothing", []):
        with pytest.raises(OptionError, match="factors with padded scores, such as"):
            sparsemap(scorer, scores, on=on, **more)
    for wrong in ({"samples": 0}, {"sigma": 0.0}):
        with pytest.raises(OptionError, match="samples is at least 1"):
            perturbed(scorer, scores, **more, **wrong)
