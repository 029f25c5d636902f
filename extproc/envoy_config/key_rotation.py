"""The filter that rotates several keys of a backend: each try gets one key, and a refused key is followed by another.

The filter is in the provider's cluster, behind the router, where it runs once for each try. A key that the provider
refuses or limits (401, 402, 403, 429) rests. If another key does not rest, a response header makes the router of the
hop send the request again (`routes.hop_table`). So the same attempt continues with another key, and failover begins
when all keys have failed. The filter is Lua and looks at headers (ext_proc must never be there). It reads the body of
Google's 400 only, which may mean an invalid key (`ApiFacts.invalid_key_is_400`).

A resting key is not excluded: if all keys rest, the one with the earliest end of its rest is used. So an error about
the request (a 403 for a moderated prompt, with some providers) never disables a backend. Each thread of Envoy has its
own rotation. Configured keys are in private files (in a static bootstrap: in the filter itself). Keys in key files are
read from there, by the rule of `provider_keys`.
"""

from __future__ import annotations

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.filters.http.lua import v3 as lua
from envoy_data_plane.envoy.extensions.filters.http.upstream_codec import v3 as upstream_codec
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm

from extproc.config import Backend, ProviderKey
from extproc.config.keyfile import LONGEST_KEY_FILE
from extproc.envoy_config.provider_keys import key_header, key_name, placeholder, quoted
from extproc.envoy_config.rendering import pack
from extproc.envoy_config.resource_sources import Sources
from extproc.headers import OTHER_KEY_HEADER

_LONGEST_ERROR = 65536
"""Bytes. Google's errors about keys are shorter."""

_SCRIPT = """\
local header, prefix, place = {header}, {prefix}, {place}
local keys = {{
{keys}
}}
local rest = {{["401"] = 60, ["402"] = 60, ["403"] = 60, ["429"] = 10}}
local longest_rest = 300
for number, key in ipairs(keys) do key.number, key.share, key.until_when = number, 0, 0 end

local function rests(key, now)
  -- A longer rest means that the clock was set back.
  if key.until_when > now + longest_rest then key.until_when = 0 end
  return key.until_when > now
end

local function choose(now, unread)
  local best, total, soonest = nil, 0, nil
  for _, key in ipairs(keys) do
    if unread[key] then
    elseif rests(key, now) then
      if not soonest or key.until_when < soonest.until_when then soonest = key end
    else
      key.share, total = key.share + key.weight, total + key.weight
      if not best or key.share > best.share then best = key end
    end
  end
  if best then best.share = best.share - total end
  return best or soonest
end

local function text_of(key, handle)
  if key.text then return key.text end
  local file, why = io.open(key.path, "rb")
  local found
  if file then
    local text = file:read({longest})
    file:close()
    found = text and text:match("^%s*([!-~]+)%s*$")
    why = key.path .. (text and text:find("%S") and " holds no key" or " is empty")
  end
  if found then
    key.last, key.logged = found, nil
  elseif why ~= key.logged then
    key.logged = why
    handle:logErr(place .. "[" .. (key.number - 1) .. "]: " .. why .. (key.last and "; the last key stays in use"
                  or "; the other keys are used"))
  end
  return key.last
end

function envoy_on_request(handle)
  local now, unread = os.time(), {{}}
  for _ = 1, #keys do
    local key = choose(now, unread)
    local text = text_of(key, handle)
    if text then
      handle:headers():replace(header, prefix .. text)
      handle:streamInfo():dynamicMetadata():set("extproc.key", "number", key.number)
      return
    end
    unread[key] = true
  end
  handle:headers():remove(header)
  handle:respond({{[":status"] = "503"}}, "no key")
end

local function blames_key(handle)
  local body = handle:body()
  if not body or body:length() == 0 or body:length() > {longest_error} then return false end
  return body:getBytes(0, body:length()):find('"reason"%s*:%s*"API_KEY_INVALID"') ~= nil
end

function envoy_on_response(handle)
  local headers = handle:headers()
  headers:remove("{other_key}")
  local status = headers:get(":status")
  if status == "400" and {reads_400} then
    if blames_key(handle) then status = "401" end
    headers = handle:headers()  -- reading the body has invalidated the earlier object
  end
  local used = rest[status] and handle:streamInfo():dynamicMetadata():get("extproc.key")
  local key = used and keys[used.number]
  if not key then return end
  local now, seconds = os.time(), rest[status]
  if status == "429" then
    local retry_after = tonumber(headers:get("retry-after") or "")
    seconds = retry_after and math.max(1, math.min(retry_after, longest_rest)) or seconds
  elseif not rests(key, now) then
    handle:logErr(place .. "[" .. (key.number - 1) .. "]: the provider answered " .. headers:get(":status")
                  .. "; the key rests for " .. seconds .. " s")
  end
  key.until_when = math.max(key.until_when, now + seconds)
  for _, other in ipairs(keys) do
    if not rests(other, now) then
      headers:replace("{other_key}", "1")
      return
    end
  end
end
"""


def rotation_filters(name: str, backend: Backend, sources: Sources, *, with_secrets: bool) -> list[hcm.HttpFilter]:
    """The filters of the provider's clusters; none for a backend without `keys`."""
    if not backend.keys:
        return []
    header = key_header(backend)
    keys = [_key_table(name, number, entry, sources, with_secrets=with_secrets)
            for number, entry in enumerate(backend.key_entries, 1)]
    script = _SCRIPT.format(header=quoted(header.name), prefix=quoted(header.prefix),
                            place=quoted(f"backends.{name}.keys"), keys=",\n".join(keys), longest=LONGEST_KEY_FILE,
                            other_key=OTHER_KEY_HEADER, reads_400="true" if backend.invalid_key_is_400 else "false",
                            longest_error=_LONGEST_ERROR)
    return [hcm.HttpFilter(name="provider_keys", typed_config=pack(lua.Lua(
                default_source_code=core.DataSource(inline_string=script)))),
            hcm.HttpFilter(name="envoy.filters.http.upstream_codec",
                           typed_config=pack(upstream_codec.UpstreamCodec()))]


def _key_table(name: str, number: int, entry: ProviderKey, sources: Sources, *, with_secrets: bool) -> str:
    """One key as a Lua table."""
    path = entry.key_file or sources.key_path(key_name(name, number))
    if path is not None:
        return f"  {{weight = {entry.weight}, path = {quoted(path)}}}"
    text = entry.key if with_secrets and entry.key else placeholder("backend", f"{name}-{number}")
    return f"  {{weight = {entry.weight}, text = {quoted(text)}}}"
