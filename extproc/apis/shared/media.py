"""Media in requests of all provider APIs: text documents as text, image types by their first bytes, a note to the model
for media that cannot be sent, and the texts of blocks that only another API has.

Called by the request encoders. Nothing is fetched. Base64 is not decoded, except that of text documents.
"""

from __future__ import annotations

import base64
import binascii
import re

from extproc.conversation.model import Media, Opaque, Thinking
from extproc.conversation.unsupported import Dropped

IMAGE_TYPES = {"image/png": "image/png", "image/jpeg": "image/jpeg", "image/jpg": "image/jpeg",
               "image/gif": "image/gif", "image/webp": "image/webp"}
"""Media types of images as clients write them -> the registered names."""
_BASE64_HEADS = (("iVBOR", "image/png"), ("/9j/", "image/jpeg"), ("R0lGOD", "image/gif"), ("UklGR", "image/webp"))
"""The beginning of the base64 text of each image format."""
_DETAILS = frozenset({"auto", "low", "high"})
_ODD_IN_FILENAMES = re.compile(r"[^\w .()-]+")


def text_of_media(media: Media) -> str | None:
    """The complete text of a text document; None for all other media."""
    text = media.text
    if text is None and media.kind == "document" and media.data is not None:
        text = _decoded_text(media)
    if text is None:
        return None
    head = [f"Document: {media.title}"] if media.title else []
    head += [media.context] if media.context else []
    return "\n\n".join([*head, text])


def lost_media(media: Media, dropped: Dropped) -> str:
    """Names the loss, and returns the note that tells the model about the missing media."""
    dropped.loss(f"messages.{media.kind}" + _source(media))
    what = " ".join(filter(None, [media.kind, repr(media.title) if media.title else "", f"({media.media_type})"
                                  if media.media_type else ""]))
    where = f" at {media.url}" if media.url else f" with file id {media.file_id}" if media.file_id else ""
    return f"[{what}{where}: not available to this model]"


def text_of_foreign(block: Thinking | Opaque, dropped: Dropped) -> str:
    """The text of a block that only another API has; "", and named as a loss, if it has none. Thinking never becomes
    text."""
    if isinstance(block, Thinking):
        return ""
    if block.text is None:
        dropped.loss(f"messages.{block.type}")
    return block.text or ""


def image_type(media: Media) -> str | None:
    """The media type of an image with data: the stated one, else by its first bytes. None if it is unknown."""
    if media.media_type is not None:
        return IMAGE_TYPES.get(media.media_type.lower())
    data = media.data or ""
    return next((found for head, found in _BASE64_HEADS if data.startswith(head)), None)


def media_url(media: Media, media_type: str, *, urls: bool) -> str | None:
    """A web URL, if `urls`, or a data URL."""
    if media.data is not None:
        return f"data:{media_type};base64,{media.data}"
    return web_url(media) if urls else None


def web_url(media: Media) -> str | None:
    return media.url if media.url is not None and media.url.startswith(("https://", "http://")) else None


def image_url(media: Media, *, urls: bool) -> str | None:
    """A web URL of an image, if `urls`, or a data URL; None for an image of an unknown format."""
    if urls and (url := web_url(media)) is not None:
        return url
    if media.url is not None and media.url.startswith("data:image/"):
        return media.url
    kind = None if media.data is None else image_type(media)
    return None if kind is None else f"data:{kind};base64,{media.data}"


def image_detail(media: Media) -> str | None:
    """OpenAI's `detail` of an image."""
    return media.detail if media.detail in _DETAILS else None


def pdf_filename(title: str | None) -> str:
    """A legal file name made of a title."""
    name = _ODD_IN_FILENAMES.sub("_", title or "").strip(" ._")[:120] or "document"
    return name if name.lower().endswith(".pdf") else name + ".pdf"


def _decoded_text(media: Media) -> str | None:
    kind = (media.media_type or "").partition(";")[0].lower()
    if media.data is None or not (kind.startswith("text/") or kind in ("application/json", "application/xml")):
        return None
    try:
        return base64.b64decode(media.data).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


def _source(media: Media) -> str:
    return ".url" if media.url else ".file_id" if media.file_id else ""
