"""A provider's key: its header, and how Envoy gets it from the configuration.

A listener or a route never contains a key. In a running gateway the key is in a private file that a few lines of Lua
read for each request (`key_rotation` does the same for several keys). In a static bootstrap it is a secret that the
listener names, and Envoy's credential injector adds it after translation. Printed configurations have placeholders.
Keys from a user's own files are never copied.

Lua takes the injector's place because the injector misses changes of a key file. Tried with Envoy 1.40: Envoy reads a
static secret with a `filename` once, with or without `watched_directory`. It reads a secret by SDS again after a rename
or a changed link in the file's folder, but not after a write in place (`gcloud auth print-access-token > FILE`), and an
emptied file removes the key. A secret by SDS also costs an inotify instance for each backend (`resource_sources`).
Reading the file for every request costs about 10 us, needs no watcher and no restart, and notices every change. Each
hop has a Lua machine of about 50 KB in every thread of Envoy.

The rule for the content is that of `extproc.config.keyfile`: one word, white space around it ignored. While the file
has no key, as between emptying and writing it, the last key stays in use (each thread of Envoy has its own, from its
last request). Without any key the request fails, so that the next attempt can follow.
"""

from __future__ import annotations

from typing import NamedTuple

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.filters.http.lua import v3 as lua
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls

from extproc.config import Backend, Config, ProviderKey
from extproc.config.keyfile import LONGEST_KEY_FILE
from extproc.envoy_config.rendering import pack
from extproc.profiles.apis import API_FACTS


class KeyHeader(NamedTuple):
    """The header that carries a key: `NAME: PREFIX` and the key."""

    name: str
    prefix: str


BEARER = KeyHeader("authorization", "Bearer ")


def key_header(backend: Backend) -> KeyHeader:
    """The header for this backend's key: as `auth` says, else as the API and the URL do."""
    return BEARER if backend.takes_bearer else KeyHeader(API_FACTS[backend.api].key_header, "")


def secret_name(backend: str) -> str:
    """The name of the secret that holds the key of this backend."""
    return f"key-{backend}"


def key_name(backend: str, number: int) -> str:
    """The name of the file of a configured key, without its prefix. `number` counts from 1; a single key has 1."""
    return f"{backend}.{number}"


def keys_in_files(name: str, backend: Backend) -> dict[str, str]:
    """The configured keys that go into files of the runtime directory: name -> key."""
    entries = (ProviderKey(key=backend.key),) if backend.key else backend.key_entries
    return {key_name(name, number): entry.key for number, entry in enumerate(entries, 1) if entry.key is not None}


def placeholder(kind: str, name: str) -> str:
    """The text instead of a key that must not be shown. `kind`: `backend` or `team`."""
    return f"PUT-THE-KEY-OF-{kind.upper()}-{name}-HERE"


def provider_secrets(config: Config, *, with_secrets: bool) -> list[tls.Secret]:
    """One generic secret for each backend with a `key`, in the order of the configuration, for a static bootstrap."""
    return [_secret(name, backend, with_secrets) for name, backend in config.backends.items() if backend.key]


def _secret(name: str, backend: Backend, with_secrets: bool) -> tls.Secret:
    value = backend.key if with_secrets and backend.key else placeholder("backend", name)
    # Not by the injector's own prefix option: `key_header` alone decides the form of a header.
    text = key_header(backend).prefix + value
    return tls.Secret(name=secret_name(name), generic_secret=tls.GenericSecret(secret=core.DataSource(
        inline_string=text)))


# ----------------------------------------------------------------------------------------------------- keys from files

NO_KEY_DETAILS = "lua_response"
"""Envoy's `response.code_details` for the filter's own reply, which it sends if there is no key."""

_SCRIPT = """\
local path, header, prefix, place = {path}, {header}, {prefix}, {place}
local last, logged

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
    last, logged = key, nil
  elseif why ~= logged then
    logged = why
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
    """Reads the key file at `path` and sets `header`. `place`: the setting that the log names."""
    script = _SCRIPT.format(
        path=quoted(path), header=quoted(header.name), prefix=quoted(header.prefix),
        place=quoted(place), longest=LONGEST_KEY_FILE)
    return hcm.HttpFilter(name="provider_key", typed_config=pack(lua.Lua(
        # After translation the request lacks headers by which the route was chosen.
        clear_route_cache=False,
        default_source_code=core.DataSource(inline_string=script))))


def quoted(text: str) -> str:
    """A string literal of Lua. Bytes other than printable ASCII are decimal escapes."""
    plain = (chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03d}"
             for byte in text.encode("utf-8", "surrogateescape"))
    return f'"{"".join(plain)}"'
