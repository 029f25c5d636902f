"""What is wrong, and what is unwise, about the backends of a configuration: URLs, keys, certificates, proxies.

Called by `extproc.config.checks`, also on a configuration that converted only in part: what did not is None there and
is passed over.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from urllib.parse import urlsplit

from extproc.config.addresses import is_loopback
from extproc.config.backend_records import Backend, ProviderKey, read_proxy
from extproc.config.builtin import DEMO_URL
from extproc.config.keyfile import key_file
from extproc.config.records import Problem
from extproc.config.safety import safety_problems
from extproc.profiles import PROVIDERS
from extproc.profiles.anthropic import KNOWN_NAMES
from extproc.profiles.gemini import VERTEX, gemini_endpoint

_PROVIDER_NAMES: dict[str, tuple[str, ...]] = {
    "openai": tuple(name for known in PROVIDERS for name in (known.name, *known.aliases)),
    "anthropic": KNOWN_NAMES,
    "gemini": ("gemini", "google", "aistudio", "vertex"),
}
_GENERIC = ("generic", "demo")

_HEADER_VALUE = re.compile(r"[\x21-\x7e]+")
_IN_A_URL = re.compile(r"[\x21-\x7e]+")


def backend_problems(path: str, backend: Backend, builtin: bool) -> Iterator[Problem]:
    """What makes the backend unusable, as (path, reason). `builtin`: the demo's URL is allowed."""
    if backend.url is not None and not (builtin and backend.url == DEMO_URL):
        reason = _url_problem(backend.url)
        if reason:
            yield f"{path}.url", reason
    yield from header_value(f"{path}.key", backend.key)
    yield from header_value(f"{path}.provider", backend.provider)
    if backend.key_file is not None:
        if backend.key is not None:
            yield f"{path}.key_file", "is there beside key: give one of them"
        yield from file_path(f"{path}.key_file", backend.key_file)
    yield from _keys(f"{path}.keys", backend)
    yield from file_path(f"{path}.ca", backend.ca)
    if backend.proxy is not None:
        reason = _proxy_problem(backend.proxy)
        if reason:
            yield f"{path}.proxy", reason
    yield from safety_problems(f"{path}.safety", backend.safety, backend.api)


def header_value(path: str, value: str | None) -> Iterator[Problem]:
    """A problem where the text cannot be a header's value."""
    if value is not None and not _HEADER_VALUE.fullmatch(value):
        yield path, "is empty" if not value else "holds a space, a line break or a character that a header cannot carry"


def file_path(path: str, value: str | None) -> Iterator[Problem]:
    """A problem where the text cannot be the path of a file. Whether the file is there is a warning's affair: Envoy may
    run on another machine."""
    if value is not None and (not value.strip() or not value.isprintable()):
        yield path, "is not the path of a file"


def _keys(path: str, backend: Backend) -> Iterator[Problem]:
    if backend.keys and (backend.key is not None or backend.key_file is not None):
        yield path, "is there beside key or key_file: give one of them"
    for index, entry in enumerate(backend.keys or ()):
        place = f"{path}[{index}]"
        if isinstance(entry, str):
            yield from header_value(place, entry)
        elif entry is not None:
            yield from _key(place, entry)


def _key(path: str, entry: ProviderKey) -> Iterator[Problem]:
    if (entry.key is None) == (entry.key_file is None):
        yield path, "needs one of key and key_file"
    yield from header_value(f"{path}.key", entry.key)
    yield from file_path(f"{path}.key_file", entry.key_file)
    if entry.weight < 1:
        yield f"{path}.weight", "must be at least 1"


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"is not a URL: {error}"
    if parts.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if not host:
        return "names no host"
    if port == 0:
        return "the port must be a number from 1 to 65535"
    if parts.username is not None or parts.password is not None:
        return "must not hold a user name or password: give the key as key"
    if "?" in url or "#" in url:
        return "must not hold a query or fragment"
    return None if _IN_A_URL.fullmatch(url) else "holds a space or a character that a URL cannot carry"


