"""Trainers that work on marginals: what they take, and whose marginals they are.

Marginals of variables and factors are those of a distribution over labellings where graphs are forests of pairs.  Where
they are not, those of the cliques of a triangulated graph are (Taskar, Guestrin and Koller 2003), a number for each
joint state of a clique: as many as the treewidth allows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ssvm_dsl.errors import TrainingError
from ssvm_dsl.inference.rules import with_rules
from ssvm_dsl.ir.analysis.topology import Topology
from ssvm_dsl.ir.loss import ADDITIVE, LossTerm
from ssvm_dsl.learning.risks.kinds import Risk, minimised, minimisers
from ssvm_dsl.plugin_api.specs import TrainerSpec
from ssvm_dsl.registry import registry
from ssvm_dsl.requirements.hulls import associative, constraint_hull, local_obstacle
from ssvm_dsl.requirements.treewidth import Elimination, eliminations
from ssvm_dsl.scores.parameter_map import ParameterMap

#: Base-2 logarithm of the joint states of the cliques of all examples at most; trainers keep some 100 bytes for each.
MOST_STATES = 23.0


@dataclass(frozen=True, eq=False)
class Cliques:
    """The cliques of the triangulated graphs of a data set; masks do not make them smaller.

    Parameters
    ----------
    parameters : ParameterMap
    """

    parameters: ParameterMap

    @property
    def needed(self) -> bool:
        """Whether marginals of variables and factors will not do."""
        constants = self.parameters.constants
        ruled_out = constants is not None and bool(constants.tables)
        return ruled_out or self.parameters.program.hardest_topology > Topology.FOREST

    @cached_property
    def n_states(self) -> float:
        """Base-2 logarithm of the joint states of the cliques of all examples, from above; -inf without any."""
        sizes = [one.log2_total for one in self._each]
        return float(np.logaddexp2.reduce(sizes)) if sizes else -np.inf

    @property
    def complete(self) -> bool:
        """Whether all cliques were counted: the search ends at a table that is too large to store."""
        return all(one.complete for one in self._each)

    @cached_property
    def widest(self) -> tuple[int, int]:
        """The example with the widest clique, and the number of its variables."""
        widths = [one.width + 1 for one in self._each] or [0]
        return int(np.argmax(widths)), max(widths)

    @cached_property
    def _each(self) -> list[Elimination]:
        return eliminations(replace(self.parameters.program, allowed=None, constraints=()))


def check_factored(spec: TrainerSpec, risk: Risk, power: float, parameters: ParameterMap, loss: LossTerm) -> None:
    """Refuse a trainer that works on marginals, or on distributions over labellings, where it cannot.

    Neither knows of losses that do not add up over variables, nor do marginals of hard constraints whose solutions have
    no small linear description.

    Raises
    ------
    TrainingError
        Names the obstacle, and the risk's other trainers.
    """
    needs, cliques = spec.needs, Cliques(parameters)
    used = risk.loss(loss)
    constrained = bool(parameters.program.constraints)
    too_many = needs.factored and not constrained and cliques.needed and not (needs.hulls and associative(parameters))
    too_many = too_many and cliques.n_states > MOST_STATES
    obstacle = _obstacle(spec, parameters) if needs.factored and constrained else ""
    obstacles = {
        f"a loss that adds up over variables, not {used.called}": used.kind != ADDITIVE,
        obstacle: bool(obstacle),
        _too_wide(cliques) if too_many else "": too_many,
    }
    reasons = [reason for reason, there in obstacles.items() if there]
    if reasons:
        sums = used.kind == ADDITIVE

        def works(other: TrainerSpec) -> bool:
            return not (other.needs.factored or (other.needs.asks_marginals and not sums))

        able = minimisers(risk, power, registry(), works)
        what = "marginals" if needs.factored else "distributions over labellings"
        text = f"trainer '{spec.name}' works on {what}, and needs {' and '.join(reasons)}"
        text += f"; others for this risk: {', '.join(able) or 'none'}"
        if too_many and "relaxed" in minimised(needs, registry()):
            text += "; risk='relaxed' needs marginals of variables and factors only"
        raise TrainingError(text)


def _obstacle(spec: TrainerSpec, parameters: ParameterMap) -> str:
    """Return what a trainer of marginals needs of hard constraints that these are not, in words."""
    if not spec.needs.hulls:
        return "a model without hard constraints"
    reason = local_obstacle(parameters) or constraint_hull(with_rules(parameters.program, registry()))
    wanted = "hard constraints whose solutions have a small exact linear description"
    return f"{wanted} ({reason})" if isinstance(reason, str) else ""


def whose_marginals(spec: TrainerSpec, relaxed: bool, parameters: ParameterMap) -> str:
    """Return whose marginals a trainer of marginals works on, and whether its dual is exact, in words."""
    if relaxed:
        return "of variables and factors: the local polytope, exact on forests of pairs and else a relaxation"
    if parameters.program.constraints:
        return "of variables, factors and the linear rows of hard constraints: exact"
    cliques = Cliques(parameters)
    if not cliques.needed:
        return "of variables and factors of forests: exact"
    if spec.needs.hulls and associative(parameters):
        return "of variables and factors: exact, as all tables are submodular"
    return f"of cliques of up to {cliques.widest[1]} variables of triangulated graphs: exact"


def _too_wide(cliques: Cliques) -> str:
    """Return the error text for graphs whose cliques have too many joint states."""
    example, width = cliques.widest
    more = "" if cliques.complete else " and more"
    text = f"graphs of small treewidth: the cliques of triangulated ones have 2^{cliques.n_states:.0f}{more}"
    text += f" joint states (of up to {width}{more} variables in example {example})"
    return f"{text}, and 2^{MOST_STATES:.0f} are kept at most"
