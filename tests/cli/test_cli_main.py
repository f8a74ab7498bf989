"""The frame of the command line: help, versions, exit statuses, errors, and what is loaded."""

from __future__ import annotations

import subprocess
import sys
from contextlib import redirect_stdout
from io import StringIO

import pytest
from rich.table import Table

import ssvm_dsl
from foreign import inside
from ssvm_dsl.cli import main as entry
from ssvm_dsl.cli import screen
from ssvm_dsl.cli.command import Subcommand
from ssvm_dsl.cli.screen import CONTROL, console
from ssvm_dsl.errors import OptionError

HEAVY = ["numba", "sklearn", "scipy", "rich.progress", "ssvm_dsl.learning", "ssvm_dsl.testing"]
LOADED = "import sys; from ssvm_dsl.cli.main import main; main(sys.argv[1:]); print('LOADED', *sys.modules)"


@pytest.fixture
def command(monkeypatch):
    """Replace the table of commands by one command that raises."""

    def install(error):
        def run(args):
            raise error

        monkeypatch.setattr(entry, "COMMANDS", (Subcommand("fail", "fail", run),))

    return install


@pytest.mark.parametrize("error", [ImportError("a.so: failed to map"), OSError("no library"), SystemError("none")])
def test_libraries_that_memory_is_too_short_for_are_said_so(error, command, capsys, monkeypatch):
    command(error)
    with pytest.raises(type(error)):  # a broken installation
        inside(capsys, "fail")
    monkeypatch.setattr(entry, "free_memory", lambda: 1e6)
    status, _, err = inside(capsys, "fail")
    assert status == 2
    assert f"not enough memory to load a library: {error}; 1.0 MB are free" in err


def test_a_complaint_needs_no_memory(command, capsys, monkeypatch):
    command(OptionError("too\u202e much"))
    monkeypatch.setattr(screen, "aside", exhausted)
    assert inside(capsys, "fail")[::2] == (2, "ssvm: too\\u202e much\n")


def exhausted():
    raise MemoryError


def test_names_from_files_do_not_steer_the_terminal(command, capsys):
    command(OptionError("no class 'a\x1b[31m\u202eb\u2066'"))
    _, _, err = inside(capsys, "fail")
    assert "no class 'a\\x1b[31m\\u202eb\\u2066'" in err
    table = Table("class", width=40)
    table.add_row("x\u202ey\x9b\t|")
    with redirect_stdout(StringIO()) as out:
        console().print(table)
        console().print("bold", style="bold")
    assert "x\\u202ey\\x9b" in out.getvalue()
    assert not CONTROL.search(out.getvalue())


def test_without_a_command_there_is_help(capsys):
    status, out, _ = inside(capsys)
    assert status == 0
    for word in ("demo", "explain", "plugins", "--no-plugins"):
        assert word in out


def test_a_group_shows_its_commands(capsys):
    status, out, _ = inside(capsys, "plugins")
    assert status == 0
    for word in ("list", "show", "check", "new"):
        assert f"    {word} " in out


def test_version(capsys):
    with pytest.raises(SystemExit) as stop:
        inside(capsys, "--version")
    assert stop.value.code == 0
    assert capsys.readouterr().out == f"ssvm-dsl {ssvm_dsl.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["dmo"], "invalid choice: 'dmo'"),
        (["plugins", "show"], "NAME"),
        (["demo", "--C", "much"], "expected a positive number, got 'much'"),
        (["demo", "--C", "-1"], "expected a positive number, got '-1'"),
        (["demo", "--threads", "0"], "expected a positive int, got '0'"),
        (["demo", "--fold", "10"], "invalid choice: 10"),
        (["demo", "--protocol", "tiny"], "invalid choice: 'tiny'"),
        (["explain"], "FILE[:Model]"),
        (["explain", "x.py:X", "--size", "20"], "expected e.g. T=20, got '20'"),
        (["explain", "x.py:X", "--size", "T=0"], "expected e.g. T=20, got 'T=0'"),
        (["plugins", "check", "chain", "--problems", "-3"], "expected a positive int, got '-3'"),
    ],
)
def test_wrong_arguments(capsys, arguments, word):
    with pytest.raises(SystemExit) as stop:
        inside(capsys, *arguments)
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert word in err
    assert err.count("\n") == 1


def test_an_error_is_one_message(capsys, command):
    command(OptionError("C is a [bold] number"))
    status, out, err = inside(capsys, "fail")
    assert (status, out, err) == (2, "", "ssvm: C is a [bold] number\n")


@pytest.mark.parametrize("arguments", [["--traceback", "fail"], ["fail", "--traceback"]])
def test_a_traceback_on_request(capsys, command, arguments):
    command(OptionError("no"))
    with pytest.raises(OptionError):
        inside(capsys, *arguments)


def test_a_bug_is_not_hidden(capsys, command):
    command(ZeroDivisionError())
    with pytest.raises(ZeroDivisionError):
        inside(capsys, "fail")


def test_ctrl_c(capsys, command):
    command(KeyboardInterrupt())
    assert inside(capsys, "fail") == (130, "", "ssvm: interrupted\n")


def test_a_reader_that_stops_early_is_no_error():
    text = f"{sys.executable} -m ssvm_dsl.cli plugins list --json | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "{\n", "")


@pytest.mark.parametrize("arguments", [[], ["plugins", "list"], ["plugins", "show", "chain"]], ids=" ".join)
def test_nothing_heavy_is_loaded(arguments):
    done = subprocess.run([sys.executable, "-c", LOADED, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = done.stdout.rpartition("LOADED")[2].split()
    assert not [name for name in HEAVY if name in loaded]


def test_the_installed_command_is_this_one():
    from importlib.metadata import entry_points

    (point,) = entry_points(group="console_scripts", name="ssvm")
    assert point.load() is entry.main
