"""Tool names as the client writes them, and as a provider accepts them.

The OpenAI format allows `[a-zA-Z0-9_-]` and 64 characters; clients offer names of 80 and more characters (MCP servers),
dots and slashes. Such a name becomes a readable stem and a hash of the whole name. The new name depends on the old name
alone, so it stays the same from request to request and prompt caches still hit. Called by the request encoders; the map
restores the names in the response.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from hashlib import blake2b

import msgspec

from extproc.bounds import bounded_cache
from extproc.conversation.model import Request, ToolCall
from extproc.errors import BadRequest

_LEGAL = r"[a-zA-Z0-9_-]+"
_ILLEGAL_RUN = re.compile(r"[^a-zA-Z0-9_-]+")


class NameMap(msgspec.Struct, frozen=True):
    """The names of the offered tools in both directions. Requests share the dictionaries: they must not be changed."""

    to_client: dict[str, str]
    to_provider: dict[str, str]

    def client_name(self, name: str) -> str:
        """The client's name of a tool that the provider calls `name`. Some hosts put a namespace before it
        (`functions.NAME`, Kimi and gpt-oss), the count of Kimi's ids after it (`NAME:0`), or a token of the model's
        format (`NAME<|channel|>...`, gpt-oss). These are removed if the rest is an offered tool."""
        known = self.to_client.get(name)
        if known is None and (name.startswith("functions.") or "<|" in name or ":" in name):
            plain = name.partition("<|")[0].strip().removeprefix("functions.")
            head, _, count = plain.rpartition(":")
            for candidate in (plain, head if count.isdecimal() else plain):
                if candidate in self.to_provider:
                    return candidate
                known = known or self.to_client.get(candidate)
        return name if known is None else known


def build_name_map(request: Request, limit: int = 64, pattern: str = _LEGAL,
                   namespaces: tuple[str, ...] = ("functions.",)) -> NameMap:
    """The names of the offered tools and of the history.

    `limit`: most characters of a name. `pattern`: what a whole name must match; it must allow letters, digits and `_`
    after a letter. `to_client` also has `functions.NAME` (each of the `namespaces`) for every offered tool, because
    some models write the namespace of the prompt before the name. Names that only the history uses are in `to_provider`
    alone. Raises `BadRequest` if two tools have one name: a call would be ambiguous.
    """
    offered: list[str] = []
    known: set[str] = set()
    for position, tool in enumerate(request.tools):
        if tool.name in known:
            raise BadRequest(f"tools.{position}.name: the name {tool.name!r} is used by two tools; "
                             "tool names must be unique, rename or remove one of them")
        known.add(tool.name)
        offered.append(tool.name)
    past: dict[str, None] = {}
    for message in request.messages:
        for block in message.content:
            if type(block) is ToolCall and block.name not in known:
                past[block.name] = None
    if not (offered or past):
        return NameMap({}, {})
    return _mapped("".join(offered) + "".join(past), tuple(offered), tuple(past), limit, pattern, namespaces)


@bounded_cache(entries=64, longest=8192)
def _mapped(text: str, offered: tuple[str, ...], past: tuple[str, ...], limit: int, pattern: str,
            namespaces: tuple[str, ...]) -> NameMap:
    """Cached, because a coding client offers the same tools with every request. `text`: all names; its length decides
    whether the result is cached."""
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
    """A legal name for `name`: a stem of it and eight hex digits of its hash, or more if that name is taken."""
    stem = _ILLEGAL_RUN.sub("_", name).strip("_") or "tool"
    if not re.fullmatch(pattern, stem):  # its first character may not begin a name
        stem = f"tool_{stem}"
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
    for digits in (8, 16, 24, 32):
        new = f"{stem[: limit - digits - 1]}_{digest[:digits]}"
        if new not in taken:
            return new
    raise BadRequest(f"the tool name {name!r} cannot be told apart from another one; rename the tool")


def fits_name(name: str, limit: int = 64, pattern: str = _LEGAL) -> bool:
    """True if a provider accepts the name as it is."""
    return len(name) <= limit and _is_legal(name, pattern)


@bounded_cache(entries=4096, longest=128)
def _is_legal(name: str, pattern: str) -> bool:
    return re.fullmatch(pattern, name) is not None
