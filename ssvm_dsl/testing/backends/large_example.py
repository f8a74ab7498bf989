"""Whether a backend keeps to a time limit, preparation included, on one example that is far too large for it.

Many backends check the clock between the examples of a batch.  Before the first iteration on a large one they lay out
graphs, write rows, search for orders or components.  So one example grows until the backend refuses it or it is large;
each time a new session is asked with a short limit.  Only processor time counts, which other programs do not
none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from time import process_time
from typing import Any

from ssvm_dsl.errors import OutOfTime, TooLargeError
from ssvm_dsl.ir import Caps, Guarantee, Limits, Question, Task
from ssvm_dsl.needs.program_needs import program_need
from ssvm_dsl.needs.properties import table_properties
from ssvm_dsl.plugin_api import Backend
from ssvm_dsl.testing.backends.judge import naming_the_question
from ssvm_dsl.testing.backends.planted import Planted, PlantedJudge, dense, planted
from ssvm_dsl.testing.contract import opened
from ssvm_dsl.testing.report import Complaint

#: Seconds that the first answer has, which compiles kernels.
COMPILING = 1.0

#: Numbers of variables of the examples.
SIZES = (16, 400, 10000)

#: Time limits in seconds: one ends during the first preparation, the other during preparation within the search.
LIMITS = (0.05, 0.3)

#: Seconds of processor time beyond the limit that an answer may take: single passes that cannot be cut short.
MOST_OVER = 0.4

#: A late answer may have compiled something; this many in a row have not.
TRIES = 3

def check_large_example(backend: Backend, caps: Caps, options: Mapping[str, Any]) -> bool:
    """Ask about ever larger examples with a short limit; return whether the backend takes any of them.

    Parameters
    ----------
    backend : Backend
    caps : Caps
    options : mapping

    Raises
    ------
    Complaint
        It takes much longer than the limit, or its answer is none.
    """
    asked = False
    for large in accepted_examples(backend, caps, dense(caps)):
        if not asked:
            _seconds(backend, options, large, Limits(time=COMPILING))
        asked = True
        for limit in LIMITS:
            took = min(_until_in_time(backend, options, large, limit))
            if took <= limit + MOST_OVER:
                continue
            n, m = large.program.n_variables, sum(group.n_factors for group in large.program.groups)
            text = f"one example of {n} variables and {m} factors takes {took:.3g} s of the processor with"
            text += f" Limits(time={limit:g})"
            raise Complaint(f"{text}; look at the clock while the answer is prepared, and within long passes")
    return asked


def accepted_examples(backend: Backend, caps: Caps, *more: Planted) -> Iterator[PlantedJudge]:
    """Yield examples that the backend takes: some more, and ever larger ones."""
    for problem in (*more, *(planted(caps, n) for n in SIZES)):
        large = PlantedJudge(problem, caps)
        known = table_properties(large.program, large.problem.theta)
        need = program_need(large.program, frozenset({Task.MAP}), Guarantee.HEURISTIC, properties=known)
        if not caps.refusals(need) and backend.check(need).ok:
            yield large


def _until_in_time(backend: Backend, options: Mapping[str, Any], large: PlantedJudge, limit: float) -> Iterator[float]:
    """Yield the seconds that answers within a limit take, until one is in time or has been tried often enough."""
    for _ in range(TRIES):
        took = _seconds(backend, options, large, Limits(time=limit))
        yield took
        if took <= limit + MOST_OVER:
            return


def _seconds(backend: Backend, options: Mapping[str, Any], large: PlantedJudge, limits: Limits) -> float:
    """Return the seconds of the processor that a new session and its answer take."""
    begin, question = process_time(), Question(large.problem.theta, limits=limits)
    try:
        session = opened(backend, large.program, options)
        solution = session.solve(question)
    except (OutOfTime, TooLargeError):
        return process_time() - begin
    took = process_time() - begin
    with naming_the_question(question, large.problem.name):
        large.everything(question, solution)
    return took
