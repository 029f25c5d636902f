"""How parts of the configuration reach Envoy: from watched files (`extproc up`) or inline in one bootstrap.

The builders of listeners ask here for "the secret of backend X" and "this route table" and do not know which of the
two it is. Files are replaced by rename inside one directory that Envoy watches, so that a change of keys or routes
reaches Envoy without a restart of anything and without cutting a stream.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.config.route import v3 as route
from envoy_data_plane.envoy.extensions.filters.network.http_connection_manager import v3 as hcm
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls

from extproc.envoy_config.rendering import seconds

HOPS = "hops"
"""The name of the route table that the hops of a running gateway share."""

Table = Callable[[], route.RouteConfiguration]


class Sources(Protocol):
    """What the builders of listeners need to know about delivery."""

    def secret(self, name: str) -> tls.SdsSecretConfig:
        """A reference to the secret of this name."""
        ...

    def key_path(self, name: str) -> str | None:
        """The file that delivers the key of this name to a script; None where the key stands in the script itself."""
        ...

    def attach_routes(self, manager: hcm.HttpConnectionManager, table: route.RouteConfiguration) -> None:
        """Makes the connection manager use the route table."""
        ...

    def attach_hop(self, manager: hcm.HttpConnectionManager, table: Table, by_name: core.TypedExtensionConfig) -> None:
        """Makes the connection manager of a backend's hop use its route table, or its part of the table that all hops
        share; `by_name` names that part in each request."""
        ...


class WatchedFiles:
    """Everything in files of one directory: `rds-TABLE.json`, `sds-SECRET.json`, `key-KEY`, `lds.json`, `cds.json`.

    Envoy opens an inotify instance for each source that it watches, and Linux gives a user 128 by default; past them
    Envoy aborts. So nothing here is watched once per backend: the hops share a route table, and keys are not watched
    but read when they are used (`provider_keys`)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def config_source(self, file: str) -> core.ConfigSource:
        """The named file of the directory as a source of resources."""
        return core.ConfigSource(
            # Without a watched directory, any move in which would make Envoy read every file anew.
            path_config_source=core.PathConfigSource(path=str(self.directory / file)),
            resource_api_version=core.ApiVersion.V3,
            # Files are there before Envoy starts; 0 would wait for ever for one that is not.
            initial_fetch_timeout=seconds(5))

    def secret(self, name: str) -> tls.SdsSecretConfig:
        return tls.SdsSecretConfig(name=name, sds_config=self.config_source(secret_file(name)))

    def key_path(self, name: str) -> str | None:
        return str(self.directory / key_file_name(name))

    def attach_routes(self, manager: hcm.HttpConnectionManager, table: route.RouteConfiguration) -> None:
        self._watch_routes(manager, table.name)

    def attach_hop(self, manager: hcm.HttpConnectionManager, table: Table, by_name: core.TypedExtensionConfig) -> None:
        # All hops name the same file in the same words: Envoy then watches it once.
        self._watch_routes(manager, HOPS)
        manager.early_header_mutation_extensions = [by_name]

    def _watch_routes(self, manager: hcm.HttpConnectionManager, table: str) -> None:
        manager.rds = hcm.Rds(config_source=self.config_source(route_file(table)), route_config_name=table)


class Inline:
    """Everything in the bootstrap itself: route tables in their listeners, secrets under `static_resources`."""

    def secret(self, name: str) -> tls.SdsSecretConfig:
        return tls.SdsSecretConfig(name=name)

    def key_path(self, name: str) -> str | None:
        return None

    def attach_routes(self, manager: hcm.HttpConnectionManager, table: route.RouteConfiguration) -> None:
        manager.route_config = table

    def attach_hop(self, manager: hcm.HttpConnectionManager, table: Table, by_name: core.TypedExtensionConfig) -> None:
        manager.route_config = table()


def secret_file(name: str) -> str:
    """The file that delivers one secret."""
    return f"sds-{name}.json"


def key_file_name(name: str) -> str:
    """The file that delivers one of several keys."""
    return f"key-{name}"


def route_file(table: str) -> str:
    """The file that delivers one route table."""
    return f"rds-{table}.json"
