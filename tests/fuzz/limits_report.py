"""Counts the cases that ``make fuzz ARGS=limits`` has written to a file (``SSVM_LIMITS_RECORD``).

    python tests/fuzz/limits_report.py FILE [N]      the N worst overruns, 20 by default
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from model_table import STRUCTURES


def main(path, most=20):
    """Print how many cases there are, how late they were, and what they lack."""
    cases = [json.loads(line) for line in Path(path).read_text().splitlines()]
    asked = [case for case in cases if case["status"] != "refused"]
    late = sorted(asked, key=lambda case: -case["late"])
    over = [case for case in asked if case["late"] > max(0.2, 0.1 * case["limit"])]
    busy = [case for case in asked if case.get("cpu", 0.0) > case["limit"] + max(0.2, 0.1 * case["limit"])]
    hard = {name for name, structure in STRUCTURES.items() if structure.hard}
    missing = [case for case in asked if case["missing"]]
    easy = [case for case in missing if case["structure"] not in hard]
    wrong = [case for case in asked if case["wrong"]]
    print(f"{len(asked)} cases ({len(cases) - len(asked)} refused); {sum(case['n'] for case in asked)} examples")
    print(f"later than .2 s and 10 %: {len(over)}; worst {late[0]['late']:.2f} s" if late else "none")
    print(f"by processor time: {len(busy)}; worst {max(case.get('cpu', 0.0) - case['limit'] for case in asked):.2f} s")
    print(f"without an answer: {len(easy)} cases; where any labelling is hard to find: {len(missing) - len(easy)}")
    print(f"wrong, or without a promised bound: {len(wrong)}")
    for case in (*easy[:most], *wrong[:most]):
        print("  ", json.dumps(case))
    print("late by structure and backend:")
    for (structure, backend), count in Counter((case["structure"], case["backend"]) for case in over).most_common(most):
        print(f"   {structure:14} {backend:20} {count}")
    print("worst:")
    for case in late[:most]:
        kind = f"{case['structure']} {case['size']} x {case['n']}, {case['backend']} ({case['guarantee']})"
        print(f"   {kind:60} {case['limit']:g} s: {case['late']:+.2f} s, processor {case.get('cpu', 0.0):.2f} s")


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
