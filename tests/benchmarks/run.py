"""``make bench``: every benchmark, or those named on the command line."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

BENCHMARKS = {
    "ocr": ("ocr_speed", "training, passes beside CRFsuite, decoding, threads, growth, memory on the OCR letters"),
    "ratliff": ("ratliff", "the two OCR protocols of Ratliff et al. (2007), all ten folds"),
}


def main(names: list[str]) -> int:
    """Run the benchmarks of the given names."""
    unknown = [name for name in names if name not in BENCHMARKS]
    if unknown:
        known = "\n".join(f"  {name:10} {text}" for name, (_, text) in BENCHMARKS.items())
        print(f"unknown benchmark {unknown[0]!r}; there are:\n{known}")
        return 2
    for name in names or BENCHMARKS:
        print(f"== {name}: {BENCHMARKS[name][1]}", flush=True)
        importlib.import_module(BENCHMARKS[name][0]).main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
