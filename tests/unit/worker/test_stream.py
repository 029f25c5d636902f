"""One ext_proc stream on the server: preparation in idle time, and priority."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any

import pytest

from extproc.ext_proc.base import Exchange
from extproc.ext_proc.request_body import LARGE_BODY
from extproc.process.log import Log
from extproc.worker.metrics import PrometheusMetrics
from extproc.worker.stream import Stream, Streams
from tests.unit.ext_proc.playbook import config, request_body, response_body, response_headers
from tests.unit.ext_proc.test_translate import ASK, SSE, chunk, hop, routed


class _Peer:
    def __init__(self) -> None:
        self.sent: list[bytes] = []
        self.calmed = 0

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    def end(self, *status: object) -> None:
        pass

    def lower_priority(self) -> None:
        self.calmed += 1

    def resume(self) -> None:
        pass


class _NoThreads(Executor):
    def submit(self, *work: Any, **more: Any) -> Future[Any]:
        raise AssertionError("nothing here is heavy")


@pytest.mark.parametrize("breaks", [False, True])
def test_the_response_is_prepared_for_once_the_request_was_sent(breaks: bool,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        play = hop()
        exchange = play.exchange
        prepared: list[int] = []

        def prepare(exchange: Exchange) -> None:
            exchange.can_prepare = False
            prepared.append(len(peer.sent))
            if breaks:
                raise RuntimeError("a bug")

        monkeypatch.setattr(type(exchange), "prepare", prepare)
        streams = Streams(config(), Log(write=lambda line: None), PrometheusMetrics(), _NoThreads(),
                          make=lambda *args, **more: exchange)
        peer = _Peer()
        stream = streams.open({}, peer)
        assert isinstance(stream, Stream)
        assert stream.message(routed(play).SerializeToString())
        await asyncio.sleep(0)
        assert not prepared
        assert stream.message(request_body(ASK).SerializeToString())
        assert len(peer.sent) == 2, "head and body have left"
        assert not prepared, "and nothing kept them"
        await asyncio.sleep(0)
        assert prepared == [2]
        stream.closed()

    asyncio.run(run())


def test_nothing_is_prepared_for_a_closed_stream() -> None:
    async def run() -> None:
        play = hop()
        exchange = play.exchange
        streams = Streams(config(), Log(write=lambda line: None), PrometheusMetrics(), _NoThreads(),
                          make=lambda *args, **more: exchange)
        stream = streams.open({}, _Peer())
        stream.message(routed(play).SerializeToString())
        stream.message(request_body(ASK).SerializeToString())
        stream.closed()
        await asyncio.sleep(0)
        assert exchange.can_prepare

    asyncio.run(run())


def test_the_response_to_a_heavy_request_is_prepared_for_in_the_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        play = hop()
        exchange = play.exchange
        prepare, where = type(exchange).prepare, []

        def noted(exchange: Exchange) -> None:
            where.append(threading.current_thread())
            prepare(exchange)

        monkeypatch.setattr(type(exchange), "prepare", noted)
        with ThreadPoolExecutor(1) as threads:
            streams = Streams(config(), Log(write=lambda line: None), PrometheusMetrics(), threads,
                              make=lambda *args, **more: exchange)
            peer, back = _Peer(), asyncio.Event()
            monkeypatch.setattr(peer, "resume", back.set)
            stream = streams.open({}, peer)
            assert stream.message(routed(play).SerializeToString())
            said = {"role": "user", "content": "x" * LARGE_BODY}
            assert not stream.message(request_body({**ASK, "messages": [said]}).SerializeToString())
            await asyncio.wait_for(back.wait(), 10)
            await asyncio.sleep(0)
            assert len(where) == 1
            assert where[0] is not threading.current_thread()
            stream.closed()

    asyncio.run(run())


def test_a_stream_is_urgent_until_its_first_token_was_sent() -> None:
    async def run() -> None:
        play = hop()
        streams = Streams(config(), Log(write=lambda line: None), PrometheusMetrics(), _NoThreads(),
                          make=lambda *args, **more: play.exchange)
        peer = _Peer()
        stream = streams.open({}, peer)
        for message in (routed(play), request_body({**ASK, "stream": True}), response_headers(**SSE),
                        response_body(chunk({"role": "assistant", "content": ""}))):
            assert stream.message(message.SerializeToString())
            assert not peer.calmed
        for words in ("Hel", "lo"):
            stream.message(response_body(chunk({"content": words})).SerializeToString())
            assert peer.calmed == 1
        stream.closed()

    asyncio.run(run())
