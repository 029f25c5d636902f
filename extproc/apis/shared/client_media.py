"""Images, sounds, videos and files of an OpenAI client (both APIs) -> `Media`.

Data URLs are split, and base64 gets the alphabet, the padding and the single line that every provider takes. Everything
else stays as the client wrote it; nothing is fetched or decoded. Called by the readers of parts.
"""

from __future__ import annotations

import base64
from typing import Literal
from urllib.parse import unquote_to_bytes

from extproc.apis.shared.wire import refused
from extproc.conversation.model import CacheMark, Media

Kind = Literal["image", "document", "audio", "video"]

_AUDIO_TYPES = {"mp3": "audio/mpeg", "pcm16": "audio/pcm", "m4a": "audio/mp4"}
"""Sound formats whose media type is not `audio/FORMAT`."""

_FILE_TYPES = {"pdf": "application/pdf", "txt": "text/plain", "md": "text/markdown", "csv": "text/csv",
               "html": "text/html", "htm": "text/html", "xml": "application/xml", "json": "application/json",
               "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "gif": "image/gif", "webp": "image/webp",
               "docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
               "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
               "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation"}
"""Media types by file name extension, for files without a media type."""


_BEGINNINGS = {"iVBORw0K": "image/png", "/9j/": "image/jpeg", "R0lGOD": "image/gif", "UklGR": "image/webp",
               "JVBERi": "application/pdf"}
"""The first base64 characters of these types: some clients send bare base64 in place of a URL."""

_ORDINARY = str.maketrans("-_", "+/")

_KINDS: dict[str, Kind] = {"image": "image", "audio": "audio", "video": "video", "application": "document",
                           "text": "document"}


def media_of_url(kind: Kind, url: str, path: str, *, detail: str | None = None, title: str | None = None,
                 cache: CacheMark = False) -> Media:
    """Media behind a URL or in a data URL. The media type of a data URL overrides the kind of the part (a PDF sent as
    an image)."""
    if not url:
        raise refused(path, "expected a URL, got an empty string")
    if url[:5].lower() != "data:":
        bare = next((media_type for start, media_type in _BEGINNINGS.items() if url.startswith(start)), None)
        if bare is not None:
            return Media(kind_of(bare, kind), media_type=bare, data=standard_base64(url), detail=detail, title=title,
                         cache=cache)
        return Media(kind, url=url, detail=detail, title=title, cache=cache)
    media_type, data = _split_data_url(url, path)
    return Media(kind_of(media_type, kind), media_type=media_type, data=data, detail=detail, title=title, cache=cache)


def media_of_audio(data: str, audio_format: str | None, path: str, *, cache: CacheMark = False) -> Media:
    """`input_audio`: base64 and the name of a format."""
    if data[:5].lower() == "data:":
        return media_of_url("audio", data, path, cache=cache)
    name = (audio_format or "").lower()
    media_type = _AUDIO_TYPES.get(name) or (f"audio/{name}" if name else None)
    return Media("audio", media_type=media_type, data=standard_base64(data), cache=cache)


def media_of_file(data: str | None, file_id: str | None, url: str | None, name: str | None, media_type: str | None,
                  path: str,
         *, cache: CacheMark = False) -> Media:
    """A file: its bytes as a data URL or bare base64, an id of the provider's file store, or a URL."""
    if data:
        if data[:5].lower() == "data:":
            return media_of_url("document", data, path, title=name, cache=cache)
        if data.startswith(("https://", "http://")):  # OpenRouter
            return Media("document", url=data, title=name, media_type=media_type, cache=cache)
        found = media_type or _FILE_TYPES.get((name or "").rpartition(".")[2].lower())
        return Media(kind_of(found, "document"), media_type=found, data=standard_base64(data), title=name, cache=cache)
    if file_id:
        return Media("document", file_id=file_id, title=name, cache=cache)
    if url:
        return media_of_url("document", url, path, title=name, cache=cache)
    raise refused(path, "one of file_data, file_id or file_url is required")


def kind_of(media_type: str | None, otherwise: Kind) -> Kind:
    """The kind of media of a media type; `otherwise` for an unknown one."""
    return _KINDS.get((media_type or "").partition("/")[0], otherwise)


def _split_data_url(url: str, path: str) -> tuple[str | None, str]:
    """The media type and the base64 of a data URL."""
    head, comma, data = url[5:].partition(",")
    if not comma:
        raise refused(path, "this data URL holds no data: expected data:TYPE;base64,DATA")
    media_type, *parameters = head.split(";")
    if any(parameter.strip().lower() == "base64" for parameter in parameters):
        if "%" in data:  # escaped padding
            data = unquote_to_bytes(data).decode("ascii", "replace")
        data = standard_base64(data)
    else:
        data = base64.b64encode(unquote_to_bytes(data)).decode()
    if not data:
        raise refused(path, "this data URL holds no data")
    return media_type.strip().lower() or None, data


def standard_base64(data: str) -> str:
    """Base64 in the form that all providers take: one line, standard alphabet, padded. Several providers answer 400 to
    MIME line ends and to the URL alphabet."""
    if any(blank in data for blank in "\n\r\t "):
        data = "".join(data.split())
    if "-" in data or "_" in data:
        data = data.translate(_ORDINARY)
    return data + "=" * (-len(data) % 4)
