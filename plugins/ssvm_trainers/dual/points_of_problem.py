"""Which points a training problem is maximised over."""

from __future__ import annotations

from ssvm_dsl.ir import n_marginals
from ssvm_dsl.plugin_api import TrainProblem, local_obstacle
from ssvm_trainers.dual.constrained import constrained_polytope
from ssvm_trainers.dual.polytope import Polytope, TrainingPolytope, clique_polytope, owner_of_cells, possible

#: Seconds for each cell that it takes to lay out which ones are columns.
CELL_SECONDS = 2e-8


def polytope_of(problem: TrainProblem, trainer: str) -> Polytope:
    """Return the points of a problem of the risk ``relaxed`` or ``margin``.

    Raises
    ------
    TrainingError
        There are hard constraints, and no small linear description of them that is exact; names the trainer.
    """
    program = problem.parameters.program
    problem.pause(CELL_SECONDS * n_marginals(program))
    if program.constraints:
        return constrained_polytope(problem, trainer)
    if not problem.relaxed and local_obstacle(problem.parameters):
        return clique_polytope(problem)
    return TrainingPolytope(problem, possible(program) & (problem.objective.weight[owner_of_cells(program)] > 0.0))
