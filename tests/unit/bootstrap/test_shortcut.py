"""The shortcut past `select`, example by example: which requests pass, and that one oddity of a request is enough."""

from __future__ import annotations

import json

import msgspec
import pytest

from extproc.bootstrap import validate_with_envoy
from extproc.bootstrap.files import static_bootstrap
from extproc.bootstrap.shortcut import told
from extproc.config import Attempt, Backend, Config, ModelRule, Team
from extproc.limits import Limits
from tests.bench.requests import conversation
from tests.envoy_edge import ANY, Edge, any_model, passes_by_select


@pytest.mark.parametrize("body", [
    b'{"model":"a","mod\\u0065l":"b"}', b'{"mod\\u0065l":"b","model":"a"}', b'{"model":"\\u0061"}',
    b'{"model":"a","x"}',
    b'{"model":"a"}{}', b'[{"model":"a"}]', b'{"x":{"model":"a"}}', b'{"model":["a"]}', b'{"model":a}',
    b'{"model":"a","stream":"true"}', b'{"model":"a","stream":[]}', b'{"model":"a","stream":1}', b'{"model":"a b"}',
    b'{"model":""}', b'{"model":"' + b"n" * 201 + b'"}', b"\xef\xbb\xbf" + b'{"model":"a"}', b'{"model":"a"',
    b"", b" "])
def test_what_is_not_plain_is_not_read(body: bytes) -> None:
    assert any_model().asked(body) is None


def test_the_usual_body_is_read_whatever_the_order_of_its_keys() -> None:
    usual = {"max_tokens": 5, "messages": [{"role": "user", "content": 'say "{\\" \n[' * 50}], "model": "claude-x",
             "stream": True, "tools": [{"name": "f", "input_schema": {"type": "object", "properties": {}}}] * 20}
    for separators in ((",", ":"), (", ", ": ")):
        for order in (list(usual), list(reversed(usual))):
            body = json.dumps({key: usual[key] for key in order}, separators=separators).encode()
            assert any_model().asked(body) == "claude-x stream"
    assert any_model().asked(json.dumps(usual, indent=2).encode()) == "claude-x stream"
    assert any_model().asked(b'{"model":"m"}') == any_model().asked(b'{"stream":null,"model":"m"}') == "m whole"


def test_a_body_that_would_hold_up_envoy_is_for_select() -> None:
    """Envoy's thread serves everybody. A long session is no such body: 250 KB of code in calls and their results."""
    end = b'"model":"m"}'
    for tiny in (b'"a":1,', b'"a":[],'):
        assert any_model().asked(b"{" + tiny * 30 + end) == "m whole"
        assert any_model().asked(b"{" + tiny * 30_000 + end) is None
    for often in (b"[" * 50_000 + b"]" * 50_000, b'["' + b'\\"' * 100_000 + b'"]', b"[" + b'"",' * 50_000 + b"1]"):
        assert any_model().asked(b'{"a":' + often + b"," + end) is None
    session = {**conversation(250_000), "model": "m"}
    assert any_model().asked(json.dumps(session).encode()) == "m whole"


USUAL = {":path": "/v1/messages", ":method": "POST", ":authority": "127.0.0.1:10000",
         "content-type": "application/json"}
BODY = b'{"model":"claude-x"}'


@pytest.mark.parametrize(("changed", "passes"), [
    *[({":path": path}, True) for path in (
        "/v1/messages", "/v1/chat/completions", "/v1/messages?beta=true", "/v1/events", "/anthropic/v1/messages",
        "/openai/v1/chat/completions")],
    *[({":path": path}, False) for path in (
        "/", "/v1/models", "/v1/messages/count_tokens", "/v1/embeddings", "/v1/responses", "/v1/messages/",
        "/V1/messages", "/v1/messagesx", "/v1/unknown")],
    *[({":authority": host}, True) for host in ("localhost", "localhost:1", "[::1]:10000", "127.0.0.1")],
    *[({":authority": host}, False) for host in (
        "evil.example", "127.0.0.1.evil.example", "localhost.evil", "x127.0.0.1", "127a0b0c1", "")],
    *[({"content-type": kind}, True) for kind in ("application/json; charset=utf-8", "application/json ;a")],
    *[({"content-type": kind}, False) for kind in ("application/jsonx", "text/plain", "xapplication/json", "",
                                                   "application/json, text/plain")],
    *[({":method": method}, False) for method in ("GET", "PUT", "post")],
    ({"origin": "https://a.example"}, False), ({"origin": "null"}, False), ({"content-encoding": "gzip"}, False),
    *[({"content-length": length}, False) for length in ("", "0", "19", "21", "262145", "-1", "x")]])
def test_of_a_request_one_oddity_is_enough(changed: dict[str, str], passes: bool) -> None:
    headers = {**USUAL, "content-length": str(len(BODY)), **changed}
    route, _ = any_model().request({name: value for name, value in headers.items() if value}, BODY)
    assert passes_by_select(route) is passes


def test_a_request_with_trailers_or_of_a_size_that_is_not_kept_does_not_pass() -> None:
    headers = {**USUAL, "content-length": str(len(BODY))}
    assert passes_by_select(any_model().request(headers, BODY)[0])
    assert not passes_by_select(any_model().request(headers, BODY, trailers=True)[0])
    for limits in (Limits(body=len(BODY) - 1), Limits(replay=len(BODY) - 1)):
        assert not passes_by_select(Edge(msgspec.structs.replace(ANY, limits=limits)).request(headers, BODY)[0])
    large = BODY + b" " * (256 * 1024 - len(BODY))
    for body, passes in ((large, True), (large + b" ", False)):
        route, _ = any_model().request({**USUAL, "content-length": str(len(body))}, body)
        assert passes_by_select(route) is passes


