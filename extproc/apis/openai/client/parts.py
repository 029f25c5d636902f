"""Content parts of a chat message -> blocks of the conversation model.

Called by `messages` for every message. A part is either a typed record already, or raw JSON from a message with an
unknown part. Each part type has one reader in the table at the end; equivalent types of the Responses API, OpenRouter
and other servers have one, too. A type without a reader becomes `Opaque` and keeps its bytes. Fields that a reader
cannot carry are named in `dropped`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from extproc.apis.openai.client.reasoning import read_redacted_part, read_thinking_part
from extproc.apis.openai.wire_messages import (
    Audio,
    ClientAudioPart,
    ClientDocumentPart,
    ClientFilePart,
    ClientText,
    ClientUrlPart,
    File,
    KnownImage,
    KnownText,
    RefusalPart,
    TypedText,
    TypedUrl,
    Url,
)
from extproc.apis.shared.cache_marks import read_mark
from extproc.apis.shared.client_media import Kind, media_of_audio, media_of_file, media_of_url
from extproc.apis.shared.wire import Shape, given, is_string, refused, type_of
from extproc.conversation.model import Block, Media, Opaque, Text, Thinking
from extproc.conversation.unsupported import Dropped

Reader = Callable[[msgspec.Raw, str, Dropped], Sequence[Block]]

_text = Shape(TypedText)
_refusal = Shape(RefusalPart)
_url_part = Shape(TypedUrl)
_url = Shape(Url)
_audio_part = Shape(ClientAudioPart)
_audio = Shape(Audio)
_document_url = Shape(ClientDocumentPart)
_file_part = Shape(ClientFilePart)
_file = Shape(File)
_string = msgspec.json.Decoder(str)


def read_content(content: str | Sequence[msgspec.Raw | str | KnownText | KnownImage] | None, role: str,
                 at: int, dropped: Dropped) -> list[Block]:
    """The blocks of message number `at`. Empty text is left out: it has no meaning in any API, and many refuse it."""
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    blocks: list[Block] = []
    for position, raw in enumerate(content):
        place = f"messages[{at}].content[{position}]"
        if isinstance(raw, KnownText):
            blocks += _text_of(raw)
            continue
        if isinstance(raw, KnownImage):
            blocks += _media_of("image", raw, raw.image_url, place, dropped)
            continue
        if isinstance(raw, str) or is_string(raw):
            text = raw if isinstance(raw, str) else _string.decode(raw)
            blocks += [Text(text)] if text else []
            continue
        kind = type_of(raw, place)
        reader = _READERS.get(kind)
        read = reader(raw, place, dropped) if reader else [Opaque("openai", kind, bytes(raw))]
        if role != "assistant" and any(isinstance(block, Thinking) for block in read):
            raise refused(place, f"a {kind} part is not allowed in a message of the role {role}")
        blocks.extend(read)
    return blocks


def note_unknown(dropped: Dropped, place: str, unknown: Sequence[str]) -> None:
    """Names the unknown fields of a record in `dropped`."""
    for field in unknown:
        dropped.hint(f"{place}.{field}")


def _read_text(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Text]:
    part, unknown = _text.read(raw, path)
    note_unknown(dropped, "text", unknown)
    return _text_of(part)


def _text_of(part: ClientText) -> list[Text]:
    return [Text(part.text, cache=read_mark(part.cache_control))] if part.text else []


def _read_refusal(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Text]:
    part, unknown = _refusal.read(raw, path)
    note_unknown(dropped, "refusal", unknown)
    return [Text(part.refusal)] if part.refusal else []


def _by_url(kind: Kind) -> Reader:
    member = f"{kind}_url"

    def read(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Media]:
        part, unknown = _url_part.read(raw, path)
        note_unknown(dropped, member, unknown)
        return _media_of(kind, part, getattr(part, member), path, dropped)

    return read


def _media_of(kind: Kind, part: ClientUrlPart, value: msgspec.Raw, path: str, dropped: Dropped) -> list[Media]:
    """`value`: the member of the part that is named after it."""
    member = f"{kind}_url"
    cache = read_mark(part.cache_control)
    if part.file_id:
        return [Media(kind, file_id=part.file_id, detail=part.detail, cache=cache)]
    if not given(value):
        raise refused(f"{path}.{member}", "this field is required")
    if is_string(value):
        return [media_of_url(kind, _string.decode(value), f"{path}.{member}", detail=part.detail, cache=cache)]
    url, unknown = _url.read(value, f"{path}.{member}")
    note_unknown(dropped, member, unknown)
    return [media_of_url(kind, url.url, f"{path}.{member}.url", detail=url.detail or part.detail, cache=cache)]


def _read_audio(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Media]:
    part, unknown = _audio_part.read(raw, path)
    if is_string(part.input_audio):  # Mistral: base64 or a URL alone
        note_unknown(dropped, "input_audio", unknown)
        text, place = _string.decode(part.input_audio), f"{path}.input_audio"
        if text.startswith(("https://", "http://")):
            return [media_of_url("audio", text, place, cache=read_mark(part.cache_control))]
        return [media_of_audio(text, None, place, cache=read_mark(part.cache_control))]
    audio, more = _audio.read(part.input_audio, f"{path}.input_audio")
    note_unknown(dropped, "input_audio", [*unknown, *more])
    return [media_of_audio(audio.data, audio.format, f"{path}.input_audio.data", cache=read_mark(part.cache_control))]


def _read_document_url(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Media]:
    part, unknown = _document_url.read(raw, path)
    note_unknown(dropped, part.type, unknown)
    member = "document_url" if given(part.document_url) else "file_url"
    value = getattr(part, member)
    if not given(value):
        raise refused(f"{path}.{part.type}", "this field is required")
    if is_string(value):
        url = _string.decode(value)
    else:
        inner, unknown = _url.read(value, f"{path}.{member}")
        note_unknown(dropped, member, unknown)
        url = inner.url
    return [media_of_url("document", url, f"{path}.{member}", title=part.document_name or part.file_name,
                         cache=read_mark(part.cache_control))]


def _read_file(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Media]:
    part, unknown = _file_part.read(raw, path)
    note_unknown(dropped, "file", unknown)
    cache = read_mark(part.cache_control)
    if not given(part.file):
        return [media_of_file(part.file_data, part.file_id, part.file_url, part.filename, None, path, cache=cache)]
    inner, unknown = _file.read(part.file, f"{path}.file")
    note_unknown(dropped, "file", unknown)
    return [media_of_file(inner.file_data, inner.file_id, inner.file_url, inner.filename, inner.format, f"{path}.file",
                 cache=cache)]


_READERS: dict[str, Reader] = {
    "text": _read_text,
    "input_text": _read_text,
    "output_text": _read_text,
    "refusal": _read_refusal,
    "image_url": _by_url("image"),
    "input_image": _by_url("image"),
    "video_url": _by_url("video"),
    "audio_url": _by_url("audio"),
    "input_audio": _read_audio,
    "document_url": _read_document_url,
    "file_url": _read_document_url,
    "file": _read_file,
    "input_file": _read_file,
    "thinking": read_thinking_part,
    "redacted_thinking": read_redacted_part,
}
