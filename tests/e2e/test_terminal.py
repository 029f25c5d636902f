"""On a terminal: what an operator sees, and what Ctrl-C does."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import grpc
import pytest

from extproc.ext_proc.pb.external_processor_pb2 import ProcessingMode, ProcessingRequest, ProcessingResponse
from extproc.worker.stream import SERVICE
from tests.e2e.gateway import CLIENT_KEY, READY, START_SECONDS, configuration, descendants, ended
from tests.e2e.terminal import CTRL_C, Terminal
from tests.e2e.test_lifecycle import wait_until
from tests.e2e.wire import payload, post, stream
from tests.ports import free_port
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, calls, status, text
from tests.providers.openai import stream as deltas

EXTPROC = [sys.executable, "-m", "extproc"]
OpenTerminal = Callable[..., Terminal]


@pytest.fixture
def terminal(tmp_path: Path, provider: OpenAIProvider) -> Iterator[OpenTerminal]:
    """`terminal("up")` runs `extproc up` with the usual configuration; the team's key comes from the environment."""
    opened: list[Terminal] = []

    def start(*arguments: str, **changes: object) -> Terminal:
        config = configuration(provider.url, **{"teams": {"test": {"key": "${TEST_KEY}"}}, **changes})
        file = tmp_path / "extproc.yaml"
        file.write_text(json.dumps(config))
        opened.append(Terminal([*EXTPROC, *arguments, "--config", str(file)], {"TEST_KEY": CLIENT_KEY}))
        return opened[-1]

    yield start
    for one in opened:
        one.close()


def ready(up: Terminal) -> str:
    return up.wait_for_line(READY, START_SECONDS)[1]


def test_what_an_operator_sees_until_ctrl_c(terminal: OpenTerminal, provider: OpenAIProvider) -> None:
    up = terminal("up", "--port", str(free_port()))
    url = ready(up)
    provider.script(text("hello"), calls(("call_1", "now", "{}")), status(429, {"error": {"message": "Slow down"}}))
    tools = [{"name": "now", "input_schema": {"type": "object"}}]
    with stream(url, payload("claude-official", tools=tools)) as answer:
        answer.read()
    up.wait_for_line(re.compile("  ok$"), 10)  # each worker writes its own lines: without a pause in any order
    assert post(url, payload("claude-official", tools=tools)).status == 200
    up.wait_for_line(re.compile("1  ok$"), 10)
    assert post(url, payload()).status == 429
    up.wait_for_line(re.compile("rate_limit 429"), 10)
    assert post(url, payload("claude-tset")).status == 404
    up.wait_for_line(re.compile("unknown_model"), 10)

    shown = "\n".join(up.lines)
    assert f"export ANTHROPIC_BASE_URL={url}" in shown
    assert 'export ANTHROPIC_AUTH_TOKEN="$TEST_KEY"' in shown
    assert CLIENT_KEY not in shown.replace("claude-test", "")
    assert sum(line.startswith("extproc: ready on") for line in up.lines) == 1
    heading = next(at for at, line in enumerate(up.lines) if line.startswith("time "))
    told, called, refused, unknown = (line for line in up.lines[heading + 1:])
    assert re.search(r"official\s+21\s+7\s+\d\.\ds\s+\d\.\ds\s+ok$", told)
    assert re.search(r"official\s+21\s+7\s+\d\.\ds\s+\d\.\ds\s+1  ok$", called)
    assert "provider error rate_limit 429" in refused
    assert "error unknown_model 404" in unknown
    assert up.lines[heading].index("  outcome") == told.index("  ok") == called.index("  ok"), "columns"
    assert not [line for line in up.lines if line.startswith("{")], "JSON is for programs"
    pasted = [line for line in up.lines if "export" in line]
    assert all(len(line) <= 80 for line in up.lines if line not in pasted), "nothing wraps"

    # Ctrl-C finishes the running answer. The terminal signals its foreground process group: only the parent may be in
    # it.
    children = descendants(up.process.pid)
    gate = Gate()
    provider.script(deltas([{"content": "before "}, gate, {"content": "after"}]))
    with stream(url) as answer:
        answer.until("content_block_delta")
        up.type(CTRL_C)
        up.wait_for_line(re.compile("running responses are finished first"), 10)
        with pytest.raises(subprocess.TimeoutExpired):
            up.process.wait(0.5)
        gate.open()
        answer.read()
        assert answer.text == "before after"
    assert up.process.wait(15) == 0, up.output
    wait_until(lambda: all(ended(pid) for pid in children), 2, "all children are gone")
    assert "Traceback" not in up.output


