"""Plain descriptions of plug-ins.  A ``factory`` is ``"package.module:Class"`` and imported only when used."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from enum import StrEnum
from numbers import Integral, Real
from types import FunctionType
from typing import Any

import numpy as np

from ssvm_dsl.errors import OptionError, PluginError, SsvmError
from ssvm_dsl.ir.need import Caps, Guarantee, Task
from ssvm_dsl.loading import loading
from ssvm_dsl.plugin_api.hosting.contained import contained

# -- ``Option``: what users may set of a plug-in, and what kind of value it takes ----------------------------------
#
# The kind is declared, not guessed from the default: a default of ``None`` has no kind, and one of 3 may be a number
# that need not be whole.

#: What an option may be, besides a choice among listed values, in words.
KINDS: dict[type, str] = {
    int: "an int", float: "a number", str: "a text", bool: "True or False", FunctionType: "a function",
}  # fmt: skip


@dataclass(frozen=True)
class Option:
    """One option of a plug-in.

    Parameters
    ----------
    name : str
    default : Any
        A value of the kind.
    doc : str
        One line: what it does, and its unit.
    kind : int, float, str, bool, types.FunctionType or tuple
        The type of its values, or the values that are allowed.  ``int`` takes whole numbers of 64 bits and no 2.0,
        ``float`` finite numbers, ints as well, ``FunctionType`` whatever can be called.  A function is not kept in
        files of models; checkpoints keep its name.  A tuple may hold types and values: ``(float, "auto")``.
    least, above : float, optional
        Numbers are at least ``least``, and above ``above``.
    optional : bool
        Whether it may be ``None``.
    """

    name: str
    default: Any
    doc: str
    kind: type | tuple[Any, ...]
    least: float | None = None
    above: float | None = None
    optional: bool = False

    def expected(self, value: Any) -> str:
        """Return ``""`` if a value is allowed, else a description of the allowed values."""
        plain = _plain(value)
        fits = (plain is None and self.optional) or any(self._is(one, plain) for one in self.alternatives)
        return "" if fits else self.words

    def converted(self, value: Any) -> Any:
        """Return an allowed value as the plug-in receives it: a Python number of the option's kind."""
        plain = _plain(value)
        if isinstance(plain, Real) and not isinstance(plain, bool | float):
            kind = next(one for one in self.alternatives if self._is(one, plain))
            return kind(plain) if isinstance(kind, type) else plain
        return plain

    @property
    def alternatives(self) -> tuple[Any, ...]:
        """The types and values that it takes."""
        return self.kind if isinstance(self.kind, tuple) else (self.kind,)

    @property
    def choices(self) -> tuple[Any, ...]:
        """The values it takes, where they are listed."""
        return tuple(one for one in self.alternatives if not isinstance(one, type))

    @property
    def words(self) -> str:
        """A description of allowed values: ``"an int of at least 1"``."""
        kinds = [self._in_range(one) for one in self.alternatives if isinstance(one, type)]
        listed = [f"one of {list(self.choices)}" if len(self.choices) > 1 else repr(one) for one in self.choices[:1]]
        return " or ".join([*kinds, *listed, *(["None"] if self.optional else [])])

    def _in_range(self, kind: type) -> str:
        words = [KINDS[kind]]
        if kind in (int, float):
            words += [] if self.least is None else [f"of at least {self.least:g}"]
            words += [] if self.above is None else [f"above {self.above:g}"]
        return " ".join(words)

    def _is(self, kind: Any, value: Any) -> bool:
        """Whether a value is of a type and in range, or is a listed value."""
        if kind is str or kind is bool:
            return isinstance(value, kind)
        if kind is FunctionType:
            return callable(value)
        if not isinstance(kind, type):
            return type(value) is type(kind) and bool(value == kind)
        if not isinstance(value, Integral if kind is int else Real) or isinstance(value, bool):
            return False
        number: Any = value
        in_range = bool(abs(number) <= (2**63 - 1 if kind is int else sys.float_info.max))
        return in_range and (self.least is None or number >= self.least) and (self.above is None or number > self.above)


