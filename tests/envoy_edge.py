"""What Envoy's edge makes of a request without the processor: the shortcut's script and the edge's routes, as they
stand in the generated configuration, carried out here by LuaJIT (which Envoy has, too) and a few lines."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import lupa.luajit21

from extproc.bootstrap import static_bootstrap
from extproc.config import Attempt, Backend, Config, ModelRule

Json = dict[str, Any]

_HANDLE = b"""
function asks(values, text, trailers, generation)
  local headers = {get = function(_, name) return values[name] end,
                   replace = function(_, name, value) values[name] = value end}
  local body = {length = function() return #text end,
                getBytes = function(_, from, count) return text:sub(from + 1, from + count) end}
  envoy_on_request({headers = function() return headers end, body = function() return #text > 0 and body or nil end,
                    trailers = function() return trailers end,
                    metadata = function() return {get = function() return generation end} end})
end
"""


class Edge:
    """The edge of one configuration, with the shortcut for all of its rules."""

    def __init__(self, config: Config) -> None:
        made = static_bootstrap(config, with_secrets=False, sockets=["127.0.0.1:1"], shortcut=True)
        found = next(one for one in made["static_resources"]["listeners"] if one["name"] == "edge")
        manager = found["filter_chains"][0]["filters"][0]["typed_config"]
        self.routes: list[Json] = manager["route_config"]["virtual_hosts"][0]["routes"][1:]  # the first is /healthz
        script = next(one for one in manager["http_filters"] if one["name"] == "shortcut")
        self._lua = lupa.luajit21.LuaRuntime(encoding=None)
        self._lua.execute(script["typed_config"]["default_source_code"]["inline_string"].encode())
        self._lua.execute(_HANDLE)

    def asked(self, body: bytes) -> str | None:
        """What the script reads of a body."""
        found = self._lua.globals()[b"asked"](body)
        return None if found is None else found.decode()

    def request(self, headers: dict[str, str], body: bytes, *, trailers: bool = False) -> tuple[Json, dict[str, str]]:
        """The route of this request when it comes to `select`, and the headers that it then has."""
        table = self._lua.table_from({name.encode(): value.encode() for name, value in headers.items()})
        begins = self.routes[-1]["metadata"]["filter_metadata"]["shortcut"]["generation"].encode()
        self._lua.globals()[b"asks"](table, body, trailers or None, begins)
        now = {name.decode(): value.decode() for name, value in table.items()}
        route = next(one for one in self.routes if all(
            matches(matcher, now.get(matcher["name"])) for matcher in one["match"].get("headers", [])))
        added = {one["header"]["key"]: one["header"]["value"] for one in route.get("request_headers_to_add", [])}
        gone = route.get("request_headers_to_remove", [])
        return route, {name: value for name, value in {**now, **added}.items() if name not in gone}


ANY = Config(backends={"b": Backend(api="openai", url="http://127.0.0.1:1/v1")},
             models=[ModelRule(match="*", attempts=[Attempt(backend="b", model="*")])])
"""Every model, on one backend; without teams."""


@cache
def any_model() -> Edge:
    return Edge(ANY)


def passes_by_select(route: Json) -> bool:
    return bool(route.get("typed_per_filter_config", {}).get("select", {}).get("disabled"))


def matches(matcher: Json, value: str | None) -> bool:
    if value is None:  # so it is in Envoy, inverted or not, unless a missing value counts as an empty one
        return False
    if matcher.get("present_match"):
        return True
    (kind, wanted), = matcher["string_match"].items()
    found = {"exact": lambda: value == wanted, "prefix": lambda: value.startswith(wanted),
             "contains": lambda: wanted in value,
             "safe_regex": lambda: re.fullmatch(wanted["regex"], value) is not None}[kind]()
    return found is not matcher.get("invert_match", False)
