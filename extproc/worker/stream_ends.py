"""Who ended an attempt before its answer was complete: the client, the provider, or nobody can say.

A stream of ext_proc ends in the same way whoever closed. Envoy knows more and tells it in an access log by gRPC
(`envoy.service.accesslog.v3.AccessLogService`), a moment later: until then, and at most for `PATIENCE`, the attempt's
line and figures wait. Envoy tells all workers of all attempts; what nobody waits for here is another worker's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping

from extproc.ext_proc.record import ClosedBy
from extproc.transport.rpc import Methods, Peer, Status

SERVICE = "envoy.service.accesslog.v3.AccessLogService"
PATIENCE = 1.0
"""Seconds for which an attempt waits for Envoy's word, which comes after some 0.05."""

_Key = tuple[str, int]
_MOST_EARLY = 200

_CLIENTS = frozenset({"DC", "DR"})
"""Envoy's response flags of a downstream connection that was closed, and of a stream that was reset from there.
https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage#response-flags"""
_PROVIDERS = frozenset({"UC", "UR", "UPE", "UF", "UT", "UMSDR"})
"""Those of a connection to the provider that ended, was reset, broke the protocol, failed or was too late."""

_TAGS, _VALUE = (2, 1, 1, 22), 2
"""The fields that lead to the custom tags of StreamAccessLogsMessage: http_logs, log_entry, common_properties,
custom_tags; and that of a tag's value."""


class Endings:
    """The attempts that wait, by request id and number."""

    def __init__(self) -> None:
        self._waiting: dict[_Key, tuple[Callable[[ClosedBy], None], asyncio.TimerHandle]] = {}
        self._early: dict[_Key, ClosedBy] = {}
        """The latest words that nobody waited for: another worker's, or sooner here than the end of the stream."""

    @property
    def methods(self) -> Methods:
        """The service by its path."""
        return {f"/{SERVICE}/StreamAccessLogs": self._open}

    def wait(self, request_id: str, attempt: int, told: Callable[[ClosedBy], None]) -> None:
        """`told` is called once: with Envoy's word, or when the time is over."""
        key = request_id, attempt
        if (who := self._early.pop(key, None)) is not None:
            told(who)
            return
        self._tell(key, "unknown")  # a client sent the same id twice at a time
        timer = asyncio.get_running_loop().call_later(PATIENCE, self._tell, key, "unknown")
        self._waiting[key] = told, timer

    def close(self) -> None:
        """The worker has ended: no more word will come, and what ran until now was cut off by that."""
        for key in tuple(self._waiting):
            self._tell(key, "gateway")

    def entry(self, text: str) -> None:
        """Request id, attempt, Envoy's response flags."""
        request_id, attempt, said = ["", "", "", *text.rsplit(" ", 2)][-3:]
        if not attempt.isdecimal():
            return
        flags = frozenset(said.split(","))
        who: ClosedBy = "client" if flags & _CLIENTS else "provider" if flags & _PROVIDERS else "unknown"
        key = request_id, int(attempt)
        if key in self._waiting:
            self._tell(key, who)
            return
        self._early[key] = who
        if len(self._early) > _MOST_EARLY:
            del self._early[next(iter(self._early))]

    def _tell(self, key: tuple[str, int], who: ClosedBy) -> None:
        found = self._waiting.pop(key, None)
        if found is not None:
            told, timer = found
            timer.cancel()
            told(who)

    def _open(self, _metadata: Mapping[str, str], peer: Peer) -> _Entries:
        return _Entries(self, peer)


class _Entries:
    """One stream of entries; Envoy has one for each of its threads."""

    def __init__(self, endings: Endings, peer: Peer) -> None:
        self._endings = endings
        self._peer = peer

    def message(self, data: bytes) -> bool:
        try:
            for tag in _at(data, _TAGS):
                for number, value in _fields(tag):
                    if number == _VALUE:
                        self._endings.entry(value.decode("utf-8", "replace"))
        except (IndexError, ValueError):
            self._peer.end(Status.INVALID_ARGUMENT, "the message is no StreamAccessLogsMessage")
        return True

    def half_closed(self) -> None:
        self._peer.end()

    def closed(self) -> None:
        """Nothing to clear away."""


def _at(data: bytes, path: tuple[int, ...]) -> Iterator[bytes]:
    """The messages at this path of fields."""
    if not path:
        yield data
        return
    for number, value in _fields(data):
        if number == path[0]:
            yield from _at(value, path[1:])


def _fields(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Number and content of each field that has a length; others are left out. Raises IndexError or ValueError where
    this is no protobuf message."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            _, at = _varint(data, at)
        elif kind in (1, 5):
            at += 8 if kind == 1 else 4
        elif kind == 2:
            size, at = _varint(data, at)
            if at + size > len(data):
                raise ValueError("cut off")
            yield tag >> 3, data[at:at + size]
            at += size
        else:
            raise ValueError("an unknown kind of field")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The number there, and where the next thing begins."""
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at
        if shift > 63:
            raise ValueError("a number without an end")
