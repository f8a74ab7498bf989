"""Who waits for kernels is told so, once, where somebody watches."""

from __future__ import annotations

from ssvm_dsl.report.notices import SHORT, TEXT, Notice, watched


def test_said_once_and_not_for_short_waits():
    said = []
    notice = Notice(said.append)
    for now in (100.0, 100.0 + SHORT / 2):
        notice.hear(now)
    assert said == []
    for now in (101.0 + SHORT, 200.0):
        notice.hear(now)
    assert said == [TEXT]


def test_files_and_pipes_get_nothing(tmp_path):
    with (tmp_path / "log").open("w") as log:
        assert not watched(log)
