"""Risks of plug-ins: they train with the bundled trainers, show where bundled ones do, and their faults are named."""

from itertools import product

import numpy as np
import pytest

from model_table import tagger
from ssvm_dsl import StructuredSVM
from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import OptionError, PluginError, TrainingError
from ssvm_dsl.learning.risks.kinds import find_risk
from ssvm_dsl.plugin_api import (
    Alias,
    Planes,
    RiskForm,
    RiskGradient,
    RiskSpec,
    TrainerNeeds,
    hookimpl,
)
from ssvm_dsl.registry import PluginInfo, register, registry

HERE = __name__


Pairs = tagger(2, 2)


class OwnMargin:
    """The margin risk for chains of two labels, by brute force over all labellings; ``times`` multiplies it."""

    times = 1.0

    def __init__(self, world):
        self.world, self.program = world, world.parameters.program

    def oracle(self, w, examples):
        found = [self.worst(w, int(i)) for i in examples]
        labels, loss, value = zip(*found, strict=True)
        lengths = [len(one) for one in labels]
        ptr, k = np.concatenate([[0], np.cumsum(lengths)]), self.times
        packed = np.concatenate(labels).astype(np.int32)
        value = k * np.array(value)
        return Planes(examples, ptr, packed, k * np.array(loss), value, value, np.full(len(examples), k))

    def worst(self, w, i):
        """Return (labels, loss, risk) of the worst labelling of an example."""
        world, ids = self.world, np.array([i])
        theta = world.scores(w, ids)
        truth = world.loss.truth[slice(*self.program.var_ptr[i : i + 2])]
        best = None
        for states in product(range(2), repeat=len(truth)):
            labels = np.array(states, np.int32)
            loss = float(world.loss.value(self.program, labels, ids)[0])
            value = loss + self.score(theta, labels, i) - self.score(theta, truth, i)
            if best is None or value > best[2]:
                best = (labels, loss, value)
        return best

    def score(self, theta, labels, i):
        first, total = self.program.var_ptr[i], 0.0
        total += sum(theta.node[self.program.state_ptr[first + v] + s] for v, s in enumerate(labels))
        for group, table in zip(self.program.groups, theta.tables, strict=True):
            for f in range(*group.ptr[i : i + 2]):
                total += table[group.table[f]].reshape(group.cards)[tuple(labels[group.scope[f] - first])]
        return total


class Twice(OwnMargin):
    times = 2.0


class TwiceByGradient(Twice):
    """The same, told by values and subgradients."""

    def gradient(self, w, examples):
        planes, world = self.oracle(w, examples), self.world
        vector, parameters = np.zeros(len(w)), world.parameters
        coef = -planes.scale * world.objective.slopes(planes.value) * world.objective.weight[examples]
        truth = np.concatenate([world.loss.truth[slice(*self.program.var_ptr[i : i + 2])] for i in examples])
        parameters.accumulate(truth, coef, vector, examples)
        parameters.accumulate(planes.labels, -coef, vector, examples)
        return RiskGradient.of(world.objective, examples, planes.value, planes.bound, vector, w)


class Failing(OwnMargin):
    def oracle(self, w, examples):
        raise SystemExit(3)


class Lying(OwnMargin):
    def oracle(self, w, examples):
        planes = super().oracle(w, examples)
        return Planes(planes.examples, planes.ptr, planes.labels, planes.loss, planes.value + 1.0, planes.bound + 1.0)


class Tilted(TwiceByGradient):
    def gradient(self, w, examples):
        found = super().gradient(w, examples)
        return RiskGradient(found.value, found.bound, found.vector + 1.0, found.offset + 1.0)


class OwnRisks:
    @hookimpl
    def ssvm_risks(self):
        planes = {"form": RiskForm.PLANES}
        return [
            RiskSpec("own-margin", f"{HERE}:OwnMargin", "by hand", aliases=(Alias("home-made"),), **planes),
            RiskSpec("twice", f"{HERE}:Twice", "doubled", form=RiskForm.SCALED, powers=frozenset({1.0})),
            RiskSpec("twice-by-gradient", f"{HERE}:TwiceByGradient", "doubled"),
            RiskSpec("failing", f"{HERE}:Failing", "raises", **planes),
            RiskSpec("lying", f"{HERE}:Lying", "values that are not those of its planes", **planes),
            RiskSpec("scaled", f"{HERE}:Twice", "scales that it does not announce", **planes),
            RiskSpec("tilted", f"{HERE}:Tilted", "planes that do not touch"),
        ]


@pytest.fixture(autouse=True)
def own():
    register(OwnRisks(), "own-risks")
    yield
    registry().forget(PluginInfo("own-risks", "registered in this process", False, False))


def fitted(risk="margin", C=1.0, **settings):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(length, 2)) for length in (1, 2, 3, 3, 2)]
    Y = [(x.sum(axis=1) + 0.5 * rng.normal(size=len(x)) > 0).astype(int) for x in X]
    return StructuredSVM(Pairs, C=C, risk=risk, random_state=0, n_threads=1, **settings).fit(X, Y)


@pytest.mark.parametrize(
    ("risk", "trainer", "times"),
    [("own-margin", "bcfw", 1.0), ("twice", "one-slack", 2.0), ("twice-by-gradient", "bundle", 2.0)],
)
def test_a_risk_of_a_plugin_has_the_optimum_of_the_same_bundled_one(risk, trainer, times):
    mine = fitted(risk, trainer=trainer, tol=1e-4, max_passes=2000)
    theirs = fitted(C=times, trainer="bcfw", tol=1e-4, max_passes=2000)
    assert mine.report_.certified
    assert mine.report_.primal == pytest.approx(theirs.report_.primal, rel=2e-4)
    assert mine.report_.gap >= 0.0


@pytest.mark.parametrize(
    ("risk", "trainer", "text"),
    [
        ("failing", "bcfw", "risk 'failing' .*it failed with SystemExit: 3"),
        ("lying", "bcfw", "risk 'lying' .*broke its contract: the value of its plane is"),
        ("scaled", "bcfw", "risk 'scaled' .*planes with scales are of the form"),
        ("tilted", "bundle", "risk 'tilted' .*the plane of its gradient is"),
    ],
)
def test_faults_are_named(risk, trainer, text):
    with pytest.raises(PluginError, match=text):
        fitted(risk, trainer=trainer, max_passes=3)


def test_trainers_are_paired_by_the_form_of_a_risk():
    with pytest.raises(TrainingError, match=r"trainer 'lbfgs' does not minimise risk 'own-margin'; these do: .*bcfw"):
        fitted("own-margin", trainer="lbfgs")
    with pytest.raises(TrainingError, match="does not minimise risk 'twice' to the power 2; these do: none"):
        fitted("twice", trainer="one-slack", power=2)
    assert TrainerNeeds(frozenset({"twice"})).minimises(find_risk("twice").spec)
    assert not TrainerNeeds().minimises(find_risk("own-margin").spec)
    with pytest.raises(OptionError, match="there is no risk 'HomeMade'; write risk='own-margin'"):
        find_risk("HomeMade")


@pytest.mark.parametrize("command", [["list"], ["show", "own-margin"], ["pairs", "own-margin"]])
def test_it_shows_where_bundled_risks_do(command, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")
    assert main(["plugins", *command]) == 0
    out = capsys.readouterr().out
    assert "own-margin" in out
    assert command[0] == "pairs" or "by hand" in out
    assert command[0] != "pairs" or "bcfw" in out
