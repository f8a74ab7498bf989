"""Compilation in two stages: functions that a kernel calls become machine code once, within the kernel.

Numba makes machine code of every function that it compiles: a function that is called by a kernel is optimised and
translated by itself, with a wrapper for calls from Python, and then again in each of its callers, and in each of
theirs.  Most of our functions are never called from Python, so that all but the last of this is for nothing: more than
a third of the time of a first fit.  Functions of :func:`njit` have two forms, each made when it is first needed:

* the *part*: code of LLVM that has not been optimised, from which kernels are made, its own one and its callers';
* the *kernel*, what Python calls: machine code of the part and of all that it calls.  As a kernel knows all of its
  code, functions that are called in one place only are always inlined.

Both are kept on disk (:mod:`ssvm_dsl.kernels.compiling.code_store`): other kernels, other processes and other
environments begin with the parts that are there.

It stands on pieces of numba that are not public: dispatchers, ``pipeline_class``, code libraries.  Only
:mod:`ssvm_dsl.kernels.compiling.jit` imports this module, after a test of its own has found that they are there and
work; otherwise plain ``numba.njit`` compiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Protocol
from weakref import WeakKeyDictionary, WeakSet

from llvmlite import binding
from numba import config, types
from numba.core import ir
from numba.core.ccallback import CFunc
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompileResult, Flags
from numba.core.compiler_machinery import AnalysisPass, register_pass
from numba.core.environment import lookup_environment
from numba.core.errors import NumbaError
from numba.core.registry import CPUDispatcher
from numba.core.sigutils import normalize_signature
from numba.core.typed_passes import AnnotateTypes, NativeLowering
from numba.core.types import BaseFunction, Type
from numba.core.types.containers import BaseTuple
from numba.core.types.misc import NoneType, Omitted
from numba.core.typing import Context
from numba.extending import typeof_impl

from ssvm_dsl.kernels.compiling.code_key import NoKey, digest, options_text
from ssvm_dsl.kernels.compiling.code_store import CodeStore
from ssvm_dsl.kernels.compiling.lowering import LeanLowering
from ssvm_dsl.kernels.compiling.while_compiling import FewCollections, postponed_interrupts
from ssvm_dsl.kernels.intrinsics import borrow

# -- which kernels need not count references to arrays -------------------------------------------------------------
#
# Decided for each when its types are known.  Numba counts references whenever an array, or a tuple with arrays in it,
# gets another name: for a record of forty arrays that is forty calls, made and then mostly taken out again.  A function
# that makes no array and returns none need not count, as its caller holds on to what it has passed.

#: Functions that make arrays out of sight, as it turned out when they were compiled.
_count: WeakSet[Callable[..., Any]] = WeakSet()

#: Operations whose results may be views of what they are applied to, but are no arrays of their own.
VIEWS = (
    *("getattr", "getitem", "static_getitem", "build_tuple", "cast", "phi"),
    *("getiter", "iternext", "exhaust_iter", "pair_first", "pair_second"),
)

#: Types of arguments that own nothing but arrays, unlike lists.
PLAIN: tuple[Any, ...] = (types.Array, types.Number, types.Boolean, types.Record, types.Literal, Omitted, NoneType)
PLAIN += (types.FunctionType, types.Dispatcher)


@register_pass(mutates_CFG=False, analysis_only=True)
class Borrowing(AnalysisPass):  # type: ignore[misc]
    """Lets a function that only borrows arrays count no references."""

    _name = "ssvm_borrowing"

    def __init__(self) -> None:
        super().__init__()

    def run_pass(self, state: Any) -> bool:
        """Return whether the code was changed: never."""
        if state.flags.nrt and state.func_id.func not in _count and only_borrows(state):
            count_nothing(state.targetctx)
            state.library.borrows = True
        return False


def count_nothing(context: Any) -> None:
    """Let the function that a target context is for count no references; what numba brings itself may make arrays."""
    context.enable_nrt = False
    context.__dict__.pop("nrt", None)


def must_count(function: Callable[..., Any], error: NumbaError) -> bool:
    """Return whether a function was compiled in vain without reference counts, which it then gets the next time."""
    if function in _count or "NRT required" not in str(error):
        return False
    _count.add(function)
    return True


def only_borrows(state: Any) -> bool:
    """Return whether a typed function makes no arrays, gets none from functions that it calls, and returns none."""
    owned = _Owned(state.targetctx)
    if state.func_ir.generator_info or owned.within(state.return_type) or not all(map(_is_plain, state.args)):
        return False
    return not any(owned.within(kind) for kind in _made(state))


class _Owned:
    """Which types have owners of memory in them."""

    def __init__(self, targetctx: Any) -> None:
        self._models = targetctx.data_model_manager

    def within(self, kind: Any) -> bool:
        """Return whether a value of a type has an owner."""
        return bool(self._models[kind].contains_nrt_meminfo())


def _is_plain(kind: Any) -> bool:
    """Return whether a type is a number, an array, a function, or a tuple of these."""
    if isinstance(kind, BaseTuple):
        return all(map(_is_plain, kind.types))
    return isinstance(kind, PLAIN)


def _made(state: Any) -> Iterator[Any]:
    """Yield the types of what operations return that may be neither arguments nor views of them."""
    for block in state.func_ir.blocks.values():
        for assigned in block.find_insts(ir.Assign):
            value, kind = assigned.value, state.typemap[assigned.target.name]
            if isinstance(value, ir.Yield):
                yield kind
            if isinstance(value, ir.Expr) and not _is_view(state, value):
                yield kind


def _is_view(state: Any, value: ir.Expr) -> bool:
    """Return whether the result of an operation is a view of what it is applied to, or holds that."""
    if value.op == "call":
        called = state.typemap[value.func.name]
        known = isinstance(called, types.Function) and called.typing_key is borrow
        return known or isinstance(called, types.NamedTupleClass)
    if value.op == "getitem":
        index = state.typemap[value.index.name]
        return not any(isinstance(one, types.Array) for one in getattr(index, "types", (index,)))
    return value.op in VIEWS


# -- types of calls ------------------------------------------------------------------------------------------------
#
# For each ``+`` and each ``array[i]`` numba goes through all implementations that there are, and keeps texts of why
# most of them do not fit: a seventh of the time of a first fit.


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


#: What the name of a function's environment (what it needs to make Python objects of) begins with.
ENVIRONMENT = "_ZN08NumbaEnv"


class FixedFlags(Flags):  # type: ignore[misc]
    """Options of one compilation, as one text: numba compares all of them for each call that it finds the types of."""

    __slots__ = ("_text",)

    @property
    def text(self) -> str:
        """All options, which do not change from the first time on, as a text that is the same in all processes."""
        try:
            return self._text
        except AttributeError:
            values = {name: getattr(value, "flags", value) for name, value in self.values().items()}
            text = [f"{name}={sorted(one) if isinstance(one, set) else one}" for name, one in values.items()]
            self._text: str = " ".join(text)
            return self._text

    def __hash__(self) -> int:
        """Return the hash of the options."""
        return hash(self.text)

    def __eq__(self, other: object) -> bool:
        """Return whether the options are the same."""
        return self is other or (isinstance(other, FixedFlags) and self.text == other.text)

    def get_mangle_string(self) -> str:
        """Return the suffix of function names for the options."""
        return sha256(self.text.encode()).hexdigest()[:12]


class PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a part and of all that it calls, neither optimised nor translated."""

    #: Whether the function needs no reference counts (:class:`Borrowing`).
    borrows = False

    def finalize(self) -> None:
        """Bring the code together."""
        self._raise_if_finalized()
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        self._finalize_dynamic_globals()
        self._finalized = True

    def serialize_using_object_code(self) -> tuple[str, bool, bytes]:
        """Return what is kept on disk."""
        self._ensure_finalized()
        return self.name, self.borrows, self._final_module.as_bitcode()

    @classmethod
    def kept(cls, target_context: Any, state: tuple[str, bool, bytes]) -> PartLibrary:
        """Return the code that was kept on disk."""
        name, borrows, code = state
        library = cls(target_context.codegen(), name)
        library.borrows, library._final_module = borrows, binding.parse_bitcode(code)
        library._finalized = True
        return library


