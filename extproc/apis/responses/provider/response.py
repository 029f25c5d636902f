"""Responses of the Responses API, streamed or whole: provider bytes -> conversation events.

Created by `ProviderApi.response_decoder` for every 2xx response. The first byte of the body decides whether it is an
event stream or one JSON object. `events.py` reads the records, `output.py` puts the items in order,
`extproc.conversation.sequencer` the blocks, `extproc.apis.shared.endings` decides how the response ends.

A stream is complete with `response.completed` or `response.incomplete`, which are the only finish reasons of this API.
`response.failed`, `response.cancelled` and `error` are failures, and so is any other end. Unknown events are ignored:
servers send keep-alives, rate limits and events of their own.
"""

from __future__ import annotations

from collections.abc import Callable

from extproc.apis.base import DecodeContext
from extproc.apis.responses.provider.events import InvalidEvent, decode_event, decode_response
from extproc.apis.responses.provider.output import OutputItems
from extproc.apis.responses.provider.signatures import pack_reasoning
from extproc.apis.responses.wire_response import ResponseEvent, ResponseObject, read_usage
from extproc.apis.shared.endings import BROKEN, CLEAN, EndFacts
from extproc.apis.shared.json_text import HalfPair
from extproc.apis.shared.provider_errors import complaint_of, failure_from_chunk
from extproc.apis.shared.response_reader import ResponseReader
from extproc.conversation.model import FinishReason
from extproc.errors import Failure

CANCELLED = Failure("server", "The provider cancelled the response.")


