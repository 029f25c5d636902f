"""The conversation model that every API decodes into and encodes from.

A request is a `Request` of `Message`s made of content blocks. A response is a stream of the events at the end of this
file, in the strict order *start, (block start, delta*, block stop)*, citations?, finish* or, at any point, *failure*.
Blocks never overlap. Wire names of an API never appear here. The module imports only `errors.py`, so everything else
may import it.

Source: the union of Anthropic Messages and OpenAI Chat Completions.
"""

from __future__ import annotations

from typing import Literal, final

import msgspec
from msgspec import UNSET, UnsetType

from extproc.errors import Failure

# --------------------------------------------------------------------------------------------------- content blocks A
# request has hundreds of blocks, each examined several times. The classes are final, so `type(block) is Text` replaces
# `isinstance`, which takes five times as long for a record of another type.


CacheMark = bool | Literal["5m", "1h"]
"""True if the client wants the prefix that ends here cached; a text is the lifetime that the client asked for."""

_CACHE_LIFETIMES: dict[CacheMark, int] = {False: 0, True: 1, "5m": 2, "1h": 3}


def longest_mark(*marks: CacheMark) -> CacheMark:
    """The cache mark of a block made of several marked blocks."""
    return max(marks, key=_CACHE_LIFETIMES.__getitem__, default=False)


@final
class Text(msgspec.Struct, frozen=True, gc=False):
    """Visible text. `cache` marks the end of a prefix that the client wants cached."""

    text: str
    cache: CacheMark = False


@final
class Media(msgspec.Struct, frozen=True, gc=False):
    """An image, a document, audio or a video. Exactly one of `data`, `url`, `file_id`, `text` is set.

    `data` is base64 as the client sent it (never decoded here), `text` is the text of a plain-text document.
    """

    kind: Literal["image", "document", "audio", "video"]
    media_type: str | None = None
    data: str | None = None
    url: str | None = None
    file_id: str | None = None
    text: str | None = None
    title: str | None = None
    context: str | None = None
    detail: str | None = None
    cache: CacheMark = False


@final
class Thinking(msgspec.Struct, frozen=True, gc=False):
    """Reasoning. `signature` is opaque and belongs to the provider that issued it; `redacted` holds encrypted data
    instead of text (then `text` is empty)."""

    text: str
    signature: str | None = None
    redacted: str | None = None


class Signature(msgspec.Struct, frozen=True, gc=False):
    """Opaque data that a provider wants back, byte for byte, with its block. `origin` identifies the issuer (see
    `signatures.origin_of`): any other endpoint refuses it."""

    value: str
    origin: str


@final
class ToolCall(msgspec.Struct, frozen=True, gc=False):
    """A call of a client tool. `arguments` is JSON text exactly as it came ("" means no arguments)."""

    id: str
    name: str
    arguments: str
    cache: CacheMark = False
    signature: Signature | None = None


@final
class ToolResult(msgspec.Struct, frozen=True):
    """The result of the call `call_id`. `content` holds Text and Media blocks and may be empty."""

    call_id: str
    content: list[Text | Media]
    is_error: bool = False
    name: str | None = None
    cache: CacheMark = False


@final
class Opaque(msgspec.Struct, frozen=True, gc=False):
    """A block that only the API `api` understands (server tool calls, containers). `raw` is its JSON. Other APIs get
    `text`, if there is a faithful rendering; else they drop the block and report its `type`."""

    api: str
    type: str
    raw: bytes
    text: str | None = None


Block = Text | Media | Thinking | ToolCall | ToolResult | Opaque


class Message(msgspec.Struct, frozen=True):
    """One message. Tool results are blocks of a user message; a `system` message may come at any place."""

    role: Literal["system", "user", "assistant"]
    content: list[Block]
    extra: dict[str, msgspec.Raw] = {}
    """Fields of the client's API that the blocks cannot hold (opaque items of reasoning), for a provider of the same
    API."""


# ----------------------------------------------------------------------------------------------------------- request


ToolKind = Literal["function", "tool_search", "local_shell", "shell", "apply_patch"]


class Tool(msgspec.Struct, frozen=True):
    """A tool that the client runs. `schema` is the JSON Schema of its arguments as decoded JSON."""

    name: str
    description: str | None
    schema: dict[str, object]
    strict: bool | None = None
    deferred: bool = False
    """The definition is not in the prompt until the model asks for it (Anthropic's `defer_loading`)."""
    custom: bool = False
    """The tool takes free text instead of arguments (OpenAI's `custom` tools). `schema` then describes an object with
    one string `input`; `format` is the JSON of the grammar in the form of Chat Completions, for providers that have
    such tools."""
    format: msgspec.Raw | None = None
    kind: ToolKind = "function"
    """The client's type of a tool whose calls have a form of their own in the client's API. `schema` describes the
    same content as arguments."""
    namespace: str | None = None
    """The client's group of tools (OpenAI's Responses API). `name` is then flat and unique in the request, and `member`
    the client's name within the group."""
    member: str | None = None
    """The client's name of the tool, if `name` is another one."""
    cache: CacheMark = False
    eager: bool | None = None
    """True: arguments are streamed before they are checked (Anthropic's `eager_input_streaming`)."""


class ServerTool(msgspec.Struct, frozen=True):
    """A tool that the provider runs (web search...). `raw` is its JSON in the API `api`."""

    api: str
    type: str
    name: str
    raw: bytes


