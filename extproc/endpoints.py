"""Every path that is served: at the gateway, at its admin port, and what each one offers.

Also how a request for another path shows which API its client speaks. Knows no configuration and no message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from extproc.bounds import BoundedCache

OperationName = Literal["chat", "embeddings", "count_tokens"]
Operation = Literal["messages", "count_tokens", "chat", "events", "responses", "stored", "models", "root", "pass"]


HEALTH_PATH = "/healthz"
"""At the gateway's port, where Envoy itself responds, and at the admin port: 200 while the process works."""
READY_PATH = "/readyz"
"""At the admin port: 200 if the gateway can serve a request now."""
METRICS_PATH = "/metrics"
"""At the admin port: metrics in Prometheus' text format."""
CHAT_PATH, MODELS_PATH = "/v1/chat/completions", "/v1/models"
"""At the gateway, and at the demo provider."""

ClientApiName = Literal["anthropic", "openai", "responses"]
"""The APIs of clients, by the shape of their errors."""


class ClientTraits(msgspec.Struct, frozen=True):
    """How a request shows the API of its client where the path alone does not."""

    prefix: str | None
    """Before any path of the gateway, for clients that expect the base path of the API's provider. None: clients of
    this API take that of another one."""
    path_segments: frozenset[str]
    """Segments of the API's paths, also of those that are not served."""
    headers: frozenset[str] = frozenset()
    """Only clients of this API send them."""
    key_headers: frozenset[str] = frozenset()
    """The API's own headers for a key."""


CLIENT_TRAITS: dict[ClientApiName, ClientTraits] = {
    "anthropic": ClientTraits("/anthropic", frozenset({"messages"}), headers=frozenset({"anthropic-version"}),
                              key_headers=frozenset({"x-api-key"})),
    "openai": ClientTraits("/openai", frozenset({"chat", "completions", "embeddings", "audio", "images", "events",
                                                 "moderations"})),
    "responses": ClientTraits(None, frozenset({"responses"})),
}
FALLBACK_API: ClientApiName = "openai"
"""For requests that show no API: the shape of its errors is the most widely understood one."""


class Endpoint(msgspec.Struct, frozen=True):
    """What a path offers. `api` is None where the request's headers decide (`/v1/models`). `passes_to`: for requests
    that are not translated, the path at a backend of the same API, relative to its base path. `translated_by`: the
    client API, if it is not `api`."""

    operation: Operation
    api: ClientApiName | None
    methods: tuple[str, ...]
    passes_to: str = ""
    translated_by: str = ""

    @property
    def client(self) -> str:
        """The name of the client API that translates this path."""
        return self.translated_by or self.api or FALLBACK_API

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
    "/v1/events": Endpoint("events", "openai", ("POST",), translated_by="events"),
    "/v1/embeddings": Endpoint("pass", "openai", ("POST",), "/embeddings"),
    "/v1/responses": Endpoint("responses", "responses", ("POST",)),
    "/v1/responses/compact": Endpoint("responses", "responses", ("POST",), translated_by="responses-compact"),
    "/v1/responses/input_tokens": Endpoint("count_tokens", "responses", ("POST",)),
    MODELS_PATH: Endpoint("models", None, ("GET", "HEAD")),
    "/": Endpoint("root", None, ("GET", "HEAD")),
}

_STORED = ("/v1/responses/",)
"""What follows would be the id of a stored object. Nothing is stored."""
_STORED_OBJECT = Endpoint("stored", "responses", ("GET", "DELETE", "POST"))


def plain_path(target: str) -> str:
    """The path without query string, prefix (`ClientTraits`) and trailing slash."""
    path = target.partition("?")[0]
    for traits in CLIENT_TRAITS.values():
        prefix = traits.prefix
        if prefix is not None and (path == prefix or path.startswith(prefix + "/")):
            path = path[len(prefix):]
    return path.rstrip("/") or "/"


def _find_endpoint(target: str) -> Endpoint | None:
    path = plain_path(target)
    found = ENDPOINTS.get(path)
    return _STORED_OBJECT if found is None and path.startswith(_STORED) else found


ENDPOINT_OF: BoundedCache[str, Endpoint | None] = BoundedCache(_find_endpoint, entries=256, longest=100)
"""`ENDPOINT_OF[path]`: the endpoint of a `:path` with or without query string and prefix; None if it is not served."""


def api_of(target: str, headers: Mapping[str, str]) -> ClientApiName:
    """The API in whose shape the client gets responses: the API of the path, else the one that the request resembles.
    Envoy decides by path, prefix and headers too for its own replies (`envoy_config.local_replies`)."""
    endpoint = ENDPOINT_OF[target]
    if endpoint is not None and endpoint.api is not None:
        return endpoint.api
    segments = plain_path(target).split("/")
    return (_first_api(lambda traits: not traits.headers.isdisjoint(headers))
            or _first_api(lambda traits: traits.prefix is not None and target.startswith(traits.prefix))
            or (FALLBACK_API if endpoint is not None else None)
            or _first_api(lambda traits: not traits.path_segments.isdisjoint(segments))
            or _first_api(lambda traits: not traits.key_headers.isdisjoint(headers))
            or FALLBACK_API)


def _first_api(shows: Callable[[ClientTraits], bool]) -> ClientApiName | None:
    return next((api for api, traits in CLIENT_TRAITS.items() if shows(traits)), None)


def list_paths(apis: Mapping[str, object]) -> str:
    """The served paths of these APIs with their methods, for error messages."""
    return ", ".join(f"{endpoint.methods[0]} {path}" for path, endpoint in ENDPOINTS.items()
                     if endpoint.operation != "root" and (endpoint.api is None or endpoint.api in apis))
