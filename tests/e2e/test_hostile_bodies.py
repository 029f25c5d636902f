"""Request bodies that mean harm: JSON that is deep, huge, double or no JSON; encodings that unpack to gigabytes; names
that want to be headers."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import brotli
import pytest
import zstandard

from tests.e2e.gateway import CLIENT_KEY, PROVIDER_KEY, Gateway
from tests.e2e.odd_clients import Case, Peak, body, ending, seen, sends, sent
from tests.e2e.wire import ANTHROPIC, Answer, blocks_of, payload, post, stream
from tests.providers.http import Gate
from tests.providers.openai import OpenAIProvider, calls, text
from tests.providers.openai import stream as deltas

MB = 1024 * 1024
BAD = "400 `invalid_request_error`"
TOOL = {"name": "f", "input_schema": {"type": "object"}}
CHAT = "/v1/chat/completions"


def within(extra: bytes) -> bytes:
    """An ordinary body with these members before its own."""
    return b"{" + extra + b"," + body()[1:]


def history(arguments: bytes, call_id: bytes = b"t1") -> bytes:
    """A conversation in which the model called a tool with these arguments."""
    return (b'{"model":"claude-test","max_tokens":9,"tools":[{"name":"f","input_schema":{"type":"object"}}],'
            b'"messages":[{"role":"user","content":"x"},{"role":"assistant","content":[{"type":"tool_use","id":"%b","name":"f",'
            b'"input":%b}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"%b","content":"r"}]}]}'
            % (call_id, arguments, call_id))


def outcome(gateway: Gateway, provider: OpenAIProvider, data: bytes, *, limit: int = 160 * MB,
            path: str = "/v1/messages", **headers: str) -> str:
    """What the client saw; refused means that no provider was asked. `limit`: bytes that it may cost."""
    provider.always(text("ok"))
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with Peak(gateway) as peak:
        answer = post(gateway.base_url, data, path=path, headers={**ANTHROPIC, **named})
    found = seen(answer)
    assert len(provider.seen) == (found == "200")
    assert peak.grown < limit, f"{peak.grown / MB:.0f} MB"
    return found


# ---------------------------------------------------------------------------------------------------------- nesting
@sends(
    Case("an unknown field nested 126 deep", "200", within(b'"x":' + b"[" * 126 + b"]" * 126)),
    Case("an unknown field nested 5,000 deep", BAD, within(b'"x":' + b"[" * 5000 + b"]" * 5000)),
    Case("10 million opening brackets", BAD, b'{"x":' + b"[" * 10_000_000),
    Case("tool arguments in the history nested 100 deep", "200", history(b'{"a":' * 100 + b"1" + b"}" * 100)),
    Case("tool arguments in the history nested 500 deep", BAD, history(b'{"a":' * 500 + b"1" + b"}" * 500)),
    Case("a tool schema nested 5,000 deep", BAD, json.dumps(payload(tools=[TOOL])).encode().replace(
        b'{"type": "object"}', b'{"items":' * 5000 + b"{}" + b"}" * 5000)),
)
def test_nesting(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    return outcome(gateway, provider, case.data)


@sent("tool arguments in the history as a string of 100,000 brackets (OpenAI client)", sees="200")
def test_brackets_in_a_string(gateway: Gateway, provider: OpenAIProvider) -> str:
    """What is a string stays one: it is not parsed on the way to a provider that takes strings."""
    call = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "[" * 100_000}}
    data = {"model": "claude-test", "tools": [{"type": "function", "function": {"name": "f"}}], "messages": [
        {"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "a", "content": "r"}]}
    return outcome(gateway, provider, json.dumps(data).encode(), path=CHAT)


# ------------------------------------------------------------------------------------------------- JSON bombs, numbers
@sends(
    Case("tool arguments in the history with 200,000 keys", "200",
         b"{" + b",".join(b'"k%d":%d' % (n, n) for n in range(200_000)) + b"}"),
    Case("... with a fraction of 100,000 digits", "200", b'{"a":0.' + b"1" * 100_000 + b"}"),
    Case("... with the same key twice", "200", b'{"a":1,"a":2}'),
    Case("... with `__proto__`", "200", b'{"__proto__":{"a":1}}'),
    Case("... with an integer of 65 bits", "200", b'{"a":18446744073709551616}'),
    Case("... with an escaped NUL", "200", b'{"a":"\\u0000"}'),
)
def test_arguments_cross_as_they_are(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    found = outcome(gateway, provider, history(case.data))
    call, = provider.last.messages[1]["tool_calls"]
    assert call["function"]["arguments"].encode() == case.data
    return found


@sends(
    Case("... with half a surrogate pair, which becomes U+FFFD", "200", b'{"a":"\\ud83d"}'),
)
def test_half_a_surrogate_pair(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    found = outcome(gateway, provider, history(case.data))
    assert json.loads(provider.last.messages[1]["tool_calls"][0]["function"]["arguments"]) == {"a": "\ufffd"}
    return found


@sends(
    Case("... with 1e999999", BAD, history(b'{"a":1e999999}')),
    Case("... with an integer of 100,000 digits", BAD, history(b'{"a":' + b"9" * 100_000 + b"}")),
    Case("`max_tokens` of 5,000 digits", BAD, body().replace(b"256", b"9" * 5000)),
    Case("`temperature: 1e999`", BAD, within(b'"temperature":1e999')),
)
def test_numbers_that_nobody_can_hold(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    found = outcome(gateway, provider, case.data)
    assert "out of range" in post(gateway.base_url, case.data).error()[1]
    return found


# ------------------------------------------------------------------------------------------------ not the JSON it seems
@sends(
    Case("an empty body", BAD, b""),
    Case("20 MB of blanks", BAD, lambda: b" " * (20 * MB)),
    Case("20 MB of blanks and then a request", "200", lambda: b" " * (20 * MB) + body()),
    Case("a byte order mark before the JSON", BAD, b"\xef\xbb\xbf" + body()),
    Case("UTF-16", BAD, body().decode().encode("utf-16")),
    Case("UTF-32", BAD, body().decode().encode("utf-32")),
    Case("invalid UTF-8 in a text", BAD, body().replace(b"hello", b"he\xffllo")),
    Case("invalid UTF-8 in the model's name", BAD, body().replace(b"claude-test", b"claude-\xfftest")),
    Case("an overlong `/` in UTF-8", BAD, body().replace(b"hello", b"he\xc0\xafllo")),
    Case("a surrogate in UTF-8", BAD, body().replace(b"hello", b"he\xed\xa0\x80llo")),
    Case("a bare NUL in a text", BAD, body().replace(b"hello", b"he\0llo")),
    Case("NaN", BAD, within(b'"temperature":NaN')),
    Case("two JSON documents", BAD, body() + body()),
    Case("a comment", BAD, b"/* */" + body()),
    Case("single quotes", BAD, body().replace(b'"', b"'")),
    Case("100,000 fields that nobody knows", "200", within(b",".join(b'"k%d":1' % n for n in range(100_000)))),
    Case("a field's name of 1 MB", "200", within(b'"' + b"k" * MB + b'":1')),
    Case("a model's name of 1 MB", "404 `not_found_error`", json.dumps(payload("x" * MB)).encode()),
    Case("a tool id of 1 MB", "200", history(b"{}", b"i" * MB)),
    Case("a tool's name of 1 MB", "200", json.dumps(payload(tools=[{**TOOL, "name": "n" * MB}])).encode()),
    Case("512 tools", "200", json.dumps(payload(tools=[{**TOOL, "name": f"f{n}"} for n in range(512)])).encode()),
    Case("513 tools", BAD, json.dumps(payload(tools=[{**TOOL, "name": f"f{n}"} for n in range(513)])).encode()),
    Case("10,001 messages", "200", json.dumps(payload(messages=[
        {"role": "user" if n % 2 == 0 else "assistant", "content": f"m{n}"} for n in range(10_001)])).encode()),
)
def test_bodies(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    provider.strict = not case.sent.endswith(" tools")  # no more than 128 for OpenAI itself
    return outcome(gateway, provider, case.value)


def test_the_place_of_invalid_utf8_is_that_of_the_body(gateway: Gateway, provider: OpenAIProvider) -> None:
    data = body().replace(b"claude-test", b"claude-\xfftest")
    assert f"(byte {data.index(0xff)})" in post(gateway.base_url, data).error()[1]


@sends(*(Case(f"`content-type: {kind}` with a team's key", "200", kind) for kind in (
    "text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x",
    "application/json; charset=utf-16", "application/grpc")))
def test_content_types(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    """The bytes tell what they are. (Without teams anything but JSON is 415, because web pages may send it.)"""
    found = outcome(gateway, provider, body(), content_type=case.data)
    assert provider.last.headers["content-type"] == "application/json"
    return found


# ------------------------------------------------------------------------------------------------------ the same twice
TWICE = [b'"model":"glob/one"', b'"mod\\u0065l":"glob/one"']


@sends(*(Case(f"the model twice, {how} ({api} client)", "200: routed and sent by the last one", (extra, last, path))
         for path, api in (("/v1/messages", "Anthropic"), (CHAT, "OpenAI"))
         for extra, last, how in ((TWICE[0], True, "another one last"), (TWICE[0], False, "another one first"),
                                  (TWICE[1], True, "another one last and written with an escape"))))
def test_the_model_twice(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    """What the edge routes by (and asks the team's rights for) is what the provider gets, and it gets it once."""
    extra, last, path = case.data
    data = body()[:-1] + b"," + extra + b"}" if last else within(extra)
    found = outcome(gateway, provider, data, path=path)
    assert provider.last.body["model"] == ("glob/one" if last else "scripted/model-1")
    assert provider.last.raw.count(b'"model"') + provider.last.raw.count(b'\\u0065') == 1
    return f"{found}: routed and sent by the last one"


@sent("`stream` and `messages` twice", sees="200: the last ones count")
def test_other_fields_twice(gateway: Gateway, provider: OpenAIProvider) -> str:
    more = b',"stream":true,"stream":false,"messages":[{"role":"user","content":"last"}]}'
    found = outcome(gateway, provider, body()[:-1] + more)
    assert provider.last.messages == [{"role": "user", "content": "last"}]
    return f"{found}: the last ones count"


# ------------------------------------------------------------------------------------------------------------ encodings
def blanks() -> bytes:
    return bytes(128 * MB)


def gzipped(data: bytes, times: int) -> bytes:
    for _ in range(times):
        data = gzip.compress(data, 1)
    return data


TOO_LARGE = "413 `request_too_large`"


@sends(
    Case("128 MB of nothing in gzip", TOO_LARGE, lambda: ("gzip", gzip.compress(blanks(), 1))),
    Case("128 MB of nothing in deflate", TOO_LARGE, lambda: ("deflate", zlib.compress(blanks(), 1))),
    Case("128 MB of nothing in br", TOO_LARGE, lambda: ("br", brotli.compress(blanks(), quality=1))),
    Case("128 MB of nothing in zstd", TOO_LARGE, lambda: ("zstd", zstandard.compress(blanks(), 1))),
    Case("128 MB of nothing in gzip in gzip", TOO_LARGE,
         lambda: ("gzip, gzip", gzip.compress(gzip.compress(blanks(), 1), 9))),
    Case("4 million empty gzip members in gzip, which come to nothing", BAD,
         lambda: ("gzip, gzip", gzip.compress(gzip.compress(b"", mtime=0) * 4_000_000, 1))),
    Case("200,000 empty gzip members before a request", BAD,
         lambda: ("gzip", gzip.compress(b"", mtime=0) * 200_000 + gzip.compress(body()))),
    Case("500,000 empty zstd frames before a request", BAD,
         lambda: ("zstd", zstandard.compress(b"") * 500_000 + zstandard.compress(body()))),
    Case("a zstd frame that wants a window of gigabytes", BAD, ("zstd", b"\x28\xb5\x2f\xfd\x00\xff" + bytes(100))),
    Case("five times gzip", "200", (", ".join(["gzip"] * 5), gzipped(body(), 5))),
    Case("six times gzip", "415 `invalid_request_error`", (", ".join(["gzip"] * 6), gzipped(body(), 6))),
    Case("2,000 codings", "415 `invalid_request_error`", (",".join(["br"] * 2000), body())),
    Case("an unknown coding", "415 `invalid_request_error`", ("lzw", body())),
    Case("a coding that the body does not have", BAD, ("gzip", body())),
    Case("gzip that ends early", BAD, ("gzip", gzip.compress(body())[:-9])),
)
def test_encodings(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    coding, data = case.value
    return outcome(gateway, provider, data, content_encoding=coding, limit=60 * MB)


# ------------------------------------------------------------------------------------------------------------- counting
@sent("24 count_tokens of 600 KB at once, beside a stream", sees="24 times 200; the stream goes on")
def test_counting_does_not_hold_up_a_stream(gateway: Gateway, provider: OpenAIProvider) -> str:
    """Each event of the stream is sent when the one before has arrived: none of them waits for a count. A quick machine
    has counted before many have passed, so it counts again until they have."""
    words = " ".join(f"word{number} число 数{number}" for number in range(24_000))
    request = payload(messages=[{"role": "user", "content": words}])
    gates = [Gate() for _ in range(2000)]
    provider.script(deltas([part for gate in gates for part in ({"content": "x"}, gate)]))
    gaps: list[float] = []
    found: list[list[Answer]] = []
    with ThreadPoolExecutor(24) as pool, stream(gateway.base_url) as answer:
        answer.until("content_block_delta")
        events, closed = answer.events(), iter(gates[:-1])
        while len(gaps) <= 10 and len(found) < 4:
            counts = [pool.submit(post, gateway.base_url, request, "/v1/messages/count_tokens") for _ in range(24)]
            for gate in closed:  # a slow machine comes to their end before it has counted
                began = time.monotonic()
                gate.open()
                while next(events)["type"] != "content_block_delta":
                    pass
                gaps.append(time.monotonic() - began)
                if all(count.done() for count in counts):
                    break
            found.append([count.result() for count in counts])
        for gate in gates:
            gate.open()
        assert ending(answer) == "200"
    assert len({count.json()["input_tokens"] for batch in found for count in batch}) == 1
    assert len(gaps) > 10, "the stream went on while they were counted"
    assert max(gaps) < 2, f"{max(gaps):.2f} s between two events"
    return f"{len([count for count in found[0] if seen(count) == '200'])} times 200; the stream goes on"


# ------------------------------------------------------------------------------------------------- names into headers
EVIL = ["x\r\nx-api-key: stolen", "x\nset-cookie: a=b", "x\0y", "x\u2028y\u0085z", "\x1b[31mx", "x" * 10_000, "日本/é"]


def assert_clean(answer_headers: dict[str, str], provider: OpenAIProvider) -> None:
    """No name became a header or a part of one, on either side."""
    for headers in [answer_headers, *(one.headers for one in provider.seen)]:
        assert not {"set-cookie", "x-evil"} & set(headers)
        for value in headers.values():
            assert value.isprintable()
            assert len(value) <= 1100
            assert value not in ("stolen", "a=b")
    for one in provider.seen:
        assert one.headers["authorization"] == f"Bearer {PROVIDER_KEY}"
        assert "x-api-key" not in one.headers
        assert CLIENT_KEY not in str(one.headers)


@sends(Case("a model's name with CR LF, NUL, escapes or 500 characters, served by a glob", "200 each"))
def test_model_names(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    provider.always(text("ok"))
    found = set()
    for name in (one[:500] for one in EVIL):
        for path in ("/v1/messages", CHAT):
            answer = post(gateway.base_url, payload(f"glob/{name}"), path=path)
            found.add(seen(answer))
            assert_clean(answer.headers, provider)
            assert provider.last.body["model"] == f"glob/{name}"
    return " ".join([*sorted(found), "each"])


@sends(Case("the same in a name that nobody serves", "404 `not_found_error` each"))
def test_unknown_model_names(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    found = set()
    for name in EVIL:
        answer = post(gateway.base_url, payload(name))
        found.add(seen(answer))
        assert_clean(answer.headers, provider)
        assert len(answer.body) < 2000
    assert provider.seen == []
    return " ".join([*sorted(found), "each"])


@sends(Case("the same in names of tools, ids of calls, stop sequences, user ids and dropped fields", "200 each"))
def test_other_names(gateway: Gateway, provider: OpenAIProvider, case: Case) -> str:
    found = set()
    for number, name in enumerate(EVIL):
        if "\0" in name:
            provider.strict = False
        provider.always(calls(("c" + name, "f", {})))
        fields: dict[str, Any] = {
            "tools": [{**TOOL, "name": name}, TOOL], "stop_sequences": [name], "metadata": {"user_id": name},
            f"dropped-{name}": 1, "top_k": number + 1, "messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": [{"type": "tool_use", "id": name, "name": name, "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": name, "content": "r"}]}]}
        answer = post(gateway.base_url, payload(**fields))
        found.add(seen(answer))
        assert_clean(answer.headers, provider)
        assert "top_k" in answer.headers["x-extproc-dropped"]
        with stream(gateway.base_url, fields) as streamed:
            events = streamed.read()
            assert_clean(streamed.headers, provider)
        assert blocks_of(events)[-1]["type"] == "tool_use"
    return " ".join([*sorted(found), "each"])


@pytest.mark.parametrize("header", [
    "x-extproc-team", "x-extproc-route", "x-extproc-limited-team", "x-envoy-attempt-count", "x-forwarded-for",
    "x-envoy-upstream-rq-timeout-ms", "x-envoy-retry-on", "x-envoy-max-retries", "x-envoy-original-path",
    "x-envoy-decorator-operation"])
def test_internal_headers_mean_nothing_from_outside(gateway: Gateway, provider: OpenAIProvider, header: str) -> None:
    """Among them those by which Envoy's router lets itself be told timeouts and retries."""
    provider.script(text("ok"))
    answer = post(gateway.base_url, payload(), headers={**ANTHROPIC, header: "1"})
    assert answer.status == 200, answer
    assert header not in provider.last.headers
