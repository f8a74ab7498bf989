"""``Model`` classes: a class body lowers to :class:`ModelBuilder` calls, which make a :class:`Declaration`."""

from __future__ import annotations

import copyreg
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any, NoReturn

from ssvm_dsl.calls import checked_class
from ssvm_dsl.errors import KeywordError
from ssvm_dsl.lang.builder import DeclarationBuilder, is_listed
from ssvm_dsl.lang.constraints.logic import Not
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.outputs.labels import Target
from ssvm_dsl.lang.patterns.references import LiteralAt
from ssvm_dsl.lang.symbols import Symbol
from ssvm_dsl.notebook_tables import html_grid

# -- how a declaration reads ---------------------------------------------------------------------------------------


def as_text(declaration: Declaration) -> str:
    """Return the declaration as aligned plain text."""
    rows = [(symbol.name, symbol.short, symbol.note) for symbol in declaration.symbols]
    first = max((len(row[0]) for row in rows), default=0)
    second = max((len(row[1]) for row in rows if row[2]), default=0)
    lines = [f"{declaration.name}(Model)"]
    lines += [f"  {name:{first}} = {text:{second}}  {note}".rstrip() for name, text, note in rows]
    return "\n".join([*lines, f"  {total_line(declaration)}"])


def as_html(declaration: Declaration) -> str:
    """Return the declaration as an HTML table."""
    rows = [[symbol.name, symbol.short, symbol.note] for symbol in declaration.symbols]
    return html_grid(f"{declaration.name} · {total_line(declaration)}", ["name", "declared as", "note"], rows)


def total_line(declaration: Declaration) -> str:
    """Return the number of weights as text."""
    total = declaration.n_weights()
    return "weights: known after fitting" if total is None else f"weights: {total} in all"


class ModelMeta(type):
    """Collects the symbols of a class body into a declaration when the class is created."""

    declaration: Declaration

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> ModelMeta:
        builder = DeclarationBuilder(name)
        reserved = {key: value for key, value in namespace.items() if key[:2] == key[-2:] == "__"}
        for key in [key for key, value in reserved.items() if isinstance(value, Symbol)]:
            builder.add(key, namespace[key])
            builder.declaration()  # refuses it, before Python does
        made = super().__new__(cls, name, bases, namespace)
        inherited = {symbol.name: symbol for symbol in _inherited(made.__mro__[1:])}
        for key, symbol in inherited.items():
            # a rule of a list goes with the list; ``i = Base.i`` says what is so already
            if key.partition("[")[0] not in namespace or namespace.get(key) is symbol:
                builder.add(key, symbol)
        for key, value in namespace.items():
            if isinstance(value, Symbol) and value is inherited.get(key):
                continue
            if isinstance(value, Symbol):
                builder.add(key, value)
            elif isinstance(value, Target):
                builder.note_stray(key, value)
            elif is_listed(value) and key != "loss" and key not in inherited:
                builder.add_listed(key, value)
            elif isinstance(value, LiteralAt | Not):
                builder.note_idle(key, value)
            elif value is not None and (key == "loss" or key in inherited):  # None takes an inherited symbol away
                builder.note_foreign(key, value, inherited.get(key))
        type.__setattr__(made, "declaration", builder.declaration())
        return made

    def __setattr__(cls, name: str, value: object) -> None:
        # cloudpickle (joblib's processes) rebuilds a class by setting the same attributes on an empty one, and sets
        # them once more for each further task that comes to the process: those that are there are left as they are
        if cls.declaration.symbols and name in cls.__dict__ and _is_cloudpickle(sys._getframe(1)):
            return
        same = not cls.declaration.symbols or (isinstance(value, Symbol) and value is cls.declaration.find(name))
        declares = isinstance(value, Symbol | Target) or hasattr(cls, name)
        if declares and not same and not name.startswith("_"):
            raise AttributeError(f"{cls.__name__} is immutable; make a subclass to extend or change it")
        super().__setattr__(name, value)

    def __delattr__(cls, name: str) -> None:
        raise AttributeError(f"{cls.__name__} is immutable; nothing can be deleted from it")

    def __call__(cls, *args: object, **kwargs: object) -> NoReturn:
        raise KeywordError(f"{cls.__name__} is a declaration and cannot be called; pass the class itself")

    def __str__(cls) -> str:

        return as_text(cls.declaration)

    def _repr_html_(cls) -> str:

        return as_html(cls.declaration)


