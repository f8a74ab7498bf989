"""The stable contract for plug-in authors: hooks, specs and protocols.  Import nothing else but ``ssvm_dsl.ir``."""

from ssvm_dsl.plugin_api.hookspecs import hookimpl
from ssvm_dsl.plugin_api.protocols import (
    Backend,
    CompiledOracle,
    Executor,
    Iterate,
    Objective,
    Planes,
    Session,
    StopRule,
    Trainer,
    TrainingEvent,
    TrainProblem,
    Verdict,
)
from ssvm_dsl.plugin_api.specs import (
    API_VERSION,
    BackendSpec,
    BridgeSpec,
    ConstraintSpec,
    ExecutorSpec,
    LossSpec,
    Option,
    TrainerNeeds,
    TrainerSpec,
)

__all__ = [
    "API_VERSION",
    "Backend",
    "BackendSpec",
    "BridgeSpec",
    "CompiledOracle",
    "ConstraintSpec",
    "Executor",
    "ExecutorSpec",
    "Iterate",
    "LossSpec",
    "Objective",
    "Option",
    "Planes",
    "Session",
    "StopRule",
    "TrainProblem",
    "Trainer",
    "TrainerNeeds",
    "TrainerSpec",
    "TrainingEvent",
    "Verdict",
    "hookimpl",
]
