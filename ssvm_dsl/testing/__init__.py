"""For authors of plug-ins: the conformance kits, problems to try, and answers of installed backends to compare with.

``check_backend("my-backend")``, ``check_trainer("my-trainer")``, ``check_constraint("my-kind")``,
``check_bridge("my-bridge")``, ``check_loss("my-loss")`` and ``check_executor("my-executor")`` run the kits; the pytest
fixtures ``backend_conformance``, ``trainer_conformance``, ``constraint_conformance``, ``bridge_conformance``,
``loss_conformance`` and ``executor_conformance`` do so in a test.
``solve(program, theta, backend, task)`` is a backend's answer as users get it, ``open_session`` a session to ask again.
``check_output_space(space)`` compares an output space for training by counting with enumeration.
``training_problem`` and ``make_trainer`` give the problem and the trainer of a fit, to run a trainer by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssvm_dsl.lazy_api import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)

if TYPE_CHECKING:
    from ssvm_dsl.testing.backends.conformance import check_backend as check_backend
    from ssvm_dsl.testing.bridges import check_bridge as check_bridge
    from ssvm_dsl.testing.constraints import check_constraint as check_constraint
    from ssvm_dsl.testing.executors import check_executor as check_executor
    from ssvm_dsl.testing.kind_problems import kind_problem as kind_problem
    from ssvm_dsl.testing.losses import check_loss as check_loss
    from ssvm_dsl.testing.own_structures import check_oracle as check_oracle
    from ssvm_dsl.testing.own_structures import check_output_space as check_output_space
    from ssvm_dsl.testing.problems import Problem as Problem
    from ssvm_dsl.testing.problems import Recipe as Recipe
    from ssvm_dsl.testing.problems import Scores as Scores
    from ssvm_dsl.testing.problems import catalogue as catalogue
    from ssvm_dsl.testing.problems import random_recipe as random_recipe
    from ssvm_dsl.testing.problems import seeded as seeded
    from ssvm_dsl.testing.trainers import check_trainer as check_trainer
    from ssvm_dsl.testing.training import answer as answer
    from ssvm_dsl.testing.training import make_trainer as make_trainer
    from ssvm_dsl.testing.training import open_session as open_session
    from ssvm_dsl.testing.training import solve as solve
    from ssvm_dsl.testing.training import training_problem as training_problem
