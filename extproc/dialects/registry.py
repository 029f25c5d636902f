"""Which dialects a response is scanned for: a dialect's name, a model id or neither -> a `ScanPlan`.

The dialect's name in the configuration or the API decides, else the model's family (`extproc.profiles.models`).
Responses of unknown models are scanned for the unambiguous marks of all dialects, and only if tools are offered. For
models with native tool calls only the beginning of a response is scanned, since it may hold reasoning.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TypeVar

from msgspec.structs import replace

from extproc.bounds import bounded_cache
from extproc.dialects.dialect import Dialect
from extproc.dialects.forms import (
    bare_json,
    deepseek,
    gemma,
    harmony,
    kimi,
    messages,
    minimax_m3,
    prompted,
    pythonic,
    roo,
    tagged_json,
    tagged_text,
)
from extproc.dialects.forms.bare_json import BARE_CALL_ONLY, LAST_LINE_CALL
from extproc.dialects.scan_plan import ScanPlan
from extproc.profiles.models import find_family

_MODULES = (tagged_json, tagged_text, minimax_m3, kimi, deepseek, messages, harmony, gemma, roo, bare_json, pythonic)

_LATER = (*tagged_json.LATER_DIALECTS, *tagged_text.LATER_DIALECTS)
"""Dialects that share openers with more common ones."""

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialects in (
    *(module.DIALECTS for module in _MODULES), _LATER, prompted.DIALECTS) for dialect in dialects}
"""All dialects by name. If several share an opener, the earlier one is tried first."""

T = TypeVar("T")

_OWNERS: dict[int, list[str]] = {}
"""The names of the dialects that use a parser or a factory, by its identity."""
for _dialect in DIALECTS.values():
    for _parser in (*_dialect.forms, *_dialect.loose, *_dialect.frames, *_dialect.opening_forms,
                    *_dialect.opening_frames, *_dialect.opening_reasoning, *_dialect.factories,
                    *_dialect.unknown_factories):
        _OWNERS.setdefault(id(_parser), []).append(_dialect.name)
_OWNERS[id(LAST_LINE_CALL)] = _OWNERS[id(BARE_CALL_ONLY)] = ["llama3-json"]

STYLES = ("auto", "native", "prompted", "off")


def find_dialect(name: str) -> Dialect:
    """Raises ValueError with the known names."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise ValueError(f"unknown dialect {name!r}; known: {', '.join(sorted(DIALECTS))}") from None


def find_scan_plan(model: str, *, style: str = "auto", read: Iterable[str] = (), tools: bool,
                   reasoning_open: bool | None = None) -> ScanPlan | None:
    """What to scan a response of this model for; None if its text passes unread. `read`: names of dialects. `tools`:
    True if tools are offered or written into the prompt. `reasoning_open`: True if the prompt opened the reasoning;
    None: as usual for the model. Raises ValueError for an unknown dialect."""
    return _find_scan_plan(model, style, tuple(read), tools, reasoning_open)


@bounded_cache(entries=1024, longest=200)
def _find_scan_plan(model: str, style: str, read: tuple[str, ...], tools: bool,
                    reasoning_open: bool | None) -> ScanPlan | None:
    named = [find_dialect(name) for name in read]
    if style not in STYLES or style == "prompted":
        named.append(find_dialect(style))
    if named:
        return _combine(named, tools=tools, reasoning_open=bool(reasoning_open))
    family = find_family(model)
    if family is not None:
        if family.native:
            return ScanPlan(reasoning_open=bool(reasoning_open), only_beginning=not reasoning_open, think=family.think)
        opened = family.reasoning_open if reasoning_open is None else reasoning_open
        plan = _combine([find_dialect(name) for name in family.dialects], tools=tools and style == "auto",
                        reasoning_open=opened, think_anywhere=family.think_anywhere)
        return replace(plan, reasoning_assumed=opened and reasoning_open is None)
    if not tools or style != "auto":
        return ScanPlan(reasoning_open=bool(reasoning_open))
    unambiguous = [dialect for dialect in DIALECTS.values() if dialect.unambiguous]
    plan = _combine(unambiguous, tools=True, reasoning_open=bool(reasoning_open), known=False)
    frames = _unique(parser for dialect in unambiguous for parser in dialect.opening_frames)
    return replace(plan, forms=(*plan.forms, LAST_LINE_CALL), opening_forms=(BARE_CALL_ONLY, *frames),
                   think_anywhere=False,
                   factories=_unique(make for dialect in DIALECTS.values() for make in dialect.unknown_factories))


def _combine(dialects: list[Dialect], *, tools: bool, reasoning_open: bool, think_anywhere: bool = False,
             known: bool = True) -> ScanPlan:
    """One plan for several dialects. `known`: these are certainly the model's dialects."""
    return ScanPlan(
        forms=_unique(parser for dialect in dialects
                      for parser in (*dialect.frames, *(dialect.forms if tools else ()),
                                     *(dialect.loose if tools and known else ()))),
        factories=_unique(make for dialect in dialects for make in dialect.factories) if tools else (),
        opening_forms=_unique(parser for dialect in dialects
                              for parser in (*dialect.opening_frames, *(dialect.opening_reasoning if known else ()),
                                             *(dialect.opening_forms if tools else ()))),
        think=_unique(pair for dialect in dialects for pair in dialect.think),
        text_openers=_unique(token for dialect in dialects for token in dialect.text_openers),
        text_tags=_unique(pair for dialect in dialects for pair in dialect.text_tags) if known else (),
        think_anywhere=think_anywhere or any(dialect.think_anywhere for dialect in dialects),
        reasoning_open=reasoning_open,
        name_of=partial(_name_of, dialects),
        turn_ends=_unique(token for dialect in dialects for token in dialect.turn_ends),
        template_tokens=_unique(token for dialect in dialects
                                for token in (*dialect.template_tokens, *(dialect.strays if tools else ()))),
    )


def _name_of(dialects: Iterable[Dialect], parser: object) -> str:
    """The name of the first of `dialects` that uses this parser or factory."""
    owners = _OWNERS.get(id(parser), [])
    return next((dialect.name for dialect in dialects if dialect.name in owners), owners[0] if owners else "other")


def _unique(items: Iterable[T]) -> tuple[T, ...]:
    out: list[T] = []
    for item in items:
        if item not in out:
            out.append(item)
    return tuple(out)