def pass_builder(codegen: Any) -> Any:
    """Return LLVM's pipeline with numba's options, but for one: loops are not unrolled.

    That was a tenth of the time of a first fit, for nothing: kernels of message passing are a tenth faster without, as
    they are smaller, and others are as fast.
    """
    tuning = binding.create_pipeline_tuning_options(config.OPT)
    tuning.loop_vectorization, tuning.slp_vectorization = bool(config.LOOP_VECTORIZE), bool(config.SLP_VECTORIZE)
    tuning.loop_unrolling = False
    return binding.create_pass_builder(codegen._tm, tuning)


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a kernel and of all that it calls."""

    #: The name of the function that the wrapper for Python calls.
    entry = ""

    def _optimize_final_module(self) -> None:
        """Optimise; nothing but the kernel and its wrapper is called from elsewhere.

        Other functions become private, so that arguments nobody reads go away: as symbols of the object, internal ones
        too, they would be taken for functions of the same name in other objects, which have all arguments.
        """
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == binding.Linkage.linkonce_odr:
                function.linkage = "external" if function.name == self.entry else "private"
        codegen = self._codegen
        cheap, builder = codegen._module_pass_manager(cost="cheap", opt=0, loop_vectorize=False, slp_vectorize=False)
        cheap.run(self._final_module, builder)
        builder = pass_builder(codegen)
        manager = builder.getModulePassManager()
        manager.add_refprune_pass()
        manager.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        """Make the code ready to be called."""
        super()._finalize_final_module()
        for variable in self._final_module.global_variables:
            environment = lookup_environment(variable.name) if variable.name.startswith(ENVIRONMENT) else None
            if environment is not None:
                self._codegen.set_env(variable.name, environment)

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """Return the entry for the disk: machine code, with names in place of code that could be inlined."""
        self._ensure_finalized()
        external = [one.name for one in self._final_module.functions if one.linkage == binding.Linkage.external]
        module = binding.parse_assembly("\n".join(f'define void @"{name}"() {{ ret void }}' for name in external))
        return self.name, "object", (self._get_compiled_object(), module.as_bitcode())


class BorrowingCompiler(Compiler):  # type: ignore[misc]
    """Compiles without reference counts what needs none."""

    def define_pipelines(self) -> list[Any]:
        """Return numba's steps, with one more once types are known."""
        managers = super().define_pipelines()
        for manager in managers:
            manager.add_pass_after(Borrowing, AnnotateTypes)
            manager.passes = [(LeanLowering if one is NativeLowering else one, text) for one, text in manager.passes]
            manager.finalize()
        return list(managers)