def named_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options with the names of functions in their place, which are the same in every process."""
    return {key: _name(value) if callable(value) else value for key, value in options.items()}


def _name(function: Any) -> str:
    """Return the name of a function with its module."""
    return f"{function.__module__}.{getattr(function, '__qualname__', type(function).__qualname__)}"


def _plain(value: Any) -> Any:
    """Return a number or text of NumPy as one of Python, which files can hold; anything else unchanged."""
    return value.item() if isinstance(value, np.generic) else value


#: Version of this contract.  A plug-in made for another one is not loaded.
API_VERSION = 1


@dataclass(frozen=True)
class Spec:
    """What all plug-in descriptions share.

    Parameters
    ----------
    name : str
        Unique name among plug-ins of the same kind, as users write it.
    factory : str
        ``"package.module:Class"``.
    summary : str
        One line for tables.
    api_version : int
        Version of the contract the plug-in was made for.
    requires : tuple of str
        Modules outside of the plug-in that must be importable.
    install_hint : str
        The command that installs missing requirements.
    """

    name: str
    factory: str
    summary: str = ""
    api_version: int = API_VERSION
    requires: tuple[str, ...] = ()
    install_hint: str = ""

    def missing(self) -> list[str]:
        """Return the required modules that are not installed."""
        return [name for name in self.requires if not _importable(name)]

    def load(self, owner_name: str = "") -> Any:
        """Return what ``factory`` names.

        Parameters
        ----------
        owner_name : str
            Name of the plug-in in error messages; by default its kind and name.

        Raises
        ------
        PluginError
            The plug-in cannot be imported; the message says why and what to install.
        """
        owner_name = owner_name or f"{type(self).__name__.removesuffix('Spec').lower()} '{self.name}'"
        module, _, attribute = self.factory.partition(":")
        try:
            with nullcontext() if module in sys.modules else loading():
                value: Any = importlib.import_module(module)
                for part in attribute.split("."):
                    value = getattr(value, part)
        except BaseException as err:
            hint = f"\n  hint: {self.install_hint}" if self.install_hint else ""

            def error(text: str) -> PluginError:
                why = text.removeprefix("it failed with ")
                return PluginError(f"{owner_name} cannot be loaded from {self.factory}: {why}{hint}")

            raise contained(f"the import of {owner_name}", error).translate(err)  # noqa: B904 -- it has its cause
        return value


#: Modules that were found to be installed; looking for one takes 0.2 ms.
_FOUND: set[str] = set()


def _importable(module: str) -> bool:
    """Return whether a module is installed; the packages around it are imported only where they are no folders."""
    if module in _FOUND:
        return True
    try:
        with contained(f"the import of {module}"):
            there = _in_folders(module) or importlib.util.find_spec(module) is not None
    except SsvmError:
        return False
    if there:
        _FOUND.add(module)
    return there


def _in_folders(module: str) -> bool:
    """Return whether a module is in the folder of its package, that package in the folder of its parent, and so on."""
    package, *inner = module.split(".")
    spec = importlib.util.find_spec(package)
    for part in inner:
        if spec is None or spec.submodule_search_locations is None:
            return False
        package = f"{package}.{part}"
        spec = importlib.machinery.PathFinder.find_spec(package, spec.submodule_search_locations)
    return spec is not None


@dataclass(frozen=True)
class Alias:
    """A name from the literature or another package, with its name here.

    Parameters
    ----------
    name : str
        Compared without case and punctuation.
    settings : mapping
        Further settings: parameters of ``StructuredSVM``, such as ``{"trainer_options": {"order": "batch"}}``.
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class NamedSpec(Spec):
    """A plug-in description whose name users write.

    Parameters
    ----------
    aliases : tuple of Alias
        Names from elsewhere.  Error messages about one of these give the name to use.
    """

    aliases: tuple[Alias, ...] = ()


@dataclass(frozen=True)
class OptionedSpec(NamedSpec):
    """A plug-in description with options.

    Parameters
    ----------
    options : tuple of Option
    """

    options: tuple[Option, ...] = ()

    def resolve(self, given: dict[str, Any] | None) -> dict[str, Any]:
        """Return all options with their values, defaults filled in; numbers become Python's, of the option's kind.

        Raises
        ------
        OptionError
            The option is unknown, or its value is of another kind or out of range; the message says what is allowed.
        """
        known = {option.name: option for option in self.options}
        for name, value in (given or {}).items():
            if name not in known:
                listed = ", ".join(known) or "none"
                raise OptionError(f"'{self.name}' has no option '{name}'; its options are: {listed}")
            expected = known[name].expected(value)
            if expected:
                raise OptionError(f"option '{name}' of '{self.name}' must be {expected}, got {value!r}")
        return {name: option.converted((given or {}).get(name, option.default)) for name, option in known.items()}


@dataclass(frozen=True)
class BackendSpec(OptionedSpec):
    """An inference backend.

    Parameters
    ----------
    caps : Caps
        Capabilities.
    speed : float
        About how many of the operations that ``check`` counts as cost it does in a second.  Expected times
        (``cost / speed``) are what ``auto`` chooses by.
    """

    caps: Caps = Caps()
    speed: float = 1e9


