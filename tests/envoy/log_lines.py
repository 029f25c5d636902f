"""The log of a running gateway as a test reads it: what an action added, no more and no less."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

from tests.e2e.gateway import CLIENT_KEY, Gateway
from tests.e2e.wire import request

_numbers = itertools.count(1)
ABOUT_REQUESTS = ("exchange", "access", "connection")


def entries(lines: list[str]) -> list[dict[str, Any]]:
    """The lines that tell of requests."""
    found = []
    for line in lines:
        if line.startswith("{"):
            entry = json.loads(line)
            if entry.get("event") in ABOUT_REQUESTS:
                found.append(entry)
    return found


def added_by(gateway: Gateway, action: Callable[[], object], *, at_least: int = 1) -> list[dict[str, Any]]:
    """What both logs say of the requests of `action`: waits for the first `at_least` lines, then sends two requests
    that Envoy and the processor have to tell of after all else, and takes what came before those."""
    before = len(gateway.lines)
    action()

    def wait(holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 10
        while not holds():
            assert time.monotonic() < end, "\n".join(gateway.lines[before:])
            time.sleep(0.01)

    wait(lambda: len(entries(gateway.lines[before:])) >= at_least)
    fence = f"/fence/{next(_numbers)}"
    assert request(gateway.base_url, "GET", fence, headers={}).status == 401
    assert request(gateway.base_url, "GET", fence, headers={"x-api-key": CLIENT_KEY}).status == 404

    def fenced() -> list[str]:
        return [entry["hop"] for entry in entries(gateway.lines[before:]) if entry.get("path") == fence]

    wait(lambda: {"edge", "select"} <= set(fenced()))
    return [entry for entry in entries(gateway.lines[before:]) if entry.get("path") != fence]
