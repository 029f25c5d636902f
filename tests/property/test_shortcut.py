"""The shortcut past `select` says what `select` says, or nothing: for every configuration, request and body."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import extproc
from extproc.bootstrap.rendering import to_json
from extproc.bootstrap.shortcut import told
from extproc.config import Attempt, Backend, Config, ModelRule, Team
from extproc.config.limits_records import TeamLimits
from extproc.errors import BadRequest
from extproc.exchange.content import ASKED, read_asked, said_in_header
from extproc.exchange.select import SelectExchange
from extproc.limits import Limits
from tests.envoy_edge import Edge, any_model, matches, passes_by_select
from tests.unit.exchange.playbook import Playbook, request_body, request_headers

NAMES = ["claude-x", "claude-", "gpt-4o", "a/b", "free/x", "x", "stream", "whole", "ab", "a-b", "aXb", "ü",
         "with blank", "claude-x[1m]", "", "n" * 200, "n" * 201, "UPPER", "a.b", "a+b=c@d,e:f_g"]
PATTERNS = [*(name for name in NAMES if name), "*", "**", "claude-*", "*-x", "a*b", "gpt-?o", "*laud*", "free/*", "?",
            "ü*", "*stream*", "*stream", "stream*", "*whole", "a.b*", "*?", "a?*b", "ab*b", "*/*",
            f"{'n' * 40}*{'n' * 40}"]


# ------------------------------------------------------------------------------------------------------------ a body


BLANK = st.sampled_from(["", " ", "\n  ", "\t", "\r\n"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.sampled_from('ab"\\/{}[]:,\n\tü€😀 '), max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=12)
KEYS = st.sampled_from(["messages", "max_tokens", "metadata", "prompt_cache_key", "", "Model", "mod\\el", "a\"b", "ü"])
PLAIN = [name for name in NAMES if name and set(name) <= set("abcdefghijklmnopqrstuvwxyzXUPER0123456789-./+=@,:_")]
STREAM = st.tuples(st.just("stream"), st.sampled_from([True, True, False, None]))
OTHERS = st.tuples(KEYS, VALUES)
ODD = st.one_of(st.tuples(st.just("model"), VALUES | st.sampled_from(NAMES)), st.tuples(st.just("stream"), VALUES))


@st.composite
def bodies(draw: st.DrawFn) -> bytes:
    """JSON objects as clients write them and as none would: any order and white space, doubled keys, escapes."""
    members = [*draw(st.lists(OTHERS, max_size=3)), *draw(st.lists(STREAM, max_size=2)),
               *[("model", name) for name in draw(st.lists(st.sampled_from(PLAIN), min_size=1, max_size=2))]]
    if draw(st.integers(0, 4)) == 4:
        members += draw(st.lists(ODD, min_size=1, max_size=2))
    members = draw(st.permutations(members))
    ascii_only = draw(st.booleans())

    def blank() -> str:
        return draw(BLANK)

    written = ",".join(f"{blank()}{json.dumps(key, ensure_ascii=ascii_only)}{blank()}:{blank()}"
                       f"{json.dumps(value, ensure_ascii=ascii_only)}{blank()}" for key, value in members)
    return f"{blank()}{{{written}{blank()}}}{blank()}".encode()


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    body = bytearray(draw(bodies()))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(body)))
        match draw(st.sampled_from(["put", "cut", "end", "change"])):
            case "put":
                body[at:at] = draw(st.sampled_from([b'"', b"\\", b"{", b"}", b"[", b"]", b",", b":", b"\x00", b"\xff",
                                                    b'"model":"x",', b"1", b" "]))
            case "cut":
                del body[at:at + draw(st.integers(1, 3))]
            case "end":
                del body[at:]
            case _:
                body[at:at + 1] = bytes([draw(st.integers(0, 255))])
    return bytes(body)


@given(bodies() | damaged())
@settings(max_examples=600, deadline=None)
def test_the_script_reads_of_a_body_what_select_reads_or_nothing(body: bytes) -> None:
    asked = any_model().asked(body)
    if asked is None:
        return
    try:
        told = said_in_header(read_asked(body, Limits()))
    except BadRequest:
        assert_refused(body)
    else:
        assert told == {ASKED: asked}


def assert_refused(body: bytes) -> None:
    """What `select` would have refused, the backend's hop refuses."""
    for client, upstream in (("anthropic", "openai"), ("openai", "openai"), ("anthropic", "anthropic"),
                             ("openai", "gemini"), ("events", "openai")):
        translation = extproc.Translation(client=client, upstream=upstream, model="m")
        with pytest.raises(extproc.RequestError) as refusal:
            translation.request(body, {})
        assert refusal.value.status == 400


# ------------------------------------------------------------------------------------------- a request, at its gateway


TEAMS = st.fixed_dictionaries({}, optional={name: st.builds(
    lambda name, models, limit: Team(key=f"key-{name}", models=models, limits=limit), st.just(name),
    st.none() | st.lists(st.sampled_from(["*", "claude-*", *PATTERNS]), min_size=1, max_size=3),
    st.sampled_from([None, None, None, TeamLimits(requests_per_minute=5)])) for name in ("red", "green", "blue")})


