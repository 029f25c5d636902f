"""Provider keys never reach a client (design rule 8)."""

from __future__ import annotations

import json

import pytest

from extproc.translation.scrubbing import Scrubber

KEY = 'sk-test/ABC+1234567"890'


def test_rule_8_every_spelling_of_a_key_goes() -> None:
    scrub = Scrubber([KEY, "abc"])
    for text in (KEY, json.dumps(KEY), json.dumps(KEY).replace("/", "\\/"), "sk-test%2FABC%2B1234567%22890"):
        assert "1234567" not in scrub.text(f"the key {text} is wrong")
        assert b"1234567" not in scrub.body(f'{{"error": "the key {text}"}}'.encode())
    assert scrub.text("abc stays: it is no secret") == "abc stays: it is no secret"


@pytest.mark.parametrize("end", ["", "..."])
def test_rule_8_half_a_key_at_the_end_of_a_cut_text_goes(end: str) -> None:
    scrub = Scrubber([KEY])
    for length in range(8, len(KEY)):
        assert scrub.text("so: " + KEY[:length] + end) == "so: ***" + end
    assert scrub.text("so: " + KEY[:7] + end) == "so: " + KEY[:7] + end


def test_rule_8_a_key_that_begins_with_another_key_goes_whole() -> None:
    assert Scrubber(["sk-1234", "sk-1234-5678"]).text("x sk-1234-5678 y sk-1234 z") == "x *** y *** z"
