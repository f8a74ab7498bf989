"""``ssvm tune``: grids of the command line, scores of scikit-learn's, nested choices, files of fits, interrupts."""

from __future__ import annotations

import json
import signal
import sys
from argparse import ArgumentTypeError

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

import archives
from ctrl_c import python_hears_ctrl_c
from foreign import inside
from model_table import independent
from ssvm_dsl import (
    CountingPredictor,
    StructuredSVM,
    Subsets,
    grid_scores,
)
from ssvm_dsl.cli.explain.examples import import_file
from ssvm_dsl.cli.tune.sources import parse_grid, read_source
from ssvm_dsl.cli.tune.workers import in_processes
from ssvm_dsl.datasets import make_identity
from ssvm_dsl.errors import DataError, OptionError, TrainingError
from ssvm_dsl.learning.tuning.fitting import FittingTask, Trials, configured
from ssvm_dsl.learning.tuning.folds import make_folds
from ssvm_dsl.report import plot_grid

FILE = """
import numpy as np
from ssvm_dsl import *
from ssvm_dsl.datasets import make_chains

class Word(Model):
    T     = Dim()
    x     = Input(T, 3)
    y     = Label(T, 3)
    emit  = Factor(y, features=x)
    loss  = Hamming(y)

X, Y = make_chains(24, n_features=3, noise=1.5, random_state=0)
groups = [i // 4 for i in range(24)]
short = StructuredSVM(Word, max_passes=1, tol=1e-9)
reg = StructuredRegressor(Word, max_passes=20, tol=0.1)
values = [float(len(y)) for y in Y]
count = CountingPredictor(Subsets(3), lam=0.1)
rng = np.random.default_rng(0)
Z = rng.normal(size=(24, 3))

def subsets():
    return Z, (Z > 0).astype(int)

def exact(svm, X, Y):
    return float(np.mean([(a == b).all() for a, b in zip(svm.predict(X), Y)]))

def deadly(svm, X, Y):
    if svm.C == 99.0:
        import os, pathlib, time
        while not pathlib.Path("seen").exists():
            time.sleep(0.01)
        os._exit(9)
    return exact(svm, X, Y)

def pressed(svm, X, Y):
    import pathlib, signal
    if svm.C == 0.1 and len(X) == 12 and not pathlib.Path("pressed").exists():
        pathlib.Path("once").exists() and signal.raise_signal(signal.SIGINT)
        pathlib.Path("once").touch()
    return svm.C
"""

GRID = ("--grid", "C=0.01,0.1,1", "--grid", "tol=0.01")


Word = independent(3, 3)


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "words.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    mine = [name for name, module in sys.modules.items() if str(getattr(module, "__file__", "")).endswith("words.py")]
    for name in mine:
        del sys.modules[name]


def data():
    from ssvm_dsl.datasets import make_chains

    return make_chains(24, n_features=3, noise=1.5, random_state=0)


def tune(capsys, *arguments):
    status, out, err = inside(capsys, "tune", *arguments, "--json", "--jobs", "1")
    assert status == 0, err
    return json.loads(out)


def test_scores_and_the_best_are_those_of_scikit_learn(here, capsys):
    grid = ("--grid", "C=0.01,1", "--grid", "tol=0.01")
    found = tune(capsys, "words.py", *grid, "--folds", "2", "--nested", "--shuffle", "--seed", "4")
    X, Y = data()
    svm = StructuredSVM(Word, tol=0.01, random_state=4)
    splits = KFold(2, shuffle=True, random_state=4)
    other = GridSearchCV(svm, {"C": [0.01, 1.0]}, cv=splits).fit(X, Y)
    np.testing.assert_allclose([one["mean"] for one in found["grid"]], other.cv_results_["mean_test_score"])
    assert found["best"] == {**other.best_params_, "tol": 0.01}
    nested = cross_val_score(GridSearchCV(svm, {"C": [0.01, 1.0]}, cv=splits), X, Y, cv=splits)
    np.testing.assert_allclose(found["nested"]["scores"], nested)
    assert found["nested"]["mean"] == pytest.approx(nested.mean())
    assert found["nested"]["sd"] == pytest.approx(nested.std(ddof=1))
    assert found["n_fits"] == 4 + 8
    assert all(all(one["converged"]) for one in found["grid"])
    assert max(one["relative_gaps"][0] for one in found["grid"]) <= 0.01


