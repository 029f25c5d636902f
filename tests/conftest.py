"""Settings of the whole test run.

The plain run is reproducible: hypothesis draws the same examples every time, so a red run means that the code changed.
`--hypothesis-profile explore` draws new ones, and ten times as many.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("plain", derandomize=True, deadline=None, database=None,
                          suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", deadline=None, max_examples=1000, print_blob=True,
                          suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("plain")

# A run starts more than a hundred processes of this program, and images and shells often forbid bytecode. Without it
# each of them compiles the program anew, a quarter of a gateway's start, and each pytest process all tests. What is
# written lies in __pycache__, as without that setting.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of tests and the classes of three SDKs come to stay: the collector looks at them neither while they are
    loaded nor ever after."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


ONE_GATEWAY = ("tests/e2e/gemini", "tests/e2e/matrix")
"""Folders whose files share a gateway: one process runs them all, where the others are handed out file by file."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByGateway(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file: str = super()._split_scope(nodeid)
            folder = file.rpartition("/")[0]
            return folder if folder in ONE_GATEWAY else file

    return ByGateway(config, log)
