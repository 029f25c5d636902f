"""Tool names: as the client spells them, and as a provider takes them.

The OpenAI format takes `[a-zA-Z0-9_-]` and 64 characters; clients offer names of 80 and more (MCP servers), dots and
slashes. A name that does not fit becomes a readable stem and a hash of the whole name. The new name depends on the old
one alone, so it stays the same from request to request and prompt caches keep hitting. Called by the request encoders;
the map restores the names in the answer.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from hashlib import blake2b

from extproc.apis.base import NameMap
from extproc.conversation import Request, ToolCall
from extproc.errors import BadRequest

_LEGAL = r"[a-zA-Z0-9_-]+"
_ILLEGAL_RUN = re.compile(r"[^a-zA-Z0-9_-]+")


def build_name_map(request: Request, limit: int = 64, pattern: str = _LEGAL,
                   namespaces: tuple[str, ...] = ("functions.",)) -> NameMap:
    """The names of the offered tools and of the history.

    `pattern` is what a whole name must match; whatever it is, it takes letters, digits and `_` after a letter.

    `to_client` also knows `functions.NAME` (each of the `namespaces`) for every offered tool, because some models
    write the namespace of the prompt before the name. Names that only the history uses are in `to_provider` alone.
    Raises `BadRequest` when two tools have one name: the answer could not say which of them is meant.
    """
    offered: list[str] = []
    known: set[str] = set()
    for position, tool in enumerate(request.tools):
        if tool.name in known:
            raise BadRequest(f"tools.{position}.name: the name {tool.name!r} is used by two tools; "
                             "tool names must be unique, rename or remove one of them")
        known.add(tool.name)
        offered.append(tool.name)
    past = {block.name: None for message in request.messages for block in message.content
            if type(block) is ToolCall and block.name not in known}
    to_provider = {name: name for name in [*offered, *past] if fits_name(name, limit, pattern)}
    taken = set(to_provider)
    for name in [*offered, *past]:
        if name not in to_provider:
            to_provider[name] = short_name(name, limit, taken, pattern)
            taken.add(to_provider[name])
    to_client = {to_provider[name]: name for name in offered}
    for name in offered:
        for namespace in namespaces:
            to_client.setdefault(namespace + to_provider[name], name)
    return NameMap(to_client=to_client, to_provider=to_provider)


def short_name(name: str, limit: int = 64, taken: Collection[str] = (), pattern: str = _LEGAL) -> str:
    """A legal name for `name`: a stem of it and eight hex digits of its hash (more digits while that is taken)."""
    stem = _ILLEGAL_RUN.sub("_", name).strip("_") or "tool"
    if not re.fullmatch(pattern, stem):  # it begins with what may not begin a name
        stem = f"tool_{stem}"
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    for digits in (8, 16, 24, 32):
        new = f"{stem[: limit - digits - 1]}_{digest[:digits]}"
        if new not in taken:
            return new
    raise BadRequest(f"the tool name {name!r} cannot be told apart from another one; rename the tool")


def fits_name(name: str, limit: int = 64, pattern: str = _LEGAL) -> bool:
    """Whether a provider takes the name as it is."""
    return len(name) <= limit and _is_legal(name, pattern)  # a name of megabytes is not remembered


@lru_cache(maxsize=4096)
def _is_legal(name: str, pattern: str) -> bool:
    return re.fullmatch(pattern, name) is not None
