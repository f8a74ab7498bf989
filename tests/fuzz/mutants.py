"""Plug-ins with one bug each, planted in examples of the docs, templates and bundled plug-ins; the kits must find all.

    make fuzz ARGS=mutants                      all of them, and the table of docs/plugins/mutants.md
    python tests/fuzz/mutants.py depth-first    those of some targets, or whose names contain a word

A mutant is a replacement of text in a source, which must occur there once.  It runs in a process of its own, in which
nothing of the plug-in has been imported before.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import re
import sys
import tempfile
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "plugins" / "mutants.md"
FENCE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

#: What each process has imported when it begins; nothing that a bug is planted in.
PRELOADED = [
    "numba", "ssvm_dsl.registry", "ssvm_dsl.learning.estimators.svm", "ssvm_dsl.testing.backends.conformance",
    "ssvm_dsl.testing.bridges", "ssvm_dsl.testing.executors",
    "ssvm_dsl.testing.trainers", "ssvm_dsl.testing.losses",
]  # fmt: skip

#: Seconds that the kit may take for one mutant, and random problems of kits that draw them.
SECONDS, N_PROBLEMS = 240.0, 9


@dataclass(frozen=True)
class Target:
    """A plug-in in which bugs are planted.

    Parameters
    ----------
    kind : str
        Which kit: "backend", "trainer", "loss", "constraint", "bridge" or "executor".
    source : str
        A page of docs, a module, or ``module:NAME`` of a text.
    plugin : str
        Its name.
    bugs : dict of str to (str, str)
        What is wrong -> (text of the source, text in its place).
    options : dict
        Options that the kit runs it with.
    """

    kind: str
    source: str
    plugin: str
    bugs: dict[str, tuple[str, str]]
    options: dict[str, object] = field(default_factory=dict)


TARGETS = [
    Target("backend", "docs/howto/own_backend.md", "depth-first", {
        "sign of unary scores": ("score + node[v][state] + sum", "score - node[v][state] + sum"),
        "axes of tables reversed": ("table[tuple(labels[scope])]", "table[tuple(labels[scope[::-1]])]"),
        "tables of three equal variables transposed": (
            "table[tuple(labels[scope])]",
            "(table.swapaxes(0, 1) if table.ndim == 3 and len(set(table.shape)) == 1 else table)[tuple(labels[scope])]",
        ),
        "tables of four equal variables transposed": (
            "table[tuple(labels[scope])]",
            "(table.swapaxes(2, 3) if table.ndim == 4 and len(set(table.shape)) == 1 else table)[tuple(labels[scope])]",
        ),
        "a factor is counted before all its variables have states": ("tables[scope.max()]", "tables[scope[-1]]"),
        "prunes by too small a bound": ("now + rest[v + 1] > best[0]", "now + 0.5 * rest[v + 1] > best[0]"),
        "constant forgotten": ("visit(0, example.const)", "visit(0, 0.0)"),
        "clock ignored": (" and not clock.over:", ":"),
        "score as the bound when time ends": ("bound=max(score, example.const + rest[0])", "bound=score"),
        "called finished when time ends": ("stop=Stop.TIME", "stop=Stop.FINISHED"),
        "keeps a view of the labels": ("labels.tolist()", "labels"),
        "tries the two best states only": ("np.argsort(-node[v]):", "np.argsort(-node[v])[:2]:"),
        "cost 0": ("cost=100.0 *", "cost=0.0 *"),
        "cost 10^9 times too large": ("cost=100.0 *", "cost=1e11 *"),
        "scores rounded": ("ExampleAnswer.exact(found, score)", "ExampleAnswer.exact(found, round(score, 6))"),
        "scratch shared by threads": (
            "np.zeros(len(node), dtype=np.int32)",
            "self.__dict__.setdefault(str(len(node)), np.zeros(len(node), dtype=np.int32))",
        ),
        "scores of the first call kept": (
            "node, tables = example.node,",
            "node, tables = self.__dict__.setdefault(str(example.number), example.node),",
        ),
        "variables in reverse": ("node, tables = example.node,", "node, tables = example.node[::-1],"),
    }),
    Target("backend", "ssvm_dsl.testing.brute_force", "brute-force", {
        "masks ignored": ("if program.allowed is not None:", "if False:"),
        "clamps ignored": ("if clamp is not None and clamp[v] >= 0:", "if False:"),
        "state 0 cannot be clamped": ("clamp[v] >= 0:", "clamp[v] > 0:"),
        "inverse permutation of axes": (
            "for axis in axes]).transpose(np.argsort(axes))",
            "for axis in axes]).transpose(np.argsort(np.argsort(axes)))",
        ),
        "marginals of factors transposed": ("transpose(np.argsort(np.argsort(axes)))", "transpose(np.argsort(axes))"),
        "k best, worst first": ('np.argsort(-scores[near], kind="stable")', 'np.argsort(scores[near], kind="stable")'),
        "k best without ties": ("(scores >= threshold)", "(scores > threshold)"),
        "sums overflow": ("np.exp(self.scores - top).sum()", "np.exp(self.scores).sum()"),
        "marginals without normaliser": ("np.exp(self.scores - total)", "np.exp(self.scores - self.scores.max())"),
        "constant of another example": ("theta.const[self.example] + total", "theta.const[0] + total"),
        "constraints ignored": ("if one.counts[example]:", "if False:"),
        "answers in the order of examples": (
            "enumerate(question.ids(self.program)):\n                clock",
            "enumerate(sorted(question.ids(self.program))):\n                clock",
        ),
        "impossible is called not found": ("else Primal.INFEASIBLE", "else Primal.NONE"),
        "bound below the score": (
            "self.bound[i], self.stop[i] = self.score[0, i],", "self.bound[i], self.stop[i] = self.score[0, i] - 1e-6,"
        ),
        "bound above the score": (
            "self.bound[i], self.stop[i] = self.score[0, i],", "self.bound[i], self.stop[i] = self.score[0, i] + 1e-6,"
        ),
        "counts of rows and columns swapped": ("a[inside] * columns + b[inside]", "b[inside] * rows + a[inside]"),
        "labellings that score -inf count": ("(scores >= threshold) & (scores > -np.inf)", "scores >= threshold"),
        "not reached, but called finished": ("np.full(n, Stop.TIME, dtype", "np.full(n, Stop.FINISHED, dtype"),
        "table row of another factor": (
            "self._spread(table[row], scope)", "self._spread(table[rows[0]], scope)"
        ),
    }),
    Target("backend", "ssvm_backends.trees.max_product", "tree", {
        "turned tables read as they are, on the way down": (
            "column[s] += pool[base + (t * c_v + s if forest.entry_flip[e] else s * c_p + t)]",
            "column[s] += pool[base + s * c_p + t]",
        ),
        "strides of turned tables": ("at = base + (t * c_v + s if", "at = base + (t * c_p + s if"),
        "the second table of a pair forgotten": ("pool[at] if fresh else out[s * c_p + t] + pool[at]", "pool[at]"),
        "one of four states forgotten": ("y = y if y > z else z", "y = y if y > z else y"),
        "roots are not counted": ("total += belief[argmax(belief)]", "total = belief[argmax(belief)]"),
    }),
    Target("backend", "ssvm_backends.trees.max_product", "chain", {
        "transposed on the way back": ("pool[link[v] + s * c + t]", "pool[link[v] + t * c + s]"),
        "chains of one example run into each other": ("if v > lo and link[v - 1] >= 0:", "if v > lo:"),
        "labels of the first example": (
            "alpha, labels[label_ptr[k] : label_ptr[k + 1]]", "alpha, labels[label_ptr[0] : label_ptr[1]]"
        ),
    }),
    Target("trainer", "ssvm_dsl.cli.plugins.templates.trainer:TRAINER", "mutant", {
        "sign of the plane": ("problem.accumulate(planes, share,", "problem.accumulate(planes, -share,"),
        "weights of examples ignored": (
            "objective.weight[planes.examples] / problem.n", "np.ones(len(planes.examples)) / problem.n"
        ),
        "weights of examples in another order": (
            "objective.weight[planes.examples] / problem.n", "objective.weight[planes.examples][::-1] / problem.n"
        ),
        "a constant for the number of examples": ("[planes.examples] / problem.n", "[planes.examples] / 6"),
        "dual a little too high": (
            "dual, plane = objective.dual(self.v, self.b),", "dual, plane = objective.dual(self.v, self.b) + 0.02,"
        ),
        "plane a little too high": ("(self.v.copy(), self.b)", "(self.v.copy(), self.b + 0.02)"),
        "dual of the next plane": ("dual=dual, plane=plane)", "dual=objective.dual(self.v, self.b), plane=plane)"),
        "state without its offset": ('"b": self.b, "t": self.t}', '"b": 0.0, "t": self.t}'),
        "objective told too low": ("primal=primal, upper=upper", "primal=0.99 * primal, upper=0.99 * upper"),
        "random numbers without the seed": (
            "w = objective.weights(self.v)", "w = objective.weights(self.v) + 1e-9 * np.random.default_rng().random()"
        ),
        "bounds of weights ignored": ("w = objective.weights(self.v)", "w = self.v / objective.lam"),
        "losses not weighted": ("float(share @ planes.loss)", "float(planes.loss.mean())"),
        "steps too short": ("lo, hi = 0.0, 1.0", "lo, hi = 0.0, 1e-4"),
        "goes on when time is up": (
            "            primal, upper, planes = problem.evaluate(w)",
            "            try:\n                primal, upper, planes = problem.evaluate(w)\n"
            "            except Exception:\n                pass",
        ),
        "one pass reported as none": ("self.t += 1", "self.t -= 1"),
    }),
    Target("trainer", "docs/plugins/testing_trainers.md", "lasting", {
        "steps upwards": ("step * objective.weight[planes.examples]", "-step * objective.weight[planes.examples]"),
        "weights leave their bounds": ("np.maximum(self.w, objective.lower, out=self.w)", "pass"),
        "number of the step not in the state": ('return {"w": self.w, "t": self.t}', 'return {"w": self.w, "t": 0}'),
        "iterates are views of the weights": ("w = self.w.copy()", "w = self.w"),
        "writes to the start": ("else start.copy()", "else start"),
        "no regulariser": ("self.w *= 1 - step * objective.lam", "self.w *= 1"),
    }, {"rate": 0.5}),
    Target("trainer", "ssvm_trainers.cutting.one_slack", "one-slack", {
        "value of the plane not weighted": (
            "mean = float(np.dot(objective.weight[planes.examples],",
            "mean = float(np.dot(np.ones(len(planes.examples)),",
        ),
        "slope not averaged": (
            "* objective.weight[planes.examples] / problem.n", "* objective.weight[planes.examples]"
        ),
        "offset of the plane": ("return v, mean + float(np.dot(v, w))", "return v, mean - float(np.dot(v, w))"),
    }, {"cache": 0}),
    Target("trainer", "ssvm_trainers.cutting.bundle", "bundle", {
        "offset not averaged": ("risk.offset / n)", "risk.offset)"),
        "sign of the slope": ("model.add(-risk.vector / n", "model.add(risk.vector / n"),
    }),
    Target("loss", "docs/plugins/losses.md", "distance", {
        "sign": (
            "np.abs(truth[:, None] - np.arange(n_states)) ** float(power)\n    return",
            "(truth[:, None] - np.arange(n_states)) ** float(power)\n    return",
        ),
        "states counted from 1": (
            "np.abs(truth[:, None] - np.arange(n_states)) ** float(power)\n    return",
            "np.abs(truth[:, None] - np.arange(1, n_states + 1)) ** float(power)\n    return",
        ),
        "prices of the first example kept": (
            "prices = np.abs(truth[:, None] - np.arange(n_states)) ** float(power)\n    return",
            "prices = vars(register).setdefault(f'{truth.shape} {n_states}', "
            "np.abs(truth[:, None] - np.arange(n_states)) ** float(power))\n    return",
        ),
        "transposed": (
            "return prices / max(1, (truth >= 0).sum())", "return prices.T / max(1, (truth >= 0).sum())"
        ),
    }),
    Target("loss", "docs/plugins/losses.md", "packed", {
        "divided by the variables of the batch": (
            "np.repeat(np.maximum(known, 1), np.diff(ptr))[:, None]", "max(1, (truth >= 0).sum())"
        ),
        "result kept and written again": (
            "    return prices / np.repeat(np.maximum(known, 1), np.diff(ptr))[:, None]",
            "    made = prices / np.repeat(np.maximum(known, 1), np.diff(ptr))[:, None]\n"
            "    kept = vars(register).setdefault(f'{made.shape}', made)\n    kept[:] = made\n    return kept",
        ),
        "divisors in another order": (
            "np.repeat(np.maximum(known, 1), np.diff(ptr))", "np.repeat(np.maximum(known, 1)[::-1], np.diff(ptr)[::-1])"
        ),
        "divided by all variables, unknown ones too": (
            "np.add.reduceat(np.append(truth >= 0, False), ptr[:-1])", "np.diff(ptr)"
        ),
        "divided by the number of examples": (
            "np.repeat(np.maximum(known, 1), np.diff(ptr))[:, None]", "max(1, len(ptr) - 1)"
        ),
    }),
    Target("constraint", "docs/plugins/constraints.md", "one-run", {
        "negation ignored": (
            "        first = np.zeros", "        true = true ^ group.negated\n        first = np.zeros"
        ),
        "constraints of a batch run into each other": (
            "first[group.literal_ptr[:-1][np.diff(group.literal_ptr) > 0]] = True", "first[:1] = True"
        ),
        "one run is too many": ("np.append(False, true[:-1]))) > 1", "np.append(False, true[:-1]))) >= 1"),
        "sign in rows": ("np.tile([1.0, -1.0, 1.0], m)", "np.tile([1.0, 1.0, -1.0], m)"),
        "right sides of rows": ("np.full(m, -np.inf), np.ones(m)", "np.full(m, -np.inf), np.zeros(m)"),
        "rows of neighbours only": (
            "for c in range(n) for b in range(c) for a in range(b)]",
            "for b in range(1, n - 1) for a, c in [(b - 1, b + 1)]]",
        ),
        "order of literals ignored": ("~np.append(False, true[:-1])", "~np.append(False, np.sort(true)[:-1])"),
    }),
    Target("constraint", "ssvm_constraints.sums", "count", {
        "upper bound not allowed": ("(total > group.meta", "(total >= group.meta"),
        "start below the lower bound": (
            "np.ones(len(scores.place)), lower, upper)", "np.ones(len(scores.place)), lower - 1, upper)"
        ),
        "bounds of the first constraint": (
            'np.ones(n), float(group.meta["lower"][k]), float(group.meta["upper"][k]))',
            'np.ones(n), float(group.meta["lower"][k]), float(group.meta["upper"][0]))',
        ),
    }),
    Target("constraint", "ssvm_constraints.sums", "linear", {
        "coefficients of the first constraint": (
            'coefficient: F64 = group.literal_meta["coefficient"][group.literals(k)]',
            'coefficient: F64 = group.literal_meta["coefficient"][: group.literals(k).stop - group.literals(k).start]',
        ),
        "false literals count": ("coefficient * true,", "coefficient * ~true,"),
    }),
    Target("constraint", "ssvm_constraints.runs", "runs", {
        "gaps of one position": ("(np.diff(position) != 1)", "(np.diff(position) > 2)"),
        "runs at the end may be short": ("~(runs.at_end & group", "~(runs.at_end | group"),
    }),
    Target("constraint", "ssvm_constraints.runs", "runs", {
        "best runs are a position too long": ("min(t, most[first]) + 1)", "min(t, most[first] + 1) + 1)"),
        "best runs pass over what is decided": ("gain[at[t]] == np.inf:", "False:"),
        "short runs at the last position only": ("(start == 0 or t == n)", "t == n"),
    }),
    Target("bridge", "docs/plugins/bridges.md", "run-to-states", {
        "two completions": ("[(0, 1), (1, 1)]", "[(0, 1), (1, 1), (0, 0)]"),
        "nothing after a run": ("[(0, 0), (1, 2), (2, 2)]", "[(0, 0), (1, 2)]"),
        "negation ignored": (
            "(np.arange(example.card[v]) == group.state[i]) != group.negated[i]",
            "np.arange(example.card[v]) == group.state[i]",
        ),
        "begins inside a run": ("made.table((v, after), steps[0])", "made.table((v, after), steps[1])"),
        "variables of a table turned": (
            "made.table((before, v, after), steps)", "made.table((after, v, before), steps)"
        ),
        "linked to the first position": ("before = after", "before = after if before is None else before"),
    }),
    Target("bridge", "ssvm_bridges.tables", "logic-to-tables", {
        "negation ignored": ("negated=np.tile(constraint.negated, n)", "negated=np.zeros(n * l, dtype=bool)"),
        "negation not in the key": (
            "arrays = (cards, place, constraint.state, constraint.negated,", "arrays = (cards, place, constraint.state,"
        ),
        "parameters not in the key": ("constraint.negated, *numbers)", "constraint.negated)"),
    }),
    Target("executor", "ssvm_dsl.cli.plugins.templates.executor:EXECUTOR", "mutant", {
        "the last error": ("failed[min(failed)]", "failed[max(failed)]"),
        "shards opened again": ("self.open.get(self.shards[number])", "self.shards[number].open()"),
        "time ignored": ("future.result(None if time_left() == inf else time_left())", "future.result()"),
        "answers in time dropped": ("late.found = list(found)", "late.found = [None] * len(found)"),
        "shards of the first start kept": (
            "self.shards, self.open = shards,", "self.shards, self.open = getattr(self, 'shards', None) or shards,"
        ),
        "answers in the order of shards": (
            "in enumerate(calls):", "in enumerate(sorted(calls, key=lambda one: one[0])):"
        ),
        "errors dropped": ("if failed:", "if False:"),
        "two calls on a shard at the same time": (
            "asked = [self.pool.submit(self.ask, function, *one, found, failed) for one in by_shard.items()]",
            "asked = [self.pool.submit(self.ask, function, number, [one], found, failed)"
            " for number, mine in by_shard.items() for one in mine]",
        ),
    }),
    Target("executor", "ssvm_executors.stream", "stream", {
        "answers in the order of work": (
            "[answers[place] for place in range(len(calls))]\n\n", "list(answers.values())\n\n"
        ),
        "time ignored": ("if left <= self._took:", "if False:"),
    }),
]  # fmt: skip


def mutants(words: tuple[str, ...] = ()) -> list[tuple[Target, str]]:
    """Return all mutants, or those in whose target or name one of the words occurs."""
    every = [(target, bug) for target in TARGETS for bug in target.bugs]
    return [one for one in every if not words or any(w in f"{one[0].source} {one[0].plugin} {one[1]}" for w in words)]


def text_of(source: str) -> str:
    """Return the program of a target: of a page, what comes before the plug-in is used, and later definitions."""
    if source.endswith(".md"):
        blocks = FENCE.findall((ROOT / source).read_text())
        return "\n".join(_definitions(block) for block in blocks)
    module, _, name = source.partition(":")
    if name:
        return str(getattr(importlib.import_module(module), name))
    found = importlib.util.find_spec(module)
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).read_text()


def _definitions(block: str) -> str:
    """Return the definitions of a block: imports, decorated functions, functions and classes, names in capitals."""
    parts = re.split(r"\n(?=\S)", block)
    wanted = re.compile(r"(import|from|def|class|@|[A-Z][A-Z_]+ = )")
    return "\n".join(one for one in parts if wanted.match(one) and "(Model)" not in one)


def load(text: str, name: str, folder: Path) -> ModuleType:
    """Write a program to a file, and import it under a name."""
    path = folder / f"{name.replace('.', '_')}.py"
    path.write_text(text)
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None
    assert found.loader is not None
    made = importlib.util.module_from_spec(found)
    sys.modules[name] = made
    found.loader.exec_module(made)
    return made


def killed(target: Target, bug: str | None, folder: Path, only: tuple[str, ...] = ()) -> list[str]:
    """Run the kit, or some checks, on a target with a bug, or without one; return the names of those that fail."""
    from ssvm_dsl import register, testing
    from ssvm_dsl.plugin_api import BackendSpec, ExecutorSpec, LossSpec, Option, RiskForm, TrainerNeeds, TrainerSpec
    from ssvm_dsl.registry import registry

    text = text_of(target.source)
    if bug is not None:
        old, new = target.bugs[bug]
        assert text.count(old) == 1, f"{target.source}: {old!r} occurs {text.count(old)} times"
        text = text.replace(old, new)
    page, of_text = target.source.endswith(".md"), ":" in target.source
    bundled = target.source.startswith("ssvm_") and not of_text and target.plugin != "brute-force"
    module = load(text, target.source if bundled else "mutant_plugin", folder)
    if page:
        register(module, "mutant")
    if hasattr(module, "RunBridge"):
        register(module.RunBridge(), "mutant bridge")
    what: object = target.plugin
    if target.plugin == "brute-force":
        what = replace(registry().find(BackendSpec, "brute-force"), name="copy", factory="mutant_plugin:BruteForce")
    elif of_text and target.kind == "trainer":
        needs = TrainerNeeds(forms=frozenset({RiskForm.PLANES}), strongly_convex=True)
        options = (Option("bisections", 40, "steps", int, least=1),)
        what = TrainerSpec("mutant", "mutant_plugin:Trainer", needs=needs, options=options, resumable=True)
    elif of_text:
        workers = Option("workers", 2, "threads", int, least=1)
        what = ExecutorSpec("mutant", "mutant_plugin:Executor", options=(workers,))
    elif target.kind == "loss":
        what = LossSpec(target.plugin, f"mutant_plugin:{target.plugin}", packed=target.plugin == "packed")
    check = getattr(testing, f"check_{target.kind}")
    if target.kind == "backend":
        check = partial(check, quick=True, n_problems=N_PROBLEMS)
    elif target.kind in ("constraint", "bridge"):
        check = partial(check, n_problems=N_PROBLEMS)
    elif target.kind == "trainer":
        check = partial(check, options=target.options)
    report = check(what, seconds=SECONDS, notice=lambda text: None, only=only)
    return list(report.failed)


def _child(target: Target, bug: str | None, pipe) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            found = killed(target, bug, Path(folder))
        except BaseException as err:
            pipe.send(f"the kit itself fails: {err!r:.200}")
            return
    pipe.send(found)


def tried(target: Target, bug: str | None) -> list[str]:
    """Run :func:`killed` in a separate process.

    Raises
    ------
    RuntimeError
        The bug cannot be planted, or the kit fails itself.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(target, bug, theirs))
    process.start()
    theirs.close()
    try:
        found = ours.recv() if ours.poll(2.0 * SECONDS) else ["it hangs"]
    except EOFError:
        found = ["its process ends"]
    process.kill()
    process.join()
    if isinstance(found, str):
        raise RuntimeError(f"{target.source}, {bug}: {found}")
    return found


