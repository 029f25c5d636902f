"""Questions that the rest of the program asks the configuration."""

from __future__ import annotations

import hashlib
import re

import pytest

from extproc.config import Attempt, Backend, Config, ModelRule, Team, parse_address


def rule(match: str, *listed: str, model: str = "x") -> ModelRule:
    return ModelRule(match=match, attempts=[Attempt(backend="b", model=model)], list=list(listed))


def config(*rules: ModelRule, teams: dict[str, Team] | None = None) -> Config:
    return Config(backends={"b": Backend(api="openai", url="https://x.example/v1", key="sk-b")}, models=list(rules),
                  teams=teams or {})


def test_the_first_rule_that_matches_wins_and_case_matters() -> None:
    exact, glob = rule("claude-opus"), rule("claude-*")
    served = config(exact, glob)
    assert served.find_rule("claude-opus") is exact
    assert served.find_rule("claude-opus-4") is glob
    assert served.find_rule("Claude-opus") is None
    assert served.find_rule("") is None


def test_any_number_of_names_is_found_and_few_are_remembered() -> None:
    served = config(rule("claude-*"), rule("*"))
    for _ in range(2):
        for number in range(3000):
            assert served.find_rule(f"claude-{number}") is served.models[0]
            assert served.find_rule(f"x{number}") is served.models[1]
    assert served.find_rule.cache_info().currsize <= 1024  # type: ignore[attr-defined]
    before = served.find_rule.cache_info().currsize  # type: ignore[attr-defined]
    assert served.find_rule(f"x{'y' * 201}") is served.models[1]
    assert served.find_rule.cache_info().currsize == before  # type: ignore[attr-defined]


def test_a_rule_is_found_by_its_id() -> None:
    served = config(rule("a"), rule("b*"))
    assert all(served.rule_by_id(one.id) is one for one in served.models)
    assert served.rule_by_id("gone-00000000") is None


@pytest.mark.parametrize("match", ["claude-*", "*", "Ünï/ code\n", "x" * 300])
def test_a_rule_id_fits_a_header_and_follows_the_content(match: str) -> None:
    assert re.fullmatch(r"[a-z0-9-]{1,60}-[0-9a-f]{8}\.[0-9a-f]{8}", rule(match).id)
    assert rule(match).id == rule(match).id
    assert rule(match).id != rule(match, model="y").id


def test_a_rule_id_stays_when_a_version_brings_new_keys() -> None:
    """Envoy's bootstrap and the processor may be of two versions during an upgrade."""
    assert rule("m").id == ModelRule(
        match="m", attempts=[Attempt(backend="b", model="x", safety={}, max_output_tokens=None)]).id
    way = "m-" + digest(b'["m",[["b",null]]]')
    assert rule("m").id == f"{way}." + digest(b'{"match":"m","attempts":[{"backend":"b","model":"x"}]}')


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:8]


@pytest.mark.parametrize(("changed", "way", "content"), [
    (ModelRule(match="m", attempts=[Attempt(backend="b", model="y")]), False, True),
    (ModelRule(match="m", attempts=[Attempt(backend="b", model="x", max_output_tokens=5)]), False, True),
    (ModelRule(match="m", attempts=[Attempt(backend="b", model="x")], list=["m"]), False, False),
    (ModelRule(match="m*", attempts=[Attempt(backend="b", model="x")]), True, True),
    (ModelRule(match="m", attempts=[Attempt(backend="c", model="x")]), True, True),
    (ModelRule(match="m", attempts=[Attempt(backend="b", model="x", weight=2)]), True, True)])
def test_the_way_is_what_envoy_must_know_and_the_id_what_a_request_is_served_by(
        changed: ModelRule, way: bool, content: bool) -> None:
    assert (changed.route_key != rule("m").route_key, changed.id != rule("m").id) == (way, content)
    assert changed.id.startswith(f"{changed.route_key}.")


