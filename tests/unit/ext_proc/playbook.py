"""Playbooks: `play >> message` is what Envoy sends, `play << [...]` what the exchange must have answered since.

Responses are compared in a readable form, one tuple per message (see `shown`), so that a failing playbook shows a diff
of the conversation. Time stands still until `play.wait(seconds)`.
"""

from __future__ import annotations

import json
from typing import Any

from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.ext_proc import incoming
from extproc.ext_proc.base import Exchange
from extproc.ext_proc.pb import external_processor_pb2 as pb

FDS = pb.ProcessingMode.FULL_DUPLEX_STREAMED


def config(**changes: Any) -> Config:
    """Two backends of an OpenAI format; `two` fails over from the first to the second."""
    settings: dict[str, Any] = {
        "backends": {"alpha": Backend(api="openai", url="https://alpha.example/base/v1", key="sk-alpha-secret"),
                     "beta": Backend(api="openai", url="https://beta.example/v1", key="sk-beta-secret")},
        "models": [ModelRule(match="one", attempts=[Attempt(backend="alpha", model="vendor/one")]),
                   ModelRule(match="two", attempts=[Attempt(backend="alpha", model="vendor/a"),
                                                    Attempt(backend="beta", model="vendor/b")]),
                   ModelRule(match="free/*", list=["free/x"], attempts=[Attempt(backend="beta", model="*")])],
    }
    return Config(**{**settings, **changes})


def header_map(headers: dict[str, str]) -> pb.HeaderMap:
    return pb.HeaderMap(headers=[pb.HeaderValue(key=key, raw_value=value.encode()) for key, value in headers.items()])


def request_headers(method: str = "POST", path: str = "/v1/messages", *, end: bool = False,
                    modes: tuple[int, int] | None = (FDS, FDS), **headers: str) -> pb.ProcessingRequest:
    """Headers are keyword arguments with `_` for `-`; a JSON POST to the gateway's own name by default."""
    named = {":method": method, ":path": path, ":authority": "127.0.0.1:10000", ":scheme": "http"}
    if method == "POST":
        named["content-type"] = "application/json"
    named.update({key.replace("_", "-"): value for key, value in headers.items()})
    if "authority" in named:
        named[":authority"] = named.pop("authority")
    message = pb.ProcessingRequest(request_headers=pb.HttpHeaders(
        headers=header_map({name: value for name, value in named.items() if value}), end_of_stream=end))
    if modes:
        message.protocol_config.request_body_mode = modes[0]
        message.protocol_config.response_body_mode = modes[1]
    return message


def request_body(data: bytes | dict[str, Any], *, end: bool = True) -> pb.ProcessingRequest:
    body = data if isinstance(data, bytes) else json.dumps(data).encode()
    return pb.ProcessingRequest(request_body=pb.HttpBody(body=body, end_of_stream=end))


def request_trailers() -> pb.ProcessingRequest:
    return pb.ProcessingRequest(request_trailers=pb.HttpTrailers(trailers=header_map({"x-checksum": "1"})))


def response_headers(status: int = 200, *, end: bool = False, **headers: str) -> pb.ProcessingRequest:
    named = {":status": str(status), **{key.replace("_", "-"): value for key, value in headers.items()}}
    return pb.ProcessingRequest(response_headers=pb.HttpHeaders(headers=header_map(named), end_of_stream=end))


def response_body(data: bytes, *, end: bool = False) -> pb.ProcessingRequest:
    return pb.ProcessingRequest(response_body=pb.HttpBody(body=data, end_of_stream=end))


def response_trailers(**trailers: str) -> pb.ProcessingRequest:
    named = {key.replace("_", "-"): value for key, value in trailers.items()}
    return pb.ProcessingRequest(response_trailers=pb.HttpTrailers(trailers=header_map(named)))


def set_headers(mutation: pb.HeaderMutation) -> dict[str, str]:
    assert all(not option.header.value for option in mutation.set_headers), "Envoy ignores `value`"
    return {option.header.key: option.header.raw_value.decode() for option in mutation.set_headers}


