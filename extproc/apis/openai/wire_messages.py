"""The messages of a Chat Completions request: read from clients, written for providers.

Reading is lenient and precise about places: raw fields, unknown fields by name. Writing is strict: fields in a fixed
order, defaults left out, so that the same request is the same bytes and prompt caches hit. One record does both where
the two agree. Otherwise the record for reading is beside the one for writing and is called `Client...` (any form
a client may send), `Typed...` (known form, any type word) or `Known...` (this API's own form, read in one pass).

Fields that single servers and clients added to the format are listed as soon as the gateway understands them. Nothing
here depends on the conversation model.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec
from msgspec.structs import astuple

from extproc.apis.shared.cache_marks import CacheControl

Raw = msgspec.Raw

T = TypeVar("T")
C = TypeVar("C")

# --------------------------------------------------------------------------------------------------------------- parts


class ClientText(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Base of the text parts."""

    text: str | None
    cache_control: Raw = Raw()
    annotations: Raw = Raw()


class TypedText(ClientText, forbid_unknown_fields=True, kw_only=True):
    """A text part of the type `text`, `input_text` or `output_text`."""

    type: str


class KnownText(ClientText, tag_field="type", tag="text", forbid_unknown_fields=True, kw_only=True):
    """A text part of the type `text`."""


class TextPart(msgspec.Struct, tag_field="type", tag="text", omit_defaults=True):
    text: str
    cache_control: CacheControl | None = None


