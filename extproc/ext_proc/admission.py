"""The checks in front of every request: headers and body in, a model rule or a refusal out.

The edge hop uses them for every request, one-hop mode before its translation. Requests that need no provider end here:
the list of models, a token count, the greeting at `/`, and every refusal. Refusals are raised as `RefusedRequest` or
`BadRequest`; the exchange encodes them in the client's API.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from extproc.apis import CLIENT_APIS
from extproc.config import Config, ModelRule, is_loopback, parse_address
from extproc.endpoints import ENDPOINT_OF, Endpoint, api_of, list_paths, plain_path
from extproc.ext_proc.base import RefusedRequest
from extproc.ext_proc.record import Record
from extproc.ext_proc.request_body import RequestBodyBuffer, RoutingFields, peek_routing_fields
from extproc.headers import TEAM_HEADER
from extproc.profiles.telemetry import telemetry_provider_name
from extproc.translation.tokens import estimate_request

_SUFFIX = re.compile(r"\[[^\[\]]{1,16}\]$")
_JSON = {"content-type": "application/json"}

MODEL_NOT_FOUND = "model_not_found"
"""OpenAI's error code of a 404 for an unknown model. Clients use it to tell this 404 from one for an unknown path."""


class GatewayResponse(msgspec.Struct, frozen=True):
    """A response that needs no provider."""

    status: int
    headers: dict[str, str]
    body: bytes
    reason: str


class AdmittedRequest(msgspec.Struct, frozen=True):
    """A request for a provider."""

    routing_fields: RoutingFields
    rule: ModelRule
    body: bytes
    """Without content encodings."""


