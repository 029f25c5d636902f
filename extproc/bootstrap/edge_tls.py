"""TLS for clients: the edge listener's side of it, and its certificate as a secret that Envoy reads from files.

As a secret the certificate is apart from the listener: Envoy watches the folder of the certificate and takes a new pair
for new connections, while those that run go on. That holds for secrets that come in a file of their own (`extproc up`);
a static bootstrap reads the files at its start.
"""

from __future__ import annotations

import os

from envoy_data_plane.envoy.config.core import v3 as core
from envoy_data_plane.envoy.extensions.transport_sockets.tls import v3 as tls

from extproc.bootstrap.rendering import pack
from extproc.bootstrap.sources import Sources
from extproc.config import Config

_SECRET = "certificate-edge"


def edge_transport(config: Config, sources: Sources) -> core.TransportSocket | None:
    """TLS 1.2 or newer (Envoy's own minimum), HTTP/2 where the client wants it; None for clear text."""
    if config.tls is None:
        return None
    return core.TransportSocket(name="envoy.transport_sockets.tls", typed_config=pack(tls.DownstreamTlsContext(
        common_tls_context=tls.CommonTlsContext(
            alpn_protocols=["h2", "http/1.1"],
            tls_certificate_sds_secret_configs=[sources.secret(_SECRET)]))))


def edge_secrets(config: Config) -> list[tls.Secret]:
    """The certificate's secret, which names files and holds no key itself."""
    if config.tls is None:
        return []
    return [tls.Secret(name=_SECRET, tls_certificate=tls.TlsCertificate(
        certificate_chain=core.DataSource(filename=config.tls.certificate),
        private_key=core.DataSource(filename=config.tls.key),
        watched_directory=core.WatchedDirectory(path=os.path.dirname(config.tls.certificate))))]
