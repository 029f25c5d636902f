"""A strict collector of traces on loopback: OTLP over gRPC or over HTTP with protobuf.

It keeps every span and says what a real collector would refuse, or what breaks the OpenTelemetry data model: ids of the
wrong size, spans without a name or that end before they begin, attributes named twice, a resource without
`service.name`.
"""

from __future__ import annotations

import http.server
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent import futures
from dataclasses import dataclass, field
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2 as service
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc as service_grpc
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.trace.v1 import trace_pb2 as wire

from tests.envoy.running import read_body


@dataclass
class Span:
    """One span as it came, ids as hexadecimal digits; `parent` is "" for a root."""

    trace: str
    id: str
    parent: str
    name: str
    kind: str
    service: str
    attributes: dict[str, str]
    failed: bool


@dataclass
class Collector:
    """Start it with `grpc` or `http`; `headers` are those of every request, names in lower case."""

    spans: list[Span] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._news = threading.Condition()
        self._stop: Callable[[], object] = lambda: None

    def start_grpc(self) -> Collector:
        server = grpc.server(futures.ThreadPoolExecutor(2))
        service_grpc.add_TraceServiceServicer_to_server(_Servicer(self), server)
        self.port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.url = f"grpc://127.0.0.1:{self.port}"
        self._stop = lambda: server.stop(0.1).wait()
        return self

    def start_http(self) -> Collector:
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = read_body(self)
                headers = {name.lower(): value for name, value in self.headers.items()}
                status = collector.take_http(self.path, headers, body)
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        self.port = server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

        def stop() -> None:
            server.shutdown()
            server.server_close()

        self._stop = stop
        return self

    def stop(self) -> None:
        self._stop()

    def wait_for(self, holds: Callable[[list[Span]], bool], what: str) -> list[Span]:
        """All spans, once they fulfil this. Envoy sends them a second after they ended, or five at a time."""
        with self._news:
            assert self._news.wait_for(lambda: holds(self.spans), 15), f"{what}; there are: {self.spans}"
            return list(self.spans)

    # ------------------------------------------------------------------------------------------------ what Envoy sends

    def take_http(self, path: str, headers: dict[str, str], body: bytes) -> int:
        if path != "/v1/traces":
            self.violations.append(f"path {path}")
            return 404
        if headers.get("content-type") != "application/x-protobuf":
            self.violations.append(f"content-type {headers.get('content-type')}")
            return 415
        message = service.ExportTraceServiceRequest()
        try:
            message.ParseFromString(body)
        except DecodeError as error:
            self.violations.append(str(error))
            return 400
        self.take(message, headers)
        return 200

    def take(self, message: service.ExportTraceServiceRequest, headers: dict[str, str]) -> None:
        with self._news:
            self.headers.append(headers)
            for resource in message.resource_spans:
                attributes = self._attributes("resource", resource.resource.attributes)
                if not attributes.get("service.name"):
                    self.violations.append("a resource without service.name")
                for scope in resource.scope_spans:
                    self.spans += [self._span(span, attributes.get("service.name", "")) for span in scope.spans]
            self._news.notify_all()

    def _span(self, span: wire.Span, named: str) -> Span:
        said = []
        if len(span.trace_id) != 16 or not any(span.trace_id):
            said.append("trace_id")
        if len(span.span_id) != 8 or not any(span.span_id):
            said.append("span_id")
        if len(span.parent_span_id) not in (0, 8):
            said.append("parent_span_id")
        if not span.name:
            said.append("no name")
        if not 0 < span.start_time_unix_nano <= span.end_time_unix_nano:
            said.append("times")
        if span.kind == wire.Span.SPAN_KIND_UNSPECIFIED:
            said.append("no kind")
        self.violations += [f"{span.name}: {what}" for what in said]
        return Span(span.trace_id.hex(), span.span_id.hex(), span.parent_span_id.hex(), span.name,
                    wire.Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_"), named,
                    self._attributes(span.name, span.attributes),
                    span.status.code == wire.Status.STATUS_CODE_ERROR)

    def _attributes(self, owner: str, attributes: Iterable[KeyValue]) -> dict[str, str]:
        found = [(one.key, _text(one.value)) for one in attributes]
        self.violations += [f"{owner}: attribute {key!r} {count} times"
                            for key, count in Counter(key for key, _ in found).items() if count > 1 or not key]
        return dict(found)


def _text(value: Any) -> str:
    which = value.WhichOneof("value")
    return "" if which is None else str(getattr(value, which))


class _Servicer(service_grpc.TraceServiceServicer):
    def __init__(self, collector: Collector) -> None:
        self._collector = collector

    def Export(self, request: service.ExportTraceServiceRequest,  # noqa: N802 - grpc's name
               context: grpc.ServicerContext) -> service.ExportTraceServiceResponse:
        self._collector.take(request, dict(context.invocation_metadata()))
        return service.ExportTraceServiceResponse()
