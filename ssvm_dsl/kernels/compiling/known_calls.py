"""The types of calls, found once for all kernels.

For each ``+`` and each ``array[i]`` numba goes through all implementations that there are, and keeps texts of why most
of them do not fit: a seventh of the time of a first fit.  :class:`KnownCalls` is numba's typing context with a memory
for calls of numba's own functions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from numba.core.types import BaseFunction, Type
from numba.core.typing import Context


class KnownCalls(Context):  # type: ignore[misc]
    """A view of a typing context, with which it shares everything, that remembers the types of calls.

    What numba finds depends on the function, which is another object where implementations were added, and on the
    types of the arguments; those of lists that are still to be filled, and failures, are not remembered.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context: Context) -> None:
        self.__dict__ = context.__dict__
        #: By function, which is kept so that its number stays its own.
        self._known_calls: dict[int, tuple[Any, dict[Any, Any]]] = {}

    def resolve_function_type(self, func: Any, args: Any, kws: Mapping[str, Any]) -> Any:
        """Return the signature of a call, ``None`` where no implementation fits."""
        function = func if isinstance(func, Type) else self._lookup_global(func)  # operators are functions of Python
        if not isinstance(function, BaseFunction):
            return super().resolve_function_type(func, args, kws)
        signatures = self._known_calls.setdefault(id(function), (function, {}))[1]
        key = tuple(args), tuple(kws.items())
        signature = signatures.get(key)
        if signature is None:
            signature = super().resolve_function_type(func, args, kws)
            precise = all(kind.is_precise() for kind in (*args, *kws.values()))
            if signature is not None and signature.recvr is None and precise:
                signatures[key] = signature
        return signature


_views: WeakKeyDictionary[Context, KnownCalls] = WeakKeyDictionary()


def remembering(context: Context) -> KnownCalls:
    """Return the view of a typing context that remembers; always the same one."""
    if isinstance(context, KnownCalls):
        return context
    if context not in _views:
        _views[context] = KnownCalls(context)
    return _views[context]
