"""How parts of the configuration reach Envoy: from watched files (`extproc up`) or inline in one bootstrap.

The builders of listeners ask for "the secret of backend X" or "this route table" and do not know which of the two
applies. Files are replaced by rename inside one directory that Envoy watches, so changed keys and routes reach Envoy
without a restart and without cutting a stream.
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
    """How the builders of listeners refer to secrets, keys and route tables."""

    def secret(self, name: str) -> tls.SdsSecretConfig:
        """A reference to the secret of this name."""
        ...

    def key_path(self, name: str) -> str | None:
        """The file from which a script reads the key of this name; None if the script itself contains the key."""
        ...

    def attach_routes(self, manager: hcm.HttpConnectionManager, table: route.RouteConfiguration) -> None:
        """Makes the connection manager use the route table."""
        ...

    def attach_hop(self, manager: hcm.HttpConnectionManager, table: Table, name_hop: core.TypedExtensionConfig) -> None:
        """Makes the connection manager of a backend's hop use its own route table, or its part of the table that all
        hops share. `name_hop` adds the name of that part to each request."""
        ...


class WatchedFiles:
    """Everything in files of one directory: `rds-TABLE.json`, `sds-SECRET.json`, `key-KEY`, `lds.json`, `cds.json`.

    Envoy opens an inotify instance for each source that it watches. Linux gives a user 128 of them by default, and
    Envoy aborts if it gets none. So the number of watched files does not depend on the number of backends: the hops
    share a route table, and keys are read when they are used (`provider_keys`)."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def config_source(self, file: str) -> core.ConfigSource:
        """The named file of the directory as a source of resources."""
        return core.ConfigSource(
            # Without a watched directory: any move in it would make Envoy read all files again.
            path_config_source=core.PathConfigSource(path=str(self.directory / file)),
            resource_api_version=core.ApiVersion.V3,
            # All files exist before Envoy starts. With 0 it would wait for ever for a missing one.
            initial_fetch_timeout=seconds(5))

    def secret(self, name: str) -> tls.SdsSecretConfig:
        return tls.SdsSecretConfig(name=name, sds_config=self.config_source(secret_file(name)))

    def key_path(self, name: str) -> str | None:
        return str(self.directory / key_file_name(name))

    def attach_routes(self, manager: hcm.HttpConnectionManager, table: route.RouteConfiguration) -> None:
        self._watch_routes(manager, table.name)

    def attach_hop(self, manager: hcm.HttpConnectionManager, table: Table, name_hop: core.TypedExtensionConfig) -> None:
        # The references of all hops are equal, so Envoy watches the file once.
        self._watch_routes(manager, HOPS)
        manager.early_header_mutation_extensions = [name_hop]

    def _watch_routes(self, manager: hcm.HttpConnectionManager, table: str) -> None:
        manager.rds = hcm.Rds(config_source=self.config_source(route_file(table)), route_config_name=table)


class Inline:
    """Everything in the bootstrap itself: route tables in their listeners, secrets in `static_resources`."""

    def secret(self, name: str) -> tls.SdsSecretConfig:
        return tls.SdsSecretConfig(name=name)

    def key_path(self, name: str) -> str | None:
        return None

    def attach_routes(self, manager: hcm.HttpConnectionManager, table: route.RouteConfiguration) -> None:
        manager.route_config = table

    def attach_hop(self, manager: hcm.HttpConnectionManager, table: Table, name_hop: core.TypedExtensionConfig) -> None:
        manager.route_config = table()


def secret_file(name: str) -> str:
    """The file of one secret."""
    return f"sds-{name}.json"


def key_file_name(name: str) -> str:
    """The file of one key."""
    return f"key-{name}"


def route_file(table: str) -> str:
    """The file of one route table."""
    return f"rds-{table}.json"
