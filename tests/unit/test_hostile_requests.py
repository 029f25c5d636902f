"""Requests that mean harm, without a socket: what is said twice is read alike by the edge, which routes by it and asks
the team's rights, and by every translation; codings that unpack to nothing are bounded as well."""

from __future__ import annotations

import gzip
import json
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from extproc import Translation
from extproc.bounds import Limits
from extproc.config import ConfigError, load_config
from extproc.errors import BadRequest
from extproc.ext_proc.request_body import peek_routing_fields
from extproc.translation.encoding import Decompressor, EncodingError

ASKED = b'"max_tokens":9,"messages":[{"role":"user","content":"hi"}],"input":"hi"'
BODIES = {
    "the other last": b'{"model":"first",%b,"model":"last"}' % ASKED,
    "the other first": b'{"model":"other","model":"last",%b}' % ASKED,
    "with an escape": b'{"model":"first",%b,"\\u006dodel":"last"}' % ASKED,
    "three times": b'{"model":"a",%b,"model":"b","model":"last"}' % ASKED,
}


@pytest.mark.parametrize("upstream", ["anthropic", "openai", "gemini"])
@pytest.mark.parametrize("client", ["anthropic", "openai", "responses"])
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_the_model_twice(client: str, upstream: str, body: bytes) -> None:
    exchange = Translation(client, upstream, "the-providers")
    sent = exchange.request(body, {"content-type": "application/json"})
    assert exchange.conversation is not None
    assert exchange.conversation.model == peek_routing_fields(body, Limits()).model == "last"
    names: list[str] = []

    def members(found: list[tuple[str, Any]]) -> dict[str, Any]:
        names.extend(name for name, value in found if name == "model" and isinstance(value, str))
        return dict(found)

    decoded = json.loads(sent.body, object_pairs_hook=members)
    assert names == ([] if upstream == "gemini" else ["model"])
    assert decoded.get("model", "the-providers") == "the-providers"
    assert b"last" not in sent.body


def test_a_model_that_is_no_text_the_second_time_is_refused() -> None:
    with pytest.raises(BadRequest, match="model"):
        peek_routing_fields(b'{"model":"a","model":5}', Limits())


# ----------------------------------------------------------------------------------------------------------- encodings
@pytest.mark.parametrize("codings", ["gzip", "zstd"])
def test_parts_that_hold_nothing_are_bounded(codings: str) -> None:
    """Each costs time and none of the room that is counted."""
    empty = gzip.compress(b"") if codings == "gzip" else zstandard.compress(b"")
    few = Decompressor(codings, 1 << 20)
    assert few.feed(empty * 5_000) == b""
    few.finish()
    with pytest.raises(EncodingError, match="parts") as caught:
        Decompressor(codings, 1 << 20).feed(empty * 20_000)
    assert caught.value.status == 400


def test_what_only_a_further_coding_reads_is_bounded_too() -> None:
    """Empty blocks of deflate: as long as one likes, and they come to nothing."""
    packer = zlib.compressobj(wbits=-15)
    long = b"\0\0\0\xff\xff" * 1_000_000 + packer.flush()
    with pytest.raises(EncodingError) as caught:
        Decompressor("deflate, gzip", 1 << 20).feed(gzip.compress(long, 1))
    assert caught.value.status == 413


def test_so_many_codings_and_no_more() -> None:
    Decompressor(", ".join(["gzip"] * 5 + ["identity"] * 100), 10)
    with pytest.raises(EncodingError) as caught:
        Decompressor(", ".join(["gzip"] * 6), 10)
    assert caught.value.status == 415


# --------------------------------------------------------------------------------------------------------------- names
@pytest.mark.parametrize("name", ["a\r\nx-evil: 1", "a\0", "日本", "a" * 300, "a b", "a,b", "", 'a"b', "%REQ(X)%"])
def test_a_teams_name_is_fit_for_a_header_or_refused(tmp_path: Path, name: str) -> None:
    """It travels in one, and in Envoy's formats."""
    file = tmp_path / "extproc.yaml"
    file.write_text(json.dumps({
        "backends": {"one": {"api": "openai", "url": "http://127.0.0.1:1/v1"}},
        "models": [{"match": "m", "attempts": [{"backend": "one", "model": "x"}]}], "teams": {name: {"key": "key"}}}))
    with pytest.raises(ConfigError, match="the name may hold"):
        load_config(file, {})
