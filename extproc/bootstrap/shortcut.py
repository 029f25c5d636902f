"""The shortcut past `select`: a request whose route is certain gets it from Envoy itself, without asking the processor.

A filter before `select` reads the model of a plain request, and routes behind it say for which models, teams and hosts
the rule is certain; there `select` is off. What the two say is what `select` would say, word for word (the rule, the
API, model and streaming), so the backend's hop cannot tell the difference. Everything else is left to `select`: what
is not plain, what is to be refused, what it answers itself, whoever has limits. So nothing is decided twice: here
is either the same answer or none. It spares a request one of three exchanges with the processor.

Only where Envoy follows every change of the configuration (`extproc up`): the routes name rules by their content. A
request goes by the routes that were in force when it began, and no worker knows of it while Envoy waits for its body.
So the routes tell, too, of which generation they are: what is left to `select` after that wait is for the same one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.filters.http.lua import v3 as lua
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.type.matcher import v3 as matcher
from envoy_data_plane.google import protobuf

from extproc.bootstrap.rendering import pack
from extproc.config import Config, ModelRule
from extproc.config.globs import is_glob, matches
from extproc.exchange.content import ASKED, GENERATION, LONGEST_MODEL
from extproc.exchange.routes import ENDPOINTS, PREFIXES

LARGEST = 256 * 1024
"""Bytes of a body that Envoy looks through itself. That takes its thread, which serves others too, half a millisecond
at most for what clients write, and about two for what anybody could."""
_MOST_STEPS, _MEMBER = 32_768, 8
"""Quotes and brackets in such a body, so that it stays at that: a session of 250 KB with much quoted code has 20,000 of
them. A member of the body costs as much as so many."""
_PLAIN_NAME = re.compile(r"[\w.:/@+,=-]*", re.ASCII)
"""What the script takes for a model's name; others are for `select`."""
_LARGEST_PATTERN = 60
"""Characters, wildcards counted twice: Envoy refuses a regular expression of more than 100 steps, and these come to 18
more."""
_MOST_TEAMS, _MOST_RULES = 32, 100
"""Teams that a route can leave out; rules: Envoy goes through its routes one by one."""
_KEY = "shortcut"
"""The filter's name, by which it finds its part of a route's metadata."""
_API, _TEAM = "x-extproc-api", "x-extproc-team"
_OWN_HOST = r"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?"
"""Names by which a gateway without teams is called; other names for it are left to `select`."""

_SCRIPT = """\
local find, byte, sub, match = string.find, string.byte, string.sub, string.match
local apis = {{{apis}}}

-- How many steps are left of those that a body may take.
local left

-- The place behind the string whose text begins at `at`.
local function behind_string(text, at)
  while left > 0 do
    left = left - 1
    local quote = find(text, '"', at, true)
    if not quote then return nil end
    local before = quote - 1
    while byte(text, before) == 92 do before = before - 1 end
    if (quote - before) % 2 == 1 then return quote + 1 end
    at = quote + 1
  end
  return nil
end

-- The place behind the object or array that begins at `at`. Whether its brackets fit is for others to see.
local function behind_nested(text, at)
  local depth = 0
  while left > 0 do
    left = left - 1
    at = find(text, '["{{}}%[%]]', at)
    if not at then return nil end
    local what = byte(text, at)
    at = at + 1
    if what == 34 then
      at = behind_string(text, at)
      if not at then return nil end
    elseif what == 123 or what == 91 then
      depth = depth + 1
    else
      depth = depth - 1
      if depth == 0 then return at end
    end
  end
  return nil
end

-- The place of the first character from `at` on that is not blank, and what it is; nil, nil at the end.
local function next_sign(text, at)
  at = find(text, "[^ \\t\\r\\n]", at)
  return at, at and byte(text, at)
end

-- What `select` says of this body: the model, and whether the answer is streamed. nil: that is for `select` to say.
function asked(text)
  local model, how = nil, "whole"
  local at, sign = next_sign(text, 1)
  if sign ~= 123 then return nil end
  left = {most_steps}
  while left > 0 do
    left = left - {member}
    local key, matters
    at = next_sign(text, at + 1)
    if not at then return nil end
    key, at = match(text, '^"([^"\\\\]*)"()', at)
    if not key then return nil end
    matters = key == "model" or key == "stream"
    at, sign = next_sign(text, at)
    if sign ~= 58 then return nil end
    at, sign = next_sign(text, at + 1)
    if sign == 34 then
      local value = at + 1
      at = behind_string(text, value)
      if not at then return nil end
      if key == "model" then
        model = at - value <= {longest} + 1 and match(sub(text, value, at - 2), "^[%w_.:/@+,=-]+$")
        if not model then return nil end
      elseif matters then
        return nil
      end
    elseif sign == 123 or sign == 91 then
      if matters then return nil end
      at = behind_nested(text, at)
      if not at then return nil end
    else
      local word
      word, at = match(text, "^([%w.+-]+)()", at or #text + 1)
      if not word or key == "model" then return nil end
      if key == "stream" then
        if word == "true" then how = "stream"
        elseif word == "false" or word == "null" then how = "whole"
        else return nil end
      end
    end
    at, sign = next_sign(text, at)
    if sign == 125 then
      return model and not next_sign(text, at + 1) and model .. " " .. how or nil
    end
    if sign ~= 44 then return nil end
  end
  return nil
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local api = apis[match(headers:get(":path") or "", "^[^?]*")]
  if not api or headers:get(":method") ~= "POST" then return end
  local kind = headers:get("content-type") or ""
  if not (find(kind, "^application/json[ \\t]*$") or find(kind, "^application/json[ \\t]*;"))
     or headers:get("origin") or headers:get("content-encoding") then return end
  local length = tonumber(headers:get("content-length") or "")
  if not length or length < 1 or length > {largest} then return end
  local generation = handle:metadata():get("generation")  -- before the wait, of the route of now
  local body = handle:body()
  local plain = body and body:length() == length and not handle:trailers()
  local found = plain and asked(body:getBytes(0, length))
  headers = handle:headers()  -- the object from before the wait is no longer good
  if generation then headers:replace("{generation}", generation) end
  if found then
    headers:replace("{asked}", found)
    headers:replace("{api}", api)
  end
end
"""


