"""The worker as Envoy sees it: a real gRPC client on a Unix socket."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.data.accesslog import v3 as data
from envoy_data_plane.envoy.service.accesslog import v3 as als
from grpc_health.v1 import health_pb2, health_pb2_grpc
from prometheus_client import CollectorRegistry, generate_latest

from extproc.config import Config
from extproc.ext_proc.base import Exchange, Responses
from extproc.ext_proc.incoming import BodyChunk, EnvoyMessage
from extproc.ext_proc.pb import external_processor_pb2 as pb
from extproc.process.log import Log
from extproc.transport.servers import TRANSPORTS, VARIABLE
from extproc.worker.exchange_log import configured_secrets
from extproc.worker.generations import Accepted, Generation
from extproc.worker.metrics import PrometheusMetrics
from extproc.worker.stream import SERVICE
from extproc.worker.stream_ends import SERVICE as ENDINGS
from extproc.worker.worker import Worker, run_worker
from tests.unit.ext_proc.playbook import config, request_body, request_headers, response_body, response_headers, shown
from tests.unit.ext_proc.test_translate import ASK, DONE, HELLO, STOP

SELECT = (("x-extproc-role", "select"),)
TRANSLATE = (("x-extproc-role", "translate"), ("x-extproc-backend", "alpha"))
HOP = {"x_extproc_api": "anthropic", "x_request_id": "req-9"}


@pytest.fixture(autouse=True, params=TRANSPORTS)
def transport(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every rule here holds on every transport."""
    monkeypatch.setenv(VARIABLE, request.param)


class Lines(list[dict[str, Any]]):
    """The log, with an event for every new line."""

    def __init__(self) -> None:
        super().__init__()
        self.grown = asyncio.Event()

    def write(self, line: bytes) -> None:
        self.append(json.loads(line))
        self.grown.set()


class Running:
    """A worker on a socket, a channel to it and what it logged."""

    def __init__(self, worker: Worker, channel: grpc.aio.Channel, lines: Lines,
                 registry: CollectorRegistry, settings: Config) -> None:
        self.worker = worker
        self.channel = channel
        self.lines = lines
        self.registry = registry
        self.route = settings.models[0].id

    def stream(self, metadata: tuple[tuple[str, str], ...]) -> Any:
        method = self.channel.stream_stream(
            f"/{SERVICE}/Process", request_serializer=pb.ProcessingRequest.SerializeToString,
            response_deserializer=pb.ProcessingResponse.FromString)
        return method(metadata=metadata)

    def exchanges(self) -> list[dict[str, Any]]:
        return [line for line in self.lines if line["event"] == "exchange"]

    async def logged(self, condition: Callable[[], object]) -> None:
        """Waits for lines of the log until the condition holds."""
        async with asyncio.timeout(10):
            while not condition():
                self.lines.grown.clear()
                await self.lines.grown.wait()

    def events(self) -> set[str]:
        return {line["event"] for line in self.lines}


@asynccontextmanager
async def running(tmp_path: Path, *, debug_bodies: bool = False, make: Any = None, quiet: float = 0.02,
                  health_wait: float = 2.0, **changes: Any) -> AsyncIterator[Running]:
    settings = config(**changes)
    lines = Lines()
    log = Log("debug", partial(configured_secrets, settings), lines.write)
    registry = CollectorRegistry()
    address = f"unix:{tmp_path}/w.sock"
    worker = Worker(settings, address, log=log, metrics=PrometheusMetrics(registry), debug_bodies=debug_bodies,
                    quiet=quiet, health_wait=health_wait)
    if make is not None:
        worker.streams.make_exchange = make
    await worker.start()
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            yield Running(worker, channel, lines, registry, settings)
    finally:
        worker.end_at_once()
        await worker.stop()


async def reply(call: Any) -> tuple[Any, ...]:
    async with asyncio.timeout(10):
        message = await call.read()
    assert message is not grpc.aio.EOF, "the worker returned early"
    return shown(message)


async def health(run: Running, service: str = "") -> int:
    response = await health_pb2_grpc.HealthStub(run.channel).Check(health_pb2.HealthCheckRequest(service=service))
    return int(response.status)


