"""HTTP headers: every name of the gateway's own, and which headers cross the gateway, stay or are removed.

All names are lower case. The tables are plain data; whoever sends or receives a message applies them: the processor
(`ext_proc`), the translation, and Envoy by its configuration (`envoy_config`). Headers of one API alone, such as
`anthropic-beta`, are the business of that API's folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from extproc.bounds import BoundedCache

Names = tuple[str, ...]

INTERNAL_PREFIX = "x-extproc-"
"""Names that begin like this belong to the gateway. Clients may send those in `CLIENT_OPTIONS` only."""
ENVOY_PREFIX = "x-envoy-"
"""Names that begin like this belong to Envoy. Clients may send none of them."""

# ------------------------------------------------------------------------------------- the gateway's names: the client

FINALIZE_HEADER = "x-extproc-finalize"
"""Request. `true`: the client wants the final answer of the conversation, without further tool calls."""
TOOLS_HEADER = "x-extproc-tools"
"""Request. How tools go to the model (`off`, `native`, `prompted`), instead of the configured `style`."""
DROPPED_HEADER = "x-extproc-dropped"
"""Response. What the provider's API could not carry."""
PROVIDER_REQUEST_ID_HEADER = "x-provider-request-id"
"""Response. The provider's own id of the request. `request-id` and `x-request-id` hold the gateway's id."""

# --------------------------------------------------------------------- the gateway's names: the edge to the backend hop

ROUTE_HEADER = "x-extproc-route"
"""Request, set by `select`. The id of the chosen model rule (`ModelRule.id`)."""
ORDER_HEADER = "x-extproc-order"
"""Request, set by `select`. Which of the rule's attempt orders this request takes; missing: the first."""
API_HEADER = "x-extproc-api"
"""Request, set by `select`. The client's API."""
TEAM_HEADER = "x-extproc-team"
"""Request, set by Envoy's key authentication. The team of the client's key."""
LIMITED_TEAM_HEADER = "x-extproc-limited-team"
"""Request, set by `select`. The team, if limits hold for this request: without it no rate limit is asked for."""
STREAM_ID_HEADER = "x-extproc-stream"
"""Request, set by `select`. An id of this very request that no client can choose, for limits on concurrent streams."""
EJECTABLE_ATTEMPTS_HEADER = "x-extproc-early"
"""Request, set by the edge route. The numbers of the attempts that may skip an ejected provider, as `,1,2,`."""
HOP_HEADER = "x-extproc-hop"
"""Request, set by a hop's listener. The hop's name, where all hops share one route table."""
ATTEMPT_COUNT_HEADER = "x-envoy-attempt-count"
"""Request, set by Envoy's edge route. The number of this attempt, from 1."""

# ---------------------------------------------------------------------------- the gateway's names: between other parts

OTHER_KEY_HEADER = "x-extproc-other-key"
"""Response, set by the key rotation filter. `1`: the hop's router shall try again with another key of the backend."""
LIMIT_MESSAGE_HEADER = "x-extproc-limit"
"""Response of the rate limit service. The sentence that the client reads; Envoy makes the error body from it."""
ROLE_METADATA = "x-extproc-role"
"""gRPC metadata of an ext_proc stream. What its filter is for: `select`, `translate` or `onehop`."""
BACKEND_METADATA = "x-extproc-backend"
"""gRPC metadata of an ext_proc stream. The backend of the filter's hop."""

# ------------------------------------------------------------------------------------------------- requests: the tables

