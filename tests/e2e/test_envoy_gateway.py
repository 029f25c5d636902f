"""envoy/envoy-gateway on a real Envoy: its policies as Envoy Gateway 1.7 renders them, with `extproc serve` behind.

Envoy Gateway's own translator cannot run here. What it makes of these fields is written out below, from its source
(internal/xds/translator: extproc.go, credentialInjector.go, route.go): the filter is disabled and the route enables it,
there is no gRPC metadata, no mutation rule and no retry of the call, and the key is injected last.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anthropic
import pytest
import yaml

from tests.e2e.gateway import PROVIDER_KEY, ROOT, configuration
from tests.e2e.hand_written import adapted, running
from tests.e2e.wire import HELLO, payload, post
from tests.ports import free_port
from tests.providers.openai import OpenAIProvider, calls, openai_error, status, text

FOLDER = ROOT / "envoy" / "envoy-gateway"
FILTER = "envoy.filters.http.ext_proc/envoyextensionpolicy/default/extproc/extproc/0"
TYPES = "type.googleapis.com/envoy."
SEND = {"FullDuplexStreamed": "FULL_DUPLEX_STREAMED"}
NOW: Any = {"name": "now", "input_schema": {"type": "object"}}


def manifest(file: str, kind: str) -> dict[str, Any]:
    found, = (one for one in yaml.safe_load_all((FOLDER / file).read_text()) if one["kind"] == kind)
    return dict(found["spec"])


def rendered(listen: int, processor: int, provider: int) -> dict[str, Any]:
    """The shipped one-hop Envoy with the filters and the route that come from the manifests."""
    config = adapted(listen, processor, provider)
    edge = config["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"]
    policy, = manifest("policies.yaml", "EnvoyExtensionPolicy")["extProc"]
    rule, = manifest("route.yaml", "HTTPRoute")["rules"]
    filters = {one["type"]: one for one in rule["filters"]}
    modes = {way: SEND[policy["processingMode"][way]["body"]] for way in ("request", "response")}
    *_, key, router = edge["http_filters"]
    edge["http_filters"] = [{
        "name": FILTER, "disabled": True, "typed_config": {
            "@type": TYPES + "extensions.filters.http.ext_proc.v3.ExternalProcessor",
            "grpc_service": {"envoy_grpc": {"cluster_name": "processor", "authority": "extproc.default:50051"},
                             "timeout": "10s"},
            "processing_mode": {
                **{f"{way}_{part}_mode": "SEND" for way in modes for part in ("header", "trailer")},
                **{f"{way}_body_mode": mode for way, mode in modes.items()}},
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
    route["typed_per_filter_config"] = {FILTER: {"@type": TYPES + "config.route.v3.FilterConfig", "config": {
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
    with anthropic.Anthropic(base_url=gateway, api_key="the-clients", max_retries=0, timeout=20) as sdk:
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


def test_errors_have_the_clients_shape(gateway: str, provider: OpenAIProvider) -> None:
    provider.script(status(429, openai_error("Slow down"), {"retry-after": "3"}))
    answer = post(gateway, payload())
    assert (answer.status, answer.error()[0]) == (429, "rate_limit_error")
    assert answer.headers["retry-after"] == "3"
    assert post(gateway, b"{").error()[0] == "invalid_request_error"