def ended(*entries: str) -> bytes:
    """Envoy's reports of attempts that ended early, in the format of its gRPC access log."""
    return bytes(als.StreamAccessLogsMessage(
        identifier=als.StreamAccessLogsMessageIdentifier(log_name="ended", node=core.Node(id="extproc")),
        http_logs=als.StreamAccessLogsMessageHttpAccessLogEntries(log_entry=[data.HttpAccessLogEntry(
            common_properties=data.AccessLogCommon(sample_rate=1.0, upstream_cluster="backend-b", custom_tags={
                "ended": text}), protocol_version=data.HttpAccessLogEntryHttpVersion.HTTP2) for text in entries])))


async def begin_response(run: Running) -> Any:
    """A stream in the middle of its response."""
    call = run.stream(TRANSLATE)
    await call.write(request_headers(x_extproc_route=run.route, **HOP))
    await call.write(request_body(ASK))
    assert (await reply(call))[0] == "request head"
    assert (await reply(call))[0] == "request body"
    await call.write(response_headers(content_type="text/event-stream"))
    await call.write(response_body(HELLO))
    assert (await reply(call))[0] == "response head"
    assert b"Hello" in (await reply(call))[1]
    return call


async def end_response(call: Any) -> None:
    await call.write(response_body(STOP + DONE, end=True))
    kind, data, end = await reply(call)
    assert (kind, end) == ("response body", True)
    assert b"message_stop" in data


def test_health_and_one_exchange_from_end_to_end(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path) as run:
            assert await health(run) == health_pb2.HealthCheckResponse.SERVING
            assert await health(run, SERVICE) == health_pb2.HealthCheckResponse.SERVING
            call = run.stream(SELECT)
            await call.write(request_headers())
            await call.write(request_body(ASK))
            assert (await reply(call))[1]["x-extproc-route"] == run.route
            assert (await reply(call))[0] == "request body"
            await call.done_writing()
            assert await call.code() == grpc.StatusCode.OK
            call = await begin_response(run)
            await end_response(call)
            await call.done_writing()
            assert await call.code() == grpc.StatusCode.OK
            [line] = run.exchanges()
            assert (line["hop"], line["outcome"], line["request_id"]) == ("translate", "ok", "req-9")
            assert line["usage"]["output"] == 2
            text = generate_latest(run.registry).decode()
            assert 'gen_ai_token_type="input",provider_api="openai",team=""} 7.0' in text
            assert 'extproc_streams{hop="translate"} 0.0' in text
            assert "extproc_workers 1.0" in text

    asyncio.run(play())


def test_a_worker_reports_the_configuration_of_new_requests(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path) as run:
            def told() -> tuple[float | None, float | None]:
                return (run.registry.get_sample_value("extproc_config_generation"),
                        run.registry.get_sample_value("extproc_config_generation_newest"))

            assert told() == (1, 1)
            second = Generation(2, config(lossy="reject"))
            run.worker.set_accepted(Accepted(second, [second]), "digest-2")
            assert told() == (2, 2)

    asyncio.run(play())


@pytest.mark.parametrize("successor", [False, True])
def test_a_stopping_worker_reports_no_configuration(tmp_path: Path, successor: bool) -> None:
    async def play() -> None:
        async with running(tmp_path) as run:
            call = await begin_response(run)
            leaving = asyncio.ensure_future(run.worker.hand_over() if successor else run.worker.stop())
            await run.logged(lambda: {"handing_over", "draining"} & run.events())
            assert run.registry.get_sample_value("extproc_config_generation") == math.inf
            second = Generation(2, config(lossy="reject"))
            run.worker.set_accepted(Accepted(second, [second]), "digest-2")
            assert run.registry.get_sample_value("extproc_config_generation_newest") == 0
            await end_response(call)
            await call.done_writing()
            await leaving

    asyncio.run(play())


def test_pings_come_from_the_timer(tmp_path: Path) -> None:
    """One timer per stream, moved to an earlier time when a response begins."""
    from extproc.config import Timeouts

    async def play() -> None:
        async with running(tmp_path, timeouts=Timeouts(ping=0.5)) as run:
            call = await begin_response(run)
            assert b"event: ping" in (await reply(call))[1]
            await end_response(call)

    asyncio.run(play())


def test_a_cancelled_stream_is_recorded(tmp_path: Path) -> None:
    """Envoy reports who ended it, in a separate message."""
    async def play() -> None:
        async with running(tmp_path) as run:
            entries = run.channel.stream_unary(f"/{ENDINGS}/StreamAccessLogs")()
            call = await begin_response(run)
            call.cancel()
            await entries.write(ended("another-id 1 UC", "req-9 2 UC", "req-9 1 DC"))
            await run.logged(run.exchanges)
            assert [run.exchanges()[0][name] for name in ("outcome", "closed_by")] == ["client_closed", "client"]
            assert run.worker.streams.active == 0
            entries.cancel()

    asyncio.run(play())


