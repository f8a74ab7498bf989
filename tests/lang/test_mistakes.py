"""Every mistake in a class body gets one clear sentence; all of them come together, with their lines."""

from __future__ import annotations

import functools
import inspect
import types

import numpy as np
import pytest

from ssvm_dsl import (
    ANTISYMMETRIC,
    POTTS,
    SYMMETRIC,
    Attributes,
    Cost,
    CountLoss,
    CustomLoss,
    Dim,
    Edges,
    Exactly,
    Factor,
    Feature,
    Form,
    Hamming,
    Hashed,
    Input,
    JointFeature,
    Label,
    Model,
    ModelBuilder,
    NoLoss,
    PLiF,
    Polynomial,
    Quantiles,
    Standardized,
    Whitened,
    ZeroOne,
    along,
    chain,
    cliques,
    complete,
    cross,
    grid,
    pairs,
)
from ssvm_dsl.errors import ModelError
from ssvm_dsl.lang.features.sources import Concat


def double(x):
    return 2 * x


def ask(x, nothing):
    return x


POTTS_JOINT = JointFeature(double, width=2)


def nested(source, levels):
    for _ in range(levels):
        source = Standardized(source)
    return source


def doubled(source, levels):
    for _ in range(levels):
        source = Concat([source, source])
    return source


class Parts:
    """Named symbols of one model, made afresh for each case."""

    def __init__(self):
        self.T, self.K, self.N, self.M = Dim(), Dim(4), Dim(), Dim()
        self.x, self.v, self.t = Input(self.T, 2), Input(3), Attributes(self.T)
        self.e, self.n = Edges(self.M, over=self.N), Input(self.N, 2)
        self.y, self.z, self.g = Label(self.T, 3), Label(self.K, "ab"), Label(self.N, 2)


def complaint(**symbols) -> ModelError:
    with pytest.raises(ModelError) as caught:
        types.new_class("M", (Model,), {}, lambda body: body.update(symbols))
    return caught.value