class ToolChoice(msgspec.Struct, frozen=True, gc=False):
    """`tool` is the one tool for mode "tool". `allowed`: with auto and required, the only tools that may be called."""

    mode: Literal["auto", "required", "tool", "none"]
    tool: str | None = None
    allowed: tuple[str, ...] = ()


class ThinkingConfig(msgspec.Struct, frozen=True, gc=False):
    """The client's settings of reasoning. `mode` None: nothing but an effort was given. `budget`: in tokens. `effort`:
    one of minimal, low, medium, high, xhigh, max. `preserved`: the model sees the reasoning of all earlier turns; None:
    not given."""

    mode: Literal["enabled", "adaptive", "disabled"] | None = None
    budget: int | None = None
    effort: str | None = None
    preserved: bool | None = None


class OutputFormat(msgspec.Struct, frozen=True):
    """Structured output. `schema` None: any JSON object."""

    schema: dict[str, object] | None
    name: str = "output"
    strict: bool | None = None


Required = Literal["nothing", "block", "text"]
"""What the client needs of a response: a block of any kind, or a text that is not blank."""


class Request(msgspec.Struct, kw_only=True):
    """One request of any client API."""

    model: str
    messages: list[Message]
    system: list[Text] = []
    tools: list[Tool] = []
    server_tools: list[ServerTool] = []
    tool_choice: ToolChoice | None = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    stop: list[str] = []
    stream: bool = False
    thinking: ThinkingConfig | None = None
    thinking_words: dict[str, msgspec.Raw] = {}
    """The client's own fields for `thinking`, as JSON; empty if it gave nothing but an effort, which every endpoint has
    its own field for. Sent to unknown providers of the same API."""
    reads_reasoning: bool = False
    """The client wants to read the reasoning, even if `thinking` is None."""
    output_format: OutputFormat | None = None
    user: str | None = None
    """An opaque id of the end user, of any length and alphabet."""
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    choices: int = 1
    """The number of responses to generate (OpenAI's `n`)."""
    requires: Required = "nothing"
    """Without this a complete response is a failure, unless its finish reason explains the lack (`endings`)."""
    cites: bool = False
    """True if the client's API has a place for `Citations`; for others, sources are listed in the text."""
    cites_after_calls: bool = True
    """`cites` holds for a response with calls, too."""
    want_usage: bool = True
    """The client wants usage figures in a stream (OpenAI's `include_usage`); other APIs always send them."""
    extra: dict[str, msgspec.Raw] = {}
    """Top-level fields of the client's API `api` without a counterpart here: a provider of that API gets them, for
    others they are reported as dropped."""
    api: str = ""


# ---------------------------------------------------------------------------------------------------------- response

FinishReason = Literal["stop", "stop_sequence", "length", "tool_calls", "content_filter", "refusal", "pause",
                       "context_length"]


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens of one exchange. `input` is the whole prompt, including `cached` (read from a cache) and `cache_write`;
    `output` is everything generated, including `reasoning`. `estimated`: the provider sent no figures."""

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0
    estimated: bool = False
    cost: int | UnsetType = UNSET
    """The cost in millionths of a US dollar, if the provider reports it."""


class Start(msgspec.Struct, frozen=True, gc=False):
    """The response begins. `id` and `model` are the provider's own."""

    id: str | None = None
    model: str | None = None


class TextStart(msgspec.Struct, frozen=True, gc=False):
    """A text block begins; `TextDelta`s follow."""


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    text: str


class ThinkingStart(msgspec.Struct, frozen=True, gc=False):
    """A reasoning block begins; `ThinkingDelta`s and at most one `SignatureDelta` follow."""


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False):
    text: str


class SignatureDelta(msgspec.Struct, frozen=True, gc=False):
    """The whole signature of the open reasoning block, just before its stop."""

    signature: str


class RedactedThinking(msgspec.Struct, frozen=True, gc=False):
    """A complete block of encrypted reasoning; a block stop follows at once."""

    data: str


class ToolCallStart(msgspec.Struct, frozen=True, gc=False):
    """A tool call begins; `ArgumentsDelta`s follow. `id` and `name` are final, and the client's. `signature` must come
    back with the call."""

    id: str
    name: str
    signature: Signature | None = None


class ArgumentsDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the JSON text of the arguments."""

    json: str


class BlockStop(msgspec.Struct, frozen=True, gc=False):
    """The open block is complete."""


class Citations(msgspec.Struct, frozen=True):
    """Sources of the response, for a client API that has a place for them (`Request.cites`): at most once, after the
    last block. `annotations` refer to pieces of the text; `extra` holds the provider's fields beside the message, by
    name. All of it is JSON as the provider sent it."""

    annotations: list[msgspec.Raw]
    extra: dict[str, msgspec.Raw]


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why the model refused. `explanation` is for people, "" for none; `details` is the object of Anthropic's API, as
    it came."""

    explanation: str
    details: msgspec.Raw


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The response is complete: nothing follows."""

    reason: FinishReason
    usage: Usage
    stop_sequence: str | None = None
    refusal: Refusal | None = None


class RawEvent(msgspec.Struct, frozen=True, gc=False):
    """Bytes of the client's API from a provider of the same API, as they are sent to the client. `content`: they hold
    content. `calls`: the number of tool calls that begin in them. A response consists of nothing else, or of none."""

    data: bytes
    content: bool = False
    calls: int = 0


Event = (Start | TextStart | TextDelta | ThinkingStart | ThinkingDelta | SignatureDelta | RedactedThinking
         | ToolCallStart | ArgumentsDelta | BlockStop | Citations | Finish | Failure | RawEvent)
