"""Where compiled kernels are kept: beside the sources, else in a folder of the user's, else in a temporary one.

Numba keeps what it compiles beside the source file or in the user's cache folder, and refuses to define a function that
it can keep nowhere.  That is what an install into read-only folders without a home meets: a container, a cluster, a
service.  :func:`prepare` runs before the first kernel is defined and finds a place, or does without.
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISDIR


def prepare(beside: Path = Path(__file__).parent / "__pycache__") -> None:
    """See to it that numba has a folder to keep compiled kernels in, or keeps none.

    Nothing happens where it can write beside the sources, or where ``NUMBA_CACHE_DIR`` is set.

    Parameters
    ----------
    beside : Path
        Where numba would keep the kernels of this package.

    Warns
    -----
    RuntimeWarning
        The folder is a temporary one, or there is none.
    """
    if os.environ.get("NUMBA_CACHE_DIR") or writable(beside):
        return
    why = f"neither {beside.parent} nor a cache folder of yours can be written"
    advice = "set NUMBA_CACHE_DIR to a folder that can"
    for folder, lasting in folders():
        if writable(folder, private=True):
            use(folder)
            if not lasting:
                warnings.warn(f"compiled code is kept in {folder}: {why}; {advice}", RuntimeWarning, stacklevel=2)
            return
    keep_nothing()
    text = f"compiled code is not kept, so that every process compiles anew: {why}"
    warnings.warn(f"{text}, nor a temporary folder; {advice}", RuntimeWarning, stacklevel=2)


def folders() -> Iterator[tuple[Path, bool]]:
    """Yield (folder, whether it outlives the machine's next start) of each place to try, the best first."""
    user = str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")
    if sys.platform == "win32":
        home = os.environ.get("LOCALAPPDATA", "")
    elif sys.platform == "darwin":
        home = os.path.expanduser("~/Library/Caches")
    else:
        home = os.environ.get("XDG_CACHE_HOME", "") or os.path.expanduser("~/.cache")
    if os.path.isabs(home):
        yield Path(home) / "ssvm-dsl" / "numba", True
    try:
        yield Path(tempfile.gettempdir()) / f"ssvm-dsl-{user}" / "numba", False
    except OSError:  # no temporary folder at all
        return


def writable(folder: Path, private: bool = False) -> bool:
    """Return whether files can be made in a folder, which is made if need be; a private one is nobody else's.

    Compiled code is loaded as it is, so that a folder where others could put some is none to use.
    """
    try:
        if private:
            folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = folder.parent.lstat()
            if hasattr(os, "getuid") and (found.st_uid != os.getuid() or found.st_mode & 0o022):
                return False
            if not S_ISDIR(found.st_mode):
                return False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    except OSError:
        return False
    return True


def use(folder: Path) -> None:
    """Tell numba, here and in processes that are started from here."""
    os.environ["NUMBA_CACHE_DIR"] = str(folder)
    if "numba" in sys.modules:
        from numba.core import config

        config.CACHE_DIR = str(folder)


def keep_nothing() -> None:
    """Make numba compile without keeping anything: functions are defined as if they had not asked for it."""
    from numba.core.dispatcher import Dispatcher

    setattr(Dispatcher, "enable_caching", lambda self: None)  # noqa: B010 - a method, which is not to be assigned
