"""The fault-injection suite at its full size; another seed with `FAULT_SEED`, which a failure prints."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fault.report import full


@pytest.mark.fault
def test_thousands_of_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seed = int(os.environ.get("FAULT_SEED", "4711"))
    report = full(seed, tmp_path)
    with capsys.disabled():
        print(f"\n{report.markdown()}")
    assert not report.complaints, "\n".join([f"seed {seed}", *report.complaints])
    assert len(report.load.killed) == 4
    assert report.load.replaced == 1
    assert report.load.seconds < 120