class ResponsesDecoder(ResponseReader):
    """One response. `ResponseDecoder` in apis/base.py has the contract."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context)
        self.seq = self._seq
        self._items = OutputItems(self)
        self._reason: FinishReason = "stop"
        self._has_text = False
        self._seals: list[str] = []
        """Signatures of reasoning without a summary, which wait for a call."""

    # ------------------------------------------------------------------------------------------------------- events

    def _event(self, name: bytes, payload: bytes) -> None:
        if not payload.startswith(b"{"):
            if not payload or payload.isspace():  # a keep-alive
                return
            if payload.strip() == b"[DONE]":  # not of this API, but some servers send it
                self._end_of_stream()
                return
        try:
            event = decode_event(payload)
        except HalfPair:
            self._wait_for_half(name, payload)
            return
        except InvalidEvent as problem:
            self._seq.fail(Failure("server", f"The provider sent a damaged event: {problem}."))
            return
        kind = event.type if isinstance(event.type, str) else name.decode("utf-8", "replace")
        handler = _HANDLERS.get(kind)
        if handler is not None:
            handler(self, event)
        elif not kind and (complaint := complaint_of(payload)) is not None:  # a proxy's error
            self._seq.fail(failure_from_chunk(complaint))

    def _begin(self, event: ResponseEvent) -> None:
        if not self._seq.started:
            response = event.response or ResponseObject()
            self._seq.start(_text_or_none(response.id), _text_or_none(response.model))

    def _add_item(self, event: ResponseEvent) -> None:
        self._begin(event)
        self._items.add(event)

    def _finish_item(self, event: ResponseEvent) -> None:
        self._begin(event)
        self._items.finish(event)

    def _add_text(self, event: ResponseEvent) -> None:
        self._begin(event)
        self._items.delta("text", event, event.content_index)

    def _add_refusal(self, event: ResponseEvent) -> None:
        self._begin(event)
        self._items.delta("refusal", event, event.content_index)

    def _add_summary(self, event: ResponseEvent) -> None:
        self._begin(event)
        self._items.delta("summary", event, event.summary_index)

    def _add_reasoning(self, event: ResponseEvent) -> None:
        self._begin(event)
        self._items.delta("content", event, event.content_index)

    def _add_arguments(self, event: ResponseEvent) -> None:
        self._begin(event)
        self._items.delta("arguments", event, None)

    def _add_input(self, event: ResponseEvent) -> None:
        self._begin(event)
        self._items.delta("input", event, None)

    # ------------------------------------------------------------------------------------- for the items: see `Sink`

    def write_text(self, text: str) -> None:
        self._has_text = self._has_text or not text.isspace()
        self._content(text)

    def write_reasoning(self, text: str) -> None:
        self._reasoning_text(text)

    def begin_call(self) -> None:
        if self._scanner is not None:
            self._scanner.pause(for_call=True)
        seals, self._seals = self._seals, []
        for seal in seals:
            self._seq.redacted_thinking(seal)

    def sign(self, encrypted: str) -> None:
        """The signature of the thinking block that is open, else a block of its own. Behind text such a block may
        stand only before a call: clients take the last block for the answer."""
        if self._scanner is not None:
            self._scanner.pause()
        seal = pack_reasoning(encrypted, self._context.target)
        if self._seq.signature(seal):
            return
        if self._has_text or self._seq.has_calls:
            self._seals.append(seal)
        else:
            self._seq.redacted_thinking(seal)

    def flat_name(self, namespace: str, name: str) -> str:
        flat = f"{namespace}__{name}"
        return flat if flat in self._context.names.to_client else name

    def lose(self, kind: str) -> None:
        self._context.dropped.loss(f"response.{kind}")

    # ---------------------------------------------------------------------------------------------------- the ending

    def _end_response(self, event: ResponseEvent) -> None:
        """`response.completed` and `response.incomplete`."""
        self._begin(event)
        response = event.response or ResponseObject()
        if response.status is None and event.type == "response.incomplete":
            response.status = "incomplete"
        self._take_response(response)
        if not self._seq.closed:
            self._end("end mark", EndFacts(finish_reason=True))

    def _take_response(self, response: ResponseObject) -> None:
        self._set_usage(read_usage(response.usage))
        self._items.finish_all(response.output)
        self._reason = response.finish_reason

    def _fail_response(self, event: ResponseEvent) -> None:
        """`response.failed`."""
        response = event.response or ResponseObject(error=event.error)
        self._set_usage(read_usage(response.usage))
        self._seq.fail(failure_from_chunk({"error": response.error or {}}))

    def _cancel(self, event: ResponseEvent) -> None:
        self._seq.fail(CANCELLED)

    def _take_error(self, event: ResponseEvent) -> None:
        """`error` is flat; some servers nest it as in an HTTP error."""
        said = event.error if isinstance(event.error, dict) else {"code": event.code, "message": event.message}
        self._seq.fail(failure_from_chunk({"error": said}))

    def _end_of_stream(self) -> None:
        self._end("end of stream", EndFacts(finish_reason=False, nothing_came=not self._seq.started))

    def _complete(self) -> None:
        reason: FinishReason = "refusal" if self._items.refused and self._reason == "stop" else self._reason
        clean = reason in CLEAN
        if self._scanner is not None:
            self._scanner.finish(clean)
            if self._seq.closed:
                return
        if self._seals:
            self._context.dropped.hint("response.reasoning.encrypted_content")
        self._finish(reason, truncated=self._seq.flush(clean))

    # ----------------------------------------------------------------------------------------------------- whole JSON

    def _whole_json(self, body: bytes) -> None:
        try:
            response = decode_response(body)
        except InvalidEvent as problem:
            self._seq.fail(Failure("server", f"The provider's response is not valid JSON: {problem}."))
            return
        if response.error or response.status == "failed" or response.output is None:
            complaint = {"error": response.error} if response.error else complaint_of(body)
            self._seq.fail(failure_from_chunk(complaint or {}))
            return
        if response.status == "cancelled":
            self._seq.fail(CANCELLED)
            return
        if response.status in ("in_progress", "queued"):
            self._seq.fail(BROKEN)
            return
        self._seq.start(_text_or_none(response.id), _text_or_none(response.model))
        self._take_response(response)
        if not self._seq.closed:
            self._end("whole body", EndFacts(finish_reason=response.status is not None,
                                             open_call=self._seq.incomplete_call))


_HANDLERS: dict[str, Callable[[ResponsesDecoder, ResponseEvent], None]] = {
    "response.created": ResponsesDecoder._begin,
    "response.in_progress": ResponsesDecoder._begin,
    "response.output_item.added": ResponsesDecoder._add_item,
    "response.output_item.done": ResponsesDecoder._finish_item,
    "response.output_text.delta": ResponsesDecoder._add_text,
    "response.refusal.delta": ResponsesDecoder._add_refusal,
    "response.reasoning_summary_text.delta": ResponsesDecoder._add_summary,
    "response.reasoning_text.delta": ResponsesDecoder._add_reasoning,
    "response.function_call_arguments.delta": ResponsesDecoder._add_arguments,
    "response.custom_tool_call_input.delta": ResponsesDecoder._add_input,
    "response.completed": ResponsesDecoder._end_response,
    "response.incomplete": ResponsesDecoder._end_response,
    "response.failed": ResponsesDecoder._fail_response,
    "response.cancelled": ResponsesDecoder._cancel,
    "error": ResponsesDecoder._take_error,
}


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
