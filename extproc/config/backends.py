"""Backends: the endpoint of a provider, its API, its keys, and their checks.

The checks also get backends of which only a part could be converted. The other parts are None and are skipped.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal
from urllib.parse import unquote, urlsplit

import msgspec

from extproc.config.keyfile import key_file
from extproc.config.prices import AnyPrice
from extproc.config.request_edits import request_edit_problems
from extproc.config.tools import ToolSettings
from extproc.config.values import (
    Problem,
    file_path_problems,
    header_value_problems,
    is_loopback,
    is_private,
    unreadable_reason,
)
from extproc.profiles.apis import API_FACTS, ApiName
from extproc.profiles.responses import EndpointChoice

DEMO_URL = "demo:"
"""The placeholder for the demo's address until it runs (`Config.with_backend_url`)."""
_ANY_API_PROVIDERS = ("generic", "demo")
_URL_CHARACTERS = re.compile(r"[\x21-\x7e]+")


class ProviderKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of several keys of a backend."""

    key: str | None = None
    """The key itself. Write `${VAR}` to take it from the environment."""
    key_file: str | None = None
    """Instead of `key`: a file with the key, like `key_file` of a backend."""
    weight: int = 1
    """This key's share of the requests, relative to the weights of the others."""

    def __repr__(self) -> str:
        """Without the key."""
        return f"ProviderKey(key={'***' if self.key else None}, key_file={self.key_file!r}, weight={self.weight})"

    @property
    def known_keys(self) -> tuple[str, ...]:
        """The key, or the present and earlier keys of the key file."""
        if self.key_file:
            return key_file(self.key_file).keys()
        return (self.key,) if self.key else ()


ProviderKeys = list[str | ProviderKey]


