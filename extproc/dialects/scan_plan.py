"""What a response is scanned for: openers, tags and marks.

`registry` makes one `ScanPlan` per model. `compile_plan` derives sets of marks from it once for the same offered tools,
so that a `Scanner` starts without preparation. Nothing here reads text.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import msgspec

from extproc.dialects.buffer import Marks
from extproc.dialects.parse_context import ParserFactory, ToolCallParser
from extproc.dialects.text_marks import CLOSER, FENCES, OPENER


class ScanPlan(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """What to scan one response for. Compared by identity, which is the cache key of `compile_plan`."""

    forms: tuple[ToolCallParser, ...] = ()
    """Parsers whose openers may occur anywhere."""
    factories: tuple[ParserFactory, ...] = ()
    """Factories of parsers whose openers depend on the offered tools."""
    opening_forms: tuple[ToolCallParser, ...] = ()
    """Parsers for the very start of the response (bare JSON, Python lists). Their openers are ordinary characters."""
    think: tuple[tuple[str, str], ...] = (("<think>", "</think>"),)
    """Tags around reasoning."""
    text_openers: tuple[str, ...] = ()
    """Tokens that begin the visible text and end reasoning that was not closed."""
    text_tags: tuple[tuple[str, str], ...] = ()
    """Tags around the whole visible text."""
    think_anywhere: bool = False
    """Reasoning may begin anywhere, not only at the very start."""
    reasoning_open: bool = False
    """The prompt opened the reasoning: the response begins inside it."""
    reasoning_assumed: bool = False
    """`reasoning_open` follows from the model's template, but the server may have removed the reasoning."""
    only_beginning: bool = False
    """Only reasoning at the very start is recognised; all other text passes unread."""
    template_tokens: tuple[str, ...] = ()
    """Tokens of the template that are dropped everywhere."""
    turn_ends: tuple[str, ...] = ()
    """Tokens that end a turn. They are dropped if no text follows (`text_marks.read_turn_end`)."""
    name_of: Callable[[object], str] = lambda parser: "other"
    """A parser or factory -> the name of its dialect, for the counts of calls."""

    @property
    def reads_calls(self) -> bool:
        """True if calls may be found."""
        return bool(self.forms or self.factories or self.opening_forms)


class CompiledScanPlan:
    """The marks of one `ScanPlan` with the names of the offered tools. Immutable."""

    __slots__ = ("behind_turn_end", "blocks", "call_closers", "closers", "content_marks", "factories", "openers",
                 "opening_marks", "reasoning_marks", "text_openers", "text_tags", "think_closers", "think_openers",
                 "turn_ends")

    def __init__(self, plan: ScanPlan, names: tuple[str, ...]) -> None:
        made = [(parser, factory) for factory in plan.factories for parser in factory(names)]
        parsers = (*plan.forms, *(parser for parser, _ in made))
        self.factories: dict[int, ParserFactory] = {id(parser): factory for parser, factory in made}
        """The factory of a parser, by the parser's identity."""
        self.openers: dict[str, list[ToolCallParser]] = {}
        """The parsers of each opener, in the order in which they are tried."""
        for parser in parsers:
            for opener in parser.openers:
                self.openers.setdefault(opener, []).append(parser)
        self.blocks: dict[str, tuple[str, ...]] = {}
        """The openers of blocks, each with its closers."""
        self.call_closers: dict[str, tuple[str, ...]] = {}
        """Openers, each with the closers of its parsers' blocks and calls."""
        for parser in parsers:
            pairs = _blocks_of(parser)
            closers: tuple[str, ...] = getattr(parser, "closers", ())
            closers = (*(closer for _, closer in pairs), *closers)
            for opener in parser.openers:
                self.call_closers[opener] = tuple(dict.fromkeys((*self.call_closers.get(opener, ()), *closers)))
            for opener, closer in pairs:
                self.blocks[opener] = (*self.blocks.get(opener, ()), closer)
        self.think_openers = dict(plan.think)
        self.text_openers = frozenset(plan.text_openers)
        self.think_closers = self.text_openers.union(closer for _, closer in plan.think)
        self.text_tags = dict(plan.text_tags)
        self.turn_ends = frozenset(plan.turn_ends) - self.think_closers
        self.behind_turn_end = (*plan.turn_ends, *plan.template_tokens, *self.think_closers, *self.openers)
        """Marks that may follow the end of a turn and are no text."""
        always = {*self.openers, *self.think_closers, *plan.template_tokens, *plan.turn_ends}
        self.closers = frozenset((CLOSER,) if OPENER in self.openers else ()) - always
        """Closing tags that a server may leave in the text after it took a native call out."""
        self.content_marks = Marks(() if plan.only_beginning else always.union(
            FENCES, self.closers, self.text_tags.values(), self.think_openers if plan.think_anywhere else ()))
        self.reasoning_marks = Marks(always.union(FENCES, self.think_openers))
        self.opening_marks = Marks({*self.content_marks.options, *self.think_openers, *self.think_closers,
                                    *self.text_tags,
                                    *(opener for parser in plan.opening_forms for opener in parser.openers)})
        """All marks that may stand at the very start of the content."""


def _blocks_of(parser: ToolCallParser) -> tuple[tuple[str, str], ...]:
    """The blocks that a parser declares (see `ToolCallParser`)."""
    found: tuple[tuple[str, str], ...] = getattr(parser, "blocks", ())
    return found


@lru_cache(maxsize=64)
def compile_plan(plan: ScanPlan, names: tuple[str, ...]) -> CompiledScanPlan:
    """The compiled plan, cached: with hundreds of tools compiling takes milliseconds. `names`: the offered tools; empty
    if the plan has no factories."""
    return CompiledScanPlan(plan, names)
