"""The stable contract for plug-in authors: hooks, specs and protocols.  Import nothing else but ``ssvm_dsl.ir``."""

from ssvm_dsl.ir.constraints import LinearRows
from ssvm_dsl.ir.question import Question
from ssvm_dsl.pausing import pause
from ssvm_dsl.plugin_api.bridges import Bridge, Rewrite
from ssvm_dsl.plugin_api.compiled import CompiledMessages, CompiledOracle
from ssvm_dsl.plugin_api.constraints import ConstraintKind, ExplainingKind, SizedKind
from ssvm_dsl.plugin_api.example_session import Clock, ExampleAnswer, ExampleSession, PlainExample, answer_each
from ssvm_dsl.plugin_api.hookspecs import hookimpl
from ssvm_dsl.plugin_api.loading import loading
from ssvm_dsl.plugin_api.options import Option
from ssvm_dsl.plugin_api.problems import MessageProblem, MixtureProblem, PredictingProblem
from ssvm_dsl.plugin_api.protocols import (
    Backend,
    CompiledSession,
    CountingSession,
    Executor,
    MessageSession,
    Session,
    SumSession,
    Verdict,
    missing_methods,
)
from ssvm_dsl.plugin_api.risks import GradientRisk, PlaneRisk, RiskContext
from ssvm_dsl.plugin_api.specs import (
    API_VERSION,
    AddedLoss,
    Alias,
    BackendSpec,
    BridgeSpec,
    ConstraintSpec,
    LossSpec,
    RiskForm,
    RiskSpec,
    TrainerNeeds,
    TrainerSpec,
)
from ssvm_dsl.plugin_api.starting import ConstraintScores, StartingKind
from ssvm_dsl.plugin_api.structures import StructureOracle, StructureRules
from ssvm_dsl.plugin_api.training import (
    AnytimeTrainer,
    ConcludingTrainer,
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
    "AddedLoss",
    "Alias",
    "AnytimeTrainer",
    "Backend",
    "BackendSpec",
    "Bridge",
    "BridgeSpec",
    "Clock",
    "CompiledMessages",
    "CompiledOracle",
    "CompiledSession",
    "ConcludingTrainer",
    "ConstraintKind",
    "ConstraintScores",
    "ConstraintSpec",
    "CountingSession",
    "ExampleAnswer",
    "ExampleSession",
    "Executor",
    "ExplainingKind",
    "GradientRisk",
    "IncrementalTrainer",
    "Iterate",
    "LinearRows",
    "LossSpec",
    "MessageProblem",
    "MessageSession",
    "MixtureProblem",
    "Objective",
    "Option",
    "PlainExample",
    "PlaneRisk",
    "Planes",
    "PredictingProblem",
    "Question",
    "ResumableTrainer",
    "Rewrite",
    "RiskContext",
    "RiskForm",
    "RiskGradient",
    "RiskSpec",
    "Session",
    "SizedKind",
    "StartingKind",
    "StopRule",
    "StructureOracle",
    "StructureRules",
    "SumSession",
    "TrainProblem",
    "Trainer",
    "TrainerNeeds",
    "TrainerSpec",
    "TrainingEvent",
    "Verdict",
    "answer_each",
    "hookimpl",
    "loading",
    "missing_methods",
    "pause",
]
