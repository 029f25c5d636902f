"""Images, documents, audio and video by bytes, by address and by file."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from extproc.conversation.model import Media
from extproc.conversation.unsupported import Dropped
from tests.unit.apis.gemini.request.helpers import GEMMA, PDF, PNG, PRO_3, VERTEX, encode, user


def parts(*media: Media, dropped: Dropped | None = None, **fields: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = encode(user(*media), dropped=dropped, **fields)["contents"][0]["parts"]
    return found


def head(*raw: bytes) -> str:
    return base64.b64encode(b"".join(raw) + bytes(12)).decode()


@pytest.mark.parametrize(("kind", "media_type", "expected"), [
    ("image", "image/png", "image/png"),
    ("image", "image/jpg", "image/jpeg"),
    ("image", "IMAGE/WEBP", "image/webp"),
    ("document", "application/pdf", "application/pdf"),
    ("audio", "audio/x-wav", "audio/wav"),
    ("audio", "audio/mpeg; rate=44100", "audio/mpeg"),
    ("video", "video/mp4", "video/mp4"),
])
def test_bytes_are_inline_data_with_geminis_name_of_their_type(kind, media_type, expected):
    assert parts(Media(kind, media_type=media_type, data="AAAA")) == [{"inlineData": {"mimeType": expected,
                                                                                      "data": "AAAA"}}]


@pytest.mark.parametrize(("kind", "data", "expected"), [
    ("image", PNG, "image/png"),
    ("image", head(b"\xff\xd8\xff\xe0"), "image/jpeg"),
    ("image", head(b"RIFF", b"1234", b"WEBP"), "image/webp"),
    ("image", head(b"\0\0\0\x18", b"ftyp", b"heic"), "image/heic"),
    ("document", PDF, "application/pdf"),
    ("audio", head(b"RIFF", b"1234", b"WAVE"), "audio/wav"),
    ("audio", head(b"ID3\x04"), "audio/mp3"),
    ("audio", head(b"\xff\xfb\x90\x00"), "audio/mp3"),
    ("audio", head(b"OggS"), "audio/ogg"),
    ("video", head(b"\0\0\0\x18", b"ftyp", b"isom"), "video/mp4"),
    ("video", head(b"\x1aE\xdf\xa3"), "video/webm"),
])
@pytest.mark.parametrize("media_type", [None, "application/octet-stream"])
def test_a_missing_type_is_read_from_the_first_bytes(kind, data, expected, media_type):
    assert parts(Media(kind, media_type=media_type, data=data))[0]["inlineData"]["mimeType"] == expected


@pytest.mark.parametrize("media", [
    Media("image", media_type="image/gif", data="R0lGODlh"),
    Media("image", data="R0lGODlhAAAAAAAA"),
    Media("image", media_type="image/svg+xml", data="PHN2Zz4="),
    Media("image", data="not base64!"),
    Media("image", media_type="image/png", data=""),
    Media("document", media_type="application/msword", data="AAAA"),
    Media("image", file_id="file_123"),
    Media("image", url="ftp://example.com/a.png"),
    Media("image", url="https://example.com/a.gif"),
])
def test_media_that_gemini_refuses_become_a_note_and_are_named(media):
    dropped = Dropped()
    [part] = parts(media, dropped=dropped)
    assert part["text"].endswith("not available to this model]")
    assert [name.partition(".")[0] for name in dropped.losses] == ["messages"]


@pytest.mark.parametrize(("url", "expected"), [
    ("https://example.com/a/cat.JPG?size=2", "image/jpeg"),
    ("https://example.com/cat.png", "image/png"),
    ("gs://bucket/cat.webp", "image/webp"),
])
def test_an_address_is_sent_with_the_type_of_its_extension(url, expected):
    assert parts(Media("image", url=url)) == [{"fileData": {"fileUri": url, "mimeType": expected}}]


@pytest.mark.parametrize(("kind", "default"), [("image", "image/jpeg"), ("document", "application/pdf"),
                                               ("audio", "audio/mp3"), ("video", "video/mp4")])
def test_an_address_without_a_known_type(kind, default):
    """AI Studio detects the type itself, Vertex requires one."""
    media = Media(kind, url="https://example.com/download?id=7")
    assert parts(media) == [{"fileData": {"fileUri": media.url}}]
    assert parts(media, settings=VERTEX) == [{"fileData": {"fileUri": media.url, "mimeType": default}}]


@pytest.mark.parametrize("url", ["https://www.youtube.com/watch?v=abc", "https://youtu.be/abc",
                                 "https://youtube.com/shorts/abc"])
def test_a_video_of_youtube(url):
    assert parts(Media("video", url=url)) == [{"fileData": {"fileUri": url}}]
    assert parts(Media("video", url=url), settings=VERTEX) == [{"fileData": {"fileUri": url,
                                                                             "mimeType": "video/mp4"}}]


def test_a_data_url_is_inline_data():
    assert parts(Media("image", url=f"data:image/png;base64,{PNG}")) == [{"inlineData": {"mimeType": "image/png",
                                                                                        "data": PNG}}]


@pytest.mark.parametrize(("file_id", "uri"), [
    ("files/abc-123", "https://generativelanguage.googleapis.com/v1beta/files/abc-123"),
    ("https://generativelanguage.googleapis.com/v1beta/files/abc", None),
    ("gs://bucket/a.pdf", None),
])
def test_a_file_of_geminis_files_api(file_id, uri):
    [part] = parts(Media("document", media_type="application/pdf", file_id=file_id))
    assert part == {"fileData": {"fileUri": uri or file_id, "mimeType": "application/pdf"}}


def test_a_text_document_is_text():
    plain = Media("document", media_type="text/plain", text="words", title="notes.txt", context="from May")
    coded = Media("document", media_type="text/markdown", data=base64.b64encode(b"# words").decode())
    assert parts(plain, coded) == [{"text": "Document: notes.txt\n\nfrom May\n\nwords"}, {"text": "# words"}]


def test_title_and_context_of_a_pdf_precede_it():
    pdf = Media("document", media_type="application/pdf", data=PDF, title="Report", context="of 2025")
    assert parts(pdf) == [{"text": "Document: Report\n\nof 2025"},
                          {"inlineData": {"mimeType": "application/pdf", "data": PDF}}]


def test_a_model_that_takes_only_images():
    dropped = Dropped()
    found = parts(Media("image", media_type="image/png", data=PNG), Media("audio", media_type="audio/mp3", data="SUQz"),
                  model=GEMMA, dropped=dropped)
    assert [*found[0], found[1]["text"]] == ["inlineData", "[audio (audio/mp3): not available to this model]"]
    assert dropped.losses == ["messages.audio"]


def test_the_detail_of_an_image_is_named():
    dropped = Dropped()
    parts(Media("image", media_type="image/png", data=PNG, detail="high"), model=PRO_3, dropped=dropped)
    assert dropped.hints == ["messages.image.detail"]
