"""``CRF``: CRFsuite's objective by brute force and by CRFsuite itself, its attributes, its files."""

from __future__ import annotations

import base64
import pickle
import zlib
from contextlib import suppress
from itertools import pairwise, product

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV

from ssvm_dsl.cli.main import main
from ssvm_dsl.errors import DataError, FileFormatError, OptionError, TooLargeError
from ssvm_dsl.models.crfsuite import CRF, read_crfsuite

X = [
    [{"w": "a", "n": 0.5}, {"w": "b"}],
    [{"w": "b", "c": True}],
    [{"w": "a"}, {"w": "a"}, {"w": "é"}],
]
Y = [["X", "Y"], ["Y"], ["X", "X", "Z"]]

#: What CRFsuite 0.12 learnt from them with c2 = 0.1.
FILE = zlib.decompress(
    base64.b85decode(
        "c-qTx4svS|VqkFd_jOKTfB<G7W(8scAie{{ew+*pEI>6jAa$;eA!~qQ91N)7RBaG<&FTO4AT}dZ?DflO{9%a~!D38M@zW(o9xb}{*B)jMNGx4E"
        "CF0Gtr(iJ_sM>|e)eB}DeY0movZEzM=$ek!9k>{XzRmgO=DnV$a50eH#{KIrGJSn*?;PmjR0MTsVX#XQ$i6gmhmV3$FbYN#Fynxf6Qf{g0k_e38"
        "<HSw5XKwGJrUp*1c((0CP6p~uA*VGnvV`rYhk<QjinMu{C6K!HI#sSkQj&tsRgw-wj#ASK&_~SgSf>JIGUqI!4Lw8qv;hdC>*5W(>NM$qkx8B;"
        "t)t*pplJot3-I4BM(eMM3cZ{As~J-ScDZUdUz#+FxzY|6)X*iOw+z-J)n5+l(qL=u*fecPUuB$th`}lQMZCNRzT)~^n&<cy*_S1ZWd5mRfHHAO"
        "n}%z2%#A^9>fO3>`0b40`+-7<zj&9Q-C-Jh)aODMhGzu#E67p<3O;nACPYWJ6BUY"
    )
)
STATE = {("w:a", "X"): 1.987179, ("n", "X"): 0.271566, ("w:b", "Y"): 1.865878, ("c", "Y"): 0.678579}
STATE["w:é", "Z"] = 1.387355
TRANSITIONS = {("X", "X"): 0.440074, ("X", "Y"): 0.673446, ("X", "Z"): 0.873659}


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.crfsuite"
    path.write_bytes(FILE)
    return path


def written_out(token):
    return {f"{k}:{v}" if isinstance(v, str) else k: 1.0 if isinstance(v, str) else float(v) for k, v in token.items()}


def brute_force(c2, all_states, all_transitions):
    """Return CRFsuite's smallest objective, by the sum over all labellings."""
    labels = ["X", "Y", "Z"]
    names = sorted({name for x in X for token in x for name in written_out(token)})
    seen = {
        (name, y) for xs, ys in zip(X, Y, strict=True) for x, y in zip(xs, ys, strict=True) for name in written_out(x)
    }
    steps = {pair for ys in Y for pair in pairwise(ys)}
    features = list(product(names, labels)) if all_states else sorted(seen)
    number = {one: k for k, one in enumerate(features)}
    number |= {
        ("step", *pair): len(number) + k
        for k, pair in enumerate(product(labels, labels) if all_transitions else sorted(steps))
    }

    def counts(xs, ys):
        out = np.zeros(len(number))
        for x, y in zip(xs, ys, strict=True):
            for name, value in written_out(x).items():
                if (name, y) in number:
                    out[number[name, y]] += value
        for pair in pairwise(ys):
            if ("step", *pair) in number:
                out[number["step", *pair]] += 1.0
        return out

    tables = [
        (np.array([counts(xs, ys) for ys in product(labels, repeat=len(xs))]), counts(xs, true))
        for xs, true in zip(X, Y, strict=True)
    ]

    def objective(w):
        value, slope = c2 * w @ w, 2.0 * c2 * w
        for all_of, true in tables:
            scores = all_of @ w
            total = logsumexp(scores)
            value += total - true @ w
            slope = slope + np.exp(scores - total) @ all_of - true
        return value, slope

    return minimize(
        objective, np.zeros(len(number)), jac=True, method="L-BFGS-B", options={"ftol": 1e-14, "gtol": 1e-10}
    )


