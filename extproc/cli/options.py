"""Options that several commands have, and the addresses that hold when nothing else is said."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_PROCESSOR = "127.0.0.1:50051"
"""Where `serve` listens and `envoy-config` looks for it, when nothing else is said."""
DEFAULT_LIMITS = "127.0.0.1:50052"
"""Where the process that counts listens and `envoy-config` looks for it, when nothing else is said."""
DEFAULT_ADMIN = "127.0.0.1:9902"
"""Where `up` and `serve` have their admin port, when nothing else is said."""

ConfigOption = Annotated[Path, typer.Option("--config", help="The configuration file (YAML or JSON).",
                                            show_default=False)]
OptionalConfig = Annotated[Path | None, typer.Option(
    "--config", show_default=False,
    help="The configuration file (YAML or JSON). Without one: the model `demo`, which works offline, and "
         "`<provider>/*` for each provider whose usual environment key is set.")]
ClientOption = Annotated[str, typer.Option("--client", help="The API that the client speaks.", show_default=False)]
UpstreamOption = Annotated[str, typer.Option("--upstream", help="The API that the provider speaks.",
                                             show_default=False)]
ModelOption = Annotated[str | None, typer.Option(
    "--model", help="The provider's name of the model; the client's own when left out.", show_default=False)]
