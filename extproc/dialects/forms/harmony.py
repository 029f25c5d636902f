"""gpt-oss: the harmony format, messages that name their channel and recipient in a header.

`<|start|>assistant<|channel|>analysis<|message|>...<|end|>` is reasoning, `final` and `commentary` without a recipient
are visible text, as is what is for no tool (`to=assistant`). A message with `to=functions.NAME`, in the header of the
role or of the channel and on any channel, is a call that ends with `<|call|>`; to a tool that is not offered it is text
to the letter. The first header may be shortened by what the prompt already held. One call a message. The frames are
read without tools, too; a header that is none is text.
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
"""Recipients that are no tools, unless one of that name is offered."""
_CHANNEL = re.compile(r"(?:^|<\|channel\|>)\s*(analysis|commentary|final)\b")


class HarmonyMessage:
    """One message from its header on. The form consumes the header of visible text and leaves the text alone."""

    openers: tuple[str, ...] = ("<|channel|>", "<|start|>")
    closers = ("<|end|>", "<|call|>", "<|return|>")

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        channel, recipient = yield from self._header(opener, io)
        yield from self._message(channel, recipient, io)

    def _message(self, channel: str, recipient: str | None, io: ParseContext) -> Steps[None]:
        """A message behind its header."""
        if recipient is not None:
            yield from self._call(recipient, io)
        else:
            io.buffer.commit()
            if channel == "analysis":
                yield from self._reasoning(io)

    def _header(self, opener: str, io: ParseContext) -> Steps[tuple[str, str | None]]:
        """The channel and the recipient of a message. Raises NoMatch for anything but a header."""
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
        """The rest of the header, through `<|message|>`; too long a one, or one that breaks off, is none."""

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
        """The message of a call, through the mark that ends it; text behind the arguments is content."""
        buffer = io.buffer
        if io.find_tool(recipient) is None:  # the whole message is text, to the letter
            yield from buffer.until(_ENDS, discard)
            raise PlainText
        writer = io.begin_call(recipient)
        yield from buffer.space()
        mark = yield from buffer.peek()
        if mark in ("{", '"'):
            whole = yield from read_arguments(io, writer, _ENDS)
            if not whole and buffer.ran_out:
                return
            if whole:  # its token may have been taken out: what comes beside the text need not wait for the end
                writer.close()
            mark = yield from buffer.until(_ENDS, io.emit_text)
            writer.close()
        else:
            mark = yield from self._other_arguments(io, writer)
        if mark in _NEXT:
            buffer.push_back(mark)

    def _other_arguments(self, io: ParseContext, writer: CallWriter) -> Steps[str]:
        """Arguments that are no JSON object: nothing, or text that the repair may make sense of."""
        raw, mark = yield from io.buffer.collect(_ENDS, MAX_VALUE)
        if mark or io.buffer.clean:
            writer.write_arguments(raw)
            writer.close()
        return mark


def _meaning(header: str, io: ParseContext) -> tuple[str, str | None]:
    """The channel of a message and the tool that it is for. Of several channels the last one counts."""
    channels = _CHANNEL.findall(header)
    found = _RECIPIENT.search(header)
    recipient = found[1] if found else None
    if recipient in _NO_TOOLS and io.find_tool(recipient) is None:
        recipient = None
    return channels[-1] if channels else "final", recipient


class FirstHarmonyHeader(HarmonyMessage):
    """The first message of an answer whose prompt already held `<|start|>assistant`: its header begins with the
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
