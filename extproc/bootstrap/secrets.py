"""Provider keys as Envoy secrets.

A key never stands in a listener or a route: those name the secret, and Envoy's credential injector adds the value
after translation. Placeholders take the values' place wherever the configuration is shown.
"""

from __future__ import annotations

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls

from extproc.config import Backend, Config

KEY_HEADERS = {"openai": ("authorization", "Bearer "), "anthropic": ("x-api-key", ""), "gemini": ("x-goog-api-key", "")}
"""For each provider API the header that carries the key, and what stands before the key in it."""


def secret_name(backend: str) -> str:
    """The name of the secret that holds the key of this backend."""
    return f"key-{backend}"


def placeholder(kind: str, name: str) -> str:
    """What stands for a key where it must not be shown: `backend` or `team`, and its name."""
    return f"PUT-THE-KEY-OF-{kind.upper()}-{name}-HERE"


def provider_secrets(config: Config, *, with_secrets: bool) -> list[tls.Secret]:
    """One generic secret for each backend that has a key, in the order of the configuration."""
    return [_secret(name, backend, with_secrets) for name, backend in config.backends.items() if backend.key]


def _secret(name: str, backend: Backend, with_secrets: bool) -> tls.Secret:
    value = backend.key if with_secrets and backend.key else placeholder("backend", name)
    # The injector's own prefix option is left alone: one place that says how a header looks is enough.
    text = KEY_HEADERS[backend.api][1] + value
    return tls.Secret(name=secret_name(name), generic_secret=tls.GenericSecret(secret=core.DataSource(
        inline_string=text)))