class RefusalPart(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    refusal: str


class ClientUrlPart(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Media by URL. The member is named after the part (`image_url`...) and holds an object or the URL alone. `detail`
    beside it is the Responses API's form."""

    image_url: Raw = Raw()
    video_url: Raw = Raw()
    audio_url: Raw = Raw()
    detail: str | None = None
    file_id: str | None = None
    cache_control: Raw = Raw()


class TypedUrl(ClientUrlPart, forbid_unknown_fields=True, kw_only=True):
    """A URL part of any type."""

    type: str


class KnownImage(ClientUrlPart, tag_field="type", tag="image_url", forbid_unknown_fields=True, kw_only=True):
    """A URL part of the type `image_url`."""


class Url(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    url: str
    detail: str | None = None


class ImagePart(msgspec.Struct, tag_field="type", tag="image_url", omit_defaults=True):
    image_url: Url
    cache_control: CacheControl | None = None


class VideoPart(msgspec.Struct, tag_field="type", tag="video_url", omit_defaults=True):
    video_url: Url
    cache_control: CacheControl | None = None


class ClientAudioPart(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    input_audio: Raw
    cache_control: Raw = Raw()


class Audio(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    data: str
    format: str | None = None


class AudioPart(msgspec.Struct, tag_field="type", tag="input_audio", omit_defaults=True):
    input_audio: Audio | str
    cache_control: CacheControl | None = None


class ClientFilePart(msgspec.Struct, forbid_unknown_fields=True):
    """`file` is this API's member; the members beside it are those of the Responses API's `input_file`."""

    type: str
    file: Raw = Raw()
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    filename: str | None = None
    cache_control: Raw = Raw()


class File(msgspec.Struct, frozen=True, omit_defaults=True, gc=False, forbid_unknown_fields=True):
    filename: str | None = None
    file_data: str | None = None
    file_id: str | None = None
    file_url: str | None = None
    format: str | None = None


class FilePart(msgspec.Struct, tag_field="type", tag="file", omit_defaults=True):
    file: File
    cache_control: CacheControl | None = None


class ClientDocumentPart(msgspec.Struct, forbid_unknown_fields=True):
    """A document by URL: `document_url` (Mistral's clients) or `file_url` (Perplexity's)."""

    type: str
    document_url: Raw = Raw()
    file_url: Raw = Raw()
    document_name: str | None = None
    file_name: str | None = None
    cache_control: Raw = Raw()


class DocumentUrlPart(msgspec.Struct, tag_field="type", tag="document_url", omit_defaults=True):
    """A PDF at Mistral."""

    document_url: str
    document_name: str | None = None
    cache_control: CacheControl | None = None


class FileUrlPart(msgspec.Struct, tag_field="type", tag="file_url", omit_defaults=True):
    """A PDF at Perplexity."""

    file_url: Url
    file_name: str | None = None
    cache_control: CacheControl | None = None


# ----------------------------------------------------------------------------------------------------------- reasoning


class ClientThinkingPart(msgspec.Struct, forbid_unknown_fields=True):
    """Anthropic's block, whose text is a string, or Mistral's, whose text is a list of text parts."""

    type: str
    thinking: str | list[Raw] = ""
    signature: str | None = None
    closed: bool | None = None
    cache_control: Raw = Raw()


class ThinkingPart(msgspec.Struct, tag_field="type", tag="thinking"):
    """Reasoning inside the content, in Mistral's form."""

    thinking: list[TextPart]


class RedactedPart(msgspec.Struct, forbid_unknown_fields=True):
    type: str
    data: str
    cache_control: Raw = Raw()


class ReasoningItem(msgspec.Struct):
    """One of OpenRouter's `reasoning_details`."""

    type: str
    id: str | None = None
    text: str | None = None
    summary: str | None = None
    data: str | None = None
    signature: str | None = None
    format: str | None = None
    index: int | None = None


Part = TextPart | ImagePart | FilePart | DocumentUrlPart | FileUrlPart | AudioPart | VideoPart
AssistantPart = TextPart | ThinkingPart

# -------------------------------------------------------------------------------------------------------------- calls


class ClientCall(msgspec.Struct, forbid_unknown_fields=True):
    id: str | None = None
    type: str | None = None
    index: Raw = Raw()
    function: Raw = Raw()
    custom: Raw = Raw()
    extra_content: Raw = Raw()
    """Added to calls by Google's OpenAI-compatible endpoint."""
    cache_control: Raw = Raw()


class ClientFunctionCall(msgspec.Struct, forbid_unknown_fields=True):
    """`arguments` is JSON text; some clients send the object itself."""

    name: str
    arguments: Raw = Raw()
    parsed_arguments: Raw = Raw()


class FunctionCall(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    name: str
    arguments: str


class KnownCall(msgspec.Struct, tag_field="type", tag="function", omit_defaults=True, forbid_unknown_fields=True):
    """A function call in this API's own form."""

    id: str
    function: FunctionCall

    @property
    def name(self) -> str:
        return self.function.name


class GoogleContent(msgspec.Struct, frozen=True, gc=False):
    thought_signature: str


class Call(KnownCall, tag_field="type", tag="function", omit_defaults=True):
    """A function call to be written."""

    extra_content: dict[str, GoogleContent] | None = None
    """The signature that Google's endpoints want back with a call, under the member that it came in."""


class CustomInput(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    name: str
    input: str = ""


class CustomCall(msgspec.Struct, tag_field="type", tag="custom", frozen=True, gc=False, forbid_unknown_fields=True):
    """A call of a tool that takes free text."""

    id: str
    custom: CustomInput

    @property
    def name(self) -> str:
        return self.custom.name


AnyCall = Call | CustomCall

# ----------------------------------------------------------------------------------------------------------- messages


class ClientMessage(msgspec.Struct, Generic[T, C], forbid_unknown_fields=True):
    """A message of any role, with parts `T` and calls `C`. Each field after `function_call` belongs to some server;
    clients echo them all."""

    role: str
    content: str | list[T] | None = None
    name: str | None = None
    tool_call_id: str | None = None
    tool_calls: list[C] | None = None
    refusal: str | None = None
    audio: Raw = Raw()
    annotations: Raw = Raw()
    function_call: Raw = Raw()
    reasoning_content: Raw = Raw()
    reasoning: Raw = Raw()
    reasoning_details: Raw = Raw()
    thinking: Raw = Raw()
    thinking_blocks: Raw = Raw()
    cache_control: Raw = Raw()
    prefix: Raw = Raw()
    partial: Raw = Raw()
    parsed: Raw = Raw()
    """The content as the official SDK parsed it."""

    @property
    def raw_fields(self) -> tuple[Raw, ...]:
        """The values of the raw fields; empty for most messages, which have none."""
        values = astuple(self)[_FIRST_RAW:]
        return () if values == _NO_RAW else values

    @property
    def server_fields(self) -> tuple[Raw, ...]:
        """The values of the fields after `function_call`, which are not OpenAI's; empty where none is present."""
        values = astuple(self)[_FIRST_SERVER:]
        return () if values == _NO_SERVER else values


_FIRST_RAW = ClientMessage.__struct_fields__.index("audio")
_FIRST_SERVER = ClientMessage.__struct_fields__.index("reasoning_content")
_NO_RAW = astuple(ClientMessage(""))[_FIRST_RAW:]
_NO_SERVER = astuple(ClientMessage(""))[_FIRST_SERVER:]

KnownMessage = ClientMessage[str | KnownText | KnownImage, KnownCall]
"""A message of known parts and calls."""
AnyMessage = ClientMessage[Raw, Raw] | KnownMessage
NativeMessage = ClientMessage[Raw, KnownCall | CustomCall]
"""A message with OpenAI's own fields around parts of any kind."""


class SystemMessage(msgspec.Struct, tag_field="role", tag="system", frozen=True):
    content: str | list[TextPart]


class UserMessage(msgspec.Struct, tag_field="role", tag="user", frozen=True):
    content: str | list[Part]


class AssistantMessage(msgspec.Struct, tag_field="role", tag="assistant", omit_defaults=True):
    """`content` has no default: null is written as null."""

    content: str | list[AssistantPart] | None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, object]] = []
    tool_calls: list[AnyCall] = []
    prefix: bool = False
    partial: bool = False


class ToolMessage(msgspec.Struct, tag_field="role", tag="tool", frozen=True):
    tool_call_id: str
    content: str | list[TextPart]


ProviderMessage = SystemMessage | UserMessage | AssistantMessage | ToolMessage
