"""envoy/envoy-gateway on a real Envoy: its policies as Envoy Gateway 1.7 renders them, with `extproc serve` behind.

Envoy Gateway's own translator cannot run here. What it makes of these fields is written out below, from its source
(internal/xds/translator: extproc.go, credentialInjector.go, route.go): the filter is disabled and the route enables it,
there is no gRPC metadata, no mutation rule and no retry of the call, keys of teams are checked before the processor,
and the provider's key is injected last.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
import yaml

from tests.e2e.gateway import PROVIDER_KEY, ROOT, configuration
from tests.e2e.hand_written import adapted, running
from tests.e2e.wire import ANTHROPIC, HELLO, Answer, payload, post
from tests.ports import free_port
from tests.providers.openai import OpenAIProvider, calls, openai_error, status, text

FOLDER = ROOT / "envoy" / "envoy-gateway"
KEY_AUTH = "envoy.filters.http.api_key_auth"
TEAM_KEY = "the-clients"
FILTER = "envoy.filters.http.ext_proc/envoyextensionpolicy/default/extproc/extproc/0"
TYPES = "type.googleapis.com/envoy."
SEND = {"FullDuplexStreamed": "FULL_DUPLEX_STREAMED"}
NOW: Any = {"name": "now", "input_schema": {"type": "object"}}


def manifest(file: str, kind: str) -> dict[str, Any]:
    found, = (one for one in yaml.safe_load_all((FOLDER / file).read_text()) if one["kind"] == kind)
    return dict(found["spec"])


def api_key_auth() -> dict[str, Any]:
    """The filter of the SecurityPolicy with one team; Envoy Gateway says the same on the listener and on the route."""
    policy = manifest("policies.yaml", "SecurityPolicy")["apiKeyAuth"]
    return {"credentials": [{"key": TEAM_KEY, "client": "red"}],
            "key_sources": [{"header": name} for source in policy["extractFrom"] for name in source["headers"]],
            "forwarding": {"header": policy["forwardClientIDHeader"], "hide_credentials": policy["sanitize"]}}


def rendered(listen: int, processor: int, provider: int) -> dict[str, Any]:
    """The shipped one-hop Envoy with the filters and the route that come from the manifests."""
    config = adapted(listen, processor, provider)
    edge = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    policy, = manifest("policies.yaml", "EnvoyExtensionPolicy")["extProc"]
    rule, = manifest("route.yaml", "HTTPRoute")["rules"]
    filters = {one["type"]: one for one in rule["filters"]}
    modes = {way: SEND[policy["processingMode"][way]["body"]] for way in ("request", "response")}
    *_, key, router = edge["http_filters"]
    auth = api_key_auth()
    edge["http_filters"] = [{"name": KEY_AUTH, "disabled": True, "typed_config": {
        "@type": TYPES + "extensions.filters.http.api_key_auth.v3.ApiKeyAuth", **auth}}, {
        "name": FILTER, "disabled": True, "typed_config": {
            "@type": TYPES + "extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "processor", "authority": "extproc.default:50051"},
                             "timeout": "10s"},
            "processing_mode": {
                **{f"{way}_{part}_mode": "SEND" for way in modes for part in ("header", "trailer")},
                **{f"{way}_body_mode": mode for way, mode in modes.items()}},
            "response_attributes": policy["processingMode"]["response"]["attributes"],
            "message_timeout": policy["messageTimeout"],
            "metadata_options": {"receiving_namespaces": {"untyped": policy["metadata"]["writableNamespaces"]}}},
    }, key, router]
    edge["early_header_mutation_extensions"][0]["typed_config"]["mutations"] = [
        {"remove": name} for name in manifest("policies.yaml", "ClientTrafficPolicy")
        ["headers"]["earlyRequestHeaders"]["remove"]]
    host = edge["route_config"]["virtual_hosts"][0]
    del host["request_headers_to_remove"]
    health, route = host["routes"]
    del health["typed_per_filter_config"]
    route["match"] = {"path_separated_prefix": rule["matches"][0]["path"]["value"]}
    route["request_headers_to_remove"] = filters["RequestHeaderModifier"]["requestHeaderModifier"]["remove"]
    del route["route"]["auto_host_rewrite"]
    route["route"]["host_rewrite_literal"] = filters["URLRewrite"]["urlRewrite"]["hostname"]
    route["typed_per_filter_config"] = {
        KEY_AUTH: {"@type": TYPES + "extensions.filters.http.api_key_auth.v3.ApiKeyAuthPerRoute", **auth},
        FILTER: {"@type": TYPES + "config.route.v3.FilterConfig", "config": {
            "@type": TYPES + "extensions.filters.http.ext_proc.v3.ExtProcPerRoute", "overrides": {}}}}
    return config


@pytest.fixture(scope="module")
def gateway(provider_server: OpenAIProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The base URL of an Envoy such as Envoy Gateway runs it."""
    folder: Path = tmp_path_factory.mktemp("envoy-gateway")
    edge, processor = free_port(), free_port()
    config = yaml.safe_load((FOLDER / "config.yaml").read_text())
    own = configuration(provider_server.url, workers=1)
    config["backends"] = {config["one_hop"]: own["backends"]["plain"]}
    config["admin"] = f"127.0.0.1:{free_port()}"
    with running(config, rendered(edge, processor, provider_server.port), folder, edge, processor) as found:
        yield found.url


