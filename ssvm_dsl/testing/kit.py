"""The skeleton of the conformance kits: a kit makes cases, rules run on the cases they fit, a report lists failures.

The kits of backends, trainers, constraints, bridges and executors say how a plug-in is made, on which cases it is
tried, and which rules there are.  All kits share the rest: listing and choosing rules, loading the plug-in, counting
cases, catching exceptions, and the definition of a pass.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from inspect import signature
from itertools import islice
from pathlib import Path
from textwrap import indent
from time import perf_counter
from types import MethodType
from typing import Any, ClassVar, Generic, Protocol, TypedDict, TypeVar

from ssvm_dsl.errors import OptionError, PluginError
from ssvm_dsl.plugin_api.specs import Spec
from ssvm_dsl.registry import Registry
from ssvm_dsl.registry import registry as installed
from ssvm_dsl.testing.watch import TimeIsUp, Watch, begin_case, case_done
from ssvm_dsl.units import seconds_text

# -- the findings of a kit, as text and as plain data --------------------------------------------------------------


class Complaint(Exception):
    """A mistake of a plug-in, in words for its author."""


@dataclass(frozen=True)
class Failure:
    """One problem on which a check failed.

    Parameters
    ----------
    problem : str
        The Python expression that reproduces the problem.
    text : str
        The question, the expected and the found answer.
    """

    problem: str
    text: str


@dataclass(eq=False)
class Check:
    """One kind of check over all problems it applies to.

    Parameters
    ----------
    name : str
    cases : int
        Problems tried.
    failures : list of Failure
    seconds : float
        How long it took.
    """

    name: str
    cases: int = 0
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def passed(self) -> int:
        """Number of cases without failure."""
        return max(self.cases - len(self.failures), 0)

    @property
    def ok(self) -> bool:
        """Whether there were cases and all passed."""
        return self.cases > 0 and not self.failures

    def summary(self) -> dict[str, Any]:
        """Return plain data."""
        failures = [{"problem": failure.problem, "text": failure.text} for failure in self.failures]
        return {
            "name": self.name,
            "ok": self.ok,
            "cases": self.cases,
            "passed": self.passed,
            "failures": failures,
            "seconds": round(self.seconds, 3),
        }

    def line(self, timed: bool = False) -> str:
        """Return the line of the check in the report, without its failures."""
        took = f", {seconds_text(self.seconds)}" if timed else ""
        if self.ok:
            return f"ok    {self.name}: {self.cases} case{'s' if self.cases > 1 else ''}{took}"
        if not self.failures:
            return f"FAIL  {self.name}: claimed, but no problem could test it; that is not a pass"
        return f"FAIL  {self.name}: {self.passed} of {self.cases} cases passed{took}"


@dataclass
class ConformanceReport:
    """All checks of one plug-in.

    Parameters
    ----------
    name : str
    seed, n_problems : int
        Arguments that reproduce the problems.
    checks : list of Check
    not_claimed : list of str
        Checks that do not apply, because the plug-in does not make the tested claim.
    refusals : dict of str to int
        Reasons for refusing problems that the description of the plug-in covers, with their counts.
    kind : str
        ``"backend"``, ``"trainer"``, ``"constraint"``, ``"bridge"``, ``"loss"`` or ``"executor"``.
    """

    name: str
    seed: int
    n_problems: int
    checks: list[Check] = field(default_factory=list)
    not_claimed: list[str] = field(default_factory=list)
    refusals: dict[str, int] = field(default_factory=dict)
    kind: str = "backend"

    @property
    def ok(self) -> bool:
        """Whether there were checks and all passed."""
        return bool(self.checks) and all(check.ok for check in self.checks)

    @property
    def failed(self) -> list[str]:
        """Names of the checks that failed."""
        return [check.name for check in self.checks if not check.ok]

    def summary(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "kind": self.kind,
            "name": self.name,
            "ok": self.ok,
            "seed": self.seed,
            "n_problems": self.n_problems,
            "checks": [check.summary() for check in self.checks],
            "not_claimed": list(self.not_claimed),
            "refusals": dict(self.refusals),
        }

    def __str__(self) -> str:
        return self.text()

    def text(self, timed: bool = False) -> str:
        """Return the report as text; equal failures of several checks are shown once.

        Parameters
        ----------
        timed : bool
            Whether each check has its seconds.
        """
        count = f"{len(self.failed)} of {len(self.checks)} checks failed"
        what = "training problems" if self.kind == "trainer" else "random problems"
        verdict = f"all {len(self.checks)} checks passed" if self.ok else count
        lines = [f"{self.kind} '{self.name}': {verdict} (seed {self.seed}, {self.n_problems} {what})"]
        same: dict[str, list[Check]] = {}
        for check in self.checks:
            for failure in check.failures[:1]:
                same.setdefault(_bare(failure.text), []).append(check)
        for check in self.checks:
            line, first = f"  {check.line(timed)}", next(iter(check.failures), None)
            if first is None:
                lines.append(line)
                continue
            alike = same[_bare(first.text)]
            if check is not alike[0]:
                lines.append(f"{line}: as in '{alike[0].name}'")
                continue
            lines.append(f"{line}; the same in {len(alike)} checks" if len(alike) > 1 else line)
            message = f"on {first.problem}:\n{indent(first.text, '  ')}" if first.problem else first.text
            lines.append(indent(message, " " * 10))
        if self.not_claimed:
            lines.append(f"  not claimed: {', '.join(self.not_claimed)}")
        lines += [f"  refused {count} times: {reason}" for reason, count in self.refusals.items()]
        return "\n".join(lines)


def _bare(text: str) -> str:
    """Return a failure without what differs from check to check: the question, and addresses in memory."""
    return re.sub(r"\Atask .*\n|0x[0-9a-f]+", "", text)


# -- an author's class has the methods of the contract, with the arguments that the host passes --------------------
#
# Without these checks an author would see Python's message about a call deep in the host.

_PACKAGE = str(Path(__file__).parents[1])


def require_methods(made: object, methods: Mapping[str, Sequence[str]]) -> None:
    """Refuse an object that lacks a method, or whose method takes other arguments.

    Raises
    ------
    Complaint
        Names the class, the method and its arguments.
    """
    owner = type(made).__name__
    for name, arguments in methods.items():
        method = getattr(made, name, None)
        call = f"{name}({', '.join(arguments)})"
        if not callable(method):
            raise Complaint(f"{owner} has no method {call}")
        if (form := _misfit(method, *arguments)) is not None:
            raise Complaint(f"{owner}.{name} is called as {call}, but its arguments are {form}")


def require_call(
    function: Callable[..., Any], options: Mapping[str, Any], arguments: Sequence[str] = (), how: str = "made by"
) -> None:
    """Refuse a class or function that cannot be called with some arguments, and with its options by name.

    Raises
    ------
    Complaint
        Names the call that fails.
    """
    if (form := _misfit(function, *arguments, **options)) is not None:
        name = getattr(function, "__name__", repr(function))
        call = f"{name}({', '.join([*arguments, *(f'{key}=...' for key in options)])})"
        raise Complaint(f"it is {how} {call}, but its arguments are {form}")


def _misfit(function: Callable[..., Any], *args: Any, **named: Any) -> str | None:
    """Return the signature of a function that refuses these arguments; ``None`` if it takes them or has none."""
    if isinstance(function, MethodType) and _takes(function.__func__, (function.__self__, *args), named):
        return None
    try:
        form = signature(function)
    except (TypeError, ValueError):
        return None
    try:
        form.bind(*args, **named)
    except TypeError:
        return str(form)
    return None


def _takes(function: Callable[..., Any], args: Sequence[Any], named: Mapping[str, Any]) -> bool:
    """Whether a function certainly takes arguments; its signature is found once, for objects of a class in turn."""
    try:
        _signature(function).bind(*args, **named)
    except (TypeError, ValueError):
        return False
    return True


_signature = lru_cache(maxsize=256)(signature)


def authors_line(err: BaseException) -> str:
    """Return where in the author's program an exception comes from, ``" (file.py:12, in solve)"``; may be empty."""
    trace, line, file, ours = err.__traceback__, "", "", True
    while trace is not None:
        code = trace.tb_frame.f_code
        if code.co_filename.startswith(_PACKAGE):
            ours = True
        elif (ours and "importlib" not in code.co_filename) or code.co_filename == file:  # not in NumPy, say
            file, ours = code.co_filename, False
            line = f" ({Path(file).name}:{trace.tb_lineno}, in {code.co_name})"
        trace = trace.tb_next
    return line


# -- kits and their rules --------------------------------------------------------------------------------------------

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
        Raises on a failure: a :class:`~ssvm_dsl.testing.kit.Complaint`, or the exception of the plug-in.
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
