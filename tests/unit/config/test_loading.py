"""A configuration file in, records or all problems out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extproc import Translation
from extproc.config import Config, ConfigError, load_config, warnings_of
from extproc.profiles import find_provider

GOOD = """
backends:
  router: {api: openai, url: "https://openrouter.ai/api/v1", key: "${KEY}"}
  local: {api: openai, url: "http://127.0.0.1:1234/v1", provider: lmstudio}
models:
  - match: "claude-*"
    list: [claude-sonnet-4-5]
    attempts:
      - {backend: router, model: qwen/qwen3-coder, max_output_tokens: 65536}
      - {backend: local, model: other}
  - match: "local/*"
    attempts: [{backend: local, model: "*", tools: {style: off, max: 20}}]
teams:
  red: {key: "${RED}", models: ["claude-*"], limits: {requests_per_minute: 600}}
"""
ENV = {"KEY": "sk-provider", "RED": "team-red"}


def load(tmp_path: Path, text: str, env: dict[str, str] | None = None) -> Config:
    file = tmp_path / "extproc.yaml"
    file.write_text(text, encoding="utf-8")
    return load_config(file, ENV if env is None else env)


def problems(tmp_path: Path, text: str, env: dict[str, str] | None = None) -> dict[str, str]:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, env)
    return dict(caught.value.problems)


def minimal(backend: str = 'api: openai, url: "http://127.0.0.1:1/v1"', rest: str = "", attempt: str = "") -> str:
    return (f"backends: {{b: {{{backend}}}}}\n"
            f"models: [{{match: m, attempts: [{{backend: b, model: x{attempt}}}]}}]\n{rest}")


def test_a_good_file_becomes_records_with_defaults(tmp_path: Path) -> None:
    config = load(tmp_path, GOOD)
    assert config.listen == "127.0.0.1:10000"
    assert config.workers == "auto"
    assert config.backends["router"].key == "sk-provider"
    assert [attempt.backend for attempt in config.models[0].attempts] == ["router", "local"]
    assert config.models[0].attempts[0].max_output_tokens == 65536
    assert config.teams["red"].keys == ["team-red"]
    assert config.teams["red"].limits is not None
    assert config.timeouts.idle == 240
    assert warnings_of(config) == []


def test_json_is_read_as_well(tmp_path: Path) -> None:
    config = load(tmp_path, '{"backends": {"b": {"api": "openai", "url": "https://x.example"}},'
                            ' "models": [{"match": "m", "attempts": [{"backend": "b", "model": "x"}]}]}')
    assert config.models[0].match == "m"


def test_off_is_a_text_as_the_tool_style_needs_it(tmp_path: Path) -> None:
    """YAML 1.1 reads `off` as false."""
    assert load(tmp_path, GOOD).models[1].attempts[0].tools.style == "off"


def test_every_problem_is_named_at_its_path_in_one_go(tmp_path: Path) -> None:
    found = problems(tmp_path, """
listen: 127.0.0.1
wrokers: 3
backends:
  router: {api: openapi, url: "https://user:pw@openrouter.ai/v1", key: "${NOPE}"}
  local: {api: openai, url: "ftp://127.0.0.1/v1"}
models:
  - match: "claude-*"
    list: [gpt-5]
    attempts:
      - {backend: nowhere, model: x, max_output_tokens: "7"}
      - {backend: local}
  - {match: 5, attempts: []}