def test_a_tool_cycle(gateway: str, provider: OpenAIProvider) -> None:
    """Streamed and whole, with the provider's path and key, and none of the client's."""
    provider.script(calls(("call_0", "now", "{}"), content="Wait."), text("Noon."))
    with anthropic.Anthropic(base_url=gateway, api_key=TEAM_KEY, max_retries=0, timeout=20) as sdk:
        with sdk.messages.stream(model="claude-test", max_tokens=99, messages=HELLO, tools=[NOW]) as answer:
            message = answer.get_final_message()
        used = message.content[-1]
        assert used.type == "tool_use"
        whole = sdk.messages.create(model="claude-test", max_tokens=99, tools=[NOW], messages=[
            *HELLO, {"role": "assistant", "content": message.model_dump(exclude_none=True)["content"]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": used.id, "content": "12:00"}]}])
    assert whole.content[0].type == "text"
    assert whole.content[0].text == "Noon."
    sent = provider.last
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["authorization"] == f"Bearer {PROVIDER_KEY}"
    assert sent.headers["host"] == "openrouter.ai"
    assert not [name for name in sent.headers if name.startswith(("x-extproc", "x-api-key", "anthropic-"))]


def ask(gateway: str, body: Any) -> Answer:
    return post(gateway, body, headers={**ANTHROPIC, "x-api-key": TEAM_KEY})


def test_errors_have_the_clients_shape(gateway: str, provider: OpenAIProvider) -> None:
    provider.script(status(429, openai_error("Slow down"), {"retry-after": "3"}))
    answer = ask(gateway, payload())
    assert (answer.status, answer.error()[0]) == (429, "rate_limit_error")
    assert answer.headers["retry-after"] == "3"
    assert ask(gateway, b"{").error()[0] == "invalid_request_error"


@pytest.mark.parametrize("key", ["a-wrong-key", None])
def test_a_bad_key_is_refused_in_the_clients_shape(gateway: str, provider: OpenAIProvider, key: str | None) -> None:
    """The gateway refuses it before the processor sees the request: only attributes of the response tell the path."""
    headers = {"content-type": "application/json", **({"x-api-key": key} if key else {})}
    messages = post(gateway, payload(), headers=headers)
    body = json.loads(messages.body)
    assert (messages.status, body["type"], body["error"]["type"]) == (401, "error", "authentication_error")
    assert "API key" in body["error"]["message"]
    assert messages.headers["request-id"] == body["request_id"]
    for path in ("/v1/chat/completions", "/v1/events?x=1"):
        chat = post(gateway, payload(), path, headers=headers)
        body = json.loads(chat.body)
        assert (chat.status, body["error"]["code"]) == (401, "invalid_api_key")
        assert "API key" in body["error"]["message"]
    assert provider.seen == []
    with openai.OpenAI(base_url=f"{gateway}/v1", api_key="a-wrong-key", max_retries=0) as sdk, \
            pytest.raises(openai.AuthenticationError, match="API key"):
        sdk.chat.completions.create(model="claude-test", messages=HELLO)
    with anthropic.Anthropic(base_url=gateway, api_key="a-wrong-key", max_retries=0) as sdk, \
            pytest.raises(anthropic.AuthenticationError, match="API key"):
        sdk.messages.create(model="claude-test", max_tokens=9, messages=HELLO)
