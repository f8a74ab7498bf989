"""Declarations as JSON and back: constructor names and their arguments, functions by import path, no code.

Reading calls the public constructors, so everything they check is checked for files too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ssvm_dsl.errors import FileFormatError, KeywordError, ModelError, OptionError, SsvmError
from ssvm_dsl.lang import dims, inputs
from ssvm_dsl.lang.builder import DeclarationBuilder
from ssvm_dsl.lang.constraints import durations, forbidden, logic, pointers, relations, structures
from ssvm_dsl.lang.constraints.structures import Custom
from ssvm_dsl.lang.declaration import Declaration
from ssvm_dsl.lang.dims import Dim
from ssvm_dsl.lang.factors import Factor, Given
from ssvm_dsl.lang.features import sources
from ssvm_dsl.lang.features.kernel_features import Kernel, Nystroem, RandomFourier
from ssvm_dsl.lang.features.sources import SpanLength, SpanMean, SpanSum
from ssvm_dsl.lang.forms import Form
from ssvm_dsl.lang.functions import FunctionRef
from ssvm_dsl.lang.grammars.grammar import Grammar
from ssvm_dsl.lang.losses import label_losses
from ssvm_dsl.lang.losses.cost import Cost
from ssvm_dsl.lang.losses.label_losses import CountLoss
from ssvm_dsl.lang.outputs import targets
from ssvm_dsl.lang.outputs.labels import Label, Latent, Target
from ssvm_dsl.lang.patterns.pattern import Pattern
from ssvm_dsl.lang.patterns.references import LabelAt, LiteralAt
from ssvm_dsl.lang.rules import formulas
from ssvm_dsl.lang.symbols import Node, Symbol

FORMAT = "ssvm-dsl declaration"
VERSION = 1

#: Every constructor a file may name; reading can reach nothing else.
CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    maker.__name__: maker
    for maker in (
        *(Dim, Label, Latent, Factor, inputs.Input, inputs.Attributes, inputs.Edges),
        *(sources.Feature, sources.JointFeature, sources.PLiF, sources.Polynomial, sources.Standardized),
        *(sources.Scaled, sources.Whitened, sources.Hashed, sources.Concat, Nystroem, RandomFourier, Kernel),
        *(label_losses.Hamming, Cost, label_losses.ZeroOne, label_losses.NoLoss, CountLoss),
        *(label_losses.CustomLoss, label_losses.LossSum),
        *(targets.chain, targets.pairs, targets.grid, targets.complete, targets.along),
        *(targets.leaves, targets.rules, targets.siblings, targets.grandparents),
        *(targets.cliques, targets.cross, targets.spans, targets.starts, SpanLength, SpanMean, SpanSum),
        *(logic.Constraint, logic.AtMost, logic.AtLeast, logic.Exactly, logic.ExactlyOne),
        *(logic.AnyOf, logic.Implies, logic.Linear, logic.Not),
        *(structures.Matching, structures.Path, structures.Circuit),
        *(relations.Equivalence, relations.LinearOrder, relations.Transitive, relations.Acyclic),
        *(durations.Duration, forbidden.Forbid, forbidden.Allow, forbidden.Same, forbidden.Different, Given),
        *(pointers.AllDifferent, pointers.Arborescence, pointers.ProjectiveTree),
        *(inputs.Positions, inputs.At, Pattern, LabelAt, LiteralAt),
        *(dims.Shift, dims.Ring, dims.FromEnd, dims.OnAxis, dims.Read),
        *(formulas.AllOf, formulas.Iff, formulas.Xor, formulas.Count),
        *(dims.Arithmetic, dims.Compare, dims.IsOne, dims.Joined),
    )
}
CONSTRUCTORS["indicator"] = lambda label, state: label.is_(state)
CONSTRUCTORS["Custom"] = lambda label, *, oracle, **options: _custom(label, oracle, options)
CONSTRUCTORS["at"] = lambda label, position: label.at(position)
CONSTRUCTORS["index"] = dims.Index


def _custom(label: Label, oracle: object, options: dict[str, Any]) -> Custom:
    """Return a structure of a class that was loaded as trusted: a path alone would be imported."""
    if not isinstance(oracle, FunctionRef):
        raise TypeError("the oracle of a Custom must be a function")
    return Custom(label, oracle, **options)


#: The key of an index without a name.
UNNAMED = "unnamed index"


def to_json(declaration: Declaration) -> str:
    """Return a declaration as JSON text.

    Raises
    ------
    ModelError
        A feature function has no import path (a lambda, or a function inside another one).
    """
    lost = [ref.path for ref in declaration.functions if not ref.importable]
    if lost:
        text = f"{lost[0]} cannot be written to a file; define it at the top level of a module, with def and a name"
        raise ModelError(declaration.name, [("", text)])
    symbols = [{"name": symbol.name, **_node(symbol)} for symbol in declaration.symbols]
    ranks = {number: k for k, number in enumerate(sorted({one[UNNAMED] for one in _unnamed(symbols)}))}
    for one in _unnamed(symbols):
        one[UNNAMED] = ranks[one[UNNAMED]]
    content = {"format": FORMAT, "version": VERSION, "name": declaration.name, "symbols": symbols}
    return json.dumps(content, indent=1)


def _unnamed(value: Any) -> list[dict[str, Any]]:
    """Return the indices without a name in a model's symbols, in the order of their declaration."""
    found, open_ = [], [value]
    while open_:
        one = open_.pop()
        if isinstance(one, dict):
            found += [one] if UNNAMED in one else []
            open_ += one.values()
        elif isinstance(one, list):
            open_ += one
    return sorted(found, key=lambda one: int(one[UNNAMED]))


