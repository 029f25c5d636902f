"""The settings that all exchanges of one attempt share, and the `Target` that they give.

Made by the gateway for an attempt of the configuration, or by `Translation` from its own arguments. Knows no request.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from extproc.apis import CLIENT_APIS, PASS_THROUGHS, PROVIDER_APIS
from extproc.apis.base import ClientApi, PassThrough, ProviderApi
from extproc.bounds import Limits
from extproc.dialects.call_writer import ArgumentsMode
from extproc.profiles import find_profile
from extproc.profiles.apis import API_FACTS
from extproc.profiles.responses import EndpointChoice, at_responses, select_api
from extproc.profiles.target import AttemptSettings, Target
from extproc.translation.request_edits import RequestEdits


class Settings(AttemptSettings, frozen=True, kw_only=True):
    """Arguments of `Translation`, beside those of `AttemptSettings`. Raises ValueError for an unknown API."""

    client: str
    """The client's API: a name of `CLIENT_APIS`."""
    upstream: str
    """The provider's API: a name of `PROVIDER_APIS`. For "openai", `endpoint` chooses between its two APIs."""
    endpoint: EndpointChoice = "auto"
    """The API of an endpoint in OpenAI's format: "chat", "responses", or "auto", by the model's profile."""
    url: str | None = None
    """The backend's URL: its path and host count. None: the API's usual path."""
    dialect: str | None = None
    """How the model writes tool calls as text. None: as the model's name suggests."""
    read_dialects: Sequence[str] = ()
    """Further forms of tool calls in text to read, whatever the model's name is."""
    reasoning_open: bool | None = None
    """True if the prompt already opened the model's reasoning."""
    arguments: ArgumentsMode | None = None
    """How the arguments of tool calls are repaired or checked."""
    parallel_tool_calls: bool | Literal["enforce"] | None = None
    """Allow or forbid several calls in one response. "enforce" also drops all calls after the first."""
    duplicates: Literal["keep", "drop"] | None = None
    """"drop" removes calls that repeat an earlier one."""
    max_tools: int | None = None
    """Requests with more tools are refused. At most `limits.tools`, which also is the default."""
    lossy: str = "report"
    """"reject" refuses a request with fields that the provider's API cannot carry (RequestError, status 400)."""
    withhold: bool = False
    """Keep the response head until the first content, so that an error before it becomes a status."""
    ping_interval: float = 10.0
    """Seconds without bytes for the client, after which a keep-alive is sent."""
    idle_timeout: float = 240.0
    """Seconds without bytes from the provider, after which the response fails."""
    limits: Limits = Limits()
    secrets: Sequence[str] = ()
    """Values to remove from every error text."""
    edits: RequestEdits = RequestEdits()
    """The operator's changes of the provider's request. Of a request that is not translated only headers change."""
    client_api: ClientApi | None = None
    """The client's API with its own options, in place of the one that `client` names."""

    def __post_init__(self) -> None:
        if self.client not in CLIENT_APIS:
            raise ValueError(f"unknown client API {self.client!r}; known: {', '.join(sorted(CLIENT_APIS))}")
        if self.upstream not in PROVIDER_APIS:
            raise ValueError(f"unknown upstream API {self.upstream!r}; known: {', '.join(sorted(PROVIDER_APIS))}")

    def apis(self, target: Target) -> tuple[ClientApi, ProviderApi, PassThrough | None]:
        """The client's API, the provider's, and the pass-through where both are the same."""
        passthrough = PASS_THROUGHS.get(self.client) if self.client == target.api else None
        return self.client_api or CLIENT_APIS[self.client], PROVIDER_APIS[target.api], passthrough

    def target(self, model: str) -> Target:
        """`model`: the provider's name of it. The API of the attempt is chosen here."""
        url = urlsplit(self.url) if self.url else None
        host = url.hostname if url else None
        profile = find_profile(self.provider, host, model)
        base_path = url.path.rstrip("/") if url else API_FACTS[self.upstream].default_base_path
        api = select_api(self.upstream, self.endpoint, profile, self.provider, host, base_path, self.client)
        if api == "responses":
            profile = at_responses(profile, self.provider, host, model)
        facts = API_FACTS.get(api)
        if facts is None or facts.has_reasoning_field:
            profile = msgspec.structs.replace(profile, splits_reasoning=True)
        most = self.limits.tools
        return Target(
            api=api, model=model, profile=profile, base_path=base_path,
            endpoint=url.netloc.rpartition("@")[2].lower() if url else "",
            parallel_tool_calls=False if self.parallel_tool_calls == "enforce" else self.parallel_tool_calls,
            max_tools=most if self.max_tools is None else min(self.max_tools, most),
            **{name: getattr(self, name) for name in AttemptSettings.__struct_fields__})
