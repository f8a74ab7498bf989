"""The files that ``ssvm plugins new --command`` writes.

The command counts the factors of a problem in a file: it reads an argument, and answers as a table or as JSON.
"""

from __future__ import annotations

from ssvm_dsl.cli.plugins.templates import PackageTemplate

HOOKS = '''\
"""What ssvm-dsl reads at start: descriptions only, the command is not imported here."""

from ssvm_dsl.plugin_api import CommandSpec, hookimpl


@hookimpl
def ssvm_commands():
    return [CommandSpec("{name}", "{module}.command:Command", "count the factors of a problem in a file")]
'''

COMMAND = '''\
"""``ssvm {name} FILE``: how many factors of each size a problem has."""

from collections import Counter


class Command:
    def arguments(self, parser):
        parser.add_argument("file", metavar="FILE", help="a problem in any format of `ssvm solve`")
        parser.add_argument("--json", action="store_true", help="print JSON and nothing else")

    def run(self, args, screen):
        from ssvm_dsl import read_problem  # what takes time to import is imported when the command runs

        program = read_problem(args.file).program
        counts = Counter(len(group.cards) for group in program.groups for _ in group.scope)
        if args.json:
            screen.json({str(size): n for size, n in sorted(counts.items())})
        else:
            screen.table("", ("variables", "factors"), [(str(size), str(n)) for size, n in sorted(counts.items())])
        return 0
'''

TEST = '''\
"""The command runs as users call it."""

import json
import subprocess
import sys

CHAIN = "MARKOV\\n2\\n2 2\\n1\\n2 0 1\\n\\n4\\n1 2 3 4\\n"


def test_factors_are_counted(tmp_path):
    (tmp_path / "chain.uai").write_text(CHAIN)
    command = [sys.executable, "-m", "ssvm_dsl.cli", "{name}", str(tmp_path / "chain.uai"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert json.loads(done.stdout) == {"2": 1}, done.stderr
'''

TEMPLATE = PackageTemplate(
    "command",
    HOOKS,
    {"command.py": ("the command: `arguments`, `run`", COMMAND)},
    ("test_{module}.py", "calls it", TEST),
    "Type `ssvm {name} FILE`.",
    tried="ssvm {name} --help",
)