def _is_cloudpickle(frame: FrameType) -> bool:
    """Return whether code of cloudpickle runs in a frame."""
    return "cloudpickle" in str(frame.f_globals.get("__name__"))


def _inherited(bases: tuple[type, ...]) -> list[Symbol]:
    """Return the symbols of the bases (in method resolution order); nearer ones replace those of the same name."""
    symbols: dict[str, Symbol] = {}
    for base in reversed(bases):
        for symbol in base.declaration.symbols if isinstance(base, ModelMeta) else ():
            if symbols.get(symbol.name) is not symbol:
                symbols.pop(symbol.name, None)  # a replacement may refer to symbols declared after the old one
                symbols[symbol.name] = symbol
    return list(symbols.values())


class Model(metaclass=ModelMeta):
    """Base class of structured models: declare axes, inputs, labels, factors and a loss as class attributes.

    The class is the model; it is never instantiated.  Subclassing extends it (``loss = None`` there takes an
    inherited attribute away).  All mistakes in a class body are reported together when the class is created.

    Examples
    --------
    >>> class OCR(Model):
    ...     T     = Dim()
    ...     x     = Input(T, 128)
    ...     y     = Label(T, "abcdefghijklmnopqrstuvwxyz")
    ...     emit  = Factor(y, features=x)
    ...     trans = Factor(chain(y))
    ...     loss  = Hamming(y)
    """

    declaration: Declaration

    @classmethod
    def to_json(cls) -> str:
        """Return the declaration as JSON text (functions by import path, no code)."""
        from ssvm_dsl.lang.serial import to_json

        return to_json(cls.declaration)

    @staticmethod
    def from_json(text: str, *, trusted: bool | Iterable[str] = False) -> type[Model]:
        """Return the model class of a JSON text.

        Parameters
        ----------
        text : str
            What :meth:`to_json` returned.
        trusted : bool or iterable of str
            Import paths of user functions that may be loaded; ``True`` for all.

        Raises
        ------
        FileFormatError
            The text is not a declaration.
        OptionError
            It calls a function that is not trusted.
        ModelError
            The declaration has mistakes.
        """
        from ssvm_dsl.lang.serial import from_json

        declaration = from_json(text, trusted=trusted)
        return as_model(declaration)


def as_model(declaration: Declaration) -> type[Model]:
    """Return a model class for a declaration."""
    make: Callable[..., Any] = ModelMeta
    made: type[Model] = make(declaration.name, (Model,), {s.name: s for s in declaration.symbols})
    return made


@checked_class
class ModelBuilder(DeclarationBuilder):
    """The functional way to declare a model, for models made in loops.

    Each method adds one symbol under a name and returns it; :meth:`build` returns a model class, the same as a
    ``class`` statement would give.

    Parameters
    ----------
    name : str
        Name of the model.

    Examples
    --------
    >>> m = ModelBuilder("OCR")
    >>> T = m.dim("T")
    >>> x = m.input("x", T, 128)
    >>> y = m.label("y", T, 26)
    >>> emit = m.factor("emit", y, features=x)
    >>> trans = m.factor("trans", chain(y))
    >>> loss = m.add("loss", Hamming(y))
    >>> OCR = m.build()
    """

    def build(self) -> type[Model]:
        """Return the model class.

        Raises
        ------
        ModelError
            All mistakes together.
        """
        return as_model(self.declaration())


def _reduce(model: ModelMeta) -> str | tuple[Callable[[Declaration], type[Model]], tuple[Declaration]]:
    """Pickle a model by name where the name leads back to it, else (local, built, read from JSON) by declaration."""
    value: object = sys.modules.get(model.__module__)
    for part in model.__qualname__.split("."):
        value = getattr(value, part, None)
    return model.__qualname__ if value is model else (as_model, (model.declaration,))


copyreg.pickle(ModelMeta, _reduce)
