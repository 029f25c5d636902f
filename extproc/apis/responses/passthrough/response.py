"""A Responses response that passes: every event of the provider becomes an event of the client.

Changed are the model's name and reasoning (`reasoning`). Usage, calls, the end and errors are read. An error of the
provider, in whatever form, and a stream that breaks off end in `response.failed`, because clients ignore everything
else; before the first content it is a status. So does a completed response without any item. Unknown events pass.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from extproc.apis.base import DecodeContext, ResponseDecoder, ResponseEncoder
from extproc.apis.responses.client.errors import stream_error
from extproc.apis.responses.passthrough.calls import PassedCalls
from extproc.apis.responses.passthrough.reasoning import wrap_reasoning
from extproc.apis.responses.wire_response import INCOMPLETE_REASONS, read_usage
from extproc.apis.shared.endings import EMPTY_OUTPUT, EndFacts, failure_at_end
from extproc.apis.shared.json_fields import Fields, elements_of, encode_fields, encode_raw, fields_of, has_value
from extproc.apis.shared.passthrough import PassThroughDecoder, PassThroughEncoder, valid_utf8, without_line_ends
from extproc.apis.shared.provider_errors import complaint_of, failure_from_chunk
from extproc.conversation.model import Event, FinishReason
from extproc.errors import Failure

KEEP_ALIVE = b'event: keepalive\ndata: {"type":"keepalive"}\n\n'
"""Without a number: those of the provider's events stay without gaps."""

_WHOLE = (encode_raw("completed"), encode_raw("incomplete"))
"""The statuses of a response that is complete."""
_ENDS = {"response.completed": "completed", "response.incomplete": "incomplete"}
_ARGUMENTS = ("response.function_call_arguments.delta", "response.custom_tool_call_input.delta")
_FAILURES = ("error", "response.failed", "response.cancelled")
_BEFORE_CONTENT = frozenset({"response.created", "response.queued", "response.in_progress", "keepalive"})


class _EventFields(msgspec.Struct):
    """The members of an event that are read."""

    type: str = ""
    sequence_number: Any = None
    output_index: Any = None
    delta: Any = None
    response: msgspec.Raw = msgspec.Raw()
    item: msgspec.Raw = msgspec.Raw()


class _Ended(msgspec.Struct):
    """The members of a response that is complete."""

    status: Any = None
    usage: Any = None
    incomplete_details: Any = None
    error: Any = None


_fields = msgspec.json.Decoder(_EventFields)
_ended = msgspec.json.Decoder(_Ended)


