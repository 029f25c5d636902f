"""HEADERS and CONTINUATION -> a new stream with its call, or a refusal; trailers of the client.

A violation of HTTP/2 ends the stream or the connection with an error code. A valid request that is no gRPC call of ours
gets a response.
"""

from __future__ import annotations

from extproc.transport.http2.abuse_budget import CONTINUATIONS, COST_LATE, COST_REFUSED
from extproc.transport.http2.headers import Head, Headers, MalformedError, check_trailers, refusal
from extproc.transport.http2.interfaces import ConnectionState, HeaderBlock
from extproc.transport.http2.stream import Stream
from extproc.transport.http2.wire import (
    END_HEADERS,
    END_STREAM,
    HAS_PRIORITY,
    PADDED,
    Code,
    ProtocolError,
    StreamError,
    rst_stream,
)
from extproc.transport.rpc import Status


def headers(connection: ConnectionState, flags: int, stream_id: int, payload: bytes) -> None:
    """A HEADERS frame. Raises ProtocolError or StreamError."""
    if not stream_id % 2:
        raise ProtocolError(Code.PROTOCOL_ERROR, "clients use odd stream numbers")
    start, end = 0, len(payload)
    if flags & PADDED:
        if not payload:
            raise ProtocolError(Code.FRAME_SIZE_ERROR, "HEADERS are too short")
        start, end = 1, end - payload[0]
    if flags & HAS_PRIORITY:
        start += 5
    if start > end:
        raise ProtocolError(Code.PROTOCOL_ERROR, "more padding than payload")
    if flags & END_HEADERS:
        _on_block(connection, stream_id, flags, payload[start:end])
    else:
        connection.header_block, connection.accepts_any_frame = HeaderBlock(stream_id, flags, payload[start:end]), False


def continuation(connection: ConnectionState, flags: int, _stream_id: int, payload: bytes) -> None:
    """A CONTINUATION frame, which the connection accepts only inside a block of the same stream. Raises ProtocolError
    or StreamError."""
    block = connection.header_block
    if block is None:
        raise ProtocolError(Code.PROTOCOL_ERROR, "CONTINUATION of nothing")
    block.parts.append(payload)
    block.size += len(payload)
    if block.size > connection.limits.header_block or len(block.parts) > CONTINUATIONS:
        raise ProtocolError(Code.ENHANCE_YOUR_CALM, "too many headers")
    if flags & END_HEADERS:
        connection.header_block, connection.accepts_any_frame = None, True
        _on_block(connection, block.stream_id, block.flags, b"".join(block.parts))


def _on_block(connection: ConnectionState, stream_id: int, flags: int, block: bytes) -> None:
    """A complete header block. `flags`: those of its HEADERS frame."""
    fields = connection.reader.read(block)
    stream = connection.streams.get(stream_id)
    if stream is not None:
        _on_trailers(stream, flags, fields)
    elif stream_id <= connection.last_id:
        if any(name == b":method" for name, _ in fields.fields):
            raise ProtocolError(Code.PROTOCOL_ERROR, "a request on a closed stream")
        connection.spend(COST_LATE)  # trailers that crossed our end of the stream
    elif stream_id <= connection.last_served:
        connection.last_id = stream_id
        _open(connection, stream_id, flags, fields)
    else:
        connection.spend(COST_LATE)  # it crossed our GOAWAY: the peer knows that it is not served


def _on_trailers(stream: Stream, flags: int, fields: Headers) -> None:
    if stream.remote_ended:
        raise StreamError(stream.id, Code.STREAM_CLOSED, "HEADERS after the end")
    if not flags & END_STREAM:
        raise StreamError(stream.id, Code.PROTOCOL_ERROR, "trailers that do not end the stream")
    try:
        check_trailers(fields.fields)
    except MalformedError as error:
        raise StreamError(stream.id, Code.PROTOCOL_ERROR, f"malformed: {error}") from error
    stream.remote_ended = True
    stream.deliver_messages()


def _open(connection: ConnectionState, stream_id: int, flags: int, fields: Headers) -> None:
    if len(connection.streams) >= connection.limits.streams:
        raise StreamError(stream_id, Code.REFUSED_STREAM, "too many streams")
    try:
        head = fields.head()
    except MalformedError as error:
        raise StreamError(stream_id, Code.PROTOCOL_ERROR, f"malformed: {error}") from error
    if head.status != 200:
        connection.spend(COST_REFUSED)
        connection.out.send_headers(stream_id, END_STREAM, refusal(head.status))
        if not flags & END_STREAM:
            connection.out.send_control(rst_stream(stream_id, Code.NO_ERROR))
        return
    stream = Stream(stream_id, connection, connection.out, connection.limits.stream_window)
    stream.remote_ended = bool(flags & END_STREAM)
    connection.streams[stream_id] = stream
    refused = _reason_to_refuse(connection, head, fields)
    if refused is not None:
        stream.end(*refused)
        connection.spend(COST_REFUSED)
        return
    if head.timeout is not None:
        due = connection.now + head.timeout
        connection.deadlines[stream.id] = due
        connection.next_deadline = min(connection.next_deadline, due)
    try:
        stream.call = connection.methods[head.path](head.metadata, stream)
    except Exception as error:  # other streams must not suffer from it
        connection.on_call_crashed(stream, error)
        return
    stream.deliver_messages()


def _reason_to_refuse(connection: ConnectionState, head: Head, fields: Headers) -> tuple[Status, str] | None:
    if fields.size > connection.limits.header_list:
        return Status.RESOURCE_EXHAUSTED, f"metadata of more than {connection.limits.header_list} bytes"
    if head.path not in connection.methods:
        return Status.UNIMPLEMENTED, f"no method {head.path}"
    if head.timeout is not None and head.timeout < 0:
        return Status.INTERNAL, "malformed grpc-timeout"
    if head.timeout == 0:
        return Status.DEADLINE_EXCEEDED, "the deadline is over"
    return None
