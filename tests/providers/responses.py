"""A strict, scripted provider of the Responses API: requests in, scripted responses out, every request recorded.

A test gives it a script (`provider.script(text("hi"), status(429), ...)`), as `tests.providers.openai` has it. A
request that OpenAI would refuse gets a 400 in its words and is kept in `provider.violations` (`responses_rules`).
Encrypted reasoning is accepted only if this provider issued it. Nothing is stored.
"""

from __future__ import annotations

import itertools
import json as jsonlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from tests.providers.http import Exchange, Gate, Reply
from tests.providers.openai import EVENT_STREAM, JSON, cut, json, openai_error, raw, status
from tests.providers.responses_rules import Item, refusal
from tests.providers.scripted import JsonRecord, ScriptedProvider, decoded

__all__ = ["JSON", "Answer", "ResponsesProvider", "calls", "custom_call", "error_event", "events_of", "failed_event",
           "function_call", "json", "message", "openai_error", "raw", "reasoning", "respond", "response", "sse",
           "status", "text"]

USAGE = {"input_tokens": 21, "input_tokens_details": {"cached_tokens": 8, "cache_write_tokens": 0},
         "output_tokens": 12, "output_tokens_details": {"reasoning_tokens": 5}, "total_tokens": 33}
CREATED = 1700000000


class Seen(JsonRecord):
    """A recorded request. `seal` makes encrypted reasoning that the provider takes back."""

    seal: Callable[[], str]

    @property
    def items(self) -> list[Item]:
        found: list[Item] = self.body["input"]
        return found


Answer = Reply | Callable[[Seen], Reply]


class ResponsesProvider(ScriptedProvider[Seen]):
    """See the module's docstring. `only_functions`: a third party that takes no other tools."""

    def __init__(self, *, strict: bool = True, only_functions: bool = False) -> None:
        super().__init__(strict=strict)
        self.only_functions = only_functions
        self.issued: list[str] = []
        self._count = itertools.count()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def clear(self) -> None:
        super().clear()
        self.issued = []

    def judge(self, exchange: Exchange) -> tuple[Seen, Reply | None]:
        seen = Seen(exchange, decoded(exchange.raw))
        seen.seal = self._seal
        if exchange.method == "GET" and exchange.path.endswith("/models"):
            return seen, json({"object": "list", "data": []})
        if not exchange.path.partition("?")[0].endswith("/responses") or exchange.method != "POST":
            seen.violation = f"Invalid URL ({exchange.method} {exchange.path})"
            return seen, status(404, openai_error(seen.violation))
        refused = refusal(seen.body, self.issued, only_functions=self.only_functions)
        seen.violation = refused.message if refused else _misaddressed(exchange)
        if seen.violation is not None:
            return seen, status(400, refused.body() if refused else openai_error(seen.violation))
        return seen, None

    def out_of_script(self) -> Reply:
        return status(500, openai_error("the script of this test has no further answer"))

    def _seal(self) -> str:
        made = f"gAAAAAB{next(self._count):04d}_-=="
        self.issued.append(made)
        return made


def _misaddressed(exchange: Exchange) -> str | None:
    if "application/json" not in exchange.headers.get("content-type", ""):
        return "the content type is not application/json"
    if "x-api-key" in exchange.headers or "anthropic-version" in exchange.headers:
        return "a header of another API"
    return None


# ---------------------------------------------------------------------------------------------------------------- items
def message(*texts: str, phase: str | None = None, number: int = 0) -> Item:
    parts = [{"type": "output_text", "text": text, "annotations": [], "logprobs": []} for text in texts]
    item = {"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant", "content": parts}
    return item if phase is None else {**item, "phase": phase}


def reasoning(*summary: str, encrypted: str | None = None, number: int = 0) -> Item:
    item: Item = {"type": "reasoning", "id": f"rs_{number}",
                  "summary": [{"type": "summary_text", "text": text} for text in summary]}
    return item if encrypted is None else {**item, "encrypted_content": encrypted}


def function_call(call_id: str, name: str, arguments: Any, *, number: int = 0, state: str = "completed") -> Item:
    """`arguments`: JSON text, or a value that is written as JSON."""
    written = arguments if isinstance(arguments, str) else jsonlib.dumps(arguments)
    return {"type": "function_call", "id": f"fc_{number}", "status": state, "call_id": call_id, "name": name,
            "arguments": written}


def custom_call(call_id: str, name: str, text: str, *, number: int = 0, state: str = "completed") -> Item:
    return {"type": "custom_tool_call", "id": f"ctc_{number}", "status": state, "call_id": call_id, "name": name,
            "input": text}


def response(items: Sequence[Item], *, state: str = "completed", incomplete: str | None = None,
             usage: Mapping[str, Any] | None = USAGE, error: Any = None, model: str = "scripted") -> dict[str, Any]:
    """A whole response object."""
    return {"id": "resp_1", "object": "response", "created_at": CREATED, "model": model, "status": state,
            "output": list(items), "error": error, "usage": None if usage is None else dict(usage),
            "incomplete_details": None if incomplete is None else {"reason": incomplete}, "instructions": None,
            "metadata": {}, "parallel_tool_calls": True, "temperature": 1.0, "tool_choice": "auto", "tools": [],
            "top_p": 1.0, "store": False, "previous_response_id": None}