def test_a_second_ctrl_c_ends_at_once(terminal: OpenTerminal, provider: OpenAIProvider) -> None:
    up = terminal("up", "--port", str(free_port()), workers=1)
    url = ready(up)
    children = descendants(up.process.pid)
    gate = Gate()
    provider.script(deltas([{"content": "before "}, gate]))
    with stream(url) as answer:
        answer.until("content_block_delta")
        up.type(CTRL_C)
        up.wait_for_line(re.compile("running responses are finished first"), 10)
        up.type(CTRL_C)
        assert up.process.wait(5) == 0, up.output
    gate.open()
    wait_until(lambda: all(ended(pid) for pid in children), 2, "all children are gone")


class Exchange:
    """An ext_proc stream that a worker has begun to serve: the request's head was sent, its body was not."""

    def __init__(self, address: str) -> None:
        self._more = threading.Event()
        self._channel = grpc.insecure_channel(address)
        call = self._channel.stream_stream(
            f"/{SERVICE}/Process", request_serializer=ProcessingRequest.SerializeToString,
            response_deserializer=ProcessingResponse.FromString)
        self._answers = call(self._messages(), metadata=[("x-extproc-role", "select")], timeout=60)
        # An answer's metadata would come with its first message only; the channel being ready and the request being
        # taken is what counts here.
        grpc.channel_ready_future(self._channel).result(10)

    def _messages(self) -> Iterator[ProcessingRequest]:
        head = ProcessingRequest()
        for key, value in {":method": "POST", ":path": "/v1/messages", ":authority": "localhost",
                           "content-type": "application/json", "x-extproc-team": "test"}.items():
            head.request_headers.headers.headers.add(key=key, raw_value=value.encode())
        head.protocol_config.request_body_mode = ProcessingMode.FULL_DUPLEX_STREAMED
        yield head
        self._more.wait(60)
        body = ProcessingRequest()
        body.request_body.body = json.dumps(payload()).encode()
        body.request_body.end_of_stream = True
        yield body

    def finish(self) -> list[str]:
        """Sends the body; the kinds of what comes back."""
        self._more.set()
        return [str(answer.WhichOneof("response")) for answer in self._answers]

    def close(self) -> None:
        self._more.set()
        self._channel.close()


def test_ctrl_c_and_the_workers_alone(terminal: OpenTerminal) -> None:
    address = f"127.0.0.1:{free_port()}"
    serve = terminal("serve", "--listen", address)
    serve.wait_for_line(re.compile("processor ready on"), START_SECONDS)
    running = Exchange(address)
    serve.type(CTRL_C)
    serve.wait_for_line(re.compile("running responses are finished first"), 10)
    with pytest.raises(subprocess.TimeoutExpired):
        serve.process.wait(1)
    assert running.finish() == ["request_headers", "request_body"]
    assert serve.process.wait(15) == 0, serve.output
    running.close()

    serve = terminal("serve", "--listen", address)
    serve.wait_for_line(re.compile("processor ready on"), START_SECONDS)
    children = descendants(serve.process.pid)
    running = Exchange(address)
    serve.type(CTRL_C)
    serve.wait_for_line(re.compile("running responses are finished first"), 10)
    serve.type(CTRL_C)
    assert serve.process.wait(5) == 0, serve.output
    wait_until(lambda: all(ended(pid) for pid in children), 2, "all workers are gone")
    running.close()
    assert not [line for line in serve.lines if line.startswith("{")]
