"""How a provider's key is sent, and keys of the configuration on their way to Envoy.

A key never stands in a listener or a route. In a running gateway it stands in a private file, which Envoy reads when it
needs the key (`key_files`, `several_keys`); in a static bootstrap it is a secret that the listener names, and Envoy's
credential injector adds it after translation. Placeholders take the values' place wherever the configuration is shown.
Keys in files of the user's never come here.
"""

from __future__ import annotations

from typing import NamedTuple

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls

from extproc.config import Backend, Config, ProviderKey
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
    """The name under which a key of the configuration is delivered in a file; `number` counts from 1, which is also
    that of a single key."""
    return f"{backend}.{number}"


def keys_in_files(name: str, backend: Backend) -> dict[str, str]:
    """The keys of the configuration that are delivered in files: name -> key."""
    entries = (ProviderKey(key=backend.key),) if backend.key else backend.key_entries
    return {key_name(name, number): entry.key for number, entry in enumerate(entries, 1) if entry.key is not None}


def placeholder(kind: str, name: str) -> str:
    """What stands for a key where it must not be shown: `backend` or `team`, and its name."""
    return f"PUT-THE-KEY-OF-{kind.upper()}-{name}-HERE"


def provider_secrets(config: Config, *, with_secrets: bool) -> list[tls.Secret]:
    """One generic secret for each backend whose key the configuration holds, in its order, for a static bootstrap."""
    return [_secret(name, backend, with_secrets) for name, backend in config.backends.items() if backend.key]


def _secret(name: str, backend: Backend, with_secrets: bool) -> tls.Secret:
    value = backend.key if with_secrets and backend.key else placeholder("backend", name)
    # The injector's own prefix option is left alone: one place that says how a header looks is enough.
    text = key_header(backend).prefix + value
    return tls.Secret(name=secret_name(name), generic_secret=tls.GenericSecret(secret=core.DataSource(
        inline_string=text)))
