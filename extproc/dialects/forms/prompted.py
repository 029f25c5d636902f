"""The project's own form, for `style: prompted`: `<tool_call name="NAME"><parameter name="KEY">value
</parameter></tool_call>`. The grammar is in `extproc.dialects.writing.prompted`.

A raw value ends as in the other tag dialects (`tags/text.py`); a value in CDATA sections ends only at a `]]>` before
text that may follow a value. The attribute `type` decides if the schema leaves a choice; models copy it from the
definitions. Also read: any quotes or none, a call that closes itself, `invoke` for `tool_call`, one JSON object instead
of the parameters, missing closing tags. MiniCPM5 writes the same with `function` and `param`, and Python literals for
values that are no strings. Models that were trained on Hermes JSON, Qwen3-Coder's XML or Roo's XML tools fall back to
these forms, so they are read as well.
"""

from __future__ import annotations

import re

import msgspec

from extproc.dialects.buffer import Marks, Steps, TextBuffer, discard
from extproc.dialects.call_writer import CallWriter
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms.roo import make_line_forms
from extproc.dialects.forms.tagged_json import HERMES
from extproc.dialects.forms.tagged_text import QWEN_CODER
from extproc.dialects.json.body import read_arguments
from extproc.dialects.json.lenient import decode_json
from extproc.dialects.parse_context import NoMatch, ParseContext
from extproc.dialects.tags.headers import MAX_NAME
from extproc.dialects.tags.text import Tags, ValueReader
from extproc.dialects.tags.value import Framing, ParameterText

_CDATA = "<![CDATA["
_CDATA_END = "]]>"
_ATTRIBUTE = re.compile(r"""([\w-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|[“”]([^“”]*)[“”]|([^\s"'/>]+))""")
_ENTITY = re.compile(r"&(amp|lt|gt|quot|apos|#\d{1,7});")
_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'"}


class Header(msgspec.Struct, frozen=True):
    """The attributes of an opening tag. `name` is None if it is missing or the tag never ends. `raw`: the consumed
    text."""

    name: str | None
    kind: str | None
    """The attribute `type`."""
    empty: bool
    raw: str


def read_header(buffer: TextBuffer) -> Steps[Header]:
    """Reads the attributes of a tag, through its `>`."""
    raw = yield from buffer.take_while(lambda char: char not in "<>\r\n", MAX_NAME)
    if not (yield from buffer.literal(">")):
        return Header(None, None, False, raw)
    found = {match[1]: next((text for text in match.groups()[1:] if text is not None), "")
             for match in _ATTRIBUTE.finditer(raw)}
    name = _unescaped(found["name"]) if "name" in found else None
    return Header(name, found.get("type"), raw.endswith("/"), raw + ">")


def _read_name(buffer: TextBuffer) -> Steps[tuple[str | None, str]]:
    header = yield from read_header(buffer)
    return header.name, header.raw


def _unescaped(text: str) -> str:
    return _ENTITY.sub(_entity, text)


def _entity(found: re.Match[str]) -> str:
    name = found[1]
    if name[0] != "#":
        return _ENTITIES[name]
    code = int(name[1:])
    return chr(code) if code < 0xD800 or 0xDFFF < code < 0x110000 else found[0]


