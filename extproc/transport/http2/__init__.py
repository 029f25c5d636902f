"""The smallest HTTP/2 server that is correct for gRPC's streaming calls: bytes of a connection in, bytes out, no I/O.

`Connection` reads frames and runs the calls of `extproc.transport.rpc`; `extproc.transport.native` gives it a socket
and the time. Cleartext with prior knowledge only, no push, no upgrade from HTTP/1, no compressed messages; priorities
mean nothing and `content-length` is not compared with what comes (gRPC messages have their own lengths). Rules come
from RFC 9113 (HTTP/2), RFC 7541 (HPACK) and "gRPC over HTTP2".
"""

from extproc.transport.http2.abuse_budget import Limits
from extproc.transport.http2.connection import Connection

__all__ = ["Connection", "Limits"]
