"""The filter that puts a key from a file into each request, as Envoy itself reads the file.

A few lines of Lua in the place of the credential injector, because the injector keeps an old key where it matters
most. Tried with Envoy 1.40: a static secret with a `filename` is read once and never again, `watched_directory` or not;
one that comes by SDS is read again after a rename or a swapped link in its folder, but not after the file was written
in place (`gcloud auth print-access-token > FILE`), and an emptied file takes the key away. Reading the file for every
request costs about 10 us, needs no second file beside a static bootstrap, no watcher and no restart, and sees every
kind of change at once.

In a running gateway the keys of the configuration itself come this way, too, from private files: a secret by SDS costs
an inotify instance for each backend (`sources`). Each hop has a small Lua machine of its own for it in every thread of
Envoy, some 50 KB. A static bootstrap, which nobody watches, leaves those keys to the injector.

The rule is that of `extproc.config.keyfile`: one word, white space around it ignored. While the file gives none, as
between emptying and writing it, the last key stays in use (each thread of Envoy has its own, that of its last request);
without any the request fails, so that it can go to the next attempt.
"""

from __future__ import annotations

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.filters.http.lua import v3 as lua
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm

from extproc.config.keyfile import LONGEST_KEY_FILE
from extproc.envoy_config.rendering import pack
from extproc.envoy_config.secrets import KeyHeader

NO_KEY_DETAILS = "lua_response"
"""What Envoy says in `response.code_details` of the reply that the filter gives without a key."""

_SCRIPT = """\
local path, header, prefix, place = {path}, {header}, {prefix}, {place}
local last, said

local function read()
  local file, why = io.open(path, "rb")
  if not file then return nil, why end
  local text = file:read({longest})
  file:close()
  local key = text and text:match("^%s*([!-~]+)%s*$")
  if key then return key end
  return nil, path .. (text and text:find("%S") and " holds no key" or " is empty")
end

function envoy_on_request(handle)
  local key, why = read()
  if key then
    last, said = key, nil
  elseif why ~= said then
    said = why
    handle:logErr(place .. ": " .. why .. (last and "; the last key stays in use" or "; its requests fail"))
  end
  if last then
    handle:headers():replace(header, prefix .. last)
  else
    handle:respond({{[":status"] = "503"}}, "no key")
  end
end
"""


def key_from_file(place: str, path: str, header: KeyHeader) -> hcm.HttpFilter:
    """Reads the file at `path` and sends what it holds in `header`, over whatever stands there. `place`: what the log
    calls it."""
    script = _SCRIPT.format(
        path=quoted(path), header=quoted(header.name), prefix=quoted(header.prefix),
        place=quoted(place), longest=LONGEST_KEY_FILE)
    return hcm.HttpFilter(name="provider_key", typed_config=pack(lua.Lua(
        # The route is chosen; after translation there is not all that it would take to choose it again.
        clear_route_cache=False,
        default_source_code=core.DataSource(inline_string=script))))


def quoted(text: str) -> str:
    """A string literal of Lua: what is not plain ASCII goes in as decimal bytes."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03d}"
             for byte in text.encode("utf-8", "surrogateescape"))
    return f'"{"".join(plain)}"'