class PromptedCalls:
    """Reads calls with these names of the elements."""

    def __init__(self, element: str, parameter: str = "parameter") -> None:
        opener, closer = f"<{element} ", f"</{element}>"
        self._begins, self._ends = f"<{parameter} ", f"</{parameter}>"
        outer = (opener, closer)
        self.openers: tuple[str, ...] = (opener,)
        self.closers = (closer,)
        self._opener, self._closer = outer
        self._marks = Marks([*outer, self._begins])
        self._tags = Tags(begins=(), ends=(), call=opener, call_end=closer, outer=outer, parameter=self._begins,
                          parameter_end=self._ends, marks=Marks([*outer, self._begins, self._ends]),
                          name=_read_name, key=_read_name, framing="newline")
        self._dropped = Marks([self._ends, closer])
        self._in_section = Marks([_CDATA_END, self._ends])

    def read(self, opener: str, io: ParseContext) -> Steps[None]:
        buffer = io.buffer
        header = yield from read_header(buffer)
        if header.name is None or io.find_tool(header.name) is None:
            raise NoMatch
        if header.empty:
            io.begin_call(header.name).close()
            return
        yield from buffer.space()
        follows = yield from buffer.literal(self._begins, self._closer)
        buffer.push_back(follows)
        if not follows and (yield from buffer.peek()) != "{" and not buffer.truncated_mark(self._marks) \
                and not (buffer.ran_out and io.at_line_start):
            raise NoMatch
        yield from self._parameters(io, io.begin_call(header.name))

    def _parameters(self, io: ParseContext, writer: CallWriter) -> Steps[None]:
        """Reads the parameters, to the end of the call. Anything but a tag is text after a call that was not closed."""
        buffer = io.buffer
        alone = True
        while True:
            yield from buffer.space()
            mark = yield from buffer.literal(self._closer, self._opener, self._begins)
            if mark == self._begins:
                alone = False
                if not (yield from self._parameter(io, writer)):
                    return
                continue
            if not mark and alone and (yield from buffer.peek()) == "{":
                alone = False
                if not (yield from read_arguments(io, writer, self._marks)):
                    return
                continue
            if mark == self._opener:
                buffer.push_back(mark)
            half = buffer.partial_mark(self._marks) if buffer.truncated_mark(self._marks) else ""
            if half:
                buffer.at = len(buffer.buffer)
                if not self._closer.startswith(half):
                    writer.break_off()  # the next parameter or call had begun
            elif mark:
                writer.close()
            return

    # ------------------------------------------------------------------------------------------------------- values

    def _parameter(self, io: ParseContext, writer: CallWriter) -> Steps[bool]:
        """Reads one parameter after its opening tag. False if the text ended inside."""
        buffer = io.buffer
        header = yield from read_header(buffer)
        key = header.name
        if key is None:
            if buffer.ran_out and not buffer.clean:
                writer.break_off()
                return False
            writer.note_repair("dropped_parameter")
            if (yield from buffer.until(self._dropped, discard)) == self._closer:
                buffer.push_back(self._closer)
            return True
        value = _TypedText(writer, key, header.kind)
        if header.empty:
            yield from value.open(buffer)
            value.close()
            return True
        blank = yield from buffer.space()
        if not (yield from buffer.literal(_CDATA)):
            buffer.push_back(blank)
            return (yield from ValueReader(self._tags, io, writer, key, value).read())
        section = _TypedText(writer, key, header.kind, framing="verbatim")
        yield from section.open(buffer)
        return (yield from self._sections(buffer, writer, section))

    def _sections(self, buffer: TextBuffer, writer: CallWriter, value: ParameterText) -> Steps[bool]:
        """Reads CDATA sections from after the first opener. A closing mark without fitting text after it is data:
        models forget to split it. They also forget `]]>` itself, which is known only if the text ends after the
        call."""
        while True:
            mark = yield from buffer.until(self._in_section, value.add)
            if not mark:
                writer.break_off()
                return False
            blank = yield from buffer.space()
            if mark == self._ends:
                closer = yield from buffer.literal(self._closer)
                rest = yield from buffer.space()
                if closer and buffer.ran_out:
                    writer.note_repair("unclosed_value")
                    break
                buffer.push_back(rest)
                value.add(mark + blank + closer)
                continue
            follows = yield from buffer.literal(self._ends, _CDATA, self._closer, self._begins)
            if follows == _CDATA:
                continue
            if follows in (self._closer, self._begins):
                buffer.push_back(follows)
            if follows or buffer.ran_out:
                break
            value.add(mark)
            buffer.push_back(blank)
        value.close()
        return True


class _TypedText(ParameterText):
    """A value with an attribute `type`."""

    def __init__(self, writer: CallWriter, key: str, kind: str | None, framing: Framing = "newline") -> None:
        super().__init__(writer, key, framing)
        self._kind = kind
        self.streams = self.streams and kind != "json"

    def write_whole(self, text: str) -> None:
        declared = self._writer.parameter(self._key)
        if self._kind == "string" and declared.types & {"string", "any"}:
            self._writer.write_value(self._key, text)
            return
        if self._kind == "json":
            try:
                self._writer.write_value(self._key, decode_json(text.strip()))
            except ValueError:
                pass
            else:
                return
        self._writer.write_text(self._key, text)


DIALECTS: tuple[Dialect, ...] = (
    Dialect(name="minicpm5", forms=(PromptedCalls("function", "param"),), turn_ends=("<|im_end|>",)),
    Dialect(name="prompted", unambiguous=False, factories=(make_line_forms,),
            forms=(PromptedCalls("tool_call"), PromptedCalls("invoke"), HERMES, QWEN_CODER)),
)
