"""The error about true labels that a model rules out: all examples are counted, the first ones described."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ssvm_dsl.errors import DataError

#: So many examples are described.
SHOWN = 5

#: What to do about labels that cannot be learnt.
CURE = (
    "no weights could predict such labels: correct them, loosen the model, or set infeasible='drop' (leave these "
    "examples out) or 'nearest' (learn the feasible labels that differ least from them)"
)


def ruled_out_error(examples: Sequence[int], n: int, expected: str, words: Callable[[int], str]) -> DataError:
    """Return the error about examples with labels that are ruled out.

    Parameters
    ----------
    examples : sequence of int
        In ascending order.
    n : int
        Examples in all.
    expected : str
        What the labels of the first one must be.
    words : callable
        Names the example and the mistake.
    """
    lines = [words(examples[0])]
    if len(examples) > 1:
        lines.append(f"  {len(examples)} of {n} examples have such labels:")
        lines += [f"    example {i}: {words(i)}" for i in examples[:SHOWN]]
        lines += ["    ..."] if len(examples) > SHOWN else []
    return DataError("Y", example=examples[0], expected=expected, found="\n".join(lines), hint=CURE)
