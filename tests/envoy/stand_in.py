"""A stand-in for the processor, for tests of Envoy's configuration and of `extproc up`.

It speaks just enough ext_proc: `select` routes by the JSON body's "model" to the rule ids it was given, `translate`
passes bytes on under another path and puts what it saw into response headers. "model": "refused" gets an immediate
response of the processor's own.

    python -m tests.envoy.stand_in --listen unix:/path --routes '{"m": "m-12345678"}'
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent import futures
from dataclasses import dataclass, field

import grpc
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.service.ext_proc import v3 as wire
from envoy_data_plane.envoy.type import v3 as envoy_type
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

OWN_ERROR = b'{"type":"error","error":{"type":"invalid_request_error","message":"the processor\'s own words"}}'


@dataclass
class StandIn:
    """A gRPC server with both roles; `seen` lists the request headers of every exchange, by role."""

    routes: dict[str, str]
    address: str
    seen: list[tuple[str, dict[str, str]]] = field(default_factory=list)

    def start(self) -> StandIn:
        self.server = grpc.server(futures.ThreadPoolExecutor(32))
        handler = grpc.stream_stream_rpc_method_handler(
            self._process, request_deserializer=wire.ProcessingRequest.parse, response_serializer=bytes)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(
            "envoy.service.ext_proc.v3.ExternalProcessor", {"Process": handler}),))
        self.health = health.HealthServicer()
        self.health.set("", health_pb2.HealthCheckResponse.SERVING)
        health_pb2_grpc.add_HealthServicer_to_server(self.health, self.server)
        self.port = self.server.add_insecure_port(self.address)
        self.server.start()
        return self

    def stop(self) -> None:
        self.server.stop(0.1).wait()

    def headers(self, role: str) -> list[dict[str, str]]:
        return [headers for seen, headers in self.seen if seen == role]

    def _process(self, messages: Iterator[wire.ProcessingRequest],
                 context: grpc.ServicerContext) -> Iterator[wire.ProcessingResponse]:
        metadata = dict(context.invocation_metadata())
        role = str(metadata["x-extproc-role"])
        first = next(messages)
        headers = {header.key: header.raw_value.decode() for header in first.request_headers.headers.headers}
        self.seen.append((role, headers))
        if role == "select":
            yield from self._select(headers, first, messages)
        else:
            yield from self.translate(str(metadata["x-extproc-backend"]), first, messages)

    def _select(self, headers: dict[str, str], first: wire.ProcessingRequest,
                messages: Iterator[wire.ProcessingRequest]) -> Iterator[wire.ProcessingResponse]:
        body = b""
        if not first.request_headers.end_of_stream:
            for message in messages:
                body += message.request_body.body
                if message.request_body.end_of_stream:
                    break
        model = json.loads(body or b"{}").get("model", "")
        if model == "refused":
            yield wire.ProcessingResponse(immediate_response=wire.ImmediateResponse(
                status=envoy_type.HttpStatus(code=envoy_type.StatusCode.NotFound), body=OWN_ERROR,
                headers=wire.HeaderMutation(set_headers=[_header("content-type", "application/json")]),
                details="extproc_refused"))
            return
        api = "anthropic" if headers[":path"].startswith("/v1/messages") else "openai"
        chosen = [_header("x-extproc-route", self.routes[model])] if model in self.routes else []
        changes = wire.HeaderMutation(set_headers=[
            *chosen, _header("x-extproc-api", api), _header("x-not-allowed", "1")])
        yield wire.ProcessingResponse(request_headers=wire.HeadersResponse(response=wire.CommonResponse(
            header_mutation=changes, clear_route_cache=True)))
        if not first.request_headers.end_of_stream:
            yield wire.ProcessingResponse(request_body=_streamed(body, True))

    def translate(self, backend: str, first: wire.ProcessingRequest,
                   messages: Iterator[wire.ProcessingRequest]) -> Iterator[wire.ProcessingResponse]:
        attempt = next(h.raw_value.decode() for h in first.request_headers.headers.headers
                       if h.key == "x-envoy-attempt-count")
        yield wire.ProcessingResponse(request_headers=wire.HeadersResponse(response=wire.CommonResponse(
            header_mutation=wire.HeaderMutation(set_headers=[_header(":path", f"/translated/{backend}")]))))
        for message in messages:
            if message.request_body is not None:
                yield wire.ProcessingResponse(
                    request_body=_streamed(message.request_body.body, message.request_body.end_of_stream))
            elif message.response_headers is not None:
                yield wire.ProcessingResponse(response_headers=wire.HeadersResponse(response=wire.CommonResponse(
                    header_mutation=wire.HeaderMutation(set_headers=[
                        _header("x-served-by", backend), _header("x-attempt", attempt)]))))
            elif message.response_body is not None:
                yield wire.ProcessingResponse(
                    response_body=_streamed(message.response_body.body, message.response_body.end_of_stream))


def _header(key: str, value: str) -> core.HeaderValueOption:
    return core.HeaderValueOption(header=core.HeaderValue(key=key, raw_value=value.encode()))


def _streamed(body: bytes, end: bool) -> wire.BodyResponse:
    return wire.BodyResponse(response=wire.CommonResponse(body_mutation=wire.BodyMutation(
        streamed_response=wire.StreamedBodyResponse(body=body, end_of_stream=end))))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", required=True)
    parser.add_argument("--routes", default="{}")
    options = parser.parse_args()
    stand_in = StandIn(json.loads(options.routes), options.listen).start()
    print(json.dumps({"event": "started", "pid": os.getpid()}), flush=True)
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopped.set())
    stopped.wait()
    stand_in.stop()


if __name__ == "__main__":
    main()