def test_a_stream_without_a_report_is_recorded(tmp_path: Path) -> None:
    """An Envoy with an older configuration. The response had begun, so it counts as the provider's failure."""
    async def play() -> None:
        async with running(tmp_path) as run:
            call = await begin_response(run)
            await call.done_writing()
            assert await call.code() == grpc.StatusCode.OK
            await run.logged(run.exchanges)
            [line] = run.exchanges()
            assert [line[name] for name in ("level", "outcome", "closed_by")] == [
                "warning", "provider_error", "unknown"]

    asyncio.run(play())


def test_a_stream_that_the_worker_cut_off_is_its_own_error(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path) as run:
            await begin_response(run)
            run.worker.end_at_once()
            await run.worker.stop()
            [line] = run.exchanges()
            assert [line[name] for name in ("outcome", "closed_by")] == ["error", "gateway"]

    asyncio.run(play())


class Slow(Exchange):
    """Holds a thread until it is released."""

    hop = "slow"
    gate: Any = None
    entered: Any = None

    def should_offload(self, last: BodyChunk) -> bool:
        return True

    def _handle_message(self, message: EnvoyMessage, now: float) -> Responses:
        self.entered()
        assert self.gate.wait(10)
        return self.reply(200, {}, b"{}", "slow", now)


def test_heavy_work_leaves_the_event_loop_and_survives_a_cancellation(tmp_path: Path) -> None:
    import threading

    gate = threading.Event()

    def make(settings: Config, metadata: Any, **more: Any) -> Exchange:
        exchange = Slow(settings, **more)
        exchange.gate = gate
        loop = asyncio.get_running_loop()
        exchange.entered = lambda: loop.call_soon_threadsafe(entered.release)
        return exchange

    entered = asyncio.Semaphore(0)

    async def play() -> None:
        async with running(tmp_path, make=make) as run:
            first, second = run.stream(SELECT), run.stream(SELECT)
            await first.write(request_body(ASK))
            await second.write(request_body(ASK))
            async with asyncio.timeout(10):
                await entered.acquire()
                await entered.acquire()
            assert await health(run) == health_pb2.HealthCheckResponse.SERVING
            second.cancel()
            gate.set()
            assert (await reply(first))[1] == 200
            await first.done_writing()
            await run.logged(lambda: len(run.exchanges()) == 2)

    asyncio.run(play())


def test_a_big_body_goes_through_both_hops(tmp_path: Path) -> None:
    """P18: 20 MB, far above grpc's default message size, in Envoy's chunks and in one message."""
    ask = json.dumps({**ASK, "messages": [{"role": "user", "content": "x" * 20_000_000}]}).encode()

    async def upload(call: Any, size: int) -> bytes:
        for start in range(0, len(ask), size):
            await call.write(request_body(ask[start:start + size], end=start + size >= len(ask)))
        assert (await reply(call))[0] == "request head"
        out = bytearray()
        while True:
            _, data, end = await reply(call)
            out += data
            if end:
                return bytes(out)

    async def play() -> None:
        async with running(tmp_path) as run:
            call = run.stream(SELECT)
            await call.write(request_headers())
            assert await upload(call, 1 << 19) == ask
            await call.done_writing()
            call = run.stream(TRANSLATE)
            await call.write(request_headers(x_extproc_route=run.route, **HOP))
            sent = json.loads(await upload(call, len(ask)))
            assert len(sent["messages"][-1]["content"]) == 20_000_000
            call.cancel()

    asyncio.run(play())


def test_an_exception_is_an_error_for_the_client_and_a_line_in_the_log(tmp_path: Path) -> None:
    class Crashing(Exchange):
        hop = "crashing"

        def _handle_message(self, message: pb.ProcessingRequest, now: float) -> list[pb.ProcessingResponse]:
            raise ZeroDivisionError("key sk-alpha-secret")

    def make(settings: Config, metadata: Any, **more: Any) -> Exchange:
        return Crashing(settings, **more)

    async def play() -> None:
        async with running(tmp_path, make=make) as run:
            call = run.stream(SELECT)
            await call.write(request_headers())
            kind, status, body, _ = await reply(call)
            assert (kind, status, body["type"]) == ("immediate", 500, "error")
            await call.done_writing()
            await run.logged(run.exchanges)
            [crash] = [line for line in run.lines if line["event"] == "internal_error"]
            assert "ZeroDivisionError" in crash["error"]
            assert "sk-alpha-secret" not in json.dumps(run.lines)
            assert crash["request_id"] in body["error"]["message"]

    asyncio.run(play())


