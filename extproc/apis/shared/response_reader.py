"""The base of the decoders of responses: the sequencer of blocks, the dialects' scanner, the ids of calls, usage.

A subclass reads the fields of its API and calls `_content`, `_reasoning_text` and the sequencer; `BodyReader` does the
framing. Some servers cut text between the halves of a surrogate pair: an event that ends in half of one waits for the
next event (`_wait_for_half`). This module knows no API's fields.
"""

from __future__ import annotations

import re
from functools import partial

from extproc.apis.base import DecodeContext
from extproc.apis.shared.body_reader import BodyReader
from extproc.apis.shared.endings import EndedBy, EndFacts, client_finish_reason, failure_at_end, failure_without_output
from extproc.apis.shared.json_text import joined_halves, without_half_pairs
from extproc.apis.shared.provider_errors import decode_error
from extproc.conversation.model import Citations, Event, FinishReason, Refusal, Usage
from extproc.conversation.sequencer import BlockSequencer
from extproc.errors import Failure

_ERROR = re.compile(rb'"error"\s*:\s*[{"]')
"""The error field of every API, if it has a value. (Quotes inside a text are escaped.)"""


class ResponseReader(BodyReader):
    """The base of a `ResponseDecoder` (see apis/base.py). `_content` and `_reasoning_text` take the model's text and
    reasoning."""

    def __init__(self, context: DecodeContext) -> None:
        super().__init__(context.limits)
        self.usage = Usage()
        self._context = context
        offered = context.names.to_client if context.target.tool_style != "off" else {}
        self._seq = BlockSequencer(self._call_id, context.names.client_name, offered,
                                   context.limits.held_back, context.limits.tool_arguments)
        self._seq.repair_arguments = context.repair_arguments
        self._seq.tally = context.tally
        self._seq.report_lost_signature = partial(context.dropped.hint, "response.thoughtSignature")
        self._seq.report_dropped_call = context.dropped.loss
        self._scanner = context.scanner(self._seq)
        self._content = self._seq.text if self._scanner is None else self._scanner.feed_content
        self._reasoning_text = self._seq.thinking if self._scanner is None else self._scanner.feed_reasoning
        self._got_usage = False
        self._halved: tuple[bytes, bytes] | None = None
        """The event that waits for the second half of a surrogate pair: its name and its JSON."""

    def _may_list_sources(self, reason: FinishReason, said_text: bool) -> bool:
        """True if a list of sources may be appended to the text: not after calls, and not to structured output, which
        the client parses."""
        return (reason in ("stop", "length") and said_text and not self._seq.has_calls
                and self._context.request.output_format is None)

    # --------------------------------------------------------------------------------------------- halves of a pair

    def _wait_for_half(self, name: bytes, payload: bytes) -> None:
        """Keeps an event with a string that ends in half of a surrogate pair; the next event may begin with the other
        half. An error is not kept: often nothing follows it, although the connection stays open."""
        if name == b"error" or _ERROR.search(payload):
            self._event(name, without_half_pairs(payload))
            return
        self._halved = name, payload
        self._deliver = self._on_event_after_half

    def _on_event_after_half(self, name: bytes, payload: bytes) -> None:
        """The event after one that waits."""
        if name == b"ping" or not payload or payload.isspace():  # has no content, and may come at any place
            return
        assert self._halved is not None
        waited, text = self._halved
        self._halved = None
        self._deliver = self._event
        text, payload = joined_halves(text, payload)
        self._event(waited, text)
        if not self._is_closed():
            self._event(name, payload)

    def _on_last_event(self) -> None:
        if self._halved is not None:
            (name, payload), self._halved = self._halved, None
            self._deliver = self._event
            self._event(name, without_half_pairs(payload))

    # --------------------------------------------------------------------------------------------- for the subclasses

    @property
    def unoffered_calls(self) -> int:
        return self._seq.unoffered

    @property
    def received_output(self) -> bool:
        return self._seq.received_output or (self._scanner is not None and self._scanner.received_output)

    def _set_usage(self, usage: Usage | None) -> None:
        if usage is not None:  # figures are cumulative: the last ones count
            self.usage = usage
            self._got_usage = True

    def _end(self, ended_by: EndedBy, facts: EndFacts) -> None:
        """Ends the response, complete or failed, by the table in `endings`."""
        failure = failure_at_end(ended_by, facts)
        if failure is None:
            self._complete()
        else:
            self._seq.fail(failure)

    def _whole(self, body: bytes) -> None:
        if body[:1] == b"<":  # a page in HTML, from a proxy
            self._seq.fail(decode_error(200, {}, body))
        else:
            self._whole_json(body)

    def _whole_json(self, body: bytes) -> None:
        """A whole body, which begins with `{` or `[`. It ends the response."""
        raise NotImplementedError

    def _complete(self) -> None:
        """Sends held-back text, and then the end with `_finish`."""
        raise NotImplementedError

    def _finish(self, reason: FinishReason, *, truncated: bool, stop_sequence: str | None = None,
                citations: Citations | None = None, refusal: Refusal | None = None) -> None:
        """Ends a complete response. `truncated`: its last call broke off. Usage is estimated if the provider sent no
        figures. A response without the output that the client requires fails."""
        if not self._got_usage:
            self.usage = Usage(input=self._context.prompt_estimate(), output=self._seq.characters // 4,
                               estimated=True)
        reason = client_finish_reason(reason, calls=self._seq.calls > 0, truncated_call=truncated)
        failure = failure_without_output(self._context.request.requires, reason, block=self._seq.has_blocks,
                                         text=self._seq.has_text)
        if failure is not None:
            self._seq.fail(failure)
            return
        self._seq.finish(reason, self.usage, stop_sequence, citations, refusal)

    def _call_id(self, ordinal: int, provider_id: str | None) -> str:
        if provider_id and self._context.accept_id(provider_id):
            return provider_id
        return self._context.mint_id(ordinal)

    def _is_closed(self) -> bool:
        return self._seq.closed

    def _take_events(self) -> list[Event]:
        return self._seq.take_events()

    def _fail(self, failure: Failure) -> None:
        self._on_last_event()
        self._seq.fail(failure)
