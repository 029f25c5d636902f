"""gpt-oss: the harmony format, whose messages name their channel and recipient in a header.

`<|start|>assistant<|channel|>analysis<|message|>...<|end|>` is reasoning. The channels `final` and `commentary` without
a recipient are visible text, and so are messages that are for no tool (`to=assistant`). A message with
`to=functions.NAME`, in the header of the role or of the channel, on any channel, is a call that ends with `<|call|>`;
to a tool that is not offered it is text as a whole. There is one call per message. The first header may lack the part
that the prompt contained. Messages are read without tools, too. An invalid header is text.
"""

from __future__ import annotations

import re

from extproc.dialects.buffer import Marks, Steps, discard
from extproc.dialects.call_writer import MAX_VALUE, CallWriter
from extproc.dialects.dialect import Dialect
from extproc.dialects.json.body import read_arguments
from extproc.dialects.parse_context import NoMatch, ParseContext, PlainText

_ENDS = Marks(["<|end|>", "<|call|>", "<|return|>", "<|start|>", "<|channel|>"])
_NEXT = ("<|start|>", "<|channel|>")
_HEADER_ENDS = Marks(["<|message|>", "<|end|>", "<|call|>", "<|return|>", "<|start|>", "\n"])
_MAX_HEADER = 512
_CHANNELS = ("analysis", "commentary", "final")
_RECIPIENT = re.compile(r"\bto=([^\s<]+)")
_NO_TOOLS = frozenset({"assistant", "user", "all"})
"""Recipients that are no tools, unless a tool of that name is offered."""
_CHANNEL = re.compile(r"(?:^|<\|channel\|>)\s*(analysis|commentary|final)\b")


class HarmonyMessage:
    """Reads one message. Of a message with visible text it only consumes the header."""

    openers: tuple[str, ...] = ("<|channel|>", "<|start|>")
    closers = ("<|end|>", "<|call|>", "<|return|>")

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        channel, recipient = yield from self._header(opener, io)
        yield from self._message(channel, recipient, io)

    def _message(self, channel: str, recipient: str | None, io: ParseContext) -> Steps[None]:
        """Reads a message after its header."""
        if recipient is not None:
            yield from self._call(recipient, io)
        else:
            io.buffer.commit()
            if channel == "analysis":
                yield from self._reasoning(io)

    def _header(self, opener: str, io: ParseContext) -> Steps[tuple[str, str | None]]:
        """Reads the channel and the recipient of a message. Raises NoMatch for anything but a header."""
        buffer = io.buffer
        known = _CHANNELS if opener == "<|channel|>" else ("assistant", "<|channel|>")
        yield from buffer.space()
        before = yield from buffer.literal(*known)
        if not before:
            raise NoMatch
        pieces = [before]
        yield from self._collect(io, pieces)
        header = "".join(pieces)
        if opener == "<|start|>" and header.strip() != "assistant" and not _CHANNEL.search(header) \
                and not _RECIPIENT.search(header):
            raise NoMatch
        return _meaning(header, io)

    def _collect(self, io: ParseContext, pieces: list[str]) -> Steps[None]:
        """Reads the rest of the header, through `<|message|>`. Raises NoMatch if it is too long or breaks off."""

        def keep(piece: str) -> None:
            pieces.append(piece)
            if sum(map(len, pieces)) > _MAX_HEADER:
                raise NoMatch

        if (yield from io.buffer.until(_HEADER_ENDS, keep)) != "<|message|>":
            raise NoMatch

    def _reasoning(self, io: ParseContext) -> Steps[None]:
        io.begin_thinking()
        mark = yield from io.buffer.until(_ENDS, io.emit_thinking)
        if mark in _NEXT:
            io.buffer.push_back(mark)

    def _call(self, recipient: str, io: ParseContext) -> Steps[None]:
        """Reads the message of a call, through its closing mark. Text after the arguments is content."""
        buffer = io.buffer
        if io.find_tool(recipient) is None:  # the whole message is text
            yield from buffer.until(_ENDS, discard)
            raise PlainText
        writer = io.begin_call(recipient)
        yield from buffer.space()
        mark = yield from buffer.peek()
        if mark in ("{", '"'):
            whole = yield from read_arguments(io, writer, _ENDS)
            if not whole and buffer.ran_out:
                return
            if whole:  # the closing token may be missing: output that follows need not wait for the end of the text
                writer.close()
            mark = yield from buffer.until(_ENDS, io.emit_text)
            writer.close()
        else:
            mark = yield from self._other_arguments(io, writer)
        if mark in _NEXT:
            buffer.push_back(mark)

    def _other_arguments(self, io: ParseContext, writer: CallWriter) -> Steps[str]:
        """Reads arguments that are no JSON object: nothing, or text that the repair may understand."""
        raw, mark = yield from io.buffer.collect(_ENDS, MAX_VALUE)
        if mark or io.buffer.clean:
            writer.write_arguments(raw)
            writer.close()
        return mark


def _meaning(header: str, io: ParseContext) -> tuple[str, str | None]:
    """The channel of a message and its recipient. If there are several channels, the last one counts."""
    channels = _CHANNEL.findall(header)
    found = _RECIPIENT.search(header)
    recipient = found[1] if found else None
    if recipient in _NO_TOOLS and io.find_tool(recipient) is None:
        recipient = None
    return channels[-1] if channels else "final", recipient


class FirstHarmonyHeader(HarmonyMessage):
    """Reads the first message of a response whose prompt ended with `<|start|>assistant`: its header begins with the
    recipient (`to=functions.NAME<|channel|>commentary json<|message|>`)."""

    openers: tuple[str, ...] = ("to=", "assistant to=")

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        pieces = ["to="]
        yield from self._collect(io, pieces)
        channel, recipient = _meaning("".join(pieces), io)
        yield from self._message(channel, recipient, io)


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="gpt-oss", frames=(HarmonyMessage(),), opening_forms=(FirstHarmonyHeader(),),
            think=(("<|channel|>analysis<|message|>", "<|end|>"),), turn_ends=("<|return|>",)),
)