@pytest.mark.parametrize("metadata", [(), (("x-extproc-role", "nonsense"),),
                                      (("x-extproc-role", "translate"), ("x-extproc-backend", "gone"))])
def test_a_misconfigured_filter_causes_an_error_in_the_clients_shape(tmp_path: Path, metadata: Any) -> None:
    async def play() -> None:
        async with running(tmp_path) as run:
            call = run.stream(metadata)
            await call.write(request_headers())
            kind, status, body, _ = await reply(call)
            assert (kind, status, body["type"]) == ("immediate", 500, "error")

    asyncio.run(play())


# --------------------------------------------------------------------------------------------------------------- drain


def test_an_idle_worker_stops_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, health_wait=30) as run:
            started = time.monotonic()
            await run.worker.stop()
            assert time.monotonic() - started < 5

    asyncio.run(play())


def test_a_drain_fails_no_request(tmp_path: Path) -> None:
    """NOT_SERVING first, while new streams are still accepted; running ones end normally."""
    async def play() -> None:
        async with running(tmp_path, quiet=10, health_wait=30) as run:
            old = await begin_response(run)
            stopping = asyncio.ensure_future(run.worker.stop())
            await run.logged(lambda: "draining" in run.events())
            assert await health(run) == health_pb2.HealthCheckResponse.NOT_SERVING
            new = await begin_response(run)
            run.worker.health_wait = 0  # Envoy has had the time to notice
            async with asyncio.timeout(10):
                await run.logged(lambda: "closed" in run.events())
                assert not stopping.done()
                await end_response(new)
                await end_response(old)
                for call in (new, old):
                    await call.done_writing()
                    assert await call.code() == grpc.StatusCode.OK
                await stopping

    asyncio.run(play())


def test_a_second_signal_ends_a_drain_at_once(tmp_path: Path) -> None:
    async def play() -> None:
        async with running(tmp_path, health_wait=30) as run:
            call = await begin_response(run)
            stopping = asyncio.ensure_future(run.worker.stop())
            await run.logged(lambda: "draining" in run.events())
            run.worker.end_at_once()
            async with asyncio.timeout(10):
                await stopping
            call.cancel()

    asyncio.run(play())


# ----------------------------------------------------------------------------------------------------------------- log


def test_the_log_holds_no_bodies_without_the_debug_switch(tmp_path: Path) -> None:
    async def play(debug: bool) -> str:
        # A socket of its own: gRPC shares connections by address, and the first worker's is gone.
        folder = tmp_path / f"debug-{debug}"
        folder.mkdir()
        async with running(folder, debug_bodies=debug) as run:
            call = run.stream(TRANSLATE)
            await call.write(request_headers(x_extproc_route=run.route, **HOP))
            private = [{"role": "user", "content": "private sk-alpha-secret"}]
            await call.write(request_body({**ASK, "messages": private}))
            await reply(call)
            await reply(call)
            call.cancel()
            await run.logged(run.exchanges)
            return json.dumps(run.lines)

    assert "private" not in asyncio.run(play(False))
    shown_text = asyncio.run(play(True))
    assert "private ***" in shown_text
    assert "sk-alpha-secret" not in shown_text


def test_an_address_that_cannot_be_used_is_exit_code_1(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_worker(config(), f"unix:{tmp_path}/missing/w.sock") == 1
    assert "not_started" in capfd.readouterr().out


def test_a_worker_process_serves_until_sigterm(tmp_path: Path) -> None:
    program = ("import sys; from tests.unit.ext_proc.playbook import config; "
               "from extproc.worker.worker import run_worker; sys.exit(run_worker(config(), sys.argv[1]))")
    with subprocess.Popen([sys.executable, "-c", program, f"unix:{tmp_path}/w.sock"], stdout=subprocess.PIPE,
                          cwd=Path(__file__).parents[3]) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            assert ready["event"] == "serving"
            process.send_signal(signal.SIGTERM)
            assert process.wait(10) == 0
            said = [json.loads(line)["event"] for line in process.stdout]
            assert said == ["draining", "closed", "stopped"]
        finally:
            process.kill()