@pytest.mark.parametrize("algorithm", ["lbfgs", "l2sgd"])
@pytest.mark.parametrize(
    ("all_states", "all_transitions"), [(False, False), (True, False), (False, True), (True, True)]
)
def test_the_objective_of_crfsuite(algorithm, all_states, all_transitions):
    crf = CRF(algorithm, c2=0.1, all_possible_states=all_states, all_possible_transitions=all_transitions).fit(X, Y)
    best = brute_force(0.1, all_states, all_transitions)
    assert crf.report_.primal / crf.svm_.C == pytest.approx(best.fun, rel=2e-5)
    weights = [*crf.state_features_.values(), *crf.transition_features_.values()]
    assert sum(w * w for w in weights) == pytest.approx(best.x @ best.x, rel=0.02)


def test_the_weights_of_crfsuite():
    crf = CRF(c2=0.1, delta=1e-9).fit(X, Y)
    assert crf.state_features_ == pytest.approx(STATE, abs=1e-3)
    assert crf.transition_features_ == pytest.approx(TRANSITIONS, abs=1e-3)
    assert crf.classes_ == ["X", "Y", "Z"]
    assert sorted(crf.attributes_) == ["c", "n", "w:a", "w:b", "w:é"]


def test_forms_of_answers():
    crf = CRF(c2=0.01).fit(X, Y)
    found = crf.predict(X)
    assert found.dtype == object
    assert found.tolist() == Y
    assert crf.predict_single(X[2]) == Y[2]
    assert crf.score(X, Y) == 1.0
    marginals = crf.predict_marginals(X)
    assert marginals[0][1].keys() == {"X", "Y", "Z"}
    assert sum(crf.predict_marginals_single(X[0])[0].values()) == pytest.approx(1.0)
    assert crf.predict([]).tolist() == []
    assert crf.predict([[], X[0]]).tolist() == [[], Y[0]]
    assert crf.predict([({"w": "new"},)])[0][0] in "XYZ"  # tuples, and words never seen
    assert pickle.loads(pickle.dumps(crf)).predict(X).tolist() == Y


@pytest.mark.parametrize(
    "options", [{"algorithm": "ap"}, *({"algorithm": "pa", "pa_type": k} for k in range(3)), {"algorithm": "arow"}]
)
def test_other_algorithms_learn(options):
    crf = CRF(max_iterations=20, averaging=True, **options).fit(X, Y)
    assert crf.predict(X).tolist() == Y


def test_single_positions_have_no_transitions():
    crf = CRF(c2=0.1).fit([[{"a": 1}], [["b"]]], [["X"], ["Y"]])
    assert crf.transition_features_ == {}
    assert crf.predict([[["b"]]]).tolist() == [["Y"]]


def test_files_of_crfsuite(file):
    model = read_crfsuite(file)
    assert model.labels == ["X", "Y", "Z"]
    assert model.attributes == ["w:a", "n", "w:b", "c", "w:é"]
    assert model.state == pytest.approx(STATE, abs=1e-6)
    crf = CRF(model_filename=str(file))
    assert crf.predict(X).tolist() == Y
    assert crf.state_features_ == pytest.approx(STATE, abs=1e-6)
    assert crf.transition_features_ == pytest.approx(TRANSITIONS, abs=1e-6)
    own = CRF(c2=0.1, delta=1e-9).fit(X, Y)
    for one, other in zip(crf.predict_marginals(X), own.predict_marginals(X), strict=True):
        assert [list(p.values()) for p in one] == pytest.approx(np.array([list(p.values()) for p in other]), abs=1e-3)


def test_the_shell_takes_files_of_crfsuite(file, tmp_path, capsys):
    model, data = str(tmp_path / "m.ssvm"), tmp_path / "data.crfsuite"
    data.write_text("X\tw\\:a\tn:0.5\nY\tw\\:b\n\nY\tw\\:b\tc\n\nX\tw\\:a\nX\tw\\:a\nZ\tw\\:é\n")
    assert main(["convert", str(file), model]) == 0
    assert main(["predict", model, "--data", str(data)]) == 0
    expected = [tag for tags in CRF(model_filename=str(file)).predict(X) for tag in [*tags, ""]]
    assert capsys.readouterr().out.splitlines() == expected


