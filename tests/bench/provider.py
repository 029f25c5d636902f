"""A fast loopback provider for measurements, a program of its own: `python -m tests.bench.provider` prints its port.

The model's name says what it answers: `events-N-MS` streams N text events, one every MS milliseconds (0: as fast as
the socket takes them); `idle` streams one event and falls silent; `short` streams a few events at once. It checks
nothing and decodes only as much of a request as it needs.
"""

from __future__ import annotations

import asyncio
import contextlib
import re

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
MODEL = re.compile(rb'"model"\s*:\s*"([a-z0-9-]+)"')


def chunked(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(delta: bytes, finish: bytes = b"null") -> bytes:
    return chunked(b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
                   b'"choices":[{"index":0,"delta":%b,"logprobs":null,"finish_reason":%b}]}\n\n' % (delta, finish))


FIRST = event(b'{"role":"assistant","content":""}')
WORD = event(b'{"content":" some"}')
USAGE = chunked(b'data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"bench",'
                b'"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":9,"total_tokens":18}}\n\n')
LAST = event(b"{}", b'"stop"') + USAGE + chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n"


async def read_body(reader: asyncio.StreamReader) -> bytes | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    if found := re.search(rb"content-length: *(\d+)", head):
        return await reader.readexactly(int(found[1]))
    body = []
    while size := int(await reader.readline(), 16):
        body.append(await reader.readexactly(size))
        await reader.readexactly(2)
    await reader.readline()
    return b"".join(body)


async def answer(model: bytes, writer: asyncio.StreamWriter) -> None:
    writer.write(HEAD + FIRST)
    if model.startswith(b"events-"):
        _, count, pause = model.split(b"-")
        seconds = int(pause) / 1000
        for _ in range(int(count)):
            writer.write(WORD)
            await writer.drain()
            await asyncio.sleep(seconds)
    elif model == b"idle":
        writer.write(WORD)
        await asyncio.Event().wait()
    else:
        writer.write(WORD * 3)
    writer.write(LAST)
    await writer.drain()


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
        while (body := await read_body(reader)) is not None:
            found = MODEL.search(body[:300]) or MODEL.search(body)
            await answer(found[1] if found else b"short", writer)
    writer.close()


async def main() -> None:
    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 24, backlog=1024)
    print(f"port {server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