class PartCompiler(BorrowingCompiler):
    """Compiles a part."""

    def compile_extra(self, func: Any) -> Any:
        """Return the result of compiling, which cannot be called from Python."""
        state = self.state
        state.typingctx, state.flags = remembering(state.typingctx), FixedFlags(state.flags)
        state.library = PartLibrary(state.targetctx.codegen(), func.__qualname__)
        state.flags.no_compile = state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        result = super().compile_extra(func)
        result.library.finalize()
        key = _Key()
        state.targetctx.insert_user_function(key, result.fndesc, [result.library])
        return result._replace(entry_point=key)

    def _compile_bytecode(self) -> Any:
        """Compile under a name that is the same in all processes: of two copies of a part a kernel takes one."""
        identity = self.state.func_id
        with suppress(NoKey):
            identity.unique_id = digest(identity.func)[:16]
        return super()._compile_bytecode()


class KernelCompiler(Compiler):  # type: ignore[misc]
    """Makes a kernel of a part."""

    def compile_extra(self, func: Any) -> Any:
        """Return the result of compiling."""
        context, args = self.state.targetctx, tuple(self.state.args)
        part = _parts[func]
        part.compile(args)
        made = part.overloads[args]
        library = KernelLibrary(context.codegen(), func.__qualname__)
        library.entry = made.fndesc.llvm_func_name
        library.enable_object_caching()
        library.add_linking_library(made.library)
        if made.library.borrows:
            count_nothing(context)
        release = self.state.flags.release_gil
        with context.push_code_library(library):
            context.create_cpython_wrapper(library, made.fndesc, made.environment, None, release_gil=release)
        entry = context.get_executable(library, made.fndesc, made.environment)
        return made._replace(entry_point=entry, library=library, target_context=context, metadata=None)


class CallbackCompiler(BorrowingCompiler):
    """Compiles a function that is called by its address: optimised as kernels are, with all that it calls."""

    def compile_extra(self, func: Any) -> Any:
        """Return the result of compiling."""
        state = self.state
        state.typingctx, state.flags = remembering(state.typingctx), FixedFlags(state.flags)
        state.library = KernelLibrary(state.targetctx.codegen(), func.__qualname__)
        state.library.enable_object_caching()
        return super().compile_extra(func)


class _Key:
    """What numba finds a part by."""


#: The parts of functions.
_parts: WeakKeyDictionary[Callable[..., Any], Part] = WeakKeyDictionary()


def kept_part(target_context: Any, reduced: tuple[Any, ...]) -> Any:
    """Return the result of compiling a part that was kept on disk."""
    state, fndesc, environment, signature, objectmode, lifted, notes, reload_init, environments = reduced
    for load in reload_init:
        load()
    return CompileResult(
        typing_context=target_context.typing_context, target_context=target_context, entry_point=_Key(),
        typing_error=None, type_annotation=notes, signature=signature, objectmode=objectmode, lifted=lifted,
        fndesc=fndesc, library=PartLibrary.kept(target_context, state), call_helper=None, environment=environment,
        metadata=None, reload_init=reload_init, referenced_envs=environments,
    )  # fmt: skip


def kept_kernel(target_context: Any, reduced: tuple[Any, ...]) -> Any:
    """Return the result of compiling a kernel that was kept on disk."""
    return CompileResult._rebuild(target_context, *reduced)