CLIENT_OPTIONS = (FINALIZE_HEADER, TOOLS_HEADER)
"""Client to gateway: the only headers with `INTERNAL_PREFIX` that are kept. All others would be forged."""
TEAM_KEY_SOURCES = ("x-api-key", "authorization")
"""Client to gateway: where a team's key is looked for, in this order."""
CLIENT_CREDENTIALS = ("authorization", "x-api-key", "x-goog-api-key", "cookie")
"""Removed at the edge: a client's key never reaches a provider (design rule 8)."""
REMOVED_AT_EDGE = (*CLIENT_CREDENTIALS, "accept-encoding")
"""Removed at the edge. Without `accept-encoding` a provider sends plain bytes, which the processor can read."""
SELECT_MAY_NOT_SET = ("host", "authorization", "cookie", "x-api-key")
"""`select` may choose a request's route, but not change where it goes or on whose behalf. Envoy enforces it. (A list of
what `select` may set would not do: the rule also holds for its own responses, which have many headers.)"""
REMOVED_IN_HOP = (
    ROUTE_HEADER, ORDER_HEADER, EJECTABLE_ATTEMPTS_HEADER, API_HEADER, TEAM_HEADER,
    LIMITED_TEAM_HEADER, STREAM_ID_HEADER, ATTEMPT_COUNT_HEADER, "x-envoy-expected-rq-timeout-ms",
    "x-envoy-external-address", "x-envoy-internal", "x-envoy-original-path", "x-forwarded-for", "x-forwarded-host",
    "x-forwarded-port", "x-forwarded-proto", "x-request-id", "via",
)
"""Removed on the way to the provider: what the gateway knows and no provider needs."""
PASSED_THROUGH = ("accept", "openai-beta")
"""Client to provider, on paths that are not translated (`/v1/embeddings`)."""
SET_BY_TRANSPORT = ("host", "content-length", "content-type", "te", "transfer-encoding", "connection", "user-agent")
"""Gateway to a collector of traces: headers that no configuration may set, because Envoy does."""

# ------------------------------------------------------------------------------------------------ responses: the tables

RESPONSE_ADVICE = frozenset(("retry-after", "retry-after-ms", "x-should-retry"))
RATE_LIMIT_PREFIXES = ("x-ratelimit-", "anthropic-ratelimit-")
"""Provider to client, these names and prefixes: when to come back, and what is left. No other header crosses."""
LONGEST_FORWARDED_VALUE = 256
"""Characters of a header value that crosses: a number, a date or a limit in words. A longer value is none of these."""
KEPT_IN_RESPONSE = RESPONSE_ADVICE | {"date"}
"""Provider to client, in place: the translation reads `date`, and Envoy would only replace it by its own."""
PROVIDER_REQUEST_IDS = ("x-request-id", "request-id", "x-generation-id")
"""Where providers put their id of a request. The client gets the first one as `PROVIDER_REQUEST_ID_HEADER`."""
EXPOSED_TO_PAGES = ("request-id", "x-request-id", "retry-after", "retry-after-ms", "x-should-retry", DROPPED_HEADER,
                    "*")
"""Gateway to a web page of an allowed origin: the response headers that its scripts may read."""


def crosses_to_client(name: str) -> bool:
    """True for a header of a provider that the client gets."""
    return name in RESPONSE_ADVICE or name.startswith(RATE_LIMIT_PREFIXES)


# --------------------------------------------------------------------------------------------------- working with names


def in_lower_case(headers: Mapping[str, str]) -> Mapping[str, str]:
    """`headers` with lower-case names: the same object if all names are lower case, as HTTP/2 requires."""
    names = "".join(headers)  # one test for all names instead of one for each
    if names.lower() == names:
        return headers
    return {name.lower(): value for name, value in headers.items()}


def filter_names(accept: Callable[[str], bool]) -> BoundedCache[Names, Names]:
    """`filter_names(accept)[names]`: the names that `accept` returns True for, in order. A client sends the same
    headers with each request and a provider with each response, so the result for a set of names is cached."""

    def accepted(names: Names) -> Names:
        return tuple([name for name in names if accept(name)])

    return BoundedCache(accepted, entries=256, longest=2000, size=_total_length)


def _total_length(names: Names) -> int:
    return sum(map(len, names))


REQUEST_TO_TRANSLATION = filter_names(lambda name: not name.startswith(":") and name != "content-encoding")
RESPONSE_TO_TRANSLATION = filter_names(lambda name: not name.startswith(":"))
"""The names that a `Translation` reads: no pseudo-headers; it gets the request's body decoded and the response's as it
came."""
FORGED = filter_names(lambda name: name.startswith(INTERNAL_PREFIX) and name not in CLIENT_OPTIONS)
"""The internal names that a client must not send."""
REMOVED_FROM_RESPONSE = filter_names(lambda name: name not in KEPT_IN_RESPONSE and not crosses_to_client(name))
"""The names of a provider's headers that do not cross, whatever their values."""
