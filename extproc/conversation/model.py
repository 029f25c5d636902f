"""The conversation model that every API decodes into and encodes from.

A request is a `Request` of `Message`s made of content blocks; an answer is a stream of the events at the end of this
file, in the strict order *start, (block start, delta*, block stop)*, citations?, finish* or, at any point, *failure*.
Blocks never overlap. Wire names of an API never appear here, and this module imports nothing of the project: everything
else may import it.

Sources: the union of Anthropic Messages and OpenAI Chat Completions, with the words of the field.
"""

from __future__ import annotations

from typing import Literal, final

import msgspec

from extproc.errors import Failure

# --------------------------------------------------------------------------------------------------- content blocks
# A request has hundreds of blocks, each looked at several times. Nothing derives from them: `type(block) is Text` asks
# what `isinstance` asks, which takes five times as long for a record of another type.


CacheMark = bool | Literal["5m", "1h"]
"""Whether the client wants the prefix that ends here cached; the time says for how long, where the client said it."""

_CACHE_LIFETIMES: dict[CacheMark, int] = {False: 0, True: 1, "5m": 2, "1h": 3}


def longest_mark(*marks: CacheMark) -> CacheMark:
    """The cache mark of several marked blocks that become one."""
    return max(marks, key=_CACHE_LIFETIMES.__getitem__, default=False)


@final
class Text(msgspec.Struct, frozen=True, gc=False):
    """Visible text. `cache` marks the end of a prefix that the client wants cached."""

    text: str
    cache: CacheMark = False


