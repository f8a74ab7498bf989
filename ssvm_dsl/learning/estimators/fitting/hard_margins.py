"""Hard margins (``C = inf``): the risk that counts as none, and the words for data that no weights separate."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from ssvm_dsl.compiler.ground import Grounded
from ssvm_dsl.errors import InseparableError
from ssvm_dsl.ir.loss import LossTerm
from ssvm_dsl.learning.shards.fit import ShardedData

#: Risks up to this share of the largest loss of a variable count as 0.
NEGLIGIBLE = 1e-9

#: Labellings of a proof that are shown, and characters of each.
SHOWN, WIDTH = 6, 60


def largest_loss(loss: LossTerm) -> float:
    """Return the largest loss of a state of a variable; 1 where losses do not add up over variables."""
    finite = np.abs(loss.node[np.isfinite(loss.node)])
    return float(finite.max(initial=0.0) or 1.0)


@contextmanager
def named_proof(grounded: Grounded | ShardedData) -> Iterator[None]:
    """Name the labellings by which a trainer proves that no weights separate the data in the user's words."""
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
