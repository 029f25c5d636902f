"""Certificates for tests, made with the program openssl: an authority of our own and what it signs."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

needs_openssl = pytest.mark.skipif(
    shutil.which("openssl") is None,
    reason="the certificates are made with the program openssl, which is not installed")

_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


def authority(folder: Path, name: str) -> Path:
    """NAME.pem (returned) and NAME.key of a certificate authority of our own."""
    openssl(folder, "req", "-x509", *_NEW_KEY, "-days", "2", "-subj", f"/CN={name}", "-addext",
            "basicConstraints=critical,CA:TRUE", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    return folder / f"{name}.pem"


def certificate(folder: Path, ca: str, names: str, own: str) -> tuple[Path, Path]:
    """OWN.pem and OWN.key, signed by the authority `ca`, for these names (`DNS:...`, `IP:...`)."""
    (folder / f"{own}.ext").write_text(f"subjectAltName={names}\n")
    openssl(folder, "req", *_NEW_KEY, "-subj", "/CN=test", "-keyout", f"{own}.key", "-out", f"{own}.csr")
    openssl(folder, "x509", "-req", "-in", f"{own}.csr", "-CA", f"{ca}.pem", "-CAkey", f"{ca}.key", "-CAcreateserial",
            "-days", "2", "-extfile", f"{own}.ext", "-out", f"{own}.pem")
    return folder / f"{own}.pem", folder / f"{own}.key"


def server_context(folder: Path, ca: str, names: str, own: str) -> ssl.SSLContext:
    """For a server with such a certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate(folder, ca, names, own))
    return context
