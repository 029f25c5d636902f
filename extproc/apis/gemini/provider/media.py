"""Media blocks as parts of Gemini's format, or as a note in words where they cannot be carried.

Bytes become `inlineData`, addresses that Gemini itself fetches become `fileData` (web addresses, Cloud Storage,
YouTube, files of its own Files API), text documents become text. Types that a client left out are guessed from the
first bytes or from the address. Nothing is fetched here. Called by the contents encoder.

Sources: ai.google.dev/gemini-api/docs/file-input-methods, image-understanding, document-processing, audio,
video-understanding; the pages of the models at docs.cloud.google.com (lists of MIME types). A type outside those
lists fails the whole request: "Unsupported MIME type".
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import urlsplit

from extproc.apis.gemini.provider.wire import Blob, FileData, Part
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
"""What Gemini takes. GIF, BMP, TIFF, SVG and office documents are refused."""
_RESULT_TYPES = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
"""What a function response may hold."""
_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png",
            "application/x-pdf": "application/pdf", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav",
            "audio/vnd.wave": "audio/wav", "audio/x-aiff": "audio/aiff", "audio/x-flac": "audio/flac",
            "audio/x-m4a": "audio/m4a", "audio/x-mp3": "audio/mp3", "audio/x-aac": "audio/aac",
            "audio/mpga": "audio/mpeg", "text/md": "text/markdown",
            "text/x-markdown": "text/markdown", "application/xml": "text/xml", "application/rtf": "text/rtf",
            "video/mpegs": "video/mpeg", "video/flv": "video/x-flv", "video/x-m4v": "video/mp4",
            "video/x-msvideo": "video/avi", "video/x-ms-wmv": "video/wmv", "video/3gp": "video/3gpp"}
"""Types as clients write them -> as Gemini's lists have them."""
_HEADS = ((b"\x89PNG", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"),
          (b"%PDF", "application/pdf"), (b"ID3", "audio/mp3"), (b"\xff\xfb", "audio/mp3"), (b"\xff\xf3", "audio/mp3"),
          (b"OggS", "audio/ogg"), (b"fLaC", "audio/flac"), (b"FORM", "audio/aiff"), (b"\x1aE\xdf\xa3", "video/webm"))
"""How files begin."""
_RIFF = {b"WEBP": "image/webp", b"WAVE": "audio/wav", b"AVI ": "video/avi"}
_BRANDS = {b"heic": "image/heic", b"heix": "image/heic", b"mif1": "image/heif", b"M4A ": "audio/m4a",
           b"qt  ": "video/quicktime"}
"""The brand of an ISO media file; all others are MP4."""
_EXTENSIONS = {"png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp",
               "heic": "image/heic", "heif": "image/heif", "gif": "image/gif", "pdf": "application/pdf",
               "txt": "text/plain", "md": "text/markdown", "csv": "text/csv", "html": "text/html", "htm": "text/html",
               "wav": "audio/wav", "mp3": "audio/mp3", "aif": "audio/aiff", "aiff": "audio/aiff", "aac": "audio/aac",
               "ogg": "audio/ogg", "flac": "audio/flac", "m4a": "audio/m4a", "mp4": "video/mp4", "m4v": "video/mp4",
               "mov": "video/quicktime", "mpeg": "video/mpeg", "mpg": "video/mpg", "avi": "video/avi",
               "flv": "video/x-flv", "webm": "video/webm", "wmv": "video/wmv", "3gp": "video/3gpp"}
_USUAL = {"image": "image/jpeg", "document": "application/pdf", "audio": "audio/mp3", "video": "video/mp4"}
"""The type to name where one is required and nothing tells it."""
_UNTOLD = frozenset({"application/octet-stream", "binary/octet-stream"})
_DATA_URL = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,", re.IGNORECASE)
_YOUTUBE = re.compile(r"https?://(?:www\.|m\.|music\.)?(?:youtube\.com/(?:watch|shorts/|live/|embed/)|youtu\.be/)",
                      re.IGNORECASE)
_FILE_NAME = re.compile(r"files/[a-z0-9-]{1,64}")


class MediaEncoder:
    """Media for one target."""

    def __init__(self, model: GeminiModel, door: GeminiEndpoint, target: Target, dropped: Dropped) -> None:
        self._model = model
        self._door = door
        self._files = f"https://{target.endpoint or 'generativelanguage.googleapis.com'}{target.base_path or '/v1beta'}"
        self._dropped = dropped

    def parts(self, media: Media) -> list[Part]:
        """The parts that carry the media; a note in words, with the loss named, where none can."""
        text = text_of_media(media)
        if text is not None:
            return [Part(text=text)] if text else []
        return self.carried(media) or [Part(text=lost_media(media, self._dropped))]

    def carried(self, media: Media) -> list[Part]:
        """The parts of media that are no text; nothing where none can carry it."""
        part = self._carried(media)
        if part is None:
            return []
        about = [f"Document: {media.title}"] if media.title else []
        about += [media.context] if media.context else []
        if media.detail not in (None, "auto"):
            self._dropped.hint(f"messages.{media.kind}.detail")
        return [Part(text="\n\n".join(about)), part] if about else [part]

    def in_result(self, media: Media) -> Blob | None:
        """The bytes for a function response, None for media that must stand outside it."""
        if not self._model.media_in_results or media.title or media.context:
            return None
        blob = self._blob(media)
        return blob if blob is not None and blob.mime_type in _RESULT_TYPES else None

    def _carried(self, media: Media) -> Part | None:
        if media.kind not in self._model.media:
            return None
        blob = self._blob(media)
        if blob is not None:
            return Part(inline_data=blob)
        file = self._file(media)
        return None if file is None else Part(file_data=file)

    def _blob(self, media: Media) -> Blob | None:
        data, kind = media.data, media.media_type
        if data is None and media.url is not None and (head := _DATA_URL.match(media.url)):
            data, kind = media.url[head.end():], head.group(1) or kind
        if not data:
            return None
        found = _known(kind) or _type_of_bytes(data)
        return Blob(found, data) if found is not None and found in _TYPES else None

    def _file(self, media: Media) -> FileData | None:
        address = self._address(media)
        if address is None:
            return None
        if _YOUTUBE.match(address):
            return FileData(address, "video/mp4" if self._door.media_type_required else None)
        found = _known(media.media_type) or _type_of_address(address)
        if found is not None and found not in _TYPES:
            return None
        if found is None and self._door.media_type_required:
            found = _USUAL[media.kind]
        return FileData(address, found)

    def _address(self, media: Media) -> str | None:
        """What Gemini can fetch: a web address, an object of Cloud Storage, a file of its own."""
        if media.url is not None:
            return media.url if media.url.startswith(("https://", "http://", "gs://")) else None
        if media.file_id is None:
            return None
        if media.file_id.startswith("gs://") or re.match(r"https://[^/]+/v1\w*/files/", media.file_id):
            return media.file_id
        if _FILE_NAME.fullmatch(media.file_id) and self._door.name == "studio":
            return f"{self._files}/{media.file_id}"
        return None


def _known(media_type: str | None) -> str | None:
    """The type as Gemini calls it, None where it says nothing."""
    plain = (media_type or "").partition(";")[0].strip().lower()
    if not plain or plain in _UNTOLD or "/" not in plain or plain.endswith("/*"):
        return None
    return _ALIASES.get(plain, plain)


def _type_of_bytes(data: str) -> str | None:
    """The type of a file by the first twelve bytes of its base64."""
    try:
        head = base64.b64decode(data[:16] + "=" * (-len(data[:16]) % 4))
    except (binascii.Error, ValueError):
        return None
    if head[:4] == b"RIFF":
        return _RIFF.get(head[8:12])
    if head[4:8] == b"ftyp":
        return _BRANDS.get(head[8:12], "video/mp4")
    return next((found for start, found in _HEADS if head.startswith(start)), None)


def _type_of_address(address: str) -> str | None:
    try:
        path = urlsplit(address).path
    except ValueError:
        return None
    name, dot, extension = path.rpartition("/")[2].rpartition(".")
    return _EXTENSIONS.get(extension.lower()) if dot and name else None
