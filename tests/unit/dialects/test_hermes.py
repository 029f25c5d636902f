"""Hermes JSON: damage around the body of a call, and the text after it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.model_text.checks import TOOLS, assert_reads, assert_stays_text
from tests.model_text.exchange import send_text

PING = '{"name": "ping", "arguments": {}}'
TIDE = '{"name": "tide", "arguments": {"harbor": "Brest"}}'
CALLS: tuple[tuple[str, dict[str, Any]], ...] = (("tide", {"harbor": "Brest"}), ("ping", {}))


@pytest.mark.parametrize("between", ["\n", "", ",\n", "; ", "}\n"])
def test_several_objects_in_one_pair_of_tags_are_several_calls(between: str) -> None:
    assert_reads("hermes", f"<tool_call>\n{TIDE}{between}{PING}\n</tool_call>\nDone.", *CALLS, text="Done.")


def test_doubled_tags_do_not_leak() -> None:
    assert_reads("hermes", f"<tool_call>\n<tool_call>\n{PING}\n</tool_call>\n</tool_call>\nDone.", ("ping", {}), text="Done.")


def test_further_closing_tags_behind_a_call_do_not_leak() -> None:
    assert_reads("hermes", f"One\n<tool_call>\n{PING}\n</tool_call>\n</tool_call></tool_call>\nDone.", ("ping", {}),
          text="One\nDone.", exact=True)
    assert_reads("qwen3-coder", "<function=ping>\n</function>\n</function>\n</tool_call>\n</tool_call>\nDone.", ("ping", {}),
          text="Done.")


@pytest.mark.parametrize(("dialect", "tag", "call"), [
    ("qwen3-coder", "tool_call", "<function=ping>\n</function>"), ("seed-oss", "seed:tool_call", "<function=ping>\n</function>"),
    ("minimax-m2", "minimax:tool_call", '<invoke name="ping">\n</invoke>'), ("glm-4.6", "tool_call", "ping"),
])
def test_doubled_tags_around_other_bodies_do_not_leak(dialect: str, tag: str, call: str) -> None:
    opener, closer = f"<{tag}>\n", f"\n</{tag}>"
    assert_reads(dialect, f"One\n{opener}{opener}{call}{closer}{closer}\nDone.", ("ping", {}), text="One\nDone.", exact=True)
    assert_stays_text(dialect, f"{opener}and {opener}{opener}nobody{closer}")


def test_doubled_openers_without_a_call_stay_text() -> None:
    assert_stays_text("hermes", "<tool_call> and <tool_call> <tool_call>{}</tool_call>")


def test_a_code_fence_inside_the_tags_is_framing() -> None:
    assert_reads("hermes", f"<tool_call>\n```json\n{PING}\n```\n</tool_call>\nDone.", ("ping", {}), text="Done.")


@pytest.mark.parametrize(("dialect", "call"), [
    ("hermes", f"<tool_call>{PING}"),
    ("hermes", f"<tool_call>{PING}</tool_call>"),
    ("qwen3-coder", "<function=ping></function>"),
    ("qwen3-coder", '<tool_call>{"name": "ping"}</tool_call>'),
    ("minimax-m2", '<invoke name="ping"></invoke>'),
])
def test_text_behind_a_call_stays_apart_from_the_text_before(dialect: str, call: str) -> None:
    assert_reads(dialect, f"One {call} two", ("ping", {}), text="One two", exact=True)


def test_white_space_alone_behind_a_call_is_dropped() -> None:
    assert_reads("hermes", f"<tool_call>{PING}\n", ("ping", {}), exact=True)


@pytest.mark.parametrize(("dialect", "raw", "begins"), [
    ("hermes", f"One <tool_call>{PING}</tool_call>", "<tool_call>"),
    ("lmstudio-default", f"One [TOOL_REQUEST]{PING}[END_TOOL_REQUEST]", "[TOOL_REQUEST]"),
    ("mistral", "One [TOOL_CALLS]tide[ARGS]{}", "[TOOL_CALLS]"),
    ("roo-xml", "One <tide>\n<harbor>Brest</harbor>\n</tide>", "<tide>"),
])
def test_no_piece_of_a_call_is_shown_where_a_limit_cuts_it_off(dialect: str, raw: str, begins: str) -> None:
    for size in range(raw.index(begins) + len(begins), len(raw) + 1):
        for pieces in ([raw[:size]], list(raw[:size])):
            got = send_text(pieces, TOOLS, finish="length", dialect=dialect)
            assert (got["content"].strip(), got["finish_reason"]) == ("One", "length"), raw[:size]
