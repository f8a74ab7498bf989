"""A process that compiles kernels: ``python -m ssvm_dsl.kernels.compiling.compile_worker FILE``.

FILE is a list of jobs.  Several processes share one list, without a word to each other: what another one compiles is
left to it.  Each writes one line of JSON for each job that is finished, with the seconds that it took, or why it could
not be compiled.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import perf_counter

from ssvm_dsl.kernels.compiling.code_store import unpacked
from ssvm_dsl.kernels.compiling.rehearsal import Job


def compiled(jobs: Sequence[Job]) -> Iterator[tuple[int, float, str]]:
    """Compile jobs, those of other processes only if these have failed; yield (which, seconds, complaint)."""
    rest = list(enumerate(jobs))
    for others in (True, False):
        busy = []
        for which, job in rest:
            begin, complaint = perf_counter(), ""
            try:
                if others and job.state() == "busy":
                    busy.append((which, job))
                    continue
                job.compile()
            except Exception as err:  # a kernel of the user's, who will hear of it when it is called
                complaint = f"{type(err).__name__}: {err}"
            yield which, perf_counter() - begin, complaint
        rest = busy


def main(path: Path) -> None:
    """Compile the jobs of a file."""
    for which, seconds, complaint in compiled(unpacked(path.read_bytes())):
        line = {"job": which, "seconds": seconds, "complaint": complaint}
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