def _node(node: Node) -> dict[str, Any]:
    args, options = node.arguments()
    make = node.constructor if node.constructor in CONSTRUCTORS else _path_of(node)
    entry: dict[str, Any] = {"make": make, "args": [_encode(arg) for arg in args]}
    if options:
        entry["options"] = {key: _encode(value) for key, value in options.items()}
    return entry


def _path_of(node: Node) -> str:
    """Return the import path of a kind from another package.

    Raises
    ------
    ModelError
        Its class has none: it is defined in a function.
    """
    ref = FunctionRef.of(type(node))
    if not ref.importable:
        text = f"{ref.path} cannot be written to a file; define the class at the top level of a module"
        raise ModelError(getattr(node, "name", ""), [(node.line, text)])
    return ref.path


def _encode(value: object) -> object:
    value = value.written if isinstance(value, Target) else value  # no function makes "each variable of a label"
    if isinstance(value, Symbol) and value.name:
        return {"ref": value.name}
    if isinstance(value, dims.Index):
        return {UNNAMED: value.number, "dim": _encode(value.dim)}
    if isinstance(value, Node):
        return _node(value)
    if isinstance(value, Form):
        return {"form": value.name, "values": list(value.values), "shape": list(value.shape)}
    if isinstance(value, sources.Quantiles):
        return {"quantiles": value.n}
    if isinstance(value, FunctionRef):
        return {"function": value.path}
    if isinstance(value, Grammar):
        return {"grammar": [_encode(one) for one in value.arguments()]}
    if isinstance(value, Mapping):
        return {"mapping": [[_encode(key), _encode(item)] for key, item in value.items()]}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    return value


def from_json(text: str, *, trusted: bool | Iterable[str] = False) -> Declaration:
    """Return the declaration of a JSON text; see :meth:`Model.from_json`."""
    if not isinstance(trusted, bool | Iterable):
        raise OptionError(f"trusted is True, False or a list of import paths, got {trusted!r}")
    trusted = trusted if isinstance(trusted, bool) else (trusted,) if isinstance(trusted, str) else tuple(trusted)
    try:
        content = json.loads(text)
        if content["format"] != FORMAT or content["version"] != VERSION:
            raise FileFormatError(f"expected {FORMAT!r} version {VERSION}, found {content.get('format')!r}")
        builder = DeclarationBuilder(str(content["name"]))
        known: dict[str, Symbol] = {}
        for entry in content["symbols"]:
            for index in _unnamed(entry):  # they are declared in this order
                _decode(index, known, trusted)
            symbol = _decode(entry, known, trusted)
            if not isinstance(symbol, Symbol) or not isinstance(entry["name"], str):
                raise TypeError(f"{entry['name']!r} is no symbol of a model")
            known[entry["name"]] = builder.add(entry["name"], symbol)
    except KeywordError as err:
        raise FileFormatError(f"not a model declaration: {err}") from err
    except SsvmError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, OverflowError, RecursionError) as err:
        raise FileFormatError(f"not a model declaration: {type(err).__name__}: {err}") from err
    return builder.declaration()


def _decode(value: Any, known: dict[str, Symbol], trusted: bool | tuple[str, ...]) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item, known, trusted) for item in value)
    if not isinstance(value, dict):
        return value
    if "ref" in value:
        return known[value["ref"]]
    if UNNAMED in value:
        key = f"index {int(value[UNNAMED])}"  # no name of Python
        if key not in known:
            known[key] = dims.Index(_decode(value["dim"], known, trusted))
        return known[key]
    if "function" in value:
        return FunctionRef(str(value["function"])).load(trusted)
    if "grammar" in value:
        return Grammar(*(_decode(one, known, trusted) for one in value["grammar"]))
    if "mapping" in value:
        return {_decode(key, known, trusted): _decode(item, known, trusted) for key, item in value["mapping"]}
    if "quantiles" in value:
        return sources.Quantiles(value["quantiles"])
    if "form" in value:
        return Form(value["form"], tuple(map(float, value["values"])), tuple(map(int, value["shape"])))
    make = value["make"]
    # a path: a kind from another package, which is code of that package
    maker: Any = FunctionRef(make).load(trusted).function if ":" in make else CONSTRUCTORS[make]
    if not (make in CONSTRUCTORS or (isinstance(maker, type) and issubclass(maker, Node))):
        raise TypeError(f"{make} is no kind of declaration")
    args = [_decode(arg, known, trusted) for arg in value["args"]]
    return maker(*args, **{key: _decode(arg, known, trusted) for key, arg in value.get("options", {}).items()})