CASES = [
    (lambda p: Dim(0), "Dim: the size must be a positive int, got 0"),
    (lambda p: Dim("6"), "Dim: the size must be a positive int, got '6'"),
    (lambda p: Input("T", 5), "Input: axes are Dims, got 'T'"),
    (lambda p: Input(p.T, 0), "Input: feature widths must be positive ints, got [0]"),
    (lambda p: Input(p.T, 2, 2, sparse=True), "a sparse input has exactly one feature width"),
    (lambda p: Input(p.T, p.K, 2, sparse=True), "a sparse input has at most one axis"),
    (lambda p: Input(Dim(), 5), "its axis is a Dim that is no attribute of this model: give it a name"),
    (lambda p: Attributes(p.T, p.K, Dim()), "Attributes: three axes; attributes have at most two"),
    (lambda p: Attributes(5), "Attributes: axes are Dims, got 5"),
    (lambda p: Edges(p.T, over=5), "Edges: axes are Dims, got 5"),
    (lambda p: Label(p.T), "Label: the last argument is the number of states or their names"),
    (lambda p: Label(), "Label: the number of states or their names are missing, e.g. Label(T, 26)"),
    (lambda p: Label(p.T, 0), "Label: the last argument is the number of states or their names, got 0"),
    (lambda p: Label(p.T, "aba"), "Label: class names are given twice"),
    (lambda p: Label(p.T, [1, "a"]), "Label: class names are all strings or all ints"),
    (lambda p: Label(p.T, [1.5]), "Label: class names are strings or ints, got 1.5"),
    (lambda p: Label(p.T, []), "Label: at least one class is needed"),
    (lambda p: Label(3, 2), "Label: axes are Dims, got 3"),
    (lambda p: Factor(5), "Factor: the target must be a Label or a pattern like chain(y), pairs(y, W), (y[i], y[j])"),
    (lambda p: Factor(p.y.is_(3)), "is_(3): not one of the classes of the label"),
    (lambda p: Exactly(1, chain(p.y).is_(1)), "is_: only a label has it, as y.is_(k), for all of its positions"),
    (lambda p: Factor(p.y.is_(1).at(0)), "at: only a label has it, as y.at(0)"),
    (lambda p: Factor(p.z.is_("c")), "is_('c'): not one of the classes of the label"),
    (lambda p: Factor(chain(p.v)), "chain: expected a Label, got"),
    (lambda p: Factor(chain(p.y, order=0)), "chain: order must be a positive int below 30, got 0"),
    (lambda p: Factor(pairs(p.y, p.K)), "pairs: K is not an axis of y"),
    (lambda p: Factor(pairs(p.y, p.T, p.K)), "pairs: K is not an axis of y"),
    (lambda p: Factor(pairs(p.y, p.T, p.T)), "pairs: an axis is named twice"),
    (lambda p: Factor(pairs(p.y)), "pairs: the axis is missing, as in pairs(y, W)"),
    (lambda p: Factor(pairs(5)), "pairs: expected a Label, got 5"),
    (lambda p: Factor(grid(p.y)), "grid: the label needs two or more axes; use chain(y) for one"),
    (lambda p: Factor(complete(5)), "complete: expected a Label, got 5"),
    (lambda p: Factor(along(p.y, p.x)), "along: the second argument must be an Edges input"),
    (lambda p: Factor(along(p.y, p.e)), "along: the edges must run over the label's only axis"),
    (lambda p: Factor(cliques(p.z, [])), "cliques: at least one non-empty set of positions is needed"),
    (lambda p: Factor(cliques(p.z, [0, 1])), "cliques: the sets are sequences of int positions"),
    (lambda p: Factor(cliques(p.z, [(0, 1), (0, 1, 2)])), "cliques: all sets have the same length"),
    (lambda p: Factor(cliques(p.z, [(0, 0)])), "cliques: a set names a position twice"),
    (lambda p: Factor(cliques(p.z, [(0, 4)])), "cliques: position 4 is outside 0..3"),
    (lambda p: Factor(cliques(p.y, [(0, 1)])), "cliques: the label's axes must be fixed"),
    (lambda p: Factor(cross(p.y, p.y)), "cross: needs two different labels"),
    (lambda p: Factor(p.y, per=p.T), "per: the axis must be fixed"),
    (lambda p: Factor(p.y, per="node"), "per: a fixed Dim or 'edge', got 'node'"),
    (lambda p: Factor(chain(p.z), per=p.K), "per: the variables of one chain(z) factor differ along it"),
    (lambda p: Factor(complete(p.y), per="edge"), "per='edge': weights for each edge need fixed axes"),
    (lambda p: Factor(along(p.g, p.e), per="edge"), "per='edge': weights for each edge need fixed axes"),
    (lambda p: Factor(p.y, tie="emit"), "tie: the other Factor whose weights to share, got 'emit'"),
    (lambda p: Factor(p.y, tie=Factor(p.z)), "the factor an unnamed Factor is not an attribute"),
    (lambda p: Factor(p.y, form="potts"), "form: FULL, POTTS, SYMMETRIC, ANTISYMMETRIC or a finite array"),
    (lambda p: Factor(p.y, form=np.full((1, 3), np.nan)), "form: FULL, POTTS, SYMMETRIC, ANTISYMMETRIC or a finite"),
    (lambda p: Factor(p.y, form=Form("foo")), "FOO is not a form"),
    (lambda p: Factor(p.y, form=POTTS), "POTTS needs two or more variables with the same states, got states (3,)"),
    (lambda p: Factor(cross(p.y, p.z), form=SYMMETRIC), "SYMMETRIC needs two variables with the same states"),
    (lambda p: Factor(chain(p.y, 2), form=ANTISYMMETRIC), "ANTISYMMETRIC needs two variables with the same states"),
    (lambda p: Factor(chain(p.y), form=np.ones((2, 2, 2))), "the basis has shape (2, 2, 2), expected (p, 3, 3)"),
    (lambda p: Factor(p.y.is_(1), form=POTTS), "form: an indicator y.is_(k) has no other form"),
    (lambda p: Factor(p.z, features=p.x), "features: they have the axis T, z has [K]"),
    (lambda p: Factor(p.y, features=7), "features: an Input, a feature or a list of them, got 7"),
    (lambda p: Factor(p.y, features=[]), "features: a list holds Inputs and features, got []"),
    (lambda p: Factor(p.y, features=[p.x, 7]), "features: a list holds Inputs and features"),
    (lambda p: Factor(p.y, features=[p.x, p.v]), "features: all parts of a list have the same axes"),
    (lambda p: Factor(p.y, features=[p.x, Input(p.T, 2)]), "the input an unnamed Input is not an attribute"),
    (lambda p: Factor(p.y, features=Feature(ask, p.T, width=2)), "asks for nothing; the inputs are"),
    (lambda p: Factor(p.y, features=Feature("double", p.T, width=2)), "Feature: the first argument must be a function"),
    (lambda p: Factor(p.y, features=Feature(max, p.T, width=2)), "has no parameter names to match"),
    (lambda p: Factor(p.y, features=Feature(double, p.T, width=0)), "Feature: width must be a positive int, got 0"),
    (lambda p: Factor(p.y, features=Feature(double, chain(p.y), width=2)), "its rows belong to chain(y), not to y"),
    (lambda p: Factor(p.y, features=JointFeature(5, width=2)), "JointFeature: the first argument must be a function"),
    (lambda p: Factor(chain(p.y), POTTS_JOINT, form=POTTS), "form: a JointFeature already depends on the states"),
    (lambda p: Factor(p.y, features=PLiF(p.x, 5)), "PLiF: knots are Quantiles(n) or a sequence of numbers, got 5"),
    (lambda p: Factor(p.y, features=PLiF(p.x, [1.0, 0.0])), "two or more finite numbers, strictly increasing"),
    (lambda p: Factor(p.y, features=PLiF(p.x, Quantiles(1))), "PLiF: at least two knots are needed"),
    (lambda p: Factor(p.y, features=PLiF(p.t, Quantiles(3))), "PLiF: the source must be dense, t is sparse"),
    (lambda p: Factor(p.y, features=Polynomial(p.x, 0)), "the degree must be a positive int, at most 32, got 0"),
    (lambda p: Factor(p.y, features=Standardized(5)), "the source must be an Input or another feature, got 5"),
    (lambda p: Factor(p.y, features=Whitened(p.t)), "Whitened: the source must be dense, t is sparse"),
    (lambda p: Factor(p.y, features=Hashed(p.x, 8)), "Hashed: the source must be an Attributes input, got"),
    (lambda p: Factor(p.y, features=Hashed(p.t, 0)), "Hashed: width must be a positive int, got 0"),
    (lambda p: Factor(p.y, p.t, weights="some"), "weights: 'all' or 'observed', got 'some'"),
    (lambda p: Factor(p.y, p.x, weights="observed"), "weights='observed': the features are Attributes, or others"),
    (lambda p: Factor(p.y, weights="observed"), "weights='observed': the features are Attributes, or others that are"),
    (lambda p: Factor(p.y.is_(1), p.t, weights="observed"), "weights='observed': the form is FULL"),
    (lambda p: Factor(chain(p.y), p.t, form=POTTS, weights="observed"), "weights='observed': the form is FULL"),
    (lambda p: Factor(p.z, Attributes(), per=p.K, weights="observed"), "all factors share the weights, leave per out"),
    (lambda p: Factor(p.y, p.t, tie=Factor(p.y, p.t), weights="observed"), "tie: a factor with weights='observed'"),
    (lambda p: Factor(p.y, p.t, tie=Factor(p.y, p.t, weights="observed")), "tie: a factor with weights='observed'"),
    (lambda p: Hamming(p.x), "Hamming: the first argument must be a Label, or variables at positions, as y[t], got x"),
    (lambda p: Hamming(p.y, weights=[1, 2]), "Hamming: weights must be 3 non-negative numbers"),
    (lambda p: Hamming(p.y, weights=[1, np.nan, 1]), "Hamming: weights must be 3 non-negative numbers"),
    (lambda p: Hamming(p.y, weights=3), "Hamming: weights must be 3 non-negative numbers"),
    (lambda p: Hamming(p.y, weights=[1, -1, 0]), "Hamming: weights must be 3 non-negative numbers"),
    (lambda p: Hamming(p.z, ignore=255), "Hamming: ignore must be a string, as the classes are, got 255"),
    (lambda p: Cost(p.z, [[0, 1]]), "Cost: the matrix has shape (1, 2), expected (2, 2) or (2,)"),
    (lambda p: Cost(p.z, [[1, 1], [1, 0]]), "Cost: the matrix must be non-negative and finite with a zero diagonal"),
    (lambda p: Cost(p.z, "high"), "Cost: the matrix must be a table of numbers or 'wrong', got 'high'"),
    (lambda p: CountLoss(p.x), "CountLoss: the first argument must be a Label or spans(y), got x"),
    (lambda p: CountLoss(p.y), "CountLoss: name the positive class (or classes) of the 3: positive=..."),
    (lambda p: CountLoss(p.y, positive=3), "CountLoss: positive names classes of [0, 1, 2], got 3"),
    (lambda p: CountLoss(p.z, positive=["a", 1]), "CountLoss: positive names classes of ['a', 'b'], got 1"),
    (lambda p: CountLoss(p.z, positive={"a"}), "CountLoss: positive names classes of ['a', 'b'], got {'a'}"),
    (lambda p: CountLoss(p.y, positive=[]), "CountLoss: positive names at least one class, each once, got []"),
    (lambda p: CountLoss(p.y, positive=[1, 1]), "CountLoss: positive names at least one class, each once, got [1, 1]"),
    (lambda p: CountLoss(p.z, "F1"), "the measure must be 'f1', 'iou', 'f_beta' or a function of counts, got 'F1'"),
    (lambda p: CountLoss(p.z, ["f1"]), "the measure must be 'f1', 'iou', 'f_beta' or a function of counts, got ['f1']"),
    (lambda p: CountLoss(p.z, "f_beta"), "the measure 'f_beta' needs a number beta, e.g. beta=2"),
    (lambda p: CountLoss(p.z, beta=2), "only the measure 'f_beta' takes beta, got beta=2"),
    (lambda p: CountLoss(p.z, "f_beta", beta="2x"), "CountLoss: beta must be a number, got '2x'"),
    (lambda p: CountLoss(p.z, "f_beta", beta=0), "CountLoss: beta must be positive and finite, got 0"),
    (lambda p: CountLoss(p.z, ignore=255), "CountLoss: ignore must be a string, as the classes are, got 255"),
    (lambda p: CountLoss(p.z) + CountLoss(p.g), "thing: a sum of losses holds at most one CountLoss"),
    (lambda p: Hamming(p.y, weights={0: 1.0, 1: 2.0, 2: 1.0}), "one for each state, got {0: 1.0, 1: 2.0, 2: 1.0}"),
    (lambda p: Hamming(p.z, weights="12"), "Hamming: weights must be 2 non-negative numbers"),
    (lambda p: Cost(p.z, [[0, 1], [2, 3]]), "with a zero diagonal, got 3.0 in row 1, column 1"),
    (lambda p: Cost(p.z, [[0, -1], [2, 3]]), "with a zero diagonal, got -1.0 in row 0, column 1"),
    (lambda p: ZeroOne(p.x), "ZeroOne: expected Labels, got x"),
    (lambda p: ZeroOne(p.y), "ZeroOne looks at the whole output; name every label: ZeroOne(y, z, g)"),
    (lambda p: -1 * Hamming(p.y), "thing: the weights of a sum of losses must be non-negative and finite, got -1"),
    (lambda p: Hamming(p.y) + ZeroOne(p.y), "thing: ZeroOne cannot be added to another loss"),
    (lambda p: chain(p.y), "thing: a bare pattern has no effect; write thing = Factor(chain(y))"),
    (lambda p: grid(p.y), "grid: the label needs two or more axes"),
    (lambda p: np.inf * Hamming(p.y), "the weights of a sum of losses must be non-negative and finite, got inf"),
    (lambda p: 10**400 * Hamming(p.y), "the weights of a sum of losses must be non-negative and finite, got inf"),
    (lambda p: Dim(2**31), "Dim: the size is at most 2147483647, got 2147483648"),
    (lambda p: Dim(10**5000), "Dim: the size is at most 2147483647, got an int of 16610 bits"),
    (lambda p: Input(p.T, True), "Input: axes are Dims, got True"),
    (lambda p: Input(p.T, 2**20, 2**20), "Input: at most 2147483647 features at each position"),
    (lambda p: Input(p.T, 3, sparse="no"), "Input: sparse is True or False, got 'no'"),
    (lambda p: Label(p.T, b"ab"), "Label: the last argument is the number of states or their names, got b'ab'"),
    (lambda p: Label(p.T, [["a"], ["b"]]), "Label: class names are strings or ints, got ['a']"),
    (lambda p: Label(p.T, ["a", "a\0"]), "Label: class names do not end with the character NUL"),
    (lambda p: Label(p.T, [1, 2**70]), "Label: class names that are ints have at most 64 bits"),
    (lambda p: Label(p.T, 2**31), "Label: at most 2147483647 states"),
    (lambda p: Label(Dim(2**20), Dim(2**20), 2), "Label: the fixed axes have more than 2147483647 positions"),
    (lambda p: Factor(p.y, nonneg="no"), "nonneg is True or False, got 'no'"),
    (lambda p: Factor(p.z, per=[p.K, p.K]), "per: each axis once"),
    (lambda p: Factor(p.y, form=Form("indicator")), "is not a form; use FULL"),
    (lambda p: Factor(p.y, form=np.full((1, 3), 1j)), "or a finite array of shape (p, *states)"),
    (lambda p: Factor(chain(p.y, 29)), "a factor has more than 2147483647 joint states"),
    (lambda p: Factor(chain(p.y, 10**9)), "chain: order must be a positive int below 30, got 1000000000"),
    (lambda p: Factor(cliques(Label(Dim(31), 2), [range(31)])), "a set has at most 30 positions, got one of 31"),
    (lambda p: Factor(cliques(p.z, {(0, 1)})), "cliques: the sets are sequences of int positions"),
    (lambda p: Factor(p.y, PLiF(p.x, Quantiles(2**30))), "features, 2147483647 are the most"),
    (lambda p: Factor(p.y, PLiF(p.x, ["0", "1"])), "PLiF: knots are Quantiles(n) or a sequence of numbers"),
    (lambda p: Factor(p.y, nested(p.x, 40)), "Standardized: features inside features, more than 32 levels"),
    (lambda p: Factor(p.y, doubled(p.x, 30)), "features: features inside features, more than 32 levels or 10000"),
    (lambda p: Hamming(p.y, weights=["1", "2", "3"]), "Hamming: weights must be 3 non-negative numbers"),
    (lambda p: Hamming(p.y, weights=np.ma.array([1, 2, 3], mask=[0, 1, 0])), "Hamming: weights must be 3 non-negative"),
    (lambda p: Hamming(p.z, ignore="?\0"), "Hamming: ignore does not end with the character NUL"),
    (lambda p: Hamming(p.y, normalize="no"), "Hamming: normalize is True or False, got 'no'"),
    (lambda p: Cost(p.z, [[0, 1j], [1, 0]]), "Cost: the matrix must be a table of numbers"),
    (lambda p: CountLoss(p.z, "f_beta", beta=1e200), "CountLoss: beta must be positive and finite, got 1e+200"),
    (lambda p: CustomLoss("mine", p.y, depth=[1]), "the option depth must be a string, a number or a truth"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "text"), CASES, ids=[text for _, text in CASES])
