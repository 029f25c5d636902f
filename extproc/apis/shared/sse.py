"""Server-sent events: bytes in any cut -> (event name, data) pairs.

Used by every decoder of a streamed response. It reads the framing of the WHATWG specification (LF, CRLF, lone CR, a
byte order mark, comments, several data lines, fields without a space) and two deviations of providers: a last event
without its blank line, and bare JSON on lines of its own (an error that bypassed the framing; Google's spans several
lines). It never parses the data. Each byte is read once: the cost is linear whatever the cut.
"""

from __future__ import annotations

from extproc.bounds import Limits

LF, _CR = 0x0A, 0x0D
"""As numbers: `bytes in bytes` raises an exception internally first and takes six times as long."""
_BOM = b"\xef\xbb\xbf"
_JSON_BEGINS = (b"{", b"[")
_JSON_CONTINUES = (b" ", b"\t", b"}", b"]", b'"')
"""The first characters of further lines of pretty-printed JSON. No field of an event begins with them."""

SseEvent = tuple[bytes, bytes]
"""(event name, b"" when absent; data, lines joined by LF)"""


class SseReader:
    """One stream. `feed` and `finish` return the events that became complete. If a line, together with the data lines
    of its event before it, is longer than the limit, `too_long` is set and nothing more is read. Events before it are
    still returned, so that the cut of the chunks changes nothing."""

    __slots__ = ("_bare", "_data", "_event", "_held", "_limit", "_possible_bom", "_skip_lf", "_tail", "_tail_size",
                 "cut_off", "too_long")

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
        self.cut_off = False
        """The stream ended inside a line of an event."""

    def feed(self, chunk: bytes) -> list[SseEvent]:
        if self._possible_bom:
            if chunk and chunk[0] != _BOM[0] and not self._tail:
                self._possible_bom = False
            else:
                chunk = self._strip_bom(chunk)
        if self._skip_lf and chunk:
            self._skip_lf = False
            if chunk[0] == LF:
                chunk = chunk[1:]
        if not chunk or self.too_long:
            return []
        if not self._tail and not self._data and len(chunk) <= self._limit \
                and (events := self._whole_events(chunk)) is not None:
            self._event = b""
            return events
        out: list[SseEvent] = []
        self._lines(chunk, out)
        return out

    def _whole_events(self, chunk: bytes) -> list[SseEvent] | None:
        """The usual case: only whole events of one data line each, all with a name before it or all without one. None
        in any other case."""
        ending = b"\r\n\r\n" if _CR in chunk else b"\n\n"
        if not chunk.endswith(ending):
            return None
        if chunk.startswith(b"event: "):
            return _named_events(chunk[:-2].split(b"\n\n"))
        if not chunk.startswith(b"data: "):
            return None
        end = len(chunk) - len(ending)
        if chunk.find(b"\n") == end:
            return [(self._event, chunk[6:end])]
        events: list[SseEvent] = []
        name = self._event
        for data in chunk[6:end].split(ending + b"data: "):
            if LF in data or _CR in data:
                return None
            events.append((name, data))
            name = b""
        return events

    def finish(self) -> list[SseEvent]:
        """The stream ended: the last line and the last event count even without their line ends."""
        out: list[SseEvent] = []
        if self.too_long:
            return out
        if self._tail:
            line = b"".join(self._tail)
            self._tail = []
            self._line(line, out)
            holds_data = bool(self._data and self._data[-1].strip())
            self.cut_off = not holds_data and (line.startswith((b"data:", b"event:")) or b"data:".startswith(line)
                                               or b"event:".startswith(line))
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
        if LF not in chunk and _CR not in chunk:
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
            self._line(line.rstrip(b"\r\n") if line[-1] == LF else line[:-1], out)
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
        elif line[:1] in _JSON_BEGINS or (self._bare and line[:1] in _JSON_CONTINUES):
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


def _named_events(blocks: list[bytes]) -> list[SseEvent] | None:
    """The events of blocks of two lines each; None if one of them has another form."""
    events: list[SseEvent] = []
    for block in blocks:
        name, _, data = block.partition(b"\n")
        if not name.startswith(b"event: ") or not data.startswith(b"data: ") or LF in data or _CR in block:
            return None
        events.append((name[7:].strip(), data[6:]))
    return events
