"""Media blocks as parts of the OpenAI format, or as a note in the text where they cannot be carried.

Images become `image_url` parts, PDFs the endpoint's own part, text documents text; sound and video are sent where the
profile allows them. Nothing is fetched. Called by the message encoder.
"""

from __future__ import annotations

from extproc.apis.openai.wire_messages import (
    Audio,
    AudioPart,
    DocumentUrlPart,
    File,
    FilePart,
    FileUrlPart,
    ImagePart,
    Part,
    TextPart,
    Url,
    VideoPart,
)
from extproc.apis.shared.media import (
    image_detail,
    image_url,
    lost_media,
    media_url,
    pdf_filename,
    text_of_media,
    web_url,
)
from extproc.conversation.model import Media
from extproc.conversation.unsupported import Dropped
from extproc.profiles.profile import Profile

_PDF = "application/pdf"
_AUDIO_FORMATS = {"mpeg": "mp3", "mp4": "m4a", "pcm": "pcm16", "wave": "wav"}
"""Audio media types whose `format` has another name."""


def parts_of_media(media: Media, profile: Profile, dropped: Dropped) -> list[Part]:
    """The parts that carry the media; else a note in the text, with the loss named."""
    text = text_of_media(media)
    if text is not None:
        return [TextPart(text)]
    return carried_parts(media, profile) or [TextPart(lost_media(media, dropped))]


def carried_parts(media: Media, profile: Profile) -> list[Part]:
    """The parts for media that are not text; empty where none can carry them. Only user messages may hold them."""
    part = _part_of(media, profile)
    if part is None:
        return []
    if media.kind == "document" and media.context:
        return [TextPart(media.context), part]
    return [part]


def _part_of(media: Media, profile: Profile) -> Part | None:
    if media.kind == "image" and profile.images:
        return _image(media, profile)
    if media.kind == "document" and media.media_type in (None, _PDF) and profile.documents:
        return _document(media, profile)
    if media.kind == "audio" and profile.audio != "none":
        return _audio(media, profile)
    if media.kind == "video" and profile.videos:
        source = media_url(media, media.media_type or "video/mp4", urls=True)
        return None if source is None else VideoPart(Url(source))
    return None


def _document(media: Media, profile: Profile) -> Part | None:
    source = media_url(media, _PDF, urls=profile.document_urls)
    if source is None:
        return None
    if profile.document_part == "document_url":
        return DocumentUrlPart(source, media.title or None)
    if profile.document_part == "file_url":
        return FileUrlPart(Url(media.data or source), media.title or None)
    return FilePart(File(pdf_filename(media.title), source))


def _audio(media: Media, profile: Profile) -> Part | None:
    if profile.audio == "text":
        text = media.data or web_url(media)
        return None if text is None else AudioPart(text)
    kind = (media.media_type or "").lower().partition("/")[2].partition(";")[0].removeprefix("x-")
    if media.data is None or not kind:
        return None
    return AudioPart(Audio(media.data, _AUDIO_FORMATS.get(kind, kind)))


def _image(media: Media, profile: Profile) -> Part | None:
    url = image_url(media, urls=profile.image_urls)
    return None if url is None else ImagePart(Url(url, image_detail(media)))
