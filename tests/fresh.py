"""Fresh Python processes without the wait: copies of one that has loaded the libraries, and nothing of ours.

To import numba, scipy and scikit-learn takes a process more than a second, and tests start a hundred.  What a copy runs
is as in a new process, but for the options of the interpreter and what those libraries read of the environment when
they are imported: tests of the time or the memory of a new process start a real one.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import subprocess
import sys
import tempfile
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

LIBRARIES = (
    "numba", "scipy.sparse", "scipy.optimize", "scipy.special", "sklearn.base", "sklearn.exceptions", "sklearn.metrics",
    "rich.console", "rich.table", "pluggy", "threadpoolctl",
)  # fmt: skip

#: Settings of the run that processes keep: without them they would compile kernels elsewhere, and again.
KEPT = ("SSVM_CACHE_DIR", "SSVM_COMPILE_AHEAD")


def environment():
    """Return the environment as a user has it: without settings of ours, but those that tests share."""
    return {key: value for key, value in os.environ.items() if key in KEPT or not key.startswith("SSVM_")}


def run(command, env=None, cwd=None):
    """Run ``python *command`` in a fresh process, as ``subprocess.run(..., capture_output=True, text=True)`` does.

    Parameters
    ----------
    command : list of str
        ``["-c", code, ...]``, ``["-m", module, ...]`` or ``[file, ...]``.
    env : mapping of str, optional
    cwd : path, optional

    Returns
    -------
    subprocess.CompletedProcess
    """
    command, env = [str(word) for word in command], dict(os.environ if env is None else env)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("stdout", "stderr")]
        request = {"command": command, "env": env, "cwd": str(cwd or Path.cwd()), "files": files}
        server = _server()
        server.stdin.write(json.dumps(request) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, "the process that is copied has died"
        out, err = (Path(file).read_text() for file in files)
    return subprocess.CompletedProcess(["python", *command], json.loads(answer), out, err)


@cache
def _server():
    """Start the process that is copied."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    server = subprocess.Popen([sys.executable, __file__], text=True, env=env, **pipes)

    def end():
        server.stdin.close()
        server.wait()

    atexit.register(end)
    return server


def serve():
    """Make a copy for each request on the standard input, and tell how it has ended; copies return the request."""
    for name in LIBRARIES:
        import_module(name)
    import_module("numba").njit(lambda x: x + 1)(1)  # the first compilation loads what all need
    gc.freeze()  # copies need not look through what is there
    for line in sys.stdin:
        copy = os.fork()
        if not copy:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(copy, 0)[1]), flush=True)
    return None


def become(command, env, cwd, files):
    """Do what the interpreter does with such a command line."""
    installed = sys.path[1:]  # without the folder of this file
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for number, path in enumerate(files, 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    named = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    if command[0] == "-m":
        sys.path[:], sys.argv[:] = [cwd, *named, *installed], command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
        return
    main = sys.modules["__main__"] = ModuleType("__main__")
    if command[0] == "-c":
        sys.path[:], sys.argv[:] = ["", *named, *installed], ["-c", *command[2:]]
        code = compile(command[1], "<string>", "exec")
    else:
        main.__file__ = command[0]
        sys.path[:], sys.argv[:] = [str(Path(command[0]).parent), *named, *installed], command
        code = compile(Path(command[0]).read_text(), command[0], "exec")
    exec(code, main.__dict__)


if __name__ == "__main__":
    request = serve()
    if request is not None:
        become(**request)