class Backend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """An endpoint of a provider."""

    api: ApiName
    """The API that the endpoint speaks."""
    url: str
    """The base URL, with the path before the API's own one, such as `https://openrouter.ai/api/v1`."""
    key: str | None = None
    """The provider's key. Write `${VAR}` to take it from the environment."""
    key_file: str | None = None
    """Instead of `key`: a file with the key or token, for instance one that is renewed every hour. Envoy reads it for
    every request, so a new key needs no restart, however the file was written. White space around the key is
    ignored. A relative path starts at the configuration file's folder. While the file is missing or empty, the last
    key stays in use."""
    keys: ProviderKeys = []
    """Instead of `key`: several keys that are rotated, each a text or a mapping (see below). A key that the provider
    refuses (401, 402, 403) or limits (429) rests for a while, and the same request continues with another one."""
    auth: Literal["key", "bearer"] | None = None
    """How the key is sent: `bearer` as `Authorization: Bearer KEY`, `key` in the API's own header: `x-api-key`
    (anthropic), `x-goog-api-key` (gemini), `api-key` (openai, as Azure reads it). Unset: `bearer` for openai, for
    Vertex AI and for the endpoints in Anthropic's format that are known to expect it, else `key`."""
    provider: str | None = None
    """The name of the profile with the endpoint's peculiarities. Unset: found by the URL's host. `vertex`: a gemini
    endpoint under another host name is Vertex AI."""
    ca: str | None = None
    """With https: a file with the certificates (PEM) of the authorities that may sign the endpoint's certificate,
    instead of those that this machine trusts. Envoy reads it at the start."""
    trace: bool | None = None
    """Whether the endpoint gets the trace context of a request (`traceparent` and `tracestate`; never `baggage`).
    Unset: it does if its host is on this machine or on a private network, judged by its address or its name (one
    without a dot, or one that ends in `.local`, `.internal` or `.svc`)."""
    proxy: str | None = None
    """An HTTP proxy for this endpoint, such as `http://proxy.example:3128`, with a user name and password if it needs
    them. The proxy gets a CONNECT for the endpoint's host, and only the proxy resolves that name. TLS is end to end."""
    endpoint: EndpointChoice = "auto"
    """Only with `api: openai`: the API of the requests, `chat` (`/chat/completions`) or `responses` (`/responses`).
    `auto`: Chat Completions, except for those models at api.openai.com and at Azure's `/openai/v1` that take function
    tools beside reasoning on Responses only (gpt-5.4 and later, `-pro` and codex models)."""
    reasoning_summaries: bool = True
    """Only for the Responses API: request a summary of the model's reasoning for clients that ask for reasoning. OpenAI
    refuses such requests of organisations that it has not verified: `false` for them. The reasoning itself returns in
    either case, encrypted."""
    safety: dict[str, str] = {}
    """Only with `api: gemini`: thresholds of its safety filters by category, such as
    `{HARM_CATEGORY_HARASSMENT: BLOCK_ONLY_HIGH}` (see below). The provider's own threshold applies to all others."""
    tools: ToolSettings = ToolSettings()
    """How tools go to the models of this endpoint. Each key overrides that of the top level."""
    set: dict[str, Any] = {}
    """Fields that are added to requests without them, such as `{temperature: 0.7}`. A key is the path of a field in the
    provider's API, names with dots between them; a value is any value of JSON."""
    override: dict[str, Any] = {}
    """The same, also over a value of the request: `{provider.sort: price}`."""
    remove: list[str] = []
    """Paths of fields that are removed from requests."""
    headers: dict[str, str] = {}
    """Headers for the endpoint, such as `{X-Title: Our gateway}`. Keys belong into `key`."""
    price: AnyPrice = None
    """The price of every model of this endpoint, or 0 (see below). Unset: that of the price table."""

    def __repr__(self) -> str:
        """Without the keys: records end up in logs sooner or later."""
        return (f"Backend(api={self.api!r}, url={self.url!r}, key={'***' if self.key else None}, "
                f"key_file={self.key_file!r}, keys={len(self.keys)}, auth={self.auth!r}, provider={self.provider!r}, "
                f"ca={self.ca!r}, trace={self.trace!r}, proxy={'***' if self.proxy else None}, "
                f"endpoint={self.endpoint!r}, reasoning_summaries={self.reasoning_summaries!r}, "
                f"safety={self.safety!r}, tools={self.tools!r}, set={self.set!r}, override={self.override!r}, "
                f"remove={self.remove!r}, headers={sorted(self.headers)!r}, price={self.price!r})")

    @property
    def has_key(self) -> bool:
        """True if a key is sent to this endpoint."""
        return bool(self.key or self.key_file or self.keys)

    @cached_property
    def key_entries(self) -> tuple[ProviderKey, ...]:
        """The entries of `keys`, all in their long form."""
        return tuple(ProviderKey(key=entry) if isinstance(entry, str) else entry for entry in self.keys)

    @property
    def known_keys(self) -> tuple[str, ...]:
        """Every key for this endpoint: those of the configuration, and the present and earlier ones of key files."""
        entries = (ProviderKey(key=self.key, key_file=self.key_file), *self.key_entries)
        return tuple(dict.fromkeys(known for entry in entries for known in entry.known_keys))

    def remember_keys(self) -> None:
        """Reads the key files, so that `known_keys` keeps their present keys: a provider may quote the key of a request
        after its file has changed."""
        _ = self.known_keys

    @cached_property
    def has_key_files(self) -> bool:
        """True if `known_keys` may change although the configuration does not."""
        return self.key_file is not None or any(entry.key_file is not None for entry in self.key_entries)

    @cached_property
    def host(self) -> str:
        """The URL's host name or address, without brackets, lower case; "" for the built-in demo."""
        return urlsplit(self.url).hostname or ""

    @cached_property
    def port(self) -> int:
        """The URL's port, or that of its scheme."""
        return urlsplit(self.url).port or (443 if self.is_tls else 80)

    @cached_property
    def base_path(self) -> str:
        """The URL's path without a trailing slash; "" for none."""
        return "" if self.is_demo else urlsplit(self.url).path.rstrip("/")

    @property
    def authority(self) -> str:
        """The value of the Host header: HOST:PORT, without the port if it is that of the scheme; IPv6 in brackets."""
        return self.address.rpartition(":")[0] if self.port == (443 if self.is_tls else 80) else self.address

    @property
    def address(self) -> str:
        """HOST:PORT, IPv6 in brackets: the target of a proxy's CONNECT."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @cached_property
    def is_tls(self) -> bool:
        """True if the endpoint is reached over TLS."""
        return urlsplit(self.url).scheme == "https"

    @cached_property
    def is_local(self) -> bool:
        """True if the endpoint is on this machine."""
        return self.is_demo or is_loopback(self.host)

    @cached_property
    def is_traced(self) -> bool:
        """True if the endpoint gets the trace context of a request."""
        return self.is_demo or is_private(self.host) if self.trace is None else self.trace

    @property
    def is_demo(self) -> bool:
        """The built-in demo, whose address is known only once it runs (see `Config.with_backend_url`)."""
        return self.url == DEMO_URL

    @property
    def takes_bearer(self) -> bool:
        """True if the key is sent as `Authorization: Bearer KEY`, else in the header of the API."""
        if self.auth is not None:
            return self.auth == "bearer"
        return API_FACTS[self.api].takes_bearer(self.authority, self.base_path, self.provider)

    @property
    def invalid_key_is_400(self) -> bool:
        """True if the endpoint refuses an invalid key with 400 (`ApiFacts.invalid_key_is_400`)."""
        return API_FACTS[self.api].invalid_key_is_400(self.authority, self.base_path, self.provider)


class Proxy(msgspec.Struct, frozen=True):
    """The parts of an outgoing proxy's URL. `login` is `USER:PASSWORD` or None."""

    host: str
    port: int
    is_tls: bool
    login: str | None


