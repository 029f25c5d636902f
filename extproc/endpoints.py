"""The paths that are served: HTTP request line -> endpoint, and in which API's shape everything else is answered.

Called by both exchanges. Knows no configuration and no message.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from extproc.bounds import BoundedCache

OperationName = Literal["chat", "embeddings", "count_tokens"]
Operation = Literal["messages", "count_tokens", "chat", "events", "models", "root", "pass"]


class Endpoint(msgspec.Struct, frozen=True):
    """What a path offers. `api` is None where the request's headers decide (`/v1/models`). `passes_to`: the path at a
    backend of the same API, behind its base path, for requests that are not translated."""

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
        """The name of the operation in telemetry (`gen_ai.operation.name`; the conventions have none for counting)."""
        if self.operation == "count_tokens":
            return "count_tokens"
        return "embeddings" if self.passes_to == "/embeddings" else "chat"


ENDPOINTS: dict[str, Endpoint] = {
    "/v1/messages": Endpoint("messages", "anthropic", ("POST",)),
    "/v1/messages/count_tokens": Endpoint("count_tokens", "anthropic", ("POST",), "/messages/count_tokens"),
    "/v1/chat/completions": Endpoint("chat", "openai", ("POST",)),
    "/v1/events": Endpoint("events", "openai", ("POST",)),
    "/v1/embeddings": Endpoint("pass", "openai", ("POST",), "/embeddings"),
    "/v1/responses": Endpoint("pass", "openai", ("POST",), "/responses"),
    "/v1/models": Endpoint("models", None, ("GET", "HEAD")),
    "/": Endpoint("root", None, ("GET", "HEAD")),
}

_PREFIXES = ("/anthropic", "/openai")
_OPENAI_WORDS = ("chat", "completions", "responses", "embeddings", "audio", "images", "events", "moderations")


def plain_path(target: str) -> str:
    """The path without query string, `/anthropic` or `/openai` prefix and trailing slash."""
    path = target.partition("?")[0]
    for prefix in _PREFIXES:
        if path == prefix or path.startswith(prefix + "/"):
            path = path[len(prefix):]
    return path.rstrip("/") or "/"


def _find_endpoint(target: str) -> Endpoint | None:
    return ENDPOINTS.get(plain_path(target))


ENDPOINT_OF: BoundedCache[str, Endpoint | None] = BoundedCache(_find_endpoint, entries=256, longest=100)
"""The endpoint of a `:path`, query string and prefix tolerated; None for a path that is not served."""


def api_of(target: str, headers: Mapping[str, str]) -> Literal["anthropic", "openai"]:
    """The API whose shape answers this request: the path's own, else what the request looks most like."""
    endpoint = ENDPOINT_OF[target]
    if endpoint is not None and endpoint.api is not None:
        return endpoint.api
    if "anthropic-version" in headers or target.startswith("/anthropic"):
        return "anthropic"
    if target.startswith("/openai") or endpoint is not None:
        return "openai"
    words = plain_path(target).split("/")
    if any(word in _OPENAI_WORDS for word in words) or ("x-api-key" not in headers and "messages" not in words):
        return "openai"
    return "anthropic"


def served(apis: Mapping[str, object]) -> str:
    """The served paths, for people."""
    return ", ".join(f"{endpoint.methods[0]} {path}" for path, endpoint in ENDPOINTS.items()
                     if endpoint.operation != "root" and (endpoint.api is None or endpoint.api in apis))