def _proxy_problem(url: str) -> str | None:
    """Like a base URL, but with a login and without a path. Never quotes the text, which may hold a password."""
    try:
        parts = urlsplit(url)
        without_login = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:
        return "is not a URL"
    if not _IN_A_URL.fullmatch(url):
        return "holds a space or a character that a URL cannot carry: write it as %XX"
    reason = _url_problem(without_login)
    if reason is None and parts.path not in ("", "/"):
        return "must end after the port"
    if reason is None and parts.username is not None and not (read_proxy(url).login or "").isprintable():
        return "the user name or password holds a control character"
    return reason


# --------------------------------------------------------------------------------------------------------- warnings


def backend_warnings(path: str, backend: Backend) -> Iterator[Problem]:
    """What works but is unsafe or probably not meant."""
    if backend.has_key and not backend.is_tls and not backend.is_local:
        yield f"{path}.url", "the key travels unencrypted: use https://"
    if backend.provider is not None and not _is_known_provider(backend):
        near = difflib.get_close_matches(backend.provider.lower(), _PROVIDER_NAMES[backend.api], n=1)
        yield f"{path}.provider", (f'nobody knows "{backend.provider}": generic rules apply'
                                   + (f'; the nearest name is "{near[0]}"' if near else ""))
    if backend.auth is not None and not backend.has_key:
        yield f"{path}.auth", "has no effect without key, key_file or keys"
    if backend.ca is not None:
        if not backend.is_tls:
            yield f"{path}.ca", "has no effect without https"
        elif reason := unreadable(backend.ca):
            yield f"{path}.ca", f"{reason}; Envoy does not start without it"
    literals = [entry.key for entry in backend.several_keys if entry.key]
    if len(set(literals)) < len(literals):
        yield f"{path}.keys", "the same key stands there more than once"
    if backend.proxy is not None and is_loopback(backend.host):
        yield f"{path}.proxy", f"the proxy is asked to connect to {backend.address}, which is its own machine"
    if backend.api == "gemini":
        yield from _gemini_url(f"{path}.url", backend)


def key_file_problems(path: str, backend: Backend) -> Iterator[Problem]:
    """The key files that give no key now."""
    if backend.key_file and (reason := key_file(backend.key_file).problem()):
        yield f"{path}.key_file", f"{reason}; until it holds a key this backend's requests fail"
    for index, entry in enumerate(backend.several_keys):
        if entry.key_file and (reason := key_file(entry.key_file).problem()):
            yield f"{path}.keys[{index}].key_file", f"{reason}; until it holds a key the others are used"


def unreadable(file: str) -> str | None:
    """Why the file cannot be read now; None when it can."""
    try:
        with open(file, "rb") as opened:
            return None if opened.read(1) else f"{file} is empty"
    except OSError as error:
        return f"{file} cannot be read: {error.strerror or os.strerror(error.errno or 0)}"


def _is_known_provider(backend: Backend) -> bool:
    assert backend.provider is not None
    return backend.provider.lower() in (*_PROVIDER_NAMES[backend.api], *_GENERIC)


def _gemini_url(path: str, backend: Backend) -> Iterator[Problem]:
    """Base URLs that lead nowhere, because Google's own pages show whole ones or those of another API."""
    base = backend.base_path
    if base.endswith(("/openai", "/endpoints/openapi")):
        yield path, "is the endpoint in OpenAI's format: say api: openai, or leave out what follows the version"
    elif "/models" in base:
        yield path, "must end before /models"
    elif gemini_endpoint(backend.authority, base, backend.provider) is VERTEX:
        if "/publishers/" not in base:
            yield path, "lacks the publisher: .../v1/projects/PROJECT/locations/LOCATION/publishers/google"
    elif not base:
        yield path, "lacks the version, such as /v1beta"