def _tried(one: tuple[Target, str | None]) -> list[str]:
    """Return what finds a mutant; nothing where it cannot be made."""
    try:
        return tried(*one)
    except RuntimeError as err:
        print(err, flush=True)
        return [] if one[1] else ["it cannot be made"]


def main(words: tuple[str, ...] = ()) -> int:
    """Run mutants, print what finds each, write the page if all ran; return how many live."""
    chosen = mutants(words)
    begin = time.monotonic()
    sound = list({target.source + target.plugin: target for target, _ in chosen}.values())
    with ThreadPoolExecutor(2) as pool:
        healthy = list(pool.map(_tried, [(target, None) for target in sound]))
        results = []
        for (target, bug), found in zip(chosen, pool.map(_tried, chosen), strict=True):
            results.append((target, bug, found))
            said = "found " if found else "LIVES "
            print(f"{said} {target.kind} {target.plugin}: {bug}: {', '.join(found)}", flush=True)
    for target, found in zip(sound, healthy, strict=True):
        if found:
            print(f"WITHOUT A BUG {target.kind} {target.plugin} of {target.source} fails: {', '.join(found)}")
    alive = sum(not found for *_, found in results) + sum(map(bool, healthy))
    print(f"{len(results)} mutants, {sum(not found for *_, found in results)} live; {time.monotonic() - begin:.0f} s")
    if not words:
        PAGE.write_text(page_of(results))
    return alive


