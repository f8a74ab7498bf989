"""Run the calls that stand in the text of a page, not in its blocks: `` `Hamming(y, ignore=255)` ``.

A call is run when its function is public.  The other names are those of the page's blocks, or those of a stage: small
declarations under the names that tables of the language use.  A dot for an argument, ``...``, is left alone.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import re

import numpy as np

import ssvm_dsl.ir
import ssvm_dsl.plugin_api
import ssvm_dsl.report
from ssvm_dsl import Attributes, Dim, Edges, Input, Label, StructuredRegressor, StructuredSVM
from ssvm_dsl.cli.ocr import OCR
from ssvm_dsl.io.problem_file import FileLimits

SPAN = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")

PUBLIC = {
    name: getattr(module, name)
    for module in (ssvm_dsl, ssvm_dsl.ir, ssvm_dsl.plugin_api, ssvm_dsl.report)
    for name in module.__all__
    if not name.startswith("__")
} | {"FileLimits": FileLimits}

#: Calls that are names of weights.
NAMES = ("Standardized(x[3])", "Whitened(x[3])")

#: What users call on estimators; pages name these methods without an estimator.
METHODS = {name: kind for kind in (StructuredRegressor, StructuredSVM) for name in dir(kind) if name[0] != "_"}


def stages():
    """Yield namespaces: labels on one axis, of all kinds, on two axes, and without any."""
    dims = {name: Dim() for name in "THWMN"} | {"K": Dim(4)}
    for axes in ("T", "N", "K", "HW", ""):
        over = [dims[name] for name in axes]
        made = {"x": Input(*over, 4), "area": Input(*over), "words": Attributes(*over[:1])}
        made |= {name: Label(*over, 3) for name in ("y", "a", "b")} | {"e": Edges(dims["M"], over=dims["N"])}
        for name, one in {**dims, **made}.items():
            if not hasattr(one, "name") or one.name is None or one not in dims.values():
                one.__set_name__(object, name)
        more = {"matrix": np.ones((3, 3)) - np.eye(3), "sets": [(0, 1, 2)], "fn": shape, "p": 2, "k": 1, "width": 8}
        yield dims | made | more | {"name": "name", "module": ssvm_dsl.plugin_api}


def shape(x):
    """A feature function."""
    return x


def calls(page):
    """Yield (text, parsed expression, name at its root) of the calls in the text of a page."""
    for text in dict.fromkeys(SPAN.findall(page)):
        try:
            tree = ast.parse(text, mode="eval")
        except SyntaxError:
            continue
        root = tree.body.func if isinstance(tree.body, ast.Call) else None
        while isinstance(root, ast.Attribute | ast.Call | ast.Subscript):
            root = root.func if isinstance(root, ast.Call) else root.value
        if isinstance(root, ast.Name) and "..." not in text and text not in NAMES:
            yield text, tree, root.id


def run_calls(page, namespace):
    """Run the calls in the text of a page; return (how many ran, those that failed with their errors).

    Parameters
    ----------
    page : str
    namespace : dict
        What the blocks of the page have defined.
    """
    n_run, failed = 0, []
    for text, tree, root in calls(page):
        if root in METHODS and isinstance(tree.body.func, ast.Name) and not callable(namespace.get(root)):
            error = bound(tree.body, getattr(METHODS[root](OCR), root))
        elif root in PUBLIC or root in namespace or text.startswith("y."):
            error = run(tree, namespace)
        else:
            continue
        n_run += 1
        failed += [] if error is None else [(text, error)]
    return n_run, failed


def bound(call, function):
    """Return why a function does not take the arguments of a call, ``None`` when it does."""
    given = {word.arg: None for word in call.keywords}
    try:
        inspect.signature(function).bind(*call.args, **given)
    except TypeError as error:
        return error
    return None


def run(tree, namespace):
    """Return why a call fails on all stages, ``None`` when it runs on one."""
    error, function = None, tree.body.func
    for stage in stages():
        missing = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - {*PUBLIC, *stage, *namespace}
        if missing - set(dir(builtins)):  # arguments that stand for the reader's
            found = eval(compile(ast.Expression(function), "call", "eval"), PUBLIC | stage | namespace)
            return bound(tree.body, found)
        for scope in (PUBLIC | stage | namespace, PUBLIC | namespace | stage):
            try:
                eval(compile(tree, "call", "eval"), dict(scope))
            except Exception as err:
                error = err
            else:
                return None
    return error
