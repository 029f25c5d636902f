"""Media blocks as parts of Gemini's format, or as a note if they cannot be carried.

Bytes become `inlineData`; addresses that Gemini itself fetches become `fileData` (web addresses, Cloud Storage,
YouTube, files of its own Files API); text documents become text. A missing type is guessed from the first bytes or from
the address. Nothing is fetched here. Called by the contents encoder.

Sources: ai.google.dev/gemini-api/docs/file-input-methods, image-understanding, document-processing, audio,
video-understanding; the pages of the models at docs.cloud.google.com (lists of MIME types). A type outside those
lists fails the whole request: "Unsupported MIME type".
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import urlsplit

from extproc.apis.gemini.wire import Blob, FileData, RequestPart
from extproc.apis.shared.media import lost_media, text_of_media
from extproc.conversation.model import Media
from extproc.conversation.unsupported import Dropped
from extproc.profiles.gemini import GeminiEndpoint, GeminiModel
from extproc.profiles.target import Target

_TYPES = frozenset({
    "image/png", "image/jpeg", "image/webp", "image/heic", "image/heif",
    "application/pdf", "text/plain", "text/html", "text/css", "text/csv", "text/xml", "text/rtf", "text/markdown",
    "audio/wav", "audio/mp3", "audio/mpeg", "audio/aiff", "audio/aac", "audio/ogg", "audio/flac", "audio/m4a",
    "audio/mp4", "audio/opus", "audio/webm", "audio/pcm",
    "video/mp4", "video/mpeg", "video/mpg", "video/quicktime", "video/mov", "video/avi", "video/x-flv", "video/webm",
    "video/wmv", "video/3gpp",
})
"""Types that Gemini takes. It refuses GIF, BMP, TIFF, SVG and office documents."""
_RESULT_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
"""Types that a function response may hold."""
_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png",
            "application/x-pdf": "application/pdf", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav",
            "audio/vnd.wave": "audio/wav", "audio/x-aiff": "audio/aiff", "audio/x-flac": "audio/flac",
            "audio/x-m4a": "audio/m4a", "audio/x-mp3": "audio/mp3", "audio/x-aac": "audio/aac",
            "audio/mpga": "audio/mpeg", "text/md": "text/markdown",
            "text/x-markdown": "text/markdown", "application/xml": "text/xml", "application/rtf": "text/rtf",
            "video/mpegs": "video/mpeg", "video/flv": "video/x-flv", "video/x-m4v": "video/mp4",
            "video/x-msvideo": "video/avi", "video/x-ms-wmv": "video/wmv", "video/3gp": "video/3gpp"}
"""Other names of types -> the names in Gemini's lists."""
_FIRST_BYTES = ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
          (b"%PDF", "application/pdf"), (b"ID3", "audio/mp3"), (b"\xff\xfb", "audio/mp3"), (b"\xff\xf3", "audio/mp3"),
          (b"OggS", "audio/ogg"), (b"fLaC", "audio/flac"), (b"FORM", "audio/aiff"), (b"\x1aE\xdf\xa3", "video/webm"))
"""The first bytes of a file -> its type."""
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/avi"}
_BRANDS = {b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heif", b"M4A ": "audio/m4a",
           b"qt  ": "video/quicktime"}
"""The brand of an ISO media file -> its type; all other brands are MP4."""
_EXTENSIONS = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp",
               "heic": "image/heic", "heif": "image/heif", "gif": "image/gif", "pdf": "application/pdf",
               "txt": "text/plain", "md": "text/markdown", "csv": "text/csv", "html": "text/html", "htm": "text/html",
               "wav": "audio/wav", "mp3": "audio/mp3", "aif": "audio/aiff", "aiff": "audio/aiff", "aac": "audio/aac",
               "ogg": "audio/ogg", "flac": "audio/flac", "m4a": "audio/m4a", "mp4": "video/mp4", "m4v": "video/mp4",
               "mov": "video/quicktime", "mpeg": "video/mpeg", "mpg": "video/mpg", "avi": "video/avi",
               "flv": "video/x-flv", "webm": "video/webm", "wmv": "video/wmv", "3gp": "video/3gpp"}
_DEFAULT_TYPES = {"image": "image/jpeg", "document": "application/pdf", "audio": "audio/mp3", "video": "video/mp4"}
"""The type that is sent if one is required and none is known."""
_UNSPECIFIC_TYPES = frozenset({"application/octet-stream", "binary/octet-stream"})
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_YOUTUBE = re.compile(r"https?://(?:www\.|m\.|music\.)?(?:youtube\.com/(?:watch|shorts/|live/|embed/)|youtu\.be/)",
                      re.IGNORECASE)
