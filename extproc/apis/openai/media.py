"""Media blocks as parts of the OpenAI format, or as a note in words where they cannot be carried.

Images become `image_url` parts, PDFs `file` parts, text documents text. Nothing is fetched. Called by the message
encoder.
"""

from __future__ import annotations

import re

from extproc.apis.base import Dropped
from extproc.apis.media import image_type, lost_media, text_of_media
from extproc.apis.openai.wire import FileData, FilePart, ImagePart, ImageUrl, Part, TextPart
from extproc.conversation import Media
from extproc.profiles.profile import Profile

_DETAILS = frozenset({"auto", "low", "high"})
_ODD_IN_FILENAMES = re.compile(r"[^\w .()-]+")


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
    kind = image_type(media)
    return None if kind is None else ImagePart(ImageUrl(f"data:{kind};base64,{media.data}", detail))


def _filename(title: str | None) -> str:
    name = _ODD_IN_FILENAMES.sub("_", title or "").strip(" ._")[:120] or "document"
    return name if name.lower().endswith(".pdf") else name + ".pdf"
