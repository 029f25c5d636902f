"""Values at the edge of what Python and JSON can carry, and marks inside of marks: never an exception, never arguments
that are no JSON, the same result at every cut."""

from __future__ import annotations

import json

import pytest

from extproc.dialects.buffer import Marks, TextBuffer
from extproc.dialects.json.lenient import MAX_DEPTH, decode_json
from extproc.dialects.json.literals import read_literal
from tests.model_text.checks import read_text
from tests.model_text.exchange import cuts, send_text, tool

HUGE = "0x" + "f" * 6000
"""More digits than Python writes in decimal, which is how JSON writes them."""


def test_an_integer_that_json_cannot_carry_is_no_literal() -> None:
    assert read_literal("0x" + "f" * 3000) == 16**3000 - 1
    for text in (HUGE, f"-{HUGE}", f"[{HUGE}]", f"{{'a': {HUGE}}}", f"{{{HUGE}: 1}}"):
        with pytest.raises(ValueError, match=r"JSON|at character"):
            read_literal(text)


def test_a_huge_integer_stays_text() -> None:
    tools = [tool("lookup", harbor="string", tries="integer")]
    assert read_text("llama-pythonic", f"[lookup(tries={HUGE})]", tools=tools)[1] == [("lookup", {"tries": HUGE})]
    dictionary = f"<|tool_calls|>[{{'name': 'lookup', 'arguments': {{'tries': {HUGE}}}}}]"
    assert read_text("sarashina", dictionary, tools=tools) == (dictionary, [], "stop")


def test_too_deep_nesting_is_no_json() -> None:
    """A value that the decoder just accepts may be too deep for the encoder, which runs on a deeper stack."""
    assert decode_json("[" * MAX_DEPTH + "]" * MAX_DEPTH)
    assert decode_json(json.dumps([[1], {"a": "[{" * 300}] * 300)), "many brackets, but not deep"
    for opener, closer in (("[", "]"), ('{"a":', "}")):
        for depth in (MAX_DEPTH + 1, 900, 2000):
            with pytest.raises(ValueError, match=r"deep|recursion"):
                decode_json(opener * depth + "1" + closer * depth)


@pytest.mark.parametrize("depth", [MAX_DEPTH - 1, MAX_DEPTH, MAX_DEPTH + 1, *range(940, 990, 2), 2000])
def test_a_value_of_any_depth_reaches_the_client(depth: int) -> None:
    value = '{"a": ' * depth + "1" + "}" * depth
    tools = [tool("lookup", harbor="string", limits="object")]
    for dialect, text in (
            ("hermes", f'<tool_call>{{"name": "lookup", "arguments": {{"limits": {value}}}}}</tool_call>'),
            ("deepseek-v3.2", '<｜DSML｜invoke name="lookup"><｜DSML｜parameter name="limits" string="false">'
                              f'{value}</｜DSML｜parameter></｜DSML｜invoke>'),
            ("prompted", f'<tool_call name="lookup"><parameter name="limits" type="json">{value}</parameter>'
                         '</tool_call>')):
        got = send_text(text, tools, dialect=dialect)
        [[name, arguments]] = got["tool_calls"]
        assert (name, got["finish_reason"]) == ("lookup", "tool_calls")
        assert arguments.count('"a"') + arguments.count('\\"a\\"') == depth


def test_a_mark_with_a_newline_inside_a_string_is_escaped() -> None:
    """The mark of the next message is data in a string, or the string has no closing quote."""
    separator = "<|from|>assistant\n<|recipient|>"
    raw = (f'lookup\n<|content|>{{"harbor": "Brest{separator}", "day": "Monday"}}{separator}ping\n<|content|>{{}}'
           "<|stop|>")
    assert read_text("functionary-v2", raw)[1] == [
        ("lookup", {"harbor": f"Brest{separator}", "day": "Monday"}), ("ping", {})]


def test_a_text_that_ends_in_a_backslash_inside_a_key() -> None:
    tools = [tool("lookup", harbor="string")]
    for pieces in cuts('<tool_call>{"name": "lookup", "arguments": {"}</tool_call>\\'):
        got = send_text(pieces, tools, dialect="hermes")
        assert got["tool_calls"] == [["lookup", "{}"]]
        assert got["content"] == "\\"


def test_a_mark_inside_a_longer_mark_waits_for_it() -> None:
    """`begin\\nend` contains the newline: a reader that gets `begin\\n` first must not take it for the mark."""
    marks = Marks(["\n", "begin\nend"])
    for text, want in (("a begin\nend b", [("a ", "begin\nend"), (" b", "")]),
                       ("a begin\nen b", [("a begin", "\n"), ("en b", "")])):
        for pieces in cuts(text):
            buffer = TextBuffer()
            found: list[tuple[str, str]] = []
            waiting = iter(pieces)
            while not found or found[-1][1]:
                out: list[str] = []
                steps = buffer.until(marks, out.append)
                while True:
                    try:
                        next(steps)
                    except StopIteration as done:
                        found.append(("".join(out), done.value))
                        break
                    piece = next(waiting, None)
                    if piece is None:
                        buffer.end(clean=True)
                    else:
                        buffer.feed(piece)
            assert found == want, pieces


def test_half_a_surrogate_pair_before_an_escape_that_is_none() -> None:
    """An escape that is no second half is read again, even if it came in pieces."""
    assert read_text("llama-pythonic", r"[lookup(harbor='a\ud83d\uZZZZ b')]")[1] == [
        ("lookup", {"harbor": "a\ufffd\\uZZZZ b"})]
    assert read_text("llama-pythonic", r"[lookup(harbor='a\ud83d\u0041 b')]")[1] == [("lookup", {"harbor": "a\ufffdA b"})]


def test_a_header_behind_a_backtick() -> None:
    """The rest of a code span that does not end is looked at twice; the header that began before it is still read."""
    read_text("inkling", "<|content_text|>One `<|content_text|>two\nthree<|end_message|>")
    read_text("muse-glimmer", "to=user<|message|>One `<|message|>two\nthree<|eot|>")