class RiskForm(StrEnum):
    """The form of a risk, for trainers: every risk gives values and subgradients, and some give more."""

    #: A maximum over labellings: a plane for each (:class:`~ssvm_dsl.plugin_api.Planes`).
    PLANES = "planes"

    #: The same with planes that have scales of their own, such as the loss in slack rescaling.
    SCALED = "scaled planes"

    #: A maximum over fractional labellings: planes hold marginals.
    FRACTIONAL = "fractional planes"

    #: Differentiable: subgradients are gradients.
    SMOOTH = "smooth"

    #: Convex, and nothing else.
    CONVEX = "convex"


class AddedLoss(StrEnum):
    """The loss that a risk looks at."""

    DECLARED = "declared"  #: that of the model
    NONE = "none"  #: zero everywhere
    ZERO_ONE = "zero-one"  #: 1 for every labelling but the truth


@dataclass(frozen=True)
class RiskSpec(NamedSpec):
    """A risk for ``StructuredSVM(risk=...)``.

    ``factory`` names a class that is made once for a fit, with a :class:`~ssvm_dsl.plugin_api.RiskContext`: a
    :class:`~ssvm_dsl.plugin_api.PlaneRisk` for the forms ``PLANES`` and ``SCALED``, else a
    :class:`~ssvm_dsl.plugin_api.GradientRisk`.

    Parameters
    ----------
    form : RiskForm
    loss : AddedLoss
        The loss that its world holds.
    additive : bool
        Whether that loss must add up over variables.
    joint : bool
        Whether it may also price joint states of factors, if it must be a sum (``LossTerm.factors``).
    tasks : frozenset of Task
        Questions it asks of the backend.  ``MAP`` of a maximum over labellings stands for loss-augmented questions:
        the two best for ``ZERO_ONE``, best labellings by counts for ``CountLoss``.
    bounded : bool
        Whether answers without bounds will not do.
    one_label : bool
        Whether it is for models of one label, all whose classes it looks at without the backend.
    values : bool
        Whether it is for ``StructuredRegressor``, whose factory gets ``values`` and ``epsilon``, too.
    powers : frozenset of float
        The powers it can be raised to; empty for any of at least 1.
    mixtures : str
        The factory for trainers that ask for marginals; empty where it is the same.
    dual_losses : str
        The factory for trainers that work on messages; empty where it is the same.
    upper_bound : str
        A risk that bounds it from above and is easier to compute.
    """

    form: RiskForm = RiskForm.CONVEX
    loss: AddedLoss = AddedLoss.DECLARED
    additive: bool = False
    joint: bool = False
    tasks: frozenset[Task] = frozenset({Task.MAP})
    bounded: bool = False
    one_label: bool = False
    values: bool = False
    powers: frozenset[float] = frozenset()
    mixtures: str = ""
    dual_losses: str = ""
    upper_bound: str = ""


@dataclass(frozen=True)
class TrainerNeeds:
    """Requirements of a trainer.

    Parameters
    ----------
    risks : frozenset of str
        Risks it can minimise, by name.
    forms : frozenset of RiskForm
        Forms of risks it can minimise, whatever their names: those of other plug-ins as well.
    guarantee : Guarantee
        The weakest oracle it works with.
    tasks : frozenset of Task
        Tasks that the backend must answer; with ``marginals`` it works on distributions over labellings
        (:class:`~ssvm_dsl.plugin_api.MixtureProblem` for the margin risk).
    strongly_convex : bool
        Whether every weight must be regularised.
    any_power : bool
        Whether it minimises powers of risks, too.
    powers : frozenset of float
        Which powers it minimises otherwise.
    messages : bool
        Whether it works on the messages of a backend with dual bounds (``Caps.messages``): the risk ``relaxed`` then
        asks for labellings and bounds, not for fractional solutions.
    factored : bool
        Whether it works on marginals in place of distributions over labellings: graphs must then be of small treewidth
        (any graphs for the risk ``relaxed``) without hard constraints, and losses must add up over variables.
    hulls : bool
        Whether, besides, it takes points of linear rows that are mixtures of labellings: those of
        :func:`~ssvm_dsl.plugin_api.constraint_hull` under hard constraints, and the local polytope wherever
        :func:`~ssvm_dsl.plugin_api.local_obstacle` has nothing against it.
    l1 : bool
        Whether it minimises an L1 penalty, too (``Objective.l1``).
    hard : bool
        Whether it finds hard margins, too (``Objective.hard``).
    """

    risks: frozenset[str] = frozenset({"margin"})
    forms: frozenset[RiskForm] = frozenset()
    guarantee: Guarantee = Guarantee.HEURISTIC
    tasks: frozenset[Task] = frozenset({Task.MAP})
    strongly_convex: bool = False
    any_power: bool = False
    powers: frozenset[float] = frozenset({1.0})
    messages: bool = False
    factored: bool = False
    hulls: bool = False
    l1: bool = False
    hard: bool = False

    @property
    def asks_marginals(self) -> bool:
        """Whether it asks for marginals where the risk alone would not."""
        return Task.MARGINALS in self.tasks

    def minimises(self, risk: RiskSpec) -> bool:
        """Whether it minimises a risk, or some power of it."""
        return risk.name in self.risks or risk.form in self.forms

    def covers(self, risk: RiskSpec, power: float) -> bool:
        """Whether it minimises a power of a risk."""
        able = (self.any_power or power in self.powers) and (not risk.powers or power in risk.powers)
        return able and self.minimises(risk)


