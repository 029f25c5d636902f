"""What all exchanges of one attempt share: the settings of `Translation`, checked, and the targets they lead to.

Made once for an attempt by whoever serves it, or by `Translation` itself for a single exchange. Knows no request.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import Literal

import msgspec

from extproc.apis import CLIENT_APIS, PROVIDER_APIS, SAME_APIS
from extproc.apis.base import ClientApi, PassThrough, ProviderApi
from extproc.bounds import BoundedCache, Limits
from extproc.dialects.call_writer import ArgumentsMode
from extproc.profiles.target import Target
from extproc.translation.target import make_target


class Settings(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """See `Translation`, which has the same names for them. Raises ValueError for an API that is not known."""

    client: str
    upstream: str
    provider: str | None = None
    dialect: str | None = None
    reasoning_open: bool | None = None
    url: str | None = None
    withhold: bool = False
    lossy: str = "report"
    max_output_tokens: int | None = None
    tool_style: str = "auto"
    tool_choice: str | None = None
    parallel_tool_calls: bool | Literal["enforce"] | None = None
    duplicates: Literal["keep", "drop"] | None = None
    max_tools: int | None = None
    only_tools: Sequence[str] | None = None
    read_dialects: Sequence[str] = ()
    arguments: ArgumentsMode | None = None
    limits: Limits = Limits()
    ping_interval: float = 10.0
    idle_timeout: float = 240.0
    secrets: Sequence[str] = ()
    safety: tuple[tuple[str, str], ...] = ()
    client_api: ClientApi | None = None

    def __post_init__(self) -> None:
        if self.client not in CLIENT_APIS:
            raise ValueError(f"unknown client API {self.client!r}; known: {', '.join(sorted(CLIENT_APIS))}")
        if self.upstream not in PROVIDER_APIS:
            raise ValueError(f"unknown upstream API {self.upstream!r}; known: {', '.join(sorted(PROVIDER_APIS))}")

    @cached_property
    def apis(self) -> tuple[ClientApi, ProviderApi, PassThrough | None]:
        """The client's, the provider's, and what passes an answer on where both are one."""
        relay = SAME_APIS.get(self.client) if self.client == self.upstream else None
        return self.client_api or CLIENT_APIS[self.client], PROVIDER_APIS[self.upstream], relay

    @cached_property
    def targets(self) -> BoundedCache[str, Target]:
        """Where the requests for a model go. Nearly all are for one of few; which ones, a client may choose."""
        most = self.limits.tools
        return BoundedCache(partial(
            make_target, self.upstream, self.provider, self.url, self.max_output_tokens, self.tool_style,
            self.tool_choice, False if self.parallel_tool_calls == "enforce" else self.parallel_tool_calls,
            most if self.max_tools is None else min(self.max_tools, most),
            None if self.only_tools is None else tuple(self.only_tools), self.safety), entries=256, longest=200)