# --------------------------------------------------------------------------------------------------------------- events
def events_of(whole: Mapping[str, Any], *, pieces: int = 5) -> list[dict[str, Any]]:
    """The events of a stream with this response, in the service's own grammar."""
    begun = {**whole, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": begun},
                                    {"type": "response.in_progress", "response": begun}]
    for index, item in enumerate(whole["output"]):
        events += item_events(index, item, pieces=pieces)
    end = {"incomplete": "response.incomplete", "failed": "response.failed"}.get(whole["status"], "response.completed")
    events.append({"type": end, "response": dict(whole)})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]


def item_events(index: int, item: Item, *, pieces: int = 5) -> list[dict[str, Any]]:
    """The events of one item."""
    at = {"output_index": index, "item_id": item["id"]}
    empty = {name: type(value)() if name in ("content", "summary", "arguments", "input") else value
             for name, value in item.items() if name != "encrypted_content"}
    events: list[dict[str, Any]] = [{"type": "response.output_item.added", "output_index": index,
                                     "item": {**empty, "status": "in_progress"}}]
    for number, part in enumerate(item.get("content", ())):
        name, field = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
        place = {**at, "content_index": number}
        events.append({"type": "response.content_part.added", **place, "part": {**part, field: ""}})
        events += [{"type": f"response.{name}.delta", **place, "delta": piece, "obfuscation": "xx"}
                   for piece in cut(part[field], pieces)]
        events += [{"type": f"response.{name}.done", **place, field: part[field]},
                   {"type": "response.content_part.done", **place, "part": part}]
    for number, part in enumerate(item.get("summary", ())):
        place = {**at, "summary_index": number}
        events.append({"type": "response.reasoning_summary_part.added", **place, "part": {**part, "text": ""}})
        events += [{"type": "response.reasoning_summary_text.delta", **place, "delta": piece}
                   for piece in cut(part["text"], pieces)]
        events += [{"type": "response.reasoning_summary_text.done", **place, "text": part["text"]},
                   {"type": "response.reasoning_summary_part.done", **place, "part": part}]
    for field, name in (("arguments", "function_call_arguments"), ("input", "custom_tool_call_input")):
        if isinstance(item.get(field), str):
            events += [{"type": f"response.{name}.delta", **at, "delta": piece} for piece in cut(item[field], pieces)]
            events.append({"type": f"response.{name}.done", **at, field: item[field]})
    return [*events, {"type": "response.output_item.done", "output_index": index, "item": item}]


def error_event(message: str, code: str = "server_error") -> dict[str, Any]:
    """The flat event `error`."""
    return {"type": "error", "code": code, "message": message, "param": None}


def failed_event(message: str, code: str = "server_error") -> dict[str, Any]:
    return {"type": "response.failed", "response": response([], state="failed", usage=None,
                                                            error={"code": code, "message": message})}


def sse(events: Sequence[Mapping[str, Any] | str | Gate], *, end: Literal["end", "cut", "reset", "hang"] = "end",
        newline: str = "\n", named: bool = True) -> Reply:
    """Events as a stream; a string is raw text of it. `named`: with `event:` lines."""
    return raw([item if isinstance(item, Gate) else written(item, newline=newline, named=named) for item in events],
               end=end, headers=EVENT_STREAM)


def written(event: Mapping[str, Any] | str, *, newline: str = "\n", named: bool = True, ascii: bool = False) -> bytes:
    """One event as bytes."""
    if isinstance(event, str):
        return event.encode()
    head = f"event: {event['type']}{newline}" if named else ""
    return f"{head}data: {jsonlib.dumps(event, ensure_ascii=ascii)}{newline}{newline}".encode()


# ------------------------------------------------------------------------------------------------------------ responses
def respond(items: Callable[[Seen], Sequence[Item]], *, pieces: int = 5, usage: Mapping[str, Any] | None = USAGE,
            state: str = "completed", incomplete: str | None = None) -> Answer:
    """These items, as a stream if the request asks for one."""
    def answer(seen: Seen) -> Reply:
        whole = response(items(seen), state=state, incomplete=incomplete, usage=usage)
        return sse(events_of(whole, pieces=pieces)) if seen.body.get("stream") else json(whole)
    return answer


def _thought(seen: Seen, thinking: str) -> list[Item]:
    """Reasoning, encrypted if the request asks for that; its summary if the request asks for one."""
    if not thinking:
        return []
    wanted = "reasoning.encrypted_content" in (seen.body.get("include") or ())
    shown = (seen.body.get("reasoning") or {}).get("summary") is not None
    return [reasoning(*([thinking] if shown else []), encrypted=seen.seal() if wanted else None)]


def text(content: str, *, thinking: str = "", pieces: int = 5, usage: Mapping[str, Any] | None = USAGE,
         state: str = "completed", incomplete: str | None = None) -> Answer:
    return respond(lambda seen: [*_thought(seen, thinking), message(content)], pieces=pieces, usage=usage, state=state,
                   incomplete=incomplete)


def calls(*wanted: tuple[str, str, Any], content: str = "", thinking: str = "", pieces: int = 7,
          usage: Mapping[str, Any] | None = USAGE) -> Answer:
    """Function calls as (call_id, name, arguments), behind an optional text and reasoning."""
    def items(seen: Seen) -> list[Item]:
        return [*_thought(seen, thinking), *([message(content)] if content else []),
                *(function_call(*call, number=number) for number, call in enumerate(wanted))]
    return respond(items, pieces=pieces, usage=usage)