@pytest.mark.parametrize("cut", [0, 3, 20, 47, 60, 300, 2400, len(FILE) - 1])
def test_damaged_files(cut, file):
    file.write_bytes(FILE[:cut])
    with pytest.raises(FileFormatError, match="not a readable model of CRFsuite"):
        read_crfsuite(file)


def test_files_of_noise(file):
    rng = np.random.default_rng(0)
    for _ in range(200):
        data = bytearray(FILE)
        for place in rng.integers(4, 240, size=3).tolist():
            data[place] = int(rng.integers(256))
        file.write_bytes(bytes(data))
        with suppress(FileFormatError):  # and nothing else
            read_crfsuite(file)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileFormatError, match="nothing"):
        CRF(model_filename=str(tmp_path / "nothing")).predict(X)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"algorithm": "svm"}, "'lbfgs', 'l2sgd', 'ap', 'pa', 'arow', got 'svm'"),
        ({"c1": -0.1}, "c1 must be a non-negative number"),
        ({"c1": 0.1, "algorithm": "l2sgd"}, "for algorithm='lbfgs'"),
        ({"c2": 0}, "c2 must be a number above 0 .or 0 if c1 is above 0"),
        ({"min_freq": 2}, "min_freq=2 has no meaning here: leave rare attributes out"),
        ({"linesearch": "Backtracking"}, "line search"),
        ({"calibration_eta": 0.1}, "step size"),
        ({"algorithm": "pa", "pa_type": 7}, "pa_type is 0, 1 or 2"),
        ({"algorithm": "pa", "error_sensitive": False}, "number of wrong labels"),
    ],
)  # fmt: skip
def test_parameters_without_meaning(options, text):
    with pytest.raises(OptionError, match=text):
        CRF(**options).fit(X, Y)


def test_bad_data():
    with pytest.raises(DataError, match="all strings or all whole numbers"):
        CRF().fit(X, [[1, "2"], [2], [1, 1, 3]])
    with pytest.raises(DataError, match="example 0"):
        CRF().fit(X, [["X"], ["Y"], ["X", "X", "Z"]])
    with pytest.raises(OptionError, match="only prints scores"):
        CRF().fit(X, Y, X, Y)
    with pytest.raises(NotFittedError, match="call fit first"):
        CRF().predict(X)
    many = [str(k) for k in range(400)]
    with pytest.raises(TooLargeError, match="all_possible_transitions=True"):
        CRF().fit([[["a"]] * 400], [many])


def test_tools_of_scikit_learn():
    crf = CRF("lbfgs", c2=0.1, c1=0)
    assert clone(crf).get_params() == crf.get_params()
    search = GridSearchCV(crf, {"c2": [0.01, 1.0]}, cv=2).fit(X * 2, Y * 2)
    assert search.best_estimator_.score(X, Y) > 0.5


@pytest.mark.parametrize("transitions", [False, True])
def test_beside_crfsuite(transitions, tmp_path):
    crfsuite = pytest.importorskip("pycrfsuite")
    rng = np.random.default_rng(0)
    words = [[f"w{k}" for k in rng.zipf(1.5, size=rng.integers(1, 9)) % 30] for _ in range(60)]
    tags = [[["D", "N", "V", "A"][(len(w) + int(w[1:]) + (rng.random() < 0.2)) % 4] for w in one] for one in words]
    data = [[{"w": w, "long": len(w) > 2, "size": len(w) / 3} for w in one] for one in words]
    trainer = crfsuite.Trainer(algorithm="lbfgs", verbose=False)
    trainer.set_params({"c2": 0.5, "feature.possible_transitions": transitions, "epsilon": 1e-9, "delta": 1e-12})
    for x, y in zip(data, tags, strict=True):
        trainer.append(x, y)
    trainer.train(str(tmp_path / "model"))
    theirs = trainer.logparser.last_iteration["loss"]
    crf = CRF(c2=0.5, all_possible_transitions=transitions).fit(data, tags)
    assert crf.report_.primal / crf.svm_.C == pytest.approx(theirs, rel=1e-4)
    tagger = crfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    read = CRF(model_filename=str(tmp_path / "model"))
    assert read.predict(data).tolist() == [tagger.tag(x) for x in data]
    assert read.state_features_ == pytest.approx(tagger.info().state_features, abs=1e-6)