def test_names_of_nobody_suggest_the_nearest() -> None:
    served = config(rule("claude-*", "claude-sonnet-4-5", "claude-opus-4-1"), rule("GPT-5"))
    assert served.similar_models("claude-sonet-45")[0] == "claude-sonnet-4-5"
    assert served.similar_models("gpt5")[0] == "GPT-5"
    assert served.similar_models("zzz") == ["claude-sonnet-4-5", "claude-opus-4-1", "GPT-5"]
    assert len(config(*(rule(f"model-{n}") for n in range(9))).similar_models("model-")) == 5


def test_listed_models_have_no_duplicates_and_no_globs() -> None:
    served = config(rule("a"), rule("b*", "b1", "b2"), rule("c?", "b1"), rule("*"))
    assert served.listed_models() == ["a", "b1", "b2"]


def test_a_team_sees_and_uses_its_own_models_only() -> None:
    served = config(rule("claude-*", "claude-a"), rule("gpt"),
                    teams={"red": Team(key="r", models=["claude-*"]), "all": Team(key="a")})
    assert served.listed_models("red") == ["claude-a"]
    assert served.listed_models("all") == ["claude-a", "gpt"]
    assert served.allows("red", "claude-zzz")
    assert not served.allows("red", "gpt")
    assert served.similar_models("gpt", "red") == ["claude-a"]
    assert not served.allows(None, "gpt")
    assert not served.allows("unknown", "gpt")


def test_without_teams_everybody_may() -> None:
    assert config(rule("a")).allows(None, "a")


@pytest.mark.parametrize(("model", "match", "asked", "sent"), [
    ("qwen3", "claude-*", "claude-opus", "qwen3"),
    ("*", "local/*", "local/qwen", "local/qwen"),
    ("{star}", "openrouter/*", "openrouter/qwen/qwen3", "qwen/qwen3"),
    ("models/{star}-latest", "g-*", "g-pro", "models/pro-latest"),
])
def test_the_name_for_the_provider(model: str, match: str, asked: str, sent: str) -> None:
    assert Attempt(backend="b", model=model).provider_model(match, asked) == sent


@pytest.mark.parametrize(("url", "host", "port", "path", "tls", "local", "authority"), [
    ("https://openrouter.ai/api/v1/", "openrouter.ai", 443, "/api/v1", True, False, "openrouter.ai"),
    ("http://127.0.0.1:1234/v1", "127.0.0.1", 1234, "/v1", False, True, "127.0.0.1:1234"),
    ("http://LOCALHOST", "localhost", 80, "", False, True, "localhost"),
    ("https://[::1]:8443/x", "::1", 8443, "/x", True, True, "[::1]:8443"),
    ("http://10.0.0.1/", "10.0.0.1", 80, "", False, False, "10.0.0.1"),
])
def test_the_parts_of_a_backends_url(url: str, host: str, port: int, path: str, tls: bool, local: bool,
                                     authority: str) -> None:
    backend = Backend(api="openai", url=url)
    assert (backend.host, backend.port, backend.base_path) == (host, port, path)
    assert (backend.is_tls, backend.is_local, backend.authority) == (tls, local, authority)


def test_keys_are_known_for_scrubbing_and_never_shown() -> None:
    served = Config(backends={"a": Backend(api="openai", url="https://a.example", key="short"),
                              "b": Backend(api="openai", url="https://b.example", key="much-longer"),
                              "c": Backend(api="openai", url="https://c.example")},
                    models=[], teams={"t": Team(key=["team-key-1", "team-key-2"])})
    assert list(served.secrets()) == ["much-longer", "short"]
    for key in ("much-longer", "short", "team-key-1", "team-key-2"):
        assert key not in repr(served)


@pytest.mark.parametrize(("text", "address"), [
    ("127.0.0.1:80", ("127.0.0.1", 80)), ("[::1]:0", ("::1", 0)), ("localhost:10000", ("localhost", 10000))])
def test_an_address(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", ":80", "host", "host:", "host:x", "host:65536", "::1:80", "host:-1", "host:²"])
def test_not_an_address(text: str) -> None:
    with pytest.raises(ValueError, match=r"HOST:PORT|port|brackets"):
        parse_address(text)
