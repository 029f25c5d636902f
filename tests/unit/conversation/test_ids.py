"""Tool call ids: minted for clients, spelt for providers."""

from __future__ import annotations

import re

import pytest

from extproc.conversation.ids import IdMinter, ProviderIds, history_ids, repeated_id
from extproc.conversation.model import Message, ToolCall, ToolResult


def test_rule_5_minted_ids_are_reproducible_legal_and_different():
    first, second = IdMinter(b"request", []), IdMinter(b"request", [])
    ids = [first.mint(number) for number in range(50)]
    assert ids == [second.mint(number) for number in range(50)]
    assert len(set(ids)) == 50
    assert all(re.fullmatch(r"toolu_[0-9a-f]{24}", minted) for minted in ids)
    assert IdMinter(b"other", []).mint(0) != ids[0]
    assert first.mint(7) == ids[7]


def test_rule_5_a_minted_id_that_the_history_holds_is_minted_anew():
    taken = IdMinter(b"request", []).mint(0)
    fresh = IdMinter(b"request", {taken}).mint(0)
    assert fresh != taken
    assert IdMinter(b"request", {taken}).mint(0) == fresh


def test_rule_5_a_providers_id_passes_only_when_new_and_legal():
    minter = IdMinter(b"request", {"call_0"})
    assert minter.accept("call_1")
    assert not minter.accept("call_1"), "it is taken now"
    assert not minter.accept("call_0"), "the history has it"
    for odd in ("", "null", "None", "functions.read:0", "a b", "a\n", "x" * 65, "é"):
        assert not minter.accept(odd)
    assert not minter.accept(minter.mint(0))


def test_a_client_with_another_alphabet_and_prefix():
    minter = IdMinter(b"request", [], pattern=r"call_\w+", prefix="call_")
    assert minter.mint(0).startswith("call_")
    assert minter.accept("call_x")
    assert not minter.accept("toolu_x")


def test_history_ids_come_from_calls_and_results():
    messages = [Message("assistant", [ToolCall("a", "read", "")]), Message("user", [ToolResult("b", [])])]
    assert history_ids(messages) == {"a", "b"}


def test_p22_provider_ids_do_not_collide_even_with_their_own_replacements():
    long = "x" * 60
    replacement = ProviderIds(r"[\w-]+", 40).next_id(long, "read")
    ids = ProviderIds(r"[\w-]+", 40)
    assert ids.next_id(replacement, "read") == replacement
    other = ids.next_id(long, "read")
    assert other != replacement
    assert len(other) <= 40


@pytest.mark.parametrize("count", [1000])
def test_p22_nine_character_ids_stay_apart(count):
    ids = ProviderIds("[a-zA-Z0-9]{9}", 9, "nine")
    made = {ids.next_id(f"toolu_{number}", "read") for number in range(count)}
    assert len(made) == count
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", entry) for entry in made)


def test_a_repeated_id_depends_on_id_and_occurrence():
    assert repeated_id("a", 1) == repeated_id("a", 1)
    assert len({repeated_id("a", 1), repeated_id("a", 2), repeated_id("b", 1)}) == 3


def test_kimis_ids_keep_to_the_limit_of_the_endpoint() -> None:
    ids = ProviderIds(r"[\x21-\x7e]+", 40, "functions")
    assert ids.next_id("toolu_1", "read") == "functions.read:0"
    assert ids.next_id("toolu_2", "m" * 60) == "toolu_2"
    assert ids.next_id("t" * 50, "m" * 60).startswith("call_")
