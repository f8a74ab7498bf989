"""The stable contract for plug-in authors: hooks, specs and protocols.  Import nothing else but ``ssvm_dsl.ir``."""

from ssvm_dsl.plugin_api.compiled import CompiledMessages, CompiledOracle
from ssvm_dsl.plugin_api.hookspecs import hookimpl
from ssvm_dsl.plugin_api.loading import loading
from ssvm_dsl.plugin_api.problems import MessageProblem, MixtureProblem, PredictingProblem
from ssvm_dsl.plugin_api.protocols import (
    Backend,
    CountingSession,
    Executor,
    OptionedBackend,
    Session,
    SlopeSession,
    SumSession,
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
from ssvm_dsl.plugin_api.training import (
    IncrementalTrainer,
    Iterate,
    Objective,
    Planes,
    ResumableTrainer,
    RiskGradient,
    StopRule,
    Trainer,
    TrainingEvent,
    TrainProblem,
)

__all__ = [
    "API_VERSION",
    "Backend",
    "BackendSpec",
    "BridgeSpec",
    "CompiledMessages",
    "CompiledOracle",
    "ConstraintSpec",
    "CountingSession",
    "Executor",
    "ExecutorSpec",
    "IncrementalTrainer",
    "Iterate",
    "LossSpec",
    "MessageProblem",
    "MixtureProblem",
    "Objective",
    "Option",
    "OptionedBackend",
    "Planes",
    "PredictingProblem",
    "ResumableTrainer",
    "RiskGradient",
    "Session",
    "SlopeSession",
    "StopRule",
    "SumSession",
    "TrainProblem",
    "Trainer",
    "TrainerNeeds",
    "TrainerSpec",
    "TrainingEvent",
    "Verdict",
    "hookimpl",
    "loading",
]
