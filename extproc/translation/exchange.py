"""One HTTP exchange between a client of one API and a provider of another: bytes in, bytes out (the public API).

`request` converts the client's body to the provider's request. `start`, `feed` and `finish` take the provider's
response and return the response in the client's API, errors included. The exchange is sans-IO: it opens no socket and
reads no clock (`tick` and `feed` get the time), so the gateway, the command line and the tests run the same code. The
base `ClientResponse` decides what is sent to the client, and when. Retries, routing and authentication are Envoy's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec
from xxhash import xxh3_128_digest

from extproc.apis.base import DecodeContext, EncodedRequest, PassThrough, PatchedRequest, ProviderRequest
from extproc.apis.shared.endings import EMPTY
from extproc.conversation.call_counts import BadCall, CallCounts
from extproc.conversation.ids import IdMinter, history_ids
from extproc.conversation.model import Message, Request, Usage
from extproc.conversation.tool_names import NameMap
from extproc.conversation.unsupported import Dropped
from extproc.dialects.call_writer import Repair
from extproc.errors import BadRequest, Failure
from extproc.headers import TOOLS_HEADER, in_lower_case
from extproc.translation.client_response import ClientResponse, ResponseCodec
from extproc.translation.encoding import Decompressor, EncodingError, plain_error_body, plain_request_body
from extproc.translation.scrubbing import Scrubber
from extproc.translation.settings import Settings
from extproc.translation.tokens import quick_estimate
from extproc.translation.tool_styles import CallReader, restrict_tools, with_style

_MAX_ERROR_BODY = 1 << 20


class _SentRequest(msgspec.Struct, frozen=True):
    """The facts of a request that the decoder of its response needs."""

    identity: bytes
    """A hash of the request, from which the ids of the response are made."""
    size: int
    """Bytes of the body that was sent."""
    names: NameMap
    messages: list[Message]
    """The history, which contains the ids of earlier calls."""
    ids: frozenset[str] = frozenset()
    """The ids of earlier calls, if they are known already; else they are taken from `messages`."""


class Translation(ClientResponse):
    """One exchange. Methods are called in the order `request`, `start`, (`feed` | `tick`)*, `finish`.

    client, upstream: names of APIs. model: the provider's name of the model. settings: the fields of `Settings`, where
    each is described. Raises ValueError for an unknown API and TypeError for an unknown setting.
    request_id: the gateway's own id of the request, for response heads and errors. The ids of the response are made of
    the body and this id (without one, of the header `x-request-id`), so that two equal requests get different ids.
    """

    __slots__ = (
        "_call_reader",
        "_context",
        "_decompressor",
        "_last_received",
        "_last_sent",
        "_limits",
        "_message_id",
        "_pass_through",
        "_patched",
        "_prepared_codec",
        "_provider",
        "_received_since_tick",
        "_sent",
        "_sent_since_tick",
        "_settings",
        "_status",
        "_target",
    )

    def __init__(self, client: str, upstream: str, model: str, *, request_id: str | None = None,
                 **settings: Any) -> None:
        self._set_up(Settings(client=client, upstream=upstream, **settings), model, request_id)

    @classmethod
    def of(cls, settings: Settings, model: str, request_id: str) -> Translation:
        """An exchange with these settings."""
        made = cls.__new__(cls)
        made._set_up(settings, model, request_id)
        return made

    def _set_up(self, settings: Settings, model: str, request_id: str | None) -> None:
        self._target = settings.target(model)
        client, self._provider, self._pass_through = settings.apis(self._target)
        super().__init__(client, Scrubber(settings.secrets), request_id, withhold=settings.withhold)
        self._settings = settings
        self._limits = settings.limits
        self._call_reader = CallReader(settings)
        self._status = 0
        self._patched = False
        self._prepared_codec: ResponseCodec | None = None
        """The codec, before the response head is there."""
        self._sent: _SentRequest | None = None
        self._context: DecodeContext | None = None
        self._message_id = ""
        self._decompressor: Decompressor | None = None
        self._sent_since_tick = False
        self._received_since_tick = False
        self._last_sent: float | None = None
        self._last_received: float | None = None

    # ----------------------------------------------------------------------------------------------------- request

    def request(self, body: bytes, headers: Mapping[str, str] | None = None) -> ProviderRequest:
        """Converts the client's request to the provider's. Raises RequestError in the client's error shape."""
        try:
            request = self._request(body, in_lower_case(headers or {}))
            return self._settings.edits.edit_headers(request, self._target.api)
        except BadRequest as problem:
            raise self._refusal(problem.failure) from None

    def _request(self, body: bytes, headers: Mapping[str, str]) -> ProviderRequest:
        body = plain_request_body(body, headers, self._limits.body)
        self._target = with_style(self._target, headers.get(TOOLS_HEADER), self._limits)
        patched = self._patched_request(self._pass_through, body, headers) if self._pass_through is not None else None
        if patched is None:
            conversation = self._client.decode_request(body, headers, self.dropped, self._limits)
            restrict_tools(conversation, self._target, self.dropped)
            if conversation.tool_choice is not None and conversation.tool_choice.mode == "none":
                # A client that wants no call (for a summary) cannot handle one, whatever the attempt forces.
                self._target = msgspec.structs.replace(self._target, tool_choice=None)
            encoded = self._provider.encode_request(conversation, self._target, self.dropped)
            known: frozenset[str] = frozenset()
        else:
            conversation, known = patched.outline, patched.ids
            same = {tool.name: tool.name for tool in conversation.tools}
            encoded = EncodedRequest(patched.request, NameMap(same, same))
        self._patched = patched is not None
        self._target = encoded.target or self._target
        if self._settings.parallel_tool_calls == "enforce" and "parallel_tool_calls" in self.dropped.losses:
            self.dropped.losses.remove("parallel_tool_calls")  # enforced here instead
        if self._settings.lossy == "reject" and self.dropped.losses:
            raise BadRequest("The provider of this model cannot carry: " + ", ".join(self.dropped.losses)
                             + ". Leave these out, or let the gateway drop them (lossy: report).")
        request = encoded.request
        if (data := self._settings.edits.edit_body(request.body)) is not request.body:
            request = msgspec.structs.replace(request, body=data)
        request_id = self._request_id or headers.get("x-request-id")
        # All attempts of a request share its id and the client's body. Without an id there is one attempt, identified
        # by the body that was sent. A cryptographic hash would take longer than decoding the body, and protects
        # nothing.
        identity = xxh3_128_digest(data) if request_id is None else (
            xxh3_128_digest(body) + request_id.encode("utf-8", "surrogatepass"))
        self._sent = _SentRequest(identity, len(data), encoded.names, conversation.messages, known)
        conversation.messages, conversation.system, conversation.extra = [], [], {}
        self.conversation = conversation
        return request

    def _decode_context(self, conversation: Request) -> DecodeContext | None:
        """The facts of the request for the decoder of the response; None if the request was not translated."""
        if (sent := self._sent) is not None:
            self._message_id = "msg_" + hashlib.blake2b(sent.identity, digest_size=12, person=b"message").hexdigest()
            self._call_reader.prepare(conversation, self._target, sent.names)
            minter = IdMinter(sent.identity, sent.ids or history_ids(sent.messages), prefix=self._client.call_prefix)
            self._context = DecodeContext(
                request=conversation, target=self._target, names=sent.names, mint_id=minter.mint,
                accept_id=minter.accept, prompt_estimate=partial(quick_estimate, sent.size), limits=self._limits,
                dropped=self.dropped, scanner=self._call_reader.scanner, tally=self._call_reader.tally,
                repair_arguments=self._call_reader.repair_arguments)
            self._sent = None
        return self._context

    def _patched_request(self, pass_through: PassThrough, body: bytes,
                         headers: Mapping[str, str]) -> PatchedRequest | None:
        """For a client and a provider of one API: the client's body with the necessary changes. None: it must be
        decoded and encoded."""
        if self._call_reader.needs_decoding:
            return None
        dropped = Dropped()
        patched = pass_through.patch_request(body, headers, self._target, self._limits, dropped)
        if patched is not None:
            self.dropped = dropped
        return patched

    @property
    def provider_api(self) -> str:
        """The name of the provider's API. An endpoint in OpenAI's format has two of them."""
        return self._target.api

    @property
    def text_calls(self) -> int:
        """Tool calls that the model wrote as text."""
        return self._call_reader.text_calls

    @property
    def unoffered_calls(self) -> int:
        """Tool calls of tools that were not offered."""
        return self._codec.decoder.unoffered_calls if self._codec is not None else 0

    @property
    def calls(self) -> dict[str, CallCounts]:
        """Counts of the tool calls, by dialect (`native` for those of the provider's API). The arguments of calls in
        forwarded bytes are not checked."""
        return self._call_reader.tally.counts(self.tool_calls, self.unoffered_calls)

    @property
    def bad_calls(self) -> list[BadCall]:
        """The first calls that no client can run as they are."""
        return self._call_reader.bad_calls(self.failure)

    @property
    def received_output(self) -> bool:
        """The model produced output, even if it is still held back (a call whose arguments are being checked)."""
        return self.content_began or (self._codec is not None and self._codec.decoder.received_output)

    @property
    def repairs(self) -> list[Repair]:
        """Repairs of the arguments of calls."""
        return self._call_reader.repairs

    # ---------------------------------------------------------------------------------------------------- response

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The provider's response head. `head` is set now or later (see `withhold`)."""
        if self.conversation is None:
            raise RuntimeError("start() before a successful request()")
        lower = in_lower_case(headers)
        self._status = status
        self._response_headers = lower
        self._received_since_tick = True
        coding = lower.get("content-encoding")
        if coding:
            try:
                self._decompressor = Decompressor(coding, self._limits.body)
            except EncodingError as problem:
                if 200 <= status < 300:
                    self._hold(self._fail_unreadable(problem))
                    return
        if not 200 <= status < 300:
            self._error_body = bytearray()
            return
        self.prepare()
        self._codec, self._prepared_codec = self._prepared_codec, None
        # A JSON body may still be an error: its head waits for the first content, as a withheld one does.
        if self.conversation.stream and not self._withhold \
                and lower.get("content-type", "").strip().lower().startswith("text/event-stream"):
            self._set_head()

    def prepare(self) -> None:
        """Makes the codec of the response. If it is called after `request`, while the provider works, the first token
        comes sooner; else `start` calls it."""
        if self._prepared_codec is None and self._codec is None and self.conversation is not None:
            self._prepared_codec = self._make_codec(self.conversation)

    def _make_codec(self, conversation: Request) -> ResponseCodec:
        """The decoder and the encoder of the response."""
        context = self._decode_context(conversation)
        assert context is not None
        decoder = self._provider.make_response_decoder(context)
        encoder = self._client.make_response_encoder(conversation, self._message_id, context.prompt_estimate)
        if self._pass_through is None or not self._response_passes(self._pass_through, context):
            return ResponseCodec(decoder, encoder)
        passing = self._pass_through.make_response_decoder(context, decoder)
        return ResponseCodec(
            passing, self._pass_through.make_response_encoder(encoder, passing, stream=conversation.stream))

    def _response_passes(self, pass_through: PassThrough, context: DecodeContext) -> bool:
        renamed = any(name != original for name, original in context.names.to_provider.items())
        return (not renamed and not self._call_reader.needs_decoding
                and pass_through.can_pass_response(context.request, self._target, patched=self._patched))

    def feed(self, data: bytes, now: float | None = None) -> bytes:
        """Takes a piece of the provider's body and returns bytes for the client (b"" while the head is withheld)."""
        out = self._feed(data)
        if now is None:  # the time is that of the next tick
            self._received_since_tick = True
            self._sent_since_tick = self._sent_since_tick or bool(out)
        else:
            self._last_received = now
            if out:
                self._last_sent = now
        return out

    def _feed(self, data: bytes) -> bytes:
        if self.done:
            return self._release_held()
        if self._error_body is not None:
            self._error_body += data[:_MAX_ERROR_BODY - len(self._error_body)]
            return b""
        if self._decompressor is not None:
            try:
                data = self._decompressor.feed(data)
            except EncodingError as problem:
                return self._fail_unreadable(problem)
        if self._codec is None:
            raise RuntimeError("feed() before start()")
        events = self._codec.decoder.feed(data)
        return self._encode_events(events) if events else self._release_held()

    def finish(self) -> bytes:
        """The provider closed its stream: the last bytes for the client."""
        if not self.done:
            if self._error_body is not None:
                body = self._scrubber.body(plain_error_body(bytes(self._error_body), self._decompressor,
                                                            self._response_headers)[:_MAX_ERROR_BODY])
                if (rescued := self._rescue(body)) is not None:
                    return rescued
                return self._fail(self._provider.decode_error(self._status, self._response_headers, body))
            if self._codec is None:
                return self._fail(EMPTY)
            if self._decompressor is not None:
                try:
                    self._decompressor.finish()
                except EncodingError as problem:
                    return self._fail_unreadable(problem)
            out = self._encode_events(self._codec.decoder.finish())
            if not self.done:
                return out + self._fail(Failure("server", "The provider's response ended before it was complete."))
            return out
        return self._release_held()

    def _rescue(self, body: bytes) -> bytes | None:
        """The response that is quoted in an error, as an ordinary response; None for any other error."""
        if self.conversation is None or (context := self._decode_context(self.conversation)) is None:
            return None
        response = self._provider.rescue_response(self._status, body, context)
        if response is None:
            return None
        self._error_body = None
        self._close_prepared_codec()
        self._codec = ResponseCodec(
            self._provider.make_response_decoder(context),
            self._client.make_response_encoder(self.conversation, self._message_id, context.prompt_estimate))
        decoder = self._codec.decoder
        return self._encode_events([*decoder.feed(response), *decoder.finish()])

    def fail(self, failure: Failure) -> bytes:
        """Ends the exchange from outside (a watchdog, a lost connection); returns the error for the client."""
        return self._release_held() if self.done else self._fail(failure)

    def tick(self, now: float) -> bytes:
        """Call when time has passed (seconds of any monotonic clock): returns a keep-alive after silence, an error
        after `idle_timeout`."""
        if self._received_since_tick or self._last_received is None:
            self._last_received = now
            self._received_since_tick = False
        out = self._release_held()
        if out or self._sent_since_tick or self._last_sent is None:
            self._last_sent = now
            self._sent_since_tick = False
        if self.done:
            return out
        if now - self._last_received >= self._settings.idle_timeout:
            seconds = f"{self._settings.idle_timeout:g}"
            return out + self._fail(Failure("timeout", f"The provider sent nothing for {seconds} seconds.", 504))
        if self.head is not None and self._codec is not None and now - self._last_sent >= self._settings.ping_interval:
            self._last_sent = now
            out += self._start_response() + self._codec.encoder.ping()
        return out

    @property
    def due(self) -> float:
        """The time at which `tick` may have something to do, if nothing is received or sent until then."""
        if self._last_received is None or self._last_sent is None:
            return 0.0
        return min(self._last_received + self._settings.idle_timeout, self._last_sent + self._settings.ping_interval)

    def close(self) -> None:
        """Frees the memory of an exchange, whether its response was read to the end or not. After that its figures
        (usage, calls, repairs) are gone and nothing may be fed. Optional: otherwise the garbage collector frees it."""
        self._close_prepared_codec()
        if self._codec is not None:
            self._codec.decoder.close()
            self._codec = None
        self._call_reader.close()

    def _close_prepared_codec(self) -> None:
        """The prepared codec is not needed."""
        if self._prepared_codec is not None:
            self._prepared_codec.decoder.close()
            self._prepared_codec = None
            self._call_reader.close()

    @property
    def usage(self) -> Usage:
        """Tokens of this exchange, as far as the provider reported them."""
        return self._codec.decoder.usage if self._codec is not None else Usage()

    def _fail_unreadable(self, problem: EncodingError) -> bytes:
        """The body does not have the coding that its header names."""
        return self._fail(Failure("server", f"The provider's response cannot be read: {problem}."))
