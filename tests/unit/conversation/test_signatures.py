"""Signatures in the texts and ids that clients send back: whole ones come back, damaged ones have no issuer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from extproc.conversation.model import Signature
from extproc.conversation.signatures import embed_in_text, extract_from_text, origin_of

ORIGIN = origin_of("responses", "api.openai.com", "gpt-6-sol")


@given(st.text())
def test_a_signature_comes_back_from_a_text_byte_for_byte(value: str) -> None:
    assert extract_from_text(embed_in_text(Signature(value, ORIGIN))) == Signature(value, ORIGIN)


@given(value=st.text(min_size=1), cut=st.integers(min_value=1), other=st.characters())
def test_a_damaged_text_has_no_issuer_so_no_provider_gets_it(value: str, cut: int, other: str) -> None:
    whole = embed_in_text(Signature(value, ORIGIN))
    place = len("xs1.") + cut % (len(whole) - len("xs1."))
    for damaged in {whole[:place], whole[:place] + other + whole[place + 1:]} - {whole}:
        found = extract_from_text(damaged)
        assert found is not None
        assert found.origin != ORIGIN


def test_the_signature_of_another_api_is_not_ours() -> None:
    assert extract_from_text("EqQBCkYIARgCKkBsaWduYXR1cmU=") is None