def test_one_mistake_one_sentence(make, text):
    parts = Parts()
    found = complaint(**vars(parts), thing=make(parts))
    assert text in str(found)
    assert all(line.startswith("thing: ") for _, line in found.mistakes)
    assert all(where.startswith("test_mistakes.py:") for where, _ in found.mistakes)
    extra = [line for _, line in found.mistakes if text not in line and "a bare pattern" not in line]
    assert len(extra) <= 1, "follow-up mistakes of one cause"


def test_all_mistakes_of_a_class_come_together_with_their_lines():
    first = inspect.currentframe().f_lineno
    with pytest.raises(ModelError) as caught:

        class Broken(Model):
            T = Dim()
            x = Input(T, 0)
            y = Label(T, "abca")
            emit = Factor(
                y,
                form=POTTS,
            )
            other = Factor(y, tie=Factor(y))
            loss = Hamming(y)
            more = NoLoss()

    lines = [(int(where.split(":")[1]) - first, text.split(":")[0]) for where, text in caught.value.mistakes]
    assert lines == [(5, "x"), (6, "y"), (7, "emit"), (11, "other"), (13, "more")]
    assert str(caught.value).splitlines()[0] == "model Broken has 5 mistakes:"


def test_numbers_are_no_losses():
    for add in (lambda a, b: a + 1, lambda a, b: 0.5 + a + b, lambda a, b: sum([a, b], start=np.float64(2.0))):
        with pytest.raises(TypeError, match=r"a sum holds losses only, got the number (1|0.5|2.0); 2 \* loss scales"):
            add(Hamming(Parts().y), Hamming(Parts().z))
    with pytest.raises(TypeError, match="unsupported operand"):
        Hamming(Parts().y) + "Hamming"


