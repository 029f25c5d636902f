"""A server that sends a call natively and leaves it in the text usually streams both at once, in alternating pieces.
The part of the call in the text must not become a second call."""

from __future__ import annotations

import json

import pytest

from extproc.translation.exchange import Translation
from tests.model_text.text_and_calls import NativeCall, begin_exchange, hermes_call, parse_messages
from tests.playbook import call, delta, sse

READ: NativeCall = ("read", {"path": "a b", "n": 1})
TEXT, ARGUMENTS = hermes_call(*READ), json.dumps(READ[1])
UP_TO_COMMA = TEXT[:TEXT.index(', "n"')+1]

XML = ("<tool_call>\n<function=read>\n<parameter=path>\na b\n</parameter>\n<parameter=n>\n1\n</parameter>\n"
       "</function>\n</tool_call>")


def text_delta(text: str) -> bytes:
    return sse(delta(content=text), done=False)


def native_delta(name: str | None, arguments: str, index: int = 0) -> bytes:
    """A fragment of a native call."""
    return sse(delta(tool_calls=[call(index, name and f"call_{index}", name, arguments)]), done=False)


def ended(talk: Translation, *bodies: bytes, reason: str = "tool_calls") -> bytes:
    return b"".join(talk.feed(body) for body in bodies) + talk.feed(sse(delta(reason))) + talk.finish()


@pytest.mark.parametrize("arguments", ["as-is", "repair", "strict"])
def test_a_native_fragment_does_not_end_a_call_in_the_text(arguments: str) -> None:
    answer = parse_messages(ended(begin_exchange("openai", arguments=arguments), text_delta("Look.\n" + UP_TO_COMMA),
                         native_delta("read", ARGUMENTS[:9]), text_delta(TEXT[len(UP_TO_COMMA):]), native_delta(None, ARGUMENTS[9:])))
    assert (answer.calls, answer.order, answer.stop) == ([READ], ["text", "read"], "tool_use")


@pytest.mark.parametrize("arguments", ["as-is", "repair"])
@pytest.mark.parametrize("native_first", [True, False])
@pytest.mark.parametrize("upto", range(len("<tool_call>\n"), len(TEXT), 3))
def test_a_text_that_stops_is_the_native_call(upto: int, native_first: bool, arguments: str) -> None:
    """Even if its first piece was sent: the rest comes from the native call."""
    pieces = [text_delta(TEXT[:upto]), native_delta("read", ARGUMENTS)]
    answer = parse_messages(ended(begin_exchange("openai", arguments=arguments), *(reversed(pieces) if native_first else pieces)))
    assert (answer.calls, answer.stop) == ([READ], "tool_use")


@pytest.mark.parametrize("upto", range(len("<tool_call>\n"), len(XML)))
def test_a_value_without_quotes_that_stops_is_the_native_call(upto: int) -> None:
    """Only a closing tag shows its end; the end of the text makes it look complete."""
    answer = parse_messages(ended(begin_exchange("openai"), text_delta(XML[:upto]), native_delta("read", ARGUMENTS)))
    assert (answer.calls, answer.stop) == ([READ], "tool_use")


def test_a_text_that_stops_in_another_call_is_as_without_native_calls() -> None:
    other = TEXT.replace("a b", "c")
    cut = other[:other.index(', "n"')]
    answer = parse_messages(ended(begin_exchange("openai"), text_delta(cut), native_delta("read", ARGUMENTS)))
    assert answer.calls == [("read", {"path": "c"}), READ]
    answer = parse_messages(ended(begin_exchange("openai"), native_delta("read", ARGUMENTS), text_delta(cut)))
    assert answer.calls == [READ, ("read", {"path": "c"})]


