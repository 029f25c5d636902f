"""`extproc translate`: the gateway's translation on standard input and output, without a gateway."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from extproc.cli.shared import fail

if TYPE_CHECKING:
    from io import BufferedReader

    from extproc.translation.exchange import Translation

ClientOption = Annotated[str, typer.Option("--client", help="The API that the client speaks.", show_default=False)]
UpstreamOption = Annotated[str, typer.Option("--upstream", help="The API that the provider speaks.",
                                             show_default=False)]
ModelOption = Annotated[str | None, typer.Option(
    "--model", help="The provider's name of the model; the client's own when left out.", show_default=False)]

_READ_BYTES = 65536


def translate_request(client: ClientOption, upstream: UpstreamOption, model: ModelOption = None,
                      request: Annotated[Path | None, typer.Option(
                          "--request", help="Read the client's request from this file.", show_default=False)] = None,
                      ) -> None:
    """The client's request on standard input -> the provider's on standard output.

    A request that cannot be served gives the client's error body instead, and exit code 1."""
    body = _read_file(request) if request is not None else sys.stdin.buffer.read()
    translation, provider_body = _translation(client, upstream, model, body)
    dropped = [*translation.dropped.losses, *translation.dropped.hints]
    if dropped:
        typer.echo(f"dropped: {', '.join(dropped)}", err=True)
    _write(provider_body)


def translate_response(client: ClientOption, upstream: UpstreamOption, model: ModelOption = None,
                       request: Annotated[Path | None, typer.Option(
                           "--request", help="The client's request.", show_default=False)] = None,
                       ) -> None:
    """The provider's response on standard input (a stream or JSON) -> the client's on standard output.

    Needs the client's request, because a response depends on it: its tools, its ids, whether it streams."""
    if request is None:
        fail("--request: name the file with the client's request")
    translation, _ = _translation(client, upstream, model, _read_file(request))
    response = cast("BufferedReader", sys.stdin.buffer)
    data = response.read1(_READ_BYTES)
    translation.start(200, {"content-type": _content_type(data)})
    while data:
        _write(translation.feed(data))
        data = response.read1(_READ_BYTES)
    _write(translation.finish())
    if translation.failure is not None:
        fail(translation.failure.message)


def _translation(client: str, upstream: str, model: str | None, body: bytes) -> tuple[Translation, bytes]:
    """(the translation, the provider's request body). Exits with the client's error body if the request is refused."""
    from extproc import RequestError, Translation

    try:
        translation = Translation(client, upstream, model or _requested_model(body))
    except ValueError as error:
        fail(str(error))
    try:
        return translation, translation.request(body, {"content-type": "application/json"}).body
    except RequestError as error:
        _write(error.body + b"\n")
        fail(str(error))


def _requested_model(body: bytes) -> str:
    """The model named in the request; "" if it cannot be read, which the translation then reports."""
    try:
        request: Any = json.loads(body)
    except (ValueError, RecursionError):
        return ""
    name = request.get("model") if isinstance(request, dict) else None
    return name if isinstance(name, str) else ""


def _content_type(beginning: bytes) -> str:
    return "application/json" if beginning.lstrip()[:1] in (b"{", b"[") else "text/event-stream"


def _read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        fail(f"{path}: cannot be read: {error.strerror}")


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
