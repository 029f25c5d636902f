"""The health service of gRPC (`grpc.health.v1.Health`) on the seam of `extproc.transport.rpc`, for every transport
alike.

A question about a service in, SERVING or NOT_SERVING out; `Watch` says so again whenever the answer changes. It knows
nothing of the worker: `check` tells what holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from google.protobuf.message import DecodeError
from grpc_health.v1 import health_pb2

from extproc.transport.rpc import Methods, Peer, Status

_PATH = "/grpc.health.v1.Health/"

_Answer = health_pb2.HealthCheckResponse
_SAID = {None: _Answer(status=_Answer.SERVICE_UNKNOWN).SerializeToString(),
         True: _Answer(status=_Answer.SERVING).SerializeToString(),
         False: _Answer(status=_Answer.NOT_SERVING).SerializeToString()}

MAX_WATCHERS = 1000
"""Streams that watch at the same time; more are refused."""


class Health:
    """`check`: whether this service serves; None for one that does not exist."""

    def __init__(self, check: Callable[[str], bool | None]) -> None:
        self._check = check
        self._watchers: set[_Watch] = set()

    @property
    def methods(self) -> Methods:
        """`Check` and `Watch` by their paths."""
        return {f"{_PATH}Check": self._open_check, f"{_PATH}Watch": self._open_watch}

    def changed(self) -> None:
        """Something that `check` looks at has changed."""
        for watcher in tuple(self._watchers):
            watcher.tell()

    def _open_check(self, _metadata: Mapping[str, str], peer: Peer) -> _Check:
        return _Check(self._check, peer)

    def _open_watch(self, _metadata: Mapping[str, str], peer: Peer) -> _Watch:
        return _Watch(self._check, peer, self._watchers)


class _Question:
    """Reads the one message of the call."""

    def __init__(self, check: Callable[[str], bool | None], peer: Peer) -> None:
        self._check = check
        self._peer = peer
        self._service: str | None = None

    def message(self, data: bytes) -> bool:
        if self._service is not None:
            self._peer.end(Status.INVALID_ARGUMENT, "one message is enough")
            return True
        try:
            self._service = health_pb2.HealthCheckRequest.FromString(data).service
        except DecodeError:
            self._peer.end(Status.INVALID_ARGUMENT, "the message is no HealthCheckRequest")
            return True
        self._answer(self._service)
        return True

    def half_closed(self) -> None:
        if self._service is None:
            self._peer.end(Status.INVALID_ARGUMENT, "a message is missing")

    def closed(self) -> None:
        """Nothing to clear away."""

    def _answer(self, service: str) -> None:
        raise NotImplementedError


class _Check(_Question):
    """One question, one answer."""

    def _answer(self, service: str) -> None:
        serves = self._check(service)
        if serves is None:
            self._peer.end(Status.NOT_FOUND, "unknown service")
            return
        self._peer.send(_SAID[serves])
        self._peer.end()


class _Watch(_Question):
    """One question, an answer now and at every change, until the other side has enough."""

    def __init__(self, check: Callable[[str], bool | None], peer: Peer, watchers: set[_Watch]) -> None:
        super().__init__(check, peer)
        self._watchers = watchers
        self._told: bool | str | None = "nothing yet"

    def closed(self) -> None:
        self._watchers.discard(self)

    def tell(self) -> None:
        """Says how it stands, unless that was said already."""
        assert self._service is not None
        serves = self._check(self._service)
        if serves != self._told:
            self._told = serves
            self._peer.send(_SAID[serves])

    def _answer(self, service: str) -> None:
        if len(self._watchers) >= MAX_WATCHERS:
            self._peer.end(Status.RESOURCE_EXHAUSTED, "too many watch already")
            return
        self._watchers.add(self)
        self.tell()
