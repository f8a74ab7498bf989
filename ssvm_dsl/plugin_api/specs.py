"""Plain descriptions of plug-ins.  A ``factory`` is ``"package.module:Class"`` and imported only when used."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from contextlib import nullcontext
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from ssvm_dsl.errors import OptionError, PluginError, SsvmError
from ssvm_dsl.ir.need import Caps, Guarantee, Task
from ssvm_dsl.plugin_api.contained import contained
from ssvm_dsl.plugin_api.loading import loading

#: Version of this contract.  A plug-in made for another one is not loaded.
API_VERSION = 1


@dataclass(frozen=True)
class Option:
    """One option of a backend or trainer.

    Parameters
    ----------
    name : str
    default : Any
    doc : str
        One line: what it does, and its unit.
    choices : tuple, optional
        The allowed values, where they can be listed; else a value is what the default is: a number or a bool.
    least, above : float, optional
        Numbers are at least ``least`` (and ints where the default is one), and above ``above``.
    """

    name: str
    default: Any
    doc: str
    choices: tuple[Any, ...] = ()
    least: float | None = None
    above: float | None = None

    def expected(self, value: Any) -> str:
        """Return what a value should be, in words; empty when it is that."""
        if self.choices:
            return "" if value in self.choices else f"one of {list(self.choices)}"
        if isinstance(self.default, bool):
            return "" if isinstance(value, bool) else "True or False"
        if not isinstance(self.default, int | float):
            return ""
        whole = isinstance(self.default, int) and self.least is not None
        kind = Integral if whole else Real
        fits = isinstance(value, kind) and not isinstance(value, bool) and value == value
        fits = fits and (self.least is None or value >= self.least) and (self.above is None or value > self.above)
        words = ["an int" if kind is Integral else "a number"]
        words += [] if self.least is None else [f"of at least {self.least:g}"]
        words += [] if self.above is None else [f"above {self.above:g}"]
        return "" if fits else " ".join(words)


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
        Modules that must be importable, besides the plug-in's own.
    install_hint : str
        What to type when something is missing.
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

    def load(self, whose: str = "") -> Any:
        """Return what ``factory`` names.

        Parameters
        ----------
        whose : str
            What errors call the plug-in; its kind and name by default.

        Raises
        ------
        PluginError
            It cannot be imported; says why and what to install.
        """
        whose = whose or f"{type(self).__name__.removesuffix('Spec').lower()} '{self.name}'"
        hint = f"\n  hint: {self.install_hint}" if self.install_hint else ""

        def error(text: str) -> PluginError:
            why = text.removeprefix("it failed with ")
            return PluginError(f"{whose} cannot be loaded from {self.factory}: {why}{hint}")

        module, _, attribute = self.factory.partition(":")
        with nullcontext() if module in sys.modules else loading(), contained(f"the import of {whose}", error):
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        return found


#: Modules that were found to be installed; looking for one takes 0.2 ms.
_FOUND: set[str] = set()


def _importable(module: str) -> bool:
    """Return whether a module is installed; the package of a dotted name is imported for that."""
    if module in _FOUND:
        return True
    try:
        with contained(f"the import of {module}"):
            found = importlib.util.find_spec(module) is not None
    except SsvmError:
        return False
    if found:
        _FOUND.add(module)
    return found


@dataclass(frozen=True)
class OptionedSpec(Spec):
    """A plug-in description with options.

    Parameters
    ----------
    options : tuple of Option
    """

    options: tuple[Option, ...] = ()

    def resolve(self, given: dict[str, Any] | None) -> dict[str, Any]:
        """Return all options with their values, defaults filled in; numbers of NumPy become Python's.

        Raises
        ------
        OptionError
            An unknown option, or a value of another kind or out of range; says what is allowed.
        """
        known = {option.name: option for option in self.options}
        for name, value in (given or {}).items():
            if name not in known:
                listed = ", ".join(known) or "none"
                raise OptionError(f"'{self.name}' has no option '{name}'; its options are: {listed}")
            expected = known[name].expected(value)
            if expected:
                raise OptionError(f"option '{name}' of '{self.name}' is {expected}, got {value!r}")
        return {name: plain_number((given or {}).get(name, option.default)) for name, option in known.items()}


def plain_number(value: Any) -> Any:
    """Return a number of NumPy as one of Python, which files can hold; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


