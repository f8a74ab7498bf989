"""The oracles of directed trees on batches beside bare calls of ``ufal.chu_liu_edmonds`` (TurboParser's, in C++).

Microseconds of CPU time for each sentence (the machine may be shared), the best of seven turns.  *Oracle* is everything
from scores to labels: matrices, trees, labels, their scores.  No compiled package for projective trees could be
installed with pip; their oracle stands beside the spanning trees of the same sentences.
"""

from __future__ import annotations

import numpy as np
from assignment_speed import spent
from rich.console import Console
from rich.table import Table

from ssvm_backends.structures.spanning_trees.spanning_trees import ArborescenceBackend as Arborescences
from ssvm_backends.structures.spanning_trees.spanning_trees import Eisner
from ssvm_dsl import Arborescence, Dim, Factor, Input, Label, Model, ProjectiveTree, ground
from ssvm_dsl.ir import Question

SIZES = ((5, 4000), (10, 2000), (25, 1000), (50, 300), (100, 100), (200, 30))


class Heads(Model):
    """The best directed tree over the words of a sentence."""

    T = Dim()
    x = Input(T, T, 1)
    r = Input(T, 1)
    head = Label(T, over=T, null=True)
    arc = Factor(head, features=x)
    root = Factor(head.is_(None), features=r, tie=arc)
    tree = Arborescence(head)


class Projective(Heads):
    """The best projective one."""

    tree = ProjectiveTree(Heads.head)


def measure(length: int, n: int) -> tuple[float, float, float]:
    """Return the microseconds for each of n sentences: the package's bare calls, both of our oracles."""
    from ufal.chu_liu_edmonds import chu_liu_edmonds

    rng = np.random.default_rng(length)
    X = [{"x": rng.normal(size=(length, length, 1)), "r": rng.normal(size=(length, 1))} for _ in range(n)]
    matrices = np.full((n, length + 1, length + 1), np.nan)  # of no arc
    for matrix, x in zip(matrices, X, strict=True):
        matrix[1:, 0], matrix[1:, 1:] = x["r"][:, 0], x["x"][:, :, 0]
        matrix[np.arange(1, length + 1), np.arange(1, length + 1)] = np.nan
    sessions = []
    for model, backend in ((Heads, Arborescences()), (Projective, Eisner())):
        made = ground(model, X)
        sessions.append((backend.open(made.program, {}), Question(made.parameters.scores(np.ones(1)))))

    def bare() -> float:
        return sum(chu_liu_edmonds(matrix)[1] for matrix in matrices)

    def oracle(number: int) -> float:
        session, question = sessions[number]
        return float(session.solve(question).score.sum())

    assert np.isclose(bare(), oracle(0)), "the same trees"
    assert oracle(1) <= oracle(0)
    peer, trees, projective = spent(bare, lambda: oracle(0), lambda: oracle(1))
    return peer / n * 1e6, trees / n * 1e6, projective / n * 1e6


def main() -> None:
    """Show the times of all sizes."""
    table = Table(title="us for each sentence", title_justify="left")
    for column in ("words", "ufal.chu_liu_edmonds", "arborescence", "/ ufal", "eisner", "sentences/s of both"):
        table.add_column(column, justify="right")
    for length, n in SIZES:
        peer, trees, projective = measure(length, n)
        rates = f"{1e6 / trees:.0f}, {1e6 / projective:.0f}"
        table.add_row(str(length), f"{peer:.1f}", f"{trees:.1f}", f"{trees / peer:.2f}", f"{projective:.1f}", rates)
    Console(width=100).print(table)
