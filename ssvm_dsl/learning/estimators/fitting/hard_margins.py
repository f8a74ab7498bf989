"""Hard margins (``C = inf``): the risk that counts as 0, and the error for data that no weights separate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.errors import InseparableError
from ssvm_dsl.learning.shards.fit import ShardedData

#: Risks up to this share of the largest loss of an example count as 0.
NEGLIGIBLE = 1e-9

#: Labellings of a proof that are shown, and characters of each.
SHOWN, WIDTH = 6, 60


@contextmanager
def named_proof(grounded: Grounded | ShardedData) -> Iterator[None]:
    """Add to the error of inseparable data the labellings that prove it, with the names of the user's classes."""
    try:
        yield
    except InseparableError as err:
        if not isinstance(grounded, Grounded) or not err.proof:
            raise
        raise InseparableError(f"{err}\n{proof_lines(grounded, err)}", err.proof) from None


def proof_lines(grounded: Grounded, err: InseparableError) -> str:
    """Return a line for each of some labellings of a proof, those of the largest shares first, then by example."""
    assert grounded.truth is not None
    ordered = sorted(err.proof, key=lambda one: (-round(one[3], 6), one[0]))  # equal shares differ by rounding
    first, lines = grounded.program.var_ptr, []
    for example, states, loss, share in ordered[:SHOWN]:
        labels = grounded.truth.copy()
        labels[first[example] : first[example + 1]] = states
        named = str(grounded.layout.decode(labels)[example]).replace("\n", "")
        named = named if len(named) <= WIDTH else named[: WIDTH - 3] + "..."
        lines.append(f"  example {example}, labelled {named}: loss {loss:g}, share {share:.3g}")
    if len(ordered) > SHOWN:
        lines.append(f"  and {len(ordered) - SHOWN} more (all are in the error's 'proof')")
    return "\n".join(lines)
