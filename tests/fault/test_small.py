"""The fault-injection suite, small: what must hold for every request holds for two hundred, with one worker killed."""

from __future__ import annotations

from pathlib import Path

from tests.fault.report import run


def test_two_hundred_requests(tmp_path: Path) -> None:
    """No wrong answer, no token lost but with the killed worker, nothing left over."""
    report = run(200, 20261122, tmp_path, concurrency=16, kills=[60], patient=False)
    assert not report.complaints, "\n".join([*report.complaints, report.markdown()])
    assert len(report.load.killed) == 1
    assert len(report.outcomes) >= 5, "the mixture of this seed shows every way to end"
