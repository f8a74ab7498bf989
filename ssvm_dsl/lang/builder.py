"""``DeclarationBuilder``: collects symbols under names, for ``class`` statements, ``ModelBuilder`` and JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, TypeVar

from ssvm_dsl.calls import checked_class
from ssvm_dsl.errors import ModelError
from ssvm_dsl.lang.constraints.forbidden import Forbid
from ssvm_dsl.lang.constraints.logic import Constraint
from ssvm_dsl.lang.declaration import Declaration, declare
from ssvm_dsl.lang.dims import Condition, Dim, Index, Number
from ssvm_dsl.lang.factors import ALL, Factor, Given
from ssvm_dsl.lang.forms import FULL, Form
from ssvm_dsl.lang.grammars.grammar import Grammar
from ssvm_dsl.lang.inputs import Attributes, Edges, Input, Positions, Source
from ssvm_dsl.lang.losses.label_losses import Loss
from ssvm_dsl.lang.outputs.labels import Label, Latent, Target
from ssvm_dsl.lang.outputs.variables import ClassName
from ssvm_dsl.lang.patterns.references import LabelAt
from ssvm_dsl.lang.rules.formulas import Formula
from ssvm_dsl.lang.rules.structures import RuleOfKind
from ssvm_dsl.lang.symbols import Node, Symbol, caller_line, show

S = TypeVar("S", bound=Symbol)


def is_listed(value: object) -> bool:
    """Whether it is a list, tuple or dict with something of the language in it that no other meaning is known of."""
    if not isinstance(value, list | tuple | dict) or not value:
        return False
    inner = value.values() if isinstance(value, dict) else value
    return any(isinstance(one, Node) and not isinstance(one, Dim | Number | Condition) for one in inner)


#: Attributes of every model class.
_TAKEN = frozenset({"declaration", "to_json", "from_json"})


@checked_class
class DeclarationBuilder:
    """Collects the symbols of a model, and the mistakes in them.

    Parameters
    ----------
    name : str
        Name of the model.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._symbols: dict[str, Symbol] = {}
        self._strays: list[tuple[str, Target]] = []
        self._mistakes: list[tuple[str, str]] = []

    def add(self, name: str, symbol: S) -> S:
        """Add any symbol under a name and return it; a second one of the same name is a mistake.

        A list of rules is those rules, ``name[0]``, ``name[1]`` and so on.
        """
        if is_listed(symbol):
            self.add_listed(name, symbol)
            return symbol
        if not isinstance(symbol, Symbol):
            self.note_foreign(name, symbol)
            return symbol
        given, name = name, name if isinstance(name, str) else f"_{len(self._symbols)}"
        symbol.__set_name__(type(self), name)
        if not isinstance(given, str) or not (name.isidentifier() or re.fullmatch(r"[^\W\d]\w*\[\d+\]", name)):
            self._mistakes.append((symbol.line, f"{show(given)} is not a Python name"))
        if name.startswith("__") and name.endswith("__"):
            self._mistakes.append((symbol.line, f"{name}: names like this belong to Python; choose another one"))
        if name in _TAKEN:
            self._mistakes.append((symbol.line, f"{name}: every model has this attribute; choose another name"))
        old = self._symbols.get(name)
        if old is not None and old is not symbol and old != symbol:
            self._mistakes.append((symbol.line, f"{name}: declared twice"))
        self._symbols[name] = symbol
        return symbol

    def dim(self, name: str, size: int | None = None) -> Dim:
        """Add a :class:`Dim`."""
        return self.add(name, Dim(size))

    def input(self, name: str, *shape: Dim | int, sparse: bool = False) -> Input:
        """Add an :class:`Input`."""
        return self.add(name, Input(*shape, sparse=sparse))

    def attributes(self, name: str, *axes: Dim) -> Attributes:
        """Add an :class:`Attributes` input."""
        return self.add(name, Attributes(*axes))

    def edges(self, name: str, axis: Dim, *, over: Dim) -> Edges:
        """Add an :class:`Edges` input."""
        return self.add(name, Edges(axis, over=over))

    def label(
        self,
        name: str,
        *axes_then_states: Dim | Index | int | str | Sequence[ClassName],
        allowed: Input | None = None,
        over: Dim | None = None,
        null: bool = False,
        segments: int | None = None,
        unknown: ClassName | None = None,
        grammar: Grammar | None = None,
        where: Any = None,
        symmetric: Any = False,
    ) -> Label:
        """Add a :class:`Label`."""
        options: dict[str, Any] = {"null": null, "segments": segments, "unknown": unknown, "grammar": grammar}
        options |= {"where": where, "symmetric": symmetric}
        return self.add(name, Label(*axes_then_states, allowed=allowed, over=over, **options))

    def latent(
        self, name: str, *axes_then_states: Dim | int | str | Sequence[ClassName], allowed: Input | None = None
    ) -> Latent:
        """Add a :class:`Latent`."""
        return self.add(name, Latent(*axes_then_states, allowed=allowed))

    def factor(
        self,
        name: str,
        target: Label | Target | LabelAt | Sequence[Any],
        features: Source | Sequence[Source] | None = None,
        form: Form | Any = FULL,
        per: Any = None,
        tie: Factor | None = None,
        nonneg: bool = False,
        weights: str = ALL,
        where: Any = None,
    ) -> Factor:
        """Add a :class:`Factor`."""
        return self.add(name, Factor(target, features, form, per, tie, nonneg, weights, where))

    def constraint(self, name: str, constraint: Constraint) -> Constraint:
        """Add a hard constraint, such as ``AtMost(3, y.is_(1))``."""
        return self.add(name, constraint)

    def forbid(self, name: str, target: Any, states: Any, where: Any = None) -> Forbid:
        """Add a :class:`Forbid`."""
        return self.add(name, Forbid(target, states, where=where))

    def given(self, name: str, target: Any, scores: Any, where: Any = None) -> Given:
        """Add a :class:`Given`."""
        return self.add(name, Given(target, scores, where))

    def index(self, names: str, dim: Dim) -> Any:
        """Add indices over an axis, ``m.index("i j", N)``; return the index, or a tuple of several.

        Parameters
        ----------
        names : str
            Names with spaces between them.
        dim : Dim
        """
        made = tuple(self.add(name, dim.index()) for name in names.split())
        return made[0] if len(made) == 1 else made

    def positions(self, name: str, *axes: Any, over: Dim) -> Positions:
        """Add :class:`Positions`."""
        return self.add(name, Positions(*axes, over=over))

    def loss(self, loss: Loss, name: str = "loss") -> Loss:
        """Add the loss."""
        return self.add(name, loss)

    def add_listed(self, name: str, listed: Any) -> None:
        """Add the rules of a list; lists of anything else of the language are mistakes."""
        wrong = next((one for one in listed if not isinstance(one, Formula | RuleOfKind | Constraint | Forbid)), None)
        if isinstance(listed, dict):
            wrong = next(one for one in listed.values() if isinstance(one, Node))
        if wrong is not None:
            text = f"{name}: a list as an attribute holds rules, got {show(wrong)}; give each thing a name of its own"
            self._mistakes.append((getattr(wrong, "line", "") or caller_line(), text))
            return
        for k, one in enumerate(listed):
            self.add(f"{name}[{k}]", one)

    def note_idle(self, name: str, literal: Any) -> None:
        """Note a literal that stands alone."""
        text = f"{name}: a bare literal has no effect: AllOf({literal!r}) is a rule, Factor({literal!r}) has a weight"
        self._mistakes.append((literal.line, text))

    def note_stray(self, name: str, target: Target) -> None:
        """Remember a target assigned to a name, so that a forgotten ``Factor`` is reported."""
        self._strays.append((name, target))

    def note_foreign(self, name: str, value: object, inherited: Symbol | None = None) -> None:
        """Note a value that stands where a loss, or the symbol it is to replace, is expected."""
        kind = "symbol (Dim, Input, Label, Factor ...)" if inherited is None else type(inherited).__name__
        hint = ""
        if name == "loss" or isinstance(inherited, Loss):
            kind = "Loss"
            hint = "; write e.g. loss = Hamming(y), add losses with +, or give CountLoss(y, function) your own measure"
        self._mistakes.append((caller_line(), f"{name}: expected a {kind}, got {show(value)}{hint}"))

    def declaration(self) -> Declaration:
        """Return the checked declaration.

        Raises
        ------
        ModelError
            All mistakes together.
        """
        try:
            made = declare(self.name, tuple(self._symbols.values()), tuple(self._strays))
        except ModelError as err:
            raise ModelError(self.name, [*self._mistakes, *err.mistakes]) from None
        if not isinstance(self.name, str) or not self.name.isprintable():
            self._mistakes.append(("", f"the name of a model is printable text, got {show(self.name)}"))
        if self._mistakes:
            raise ModelError(self.name, self._mistakes)
        return made
