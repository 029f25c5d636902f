"""Every path that is served: at the gateway, at its admin port, and what each one offers.

Also the API in whose shape requests for other paths are answered. Knows no configuration and no message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from extproc.bounds import BoundedCache

OperationName = Literal["chat", "embeddings", "count_tokens"]
Operation = Literal["messages", "count_tokens", "chat", "events", "models", "root", "pass"]


HEALTH_PATH = "/healthz"
"""At the gateway's port, where Envoy itself responds, and at the admin port: 200 while the process works."""
READY_PATH = "/readyz"
"""At the admin port: 200 if the gateway can serve a request now."""
METRICS_PATH = "/metrics"
"""At the admin port: metrics in Prometheus' text format."""
CHAT_PATH, MODELS_PATH = "/v1/chat/completions", "/v1/models"
"""At the gateway, and at the demo provider."""
ANTHROPIC_PREFIX, OPENAI_PREFIX = "/anthropic", "/openai"
"""Before any path of the gateway, for clients that expect a provider's base path."""


class Endpoint(msgspec.Struct, frozen=True):
    """What a path offers. `api` is None where the request's headers decide (`/v1/models`). `passes_to`: for requests
    that are not translated, the path at a backend of the same API, relative to its base path."""

    operation: Operation
    api: Literal["anthropic", "openai"] | None
    methods: tuple[str, ...]
    passes_to: str = ""

    @property
    def client(self) -> str:
        """The name of the client API that translates this path."""
        return "events" if self.operation == "events" else self.api or "openai"

    @property
    def asks_for(self) -> OperationName:
        """The operation in telemetry: `gen_ai.operation.name`, whose conventions have no name for counting tokens."""
        if self.operation == "count_tokens":
            return "count_tokens"
        return "embeddings" if self.passes_to == "/embeddings" else "chat"


ENDPOINTS: dict[str, Endpoint] = {
    "/v1/messages": Endpoint("messages", "anthropic", ("POST",)),
    "/v1/messages/count_tokens": Endpoint("count_tokens", "anthropic", ("POST",), "/messages/count_tokens"),
    CHAT_PATH: Endpoint("chat", "openai", ("POST",)),
    "/v1/events": Endpoint("events", "openai", ("POST",)),
    "/v1/embeddings": Endpoint("pass", "openai", ("POST",), "/embeddings"),
    "/v1/responses": Endpoint("pass", "openai", ("POST",), "/responses"),
    MODELS_PATH: Endpoint("models", None, ("GET", "HEAD")),
    "/": Endpoint("root", None, ("GET", "HEAD")),
}

_OPENAI_WORDS = ("chat", "completions", "responses", "embeddings", "audio", "images", "events", "moderations")


def plain_path(target: str) -> str:
    """The path without query string, `/anthropic` or `/openai` prefix and trailing slash."""
    path = target.partition("?")[0]
    for prefix in (ANTHROPIC_PREFIX, OPENAI_PREFIX):
        if path == prefix or path.startswith(prefix + "/"):
            path = path[len(prefix):]
    return path.rstrip("/") or "/"


def _find_endpoint(target: str) -> Endpoint | None:
    return ENDPOINTS.get(plain_path(target))


ENDPOINT_OF: BoundedCache[str, Endpoint | None] = BoundedCache(_find_endpoint, entries=256, longest=100)
"""`ENDPOINT_OF[path]`: the endpoint of a `:path` with or without query string and prefix; None if it is not served."""


def api_of(target: str, headers: Mapping[str, str]) -> Literal["anthropic", "openai"]:
    """The API in whose shape the request is answered: the API of the path, else the one that the request resembles.
    Envoy decides the same for its own replies (`envoy_config.local_replies`)."""
    endpoint = ENDPOINT_OF[target]
    if endpoint is not None and endpoint.api is not None:
        return endpoint.api
    if "anthropic-version" in headers or target.startswith(ANTHROPIC_PREFIX):
        return "anthropic"
    if target.startswith(OPENAI_PREFIX) or endpoint is not None:
        return "openai"
    words = plain_path(target).split("/")
    if any(word in _OPENAI_WORDS for word in words) or ("x-api-key" not in headers and "messages" not in words):
        return "openai"
    return "anthropic"


def list_paths(apis: Mapping[str, object]) -> str:
    """The served paths of these APIs with their methods, for error messages."""
    return ", ".join(f"{endpoint.methods[0]} {path}" for path, endpoint in ENDPOINTS.items()
                     if endpoint.operation != "root" and (endpoint.api is None or endpoint.api in apis))
