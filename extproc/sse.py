"""Server-sent events: bytes in any cut -> (event name, data) pairs.

Used by every decoder of a streamed answer. It knows the framing of the WHATWG specification (LF, CRLF, lone CR, a byte
order mark, comments, several data lines, fields without a space) and two habits of providers: a last event without
its blank line, and bare JSON on lines of its own (an error that bypassed the framing; Google's spans several lines). It
never parses the data. Each byte is looked at once: the cost is linear whatever the cut.
"""

from __future__ import annotations

from extproc.limits import Limits

_BOM = b"\xef\xbb\xbf"
_JSON_BEGINS = (b"{", b"[")
_JSON_GOES_ON = (b" ", b"\t", b"}", b"]", b'"')
"""How the further lines of pretty-printed JSON begin; no field of an event does."""

SseEvent = tuple[bytes, bytes]
"""(event name, b"" when absent; data, lines joined by LF)"""


class SseReader:
    """One stream. `feed` and `finish` return the events that became complete. Once a line, together with the data
    lines of its event before it, is longer than the limit, `too_long` is set and nothing further is read: what came
    before it is still returned, so that the cut of the chunks changes nothing."""

    __slots__ = ("_bare", "_data", "_event", "_held", "_limit", "_possible_bom", "_skip_lf", "_tail", "_tail_size",
                 "too_long")

    def __init__(self, limit: int = Limits().sse_line) -> None:
        self._limit = limit
        self._tail: list[bytes] = []
        self._tail_size = 0
        self._data: list[bytes] = []
        self._held = 0  # bytes of the data lines of the open event
        self._event = b""
        self._bare = False  # the open event holds JSON without a field name before it
        self._skip_lf = False
        self._possible_bom = True
        self.too_long = False

    def feed(self, chunk: bytes) -> list[SseEvent]:
        if self._possible_bom:
            chunk = self._strip_bom(chunk)
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == 0x0A:
                chunk = chunk[1:]
        out: list[SseEvent] = []
        if not chunk or self.too_long:
            return out
        if not self._tail and not self._data and len(chunk) <= self._limit and self._is_one_event(chunk, out):
            return out
        self._lines(chunk, out)
        return out

    def _is_one_event(self, chunk: bytes, out: list[SseEvent]) -> bool:
        """The usual case: one whole event in one chunk, with its name before the data or without one."""
        breaks = chunk.count(b"\n")
        if breaks == 2 and chunk.startswith(b"data: "):
            returns = chunk.count(b"\r")
            ending = b"\n\n" if returns == 0 else b"\r\n\r\n" if returns == 2 else None
            if ending is None or not chunk.endswith(ending):
                return False
            out.append((self._event, chunk[6:-len(ending)]))
        elif breaks == 3 and chunk.startswith(b"event: ") and chunk.endswith(b"\n\n") and b"\r" not in chunk:
            name, _, data = chunk.partition(b"\n")
            if not data.startswith(b"data: "):
                return False
            out.append((name[7:].strip(), data[6:-2]))
        else:
            return False
        self._event = b""
        return True

    def finish(self) -> list[SseEvent]:
        """The stream ended: the last line and the last event count even without their line ends."""
        out: list[SseEvent] = []
        if self.too_long:
            return out
        if self._tail:
            line = b"".join(self._tail)
            self._tail = []
            self._line(line, out)
        self._dispatch(out)
        return out

    def _strip_bom(self, chunk: bytes) -> bytes:
        head = b"".join(self._tail) + chunk
        self._tail = []
        self._tail_size = 0
        if len(head) < len(_BOM) and _BOM.startswith(head):
            if head:
                self._tail = [head]
                self._tail_size = len(head)
            return b""
        self._possible_bom = False
        return head.removeprefix(_BOM)

    def _lines(self, chunk: bytes, out: list[SseEvent]) -> None:
        if b"\n" not in chunk and b"\r" not in chunk:
            self._keep(chunk)
            return
        if self._tail:
            chunk = b"".join([*self._tail, chunk])
            self._tail = []
            self._tail_size = 0
        lines = chunk.splitlines(keepends=True)
        last = lines[-1]
        if last.endswith(b"\r"):
            self._skip_lf = True
        elif not last.endswith(b"\n"):
            lines.pop()
        else:
            last = b""
        for line in lines:
            self._line(line.rstrip(b"\r\n") if line[-1] == 0x0A else line[:-1], out)
            if self.too_long:
                return
        if last and not self._skip_lf:
            self._keep(last)

    def _keep(self, piece: bytes) -> None:
        self._tail.append(piece)
        self._tail_size += len(piece)
        if self._held + self._tail_size > self._limit:
            self.too_long = True
            self._tail = []

    def _line(self, line: bytes, out: list[SseEvent]) -> None:
        if not line:
            self._dispatch(out)
        elif self._held + len(line) > self._limit:
            self.too_long = True
        elif line.startswith(b"data:"):
            self._data.append(line[6:] if line[5:6] == b" " else line[5:])
            self._held += len(line)
        elif line.startswith(b"event:"):
            self._event = line[6:].strip()
        elif line[:1] in _JSON_BEGINS or (self._bare and line[:1] in _JSON_GOES_ON):
            self._bare = True
            self._data.append(line)
            self._held += len(line)

    def _dispatch(self, out: list[SseEvent]) -> None:
        if self._data:
            out.append((self._event, b"\n".join(self._data)))
            self._data = []
        self._held = 0
        self._bare = False
        self._event = b""
