"""The skeleton of the conformance kits: a kit makes cases, rules run on the cases they fit, a report lists failures.

The kits of backends, trainers, constraints, bridges and executors say how a plug-in is made, on which cases it is
tried, and which rules there are.  All kits share the rest: listing and choosing rules, loading the plug-in, counting
cases, catching exceptions, and the definition of a pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from time import perf_counter
from typing import Any, ClassVar, Generic, Protocol, TypedDict, TypeVar

from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.plugin_api.specs import Spec
from ssvm_dsl.registry import Registry
from ssvm_dsl.registry import registry as installed
from ssvm_dsl.testing.contract import authors_line, require_call, require_methods
from ssvm_dsl.testing.report import Check, Complaint, ConformanceReport, Failure
from ssvm_dsl.testing.watch import TimeIsUp, Watch, begin_case, case_done

#: A check ends after this many failures.
MAX_FAILURES = 3

#: Random problems in which a case for each rule is looked for, also where fewer were asked for.
ENOUGH_PROBLEMS = 20

#: Exceptions that broken plug-ins may raise; ``SystemExit`` is not an ``Exception``.
TROUBLE = (Exception, SystemExit)


class NotForThisCase(Exception):
    """A check does not apply to a case, which is then not counted."""


class Trial(Protocol):
    """One plug-in on one case, as the checks of a kit get it."""

    @property
    def name(self) -> str:
        """An expression that reproduces the case, for reports."""




class HowToRun(TypedDict, total=False):
    """Which checks of a kit run, and how.

    Parameters
    ----------
    only : collection of str
        Names of checks, to run some only; all by default.
    progress : callable, optional
        Called with the name of each check before it runs.
    seconds : float, optional
        Time of the whole kit; checks that are not reached are a failure of the check "time".
    notice : callable, optional
        Called with a line about a case that takes more than some seconds; standard error by default.
    """

    only: Collection[str]
    progress: Callable[[str], None] | None
    seconds: float | None
    notice: Callable[[str], None] | None


S = TypeVar("S", bound=Spec)
T = TypeVar("T", bound=Trial)
R = TypeVar("R", bound="Rule[Any, Any]")


@dataclass(frozen=True)
class Rule(Generic[S, T]):
    """A check and when it applies.

    Parameters
    ----------
    name : str
    run : callable
        Raises on a failure: a :class:`~ssvm_dsl.testing.report.Complaint`, or the exception of the plug-in.
    claimed : callable
        Whether the description of a plug-in makes the claim that the check tests.
    optional : bool
        Whether the check may pass without any case.
    once : bool
        Whether one trial is enough, because the check makes its own problem.
    few : int
        The most cases in the quick form of a kit; 0 for all.  For checks that ask the same again in another way.
    """

    name: str
    run: Callable[[T], None]
    claimed: Callable[[S], bool] = lambda spec: True
    optional: bool = False
    once: bool = False
    few: int = 0


class Kit(ABC, Generic[S, R, T]):
    """The checks of one kind of plug-in, run on one plug-in.

    Parameters
    ----------
    spec : Spec
    registry : Registry, optional
        The plug-ins it is tried with; the installed ones by default.
    seed, n_problems : int
        How problems are made.
    options : mapping
        Options of the plug-in, by name.
    quick : bool
        Whether checks that ask much take a few of their cases (:attr:`Rule.few`), spread over all.
    """

    #: Kind of plug-in, as reports call it.
    kind: ClassVar[str]

    #: Methods that the plug-in must have, with the arguments that the host calls them with.
    methods: ClassVar[Mapping[str, Sequence[str]]] = {}

    #: All checks, in the order of the report.
    rules: Sequence[R]

    def __init__(
        self,
        spec: S,
        registry: Registry | None = None,
        *,
        seed: int,
        n_problems: int = 0,
        options: Mapping[str, Any] | None = None,
        quick: bool = False,
    ) -> None:
        self.spec, self.options, self.quick = spec, dict(options or {}), quick
        self.plugins = installed() if registry is None else registry
        self.report = ConformanceReport(spec.name, seed, n_problems, kind=self.kind)
        self.made: Any = None
        self.cases: list[T] = []
        self._further = self.further()

    # -- defined by each kit ---------------------------------------------------------------------------

    @abstractmethod
    def prepare(self) -> None:
        """Fill ``cases``; add a check with the failures to the report."""

    def trials(self, number: int, rule: R) -> Iterator[T]:
        """Yield the plug-in before each case that a rule fits; ``number`` is the place of the rule."""
        return iter(self.cases)

    def further(self) -> Iterator[T]:
        """Yield cases beyond those asked for, and add them to ``cases``: a few random ones need not fit every rule."""
        return iter(())

    def arguments(self) -> dict[str, Any]:
        """Return the arguments that the plug-in is made with."""
        return {}

    def make(self, factory: Any) -> Any:
        """Return the plug-in, made by what its description names."""
        arguments = self.arguments()
        require_call(factory, arguments)
        made = factory(**arguments)
        require_methods(made, self.methods)
        return made

    def finish(self) -> None:
        """Add findings that are known only after all checks."""

    def always(self) -> list[str]:
        """Return the names of checks that are not among the rules: those of loading and of making cases."""
        return ["loads"]

    # -- shared by all kits -----------------------------------------------------------------------------

    def run(
        self, only: Collection[str] = (), progress: Callable[[str], None] | None = None,
        seconds: float | None = None, notice: Callable[[str], None] | None = None,
    ) -> ConformanceReport:  # fmt: skip
        """Run the checks, as :class:`HowToRun` says.

        Raises
        ------
        OptionError
            There is no check of such a name, or no time.  (Faults of the plug-in are in the report.)
        """
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            raise OptionError(f"seconds must be None or a positive number, got {seconds!r}")
        names = [*self.always(), *(rule.name for rule in self.rules)]
        if unknown := set(only) - {*names, "time"}:
            raise OptionError(f"there is no check '{min(unknown)}'; the checks are: {', '.join(names)}")
        waiting = [(number, rule) for number, rule in enumerate(self.rules) if not only or rule.name in only]
        watch = Watch(f"{self.kind} '{self.spec.name}'", notice, seconds)
        try:
            with watch.watching():
                if not self._load():
                    return self.report
                begin_case("planning", "")
                self.prepare()
                while waiting:
                    number, rule = waiting[0]
                    if progress is not None:
                        progress(rule.name)
                    self._examine(number, rule)
                    waiting.pop(0)
                self.finish()
        except TimeIsUp:
            left = ", ".join(rule.name for _, rule in waiting)
            text = f"{seconds:g} seconds were up in check '{watch.check}'; not run to the end: {left or 'planning'}"
            self.report.checks.append(Check("time", 1, [Failure(watch.case, text)]))
        return self.report

    def check(self, name: str) -> Check:
        """Add a check without cases to the report."""
        self.report.checks.append(Check(name))
        return self.report.checks[-1]

    def _load(self) -> bool:
        """Load and make the plug-in; return whether that worked."""
        check = self.check("loads")
        with attempt(check, ""):
            if missing := self.spec.missing():
                hint = f"; {self.spec.install_hint}" if self.spec.install_hint else ""
                raise Complaint(f"needs {', '.join(missing)}, not installed{hint}")
            self.made = self.make(self.spec.load())
        return check.ok

    def _examine(self, number: int, rule: R) -> None:
        """Run one check on the cases it fits."""
        if not rule.claimed(self.spec):
            self.report.not_claimed.append(rule.name)
            return
        check = Check(rule.name)
        for trial in self._chosen(number, rule):
            if full(check):
                break
            with attempt(check, trial.name):
                rule.run(trial)
        while not (check.cases or rule.optional) and (more := next(self._further, None)) is not None:
            with attempt(check, more.name):
                rule.run(more)
        if rule.optional and not check.cases:
            self.report.not_claimed.append(rule.name)
        else:
            self.report.checks.append(check)

    def _chosen(self, number: int, rule: R) -> Iterator[T]:
        """Yield the cases of a rule: all, the first, or in the quick form a few that are spread over all."""
        trials = self.trials(number, rule)
        if rule.once:
            return islice(trials, 1)
        if not (self.quick and rule.few):
            return trials
        every = list(trials)
        step = max(1, -(-len(every) // rule.few))
        return iter(every[number % step :: step])


class MakingKit(Kit[S, R, T]):
    """A kit whose cases the plug-in, or kinds of constraints, make from seeds."""

    #: Name of the check that they can be made.
    making: ClassVar[str]

    @abstractmethod
    def makers(self, seed: int) -> Iterator[tuple[str, Callable[[], T]]]:
        """Yield what is made of a seed: how it is called, and a function that makes it."""

    def always(self) -> list[str]:
        """Return the names of checks that are not among the rules."""
        return ["loads", self.making]

    def prepare(self) -> None:
        """Make the cases asked for."""
        self.makes = self.check(self.making)
        for number in range(self.report.n_problems):
            self._made_of(number)

    def further(self) -> Iterator[T]:
        """Yield cases beyond those asked for."""
        for number in range(self.report.n_problems, ENOUGH_PROBLEMS):
            yield from self._made_of(number)

    def _made_of(self, number: int) -> list[T]:
        """Keep the cases that are made of a seed, and return them."""
        n_cases = len(self.cases)
        for name, make in self.makers(1000 * self.report.seed + number):
            if full(self.makes):
                break
            with attempt(self.makes, name):
                self.cases.append(make())
        return self.cases[n_cases:]


def full(check: Check) -> bool:
    """Return whether a check has failed often enough."""
    return len(check.failures) >= MAX_FAILURES


@contextmanager
def attempt(check: Check, case: str) -> Iterator[None]:
    """Count a case; every exception is a failure, except ``NotForThisCase``."""
    begin_case(check.name, case)
    begin = perf_counter()
    check.cases += 1
    try:
        yield
    except NotForThisCase:
        check.cases -= 1
    except TROUBLE as err:
        check.failures.append(Failure(case, crash(err)))
    finally:
        check.seconds += perf_counter() - begin
        case_done()


def crash(err: BaseException) -> str:
    """Return a sentence about an exception."""
    explained = isinstance(err, Complaint | PluginError)  # these already name the expectation and the plug-in
    return str(err) if explained else f"it failed with {type(err).__name__}: {err}{authors_line(err)}"


def some_case(
    name: str, holds: Callable[[T], bool], claimed: Callable[[Any], bool] = lambda spec: True
) -> Rule[Any, T]:  # fmt: skip
    """Return a rule that requires cases with a property; others do not count."""

    def run(trial: T) -> None:
        if not holds(trial):
            raise NotForThisCase

    return Rule(name, run, claimed)
