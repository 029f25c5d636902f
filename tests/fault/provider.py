"""One scripted provider with three doors: Chat Completions, Messages and generateContent, streamed and whole.

It reads its script from the prompt (`plan`), checks that the prompt and the tools arrived undamaged and with its own
key, tells the story of the seed in its API's format, and misbehaves as the script says. The ledger keeps what it really
sent.
"""

from __future__ import annotations

import asyncio
import json
import random
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.e2e.matrix.asked import of_anthropic, of_gemini, of_openai
from tests.fault.plan import IDLE, LATE, LONG, read_script
from tests.fault.story import CALL_TOKENS, TOOLS, Story, story
from tests.providers import anthropic, gemini_wire, openai
from tests.providers.http import RESET, Exchange, Gate, Reply, ScriptedServer

KEYS = {"openai": "sk-openai-0123456789", "anthropic": "sk-ant-0123456789", "gemini": "AIza-0123456789"}
STATUSES = {"status_429": 429, "status_500": 500, "status_503": 503, "status_529": 529, "status_401": 401}
READERS = {"openai": of_openai, "anthropic": of_anthropic, "gemini": of_gemini}
SAID = "scripted fault"


@dataclass
class Entry:
    """One request as the provider knows it. `sent`: tokens of the answer that went out; `told`: so did the figures of
    the whole answer."""

    number: int
    backend: str
    fault: str
    streamed: bool
    story: Story
    exchange: Exchange
    undamaged: bool
    answers: bool = False
    """It began to answer with status 200."""
    sent: int = 0
    told: bool = False

    @property
    def whole(self) -> bool:
        """The whole answer went out, and the gateway stayed to take it."""
        return self.told and self.exchange.finished.is_set() and not self.exchange.closed.is_set()


