"""The events of a Responses stream as bytes: their numbers, the item and place of each one, the response object.

The base of the encoder in `response`, which decides which event comes when. `created_at` is always 0: the core has no
clock, and the same response is the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from extproc.apis.responses.client.calls import OpenCall
from extproc.apis.responses.client.request import ResponsesRequest
from extproc.apis.responses.client.sources import Annotation
from extproc.apis.responses.wire_response import write_usage
from extproc.apis.shared.client_responses import Estimate
from extproc.conversation.model import Request, Usage

CREATED = 0

_DEFAULTS: dict[str, object] = {
    "instructions": None, "metadata": {}, "tools": [], "tool_choice": "auto", "parallel_tool_calls": True,
    "temperature": None, "top_p": None, "max_output_tokens": None, "reasoning": {"effort": None, "summary": None},
    "text": {"format": {"type": "text"}}, "truncation": "disabled", "service_tier": "default", "user": None}
"""Members of the response object that repeat the request, where the request does not have them."""

_encode = msgspec.json.Encoder().encode

Fields = dict[str, object]


class OpenItem(msgspec.Struct):
    """The item that is being written. `announced`: its first event was sent."""

    kind: str
    id_prefix: str
    call: OpenCall | None = None
    redacted: str | None = None
    signature: str | None = None
    announced: bool = False
    annotations: list[Annotation] = []


class EventWriter:
    """Writes single events. Keeps what their members repeat: the finished items, the open one, request fields."""

    def __init__(self, request: Request, message_id: str, prompt_estimate: Callable[[], int]) -> None:
        self._base = message_id.removeprefix("msg_")
        self._model = request.model
        self._echo: dict[str, msgspec.Raw] = request.echo if isinstance(request, ResponsesRequest) else {}
        self._estimate = Estimate(prompt_estimate)
        self._number = 0    # of the next event
        self._items: list[msgspec.Raw] = []     # the items that are done
        self._open: OpenItem | None = None
        self._delta: type | None = None     # the delta event with a fast path, and the bytes around its number and text
        self._before = self._between = self._after = b""

    def _response_object(self, status: str, *, usage: Usage | None = None, error: object = None,
                         incomplete: str | None = None) -> Fields:
        """The response with the items that are done."""
        echo = {name: self._echo.get(name, default) for name, default in _DEFAULTS.items()}
        return {
            "id": f"resp_{self._base}", "object": "response", "created_at": CREATED, "status": status,
            "background": False, "error": error,
            "incomplete_details": None if incomplete is None else {"reason": incomplete},
            "model": self._model, "output": self._items, "previous_response_id": None, "store": False, **echo,
            **{name: value for name, value in self._echo.items() if name not in _DEFAULTS},
            "usage": None if usage is None else self._usage(usage)}

    def _usage(self, usage: Usage) -> Fields:
        """A provider's prompt of 0 tokens counts as missing: the estimate is used."""
        prompt = usage.input if usage.input > 0 else self._estimate()
        return write_usage(Usage(prompt, max(0, usage.output), max(0, usage.cached), max(0, usage.cache_write),
                                 max(0, usage.reasoning)))

    def _item_id(self, item: OpenItem) -> str:
        return f"{item.id_prefix}_{self._base}_{len(self._items)}"

    def _event(self, name: str, fields: Fields) -> bytes:
        rest = _encode(fields)
        return self._raw_event(name, b"," + rest[1:-1] if len(rest) > 2 else b"")

    def _raw_event(self, name: str, rest: bytes) -> bytes:
        number, self._number = self._number, self._number + 1
        return b'event: %b\ndata: {"type":"%b","sequence_number":%d%b}\n\n' % (name.encode(), name.encode(), number,
                                                                             rest)

    def _content_event(self, name: str, fields: Fields) -> bytes:
        """An event inside the open item."""
        assert self._open is not None
        return self._event(name, {"item_id": self._item_id(self._open), "output_index": len(self._items), **fields})

    def _delta_event(self, text: str) -> bytes:
        number, self._number = self._number, self._number + 1
        return b"%b%d%b%b%b" % (self._before, number, self._between, _encode(text), self._after)

    def _event_of_part(self, name: str, index: int = 0, part: Fields | None = None) -> bytes:
        return self._content_event(name, {"content_index": index, "part": part})

    def _take_fast_path(self, delta: type, name: str, index: bytes, tail: bytes) -> None:
        """The deltas that follow are this event. `index`, `tail`: members before and behind the text."""
        self._delta = delta
        self._prepare_delta(name, index, tail)

    def _prepare_delta(self, name: str, index: bytes, tail: bytes) -> None:
        """The bytes around the number and the text of a delta."""
        assert self._open is not None
        wire = name.encode()
        self._before = b'event: %b\ndata: {"type":"%b","sequence_number":' % (wire, wire)
        self._between = b',"item_id":%b,"output_index":%d%b,"delta":' % (
            _encode(self._item_id(self._open)), len(self._items), index)
        self._after = tail + b"}\n\n"
