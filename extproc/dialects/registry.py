"""Which dialects to look for: a name, a model id or nothing known -> a `ScanPlan`.

A dialect's name in the configuration or the API decides. Else the model's family does (`extproc.profiles.models`). For
a model that no family knows the unambiguous marks of all dialects are looked for, and only when tools are offered.
Of answers of models that call natively only the beginning is looked at: reasoning may stand there.
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
"""Families that share openers with more common ones."""

DIALECTS: dict[str, Dialect] = {dialect.name: dialect for dialects in (
    *(module.DIALECTS for module in _MODULES), _LATER, prompted.DIALECTS) for dialect in dialects}
"""All dialects by name; where several share an opener, the earlier one is tried first."""

T = TypeVar("T")

_OWNERS: dict[int, list[str]] = {}
"""The dialects of a form, or of what makes one, by its identity: some are shared."""
for _dialect in DIALECTS.values():
    for _one in (*_dialect.forms, *_dialect.loose, *_dialect.frames, *_dialect.first, *_dialect.opening,
                 *_dialect.spoken, *_dialect.makers, *_dialect.unknown_makers):
        _OWNERS.setdefault(id(_one), []).append(_dialect.name)
_OWNERS[id(LAST_LINE_CALL)] = _OWNERS[id(BARE_CALL_ONLY)] = ["llama3-json"]

STYLES = ("auto", "native", "prompted", "off")


def find_dialect(name: str) -> Dialect:
    """Raises ValueError naming the known ones."""
    try:
        return DIALECTS[name]
    except KeyError:
        raise ValueError(f"unknown dialect {name!r}; known: {', '.join(sorted(DIALECTS))}") from None


def find_scan_plan(model: str, *, style: str = "auto", read: Iterable[str] = (), tools: bool,
             reasoning_open: bool | None = None) -> ScanPlan | None:
    """What to look for in the answer of this model; None: let everything pass. `tools`: some are offered (or were
    written into the prompt). Raises ValueError for an unknown dialect."""
    return _found(model, style, tuple(read), tools, reasoning_open)


@bounded_cache(entries=1024, longest=200)
def _found(model: str, style: str, read: tuple[str, ...], tools: bool, reasoning_open: bool | None) -> ScanPlan | None:
    """The same few questions come with every request of a model."""
    named = [find_dialect(name) for name in read]
    if style not in STYLES or style == "prompted":
        named.append(find_dialect(style))
    if named:
        return _look(named, tools=tools, reasoning_open=bool(reasoning_open))
    family = find_family(model)
    if family is not None:
        if family.native:
            return ScanPlan(reasoning_open=bool(reasoning_open), only_beginning=not reasoning_open, think=family.think)
        opened = family.reasoning_open if reasoning_open is None else reasoning_open
        look = _look([find_dialect(name) for name in family.dialects], tools=tools and style == "auto",
                     reasoning_open=opened, think_anywhere=family.think_anywhere)
        return replace(look, reasoning_assumed=opened and reasoning_open is None)
    if not tools or style != "auto":
        return ScanPlan(reasoning_open=bool(reasoning_open))
    everything = [dialect for dialect in DIALECTS.values() if dialect.unambiguous]
    look = _look(everything, tools=True, reasoning_open=bool(reasoning_open), known=False)
    makers = _once(make for dialect in DIALECTS.values() for make in dialect.unknown_makers)
    opening = _once(form for dialect in everything for form in dialect.opening)
    return ScanPlan(forms=(*look.forms, LAST_LINE_CALL), makers=makers, first=(BARE_CALL_ONLY, *opening),
                    think=look.think,
                answers=look.answers, reasoning_open=look.reasoning_open, noise=look.noise, ends=look.ends,
                name_of=look.name_of)


def _look(dialects: list[Dialect], *, tools: bool, reasoning_open: bool, think_anywhere: bool = False,
          known: bool = True) -> ScanPlan:
    """`known`: the dialects are the model's for certain."""
    return ScanPlan(
        forms=_once(form for dialect in dialects
                    for form in (*dialect.frames, *(dialect.forms if tools else ()),
                                 *(dialect.loose if tools and known else ()))),
        makers=_once(make for dialect in dialects for make in dialect.makers) if tools else (),
        first=_once(form for dialect in dialects for form in (*dialect.opening, *(dialect.spoken if known else ()),
                                                              *(dialect.first if tools else ()))),
        think=_once(pair for dialect in dialects for pair in dialect.think),
        answers=_once(token for dialect in dialects for token in dialect.answers),
        wraps=_once(pair for dialect in dialects for pair in dialect.wraps) if known else (),
        think_anywhere=think_anywhere or any(dialect.think_anywhere for dialect in dialects),
        reasoning_open=reasoning_open,
        name_of=partial(_name_of, dialects),
        ends=_once(token for dialect in dialects for token in dialect.ends),
        noise=_once(token for dialect in dialects for token in (*dialect.noise, *(dialect.strays if tools else ()))),
    )


def _name_of(dialects: Iterable[Dialect], form: object) -> str:
    """The dialect that this form was looked for as: of several that share it the first."""
    owners = _OWNERS.get(id(form), [])
    return next((dialect.name for dialect in dialects if dialect.name in owners), owners[0] if owners else "other")


def _once(items: Iterable[T]) -> tuple[T, ...]:
    out: list[T] = []
    for item in items:
        if item not in out:
            out.append(item)
    return tuple(out)
