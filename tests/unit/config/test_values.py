"""Single values: addresses."""

from __future__ import annotations

import pytest

from extproc.config import parse_address


@pytest.mark.parametrize(("text", "address"), [
    ("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("localhost:10000", ("localhost", 10000))])
def test_an_address(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":80", "host", "host:", "host:x", "host:65536", "::1:80", "host:-1", "host:²"])
def test_a_text_that_is_no_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|port|brackets"):
        parse_address(text)
