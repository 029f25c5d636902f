"""Who ended an attempt before its response was complete: the client, the provider, or unknown.

An ext_proc stream ends in the same way whoever closed it. Envoy knows more and reports it a moment later in a gRPC
access log (`envoy.service.accesslog.v3.AccessLogService`). Until then, and at most for `PATIENCE`, the log line and the
metrics of the attempt wait. Envoy sends every entry to every worker; entries of other workers' attempts are ignored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from google.protobuf.message import DecodeError

from extproc.ext_proc.record import ClosedBy
from extproc.transport.rpc import Methods, Peer, Status
from extproc.worker.pb.access_log_service_pb2 import StreamAccessLogsMessage

SERVICE = "envoy.service.accesslog.v3.AccessLogService"
PATIENCE = 1.0
"""Seconds that an attempt waits for Envoy's report, which usually arrives after 0.05."""

_AttemptKey = tuple[str, int]
_MAX_EARLY_REPORTS = 200

_CLIENT_FLAGS = frozenset({"DC", "DR"})
"""Envoy's response flags of a downstream connection that was closed, and of a stream that was reset from there.
https://www.envoyproxy.io/docs/envoy/latest/configuration/observability/access_log/usage#response-flags"""
_PROVIDER_FLAGS = frozenset({"UC", "UR", "UPE", "UF", "UT", "UMSDR"})
"""Those of a connection to the provider that ended, was reset, broke the protocol, failed or timed out."""


class EndReports:
    """Matches Envoy's reports with the attempts that wait for them, by request id and attempt number."""

    def __init__(self) -> None:
        self._waiting: dict[_AttemptKey, tuple[Callable[[ClosedBy], None], asyncio.TimerHandle]] = {}
        self._early: dict[_AttemptKey, ClosedBy] = {}
        """The latest reports without a waiting attempt: of another worker, or earlier than the end of the stream."""

    @property
    def methods(self) -> Methods:
        """The gRPC service by its path."""
        return {f"/{SERVICE}/StreamAccessLogs": self._open_log_stream}

    def await_report(self, request_id: str, attempt: int, on_report: Callable[[ClosedBy], None]) -> None:
        """Calls `on_report` once: with Envoy's report, or with "unknown" after `PATIENCE`."""
        key = request_id, attempt
        if (closed_by := self._early.pop(key, None)) is not None:
            on_report(closed_by)
            return
        self._resolve(key, "unknown")  # a client sent the same id twice at a time
        timer = asyncio.get_running_loop().call_later(PATIENCE, self._resolve, key, "unknown")
        self._waiting[key] = on_report, timer

    def close(self) -> None:
        """Resolves all waiting attempts as ended by the gateway: the worker has stopped."""
        for key in tuple(self._waiting):
            self._resolve(key, "gateway")

    def receive_entry(self, text: str) -> None:
        """Handles one log entry: request id, attempt number and response flags, separated by spaces."""
        request_id, attempt, flags = ["", "", "", *text.rsplit(" ", 2)][-3:]
        if not attempt.isdecimal():
            return
        names = frozenset(flags.split(","))
        closed_by: ClosedBy = ("client" if names & _CLIENT_FLAGS else "provider" if names & _PROVIDER_FLAGS
                               else "unknown")
        key = request_id, int(attempt)
        if key in self._waiting:
            self._resolve(key, closed_by)
            return
        self._early[key] = closed_by
        if len(self._early) > _MAX_EARLY_REPORTS:
            del self._early[next(iter(self._early))]

    def _resolve(self, key: _AttemptKey, closed_by: ClosedBy) -> None:
        found = self._waiting.pop(key, None)
        if found is not None:
            on_report, timer = found
            timer.cancel()
            on_report(closed_by)

    def _open_log_stream(self, _metadata: Mapping[str, str], peer: Peer) -> _LogStream:
        return _LogStream(self, peer)


class _LogStream:
    """One stream of log entries. Envoy opens one for each of its threads."""

    def __init__(self, reports: EndReports, peer: Peer) -> None:
        self._reports = reports
        self._peer = peer

    def message(self, data: bytes) -> bool:
        try:
            entries = StreamAccessLogsMessage.FromString(data).http_logs.log_entry
        except DecodeError:
            self._peer.end(Status.INVALID_ARGUMENT, "the message is not a StreamAccessLogsMessage")
            return True
        for entry in entries:
            for value in entry.common_properties.custom_tags.values():
                self._reports.receive_entry(value.decode("utf-8", "replace"))
        return True

    def half_closed(self) -> None:
        self._peer.end()

    def closed(self) -> None:
        """Holds nothing to release."""