@st.composite
def configurations(draw: st.DrawFn) -> Config:
    def attempts() -> list[Attempt]:
        weights = draw(st.sampled_from([(None,), (None,), (None, None), (1, 2)]))
        return [Attempt(backend="ab"[number], model="*", weight=weight) for number, weight in enumerate(weights)]

    teams = draw(st.just({}) | TEAMS)
    rules = draw(st.lists(st.sampled_from(PATTERNS), max_size=3))
    return Config(
        backends={name: Backend(api="openai", url=f"https://{name}.example/v1") for name in "ab"},
        models=[ModelRule(match=match, attempts=attempts())
                for match in (*rules, draw(st.sampled_from(["*", *PATTERNS])))],
        teams=teams, open=not teams and draw(st.booleans()),
        team_limits=draw(st.sampled_from([TeamLimits()] * 5 + [TeamLimits(tokens_per_day=5)])))


@st.composite
def heads(draw: st.DrawFn) -> dict[str, str]:
    """Headers of a request: most are as usual, so that what differs does so alone."""
    def one(usual: str, *others: str) -> str:
        return draw(st.sampled_from([usual] * 20 + list(others)))

    found = {":path": one("/v1/messages", "/v1/chat/completions", "/v1/messages?beta=true", "/anthropic/v1/messages",
                          "/v1/events", "/v1/models", "/v1/messages/count_tokens", "/v1/embeddings", "/",
                          "/v1/messages/"),
             ":method": one("POST", "GET", "PUT"),
             ":authority": one("127.0.0.1:10000", "localhost", "LOCALHOST:1", "[::1]:80", "evil.example", "127.0.0.2"),
             "content-type": one("application/json", "application/json; charset=utf-8", "application/jsonx",
                                 "text/plain", "Application/JSON", ""),
             "origin": one("", "https://evil.example"), "content-encoding": one("", "gzip")}
    return {name: value for name, value in found.items() if value}


@given(configurations(), heads(), st.sampled_from(PLAIN + NAMES), st.sampled_from([{}, {"stream": True}]), st.data())
@settings(max_examples=150, deadline=None)
def test_what_passes_by_select_is_told_the_same(config: Config, headers: dict[str, str], model: str,
                                                more: dict[str, Any], data: st.DataObject) -> None:
    body = json.dumps({"model": model, **more}).encode()
    headers = {**headers, "content-length": str(len(body))}
    if config.teams:
        headers["x-extproc-team"] = data.draw(st.sampled_from(sorted(config.teams)))
    route, now = Edge(config).request(headers, body)
    if not passes_by_select(route):
        assert "x-extproc-route" not in now
        return
    play = Playbook(SelectExchange(config, request_id="id", now=1000.0))
    named = {name: value for name, value in headers.items() if name not in (":method", ":path", ":authority")}
    play >> request_headers(headers[":method"], headers[":path"], authority=headers[":authority"],
                            **{name.replace("-", "_"): value for name, value in named.items()}) >> request_body(body)
    kind, told, *_ = play.take()[0]
    assert kind == "request head", "select would have answered it"
    assert told == {name: now[name] for name in told}, "and said the same"
    assert {name for name in now if name.startswith("x-extproc-")} - set(told) <= {"x-extproc-team", "x-extproc-early"}
    rule = config.rule_by_id(told["x-extproc-route"])
    assert rule is not None
    assert route["name"] == f"shortcut-{rule.way}", "and the way is that rule's"


# ---------------------------------------------------------------------------------------------------- rules and callers


PIECES = st.sampled_from(["a", "a", "b", ".", "-", "*", "?", "+", "[", "(", "ü", " ", "|", "^"])
SHORT = st.lists(PIECES, min_size=1, max_size=5).map("".join)
ASKED_FOR = st.lists(st.sampled_from("aab.-+"), min_size=1, max_size=5).map("".join)


@given(st.lists(SHORT, min_size=1, max_size=4), st.lists(st.booleans(), min_size=4, max_size=4),
       st.dictionaries(st.sampled_from(["red", "blue"]), st.none() | st.lists(SHORT, min_size=1, max_size=2)),
       st.sampled_from([None, "red"]), st.lists(ASKED_FOR, min_size=20, max_size=20))
@settings(max_examples=500, deadline=None)
def test_what_is_told_of_a_name_is_the_rule_that_it_falls_under(
        patterns: list[str], equals: list[bool], allowed: dict[str, list[str] | None], limited: str | None,
        names: list[str]) -> None:
    one, two = ([Attempt(backend="b", model="*", weight=weight) for weight in weights] for weights in ([None], [1, 1]))
    limit = TeamLimits(requests_per_minute=5)
    config = Config(
        backends={"b": Backend(api="openai", url="https://b.example/v1")}, open=not allowed,
        models=[ModelRule(match=pattern, attempts=two if equal else one)
                for pattern, equal in zip(patterns, equals, strict=False)],
        teams={name: Team(key=name, models=models, limits=limit if name == limited else None)
               for name, models in allowed.items()})
    entries = [(entry, [to_json(header) for header in entry.headers]) for entry in told(config.models, config)]
    for name in names:
        for team in config.teams or [None]:
            values = {ASKED: f"{name} stream", "x-extproc-team": team}
            found = next((entry for entry, headers in entries if all(
                matches(header, values[header["name"]]) for header in headers)), None)
            if found is not None and found.certain:
                assert config.find_rule(name) is found.rule
                assert config.allows(team, name)
                assert team not in config.limited_teams
                assert len(found.rule.orders) == 1
