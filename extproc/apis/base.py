"""The protocols of an API: what its folder offers to the rest of the package.

A *client API* reads requests and writes responses. A *provider API* writes requests and reads responses. A
*pass-through* forwards both where client and provider speak the same API. Each API lives in its own folder beside this
file and is stateless: the state of an exchange is in the `ResponseDecoder` and `ResponseEncoder` that it makes. Nothing
here does I/O, reads a clock or draws a random number.
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
    """The HTTP request for the provider. Header names are lower case. Envoy adds the key."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


def request_headers(*, stream: bool) -> dict[str, str]:
    """The headers of every request to a provider. `identity`: the processor reads plain bytes."""
    return {
        "content-type": "application/json",
        "accept": "text/event-stream" if stream else "application/json",
        "accept-encoding": "identity",
    }


class EncodedRequest(msgspec.Struct, frozen=True):
    """A request in a provider's API."""

    request: ProviderRequest
    names: NameMap
    """Restores the client's tool names in the response."""
    target: Target | None = None
    """The target with another tool style, if the encoder had to choose one (a model without native tools). The response
    is decoded in that style. None: the target that the encoder was given."""


class ResponseDecoder(Protocol):
    """Reads one response of a provider, streamed or whole.

    `feed` takes the response body (identity encoding) in any cut. `finish` is called once, when the provider closed its
    stream. Both return conversation events in strict order. After a Finish or a Failure the decoder ignores all input.
    """

    @property
    def usage(self) -> Usage:
        """Tokens so far."""

    @property
    def unoffered_calls(self) -> int:
        """Calls so far of tools that the request did not offer. They are forwarded and counted."""

    @property
    def received_output(self) -> bool:
        """True if the model produced output, even if it is still held back and no event reports it."""

    def feed(self, data: bytes) -> list[Event]: ...

    def finish(self) -> list[Event]: ...

    def close(self) -> None:
        """Frees everything. The decoder and its figures are not used after that."""


class ResponseEncoder(Protocol):
    """Writes one response for the client."""

    content_type: str

    def encode_events(self, events: Iterable[Event]) -> bytes:
        """The bytes of these events; for a response that is not streamed, b"" until the Finish. A Failure becomes the
        error event of a stream. A response that is not streamed fails with `ClientApi.encode_error` instead."""

    def ping(self) -> bytes:
        """The keep-alive of the API; b"" if it has none."""


class HttpError(msgspec.Struct, frozen=True):
    """An error response in a client API's own shape. `headers` always has a content-type."""

    status: int
    headers: dict[str, str]
    body: bytes


class ClientOptions(msgspec.Struct, frozen=True):
    """Settings of a configuration for client APIs. Each API ignores those that do not concern it."""

    final_note: str = FINAL_NOTE
    """The system note of a request for the final answer; "" for none."""
    tool_labels: Mapping[str, tuple[str, str]] = {}
    """Names of tools, or globs -> (category, visibility) for front ends. The first match counts."""


class ClientApi(Protocol):
    """An API that clients speak."""

    name: str
    call_prefix: str
    """The prefix of minted tool call ids: that of the API's own provider."""
    request_id_header: str
    """The response header that holds the id of the request."""
    rate_limits: RateLimitFormat

    def with_options(self, options: ClientOptions) -> ClientApi:
        """The same API with these settings."""

    def decode_request(self, body: bytes, headers: Mapping[str, str], dropped: Dropped, limits: Limits) -> Request:
        """`headers`: names in lower case. Raises `errors.BadRequest` with the place and the remedy."""

    def decode_count_request(self, body: bytes, limits: Limits) -> Request:
        """Decodes a request to count tokens. Only called for an API with a path for it (`endpoints`). Raises
        `errors.BadRequest`."""

    def make_response_encoder(self, request: Request, message_id: str,
                              prompt_estimate: Callable[[], int]) -> ResponseEncoder:
        """Streaming or whole by `request.stream`. `message_id` is reproducible. `prompt_estimate` returns tokens for a
        usage figure that is due before the provider's is known (it may be costly: call it at most once)."""

    def encode_error(self, failure: Failure, request_id: str | None = None) -> HttpError: ...

    def encode_models(self, names: Sequence[str]) -> bytes:
        """The body of `GET /v1/models`, which needs no provider. `names`: the models of the configuration."""

    def encode_token_count(self, tokens: int) -> bytes:
        """The body of a token count. Only called for an API with a path for it (`endpoints`)."""


class DecodeContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a decoder of responses needs to know of the request."""

    request: Request
    target: Target
    names: NameMap
    mint_id: Callable[[int], str]
    """n -> a new tool call id for the n-th call of this response."""
    accept_id: Callable[[str], bool]
    """True if the provider's own id may be used: new in the conversation and legal for the client."""
    prompt_estimate: Callable[[], int]
    """Tokens of the prompt, for usage figures of providers that send none."""
    limits: Limits
    dropped: Dropped = msgspec.field(default_factory=Dropped)
    """Collects the names of parts of a response that no client API can carry. For log and metrics: the response head,
    which names dropped fields, was sent before."""
    repair_arguments: Callable[[str, str], str | Failure] | None = None
    """Repairs or checks the arguments of native calls; None: they are forwarded unchanged."""
    tally: CallTally = msgspec.field(default_factory=CallTally)
    """Counts the errors in calls, for log and metrics."""
    scanner: Callable[[BlockSequencer], Scanner | None] = lambda sequencer: None
    """Makes the scanner for calls and reasoning that the model wrote as text; None: text is not scanned."""


class ProviderApi(Protocol):
    """An API that providers speak."""

    name: str

    def encode_request(self, request: Request, target: Target, dropped: Dropped) -> EncodedRequest:
        """Raises `errors.BadRequest` if the conversation cannot be sent (orphan results, too many tools...)."""

    def make_response_decoder(self, context: DecodeContext) -> ResponseDecoder:
        """For a 2xx response, a stream or a whole JSON body. The decoder decides by the first byte, since content types
        are unreliable."""

    def decode_error(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """Decodes any response that is not 2xx, also HTML, empty or array-wrapped bodies."""

    def rescue_response(self, status: int, body: bytes, context: DecodeContext) -> bytes | None:
        """A whole response inside an error body: some hosts refuse the output of their own model, and quote it. None
        for any other error."""


class PatchedRequest(msgspec.Struct, frozen=True):
    """A request that is forwarded with small changes."""

    request: ProviderRequest
    outline: Request
    """The facts that the decoder of the response needs: model, tool names, tool choice, stop sequences and options. It
    has no messages."""
    ids: frozenset[str]
    """The ids of all tool calls in the history, without embedded signatures."""


class ForwardedRequest(msgspec.Struct, frozen=True):
    """A request on a path without translation, with the provider's name of the model."""

    request: ProviderRequest
    model: str
    """The client's name of the model, which the response names too."""


class PassThrough(Protocol):
    """Client and provider speak the same API."""

    def patch_request(self, body: bytes, headers: Mapping[str, str], target: Target, limits: Limits,
                      dropped: Dropped) -> PatchedRequest | None:
        """The client's own body with the necessary changes. None if it must be decoded and encoded anew (which also
        reports errors in it). Raises `BadRequest` for a body that is not JSON or nested too deep."""

    def forward_request(self, path: str, body: bytes, headers: Mapping[str, str], target: Target, limits: Limits,
                        dropped: Dropped) -> ForwardedRequest:
        """A request on a path without translation. `path`: `Endpoint.passes_to`. Raises `BadRequest`."""

    def can_pass_response(self, request: Request, target: Target, *, patched: bool) -> bool:
        """True if the response can be forwarded unmodified. `patched`: the request was forwarded rather than
        re-encoded."""

    def make_response_decoder(self, context: DecodeContext, decoder: ResponseDecoder) -> ResponseDecoder:
        """Forwards the provider's response as `RawEvent`s. `decoder` takes over if a part of it must be translated."""

    def make_response_encoder(self, encoder: ResponseEncoder, decoder: ResponseDecoder, *,
                              stream: bool) -> ResponseEncoder:
        """Writes the forwarded bytes. `encoder` writes the events of the decoder that took over. `decoder`: the
        pass-through's own, which knows what was forwarded."""


class Api(msgspec.Struct, frozen=True, kw_only=True):
    """One API: what its folder offers to the registry. Each half is optional but the provider's."""

    name: str
    provider: ProviderApi
    clients: tuple[ClientApi, ...] = ()
    passthrough: PassThrough | None = None
