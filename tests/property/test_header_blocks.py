"""Header blocks that come again are not read again: whatever came between, they mean what `hpack` says they mean."""

from __future__ import annotations

import hpack
from hypothesis import given, settings
from hypothesis import strategies as st

from extproc.transport.http2.headers import HeaderReader
from extproc.transport.http2.wire import ProtocolError

FIELDS = st.sampled_from([(b":method", b"POST"), (b"x-a", b"1"), (b"x-a", b"2"), (b"x-b", b"1" * 60), (b"x-c", b"")])
LISTS = st.lists(FIELDS, min_size=1, max_size=2)
WRITTEN = st.one_of(
    LISTS.map(lambda fields: ("block", fields)),
    st.sampled_from([0, 64, 100, 200, 4096]).map(lambda size: ("table", size)),
    st.sampled_from([b"\xbe", b"\xbe", b"\xbf", b"\xbe\xbf"]).map(lambda block: ("raw", block)),
    st.integers(0, 9).map(lambda number: ("again", number)))
"""Fields as a client's encoder writes them, another size of its table, entries of the table by number, an old block."""


@settings(max_examples=400)
@given(st.lists(WRITTEN, max_size=20))
def test_a_block_means_the_same_as_without_memory(steps: list[tuple[str, object]]) -> None:
    encoder, plain, reader = hpack.Encoder(), hpack.Decoder(), HeaderReader(64 * 1024)
    sent: list[bytes] = []
    for what, value in steps:
        if what == "table":
            encoder.header_table_size = value
            continue
        if what == "again":
            block = sent[int(str(value)) % len(sent)] if sent else b"\x82"
        else:
            block = value if isinstance(value, bytes) else encoder.encode(value)
        sent.append(block)
        try:
            expected = [tuple(field) for field in plain.decode(block, raw=True)]
        except hpack.HPACKError:
            expected = None
        try:
            got = [tuple(field) for field in reader.read(block).fields]
        except ProtocolError:
            got = None
        assert got == expected
        if expected is None:
            return  # the connection ends


def test_an_entry_of_the_table_is_another_one_when_something_was_added() -> None:
    reader = HeaderReader(1024)
    newest = b"\xbe"
    for value in (b"1", b"2", b"3"):
        reader.read(b"\x40\x01x\x01" + value)
        for _ in range(3):
            assert reader.read(newest).fields == [(b"x", value)]
    assert reader.read(newest) is reader.read(newest)