@pytest.mark.parametrize("name", ["loss", "cost"])
@pytest.mark.parametrize(("value", "shown"), [(lambda p: [Hamming(p.y)], "[Hamming(y)]"), (lambda p: 3, "3")])
def test_what_is_no_loss_does_not_pass_for_one(name, value, shown):
    p = Parts()
    if name == "cost":  # in a subclass, it would take the inherited loss away
        base = types.new_class("Base", (Model,), {}, lambda body: body.update(**vars(p), cost=Hamming(p.y)))
        with pytest.raises(ModelError, match="1 mistake") as caught:
            types.new_class("M", (base,), {}, lambda body: body.update(cost=value(p)))
        found = caught.value
    else:
        found = complaint(**vars(p), loss=value(p))
    assert f"{name}: expected a Loss, got {shown}; write e.g. loss = Hamming(y), add losses with +" in str(found)


def test_a_builder_takes_symbols_only():
    m = ModelBuilder("M")
    m.add("T", 3)
    m.loss([])
    with pytest.raises(ModelError) as caught:
        m.build()
    assert [text.partition(";")[0] for _, text in caught.value.mistakes] == [
        "T: expected a symbol (Dim, Input, Label, Factor ...), got 3",
        "loss: expected a Loss, got []",
    ]


def test_only_a_symbol_or_none_replaces_a_symbol():
    p = Parts()
    base = types.new_class("Base", (Model,), {}, lambda body: body.update(**vars(p), emit=Factor(p.y)))
    with pytest.raises(ModelError, match="emit: expected a Factor, got 'none'"):
        types.new_class("M", (base,), {}, lambda body: body.update(emit="none"))
    without = types.new_class("M", (base,), {}, lambda body: body.update(emit=None, note="a text of its own"))
    assert without.declaration.factors == ()


