"""The smallest HTTP/2 server that is correct for gRPC's streaming calls: bytes of a connection in, bytes out, no I/O.

`Connection` reads frames and runs the calls of `extproc.transport.rpc`. `extproc.transport.native` supplies the socket
and the time. Only cleartext with prior knowledge: no push, no upgrade from HTTP/1, no compressed messages. Priorities
are ignored, and `content-length` is not compared with the body, because gRPC messages carry their own lengths. Rules
come from RFC 9113 (HTTP/2), RFC 7541 (HPACK) and "gRPC over HTTP2".
"""

from extproc.transport.http2.abuse_budget import ConnectionLimits
from extproc.transport.http2.connection import Connection

__all__ = ["Connection", "ConnectionLimits"]