timeouts: {idle: -1}
""")
    assert found["listen"] == '"127.0.0.1" is not HOST:PORT'
    assert found["wrokers"] == 'unknown key, did you mean "workers"?'
    assert "openapi" in found["backends.router.api"]
    assert "user name" in found["backends.router.url"]
    assert found["backends.router.key"] == "the environment variable NOPE is not set"
    assert "http" in found["backends.local.url"]
    assert found["models[0].list[0]"] == '"gpt-5" does not match "claude-*"'
    assert found["models[0].attempts[0].backend"] == 'no backend "nowhere"; known: local, router'
    assert found["models[0].attempts[0].max_output_tokens"] == 'expected a whole number, got "7"'
    assert found["models[0].attempts[1].model"] == "is missing"
    assert found["models[1].match"] == "expected a text, got the number 5"
    assert "empty" in found["models[1].attempts"]
    assert found["timeouts.idle"] == "must be above 0"
    assert len(found) == 13


@pytest.mark.parametrize(("text", "path", "words"), [
    ("", "file", "expected a mapping"),
    ("- a\n- b", "file", "expected a mapping"),
    ("backends: {a: [", "line 1, column 16", "not valid YAML"),
    ("a: \t@", "line 1, column 4", "not valid YAML"),
    ("a: &x [*x]", "a[0]", "refers to itself"),
    ("backends: !!python/object:os.system {}", "line 1, column 11", "not valid YAML"),
    (minimal() + "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n", "listen", "twice (lines 3 and 4)"),
    ("backends: {}\nmodels: []", "backends", "empty"),
    ("backends: {}\nmodels: []", "models", "empty"),
    ("backends:\nmodels: []", "backends", "expected a mapping, got nothing"),
    (minimal('api: openai, url: "https://"'), "backends.b.url", "no host"),
    (minimal('api: openai, url: "https://x.example/v1?key=1"'), "backends.b.url", "query"),
    (minimal('api: openai, url: "https://x.example:99999"'), "backends.b.url", "not a URL"),
    (minimal('api: openai, url: "demo:"'), "backends.b.url", "http"),
    (minimal('api: openai, url: "https://x.example", key: ""'), "backends.b.key", "empty"),
    (minimal('api: openai, url: "https://x.example", key: "a\\nb"'), "backends.b.key", "line break"),
    ('backends: {"a b": {api: openai, url: "https://x.example"}}\nmodels: []', "backends.a b", "letters"),
    ('backends: {1: {api: openai, url: "https://x.example"}}\nmodels: []', "backends.1", "quotes"),
    (minimal(rest="workers: 0"), "workers", "at least 1"),
    (minimal(rest="workers: many"), "workers", 'expected "auto" or a whole number, got "many"'),
    (minimal(rest="workers: true"), "workers", "got true"),
    (minimal(rest="lossy: maybe"), "lossy", '"reject" or "report"'),
    (minimal(rest="timeouts: {connect: .nan}"), "timeouts.connect", "above 0"),
    (minimal(rest="timeouts: {idle: 300}"), "timeouts.idle", "shorter than timeouts.per_try_idle"),
    (minimal(rest="limits: {body: 1.5}"), "limits.body", "whole number"),
    (minimal(rest="listen: 0.0.0.0:10000"), "listen", "open: true"),
    (minimal(rest="listen: '::1:80'"), "listen", "brackets"),
    (minimal(rest="listen: 127.0.0.1:70000"), "listen", "65535"),
    (minimal(rest="listen: 127.0.0.1:9902"), "admin", "same address"),
    (minimal(rest="teams: {a: {key: k1}, b: {key: [k2, k1]}}"), "teams.b.key[1]", "same key as teams.a.key"),
    (minimal(rest="teams: {a: {key: []}}"), "teams.a.key", "needs a key"),
    (minimal(rest="teams: {a: {key: [x, 1]}}"), "teams.a.key[1]", "expected a text"),
    (minimal(rest="cors: [app.example]"), "cors[0]", "origin"),
    (minimal(attempt=", tools: {max: 0}"), "models[0].attempts[0].tools.max", "above 0"),
    (minimal(attempt=", tools: {choice: always}"), "models[0].attempts[0].tools.choice", '"auto"'),
    (minimal(rest="tools: {max: 0}"), "tools.max", "above 0"),
    (minimal(rest="tools: {style: hermse}"), "tools.style", 'no style "hermse"'),
    (minimal(backend='api: openai, url: "http://127.0.0.1:1/v1", tools: {read: [hermse]}'), "backends.b.tools.read[0]",
     'no dialect "hermse"'),
    (minimal(rest='tools: {only: [read, ""]}'), "tools.only[1]", "is empty"),
    (minimal(rest="tools: {only: read}"), "tools.only", "expected a list of texts"),
    (minimal(rest="tools: {stile: off}"), "tools.stile", 'did you mean "style"?'),
    (minimal().replace("model: x", "model: 'a*'"), "models[0].attempts[0].model", "alone"),
    (minimal().replace("model: x", "model: '{star}'"), "models[0].attempts[0].model", "needs a match with a *"),
    (minimal().replace("match: m", "match: ''"), "models[0].match", "empty"),
    (minimal(rest="x: '${'"), "x", "names no environment variable"),
    (minimal(rest="x: '${A-B}'"), "x", "names no environment variable"),
])
def test_a_mistake_is_named_where_it_is(tmp_path: Path, text: str, path: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert any(where == path and words in reason for where, reason in caught.value.problems), caught.value.problems


def test_a_file_that_is_not_there_or_not_text(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load_config(tmp_path / "none.yaml", {})
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="UTF-8"):
        load_config(tmp_path / "binary", {})


# -------------------------------------------------------------------------------------------------------- variables


def test_variables_are_replaced_after_parsing_so_they_cannot_change_the_structure(tmp_path: Path) -> None:
    config = load(tmp_path, minimal('api: openai, url: "https://${HOST}/${PATH_}/v1", key: "$${A}${K}"'),
                  {"HOST": "x.example", "PATH_": "a", "K": "'}#:${B}"})
    assert config.backends["b"].url == "https://x.example/a/v1"
    assert config.backends["b"].key == "${A}'}#:${B}"


def test_a_variable_may_stand_for_a_number_or_a_boolean(tmp_path: Path) -> None:
    config = load(tmp_path, minimal(rest="workers: '${N}'\nopen: '${O}'\ntimeouts: {ping: '${P}'}"),
                  {"N": "3", "O": "true", "P": "2.5"})
    assert (config.workers, config.open, config.timeouts.ping) == (3, True, 2.5)


def test_a_wrong_value_of_the_environment_is_not_printed(tmp_path: Path) -> None:
    found = problems(tmp_path, minimal(rest="limits: {body: '${SECRET}'}"), {"SECRET": "hunter2"})
    assert found["limits.body"] == "expected a whole number, got a text from the environment"


# ---------------------------------------------------------------------------------------------------------- warnings


def test_unsafe_and_pointless_settings_are_warnings(tmp_path: Path) -> None:
    config = load(tmp_path, """