def shown(response: pb.ProcessingResponse) -> tuple[Any, ...]:
    """("request head", set headers), ("response head", ...), ("request body", bytes, end) or ("immediate", status,
    body, details)."""
    part = response.WhichOneof("response")
    if part in ("request_headers", "response_headers"):
        common = getattr(response, part).response
        name = part.replace("_headers", " head")
        if common.status == pb.CommonResponse.CONTINUE_AND_REPLACE:
            return name, set_headers(common.header_mutation), common.body_mutation.body
        return name, set_headers(common.header_mutation)
    if part in ("request_body", "response_body"):
        mutation = getattr(response, part).response.body_mutation
        assert mutation.WhichOneof("mutation") == "streamed_response", "the only kind that this mode allows"
        chunk = mutation.streamed_response
        return part.replace("_", " "), chunk.body, chunk.end_of_stream
    if part == "immediate_response":
        reply = response.immediate_response
        body = json.loads(reply.body) if reply.body else None
        return "immediate", reply.status.code, body, reply.details
    assert part is not None, "an empty response makes Envoy fail"
    return (part.replace("_", " "),)


class Playbook:
    """One exchange under test, its clock and what it said."""

    def __init__(self, exchange: Exchange, now: float = 1000.0) -> None:
        self.exchange = exchange
        self.now = now
        self.unread: list[pb.ProcessingResponse] = []
        self.said: list[pb.ProcessingResponse] = []
        self._timer: float | None = None
        self._body_sent: set[str] = set()
        self._set_timer()

    def __rshift__(self, message: pb.ProcessingRequest) -> Playbook:
        self._body_sent.add(message.WhichOneof("request") or "")
        self._say(self.exchange.receive(incoming.read_message(message.SerializeToString()), self.now))
        self._set_timer()
        if self.exchange.can_prepare:  # as the server does, once that is on its way
            self.exchange.prepare()
        return self

    def __lshift__(self, expected: list[tuple[Any, ...]]) -> Playbook:
        got = [shown(response) for response in self.unread]
        self.unread = []
        assert got == expected
        return self

    def wait(self, seconds: float) -> Playbook:
        """Lets time pass; the exchange is asked whenever its deadline comes."""
        until = self.now + seconds
        while self._timer is not None and self._timer <= until:
            assert self._timer >= self.now, "a deadline in the past would spin"
            self.now = self._timer
            before = self.exchange.next_deadline
            if before is not None and before <= self.now:
                self._say(self.exchange.on_deadline(self.now))
                assert self.exchange.next_deadline != before or self.exchange.done, "a deadline that does not move on"
            self._timer = self.exchange.next_deadline
        self.now = until
        return self

    def _set_timer(self) -> None:
        """As the server does: only where the exchange says that something is due sooner."""
        due = self.exchange.next_deadline
        if self.exchange.deadline_moved_up:
            self.exchange.deadline_moved_up = False
            self._timer = due if self._timer is None or (due is not None and due < self._timer) else self._timer
        assert due is None or (self._timer is not None and self._timer <= due), "it would ring too late"

    def take(self) -> list[tuple[Any, ...]]:
        """What was said since the last look."""
        got = [shown(response) for response in self.unread]
        self.unread = []
        return got

    def removed(self) -> set[str]:
        """Headers that the newest head removes."""
        for response in reversed(self.said):
            part = response.WhichOneof("response")
            if part in ("request_headers", "response_headers"):
                return set(getattr(response, part).response.header_mutation.remove_headers)
        raise AssertionError("no head yet")

    def metadata(self) -> dict[str, Any]:
        """The dynamic metadata so far, as Envoy merges it."""
        merged: dict[str, Any] = {}
        for response in self.said:
            if response.HasField("dynamic_metadata"):
                assert list(response.dynamic_metadata) == ["extproc"]
                merged.update(response.dynamic_metadata["extproc"])
        return merged

    def _say(self, responses: list[bytes]) -> None:
        said = [pb.ProcessingResponse.FromString(response) for response in responses]
        for one in said:
            part = one.WhichOneof("response")
            if part in ("request_body", "response_body"):
                assert part in self._body_sent, "Envoy calls a body spurious of which it has sent nothing yet"
        self.unread += said
        self.said += said
