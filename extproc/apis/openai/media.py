"""Media blocks as parts of the OpenAI format, or as a note in words where they cannot be carried.

Images become `image_url` parts, PDFs `file` parts, text documents text. Nothing is fetched and base64 is never
decoded, except that of a small text file. Called by the message encoder.
"""

from __future__ import annotations

import base64
import binascii
import re

from extproc.apis.base import Dropped
from extproc.apis.openai.wire import FileData, FilePart, ImagePart, ImageUrl, Part, TextPart
from extproc.conversation import Media
from extproc.profiles.profile import Profile

_IMAGE_TYPES = {"image/png": "image/png", "image/jpeg": "image/jpeg", "image/jpg": "image/jpeg",
                "image/gif": "image/gif", "image/webp": "image/webp"}
_BASE64_HEADS = (("iVBOR", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp"))
"""How the base64 text of each image format begins."""
_DETAILS = frozenset({"auto", "low", "high"})
_ODD_IN_FILENAMES = re.compile(r"[^\w .()-]+")


def text_of_media(media: Media) -> str | None:
    """The text that carries a text document whole, None for all other media."""
    text = media.text
    if text is None and media.kind == "document" and media.data is not None:
        text = _decoded_text(media)
    if text is None:
        return None
    head = [f"Document: {media.title}"] if media.title else []
    head += [media.context] if media.context else []
    return "\n\n".join([*head, text])


def parts_of_media(media: Media, profile: Profile, dropped: Dropped) -> list[Part]:
    """The parts that carry the media; a note in words, with the loss named, where none can."""
    text = text_of_media(media)
    if text is not None:
        return [TextPart(text)]
    return carried_parts(media, profile) or [TextPart(lost_media(media, dropped))]


def carried_parts(media: Media, profile: Profile) -> list[Part]:
    """The parts, which only user messages may hold, of media that are no text; nothing where none can carry it."""
    part = _carried(media, profile)
    if part is None:
        return []
    if media.kind == "document" and media.context:
        return [TextPart(media.context), part]
    return [part]


def lost_media(media: Media, dropped: Dropped) -> str:
    """Names the loss, and returns what tells the model that it does not get these media."""
    dropped.loss(f"messages.{media.kind}" + _source(media))
    what = " ".join(filter(None, [media.kind, repr(media.title) if media.title else "", f"({media.media_type})"
                                  if media.media_type else ""]))
    where = f" at {media.url}" if media.url else f" with file id {media.file_id}" if media.file_id else ""
    return f"[{what}{where}: not available to this model]"


def _carried(media: Media, profile: Profile) -> Part | None:
    if media.kind == "image" and profile.images:
        return _image(media, profile)
    is_pdf = media.kind == "document" and media.media_type in (None, "application/pdf")
    if is_pdf and profile.documents and media.data is not None:
        return FilePart(FileData(_filename(media.title), "data:application/pdf;base64," + media.data))
    return None


def _image(media: Media, profile: Profile) -> Part | None:
    detail = media.detail if media.detail in _DETAILS else None
    if media.url is not None and profile.image_urls and media.url.startswith(("https://", "http://")):
        return ImagePart(ImageUrl(media.url, detail))
    if media.url is not None and media.url.startswith("data:image/"):
        return ImagePart(ImageUrl(media.url, detail))
    if media.data is None:
        return None
    kind = _IMAGE_TYPES.get((media.media_type or "").lower())
    if media.media_type is None:
        kind = next((found for head, found in _BASE64_HEADS if media.data.startswith(head)), None)
    return None if kind is None else ImagePart(ImageUrl(f"data:{kind};base64,{media.data}", detail))


def _decoded_text(media: Media) -> str | None:
    kind = (media.media_type or "").partition(";")[0].lower()
    if media.data is None or not (kind.startswith("text/") or kind in ("application/json", "application/xml")):
        return None
    try:
        return base64.b64decode(media.data).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _filename(title: str | None) -> str:
    name = _ODD_IN_FILENAMES.sub("_", title or "").strip(" ._")[:120] or "document"
    return name if name.lower().endswith(".pdf") else name + ".pdf"


def _source(media: Media) -> str:
    return ".url" if media.url else ".file_id" if media.file_id else ""
