"""The process in which toulbar2 runs: reads problems from standard input, writes answers to standard output.

toulbar2 keeps its options and its search in global variables, holds Python's lock while it searches and does not
hear Ctrl-C.  In a process of its own it can do neither harm nor hang anybody: :mod:`ssvm_toulbar2.process` is the other
end.  This file is run by its path and imports nothing of ssvm-dsl, so that it starts quickly.

A message is a line of JSON and, for problems, the arrays that the line announces, one after the other.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
from typing import Any, BinaryIO

import numpy as np

#: No limit on backtracks; the solver takes a signed number of 64 bits.
UNLIMITED = 2**62

#: CPU seconds after which the solver's own timer would end a search.
FOREVER = 10**8


def main() -> None:
    """Answer problems until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
    die_with(int(sys.argv[1]))
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the solver prints is not an answer
    import pytoulbar2

    send(replies, {"ready": True})
    while line := sys.stdin.buffer.readline():
        problem = json.loads(line)
        arrays = [read_array(sys.stdin.buffer, *header) for header in problem["arrays"]]
        send(replies, solve(pytoulbar2.CFN, problem, arrays))


def die_with(pipe: int) -> None:
    """End this process, in the middle of a search as well, when nobody holds the other end of a pipe any more.

    The kernel then sends SIGIO, whose default is to end the process.  Nothing is ever written to the pipe.
    """
    fcntl.fcntl(pipe, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(pipe, fcntl.F_SETFL, fcntl.fcntl(pipe, fcntl.F_GETFL) | os.O_ASYNC)


def solve(network: Any, problem: dict[str, Any], arrays: list[Any]) -> dict[str, Any]:
    """Return the best labelling that costs less than ``problem["top"]``, and a lower bound of all costs.

    Parameters
    ----------
    network : type
        ``pytoulbar2.CFN``.
    problem : dict
        ``top``, ``vac``, ``backtracks`` (0 for no limit) and ``hint`` (whether the last array is a labelling to try
        first).
    arrays : list of ndarray
        The numbers of states, the costs of all states, then for each group its scopes and its costs.
    """
    hint = arrays.pop() if problem["hint"] else None
    cards, node, *rest = arrays
    model = network(ubinit=float(problem["top"]), resolution=0, vac=problem["vac"])
    model.Option.backtrackLimit = problem["backtracks"] or UNLIMITED  # a new model does not reset it
    model.Option.hbfs = 1  # best-first search, which keeps a bound; problems without any solution leave it off
    for v, card in enumerate(cards.tolist()):
        model.AddVariable(str(v), range(card))
    starts = np.cumsum(cards) - cards
    for card in np.unique(cards).tolist():
        mine = np.flatnonzero(cards == card)
        model.AddFunctions(mine.astype(np.int32), node[starts[mine][:, None] + np.arange(card)].astype(float))
    for scopes, costs in zip(rest[::2], rest[1::2], strict=True):
        add_factors(model, cards, scopes, costs)
    if hint is not None:
        for v, state in enumerate(hint.tolist()):
            model.CFN.wcsp.setBestValue(v, state)
    model.CFN.timer(FOREVER)  # from here on the signal SIGVTALRM ends the search, and its results remain
    found = model.Solve()
    return {
        "labels": None if found is None else [int(state) for state in found[0]],
        "low": int(model.GetDDualBound()),
        "limited": bool(model.Option.limited),
    }


def add_factors(model: Any, cards: Any, scopes: Any, costs: Any) -> None:
    """Add the factors of one group: all at once, or one by one where they join more than three variables."""
    if not len(scopes):
        return
    if scopes.shape[1] <= 3:
        shape = (len(scopes), *cards[scopes[0]].tolist())
        model.AddFunctions(np.ascontiguousarray(scopes), costs.astype(float).reshape(shape))
        return
    for scope, table in zip(scopes.tolist(), costs.tolist(), strict=True):
        model.AddFunction(scope, table)


def read_array(stream: BinaryIO, dtype: str, shape: list[int]) -> Any:
    """Return the next array of a message."""
    kind = np.dtype(dtype)
    size = kind.itemsize * int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(stream.read(size), dtype=kind).reshape(shape)


def send(stream: BinaryIO, reply: dict[str, Any]) -> None:
    """Write an answer."""
    stream.write(json.dumps(reply).encode() + b"\n")
    stream.flush()


if __name__ == "__main__":
    main()
