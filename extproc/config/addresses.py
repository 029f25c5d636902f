"""Addresses as the configuration writes them: `HOST:PORT` apart, and whether a host is this machine or a private
network's.

Called by the records and their checks, and by whoever listens or connects. Resolves no name.
"""

from __future__ import annotations

import ipaddress

from extproc.bounds import bounded_cache


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
"""Names that public DNS has not: of this machine, of a local network or a cluster (`svc.cluster.local`), and what ICANN
has set aside for private use."""
_PRIVATE_NETWORKS = [ipaddress.ip_network(net) for net in (
    "127.0.0.0/8", "::1/128", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "100.64.0.0/10",
    "fc00::/7", "fe80::/10")]


def is_private(host: str) -> bool:
    """Whether the host, by its address or its name alone, is this machine or one of a private network."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.rstrip(".").endswith(_PRIVATE_ENDINGS)
    return any(address in network for network in _PRIVATE_NETWORKS)


_LONGEST_NAME = 253
"""Characters of a host's name (RFC 1035)."""


@bounded_cache(entries=256, longest=_LONGEST_NAME)
def is_loopback(host: str) -> bool:
    """Whether the host reaches only this machine: localhost, 127.0.0.0/8 or ::1."""
    if len(host) > _LONGEST_NAME:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
