"""One ext_proc stream on the server: what is prepared while others are at work."""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from extproc.server.log import Log
from extproc.server.metrics import PrometheusMetrics
from extproc.server.stream import Stream, Streams
from tests.unit.exchange.playbook import config, request_body
from tests.unit.exchange.test_translate import ASK, hop, routed


class _Peer:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    def send(self, message: bytes) -> None:
        self.sent.append(message)

    def end(self, *status: object) -> None:
        pass

    def resume(self) -> None:
        pass


class _NoThreads(Executor):
    def submit(self, *work: Any, **more: Any) -> Future[Any]:
        raise AssertionError("nothing here is heavy")


@pytest.mark.parametrize("breaks", [False, True])
def test_the_answer_is_prepared_for_once_the_request_is_on_its_way(breaks: bool,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        play = hop()
        exchange = play.exchange
        prepared: list[int] = []

        def prepare() -> None:
            exchange.can_prepare = False
            prepared.append(len(peer.sent))
            if breaks:
                raise RuntimeError("a bug")

        monkeypatch.setattr(exchange, "prepare", prepare)
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


def test_nothing_is_prepared_for_a_stream_that_is_gone() -> None:
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
