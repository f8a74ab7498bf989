"""Files: saved models and factor graphs.  Parsed with limits, never executed, written atomically.

Public are ``write_lines`` (text), ``write_arrays`` and ``read_arrays`` (named arrays with JSON, guarded by a hash).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ssvm_dsl.lazy_api import lazy_names

__all__, __getattr__, __dir__ = lazy_names(__name__)

if TYPE_CHECKING:
    from ssvm_dsl.io.arrays_file import read_arrays as read_arrays
    from ssvm_dsl.io.arrays_file import write_arrays as write_arrays
    from ssvm_dsl.io.atomic import write_lines as write_lines
