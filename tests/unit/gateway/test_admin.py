"""/healthz: whether a supervisor should restart this gateway."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from extproc.gateway.admin import HEALING, AdminServer
from tests.e2e.wire import request


class Gateway:
    """A gateway whose parts fail and recover, with a clock of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.missing: list[str] = []
        self.server = AdminServer(("127.0.0.1", 0), lambda: b"", lambda: self.now)

    def healthz(self) -> int:
        return request(f"http://127.0.0.1:{self.server.port}", "GET", "/healthz", headers={}).status


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway()
    yield made
    made.server.close()


def test_a_gateway_that_does_not_recover_is_unhealthy(gateway: Gateway) -> None:
    gateway.server.start_serving(lambda: gateway.missing)
    assert gateway.healthz() == 200
    gateway.missing = ["workers: none answers its health check"]
    assert gateway.healthz() == 200, "they are started again"
    gateway.now += HEALING - 0.1
    assert gateway.healthz() == 200
    gateway.now += 0.2
    assert gateway.healthz() == 503
    assert b"workers: none" in request(f"http://127.0.0.1:{gateway.server.port}", "GET", "/healthz", headers={}).body
    gateway.missing = []
    assert gateway.healthz() == 200


def test_a_gateway_that_recovers_in_between_is_healthy(gateway: Gateway) -> None:
    """Even with few probes."""
    gateway.server.start_serving(lambda: gateway.missing)
    for _ in range(3):
        gateway.missing = ["Envoy: is not there"]
        assert gateway.healthz() == 200
        gateway.now += HEALING * 2
        gateway.missing = []
        assert gateway.healthz() == 200
        gateway.now += HEALING * 2


def test_a_gateway_that_starts_or_stops_is_healthy(gateway: Gateway) -> None:
    """A start resolves names and a drain finishes long responses: neither may be interrupted."""
    for _ in range(3):
        assert gateway.healthz() == 200
        gateway.now += HEALING
    gateway.server.start_serving(lambda: ["gone"])
    assert gateway.healthz() == 200
    gateway.server.start_stopping()
    for _ in range(3):
        assert gateway.healthz() == 200
        gateway.now += HEALING
