"""What is wrong, and what is unwise, about `tracing` in a configuration.

Called by `extproc.config.checks`, also on a record that converted only in part: what did not is None there and is
passed over.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from extproc.config.addresses import is_loopback
from extproc.config.backend_checks import file_path, unreadable
from extproc.config.observing_records import Tracing, is_secret, read_otlp
from extproc.config.records import Problem
from extproc.headers import SET_BY_TRANSPORT

_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$&'*+.^_`|~-]+")
_HEADER_TEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")


def tracing_problems(path: str, tracing: Tracing) -> Iterator[Problem]:
    """What makes it unusable, as (path, reason)."""
    if tracing.otlp is not None:
        try:
            read_otlp(tracing.otlp)
        except ValueError as error:
            yield f"{path}.otlp", str(error)
    if not 0 <= tracing.sampling <= 1:
        yield f"{path}.sampling", "must be from 0 to 1"
    if not tracing.service.strip() or not tracing.service.isprintable():
        yield f"{path}.service", "is empty or holds a control character"
    for name, value in (tracing.headers or {}).items():
        if not _HEADER_NAME.fullmatch(name) or name.lower() in SET_BY_TRANSPORT:
            yield f"{path}.headers.{name[:40]}", "is no name of a header that can be set here"
        elif value is not None and not _HEADER_TEXT.fullmatch(value):
            yield f"{path}.headers.{name}", "is empty, or holds a character that a header cannot carry"
        elif value is not None and "%" in value and (tracing.otlp or "").startswith("grpc"):
            yield f"{path}.headers.{name}", "holds a %, which Envoy cannot send over gRPC: use http:// or https://"
    yield from file_path(f"{path}.ca", tracing.ca)


def tracing_warnings(path: str, tracing: Tracing) -> Iterator[Problem]:
    """What works but is unsafe or probably not meant."""
    collector = read_otlp(tracing.otlp)
    if not collector.is_tls and not is_loopback(collector.host) and any(map(is_secret, tracing.headers)):
        yield f"{path}.otlp", "the key in tracing.headers travels unencrypted: use https:// or grpcs://"
    if tracing.sampling == 0:
        yield f"{path}.sampling", "only requests that bring a sampled traceparent are traced"
    if tracing.ca is not None:
        if not collector.is_tls:
            yield f"{path}.ca", "has no effect without https or grpcs"
        elif reason := unreadable(tracing.ca):
            yield f"{path}.ca", f"{reason}; Envoy does not start without it"