_FILE_NAME = re.compile(r"files/[a-z0-9-]{1,64}")


class MediaEncoder:
    """Encodes media for one target."""

    def __init__(self, model: GeminiModel, endpoint: GeminiEndpoint, target: Target, dropped: Dropped) -> None:
        self._model = model
        self._endpoint = endpoint
        host = target.endpoint or "generativelanguage.googleapis.com"
        self._files_url = f"https://{host}{target.base_path or '/v1beta'}"
        self._dropped = dropped

    def encode_in_turn(self, media: Media) -> list[RequestPart]:
        """The parts of media in a user turn; a note, with the loss named, if they cannot be carried."""
        text = text_of_media(media)
        if text is not None:
            return [RequestPart(text=text)] if text else []
        return self.encode_media(media) or [RequestPart(text=lost_media(media, self._dropped))]

    def encode_media(self, media: Media) -> list[RequestPart]:
        """The parts of media other than text; empty if they cannot be carried."""
        part = self._media_part(media)
        if part is None:
            return []
        label = [f"Document: {media.title}"] if media.title else []
        label += [media.context] if media.context else []
        if media.detail not in (None, "auto"):
            self._dropped.hint(f"messages.{media.kind}.detail")
        return [RequestPart(text="\n\n".join(label)), part] if label else [part]

    def encode_in_result(self, media: Media) -> Blob | None:
        """The bytes for a function response; None for media that cannot stand in one."""
        if not self._model.media_in_results or media.title or media.context:
            return None
        blob = self._blob(media)
        return blob if blob is not None and blob.mime_type in _RESULT_TYPES else None

    def _media_part(self, media: Media) -> RequestPart | None:
        if media.kind not in self._model.media:
            return None
        blob = self._blob(media)
        if blob is not None:
            return RequestPart(inline_data=blob)
        file = self._file(media)
        return None if file is None else RequestPart(file_data=file)

    def _blob(self, media: Media) -> Blob | None:
        data, kind = media.data, media.media_type
        if data is None and media.url is not None and (head := _DATA_URL.match(media.url)):
            data, kind = media.url[head.end():], head.group(1) or kind
        if not data:
            return None
        found = _normalized_type(kind) or _type_of_bytes(data)
        return Blob(found, data) if found is not None and found in _TYPES else None

    def _file(self, media: Media) -> FileData | None:
        address = self._address(media)
        if address is None:
            return None
        if _YOUTUBE.match(address):
            return FileData(address, "video/mp4" if self._endpoint.media_type_required else None)
        found = _normalized_type(media.media_type) or _type_of_address(address)
        if found is not None and found not in _TYPES:
            return None
        if found is None and self._endpoint.media_type_required:
            found = _DEFAULT_TYPES[media.kind]
        return FileData(address, found)

    def _address(self, media: Media) -> str | None:
        """An address that Gemini can fetch: on the web, in Cloud Storage, or a file of its own Files API."""
        if media.url is not None:
            return media.url if media.url.startswith(("https://", "http://", "gs://")) else None
        if media.file_id is None:
            return None
        if media.file_id.startswith("gs://") or re.match(r"https://[^/]+/v1\w*/files/", media.file_id):
            return media.file_id
        if _FILE_NAME.fullmatch(media.file_id) and self._endpoint.name == "studio":
            return f"{self._files_url}/{media.file_id}"
        return None


def _normalized_type(media_type: str | None) -> str | None:
    """The type by Gemini's name; None if it is missing or unspecific."""
    plain = (media_type or "").partition(";")[0].strip().lower()
    if not plain or plain in _UNSPECIFIC_TYPES or "/" not in plain or plain.endswith("/*"):
        return None
    return _ALIASES.get(plain, plain)


def _type_of_bytes(data: str) -> str | None:
    """The type of a file, by the first twelve bytes of its base64 data."""
    try:
        head = base64.b64decode(data[:16] + "=" * (-len(data[:16]) % 4))
    except (binascii.Error, ValueError):
        return None
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    return next((found for start, found in _FIRST_BYTES if head.startswith(start)), None)


def _type_of_address(address: str) -> str | None:
    try:
        path = urlsplit(address).path
    except ValueError:
        return None
    name, dot, extension = path.rpartition("/")[2].rpartition(".")
    return _EXTENSIONS.get(extension.lower()) if dot and name else None
