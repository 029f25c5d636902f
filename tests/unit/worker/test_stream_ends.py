"""Who ended an attempt: each waiting attempt gets Envoy's report once, and no log message does harm."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from envoy_data_plane.envoy.data.accesslog import v3 as data
from envoy_data_plane.envoy.service.accesslog import v3 as service
from hypothesis import given
from hypothesis import strategies as st

from extproc.ext_proc.record import ClosedBy
from extproc.transport.rpc import Status
from extproc.worker.stream_ends import SERVICE, EndReports


class Peer:
    """Records the status of the call."""

    def __init__(self) -> None:
        self.status: Status | None = None

    def send(self, message: bytes) -> None:
        raise AssertionError("nothing is sent")

    def end(self, status: Status = Status.OK, text: str = "") -> None:
        self.status = status

    def lower_priority(self) -> None: ...

    def resume(self) -> None: ...


def reported(*entries: str) -> list[tuple[str, ClosedBy]]:
    """The reports that attempts 1 and 2 of a request get from these entries."""
    async def play() -> list[tuple[str, ClosedBy]]:
        reports, found = EndReports(), []
        for attempt in (1, 2):
            reports.await_report(
                "an id", attempt, lambda who, name=str(attempt): found.append((name, who)))  # type: ignore[misc]
        for entry in entries:
            reports.receive_entry(entry)
        received = list(found)
        reports.close()
        assert len(found) == 2, "each attempt is resolved, once"
        return received

    return asyncio.run(play())


@pytest.mark.parametrize(("flags", "who"), [
    ("DC", "client"), ("DR", "client"), ("UC", "provider"), ("UR", "provider"), ("UPE", "provider"),
    ("UT", "provider"), ("UC,DC", "client"), ("NR", "unknown"), ("-", "unknown")])
def test_response_flags(flags: str, who: ClosedBy) -> None:
    assert reported(f"an id 1 {flags}") == [("1", who)]


@pytest.mark.parametrize("entry", ["", "1", "an id", "an id 1", "an id x UC", "other 1 UC", "an id 3 UC", "an id - UC"])
def test_entries_of_no_waiting_attempt_are_ignored(entry: str) -> None:
    assert reported(entry) == []


def test_a_report_that_arrives_before_the_end_of_the_stream() -> None:
    """They arrive on different connections."""
    async def play() -> list[ClosedBy]:
        reports, found = EndReports(), list[ClosedBy]()
        reports.receive_entry("early 1 UC")
        for number in range(100):
            reports.receive_entry(f"another {number} DC")
        reports.await_report("early", 1, found.append)
        return found

    assert asyncio.run(play()) == ["provider"]


def test_a_second_report_is_ignored() -> None:
    assert reported("an id 2 DC", "an id 2 UC") == [("2", "client")]


def test_messages_of_envoys_own_type_are_read() -> None:
    """With fields that our subset does not name."""
    message = service.StreamAccessLogsMessage(
        identifier=service.StreamAccessLogsMessageIdentifier(log_name="ended"),
        http_logs=service.StreamAccessLogsMessageHttpAccessLogEntries(log_entry=[
            data.HttpAccessLogEntry(common_properties=data.AccessLogCommon(
                time_to_last_rx_byte=timedelta(seconds=1), custom_tags={"ended": text}))
            for text in ("first 1 UC", "second 2 DC")]))

    async def play() -> dict[str, ClosedBy]:
        reports, found = EndReports(), dict[str, ClosedBy]()
        for name, attempt in (("first", 1), ("second", 2)):
            reports.await_report(name, attempt, lambda who, name=name: found.update({name: who}))  # type: ignore[misc]
        assert reports.methods[f"/{SERVICE}/StreamAccessLogs"]({}, Peer()).message(bytes(message))
        return found

    assert asyncio.run(play()) == {"first": "provider", "second": "client"}


@given(st.binary(max_size=200))
def test_any_message_is_accepted_or_refused(data: bytes) -> None:
    peer = Peer()
    assert EndReports().methods[f"/{SERVICE}/StreamAccessLogs"]({}, peer).message(data)
    assert peer.status in (None, Status.INVALID_ARGUMENT)
