"""Content codings in any cut, bounded while they grow (P19)."""

from __future__ import annotations

import gzip
import zlib
from functools import partial

import brotli
import pytest
import zstandard

from extproc.translation.encoding import Decompressor, EncodingError, decompress

TEXT = ("data: é日本 " * 5000).encode()

RAW = zlib.compressobj(wbits=-15)
CODED = {
    "gzip": gzip.compress(TEXT, mtime=0),
    "x-gzip": gzip.compress(TEXT[:99], mtime=0) + gzip.compress(TEXT[99:], mtime=0),
    "deflate": zlib.compress(TEXT), "br": brotli.compress(TEXT), "zstd": zstandard.compress(TEXT), "identity": TEXT,
}
CASES = [*CODED.items(), ("deflate", RAW.compress(TEXT) + RAW.flush()),
         ("zstd", zstandard.compress(TEXT[:99]) + zstandard.compress(TEXT[99:])),
         ("br, gzip", gzip.compress(brotli.compress(TEXT), mtime=0))]


@pytest.mark.parametrize(("codings", "data"), CASES)
@pytest.mark.parametrize("size", [1, 13, 1 << 20])
def test_p19_every_coding_in_any_cut(codings: str, data: bytes, size: int) -> None:
    whole = Decompressor(codings, 1 << 20)
    assert b"".join(whole.feed(data[i:i + size]) for i in range(0, len(data), size)) == TEXT
    whole.finish()


@pytest.mark.parametrize("codings", ["gzip", "deflate", "br", "zstd"])
def test_a_bomb_is_noticed_before_it_has_grown(codings: str) -> None:
    bomb = {"gzip": gzip.compress, "deflate": zlib.compress, "br": partial(brotli.compress, quality=1),
            "zstd": zstandard.compress}[codings](b"\0" * (1 << 26))
    with pytest.raises(EncodingError) as caught:
        decompress(bomb, codings, 1 << 20)
    assert caught.value.status == 413


@pytest.mark.parametrize("codings", ["gzip", "br", "zstd"])
def test_damaged_and_truncated_data(codings: str) -> None:
    with pytest.raises(EncodingError) as caught:
        decompress(b"this is not compressed at all", codings, 1 << 20)
    assert caught.value.status == 400
    with pytest.raises(EncodingError):
        decompress(CODED[codings][:-9], codings, 1 << 20)


def test_an_empty_body_passes_and_an_unknown_coding_does_not() -> None:
    assert decompress(b"", "gzip", 10) == b""
    with pytest.raises(EncodingError) as caught:
        decompress(b"x", "lzw", 10)
    assert caught.value.status == 415


def test_each_event_comes_out_as_soon_as_it_came_in() -> None:
    packer = zlib.compressobj(wbits=31)
    reader = Decompressor("gzip", 1 << 20)
    for event in (b"data: 1\n\n", b"data: 2\n\n"):
        assert reader.feed(packer.compress(event) + packer.flush(zlib.Z_SYNC_FLUSH)) == event
