"""Parts that threads share: results in order, whoever computes them, and the error of any."""

from __future__ import annotations

import pytest

from ssvm_dsl.inference.threads import Threads


@pytest.mark.parametrize("n_threads", [1, 2, 3])
@pytest.mark.parametrize("n_parts", [0, 1, 2, 5])
def test_results_are_in_order(n_threads, n_parts):
    threads = Threads(n_threads)
    for run in (threads.map, threads.share):
        assert run(lambda part: part**2, range(n_parts)) == [k**2 for k in range(n_parts)]
    threads.close()


@pytest.mark.parametrize("wrong", [0, 2])
def test_an_error_in_any_part_is_raised_when_none_is_at_work(wrong):
    threads, begun = Threads(3), []

    def work(part):
        begun.append(part)
        if part == wrong:
            raise ValueError(f"part {part}")

    for run in (threads.map, threads.share):
        with pytest.raises(ValueError, match=f"part {wrong}"):
            run(work, range(3))
        assert not threads._at_work
    threads.close()