@dataclass(frozen=True)
class BackendSpec(OptionedSpec):
    """An inference backend.

    Parameters
    ----------
    caps : Caps
        What it can do.
    speed : float
        About how many of the operations that ``check`` counts as cost it does in a second; for expected times.
    """

    caps: Caps = Caps()
    speed: float = 1e9


@dataclass(frozen=True)
class TrainerNeeds:
    """What a trainer asks for.

    Parameters
    ----------
    risks : frozenset of str
        Risks it can minimise.
    guarantee : Guarantee
        The weakest oracle it works with.
    tasks : frozenset of Task
        Questions it asks of the backend; with ``marginals`` it works on distributions over labellings
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
        Whether it works on marginals in place of distributions over labellings: graphs must then be forests without
        hard constraints (any graphs for the risk ``relaxed``), and losses must add up over variables.
    """

    risks: frozenset[str] = frozenset({"margin"})
    guarantee: Guarantee = Guarantee.HEURISTIC
    tasks: frozenset[Task] = frozenset({Task.MAP})
    strongly_convex: bool = False
    any_power: bool = False
    powers: frozenset[float] = frozenset({1.0})
    messages: bool = False
    factored: bool = False

    @property
    def asks_marginals(self) -> bool:
        """Whether it asks for marginals where the risk alone would not."""
        return Task.MARGINALS in self.tasks

    def covers(self, risk: str, power: float) -> bool:
        """Whether it minimises a power of a risk."""
        return risk in self.risks and (self.any_power or power in self.powers)


@dataclass(frozen=True)
class TrainerSpec(OptionedSpec):
    """A trainer.

    Parameters
    ----------
    needs : TrainerNeeds
    incremental : bool
        Whether it can learn from a stream (``partial_fit``).
    resumable : bool
        Whether it can go on from a checkpoint (:class:`~ssvm_dsl.plugin_api.ResumableTrainer`).
    certifies : bool
        Whether its iterates carry lower bounds of the optimum, so that there is a duality gap, and the planes behind
        them (:class:`~ssvm_dsl.plugin_api.Iterate`), so that there is one for every C.
    n_labellings, n_vectors : int
        About how many labellings of each example, and vectors of weights, it holds at once; for expected memory.
    """

    needs: TrainerNeeds = TrainerNeeds()
    incremental: bool = False
    resumable: bool = False
    certifies: bool = True
    n_labellings: int = 2
    n_vectors: int = 6


@dataclass(frozen=True)
class ExecutorSpec(Spec):
    """Where oracle calls run."""


@dataclass(frozen=True)
class ConstraintSpec(Spec):
    """A kind of hard constraint.

    ``factory`` names a function ``feasible(program, group, labels) -> ndarray of bool, shape (m,)`` that
    tells for every constraint of a :class:`~ssvm_dsl.ir.program.ConstraintGroup` whether a labelling of the
    whole program (``labels``, shape (V,)) satisfies it.
    """


@dataclass(frozen=True)
class BridgeSpec(Spec):
    """A rewrite of one constraint kind into others, so that more backends can answer.

    ``factory`` names a class with ``lower(program, theta) -> (program, theta)`` and
    ``lift(labels) -> labels``.

    Parameters
    ----------
    source : str
        The constraint kind it removes.
    targets : frozenset of str
        The kinds it introduces.
    exact : bool
        Whether optimal solutions are kept.
    cost : float
        Relative price, to choose between paths.
    """

    source: str = ""
    targets: frozenset[str] = frozenset()
    exact: bool = True
    cost: float = 1.0


@dataclass(frozen=True)
class LossSpec(Spec):
    """A loss for ``CustomLoss(name, y, **options)``.

    ``factory`` names a function ``(truth, n_states, example, **options) -> ndarray (n_variables, n_states)``:
    the price of each state of each variable, non-negative and zero at the truth; ``example`` tells which
    example each variable belongs to.
    """
