"""Single values of a configuration: addresses, texts that become header values, paths of files, patterns of names.

The checks of every topic use these. Nothing here resolves a name. `*_problems` yield (path, reason) for what makes a
value unusable; `path` is the value's place in the file.
"""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec

from extproc.bounds import bounded_cache

Problem = tuple[str, str]
"""(path in the file, reason)."""
Problems = list[Problem]

T = TypeVar("T")

_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")
HEADER_NAME = re.compile(r"[A-Za-z0-9!#$&'*+.^_`|~-]+")
"""A header's name (RFC 9110, 5.1), without `%`, which Envoy interprets."""
HEADER_TEXT = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
"""A header's value that may hold spaces: printable ASCII."""


# --------------------------------------------------------------------------------------------------------- addresses


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT` or `[IPv6]:PORT` -> (host without brackets, port). Raises ValueError that says what is wrong."""
    host, colon, port = text.rpartition(":")
    if not colon or not host:
        raise ValueError(f'"{text}" is not HOST:PORT')
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f'"{text}": an IPv6 address needs brackets, as in [::1]:10000')
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f'"{text}": the port must be a number from 0 to 65535')
    return host, int(port)


_PRIVATE_ENDINGS = (".localhost", ".local", ".internal", ".svc")
"""Endings that public DNS does not have: of this machine, of a local network, of a cluster (`svc.cluster.local`), and
the one that ICANN has reserved for private use."""
_PRIVATE_NETWORKS = [ipaddress.ip_network(net) for net in (
    "127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10",
    "fc00::/7", "fe80::/10")]


def is_private(host: str) -> bool:
    """True for this machine and for hosts of private networks, judged by the address or the name alone."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.rstrip(".").endswith(_PRIVATE_ENDINGS)
    return any(address in network for network in _PRIVATE_NETWORKS)


_LONGEST_HOST_NAME = 253
"""Characters (RFC 1035)."""


@bounded_cache(entries=256, longest=_LONGEST_HOST_NAME)
def is_loopback(host: str) -> bool:
    """True for localhost, names below it, 127.0.0.0/8 and ::1."""
    if len(host) > _LONGEST_HOST_NAME:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# ------------------------------------------------------------------------------------------------------------ checks


def join(path: str, key: str | int) -> str:
    """The path of a member: `models[0]`, `backends.local`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


def mask_keys(keys: str | list[str] | None) -> str:
    """For the `repr` of a record: records end up in logs sooner or later."""
    return "***" if keys else "None"


def converted_entries(items: Sequence[T] | None) -> Iterator[tuple[int, T]]:
    """The entries of a list with their indexes. Entries that did not convert are None and left out: the conversion has
    reported them."""
    return ((index, item) for index, item in enumerate(items or ()) if item is not None)


def converted_members(items: Mapping[str, T] | None) -> Iterator[tuple[str, T]]:
    """The same for a mapping."""
    return ((key, item) for key, item in (items or {}).items() if item is not None)


def header_value_problems(path: str, value: str | None) -> Iterator[Problem]:
    """The value of a header: printable ASCII without spaces."""
    if value is not None and not _HEADER_VALUE.fullmatch(value):
        yield path, "is empty" if not value else "holds a space, a line break or a character that a header cannot carry"


def file_path_problems(path: str, value: str | None) -> Iterator[Problem]:
    """The path of a file. A missing file is only a warning: Envoy may run on another machine."""
    if value is not None and (not value.strip() or not value.isprintable()):
        yield path, "is not the path of a file"


def unreadable_reason(file: str) -> str | None:
    """Why the file cannot be read now; None if it can."""
    try:
        with open(file, "rb") as opened:
            return None if opened.read(1) else f"{file} is empty"
    except OSError as error:
        return f"{file} cannot be read: {error.strerror or os.strerror(error.errno or 0)}"


def pattern_problems(path: str, name: str) -> Iterator[Problem]:
    """The name of a model or tool, or a glob."""
    if not name.strip():
        yield path, "is empty"
    elif any(ord(char) < 32 or ord(char) == 127 for char in name):
        yield path, "holds a control character"


def number_problems(path: str, record: msgspec.Struct) -> Iterator[Problem]:
    """Counts, sizes and times of a record, which must be above 0."""
    for field in record.__struct_fields__:
        value = getattr(record, field)
        # `not 0 < value` is true for NaN too.
        if isinstance(value, int | float) and not isinstance(value, bool) and not 0 < value < float("inf"):
            yield f"{path}.{field}", "must be above 0"