class Pause(Gate):
    """Opens by itself after some seconds; 0 lets others run."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    async def passed(self) -> None:
        await asyncio.sleep(self._seconds)


class Mark(Gate):
    """Notes in the ledger how far the answer is."""

    def __init__(self, entry: Entry, tokens: int, *, told: bool = False) -> None:
        super().__init__()
        self._entry, self._tokens, self._told = entry, tokens, told

    async def passed(self) -> None:
        self._entry.answers = True
        self._entry.sent += self._tokens
        self._entry.told |= self._told
        await asyncio.sleep(0)  # lets a lost connection end this


class Drop(Gate):
    """Closes the connection in place of an answer."""

    def __init__(self, transport: asyncio.Transport, *, reset: bool) -> None:
        super().__init__()
        self._transport, self._reset = transport, reset

    async def passed(self) -> None:
        if self._reset:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        self._transport.abort() if self._reset else self._transport.close()
        await asyncio.Event().wait()


@dataclass
class Item:
    """Bytes of an answer and the tokens in them; `content` is False for what opens and closes it; `ends_call`: a call
    is whole with it."""

    data: bytes
    tokens: int = 0
    content: bool = True
    ends_call: bool = False


class ChecksumProvider(ScriptedServer):
    """Listens for all three; `urls` by backend."""

    def __init__(self) -> None:
        super().__init__()
        self.ledger: list[Entry] = []
        self.strangers: list[str] = []
        """Requests that no plan explains."""

    @property
    def urls(self) -> dict[str, str]:
        base = f"http://127.0.0.1:{self.port}"
        return {"openai": f"{base}/openai/v1", "anthropic": f"{base}/anthropic/v1", "gemini": f"{base}/gemini/v1beta"}

    def respond(self, exchange: Exchange) -> Reply:
        backend = exchange.path.split("/")[1]
        try:
            body = json.loads(exchange.raw)
            asked = READERS[backend](body)
            script, undamaged = read_script("".join(asked.texts))
            number, fault = script["number"], script["faults"][backend]
        except (ValueError, KeyError) as error:
            self.strangers.append(f"{exchange.method} {exchange.path}: {error!r}")
            return openai.status(400, {"error": {"message": "no script"}})
        undamaged = undamaged and asked.tools == ([tool["name"] for tool in TOOLS] if script["calls"] else [])
        streamed = "streamGenerateContent" in exchange.path if backend == "gemini" else bool(body.get("stream"))
        if sorted(keys_in(exchange)) != [KEYS[backend]]:
            self.strangers.append(f"{backend}: the keys {keys_in(exchange)}")
        entry = Entry(number, backend, fault["name"], streamed,
                      story(script["seed"], backend, calls=script["calls"], filler=script["filler"]), exchange,
                      undamaged)
        self.ledger.append(entry)
        connection = next(one for one in self.connections if one.number == exchange.connection)
        assert connection.transport is not None
        return performance(entry, fault["at"], random.Random(f"{script['seed']} {backend} pace"), connection.transport)


def keys_in(exchange: Exchange) -> list[str]:
    headers = exchange.headers
    return [value.removeprefix("Bearer ") for name in ("authorization", "x-api-key", "x-goog-api-key")
            if (value := headers.get(name)) is not None]


# ----------------------------------------------------------------------------------------------------------- the faults


def performance(entry: Entry, at: int, draw: random.Random, transport: asyncio.Transport) -> Reply:
    """The answer with its fault."""
    fault = entry.fault
    if fault in STATUSES:
        return refusal(entry.backend, STATUSES[fault])
    if fault in ("reset_before_head", "close_before_head"):
        return Reply(hold=Drop(transport, reset=fault == "reset_before_head"))
    if fault == "hang":
        return Reply(hold=Gate())
    if fault == "web_page":
        return Reply(200, {"content-type": "text/html"}, [b"<html>busy</html>"], framing="close")
    head = {"content-type": "text/event-stream" if entry.streamed else "application/json"}
    if fault in ("empty", "reset_behind_head"):
        return Reply(200, head, [], end="reset" if fault == "reset_behind_head" else "end")
    items = wire_of(entry)
    hold = Pause(LATE) if fault == "late" else None
    if fault in ("none", "shredded", "slow", "late", "long"):
        return Reply(200, head, paced(entry, items, draw), framing="chunked" if draw.random() < 0.8 or entry.streamed
                     else "close", hold=hold)
    if fault == "error_before_token":
        return Reply(200, head, [error_inside(entry)])
    return broken(entry, head, items, at, draw)


def broken(entry: Entry, head: dict[str, str], items: list[Item], at: int, draw: random.Random) -> Reply:
    """An answer that begins and does not end."""
    fault, sent = entry.fault, before(items, at) if entry.streamed else [half(items[0], draw)]
    body = [*paced(entry, sent, draw, told=False), Pause(0.005)]
    if fault == "malformed":
        body.append(b'data: {"choices": [{"delta": \xff oops\n\n' if entry.streamed else b'\xff":,')
    elif fault == "error_inside":
        body = [*body, error_inside(entry)] if entry.streamed else [error_inside(entry)]
    elif fault == "bad_framing":
        framed = [b"%x\r\n%b\r\n" % (len(step), step) if isinstance(step, bytes) else step for step in body]
        return Reply(200, {**head, "transfer-encoding": "chunked"}, [*framed, b"no size\r\n"], end="hang",
                     framing="close")
    end: Any = {"reset": "reset", "cut": "cut", "stall": "hang"}.get(fault, "end")
    return Reply(200, head, body, end=end)


def before(items: list[Item], at: int) -> list[Item]:
    """So many tokens of it, at least one, never all, and never up to the end of a call: some servers really end there,
    so that counts as an end (`extproc.apis.openai.provider.response`)."""
    taken: list[Item] = []
    tokens = 0
    content = [number for number, item in enumerate(items) if item.content]
    for item in items[:content[-1]]:
        if tokens >= at and not taken[-1].ends_call:
            break
        taken.append(item)
        tokens += item.tokens
    while taken[-1].ends_call:
        taken.pop()
    return taken


def half(item: Item, draw: random.Random) -> Item:
    return Item(item.data[:draw.randint(1, len(item.data) - 1)], item.tokens // 2)


def paced(entry: Entry, items: Iterable[Item], draw: random.Random, *, told: bool = True) -> list[bytes | Gate]:
    """Items as they go out: with pauses, and for `shredded` in pieces that end anywhere."""
    items = list(items)
    pause = min(LONG / len(items), IDLE / 3) if entry.fault == "long" else draw.choice((0, 0, 0.002, 0.01))
    steps: list[bytes | Gate] = []
    rest = b""
    for item in items:
        if entry.fault == "shredded":
            *shreds, rest = shred(rest + item.data, draw)
            for piece in shreds:
                steps += [piece, Pause(0)]
        else:
            steps.append(item.data)
        steps.append(Mark(entry, item.tokens))
        if pause and (entry.fault == "long" or draw.random() < 0.5):
            steps.append(Pause(pause))
        if entry.fault == "slow" and draw.random() < 0.2:
            steps.append(Pause(draw.uniform(0.02, 0.2)))
    steps.append(rest)
    if told:
        steps.append(Mark(entry, 0, told=True))
    return steps


def shred(data: bytes, draw: random.Random) -> Iterator[bytes]:
    """Pieces of `data`; the last one is empty where the cut falls on its end."""
    at = 0
    while at < len(data):
        size = draw.choice((1, 2, 7, 40, 300))
        if at + size >= len(data):
            break
        yield data[at:at + size]
        at += size
    yield data[at:]


# ------------------------------------------------------------------------------------------------------------- the wire


def wire_of(entry: Entry) -> list[Item]:
    """The whole answer; one item where it is not streamed."""
    make = {"openai": of_chat, "anthropic": of_messages, "gemini": of_generate}[entry.backend]
    return make(entry)


def event(value: Any, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(value, ensure_ascii=False)}\n\n".encode()


def of_chat(entry: Entry) -> list[Item]:
    told = entry.story
    usage = {"prompt_tokens": told.input, "completion_tokens": told.output, "total_tokens": told.input + told.output}
    calls = [(f"call_{entry.number}_{index}", name, json.dumps(arguments, ensure_ascii=index % 2 == 0))
             for index, (name, arguments) in enumerate(told.calls)]
    finish = "tool_calls" if calls else "stop"
    if not entry.streamed:
        made = [{"id": id_, "type": "function", "function": {"name": name, "arguments": text}}
                for id_, name, text in calls]
        message = {"role": "assistant", "content": told.text, **({"tool_calls": made} if made else {})}
        reply = openai.completion(message, finish=finish, usage=usage)
        return [Item(b"".join(step for step in reply.body if isinstance(step, bytes)), told.output)]
    items = [Item(event(openai.chunk({"role": "assistant", "content": ""})), content=False)]
    items += [Item(event(openai.chunk({"content": piece})), 1) for piece in told.pieces]
    for index, (id_, name, text) in enumerate(calls):
        items.append(Item(event(openai.chunk(openai.call_start(index, id_, name))), 1))
        cut = list(openai.cut(text, -(-len(text) // (CALL_TOKENS - 1))))
        items += [Item(event(openai.chunk(openai.call_arguments(index, piece))), 1) for piece in cut]
        items[-1].tokens += CALL_TOKENS - 1 - len(cut)
        items[-1].ends_call = True
    last = event(openai.chunk({}, finish=finish)), event(openai.chunk(usage=usage)), b"data: [DONE]\n\n"
    return items + [Item(data, content=False) for data in last]


def of_messages(entry: Entry) -> list[Item]:
    told = entry.story
    usage = {"input_tokens": told.input, "output_tokens": told.output}
    blocks: list[Any] = [anthropic.text_block(told.text)]
    blocks += [anthropic.tool_use_block(f"toolu_{entry.number}_{index}", name, arguments)
               for index, (name, arguments) in enumerate(told.calls)]
    stop = "tool_use" if told.calls else "end_turn"
    if not entry.streamed:
        whole = {**anthropic.head(usage), "content": blocks, "stop_reason": stop, "usage": usage}
        return [Item(json.dumps(whole).encode(), told.output)]
    items = []
    pieces = iter(told.pieces)
    for one in anthropic.events(blocks, stop=stop, usage=usage, pieces=40):
        kind = one["type"]
        if kind == "content_block_delta" and one["delta"]["type"] == "text_delta":
            continue  # pieces of its own
        tokens = CALL_TOKENS if kind == "content_block_start" and one["index"] else 0
        items.append(Item(event(one, kind), tokens, kind.startswith("content_block")))
        if kind == "content_block_start" and one["index"] == 0:
            items += [Item(event({"type": "content_block_delta", "index": 0,
                                  "delta": {"type": "text_delta", "text": piece}}, "content_block_delta"), 1)
                      for piece in pieces]
    return items


def of_generate(entry: Entry) -> list[Item]:
    told = entry.story
    calls = [{"functionCall": {"name": name, "args": arguments}} for name, arguments in told.calls]

    def usage(output: int) -> dict[str, int]:
        return {"promptTokenCount": told.input, "candidatesTokenCount": output, "totalTokenCount": told.input + output}

    if not entry.streamed:
        whole = gemini_wire.response([{"text": told.text}, *calls], finish="STOP", usage=usage(told.output))
        return [Item(json.dumps(whole).encode(), told.output)]
    items = [Item(event(gemini_wire.response([{"text": piece}], usage=usage(number))), 1)
             for number, piece in enumerate(told.pieces, 1)]
    items += [Item(event(gemini_wire.response([call], usage=usage(len(told.pieces) + CALL_TOKENS * number))),
                   CALL_TOKENS, ends_call=True) for number, call in enumerate(calls, 1)]
    last = gemini_wire.response([{"text": ""}], finish="STOP", usage=usage(told.output))
    return [*items, Item(event(last), content=False)]


def refusal(backend: str, code: int) -> Reply:
    if backend == "anthropic":
        return anthropic.status(code, anthropic.anthropic_error("api_error", SAID), {"retry-after": "1"})
    if backend == "gemini":
        return gemini_wire.error(code, SAID)
    return openai.status(code, openai.openai_error(SAID), {"retry-after": "1"})


def error_inside(entry: Entry) -> bytes:
    """An error under status 200."""
    value: Any = {"anthropic": anthropic.anthropic_error("overloaded_error", SAID),
                  "gemini": gemini_wire.error_body(503, SAID)}.get(
                      entry.backend, {"error": {"message": SAID, "code": 503}})
    if not entry.streamed:
        return json.dumps(value).encode()
    return event(value, "error" if entry.backend == "anthropic" else "")