@dataclass(frozen=True, eq=False)
class AutoRule:
    """A reason for ``trainer="auto"`` to take a trainer; among rules of trainers that can do a fit the first decides.

    Parameters
    ----------
    rank : int
        Rules of lower rank come first.
    reason : str
        Why the trainer is taken where the rule is met, for the report: it goes on after "bcfw: ".
    forms : frozenset of RiskForm
        The forms of risks that it is for; all where empty.
    powers : frozenset of float
        The powers of risks that it is for; all where empty.
    least_examples, least_weights : int
        It is for data sets and models of at least this size.
    least_ratio : float
        It is for at least so many examples for each weight.
    single : bool
        Whether it is for examples with one variable alone, whose answers cost no more than their scores.
    on_shards : bool
        Whether it is for examples in shards, too.
    """

    rank: int
    reason: str
    forms: frozenset[RiskForm] = frozenset()
    powers: frozenset[float] = frozenset()
    least_examples: int = 0
    least_weights: int = 0
    least_ratio: float = 0.0
    single: bool = False
    on_shards: bool = True


@dataclass(frozen=True)
class TrainerSpec(OptionedSpec):
    """A trainer.

    Parameters
    ----------
    needs : TrainerNeeds
    incremental : bool
        Whether it can learn from a stream: it is an :class:`~ssvm_dsl.plugin_api.IncrementalTrainer`.
    resumable : bool
        Whether it can resume from a checkpoint: it is a :class:`~ssvm_dsl.plugin_api.ResumableTrainer`.
    concluding : bool
        Whether it is asked for the certificate of its newest iterate when a fit ends by a limit, a callback or Ctrl-C:
        it is a :class:`~ssvm_dsl.plugin_api.ConcludingTrainer`.
    anytime : bool
        Whether its weights improve within an iteration: it is an :class:`~ssvm_dsl.plugin_api.AnytimeTrainer`.
    best_iterate : bool
        Whether the iterate with the lowest objective is returned, not the last one; an option of this name decides
        instead where there is one.
    compares_start : bool
        Whether steps may make things worse: where a limit ends the fit, the weights it began with are returned if they
        are better.
    certifies : bool
        Whether its iterates carry lower bounds of the optimum, so that there is a duality gap, and the planes behind
        them (:class:`~ssvm_dsl.plugin_api.Iterate`), so that there is one for every C.
    aggregates : bool
        Whether a pass makes a plane of all examples, at least where there are few weights: few passes do then, and
        users of other trainers get this information.
    completes : bool
        Whether each of its steps moves by the planes at the newest weights alone and keeps none, so that latent
        variables are completed again at each (online updates), not between fits.
    distributes : bool
        Whether examples may be anywhere (:class:`~ssvm_dsl.plugin_api.ShardExecutor`): it asks its problem for
        ``value``, ``gradient`` and ``curvature`` alone, or takes steps of its own on shards
        (:class:`~ssvm_dsl.plugin_api.ShardSteps`).
    keeps_on_shards : bool
        Whether these steps go on from what they left on the shard the last time, so that shards must stay open.
    n_labellings, n_vectors : int
        About how many labellings of each example, and vectors of weights, it holds at once; for expected memory.
    n_marginals : int
        Likewise, with fractional answers: arrays as large as the marginals of all variables and factors of the data.
    scale_free : bool
        Whether features of very different sizes do not slow it; users of others are warned of them.
    rules : tuple of AutoRule
        When ``trainer="auto"`` takes it: bundled and allow-listed trainers only.  Without any it must be named.
    """

    needs: TrainerNeeds = TrainerNeeds()
    incremental: bool = False
    resumable: bool = False
    concluding: bool = False
    anytime: bool = False
    best_iterate: bool = True
    compares_start: bool = False
    certifies: bool = True
    aggregates: bool = False
    completes: bool = False
    distributes: bool = False
    keeps_on_shards: bool = False
    n_labellings: int = 2
    n_vectors: int = 6
    n_marginals: int = 0
    scale_free: bool = False
    rules: tuple[AutoRule, ...] = ()


