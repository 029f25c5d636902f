"""What the configuration file says about traces: where they go, and how many.

Part of the records in `extproc.config.records`, which import it; the reference page is generated from the docstrings.
"""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec


class Tracing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where Envoy sends traces (OpenTelemetry), one span for each request and one for each attempt."""

    otlp: str
    """The collector: `http://HOST:4318` for OTLP over HTTP (protobuf, to `/v1/traces` below that address) or
    `grpc://HOST:4317` for gRPC; `https` and `grpcs` for TLS, with the collector's name checked."""
    sampling: float = 1.0
    """The share of requests that are traced, from 0 to 1. A request that brings a `traceparent` is traced if that says
    so, whatever stands here."""
    service: str = "extproc"
    """The service's name in the traces."""
    headers: dict[str, str] = {}
    """Headers for the collector, such as a key that it wants. Write `${VAR}` to take a value from the environment."""
    ca: str | None = None
    """With TLS: a file of certificates (PEM) of the authorities that may sign the collector's certificate, instead of
    those that this machine trusts. A relative path starts at the configuration file's folder."""

    def __repr__(self) -> str:
        """Without the headers' values: a record ends up in logs sooner or later."""
        return (f"Tracing(otlp={self.otlp!r}, sampling={self.sampling!r}, service={self.service!r}, "
                f"headers={sorted(self.headers)!r}, ca={self.ca!r})")


SCHEMES = {"http": 4318, "https": 4318, "grpc": 4317, "grpcs": 4317}
"""Of `tracing.otlp`, each with the port that it has when none is named."""
_TRACES = "/v1/traces"
_SECRET_WORDS = ("authorization", "auth", "secret", "team", "password", "cookie")


class Collector(NamedTuple):
    """A `tracing.otlp`, taken apart. `path` is that of a request over HTTP."""

    host: str
    port: int
    is_tls: bool
    is_grpc: bool
    path: str

    @property
    def authority(self) -> str:
        """HOST:PORT, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_otlp(url: str) -> Collector:
    """The parts of a `tracing.otlp`. Raises ValueError that says what is wrong."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        raise ValueError("the port must be a number from 1 to 65535") from None
    if any(char <= " " or not char.isprintable() for char in url):
        raise ValueError("holds a space or a control character")
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise ValueError(f'"{url.partition("?")[0][:80]}" is neither http(s)://HOST:PORT nor grpc(s)://HOST:PORT')
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("a user name, a query or a fragment has no place here; keys go into tracing.headers")
    is_grpc = parts.scheme.startswith("grpc")
    path = parts.path.rstrip("/")
    if is_grpc and path:
        raise ValueError("gRPC has no path: write grpc://HOST:PORT")
    return Collector(parts.hostname, port or SCHEMES[parts.scheme], parts.scheme in ("https", "grpcs"), is_grpc,
                     path if path.endswith(_TRACES) else path + _TRACES)


def is_secret(header: str) -> bool:
    """Whether the value of this header is probably a key: most are, but for a tenant's name and the like."""
    words = re.split(r"[^a-z]+", header.lower())
    return any(word in _SECRET_WORDS or word.endswith(("key", "token")) for word in words)
