"""What kits say to authors of backends and trainers who forgot, mistyped or misread one thing."""

from __future__ import annotations

import numpy as np
import pytest
import sloppy_backends
import sloppy_trainers

from ssvm_dsl.ir import Task
from ssvm_dsl.testing import check_backend, check_trainer
from ssvm_dsl.testing.kit import authors_line

#: The class -> (the check that fails first, what it says).
BACKENDS = {
    "CheckReturnsNone": ("planning", "expected a Verdict, got NoneType"),
    "CheckReturnsTrue": ("planning", "expected a Verdict, got bool"),
    "CheckWithoutNeed": ("loads", "CheckWithoutNeed.check is called as check(need), but its arguments are ()"),
    "CheckTextCost": ("planning", "a problem that is taken has a cost of 0 or more, got 'cheap'"),
    "CheckTextReasons": ("planning", "the reasons of a Verdict must be a tuple of sentences, got None"),
    "NoCheck": ("loads", "NoCheck has no method check(need)"),
    "NoOpen": ("loads", "NoOpen has no method open(program, options)"),
    "OpenWithoutOptions": ("loads", "is called as open(program, options), but its arguments are (program)"),
    "OpenReturnsNone": ("answer form", "open(program, options) returned None, expected a session"),
    "OpenRaises": ("answer form", "it failed with KeyError: 'graph' (sloppy_backends.py:"),
    "OpenReturnsFunction": ("answer form", "function has no method solve(question)"),
    "ConstructorWants": ("loads", "it is made by ConstructorWants(), but its arguments are (solver)"),
    "SolveWithoutQuestion": ("answer form", "Session.solve is called as solve(question), but its arguments are ()"),
    "SolveOldSignature": ("answer form", "but its arguments are (theta, examples, task)"),
    "ReturnsNone": ("answer form", "expected a Solution, got NoneType"),
    "ReturnsLabels": ("answer form", "expected a Solution, got ndarray"),
    "ReturnsTuple": ("answer form", "expected a Solution, got tuple"),
    "ListLabels": ("answer form", "labels: expected an array of int32, got list"),
    "LongLabels": ("answer form", "labels: expected int32 of shape"),
    "FloatLabels": ("answer form", "labels: expected int32 of shape"),
    "ShortLabels": ("answer form", "labels: expected int32 of shape"),
    "ScalarScore": ("answer form", "score: expected an array of float64, got float"),
    "NoBound": ("answer form", "bound: expected an array of float64, got NoneType"),
    "StopAsText": ("answer form", "stop: expected an array of int8, got str"),
    "MatrixLabels": ("answer form", "labels: expected int32 of shape"),
    "UnknownStates": ("answer form", "a label is outside the states of its variable"),
    "NoMarginals": ("marginals", "expected Marginals(node, tables) in Solution.marginals, found none"),
    "ListMarginals": ("marginals", "expected Marginals(node, tables) in Solution.marginals, found none"),
    "KBestFlat": ("answer form", "labels: expected int32 of shape (3,"),
    "AnswerNone": ("answer form", "Session.answer() returned NoneType, expected an ExampleAnswer"),
    "AnswerList": ("answer form", "Session.answer() returned list, expected an ExampleAnswer"),
    "AnswerShort": ("answer form", "Session.answer() returned 1 labels for an example of"),
    "AnswerArguments": ("answer form", "called as answer(example, clock, warm), but its arguments are (example)"),
    "AnswerMissing": ("answer form", "abstract method"),
}
TASKS = {"NoMarginals": Task.MARGINALS, "ListMarginals": Task.MARGINALS, "KBestFlat": Task.KBEST}

TRAINERS = {
    "NoSteps": ("loads", "NoSteps has no method steps(problem, stop, start)"),
    "NoSeed": ("loads", "it is made by NoSeed(random_state=...), but its arguments are ()"),
    "ReturnsWeights": ("iterates", "expected an Iterate(w, n_passes, ...) of ssvm_dsl.plugin_api from steps(), got"),
    "ReturnsNone": ("iterates", "steps(problem, stop, start) returned NoneType; write `yield Iterate("),
    "YieldsNothing": ("iterates", "steps() yielded no iterate"),
    "YieldsNone": ("iterates", "from steps(), got NoneType"),
    "YieldsWeights": ("iterates", "from steps(), got ndarray"),
    "YieldsTuples": ("iterates", "from steps(), got tuple"),
    "WithoutStart": ("loads", "is called as steps(problem, stop, start), but its arguments are (problem, stop)"),
    "StepsAlone": ("loads", "is called as steps(problem, stop, start), but its arguments are (problem)"),
    "ListWeights": ("iterates", "the weights of an iterate must be an array of"),
    "ShortWeights": ("iterates", "the weights of an iterate must be an array of"),
    "IntegerWeights": ("iterates", "the weights of an iterate must be an array of"),
    "ColumnWeights": ("iterates", "the weights of an iterate must be an array of"),
    "NanWeights": ("iterates", "its weights are no longer finite"),
    "TextPrimal": ("iterates", "n_passes, primal, upper and dual of an iterate are numbers, got (1, '1.0'"),
    "NonePasses": ("iterates", "n_passes, primal, upper and dual of an iterate are numbers, got (None"),
    "PlaneOfOne": ("iterates", "the plane of an iterate is (v, b)"),
    "RaisesLater": ("iterates", "it failed with KeyError: 'w' (sloppy_trainers.py:"),
    "UnknownOfProblem": ("iterates", "has no attribute 'n_features' (sloppy_trainers.py:"),
}


def told(report, check, text):
    """The first thing that the kit complains about."""
    first = next(one for one in report.checks if not one.ok)
    assert first.name == check, str(report)
    said = first.failures[0].text if first.failures else ""
    assert text in said, said


@pytest.mark.parametrize("name", BACKENDS)
def test_a_sloppy_backend_is_told(name):
    check, text = BACKENDS[name]
    tasks = (TASKS[name],) if name in TASKS else ()
    only = [check if check == "marginals" else "answer form"]
    spec = sloppy_backends.spec_of(getattr(sloppy_backends, name), *tasks)
    told(check_backend(spec, n_problems=1, only=only), check, text)


@pytest.mark.parametrize("name", TRAINERS)
def test_a_sloppy_trainer_is_told(name):
    check, text = TRAINERS[name]
    told(check_trainer(sloppy_trainers.spec_of(getattr(sloppy_trainers, name)), only=["iterates"]), check, text)


def test_right_ones_pass():
    assert check_backend(sloppy_backends.spec_of(sloppy_backends.Right), n_problems=1, only=["answer form"]).ok
    assert check_trainer(sloppy_trainers.spec_of(sloppy_trainers.Right), only=["iterates"]).ok


def test_the_line_is_the_authors_own():
    with pytest.raises(np.linalg.LinAlgError) as err:
        np.linalg.inv(np.zeros((2, 2)))
    assert authors_line(err.value).startswith(" (test_sloppy_plugins.py:")
    assert authors_line(err.value).endswith("in test_the_line_is_the_authors_own)")
