"""Turns with paired results -> messages without tool blocks.

An assistant's calls follow its own text. Their results begin the next user turn, in the order of the calls, followed by
the media of the results. All other blocks stay as they are, for the API's encoder.
"""

from __future__ import annotations

from collections.abc import Mapping

from extproc.conversation.model import Block, CacheMark, Media, Message, Text, ToolResult, longest_mark
from extproc.conversation.notes import NO_OUTPUT
from extproc.conversation.past_arguments import arguments_text
from extproc.conversation.tool_names import NameMap
from extproc.conversation.tool_results import Exchange, Turn
from extproc.dialects.writing.form import PastCall, PastResult, PromptForm


class TurnWriter:
    """Writes the turns of one conversation. `schemas`: the provider's name of each offered tool -> its schema."""

    def __init__(self, form: PromptForm, names: NameMap, schemas: Mapping[str, dict[str, object]]) -> None:
        self._form = form
        self._names = names
        self._schemas = schemas
        self._ordinal = 0
        self._out: list[Message] = []
        self._results: list[Block] = []
        """Results for the beginning of the next user turn."""

    def write(self, turns: list[Turn]) -> list[Message]:
        for turn in turns:
            if turn.role == "assistant":
                self._flush()
                self._assistant(turn)
            elif turn.role == "user":
                content, self._results = [*self._results, *turn.content], []
                self._out.append(Message("user", content))
            else:
                self._flush()
                self._out.append(Message("system", list(turn.content)))
        self._flush()
        return self._out

    def _flush(self) -> None:
        if self._results:
            self._out.append(Message("user", self._results))
            self._results = []

    def _assistant(self, turn: Turn) -> None:
        content: list[Block] = list(turn.content)
        if turn.exchanges:
            calls = [self._call(exchange, number) for number, exchange in enumerate(turn.exchanges, 1)]
            _append_calls(content, self._form, self._form.calls(calls),
                          longest_mark(*(exchange.call.cache for exchange in turn.exchanges)))
            self._results = self._written_results(turn.exchanges, calls)
        last = self._out[-1] if self._out else None
        if last is not None and last.role == "assistant":  # the user's turn between them was empty
            self._out[-1] = Message("assistant", [*last.content, *content])
        else:
            self._out.append(Message("assistant", content))

    def _call(self, exchange: Exchange, number: int) -> PastCall:
        call = exchange.call
        name = self._names.to_provider.get(call.name, call.name)
        ordinal, self._ordinal = self._ordinal, self._ordinal + 1
        return PastCall(name, arguments_text(call.arguments), ordinal, number, self._schemas.get(name, {}))

    def _written_results(self, exchanges: list[Exchange], calls: list[PastCall]) -> list[Block]:
        results: list[PastResult] = []
        media: list[Block] = []
        cached: CacheMark = False
        for exchange, call in zip(exchanges, calls, strict=True):
            found = exchange.result
            assert found is not None, "pair() answers every call"
            if found.cache:
                cached = longest_mark(cached, found.cache)
            text, attached = _result_content(found)
            results.append(PastResult(call, text, found.is_error))
            if attached:
                media += [Text(f"Attached to the result of {call.name} (call {call.number}):"), *attached]
        return [Text(self._form.results(results), cache=cached), *media]


def _append_calls(content: list[Block], form: PromptForm, calls: str, cached: CacheMark) -> None:
    """Appends the calls to the turn's own text, in the same block if that is the last one."""
    while content and isinstance(content[-1], Text) and not content[-1].text.strip():
        cached = longest_mark(cached, content[-1].cache)
        content.pop()
    last = content[-1] if content else None
    if isinstance(last, Text):
        content[-1] = Text(last.text + form.gap + calls, cache=longest_mark(cached, last.cache))
    else:
        content.append(Text(calls, cache=cached))


def _result_content(result: ToolResult) -> tuple[str, list[Media]]:
    """The text of a result, and its media."""
    texts: list[str] = []
    media: list[Media] = []
    for block in result.content:
        if isinstance(block, Text):
            texts.append(block.text)
        elif block.text is not None:
            texts.append("\n\n".join(filter(None, [block.title, block.context, block.text])))
        else:
            texts.append(f"[{block.kind} attached behind the results]")
            media.append(block)
    return "\n".join(filter(None, texts)) or NO_OUTPUT, media
