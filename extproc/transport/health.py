"""The gRPC health service (`grpc.health.v1.Health`) on the seam of `extproc.transport.rpc`, for both transports.

A service name in, SERVING or NOT_SERVING out. `Watch` reports again whenever the status changes. `check` knows the
status; this module knows nothing of the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from extproc.transport.rpc import Methods, Peer, Status

_PATH = "/grpc.health.v1.Health/"

_Response = health_pb2.HealthCheckResponse
_RESPONSES = {None: _Response(status=_Response.SERVICE_UNKNOWN).SerializeToString(),
         True: _Response(status=_Response.SERVING).SerializeToString(),
         False: _Response(status=_Response.NOT_SERVING).SerializeToString()}

MAX_WATCHERS = 1000
"""Concurrent `Watch` streams. More are refused."""


class Health:
    """`check`: True if this service serves, False if not, None if it does not exist."""

    def __init__(self, check: Callable[[str], bool | None]) -> None:
        self._check = check
        self._watchers: set[_Watch] = set()

    @property
    def methods(self) -> Methods:
        """`Check` and `Watch` by their paths."""
        return {f"{_PATH}Check": self._open_check, f"{_PATH}Watch": self._open_watch}

    def notify_watchers(self) -> None:
        """Something that `check` looks at has changed."""
        for watcher in tuple(self._watchers):
            watcher.report()

    def _open_check(self, _metadata: Mapping[str, str], peer: Peer) -> _Check:
        return _Check(self._check, peer)

    def _open_watch(self, _metadata: Mapping[str, str], peer: Peer) -> _Watch:
        return _Watch(self._check, peer, self._watchers)


class _HealthCall:
    """Reads the one request of the call."""

    def __init__(self, check: Callable[[str], bool | None], peer: Peer) -> None:
        self._check = check
        self._peer = peer
        self._service: str | None = None

    def message(self, data: bytes) -> bool:
        if self._service is not None:
            self._peer.end(Status.INVALID_ARGUMENT, "only one message is allowed")
            return True
        try:
            self._service = health_pb2.HealthCheckRequest.FromString(data).service
        except DecodeError:
            self._peer.end(Status.INVALID_ARGUMENT, "the message is not a HealthCheckRequest")
            return True
        self._respond(self._service)
        return True

    def half_closed(self) -> None:
        if self._service is None:
            self._peer.end(Status.INVALID_ARGUMENT, "a message is missing")

    def closed(self) -> None:
        """Holds nothing to release."""

    def _respond(self, service: str) -> None:
        raise NotImplementedError


class _Check(_HealthCall):
    """One request, one response."""

    def _respond(self, service: str) -> None:
        serves = self._check(service)
        if serves is None:
            self._peer.end(Status.NOT_FOUND, "unknown service")
            return
        self._peer.send(_RESPONSES[serves])
        self._peer.end()


class _Watch(_HealthCall):
    """One request, a response now and at every change, until the client ends the call."""

    def __init__(self, check: Callable[[str], bool | None], peer: Peer, watchers: set[_Watch]) -> None:
        super().__init__(check, peer)
        self._watchers = watchers
        self._last_reported: bool | str | None = "nothing yet"

    def closed(self) -> None:
        self._watchers.discard(self)

    def report(self) -> None:
        """Sends the status unless it was the last one sent."""
        assert self._service is not None
        serves = self._check(self._service)
        if serves != self._last_reported:
            self._last_reported = serves
            self._peer.send(_RESPONSES[serves])

    def _respond(self, service: str) -> None:
        if len(self._watchers) >= MAX_WATCHERS:
            self._peer.end(Status.RESOURCE_EXHAUSTED, "too many watchers")
            return
        self._watchers.add(self)
        self.report()
