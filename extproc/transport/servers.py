"""The transport between Envoy and a worker: a name -> a server.

Only the chosen transport is imported. Everything above the seam (`extproc.transport.rpc`) is the same on both.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Protocol

from extproc.transport.rpc import Methods

VARIABLE = "EXTPROC_TRANSPORT"
TRANSPORTS = ("native", "grpcio")
"""The first one is the default."""

Log = Callable[..., None]
"""Writes one line of the log: an event name, then details by keyword."""


class Server(Protocol):
    """A transport that listens."""

    async def start(self, address: str) -> None:
        """Listens on `unix:/path` or `host:port`. Raises RuntimeError if the address cannot be used."""

    async def stop(self, grace: float) -> None:
        """Accepts nothing new and gives running streams `grace` seconds. May be called again with a shorter time."""


def chosen_transport() -> str:
    """The transport that the environment names, else the default. Raises ValueError."""
    name = os.environ.get(VARIABLE) or TRANSPORTS[0]
    if name not in TRANSPORTS:
        raise ValueError(f"{VARIABLE}: {name!r} is not a transport; known: {', '.join(TRANSPORTS)}")
    return name


def make_server(transport: str, methods: Methods, log: Log | None = None) -> Server:
    """A server of `methods` that does not listen yet. `log` receives broken connections."""
    if transport == "native":
        from extproc.transport.native import NativeServer

        return NativeServer(methods, log=log)
    from extproc.transport.grpcio_server import GrpcioServer

    return GrpcioServer(methods)
