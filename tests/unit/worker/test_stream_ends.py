"""Who ended an attempt: Envoy's word is heard once, by whoever waits for it, and nothing that it sends does harm."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc.ext_proc.record import ClosedBy
from extproc.transport.rpc import Status
from extproc.worker.stream_ends import SERVICE, Endings


class Peer:
    """Remembers how the call was ended."""

    def __init__(self) -> None:
        self.status: Status | None = None

    def send(self, message: bytes) -> None:
        raise AssertionError("nothing is answered")

    def end(self, status: Status = Status.OK, text: str = "") -> None:
        self.status = status

    def calm(self) -> None: ...

    def resume(self) -> None: ...


def told(*entries: str) -> list[tuple[str, ClosedBy]]:
    """What the attempts 1 and 2 of a request are told by these entries."""
    async def play() -> list[tuple[str, ClosedBy]]:
        endings, found = Endings(), []
        for attempt in (1, 2):
            endings.wait("an id", attempt, lambda who, name=str(attempt): found.append((name, who)))  # type: ignore[misc]
        for entry in entries:
            endings.entry(entry)
        heard = list(found)
        endings.close()
        assert len(found) == 2, "each is told, once"
        return heard

    return asyncio.run(play())


@pytest.mark.parametrize(("flags", "who"), [
    ("DC", "client"), ("DR", "client"), ("UC", "provider"), ("UR", "provider"), ("UPE", "provider"),
    ("UT", "provider"), ("UC,DC", "client"), ("NR", "unknown"), ("-", "unknown")])
def test_response_flags(flags: str, who: ClosedBy) -> None:
    assert told(f"an id 1 {flags}") == [("1", who)]


@pytest.mark.parametrize("entry", ["", "1", "an id", "an id 1", "an id x UC", "other 1 UC", "an id 3 UC", "an id - UC"])
def test_what_nobody_waits_for(entry: str) -> None:
    assert told(entry) == []


def test_a_word_that_is_there_before_the_end_of_the_stream() -> None:
    """They come on different connections."""
    async def play() -> list[ClosedBy]:
        endings, found = Endings(), list[ClosedBy]()
        endings.entry("early 1 UC")
        for number in range(100):
            endings.entry(f"another {number} DC")
        endings.wait("early", 1, found.append)
        return found

    assert asyncio.run(play()) == ["provider"]


def test_the_same_word_twice() -> None:
    assert told("an id 2 DC", "an id 2 UC") == [("2", "client")]


@given(st.binary(max_size=200))
def test_any_message_is_taken_or_refused(data: bytes) -> None:
    peer = Peer()
    assert Endings().methods[f"/{SERVICE}/StreamAccessLogs"]({}, peer).message(data)
    assert peer.status in (None, Status.INVALID_ARGUMENT)
