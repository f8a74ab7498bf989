"""The stable contract for plug-in authors: hooks, specs and protocols.

Plug-ins import this, ``ssvm_dsl.ir`` (the data), ``ssvm_dsl.kernels`` (compiled building blocks) and
``ssvm_dsl.errors``, and of them the names in ``__all__``.
"""

from ssvm_dsl.ir.constraints import LinearRows
from ssvm_dsl.ir.question import Question
from ssvm_dsl.needs.orders import GIVE_UP
from ssvm_dsl.needs.program_needs import program_need
from ssvm_dsl.needs.treewidth import eliminations, structure_keys, width_order, width_orders
from ssvm_dsl.pausing import pause, time_left
from ssvm_dsl.plugin_api.blocking import CallOutcome, call_in_process, call_in_thread
from ssvm_dsl.plugin_api.example_session import (
    Clock,
    ExampleAnswer,
    ExampleSession,
    PlainExample,
    answer_each,
    pack_answers,
)
from ssvm_dsl.plugin_api.hookspecs import hookimpl
from ssvm_dsl.plugin_api.hosting.loading import (
    LoadingElsewhere,
    loading,
    loading_file,
    loading_seconds,
    tell_loading,
    told_seconds,
)
from ssvm_dsl.plugin_api.kinds.bridges import Bridge, Rewrite
from ssvm_dsl.plugin_api.kinds.commands import Command, Screen
from ssvm_dsl.plugin_api.kinds.compiled import CompiledMessages, CompiledOracle
from ssvm_dsl.plugin_api.kinds.constraints import (
    BestKind,
    ConstraintKind,
    ExplainingKind,
    MixtureKind,
    ProjectingKind,
    PropagatingKind,
    SeparableKind,
    SizedKind,
    UnmetKind,
)
from ssvm_dsl.plugin_api.kinds.executors import (
    NotOpen,
    OpenShards,
    Shard,
    ShardExecutor,
    ShardFunction,
    answer,
    answer_if_open,
    forget,
    ready,
    travelling,
)
from ssvm_dsl.plugin_api.kinds.readers import (
    AnswersWriter,
    ExamplesReader,
    ProblemReader,
    ReadLimits,
    ReadSettings,
)
from ssvm_dsl.plugin_api.kinds.risks import GradientRisk, PlaneRisk, RiskContext
from ssvm_dsl.plugin_api.kinds.starting import ConstraintScores, StartingKind
from ssvm_dsl.plugin_api.kinds.structures import StructureOracle, StructureRules
from ssvm_dsl.plugin_api.lawler import Ranked, Subspace, SubspaceSolver, k_best_of
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
from ssvm_dsl.plugin_api.specs import (
    API_VERSION,
    AddedLoss,
    Alias,
    AutoRule,
    BackendSpec,
    BridgeSpec,
    CommandSpec,
    ConstraintSpec,
    ExecutorSpec,
    FileContent,
    LossSpec,
    ReaderSpec,
    RiskForm,
    RiskSpec,
    TrainerNeeds,
    TrainerSpec,
)
from ssvm_dsl.plugin_api.training import (
    AnytimeTrainer,
    ConcludingTrainer,
    IncrementalTrainer,
    Iterate,
    Objective,
    Planes,
    ResumableTrainer,
    RiskGradient,
    ShardStep,
    ShardSteps,
    StopRule,
    Trainer,
    TrainingEvent,
    TrainProblem,
)
from ssvm_dsl.scores.fixed_tables import fixed_tables
from ssvm_dsl.scores.labellings import add_labels, score_labels
from ssvm_dsl.scores.marginals import add_marginals, consistent, score_marginals
from ssvm_dsl.scores.parameter_map import ParameterMap
from ssvm_dsl.units import bytes_text, seconds_text
from ssvm_dsl.values import Value

__all__ = [
    "API_VERSION",
    "GIVE_UP",
    "AddedLoss",
    "Alias",
    "AnswersWriter",
    "AnytimeTrainer",
    "AutoRule",
    "Backend",
    "BackendSpec",
    "BestKind",
    "Bridge",
    "BridgeSpec",
    "CallOutcome",
    "Clock",
    "Command",
    "CommandSpec",
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
    "ExamplesReader",
    "Executor",
    "ExecutorSpec",
    "ExplainingKind",
    "FileContent",
    "GradientRisk",
    "IncrementalTrainer",
    "Iterate",
    "LinearRows",
    "LoadingElsewhere",
    "LossSpec",
    "MessageProblem",
    "MessageSession",
    "MixtureKind",
    "MixtureProblem",
    "NotOpen",
    "Objective",
    "OpenShards",
    "Option",
    "ParameterMap",
    "PlainExample",
    "PlaneRisk",
    "Planes",
    "PredictingProblem",
    "ProblemReader",
    "ProjectingKind",
    "PropagatingKind",
    "Question",
    "Ranked",
    "ReadLimits",
    "ReadSettings",
    "ReaderSpec",
    "ResumableTrainer",
    "Rewrite",
    "RiskContext",
    "RiskForm",
    "RiskGradient",
    "RiskSpec",
    "Screen",
    "SeparableKind",
    "Session",
    "Shard",
    "ShardExecutor",
    "ShardFunction",
    "ShardStep",
    "ShardSteps",
    "SizedKind",
    "StartingKind",
    "StopRule",
    "StructureOracle",
    "StructureRules",
    "Subspace",
    "SubspaceSolver",
    "SumSession",
    "TrainProblem",
    "Trainer",
    "TrainerNeeds",
    "TrainerSpec",
    "TrainingEvent",
    "UnmetKind",
    "Value",
    "Verdict",
    "add_labels",
    "add_marginals",
    "answer",
    "answer_each",
    "answer_if_open",
    "bytes_text",
    "call_in_process",
    "call_in_thread",
    "consistent",
    "eliminations",
    "fixed_tables",
    "forget",
    "hookimpl",
    "k_best_of",
    "loading",
    "loading_file",
    "loading_seconds",
    "missing_methods",
    "pack_answers",
    "pause",
    "program_need",
    "ready",
    "score_labels",
    "score_marginals",
    "seconds_text",
    "structure_keys",
    "tell_loading",
    "time_left",
    "told_seconds",
    "travelling",
    "width_order",
    "width_orders",
]
