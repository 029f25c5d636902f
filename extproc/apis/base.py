"""What an API module offers: the two halves of translation, as protocols.

A *client API* reads requests and writes answers; a *provider API* writes requests and reads answers. Each lives in
its own package beside this file and is stateless: state of one exchange lives in the `ResponseDecoder` and
`ResponseEncoder` it creates. Nothing here does I/O, reads a clock or draws a random number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from extproc.apis.shared.rate_limits import RateLimitFormat
from extproc.bounds import Limits
from extproc.conversation.call_counts import CallTally
from extproc.conversation.model import Event, Request, Usage
from extproc.conversation.notes import FINAL_NOTE
from extproc.conversation.sequencer import BlockSequencer
from extproc.conversation.tool_names import NameMap
from extproc.conversation.unsupported import Dropped
from extproc.dialects.scanner import Scanner
from extproc.errors import Failure
from extproc.profiles.target import Target


class ProviderRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The HTTP request for the provider. Header names are lower case; keys are added elsewhere (design rule 8)."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class EncodedRequest(msgspec.Struct, frozen=True):
    """`names` restores tool names in the answer. `target`: as it was used, where the encoder had to choose another tool
    style than the one it was given (a model without native tools); the answer is read in that style."""

    request: ProviderRequest
    names: NameMap
    target: Target | None = None


class ResponseDecoder(Protocol):
    """Reads one provider answer, streamed or whole. `feed` gets the response body (identity encoding) in any cut;
    `finish` is called once when the provider closed its stream. Both return conversation events in strict order.
    After a Finish or a Failure the decoder ignores what comes."""

    @property
    def usage(self) -> Usage:
        """Tokens so far."""

    @property
    def unoffered_calls(self) -> int:
        """Calls so far of tools that the request did not offer (they pass, counted)."""

    @property
    def received_output(self) -> bool:
        """The model said something, even where it is held back for now and no event tells of it."""

    def feed(self, data: bytes) -> list[Event]: ...

    def finish(self) -> list[Event]: ...

    def close(self) -> None:
        """Lets go of everything: the decoder is not used any more, nor are its figures asked for."""


class ResponseEncoder(Protocol):
    """Writes one answer for the client. `events` returns the bytes of these events (a whole answer: b"" until the
    Finish). `ping` returns the keep-alive of the API, b"" where it has none. A Failure turns into the error event of
    a stream; for a whole answer the caller uses `ClientApi.error_body` instead."""

    content_type: str

    def events(self, events: Iterable[Event]) -> bytes: ...

    def ping(self) -> bytes: ...


class HttpError(msgspec.Struct, frozen=True):
    """An error answer in a client API's own shape. `headers` always holds content-type."""

    status: int
    headers: dict[str, str]
    body: bytes


class ClientOptions(msgspec.Struct, frozen=True):
    """Settings of a configuration that concern client APIs. An API ignores those that it has no use for."""

    final_note: str = FINAL_NOTE
    """The system note of a request for the final answer; "" for none."""
    tool_labels: Mapping[str, tuple[str, str]] = {}
    """Names of tools, or globs -> (category, visibility) for front ends. The first match counts."""


class ClientApi(Protocol):
    """An API that clients speak."""

    name: str
    call_prefix: str
    """How the ids of tool calls begin that are made here: as those of the API's own provider do."""
    request_id_header: str
    """The response header that holds the id of the request."""
    rate_limits: RateLimitFormat

    def with_options(self, options: ClientOptions) -> ClientApi:
        """The same API with these settings."""

    def decode_request(self, body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
        """`headers` by names in lower case. Raises `errors.BadRequest` (the place and what to do)."""

    def response_encoder(self, request: Request, message_id: str, prompt_estimate: Callable[[],
                                                                                            int]) -> ResponseEncoder:
        """Streaming or whole by `request.stream`. `message_id` is reproducible; `prompt_estimate` gives tokens for a
        usage figure that is due before the provider's is known (it may be costly: call it at most once)."""

    def error(self, failure: Failure, request_id: str | None = None) -> HttpError: ...

    def models_body(self, names: Sequence[str]) -> bytes:
        """The body of `GET /v1/models`, which needs no provider. `names`: the models of the configuration."""

    def count_body(self, tokens: int) -> bytes:
        """The body of a token count. Only called for an API with a path for it (`endpoints`)."""


class DecodeContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider's decoder needs to know of the request: `mint(ordinal)` gives a fresh tool call id for the
    n-th call of this answer, `accept_id(id)` says whether the provider's own id may pass (new in the conversation and
    legal for the client)."""

    request: Request
    target: Target
    names: NameMap
    mint: Callable[[int], str]
    accept_id: Callable[[str], bool]
    prompt_estimate: Callable[[], int]
    """Tokens of the prompt, for usage figures of providers that send none."""
    limits: Limits
    dropped: Dropped = msgspec.field(default_factory=Dropped)
    """Takes the names of what an answer holds and no client API can carry: for log and metrics, since the head with
    the names has gone out."""
    repair_arguments: Callable[[str, str], str | Failure] | None = None
    """Repairs or checks the arguments of native calls; None: they go out as they come."""
    tally: CallTally = msgspec.field(default_factory=CallTally)
    """Takes what is wrong with calls: for log and metrics."""
    scanner: Callable[[BlockSequencer], Scanner | None] = lambda sequencer: None
    """Makes the reader of calls and reasoning that the model wrote as text; None: all text is just text."""


class ProviderApi(Protocol):
    """An API that providers speak."""

    name: str

    def encode_request(self, request: Request, target: Target, dropped: Dropped) -> EncodedRequest:
        """Raises `errors.BadRequest` when the conversation cannot be sent (orphan results, too many tools...)."""

    def response_decoder(self, context: DecodeContext) -> ResponseDecoder:
        """For a 2xx answer, which may be a stream or a whole JSON body: the decoder looks at its first byte, since
        content types lie."""

    def decode_error(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """Any non-2xx answer, also HTML, empty or array-wrapped bodies."""

    def rescued_response(self, status: int, body: bytes, context: DecodeContext) -> bytes | None:
        """A whole answer that is hidden in an error's body: some hosts refuse what their own model wrote, and quote
        it. None for an error that is one."""


class PatchedRequest(msgspec.Struct, frozen=True):
    """A request that passes. `outline` is what its answer needs to know of it: model, names of tools, choice, stop
    sequences and wishes, and no messages; `ids` are those of all its tool calls, without loads."""

    request: ProviderRequest
    outline: Request
    ids: frozenset[str]


class PassThrough(Protocol):
    """An API with itself."""

    def patch_request(self, body: bytes, headers: Mapping[str, str], target: Target, limits: Limits,
                dropped: Dropped) -> PatchedRequest | None:
        """The client's own body with what must change in it; None when it must be decoded and written anew (which also
        says what is wrong with it). Raises `BadRequest` for a body that is no JSON or nested too deep."""

    def passes_response(self, request: Request, target: Target, *, patched: bool) -> bool:
        """True if the response can be forwarded unmodified. `patched`: the request was forwarded rather than
        re-encoded."""

    def response_decoder(self, context: DecodeContext, decoder: ResponseDecoder) -> ResponseDecoder:
        """Reads the provider's answer; `decoder` takes over where it cannot pass."""

    def response_encoder(self, encoder: ResponseEncoder, *, stream: bool) -> ResponseEncoder:
        """Hands it on; `encoder` takes over with the decoder's events."""


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """One API: what its folder offers to the registry. Each half is optional but the provider's."""

    name: str
    provider: ProviderApi
    clients: tuple[ClientApi, ...] = ()
    passthrough: PassThrough | None = None
