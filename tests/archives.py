"""Take model files and checkpoints apart, and put them together again, with a right hash if wanted."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np

from ssvm_dsl.io import arrays_file


def parts(data: bytes) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Return (JSON content, arrays) of a file."""
    with np.load(io.BytesIO(data)) as stored:
        arrays = dict(stored)
    del arrays[arrays_file.HASH]
    return json.loads(arrays.pop(arrays_file.JSON).tobytes()), arrays


def packed(content: Any, arrays: dict[str, np.ndarray], hashed: bool = True, **more: np.ndarray) -> bytes:
    """Return a file of any content; the JSON text may be given as it is."""
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    named = {arrays_file.JSON: np.frombuffer(text, dtype=np.uint8), **arrays, **more}
    if hashed:
        named[arrays_file.HASH] = arrays_file._hash({k: v for k, v in named.items() if v.dtype != object})
    file = io.BytesIO()
    np.savez(file, **named)
    return file.getvalue()
