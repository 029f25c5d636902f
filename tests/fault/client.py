"""One request on a connection of its own, and what came back, as bytes and as words.

Reads HTTP/1.1 by hand, so that a clean end is told from a broken one, and so that it can leave at any byte.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import time
from dataclasses import dataclass, field
from typing import Any

from tests.fault.plan import Plan
from tests.fault.story import TOOLS

RST = struct.pack("ii", 1, 0)
PATIENCE = 60.0
"""Seconds after which an answer counts as hanging."""


@dataclass
class Got:
    """What a client received. `clean`: the body ended as its framing says; `left`: the client went away itself."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytearray = field(default_factory=bytearray)
    clean: bool = False
    left: bool = False
    hung: bool = False
    began: float = 0.0
    ended: float = 0.0


def body_of(plan: Plan) -> bytes:
    """The request in the client's API."""
    body: dict[str, Any] = {"model": plan.model, "max_tokens": 5000, "stream": plan.streamed,
                            "messages": [{"role": "user", "content": plan.prompt}]}
    if plan.client != "anthropic" and plan.streamed:
        body["stream_options"] = {"include_usage": True}
    if plan.calls and plan.client == "anthropic":
        body["tools"] = [{"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}
                         for tool in TOOLS]
    elif plan.calls:
        body["tools"] = [{"type": "function", "function": tool} for tool in TOOLS]
    if plan.client == "events":
        del body["stream"], body["stream_options"]
    return json.dumps(body, ensure_ascii=plan.seed % 2 == 0).encode()


PATHS = {"anthropic": "/v1/messages", "openai": "/v1/chat/completions", "events": "/v1/events"}


class Gone(Exception):  # noqa: N818 - says what happened
    """The client has left."""


async def ask(port: int, plan: Plan, key: str) -> Got:
    """Sends the request and takes the answer, or leaves as the plan says."""
    got = Got(began=time.monotonic())
    try:
        async with asyncio.timeout(PATIENCE):
            await _exchange(port, plan, key, got)
    except TimeoutError:
        got.hung = True
    except Gone:
        got.left = True
    except (OSError, asyncio.IncompleteReadError):
        pass  # not clean
    got.ended = time.monotonic()
    return got


async def _exchange(port: int, plan: Plan, key: str, got: Got) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    sock: socket.socket = writer.get_extra_info("socket")
    try:
        body = body_of(plan)
        head = (f"POST {PATHS[plan.client]} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
                f"anthropic-version: 2023-06-01\r\nauthorization: Bearer {key}\r\ncontent-length: {len(body)}\r\n\r\n")
        if plan.leaves == "rst_in_upload":
            writer.write((head.encode() + body)[:min(len(head) + len(body) - 1, plan.leave_at + len(head) // 2)])
            await writer.drain()
            raise Gone
        writer.write(head.encode() + body)
        await writer.drain()
        if plan.leaves.endswith("early"):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(plan.leave_at / 1000):
                    await _read(reader, got, 1)
            raise Gone
        await _read(reader, got, plan.leave_at if plan.leaves else None)
    except Gone:
        if plan.leaves.startswith("rst"):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RST)
        raise
    finally:
        writer.transport.abort()


async def _read(reader: asyncio.StreamReader, got: Got, leave_at: int | None) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    first, *lines = head.split("\r\n")
    got.status = int(first.split(" ")[1])
    got.headers = {name.strip().lower(): value.strip() for name, _, value in
                   (line.partition(":") for line in lines if line)}
    if "content-length" in got.headers:
        await _take(reader, got, int(got.headers["content-length"]), leave_at)
    else:
        while size := int(await reader.readuntil(b"\r\n"), 16):
            await _take(reader, got, size, leave_at)
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
    got.clean = True


async def _take(reader: asyncio.StreamReader, got: Got, size: int, leave_at: int | None) -> None:
    while size:
        data = await reader.read(min(size, 1 << 16))
        if not data:
            raise ConnectionResetError
        got.body += data
        size -= len(data)
        if leave_at is not None and len(got.body) >= leave_at:
            raise Gone