def test_symbols_of_another_model_of_the_same_names():
    class Other(Model):
        T = Dim()
        x = Input(T, 2)
        y = Label(T, 3)

    p = Parts()
    found = complaint(**vars(p), f=Factor(Other.y, features=p.x))
    assert "f: the label 'y' is the one declared at test_mistakes.py:" in str(found)
    assert str(found).endswith("not this model's own y; declare f with this model's")
    assert len(found.mistakes) == 1


def test_two_losses():
    p = Parts()
    found = complaint(**vars(p), loss=Hamming(p.y), extra=Hamming(p.z))
    assert "extra: a model has one loss, loss is already one; add them: a + b" in str(found)


def test_weights_of_different_shapes_cannot_be_tied():
    p = Parts()
    a = Factor(p.y, features=p.x)
    found = complaint(**vars(p), a=a, b=Factor(chain(p.y), tie=a))
    assert "b: its weights (3, 3) cannot be tied to a with (3, 2)" in str(found)


def test_tying_goes_to_the_owner():
    p = Parts()
    a = Factor(p.y)
    b = Factor(p.y, tie=a)
    found = complaint(**vars(p), a=a, b=b, c=Factor(p.y, tie=b))
    assert "c: tie to a, which owns the weights of b" in str(found)


def test_rows_of_one_pattern_do_not_fit_another_of_the_same_shape():
    H, W = Dim(), Dim()
    x, y = Input(H, W, 1), Label(H, W, 2)
    wrong = Factor(pairs(y, H), features=Feature(double, pairs(y, W), width=1))
    assert "its rows belong to pairs(y, W), not to pairs(y, H)" in str(complaint(H=H, W=W, x=x, y=y, wrong=wrong))


