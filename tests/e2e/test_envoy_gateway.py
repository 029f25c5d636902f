"""envoy/envoy-gateway on a real Envoy, with `extproc serve` behind it.

The connection manager, its filters in their order, and the route are what Envoy Gateway 1.7.0 itself makes of the
shipped manifests: envoy_gateway_1.7.json, the output of `egctl experimental translate --from gateway-api --to xds`
(built from the Go module github.com/envoyproxy/gateway). Only names of clusters and the place of the provider's key
differ here. A test compares the record with the manifests. Changed by hand since the recording: the removal of the
header `x-extproc-asked`, which the gateway no longer has, was taken out.
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
from tests.e2e.hand_written import BACKEND, adapted, running
from tests.e2e.wire import ANTHROPIC, HELLO, Answer, payload, post
from tests.ports import free_port
from tests.providers.openai import OpenAIProvider, calls, openai_error, status, text

FOLDER = ROOT / "envoy" / "envoy-gateway"
RECORDED = Path(__file__).with_name("envoy_gateway_1.7.json")
KEY_AUTH, EXT_PROC, INJECTOR = (f"envoy.filters.http.{name}" for name in (
    "api_key_auth", "ext_proc", "credential_injector"))
TEAM_KEY = "the-clients"
NOW: Any = {"name": "now", "input_schema": {"type": "object"}}


def manifest(file: str, kind: str) -> dict[str, Any]:
    found, = (one for one in yaml.safe_load_all((FOLDER / file).read_text()) if one["kind"] == kind)
    return dict(found["spec"])


def recorded() -> tuple[dict[str, Any], dict[str, Any]]:
    """The connection manager and the route, as Envoy Gateway writes them."""
    found = json.loads(RECORDED.read_text())
    return found["connectionManager"], found["route"]


def filter_of(manager: dict[str, Any], name: str) -> dict[str, Any]:
    found, = (one for one in manager["httpFilters"] if one["name"].partition("/")[0] == name)
    return dict(found["typedConfig"])


def rendered(listen: int, processor: int, provider: int) -> dict[str, Any]:
    """The shipped one-hop Envoy with the recorded connection manager and route."""
    config = adapted(listen, processor, provider)
    edge = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]
    key, = (one for one in edge["typed_config"]["http_filters"] if "credential" in one["typed_config"])
    manager, route = recorded()
    filter_of(manager, EXT_PROC)["grpcService"]["envoyGrpc"]["clusterName"] = "processor"
    filter_of(manager, INJECTOR)["credential"]["typedConfig"]["credential"] = \
        key["typed_config"]["credential"]["typed_config"]["credential"]
    route["route"]["cluster"] = BACKEND
    health = {"match": {"path": "/healthz"}, "directResponse": {"status": 200}}
    manager["routeConfig"] = {"virtualHosts": [{"name": "llm", "domains": ["*"], "routes": [health, route]}]}
    edge["typed_config"] = manager
    return config


def test_the_record_is_that_of_the_shipped_manifests() -> None:
    """When this fails: translate the manifests again."""
    manager, route = recorded()
    names = [one["name"].partition("/")[0] for one in manager["httpFilters"]]
    assert names == [KEY_AUTH, EXT_PROC, INJECTOR, "envoy.filters.http.router"], "keys are checked before the processor"
    policy, = manifest("policies.yaml", "EnvoyExtensionPolicy")["extProc"]
    processor = filter_of(manager, EXT_PROC)
    assert processor["responseAttributes"] == policy["processingMode"]["response"]["attributes"]
    assert processor["messageTimeout"] == policy["messageTimeout"]
    assert processor["metadataOptions"]["receivingNamespaces"]["untyped"] == policy["metadata"]["writableNamespaces"]
    auth = manifest("policies.yaml", "SecurityPolicy")["apiKeyAuth"]
    keys = filter_of(manager, KEY_AUTH)
    assert [one["header"] for one in keys["keySources"]] == [
        name for source in auth["extractFrom"] for name in source["headers"]]
    assert keys["forwarding"] == {"header": auth["forwardClientIDHeader"], "hideCredentials": auth["sanitize"]}
    removed = manifest("policies.yaml", "ClientTrafficPolicy")["headers"]["earlyRequestHeaders"]["remove"]
    assert manager["earlyHeaderMutationExtensions"][0]["typedConfig"]["mutations"] == [
        {"remove": name} for name in removed]
    rule, = manifest("route.yaml", "HTTPRoute")["rules"]
    filters = {one["type"]: one for one in rule["filters"]}
    assert route["requestHeadersToRemove"] == filters["RequestHeaderModifier"]["requestHeaderModifier"]["remove"]
    assert route["route"]["hostRewriteLiteral"] == filters["URLRewrite"]["urlRewrite"]["hostname"]
    assert route["match"] == {"pathSeparatedPrefix": rule["matches"][0]["path"]["value"]}


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
