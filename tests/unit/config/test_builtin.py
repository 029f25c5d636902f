"""The configuration without a file: the demo, providers whose key is in the environment, local servers."""

from __future__ import annotations

import pytest

from extproc import Translation
from extproc.apis import PROVIDER_APIS
from extproc.config import Backend, Config, ConfigError, load_config, warnings_of
from extproc.config.builtin import PROVIDERS
from extproc.profiles import find_provider


def provider_model(config: Config, model: str) -> tuple[str, str]:
    """The backend that serves this model, and the model's name there."""
    rule = config.find_rule(model)
    assert rule is not None
    attempt, = rule.attempts
    return attempt.backend, attempt.provider_model(rule.match, model)


def test_the_demo_is_served() -> None:
    config = load_config(None, {})
    assert next(iter(config.backends)) == "demo"
    assert config.backends["demo"].is_demo
    assert config.backends["demo"].is_local
    assert config.listed_models() == ["demo"]
    running = config.with_backend_url("demo", "http://127.0.0.1:4000/v1")
    assert running.backends["demo"].port == 4000
    assert config.backends["demo"].is_demo
    assert warnings_of(config) == []


def test_the_demo_may_run_elsewhere() -> None:
    config = load_config(None, {"EXTPROC_DEMO_URL": "http://127.0.0.1:4000/v1"})
    assert config.backends["demo"].url == "http://127.0.0.1:4000/v1"
    with pytest.raises(ConfigError, match=r"backends\.demo\.url"):
        load_config(None, {"EXTPROC_DEMO_URL": "nonsense"})


def test_each_provider_with_a_key_is_served_under_its_name() -> None:
    config = load_config(None, {"OPENROUTER_API_KEY": "sk-or", "DEEPINFRA_TOKEN": "di", "GROQ_API_KEY": " "})
    assert list(config.backends)[:3] == ["demo", "openrouter", "deepinfra"]
    assert "groq" not in config.backends
    assert provider_model(config, "openrouter/qwen/qwen3-coder") == ("openrouter", "qwen/qwen3-coder")


def test_providers_of_every_api_are_served() -> None:
    config = load_config(None, {"GEMINI_API_KEY": "g", "ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"})
    assert {backend.api for backend in config.backends.values()} == {"openai", "gemini", "anthropic"}
    assert {provider.api for provider in PROVIDERS} <= set(PROVIDER_APIS)


@pytest.mark.parametrize("env", [{"GEMINI_API_KEY": "g"}, {"GOOGLE_API_KEY": "g"},
                                 {"GEMINI_API_KEY": "g", "GOOGLE_API_KEY": "other"}])
def test_gemini_has_two_variables(env: dict[str, str]) -> None:
    config = load_config(None, env)
    assert config.backends["gemini"] == Backend(
        api="gemini", url="https://generativelanguage.googleapis.com/v1beta", key="g", provider="gemini")
    assert provider_model(config, "gemini/gemini-3-pro-preview") == ("gemini", "gemini-3-pro-preview")
    assert warnings_of(config) == []


@pytest.mark.parametrize(("name", "port"), [("lmstudio", 1234), ("ollama", 11434), ("vllm", 8000)])
def test_servers_on_this_machine_need_no_key(name: str, port: int) -> None:
    config = load_config(None, {})
    backend = config.backends[name]
    assert (backend.host, backend.port, backend.base_path, backend.has_key) == ("127.0.0.1", port, "/v1", False)
    assert find_provider(backend.provider, backend.host) is find_provider(name, None) is not None
    assert provider_model(config, f"{name}/qwen/qwen3:30b") == (name, "qwen/qwen3:30b")
    assert config.listed_models() == ["demo"], "only the server knows its models"


@pytest.mark.parametrize(("variable", "name", "path"), [
    ("FEATHERLESS_API_KEY", "featherless", "/v1/chat/completions"),
    ("KILOCODE_API_KEY", "kilo", "/api/gateway/chat/completions"),
    ("KILO_API_KEY", "kilo", "/api/gateway/chat/completions")])
def test_the_url_of_a_provider_gives_the_right_path(variable: str, name: str, path: str) -> None:
    assert name not in load_config(None, {}).backends
    config = load_config(None, {variable: "k"})
    backend = config.backends[name]
    assert backend.key == "k"
    assert find_provider(None, backend.host) is find_provider(name, None) is not None
    translation = Translation("openai", "openai", "m", provider=backend.provider, url=backend.url)
    body = b'{"model": "m", "messages": [{"role": "user", "content": "hi"}]}'
    assert translation.request(body).path == path
    assert warnings_of(config) == []