def parse_proxy(url: str) -> Proxy:
    """The parts of a `proxy` that has passed the checks."""
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    login = None
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls, login)


# ---------------------------------------------------------------------------------------------------------- problems


def backend_problems(path: str, backend: Backend, builtin: bool) -> Iterator[Problem]:
    """What makes the backend unusable, as (path, reason). `builtin`: the demo's URL is allowed."""
    if backend.url is not None and not (builtin and backend.url == DEMO_URL):
        reason = _url_problem(backend.url)
        if reason:
            yield f"{path}.url", reason
    yield from header_value_problems(f"{path}.key", backend.key)
    yield from header_value_problems(f"{path}.provider", backend.provider)
    if backend.key_file is not None:
        if backend.key is not None:
            yield f"{path}.key_file", "is set together with key: give one of them"
        yield from file_path_problems(f"{path}.key_file", backend.key_file)
    yield from _keys_problems(f"{path}.keys", backend)
    yield from file_path_problems(f"{path}.ca", backend.ca)
    if backend.proxy is not None:
        reason = _proxy_problem(backend.proxy)
        if reason:
            yield f"{path}.proxy", reason
    yield from endpoint_problems(f"{path}.endpoint", backend.endpoint, backend.api)
    yield from safety_problems(f"{path}.safety", backend.safety, backend.api)
    yield from request_edit_problems(path, backend, backend.api)


def endpoint_problems(path: str, endpoint: str | None, api: str | None) -> Iterator[Problem]:
    """What is wrong with an `endpoint` for a backend of this API (None: not known)."""
    if endpoint not in (None, "auto") and api not in (None, "openai"):
        yield path, f"is for backends with api: openai, this one has api: {api}"


def safety_problems(path: str, safety: Mapping[str, str], api: str | None) -> Iterator[Problem]:
    """What is wrong with a `safety` mapping for a backend of this API (None: not known)."""
    with_safety = {name: facts for name, facts in API_FACTS.items() if facts.safety_categories}
    if safety and api is not None and api not in with_safety:
        yield path, f"is for backends with api: {' or '.join(with_safety)}, this one has api: {api}"
    for name, facts in with_safety.items():
        if api not in (name, None) and api in with_safety:
            continue
        for category, threshold in safety.items():
            if category not in facts.safety_categories:
                yield f"{path}.{category}", f"no such category{_suggestion(category, facts.safety_categories)}"
            elif threshold is not None and threshold not in facts.safety_thresholds:
                yield f"{path}.{category}", (
                    f'no threshold "{threshold[:40]}"{_suggestion(threshold, facts.safety_thresholds)}')


