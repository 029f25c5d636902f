"""One HTTP exchange between a client of one API and a provider of another: bytes in, bytes out (the public API).

`request` turns the client's body into the provider's request; then the provider's answer goes in by `start`, `feed` and
`finish`, and what comes out is the answer in the client's API, errors included. It is sans-IO: it opens no socket and
reads no clock (time comes in by `tick` and `feed`), so the gateway, the command line and the tests run the same code.
What of an answer goes out, and when, stands in its base `ClientResponse`. It never retries, routes or authenticates:
that is Envoy's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Literal

import msgspec
from xxhash import xxh3_128_digest

from extproc.apis.base import ClientApi, DecodeContext, EncodedRequest, PassThrough, PatchedRequest, ProviderRequest
from extproc.apis.shared.endings import EMPTY
from extproc.bounds import Limits
from extproc.conversation.call_counts import BadCall, CallCounts
from extproc.conversation.ids import IdMinter, history_ids
from extproc.conversation.model import Message, Request, Usage
from extproc.conversation.tool_names import NameMap
from extproc.conversation.unsupported import Dropped
from extproc.dialects.call_writer import ArgumentsMode, Repair
from extproc.errors import BadRequest, Failure
from extproc.headers import TOOLS_HEADER, in_lower_case
from extproc.translation.client_response import ClientResponse, ResponseCodec
from extproc.translation.encoding import Decompressor, EncodingError, decompress, plain_error_body, refused_encoding
from extproc.translation.scrubbing import Scrubber
from extproc.translation.settings import Settings
from extproc.translation.tokens import quick_estimate
from extproc.translation.tool_styles import CallReading, restrict_tools, with_style

_MAX_ERROR_BODY = 1 << 20


class _Sent(msgspec.Struct, frozen=True):
    """What is kept of a request until its answer is prepared for."""

    identity: bytes
    """Stands for the request: what the ids of the answer are made of."""
    size: int
    """Bytes of the body that was sent."""
    names: NameMap
    messages: list[Message]
    """Its history, which tells the ids of its calls."""
    ids: frozenset[str] = frozenset()
    """These, where they are known already."""


class Translation(ClientResponse):
    """One exchange. Methods are called in the order `request`, `start`, (`feed` | `tick`)*, `finish`.

    client, upstream: names of APIs. provider: a profile's name (None: found by the URL's host and the model).
    dialect: how the model writes calls as text (None: by the model's id); reasoning_open: the prompt already opened the
    model's reasoning. url: the backend's URL, for its path and host. withhold: keep the response head back until the
    first content, so that an error before it becomes a status. lossy: "reject" refuses what cannot be carried
    (RequestError 400).
    only_tools: names and globs of the tools that may be offered (None: all). parallel_tool_calls: "enforce" drops the
    calls behind the first; duplicates: "drop" those that repeat an earlier one.
    safety: Gemini's safety settings, category -> threshold. client_api: the client's API with settings of its own, in
    place of the one that `client` names.
    request_id: the gateway's own id of the request, for heads and errors; the ids of an answer are made of the body and
    of it (without one, of the header `x-request-id`), so that two equal requests get different ones.
    secrets: values that must never appear in an error text. Raises ValueError for an API that is not known.
    """

    __slots__ = (
        "_context",
        "_inflate",
        "_last_in",
        "_last_out",
        "_limits",
        "_message_id",
        "_patched",
        "_prepared",
        "_provider",
        "_reading",
        "_received_output",
        "_relay",
        "_sent",
        "_sent_output",
        "_settings",
        "_status",
        "_target",
    )

    def __init__(self, client: str, upstream: str, model: str, provider: str | None = None,
                 dialect: str | None = None, reasoning_open: bool | None = None, *,
                 url: str | None = None, withhold: bool = False, lossy: str = "report",
                 max_output_tokens: int | None = None, tool_style: str = "auto", tool_choice: str | None = None,
                 parallel_tool_calls: bool | Literal["enforce"] | None = None,
                 duplicates: Literal["keep", "drop"] | None = None, max_tools: int | None = None,
                 only_tools: Sequence[str] | None = None,
                 read_dialects: Sequence[str] = (), arguments: ArgumentsMode | None = None,
                 limits: Limits | None = None, ping_interval: float = 10.0, idle_timeout: float = 240.0,
                 request_id: str | None = None, secrets: Sequence[str] = (),
                 safety: Mapping[str, str] | None = None, client_api: ClientApi | None = None) -> None:
        self._set_up(Settings(
            client=client, upstream=upstream, provider=provider, dialect=dialect, reasoning_open=reasoning_open,
            url=url, withhold=withhold, lossy=lossy, max_output_tokens=max_output_tokens, tool_style=tool_style,
            tool_choice=tool_choice, parallel_tool_calls=parallel_tool_calls, duplicates=duplicates,
            max_tools=max_tools, only_tools=only_tools, read_dialects=read_dialects, arguments=arguments,
            limits=limits or Limits(), ping_interval=ping_interval, idle_timeout=idle_timeout,
            secrets=secrets, safety=tuple(safety.items()) if safety else (), client_api=client_api), model, request_id)

    @classmethod
    def of(cls, settings: Settings, model: str, request_id: str) -> Translation:
        """One of many with the same settings."""
        made = cls.__new__(cls)
        made._set_up(settings, model, request_id)
        return made

    def _set_up(self, settings: Settings, model: str, request_id: str | None) -> None:
        client, self._provider, self._relay = settings.apis
        super().__init__(client, Scrubber(settings.secrets), request_id, withhold=settings.withhold)
        self._settings = settings
        self._limits = settings.limits
        self._target = settings.targets[model]
        self._reading = CallReading((settings.dialect,) if settings.dialect is not None else settings.read_dialects,
                                    settings.reasoning_open, settings.arguments, self._limits,
                                    one_call=settings.parallel_tool_calls == "enforce",
                                    drop_repeated=settings.duplicates == "drop")
        self._status = 0
        self._patched = False
        self._prepared: ResponseCodec | None = None
        """What will read and write the answer, before its head is there."""
        self._sent: _Sent | None = None
        self._context: DecodeContext | None = None
        self._message_id = ""
        self._inflate: Decompressor | None = None
        self._sent_output = False
        self._received_output = False
        self._last_out: float | None = None
        self._last_in: float | None = None

    # ----------------------------------------------------------------------------------------------------- request

    def request(self, body: bytes, headers: Mapping[str, str] | None = None) -> ProviderRequest:
        """The provider's request for the client's. Raises RequestError in the client's error shape."""
        try:
            return self._request(body, in_lower_case(headers or {}))
        except BadRequest as problem:
            raise self._refusal(problem.failure) from None

    def _request(self, body: bytes, headers: Mapping[str, str]) -> ProviderRequest:
        body = self._plain(body, headers)
        self._target = with_style(self._target, headers.get(TOOLS_HEADER), self._limits)
        passed = self._passed_on(self._relay, body, headers) if self._relay is not None else None
        if passed is None:
            conversation = self._client.decode_request(body, headers, self.dropped, self._limits)
            restrict_tools(conversation, self._target, self.dropped)
            if conversation.tool_choice is not None and conversation.tool_choice.mode == "none":
                # A client that wants no call (a summary, a final answer) cannot take one, whatever the attempt forces.
                self._target = msgspec.structs.replace(self._target, tool_choice=None)
            encoded = self._provider.encode_request(conversation, self._target, self.dropped)
            known: frozenset[str] = frozenset()
        else:
            conversation, known = passed.outline, passed.ids
            same = {tool.name: tool.name for tool in conversation.tools}
            encoded = EncodedRequest(passed.request, NameMap(same, same))
        self._patched = passed is not None
        self._target = encoded.target or self._target
        if self._settings.parallel_tool_calls == "enforce" and "parallel_tool_calls" in self.dropped.losses:
            self.dropped.losses.remove("parallel_tool_calls")  # what the endpoint cannot be told is done here
        if self._settings.lossy == "reject" and self.dropped.losses:
            raise BadRequest("The provider of this model cannot carry: " + ", ".join(self.dropped.losses)
                             + ". Leave these out, or let the gateway drop them (lossy: report).")
        data = encoded.request.body
        request_id = self._request_id or headers.get("x-request-id")
        # All attempts of a request share its id and the client's body. Without an id there is one attempt, and what it
        # sent stands for it. A cryptographic hash would take longer than decoding the body, and protects nothing here.
        identity = xxh3_128_digest(data) if request_id is None else (
            xxh3_128_digest(body) + request_id.encode("utf-8", "surrogatepass"))
        self._sent = _Sent(identity, len(data), encoded.names, conversation.messages, known)
        conversation.messages, conversation.system, conversation.extra = [], [], {}
        self.conversation = conversation
        return encoded.request

    def _told(self, conversation: Request) -> DecodeContext | None:
        """What whoever reads the answer is told of the request; None for one that was not translated."""
        if (sent := self._sent) is not None:
            self._message_id = "msg_" + hashlib.blake2b(sent.identity, digest_size=12, person=b"message").hexdigest()
            self._reading.prepare(conversation, self._target, sent.names)
            minter = IdMinter(sent.identity, sent.ids or history_ids(sent.messages), prefix=self._client.call_prefix)
            self._context = DecodeContext(
                request=conversation, target=self._target, names=sent.names, mint=minter.mint,
                accept_id=minter.accept, prompt_estimate=partial(quick_estimate, sent.size), limits=self._limits,
                dropped=self.dropped, scanner=self._reading.scanner, heal=self._reading.heal,
                tally=self._reading.tally)
            self._sent = None
        return self._context

    def _plain(self, body: bytes, headers: Mapping[str, str]) -> bytes:
        """The client's body without content codings, within the limit."""
        coding = headers.get("content-encoding")
        if coding:
            try:
                body = decompress(body, coding, self._limits.body)
            except EncodingError as problem:
                raise refused_encoding(problem, self._limits.body) from None
        if len(body) > self._limits.body:
            raise BadRequest(f"The request body has {len(body)} bytes; this gateway takes at most "
                             f"{self._limits.body}.", kind="too_large", status=413)
        return body

    def _passed_on(self, relay: PassThrough, body: bytes, headers: Mapping[str, str]) -> PatchedRequest | None:
        """Client and provider speak one API: the client's own body with what must change in it. None: write it anew."""
        if self._reading.is_asked_for:
            return None
        dropped = Dropped()
        patched = relay.patch_request(body, headers, self._target, self._limits, dropped)
        if patched is not None:
            self.dropped = dropped
        return patched

    @property
    def text_calls(self) -> int:
        """Tool calls that the model wrote as text."""
        return self._reading.text_calls

    @property
    def unoffered_calls(self) -> int:
        """Tool calls of tools that were not offered."""
        return self._answer.decoder.unoffered_calls if self._answer is not None else 0

    @property
    def calls(self) -> dict[str, CallCounts]:
        """How the calls fared, by dialect (`native` for those of the provider's API). Where bytes pass, their
        arguments are not looked at."""
        return self._reading.tally.counts(self.tool_calls, self.unoffered_calls)

    @property
    def bad_calls(self) -> list[BadCall]:
        """The first calls that no client can run as they are."""
        return self._reading.bad_calls(self.failure)

    @property
    def received_output(self) -> bool:
        """The model said something, even if it is still held back (a call whose arguments are being checked)."""
        return self.content_began or (self._answer is not None and self._answer.decoder.received_output)

    @property
    def repairs(self) -> list[Repair]:
        """What was repaired in the arguments of calls."""
        return self._reading.repairs

    # ------------------------------------------------------------------------------------------------------ answer

    def start(self, status: int, headers: Mapping[str, str]) -> None:
        """The provider's response head, which is kept as it is given. `head` is set now or later (see `withhold`)."""
        if self.conversation is None:
            raise RuntimeError("start() before a successful request()")
        lower = in_lower_case(headers)
        self._status = status
        self._response_headers = lower
        self._received_output = True
        coding = lower.get("content-encoding")
        if coding:
            try:
                self._inflate = Decompressor(coding, self._limits.body)
            except EncodingError as problem:
                if 200 <= status < 300:
                    self._keep(self._unreadable(problem))
                    return
        if not 200 <= status < 300:
            self._error_body = bytearray()
            return
        self.prepare()
        self._answer, self._prepared = self._prepared, None
        # A JSON body can still turn out to be an error: its head waits for the first content like a withheld one.
        if self.conversation.stream and not self._withhold \
                and lower.get("content-type", "").strip().lower().startswith("text/event-stream"):
            self._set_head()

    def prepare(self) -> None:
        """Lays out what reads the answer. Called after `request`, while the provider is at work, it takes that time off
        the first token; else `start` does it."""
        if self._prepared is None and self._answer is None and self.conversation is not None:
            self._prepared = self._answer_of(self.conversation)

    def _answer_of(self, conversation: Request) -> ResponseCodec:
        """What reads this answer and writes it."""
        context = self._told(conversation)
        assert context is not None
        decoder = self._provider.response_decoder(context)
        encoder = self._client.response_encoder(conversation, self._message_id, context.prompt_estimate)
        if self._relay is None or not self._passes_answer(self._relay, context):
            return ResponseCodec(decoder, encoder)
        return ResponseCodec(self._relay.reader(context, decoder), self._relay.encoder(encoder,
                                                                                       stream=conversation.stream))

    def _passes_answer(self, relay: PassThrough, context: DecodeContext) -> bool:
        renamed = any(name != original for name, original in context.names.to_provider.items())
        return (not renamed and not self._reading.is_asked_for
                and relay.passes_response(context.request, self._target, patched=self._patched))

    def feed(self, data: bytes, now: float | None = None) -> bytes:
        """A piece of the provider's body -> bytes for the client (b"" while the head is withheld)."""
        out = self._feed(data)
        if now is None:  # the time is that of the next tick
            self._received_output = True
            self._sent_output = self._sent_output or bool(out)
        else:
            self._last_in = now
            if out:
                self._last_out = now
        return out

    def _feed(self, data: bytes) -> bytes:
        if self.done:
            return self._released()
        if self._error_body is not None:
            self._error_body += data[:_MAX_ERROR_BODY - len(self._error_body)]
            return b""
        if self._inflate is not None:
            try:
                data = self._inflate.feed(data)
            except EncodingError as problem:
                return self._unreadable(problem)
        if self._answer is None:
            raise RuntimeError("feed() before start()")
        events = self._answer.decoder.feed(data)
        return self._events(events) if events else self._released()

    def finish(self) -> bytes:
        """The provider closed its stream: the last bytes for the client."""
        if not self.done:
            if self._error_body is not None:
                body = self._scrubber.body(plain_error_body(bytes(self._error_body), self._inflate,
                                                            self._response_headers)[:_MAX_ERROR_BODY])
                if (rescued := self._rescued(body)) is not None:
                    return rescued
                return self._fail(self._provider.decode_error(self._status, self._response_headers, body))
            if self._answer is None:
                return self._fail(EMPTY)
            if self._inflate is not None:
                try:
                    self._inflate.finish()
                except EncodingError as problem:
                    return self._unreadable(problem)
            out = self._events(self._answer.decoder.finish())
            if not self.done:
                return out + self._fail(Failure("server", "The provider's answer ended before it was complete."))
            return out
        return self._released()

    def _rescued(self, body: bytes) -> bytes | None:
        """The answer that an error quotes, as an ordinary answer; None when it is an error and nothing else."""
        if self.conversation is None or (context := self._told(self.conversation)) is None:
            return None
        answer = self._provider.rescued_response(self._status, body, context)
        if answer is None:
            return None
        self._error_body = None
        self._forget_prepared()
        self._answer = ResponseCodec(self._provider.response_decoder(context),
                              self._client.response_encoder(self.conversation, self._message_id,
                                                            context.prompt_estimate))
        decoder = self._answer.decoder
        return self._events([*decoder.feed(answer), *decoder.finish()])

    def fail(self, failure: Failure) -> bytes:
        """Ends the exchange from outside (a watchdog, a lost connection): the error for the client."""
        return self._released() if self.done else self._fail(failure)

    def tick(self, now: float) -> bytes:
        """Time passes (seconds on any steady clock): pings after silence, an error after too long a silence."""
        if self._received_output or self._last_in is None:
            self._last_in = now
            self._received_output = False
        out = self._released()
        if out or self._sent_output or self._last_out is None:
            self._last_out = now
            self._sent_output = False
        if self.done:
            return out
        if now - self._last_in >= self._settings.idle_timeout:
            seconds = f"{self._settings.idle_timeout:g}"
            return out + self._fail(Failure("timeout", f"The provider sent nothing for {seconds} seconds.", 504))
        if self.head is not None and self._answer is not None and now - self._last_out >= self._settings.ping_interval:
            self._last_out = now
            out += self._begin() + self._answer.encoder.ping()
        return out

    @property
    def due(self) -> float:
        """When `tick` may have something to do, as long as the provider and the client are silent."""
        if self._last_in is None or self._last_out is None:
            return 0.0
        return min(self._last_in + self._settings.idle_timeout, self._last_out + self._settings.ping_interval)

    def close(self) -> None:
        """Frees the memory of an exchange that is over, whether its answer was read to the end or not. Its figures
        (usage, calls, repairs) are gone then and nothing may be fed. Who does not call it leaves that to the garbage
        collector."""
        self._forget_prepared()
        if self._answer is not None:
            self._answer.decoder.close()
            self._answer = None
        self._reading.close()

    def _forget_prepared(self) -> None:
        """There was no answer to read, or another one."""
        if self._prepared is not None:
            self._prepared.decoder.close()
            self._prepared = None
            self._reading.close()

    @property
    def usage(self) -> Usage:
        """Tokens of this exchange, as far as the provider told them."""
        return self._answer.decoder.usage if self._answer is not None else Usage()

    def _unreadable(self, problem: EncodingError) -> bytes:
        """The body is not in the coding that it claims."""
        return self._fail(Failure("server", f"The provider's answer cannot be read: {problem}."))
