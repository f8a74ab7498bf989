"""What makes kernels compile longer than they need to.

Numba compiles a function, and all that it calls, anew for each literal argument; and where an array is copied to a
slice it compiles the text of the error for those that do not fit, too (two seconds in each process).
"""

from __future__ import annotations

import ast
from collections import defaultdict

from sources import module_name, product_files


def compiled(tree: ast.Module) -> list[ast.FunctionDef]:
    """The functions of a module that numba compiles, each by itself."""
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    how = {node.name: "".join(map(ast.unparse, node.decorator_list)) for node in found}
    return [node for node in found if "njit" in how[node.name] and "inline=" not in how[node.name]]


def literal(node: ast.expr) -> str | None:
    """The literal that an argument is, of a type of its own for numba (numbers with a point are not)."""
    sign, inner = ("-", node.operand) if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else ("", node)
    return f"{sign}{inner.value}" if isinstance(inner, ast.Constant) and isinstance(inner.value, int) else None


def mixed(sources: dict[str, str]) -> list[str]:
    """Arguments that are a literal in one call, and something else in another."""
    trees = {name: ast.parse(text) for name, text in sources.items()}
    own = {name: {one.name for one in compiled(tree)} for name, tree in trees.items()}
    seen: dict[tuple[str, str, int], set[str | None]] = defaultdict(set)
    for name, tree in trees.items():
        home = dict.fromkeys(own[name], name)
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module in own:
                home |= {one.name: node.module for one in node.names if one.name in own[node.module]}
        for kernel in compiled(tree):
            for call in ast.walk(kernel):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in home:
                    for place, argument in enumerate(call.args):
                        seen[home[call.func.id], call.func.id, place].add(literal(argument))
    places = ((*place, kinds) for place, kinds in seen.items())
    return [f"{module}.{name}, argument {place}: {kinds}" for module, name, place, kinds in places if len(kinds) > 1]


def copies(tree: ast.Module) -> list[str]:
    """Statements of kernels that copy an array (a name, or a slice of one) to a slice."""
    found = []
    for kernel in compiled(tree):
        for node in ast.walk(kernel):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            sliced = any(isinstance(one, ast.Subscript) and has_slice(one.slice) for one in targets)
            if sliced and isinstance(node, ast.Assign | ast.AugAssign):
                whole = isinstance(node.value, ast.Name) and not node.value.id.isupper()
                found += [ast.unparse(node)] if whole or has_slice(node.value) else []
    return found


def has_slice(node: ast.expr) -> bool:
    """Whether there is a slice in an expression."""
    return any(isinstance(one, ast.Slice) for one in ast.walk(node))


def test_arrays_are_copied_by_assign():
    found = {module_name(path): copies(ast.parse(path.read_text())) for path in product_files()}
    assert {module: lines for module, lines in found.items() if lines} == {}, "use ssvm_dsl.ir.assign"


def test_the_rule_sees_copies():
    kernel = "@njit\ndef f(a, b, n):\n    a[:n] = 0.0\n    a[:] = b[0]\n    a[:n] = -INF\n    assign(a, b)\n"
    bad = ["a[:n] = b", "a[:n] += b[:n]", "a[n, :] = b[:n] + 1.0"]
    assert copies(ast.parse(kernel)) == []
    assert copies(ast.parse(kernel + "".join(f"    {line}\n" for line in bad))) == bad


def test_no_kernel_is_compiled_for_a_literal_besides():
    sources = {module_name(path): path.read_text() for path in product_files()}
    assert mixed(sources) == []


def test_the_rule_sees_them():
    kernel = "@njit(cache=True)\ndef {}(a, b):\n    {}\n"
    one = kernel.format("leaf", "return a + b") + kernel.format("top", "return leaf(a, b)")
    two = "from m.one import leaf\n" + kernel.format("other", "return leaf(a, -1)")
    assert mixed({"m.one": one}) == mixed({"m.one": one, "m.two": two.replace("-1", "0.5")}) == []
    assert [text.split(":")[0] for text in mixed({"m.one": one, "m.two": two})] == ["m.one.leaf, argument 1"]
