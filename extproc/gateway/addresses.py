"""Addresses to listen on: which one the configuration means, whether it can be used, and which port is free.

Nothing stays open.
"""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path

import msgspec

from extproc.config import Config, parse_address
from extproc.envoy_config.layout import socket_path_problem
from extproc.gateway.child_processes import StartError


def format_address(host: str, port: int) -> str:
    """`host:port`, with brackets around IPv6."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_port_free(host: str, port: int) -> bool:
    """True if a program could listen there now."""
    try:
        _bind_and_listen(host, port).close()
    except OSError:
        return False
    return True


def resolve_port(host: str, port: int) -> int:
    """The port itself, or a free one for port 0. Raises StartError with advice if it cannot be used."""
    try:
        with _bind_and_listen(host, port) as bound:
            return int(bound.getsockname()[1])
    except OSError as error:
        raise StartError(_reason(host, port, error)) from None


def check_socket_path(path: str) -> None:
    """Raises StartError if no Unix socket can be made at this path. An old socket may be there; any other file would be
    lost, so it is an error."""
    folder = Path(path).parent
    reason = socket_path_problem(path)
    if not folder.is_dir():
        reason = reason or f"there is no folder {folder}"
    elif not os.access(folder, os.W_OK | os.X_OK):
        reason = reason or f"not allowed to write into {folder}"
    elif Path(path).exists() and not Path(path).is_socket():
        reason = reason or "something else has that name"
    if reason:
        raise StartError(f"cannot listen on {path}: {reason}")


def with_listen_address(config: Config, port: int | None, now: Config | None) -> Config:
    """`config` with the address to listen on.

    `port` overrides the configured one; port 0 is any free one. `now`: the configuration of a running gateway. Raises
    StartError if the address cannot be used, or cannot follow the present one without a pause.
    """
    host, chosen = parse_address(config.listen)
    chosen = chosen if port is None else port
    if now is not None:
        host_now, port_now = parse_address(now.listen)
        if host == host_now and chosen in (0, port_now):
            return msgspec.structs.replace(config, listen=now.listen)
        if chosen == port_now:
            raise StartError(f"{host}:{chosen} and {host_now}:{port_now} cannot follow one another without a pause: "
                             "take another port, or restart")
    chosen = resolve_port(host, chosen)
    return msgspec.structs.replace(config, listen=format_address(host, chosen))


def reachable_host(host: str) -> str:
    """The host by which this machine reaches a listener on `host`."""
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)


def _reason(host: str, port: int, error: OSError) -> str:
    where = format_address(host, port)
    if error.errno == errno.EADDRINUSE:
        return (f"port {port} is taken: another program listens on {where}. Stop it, or choose another port, "
                f"for instance --port {_free_near(host, port)}")
    if error.errno == errno.EACCES:
        return f"not allowed to listen on {where}: ports below 1024 need privileges; choose a higher one with --port"
    return f"cannot listen on {where}: {error.strerror or error}"


def _free_near(host: str, port: int) -> int:
    return next((other for other in range(port + 1, min(port + 50, 65536)) if is_port_free(host, other)), 0)


def _bind_and_listen(host: str, port: int) -> socket.socket:
    family, kind, protocol, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
        # bind alone succeeds on an address that is bound but not listened on.
        bound.listen(1)
    except OSError:
        bound.close()
        raise
    return bound
