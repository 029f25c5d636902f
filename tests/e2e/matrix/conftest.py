"""All providers and one gateway for this folder; the table of what passed at the end of the run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any

import pytest

from tests.e2e.gateway import Gateway, configuration
from tests.e2e.matrix import page
from tests.e2e.matrix.abilities import after
from tests.e2e.matrix.backends import BACKENDS, Backend, in_turn, other_of
from tests.e2e.matrix.clients import Client
from tests.e2e.matrix.responses_client import CLIENTS

OUTCOMES: dict[str, str] = {}
"""Id of a cell (`text-openai-gemini-stream`) -> passed, failed, skipped."""


@pytest.fixture(scope="package")
def all_backends() -> Iterator[dict[str, Backend]]:
    made = {kind.name: kind() for kind in BACKENDS}
    for backend in made.values():
        backend.start()
    yield made
    for backend in made.values():
        backend.stop()


@pytest.fixture
def backends(all_backends: dict[str, Backend]) -> Iterator[dict[str, Backend]]:
    """The providers by name, without script. A request that a real provider would refuse fails the test."""
    for backend in all_backends.values():
        backend.clear()
    yield all_backends
    violations = [violation for backend in all_backends.values() for violation in backend.violations]
    for backend in all_backends.values():
        backend.clear()
    assert violations == [], "a real provider would have refused this"


@pytest.fixture(scope="package")
def gateway(all_backends: dict[str, Backend], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    parts = [backend.configuration() for backend in all_backends.values()]
    rules = [rule for _, models in parts for rule in models]
    attempts = {rule["match"]: rule["attempts"] for rule in rules}
    rules += [{"match": after(backend), "attempts": [
        *attempts[other_of(name, all_backends).model], *attempts[backend.model]]}
        for name, backend in all_backends.items()]
    rules += [{"match": in_turn(first, second), "attempts": [*attempts[first.signer], *attempts[second.signer]]}
              for first, second in permutations(all_backends.values(), 2)]
    config = configuration("http://127.0.0.1:9/v1", workers=1, models=rules, events={"tools": {
        "weather": {"category": "lookup", "visibility": "hidden"}}},
        backends={name: one for backends, _ in parts for name, one in backends.items()})
    running = Gateway(config, tmp_path_factory.mktemp("matrix"))
    yield running
    assert running.terminate() == 0, running.output


@pytest.fixture(scope="package")
def clients(gateway: Gateway) -> Iterator[dict[str, Client]]:
    made: dict[str, Client] = {kind.name: kind(gateway.base_url) for kind in CLIENTS}
    yield made
    for client in made.values():
        client.close()


# -------------------------------------------------------------------------------------------------------------- table


def pytest_runtest_logreport(report: Any) -> None:
    """A cell has passed when its call and its teardown have."""
    if "test_matrix.py::test_matrix[" in report.nodeid and (report.when == "call" or not report.passed):
        OUTCOMES[report.nodeid.partition("[")[2].rstrip("]")] = report.outcome


def pytest_terminal_summary(terminalreporter: Any) -> None:
    if OUTCOMES:
        terminalreporter.section("client x provider")
        for line in page.in_the_terminal(OUTCOMES):
            terminalreporter.write_line(line)