_FEW_COLLECTIONS = FewCollections()


class Substitute(Protocol):
    """A replacement for compiling, such as a rehearsal in Python."""

    def kernel(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Callable[..., Any]:
        """Return the replacement that is called for some argument types."""

    def callback(self, callback: Callback) -> None:
        """Hear of a function that would be compiled now, to be called by its address."""


#: The last one is in force; see :class:`~ssvm_dsl.kernels.compiling.rehearsal.Rehearsal`.
substitutes: list[Substitute] = []


class KeptLibrary(CPUDispatcher):  # type: ignore[misc]
    """A function whose compiled code is kept on disk."""

    def compile(self, sig: Any) -> Any:
        """Compile for the types of some arguments, unless the disk has the code."""
        try:
            with postponed_interrupts, _FEW_COLLECTIONS:
                return super().compile(sig)
        except NumbaError as err:
            if not must_count(self.py_func, err):
                raise
        finally:
            if isinstance(self._cache, CodeStore):
                self._cache.release(sig)
        return self.compile(sig)


class Part(KeptLibrary):
    """A function that is called from kernels only."""

    def add_overload(self, result: Any) -> None:
        """Keep the result of compiling, out of reach of calls from Python."""
        self.overloads[tuple(result.signature.args)] = result


class CompiledKernel(KeptLibrary):
    """A function whose kernel is called from Python, and whose part is called from other kernels.

    Parameters
    ----------
    py_func : function
    targetoptions : dict
        Options of numba's ``njit``.
    """

    def __init__(self, py_func: Callable[..., Any], targetoptions: dict[str, Any]) -> None:
        super().__init__(py_func, targetoptions=targetoptions, pipeline_class=KernelCompiler)
        self.part = _parts[py_func] = Part(py_func, targetoptions=targetoptions, pipeline_class=PartCompiler)

    def compile(self, sig: Any) -> Any:
        """Compile for some argument types, or use the replacement."""
        return substitutes[-1].kernel(self.py_func, tuple(sig)) if substitutes else super().compile(sig)

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """Return what numba takes a call from a kernel for; literal arguments are numbers as any others."""
        numbers = {name: types.unliteral(kind) for name, kind in kws.items()}
        return self.part.get_call_template([types.unliteral(kind) for kind in args], numbers)

    def get_overload(self, sig: Any) -> Any:
        """Return what numba finds the code of such a call by."""
        return self.part.get_overload(sig)


def njit(function: Callable[..., Any], *, cache: bool, borrowed: bool, **options: Any) -> CompiledKernel:
    """Return a function that is compiled when it is first called.

    Parameters
    ----------
    function : function
    cache, borrowed, **options
        See :func:`ssvm_dsl.kernels.compiling.jit.njit`.
    """
    options["_nrt"] = not borrowed
    kernel = CompiledKernel(function, {"nopython": True, **options})
    if cache:
        text = options_text(options)
        kernel._cache = CodeStore(function, f"kernel {text}", kept_kernel)
        kernel.part._cache = CodeStore(function, f"part {text}", kept_part)
    return kernel


class Callback(CFunc):
    """A function that is called by its address, compiled when a kernel first gets it; its code is kept on disk.

    Parameters
    ----------
    function : function
    signature : numba signature
    """

    _sig: Any
    _wrapper_address: int | None

    def __init__(self, function: Callable[..., Any], signature: Any) -> None:
        super().__init__(function, normalize_signature(signature), {}, {}, pipeline_class=CallbackCompiler)
        self.kind = types.FunctionType(self._sig)
        self._cache: Any = CodeStore(function, "callback as kernels", kept_kernel)

    def compile(self) -> None:
        """Compile unless the disk has the code, or use the replacement."""
        if substitutes:
            substitutes[-1].callback(self)
            return
        try:
            with postponed_interrupts, _FEW_COLLECTIONS:
                super().compile()
        finally:
            self._cache.release(self._sig)

    @property
    def address(self) -> int:
        """Where the code is."""
        if self._wrapper_address is None:
            self.compile()
        assert self._wrapper_address is not None
        return self._wrapper_address

    def __wrapper_address__(self) -> int:
        """Return where the code is; kernels that get the function ask for it."""
        return self.address


@typeof_impl.register(Callback)
def type_of_callback(callback: Callback, context: Any) -> Any:
    """Return what kernels take a callback for; numba would make the type at each call, in 30 microseconds."""
    if callback._wrapper_address is None:
        callback.compile()
    return callback.kind


def cfunc(signature: Any) -> Callable[[Callable[..., Any]], Callback]:
    """Return a decorator for a function that is called by its address, compiled when a kernel first gets it.

    Parameters
    ----------
    signature : numba signature
    """
    return lambda function: Callback(function, signature)
