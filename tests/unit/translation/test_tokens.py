"""Estimates of prompt tokens: everything counts, nothing takes long."""

from __future__ import annotations

import base64
import json
import struct
import time
from typing import Any

import pytest

from extproc.apis.anthropic.client.request import decode_count_request
from extproc.bounds import Limits
from extproc.conversation.model import Media
from extproc.errors import BadRequest
from extproc.translation.tokens import (
    IMAGE_TOKENS,
    PAGE_TOKENS,
    count_text,
    estimate_request,
    image_size,
    media_tokens,
    quick_estimate,
)


def count_request(body: bytes) -> int:
    return estimate_request(decode_count_request(body, Limits()))


def counted(content: Any = "hello", **fields: Any) -> int:
    return count_request(json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": content}], **fields}).encode())


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + bytes(9)


def jpeg(width: int, height: int) -> bytes:
    metadata = b"\xff\xe1" + struct.pack(">H", 1002) + bytes(1000)
    return b"\xff\xd8" + metadata + b"\xff\xff\xc2" + struct.pack(">HBHH", 17, 8, height, width) + bytes(12)


def test_a_short_text_counts_its_words_and_little_more() -> None:
    assert 9 <= counted("The quick brown fox jumps over the dog.") <= 20


def test_known_texts_have_the_known_number_of_tokens() -> None:
    assert count_text("hello world") == 2
    assert count_text("") == 0
    assert count_text("<|endoftext|>") > 1  # a marker in a text is text


@pytest.mark.parametrize("fields", [
    {"system": "You are a careful assistant."},
    {"system": [{"type": "text", "text": "You are a careful assistant."}]},
    {"tools": [{"name": "f", "description": "Reads a file.", "input_schema": {"type": "object"}}]},
    {"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 8}]},
    {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object", "properties": {}}}}},
])
def test_every_part_of_a_request_counts(fields: dict[str, Any]) -> None:
    assert counted(**fields) > counted() + 4


def test_every_kind_of_block_counts() -> None:
    words = "some words that are counted as tokens "
    history = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": words * 50, "signature": "s"},
                                          {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": words * 50}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
                                      "content": [{"type": "text", "text": words * 50}]}]}]
    whole = count_request(json.dumps({"model": "m", "messages": history}).encode())
    assert 3 * 50 * 6 < whole < 3 * 50 * 9


def test_more_text_is_never_fewer_tokens() -> None:
    sizes = [counted("word " * n) for n in (1, 10, 1_000, 100_000, 400_000, 1_000_000)]
    assert sizes == sorted(sizes)
    assert sizes[-1] == pytest.approx(1_000_000, rel=0.02)


@pytest.mark.parametrize("text", ["a" * 5_000_000, " " * 5_000_000, "ab1!" * 1_000_000, "é漢" * 1_000_000,
                                  "\n" * 2_000_000])
def test_no_text_takes_long(text: str) -> None:
    count_text("load the vocabulary first")
    started = time.process_time()
    assert count_text(text) > 0
    assert time.process_time() - started < 3


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"model":"m"}', b'{"model":"m","messages":5}',
                                  b'{"model":"m","messages":[{"role":"x","content":"y"}]}', b"[" * 200_000])
def test_a_malformed_body_is_a_bad_request(body: bytes) -> None:
    with pytest.raises(BadRequest):
        count_request(body)


# ------------------------------------------------------------------------------------------------------------- media


@pytest.mark.parametrize(("data", "size"), [
    (png(750, 100), (750, 100)),
    (jpeg(640, 480), (640, 480)),
    (b"GIF89a" + struct.pack("<HH", 10, 20), (10, 20)),
    (b"RIFF____WEBPVP8 " + bytes(10) + struct.pack("<HH", 300, 200), (300, 200)),
    (b"RIFF____WEBPVP8L" + bytes(4) + b"\x2f" + struct.pack("<I", 299 | 199 << 14) + bytes(5), (300, 200)),
    (b"RIFF____WEBPVP8X" + bytes(8) + (299).to_bytes(3, "little") + (199).to_bytes(3, "little"), (300, 200)),
    (b"", None), (b"\xff\xd8", None), (b"\xff\xd8\xff\xe1\x00\x00" * 3, None), (b"\x89PNG\r\n\x1a\n", None),
    (b"<svg/>", None),
])
def test_the_size_of_a_picture(data: bytes, size: tuple[int, int] | None) -> None:
    assert image_size(data) == size


def image(data: bytes) -> Media:
    return Media("image", "image/png", data=base64.b64encode(data).decode())


def test_a_picture_costs_its_pixels_up_to_a_limit() -> None:
    assert media_tokens(image(png(750, 100))) == 100
    assert media_tokens(image(png(1, 1))) == 1
    assert media_tokens(image(png(8000, 8000))) == IMAGE_TOKENS
    assert media_tokens(image(b"unknown")) == IMAGE_TOKENS
    assert media_tokens(Media("image", data="no base64 at all")) == IMAGE_TOKENS
    assert media_tokens(Media("image", url="https://x.example/a.png")) == IMAGE_TOKENS


def test_a_picture_in_a_tool_result_counts_by_its_size_and_not_by_its_base64() -> None:
    data = base64.b64encode(png(750, 100) + bytes(900_000)).decode()
    source = {"type": "base64", "media_type": "image/png", "data": data}
    history = [{"role": "user", "content": "go"},
               {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]},
               {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
                                             "content": [{"type": "image", "source": source}]}]}]
    assert 100 < count_request(json.dumps({"model": "m", "messages": history}).encode()) < 150


def test_a_document_costs_its_pages() -> None:
    pages = b"%PDF-1.4 /Type /Pages " + b"<< /Type /Page >> " * 3
    assert media_tokens(Media("document", data=base64.b64encode(pages).decode())) == 3 * PAGE_TOKENS
    hidden = base64.b64encode(b"%PDF-1.7" + bytes(500_000)).decode()
    assert media_tokens(Media("document", data=hidden)) == 10 * PAGE_TOKENS
    assert media_tokens(Media("document", url="https://x.example/a.pdf")) == PAGE_TOKENS


def test_the_quick_estimate_is_bounded_both_ways() -> None:
    assert [quick_estimate(size) for size in (0, 400, 50_000_000)] == [1, 100, 200_000]
