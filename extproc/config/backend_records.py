"""What the configuration file says about a provider's endpoint: where it is, what it speaks, which keys it takes.

Part of the records in `extproc.config.records`, which import it; the reference page is generated from the docstrings.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal
from urllib.parse import unquote, urlsplit

import msgspec

from extproc.config.addresses import is_loopback, is_private
from extproc.config.keyfile import key_file
from extproc.config.tool_records import ToolSettings


class ProviderKey(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One of several keys of a backend."""

    key: str | None = None
    """The key itself. Write `${VAR}` to take it from the environment."""
    key_file: str | None = None
    """Instead of `key`: a file that holds it, as a backend's own `key_file`."""
    weight: int = 1
    """This key's share of the requests, beside the weights of the others."""

    def __repr__(self) -> str:
        """Without the key."""
        return f"ProviderKey(key={'***' if self.key else None}, key_file={self.key_file!r}, weight={self.weight})"


ProviderKeys = list[str | ProviderKey]


class Backend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """An endpoint of a provider."""

    api: Literal["openai", "anthropic", "gemini"]
    """The API that the endpoint speaks."""
    url: str
    """The base URL, with the path before the API's own one, such as `https://openrouter.ai/api/v1`."""
    key: str | None = None
    """The provider's key. Write `${VAR}` to take it from the environment."""
    key_file: str | None = None
    """Instead of `key`: a file that holds the key or token, for instance one that is renewed every hour. Envoy reads
    it for every request, so a new one needs no restart, however it was written; white space around it is ignored. A
    relative path starts at the configuration file's folder. While the file is missing or empty the last key stays in
    use."""
    keys: ProviderKeys = []
    """Instead of `key`: several keys, each a text or a mapping (see below), that take turns. A key that the provider
    refuses (401, 402, 403) or holds back (429) rests for a while, and the same request goes on with another one."""
    auth: Literal["key", "bearer"] | None = None
    """How the key is sent: `bearer` as `Authorization: Bearer KEY`, `key` in the API's own header: `x-api-key`
    (anthropic), `x-goog-api-key` (gemini), `api-key` (openai, as Azure reads it). Unset: `bearer` for openai, for
    Vertex AI and for the endpoints in Anthropic's format that are known to want it, else `key`."""
    provider: str | None = None
    """Whose peculiarities apply (a profile's name); found by the URL's host when unset. `vertex` says that a gemini
    endpoint under another name is Vertex AI."""
    ca: str | None = None
    """With https: a file of certificates (PEM) of the authorities that may sign the endpoint's certificate, instead of
    those that this machine trusts. Envoy reads it at the start."""
    trace: bool | None = None
    """Whether the endpoint is told the trace that a request belongs to (`traceparent` and `tracestate`; never
    `baggage`). Unset: it is where its host is on this machine or on a private network, by its address or its name (one
    without a dot, or that ends in `.local`, `.internal` or `.svc`)."""
    proxy: str | None = None
    """An HTTP proxy on the way to this endpoint, such as `http://proxy.example:3128`; with a user name and password
    where it wants them. The proxy is asked to CONNECT to the endpoint's host, whose name only the proxy has to know;
    TLS with the endpoint goes through it."""
    safety: dict[str, str] = {}
    """Only with `api: gemini`: thresholds of its safety filters by category, such as
    `{HARM_CATEGORY_HARASSMENT: BLOCK_ONLY_HIGH}` (see below). Without one the provider's own applies."""
    tools: ToolSettings = ToolSettings()
    """How tools go to the models of this endpoint: each key over that of the top level."""

    def __repr__(self) -> str:
        """Without the keys: a record ends up in logs sooner or later."""
        return (f"Backend(api={self.api!r}, url={self.url!r}, key={'***' if self.key else None}, "
                f"key_file={self.key_file!r}, keys={len(self.keys)}, auth={self.auth!r}, provider={self.provider!r}, "
                f"ca={self.ca!r}, trace={self.trace!r}, proxy={'***' if self.proxy else None}, "
                f"safety={self.safety!r}, tools={self.tools!r})")

    @property
    def has_key(self) -> bool:
        """Whether a key is sent to this endpoint."""
        return bool(self.key or self.key_file or self.keys)

    @cached_property
    def several_keys(self) -> tuple[ProviderKey, ...]:
        """The entries of `keys`, all in their long form."""
        return tuple(ProviderKey(key=entry) if isinstance(entry, str) else entry for entry in self.keys)

    @property
    def known_keys(self) -> tuple[str, ...]:
        """Every key that is sent there: those of the configuration, and those that key files hold now and held
        last."""
        entries = (ProviderKey(key=self.key, key_file=self.key_file), *self.several_keys)
        return tuple(dict.fromkeys(known for entry in entries for known in _known(entry)))

    def look_at_keys(self) -> None:
        """Remembers the keys that its files hold now: an answer may quote the key of its request when the file holds
        another one already."""
        _ = self.known_keys

    @cached_property
    def has_key_files(self) -> bool:
        """Whether `known_keys` may change while the configuration stays."""
        return self.key_file is not None or any(entry.key_file is not None for entry in self.several_keys)

    @cached_property
    def host(self) -> str:
        """The URL's host name or address, without brackets, lower case; "" for the built-in demo."""
        return urlsplit(self.url).hostname or ""

    @cached_property
    def port(self) -> int:
        """The URL's port, or its scheme's."""
        return urlsplit(self.url).port or (443 if self.is_tls else 80)

    @cached_property
    def base_path(self) -> str:
        """The URL's path without a trailing slash; "" for none."""
        return "" if self.is_demo else urlsplit(self.url).path.rstrip("/")

    @property
    def authority(self) -> str:
        """The value of the Host header: the port only where it is not the scheme's, IPv6 in brackets."""
        return self.address.rpartition(":")[0] if self.port == (443 if self.is_tls else 80) else self.address

    @property
    def address(self) -> str:
        """HOST:PORT, IPv6 in brackets: what a proxy is asked to connect to."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @cached_property
    def is_tls(self) -> bool:
        """Whether the endpoint is reached over TLS."""
        return urlsplit(self.url).scheme == "https"

    @cached_property
    def is_local(self) -> bool:
        """Whether the endpoint is on this machine."""
        return self.is_demo or is_loopback(self.host)

    @cached_property
    def is_traced(self) -> bool:
        """Whether the endpoint is told the trace of a request."""
        return self.is_demo or is_private(self.host) if self.trace is None else self.trace

    @property
    def is_demo(self) -> bool:
        """The built-in demo, whose address is known only once it runs (see `Config.with_backend_url`)."""
        return self.url == "demo:"


def _known(entry: ProviderKey) -> tuple[str, ...]:
    if entry.key_file:
        return key_file(entry.key_file).keys()
    return (entry.key,) if entry.key else ()


class Proxy(msgspec.Struct, frozen=True):
    """An outgoing proxy, taken apart. `login` is `USER:PASSWORD` or None."""

    host: str
    port: int
    is_tls: bool
    login: str | None


def read_proxy(url: str) -> Proxy:
    """The parts of a `proxy` that the checks have passed."""
    parts = urlsplit(url)
    is_tls = parts.scheme == "https"
    login = None
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(parts.hostname or "", parts.port or (443 if is_tls else 80), is_tls, login)