def test_parts_of_a_list_over_different_unnamed_axes():
    H, W = Dim(), Dim()
    a, b, y = Input(H, 1), Input(W, 1), Label(H, W, 2)
    found = complaint(H=H, W=W, a=a, b=b, y=y, f=Factor(y, features=[a, b]))
    assert "all parts of a list have the same axes" in str(found)


def test_the_size_of_a_ragged_axis_must_come_from_an_input():
    T, K = Dim(), Dim()
    found = complaint(T=T, K=K, x=Input(K, 2), y=Label(T, 2))
    assert "y: no input has the ragged axis T, so its size is unknown when predicting" in str(found)


def test_one_symbol_two_names():
    T = Dim()
    assert "this Dim already has the name 'T'; make a second one for 'K'" in str(complaint(T=T, K=T))


def test_reserved_names():
    assert "declaration: every model has this attribute; choose another name" in str(complaint(declaration=Dim()))


def test_a_partial_has_parameter_names():
    T = Dim()
    x, y = Input(T, 2), Label(T, 2)
    feature = Feature(functools.partial(ask, nothing=1), T, width=2)
    made = types.new_class("M", (Model,), {}, lambda body: body.update(T=T, x=x, y=y, f=Factor(y, features=feature)))
    assert made.f.features.ref.arguments() == ("x",)


def test_builder_reports_its_mistakes_too():
    m = ModelBuilder("M")
    m.dim("T", 3)
    m.dim("T", 4)
    m.dim("2x")
    m.dim("K", 0)
    with pytest.raises(ModelError) as caught:
        m.build()
    assert [text.split(":")[0] for _, text in caught.value.mistakes] == ["T", "'2x' is not a Python name", "K"]