class RequestAdmission:
    """The admission of one request. `edge`: at the gateway's own listener, where callers, host names and origins are
    checked; in one-hop mode the surrounding gateway checks them."""

    __slots__ = ("_config", "_edge", "_record", "body", "endpoint", "headers", "team")

    def __init__(self, config: Config, record: Record, *, edge: bool) -> None:
        self._config = config
        self._record = record
        self._edge = edge
        self.headers: dict[str, str] = {}
        self.body = RequestBodyBuffer(config.limits)
        self.endpoint: Endpoint | None = None
        self.team: str | None = None

    def should_offload(self, last: bytes) -> bool:
        """True if `admit` may take long enough that a thread should run it. `last`: the final bytes of the body."""
        return (self.body.should_offload(last) or "content-encoding" in self.headers
                or (self.endpoint is not None and self.endpoint.operation == "count_tokens"))

    def check_headers(self, headers: dict[str, str], api: str) -> GatewayResponse | None:
        """Checks the request's headers. None: the body is needed."""
        self.headers = headers
        if self._edge:
            self._check_caller()
        endpoint = self._find_endpoint(headers.get(":path", "/"), api)
        self.endpoint = endpoint
        self._check_method(endpoint)
        if endpoint.operation == "stored":
            stored_id = plain_path(headers[":path"]).split("/")[3][:100]
            raise RefusedRequest(f"Response with id '{stored_id}' not found: nothing is stored here.",
                                 reason="not_stored", status=404, kind="not_found")
        if endpoint.operation == "root":
            body = msgspec.json.encode({"name": "extproc", "status": "ok", "serves": list_paths(CLIENT_APIS)})
            return GatewayResponse(200, dict(_JSON), body, "greeting")
        if endpoint.operation == "models":
            names = self._config.listed_models(self.team)
            return GatewayResponse(200, dict(_JSON), CLIENT_APIS[api].encode_models(names), "models")
        self._check_content_type()
        self.body.check_announced_size(headers.get("content-length"))
        return None

    def admit(self) -> GatewayResponse | AdmittedRequest:
        """Called when the body is complete. Raises BadRequest."""
        body = self.body.decode(self.headers.get("content-encoding"))
        self._record.request_bytes = self.body.size
        routing_fields = peek_routing_fields(body, self._config.limits)
        self._record.model = routing_fields.model[:200]
        self._record.stream = bool(routing_fields.stream) or (self.endpoint is not None
                                                     and self.endpoint.operation == "events")
        rule = self._find_rule(routing_fields.model)
        self._record.rule = rule.match
        operation = self.endpoint.operation if self.endpoint is not None else ""
        if operation == "pass":
            self._check_same_api(rule, routing_fields.model)
        if (self.endpoint is not None and operation == "count_tokens"
                and not self._provider_counts_tokens(rule, self.endpoint)):
            client = CLIENT_APIS[self.endpoint.client]
            tokens = estimate_request(client.decode_count_request(body, self._config.limits))
            return GatewayResponse(200, dict(_JSON), client.encode_token_count(tokens), "count_tokens")
        return AdmittedRequest(routing_fields, rule, body)

    def _check_same_api(self, rule: ModelRule, model: str) -> None:
        """A path without translation needs a backend that speaks the client's API."""
        assert self.endpoint is not None
        apis = [self._config.backends[attempt.backend].api for attempt in rule.attempts]
        if self.endpoint.api not in apis:
            path = plain_path(self.headers[":path"])
            raise RefusedRequest(
                f'{path} needs a backend that speaks the {self.endpoint.api} API; the model "{model[:200]}" is served '
                f"by {' and '.join(dict.fromkeys(apis))} only. Use /v1/chat/completions or /v1/messages, which are "
                "translated.", reason="other_api", status=404, kind="not_found")

    def _provider_counts_tokens(self, rule: ModelRule, endpoint: Endpoint) -> bool:
        """True if the first backend is the API's own provider. Others do not count tokens: the gateway estimates."""
        backend = self._config.backends[rule.attempts[0].backend]
        name = telemetry_provider_name(backend.api, backend.host, backend.base_path, backend.provider)
        return name == backend.api == endpoint.api

    # ---------------------------------------------------------------------------------------------------------- caller

    def _check_caller(self) -> None:
        config, headers = self._config, self.headers
        if config.teams:
            self.team = headers.get(TEAM_HEADER)
            self._record.team = self.team
            if self.team not in config.teams:
                raise RefusedRequest("A valid key of a team is required.", reason="no_team", status=401,
                                     kind="authentication")
            return
        host = _host_name(headers.get(":authority", ""))
        if not config.open and not _is_gateway_name(host, config):
            raise RefusedRequest(
                f'This gateway does not answer to the host name "{host[:100]}"; it is open to its own machine only.',
                reason="foreign_host", status=421)
        origin = headers.get("origin")
        if origin is not None and origin not in config.cors and "*" not in config.cors:
            raise RefusedRequest(
                f'Web pages of "{origin[:100]}" may not use this gateway; list the origin under cors to allow it.',
                reason="foreign_origin", status=403, kind="permission")

    def _check_content_type(self) -> None:
        """Without teams, a web page could send a simple cross-site request (not JSON), for which browsers ask no
        permission."""
        if self._config.teams or not self._edge:
            return
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise RefusedRequest("The content-type must be application/json.", reason="content_type", status=415)

    # ----------------------------------------------------------------------------------------------- endpoint and model

    def _find_endpoint(self, target: str, api: str) -> Endpoint:
        endpoint = ENDPOINT_OF[target]
        known = endpoint is not None and (endpoint.api is None or endpoint.api in CLIENT_APIS)
        # A POST to the root is a request without its path: the error names the path, not the method.
        misses_path = (endpoint is not None and endpoint.operation == "root"
                       and self.headers.get(":method") not in endpoint.methods)
        if endpoint is not None and known and not misses_path:
            return endpoint
        path = plain_path(target)[:200]
        why = f"{path} is not served here" + (" yet" if endpoint is not None and not known else "")
        raise RefusedRequest(f"{why}. Served: {list_paths(CLIENT_APIS)}.", reason="unknown_path", status=404,
                             kind="not_found")

    def _check_method(self, endpoint: Endpoint) -> None:
        method = self.headers.get(":method", "")
        if method not in endpoint.methods:
            allow = ", ".join(endpoint.methods)
            raise RefusedRequest(f"{method[:20]} is not allowed on {plain_path(self.headers[':path'])}; use {allow}.",
                          reason="wrong_method", status=405, headers={"allow": allow})

    def _find_rule(self, model: str) -> ModelRule:
        """The rule of the model. A suffix such as `[1m]`, with which clients request a longer context, may be missing
        from the configuration."""
        config, name = self._config, model
        rule = config.find_rule(name)
        if rule is None:
            name = _SUFFIX.sub("", model)
            rule = config.find_rule(name)
        if rule is not None:
            if self._edge and not config.allows(self.team, name):
                raise RefusedRequest(f'Team "{self.team}" may not use the model "{model[:200]}".',
                                     reason="model_not_allowed", status=403, kind="permission")
            return rule
        near = ", ".join(config.similar_models(name, self.team))
        hint = f" The nearest names: {near}." if near else ""
        raise RefusedRequest(f'The model "{model[:200]}" is not served by this gateway.{hint}', reason="unknown_model",
                      status=404, kind="not_found", code=MODEL_NOT_FOUND)


def request_api(headers: Mapping[str, str]) -> str:
    """The API in which errors for this request are encoded."""
    return api_of(headers.get(":path", "/"), headers)


def _host_name(authority: str) -> str:
    if authority.startswith("["):
        return authority[1:].partition("]")[0].lower()
    return authority.partition(":")[0].lower()


def _is_gateway_name(host: str, config: Config) -> bool:
    return is_loopback(host) or host == parse_address(config.listen)[0].lower()
