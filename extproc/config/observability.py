"""Traces in the configuration: their collector and sampling, and their checks.

The checks also get a record of which only a part could be converted. The other parts are None and are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from extproc.config.values import (
    HEADER_NAME,
    HEADER_TEXT,
    Problem,
    file_path_problems,
    is_loopback,
    unreadable_reason,
)
from extproc.headers import SET_BY_TRANSPORT

_DEFAULT_PORTS = {"http": 4318, "https": 4318, "grpc": 4317, "grpcs": 4317}
"""Schemes of `tracing.otlp` and the port where the URL names none."""
_TRACES = "/v1/traces"
_SECRET_WORDS = ("authorization", "auth", "secret", "team", "password", "cookie")


class Tracing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where Envoy sends traces (OpenTelemetry), one span for each request and one for each attempt."""

    otlp: str
    """The collector: `http://HOST:4318` for OTLP over HTTP (protobuf, to `/v1/traces` below that address) or
    `grpc://HOST:4317` for gRPC; `https` and `grpcs` for TLS, with the collector's name checked."""
    sampling: float = 1.0
    """The share of requests that are traced, from 0 to 1. A request with a `traceparent` follows that header's sampled
    flag instead."""
    service: str = "extproc"
    """The service's name in the traces."""
    headers: dict[str, str] = {}
    """Headers for the collector, such as its key. Write `${VAR}` to take a value from the environment."""
    ca: str | None = None
    """With TLS: a file with the certificates (PEM) of the authorities that may sign the collector's certificate,
    instead of those that this machine trusts. A relative path starts at the configuration file's folder."""

    def __repr__(self) -> str:
        """Without the headers' values: records end up in logs sooner or later."""
        return (f"Tracing(otlp={self.otlp!r}, sampling={self.sampling!r}, service={self.service!r}, "
                f"headers={sorted(self.headers)!r}, ca={self.ca!r})")


class Collector(NamedTuple):
    """The parts of `tracing.otlp`. `path` is that of a request over HTTP."""

    host: str
    port: int
    is_tls: bool
    is_grpc: bool
    path: str

    @property
    def authority(self) -> str:
        """HOST:PORT, IPv6 in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_otlp(url: str) -> Collector:
    """The parts of `tracing.otlp`. Raises ValueError that says what is wrong."""
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError:
        raise ValueError("the port must be a number from 1 to 65535") from None
    if any(char <= " " or not char.isprintable() for char in url):
        raise ValueError("holds a space or a control character")
    if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f'"{url.partition("?")[0][:80]}" is neither http(s)://HOST:PORT nor grpc(s)://HOST:PORT')
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("must not have a user name, query or fragment; keys go into tracing.headers")
    is_grpc = parts.scheme.startswith("grpc")
    path = parts.path.rstrip("/")
    if is_grpc and path:
        raise ValueError("gRPC has no path: write grpc://HOST:PORT")
    return Collector(parts.hostname, port or _DEFAULT_PORTS[parts.scheme], parts.scheme in ("https", "grpcs"), is_grpc,
                     path if path.endswith(_TRACES) else path + _TRACES)


def holds_secret(header: str) -> bool:
    """True if the value of this header is probably a key. Most are; the name of a tenant, for instance, is not."""
    words = re.split(r"[^a-z]+", header.lower())
    return any(word in _SECRET_WORDS or word.endswith(("key", "token")) for word in words)


def tracing_problems(path: str, tracing: Tracing) -> Iterator[Problem]:
    """What makes it unusable, as (path, reason)."""
    if tracing.otlp is not None:
        try:
            parse_otlp(tracing.otlp)
        except ValueError as error:
            yield f"{path}.otlp", str(error)
    if not 0 <= tracing.sampling <= 1:
        yield f"{path}.sampling", "must be from 0 to 1"
    if not tracing.service.strip() or not tracing.service.isprintable():
        yield f"{path}.service", "is empty or holds a control character"
    for name, value in (tracing.headers or {}).items():
        if not HEADER_NAME.fullmatch(name) or name.lower() in SET_BY_TRANSPORT:
            yield f"{path}.headers.{name[:40]}", "is no name of a header that can be set here"
        elif value is not None and not HEADER_TEXT.fullmatch(value):
            yield f"{path}.headers.{name}", "is empty, or holds a character that a header cannot carry"
        elif value is not None and "%" in value and (tracing.otlp or "").startswith("grpc"):
            yield f"{path}.headers.{name}", "holds a %, which Envoy cannot send over gRPC: use http:// or https://"
    yield from file_path_problems(f"{path}.ca", tracing.ca)


def tracing_warnings(path: str, tracing: Tracing) -> Iterator[Problem]:
    """Valid settings that are unsafe or probably a mistake, as (path, reason)."""
    collector = parse_otlp(tracing.otlp)
    if not collector.is_tls and not is_loopback(collector.host) and any(map(holds_secret, tracing.headers)):
        yield f"{path}.otlp", "the key in tracing.headers travels unencrypted: use https:// or grpcs://"
    if tracing.sampling == 0:
        yield f"{path}.sampling", "only requests that bring a sampled traceparent are traced"
    if tracing.ca is not None:
        if not collector.is_tls:
            yield f"{path}.ca", "has no effect without https or grpcs"
        elif reason := unreadable_reason(tracing.ca):
            yield f"{path}.ca", f"{reason}; Envoy does not start without it"
