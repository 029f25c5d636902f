"""`backends`: URLs, keys, proxies, safety settings, and the problems and warnings about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from extproc.config import Attempt, Backend, Config, ConfigError, ModelRule, warnings_of
from extproc.config.backends import Proxy, parse_proxy
from extproc.worker.exchange_log import configured_secrets
from tests.unit.config.files import has_problem, load, problems, warnings

STUDIO = "https://generativelanguage.googleapis.com"
VERTEX = "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/l"


def gemini(url: str = f"{STUDIO}/v1beta", **changes: Any) -> dict[str, Any]:
    return {"api": "gemini", "url": url, **changes}


# --------------------------------------------------------------------------------------------------------------- URLs


@pytest.mark.parametrize(("url", "host", "port", "path", "tls", "local", "authority"), [
    ("https://openrouter.ai/api/v1/", "openrouter.ai", 443, "/api/v1", True, False, "openrouter.ai"),
    ("http://127.0.0.1:1234/v1", "127.0.0.1", 1234, "/v1", False, True, "127.0.0.1:1234"),
    ("http://LOCALHOST", "localhost", 80, "", False, True, "localhost"),
    ("https://[::1]:8443/x", "::1", 8443, "/x", True, True, "[::1]:8443"),
    ("http://10.0.0.1/", "10.0.0.1", 80, "", False, False, "10.0.0.1"),
])
def test_parts_of_a_url(url: str, host: str, port: int, path: str, tls: bool, local: bool, authority: str) -> None:
    backend = Backend(api="openai", url=url)
    assert (backend.host, backend.port, backend.base_path) == (host, port, path)
    assert (backend.is_tls, backend.is_local, backend.authority) == (tls, local, authority)


@pytest.mark.parametrize(("backend", "path", "words"), [
    ({"url": "https://"}, "backends.b.url", "no host"),
    ({"url": "https://x.example/v1?key=1"}, "backends.b.url", "query"),
    ({"url": "https://x.example:99999"}, "backends.b.url", "not a URL"),
    ({"url": "https://user:pw@x.example"}, "backends.b.url", "user name"),
    ({"url": "demo:"}, "backends.b.url", "http"),
    ({"key": ""}, "backends.b.key", "empty"),
    ({"key": "a\nb"}, "backends.b.key", "line break"),
    ({"ca": " "}, "backends.b.ca", "not the path of a file"),
    (gemini(key="k", key_file="/k"), "backends.b.key_file", "together with key"),
    (gemini(key_file=""), "backends.b.key_file", "not the path"),
    (gemini(key_file="/a\nb"), "backends.b.key_file", "not the path"),
    (gemini(key="k", auth="basic"), "backends.b.auth", '"bearer" or "key"'),
])
def test_a_mistake_is_named_at_its_path(tmp_path: Path, backend: dict[str, Any], path: str, words: str) -> None:
    found = problems(tmp_path, backend)
    assert has_problem(found, path, words), found


@pytest.mark.parametrize(("backend", "path", "words"), [
    (gemini(key_file="nowhere"), "backends.b.key_file", "nowhere cannot be read: No such file"),
    (gemini(key_file="extproc.yaml"), "backends.b.key_file", "more than one word"),
    (gemini(auth="bearer"), "backends.b.auth", "no effect"),
    ({"url": "http://far.example/v1", "key_file": "nowhere"}, "backends.b.url", "unencrypted"),
    (gemini(STUDIO), "backends.b.url", "/v1beta"),
    (gemini(f"{STUDIO}/v1beta/openai"), "backends.b.url", "api: openai"),
    (gemini(f"{STUDIO}/v1beta/models/gemini-3-pro:generateContent"), "backends.b.url", "before /models"),
    (gemini(VERTEX), "backends.b.url", "/publishers/google"),
    (gemini("https://proxy.example/v1", provider="vertex"), "backends.b.url", "/publishers/google"),
    ({"ca": "nowhere.pem"}, "backends.b.ca", "nowhere.pem cannot be read: No such file"),
    ({"ca": "extproc.yaml", "url": "http://api.example/v1"}, "backends.b.ca", "no effect without https"),
    ({"keys": ["${A}", "${A}"]}, "backends.b.keys", "more than once"),
    ({"keys": ["${A}", {"key_file": "nowhere"}]}, "backends.b.keys[1].key_file", "the others are used"),
    ({"keys": ["${A}"], "url": "http://api.example/v1"}, "backends.b.url", "unencrypted"),
    ({"proxy": "${PROXY}", "url": "http://127.0.0.1:1234/v1"}, "backends.b.proxy", "its own machine"),
])
def test_an_unsafe_or_pointless_setting_is_a_warning(tmp_path: Path, backend: dict[str, Any], path: str,
                                                     words: str) -> None:
    assert words in dict(warnings(tmp_path, backend))[path]


@pytest.mark.parametrize("url", [f"{STUDIO}/v1beta", f"{VERTEX}/publishers/google", "https://proxy.example/v1"])
def test_a_good_gemini_backend_has_no_warnings(tmp_path: Path, url: str) -> None:
    (tmp_path / "key").write_text("k")
    assert warnings(tmp_path, gemini(url, key_file="key", safety={"HARM_CATEGORY_HARASSMENT": "OFF"})) == []


def test_an_unknown_provider_is_a_warning_with_the_nearest_name() -> None:
    def warning(api: str, provider: str) -> str:
        backend = Backend(api=api, url="https://b.example/v1", provider=provider)  # type: ignore[arg-type]
        rule = ModelRule(match="m", attempts=[Attempt(backend="b", model="m")])
        return dict(warnings_of(Config(backends={"b": backend}, models=[rule]))).get("backends.b.provider", "")

    assert 'the nearest name is "deepseek"' in warning("openai", "deepsek")
    for api, provider in (("openai", "Kimi"), ("anthropic", "zai"), ("gemini", "vertex"), ("openai", "generic")):
        assert warning(api, provider) == ""


@pytest.mark.parametrize(("url", "traced"), [
    ("http://127.0.0.1:1234/v1", True), ("http://[::1]:1234/v1", True), ("http://10.1.2.3/v1", True),
    ("http://192.168.0.9/v1", True), ("http://172.31.0.1/v1", True), ("http://100.64.0.1/v1", True),
    ("http://[fd00::1]/v1", True), ("http://localhost:1234/v1", True), ("http://vllm:8000/v1", True),
    ("http://vllm.models.svc:8000/v1", True), ("http://vllm.models.svc.cluster.local/v1", True),
    ("http://llm.internal/v1", True), ("http://172.32.0.1/v1", False), ("http://8.8.8.8/v1", False),
    ("https://api.openai.com/v1", False), ("https://local.example/v1", False), ("https://internal.example/v1", False)])
def test_by_default_private_hosts_get_the_trace_context(url: str, traced: bool) -> None:
    assert Backend(api="openai", url=url).is_traced is traced
    assert Backend(api="openai", url=url, trace=not traced).is_traced is not traced


# ------------------------------------------------------------------------------------------------------- several keys


def test_keys_are_texts_or_mappings(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("from-file\n")
    backend = load(tmp_path, {"keys": ["${A}", {"key": "${B}", "weight": 3}, {"key_file": "file"}]}).backends["b"]
    assert [(entry.key, entry.weight) for entry in backend.key_entries] == [("key-a", 1), ("key-b", 3), (None, 1)]
    assert backend.key_entries[2].key_file == str(tmp_path / "file"), "relative to the configuration"
    assert backend.known_keys == ("key-a", "key-b", "from-file")
    assert backend.has_key


def test_no_key_is_shown_and_all_are_scrubbed(tmp_path: Path) -> None:
    config = load(tmp_path, {"keys": ["${A}", {"key": "${B}"}], "proxy": "${PROXY}"})
    for shown in (repr(config), repr(config.backends["b"].key_entries)):
        assert not [secret for secret in ("key-a", "key-b", "pass-word") if secret in shown]
    assert configured_secrets(config) == ["key-a", "key-b"]


@pytest.mark.parametrize(("backend", "path", "reason"), [
    ({"key": "${A}", "keys": ["${B}"]}, "backends.b.keys", "together with key or key_file"),
    ({"key_file": "/f", "keys": ["${B}"]}, "backends.b.keys", "together with key or key_file"),
    ({"keys": ["${A}", "two words"]}, "backends.b.keys[1]", "holds a space"),
    ({"keys": [""]}, "backends.b.keys[0]", "is empty"),
    ({"keys": ["${MISSING}"]}, "backends.b.keys[0]", "MISSING"),
    ({"keys": [{"weight": 2}]}, "backends.b.keys[0]", "needs one of key and key_file"),
    ({"keys": [{"key": "${A}", "key_file": "/f"}]}, "backends.b.keys[0]", "needs one of key and key_file"),
    ({"keys": [{"key": "${A}", "weight": 0}]}, "backends.b.keys[0].weight", "at least 1"),
    ({"keys": [{"key": "a b"}]}, "backends.b.keys[0].key", "holds a space"),
    ({"keys": [{"key": "${A}", "share": 1}]}, "backends.b.keys[0].share", "unknown key"),
    ({"keys": [7]}, "backends.b.keys[0]", "expected a text or a mapping"),
    ({"keys": "${A}"}, "backends.b.keys", "expected a list"),
])
def test_a_mistake_in_keys_is_the_only_problem(tmp_path: Path, backend: dict[str, Any], path: str,
                                               reason: str) -> None:
    [(place, words)] = problems(tmp_path, backend)
    assert place == path
    assert reason in words


# ------------------------------------------------------------------------------------------------------------ proxies


@pytest.mark.parametrize(("proxy", "reason"), [
    ("proxy.example:3128", "http://"), ("socks5://proxy.example:1080", "http://"), ("http://", "names no host"),
    ("http://proxy.example/path", "end after the port"), ("http://proxy.example:99999", "not a URL"),
    ("http://me:a b@proxy.example", "%XX"),
])
def test_a_mistake_in_a_proxy_is_named_without_its_password(tmp_path: Path, proxy: str, reason: str) -> None:
    [(path, words)] = problems(tmp_path, {"proxy": proxy})
    assert path == "backends.b.proxy"
    assert reason in words
    assert "a b@" not in words


@pytest.mark.parametrize(("url", "parts"), [
    ("http://proxy.example:3128", Proxy("proxy.example", 3128, False, None)),
    ("http://proxy.example", Proxy("proxy.example", 80, False, None)),
    ("https://proxy.example/", Proxy("proxy.example", 443, True, None)),
    ("http://me:p%20w%25@[::1]:3128", Proxy("::1", 3128, False, "me:p w%")),
    ("http://me@proxy.example:1", Proxy("proxy.example", 1, False, "me:")),
])
def test_parts_of_a_proxy(tmp_path: Path, url: str, parts: Proxy) -> None:
    assert parse_proxy(load(tmp_path, {"proxy": url}).backends["b"].proxy or "") == parts


@pytest.mark.parametrize(("url", "address"), [
    ("https://api.example/v1", "api.example:443"), ("http://api.example:8080", "api.example:8080"),
    ("https://[2001:db8::1]/v1", "[2001:db8::1]:443")])
def test_the_address_for_a_proxy_has_host_and_port(url: str, address: str) -> None:
    assert Backend(api="openai", url=url).address == address


# ------------------------------------------------------------------------------------------------------------- safety


@pytest.mark.parametrize(("backend", "path", "words"), [
    (gemini(safety={"HARM_CATEGORY_HARASMENT": "OFF"}), "backends.b.safety.HARM_CATEGORY_HARASMENT",
     'did you mean "HARM_CATEGORY_HARASSMENT"?'),
    (gemini(safety={"HARM_CATEGORY_HARASSMENT": "BLOCK"}), "backends.b.safety.HARM_CATEGORY_HARASSMENT",
     'no threshold "BLOCK"'),
    (gemini(safety={"HARM_CATEGORY_HARASSMENT": 1}), "backends.b.safety.HARM_CATEGORY_HARASSMENT", "expected a text"),
    (gemini(safety={"HARM_CATEGORY_UNSPECIFIED": "OFF"}), "backends.b.safety.HARM_CATEGORY_UNSPECIFIED",
     "no such category"),
    ({"safety": {"HARM_CATEGORY_HARASSMENT": "OFF"}}, "backends.b.safety", "api: gemini"),
])
def test_a_mistake_in_safety_is_named_at_its_path(tmp_path: Path, backend: dict[str, Any], path: str,
                                                  words: str) -> None:
    found = problems(tmp_path, backend)
    assert has_problem(found, path, words), found


def test_safety_of_an_attempt_is_checked_with_its_backend(tmp_path: Path) -> None:
    attempts = [{"backend": "b", "model": "x", "safety": {"HARM_CATEGORY_HARASSMENT": "OFF"}}]
    config = load(tmp_path, gemini(), attempts)
    assert config.models[0].attempts[0].safety == {"HARM_CATEGORY_HARASSMENT": "OFF"}
    with pytest.raises(ConfigError, match=r"models\[0\]\.attempts\[0\]\.safety: .*api: openai"):
        load(tmp_path, {}, attempts)


# ----------------------------------------------------------------------------------------------------------- endpoint


@pytest.mark.parametrize(("backend", "path", "words"), [
    (gemini(endpoint="responses"), "backends.b.endpoint", "api: openai"),
    ({"endpoint": "completions"}, "backends.b.endpoint", "completions"),
])
def test_a_mistake_in_endpoint_is_named_at_its_path(tmp_path: Path, backend: dict[str, Any], path: str,
                                                    words: str) -> None:
    found = problems(tmp_path, backend)
    assert has_problem(found, path, words), found


def test_the_endpoint_of_an_attempt_is_checked_with_its_backend(tmp_path: Path) -> None:
    attempts = [{"backend": "b", "model": "x", "endpoint": "responses"}]
    with pytest.raises(ConfigError, match=r"models\[0\]\.attempts\[0\]\.endpoint: .*api: gemini"):
        load(tmp_path, gemini(), attempts)