class ResponsesPassThroughDecoder(PassThroughDecoder):
    """One response."""

    def __init__(self, context: DecodeContext, decoder: ResponseDecoder) -> None:
        super().__init__(context, decoder)
        self.next_number = 0
        """The number of the next event; 0: no event was forwarded."""
        self.begun = b"{}"
        """The response in the first event."""
        self._has_items = False
        """An event of an item was forwarded."""
        self._name = encode_raw(context.request.model)
        self._calls = PassedCalls(self._new_id, self._count_unoffered, context.request.tools)

    def _pass_event(self, name: bytes, payload: bytes) -> None:
        if not payload or payload.isspace() or payload.strip() == b"[DONE]":
            return
        payload = valid_utf8(without_line_ends(payload))
        try:
            event = _fields.decode(payload)
        except (msgspec.DecodeError, RecursionError) as problem:
            self._fail(Failure("server", f"The provider sent a damaged event: {problem}."))
            return
        kind = event.type or name.decode("ascii", "replace")
        if kind in _FAILURES:
            self._fail(failure_from_chunk(_complaint(payload, event.response)))
            return
        if kind == "response.completed" and not self._has_items and _lacks_items(event.response):
            self._fail(EMPTY_OUTPUT)
            return
        self.next_number = (event.sequence_number if isinstance(event.sequence_number, int) else self.next_number) + 1
        calls = self._calls.count
        index = event.output_index if isinstance(event.output_index, int) else -1
        self._has_items = self._has_items or bool(event.item)
        if event.response:
            payload = self._with_response(payload, event.response)
        elif event.item:
            payload = self._with_item(payload, event.item, index)
        elif kind in _ARGUMENTS and isinstance(event.delta, str):
            self._check_length(*self._calls.add_arguments(index, event.delta))
        if self._ended:
            return
        self._pass(b"event: %b\ndata: %b\n\n" % (kind.encode(), payload), content=kind not in _BEFORE_CONTENT,
                   calls=self._calls.count - calls)
        if kind in _ENDS:
            self._finish(event.response)

    def _no_more_events(self) -> None:
        failure = failure_at_end("end of stream", EndFacts(finish_reason=False, nothing_came=not self._content_seen))
        self._fail(failure or Failure("server", "The provider's response ended before it was complete."))

    def _pass_body(self, body: bytes) -> bool:
        fields = fields_of(body)
        if fields is None or has_value(fields.get("error")) or "output" not in fields \
                or fields.get("status") not in _WHOLE:
            return False
        if fields["status"] == _WHOLE[0] and _lacks_items(msgspec.Raw(body)):
            self._fail(EMPTY_OUTPUT)
            return True
        self._set_own_fields(fields)
        self._pass(valid_utf8(encode_fields(fields)), content=True, calls=self._calls.count)
        self._finish(msgspec.Raw(body))
        return True

    def _with_item(self, payload: bytes, item: msgspec.Raw, index: int) -> bytes:
        changed = self._changed_item(index, item)
        return payload if changed is item else encode_fields({**(fields_of(payload) or {}), "item": changed})

    def _changed_item(self, index: int, item: msgspec.Raw) -> msgspec.Raw:
        """The item for the client; the same object if nothing changes."""
        return self._calls.with_new_id(index, wrap_reasoning(item, self._context.target))

    def _set_own_fields(self, members: Fields) -> None:
        """The name that the client asked for, reasoning in the client's envelope, ids of calls."""
        members["model"] = self._name
        output = elements_of(members["output"]) if "output" in members else None
        if output:
            members["output"] = encode_raw([self._changed_item(index, item) for index, item in enumerate(output)])

    def _with_response(self, payload: bytes, response: msgspec.Raw) -> bytes:
        members = fields_of(response)
        if members is None:
            return payload
        self._set_own_fields(members)
        response = msgspec.Raw(encode_fields(members))
        if self.next_number == 1:
            self.begun = bytes(response)
        return encode_fields({**(fields_of(payload) or {}), "response": response})

    def _finish(self, response: msgspec.Raw) -> None:
        try:
            ended = _ended.decode(response)
        except msgspec.DecodeError:
            ended = _Ended()
        usage = read_usage(ended.usage)
        if usage is None:
            self._estimate_usage(0)
        else:
            self._usage = usage
        details = ended.incomplete_details
        why = details.get("reason") if isinstance(details, dict) else None
        reason: FinishReason = "stop"
        if ended.status == "incomplete":
            reason = INCOMPLETE_REASONS.get(why, "length") if isinstance(why, str) else "length"
        self._end(reason, calls=self._calls.count > 0)


def _lacks_items(response: msgspec.Raw) -> bool:
    """True for a response with an empty `output`."""
    fields = fields_of(response) if response else None
    return fields is not None and elements_of(fields.get("output", msgspec.Raw(b"[]"))) == []


def _complaint(payload: bytes, response: msgspec.Raw) -> dict[str, Any]:
    """What an error event says: in `response.error`, in `error`, or flat."""
    found = complaint_of(bytes(response)) if response else None
    if found is None:
        found = complaint_of(payload)
    if found is None:
        flat = msgspec.json.decode(payload)
        found = {"error": {name: flat.get(name) for name in ("code", "message", "type")}}
    return found


class ResponsesPassThroughEncoder(PassThroughEncoder):
    """Ends a response that fails while it passes with the API's own event, which continues what `decoder` forwarded."""

    def __init__(self, encoder: ResponseEncoder, decoder: ResponsesPassThroughDecoder, *, stream: bool) -> None:
        super().__init__(encoder, KEEP_ALIVE, stream=stream)
        self._decoder = decoder

    def encode_events(self, events: Iterable[Event]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if isinstance(event, Failure) and self._stream and self._decoder.next_number:
                out.append(self._failed_event(event))
            else:
                out.append(super().encode_events([event]))
        return b"".join(out)

    def _failed_event(self, failure: Failure) -> bytes:
        response = {**(fields_of(self._decoder.begun) or {}), "status": encode_raw("failed"),
                    "error": encode_raw(stream_error(failure))}
        return b'event: response.failed\ndata: {"type":"response.failed","sequence_number":%d,"response":%b}\n\n' % (
            self._decoder.next_number, encode_fields(response))
