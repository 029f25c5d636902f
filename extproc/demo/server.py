"""HTTP/1.1 for the demo: reads requests, writes the script's output, streams it word by word.

Deliberately small: persistent connections, and bodies with a length or in chunks. It serves `POST /v1/chat/completions`
and `GET /v1/models`. All other requests get an error in OpenAI's shape.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from typing import NamedTuple

from extproc.demo.checks import DemoError, check_request
from extproc.demo.responses import CREATED, DemoResponse
from extproc.demo.script import run_script
from extproc.endpoints import CHAT_PATH, MODELS_PATH

PIECE_DELAY = 0.004
"""Seconds between two pieces of a stream: visible, but not tedious."""
MAX_HEAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024

_REASONS = {200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 413: "Payload Too Large"}


class HttpRequest(NamedTuple):
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def keeps_alive(self) -> bool:
        return "close" not in self.headers.get("connection", "").lower()


def run_demo(host: str, port: int) -> None:
    """Serves until SIGTERM or Ctrl-C. Prints `listening on PORT` as its first line."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(host, port))


async def _serve(host: str, port: int) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    server = await start_demo(host, port)
    print(f"listening on {server.sockets[0].getsockname()[1]}", flush=True)
    await stop.wait()
    server.close()


async def start_demo(host: str, port: int) -> asyncio.Server:
    """A listening demo on the running event loop (port 0: any)."""
    return await asyncio.start_server(_serve_connection, host, port, limit=MAX_HEAD)


async def _serve_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # A client may leave at any moment.
    with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
        while True:
            try:
                request = await _read_request(reader, writer)
            except DemoError as refused:
                await _send_error(writer, refused, keep_alive=False)
                break
            if request is None:
                break
            await _respond(request, writer)
            if not request.keeps_alive:
                break
    writer.close()


# ----------------------------------------------------------------------------------------------------------- reading


async def _read_request(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> HttpRequest | None:
    """The next request; None if the client has closed."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    except asyncio.LimitOverrunError:
        raise DemoError("the request head is too large") from None
    first, *lines = head.decode("latin-1").split("\r\n")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise DemoError("not an HTTP/1.1 request")
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    if headers.get("expect", "").lower() == "100-continue":
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    return HttpRequest(parts[0], parts[1].partition("?")[0], headers, await _read_body(reader, headers))


async def _read_body(reader: asyncio.StreamReader, headers: dict[str, str]) -> bytes:
    if "chunked" in headers.get("transfer-encoding", "").lower():
        return await _read_chunks(reader)
    length = headers.get("content-length", "0")
    if not length.isdigit():
        raise DemoError("the content-length is not a number")
    _check_size(int(length))
    return await reader.readexactly(int(length))


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while True:
        line = await reader.readuntil(b"\r\n")
        try:
            size = int(line.split(b";")[0], 16)
        except ValueError:
            raise DemoError("a chunk's size is not a number") from None
        _check_size(len(body) + size)
        if size == 0:
            while await reader.readuntil(b"\r\n") != b"\r\n":
                pass
            return bytes(body)
        body += (await reader.readexactly(size + 2))[:-2]


def _check_size(size: int) -> None:
    if size > MAX_BODY:
        raise DemoError("the request body is too large", status=413)


# ----------------------------------------------------------------------------------------------------------- writing


async def _respond(request: HttpRequest, writer: asyncio.StreamWriter) -> None:
    try:
        if request.path == MODELS_PATH and request.method == "GET":
            model = {"id": "demo", "object": "model", "created": CREATED, "owned_by": "extproc"}
            await _send(writer, 200, json.dumps({"object": "list", "data": [model]}).encode(), request.keeps_alive)
        elif request.path != CHAT_PATH:
            raise DemoError(f"Invalid URL ({request.method} {request.path})", status=404)
        elif request.method != "POST":
            raise DemoError(f"Not allowed to {request.method} on {request.path}", status=405)
        else:
            await _complete(request, writer)
    except DemoError as refused:
        await _send_error(writer, refused, request.keeps_alive)


async def _complete(request: HttpRequest, writer: asyncio.StreamWriter) -> None:
    try:
        body = json.loads(request.body)
    except (ValueError, RecursionError) as error:
        raise DemoError(f"We could not parse the JSON body of your request: {error}") from None
    check_request(body)
    reply = DemoResponse(body, request.body, run_script(body))
    if not body.get("stream"):
        await _send(writer, 200, reply.body(), request.keeps_alive)
        return
    writer.write(_head(200, "text/event-stream", request.keeps_alive) + b"transfer-encoding: chunked\r\n\r\n")
    for event in reply.events():
        writer.write(b"%x\r\n%b\r\n" % (len(event), event))
        await writer.drain()
        await asyncio.sleep(PIECE_DELAY)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


async def _send(writer: asyncio.StreamWriter, status: int, body: bytes, keep_alive: bool) -> None:
    writer.write(_head(status, "application/json", keep_alive) + b"content-length: %d\r\n\r\n%b" % (len(body), body))
    await writer.drain()


async def _send_error(writer: asyncio.StreamWriter, refused: DemoError, keep_alive: bool) -> None:
    error = {"message": str(refused), "type": "invalid_request_error", "param": refused.param, "code": refused.code}
    await _send(writer, refused.status, json.dumps({"error": error}).encode(), keep_alive)


def _head(status: int, content_type: str, keep_alive: bool) -> bytes:
    connection = "keep-alive" if keep_alive else "close"
    return (f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-type: {content_type}\r\nconnection: {connection}\r\n"
            "x-request-id: req_demo\r\n").encode()
