"""What to look for in an answer, and what follows from it for every answer alike: openers, tags and marks.

A `ScanPlan` is put together once per model (`registry`); here it is laid out once for the same offered tools, so that a
`Scanner` begins with nothing to prepare. It reads no text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from extproc.dialects.buffer import Marks
from extproc.dialects.parse_context import ParserFactory, ToolCallParser
from extproc.dialects.text_marks import CLOSER, FENCES, OPENER


class ScanPlan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What to look for in one answer. Two are the same when they are one object: what follows from it is kept."""

    forms: tuple[ToolCallParser, ...] = ()
    makers: tuple[ParserFactory, ...] = ()
    """Forms whose openers depend on the tools that are offered."""
    first: tuple[ToolCallParser, ...] = ()
    """Forms that may only begin the answer (bare JSON, Python lists); their openers are characters, not markers."""
    think: tuple[tuple[str, str], ...] = (("<think>", "</think>"),)
    """Tags of reasoning."""
    answers: tuple[str, ...] = ()
    """Tokens that begin the visible text, and end a reasoning that was not closed."""
    wraps: tuple[tuple[str, str], ...] = ()
    """Tags around the whole visible text."""
    think_anywhere: bool = False
    """Reasoning may begin anywhere, not only at the very start."""
    reasoning_open: bool = False
    """The prompt already opened the reasoning: the answer begins inside it."""
    reasoning_assumed: bool = False
    """That is so for this model's own template, but nobody said that this server leaves the reasoning in."""
    only_beginning: bool = False
    """Nothing but reasoning at the very start is looked for; all other text passes as it is."""
    noise: tuple[str, ...] = ()
    """Tokens of the template that are dropped wherever they stand."""
    ends: tuple[str, ...] = ()
    """Tokens that end a turn: dropped where no text follows (`end_of_turn`)."""
    name_of: Callable[[object], str] = lambda form: "other"
    """The name of the dialect that a form, or what made it, belongs to: for the counts of calls."""

    @property
    def reads_calls(self) -> bool:
        """Whether calls may be found."""
        return bool(self.forms or self.makers or self.first)


class CompiledScanPlan:
    """Of one `ScanPlan` and the names of the tools that are offered. Nothing in it is ever changed."""

    __slots__ = ("answers", "behind_end", "blocks", "call_closers", "closers", "content_marks", "ends", "makers",
                 "openers", "opening_marks", "reasoning_marks", "think_closers", "think_openers", "wraps")

    def __init__(self, look: ScanPlan, names: tuple[str, ...]) -> None:
        made = [(form, make) for make in look.makers for form in make(names)]
        self.makers: dict[int, ParserFactory] = {id(form): make for form, make in made}
        """What made a form, by the form's identity."""
        self.openers: dict[str, list[ToolCallParser]] = {}
        for form in (*look.forms, *(form for form, _ in made)):
            for opener in form.openers:
                self.openers.setdefault(opener, []).append(form)
        self.blocks: dict[str, tuple[str, ...]] = {}
        """The openers of blocks, each with the tokens that close it."""
        self.call_closers: dict[str, tuple[str, ...]] = {}
        """Openers, each with the tokens that close the blocks or calls of its forms."""
        for form in (*look.forms, *(form for form, _ in made)):
            pairs = _blocks_of(form)
            closers: tuple[str, ...] = getattr(form, "closers", ())
            closers = (*(closer for _, closer in pairs), *closers)
            for opener in form.openers:
                self.call_closers[opener] = tuple(dict.fromkeys((*self.call_closers.get(opener, ()), *closers)))
            for opener, closer in pairs:
                self.blocks[opener] = (*self.blocks.get(opener, ()), closer)
        self.think_openers = dict(look.think)
        self.answers = frozenset(look.answers)
        self.think_closers = self.answers.union(closer for _, closer in look.think)
        self.wraps = dict(look.wraps)
        self.ends = frozenset(look.ends) - self.think_closers
        self.behind_end = (*look.ends, *look.noise, *self.think_closers, *self.openers)
        """What is no text and may stand behind a token that ends a turn."""
        always = {*self.openers, *self.think_closers, *look.noise, *look.ends}
        self.closers = frozenset((CLOSER,) if OPENER in self.openers else ()) - always
        """What may be left of a native call."""
        self.content_marks = Marks(() if look.only_beginning else always.union(
            FENCES, self.closers, self.wraps.values(), self.think_openers if look.think_anywhere else ()))
        self.reasoning_marks = Marks(always.union(FENCES, self.think_openers))
        self.opening_marks = Marks({*self.content_marks.options, *self.think_openers, *self.think_closers, *self.wraps,
                                    *(opener for form in look.first for opener in form.openers)})
        """All that may stand at the very start of the content."""


def _blocks_of(form: ToolCallParser) -> tuple[tuple[str, str], ...]:
    """The blocks that a form declares (see `ToolCallParser`)."""
    found: tuple[tuple[str, str], ...] = getattr(form, "blocks", ())
    return found


@lru_cache(maxsize=64)
def compiled(look: ScanPlan, names: tuple[str, ...]) -> CompiledScanPlan:
    """The same for answer after answer: with hundreds of tools it takes milliseconds. `names` matter where the look has
    makers."""
    return CompiledScanPlan(look, names)
