"""Mistakes for files: in their bytes, their words, their JSON text and their arrays."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np

from archives import packed, parts

#: What tends to break readers of texts.
NASTY = [
    *("", "-1", "0", "1", "2", "3", "63", "64", "999999999", "1000000000", "99999999999999999999", "4294967296"),
    *("9223372036854775807", "-9223372036854775808", "1e9", "1e308", "1e309", "-1e309", "1e-400", "5e-324", "0.5"),
    *("nan", "NaN", "-nan", "inf", "-inf", "Infinity", "0x10", "1_0", "1,5", "--1", "+", "-", ".", "e5", "1e", "1.2.3"),
    *("MARKOV", "BAYES", "#", "# 3", "salldiff", "var", ">=", "é", "\x00", "\x1a", "\ufeff", "\u0661", "9" * 5000),
]

#: What tends to break readers of JSON.
VALUES: list[Any] = [
    *(None, True, False, 0, 1, -1, 2, 3.5, -0.0, 1e300, 2**31, 2**53, 2**63, 2**70, -(2**40), np.nan, np.inf),
    *("", "a", "x", "é\x00", [], {}, [[]], [0], [1, 2, 3], {"a": 1}, {"array": "coef"}, "9" * 300, [[2], 2], "MAP"),
]


def changed_bytes(rng: np.random.Generator, data: bytes) -> bytes:
    """Return bytes with one to three of them changed, cut off, put in or taken out."""
    out = bytearray(data)
    for _ in range(rng.integers(1, 4)):
        at = int(rng.integers(len(out) + 1))
        how = rng.integers(8)
        if how == 0:
            del out[at:]
        elif how == 1:
            out[at:at] = rng.bytes(rng.integers(1, 9))
        elif how == 2:
            del out[at : at + int(rng.integers(1, 9))]
        elif at < len(out):
            out[at] ^= int(rng.integers(1, 256))
    return bytes(out)


def changed_tokens(rng: np.random.Generator, text: str) -> str:
    """Return a text with one to three words replaced, swapped, dropped, doubled or cut."""
    tokens = text.split(" ")
    for _ in range(rng.integers(1, 4)):
        at, how = int(rng.integers(max(len(tokens), 1))), rng.integers(7)
        if how == 0:
            tokens = tokens[:at]
        elif how == 1:
            tokens[at : at + 2] = tokens[at : at + 2][::-1]
        elif how == 2:
            del tokens[at : at + 1]
        elif how == 3:
            tokens[at:at] = tokens[at : at + 1]
        elif how == 4:
            tokens[at : at + 1] = [str(int(rng.integers(-2, 12)))]
        else:
            tokens[at : at + 1] = [NASTY[rng.integers(len(NASTY))]]
    return " ".join(tokens)


def changed_json(rng: np.random.Generator, content: Any) -> Any:
    """Return a copy of a JSON value with something in it replaced, dropped, doubled or put in."""
    root = {"": deepcopy(content)}
    holder, key = root, ""
    while True:
        value = holder[key]
        inside = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
        if not inside or (holder is not root and rng.random() < 0.25):
            break
        holder, key = value, inside[rng.integers(len(inside))]
    how = rng.integers(5)
    if how == 0 and holder is not root:
        del holder[key]
    elif how == 1 and isinstance(holder, list):
        holder.insert(key, deepcopy(holder[key]))
    elif how == 2 and isinstance(holder, dict) and holder is not root:
        holder[str(rng.choice(["x", "a", "", *map(str, holder)]))] = deepcopy(holder[key])
    elif how == 3 and isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
        holder[key] = holder[key] + rng.choice([-1, 1, 0.5, 1e-3]) if rng.random() < 0.5 else -holder[key]
        holder[key] = holder[key].item() if isinstance(holder[key], np.generic) else holder[key]
    else:
        holder[key] = deepcopy(VALUES[rng.integers(len(VALUES))])
    return root[""]


def changed_array(rng: np.random.Generator, array: np.ndarray) -> np.ndarray:
    """Return an array of another shape, another type, or with other numbers."""
    out = np.array(array)
    how = rng.integers(10)
    if how == 0:
        return out.reshape(-1)[: rng.integers(out.size + 1)]
    if how == 1:
        return np.concatenate([out.reshape(-1)] * 2)
    if how == 2:
        return out[None] if rng.random() < 0.5 else out.reshape(-1)
    if how == 3:
        return out.astype(rng.choice(["f8", "f4", "i8", "i4", "i1", "u1", "?", ">f8", "c16"]))
    if how == 4:
        return out.T
    if not out.size:
        return np.zeros(3, out.dtype)
    flat = out.reshape(-1)
    which = rng.integers(flat.size, size=1 if how < 8 else flat.size)
    if out.dtype.kind == "f":
        choice = [np.nan, np.inf, -np.inf, -1.0, 0.0, 1.0, 0.5, 2.0, 1e300, -1e300, 1e-300, 1e9]
    else:
        info = np.iinfo(out.dtype) if out.dtype.kind in "iu" else np.iinfo(np.int8)
        choice = [info.max, info.min, 0, 1, 2, 3, 7, info.max // 2, max(info.min, -1)]
    flat[which] = rng.choice(choice, size=len(which) if how == 8 else 1)
    return flat.reshape(out.shape)


def damaged(rng: np.random.Generator, good: bytes) -> bytes:
    """Return a model file or checkpoint with mistakes: in its bytes, or inside, with or without a right hash."""
    if rng.random() < 0.25:
        return changed_bytes(rng, good)
    content, arrays = parts(good)
    for _ in range(rng.integers(1, 3)):
        if rng.random() < 0.5 and arrays:
            name = sorted(arrays)[rng.integers(len(arrays))]
            arrays[name] = changed_array(rng, arrays[name])
            if rng.random() < 0.05:
                del arrays[name]
        else:
            content = changed_json(rng, content)
    return packed(content, arrays, hashed=rng.random() < 0.95)