def page_of(results: list[tuple[Target, str, list[str]]]) -> str:
    """Return the page: a table of mutants and of the checks that find them for each target."""
    kinds, n_alive = defaultdict(list), sum(not found for *_, found in results)
    for target, bug, found in results:
        kinds[target.kind].append((target, bug, found))
    lines = [
        "# Bugs that the kits find", "",
        "Each row is a bug that was planted in a plug-in, and the checks of the [kit](kit.md) that fail then.",
        f"{len(results) - n_alive} of {len(results)} bugs are found. `make fuzz ARGS=mutants` plants them again and",
        "writes this page. Plug-ins are those of the pages here, those that `ssvm plugins new` writes, and bundled",
        "ones.", "",
    ]  # fmt: skip
    for kind, mine in kinds.items():
        lines += [f"## {kind.capitalize()}s", "", "| plug-in | bug | found by |", "|---|---|---|"]
        for target, bug, found in mine:
            shown = [f"`{one}`" for one in found[:3]] + ([f"and {len(found) - 3} more"] if len(found) > 3 else [])
            name = "of the template" if target.plugin == "mutant" else f"`{target.plugin}`"
            name += "".join(f", `{key}={value}`" for key, value in target.options.items())
            lines.append(f"| {name} | {bug} | {', '.join(shown) or 'nothing'} |")
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    sys.exit(min(main(tuple(sys.argv[1:])), 1))
