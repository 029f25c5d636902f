"""The exchange of a new ext_proc stream, by the stream's gRPC metadata.

Called by the worker once per stream. The metadata is static text in Envoy's configuration (`initial_metadata` of the
filter), so a client cannot influence it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extproc.config import Config
from extproc.ext_proc.admission import request_api
from extproc.ext_proc.attempt import RoutingMismatchError
from extproc.ext_proc.base import Exchange, Responses
from extproc.ext_proc.incoming import EnvoyMessage, HeadersMessage
from extproc.ext_proc.select import SelectExchange
from extproc.ext_proc.translate import TranslateExchange
from extproc.headers import BACKEND_METADATA, ROLE_METADATA


class UnknownRole(Exchange):
    """The exchange for a filter without a valid role: every request fails, in the client's API."""

    hop = "unknown"

    def __init__(self, config: Config, role: str, *, request_id: str, now: float) -> None:
        super().__init__(config, request_id=request_id, now=now)
        self._role = role

    def _handle_message(self, message: EnvoyMessage, now: float) -> Responses:
        if isinstance(message, HeadersMessage):
            self.api = request_api(message.headers)
        raise RoutingMismatchError(f"the filter's gRPC metadata {ROLE_METADATA} is {self._role!r}; it must be select, "
                        "translate or onehop")


def make_exchange(config: Config, metadata: Mapping[str, str], *, request_id: str, now: float,
                  find_config: Callable[[str], Config | None] | None = None) -> Exchange:
    """The exchange of one stream. `request_id` is used if Envoy sends none. A filter without a role serves the backend
    `one_hop` of the configuration. `find_config`: id of a rule -> the configuration that has it, for requests that the
    edge hop routed by an earlier configuration."""
    role = metadata.get(ROLE_METADATA, "")
    backend = metadata.get(BACKEND_METADATA, "")
    if not role and config.one_hop is not None:
        role, backend = "onehop", config.one_hop
    if role == "select":
        return SelectExchange(config, request_id=request_id, now=now)
    if role in ("translate", "onehop"):
        return TranslateExchange(config, backend, request_id=request_id, now=now, one_hop=role == "onehop",
                                 find_config=find_config)
    return UnknownRole(config, role[:40], request_id=request_id, now=now)
