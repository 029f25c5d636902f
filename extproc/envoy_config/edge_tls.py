"""TLS for clients: the edge listener's side of it, and its certificate as a secret that Envoy reads from files.

As a secret the certificate is apart from the listener: Envoy takes a new pair for new connections, while those that run
go on. It reads the pair again when something moves in a folder of the runtime directory, where `extproc up` rings for
any kind of change (`extproc.gateway.certificates`). A static bootstrap reads the files at its start.
"""

from __future__ import annotations

from pathlib import Path

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls

from extproc.config import Config
from extproc.envoy_config.rendering import pack
from extproc.envoy_config.resource_sources import Sources

_SECRET = "certificate-edge"


def edge_transport(config: Config, sources: Sources) -> core.TransportSocket | None:
    """TLS 1.2 or newer (Envoy's own minimum), HTTP/2 where the client wants it; None for clear text."""
    if config.tls is None:
        return None
    return core.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(tls.DownstreamTlsContext(
        common_tls_context=tls.CommonTlsContext(
            alpn_protocols=["h2", "http/1.1"],
            tls_certificate_sds_secret_configs=[sources.secret(_SECRET)]))))


def edge_secrets(config: Config, reload_trigger: Path | None = None) -> list[tls.Secret]:
    """The certificate's secret, which names files and holds no key itself. `reload_trigger`: the folder in which a
    moved file makes Envoy read the pair again."""
    if config.tls is None:
        return []
    return [tls.Secret(name=_SECRET, tls_certificate=tls.TlsCertificate(
        certificate_chain=core.DataSource(filename=config.tls.certificate),
        private_key=core.DataSource(filename=config.tls.key),
        watched_directory=None if reload_trigger is None else core.WatchedDirectory(
            path=str(reload_trigger))))]