def test_other_processes_find_the_same_and_their_death_is_told(here, capsys):
    asked = ("words.py:Word", "--data", "X, Y", *GRID, "--folds", "2", "--groups", "groups", "--scoring", "exact")
    one = tune(capsys, *asked, "--jobs", "1")
    folds = make_folds(24, 2, [i // 4 for i in range(24)])
    for _, test in folds:
        assert len(test) == 4 * len({i // 4 for i in test.tolist()}) == 12
    module = import_file(here / "words.py")
    svm = StructuredSVM(module.Word, tol=0.01, random_state=0, n_threads=1)
    trials = Trials(svm, (module.X, module.Y), module.deadly)
    tasks = [FittingTask({"C": C}, fold, f"C={C}") for C in (0.01, 99.0) for fold in folds]
    made = in_processes(trials, tasks, 2, module)
    found = dict(next(made) for _ in folds)
    (here / "seen").touch()  # from now on they die
    with pytest.raises(TrainingError, match="killed while it fitted C=99"):
        next(made)
    assert [found[k].score for k in range(2)] == one["grid"][0]["scores"]


def test_the_table_tells_what_is_doubtful(here, capsys):
    status, out, err = inside(capsys, "tune", "words.py:short", "--grid", "C=1,10", "--folds", "2", "--jobs", "1")
    assert status == 0, err
    assert "2 not converged" in out
    assert "ended before their tolerance (largest relative gap" in out
    assert "that was tried; better ones may lie beyond, e.g. --grid C=" in out
    assert "max_passes=1" in out


def test_fits_run_where_an_executor_has_the_examples(here, capsys):
    asked = ("words.py", "--grid", "C=0.1,1", "--grid", "trainer=bundle", "--grid", "tol=1e-4", "--folds", "2")
    one = tune(capsys, *asked)
    other = tune(capsys, *asked, "--executor", "stream", "--executor-options", "shards=2")
    assert [entry["parameters"]["executor"] for entry in other["grid"]] == ["stream"] * 2
    means = [[entry["mean"] for entry in found["grid"]] for found in (one, other)]
    assert means[1] == pytest.approx(means[0], abs=0.1)
    status, _, err = inside(capsys, "tune", "words.py", "--executor-options", "shards=2")
    assert status == 2
    assert "name it with --executor" in err


def test_kept_fits_are_not_made_again(here, capsys):
    asked = ("words.py:Word", *GRID, "--folds", "2", "--results", "fits.npz")
    first = tune(capsys, *asked)
    again = tune(capsys, *asked)
    assert (first["n_fits_kept"], again["n_fits_kept"], again["n_fits"]) == (0, 6, 6)
    assert again["grid"] == first["grid"]
    more = tune(capsys, "words.py:Word", "--grid", "C=0.1,10", "--grid", "tol=0.01", *asked[5:])
    assert (more["n_fits"], more["n_fits_kept"]) == (4, 2)
    few = ("words.py:Word", "--grid", "C=0.1", "--grid", "tol=0.01", "--folds", "2", "--results", "fits.npz")
    assert tune(capsys, *few)["n_fits_kept"] == 2
    for other in (("--seed", "1"), ("--scoring", "exact"), ("--data", "X,Y", "--shuffle")):
        assert tune(capsys, *few, *other)["n_fits_kept"] == 0
    (here / "words.py").write_text(FILE.replace("noise=1.5", "noise=1.4"))
    assert tune(capsys, *few)["n_fits_kept"] == 0


def test_a_file_of_fits_that_was_changed_is_refused(here, capsys):
    asked = ("words.py:Word", "--grid", "C=0.1", "--folds", "2", "--results", "fits.npz")
    tune(capsys, *asked)
    path = here / "fits.npz"
    whole = path.read_bytes()
    content, arrays = archives.parts(whole)
    key = next(iter(content["fits"]))
    for change in ({"score": None}, {"score": True}, {"seconds": "x"}, {"converged": 1}, {"more": 1}, {"score": 1e999}):
        changed = {**content, "fits": {key: {**content["fits"][key], **change}}}
        path.write_bytes(archives.packed(changed, arrays))
        status, _, err = inside(capsys, "tune", *asked)
        assert status == 2
        assert "fits.npz" in err
    for wrong in (whole[:-40], b"", b"PK"):
        path.write_bytes(wrong)
        assert inside(capsys, "tune", *asked)[0] == 2


def test_the_best_is_saved_and_drawn(here, capsys):
    found = tune(capsys, "words.py:Word", *GRID, "--folds", "2", "--save", "best.ssvm", "--plot", "figures")
    svm, (X, Y) = StructuredSVM.load("best.ssvm"), data()
    assert (svm.C, svm.tol, svm.random_state) == (found["best"]["C"], 0.01, 0)
    fresh = StructuredSVM(Word, C=found["best"]["C"], tol=0.01, random_state=0).fit(X, Y)
    assert (svm.coef_ == fresh.coef_).all()
    assert (here / "figures" / "tune.png").read_bytes()[:4] == b"\x89PNG"


def test_an_estimator_goes_before_its_model(here):
    """It has settings; of several none is guessed, and the name says what is taken."""
    one = FILE.partition("reg = ")[0]
    (here / "one.py").write_text(one)
    taken = read_source("one.py", None, None, None, 0)
    assert taken.name == "short of one.py"
    assert (taken.estimator.max_passes, taken.estimator.tol) == (1, 1e-9)
    assert read_source("one.py:Word", None, None, None, 0).estimator.tol == 1e-3
    several = read_source("words.py", None, None, None, 0)
    assert several.name == "Word of words.py (the model with its defaults; words.py:short takes an estimator)"
    assert several.estimator.tol == 1e-3


def test_regressors_and_counting_are_tuned_too(here, capsys):
    found = tune(capsys, "words.py:reg", "--data", "X,values,Y", "--folds", "2", "--grid", "C=0.1,1")
    assert len(found["grid"]) == 2
    found = tune(capsys, "words.py:count", "--data", "subsets", "--folds", "2", "--grid", "lam=0.01,1")
    assert found["best"] in ({"lam": 0.01}, {"lam": 1})


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nofile.py"], "there is no such file"),
        (["words.py:Nix"], "its estimators are: short, reg, count"),
        (["words.py", "--grid", "c=1,2"], "no such parameter; did you mean 'C'?"),
        (["words.py", "--grid", "C=-1,2"], "C must be a positive number, got -1\n  in --grid, with C=-1"),
        (["words.py", "--grid", "C=1", "--grid", "C=2"], "--grid C: given twice"),
        (["words.py", "--grid", "trainer=bcwf"], "did you mean 'bcfw'?"),
        (["words.py", "--grid", "trainer_options.keeep=2,3"], "no option 'keeep'"),
        (["words.py", "--grid", "tol.x=2,3"], "which has no entries"),
        (["words.py", "--grid", "checkpoint=a,b"], "not to be chosen by scores"),
        (["words.py:count"], "say what to try"),
        (["words.py", "--data", "X"], "'X' is a list"),
        (["words.py", "--data", "X,Nix"], "has no 'Nix'"),
        (["words.py", "--groups", "Nix"], "--groups:"),
        (["words.py", "--groups", "groups", "--folds", "7"], "number of groups, 6, got 7"),
        (["words.py", "--groups", "groups", "--folds", "6", "--nested"], "that --nested makes without"),
        (["words.py", "--folds", "25"], "number of examples, 24, got 25"),
        (["words.py", "--scoring", "nix"], "got 'nix'"),
        (["words.py", "--scoring", "groups"], "got a list"),
        (["words.py:count", "--scoring", "exact", "--data", "subsets"], "its method score only"),
        (["words.py", "--save", "no/where"], "there is no folder 'no'"),
        (["--data", "X"], "there is none"),
        (["words.py", "--data", "X,values", "--jobs", "1"], "in the fit with C=0.001, fold 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_are_told_before_anything_is_fitted(here, capsys, arguments, text):
    status, out, err = inside(capsys, "tune", *arguments)
    assert (status, out) == (2, "")
    assert text in err


@pytest.mark.parametrize("text", ["C", "=1", "C=", "C=1,,2", "C=1,1.0", "C=a,a", "C d=1"])
def test_wrong_grids(text):
    with pytest.raises(ArgumentTypeError):
        parse_grid(text)


def test_values_of_grids():
    assert parse_grid("C=0.1,1,1e2") == ("C", (0.1, 1, 100.0))
    assert parse_grid("trainer_options.averaging=true, False") == ("trainer_options.averaging", (True, False))
    assert parse_grid("max_seconds=none,3") == ("max_seconds", (None, 3))


def test_ctrl_c_shows_what_there_is_and_the_next_run_goes_on(here, capsys):
    asked = ("tune", "words.py:Word", "--grid", "C=0.01,0.1,1", "--folds", "2", "--scoring", "pressed")
    asked += ("--results", "fits.npz", "--jobs", "1")
    with python_hears_ctrl_c():
        status, out, err = inside(capsys, *asked, "--nested", "--save", "best", "--json")
    found = json.loads(out)
    assert (status, found["complete"], found["n_fits"], found["saved"]) == (130, False, 3, None)
    assert [one["mean"] for one in found["grid"]] == [0.01, None, None]
    assert (found["best"], found["nested"]) == ({"C": 0.01}, None)
    assert "interrupted after 3 of 18 fits; the same command resumes from fits.npz" in err
    (here / "pressed").touch()  # from now on nobody presses
    status, out, err = inside(capsys, *asked)
    assert status == 0, err
    assert "6 fits, 3 of them from the file" in out
    assert "best: C=1, score 1.0000" in out


def test_ctrl_c_in_a_fit_ends_the_search():
    def press(event):
        signal.raise_signal(signal.SIGINT)

    X, Y = data()
    with python_hears_ctrl_c(), pytest.raises(KeyboardInterrupt):
        grid_scores(StructuredSVM(Word, callbacks=[press]), {"C": [0.1, 1.0]}, X, Y, folds=2)


# -- the functions behind it -----------------------------------------------------------------------------------


def test_grids_of_entries_of_parameters():
    svm = StructuredSVM(Word, trainer_options={"keep": 3, "averaging": False})
    made = configured(svm, {"trainer_options.keep": 5, "regularization.emit": 0.5, "C": 2.0})
    assert made.trainer_options == {"keep": 5, "averaging": False}
    assert made.regularization == {"emit": 0.5}
    assert svm.trainer_options["keep"] == 3
    with pytest.raises(OptionError, match="no parameter 'D'"):
        configured(svm, {"D": 1})


def test_arrays_and_sparse_rows_are_parted():
    X, Y = make_identity(40)
    found = grid_scores(CountingPredictor(Subsets(5), lam=0.1), {"lam": [0.01, 100.0]}, X, Y, folds=4)
    other = GridSearchCV(CountingPredictor(Subsets(5)), {"lam": [0.01, 100.0]}, cv=KFold(4)).fit(X, Y)
    np.testing.assert_allclose(found.means, other.cv_results_["mean_test_score"])
    assert found.at_edge() == {"lam": "smallest"}
    ax = plot_grid(found)
    assert ax.get_xscale() == "log"


def test_groups_are_checked():
    for groups, text in (([1, 2], "a group for each of 3"), ("abc", "a group for each"), ([[1], [2], [3]], "names or")):
        with pytest.raises(DataError, match=text):
            make_folds(3, 2, groups)
    with pytest.raises(OptionError, match="not shuffled"):
        make_folds(3, 2, [1, 2, 3], random_state=0)
