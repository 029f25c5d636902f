"""Content of messages and outputs of tools -> blocks of the conversation model. Called by `items`."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from extproc.apis.responses.wire_request import Audio, ClientPart
from extproc.apis.shared.client_media import media_of_audio, media_of_file, media_of_url
from extproc.apis.shared.wire import Shape, first_byte, given, is_string, refused
from extproc.conversation.model import Media, Text
from extproc.conversation.unsupported import Dropped

_part = Shape(ClientPart)
_audio = Shape(Audio)
_string = msgspec.json.Decoder(str)
_list: msgspec.json.Decoder[list[msgspec.Raw]] = msgspec.json.Decoder(list[msgspec.Raw])


class _Url(msgspec.Struct):
    url: str
    detail: str | None = None


_url = Shape(_Url)


def read_content(content: str | Sequence[ClientPart] | None, path: str, dropped: Dropped) -> list[Text | Media]:
    """The blocks of a message. Empty text is left out: many providers refuse it."""
    if content is None or isinstance(content, str):
        return [Text(content)] if content else []
    blocks: list[Text | Media] = []
    for at, part in enumerate(content):
        block = _read_part(part, f"{path}[{at}]", dropped)
        if block is not None:
            blocks.append(block)
    return blocks


def read_output(raw: msgspec.Raw, path: str, dropped: Dropped) -> list[Text | Media]:
    """The blocks of a tool's output: a text or a list of parts. Any other JSON counts as text."""
    if not given(raw):
        return []
    if is_string(raw):
        text = _string.decode(raw)
        return [Text(text)] if text else []
    if first_byte(raw) == b"[":
        items = _list.decode(raw)
        if items and all(first_byte(item) == b"{" for item in items):
            return read_content(read_parts(items, path, dropped), path, dropped)
    return [Text(bytes(raw).decode())]


def read_parts(parts: Sequence[msgspec.Raw], path: str, dropped: Dropped) -> list[ClientPart]:
    """Parts with unknown fields, which are named."""
    read: list[ClientPart] = []
    for at, raw in enumerate(parts):
        part, unknown = _part.read(raw, f"{path}[{at}]")
        for field in unknown:
            dropped.hint(f"{part.type or 'content'}.{field}")
        read.append(part)
    return read


def _read_part(part: ClientPart, path: str, dropped: Dropped) -> Text | Media | None:
    kind = part.type or ("input_text" if part.text is not None else "")
    if kind in ("input_text", "output_text", "text", "summary_text", "reasoning_text"):
        return Text(part.text) if part.text else None
    if kind == "refusal":
        return Text(part.refusal) if part.refusal else None
    if kind in ("input_image", "image_url"):
        return _read_image(part, path)
    if kind in ("input_file", "file"):
        return media_of_file(part.file_data, part.file_id, part.file_url, part.filename, None, path)
    if kind == "input_audio":
        audio, _ = _audio.read(part.input_audio, f"{path}.input_audio")
        return media_of_audio(audio.data, audio.format, f"{path}.input_audio.data")
    if not kind:
        raise refused(f"{path}.type", "this field is required")
    dropped.loss(f"input.{kind}")
    return None


def _read_image(part: ClientPart, path: str) -> Media:
    if part.file_id:
        return Media("image", file_id=part.file_id, detail=part.detail)
    if not given(part.image_url):
        raise refused(f"{path}.image_url", "this field is required")
    if is_string(part.image_url):
        return media_of_url("image", _string.decode(part.image_url), f"{path}.image_url", detail=part.detail)
    url, _ = _url.read(part.image_url, f"{path}.image_url")
    return media_of_url("image", url.url, f"{path}.image_url.url", detail=url.detail or part.detail)