def _suggestion(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word.upper(), known, n=1, cutoff=0.6)
    return f', did you mean "{near[0]}"?' if near else f"; known: {', '.join(known)}"


def _keys_problems(path: str, backend: Backend) -> Iterator[Problem]:
    if backend.keys and (backend.key is not None or backend.key_file is not None):
        yield path, "is set together with key or key_file: give one of them"
    for index, entry in enumerate(backend.keys or ()):
        place = f"{path}[{index}]"
        if isinstance(entry, str):
            yield from header_value_problems(place, entry)
        elif entry is not None:
            yield from _key_entry_problems(place, entry)


def _key_entry_problems(path: str, entry: ProviderKey) -> Iterator[Problem]:
    if (entry.key is None) == (entry.key_file is None):
        yield path, "needs one of key and key_file"
    yield from header_value_problems(f"{path}.key", entry.key)
    yield from file_path_problems(f"{path}.key_file", entry.key_file)
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
    return None if _URL_CHARACTERS.fullmatch(url) else "holds a space or a character that a URL cannot carry"


def _proxy_problem(url: str) -> str | None:
    """As for a base URL, but a login is allowed and a path is not. Never quotes the text: it may hold a password."""
    try:
        parts = urlsplit(url)
        without_login = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:
        return "is not a URL"
    if not _URL_CHARACTERS.fullmatch(url):
        return "holds a space or a character that a URL cannot carry: write it as %XX"
    reason = _url_problem(without_login)
    if reason is None and parts.path not in ("", "/"):
        return "must end after the port"
    if reason is None and parts.username is not None and not (parse_proxy(url).login or "").isprintable():
        return "the user name or password holds a control character"
    return reason


# ---------------------------------------------------------------------------------------------------------- warnings


def backend_warnings(path: str, backend: Backend) -> Iterator[Problem]:
    """Valid settings that are unsafe or probably a mistake, as (path, reason)."""
    facts = API_FACTS[backend.api]
    if backend.has_key and not backend.is_tls and not backend.is_local:
        yield f"{path}.url", "the key travels unencrypted: use https://"
    if backend.provider is not None and backend.provider.lower() not in (*facts.provider_names, *_ANY_API_PROVIDERS):
        near = difflib.get_close_matches(backend.provider.lower(), facts.provider_names, n=1)
        yield f"{path}.provider", (f'no profile is named "{backend.provider}": generic rules apply'
                                   + (f'; the nearest name is "{near[0]}"' if near else ""))
    if backend.auth is not None and not backend.has_key:
        yield f"{path}.auth", "has no effect without key, key_file or keys"
    if backend.ca is not None:
        if not backend.is_tls:
            yield f"{path}.ca", "has no effect without https"
        elif reason := unreadable_reason(backend.ca):
            yield f"{path}.ca", f"{reason}; Envoy does not start without it"
    literals = [entry.key for entry in backend.key_entries if entry.key]
    if len(set(literals)) < len(literals):
        yield f"{path}.keys", "holds the same key more than once"
    if backend.proxy is not None and is_loopback(backend.host):
        yield f"{path}.proxy", f"the proxy is asked to connect to {backend.address}, which is its own machine"
    if mistake := facts.url_mistake(backend.authority, backend.base_path, backend.provider):
        yield f"{path}.url", mistake


def key_file_warnings(path: str, backend: Backend) -> Iterator[Problem]:
    """The key files without a key. Not an error: a token may come later, and Envoy may read the file on another
    machine."""
    if backend.key_file and (reason := key_file(backend.key_file).problem()):
        yield f"{path}.key_file", f"{reason}; until it holds a key this backend's requests fail"
    for index, entry in enumerate(backend.key_entries):
        if entry.key_file and (reason := key_file(entry.key_file).problem()):
            yield f"{path}.keys[{index}].key_file", f"{reason}; until it holds a key the others are used"