listen: 0.0.0.0:10000
admin: 0.0.0.0:9902
open: true
backends:
  plain: {api: openai, url: "http://provider.example/v1", key: sk-literal}
  later: {api: gemini, url: "https://provider.example"}
models:
  - {match: "a*", attempts: [{backend: plain, model: x}]}
  - {match: "ab*", attempts: [{backend: plain, model: x}]}
  - {match: "*b", list: [ab], attempts: [{backend: plain, model: x}]}
""")
    found = dict(warnings_of(config))
    assert "${VARIABLE}" in found["backends.plain.key"]
    assert "unencrypted" in found["backends.plain.url"]
    assert "lacks the version" in found["backends.later.url"]
    assert found["backends.later"] == "no model uses it"
    assert found["models[1].match"] == 'never reached: models[0] ("a*") matches first'
    assert "served by models[0]" in found["models[2].list[0]"]
    assert set(found) == {"backends.plain.key", "backends.plain.url", "backends.later.url", "backends.later",
                          "models[1].match", "models[2].list[0]", "open", "admin"}


def test_a_literal_team_key_and_a_pattern_for_nothing_are_warnings(tmp_path: Path) -> None:
    config = load(tmp_path, minimal(rest="teams: {t: {key: [lit, '${RED}'], models: [nothing]}}"))
    assert dict(warnings_of(config)) == {
        "teams.t.key[0]": "the key is written in the file; ${VARIABLE} keeps it out",
        "teams.t.models[0]": '"nothing" fits no model rule'}


def test_a_style_that_nothing_writes_is_a_warning(tmp_path: Path) -> None:
    found = {style: dict(warnings_of(load(tmp_path, minimal(attempt=f", tools: {{style: {style}}}"))))
        for style in ("gemma-4", "hermes", "prompted", "native")}
    told = found.pop("gemma-4")["models[0].attempts[0].tools.style"]
    assert "offered natively" in told
    assert "read: [gemma-4]" in told
    assert not any(found.values())
    assert "no tool at all" in dict(warnings_of(load(tmp_path, minimal(rest="tools: {only: []}"))))["tools.only"]
    for rest, path in (("tools: {style: gemma-4}", "tools.style"),
                       ("", "backends.b.tools.style")):
        backend = 'api: openai, url: "http://127.0.0.1:1/v1"' + ("" if rest else ", tools: {style: gemma-4}")
        assert "offered natively" in dict(warnings_of(load(tmp_path, minimal(backend, rest))))[path]


# ------------------------------------------------------------------------------------------------------ without a file


def test_without_a_file_the_demo_is_served() -> None:
    config = load_config(None, {})
    assert next(iter(config.backends)) == "demo"
    assert config.backends["demo"].is_demo
    assert config.backends["demo"].is_local
    assert config.listed_models() == ["demo"]
    running = config.with_backend_url("demo", "http://127.0.0.1:4000/v1")
    assert running.backends["demo"].port == 4000
    assert config.backends["demo"].is_demo
    assert warnings_of(config) == []


def test_without_a_file_the_demo_may_run_elsewhere() -> None:
    config = load_config(None, {"EXTPROC_DEMO_URL": "http://127.0.0.1:4000/v1"})
    assert config.backends["demo"].url == "http://127.0.0.1:4000/v1"
    with pytest.raises(ConfigError, match=r"backends\.demo\.url"):
        load_config(None, {"EXTPROC_DEMO_URL": "nonsense"})


def test_without_a_file_each_provider_with_a_key_is_served_under_its_name() -> None:
    config = load_config(None, {"OPENROUTER_API_KEY": "sk-or", "DEEPINFRA_TOKEN": "di", "GROQ_API_KEY": " "})
    assert list(config.backends)[:3] == ["demo", "openrouter", "deepinfra"]
    assert "groq" not in config.backends
    rule = config.find_rule("openrouter/qwen/qwen3-coder")
    assert rule is not None
    assert rule.attempts[0].backend == "openrouter"
    assert rule.attempts[0].provider_model(rule.match, "openrouter/qwen/qwen3-coder") == "qwen/qwen3-coder"


@pytest.mark.parametrize(("name", "port"), [("lmstudio", 1234), ("ollama", 11434), ("vllm", 8000)])
def test_without_a_file_servers_on_this_machine_are_served_without_a_key(name: str, port: int) -> None:
    config = load_config(None, {})
    backend = config.backends[name]
    assert (backend.host, backend.port, backend.base_path, backend.has_key) == ("127.0.0.1", port, "/v1", False)
    assert find_provider(backend.provider, backend.host) is find_provider(name, None) is not None
    rule = config.find_rule(f"{name}/qwen/qwen3:30b")
    assert rule is not None
    assert rule.attempts[0].provider_model(rule.match, f"{name}/qwen/qwen3:30b") == "qwen/qwen3:30b"
    assert config.listed_models() == ["demo"], "which models one has, only the server knows"


@pytest.mark.parametrize(("variable", "name", "path"), [
    ("FEATHERLESS_API_KEY", "featherless", "/v1/chat/completions"),
    ("KILOCODE_API_KEY", "kilo", "/api/gateway/chat/completions"),
    ("KILO_API_KEY", "kilo", "/api/gateway/chat/completions")])
def test_without_a_file_featherless_and_kilo_are_served_when_their_key_is_set(variable: str, name: str,
                                                                              path: str) -> None:
    assert name not in load_config(None, {}).backends
    config = load_config(None, {variable: "k"})
    backend = config.backends[name]
    assert backend.key == "k"
    assert find_provider(None, backend.host) is find_provider(name, None) is not None
    talk = Translation("openai", "openai", "m", provider=backend.provider, url=backend.url)
    assert talk.request(b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}').path == path
    assert warnings_of(config) == []


def test_without_a_file_providers_of_every_api_are_served() -> None:
    config = load_config(None, {"GEMINI_API_KEY": "g", "ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"})
    assert {backend.api for backend in config.backends.values()} == {"openai", "gemini", "anthropic"}


PLAIN = """\
backends: {b: {api: openai, url: "http://127.0.0.1:9/v1", key: "secret-key"}}
models: [{match: "claude-*", attempts: [{backend: b, model: "m"}]}]
teams: {red: {key: "team-key"}}
tracing: {otlp: "http://127.0.0.1:4318"}
"""


def loaded(text: str, tmp_path: Path, env: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """What is wrong with this file."""
    path = tmp_path / "extproc.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        load_config(path, env or {})
    except ConfigError as error:
        return error.problems
    return []


@pytest.mark.parametrize("char", ["\0", "\a", "\x1b", "\x7f", "\x9b", "\ufffe"])
def test_a_control_character_is_found_where_it_stands(char: str, tmp_path: Path) -> None:
    """Also in a comment: YAML allows it nowhere."""
    [(place, reason)] = loaded(PLAIN.replace("claude", f"cla{char}ude") + f"# {char}", tmp_path)
    assert place == "line 2, column 22"
    assert f"U+{ord(char):04X}" in reason


def test_a_control_character_that_is_written_as_an_escape(tmp_path: Path) -> None:
    """YAML allows it; no name, key or address has one. What is told of it is harmless on a terminal."""
    for before in ("secret-key", "claude-*", '"m"', "team-key", "127.0.0.1:4318", "9/v1"):
        problems = loaded(PLAIN.replace(before, before[:-1] + "\\a" + before[-1]), tmp_path)
        assert problems, before
        assert all((path + reason).isprintable() for path, reason in problems)


def test_what_is_no_text(tmp_path: Path) -> None:
    half = ("models[0].match", "holds bytes or half a character that are no text")
    assert half in loaded(PLAIN.replace("claude-*", "\\ud800"), tmp_path)
    assert half in loaded(PLAIN.replace("claude-*", "${NAME}"), tmp_path, {"NAME": "\udcff"})
    assert loaded(PLAIN.replace("{b:", '{b: {}, "\\udfff":'), tmp_path)


@given(at=st.integers(0, len(PLAIN)), char=st.characters())
def test_any_character_anywhere_is_taken_or_refused(at: int, char: str,
                                                    tmp_path_factory: pytest.TempPathFactory) -> None:
    if not "\ud800" <= char <= "\udfff":  # no file holds half a character
        loaded(PLAIN[:at] + char + PLAIN[at:], tmp_path_factory.getbasetemp())