@final
class Media(msgspec.Struct, frozen=True, gc=False):
    """An image, a document, a sound or a video. Exactly one of `data`, `url`, `file_id`, `text` is set.

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
    """Opaque data that a provider wants back, byte for byte, with the block it came with. `origin` names who issued it
    (see `carrying.origin_of`): anybody else refuses it."""

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
    """A block only the API `api` understands (server tool calls, containers...). `raw` is its JSON. Other APIs get
    `text` when there is a faithful rendering, else they drop the block by its `type`, and name it."""

    api: str
    type: str
    raw: bytes
    text: str | None = None


Block = Text | Media | Thinking | ToolCall | ToolResult | Opaque


class Message(msgspec.Struct, frozen=True):
    """One turn. Tool results are blocks of a user message; `system` may stand anywhere in the conversation."""

    role: Literal["system", "user", "assistant"]
    content: list[Block]
    extra: dict[str, msgspec.Raw] = {}
    """Fields of the client's own API that say more than the blocks hold (opaque items of reasoning): only a provider of
    that API gets them."""


# ----------------------------------------------------------------------------------------------------------- request


class Tool(msgspec.Struct, frozen=True):
    """A tool that the client runs. `schema` is the JSON Schema of its arguments as decoded JSON."""

    name: str
    description: str | None
    schema: dict[str, object]
    strict: bool | None = None
    deferred: bool = False
    """Known to the client, not loaded yet by the model (Anthropic's `defer_loading`)."""
    custom: bool = False
    """Takes free text instead of arguments (OpenAI's `custom` tools). Its schema is then that of an object with the one
    string `input`; `format` is the JSON of its grammar, for providers that know such tools."""
    format: msgspec.Raw | None = None
    cache: CacheMark = False
    eager: bool | None = None
    """Whether its arguments are streamed before they are checked (Anthropic's `eager_input_streaming`)."""


class ServerTool(msgspec.Struct, frozen=True):
    """A tool that the provider runs (web search...). `raw` is its JSON in the API `api`."""

    api: str
    type: str
    name: str
    raw: bytes


class ToolChoice(msgspec.Struct, frozen=True, gc=False):
    """`tool` names the one tool when mode is "tool". `allowed`: with auto and required only these may be called."""

    mode: Literal["auto", "required", "tool", "none"]
    tool: str | None = None
    allowed: tuple[str, ...] = ()


class ThinkingConfig(msgspec.Struct, frozen=True, gc=False):
    """What the client asks of reasoning. `budget` is in tokens; `effort` one of minimal, low, medium, high, xhigh,
    max. mode None: the client said nothing but an effort. `preserved`: whether the reasoning of all earlier turns stays
    before the model; None: the client did not say."""

    mode: Literal["enabled", "adaptive", "disabled"] | None = None
    budget: int | None = None
    effort: str | None = None
    preserved: bool | None = None


class OutputFormat(msgspec.Struct, frozen=True):
    """Structured output. `schema` None: any JSON object."""

    schema: dict[str, object] | None
    name: str = "output"
    strict: bool | None = None


class Request(msgspec.Struct, kw_only=True):
    """One request, whatever API it came in."""

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
    """The fields in which the client said it, as they stand in its request; empty where it gave nothing but an effort,
    which every endpoint is told in its own way. A provider of the same API that nobody knows gets these."""
    output_format: OutputFormat | None = None
    user: str | None = None
    """An opaque id of the end user, of any length and alphabet."""
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logprobs: bool = False
    top_logprobs: int | None = None
    choices: int = 1
    """Answers that the client wants to one request (OpenAI's `n`)."""
    cites: bool = False
    """Whether answers have a place for `Citations` in the client's API; elsewhere sources are told in the text."""
    want_usage: bool = True
    """Whether the client asked for figures in a stream (OpenAI's `include_usage`); other APIs always tell them."""
    extra: dict[str, msgspec.Raw] = {}
    """Top-level fields of the client's own API `api` that have no place here: only a provider of that API gets them,
    for others they are named."""
    api: str = ""


# ------------------------------------------------------------------------------------------------------------ answer

FinishReason = Literal["stop", "stop_sequence", "length", "tool_calls", "content_filter", "refusal", "pause",
                       "context_length"]


class Usage(msgspec.Struct, frozen=True, gc=False):
    """Tokens of one exchange. `input` is the whole prompt, with `cached` (read from a cache) and `cache_write` as
    parts of it; `output` is everything generated, with `reasoning` as a part of it. `estimated`: the provider sent
    no figures."""

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0
    estimated: bool = False


class Start(msgspec.Struct, frozen=True, gc=False):
    """The answer begins. `id` and `model` are the provider's own."""

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
    """A tool call begins. `id` and `name` are final and those of the client; `ArgumentsDelta`s follow. `signature` must
    come back with the call."""

    id: str
    name: str
    signature: Signature | None = None


class ArgumentsDelta(msgspec.Struct, frozen=True, gc=False):
    """A piece of the JSON text of the arguments."""

    json: str


class BlockStop(msgspec.Struct, frozen=True, gc=False):
    """The open block is complete."""


class Citations(msgspec.Struct, frozen=True):
    """What the answer rests on, for a client that has a place for it (`Request.cites`): at most once, behind the last
    block. All is JSON as the provider sent it: `annotations` of pieces of the text, and the fields beside the answer,
    by their names, in `extra`."""

    annotations: list[msgspec.Raw]
    extra: dict[str, msgspec.Raw]


class Refusal(msgspec.Struct, frozen=True, gc=False):
    """Why an answer was refused. `explanation` is for people, "" for none; `details` is the object in which Anthropic's
    API tells it, as it came."""

    explanation: str
    details: msgspec.Raw


class Finish(msgspec.Struct, frozen=True, gc=False):
    """The answer is complete: nothing follows."""

    reason: FinishReason
    usage: Usage
    stop_sequence: str | None = None
    refusal: Refusal | None = None


class RawEvent(msgspec.Struct, frozen=True, gc=False):
    """Bytes of the client's own API that a provider of the same API sent, as they go out. `content`: they hold content;
    `calls`: so many tool calls begin in them. An answer passes whole or not at all."""

    data: bytes
    content: bool = False
    calls: int = 0


Event = (Start | TextStart | TextDelta | ThinkingStart | ThinkingDelta | SignatureDelta | RedactedThinking
         | ToolCallStart | ArgumentsDelta | BlockStop | Citations | Finish | Failure | RawEvent)