def read_plain(config: Config) -> hcm.HttpFilter:
    """Reads the model of a plain request into the header by which `select` tells it. Envoy then looks for the route
    anew."""
    apis = ", ".join(f'["{prefix}{path}"] = "{endpoint.api}"' for path, endpoint in ENDPOINTS.items()
                     if endpoint.is_translated for prefix in ("", *PREFIXES))
    # What Envoy would not keep for a further attempt is not kept here.
    largest = min(LARGEST, config.limits.body, config.limits.replay)
    script = _SCRIPT.format(apis=apis, largest=largest, most_steps=_MOST_STEPS, member=_MEMBER, longest=LONGEST_MODEL,
                            asked=ASKED, api=_API, generation=GENERATION)
    return hcm.HttpFilter(name=_KEY, typed_config=pack(lua.Lua(
        default_source_code=core.DataSource(inline_string=script))))


class Shortcut(NamedTuple):
    """What an edge table is told of the configuration in force: the rules that Envoy may choose by itself, and the
    number of its generation (`extproc.server.generations`)."""

    rules: Sequence[ModelRule]
    generation: int = 1

    @property
    def metadata(self) -> core.Metadata:
        """Of the route on which every request begins."""
        return core.Metadata(filter_metadata={_KEY: protobuf.Struct.from_dict({"generation": str(self.generation)})})


class Told(NamedTuple):
    """The requests that these headers recognise, beyond those of the entries before it."""

    rule: ModelRule
    headers: list[route.HeaderMatcher]
    certain: bool
    """They go the rule's first way; else `select` has to say."""


def told(rules: Sequence[ModelRule], config: Config) -> Iterator[Told]:
    """The rules in their order, as far as headers can tell for which of them a request is."""
    for number, rule in enumerate(rules):
        if number == _MOST_RULES:
            yield Told(rule, [_asked()], certain=False)
            return
        if not _PLAIN_NAME.fullmatch(rule.match.replace("*", "").replace("?", "")):
            continue  # no plain name falls under it
        name = _name(rule.match)
        if name is None:
            yield Told(rule, [_asked()], certain=False)
            return
        who = _who(rule, config) if len(rule.orders) == 1 else None
        if who is not None:
            yield Told(rule, [name, *who], certain=True)
        if who is None or who:
            yield Told(rule, [name], certain=False)


def _name(pattern: str) -> route.HeaderMatcher | None:
    """The names that fall under this pattern, in a header that says `NAME stream` or `NAME whole`."""
    plain = pattern.strip("*")
    if not is_glob(pattern):
        return _asked(prefix=f"{pattern} ")
    if not plain:
        return _asked()
    if not is_glob(plain) and not (pattern.startswith("*") and pattern.endswith("*")):
        return _asked(contains=f"{plain} ") if pattern.startswith("*") else _asked(prefix=plain)
    pattern = re.sub(r"\*+", "*", pattern)
    parts = {"*": ".*", "?": "[^ ]"}
    if sum(2 if char in parts else 1 for char in pattern) > _LARGEST_PATTERN:
        return None
    spelled = "".join(parts.get(char) or re.escape(char) for char in pattern)
    return _asked(safe_regex=matcher.RegexMatcher(regex=f"{spelled} (stream|whole)"))


def _asked(**value: object) -> route.HeaderMatcher:
    if not value:
        return route.HeaderMatcher(name=ASKED, present_match=True)
    return route.HeaderMatcher(name=ASKED, string_match=matcher.StringMatcher(**value))  # type: ignore[arg-type]


def _who(rule: ModelRule, config: Config) -> list[route.HeaderMatcher] | None:
    """The callers that may certainly use every model of the rule, and have no limits; None: nobody."""
    if not config.teams:
        own = matcher.StringMatcher(safe_regex=matcher.RegexMatcher(regex=_OWN_HOST))
        return [] if config.open else [route.HeaderMatcher(name=":authority", string_match=own)]
    others = [name for name, team in config.teams.items() if name in config.limited_teams or not (
        team.models is None or any(_surely_covers(pattern, rule.match) for pattern in team.models))]
    if len(others) == len(config.teams) or len(others) > _MOST_TEAMS:
        return None
    return [route.HeaderMatcher(name=_TEAM, present_match=True), *(route.HeaderMatcher(
        name=_TEAM, string_match=matcher.StringMatcher(exact=name), invert_match=True) for name in others)]


def _surely_covers(allowed: str, asked: str) -> bool:
    """Whether all names of a rule's pattern fall under a team's, where that is plain to see."""
    begins = allowed.removesuffix("*")
    return (allowed == asked or (not is_glob(asked) and matches(allowed, asked))
            or (begins != allowed and asked.startswith(begins)))
