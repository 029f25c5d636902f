"""The fields of envoy-data-plane's messages."""

from __future__ import annotations

import dataclasses
from typing import Any


def envoy_fields(message: Any) -> dict[str, Any]:
    """Field name -> betterproto2's record of its number, type and oneof."""
    return {field.name: field.metadata["betterproto"] for field in dataclasses.fields(message)}
