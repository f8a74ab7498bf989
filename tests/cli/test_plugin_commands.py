"""Subcommands of plug-ins: found by name, loaded when called, contained when they break."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from foreign import HEAD, distribution, inside, ssvm, ssvm_here
from ssvm_dsl.cli.main import COMMANDS
from ssvm_dsl.plugin_api.hosting.check_spec import CORE_COMMANDS

#: Commands of a stranger: one that works, and others that break in each place where they can.
WORDY = f"""{HEAD}
@hookimpl
def ssvm_commands():
    names = ["echo", "printing", "failing", "quitting", "lost", "untold", "unarmed", "odd", "blocked", "closed"]
    specs = [CommandSpec(name, f"wordy_code:{{name.title()}}", f"is {{name}}") for name in names]
    return [*specs, CommandSpec("needy", "wordy_code:Echo", requires=("no_such_module",), install_hint="install it"),
            CommandSpec("nowhere", "no_such_module:Command"), CommandSpec("nothing", "wordy_code:Nothing"),
            CommandSpec("demo", "wordy_code:Echo"), CommandSpec("reproduce", "wordy_code:Echo")]
"""
CODE = """
import sys

class Echo:
    def arguments(self, parser):
        parser.add_argument("word")
        parser.add_argument("--json", action="store_true")

    def run(self, args, screen):
        if args.json:
            screen.json(args.word)
        else:
            screen.text(args.word)
            screen.table("it", ("word",), [(args.word,)], unbroken=("word",))
        screen.note("a note")
        with screen.progress("echo") as tell:
            tell("all of it", 0.5)
        return 0 if args.word == "yes" else 1

class Plain:
    def arguments(self, parser):
        pass

class Printing(Plain):
    def run(self, args, screen):
        print("hostile")
        screen.text("mine")
        return 0

class Failing(Plain):
    def run(self, args, screen):
        raise ValueError("of no use")

class Quitting(Plain):
    def run(self, args, screen):
        sys.exit(7)

class Lost(Plain):
    def run(self, args, screen):
        open("/no/such/file")

class Untold(Plain):
    def run(self, args, screen):
        return None

class Unarmed:
    def run(self, args, screen):
        return 0

class Odd:
    def arguments(self, parser):
        raise RuntimeError("no arguments today")

    def run(self, args, screen):
        return 0

class Blocked:
    def __init__(self):
        raise OSError("cannot be made")

class Closed(Plain):
    def run(self, args, screen):
        raise BrokenPipeError
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder with an installed distribution of commands."""
    folder = tmp_path_factory.mktemp("site")
    distribution(folder, "wordy", WORDY)
    (folder / "wordy_code.py").write_text(CODE)
    return folder


def loaded_by(site, *arguments):
    """The modules that a call of the command line loads."""
    script = "import sys; from ssvm_dsl.cli.main import main; main(sys.argv[1:]); print('LOADED', *sys.modules)"
    env = os.environ | {"PYTHONPATH": str(site)}
    command = [sys.executable, "-c", script, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    return done.stdout.partition("LOADED")[2].split()


def test_the_reserved_names_are_those_of_the_core():
    assert {one.name for one in COMMANDS} == set(CORE_COMMANDS)


def test_commands_are_listed_without_being_imported(site):
    done = ssvm_here("--help", path=site)
    assert "is echo" in done.stdout
    told = json.loads(ssvm_here("plugins", "list", "--json", path=site).stdout)
    assert {"echo", "reproduce"} <= {one["name"] for one in told["plugins"] if one["kind"] == "command"}
    texts = [problem["text"] for problem in told["problems"]]
    assert any("the name 'demo' is taken: it is a command of ssvm itself" in text for text in texts)
    assert any("command 'reproduce' is already registered by 'papers'" in text for text in texts)
    loaded = loaded_by(site)
    assert "wordy" in loaded
    heavy = {"wordy_code", "ssvm_papers.command", "numba", "scipy.optimize", "sklearn", "ssvm_dsl.learning"}
    assert [name for name in loaded if name in heavy] == []


def test_core_commands_look_at_no_plugin(site):
    assert "wordy" not in loaded_by(site, "plugins")


@pytest.mark.parametrize(("word", "status"), [("yes", 0), ("no", 1)])
def test_a_command_runs(site, word, status):
    done = ssvm("echo", word, path=site)
    said = done.stdout.split()
    assert (done.returncode, said[:3], said[-1]) == (status, [word, "it", "word"], word)
    assert "a note" in done.stderr
    assert "echo: 50%, all of it" in done.stderr
    assert json.loads(ssvm_here("echo", word, "--json", path=site).stdout) == word


def test_a_command_has_help(site):
    done = ssvm_here("echo", "--help", path=site)
    assert done.returncode == 0
    assert "word" in done.stdout
    assert "--no-plugins" in done.stdout


def test_output_belongs_to_the_command(site):
    done = ssvm("printing", path=site)
    assert (done.stdout, done.returncode) == ("mine\n", 0)
    assert "hostile" in done.stderr


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("failing", "it failed with ValueError: of no use"),
        ("quitting", "it failed with SystemExit: 7"),
        ("lost", "/no/such/file: No such file or directory"),
        ("untold", "returned None from run, expected an exit status"),
        ("unarmed", "lacks arguments: implement Command"),
        ("odd", "it failed with RuntimeError: no arguments today"),
        ("blocked", "it failed with OSError: cannot be made"),
        ("needy", "needs no_such_module, which is not installed; install it"),
        ("nowhere", "cannot be loaded from no_such_module:Command"),
        ("nothing", "cannot be loaded from wordy_code:Nothing"),
    ],
)
def test_what_breaks_is_told_in_a_line(site, name, text):
    done = ssvm_here(name, path=site)
    assert (done.returncode, done.stdout) == (2, "")
    assert text in done.stderr
    assert "Traceback" not in done.stderr
    assert name == "lost" or f"command '{name}' (plug-in 'wordy-plugin', wordy 1.0)" in done.stderr
    assert "Traceback" in ssvm_here(name, "--traceback", path=site).stderr


def test_a_closed_pipe_is_no_fault(site):
    assert ssvm("closed", path=site).returncode == 0


@pytest.mark.parametrize("arguments", [("--no-plugins", "echo", "yes"), ("echo", "yes", "--no-plugins")])
def test_foreign_commands_can_be_left_out(site, arguments):
    done = ssvm_here(*arguments, path=site)
    assert done.returncode == 2
    assert "invalid choice: 'echo'" in done.stderr
    left_out = ssvm_here("reproduce", "list", "--no-plugins", path=site)
    assert left_out.returncode == 2
    assert "'reproduce' comes with pip install ssvm-papers" in left_out.stderr


def test_an_allow_list_decides(site):
    assert ssvm_here("echo", "yes", path=site, SSVM_PLUGINS="wordy").returncode == 0
    assert ssvm_here("echo", "yes", path=site, SSVM_PLUGINS="other").returncode == 2


def test_a_missing_command_may_be_of_a_broken_plugin(tmp_path):
    distribution(tmp_path, "broken", "import a_library_that_is_not_there\n")
    done = ssvm_here("lacking", path=tmp_path)
    assert done.returncode == 2
    assert "broken plug-ins are left out: see ssvm plugins list" in done.stderr


def test_the_command_of_the_papers_goes_through_the_contract(capsys):
    status, out, _ = inside(capsys, "plugins", "show", "reproduce", "--json")
    (facts,) = json.loads(out)
    assert (status, facts["kind"], facts["plugin"], facts["bundled"]) == (0, "command", "papers", False)