def test_what_envoy_has_waited_for_goes_to_select_with_the_generation_of_its_routes() -> None:
    body = b'{"mod\\u0065l": "a"}'
    route, now = any_model().request({**USUAL, "content-length": str(len(body))}, body)
    assert (passes_by_select(route), now.get("x-extproc-generation")) == (False, "1")
    route, now = any_model().request({**USUAL, "content-length": str(len(BODY))}, BODY)
    assert (passes_by_select(route), now.get("x-extproc-generation")) == (True, None)


@pytest.mark.parametrize(("allowed", "match", "certain"), [
    ("*", "a*", True), ("a*", "a*", True), ("a*", "ab*", True), ("a*", "a?", True), ("a*", "ab", True),
    ("ab", "ab", True),
    ("a?", "ab", True), ("a?", "a?", True), ("a*b", "a*b", True), ("a?*", "a?b*", True),
    ("ab*", "a*", False), ("a*", "*", False), ("a", "a*", False), ("a?", "a*", False), ("ab", "a?", False),
    ("b*", "ab", False), ("a", "ab", False), ("a*", "?b", False), ("a*b", "a*", False)])
def test_a_team_goes_the_way_of_a_rule_whose_every_model_is_its_own(allowed: str, match: str, certain: bool) -> None:
    config = msgspec.structs.replace(ANY, models=[ModelRule(match=match, attempts=[Attempt(backend="b", model="*")])],
                                     teams={"red": Team(key="sk-red", models=[allowed])})
    found = {entry.certain for entry in told(config.models, config)}
    assert found == ({True, False} if certain else {False})


def test_without_another_word_every_request_begins_with_select() -> None:
    """Whoever may not pass is not held up, either: its path is that of before."""
    route, now = any_model().request({**USUAL, "content-length": "5", ":path": "/v1/models"}, b"12345")
    assert (route["name"], set(now) - set(USUAL)) == ("nothing", {"content-length"})



def test_a_name_falls_under_the_first_rule_that_takes_it_and_nobody_passes_by_it() -> None:
    """One for each kind of pattern, with the others behind it."""
    patterns = ["m w*", "m-1", "m-*", "*-2", "a*b", "?c", "*d*", "*"]
    one = [Attempt(backend="b", model="*")]
    config = Config(backends={"b": Backend(api="openai", url="https://b.example/v1")}, open=True,
                    models=[ModelRule(match=pattern, attempts=one) for pattern in patterns])
    edge = Edge(config)
    for name, pattern in (("m-1", "m-1"), ("m-11", "m-*"), ("m-", "m-*"), ("x-2", "*-2"), ("ab", "a*b"), ("axb", "a*b"),
                          ("xc", "?c"), ("xxc", "*"), ("xdx", "*d*"), ("stream", "*"), ("whole", "*"), ("m", "*")):
        body = json.dumps({"model": name}).encode()
        route, now = edge.request({**USUAL, "content-length": str(len(body))}, body)
        rule = config.rule_by_id(now["x-extproc-route"])
        assert rule is not None
        assert (rule.match, passes_by_select(route)) == (pattern, True)


@pytest.mark.parametrize("pattern", [
    "?" * 30, "a*" * 20, "a" * 29 + "*" + "a" * 29, "*" + "a" * 56 + "*", "*" * 90 + "?"])
def test_envoy_takes_every_pattern_that_it_is_asked_to_look_for(pattern: str) -> None:
    """The largest that become an expression, and those that are larger and do not."""
    for match in (pattern, pattern + "?" * 40):
        rule = ModelRule(match=match, attempts=[Attempt(backend="b", model="*")])
        config = msgspec.structs.replace(ANY, models=[rule])
        assert validate_with_envoy(static_bootstrap(
            config, with_secrets=False, sockets=["127.0.0.1:1"], shortcut=True)) == []
        body = json.dumps({"model": "a" * 30}).encode()
        route, _ = Edge(config).request({**USUAL, "content-length": str(len(body))}, body)
        assert passes_by_select(route) is (match == pattern and rule.matches("a" * 30))


def test_behind_the_hundredth_rule_select_says() -> None:
    rules = [ModelRule(match=f"m-{number}", attempts=[Attempt(backend="b", model="*")]) for number in range(120)]
    edge = Edge(msgspec.structs.replace(ANY, models=rules))
    for number, passes in ((0, True), (99, True), (100, False), (119, False)):
        body = json.dumps({"model": f"m-{number}"}).encode()
        assert passes_by_select(edge.request({**USUAL, "content-length": str(len(body))}, body)[0]) is passes


def test_a_team_for_which_a_rule_is_not_certain_does_not_go_by_a_later_one() -> None:
    one = [Attempt(backend="b", model="*")]
    config = msgspec.structs.replace(
        ANY, models=[ModelRule(match=match, attempts=one) for match in ("a*", "ab")],
        teams={"red": Team(key="sk-red"), "blue": Team(key="sk-blue", models=["ab"])})
    edge, body = Edge(config), b'{"model":"ab"}'
    for team, passes in (("red", True), ("blue", False)):
        route, now = edge.request({**USUAL, "content-length": str(len(body)), "x-extproc-team": team}, body)
        assert passes_by_select(route) is passes
        assert now.get("x-extproc-route") == (config.models[0].id if passes else None)