@pytest.mark.parametrize("pieces", [[text_delta(UP_TO_COMMA), native_delta("ping", "{}")], [native_delta("ping", "{}"), text_delta(UP_TO_COMMA)]])
def test_a_text_that_stops_behind_a_comma_of_another_call_is_cut_off(pieces: list[bytes]) -> None:
    out = ended(begin_exchange("openai"), *pieces)
    assert b'"stop_reason":"max_tokens"' in out
    assert out.count(b'"type":"tool_use"') == 2
    assert json.dumps("}").encode() not in out, "what is missing was made up"


@pytest.mark.parametrize("native_first", [True, False])
@pytest.mark.parametrize("arguments", ["as-is", "repair"])
@pytest.mark.parametrize("text", [
    '{"name": "read", "arguments": {"path": "a b"}}', '<tool_call>\n{"name": "read", "arguments": {"path": "a b"}',
    '<tool_call>\n{"arguments": {"path": "a b"}, "name": "read"',
    '<|channel|>commentary to=functions.read<|message|>{"path": "a b"}',
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{"path": "a b"}',
], ids=["bare", "hermes", "name last", "harmony", "kimi"])
def test_arguments_that_the_text_closed_begin_no_other_call(text: str, arguments: str, native_first: bool) -> None:
    """Only the text after them is missing: servers remove the token that ends a call."""
    pieces = [native_delta("read", ARGUMENTS), text_delta(text)] if native_first and text[0] != "{" else \
        [text_delta(text), native_delta("read", ARGUMENTS)]
    answer = parse_messages(ended(begin_exchange("openai", arguments=arguments), *pieces))
    assert sorted(map(str, answer.calls)) == sorted(map(str, [READ, ("read", {"path": "a b"})]))


def test_a_whole_call_without_its_token_holds_no_native_call_of_another_tool_back() -> None:
    talk = begin_exchange("openai")
    talk.feed(text_delta('<|channel|>commentary to=functions.ping<|message|>{"path": "a"}'))
    assert b"partial_json" in talk.feed(native_delta("read", '{"path": "'))


def test_a_call_whose_first_value_never_ended_is_truncated() -> None:
    """All of it came at the end of the text. Without an error the response would look complete."""
    out = ended(begin_exchange("openai", dialect="llama-pythonic"), text_delta("[read(path='"))
    assert b'"stop_reason":"max_tokens"' in out
    assert b'path' in out


def test_a_truncated_native_call_completes_nothing() -> None:
    out = ended(begin_exchange("openai"), text_delta(UP_TO_COMMA), native_delta("read", ARGUMENTS[:12]), reason="length")
    assert b'"stop_reason":"max_tokens"' in out


def test_a_stream_that_breaks_off_completes_nothing() -> None:
    talk = begin_exchange("openai")
    out = talk.feed(text_delta(UP_TO_COMMA) + native_delta("read", ARGUMENTS)) + talk.finish()
    assert b"event: error" in out
    assert b'"stop_reason"' not in out.rpartition(b"message_start")[2].partition(b"content_block")[2]


def test_text_that_is_no_call_is_shown_behind_it() -> None:
    answer = parse_messages(ended(begin_exchange("openai"), text_delta("See <tool_call>"), native_delta("read", ARGUMENTS[:5]), text_delta(" there."),
                         native_delta(None, ARGUMENTS[5:])))
    assert (answer.calls, answer.text) == ([READ], "See <tool_call> there.")


def test_plain_text_stays_in_front() -> None:
    answer = parse_messages(ended(begin_exchange("openai"), text_delta("a <"), native_delta("read", ARGUMENTS)))
    assert (answer.text, answer.order) == ("a <", ["text", "read"])


def test_several_of_each() -> None:
    ping: NativeCall = ("ping", {})
    texts = TEXT + "\n" + hermes_call(*ping)
    answer = parse_messages(ended(begin_exchange("openai"), text_delta(texts[:30]), native_delta("read", ARGUMENTS), text_delta(texts[30:95]),
                         native_delta("ping", "{}", 1), text_delta(texts[95:]), native_delta("read", ARGUMENTS, 2)))
    assert sorted(map(str, answer.calls)) == sorted(map(str, [READ, READ, ping]))