@dataclass(frozen=True)
class ConstraintSpec(Spec):
    """A kind of hard constraint for ``Constraint(kind, literals, ...)``.

    ``factory`` names a class that is made without arguments and is a :class:`~ssvm_dsl.plugin_api.ConstraintKind`.

    Parameters
    ----------
    parameters : tuple of str or Option
        Required keys of ``ConstraintGroup.meta``, data about each constraint.  An :class:`~ssvm_dsl.plugin_api.Option`
        says which numbers are allowed, and what holds where users give none (``None``: they must).
    literal_parameters : tuple of str or Option
        Required keys of ``ConstraintGroup.literal_meta``, data about each literal.
    any_literals : bool
        Whether literals may be about any variables and states, in any order, negated and repeated.
    """

    parameters: tuple[str | Option, ...] = ()
    literal_parameters: tuple[str | Option, ...] = ()
    any_literals: bool = True


@dataclass(frozen=True)
class BridgeSpec(Spec):
    """A rewriting of hard constraints into tables, for backends that do not take the constraints themselves.

    ``factory`` names a class that is made without arguments and is a :class:`~ssvm_dsl.plugin_api.Bridge`.

    Parameters
    ----------
    kinds : frozenset of str
        Kinds of constraints that it takes.
    every_constraint : bool
        Whether it takes all kinds, those of other plug-ins as well, by what their kinds say
        (``ConstraintGroup.rules``).
    """

    kinds: frozenset[str] = frozenset()
    every_constraint: bool = False


@dataclass(frozen=True)
class ExecutorSpec(OptionedSpec):
    """Where training on shards of the data runs: ``StructuredSVM(executor=...)``.

    ``factory`` names a class that is made with the options and is a :class:`~ssvm_dsl.plugin_api.ShardExecutor`.

    Parameters
    ----------
    keeps : bool
        Whether shards stay open from one call to the next, as long as their process lives.
    """

    keeps: bool = True


@dataclass(frozen=True)
class CommandSpec(Spec):
    """A subcommand of ``ssvm``: ``summary`` is its line in ``ssvm --help``, without a full stop.

    ``factory`` names a class that is made without arguments and is a :class:`~ssvm_dsl.plugin_api.Command`.  It is
    imported when the command is called, and for its own ``--help``.
    """


class FileContent(StrEnum):
    """The content of files of a format."""

    PROBLEM = "problem"  #: a factor graph with scores: ``ssvm solve``, ``read_problem``
    EXAMPLES = "examples"  #: examples and labels: ``ssvm train``, ``read_examples``


@dataclass(frozen=True)
class ReaderSpec(Spec):
    """A format of files: ``name`` is what users write as the format.

    ``factory`` names a function, or a class with the method ``read`` that is made without arguments: a
    :class:`~ssvm_dsl.plugin_api.ProblemReader` or an :class:`~ssvm_dsl.plugin_api.ExamplesReader`.

    Parameters
    ----------
    content : FileContent
    suffixes : tuple of str
        Ends of names by which a file is taken to be of this format: ``(".xyz",)``.  The format that was registered
        first has a suffix that several name; the bundled ones come first.
    """

    content: FileContent = FileContent.PROBLEM
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class LossSpec(Spec):
    """A loss for ``CustomLoss(name, y, **options)``.

    ``factory`` names a function ``(truth, n_states, **options) -> ndarray (n, n_states)`` of one example: the price of
    each state of each of its n variables, not negative and zero at the truth.  ``truth`` has the true states, int32,
    and -1 where the truth is not known (what the function returns there does not count).  Variables of labels with
    several axes come in the order of their axes.

    Parameters
    ----------
    packed : bool
        The function is called once for many examples, as ``(truth, n_states, ptr, **options)``: example i has the
        variables ``ptr[i]`` to ``ptr[i + 1] - 1`` of ``truth`` and of the result.  Worth it where examples are small.
    """

    packed: bool = False
