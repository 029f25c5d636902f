"""The header of a provider's key, and the filter that reads the key from a file."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from extproc.config import Attempt, Backend, Config, ModelRule
from extproc.envoy_config import RuntimeLayout, build, static_bootstrap, validate_with_envoy
from extproc.envoy_config.provider_keys import BEARER, key_header
from extproc.profiles.apis import API_FACTS

VERTEX = "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers"


@pytest.mark.parametrize(("api", "url", "header"), [
    ("openai", "https://api.openai.com/v1", "authorization: Bearer "),
    ("openai", "https://generativelanguage.googleapis.com/v1beta/openai", "authorization: Bearer "),
    ("anthropic", "https://api.anthropic.com/v1", "x-api-key: "),
    ("anthropic", "https://api.deepseek.com/anthropic/v1", "x-api-key: "),
    ("anthropic", "https://api.moonshot.ai/anthropic/v1", "authorization: Bearer "),
    ("anthropic", "https://api.z.ai/api/anthropic/v1", "authorization: Bearer "),
    ("anthropic", "https://openrouter.ai/api/v1", "authorization: Bearer "),
    ("anthropic", "https://viz.ai/v1", "x-api-key: "),
    ("anthropic", f"{VERTEX}/anthropic", "authorization: Bearer "),
    ("gemini", "https://generativelanguage.googleapis.com/v1beta", "x-goog-api-key: "),
    ("gemini", f"{VERTEX}/google", "authorization: Bearer "),
    ("gemini", "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/l/publishers/google",
     "authorization: Bearer "),
    ("gemini", "http://127.0.0.1:8080/v1/projects/p/locations/l/publishers/google", "authorization: Bearer "),
    ("gemini", "http://127.0.0.1:8080/v1beta", "x-goog-api-key: "),
])
def test_the_header_follows_api_and_url(api: Any, url: str, header: str) -> None:
    name, prefix = key_header(Backend(api=api, url=url))
    assert f"{name}: {prefix}" == header


def test_the_provider_vertex_takes_a_bearer_token_on_any_host() -> None:
    assert key_header(Backend(api="gemini", url="https://proxy.example/v1", provider="vertex")) == BEARER


@pytest.mark.parametrize("url", ["https://api.moonshot.ai/anthropic", f"{VERTEX}/google", "https://x.example/v1"])
@pytest.mark.parametrize("api", ["openai", "anthropic", "gemini"])
def test_the_setting_auth_overrides_both(api: Any, url: str) -> None:
    assert key_header(Backend(api=api, url=url, auth="bearer")) == BEARER
    assert key_header(Backend(api=api, url=url, auth="key")) == (API_FACTS[api].key_header, "")


# ------------------------------------------------------------------------------------------------------------ key files


def with_key_file(path: str) -> Config:
    return Config(backends={"b": Backend(api="openai", url="http://127.0.0.1:1/v1", key_file=path)},
                  models=[ModelRule(match="m", attempts=[Attempt(backend="b", model="x")])])


def key_filter(listeners: list[dict[str, Any]]) -> dict[str, Any]:
    inner = next(one for one in listeners if one["name"] == "in-b")
    filters = inner["filter_chains"][0]["filters"][0]["typed_config"]["http_filters"]
    assert [one["name"] for one in filters][-4:] == ["translate", "provider_key", "limits", "envoy.filters.http.router"]
    found: dict[str, Any] = filters[-3]
    return found


def test_watched_files_and_a_static_bootstrap_have_the_same_filter() -> None:
    config = with_key_file("/run/secrets/key")
    layout = RuntimeLayout.create(1)
    try:
        files = build(config, layout).files()
        watched = json.loads(files["lds.json"])["resources"]
    finally:
        layout.remove()
    assert not [name for name in files if name.startswith("sds-")], "Lua reads the key file"
    static = static_bootstrap(config, with_secrets=False, sockets=["127.0.0.1:1"])["static_resources"]
    assert "secrets" not in static
    assert key_filter(watched) == key_filter(static["listeners"])
    assert '"/run/secrets/key"' in key_filter(watched)["typed_config"]["default_source_code"]["inline_string"]


@pytest.mark.parametrize("path", ['/a"..os.exit()--', "/a\\", "/a]]", "/schlüssel", "/{path}", "/%s %d"])
def test_a_path_cannot_inject_lua(path: str) -> None:
    bootstrap = static_bootstrap(with_key_file(path), with_secrets=False, sockets=["127.0.0.1:1"])
    code = key_filter(bootstrap["static_resources"]["listeners"])["typed_config"]["default_source_code"]
    written = code["inline_string"].splitlines()[0].partition(' = "')[2].partition('", "authorization"')[0]
    assert written.isascii()
    assert '"' not in written
    read_back = re.sub(rb"\\(\d{3})", lambda found: bytes([int(found[1])]), written.encode())
    assert read_back.decode() == path
    assert validate_with_envoy(bootstrap) == []
