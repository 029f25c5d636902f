"""Which transport carries the messages between Envoy and a worker: a name -> a server.

Only the chosen one is loaded. Everything above the seam (`extproc.transport.rpc`) is the same on both.
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
"""A line about the transport: its event, then details by name."""


class Server(Protocol):
    """A transport that listens."""

    async def start(self, address: str) -> None:
        """Listens on `unix:/path` or `host:port`. Raises RuntimeError when the address cannot be used."""

    async def stop(self, grace: float) -> None:
        """Takes nothing new and gives running streams `grace` seconds. May be called again with less patience."""


def chosen_transport() -> str:
    """What the environment asks for, else the default. Raises ValueError."""
    name = os.environ.get(VARIABLE) or TRANSPORTS[0]
    if name not in TRANSPORTS:
        raise ValueError(f"{VARIABLE}: {name!r} is no transport; there are {', '.join(TRANSPORTS)}")
    return name


def make_server(transport: str, methods: Methods, log: Log | None = None) -> Server:
    """A server of `methods` that does not listen yet. `log` hears of broken connections."""
    if transport == "native":
        from extproc.transport.native import NativeServer

        return NativeServer(methods, log=log)
    from extproc.transport.grpcio_server import GrpcioServer

    return GrpcioServer(methods)
