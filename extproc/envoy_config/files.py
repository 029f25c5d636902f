"""Envoy's configuration in two forms: files that Envoy watches, or one static bootstrap.

`build` is the entry point of `extproc up`, `static_bootstrap` that of `extproc envoy-config`, the examples and the
tests. Nothing here starts Envoy or talks to it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import betterproto2
import msgspec
from envoy_data_plane.envoy.config.bootstrap import v3 as bootstrap
from envoy_data_plane.envoy.config.cluster import v3 as cluster
from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.listener import v3 as listener
from envoy_data_plane.envoy.extensions.bootstrap.internal_listener import v3 as internal
from envoy_data_plane.envoy.service.discovery import v3 as discovery

from extproc.config import Config
from extproc.envoy_config import clusters, listeners, tracing
from extproc.envoy_config.cluster_parts import address_of
from extproc.envoy_config.layout import DEFAULT_LIMITS_ADDRESS, RuntimeLayout
from extproc.envoy_config.listeners import edge_secrets
from extproc.envoy_config.provider_clusters import provider_clusters, proxy_listener
from extproc.envoy_config.provider_keys import keys_in_files, provider_secrets
from extproc.envoy_config.rendering import extension, json_text, pack, to_json
from extproc.envoy_config.resource_sources import Inline, Sources, WatchedFiles, key_file_name, route_file, secret_file
from extproc.envoy_config.routes import edge_table, hops_table
from extproc.envoy_config.stream_end_log import worker_clusters
from extproc.process.private_files import write_private

Json = dict[str, Any]


@dataclass(frozen=True)
class EnvoyConfig:
    """Everything that Envoy needs to serve one configuration."""

    config: Config
    runtime: RuntimeLayout
    ca: str | None = None
    """The file of trusted certificates; this machine's by default."""

    def files(self) -> dict[str, str]:
        """File name -> content, for the runtime directory. Contains keys: use `write` to write it."""
        sources = WatchedFiles(self.runtime.config)
        made: dict[str, Json] = {
            "bootstrap.json": to_json(self._bootstrap(sources)),
            "cds.json": _resources(_clusters(self.config, self.runtime.sockets, f"unix:{self.runtime.limits_socket}",
                                             self.ca or clusters.trusted_ca(), sources, with_secrets=True)),
            "lds.json": _resources(_listeners(self.config, sources, self.runtime.sockets, with_secrets=True)),
        }
        edge = edge_table(self.config, with_secrets=True)
        for table in (edge, hops_table(self.config)):
            made[route_file(table.name)] = _resources([table])
        for secret in edge_secrets(self.config, self.runtime.reload_trigger):
            made[secret_file(secret.name)] = _resources([secret])
        keys = {key_file_name(name): key for backend, found in self.config.backends.items()
                for name, key in keys_in_files(backend, found).items()}
        return {**keys, **{name: json_text(content) for name, content in made.items()}}

    def write(self) -> None:
        """Writes the files, each by rename, so that Envoy never reads half of one.

        A running Envoy needs them in this order: references point to files that were written before (secrets and
        clusters, then routes, then listeners)."""
        order = {"key": 0, "sds": 0, "cds": 1, "rds": 2, "lds": 3, "bootstrap": 4}
        made = self.files()
        for name in sorted(made, key=lambda file: order[file.split("-")[0].split(".")[0]]):
            write_private(self.runtime.config / name, made[name])

    def static(self, *, with_secrets: bool) -> Json:
        """One bootstrap with everything in it. Without `with_secrets` it has placeholders for all keys."""
        return static_bootstrap(self.config, with_secrets=with_secrets, sockets=list(self.runtime.sockets), ca=self.ca)

    def _bootstrap(self, sources: WatchedFiles) -> bootstrap.Bootstrap:
        made = _frame()
        made.admin = bootstrap.Admin(address=core.Address(pipe=core.Pipe(
            path=str(self.runtime.envoy_admin), mode=0o600)))
        made.dynamic_resources = bootstrap.BootstrapDynamicResources(
            lds_config=sources.config_source("lds.json"), cds_config=sources.config_source("cds.json"))
        return made


def build(config: Config, runtime: RuntimeLayout, *, ca: str | None = None) -> EnvoyConfig:
    """The configuration for Envoy, its files to live in the given runtime directory. `ca`: the file of trusted
    certificates, this machine's by default."""
    return EnvoyConfig(config, runtime, ca)


def static_bootstrap(config: Config, *, with_secrets: bool, sockets: Sequence[str], ca: str | None = None,
                     limits: str = DEFAULT_LIMITS_ADDRESS, admin: str | None = None) -> Json:
    """One self-contained bootstrap as JSON data.

    `sockets`: the workers' addresses (`unix:/path` or `host:port`). `ca`: the file of trusted certificates, this
    machine's by default. `limits`: the address of `extproc limits`, unless the configuration names a service. `admin`:
    the address of Envoy's own admin endpoint; none by default."""
    made = _frame()
    if admin is not None:
        made.admin = bootstrap.Admin(address=address_of(admin, mode=0o600))
    made.static_resources = bootstrap.BootstrapStaticResources(
        listeners=_listeners(config, Inline(), sockets, with_secrets=with_secrets),
        clusters=_clusters(config, sockets, limits, ca or clusters.trusted_ca(), Inline(), with_secrets=with_secrets),
        secrets=[*provider_secrets(config, with_secrets=with_secrets), *edge_secrets(config)])
    # Copies the parts: YAML would print an object that occurs twice as an anchor and an alias.
    unshared: Json = msgspec.json.decode(msgspec.json.encode(to_json(made)))
    return unshared


def _frame() -> bootstrap.Bootstrap:
    return bootstrap.Bootstrap(
        node=core.Node(id="extproc", cluster="extproc"),
        layered_runtime=tracing.runtime(),
        bootstrap_extensions=[extension("envoy.bootstrap.internal_listener", internal.InternalListener())])


def _listeners(config: Config, sources: Sources, sockets: Sequence[str], *,
               with_secrets: bool) -> list[listener.Listener]:
    return [listeners.edge_listener(config, sources, with_secrets=with_secrets),
            *(listeners.internal_listener(name, backend, config, sources, with_secrets=with_secrets, sockets=sockets)
              for name, backend in config.backends.items()),
            *(proxy_listener(name, backend, with_secrets=with_secrets)
              for name, backend in config.backends.items() if backend.proxy is not None)]


def _clusters(config: Config, sockets: Sequence[str], limits: str, ca: str, sources: Sources, *,
              with_secrets: bool) -> list[cluster.Cluster]:
    shared = config.limits_service.address
    made = [clusters.processor_cluster(sockets), *worker_clusters(sockets),
            clusters.ratelimit_cluster(shared or limits, is_shared=shared is not None),
            *tracing.collector_clusters(config, ca)]
    for name, backend in config.backends.items():
        made.append(clusters.hop_cluster(name))
        made += provider_clusters(name, backend, config, ca, sources, with_secrets=with_secrets)
    return made


def _resources(messages: Iterable[betterproto2.Message]) -> Json:
    """The content of a file of resources. The version is a digest, so that Envoy's statistics show which content it
    uses."""
    resources = [to_json(pack(message)) for message in messages]
    version = hashlib.sha256(json_text({"": resources}).encode()).hexdigest()[:16]
    return {**to_json(discovery.DiscoveryResponse(version_info=version)), "resources": resources}
