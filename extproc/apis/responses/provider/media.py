"""Media blocks as parts of the Responses API, or as a note in the text where they cannot be carried.

Images become `input_image`, PDFs `input_file`, text documents text. Nothing is fetched. Called by the item encoder, for
user messages and for the output of tools.
"""

from __future__ import annotations

from extproc.apis.responses.wire_request import InputFile, InputImage, InputPart, InputText
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


def parts_of_media(media: Media, profile: Profile, dropped: Dropped) -> list[InputPart]:
    """The parts that carry the media; else a note in the text, with the loss named."""
    text = text_of_media(media)
    if text is not None:
        return [InputText(text)]
    part = _part_of(media, profile)
    if part is None:
        return [InputText(lost_media(media, dropped))]
    if media.kind == "document" and media.context:
        return [InputText(media.context), part]
    return [part]


def _part_of(media: Media, profile: Profile) -> InputPart | None:
    if media.kind == "image" and profile.images:
        url = image_url(media, urls=profile.image_urls)
        return None if url is None else InputImage(url, detail=image_detail(media))
    if media.kind == "document" and media.media_type in (None, _PDF) and profile.documents:
        data = media_url(media, _PDF, urls=False)
        if data is not None:
            return InputFile(filename=pdf_filename(media.title), file_data=data)
        url = web_url(media) if profile.document_urls else None
        return None if url is None else InputFile(file_url=url)
    return None
