"""Media blocks as blocks of the Messages API, or as text where they cannot be carried.

Images and PDFs are sent as data, as an https URL or as one of Anthropic's file ids; text documents become document
blocks. Audio and video have no block. Nothing is fetched. Called by the message encoder.
"""

from __future__ import annotations

import re

from msgspec.structs import replace

from extproc.apis.anthropic.wire import (
    Base64Source,
    DocumentBlock,
    FileSource,
    ImageBlock,
    Source,
    TextBlock,
    TextSource,
    UrlSource,
)
from extproc.apis.shared.media import image_type, lost_media, text_of_media
from extproc.conversation.model import Media
from extproc.conversation.unsupported import Dropped
from extproc.profiles.anthropic import AnthropicEndpoint

MediaBlock = TextBlock | ImageBlock | DocumentBlock

_DATA_URL = re.compile(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w.=+-]+)*;base64,", re.IGNORECASE)
_PDF = "application/pdf"


def block_of_media(media: Media, endpoint: AnthropicEndpoint, dropped: Dropped) -> MediaBlock | None:
    """The block that carries the media, or a note in the text with the loss named; None for empty media."""
    media = _data_of_url(media)
    block = _block_of(media, endpoint)
    if block is not None:
        return block
    text = text_of_media(media)
    if text is None:
        text = lost_media(media, dropped)
    return TextBlock(text) if text.strip() else None


def text_for_model_turn(media: Media, dropped: Dropped) -> str:
    """The text of media in an assistant turn, where the API takes no media."""
    text = text_of_media(media)
    return lost_media(media, dropped) if text is None else text


def _data_of_url(media: Media) -> Media:
    """A data URL becomes data."""
    found = _DATA_URL.match(media.url) if media.url is not None else None
    if found is None or media.url is None:
        return media
    return replace(media, url=None, data=media.url[found.end():], media_type=found.group(1) or media.media_type)


def _block_of(media: Media, endpoint: AnthropicEndpoint) -> ImageBlock | DocumentBlock | None:
    if media.kind == "image" and endpoint.images:
        source = _source(media, image_type(media), endpoint)
        return None if source is None else ImageBlock(source)
    if media.kind != "document" or not endpoint.documents:
        return None
    pdf = media.media_type in (None, _PDF)
    source = _source(media, _PDF, endpoint) if pdf else None
    if source is None and not pdf:
        text = text_of_media(replace(media, title=None, context=None))
        source = TextSource("text/plain", text) if text is not None and text.strip() else None
    if source is None:
        return None
    return DocumentBlock(source, title=media.title or None, context=media.context or None)


def _source(media: Media, media_type: str | None, endpoint: AnthropicEndpoint) -> Source | None:
    if media.data is not None:
        return Base64Source(media_type, media.data) if media_type is not None and media.data else None
    if media.url is not None:
        return UrlSource(media.url) if endpoint.media_urls and media.url.startswith("https://") else None
    # Ids of other providers' files look different (OpenAI: file-...).
    if media.file_id is not None and endpoint.files and media.file_id.startswith("file_"):
        return FileSource(media.file_id)
    return None
